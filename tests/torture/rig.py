"""rig.py - servers and workers that are killed, stopped and started again, on one store.

Used by test_torture.py and test_server_torture.py (a few kills) and by `make torture` (hundreds):

    python3 -m tests.torture.rig [--mode workers|batch|server] [--kills N] [--store URL|postgres|redis]
                         [--servers N] [--workers N] [--seed N] [--sabotage KIND]

`workers` are `redrive work` processes; jobs come from the command line. `server` kills `redrive serve`
under the load of clients (client.py), and starts it again at once, as a supervisor would. With
--servers and --workers there are more of them, and a random one is killed; a SQLite store has one
server. `batch` kills the same `redrive batch` again and again. A store that is given must be empty;
`postgres` and `redis` mean one in a server of its own, which is gone in the end.

Nothing but SIGKILL, SIGSTOP and SIGCONT is done to processes until the kills are over, and only to
those that the rig itself has started.
"""
import argparse
import contextlib
import json
import os
import pathlib
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

from tests.judge import events, verdict
from tests.judge.promises import Contract
from tests.kit import servers
from tests.kit.ports import lasting_port, wait_until_free
from tests.kit.program import BINARY, HANDLERS, ROOT
from tests.kit.waiting import LIMIT_S, look_again
from tests.torture.client import FaktoryClient
from tests.torture.sabotage import OF_SERVERS, OF_SHARED, OF_WORKERS
from tests.torture.stores import LIVE, history_of, open_store

CONFIG = """\
store: {store}
log: {{level: "off"}}
defaults:
  retry: {{strategy: fixed, initial_delay: 200ms, min_delay: 200ms, jitter: none, max_attempts: 5, total_timeout: 0}}
  breaker: {{failure_threshold: {threshold}, recovery_timeout: 300ms, release_rate: 200}}
tasks:
  work:
    run: {{stream: [{python}, {handler}, {logs}/effects.log], processes: 3, timeout: 10s}}
    lease: 1s
    heartbeat: 300ms
  remote: {{}}
  faktory: {{}}
  ordered: {{breaker: {{failure_threshold: 0, failure_rate: 0}}}}
"""

BACKOFF_S = 0.2
DRAIN_S = 60

# Below this there is too little to do, above the other there would be too much left in the end.
TOO_FEW = 40
TOO_MANY = 150


class Member:
    """A server or a worker, and the process that takes its place when it is killed."""

    def __init__(self, *words, port=None):
        self.words = words
        self.port = port  # of a server's HTTP interface
        self.process = None
        self.program = BINARY
        self.env = {}  # what its environment has besides that of the rig
        self.prefix = []  # of its command

    def is_reached(self):
        try:
            socket.create_connection(("127.0.0.1", self.port), timeout=10).close()
            return True
        except OSError:
            return False


class Rig:
    config_text = CONFIG

    def __init__(self, seed, place=None, store=None, servers=0, workers=2):
        self.random = random.Random(seed)
        self.place = pathlib.Path(tempfile.mkdtemp(prefix="redrive-torture-", dir=place))
        self.logs = self.place / "logs"
        self.logs.mkdir()
        self.log = events.Log(self.logs / "rig.log")
        self.config = self.place / "redrive.yaml"
        self.ports = [(lasting_port(), lasting_port()) for _ in range(servers)]  # of HTTP and Faktory
        self.keep_in(store or f"sqlite:{self.place}/jobs.db")
        self.members = [Member("work") for _ in range(workers)]
        self.members += [Member("serve", "--listen", f"127.0.0.1:{http}", "--faktory", f"127.0.0.1:{faktory}", port=http)
                         for http, faktory in self.ports]
        self.clients = {}  # name -> process, None if it was killed
        self.hold = self.place / "hold"
        self.processes = []
        self.submitted = 0
        self.kills = 0
        self.stops = 0  # how often a process was stopped for longer than its leases

    def keep_in(self, url):
        """Jobs are kept in this store."""
        # The jobs of a server that is killed fail together; its breaker should not always be open.
        self.config.write_text(self.config_text.format(store=url, logs=self.logs, python=sys.executable,
                                                       handler=HANDLERS / "fate_handler.py",
                                                       threshold=20 if self.ports else 8))
        self.store = open_store(url, self.command())

    def close(self):
        for process in self.processes:
            if process.poll() is None:
                process.kill()
                process.wait()
            process.stderr.close()
        self.log.close()
        shutil.rmtree(self.place, ignore_errors=True)

    # ---- Processes ---------------------------------------------------------------------------

    # What the rig is told by the environment is not meant for the program.
    environment = {k: v for k, v in os.environ.items() if not k.startswith("REDRIVE_")}

    def command(self, *words):
        return [str(BINARY), "--config", str(self.config), *words]

    def start_process(self, command, env=None):
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, env={**self.environment, **(env or {})},
                                   stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        self.processes.append(process)
        return process

    def start(self, *words):
        return self.start_process(self.command(*words))

    def launch(self, member):
        for port in next((pair for pair in self.ports if pair[0] == member.port), ()):
            wait_until_free(port)
        member.process = self.start_process([*member.prefix, str(member.program), "--config", str(self.config), *member.words],
                                            member.env)

    def forget(self, process):
        process.stderr.close()
        self.processes.remove(process)

    @staticmethod
    def has_ended_well(code, errors):
        """Where the only records left make the handler die, it looks like one that cannot run."""
        return code in (0, 3) or (code == 1 and "cannot run" in errors)

    def kill(self, process):
        """SIGKILL; one that has ended by itself is not counted, and must have ended well."""
        if process.poll() is None:
            process.kill()
            process.wait()
            self.kills += 1
        else:
            errors = process.stderr.read().decode()
            assert self.has_ended_well(process.returncode, errors), f"ended by itself with {process.returncode}: {errors}"
        self.forget(process)

    def stop_for_a_while(self, process):
        """Longer than its lease, so that somebody else has its jobs when it wakes up."""
        os.kill(process.pid, signal.SIGSTOP)
        time.sleep(1.3)
        os.kill(process.pid, signal.SIGCONT)
        self.stops += 1

    def end(self, process):
        """In good order. One that had nothing to do may have been told before it listened."""
        process.terminate()
        try:
            process.wait(timeout=LIMIT_S)
        except subprocess.TimeoutExpired as late:
            raise AssertionError("does not stop on SIGTERM") from late
        assert process.returncode in (0, -signal.SIGTERM), process.stderr.read().decode()
        self.forget(process)

    def all_are_alive(self):
        for process in self.processes:
            assert process.poll() is None, f"ended by itself with {process.returncode}: {process.stderr.read().decode()}"

    # ---- What there is to do -----------------------------------------------------------------

    def acknowledge(self, job_id, asked, payload=None):
        """What the rig itself has submitted, at that time, must never be lost."""
        self.log.note("submit", job_id, mono=asked, payload=events.digest(payload) if payload is not None else None)
        self.log.note("acknowledged", job_id)
        self.submitted += 1

    def submit(self, n):
        """Through the command line, by ids of our own."""
        for number in range(self.submitted, self.submitted + n):
            job_id = f"job-{number}"
            payload = {"number": number, "text": "x" * self.random.randrange(200)}
            asked = time.monotonic()
            result = subprocess.run(self.command("enqueue", "work", json.dumps(payload), "--id", job_id),
                                    capture_output=True, text=True, check=False, timeout=LIMIT_S,
                                    env=self.environment)
            assert result.returncode == 0, result.stderr
            assert result.stdout.strip() == job_id
            self.acknowledge(job_id, asked, payload)

    def submit_lines(self, n):
        """Many at once."""
        lines = self.place / "payloads.jsonl"
        lines.write_text("".join(json.dumps({"number": i}) + "\n" for i in range(n)))
        asked = time.monotonic()
        out = subprocess.run(self.command("enqueue", "work", "--lines", "--from", str(lines)),
                             stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, env=self.environment, text=True, check=True, timeout=120)
        for number, job_id in enumerate(out.stdout.split()):
            self.acknowledge(job_id, asked, {"number": number})

    def start_client(self, kind, name):
        ports = [str(pair[kind == "faktory"]) for pair in self.ports]
        self.clients[name] = self.start_process([sys.executable, "-m", "tests.torture.client", kind, name, str(self.logs / f"{name}.log"),
                                                 str(self.hold), *ports], {"PYTHONPATH": str(ROOT)})

    def start_clients(self):
        for kind in ("http", "faktory"):
            self.start_client(kind, f"client-{kind}")

    def living_clients(self):
        return {name: process for name, process in self.clients.items() if process}

    def keep_busy(self):
        live = len(self.store.live())
        if not self.clients:
            if live < TOO_FEW:
                self.submit_lines(200)
        elif live > TOO_MANY:
            self.hold.touch()
        else:
            self.hold.unlink(missing_ok=True)

    # ---- Workers and servers -----------------------------------------------------------------

    def begin(self):
        for member in self.members:
            self.launch(member)
        if self.ports:
            self.start_clients()

    def torture(self, kills, sabotage=None, limit_s=1800):
        """One of them is killed, or stopped for a while, and replaced at once, until there were enough
        and somebody has tampered with the store, if somebody is to; then all comes to its end."""
        end = time.monotonic() + limit_s
        is_whole = sabotage is None
        self.begin()
        while self.kills < kills or sabotage:
            assert time.monotonic() < end, f"only {self.kills} kills, sabotage {sabotage}"
            self.keep_busy()
            member = self.random.choice(self.members)
            self.let_it_begin(member)
            if not member.port and self.random.random() < 0.05:
                self.stop_for_a_while(member.process)
                continue
            self.kill(member.process)
            if sabotage and self.tamper(sabotage):
                sabotage = None
            self.launch(member)
        # What was tampered with may never end.
        self.drain(LIMIT_S if is_whole else DRAIN_S)

    def tamper(self, sabotage):
        """Tells whether there was anything to spoil. Servers will be killed again; workers are given new
        jobs until there is something."""
        end = time.monotonic() + 30
        while not self.ports and not sabotage.attempt(self):
            assert time.monotonic() < end, "found nothing to sabotage"
            self.submit_lines(50)
        return not self.ports or sabotage.attempt(self)

    def let_it_begin(self, member):
        """Until clients are served again, but for a few servers that are killed on their way to that; then
        for a moment that nobody can foresee."""
        if member.port and self.random.random() < 0.9:
            self.let_clients_work(member)
        time.sleep(self.random.uniform(0.02, 0.35))

    def let_clients_work(self, member, limit_s=2):
        """Until the server is there and each client has come on since."""
        self.wait_for(member.is_reached, 60)
        sizes = self.log_sizes()
        self.wait_for(lambda: all(now > before for now, before in zip(self.log_sizes(), sizes)), limit_s)

    def log_sizes(self):
        logs = [self.logs / f"{name}.log" for name in self.living_clients()]
        return [log.stat().st_size if log.exists() else 0 for log in logs]

    def wait_for(self, condition, limit_s):
        """For so long at most, as somebody may have nothing to do; tells whether that came true."""
        end = time.monotonic() + limit_s
        while True:
            began = time.monotonic()
            if condition():
                return True
            self.all_are_alive()
            if began > end:
                return False
            look_again(began, 0.005)

    def hold_back(self, limit_s):
        """No client submits any more, and each has the answers to what it has submitted, or has given them up."""
        since = time.monotonic()
        self.hold.touch()
        while time.monotonic() < since + limit_s and self.living_clients().keys() - {
                entry["by"] for entry in self.written() if entry["event"] == "held" and entry["mono"] > since}:
            self.all_are_alive()
            time.sleep(0.1)

    def drain(self, limit_s=LIMIT_S):
        """Nobody is harmed any more, and nothing new comes in. What is not done by the end of the
        time is left, for the judge to complain of."""
        self.hold_back(limit_s)
        end = time.monotonic() + limit_s
        before = None
        while time.monotonic() < end:
            self.all_are_alive()
            live = self.store.live()
            if not live and not self.anything_left():
                break
            lost = self.lost_fetches(live)
            if lost and lost == before:
                self.take_back_lost_fetches()
            before = lost
            time.sleep(0.2 if lost else 0.05)
        for client in self.living_clients().values():
            self.end(client)
        for member in self.members:
            if member.process:
                self.end(member.process)

    def anything_left(self):
        """Redis is asked for one state after the other, and may miss a job that changes between two of
        them; among all jobs each is seen."""
        return any(job["state"] in LIVE for job in self.store.jobs())

    def faktory_client(self, job):
        """The name of the Faktory client that holds the job, or None."""
        prefix, _, name = (job["worker"] or "").partition(":")
        return name if prefix == "faktory" and name in self.clients else None

    def lost_fetches(self, live):
        """The ids of these jobs, if each was fetched by a Faktory client that was killed, or that never heard of it
        because the server was killed: for a minute at least it is that client's."""
        if not all(job["state"] == "running" and self.faktory_client(job) for job in live):
            return None
        started = {(entry["id"], entry["attempt"]) for entry in self.written() if entry["event"] == "start"}
        if any((job["id"], job["attempts"]) in started and self.clients[self.faktory_client(job)] for job in live):
            return None
        return sorted(job["id"] for job in live)

    def take_back_lost_fetches(self):
        """In the client's name: whoever has its wid may still settle them. An ACK that comes after the end of the lease is
        answered like any other, so that the store is asked whether it was taken; if not, others work the job off."""
        for job in self.store.live():
            name = self.faktory_client(job)
            if job["state"] != "running" or not name:
                continue
            client = FaktoryClient(name, self.logs / f"{name}.log", [pair[1] for pair in self.ports])
            client.note("end:SUCCESS", job["id"], attempt=job["attempts"])
            client.ack(job["id"])
            is_taken = any(one["id"] == job["id"] and one["state"] == "completed" for one in self.store.jobs())
            client.note("settled" if is_taken else "refused", job["id"], attempt=job["attempts"], status="SUCCESS")
            client.worker.close()
            client.log.close()

    # ---- The judgement ---------------------------------------------------------------------------

    def written(self):
        """What clients, handlers and the rig have written down."""
        return events.read(self.logs)

    def history(self):
        return history_of(self.store, self.written())

    def contract(self):
        return Contract(backoff_s=BACKOFF_S, recorded=True, punctual=self.stops == 0)

    def judge(self):
        return verdict.complaints(self.history(), self.contract())

    # ---- Batches -----------------------------------------------------------------------------

    def torture_batch(self, kills):
        """The same command again and again, killed at any moment, until it has been killed enough
        and then comes to its end."""
        records, asked = self.place / "records.jsonl", time.monotonic()
        wanted = self.add_records(records, 0)
        while self.kills < kills:
            process = self.start("batch", "work", str(records))
            time.sleep(self.random.uniform(0.02, 0.5))
            self.kill(process)
            if not self.store.live():
                wanted = self.add_records(records, wanted)
        last = subprocess.run(self.command("batch", "work", str(records)), stdin=subprocess.DEVNULL, env=self.environment,
                              capture_output=True, text=True, check=False, timeout=300)
        assert self.has_ended_well(last.returncode, last.stderr), last.stderr
        self.members = [Member("work")]
        self.launch(self.members[0])
        self.drain()
        self.check_records(wanted, asked)

    @staticmethod
    def add_records(records, before, n=200):
        with open(records, "a", encoding="utf-8") as out:
            for number in range(before, before + n):
                out.write(json.dumps({"id": f"record-{number}", "number": number}) + "\n")
        return before + n

    def check_records(self, wanted, asked):
        """Each record is one job: its key is unique for ever."""
        jobs = self.store.jobs()
        assert len(jobs) == wanted, f"{len(jobs)} jobs for {wanted} records"
        assert len({job["unique_key"] for job in jobs}) == wanted, "a record was submitted twice"
        for job in jobs:
            self.acknowledge(job["id"], asked)


MODES = {"workers": {"servers": 0, "workers": 2}, "batch": {"servers": 0, "workers": 0},
         "server": {"servers": 1, "workers": 0}}


def planted(args, kind):
    """The sabotage that was asked for."""
    if not args.sabotage:
        return None
    known = OF_SHARED[kind] if kind in OF_SHARED else OF_SERVERS if args.servers else OF_WORKERS
    if args.sabotage not in known:
        sys.exit(f"rig: no sabotage '{args.sabotage}' here; known: {', '.join(sorted(known))}")
    return known[args.sabotage]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("--mode", choices=MODES, default="workers")
    parser.add_argument("--kills", type=int, default=500)
    parser.add_argument("--store", metavar="URL", help="an empty one, or postgres, or redis; a SQLite file of its own unless given")
    parser.add_argument("--servers", type=int, help="as the mode says unless given")
    parser.add_argument("--workers", type=int, help="as the mode says unless given")
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--sabotage", metavar="KIND")
    args = parser.parse_args()
    for name, size in MODES[args.mode].items():
        if getattr(args, name) is None:
            setattr(args, name, size)
    sabotage = planted(args, (args.store or "sqlite").split(":", maxsplit=1)[0])
    started = time.monotonic()
    with contextlib.ExitStack() as stack:
        if args.store in servers.KINDS:
            args.store = stack.enter_context(servers.KINDS[args.store](durable=True)).url
        rig = stack.enter_context(contextlib.closing(Rig(args.seed, store=args.store, servers=args.servers, workers=args.workers)))
        if args.mode == "batch":
            rig.torture_batch(args.kills)
        else:
            rig.torture(args.kills, sabotage)
        found = rig.judge()
        jobs = len({entry["id"] for entry in rig.written() if entry["event"] == "acknowledged"})
        stories = [events.story(rig.written(), complaint.id) if complaint.id else [] for complaint in found[:20]]
    print(f"{args.mode} on {rig.store.kind}: {rig.kills} kills, {rig.stops} stops, {jobs} jobs, "
          f"{time.monotonic() - started:.0f} s, seed {args.seed}: {len(found)} complaints")
    for complaint, story in zip(found[:20], stories, strict=True):
        print(f"  {complaint}", *story, sep="\n    ")
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
