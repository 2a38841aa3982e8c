#!/usr/bin/env python3
"""faktory_load - Faktory's own load tool, against Redrive and against Faktory's server, in turn.

    bench/faktory_load.py [--threads 1,4,16,64] [--jobs N] [--rounds N] [--scratch DIR]

A part of `make bench`, with 4 and 64 threads; by itself it prints a table.

The tool (test/load of Faktory's module) opens a connection for each thread. Half of the threads push jobs to five queues, one at a
time, and wait for each answer; the other half fetch and acknowledge, and fail one in a hundred. A single thread only pushes. Server
and tool are built with Go in build-bench, beside `redrive` (`make bench` builds it). Redrive keeps its jobs in an SQLite file with
synchronous=FULL: what it has answered survives a power failure. Faktory's server keeps them in a Redis with its own settings, which
lose what came after the last snapshot, and once more in one that syncs its log before each answer, as ours does.
"""
import argparse
import contextlib
import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import interfaces  # noqa: E402

LIMIT_S = 120
THREADS, JOBS, ROUNDS = (4, 64), 20000, 3  # as a part of make bench
DURABLE = {"redrive": True, "faktory": False, "faktory, fsync": True}
PAIRS = [(f"load_tool.redrive.{threads}", f"load_tool.{rival}.{threads}", "higher", None)
         for threads in THREADS for rival in ("faktory", "faktory_fsync")]


def build_tool():
    """The load tool, or None with a word. Faktory's server has been built."""
    work = interfaces.BENCH / "peers" / "faktory"
    command = ["go", "build", "-mod=mod", "-o", "load", "github.com/contribsys/faktory/test/load"]
    done = subprocess.run(command, cwd=work, check=False, capture_output=True, text=True, timeout=300)
    if done.returncode != 0:
        print(f"bench: Faktory's load tool could not be built: {done.stderr.strip()[-200:]}")
        return None
    return work / "load"


def run_tool(tool, port, jobs, threads):
    """Jobs a second."""
    said = subprocess.run([str(tool), str(jobs), str(threads)], check=True, capture_output=True, text=True, timeout=LIMIT_S,
                          env=os.environ | {"FAKTORY_URL": f"tcp://127.0.0.1:{port}"}).stdout
    rate = re.search(r"^Processed \d+ pushes and \d+ pops in .* rate: ([\d.]+) jobs/s$", said, re.M)
    others = [line for line in said.splitlines() if not line.startswith(("Running loadtest", "Processed"))]
    if not rate or others:
        raise RuntimeError(f"the load tool has failed: {said[-500:]}")
    return float(rate[1])


@contextlib.contextmanager
def ours(scratch):
    with interfaces.serve(scratch) as server:
        yield server.faktory


def measure(scratch, tool, contestants, threads, jobs, rounds):
    """{contestant: median of jobs a second}, each with a new server in each round."""
    rates = {name: [] for name in contestants}
    for _ in range(rounds):
        for name, start in contestants.items():
            with start(scratch) as port:
                rates[name].append(run_tool(tool, port, jobs, threads))
    return {name: statistics.median(found) for name, found in rates.items()}


def contestants_with(program):
    return {"redrive": ours,
            "faktory": lambda scratch: interfaces.faktory_server(scratch, program),
            "faktory, fsync": lambda scratch: interfaces.faktory_server(scratch, program, fsync=True)}


def rows_of(scratch):
    """Of the load tool with few and with many threads; none, with a word, where it cannot be had."""
    program = interfaces.build_faktory()
    tool = program and build_tool()
    rows = []
    for threads in THREADS if tool else ():
        try:
            rates = measure(scratch, tool, contestants_with(program), threads, JOBS, ROUNDS)
        except (RuntimeError, subprocess.TimeoutExpired) as trouble:
            print(f"bench: Faktory's load tool with {threads} threads is left out: {trouble}")
            continue
        rows += [interfaces.row(f"load_tool.{name.replace(', ', '_')}.{threads}", rate, "1/s", DURABLE[name])
                 for name, rate in rates.items()]
    return rows


def main():
    options = argparse.ArgumentParser(description="Faktory's own load tool, against Redrive and against Faktory's server.")
    options.add_argument("--threads", default="1,4,16,64")
    options.add_argument("--jobs", type=int, default=30000)
    options.add_argument("--rounds", type=int, default=3)
    options.add_argument("--scratch", default=None, help="a folder on a real disk; a temporary one below build-bench")
    given = options.parse_args()
    program = interfaces.build_faktory()
    tool = program and build_tool()
    if not tool:
        sys.exit("faktory_load: it needs Go, redis-server and Faktory's module")
    contestants = contestants_with(program)
    with tempfile.TemporaryDirectory(prefix="faktory-load-", dir=given.scratch or interfaces.BENCH) as scratch:
        print("threads  " + "".join(f"{name:>18}" for name in contestants) + "   redrive / faktory, / with fsync")
        for threads in map(int, given.threads.split(",")):
            jobs = given.jobs if threads > 1 else given.jobs // 10
            rates = measure(scratch, tool, contestants, threads, jobs, given.rounds)
            first, second, third = rates.values()
            print(f"{threads:7}  " + "".join(f"{rate:16.0f}/s" for rate in rates.values()) +
                  f"   {first / second:.2f}, {first / third:.2f}", flush=True)


if __name__ == "__main__":
    main()
