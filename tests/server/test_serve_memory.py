"""What jobs with large payloads cost in the memory of `redrive serve`, while they come and afterwards."""

import concurrent.futures
import json
import pathlib

import pytest

from tests.kit.program import memory_mib
from tests.kit.stores import start_or_skip
from tests.kit.waiting import LIMIT_S, wait_for

MIB = 1024 * 1024
N_CLIENTS = 16
JOBS_EACH = 10
AT_ONCE = 4  # of a claim


@pytest.fixture(params=["sqlite", "postgres", "redis"])
def url(request, bench):
    if request.param == "sqlite":
        yield f"sqlite:{bench.database}"
        return
    with start_or_skip(request.param) as made:
        yield made.url


class Client:
    def __init__(self, server):
        self.connection = server.connect()

    def send(self, path, body):
        self.connection.request("POST", path, body, {"Content-Type": "application/json"})
        answer = self.connection.getresponse()
        text = answer.read()
        assert answer.status < 300, text
        return json.loads(text)

    def submit(self, body):
        for _ in range(JOBS_EACH):
            self.send("/v1/jobs", body)

    def work(self, name):
        """How many jobs it has done, once there are no more."""
        n = 0
        while jobs := self.send("/v1/claim", json.dumps({"n": AT_ONCE, "worker": name}))["jobs"]:
            items = [{"id": job["id"], "token": job["token"], "status": "SUCCESS"} for job in jobs]
            self.send("/v1/settle", json.dumps({"items": items}))
            n += len(jobs)
        return n


def all_at_once(server, call):
    """The sum of what the calls give, of one client each."""
    with concurrent.futures.ThreadPoolExecutor(N_CLIENTS) as pool:
        calls = [pool.submit(call, Client(server), i) for i in range(N_CLIENTS)]
        return sum(one.result(LIMIT_S) or 0 for one in calls)


def test_memory_of_large_payloads_is_bounded_and_given_back(bench, url):
    server = bench.serve("--store", url).ready()

    def resident():
        return memory_mib(server.pid, "VmRSS")

    def check(peak_mib, what):
        # Of the bytes of a store without its own cache nothing stays; SQLite's cache has 20 MiB.
        wait_for(lambda: resident() < idle + 28, lambda: f"{what}: {resident()} MiB, {idle} MiB when idle")
        assert memory_mib(server.pid, "VmHWM") < idle + peak_mib, what
        pathlib.Path(f"/proc/{server.pid}/clear_refs").write_text("5", "ascii")

    idle = resident()
    body = json.dumps({"task": "large", "payload": "x" * (MIB - 16)})
    all_at_once(server, lambda client, _: client.submit(body))
    check(90, "submits")
    assert all_at_once(server, lambda client, i: client.work(f"w{i}")) == N_CLIENTS * JOBS_EACH
    check(250, "claims")  # each answer has AT_ONCE payloads
    assert server.stop() == 0
