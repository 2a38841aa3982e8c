"""An outage from beginning to end, over HTTP: a server, a worker beside it, and whoever is on duty.

Runs on every store that processes can share: a file of SQLite, and throw-away servers of PostgreSQL and
Redis.
"""

import json
import subprocess

import pytest

from tests.kit import servers
from tests.kit.program import BINARY, environment
from tests.kit.server import Bench
from tests.kit.stores import start_or_skip
from tests.kit.waiting import LIMIT_S, wait_for

TASKS = """
defaults: {retry: {strategy: fixed, initial_delay: 10ms, min_delay: 0s, jitter: false}}
tasks:
  mail:
    run: {exec: [sh, -c, 'if [ -e DIR/down ]; then echo "connection refused" >&2; exit 75; fi']}
    retry: {max_attempts: 1}
    breaker: {failure_threshold: 3, recovery_timeout: 1h}
  flaky:
    run: {exec: [sh, -c, '[ "$REDRIVE_ATTEMPT" -gt 1 ] || exit 75']}
    retry: {max_attempts: 3}
"""


@pytest.fixture(params=["sqlite", *servers.KINDS])
def store_url(request, tmp_path):
    if request.param == "sqlite":
        yield f"sqlite:{tmp_path}/jobs.db"
        return
    with start_or_skip(request.param) as server:
        yield server.url


class Site:
    """A server that runs nothing itself, a worker on the same store, and a client."""

    def __init__(self, bench, store):
        bench.configure(TASKS)
        text = bench.config.read_text().replace(f"store: sqlite:{bench.database}", f"store: '{store}'")
        bench.config.write_text(text)
        self.bench = bench
        self.server = bench.serve("--no-work").ready()
        self.log = open(bench.dir / "worker.log", "wb")
        self.worker = subprocess.Popen(
            [str(BINARY), "work", "-c", str(bench.config)],
            stdin=subprocess.DEVNULL,
            stdout=self.log,
            stderr=subprocess.STDOUT,
            env=environment(),
        )

    def ask(self, method, path, body=None, status=200):
        connection = self.server.connect()
        connection.request(method, path, None if body is None else json.dumps(body))
        answer = connection.getresponse()
        text = answer.read()
        connection.close()
        assert answer.status == status, (method, path, answer.status, text)
        return json.loads(text) if text else None

    def submit(self, task):
        return self.ask("POST", "/jobs", {"task": task}, status=201)["id"]

    def wait_state(self, job_id, state):
        wait_for(
            lambda: self.ask("GET", f"/jobs/{job_id}")["state"] == state,
            lambda: f"{state}: {self.ask('GET', f'/jobs/{job_id}')}",
        )

    def breaker(self, key):
        items = self.ask("GET", "/retry/circuit-breakers")["items"]
        return next((item for item in items if item["key"] == key), None)

    def close(self):
        if self.worker.poll() is None:
            self.worker.terminate()
        code = self.worker.wait(LIMIT_S)
        self.log.close()
        return code


@pytest.fixture
def site(tmp_path, store_url):
    bench = Bench(tmp_path)
    one = Site(bench, store_url)
    try:
        yield one
    finally:
        one.close()
        bench.close()


def stats_document(successful, failed, retried, dead, closed, open_):
    total = successful + failed + retried
    return {
        "execution_stats": {
            "total_executed": total,
            "successful": successful,
            "failed": failed,
            "retried": retried,
            "success_rate": pytest.approx(100 * successful / total),
            "failure_rate": pytest.approx(100 * failed / total),
            "retry_rate": pytest.approx(100 * retried / total),
        },
        "circuit_breaker_stats": {
            "total_circuit_breakers": closed + open_,
            "open_circuits": open_,
            "closed_circuits": closed,
        },
        "dead_letter_stats": {"total_dead_letters": dead, "by_task_type": {"mail": dead} if dead else {}},
    }


def test_an_outage_is_seen_ended_and_cleaned_up(site):
    # A job that fails once is retried, and nobody need know.
    site.wait_state(site.submit("flaky"), "completed")

    # The service goes down: jobs die, and the third failure opens the breaker.
    (site.bench.dir / "down").touch()
    dead = []
    for count in (1, 2, 3):
        assert (site.breaker("mail") or {"state": "closed"})["state"] == "closed"
        dead.append(site.submit("mail"))
        site.wait_state(dead[-1], "dead_letter")
        assert site.breaker("mail")["failure_count"] == count
    wait_for(lambda: site.breaker("mail")["state"] == "open", "an open breaker")
    held = site.submit("mail")
    site.wait_state(held, "parked")
    wait_for(lambda: site.breaker("mail")["parked"] == 1, "the parked job at its breaker")
    assert site.ask("GET", "/retry/stats") == stats_document(1, 3, 1, dead=3, closed=1, open_=1)

    # It is back. Somebody says so, and what was held back runs.
    (site.bench.dir / "down").unlink()
    assert site.ask("POST", "/retry/circuit-breakers/mail/reset")["state"] == "closed"
    site.wait_state(held, "completed")
    assert (site.breaker("mail")["state"], site.breaker("mail")["parked"]) == ("closed", 0)

    # The dead letters: one is tried again, the others are thrown away.
    letters = site.ask("GET", "/retry/dead-letters")["items"]
    assert {letter["id"] for letter in letters} == set(dead)
    assert all(letter["error_message"] == "connection refused" for letter in letters), letters
    groups = site.ask("GET", "/retry/dead-letters/groups")["items"]
    assert [group["count"] for group in groups] == [3]
    assert site.ask("POST", f"/retry/dead-letters/{dead[0]}/retry")["id"] == dead[0]
    site.wait_state(dead[0], "completed")
    assert site.ask("DELETE", "/retry/dead-letters?older_than_hours=0")["removed"] == 2
    for job_id in dead[1:]:
        site.ask("GET", f"/jobs/{job_id}", status=404)
    assert site.ask("GET", "/retry/dead-letters") == {"items": [], "next": None}
    assert site.ask("GET", "/retry/stats") == stats_document(3, 3, 1, dead=0, closed=2, open_=0)

    # Both end in good order.
    assert site.close() == 0
    assert site.server.stop() == 0
