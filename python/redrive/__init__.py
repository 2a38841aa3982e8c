"""Redrive: retries one can reason about, in this process and in a durable queue.

In the process: :func:`retry`, :class:`RetryHandler`. The queue: :class:`App`. Every decision (the class of a
failure, whether and when it is retried, what a breaker does) is made by the C library in this package.
"""

from redrive._native import lib as _lib
from redrive._native import text as _text
from redrive.breaker import Breaker, BreakerConfig, BreakerStatus
from redrive.dead_letters import DeadLetter, DeadLetterGroup, DeadLetters
from redrive.decision import Decision, decide
from redrive.errors import (
    BreakerOpenError,
    ConflictError,
    Failure,
    InvalidArgumentError,
    JobCancelledError,
    JobFailedError,
    NotFoundError,
    PermanentFailure,
    RateLimited,
    RedriveError,
    SerializationError,
    ServerError,
    Snooze,
    StoppingError,
    TransientFailure,
    UnknownArgumentError,
    UnreachableError,
)
from redrive.failure import Classifier, Facts, Row, Verdict, classify, describe
from redrive.handler import RetryHandler
from redrive.job import Job, JobContext, JobResult
from redrive.monitoring import Event, Health, Metrics
from redrive.policy import Jitter, RetryPolicy
from redrive.queue import After, App, Context, DeferredJob, Parent, Task, Worker, Workflow, chain, group
from redrive.retrying import RetryState, retry
from redrive.vocabulary import BreakerState, FailureClass, State, Strategy

__version__ = _text(_lib.redrive_version()) or ""

__all__ = [
    "After",
    "App",
    "Breaker",
    "BreakerConfig",
    "BreakerOpenError",
    "BreakerState",
    "BreakerStatus",
    "Classifier",
    "ConflictError",
    "Context",
    "DeadLetter",
    "DeadLetterGroup",
    "DeadLetters",
    "Decision",
    "DeferredJob",
    "Event",
    "Facts",
    "Failure",
    "FailureClass",
    "Health",
    "InvalidArgumentError",
    "Jitter",
    "Job",
    "JobCancelledError",
    "JobContext",
    "JobFailedError",
    "JobResult",
    "Metrics",
    "NotFoundError",
    "Parent",
    "PermanentFailure",
    "RateLimited",
    "RedriveError",
    "RetryHandler",
    "RetryPolicy",
    "RetryState",
    "Row",
    "SerializationError",
    "ServerError",
    "Snooze",
    "State",
    "StoppingError",
    "Strategy",
    "Task",
    "TransientFailure",
    "UnknownArgumentError",
    "UnreachableError",
    "Verdict",
    "Worker",
    "Workflow",
    "__version__",
    "chain",
    "classify",
    "decide",
    "describe",
    "group",
    "retry",
]
