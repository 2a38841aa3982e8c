"""The edge to the C library: text, errors, callbacks. The only module that registers callbacks."""

from __future__ import annotations

import threading
from datetime import timedelta
from typing import Any, Callable, Optional, Union

from redrive._core import ffi as ffi
from redrive._core import lib as lib
from redrive.errors import BY_CODE, InvalidArgumentError, RedriveError

Seconds = Union[int, float, timedelta]

_MS_MAX = 2**62


def text(pointer: Any) -> Optional[str]:
    """A C string, or None for NULL. Text that was cut inside a character is repaired."""
    if pointer == ffi.NULL:
        return None
    return bytes(ffi.string(pointer)).decode("utf-8", "replace")


def encode(value: str, what: str) -> bytes:
    """The bytes of a string that C can take: it ends at the first NUL, so there may be none."""
    data = value.encode("utf-8", "replace")
    if b"\0" in data:
        raise InvalidArgumentError(f"{what} contains a NUL character")
    return data


def milliseconds(value: Seconds, what: str) -> int:
    """Seconds, as a number or a timedelta, in whole milliseconds."""
    amount = value.total_seconds() if isinstance(value, timedelta) else value
    if isinstance(amount, bool) or not isinstance(amount, (int, float)):
        raise InvalidArgumentError(f"{what}: {value!r} is not a duration", hint="give seconds, or a timedelta")
    if not -_MS_MAX < amount * 1000 < _MS_MAX:  # NaN is in no range
        raise InvalidArgumentError(f"{what}: {value!r} is out of range", code="RANGE")
    return round(amount * 1000)


def seconds(ms: int) -> float:
    return ms / 1000


def raise_error(err: Any) -> None:
    """Raises what a struct redrive_err says."""
    code = text(lib.redrive_err_name(err.code)) or "INTERNAL"
    kind = BY_CODE.get(code, RedriveError)
    raise kind(text(err.message) or code, code=code, detail=text(err.detail) or "", hint=text(err.hint) or "")


def check(rc: int, err: Any) -> None:
    if rc < 0:
        raise_error(err)


# ---- Callbacks -----------------------------------------------------------------------------------
#
# C calls them with the handle of a Python callable as their context. An exception cannot pass through
# C: it is kept for the thread, and raised by raise_pending() when the call into C has returned.

_pending = threading.local()


def _keep_exception(_kind: Any, value: BaseException, _traceback: Any) -> None:
    _pending.exception = value


def raise_pending() -> None:
    """Raises what a callback of this thread has raised since the last call."""
    exception: Optional[BaseException] = getattr(_pending, "exception", None)
    if exception is not None:
        _pending.exception = None
        raise exception


def drop_pending() -> None:
    """Forgets it: something else is being raised already."""
    _pending.exception = None


def new_handle(callback: Callable[..., Any]) -> Any:
    """The context to give to C; it must be kept alive by the caller."""
    return ffi.new_handle(callback)


@ffi.def_extern(error=0, onerror=_keep_exception)  # type: ignore[untyped-decorator, unused-ignore]
def redrive_py_delay(n: int, _seed: int, ctx: Any) -> int:
    return milliseconds(ffi.from_handle(ctx)(n), "delay of a custom strategy")


@ffi.def_extern(onerror=_keep_exception)  # type: ignore[untyped-decorator, unused-ignore]
def redrive_py_monitor(event: Any, ctx: Any) -> None:
    ffi.from_handle(ctx)(event)


@ffi.def_extern(onerror=_keep_exception)  # type: ignore[untyped-decorator, unused-ignore]
def redrive_py_wake(ctx: Any) -> None:
    # C calls it without the handler's mutex (src/lib/handler/wait.c): a finalizer in here may end another job.
    # An exception of a signal handler can only lose a wake, which is why waits are bounded (_WAIT_MAX_S in _steps.py).
    ffi.from_handle(ctx)()


@ffi.def_extern(error=1, onerror=_keep_exception)  # type: ignore[untyped-decorator, unused-ignore]
def redrive_py_dead_letter(entry: Any, ctx: Any) -> int:
    ffi.from_handle(ctx)(entry)
    return 0


@ffi.def_extern(error=1, onerror=_keep_exception)  # type: ignore[untyped-decorator, unused-ignore]
def redrive_py_group(group: Any, ctx: Any) -> int:
    ffi.from_handle(ctx)(group)
    return 0
