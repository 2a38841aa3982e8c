"""run.py - faults under load, and a judgement on the history of it.

    python3 -m tests.history.run [--store sqlite|postgres|redis|all] [--seconds N] [--faults kill,pause,…] [--seed N]
                         [--upgrade COMMIT|PROGRAM] [--keep FOLDER]

Clients submit and work over HTTP and Faktory, `redrive serve` and `redrive work` processes run jobs, and for so many
seconds one fault follows the other (faults.py). Then the faults end, the order of a queue is tried, all jobs come to their
end, and the history is judged, with what the store says in the end (tests/judge). Processes, clients and handlers are those of the
torture rig.

    kill        one process, all of them, or the clients too
    pause       SIGSTOP, for longer than a lease
    partition   processes are cut off from the store: by a proxy that stands still, and as root also by a network
                namespace whose cable is pulled
    skew        processes whose wall clock is an hour off
    upgrade     all processes are replaced, one by one, by another build; only with --upgrade

A SQLite file has no network, and its clock is that of the processes: partition and skew are left out there. A history with
complaints is kept; `python3 -m tests.judge.verdict FILE` judges it again.
"""
import argparse
import contextlib
import dataclasses
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import time

from tests.handlers.fate import fate
from tests.history.faults import Faults
from tests.judge.events import story
from tests.judge.verdict import Complaint, judged, save
from tests.judge.wallclock import ClockWatch
from tests.kit import servers
from tests.kit.delay import DelayProxy
from tests.kit.network import Cable, OpenPostgres, OpenRedis, Unavailable
from tests.kit.program import BINARY, ROOT
from tests.kit.skew import skewed_clock
from tests.torture.client import HttpClient
from tests.torture.rig import Member, Rig

STORES = ("sqlite", "postgres", "redis")
FAULTS = ("kill", "pause", "partition", "skew", "upgrade")
OF_SQLITE = ("kill", "pause", "upgrade")
OPEN = {"postgres": OpenPostgres, "redis": OpenRedis}

ALONE = "ordered-alone"  # a queue that only the probe of the order uses
PROBES = 40


# ---- Processes and what may be done to them ------------------------------------------------------


class Trial:
    """A rig on a store of this kind, and its faults. What cannot be done here is in `missing`, in words."""

    def __init__(self, stack, kind, seed, faults, other=None, drain_s=300):
        self.kind = kind
        self.drain_s = drain_s
        self.missing = []
        self.names = [name for name in faults if kind != "sqlite" or name in OF_SQLITE]
        if not other and "upgrade" in self.names:
            self.names.remove("upgrade")
        cable = self._try(lambda: stack.enter_context(contextlib.closing(Cable()))) if "partition" in self.names else None
        self.server = self._start_server(stack, cable)
        is_shared = self.server is not None
        self.rig = stack.enter_context(contextlib.closing(Rig(
            seed, store=self.server.url if is_shared else None, servers=2 if is_shared else 1, workers=2)))
        cuts = []
        if "partition" in self.names:
            cuts.append(("proxy", self._behind_proxy(stack)))
        if cable:
            cuts.append(("cable", self._behind_cable(cable)))
        skew = self._try(skewed_clock) if "skew" in self.names else None
        if "skew" in self.names and not skew:
            self.names.remove("skew")
        self.faults = Faults(self.rig, cuts, skew, other)
        self.clock = ClockWatch()
        self.clock.start()
        stack.callback(self.clock.close)

    def _try(self, make):
        try:
            return make()
        except Unavailable as missing:
            self.missing.append(str(missing))
            return None

    def _start_server(self, stack, cable):
        if self.kind == "sqlite":
            return None
        make = servers.KINDS[self.kind] if not cable else lambda **options: OPEN[self.kind](cable.here, **options)
        return stack.enter_context(make(durable=True))

    def _behind_proxy(self, stack):
        """A worker and a server reach the store by a proxy. While it stands still nothing gets through."""
        proxy = stack.enter_context(DelayProxy(self.server, 0, BINARY.parent))
        for member in (self.rig.members[0], self.rig.members[-1]):
            member.words = ("--store", proxy.url, *member.words)

        def cut(seconds):
            os.kill(proxy.process.pid, signal.SIGSTOP)
            time.sleep(seconds)
            os.kill(proxy.process.pid, signal.SIGCONT)

        return cut

    def _behind_cable(self, cable):
        """One more worker, in a network namespace."""
        far = Member("--store", self.server.url_from(cable.here), "work")
        far.prefix = cable.command([])
        self.rig.members.append(far)

        def cut(seconds):
            cable.pull()
            time.sleep(seconds)
            cable.plug()

        return cut

    # ---- The run ---------------------------------------------------------------------------------

    def run(self, seconds):
        rig = self.rig
        rig.begin()
        rig.start_client("http", "client-http-0")  # a second one, so that what one holds another may take
        for number in range(2):
            rig.start_client("slow", f"client-slow-{number}")
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            rig.keep_busy()
            rig.let_clients_work(rig.random.choice([member for member in rig.members if member.port]), 1)
            time.sleep(rig.random.uniform(0.02, 0.3))
            self.faults.one(rig.random.choice(self.names))
        rig.hold.touch()
        rig.wait_for(rig.members[2].is_reached, 60)
        self.try_order()
        rig.drain(self.drain_s)

    def try_order(self):
        """Jobs of several priorities wait; then a client claims one after the other, by one server. On a shared store it takes
        its time, so that a wrong order lasts longer than a reservation."""
        rig = self.rig
        client = HttpClient("client-order", rig.logs / "client-order.log", [rig.members[2].port])
        jobs = []
        while len(jobs) < PROBES:
            job_id, payload = client.new_job()
            if fate(job_id, 1) >= 46:  # one that succeeds
                priority = rig.random.randrange(-5, 6)
                jobs.append({"id": job_id, "task": "ordered", "queue": ALONE, "payload": payload, "priority": priority})
                client.note_submit(job_id, payload, queue=ALONE, priority=priority)

        def ask():
            answered, said = client.producer.ask("/jobs", jobs)
            assert answered == 201, said

        client.insist(ask)
        for job in jobs:
            client.note("acknowledged", job["id"])
        end, left = time.monotonic() + 60, PROBES
        while left > 0 and time.monotonic() < end:
            left -= client.work_one_claim([ALONE], 1 + left % 2, 1, lease=30)
            if self.kind != "sqlite":
                time.sleep(4 / PROBES)
        client.producer.close()
        client.worker.close()
        client.log.close()

    # ---- The judgement ---------------------------------------------------------------------------

    def contract(self):
        """With a wall clock that was set meanwhile the times of the store are known less well. On a shared store another process may
        have set a job aside for a second; half a second more for a busy machine."""
        promised = self.rig.contract()
        return dataclasses.replace(promised, ordered=frozenset({"ordered", ALONE}), reserved_s=0.05 if self.kind == "sqlite" else 1.5,
                                   slack_s=promised.slack_s + self.clock.offsets.moved(0, time.monotonic()))

    def run_and_judge(self, seconds):
        """The history, and a judge who has heard it. Of a run that breaks off that is the one complaint."""
        try:
            self.run(seconds)
        except AssertionError as broken:
            written = self.rig.written()
            judge = judged(written, self.contract())
            judge.complaints = [Complaint("broken off", None, str(broken))]
            return written, judge
        history = self.rig.history()
        return history, judged(history, self.contract())


def keep(folder, trial, history, seed):
    """The history, the logs that it was made of, and the configuration."""
    place = pathlib.Path(folder) / f"{trial.kind}-{seed}"
    shutil.rmtree(place, ignore_errors=True)
    shutil.copytree(trial.rig.place, place, ignore=shutil.ignore_patterns("*-shm"))
    save(history, trial.contract(), place / "history.jsonl")
    return place / "history.jsonl"


def try_store(kind, seconds, faults, seed, other=None, keep_in=None, drain_s=300):
    """The complaints on one store. Says what there was."""
    began = time.monotonic()
    with contextlib.ExitStack() as stack:
        trial = Trial(stack, kind, seed, faults, other, drain_s)
        for text in trial.missing:
            print(f"history on {kind}: left out: {text}")
        history, judge = trial.run_and_judge(seconds)
        found, counts = judge.complaints, judge.books.totals
        print(f"history on {kind}: " + ", ".join(f"{n} {name}" for name, n in trial.faults.counts.items())
              + f"; {counts['submitted']} jobs, {counts['unknown']} without an answer, {counts['starts']} starts, "
              f"{counts['retries']} of them again; {time.monotonic() - began:.0f} s, seed {seed}: {len(found)} complaints",
              flush=True)
        for complaint in found[:20]:
            print(f"  {complaint}")
        for job_id in list(dict.fromkeys(complaint.id for complaint in found if complaint.id))[:2]:
            print(f"  history of {job_id}:", *story(history, job_id), sep="\n    ")
        if found and keep_in:
            print(f"  kept: {keep(keep_in, trial, history, seed)}", flush=True)
    return found


def build_commit(commit, build):
    """The program as it was at a commit, below the build folder; a path to a program is taken as it is."""
    if pathlib.Path(commit).is_file():
        return pathlib.Path(commit).resolve()
    full = subprocess.run(["git", "rev-parse", "--verify", f"{commit}^{{commit}}"], cwd=ROOT, check=True, capture_output=True,
                          text=True).stdout.strip()
    place = build / "history" / full
    if not (place / "build" / "redrive").exists():
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir(parents=True)
        with subprocess.Popen(["git", "archive", full], cwd=ROOT, stdout=subprocess.PIPE) as sources:
            subprocess.run(["tar", "-x", "-C", str(place)], stdin=sources.stdout, check=True)
        for command in (["meson", "setup", "build"], ["ninja", "--quiet", "-C", "build", "redrive"]):
            subprocess.run(command, cwd=place, check=True, stdout=subprocess.DEVNULL)
    return place / "build" / "redrive"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("--store", choices=(*STORES, "all"), default="all")
    parser.add_argument("--seconds", type=float, default=20, help="of faults, on each store")
    parser.add_argument("--drain", type=float, default=300, metavar="SECONDS", help="how long jobs may take to end when the faults are over")
    parser.add_argument("--faults", default=",".join(FAULTS), help="those of them, separated by commas: " + ", ".join(FAULTS))
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--upgrade", metavar="COMMIT", help="the other build: a commit, or a program")
    parser.add_argument("--keep", metavar="FOLDER", default=BINARY.parent / "history", help="for histories with complaints")
    args = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # what was started is ended
    faults = args.faults.split(",")
    if unknown := set(faults) - set(FAULTS):
        parser.error(f"no fault '{min(unknown)}'; known: {', '.join(FAULTS)}")
    other = build_commit(args.upgrade, BINARY.parent) if args.upgrade else None
    print(f"history: seed {args.seed}", flush=True)
    failed = 0
    for kind in STORES if args.store == "all" else (args.store,):
        try:
            failed += bool(try_store(kind, args.seconds, faults, args.seed, other, args.keep, args.drain))
        except servers.Missing as missing:
            print(f"history on {kind}: skipped: {missing}")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
