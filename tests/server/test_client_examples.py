"""The clients of examples/clients, each pair against a real server."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys

import pytest

from tests.kit.program import ROOT
from tests.kit.server import Bench
from tests.kit.waiting import LIMIT_S, wait_for
from tests.server import foreign_clients

# What has to be fetched may be slow to come.
pytestmark = pytest.mark.limit(900)

CLIENTS = ROOT / "examples" / "clients"
ADDRESSES = ["ann@example.org", "bob@busy.example", "nobody"]


class Pair:
    def __init__(self, command, suffix, **env):
        self.command = command
        self.suffix = suffix
        self.env = {**os.environ, **env}
        self.process = None

    def words(self, name, *arguments):
        folder = {".py": "python", ".sh": "shell", ".js": "node"}[self.suffix]
        return [*self.command, str(CLIENTS / folder / (name + self.suffix)), *arguments]

    def produce(self, *addresses):
        return subprocess.run(self.words("producer", *addresses), env=self.env, capture_output=True, text=True,
                              timeout=LIMIT_S, check=False, stdin=subprocess.DEVNULL)

    def work(self, log_path):
        with open(log_path, "wb") as log:
            self.process = subprocess.Popen(self.words("worker"), env=self.env, stdin=subprocess.DEVNULL,
                                            stdout=log, stderr=log, start_new_session=True)

    def close(self):
        """A shell waits for its curl: both are told."""
        if self.process and self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGTERM)
            try:
                self.process.wait(LIMIT_S)
            except subprocess.TimeoutExpired:
                os.killpg(self.process.pid, signal.SIGKILL)
                self.process.wait()
                raise


@pytest.fixture
def bench(tmp_path):
    bench = Bench(tmp_path)
    shutil.copy(CLIENTS / "redrive.yaml", bench.config)
    yield bench
    bench.close()


def serve(bench, port=0):
    words = ["--store", f"sqlite:{bench.database}", "--listen", f"127.0.0.1:{port}", "--faktory", "127.0.0.1:0"]
    return bench.serve(*words).ready()


@pytest.fixture
def server(bench):
    return serve(bench)


def python_pair(server):
    return Pair([sys.executable], ".py", JOBS_URL=f"http://127.0.0.1:{server.port()}")


@pytest.fixture(params=["python", "shell", "node"])
def pair(request, server, tmp_path_factory):
    url = f"http://127.0.0.1:{server.port()}"
    if request.param == "python":
        one = python_pair(server)
    elif request.param == "shell":
        one = Pair(["sh"], ".sh", JOBS_URL=url)
    else:
        modules = foreign_clients.node_modules(tmp_path_factory)
        one = Pair(["node"], ".js", NODE_PATH=str(modules), FAKTORY_URL=f"tcp://127.0.0.1:{server.port('faktory')}")
    yield one
    one.close()


def look(server, address):
    status, text = server.get(f"/jobs/mail-{address}")
    assert status == 200, text
    return json.loads(text)


def test_pair_sends_what_can_be_sent(server, pair, tmp_path):
    for _ in range(2):
        done = pair.produce(*ADDRESSES)
        assert done.returncode == 0, done.stderr
        assert len(done.stdout.splitlines()) == 3
    assert len(json.loads(server.get("/jobs")[1])["items"]) == 3

    pair.work(tmp_path / "worker")
    wait_for(lambda: {look(server, a)["state"] for a in ADDRESSES} <= {"completed", "dead_letter"},
             lambda: (tmp_path / "worker").read_text())
    sent, held_up, wrong = (look(server, address) for address in ADDRESSES)
    assert (sent["state"], sent["attempts"]) == ("completed", 1)
    assert (held_up["state"], held_up["attempts"]) == ("completed", 2)
    assert held_up["history"][0]["error"]["message"] == "451 try again later"
    assert (wrong["state"], wrong["attempts"]) == ("dead_letter", 1)
    error = wrong["history"][0]["error"]
    assert (error["class"], error["message"]) == ("validation", "not an address: nobody")
    if pair.suffix != ".js":
        assert held_up["history"][0]["error"]["class"] == "rate_limited"
        assert held_up["history"][0]["delay"] >= 2


@pytest.mark.parametrize("pair", ["shell", "node"], indirect=True)
def test_worker_takes_the_jobs_of_another_producer(server, pair, tmp_path):
    assert python_pair(server).produce("ann@example.org").returncode == 0
    pair.work(tmp_path / "worker")
    wait_for(lambda: look(server, "ann@example.org")["state"] == "completed", lambda: (tmp_path / "worker").read_text())


@pytest.mark.parametrize("pair", ["python", "shell"], indirect=True)
def test_worker_outlives_a_server_that_is_away(bench, server, pair, tmp_path):
    pair.work(tmp_path / "worker")
    assert pair.produce("ann@example.org").returncode == 0
    wait_for(lambda: look(server, "ann@example.org")["state"] == "completed", lambda: (tmp_path / "worker").read_text())
    port = server.port()
    server.stop()
    words = re.compile("refused|Couldn't connect|Failed to connect")
    wait_for(lambda: words.search((tmp_path / "worker").read_text()), "a worker that has noticed")
    again = serve(bench, port)
    assert pair.produce("eve@example.org").returncode == 0
    wait_for(lambda: look(again, "eve@example.org")["state"] == "completed", lambda: (tmp_path / "worker").read_text())


def test_shell_worker_understands_any_payload(server, tmp_path):
    """What Node pushes has its arguments in a list; a payload without an address is a failure like others."""
    jobs = {"a b": {"to": "ann@example.org"}, "c": {"args": [{"to": "bob@example.org"}]}, "d": {"id": "x"}, "e": None}
    bodies = [json.dumps({"task": "mail", "id": i, "payload": p}) for i, p in jobs.items()]
    for body in bodies:
        connection = server.connect()
        connection.request("POST", "/jobs", body)
        assert connection.getresponse().status == 201
        connection.close()
    shell = Pair(["sh"], ".sh", JOBS_URL=f"http://127.0.0.1:{server.port()}")
    try:
        shell.work(tmp_path / "worker")
        wait_for(lambda: server.metrics_sum("redrive_jobs", state="dead_letter") == 2, lambda: (tmp_path / "worker").read_text())
        wait_for(lambda: len(json.loads(server.get("/jobs?state=completed")[1])["items"]) == 2, "two that are done")
        dead = {job["id"]: job["last_error"]["class"] for job in json.loads(server.get("/jobs?state=dead_letter")[1])["items"]}
    finally:
        shell.close()
    assert dead == {"d": "validation", "e": "validation"}


@pytest.mark.parametrize("pair", ["python", "node"], indirect=True)
def test_producer_tells_when_there_is_no_server(server, pair):
    server.stop()
    done = pair.produce("ann@example.org")
    assert done.returncode != 0
    assert "refused" in done.stderr.lower()
