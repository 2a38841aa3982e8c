"""The files of packaging/, and the program that they start."""

import os
import pathlib
import shutil
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BINARY = pathlib.Path(os.environ.get("REDRIVE_BIN", ROOT / "build" / "redrive")).resolve()
PACKAGING = ROOT / "packaging"
LIMIT_S = 60

sys.path.insert(0, str(ROOT / "tests" / "servers"))


def output(*words, **options):
    """Standard output of a program that must succeed."""
    return subprocess.run([str(word) for word in words], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True,
                          timeout=LIMIT_S, check=True, **options).stdout


def version():
    return output(ROOT / "tools" / "version").strip()


@pytest.fixture(scope="session")
def sbom(tmp_path_factory):
    """The path of the bill of materials of the program."""
    if shutil.which("dpkg-query") is None:
        pytest.skip("needs dpkg")
    path = tmp_path_factory.mktemp("sbom") / "redrive.spdx.json"
    output(ROOT / "tools" / "sbom", path, BINARY)
    return path


def is_a_command(words):
    """Whether the program knows the words. --help reads the whole line and does nothing else."""
    assert words[0] == "redrive"
    return subprocess.run([BINARY, *words[1:], "--help"], stdin=subprocess.DEVNULL, capture_output=True, timeout=LIMIT_S,
                          check=False).returncode == 0
