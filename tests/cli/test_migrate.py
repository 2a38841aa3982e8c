"""`redrive migrate`: an older and a newer store. Others: transcripts/maintenance.md."""

import json
import sqlite3

import pytest

NEWEST = 10

# What the scripts from the sixth, from the fifth and from the third on have added.
BACK_TO_5 = """DROP TABLE job_blocks; DROP INDEX history_by_class; DROP INDEX history_by_type;
    DROP VIEW job_edges; DROP TABLE edges; DELETE FROM states WHERE state = 9; DELETE FROM reasons WHERE reason = 8;
    DROP VIEW job_counts; ALTER TABLE partitions DROP COLUMN waiting; CREATE VIEW job_counts AS SELECT 1 AS scheduled;
    DROP INDEX specs_by_user; DROP VIEW limits; ALTER TABLE shared DROP COLUMN used; ALTER TABLE shared DROP COLUMN sent;
    CREATE VIEW limits AS SELECT 5 AS version; PRAGMA user_version = 5;"""
BACK_TO_4 = BACK_TO_5 + "DROP VIEW breakers; DROP VIEW limits; DROP VIEW paused_queues; DROP VIEW workers; PRAGMA user_version = 4;"
BACK_TO_2 = BACK_TO_4 + "DROP VIEW tasks; DROP TABLE deadlines; DROP TABLE time_locked; PRAGMA user_version = 2"


def version(path):
    with sqlite3.connect(path) as db:
        return db.execute("PRAGMA user_version").fetchone()[0]


def script(path, sql):
    db = sqlite3.connect(path)
    db.executescript(sql)
    db.close()


@pytest.fixture
def older(redrive, tmp_path):
    """A store of version 2 with a job that has a deadline."""
    redrive.output("enqueue", "t", "--id", "a", "--deadline", "1h", cwd=tmp_path)
    script(tmp_path / "redrive.db", BACK_TO_2)
    return tmp_path


def test_an_older_store_is_brought_up_to_date(redrive, older):
    dry = redrive.output("migrate", "--dry-run", cwd=older)
    assert dry == f"the store would be brought from schema version 2 to {NEWEST}\n"
    assert version(older / "redrive.db") == 2
    assert redrive.output("migrate", cwd=older) == f"the store was brought from schema version 2 to {NEWEST}\n"
    assert version(older / "redrive.db") == NEWEST
    with sqlite3.connect(older / "redrive.db") as db:
        assert db.execute("SELECT count(*) FROM deadlines").fetchone() == (1,)
        assert db.execute("SELECT count(*) FROM tasks").fetchone() == (0,)


def test_breakers_and_limits_of_an_older_store_begin_anew(redrive, tmp_path):
    """They were bytes, and are JSON. Jobs that are parked in them are let go."""
    redrive.output("enqueue", "mail", cwd=tmp_path)
    script(tmp_path / "redrive.db", BACK_TO_4 + """
        INSERT INTO shared VALUES (0, 'default', 'mail', 1, x'02'), (1, 'default', 'limit:mail', 1, x'02')""")
    assert [b["state"] for b in json.loads(redrive.output("breakers", "list", "--json", cwd=tmp_path))["items"]] == ["closed"]
    with sqlite3.connect(tmp_path / "redrive.db") as db:
        assert db.execute("SELECT name, state, has_parked_jobs FROM breakers").fetchall() == [("mail", "closed", 1)]
        assert db.execute("SELECT name, running, has_parked_jobs FROM limits").fetchall() == [("limit:mail", 0, 1)]


def test_a_limit_of_an_older_store_keeps_its_numbers(redrive, tmp_path):
    redrive.output("enqueue", "mail", cwd=tmp_path)
    script(tmp_path / "redrive.db", BACK_TO_5 + """
        INSERT INTO shared VALUES (1, 'default', 'limit:mail', 3, CAST('{"format":3,"has_parked":true,"candidates":2,"""
           """"candidates_until_ms":7,"running":4,"concurrency":5,"rate_count":6,"rate_period_s":60,"rate_burst":8,"""
           """"token_parts":9,"tokens_at_ms":10}' AS BLOB))""")
    redrive.output("migrate", cwd=tmp_path)
    with sqlite3.connect(tmp_path / "redrive.db") as db:
        assert db.execute("SELECT running, concurrency, starts, per_seconds, has_parked_jobs, candidates, definition "
                          "FROM limits").fetchall() == [
            (4, 5, 6, 60, 1, 2, '{"format":4,"has_parked":true,"candidates_until_ms":7,"concurrency":5,"rate_count":6,'
                                '"rate_period_s":60,"rate_burst":8,"token_parts":9,"tokens_at_ms":10,"seems_empty":false}')]


def test_commands_migrate_by_themselves(redrive, older):
    redrive.output("queues", "list", cwd=older)
    assert version(older / "redrive.db") == NEWEST


@pytest.mark.parametrize("words", [[], ["--dry-run"]])
def test_a_newer_store_is_refused(redrive, tmp_path, words):
    redrive.output("migrate", cwd=tmp_path)
    script(tmp_path / "redrive.db", "PRAGMA user_version = 99")
    result = redrive("migrate", *words, cwd=tmp_path)
    assert (result.returncode, result.stdout) == (1, "")
    assert "schema version 99" in result.stderr
    assert "newer redrive" in result.stderr
    assert version(tmp_path / "redrive.db") == 99
