"""The server of a store fails under load. Who had an answer can rely on it, who had none is told to try
again, and all go on by themselves when the server is back."""
import contextlib
import http.client
import json
import subprocess
import time

import pytest

from tests.kit.standby import Standby, url_of_both
from tests.kit.waiting import LIMIT_S, wait_for
from tests.shared.load import endure, goes_on, invariants_hold

# ---- The server is restarted ---------------------------------------------------------------------


def test_postgres_is_restarted_and_killed(make_server, make_rig):
    server = make_server("postgres", durable=True)
    rig = make_rig(server.url)

    def restart():
        server.stop()
        server.start()

    def crash():
        server.kill()
        start_after_a_crash(server)

    endure(rig, restart, crash)


def start_after_a_crash(server, limit_s=LIMIT_S):
    """What was left of the old one has to end first."""
    end = time.monotonic() + limit_s
    while True:
        try:
            return server.start()
        except RuntimeError:
            assert time.monotonic() < end
            time.sleep(0.1)


def test_connections_to_postgres_are_cut_again_and_again(make_server, make_rig):
    server = make_server("postgres", durable=True)
    rig = make_rig(server.url)

    def cut():
        for _ in range(10):
            server.sql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'redrive'")
            time.sleep(0.1)

    endure(rig, cut)


def test_redis_is_restarted_and_killed(make_server, make_rig):
    server = make_server("redis", durable=True)
    rig = make_rig(server.url)

    def restart():
        server.stop()
        server.start()

    def crash():
        server.kill()
        server.start()

    endure(rig, restart, crash)


# ---- Another one takes its place -----------------------------------------------------------------


def fail_over(make_server, make_rig, names):
    """The primary is killed under load, and the standby promoted. Gives the rig when all is over."""
    primary = make_server("postgres", durable=True, settings={"synchronous_standby_names": names}.items())
    primary.sql("ALTER SYSTEM SET synchronous_commit = local")  # until there is a standby
    primary.sql("SELECT pg_reload_conf()")
    with Standby(primary, durable=True) as standby:
        primary.sql("ALTER SYSTEM RESET synchronous_commit")
        primary.sql("SELECT pg_reload_conf()")
        wait_for(lambda: primary.sql("SELECT count(*) FROM pg_stat_replication WHERE state = 'streaming'") == "1",
                 "the standby follows")
        rig = make_rig(url_of_both(primary, standby))

        def take_over():
            primary.kill()
            standby.promote()

        endure(rig, take_over, judge=False)
        yield rig


def test_synchronous_standby_takes_over_and_nothing_is_lost(make_server, make_rig):
    for rig in fail_over(make_server, make_rig, "*"):
        assert rig.judge() == []


@pytest.mark.slow
def test_asynchronous_standby_may_lose_the_latest_and_no_more(make_server, make_rig):
    """What was acknowledged in the last moments may be gone; what is there is whole."""
    for rig in fail_over(make_server, make_rig, ""):
        invariants_hold(rig)


# ---- What Redis keeps ----------------------------------------------------------------------------


def lost_and_kept(rig):
    """What was acknowledged, and is gone or there in the end."""
    there = {job["id"] for job in rig.store.jobs()}
    acknowledged = [entry for entry in rig.written() if entry["event"] == "acknowledged"]
    return ([entry for entry in acknowledged if entry["id"] not in there],
            [entry for entry in acknowledged if entry["id"] in there])


def test_redis_that_writes_every_second_loses_no_more_than_that(make_server, make_rig):
    server = make_server("redis", durable=True, settings={"appendfsync": "everysec"}.items())
    rig = make_rig(server.url)
    killed = []

    def crash():
        server.kill()
        killed.append(time.time())
        server.start()

    endure(rig, crash, judge=False)
    invariants_hold(rig)
    lost, kept = lost_and_kept(rig)
    assert all(killed[0] - 2 <= entry["at"] <= killed[0] for entry in lost), lost
    assert any(entry["at"] < killed[0] for entry in kept), "there was something to lose"
    assert any(entry["at"] > killed[0] for entry in kept), "it went on"


def test_redis_that_keeps_nothing_is_set_up_again(make_server, make_rig):
    server = make_server("redis")
    rig = make_rig(server.url)
    killed = []

    def crash():
        server.kill()
        killed.append(time.time())
        server.start()

    endure(rig, crash, judge=False)
    invariants_hold(rig)
    lost, kept = lost_and_kept(rig)
    assert any(entry["at"] < killed[0] for entry in lost), "it kept something"
    assert any(entry["at"] > killed[0] for entry in kept), "it went on"


def test_redis_without_memory_refuses_clearly_and_recovers(make_server, make_rig):
    server = make_server("redis", durable=True)
    rig = make_rig(server.url)
    rig.begin()
    goes_on(rig)
    server.call("CONFIG", "SET", "maxmemory", 1)
    with contextlib.closing(http.client.HTTPConnection("127.0.0.1", rig.ports[0][0], timeout=LIMIT_S)) as connection:
        connection.request("POST", "/jobs", json.dumps({"task": "remote", "payload": {}}), {"Content-Type": "application/json"})
        answer = connection.getresponse()
        problem = json.loads(answer.read())
    assert answer.status == 503, problem
    assert int(answer.headers["Retry-After"]) >= 1
    assert "memory" in problem["title"], problem
    command = subprocess.run(rig.command("enqueue", "work", "{}"), capture_output=True, text=True, timeout=LIMIT_S, check=False)
    assert command.returncode == 1
    assert "memory" in command.stderr and "hint: " in command.stderr
    # What is there can still be worked off.
    rig.hold.touch()
    end = time.monotonic() + LIMIT_S
    while any(job["state"] == "queued" for job in rig.store.live()):
        rig.all_are_alive()
        assert time.monotonic() < end, "work does not go on without memory"
        time.sleep(0.05)
    server.call("CONFIG", "SET", "maxmemory", 0)
    rig.hold.unlink()
    goes_on(rig)
    rig.drain()
    assert rig.judge() == []
