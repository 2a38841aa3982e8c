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
import importlib.metadata
import json
import logging
import os
import pathlib
import platform
import signal
import subprocess
import sys
import tempfile
import time

import procrastinate
import redrive

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))
from tests.kit import servers  # noqa: E402

BINARY = os.environ.get("REDRIVE_BIN", str(ROOT / "build" / "redrive"))


class Served(servers.ThrowAway):
    """A `redrive serve` on a store; it ends with this process, however that ends."""

    name = "serve"

    def __init__(self, store):
        self._store = store
        super().__init__(durable=True)

    @property
    def url(self):
        return f"http://127.0.0.1:{self.port}"

    def command(self):
        config = self.folder / "redrive.yaml"
        listen = {"http": f"127.0.0.1:{self.port}", "faktory": "off"}
        config.write_text(json.dumps({"store": self._store, "listen": listen}))
        return [BINARY, "serve", "-c", str(config)]

    def answers(self):
        return "serving" in self.log.read_text()


class CeleryWorker(servers.ThrowAway):
    """A `celery worker` of celery_app.py, which it finds by the environment."""

    name = "celery"

    def __init__(self, concurrency):
        self._concurrency = concurrency
        super().__init__(durable=True)

    def command(self):
        words = ["-A", "celery_app", "worker", "-P", "threads", "-c", str(self._concurrency), "-l", "ERROR"]
        words += ["--without-gossip", "--without-mingle", "--without-heartbeat"]
        return [sys.executable, "-m", "celery", *words]

    def answers(self):
        return True  # its note says when it was ready


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
    os.environ |= {"BENCH_BROKER": url, "BENCH_JOBS": str(n), "BENCH_NOTE": str(note), "PYTHONPATH": here}
    submit = f"import celery_app\nwith celery_app.app.producer_pool.acquire() as p:\n for _ in range({n}):\n"
    submit += "  celery_app.noop.apply_async(producer=p)"
    subprocess.run([sys.executable, "-c", submit], check=True)
    with CeleryWorker(concurrency) as worker:
        until = time.monotonic() + 300
        while not note.exists() or not note.read_text():
            if worker.process.poll() is not None or time.monotonic() > until:
                sys.exit(worker.log.read_text())
            time.sleep(0.05)
        return n / float(note.read_text())


PAIRS = (("redrive, PostgreSQL", "procrastinate, PostgreSQL"), ("redrive, Redis", "celery, Redis"))


def measure(options, postgres, redis, directory):
    """The best round of each."""
    n, concurrency = options.jobs, options.concurrency
    best = dict.fromkeys((name for pair in PAIRS for name in pair), 0.0)
    with Served(postgres.url) as on_postgres, Served(f"{redis.url}/1") as on_redis:
        runs = {
            "redrive, PostgreSQL": lambda: measure_redrive(on_postgres.url, n, concurrency, True),
            "procrastinate, PostgreSQL": lambda: asyncio.run(measure_procrastinate(postgres.url, n, concurrency)),
            "redrive, Redis": lambda: measure_redrive(on_redis.url, n, concurrency, False),
            "celery, Redis": lambda: measure_celery(f"{redis.url}/2", n, concurrency, directory),
        }
        for _ in range(options.rounds):
            for name, run in runs.items():
                best[name] = max(best[name], run())
    return best


def versions(postgres, redis):
    """Of all that is measured."""
    packages = [f"{name} {importlib.metadata.version(name)}" for name in ("redrive", "procrastinate", "celery")]
    information = dict(line.split(":", 1) for line in redis.call("INFO", "server").split("\r\n") if ":" in line)
    stores = [f"PostgreSQL {postgres.sql('SHOW server_version')}", f"Redis {information['redis_version']}"]
    return [*packages, *stores, f"CPython {platform.python_version()}"]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--jobs", type=int, default=2000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--concurrency", type=int, default=20)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--check", action="store_true", help="fail unless Redrive is twice as fast as Procrastinate")
    options = parser.parse_args()
    logging.disable(logging.CRITICAL)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that the servers' folders are removed
    with servers.Postgres(durable=True) as postgres, servers.Redis(durable=True) as redis:
        names = versions(postgres, redis)
        with tempfile.TemporaryDirectory() as directory:
            best = measure(options, postgres, redis, pathlib.Path(directory))
    if options.json:
        print(json.dumps({"versions": names, "jobs_per_second": best}))
    else:
        print(", ".join(names))
        for name, figure in best.items():
            print(f"{name:<27}{figure:>8.0f} jobs/s, concurrency {options.concurrency}, synced to disk")
        for ours, rival in PAIRS:
            print(f"{ours}: {best[ours] / best[rival]:.1f} x {rival.split(',')[0]}")
    ours, rival = PAIRS[0]
    if options.check and best[ours] < 2 * best[rival]:
        sys.exit("less than twice as fast as Procrastinate")


if __name__ == "__main__":
    main()
