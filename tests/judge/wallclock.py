"""wallclock.py - whether the wall clock was set while a run went on.

Promises about time are kept by the wall clock of the machine, and histories are judged by its monotonic one. The two differ
by an amount that stays the same, unless the wall clock is set: then a wait is shorter or longer by as much.
"""
import bisect
import threading
import time

EVERY_S = 0.02
STEP_S = 0.0002  # what two readings, one after the other, may differ by


def read_offset(readings=3):
    """By how much the wall clock is ahead of the monotonic one, in seconds: of some readings the one that took the shortest."""
    best = None
    for _ in range(readings):
        before = time.monotonic()
        wall = time.time()
        after = time.monotonic()
        if best is None or after - before < best[0]:
            best = (after - before, wall - (before + after) / 2)
    return best


def clock_offset():
    return read_offset(200)[1]


class Offsets:
    """What the offset was, and since when."""

    def __init__(self):
        self.times, self.values = [], []

    def note(self, mono, offset):
        if not self.values or abs(offset - self.values[-1]) > STEP_S:
            self.times.append(mono)
            self.values.append(offset)

    def moved(self, begin, end):
        """By how much it differed at most, from one time to another; a change is noted up to a reading after it was made."""
        first = max(0, bisect.bisect_right(self.times, begin) - 1)
        seen = self.values[first:bisect.bisect_right(self.times, end + 2 * EVERY_S)]
        return max(seen) - min(seen) if seen else 0.0

    @property
    def steps(self):
        """Pairs: when the clock was set, and by how much."""
        return [(at, after - before) for at, before, after in zip(self.times[1:], self.values, self.values[1:], strict=False)]


class ClockWatch(threading.Thread):
    """Reads both clocks until it is ended."""

    def __init__(self):
        super().__init__(daemon=True)
        self.offsets = Offsets()
        self.is_over = threading.Event()
        self.offsets.note(time.monotonic(), clock_offset())

    def run(self):
        while not self.is_over.wait(EVERY_S):
            took, offset = read_offset()
            if took < STEP_S / 2:  # else it was interrupted
                self.offsets.note(time.monotonic(), offset)

    def close(self):
        self.is_over.set()
        self.join()
