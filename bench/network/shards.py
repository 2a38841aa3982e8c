#!/usr/bin/env python3
"""shards - one process for four tenants, on one server and on four shards, over a network.

    bench/network/shards.py BUILD [--kinds postgres,redis] [--threads N] [--seconds S] [--rounds N] [--round-trip-ms MS]

BUILD has bench/bench_shards (network/shards.c) and bench/delay_proxy. docs/performance.md, "Shards", says what is measured.
"""
import argparse
import contextlib
import json
import pathlib
import statistics
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent.parent))
from tests.kit import servers  # noqa: E402
from tests.kit.delay import DelayProxy  # noqa: E402

N_SHARDS = 4
RUN_S = 300  # nothing may take longer
FIGURES = ("jobs_per_s", "cancels_per_s")


def place_on(server, network, name):
    """The URL of an empty store, by way of the network."""
    if isinstance(server, servers.Redis):
        return f"{network.url}?prefix={name}"
    server.sql(f"CREATE DATABASE {name}")
    return f"{network.url.rsplit('/', 1)[0]}/{name}"


def run_program(options, url):
    program = pathlib.Path(options.build) / "bench" / "bench_shards"
    done = subprocess.run([str(program), url, str(N_SHARDS), str(options.threads), str(options.seconds)],
                          stdout=subprocess.PIPE, text=True, check=True, timeout=RUN_S)
    return json.loads(done.stdout)


def measure(options, kind):
    rows = {"one": [], "four": []}
    with contextlib.ExitStack() as stack:
        own = [stack.enter_context(servers.KINDS[kind]()) for _ in range(N_SHARDS)]
        ways = [stack.enter_context(DelayProxy(server, options.round_trip_ms, options.build)) for server in own]
        for number in range(options.rounds):
            one = place_on(own[0], ways[0], f"one{number}")
            four = [place_on(server, way, f"four{number}") for server, way in zip(own, ways)]
            for name, url in (("one", one), ("four", "shards:" + " ".join(four))):
                rows[name].append(run_program(options, url))
    for figure in FIGURES:
        one, four = (statistics.median(row[figure] for row in rows[name]) for name in ("one", "four"))
        print(json.dumps({"store": kind, "figure": figure, "one": one, "four": four, "ratio": round(four / one, 2)}))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("build")
    parser.add_argument("--kinds", default="postgres,redis")
    parser.add_argument("--threads", type=int, default=4)
    parser.add_argument("--seconds", type=float, default=3)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--round-trip-ms", type=float, default=1)
    options = parser.parse_args()
    for kind in options.kinds.split(","):
        measure(options, kind)


main()
