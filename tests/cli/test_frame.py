"""The frame with commands and a source of options made for the test."""

import json
import re
import time

import pytest

from tests.kit.program import ROOT

HEADER = (ROOT / "include" / "redrive.h").read_text("utf-8")
ERRORS = re.findall(r'XX\((\w+), -\d+, "([^"]+)", \w+, \d+, (\d)\)', HEADER)


def test_error_table_is_found():
    assert len(ERRORS) >= 20
    assert {exit_code for _, _, exit_code in ERRORS} == {"1", "2", "3"}


@pytest.mark.parametrize("name, text, exit_code", ERRORS)
def test_exit_code_is_that_of_the_error_table(frame, name, text, exit_code):
    result = frame("fail", name)
    assert result.returncode == int(exit_code)
    assert result.stdout == "data\n"
    assert result.stderr == f"redrive: {text}\n"
    error = json.loads(frame("fail", name, "--json").stderr)["error"]
    assert (error["code"], error["message"]) == (name, text)


def test_failure_counts_more_than_lost_output(frame):
    with open("/dev/full", "wb") as full:
        result = frame("fail", "JOB_FAILED", stdout=full)
    assert result.returncode == 3
    assert "the job failed" in result.stderr
    assert "cannot write standard output" in result.stderr


def test_configuration_flags_are_listed(frame):
    page = frame.output("help", "config-flags")
    assert "--retry-max-delay TIME" in page
    assert all(len(line) <= 80 for line in page.splitlines())
    flags = json.loads(frame.output("help", "config-flags", "--json"))["options"]
    assert [flag["name"] for flag in flags] == ["retry-max-delay", "retry-mode", "queue-file"]
    assert "see 'redrive help config-flags'" in frame.output("--help")


def test_configuration_flags_are_read_and_suggested(frame):
    frame.output("work", "--retry-max-delay", "5s", "--retry-mode=x")
    frame.output("--retry-max-delay=5s", "work")
    result = frame("work", "--retry-max-dely=5s")
    assert result.returncode == 2
    assert "hint: did you mean --retry-max-delay?\n" in result.stderr
    result = frame("work", "--retry-max-delay=wrong", "--json")
    assert result.returncode == 2
    assert json.loads(result.stderr)["error"] == {
        "code": "CONFIG",
        "message": "--retry-max-delay: 'wrong' is no duration",
        "detail": "retry.max_delay is one",
        "hint": "write 30s",
    }


def test_configuration_flags_are_completed(frame):
    def complete(*words):
        return frame.output("__complete", "--", str(len(words)), "redrive", *words).split()

    assert complete("work", "--retry") == ["--retry-max-delay", "--retry-mode"]
    assert complete("help", "conf") == ["config-flags", "config-keys"]


def test_table_is_whole_in_a_pipe_and_cut_on_a_terminal(frame):
    note = "a note that is longer than a narrow terminal is wide, in any case"
    lines = frame.output("work", "--steps=2").splitlines()
    assert lines == ["STEP  NOTE", f"   1  {note}", f"   2  {note}"]
    seen = frame.on_terminal("work", "--no-color", env={"COLUMNS": "40"})[1].decode()
    rows = [line for line in seen.splitlines() if line.startswith("   3")]
    assert rows == ["   3  a note that is longer than a narr…"]


def test_progress_is_drawn_on_a_terminal_and_cleared(frame):
    start = time.monotonic()
    code, seen = frame.on_terminal("work", "--steps", "35")
    seconds = time.monotonic() - start
    draws = re.findall(rb"\rwork  [^\r]*/35[^\r]*\x1b\[K", seen)
    assert code == 0
    assert 3 <= len(draws) <= 10 * seconds + 1  # at once, then ten a second
    bar, table = seen.split(b"\r\x1b[K")
    assert b"STEP" not in bar and b"STEP" in table


def test_progress_is_silent_elsewhere(frame):
    assert frame("work").stderr == ""
    seen = frame.on_terminal("work", env={"TERM": "dumb"})[1]
    assert b"work" not in seen
