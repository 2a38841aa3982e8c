"""`redrive cron list` and `run`: what they read from a store and write there."""

import json
import sqlite3

import pytest

CONFIG = """
tasks: {store_status: {}}
cron:
  beat: {task: store_status, schedule: "*/2 * * * *", timezone: Europe/Berlin, payload: {"a": 1}}
"""


@pytest.fixture
def path(redrive, tmp_path):
    """A folder with a configuration and a store."""
    (tmp_path / "redrive.yaml").write_text(CONFIG)
    redrive.output("migrate", cwd=tmp_path)
    return tmp_path


def last_tick(redrive, path):
    (item,) = json.loads(redrive.output("cron", "list", "--json", cwd=path))["items"]
    return item["last_tick"]


def set_last_tick(path, at_ms):
    with sqlite3.connect(path / "redrive.db") as db:
        row = json.dumps({"task": "store_status", "last_tick_ms": at_ms})
        db.execute("INSERT INTO shared (kind, tenant, key, version, value) VALUES (4, 'default', 'beat', 1, ?)", (row.encode(),))


def test_list_shows_the_last_tick_of_the_store(redrive, path):
    set_last_tick(path, 1774699200000)
    assert last_tick(redrive, path) == "2026-03-28T12:00:00.000Z"
    assert "2026-03-28T13:00:00+01:00" in redrive.output("cron", "list", cwd=path)


def test_the_time_of_first_sight_is_no_tick(redrive, path):
    set_last_tick(path, 1774699200000 + 12345)
    assert last_tick(redrive, path) is None


def test_run_leaves_no_mark_of_a_tick(redrive, path):
    redrive.output("cron", "run", "beat", cwd=path)
    with sqlite3.connect(path / "redrive.db") as db:
        assert db.execute("SELECT count(*) FROM shared WHERE kind = 4").fetchone() == (0,)
