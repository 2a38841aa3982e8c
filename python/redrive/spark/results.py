"""What a batch comes to, and the state of a queue."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from typing import Optional

from redrive.spark.breaker import SavedBreaker


@dataclass(frozen=True)
class BatchResult:
    """How a batch went. ``waiting`` and ``next_ready_time`` are those of the queue after it."""

    batch_id: int
    #: Records of this batch by where they came from. Records that were known already are not counted.
    new_records: int
    due_records: int
    #: And by where they went.
    succeeded: int
    retried: int
    dead: int
    #: Left waiting by an open breaker, without a call.
    held: int
    #: Dead letters that wait again. Only of ``redrive``.
    redriven: int
    waiting: int
    next_ready_time: Optional[dt.datetime]
    #: How long it took, until its row was written to the table of runs.
    seconds: float
    #: The number of a batch that another driver had left half done, and that was carried out first.
    recovered: Optional[int] = None
    #: Why files were not joined after this batch, which is done nevertheless. The next batch tries it again.
    maintenance_error: Optional[str] = None

    @property
    def duration(self) -> dt.timedelta:
        """``seconds`` as a timedelta."""
        return dt.timedelta(seconds=self.seconds)

    @property
    def success_rate(self) -> Optional[float]:
        """Of the records that ended, wait for a retry or are dead, the share that succeeded; None: there were none.

        Records that a breaker held back, and dead letters that wait again, are not among them.
        """
        processed = self.succeeded + self.retried + self.dead
        return self.succeeded / processed if processed else None


@dataclass(frozen=True)
class Status:
    """The state of a queue."""

    completed: int
    waiting: int
    dead: int
    average_retries: float
    next_ready_time: Optional[dt.datetime]
    #: The state of the breaker; None: the queue has none.
    breaker: Optional[str] = None


@dataclass(frozen=True)
class Batch:
    """A batch whose outcomes are written: its number, its time, and how many records ended how."""

    number: int
    token: str
    now_us: int
    #: (outcome, from_queue) to records
    counts: dict[tuple[str, Optional[bool]], int]
    #: What the breakers of its partitions said.
    breakers: tuple[SavedBreaker, ...]
    #: The runs of its partitions.
    runs: tuple[str, ...]
    #: Its new records are those whose ids were looked up. If not, nothing of the batch counts.
    is_of_one_read: bool = True

    def of(self, outcome: str) -> int:
        return sum(n for (name, _source), n in self.counts.items() if name == outcome)

    def source(self, from_queue: bool) -> int:
        return sum(n for (_outcome, source), n in self.counts.items() if source is from_queue)
