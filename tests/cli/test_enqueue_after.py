"""`redrive enqueue --after`, and what `jobs show` says about it."""

import json
import subprocess

import pytest

from tests.kit.waiting import LIMIT_S


@pytest.fixture
def run(redrive, tmp_path):
    def call(*words, code=0):
        result = subprocess.run([redrive.binary, *words, "--store", f"sqlite:{tmp_path}/a.db"], cwd=tmp_path,
                                capture_output=True, text=True, timeout=LIMIT_S, check=False)
        assert result.returncode == code, result.stderr
        return result.stderr if code else result.stdout

    return call


def kill(run, tmp_path):
    """Lets the jobs that are ready die."""
    (tmp_path / "redrive.yaml").write_text("tasks: {t: {run: {exec: [sh, -c, exit 65]}}}\n")
    run("work", "--until-idle", code=3)
    (tmp_path / "redrive.yaml").unlink()


def test_a_job_waits_for_others_and_says_so(run):
    run("enqueue", "t", "--id", "a")
    run("enqueue", "t", "--id", "b")
    assert run("enqueue", "t", "--id", "c", "--after", "a", "--after", "b", "--on", "end") == "c\n"
    shown = run("jobs", "show", "c")
    assert "State       waiting\n" in shown
    assert "Waits for   a (queued, on end)\n            b (queued, on end)\n" in shown
    assert "Followed by c (waiting, on end)\n" in run("jobs", "show", "a")
    assert "c" in run("jobs", "list", "--state", "waiting")
    run("jobs", "cancel", "a")
    assert "Waits for   b (queued, on end)\n" in run("jobs", "show", "c")
    run("jobs", "cancel", "b")
    job = json.loads(run("jobs", "show", "c", "--json"))
    assert (job["state"], [edge["outcome"] for edge in job["after"]]) == ("queued", ["met", "met"])


def test_a_dead_parent_is_named_with_what_can_be_done(run, tmp_path):
    run("enqueue", "t", "--id", "a")
    run("enqueue", "t", "--id", "b", "--after", "a")
    kill(run, tmp_path)
    assert "Waits for   a (dead_letter, on success): goes on after `redrive dlq retry`" in run("jobs", "show", "b")
    run("dlq", "remove", "a")
    shown = run("jobs", "show", "b")
    assert "State       cancelled (skipped)\n" in shown and "was removed as dead_letter" in shown
    assert "After       a job that was removed (on success)\n" in shown


def test_what_cannot_be_waited_for_is_refused(run):
    assert "job 'x' is not there" in run("enqueue", "t", "--after", "x", code=2)
    assert "--on has no effect without --after" in run("enqueue", "t", "--on", "end", code=2)
    assert "success" in run("enqueue", "t", "--after", "x", "--on", "never", code=2)


def test_edges_go_with_an_export(run, tmp_path):
    run("enqueue", "t", "--id", "a")
    run("enqueue", "t", "--id", "b", "--after", "a", "--on-dead", "cancel")
    run("export", str(tmp_path / "all.jsonl"))
    (tmp_path / "a.db").rename(tmp_path / "old.db")
    run("import", str(tmp_path / "all.jsonl"))
    assert "Waits for   a (queued, on success)\n" in run("jobs", "show", "b")
    kill(run, tmp_path)
    assert json.loads(run("jobs", "show", "b", "--json"))["reason"] == "skipped"
