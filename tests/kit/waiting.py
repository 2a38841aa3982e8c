"""Waiting for something to become true."""
import time

LIMIT_S = 180  # what takes that long hangs: at a load of 50, on a slow machine, the longest took a minute
REST_S = 0.02
REST_MAX_S = 0.1


def look_again(began, rest_s=REST_S):
    """Rests after a look that began then, for twice as long as it took at least: a test that waits leaves the
    machine to those that work."""
    time.sleep(max(rest_s, 2 * (time.monotonic() - began)))


def wait_for(condition, what="it", limit_s=LIMIT_S):
    """Gives what the condition gives. `what` says it in a few words, or is a function that does."""
    start = time.monotonic()
    end = start + limit_s
    while True:
        began = time.monotonic()
        found = condition()
        if found:
            return found
        assert began < end, f"not within {limit_s} s: {what() if callable(what) else what}"
        # What has not come within a second may as well be noticed a tenth of a second late.
        look_again(began, max(REST_S, min(REST_MAX_S, (began - start) / 10)))
