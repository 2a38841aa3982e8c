"""`make check` leaves out what has passed as it is, and nothing else."""
import os

import pytest

from tests.unchanged import Passed


@pytest.fixture
def a_test(tmp_path):
    """As Meson knows it: a program that has several tests, and numbers that they read."""
    (tmp_path / "core_tests").write_bytes(b"program")
    (tmp_path / "vectors").mkdir()
    (tmp_path / "vectors" / "delays.json").write_text("[1, 3, 9]")
    return {"name": "backoff", "cmd": [str(tmp_path / "core_tests"), "backoff"], "depends": ["core_tests@exe"],
            "env": {"VECTORS": str(tmp_path / "vectors"), "OUTPUT": "TAP"}}


def noted(build, test, *names):
    Passed(build).note([test], set(names))
    return Passed(build)


def test_what_has_passed_is_left_out(tmp_path, a_test):
    assert not Passed(tmp_path).has(a_test)
    assert noted(tmp_path, a_test, "backoff", "other").has(a_test)


def test_what_has_failed_runs_again(tmp_path, a_test):
    noted(tmp_path, a_test, "backoff")
    assert not noted(tmp_path, a_test, "other").has(a_test)


@pytest.mark.parametrize("change", [
    lambda test, place: (place / "core_tests").write_bytes(b"Program"),
    lambda test, place: (place / "vectors" / "delays.json").write_text("[1, 3, 27]"),
    lambda test, place: (place / "vectors" / "more.json").write_text("[]"),
    lambda test, place: test["env"].update(OUTPUT="XML"),
    lambda test, place: test["cmd"].append("--long"),
], ids=["the program", "a number", "a file", "the environment", "a word"])
def test_what_has_changed_runs_again(tmp_path, a_test, change):
    os.utime(tmp_path / "vectors" / "delays.json", (1, 1))
    noted(tmp_path, a_test, "backoff")
    change(a_test, tmp_path)
    assert not Passed(tmp_path).has(a_test)


def test_a_script_runs_always(tmp_path, a_test):
    """What it imports is not known."""
    a_test["depends"] = []
    assert not noted(tmp_path, a_test, "backoff").has(a_test)


def test_a_damaged_list_is_no_list(tmp_path, a_test):
    noted(tmp_path, a_test, "backoff")
    (tmp_path / "passed.json").write_text("{")
    assert not Passed(tmp_path).has(a_test)
