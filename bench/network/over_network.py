#!/usr/bin/env python3
"""over_network - Redrive and its peers with a network between the workers and the store.

    bench/network/over_network.py BENCH_DIR [--stores redis,…] [--round-trips-us 1000,…] [--processes 1,…]
        [--contestants redis,bullmq,…] [--parts throughput,latency,steps,idle] [--rounds N] [--jobs N] [--seconds S]
        [--json FILE]

Called by tools/bench; by itself it prints what is asked for, everything unless told otherwise.
docs/performance.md, "Over a network", says what is measured, and how.
"""
import argparse
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "stores"), str(HERE.parent.parent)]
import promises  # noqa: E402
from tests.kit import servers  # noqa: E402
import stores  # noqa: E402
import tables  # noqa: E402
from tests.kit.delay import DelayProxy, round_trips_of_transactions  # noqa: E402
from stores import medians, processor_s, row  # noqa: E402
from workers import Team, Trouble  # noqa: E402

ROUND_TRIPS_US = (0, 500, 1000)
PROCESSES = (1, 4, 8)
SLOTS = 20  # of a worker process
ROUNDS = 3
JOBS = 40000  # in the store when a round begins, for each contestant
START_S = 2  # for each process to run its first job; then the time begins
ROUND_S = 5  # a round ends then, or when all jobs have run
LATENCY_US = 1000  # the round trip with which latencies are measured, with one process
LOADS = (10, 50, 90)  # percent of the rate that the contestant has just reached
LATENCY_S = 5
LATENCY_JOBS = 1000  # at least, if that does not take more than LATENCY_MAX_S
LATENCY_MAX_S = 15
IDLE_WORKERS = (1, 100)
IDLE_RATE, IDLE_S = 100, 5
PARTS = ("throughput", "latency", "steps", "idle")
RUN_S = 120  # nothing else may take longer

SETTINGS = {"postgres": {"max_connections": "300"}, "redis": {}}
# What only a client can send: commands inside of functions are counted by the server as well.
CLIENT_CALL = re.compile(r"^cmdstat_(?:fcall|fcall_ro|eval|evalsha|subscribe|ssubscribe|ping):calls=(\d+)", re.M)


def run(command, seconds=RUN_S):
    """What it prints."""
    try:
        return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, timeout=seconds,
                              cwd=tempfile.gettempdir()).stdout
    except subprocess.SubprocessError as why:
        raise Trouble(str(why)) from None


class Contestant:
    """How to call one: its programs for a store at `url`."""

    def __init__(self, name, fill, rest, url):
        self.name = name
        self._fill, self._rest = fill, rest
        self.url = url  # a function of a place of the store

    def fill(self, place, jobs):
        run([*self._fill, self.url(place), str(jobs)])

    def worker(self, url):
        return [*self._rest, "work", url, str(SLOTS)]

    def feed(self, url, rate, seconds):
        """Jobs that were submitted; says if that took longer than it should."""
        fed = json.loads(run([*self._rest, "feed", url, f"{rate:.3f}", f"{seconds:.3f}"]))
        if fed["sent"] < 0.95 * rate * seconds:
            print(f"bench: {self.name} could submit only {fed['sent'] / fed['seconds']:.0f} of {rate:.0f} jobs a second")
        return int(fed["sent"])


def machine_s():
    """Processor time that anybody has used on this machine."""
    with open("/proc/stat", encoding="ascii") as stat:
        user, nice, system, _, _, irq, softirq = map(int, stat.readline().split()[1:8])
    return (user + nice + system + irq + softirq) / os.sysconf("SC_CLK_TCK")


class Watch:
    """What a team does, what goes over the network and who is busy, since it was made."""

    def __init__(self, pid, network, team):
        self.pid, self.network, self.team = pid, network, team
        self.ran, self.at_ns = team.ran(), time.monotonic_ns()
        network.reset()
        self.server_s, self.machine_s = processor_s(pid), machine_s()

    def rows(self, name):
        server_s, all_s = processor_s(self.pid), machine_s()
        share = 100 / (time.monotonic_ns() - self.at_ns) * 1e9
        counts = self.network.counts()
        jobs = max(1, self.team.ran() - self.ran)
        return [row(f"{name}.jobs", self.team.rate(self.ran, self.at_ns), "1/s", True),
                row(f"{name}.round_trips", counts["round_trips"] / jobs, "1/job"),
                row(f"{name}.bytes", (counts["to_server_bytes"] + counts["to_client_bytes"]) / jobs, "B/job"),
                row(f"{name}.server_cpu", (server_s - self.server_s) * share, "%"),
                row(f"{name}.machine_cpu", (all_s - self.machine_s) * share / os.cpu_count(), "%"),
                row("net.proxy.late_p50_us", counts["late_p50_us"], "us"),
                row("net.proxy.late_p99_us", counts["late_p99_us"], "us")]


class OverNetwork:
    """One store's part. `store` has the server, and places for jobs on it."""

    def __init__(self, bench, store, wanted=None):
        self.bench, self.store = bench, store
        ours = Contestant(store.name, [store.tool("bench_work"), "submit"], [store.tool("bench_contestant")], store.url)
        found = store.find_peers(bench) if set(wanted or ("peers",)) - {store.name} else {}
        peers = [Contestant(name, [*command, "fill"], command, store.peer_url) for name, command in found.items()]
        self.ours = ours
        self.contestants = [one for one in (ours, *peers) if not wanted or one.name in wanted]

    def network(self, round_trip_us):
        return DelayProxy(self.store.server, round_trip_us / 1000, self.bench)

    # -- Throughput --

    def race(self, contestant, round_trip_us, n):
        """The rows of one round of a contestant: jobs that are there are worked for some seconds."""
        name = f"net.{contestant.name}.{round_trip_us}us.{n}p"
        place = self.store.place()
        contestant.fill(place, JOBS)
        with self.network(round_trip_us) as network, \
                Team(contestant.worker(network.through(contestant.url(place))), n) as team:
            team.go()
            team.wait_until_all_run(START_S)
            watch = Watch(self.store.server.process.pid, network, team)
            team.wait_for(JOBS, ROUND_S)
            return watch.rows(name)

    def throughput(self):
        rows = []
        for round_trip_us in ROUND_TRIPS_US:
            for n in PROCESSES:
                for _ in range(ROUNDS):
                    for contestant in self.contestants:
                        rows += self.try_to(self.race, contestant, round_trip_us, n)
        return medians(rows)

    def try_to(self, step, contestant, *words):
        try:
            return step(contestant, *words)
        except (Trouble, OSError, ValueError) as why:
            print(f"bench: {contestant.name} is left out of {step.__name__}{words}: {why}")
            return []

    # -- Latency --

    def wait_at(self, contestant, load, capacity):
        """Rows of the time from submit to start at so many percent of the capacity."""
        rate = capacity * load / 100
        seconds = min(max(LATENCY_S, LATENCY_JOBS / rate), LATENCY_MAX_S)
        place = self.store.place()
        contestant.fill(place, 1)  # makes the tables
        with self.network(LATENCY_US) as network, \
                Team(contestant.worker(network.through(contestant.url(place))), 1) as team:
            team.go()
            team.wait_for(1, RUN_S)
            sent = contestant.feed(network.through(contestant.url(place)), rate, seconds)
            team.wait_for(sent + 1, seconds)
            waits_us = team.waits_us()
        if len(waits_us) < sent:
            print(f"bench: {contestant.name} at {load} %: {sent - len(waits_us)} of {sent} jobs had not started "
                  f"{seconds:.0f} s after the last was submitted")
        return wait_rows(f"net.{contestant.name}.{LATENCY_US}us.load_{load}", waits_us)

    def latency(self, rows):
        values = {one["name"]: one["value"] for one in rows}
        found = []
        for contestant in self.contestants:
            capacity = values.get(f"net.{contestant.name}.{LATENCY_US}us.1p.jobs")
            for load in LOADS if capacity else ():
                found += self.try_to(self.wait_at, contestant, load, capacity)
        return found

    # -- Of ours alone --

    def steps(self):
        """Round trips of a transaction that settles a batch and claims the next, and of one that only settles."""
        url = self.store.url(self.store.place())
        return [row(f"net.{self.store.name}.{step}.round_trips", trips, "1/transaction")
                for step, trips in round_trips_of_transactions(self.store.server, url, self.bench).items()]

    def idle(self):
        """Jobs that come one by one to many workers that wait, on Redis: how soon they start, and what it costs."""
        if self.store.name != "redis":
            return []
        rows, ours = [], self.ours
        for n in IDLE_WORKERS:
            place = self.store.place()
            url = ours.url(place)
            ours.fill(place, 1)
            with Team(ours.worker(url), n) as team:
                team.go()
                team.wait_for(1, RUN_S)
                time.sleep(2)  # all of them wait
                before = self.client_calls()
                sent = ours.feed(url, IDLE_RATE, IDLE_S)
                team.wait_for(sent + 1, IDLE_S)
                calls = self.client_calls() - before
                rows += wait_rows(f"net.redis.idle_{n}", team.waits_us())
                rows.append(row(f"net.redis.idle_{n}.calls", calls / sent, "1/job"))
        return rows

    def client_calls(self):
        return sum(map(int, CLIENT_CALL.findall(self.store.server.call("INFO", "commandstats").replace("\r", ""))))

    def rows(self, parts):
        rows = []
        for part in parts:
            start = time.monotonic()
            try:
                rows += self.latency(rows) if part == "latency" else getattr(self, part)()
                print(f"bench: {self.store.name} over a network: {part} took {time.monotonic() - start:.0f} s")
            except (Trouble, subprocess.SubprocessError, OSError, RuntimeError) as why:
                print(f"bench: {self.store.name} over a network: {part} is left out: {why}")
        return medians(rows)


def wait_rows(name, waits_us):
    """Percentiles of all but the first tenth, in which connections and plans are made."""
    steady = sorted(waits_us[len(waits_us) // 10:])
    if not steady:
        raise Trouble("no job has started")
    return [row(f"{name}.{text}_ms", steady[min(len(steady) - 1, int(len(steady) * share))] / 1000, "ms")
            for text, share in (("p50", 0.5), ("p99", 0.99), ("p99.9", 0.999))]


def measure_one(kind, bench, parts, wanted):
    part, settings = stores.KINDS[kind]
    try:
        with servers.KINDS[kind](durable=True, settings=(settings | SETTINGS[kind]).items()) as server:
            store = part(bench, server)
            if not store.is_known():
                print(f"bench: this build has no {kind} store; it is left out")
                return []
            return OverNetwork(bench, store, wanted).rows(parts)
    except (servers.Missing, Trouble, stores.Trouble, RuntimeError, subprocess.SubprocessError, OSError) as why:
        print(f"bench: {kind} over a network is left out: {why}")
        return []


def be_quick():
    """One short round of one process, without peers."""
    global ROUND_TRIPS_US, PROCESSES, ROUNDS, JOBS, ROUND_S, LOADS, LATENCY_S, LATENCY_JOBS, IDLE_WORKERS, IDLE_S
    ROUND_TRIPS_US, PROCESSES, ROUNDS, JOBS, ROUND_S = (1000,), (1,), 1, 5000, 2
    LOADS, LATENCY_S, LATENCY_JOBS, IDLE_WORKERS, IDLE_S = (50,), 2, 1, (1, 10), 2


def measure(bench, folder, kinds=tuple(stores.KINDS), parts=PARTS, wanted=None):
    """All rows. The servers' files are below `folder`."""
    bench = pathlib.Path(bench).resolve()
    programs = ("delay_proxy", "bench_work", "bench_contestant", "bench_engine")
    subprocess.run(["ninja", "-C", str(bench), *(f"bench/{name}" for name in programs)], check=True,
                   stdout=subprocess.DEVNULL)
    os.chmod(folder, 0o711)
    tempfile.tempdir = str(pathlib.Path(folder).resolve())
    rows = medians([one for kind in kinds for one in measure_one(kind, bench, parts, wanted)])
    tables.print_text(rows)
    return rows


def main():
    global ROUND_TRIPS_US, PROCESSES, ROUNDS, JOBS, ROUND_S
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    numbers = lambda text: tuple(map(int, text.split(",")))  # noqa: E731
    words = lambda text: tuple(text.split(","))  # noqa: E731
    parser.add_argument("bench", type=pathlib.Path)
    parser.add_argument("--stores", type=words, default=tuple(stores.KINDS))
    parser.add_argument("--round-trips-us", type=numbers, default=ROUND_TRIPS_US)
    parser.add_argument("--processes", type=numbers, default=PROCESSES)
    parser.add_argument("--contestants", type=words)
    parser.add_argument("--parts", type=words, default=PARTS)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--jobs", type=int, default=JOBS)
    parser.add_argument("--seconds", type=float, default=ROUND_S)
    parser.add_argument("--json", type=pathlib.Path, help="write the rows to this file")
    asked = parser.parse_args()
    ROUND_TRIPS_US, PROCESSES, ROUNDS = asked.round_trips_us, asked.processes, asked.rounds
    JOBS, ROUND_S = asked.jobs, asked.seconds
    with tempfile.TemporaryDirectory(prefix="bench-") as scratch:
        rows = measure(asked.bench, scratch, asked.stores, asked.parts, asked.contestants)
    promises.print_held(rows)
    if asked.json:
        asked.json.write_text(json.dumps({"rows": rows}, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
