"""The caller's trace: into the jobs that are deferred, and around the tasks that run.

Nothing is asked of OpenTelemetry unless the program has imported it. Without it a ``traceparent`` can be given
to ``configure``, and is read from the ``Context``.
"""

from __future__ import annotations

import contextlib
import importlib
import re
import sys
from collections.abc import Iterator
from typing import Any, Optional

#: Of W3C Trace Context: version, trace, span, flags.
_FORM = re.compile(r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(?:-.*)?")


def _opentelemetry() -> Any:
    return sys.modules.get("opentelemetry.trace")


def current() -> Optional[str]:
    """The ``traceparent`` of the span that this code runs in; None: there is none."""
    trace = _opentelemetry()
    if trace is None:
        return None
    span = trace.get_current_span().get_span_context()
    if not span.is_valid:
        return None
    return f"00-{span.trace_id:032x}-{span.span_id:016x}-{int(span.trace_flags):02x}"


@contextlib.contextmanager
def around(traceparent: Optional[str]) -> Iterator[None]:
    """Spans that begin inside are children of this one."""
    trace = _opentelemetry()
    parts = None if trace is None or traceparent is None else _FORM.fullmatch(traceparent)
    if parts is None:
        yield
        return
    context: Any = importlib.import_module("opentelemetry.context")
    parent = trace.SpanContext(int(parts[2], 16), int(parts[3], 16), True, trace.TraceFlags(int(parts[4], 16)))
    token = context.attach(trace.set_span_in_context(trace.NonRecordingSpan(parent)))
    try:
        yield
    finally:
        context.detach(token)
