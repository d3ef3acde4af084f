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

from .. import _containers as chunks
from .. import _modal as modal
from .. import posterior as posteriors
from .._checks import as_array, is_fitted, not_fitted_error, task
from .._random import check_random_state
from ..query import score_pool
from ..risk import RiskEstimate
from ..scores import SCORES
from ._changes import Change, Kept
from ._checks import check_more_labels, check_parameters, check_risk, check_training, other_rows_error

__all__ = ["StoppingReport"]

BEST = 0.1
"""The part of the rows whose scores stand for the next batches."""

NEAR = 0.95
"""Of the ceiling, a score that more draws would raise."""

HUNDRED = 100
"""Labels that the tolerance is the price of."""


@dataclass(frozen=True)
class StoppingReport:
    """Whether it is worth going on: what the last labels brought, and what the pool still promises.

    Make one after every batch with `from_learner`, and hand each to the next as ``previous``. Its ``verdict`` is

    - "stop" if the risk is known to have reached its target, no row is left, or the ``rate`` is below ``tolerance``
      over ``patience`` labels or more;
    - "go on" if the rate is not below it;
    - "too early" while there are few labels and their rate is low, no previous report, or one class only.

    Attributes
    ----------
    labels : tuple of int
        How many labels the model had at each report so far, the last one last.
    gains : tuple of float
        What the labels between two reports brought, on rows that are still without a label; what it is says
        ``measure``.
    measure : {"probabilities", "changes", "movement"}
        "probabilities": by how much the new model takes its predictions for more accurate than those of the previous
        one, by its predict_proba; from 0 to 1. "changes", where that does not exist or other labels are predicted than
        the most probable ones: the part of the predictions that changed, which accuracy on these rows cannot have risen
        by more than. "movement", of regressors: the mean square of the change, in units of the variance of the labels.
    changed : float
        Part of the predictions that differ from the previous model's. NaN in the first report, and for regressors.
    n_rows : int
        Rows that ``changed`` and the last gain are means over: of the pool that the last batch was bought from, without
        those bought. At most a thousand, chosen at random.
    whole_pool : bool
        Whether these are all rows without a label.
    n_pool : int
        Rows without a label.
    one_class : bool
        Whether a classifier has seen labels of one class only.
    best_score, mean_score : float
        Mean score (BALD, in nats; a regressor: the standard deviation over draws, in the target's units) of the best
        tenth of the pool, and of all of it. The best tenth is chosen by one half of the draws and scored by the other
        half, which takes out the luck of being chosen; with fewer than four draws it is not. NaN for models without
        draws of their own, unless ``posterior`` says where to take them from.
    floor : float
        What ``best_score`` reaches where rows differ by nothing but noise of the draws: the mean and two standard
        errors on top. NaN with fewer than four draws.
    ceiling : float
        The most that ``best_score`` can be: log of the number of classes or of draws in a half, whichever is smaller.
        Infinite for regressors.
    risk, tolerance, patience, target_risk
        As they were given.

    References
    ----------
    Bloodgood and Vijay-Shanker (2009), A Method for Stopping Active Learning Based on Stabilizing Predictions and the
    Need for User-Adjustable Stopping, for comparing predictions on rows without labels; Bloodgood and Grothendieck
    (2013), Analysis of Stopping Active Learning based on Stabilizing Predictions, for bounds from their agreement.

    Examples
    --------
    >>> import numpy as np
    >>> from modAL.models import ActiveLearner
    >>> from sklearn.datasets import load_digits
    >>> from sklearn.linear_model import LogisticRegression
    >>> from skactive import StochasticBatchQuery, StoppingReport
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
    120 labels: stop. The last 30 brought 1... points of accuracy, by the model's own probabilities: 3... points a
    hundred labels, where it takes 5 to go on (`tolerance`). The last batch changed 1... % of the predictions on 99...
    rows; below 2... % on the pool, with 95 % confidence. By BALD, labels of the pool's best tenth tell 1... times as
    much as those of its average row.
    """

    labels: tuple[int, ...]
    gains: tuple[float, ...]
    measure: str
    changed: float
    n_rows: int
    whole_pool: bool
    n_pool: int
    one_class: bool
    best_score: float
    mean_score: float
    floor: float
    ceiling: float
    risk: RiskEstimate | None
    tolerance: float
    patience: int
    target_risk: float | None
    _kept: Kept = field(repr=False, compare=False)

    @classmethod
    def from_learner(
        cls,
        learner: Any,
        X_pool: Any,
        previous: StoppingReport | None = None,
        *,
        tolerance: float = 0.05,
        patience: int = 30,
        risk: RiskEstimate | None = None,
        target_risk: float | None = None,
        n_draws: int | None = None,
        posterior: Any = "auto",
        X_training: Any = None,
        y_training: Any = None,
        random_state: Any = None,
    ) -> StoppingReport:
        """Report on a learner that has just been taught, and the pool that is left.

        It costs predictions for two thousand rows at most, and draws for one. Nothing is changed.

        Parameters
        ----------
        learner : modAL learner, or fitted estimator
        X_pool : array-like of shape (n_points, ...)
            Rows without a label, in any container that `StochasticBatchQuery.select` takes; none may be left.
        previous : StoppingReport, optional
            That of the batch before.
        tolerance : float, default=0.05
            The gain that makes a hundred labels worth their price: 0.05 is five points of accuracy, or half a point for
            ten labels.
        patience : int, default=30
            Over how many labels the gain must be less than that, in the mean.
        risk : RiskEstimate, optional
            Of this model or, a batch ago, the last one: a loss, or `~skactive.risk.ActiveTester.accuracy`.
        target_risk : float, optional
            The risk, or accuracy, that is good enough.
        n_draws, posterior : optional
            As in `StochasticBatchQuery`, but models without draws of their own are not bootstrapped unless
            ``posterior="bootstrap"`` says so.
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
            If training data are not known, the pool does not fit the model, the previous report is not one of fewer
            labels, rows and predictions of the same kind, or a parameter is not valid.
        sklearn.exceptions.NotFittedError
            If the estimator is not fitted.
        """
        check_parameters(previous, cls, tolerance, patience)
        check_risk(risk, target_risk)
        estimator, X_training, y_training = modal.unwrap(learner, X_training, y_training)
        check_training(X_training, y_training)
        if not is_fitted(estimator):
            raise not_fitted_error(estimator)
        X_pool = chunks.prepare_pool(X_pool)
        n_pool, n_labelled = chunks.count_rows(X_pool), chunks.count_rows(X_training)
        if previous is not None:
            check_more_labels(previous.labels[-1], n_labelled)
            if n_pool and chunks.layout(previous._kept.X) != chunks.layout(chunks.take_rows(X_pool, np.arange(1))):
                raise other_rows_error()
        rng = check_random_state(random_state)
        kept = Kept.of(estimator, X_pool, rng)
        scores = _Scores()
        if n_pool and _has_draws(estimator, posterior):
            scores = _Scores.of(
                estimator,
                kept.X,
                n_draws=n_draws,
                posterior=posterior,
                X_training=X_training,
                y_training=y_training,
                random_state=rng,
            )
        change = Change(np.nan, np.nan, "changes", 0, is_all=False)
        if previous is not None:
            change = Change.since(previous._kept, estimator, X_training, y_training)
        return cls(
            labels=(n_labelled,) if previous is None else (*previous.labels, n_labelled),
            gains=() if previous is None else (*previous.gains, change.gain),
            measure=change.measure,
            changed=change.changed,
            n_rows=change.n_rows,
            whole_pool=change.is_all,
            n_pool=n_pool,
            one_class=task(estimator) == "classifier" and len(np.unique(as_array(y_training))) == 1,
            **vars(scores),
            risk=risk,
            tolerance=tolerance,
            patience=patience,
            target_risk=target_risk,
            _kept=kept,
        )

    @property
    def verdict(self) -> str:
        """Whether to "go on" or to "stop", or that it is "too early" to tell."""
        if self._standing() == "reached" or self.n_pool == 0:
            return "stop"
        if not self.gains or self.one_class:
            return "too early"
        if self.rate >= self.tolerance:
            return "go on"
        return "stop" if self._n_last(self._n_recent()) >= self.patience else "too early"

    @property
    def rate(self) -> float:
        """Gain of a hundred labels: the mean over the last ``patience`` of them, or somewhat more; NaN if unknown."""
        n_reports = self._n_recent()
        if n_reports == 0:
            return np.nan
        return HUNDRED * sum(self.gains[-n_reports:]) / self._n_last(n_reports)

    def changed_interval(self, level: float = 0.95) -> tuple[float, float]:
        """Ends of the interval that holds ``changed`` on the whole pool with this probability (Clopper, Pearson)."""
        if np.isnan(self.changed) or self.whole_pool:
            return self.changed, self.changed
        n_changed = round(self.changed * self.n_rows)
        interval = stats.binomtest(n_changed, self.n_rows).proportion_ci(level)
        return float(interval.low), float(interval.high)

    def __str__(self) -> str:
        sentences = [self._on_labels(), self._on_gains(), self._on_predictions(), self._on_risk(), self._on_scores()]
        return " ".join([f"{self.labels[-1]} labels: {self.verdict}.", *filter(None, sentences)])

    def _n_recent(self) -> int:
        """How many reports cover the last ``patience`` labels; all of them if they do not."""
        counts = range(1, len(self.gains) + 1)
        return next((n for n in counts if self._n_last(n) >= self.patience), len(self.gains))

    def _n_last(self, n_reports: int) -> int:
        return self.labels[-1] - self.labels[-1 - n_reports]

    def _standing(self) -> str:
        """Whether the whole interval of the risk is on the one side of its target or the other; "" if it is neither."""
        risk, target = self.risk, self.target_risk
        if risk is None or target is None or (risk.standard_error == 0 and risk.n_labelled < risk.n_pool):
            return ""  # losses that are all equal have no spread to tell an interval from
        low, high = risk.interval()
        above, below = low >= target, high <= target
        reached, missed = (above, below) if risk.greater_is_better else (below, above)
        return "reached" if reached else "missed" if missed else ""

    def _on_labels(self) -> str:
        if self.n_pool == 0:
            return "No rows are left."
        if self.one_class:
            return "They are all of one class, of which nothing can be learned."
        if self.gains or self.verdict == "stop":
            return ""
        return "Hand this report over as `previous` after the next batch."

    def _on_gains(self) -> str:
        if not self.gains or self.one_class:
            return ""
        n_reports = self._n_recent()
        gain, n_last = sum(self.gains[-n_reports:]), self._n_last(n_reports)
        brought = {
            "probabilities": f"brought {_points(gain)} of accuracy, by the model's own probabilities",
            "changes": f"brought {_points(gain)} of accuracy at most, as many predictions as changed",
            "movement": f"moved predictions by {_percent(gain)} of the variance of the labels",
        }[self.measure]
        of_hundred = (_percent if self.measure == "movement" else _points)(self.rate)
        few = f", but {self.patience} must have come in to tell" if self.verdict == "too early" else ""
        return (
            f"The last {n_last} {brought}: {of_hundred} a hundred labels, where it takes {100 * self.tolerance:g} to "
            f"go on (`tolerance`){few}."
        )

    def _on_predictions(self) -> str:
        if np.isnan(self.changed):
            return ""
        below = f"; below {_percent(self.changed_interval(0.9)[1])} on the pool, with 95 % confidence"
        return (
            f"The last batch changed {_percent(self.changed)} of the predictions on {self.n_rows} rows"
            f"{'' if self.whole_pool else below}."
        )

    def _on_risk(self) -> str:
        if self.risk is None:
            return ""
        name = "accuracy" if self.risk.greater_is_better else "risk"
        if self.target_risk is None:
            return f"The {name} is {self.risk}."
        if self._standing() == "reached":
            return f"The {name} has reached its target of {self.target_risk:g}: {self.risk}."
        if self._standing() == "missed" and self.verdict == "stop":
            remedy = ": another model, or other columns, may do what labels do not"
            return f"The {name} misses its target of {self.target_risk:g}{remedy}: {self.risk}."
        return f"The {name} is not known to have reached its target of {self.target_risk:g}: {self.risk}."

    def _on_scores(self) -> str:
        if np.isnan(self.best_score):
            return ""
        if self.best_score > NEAR * self.ceiling:
            return "The draws disagree as much as they can: with more of them, scores would tell rows apart better."
        if self.best_score <= self.floor:
            return "The draws do not tell rows of the pool apart: more draws may, or random rows are as good."
        times = self.best_score / self.mean_score
        if self.ceiling == np.inf:
            return f"The model is {times:.2g} times as unsure of the pool's best tenth as of its average row."
        return f"By BALD, labels of the pool's best tenth tell {times:.2g} times as much as those of its average row."


@dataclass(frozen=True)
class _Scores:
    """What scores of the pool say; the names are those of the report."""

    best_score: float = np.nan
    mean_score: float = np.nan
    floor: float = np.nan
    ceiling: float = np.nan

    @classmethod
    def of(cls, estimator: Any, rows: Any, **source: Any) -> _Scores:
        """Scores by all draws, and by every second one."""
        name = "std_dev" if task(estimator) == "regressor" else "bald"
        parts = {
            name: _OfDraws(SCORES[name], 0, 1),
            "even": _OfDraws(SCORES[name], 0, 2),
            "odd": _OfDraws(SCORES[name], 1, 2),
        }
        values, even, odd = score_pool(estimator, rows, parts, **source).values()
        n_draws, *n_classes = parts[name].axes
        mean, best, floor = float(values.mean()), _best(values, values), np.nan
        if n_draws >= 4:
            n_draws //= 2
            best = np.concatenate([_best(even, odd), _best(odd, even)])
            floor = mean + 2 * best.std() / np.sqrt(len(best))
        return cls(
            best_score=float(best.mean()),
            mean_score=mean,
            floor=float(floor),
            ceiling=float(np.log(min(n_draws, *n_classes))) if n_classes else float("inf"),
        )


class _OfDraws:
    """A score of every so many draws, which remembers how many draws and classes there were."""

    one_draw = False

    def __init__(self, score: Callable[[Any], Any], first: int, step: int) -> None:
        self.score, self.first, self.step = score, first, step

    def __call__(self, draws: Any) -> Any:
        self.axes = [length for axis, length in enumerate(draws.shape) if axis != 1]
        return self.score(draws[self.first :: self.step])


def _best(chosen_by: NDArray[np.float64], values: NDArray[np.float64]) -> NDArray[np.float64]:
    n_best = max(1, round(BEST * len(values)))
    return values[np.argsort(-chosen_by, kind="stable")[:n_best]]


def _has_draws(estimator: Any, posterior: Any) -> bool:
    """Whether draws come without refitting, or are wanted nevertheless."""
    is_auto = isinstance(posterior, str) and posterior == "auto"
    return not is_auto or posteriors.has_source(posteriors.innermost(estimator))


def _points(gain: float) -> str:
    return f"{100 * gain:.2g} points"


def _percent(share: float) -> str:
    return f"{100 * share:.2g} %" if share < 0.995 else f"{100 * share:.0f} %"
