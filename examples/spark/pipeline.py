"""A pipeline of records on Spark and Delta, under a clock that is moved by hand.

    pipeline.py FOLDER

A thousand samples are sent to a service that is down from minute 5 to minute 20. A batch runs whenever records are
due. The tables are Delta tables in FOLDER; FOLDER/run.svg shows where the records were after each batch.
"""

import datetime as dt
import pathlib
import sys

from chart import draw
from pyspark.sql import SparkSession
from redrive.spark import RetryQueue, RetryQueueConfig

START = dt.datetime(2030, 1, 1, 12, tzinfo=dt.timezone.utc)
ARRIVALS = {0: 500, 6: 500}  # minute: new samples


def open_session():
    """With spark-submit the settings come from its command line; here they stand in run.sh."""
    spark = SparkSession.builder.appName("records").getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def make_samples(minute, count):
    """Of a hundred samples four are null and three have a unit that the service does not know."""
    kinds = [None] * 4 + ["12 furlong"] * 3 + ["12 mg"] * 93
    return [(f"S-{minute:02}-{i:04}", kinds[i % 100]) for i in range(count)]


def service(minute):
    """A stand-in for the call of a service: what it does at a minute of the run."""

    def process_record(record):
        number, unit = record["payload"].split()
        if unit not in ("mg", "g"):
            return "PERMANENT_FAIL", f"unknown unit {unit}"
        if 5 <= minute < 20:
            raise ConnectionError("service is down")
        if int(record["sample_id"][-2:]) > 90 and record["retry_count"] < 2:
            return "TRANSIENT_FAIL", "service is busy"
        return "SUCCESS", f"{number} {unit} stored"

    return process_record


def main(folder):
    spark = open_session()
    config = RetryQueueConfig(
        retry_table_path=f"{folder}/retry_queue",
        final_table_path=f"{folder}/final_results",
        dlq_table_path=f"{folder}/dead_letter_queue",
        max_retries=5,
        base_backoff_minutes=2,
    )
    queue = RetryQueue(spark, config)
    arrivals = dict(ARRIVALS)
    minute, history = 0, []
    print(
        f"{'minute':>6} {'new':>5} {'due':>5} {'succeeded':>9} {'retried':>7} {'dead':>5} {'waiting':>7} {'seconds':>7}"
    )
    while minute is not None:
        samples = make_samples(minute, arrivals.pop(minute, 0))
        new = spark.createDataFrame(samples, "sample_id string, payload string") if samples else None
        done = queue.process_batch(new, service(minute), now=START + dt.timedelta(minutes=minute))
        print(
            f"{minute:6} {done.new_records:5} {done.due_records:5} {done.succeeded:9} {done.retried:7} {done.dead:5} "
            f"{done.waiting:7} {done.seconds:7.1f}",
            flush=True,
        )
        history.append((minute, done.succeeded, done.waiting, done.dead))
        due = [] if done.next_ready_time is None else [int((done.next_ready_time - START).total_seconds() / 60)]
        minute = min([*due, *arrivals], default=None)

    show(spark, config)
    picture = pathlib.Path(folder) / "run.svg"
    picture.write_text(draw(history), encoding="utf-8")
    print(f"drawn: {picture}")
    spark.stop()


QUERIES = {
    "Results by retries": "SELECT retry_count, count(*) AS records FROM delta.`{final}` GROUP BY 1 ORDER BY 1",
    "Dead letters by error": "SELECT error_msg, reason, count(*) FROM delta.`{dead}` GROUP BY 1, 2 ORDER BY 3 DESC",
    "Waiting": "SELECT count(*) AS total_waiting, min(process_after) AS next_ready_time FROM delta.`{waiting}`",
    "Batches": "SELECT count(*) AS batches, sum(succeeded), sum(retried), sum(dead) FROM delta.`{waiting}_runs`",
}


def show(spark, config):
    tables = {
        "final": config.final_table_path,
        "dead": config.dlq_table_path,
        "waiting": config.retry_table_path,
    }
    for title, query in QUERIES.items():
        print(f"\n{title}")
        spark.sql(query.format(**tables)).show(truncate=False)


if __name__ == "__main__":
    main(sys.argv[1])
