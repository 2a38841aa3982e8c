"""What the documents say about the command line is so, and is complete."""

import json
import re
import shlex
import shutil
import subprocess

import pytest

from tests.kit.program import BINARY, ROOT
from tests.kit.waiting import LIMIT_S

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
        timeout=LIMIT_S,
        check=False,
    )
    assert (result.stdout, result.returncode) == ("", 0)


def test_documents_have_what_the_program_prints_today():
    check = [ROOT / "tools" / "docs", BINARY, "--check"]
    result = subprocess.run(check, capture_output=True, text=True, timeout=LIMIT_S, check=False)
    assert (result.stderr, result.returncode) == ("", 0)


def test_every_section_of_the_configuration_is_on_its_page(redrive):
    page = (ROOT / "docs" / "configuration.md").read_text("utf-8")
    sections = [section["name"] for section in json.loads(redrive.output("help", "config-keys", "--json"))["sections"]]
    marks = [f"### `{name}`\n.*?<!-- printed by: redrive help config-keys {shlex.quote(name)} -->" for name in sections]
    assert sections[0] == "top level"
    assert [name for name, mark in zip(sections, marks) if not re.search(mark, page, re.DOTALL)] == []


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


def yaml_blocks(page):
    text = (ROOT / "docs" / page).read_text("utf-8")
    return re.findall(r"^```yaml\n(.*?)^```", text, re.MULTILINE | re.DOTALL)


def test_configuration_of_the_kubernetes_page_loads(redrive, tmp_path):
    blocks = [block for block in yaml_blocks("kubernetes.md") if block.startswith("# redrive.yaml\n")]
    assert blocks
    path = tmp_path / "redrive.yaml"
    secrets = {"BILLING_SECRET": "whsec_c2VjcmV0LW9mLXRoaXJ0eS10d28tYnl0ZXM=", "BILLING_TOKEN": "token"}
    for block in blocks:
        path.write_text(block, "utf-8")
        path.chmod(0o600)  # it has the hashes of tokens
        result = redrive("config", "check", "-c", str(path), env={**secrets, "REDRIVE_STORE": "sqlite:jobs.db"})
        assert (result.returncode, result.stderr) == (0, "")


def test_pods_of_the_kubernetes_page_have_time_to_stop_and_sqlite_has_one_pod():
    manifests = [block for block in yaml_blocks("kubernetes.md") if "kind: " in block]
    assert len(manifests) == 2
    for text in manifests:
        drain = re.search(r"drain: (\d+)s", "".join(yaml_blocks("kubernetes.md")))
        grace = re.search(r"--grace, (\d+)s", text)
        killed = re.search(r"terminationGracePeriodSeconds: (\d+)", text)
        assert int(drain[1]) < int(grace[1]) < int(killed[1])
        assert "path: /ready" in text and "path: /health" in text
        if "sqlite:" in text:
            assert "kind: StatefulSet" in text and "replicas: 1\n" in text and "ReadWriteOncePod" in text
        else:
            assert "kind: Deployment" in text
