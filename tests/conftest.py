"""For the black-box tests of all folders: a time limit, and servers that end with the session. README.md says what is where."""
import faulthandler
import os
import signal

import pytest

from tests import times
from tests.kit import stores

LIMIT_S = 600
SLOW_LIMIT_S = 900
MERCY_S = 30  # for a test that does not even hear of its limit

STDERR = []

# Programs under test listen to interrupts as from a terminal, also where a shell that runs the tests in the background
# ignores them.
signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_configure(config):
    STDERR.append(os.dup(2))  # pytest takes the original away from tests
    if times.VARIABLE in os.environ:
        config.pluginmanager.register(times.Files())


def pytest_unconfigure():
    stores.stop_servers()


def pytest_collection_modifyitems(config, items):
    """Slow ones are left out rather than skipped, so that what is skipped is what could not be tested."""
    if os.environ.get("REDRIVE_SLOW"):
        return
    slow = [item for item in items if item.get_closest_marker("slow")]
    config.hook.pytest_deselected(items=slow)
    items[:] = [item for item in items if item not in slow]


def limit_of(item):
    own = item.get_closest_marker("limit")
    return own.args[0] if own else SLOW_LIMIT_S if item.get_closest_marker("slow") else LIMIT_S


def limited(phase):
    """Each of set-up, test and tear-down fails when it takes too long, with a trace of where it was. One that
    does not end then is ended, with all that come after it."""

    @pytest.hookimpl(hookwrapper=True)
    def run(item):
        seconds = limit_of(item)

        def give_up(*_):
            pytest.fail(f"the {phase} took longer than its limit of {seconds} s; @pytest.mark.limit(SECONDS) sets another")

        before = signal.signal(signal.SIGALRM, give_up)
        signal.alarm(seconds)
        faulthandler.dump_traceback_later(seconds + MERCY_S, exit=True, file=STDERR[0])
        yield
        faulthandler.cancel_dump_traceback_later()
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)

    return run


pytest_runtest_setup = limited("setup")
pytest_runtest_call = limited("call")
pytest_runtest_teardown = limited("teardown")
