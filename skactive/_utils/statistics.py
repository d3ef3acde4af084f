"""Numbers over paired trials: means with intervals, paired tests, a correction for many of them."""

from __future__ import annotations

import bisect
import itertools
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats

_ERROR, _POWER = 0.05, 0.8  # the usual ones; the error is that of an interval, and of all comparisons together
MOST_TRIALS = 1_000  # nobody runs more, so that nobody need know how many more
Ends = tuple[float, float]


@dataclass(frozen=True)
class Estimate:
    """A mean over trials and the ends of its 95 % interval; NaN where there are too few trials for one."""

    mean: float
    low: float
    high: float


def estimate(values: Iterable[float], limits: Ends = (-np.inf, np.inf)) -> Estimate:
    """Mean of one value a trial, with Student's t interval, cut at limits of the mean; equal values have none."""
    values = np.fromiter(values, dtype=np.float64)
    n, mean = len(values), float(values.mean()) if len(values) else np.nan
    if np.isnan(mean) or np.ptp(values) == 0:
        return Estimate(mean, np.nan, np.nan)
    half = stats.t.isf(_ERROR / 2, n - 1) * values.std(ddof=1) / math.sqrt(n)
    return Estimate(mean, *(float(np.clip(end, *limits)) for end in (mean - half, mean + half)))


def paired_p_value(differences: ArrayLike) -> float:
    """Two-sided p-value of the sign-flip test that differences are as often of one sign as of the other.

    It is the part of all sign flips whose mean is as far from 0 as the mean seen: exact for up to 12 differences, and
    from 20,000 flips at random for more (Fisher, 1935, sec. 21). NaN for a single difference.
    """
    differences = np.asarray(differences, dtype=np.float64)
    n = len(differences)
    if n < 2:
        return np.nan
    is_exact = n <= _MOST_EXACT
    rng = np.random.default_rng(0)
    flips = np.array([*itertools.product((-1, 1), repeat=n)]) if is_exact else rng.choice((-1, 1), (_FLIPS, n))
    means = np.abs(flips @ differences)
    # sums that are equal but for rounding count as equal
    as_far = np.count_nonzero(means >= abs(differences.sum()) - 1e-9 * np.abs(differences).sum())
    return as_far / len(flips) if is_exact else (as_far + 1) / (len(flips) + 1)


_MOST_EXACT, _FLIPS = 12, 20_000


def holm(p_values: Sequence[float]) -> list[float]:
    """P-values that hold for all comparisons at once (Holm, 1979); NaN are no comparisons."""
    p = np.asarray(p_values, dtype=np.float64)
    order = [i for i in np.argsort(p) if not np.isnan(p[i])]
    adjusted, largest = np.full(len(p), np.nan), 0.0
    for rank, i in enumerate(order):
        largest = max(largest, (len(order) - rank) * p[i])
        adjusted[i] = min(1.0, largest)
    return adjusted.tolist()


def fewest_trials(n_comparisons: int) -> int:
    """The fewest trials whose sign flips can be significant after Holm: n trials have no p below 2 / 2**n."""
    return math.ceil(math.log2(2 * n_comparisons / _ERROR))


def labels_to_reach(level: float, n_labelled: Sequence[int], scores: Sequence[float]) -> float:
    """Labels at which the straight lines between evaluations first reach the level; NaN if no evaluation does."""
    before = None
    for n, score in zip(n_labelled, scores, strict=True):
        if score >= level:
            return (
                float(n) if before is None else before[0] + (n - before[0]) * (level - before[1]) / (score - before[1])
            )
        before = (n, score)
    return np.nan


def trials_to_tell(differences: Sequence[float], n_comparisons: int) -> float:
    """How many trials, more than these, give Student's test of a difference like the one seen a power of 80 %.

    The comparisons share its error of 5 %, two-sided. Infinite beyond 1,000; NaN without a spread.
    """
    d = np.asarray(differences, dtype=np.float64)
    if len(d) < 3 or np.ptp(d) == 0:
        return np.nan
    effect, level = abs(d.mean()) / d.std(ddof=1), _ERROR / n_comparisons

    def power(n: int) -> float:
        return float(stats.nct.sf(stats.t.isf(level / 2, n - 1), n - 1, effect * math.sqrt(n)))

    numbers = range(max(fewest_trials(n_comparisons), len(d) + 1), MOST_TRIALS + 1)
    place = bisect.bisect_left(numbers, _POWER, key=power)
    return float(numbers[place]) if place < len(numbers) else math.inf


def verdict_of(found: Estimate, p: float, margin: float = 0.0) -> str:
    """What is said of a difference: better or worse by interval and p, within the margin by the interval, or both.

    Equal differences have no interval, and are judged by their value. Else, and where there is no p, it cannot be told.
    """
    low, high = (found.mean if np.isnan(end) else end for end in (found.low, found.high))
    said = ["better"] * (low > 0 and p <= _ERROR) + ["worse"] * (high < 0 and p <= _ERROR)
    is_within = (-margin < low and high < margin) or low == high == 0
    said += ["within the margin"] * (is_within and not np.isnan(p))
    return ", ".join(said) or ("" if np.isnan(found.mean) else "cannot be told")
