"""The application: where its server is, which tasks it has."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Callable, Optional, Protocol, Union, overload

from redrive._loop import in_thread
from redrive._process import ProcessBound
from redrive.errors import InvalidArgumentError, NotFoundError, RedriveError, ServerError
from redrive.policy import Match, RetryPolicy, as_policy
from redrive.queue.client import JSON, Client, is_temporary
from redrive.queue.task import DeferredJob, Task


class Submitter(Protocol):
    """What an application needs of a client; ``redrive.testing`` has another one."""

    def submit(self, job: JSON) -> JSON: ...

    def submit_many(self, jobs: list[JSON]) -> list[JSON]: ...

    def job(self, id_: str) -> JSON: ...

    def cancel(self, id_: str) -> JSON: ...

    def retry(self, id_: str) -> JSON: ...

    def session(self) -> JSON: ...


@dataclass(frozen=True)
class Periodic:
    """A cron entry."""

    name: str
    task: Task
    cron: str
    timezone: str
    overlap: str
    payload: Optional[dict[str, Any]]

    def as_json(self) -> JSON:
        entry = {"task": self.task.name, "schedule": self.cron, "timezone": self.timezone, "overlap": self.overlap}
        return entry if self.payload is None else {**entry, "payload": self.payload}


class App(ProcessBound):
    """Tasks, and the server that keeps their jobs.

    ::

        app = redrive.App("http://127.0.0.1:7070")

        @app.task(queue="mail", retry=5, retry_on=[ConnectionError])
        def send(to): ...

        send.defer(to="ann")

    :param url: of a ``redrive serve``; None for an application that only runs as a stream handler.
    :param token: for a server that has tokens; else the environment variable REDRIVE_TOKEN.
    :param tenant: whose jobs are deferred in a transaction of SQL: that of the token. Without it the server is asked
        before the first such defer. With it a defer goes on while the server is away.
    :param name: under which workers declare its periodic tasks; the module that makes the application, unless given.
    :param retry_in_config: jobs do not carry their policies: the server has them, because workers have declared
        them or because they are in its configuration.
    """

    def __init__(
        self,
        url: Optional[str] = None,
        *,
        token: Optional[str] = None,
        tenant: Optional[str] = None,
        name: Optional[str] = None,
        retry_in_config: bool = False,
    ) -> None:
        self._client: Optional[Submitter] = None if url is None else Client(url, token=token)
        self.name = _module_name(sys._getframe(1).f_globals) if name is None else _usable_name(name)
        self.tenant = tenant if tenant is None else _usable_tenant(tenant)
        #: The tenant in force, once it has been asked for.
        self._found_tenant: Optional[str] = None
        self.retry_in_config = retry_in_config
        self.tasks: dict[str, Task] = {}
        self.timetable: list[Periodic] = []

    @property
    def client(self) -> Any:
        if self._client is None:
            raise InvalidArgumentError("the application has no server", hint="App('http://127.0.0.1:7070')")
        return self._client

    @client.setter
    def client(self, client: Optional[Submitter]) -> None:
        self._client = client
        self._found_tenant = None

    def find_tenant(self) -> str:
        """The tenant of all jobs of this application: that of its token, which only the server knows.

        A job over HTTP has it anyway. One that is deferred in a transaction of SQL is given it.
        """
        if self._found_tenant is None:
            self._found_tenant = self._ask_for_tenant()
        return self._found_tenant

    def _ask_for_tenant(self) -> str:
        if self._client is None:
            return self.tenant or "default"
        hint = "App(…, tenant=…) names the tenant of jobs that are deferred in a transaction"
        try:
            found = self._client.session()["tenant"]
        except RedriveError as exc:
            if self.tenant is None:
                exc.hint = hint
                raise
            if not is_temporary(exc):
                raise
            return self.tenant
        if found is None and self.tenant is None:
            raise ServerError("the server does not know the token, so whose job is it?", status=401, hint=hint)
        if found is not None and self.tenant not in (None, found):
            raise InvalidArgumentError(
                f"the application says tenant {self.tenant!r}, and its token is of {found!r}",
                hint="leave tenant= out, or give a token of that tenant",
            )
        return str(found or self.tenant)

    # ---- Tasks ----------------------------------------------------------------------------------

    @overload
    def task(self, function: Callable[..., Any]) -> Task: ...

    @overload
    def task(
        self,
        *,
        name: Optional[str] = None,
        queue: Optional[str] = None,
        retry: Union[RetryPolicy, int, bool, None] = None,
        retry_on: Union[Match, Iterable[Match], None] = None,
        give_up_on: Union[Match, Iterable[Match], None] = None,
        priority: int = 0,
        pass_context: bool = False,
    ) -> Callable[[Callable[..., Any]], Task]: ...

    def task(
        self,
        function: Optional[Callable[..., Any]] = None,
        *,
        name: Optional[str] = None,
        queue: Optional[str] = None,
        retry: Union[RetryPolicy, int, bool, None] = None,
        retry_on: Union[Match, Iterable[Match], None] = None,
        give_up_on: Union[Match, Iterable[Match], None] = None,
        priority: int = 0,
        pass_context: bool = False,
    ) -> Union[Task, Callable[[Callable[..., Any]], Task]]:
        """Makes a task of a function or a coroutine function.

        :param name: ``module.function`` unless given.
        :param retry: a :class:`RetryPolicy`, a number of attempts, True for the server's policy, False for none.
        :param retry_on: exception classes, their names, or failure classes: only these are retried.
        :param pass_context: the function's first argument is a :class:`Context`.
        """
        policy = _policy(retry, retry_on, give_up_on)

        def decorate(function: Callable[..., Any]) -> Task:
            chosen = name or f"{function.__module__}.{function.__qualname__}"
            if chosen in self.tasks:
                raise InvalidArgumentError(f"there are two tasks named {chosen}", hint="give one of them a name=")
            task = Task(self, function, chosen, queue=queue, retry=policy, priority=priority, pass_context=pass_context)
            self.tasks[chosen] = task
            return task

        return decorate if function is None else decorate(function)

    def periodic(
        self,
        *,
        cron: str,
        timezone: str = "UTC",
        overlap: str = "skip",
        name: Optional[str] = None,
        payload: Optional[dict[str, Any]] = None,
    ) -> Callable[[Task], Task]:
        """Runs a task by the clock: ``@app.periodic(cron="*/2 * * * *")`` above ``@app.task``.

        Workers declare the entry, and queue and policy of the task, when they start. The server makes each tick once,
        however many workers there are. An entry that is no longer in the program is removed when a worker starts.
        """

        def decorate(task: Task) -> Task:
            if not isinstance(task, Task):
                raise InvalidArgumentError("@app.periodic is for tasks", hint="put it above @app.task")
            self.timetable.append(Periodic(name or task.name, task, cron, timezone, overlap, payload))
            return task

        return decorate

    def find_task(self, name: str) -> Task:
        try:
            return self.tasks[name]
        except KeyError:
            raise NotFoundError(f"there is no task named {name}", hint="is the module that has it imported?") from None

    def configuration(self) -> JSON:
        """Tasks and cron entries as sections of the server's configuration. A task whose strategy is a function is
        left out: no other process can call it."""
        tasks = {
            task.name: task.section()
            for task in self.tasks.values()
            if task.retry is None or not task.retry.has_function
        }
        cron = {entry.name: entry.as_json() for entry in self.timetable}
        return {"tasks": tasks, "cron": cron} if cron else {"tasks": tasks}

    # ---- Jobs -----------------------------------------------------------------------------------

    def defer_many(self, jobs: Iterable[JSON]) -> list[DeferredJob]:
        """Many at once, all or none, at most 1000: ``app.defer_many(send.job(to=to) for to in people)``.

        Also a :func:`chain` or a :func:`group`. The answers are in the order of the jobs.
        """
        return _deferred(self.client.submit_many(list(jobs)))

    async def defer_many_async(self, jobs: Iterable[JSON]) -> list[DeferredJob]:
        """The same without blocking the event loop."""
        client, many = self.client, list(jobs)
        what = f"{len(many)} jobs were not deferred"
        return _deferred(await in_thread(what, "defer_many() needs no event loop", client.submit_many, many))

    def job(self, id: str) -> JSON:
        """The job as the server has it: state, attempts, last_error, history, result."""
        job: JSON = self.client.job(id)
        return job

    def cancel(self, id: str) -> None:
        """A waiting job ends; a running one sees ``context.cancelled``."""
        self.client.cancel(id)

    def retry(self, id: str) -> None:
        """Runs a waiting job now, and a dead one again."""
        self.client.retry(id)


def _module_name(module: dict[str, Any]) -> str:
    """As tasks are named: by their module; a program that is run by itself is called as its file."""
    name = str(module.get("__name__") or "")
    if name in ("", "__main__"):
        name = os.path.splitext(os.path.basename(str(module.get("__file__") or "")))[0] or "__main__"
    return re.sub(r"[^A-Za-z0-9._-]", "_", name)[:255]


def _usable_name(name: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9._-]{1,255}", name):
        raise InvalidArgumentError(
            f"{name!r} is not the name of an application", hint="letters, digits, '.', '_' and '-', at most 255"
        )
    return name


def _usable_tenant(tenant: str) -> str:
    if not re.fullmatch(r"[^\s\x00-\x1f\x7f]+", tenant) or len(tenant.encode()) > 128:
        raise InvalidArgumentError(f"{tenant!r} is not a tenant", hint="a name of 1 to 128 bytes without spaces")
    return tenant


def _deferred(answers: list[JSON]) -> list[DeferredJob]:
    return [DeferredJob(answer["id"], answer["state"], answer["existed"]) for answer in answers]


def _policy(
    retry: Union[RetryPolicy, int, bool, None],
    retry_on: Union[Match, Iterable[Match], None],
    give_up_on: Union[Match, Iterable[Match], None],
) -> Optional[RetryPolicy]:
    given_lists = (("retry_on", retry_on), ("give_up_on", give_up_on))
    lists: dict[str, Any] = {key: value for key, value in given_lists if value is not None}
    if retry is None or retry is True:
        return RetryPolicy(**lists) if lists else None
    policy = as_policy(retry, {})
    if not lists:
        return policy
    given = {key: value for key, value in vars(policy).items() if value is not None and not key.startswith("_")}
    return RetryPolicy(**{**given, **lists})
