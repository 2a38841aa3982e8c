"""A disk without room: what was acknowledged is kept, what cannot be is refused in clear words, and
work goes on by itself as soon as there is room again."""
import json
import subprocess
import time

import pytest

from tests.kit.waiting import LIMIT_S
from tests.torture.rig import Rig

SIZE_MIB = 6
BALLAST_KIB = 3072


@pytest.fixture
def small_disk(tmp_path):
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={SIZE_MIB}m", "tmpfs", str(disk)],
                             capture_output=True, check=False)
    if mounted.returncode != 0:
        pytest.skip("nothing can be mounted here")
    (disk / "ballast").write_bytes(b"\0" * 1024 * BALLAST_KIB)
    yield disk
    subprocess.run(["umount", str(disk)], check=True)


@pytest.fixture
def rig(small_disk, tmp_path):
    made = Rig(seed=1, place=tmp_path)
    made.keep_in(f"sqlite:{small_disk}/jobs.db")
    yield made
    made.close()


def fill(rig):
    """Submits until that fails, and gives the last word on it."""
    for number in range(2000):
        job_id = f"job-{number}"
        payload = rig.place / "payload.json"
        payload.write_text(json.dumps({"number": number, "text": "x" * 20000}))
        asked = time.monotonic()
        result = subprocess.run(rig.command("enqueue", "work", "--from", str(payload), "--id", job_id),
                                capture_output=True, text=True, check=False, timeout=LIMIT_S)
        if result.returncode != 0:
            return result
        assert result.stdout.strip() == job_id
        rig.acknowledge(job_id, asked)
    raise AssertionError("the disk never got full")


def test_full_disk_refuses_clearly_and_recovers_by_itself(rig, small_disk):
    worker = rig.start("work")
    refusal = fill(rig)
    assert refusal.returncode == 1
    assert "full" in refusal.stderr or "space" in refusal.stderr, refusal.stderr
    assert "hint:" in refusal.stderr
    assert refusal.stdout == ""

    (small_disk / "ballast").unlink()
    end = time.monotonic() + LIMIT_S
    while rig.store.live():
        assert worker.poll() is None, worker.stderr.read().decode()
        assert time.monotonic() < end, "work did not go on"
        time.sleep(0.05)
    worker.terminate()
    assert worker.wait(timeout=LIMIT_S) == 0
    rig.forget(worker)
    assert rig.judge() == []
    assert rig.submitted > 20
