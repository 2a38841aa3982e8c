"""What grows is noticed; noise, peaks, a beginning that rises and values that come down again are not taken for it."""
import random

from tests.soak import growth
from tests.soak.growth import Bound

TENTH = Bound(share=0.1, least=0)


def series(value, n=200):
    return [(i * 5.0, value(i / n)) for i in range(n)]


def grows(value, bound=TENTH):
    return growth.judge(series(value), bound).grows


def test_level_with_noise_does_not_grow():
    dice = random.Random(1)
    assert not grows(lambda x: 100 + dice.uniform(-20, 20))


def test_line_that_rises_by_more_than_the_bound_grows():
    assert grows(lambda x: 100 + 40 * x)
    assert not grows(lambda x: 100 + 15 * x)
    assert not grows(lambda x: 100 - 40 * x)


def test_growth_is_found_under_noise():
    dice = random.Random(2)
    assert grows(lambda x: 100 + 60 * x + dice.uniform(-20, 20))


def test_beginning_does_not_count():
    assert not grows(lambda x: min(100, 400 * x))


def test_single_peaks_do_not_count():
    assert not grows(lambda x: 1000 if 0.9 < x < 0.95 else 100)


def test_what_rises_and_falls_again_does_not_grow():
    assert not grows(lambda x: 100 + 50 * (x * 20 % 1))


def test_steps_that_never_come_down_grow():
    assert grows(lambda x: 100 + 10 * int(x * 10))


def test_least_is_allowed_in_any_case():
    assert grows(lambda x: 10 + 6 * x, Bound(share=0.1, least=2))
    assert not grows(lambda x: 10 + 6 * x, Bound(share=0.1, least=4))


def test_too_few_samples_say_nothing():
    assert not growth.judge([], TENTH).is_known
    few = growth.judge([(i, 10.0 * i) for i in range(growth.LEAST)], TENTH)
    assert not few.is_known and not few.grows


def test_many_samples_are_judged_as_few_are():
    many = growth.judge([(i, 100 + i / 100) for i in range(20000)], TENTH)
    assert many.grows and abs(many.rise - 100) < 1
