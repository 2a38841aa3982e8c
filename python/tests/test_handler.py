import asyncio
import json
import logging
import os
import signal
import subprocess
import threading
import time

import pytest
from conftest import BINARY, LIMIT_S, closed_loop_running

import redrive
from redrive import BreakerConfig, ConflictError, InvalidArgumentError, RetryHandler, RetryPolicy, State, StoppingError

QUICK = RetryPolicy(strategy="fixed", initial_delay=0.01, min_delay=0, jitter=False, max_retries=3)


@pytest.fixture
def handler():
    with RetryHandler("test", retry=QUICK) as made:
        yield made


#: Who waits for the next attempt waits for longer than any test.
HOURS = RetryPolicy(strategy="fixed", initial_delay=3600, max_delay=3600, total_timeout=0, jitter=False)
#: Seconds in which a reset wakes who waits for a breaker; one that is not reset lets it go after 30.
AWAKE = 20


def fail(context, payload):
    raise payload


def echo(context, payload):
    return payload


class Twice:
    """Fails twice."""

    def __init__(self):
        self.contexts = []

    def __call__(self, context, payload):
        self.contexts.append(context)
        if len(self.contexts) <= 2:
            raise ConnectionError("no")
        return payload

    async def coroutine(self, context, payload):
        return self(context, payload)


def test_a_job_is_retried_until_it_succeeds(handler):
    work = Twice()
    result = handler.submit_job(handler.create_job("report", {"month": "May"}), work)
    assert result.success
    assert result.unwrap() == {"month": "May"}
    assert result.attempts == 3
    assert [context.attempt for context in work.contexts] == [1, 2, 3]
    assert work.contexts[0].max_attempts == 4
    metrics = handler.metrics()
    assert (metrics.jobs_received, metrics.jobs_completed, metrics.jobs_retried) == (1, 1, 2)
    assert metrics.failures_by_class["network"] == 2


def test_coroutines(handler):
    async def main():
        jobs = [
            handler.submit_job_async(handler.create_job("report", n, service=f"s{n}"), Twice().coroutine)
            for n in range(20)
        ]
        return await asyncio.gather(*jobs)

    assert [result.value for result in asyncio.run(main())] == list(range(20))


def test_a_coroutine_function_needs_the_other_verb(handler):
    with pytest.raises(InvalidArgumentError, match="coroutine"):
        handler.submit_job(handler.create_job("report"), Twice().coroutine)


def test_a_failure_becomes_a_dead_letter_with_all_that_is_known(handler):
    job = handler.create_job("report", ValueError("month 13"), id="a", user="ann", priority=5, queue="slow")
    result = handler.submit_job(job, fail)
    assert (result.state, result.reason, result.failure_class) == (State.DEAD_LETTER, "not_retriable", "validation")
    with pytest.raises(redrive.JobFailedError) as caught:
        result.unwrap()
    assert "dead_letters.retry()" in caught.value.hint
    assert isinstance(caught.value.__cause__, ValueError)
    letter = handler.dead_letters.get("a")
    assert (letter.task, letter.user, letter.priority, letter.queue) == ("report", "ann", 5, "slow")
    assert (letter.error_type, letter.message) == ("ValueError", "month 13")
    assert "in fail" in letter.stacktrace
    assert letter.history[0].failure_class == "validation"


def test_dead_letters_are_listed_grouped_edited_retried_and_removed(handler):
    for n in range(3):
        handler.submit_job(handler.create_job("report", ValueError(f"order {n} is odd"), id=f"v{n}"), fail)
    handler.submit_job(handler.create_job("mail", ConnectionError("slow"), id="t", retry=1), fail)
    letters = handler.dead_letters
    assert len(letters) == 4
    assert [letter.id for letter in letters.list(task="report", limit=2)] == ["v0", "v1"]
    assert [letter.id for letter in letters.list(failure_class="network")] == ["t"]
    assert [letter.id for letter in letters.list(error_type="Value*", text="2 is")] == ["v2"]
    assert letters.list(failed_before=1) == []
    assert [group.count for group in letters.groups()] == [3, 1]
    assert letters.stats().by_class == {"validation": 3, "network": 1}
    assert letters.retry_all(dry_run=True, task="report").matched == 3

    letters.edit("v0", "mended")
    assert letters.get("v0").payload == "mended"
    assert letters.retry("v0", echo).value == "mended"
    again = letters.retry("v1")
    assert again.state is State.DEAD_LETTER
    assert letters.get("v1").epoch == 1
    done = letters.retry_all(task="report", work=echo, rate=1000)
    assert (done.matched, done.completed) == (2, 2)
    letters.remove("t")
    assert len(letters) == 0
    with pytest.raises(redrive.NotFoundError):
        letters.remove("t")
    with pytest.raises(redrive.NotFoundError):
        letters.retry("t")
    with pytest.raises(InvalidArgumentError):
        letters.list(failure_class="odd")


def test_dead_letters_are_retried_by_coroutines(handler):
    async def main():
        job = handler.create_job("report", "x", id="a", retry=1)
        await handler.submit_job_async(job, Twice().coroutine)
        work = Twice()
        work.contexts = [None, None]
        return await handler.dead_letters.retry_async("a", work.coroutine)

    assert asyncio.run(main()).value == "x"


def test_purge_and_memory_of_payloads():
    handler = RetryHandler(retry=1, max_dead_letters=10)
    for n in range(300):
        handler.submit_job(handler.create_job("t", ValueError(n)), fail)
    assert len(handler.dead_letters) == 10
    assert handler.dead_letters.stats().dropped == 290
    assert len(handler.dead_letters._work) <= 100
    assert handler.dead_letters.purge(older_than=3600) == 0
    assert handler.dead_letters.purge() == 10


def test_without_dead_letters(handler):
    job = handler.create_job("t", ValueError(), retry=RetryPolicy(enable_dlq=False))
    assert handler.submit_job(job, fail).state is State.FAILED
    assert len(handler.dead_letters) == 0


def test_breakers_open_park_and_are_moved_by_hand():
    config = BreakerConfig(failure_threshold=2, recovery_timeout=1, recovery_jitter=0)
    with RetryHandler(retry=QUICK, breaker=config) as handler:
        result = handler.submit_job(handler.create_job("report", "x", service="db"), Twice())
        assert result.success
        assert result.parked > 0
        assert handler.breakers.get("db").state == "closed"
    with RetryHandler(retry=QUICK, breaker=BreakerConfig(failure_threshold=2)) as handler:
        handler.submit_job(handler.create_job("report", "x", service="db"), echo)
        handler.breakers.trip("db")
        assert handler.health().breakers_open == 1
        assert [status.name for status in handler.breakers.list()] == ["db"]
        handler.breakers.reset("db")
        handler.breakers.simulate_failure("db")
        assert handler.breakers.get("db").failure_count == 1
        handler.breakers.disable("db")
        with pytest.raises(redrive.NotFoundError, match="no breaker"):
            handler.breakers.get("other")
        handler.breakers.configure("other", BreakerConfig(on_open="reject"))
        handler.breakers.trip("other")
        with pytest.raises(redrive.BreakerOpenError):
            handler.submit_job(handler.create_job("t", service="other"), echo)


def test_a_parked_job_is_woken_by_a_reset(handler):
    handler.submit_job(handler.create_job("t"), echo)
    handler.breakers.trip("t")
    done = []
    thread = threading.Thread(target=lambda: done.append(handler.submit_job(handler.create_job("t", 7), echo)))
    thread.start()
    while handler.metrics().parked == 0:
        time.sleep(0.001)
    handler.breakers.reset("t")
    thread.join(AWAKE)
    assert done[0].value == 7


def test_a_parked_coroutine_is_woken_by_a_reset(handler):
    handler.submit_job(handler.create_job("t"), echo)
    handler.breakers.trip("t")

    async def work(context, payload):
        return payload

    async def main():
        task = asyncio.create_task(handler.submit_job_async(handler.create_job("t", 7), work))
        while handler.metrics().parked == 0:
            await asyncio.sleep(0.001)
        handler.breakers.reset("t")
        return await asyncio.wait_for(task, AWAKE)

    assert asyncio.run(main()).value == 7


def test_cancel_ends_a_job_that_waits(handler):
    job = handler.create_job("t", OSError(), id="a", retry=HOURS)
    done = []
    thread = threading.Thread(target=lambda: done.append(handler.submit_job(job, fail)))
    thread.start()
    while handler.metrics().waiting == 0:
        time.sleep(0.001)
    assert handler.cancel("a")
    thread.join(LIMIT_S)
    assert done[0].state is State.CANCELLED
    assert not handler.cancel("a")


def test_a_running_job_sees_that_it_is_cancelled(handler):
    def work(context, payload):
        handler.cancel(context.job_id)
        assert context.cancelled
        raise OSError

    assert handler.submit_job(handler.create_job("t"), work).attempts == 1


def test_a_cancelled_task_leaves_nothing_behind(handler):
    async def forever(context, payload):
        await asyncio.sleep(60)

    async def main():
        task = asyncio.create_task(handler.submit_job_async(handler.create_job("t", id="a"), forever))
        await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    metrics = handler.metrics()
    assert (metrics.running, metrics.jobs_cancelled) == (0, 1)
    assert handler.submit_job(handler.create_job("t", id="a"), echo).success


def test_a_loop_that_is_closed_with_a_job_in_hand(handler):
    """Its coroutine is thrown away: the job is cancelled, and the handler goes on."""

    async def forever(context, payload):
        await asyncio.sleep(60)

    loop = asyncio.new_event_loop()
    task = loop.create_task(handler.submit_job_async(handler.create_job("t", id="a"), forever))
    loop.run_until_complete(asyncio.sleep(0.01))
    coroutine = task.get_coro()
    loop.close()
    coroutine.close()
    task._log_destroy_pending = False
    assert handler.metrics().jobs_cancelled == 1
    assert handler.submit_job(handler.create_job("t", id="a"), echo).success


def test_a_loop_that_is_closed_or_missing(handler):
    async def work(context, payload):
        return payload

    job = handler.create_job("t", id="a")
    with closed_loop_running():
        with pytest.raises(redrive.StoppingError, match=r"job was not run: .* is closed\nhint: submit_job"):
            handler.submit_job_async(job, work).send(None)
        with pytest.raises(redrive.StoppingError, match=r"not stopped: .* is closed\nhint: stop"):
            handler.stop_async().send(None)
    with pytest.raises(redrive.ConflictError, match=r"no event loop.*\nhint: await it inside asyncio.run"):
        handler.submit_job_async(job, work).send(None)
    assert handler.submit_job(job, echo).success, "the handler still works, and the id is free"


def test_a_loop_whose_threads_are_gone(handler):
    async def main():
        await asyncio.get_running_loop().shutdown_default_executor()
        with pytest.raises(redrive.StoppingError, match=r"shutting down.*\nhint: stop"):
            await handler.stop_async()

    asyncio.run(main())


def test_an_interrupt_passes_through_and_leaves_nothing_behind(handler):
    def interrupted(context, payload):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        handler.submit_job(handler.create_job("t", id="a"), interrupted)
    assert handler.metrics().running == 0
    assert len(handler.dead_letters) == 0


def test_ctrl_c_interrupts_a_wait(handler):
    # A shell that starts the tests in the background has it ignored.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        interrupt_a_wait(handler)
    finally:
        signal.signal(signal.SIGINT, before)


def interrupt_a_wait(handler):
    job = handler.create_job("t", OSError(), retry=HOURS)
    timer = threading.Timer(0.1, lambda: os.kill(os.getpid(), signal.SIGINT))
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        handler.submit_job(job, fail)
    assert handler.metrics().jobs_cancelled == 1


def test_total_timeout_and_deadline(handler):
    policy = RetryPolicy(delays=[0.01, 3600], min_delay=0, jitter=False, total_timeout=60, max_retries=100)
    result = handler.submit_job(handler.create_job("t", OSError(), retry=policy), fail)
    assert (result.reason, result.attempts) == ("deadline", 2)

    def work(context, payload):
        assert 0 < context.remaining <= 60
        return True

    assert handler.submit_job(handler.create_job("t", deadline=60), work).value
    assert handler.submit_job(handler.create_job("t"), lambda context, _: context.remaining).value > 200


def test_ids_are_unique_among_live_jobs(handler):
    def inner(context, payload):
        with pytest.raises(ConflictError):
            handler.submit_job(handler.create_job("t", id=context.job_id), echo)
        return True

    assert handler.submit_job(handler.create_job("t", id="a"), inner).value


def test_concurrency_is_limited_and_nested_jobs_need_no_turn():
    with RetryHandler(retry=QUICK, concurrency=1) as handler:

        def outer(context, payload):
            return handler.submit_job(handler.create_job("inner", payload), echo).value

        assert handler.submit_job(handler.create_job("outer", 7), outer).value == 7

        running = []

        async def work(context, payload):
            running.append(1)
            assert len(running) == 1
            await asyncio.sleep(0.001)
            running.pop()

        async def main():
            await asyncio.gather(*(handler.submit_job_async(handler.create_job("t"), work) for _ in range(10)))

        asyncio.run(main())
        assert handler.metrics().jobs_completed == 12


def test_the_monitor_is_told():
    events = []
    handler = RetryHandler(retry=QUICK, monitor=events.append)
    handler.submit_job(handler.create_job("t", "x", id="a"), Twice())
    assert [event.type for event in events] == [
        *("received", "started", "retrying", "started", "retrying", "started", "completed")
    ]
    assert events[2].failure_class == "network"
    assert events[2].message == "no"
    assert events[2].delay == pytest.approx(0.01)
    assert {event.job_id for event in events} == {"a"}


def test_the_log_says_what_happens_with_fields(caplog):
    caplog.set_level(logging.DEBUG, "redrive")
    handler = RetryHandler("mail", retry=RetryPolicy(max_retries=1, delays=[0.01], min_delay=0, jitter=False))
    handler.breakers.configure("smtp", BreakerConfig(failure_threshold=2))
    result = handler.submit_job(handler.create_job("send", ConnectionError("no route"), service="smtp"), fail)
    handler.breakers.reset("smtp")
    lines = [(record.levelname, record.event) for record in caplog.records]
    assert lines == [
        ("DEBUG", "received"),
        ("DEBUG", "started"),
        ("INFO", "retrying"),
        ("DEBUG", "started"),
        ("WARNING", "breaker"),
        ("WARNING", "dead_letter"),
        ("INFO", "breaker"),
    ]
    retrying, opened, dead = (caplog.records[i] for i in (2, 4, 5))
    assert (retrying.name, retrying.handler, retrying.job_id, retrying.task) == (
        "redrive",
        "mail",
        result.job_id,
        "send",
    )
    assert (retrying.attempt, retrying.max_attempts, retrying.delay) == (1, 2, 0.01)
    assert (retrying.failure_class, retrying.error) == ("network", "no route")
    assert (opened.service, opened.breaker) == ("smtp", "open")
    assert not hasattr(opened, "job_id")
    assert (dead.reason, dead.error, dead.attempt) == ("exhausted", "no route", 2)
    assert dead.getMessage().startswith(f"dead_letter handler=mail job_id={result.job_id} task=send service=smtp ")


def test_a_quiet_logger_costs_no_event(caplog):
    caplog.set_level(logging.WARNING, "redrive")
    with RetryHandler("mail", retry=QUICK) as handler:
        assert handler.submit_job(handler.create_job("send", 7), Twice()).value == 7
    assert caplog.records == []


def test_retries_are_the_attempts_without_the_first(handler):
    job = handler.create_job("t", ConnectionError("no"), id="a")
    result = handler.submit_job(job, fail)
    letter = handler.dead_letters.get("a")
    assert (result.attempts, result.retry_count) == (letter.attempts, letter.retry_count) == (4, 3)
    assert handler.submit_job(handler.create_job("t", 1), echo).retry_count == 0


def test_what_a_monitor_or_a_strategy_raises_ends_the_job():
    def monitor(event):
        if event.type == "retrying":
            raise RuntimeError("monitor")

    handler = RetryHandler(retry=QUICK, monitor=monitor)
    with pytest.raises(RuntimeError, match="monitor"):
        handler.submit_job(handler.create_job("t", OSError()), fail)
    assert handler.metrics().jobs_cancelled == 1
    handler = RetryHandler(retry=RetryPolicy(strategy=lambda n: 1 / 0))
    with pytest.raises(ZeroDivisionError):
        handler.submit_job(handler.create_job("t", OSError()), fail)


def test_health_and_prometheus(handler):
    handler.submit_job(handler.create_job("t"), echo)
    for _ in range(3):
        handler.submit_job(handler.create_job('q"t', ConnectionError("x"), retry=1), fail)
    health = handler.health()
    assert health.status in ("healthy", "degraded", "unhealthy")
    assert health.success_rate < 1
    text = handler.prometheus()
    assert 'redrive_handler_jobs_completed_total{handler="test"} 1\n' in text
    assert 'redrive_handler_failures_total{handler="test",class="network"} 3\n' in text
    assert 'redrive_handler_dead_letters{handler="test"} 3\n' in text
    assert r'service="q\"t"' in text
    assert text.endswith("\n")


def test_the_decorator_of_a_handler(handler):
    calls = []

    @handler.retry("fetch", retry=QUICK)
    def fetch(a, *, b):
        calls.append((a, b))
        if len(calls) < 2:
            raise ConnectionError
        return a + b

    assert fetch(1, b=2) == 3

    @handler.retry(service="db")
    async def broken(value):
        raise ValueError(value)

    with pytest.raises(ValueError, match="x"):
        asyncio.run(broken("x"))
    assert handler.dead_letters.list()[0].payload == {"args": ("x",), "kwargs": {}}


def test_stop_refuses_and_waits(handler):
    began = threading.Event()

    def work(context, payload):
        began.set()
        while not context.cancelled:
            time.sleep(0.001)
        return "stopped"

    done = []
    thread = threading.Thread(target=lambda: done.append(handler.submit_job(handler.create_job("t"), work)))
    thread.start()
    assert began.wait(LIMIT_S)
    handler.stop()
    assert handler.metrics().running == 0
    thread.join(LIMIT_S)
    assert done[0].value == "stopped"
    with pytest.raises(StoppingError):
        handler.submit_job(handler.create_job("t"), echo)


def test_stop_inside_a_loop():
    async def work(context, payload):
        while not context.cancelled:
            await asyncio.sleep(0.001)
        return "stopped"

    async def main():
        async with RetryHandler(retry=QUICK) as handler:
            task = asyncio.create_task(handler.submit_job_async(handler.create_job("t"), work))
            await asyncio.sleep(0.01)
        return await task

    assert asyncio.run(main()).value == "stopped"


def test_a_fork_begins_anew(handler):
    handler.submit_job(handler.create_job("t", ValueError("x")), fail)
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            assert len(handler.dead_letters) == 0
            assert handler.submit_job(handler.create_job("t", 7), echo).value == 7
            code = 0
        finally:
            os._exit(code)
    assert os.waitpid(pid, 0)[1] == 0
    assert len(handler.dead_letters) == 1


@pytest.mark.parametrize(
    "fields", [{"priority": 101}, {"id": ""}, {"id": "x" * 256}, {"deadline": -1}, {"service": ""}]
)
def test_wrong_jobs_are_refused(handler, fields):
    with pytest.raises(InvalidArgumentError):
        handler.submit_job(handler.create_job("t", **fields), echo)
    with pytest.raises(InvalidArgumentError):
        handler.submit_job(handler.create_job("", "x"), echo)
    assert handler.metrics().jobs_received == 0


# ---- Dead letters in a store --------------------------------------------------------------------


@pytest.fixture
def program(tmp_path, monkeypatch):
    """The program in PATH; calls it on a store."""
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "redrive").symlink_to(BINARY)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    monkeypatch.chdir(tmp_path)

    def call(*words):
        done = subprocess.run(
            [str(BINARY), *words, "--json"], capture_output=True, text=True, timeout=LIMIT_S, check=True
        )
        return json.loads(done.stdout)

    return call


def test_dead_letters_are_kept_in_a_store(program, caplog):
    handler = RetryHandler("billing", retry=QUICK, dead_letters="sqlite:letters.db")
    dead = handler.create_job("invoice", {"order": 8}, id="order-8", service="db", user="ann", priority=5)
    assert handler.submit_job(dead, lambda context, payload: 1 / 0 if payload["order"] else None).attempts == 1
    fine = handler.submit_job(handler.create_job("invoice", 1, id="fine"), echo)
    assert fine.success

    store = ("--store", "sqlite:letters.db")
    assert [item["id"] for item in program("dlq", "list", *store)["items"]] == ["order-8"]
    kept = program("dlq", "show", "order-8", *store)
    facts = [kept[name] for name in ("task", "payload", "service", "user", "priority", "attempts")]
    assert facts == ["invoice", {"order": 8}, "db", "ann", 5, 0]
    letter = handler.dead_letters.get("order-8")
    assert (kept["reason"], kept["last_error"]["class"]) == (letter.reason, letter.failure_class)
    assert (kept["last_error"]["type"], kept["last_error"]["message"]) == (letter.error_type, "division by zero")
    assert "ZeroDivisionError" in kept["last_error"]["stacktrace"]
    assert not handler.dead_letters.retry("order-8").success  # the letter of the first death stays
    assert not [record for record in caplog.records if "not_kept" in record.message]


def test_dead_letters_of_coroutines_and_payloads_that_are_no_json_are_kept_by_a_server(server):
    async def fails(context, payload):
        raise ConnectionError("no route")

    async def main():
        async with RetryHandler("billing", retry=1, dead_letters=server.url) as handler:
            return await handler.submit_job_async(handler.create_job("invoice", {1, 2}, id="order-9"), fails)

    assert asyncio.run(main()).state is State.DEAD_LETTER
    app = redrive.App(server.url)
    kept = app.job("order-9")
    assert (kept["state"], kept["reason"], kept["payload"]) == ("dead_letter", "exhausted", {"not_json": "{1, 2}"})
    app.retry("order-9")
    assert app.job("order-9")["state"] == "queued"


def test_a_store_that_is_away_is_logged_and_the_job_has_ended(caplog):
    handler = RetryHandler("billing", retry=1, dead_letters="http://127.0.0.1:1")
    result = handler.submit_job(handler.create_job("invoice", ValueError("bad"), id="a"), fail)
    assert result.state is State.DEAD_LETTER
    assert [letter.id for letter in handler.dead_letters] == ["a"]
    (record,) = (record for record in caplog.records if getattr(record, "event", "") == "letter_not_kept")
    assert (record.levelname, record.handler, record.job_id) == ("WARNING", "billing", "a")


def test_places_for_dead_letters_that_cannot_be_meant_are_refused(monkeypatch, tmp_path):
    for place in ("letters.db", "memory:", "sqlit:letters.db", "sqlite"):
        with pytest.raises(InvalidArgumentError, match="neither a store nor a server"):
            RetryHandler(dead_letters=place)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(InvalidArgumentError, match="not in PATH"):
        RetryHandler(dead_letters="sqlite:letters.db")
