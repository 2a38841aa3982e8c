"""What a task with ``pass_context=True`` is told of its job."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Optional

#: How many parents a job is given, and how many bytes of their results.
PARENTS_GIVEN = 100
PARENTS_BYTES = 256 * 1024


@dataclass(frozen=True)
class Parent:
    """A job that this one has waited for, as it was when this one was taken."""

    id: str
    state: str
    #: What it gave; None if that is nothing, or too long to come along.
    result: Any = None
    #: Its result is too long: ``app.job(id)["result"]`` has it.
    result_omitted: bool = False

    @classmethod
    def of_json(cls, parent: dict[str, Any]) -> Parent:
        return cls(parent["id"], parent["state"], parent.get("result"), bool(parent.get("result_omitted")))


@dataclass
class Context:
    """One attempt of a job of the queue."""

    job_id: str
    task: str
    #: 1, 2, …
    attempt: int
    max_attempts: int
    payload: Any = None
    queue: Optional[str] = None
    priority: int = 0
    user: Optional[str] = None
    project: Optional[str] = None
    #: When it was submitted, as the server writes it.
    created_at: Optional[str] = None
    deadline: Optional[str] = None
    #: The name of the worker.
    worker: Optional[str] = None
    #: The span of this attempt, or that of the submitter, by W3C Trace Context.
    traceparent: Optional[str] = None
    #: The jobs that it has waited for, in the order of their submission: up to 100, with 256 KiB of results.
    parents: list[Parent] = field(default_factory=list)
    #: True once the job was cancelled, its lease is lost or over, or it is to be given back: return soon.
    cancelled: bool = field(default=False, compare=False)

    @classmethod
    def of_job(cls, job: dict[str, Any], worker: Optional[str] = None) -> Context:
        """From a claimed job, or from the line of a stream."""
        return cls(
            job["id"],
            job["task"],
            job["attempt"],
            job["max_attempts"],
            job.get("payload"),
            job.get("queue"),
            job.get("priority") or 0,
            job.get("user"),
            job.get("project"),
            job.get("created_at"),
            job.get("deadline"),
            worker,
            job.get("traceparent"),
            [Parent.of_json(parent) for parent in job.get("parents") or ()],
        )
