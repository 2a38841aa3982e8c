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
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Optional

from redrive.decision import decide
from redrive.errors import JobCancelledError, NotFoundError, ServerError, Snooze
from redrive.policy import Jitter, RetryPolicy
from redrive.queue._limits import dump, fit_result
from redrive.queue.app import App
from redrive.queue.context import PARENTS_BYTES, PARENTS_GIVEN, Context, Parent
from redrive.queue.payload import arguments, dumps
from redrive.queue.task import Task
from redrive.queue.workflow import After, edges_of

_LIVE = ("queued", "scheduled", "waiting", "running")
#: A job that puts itself off so often waits for something that does not happen in this test.
_SNOOZES_MAX = 100


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


@dataclass
class _Edge:
    parent: InlineJob
    child: InlineJob
    rule: After
    is_open: bool = True


class InlineJobs(list[InlineJob]):
    """The jobs of an inline application, oldest first. It stands in for the client."""

    def __init__(self, app: App, run: bool) -> None:
        super().__init__()
        self._app = app
        self._run = run
        self._edges: list[_Edge] = []

    def drain(self) -> None:
        """Runs all that have not run, with those that they defer or release, and those that have snoozed too often."""
        for job in self:
            if job.state == "scheduled":
                job.state = "queued"
        while any(job.state == "queued" for job in self):
            self._work(self)

    # ---- What an application asks of its client -------------------------------------------------

    def submit(self, job: dict[str, Any]) -> dict[str, Any]:
        return self.submit_many([job])[0]

    def submit_many(self, jobs: list[dict[str, Any]]) -> list[dict[str, Any]]:
        payloads = [json.loads(dumps(job["payload"], "the payload")) for job in jobs]  # what a worker would see
        self._refuse_bad_edges(jobs)
        named: dict[str, InlineJob] = {}
        new: list[InlineJob] = []
        answers = []
        for job, payload in zip(jobs, payloads):
            entry = self._same(job)
            existed = entry is not None
            if entry is None:
                entry = InlineJob(job["id"], job["task"], payload, job)
                self.append(entry)
                new.append(entry)
                self._wait(entry, named)
            named.setdefault(job["id"], entry)
            answers.append({"id": entry.id, "state": entry.state, "existed": existed})
        if self._run:
            self._work(new)
        return answers

    def session(self) -> dict[str, Any]:
        return {"tenant": self._app.tenant or "default"}

    def job(self, id_: str) -> dict[str, Any]:
        job = self._find(id_)
        return {"id": job.id, "task": job.task, "state": job.state, "attempts": job.attempts, "result": job.result}

    def cancel(self, id_: str) -> dict[str, Any]:
        job = self._find(id_)
        job.state = "cancelled"
        released = self._release(job)
        if self._run:
            self._work(released)
        return {"id": id_, "state": "cancelled"}

    def retry(self, id_: str) -> dict[str, Any]:
        job = self._find(id_)
        if job.state == "waiting":
            raise ServerError("the job is waiting for others", status=409, code="STATE", detail=f"id {id_}")
        job.state, job.attempts = "queued", 0
        if self._run:
            self._work([job])
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
            is_live = other.state in _LIVE or job.get("unique") == "forever"
            if other.id == job["id"] or (key is not None and key == other.request.get("unique_key") and is_live):
                return other
        return None

    # Jobs that wait for others: a job is released, or skipped, when the last of its parents ends.

    def _refuse_bad_edges(self, jobs: list[dict[str, Any]]) -> None:
        """As the server does: all jobs of an array are taken, or none."""
        there = {job.id for job in self}
        places = {job["id"]: place for place, job in reversed(list(enumerate(jobs)))}
        for place, job in enumerate(jobs):
            seen: set[str] = set()
            for edge in edges_of(job) if job["id"] not in there else ():
                if edge.id in seen:
                    _refuse(edge.id, "is named twice")
                if edge.id == job["id"]:
                    _refuse(edge.id, "would wait for itself")
                if places.get(edge.id, -1) > place:
                    _refuse(edge.id, "comes later in the same array", "put a job before those that wait for it")
                if edge.id not in places and edge.id not in there:
                    _refuse(edge.id, "is not there", "submit it before, or earlier in the same array")
                seen.add(edge.id)

    def _wait(self, job: InlineJob, named: dict[str, InlineJob]) -> None:
        rules = edges_of(job.request)
        edges = [_Edge(named.get(rule.id) or self._find(rule.id), job, rule) for rule in rules]
        job.state = "waiting" if edges else "queued"
        self._edges += edges
        self._decide(edges)

    def _release(self, job: InlineJob) -> list[InlineJob]:
        """Decides what waits for a job that has ended, and for those that are skipped; those that may run."""
        return self._decide([edge for edge in self._edges if edge.parent is job])

    def _decide(self, edges: list[_Edge]) -> list[InlineJob]:
        released = []
        todo = deque(edges)
        while todo:
            edge = todo.popleft()
            child = edge.child
            is_met = _is_met(edge.rule, edge.parent.state) if edge.is_open else None
            edge.is_open = edge.is_open and is_met is None
            if child.state != "waiting" or is_met is None:
                continue
            if not is_met:
                child.state, child.reason = "cancelled", "skipped"
                child.exception = JobCancelledError(
                    f"job '{edge.parent.id}', which it waited for (on: {edge.rule.on}), ended as {edge.parent.state}"
                )
                todo.extend(other for other in self._edges if other.parent is child)
            elif not any(other.is_open for other in self._edges if other.child is child):
                child.state = "queued"
                released.append(child)
        return released

    def _parents(self, job: InlineJob) -> list[Parent]:
        """As a worker would be given them."""
        parents: list[Parent] = []
        left = PARENTS_BYTES
        waited_for = {edge.parent.id for edge in self._edges if edge.child is job}
        for other in [other for other in self if other.id in waited_for][:PARENTS_GIVEN]:
            result = _as_json(other.result)
            size = 0 if result is None else len(dump(result))
            is_omitted = size > left
            left -= 0 if is_omitted else size
            parents.append(Parent(other.id, other.state, None if is_omitted else result, is_omitted))
        return parents

    def _work(self, jobs: Iterable[InlineJob]) -> None:
        todo = deque(jobs)
        while todo:
            job = todo.popleft()
            if job.state == "queued":
                self._carry_out(job)
                todo.extend(self._release(job))

    def _carry_out(self, job: InlineJob) -> None:
        task = self._app.find_task(job.task)
        policy = _policy_of(job.request.get("retry"), task)
        snoozes = 0
        job.state = "running"
        while job.state in ("running", "retrying"):
            job.attempts += 1
            context = Context(job.id, job.task, job.attempts, policy.native.max_retries + 1, job.payload)
            context.parents = self._parents(job)
            try:
                job.result = _call(task, context)
            except Snooze as exc:
                job.attempts -= 1
                job.delays.append(exc.seconds)
                snoozes += 1
                if snoozes == _SNOOZES_MAX:
                    job.state = "scheduled"
            except Exception as exc:
                job.exception = exc
                decision = decide(policy, job.attempts, exc, job_id=job.id)
                job.state, job.reason, job.failure_class = decision.state, decision.reason, decision.failure_class
                if job.state == "retrying":
                    job.delays.append(decision.delay)
            else:
                job.state, job.exception, job.failure_class, job.reason = "completed", None, None, None


def _policy_of(section: Optional[dict[str, Any]], task: Task) -> RetryPolicy:
    """The policy that a job carries, or its task's. As in the queue, total_timeout is off unless it is given."""
    if section is not None:
        return RetryPolicy(**{"total_timeout": 0, **_fields_of(section)})
    if task.retry is None:
        return RetryPolicy(total_timeout=0)
    return task.retry


def _fields_of(section: dict[str, Any]) -> dict[str, Any]:
    """What ``RetryPolicy.as_json`` has made of its fields."""
    return {name: _field_of(name, value) for name, value in section.items()}


def _field_of(name: str, value: Any) -> Any:
    if name in ("initial_delay", "max_delay", "min_delay", "total_timeout"):
        return _seconds(value)
    if name == "delays":
        return [_seconds(delay) for delay in value]
    if name == "on":
        return {class_: RetryPolicy(**_fields_of(rule)) for class_, rule in value.items()}
    if name == "jitter" and isinstance(value, dict):
        most = value.get("max")
        return Jitter(value["mode"], value.get("min"), _seconds(most) if isinstance(most, str) else most)
    return value


def _seconds(duration: str) -> float:
    return float(duration[: -len("ms")]) / 1000


def _refuse(id_: str, what: str, hint: str = "") -> None:
    code = "UNKNOWN" if what == "is not there" else "INVALID"
    raise ServerError(f"after: job '{id_}' {what}", status=400, code=code, hint=hint)


def _is_met(rule: After, parent: str) -> Optional[bool]:
    """The table of docs/workflows.md. None: the parent may still end as it must."""
    if parent not in ("completed", "failed", "dead_letter", "cancelled"):
        return None
    if rule.on == "end":
        return True
    if rule.on == "failure" or parent == "completed":
        return (rule.on == "failure") != (parent == "completed")
    if rule.on_dead == "wait" and parent != "cancelled":
        return None
    return rule.on_dead == "run"


def _as_json(result: Any) -> Any:
    """A result as it would be stored; one that cannot be is left out."""
    try:
        return fit_result(result)
    except Exception:
        return None


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

    Retries follow the job's policy without waiting; what would have been waited stands in ``delays``. A job that
    raises :class:`Snooze` runs again at once, and after 100 times stays ``scheduled`` until ``drain()``. A job that
    waits for others runs when these have ended. With ``run=False`` jobs are only kept, until ``drain()``.
    """
    jobs = InlineJobs(app, run)
    before = app._client
    app.client = jobs
    try:
        yield jobs
    finally:
        app.client = before
