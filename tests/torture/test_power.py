"""A few power cuts under a server on a real file system; `make torture` and `make power-cuts` make more."""
import subprocess
import sys

import pytest

from tests.kit.program import ROOT

SKIPPED = 77


def cut(*words):
    done = subprocess.run([sys.executable, "-m", "tests.torture.power", *words], cwd=ROOT, capture_output=True, text=True, check=False,
                          timeout=600)
    if done.returncode == SKIPPED:
        pytest.skip(done.stdout.strip())
    return done


def test_what_was_acknowledged_survives_power_cuts():
    done = cut("--cuts", "3")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "0 complaints" in done.stdout


def test_rig_notices_a_disk_that_does_not_sync():
    done = cut("--cuts", "3", "--no-sync")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "not in the store" in done.stdout or "did not start again" in done.stdout
