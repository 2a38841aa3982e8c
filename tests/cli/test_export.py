"""An export that is interrupted. What exports write is in the transcripts."""

import json
import signal
import subprocess
import time

from tests.cli.jobs import store  # noqa: F401 (fixtures)
from tests.kit.program import TIMEOUT_S


def test_signal_leaves_no_file(store):
    """Large enough that it is still being written when its file is seen."""
    store.seed({"state": "dead_letter", "id": "d", "count": 300, "reason": "manual",
                "payload": json.dumps("x" * 200000)})
    process = store.popen("dlq", "export", "-o", "dead.jsonl", stdin=subprocess.DEVNULL,
                          stderr=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + TIMEOUT_S
        while not any("dead" in path.name for path in store.directory.iterdir()):
            assert time.monotonic() < deadline
        process.send_signal(signal.SIGINT)
        code = process.wait(timeout=TIMEOUT_S)
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
    names = [path.name for path in store.directory.iterdir() if "dead" in path.name]
    # On a machine that was busy elsewhere it may have finished before.
    assert (code, names) in ((-signal.SIGINT, []), (0, ["dead.jsonl"]))
