"""The queue: a batch from its records to its tables.

How a batch is made safe. Delta commits one table at a time, and a driver may be killed between two commits:

1. The outcomes of all records of batch n are written to the table of outcomes, in one commit. This decides the
   batch: before it nothing has happened, after it the batch can be carried out by any driver. The commit carries
   the number n, so that of two drivers one succeeds; the other is refused before it has changed anything.
2. The three tables are written from the outcomes. Each write carries n, and Delta drops it if the table has
   seen n. A driver that comes back late can therefore change nothing.
3. A row in the table of runs says that batch n is done.

A driver that finds outcomes of a batch without its row in the table of runs carries out steps 2 and 3 first.
"""

from __future__ import annotations

import datetime as dt
import logging
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Optional, Union

from pyspark.serializers import CloudPickleSerializer
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from redrive.errors import InvalidArgumentError
from redrive.failure import Classifier
from redrive.spark import records, tables
from redrive.spark.config import RetryQueueConfig
from redrive.spark.errors import BatchConflictError, TableError, from_spark, is_conflict, not_picklable
from redrive.spark.tables import read
from redrive.spark.worker import DEAD, OUTPUT_SCHEMA, RETRY, SUCCESS, Partition, ProcessRecord, check_handler

log = logging.getLogger("redrive.spark")

_QUEUE_ID = "redrive.queue_id"


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
    waiting: int
    next_ready_time: Optional[dt.datetime]
    seconds: float
    #: The number of a batch that another driver had left half done, and that was carried out first.
    recovered: Optional[int] = None


@dataclass(frozen=True)
class Status:
    """The state of a queue."""

    completed: int
    waiting: int
    dead: int
    average_retries: float
    next_ready_time: Optional[dt.datetime]


@dataclass(frozen=True)
class _Batch:
    """A batch whose outcomes are written: its number, its time, and how many records ended how."""

    number: int
    token: str
    now_us: int
    #: (outcome, from_queue) to records
    counts: dict[tuple[str, bool], int]

    def of(self, outcome: str) -> int:
        return self.counts.get((outcome, True), 0) + self.counts.get((outcome, False), 0)

    def source(self, from_queue: bool) -> int:
        return sum(n for (_outcome, source), n in self.counts.items() if source is from_queue)


class RetryQueue:
    """A retry queue in Delta tables.

    Several drivers may share one; of two batches that run at the same time one is refused.
    """

    def __init__(self, spark: SparkSession, config: RetryQueueConfig) -> None:
        self.spark = spark
        self.config = config
        self._policy = config.retry_policy()
        self._classifier = Classifier(config.classify)
        self._app_id = ""
        #: Number and token of the last batch that this object has carried out.
        self._last_done: Optional[tuple[int, str]] = None
        self._session: Optional[SparkSession] = None
        #: Called with the name of each write when it is done. For tests.
        self._after_write: Callable[[str], None] = lambda name: None

    # ---- For callers ------------------------------------------------------------------------------

    def initialize_tables(self) -> None:
        """Makes the tables that are missing, and checks the columns of the others. Every batch does it if need be."""
        config = self.config
        tables.create(self.spark, config.retry_table_path, tables.RETRY_QUEUE)
        tables.create(self.spark, config.final_table_path, tables.FINAL_RESULTS)
        tables.create(self.spark, config.dlq_table_path, tables.DEAD_LETTER_QUEUE)
        tables.create(self.spark, config.outcomes_table, tables.OUTCOMES)
        # The id of the queue is not made of a path: a queue whose state was removed starts its numbers again, and
        # they must not be taken for those of the old one.
        tables.create(self.spark, config.runs_table, tables.RUNS, {_QUEUE_ID: uuid.uuid4().hex})
        queue_id = tables.property_of(self.spark, config.runs_table, _QUEUE_ID)
        if queue_id is None:
            raise TableError(f"{config.runs_table} has no property {_QUEUE_ID}", hint="was it made by something else?")
        self._app_id = f"redrive-{queue_id}"

    def process_batch(
        self,
        new_records: Optional[DataFrame],
        process_record: ProcessRecord,
        *,
        setup: Optional[Callable[[], Any]] = None,
        now: Optional[dt.datetime] = None,
    ) -> BatchResult:
        """Runs ``process_record`` over new records and over waiting ones that are due, and writes the tables.

        :param new_records: has the columns ``sample_id`` and ``payload``; None: only those that are due. A record whose
            id is known (it waits, has succeeded or is dead) is left out, so a batch can be given again.
        :param process_record: called on executors with a dict of ``sample_id``, ``payload``, ``error_msg`` and
            ``retry_count``. It returns a status, or a status and a message: SUCCESS, TRANSIENT_FAIL, PERMANENT_FAIL or
            a failure class. An exception is classified.
        :param setup: called once for each partition; its value is the second argument of ``process_record``, and is
            closed at the end if it has ``close``.
        :param now: the time of the batch, with a time zone; without it, the clock's.
        """
        started = time.monotonic()
        now_us = _microseconds(now)
        check_handler(process_record, setup)
        partition = Partition(process_record, setup, self._policy, self._classifier, now_us)
        _check_picklable(partition)
        if new_records is not None:
            records.check(new_records)
        if not self._app_id:
            self.initialize_tables()
        last, recovered = self._catch_up()
        batch = self._decide_batch(last + 1, new_records, partition)
        return self._carry_out(batch, started, recovered)

    def foreach_batch(
        self,
        process_record: ProcessRecord,
        *,
        setup: Optional[Callable[[], Any]] = None,
        clock: Optional[Callable[[], dt.datetime]] = None,
    ) -> Callable[[DataFrame, int], None]:
        """For Structured Streaming: ``stream.writeStream.foreachBatch(queue.foreach_batch(process_record))``."""

        def run(micro_batch: DataFrame, _number: int) -> None:
            self.process_batch(micro_batch, process_record, setup=setup, now=clock() if clock else None)

        return run

    def status(self) -> Status:
        """Counts of the three tables, and when the next record is due."""
        waiting = read(self.spark, self.config.retry_table_path).agg(
            F.count("*"), F.avg("retry_count"), F.unix_micros(F.min("process_after"))
        )
        n, average, next_us = waiting.collect()[0]
        completed = read(self.spark, self.config.final_table_path).count()
        dead = read(self.spark, self.config.dlq_table_path).count()
        return Status(completed, n, dead, average or 0.0, _datetime(next_us))

    def alerts(self, *, dead: int = 100, waiting: int = 1000) -> list[str]:
        """A sentence for each limit that is exceeded."""
        status = self.status()
        said = []
        if status.dead > dead:
            said.append(f"{status.dead} dead letters (limit {dead}): review {self.config.dlq_table_path}")
        if status.waiting > waiting:
            said.append(f"{status.waiting} records wait for a retry (limit {waiting}), next {status.next_ready_time}")
        return said

    def maintain(self, *, vacuum_hours: Optional[float] = None) -> None:
        """Joins small files. With ``vacuum_hours`` files that no version of the last hours needs are removed."""
        config = self.config
        for table in (config.retry_table_path, config.final_table_path, config.dlq_table_path, config.runs_table):
            tables.delta_table(self.spark, table).optimize().executeCompaction()
        if vacuum_hours is not None:
            for table in (config.retry_table_path, config.final_table_path, config.dlq_table_path):
                tables.delta_table(self.spark, table).vacuum(vacuum_hours)
            tables.delta_table(self.spark, config.outcomes_table).vacuum(vacuum_hours)

    # ---- One batch --------------------------------------------------------------------------------

    def _catch_up(self) -> tuple[int, Optional[int]]:
        """The number of the last batch that is done; a batch that was left half done is carried out first."""
        outcomes = read(self.spark, self.config.outcomes_table).where(F.col("outcome") == records.BATCH)
        heads = [tuple(row) for row in outcomes.select("batch_id", "token").collect()]
        if heads and heads[0] == self._last_done:
            return self._last_done[0], None
        done = read(self.spark, self.config.runs_table).agg(F.max("batch_id")).collect()[0][0] or 0
        if not heads or heads[0][0] <= done:
            return done, None
        batch = self._read_batch()
        assert batch is not None
        log.warning("batch_recovered", extra={"batch_id": batch.number})
        self._carry_out(batch, time.monotonic(), None)
        return batch.number, batch.number

    def _read_batch(self) -> Optional[_Batch]:
        """The batch whose outcomes are in the table of outcomes."""
        rows = (
            read(self.spark, self.config.outcomes_table)
            .groupBy("batch_id", "token", "outcome", "from_queue")
            .agg(F.count("*").alias("n"), F.max("created_us").alias("now_us"))
            .collect()
        )
        head = next((row for row in rows if row["outcome"] == records.BATCH), None)
        if head is None:
            return None
        counts = {(row["outcome"], row["from_queue"]): row["n"] for row in rows if row is not head}
        return _Batch(head["batch_id"], head["token"], head["now_us"], counts)

    def _decide_batch(self, number: int, new_records: Optional[DataFrame], partition: Partition) -> _Batch:
        """Processes the records and writes their outcomes: step 1."""
        token = uuid.uuid4().hex
        with self._errors():
            spark = self.spark if new_records is None else new_records.sparkSession
            source = records.of_batch(spark, self.config, new_records, partition.now_us)
            outcomes = source.mapInArrow(partition.run, OUTPUT_SCHEMA)
            head = records.head_row(spark, partition.now_us)
            rows = outcomes.unionByName(head, allowMissingColumns=True)
            rows = rows.withColumn("batch_id", F.lit(number).cast("long")).withColumn("token", F.lit(token))
            tables.write(rows, self.config.outcomes_table, "overwrite", self._app_id, number)
        batch = self._read_batch()
        if batch is None or batch.token != token:
            self._lost(number)
        assert batch is not None
        self._after_write("outcomes")
        return batch

    @contextmanager
    def _errors(self) -> Iterator[None]:
        """Errors of Spark in the words of this package, where they are known."""
        try:
            yield
        except Exception as exc:
            if is_conflict(exc):
                self._lost(None, exc)
            known = from_spark(exc)
            if known is None:
                raise
            raise known from exc

    def _lost(self, number: Optional[int], cause: Optional[BaseException] = None) -> None:
        raise BatchConflictError(
            "another driver ran a batch of this queue at the same time",
            detail="" if number is None else f"batch {number} is its",
            hint="nothing of this batch was written; give its records again. One scheduled run at a time avoids it "
            "(Airflow: max_active_runs=1)",
        ) from cause

    def _carry_out(self, batch: _Batch, started: float, recovered: Optional[int]) -> BatchResult:
        """Writes the tables from the outcomes: steps 2 and 3."""
        outcomes = read(self.spark, self.config.outcomes_table).where(F.col("batch_id") == batch.number)
        with self._errors():
            self._append(batch, records.final_rows(outcomes, batch.now_us), SUCCESS, self.config.final_table_path)
            self._append(batch, records.dead_rows(outcomes, batch.now_us), DEAD, self.config.dlq_table_path)
            if batch.of(RETRY) or batch.source(True):
                self._merge_waiting(batch)
            waiting, next_us = self._waiting()
            result = BatchResult(
                batch.number,
                batch.source(False),
                batch.source(True),
                batch.of(SUCCESS),
                batch.of(RETRY),
                batch.of(DEAD),
                waiting,
                _datetime(next_us),
                round(time.monotonic() - started, 3),
                recovered,
            )
            row = records.run_row(self.spark, batch.token, batch.now_us, next_us, result)
            tables.write(row, self.config.runs_table, "append", self._app_id, batch.number)
        self._last_done = (batch.number, batch.token)
        self._after_write("runs")
        log.info("batch_done", extra=dict(vars(result)))
        every = self.config.compact_every_batches
        if every and batch.number % every == 0:
            self.maintain()
        return result

    def _append(self, batch: _Batch, rows: DataFrame, outcome: str, table: str) -> None:
        n = batch.of(outcome)
        if n:
            rows = rows.where(F.col("outcome") == outcome).drop("outcome").coalesce(self._files(n))
            tables.write(rows, table, "append", self._app_id, batch.number)
            self._after_write(outcome)

    def _files(self, n: int) -> int:
        return -(-n // self.config.rows_per_file)

    def _merge_waiting(self, batch: _Batch) -> None:
        """Brings the retry queue up to date: records that ended leave it, those that failed wait in it."""
        session = self._merge_session()
        session.conf.set("spark.databricks.delta.write.txnAppId", self._app_id)
        session.conf.set("spark.databricks.delta.write.txnVersion", str(batch.number))
        outcomes = read(session, self.config.outcomes_table).where(F.col("batch_id") == batch.number)
        n = batch.of(RETRY) + batch.source(True)
        rows = records.waiting_rows(outcomes, batch.now_us).coalesce(self._files(n))
        # Records of the batch that wait were due: files with later times are not read.
        same = f"t.sample_id = s.sample_id AND t.process_after <= timestamp_micros({batch.now_us})"
        columns: dict[str, Union[str, Column]] = {name: f"s.{name}" for name in tables.RETRY_QUEUE.names}
        kept = {name: value for name, value in columns.items() if name not in ("sample_id", "payload", "created_at")}
        (
            tables.delta_table(session, self.config.retry_table_path)
            .alias("t")
            .merge(rows.alias("s"), same)
            .whenMatchedUpdate(f"s.outcome = '{RETRY}'", kept)
            .whenMatchedDelete()
            .whenNotMatchedInsert(f"s.outcome = '{RETRY}'", columns)
            .execute()
        )
        self._after_write("waiting")

    def _merge_session(self) -> SparkSession:
        """A session for MERGE, which takes the number of the batch from the session's settings only.

        In the caller's session another thread's writes would take it, too.
        """
        if self._session is None:
            session = self.spark.newSession()
            for row in self.spark.sql("SET").select("key").collect():
                if session.conf.isModifiable(row["key"]):
                    session.conf.set(row["key"], str(self.spark.conf.get(row["key"])))
            self._session = session
        return self._session

    def _waiting(self) -> tuple[int, Optional[int]]:
        table = read(self.spark, self.config.retry_table_path)
        n, next_us = table.agg(F.count("*"), F.unix_micros(F.min("process_after"))).collect()[0]
        return n, next_us


def _microseconds(now: Optional[dt.datetime]) -> int:
    if now is None:
        return time.time_ns() // 1000
    if not isinstance(now, dt.datetime) or now.tzinfo is None:
        raise InvalidArgumentError(
            f"now: {now!r} is not a time with a time zone", hint="datetime.now(timezone.utc), for example"
        )
    return (now - _EPOCH) // dt.timedelta(microseconds=1)


_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.timezone.utc)


def _datetime(us: Optional[int]) -> Optional[dt.datetime]:
    return None if us is None else _EPOCH + dt.timedelta(microseconds=us)


def _check_picklable(partition: Partition) -> None:
    try:
        CloudPickleSerializer().dumps(partition)  # type: ignore[no-untyped-call, unused-ignore]
    except Exception as exc:
        raise not_picklable(exc) from exc
