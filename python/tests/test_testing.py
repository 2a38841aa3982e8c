import asyncio

import pytest

import redrive
from redrive import App, RetryPolicy
from redrive.testing import inline


@pytest.fixture
def app():
    return App("http://127.0.0.1:1")


def test_jobs_run_inline_with_their_retries(app):
    @app.task(
        name="flaky", retry=RetryPolicy(max_attempts=5, initial_delay=2, multiplier=2, jitter=False), pass_context=True
    )
    def flaky(context, value):
        if context.attempt < 3:
            raise ConnectionError
        return value

    @app.task(name="outer")
    async def outer(values):
        for value in values:
            await flaky.defer_async(value)

    with inline(app) as jobs:
        outer.defer((1, 2))
        assert app.job(jobs[1].id)["attempts"] == 3
    assert [(job.task, job.state, job.attempts, job.result) for job in jobs] == [
        ("outer", "completed", 1, None),
        ("flaky", "completed", 3, 1),
        ("flaky", "completed", 3, 2),
    ]
    assert jobs[1].delays == [2.0, 4.0]
    assert jobs[0].payload == {"values": [1, 2]}
    with pytest.raises(redrive.UnreachableError):
        outer.defer([])


def test_what_fails_is_kept(app):
    @app.task(name="broken")
    def broken():
        raise ValueError("no")

    with inline(app) as jobs:
        broken.defer()
    job = jobs[0]
    assert (job.state, job.reason, job.failure_class, str(job.exception)) == (
        *("dead_letter", "not_retriable", "validation", "no"),
    )


def test_jobs_can_be_kept_until_they_are_drained(app):
    @app.task(name="t")
    def task():
        return 1

    with inline(app, run=False) as jobs:
        task.configure(unique_key="k").defer()
        assert task.configure(unique_key="k").defer().existed
        assert jobs[0].state == "queued"
        jobs.drain()
    assert [job.state for job in jobs] == ["completed"]


def test_inside_an_event_loop(app):
    @app.task(name="t")
    async def task():
        return 1

    async def main():
        with inline(app) as jobs:
            await task.defer_async()
            task.defer()
        return jobs

    assert [job.result for job in asyncio.run(main())] == [1, 1]


def test_a_policy_of_the_job_is_that_of_its_task_and_more(app):
    runs = []

    @app.task(name="fails", retry=5)
    def fails():
        runs.append(1)
        raise ConnectionError

    on = {"network": RetryPolicy(initial_delay=900, max_delay=1000, strategy="fixed", jitter=False)}
    other = RetryPolicy(max_attempts=3, delays=[1, 2.5], jitter=redrive.Jitter("step", min=1, max=1), on=on)
    with inline(app) as jobs:
        fails.configure(retry=2).defer()
        fails.configure(retry=RetryPolicy(max_attempts=3, delays=[1, 2.5], jitter=False)).defer()
        fails.configure(retry=other, id="c").defer()
        fails.defer()
    assert [job.attempts for job in jobs] == [2, 3, 3, 5]
    assert jobs[1].delays == [1, 2.5]
    assert jobs[2].delays == [900, 900]
    assert {job.state for job in jobs} == {"dead_letter"}


def test_a_job_that_always_snoozes_stays_scheduled(app):
    ready = []

    @app.task(name="waits")
    def waits():
        if not ready:
            raise redrive.Snooze(5)
        return "done"

    with inline(app) as jobs:
        assert waits.defer().state == "queued"
        assert (jobs[0].state, jobs[0].attempts, len(jobs[0].delays)) == ("scheduled", 0, 100)
        jobs.drain()
        assert jobs[0].state == "scheduled"
        ready.append(True)
        jobs.drain()
    assert (jobs[0].state, jobs[0].result, jobs[0].attempts) == ("completed", "done", 1)
