"""The vectors that the C core is held to, through Python."""

import errno
import json
import pathlib
import re
import signal

import pytest

import redrive
from redrive import vocabulary
from redrive.breaker import FAILURE, NEUTRAL, SUCCESS

VECTORS = pathlib.Path(__file__).resolve().parents[2] / "tests" / "vectors"
UNITS = {"ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86400}


def cases(name):
    found = json.loads((VECTORS / f"{name}.json").read_text())["cases"]
    return [pytest.param(case, id=str(case.get("name") or case.get("value"))) for case in found]


def seconds(text):
    """The notation of the configuration: 1h30m."""
    if not isinstance(text, str):
        return text
    return sum(float(n) * UNITS[unit] for n, unit in re.findall(r"([\d.]+)(ms|s|m|h|d)", text))


def policy_of(fields):
    fields = dict(fields)
    for name in ("initial_delay", "max_delay", "min_delay", "total_timeout"):
        if name in fields:
            fields[name] = seconds(fields[name])
    if "delays" in fields:
        fields["delays"] = [seconds(delay) for delay in fields["delays"]]
    if isinstance(fields.get("jitter"), dict):
        jitter = dict(fields["jitter"])
        if "max" in jitter:
            jitter["max"] = seconds(jitter["max"])
        fields["jitter"] = redrive.Jitter(**jitter)
    return redrive.RetryPolicy(**{"total_timeout": 0, **fields})


@pytest.mark.parametrize("case", cases("backoff"))
def test_backoff(case):
    policy = policy_of(case["policy"])
    for n, expected in enumerate(case.get("delay_ms") or [], 1):
        assert round(policy.delay(n, "a job") * 1000) == expected
    for n, (least, most) in enumerate(case.get("bounds_ms") or [], 1):
        for job in range(50):
            assert least <= round(policy.delay(n, f"job {job}") * 1000) <= most
    if case.get("then") == "dead_letter":
        attempts = policy.native.max_retries + 1
        decision = redrive.decide(policy, attempts, redrive.TransientFailure("no"))
        assert (decision.state, decision.reason) == ("dead_letter", "exhausted")


FIELDS = {"errno": "errno", "signal": "signal", "curl": "curl_code", "message": "message"}


def facts_of(case):
    source, value = case["source"], case["value"]
    if source == "errno":
        value = getattr(errno, value)
    if source == "signal":
        value = getattr(signal, value)
    facts = redrive.Facts(**{FIELDS.get(source, source): value})
    if "retry_after" in case:
        facts.retry_after = seconds(case["retry_after"])
    if "message" in case and source != "message":
        facts.message = case["message"]
    return facts


@pytest.mark.parametrize("case", cases("classify"))
def test_classify(case):
    facts = facts_of(case)
    assert redrive.classify(facts).failure_class == case["class"]


RESULTS = {"S": SUCCESS, "F": FAILURE, "I": NEUTRAL}
DURATIONS = ("window", "slow_call", "recovery_timeout", "recovery_max", "probe_lease")


class BreakerCase:
    """A breaker, its probes that are out, the first one first, and a call that was let in earlier."""

    def __init__(self, config):
        fields = {key: seconds(value) if key in DURATIONS else value for key, value in config.items()}
        fields = {"failure_rate": 0.0, "recovery_jitter": 0.0, **fields}
        self.now = 0.0
        self.breaker = redrive.Breaker(clock=lambda: self.now, **fields)
        self.probes = []
        self.begun = None

    def allow(self):
        permit = self.breaker.allow()
        if permit is not None:
            self.probes.append(permit)
        return permit is not None

    def feed(self, letter, took):
        if self.breaker.status.state == "closed":
            self.probes = []
            assert self.allow()
        self.breaker.record(self.probes.pop(0), RESULTS[letter], took)

    def take(self, step):
        self.now = step["at"]
        if "begin" in step:
            self.begun = self.breaker.allow()
        if "end" in step:
            self.breaker.record(self.begun, RESULTS[step["result"][0]])
        if "allow" in step:
            assert self.allow() == step["allow"]
        for letter, took in zip(step.get("results", ""), step.get("took", [0] * 100)):
            self.feed(letter, took)
        status = self.breaker.status
        assert status.state == step.get("state", status.state)
        for name in ("rate", "slow_rate"):
            if name in step:
                assert getattr(status, name) == (None if step[name] is None else pytest.approx(step[name]))


@pytest.mark.parametrize("case", cases("breaker"))
def test_breaker(case):
    breaker = BreakerCase(case["config"])
    for step in case["steps"]:
        breaker.take(step)


def test_words_are_those_of_the_c_library():
    assert [str(word) for word in redrive.FailureClass] == vocabulary.CLASSES[1:]
    assert [str(word) for word in redrive.State] == vocabulary.STATES
    assert [str(word) for word in redrive.BreakerState] == vocabulary.BREAKER_STATES
    assert [str(word) for word in redrive.Strategy] == vocabulary.STRATEGIES[:-1]
    assert redrive.__version__ == "0.1.0"
