#!/usr/bin/env python3
"""times.py - the processor time of tests, by part.

    tests/times.py run PROGRAM WORD...    runs a unit test and notes it (the wrapper of `meson test`)
    tests/times.py table FILE             what was noted, as the table of tests/README.md

Each line of the file that REDRIVE_TEST_TIMES names is one measurement: seconds of processor time, seconds on the clock, the
part. A process counts with all processes that it has waited for.
"""
import collections
import os
import pathlib
import re
import resource
import subprocess
import sys
import time

VARIABLE = "REDRIVE_TEST_TIMES"
TICKS = os.sysconf("SC_CLK_TCK")


def note(cpu_s, clock_s, part):
    if VARIABLE in os.environ:
        with open(os.environ[VARIABLE], "a", encoding="utf-8") as file:
            file.write(f"{cpu_s:.3f} {clock_s:.3f} {part}\n")


def of_this_process():
    """Of this process and of the children that it has waited for."""
    used = [resource.getrusage(which) for which in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in used)


def note_process(pid, part):
    """A process that still runs, with the children that it has waited for."""
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text("ascii").rpartition(")")[2].split()
    children = sum(cpu_of(child) for child in pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text("ascii").split())
    note(sum(int(field) for field in fields[11:15]) / TICKS + children, 0, part)


def cpu_of(pid):
    try:
        fields = pathlib.Path(f"/proc/{pid}/stat").read_text("ascii").rpartition(")")[2].split()
    except OSError:  # it has ended since
        return 0
    return sum(int(field) for field in fields[11:15]) / TICKS


def meson_words():
    return ["--wrapper", f"{sys.executable} {pathlib.Path(__file__).resolve()} run"] if VARIABLE in os.environ else []


def meson_log():
    """Meson names its log after the wrapper."""
    return f"testlog-{pathlib.Path(sys.executable).name}" if VARIABLE in os.environ else "testlog"


class Files:
    """A plugin of pytest: what each file of black-box tests takes, with its set-up and tear-down."""

    def __init__(self):
        self.cpu_s, self.clock_s = of_this_process(), time.monotonic()
        note(self.cpu_s, 0, "pytest its start")

    def pytest_runtest_logfinish(self, location):
        cpu_s, clock_s = of_this_process(), time.monotonic()
        note(cpu_s - self.cpu_s, clock_s - self.clock_s, f"pytest {location[0]}")
        self.cpu_s, self.clock_s = cpu_s, clock_s


def run(words):
    began = time.monotonic()
    code = subprocess.run(words).returncode
    suites = [re.search(r"(?:^|/)tests/(\w+)/(?!.*with-servers)", word) for word in words]
    suite = next((found[1] for found in suites if found), "other")
    store = os.environ.get("REDRIVE_TEST_STORE", "no store")
    note(of_this_process(), time.monotonic() - began, f"unit {suite} {store}")
    return code if code >= 0 else 128 - code


def table(path):
    parts = collections.defaultdict(lambda: [0.0, 0.0])
    for line in path.read_text("utf-8").splitlines():
        cpu_s, clock_s, part = line.split(" ", 2)
        parts[part][0] += float(cpu_s)
        parts[part][1] += float(clock_s)
    print("| part | processor time, s | on the clock, s |")
    print("|---|---:|---:|")
    rest = [0.0, 0.0, 0]
    for part, (cpu_s, clock_s) in sorted(parts.items(), key=lambda item: -item[1][0]):
        if cpu_s >= 2:
            print(f"| {part} | {cpu_s:.1f} | {clock_s:.0f} |")
        else:
            rest = [rest[0] + cpu_s, rest[1] + clock_s, rest[2] + 1]
    print(f"| {rest[2]} others, of less than 2 s each | {rest[0]:.1f} | {rest[1]:.0f} |")
    print(f"| together | {sum(cpu_s for cpu_s, _ in parts.values()):.1f} | |")


def main():
    if len(sys.argv) < 3 or sys.argv[1] not in ("run", "table"):
        sys.exit(__doc__)
    return run(sys.argv[2:]) if sys.argv[1] == "run" else table(pathlib.Path(sys.argv[2]))


if __name__ == "__main__":
    sys.exit(main())
