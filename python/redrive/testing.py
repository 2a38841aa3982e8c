"""Tests without a server: jobs run inline, with their retries, and no time passes.

::

    with redrive.testing.inline(app) as jobs:
        send.defer(to="ann")
    assert jobs[0].state == "completed"
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Optional

from redrive.decision import decide
from redrive.errors import NotFoundError, Snooze
from redrive.policy import RetryPolicy
from redrive.queue.app import App
from redrive.queue.context import Context
from redrive.queue.payload import arguments, dumps
from redrive.queue.task import Task


@dataclass
class InlineJob:
    """A job that was deferred in a test, and what became of it."""

    id: str
    task: str
    payload: Any
    #: As it was submitted: queue, priority, delay, unique_key …
    request: dict[str, Any]
    state: str = "queued"
    attempts: int = 0
    result: Any = None
    exception: Optional[BaseException] = None
    failure_class: Optional[str] = None
    reason: Optional[str] = None
    #: Seconds that would have been waited between the attempts.
    delays: list[float] = field(default_factory=list)


class InlineJobs(list[InlineJob]):
    """The jobs of an inline application, oldest first. It stands in for the client."""

    def __init__(self, app: App, run: bool) -> None:
        super().__init__()
        self._app = app
        self._run = run

    def drain(self) -> None:
        """Runs all that have not run, those that they defer included."""
        while any(job.state == "queued" for job in self):
            for job in list(self):
                if job.state == "queued":
                    self._carry_out(job)

    # ---- What an application asks of its client -------------------------------------------------

    def submit(self, job: dict[str, Any]) -> dict[str, Any]:
        existing = self._same(job)
        if existing is not None:
            return {"id": existing.id, "state": existing.state, "existed": True}
        payload = json.loads(dumps(job["payload"], "the payload"))  # what a worker would see
        entry = InlineJob(job["id"], job["task"], payload, job)
        self.append(entry)
        if self._run:
            self._carry_out(entry)
        return {"id": entry.id, "state": "queued", "existed": False}

    def submit_many(self, jobs: list[dict[str, Any]]) -> list[dict[str, Any]]:
        return [self.submit(job) for job in jobs]

    def job(self, id_: str) -> dict[str, Any]:
        job = self._find(id_)
        return {"id": job.id, "task": job.task, "state": job.state, "attempts": job.attempts, "result": job.result}

    def cancel(self, id_: str) -> dict[str, Any]:
        self._find(id_).state = "cancelled"
        return {"id": id_, "state": "cancelled"}

    def retry(self, id_: str) -> dict[str, Any]:
        job = self._find(id_)
        job.state, job.attempts = "queued", 0
        if self._run:
            self._carry_out(job)
        return {"id": id_, "state": job.state}

    # ---- Inside ----------------------------------------------------------------------------------

    def _find(self, id_: str) -> InlineJob:
        for job in self:
            if job.id == id_:
                return job
        raise NotFoundError("no such job", detail=f"id {id_}")

    def _same(self, job: dict[str, Any]) -> Optional[InlineJob]:
        key = job.get("unique_key")
        for other in self:
            is_live = other.state in ("queued", "running") or job.get("unique") == "forever"
            if other.id == job["id"] or (key is not None and key == other.request.get("unique_key") and is_live):
                return other
        return None

    def _carry_out(self, job: InlineJob) -> None:
        task = self._app.find_task(job.task)
        policy = task.retry or RetryPolicy(total_timeout=0)
        job.state = "running"
        while job.state in ("running", "retrying"):
            job.attempts += 1
            context = Context(job.id, job.task, job.attempts, policy.native.max_retries + 1, job.payload)
            try:
                job.result = _call(task, context)
            except Snooze as exc:
                job.attempts -= 1
                job.delays.append(exc.seconds)
                continue
            except Exception as exc:
                job.exception = exc
                decision = decide(policy, job.attempts, exc, job_id=job.id)
                job.state, job.reason, job.failure_class = decision.state, decision.reason, decision.failure_class
                if job.state == "retrying":
                    job.delays.append(decision.delay)
            else:
                job.state, job.exception, job.failure_class = "completed", None, None


def _call(task: Task, context: Context) -> Any:
    args = (context,) if task.pass_context else ()
    kwargs = arguments(context.payload, task.function)
    if not task.is_async:
        return task.function(*args, **kwargs)
    return _run_coroutine(task.function(*args, **kwargs))


def _run_coroutine(coroutine: Any) -> Any:
    """Runs it in a loop of its own; a test that is in an event loop itself needs another thread for that."""
    box: dict[str, Any] = {}

    def run() -> None:
        try:
            box["value"] = asyncio.run(coroutine)
        except BaseException as exc:
            box["exception"] = exc

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    if "exception" in box:
        raise box["exception"]
    return box["value"]


@contextlib.contextmanager
def inline(app: App, *, run: bool = True) -> Iterator[InlineJobs]:
    """Within the block, jobs of the application run at once, in the call that defers them.

    Retries follow the task's policy without waiting; what would have been waited stands in ``delays``. With
    ``run=False`` jobs are only kept, until ``drain()``.
    """
    jobs = InlineJobs(app, run)
    before = app._client
    app.client = jobs
    try:
        yield jobs
    finally:
        app.client = before
