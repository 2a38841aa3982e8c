"""The jobs that a worker has in hand: their leases, and what is still to be said of them."""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections.abc import Iterable
from concurrent.futures import Future
from typing import Any, Optional

from redrive.errors import RedriveError, ServerError, UnreachableError
from redrive.policy import RetryPolicy
from redrive.queue._limits import dump
from redrive.queue.client import Client, is_temporary
from redrive.queue.context import Context

logger = logging.getLogger("redrive")

_BATCH = 500
#: A batch that has so much is sent; with one more item it still is less than the 8 MiB that the server takes.
_BATCH_BYTES = 4 * 1024 * 1024
#: How long a claim is put off while jobs are ending, so that quick ones are claimed many at a time.
_GATHER_S = 0.005
#: Statuses of HTTP for what is wrong with an item itself.
_BAD_ITEM = (400, 413)
#: How long to wait before a request to a server that is away is repeated.
AWAY = RetryPolicy(initial_delay=0.1, multiplier=2, max_delay=5, min_delay=0.05, max_retries=100000, total_timeout=0)


class Held:
    """A job in hand."""

    def __init__(self, job: dict[str, Any], context: Context) -> None:
        self.id: str = job["id"]
        self.token: str = job["token"]
        self.context = context
        self.future: Optional[Future[Any]] = None
        #: Its end has been decided: what the function still says does not count.
        self.is_settled = False

    def cancel(self) -> None:
        """The server no longer waits for its end: a function sees ``context.cancelled``, a coroutine is cancelled."""
        self.context.cancelled = True
        if self.future is not None:
            self.future.cancel()


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
    """All jobs in hand. Two threads look after them: one settles, one renews leases."""

    def __init__(self, client: Client, lease: float) -> None:
        self._client = client
        self._lease = lease
        self._jobs: dict[str, Held] = {}
        #: Of the jobs in hand, those that have not ended.
        self._running = 0
        self._changed = threading.Condition()
        self._settlements: queue.SimpleQueue[Optional[_Settlement]] = queue.SimpleQueue()
        self._end = threading.Event()
        self._threads = [
            threading.Thread(target=self._settle_all, name="redrive-settle", daemon=True),
            threading.Thread(target=self._keep_leases, name="redrive-lease", daemon=True),
        ]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def close(self) -> None:
        """Says what is still to be said, and ends."""
        self._settlements.put(None)
        self._threads[0].join()
        self._end.set()
        self._threads[1].join()

    def add(self, held: Held) -> None:
        with self._changed:
            self._jobs[held.token] = held
            self._running += 1

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
            return self._running

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
        return max(0, min(limit - self._running, 2 * limit - len(self._jobs)))

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
            while is_open and len(batch) < _BATCH and size < _BATCH_BYTES and not self._settlements.empty():
                more = self._settlements.get()
                is_open = more is not None
                if more is not None:
                    batch.append(more)
                    size += len(more.data)
            if batch:
                self._settle(batch, time.monotonic() + self._lease * 2)
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
                return self._client.settle([settlement.data for settlement in batch])
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

    def _keep_leases(self) -> None:
        """Must not end before close(), as _settle_all."""
        while not self._end.wait(self._lease / 3):
            with self._changed:
                jobs = list(self._jobs.values())
            for start in range(0, len(jobs), _BATCH):
                batch = jobs[start : start + _BATCH]
                try:
                    self._extend(batch)
                except Exception as exc:
                    logger.warning("cannot_renew_leases jobs=%d error=%s", len(batch), exc)

    def _extend(self, jobs: list[Held]) -> None:
        lease = f"{int(self._lease * 1000)}ms"
        answers = self._client.extend([{"id": h.id, "token": h.token, "lease": lease} for h in jobs])
        for held, answer in zip(jobs, answers):
            if answer["status"] in (404, 409) and self._take_away(held):
                logger.warning("lease_lost job_id=%s state=%s", held.id, answer.get("state"))
                held.cancel()
                self._remove([held])

    def _take_away(self, held: Held) -> bool:
        """Whether the job was still to be settled; now it is not."""
        with self._changed:
            was_open = not held.is_settled
            held.is_settled = True
            self._running -= was_open
            self._changed.notify_all()
        return was_open
