"""redrive jobs: look at jobs, cancel them, run them now."""

import json
import time

import pytest

from tests.cli.jobs import EVERY_STATE, full, run_on_terminal, store  # noqa: F401 (fixtures)


def test_empty_store_has_no_jobs(store):
    store.output("migrate")
    assert store.json("jobs", "list") == {"items": [], "next": None}
    assert store.output("jobs", "list").split() == [
        "ID", "TASK", "STATE", "ATTEMPTS", "AGE", "NEXT", "LAST", "ERROR"]


def test_list_has_every_job_newest_first(full):
    assert full.ids("jobs", "list") == [job["id"] for job in reversed(EVERY_STATE)]
    assert full.ids("jobs", "list", "--order", "oldest") == [job["id"] for job in EVERY_STATE]


@pytest.mark.parametrize("job", EVERY_STATE, ids=lambda job: job["id"])
def test_job_is_listed_in_its_state(full, job):
    found = full.json("jobs", "list", "--state", job["state"])["items"]
    assert job["id"] in [item["id"] for item in found]
    assert {item["state"] for item in found} == {job["state"]}


@pytest.mark.parametrize(
    "words, ids",
    [
        (["--task", "enrich"], ["net-2", "net-1"]),
        (["-t", "enrich", "--user", "eve"], ["net-2"]),
        (["--queue", "money"], ["hand-1", "bad-1"]),
        (["--class", "validation,permanent"], ["failed-1", "bad-1"]),
        (["--class", "validation", "--class", "permanent"], ["failed-1", "bad-1"]),
        (["--type", "ConnError"], ["net-2", "net-1"]),
        (["--reason", "manual"], ["hand-1"]),
        (["--text", "10.0.0.7"], ["net-1"]),
        (["--text", "CONNECT"], []),
        (["--state", "queued,running"], ["queued-1", "running-1"]),
        (["--older-than", "90m"], ["bad-1", "net-1"]),
        (["--newer-than", "90m", "--older-than", "30m"], ["net-2"]),
        (["--tenant", "nobody"], []),
        (["--limit", "1"], ["queued-1"]),
    ],
)
def test_list_selects(full, words, ids):
    assert full.ids("jobs", "list", *words) == ids


@pytest.mark.parametrize("order", ["newest", "oldest", "finished"])
def test_pages_follow_each_other(full, order):
    seen, cursor = [], []
    for _ in range(10):
        page = full.json("jobs", "list", "--limit", "5", "--order", order, *cursor)
        seen += [job["id"] for job in page["items"]]
        if page["next"] is None:
            break
        cursor = ["--cursor", page["next"]]
    assert sorted(seen) == sorted(job["id"] for job in EVERY_STATE)
    assert len(seen) == len(EVERY_STATE)


def test_table_says_how_to_go_on(full):
    result = full("jobs", "list", "--limit", "2")
    assert result.returncode == 0
    assert len(result.stdout.splitlines()) == 3
    cursor = result.stderr.split()[-1]
    assert result.stderr == f"there are more: --cursor {cursor}\n"
    following = full.output("jobs", "list", "--limit", "100", "--cursor", cursor)
    assert following.splitlines()[1].startswith("running-1 ")


@pytest.mark.parametrize("cursor", ["bogus", "", "n1-0000", "n1-00000000", "x" * 200, "n\x1b[2J"])
def test_bad_cursor_is_refused(full, cursor):
    result = full("jobs", "list", "--cursor", cursor)
    assert result.returncode == 2
    assert "cursor" in result.stderr and "\x1b" not in result.stderr


def test_cursor_of_another_order_is_refused(full):
    cursor = full.json("jobs", "list", "--limit", "1")["next"]
    error = full.refusal("jobs", "list", "--order", "oldest", "--cursor", cursor, code=2)
    assert "another order" in error[0]["message"]


@pytest.mark.parametrize(
    "words, told",
    [
        (["--state", "runing"], "did you mean running?"),
        (["--class", "success"], "it must be one of"),
        (["--task", ""], "--task: the value is empty"),
        (["--older-than", "3"], "add a unit"),
        (["--limit", "1001"], "from 1 to 1000"),
        (["--limit", "0"], "from 1 to 1000"),
        (["--group", "12"], "16 hexadecimal digits"),
    ],
)
def test_wrong_options_are_told(store, words, told):
    result = store("jobs", "list", *words)
    assert result.returncode == 2
    assert told in result.stderr
    assert not (store.directory / "jobs.db").exists()


def test_table_fits_the_terminal(full):
    code, seen = run_on_terminal(full, "jobs", "list", "--no-color", env={"COLUMNS": "90"})
    assert code == 0
    assert max(len(line) for line in seen.splitlines()) <= 90
    assert "…" in seen


# ---- show -------------------------------------------------------------------------------------


def test_show_tells_what_holds_a_parked_job(full):
    text = full.output("jobs", "show", "parked-1")
    assert "Held by     breaker parking (" in text
    assert "\nMay go      " in text
    held = full.json("jobs", "show", "parked-1")["held_by"]
    assert (held["kind"], held["key"]) == ("breaker", "parking")
    assert full.json("jobs", "show", "queued-1")["held_by"] is None
    assert "Held by" not in full.output("jobs", "show", "queued-1")


def test_show_tells_everything(full):
    text = full.output("jobs", "show", "net-1")
    for fact in ("net-1", "enrich", "dead_letter (exhausted)", "1 of 1", "(2h ago)", "ConnError",
                 "connect to 10.0.0.7:5432 failed", "Stack trace", "    at fetch", "seed-worker"):
        assert fact in text
    assert 'Payload\n  {\n    "a": 1,\n    "b": [\n      1,\n      2\n    ]\n  }\n' in text


def test_show_of_a_waiting_job_tells_when(full):
    text = full.output("jobs", "show", "retrying-1")
    assert "Next run" in text and "(in " in text
    attempt = full.job("retrying-1")["history"][0]
    assert attempt["outcome"] == "retrying" and attempt["delay"] >= 3600
    assert "asked" in attempt["why"]
    assert attempt["why"] in text


def test_show_of_a_completed_job_tells_that_its_error_is_of_the_past(redrive, tmp_path):
    (tmp_path / "redrive.yaml").write_text(
        "tasks:\n"
        "  second: {retry: {initial_delay: 100ms, jitter: none}, run: {exec: [sh, -c,"
        " 'test $REDRIVE_ATTEMPT -gt 1 || { echo no paper >&2; exit 1; }']}}\n")
    redrive.output("enqueue", "second", "--id", "a", cwd=tmp_path)
    deadline = time.monotonic() + 60
    while json.loads(redrive.output("jobs", "show", "a", "--json", cwd=tmp_path))["state"] != "completed":
        assert time.monotonic() < deadline
        redrive("work", "--until-idle", cwd=tmp_path)
    text = redrive.output("jobs", "show", "a", cwd=tmp_path)
    assert "Last error, of attempt 1; the job has completed since\n" in text
    assert "no paper" in text


def test_show_as_json_has_the_history(full):
    job = full.job("net-1")
    assert job["payload"] == {"a": 1, "b": [1, 2]}
    assert job["last_error"]["stacktrace"] == "Traceback\n  at fetch\n  at main"
    assert [attempt["number"] for attempt in job["history"]] == [1]
    assert full.job("queued-1")["history"] == []


def test_show_cannot_steer_the_terminal(store):
    store.seed({"state": "dead_letter", "id": "evil", "message": "a\x1b[2Jb\nc",
                "stacktrace": "x\x1b]0;title\x07", "type": "\x1b[31mRed"})
    for words in (["jobs", "show", "evil"], ["jobs", "list"], ["dlq", "groups"], ["dlq", "stats"]):
        assert "\x1b" not in store.output(*words) and "\x07" not in store.output(*words)


def test_unknown_id_is_not_found(full):
    (error,) = full.refusal("jobs", "show", "nope")
    assert (error["code"], error["message"]) == ("NOT_FOUND", "there is no job nope")
    assert "redrive jobs list" in error["hint"]


def test_list_names_the_tenants_where_there_are_several(store):
    store.seed({"id": "one", "tenant": "a"})
    assert "TENANT" not in store.output("jobs", "list")
    store.seed({"id": "two", "tenant": "b"})
    head, *rows = store.output("jobs", "list").splitlines()
    assert head.split()[:2] == ["TENANT", "ID"]
    assert sorted(row.split()[:2] for row in rows) == [["a", "one"], ["b", "two"]]
    assert "TENANT" not in store.output("jobs", "list", "--tenant", "b")


def test_id_that_several_tenants_have_needs_the_tenant(store):
    store.seed({"id": "same", "tenant": "a"}, {"id": "same", "tenant": "b"})
    (error,) = store.refusal("jobs", "show", "same", code=2)
    assert "--tenant" in error["hint"]
    assert store.json("jobs", "show", "same", "--tenant", "b")["tenant"] == "b"
    (error,) = store.refusal("jobs", "show", "same", "--tenant", "c")
    assert error["detail"] == "tenant c"
    store.output("jobs", "cancel", "same", "--tenant", "a")
    assert store.json("jobs", "show", "same", "--tenant", "a")["state"] == "cancelled"
    assert store.json("jobs", "show", "same", "--tenant", "b")["state"] == "queued"


# ---- cancel, retry ----------------------------------------------------------------------------

LIVE = ["retrying-1", "scheduled-1", "running-1", "parked-1", "queued-1"]


@pytest.mark.parametrize("job_id", LIVE)
def test_live_job_is_cancelled(full, job_id):
    assert full.output("jobs", "cancel", job_id) == f"{job_id}  cancelled\n"
    assert full.state(job_id) == "cancelled"


@pytest.mark.parametrize("job_id", ["net-1", "failed-1", "done-1", "cancelled-1"])
def test_ended_job_cannot_be_cancelled(full, job_id):
    state = full.state(job_id)
    (error,) = full.refusal("jobs", "cancel", job_id)
    assert error["code"] == "STATE"
    assert f"from {state} to cancelled" in error["message"]
    assert full.state(job_id) == state


@pytest.mark.parametrize("job_id", ["retrying-1", "scheduled-1"])
def test_waiting_job_runs_now(full, job_id):
    before = full.job(job_id)
    assert full.output("jobs", "retry", job_id) == f"{job_id}  queued\n"
    after = full.job(job_id)
    assert (after["state"], after["epoch"]) == ("queued", before["epoch"])
    assert after["process_after"] < before["process_after"]


@pytest.mark.parametrize("job_id", ["net-1", "failed-1"])
def test_dead_or_failed_job_is_redriven(full, job_id):
    full.output("jobs", "retry", job_id)
    job = full.job(job_id)
    assert (job["state"], job["attempts"], job["epoch"]) == ("queued", 0, 1)
    assert [a["epoch"] for a in job["history"]] == [0]


@pytest.mark.parametrize(
    "job_id", ["done-1", "cancelled-1", "running-1", "queued-1", "parked-1"]
)
def test_retry_in_another_state_is_refused(full, job_id):
    state = full.state(job_id)
    (error,) = full.refusal("jobs", "retry", job_id)
    assert error["code"] == "STATE"
    assert f"from {state} to queued" in error["message"]
    assert error["hint"]
    assert full.state(job_id) == state


def test_every_id_is_tried_and_the_first_failure_counts(full):
    result = full("jobs", "retry", "done-1", "net-1", "nope", "scheduled-1")
    assert result.returncode == 1
    assert result.stdout == "net-1  queued\nscheduled-1  queued\n"
    assert "job nope" in result.stderr and "job done-1" in result.stderr
    assert (full.state("net-1"), full.state("scheduled-1")) == ("queued", "queued")


def test_changes_are_told_as_json(full):
    result = full.json("jobs", "cancel", "queued-1", "parked-1")
    assert result == {
        "items": [
            {"id": "queued-1", "tenant": "default", "state": "cancelled"},
            {"id": "parked-1", "tenant": "default", "state": "cancelled"},
        ],
        "next": None,
    }


def test_redrive_against_a_live_key_is_refused(store):
    store.seed({"state": "dead_letter", "id": "old", "key": "k"}, {"id": "new", "key": "k"})
    (error,) = store.refusal("jobs", "retry", "old")
    assert (error["code"], error["detail"]) == ("EXISTS", "key k")
    store.output("jobs", "cancel", "new")
    store.output("jobs", "retry", "old")


def test_an_id_must_be_given(full):
    assert full("jobs", "cancel").returncode == 2
    assert full("jobs", "cancel", "").returncode == 2
