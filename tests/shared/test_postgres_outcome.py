"""Commits of a PostgreSQL store whose answers are lost: their outcome is found out, and costs no attempts."""
import collections

import pytest

from tests.kit.lossy import Lossy
from tests.kit.waiting import wait_for
from tests.shared.fleet import Fleet, run_noting

JOBS = 200
WAITING = ("scheduled", "retrying", "queued", "running", "parked")


@pytest.fixture(name="lossy")
def make_lossy(make_server, tmp_path):
    server = make_server("postgres")
    proxy = Lossy(server.port, every=7)
    fleet = Fleet(tmp_path, f"postgres://{server.superuser}@127.0.0.1:{proxy.at}/postgres")
    yield server, proxy, fleet
    fleet.close()
    proxy.close()


def test_lost_answers_to_commits_take_no_slot_twice(lossy):
    server, proxy, fleet = lossy
    fleet.configure(f"tasks: {{few: {{retry: {{max_retries: 0}}, limits: {{concurrency: 3}}, {run_noting(4)}}}}}\n")
    for _ in range(5):
        fleet.submit("few", [{}] * 16)
    worker = fleet.work()
    wait_for(lambda: len(fleet.seen("end")) >= 80, lambda: f"{len(fleet.seen('end'))} of 80 have run")
    wait_for(lambda: not fleet.jobs(*WAITING), "all jobs have ended")
    assert worker.stop() == 0
    assert proxy.swallowed >= 2 and len(proxy.late) >= 2 and proxy.cut >= 2, (proxy.commits, proxy.swallowed, proxy.late)
    assert not any(proxy.late), "a COMMIT was made after its outcome was asked for"
    assert server.sql("SELECT running FROM redrive.limits") == "0"
    assert collections.Counter((job["state"], job["attempts"]) for job in fleet.jobs()) == {("completed", 1): 80}


def test_lost_answers_to_commits_cost_no_attempts(lossy):
    server, proxy, fleet = lossy
    fleet.configure(f"tasks: {{once: {{retry: {{max_retries: 0}}, {run_noting(4)}}}}}\n")
    ids = [job for _ in range(10) for job in fleet.submit("once", [{}] * (JOBS // 10))]
    worker = fleet.work()
    wait_for(lambda: len(fleet.seen("end")) >= JOBS, lambda: f"{len(fleet.seen('end'))} of {JOBS} have run")
    wait_for(lambda: not fleet.jobs(*WAITING), "all jobs have ended")
    assert worker.stop() == 0

    assert proxy.swallowed >= 3 and len(proxy.late) >= 3 and proxy.cut >= 3, (proxy.commits, proxy.swallowed, proxy.late)
    assert proxy.unheard >= 3, proxy.asks
    assert not any(proxy.late), "a COMMIT was made after its outcome was asked for"
    jobs = fleet.jobs()
    assert sorted(job["id"] for job in jobs) == sorted(ids)
    assert len(set(ids)) == JOBS
    assert collections.Counter((job["state"], job["attempts"]) for job in jobs) == {("completed", 1): JOBS}
    started = collections.Counter(entry["id"] for entry in fleet.seen("start"))
    assert started == collections.Counter(ids)
    assert server.sql("SELECT count(*) FROM redrive.handles") == "0", "markers of handles that were closed"
