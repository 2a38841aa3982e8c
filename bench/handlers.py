#!/usr/bin/env python3
"""handlers - jobs and records through the pool of workers, on an SQLite file.

    bench/handlers.py BENCH_DIR

Called by tools/bench; by itself it prints the rows. What is compared takes turns, on an empty file each; figures
are medians. The stream program is bench/answer.c, which answers each line when it has read it. Jobs and records
have a payload of about 100 bytes and do nothing.

Batches: `redrive batch` over a file of records, with the program in its default settings (one program, one job at a
time), with `in_flight: 32`, and once more over the same file, when all records are known. Its own time, from the
start of the process to its end.

Jobs: as many in one store, submitted before, by `redrive work --until-idle` with two programs that have 32 jobs each
under way, and by a C function of a program of libredrive-queue with 64 slots (bench/stores/work.c).
"""
import json
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

ROUNDS = 3
RECORDS = 100000
JOBS = 100000
EXEC_JOBS = 1000
RUN_S = 180  # nothing may take longer

PAIRS = [
    ("batch.records_per_s", "batch.in_flight_32.records_per_s", "higher", 0.7),
    ("batch.known_s", "batch.in_flight_32.s", "lower", 1 / 0.3),
    ("stream.jobs_per_s", "in_process.jobs_per_s", "higher", 0.6),
]


def be_quick():
    global ROUNDS, RECORDS, JOBS, EXEC_JOBS
    ROUNDS, RECORDS, JOBS, EXEC_JOBS = 1, 5000, 5000, 200


def row(name, value, unit="1/s"):
    return {"name": name, "value": value, "unit": unit, "durable": True}


def medians(rows):
    by_name = {}
    for one in rows:
        by_name.setdefault(one["name"], []).append(one)
    return [dict(same[0], value=statistics.median(one["value"] for one in same)) for same in by_name.values()]


class Place:
    """A folder with a configuration and a store of its own."""

    def __init__(self, bench, scratch, tasks):
        self.bench = bench
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="handlers-", dir=scratch))
        self.store = f"sqlite:{self.folder}/jobs.db"
        self.config = self.folder / "redrive.yaml"
        lines = "".join(f"  {name}: {{run: {run}}}\n" for name, run in tasks.items())
        self.config.write_text(f"store: {self.store}\nlog: {{level: error}}\ntasks:\n{lines}", "utf-8")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        shutil.rmtree(self.folder)

    def tool(self, name):
        return str(self.bench / "bench" / name)

    def timed(self, *words):
        """Seconds that a command of the program took."""
        start = time.monotonic()
        subprocess.run([str(self.bench / "redrive"), "--config", str(self.config), *words], check=True,
                       capture_output=True, timeout=RUN_S)
        return time.monotonic() - start


def stream_of(bench, more=""):
    return f"{{stream: ['{bench / 'bench' / 'answer'}']{more}}}"


# ---- Batches -------------------------------------------------------------------------------------


def write_records(path):
    with open(path, "w", encoding="utf-8") as file:
        for i in range(RECORDS):
            file.write(json.dumps({"id": f"record-{i * 7919 % RECORDS:06d}", "text": "x" * 70}) + "\n")


def batch_round(bench, scratch, records):
    with Place(bench, scratch, {"noop": stream_of(bench)}) as place:
        default_s = place.timed("batch", "noop", records)
    with Place(bench, scratch, {"noop": stream_of(bench, ", in_flight: 32")}) as place:
        first_s = place.timed("batch", "noop", records)
        known_s = place.timed("batch", "noop", records)
    return [row("batch.records_per_s", RECORDS / default_s),
            row("batch.in_flight_32.records_per_s", RECORDS / first_s),
            row("batch.in_flight_32.s", first_s, "s"),
            row("batch.known_s", known_s, "s")]


# ---- Jobs ----------------------------------------------------------------------------------------


def submit(place, jobs):
    subprocess.run([place.tool("bench_work"), "submit", place.store, str(jobs)], check=True, capture_output=True,
                   timeout=RUN_S)


def worked(bench, scratch, name, jobs, run):
    with Place(bench, scratch, {"noop": run}) as place:
        submit(place, jobs)
        return [row(f"{name}.jobs_per_s", jobs / place.timed("work", "--until-idle"))]


def in_process(bench, scratch):
    with Place(bench, scratch, {}) as place:
        submit(place, JOBS)
        start = time.monotonic()
        subprocess.run([place.tool("bench_work"), "work", place.store, "0", "64"], check=True, capture_output=True,
                       timeout=RUN_S)
        return [row("in_process.jobs_per_s", JOBS / (time.monotonic() - start))]


def measure(bench, scratch):
    bench = pathlib.Path(bench).resolve()
    subprocess.run(["ninja", "-C", str(bench), "redrive", "bench/answer", "bench/bench_work"], check=True,
                   stdout=subprocess.DEVNULL)
    records = str(pathlib.Path(scratch).resolve() / "records.jsonl")
    write_records(records)
    rows = []
    for _ in range(ROUNDS):
        rows += batch_round(bench, scratch, records)
        rows += worked(bench, scratch, "stream", JOBS, stream_of(bench, ", processes: 2, in_flight: 32"))
        rows += in_process(bench, scratch)
        rows += worked(bench, scratch, "exec", EXEC_JOBS, "{exec: ['true'], concurrency: 8}")
    return medians(rows)


def main():
    with tempfile.TemporaryDirectory(prefix="bench-", dir=".") as scratch:
        rows = measure(sys.argv[1], scratch)
    values = {one["name"]: one["value"] for one in rows}
    for one in rows:
        print(f"{one['name']:<34}{one['value']:>12,.2f}  {one['unit']}")
    for ours, rival, better, least in PAIRS:
        ratio = values[rival] / values[ours] if better == "lower" else values[ours] / values[rival]
        print(f"{ours} is {ratio:.2f} times as good as {rival}; promised at least {least:.2f}")


if __name__ == "__main__":
    main()
