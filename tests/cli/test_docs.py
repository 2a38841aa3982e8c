"""What the documents say about the command line is so, and is complete."""

import pathlib
import re
import shlex
import shutil
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
MANUAL = ROOT / "docs" / "redrive.1"


def manual_options():
    """Long options of the manual: mdoc writes --name as `Fl -name`."""
    return set(re.findall(r"\bFl -([a-z][a-z0-9-]*)", MANUAL.read_text("utf-8")))


def test_manual_is_well_formed():
    mandoc = shutil.which("mandoc")
    if not mandoc:
        pytest.skip("needs mandoc")
    result = subprocess.run(
        [mandoc, "-Tlint", "-Wwarning", str(MANUAL)],
        capture_output=True,
        text=True,
        timeout=20,
        check=False,
    )
    assert (result.stdout, result.returncode) == ("", 0)


def test_manual_names_every_command(redrive):
    text = MANUAL.read_text("utf-8")
    for path, node in redrive.commands():
        if path and not node["commands"]:
            heading = r"^\.It Nm Cm " + re.escape(" ".join(path)) + r"\b"
            assert re.search(heading, text, re.MULTILINE), " ".join(path)


def test_manual_names_every_option_and_choice(redrive):
    text = MANUAL.read_text("utf-8")
    documented = manual_options()
    for _, node in redrive.commands():
        for option in node["options"]:
            assert option["name"] in documented
            for choice in option["choices"]:
                assert re.search(rf"\b{re.escape(choice)}\b", text), choice


def test_manual_names_no_option_that_is_gone(redrive):
    known = {"name"}  # stands for any option where the manual explains the syntax
    for _, node in redrive.commands():
        known |= {option["name"] for option in node["options"]}
    assert manual_options() <= known


def command_lines(text):
    """Calls of the program in lines of shell, as lists of words."""
    for line in text.replace("\\\n", " ").splitlines():
        lexer = shlex.shlex(line, posix=True, punctuation_chars=True)
        lexer.whitespace_split = True
        try:
            words = list(lexer)
        except ValueError:  # not shell after all
            continue
        for start, word in enumerate(words):
            first = start == 0 or set(words[start - 1]) <= set("();<>|&$")
            if word == "redrive" and first:
                rest = words[start + 1 :]
                ends = (i for i, w in enumerate(rest) if set(w) <= set("();<>|&"))
                yield rest[: next(ends, len(rest))]


def check_lines(redrive, lines):
    """--help reads the whole line and does nothing else, so a call that exists succeeds."""
    for words in lines:
        result = redrive(*words, "--help")
        assert result.returncode == 0, (words, result.stderr)


def test_examples_of_the_help_pages_are_calls_that_exist(redrive):
    for path, node in redrive.commands():
        for example in node["examples"]:
            lines = list(command_lines(example["line"]))
            assert lines, (path, example)
            check_lines(redrive, lines)


def test_examples_of_the_manual_are_calls_that_exist(redrive):
    text = MANUAL.read_text("utf-8").replace("\\e\n", "\\\n")
    lines = list(command_lines(re.sub(r"^(\.Dl )?\$ ", "", text, flags=re.MULTILINE)))
    assert len(lines) >= 3
    check_lines(redrive, lines)


def test_calls_in_the_documents_exist(redrive):
    for path in (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))):
        text = path.read_text("utf-8") if path.exists() else ""
        blocks = re.findall(r"^```(?:sh|bash|console)\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
        for block in blocks:
            check_lines(redrive, command_lines(re.sub(r"^\$ ", "", block, flags=re.MULTILINE)))
