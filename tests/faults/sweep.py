"""sweep.py - fails each call of a program in turn, and looks at what becomes of it.

    python3 -m tests.faults.sweep [--path NAME]... [--kind KIND]... [--every N] [--at N] [--jobs N]

For each path (a command, a program of the C library, a server) the calls of each kind are counted in a run without faults.
Then the n-th call fails, once, and in another run all calls from the n-th on. No run may crash, hang, damage the store, lose
what was acknowledged, or claim a success that it is not; a run that fails says why; and the next one, without faults, works.

--every N takes each N-th call only; of SQLite's allocations it is each tenth of these, unless --whole is given. Prints
figures, and each complaint with the stack of the call that failed. Exits 1 when there is a complaint.
"""
import argparse
import collections
import concurrent.futures
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time

from tests.faults import live, places
from tests.faults.paths import COMMANDS, Case
from tests.kit.failing import KINDS

PATHS = {path.name: path for path in (*COMMANDS, *live.SERVERS)}
#: Cases that one process tries, one after another.
SHARE = 40
#: SQLite asks for memory so often, and so much alike, that only each tenth of its calls is tried.
SPARSE = {"sqlite-memory": 10}
#: Runs whose second look waits for leases to end.
PENDING = 40


def session(name):
    root = tempfile.mkdtemp(prefix="redrive-faults-", dir="/dev/shm" if os.access("/dev/shm", os.W_OK) else None)
    return pathlib.Path(root), PATHS[name].begin(root)


def count(name):
    root, one = session(name)
    try:
        return name, one.counts(), one.end()
    finally:
        shutil.rmtree(root, ignore_errors=True)


def try_cases(name, cases):
    """Outcomes of some cases of a path."""
    outcomes, pending = [], collections.deque()

    def finish_one():
        ready_s, finish = pending.popleft()
        time.sleep(max(0, ready_s - time.monotonic()))
        finish()

    root, one = session(name)
    try:
        for case in cases:
            outcome, ready_s, finish = one.attempt(case)
            outcomes.append(outcome)
            pending.append((ready_s, finish))
            while len(pending) > PENDING:
                finish_one()
        while pending:
            finish_one()
        outcomes += one.end()
    finally:
        shutil.rmtree(root, ignore_errors=True)
    return outcomes


def plan(name, counts, options):
    """The cases of a path; of calls that are many only each N-th, which shows no favour to the first ones."""
    for kind in options.kind or KINDS:
        for lasting in (False,) if options.once else (False, True):
            every = options.every * (1 if options.whole else SPARSE.get(kind, 1))
            first = (sum(map(ord, name + kind)) + lasting) % every + 1
            for at in [options.at] if options.at else range(first, counts[kind] + 1, every):
                yield Case(name, kind, at, lasting)


def shares(cases):
    for first in range(0, len(cases), SHARE):
        yield cases[first : first + SHARE]


def named(trace):
    """A stack with names of functions in place of addresses of the program."""
    lines = []
    for line in trace.splitlines():
        found = re.match(r"(\S+)\(\+(0x[0-9a-f]+)\)", line)
        if found and pathlib.Path(found[1]).name in ("redrive", "life", "redrive_wrapped", "life_wrapped"):
            path = found[1] if os.path.isabs(found[1]) else places.BINARY
            line = " ".join(subprocess.run(["addr2line", "-f", "-s", "-e", path, found[2]], capture_output=True,
                                           text=True, check=False).stdout.split())
        lines.append("    " + line)
    return "\n".join(lines)


def show(outcome):
    print(f"{outcome.case}\n  " + "\n  ".join(outcome.complaints) + f"\n{named(outcome.trace)}", flush=True)


class Figures:
    def __init__(self):
        self.tried = self.hit = self.refused = 0
        self.in_library = collections.Counter()
        self.complaints = []

    def add(self, outcomes):
        """Gives those that are complained of."""
        for outcome in outcomes:
            self.tried += 1
            self.hit += outcome.hit
            self.refused += outcome.refused
            if outcome.in_library:
                self.in_library[outcome.in_library] += 1
            if outcome.complaints:
                self.complaints.append(outcome)
                yield outcome


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--path", action="append", choices=PATHS)
    parser.add_argument("--kind", action="append", choices=KINDS)
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("--whole", action="store_true", help="all allocations of SQLite too")
    parser.add_argument("--once", action="store_true", help="no runs in which all calls fail from the n-th on")
    parser.add_argument("--at", type=int, help="this call only")
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--show", type=int, default=20, help="at most so many complaints with their stacks (%(default)s)")
    return parser.parse_args()


def main():
    options = parse_arguments()
    names = options.path or list(PATHS)
    figures, began_s, shown_s = Figures(), time.monotonic(), 0
    with concurrent.futures.ProcessPoolExecutor(options.jobs) as pool:
        work = []
        for name, counts, _ in pool.map(count, names):
            cases = list(plan(name, counts, options))
            print(f"{name}: {sum(counts.values())} calls ({', '.join(f'{n} {kind}' for kind, n in counts.items() if n)}); "
                  f"{len(cases)} runs", flush=True)
            work += [pool.submit(try_cases, name, share) for share in shares(cases)]
        for number, done in enumerate(concurrent.futures.as_completed(work), 1):
            for outcome in figures.add(done.result()):
                if len(figures.complaints) <= options.show:
                    show(outcome)
            if time.monotonic() - shown_s > 10:
                shown_s = time.monotonic()
                print(f"{number}/{len(work)} parts, {figures.tried} runs, {len(figures.complaints)} complaints, "
                      f"{shown_s - began_s:.0f} s", flush=True)
    for what, n in figures.in_library.items():
        print(f"listed: {n} runs ended in a library: {what}")
    print(f"{len(names)} paths, {figures.tried} runs, {figures.hit} with a failed call, {figures.refused} refused, "
          f"{sum(figures.in_library.values())} ended in a library, {len(figures.complaints)} complaints, "
          f"{time.monotonic() - began_s:.0f} s")
    return 1 if figures.complaints else 0


if __name__ == "__main__":
    sys.exit(main())
