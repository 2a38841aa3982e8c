"""What C points at lives as long as C needs it, and what Python asks of C is still there."""

import asyncio
import gc
import sys
import threading
import time
import weakref

import pytest
from conftest import LIMIT_S

from redrive import RedriveError, RetryHandler, RetryPolicy, State, _steps, failure
from redrive._native import text
from redrive._steps import Step

QUICK = RetryPolicy(max_retries=2, strategy="fixed", initial_delay=0.01, min_delay=0, jitter=False)


def echo(context, payload):
    return payload


def fail(context, payload):
    raise payload


# ---- Contexts ------------------------------------------------------------------------------------


def test_a_context_can_be_looked_at_after_the_end():
    kept = []

    def work(context, payload):
        assert not context.cancelled
        assert context.remaining > 0
        kept.append(context)

    handler = RetryHandler(retry=QUICK)
    handler.submit_job(handler.create_job("t", deadline=60), work)
    assert (kept[0].cancelled, kept[0].remaining, kept[0].attempt) == (True, 0, 1)


def test_a_context_of_an_abandoned_job_is_cancelled():
    kept = []

    def work(context, payload):
        kept.append(context)
        raise KeyboardInterrupt

    handler = RetryHandler(retry=QUICK)
    with pytest.raises(KeyboardInterrupt):
        handler.submit_job(handler.create_job("t"), work)
    assert (kept[0].cancelled, kept[0].remaining) == (True, 0)


def test_threads_look_at_contexts_while_jobs_end():
    handler = RetryHandler(retry=QUICK)
    contexts = []
    errors = []
    done = threading.Event()

    def look():
        try:
            while not done.is_set():
                for context in contexts[-3:]:
                    assert context.cancelled in (True, False)
                    assert context.remaining is None or context.remaining >= 0
        except BaseException as exc:
            errors.append(exc)

    def work(context, payload):
        contexts.append(context)

    threads = [threading.Thread(target=look) for _ in range(2)]
    for thread in threads:
        thread.start()
    for _ in range(300):
        handler.submit_job(handler.create_job("t"), work)
    done.set()
    for thread in threads:
        thread.join(LIMIT_S)
    assert errors == []


# ---- Wakes and what callbacks raise --------------------------------------------------------------


def park_and_reset(handler, submit):
    handler.submit_job(handler.create_job("t"), echo)
    handler.breakers.trip("t")
    done = []
    thread = threading.Thread(target=lambda: done.append(submit()), daemon=True)
    thread.start()
    while handler.metrics().parked == 0:
        time.sleep(0.001)
    handler.breakers.reset("t")
    thread.join(20)  # without the reset it would wait for 30 s
    return done


@pytest.fixture
def deaf_handler(monkeypatch):
    """Its jobs are never told that they are woken."""
    monkeypatch.setattr("redrive.handler.Step", lambda native, job, classify, _wake: Step(native, job, classify, bool))
    return RetryHandler(retry=QUICK)


def test_a_lost_wake_delays_a_thread_but_does_not_hang_it(deaf_handler):
    job = deaf_handler.create_job("t", 7)
    done = park_and_reset(deaf_handler, lambda: deaf_handler.submit_job(job, echo))
    assert [result.value for result in done] == [7]


def test_a_lost_wake_delays_a_coroutine_but_does_not_hang_it(deaf_handler):
    async def work(context, payload):
        return payload

    job = deaf_handler.create_job("t", 7)
    done = park_and_reset(deaf_handler, lambda: asyncio.run(deaf_handler.submit_job_async(job, work)))
    assert [result.value for result in done] == [7]


def test_a_wake_may_use_the_handler(monkeypatch):
    """The garbage collector may run in it, and close a coroutine that waits in the same handler."""
    handler = RetryHandler(retry=QUICK)

    def make_step(native, job, classify, wake):
        return Step(native, job, classify, lambda: (handler.metrics(), wake()))

    monkeypatch.setattr("redrive.handler.Step", make_step)
    job = handler.create_job("t", 7)
    done = []
    # In C a thread that waits for itself cannot be interrupted: the test must not be that thread.
    thread = threading.Thread(
        target=lambda: done.extend(park_and_reset(handler, lambda: handler.submit_job(job, echo))), daemon=True
    )
    thread.start()
    thread.join(LIMIT_S)
    assert [result.value for result in done] == [7]


def test_a_thread_may_wake_itself_while_it_waits():
    """As the garbage collector does, if it ends a job for which this one waits."""
    woken = _steps.ThreadWaker()
    finished = []

    def trace(frame, event, _argument):
        frame.f_trace_opcodes = True
        if event == "opcode":
            woken.set()
        return trace

    def wait():
        sys.settrace(trace)
        woken.clear()
        woken.wait(0.001)
        sys.settrace(None)
        finished.append(True)

    thread = threading.Thread(target=wait, daemon=True)
    thread.start()
    thread.join(LIMIT_S)
    assert finished


def test_what_a_monitor_raises_at_a_cancellation_does_not_come_out_elsewhere():
    def monitor(event):
        if event.type == "cancelled":
            raise RuntimeError("monitor")

    def interrupted(context, payload):
        raise KeyboardInterrupt

    handler = RetryHandler(retry=QUICK, monitor=monitor)
    with pytest.raises(KeyboardInterrupt):
        handler.submit_job(handler.create_job("t"), interrupted)
    assert handler.metrics().jobs_cancelled == 1
    assert RetryHandler(retry=QUICK).submit_job(handler.create_job("t", 7), echo).value == 7


def test_names_of_types_outlive_their_cache():
    made = type("Made", (ValueError,), {})
    native = failure.native_failure(made("no"))
    names = weakref.ref(failure._names_of(made))
    failure._known.clear()
    gc.collect()
    assert names() is not None
    assert text(native.struct.error_type).endswith("Made")


# ---- Interrupts ----------------------------------------------------------------------------------


def interrupted_at(n, call):
    """Makes the call with a KeyboardInterrupt before the n-th instruction of _steps.py, and gives the place of that
    one; None: there are fewer."""
    left, place = n, None

    def trace(frame, event, _argument):
        nonlocal left, place
        if frame.f_code.co_filename != _steps.__file__:
            return None
        frame.f_trace_opcodes = True
        if event == "opcode":
            left -= 1
            if left == 0:
                place = f"{frame.f_code.co_name}, instruction {frame.f_lasti}"
                raise KeyboardInterrupt  # which ends the tracing as well
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        call()
    except KeyboardInterrupt:
        pass
    finally:
        sys.settrace(before)
    return place


def test_an_interrupt_at_any_moment_leaves_no_job_behind():
    def fail_once(context, payload):
        if context.attempt == 1:
            raise ConnectionError
        return payload

    n, place = 0, ""
    while place is not None:
        n += 1
        handler = RetryHandler(retry=QUICK)
        job = handler.create_job("t", 7, id="a")
        place = interrupted_at(n, lambda h=handler, j=job: h.submit_job(j, fail_once))
        _steps.inside.set(())  # which an interrupt in its last instructions does not do
        # It would be refused if the id were still in use; stop() would wait.
        try:
            assert handler.submit_job(job, echo).value == 7
        except (AssertionError, RedriveError) as exc:
            pytest.fail(f"interrupted in {place}, the {n}th: {exc}")
        handler.stop()
    assert n > 100


# ---- Dead letters --------------------------------------------------------------------------------


def test_a_new_job_with_the_id_of_a_letter_leaves_the_letter():
    handler = RetryHandler(retry=1)
    handler.submit_job(handler.create_job("t", ValueError("x"), id="a"), fail)
    assert handler.submit_job(handler.create_job("t", 7, id="a"), echo).success
    assert len(handler.dead_letters) == 1
    assert isinstance(handler.dead_letters.get("a").payload, ValueError)
    assert handler.dead_letters.retry("a").state is State.DEAD_LETTER
    assert handler.dead_letters.retry("a", lambda context, payload: 1).success
    assert len(handler.dead_letters) == len(handler.dead_letters._work) == 0


def test_a_letter_whose_retry_is_cancelled_can_be_retried_again():
    handler = RetryHandler(retry=RetryPolicy(max_retries=1, initial_delay=60, jitter=False))
    handler.submit_job(handler.create_job("t", ValueError("x"), id="a"), fail)

    def cancel(context, payload):
        handler.dead_letters.purge()
        handler.cancel("a")
        raise OSError

    assert handler.dead_letters.retry("a", cancel).state is State.CANCELLED
    assert isinstance(handler.dead_letters.get("a").payload, ValueError)
    assert handler.dead_letters.retry("a", lambda context, payload: 1).success


def test_a_letter_keeps_the_policy_that_c_has_a_copy_of():
    def strategy(n):
        return 0.001 * n

    def die(context, payload):  # its exception, and with it the frames of the call, is kept by nothing
        raise OSError("x")

    handler = RetryHandler()
    policy = RetryPolicy(max_retries=1, strategy=strategy, min_delay=0, jitter=False)
    job = handler.create_job("t", id="a", retry=policy)
    handler.submit_job(job, die)
    job.retry = None
    kept = weakref.ref(policy)
    del policy
    gc.collect()
    assert kept() is not None
    assert handler.dead_letters.retry("a").attempts == 2
    handler.dead_letters.remove("a")
    gc.collect()
    assert kept() is None


def test_threads_share_dead_letters():
    handler = RetryHandler(retry=1, max_dead_letters=50)
    errors = []

    def work(thread):
        try:
            for n in range(150):
                handler.submit_job(handler.create_job("t", ValueError(n), id=f"{thread}-{n}"), fail)
                if n % 10 == 0:
                    handler.dead_letters.list()
        except BaseException as exc:
            errors.append(exc)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(LIMIT_S)
    assert errors == []
    letters = handler.dead_letters.list()
    assert len(letters) == 50
    assert all(isinstance(letter.payload, ValueError) for letter in letters)
