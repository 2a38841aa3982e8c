"""The bugs that `make mutants` plants name text of the source: code that moves or changes takes them along."""
import subprocess

from tests.kit.program import ROOT


def test_each_planted_bug_names_text_that_is_there_once():
    done = subprocess.run([ROOT / "tools" / "mutants", "build", "--check"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout.split()[0]) >= 30
