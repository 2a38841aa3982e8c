"""Waiting for something to become true."""
import time

LIMIT_S = 60  # a loaded machine may be slow
REST_S = 0.02


def look_again(began, rest_s=REST_S):
    """Rests after a look that began then, for twice as long as it took at least: who waits leaves the machine
    to those that work."""
    time.sleep(max(rest_s, 2 * (time.monotonic() - began)))


def wait_for(condition, what="it", limit_s=LIMIT_S):
    """Gives what the condition gives. `what` says it in a few words, or is a function that does."""
    end = time.monotonic() + limit_s
    while True:
        began = time.monotonic()
        found = condition()
        if found:
            return found
        assert began < end, f"not within {limit_s} s: {what() if callable(what) else what}"
        look_again(began)
