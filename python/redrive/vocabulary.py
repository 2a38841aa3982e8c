"""The words of the C library as enumerations. Each is a string, and can be written as one."""

from __future__ import annotations

from enum import Enum
from typing import Any, Union

from redrive._names import unknown
from redrive._native import ffi, lib


class _Word(str, Enum):
    def __str__(self) -> str:
        return str(self.value)


class FailureClass(_Word):
    """What kind of failure it was. The first five are retried, the last three are not."""

    TRANSIENT = "transient"
    RATE_LIMITED = "rate_limited"
    NETWORK = "network"
    SYSTEM = "system"
    DATABASE = "database"
    PERMANENT = "permanent"
    VALIDATION = "validation"
    AUTHENTICATION = "authentication"


class Strategy(_Word):
    """How delays grow from retry to retry."""

    EXPONENTIAL = "exponential"
    LINEAR = "linear"
    FIXED = "fixed"
    IMMEDIATE = "immediate"
    POLYNOMIAL = "polynomial"
    DELAYS = "delays"


class State(_Word):
    """Where a job is. Those from `COMPLETED` to `CANCELLED` have ended."""

    SCHEDULED = "scheduled"
    RETRYING = "retrying"
    QUEUED = "queued"
    RUNNING = "running"
    PARKED = "parked"
    COMPLETED = "completed"
    FAILED = "failed"
    DEAD_LETTER = "dead_letter"
    CANCELLED = "cancelled"
    WAITING = "waiting"


class BreakerState(_Word):
    """What a breaker lets through: all, nothing, or a probe now and then."""

    CLOSED = "closed"
    OPEN = "open"
    HALF_OPEN = "half_open"
    FORCED_OPEN = "forced_open"
    DISABLED = "disabled"


def _names(function: Any, first: int = 0) -> list[str]:
    """The words of a table of the C library, in the order of their numbers."""
    words: list[str] = []
    while True:
        word = ffi.string(function(first + len(words))).decode()
        if word == "unknown":
            return words
        words.append(word)


CLASSES = _names(lib.redrive_class_name)
STRATEGIES = _names(lib.redrive_strategy_name)
JITTERS = _names(lib.redrive_jitter_name)
STATES = _names(lib.redrive_state_name)
REASONS = _names(lib.redrive_reason_name)
BREAKER_STATES = _names(lib.redrive_breaker_state_name)
ON_OPEN = _names(lib.redrive_on_open_name)
SEVERITIES = _names(lib.redrive_severity_name, first=1)
EVENTS = _names(lib.redrive_event_name)
SOURCES = ["status", "error_type", "http_status", "sqlstate", "curl", "errno", "signal", "exit_code", "message"]


def number(words: list[str], word: Union[str, _Word], what: str) -> int:
    """The number of a word in its table."""
    try:
        return words.index(str(word))
    except ValueError:
        raise unknown(what, word, words) from None


def severity_name(value: int) -> str:
    return SEVERITIES[value - 1] if 0 < value <= len(SEVERITIES) else "info"
