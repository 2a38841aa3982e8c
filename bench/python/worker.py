#!/usr/bin/env python3
"""How many jobs a second one worker carries out: Redrive and Procrastinate, on one PostgreSQL server, in turns.

    build/python-env/bin/pip install -r bench/python/requirements.txt
    build/python-env/bin/python bench/python/worker.py [--jobs N] [--rounds N] [--concurrency N] [--json]

Tasks are coroutines that do nothing. Both have fsync and synchronous_commit on: a job that is settled is on
disk. Jobs are submitted before the clock starts. The figure is the best round; Redrive's worker speaks HTTP to a
`redrive serve`, whose time counts as well. Worker and server run on this machine.
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
    """A `redrive serve` on the PostgreSQL store."""

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


def measure_redrive(url, n, concurrency):
    app = redrive.App(url)

    @app.task(name="noop")
    async def noop():
        pass

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


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--jobs", type=int, default=2000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--concurrency", type=int, default=20)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    logging.disable(logging.CRITICAL)
    best = {"redrive": 0.0, "procrastinate": 0.0}
    with servers.Postgres(durable=True) as postgres, tempfile.TemporaryDirectory() as directory:
        served = Served(postgres.url, pathlib.Path(directory))
        try:
            for _ in range(options.rounds):
                figure = measure_redrive(served.url, options.jobs, options.concurrency)
                best["redrive"] = max(best["redrive"], figure)
                figure = asyncio.run(measure_procrastinate(postgres.url, options.jobs, options.concurrency))
                best["procrastinate"] = max(best["procrastinate"], figure)
        finally:
            served.stop()
    if options.json:
        print(json.dumps(best))
    else:
        for name, figure in best.items():
            print(f"{name:<15}{figure:>8.0f} jobs/s, concurrency {options.concurrency}, PostgreSQL with fsync")


if __name__ == "__main__":
    main()
