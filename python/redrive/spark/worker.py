"""What runs on an executor: ``process_record`` for each record, and the decision about those that fail.

A partition arrives as Arrow batches and leaves as Arrow batches: memory is bounded by
spark.sql.execution.arrow.maxRecordsPerBatch, and columns that do not change are passed on as they are. Records with
the same id follow each other; the first of them counts. At its end a partition reports what it has done, in a row.
"""

from __future__ import annotations

import inspect
import json
import time
import uuid
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from typing import Any, Callable, Optional, Union

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from redrive.breaker import BreakerConfig
from redrive.decision import decide
from redrive.errors import InvalidArgumentError
from redrive.failure import MESSAGE_MAX, Classifier, Facts, type_name
from redrive.policy import RetryPolicy
from redrive.spark.breaker import PartitionBreaker, SavedBreaker
from redrive.spark.errors import HandlerFault
from redrive.spark.ids import NO_IDS, Fingerprint
from redrive.vocabulary import CLASSES, JITTERS

#: A status, or a status and a message. With SUCCESS the message is the result.
Answer = Union[str, tuple[str, Optional[str]], Facts]
ProcessRecord = Callable[..., Answer]

SUCCESS = "success"
RETRY = "retry"
DEAD = "dead"
#: It was not called, because the breaker is open; no attempt is used.
HELD = "held"
#: Not of a record: what a partition says at its end, see Report.
PARTITION = "partition"

_STATUSES = frozenset(("SUCCESS", "TRANSIENT_FAIL", "PERMANENT_FAIL", *CLASSES[1:]))
#: The program is at fault, not the record.
_FAULTS = (ImportError, NameError, SyntaxError)

#: What a partition is given, and what it gives back.
INPUT_COLUMNS = (
    "sample_id",
    "payload",
    "error_msg",
    "retry_count",
    "due_us",
    "created_us",
    "from_queue",
    "fault",
    "hash",
)
OUTPUT_SCHEMA = (
    "outcome string, sample_id string, payload string, message string, retry_count int, due_us bigint, "
    "created_us bigint, from_queue boolean, error_type string, error_class string, reason string, run string"
)
_ARROW = {"string": pa.string(), "int": pa.int32(), "bigint": pa.int64(), "boolean": pa.bool_()}
_OUTPUT = pa.schema([(name, _ARROW[kind]) for name, kind in (word.split() for word in OUTPUT_SCHEMA.split(", "))])
_OUTCOMES = (SUCCESS, RETRY, DEAD, HELD)
_CODES = {name: i for i, name in enumerate(_OUTCOMES)}
#: How many decisions a partition remembers.
_DECISIONS_MAX = 1000
#: outcome, message, retry_count, due_us, error_type, error_class, reason
Outcome = tuple[str, Optional[str], int, Optional[int], Optional[str], Optional[str], Optional[str]]


def check_handler(process_record: Any, setup: Any) -> None:
    """Refuses what cannot be called with a record, before anything runs."""
    checks: list[tuple[str, Any, tuple[Any, ...]]] = [
        ("process_record", process_record, ({},) if setup is None else ({}, None)),
        ("setup", setup, ()),
    ]
    for what, function, arguments in checks:
        if function is None and what == "setup":
            continue
        if not callable(function):
            raise InvalidArgumentError(f"{what} is not a function", detail=repr(function)[:100])
        if inspect.iscoroutinefunction(function):
            raise InvalidArgumentError(f"{what} is a coroutine function", hint="wrap it: asyncio.run(…) in a function")
        try:
            inspect.signature(function).bind(*arguments)
        except TypeError as exc:
            hint = "process_record(record), or process_record(record, resource) with setup="
            raise InvalidArgumentError(f"{what} cannot be called", detail=str(exc), hint=hint) from None
        except ValueError:  # written in C: no signature to look at
            continue


@dataclass(frozen=True)
class Report:
    """What a run of a partition has done. Each run has an id: one that is repeated may come to other outcomes."""

    run: str
    #: (outcome, from_queue) to records
    counts: dict[tuple[str, bool], int]
    breaker: Optional[SavedBreaker] = None
    #: Of the new records.
    ids: Fingerprint = NO_IDS

    def to_json(self) -> str:
        counts = [[*key, n] for key, n in self.counts.items()]
        breaker = self.breaker and asdict(self.breaker)
        return json.dumps({"run": self.run, "counts": counts, "breaker": breaker, "ids": self.ids})

    @classmethod
    def from_json(cls, text: str) -> Report:
        found = json.loads(text)
        counts = {(outcome, from_queue): n for outcome, from_queue, n in found["counts"]}
        breaker = found["breaker"] and SavedBreaker(**found["breaker"])
        return cls(found["run"], counts, breaker, Fingerprint(*found.get("ids", ())))


class Partition:
    """All that an executor needs. It is pickled; ``run`` is called once for each partition."""

    def __init__(
        self,
        process_record: ProcessRecord,
        setup: Optional[Callable[[], Any]],
        policy: RetryPolicy,
        classifier: Classifier,
        now_us: int,
    ) -> None:
        self.process_record = process_record
        self.setup = setup
        self.policy = policy
        self.classifier = classifier
        self.now_us = now_us
        self.breaker: Optional[tuple[BreakerConfig, SavedBreaker]] = None
        #: The breaker is open: no record is called, and all wait until then.
        self.held_until_us: Optional[int] = None
        #: What was decided for a number of retries, a status and a message, if nothing else counts; else None.
        self._decided: Optional[dict[tuple[int, str, Optional[str]], tuple[Outcome, str]]] = None
        if _is_same_for_all_records(policy):
            self._decided = {}

    def guard(self, config: BreakerConfig, saved: SavedBreaker) -> None:
        """Puts a breaker before the calls."""
        self.breaker = (config, saved)
        self.held_until_us = saved.held_until(self.now_us)

    def run(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        is_guarded = self.breaker is not None and self.held_until_us is None
        breaker = PartitionBreaker(*self.breaker, self.now_us) if self.breaker and is_guarded else None
        run, counts, ids = uuid.uuid4().hex, Counter[tuple[str, bool]](), NO_IDS
        resource: Any = None
        arguments: tuple[Any, ...] = ()
        opened = False
        try:
            for batch in _without_repeated_ids(batches):
                if not opened and self.setup is not None and self.held_until_us is None:
                    resource = self._set_up()
                    arguments = (resource,)
                opened = True
                ids = ids.plus(_hashes_of_new(batch))
                yield self._run_batch(batch, arguments, breaker, run, counts)
        finally:
            if hasattr(resource, "close"):
                resource.close()
        state = breaker.state() if breaker is not None and breaker.was_asked else None
        values = {"outcome": PARTITION, "message": Report(run, dict(counts), state, ids).to_json(), "run": run}
        yield pa.RecordBatch.from_arrays([pa.array([values.get(f.name)], f.type) for f in _OUTPUT], schema=_OUTPUT)

    def _set_up(self) -> Any:
        assert self.setup is not None
        try:
            return self.setup()
        except Exception as exc:
            hint = "no record was processed; run the batch again when what it opens can be reached"
            raise HandlerFault(f"setup failed: {type_name(type(exc))}: {exc}", hint) from exc

    def _run_batch(
        self,
        batch: pa.RecordBatch,
        arguments: tuple[Any, ...],
        breaker: Optional[PartitionBreaker],
        run: str,
        counts: Counter[tuple[str, bool]],
    ) -> pa.RecordBatch:
        columns = {name: batch.column(i) for i, name in enumerate(INPUT_COLUMNS)}
        # By way of numpy it takes half the time of to_pylist().
        lists = [columns[name].to_numpy(zero_copy_only=False).tolist() for name in INPUT_COLUMNS[:4]]
        if breaker is None and self.held_until_us is None and self._are_all_due(columns):
            messages, others = self._call_all(lists, arguments)
        else:
            due, faults = (columns[name].to_numpy(zero_copy_only=False).tolist() for name in ("due_us", "fault"))
            outcomes = [self._one(arguments, breaker, *cells) for cells in zip(*lists, due, faults)]
            messages = [outcome[1] for outcome in outcomes]
            others = {i: outcome for i, outcome in enumerate(outcomes) if outcome[0] != SUCCESS}
        n = batch.num_rows
        codes = np.zeros(n, np.int8)
        codes[list(others)] = [_CODES[outcome[0]] for outcome in others.values()]
        _count(codes, columns["from_queue"], counts)
        arrays = [pa.DictionaryArray.from_arrays(codes, pa.array(_OUTCOMES)).dictionary_decode()]
        arrays += [columns["sample_id"], columns["payload"], _text(messages)]
        arrays += [_changed(columns["retry_count"], others, 2), _of_others(n, others, 3, pa.int64())]
        arrays += [columns["created_us"], columns["from_queue"]]
        arrays += [_of_others(n, others, place, pa.string()) for place in (4, 5, 6)]
        arrays.append(pa.array([run], pa.string()).take(pa.array(np.zeros(n, np.int8))))
        return pa.RecordBatch.from_arrays(arrays, names=_OUTPUT.names)

    def _are_all_due(self, columns: dict[str, pa.Array]) -> bool:
        """Whether every record can be called."""
        fault = columns["fault"]
        return bool(fault.null_count == len(fault) and pc.max(columns["due_us"]).as_py() <= self.now_us)

    def _call_all(
        self, lists: list[list[Any]], arguments: tuple[Any, ...]
    ) -> tuple[list[Optional[str]], dict[int, Outcome]]:
        """Messages of all records, and what became of those that did not succeed, by their place."""
        messages: list[Optional[str]] = []
        others: dict[int, Outcome] = {}
        for sample_id, payload, error_msg, retry_count in zip(*lists):
            record = {"sample_id": sample_id, "payload": payload, "error_msg": error_msg, "retry_count": retry_count}
            outcome, _word = self._call(record, arguments)
            if outcome[0] != SUCCESS:
                others[len(messages)] = outcome
            messages.append(outcome[1])
        return messages, others

    def _one(
        self,
        arguments: tuple[Any, ...],
        breaker: Optional[PartitionBreaker],
        sample_id: str,
        payload: Optional[str],
        error_msg: Optional[str],
        retry_count: int,
        due_us: int,
        fault: Optional[str],
    ) -> Outcome:
        if fault is not None:
            return DEAD, fault, retry_count, None, None, "validation", "not_retriable"
        if due_us > self.now_us:
            return RETRY, error_msg, retry_count, due_us, None, None, None
        if self.held_until_us is not None:
            return HELD, error_msg, retry_count, self.held_until_us, None, None, None
        record = {"sample_id": sample_id, "payload": payload, "error_msg": error_msg, "retry_count": retry_count}
        if breaker is None:
            return self._call(record, arguments)[0]
        permit = breaker.allow()
        if permit is None:
            return HELD, error_msg, retry_count, breaker.next_probe_us(), None, None, None
        began = time.monotonic()
        outcome, word = self._call(record, arguments)
        breaker.record(permit, word, time.monotonic() - began)
        return outcome

    def _call(self, record: dict[str, Any], arguments: tuple[Any, ...]) -> tuple[Outcome, str]:
        """What became of the record, and what the breaker is told."""
        sample_id, retry_count = record["sample_id"], record["retry_count"]
        try:
            answer = self.process_record(record, *arguments)
        except _FAULTS as exc:
            hint = "mend the function, and run the batch again: no record was charged"
            raise HandlerFault(f"process_record cannot run: {type(exc).__name__}: {exc}", hint) from exc
        except Exception as exc:
            return self._decide(sample_id, retry_count, exc, f"{type(exc).__name__}: {exc}", type_name(type(exc)))
        if isinstance(answer, Facts):
            return self._decide(sample_id, retry_count, answer, answer.message, answer.error_type)
        status, message = answer if type(answer) is tuple and len(answer) == 2 else (answer, None)
        if type(status) is not str or status not in _STATUSES or (message is not None and type(message) is not str):
            status, message = _status_of(answer)
        if status == "SUCCESS":
            return (SUCCESS, message, retry_count, None, None, None, None), "success"
        return self._decide_status(sample_id, retry_count, status, message)

    def _decide_status(
        self, sample_id: str, retry_count: int, status: str, message: Optional[str]
    ) -> tuple[Outcome, str]:
        known = self._decided
        key = (retry_count, status, message)
        decided = None if known is None else known.get(key)
        if decided is None:
            decided = self._decide(sample_id, retry_count, Facts(status=status, message=message), message, None)
            if known is not None and len(known) < _DECISIONS_MAX:
                known[key] = decided
        return decided

    def _decide(
        self,
        sample_id: str,
        retry_count: int,
        failure: Union[BaseException, Facts],
        message: Optional[str],
        error_type: Optional[str],
    ) -> tuple[Outcome, str]:
        decision = decide(self.policy, retry_count + 1, failure, classifier=self.classifier, job_id=_job_id(sample_id))
        message = _clean(message)
        class_ = decision.failure_class
        if decision.state == "completed":
            return (SUCCESS, message, retry_count, None, None, None, None), decision.breaker
        if decision.state == "retrying":
            due_us = self.now_us + round(decision.delay * 1e6)
            return (RETRY, message, retry_count + 1, due_us, error_type, class_, None), decision.breaker
        return (DEAD, message, retry_count, None, error_type, class_, decision.reason), decision.breaker


def _without_repeated_ids(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Leaves out a record that has the id of the one before it."""
    last: Any = None
    for batch in batches:
        if batch.num_rows == 0:
            continue
        ids = batch.column(0)
        is_first = pa.array([last is None or ids[0].as_py() != last])
        if len(ids) > 1:
            is_first = pa.concat_arrays([is_first, pc.not_equal(ids[1:], ids[:-1])])
        last = ids[len(ids) - 1].as_py()
        kept = batch.filter(is_first)
        if kept.num_rows > 0:
            yield kept


def _hashes_of_new(batch: pa.RecordBatch) -> npt.NDArray[np.int64]:
    from_queue, hashes = (batch.column(INPUT_COLUMNS.index(name)) for name in ("from_queue", "hash"))
    of_new: npt.NDArray[np.int64] = hashes.to_numpy(zero_copy_only=False)[~from_queue.to_numpy(zero_copy_only=False)]
    return of_new


def _is_same_for_all_records(policy: RetryPolicy) -> bool:
    """Whether what it decides depends on the failure and the number of retries alone."""
    is_exact = policy.native.backoff.jitter.mode == JITTERS.index("none")
    return is_exact and not policy.on and not callable(policy.strategy)


def _count(codes: npt.NDArray[np.int8], from_queue: pa.Array, counts: Counter[tuple[str, bool]]) -> None:
    pairs = 2 * codes + from_queue.to_numpy(zero_copy_only=False)
    for pair, n in enumerate(np.bincount(pairs)):
        if n:
            counts[_OUTCOMES[pair // 2], bool(pair % 2)] += int(n)


def _changed(values: pa.Array, others: dict[int, Outcome], place: int) -> pa.Array:
    """A column of numbers in which those of the given outcomes take the place of what was there."""
    if not others:
        return values
    changed = values.to_numpy().copy()
    changed[list(others)] = [outcome[place] for outcome in others.values()]
    return pa.array(changed, values.type)


def _of_others(n: int, others: dict[int, Outcome], place: int, kind: pa.DataType) -> pa.Array:
    """A column that only records which did not succeed have."""
    if not others:
        return pa.nulls(n, kind)
    values: list[Any] = [None] * n
    for i, outcome in others.items():
        values[i] = outcome[place]
    return pa.array(values, kind)


def _text(values: list[Optional[str]]) -> pa.Array:
    try:
        return pa.array(values, pa.string())
    except UnicodeEncodeError:  # halves of characters, in a result
        return pa.array([value and value.encode("utf-8", "replace").decode() for value in values], pa.string())


def _status_of(answer: Any) -> tuple[str, Optional[str]]:
    status, message = answer if isinstance(answer, tuple) and len(answer) == 2 else (answer, None)
    if not isinstance(status, str) or str(status) not in _STATUSES:
        shown = repr(answer)[:100]
        hint = f"return (status, message) with a status of {', '.join(sorted(_STATUSES))}; or raise an exception"
        raise HandlerFault(f"process_record returned {shown}", hint)
    if message is not None and not isinstance(message, str):
        hint = "the message, or the result of a success, is a string: json.dumps(…)"
        raise HandlerFault(f"process_record returned a message of type {type(message).__name__}", hint)
    return str(status), message


def _job_id(sample_id: str) -> str:
    return sample_id.replace("\0", "\ufffd")


def _clean(message: Optional[str]) -> Optional[str]:
    """What a column can hold: text of bounded length, without halves of characters."""
    return None if message is None else message[:MESSAGE_MAX].encode("utf-8", "replace").decode()
