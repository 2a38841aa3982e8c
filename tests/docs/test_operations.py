"""The symptoms of docs/operations.md: each message is one that the program prints, or that its source has."""

import contextlib
import re
import sqlite3
import time

import pytest

from tests.docs.pages import blocks, difference, steps
from tests.kit.program import ROOT
from tests.kit.waiting import LIMIT_S

TEXT = (ROOT / "docs" / "operations.md").read_text("utf-8")
TROUBLES = TEXT.split("## Troubleshooting\n")[1].split("\n## ")[0]

MAIL = 'tasks: {mail: {run: {exec: ["true"]}, breaker: {failure_threshold: 3}}}'
SLOW = 'tasks: {slow: {run: {exec: [sleep, "2"]}, lease: 1s}}'


def section(title):
    return TROUBLES.split(f"### {title}\n")[1].split("\n### ")[0]


def lose_a_lease(shell):
    """A worker that is suspended for longer than its lease; another one runs its job."""
    shell("redrive enqueue slow --id slow-1")
    shell("redrive work --log-level off & first=$!")
    shell("until redrive jobs show slow-1 | grep -q running; do sleep 0.05; done")
    shell("kill -STOP $first; sleep 1.5; redrive work --until-idle --log-level off")
    shell("redrive work --log-level off & second=$!")
    shell("until redrive jobs show slow-1 | grep -q '^State *completed'; do sleep 0.1; done")
    shell("kill -CONT $first; kill $first $second; wait")


# What has to happen before each command of a section.
SETUP = {
    "Jobs stay in `queued`": [
        lambda shell: shell("redrive enqueue mail --id mail-1"),
        lambda shell: shell("redrive queues pause default"),
        lambda shell: shell("redrive queues resume default; redrive jobs cancel mail-1; redrive enqueue typo"),
        None,
    ],
    "Jobs stay in `parked`, or a breaker will not close": [
        lambda shell: shell("redrive enqueue mail --id mail-1; redrive breakers trip mail; redrive work --until-idle"),
        None,
    ],
    "Duplicate runs": [lose_a_lease],
    "The server does not start": [None, None],
}


@pytest.mark.parametrize("title", SETUP)
def test_commands_show_the_cause(title, open_shell, tmp_path):
    (tmp_path / "redrive.yaml").write_text(SLOW if title == "Duplicate runs" else MAIL, "utf-8")
    shell = open_shell()
    commands = [step for _, text in blocks(section(title), "console") for step in steps(text)]
    assert len(commands) == len(SETUP[title])
    for (command, shown), prepare in zip(commands, SETUP[title]):
        if prepare:
            prepare(shell)
        lines = shell(command)
        if "…" in shown:
            shown = [line for line in shown if line != "…"] + ["…"]
        wrong = difference(shown, lines)
        assert not wrong, "\n".join([wrong, f"$ {command}", *lines])


def test_every_section_with_commands_is_run():
    sections = re.findall(r"^### (.*)$", TROUBLES, re.M)
    assert {title for title in sections if blocks(section(title), "console")} == set(SETUP)


# ---- Messages that are not easily produced -------------------------------------------------------


def source_text():
    """All string literals of the sources, those that stand side by side joined."""
    found = []
    for path in sorted((ROOT / "src").rglob("*.[ch]")):
        joined = re.sub(r'"\s*\n\s*"', "", path.read_text("utf-8"))
        found += re.findall(r'"((?:[^"\\\n]|\\.)*)"', joined)
    return "\n".join(found)


def quoted_messages():
    """First cells of the tables of messages, and the lines of blocks of text."""
    for table in re.findall(r"^\| message \|.*\n\|[-|]+\|\n((?:\|.*\n)+)", TROUBLES, re.M):
        for row in table.splitlines():
            yield from re.findall(r"`([^`]+)`", row.split(" | ")[0])
    for _, text in blocks(TROUBLES, "text"):
        for line in text.splitlines():
            yield re.sub(r"^(redrive|hint): ", "", line)


OLDER = "the store would be brought from schema version 4 to …"
LEFT_OUT = "1 job cannot be read and is left out"
AWAY = "the store cannot be used: the server cannot be reached"
NOT_LITERAL = {"Address already in use", "cannot open the store: No such file or directory", OLDER, LEFT_OUT, AWAY}


def fragments(message):
    """The parts of a message that do not differ from case to case."""
    parts = re.split(r"…|\b\d+\b|\./\S+", message)
    return [part.strip(" :()") for part in parts if len(part.strip(" :()")) > 4]


def test_messages_stand_in_the_source():
    source = re.sub(r'%(?:"\s*PRI\w+\s*"|ll?d|ld|d|s)', "…", source_text())
    messages = list(quoted_messages())
    assert len(messages) > 20
    missing = [part for message in messages if message not in NOT_LITERAL
               for part in fragments(message) if part not in source]
    known = {"path", "database or disk is full"}  # the first is cut off, the second is SQLite's own
    assert [part for part in missing if part not in known] == []


def test_messages_about_a_newer_and_an_older_schema(open_shell, tmp_path):
    shell = open_shell()
    shell("redrive migrate --store sqlite:new.db")
    shown = [text.splitlines() for _, text in blocks(section("The store has another schema version"), "text")]
    for version, lines, command in [(99, shown[0], "stats"), (4, shown[1], "migrate --dry-run")]:
        with contextlib.closing(sqlite3.connect(tmp_path / "new.db")) as file:
            file.execute(f"PRAGMA user_version = {version}")
        assert difference(lines, shell(f"redrive {command} --store sqlite:new.db")) is None
    assert shown[1] == [OLDER]


def test_a_second_server_is_refused(open_shell):
    shell = open_shell(REDRIVE_LISTEN_HTTP="127.0.0.1:0", REDRIVE_LISTEN_FAKTORY="off")
    shell("redrive serve 2> serve.log &")
    deadline = time.monotonic() + LIMIT_S
    while "listening" not in "\n".join(shell("cat serve.log")) and time.monotonic() < deadline:
        time.sleep(0.05)
    lines = shell("redrive serve")
    assert any("serves this store already" in line for line in lines), lines
    shell("kill %1; wait")
