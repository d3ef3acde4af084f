"""Estimates of a risk with a standard error, and intervals for it.

The uncertainty comes from rows that are rarely picked and therefore get large weights. While none of these shows a
loss, the estimate and its error are both too small, so that an interval by Student's t misses on one side. Here the
lower end is the quantile of a gamma law with the estimate's mean and variance; for the upper end one more pick is
imagined, of the largest weight and the largest loss, with the half weight of a mid-p value (Fay and Kim, 2017). Without
any loss seen that is the rule of three, weighted. Where most losses are near the largest possible one, what rows cost
less than that is estimated, and taken off. Where it is not known how large a loss can be, there is no upper end: the
samples whose intervals would miss are those that look harmless.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import optimize, special

from .._utils import html
from .._utils.types import Floats, Side
from .._utils.validation import (
    FLAG,
    ParameterError,
    Rules,
    as_array,
    check_parameters,
    float64_array,
    integer,
    number,
    one_of,
    shown,
)
from ._parts import check_log_proba, largest_bound, lure_weights

_LEVEL = number(0, 1, ends="()", remedy="0.95 is usual.")
_OF_INTERVALS: Rules = {"level": _LEVEL, "side": one_of(get_args(Side)), "every_look": FLAG}
_OF_ESTIMATES: Rules = {"largest_weight": number(1), "n_looks": integer()}


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
        True for an accuracy, which is one minus an error rate; False for a loss.
    step : float
        What one more label of the largest weight and a loss of 1 would add. Times ``largest_loss`` it widens intervals
        by what rarely picked rows may hide.
    largest_loss : float
        The most that a row without a label can cost, leaving aside rows too few to matter; infinite if not known.
    largest_seen : float
        The largest loss among the labels.
    limits : tuple of two float
        The possible range of the value on the pool, given the labels seen; no interval goes beyond.
    n_looks : int
        As in `estimate_risk`.
    of_interval : tuple of two float, optional
        The loss that intervals are based on and its standard error, if these are not the value and its own.

    Examples
    --------
    >>> from skactive.risk import RiskEstimate
    >>> print(RiskEstimate(0.125, 0.02, n_labelled=60, n_pool=1000, largest_loss=1))
    0.125 (standard error 0.02; 95 % interval 0.0889 to 0.167), from 60 labels, for a pool of 1000 rows
    """

    value: float
    standard_error: float
    n_labelled: int
    n_pool: int
    greater_is_better: bool = False
    step: float = 0.0
    largest_loss: float = math.inf
    largest_seen: float = math.inf
    limits: tuple[float, float] = (-math.inf, math.inf)
    n_looks: int = 1
    of_interval: tuple[float, float] | None = None

    def interval(self, level: float = 0.95, *, side: Side = "both", every_look: bool = False) -> tuple[float, float]:
        """Confidence interval of the risk on the pool; its upper end is infinite if ``largest_loss`` is.

        Parameters
        ----------
        level : float, default=0.95
        side : {"both", "lower", "upper"}, default="both"
            "upper": only the upper end is an estimate, which the risk exceeds with probability 1 - level; the lower one
            is the limit. "lower": the other way round. A target needs only one side.
        every_look : bool, default=False
            Whether the intervals after all batches hold simultaneously, so that you may look after each batch and stop
            at any time. They are wider, later ones more so.

        Returns
        -------
        tuple of two float

        References
        ----------
        Fay and Feuer (1997), Confidence Intervals for Directly Standardized Rates; Fay and Kim (2017), Confidence
        Intervals for Directly Standardized Rates Using Mid-p Gamma Intervals.
        """
        level = _checked_level(level, side, every_look, self.n_looks)
        tail = (1 - level) / 2 if side == "both" else 1 - level
        low, high = self.limits
        if side != "upper":
            low = min(max(self._end(tail, upper=False), low), high)
        if side != "lower":
            high = max(min(self._end(tail, upper=True), high), low)
        return low, high

    def _end(self, tail: float, *, upper: bool) -> float:
        """An end of the interval; an accuracy has that of its errors, from the other side."""
        if self.n_labelled < self.n_pool and math.isnan(self.standard_error):
            return self.limits[upper]
        if self.greater_is_better:
            return 1 - self._end_of_loss(tail, upper=not upper)
        return self._end_of_loss(tail, upper=upper)

    @property
    def measured(self) -> tuple[float, float]:
        """The loss that an interval goes by, and its standard error."""
        value = 1 - self.value if self.greater_is_better else self.value
        return self.of_interval or (value, self.standard_error)

    def _end_of_loss(self, tail: float, *, upper: bool) -> float:
        value, error = self.measured
        if upper and math.isinf(self.largest_loss):
            return math.inf
        # A risk is not below that of losses cut off at the largest one seen, of which that is the bound.
        largest = max(self.largest_loss, self.largest_seen) if upper else self.largest_seen
        variance = error**2
        if value > largest / 2:  # it is rare that a loss is not the largest
            distance = max(largest - value, 0.0)
            return largest - gamma_end(distance, variance, self.step * largest, tail, upper=not upper)
        return gamma_end(max(value, 0.0), variance, self.step * self.largest_loss, tail, upper=upper)

    def __str__(self) -> str:
        return _sentence(self)

    def _repr_html_(self) -> str:
        return _card(self, "accuracy" if self.greater_is_better else "risk")


@dataclass(frozen=True)
class RiskDifference:
    """An estimate of how much larger the risk of one model is than that of another, from the same labels.

    Attributes
    ----------
    value : float
        Unbiased estimate: risk of the first model minus that of the second. Below 0 the first one is better.
    standard_error : float
    n_labelled, n_pool : int
    more, less : RiskEstimate
        What the first model loses where it loses more than the second, and what the second loses where it loses more;
        the value is their difference. No interval goes beyond that of their limits.
    of_interval : float, optional
        The standard error that intervals are based on, if it is not that of the value.
    """

    value: float
    standard_error: float
    n_labelled: int
    n_pool: int
    more: RiskEstimate
    less: RiskEstimate
    of_interval: float | None = None

    def interval(self, level: float = 0.95, *, side: Side = "both", every_look: bool = False) -> tuple[float, float]:
        """Confidence interval of the difference on the pool, from those of ``more`` and ``less``.

        Parameters
        ----------
        level, side, every_look
            As in `RiskEstimate.interval`; the side that is not estimated is infinite.

        References
        ----------
        Zou and Donner (2008), Construction of Confidence Limits about Effect Measures: A General Approach.
        """
        level = _checked_level(level, side, every_look, self.more.n_looks)
        # a tail of 1 - level on the side that counts; levels of a half or less leave an interval of almost no width
        level = level if side == "both" else max(2 * level - 1, 1e-9)
        more, less = ((part.measured[0], *part.interval(level)) for part in (self.more, self.less))
        low, high = difference_ends(more, less, self._correlation())
        (least, most), (least_off, most_off) = self.more.limits, self.less.limits
        low, high = max(low, least - most_off), min(high, most - least_off)
        return (-math.inf if side == "upper" else low), (math.inf if side == "lower" else high)

    def _correlation(self) -> float:
        """That of ``more`` and ``less``: a row adds to one of them at most, so that it is not above 0."""
        a, b = self.more.measured[1], self.less.measured[1]
        error = self.standard_error if self.of_interval is None else self.of_interval
        product = 2 * a * b
        return min(max((a**2 + b**2 - error**2) / product, -1.0), 0.0) if product > 0 else 0.0

    def __str__(self) -> str:
        return _sentence(self, "+")

    def _repr_html_(self) -> str:
        return _card(self, "difference", "+", note="The risk of the first model minus that of the second.")


def looked_at(estimate: RiskEstimate, n_looks: int) -> RiskEstimate:
    """The same, where it is known that there were as many looks at least."""
    return replace(estimate, n_looks=max(estimate.n_looks, n_looks))


def _checked_level(level: Any, side: Any, every_look: Any, n_looks: int) -> float:
    """The level for a single look."""
    check_parameters(_OF_INTERVALS, {"level": level, "side": side, "every_look": every_look})
    return at_every_look(level, n_looks) if every_look else level


_OPEN = "No upper end: a row without a label could cost any amount. Give `largest_loss`, the most that a row can cost"
_NOISY = "The estimate is unbiased but noisy: the interval is based on what rows cost less than the most"
_WIDE = "Most of the interval allows for rare rows, unlike those with a label"


def _sentence(estimate: RiskEstimate | RiskDifference, sign: str = "") -> str:
    value, error, interval, n_labelled, n_pool = _texts(estimate, sign)
    found = f"{value} (standard error {error}; 95 % interval {interval})"
    told = f"{found}, from {n_labelled} labels, for a pool of {n_pool} rows"
    return ". ".join(filter(None, (told, _note(estimate))))


def _card(estimate: RiskEstimate | RiskDifference, name: str, sign: str = "", note: str = "") -> str:
    head = ["", "estimate", "standard error", "95 % interval", "labels", "rows of the pool"]
    table = html.Table([[name, *_texts(estimate, sign)]], head=head)
    return html.card("", [table], note=f"{note} {_note(estimate)}".strip())


def _texts(estimate: RiskEstimate | RiskDifference, sign: str) -> list[str]:
    """Value, standard error, interval, labels and rows of the pool; ``sign`` is "+" for numbers with a sign."""
    ends = [f"{end:{sign}.3g}" for end in estimate.interval()]
    interval = {0: "unknown", 1: f"{ends[0]} or more", 2: " to ".join(ends)}[np.isfinite(estimate.interval()).sum()]
    numbers = [f"{estimate.value:{sign}.4g}", f"{estimate.standard_error:.2g}", interval]
    return [*numbers, str(estimate.n_labelled), str(estimate.n_pool)]


def _note(estimate: RiskEstimate | RiskDifference) -> str:
    """Why an interval is open, or wider by far than the losses seen would make it."""
    low, high = estimate.interval()
    more = max(high - estimate.value, estimate.value - low)
    if math.isinf(more):
        return _OPEN
    if not low <= estimate.value <= high:
        return _NOISY
    # so far off is an end only by what one more label could add, which is then above some five standard errors
    return _WIDE if more > 15 * estimate.standard_error > 0 else ""


def estimate_risk(
    losses: ArrayLike,
    log_proba: ArrayLike,
    n_pool: int,
    *,
    largest_loss: ArrayLike | None = None,
    largest_weight: float = 1.0,
    n_looks: int = 1,
) -> RiskEstimate:
    r"""Estimate the mean loss over a pool from rows that a query chose.

    The value is :math:`\frac1M \sum_m v_m L_m` with `lure_weights`. Each pick alone estimates the mean loss without
    bias, by :math:`a_m = \frac{L_m}{N q_m} + \frac1N \sum_{t<m} L_t`; these are uncorrelated, and the value is their
    mean with weights :math:`c_m = \frac{N (N - M)}{(N - m)(N - m + 1)}`. So the squared standard error is
    :math:`\frac{1}{M (M - 1)} \sum_m c_m^2 (a_m - \text{value})^2`.

    As the weights do not add up to M, this is noisy where losses are large. If their mean with these weights is nearer
    to the largest one, B, than to 0, intervals are based on B minus the same estimate of B - L.

    Parameters
    ----------
    losses : array-like of shape (n_labelled,)
        Loss of the model on each row bought, in the order of purchase. If the model was trained on these labels, the
        estimate is too low, as a training loss is.
    log_proba : array-like of shape (n_labelled,)
        As for `lure_weights`.
    n_pool : int
        Rows before the first pick.
    largest_loss : float or array-like of shape (n_pool,), optional
        The most that a row can cost, where no loss is negative: 1 for an error rate. Or the most for each row: first
        those with a label, in the order of purchase. By default 1 if all losses are 0 or 1, otherwise infinity: then
        intervals have no upper end.
    largest_weight : float, default=1.0
        Largest weight behind which an unseen risk could hide: ``1 / epsilon`` bounds that of a query. Intervals use it,
        or the largest one seen if that is larger.
    n_looks : int, default=1
        Batches of labels so far, for ``interval(every_look=True)``.

    Returns
    -------
    RiskEstimate

    References
    ----------
    Farquhar, Gal and Rainforth (2021), On Statistical Bias in Active Learning: How and When to Fix It; Kossen et al.
    (2021), Active Testing: Sample-Efficient Model Evaluation.

    Examples
    --------
    >>> import numpy as np
    >>> from skactive import StochasticBatchQuery
    >>> from skactive.risk import estimate_risk
    >>> rng = np.random.default_rng(0)
    >>> scores = rng.random(500) + 0.1
    >>> losses = scores * rng.random(500)  # rows of high scores, which are picked more often, have high losses
    >>> query = StochasticBatchQuery(beta=1, random_state=0)
    >>> rows = query.select_scored(scores, 50)
    >>> print(f"pool {losses.mean():.3f}, picks {losses[rows].mean():.3f}")
    pool 0.312, picks 0.373
    >>> print(estimate_risk(losses[rows], query.log_proba_, n_pool=500, largest_loss=1.1))
    0.3078 (standard error 0.027; 95 % interval 0.258 to 0.526), from 50 labels, for a pool of 500 rows
    """
    log_proba = check_log_proba(log_proba, n_pool)
    weights = lure_weights(log_proba, n_pool)
    values = checked_losses(losses, len(weights))
    check_parameters(_OF_ESTIMATES, {"largest_weight": largest_weight, "n_looks": n_looks})
    bound = bound_of(as_array(losses)) if largest_loss is None else largest_loss
    largest, in_all = _of_rows_left(bound, values, int(n_pool))
    (value, error, _), known = _value_and_error(values, log_proba, n_pool), float(values.sum())
    return RiskEstimate(
        value,
        error,
        n_labelled=len(values),
        n_pool=int(n_pool),
        step=max(largest_weight, float(weights.max())) / len(values) if len(values) < n_pool else 0.0,
        largest_loss=largest,
        largest_seen=float(values.max()),
        limits=(known / n_pool, (known + in_all) / n_pool),
        n_looks=int(n_looks),
        of_interval=_apart(
            values, log_proba, n_pool, _base(values, log_proba, n_pool, largest) if np.ndim(bound) == 0 else 0.0
        ),
    )


def estimate_difference(
    losses: tuple[ArrayLike, ArrayLike],
    log_proba: ArrayLike,
    n_pool: int,
    *,
    largest_loss: ArrayLike = math.inf,
    **options: Any,
) -> RiskDifference:
    """The risk of one model minus that of another, from losses of both on the same rows; options of `estimate_risk`.

    ``largest_loss`` is the most that a row can cost either model more than the other.
    """
    difference = np.subtract(*(np.asarray(of_one, dtype=np.float64) for of_one in losses))
    log_proba = check_log_proba(log_proba, n_pool)
    parts, bases = [], []
    for d in (difference, -difference):  # each part from the base of the difference, of which they are part
        part = np.maximum(d, 0)
        bases.append(_base(d, log_proba, n_pool, largest_loss))
        found = estimate_risk(part, log_proba, n_pool, largest_loss=largest_loss, **options)
        parts.append(replace(found, of_interval=_apart(part, log_proba, n_pool, bases[-1])))
    value, error, _ = _value_and_error(difference, log_proba, n_pool)
    apart = _apart(difference, log_proba, n_pool, bases[0] - bases[1])
    return RiskDifference(value, error, len(difference), int(n_pool), parts[0], parts[1], apart and apart[1])


def bound_of(losses: NDArray[Any]) -> float:
    """The most that a loss can be: errors are 0 or 1, and of other numbers it is not known."""
    return 1.0 if np.isin(losses, (0, 1)).all() else math.inf


def _base(losses: Floats, log_proba: Floats, n_pool: int, largest: Any) -> float:
    """What losses are measured from: 0, or the largest one of all rows, if their mean is nearer to it."""
    if np.ndim(largest):
        return 0.0
    weights = lure_weights(log_proba, n_pool)
    return largest if weights @ losses > largest / 2 * weights.sum() else 0.0


def _apart(losses: Floats, log_proba: Floats, n_pool: int, base: float) -> tuple[float, float] | None:
    """The mean loss from losses less ``base``, and its standard error; None if the base is 0."""
    if base == 0:
        return None
    value, error, _ = _value_and_error(losses - base, log_proba, n_pool)
    return base + value, error


def _value_and_error(losses: Floats, log_proba: Floats, n_pool: int, counts: Any = 1.0) -> tuple[float, float, float]:
    """The estimate, its standard error, and the sum of what picks count."""
    n_labelled = len(losses)
    if n_labelled == n_pool:
        return float(losses.mean()), 0.0, n_labelled
    left = n_pool - np.arange(n_labelled)
    parts = (losses * np.exp(-log_proba) + losses.cumsum() - losses) / n_pool
    weights = counts * (n_pool * (n_pool - n_labelled) / (left * (left - 1.0)))
    n = float(weights.sum())
    value = float(weights @ parts) / n
    variance = np.sum((weights * (parts - value)) ** 2) * n_labelled / (n_labelled - 1) if n_labelled > 1 else math.nan
    return value, math.sqrt(variance) / n, n


def counted(risk: RiskEstimate, losses: Floats, log_proba: Floats, counts: Floats) -> RiskEstimate:
    """The same risk where a pick counts as 1/w of one, if one of its batch can weigh w: none adds more than a step."""
    value, error, n = _value_and_error(losses, log_proba, risk.n_pool, counts)
    return replace(risk, value=value, standard_error=error, step=1 / n)


def gamma_end(value: float, variance: float, step: float, tail: float, *, upper: bool) -> float:
    """One end of an interval of a risk, 0 or larger, beyond which the risk lies with probability ``tail``.

    ``step`` is what one more pick of the largest weight and the largest loss would add to the estimate.
    """
    if not upper:
        return _quantile(value, variance, tail)
    wider = value + step, variance + step**2
    high = max(_quantile(value, variance, 1 - tail / 2), _quantile(*wider, 1 - tail / 2))  # where both laws have less
    low = min(_quantile(value, variance, 1 - 2 * tail), _quantile(*wider, 1 - 2 * tail))
    if high <= low or tail >= 0.5:
        return high

    def beyond(end: float) -> float:
        return (_tail(end, value, variance) + _tail(end, *wider)) / 2 - tail

    low = low if beyond(low) > 0 else 0.0  # the mixture may have less beyond it than either law
    # tolerances far below the two or three digits that an interval is read by
    return float(optimize.brentq(beyond, low, high, xtol=1e-12, rtol=1e-10)) if beyond(low) > 0 else high


def _quantile(mean: float, variance: float, probability: float) -> float:
    if mean <= 0 or variance <= 0:
        return max(mean, 0.0)
    if probability <= 0:
        return 0.0
    return float(special.gammaincinv(mean**2 / variance, probability) * variance / mean)


def _tail(x: float, mean: float, variance: float) -> float:
    if mean <= 0 or variance <= 0:
        return float(x < mean)
    return float(special.gammaincc(mean**2 / variance, x * mean / variance))


def at_every_look(level: float, n_looks: int) -> float:
    """The level of an interval that makes all looks so far, and all to come, right at once with probability ``level``.

    The chance of a miss is shared out: look j gets 1 / (j (j + 1)) of it, which sums to 1 (union bound).
    """
    return 1 - (1 - level) / (n_looks * (n_looks + 1))


def difference_ends(
    a: tuple[float, float, float], b: tuple[float, float, float], correlation: float
) -> tuple[float, float]:
    """Ends of an interval for a difference of two estimates, from (value, low, high) of each (Zou and Donner, 2008)."""
    (_, low_a, high_a), (_, low_b, high_b) = a, b
    # an unbiased value may be beyond the limits of its interval
    value_a, value_b = (min(max(value, low), high) for value, low, high in (a, b))
    value = value_a - value_b
    below, above = (value_a - low_a, high_b - value_b), (high_a - value_a, value_b - low_b)
    return value - _distance(*below, correlation), value + _distance(*above, correlation)


def _distance(a: float, b: float, correlation: float) -> float:
    # the square of a sum of distances a and b, less what they have in common; rounding may leave less than 0
    return math.inf if math.isinf(a + b) else math.sqrt(max(a**2 + b**2 - 2 * correlation * a * b, 0.0))


def checked_losses(losses: ArrayLike, n_labelled: int) -> Floats:
    values = float64_array("losses", losses)
    if values.shape != (n_labelled,) or not (np.isfinite(values) & (values >= 0)).all():
        raise ValueError(
            f"`losses` must be a finite number, 0 or larger, for each of the {n_labelled} labels, in the order of "
            f"purchase. Got {shown(losses)}. If losses are negative, add a constant and subtract it from the risk."
        )
    return values


def _of_rows_left(largest: Any, losses: Floats, n_pool: int) -> tuple[float, float]:
    """The most that a row without a label can cost, and what all of them can."""
    bounds = float64_array("largest_loss", largest, booleans=False)
    of_rows = np.broadcast_to(bounds, n_pool) if bounds.shape in ((), (n_pool,)) else np.array([np.nan])
    seen, left = np.split(of_rows, [len(losses)])
    # probabilities that were computed in other blocks of rows differ by rounding, in float32 and near 0 even more
    if len(of_rows) != n_pool or not (losses <= 1.001 * seen).all() or not (left >= 0).all():
        raise ParameterError(
            f"`largest_loss` must be a number that no loss exceeds, infinity, or one such number for each of {n_pool} "
            f"rows. Got {shown(largest)}, and losses of {losses.max()} at most."
        )
    return largest_bound(left, len(losses), n_pool) if bounds.ndim else float(bounds), float(left.sum())
