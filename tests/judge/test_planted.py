"""The judge notices every bug that can be planted in a history, and none in the history as it was."""
import pytest

from tests.judge.planted import BUGS
from tests.judge.promises import OF_A_JOB, OF_ALL_JOBS, Contract
from tests.judge.verdict import complaints, kind_of
from tests.judge.test_promises import claim, event, record, run, settle, submitted

CONTRACT = Contract(backoff_s=0.2, recorded=True, punctual=True)


def final(job, attempts=1):
    return [event("final", 100.0, job, state="completed", attempts=attempts, max_attempts=5)]


def twice(job):
    """The records of a job that was retried once."""
    return [*record(job, ended=1.25, next=1.5), *record(job, attempt=2, outcome="completed", ended=2.2, next=0)]


FIGURES = {"event": "figures", "id": None, "mono": 100.0, "sizes": {"completed": 4, "queued": 0},
           "counters": {"jobs_received": 4, "jobs_completed": 4, "jobs_dlq": 0, "jobs_failed": 0, "jobs_started": 6, "jobs_retried": 2,
                        "jobs_released": 0}}
SOUND = sum((submitted("remote", payload="p"), claim("remote", payload="p"), settle("remote", status="TRANSIENT_FAIL", at=1.2),
             claim("remote", at=2.0, attempt=2, payload="p"), settle("remote", at=2.1, attempt=2), twice("remote"), final("remote", 2),
             submitted("work", payload="p"), run("work", status="TRANSIENT_FAIL", payload="p"),
             run("work", at=2.0, attempt=2, payload="p"), twice("work"), final("work", 2),
             submitted("locked", not_before=0.9), run("locked"), final("locked"),
             submitted("ordered", queue="q", priority=3), claim("ordered"), settle("ordered"), final("ordered"), [FIGURES]), [])


def test_sound_history_has_no_complaint():
    assert complaints(SOUND, CONTRACT) == []


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name)
def test_bug_is_noticed(bug):
    assert bug.kind in {found.kind for found in complaints(*bug.plant(SOUND, CONTRACT))}


def test_each_promise_has_a_bug_that_breaks_it():
    assert {bug.kind for bug in BUGS} == {kind_of(promise) for promise in OF_A_JOB + OF_ALL_JOBS}
