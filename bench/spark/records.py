#!/usr/bin/env python3
"""Time and bytes of a batch: redrive.spark beside a straightforward PySpark version, in one session, in turns.

    make bench-spark [RECORDS=1000000] [BATCHES=3] [PAIR=1]
    records.py [--records N] [--batches N] [--rivals [plain] [ids] [safe]] [--json] [--profile] [--small]

A batch has N new records, and those that are due again; batches are two minutes apart by a clock that is moved by hand.
Of a hundred records nine fail once, twice or three times, and one fails for good. All versions have the same records,
the same function and the same session (local[2]); straightforward.py says what the rival does, and what it does not.
Bytes are those of all files that a batch has added to the folder of its tables, logs included. CPU is that of the
driver, the JVM and the Python processes: unlike the time it hardly depends on what else the machine does. The first
batch is not in the medians: it pays for what Spark loads and compiles.

--small is for what a batch of few records costs: the session has only the settings that Delta needs, as in the quick
start of docs/spark.md, and the first batch makes the tables.
"""

import argparse
import datetime as dt
import functools
import json
import os
import pathlib
import statistics
import sys
import tempfile
import time

import pyspark
from event_log import Profile, commits, cpu_by_kind
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from redrive.spark import RetryQueue, RetryQueueConfig
from straightforward import Safe, Straightforward

START = dt.datetime(2030, 1, 1, 12, tzinfo=dt.timezone.utc)
SETTINGS = {
    "spark.driver.memory": "4g",
    "spark.driver.host": "127.0.0.1",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
}
TUNED = {
    "spark.sql.shuffle.partitions": "2",
    "spark.databricks.delta.snapshotPartitions": "2",
    "spark.sql.session.timeZone": "UTC",
}
OURS = "redrive.spark"


def process_record(record):
    """Stands for the call of a service: it takes no time, so that only the pipelines are measured."""
    kind = int(record["sample_id"][-2:])
    if kind == 99:
        return "PERMANENT_FAIL", "no such unit"
    if kind < 9 and record["retry_count"] <= kind % 3:
        return "TRANSIENT_FAIL", "service is busy"
    return "SUCCESS", "stored"


def open_session(folder, *, profile=False, tuned=True):
    jars = ",".join(str(jar) for jar in sorted(pathlib.Path(os.environ["SPARK_JARS"]).glob("*.jar")))
    builder = SparkSession.builder.master("local[2]").appName("bench").config("spark.jars", jars)
    if profile:
        pathlib.Path(f"{folder}/events").mkdir()
        builder = builder.config("spark.eventLog.enabled", "true").config("spark.eventLog.dir", f"{folder}/events")
    settings = {**SETTINGS, **(TUNED if tuned else {})}
    for name, value in {**settings, "spark.sql.warehouse.dir": f"{folder}/warehouse"}.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    return spark


def write_lot(spark, path, lot, size):
    """New records of a batch, as Parquet files. A payload has about 200 bytes, half of which no compression removes."""
    ids = spark.range(lot * size, (lot + 1) * size, 1, 2)
    sample_id = F.format_string("S-%09d", F.col("id")).alias("sample_id")
    payload = F.concat(F.lit('{"value": "'), *(F.sha2(F.concat(F.lit(str(i)), "id"), 256) for i in range(3)))
    ids.select(sample_id, F.concat(payload, F.lit('"}')).alias("payload")).write.parquet(path)


class Ours:
    def __init__(self, spark, folder, has_tables=True):
        self.queue = RetryQueue(spark, RetryQueueConfig(f"{folder}/queue", f"{folder}/final", f"{folder}/dead"))
        if has_tables:
            self.queue.initialize_tables()

    def process_batch(self, new, function, now):
        result = self.queue.process_batch(new, function, now=now)
        counts = {"success": result.succeeded, "retry": result.retried, "dead": result.dead}
        return {name: n for name, n in counts.items() if n}, result.waiting


def processes():
    """This process and all that it has started: the JVM, and the Python processes of executors. Each with its CPU."""
    stats = {}
    for path in pathlib.Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rsplit(")", 1)[1].split()
        except OSError:  # it has ended
            continue
        stats[int(path.parent.name)] = int(fields[1]), sum(int(ticks) for ticks in fields[11:15])
    ours = {os.getpid()}
    while more := {pid for pid, (parent, _ticks) in stats.items() if parent in ours} - ours:
        ours |= more
    return {pid: stats[pid][1] / os.sysconf("SC_CLK_TCK") for pid in ours}


def cpu_seconds():
    return sum(processes().values())


def bytes_in(folder):
    return sum(path.stat().st_size for path in pathlib.Path(folder).rglob("*") if path.is_file())


RIVALS = {
    "plain": ("straightforward", Straightforward),
    "ids": ("straightforward, no id twice", functools.partial(Straightforward, checks_ids=True)),
    "safe": ("straightforward, crash safe", Safe),
}


def measure(spark, folder, size, batches, rivals, has_tables):
    """A row for each batch of each version. They must have done the same work."""
    sides = {OURS: (f"{folder}/ours", Ours(spark, f"{folder}/ours", has_tables))}
    for key in rivals:
        name, make = RIVALS[key]
        sides[name] = (f"{folder}/{key}", make(spark, f"{folder}/{key}"))
    rows = []
    for lot in range(batches):
        lot_path = f"{folder}/lots/{lot}"
        write_lot(spark, lot_path, lot, size)
        answers = []
        # Each goes first in its turn: caches of the machine favour the later ones.
        for name in list(sides)[lot % len(sides) :] + list(sides)[: lot % len(sides)]:
            tables, side = sides[name]
            before, began_at, kinds = bytes_in(tables), time.time(), cpu_by_kind(processes())
            began, began_cpu = time.perf_counter(), cpu_seconds()
            now = START + dt.timedelta(minutes=2 * lot)
            answers.append(side.process_batch(spark.read.parquet(lot_path), process_record, now))
            took, cpu = time.perf_counter() - began, cpu_seconds() - began_cpu
            written = bytes_in(tables) - before
            row = {"name": name, "batch": lot + 1, "seconds": took, "cpu": cpu, "bytes": written}
            row["window"] = [began_at * 1000, (began_at + took) * 1000]
            row["kinds"] = cpu_by_kind(processes()) - kinds
            row["commits"] = sum(commits(tables, began_at).values())
            rows.append(row)
            shown = f"{took:7.2f} s {cpu:7.2f} s of CPU {written / 1e6:8.1f} MB"
            print(f"batch {lot + 1:2} {name:<30} {shown}", file=sys.stderr, flush=True)
        if any(answer != answers[0] for answer in answers):
            sys.exit(f"batch {lot + 1}: not the same work: {answers}")
    ends = [[count(spark, f"{tables}/{name}") for name in ("queue", "final", "dead")] for tables, _ in sides.values()]
    if any(end != ends[0] for end in ends):
        sys.exit(f"not the same tables: {ends}")
    return rows


def count(spark, table):
    return spark.read.format("delta").load(table).count()


def show_profile(rows, profile):
    for row in rows:
        facts = profile.of(*row["window"])
        shown = ", ".join(
            f"{name} {value:.1f}" if isinstance(value, float) else f"{name} {value}" for name, value in facts.items()
        )
        print(f"batch {row['batch']} {row['name']}: {shown}, commits {row['commits']}")
        kinds = ", ".join(f"{kind} {seconds:.1f}" for kind, seconds in sorted(row["kinds"].items()))
        print(f"    CPU: {kinds}")
        for begin, took, text in profile.longest(*row["window"]):
            print(f"    at {begin:6.2f} s: {took:6.2f} s {text}")


def summarize(rows):
    """Medians over the batches after the first, and over the ratios of two versions in the same batch."""
    of = {(row["name"], row["batch"]): row for row in rows}
    names = list(dict.fromkeys(row["name"] for row in rows))
    batches = sorted({row["batch"] for row in rows})[1:] or [1]

    def median(name, key):
        return statistics.median(of[name, batch][key] for batch in batches)

    def ratio(name, key):
        return statistics.median(of[name, batch][key] / of[OURS, batch][key] for batch in batches)

    for name in names:
        shown = f"{median(name, 'seconds'):7.2f} s, {median(name, 'cpu'):7.2f} s of CPU"
        shown += f", {median(name, 'bytes') / 1e6:7.1f} MB"
        if name != OURS:
            shown += f"; {ratio(name, 'seconds'):.2f} x our time, {ratio(name, 'cpu'):.2f} x our CPU"
            shown += f", {ratio(name, 'bytes'):.2f} x our bytes"
        print(f"{name:<30} {shown}")
    promises = [(f"time of {name} to ours", ratio(name, "seconds"), ">=", 1.5) for name in names if name != OURS]
    if (OURS, 10) in of:
        for key, shown in (("seconds", "time"), ("cpu", "CPU")):
            growth = of[OURS, 10][key] / of[OURS, 2][key]
            promises.append((f"{shown} of batch 10 to batch 2", growth, "<=", 1.3))
    for text, figure, sign, limit in promises:
        kept = figure >= limit if sign == ">=" else figure <= limit
        print(f"promise: {text} {sign} {limit}: {figure:.2f}, {'kept' if kept else 'NOT KEPT'}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--batches", type=int, default=3)
    parser.add_argument("--rivals", nargs="*", choices=RIVALS, default=list(RIVALS), help="none: for many batches")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--small", action="store_true", help="a session without settings, and no tables")
    parser.add_argument("--profile", action="store_true", help="say where the time of each batch goes")
    options = parser.parse_args()
    load = os.getloadavg()
    with tempfile.TemporaryDirectory(prefix="bench-spark-") as folder:
        spark = open_session(folder, profile=options.profile, tuned=not options.small)
        rows = measure(spark, folder, options.records, options.batches, options.rivals, not options.small)
        spark.stop()
        if options.profile:
            show_profile(rows, Profile(f"{folder}/events"))
    if options.json:
        print(json.dumps(rows))
        return
    print(f"Spark {pyspark.__version__}, {options.records} new records a batch, {options.batches} batches")
    print(f"load of the machine: {load[0]:.1f} before, {os.getloadavg()[0]:.1f} after")
    summarize(rows)


if __name__ == "__main__":
    main()
