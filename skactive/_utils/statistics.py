"""Numbers over paired trials: means with intervals, paired tests, a correction for many of them."""

from __future__ import annotations

import itertools
import math
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats

LEVEL = 0.95


@dataclass(frozen=True)
class Estimate:
    """A mean over trials and the ends of its 95 % interval; NaN where there are too few trials for one."""

    mean: float
    low: float
    high: float


def estimate(values: Iterable[float]) -> Estimate:
    """Mean of one value a trial, with Student's t interval; equal values have none, as they show no spread."""
    values = np.fromiter(values, dtype=np.float64)
    if len(values) == 0:
        return Estimate(np.nan, np.nan, np.nan)
    mean = float(values.mean())
    if np.ptp(values) == 0:
        return Estimate(mean, np.nan, np.nan)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # of values that are equal but for rounding
        interval = stats.ttest_1samp(values, 0.0).confidence_interval(LEVEL)
    return Estimate(mean, float(interval.low), float(interval.high))


def paired_p_value(differences: ArrayLike) -> float:
    """Two-sided p-value of the sign-flip test that differences are as often of one sign as of the other.

    It is the part of all sign flips whose mean is as far from 0 as the mean seen: exact for up to 12 differences, and
    from 20,000 flips at random for more (Fisher, 1935, sec. 21). NaN for a single difference, and for differences that
    are all equal but not 0.
    """
    differences = np.asarray(differences, dtype=np.float64)
    n = len(differences)
    if n < 2 or (np.ptp(differences) == 0 and differences[0] != 0):
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


def trials_to_tell(differences: Sequence[float]) -> float:
    """How many trials would tell a difference like the one seen: 80 % power at 5 %, two-sided; NaN without a spread."""
    d = np.asarray(differences, dtype=np.float64)
    if len(d) < 3 or np.ptp(d) == 0 or d.mean() == 0:
        return np.nan
    power = stats.norm.ppf(0.975) + stats.norm.ppf(0.8)
    return float(max(2, math.ceil((power * d.std(ddof=1) / d.mean()) ** 2)))


def verdict_of(found: Estimate, margin: float) -> str:
    """What an interval says of a difference: better or worse, within the margin, both, or that it cannot be told."""
    if np.isnan(found.low):
        return "cannot be told" if not np.isnan(found.mean) else ""
    said = ["better"] * (found.low > 0) + ["worse"] * (found.high < 0)
    said += ["within the margin"] * (-margin < found.low and found.high < margin)
    return ", ".join(said) or "cannot be told"
