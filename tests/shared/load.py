"""load.py - a rig whose clients keep it busy while something is done to its store."""
import time

from evidence import counts


def settled(rig):
    load = counts(rig.testimony())
    return min(load[door, "settled"] for door in ("http", "faktory"))


def endure(rig, *faults, judge=True):
    """Each of them under load, and work goes on after it."""
    rig.begin()
    for fault in faults:
        goes_on(rig)
        fault()
        rig.all_are_alive()
    goes_on(rig)
    rig.drain()
    if judge:
        assert rig.judge() == []


def goes_on(rig, limit_s=60):
    """Every client comes on, and so does the work of the program itself."""
    before = settled(rig)
    end = time.monotonic() + limit_s
    while settled(rig) < before + 5:
        rig.all_are_alive()
        assert time.monotonic() < end, f"no client is served any more: {settled(rig)} of {before + 5}"
        time.sleep(0.05)
