"""The queue: a batch from its records to its tables.

How a batch is made safe. Delta commits one table at a time, and a driver may be killed between two commits:

1. Records are processed, and kept by the executors. The outcomes of batch n, except for the results, are written to the
   table of outcomes. The commit carries the number n, so that of two drivers one has it; the other is refused.
2. The results are appended to their table, with the number n. This decides the batch: before it nothing has happened,
   after it the batch can be completed by any driver. A batch without results is decided by step 1.
3. Dead letters and the retry queue are written from the outcomes. Each write carries n, and Delta drops it if the table
   has seen n. A driver that comes back late can therefore change nothing.
4. A row in the table of runs says that batch n is done.

A driver that finds outcomes of a batch without its row in the table of runs looks for its results. If they are there,
it carries out steps 3 and 4 first. If not, it appends nothing to the results under the number n, so that a driver which
is slow, and not dead, cannot come to step 2 any more: its append is dropped or refused. Then the number is given up.

Ids of new records may have been looked up in a read of their own (ids.py). The batch then says in its outcomes which
records were meant and which were processed. If these differ it is never decided, by whichever driver.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import json
import logging
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial, reduce
from typing import Any, Optional, TypeVar, Union

from pyspark import StorageLevel, inheritable_thread_target
from pyspark.errors import AnalysisException
from pyspark.serializers import CloudPickleSerializer
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from redrive.errors import InvalidArgumentError
from redrive.failure import Classifier
from redrive.spark import breaker, records, tables
from redrive.spark.config import RetryQueueConfig
from redrive.spark.errors import BatchConflictError, TableError, from_spark, is_conflict, not_picklable
from redrive.spark.ids import NO_IDS, Fingerprint
from redrive.spark.results import Batch, BatchResult, Status
from redrive.spark.tables import read
from redrive.spark.worker import (
    DEAD,
    HELD,
    OUTPUT_SCHEMA,
    PARTITION,
    RETRY,
    SUCCESS,
    Partition,
    ProcessRecord,
    Report,
    check_handler,
)

log = logging.getLogger("redrive.spark")

_QUEUE_ID = "redrive.queue_id"
_T = TypeVar("_T")


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
        #: Files were not joined when they should have been: the next batch tries it again.
        self._is_compaction_due = False
        #: How many tables are written at a time. One: in the order of _writes().
        self._writers = 3
        #: Called with the name of each write when it is done. For tests.
        self._after_write: Callable[[str], None] = lambda name: None

    # ---- For callers ------------------------------------------------------------------------------

    def initialize_tables(self) -> None:
        """Makes the tables that are missing, and checks the columns of the others. Every batch does it if need be."""
        with tables.few_log_tasks(self.spark):
            self._make_tables()

    def _make_tables(self) -> bool:
        """Whether none of the tables was there before: then the queue has had no batch."""
        config = self.config
        wanted: list[tuple[Any, ...]] = [
            (config.retry_table_path, tables.RETRY_QUEUE, tables.RETRY_QUEUE_PROPERTIES),
            (config.final_table_path, tables.FINAL_RESULTS, tables.FINAL_RESULTS_PROPERTIES),
            (config.dlq_table_path, tables.DEAD_LETTER_QUEUE, tables.DEAD_LETTER_QUEUE_PROPERTIES),
            (config.outcomes_table, tables.OUTCOMES, tables.OUTCOMES_PROPERTIES),
            # The id of the queue is not made of a path: a queue whose state was removed starts its numbers again, and
            # they must not be taken for those of the old one.
            (config.runs_table, tables.RUNS, {_QUEUE_ID: uuid.uuid4().hex}, tables.RUNS_ADDED),
        ]
        if config.breaker is not None:
            wanted.append((config.breaker_table, tables.BREAKER))
        made = self._run_side_by_side([partial(tables.create, self.spark, *table) for table in wanted])
        queue_id = tables.property_of(self.spark, config.runs_table, _QUEUE_ID)
        if queue_id is None:
            raise TableError(f"{config.runs_table} has no property {_QUEUE_ID}", hint="was it made by something else?")
        self._app_id = f"redrive-{queue_id}"
        return all(made)

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
        with tables.few_log_tasks(self.spark, *([] if new_records is None else [new_records.sparkSession])):
            last, recovered, is_new = self._catch_up()
            if self.config.breaker is not None:
                partition.guard(self.config.breaker, self._saved_breaker())
            batch = self._decide_batch(last + 1, new_records, partition, is_new)
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

    def redrive(
        self,
        where: Union[str, Column, None] = None,
        *,
        ids: Optional[Iterable[str]] = None,
        all: bool = False,
        payload: Union[str, Column, None] = None,
        now: Optional[dt.datetime] = None,
    ) -> BatchResult:
        """Puts dead letters back into the retry queue: due at once, with all their retries.

        Which ones has to be said: one of ``where``, ``ids`` and ``all``.

        Of several dead letters with the same id (see ``known_ids_days``) that are chosen, the latest is put back, and
        older ones are dropped. If the id waits in the retry queue already, they stay where they are.

        :param where: a condition on the columns of the dead letters: ``"error_class = 'network'"``.
        :param ids: their ``sample_id``.
        :param all: True: every dead letter.
        :param payload: an expression for a new payload. Dead letters whose payload is null stay where they are.
        """
        started = time.monotonic()
        now_us = _microseconds(now)
        chosen = _choice(where, ids, all)
        with tables.few_log_tasks(self.spark):
            return self._redrive(chosen, payload, now_us, started)

    def _redrive(
        self, chosen: Union[str, Column, None], payload: Union[str, Column, None], now_us: int, started: float
    ) -> BatchResult:
        last, recovered, _is_new = self._catch_up()
        dead = read(self.spark, self.config.dlq_table_path)
        waiting = read(self.spark, self.config.retry_table_path)
        try:
            rows = records.redriven(dead if chosen is None else dead.where(chosen), waiting, now_us, payload)
        except AnalysisException as exc:
            raise InvalidArgumentError(
                "dead letters cannot be chosen by this",
                detail=str(exc).strip().splitlines()[0][:300],
                hint=f"where= and payload= are SQL over the columns {', '.join(dead.columns)}",
            ) from exc
        batch = self._write_outcomes(last + 1, rows, now_us)
        return self._carry_out(batch, started, recovered)

    def trip_breaker(self) -> None:
        """Holds all records back, until ``reset_breaker``. A batch that is running goes on."""
        self._set_breaker(breaker.SavedBreaker("forced_open"))

    def reset_breaker(self) -> None:
        """Closes the breaker."""
        self._set_breaker(breaker.SavedBreaker())

    def status(self) -> Status:
        """Counts of the three tables, and when the next record is due."""
        waiting = read(self.spark, self.config.retry_table_path).agg(
            F.count("*"), F.avg("retry_count"), F.unix_micros(F.min("process_after"))
        )
        n, average, next_us = waiting.collect()[0]
        completed = read(self.spark, self.config.final_table_path).count()
        dead = read(self.spark, self.config.dlq_table_path).count()
        state = None if self.config.breaker is None else self._saved_breaker().state
        return Status(completed, n, dead, average or 0.0, _datetime(next_us), state)

    def alerts(self, *, dead: int = 100, waiting: int = 1000) -> list[str]:
        """A sentence for each limit that is exceeded."""
        status = self.status()
        said = []
        if status.dead > dead:
            said.append(f"{status.dead} dead letters (limit {dead}): review {self.config.dlq_table_path}")
        if status.breaker in ("open", "forced_open"):
            said.append(f"the breaker is {status.breaker}: records wait, see {self.config.breaker_table}")
        if status.waiting > waiting:
            said.append(f"{status.waiting} records wait for a retry (limit {waiting}), next {status.next_ready_time}")
        return said

    def maintain(self, *, vacuum_hours: Optional[float] = None) -> None:
        """Joins small files. With ``vacuum_hours`` files that no version of the last hours needs are removed."""
        config = self.config
        self._compact()
        if vacuum_hours is not None:
            old = [config.retry_table_path, config.final_table_path, config.dlq_table_path, config.outcomes_table]
            old += [] if config.breaker is None else [config.breaker_table]
            for table in old:
                tables.delta_table(self.spark, table).vacuum(vacuum_hours)

    def _compact(self) -> None:
        """Joins the files of each table, also if that of another fails; then raises the first error.

        The runs come last: as long as they are many files, a new driver sees that there is something to do.
        """
        config = self.config
        errors = []
        for table in (config.retry_table_path, config.final_table_path, config.dlq_table_path):
            try:
                tables.delta_table(self.spark, table).optimize().executeCompaction()
            except Exception as exc:
                errors.append(exc)
        if errors:
            raise errors[0]
        tables.delta_table(self.spark, config.runs_table).optimize().executeCompaction()
        self._is_compaction_due = False

    def _compact_after(self, number: int) -> Optional[str]:
        """The batch is done: what fails here does not make it fail. Says why files were not joined."""
        every = self.config.compact_every_batches
        if not every or (number % every and not self._is_compaction_due):
            return None
        try:
            self._compact()
        except Exception as exc:
            self._is_compaction_due = True
            reason = tables.first_line(exc)
            log.warning("maintenance_failed", extra={"batch_id": number, "error": reason})
            return reason
        return None

    # ---- One batch --------------------------------------------------------------------------------

    def _catch_up(self) -> tuple[int, Optional[int], bool]:
        """The number of the last batch that is done; a batch that was left half done is carried out first.

        And whether this call has made all tables: they are empty. If another driver has begun a batch since, that one
        has the number 1, so that this batch is refused whatever it has found in them.
        """
        if not self._app_id and self._make_tables():
            return 0, None, True
        return (*self._last_done_or_completed(), False)

    def _last_done_or_completed(self) -> tuple[int, Optional[int]]:
        heads = self._heads()
        if heads and heads[0] == self._last_done:
            return self._last_done[0], None
        runs = read(self.spark, self.config.runs_table)
        done = runs.agg(F.max("batch_id")).collect()[0][0] or 0
        every = self.config.compact_every_batches
        if every and done >= every:
            # A batch adds a file. So many are left only if the last compaction has failed.
            self._is_compaction_due = len(runs.inputFiles()) >= every
        if not heads or heads[0][0] <= done:
            return done, None
        batch = self._read_batch()
        if not self._is_decided(batch) and not self._is_decided_before_fence(batch):
            log.warning("batch_abandoned", extra={"batch_id": batch.number})
            return batch.number, None
        log.warning("batch_recovered", extra={"batch_id": batch.number})
        self._carry_out(batch, time.monotonic(), None)
        return batch.number, batch.number

    def _heads(self) -> list[tuple[Any, ...]]:
        """Number and token of the batch whose outcomes are in the table of outcomes, if there was one."""
        if not self._app_id:
            self.initialize_tables()
        outcomes = read(self.spark, self.config.outcomes_table).where(F.col("outcome") == records.BATCH)
        return [tuple(row) for row in outcomes.select("batch_id", "token").collect()]

    def _read_batch(self) -> Batch:
        """The batch whose outcomes are in the table of outcomes."""
        outcomes = read(self.spark, self.config.outcomes_table)
        rows = outcomes.where(F.col("outcome").isin(records.BATCH, PARTITION)).collect()
        head = next(row for row in rows if row["outcome"] == records.BATCH)
        reports = [Report.from_json(row["message"]) for row in rows if row is not head]
        counts = Counter[tuple[str, Optional[bool]]]()
        for report in reports:
            counts.update(report.counts)
        if not reports:
            counts[records.REDRIVEN, None] = outcomes.where(F.col("outcome") == records.REDRIVEN).count()
        breakers = tuple(report.breaker for report in reports if report.breaker is not None)
        runs = tuple(report.run for report in reports)
        found = reduce(Fingerprint.joined, (report.ids for report in reports), NO_IDS)
        is_of_one_read = head["message"] is None or Fingerprint(*json.loads(head["message"])) == found
        return Batch(head["batch_id"], head["token"], head["created_us"], counts, breakers, runs, is_of_one_read)

    def _decide_batch(self, number: int, new_records: Optional[DataFrame], partition: Partition, is_new: bool) -> Batch:
        """Processes the records, and writes outcomes and results: steps 1 and 2."""
        with self._errors():
            new_ids = None if new_records is None else records.look_at_ids(self.config, new_records, partition.now_us)
        batch = self._process(number, new_records, partition, new_ids, is_new)
        if not batch.is_of_one_read:
            log.warning("batch_abandoned", extra={"batch_id": batch.number})
            batch = self._process(number + 1, new_records, partition, None)
        return batch

    def _process(
        self,
        number: int,
        new_records: Optional[DataFrame],
        partition: Partition,
        new_ids: Optional[Fingerprint],
        is_new: bool = False,
    ) -> Batch:
        with self._errors():
            spark = self.spark if new_records is None else new_records.sparkSession
            # Records that are due stay as they are while no call is let through.
            with_due = partition.held_until_us is None and not is_new
            source = records.of_batch(
                spark,
                self.config,
                new_records,
                partition.now_us,
                with_due=with_due,
                is_joined=new_ids is None,
                has_known=not is_new,
            )
            processed = source.mapInArrow(partition.run, OUTPUT_SCHEMA).persist(StorageLevel.MEMORY_AND_DISK)
        try:
            batch = self._write_outcomes(number, records.outcomes_of(processed), partition.now_us, new_ids)
            if batch.is_of_one_read and batch.of(SUCCESS):
                self._write_results(batch, processed)
        finally:
            processed.unpersist()
        return batch

    def _write_outcomes(
        self, number: int, outcomes: DataFrame, now_us: int, new_ids: Optional[Fingerprint] = None
    ) -> Batch:
        """The commit that takes the number, and decides a batch without results."""
        token = uuid.uuid4().hex
        with self._errors():
            head = records.head_row(outcomes.sparkSession, now_us, new_ids)
            rows = outcomes.unionByName(head, allowMissingColumns=True)
            rows = rows.withColumn("batch_id", F.lit(number).cast("long")).withColumn("token", F.lit(token))
            tables.write(rows, self.config.outcomes_table, "overwrite", self._app_id, number)
        batch = self._read_batch()
        if batch.token != token:
            self._lost(number)
        self._after_write("outcomes")
        return batch

    def _write_results(self, batch: Batch, processed: DataFrame) -> None:
        """The commit that decides a batch."""
        results = records.results_of(processed, list(batch.runs))
        rows = records.final_rows(results, batch.now_us, batch.number).coalesce(self._files(batch.of(SUCCESS)))
        with self._errors():
            tables.write(rows, self.config.final_table_path, "append", self._app_id, batch.number)
        if not self._is_decided(batch):
            self._lost(batch.number)
        self._after_write(SUCCESS)

    def _is_decided(self, batch: Batch) -> bool:
        """Whether its results are written, or its outcomes if it has none.

        Its number is of one driver only, that which wrote the outcomes.
        """
        if not batch.is_of_one_read:
            return False
        if not batch.of(SUCCESS):
            return True
        results = read(self.spark, self.config.final_table_path)
        return bool(results.where(F.col("batch_id") == batch.number).select("batch_id").take(1))

    def _is_decided_before_fence(self, batch: Batch) -> bool:
        """Sees to it that the batch is not decided from now on, and says whether it has been meanwhile."""
        nothing = self.spark.createDataFrame([], tables.FINAL_RESULTS)
        try:
            tables.write(nothing, self.config.final_table_path, "append", self._app_id, batch.number)
        except Exception as exc:
            if not is_conflict(exc):
                raise
        return self._is_decided(batch)

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

    def _carry_out(self, batch: Batch, started: float, recovered: Optional[int]) -> BatchResult:
        """Writes the other tables from the outcomes: steps 3 and 4."""
        with self._errors():
            self._run_side_by_side(self._writes(batch))
            waiting, next_us = self._waiting(batch.now_us)
            result = BatchResult(
                batch.number,
                batch.source(False),
                batch.source(True),
                batch.of(SUCCESS),
                batch.of(RETRY),
                batch.of(DEAD),
                batch.of(HELD),
                batch.of(records.REDRIVEN),
                waiting,
                _datetime(next_us),
                round(time.monotonic() - started, 3),
                recovered,
            )
            row = records.run_row(self.spark, batch.token, batch.now_us, next_us, result)
            tables.write(row, self.config.runs_table, "append", self._app_id, batch.number, adds_columns=True)
        self._last_done = (batch.number, batch.token)
        self._after_write("runs")
        log.info("batch_done", extra={**vars(result), "success_rate": result.success_rate})
        return dataclasses.replace(result, maintenance_error=self._compact_after(batch.number))

    def _writes(self, batch: Batch) -> list[Callable[[], None]]:
        """What there is to write, each to a table of its own."""
        writes: list[Callable[[], None]] = []
        if batch.of(DEAD):
            writes.append(lambda: self._append_dead(batch))
        if batch.source(True) or any(batch.of(outcome) for outcome in records.WAITING):
            session = self._merge_session(batch.number)
            writes.append(lambda: self._merge_waiting(session, batch))
            if batch.of(records.REDRIVEN):
                writes.append(lambda: self._remove_redriven(session, batch))
        if batch.breakers and self.config.breaker is not None:
            writes.append(lambda: self._write_breaker(batch))
        return writes

    def _run_side_by_side(self, writes: Sequence[Callable[[], _T]]) -> list[_T]:
        """Of writes whose order does not matter. Each is to another table, and those of a batch follow its decision."""
        if self._writers == 1:
            return [write() for write in writes]
        with ThreadPoolExecutor(self._writers) as pool:
            return [done.result() for done in [pool.submit(inheritable_thread_target(write)) for write in writes]]

    def _append_dead(self, batch: Batch) -> None:
        outcomes = read(self.spark, self.config.outcomes_table).where(F.col("batch_id") == batch.number)
        rows = records.dead_rows(outcomes.where(F.col("outcome") == DEAD), batch.now_us)
        rows = rows.coalesce(self._files(batch.of(DEAD)))
        tables.write(rows, self.config.dlq_table_path, "append", self._app_id, batch.number)
        self._after_write(DEAD)

    def _files(self, n: int) -> int:
        return -(-n // self.config.rows_per_file)

    def _merge_waiting(self, session: SparkSession, batch: Batch) -> None:
        """Brings the retry queue up to date: records that ended leave it, those that failed wait in it."""
        outcomes = read(session, self.config.outcomes_table).where(F.col("batch_id") == batch.number)
        n = batch.source(True) + sum(batch.of(outcome) for outcome in records.WAITING)
        rows = records.waiting_rows(outcomes, batch.now_us).coalesce(self._files(n))
        if not batch.source(True):
            # Records that were new, or dead, are not in the queue: there is nothing to compare them with.
            tables.write(rows.drop("outcome"), self.config.retry_table_path, "append", self._app_id, batch.number)
            self._after_write("waiting")
            return
        # Records of the batch that wait were due: files with later times are not read.
        same = f"t.sample_id = s.sample_id AND t.process_after <= timestamp_micros({batch.now_us})"
        columns: dict[str, Union[str, Column]] = {name: f"s.{name}" for name in tables.RETRY_QUEUE.names}
        kept = {name: value for name, value in columns.items() if name not in ("sample_id", "payload", "created_at")}
        moved = {name: columns[name] for name in ("process_after", "updated_at", "batch_id")}
        (
            tables.delta_table(session, self.config.retry_table_path)
            .alias("t")
            .merge(rows.alias("s"), same)
            .whenMatchedUpdate(f"s.outcome = '{RETRY}'", kept)
            .whenMatchedUpdate(f"s.outcome = '{HELD}'", moved)
            .whenMatchedDelete()
            .whenNotMatchedInsert(f"s.outcome IN {records.WAITING}", columns)
            .execute()
        )
        self._after_write("waiting")

    def _remove_redriven(self, session: SparkSession, batch: Batch) -> None:
        """Takes dead letters that wait again out of their table, and older ones with their ids.

        Later ones were not meant, or have no payload: they stay.
        """
        outcomes = read(session, self.config.outcomes_table).where(F.col("batch_id") == batch.number)
        rows = outcomes.where(F.col("outcome") == records.REDRIVEN).select("sample_id", "created_us")
        same = "t.sample_id = s.sample_id AND t.created_at <= timestamp_micros(s.created_us)"
        (
            tables.delta_table(session, self.config.dlq_table_path)
            .alias("t")
            .merge(rows.alias("s"), same)
            .whenMatchedDelete()
            .execute()
        )
        self._after_write(records.REDRIVEN)

    def _merge_session(self, number: int) -> SparkSession:
        """A session for MERGE, which takes the number of the batch from the session's settings only.

        In the caller's session another thread's writes would take it, too.
        """
        if self._session is None:
            session = self.spark.newSession()
            for row in self.spark.sql("SET").select("key").collect():
                if session.conf.isModifiable(row["key"]):
                    session.conf.set(row["key"], str(self.spark.conf.get(row["key"])))
            self._session = session
        self._session.conf.set("spark.databricks.delta.write.txnAppId", self._app_id)
        self._session.conf.set("spark.databricks.delta.write.txnVersion", str(number))
        return self._session

    def _waiting(self, now_us: int) -> tuple[int, Optional[int]]:
        """How many records wait, and when the next of them can run."""
        table = read(self.spark, self.config.retry_table_path)
        n, next_us = table.agg(F.count("*"), F.unix_micros(F.min("process_after"))).collect()[0]
        if next_us is not None and self.config.breaker is not None:
            next_us = max(next_us, self._saved_breaker().held_until(now_us) or next_us)
        return n, next_us

    # ---- The breaker ------------------------------------------------------------------------------

    def _saved_breaker(self) -> breaker.SavedBreaker:
        return self._read_breaker()[0]

    def _read_breaker(self) -> tuple[breaker.SavedBreaker, Optional[int]]:
        """Its state, and the last batch of which nothing more is to be counted."""
        columns = ("state", "failure_count", "reopened", F.unix_micros("next_probe_at"), "batch_id")
        rows = read(self.spark, self.config.breaker_table).select(*columns).collect()
        if not rows:
            return breaker.SavedBreaker(), None
        *state, number = rows[0]
        return breaker.SavedBreaker(*state), number

    def _write_breaker(self, batch: Batch) -> None:
        """A move by hand while the batch ran, or since its driver died, comes before what its calls have shown."""
        (before, number), saved = self._read_breaker(), breaker.join(batch.breakers)
        if before.state == "forced_open" or number == batch.number:
            return
        if saved != before:
            row = records.breaker_row(self.spark, saved, batch.now_us, batch.number)
            tables.write(row, self.config.breaker_table, "overwrite", self._app_id, batch.number)
            self._after_write("breaker")
        if saved.state != before.state:
            log.warning("breaker_moved", extra={"state": saved.state, "batch_id": batch.number})

    def _set_breaker(self, saved: breaker.SavedBreaker) -> None:
        if self.config.breaker is None:
            raise InvalidArgumentError("this queue has no breaker", hint="RetryQueueConfig(…, breaker=BreakerConfig())")
        # A batch that is not done is left alone: it may be running. It writes no row in place of one with its number.
        heads = self._heads()
        row = records.breaker_row(self.spark, saved, _microseconds(None), heads[0][0] if heads else None)
        tables.overwrite(row, self.config.breaker_table)


def _choice(where: Union[str, Column, None], ids: Optional[Iterable[str]], is_all: bool) -> Union[str, Column, None]:
    """The condition on dead letters; None: all of them."""
    if isinstance(ids, str):
        raise InvalidArgumentError("ids is a text", hint=f"ids=[{ids!r}]")
    if (where is not None) + (ids is not None) + bool(is_all) != 1:
        raise InvalidArgumentError(
            "which dead letters are to be redriven?",
            detail="give one of where, ids and all",
            hint="redrive(\"error_class = 'network'\"), redrive(ids=['S-1']), or redrive(all=True)",
        )
    return where if ids is None else F.col("sample_id").isin(list(ids))


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
