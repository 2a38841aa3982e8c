"""Dead letters of a handler, kept in a store: by a server over HTTP, or by the program ``redrive``.

Stores are written by the C program alone: the package has no second implementation of them.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from typing import TYPE_CHECKING, Any, Callable

from redrive._names import hint_for
from redrive.errors import InvalidArgumentError, RedriveError, SerializationError

if TYPE_CHECKING:
    from redrive.dead_letters import DeadLetter

#: Opens a store, which may have to be set up, and commits.
_TIMEOUT_S = 60.0
_STORES = ("sqlite", "postgres", "postgresql", "redis", "rediss")

Keep = Callable[[dict[str, Any]], Any]


def keeper_at(place: str) -> Keep:
    """A function that keeps a letter at this place; it raises a RedriveError if it cannot."""
    scheme = place.partition(":")[0]
    if scheme in ("http", "https"):
        from redrive.queue.client import Client

        return Client(place).submit
    if scheme not in _STORES or scheme == place:
        raise InvalidArgumentError(
            f"dead_letters: {place!r} is neither a store nor a server",
            hint=f"sqlite:FILE, postgres://…, redis://…, or http://… of a server; {hint_for(scheme, _STORES)}",
        )
    program = shutil.which("redrive")
    if program is None:
        raise InvalidArgumentError(
            "dead_letters: the program redrive is not in PATH",
            hint="a store is written by that program: install it, or give the http:// address of a server",
        )
    return Program(program, place).keep


class Program:
    """``redrive dlq add`` on a store. The URL may have a password in it: it goes by the environment, which other users
    of the machine cannot see, and the letter by standard input."""

    def __init__(self, path: str, store: str) -> None:
        self._path = path
        self._store = store

    def keep(self, letter: dict[str, Any]) -> None:
        from redrive.queue.payload import dumps

        environment = {key: value for key, value in os.environ.items() if key != "REDRIVE_SERVER"}
        environment["REDRIVE_STORE"] = self._store
        command = [self._path, "dlq", "add"]
        try:
            done = subprocess.run(
                command,
                input=dumps(letter, "the letter").encode("utf-8", "replace"),
                env=environment,
                capture_output=True,
                timeout=_TIMEOUT_S,
            )
        except (OSError, subprocess.TimeoutExpired) as exc:
            raise RedriveError(f"redrive dlq add did not run: {exc}", code="IO") from exc
        if done.returncode != 0:
            lines = done.stderr.decode("utf-8", "replace").strip().splitlines()
            raise RedriveError(" ".join(line.strip() for line in lines)[-500:] or "redrive dlq add failed", code="IO")


def as_job(letter: DeadLetter) -> dict[str, Any]:
    """The letter as ``POST /v1/jobs`` takes it."""
    failed = {
        # A job whose time was over before it ran has no failure.
        "class": None if letter.failure_class == "success" else letter.failure_class,
        "reason": letter.reason,
        "error_type": letter.error_type and letter.error_type[:255],
        "message": letter.message,
        "stacktrace": letter.stacktrace,
    }
    job = {
        "task": letter.task,
        "id": letter.id,
        "payload": _payload(letter.payload),
        "queue": letter.queue,
        "service": letter.service,
        "user": letter.user,
        "project": letter.project,
        "priority": letter.priority,
        "failed": {key: value for key, value in failed.items() if value is not None},
    }
    return {key: value for key, value in job.items() if value is not None}


def _payload(payload: Any) -> Any:
    """What is no JSON is kept as text: the letter can be read, but not be run again as it is."""
    from redrive.queue.payload import dumps

    try:
        dumps(payload, "the payload")
    except SerializationError:
        return {"not_json": repr(payload)[:100_000]}
    return payload
