"""`redrive policy`: the schedules that people rely on, as the program prints them."""

import json

import pytest

from tests.kit.program import ROOT

VECTORS = ROOT / "tests" / "vectors" / "backoff.json"
CASES = {case["name"]: case for case in json.loads(VECTORS.read_text("utf-8"))["cases"]}

# profile -> the case that has its numbers
PROFILES = {
    "records": "records",
    "handler": "handler",
    "tasks-network": "tasks-network",
    "tasks-rate-limit": "tasks-rate-limit",
    "tasks-database": "tasks-database",
    "thumbnail": "thumbnail",
    "joke": "joke",
    "joke-linear": "joke-linear",
    "periodic": "periodic-joke",
    "rescue": "rescue-stalled",
    "faktory": "faktory",
}


def explain(redrive, *words, **options):
    return json.loads(redrive.output("policy", "explain", "--json", *words, **options))


@pytest.mark.parametrize("profile", PROFILES)
def test_profiles_give_their_numbers(redrive, profile):
    case = CASES[PROFILES[profile]]
    answer = explain(redrive, "--profile", profile)
    assert answer["then"] == case["then"]
    rows = answer["retries"]
    assert [row["n"] for row in rows] == list(range(1, len(rows) + 1))
    if case["delay_ms"] is not None:
        assert [row["delay_ms"] for row in rows] == case["delay_ms"]
        totals = [sum(case["delay_ms"][: i + 1]) for i in range(len(rows))]
        assert [row["total_ms"] for row in rows] == totals
    else:
        assert [[row["min_ms"], row["max_ms"]] for row in rows] == case["bounds_ms"]


def test_list_names_every_profile(redrive):
    answer = json.loads(redrive.output("policy", "list", "--json"))
    assert [item["name"] for item in answer["items"]] == list(PROFILES)
    assert answer["next"] is None
    page = redrive.output("policy", "list")
    assert all(name in page for name in PROFILES)


def test_table_says_how_it_ends(redrive):
    page = redrive.output("policy", "explain", "--profile", "thumbnail")
    assert page.splitlines()[0].split() == ["ATTEMPT", "RETRY", "WAITS", "BEFORE", "WAITED", "IN", "ALL"]
    assert page.endswith("After 3 attempts that failed as transient: dead_letter (exhausted).\n"
                         "Attempts for failures that are transient: 3 at most, by --retry-profile.\n")


def test_classes_that_are_not_retried_end_at_once(redrive):
    answer = explain(redrive, "--profile", "records", "--class", "validation")
    assert answer == {"retries": [], "class": "validation", "then": "dead_letter", "reason": "not_retriable"}
    page = redrive.output("policy", "explain", "--profile", "records", "--class", "validation")
    assert page.endswith("After 1 attempt that failed as validation: dead_letter (not_retriable).\n")


def test_total_timeout_shows_what_is_not_certain(redrive):
    flags = ["policy", "explain", "--retry-total-timeout", "5s"]
    answer = json.loads(redrive.output(*flags, "--json"))
    assert "certain" not in answer["retries"][1]
    assert answer["retries"][2]["certain"] is False
    assert "time-out comes first" in redrive.output(*flags)


def test_time_that_ends_it_before_the_attempts_do_is_named(redrive):
    flags = ["policy", "explain", "--retry-max-retries", "25", "--retry-max-delay", "1h", "--retry-total-timeout", "5m"]
    answer = json.loads(redrive.output(*flags, "--json"))
    assert answer["reason"] == "deadline"
    assert answer["attempts_min"] <= answer["attempts_usual"] < answer["attempts_max"] == 26
    page = redrive.output(*flags)
    assert f"After about {answer['attempts_usual']} attempts" in page
    assert "goes beyond total_timeout: 5m. Of 26 attempts" in page
    assert "exhausted" not in page
    assert "exhausted" in redrive.output(*flags, "--retry-total-timeout", "0s")
    page = redrive.output("policy", "explain", "--class", "rate_limited", "--retry-total-timeout", "5m")
    assert "(Retry-After) and that goes beyond total_timeout: 5m" in page


def test_type_of_an_error_is_explained(redrive, tmp_path):
    config = tmp_path / "redrive.yaml"
    config.write_text(
        "tasks:\n  call: {retry: {delays: [5s, 30s, 2m], max_attempts: 5, retry_on: [HTTPError]}}\n"
        "classify: [{error_type: HTTPError, class: network}]\n"
    )
    answer = explain(redrive, "call", "-c", str(config), "--type", "ConnectTimeout,HTTPError")
    assert answer["class"] == "network"
    assert [retry["delay_ms"] for retry in answer["retries"]] == [5000, 30000, 120000, 120000]
    answer = explain(redrive, "call", "-c", str(config), "--type", "ValueError")
    assert (answer["class"], answer["retries"], answer["reason"]) == ("validation", [], "not_retriable")
    answer = explain(redrive, "call", "-c", str(config), "--type", "HTTPError", "--class", "permanent")
    assert (answer["class"], len(answer["retries"])) == ("permanent", 4)


def test_time_of_runs_counts(redrive, tmp_path):
    config = tmp_path / "redrive.yaml"
    config.write_text("tasks: {call: {run: {exec: [sh]}, retry: {strategy: fixed, initial_delay: 1s, total_timeout: 5m}}}\n")
    page = redrive.output("policy", "explain", "call", "-c", str(config))
    assert page.endswith("If each run takes its time-out, 5m, total_timeout: 5m leaves time for 1 of 6 attempts.\n")
    assert len(explain(redrive, "call", "-c", str(config), "--run-time", "100s")["retries"]) == 2


def test_tasks_of_a_configuration_are_explained(redrive, tmp_path):
    config = tmp_path / "redrive.yaml"
    config.write_text(
        "tasks:\n"
        "  enrich:\n"
        "    retry: {max_attempts: 3, strategy: fixed, initial_delay: 4s, jitter: none}\n"
        "    on:\n"
        "      database: {strategy: linear, initial_delay: 5s, backoff_factor: 5}\n"
    )
    for words in (["enrich"], ["--task", "enrich"]):
        answer = explain(redrive, "-c", str(config), *words)
        assert [row["delay_ms"] for row in answer["retries"]] == [4000, 4000]
    answer = explain(redrive, "-c", str(config), "enrich", "--class", "database")
    assert [row["delay_ms"] for row in answer["retries"]] == [5000, 10000]


@pytest.mark.parametrize(
    "words, code, message, hint",
    [
        (["--profile", "recrods"], 2, "unknown profile 'recrods'", "did you mean 'records'?"),
        (["--profile", "records", "x"], 2, "--profile and a task exclude each other", None),
        (["a", "--task", "b"], 2, "the task is given twice", None),
        (["nobody"], 2, "no task 'nobody' in the configuration", None),
        (["--class", "transent"], 2, None, "did you mean transient?"),
        (["--retry-max-dealy", "5s"], 2, None, "did you mean --retry-max-delay?"),
    ],
)
def test_wrong_use_is_explained(redrive, tmp_path, words, code, message, hint):
    result = redrive("policy", "explain", "--json", *words, cwd=tmp_path)
    error = json.loads(result.stderr)["error"]
    assert (result.returncode, result.stdout) == (code, "")
    assert message is None or error["message"] == message
    assert hint is None or error["hint"] == hint


def test_the_line_that_says_how_many_attempts_there_are_is_shown(redrive, tmp_path):
    """The nearer scope wins: the task's `on`, the task, the defaults' `on`, the defaults."""
    config = ("defaults:\n  retry: {max_retries: 5}\n  on: {rate_limited: {max_retries: 3}}\n"
              "tasks:\n  mail:\n    retry: {max_retries: 2}\n    on: {network: {max_retries: 7}}\n  other: {}\n")
    (tmp_path / "redrive.yaml").write_text(config)

    def decided(*words, **options):
        answer = explain(redrive, *words, cwd=tmp_path, **options)
        assert len(answer["retries"]) == answer["max_attempts"] - 1
        return answer["max_attempts"], answer["max_attempts_from"]

    assert decided("mail", "--class", "network") == (8, "redrive.yaml:7: tasks.mail.on.network.max_retries")
    assert decided("mail", "--class", "rate_limited") == (3, "redrive.yaml:6: tasks.mail.retry.max_retries")
    assert decided("other", "--class", "rate_limited") == (4, "redrive.yaml:3: defaults.on.rate_limited.max_retries")
    assert decided("other", "--class", "network") == (6, "redrive.yaml:2: defaults.retry.max_retries")
    assert decided("other", "--retry-max-attempts", "2") == (2, "--retry-max-attempts")
    text = redrive.output("policy", "explain", "mail", "--class", "rate_limited", cwd=tmp_path)
    assert "Attempts for failures that are rate_limited: 3 at most, by redrive.yaml:6: tasks.mail.retry.max_retries.\n" in text
    (tmp_path / "redrive.yaml").unlink()
    assert decided() == (6, "default")
    assert decided(env={"MAX_RETRIES": "1"}) == (2, "MAX_RETRIES")


def test_a_task_that_is_not_declared_is_answered_with_those_that_are(redrive, tmp_path):
    result = redrive("policy", "explain", "nope", cwd=tmp_path)
    assert result.returncode == 2
    assert "no task 'nope' in the configuration" in result.stderr
    assert "hint: the configuration declares no task; -c FILE names another one" in result.stderr
    (tmp_path / "redrive.yaml").write_text("tasks: {mail: {}, thumbnail: {}}\n")
    assert "hint: its tasks are mail, thumbnail\n" in redrive("policy", "explain", "nope", cwd=tmp_path).stderr
    assert "hint: did you mean 'mail'?" in redrive("policy", "explain", "mial", cwd=tmp_path).stderr
