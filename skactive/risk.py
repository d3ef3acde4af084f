"""Unbiased estimates of the risk of a model, with a standard error, from labels that a query chose.

The rows that a query chooses do not represent the pool, but the probability of each pick, given those before it, is
known exactly, and gives each pick a weight that removes the bias. Letters: N rows before the first pick, M picks with
probabilities q_1 ... q_M, each among the rows left, losses L_1 ... L_M. Every row must have a probability above 0
(``epsilon`` of the query), and the model must not have been trained on these labels.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import stats

from . import _containers as chunks
from . import _modal as modal
from ._checks import (
    FLAG,
    ParameterError,
    Rule,
    Rules,
    as_array,
    check_parameters,
    check_positions,
    float64_array,
    integer,
    is_integer,
    is_number,
    kind_of_labels,
    look_up,
    mixed_labels_error,
    number,
    plain_labels,
    task,
    warn,
)

__all__ = ["LOSSES", "ActiveTester", "RiskEstimate", "estimate_risk", "lure_weights", "pure_weights"]

Weights = NDArray[np.float64]


def lure_weights(log_proba: ArrayLike, n_pool: int) -> Weights:
    r"""Weights that make the mean over picks an unbiased estimate of the mean over the pool.

    :math:`v_m = 1 + \frac{N - M}{N - m} \left( \frac{1}{(N - m + 1) q_m} - 1 \right)`. Never negative, 1 each when the
    whole pool was bought or all picks were uniform, so they serve as ``sample_weight`` of an unbiased training loss.

    Parameters
    ----------
    log_proba : array-like of shape (n_labelled,)
        Log-probability of each pick among the rows left, given the picks before it, in the order of purchase:
        ``query.log_proba_``, concatenated over rounds. For a first batch chosen uniformly it is
        ``-numpy.log(n_pool - numpy.arange(n_first))``.
    n_pool : int
        Rows before the first pick. Each pick removes one row; the pool must not change otherwise.

    Returns
    -------
    ndarray of shape (n_labelled,), float64

    Raises
    ------
    ValueError, TypeError
        If a log-probability is missing, -inf or above 0, or there are more picks than rows.

    References
    ----------
    Farquhar, Gal and Rainforth (2021), On Statistical Bias in Active Learning: How and When to Fix It, R_LURE.

    Examples
    --------
    >>> import numpy as np
    >>> from skactive.risk import lure_weights
    >>> lure_weights(np.log([0.5, 0.25]), n_pool=10).round(3)
    array([0.289, 0.444])
    """
    log_proba = _check_log_proba(log_proba, n_pool)
    n_labelled = len(log_proba)
    if n_labelled == n_pool:
        return np.ones(n_labelled)
    left = n_pool - np.arange(n_labelled)
    return 1 + (n_pool - n_labelled) / (left - 1) * (np.exp(-log_proba) / left - 1)


def pure_weights(log_proba: ArrayLike, n_pool: int) -> Weights:
    r"""Simpler weights for the same purpose, :math:`u_m = \frac{1}{N q_m} + \frac{M - m}{N}`.

    They are unbiased, like `lure_weights`, and nearly always have a larger variance: early picks count more than late
    ones, and weights are not 1 when the whole pool was bought.

    Parameters
    ----------
    log_proba : array-like of shape (n_labelled,)
        As for `lure_weights`.
    n_pool : int
        Rows before the first pick.

    Returns
    -------
    ndarray of shape (n_labelled,), float64

    Raises
    ------
    ValueError, TypeError
        As `lure_weights` does.

    References
    ----------
    Farquhar, Gal and Rainforth (2021), On Statistical Bias in Active Learning: How and When to Fix It, R_PURE.

    Examples
    --------
    >>> import numpy as np
    >>> from skactive.risk import pure_weights
    >>> pure_weights(np.log([0.5, 0.25]), n_pool=10)
    array([0.3, 0.4])
    """
    log_proba = _check_log_proba(log_proba, n_pool)
    return (np.exp(-log_proba) + np.arange(len(log_proba))[::-1]) / n_pool


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
    log_proba = _check_log_proba(log_proba, n_pool)
    weights = lure_weights(log_proba, n_pool)
    losses = _check_losses(losses, len(weights))
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


def _zero_one(estimator: Any, X: Any, y: NDArray[Any]) -> NDArray[np.float64]:
    if task(estimator) == "regressor":
        raise TypeError(
            "`estimator` must be a classifier: a regressor has no accuracy and no `zero_one` loss. Got a "
            f'{type(estimator).__name__}. Use risk(estimator, "squared_error").'
        )
    predictions = as_array(estimator.predict(X)).reshape(y.shape)
    _check_kind(predictions, y)
    return (predictions != y).astype(np.float64)


def _log_loss(estimator: Any, X: Any, y: NDArray[Any]) -> NDArray[np.float64]:
    """Minus the log of the label's probability, which is 0 for unknown labels, and clipped to the float64 precision."""
    if not hasattr(estimator, "predict_proba"):
        raise TypeError(
            f"`loss`='log_loss' needs predict_proba, and {type(estimator).__name__} has none. Use loss=\"zero_one\"."
        )
    probabilities = np.asarray(estimator.predict_proba(X), dtype=np.float64)
    _check_kind(np.asarray(estimator.classes_), y)
    of_label = (probabilities * (y[:, np.newaxis] == np.asarray(estimator.classes_))).sum(axis=1)
    return -np.log(of_label.clip(np.finfo(np.float64).eps, 1.0))


def _squared_error(estimator: Any, X: Any, y: NDArray[Any]) -> NDArray[np.float64]:
    predictions = as_array(estimator.predict(X))
    for name, values in (("labels", y), ("estimator", predictions)):
        if kind_of_labels(values) != "numbers":
            raise TypeError(f"`{name}` must give numbers for `squared_error`. Got {values.item(0)!r}.")
    return np.square(predictions.astype(np.float64).reshape(y.shape) - y)


def _check_kind(known: NDArray[Any], y: NDArray[Any]) -> None:
    """Check that labels are of the kind that a model knows: numbers never equal text."""
    if kind_of_labels(known) != kind_of_labels(y):
        raise ParameterError(
            f"`labels` must be of the kind that the model knows, such as {known.item(0)!r}. Got {y.item(0)!r}. Convert "
            "them first."
        )


LOSSES: dict[str, Callable[..., Any]] = {
    "log_loss": _log_loss,
    "squared_error": _squared_error,
    "zero_one": _zero_one,
}
"""Losses by name: ``loss(estimator, X, y) -> (n_points,)``, one number a row."""


class ActiveTester:
    """Estimate how good a model is on a pool from labels that a query chooses for this.

    `ask` chooses rows and `tell` takes their labels, in any number of rounds and in any order: rows that were asked for
    are not chosen again, and later rounds may use any model. Then `risk` and `accuracy` are unbiased for the whole
    pool, for any model that was not trained on these labels, with a standard error.

    Every row that was asked for counts as a pick, in the order of asking. An estimate needs the labels of all picks
    before the last one that has a label; while one of these is open, it is refused. Open rows at the end are no
    obstacle, as the estimate is that of the picks before them.

    .. warning::
        A row that nobody can label must not be left out: such rows are seldom like the others, and without them the
        estimate is biased. Tell a label of its own for them, such as "unclear" or -1, which counts as an error of the
        model; see :ref:`rows_without_a_label`.

    Parameters
    ----------
    query : StochasticBatchQuery
        Or another query with ``log_proba_``. Set ``epsilon`` above 0, so that it can pick any row. The variance is
        smallest if rows are picked in proportion to the root of their expected squared loss: for accuracy, "power"
        sampling of "variation_ratio" with beta 0.5, if the model's probabilities are right.
    X_pool : array-like of shape (n_points, ...)
        Rows over which the risk is a mean.

    Attributes
    ----------
    indices_ : ndarray of shape (n_labelled,), int64
        Positions in the pool of the rows with labels, in the order of asking.
    labels_ : ndarray of shape (n_labelled,)
        Their labels.
    log_proba_ : ndarray of shape (n_labelled,), float64
        Log-probability of each of these picks given those before it. An error while one before them is open.
    open_ : ndarray of shape (n_open,), int64
        Positions in the pool of the rows that were asked for and have no label yet, in the order of asking.

    References
    ----------
    Kossen, Farquhar, Gal and Rainforth (2021), Active Testing: Sample-Efficient Model Evaluation.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from sklearn.linear_model import LogisticRegression
    >>> from skactive import StochasticBatchQuery
    >>> from skactive.risk import ActiveTester
    >>> X, y = load_digits(return_X_y=True)
    >>> model = LogisticRegression(max_iter=1000).fit(X[:100], y[:100])
    >>> tester = ActiveTester(StochasticBatchQuery("variation_ratio", beta=0.5, epsilon=0.1, random_state=0), X[100:])
    >>> tester.tell(y[100:][tester.ask(model, 150)])
    >>> print(tester.accuracy(model))
    0.8... ± 0.02... (95 % interval 0.7... to 0.8...), from 150 labels, for a pool of 1697 rows
    """

    def __init__(self, query: Any, X_pool: Any) -> None:
        if not hasattr(query, "select"):
            raise TypeError(
                "`query` must be a query with probabilities, such as a StochasticBatchQuery. "
                f"Got a {type(query).__name__}."
            )
        if getattr(query, "max_candidates", None) is not None:
            raise ValueError(
                f"`query` must be able to pick any row of the pool, and max_candidates={query.max_candidates} excludes "
                "rows. Set it to None."
            )
        self.query = query
        self.X_pool = chunks.prepare_pool(X_pool)
        self._picks = _Picks()
        self._classes: NDArray[Any] | None = None

    @property
    def n_pool(self) -> int:
        """Rows of the pool, with and without a label."""
        return chunks.count_rows(self.X_pool)

    @property
    def indices_(self) -> NDArray[np.int64]:
        """Rows with labels, in the order of asking."""
        return self._picks.rows[self._picks.is_told]

    @property
    def labels_(self) -> NDArray[Any]:
        """Labels so far, in the order of asking."""
        if not self._picks.answers:
            raise ValueError("The tester has no labels yet: call `ask` for rows, then `tell` with their labels.")
        return self._picks.labels

    @property
    def log_proba_(self) -> Weights:
        """Log-probabilities of the picks with labels; an error while a pick before them is open."""
        return self._picks.log_proba[: self._picks.n_complete]

    @property
    def open_(self) -> NDArray[np.int64]:
        """Rows that were asked for and have no label yet, in the order of asking."""
        return self._picks.rows[~self._picks.is_told]

    def ask(self, estimator: Any, n_instances: int = 1, **training_data: Any) -> NDArray[np.int64]:
        """Choose rows to label, among those that were not asked for yet.

        Parameters
        ----------
        estimator : fitted estimator
            The model that the query scores rows with: the one to be tested, or another.
        n_instances : int, default=1
        **training_data
            ``X_training`` and ``y_training``, for queries that need them.

        Returns
        -------
        ndarray of shape (n_instances,), int64
            Positions in the pool, in the order of picking.
        """
        left = np.ones(self.n_pool, dtype=bool)
        left[self._picks.rows] = False
        query = self.query
        if hasattr(query, "select_on_a_copy"):  # the query may be in use elsewhere at the same time
            query = query.select_on_a_copy(estimator, self.X_pool, n_instances, candidates=left, **training_data)
            indices = query.indices_.copy()
        else:
            indices = query.select(estimator, self.X_pool, n_instances, candidates=left, **training_data)
        if not hasattr(query, "log_proba_"):
            raise TypeError(
                f"`query` must know the probability of its picks, and this {type(query).__name__} has no `log_proba_`. "
                "Use a StochasticBatchQuery with a sampler of skactive.samplers."
            )
        _warn_unreachable(getattr(query, "n_unreachable_", 0), int(left.sum()))
        classes = getattr(modal.unwrap(estimator)[0], "classes_", None)
        changed = {
            "_classes": None if classes is None else np.asarray(classes),
            "_picks": self._picks.asked(indices, query.log_proba_),
        }
        vars(self).update(changed)  # in one step: an interrupt leaves no half of it
        return indices

    def tell(self, labels: ArrayLike, rows: ArrayLike | None = None) -> None:
        """Add labels of rows that `ask` chose.

        Parameters
        ----------
        labels : array-like of shape (n_rows,)
            One label for each row, in their order. If the pool is a DataFrame or a Series, labels with an index are
            matched to the rows by it, in whatever order they come. None may be missing.
        rows : array-like of int, optional
            The positions in the pool that the labels belong to, from what `ask` returned: needed for part of the rows,
            and where the rows of several asks are open. By default the rows of the one ask that is open.

        Raises
        ------
        ValueError, TypeError
            If there is not one label for each row, one is missing, they are text where the model that asked knows
            numbers (or the other way about), or rows were not asked for, or have a label. The tester is then as it was.
        """
        picks = self._picks.open_picks(rows, self.n_pool)
        labels = chunks.aligned(labels, self.X_pool, "labels", self._picks.rows[picks])
        labels = _check_labels(labels, len(picks))
        if self._classes is not None:
            _check_kind(self._classes, labels)
        self._picks = self._picks.told(picks, labels)

    def risk(self, estimator: Any, loss: str | Callable[..., Any] = "log_loss") -> RiskEstimate:
        """Estimate the mean loss of a model over the pool.

        Parameters
        ----------
        estimator : fitted estimator
            Not trained on the labels of this tester.
        loss : str or callable, default="log_loss"
            A name in `LOSSES`, or ``loss(estimator, X, y) -> (n_points,)``.

        Returns
        -------
        RiskEstimate

        Raises
        ------
        ValueError, TypeError
            If there are no labels, one of a row that was asked for before others is missing, or model and labels do not
            fit together: a regressor has no "zero_one" loss, and labels must be text if those of the model are.
        """
        per_row = look_up("loss", loss, LOSSES)
        y, log_proba = self.labels_, self.log_proba_
        losses = per_row(estimator, chunks.take_rows(self.X_pool, self.indices_), y)
        return estimate_risk(losses, log_proba, self.n_pool)

    def accuracy(self, estimator: Any) -> RiskEstimate:
        """Estimate the accuracy of a classifier on the pool, as one minus its "zero_one" loss.

        Parameters
        ----------
        estimator : fitted classifier
            Not trained on the labels of this tester.

        Returns
        -------
        RiskEstimate

        Raises
        ------
        ValueError, TypeError
            As `risk` does.
        """
        errors = self.risk(estimator, "zero_one")
        return dataclasses.replace(errors, value=1 - errors.value, greater_is_better=True)


@dataclass(frozen=True)
class _Picks:
    """Rows that were asked for, in the order of asking, and what was told of them.

    A pick is a position in this order. ``asks`` says which call chose it; ``answers`` are picks with their labels.
    """

    rows: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    log_proba: Weights = field(default_factory=lambda: np.empty(0))
    asks: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    answers: tuple[tuple[NDArray[np.int64], NDArray[Any]], ...] = ()

    @property
    def is_told(self) -> NDArray[np.bool_]:
        is_told = np.zeros(len(self.rows), dtype=bool)
        for picks, _ in self.answers:
            is_told[picks] = True
        return is_told

    @property
    def labels(self) -> NDArray[Any]:
        order = np.argsort(np.concatenate([picks for picks, _ in self.answers]))
        return np.concatenate([labels for _, labels in self.answers])[order]

    @property
    def n_complete(self) -> int:
        """How many picks have labels, where these are the first ones."""
        is_told = self.is_told
        n_told = int(is_told.sum())
        gaps = self.rows[:n_told][~is_told[:n_told]]
        if len(gaps):
            raise ValueError(
                f"An estimate needs the labels of all rows in the order of asking, and row {gaps[0]} was asked for "
                f"before others that have one; {len(self.rows) - n_told} rows are open in all (`open_`). Tell their "
                "labels. Rows that nobody can label cannot be left out either: tell a label of its own for them, which "
                "counts as an error."
            )
        return n_told

    def asked(self, rows: NDArray[np.int64], log_proba: Weights) -> _Picks:
        number = self.asks.max(initial=-1) + 1
        return dataclasses.replace(
            self,
            rows=np.concatenate([self.rows, rows]),
            log_proba=np.concatenate([self.log_proba, log_proba]),
            asks=np.concatenate([self.asks, np.full(len(rows), number)]),
        )

    def told(self, picks: NDArray[np.int64], labels: NDArray[Any]) -> _Picks:
        if self.answers and kind_of_labels(self.answers[0][1]) != kind_of_labels(labels):
            raise mixed_labels_error("labels", [self.answers[0][1].item(0), labels.item(0)])
        return dataclasses.replace(self, answers=(*self.answers, (picks, labels)))

    def open_picks(self, rows: Any, n_pool: int) -> NDArray[np.int64]:
        """Picks without a label: those of some rows, or of the one ask that is open."""
        picks = np.flatnonzero(~self.is_told)
        if len(picks) == 0:
            raise ValueError(
                "`labels` must be those of rows that `ask` chose, and `ask` was not called since the last ones."
            )
        if rows is not None:
            return picks[self._where_open(check_positions("rows", rows, n_pool), self.rows[picks])]
        asks = np.unique(self.asks[picks])
        if len(asks) > 1:
            raise ValueError(
                f"`rows` must say which rows these labels belong to, as the rows of {len(asks)} asks are open. Give "
                "what `ask` returned, or the part of it that has labels now."
            )
        return picks

    def _where_open(self, rows: NDArray[np.int64], open_rows: NDArray[np.int64]) -> NDArray[np.int64]:
        wrong = rows[~np.isin(rows, open_rows)]
        if len(wrong):
            why = "has a label" if wrong[0] in self.rows else "was not asked for"
            raise ValueError(
                f"`rows` must be positions in the pool that `ask` returned and that have no label yet. Got {wrong[0]}, "
                f"which {why}, and {len(wrong)} such rows in all."
            )
        order = np.argsort(open_rows)
        return order[np.searchsorted(open_rows, rows, sorter=order)]


_LEAST_LOG_PROBA = -690.0  # below it, weights come near the largest float64
_GAPS = (
    "Tell the labels that are there with `rows`, and the others later; a row that nobody can label gets a label of its "
    "own, which counts as an error."
)
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


def _check_log_proba(log_proba: Any, n_pool: Any) -> Weights:
    """Check log-probabilities of picks, and that the pool has at least as many rows."""
    if log_proba is None:
        raise TypeError(
            "`log_proba` must be the log-probability of each pick, `query.log_proba_`. Got None: the law of a "
            "custom sampler is unknown."
        )
    log_proba = float64_array("log_proba", log_proba, booleans=False)
    if log_proba.ndim != 1 or len(log_proba) == 0:
        raise ValueError(
            "`log_proba` must have shape (n_labelled,), one number for each label in the order of purchase, "
            f"concatenated over rounds. Got shape {log_proba.shape} instead."
        )
    if not is_integer(n_pool):
        raise TypeError(f"`n_pool` must be an integer, the number of rows before the first pick. Got {n_pool!r}.")
    if n_pool < len(log_proba):
        raise ValueError(
            f"`n_pool` must be the number of rows before the first of {len(log_proba)} picks, and at least that. "
            f"Got {n_pool}."
        )
    _check_possible(log_proba)
    return log_proba


def _check_possible(log_proba: Weights) -> None:
    bad = ~((log_proba > _LEAST_LOG_PROBA) & (log_proba <= 1e-9))
    if not bad.any():
        return
    pick = int(np.flatnonzero(bad)[0])
    remedy = ""
    if log_proba[pick] <= _LEAST_LOG_PROBA:
        remedy = (
            " Rows with (almost) no chance of being picked make the estimate invalid for the whole pool: set "
            "epsilon=0.1 in the query, for example, so that a tenth of the picks are uniform."
        )
    raise ValueError(
        "`log_proba` must be natural logarithms of probabilities above 0. "
        f"Got {log_proba[pick]} for pick {pick}, and {int(bad.sum())} such picks in all.{remedy}"
    )


def _check_losses(losses: ArrayLike, n_labelled: int) -> Weights:
    values = float64_array("losses", losses)
    if values.shape != (n_labelled,):
        raise ValueError(
            f"`losses` must be one number for each of the {n_labelled} labels, in the order of purchase. "
            f"Got shape {values.shape} instead."
        )
    if not np.isfinite(values).all():
        row = int(np.flatnonzero(~np.isfinite(values))[0])
        raise ValueError(f"`losses` must be finite. Got {values[row]} in row {row}.")
    return values


def _check_labels(labels: Any, n_rows: int) -> NDArray[Any]:
    labels = plain_labels(labels, "labels", _GAPS)
    if labels.shape not in ((n_rows,), (n_rows, 1)):
        raise ValueError(
            f"`labels` must be the labels of the {n_rows} rows that were asked for, in that order. Got shape "
            f"{labels.shape}. Labels of part of them need `rows`."
        )
    return labels.ravel()


def _warn_unreachable(n_unreachable: int, n_left: int) -> None:
    if n_unreachable:
        warn(
            f"{n_unreachable} of {n_left} rows could not be picked: their score, or their rank, gives them probability "
            "0, and the estimate is not the risk on the whole pool. Set epsilon=0.1 in the query, for example, so that "
            "a tenth of the picks are uniform."
        )
