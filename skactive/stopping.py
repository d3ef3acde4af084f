"""Whether more labels are worth their price, from what the last ones changed and what the rest of the pool promises.

Nobody knows the accuracy that labels not yet bought would bring. What can be known without a test set: how many
predictions the last labels changed, which bounds what they did to the accuracy; what those changes are worth by the
model's own probabilities; whether scores still tell rows of the pool apart; and, if test labels were bought
(`skactive.risk`), how good the model is. A `StoppingReport` puts these side by side, with a verdict and a sentence.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from . import _chunks as chunks
from . import _modal as modal
from . import _validation as validation
from . import _validation_stopping as stopping_checks
from .query import score_pool
from .risk import RiskEstimate
from .scores import SCORES

__all__ = ["StoppingReport"]

MOST_ROWS = 1_000
"""Rows of the pool that a report looks at: shares of them are right to one or two points."""

MOST_BYTES = 8 * 2**20
"""And what the rows take that it keeps."""

BEST = 0.1
"""The part of the rows whose scores stand for the next batches."""

NEAR = 0.95
"""Of the ceiling, a score that more draws would raise."""


@dataclass(frozen=True)
class StoppingReport:
    """Whether it is worth going on: what the last labels brought, and what the pool still promises.

    Make one after every batch with `from_learner`, and hand each to the next as ``previous``.

    Attributes
    ----------
    verdict : {"go on", "stop", "too early"}
        "stop" if the risk is known to be below its target, or the mean of the last ``patience`` gains is below
        ``tolerance``; "too early" while there are fewer gains, and none that speaks for going on.
    n_labelled : int or None
        Labels that the model was fitted to, if known.
    gain : float
        What the labels since the previous report brought, by the model's own reckoning: by how much it takes its
        predictions on the pool for more accurate than the previous model's, from 0 to 1. A regressor: the mean square
        of the change, in units of the variance of predictions, as in R². Without predict_proba: the same as
        ``changed``. NaN in the first report.
    gains : tuple of float
        Gains of all reports so far, the last one last.
    changed : float
        Part of the predictions that differ from the previous model's: the accuracy on the pool cannot have changed by
        more. NaN in the first report, and for regressors.
    n_rows : int
        Rows of the pool that predictions are compared on, always the same.
    best_score, mean_score : float
        Mean score (BALD, in nats; a regressor: the standard deviation over draws, in the target's units) of the best
        tenth of the pool, and of all of it. The best tenth is chosen by one half of the draws and scored by the other
        half, which takes out the luck of being chosen; with fewer than four draws it is not.
    floor : float
        What ``best_score`` reaches where rows differ by nothing but noise of the draws: the mean and two standard
        errors on top. NaN with fewer than four draws.
    ceiling : float
        The most that scores from so many draws and classes can be: log of the smaller number. Infinite for regressors.
    risk : RiskEstimate or None
        As it was given.
    tolerance, patience, target_risk : float, int, float or None
        As they were given.

    References
    ----------
    Bloodgood and Vijay-Shanker (2009), A Method for Stopping Active Learning Based on Stabilizing Predictions and the
    Need for User-Adjustable Stopping, for a fixed set of rows whose predictions are compared; Bloodgood and
    Grothendieck (2013), Analysis of Stopping Active Learning based on Stabilizing Predictions, for bounds from that.

    Examples
    --------
    >>> import numpy as np
    >>> from modAL.models import ActiveLearner
    >>> from sklearn.datasets import load_digits
    >>> from sklearn.linear_model import LogisticRegression
    >>> from skactive import StochasticBatchQuery
    >>> from skactive.stopping import StoppingReport
    >>> X, y = load_digits(return_X_y=True)
    >>> X, left = X / 16, np.arange(50, len(y))
    >>> learner = ActiveLearner(
    ...     LogisticRegression(), StochasticBatchQuery(random_state=0), X_training=X[:50], y_training=y[:50]
    ... )
    >>> report = StoppingReport.from_learner(learner, X[left], random_state=0)
    >>> while report.verdict != "stop":
    ...     idx, _ = learner.query(X[left], n_instances=10)
    ...     learner.teach(X[left[idx]], y[left[idx]])
    ...     left = np.delete(left, idx)
    ...     report = StoppingReport.from_learner(learner, X[left], report, random_state=0)
    >>> print(report)
    120 labels: stop. By the model's own reckoning the last 3 batches brought 0.4... points each, less than the 0.5 that
    make one worth its price. The last batch changed 1... % of the predictions (2... % at most). The best tenth of the
    pool scores 0.7..., the mean of it 0.5....
    """

    verdict: str
    n_labelled: int | None
    gain: float
    gains: tuple[float, ...]
    changed: float
    n_rows: int
    best_score: float
    mean_score: float
    floor: float
    ceiling: float
    risk: RiskEstimate | None
    tolerance: float
    patience: int
    target_risk: float | None
    _kept: _Kept = field(repr=False, compare=False)

    @classmethod
    def from_learner(
        cls,
        learner: Any,
        X_pool: Any,
        previous: StoppingReport | None = None,
        *,
        tolerance: float = 0.005,
        patience: int = 3,
        risk: RiskEstimate | None = None,
        target_risk: float | None = None,
        n_draws: int | None = None,
        posterior: Any = "auto",
        X_training: Any = None,
        y_training: Any = None,
        random_state: Any = None,
    ) -> StoppingReport:
        """Report on a learner that has just been taught, and the pool that is left.

        It costs predictions for a thousand rows at most, and draws for as many. Nothing is changed.

        Parameters
        ----------
        learner : modAL learner, or fitted estimator
        X_pool : array-like of shape (n_points, ...)
            Rows without a label, in any container that `StochasticBatchQuery.select` takes.
        previous : StoppingReport, optional
            That of the batch before. Its rows are predicted again.
        tolerance : float, default=0.005
            The gain of a batch that is worth its price: 0.005 is half a point of accuracy.
        patience : int, default=3
            Over how many batches the gain must be below that, in the mean.
        risk : RiskEstimate, optional
            Of this model or, a batch ago, the last one; of a loss, which is the better the lower.
        target_risk : float, optional
            The risk that is low enough.
        n_draws, posterior : optional
            As in `StochasticBatchQuery`.
        X_training, y_training : array-like, optional
            What the estimator was fitted to. A learner brings its own.
        random_state : None, int, numpy Generator or RandomState
            Choice of rows, and draws.

        Returns
        -------
        StoppingReport

        Raises
        ------
        ValueError, TypeError
            If the pool is empty or does not fit the model, rows of the previous report were of another kind, a
            parameter is not valid, or training data are not known.
        sklearn.exceptions.NotFittedError
            If the estimator is not fitted.
        """
        stopping_checks.check_parameters(previous, cls, tolerance, patience)
        stopping_checks.check_risk(risk, target_risk)
        estimator, known_X, known_y = modal.unwrap(learner)
        X_training = known_X if X_training is None else X_training
        y_training = known_y if y_training is None else y_training
        if not validation.is_fitted(estimator):
            raise validation.not_fitted_error(estimator)
        validation.check_pool(X_pool)
        X_pool = chunks.prepare_pool(X_pool)
        rng = validation.check_random_state(random_state)
        rows = _some_rows(X_pool, rng)
        scores = _Scores.of(
            estimator,
            rows,
            n_draws=n_draws,
            posterior=posterior,
            X_training=X_training,
            y_training=y_training,
            random_state=rng,
        )
        X_kept = rows if previous is None else previous._kept.X
        if chunks.layout(X_kept) != chunks.layout(rows):
            raise stopping_checks.other_rows_error()
        kept = _Kept(X_kept, stopping_checks.check_predictions(estimator.predict(X_kept), chunks.count_rows(X_kept)))
        gain, changed = (np.nan, np.nan) if previous is None else _gain(estimator, kept, previous._kept.predictions)
        gains = () if previous is None else (*previous.gains, gain)
        return cls(
            verdict=_verdict(gains, tolerance, patience, risk, target_risk),
            n_labelled=None if X_training is None else chunks.count_rows(X_training),
            gain=gain,
            gains=gains,
            changed=changed,
            n_rows=chunks.count_rows(X_kept),
            **vars(scores),
            risk=risk,
            tolerance=tolerance,
            patience=patience,
            target_risk=target_risk,
            _kept=kept,
        )

    def changed_interval(self, level: float = 0.95) -> tuple[float, float]:
        """Ends of the interval that holds ``changed`` on the whole pool with this probability (Clopper, Pearson)."""
        if np.isnan(self.changed):
            return np.nan, np.nan
        n_changed = round(self.changed * self.n_rows)
        interval = stats.binomtest(n_changed, self.n_rows).proportion_ci(level)
        return float(interval.low), float(interval.high)

    def __str__(self) -> str:
        sentences = [self._reason(), self._on_predictions(), self._on_risk(), self._on_scores()]
        labels = "" if self.n_labelled is None else f"{self.n_labelled} labels: "
        return " ".join([f"{labels}{self.verdict}.", *filter(None, sentences)])

    def _reason(self) -> str:
        """Why the verdict is what it is."""
        if self.verdict == "too early":
            n_more = self.patience - len(self.gains)
            return f"Report after each of the next {n_more} batches to learn more."
        if _is_reached(self.risk, self.target_risk):
            return f"The risk is below its target of {self.target_risk:g}."
        gains = self.gains[-self.patience :]
        brought = f"{100 * np.mean(gains):.2g} points"
        several = f"the last {len(gains)} batches brought {brought} each"
        batches = several if len(gains) > 1 else f"the last batch brought {brought}"
        compared = "less" if self.verdict == "stop" else "no less"
        return (
            f"By the model's own reckoning {batches}, {compared} than the {100 * self.tolerance:g} that make one worth "
            "its price."
        )

    def _on_predictions(self) -> str:
        if np.isnan(self.changed):
            return ""
        most = self.changed_interval()[1]
        return f"The last batch changed {_percent(self.changed)} of the predictions ({_percent(most)} at most)."

    def _on_risk(self) -> str:
        if self.risk is None:
            return ""
        missed = self.target_risk is not None and self.risk.interval()[0] > self.target_risk
        if self.verdict == "stop" and missed:
            return (
                f"The risk, {self.risk}, misses its target: a better model or other columns may do what labels do not."
            )
        return f"The risk is {self.risk}."

    def _on_scores(self) -> str:
        if self.best_score > NEAR * self.ceiling:
            return "The draws disagree as much as they can: scores of more draws would tell rows apart better."
        if self.best_score <= self.floor:
            return "No rows of the pool are known to be better than others: random ones are as good."
        return f"The best tenth of the pool scores {self.best_score:.2g}, the mean of it {self.mean_score:.2g}."


@dataclass(frozen=True)
class _Kept:
    """Rows that were in the pool at the first report, and the last model's predictions for them."""

    X: Any
    predictions: NDArray[Any]


@dataclass(frozen=True)
class _Scores:
    """What scores of the pool say; the names are those of the report."""

    best_score: float
    mean_score: float
    floor: float
    ceiling: float

    @classmethod
    def of(cls, estimator: Any, rows: Any, **source: Any) -> _Scores:
        """Scores by all draws, and by every second one."""
        score = SCORES["std_dev" if _is_regressor(estimator) else "bald"]
        parts = {"all": _OfDraws(score, 0, 1), "even": _OfDraws(score, 0, 2), "odd": _OfDraws(score, 1, 2)}
        values, even, odd = score_pool(estimator, rows, parts, **source).values()
        n_draws, *n_classes = parts["all"].axes
        mean, best, floor = float(values.mean()), _best(values, values), np.nan
        if n_draws >= 4:
            best = np.concatenate([_best(even, odd), _best(odd, even)])
            floor = mean + 2 * best.std() / np.sqrt(len(best))
        return cls(
            best_score=float(best.mean()),
            mean_score=mean,
            floor=float(floor),
            ceiling=float(np.log(min(n_draws, *n_classes))) if n_classes else float("inf"),
        )


def _best(chosen_by: NDArray[np.float64], values: NDArray[np.float64]) -> NDArray[np.float64]:
    n_best = max(1, round(BEST * len(values)))
    return values[np.argsort(-chosen_by, kind="stable")[:n_best]]


class _OfDraws:
    """A score of every so many draws, which remembers how many draws and classes there were."""

    one_draw = False

    def __init__(self, score: Callable[[Any], Any], first: int, step: int) -> None:
        self.score, self.first, self.step = score, first, step

    def __call__(self, draws: Any) -> Any:
        self.axes = [length for axis, length in enumerate(draws.shape) if axis != 1]
        return self.score(draws[self.first :: self.step])


def _is_regressor(estimator: Any) -> bool:
    return validation.task(estimator) == "regressor"


def _some_rows(X_pool: Any, rng: np.random.Generator) -> Any:
    n = chunks.count_rows(X_pool)
    n_some = min(n, MOST_ROWS, chunks.rows_per_chunk(X_pool, 1, MOST_BYTES))
    return chunks.take_rows(X_pool, np.sort(rng.choice(n, n_some, replace=False)))


def _gain(estimator: Any, kept: _Kept, before: NDArray[Any]) -> tuple[float, float]:
    """What the change of predictions is worth by the new model, and the part of them that changed."""
    now = kept.predictions
    if _is_regressor(estimator):
        spread = float(now.var())
        change = float(np.mean((now - before) ** 2))
        return change / spread if spread > 0 else float(change > 0), np.nan
    differs = now != before
    changed = float(differs.mean())
    if not hasattr(estimator, "predict_proba"):
        return changed, changed
    rows = chunks.take_rows(kept.X, np.flatnonzero(differs))
    if not changed:
        return 0.0, 0.0
    probabilities = validation.check_one_output(estimator.predict_proba(rows), estimator)
    classes = np.asarray(estimator.classes_)
    better = [(probabilities * (labels[differs, None] == classes)).sum(axis=1) for labels in (now, before)]
    return float(np.sum(better[0] - better[1]) / len(now)), changed


def _verdict(
    gains: tuple[float, ...], tolerance: float, patience: int, risk: RiskEstimate | None, target_risk: float | None
) -> str:
    if _is_reached(risk, target_risk):
        return "stop"
    enough = len(gains) > 0 and float(np.mean(gains[-patience:])) >= tolerance
    return "go on" if enough else "too early" if len(gains) < patience else "stop"


def _is_reached(risk: RiskEstimate | None, target_risk: float | None) -> bool:
    return risk is not None and target_risk is not None and risk.interval()[1] <= target_risk


def _percent(share: float) -> str:
    return f"{100 * share:.2g} %"
