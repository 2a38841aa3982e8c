"""The circuit breaker of a queue: a row in a Delta table between batches, and a breaker in each partition.

Executors share no memory. So each partition of a batch has a breaker of its own, which begins with the state that
the table had at the start of the batch. It is the C library's, brought into that state by the calls that lead to it.
At the end of a batch the states of the partitions become one row again: open if one of them is open.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Optional

from redrive.breaker import FAILURE, NEUTRAL, SUCCESS, Breaker, BreakerConfig

_RESULTS = {"success": SUCCESS, "failure": FAILURE, "neutral": NEUTRAL}
#: More failed recoveries than this make no wait longer.
_REOPENED_MAX = 64
_ORDER = ("closed", "half_open", "open")


@dataclass(frozen=True)
class SavedBreaker:
    """``state`` is closed, open, half_open, or forced_open (by hand)."""

    state: str = "closed"
    #: Counted failures in a row, while it is closed.
    failure_count: int = 0
    #: Recoveries in a row that have failed.
    reopened: int = 0
    #: Open: when a call is let through to see whether the service is back; microseconds since 1970.
    next_probe_us: Optional[int] = None

    def held_until(self, now_us: int) -> Optional[int]:
        """Until when no call is let through, or None: calls may go."""
        if self.state == "forced_open":
            return now_us
        if self.state == "open" and self.next_probe_us is not None and self.next_probe_us > now_us:
            return self.next_probe_us
        return None


def join(states: Iterable[SavedBreaker]) -> SavedBreaker:
    """What the breakers of all partitions say together."""
    found = list(states)
    worst = max((state.state for state in found), key=_ORDER.index)
    found = [state for state in found if state.state == worst]
    probes = [state.next_probe_us for state in found if state.next_probe_us is not None]
    return SavedBreaker(
        worst,
        max(state.failure_count for state in found),
        max(state.reopened for state in found),
        max(probes, default=None),
    )


class PartitionBreaker:
    """The breaker of one partition. Its clock begins at the time of the batch."""

    def __init__(self, config: BreakerConfig, start: SavedBreaker, now_us: int) -> None:
        self._now_us = now_us
        self._reopened = start.reopened
        #: The breaker's clock, in seconds: moved by hand until the first record, by the machine's from then on.
        self._at = 1.0
        self._began: Optional[float] = None
        self._breaker = Breaker(config, clock=self._clock)
        self.was_asked = False
        if start.state == "closed":
            self._fail_in_a_row(config, start.failure_count)
        else:
            self._open(config, start.reopened)
        self._start = self._at
        self._began = time.monotonic()

    def _clock(self) -> float:
        return self._at if self._began is None else self._at + time.monotonic() - self._began

    def _fail_in_a_row(self, config: BreakerConfig, failures: int) -> None:
        native = config.native()
        for _ in range(min(failures, max(native.failure_threshold - 1, 0))):
            self._at += native.window_ms / 1000 + 1  # only the row of failures is known, not when they were
            self._breaker.record(self._breaker.allow(), FAILURE)

    def _open(self, config: BreakerConfig, reopened: int) -> None:
        """Opens it, and lets the time pass after which a probe may go."""
        native = config.native()
        slow = native.slow_call_ms / 1000 + 1
        for _ in range(max(native.failure_threshold, native.min_calls, native.window_calls) + 1):
            permit = self._breaker.allow()
            if permit is None:
                break
            self._breaker.record(permit, FAILURE, slow)
        for _ in range(min(reopened, _REOPENED_MAX)):
            self._at += self._breaker.wait_time() + 0.002
            while (permit := self._breaker.allow()) is not None:
                self._breaker.record(permit, FAILURE, slow)
        if self._breaker.status.state != "closed":
            self._at += self._breaker.wait_time() + 0.002

    def allow(self) -> Any:
        """A permit for one call, or None: the record has to wait."""
        self.was_asked = True
        return self._breaker.allow()

    def record(self, permit: Any, result: str, took: float) -> None:
        self._breaker.record(permit, _RESULTS[result], took)
        state = self._breaker.status.state
        if state == "closed":
            self._reopened = 0
        elif state == "open" and permit[0].probe != 0:
            self._reopened += 1

    def next_probe_us(self) -> int:
        """When a call may be let through again."""
        seconds = self._clock() - self._start + self._breaker.wait_time()
        return self._now_us + round(seconds * 1e6)

    def state(self) -> SavedBreaker:
        status = self._breaker.status
        next_us = self.next_probe_us() if status.state != "closed" else None
        failures = status.failure_count if status.state == "closed" else 0
        return SavedBreaker(str(status.state.value), failures, self._reopened, next_us)
