"""The event loop of a caller, and errors that say what is wrong with it."""

from __future__ import annotations

import asyncio
from typing import Any, Callable

from redrive.errors import ConflictError, StoppingError


def running_loop(what: str, hint: str) -> asyncio.AbstractEventLoop:
    """The loop that runs this code. ``what`` was not done if there is none, or if it is closed."""
    try:
        loop = asyncio.get_running_loop()
    except RuntimeError as exc:
        raise ConflictError(
            f"{what}: no event loop of asyncio is running", hint=f"await it inside asyncio.run(…); {hint}"
        ) from exc
    if loop.is_closed():
        raise StoppingError(f"{what}: the event loop is closed", hint=hint)
    return loop


async def in_thread(what: str, hint: str, function: Callable[..., Any], *arguments: Any) -> Any:
    """Calls a function that blocks in a thread of the loop."""
    loop = running_loop(what, hint)
    try:
        future = loop.run_in_executor(None, function, *arguments)
    except RuntimeError as exc:  # its threads have been shut down
        raise StoppingError(f"{what}: the event loop is shutting down", detail=str(exc), hint=hint) from exc
    return await future
