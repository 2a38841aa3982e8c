"""A task: a function with a name, and the ways to defer a call of it."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any, Callable, Optional, Union

from redrive._loop import in_thread
from redrive._native import Seconds, milliseconds
from redrive.errors import InvalidArgumentError
from redrive.job import new_id
from redrive.policy import RetryPolicy, as_policy
from redrive.queue import tracing, transaction
from redrive.queue.payload import bind, dumps
from redrive.queue.workflow import Parent, edges

if TYPE_CHECKING:
    from redrive.queue.app import App


@dataclass(frozen=True)
class DeferredJob:
    """What a defer returns."""

    id: str
    #: Where the job is: queued, scheduled, waiting …; None inside a transaction that has not been committed.
    state: Optional[str]
    #: No new job was made: one with this id or unique key is there.
    existed: bool


class Task:
    """Made by ``@app.task``. Calling it calls the function; ``defer`` puts a call of it into the queue."""

    def __init__(
        self,
        app: App,
        function: Callable[..., Any],
        name: str,
        *,
        queue: Optional[str] = None,
        retry: Optional[RetryPolicy] = None,
        priority: int = 0,
        pass_context: bool = False,
    ) -> None:
        self.app = app
        self.function = function
        self.name = name
        self.queue = queue
        self.retry = retry
        self.priority = priority
        self.pass_context = pass_context
        self.is_async = inspect.iscoroutinefunction(function)
        self.signature = inspect.signature(function)
        functools.update_wrapper(self, function)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.function(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<Task {self.name}>"

    def section(self) -> dict[str, Any]:
        """Queue and policy as a section of the server's configuration."""
        section: dict[str, Any] = {}
        if self.queue is not None:
            section["queue"] = self.queue
        if self.retry is not None:
            section["retry"] = self.retry.as_json()
            if "on" in section["retry"]:
                section["on"] = section["retry"].pop("on")
        return section

    def defer(self, *args: Any, **kwargs: Any) -> DeferredJob:
        """Puts a call with these arguments into the queue. They must be JSON."""
        return self.configure().defer(*args, **kwargs)

    async def defer_async(self, *args: Any, **kwargs: Any) -> DeferredJob:
        """The same without blocking the event loop."""
        return await self.configure().defer_async(*args, **kwargs)

    def job(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
        """A call with these arguments as a job that is not sent: for :func:`chain`, :func:`group`, ``defer_many``."""
        return self.configure().job(*args, **kwargs)

    def configure(
        self,
        *,
        schedule_in: Optional[Seconds] = None,
        schedule_at: Optional[datetime] = None,
        priority: Optional[int] = None,
        queue: Optional[str] = None,
        id: Optional[str] = None,
        unique_key: Optional[str] = None,
        unique_forever: bool = False,
        deadline: Optional[Seconds] = None,
        user: Optional[str] = None,
        project: Optional[str] = None,
        service: Optional[str] = None,
        retry: Union[RetryPolicy, int, None] = None,
        traceparent: Optional[str] = None,
        after: Union[Parent, Iterable[Parent], None] = None,
        connection: Any = None,
    ) -> ConfiguredTask:
        """How the next defer differs.

        :param schedule_in: seconds (or a timedelta) until it may run; ``schedule_at``: a time with a time zone.
        :param unique_key: one live job with this key; a second defer is answered with the first job.
        :param id: the job's own id; submitting it twice makes one job.
        :param deadline: seconds from now; not started by then, it dies.
        :param traceparent: of the span it belongs to; without it, that of OpenTelemetry's current span, if any.
        :param after: a job to wait for, or many: what a defer returned, what ``task.job(…)`` made, an id, or an
            :class:`After` of one of these.
        :param connection: of psycopg, SQLAlchemy or Django: the job is part of its transaction.
        """
        job: dict[str, Any] = {
            "task": self.name,
            "id": id,
            "queue": queue or self.queue,
            "priority": self.priority if priority is None else priority,
            "unique_key": unique_key,
            "unique": "forever" if unique_forever else None,
            "user": user,
            "project": project,
            "service": service,
            "traceparent": traceparent,
            "after": None if after is None else edges(after) or None,
        }
        if schedule_in is not None and schedule_at is not None:
            raise InvalidArgumentError("schedule_in and schedule_at are both given", hint="give one of them")
        if schedule_in is not None:
            job["delay"] = f"{max(0, milliseconds(schedule_in, 'schedule_in'))}ms"
        if schedule_at is not None:
            job["at"] = _utc(schedule_at)
        if deadline is not None:
            job["deadline"] = f"{milliseconds(deadline, 'deadline')}ms"
        policy = self.retry if retry is None else as_policy(retry, {})
        return ConfiguredTask(self, job, policy, connection)


def _utc(at: datetime) -> str:
    if at.tzinfo is None:
        raise InvalidArgumentError("schedule_at has no time zone", hint="datetime.now(timezone.utc) + …")
    return at.astimezone(timezone.utc).strftime("%Y-%m-%dT%H:%M:%S.%fZ")[:-4] + "Z"


class ConfiguredTask:
    """A task and how its next job differs."""

    def __init__(self, task: Task, job: Mapping[str, Any], policy: Optional[RetryPolicy], connection: Any) -> None:
        self.task = task
        self._job = {key: value for key, value in job.items() if value is not None}
        self._policy = policy
        self._connection = connection

    def job(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
        """The job as the server takes it; arguments that do not fit the function, or JSON, are refused here."""
        if self._connection is not None:
            raise InvalidArgumentError(
                f"a job of {self.task.name} that is not sent cannot be part of a transaction",
                hint="leave connection= out, or call defer() instead of job()",
            )
        return self._job_of(args, kwargs)

    def _job_of(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        task = self.task
        payload = bind(task.signature, task.name, int(task.pass_context), args, kwargs)
        dumps(payload, f"an argument of {task.name}()")
        job = {**self._job, "payload": payload}
        if self._policy is not None and not task.app.retry_in_config:
            job["retry"] = self._policy.as_json()
        job.setdefault("id", new_id())
        traceparent = None if "traceparent" in job else tracing.current()
        if traceparent is not None:
            job["traceparent"] = traceparent
        return job

    def defer(self, *args: Any, **kwargs: Any) -> DeferredJob:
        """Puts the call into the queue, or into the transaction of the ``connection``."""
        job = self._job_of(args, kwargs)
        if self._connection is not None:
            payload, tenant = self._for_sql(job), self.task.app.find_tenant()
            return self._in_transaction(transaction.submit(self._connection, job, payload, tenant))
        answer = self.task.app.client.submit(job)
        return DeferredJob(answer["id"], answer["state"], answer["existed"])

    async def defer_async(self, *args: Any, **kwargs: Any) -> DeferredJob:
        """The same without blocking the event loop."""
        what = f"{self.task.name} was not deferred"
        job = self._job_of(args, kwargs)
        if self._connection is not None:
            payload = self._for_sql(job)
            tenant = await in_thread(what, "App(…, tenant=…) asks no server", self.task.app.find_tenant)
            return self._in_transaction(await transaction.submit_async(self._connection, job, payload, tenant))
        answer = await in_thread(what, "defer() needs no event loop", self.task.app.client.submit, job)
        return DeferredJob(answer["id"], answer["state"], answer["existed"])

    def _for_sql(self, job: dict[str, Any]) -> str:
        if "retry" in job:
            raise InvalidArgumentError(
                f"{self.task.name} has a policy of its own, which a submit in SQL cannot carry",
                hint="say App(…, retry_in_config=True): workers declare it to the server when they start",
            )
        if "after" in job:
            raise InvalidArgumentError(
                f"a job of {self.task.name} cannot wait for others where it is submitted in SQL",
                hint="defer it without connection=, when the transaction has been committed",
            )
        return dumps(job["payload"], "the payload")

    @staticmethod
    def _in_transaction(submitted: transaction.Submitted) -> DeferredJob:
        return DeferredJob(submitted.id, None, submitted.existed)
