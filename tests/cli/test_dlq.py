"""redrive dlq at a rate, when it is interrupted, and on a terminal. What it prints elsewhere is in the transcripts."""

import json
import signal
import subprocess
import time

import pytest

from tests.cli.jobs import full, run_on_terminal, store  # noqa: F401 (fixtures)
from tests.kit.program import BINARY, TIMEOUT_S


def dead(store):
    return store.ids("dlq", "list")


# ---- retry ------------------------------------------------------------------------------------


def test_rate_is_kept(store):
    """The first goes at once, and each of the others a tenth of a second after the one before."""
    store.seed({"state": "dead_letter", "id": "d", "count": 20, "reason": "manual"})
    started = time.monotonic()
    assert store.output("dlq", "retry", "--all", "--rate", "10") == "20 of 20 redriven\n"
    assert time.monotonic() - started >= 1.8


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_interrupt_stops_it_and_says_how_far_it_came(store, number):
    store.seed({"state": "dead_letter", "id": "d", "count": 300, "reason": "manual"})
    process = store.popen("dlq", "retry", "--all", "--rate", "5/s", "--json",
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True,
                          # One that the parent ignores, as nohup does with SIGHUP, would stay ignored.
                          preexec_fn=lambda: signal.signal(number, signal.SIG_DFL))
    try:
        deadline = time.monotonic() + TIMEOUT_S
        while not store.ids("jobs", "list", "--state", "queued"):
            assert time.monotonic() < deadline
        process.send_signal(number)
        out, err = process.communicate(timeout=TIMEOUT_S)
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
    result = json.loads(out)
    queued = len(store.ids("jobs", "list", "--state", "queued", "--limit", "1000"))
    assert process.returncode == 1
    assert not result["finished"] and result["matched"] == 300
    assert 0 < result["redriven"] == queued < 300
    assert f"interrupted: {queued} of 300 redriven" in err


def test_terminal_gets_a_progress_bar(store):
    store.seed({"state": "dead_letter", "id": "d", "count": 8, "reason": "manual"})
    code, seen = run_on_terminal(store, "dlq", "retry", "--all", "--rate", "10/s")
    assert code == 0
    assert "redrive  [" in seen and "/8" in seen
    assert seen.endswith("8 of 8 redriven\r\n")


# ---- edit -------------------------------------------------------------------------------------


def editor(full, script):
    path = full.directory / "editor.sh"
    path.write_text("#!/bin/sh\n" + script)
    path.chmod(0o755)
    return {"EDITOR": f"{path} --wait", "TMPDIR": str(full.directory)}


def test_edit_takes_a_payload_as_deep_as_a_submit_does(full):
    deepest = "[" * 64 + "]" * 64
    assert full.output("dlq", "edit", "bad-1", deepest) == "bad-1  edited, dead_letter\n"


def leftovers(full):
    return [path.name for path in full.directory.iterdir() if path.name.startswith("redrive-")]


def test_edit_opens_the_editor_on_a_terminal(full):
    env = editor(full, 'test "$1" = --wait && sed -i s/null/7/ "$2"\n')
    code, seen = run_on_terminal(full, "dlq", "edit", "bad-1", env=env)
    assert (code, seen) == (0, "bad-1  edited, dead_letter\r\n")
    assert full.job("bad-1")["payload"] == {"amount": 7}
    assert leftovers(full) == []


def test_text_that_is_not_json_is_kept_for_another_try(full):
    code, seen = run_on_terminal(full, "dlq", "edit", "bad-1",
                                 env=editor(full, 'echo "{" > "$2"\n'))
    (name,) = leftovers(full)
    assert code == 2 and "not JSON" in seen and f"--from {full.directory / name}" in seen
    assert (full.directory / name).read_text() == "{\n"
    assert full.job("bad-1")["payload"] == {"amount": None}


def test_text_that_cannot_be_stored_is_kept(full):
    """The job is redriven while it is being edited."""
    redrive = f'"{BINARY}" --store {full.url} dlq retry bad-1 >/dev/null'
    code, seen = run_on_terminal(full, "dlq", "edit", "bad-1", env=editor(full, f'sed -i s/null/7/ "$2"\n{redrive}\n'))
    (name,) = leftovers(full)
    assert code == 1 and f"--from {full.directory / name}" in seen.replace("\r\n", "")
    assert json.loads((full.directory / name).read_text()) == {"amount": 7}


@pytest.mark.parametrize("script, told", [("exit 1\n", "the editor failed"),
                                          ("true\n", "nothing was changed")])
def test_editor_that_gives_nothing_new_changes_nothing(full, script, told):
    code, seen = run_on_terminal(full, "dlq", "edit", "bad-1", env=editor(full, script))
    assert code in (1, 2) and told in seen
    assert full.job("bad-1")["payload"] == {"amount": None}
    assert leftovers(full) == []


# ---- purge ------------------------------------------------------------------------------------


@pytest.mark.parametrize("answer, left", [(b"y\n", 0), (b"n\n", 4), (b"\n", 4), (b"\x04", 4)])
def test_purge_asks_on_a_terminal(full, answer, left):
    code, seen = run_on_terminal(full, "dlq", "purge", "--older-than", "0", typed=answer)
    assert "Remove 4 dead letters for good? [y/N]" in seen
    assert code == (0 if left == 0 else 1)
    assert len(dead(full)) == left


def test_purge_with_yes_does_not_ask(full):
    code, seen = run_on_terminal(full, "dlq", "purge", "--older-than", "0", "--yes")
    assert (code, "[y/N]" in seen) == (0, False)
    assert dead(full) == []
