"""One attempt of a task, and how it ended: the members of a settlement, or of a stream's answer."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

from redrive.errors import Snooze
from redrive.failure import describe
from redrive.queue import tracing
from redrive.queue._limits import RETRY_AFTER_MAX_S, SNOOZE_MAX_S, fit_name, fit_result, fit_text
from redrive.queue.context import Context
from redrive.queue.payload import arguments
from redrive.queue.task import Task

logger = logging.getLogger("redrive")


def _positional(task: Task, context: Context) -> tuple[Any, ...]:
    return (context,) if task.pass_context else ()


def run_sync(task: Task, context: Context) -> dict[str, Any]:
    """Calls a function. Nothing but the answer comes out, whatever it raises."""
    try:
        kwargs = arguments(context.payload, task.function)
        with tracing.around(context.traceparent):
            return succeeded(task, task.function(*_positional(task, context), **kwargs))
    except BaseException as exc:  # also SystemExit and KeyboardInterrupt: the worker goes on
        return failed(exc)


async def run_async(task: Task, context: Context) -> dict[str, Any]:
    """Awaits a coroutine function. Only the worker's own cancellation passes through.

    SystemExit and KeyboardInterrupt would end the event loop, and with it all other jobs. A CancelledError
    while the job is not cancelled comes from something that the coroutine awaits: a failure as any other.
    """
    try:
        kwargs = arguments(context.payload, task.function)
        with tracing.around(context.traceparent):
            return succeeded(task, await task.function(*_positional(task, context), **kwargs))
    except asyncio.CancelledError as exc:
        if context.cancelled:
            raise
        return failed(exc)
    except BaseException as exc:
        return failed(exc)


def succeeded(task: Task, result: Any) -> dict[str, Any]:
    """The work is done. A result that cannot be sent must not have it done again: it is left out."""
    if result is None:
        return {"status": "SUCCESS"}
    try:
        return {"status": "SUCCESS", "result": fit_result(result)}
    except Exception as exc:
        logger.warning("result_not_json task=%s error=%s", task.name, exc)
        return {"status": "SUCCESS"}


def failed(exc: BaseException) -> dict[str, Any]:
    """What an exception says; the server's table makes a class of it. Raises nothing."""
    try:
        if isinstance(exc, Snooze):
            return {"snooze": float(min(exc.seconds, SNOOZE_MAX_S))}
        return _failure(exc)
    except BaseException as second:  # an exception can have attributes that raise, or a status that is none
        name = fit_name(type(exc).__name__)
        return {"status": "FAIL", "error_type": name, "message": f"{name}, which cannot be described: {_text(second)}"}


def _text(exc: BaseException) -> str:
    try:
        return fit_text(f"{type(exc).__name__}: {exc}", 1000)
    except BaseException:
        return fit_name(type(exc).__name__)


def _failure(exc: BaseException) -> dict[str, Any]:
    facts = describe(exc)
    answer: dict[str, Any] = {
        "status": facts.status or "FAIL",
        "message": fit_text(facts.message or facts.error_type or ""),
        "error_type": fit_name(facts.error_type or ""),
        "error_types": [fit_name(name) for name in facts.error_types or []],
        "stacktrace": fit_text(facts.stacktrace or "", keep_end=True),
    }
    if facts.http_status:
        answer["http_status"] = int(facts.http_status)
    if facts.sqlstate and facts.sqlstate.isascii() and facts.sqlstate.isalnum():
        answer["sqlstate"] = facts.sqlstate
    if facts.retry_after:
        answer["retry_after"] = min(facts.retry_after, RETRY_AFTER_MAX_S)
    return answer
