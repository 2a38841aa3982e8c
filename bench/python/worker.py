#!/usr/bin/env python3
"""How many jobs a second one worker carries out: Redrive, Procrastinate and Celery, in turns.

    build/python-env/bin/pip install -r bench/python/requirements.txt
    build/python-env/bin/python bench/python/worker.py [--jobs N] [--rounds N] [--concurrency N] [--json]

Tasks do nothing. Redrive and Procrastinate run coroutines on one PostgreSQL server; Redrive and Celery run functions in
threads on one Redis server. All are durable: PostgreSQL has fsync and synchronous_commit on, Redis appends and syncs with each
write, Celery acknowledges late. Jobs are submitted before the clock starts, and the start of a worker is not counted. The
figure is the best round; Redrive's worker speaks HTTP to a `redrive serve`, whose time counts as well. Everything runs on
this machine.
"""

import argparse
import asyncio
import json
import logging
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time

import procrastinate
import redrive

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "servers"))
import servers  # noqa: E402

BINARY = os.environ.get("REDRIVE_BIN", str(ROOT / "build" / "redrive"))


class Served:
    """A `redrive serve` on a store."""

    def __init__(self, store, directory):
        config = directory / "redrive.yaml"
        config.write_text(json.dumps({"store": store, "listen": {"http": "127.0.0.1:0", "faktory": "off"}}))
        self._log = directory / "log"
        with open(self._log, "wb") as log:
            self._process = subprocess.Popen([BINARY, "serve", "-c", str(config)], stderr=log, stdout=log)
        until = time.monotonic() + 60
        while not (port := re.search(r"interface=http address=\S+:(\d+)", self._log.read_text())):
            if self._process.poll() is not None or time.monotonic() > until:
                sys.exit(self._log.read_text())
            time.sleep(0.05)
        self.url = f"http://127.0.0.1:{port.group(1)}"

    def stop(self):
        self._process.send_signal(signal.SIGTERM)
        self._process.wait()


def measure_redrive(url, n, concurrency, is_async):
    app = redrive.App(url)

    async def noop_async():
        pass

    def noop_sync():
        pass

    noop = app.task(name="noop")(noop_async if is_async else noop_sync)
    for start in range(0, n, 1000):
        app.defer_many(noop.configure().job() for _ in range(min(1000, n - start)))
    worker = redrive.Worker(app, concurrency=concurrency, until_idle=True)
    began = time.perf_counter()
    worker.run()
    return n / (time.perf_counter() - began)


async def measure_procrastinate(url, n, concurrency):
    connector = procrastinate.PsycopgConnector(conninfo=url, min_size=concurrency, max_size=concurrency + 2)
    app = procrastinate.App(connector=connector)

    @app.task(name="noop")
    async def noop():
        pass

    async with app.open_async():
        if not await app.check_connection_async():
            await app.schema_manager.apply_schema_async()
        for start in range(0, n, 1000):
            await noop.batch_defer_async(*({} for _ in range(min(1000, n - start))))
        began = time.perf_counter()
        await app.run_worker_async(
            concurrency=concurrency, wait=False, install_signal_handlers=False, listen_notify=False
        )
        return n / (time.perf_counter() - began)


def measure_celery(url, n, concurrency, directory):
    note = directory / "celery"
    note.unlink(missing_ok=True)
    here = str(pathlib.Path(__file__).resolve().parent)
    environment = {**os.environ, "BENCH_BROKER": url, "BENCH_JOBS": str(n), "BENCH_NOTE": str(note), "PYTHONPATH": here}
    submit = f"import celery_app\nwith celery_app.app.producer_pool.acquire() as p:\n for _ in range({n}):\n"
    submit += "  celery_app.noop.apply_async(producer=p)"
    subprocess.run([sys.executable, "-c", submit], check=True, env=environment)
    words = ["-A", "celery_app", "worker", "-P", "threads", "-c", str(concurrency), "-l", "ERROR"]
    words += ["--without-gossip", "--without-mingle", "--without-heartbeat"]
    log = directory / "celery.log"
    with open(log, "wb") as output:
        worker = subprocess.Popen(
            [sys.executable, "-m", "celery", *words], env=environment, cwd=directory, stdout=output, stderr=output
        )
    try:
        until = time.monotonic() + 300
        while not note.exists() or not note.read_text():
            if worker.poll() is not None or time.monotonic() > until:
                sys.exit(log.read_text())
            time.sleep(0.05)
        return n / float(note.read_text())
    finally:
        worker.terminate()
        worker.wait()


PAIRS = (("redrive, PostgreSQL", "procrastinate, PostgreSQL"), ("redrive, Redis", "celery, Redis"))


def measure(options, postgres, redis, directory):
    """The best round of each."""
    n, concurrency = options.jobs, options.concurrency
    best = dict.fromkeys((name for pair in PAIRS for name in pair), 0.0)
    for store in ("postgres", "redis"):
        (directory / store).mkdir()
    served = [Served(postgres.url, directory / "postgres"), Served(f"{redis.url}/1", directory / "redis")]
    runs = {
        "redrive, PostgreSQL": lambda: measure_redrive(served[0].url, n, concurrency, True),
        "procrastinate, PostgreSQL": lambda: asyncio.run(measure_procrastinate(postgres.url, n, concurrency)),
        "redrive, Redis": lambda: measure_redrive(served[1].url, n, concurrency, False),
        "celery, Redis": lambda: measure_celery(f"{redis.url}/2", n, concurrency, directory),
    }
    try:
        for _ in range(options.rounds):
            for name, run in runs.items():
                best[name] = max(best[name], run())
    finally:
        for server in served:
            server.stop()
    return best


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--jobs", type=int, default=2000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--concurrency", type=int, default=20)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    logging.disable(logging.CRITICAL)
    with servers.Postgres(durable=True) as postgres, servers.Redis(durable=True) as redis:
        with tempfile.TemporaryDirectory() as directory:
            best = measure(options, postgres, redis, pathlib.Path(directory))
    if options.json:
        print(json.dumps(best))
        return
    for name, figure in best.items():
        print(f"{name:<27}{figure:>8.0f} jobs/s, concurrency {options.concurrency}, synced to disk")
    for ours, rival in PAIRS:
        print(f"{ours}: {best[ours] / best[rival]:.1f} x {rival.split(',')[0]}")


if __name__ == "__main__":
    main()
