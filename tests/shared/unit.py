"""Unit tests of the stores, run on a server of one's own."""
import os
import subprocess

import pytest

from tests.kit.program import BUILD


def passes(program, name, **env):
    """The tests of the file test_NAME.c, in a program of tests/store."""
    path = BUILD / "tests" / "store" / program
    if not path.exists():
        pytest.skip("the tests of the stores are not built")
    few = {"REDRIVE_STORE_TRANSACTIONS": "200", "REDRIVE_FAULT_STEP": "20", "CMOCKA_MESSAGE_OUTPUT": "TAP"}
    done = subprocess.run([str(path), name], env={**os.environ, **few, **env}, stdin=subprocess.DEVNULL, capture_output=True,
                          text=True, timeout=600, check=False)
    assert done.returncode == 0 and "\nok 1 - " in done.stdout, done.stdout + done.stderr
