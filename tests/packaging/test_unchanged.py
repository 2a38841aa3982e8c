"""`make check` leaves out what has passed as it is, and nothing else."""
import os

import pytest

from tests.unchanged import Passed


@pytest.fixture
def a_test(tmp_path):
    """As Meson knows it: a program that has several tests, and numbers that they read."""
    place = tmp_path / "a=b"
    (place / "vectors").mkdir(parents=True)
    (place / "core_tests").write_bytes(b"program")
    (place / "vectors" / "delays.json").write_text("[1, 3, 9]")
    os.utime(place / "vectors" / "delays.json", (1, 1))
    return {"name": "backoff", "cmd": [str(place / "core_tests"), "backoff"], "depends": ["core_tests@exe"],
            "env": {"VECTORS": str(place / "vectors"), "OUTPUT": "TAP"}}


def test_what_has_passed_is_left_out(tmp_path, a_test):
    assert not Passed(tmp_path).has(a_test)
    Passed(tmp_path).add([a_test])
    assert Passed(tmp_path).has(a_test)


def test_what_has_failed_runs_again(tmp_path, a_test):
    Passed(tmp_path).add([a_test])
    Passed(tmp_path).forget([a_test])
    assert not Passed(tmp_path).has(a_test)


@pytest.mark.parametrize("change", [
    lambda test, place: (place / "core_tests").write_bytes(b"Program"),
    lambda test, place: (place / "vectors" / "delays.json").write_text("[1, 3, 8]"),
    lambda test, place: (place / "vectors" / "more.json").write_text("[]"),
    lambda test, place: test["env"].update(OUTPUT="XML"),
    lambda test, place: test["cmd"].append("--long"),
], ids=["the program", "a number", "a file", "the environment", "a word"])
def test_what_has_changed_runs_again(tmp_path, a_test, change):
    Passed(tmp_path).add([a_test])
    change(a_test, tmp_path / "a=b")
    assert not Passed(tmp_path).has(a_test)


def test_what_the_caller_asks_for_runs(tmp_path, a_test, monkeypatch):
    Passed(tmp_path).add([a_test])
    monkeypatch.setenv("REDRIVE_STORE_SEED", "7")
    assert not Passed(tmp_path).has(a_test)


def test_a_script_runs_always(tmp_path, a_test):
    """What it imports is not known."""
    a_test["depends"] = []
    Passed(tmp_path).add([a_test])
    assert not Passed(tmp_path).has(a_test)


def test_a_damaged_list_is_no_list(tmp_path, a_test):
    Passed(tmp_path).add([a_test])
    (tmp_path / "passed.json").write_text("{")
    assert not Passed(tmp_path).has(a_test)
