"""redrive breakers: looking at them and moving them by hand."""

import json

import pytest


def run_json(redrive, store, *words):
    return json.loads(redrive.output("breakers", *words, "--json", "--store", store))


def test_list_shows_state_and_what_waits(redrive, seeded):
    document = run_json(redrive, seeded, "list")
    assert document["next"] is None
    mail, sms = document["items"]
    assert (mail["key"], mail["tenant"], mail["state"]) == ("mail", "default", "open")
    assert (mail["failure_count"], mail["parked"]) == (5, 2)
    assert mail["opened_at"] < mail["next_probe_at"]
    assert mail["thresholds"]["failure_threshold"] == 5
    assert (sms["key"], sms["state"], sms["opened_at"]) == ("sms", "closed", None)
    text = redrive.output("breakers", "list", "--store", seeded)
    assert "open" in text and "mail" in text and "5/5" in text


def test_list_of_a_tenant_without_breakers_is_empty(redrive, seeded):
    assert run_json(redrive, seeded, "list", "--tenant", "zoo")["items"] == []


def test_show_tells_thresholds(redrive, seeded):
    assert run_json(redrive, seeded, "show", "mail")["parked"] == 2
    text = redrive.output("breakers", "show", "mail", "--store", seeded)
    assert text.startswith("mail: open\n")
    assert "failures in a row  5, opens at 5" in text
    assert "parked jobs        2" in text


def test_verbs_move_a_breaker(redrive, seeded):
    assert run_json(redrive, seeded, "reset", "mail")["state"] == "closed"
    assert run_json(redrive, seeded, "trip", "mail")["state"] == "forced_open"
    assert run_json(redrive, seeded, "simulate-failure", "mail")["state"] == "forced_open"
    assert run_json(redrive, seeded, "disable", "mail")["state"] == "disabled"
    assert run_json(redrive, seeded, "reset", "mail")["failure_count"] == 0
    for n in range(1, 5):
        assert run_json(redrive, seeded, "simulate-failure", "mail")["failure_count"] == n
    assert run_json(redrive, seeded, "simulate-failure", "mail")["state"] == "open"
    assert run_json(redrive, seeded, "show", "mail")["state"] == "open"


@pytest.mark.parametrize("verb", ["show", "reset", "trip", "disable", "simulate-failure"])
def test_an_unknown_key_is_named_with_the_nearest(redrive, seeded, verb):
    result = redrive("breakers", verb, "mial", "--store", seeded)
    assert (result.returncode, result.stdout) == (1, "")
    assert "there is no breaker 'mial'" in result.stderr
    assert "did you mean 'mail'?" in result.stderr
    assert len(run_json(redrive, seeded, "list")["items"]) == 2


def test_a_declared_task_can_be_tripped_before_its_first_job(redrive, store, tmp_path):
    config = tmp_path / "redrive.yaml"
    config.write_text(
        "tasks:\n"
        "  fax: {breaker: {failure_threshold: 2}}\n"
        '  http: {breaker: {key: "{payload.host}"}}\n'
    )
    words = ["-c", str(config)]
    redrive.output("migrate", "--store", store)
    (listed,) = run_json(redrive, store, "list", *words)["items"]  # those of `http` are not known yet
    assert (listed["key"], listed["state"], listed["failure_count"]) == ("fax", "closed", 0)
    shown = run_json(redrive, store, "show", "fax", *words)
    assert (shown["state"], shown["thresholds"]["failure_threshold"]) == ("closed", 2)
    fax = run_json(redrive, store, "trip", "fax", *words)
    assert (fax["state"], fax["thresholds"]["failure_threshold"]) == ("forced_open", 2)
    assert redrive("breakers", "trip", "http", *words, "--store", store).returncode == 1


def test_the_key_is_needed(redrive):
    for verb in ("show", "reset", "trip", "disable", "simulate-failure"):
        assert redrive("breakers", verb).returncode == 2


def test_show_tells_of_windows_of_calls_slow_calls_and_probes_together(redrive, store, tmp_path):
    config = tmp_path / "redrive.yaml"
    config.write_text(
        "tasks:\n"
        "  fax:\n"
        "    breaker: {failure_threshold: 0, failure_rate: 0.6, window_calls: 2, slow_call: 2s,\n"
        "              slow_rate: 0.8, half_open_max: 4, half_open_rate: 0.5}\n"
    )
    redrive.output("migrate", "--store", store)
    words = ["-c", str(config)]
    once = run_json(redrive, store, "simulate-failure", "fax", *words)
    assert (once["state"], once["failure_rate"], once["slow_rate"]) == ("closed", None, None)
    text = redrive.output("breakers", "simulate-failure", "fax", *words, "--store", store)
    assert text.startswith("fax: open\n")
    assert "failure rate       100 %, opens at 60 % of the last 2 calls, of 2 at the least" in text
    assert "slow calls         0 %, longer than 2s; opens at 80 %" in text
    assert "probes succeeded   0 of 4, opens again at 50 % failures" in text
    fax = run_json(redrive, store, "show", "fax", *words)
    assert (fax["failure_rate"], fax["slow_rate"]) == (1, 0)
    thresholds = fax["thresholds"]
    assert (thresholds["window_calls"], thresholds["slow_call"], thresholds["slow_rate"]) == (2, 2, 0.8)
    assert thresholds["half_open_rate"] == 0.5
    assert "SLOW" in redrive.output("breakers", "list", "--store", store)
