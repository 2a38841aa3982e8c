"""Nothing is set up in a database of another program. What is said without a store: transcripts/no-store.md."""

import pytest

from tests.kit import stores

BORROWERS = [
    ["enqueue", "mail", "{}"],
    ["work", "--until-idle"],
    ["serve", "--listen", "127.0.0.1:0", "--faktory", "off"],
    ["batch", "mail", "records.jsonl"],
    ["cron", "set", "minutely", "--task", "mail", "--schedule", "* * * * *"],
    ["import", "archive.jsonl"],
    ["stats"],
]


@pytest.mark.parametrize("kind, variable", [("postgres", "DATABASE_URL"), ("redis", "REDIS_URL")])
def test_nothing_is_set_up_where_another_program_keeps_its_data(redrive, tmp_path, kind, variable):
    place = stores.Place(kind, tmp_path)
    env = {variable: place.url}
    (tmp_path / "redrive.yaml").write_text("tasks: {mail: {run: {exec: ['true']}}}\n")
    (tmp_path / "records.jsonl").write_text('{"id": "a"}\n')
    redrive("enqueue", "mail", "--store", "sqlite:other.db", cwd=tmp_path)
    assert redrive("export", "archive.jsonl", "--store", "sqlite:other.db", cwd=tmp_path).returncode == 0
    for words in BORROWERS:
        result = redrive(*words, cwd=tmp_path, env=env)
        assert result.returncode == 1, (words, result.stderr)
        assert f"the store that {variable} names is not set up" in result.stderr, (words, result.stderr)
        assert "`redrive migrate`" in result.stderr and "`store:`" in result.stderr, words
    if kind == "postgres":
        assert place.query("SELECT 1 FROM pg_namespace WHERE nspname = 'redrive'") == []
    assert "redrive migrate" in redrive("doctor", cwd=tmp_path, env=env).stdout

    assert redrive("migrate", cwd=tmp_path, env=env).returncode == 0
    result = redrive("enqueue", "mail", "{}", cwd=tmp_path, env=env)
    assert result.returncode == 0, result.stderr
    result = redrive("work", "--until-idle", cwd=tmp_path, env=env)
    assert result.returncode == 0, result.stderr
    assert "1 completed" in result.stdout
    first = result.stderr.splitlines()[0]
    assert " configuration " in first and f"store_from={variable}" in first and f"variables={variable}" in first
