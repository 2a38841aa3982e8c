"""Two workers whose clocks are an hour off, one each way. The store's clock counts: nothing starts early, a
lease is as long as it should be, and who is dead is found out in time."""
import pathlib
import shutil
import subprocess
import time

import pytest

from fleet import run_by_witness
from serve_kit import BINARY, LIMIT_S, environment, wait_for

HERE = pathlib.Path(__file__).resolve().parent
HOUR = 3600


@pytest.fixture(scope="module")
def skew(tmp_path_factory):
    """The environment of a program whose clock is off."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if not compiler:
        pytest.skip("no C compiler")
    library = tmp_path_factory.mktemp("skew") / "skew.so"
    subprocess.run([compiler, "-shared", "-fPIC", "-O1", "-o", str(library), str(HERE / "skew.c")], check=True)
    return lambda seconds: {"LD_PRELOAD": str(library), "SKEW_S": str(seconds)}


def enqueue(fleet, env, *words):
    done = subprocess.run([str(BINARY), "enqueue", "-c", str(fleet.config), *words], stdin=subprocess.DEVNULL, text=True,
                          capture_output=True, env=environment(**env), timeout=LIMIT_S, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_clocks_that_are_an_hour_off_do_no_harm(fleet, skew):
    fleet.configure("tasks:\n  job: {lease: 1s, heartbeat: 300ms, " + run_by_witness(3) + "}\n")
    early, late = skew(HOUR), skew(-HOUR)
    workers = [fleet.work(env=early), fleet.work(env=late)]
    asked = {}
    for env in (early, late, {}):
        job = enqueue(fleet, env, "job", "{}", "--delay", "2s")
        asked[job] = time.time()
    long = fleet.submit("job", [{"sleep": 2.5}] * 4)

    wait_for(lambda: len(fleet.seen("end")) >= 7, lambda: f"{len(fleet.seen('end'))} of 7 ends")
    starts = {entry["id"]: entry for entry in fleet.seen("start")}
    assert len(fleet.seen("start")) == 7, "none was taken away from a worker that was alive"
    for job, at in asked.items():
        waited = starts[job]["at"] - at
        assert 1.0 <= waited <= 20, f"waited {waited:.2f} s for a delay of 2 s"
    assert {job["state"] for job in fleet.jobs()} == {"completed"}

    # One of them dies in the middle of its jobs.
    fleet.submit("job", [{"sleep": 2}] * 6)
    wait_for(lambda: len(fleet.seen("start")) == 13, "all run")
    workers[0].kill()
    killed = time.time()
    wait_for(lambda: len(fleet.seen("start")) == 16, "its three run again")
    assert all(entry["at"] < killed + 10 for entry in fleet.seen("start")[13:])
    wait_for(lambda: not fleet.jobs("queued", "running", "retrying"), "all end")
    assert set(long) <= {entry["id"] for entry in fleet.seen("end")}
