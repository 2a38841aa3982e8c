"""Leases of the jobs in hand: they are renewed in time, and their ends are noticed by the worker's own clock.

A connection can be dead without a sign of it: what is sent disappears, and no answer comes. So a renewal has a
time-out that is short beside the lease, and the next try follows at once on a new connection. The end of a lease
is computed from the moment at which its renewal was sent, which is before the server's own count began.
"""

from __future__ import annotations

import logging
import threading
import time
from typing import TYPE_CHECKING, Any, Callable, Optional

from redrive.errors import UnreachableError
from redrive.policy import RetryPolicy
from redrive.queue.client import Client

if TYPE_CHECKING:
    from redrive.queue._held import Held

logger = logging.getLogger("redrive")

BATCH = 500
#: How long to wait before a request to a server that is away is repeated.
AWAY = RetryPolicy(initial_delay=0.1, multiplier=2, max_delay=5, min_delay=0.05, max_retries=100000, total_timeout=0)
#: However long the lease: a renewal is a small request, and is made again without harm.
_RENEWAL_MAX_S = 10.0


class Leases:
    """Two threads: one renews, by a connection of its own, and one tells jobs that their lease is over.

    :param jobs: those whose leases are to be renewed.
    :param on_lost: called with a job that the server no longer leaves to this worker, and its state.
    :param on_over: called, once, with a job whose lease is over by the clock of this process.
    """

    def __init__(
        self,
        client: Client,
        lease: float,
        jobs: Callable[[], list[Held]],
        on_lost: Callable[[Held, Any], None],
        on_over: Callable[[Held], None],
    ) -> None:
        self._client = client
        self._lease = lease
        self._jobs = jobs
        self._on_lost = on_lost
        self._on_over = on_over
        self._end = threading.Event()
        self._failures = 0
        self._logged_at: Optional[float] = None
        self.threads = [
            threading.Thread(target=self._renew_all, name="redrive-lease", daemon=True),
            threading.Thread(target=self._watch_ends, name="redrive-lease-end", daemon=True),
        ]

    def start(self) -> None:
        for thread in self.threads:
            thread.start()

    def close(self) -> None:
        """To be called when no job is in hand. A renewal that is under way is not waited for: it changes nothing."""
        self._end.set()
        for thread in self.threads:
            thread.join(0.5)

    def renew(self, jobs: list[Held]) -> None:
        """One request, for up to BATCH jobs. Raises what keeps the server from answering."""
        lease = f"{int(self._lease * 1000)}ms"
        items = [{"id": held.id, "token": held.token, "lease": lease} for held in jobs]
        sent = time.monotonic()
        answers = self._client.extend(items, timeout=min(self._lease / 4, _RENEWAL_MAX_S))
        for held, answer in zip(jobs, answers):
            if answer["status"] in (404, 409):
                self._on_lost(held, answer.get("state"))
            elif answer["status"] == 200:
                held.lease_until = sent + self._lease

    def _renew_all(self) -> None:
        """Must not end before close(): jobs whose leases are not renewed run again."""
        while not self._end.wait(self._pause()):
            jobs = self._jobs()
            error: Optional[Exception] = None
            for start in range(0, len(jobs), BATCH):
                try:
                    self.renew(jobs[start : start + BATCH])
                except UnreachableError as exc:
                    error = exc
                    break  # the others would wait for the same time-out
                except Exception as exc:
                    error = exc
            self._failures = 0 if error is None else self._failures + 1
            if error is not None:
                self._log(len(jobs), error)

    def _pause(self) -> float:
        """After a failure the next try follows at once, then at a pace that leaves several for each lease."""
        if self._failures == 0:
            return self._lease / 3
        return 0 if self._failures == 1 else min(AWAY.delay(self._failures - 1), self._lease / 12)

    def _log(self, n_jobs: int, error: Exception) -> None:
        """Not every try: a server may be away for long."""
        now = time.monotonic()
        if self._logged_at is None or now - self._logged_at >= self._lease / 3:
            self._logged_at = now
            logger.warning("cannot_renew_leases jobs=%d error=%s", n_jobs, error)

    def _watch_ends(self) -> None:
        """Must not wait for the server: it would notice an end too late."""
        while not self._end.wait(self._tell_of_ends()):
            pass

    def _tell_of_ends(self) -> float:
        """Seconds until the next end; new jobs have at least three quarters of their lease when they are added."""
        now = time.monotonic()
        next_ = now + self._lease / 2
        for held in self._jobs():
            if held.is_settled or held.is_over:
                continue
            if held.lease_until <= now:
                self._on_over(held)
            else:
                next_ = min(next_, held.lease_until)
        return next_ - now
