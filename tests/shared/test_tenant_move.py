"""`redrive move --tenant`: a tenant goes to another shard while a server and workers run; the log of the handlers is the
witness that no job is lost, and that none runs twice."""
import json
import random
import re
import signal
import sqlite3
import subprocess
import threading
import time

import pytest

from tests.kit.program import BINARY, environment
from tests.kit.waiting import LIMIT_S, wait_for
from tests.shared.sharded import N_SHARDS, TENANTS, Place, rows, urls_of


@pytest.fixture(params=["sqlite", "postgres", "redis"])
def place(request, tmp_path):
    exits = []
    bench = Place(tmp_path, urls_of(request.param, tmp_path, exits))
    runs_path = tmp_path / "runs"
    text = bench.config.read_text().replace(
        "  far: {}", f"  far: {{}}\n  note: {{run: {{exec: [sh, -c, 'echo $REDRIVE_TENANT $REDRIVE_JOB_ID >> {runs_path}'], "
        "concurrency: 4}, lease: 60s}")
    bench.config.write_text(text)
    bench.runs_path = runs_path
    yield bench
    bench.close()
    for server in exits:
        server.close()


def all_are_completed(place, n):
    """In pages that are large, as each is a program that opens all shards, and small enough for the list to go on."""
    jobs = place.jobs("--tenant", "acme", page_size=150)
    assert len({job["id"] for job in jobs}) == len(jobs) == n
    assert {job["state"] for job in jobs} == {"completed"}


def shard_of(place, tenant):
    return place.json("move", "--tenant", tenant, "--dry-run")["from"]


def runs(place):
    return sorted(line.split()[-1] for line in place.runs_path.read_text().splitlines()) if place.runs_path.exists() else []


def submit(place, port_api, n, sent, stop=None):
    """Submits jobs with ids, each until it is accepted."""
    for i in range(n):
        while True:
            answer = port_api("POST", "/jobs", {"task": "note", "id": f"w{i}"})
            if answer.status in (200, 201):
                break
            assert answer.status == 503, answer.body
            assert "moved" in answer["title"] + answer["detail"] or "shard" in answer["detail"], answer.body
            time.sleep(0.05)
        sent.append(f"w{i}")
        time.sleep(0.01)


def test_a_tenant_is_moved_while_it_works_and_others_go_on(place):
    server = place.serve().ready()
    acme, hooli = place.api(server, "acme"), place.api(server, "hooli")
    here = shard_of(place, "acme")
    to = here % N_SHARDS + 1
    sent = []
    thread = threading.Thread(target=submit, args=(place, acme, 300, sent))
    thread.start()
    wait_for(lambda: len(sent) > 50, "the first jobs")
    moved = place.json("move", "--tenant", "acme", "--to", str(to))
    assert (moved["from"], moved["to"]) == (here, to)
    thread.join(LIMIT_S)
    assert not thread.is_alive() and len(sent) == 300
    wait_for(lambda: len(runs(place)) >= 300, lambda: len(runs(place)))
    assert runs(place) == sorted(sent)
    assert shard_of(place, "acme") == to
    all_are_completed(place, 300)
    other = hooli.submit("good")
    wait_for(lambda: hooli.ok("GET", f"/jobs/{other}")["state"] == "completed", "the other tenant")
    assert acme.ok("GET", "/jobs/w0")["state"] == "completed"
    assert "is on shard" in place.run("move", "--tenant", "acme").stdout
    assert server.stop() == 0


def test_a_move_that_is_killed_again_and_again_loses_and_doubles_nothing(place):
    server = place.serve().ready()
    acme = place.api(server, "acme")
    here, sent = shard_of(place, "acme"), []
    targets = [(here + k - 1) % N_SHARDS + 1 for k in (1, 2)]
    chance = random.Random(4)
    thread = threading.Thread(target=submit, args=(place, acme, 400, sent))
    thread.start()
    wait_for(lambda: len(sent) > 50, "the first jobs")
    kills = 0
    for to in targets:
        for _ in range(40):
            command = subprocess.Popen([str(BINARY), "move", "--tenant", "acme", "--to", str(to), "--json", "-c",
                                        str(place.config)], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                       stderr=subprocess.PIPE, text=True, env=environment())
            try:
                out, said = command.communicate(timeout=chance.uniform(0.02, 4.5 + kills))  # a slow machine needs longer
            except subprocess.TimeoutExpired:
                command.kill()
                command.communicate()
                kills += 1
                continue
            assert command.returncode == 0, said
            break
        else:
            raise AssertionError("the move has not come to its end")
    thread.join(LIMIT_S)
    assert not thread.is_alive() and len(sent) == 400 and kills > 0
    wait_for(lambda: len(runs(place)) >= 400, lambda: len(runs(place)))
    assert runs(place) == sorted(sent)
    assert shard_of(place, "acme") == targets[-1]
    all_are_completed(place, 400)
    assert server.stop() == 0


def begin(place, *words):
    return subprocess.Popen([str(BINARY), "move", "--tenant", "acme", *words, "-c", str(place.config)],
                            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                            env=environment())


def run_and_kill(place, after_s, *words):
    """The command's exit code and what it said; None: it was killed before its end."""
    command = begin(place, *words)
    try:
        _, said = command.communicate(timeout=after_s)
    except subprocess.TimeoutExpired:
        command.kill()
        command.communicate()
        return None
    return command.returncode, said


def test_moves_that_are_killed_and_taken_back_lose_and_double_nothing(place):
    server = place.serve().ready()
    acme = place.api(server, "acme")
    sent = []
    chance = random.Random(5)
    thread = threading.Thread(target=submit, args=(place, acme, 300, sent))
    thread.start()
    wait_for(lambda: len(sent) > 50, "the first jobs")
    backs, longest_s = 0, 2.0
    for _ in range(20):
        to = shard_of(place, "acme") % N_SHARDS + 1
        if run_and_kill(place, chance.uniform(0.3, longest_s), "--to", str(to)):
            continue  # it has come to its end
        outcome = run_and_kill(place, chance.uniform(0.02, 2.5), "--back") or run_and_kill(place, LIMIT_S, "--back")
        code, said = outcome
        backs += code == 0
        if code != 0 and "has taken over" in said:
            assert run_and_kill(place, LIMIT_S)[0] == 0  # it goes on
        elif code != 0:
            assert "no move of the tenant is under way" in said, said
            longest_s += 0.5  # a slow machine had not begun it
        if backs == 3:
            break
    assert backs > 0
    thread.join(LIMIT_S)
    assert not thread.is_alive() and len(sent) == 300
    wait_for(lambda: len(runs(place)) >= 300, lambda: len(runs(place)))
    assert runs(place) == sorted(sent)
    all_are_completed(place, 300)
    assert server.stop() == 0


def stop_while_it_holds(place, api, *words):
    """A move that was stopped when it had begun to hold the tenant."""
    command = begin(place, *words)
    try:
        wait_for(lambda: command.poll() is not None or api("GET", "/jobs/w0").status == 503, "the tenant to be held")
        command.send_signal(signal.SIGSTOP)
        assert command.poll() is None, command.communicate()
    except BaseException:
        command.kill()
        command.communicate()
        raise
    return command


@pytest.mark.parametrize("then", ["again", "back"])
def test_a_move_that_was_stopped_changes_nothing_when_it_goes_on(place, then):
    server = place.serve().ready()
    acme = place.api(server, "acme")
    here, sent = shard_of(place, "acme"), []
    to = here % N_SHARDS + 1
    thread = threading.Thread(target=submit, args=(place, acme, 200, sent))
    thread.start()
    wait_for(lambda: len(sent) > 50, "the first jobs")
    stopped = stop_while_it_holds(place, acme, "--to", str(to))

    def other_is_done():
        """If the first one was stopped within a transaction, what it has locked makes the other one fail."""
        code, _ = run_and_kill(place, LIMIT_S, *(["--to", str(to)] if then == "again" else ["--back"]))
        if code != 0:
            stopped.send_signal(signal.SIGCONT)
            time.sleep(0.02)
            stopped.send_signal(signal.SIGSTOP)
        return code == 0

    wait_for(other_is_done, "the other command")
    stopped.send_signal(signal.SIGCONT)
    _, said = stopped.communicate(timeout=LIMIT_S)
    # Or it has used up its tries in the moments in which both went on.
    assert stopped.returncode == 1 and re.search("another process moves the tenant|other processes are in the way", said), said
    thread.join(LIMIT_S)
    assert not thread.is_alive() and len(sent) == 200
    wait_for(lambda: len(runs(place)) >= 200, lambda: len(runs(place)))
    assert runs(place) == sorted(sent)
    assert shard_of(place, "acme") == (to if then == "again" else here)
    all_are_completed(place, 200)
    assert server.stop() == 0


def test_what_cannot_be_moved_says_so(place, tmp_path):
    place.run("enqueue", "far", "--tenant", "acme")
    assert "--to names no shard" in place.run("move", "--tenant", "acme", "--to", "9", code=2).stderr
    assert "goes with --to" in place.run("move", "--tenant", "acme", "--from", "sqlite:a.db", code=2).stderr
    plain = subprocess.run([str(BINARY), "move", "--tenant", "acme", "--to", "1", "--store", f"sqlite:{tmp_path}/plain.db"],
                           capture_output=True, text=True, timeout=LIMIT_S, env=environment(), cwd=tmp_path)
    assert plain.returncode == 2 and "needs a store with shards" in plain.stderr
    by_url = json.loads(place.run("move", "--tenant", "acme", "--to", place.urls[2], "--json").stdout)
    assert by_url["to"] == 3
    assert "no move of the tenant is under way" in place.run("move", "--tenant", "acme", "--back", code=1).stderr
    assert "--back goes without --to" in place.run("move", "--tenant", "acme", "--back", "--to", "1", code=2).stderr
    assert "--back has no effect without --tenant" in place.run("move", "--back", code=2).stderr


def test_a_process_with_the_old_list_says_that_it_must_be_restarted(place):
    with_shards(place, place.urls[:3])
    server = place.serve().ready()
    acme = place.api(server, "acme")
    acme.submit("far", id="before")
    with_shards(place, place.urls)
    place.run("migrate", "--add-shards")
    place.run("move", "--tenant", "acme", "--to", "4")
    written = acme("POST", "/jobs", {"task": "far"})
    wait_for(lambda: "does not know" in acme("GET", "/jobs/before")["detail"], "the reader, which looks once a second")
    for answer in (written, acme("GET", "/jobs/before")):
        assert answer.status == 503
        assert "a shard that this process does not know" in answer["detail"], answer.body
        assert "shard 4" in answer["detail"] and "started with 3" in answer["detail"], answer.body
        assert "shard3" in answer["detail"].replace("shard-", "shard"), answer.body  # its address
        assert "restart" in answer.body["hint"], answer.body
    assert server.stop() == 0


def with_shards(place, urls):
    """The configuration of the place, with another list."""
    text = place.config.read_text()
    place.config.write_text(f"store: {{shards: {json.dumps(urls)}}}\n" + "\n".join(text.strip().splitlines()[1:]) + "\n")


def test_a_shard_is_added_and_gets_a_tenant(place):
    fewer = place.urls[:3]
    with_shards(place, fewer)
    for tenant in TENANTS:
        place.run("enqueue", "note", "--tenant", tenant, "--id", f"of-{tenant}")
    before = {tenant: shard_of(place, tenant) for tenant in TENANTS}
    with_shards(place, place.urls)
    assert "--add-shards" in place.run("enqueue", "far", code=1).stderr
    added = place.json("migrate", "--add-shards")
    assert added == {"shards_before": 3, "shards": 4}
    assert place.json("migrate", "--add-shards") == {"shards_before": 4, "shards": 4}
    assert {tenant: shard_of(place, tenant) for tenant in TENANTS} == before
    with_shards(place, fewer)
    assert "not the shards that the store was made of" in place.run("jobs", "list", code=1).stderr
    with_shards(place, place.urls)
    moved = place.json("move", "--tenant", "acme", "--to", "4")
    assert (moved["from"], moved["to"], moved["moved"]) == (before["acme"], 4, 1)
    server = place.serve().ready()
    place.api(server, "acme").submit("note", id="new")
    wait_for(lambda: len(runs(place)) >= 7, lambda: runs(place))
    assert runs(place) == sorted([f"of-{tenant}" for tenant in TENANTS] + ["new"])
    assert {job["id"] for job in place.jobs("--tenant", "acme")} == {"new", "of-acme"}
    assert server.stop() == 0


def test_a_list_that_is_too_long_for_an_error_says_how_many_more_there_are(tmp_path):
    folder = tmp_path / ("long" * 15)
    folder.mkdir()
    urls = [f"sqlite:{folder}/shard-{i}.db" for i in range(9)]
    place = Place(tmp_path, urls)
    place.run("enqueue", "good", "--tenant", "acme")
    with_shards(place, urls[::-1])
    said = place.run("jobs", "list", code=1).stderr
    assert said.count(" more") == 2, said
    given, own = said.split("given: ")[1].split("; the store's own list: ")
    for part in (given, own):
        shown = part.count("sqlite:")
        assert 0 < shown < 9 and f"and {9 - shown} more" in part, said
    alone = subprocess.run([str(BINARY), "jobs", "list", "--store", urls[0]], capture_output=True, text=True,
                           timeout=LIMIT_S, env=environment(), cwd=tmp_path)
    assert alone.returncode == 1 and " more" in alone.stderr, alone.stderr


def test_an_addition_that_was_interrupted_goes_on(tmp_path):
    urls = urls_of("sqlite", tmp_path, [])
    place = Place(tmp_path, urls[:3])
    place.run("enqueue", "good", "--tenant", "acme")
    old = rows(urls[0], "SELECT value FROM shared WHERE kind = 8")[0][0]
    with_shards(place, urls)
    place.run("migrate", "--add-shards")
    db = sqlite3.connect(urls[0].removeprefix("sqlite:"))
    db.execute("UPDATE shared SET value = ? WHERE kind = 8", (old,))  # the first is written last
    db.commit()
    db.close()
    assert "not the shards that the store was made of" in place.run("jobs", "list", code=1).stderr
    with_shards(place, [*urls[:3], f"sqlite:{tmp_path}/another.db"])
    refused = place.run("migrate", "--add-shards", code=1).stderr
    assert "not the shards that the store was made of" in refused
    with_shards(place, urls)
    assert place.json("migrate", "--add-shards") == {"shards_before": 3, "shards": 4}
    assert len(place.jobs("--tenant", "acme")) == 1
    full = Place(tmp_path, [f"sqlite:{tmp_path}/other-{i}.db" for i in range(2)])
    full.run("enqueue", "good")
    with_shards(full, [*full.urls, urls[3]])
    assert "not the shards that the store was made of" in full.run("migrate", "--add-shards", code=1).stderr


def test_of_two_additions_at_the_same_time_one_succeeds(tmp_path):
    for i in range(6):
        folder = tmp_path / f"{i}"
        folder.mkdir()
        urls = urls_of("sqlite", folder, [])
        place = Place(folder, urls[:3])
        place.run("enqueue", "good", "--tenant", "acme")
        text, configs = place.config.read_text(), []
        for name in ("e", "f"):
            configs.append(folder / f"{name}.yaml")
            shards = json.dumps([*urls[:3], f"sqlite:{folder}/{name}.db"])
            configs[-1].write_text(f"store: {{shards: {shards}}}\n" + "\n".join(text.strip().splitlines()[1:]) + "\n")
        both = [subprocess.Popen([str(BINARY), "migrate", "--add-shards", "-c", str(config)], stdout=subprocess.PIPE,
                                 stderr=subprocess.PIPE, text=True, env=environment(), cwd=folder) for config in configs]
        said = [process.communicate(timeout=LIMIT_S)[1] for process in both]
        won = [process.returncode == 0 for process in both]
        assert sorted(won) == [False, True], said
        for config, is_winner in zip(configs, won, strict=True):
            listed = subprocess.run([str(BINARY), "jobs", "list", "-c", str(config)], capture_output=True, text=True,
                                    timeout=LIMIT_S, env=environment(), cwd=folder)
            assert (listed.returncode == 0) == is_winner, listed.stderr
