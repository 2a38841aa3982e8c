"""Drives a job of the C handler: asks what is next, runs the function, waits.

The handler of the C library never calls a Python function: exceptions, coroutines and Ctrl-C stay in
Python. See "Jobs in steps" in redrive.h.
"""

from __future__ import annotations

import asyncio
import contextlib
import queue
import threading
from collections.abc import Awaitable, Iterator
from contextvars import ContextVar
from typing import Any, Callable, Optional, TypeVar

from redrive._loop import running_loop
from redrive._native import drop_pending, ffi, lib, new_handle, raise_error, raise_pending, seconds, text
from redrive.errors import BY_CODE, RedriveError
from redrive.failure import ClassifyFunction, native_failure
from redrive.job import Job, JobContext, JobResult, NativeJob
from redrive.vocabulary import CLASSES, REASONS, STATES, State

R = TypeVar("R")
Work = Callable[[JobContext, Any], R]

_FOREVER_MS = 2**63 - 1
# A wake can be lost: it runs Python, where a Ctrl-C may come in between (see redrive_py_wake). So nothing
# waits longer than this before it asks again, which does no harm.
_WAIT_MAX_S = 2.0

#: The handlers whose jobs this code runs inside.
inside: ContextVar[tuple[Any, ...]] = ContextVar("redrive_inside", default=())


class Step:
    """One job inside the handler. One thread drives it; its contexts may be looked at by any, at any time."""

    def __init__(self, handler: Any, job: Job, classify: Optional[ClassifyFunction], wake: Callable[[], None]) -> None:
        self.handler = handler  # keeps it alive
        self.job = job
        self._classify = classify
        self._wait_ms = ffi.new("int64_t *")
        self._wake = new_handle(wake)
        self._options = ffi.new("struct redrive_step_options *")
        self._options.wake = lib.redrive_py_wake
        self._options.wake_ctx = self._wake
        self._options.is_nested = handler in inside.get()
        self._exception: Optional[BaseException] = None
        self._native_job: Optional[NativeJob] = None
        #: The C step, from its begin to its end. Only C writes to it, so that no interrupt comes in between.
        self._owned = ffi.new("struct redrive_step **")
        #: Held while another thread than the driving one may use the C step; that one frees it.
        self._lock = threading.RLock()
        #: The C step while it may be used.
        self._c: Any = ffi.NULL

    def begin(self) -> None:
        self._native_job = NativeJob(self.job)
        err = ffi.new("struct redrive_err *")
        lib.redrive_py_step_begin(self.handler, self._native_job.struct, self._options, self._owned, err)
        self._enter(err)

    def begin_retry(self) -> None:
        """The job is a dead letter, which runs again."""
        err = ffi.new("struct redrive_err *")
        lib.redrive_py_step_retry(self.handler, self.job.id.encode(), self._options, self._owned, err)
        self._enter(err)

    def _enter(self, err: Any) -> None:
        raise_pending()
        self._c = self._owned[0]
        if self._c == ffi.NULL:
            raise_error(err)

    def next(self) -> tuple[int, float]:
        """What to do, and with STEP_WAIT for how many seconds at the most before it is asked again."""
        kind = lib.redrive_step_next(self._c, self._wait_ms)
        raise_pending()
        return kind, min(seconds(self._wait_ms[0]), _WAIT_MAX_S)

    def context(self) -> JobContext:
        run = lib.redrive_step_run(self._c)
        return JobContext(self.job, self, lib.redrive_run_attempt(run), lib.redrive_run_max_attempts(run))

    def remaining(self) -> Optional[float]:
        with self._lock:
            if self._c == ffi.NULL:
                return 0.0
            ms: int = lib.redrive_run_remaining_ms(lib.redrive_step_run(self._c))
        return None if ms == _FOREVER_MS else seconds(ms)

    def cancelled(self) -> bool:
        with self._lock:
            return self._c == ffi.NULL or bool(lib.redrive_run_cancelled(lib.redrive_step_run(self._c)))

    def done(self, exc: Optional[BaseException]) -> None:
        """The attempt is over."""
        self._exception = exc
        failure = None if exc is None else native_failure(exc, self._classify)
        lib.redrive_step_done(self._c, ffi.NULL if failure is None else failure.struct)
        raise_pending()

    def end(self, value: Optional[R] = None) -> JobResult[R]:
        """Frees the job; one that has not come to its end is cancelled."""
        c = ffi.new("struct redrive_result *")
        self._hide()
        lib.redrive_py_step_end(self._owned, c)
        lib.redrive_result_release(c)
        result: JobResult[R] = JobResult(
            text(c.id) or self.job.id,
            State(STATES[c.state]),
            REASONS[c.reason],
            CLASSES[c.class_],
            c.attempts,
            seconds(c.elapsed_ms),
            seconds(c.parked_ms),
        )
        if result.success:
            result.value = value
        else:
            result.exception = self._exception
            result.error = _error_of(c.error)
        return result

    def abandon(self) -> None:
        """Something else has ended it: an interrupt, a cancelled task, a callback that raised."""
        self._hide()
        if self._owned[0] != ffi.NULL:
            lib.redrive_py_step_end(self._owned, ffi.NULL)
            # What the monitor raises at the cancellation would come out of an unrelated call later.
            drop_pending()

    def _hide(self) -> None:
        """No context sees the C step any more. It is ended without the lock: the monitor may look at one."""
        with self._lock:
            self._c = ffi.NULL


def _error_of(err: Any) -> RedriveError:
    code = text(lib.redrive_err_name(err.code)) or "INTERNAL"
    kind = BY_CODE.get(code, RedriveError)
    hint = (text(err.hint) or "").replace("redrive_dlq_retry()", "handler.dead_letters.retry()")
    return kind(text(err.message) or code, code=code, detail=text(err.detail) or "", hint=hint)


@contextlib.contextmanager
def _driving(step: Step, begin: Callable[[], None]) -> Iterator[None]:
    """Begins a job. What comes out of the block before the job has come to its end abandons it."""
    before = inside.get()
    within = (*before, step.handler)
    try:
        begin()
        inside.set(within)
        yield
    except BaseException:
        step.abandon()
        raise
    finally:
        if inside.get() is within:  # it is not if a coroutine is closed by another context than it was begun in
            inside.set(before)


class ThreadWaker:
    """What threading.Event is, but set() never waits for the thread that calls it.

    The garbage collector may run in any instruction of a thread that waits here, and end a job of the same handler,
    which may wake this very thread.
    """

    def __init__(self) -> None:
        self._calls: queue.SimpleQueue[None] = queue.SimpleQueue()  # its put() is reentrant

    def set(self) -> None:
        self._calls.put(None)

    def clear(self) -> None:
        for _ in range(self._calls.qsize()):  # which no other thread takes from
            self._calls.get_nowait()

    def wait(self, timeout: float) -> None:
        with contextlib.suppress(queue.Empty):
            self._calls.get(timeout=timeout)


def run_sync(step: Step, begin: Callable[[], None], work: Work[R], woken: ThreadWaker) -> JobResult[R]:
    """Runs a job to its end in this thread."""
    value: Optional[R] = None
    with _driving(step, begin):
        while True:
            woken.clear()
            kind, wait = step.next()
            if kind == lib.REDRIVE_STEP_END:
                return step.end(value)
            if kind == lib.REDRIVE_STEP_WAIT:
                woken.wait(wait)
                continue
            try:
                value = work(step.context(), step.job.payload)
            except Exception as exc:
                step.done(exc)
            else:
                step.done(None)


def loop_waker() -> tuple[asyncio.Event, Callable[[], None]]:
    """An event of the running loop, and a function that sets it from any thread."""
    loop = running_loop("the job was not run", "submit_job(…) needs no event loop")
    event = asyncio.Event()

    def wake() -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed, and its jobs with it
            loop.call_soon_threadsafe(event.set)

    return event, wake


async def run_async(
    step: Step, begin: Callable[[], None], work: Work[Awaitable[R]], woken: asyncio.Event
) -> JobResult[R]:
    """Runs a job to its end in the running event loop."""
    value: Optional[R] = None
    with _driving(step, begin):
        while True:
            woken.clear()
            kind, wait = step.next()
            if kind == lib.REDRIVE_STEP_END:
                return step.end(value)
            if kind == lib.REDRIVE_STEP_WAIT:
                with contextlib.suppress(asyncio.TimeoutError):
                    await asyncio.wait_for(woken.wait(), wait)
                continue
            try:
                value = await work(step.context(), step.job.payload)
            except Exception as exc:
                step.done(exc)
            else:
                step.done(None)
