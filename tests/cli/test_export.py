"""redrive jobs export and dlq export."""

import csv
import io
import json
import os
import signal
import subprocess
import time

import pytest

from tests.cli.jobs import EVERY_STATE, full, store  # noqa: F401 (fixtures)
from tests.kit.program import TIMEOUT_S

COLUMNS = ["id", "task", "queue", "state", "reason", "attempts", "max_attempts", "class",
           "error_type", "message", "created_at", "finished_at", "payload", "result"]


def read_csv(text):
    return list(csv.DictReader(io.StringIO(text, newline="")))


def export_bytes(store, *words):
    process = store.popen(*words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
    out, _ = process.communicate(timeout=TIMEOUT_S)
    assert process.returncode == 0
    return out


def test_json_lines_have_every_job_oldest_first(full):
    lines = full.output("jobs", "export").splitlines()
    assert [json.loads(line)["id"] for line in lines] == [job["id"] for job in EVERY_STATE]
    assert '"payload":{"a":1,"b":[1,2]}' in lines[0]


def test_json_line_is_the_job_as_list_shows_it(full):
    listed = full.json("jobs", "list", "--order", "oldest")["items"]
    assert [json.loads(line) for line in full.output("jobs", "export").splitlines()] == listed


def test_csv_has_columns_and_rows(full):
    text = full.output("jobs", "export", "--format", "csv")
    rows = read_csv(text)
    assert list(rows[0]) == COLUMNS
    assert [row["id"] for row in rows] == [job["id"] for job in EVERY_STATE]
    first = rows[0]
    assert (first["state"], first["reason"], first["attempts"], first["class"]) == (
        "dead_letter", "exhausted", "1", "network")
    assert first["finished_at"].endswith("Z")
    done = next(row for row in rows if row["id"] == "done-1")
    assert (done["result"], done["class"]) == ('{"ok":true}', "")


def test_csv_keeps_every_byte(store):
    payload = '{"text": "a,\\"b\\"",\r\n "n": 1}'
    message = '=HYPERLINK("x"), "quoted"\nsecond line'
    store.seed({"state": "dead_letter", "id": "odd", "payload": payload, "message": message})
    (row,) = read_csv(export_bytes(store, "jobs", "export", "--format", "csv").decode())
    assert row["payload"] == payload
    assert row["message"] == message


@pytest.mark.parametrize(
    "words, n",
    [
        (["jobs", "export", "--state", "dead_letter,failed"], 5),
        (["jobs", "export", "--task", "enrich"], 2),
        (["jobs", "export", "--limit", "3"], 3),
        (["dlq", "export"], 4),
        (["dlq", "export", "--older-than", "30d"], 1),
        (["dlq", "export", "--class", "network"], 2),
        (["dlq", "export", "--task", "nobody"], 0),
    ],
)
def test_export_selects(full, words, n):
    assert len(full.output(*words).splitlines()) == n


def test_export_of_many_pages(store):
    store.seed({"state": "dead_letter", "id": "d", "count": 350, "reason": "manual"})
    ids = [json.loads(line)["id"] for line in store.output("dlq", "export").splitlines()]
    assert ids == [f"d-{i}" for i in range(350)]


def test_file_is_written_whole(full):
    result = full("dlq", "export", "-o", "dead.csv")
    assert (result.returncode, result.stdout) == (0, "")
    assert result.stderr == "4 jobs written to dead.csv\n"
    path = full.directory / "dead.csv"
    assert len(read_csv(path.read_bytes().decode())) == 4
    assert path.stat().st_mode & 0o777 == 0o600
    assert sorted(p.name for p in full.directory.iterdir() if "dead" in p.name) == ["dead.csv"]


def test_exported_jobs_are_for_their_owner(full):
    assert full("jobs", "export", "-o", "jobs.jsonl").returncode == 0
    assert (full.directory / "jobs.jsonl").stat().st_mode & 0o777 == 0o600


def test_name_of_the_file_says_the_format(full):
    full("dlq", "export", "-o", "dead.txt")
    assert (full.directory / "dead.txt").read_text().startswith("{")
    full("dlq", "export", "-o", "dead.jsonl", "--format", "csv")
    assert (full.directory / "dead.jsonl").read_text().startswith("id,")
    assert full("dlq", "export", "--format", "xml").returncode == 2


def test_file_is_not_replaced_unless_asked(full):
    path = full.directory / "dead.jsonl"
    path.write_text("mine")
    (error,) = full.refusal("dlq", "export", "-o", "dead.jsonl")
    assert (error["code"], error["hint"]) == ("EXISTS", "--force replaces it")
    assert path.read_text() == "mine"
    assert full("dlq", "export", "-o", "dead.jsonl", "--force").returncode == 0
    assert len(path.read_text().splitlines()) == 4


def test_device_is_never_replaced(full):
    os.symlink("/dev/null", full.directory / "null")
    for words in ([], ["--force"]):
        (error,) = full.refusal("dlq", "export", "-o", "null", *words)
        assert error["code"] == "EXISTS"
    assert (full.directory / "null").is_symlink()


def test_dash_is_standard_output(full):
    assert full.output("dlq", "export", "-o", "-") == full.output("dlq", "export")


def test_directory_that_is_not_there_is_told(full):
    (error,) = full.refusal("dlq", "export", "-o", "none/dead.jsonl")
    assert error["code"] == "NOT_FOUND"
    assert error["detail"] == "file none/dead.jsonl"


def test_full_disk_is_a_failure(full):
    with open("/dev/full", "wb") as disk:
        process = full.popen("jobs", "export", stdin=subprocess.DEVNULL, stdout=disk,
                             stderr=subprocess.PIPE, text=True)
        _, err = process.communicate(timeout=TIMEOUT_S)
    assert process.returncode == 1
    assert "No space left on device" in err


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
