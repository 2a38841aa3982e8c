"""What belongs to one process: locks, connections, memory of the C library."""

from __future__ import annotations

import os
import weakref
from typing import NoReturn, Protocol

from redrive.errors import SerializationError


class ProcessBound:
    """Refuses to be pickled. Without it pickle would name a lock deep inside, and not say what to do."""

    def __reduce__(self) -> NoReturn:
        raise SerializationError(
            f"{type(self).__name__} objects cannot be pickled",
            detail="they belong to one process",
            hint="make one in each process, in the function that runs there or at the top of its module",
        )


class BeginsAnew(Protocol):
    def _begin_anew(self) -> None:
        """In a forked child: another thread may have held a lock, in the middle of a change."""


_bound: weakref.WeakSet[BeginsAnew] = weakref.WeakSet()


def begin_anew_after_fork(thing: BeginsAnew) -> None:
    _bound.add(thing)


def _after_fork() -> None:
    for thing in list(_bound):
        thing._begin_anew()


os.register_at_fork(after_in_child=_after_fork)
