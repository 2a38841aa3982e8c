#!/usr/bin/env python3
"""stores - Redrive on PostgreSQL and Redis beside its peers, each store on one server.

    bench/stores/stores.py BENCH_DIR [postgres|redis]…

Called by tools/bench; by itself it prints the rows of the stores that are named. All contestants
use the same server, one after the other, in rounds; figures are medians. Jobs do nothing and have a
payload of 100 bytes. `server_cpu` is the processor time of the server for a life, the making of its
tables included; it moves less than the others with who else is there. A store that this build does
not know, a server or a peer that is not here is left out with a word.
"""
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent.parent)]
import peers  # noqa: E402
from tests.kit import servers  # noqa: E402

ROUNDS = 3
CONCURRENCY = 100  # jobs in flight in one worker process
JOBS = {"graphile": 4000, "bullmq": 4000, "asynq": 4000}  # of those that would take too long
USUAL_JOBS = 10000
ENGINE_JOBS = 20000
WAITING = 1000000
SIZED = 200000  # jobs, to see what one takes
LIVED = 200000  # lives, to see what they leave
WORKER_JOBS, WORKER_WAIT_MS, WORKER_PLACES = 3000, 10, 16
NOOP_JOBS = 6000
TENANTS = (4, 20, 100)
RUN_S = 120  # nothing may take longer
FILL_S = 300  # but this
SKIPPED = 77

PAIRS = [
    ("postgres.lives", "graphile.lives", "higher", 1),
    ("postgres.lives", "graphile.batched.lives", "higher", 1.3),
    ("postgres.lives", "river.lives", "higher", 1.3),
    ("postgres.work", "graphile.work", "higher", None),
    ("postgres.work", "graphile.batched.work", "higher", None),
    ("postgres.work", "river.work", "higher", None),
    ("postgres.claim64_us.1m", "postgres.claim64_us.10k", "lower", 1 / 1.5),
    ("postgres.two_workers", "postgres.one_worker", "higher", 1.8),
    ("postgres.two_workers.noop", "postgres.one_worker.noop", "higher", None),
    ("redis.lives", "bullmq.lives", "higher", 4.1),
    ("redis.lives", "asynq.lives", "higher", 4.8),
    ("redis.work", "bullmq.work", "higher", None),
    ("redis.work", "asynq.work", "higher", None),
    ("redis.everysec.lives", "bullmq.everysec.lives", "higher", 1),
    ("redis.everysec.lives", "asynq.everysec.lives", "higher", 1),
    ("redis.everysec.work", "bullmq.everysec.work", "higher", None),
    ("redis.everysec.work", "asynq.everysec.work", "higher", None),
    ("redis.claim64_us.1m", "redis.claim64_us.10k", "lower", 1 / 1.5),
    ("redis.two_workers", "redis.one_worker", "higher", 1.8),
    ("redis.two_workers.noop", "redis.one_worker.noop", "higher", None),
]


class Trouble(Exception):
    """A program has failed; the rest can go on."""


def row(name, value, unit, durable=None):
    return {"name": name, "value": value, "unit": unit, "durable": durable}


def medians(rows):
    by_name = {}
    for one in rows:
        by_name.setdefault(one["name"], []).append(one)
    return [dict(same[0], value=statistics.median(one["value"] for one in same)) for same in by_name.values()]


def run(command, seconds=RUN_S):
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=seconds, check=True,
                              cwd=tempfile.gettempdir())
        return json.loads(done.stdout)
    except ValueError:
        raise Trouble("its answer is no JSON") from None
    except subprocess.TimeoutExpired:
        raise Trouble(f"it took more than {seconds} s") from None
    except subprocess.CalledProcessError as failed:
        raise Trouble(failed.stderr.strip().splitlines()[-1] if failed.stderr.strip() else str(failed)) from None


def processor_s(pid):
    """Of a process, of its children, and of those that have ended."""
    with open(f"/proc/{pid}/stat", encoding="ascii") as stat:
        times = stat.read().rpartition(")")[2].split()[11:15]
    with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as children:
        living = children.read().split()
    total = sum(map(int, times)) / os.sysconf("SC_CLK_TCK")
    for child in living:
        try:
            total += processor_s(child)
        except OSError:  # ended just now; the parent has its time with the next look
            pass
    return total


class Store:
    """One store's part: its server, and what is measured on it."""

    def __init__(self, bench, server):
        self.bench = bench
        self.server = server
        self.peers = {}  # by name, the command
        self.n_slots = 0

    def tool(self, name):
        return str(self.bench / "bench" / name)

    def is_known(self):
        probe = subprocess.run([self.tool("bench_work"), "submit", self.url(self.place()), "1"], capture_output=True,
                               text=True, timeout=RUN_S, check=False, cwd=tempfile.gettempdir())
        if probe.returncode not in (0, SKIPPED):
            raise Trouble(probe.stderr.strip())
        return probe.returncode == 0

    # -- Lives, ours and the peers', in turns --

    def lives(self, name, command, jobs, suffix, durable):
        before_s = processor_s(self.server.process.pid)
        took = run([*command, str(jobs), str(CONCURRENCY)])
        server_s = processor_s(self.server.process.pid) - before_s
        if took["ran"] < jobs:
            raise Trouble(f"it ran {took['ran']} of {jobs} jobs")
        return [row(f"{name}{suffix}.lives", jobs / (took["submit_s"] + took["work_s"]), "1/s", durable),
                row(f"{name}{suffix}.submit", jobs / took["submit_s"], "1/s", durable),
                row(f"{name}{suffix}.work", jobs / took["work_s"], "1/s", durable),
                row(f"{name}{suffix}.server_cpu", server_s / jobs * 1e6, "us/life")]

    def engine_lives(self, suffix, durable):
        rows = run([self.tool("bench_engine"), "lives", "--store", self.url(self.place()), "--jobs", str(ENGINE_JOBS),
                    "--seconds", "20", "--batch", "256", "--window", "8"])["rows"]
        return [row(f"{self.name}{suffix}.engine_lives", rows[0]["value"], "1/s", durable)]

    def contestants(self, suffix, durable):
        """By name, a function that lives one round."""
        found = {self.name: lambda: self.lives(self.name, [self.tool("bench_work"), "lives", self.url(self.place())],
                                               USUAL_JOBS, suffix, durable),
                 f"{self.name} (engine)": lambda: self.engine_lives(suffix, durable)}
        for name, command in self.peers.items():
            jobs = JOBS.get(name, USUAL_JOBS)
            found[name] = lambda name=name, command=command, jobs=jobs: self.lives(
                name, [*command, "lives", self.peer_url(self.place())], jobs, suffix, durable)
        return found

    def in_turns(self, suffix="", durable=True):
        found, rows = self.contestants(suffix, durable), []
        for _ in range(ROUNDS):
            for name, live in list(found.items()):
                try:
                    rows += live()
                except Trouble as why:
                    print(f"bench: {name} is left out: {why}")
                    del found[name]
        return medians(rows)

    # -- With many waiting --

    def waiting(self):
        rows = run([self.tool("bench_engine"), "waiting", "--store", self.url(self.place()), "--waiting", str(WAITING)],
                   FILL_S)["rows"]
        return [dict(one, name=one["name"].replace("engine.", f"{self.name}.", 1)) for one in rows]

    def fill(self, url, jobs):
        subprocess.run([self.tool("bench_engine"), "fill", "--store", url, "--waiting", str(jobs)], check=True,
                       timeout=FILL_S)

    # -- Several workers --

    def workers(self, n, jobs, wait_ms, places):
        """Jobs a second of n processes on one store, from the first that starts to the last that ends."""
        url = self.url(self.place())
        run([self.tool("bench_work"), "submit", url, str(jobs)])
        command = [self.tool("bench_work"), "work", url, str(wait_ms), str(places)]
        started = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=tempfile.gettempdir())
                   for _ in range(n)]
        try:
            took = [json.loads(one.communicate(timeout=RUN_S)[0]) for one in started]
        except subprocess.TimeoutExpired:
            raise Trouble(f"{n} workers took more than {RUN_S} s") from None
        except ValueError:
            raise Trouble("a worker has failed") from None
        finally:
            for one in started:
                one.kill()
                one.wait()
        if sum(one["ran"] for one in took) < jobs:
            raise Trouble(f"{n} workers have not run all {jobs} jobs")
        return jobs / (max(one["to"] for one in took) - min(one["from"] for one in took))

    def one_and_two_workers(self):
        rows = []
        for _ in range(ROUNDS):
            for n, name in ((1, "one_worker"), (2, "two_workers")):
                rows.append(row(f"{self.name}.{name}", self.workers(n, WORKER_JOBS, WORKER_WAIT_MS, WORKER_PLACES),
                                "1/s", True))
                rows.append(row(f"{self.name}.{name}.noop", self.workers(n, NOOP_JOBS, 0, CONCURRENCY), "1/s", True))
        return medians(rows)

    def steps(self, steps):
        """The rows of some functions; one that fails leaves the others theirs."""
        rows = []
        for step in steps:
            start = time.monotonic()
            try:
                rows += step()
                print(f"bench: {self.name}: {step.__name__} took {time.monotonic() - start:.0f} s")
            except (Trouble, subprocess.SubprocessError, OSError) as why:
                print(f"bench: {self.name}: {step.__name__} is left out: {why}")
        return rows


class OnPostgres(Store):
    """Each run gets a database of its own; the one before it is dropped."""

    name = "postgres"

    find_peers = staticmethod(peers.on_postgres)

    def place(self):
        if self.n_slots:
            self.server.sql(f"DROP DATABASE bench{self.n_slots} WITH (FORCE)")
        self.n_slots += 1
        self.server.sql(f"CREATE DATABASE bench{self.n_slots}")
        self.server.sql("CHECKPOINT")
        return f"bench{self.n_slots}"

    def url(self, place):
        return f"postgres://{self.server.superuser}@127.0.0.1:{self.server.port}/{place}"

    peer_url = url

    def look(self, place, text):
        return float(self.server.sql(text, place) or 0)

    def bytes_of(self, place, function):
        return self.look(place, f"SELECT sum({function}(relid)) FROM pg_stat_user_tables")

    def sync(self, on):
        """The disk would hide what the number of jobs costs."""
        self.server.sql(f"ALTER SYSTEM SET fsync = {'on' if on else 'off'}")
        self.server.sql("SELECT pg_reload_conf()")

    def claims(self):
        self.sync(False)
        try:
            return self.waiting()
        finally:
            self.sync(True)

    def sizes(self):
        place = self.place()
        self.fill(self.url(place), 1)
        functions = {"table": "pg_table_size", "index": "pg_indexes_size"}
        before = {part: self.bytes_of(place, function) for part, function in functions.items()}
        self.fill(self.url(place), SIZED)
        return [row(f"postgres.waiting.{part}_bytes", (self.bytes_of(place, function) - before[part]) / SIZED, "B/job")
                for part, function in functions.items()]

    def bloat(self):
        place = self.place()
        run([self.tool("bench_engine"), "lives", "--store", self.url(place), "--jobs", str(LIVED), "--seconds", "1000",
             "--batch", "256", "--window", "8"], FILL_S)
        time.sleep(1)  # statistics are told by and by
        dead = self.look(place, "SELECT sum(n_dead_tup) FROM pg_stat_user_tables")
        full = self.bytes_of(place, "pg_total_relation_size")
        self.server.sql("VACUUM FULL", place)
        packed = self.bytes_of(place, "pg_total_relation_size")
        return [row("postgres.lived.dead_rows", dead / LIVED, "1/life"),
                row("postgres.lived.bytes", full / LIVED, "B/life"),
                row("postgres.lived.bloat", full / packed, "times")]

    def rows(self):
        return self.steps([self.in_turns, self.one_and_two_workers, self.claims, self.sizes, self.bloat])


class OnRedis(Store):
    """Each run finds the server empty."""

    name = "redis"

    find_peers = staticmethod(peers.on_redis)

    def place(self):
        self.server.call("FLUSHALL")
        self.n_slots += 1
        return f"bench{self.n_slots}"

    def url(self, place):
        return f"{self.server.url}?prefix={place}"

    def peer_url(self, _):
        return self.server.url

    def sync(self, when):
        self.server.call("CONFIG", "SET", "appendfsync", when)

    def everysec(self):
        self.sync("everysec")
        try:
            return self.in_turns(".everysec", False)  # power loss takes the last second
        finally:
            self.sync("always")

    def claims(self):
        self.sync("no")
        try:
            return self.waiting()
        finally:
            self.sync("always")

    def used(self):
        said = self.server.call("INFO", "memory")
        return int(next(line for line in said.splitlines() if line.startswith("used_memory:")).split(":")[1])

    def sizes(self):
        url = self.url(self.place())
        self.fill(url, 1)
        before = self.used()
        self.fill(url, SIZED)
        return [row("redis.waiting.bytes", (self.used() - before) / SIZED, "B/job")]

    def bloat(self):
        place = self.place()
        before = self.used()
        run([self.tool("bench_engine"), "lives", "--store", self.url(place), "--jobs", str(LIVED), "--seconds", "1000",
             "--batch", "256", "--window", "8"], FILL_S)
        return [row("redis.lived.bytes", (self.used() - before) / LIVED, "B/life")]

    def calls(self):
        said = self.server.call("INFO", "commandstats").splitlines()
        return sum(int(line.split("calls=")[1].split(",")[0]) for line in said if line.startswith("cmdstat_fcall"))

    def tenants(self):
        """All tenants in one store, and each in a store of its own: what the server has to do for a life."""
        rows = []
        for n in TENANTS:
            for how in ("one", "each"):
                url, before, before_s = self.url(self.place()), self.calls(), processor_s(self.server.process.pid)
                took = run([self.tool("bench_tenants"), how, url, str(n), str(USUAL_JOBS), str(CONCURRENCY)])
                name = f"redis.tenants_{n}.{how}"
                rows += [row(f"{name}.work", took["ran"] / took["work_s"], "1/s", True),
                         row(f"{name}.calls", (self.calls() - before) / took["ran"], "1/life"),
                         row(f"{name}.server_cpu", (processor_s(self.server.process.pid) - before_s) / took["ran"] * 1e6,
                             "us/life")]
        return rows

    def rows(self):
        return self.steps([self.in_turns, self.everysec, self.one_and_two_workers, self.claims, self.sizes, self.bloat,
                           self.tenants])


KINDS = {
    # Checkpoints and rewrites of the log come when they come; the size of these keeps them out of
    # what is measured, for all contestants alike.
    "postgres": (OnPostgres, {"shared_buffers": "256MB", "max_wal_size": "4GB"}),
    "redis": (OnRedis, {"auto-aof-rewrite-percentage": "0"}),
}


def measure_one(kind, bench):
    part, settings = KINDS[kind]
    try:
        with servers.KINDS[kind](durable=True, settings=settings.items()) as server:
            store = part(bench, server)
            if not store.is_known():
                print(f"bench: this build has no {kind} store; it is left out, and its peers with it")
                return []
            store.peers = store.find_peers(bench)
            print(f"bench: {kind}: {CONCURRENCY} jobs in flight in one worker process, {ROUNDS} rounds; kept of a job:")
            for name in ("redrive", *store.peers):
                print(f"bench:   {name:<18}{peers.KEEPS[name]}")
            return store.rows()
    except (servers.Missing, Trouble, RuntimeError, subprocess.SubprocessError, OSError) as why:
        print(f"bench: {kind} is left out: {why}")
        return []


def be_quick():
    """One short round of ours, without peers."""
    global ROUNDS, ENGINE_JOBS, WAITING, SIZED, LIVED, WORKER_JOBS, NOOP_JOBS, TENANTS
    ROUNDS, ENGINE_JOBS, WAITING, SIZED, LIVED, WORKER_JOBS, NOOP_JOBS = 1, 5000, 20000, 20000, 20000, 600, 2000
    TENANTS = (4,)
    OnPostgres.find_peers = OnRedis.find_peers = staticmethod(lambda _: {})


def measure(bench, folder, kinds=tuple(KINDS)):
    """All rows. The servers' files are below `folder`; PostgreSQL does not run as root, and has to
    come through to them."""
    bench = pathlib.Path(bench).resolve()
    subprocess.run(["ninja", "-C", str(bench), "bench/bench_engine", "bench/bench_work", "bench/bench_tenants"], check=True,
                   stdout=subprocess.DEVNULL)
    os.chmod(folder, 0o711)
    tempfile.tempdir = str(pathlib.Path(folder).resolve())
    return [one for kind in kinds for one in measure_one(kind, bench)]


def main():
    with tempfile.TemporaryDirectory(prefix="bench-") as scratch:
        for one in measure(sys.argv[1], scratch, sys.argv[2:] or KINDS):
            print(f"{one['name']:<30}{one['value']:>14,.2f}  {one['unit']}")


if __name__ == "__main__":
    main()
