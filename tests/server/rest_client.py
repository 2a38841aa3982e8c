"""The resources behind a real HTTP server (serve_main.c), asked as a client asks."""

import hashlib
import http.client
import json
import os
import pathlib
import re
import subprocess
import time
import urllib.parse

import pytest

from serve_kit import memory_mib

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("REDRIVE_BIN", ROOT / "build" / "redrive")).resolve().parent
SERVER = BUILD / "tests" / "server" / "serve_rest"

# Nothing here takes long; what does, hangs.
TIMEOUT_S = 90

TASKS = """
tasks:
  mail:
    queue: main
    retry: {max_attempts: 2, strategy: fixed, initial_delay: 10ms, min_delay: 0s, jitter: false}
  once: {queue: side, retry: {max_attempts: 1}}
  picky: {queue: main, payload: required}
"""


def token_line(name, scopes, tenant):
    digest = hashlib.sha256(f"secret-{name}".encode()).hexdigest()
    return f"  - {{name: {name}, hash: \"sha256:{digest}\", scopes: [{scopes}], tenant: {tenant}}}\n"


class Answer:
    """What came back: status, headers, and the body, parsed if it is JSON."""

    def __init__(self, response):
        self.status = response.status
        self.headers = response.headers
        self.raw = response.read()
        kind = response.headers.get("Content-Type", "")
        self.body = json.loads(self.raw) if kind.endswith("json") else None

    def __getitem__(self, key):
        return self.body[key]


class Api:
    """Asks a server, as the holder of a token if one is given."""

    def __init__(self, port, token=None):
        self.port = port
        self.token = token

    def of(self, token):
        return Api(self.port, f"secret-{token}")

    def open(self, method, path, body=None, headers=None):
        """Sends a request, and gives the connection on which the answer will come."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=TIMEOUT_S)
        headers = dict(headers or {})
        if self.token:
            headers["Authorization"] = f"Bearer {self.token}"
        if body is not None and not isinstance(body, (bytes, str)):
            body = json.dumps(body)
        connection.request(method, path, body=body, headers=headers)
        return connection

    def __call__(self, method, path, body=None, headers=None, **query):
        if query:
            path += "?" + urllib.parse.urlencode(query)
        connection = self.open(method, path, body, headers)
        try:
            return Answer(connection.getresponse())
        finally:
            connection.close()

    def ok(self, method, path, body=None, status=200, **more):
        """The body of an answer that must have this status."""
        answer = self(method, path, body, **more)
        assert answer.status == status, answer.raw
        return answer.body

    def problem(self, status, method, path, body=None, **more):
        """The problem document of a request that must be refused with this status."""
        answer = self(method, path, body, **more)
        assert answer.status == status, answer.raw
        assert answer.headers["Content-Type"] == "application/problem+json"
        assert answer["status"] == status
        return answer.body

    # -- What many tests do on their way --

    def submit(self, task="mail", **members):
        return self.ok("POST", "/jobs", {"task": task, **members}, status=201)["id"]

    def claim(self, **members):
        return self.ok("POST", "/claim", members)["jobs"]

    def claim_one(self, **members):
        jobs = self.claim(wait=10, **members)
        assert len(jobs) == 1
        return jobs[0]

    def settle(self, job, **members):
        item = {"id": job["id"], "token": job["token"], **members}
        return self.ok("POST", "/settle", {"items": [item]})["items"][0]

    def kill(self, task="once", message="no such bucket", **members):
        """A dead letter, from submit to death."""
        job_id = self.submit(task, **members)
        job = self.claim_one(tasks=[task])
        assert job["id"] == job_id
        answer = self.settle(job, **{"class": "permanent", "error_type": "IOError", "message": message})
        assert answer["state"] == "dead_letter"
        return job_id

    def state(self, job_id):
        return self.ok("GET", f"/jobs/{job_id}")["state"]


class Server:
    def __init__(self, tmp_path, extra=""):
        config = tmp_path / "redrive.yaml"
        config.write_text(f"store: sqlite:{tmp_path}/jobs.db\n{TASKS}{extra}")
        self.process = subprocess.Popen([SERVER, config], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        line = self.process.stdout.readline()
        assert line, "the server did not start"
        self.api = Api(int(line))

    def cpu_s(self):
        """Processor time so far."""
        fields = pathlib.Path(f"/proc/{self.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def resident_mib(self):
        """The memory that it has."""
        return memory_mib(self.process.pid, "VmRSS")

    def peak_mib(self):
        """The most that it has had, since the start or since forget_peak."""
        return memory_mib(self.process.pid, "VmHWM")

    def forget_peak(self):
        pathlib.Path(f"/proc/{self.process.pid}/clear_refs").write_text("5")

    def stop(self):
        """Its exit code, once it has ended in good order."""
        self.process.stdin.close()
        self.process.stdout.close()
        try:
            return self.process.wait(timeout=TIMEOUT_S)
        finally:
            self.process.kill()
            self.process.wait()


@pytest.fixture
def start(tmp_path):
    """Starts a server; `extra` is added to its configuration."""
    servers = []

    def start_one(extra=""):
        servers.append(Server(tmp_path, extra))
        return servers[-1]

    yield start_one
    for server in servers:
        if server.process.returncode is None:
            assert server.stop() == 0


@pytest.fixture
def api(start):
    return start().api


@pytest.fixture
def tenants(start):
    """Two tenants with every scope, and one who may only read."""
    everything = "enqueue, work, read, admin"
    tokens = "tokens:\n" + token_line("red", everything, "red") + token_line("blue", everything, "blue")
    api = start(tokens + token_line("reader", "read", "red")).api
    return api.of("red"), api.of("blue"), api.of("reader")


def until(condition, what="it"):
    """Waits for a condition with a generous limit; gives its value."""
    end = time.monotonic() + TIMEOUT_S
    while time.monotonic() < end:
        value = condition()
        if value:
            return value
        time.sleep(0.02)
    pytest.fail(f"{what} did not happen within {TIMEOUT_S} s")


def documented_routes():
    """Every (method, path) of docs/openapi.yaml that asks for a token."""
    routes, path, method = set(), None, None
    for line in (ROOT / "docs" / "openapi.yaml").read_text().splitlines():
        if found := re.fullmatch(r"  (/\S*):", line):
            path = found[1]
        elif found := re.fullmatch(r"    (get|post|put|patch|delete):", line):
            method = found[1].upper()
        elif re.fullmatch(r"      security: \[\{\w+: \[\]\}\]", line):
            routes.add((method, path))
    return routes
