"""python -m redrive: workers of an application.

python -m redrive worker MODULE:APP    work its tasks, by long poll against its server
python -m redrive stream MODULE:APP    the same as a stream handler under `redrive work`
python -m redrive config MODULE:APP    its tasks as a part of the server's configuration
"""

from __future__ import annotations

import argparse
import difflib
import importlib
import json
import logging
import os
import pkgutil
import sys
from typing import NoReturn, Optional

from redrive.errors import RedriveError
from redrive.queue.app import App
from redrive.queue.worker import Worker


def load_app(place: str) -> App:
    """The application that ``module:name`` means."""
    module_name, _colon, name = place.partition(":")
    if not module_name or not name:
        _refuse(f"{place!r} does not say where the application is", f"MODULE:APP, such as {module_name or 'shop'}:app")
    sys.path.insert(0, os.getcwd())
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as exc:
        if exc.name is None or not f"{module_name}.".startswith(f"{exc.name}."):
            raise  # it is there, and imports another one that is not
        near = _nearest(exc.name.rpartition(".")[2], [found.name for found in pkgutil.iter_modules([os.getcwd()])])
        _refuse(f"there is no module {exc.name}", near or f"modules are looked for in {os.getcwd()} and in PYTHONPATH")
    app = getattr(module, name, None)
    if not isinstance(app, App):
        applications = [key for key, value in vars(module).items() if isinstance(value, App)]
        near = _nearest(name, applications) or (f"it has {', '.join(applications)}" if applications else "")
        _refuse(f"{module_name} has no application named {name}", near or "make one: app = redrive.App(…)")
    return app


def _nearest(word: str, words: list[str]) -> str:
    found = difflib.get_close_matches(word, words, 1)
    return f"did you mean {found[0]}?" if found else ""


def _refuse(what: str, hint: str) -> NoReturn:
    sys.exit(f"redrive: {what}\nhint: {hint}")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m redrive", description="Workers of an application.")
    commands = parser.add_subparsers(dest="command", required=True)
    worker = commands.add_parser("worker", help="work tasks, by long poll against the application's server")
    worker.add_argument("--queues", help="in the order of preference, with commas between; default: all")
    worker.add_argument("--name", help="what the history calls it; default: HOST-PID")
    worker.add_argument("--lease", type=float, default=30.0, help="seconds until a silent worker has lost a job (30)")
    worker.add_argument("--shutdown-timeout", type=float, help="seconds to wait for running jobs; default: no limit")
    worker.add_argument("--until-idle", action="store_true", help="end when there is nothing to do")
    stream = commands.add_parser("stream", help="work tasks as a stream handler: JSON lines in and out")
    config = commands.add_parser("config", help="print tasks and cron entries for the server's configuration")
    for command in (worker, stream):
        command.add_argument("--concurrency", type=int, default=8, help="jobs at one time (8)")
        command.add_argument("--log-level", default="info", help="debug, info, warning or error (info)")
    for command in (worker, stream, config):
        command.add_argument("app", metavar="MODULE:APP", help="where the application is, as in shop.tasks:app")
    return parser


def _work(app: App, options: argparse.Namespace) -> int:
    worker = Worker(
        app,
        queues=options.queues.split(",") if options.queues else None,
        concurrency=options.concurrency,
        name=options.name,
        lease=options.lease,
        shutdown_timeout=options.shutdown_timeout,
        until_idle=options.until_idle,
    )
    worker.run(signals=True)
    return 0


def _print_configuration(app: App) -> None:
    """JSON, which is YAML as well; a comment for each task that is left out."""
    sections = app.configuration()
    for name in app.tasks:
        if name not in sections["tasks"]:
            print(f"# {name} is left out: its strategy is a function, which only this program can call.")
            print("# With a list in its place, RetryPolicy(delays=[...]), the task can stand here.")
    print(json.dumps(sections, indent=2))


def main(arguments: Optional[list[str]] = None) -> int:
    options = _parser().parse_args(arguments)
    level = getattr(options, "log_level", "warning").upper()
    logging.basicConfig(level=level, format="%(asctime)s %(levelname)s %(message)s", stream=sys.stderr)
    app = load_app(options.app)
    try:
        if options.command == "worker":
            return _work(app, options)
        if options.command == "stream":
            from redrive.queue.stream import serve

            serve(app, options.concurrency)
        else:
            _print_configuration(app)
    except RedriveError as exc:
        sys.exit(f"redrive: {exc}")
    return 0


if __name__ == "__main__":
    code = main()
    # A function that was given back may still be running in its thread; the process does not wait for it.
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)
