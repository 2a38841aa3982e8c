"""A command that only looks, or needs something that is there, makes no store where there is none."""
import json
import os

import pytest

from tests.kit import stores

READERS = [
    ["jobs", "list"],
    ["jobs", "show", "a"],
    ["jobs", "export"],
    ["jobs", "cancel", "a"],
    ["jobs", "retry", "a"],
    ["dlq", "list"],
    ["dlq", "show", "a"],
    ["dlq", "groups"],
    ["dlq", "stats"],
    ["dlq", "export"],
    ["dlq", "retry", "--all"],
    ["dlq", "retry", "a"],
    ["dlq", "edit", "a", "{}"],
    ["dlq", "remove", "a"],
    ["dlq", "purge", "--older-than", "0", "--yes"],
    ["stats"],
    ["health"],
    ["top", "--once"],
    ["backup", "copy.db"],
    ["breakers", "list"],
    ["breakers", "show", "mail"],
    ["breakers", "reset", "mail"],
    ["breakers", "trip", "mail"],
    ["breakers", "disable", "mail"],
    ["breakers", "simulate-failure", "mail"],
    ["queues", "list"],
    ["queues", "pause", "main"],
    ["queues", "resume", "main"],
    ["cron", "remove", "minutely"],
    ["cron", "list"],
    ["cron", "run", "minutely"],
]

WRITERS = [
    ["enqueue", "mail", "{}"],
    ["migrate"],
    ["cron", "set", "minutely", "--task", "mail", "--schedule", "* * * * *"],
]


@pytest.mark.parametrize("words", READERS, ids=" ".join)
def test_a_store_that_is_not_there_is_told_and_not_made(redrive, tmp_path, words):
    result = redrive(*words, "--store", "sqlite:typo.db", cwd=tmp_path)
    assert result.returncode == 1
    assert "cannot open the store: No such file or directory" in result.stderr
    assert "typo.db" in result.stderr
    assert "hint: is the path right?" in result.stderr
    assert result.stdout == ""
    assert os.listdir(tmp_path) == []


def test_the_error_has_a_code_for_scripts(redrive, tmp_path):
    result = redrive("stats", "--json", "--store", "sqlite:typo.db", cwd=tmp_path)
    assert json.loads(result.stderr)["error"]["code"] == "NOT_FOUND"


def test_an_empty_directory_has_no_store(redrive, tmp_path):
    assert redrive("stats", cwd=tmp_path).returncode == 1
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("words", WRITERS, ids=" ".join)
def test_whoever_puts_something_in_makes_it(redrive, tmp_path, words):
    result = redrive(*words, "--store", "sqlite:new.db", cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    assert (tmp_path / "new.db").exists()
    assert redrive("stats", "--store", "sqlite:new.db", cwd=tmp_path).returncode == 0


REFUSED = [
    ["work", "--until-idle"],
    ["work", "--config", "nothing.yaml"],
    ["work", "--config", "no-program.yaml", "--until-idle"],
    ["work", "--config", "good.yaml", "--task", "mial"],
    ["batch", "--config", "nothing.yaml", "mail", "good.yaml"],
    ["batch", "--config", "no-program.yaml", "mail", "good.yaml"],
    ["serve", "--config", "no-program.yaml"],
    ["cron", "set", "minutely", "--task", "mail", "--schedule", "* * *"],
    ["cron", "set", "minutely", "--task", "mail", "--schedule", "@daily", "--timezone", "Europe/Brelin"],
    ["enqueue", "mail", "{"],
    ["enqueue", "mail", "--lines", "--from", "none.jsonl"],
]


@pytest.mark.parametrize("words", REFUSED, ids=" ".join)
def test_whoever_is_refused_leaves_nothing_behind(redrive, tmp_path, words):
    (tmp_path / "nothing.yaml").write_text("tasks: {mail: {}}\n")
    (tmp_path / "no-program.yaml").write_text("tasks: {mail: {run: {exec: [./none]}}}\n")
    (tmp_path / "good.yaml").write_text("tasks: {mail: {run: {exec: ['true']}}}\n")
    before = sorted(os.listdir(tmp_path))
    result = redrive(*words, "--store", "sqlite:typo.db", cwd=tmp_path)
    assert result.returncode in (1, 2), result.stderr
    assert result.stderr.startswith("redrive: ")
    assert sorted(os.listdir(tmp_path)) == before


BORROWERS = [
    ["enqueue", "mail", "{}"],
    ["work", "--until-idle"],
    ["serve", "--listen", "127.0.0.1:0", "--faktory", "off"],
    ["batch", "mail", "records.jsonl"],
    ["cron", "set", "minutely", "--task", "mail", "--schedule", "* * * * *"],
    ["import", "archive.jsonl"],
    ["stats"],
]


@pytest.mark.parametrize("kind, variable", [("sqlite", "DATABASE_URL"), ("postgres", "DATABASE_URL"),
                                            ("redis", "REDIS_URL")])
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
    if kind == "sqlite":
        assert not place.file.exists()
    assert "redrive migrate" in redrive("doctor", cwd=tmp_path, env=env).stdout

    assert redrive("migrate", cwd=tmp_path, env=env).returncode == 0
    result = redrive("enqueue", "mail", "{}", cwd=tmp_path, env=env)
    assert result.returncode == 0, result.stderr
    result = redrive("work", "--until-idle", cwd=tmp_path, env=env)
    assert result.returncode == 0, result.stderr
    assert "1 completed" in result.stdout
    first = result.stderr.splitlines()[0]
    assert " configuration " in first and f"store_from={variable}" in first and f"variables={variable}" in first


def test_a_store_of_our_own_settings_is_set_up_as_ever(redrive, tmp_path):
    """Also beside a variable of another program."""
    env = {"DATABASE_URL": "sqlite:app.db", "REDRIVE_STORE": "sqlite:jobs.db"}
    assert redrive("enqueue", "mail", "{}", cwd=tmp_path, env=env).returncode == 0
    assert sorted(name for name in os.listdir(tmp_path) if name.endswith(".db")) == ["jobs.db"]
