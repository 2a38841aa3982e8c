"""What a task with ``pass_context=True`` is told of its job."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Optional


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
    #: True once the job was cancelled, lost its lease or is to be given back: return soon.
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
        )
