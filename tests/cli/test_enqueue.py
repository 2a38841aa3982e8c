"""`redrive enqueue`: a socket as standard input, waiting while a worker runs, and stores that cannot be used."""

import json
import os
import socket
import sqlite3
import subprocess

import pytest

from tests.kit.waiting import LIMIT_S


def configure(folder, text):
    (folder / "redrive.yaml").write_text(text)


def test_standard_input_may_be_a_socket(redrive, tmp_path):
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.sendall(b'{"from": "a socket"}')
        ours.shutdown(socket.SHUT_WR)
        result = subprocess.run([redrive.binary, "enqueue", "t", "-"], stdin=theirs, cwd=tmp_path, capture_output=True,
                                text=True, timeout=LIMIT_S, check=False)
    assert result.returncode == 0, result
    assert redrive.output("jobs", "show", result.stdout.strip(), cwd=tmp_path).endswith('"from": "a socket"\n  }\n')


def test_wait_sees_that_the_job_is_cancelled(redrive, tmp_path):
    assert redrive("enqueue", "t", "--id", "a", cwd=tmp_path).returncode == 0
    process = subprocess.Popen(
        [redrive.binary, "enqueue", "t", "--id", "a", "--wait", "60s", "--json"],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        redrive.output("jobs", "cancel", "a", cwd=tmp_path)
        out, _ = process.communicate(timeout=LIMIT_S)
    finally:
        process.kill()
        process.wait()
    assert process.returncode == 1
    assert json.loads(out) == {"id": "a", "state": "cancelled", "existed": True, "result": None}


def ended(redrive, tmp_path):
    """A job whose program has run while somebody waits for it."""
    worker = subprocess.Popen([redrive.binary, "work"], cwd=tmp_path, stderr=subprocess.DEVNULL)
    try:
        return redrive("enqueue", "echo", "--id", "a", "--wait", "50s", cwd=tmp_path)
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
def test_wait_prints_the_result(redrive, tmp_path, output, text, value):
    configure(tmp_path, "tasks: {echo: {run: {exec: [printf, '%s']}}}\n".replace("%s", output))
    assert ended(redrive, tmp_path).stdout == "a\ncompleted\n" + text
    again = redrive("enqueue", "echo", "--id", "a", "--wait", "50s", "--json", cwd=tmp_path)
    assert json.loads(again.stdout) == {"id": "a", "state": "completed", "existed": True, "result": value}


def test_a_result_that_is_no_utf_8_is_exported_byte_for_byte(redrive, tmp_path):
    """The operation that `--wait` asks answers with JSON, which has U+FFFD in its place."""
    configure(tmp_path, "tasks: {echo: {run: {exec: [printf, '\\377\\001 bin']}}}\n")
    assert redrive("enqueue", "echo", "--id", "a", cwd=tmp_path).returncode == 0
    assert redrive("work", "--until-idle", cwd=tmp_path).returncode == 0
    shown = subprocess.run([redrive.binary, "enqueue", "echo", "--id", "a", "--wait", "50s"], cwd=tmp_path, capture_output=True)
    assert shown.stdout.decode() == "a\ncompleted\n\ufffd\x01 bin\n"
    rows = subprocess.run([redrive.binary, "jobs", "export", "--format", "csv"], cwd=tmp_path, capture_output=True)
    assert rows.stdout.endswith(b",\xff\x01 bin\r\n")


def test_a_result_that_is_a_json_text_keeps_its_quotes(redrive, tmp_path):
    configure(tmp_path, "tasks: {echo: {run: {exec: [printf, '\"1\"\\n\\n']}}}\n")
    ended(redrive, tmp_path)
    again = redrive("enqueue", "echo", "--id", "a", "--wait", "50s", "--json", cwd=tmp_path)
    assert json.loads(again.stdout)["result"] == "1"


def test_a_result_does_not_steer_the_terminal(redrive, tmp_path):
    configure(tmp_path, "tasks: {echo: {run: {exec: [printf, '\\033[2Jx\\ny']}}}\n")
    assert ended(redrive, tmp_path).stdout == "a\ncompleted\n\033[2Jx\ny\n"
    code, seen = redrive.on_terminal("enqueue", "echo", "--id", "a", "--wait", "50s", cwd=tmp_path)
    assert code == 0
    assert b"completed\r\n?[2Jx\r\ny\r\n" in seen


def test_wait_tells_why_the_job_failed(redrive, tmp_path):
    configure(tmp_path, "tasks: {echo: {run: {exec: [sh, -c, 'echo no paper >&2; exit 1']}, retry: {max_attempts: 1}}}\n")
    result = ended(redrive, tmp_path)
    assert (result.returncode, result.stdout) == (3, "a\ndead_letter\n")
    assert "the job ended as dead_letter" in result.stderr
    assert "no paper" in result.stderr


def test_a_store_that_cannot_be_used_is_explained(redrive, tmp_path):
    def refused(url, *wanted):
        result = redrive("enqueue", "t", "1", "--store", url, cwd=tmp_path)
        assert (result.returncode, result.stdout) == (1, "")
        for text in (*wanted, "hint: "):
            assert text in result.stderr

    with sqlite3.connect(tmp_path / "other.db") as db:
        db.execute("CREATE TABLE mine (x)")
    assert redrive("enqueue", "t", "--store", "sqlite:newer.db", cwd=tmp_path).returncode == 0
    with sqlite3.connect(tmp_path / "newer.db") as db:
        db.execute("PRAGMA user_version = 99")
    refused("sqlite:other.db", "database of another program")
    refused("sqlite:newer.db", "schema version 99", "newer redrive")
    with sqlite3.connect(tmp_path / "other.db") as db:
        assert db.execute("SELECT name FROM sqlite_schema").fetchall() == [("mine",)]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_store_without_permission_is_explained(redrive, tmp_path):
    tmp_path.chmod(0o500)
    try:
        result = redrive("enqueue", "t", "1", cwd=tmp_path)
    finally:
        tmp_path.chmod(0o700)
    assert result.returncode == 1
    assert "ermission denied" in result.stderr


def error_of(result):
    assert result.returncode == 1, result
    return json.loads(result.stderr.splitlines()[-1])["error"]


def test_lines_stop_where_the_breaker_opens(redrive, tmp_path):
    """No other line would be taken either; what was done before is said."""
    configure(tmp_path, "tasks: {pay: {breaker: {on_open: reject}}}\n")
    assert redrive("enqueue", "pay", "1", cwd=tmp_path).returncode == 0
    assert redrive("breakers", "trip", "pay", cwd=tmp_path).returncode == 0
    (tmp_path / "lines").write_text("1\n2\n3\n")
    error = error_of(redrive("enqueue", "pay", "--lines", "--from", "lines", "--json", cwd=tmp_path))
    assert (error["code"], error["message"]) == ("BREAKER_OPEN", "stopped at line 1: circuit breaker 'pay' is open")
    assert error["hint"] == "no job was made before that line; go on with line 1"


def test_a_breaker_of_one_line_stops_at_that_line(redrive, tmp_path):
    """The batch is refused as a whole; the good lines before the one that is at fault are submitted all the same."""
    configure(tmp_path, 'tasks: {pay: {run: {exec: [sh, -c, "exit 75"]}, retry: {max_attempts: 1}, '
                        'breaker: {key: "{payload.host}", failure_threshold: 1, on_open: reject}}}\n')
    assert redrive("enqueue", "pay", '{"host": "a"}', cwd=tmp_path).returncode == 0
    redrive("work", "--until-idle", cwd=tmp_path)
    (tmp_path / "lines").write_text("".join(f'{{"host": "{host}"}}\n' for host in "bbabb"))
    result = redrive("enqueue", "pay", "--lines", "--from", "lines", "--json", cwd=tmp_path)
    assert error_of(result)["message"] == "stopped at line 3: circuit breaker 'a' is open"
    assert [json.loads(line)["line"] for line in result.stdout.splitlines()] == [1, 2]


def test_lines_stop_where_the_store_fails(redrive, tmp_path):
    """A trigger lets the third batch fail, as a full disk would."""
    assert redrive("enqueue", "t", cwd=tmp_path).returncode == 0
    with sqlite3.connect(tmp_path / "redrive.db") as db:
        db.execute("CREATE TRIGGER full BEFORE INSERT ON specs WHEN (SELECT count(*) FROM specs) > 2500 "
                   "BEGIN SELECT RAISE(ABORT, 'full'); END")
    (tmp_path / "lines").write_text("".join(f"{n}\n" for n in range(5000)))
    result = redrive("enqueue", "t", "--lines", "--from", "lines", "--json", cwd=tmp_path)
    error = error_of(result)
    assert error["message"].startswith("stopped at line 2001: ")
    assert error["hint"].startswith("the jobs of the lines before it are there; from line 2001 on: ")
    assert [json.loads(line)["line"] for line in result.stdout.splitlines()] == list(range(1, 2001))
