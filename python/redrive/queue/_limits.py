"""What a server takes of a settlement, and values made to fit.

A settlement that is refused would have its job run again, although it has ended. So what is too long is
cut, what cannot be written is replaced, and a result that does not fit is left out.
"""

from __future__ import annotations

import json
from typing import Any

NAME_MAX_BYTES = 255
TEXT_MAX_BYTES = 64 * 1024
RESULT_MAX_BYTES = 1024 * 1024
#: 64 for the whole request, in which a result is the fourth level.
RESULT_MAX_DEPTH = 60
RETRY_AFTER_MAX_S = 24 * 3600
SNOOZE_MAX_S = 30 * 24 * 3600


def dump(value: Any) -> bytes:
    """JSON as it is sent; half of a surrogate pair, which is not text, becomes a question mark."""
    text = json.dumps(value, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return text.encode("utf-8", "replace")


def fit_text(text: str, max_bytes: int = TEXT_MAX_BYTES, *, keep_end: bool = False) -> str:
    """Text without NUL and half characters, cut to a number of bytes."""
    data = text.replace("\0", "\ufffd").encode("utf-8", "replace")
    if len(data) > max_bytes:
        data = data[-max_bytes:] if keep_end else data[:max_bytes]
    return data.decode("utf-8", "ignore")


def fit_name(name: str) -> str:
    """The name of a type: no control characters, and short enough."""
    return fit_text("".join("?" if ord(c) < 0x20 or ord(c) == 0x7F else c for c in name), NAME_MAX_BYTES)


def fit_result(result: Any) -> Any:
    """A copy of a result, as JSON has it: what happens to the original afterwards does not matter.

    Raises what keeps it from being sent: a ValueError, or anything that a look at it raises.
    """
    data = dump(result)
    if len(data) > RESULT_MAX_BYTES:
        raise ValueError(f"it has {len(data)} bytes, more than {RESULT_MAX_BYTES}")
    copy = json.loads(data, object_pairs_hook=_object_of_pairs)
    if not _is_flat_enough(copy, RESULT_MAX_DEPTH):
        raise ValueError(f"it is nested deeper than {RESULT_MAX_DEPTH}")
    return copy


def _object_of_pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Keys such as 1 and "1" are two in Python and one in JSON, which the server refuses."""
    members = dict(pairs)
    if len(members) != len(pairs):
        raise ValueError("two of its keys are the same in JSON")
    return members


def _is_flat_enough(value: Any, levels: int) -> bool:
    if not isinstance(value, (dict, list)):
        return True
    items = value.values() if isinstance(value, dict) else value
    return levels > 0 and all(_is_flat_enough(item, levels - 1) for item in items)
