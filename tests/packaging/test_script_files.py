"""tools/script-files finds every script, so that the linters read all of them."""

import os
import pathlib
import re
import shutil
import subprocess

import pytest

from tests.kit.program import ROOT
from tests.kit.waiting import LIMIT_S
from tests.packaging.files import output


def listed(language):
    return {pathlib.Path(name) for name in output(ROOT / "tools" / "script-files", language).splitlines()}


def test_every_program_of_the_tree_is_read_by_a_linter():
    if not (ROOT / ".git").exists() or shutil.which("git") is None:
        pytest.skip("needs a git repository")
    tracked = [pathlib.Path(name) for name in output("git", "-C", ROOT, "ls-files").splitlines()]
    found = {"python": listed("python"), "sh": listed("sh")}
    for path in tracked:
        if not (ROOT / path).is_file():
            continue
        with open(ROOT / path, "rb") as file:
            first = file.readline(200).decode("utf-8", "replace")
        if path.suffix == ".py" or re.match(r"#!.*python", first):
            assert path in found["python"], path
        elif path.suffix == ".sh" or re.match(r"#!.*\b(ba|da)?sh\b", first):
            assert path in found["sh"], path
        elif first.startswith("#!") and os.access(ROOT / path, os.X_OK):
            assert re.search(r"\b(node|make|awk|lua|ruby|php)\b", first), f"no linter reads {path}: {first}"


def test_other_languages_are_refused():
    done = subprocess.run([ROOT / "tools" / "script-files", "perl"], capture_output=True, text=True, timeout=LIMIT_S, check=False)
    assert (done.returncode, done.stdout) == (2, "")


def test_shell_scripts_are_clean():
    if shutil.which("shellcheck") is None:
        pytest.skip("needs shellcheck")
    done = subprocess.run([ROOT / "tools" / "lint-shell"], capture_output=True, text=True, timeout=2 * LIMIT_S, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_linter_of_python_says_when_its_registry_cannot_be_reached(tmp_path):
    environment = {**os.environ, "PIP_NO_INDEX": "1"}
    done = subprocess.run([ROOT / "tools" / "lint-python", tmp_path], env=environment, stdin=subprocess.DEVNULL, capture_output=True,
                          text=True, timeout=2 * LIMIT_S, check=False)
    assert done.returncode == 1
    assert "can its registry be reached?" in done.stderr
