"""SIGHUP while work is under way: what the former configuration has begun ends well."""

import json
import socket
import time

import pytest

from tests.kit.server import Bench
from tests.kit.tokens import token_hash
from tests.kit.waiting import LIMIT_S, wait_for

GATED = """
tasks:
  gated:
    run: {concurrency: SLOTS, exec: [sh, -c, 'touch DIR/begun; while [ ! -e DIR/gate ]; do sleep 0.05; done']}
"""


@pytest.fixture
def bench(tmp_path):
    one = Bench(tmp_path)
    yield one
    one.close()


def test_worker_is_listed_while_the_jobs_of_the_former_configuration_end(bench):
    """One row has the name of both: it is that of the new configuration."""

    def slots():
        return [worker["slots"] for worker in json.loads(server.get("/v1/workers")[1])["items"]]

    bench.configure(GATED.replace("SLOTS", "2"))
    server = bench.serve().ready()
    job = bench.enqueue("gated")
    wait_for((bench.dir / "begun").exists, "the job starts")
    bench.configure(GATED.replace("SLOTS", "3"))
    server.reload()
    wait_for(lambda: slots() == [3], "the new configuration's row")
    (bench.dir / "gate").touch()
    wait_for(lambda: bench.state(job) == "completed", "the job ends")
    until = time.monotonic() + 2  # less than a row's period: one that were removed would be missed
    while time.monotonic() < until:
        assert slots() == [3]
        time.sleep(0.05)
    assert server.stop() == 0


# ---- Alerts ------------------------------------------------------------------------------------

NEVER = "tasks: {never: {run: {exec: [sh, -c, 'exit 65']}}}\n"
TRIES = 4  # of an alert: the last one comes 21 s after the first
RULE = """
alerts:
  - {when: 'dead_letters >= 1', command: [sh, -c, 'echo try >> DIR/tries; SCRIPT']}
"""


def serve_with_a_failed_alert(bench, script):
    """A server whose alert has been tried once, in vain; it is tried again after a second."""
    bench.configure(NEVER)
    bench.enqueue("never")
    assert bench.redrive("work", "--until-idle").returncode == 3
    bench.configure(NEVER + RULE.replace("SCRIPT", script))
    server = bench.serve("--no-work").ready()
    wait_for((bench.dir / "tries").exists, "the first try")
    return server


def test_an_alert_that_is_tried_again_survives_a_reload(bench):
    server = serve_with_a_failed_alert(bench, "[ $(wc -l < DIR/tries) -ge 2 ] && cat > DIR/told")
    server.reload()
    wait_for(lambda: (bench.dir / "told").exists() and "firing" in (bench.dir / "told").read_text("utf-8"), "the alert arrives")
    assert not server.logged("alert_not_sent")
    assert server.stop() == 0


def test_a_stop_does_not_wait_for_alerts_of_the_former_configuration(bench):
    server = serve_with_a_failed_alert(bench, "exit 75")
    server.reload()
    assert server.stop() == 0
    assert len((bench.dir / "tries").read_text("utf-8").splitlines()) < TRIES
    assert server.logged("alert_not_sent")


# ---- Tokens ------------------------------------------------------------------------------------


def token(name, scopes):
    return f"  - {{name: {name}, hash: '{token_hash(name)}', scopes: [{scopes}]}}\n"


def test_a_token_that_is_removed_while_a_body_arrives_is_refused(bench):
    others = "tokens:\n" + token("eye", "read") + token("kept", "enqueue")
    body = b'{"task": "mail"}'
    bench.configure(others + token("gone", "enqueue"))
    server = bench.serve().ready()
    sockets = {}
    for name in ("gone", "kept"):
        sockets[name] = socket.create_connection(("127.0.0.1", server.port()), timeout=LIMIT_S)
        sockets[name].sendall(f"POST /v1/jobs HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {name}\r\nExpect: 100-continue\r\n"
                              f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n".encode())
        assert sockets[name].recv(1000).startswith(b"HTTP/1.1 100 ")  # its head has been read, and the token is right
    bench.configure(others)
    server.reload()
    answers = {}
    for name, connection in sockets.items():
        connection.sendall(body)
        answers[name] = connection.recv(1000).split()[1]
        connection.close()
    assert answers == {"gone": b"401", "kept": b"201"}
    assert len(json.loads(server.get("/v1/jobs", "eye")[1])["items"]) == 1
    assert server.logged("access_refused")
    assert server.stop() == 0
