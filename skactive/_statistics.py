"""Numbers over paired trials: means with intervals, paired tests, a correction for many of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import stats

LEVEL = 0.95


@dataclass(frozen=True)
class Estimate:
    """A mean over trials and the ends of its 95 % interval; NaN where there are too few trials to tell."""

    mean: float
    low: float
    high: float

    @property
    def half_width(self) -> float:
        """Half the length of the interval."""
        return (self.high - self.low) / 2


def estimate(values: Iterable[float]) -> Estimate:
    """Mean of one value a trial, with Student's t interval."""
    values = np.fromiter(values, dtype=np.float64)
    if len(values) == 0:
        return Estimate(np.nan, np.nan, np.nan)
    mean, half = values.mean(), np.nan
    if len(values) > 1:
        half = stats.t.ppf((1 + LEVEL) / 2, len(values) - 1) * _standard_error(values)
    return Estimate(float(mean), float(mean - half), float(mean + half))


def paired_p_value(differences: ArrayLike) -> float:
    """Two-sided p-value of Student's paired t-test that the mean of the differences is 0."""
    differences = np.asarray(differences, dtype=np.float64)
    if len(differences) < 2:
        return np.nan
    if np.ptp(differences) == 0:  # no variance to compare with
        return 1.0 if differences[0] == 0 else 0.0
    t = differences.mean() / _standard_error(differences)
    return float(2 * stats.t.sf(abs(t), len(differences) - 1))


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
    """Number of labels at the first evaluation that reaches the level; NaN if none does."""
    return next((float(n) for n, score in zip(n_labelled, scores, strict=True) if score >= level), np.nan)


def mean_over_labels(n_labelled: Sequence[int], scores: Sequence[float], first: int, last: int) -> float:
    """Mean, from ``first`` to ``last`` labels, of the straight lines that join evaluations; NaN if that is one point.

    Batches of any sizes can be compared by it, as a mean over evaluations, which has most where batches are small,
    cannot.
    """
    if last <= first:
        return np.nan
    x = [first, *(n for n in n_labelled if first < n < last), last]
    y = np.interp(x, n_labelled, scores)
    return float(np.diff(x) @ (y[1:] + y[:-1]) / 2 / (last - first))


def area(scores: NDArray[np.float64], positive: NDArray[np.bool_]) -> float:
    """Area under the ROC curve, from the sum of the ranks of the positive rows (Mann and Whitney, 1947).

    NaN if all rows, or none, are positive.
    """
    n, n_positive = len(scores), int(positive.sum())
    if n_positive in (0, n):
        return np.nan
    above = stats.rankdata(scores)[positive].sum() - n_positive * (n_positive + 1) / 2
    return float(above / (n_positive * (n - n_positive)))


def _standard_error(values: NDArray[np.float64]) -> float:
    return float(values.std(ddof=1) / np.sqrt(len(values)))
