#!/usr/bin/env python3
"""comparison - docs/comparison.md, from what one run of `make bench` has measured.

    bench/comparison.py BUILD_DIR/bench.json docs/comparison.md

`make bench` then `make comparison`. The page has every peer with its version, settings, durability and command line, and each figure of
ours beside those of peers, from the same run. What a run has left out is left out of the page.
"""
import json
import os
import pathlib
import platform
import re
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE / "stores"), str(HERE / "network")]
import peers  # noqa: E402
from tables import markdown, table  # noqa: E402

DURABLE = {True: "survives power loss", False: "lost with the power", None: ""}

# name, whose version, settings, what is durable when it is answered, how to run it alone
PEERS = [
    ("Redrive", "redrive", "SQLite in the process with `synchronous=FULL`, or PostgreSQL or Redis as below", "every answer",
     "`build-bench/bench/bench_engine lives`, `build-bench/bench/bench_work`"),
    ("beanstalkd with a binlog", "beanstalkd", "`-b DIR -f0`: an fsync after each write", "every answer", "`build-bench/bench/bench_beanstalkd sync`"),
    ("beanstalkd", "beanstalkd", "no binlog", "nothing", "`build-bench/bench/bench_beanstalkd memory`"),
    ("Faktory", "faktory", "as it comes: Redis with snapshots after 30 s or 120 s", "what was answered up to 30 s or 120 s ago",
     "`bench/faktory_load.py`"),
    ("Faktory, synced", "faktory", "its Redis with `appendonly yes`, `appendfsync always`", "every answer", "`bench/faktory_load.py`"),
    ("graphile-worker", "graphile", "`pollInterval: 100`, 100 concurrent jobs", "as PostgreSQL",
     "`bench/stores/stores.py build-bench postgres`"),
    ("graphile-worker, batched", "graphile", "and a local queue of 500, completions gathered for 10 ms",
     "as PostgreSQL; completions up to 10 ms later", "`bench/stores/stores.py build-bench postgres`"),
    ("River", "river", "`FetchPollInterval` 10 ms, the least `FetchCooldown`, 100 workers", "as PostgreSQL",
     "`bench/stores/stores.py build-bench postgres`"),
    ("BullMQ", "bullmq", "`removeOnComplete`, concurrency 100", "as Redis", "`bench/stores/stores.py build-bench redis`"),
    ("Asynq", "asynq", "concurrency 100, no retention", "as Redis", "`bench/stores/stores.py build-bench redis`"),
    ("gobreaker", "gobreaker", "its defaults", "", "`build-bench/peers/gobreaker/peer`"),
    ("PostgreSQL", "postgres", "`fsync=on`, `synchronous_commit=on`, `shared_buffers=64MB`", "every commit", "started by the benchmark"),
    ("Redis", "redis", "`appendonly yes`, `appendfsync always`, or `everysec` where a row says so", "every answer; `everysec`: one second is lost",
     "started by the benchmark"),
]

# title, ours, the others by name, better
FIGURES = [
    ("Jobs a second, in the process, on SQLite", "engine.lives",
     {"beanstalkd with a binlog": "beanstalkd.fsync.lives", "beanstalkd": "beanstalkd.memory.lives"}, "higher"),
    *((f"The same with payloads of {text}", f"engine.lives.{size}",
       {"beanstalkd with a binlog": f"beanstalkd.fsync.lives.{size}", "beanstalkd": f"beanstalkd.memory.lives.{size}"}, "higher")
      for size, text in (("100b", "100 bytes"), ("10kib", "10 KiB"), ("1mib", "1 MiB"))),
    ("Jobs a second through the Faktory protocol, pipelined", "serve.faktory.lives",
     {"beanstalkd with a binlog": "beanstalkd.fsync.lives", "beanstalkd": "beanstalkd.memory.lives", "Faktory": "faktory.lives"}, "higher"),
    *((f"Jobs a second by Faktory's load tool, {threads} threads", f"load_tool.redrive.{threads}",
       {"Faktory": f"load_tool.faktory.{threads}", "Faktory, synced": f"load_tool.faktory_fsync.{threads}"}, "higher")
      for threads in (4, 64)),
    ("Jobs a second on PostgreSQL, one process, loopback", "postgres.lives",
     {"graphile-worker": "graphile.lives", "graphile-worker, batched": "graphile.batched.lives", "River": "river.lives"}, "higher"),
    ("Jobs a second on Redis, one process, loopback", "redis.lives", {"BullMQ": "bullmq.lives", "Asynq": "asynq.lives"}, "higher"),
    ("Jobs a second on Redis with `everysec`", "redis.everysec.lives",
     {"BullMQ": "bullmq.everysec.lives", "Asynq": "asynq.everysec.lives"}, "higher"),
    ("A guarded call of a closed breaker", "core.breaker_guarded", {"gobreaker": "gobreaker.closed"}, "lower"),
    ("JSON envelopes a second", "json.docs", {"cJSON": "cjson.docs", "jansson": "jansson.docs"}, "higher"),
]


# ---- When it is measured -------------------------------------------------------------------------


def said(*command):
    """The first number with dots that a program says of itself, or nothing."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=20)
    except OSError:
        return ""
    found = re.search(r"\d+\.\d+(\.\d+)*", done.stdout + done.stderr)
    return found[0] if found else ""


def pinned(name):
    """The version of a peer's library, as its program here asks for it."""
    for text in ((peers.SOURCES / name / file) for file in ("go.mod", "package.json")):
        if text.exists() and (found := re.search(rf'{name}[\w./-]*"?:?\s+"?v?(\d+\.\d+\.\d+)', text.read_text())):
            return found[1]
    return ""


def about_machine(file_system):
    """What a reader has to know about a run, for bench.json."""
    root = HERE.parent
    commit = subprocess.run(["git", "-C", str(root), "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False)
    versions = {name: pinned(name) for name in ("faktory", "graphile", "river", "bullmq", "asynq", "gobreaker")}
    versions |= {"beanstalkd": said("beanstalkd", "-v"), "redis": said("redis-server", "--version"), "postgres": said("pg_config", "--version"),
                 "redrive": commit.stdout.strip()}
    return {"processors": os.cpu_count(), "architecture": platform.machine(), "kernel": platform.release().split("-")[0],
            "file_system": file_system, "load": round(os.getloadavg()[0], 1), "versions": versions}


# ---- The page ------------------------------------------------------------------------------------

HEAD = """# Comparison

`make bench`, then `make comparison`: this page is made from the figures of one run, and nothing on it is written by hand. Figures of one
run are comparable with each other and with nothing else; what they mean and what bounds them is in [performance.md](performance.md). A
job is submitted, claimed and settled, does nothing, and has a payload of 100 bytes unless a row says otherwise. Contestants take turns;
figures are medians.
"""

NETWORK = """Between worker processes of 20 slots and the store is a network that delays each byte by half of the round trip; graphile-worker,
batched, locks 100 jobs ahead here. Server, workers and network share the processors of one machine. The loads are shares of what the
contestant itself reached with one process at 1 ms.
"""


def figure(row):
    value, unit = row["value"], "" if row["unit"] in ("1/s", "docs/s") else f" {row['unit']}"
    return (f"{value:,.0f}" if value >= 100 else f"{value:,.1f}") + unit


def figure_lines(rows):
    by_name = {row["name"]: row for row in rows}
    for title, ours, others, better in FIGURES:
        mine = by_name.get(ours)
        theirs = {shown: by_name[name] for shown, name in others.items() if name in by_name}
        if not mine or not theirs:
            continue
        yield [title, "**Redrive**", figure(mine), DURABLE[mine["durable"]], ""]
        for shown, peer in theirs.items():
            ratio = mine["value"] / peer["value"] if better == "higher" else peer["value"] / mine["value"]
            yield ["", shown, figure(peer), DURABLE[peer["durable"]], f"{ratio:.2f} ×"]


def page(measured):
    about = measured["about"]
    out = [HEAD, f"This run: {about['processors']} processors ({about['architecture']}), Linux {about['kernel']}, {about['file_system']}, load "
           f"{about['load']} when it began.", "", "## Figures", ""]
    out += table(["What", "Who", "Figure", "What was answered", "Redrive is"], figure_lines(measured["rows"]), numbers=False)
    if network := markdown(measured["rows"]):
        out += ["## Over a network", "", NETWORK, *network]
    out += ["## Who was measured, and how", ""]
    out += table(["Who", "Version", "Settings", "Durable", "Alone"],
                 ([name, about["versions"].get(version) or "–", settings, durable, command]
                  for name, version, settings, durable, command in PEERS), numbers=False)
    out += ["What is left of a job that has ended well:", ""]
    out += [f"- {name}: {kept}." for name, kept in peers.KEEPS.items()]
    return "\n".join(out) + "\n"


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__.strip())
    try:
        measured = json.loads(pathlib.Path(sys.argv[1]).read_text(encoding="utf-8"))
        text = page(measured)
    except FileNotFoundError:
        sys.exit(f"comparison: {sys.argv[1]} is not there: run `make bench` first")
    except (ValueError, KeyError) as e:
        sys.exit(f"comparison: {sys.argv[1]} is not from this version of `make bench` ({e!r}): run it again")
    pathlib.Path(sys.argv[2]).write_text(text, encoding="utf-8")
    print(f"comparison: {sys.argv[2]}")


if __name__ == "__main__":
    main()
