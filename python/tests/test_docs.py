"""Every Python block of docs/python.md is run, in the order of the page, and those of coming-from.md that are ours.

A block is marked after the word `python`: `file=NAME` is written to a file, `server` is run beside a server,
`skip` is not run (the tests of transactions do).
"""

import asyncio
import inspect
import json
import logging
import os
import pathlib
import re
import subprocess
import sys

import pytest
import tenacity

import redrive
from redrive import Worker
from redrive.queue.client import Client

DOCS = pathlib.Path(__file__).resolve().parents[2] / "docs"
PAGE = DOCS / "python.md"
BLOCK = re.compile(r"^```python ?(.*?)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks(page=PAGE):
    text = page.read_text("utf-8")
    for match in BLOCK.finditer(text):
        yield match.group(1), match.group(2), text[: match.start(2)].count("\n")


def run(code, line, names, page=PAGE):
    # Line numbers of the page, so that a traceback leads there.
    exec(compile("\n" * line + code, str(page), "exec"), names)


def test_blocks(server, tmp_path, monkeypatch):
    monkeypatch.setitem(os.environ, "JOBS_URL", server.url)
    monkeypatch.syspath_prepend(str(tmp_path))
    names = {"__name__": "page"}
    seen = 0
    for mark, code, line in blocks():
        seen += 1
        if mark.startswith("file="):
            (tmp_path / mark[5:]).write_text(code)
        elif mark == "server":
            app = __import__("shop").app
            run(code, line, {**names, "app": app, "work": lambda app=app: Worker(app, until_idle=True).run()})
        elif mark != "skip":
            run(code, line, names)
    sys.modules.pop("shop", None)
    assert seen >= 14


def test_lines_for_those_who_come_from_elsewhere(monkeypatch):
    page = DOCS / "coming-from.md"
    deferred = []
    flows = []
    monkeypatch.setattr(redrive.queue.client.Client, "submit_many", lambda _self, jobs: flows.append(jobs) or [])
    monkeypatch.setattr(redrive.queue.client.Client, "submit", lambda _self, job: deferred.append(job) or SUBMITTED)
    marks = []
    for mark, code, line in blocks(page):
        marks.append(mark)
        names = {"redrive": redrive, "log": logging.getLogger("test")}
        if mark == "here":
            run(code, line, names, page)
        elif mark == "workflow":
            run(code, line, {**workflow_names(), **names}, page)
        elif mark == "tenacity":
            run(code, line, {**vars(tenacity), "tenacity": tenacity, "logging": logging, **names}, page)
        if "main" in names:
            asyncio.run(names["main"]())
    assert marks == ["celery", "here", "celery", "workflow", "procrastinate", "here", "tenacity", "here", "here"]
    assert [[len(job.get("after", [])) for job in flow] for flow in flows] == [[0, 1, 1, 2], [0, 0, 2]]
    assert [job["delay"] for job in deferred] == ["600000ms", "10000ms"]
    assert deferred[1]["queue"] == "api_calls"


def test_arrays_of_jobs_are_taken_as_they_stand(server):
    arrays = [
        json.loads(text)
        for page in ("workflows.md", "coming-from.md")
        for text in re.findall(r"^```json\n(\[.*?)^```$", (DOCS / page).read_text("utf-8"), re.MULTILINE | re.DOTALL)
    ]
    assert len(arrays) == 2
    for jobs in arrays:
        states = [answer["state"] for answer in Client(server.url).submit_many(jobs)]
        assert states == ["waiting" if "after" in job else "queued" for job in jobs]


def workflow_names():
    """What the lines about workflows speak of."""
    app = redrive.App("http://127.0.0.1:1")
    tasks = {name: app.task(name=name)(lambda n=0: n) for name in ("fetch", "resize", "publish", "report")}
    return {"app": app, "chain": redrive.chain, "group": redrive.group, "url": "a", "urls": ["a", "b"], **tasks}


@pytest.mark.skipif(sys.version_info < (3, 10), reason="signatures look different there")
def test_the_reference_is_that_of_the_docstrings():
    tool = DOCS.parent / "tools" / "python-reference"
    made = subprocess.run([sys.executable, str(tool)], check=True, capture_output=True, text=True, encoding="utf-8")
    if (DOCS / "python-api.md").read_text("utf-8") != made.stdout:
        raise AssertionError("out of date: build/python-env/bin/python tools/python-reference > docs/python-api.md")


#: Called by other classes of the package, not by its users.
INTERNAL = {
    *("App.client", "App.find_task", "RetryHandler.retry_dead", "RetryHandler.retry_dead_async"),
    *("DeadLetters.keep", "DeadLetters.forget", "DeadLetters.find_work"),
}


def test_the_reference_has_every_public_name():
    page = (DOCS / "python-api.md").read_text("utf-8")
    things = {name: getattr(redrive, name) for name in redrive.__all__ if name != "__version__"}
    assert [name for name in things if f"`{name}`" not in page] == []
    members = {
        f"{class_.__name__}.{name}": member
        for class_ in things.values()
        if inspect.isclass(class_)
        for name, member in vars(class_).items()
        if not name.startswith("_") and (inspect.isfunction(member) or isinstance(member, property))
    }
    assert {name for name, member in members.items() if not member.__doc__} == INTERNAL


SUBMITTED = {"id": "a", "state": "scheduled", "existed": False}
