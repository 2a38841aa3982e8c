"""The peers of the shared stores: where their programs come from, and what they keep.

A peer is a small program of ours in bench/peers that uses the peer's own library. The library comes
from its registry when the benchmark is built. A program is called with a command:

    lives URL JOBS CONCURRENCY    submits so many jobs in its best way, works them, waits until the store
                                  has nothing left to do, and prints {"submit_s", "work_s", "ran"}: start-up,
                                  schema and connections are in neither time
    fill URL JOBS                 submits so many jobs
    work URL CONCURRENCY          stands by and works on command, for the benchmark over a network
    feed URL RATE SECONDS         submits jobs at a rate, for the same; bench/network/contestant.c has both
"""
import pathlib
import shutil
import subprocess

SOURCES = pathlib.Path(__file__).resolve().parent.parent / "peers"
BUILD_S = 600

# What is left of a job that has ended well.
KEEPS = {
    "redrive": "the row with its payload, times and worker, until its retention; counters",
    "graphile": "nothing: the row is deleted",
    "graphile.batched": "nothing: the row is deleted; locks 500 ahead, gathers completions for 10 ms",
    "river": "the row, for 24 hours",
    "bullmq": "nothing (removeOnComplete)",
    "asynq": "nothing (no retention); a counter of the day",
}


def _build(name, bench, program, commands):
    if not shutil.which(program):
        print(f"bench: {program} is not here; {name} is left out")
        return None
    work = bench / "peers" / name
    for part in (name, "common"):
        shutil.copytree(SOURCES / part, work, dirs_exist_ok=True)
    try:
        for command in commands:
            subprocess.run(command, cwd=work, check=True, capture_output=True, timeout=BUILD_S)
    except (subprocess.CalledProcessError, subprocess.TimeoutExpired):
        print(f"bench: {name} could not be built; it is left out")
        return None
    return work


def go(name, bench):
    work = _build(name, bench, "go", [["go", "mod", "tidy"], ["go", "build", "-o", "peer", "."]])
    return work and [str(work / "peer")]


def node(name, bench):
    install = ["npm", "install", "--no-audit", "--no-fund", "--no-package-lock", "--ignore-scripts"]
    work = _build(name, bench, "npm", [install])
    return work and ["node", str(work / "main.js")]


def on_postgres(bench):
    """By name, the command of each that can be had."""
    graphile = node("graphile", bench)
    batched = graphile and [*graphile, "--batched"]
    found = {"graphile": graphile, "graphile.batched": batched, "river": go("river", bench)}
    return {name: command for name, command in found.items() if command}


def on_redis(bench):
    found = {"bullmq": node("bullmq", bench), "asynq": go("asynq", bench)}
    return {name: command for name, command in found.items() if command}
