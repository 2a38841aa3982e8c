"""Clients that others have written, unchanged, against the Faktory server."""

import json
import os
import signal
import subprocess

import pytest

from tests.kit.certificates import make_certificate
from tests.kit.faktory import FaktoryServer
from tests.kit.server import Bench
from tests.kit.waiting import LIMIT_S, wait_for
from tests.server import foreign_clients

# What has to be fetched may be slow to come.
pytestmark = pytest.mark.limit(900)

CONFIG = """
tasks:
  Flaky:
    retry: {strategy: fixed, initial_delay: 200ms, max_retries: 3, jitter: false}
  Doomed:
    retry: {strategy: fixed, initial_delay: 100ms, max_retries: 2, jitter: false}
"""


class Foreign:
    """A program made with somebody's client."""

    def __init__(self, name, command, **env):
        self.name = name
        self.command = command
        self.env = {**os.environ, **env}
        self.started = []

    def run(self, url, word):
        """What it said, a value for each line."""
        result = subprocess.run([*self.command, word], env={**self.env, "FAKTORY_URL": url}, capture_output=True,
                                text=True, timeout=LIMIT_S, check=False, stdin=subprocess.DEVNULL)
        assert result.returncode == 0, result.stderr
        return [json.loads(line) for line in result.stdout.splitlines()]

    def work(self, url, log_path):
        worker = Worker(self, url, log_path)
        self.started.append(worker.process)
        return worker

    def close(self):
        for process in self.started:
            if process.poll() is None:
                process.kill()
                process.wait()


class Worker:
    def __init__(self, foreign, url, log_path):
        self.log_path = log_path
        with open(log_path, "wb") as log, open(f"{log_path}.err", "wb") as errors:
            self.process = subprocess.Popen([*foreign.command, "work"], env={**foreign.env, "FAKTORY_URL": url},
                                            stdin=subprocess.DEVNULL, stdout=log, stderr=errors)

    def said(self):
        text = self.log_path.read_text("utf-8")
        return [json.loads(line) for line in text[: text.rfind("\n") + 1].splitlines()]

    def has_heard(self, event):
        return {"event": event} in self.said()

    def errors(self):
        return self.log_path.with_name(self.log_path.name + ".err").read_text("utf-8")

    def ends(self):
        assert self.process.wait(LIMIT_S) == 0, self.errors()


@pytest.fixture(params=["node", "go"])
def foreign(request, tmp_path_factory):
    if request.param == "node":
        modules = foreign_clients.node_modules(tmp_path_factory)
        one = Foreign("node", ["node", str(foreign_clients.HERE / "faktory_node.js")], NODE_PATH=str(modules))
    else:
        one = Foreign("go", [str(foreign_clients.go_program(tmp_path_factory))])
    yield one
    one.close()


@pytest.fixture
def bench(tmp_path):
    one = Bench(tmp_path)
    one.configure(CONFIG, listen="{http: '127.0.0.1:0', faktory: '127.0.0.1:0'}")
    yield one
    one.close()


def look(server, job_id):
    status, text = server.get(f"/jobs/{job_id}")
    assert status == 200, text
    return json.loads(text)


def ended(server, *job_ids):
    return all(look(server, job_id)["state"] in ("completed", "dead_letter") for job_id in job_ids)


GOOD = [f"good-job-{i}" for i in range(1, 5)]


@pytest.mark.parametrize("password", [None, "se:cret"])
def test_client_and_worker_run_unchanged(foreign, bench, tmp_path, password):
    words, url = [], "tcp://127.0.0.1:"
    if password:
        (tmp_path / "passwords").write_text(password + "\n")
        words, url = ["--faktory-passwords", str(tmp_path / "passwords")], "tcp://:se%3Acret@127.0.0.1:"
    server = bench.serve(*words).ready()
    url += str(server.port("faktory"))

    assert foreign.run(url, "produce") == [{"rejected": 0}]
    assert look(server, "good-job-1")["payload"]["args"] == [1, {"deep": ["ä"]}]
    worker = foreign.work(url, tmp_path / "worker")
    wait_for(lambda: ended(server, *GOOD, "flaky-job", "hopeless-job", "doomed-job"),
             lambda: f"the end of all jobs\n{worker.said()}\n{worker.errors()}")
    worker.process.send_signal(signal.SIGTERM)
    worker.ends()
    check_runs([line for line in worker.said() if "jobtype" in line], foreign.name)
    check_lives(server, foreign.name)

    assert foreign.run(url, "care") == [{"dead": 2, "failures": 5}]
    assert server.get("/jobs/hopeless-job")[0] == 404
    assert look(server, "doomed-job")["state"] == "dead_letter"


def test_client_and_worker_come_in_over_tls(foreign, tmp_path):
    make_certificate(tmp_path, "server")
    (tmp_path / "server.pem").rename(tmp_path / "cert.pem")
    (tmp_path / "server.key").rename(tmp_path / "key.pem")
    foreign.env.update(SSL_CERT_FILE=str(tmp_path / "cert.pem"), NODE_EXTRA_CA_CERTS=str(tmp_path / "cert.pem"))
    server = FaktoryServer(f"sqlite:{tmp_path}/jobs.db", "--tls", str(tmp_path))
    url = f"tcp+tls://127.0.0.1:{server.port}"
    assert foreign.run(url, "produce") == [{"rejected": 0}]
    worker = foreign.work(url, tmp_path / "worker")
    wait_for(lambda: sorted(line["args"][0] for line in worker.said() if line.get("jobtype") == "Good") == [1, 2, 3, 4],
             lambda: f"the good jobs\n{worker.said()}\n{worker.errors()}")
    worker.process.send_signal(signal.SIGTERM)
    worker.ends()
    server.close()


def check_runs(runs, name):
    """What the worker saw."""
    assert sorted(run["args"][0] for run in runs if run["jobtype"] == "Good") == [1, 2, 3, 4]
    assert {"jobtype": "Good", "args": [1, {"deep": ["ä"]}]} in runs
    flaky = [run for run in runs if run["jobtype"] == "Flaky"]
    reason = {"node": "not yet", "go": "dial tcp 127.0.0.1:9: connect: connection refused"}[name]
    assert [run.get("failure") for run in flaky] == [None, reason]
    assert [run["custom"] for run in flaky] == [{"trace": "t-1"}] * 2
    assert len([run for run in runs if run["jobtype"] == "Hopeless"]) == 1
    assert len([run for run in runs if run["jobtype"] == "Doomed"]) == 3


def check_lives(server, name):
    """What has become of it here."""
    for job_id in GOOD:
        good = look(server, job_id)
        assert (good["state"], good["attempts"]) == ("completed", 1)

    flaky = look(server, "flaky-job")
    first, second = flaky["history"]
    assert (flaky["state"], flaky["attempts"], second["outcome"]) == ("completed", 2, "completed")
    # Go's package knows no types: its class is made of the message.
    kind = {"node": "ECONNRESET", "go": "unknown"}[name]
    assert (first["outcome"], first["error"]["class"], first["error"]["type"]) == ("retrying", "network", kind)
    assert first["delay"] == 0.2

    hopeless = look(server, "hopeless-job")
    assert (hopeless["state"], hopeless["attempts"]) == ("dead_letter", 1)
    error = hopeless["history"][-1]["error"]
    assert error["message"] == "never"
    if name == "node":
        assert error["type"] == "TypeError"
        assert "faktory_node.js" in error["stacktrace"]

    doomed = look(server, "doomed-job")
    assert (doomed["state"], doomed["reason"], doomed["attempts"]) == ("dead_letter", "exhausted", 3)
    assert [attempt["outcome"] for attempt in doomed["history"]] == ["retrying", "retrying", "dead_letter"]


def test_backtrace_of_a_go_worker_is_the_stacktrace(bench, tmp_path_factory):
    program = Foreign("go", [str(foreign_clients.go_program(tmp_path_factory))])
    server = bench.serve().ready()
    program.run(f"tcp://127.0.0.1:{server.port('faktory')}", "fail-by-hand")
    error = look(server, "traced-job")["history"][0]["error"]
    assert (error["class"], error["message"]) == ("network", "connection reset by peer")
    assert "main.failByHand" in error["stacktrace"]


def test_worker_obeys_the_orders_of_the_server(foreign, tmp_path):
    """Go's manager sends a beat every 15 s, so both orders are waited for at the same time."""
    lives = []
    try:
        for order in ("quiet", "terminate"):
            server = FaktoryServer(f"sqlite:{tmp_path}/{order}.db")
            worker = foreign.work(f"tcp://127.0.0.1:{server.port}", tmp_path / order)
            lives.append((order, server, server.connect(), worker, tmp_path / f"gate-{order}"))
        for order, server, client, _, gate in lives:
            client.push("slow-job-1", "Slow", [str(gate)])
            wait_for(lambda: client.info()["sets"]["working"] == 1)
            server.tell(order)
            # When this has its answer, no FETCH is under way that came before the order.
            client.push("a-job-of-nobody", "Good", [1], queue="elsewhere")
            client.push("good-job-1", "Good", [1])
        for order, _, client, worker, gate in lives:
            wait_for(lambda: worker.has_heard(order), lambda: f"{order}\n{worker.said()}\n{worker.errors()}")
            assert worker.process.poll() is None
            assert client.info()["total_processed"] == 0
            gate.touch()
            wait_for(lambda: client.info()["total_processed"] == 1)
            assert client.info()["queues"]["default"] == 1
            if order == "quiet":
                worker.process.send_signal(signal.SIGTERM)
            worker.ends()
            assert [run["jobtype"] for run in worker.said() if "jobtype" in run] == ["Slow"]
    finally:
        foreign.close()
        for _, server, _, _, _ in lives:
            server.close()
