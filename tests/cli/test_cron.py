"""`redrive cron next`: ticks in any zone, over changes of the clock."""

import json

import pytest


def ticks(redrive, *words):
    answer = json.loads(redrive.output("cron", "next", "--json", *words))
    assert answer["next"] is None
    return [item["local"] for item in answer["items"]]


def test_a_time_that_is_jumped_over_fires_after_the_gap(redrive):
    assert ticks(redrive, "30 2 * * *", "-z", "Europe/Berlin", "--after", "2026-03-28", "-n", "3") == [
        "2026-03-28T02:30:00+01:00",
        "2026-03-29T03:00:00+02:00",
        "2026-03-30T02:30:00+02:00",
    ]


def test_a_time_that_comes_twice_fires_once(redrive):
    assert ticks(redrive, "30 2 * * *", "-z", "Europe/Berlin", "--after", "2026-10-25", "-n", "2") == [
        "2026-10-25T02:30:00+02:00",
        "2026-10-26T02:30:00+01:00",
    ]


def test_table_shows_local_time_and_utc(redrive):
    page = redrive.output("cron", "next", "@daily", "-z", "America/New_York", "--after", "2026-01-01T12:00", "-n", "1")
    assert page.splitlines()[1].split() == ["2026-01-02T00:00:00-05:00", "2026-01-02T05:00:00Z"]


@pytest.mark.parametrize(
    "words, wanted",
    [
        (["* * * *"], "field"),
        (["61 * * * *"], "minute"),
        (["0 0 31 2 *"], "never"),
        (["* * * foo *"], "month"),
        (["@daily", "-z", "Europe/Berln"], "unknown time zone"),
        (["@daily", "-z", "../etc/passwd"], "unknown time zone"),
        (["@daily", "--after", "2026-02-30"], "is not a time"),
        (["@daily", "--after", "yesterday"], "is not a time"),
        (["@daily", "--count", "0"], "--count"),
    ],
)
def test_wrong_schedules_are_explained(redrive, words, wanted):
    result = redrive("cron", "next", *words)
    assert (result.returncode, result.stdout) == (2, "")
    assert wanted in result.stderr
