"""`redrive queues`: counts, and pauses that hold."""

import json


def call(redrive, path, *words):
    return redrive(*words, cwd=path)


def listed(redrive, path, *words):
    page = json.loads(redrive.output("queues", "list", "--json", *words, cwd=path))
    assert page["next"] is None
    return {(item["tenant"], item["queue"]): item for item in page["items"]}


def test_a_new_store_has_no_queues(redrive, tmp_path):
    call(redrive, tmp_path, "migrate")
    assert listed(redrive, tmp_path) == {}


def test_a_queue_is_listed_with_its_jobs_by_state(redrive, tmp_path):
    for words in (["--queue", "a"], ["--queue", "a", "--delay", "1h"], ["--queue", "b", "--tenant", "x"]):
        call(redrive, tmp_path, "enqueue", "t", *words)
    page = listed(redrive, tmp_path)
    assert set(page) == {("default", "a"), ("x", "b")}
    a = page["default", "a"]
    assert (a["queued"], a["scheduled"], a["running"], a["paused"]) == (1, 1, 0, False)
    assert a["oldest_ready"] and a["next_due"] > a["oldest_ready"]
    assert page["x", "b"]["next_due"] is None
    assert set(listed(redrive, tmp_path, "--tenant", "x")) == {("x", "b")}


def test_the_table_shows_ages(redrive, tmp_path):
    call(redrive, tmp_path, "enqueue", "t", "--queue", "a", "--delay", "2h")
    heading, row = redrive.output("queues", "list", cwd=tmp_path).splitlines()
    assert heading.split() == ["QUEUE", "TENANT", "STATE", "QUEUED", "RUNNING", "SCHEDULED", "OLDEST", "READY",
                               "NEXT", "DUE"]
    assert row.split()[:3] == ["a", "default", "open"]
    assert "in 1h59m" in row or "in 2h" in row


def test_pause_and_resume(redrive, tmp_path):
    call(redrive, tmp_path, "enqueue", "t", "--queue", "media")
    result = call(redrive, tmp_path, "queues", "pause", "media")
    assert (result.returncode, result.stdout) == (0, "")
    assert result.stderr == "queue media is paused; jobs that run now go on to their end\n"
    assert listed(redrive, tmp_path)["default", "media"]["paused"]
    assert "was paused already" in call(redrive, tmp_path, "queues", "pause", "media").stderr
    assert "paused" in redrive.output("queues", "list", cwd=tmp_path)
    assert "goes on" in call(redrive, tmp_path, "queues", "resume", "media").stderr
    assert not listed(redrive, tmp_path)["default", "media"]["paused"]
    assert "was not paused" in call(redrive, tmp_path, "queues", "resume", "media").stderr


def test_a_job_says_that_its_queue_is_paused(redrive, tmp_path):
    call(redrive, tmp_path, "enqueue", "t", "--queue", "media", "--id", "waits")
    call(redrive, tmp_path, "enqueue", "t", "--queue", "other", "--id", "free")
    call(redrive, tmp_path, "queues", "pause", "media")
    page = redrive.output("jobs", "show", "waits", cwd=tmp_path)
    assert "queued, and its queue is paused: it starts after `redrive queues resume`\n" in page
    assert "paused" not in redrive.output("jobs", "show", "free", cwd=tmp_path)
    call(redrive, tmp_path, "queues", "resume", "media")
    assert "paused" not in redrive.output("jobs", "show", "waits", cwd=tmp_path)


def test_pauses_are_per_tenant(redrive, tmp_path):
    for tenant in ("x", "y"):
        call(redrive, tmp_path, "enqueue", "t", "--queue", "q", "--tenant", tenant)
    call(redrive, tmp_path, "queues", "pause", "q", "--tenant", "x")
    page = listed(redrive, tmp_path)
    assert (page["x", "q"]["paused"], page["y", "q"]["paused"]) == (True, False)


def test_pausing_a_queue_without_jobs_is_allowed_and_said(redrive, tmp_path):
    call(redrive, tmp_path, "enqueue", "t", "--queue", "media")
    result = call(redrive, tmp_path, "queues", "pause", "meida")
    assert result.returncode == 0
    assert "no job is or was in a queue 'meida'" in result.stderr
    assert "did you mean 'media'?" in result.stderr
    assert listed(redrive, tmp_path)["default", "meida"]["paused"]


def test_a_queue_needs_a_name(redrive, tmp_path):
    assert call(redrive, tmp_path, "queues", "pause").returncode == 2
    assert call(redrive, tmp_path, "queues", "pause", "").returncode == 2
    assert not (tmp_path / "redrive.db").exists()
