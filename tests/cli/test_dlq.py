"""redrive dlq: work with dead letters."""

import json
import signal
import subprocess
import time

import pytest

from tests.cli.jobs import full, run_on_terminal, store  # noqa: F401 (fixtures)
from tests.kit.program import BINARY, TIMEOUT_S

DEAD = ["hand-1", "net-2", "net-1", "bad-1"]  # by the time of their end, the latest first


def dead(store):
    return store.ids("dlq", "list")


# ---- list, show, stats, groups ----------------------------------------------------------------


def test_list_has_the_dead_letters_and_nothing_else(full):
    assert dead(full) == DEAD
    text = full.output("dlq", "list")
    assert "not_retriable" in text and "failed-1" not in text


@pytest.mark.parametrize(
    "words, ids",
    [
        (["--reason", "exhausted"], ["net-2", "net-1"]),
        (["--class", "validation"], ["bad-1"]),
        (["--text", "amount"], ["bad-1"]),
        (["--older-than", "30d"], ["bad-1"]),
        (["--newer-than", "30d", "--order", "oldest"], ["net-1", "net-2", "hand-1"]),
    ],
)
def test_list_selects(full, words, ids):
    assert full.ids("dlq", "list", *words) == ids


def test_list_has_pages(full):
    page = full.json("dlq", "list", "--limit", "3")
    rest = full.json("dlq", "list", "--limit", "3", "--cursor", page["next"])
    assert [job["id"] for job in page["items"] + rest["items"]] == DEAD
    assert rest["next"] is None
    assert full("dlq", "list", "--cursor", "junk").returncode == 2


def test_show_is_for_dead_letters(full):
    assert "Stack trace" in full.output("dlq", "show", "net-1")
    assert full.json("dlq", "show", "bad-1")["history"][0]["error"]["class"] == "validation"
    (error,) = full.refusal("dlq", "show", "done-1")
    assert (error["code"], error["message"]) == (
        "STATE", "job done-1 is no dead letter: it is completed")
    assert "jobs show done-1" in error["hint"]
    assert full.refusal("dlq", "show", "nope")[0]["code"] == "NOT_FOUND"


def test_stats_count(full):
    assert full.json("dlq", "stats") == {
        "total_jobs": 4,
        "failure_type_counts": {"network": 2, "none": 1, "validation": 1},
        "by_reason": {"exhausted": 2, "manual": 1, "not_retriable": 1},
        "by_task": {"enrich": 2, "pay": 2},
        "by_type": {"ConnError": 2, "none": 2},
    }
    text = full.output("dlq", "stats")
    assert text.startswith("4 dead letters\n") and "   2  network\n" in text
    assert full.json("dlq", "stats", "--task", "pay")["total_jobs"] == 2


def test_stats_of_an_empty_store(store):
    store.output("migrate")
    assert store.output("dlq", "stats") == "0 dead letters\n"
    assert store.json("dlq", "stats") == {
        "total_jobs": 0, "failure_type_counts": {}, "by_reason": {}, "by_task": {}, "by_type": {}}


def test_stats_count_over_many_pages(store):
    store.seed({"state": "dead_letter", "id": "d", "count": 230, "message": "x"})
    assert store.json("dlq", "stats")["by_reason"] == {"exhausted": 230}


def test_groups_put_together_what_looks_alike(full):
    page = full.json("dlq", "groups")
    assert page["next"] is None
    first, second = page["items"]
    assert (first["count"], first["task"], first["example_id"]) == (2, "enrich", "net-2")
    assert first["example"]["message"] == "connect to 10.0.0.8:5433 failed"
    assert first["first_seen"] < first["last_seen"]
    assert second["count"] == 1
    assert len(first["fingerprint"]) == 16
    assert full.ids("dlq", "list", "--group", first["fingerprint"]) == ["net-2", "net-1"]
    assert first["fingerprint"] in full.output("dlq", "groups")
    assert len(full.json("dlq", "groups", "--limit", "1")["items"]) == 1


# ---- retry ------------------------------------------------------------------------------------


def test_retry_by_id(full):
    assert full.output("dlq", "retry", "net-1", "hand-1") == "net-1  queued\nhand-1  queued\n"
    assert dead(full) == ["net-2", "bad-1"]


def test_retry_by_id_is_for_dead_letters(full):
    result = full("dlq", "retry", "failed-1", "net-1", "scheduled-1")
    assert result.returncode == 1
    assert result.stdout == "net-1  queued\n"
    assert "failed-1 is no dead letter: it is failed" in result.stderr
    assert full.state("scheduled-1") == "scheduled"


def test_retry_needs_to_know_which(full):
    result = full("dlq", "retry")
    assert result.returncode == 2
    assert "--all" in result.stderr
    assert full("dlq", "retry", "net-1", "--all").returncode == 2
    assert full("dlq", "retry", "net-1", "--task", "enrich").returncode == 2
    assert full("dlq", "retry", "--task", "").returncode == 2
    assert dead(full) == DEAD


def test_retry_by_filter(full):
    assert full.output("dlq", "retry", "--class", "network") == "2 of 2 redriven\n"
    assert dead(full) == ["hand-1", "bad-1"]
    assert full.output("dlq", "retry", "--class", "network") == "no dead letter matches\n"


def test_retry_by_group(full):
    group = full.json("dlq", "groups")["items"][0]["fingerprint"]
    full.output("dlq", "retry", "--group", group)
    assert dead(full) == ["hand-1", "bad-1"]


def test_retry_all_in_several_chunks(store):
    store.seed({"state": "dead_letter", "id": "d", "count": 1100, "reason": "manual"})
    assert store.json("dlq", "retry", "--all") == {
        "dry_run": False, "matched": 1100, "at_least": False, "redriven": 1100, "refused": 0, "interrupted": False}
    assert dead(store) == []
    job = store.job("d-1099")
    assert (job["state"], job["epoch"]) == ("queued", 1)


def test_dry_run_changes_nothing(full):
    before = full.output("jobs", "export")
    assert full.json("dlq", "retry", "--all", "--dry-run") == {
        "dry_run": True, "matched": 4, "at_least": False, "redriven": 0, "refused": 0, "interrupted": False}
    assert full.output("dlq", "retry", "--task", "pay", "--dry-run") == (
        "2 of 2 would be redriven\n")
    assert full.output("jobs", "export") == before


def test_live_key_is_refused_counted_and_told(store):
    store.seed({"state": "dead_letter", "id": "old", "key": "k"},
               {"state": "dead_letter", "id": "other"}, {"id": "new", "key": "k"})
    told = "1 refused: a live job has its unique key, or its deadline has passed\n"
    assert store.output("dlq", "retry", "--all", "--dry-run") == "1 of 2 would be redriven\n" + told
    assert store.output("dlq", "retry", "--all") == "1 of 2 redriven\n" + told
    assert dead(store) == ["old"]


def test_retry_stays_within_the_tenant(store):
    store.seed({"state": "dead_letter", "id": "x", "tenant": "a"},
               {"state": "dead_letter", "id": "y", "tenant": "b"})
    assert store.output("dlq", "retry", "--tenant", "a") == "1 of 1 redriven\n"
    assert dead(store) == ["y"]


@pytest.mark.parametrize("rate", ["fast", "0", "10/", "0/s", "-1/s", ""])
def test_rate_must_be_a_rate(full, rate):
    result = full("dlq", "retry", "--all", "--rate", rate)
    assert result.returncode == 2
    assert "--rate" in result.stderr
    assert dead(full) == DEAD


def test_rate_is_kept(store):
    """The first goes at once, and each of the others a tenth of a second after the one before."""
    store.seed({"state": "dead_letter", "id": "d", "count": 20, "reason": "manual"})
    started = time.monotonic()
    assert store.output("dlq", "retry", "--all", "--rate", "10") == "20 of 20 redriven\n"
    assert time.monotonic() - started >= 1.8


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interrupt_stops_it_and_says_how_far_it_came(store, number):
    store.seed({"state": "dead_letter", "id": "d", "count": 300, "reason": "manual"})
    process = store.popen("dlq", "retry", "--all", "--rate", "5/s", "--json",
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True)
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
    assert result["interrupted"] and result["matched"] == 300
    assert 0 < result["redriven"] == queued < 300
    assert f"interrupted: {queued} of 300 redriven" in err


def test_terminal_gets_a_progress_bar(store):
    store.seed({"state": "dead_letter", "id": "d", "count": 8, "reason": "manual"})
    code, seen = run_on_terminal(store, "dlq", "retry", "--all", "--rate", "10/s")
    assert code == 0
    assert "redrive  [" in seen and "/8" in seen
    assert seen.endswith("8 of 8 redriven\r\n")


# ---- edit -------------------------------------------------------------------------------------


def test_edit_replaces_the_payload(full):
    assert full.output("dlq", "edit", "bad-1", ' {"amount": 5} ') == "bad-1  edited, dead_letter\n"
    assert full.job("bad-1")["payload"] == {"amount": 5}
    assert full.json("dlq", "edit", "bad-1", "-", "--retry", stdin='{"amount":6}\n') == {
        "id": "bad-1", "tenant": "default", "state": "queued", "edited": True}
    assert full.job("bad-1")["payload"] == {"amount": 6}


def test_edit_reads_a_file(full):
    (full.directory / "new.json").write_text('[1, 2]\n')
    full.output("dlq", "edit", "bad-1", "--from", "new.json")
    assert full.job("bad-1")["payload"] == [1, 2]
    assert full.refusal("dlq", "edit", "bad-1", "--from", "none.json")[0]["code"] == "NOT_FOUND"
    assert full("dlq", "edit", "bad-1", "1", "--from", "new.json").returncode == 2


@pytest.mark.parametrize("payload", ["{", "", "{'a':1}", "[1,]", "NaN", '{"a":1} x', "\x00"])
def test_payload_that_is_not_json_is_refused(full, payload):
    (error,) = full.refusal("dlq", "edit", "bad-1", "-", stdin=payload, code=2)
    assert (error["code"], error["message"]) == ("PARSE", "the payload is not JSON")
    assert "line 1" in error["detail"]
    assert full.job("bad-1")["payload"] == {"amount": None}


def test_payload_that_is_too_big_is_refused(full):
    largest = '"' + "x" * (1024 * 1024 - 2) + '"'
    full.output("dlq", "edit", "net-1", "-", stdin=largest + "\n")
    assert len(full.job("net-1")["payload"]) == 1024 * 1024 - 2
    for payload in ('"x' + largest[1:], '"' + "x" * (3 * 1024 * 1024) + '"'):
        (error,) = full.refusal("dlq", "edit", "bad-1", "-", stdin=payload, code=2)
        assert (error["code"], error["hint"]) == ("TOO_BIG", "the limit is 1048576 bytes")
    assert full.job("bad-1")["payload"] == {"amount": None}


def test_edit_is_for_dead_letters(full):
    assert full.refusal("dlq", "edit", "queued-1", "{}")[0]["code"] == "STATE"
    assert full.refusal("dlq", "edit", "nope", "{}")[0]["code"] == "NOT_FOUND"


def test_edit_without_a_payload_and_a_terminal_is_refused(full):
    result = full("dlq", "edit", "bad-1")
    assert result.returncode == 2
    assert "--from FILE" in result.stderr


def editor(full, script):
    path = full.directory / "editor.sh"
    path.write_text("#!/bin/sh\n" + script)
    path.chmod(0o755)
    return {"EDITOR": f"{path} --wait", "TMPDIR": str(full.directory)}


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


def test_edit_keeps_the_payload_when_the_retry_is_refused(store):
    store.seed({"state": "dead_letter", "id": "old", "key": "k"}, {"id": "new", "key": "k"})
    (error,) = store.refusal("dlq", "edit", "old", "1", "--retry")
    assert error["code"] == "EXISTS"
    assert "the new payload is kept" in error["hint"]
    assert store.job("old")["payload"] == 1


# ---- remove, purge ----------------------------------------------------------------------------


def test_remove(full):
    assert full.output("dlq", "remove", "net-1") == "net-1  removed\n"
    assert full("jobs", "show", "net-1").returncode == 1
    assert full.refusal("dlq", "remove", "done-1")[0]["code"] == "STATE"
    assert full.state("done-1") == "completed"


def test_purge_needs_an_age(full):
    result = full("dlq", "purge")
    assert result.returncode == 2
    assert "--older-than" in result.stderr
    assert full("dlq", "purge", "--older-than", "30").returncode == 2
    assert dead(full) == DEAD


def test_purge_by_age(full):
    assert full.output("dlq", "purge", "--older-than", "30d") == "1 dead letter removed\n"
    assert full.json("dlq", "purge", "--older-than", "90m", "--dry-run") == {
        "dry_run": True, "matched": 1, "at_least": False, "removed": 0, "interrupted": False}
    assert dead(full) == DEAD[:3]


def test_purge_of_age_zero_removes_all_dead_letters_only(full):
    assert full.json("dlq", "purge", "--older-than", "0")["removed"] == 4
    assert dead(full) == []
    assert len(full.ids("jobs", "list")) == 8


def test_purge_narrowed_down(full):
    full.output("dlq", "purge", "--older-than", "0h", "--task", "pay")
    assert dead(full) == ["net-2", "net-1"]


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


# ---- add --------------------------------------------------------------------------------------

LETTER = {"task": "invoice", "id": "order-8", "payload": {"total": -1}, "failed": {
    "class": "network", "reason": "exhausted", "error_type": "builtins.ConnectionError", "message": "no route",
    "stacktrace": "Traceback\n  at send"}}


def test_add_keeps_a_job_that_has_failed_elsewhere_as_a_dead_letter(store):
    assert store.output("dlq", "add", stdin=json.dumps(LETTER)) == "order-8  dead_letter\n"
    job = store.json("dlq", "show", "order-8")
    assert (job["state"], job["reason"], job["attempts"], job["payload"]) == ("dead_letter", "exhausted", 0, {"total": -1})
    assert job["last_error"] == {"class": "network", "type": "builtins.ConnectionError", "message": "no route",
                                 "stacktrace": "Traceback\n  at send", "code": 0}
    assert [group["count"] for group in store.json("dlq", "groups")["items"]] == [1]
    assert store.json("dlq", "add", stdin=json.dumps(LETTER)) == {
        "items": [{"id": "order-8", "state": "dead_letter", "existed": True}]}
    store.output("dlq", "retry", "order-8")
    assert store.json("jobs", "show", "order-8")["state"] == "queued"


def test_add_takes_all_or_none_and_says_what_is_wrong(store, tmp_path):
    path = tmp_path / "letters.json"
    path.write_text(json.dumps([{**LETTER, "id": "a"}, {"task": "t", "id": "b", "failed": {}}]))
    assert [item["id"] for item in store.json("dlq", "add", str(path))["items"]] == ["a", "b"]
    path.write_text(json.dumps([{**LETTER, "id": "c"}, {"task": "t"}]))
    assert "job 2 does not say how it has failed" in store.refusal("dlq", "add", str(path), code=2)[0]["message"]
    path.write_text(json.dumps([{**LETTER, "id": "c"}, {"task": "t", "failed": {"class": "netwrk"}}]))
    assert "did you mean 'network'" in store.refusal("dlq", "add", str(path), code=2)[0]["hint"]
    path.write_text(json.dumps([{**LETTER, "id": "c"}, {"task": "t", "priority": 1, "failed": {}, "retry": {"x": 1}}]))
    assert store.refusal("dlq", "add", str(path), code=2)
    assert sorted(dead(store)) == ["a", "b"]
