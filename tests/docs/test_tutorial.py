"""Every command of docs/tutorial.md, in order, prints what the page shows."""

import re

from tests.docs.pages import blocks, difference, steps
from tests.kit.ports import free_port
from tests.kit.program import ROOT

TEXT = (ROOT / "docs" / "tutorial.md").read_text("utf-8")
ADDRESS = "127.0.0.1:7070"  # of the page


def files():
    """(name, text) of the files that the page has its reader write."""
    for language in ("sh", "yaml"):
        for attributes, text in blocks(TEXT, language):
            if name := re.search(r"file=(\S+)", attributes):
                yield name[1], text


def test_tutorial_goes_as_it_is_told(open_shell, tmp_path):
    address = f"127.0.0.1:{free_port()}"
    shell = open_shell(REDRIVE_LISTEN_HTTP=address, REDRIVE_LISTEN_FAKTORY="off")
    (tmp_path / "tutorial").mkdir()
    for name, text in files():
        (tmp_path / "tutorial" / name).write_text(text, "utf-8")
    commands = [step for _, text in blocks(TEXT, "console") for step in steps(text)]
    assert len(commands) > 30
    for command, shown in commands:
        command = command.replace("mkdir tutorial && ", "").replace(ADDRESS, address)
        lines = shell(command)
        wrong = difference(shown, lines)
        assert not wrong, "\n".join([wrong, f"$ {command}", *lines])


def test_build_commands_of_the_tutorial_are_those_of_the_makefile():
    build = blocks(TEXT, "sh")[0][1]
    assert build.splitlines()[0] == "make"
    assert re.search(r"^all:", (ROOT / "Makefile").read_text("utf-8"), re.M)


def test_a_difference_is_noticed():
    shown = ["ran 1 in 48ms: 1 completed", "left: 0 parked"]
    assert difference(shown, ["left: 0 parked", "ran 1 in 3ms: 1 completed"]) is None
    assert difference(shown, ["ran 1 in 3ms: 0 completed", "left: 0 parked"])
    assert difference(shown, [*shown, "and one line more"])
    assert difference([], ["a line"]) and difference(["a line"], [])
    assert difference(['{"state":"open",…}'], ['{"state":"open","parked":4}']) is None
    assert difference(['{"state":"open",…}'], ['{"state":"closed","parked":4}'])
