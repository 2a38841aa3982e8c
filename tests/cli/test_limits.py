"""redrive limits: a retry budget that is overdrawn, and the jobs that wait for it."""

import json
import re
import subprocess

from tests.kit.program import environment
from tests.kit.waiting import wait_for

CONFIG = """\
tasks:
  call:
    run: {exec: ["false"]}
    retry: {strategy: fixed, initial_delay: 10ms, jitter: false, max_retries: 9}
    breaker: {failure_threshold: 0, failure_rate: 0}
    limits: {rate: 1000/s, retry_budget: {ratio: 0, window: 1m, min_per_second: 0.01}}
"""


def limits(redrive, *words):
    return json.loads(redrive.output("limits", "list", "--json", *words))["items"]


def compare_over_http(redrive, options, job_id, log):
    """A server tells the same as the store."""
    with open(log, "wb") as out:
        server = subprocess.Popen([redrive.binary, "serve", "--no-work", "--listen-http", "127.0.0.1:0",
                                   "--listen-faktory", "off", *options], stderr=out, env=environment())
    try:
        found = wait_for(lambda: re.search(r"listening interface=http address=(\S+)", log.read_text()))
        there = ["--server", f"http://{found[1]}"]
        assert redrive.output("limits", "list", *there) == redrive.output("limits", "list", *options)
        held = [line for line in redrive.output("jobs", "show", job_id, *there).splitlines() if "Held by" in line]
        assert "retry budget limit:task:call (1 retries, 3 first attempts in 1m)" in held[0]
    finally:
        server.terminate()
        server.wait(20)


def test_a_store_without_limits_has_none(redrive, store):
    redrive.output("enqueue", "mail", "--store", store)
    assert limits(redrive, "--store", store) == []


def test_retries_beyond_the_budget_are_parked_and_say_why(redrive, store, tmp_path):
    config = tmp_path / "redrive.yaml"
    config.write_text(CONFIG + f"store: {store}\n")
    options = ["-c", str(config)]
    for _ in range(3):
        redrive.output("enqueue", "call", *options)
    worker = subprocess.Popen([redrive.binary, "work", *options], stderr=subprocess.DEVNULL, env=environment())
    try:
        wait_for(lambda: [limit for limit in limits(redrive, *options) if limit["parked"] == 3])
    finally:
        worker.terminate()
        worker.wait(20)
    (limit,) = limits(redrive, *options)
    budget = limit["retry_budget"]
    assert (limit["key"], limit["tenant"], limit["running"]) == ("limit:task:call", "default", 0)
    assert (budget["ratio"], budget["first_attempts"], budget["retries"], budget["room"]) == (0, 3, 1, 0)
    assert " 1 for 3 " in redrive.output("limits", "list", *options)
    assert limits(redrive, *options, "--tenant", "zoo") == []

    jobs = json.loads(redrive.output("jobs", "list", "--json", *options))["items"]
    assert sorted(job["attempts"] for job in jobs) == [1, 1, 2]
    shown = redrive.output("jobs", "show", jobs[0]["id"], *options)
    assert "retry budget limit:task:call (1 retries, 3 first attempts in 1m)" in shown
    assert "when the retry budget has room" in shown
    held = json.loads(redrive.output("jobs", "show", jobs[0]["id"], "--json", *options))["held_by"]
    assert (held["kind"], held["retry_budget"]["room"]) == ("budget", 0)
    compare_over_http(redrive, options, jobs[0]["id"], tmp_path / "log")


def test_a_budget_that_would_hold_for_ever_is_refused(redrive, tmp_path):
    config = tmp_path / "redrive.yaml"
    config.write_text("tasks: {call: {limits: {retry_budget: {min_per_second: 0}}}}\n")
    result = redrive("config", "check", "-c", str(config))
    assert result.returncode == 2
    assert "tasks.call.limits.retry_budget.min_per_second: '0' is out of range" in result.stderr
