"""Retry policies: what is written in Python, and the struct of the C library that it becomes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any, Callable, Optional, Union

from redrive._names import NamesChecked
from redrive._native import Seconds, check, encode, ffi, lib, milliseconds, new_handle, raise_pending, seconds
from redrive.errors import InvalidArgumentError
from redrive.failure import type_name
from redrive.vocabulary import CLASSES, JITTERS, STRATEGIES, FailureClass, Strategy, number

DelayFunction = Callable[[int], Seconds]
#: An exception class, the name of one (also a glob), or a failure class.
Match = Union[type[BaseException], FailureClass, str]


@dataclass(frozen=True)
class Jitter(NamesChecked):
    """How delays are scattered. ``min`` and ``max`` are shares of the delay; for ``step`` ``max`` is in seconds."""

    mode: str
    min: Optional[float] = None
    max: Optional[float] = None


@dataclass(frozen=True)
class RetryPolicy(NamesChecked):
    """When and how often a failure is tried again.

    A field that is not given has the default of the place where the policy is used: the in-process
    handler and the decorator retry 5 times within 5 minutes, after 1, 3, 9, 27 and 60 seconds with full
    jitter; the queue's defaults stand in its configuration. Durations are seconds or timedeltas.
    """

    max_retries: Optional[int] = None
    #: Counts the first run too: 5 means ``max_retries=4``.
    max_attempts: Optional[int] = None
    #: A name, or a function of the number of the retry (1, 2, …) that returns seconds.
    strategy: Union[Strategy, str, DelayFunction, None] = None
    initial_delay: Optional[Seconds] = None
    max_delay: Optional[Seconds] = None
    min_delay: Optional[Seconds] = None
    multiplier: Optional[float] = None
    #: Linear: seconds that are added with each retry.
    backoff_factor: Optional[float] = None
    exponent: Optional[float] = None
    jitter: Union[Jitter, str, bool, None] = None
    #: Each delay by itself, the last one repeated.
    delays: Optional[Iterable[Seconds]] = None
    #: No retry begins later than this after the first start; 0 switches it off.
    total_timeout: Optional[Seconds] = None
    enable_dlq: Optional[bool] = None
    dlq_retention_days: Optional[int] = None
    #: Only these failures are retried, even those whose class is not; "all" retries everything.
    retry_on: Union[Match, Iterable[Match], None] = None
    #: These are never retried; beats ``retry_on``.
    give_up_on: Union[Match, Iterable[Match], None] = None
    #: Per failure class, where it differs: ``{"rate_limited": RetryPolicy(initial_delay=60)}``.
    on: Optional[Mapping[Union[FailureClass, str], RetryPolicy]] = None
    #: A named schedule to start from, such as "handler" or "records".
    profile: Optional[str] = None

    def __post_init__(self) -> None:
        if self.max_retries is not None and self.max_attempts is not None:
            raise InvalidArgumentError("max_retries and max_attempts are both given", hint="give one of them")
        for name in ("retry_on", "give_up_on", "delays"):
            value = getattr(self, name)
            if value is not None:
                object.__setattr__(self, name, _as_tuple(value))
        self._native  # noqa: B018  - checks the fields

    @cached_property
    def _native(self) -> NativePolicy:
        return NativePolicy(self)

    def __getstate__(self) -> dict[str, Any]:
        """For pickle: what C has made of it is made again on the other side."""
        return {name: value for name, value in vars(self).items() if name != "_native"}

    @property
    def native(self) -> Any:
        """The struct redrive_policy; it lives as long as the policy."""
        return self._native.struct

    def delay(self, retry: int, job_id: str = "", epoch: int = 0) -> float:
        """Seconds before retry 1, 2, … of a job: the same for the same arguments, on every machine."""
        ms = lib.redrive_policy_delay(self.native, retry, encode(job_id, "job_id"), epoch)
        raise_pending()
        return seconds(ms)

    @property
    def has_function(self) -> bool:
        """Whether a delay is a function of the program, which no other process can call."""
        return callable(self.strategy) or any(rule.has_function for rule in (self.on or {}).values())

    def as_json(self) -> dict[str, Any]:
        """The policy as the ``retry`` section of a job or of the configuration."""
        if self.has_function:
            raise InvalidArgumentError(
                "a function cannot be sent to the queue as a strategy",
                hint="give the delays as a list: RetryPolicy(delays=[…])",
            )
        result: dict[str, Any] = {}
        for field in fields(self):
            value = getattr(self, field.name)
            if value is not None:
                result[field.name] = _json_value(field.name, value)
        return result


def _as_tuple(value: Any) -> tuple[Any, ...]:
    return (value,) if isinstance(value, (str, type)) else tuple(value)


def _duration(value: Seconds, name: str) -> str:
    return f"{milliseconds(value, name)}ms"


def _json_value(name: str, value: Any) -> Any:
    if name in ("initial_delay", "max_delay", "min_delay", "total_timeout"):
        return _duration(value, name)
    if name == "delays":
        return [_duration(delay, name) for delay in value]
    if name in ("retry_on", "give_up_on"):
        return "all" if value == ("all",) else [_match_text(item) for item in value]
    if name == "on":
        return {str(class_): rule.as_json() for class_, rule in value.items()}
    if name == "jitter" and isinstance(value, Jitter):
        parts = {"mode": value.mode, "min": value.min, "max": value.max}
        if value.mode == "step" and value.max is not None:
            parts["max"] = _duration(value.max, "jitter.max")
        return {key: part for key, part in parts.items() if part is not None}
    return str(value) if isinstance(value, Strategy) else value


def _match_text(item: Match) -> str:
    return type_name(item) if isinstance(item, type) else str(item)


class NativePolicy:
    """A struct redrive_policy and all that it points at."""

    def __init__(self, policy: RetryPolicy) -> None:
        err = ffi.new("struct redrive_err *")
        self._kept: list[Any] = []
        self.struct = ffi.new("struct redrive_policy *")
        lib.redrive_policy_init(self.struct)
        if policy.profile is not None:
            profile = encode(policy.profile, "profile")
            check(lib.redrive_policy_profile(self.struct, profile, err), err)
        self._fill_limits(policy)
        self._fill_backoff(self.struct.backoff, policy)
        self._fill_match(self.struct.retry_on, policy.retry_on)
        self._fill_match(self.struct.give_up_on, policy.give_up_on)
        for class_, rule in (policy.on or {}).items():
            self.struct.on[number(CLASSES, class_, "on")] = self._rule(rule)
        check(lib.redrive_policy_check(self.struct, err), err)

    def _keep(self, value: Any) -> Any:
        self._kept.append(value)
        return value

    def _fill_limits(self, policy: RetryPolicy) -> None:
        retries = _retries(policy)
        if retries is not None:
            self.struct.max_retries = retries
        if policy.total_timeout is not None:
            self.struct.total_timeout_ms = milliseconds(policy.total_timeout, "total_timeout")
        if policy.enable_dlq is not None:
            self.struct.enable_dlq = policy.enable_dlq
        if policy.dlq_retention_days is not None:
            self.struct.dlq_retention_days = policy.dlq_retention_days

    def _fill_backoff(self, backoff: Any, policy: RetryPolicy) -> None:
        for name in ("initial_delay", "min_delay", "max_delay"):
            value = getattr(policy, name)
            if value is not None:
                setattr(backoff, name + "_ms", milliseconds(value, name))
        for name in ("multiplier", "backoff_factor", "exponent"):
            value = getattr(policy, name)
            if value is not None:
                setattr(backoff, name, value)
        if policy.delays is not None:
            delays = [milliseconds(delay, "delays") for delay in policy.delays]
            backoff.strategy = number(STRATEGIES, "delays", "strategy")
            backoff.delays_ms = self._keep(ffi.new("int64_t[]", delays))
            backoff.n_delays = len(delays)
        if callable(policy.strategy):
            backoff.strategy = number(STRATEGIES, "custom", "strategy")
            backoff.custom = lib.redrive_py_delay
            backoff.custom_ctx = self._keep(new_handle(policy.strategy))
        elif policy.strategy is not None:
            backoff.strategy = number(STRATEGIES[:-1], policy.strategy, "strategy")
        if policy.jitter is not None:
            _fill_jitter(backoff.jitter, policy.jitter)

    def _fill_match(self, match: Any, items: Any) -> None:
        if items is None:
            return
        if items == ("all",):
            match.classes = (1 << len(CLASSES)) - 2
            return
        names = []
        for item in items:
            if not isinstance(item, type) and str(item) in CLASSES:
                match.classes |= 1 << CLASSES.index(str(item))
            else:
                names.append(self._keep(ffi.new("char[]", encode(_match_text(item), "type"))))
        match.types = self._keep(ffi.new("const char *[]", names))
        match.n_types = len(names)

    def _rule(self, policy: RetryPolicy) -> Any:
        rule = self._keep(ffi.new("struct redrive_class_rule *"))
        rule.backoff = self.struct.backoff
        retries = _retries(policy)
        rule.max_retries = -1 if retries is None else retries
        self._fill_backoff(rule.backoff, policy)
        return rule


def _retries(policy: RetryPolicy) -> Optional[int]:
    if policy.max_attempts is not None:
        if policy.max_attempts < 1:
            raise InvalidArgumentError("max_attempts is below 1", code="RANGE", hint="it counts the first run")
        return policy.max_attempts - 1
    if policy.max_retries is not None and not 0 <= policy.max_retries < 2**31:
        raise InvalidArgumentError("max_retries is out of range", code="RANGE")
    return policy.max_retries


def _fill_jitter(target: Any, jitter: Union[Jitter, str, bool]) -> None:
    if isinstance(jitter, bool):
        jitter = "full" if jitter else "none"
    if isinstance(jitter, str):
        jitter = Jitter(jitter)
    target.mode = number(JITTERS, jitter.mode, "jitter")
    if jitter.mode == "step":
        target.step_ms = milliseconds(1 if jitter.max is None else jitter.max, "jitter.max")
        return
    target.min = 0.1 if jitter.min is None else jitter.min
    target.max = (0.3 if jitter.mode == "add" else 0.1) if jitter.max is None else jitter.max


def as_policy(retry: Union[RetryPolicy, int, bool, None], fields: Mapping[str, Any]) -> RetryPolicy:
    """What ``retry=`` may be: a policy, a number of attempts, True for the defaults, False for none."""
    if fields:
        if retry is not None:
            raise InvalidArgumentError("both a policy and single fields are given", hint="give one of them")
        return RetryPolicy(**fields)
    if isinstance(retry, RetryPolicy):
        return retry
    if retry is None or retry is True:
        return RetryPolicy()
    return RetryPolicy(max_attempts=1 if retry is False else retry)
