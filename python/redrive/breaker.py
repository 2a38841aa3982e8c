"""Circuit breakers: their configuration, their status, and one that stands by itself."""

from __future__ import annotations

import random
import threading
import time
from dataclasses import dataclass, fields
from typing import Any, Callable, Optional

from redrive._names import NamesChecked
from redrive._native import Seconds, ffi, lib, milliseconds, raise_error, seconds
from redrive._process import ProcessBound, begin_anew_after_fork
from redrive.errors import BreakerOpenError
from redrive.vocabulary import BREAKER_STATES, ON_OPEN, BreakerState, number

_DURATIONS = {"window", "slow_call", "recovery_timeout", "recovery_max", "probe_lease"}

SUCCESS, FAILURE, NEUTRAL, RETURNED = (
    lib.REDRIVE_CALL_SUCCESS,
    lib.REDRIVE_CALL_FAILURE,
    lib.REDRIVE_CALL_NEUTRAL,
    lib.REDRIVE_CALL_RETURNED,
)


@dataclass(frozen=True)
class BreakerConfig(NamesChecked):
    """When a breaker opens and how it closes again; durations are seconds or timedeltas.

    Without arguments: 5 failures in a row, or half of at least 20 calls in 10 s, open it for 30 s.
    """

    #: Failures in a row that open it; 0 switches the rule off.
    failure_threshold: Optional[int] = None
    #: The share of failures in the window that opens it; 0 switches the rule off.
    failure_rate: Optional[float] = None
    min_calls: Optional[int] = None
    window: Optional[Seconds] = None
    window_calls: Optional[int] = None
    #: A call that takes longer is slow.
    slow_call: Optional[Seconds] = None
    slow_rate: Optional[float] = None
    recovery_timeout: Optional[Seconds] = None
    recovery_multiplier: Optional[float] = None
    recovery_max: Optional[Seconds] = None
    recovery_jitter: Optional[float] = None
    half_open_max: Optional[int] = None
    success_threshold: Optional[int] = None
    half_open_rate: Optional[float] = None
    probe_lease: Optional[Seconds] = None
    #: "park": calls wait, at no cost of an attempt; "dead_letter"; "reject".
    on_open: Optional[str] = None
    release_rate: Optional[float] = None
    release_growth: Optional[float] = None

    def __post_init__(self) -> None:
        err = ffi.new("struct redrive_err *")
        if lib.redrive_breaker_config_check(self.native(), err) < 0:
            raise_error(err)

    def native(self) -> Any:
        """A struct redrive_breaker_config."""
        c = ffi.new("struct redrive_breaker_config *")
        lib.redrive_breaker_config_init(c)
        for field in fields(self):
            value = getattr(self, field.name)
            if value is None:
                continue
            if field.name in _DURATIONS:
                setattr(c, field.name + "_ms", milliseconds(value, field.name))
            elif field.name == "on_open":
                c.on_open = number(ON_OPEN, value, "on_open")
            else:
                setattr(c, field.name, value)
        return c


@dataclass(frozen=True)
class BreakerStatus:
    """A breaker as it is now."""

    name: Optional[str]
    state: BreakerState
    #: Counted failures in a row.
    failure_count: int
    #: Of the probes, while it is half open.
    success_count: int
    #: Share of failures in the window; None: too few calls to say.
    rate: Optional[float]
    slow_rate: Optional[float]
    #: Jobs that wait for it.
    parked: int


def status_of(c: Any) -> BreakerStatus:
    name = None if c.name == ffi.NULL else ffi.string(c.name).decode()
    return BreakerStatus(
        name,
        BreakerState(BREAKER_STATES[c.state]),
        c.failure_count,
        c.success_count,
        None if c.rate < 0 else c.rate,
        None if c.slow_rate < 0 else c.slow_rate,
        c.parked,
    )


class Breaker(ProcessBound):
    """A breaker for the decorator: ``@retry(breaker=Breaker(failure_threshold=3))``; threads may share it.

    It counts in the memory of this process. What several calls share should have one breaker. After a fork the
    child's is closed.
    """

    def __init__(
        self,
        config: Optional[BreakerConfig] = None,
        *,
        name: str = "breaker",
        clock: Callable[[], float] = time.monotonic,
        **config_fields: Any,
    ) -> None:
        self.name = name
        self.config = config or BreakerConfig(**config_fields)
        self._clock = clock
        self._begin_anew()
        begin_anew_after_fork(self)

    def _begin_anew(self) -> None:
        # Reentrant: the garbage collector may run while it is held, and close a coroutine that gives its permit back.
        self._lock = threading.RLock()
        err = ffi.new("struct redrive_err *")
        native = self.config.native()
        self._on_open = ON_OPEN[native.on_open]
        circuit = lib.redrive_circuit_new(native, random.getrandbits(64), err)
        if circuit == ffi.NULL:
            raise_error(err)
        self._circuit = ffi.gc(circuit, lib.redrive_circuit_free)

    def _now_ms(self) -> int:
        return int(self._clock() * 1000) + 1  # 0 means never

    def allow(self) -> Any:
        """A permit for one call, which must come back through record(); None: not now."""
        permit = ffi.new("struct redrive_permit *")
        with self._lock:
            allowed = lib.redrive_circuit_allow(self._circuit, self._now_ms(), permit)
        return permit if allowed else None

    def record(self, permit: Any, result: int, took: float = 0.0) -> None:
        """How a permitted call went, SUCCESS, FAILURE, NEUTRAL or RETURNED, and its time in seconds."""
        with self._lock:
            lib.redrive_circuit_record(self._circuit, permit[0], result, int(took * 1000), self._now_ms())

    def wait_time(self) -> float:
        """Seconds until it is worth asking again. Raises BreakerOpenError if calls are not to wait."""
        if self._on_open != "park":
            raise BreakerOpenError(
                f"breaker {self.name} is open", hint="BreakerConfig(on_open='park') lets calls wait instead"
            )
        with self._lock:
            next_ms = lib.redrive_circuit_next_ms(self._circuit)
            now_ms = self._now_ms()
        return seconds(next_ms - now_ms) if next_ms > now_ms else 0.05

    @property
    def status(self) -> BreakerStatus:
        """Its state and counts."""
        c = ffi.new("struct redrive_breaker_status *")
        with self._lock:
            lib.redrive_circuit_status(self._circuit, self._now_ms(), c)
        status = status_of(c)
        return BreakerStatus(
            self.name, status.state, status.failure_count, status.success_count, status.rate, status.slow_rate, 0
        )

    def reset(self) -> None:
        """Closes it and forgets everything."""
        with self._lock:
            lib.redrive_circuit_reset(self._circuit)

    def trip(self) -> None:
        """Holds it open until a reset."""
        with self._lock:
            lib.redrive_circuit_trip(self._circuit, self._now_ms())

    def disable(self) -> None:
        """Lets everything through until a reset."""
        with self._lock:
            lib.redrive_circuit_disable(self._circuit)
