"""load.py - a rig whose clients keep it busy while something is done to its store."""
import collections
import json
import subprocess

from tests.judge.events import counts
from tests.kit.waiting import LIMIT_S


def settled(rig):
    load = counts(rig.written())
    return min(load[interface, "settled"] for interface in ("http", "faktory"))


def have_begun(rig):
    """Every process has told of itself. One that still opens its store is right to end when that is not there."""
    said = subprocess.run(rig.command("stats", "--json"), capture_output=True, check=False, timeout=LIMIT_S)
    return said.returncode == 0 and len(json.loads(said.stdout)["workers"]) >= len(rig.members)


def endure(rig, *faults, judge=True):
    """Each of them under load, and work goes on after it."""
    rig.begin()
    assert until(rig, lambda: have_begun(rig), LIMIT_S), "a process does not begin"
    for fault in faults:
        goes_on(rig)
        fault()
        rig.all_are_alive()
    goes_on(rig)
    rig.drain()
    if judge:
        found = rig.judge()
        assert not found, found[:20]


def goes_on(rig, limit_s=LIMIT_S):
    """Every client comes on, and so does the work of the program itself."""
    before = settled(rig)
    assert until(rig, lambda: settled(rig) >= before + 5, limit_s), \
        f"no client is served any more: {settled(rig)} of {before + 5}"


def until(rig, condition, limit_s):
    """Tells whether that came true. There is never more to do than can be done in the end."""
    return rig.wait_for(lambda: condition() or keep_load(rig), limit_s)


def keep_load(rig):
    try:
        rig.keep_busy()
    except AssertionError:  # the store cannot be asked now
        pass


def invariants_hold(rig):
    """Whatever was lost: nothing is half done, and the counts are right."""
    assert rig.store.health() is None
    assert rig.store.live() == []
    states = collections.Counter(job["state"] for job in rig.store.jobs())
    assert {state: n for state, n in rig.store.figures()["sizes"].items() if n} == dict(states)
