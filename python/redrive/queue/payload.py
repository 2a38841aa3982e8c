"""Arguments of a task as JSON, and back.

A payload is an object with the arguments by name, so that a producer in any language can submit the job:
``redrive enqueue shop.send_mail '{"to": "ann"}'`` calls ``send_mail(to="ann")``.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Mapping
from typing import Any, Callable

from redrive.errors import Failure, SerializationError


class PayloadError(Failure):
    """The payload of a job does not fit its task."""

    redrive_status = "validation"


def bind(
    signature: inspect.Signature, name: str, leading: int, args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> dict[str, Any]:
    """The arguments of a call by name; a call that the function would refuse is refused here.

    :param leading: how many arguments the worker gives in front of them (the context).
    """
    try:
        bound = signature.bind(*(None,) * leading, *args, **kwargs).arguments
    except TypeError as exc:
        raise TypeError(f"{name}(): {exc}") from None
    result: dict[str, Any] = {}
    for position, (key, value) in enumerate(bound.items()):
        kind = signature.parameters[key].kind
        if position < leading:
            continue
        if kind is inspect.Parameter.VAR_POSITIONAL or kind is inspect.Parameter.POSITIONAL_ONLY:
            raise TypeError(f"{name}(): {key} has no name in the payload; make it a keyword argument")
        if kind is inspect.Parameter.VAR_KEYWORD:
            result.update(value)
        else:
            result[key] = value
    return result


def dumps(value: Any, what: str) -> str:
    """JSON text, or a SerializationError that says which argument is to blame."""
    try:
        return json.dumps(value, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as exc:
        culprit = _culprit(value)
        raise SerializationError(
            f"{what} cannot be written as JSON",
            detail=f"{culprit}: {exc}" if culprit else str(exc),
            hint="give text, numbers, booleans, None, lists and dicts of them",
        ) from exc


def _culprit(value: Any) -> str:
    if isinstance(value, dict):
        for key, item in value.items():
            try:
                json.dumps(item, allow_nan=False)
            except (TypeError, ValueError, RecursionError):
                return str(key)
    return ""


def arguments(payload: Any, call: Callable[..., Any]) -> dict[str, Any]:
    """The keyword arguments that a payload stands for."""
    if payload is None:
        return {}
    if not isinstance(payload, dict):
        raise PayloadError(
            f"the payload of {getattr(call, '__qualname__', call)} is {type(payload).__name__}, not an object"
        )
    return payload
