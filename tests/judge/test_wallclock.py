"""What is remembered of a wall clock that is set."""
from tests.judge.wallclock import ClockWatch, Offsets


def test_clock_that_stays_has_not_moved():
    offsets = Offsets()
    for second in range(10):
        offsets.note(second, 100.0 + second * 1e-5)
    assert offsets.moved(0, 9) == 0 and offsets.steps == []


def test_only_what_was_set_in_the_time_counts():
    offsets = Offsets()
    for at, value in ((0.0, 100.0), (10.0, 100.3), (20.0, 100.1)):
        offsets.note(at, value)
    assert [round(offsets.moved(*span), 3) for span in ((1, 9), (9, 11), (11, 19), (19, 21), (0, 30), (21, 30))] == [0, 0.3, 0, 0.2, 0.3, 0]
    assert [(at, round(by, 3)) for at, by in offsets.steps] == [(10.0, 0.3), (20.0, -0.2)]


def test_change_is_noted_a_moment_after_it_was_made():
    offsets = Offsets()
    offsets.note(0.0, 100.0)
    offsets.note(10.0, 100.3)
    assert round(offsets.moved(9.0, 9.98), 3) == 0.3


def test_watch_ends():
    watch = ClockWatch()
    watch.start()
    watch.close()
    assert not watch.is_alive() and watch.offsets.values
