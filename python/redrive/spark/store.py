"""Jobs of a Redrive server as DataFrames: where the work is not Spark's own.

Executors speak to the server directly. Nothing is collected on the driver.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Callable, Optional

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from redrive.errors import InvalidArgumentError, RedriveError
from redrive.queue.client import Client, is_temporary
from redrive.retrying import retry
from redrive.spark.errors import HandlerFault, from_spark

ATTEMPTS = 7
#: What a server takes at a time.
_JOBS_MAX = 1000
_BYTES_MAX = 1024 * 1024
_PAGE = 500
_COUNTS = "submitted bigint, existed bigint"
_JOB_COLUMNS = (
    "id string, task string, queue string, state string, reason string, attempts int, payload string, result string, "
    "error_class string, error_type string, error_msg string, created_at timestamp, finished_at timestamp"
)
_ARROW_JOB = pa.schema(
    [
        (name, {"int": pa.int32(), "timestamp": pa.timestamp("us", tz="UTC")}.get(kind, pa.string()))
        for name, kind in (word.split() for word in _JOB_COLUMNS.split(", "))
    ]
)


@dataclass(frozen=True)
class Submitted:
    """Jobs that were made, and jobs whose id the server knew already."""

    submitted: int
    existed: int


def submit_jobs(
    jobs: DataFrame, url: str, task: str, *, token: Optional[str] = None, attempts: int = ATTEMPTS, **options: Any
) -> Submitted:
    """Submits a job for each row of ``id string, payload string`` to a Redrive server; the payload is JSON.

    The id makes it safe to repeat: a job that is there is not made again. A server that is away for a moment is
    asked again; if it stays away there is a StoreError, and the same call completes the rest.

    :param attempts: how often a server that does not answer is asked, within about half a minute.
    :param options: members of every job: ``queue``, ``priority``, ``delay``, ``retry``, ``user``, ``service`` …
    :param token: the bearer token; without it, REDRIVE_TOKEN of the driver's environment.
    """
    wanted = {"id": "string", "payload": "string"}
    if not hasattr(jobs, "dtypes") or dict(jobs.dtypes) != wanted:
        raise InvalidArgumentError(
            "the jobs do not have the columns id string, payload string",
            detail=str(getattr(jobs, "dtypes", type(jobs).__name__)),
            hint="df.select('id', to_json(struct(…)).alias('payload'))",
        )
    run = _Submitter(_connection(url, token), attempts, {"task": task, **options})
    rows = jobs.select("id", "payload").mapInArrow(run, _COUNTS)
    with_counts = rows.agg(F.sum("submitted"), F.sum("existed"))
    made, existed = _known_errors(lambda: with_counts.collect()[0])
    return Submitted(made or 0, existed or 0)


def read_jobs(
    spark: SparkSession, url: str, *, token: Optional[str] = None, attempts: int = ATTEMPTS, **parameters: Any
) -> DataFrame:
    """Jobs of a Redrive server with their results. Each action on the DataFrame asks the server again.

    One executor reads them, a page at a time: limit them by parameters, and write them down if they are read twice.

    :param parameters: those of ``GET /v1/jobs``: ``state="completed"``, ``task``, ``queue``, ``newer_than="1h"`` …
    """
    run = _Reader(_connection(url, token), attempts, parameters)
    return spark.range(0, 1, 1, 1).mapInArrow(run, _JOB_COLUMNS)


def _connection(url: str, token: Optional[str]) -> tuple[str, str]:
    token = os.environ.get("REDRIVE_TOKEN", "") if token is None else token
    Client(url, token=token)  # refuses what cannot be an address
    return url, token


def _known_errors(run: Callable[[], Any]) -> Any:
    try:
        return run()
    except Exception as exc:
        known = from_spark(exc)
        if known is None:
            raise
        raise known from exc


def _patiently(call: Callable[..., Any], attempts: int) -> Callable[..., Any]:
    """Asks again while the server is away; then the error goes to the driver."""

    def class_of(exc: BaseException) -> str:
        return "transient" if isinstance(exc, RedriveError) and is_temporary(exc) else "permanent"

    again = retry(max_attempts=attempts, initial_delay=0.5, multiplier=2, max_delay=15, classify=class_of)(call)

    def run(*arguments: Any) -> Any:
        try:
            return again(*arguments)
        except RedriveError as exc:
            text = f"{exc.message} ({exc.detail})" if exc.detail else exc.message
            raise HandlerFault(text, exc.hint, "StoreError") from exc

    return run


class _Submitter:
    """Runs on executors: rows to jobs."""

    def __init__(self, connection: tuple[str, str], attempts: int, members: Mapping[str, Any]) -> None:
        self.connection = connection
        self.attempts = attempts
        self.members = dict(members)

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        client = Client(self.connection[0], token=self.connection[1])
        submit = _patiently(client.submit_many, self.attempts)
        made = existed = 0
        for batch in batches:
            for jobs in self._chunks(batch):
                known = sum(1 for job in submit(jobs) if job["existed"])
                made, existed = made + len(jobs) - known, existed + known
        client.close()
        yield pa.RecordBatch.from_arrays([pa.array([made]), pa.array([existed])], names=["submitted", "existed"])

    def _chunks(self, batch: pa.RecordBatch) -> Iterator[list[dict[str, Any]]]:
        chunk: list[dict[str, Any]] = []
        size = 0
        for id_, payload in zip(batch.column(0).to_pylist(), batch.column(1).to_pylist()):
            if chunk and (len(chunk) == _JOBS_MAX or size + len(payload or "") > _BYTES_MAX):
                yield chunk
                chunk, size = [], 0
            chunk.append(self._job(id_, payload))
            size += len(payload or "")
        if chunk:
            yield chunk

    def _job(self, id_: Optional[str], payload: Optional[str]) -> dict[str, Any]:
        if not id_:
            hint = "each job needs an id, so that it can be submitted again without harm"
            raise HandlerFault("a row has no id", hint, "StoreError")
        try:
            value = None if payload is None else json.loads(payload)
        except ValueError as exc:
            raise HandlerFault(f"the payload of {id_} is not JSON: {exc}", "to_json(struct(…))", "StoreError") from exc
        return {**self.members, "id": id_, "payload": value}


class _Reader:
    """Runs on an executor: pages of jobs to rows."""

    def __init__(self, connection: tuple[str, str], attempts: int, parameters: Mapping[str, Any]) -> None:
        self.connection = connection
        self.attempts = attempts
        self.parameters = {"limit": _PAGE, **parameters}

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for _ in batches:
            pass
        client = Client(self.connection[0], token=self.connection[1])
        ask = _patiently(client.jobs, self.attempts)
        cursor: Optional[str] = None
        while True:
            page = ask({**self.parameters, **({"cursor": cursor} if cursor else {})})
            rows = [_row(job) for job in page["items"]]
            yield pa.RecordBatch.from_pylist(rows, schema=_ARROW_JOB)
            cursor = page.get("next")
            if not cursor:
                break
        client.close()


def _row(job: Mapping[str, Any]) -> dict[str, Any]:
    error = job.get("last_error") or {}
    plain = {name: job.get(name) for name in ("id", "task", "queue", "state", "reason", "attempts")}
    return {
        **plain,
        "payload": _json(job.get("payload")),
        "result": _json(job.get("result")),
        "error_class": error.get("class"),
        "error_type": error.get("type"),
        "error_msg": error.get("message"),
        "created_at": _time(job.get("created_at")),
        "finished_at": _time(job.get("finished_at")),
    }


def _json(value: Any) -> Optional[str]:
    return None if value is None else json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def _time(text: Optional[str]) -> Optional[datetime]:
    return None if text is None else datetime.fromisoformat(text.replace("Z", "+00:00"))
