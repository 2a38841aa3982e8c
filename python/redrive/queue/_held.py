"""The jobs that a worker has in hand: which of them run, and what is still to be said of them."""

from __future__ import annotations

import logging
import math
import queue
import threading
import time
from collections.abc import Iterable
from typing import Any, Callable, Optional

from redrive.errors import RedriveError, ServerError, UnreachableError
from redrive.queue._leases import AWAY, BATCH, Leases
from redrive.queue._limits import dump
from redrive.queue.client import TIMEOUT_S, Client, is_temporary
from redrive.queue.context import Context

logger = logging.getLogger("redrive")

#: A batch that has so much is sent; with one more item it still is less than the 8 MiB that the server takes.
_BATCH_BYTES = 4 * 1024 * 1024
#: How long a claim is put off while jobs are ending, so that quick ones are claimed many at a time.
_GATHER_S = 0.005
#: Statuses of HTTP for what is wrong with an item itself.
_BAD_ITEM = (400, 413)
#: A connection may be dead without a sign of it: after so long a settlement is sent again, by a new one.
_SETTLE_MIN_S = 5.0


class Held:
    """A job in hand."""

    def __init__(self, job: dict[str, Any], context: Context, lease_until: float = math.inf) -> None:
        self.id: str = job["id"]
        self.token: str = job["token"]
        self.context = context
        #: By the clock of this process (time.monotonic), and not later than by the server's.
        self.lease_until = lease_until
        #: Its lease has ended before it could be renewed, and its run was told.
        self.is_over = False
        #: Its end has been decided: what the function still says does not count.
        self.is_settled = False
        #: Stops a run that can be stopped: a coroutine, or a function that has not begun.
        self.stop: Optional[Callable[[], Any]] = None

    def cancel(self) -> None:
        """The server no longer waits for its end: a function sees ``context.cancelled``, a coroutine is cancelled.

        Once: a second cancellation would interrupt what a coroutine does to clean up after the first.
        """
        if self.context.cancelled:
            return
        self.context.cancelled = True
        if self.stop is not None:
            self.stop()


class _Settlement:
    """How a job ended, as it is sent."""

    def __init__(self, held: Held, answer: dict[str, Any], *, is_reduced: bool = False) -> None:
        self.held = held
        self.answer = answer
        self.is_reduced = is_reduced
        self.data = dump({"id": held.id, "token": held.token, **answer})

    def reduced(self) -> _Settlement:
        """The same end without what the server may have refused."""
        return _Settlement(self.held, _reduced(self.answer), is_reduced=True)


def _settlement_of(held: Held, answer: dict[str, Any]) -> _Settlement:
    try:
        return _Settlement(held, answer)
    except Exception as exc:
        logger.warning("settled_without_details job_id=%s error=%s", held.id, exc)
        return _Settlement(held, _reduced(answer), is_reduced=True)


def _reduced(answer: dict[str, Any]) -> dict[str, Any]:
    status = answer.get("status")
    if status == "SUCCESS":
        return {"status": "SUCCESS"}
    if status is None and answer.get("release"):
        return {"release": True}
    plain = {"status": status or "FAIL", "message": "it failed in a way that could not be sent to the server"}
    name = str(answer.get("error_type") or "")
    return {**plain, "error_type": name} if name.isascii() and name.isprintable() and 0 < len(name) < 256 else plain


def _log_not_settled(settlement: _Settlement, why: object) -> None:
    """The server does not take it: the job is run again when its lease ends."""
    logger.error("cannot_settle job_id=%s error=%s", settlement.held.id, why)


class HeldJobs:
    """All jobs in hand. A thread settles them, and others look after their leases.

    A job is in hand until the server has been told of its end. Its run can last longer: that of a function that goes on
    after the lease was lost, for instance. No other attempt of the job starts here before that run has ended.
    """

    def __init__(self, client: Client, lease: float) -> None:
        self._client = client
        self._settle_timeout = min(max(lease / 2, _SETTLE_MIN_S), TIMEOUT_S)
        self._patience = max(lease * 2, self._settle_timeout * 4)
        #: By their tokens.
        self._jobs: dict[str, Held] = {}
        #: Functions and coroutines that have not ended, by the ids of their jobs.
        self._runs: dict[str, Held] = {}
        self._changed = threading.Condition()
        self._settlements: queue.SimpleQueue[Optional[_Settlement]] = queue.SimpleQueue()
        self._settler = threading.Thread(target=self._settle_all, name="redrive-settle", daemon=True)
        self._leases = Leases(client, lease, self._list, self._lose, self._tell_that_over)
        self._threads = [self._settler, *self._leases.threads]

    def start(self) -> None:
        self._settler.start()
        self._leases.start()

    def close(self) -> None:
        """Says what is still to be said, and ends."""
        self._settlements.put(None)
        self._settler.join()
        self._leases.close()

    def _list(self) -> list[Held]:
        with self._changed:
            return list(self._jobs.values())

    def add(self, held: Held) -> None:
        with self._changed:
            self._jobs[held.token] = held

    def confirm(self, jobs: list[Held]) -> None:
        """Renews leases that may be old, before any of these jobs is added; those that cannot be are settled."""
        try:
            self._leases.renew(jobs)
        except Exception as exc:
            logger.warning("cannot_renew_leases jobs=%d error=%s", len(jobs), exc)
            for held in jobs:
                self.add(held)
                self.settle(held, {"release": True})

    def begin(self, held: Held) -> bool:
        """Whether the job may run now: not while an earlier attempt of it does."""
        with self._changed:
            return self._runs.setdefault(held.id, held) is held

    def end(self, held: Held, answer: dict[str, Any]) -> None:
        """Its run has ended."""
        with self._changed:
            self._runs.pop(held.id, None)
            self._changed.notify_all()
        self.settle(held, answer)

    def settle(self, held: Held, answer: dict[str, Any]) -> None:
        """How a job ended. The first word counts. What the answer has is written down at once."""
        if self._take_away(held):
            self._settlements.put(_settlement_of(held, answer))

    def give_back(self) -> int:
        """Gives all back unfinished, at no cost of an attempt; returns how many."""
        with self._changed:
            held = [h for h in self._jobs.values() if not h.is_settled]
        for job in held:
            self.settle(job, {"release": True})
            job.cancel()
        return len(held)

    def running(self) -> int:
        with self._changed:
            return len(self._runs)

    def wait_for_room(self, limit: int, timeout: float) -> int:
        """How many more may be taken, so that up to ``limit`` run; 0 if there was no room in time.

        Jobs that have ended make room before the server has been told, so that it is told while the next ones run.
        They are no more than ``limit``: a server that is away gets no longer list.
        """
        with self._changed:
            if self._changed.wait_for(lambda: self._room(limit) > 0, timeout):
                self._changed.wait_for(lambda: self._room(limit) == limit, _GATHER_S)
            return self._room(limit)

    def _room(self, limit: int) -> int:
        return max(0, min(limit - len(self._runs), 2 * limit - len(self._jobs)))

    def is_empty(self) -> bool:
        with self._changed:
            return not self._jobs

    def wait_until_empty(self, timeout: Optional[float]) -> bool:
        with self._changed:
            return self._changed.wait_for(lambda: not self._jobs, timeout)

    def _remove(self, batch: Iterable[Held]) -> None:
        with self._changed:
            for held in batch:
                self._jobs.pop(held.token, None)
            self._changed.notify_all()

    # ---- Settling -------------------------------------------------------------------------------

    def _settle_all(self) -> None:
        """Must not end before close(): jobs that are not settled run again."""
        is_open = True
        while is_open:
            first = self._settlements.get()
            batch = [] if first is None else [first]
            is_open = first is not None
            size = sum(len(settlement.data) for settlement in batch)
            while is_open and len(batch) < BATCH and size < _BATCH_BYTES and not self._settlements.empty():
                more = self._settlements.get()
                is_open = more is not None
                if more is not None:
                    batch.append(more)
                    size += len(more.data)
            if batch:
                self._settle(batch, time.monotonic() + self._patience)
                self._remove(settlement.held for settlement in batch)

    def _settle(self, batch: list[_Settlement], until: float) -> None:
        """Raises nothing. What is refused is sent again by halves, so that one bad item spoils no other."""
        try:
            answers = self._send(batch, until)
            for settlement, answer in zip(batch, answers):
                self._look_at(settlement, answer["status"], answer, until)
        except UnreachableError as exc:
            for settlement in batch:
                _log_not_settled(settlement, exc)
        except Exception as exc:
            if len(batch) > 1:
                middle = len(batch) // 2
                self._settle(batch[:middle], until)
                self._settle(batch[middle:], until)
            elif isinstance(exc, RedriveError) and not (isinstance(exc, ServerError) and exc.status in _BAD_ITEM):
                _log_not_settled(batch[0], exc)
            else:
                self._settle_reduced(batch[0], exc, until)

    def _send(self, batch: list[_Settlement], until: float) -> list[dict[str, Any]]:
        """Waits while the server is away, but no longer than until a moment."""
        attempt = 0
        while True:
            try:
                items = [settlement.data for settlement in batch]
                return self._client.settle(items, timeout=self._settle_timeout)
            except RedriveError as exc:
                if not is_temporary(exc) or time.monotonic() >= until:
                    raise
                attempt += 1
                time.sleep(AWAY.delay(attempt))

    def _look_at(self, settlement: _Settlement, status: int, answer: dict[str, Any], until: float) -> None:
        why = answer.get("detail") or answer.get("error")
        if status == 409:
            logger.warning("lease_lost job_id=%s state=%s", settlement.held.id, answer.get("state"))
        elif status in _BAD_ITEM:
            self._settle_reduced(settlement, why, until)
        elif status != 200:
            _log_not_settled(settlement, why)

    def _settle_reduced(self, settlement: _Settlement, why: object, until: float) -> None:
        """The job has ended: it must not run again because its result or its traceback is not taken."""
        if settlement.is_reduced:
            _log_not_settled(settlement, why)
            return
        logger.warning("settled_without_details job_id=%s error=%s", settlement.held.id, why)
        self._settle([settlement.reduced()], until)

    # ---- Leases ---------------------------------------------------------------------------------

    def _lose(self, held: Held, state: Any) -> None:
        if self._take_away(held):
            logger.warning("lease_lost job_id=%s state=%s", held.id, state)
            held.cancel()
            self._remove([held])

    def _tell_that_over(self, held: Held) -> None:
        """The job may be given to another worker from now on: its run should end.

        It stays in hand. If a renewal is answered after all, the server gives the job to no other worker while the run
        goes on; when the run has ended, the job is given back.
        """
        held.is_over = True
        logger.warning("lease_over job_id=%s", held.id)
        held.cancel()

    def _take_away(self, held: Held) -> bool:
        """Whether the job was still to be settled; now it is not."""
        with self._changed:
            was_open = not held.is_settled
            held.is_settled = True
            self._changed.notify_all()
        return was_open
