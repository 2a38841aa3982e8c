"""One attempt of a task, and how it ended: the members of a settlement, or of a stream's answer."""

from __future__ import annotations

import json
import logging
from typing import Any

from redrive.errors import Snooze
from redrive.failure import describe
from redrive.queue.context import Context
from redrive.queue.payload import arguments
from redrive.queue.task import Task

logger = logging.getLogger("redrive")

NAME_MAX = 255


def _positional(task: Task, context: Context) -> tuple[Any, ...]:
    return (context,) if task.pass_context else ()


def run_sync(task: Task, context: Context) -> dict[str, Any]:
    """Calls a function. Nothing but the answer comes out, whatever it raises."""
    try:
        kwargs = arguments(context.payload, task.function)
        return succeeded(task, task.function(*_positional(task, context), **kwargs))
    except BaseException as exc:  # also SystemExit and KeyboardInterrupt: the worker goes on
        return failed(exc)


async def run_async(task: Task, context: Context) -> dict[str, Any]:
    """Awaits a coroutine function. Only its own cancellation passes through."""
    try:
        kwargs = arguments(context.payload, task.function)
        return succeeded(task, await task.function(*_positional(task, context), **kwargs))
    except Exception as exc:
        return failed(exc)


def succeeded(task: Task, result: Any) -> dict[str, Any]:
    """The work is done. A result that is not JSON must not have it done again: it is left out."""
    if result is None:
        return {"status": "SUCCESS"}
    try:
        json.dumps(result, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as exc:
        logger.warning("result_not_json task=%s error=%s", task.name, exc)
        return {"status": "SUCCESS"}
    return {"status": "SUCCESS", "result": result}


def failed(exc: BaseException) -> dict[str, Any]:
    """What an exception says; the server's table makes a class of it."""
    if isinstance(exc, Snooze):
        return {"snooze": exc.seconds}
    facts = describe(exc)
    answer: dict[str, Any] = {
        "status": facts.status or "FAIL",
        "message": facts.message or facts.error_type,
        "error_type": (facts.error_type or "")[:NAME_MAX],
        "error_types": [name[:NAME_MAX] for name in facts.error_types or []],
        "stacktrace": facts.stacktrace,
    }
    if facts.http_status:
        answer["http_status"] = facts.http_status
    if facts.sqlstate:
        answer["sqlstate"] = facts.sqlstate
    if facts.retry_after:
        answer["retry_after"] = facts.retry_after
    return answer
