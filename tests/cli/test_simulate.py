"""`redrive simulate`, and that docs/simulate.md says what it prints."""

import json
import pathlib
import re
import xml.etree.ElementTree as ET

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "simulate.md").read_text("utf-8")

QUICK = ["simulate", "--outage", "30s", "--rate", "5"]


def rows(text):
    """The table that a call prints, as lists of cells."""
    lines = [line for line in text.splitlines() if re.match(r"[a-z/, ]+? {2,}\d", line)]
    return [re.split(r" {2,}", line) for line in lines]


def test_prints_a_table_and_its_reading(redrive):
    text = redrive.output(*QUICK)
    assert text.startswith("5 jobs/s for 180 s, 8 attempts each; the service is down from 60 s to 90 s")
    assert len(rows(text)) == 6
    assert all(len(row) == 8 for row in rows(text))
    assert "lost no job" in text.splitlines()[-1]


def test_the_same_seed_gives_the_same_bytes(redrive):
    assert redrive.output(*QUICK) == redrive.output(*QUICK)
    assert redrive.output(*QUICK, "--json") == redrive.output(*QUICK, "--json")
    assert redrive.output(*QUICK) != redrive.output(*QUICK, "--seed", "2")


def test_json_has_the_figures_of_the_table(redrive):
    table = rows(redrive.output(*QUICK))
    document = json.loads(redrive.output(*QUICK, "--json"))
    assert document["options"]["outage_ms"] == 30000
    assert [[s["title"], str(s["calls"]), str(s["wasted_calls"]), str(s["dead"])] for s in document["strategies"]] == [
        row[:4] for row in table
    ]
    for strategy in document["strategies"]:
        assert strategy["completed"] + strategy["dead"] == strategy["submitted"]


def test_strategies_are_compared_in_the_order_given(redrive):
    document = json.loads(redrive.output(*QUICK, "--json", "--strategies", "sidekiq, none,sidekiq"))
    assert [s["name"] for s in document["strategies"]] == ["sidekiq", "none"]


@pytest.mark.parametrize(
    "words, message",
    [
        (["--strategies", "sidekick"], "unknown strategy sidekick"),
        (["--strategies", ""], "no strategy to compare"),
        (["--strategies", "none,,sidekiq"], "no strategy to compare"),
        (["--attempts", "0"], "--attempts"),
        (["--error-rate", "2"], "--error-rate"),
        (["--rate", "0"], "rate is out of range"),
        (["--rate", "nan"], "rate"),
        (["--duration", "80s"], "the run ends before the outage does"),
        (["--rate", "90000"], "too many jobs to simulate"),
    ],
)
def test_wrong_use_is_refused(redrive, words, message):
    result = redrive("simulate", "--outage", "30s", *words)
    assert (result.returncode, result.stdout) == (2, "")
    assert message in result.stderr


def test_the_nearest_strategy_is_suggested(redrive):
    assert "hint: did you mean breaker-parks?" in redrive("simulate", "--strategies", "breaker-park").stderr


def test_draws_a_chart_that_stands_alone(redrive, tmp_path):
    redrive.output(*QUICK, "--svg", str(tmp_path / "chart.svg"))
    text = (tmp_path / "chart.svg").read_text("utf-8")
    root = ET.fromstring(text)
    space = "{http://www.w3.org/2000/svg}"
    assert len(root.findall(f"{space}polyline")) == 6
    assert not re.search(r"<script|<image|href|url\(", text)
    dashes = [line.get("stroke-dasharray") for line in root.findall(f"{space}polyline")]
    colours = [line.get("stroke") for line in root.findall(f"{space}polyline")]
    assert len(set(dashes)) == 6 and len(set(colours)) == 6


def test_a_chart_that_cannot_be_written_is_an_error(redrive, tmp_path):
    result = redrive(*QUICK, "--svg", str(tmp_path / "missing" / "chart.svg"))
    assert (result.returncode, result.stdout) == (1, "")
    assert "cannot write the chart: No such file or directory" in result.stderr


@pytest.mark.parametrize("outage", ["180s", "900s"])
def test_the_page_shows_what_the_command_prints(redrive, outage):
    after = PAGE.split(f"    redrive simulate --outage {outage}\n", 1)[1]
    table = [line for line in after.splitlines() if line.startswith("| ")][1:7]
    shown = [[cell.strip(" *") for cell in line.strip("|").split("|")] for line in table]
    assert shown == rows(redrive.output("simulate", "--outage", outage))


def test_the_page_shows_what_capacity_does(redrive):
    names = "sidekiq,breaker-burns,breaker-parks"
    after = PAGE.split("| calls/s |", 1)[1]
    table = [line for line in after.splitlines()[2:] if line.startswith("| ")]
    assert len(table) == 6
    for line in table:
        capacity, *shown = [cell.strip() for cell in line.strip("|").split("|")]
        words = ["--capacity", "0" if capacity == "no limit" else capacity, "--strategies", names]
        printed = [" / ".join([row[2], row[3], row[4]]) for row in rows(redrive.output("simulate", *words))]
        assert shown == printed


def test_the_picture_of_the_page_is_the_one_that_is_drawn(redrive, tmp_path):
    redrive.output("simulate", "--outage", "180s", "--svg", str(tmp_path / "chart.svg"))
    assert (tmp_path / "chart.svg").read_bytes() == (ROOT / "docs" / "img" / "simulate-180s.svg").read_bytes()
