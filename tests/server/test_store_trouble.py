"""A server whose store is away, silent or full: it says so, in time, and goes on when it is back."""

import http.client
import json
import signal
import sqlite3
import subprocess
import time

import pytest

from tests.kit.faktory import FaktoryClient
from tests.kit.ports import lasting_port
from tests.kit.program import BINARY, environment
from tests.kit.stores import start_or_skip
from tests.kit.tokens import token_hash
from tests.kit.waiting import LIMIT_S, wait_for

# What is answered without the store. One that waits for it does so each time; a loaded machine may be slow now and then.
SOON_S = 4
TRIES = 5


@pytest.fixture(params=["postgres", "redis"])
def store(request):
    with start_or_skip(request.param, port=lasting_port()) as made:
        yield made


def ask(server, method, path, body=None):
    """Status, headers, text, and how long it took."""
    connection = http.client.HTTPConnection("127.0.0.1", server.port(), timeout=120)
    began = time.monotonic()
    try:
        connection.request(method, path, body=body)
        answer = connection.getresponse()
        return answer.status, answer.headers, answer.read().decode(), time.monotonic() - began
    finally:
        connection.close()


def ask_soon(server, method, path, body=None):
    """Status, headers and text of an answer that came soon."""
    for _ in range(TRIES):
        status, headers, text, took_s = ask(server, method, path, body)
        if took_s < SOON_S:
            return status, headers, text
    raise AssertionError(f"{method} {path} takes {took_s:.1f} s: {text}")


def health(server):
    status, _, text = ask_soon(server, "GET", "/health")
    assert status == 200
    return json.loads(text)


def test_server_that_is_away_is_told_at_once(bench, store):
    server = bench.serve("--store", store.url).ready()
    wait_for(lambda: health(server)["store"] == {"status": "ok"}, "the first answer of the store")
    store.stop()
    bad = wait_for(lambda: (h := health(server))["store"]["status"] == "unreachable" and h, "it is known to be away")
    assert (bad["status"], bad["health_score"]) == ("unhealthy", 0)
    assert bad["store"]["since"] and bad["store"]["error"]
    told = subprocess.run([str(BINARY), "health", "--server", server.url], capture_output=True, text=True,
                          env=environment(), timeout=LIMIT_S, check=False)
    assert (told.returncode, told.stdout.splitlines()[:2]) == (1, ["unhealthy", "  score          0.000"]), told
    assert told.stdout.splitlines()[2].startswith("  store          unreachable: ") and "workers" not in told.stdout
    assert told.stderr == "redrive: the queue is unhealthy\n  health_score is 0.000\n"
    server.wait_log(r"ERROR store_failed ")  # transactions have found it too
    for method, path, body in [("POST", "/tasks/mail", "{}"), ("GET", "/jobs/x", None), ("GET", "/queues", None),
                               ("GET", "/ready", None), ("POST", "/tasks/mail", "{}")]:
        status, headers, text = ask_soon(server, method, path, body)
        assert status == 503, (path, text)
        assert int(headers["Retry-After"]) > 0
    status, _, text = ask_soon(server, "GET", "/metrics")
    assert status == 200, text
    assert server.metric("redrive_store_up") == 0
    assert server.metric('redrive_store_errors_total{kind="io"}') > 0
    assert len(server.wait_log("store_failed")) == 1
    if store.name == "postgres":
        store.start()
        wait_for(lambda: health(server)["store"] == {"status": "ok"}, "it is back")
        wait_for(lambda: ask(server, "POST", "/tasks/mail", "{}")[0] == 202, "a submit")
        assert server.metric("redrive_store_up") == 1
        server.wait_log("store_works_again")


def test_address_of_the_store_is_for_administrators(bench, store):
    scopes = {"eye": "read, enqueue", "ops": "read, enqueue, admin"}
    tokens = [f"{{name: {name}, hash: '{token_hash(name)}', scopes: [{words}]}}" for name, words in scopes.items()]
    passwords = []
    for name, words in scopes.items():
        (bench.dir / name).write_text(name)
        passwords.append(f"{{name: {name}, password_file: DIR/{name}, scopes: [{words}]}}")
    bench.configure(f"tokens: [{', '.join(tokens)}]\nfaktory_passwords: [{', '.join(passwords)}]\n",
                    "{http: '127.0.0.1:0', faktory: '127.0.0.1:0'}")
    server = bench.serve("--store", store.url).ready()
    faktory = {name: FaktoryClient(server.port("faktory"), password=name) for name in scopes}
    store.stop()

    def problem(method, path, token):
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        connection = server.connect()
        connection.request(method, path, "{}" if method == "POST" else None, headers)
        answer = connection.getresponse()
        text = answer.read().decode()
        connection.close()
        assert answer.status == 503, text
        return text

    wait_for(lambda: health(server)["store"]["status"] == "unreachable", "it is known to be away")
    place = str(store.port)
    assert place in server.wait_log("store_failed .*")[0]
    for method, path in (("POST", "/tasks/mail"), ("GET", "/jobs"), ("GET", "/queues")):
        eye, ops = problem(method, path, "eye"), problem(method, path, "ops")
        assert "the store" in json.loads(eye)["detail"] and "the store" in json.loads(ops)["detail"]
        assert place not in eye and "://" not in eye
        assert place in ops
    assert place not in problem("GET", "/ready", None)
    assert "the store" in health(server)["error"] and place not in json.dumps(health(server))
    push = "PUSH " + json.dumps({"jid": "job-00001", "jobtype": "mail", "args": []})
    eye, ops = faktory["eye"].error(push), faktory["ops"].error(push)
    assert place not in eye and "the store" in eye and place in ops


def test_server_that_is_stopped_in_its_tracks_does_not_stop_health(bench, store):
    server = bench.serve("--store", store.url).ready()
    wait_for(lambda: health(server)["store"] == {"status": "ok"}, "the first answer of the store")
    if store.name == "postgres":
        pytest.skip("the processes that serve are children of the one that could be stopped")
    store.process.send_signal(signal.SIGSTOP)
    try:
        away = ("silent", "unreachable")
        wait_for(lambda: health(server)["store"]["status"] in away, "the stop to take effect")
        for _ in range(3):
            assert health(server)["store"]["status"] in away
    finally:
        store.process.send_signal(signal.SIGCONT)
    wait_for(lambda: health(server)["store"] == {"status": "ok"}, "it goes on")


@pytest.fixture
def small_disk(tmp_path):
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=3m", "tmpfs", str(disk)], capture_output=True,
                             check=False)
    if mounted.returncode != 0:
        pytest.skip("nothing can be mounted here")
    (disk / "ballast").write_bytes(b"\0" * 1024 * 1024)
    yield disk
    subprocess.run(["umount", "-l", str(disk)], check=True)


def test_full_disk_is_seen_in_log_health_and_metrics(bench, small_disk):
    bench.url = f"sqlite:{small_disk}/jobs.db"
    bench.configure()
    server = bench.serve().ready()
    body = json.dumps({"text": "x" * 50000})
    wait_for(lambda: ask(server, "POST", "/tasks/mail", body)[0] == 503, "the disk is full")
    for _ in range(10):
        status, _, text, _ = ask(server, "POST", "/tasks/mail", body)
        assert status == 503
        problem = json.loads(text)
        assert "the disk is full" in problem["detail"]
        assert problem["hint"] == "free some space; nothing was changed"
    assert len(server.wait_log(r"ERROR store_failed .*the disk is full")) == 1
    assert server.metric('redrive_store_errors_total{kind="io"}') >= 10
    bad = health(server)
    assert (bad["status"], bad["store"]["status"]) == ("degraded", "failing")
    assert bad["store"]["error"] == "the disk is full"
    # What is small may still fit, and makes the server no more ready for what is not.
    assert ask(server, "POST", "/tasks/mail", body)[0] == 503
    ask(server, "POST", "/tasks/mail", "{}")
    status, _, text, _ = ask(server, "GET", "/ready")
    assert status == 503 and "the disk is full" in text
    # The store's own log may have room left within its file: the disk is filled to the last byte.
    with open(small_disk / "filler", "wb", buffering=0) as filler, pytest.raises(OSError):
        while True:
            filler.write(b"\0" * 4096)
    found = [line for line in json.loads(bench.redrive("doctor", "--json").stdout)["items"] if line["check"] == "disk"]
    assert found[0]["status"] == "fail" and "free some space" in found[0]["hint"]
    (small_disk / "filler").unlink()
    (small_disk / "ballast").unlink()
    wait_for(lambda: ask(server, "POST", "/tasks/mail", "{}")[0] == 202, "a submit")
    wait_for(lambda: health(server)["store"] == {"status": "ok"}, "the first answer of the store")
    server.wait_log("store_works_again")
    wait_for(lambda: ask(server, "GET", "/ready")[0] == 200, "it is ready")


def test_store_that_can_lose_jobs_is_named_at_the_start(bench):
    with start_or_skip("redis") as lossy, start_or_skip("redis", durable=True) as safe:
        warned = bench.serve("--store", lossy.url).ready()
        assert len(warned.wait_log(r"WARN\w* +jobs_can_be_lost .*appendonly yes")) == 1
        said = bench.redrive("doctor", "--store", lossy.url).stdout
        assert "can lose everything" in said and "survives" not in said and "appendonly yes" in said
        assert not bench.serve("--store", safe.url).ready().logged("jobs_can_be_lost")
        assert not bench.serve().ready().logged("jobs_can_be_lost")


def test_read_that_fails_is_logged_with_what_the_client_does_not_see(bench):
    bench.configure(f"tokens: [{{name: eye, hash: '{token_hash('eye')}', scopes: [read]}}]\n")
    server = bench.serve("--no-work").ready()
    assert server.get("/v1/jobs", "eye")[0] == 200
    with sqlite3.connect(bench.database, timeout=LIMIT_S) as db:
        db.execute("ALTER TABLE specs RENAME TO elsewhere")
    status, text = server.get("/v1/jobs", "eye")
    assert status >= 500 and str(bench.database) not in text and "elsewhere" not in text, text
    line = server.wait_log(r"read_failed action=.*")[0]
    assert "GET /jobs" in line and "no such table" in line
    with sqlite3.connect(bench.database, timeout=LIMIT_S) as db:
        db.execute("ALTER TABLE elsewhere RENAME TO specs")
