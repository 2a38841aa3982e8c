"""growth.py - decides whether a quantity that was sampled over time grows.

Looks at the second half of the time only: caches fill and tables reach their size in the first. Through its samples goes a
line whose slope is the median of the slopes between all pairs of samples (Theil and Sen), so that single peaks, and values
that rise and fall again, count for little. The quantity grows if that line rises by more than a bound.
"""
import dataclasses
import statistics

PAIRED_MAX = 300  # samples of which all pairs are taken
LEAST = 60  # samples of the second half, without which nothing can be said


@dataclasses.dataclass(frozen=True)
class Bound:
    """The line may rise by this share of the median value, and by `least` in any case."""

    share: float
    least: float


@dataclasses.dataclass(frozen=True)
class Verdict:
    rise: float  # over the second half
    limit: float
    is_known: bool = True

    @property
    def grows(self):
        return self.is_known and self.rise > self.limit


def slope(points):
    """A second."""
    step = -(-len(points) // PAIRED_MAX)
    some = points[::step]
    slopes = [(b[1] - a[1]) / (b[0] - a[0]) for i, a in enumerate(some) for b in some[i + 1:] if b[0] > a[0]]
    return statistics.median(slopes) if slopes else 0.0


def judge(points, bound):
    """`points` are pairs of seconds and value, in the order of time."""
    if not points:
        return Verdict(0.0, 0.0, is_known=False)
    middle = (points[0][0] + points[-1][0]) / 2
    half = [point for point in points if point[0] >= middle]
    limit = max(bound.least, bound.share * statistics.median(value for _, value in half))
    if len(half) < LEAST:
        return Verdict(0.0, limit, is_known=False)
    return Verdict(slope(half) * (half[-1][0] - half[0][0]), limit)
