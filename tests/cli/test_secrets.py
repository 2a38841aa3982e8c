"""The password of a store is in no line that a program writes."""

import pytest

SECRET = "hunter2"
STORES = [
    f"postgres://ann:{SECRET}@127.0.0.1:1/jobs",
    f"postgres://ann:x/{SECRET}@127.0.0.1:1/jobs",
    f"postgres://ann@127.0.0.1:1/jobs?password={SECRET}",
    f"postgres://ann:{SECRET}@127.0.0.1:port/jobs",
    f"redis://:{SECRET}@127.0.0.1:1/0",
    f"redis://:{SECRET}@127.0.0.1:port/0",
    f"postgres://ann@127.0.0.1:1/jobs?sslmode=prefer&sslpassword={SECRET}&password={SECRET}",
    f"postgres://ann@127.0.0.1:1/jobs?pass%77ord={SECRET}",
    f"redis://:{SECRET}@127.0.0.1:1/0?prefix=team-a",
    f"redis://:x/{SECRET}@127.0.0.1:1/0",
    f"redis://:x/{SECRET}@127.0.0.1",
    f"redis://:x?{SECRET}@127.0.0.1:1",
    f"redis://:x?prefix={SECRET}@127.0.0.1:1",
    f"redis://127.0.0.1:1/0?password={SECRET}",
    f"redis://127.0.0.1:1/0?{SECRET}@127.0.0.1",
    f"rediss://ann:{SECRET}@127.0.0.1:1",
    f"rediss://ann@127.0.0.1:1/0?prefix=a&password={SECRET}",
    f"postgres://127.0.0.1:1/jobs?user=a&password=x@{SECRET}",
    f"postgres://127.0.0.1/jobs?user=a&password=x@{SECRET}",
    f"postgers://ann:{SECRET}@127.0.0.1/jobs",
]
COMMANDS = [
    ["backup", "copy.db"],
    ["batch", "t", "none.csv"],
    ["breakers"],
    ["config", "check"],
    ["config", "check", "--json"],
    ["config", "show"],
    ["cron", "list"],
    ["dlq", "groups"],
    ["doctor"],
    ["doctor", "--json"],
    ["enqueue", "t", "{}"],
    ["health"],
    ["jobs", "list"],
    ["migrate"],
    ["queues"],
    ["serve"],
    ["stats", "--json"],
    ["top", "--once"],
    ["work", "--until-idle"],
]


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_no_command_shows_it(redrive, tmp_path, words):
    (tmp_path / "redrive.yaml").write_text("tasks: {t: {run: {exec: ['true']}}}\n")
    (tmp_path / "none.csv").write_text("id\n")
    for store in STORES:
        result = redrive(*words, "--store", store, "--log-level", "debug", cwd=tmp_path)
        assert SECRET not in result.stdout + result.stderr, (store, words)
        assert "unknown option" not in result.stderr, words


@pytest.mark.parametrize("name", ["REDRIVE_STORE", "DATABASE_URL"])
def test_nor_does_one_from_the_environment(redrive, tmp_path, name):
    result = redrive("doctor", "--json", cwd=tmp_path, env={name: STORES[0]})
    assert SECRET not in result.stdout + result.stderr
