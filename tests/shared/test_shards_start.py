"""Processes that start while one of two shards is away; acme is on the first shard, hooli on the second."""
import json
import subprocess

import pytest

from tests.kit.program import BINARY, environment
from tests.kit.waiting import LIMIT_S, wait_for
from tests.shared.sharded import Place, start_work, state_of


@pytest.fixture(params=["postgres", "redis"])
def pair(request, make_server, tmp_path):
    """A store that is set up, and the servers of its shards."""
    first, second = (make_server(request.param, durable=True) for _ in range(2))
    place = Place(tmp_path, [first.url, second.url])
    place.run("migrate")
    yield place, (first, second)
    place.close()


def test_a_server_starts_while_a_shard_is_away_and_opens_it_when_it_is_back(pair):
    place, (_, second) = pair
    waits = json.loads(place.run("enqueue", "good", "--tenant", "hooli", "--json").stdout)["id"]
    second.kill()
    server = place.serve().ready()
    acme, hooli = place.api(server, "acme"), place.api(server, "hooli")
    for _ in range(2):
        answer = hooli("POST", "/jobs", {"task": "good"})
        assert answer.status == 503 and int(answer.headers["Retry-After"]) > 0
        assert "shard 2" in answer["detail"]
    assert "shard 2" in hooli.problem(503, "GET", "/jobs")["detail"]
    done = acme.submit("good")
    wait_for(lambda: state_of(acme, done) == "completed", "acme's job")
    health = json.loads(server.get("/health")[1])
    assert "shard 2" in json.dumps(health), health
    assert server.logged(r"store_failed.*shard 2\b")
    assert server.log().count("store_failed") == 1

    second.start()
    wait_for(lambda: state_of(hooli, waits) == "completed", "the job from before")
    assert server.logged(r"store_works_again.*shard 2\b")
    done = hooli.submit("good")
    wait_for(lambda: state_of(hooli, done) == "completed", "hooli's job")
    wait_for(lambda: "shard 2" not in server.get("/health")[1], lambda: server.get("/health")[1])
    assert server.stop() == 0


def test_workers_and_commands_go_on_without_a_shard(pair):
    place, (_, second) = pair
    second.kill()
    place.run("enqueue", "good", "--tenant", "acme")
    refused = place.run("enqueue", "good", "--tenant", "hooli", code=1).stderr
    assert "shard 2" in refused
    worker = start_work(place)
    out, said = worker.communicate(timeout=LIMIT_S)
    assert worker.returncode == 1 and json.loads(out)["completed"] == 1, out + said
    assert "a shard is away: its jobs were not looked at" in said and "shard 2" in said
    assert [job["state"] for job in place.jobs("--tenant", "acme")] == ["completed"]
    assert "shard 2" in place.run("jobs", "list", code=1).stderr
    assert "shard 2" in place.run("migrate", code=1).stderr


def test_without_any_shard_a_server_does_not_start(pair):
    place, servers = pair
    for one in servers:
        one.kill()
    done = subprocess.run([str(BINARY), "serve", "-c", str(place.config)], stdin=subprocess.DEVNULL,
                          capture_output=True, text=True, timeout=LIMIT_S, env=environment())
    assert done.returncode == 1 and "shard 1" in done.stderr, done.stderr
