"""A small part of the sweep (sweep.py), the same calls in each run, and whether it would notice. `make faults` has all calls."""
import json
import re
import subprocess
import sys

import pytest

from tests.faults import paths, places
from tests.faults.paths import COMMANDS, Case
from tests.kit.failing import LIBRARY, Failing
from tests.kit.program import ROOT

ENQUEUE = next(path for path in COMMANDS if path.name == "enqueue")

#: What a program that is broken does in place of a job.
BROKEN = {
    "crash": ("kill -SEGV $$", "ended by signal 11"),
    "success that it is not": ("exit 0", "new-1 is None, not queued"),
    "no message": ("exit 1", "failed without a message"),
    "another cause": ("echo 'redrive: out of memory: the store is damaged' >&2; exit 1", "another cause"),
    "damage": ("dd if=/dev/urandom of=jobs.db bs=4096 seek=1 count=3 conv=notrunc status=none; echo 'redrive: out of memory' >&2; exit 1",
               "the store is damaged"),
    "a lost job": ("sqlite3 jobs.db \"PRAGMA journal_mode=DELETE; DELETE FROM job_states WHERE seq = 1\" >&2; "
                   "echo 'redrive: out of memory' >&2; exit 1", "is None, not"),
    "no end": ("sleep 60", "did not end"),
}


@pytest.fixture(autouse=True)
def library():
    if not LIBRARY.exists():
        pytest.skip("the library of faults is not built")


def sweep(*words):
    done = subprocess.run([sys.executable, "-m", "tests.faults.sweep", *words], cwd=ROOT, capture_output=True, text=True,
                          check=False, timeout=500)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.splitlines()[-1]


#: Those whose outcome does not depend on the load of the machine; locks that fail are waited for.
KINDS = ("memory", "sqlite-memory", "library-memory", "open", "read", "write", "sync", "truncate", "name")
STEADY = ("enqueue", "enqueue-new-store", "redrive", "edit", "cancel", "config-check", "jobs-list", "export", "backup")


def test_no_failed_call_of_a_sample_does_harm():
    chosen = [("--path", name) for name in STEADY] + [("--kind", kind) for kind in KINDS]
    said = sweep("--every", "61", *(word for pair in chosen for word in pair))
    assert "0 complaints" in said
    assert int(re.search(r"(\d+) with a failed call", said)[1]) > 100, said


def test_commands_that_show_or_edit_say_when_memory_runs_out():
    """Each allocation of their own: they once left a part out, or called a payload too big."""
    assert "0 complaints" in sweep("--path", "config-show", "--path", "jobs-show", "--path", "edit", "--kind", "memory", "--once")


@pytest.mark.parametrize("flag", ["--no-color", "--json"])
def test_program_without_any_memory_says_so(flag, tmp_path):
    folder = places.Places(tmp_path / "stores").copy(places.make_empty)
    failing = Failing(tmp_path / "faults")
    failing.set(kind="memory", at=1, lasting=True)
    done = places.call(folder, "enqueue", "good", "{}", flag, env=failing.env())
    assert done.returncode == 1
    if flag == "--json":
        assert json.loads(done.stderr)["error"]["message"] == "out of memory"
    else:
        assert done.stderr == "redrive: out of memory\n"


@pytest.mark.parametrize("name", BROKEN)
def test_sweep_notices(name, tmp_path, monkeypatch):
    does, complaint = BROKEN[name]
    program = tmp_path / "redrive"
    program.write_text(f'#!/bin/sh\nif [ -e {tmp_path}/is-broken ] && [ "$1" = enqueue ]; then\n{does}\nfi\nexec {places.BINARY} "$@"\n')
    program.chmod(0o755)
    monkeypatch.setattr(places, "BINARY", program)
    session = ENQUEUE.begin(tmp_path / "stores")
    (tmp_path / "is-broken").touch()
    if name == "no end":
        monkeypatch.setattr(places, "LIMIT_S", 1)
    outcome, _, _ = session.attempt(Case("enqueue", "memory", 10**9, False))
    assert any(complaint in text for text in outcome.complaints), outcome


def test_abort_of_a_library_is_counted_apart(monkeypatch):
    monkeypatch.setattr(paths, "LIBRARY_ABORTS", ((r"libuv.*\n.*uv_run", "libuv"),))
    outcome = paths.Outcome(None, trace="failed:\na\ncrashed:\nlibuv.so.1(+0x1)\nlibuv.so.1(uv_run+0x2)\n")
    assert paths.judge_death(outcome, -6, "") and outcome.in_library == "libuv" and not outcome.complaints
    outcome = paths.Outcome(None, trace="failed:\nlibuv.so.1(uv_run+0x2)\ncrashed:\nredrive(+0x1)\n")
    assert paths.judge_death(outcome, -6, "") and outcome.complaints
