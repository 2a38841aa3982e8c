"""`redrive cron list`, `run`, `set` and `remove`: the cron entries of a configuration and its store."""

import json
import sqlite3

import pytest

CONFIG = """
tasks: {store_status: {}}
cron:
  beat: {task: store_status, schedule: "*/2 * * * *", timezone: Europe/Berlin, overlap: OVERLAP, payload: {"a": 1}}
  daily: {task: store_status, schedule: "@daily"}
"""


@pytest.fixture
def place(tmp_path):
    def configure(overlap="skip"):
        (tmp_path / "redrive.yaml").write_text(CONFIG.replace("OVERLAP", overlap))
        return tmp_path

    return configure


def items(redrive, path):
    return {i["name"]: i for i in json.loads(redrive.output("cron", "list", "--json", cwd=path))["items"]}


def set_last_tick(path, at_ms):
    with sqlite3.connect(path / "redrive.db") as db:
        row = json.dumps({"task": "store_status", "last_tick_ms": at_ms})
        db.execute("INSERT INTO shared (kind, tenant, key, version, value) VALUES (4, 'default', 'beat', 1, ?)", (row.encode(),))


@pytest.mark.parametrize("is_there", [True, False])
def test_list_shows_the_entries_and_their_next_tick(redrive, place, is_there):
    """Those of the configuration also before there is a store, and without making one."""
    path = place()
    if is_there:
        redrive.output("migrate", cwd=path)
    beat = items(redrive, path)["beat"]
    assert (path / "redrive.db").exists() == is_there
    assert (beat["task"], beat["schedule"], beat["timezone"]) == ("store_status", "*/2 * * * *", "Europe/Berlin")
    assert (beat["overlap"], beat["last_tick"]) == ("skip", None)
    assert beat["next_tick"].endswith(":00.000Z")


def test_list_shows_the_last_tick_of_the_store(redrive, place):
    path = place()
    redrive.output("migrate", cwd=path)
    set_last_tick(path, 1774699200000)
    assert items(redrive, path)["beat"]["last_tick"] == "2026-03-28T12:00:00.000Z"
    assert "2026-03-28T13:00:00+01:00" in redrive.output("cron", "list", cwd=path)


def test_the_time_of_first_sight_is_no_tick(redrive, place):
    path = place()
    redrive.output("migrate", cwd=path)
    set_last_tick(path, 1774699200000 + 12345)
    assert items(redrive, path)["beat"]["last_tick"] is None


def test_list_without_entries_is_empty(redrive, tmp_path):
    redrive.output("migrate", cwd=tmp_path)
    assert json.loads(redrive.output("cron", "list", "--json", cwd=tmp_path)) == {"items": [], "next": None}


def test_run_submits_the_job_of_the_entry(redrive, place):
    path = place()
    redrive.output("migrate", cwd=path)
    answer = redrive.output("cron", "run", "beat", cwd=path).strip()
    with sqlite3.connect(path / "redrive.db") as db:
        rows = db.execute("SELECT s.id, l.task, s.payload FROM job_states j JOIN partitions l USING (partition_id) JOIN specs s USING (seq)").fetchall()
        marks = db.execute("SELECT count(*) FROM shared WHERE kind = 4").fetchone()
    assert rows == [(answer, "store_status", '{"a":1}')]
    assert marks == (0,)


def test_run_respects_overlap(redrive, place):
    path = place("skip")
    redrive.output("migrate", cwd=path)
    first = redrive.output("cron", "run", "beat", cwd=path).strip()
    second = redrive("cron", "run", "beat", cwd=path)
    assert (second.returncode, second.stdout) == (1, "")
    assert f"job {first} is queued" in second.stderr
    place("allow")
    assert redrive.output("cron", "run", "beat", "--json", cwd=path)


def test_queue_one_lets_one_wait(redrive, place):
    path = place("queue_one")
    redrive.output("migrate", cwd=path)
    first = redrive.output("cron", "run", "beat", cwd=path).strip()
    second = redrive("cron", "run", "beat", cwd=path)
    assert second.returncode == 1
    assert first in second.stderr


def test_an_unknown_entry_is_explained(redrive, place):
    path = place()
    redrive.output("migrate", cwd=path)
    unknown = redrive("cron", "run", "baet", cwd=path)
    assert unknown.returncode == 1
    assert "did you mean 'beat'?" in unknown.stderr


def test_set_stores_an_entry_that_list_and_run_know(redrive, place):
    path = place()
    words = ("--task", "store_status", "-s", "0 9 * * mon", "-z", "Asia/Tokyo", "--payload", '{"b": "ü"}', "--overlap", "allow")
    first = redrive("cron", "set", "weekly", *words, cwd=path)
    assert (first.returncode, first.stdout) == (0, "")
    assert first.stderr.startswith("weekly is set; next tick ") and "T09:00:00+09:00" in first.stderr
    again = json.loads(redrive.output("cron", "set", "weekly", *words, "--json", cwd=path))
    assert items(redrive, path)["weekly"] == again
    assert (again["source"], again["overlap"], again["payload"]) == ("stored", "allow", {"b": "ü"})
    assert items(redrive, path)["beat"]["source"] == "configuration"
    assert redrive.output("cron", "run", "weekly", cwd=path).strip()
    assert "did you mean 'weekly'?" in redrive("cron", "run", "weekyl", cwd=path).stderr


def test_remove_takes_a_stored_entry_away(redrive, place):
    path = place()
    assert redrive("cron", "set", "tidy", "-t", "store_status", "-s", "@daily", cwd=path).returncode == 0
    assert "did you mean 'tidy'?" in redrive("cron", "remove", "tdiy", cwd=path).stderr
    assert redrive("cron", "remove", "tidy", cwd=path).returncode == 0
    assert sorted(items(redrive, path)) == ["beat", "daily"]
    assert redrive("cron", "remove", "tidy", cwd=path).returncode == 1


def test_an_entry_of_the_configuration_is_left_alone(redrive, place):
    path = place()
    for words in (("set", "beat", "-t", "store_status", "-s", "@daily"), ("remove", "beat")):
        refused = redrive("cron", *words, cwd=path)
        assert refused.returncode == 1
        assert "hint: change it in redrive.yaml" in refused.stderr


@pytest.mark.parametrize("words, message", [
    (("-s", "@daily"), "key 'task' is missing"),
    (("-t", "store_status"), "key 'schedule' is missing"),
    (("-t", "store_status", "-s", "* * *"), "schedule: "),
    (("-t", "store_status", "-s", "@daily", "-z", "Mars"), "timezone: unknown time zone 'Mars'"),
    (("-t", "store_status", "-s", "@daily", "--payload", "{a}"), "quote --payload"),
    (("-t", "store_status", "-s", "@daily", "--overlap", "skipp"), "skip"),
])
def test_a_bad_entry_is_explained(redrive, place, words, message):
    path = place()
    refused = redrive("cron", "set", "x", *words, cwd=path)
    assert refused.returncode == 2
    assert message in refused.stderr
    assert "x" not in items(redrive, path)


def test_tenants_have_timetables_of_their_own(redrive, place):
    path = place()
    own = redrive("cron", "set", "beat", "-t", "store_status", "-s", "@daily", "--tenant", "acme", cwd=path)
    assert own.returncode == 0
    listed = json.loads(redrive.output("cron", "list", "--tenant", "acme", "--json", cwd=path))["items"]
    assert [(i["name"], i["source"]) for i in listed] == [("beat", "stored")]
    assert sorted(items(redrive, path)) == ["beat", "daily"]
    assert redrive.output("cron", "run", "beat", "--tenant", "acme", cwd=path)
    assert redrive("cron", "remove", "beat", "--tenant", "acme", cwd=path).returncode == 0
