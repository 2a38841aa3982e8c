import datetime
import pickle

import pytest

import redrive
from redrive import InvalidArgumentError, RetryPolicy


def test_durations_are_seconds_or_timedeltas():
    policy = RetryPolicy(strategy="fixed", initial_delay=datetime.timedelta(minutes=1), jitter=False, max_delay=60)
    assert policy.delay(1) == 60.0
    assert policy.as_json()["initial_delay"] == "60000ms"


def test_max_attempts_counts_the_first_run():
    assert RetryPolicy(max_attempts=5).native.max_retries == 4
    with pytest.raises(InvalidArgumentError):
        RetryPolicy(max_attempts=0)
    with pytest.raises(InvalidArgumentError, match="both"):
        RetryPolicy(max_attempts=5, max_retries=4)


def test_a_function_may_be_the_strategy():
    policy = RetryPolicy(strategy=lambda n: n * n, jitter=False)
    assert [policy.delay(n) for n in (1, 2, 3)] == [1.0, 4.0, 9.0]
    with pytest.raises(InvalidArgumentError, match="cannot be sent"):
        policy.as_json()


def test_what_a_strategy_raises_is_raised():
    policy = RetryPolicy(strategy=lambda n: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        policy.delay(1)
    with pytest.raises(InvalidArgumentError, match="not a duration"):
        RetryPolicy(strategy=lambda n: "soon").delay(1)


@pytest.mark.parametrize(
    "fields",
    [
        {"initial_delay": -1},
        {"initial_delay": float("nan")},
        {"initial_delay": "1s"},
        {"multiplier": 0.5},
        {"max_delay": 1, "min_delay": 2},
        {"delays": []},
        {"strategy": "sometimes"},
        {"jitter": "a little"},
        {"profile": "none such"},
        {"max_retries": -1},
        {"max_retries": 10**9},
        {"on": {"networking": RetryPolicy()}},
        {"retry_on": ["with\0nul"]},
    ],
)
def test_what_cannot_be_meant_is_refused(fields):
    with pytest.raises(InvalidArgumentError) as caught:
        RetryPolicy(**fields)
    assert caught.value.code in ("INVALID", "RANGE", "UNKNOWN")


def test_lists_name_classes_types_and_exceptions():
    policy = RetryPolicy(retry_on=[ConnectionError, "network", "Quota*"], give_up_on=ValueError)
    assert policy.as_json()["retry_on"] == ["builtins.ConnectionError", "network", "Quota*"]
    assert policy.as_json()["give_up_on"] == ["builtins.ValueError"]
    assert RetryPolicy(retry_on="all").as_json()["retry_on"] == "all"
    assert redrive.decide(policy, 1, ConnectionRefusedError("no")).state == "retrying"
    assert redrive.decide(policy, 1, KeyError("no")).state == "dead_letter"
    assert redrive.decide(RetryPolicy(retry_on="all"), 1, ValueError("no")).state == "retrying"


def test_classes_may_have_their_own_schedule():
    policy = RetryPolicy(
        jitter=False, on={"rate_limited": RetryPolicy(strategy="fixed", initial_delay=30, max_retries=1)}
    )
    assert redrive.decide(policy, 1, redrive.RateLimited()).delay == 30.0
    assert redrive.decide(policy, 2, redrive.RateLimited()).state == "dead_letter"
    assert redrive.decide(policy, 2, redrive.TransientFailure()).delay == 3.0
    assert policy.as_json()["on"]["rate_limited"]["initial_delay"] == "30000ms"


def test_profiles_are_those_of_the_program():
    policy = RetryPolicy(profile="records")
    assert [policy.delay(n) for n in range(1, 6)] == [120, 240, 480, 960, 1920]


def test_decide_is_pure():
    policy = RetryPolicy()
    once = [redrive.decide(policy, n, OSError(), job_id="a", epoch=1) for n in range(1, 8)]
    again = [redrive.decide(policy, n, OSError(), job_id="a", epoch=1) for n in range(1, 8)]
    assert once == again
    assert once[5].reason == "exhausted"
    assert redrive.decide(policy, 1, None).state == "completed"
    assert redrive.decide(policy, 1, OSError(), deadline_in=0.01).reason == "deadline"


def test_policies_and_classifiers_can_be_pickled():
    policy = RetryPolicy(max_attempts=3, initial_delay=2, jitter=False, retry_on=[OSError])
    copy = pickle.loads(pickle.dumps(policy))
    assert copy == policy
    assert copy.delay(1) == 2.0
    classifier = pickle.loads(pickle.dumps(redrive.Classifier([redrive.Row("message", "odd", "permanent")])))
    assert redrive.classify(Exception("odd"), classifier).failure_class == "permanent"
