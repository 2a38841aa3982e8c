#!/usr/bin/env python3
"""report - the tables of docs/scale.md, in Markdown, from what measure.py has printed.

    bench/scale/report.py FIGURES.json
"""
import json
import pathlib
import statistics
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import model  # noqa: E402

CORES = {"sqlite": 1, "postgres": 8, "redis": 1}  # that a server of the tables below can use
SHOWN = {"sqlite": "SQLite", "postgres": "PostgreSQL", "redis": "Redis"}
SLOTS = 20
NET = model.Setting(round_trip=0.5e-3, sync=0.5e-3)  # a data centre, and a disk that is nobody else's
REMOVAL = 0.8  # jobs a second with retention to without, measured on SQLite (docs/performance.md)
IN_CALL = 100  # jobs in a submit
# Jobs a second over a network (the last ones are in docs/comparison.md): store, round trip in ms, processes, on three days.
QUIET = (("postgres", 0, 1, 10968, 25427, 21168), ("postgres", 0, 8, 17278, 21638, 34012), ("postgres", 1, 1, 10792, 15038, 17901),
         ("postgres", 1, 8, 19637, 21699, 25088), ("redis", 1, 1, 12608, 18299, 17168), ("redis", 1, 8, 21682, 31750, 32683))
QUIET_SYNC_S = 0.5e-3


def number(value, digits=0):
    return "–" if value is None else f"{value:,.{digits}f}".replace(",", " ")


def table(head, rows):
    print("| " + " | ".join(head) + " |")
    print("|---" + "|---:" * (len(head) - 1) + "|")
    for row in rows:
        print("| " + " | ".join(row) + " |")
    print()


def costs(figures):
    print("### Costs of a job that is claimed and settled\n")
    rows = model.cost_rows(figures)
    table(["store", "slots", "jobs in a transaction", "server, µs", "worker, µs", "log, bytes", "fsyncs", "round trips",
           "network, bytes"],
          ([SHOWN[row["store"]], str(row["slots"]), number(1 / row["syncs"]), number(row["server_us"], 0),
            number(row["worker_us"], 0), number(row["log_bytes"]), number(row["syncs"], 3), number(row["round_trips"], 3),
            number(row["network_bytes"])] for row in rows))
    print("### Costs of a submit\n")
    rows = model.submit_rows(figures)
    table(["store", "jobs in a transaction", "server, µs", "client, µs", "log, bytes"],
          ([SHOWN[row["store"]], number(row["in_call"], 1), number(row["server_us"]), number(row["client_us"]),
            number(row["log_bytes"] or None)] for row in rows))


def fits(figures):
    print("### A transaction: fixed part + part for each job\n")
    rows = []
    for name in SHOWN:
        store = model.store_of(figures, name)
        rows.append([SHOWN[name], *(f"{number(cost.fixed * 1e6)} + {number(cost.each * 1e6, 1)}" for cost in
                                    (store.server, store.worker)),
                     f"{number(store.log_bytes.fixed)} + {number(store.log_bytes.each)}", number(store.trips, 1)])
    table(["store", "server, µs", "worker, µs", "log, bytes", "round trips"], rows)


def life_us(figures, name, batch, in_call=IN_CALL):
    """Processor time of the server for the life of a job: submit, claim, settle, vacuum, removal."""
    store = model.store_of(figures, name)
    server, client = model.submit_of(figures, name)
    if name == "sqlite":
        return (store.worker.of(batch) + client.of(in_call)) * 1e6 / REMOVAL
    vacuum = min((row["vacuum_us"] for row in figures["costs"] if row["store"] == name and "vacuum_us" in row), default=0)
    return ((store.server.of(batch) + server.of(in_call)) * 1e6 + vacuum) / REMOVAL


def holds(figures):
    print(f"### What one holds: calls of {IN_CALL}, {NET.round_trip * 1e3:g} ms of network, {NET.sync * 1e3:g} ms for an fsync\n")
    rows = []
    for name, cores in CORES.items():
        store = model.store_of(figures, name, cores)
        for batch in (5, 20, 80):
            whole = life_us(figures, name, batch)
            most = cores / whole * 1e6
            if name == "sqlite":  # a submit and a turn have the file for themselves until they are on disk
                most = batch / (NET.sync * 2 + batch * whole / 1e6)
            log = most * (store.log_bytes.of(batch) + (model.submit_log(figures, name, IN_CALL)))
            rows.append([SHOWN[name], str(cores), str(batch), number(whole), number(most), number(0.5 * most),
                         number(log / 1e6)])
    table(["store", "cores", "jobs in a transaction", "processor time of a life, µs", "jobs/s at most", "at 50 %", "log, MB/s"], rows)


def latencies(figures):
    print("### From submit to start by load of the server, calls and claims of 10 jobs: p50, p99 in ms\n")
    rows = []
    for name in ("postgres", "redis"):
        store = model.store_of(figures, name, CORES[name])
        submit, _ = model.submit_of(figures, name)
        rows.append([SHOWN[name], *(", ".join(number(model.start_latency(store, NET, submit, load, share) * 1e3, 1)
                                              for share in (0.5, 0.99)) for load in (0.5, 0.7, 0.9))])
    table(["store", "50 %", "70 %", "90 %"], rows)


def predicted(figures, row, shards=1):
    store = model.store_of(figures, row["store"])
    batch = model.batch_of(store, SLOTS)
    proxy = model.proxy_of(figures, row["store"])
    setting = model.Setting(row["round_trip_ms"] / 1e3, row["sync_ms"] / 1e3, shared_processors=row["processors"], proxy=proxy)
    return model.throughput(store, setting, row["processes"], batch, shards)


def compare(figures, part, keys):
    """Medians of the rounds; the last two columns are to one process or one shard, as predicted and as measured."""
    groups, first, off, rows = {}, {}, [], []
    for row in figures.get(part, ()):
        if row["rate"] > 0:
            groups.setdefault(tuple(row[key] for key in keys), []).append(row)
    for key, same in sorted(groups.items()):
        middle = lambda name: statistics.median(row[name] for row in same)  # noqa: E731, B023
        guess = statistics.median(predicted(figures, row, row.get("shards", 1)) for row in same)
        one = first.setdefault(key[:-1], (guess, middle("rate")))
        off.append(guess / middle("rate"))
        rows.append([SHOWN[key[0]], *(f"{part:g}" for part in key[1:]), str(len(same)), number(middle("load")),
                     number(middle("processors"), 2), number(middle("sync_ms"), 1), number(guess), number(middle("rate")),
                     number(off[-1], 2), f"{guess / one[0]:.1f}, {middle('rate') / one[1]:.1f}"])
    table(["store", "round trip, ms", keys[-1], "rounds", "load", "processors", "fsync, ms", "predicted", "measured", "ratio",
           "to one"], rows)
    if off:
        print(f"predicted to measured: median {statistics.median(off):.2f}, from {min(off):.2f} to {max(off):.2f}\n")


def quiet(figures):
    print("### Beside the figures of docs/comparison.md: two processors, little other load\n")
    rows = []
    for name, round_trip_ms, processes, *rates in QUIET:
        store = model.store_of(figures, name)
        setting = model.Setting(round_trip_ms / 1e3, QUIET_SYNC_S, shared_processors=2, proxy=model.proxy_of(figures, name))
        guess = model.throughput(store, setting, processes, model.batch_of(store, SLOTS))
        rows.append([SHOWN[name], f"{round_trip_ms:g}", str(processes), number(guess), ", ".join(map(number, rates))])
    table(["store", "round trip, ms", "processes", "predicted", "measured, on three days"], rows)


def main():
    figures = json.loads(pathlib.Path(sys.argv[1]).read_text("utf-8"))
    costs(figures)
    fits(figures)
    holds(figures)
    latencies(figures)
    quiet(figures)
    compare(figures, "points", ("store", "round_trip_ms", "processes"))
    compare(figures, "shards", ("store", "round_trip_ms", "shards"))


if __name__ == "__main__":
    main()
