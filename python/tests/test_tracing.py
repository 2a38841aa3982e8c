"""The caller's trace: in jobs, in contexts, and around tasks."""

import contextlib
import subprocess
import sys

import pytest
from conftest import LIMIT_S

from redrive import App, Worker
from redrive.queue import tracing

TRACE = "0af7651916cd43dd8448eb211c80319c"
PARENT = f"00-{TRACE}-b7ad6b7169203331-01"
OTHER = f"00-{TRACE}-00f067aa0ba902b7-00"


@contextlib.contextmanager
def in_span(traceparent):
    """As in a request that OpenTelemetry has a span of."""
    from opentelemetry import trace  # noqa: F401 - from now on the program has it

    with tracing.around(traceparent):
        yield


@pytest.fixture
def app(server):
    return App(server.url)


def test_a_span_is_in_force_inside_alone():
    with in_span(PARENT):
        assert tracing.current() == PARENT
        with in_span(OTHER):
            assert tracing.current() == OTHER
        assert tracing.current() == PARENT
    assert tracing.current() is None


@pytest.mark.parametrize("text", ["", "00", PARENT[:-1], PARENT.replace("-", "_"), PARENT.upper(), "00-" + "0" * 51])
def test_what_is_no_traceparent_is_left_out(text):
    with in_span(text):
        assert tracing.current() is None


def test_a_job_has_the_span_that_it_was_deferred_in():
    app = App("http://127.0.0.1:1")

    @app.task(name="mail")
    def mail():
        pass

    assert "traceparent" not in mail.configure().job()
    assert mail.configure(traceparent=OTHER).job()["traceparent"] == OTHER
    with in_span(PARENT):
        assert mail.configure().job()["traceparent"] == PARENT
        assert mail.configure(traceparent=OTHER).job()["traceparent"] == OTHER


def test_tasks_run_in_the_span_of_their_job(app):
    seen = {}

    @app.task(name="thread", pass_context=True)
    def thread(context):
        seen["thread"] = (context.traceparent, tracing.current())

    @app.task(name="loop", pass_context=True)
    async def loop(context):
        seen["loop"] = (context.traceparent, tracing.current())

    @app.task(name="untraced", pass_context=True)
    def untraced(context):
        seen["untraced"] = (context.traceparent, tracing.current())

    with in_span(PARENT):
        thread.defer()
        job = loop.defer()
    untraced.defer()
    Worker(app, until_idle=True).run()
    assert app.job(job.id)["traceparent"] == PARENT
    assert seen == {"thread": (PARENT, PARENT), "loop": (PARENT, PARENT), "untraced": (None, None)}


def test_a_task_that_defers_another_hands_its_trace_on(app):
    @app.task(name="second")
    def second():
        pass

    @app.task(name="first")
    def first():
        return second.defer().id

    with in_span(PARENT):
        job = first.defer()
    Worker(app, until_idle=True).run()
    assert app.job(app.job(job.id)["result"])["traceparent"] == PARENT


def test_nothing_is_imported_for_programs_without_opentelemetry():
    script = f"""
import sys
from redrive import App
from redrive.queue import tracing

app = App("http://127.0.0.1:1")
task = app.task(name="mail")(lambda: None)
with tracing.around("{PARENT}"):
    assert "traceparent" not in task.configure().job()
assert not [name for name in sys.modules if name.startswith("opentelemetry")]
"""
    subprocess.run([sys.executable, "-c", script], check=True, timeout=LIMIT_S)
