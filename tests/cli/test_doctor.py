"""`redrive doctor`: what is in order, and what is not."""

import json
import os
import re
import sqlite3

import pytest

from tests.kit.stores import Place, server_url


def examine(redrive, path, *words, code=0):
    """Findings by check; several of one check make a list."""
    result = redrive("doctor", "--json", *words, cwd=path)
    assert result.returncode == code, result.stderr
    page = json.loads(result.stdout)
    assert page["next"] is None
    for item in page["items"]:
        assert item["status"] == "ok" or item["hint"], item
    found = {}
    for item in page["items"]:
        found.setdefault(item["check"], []).append(item)
    return found


def status(found, check):
    return [item["status"] for item in found[check]]


@pytest.fixture
def store(redrive, tmp_path):
    redrive.output("migrate", cwd=tmp_path)
    return tmp_path


def script(path, sql, *values):
    db = sqlite3.connect(path / "redrive.db")
    db.execute(sql, values)
    db.commit()
    db.close()


def test_a_good_store_is_found_good_and_left_alone(redrive, store):
    before = (store / "redrive.db").read_bytes()
    found = examine(redrive, store)
    for check in ("configuration", "store", "schema", "integrity", "durability", "mode", "log", "leases", "tasks"):
        assert status(found, check) == ["ok"], check
    assert {"disk", "space", "open files", "time zones", "clock"} <= set(found)
    assert "power loss" in found["durability"][0]["text"]
    assert (store / "redrive.db").read_bytes() == before
    assert not [name for name in os.listdir(store) if "doctor" in name]


def test_the_version_of_sqlite_and_its_bug_are_named(redrive, store):
    text = redrive.output("doctor", cwd=store)
    library = examine(redrive, store)["library"][0]
    assert library["status"] == "ok"
    version = tuple(int(part) for part in re.match(r"SQLite (\d+)\.(\d+)\.(\d+)", library["text"]).groups())
    fixed = version >= (3, 51, 3) or (3, 50, 7) <= version < (3, 51) or (3, 44, 6) <= version < (3, 45)
    assert ("WAL-reset bug" in library["text"]) == (not fixed)
    assert ("wal_autocheckpoint" in library.get("hint", "")) == (not fixed)
    assert library["text"] in text


def test_other_versions_are_seen_and_not_touched(redrive, store):
    script(store, "PRAGMA user_version = 99")
    found = examine(redrive, store, code=1)
    assert status(found, "schema") == ["fail"]
    script(store, "DROP VIEW tasks")
    script(store, "DROP TABLE deadlines")
    script(store, "DROP TABLE time_locked")
    script(store, "PRAGMA user_version = 2")
    found = examine(redrive, store)
    assert status(found, "schema") == ["warn"]
    assert not {"integrity", "payloads", "leases"} & set(found)
    db = sqlite3.connect(store / "redrive.db")
    assert db.execute("PRAGMA user_version").fetchone() == (2,)
    db.close()


def test_damage_is_found(redrive, store):
    redrive.output("enqueue", "t", json.dumps("x" * 20_000), cwd=store)
    db = sqlite3.connect(store / "redrive.db")
    db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    page = db.execute("SELECT rootpage FROM sqlite_schema WHERE name = 'specs_by_id'").fetchone()[0]
    size = db.execute("PRAGMA page_size").fetchone()[0]
    db.close()
    with open(store / "redrive.db", "r+b") as file:
        file.seek((page - 1) * size)
        file.write(b"\xff" * size)
    found = examine(redrive, store, code=1)
    assert "fail" in status(found, "integrity")


def test_undeclared_tasks_are_a_warning(redrive, store):
    redrive.output("enqueue", "known", cwd=store)
    redrive.output("enqueue", "unknown", cwd=store)
    (store / "redrive.yaml").write_text("tasks: {known: {}}\n")
    found = examine(redrive, store)
    assert found["tasks"][0]["text"].endswith(": unknown")
    script(store, "INSERT INTO shared (kind, tenant, key, version, value) VALUES (3, 'default', 'unknown', 1, x'7b7d')")
    assert status(examine(redrive, store), "tasks") == ["ok"]


@pytest.mark.parametrize("kind", ["redis", "postgres"])
def test_a_store_that_is_not_set_up_is_one_warning_whatever_its_kind(redrive, tmp_path, kind):
    place = Place(kind, tmp_path)
    before = os.listdir(tmp_path)
    for _ in range(2):
        found = examine(redrive, tmp_path, "--store", place.url)
        assert status(found, "store") == ["warn"]
        assert found["store"][0]["text"].startswith(f"not set up yet: {place.kind}:")
        assert "`redrive migrate`" in found["store"][0]["hint"]
        assert "schema" not in found
    assert os.listdir(tmp_path) == before
    refused = redrive("stats", "--json", "--store", place.url, cwd=tmp_path)
    assert json.loads(refused.stderr)["error"]["code"] == "NOT_FOUND"
    redrive.output("migrate", "--store", place.url, cwd=tmp_path)
    assert status(examine(redrive, tmp_path, "--store", place.url), "store") == ["ok"]


def test_a_database_that_is_not_there_is_a_failure(redrive, tmp_path):
    url = server_url("postgres").rsplit("/", 1)[0] + "/none"
    found = examine(redrive, tmp_path, "--store", url, code=1)
    assert status(found, "store") == ["fail"]
    assert "createdb" in found["store"][0]["hint"]
    assert redrive("migrate", "--dry-run", "--store", url, cwd=tmp_path).returncode == 1
