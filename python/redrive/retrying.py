"""The decorator: ``@redrive.retry(...)`` on functions and coroutine functions.

A call that succeeds never leaves Python. The first failure asks the C core what to do: its class, the
policy and the time that has passed decide.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
import random
import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Callable, Optional, TypeVar, Union, cast, overload

from redrive._native import ffi, lib, raise_pending
from redrive.breaker import RETURNED, SUCCESS, Breaker
from redrive.errors import BreakerOpenError, InvalidArgumentError
from redrive.failure import Classifier, ClassifyFunction, Row, as_classifier, native_failure
from redrive.policy import RetryPolicy, as_policy
from redrive.vocabulary import CLASSES

if TYPE_CHECKING:
    from typing_extensions import ParamSpec

    P = ParamSpec("P")

R = TypeVar("R")
F = TypeVar("F", bound=Callable[..., Any])

_RETRYING = lib.REDRIVE_STATE_RETRYING


@dataclass(frozen=True)
class RetryState:
    """What ``before_sleep`` is given: a call that has failed and will be tried again."""

    function: Callable[..., Any]
    #: Attempts so far.
    attempt: int
    exception: BaseException
    failure_class: str
    #: Seconds until the next attempt.
    delay: float
    #: Seconds since the call began.
    elapsed: float


BeforeSleep = Callable[[RetryState], Any]


class _Call:
    """One call that has failed at least once."""

    def __init__(self, plan: _Plan, function: Callable[..., Any], started: float) -> None:
        self.plan = plan
        self.function = function
        self.started = started
        self.facts = ffi.new("struct redrive_facts *")
        # Another id for each call, so that jitter scatters calls that failed together.
        self._id = ffi.new("char[]", b"%x" % random.getrandbits(63))
        self.facts.job_id = self._id

    def next_delay(self, exc: BaseException, permit: Any = None, took: float = 0.0) -> Optional[float]:
        """Seconds to wait before the next attempt; None: give up."""
        plan = self.plan
        facts = self.facts
        elapsed = plan.clock() - self.started
        facts.attempts += 1
        facts.elapsed_ms = int(elapsed * 1000)
        facts.is_probe = permit is not None and permit.probe != 0
        failure = native_failure(exc, plan.classifier.function, stack=False)
        decision = lib.redrive_decide(facts, failure.struct, plan.policy.native, plan.classifier.native)
        raise_pending()
        if permit is not None:
            cast(Breaker, plan.breaker).record(permit, decision.breaker, took)
        if decision.state != _RETRYING:
            return None
        delay: float = decision.delay_ms / 1000
        if plan.before_sleep is not None:
            class_ = CLASSES[decision.class_]
            plan.before_sleep(RetryState(self.function, facts.attempts, exc, class_, delay, elapsed))
        return delay


@dataclass
class _Plan:
    """What a decorator was told."""

    policy: RetryPolicy
    classifier: Classifier
    breaker: Optional[Breaker]
    before_sleep: Optional[BeforeSleep]
    sleep: Optional[Callable[[float], Any]]
    clock: Callable[[], float]

    def wrap(self, function: Callable[..., Any]) -> Callable[..., Any]:
        if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
            raise InvalidArgumentError(
                f"{function.__qualname__} is a generator: what it has yielded cannot be taken back",
                hint="decorate the function that consumes it",
            )
        if inspect.iscoroutinefunction(function):
            wrapper = _wrap_async(self, function) if self.breaker is None else _wrap_async_breaker(self, function)
        else:
            wrapper = _wrap_sync(self, function) if self.breaker is None else _wrap_sync_breaker(self, function)
        return functools.wraps(function)(wrapper)


def _wrap_sync(plan: _Plan, function: Callable[..., Any]) -> Callable[..., Any]:
    clock = plan.clock
    sleep = plan.sleep or time.sleep

    def call(*args: Any, **kwargs: Any) -> Any:
        failed = None
        started = clock()
        while True:
            try:
                return function(*args, **kwargs)
            except Exception as exc:
                failed = failed or _Call(plan, function, started)
                delay = failed.next_delay(exc)
                if delay is None:
                    raise
            if delay > 0:
                sleep(delay)

    return call


def _wrap_async(plan: _Plan, function: Callable[..., Any]) -> Callable[..., Any]:
    clock = plan.clock
    sleep = plan.sleep or asyncio.sleep

    async def call(*args: Any, **kwargs: Any) -> Any:
        failed = None
        started = clock()
        while True:
            try:
                return await function(*args, **kwargs)
            except Exception as exc:
                failed = failed or _Call(plan, function, started)
                delay = failed.next_delay(exc)
                if delay is None:
                    raise
            if delay > 0:
                await sleep(delay)

    return call


class _Guarded:
    """One call behind a breaker. Each attempt is a ``with`` block: it tells the breaker how the attempt went,
    whatever happens, and swallows an exception after which there is another attempt, in ``delay`` seconds."""

    def __init__(self, plan: _Plan, function: Callable[..., Any]) -> None:
        self._plan = plan
        self._function = function
        self._breaker = cast(Breaker, plan.breaker)
        self._started = self._began = plan.clock()
        self._failed: Optional[_Call] = None
        self._last: Optional[Exception] = None
        self._permit: Any = None
        self.delay = 0.0

    def wait_time(self) -> float:
        """Seconds until the breaker may be asked again; 0: the attempt may begin.

        The caller waits meanwhile, unlike that of a job which is parked: no attempt begins after the total_timeout.
        Raises the exception of the last attempt, or BreakerOpenError if there was none.
        """
        self._permit = self._breaker.allow()
        if self._permit is not None:
            return 0.0
        wait = self._breaker.wait_time()
        limit = self._plan.policy.native.total_timeout_ms / 1000
        if limit > 0 and self._plan.clock() - self._started + wait > limit:
            last, self._last = self._last, None
            raise last or BreakerOpenError(
                f"breaker {self._breaker.name} is open for longer than the call may take",
                detail=f"it may close in {wait:g} s, and total_timeout is {limit:g} s",
                hint="a larger total_timeout lets the call wait; 0 is no limit",
            )
        return wait

    def __enter__(self) -> None:
        self._began = self._plan.clock()

    def __exit__(self, _kind: object, exc: Optional[BaseException], _traceback: object) -> bool:
        took = self._plan.clock() - self._began
        self._last = exc if isinstance(exc, Exception) else None
        if exc is None:
            self._breaker.record(self._permit, SUCCESS, took)
            return False
        delay = None
        try:
            if isinstance(exc, Exception):
                self._failed = self._failed or _Call(self._plan, self._function, self._started)
                delay = self._failed.next_delay(exc, self._permit, took)
            else:  # KeyboardInterrupt, a cancelled task: nothing is known of the service
                self._breaker.record(self._permit, RETURNED)
        except BaseException:  # of a callback
            self._breaker.record(self._permit, RETURNED)
            raise
        self.delay = delay or 0.0
        return delay is not None


def _wrap_sync_breaker(plan: _Plan, function: Callable[..., Any]) -> Callable[..., Any]:
    sleep = plan.sleep or time.sleep

    def call(*args: Any, **kwargs: Any) -> Any:
        guarded = _Guarded(plan, function)
        while True:
            while (wait := guarded.wait_time()) > 0:
                sleep(wait)
            with guarded:
                return function(*args, **kwargs)
            if guarded.delay > 0:
                sleep(guarded.delay)

    return call


def _wrap_async_breaker(plan: _Plan, function: Callable[..., Any]) -> Callable[..., Any]:
    sleep = plan.sleep or asyncio.sleep

    async def call(*args: Any, **kwargs: Any) -> Any:
        guarded = _Guarded(plan, function)
        while True:
            while (wait := guarded.wait_time()) > 0:
                await sleep(wait)
            with guarded:
                return await function(*args, **kwargs)
            if guarded.delay > 0:
                await sleep(guarded.delay)

    return call


@overload
def retry(function: Callable[P, R], /) -> Callable[P, R]: ...


@overload
def retry(
    policy: Union[RetryPolicy, int, None] = None,
    /,
    *,
    breaker: Optional[Breaker] = None,
    classify: Union[Classifier, ClassifyFunction, Iterable[Row], None] = None,
    before_sleep: Optional[BeforeSleep] = None,
    sleep: Optional[Callable[[float], Any]] = None,
    **fields: Any,
) -> Callable[[F], F]: ...


def retry(
    first: Any = None,
    /,
    *,
    breaker: Optional[Breaker] = None,
    classify: Union[Classifier, ClassifyFunction, Iterable[Row], None] = None,
    before_sleep: Optional[BeforeSleep] = None,
    sleep: Optional[Callable[[float], Any]] = None,
    clock: Callable[[], float] = time.monotonic,
    **fields: Any,
) -> Any:
    """Tries a function again when it fails in a way that may pass.

    ::

        @redrive.retry
        def fetch(): ...

        @redrive.retry(max_attempts=5, initial_delay=0.5, retry_on=[httpx.HTTPError])
        async def fetch(): ...

    The fields are those of :class:`RetryPolicy`; a policy may be given instead, or a number of attempts.
    When no retry is left, the exception of the last attempt is raised as it is. KeyboardInterrupt and
    other exceptions that are not an ``Exception`` are never retried.

    :param breaker: holds calls back while the service is down (:class:`Breaker`).
    :param classify: rows of your own, or a function from an exception to a failure class or None.
    :param before_sleep: called with a :class:`RetryState` before each wait.
    :param sleep: in place of ``time.sleep`` or ``asyncio.sleep``.
    """
    if callable(first) and not isinstance(first, (RetryPolicy, bool)):
        return retry()(first)
    policy = as_policy(first, fields)
    return _Plan(policy, as_classifier(classify), breaker, before_sleep, sleep, clock).wrap
