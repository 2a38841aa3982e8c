"""`redrive workflow show`: the jobs that edges connect, as a table, as JSON and as a drawing."""

import json
import re
import subprocess
import xml.etree.ElementTree

import pytest

from tests.kit.program import environment
from tests.kit.waiting import LIMIT_S


@pytest.fixture
def run(redrive, tmp_path):
    def call(*words, code=0):
        result = subprocess.run([redrive.binary, *words, "--store", f"sqlite:{tmp_path}/a.db"], cwd=tmp_path, env=environment(),
                                capture_output=True, text=True, timeout=LIMIT_S, check=False)
        assert result.returncode == code, result.stderr
        return result.stderr if code else result.stdout

    return call


def fill(run):
    """Eight of a group and a single job, a callback after them, and two jobs after that."""
    for n in range(8):
        run("enqueue", "resize", "--id", f"r{n}")
    run("enqueue", "fetch", "--id", "start")
    after = [word for n in range(8) for word in ("--after", f"r{n}")]
    run("enqueue", "zip", "--id", "zip", "--after", "start", *after)
    run("enqueue", "mail", "--id", "<mail> & co", "--after", "zip")
    run("enqueue", "alarm", "--id", "oops", "--after", "zip", "--on", "failure")
    run("enqueue", "other", "--id", "apart")


def test_every_job_of_a_workflow_names_it(run):
    fill(run)
    shown = {name: run("workflow", "show", name) for name in ("r3", "start", "zip", "oops", "<mail> & co")}
    assert len(set(shown.values())) == 1
    text = shown["zip"]
    assert text.startswith("12 jobs: 9 queued, 3 waiting\n\nJOB ")
    assert "apart" not in text
    rows = [line.split(None, 4) for line in text.splitlines()[3:]]
    assert [row[0] for row in rows][-3:] == ["zip", "<mail>", "oops"]
    assert rows[9][4] == "r0 (open), r1 (open), r2 (open), r3 (open), r4 (open), and 4 more"
    assert rows[-1][4] == "zip (on failure, open)"
    assert run("workflow", "show", "apart").startswith("1 job: 1 queued\n")


def test_as_json_and_as_states_change(run):
    fill(run)
    run("jobs", "cancel", "start")
    flow = json.loads(run("workflow", "show", "r0", "--json"))
    assert flow["more"] is False
    jobs = {job["id"]: job for job in flow["jobs"]}
    assert jobs["zip"]["state"] == "cancelled" and len(jobs["zip"]["after"]) == 9
    assert {edge["id"]: edge["outcome"] for edge in jobs["zip"]["after"]}["start"] == "missed"
    assert jobs["oops"]["after"] == [{"id": "zip", "on": "failure", "on_dead": "wait", "outcome": "met"}]
    assert (jobs["oops"]["state"], jobs["<mail> & co"]["state"]) == ("queued", "cancelled")


def test_a_server_tells_the_same(run, redrive, tmp_path):
    fill(run)
    here = run("workflow", "show", "zip"), run("workflow", "show", "zip", "--json"), run("workflow", "show", "zip", "--svg", "-")
    config = tmp_path / "redrive.yaml"
    config.write_text(f"store: sqlite:{tmp_path}/a.db\nlisten: {{http: '127.0.0.1:0', faktory: 'off'}}\n")
    server = subprocess.Popen([redrive.binary, "serve", "-c", str(config)], env=environment(), stderr=subprocess.PIPE, text=True)
    try:
        url = next(f"http://{found[1]}" for line in server.stderr if (found := re.search(r"interface=http address=(\S+)", line)))
        there = [subprocess.run([redrive.binary, "workflow", "show", "zip", *words, "--server", url],
                                env=environment(), capture_output=True, text=True, timeout=LIMIT_S, check=True).stdout
                 for words in ((), ("--json",), ("--svg", "-"))]
    finally:
        server.terminate()
        server.communicate(timeout=LIMIT_S)
    assert there == list(here)


def test_it_is_drawn(run, tmp_path):
    fill(run)
    drawn = run("workflow", "show", "zip", "--svg", "-")
    texts = ["".join(node.itertext()) for node in xml.etree.ElementTree.fromstring(drawn).iter()
             if node.tag.endswith("text")]
    assert "12 jobs" in texts and "resize × 8" in texts and "8 queued" in texts
    assert "<mail> & co" in texts and "on failure" in texts and "alarm · waiting" in texts
    # A line from the group, one from the single job, and one to each of the last two; each has its arrow.
    assert drawn.count("stroke-dasharray") == 4
    assert run("workflow", "show", "zip", "--svg", "flow.svg").startswith("12 jobs")
    assert (tmp_path / "flow.svg").read_text() == drawn


def test_what_cannot_be_shown_is_said(run):
    fill(run)
    assert "there is no job nope" in run("workflow", "show", "nope", code=1)
    assert "cannot write the chart" in run("workflow", "show", "zip", "--svg", "/nowhere/x.svg", code=1)
    assert "both want standard output" in run("workflow", "show", "zip", "--svg", "-", "--json", code=2)
