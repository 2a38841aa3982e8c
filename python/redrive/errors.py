"""Exceptions of the package, and exceptions for functions to raise.

Every error of Redrive is a :class:`RedriveError` with the facts of the C library or of the server: a
short message, a detail and a hint. The second half of the module is for your own functions: an
exception that says by itself what kind of failure it is.
"""

from __future__ import annotations

import math
from datetime import timedelta
from typing import Any, Optional, Union


def _restore(kind: type[BaseException], args: tuple[Any, ...], state: dict[str, Any]) -> BaseException:
    """A pickled exception, as it was: its constructor may want more than ``args``."""
    exc = kind.__new__(kind, *args)
    exc.__dict__.update(state)
    return exc


class RedriveError(Exception):
    """Something that Redrive refuses or cannot do.

    ``code`` is the name of the error in the table of ``redrive.h`` ("INVALID", "NOT_FOUND" …).
    """

    code = "INTERNAL"

    def __init__(self, message: str, *, code: Optional[str] = None, detail: str = "", hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.detail = detail
        self.hint = hint
        if code is not None:
            self.code = code

    def __str__(self) -> str:
        text = f"{self.message} ({self.detail})" if self.detail else self.message
        return f"{text}\nhint: {self.hint}" if self.hint else text

    def __reduce__(self) -> tuple[Any, ...]:
        return _restore, (type(self), self.args, self.__dict__)


class InvalidArgumentError(RedriveError, ValueError):
    """A value that cannot be meant: a negative delay, an unknown class, an empty name."""

    code = "INVALID"


class UnknownArgumentError(InvalidArgumentError, TypeError):
    """An argument that the function does not have; the hint names the nearest that it has."""

    code = "UNKNOWN"


class SerializationError(RedriveError, TypeError):
    """Arguments that JSON cannot express, or an object that cannot be pickled."""

    code = "INVALID"


class NotFoundError(RedriveError, LookupError):
    """No such job, dead letter, breaker or task."""

    code = "NOT_FOUND"


class ConflictError(RedriveError):
    """Not possible in this state: the id is live, or the dead letter is being retried."""

    code = "STATE"


class BreakerOpenError(RedriveError):
    """The circuit breaker is open, and its configuration says not to wait."""

    code = "BREAKER_OPEN"


class StoppingError(RedriveError):
    """The handler or the server is shutting down."""

    code = "STOPPING"


class JobFailedError(RedriveError):
    """A job ended without success; the exception of its last attempt is the cause."""

    code = "JOB_FAILED"


class JobCancelledError(RedriveError):
    """A job was cancelled."""

    code = "CANCELLED"


class UnreachableError(RedriveError, ConnectionError):
    """The server did not answer. A submit that had an id can be repeated without harm."""

    code = "IO"


class ServerError(RedriveError):
    """The server refused a request; ``status`` is that of HTTP."""

    def __init__(
        self, message: str, *, status: int, code: Optional[str] = None, detail: str = "", hint: str = ""
    ) -> None:
        super().__init__(message, code=code, detail=detail, hint=hint)
        self.status = status


class Failure(Exception):
    """A failure of a task that knows its own class.

    ``redrive_status`` beats the classification table. An exception class of your own may have the
    same attribute, and ``retry_after`` in seconds.
    """

    redrive_status: Optional[str] = None

    def __init__(self, message: str = "", *, retry_after: Optional[float] = None) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class TransientFailure(Failure):
    """It may work next time."""

    redrive_status = "transient"


class RateLimited(Failure):
    """The other side wants fewer requests; ``retry_after`` says when it may be asked again."""

    redrive_status = "rate_limited"


class PermanentFailure(Failure):
    """It can never work: no retry."""

    redrive_status = "permanent"


class Snooze(Exception):
    """Raised by a task of the queue: run the job again after ``seconds``, at no cost of an attempt.

    A number or a timedelta, not negative; more than 30 days are 30 days.
    """

    def __init__(self, seconds: Union[float, timedelta]) -> None:
        amount = seconds.total_seconds() if isinstance(seconds, timedelta) else seconds
        if isinstance(amount, bool) or not isinstance(amount, (int, float)):
            raise InvalidArgumentError(f"snooze: {seconds!r} is not a duration", hint="give seconds, or a timedelta")
        if not 0 <= amount < math.inf:
            raise InvalidArgumentError(f"snooze: {seconds!r} is out of range", code="RANGE")
        super().__init__(f"run again in {amount} s")
        self.seconds = amount

    def __reduce__(self) -> tuple[Any, ...]:
        return _restore, (type(self), self.args, self.__dict__)


BY_CODE: dict[str, type[RedriveError]] = {
    "INVALID": InvalidArgumentError,
    "PARSE": InvalidArgumentError,
    "RANGE": InvalidArgumentError,
    "UNKNOWN": InvalidArgumentError,
    "NOT_FOUND": NotFoundError,
    "EXISTS": ConflictError,
    "STATE": ConflictError,
    "BREAKER_OPEN": BreakerOpenError,
    "STOPPING": StoppingError,
    "CANCELLED": JobCancelledError,
    "DEADLINE": JobFailedError,
    "JOB_FAILED": JobFailedError,
}
