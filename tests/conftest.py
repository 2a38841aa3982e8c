"""For the black-box tests of all folders: a time limit. README.md says what is where."""
import faulthandler
import os
import signal

import pytest

import times

LIMIT_S = 240
SLOW_LIMIT_S = 900
MERCY_S = 30  # for a test that does not even hear of its limit

STDERR = []


def pytest_configure(config):
    STDERR.append(os.dup(2))  # pytest takes the original away from tests
    if times.VARIABLE in os.environ:
        config.pluginmanager.register(times.Files())


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
