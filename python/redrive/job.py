"""A job of the in-process handler: what is submitted, what its function sees, what comes of it."""

from __future__ import annotations

import os
import time
import uuid
from dataclasses import dataclass, field
from typing import Any, Generic, Optional, Protocol, TypeVar

from redrive._native import Seconds, encode, ffi, milliseconds
from redrive.errors import JobFailedError, RedriveError
from redrive.policy import RetryPolicy
from redrive.vocabulary import State

R = TypeVar("R")


def new_id() -> str:
    """A UUID of version 7: it begins with the time, so that ids sort by age."""
    stamp = int(time.time() * 1000) << 80
    bits = stamp | int.from_bytes(os.urandom(10), "big")
    return str(uuid.UUID(int=bits & ~(0xF << 76) & ~(0x3 << 62) | 0x7 << 76 | 0x2 << 62))


@dataclass
class Job:
    """What to run. ``task`` groups jobs of one kind; its breaker is that of ``service``, or of the task."""

    task: str
    payload: Any = None
    id: str = field(default_factory=new_id)
    service: Optional[str] = None
    queue: Optional[str] = None
    user: Optional[str] = None
    project: Optional[str] = None
    #: -100 to 100, the higher first, where ``concurrency`` makes jobs wait.
    priority: int = 0
    #: Instead of the handler's policy.
    retry: Optional[RetryPolicy] = None
    #: Seconds from the submit; waiting of every kind counts.
    deadline: Optional[Seconds] = None


class NativeJob:
    """A struct redrive_job and all that it points at."""

    def __init__(self, job: Job) -> None:
        self.struct = c = ffi.new("struct redrive_job *")
        self._kept: list[Any] = [job.retry]
        for name in ("id", "task", "service", "queue", "user", "project"):
            value = getattr(job, name)
            if value is not None:
                data = ffi.new("char[]", encode(value, name))
                self._kept.append(data)
                setattr(c, name, data)
        c.priority = max(-(2**31), min(job.priority, 2**31 - 1))
        if job.retry is not None:
            c.policy = job.retry.native
        if job.deadline is not None:
            c.deadline_ms = milliseconds(job.deadline, "deadline")


class Running(Protocol):
    """What a context asks the job inside of the handler; also when that has ended."""

    def remaining(self) -> Optional[float]: ...

    def cancelled(self) -> bool: ...


class JobContext:
    """What a function is told of its job. It belongs to one attempt, and may be looked at after its end."""

    def __init__(self, job: Job, running: Running, attempt: int, max_attempts: int) -> None:
        self.job = job
        self._running = running
        self.job_id = job.id
        self.task = job.task
        #: 1, 2, …
        self.attempt = attempt
        self.max_attempts = max_attempts

    @property
    def remaining(self) -> Optional[float]:
        """Seconds until the deadline or the total time-out: what to give to a request. None: no limit; 0 after
        the job's end."""
        return self._running.remaining()

    @property
    def cancelled(self) -> bool:
        """True once the job was cancelled or has ended, or the handler is being stopped: return soon."""
        return self._running.cancelled()


@dataclass
class JobResult(Generic[R]):
    """How a job ended."""

    job_id: str
    state: State
    #: Why it ended without success: exhausted, not_retriable, deadline, breaker_open …
    reason: str
    #: Of the last failure; "success" if there is none.
    failure_class: str
    attempts: int
    elapsed: float
    #: Seconds that it waited for its breaker.
    parked: float
    value: Optional[R] = None
    #: What the last attempt raised.
    exception: Optional[BaseException] = None
    error: Optional[RedriveError] = None

    @property
    def retry_count(self) -> int:
        """Retries that were made: attempts without the first one; 0 if it never ran."""
        return max(self.attempts - 1, 0)

    @property
    def success(self) -> bool:
        """Whether the job was completed."""
        return self.state is State.COMPLETED

    def unwrap(self) -> R:
        """The value; raises a :class:`JobFailedError` or :class:`JobCancelledError` if there is none."""
        if self.success:
            return self.value  # type: ignore[return-value]
        raise (self.error or JobFailedError(f"job {self.job_id} failed")) from self.exception
