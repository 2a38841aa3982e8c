"""The jobs that a worker has in hand: their leases, and what is still to be said of them."""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections.abc import Iterable
from concurrent.futures import Future
from typing import Any, Optional

from redrive.errors import RedriveError, ServerError
from redrive.policy import RetryPolicy
from redrive.queue.client import Client, is_temporary
from redrive.queue.context import Context

logger = logging.getLogger("redrive")

_BATCH = 500
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
        """Nobody wants its end any more: a function sees ``context.cancelled``, a coroutine is cancelled."""
        self.context.cancelled = True
        if self.future is not None:
            self.future.cancel()


class HeldJobs:
    """All jobs in hand. Two threads look after them: one settles, one renews leases."""

    def __init__(self, client: Client, lease: float) -> None:
        self._client = client
        self._lease = lease
        self._jobs: dict[str, Held] = {}
        self._changed = threading.Condition()
        self._settlements: queue.SimpleQueue[Optional[tuple[Held, dict[str, Any]]]] = queue.SimpleQueue()
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

    def settle(self, held: Held, answer: dict[str, Any]) -> None:
        """How a job ended. The first word counts."""
        with self._changed:
            if held.is_settled:
                return
            held.is_settled = True
        self._settlements.put((held, answer))

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
            return sum(not held.is_settled for held in self._jobs.values())

    def wait_for_room(self, limit: int, timeout: float) -> int:
        """How many more may be taken; 0 if there was no room in time."""
        with self._changed:
            self._changed.wait_for(lambda: len(self._jobs) < limit, timeout)
            return max(0, limit - len(self._jobs))

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
        is_open = True
        while is_open:
            first = self._settlements.get()
            batch = [] if first is None else [first]
            is_open = first is not None
            while is_open and len(batch) < _BATCH and not self._settlements.empty():
                more = self._settlements.get()
                is_open = more is not None
                if more is not None:
                    batch.append(more)
            if batch:
                self._settle(batch)
                self._remove(held for held, _answer in batch)

    def _settle(self, batch: list[tuple[Held, dict[str, Any]]]) -> None:
        items = [{"id": held.id, "token": held.token, **answer} for held, answer in batch]
        attempt = 0
        until = time.monotonic() + self._lease * 2
        while True:
            try:
                answers = self._client.settle(items)
                break
            except RedriveError as exc:
                attempt += 1
                if is_temporary(exc) and time.monotonic() < until:
                    time.sleep(AWAY.delay(attempt))
                elif len(batch) > 1 and isinstance(exc, ServerError):
                    for one in batch:  # too large together, or one of them is wrong
                        self._settle([one])
                    return
                else:
                    self._settle_failed(batch, str(exc))
                    return
        for (held, _answer), answer in zip(batch, answers):
            if answer["status"] == 409:
                logger.warning("lease_lost job_id=%s state=%s", held.id, answer.get("state"))
            elif answer["status"] != 200:
                self._settle_failed([(held, {})], str(answer.get("detail") or answer.get("error")))

    def _settle_failed(self, batch: list[tuple[Held, dict[str, Any]]], why: str) -> None:
        """The server does not take it: the job is run again when its lease ends."""
        for held, _answer in batch:
            logger.error("cannot_settle job_id=%s error=%s", held.id, why)

    # ---- Leases ---------------------------------------------------------------------------------

    def _keep_leases(self) -> None:
        while not self._end.wait(self._lease / 3):
            with self._changed:
                jobs = list(self._jobs.values())
            for start in range(0, len(jobs), _BATCH):
                self._extend(jobs[start : start + _BATCH])

    def _extend(self, jobs: list[Held]) -> None:
        lease = f"{int(self._lease * 1000)}ms"
        try:
            answers = self._client.extend([{"id": h.id, "token": h.token, "lease": lease} for h in jobs])
        except RedriveError as exc:
            logger.warning("cannot_renew_leases jobs=%d error=%s", len(jobs), exc.message)
            return
        for held, answer in zip(jobs, answers):
            if answer["status"] in (404, 409) and not held.is_settled:
                logger.warning("lease_lost job_id=%s state=%s", held.id, answer.get("state"))
                held.is_settled = True
                held.cancel()
                self._remove([held])
