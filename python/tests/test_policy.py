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


@pytest.mark.parametrize(
    ("call", "nearest"),
    [
        (lambda: RetryPolicy(max_retry=3), "max_retries"),
        (lambda: RetryPolicy(base_delay=3), "initial_delay"),
        (lambda: RetryPolicy(**{"max_attempt": 3}), "max_attempts"),
        (lambda: redrive.retry(max_tries=3), "max_attempts"),
        (lambda: redrive.retry(multiplyer=3), "multiplier"),
        (lambda: redrive.Jitter("full", maximum=1), "max"),
        (lambda: redrive.BreakerConfig(failure_treshold=3), "failure_threshold"),
        (lambda: redrive.Breaker(reset_timeout=3), "recovery_timeout"),
        (lambda: redrive.RetryHandler("h", retry_config=RetryPolicy()), "retry"),
        (lambda: redrive.RetryHandler("h", monitoring_callback=print), "monitor"),
        (lambda: redrive.RetryHandler("h").create_job("t", prio=1), "priority"),
        (lambda: redrive.RetryHandler("h").create_job(job_type="t"), "task"),
        (lambda: redrive.RetryHandler("h").retry("t", servce="s"), "service"),
        (lambda: redrive.RetryHandler("h").dead_letters.list(error="s"), "error_type"),
        (lambda: RetryPolicy(strategy="EXPONENTIAL_BACKOFF"), "exponential"),
        (lambda: RetryPolicy(strategy="fixed_delay"), "fixed"),
        (lambda: RetryPolicy(on={"rate_limit": RetryPolicy()}), "rate_limited"),
    ],
)
def test_an_unknown_name_is_answered_with_the_nearest_right_one(call, nearest):
    with pytest.raises(InvalidArgumentError, match=rf"hint: did you mean {nearest}\?") as caught:
        call()
    assert caught.value.code == "UNKNOWN"


def test_an_unknown_argument_is_a_type_error_too_and_far_ones_are_answered_with_all():
    with pytest.raises(TypeError, match=r"RetryPolicy has no argument zzz\nhint: one of .*max_attempts, max_delay"):
        RetryPolicy(zzz=1)


@pytest.mark.parametrize(
    ("name", "nearest"), [("dlq", "dead_letters"), ("get_metrics", "metrics"), ("subit_job", "submit_job")]
)
def test_an_unknown_attribute_of_a_handler_is_answered_with_the_nearest_right_one(name, nearest):
    handler = redrive.RetryHandler("h")
    with pytest.raises(AttributeError, match=rf"no attribute {name}; hint: did you mean {nearest}\?"):
        getattr(handler, name)
    assert not hasattr(handler, "__wrapped__")
