"""Defer inside the application's own transaction: ``redrive.submit_job(…)`` on its connection.

The job is there when the transaction commits, and not if it rolls back. The connection must lead to the
PostgreSQL database that is the server's store. The job belongs to the tenant of the application: what is
configured for one job cannot name another.
"""

from __future__ import annotations

import importlib
import inspect
import json
from collections.abc import Mapping
from typing import Any, NamedTuple

from redrive.errors import InvalidArgumentError

#: Members of a job over HTTP, and what SQL calls them.
_PARAMETERS = {
    "task": "task",
    "queue": "queue",
    "priority": "priority",
    "id": "id",
    "unique_key": "unique_key",
    "user": "user_name",
    "project": "project",
    "service": "service",
    "traceparent": "traceparent",
}


class Submitted(NamedTuple):
    """The job that stands for a submit."""

    id: str
    #: No new job was made: this one has its id or its unique key.
    existed: bool


def statement(job: dict[str, Any], payload: str, tenant: str, style: str) -> tuple[str, dict[str, Any]]:
    """The SQL and its parameters; ``style`` writes a parameter: ``%({})s`` or ``:{}``.

    The answer is one text, because connections make rows of many kinds, some of them of the first column only.

    Times are sent as text and cast twice: asyncpg asks the server for the type of a parameter, and would want
    a datetime or a timedelta for one that is cast to timestamptz or interval at once.
    """
    values: dict[str, Any] = {"payload": payload, "tenant": tenant}
    parts = [f"payload => {style.format('payload')}", f"tenant => {style.format('tenant')}"]
    for key, parameter in _PARAMETERS.items():
        if job.get(key) is not None:
            values[key] = job[key]
            parts.append(f"{parameter} => {style.format(key)}")
    if job.get("unique") == "forever":
        parts.append("unique_forever => true")
    if job.get("at") is not None:
        values["at"] = job["at"]
        parts.append(f"process_after => CAST(CAST({style.format('at')} AS text) AS timestamptz)")
    for key, parameter in (("delay", "process_after"), ("deadline", "deadline")):
        if job.get(key) is not None:
            values[key] = job[key]
            parts.append(f"{parameter} => clock_timestamp() + CAST(CAST({style.format(key)} AS text) AS interval)")
    return f"SELECT CAST(row_to_json(job) AS text) FROM redrive.submit_job({', '.join(parts)}) AS job", values


def is_async(connection: Any) -> bool:
    """Whether its statements must be awaited."""
    return inspect.iscoroutinefunction(getattr(connection, "execute", None))


def _is_sqlalchemy(connection: Any) -> bool:
    return any(base.__module__.split(".")[0] == "sqlalchemy" for base in type(connection).__mro__)


def _sqlalchemy(job: dict[str, Any], payload: str, tenant: str) -> tuple[Any, dict[str, Any]]:
    sql, values = statement(job, payload, tenant, ":{}")
    return importlib.import_module("sqlalchemy").text(sql), values


def _only_value(row: Any) -> str:
    """Of a row of one column, as the connection makes rows: a tuple, a mapping (dict_row), or the value itself."""
    if isinstance(row, Mapping):
        return str(next(iter(row.values())))
    return row if isinstance(row, str) else str(row[0])


def _submitted(answer: str) -> Submitted:
    job = json.loads(answer)
    return Submitted(job["job_id"], job["existed"])


def submit(connection: Any, job: dict[str, Any], payload: str, tenant: str) -> Submitted:
    """Submits on a connection of psycopg, SQLAlchemy (also a Session), Django, or any driver with ``%(name)s``."""
    if is_async(connection):
        raise InvalidArgumentError(
            f"{type(connection).__name__} is asynchronous", hint="await task.configure(connection=…).defer_async(…)"
        )
    if _is_sqlalchemy(connection):
        sql, values = _sqlalchemy(job, payload, tenant)
        return _submitted(connection.execute(sql, values).scalar_one())
    if not hasattr(connection, "cursor"):
        raise InvalidArgumentError(
            f"{type(connection).__name__} is not a connection to a database",
            hint="a connection of psycopg, SQLAlchemy or Django, or a Session",
        )
    sql, values = statement(job, payload, tenant, "%({})s")
    with connection.cursor() as cursor:
        cursor.execute(sql, values)
        return _submitted(_only_value(cursor.fetchone()))


async def submit_async(connection: Any, job: dict[str, Any], payload: str, tenant: str) -> Submitted:
    """The same for an asynchronous connection of psycopg or SQLAlchemy."""
    if not is_async(connection):
        return submit(connection, job, payload, tenant)
    if _is_sqlalchemy(connection):
        sql, values = _sqlalchemy(job, payload, tenant)
        return _submitted((await connection.execute(sql, values)).scalar_one())
    sql, values = statement(job, payload, tenant, "%({})s")
    cursor = await connection.execute(sql, values)
    return _submitted(_only_value(await cursor.fetchone()))
