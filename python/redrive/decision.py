"""The one decision: what becomes of a job that has just failed. A call into the C core."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Optional, Union

from redrive._native import Seconds, encode, ffi, lib, milliseconds, raise_pending, seconds
from redrive.failure import Classifier, Facts, native_failure
from redrive.policy import RetryPolicy
from redrive.vocabulary import CLASSES, REASONS, STATES, severity_name

_BREAKER_WORDS = {
    lib.REDRIVE_CALL_SUCCESS: "success",
    lib.REDRIVE_CALL_FAILURE: "failure",
    lib.REDRIVE_CALL_NEUTRAL: "neutral",
    lib.REDRIVE_CALL_RETURNED: "neutral",
}


@dataclass(frozen=True)
class Decision:
    """``state`` is "retrying", with a delay in seconds, or "dead_letter", "failed" or "completed"."""

    state: str
    delay: float
    reason: str
    failure_class: str
    severity: str
    unclassified: bool
    #: What a breaker is told: "success", "failure", or "neutral" if the failure is not the service's.
    breaker: str


def decide(
    policy: RetryPolicy,
    attempts: int,
    failure: Union[BaseException, Facts, None],
    *,
    classifier: Optional[Classifier] = None,
    job_id: str = "",
    epoch: int = 0,
    elapsed: Seconds = 0,
    deadline_in: Optional[Seconds] = None,
) -> Decision:
    """What becomes of a job after ``attempts`` starts, the last of which ended with ``failure``.

    It is pure: the same arguments give the same answer on every machine, so executors of a cluster can
    ask it without knowing of each other. ``elapsed`` counts since the first start.
    """
    facts = ffi.new("struct redrive_facts *")
    identity = ffi.new("char[]", encode(job_id, "job_id"))
    facts.job_id = identity
    facts.epoch = epoch
    facts.attempts = attempts
    facts.elapsed_ms = milliseconds(elapsed, "elapsed")
    if deadline_in is not None:
        facts.deadline_in_ms = max(1, milliseconds(deadline_in, "deadline_in"))
    classifier = classifier or Classifier()
    native = None if failure is None else native_failure(failure, classifier.function, stack=False)
    c = lib.redrive_decide(facts, ffi.NULL if native is None else native.struct, policy.native, classifier.native)
    raise_pending()
    return _decision(c)


def _decision(c: Any) -> Decision:
    return Decision(
        STATES[c.state],
        seconds(c.delay_ms),
        REASONS[c.reason],
        CLASSES[c.class_],
        severity_name(c.severity),
        c.unclassified,
        _BREAKER_WORDS[c.breaker],
    )
