#!/usr/bin/env python3
"""measure - what a job costs a store and its workers, and how fast 1 to 8 processes and 1 to 4 shards are.

    bench/scale/measure.py BUILD_DIR [--stores sqlite,…] [--parts costs,busy,submits,points,shards]
        [--round-trips-ms 1,…] [--rounds N] [--json FILE]

BUILD_DIR is a release build (build-bench). Prints JSON; model.py and fleet.py read it. Servers are durable: `fsync` and
`synchronous_commit` on, `appendfsync always`, `synchronous=FULL`. Jobs do nothing and have a payload of 100 bytes.

costs    of a job that is claimed and settled by one process, by number of slots: processor time of the server and of the
         worker, bytes of the log, calls of fsync, round trips and bytes on the network. These hardly depend on who else
         uses the machine.
busy     the processor times again, with four processes that keep the server busy.
submits  the same of a submit, by jobs in a call; on SQLite of a thousand, and without the log.
points   jobs a second of 1, 2, 4 and 8 processes of 20 slots, with networks of 1, 20 and 100 ms.
shards   jobs a second of two processes of 20 slots on 1, 2 and 4 shards, with a network of 20 ms.

Points depend on who else is there. Before each of them three things are measured that the model is told: how many processors a
program of that shape gets (processes that only compute, in as many sessions), how long an fdatasync takes, and the load.
"""
import argparse
import contextlib
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path[:0] = [str(ROOT / "bench" / "network"), str(ROOT / "bench" / "stores"), str(ROOT)]
from tests.kit import servers  # noqa: E402
from tests.kit.delay import DelayProxy  # noqa: E402
from stores import processor_s  # noqa: E402
from workers import Team, Trouble  # noqa: E402

SLOTS = (1, 5, 20, 60)  # of the process whose costs are measured
BUSY_SLOTS, BUSY_PROCESSES = (1, 5, 20), 4
FEED_RATES = (200, 20000)  # jobs a second; what is due goes in one call
FEED_S = 3
BULK = 1000  # jobs in a call of bench_work submit
POINT_SLOTS = 20
POINT_MS = (1, 20, 100)
PROCESSES = (1, 2, 4, 8)
SHARDS, SHARD_PROCESSES, SHARD_MS = (1, 2, 4), 2, 20
TENANTS = 12
JOBS = 40000
START_S, ROUND_S = 3, 4
SPIN_S = 0.6
RUN_S = 180
SETTINGS = {"postgres": {"shared_buffers": "256MB", "max_wal_size": "4GB", "max_connections": "100"},
            "redis": {"auto-aof-rewrite-percentage": "0"}}
PARTS = ("costs", "busy", "submits", "points", "shards")

SPIN = f"""import time
end = time.monotonic() + {SPIN_S}; start = time.process_time()
while time.monotonic() < end: pass
print((time.process_time() - start) / {SPIN_S})"""


def call(command):
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, timeout=RUN_S,
                          cwd=tempfile.gettempdir()).stdout


# ---- The machine ---------------------------------------------------------------------------------


def processors_for(n_servers, n_workers):
    """Processors that programs get which compute without a pause: each server in a session of its own, the workers in one."""
    apart = [subprocess.Popen([sys.executable, "-c", SPIN], stdout=subprocess.PIPE, text=True, start_new_session=True)
             for _ in range(n_servers)]
    ours = [subprocess.Popen([sys.executable, "-c", SPIN], stdout=subprocess.PIPE, text=True) for _ in range(n_workers)]
    return sum(float(one.communicate()[0]) for one in apart + ours)


def sync_ms(times=30):
    """The mean time of an fdatasync after 4 KiB more, in the folder of the servers."""
    with tempfile.NamedTemporaryFile() as file:
        took = []
        for _ in range(times):
            file.write(b"x" * 4096)
            file.flush()
            start = time.monotonic()
            os.fdatasync(file.fileno())
            took.append(time.monotonic() - start)
    return statistics.mean(took) * 1000


def machine(n_servers, n_workers):
    return {"processors": processors_for(n_servers, n_workers), "sync_ms": sync_ms(), "load": os.getloadavg()[0]}


# ---- Stores --------------------------------------------------------------------------------------


class SqliteFile:
    """No server: the workers write the file, so that what they write is the log and the checkpoints of it."""

    name = "sqlite"

    def __init__(self, bench):
        self.bench = bench
        self.n = 0

    def close(self):
        pass

    def place(self):
        self.n += 1
        self.path = pathlib.Path(tempfile.gettempdir()) / f"scale-{self.n}.db"
        return f"sqlite:{self.path}"

    def network(self, _):
        return None

    def server_s(self):
        return 0

    def log_bytes(self):
        return 0

    def syncs(self):
        return 0

    def commits(self):
        return 0


class OnServer:
    """A server of PostgreSQL or Redis with a place for each run."""

    def __init__(self, bench, kind):
        self.bench, self.name, self.n = bench, kind, 0
        self.server = servers.KINDS[kind](durable=True, settings=SETTINGS[kind].items())

    def close(self):
        self.server.close()

    def place(self):
        self.n += 1
        if self.name == "redis":
            self.server.call("FLUSHALL")
            return f"{self.server.url}?prefix=p{self.n}"
        self.server.sql(f"CREATE DATABASE p{self.n}")
        if self.n > 1:
            self.server.sql(f"DROP DATABASE p{self.n - 1} WITH (FORCE)")
        self.server.sql("CHECKPOINT")
        return f"{self.server.url.rsplit('/', 1)[0]}/p{self.n}"

    def network(self, round_trip_ms):
        return DelayProxy(self.server, round_trip_ms, self.bench)

    def server_s(self):
        return processor_s(self.server.process.pid)

    def log_bytes(self):
        if self.name == "postgres":
            return int(float(self.server.sql("SELECT pg_current_wal_insert_lsn() - '0/0'")))
        return sum(file.stat().st_size for file in (self.server.folder / "appendonlydir").iterdir())

    def syncs(self):
        """Of the log; Redis does not count them."""
        return int(self.server.sql("SELECT wal_sync FROM pg_stat_wal")) if self.name == "postgres" else 0

    def commits(self):
        """Each is an fsync; on Redis calls of functions, nearly all of them commits while jobs are only submitted."""
        if self.name == "postgres":
            return self.syncs()
        said = self.server.call("INFO", "commandstats").splitlines()
        return sum(int(line.split("calls=")[1].split(",")[0]) for line in said if line.startswith("cmdstat_fcall:"))

    def vacuum(self):
        if self.name == "postgres":
            self.server.sql("VACUUM", f"p{self.n}")


def open_store(bench, kind):
    return SqliteFile(bench) if kind == "sqlite" else OnServer(bench, kind)


def written_bytes(pid):
    with open(f"/proc/{pid}/io", encoding="ascii") as io:
        return int(next(line for line in io if line.startswith("wchar")).split()[1])


class Syncs:
    """Calls of fsync and fdatasync of a process and its threads, by strace."""

    def __init__(self, pid):
        self.file = tempfile.NamedTemporaryFile("r")
        self.tracer = subprocess.Popen(["strace", "-f", "-q", "-e", "trace=fsync,fdatasync", "-o", self.file.name, "-p",
                                        str(pid)], stderr=subprocess.DEVNULL)
        time.sleep(0.5)

    def close(self):
        self.tracer.terminate()
        self.tracer.wait()
        return sum("sync(" in line for line in self.file)


# ---- Runs ----------------------------------------------------------------------------------------


def fill(bench, url, jobs):
    call([str(bench / "bench" / "bench_work"), "submit", url, str(jobs)])


def fill_tenants(bench, url, jobs):
    for tenant in range(TENANTS):
        call([str(bench / "bench" / "bench_work"), "submit", url, str(jobs // TENANTS), f"tenant-{tenant}"])


def work(bench, url, n, slots, jobs, before_go=lambda team: None):
    """Jobs a second once all processes run, the jobs that ran in all, and processor time and bytes written by the workers."""
    with Team([str(bench / "bench" / "bench_contestant"), "work", url, str(slots)], n) as team:
        before_go(team)
        pids = [worker.process.pid for worker in team.workers]
        before_s, before_bytes = sum(map(processor_s, pids)), sum(map(written_bytes, pids))
        team.go()
        team.wait_until_all_run(START_S)
        ran, at_ns = team.ran(), time.monotonic_ns()
        team.wait_for(jobs, ROUND_S)
        found = {"ran": team.ran(), "worker_s": sum(map(processor_s, pids)) - before_s,
                 "written": sum(map(written_bytes, pids)) - before_bytes}
        # All may have run before the last process started.
        found["rate"] = team.rate(ran, at_ns) if found["ran"] > ran else 0
    return found


def cost_of(store, slots):
    """One process with a network of 1 ms, without anything that slows the server down; then the calls of fsync."""
    jobs = min(JOBS, 2000 + 2000 * slots)
    url = store.place()
    fill(store.bench, url, jobs)
    network = store.network(1)
    with network or contextlib.nullcontext():
        before = {"log": store.log_bytes(), "syncs": store.syncs(), "server_s": store.server_s()}
        found = work(store.bench, network.through(url) if network else url, 1, slots, jobs,
                     lambda _: network and network.reset())
        counts = network.counts() if network else {"round_trips": 0, "to_server_bytes": 0, "to_client_bytes": 0}
        ran = found["ran"]
        row = {"store": store.name, "slots": slots, "jobs": ran, "rate": found["rate"],
               "server_us": (store.server_s() - before["server_s"]) / ran * 1e6,
               "worker_us": found["worker_s"] / ran * 1e6,
               "log_bytes": (store.log_bytes() - before["log"] if store.name != "sqlite" else found["written"]) / ran,
               "round_trips": counts["round_trips"] / ran,
               "network_bytes": (counts["to_server_bytes"] + counts["to_client_bytes"]) / ran}
        syncs = store.syncs() - before["syncs"]
    if store.name == "postgres":
        row["syncs"] = syncs / ran
        before_s = store.server_s()
        store.vacuum()
        row["vacuum_us"] = (store.server_s() - before_s) / ran * 1e6
    else:
        row["syncs"] = traced_syncs(store, slots, jobs // 2)
    return row


def busy_cost_of(store, slots):
    """The same of several processes: a server that is hardly ever idle needs less time for a transaction. Its transactions
    are as large as those of one process, so that syncs are not counted, which several of them share."""
    jobs = min(JOBS, BUSY_PROCESSES * (2000 + 2000 * slots))
    url = store.place()
    fill(store.bench, url, jobs)
    with store.network(1) as network:
        before_s = store.server_s()
        found = work(store.bench, network.through(url), BUSY_PROCESSES, slots, jobs, lambda _: network.reset())
        return {"store": store.name, "busy_slots": slots, "jobs": found["ran"], "rate": found["rate"],
                "server_us": (store.server_s() - before_s) / found["ran"] * 1e6,
                "worker_us": found["worker_s"] / found["ran"] * 1e6,
                "round_trips": network.counts()["round_trips"] / found["ran"]}


def traced_syncs(store, slots, jobs):
    """A job's share of an fsync, from a run of its own: strace slows the process down."""
    url = store.place()
    fill(store.bench, url, jobs)
    network = store.network(1)
    traced = []
    with network or contextlib.nullcontext():
        found = work(store.bench, network.through(url) if network else url, 1, slots, jobs, lambda team: traced.append(
            Syncs(store.server.process.pid if network else team.workers[0].process.pid)))
    return traced[0].close() / found["ran"]


def submit_cost(store, command):
    """`command` submits to the URL that follows. A call is one commit, which a server counts."""
    url = store.place()
    fill(store.bench, url, 1)
    before = {"log": store.log_bytes(), "commits": store.commits(), "server_s": store.server_s()}
    name, *words = command
    program = subprocess.Popen([str(store.bench / "bench" / name), words[0], url, *words[1:]], stdout=subprocess.PIPE, text=True)
    said = json.loads(program.stdout.readline())
    _, _, used = os.wait4(program.pid, 0)
    server_s = store.server_s() - before["server_s"]
    sent = said.get("sent", JOBS)
    commits = store.commits() - before["commits"]
    return {"store": store.name, "jobs": sent, "in_call": sent / commits if commits else BULK,
            "client_us": (used.ru_utime + used.ru_stime) / sent * 1e6, "server_us": server_s / sent * 1e6,
            "log_bytes": (store.log_bytes() - before["log"]) / sent}


def submits(store):
    bulk = ("bench_work", "submit", str(JOBS))
    feeds = [("bench_contestant", "feed", str(rate), str(FEED_S)) for rate in FEED_RATES]
    return [attempt(submit_cost, store, command) for command in ([bulk] if store.name == "sqlite" else [*feeds, bulk])]


def point(store, round_trip_ms, n):
    around = machine(0 if store.name == "sqlite" else 2, n)
    url = store.place()
    fill(store.bench, url, JOBS)
    network = store.network(round_trip_ms)
    with network or contextlib.nullcontext():
        before_s, proxy_s = store.server_s(), network and processor_s(network.process.pid)
        found = work(store.bench, network.through(url) if network else url, n, POINT_SLOTS, JOBS)
        server_us = (store.server_s() - before_s) / found["ran"] * 1e6
        proxy_us = (processor_s(network.process.pid) - proxy_s) / found["ran"] * 1e6 if network else 0
    return {"store": store.name, "processes": n, "round_trip_ms": round_trip_ms, "rate": found["rate"],
            "server_us": server_us, "proxy_us": proxy_us, "worker_us": found["worker_s"] / found["ran"] * 1e6, **around}


def points(store, rounds, trips_ms):
    trips = (0,) if store.name == "sqlite" else trips_ms
    return [attempt(point, store, ms, n) for _ in range(rounds) for ms in trips for n in PROCESSES]


def shards(bench, kind, rounds):
    rows = []
    with contextlib.ExitStack() as stack:
        own = []
        for _ in range(max(SHARDS)):
            own.append(OnServer(bench, kind))
            stack.callback(own[-1].close)
        ways = [stack.enter_context(one.network(SHARD_MS)) for one in own]
        for _ in range(rounds):
            for n in SHARDS:
                around = machine(2 * n, SHARD_PROCESSES)
                urls = [one.place() for one in own[:n]]
                through = [way.through(url) for way, url in zip(ways, urls)]
                fill_tenants(bench, urls[0] if n == 1 else "shards:" + " ".join(urls), JOBS)
                before_s = sum(one.server_s() for one in own[:n])
                found = work(bench, through[0] if n == 1 else "shards:" + " ".join(through), SHARD_PROCESSES, POINT_SLOTS, JOBS)
                rows.append({"store": kind, "shards": n, "processes": SHARD_PROCESSES, "round_trip_ms": SHARD_MS,
                             "rate": found["rate"], "worker_us": found["worker_s"] / found["ran"] * 1e6,
                             "server_us": (sum(one.server_s() for one in own[:n]) - before_s) / found["ran"] * 1e6, **around})
                print(json.dumps(rows[-1]), file=sys.stderr)
    return rows


def attempt(step, *words):
    try:
        row = step(*words)
    except (Trouble, OSError, subprocess.SubprocessError) as why:
        row = {"failed": step.__name__, "why": str(why)}
    print(json.dumps(row), file=sys.stderr)
    return row


def measure(bench, kinds, parts, rounds, trips_ms):
    rows = {part: [] for part in parts}
    for kind in kinds:
        store = open_store(bench, kind)
        try:
            if "costs" in parts:
                rows["costs"] += [attempt(cost_of, store, slots) for _ in range(rounds) for slots in SLOTS]
            if "busy" in parts and kind != "sqlite":
                rows["busy"] += [attempt(busy_cost_of, store, slots) for _ in range(rounds) for slots in BUSY_SLOTS]
            if "submits" in parts:
                rows["submits"] += submits(store)
            if "points" in parts:
                rows["points"] += points(store, rounds, trips_ms)
        finally:
            store.close()
        if "shards" in parts and kind != "sqlite":
            rows["shards"] += shards(bench, kind, rounds)
    return {part: [row for row in found if "failed" not in row] for part, found in rows.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    words = lambda text: tuple(text.split(","))  # noqa: E731
    parser.add_argument("bench", type=pathlib.Path)
    parser.add_argument("--stores", type=words, default=("sqlite", "postgres", "redis"))
    parser.add_argument("--parts", type=words, default=PARTS)
    parser.add_argument("--round-trips-ms", type=lambda text: tuple(map(float, text.split(","))), default=POINT_MS)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", type=pathlib.Path, help="write to this file as well")
    asked = parser.parse_args()
    bench = asked.bench.resolve()
    programs = ("delay_proxy", "bench_work", "bench_contestant")
    subprocess.run(["ninja", "-C", str(bench), *(f"bench/{name}" for name in programs)], check=True, stdout=subprocess.DEVNULL)
    with tempfile.TemporaryDirectory(prefix="scale-") as scratch:
        os.chmod(scratch, 0o711)
        tempfile.tempdir = scratch
        found = measure(bench, asked.stores, asked.parts, asked.rounds, asked.round_trips_ms)
    text = "{\n" + ",\n".join(f'"{part}": [\n' + ",\n".join(json.dumps(row) for row in rows) + "\n]"
                              for part, rows in found.items()) + "\n}\n"
    print(text, end="")
    if asked.json:
        asked.json.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
