"""How jobs end that a server or JSON would not take as they are: once, and no other job suffers."""

import asyncio
import json
import logging
import threading
from datetime import timedelta

import pytest
from conftest import LIMIT_S, wait_for

import redrive
from redrive import App, Worker
from redrive.queue import runner
from redrive.queue._held import Held, HeldJobs
from redrive.queue.client import Client
from redrive.queue.context import Context

ONCE = redrive.RetryPolicy(max_attempts=1)


@pytest.fixture
def app(server):
    return App(server.url)


def run_until(app, condition, **options):
    """Works until something is there: a worker that hangs fails the test, and does not hang it."""
    worker = Worker(app, poll=1, shutdown_timeout=0.5, **options)
    thread = threading.Thread(target=worker.run, daemon=True)
    thread.start()
    try:
        return wait_for(condition)
    finally:
        worker.stop()
        thread.join(LIMIT_S)


def ended(app, *jobs):
    return lambda: all(app.job(job.id)["state"] in ("completed", "dead_letter") for job in jobs)


def deep(levels):
    value = []
    for _ in range(levels):
        value = [value]
    return value


class Odd(Exception):
    pass


Odd.__qualname__ = "é" * 200 + "\n"

#: What a function returns, and what the server has of it.
RESULTS = {
    "too_big": ("x" * 2**20, None),
    "just_fits": ("é" * (2**19 - 1), "é" * (2**19 - 1)),
    "too_deep": (deep(62), None),
    "deep": (deep(55), deep(55)),
    "same_keys": ({1: "a", "1": "b"}, None),
    "half_pair": ({"text": "a\ud800b"}, {"text": "a?b"}),
    "nul": ("a\0b", "a\0b"),
    "not_a_number": (float("nan"), None),
    "a_set": ({1}, None),
}


def test_results_that_cannot_be_sent_have_no_job_run_again(app):
    runs = []

    @app.task(name="give")
    def give(name):
        runs.append(name)
        return RESULTS[name][0]

    jobs = {name: give.defer(name) for name in RESULTS}
    run_until(app, ended(app, *jobs.values()))
    found = {name: app.job(job.id) for name, job in jobs.items()}
    assert {name: job["state"] for name, job in found.items()} == dict.fromkeys(RESULTS, "completed")
    assert {name: job["result"] for name, job in found.items()} == {name: sent for name, (_, sent) in RESULTS.items()}
    assert sorted(runs) == sorted(RESULTS)


class Unspeakable(Exception):
    redrive_status = "no such class"


class Trap(Exception):
    @property
    def response(self):
        raise RuntimeError("it is a trap")


FAILURES = {
    "nul": Exception("a\0b"),
    "half_pair": Exception("a\ud800b"),
    "long": Exception("é" * 100000),
    "odd_type": Odd("no"),
    "in_two_days": redrive.RateLimited("no", retry_after=2 * 86400),
    "never": redrive.RateLimited("no", retry_after=float("inf")),
    "no_number": redrive.RateLimited("no", retry_after=float("nan")),
    "huge": redrive.RateLimited("no", retry_after=10**400),
    "unspeakable": Unspeakable("no"),
    "trap": Trap("no"),
    "sqlstate": type("Sql", (Exception,), {"sqlstate": "éé\0éé"})("no"),
}


def test_failures_that_cannot_be_sent_are_failures(app):
    runs = []

    @app.task(name="fail", retry=ONCE)
    def fail(name):
        runs.append(name)
        raise FAILURES[name]

    jobs = {name: fail.defer(name) for name in FAILURES}
    run_until(app, ended(app, *jobs.values()))
    found = {name: app.job(job.id) for name, job in jobs.items()}
    assert {name: job["state"] for name, job in found.items()} == dict.fromkeys(FAILURES, "dead_letter")
    assert {job["attempts"] for job in found.values()} == {1}
    assert sorted(runs) == sorted(FAILURES)
    assert found["nul"]["last_error"]["message"] == "a\ufffdb"
    assert found["half_pair"]["last_error"]["message"] == "a?b"
    assert "Traceback" in found["nul"]["last_error"]["stacktrace"]
    assert "cannot be described" in found["trap"]["last_error"]["message"]
    assert found["trap"]["last_error"]["type"] == "Trap"


def test_a_result_is_that_of_the_moment_of_the_return():
    kept = {"n": 1}
    task = App().task(name="give")(lambda: kept)
    answer = runner.run_sync(task, Context("a", "give", 1, 1))
    kept["n"] = object()
    assert answer == {"status": "SUCCESS", "result": {"n": 1}}


def test_snoozes_are_numbers_or_timedeltas(app):
    @app.task(name="nap", pass_context=True)
    def nap(context, long):
        raise redrive.Snooze(timedelta(days=400) if long else timedelta(minutes=5))

    jobs = [nap.defer(False), nap.defer(True)]
    run_until(app, lambda: all(app.job(job.id)["state"] == "scheduled" for job in jobs))
    assert [app.job(job.id)["attempts"] for job in jobs] == [0, 0]
    for wrong in (-1, timedelta(seconds=-1), float("inf"), float("nan"), "5", True, None):
        with pytest.raises(redrive.InvalidArgumentError):
            redrive.Snooze(wrong)
    assert redrive.Snooze(timedelta(minutes=5)).seconds == 300


def test_an_exit_in_a_coroutine_is_a_failure_of_its_job(app):
    @app.task(name="exits", retry=ONCE)
    async def exits():
        raise SystemExit(3)

    @app.task(name="interrupts", retry=ONCE)
    async def interrupts():
        raise KeyboardInterrupt

    @app.task(name="goes_on")
    async def goes_on():
        await asyncio.sleep(0.3)
        return "done"

    jobs = [exits.defer(), interrupts.defer(), goes_on.defer()]
    run_until(app, ended(app, *jobs))
    assert [app.job(job.id)["state"] for job in jobs] == ["dead_letter", "dead_letter", "completed"]
    assert app.job(jobs[0].id)["last_error"]["type"] == "SystemExit"


def test_an_exit_in_what_a_coroutine_has_started_leaves_the_loop_running(app):
    @app.task(name="starts")
    async def starts():
        asyncio.get_running_loop().call_soon(exit_now)
        await asyncio.sleep(0.2)
        return "done"

    def exit_now():
        raise SystemExit(3)

    job = starts.defer()
    run_until(app, ended(app, job))
    assert app.job(job.id)["result"] == "done"


def test_a_job_that_stops_or_closes_the_loop_ends_no_other(app):
    @app.task(name="stops")
    async def stops():
        asyncio.get_running_loop().stop()
        await asyncio.sleep(0.01)
        return "done"

    @app.task(name="closes", retry=ONCE)
    async def closes():
        asyncio.get_running_loop().close()

    jobs = [stops.defer(), closes.defer(), stops.defer()]
    run_until(app, ended(app, *jobs))
    assert [app.job(job.id)["state"] for job in jobs] == ["completed", "dead_letter", "completed"]
    assert "running event loop" in app.job(jobs[1].id)["last_error"]["message"]


async def await_what_another_cancelled():
    other = asyncio.ensure_future(asyncio.sleep(60))
    asyncio.get_running_loop().call_soon(other.cancel)
    await other


def test_a_cancellation_of_another_is_a_failure(app):
    runs = []

    @app.task(name="waits", retry=ONCE)
    async def waits():
        runs.append(1)
        await await_what_another_cancelled()

    job = waits.defer()
    run_until(app, ended(app, job))
    assert app.job(job.id)["state"] == "dead_letter"
    assert app.job(job.id)["last_error"]["type"] == "asyncio.exceptions.CancelledError"
    assert len(runs) == 1


# ---- Without a server ----------------------------------------------------------------------------


class Refusing:
    """A client whose server does not take some items."""

    def __init__(self, refuse):
        self.refuse = refuse
        self.settled = {}
        self.sizes = []

    def settle(self, items, *, timeout):
        self.sizes.append(sum(len(item) for item in items))
        found = [json.loads(item) for item in items]
        self.refuse(found)
        self.settled.update({item["id"]: item for item in found})
        return [{"status": 200} for _ in found]

    def extend(self, items, *, timeout):
        raise RuntimeError("no")


def held_job(n):
    job = {"id": f"job-{n}", "token": f"{n:016x}", "task": "t", "attempt": 1, "max_attempts": 1}
    return Held(job, Context.of_job(job))


def settle_all(client, answers):
    jobs = HeldJobs(client, lease=0.1)
    entries = [held_job(n) for n in range(len(answers))]
    for held, answer in zip(entries, answers):
        jobs.add(held)
        jobs.settle(held, answer)
    jobs.start()
    assert jobs.wait_until_empty(LIMIT_S)
    assert all(thread.is_alive() for thread in jobs._threads)
    jobs.close()


@pytest.mark.parametrize(
    "error", [redrive.ServerError("no", status=400), redrive.ServerError("no", status=413), RuntimeError("no")]
)
def test_a_refused_item_is_sent_again_without_what_may_be_wrong(error):
    def refuse(items):
        if any(item.get("result") == "bad" or item.get("message") == "bad" for item in items):
            raise error

    client = Refusing(refuse)
    good = [{"status": "SUCCESS", "result": n} for n in range(20)]
    bad = [
        {"status": "SUCCESS", "result": "bad"},
        {"status": "permanent", "message": "bad", "error_type": "Odd", "stacktrace": "…"},
    ]
    settle_all(client, [*good, *bad])
    assert [client.settled[f"job-{n}"]["result"] for n in range(20)] == list(range(20))
    assert client.settled["job-20"] == {"id": "job-20", "token": f"{20:016x}", "status": "SUCCESS"}
    failure = client.settled["job-21"]
    assert (failure["status"], failure["error_type"]) == ("permanent", "Odd")
    assert "stacktrace" not in failure


def test_what_cannot_be_written_is_settled_all_the_same():
    client = Refusing(lambda items: None)
    settle_all(client, [{"status": "SUCCESS", "result": object()}, {"snooze": float("nan")}])
    assert client.settled["job-0"]["status"] == "SUCCESS"
    assert client.settled["job-1"]["status"] == "FAIL"


def test_an_item_that_is_refused_twice_is_given_up(caplog):
    def refuse(items):
        raise redrive.ServerError("no", status=400)

    settle_all(Refusing(refuse), [{"status": "SUCCESS", "result": 1}] * 3)
    assert caplog.text.count("cannot_settle") == 3


def test_batches_are_bounded_by_bytes():
    client = Refusing(lambda items: None)
    settle_all(client, [{"status": "SUCCESS", "result": "x" * 1000000}] * 20)
    assert len(client.settled) == 20
    assert max(client.sizes) < 6 * 2**20


def test_jobs_that_have_ended_make_room_before_the_server_is_told():
    jobs = HeldJobs(Refusing(lambda items: None), lease=30)
    entries = [held_job(n) for n in range(4)]
    for held in entries:
        assert jobs.wait_for_room(2, 0) > 0
        jobs.add(held)
        jobs.settle(held, {"status": "SUCCESS"})
    assert (jobs.running(), jobs.is_empty()) == (0, False)
    assert jobs.wait_for_room(2, 0) == 0  # a server that is away gets no longer list
    jobs.start()
    assert jobs.wait_until_empty(LIMIT_S)
    assert jobs.wait_for_room(2, 0) == 2
    jobs.close()


def test_leases_are_kept_after_an_error(caplog):
    jobs = HeldJobs(Refusing(lambda items: None), lease=0.03)
    jobs.add(held_job(1))
    jobs.start()
    with caplog.at_level(logging.WARNING, "redrive"):
        wait_for(lambda: caplog.text.count("cannot_renew_leases") >= 2)
    jobs.close()


def test_a_token_is_stripped_and_never_shown():
    client = Client("http://127.0.0.1:1", token=" secret\n")
    assert client._headers["Authorization"] == "Bearer secret"
    for token in ("secret\r\nX: y", "secret more", "secrét"):
        with pytest.raises(redrive.InvalidArgumentError) as caught:
            Client("http://127.0.0.1:1", token=token)
        assert "secr" not in str(caught.value)
