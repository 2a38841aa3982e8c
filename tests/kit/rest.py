"""A client of the HTTP interface, and the program that serves its resources alone (tests/server/serve_main.c)."""

import http.client
import json
import os
import pathlib
import re
import urllib.parse

from tests.kit.program import ROOT, Helper, memory_mib
from tests.kit.waiting import LIMIT_S

TASKS = """
tasks:
  mail:
    queue: main
    retry: {max_attempts: 2, strategy: fixed, initial_delay: 10ms, min_delay: 0s, jitter: false}
  once: {queue: side, retry: {max_attempts: 1}}
  picky: {queue: main, payload: required}
"""


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
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=LIMIT_S)
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
        jobs = self.claim(wait=60, **members)
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


class RestServer(Helper):
    def __init__(self, directory, extra=""):
        config = directory / "redrive.yaml"
        config.write_text(f"store: sqlite:{directory}/jobs.db\n{TASKS}{extra}")
        super().__init__("server/serve_rest", config)
        self.api = Api(self.port)

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


def documented_routes():
    """Every (method, path) of docs/openapi.yaml that asks for a token."""
    routes, path, method = set(), None, None
    for line in (ROOT / "docs" / "openapi.yaml").read_text().splitlines():
        if found := re.fullmatch(r"  (/\S*):", line):
            path = found[1]
        elif found := re.fullmatch(r"    (get|post|put|patch|delete):", line):
            method = found[1].upper()
        elif re.fullmatch(r"      security: \[\{\w+: \[\]\}(, \{\w+: \[\]\})*\]", line):
            routes.add((method, path))
    return routes
