"""Every Python block of docs/python.md is run, in the order of the page.

A block is marked after the word `python`: `file=NAME` is written to a file, `server` is run beside a server,
`skip` is not run (the tests of transactions do).
"""

import os
import pathlib
import re
import sys

from redrive import Worker

PAGE = pathlib.Path(__file__).resolve().parents[2] / "docs" / "python.md"
BLOCK = re.compile(r"^```python ?(.*?)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks():
    text = PAGE.read_text("utf-8")
    for match in BLOCK.finditer(text):
        yield match.group(1), match.group(2), text[: match.start(2)].count("\n")


def run(code, line, names):
    # Line numbers of the page, so that a traceback leads there.
    exec(compile("\n" * line + code, str(PAGE), "exec"), names)


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
            run(code, line, {**names, "app": app, "work": Worker(app, until_idle=True).run})
        elif mark != "skip":
            run(code, line, names)
    sys.modules.pop("shop", None)
    assert seen >= 14
