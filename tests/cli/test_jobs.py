"""redrive jobs on a terminal. What it prints elsewhere is in the transcripts."""

from tests.cli.jobs import full, run_on_terminal, store  # noqa: F401 (fixtures)


def test_table_fits_the_terminal(full):
    code, seen = run_on_terminal(full, "jobs", "list", "--no-color", env={"COLUMNS": "90"})
    assert code == 0
    assert max(len(line) for line in seen.splitlines()) <= 90
    assert "…" in seen
