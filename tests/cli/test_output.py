"""Colours and widths of terminals, and a reader that went away."""

import os
import signal

import pytest


def test_terminal_gets_colour(redrive):
    assert b"\x1b[1mUsage:\x1b[0m" in redrive.on_terminal("--help")[1]
    code, seen = redrive.on_terminal("--jsno")
    assert code == 2
    assert seen.startswith(b"\x1b[31mredrive:\x1b[0m unknown option --jsno\r\n")


@pytest.mark.parametrize(
    "words, env",
    [
        (["--no-color"], {}),
        (["--color", "never"], {}),
        (["--color=always", "--no-color"], {}),
        ([], {"NO_COLOR": "1"}),
        ([], {"TERM": "dumb"}),
        (["--color=auto"], {"NO_COLOR": "yes"}),
    ],
)
def test_terminal_gets_no_colour_where_it_is_refused(redrive, words, env):
    seen = redrive.on_terminal("help", *words, env=env)[1]
    assert b"Usage:" in seen and b"\x1b" not in seen


def test_refused_colour_holds_for_errors_in_the_line_itself(redrive):
    assert b"\x1b" not in redrive.on_terminal("--jsno", "--no-color")[1]


def test_empty_no_color_is_not_set(redrive):
    assert b"\x1b[1m" in redrive.on_terminal("help", env={"NO_COLOR": ""})[1]


def widest(text):
    """Examples are not filled, so that they can be copied."""
    return max(len(line) for line in text.decode().splitlines() if "source <(" not in line)


def test_lines_fit_the_terminal(redrive):
    call = ["--help", "--no-color"]
    assert widest(redrive.on_terminal(*call, columns=60)[1]) <= 60
    assert widest(redrive.on_terminal(*call, columns=60, env={"COLUMNS": "90"})[1]) <= 60
    assert widest(redrive.on_terminal(*call, env={"COLUMNS": "60"})[1]) <= 60
    assert 80 < widest(redrive.on_terminal(*call, columns=500)[1]) <= 100
    assert 60 < widest(redrive.on_terminal(*call, env={"COLUMNS": "nonsense"})[1]) <= 80


@pytest.mark.parametrize("restore", [True, False])
def test_reader_that_went_away_ends_it_quietly(redrive, restore):
    """Also when the parent ignores SIGPIPE, as Python does."""
    reader, writer = os.pipe()
    os.close(reader)
    result = redrive("--help", stdout=writer, restore_signals=restore)
    os.close(writer)
    assert (result.returncode, result.stderr) == (-signal.SIGPIPE, "")
