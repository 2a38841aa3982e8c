"""The dead letters of a handler: list, group, show, edit, retry, remove.

The C handler keeps them, with their order, history, retention and fingerprints. Payloads and functions
are Python objects and stay here, under the id of the job.
"""

from __future__ import annotations

import builtins
import threading
import time
from collections.abc import Awaitable, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Callable, Optional, Union

from redrive._names import NamesChecked
from redrive._native import Seconds, encode, ffi, lib, milliseconds, new_handle, raise_pending, seconds, text
from redrive._steps import Work
from redrive.errors import BY_CODE, InvalidArgumentError, NotFoundError, RedriveError
from redrive.job import Job, JobResult
from redrive.policy import RetryPolicy
from redrive.vocabulary import CLASSES, REASONS, FailureClass, number

if TYPE_CHECKING:
    from redrive.handler import RetryHandler

Words = Union[str, Iterable[str], None]


@dataclass(frozen=True)
class AttemptInfo:
    """One attempt of a job that has died; times are seconds since 1970."""

    attempt: int
    started_at: float
    ended_at: float
    failure_class: str
    #: Seconds that were chosen after it.
    delay: float
    message: Optional[str]


@dataclass(frozen=True)
class DeadLetter:
    """A job that could not be done. Times are seconds since 1970."""

    id: str
    task: str
    payload: Any
    service: Optional[str]
    queue: Optional[str]
    user: Optional[str]
    project: Optional[str]
    priority: int
    reason: str
    failure_class: str
    error_type: Optional[str]
    message: Optional[str]
    stacktrace: Optional[str]
    attempts: int
    max_attempts: int
    #: How often it was run again.
    epoch: int
    failed_at: float
    #: Errors that look alike have the same one.
    fingerprint: int
    history: tuple[AttemptInfo, ...]

    @property
    def retry_count(self) -> int:
        """Retries that were made: attempts without the first one; 0 if it never ran."""
        return max(self.attempts - 1, 0)


@dataclass(frozen=True)
class DeadLetterGroup:
    """Dead letters whose errors look alike."""

    fingerprint: int
    count: int
    first_at: float
    last_at: float
    #: The latest of them.
    example: DeadLetter


@dataclass(frozen=True)
class DeadLetterStats:
    """How many there are."""

    total_jobs: int
    by_class: dict[str, int]
    by_reason: dict[str, int]
    #: Pushed out by ``max_dead_letters``.
    dropped: int


@dataclass(frozen=True)
class RetryAllResult:
    """How many dead letters matched, and how many of their jobs were completed."""

    matched: int
    completed: int


@dataclass(frozen=True)
class KeptWork:
    """What a letter needs for a retry."""

    job: Job
    work: Callable[..., Any]
    #: The job's own when it was submitted: C has a copy of it, which calls its strategy.
    policy: Optional[RetryPolicy]


def _bits(words: list[str], values: Words, what: str) -> int:
    if values is None:
        return 0
    return sum({1 << number(words, value, what) for value in ([values] if isinstance(values, str) else values)})


class _Filter(NamesChecked):
    """A struct redrive_dlq_filter and all that it points at."""

    def __init__(
        self,
        *,
        task: Optional[str] = None,
        service: Optional[str] = None,
        queue: Optional[str] = None,
        error_type: Optional[str] = None,
        text: Optional[str] = None,
        failure_class: Union[FailureClass, Words] = None,
        reason: Words = None,
        fingerprint: int = 0,
        failed_after: Optional[float] = None,
        failed_before: Optional[float] = None,
        limit: int = 0,
    ) -> None:
        self.struct = c = ffi.new("struct redrive_dlq_filter *")
        self._kept = []
        strings = {"task": task, "service": service, "queue": queue, "error_type": error_type, "text": text}
        for name, value in strings.items():
            if value is not None:
                data = ffi.new("char[]", encode(value, name))
                self._kept.append(data)
                setattr(c, name, data)
        c.classes = _bits(CLASSES, failure_class, "failure_class")
        c.reasons = _bits(REASONS, reason, "reason")
        c.fingerprint = fingerprint
        c.failed_after_ms = 0 if failed_after is None else int(failed_after * 1000)
        c.failed_before_ms = 0 if failed_before is None else int(failed_before * 1000)
        c.limit = limit


class DeadLetters:
    """``handler.dead_letters``. Filters are keywords: task, service, queue, error_type (a name or a glob), text,
    failure_class, reason, fingerprint, failed_after, failed_before, limit."""

    def __init__(self, handler: RetryHandler) -> None:
        self._handler = handler
        #: Of each letter that C has. Not held while C is called: its callbacks look here as well.
        self._lock = threading.Lock()
        self._work: dict[str, KeptWork] = {}

    # ---- What the handler keeps here: not for others, so without docstrings ----------------------

    # When a job has died.
    def keep(self, kept: KeptWork) -> None:
        with self._lock:
            self._work[kept.job.id] = kept
            n = len(self._work)
        if n > 2 * len(self) + 64:
            self._forget_gone()

    def find_work(self, id_: str) -> KeptWork:
        with self._lock:
            kept = self._work.get(id_)
        if kept is None:
            raise NotFoundError("no such dead letter", detail=f"id {id_}")
        return kept

    # When a job has ended otherwise. A letter that an earlier job with its id has left stays.
    def forget(self, id_: str) -> None:
        with self._lock:
            kept = self._work.get(id_)
        if kept is not None and not self._is_there(id_):
            with self._lock:
                if self._work.get(id_) is kept:  # another may have died meanwhile
                    del self._work[id_]

    def _forget_gone(self) -> None:
        """What C has dropped: expired, pushed out, purged."""
        with self._lock:
            ids = list(self._work)
        for id_ in ids:
            self.forget(id_)

    def _is_there(self, id_: str) -> bool:
        """Whether C has the letter, also while it is being retried."""
        handle = new_handle(lambda _entry: None)
        rc = lib.redrive_dlq_show(self._handler.native, encode(id_, "id"), lib.redrive_py_dead_letter, handle)
        return bool(rc != lib.REDRIVE_E_NOT_FOUND)

    # ---- Looking ---------------------------------------------------------------------------------

    def __len__(self) -> int:
        return self.stats().total_jobs

    def __iter__(self) -> Iterator[DeadLetter]:
        return iter(self.list())

    def list(self, **filters: Any) -> builtins.list[DeadLetter]:
        """Those that match, oldest first."""
        found: builtins.list[DeadLetter] = []
        chosen = _Filter(**filters)
        handle = new_handle(lambda entry: found.append(self._letter(entry)))
        self._check(lib.redrive_dlq_list(self._handler.native, chosen.struct, lib.redrive_py_dead_letter, handle))
        return found

    def get(self, id_: str) -> DeadLetter:
        """The one of a job; NotFoundError if there is none."""
        found: builtins.list[DeadLetter] = []
        handle = new_handle(lambda entry: found.append(self._letter(entry)))
        identity = encode(id_, "id")
        self._check(lib.redrive_dlq_show(self._handler.native, identity, lib.redrive_py_dead_letter, handle), id_)
        return found[0]

    def groups(self, **filters: Any) -> builtins.list[DeadLetterGroup]:
        """Errors that look alike once numbers, ids and quoted words are taken out; the largest first."""
        found: builtins.list[DeadLetterGroup] = []

        def add(c: Any) -> None:
            example = self._letter(ffi.addressof(c, "example"))
            found.append(DeadLetterGroup(c.fingerprint, c.count, seconds(c.first_ms), seconds(c.last_ms), example))

        chosen = _Filter(**filters)
        handle = new_handle(add)
        self._check(lib.redrive_dlq_groups(self._handler.native, chosen.struct, lib.redrive_py_group, handle))
        return found

    def stats(self) -> DeadLetterStats:
        """How many there are, by class and by reason."""
        c = ffi.new("struct redrive_dlq_stats *")
        lib.redrive_dlq_stats_get(self._handler.native, c)
        by_class = {name: c.by_class[i] for i, name in enumerate(CLASSES) if c.by_class[i]}
        by_reason = {name: c.by_reason[i] for i, name in enumerate(REASONS) if c.by_reason[i]}
        return DeadLetterStats(c.total_jobs, by_class, by_reason, c.dropped)

    # ---- Changing --------------------------------------------------------------------------------

    def edit(self, id_: str, payload: Any) -> None:
        """Another payload, for the next retry."""
        job = self.find_work(id_).job
        self._check(lib.redrive_dlq_edit(self._handler.native, encode(id_, "id"), b"", 0), id_)
        job.payload = payload

    def remove(self, id_: str) -> None:
        """Removes one for good."""
        self._check(lib.redrive_dlq_remove(self._handler.native, encode(id_, "id")), id_)
        self.forget(id_)

    def purge(self, older_than: Seconds = 0) -> int:
        """Removes what died at least so long ago, and says how many; 0 means all."""
        removed = ffi.new("size_t *")
        age_ms = milliseconds(older_than, "older_than")
        self._check(lib.redrive_dlq_purge(self._handler.native, age_ms, removed))
        self._forget_gone()
        return int(removed[0])

    def retry(self, id_: str, work: Optional[Work[Any]] = None) -> JobResult[Any]:
        """Runs it again, with fresh attempts, by the function that it was submitted with or another."""
        return self._handler.retry_dead(id_, work)

    async def retry_async(self, id_: str, work: Optional[Work[Awaitable[Any]]] = None) -> JobResult[Any]:
        """The same by a coroutine function."""
        return await self._handler.retry_dead_async(id_, work)

    def retry_all(
        self, *, rate: Optional[float] = None, dry_run: bool = False, work: Optional[Work[Any]] = None, **filters: Any
    ) -> RetryAllResult:
        """Retries every match, at most ``rate`` starts a second; with ``dry_run`` only counts them."""
        if rate is not None and not rate > 0:
            raise InvalidArgumentError("rate is not above 0", code="RANGE")
        matches = self.list(**filters)
        completed = 0
        next_start = time.monotonic()
        for letter in [] if dry_run else matches:
            time.sleep(max(0.0, next_start - time.monotonic()))
            next_start = max(next_start, time.monotonic()) + (1 / rate if rate else 0)
            completed += self.retry(letter.id, work).success
        return RetryAllResult(len(matches), completed)

    # ---- Inside ----------------------------------------------------------------------------------

    def _letter(self, c: Any) -> DeadLetter:
        id_ = text(c.id) or ""
        with self._lock:
            kept = self._work.get(id_)
        return DeadLetter(
            id_,
            text(c.task) or "",
            kept.job.payload if kept else None,
            text(c.service),
            text(c.queue),
            text(c.user),
            text(c.project),
            c.priority,
            REASONS[c.reason],
            CLASSES[c.class_],
            text(c.error_type),
            text(c.message),
            text(c.stacktrace),
            c.attempts,
            c.max_attempts,
            c.epoch,
            seconds(c.failed_at_ms),
            c.fingerprint,
            tuple(_attempt(c.history[i]) for i in range(c.n_history)),
        )

    @staticmethod
    def _check(rc: int, id_: Optional[str] = None) -> None:
        raise_pending()
        if rc == 0:
            return
        code = text(lib.redrive_err_name(rc)) or "INTERNAL"
        kind = BY_CODE.get(code, RedriveError)
        message = "no such dead letter" if code == "NOT_FOUND" else text(lib.redrive_err_text(rc)) or code
        raise kind(message, code=code, detail=f"id {id_}" if id_ else "")


def _attempt(c: Any) -> AttemptInfo:
    return AttemptInfo(
        c.attempt, seconds(c.started_ms), seconds(c.ended_ms), CLASSES[c.class_], seconds(c.delay_ms), text(c.message)
    )
