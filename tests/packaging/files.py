"""The files of packaging/, and the program that they name."""
import subprocess

from tests.kit.program import BINARY, ROOT, TIMEOUT_S

PACKAGING = ROOT / "packaging"


def output(*words, **options):
    """Standard output of a program that must succeed."""
    return subprocess.run([str(word) for word in words], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True,
                          timeout=TIMEOUT_S, check=True, **options).stdout


def version():
    return output(ROOT / "tools" / "version").strip()


def is_a_command(words):
    """Whether the program knows the words. --help reads the whole line and does nothing else."""
    assert words[0] == "redrive"
    return subprocess.run([BINARY, *words[1:], "--help"], stdin=subprocess.DEVNULL, capture_output=True, timeout=TIMEOUT_S,
                          check=False).returncode == 0
