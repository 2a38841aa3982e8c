"""A store that is spread over several others: every command and interface sees one store."""
import contextlib
import json
import re
import signal
import sqlite3
import subprocess
import time

import pytest

from tests.kit.program import BINARY, environment
from tests.kit.stores import start_or_skip
from tests.kit.waiting import LIMIT_S, wait_for
from tests.shared.sharded import TENANTS, Place, rows, start_work, state_of, urls_of


@pytest.fixture(params=["sqlite", "postgres", "redis"])
def place(request, tmp_path):
    exits = []
    bench = Place(tmp_path, urls_of(request.param, tmp_path, exits))
    yield bench
    bench.close()
    for server in exits:
        server.close()


@pytest.fixture
def files(tmp_path):
    bench = Place(tmp_path, urls_of("sqlite", tmp_path, []))
    yield bench
    bench.close()


def test_jobs_of_all_shards_are_run_listed_and_redriven(place):
    for tenant in TENANTS:
        for task in ("good", "good", "bad"):
            place.run("enqueue", task, "--tenant", tenant)
    summary = place.json("work", "--until-idle", code=3)
    assert (summary["completed"], summary["dead"], summary["ready"]) == (12, 6, 0)

    jobs = place.jobs()
    assert sorted((job["tenant"], job["state"]) for job in jobs) == sorted(
        (tenant, state) for tenant in TENANTS for state in ("completed", "completed", "dead_letter"))
    assert len({job["id"] for job in jobs}) == 18
    assert len(place.jobs("--tenant", "acme")) == 3

    dead = place.json("dlq", "list")["items"]
    assert sorted(job["tenant"] for job in dead) == sorted(TENANTS)
    shown = place.json("jobs", "show", dead[0]["id"], "--tenant", dead[0]["tenant"])
    assert shown["state"] == "dead_letter" and len(shown["history"]) == 1

    place.run("dlq", "retry", "--all")
    assert place.json("dlq", "list")["items"] == []
    assert place.json("work", "--until-idle", code=3)["dead"] == 6
    stats = place.json("stats")
    assert (stats["sizes"]["dead_letter"], stats["counters"]["jobs_dlq"]) == (6, 12)
    assert sorted(queue["tenant"] for queue in stats["queues"]) == sorted(TENANTS)


def test_a_server_of_shards_serves_every_tenant_its_own(place):
    server = place.serve("--no-work").ready()
    for tenant in TENANTS:
        api = place.api(server, tenant)
        api.submit("far", payload={"of": tenant})
        mine = api.claim_one()
        assert mine["payload"] == {"of": tenant}
        api.settle(mine, status="SUCCESS")
        assert [item["state"] for item in api.ok("GET", "/jobs")["items"]] == ["completed"]
        metrics = server.get("/metrics", f"secret-{tenant}")[1]
        assert re.search(r'redrive_jobs_finished_total\{[^}]*outcome="completed"\} 1\b', metrics), metrics
    assert server.get("/health")[0] == 200
    place.config.write_text(place.config.read_text() + "  weekly: {task: far, schedule: '0 4 * * 0'}\n")
    server.reload()
    assert server.logged(r"\breloaded\b")
    assert server.stop() == 0


def test_jobs_of_all_shards_wait_for_others(place):
    for tenant in TENANTS:
        place.run("enqueue", "good", "--id", "a", "--tenant", tenant)
        place.run("enqueue", "bad", "--id", "b", "--tenant", tenant)
        place.run("enqueue", "good", "--id", "both", "--tenant", tenant, "--after", "a", "--after", "b")
        place.run("enqueue", "good", "--id", "end", "--tenant", tenant, "--after", "b", "--on", "end")
        place.run("enqueue", "good", "--id", "not", "--tenant", tenant, "--after", "b", "--on-dead", "cancel")
    shown = place.json("jobs", "show", "both", "--tenant", "hooli")
    assert [(parent["id"], parent["outcome"]) for parent in shown["after"]] == [("a", "open"), ("b", "open")]
    assert len(place.json("jobs", "show", "b", "--tenant", "hooli")["followers"]) == 3
    place.json("work", "--until-idle", code=3)
    expected = {"a": "completed", "b": "dead_letter", "both": "waiting", "end": "completed", "not": "cancelled"}
    for tenant in TENANTS:
        assert {job["id"]: job["state"] for job in place.jobs("--tenant", tenant)} == expected
    place.run("dlq", "purge", "--older-than", "0", "--yes")
    for tenant in TENANTS:
        job = place.json("jobs", "show", "both", "--tenant", tenant)
        assert (job["state"], job["reason"]) == ("cancelled", "skipped")


def test_a_periodic_task_of_the_configuration_is_on_one_shard(files):
    server = files.serve("--no-work").ready()
    wait_for(lambda: sum(len(rows(url, "SELECT 1 FROM shared WHERE kind = 4")) for url in files.urls) > 0, "its row")
    server.stop()
    assert sorted(len(rows(url, "SELECT 1 FROM shared WHERE kind = 4")) for url in files.urls) == [0, 0, 0, 1]
    assert [item["name"] for item in files.json("cron", "list")["items"]] == ["nightly"]


def test_what_is_done_to_a_queue_or_breaker_concerns_its_tenant(files):
    files.run("enqueue", "good", "--tenant", "acme")
    files.run("enqueue", "good", "--tenant", "hooli")
    files.run("queues", "pause", "default", "--tenant", "acme")
    assert files.json("work", "--until-idle")["completed"] == 1
    assert {job["tenant"]: job["state"] for job in files.jobs()} == {"acme": "queued", "hooli": "completed"}
    files.run("queues", "resume", "default", "--tenant", "acme")
    files.run("breakers", "trip", "good", "--tenant", "hooli")
    states = {(item["tenant"], item["key"]): item["state"] for item in files.json("breakers", "list")["items"]}
    assert states["hooli", "good"] == "forced_open"
    assert files.json("work", "--until-idle")["completed"] == 1


def test_other_shards_than_those_of_the_store_are_refused_with_both_lists(files):
    files.run("enqueue", "good")
    for wrong, differs in ((files.urls[::-1], 1), (files.urls[:3], 4), (files.urls[:3] + [files.urls[3] + "x"], 4)):
        refused = files.run("enqueue", "good", "--store", "shards:" + " ".join(wrong), code=1).stderr
        assert f"not the shards that the store was made of: they differ from shard {differs} on" in refused
        for what, urls in (("given", wrong), ("the store's own list", files.urls)):
            shown = re.search(rf"{what}: (.*?)( and (\d) more)?(;|\n)", refused)
            n = len(urls) - int(shown[3] or 0)
            assert shown[1] == " ".join(urls[:n]) and n >= 1
    alone = files.run("jobs", "list", "--store", files.urls[1], code=1).stderr
    assert "this is shard 2 of 4" in alone


@pytest.mark.parametrize("shards, why", [
    ("[sqlite:a.db]", "no list of 2 to 16 stores"),
    ("sqlite:a.db", "no list of 2 to 16 stores"),
    ("[sqlite:a.db, 'memory:']", "not a store that can be a shard"),
    ("[sqlite:a.db, 'sqlite:b c.db']", "not a store that can be a shard"),
    ("[sqlite:a.db, sqlite:a.db]", "the same store as another shard"),
    ("[" + ", ".join(f"sqlite:{i}.db" for i in range(17)) + "]", "no list of 2 to 16 stores"),
])
def test_a_list_of_shards_that_makes_no_sense_is_refused(tmp_path, shards, why):
    config = tmp_path / "redrive.yaml"
    config.write_text(f"store: {{shards: {shards}}}\n")
    done = subprocess.run([str(BINARY), "config", "check", "-c", str(config)], capture_output=True, text=True,
                          timeout=LIMIT_S, env=environment())
    assert done.returncode == 2 and why in done.stderr, done.stderr


def test_passwords_of_shards_are_not_shown(tmp_path):
    config = tmp_path / "redrive.yaml"
    config.write_text('store: {shards: ["postgres://u:geheim@127.0.0.1:1/a", "postgres://u:geheim@127.0.0.1:1/b"]}\n')
    for words in (("config", "show"), ("jobs", "list"), ("doctor",)):
        done = subprocess.run([str(BINARY), *words, "-c", str(config)], capture_output=True, text=True,
                              timeout=LIMIT_S, env=environment())
        assert "geheim" not in done.stdout + done.stderr
        assert "127.0.0.1:1" in done.stdout + done.stderr


@pytest.mark.parametrize("words", [("export", 1), ("backup", 2)])
def test_what_cannot_be_done_over_shards_says_so(files, words):
    files.run("enqueue", "good")
    refused = files.run(words[0], str(files.dir / "copy"), code=words[1])
    assert "not with shards yet" in refused.stderr


def two_servers(stack, tmp_path):
    """acme is on the first of two shards, hooli on the second."""
    first, second = (stack.enter_context(start_or_skip("redis", durable=True)) for _ in range(2))
    place = Place(tmp_path, [first.url, second.url])
    stack.callback(place.close)
    return place, second


def test_while_a_shard_is_away_its_tenants_are_told_and_the_others_go_on(tmp_path):
    with contextlib.ExitStack() as stack:
        place, second = two_servers(stack, tmp_path)
        server = place.serve().ready()
        acme, hooli = place.api(server, "acme"), place.api(server, "hooli")
        held = hooli.submit("held")
        wait_for(lambda: state_of(hooli, held) == "running", "the job that is held")
        second.kill()
        place.let_go()

        refused = hooli.problem(503, "POST", "/jobs", {"task": "good"})
        assert "shard 2" in refused["detail"], refused
        for _ in range(20):
            acme.submit("good")
        wait_for(lambda: [job["state"] for job in acme.ok("GET", "/jobs")["items"]] == ["completed"] * 20,
                 "acme's jobs")
        wait_for(lambda: "shard 2" in server.get("/health")[1], lambda: server.get("/health")[1])
        assert "shard 2" in place.run("jobs", "list", code=1).stderr
        server.wait_log("settlement_failed")

        second.start()
        wait_for(lambda: state_of(hooli, held) == "completed", "the settlement")
        assert hooli.ok("GET", f"/jobs/{held}")["attempts"] == 1
        hooli.submit("good")
        assert server.stop() == 0


def test_a_failure_on_a_shard_that_is_away_does_not_stop_its_task(tmp_path):
    """Until a failure is settled no other job of its breaker starts: not those of the other tenants."""
    with contextlib.ExitStack() as stack:
        place, second = two_servers(stack, tmp_path)
        server = place.serve().ready()
        acme, hooli = place.api(server, "acme"), place.api(server, "hooli")
        held = hooli.submit("torn")
        wait_for(lambda: state_of(hooli, held) == "running", "the job that is to fail")
        second.kill()
        place.let_go()
        server.wait_log("settlement_failed")
        for _ in range(5):
            acme.submit("torn")
        wait_for(lambda: [job["state"] for job in acme.ok("GET", "/jobs")["items"]] == ["completed"] * 5,
                 "acme's jobs")
        second.start()
        wait_for(lambda: state_of(hooli, held) == "retrying", "the settlement")
        assert hooli.ok("GET", f"/jobs/{held}")["attempts"] == 1
        assert server.stop() == 0


def test_a_worker_until_idle_waits_for_a_shard_that_is_slow(tmp_path):
    """Another process holds hooli's file while hooli's job becomes due and acme's job ends."""
    bench = Place(tmp_path, [f"sqlite:{tmp_path}/shard-{i}.db" for i in range(2)])
    bench.run("enqueue", "held", "--tenant", "acme")
    bench.run("enqueue", "good", "--tenant", "hooli", "--delay", "1500ms")
    due = time.monotonic() + 1.5
    worker = start_work(bench)
    wait_for(lambda: [job["state"] for job in bench.jobs("--tenant", "acme")] == ["running"], "acme's job")
    other = sqlite3.connect(bench.urls[1].removeprefix("sqlite:"), isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    wait_for(lambda: time.monotonic() > due, "hooli's job to be due")
    bench.let_go()
    wait_for(lambda: [job["state"] for job in bench.jobs("--tenant", "acme")] == ["completed"], "its end")
    other.execute("ROLLBACK")
    other.close()
    out, said = worker.communicate(timeout=LIMIT_S)
    assert worker.returncode == 0, said
    assert json.loads(out)["completed"] == 2, out + said


def test_a_worker_until_idle_names_a_shard_that_is_away(tmp_path):
    with contextlib.ExitStack() as stack:
        place, second = two_servers(stack, tmp_path)
        place.run("enqueue", "held", "--tenant", "acme")
        place.run("enqueue", "good", "--tenant", "hooli", "--delay", "1h")
        worker = start_work(place)
        wait_for(lambda: [job["state"] for job in place.jobs("--tenant", "acme")] == ["running"], "acme's job")
        second.kill()
        place.let_go()
        out, said = worker.communicate(timeout=LIMIT_S)
        assert worker.returncode == 1, out + said
        assert json.loads(out)["completed"] == 1
        assert "a shard is away: its jobs were not looked at" in said and "shard 2" in said, said


def test_a_worker_until_idle_gives_up_a_job_of_a_shard_that_is_away(tmp_path):
    """Its outcome cannot be settled: it is left to the end of its lease."""
    with contextlib.ExitStack() as stack:
        place, second = two_servers(stack, tmp_path)
        place.run("enqueue", "brief", "--tenant", "hooli")
        worker = start_work(place)
        wait_for(lambda: [job["state"] for job in place.jobs("--tenant", "hooli")] == ["running"], "hooli's job")
        second.kill()
        place.let_go()
        out, said = worker.communicate(timeout=LIMIT_S)
        assert worker.returncode == 1, out + said
        assert "settlement_lost" in said and "shard 2" in said, said
        second.start()
        wait_for(lambda: place.json("work", "--until-idle")["completed"] == 1, "the second attempt")


def test_a_shard_that_hangs_does_not_hold_up_the_tenants_of_the_others(tmp_path):
    with contextlib.ExitStack() as stack:
        place, second = two_servers(stack, tmp_path)
        server = place.serve().ready()
        acme, hooli = place.api(server, "acme"), place.api(server, "hooli")
        hooli.submit("good")

        def time_of_jobs():
            since = time.monotonic()
            jobs = [acme.submit("good") for _ in range(20)]
            wait_for(lambda: all(state_of(acme, job) == "completed" for job in jobs), "acme's jobs")
            return time.monotonic() - since

        def time_of_a_refusal():
            since = time.monotonic()
            refused = hooli.problem(503, "POST", "/jobs", {"task": "good"})
            assert "shard 2" in refused["detail"], refused
            return time.monotonic() - since

        # Others may keep the machine busy just while the shard hangs, but not each time.
        tries = []
        while not tries or (tries[-1][0] >= 4 + 2 * tries[-1][1] and len(tries) < 5):
            usual_s = time_of_jobs()
            second.process.send_signal(signal.SIGSTOP)
            try:
                tries.append((time_of_jobs(), usual_s))
                wait_for(lambda: "shard 2" in server.get("/health")[1], lambda: server.get("/health")[1])
                assert len(acme.ok("GET", "/jobs", state="completed", task="good", limit=500)["items"]) >= 20
                assert any(time_of_a_refusal() < 4 for _ in range(5))
            finally:
                second.process.send_signal(signal.SIGCONT)
            wait_for(lambda: "shard 2" not in server.get("/health")[1], lambda: server.get("/health")[1])
        took_s, usual_s = tries[-1]
        assert took_s < 4 + 2 * usual_s, tries
        done = hooli.submit("good")
        wait_for(lambda: state_of(hooli, done) == "completed", "hooli's job")
        assert server.stop() == 0
