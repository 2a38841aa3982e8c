"""docs/scale.md: the model and the simulation pass their own tests, and the page has the figures that they give."""

import contextlib
import doctest
import importlib
import io
import json
import sys

import pytest

from tests.kit.program import ROOT

FOLDER = ROOT / "bench" / "scale"
PAGE = (ROOT / "docs" / "scale.md").read_text("utf-8")
STORES = ("| SQLite |", "| PostgreSQL |", "| Redis |")


@pytest.fixture(autouse=True)
def find_modules(monkeypatch):
    monkeypatch.syspath_prepend(str(FOLDER))


@pytest.mark.parametrize("name", ["model", "fleet"])
def test_examples_of_the_module_hold(name):
    found = doctest.testmod(importlib.import_module(name))
    assert found.attempted > 0 and found.failed == 0


def test_tables_of_the_page_are_those_of_the_figures(monkeypatch):
    report = importlib.import_module("report")
    monkeypatch.setattr(sys, "argv", ["report", str(FOLDER / "figures.json")])
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        report.main()
    rows = [line for line in PAGE.splitlines() if line.startswith(STORES)]
    assert len(rows) > 30
    assert [row for row in rows if row not in printed.getvalue().splitlines()] == []


def test_no_limit_is_passed_by_a_prediction():
    model = importlib.import_module("model")
    figures = json.loads((FOLDER / "figures.json").read_text("utf-8"))
    for name in ("sqlite", "postgres", "redis"):
        store = model.store_of(figures, name, cores=4)
        for processes in (1, 2, 4, 8, 64, 1000):
            for shards in (1, 2, 4, 16):
                setting = model.Setting(round_trip=0.5e-3, sync=1e-3)
                rate = model.throughput(store, setting, processes, 80, shards)
                assert 0 < rate <= min(model.limits(store, setting, processes, 80, shards).values())
