"""`redrive enqueue`: what comes in, and what is refused without a trace."""

import json
import os
import re
import socket
import sqlite3
import subprocess

import pytest

from tests.kit.waiting import LIMIT_S

UUID = re.compile(r"^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}$")


@pytest.fixture
def place(tmp_path):
    """A directory of its own, in which a call finds its store and its configuration."""

    class Place:
        path = tmp_path
        db = tmp_path / "redrive.db"

        def rows(self, sql="SELECT l.task, s.payload FROM job_states JOIN partitions l USING (partition_id) JOIN specs s USING (seq) ORDER BY seq"):
            with sqlite3.connect(self.db) as db:
                return db.execute(sql).fetchall()

        def config(self, text):
            (tmp_path / "redrive.yaml").write_text(text)

    return Place()


def enqueue(redrive, place, *words, stdin=None):
    """A call in the directory, with text on its standard input."""
    return subprocess.run(
        [redrive.binary, "enqueue", *words],
        input=stdin if stdin is not None else "",
        cwd=place.path,
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
        env={k: v for k, v in os.environ.items() if k in ("PATH", "HOME") or k.endswith("SAN_OPTIONS")},
    )


def test_a_job_is_stored_byte_for_byte_and_its_id_printed(redrive, place):
    result = enqueue(redrive, place, "t", '{"a":  1.50}')
    assert (result.returncode, result.stderr) == (0, "")
    assert UUID.match(result.stdout.strip())
    assert place.rows() == [("t", '{"a":  1.50}')]


def test_a_payload_comes_from_standard_input_or_a_file(redrive, place):
    (place.path / "p.json").write_text(' {"from": "file"}\n')
    assert enqueue(redrive, place, "t", "-", stdin="[1]\n").returncode == 0
    assert enqueue(redrive, place, "t", "--from", "p.json").returncode == 0
    assert enqueue(redrive, place, "t", "--from", "-", stdin="[2]\n").returncode == 0
    assert enqueue(redrive, place, "t").returncode == 0
    assert place.rows() == [("t", "[1]"), ("t", '{"from": "file"}'), ("t", "[2]"), ("t", None)]


def test_json_names_id_state_and_whether_it_existed(redrive, place):
    first = enqueue(redrive, place, "t", "--id", "a", "--json")
    assert json.loads(first.stdout) == {"id": "a", "state": "queued", "existed": False}
    second = enqueue(redrive, place, "t", "--id", "a", "--json")
    assert json.loads(second.stdout) == {"id": "a", "state": "queued", "existed": True}
    assert second.stderr == ""
    assert len(place.rows()) == 1


def test_a_repetition_prints_the_id_and_says_so(redrive, place):
    first = enqueue(redrive, place, "t", "--unique", "k")
    second = enqueue(redrive, place, "t", "--unique", "k")
    assert second.stdout == first.stdout
    assert (second.returncode, second.stderr) == (0, "note: this job existed already; it is queued\n")


def test_every_option_reaches_the_row(redrive, place):
    words = ["t", "1", "--queue", "q", "--priority", "-7", "--tenant", "x", "--user", "u", "--project", "p"]
    words += ["--service", "s", "--unique", "k", "--unique-forever", "--at", "2040-01-01T12:00Z"]
    words += ["--deadline", "2040-01-02T00:00:00.500+02:00", "--retry", '{"strategy":"fixed"}', "--max-attempts", "3"]
    result = enqueue(redrive, place, *words, "--json")
    assert json.loads(result.stdout)["state"] == "scheduled"
    row = place.rows(
        "SELECT l.queue, s.priority, t.name, s.user, s.project, s.service, s.unique_key, s.unique_forever,"
        " j.process_after_ms, s.deadline_ms, s.policy, s.max_attempts"
        " FROM job_states j JOIN partitions l USING (partition_id) JOIN tenants t ON t.tenant_id = l.tenant_id JOIN specs s USING (seq)"
    )
    policy = '{"max_attempts":3,"strategy":"fixed"}'
    assert row == [("q", -7, "x", "u", "p", "s", "k", 1, 2209032000000, 2209068000500, policy, 3)]


def test_a_delay_locks_the_job(redrive, place):
    assert json.loads(enqueue(redrive, place, "t", "--delay", "1h", "--json").stdout)["state"] == "scheduled"
    waits = place.rows("SELECT process_after_ms - created_ms FROM job_states JOIN specs USING (seq)")[0][0]
    assert 3_590_000 < waits <= 3_600_000


def test_local_times_are_those_of_the_machine(redrive, place):
    env = {"PATH": os.environ["PATH"], "TZ": "XYZ-3", **{k: v for k, v in os.environ.items() if k.endswith("SAN_OPTIONS")}}
    subprocess.run([redrive.binary, "enqueue", "t", "--at", "2040-01-01T12:00"], cwd=place.path, env=env, check=True, timeout=LIMIT_S, capture_output=True)
    assert place.rows("SELECT process_after_ms FROM job_states") == [(2209032000000 - 3 * 3600 * 1000,)]


def test_wait_gives_up_in_time(redrive, place):
    result = enqueue(redrive, place, "t", "--wait", "50ms")
    assert result.returncode == 1
    assert UUID.match(result.stdout.strip())
    assert "has not ended after 50ms" in result.stderr
    assert "it is queued" in result.stderr


def test_wait_that_gives_up_tells_the_id_in_json_too(redrive, place):
    result = enqueue(redrive, place, "t", "--wait", "50ms", "--json")
    assert result.returncode == 1
    answer = json.loads(result.stdout)
    assert UUID.match(answer["id"]) and answer["state"] == "queued"


def test_standard_input_may_be_a_socket(redrive, place):
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.sendall(b'{"from": "a socket"}')
        ours.shutdown(socket.SHUT_WR)
        result = subprocess.run([redrive.binary, "enqueue", "t", "-"], stdin=theirs, cwd=place.path, capture_output=True,
                                text=True, timeout=LIMIT_S, check=False)
    assert result.returncode == 0, result
    assert place.rows() == [("t", '{"from": "a socket"}')]


@pytest.mark.parametrize(
    "state, code, name",
    [(5, 0, "completed"), (7, 3, "dead_letter"), (6, 3, "failed"), (8, 1, "cancelled")],
)
def test_wait_tells_how_the_job_ended(redrive, place, state, code, name):
    assert enqueue(redrive, place, "t", "--id", "a").returncode == 0
    process = subprocess.Popen(
        [redrive.binary, "enqueue", "t", "--id", "a", "--wait", "60s", "--json"],
        cwd=place.path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        with sqlite3.connect(place.db, timeout=30) as db:
            db.execute("UPDATE job_states SET state = ?", (state,))
        out, _ = process.communicate(timeout=LIMIT_S)
    finally:
        process.kill()
        process.wait()
    assert process.returncode == code
    assert json.loads(out) == {"id": "a", "state": name, "existed": True, "result": None}


def ended(redrive, place, *words):
    """A job whose program has run while somebody waits for it."""
    worker = subprocess.Popen([redrive.binary, "work"], cwd=place.path, stderr=subprocess.DEVNULL)
    try:
        return enqueue(redrive, place, "echo", *words, "--id", "a", "--wait", "50s")
    finally:
        worker.terminate()
        worker.wait(timeout=LIMIT_S)


@pytest.mark.parametrize(
    "output, text, value",
    [
        ('{"n": 1}', '{"n": 1}\n', {"n": 1}),
        ("two\\nlines\\n", "two\nlines\n", "two\nlines"),
        ("", "", None),
    ],
)
def test_wait_prints_the_result(redrive, place, output, text, value):
    place.config("tasks: {echo: {run: {exec: [printf, '%s']}}}\n".replace("%s", output))
    assert ended(redrive, place).stdout == "a\ncompleted\n" + text
    again = enqueue(redrive, place, "echo", "--id", "a", "--wait", "50s", "--json")
    assert json.loads(again.stdout) == {"id": "a", "state": "completed", "existed": True, "result": value}


def test_a_result_does_not_steer_the_terminal(redrive, place):
    place.config("tasks: {echo: {run: {exec: [printf, '\\033[2Jx\\ny']}}}\n")
    assert ended(redrive, place).stdout == "a\ncompleted\n\033[2Jx\ny\n"
    code, seen = redrive.on_terminal("enqueue", "echo", "--id", "a", "--wait", "50s", cwd=place.path)
    assert code == 0
    assert b"completed\r\n?[2Jx\r\ny\r\n" in seen


def test_wait_tells_why_the_job_failed(redrive, place):
    place.config("tasks: {echo: {run: {exec: [sh, -c, 'echo no paper >&2; exit 1']}, retry: {max_attempts: 1}}}\n")
    result = ended(redrive, place)
    assert (result.returncode, result.stdout) == (3, "a\ndead_letter\n")
    assert "the job ended as dead_letter" in result.stderr
    assert "no paper" in result.stderr


# ---- Lines ---------------------------------------------------------------------------------------


def test_each_line_is_a_job_in_order(redrive, place):
    lines = "".join(f'{{"n": {i}}}\n' + ("\n" if i % 100 == 0 else "") for i in range(1203))
    result = enqueue(redrive, place, "t", "--lines", stdin=lines)
    assert (result.returncode, result.stderr) == (0, "")
    assert len(set(result.stdout.split())) == 1203
    assert [json.loads(p)["n"] for _, p in place.rows()] == list(range(1203))


def test_bad_lines_are_reported_and_good_ones_kept(redrive, place):
    (place.path / "l").write_text("1\nfoo\n\n[2]\n{]\n3")
    result = enqueue(redrive, place, "t", "--lines", "--from", "l", "--json")
    assert result.returncode == 1
    assert [json.loads(line)["line"] for line in result.stdout.splitlines()] == [1, 4, 6]
    errors = [json.loads(line)["error"] for line in result.stderr.splitlines()]
    assert [e["message"] for e in errors] == [
        "line 2: the payload is not JSON",
        "line 5: the payload is not JSON",
        "2 of 5 lines were refused",
    ]
    assert errors[0]["detail"].startswith("column 2: ")
    assert [p for _, p in place.rows()] == ["1", "[2]", "3"]


def test_no_more_than_twenty_bad_lines_are_shown(redrive, place):
    result = enqueue(redrive, place, "t", "--lines", stdin="x\n" * 25)
    assert (result.returncode, result.stdout) == (1, "")
    assert result.stderr.count(": the payload is not JSON") == 20
    assert "5 more lines were refused" in result.stderr
    assert "25 of 25 lines were refused" in result.stderr


def test_a_line_that_is_too_long_fails_alone(redrive, place):
    result = enqueue(redrive, place, "t", "--lines", stdin="1\n" + "2" * 3_000_000 + "\n3\n")
    assert result.returncode == 1
    assert "line 2: the payload is over 1048576 bytes" in result.stderr
    assert [p for _, p in place.rows()] == ["1", "3"]


# ---- What is refused -----------------------------------------------------------------------------


CONFIG = "strict_tasks: true\ntasks: {resize: {payload: required}, thumbnail: {}}\n"


@pytest.mark.parametrize(
    "words, stdin, code, wanted",
    [
        (["resize", "hello"], None, 2, ["the payload is not JSON", "line 1, column 1", "quote it"]),
        (["resize", '{"a": }'], None, 2, ["the payload is not JSON", "column 7"]),
        (["resize", "-"], "", 2, ["standard input is empty", "leave PAYLOAD"]),
        (["resize", "-"], "1" * 1_100_000, 2, ["over 1048576 bytes", "it has 1100000 bytes"]),
        (["resize"], None, 2, ["the payload is missing", "payload: required", "--from"]),
        (["resize", "null"], None, 2, ["the payload is missing"]),
        (["reszie", "1"], None, 2, ["there is no task 'reszie'", "did you mean 'resize'?"]),
        (["reszie", "--lines"], "1\n", 2, ["there is no task 'reszie'"]),
        (["resize", "1", "--retry", '{"strategy": "fixd"}'], None, 2, ["strategy", "did you mean 'fixed'?"]),
        (["resize", "1", "--retry", "fixed"], None, 2, ["retry policy", "column"]),
        (["resize", "1", "--retry", '{"max_retries": 1}', "--max-attempts", "2"], None, 2, ["max_retries"]),
        (["resize", "--from", "nowhere.json"], None, 1, ["not found", "nowhere.json"]),
        (["resize", "--from", "."], None, 1, ["directory"]),
        (["resize", "--lines", "--from", "nowhere"], None, 1, ["cannot read the lines", "nowhere"]),
        (["resize", "1", "--from", "x"], None, 2, ["exclude each other"]),
        (["resize", "1", "--lines"], None, 2, ["--lines takes no PAYLOAD"]),
        (["resize", "--lines", "--id", "x"], "1\n", 2, ["the same job"]),
        (["resize", "1", "--unique-forever"], None, 2, ["--unique KEY"]),
        (["resize", "1", "--at", "2040-01-01", "--delay", "1s"], None, 2, ["exclude each other"]),
        (["resize", "1", "--at", "tomorrow"], None, 2, ["--at: 'tomorrow' is not a time"]),
        (["resize", "1", "--at", "2026-02-30T10:00Z"], None, 2, ["is not a time"]),
        (["resize", "1", "--deadline", "soon"], None, 2, ["--deadline"]),
        (["resize", "1", "--deadline", "2020-01-01T00:00Z"], None, 2, ["has passed"]),
        (["resize", "1", "--delay", "2h", "--deadline", "1h"], None, 2, ["could never start"]),
        (["resize", "1", "--priority", "101"], None, 2, ["from -100 to 100"]),
        (["resize", "1", "--max-attempts", "0"], None, 2, ["--max-attempts"]),
        (["resize", "1", "--id", "a\nb"], None, 2, ["control character"]),
        (["resize", "1", "--queue", "q" * 256], None, 2, ["over 255 bytes"]),
    ],
)
def test_bad_input_is_explained_and_changes_nothing(redrive, place, words, stdin, code, wanted):
    place.config(CONFIG)
    result = enqueue(redrive, place, *words, stdin=stdin)
    assert (result.returncode, result.stdout) == (code, "")
    for text in wanted:
        assert text in result.stderr
    assert not place.db.exists()


def test_a_store_that_cannot_be_used_is_explained(redrive, place):
    def refused(url, *wanted):
        result = enqueue(redrive, place, "t", "1", "--store", url)
        assert (result.returncode, result.stdout) == (1, "")
        for text in (*wanted, "hint: "):
            assert text in result.stderr

    (place.path / "text.db").write_text("this is no database, but long enough to be looked at\n" * 20)
    with sqlite3.connect(place.path / "other.db") as db:
        db.execute("CREATE TABLE mine (x)")
    assert enqueue(redrive, place, "t", "--store", "sqlite:newer.db").returncode == 0
    with sqlite3.connect(place.path / "newer.db") as db:
        db.execute("PRAGMA user_version = 99")
    refused("sqlite:missing/x.db", "make its folder first", "missing/x.db")
    refused("sqlite:text.db", "not a SQLite database")
    refused("sqlite:other.db", "database of another program")
    refused("sqlite:newer.db", "schema version 99", "newer redrive")
    with sqlite3.connect(place.path / "other.db") as db:
        assert db.execute("SELECT name FROM sqlite_schema").fetchall() == [("mine",)]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_store_without_permission_is_explained(redrive, place):
    place.path.chmod(0o500)
    try:
        result = enqueue(redrive, place, "t", "1")
    finally:
        place.path.chmod(0o700)
    assert result.returncode == 1
    assert "ermission denied" in result.stderr


def test_a_slip_in_the_name_of_a_task_is_told_and_the_job_taken(redrive, place):
    place.config("tasks: {resize: {}}\n")
    result = enqueue(redrive, place, "resiez", "{}")
    assert result.returncode == 0
    assert "warning: no task 'resiez' is declared" in result.stderr
    assert "did you mean 'resize'?" in result.stderr
    assert enqueue(redrive, place, "resize", "{}").stderr == ""
    other = enqueue(redrive, place, "something-else", "{}")
    assert other.returncode == 0
    assert "warning: no task 'something-else' is declared" in other.stderr
    assert "did you mean" not in other.stderr
    assert len(place.rows()) == 3


def test_a_warning_leaves_the_answer_alone(redrive, place):
    place.config("tasks: {resize: {}}\n")
    result = enqueue(redrive, place, "resiez", "{}", "--json")
    assert json.loads(result.stdout)["state"] == "queued"
    assert len(result.stderr.splitlines()) == 1 and "resize" in result.stderr


def test_tasks_of_workers_elsewhere_are_known(redrive, place):
    redrive.output("migrate", cwd=place.path)
    assert enqueue(redrive, place, "whatever", "{}").stderr == ""  # no task is known at all
    place.config("tasks: {resize: {run: {exec: ['true']}}}\n")
    redrive("work", "--until-idle", cwd=place.path)
    (place.path / "redrive.yaml").unlink()
    assert enqueue(redrive, place, "resize", "{}").stderr == ""
    for words in (["{}"], ["--lines", "--from", "lines"]):
        (place.path / "lines").write_text("1\n2\n")
        result = enqueue(redrive, place, "resiez", *words)
        assert result.returncode == 0
        assert result.stderr.count("warning: no task 'resiez' is declared") == 1
        assert "did you mean 'resize'?" in result.stderr


@pytest.mark.parametrize("words", [["t", "--id", ""], ["t", "--unique", ""], ["t", ""]])
def test_what_is_empty_is_refused(redrive, place, words):
    result = enqueue(redrive, place, *words)
    assert (result.returncode, result.stdout) == (2, "")
    assert "is empty" in result.stderr and "hint:" in result.stderr
    assert not place.db.exists()
