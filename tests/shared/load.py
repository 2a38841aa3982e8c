"""load.py - a rig whose clients keep it busy while something is done to its store."""
import json
import subprocess
import time

from evidence import counts
from waiting import look_again


def settled(rig):
    load = counts(rig.testimony())
    return min(load[interface, "settled"] for interface in ("http", "faktory"))


def have_begun(rig):
    """Every process has told of itself. One that still opens its store is right to end when that is not there."""
    said = subprocess.run(rig.command("stats", "--json"), capture_output=True, check=False, timeout=60)
    return said.returncode == 0 and len(json.loads(said.stdout)["workers"]) >= len(rig.members)


def endure(rig, *faults, judge=True):
    """Each of them under load, and work goes on after it."""
    rig.begin()
    assert until(rig, lambda: have_begun(rig), 60), "a process does not begin"
    for fault in faults:
        goes_on(rig)
        fault()
        rig.all_are_alive()
    goes_on(rig)
    rig.drain()
    if judge:
        found = rig.judge()
        assert not found, found[:20]


def goes_on(rig, limit_s=60):
    """Every client comes on, and so does the work of the program itself."""
    before = settled(rig)
    assert until(rig, lambda: settled(rig) >= before + 5, limit_s), \
        f"no client is served any more: {settled(rig)} of {before + 5}"


def until(rig, condition, limit_s):
    """Tells whether that came true. There is never more to do than can be done in the end."""
    end = time.monotonic() + limit_s
    while not condition():
        began = time.monotonic()
        rig.all_are_alive()
        if began > end:
            return False
        keep_load(rig)
        look_again(began, 0.05)
    return True


def keep_load(rig):
    try:
        rig.keep_busy()
    except AssertionError:  # the store cannot be asked now
        pass
