"""Estimates of a risk with a standard error, and intervals for it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats

from .._checks import FLAG, Rule, Rules, check_parameters, integer, is_number, number, warn
from ._checks import check_log_proba, check_losses
from ._weights import Weights, lure_weights

_LEVEL: Rule = number(0, 1, ends="()", remedy="0.95 is usual.")
_OF_ESTIMATES: Rules = {
    "value": number(),
    "standard_error": Rule(
        lambda value: number(0).holds(value) or (is_number(value) and value != value), "a number, 0 or larger, or NaN"
    ),
    "n_labelled": integer(),
    "n_pool": integer(),
    "greater_is_better": FLAG,
}


@dataclass(frozen=True)
class RiskEstimate:
    """An estimate of the mean of a loss over a pool.

    Attributes
    ----------
    value : float
        Unbiased estimate. It can lie outside the range of the loss (an accuracy above 1, for example) and is not
        clipped, because that would bias it.
    standard_error : float
        NaN for a single label; 0 when the whole pool is labelled.
    n_labelled, n_pool : int
    greater_is_better : bool
        True for an accuracy, False for a loss.

    Examples
    --------
    >>> from skactive.risk import RiskEstimate
    >>> print(RiskEstimate(0.125, 0.02, n_labelled=60, n_pool=1000))
    0.125 ± 0.02 (95 % interval 0.085 to 0.165), from 60 labels, for a pool of 1000 rows
    """

    value: float
    standard_error: float
    n_labelled: int
    n_pool: int
    greater_is_better: bool = False

    def __post_init__(self) -> None:
        check_parameters(_OF_ESTIMATES, vars(self))
        if self.n_pool < self.n_labelled:
            raise ValueError(f"`n_pool` must be `n_labelled`={self.n_labelled} or more. Got {self.n_pool}.")

    def interval(self, level: float = 0.95) -> tuple[float, float]:
        """Confidence interval of the risk on the pool, by Student's t."""
        _LEVEL.check("level", level)
        half = self.standard_error and stats.t.ppf((1 + level) / 2, self.n_labelled - 1) * self.standard_error
        return float(self.value - half), float(self.value + half)

    def __str__(self) -> str:
        low, high = self.interval()
        return (
            f"{self.value:.4g} ± {self.standard_error:.2g} (95 % interval {low:.3g} to {high:.3g}), "
            f"from {self.n_labelled} labels, for a pool of {self.n_pool} rows"
        )


def estimate_risk(losses: ArrayLike, log_proba: ArrayLike, n_pool: int) -> RiskEstimate:
    r"""Estimate the mean loss over a pool from rows that a query chose.

    The value is :math:`\frac1M \sum_m v_m L_m` with `lure_weights`. Each pick alone estimates the mean loss without
    bias, by :math:`a_m = \frac{L_m}{N q_m} + \frac1N \sum_{t<m} L_t`; these are uncorrelated, and the value is their
    mean with weights :math:`c_m = \frac{N (N - M)}{(N - m)(N - m + 1)}`. So the squared standard error is
    :math:`\frac{1}{M (M - 1)} \sum_m c_m^2 (a_m - \text{value})^2`.

    Parameters
    ----------
    losses : array-like of shape (n_labelled,)
        Loss of the model on each row bought, in the order of purchase. If the model was trained on these labels, the
        estimate is too low, as a training loss is.
    log_proba : array-like of shape (n_labelled,)
        As for `lure_weights`.
    n_pool : int
        Rows before the first pick.

    Returns
    -------
    RiskEstimate

    Raises
    ------
    ValueError, TypeError
        As `lure_weights` does, or if losses are not finite numbers, one for each pick.

    References
    ----------
    Farquhar, Gal and Rainforth (2021), On Statistical Bias in Active Learning: How and When to Fix It; Kossen et al.
    (2021), Active Testing: Sample-Efficient Model Evaluation.

    Examples
    --------
    >>> import numpy as np
    >>> from skactive.risk import estimate_risk
    >>> from skactive.samplers import power
    >>> rng = np.random.default_rng(0)
    >>> scores = rng.random(500) + 0.1
    >>> losses = scores * rng.random(500)  # rows of high scores, which are picked more often, have high losses
    >>> batch = power.draw(scores, 50, rng)
    >>> print(f"pool {losses.mean():.3f}, picks {losses[batch.indices].mean():.3f}")
    pool 0.312, picks 0.413
    >>> print(estimate_risk(losses[batch.indices], batch.log_proba(), n_pool=500))
    0.3459 ± 0.024 (95 % interval 0.299 to 0.393), from 50 labels, for a pool of 500 rows
    """
    log_proba = check_log_proba(log_proba, n_pool)
    weights = lure_weights(log_proba, n_pool)
    losses = check_losses(losses, len(weights))
    value = float(np.mean(weights * losses))
    error = _standard_error(losses, log_proba, n_pool, value)
    if 1 < len(losses) < n_pool and np.ptp(losses) == 0:
        warn(
            f"All {len(losses)} losses are equal, so their spread gives no standard error: 0.0 is too small. Buy more "
            "labels, or use a loss with more than two values, such as log_loss."
        )
    return RiskEstimate(value, error, len(losses), int(n_pool))


def _standard_error(losses: Weights, log_proba: Weights, n_pool: int, value: float) -> float:
    n_labelled = len(losses)
    if n_labelled == n_pool:
        return 0.0
    if n_labelled == 1:
        return float("nan")
    left = n_pool - np.arange(n_labelled)
    parts = (losses * np.exp(-log_proba) + losses.cumsum() - losses) / n_pool
    weights = n_pool * (n_pool - n_labelled) / (left * (left - 1.0))
    return float(np.sqrt(np.sum((weights * (parts - value)) ** 2) / (n_labelled * (n_labelled - 1))))
