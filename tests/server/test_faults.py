"""Memory that runs out for a while and a disk that cannot be read: the server says what it is, goes on, and loses nothing.

Each single call that fails: tests/faults/sweep.py."""

import sqlite3
import time
import urllib.error
import urllib.request

import pytest

from tests.kit.failing import LIBRARY, Failing
from tests.kit.server import Bench
from tests.kit.waiting import LIMIT_S, wait_for

TASKS = "tasks:\n  mail: {lease: 2s, retry: {strategy: fixed, initial_delay: 100ms, max_retries: 50}, run: {exec: ['true']}}\n"
# Words for something else than what has happened.
OTHER_CAUSES = ("too long", "bytes", "damaged", "refused a statement", "not JSON", "malformed")


@pytest.fixture
def bench(tmp_path):
    one = Bench(tmp_path)
    one.configure(TASKS)
    yield one
    one.close()


@pytest.fixture
def faults(tmp_path):
    if not LIBRARY.exists():
        pytest.skip("the library of faults is not built")
    return Failing(tmp_path / "faults")


def submit(server, timeout=LIMIT_S):
    """Status and text; None when the connection was closed."""
    request = urllib.request.Request(f"http://127.0.0.1:{server.port()}/tasks/mail", data=b'{"a": 1}', method="POST")
    try:
        with urllib.request.urlopen(request, timeout=timeout) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()
    except OSError:
        return None


def is_over(bench):
    """How many jobs there are, once all of them are completed."""
    db = sqlite3.connect(f"file:{bench.database}?mode=ro", uri=True, timeout=LIMIT_S)
    try:
        all_jobs, completed = db.execute(
            "SELECT (SELECT count(*) FROM specs), (SELECT count(*) FROM final_results)").fetchone()
    finally:
        db.close()
    return completed if completed == all_jobs else None


def test_a_server_without_memory_goes_on_and_loses_nothing(bench, faults):
    server = bench.serve(env=faults.env()).ready()
    acknowledged = 0
    answers = []
    for per_million in (2000, 10_000, 50_000) * 4:
        faults.set(memory_per_million=per_million)
        until = time.monotonic() + 0.4
        while time.monotonic() < until:
            answers.append(submit(server))
            assert server.process.poll() is None, server.log()
        faults.clear()
        wait_for(lambda: (submit(server) or (0,))[0] == 202, "it takes jobs again")
        acknowledged += 1
    acknowledged += sum(answer is not None and answer[0] == 202 for answer in answers)
    refused = [answer for answer in answers if answer is not None and answer[0] != 202]
    assert refused, "no window was hard enough"
    for status, text in refused:
        assert status == 503, text
        assert not any(cause in text for cause in OTHER_CAUSES), text
    completed = wait_for(lambda: is_over(bench), lambda: bench.redrive("stats", "--json").stdout)
    assert completed >= acknowledged
    assert server.stop() == 0


def test_a_disk_that_cannot_be_read_is_not_called_damaged(bench, faults):
    bench.configure(TASKS.replace("lease: 2s, ", ""))  # no lease ends on a busy machine
    server = bench.serve(env=faults.env()).ready()
    assert submit(server)[0] == 202
    wait_for(lambda: is_over(bench), "the first job")
    faults.set(reads=True)
    # What is in the cache need not be read; a job that is not makes it read.
    status, text = wait_for(
        lambda: (found := server.get("/jobs/none-of-these"))[0] not in (200, 404) and found, "a read that fails"
    )
    assert status == 503, text
    assert "damaged" not in text, text
    assert "damaged" not in server.log()
    faults.clear()
    wait_for(lambda: submit(server)[0] == 202, "it takes jobs again")
    wait_for(lambda: is_over(bench) == 2 or None, "the second job")
    assert not server.logged("settlement_lost")
    assert server.stop() == 0
