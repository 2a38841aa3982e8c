#!/usr/bin/env python3
"""payloads - lives with payloads of 100 bytes, 10 KiB and 1 MiB, beside beanstalkd.

    bench/payloads.py [--scratch DIR]

The engine on an SQLite file with synchronous=FULL, as in bench_engine, and beanstalkd with a binlog that is synced after each write
and without one take turns; figures are medians. A batch, or a window of beanstalkd's commands, is smaller where payloads are larger.
"""
import argparse
import shutil
import statistics
import sys

import interfaces
from interfaces import row, run_rows, tool

ROUNDS, ROUND_S = 3, 4
SIZES = {"100b": (100, 256), "10kib": (10 * 1024, 64), "1mib": (1024 * 1024, 8)}  # bytes, jobs to a batch
KINDS = {"sync": "fsync", "memory": "memory"}
PAIRS = [(f"engine.lives.{size}", f"beanstalkd.{kind}.lives.{size}", "higher", None) for size in SIZES for kind in KINDS.values()]


def be_quick():
    global ROUNDS, ROUND_S
    ROUNDS, ROUND_S = 1, 1


def ours(scratch, payload, batch):
    return run_rows([tool("bench_engine"), "lives", "--dir", scratch, "--seconds", str(ROUND_S), "--jobs", "1000000",
                     "--payload", str(payload), "--batch", str(batch)])[0]["value"]


def beanstalkd(scratch, kind, payload, batch):
    return run_rows([tool("bench_beanstalkd"), kind, "--dir", scratch, "--seconds", str(ROUND_S), "--jobs", "1000000",
                     "--payload", str(payload), "--window", str(batch), "--connections", "2"])[0]["value"]


def measure(scratch):
    kinds = KINDS if shutil.which("beanstalkd") else {}
    found = {}
    for size, (payload, batch) in SIZES.items():
        for _ in range(ROUNDS):
            found.setdefault((f"engine.lives.{size}", True), []).append(ours(scratch, payload, batch))
            for kind, name in kinds.items():
                found.setdefault((f"beanstalkd.{name}.lives.{size}", kind == "sync"), []).append(
                    beanstalkd(scratch, kind, payload, batch))
    return [row(name, statistics.median(rates), "1/s", durable) for (name, durable), rates in found.items()]


def main():
    options = argparse.ArgumentParser(description="Lives with small and large payloads.")
    options.add_argument("--scratch", default=str(interfaces.BENCH), help="a folder on the disk to be measured; build-bench")
    for each in measure(options.parse_args().scratch):
        print(f"{each['name']:<32}{each['value']:>12,.1f} 1/s")


if __name__ == "__main__":
    sys.exit(main())
