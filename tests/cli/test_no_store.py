"""A command that only looks, or needs something that is there, makes no store where there is none."""
import json
import os

import pytest

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
