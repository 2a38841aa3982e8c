"""The in-process handler: jobs run in the thread or event loop that submits them.

Retries, breakers per service, dead letters, health and metrics are those of the C library's handler;
this module gives it Python functions to run.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
import threading
from collections.abc import Awaitable, Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Callable, Optional, TypeVar, Union

from redrive._letters import as_job, keeper_at
from redrive._loop import in_thread
from redrive._names import NamesChecked, names_checked, no_attribute
from redrive._native import Seconds, encode, ffi, lib, new_handle, raise_error, raise_pending, text
from redrive._process import ProcessBound, begin_anew_after_fork
from redrive._steps import Step, ThreadWaker, Work, inside, loop_waker, run_async, run_sync
from redrive.breaker import BreakerConfig, BreakerStatus, status_of
from redrive.dead_letters import DeadLetters, KeptWork
from redrive.errors import BY_CODE, InvalidArgumentError, NotFoundError, RedriveError
from redrive.failure import Classifier, ClassifyFunction, Row, as_classifier, native_rows
from redrive.job import Job, JobContext, JobResult
from redrive.monitoring import Event, Health, Metrics, Monitor, health_of, logger, metrics_of, prometheus_text
from redrive.policy import RetryPolicy, as_policy
from redrive.vocabulary import State

R = TypeVar("R")
F = TypeVar("F", bound=Callable[..., Any])


class RetryHandler(NamesChecked, ProcessBound):
    """Runs jobs with retries, breakers, dead letters and figures; threads and event loops may share it.

    ::

        handler = RetryHandler(retry=RetryPolicy(max_retries=3, initial_delay=1.0))
        job = handler.create_job("report", payload={"month": "May"})
        result = handler.submit_job(job, make_report)        # make_report(context, payload)

    :param retry: the policy of jobs that have none of their own, or a number of attempts.
    :param breaker: the configuration of every service's breaker.
    :param classify: rows of the classification table, or a function from an exception to a class or None.
    :param concurrency: how many functions run at one time, by priority, then oldest first; 0: no limit.
    :param dead_letters: where dead letters are kept beside memory: ``sqlite:FILE``, ``postgres://…``, ``redis://…``, or
        the ``http://`` address of a server. A store is written by the program ``redrive``, which must be in PATH.
    :param monitor: called with an :class:`Event` for everything that happens, in the thread that caused it.
    """

    def __init__(
        self,
        name: str = "redrive",
        *,
        retry: Union[RetryPolicy, int, None] = None,
        breaker: Optional[BreakerConfig] = None,
        classify: Union[Classifier, ClassifyFunction, Iterable[Row], None] = None,
        concurrency: int = 0,
        max_dead_letters: int = 10000,
        dead_letters: Optional[str] = None,
        healthy_from: float = 0.8,
        degraded_from: float = 0.5,
        monitor: Optional[Callable[[Event], Any]] = None,
    ) -> None:
        self.name = name
        self.retry_policy = as_policy(retry, {})
        self._breaker = breaker or BreakerConfig()
        self._classifier = as_classifier(classify)
        self._monitor = new_handle(Monitor(name, monitor))
        self._limits = (concurrency, max_dead_letters, healthy_from, degraded_from)
        self._keep = None if dead_letters is None else keeper_at(dead_letters)
        self.native = self._make()
        self.dead_letters = DeadLetters(self)
        self.breakers = Breakers(self)
        begin_anew_after_fork(self)

    if not TYPE_CHECKING:  # which knows the attributes

        def __getattr__(self, name):
            raise no_attribute(self, name)

    def _make(self) -> Any:
        options = ffi.new("struct redrive_handler_options *")
        name = ffi.new("char[]", encode(self.name, "name"))
        breaker = self._breaker.native()
        rows, n_rows, _kept = native_rows(self._classifier.rows)
        options.name = name
        options.policy = self.retry_policy.native
        options.breaker = breaker
        options.classify = rows
        options.n_classify = n_rows
        options.concurrency, options.max_dead_letters, options.healthy_from, options.degraded_from = self._limits
        options.monitor = lib.redrive_py_monitor
        options.monitor_ctx = self._monitor
        err = ffi.new("struct redrive_err *")
        native = lib.redrive_handler_new(options, err)
        if native == ffi.NULL:
            raise_error(err)
        return ffi.gc(native, lib.redrive_handler_free)

    def _begin_anew(self) -> None:
        """In a forked child: the jobs are the parent's."""
        self.native = self._make()
        self.dead_letters = DeadLetters(self)

    # ---- Jobs -----------------------------------------------------------------------------------

    @names_checked
    def create_job(
        self,
        task: str,
        payload: Any = None,
        *,
        id: Optional[str] = None,
        service: Optional[str] = None,
        queue: Optional[str] = None,
        user: Optional[str] = None,
        project: Optional[str] = None,
        priority: int = 0,
        retry: Union[RetryPolicy, int, None] = None,
        deadline: Optional[Seconds] = None,
    ) -> Job:
        """A job for submit_job. Nothing has happened yet."""
        job = Job(task, payload, service=service, queue=queue, user=user, project=project)
        job.priority = priority
        job.retry = None if retry is None else as_policy(retry, {})
        job.deadline = deadline
        if id is not None:
            job.id = id
        return job

    def submit_job(self, job: Job, work: Work[R]) -> JobResult[R]:
        """Runs ``work(context, payload)`` in this thread until it succeeds or the policy has had enough.

        Raises only what is no fate of a job: InvalidArgumentError, ConflictError (its id is live),
        BreakerOpenError (``on_open="reject"``), StoppingError, and what is not an ``Exception``.
        """
        _refuse_coroutine_function(work, "submit_job")
        woken = ThreadWaker()
        step = Step(self.native, job, self._classifier.function, woken.set)
        kept = KeptWork(job, work, job.retry)
        result = self._keep_dead(kept, run_sync(step, step.begin, work, woken))
        self._store_dead(result)
        return result

    async def submit_job_async(self, job: Job, work: Work[Awaitable[R]]) -> JobResult[R]:
        """The same for a coroutine function, in the running event loop. Waiting blocks nothing."""
        woken, wake = loop_waker()
        step = Step(self.native, job, self._classifier.function, wake)
        kept = KeptWork(job, work, job.retry)
        result = self._keep_dead(kept, await run_async(step, step.begin, work, woken))
        await self._store_dead_async(result)
        return result

    def retry_dead(self, id: str, work: Optional[Work[R]] = None) -> JobResult[R]:
        kept = self._to_retry(id, work)
        _refuse_coroutine_function(kept.work, "retry")
        woken = ThreadWaker()
        step = Step(self.native, kept.job, self._classifier.function, woken.set)
        result = self._keep_dead(kept, run_sync(step, step.begin_retry, kept.work, woken))
        self._store_dead(result)
        return result

    async def retry_dead_async(self, id: str, work: Optional[Work[Awaitable[R]]] = None) -> JobResult[R]:
        kept = self._to_retry(id, work)
        woken, wake = loop_waker()
        step = Step(self.native, kept.job, self._classifier.function, wake)
        result = self._keep_dead(kept, await run_async(step, step.begin_retry, kept.work, woken))
        await self._store_dead_async(result)
        return result

    def _to_retry(self, id: str, work: Optional[Callable[..., Any]]) -> KeptWork:
        kept = self.dead_letters.find_work(id)
        return kept if work is None else replace(kept, work=work)

    def _keep_dead(self, kept: KeptWork, result: JobResult[R]) -> JobResult[R]:
        if result.state is State.DEAD_LETTER:
            self.dead_letters.keep(kept)
        else:
            self.dead_letters.forget(kept.job.id)
        return result

    def _store_dead(self, result: JobResult[Any]) -> None:
        """The job has ended, and its letter is in memory: a store that is away changes neither."""
        if self._keep is None or result.state is not State.DEAD_LETTER:
            return
        try:
            self._keep(as_job(self.dead_letters.get(result.job_id)))
        except NotFoundError:  # pushed out, or removed by another thread
            pass
        except RedriveError as exc:
            fields = {"event": "letter_not_kept", "handler": self.name, "job_id": result.job_id, "error": str(exc)}
            text = "letter_not_kept handler=%s job_id=%s error=%s"
            logger.warning(text, self.name, result.job_id, exc, extra=fields)

    async def _store_dead_async(self, result: JobResult[Any]) -> None:
        if self._keep is not None and result.state is State.DEAD_LETTER:
            await in_thread("the dead letter was not kept", "", self._store_dead, result)

    def cancel(self, job_id: str) -> bool:
        """A waiting job ends at once; a running one sees ``context.cancelled``, and is not retried.

        False when there is no such job.
        """
        return bool(lib.redrive_cancel(self.native, encode(job_id, "id")) == 0)

    @names_checked
    def retry(
        self,
        task: Optional[str] = None,
        *,
        service: Optional[str] = None,
        user: Optional[str] = None,
        priority: int = 0,
        retry: Union[RetryPolicy, int, None] = None,
        deadline: Optional[Seconds] = None,
    ) -> Callable[[F], F]:
        """A decorator: each call is a job of this handler. It returns the function's value, and raises what its
        last attempt raised; the dead letter has the arguments and can be retried."""
        policy = None if retry is None else as_policy(retry, {})

        def decorate(function: F) -> F:
            name = task or function.__qualname__
            make = functools.partial(
                self.create_job, name, service=service, user=user, priority=priority, retry=policy, deadline=deadline
            )
            wrap = self._wrap_async if inspect.iscoroutinefunction(function) else self._wrap
            return functools.wraps(function)(wrap(function, make))  # type: ignore[return-value]

        return decorate

    def _wrap(self, function: Callable[..., Any], make: Callable[..., Job]) -> Callable[..., Any]:
        def work(_context: JobContext, payload: Any) -> Any:
            return function(*payload["args"], **payload["kwargs"])

        def call(*args: Any, **kwargs: Any) -> Any:
            return _value_of(self.submit_job(make({"args": args, "kwargs": kwargs}), work))

        return call

    def _wrap_async(self, function: Callable[..., Any], make: Callable[..., Job]) -> Callable[..., Any]:
        async def work(_context: JobContext, payload: Any) -> Any:
            return await function(*payload["args"], **payload["kwargs"])

        async def call(*args: Any, **kwargs: Any) -> Any:
            return _value_of(await self.submit_job_async(make({"args": args, "kwargs": kwargs}), work))

        return call

    # ---- Looking --------------------------------------------------------------------------------

    def health(self) -> Health:
        """A score of the last minute, and what it is made of."""
        return health_of(self.native)

    def metrics(self) -> Metrics:
        """Counters since the start, and what is inside now."""
        return metrics_of(self.native)

    def prometheus(self) -> str:
        """All figures in the text format of Prometheus, for a ``/metrics`` page of your own."""
        return prometheus_text(
            self.name, self.metrics(), self.health(), self.breakers.list(), self.dead_letters.stats().total_jobs
        )

    # ---- The end --------------------------------------------------------------------------------

    def stop(self) -> None:
        """Cancels what waits, asks what runs to return, refuses new jobs, and waits until all have left.

        From inside a job, or in a thread with a running event loop, it does not wait: its own jobs could
        not go on meanwhile. There ``await handler.stop_async()`` waits.
        """
        thread = threading.Thread(target=lib.redrive_handler_stop, args=(self.native,), daemon=True)
        thread.start()
        if self.native in inside.get() or _has_running_loop():
            return
        while thread.is_alive():
            thread.join(0.1)  # so that Ctrl-C comes through

    async def stop_async(self) -> None:
        """The same for an event loop: its jobs go on to their end meanwhile."""
        await in_thread(
            "the handler was not stopped", "stop() needs no event loop", lib.redrive_handler_stop, self.native
        )

    def __enter__(self) -> RetryHandler:
        return self

    def __exit__(self, *_exc: object) -> None:
        self.stop()

    async def __aenter__(self) -> RetryHandler:
        return self

    async def __aexit__(self, *_exc: object) -> None:
        await self.stop_async()


class Breakers:
    """``handler.breakers``: one for each service, made by its first job."""

    def __init__(self, handler: RetryHandler) -> None:
        self._handler = handler

    def list(self) -> list[BreakerStatus]:
        """All of them."""
        n = lib.redrive_breaker_list(self._handler.native, ffi.NULL, 0)
        array = ffi.new("struct redrive_breaker_status[]", n)
        n = min(n, lib.redrive_breaker_list(self._handler.native, array, n))
        return [status_of(array[i]) for i in range(n)]

    def get(self, service: str) -> BreakerStatus:
        """That of a service; NotFoundError before its first job."""
        c = ffi.new("struct redrive_breaker_status *")
        self._check(lib.redrive_breaker_get(self._handler.native, encode(service, "service"), c), service)
        return status_of(c)

    def configure(self, service: str, config: BreakerConfig) -> None:
        """Its own configuration, before its first job."""
        err = ffi.new("struct redrive_err *")
        native = config.native()
        if lib.redrive_breaker_configure(self._handler.native, encode(service, "service"), native, err) < 0:
            raise_error(err)

    def reset(self, service: str) -> None:
        """Closes it; what is parked is let go at its pace."""
        self._check(lib.redrive_breaker_reset(self._handler.native, encode(service, "service")), service)

    def trip(self, service: str) -> None:
        """Holds it open until a reset."""
        self._check(lib.redrive_breaker_trip(self._handler.native, encode(service, "service")), service)

    def disable(self, service: str) -> None:
        """Lets everything through until a reset."""
        self._check(lib.redrive_breaker_disable(self._handler.native, encode(service, "service")), service)

    def simulate_failure(self, service: str) -> None:
        """One counted failure, to try it out."""
        self._check(lib.redrive_breaker_simulate_failure(self._handler.native, encode(service, "service")), service)

    @staticmethod
    def _check(rc: int, service: str) -> None:
        raise_pending()
        if rc == 0:
            return
        code = text(lib.redrive_err_name(rc)) or "INTERNAL"
        raise BY_CODE.get(code, RedriveError)(
            f"there is no breaker of service {service}", code=code, hint="it is made by the service's first job"
        )


def _value_of(result: JobResult[R]) -> R:
    if not result.success and result.exception is not None and result.state is not State.CANCELLED:
        raise result.exception
    return result.unwrap()


def _refuse_coroutine_function(work: Callable[..., Any], name: str) -> None:
    if inspect.iscoroutinefunction(work):
        raise InvalidArgumentError(
            f"{getattr(work, '__qualname__', work)} is a coroutine function", hint=f"await {name}_async(…)"
        )


def _has_running_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
