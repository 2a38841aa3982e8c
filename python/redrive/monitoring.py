"""What a handler tells of itself: events and log lines, health, metrics, and the text that Prometheus reads."""

from __future__ import annotations

import logging
from dataclasses import dataclass, fields
from typing import Any, Callable, Optional

from redrive._native import ffi, lib, seconds, text
from redrive.breaker import BreakerStatus
from redrive.vocabulary import BREAKER_STATES, CLASSES, EVENTS, REASONS, severity_name


@dataclass(frozen=True)
class Event:
    """One thing that happened; given to the ``monitor`` of a handler, in the thread that caused it."""

    #: received, started, completed, retrying, parked, dead_letter, failed, cancelled, redriven, breaker
    type: str
    #: Seconds since 1970.
    at: float
    job_id: Optional[str]
    task: Optional[str]
    service: Optional[str]
    attempt: int
    max_attempts: int
    failure_class: str
    severity: str
    reason: str
    message: Optional[str]
    #: Seconds until the next attempt, of a job that is retried.
    delay: float
    breaker: str
    health_score: float
    error_rate: float


def event_of(c: Any) -> Event:
    return Event(
        EVENTS[c.type],
        seconds(c.at_ms),
        text(c.job_id),
        text(c.task),
        text(c.service),
        c.attempt,
        c.max_attempts,
        CLASSES[c.class_],
        severity_name(c.severity),
        REASONS[c.reason],
        text(c.message),
        seconds(c.delay_ms),
        BREAKER_STATES[c.breaker],
        c.health_score,
        c.error_rate,
    )


# ---- Logs -----------------------------------------------------------------------------------------

logger = logging.getLogger("redrive")

_LEVELS = {"retrying": logging.INFO, "dead_letter": logging.WARNING, "failed": logging.WARNING}
_EVENT_LEVELS = [_LEVELS.get(name, logging.DEBUG) for name in EVENTS]
_BREAKER = EVENTS.index("breaker")
#: A breaker that begins to hold work back is a warning, what it does next is not.
_BREAKER_LEVELS = [logging.WARNING if state in ("open", "forced_open") else logging.INFO for state in BREAKER_STATES]
#: The fields of a line, by the fields of the event. A log record has a ``message`` of its own, and a ``name``.
_FIELDS = {
    **{name: name for name in ("job_id", "task", "service", "attempt", "max_attempts", "failure_class", "reason")},
    "message": "error",
    "delay": "delay",
    "breaker": "breaker",
}
_ABSENT = (None, "", "none", "success")


def _fields_of(event: Event, handler: str) -> dict[str, Any]:
    left_out = {"attempt", "max_attempts"} if event.type == "breaker" else {"breaker"}
    if event.type != "retrying":
        left_out.add("delay")
    given = {key: getattr(event, name) for name, key in _FIELDS.items() if name not in left_out}
    return {"event": event.type, "handler": handler, **{k: v for k, v in given.items() if v not in _ABSENT}}


class Monitor:
    """Called by C with each event of a handler: writes the log, then calls the program's own function."""

    def __init__(self, handler: str, function: Optional[Callable[[Event], Any]]) -> None:
        self._handler = handler
        self._function = function

    def __call__(self, c: Any) -> None:
        level = _BREAKER_LEVELS[c.breaker] if c.type == _BREAKER else _EVENT_LEVELS[c.type]
        is_logged = logger.isEnabledFor(level)
        if not is_logged and self._function is None:
            return
        event = event_of(c)
        if is_logged:
            values = _fields_of(event, self._handler)
            words = " ".join(f"{key}={value}" for key, value in values.items() if key != "event")
            logger.log(level, "%s %s", event.type, words, extra=values)
        if self._function is not None:
            self._function(event)


# ---- Figures --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Health:
    """How well a handler does."""

    #: healthy, degraded or unhealthy
    status: str
    #: 0 to 1: success_rate × share of breakers that are not open × latency_factor.
    health_score: float
    #: Over about the last minute; 1 when idle.
    success_rate: float
    error_rate: float
    latency_factor: float
    breakers: int
    breakers_open: int


def health_of(handler: Any) -> Health:
    c = ffi.new("struct redrive_health *")
    lib.redrive_health_get(handler, c)
    status = text(c.status) or "healthy"
    return Health(status, c.health_score, c.success_rate, c.error_rate, c.latency_factor, c.breakers, c.breakers_open)


@dataclass(frozen=True)
class Metrics:
    """Counters since the start, and what is inside now."""

    jobs_received: int
    jobs_redriven: int
    jobs_completed: int
    #: Retries, not jobs.
    jobs_retried: int
    jobs_dlq: int
    jobs_failed: int
    jobs_cancelled: int
    jobs_parked: int
    attempts: int
    unclassified: int
    failures_by_class: dict[str, int]
    average_retries: float
    #: Time of one attempt in milliseconds.
    p50_ms: float
    p90_ms: float
    p99_ms: float
    running: int
    waiting: int
    parked: int
    queued: int


def metrics_of(handler: Any) -> Metrics:
    c = ffi.new("struct redrive_metrics *")
    lib.redrive_metrics_get(handler, c)
    values = {field.name: getattr(c, field.name) for field in fields(Metrics) if field.name != "failures_by_class"}
    by_class = {name: c.failures_by_class[i] for i, name in enumerate(CLASSES) if name != "success"}
    return Metrics(failures_by_class=by_class, **values)


# ---- Prometheus -----------------------------------------------------------------------------------

_COUNTERS = (
    ("jobs_received", "Jobs that were submitted."),
    ("jobs_redriven", "Dead letters that were run again."),
    ("jobs_completed", "Jobs that succeeded."),
    ("jobs_retried", "Retries."),
    ("jobs_dlq", "Jobs that became dead letters."),
    ("jobs_failed", "Jobs that failed and were not kept."),
    ("jobs_cancelled", "Jobs that were cancelled."),
    ("jobs_parked", "Times that a job waited for a breaker."),
    ("attempts", "Attempts."),
    ("unclassified", "Failures that no row of the classification table knows."),
)
_GAUGES = (
    ("running", "Attempts that are running."),
    ("waiting", "Jobs that wait for a retry."),
    ("parked", "Jobs that wait for a breaker."),
    ("queued", "Jobs that wait for their turn."),
)


def _label(value: str) -> str:
    return value.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")


def prometheus_text(name: str, metrics: Metrics, health: Health, breakers: list[BreakerStatus], dead: int) -> str:
    """The text exposition format, version 0.0.4."""
    handler = f'handler="{_label(name)}"'
    lines: list[str] = []

    def family(metric: str, kind: str, help_: str, samples: list[tuple[str, float]]) -> None:
        lines.append(f"# HELP redrive_handler_{metric} {help_}")
        lines.append(f"# TYPE redrive_handler_{metric} {kind}")
        lines.extend(f"redrive_handler_{metric}{{{handler}{labels}}} {value}" for labels, value in samples)

    for field, help_ in _COUNTERS:
        family(f"{field}_total", "counter", help_, [("", getattr(metrics, field))])
    family(
        "failures_total",
        "counter",
        "Failed attempts by class.",
        [(f',class="{class_}"', n) for class_, n in metrics.failures_by_class.items()],
    )
    for field, help_ in _GAUGES:
        family(field, "gauge", help_, [("", getattr(metrics, field))])
    family("dead_letters", "gauge", "Dead letters that are kept.", [("", dead)])
    family("health_score", "gauge", "0 to 1.", [("", health.health_score)])
    durations = [(f',quantile="0.{q}"', getattr(metrics, f"p{q}_ms") / 1000) for q in (50, 90, 99)]
    family("attempt_seconds", "gauge", "Time of one attempt, by quantile.", durations)
    family(
        "breaker_open",
        "gauge",
        "1 while a breaker holds work back.",
        [(f',service="{_label(b.name or "")}"', int(b.state not in ("closed", "disabled"))) for b in breakers],
    )
    return "\n".join(lines) + "\n"
