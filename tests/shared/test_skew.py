"""Two workers whose clocks are an hour off, one each way. The store's clock counts: nothing starts early, a
lease is as long as it should be, and who is dead is found out in time."""
import datetime
import json
import re
import subprocess
import time

import pytest

from tests.kit.network import Unavailable
from tests.kit.program import BINARY, environment
from tests.kit.skew import skewed_clock
from tests.kit.waiting import LIMIT_S, wait_for
from tests.shared.fleet import run_noting

HOUR = 3600


@pytest.fixture(scope="module")
def skew():
    """The environment of a program whose clock is off."""
    try:
        return skewed_clock()
    except Unavailable as missing:
        pytest.skip(str(missing))


def enqueue(fleet, env, *words):
    done = subprocess.run([str(BINARY), "enqueue", "-c", str(fleet.config), *words], stdin=subprocess.DEVNULL, text=True,
                          capture_output=True, env=environment(**env), timeout=LIMIT_S, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_clocks_that_are_an_hour_off_do_no_harm(fleet, skew):
    fleet.configure("tasks:\n  job: {lease: 10s, heartbeat: 300ms, " + run_noting(3) + "}\n")
    early, late = skew(HOUR), skew(-HOUR)
    workers = [fleet.work(env=early), fleet.work(env=late)]
    asked = {}
    for env in (early, late, {}):
        before = time.time()
        asked[enqueue(fleet, env, "job", "{}", "--delay", "2s")] = before
    long = fleet.submit("job", [{"sleep": 2.5}] * 4)

    wait_for(lambda: len(fleet.seen("end")) >= 7, lambda: f"{len(fleet.seen('end'))} of 7 ends")
    starts = {entry["id"]: entry for entry in fleet.seen("start")}
    assert len(fleet.seen("start")) == 7, "none was taken away from a worker that was alive"
    for job, before in asked.items():
        start = starts[job]["at"]
        assert start >= before + 2, f"waited {start - before:.2f} s at the most for a delay of 2 s"
    assert {job["state"] for job in fleet.jobs()} == {"completed"}

    # One of them dies in the middle of its jobs.
    fleet.submit("job", [{"sleep": 5}] * 6)
    wait_for(lambda: len(fleet.seen("start")) == 13, "all run")
    workers[0].kill()
    left = {job["id"] for job in fleet.jobs("running") if job["worker"].endswith(f":{workers[0].pid}")}
    assert left
    wait_for(lambda: left <= {entry["id"] for entry in fleet.seen("start")[13:]}, "its jobs run again, not an hour later")
    wait_for(lambda: not fleet.jobs("queued", "running", "retrying"), "all end")
    assert set(long) <= {entry["id"] for entry in fleet.seen("end")}


MORTAL = """tasks:
  mortal: {retry: {max_attempts: 1}, run: {exec: ['false']}}
  waits: {queue: later}
cron:
  minutely: {task: waits, schedule: '* * * * *'}
"""


@pytest.fixture
def off(fleet, skew):
    """Runs a command whose clock is an hour ahead, or behind; its standard output."""
    def run(hours, *words, code=0):
        done = subprocess.run([str(BINARY), *words], stdin=subprocess.DEVNULL, text=True, capture_output=True,
                              env=environment(**skew(hours * HOUR)), timeout=LIMIT_S, check=False)
        assert done.returncode == code, done.stdout + done.stderr
        return done.stdout + done.stderr

    return lambda hours, *words, code=0: run(hours, *words, "-c", str(fleet.config), code=code)


def moment(text):
    return datetime.datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()


def test_what_commands_say_of_time_goes_by_the_clock_of_the_store(fleet, off):
    fleet.configure(MORTAL)
    fleet.submit("waits", [{}])
    dead = fleet.submit("mortal", [{}])[0]
    assert fleet.redrive("work", "--until-idle").returncode in (0, 3)

    for hours in (1, -1):
        assert not re.search(r" \d+[hd]\b", off(hours, "jobs", "list"))
        assert not re.search(r"\d[hd] ago|\(in \d", off(hours, "jobs", "show", dead))
        assert not re.search(r" \d+[hd]\b", off(hours, "dlq", "groups"))
        assert not re.search(r" \d+[hd]\b", off(hours, "queues", "list"))
        for words in (["jobs", "list", "--state", "dead_letter"], ["dlq", "list"], ["dlq", "export"], ["dlq", "groups"]):
            assert dead in off(hours, *words, "--newer-than", "30m"), words
            assert dead not in off(hours, *words, "--older-than", "30m"), words
        for words in (["retry"], ["purge", "--yes"]):
            assert re.match("no dead letter matches|0 dead letters", off(hours, "dlq", *words, "--older-than", "30m", "--dry-run"))
        assert json.loads(off(hours, "dlq", "stats", "--newer-than", "30m", "--json"))["total_jobs"] == 1
        checks = {item["check"]: item for item in json.loads(off(hours, "doctor", "--json"))["items"]}
        assert checks["clock"]["status"] == "ok", checks["clock"]
        tick = json.loads(off(hours, "cron", "list", "--json"))["items"][0]["next_tick"]
        assert moment(tick) - time.time() < 120, tick


def test_a_worker_is_alive_by_the_clock_of_the_store(fleet, skew, off):
    """It has told of itself just now, whatever anybody's own clock says."""
    fleet.configure(MORTAL)
    assert fleet.redrive("migrate").returncode == 0
    fleet.work(env=skew(HOUR))
    wait_for(lambda: json.loads(fleet.redrive("stats", "--json").stdout)["workers"], "the worker tells of itself")
    worker = json.loads(fleet.redrive("stats", "--json").stdout)["workers"][0]
    assert abs(moment(worker["started_at"]) - time.time()) < 120, worker
    for hours in (1, -1):
        assert worker["name"] in off(hours, "top", "--once")
        if fleet.url.startswith("postgres"):  # the other one forgets, so that nothing is moved out of it
            told = off(hours, "move", "--from", fleet.url, "--to", f"sqlite:{fleet.dir}/new.db", code=1)
            assert "1 worker is alive on the source" in told
