"""What a report goes by: what labels brought, and how far the model can be believed.

Predictions before and after some labels are compared on rows without one. How far a model can be believed is seen on
labels that it had not been taught when it was asked.
"""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import _containers as containers
from .. import _modal as modal
from .._utils.types import Auto, Floats, Indices, StoppingMeasure
from .._utils.validation import as_array, check_fitted, check_is_model, kind_of_labels, plain_labels, task
from ..posterior._registry import class_probabilities
from ..query._pool import check_last_fit
from ..risk import ActiveTester, RiskEstimate

MOST_ROWS = 1_000  # that are compared: enough for a standard error of at most 1.6 points
_MOST_BYTES = 8 * 2**20  # of these rows, which are kept between reports
MOST_BATCHES = 10  # that are looked back on: what a model was like before is of no use
_SURE = 2.576  # standard errors that a slope must be off 0: 99 %, as reports are looked at again and again
_PRIOR = 1.0  # weight of the assumption that a model is right about itself: that of two labels of which it is sure
_WIDEST = 0.5  # interval, as a part of what a loss can be, with which an accuracy or risk counts as known


@dataclass(frozen=True)
class Taught:
    """A learner that was just taught: its model, its labels, and the rows without one."""

    estimator: Any
    X: Any
    y: NDArray[Any]
    X_pool: Any

    @classmethod
    def checked(cls, learner: Any, X_pool: Any, X_training: Any, y_training: Any) -> Taught:
        estimator, X, y = modal.unwrap(learner, X_training, y_training)
        if X is None or y is None:
            raise ValueError(
                "`X_training` and `y_training` must be given with an estimator: a report counts the labels that it was "
                "fitted to. A modAL learner has its own."
            )
        check_is_model(estimator)
        check_last_fit(learner, y)
        y = plain_labels(containers.aligned(y, X, "y_training"), "y_training")
        X_pool, X = containers.prepare_pool(X_pool), containers.prepare_pool(X, "X_training")
        check_fitted(estimator, lambda: containers.take_rows(X, np.arange(1)))
        return cls(estimator, X, y, X_pool)

    @functools.cached_property
    def keys(self) -> list[Any]:
        """What each training row holds: equal for equal rows, whatever type of number or container holds them."""
        return containers.row_keys(self.X)

    @property
    def n_labels(self) -> int:
        return containers.count_rows(self.X)

    @property
    def n_pool(self) -> int:
        return containers.count_rows(self.X_pool)

    @property
    def is_classifier(self) -> bool:
        return task(self.estimator) != "regressor"

    @property
    def counts(self) -> Indices:
        """Labels of each class; of numbers none."""
        return np.unique(self.y if self.is_classifier else self.y[:0], return_counts=True)[1]


@dataclass(frozen=True)
class Snapshot:
    """Rows of a pool, what a model predicts for them, and the model."""

    X: Any
    predictions: NDArray[Any]
    probabilities: Floats | None  # (n_rows, n_classes); None if predictions are not the most probable labels
    classes: NDArray[Any]  # none of regressors
    shares: Floats  # of the labels that the model had, of each class
    is_all: bool  # whether these rows are the whole pool
    n_labels: int  # that the model had
    model: Any  # a copy, as learners fit the same object again; None of what cannot be copied

    @classmethod
    def of(cls, now: Taught, rng: np.random.Generator) -> Snapshot:
        """Rows at random, at most ``MOST_ROWS``."""
        n, X_pool, estimator = now.n_pool, now.X_pool, now.estimator
        n_kept = min(n, MOST_ROWS, containers.rows_per_chunk(X_pool, 1, _MOST_BYTES)) if n else 0
        X = containers.take_rows(X_pool, np.sort(rng.choice(n, n_kept, replace=False)) if n else np.arange(0))
        predictions, probabilities = answers_of(estimator, X, n_kept) if n else (np.empty(0), None)
        classes = np.array(getattr(estimator, "classes_", np.unique(now.y)) if now.is_classifier else [])
        shares = np.array([np.mean(now.y == label) for label in classes])
        return cls(X, predictions, probabilities, classes, shares, n_kept == n, now.n_labels, _copy_of(estimator))

    @property
    def commonest(self) -> Any:
        """The class with the most labels, which a guess names always; None of regressors."""
        return self.classes[self.shares.argmax()] if len(self.classes) else None

    def chances(self, predictions: NDArray[Any], probabilities: Floats | None) -> Floats:
        """Probabilities of the classes (n_rows, n_classes); 1 for what is predicted by a model that has none."""
        return (predictions[:, np.newaxis] == self.classes) * 1.0 if probabilities is None else probabilities

    def advantage(self, slope: float, scoring: str) -> float:
        """How much better than naming always the commonest class the model is on these rows, if so far to be believed.

        Its probabilities are drawn towards the shares of the classes by ``slope``. NaN without rows.
        """
        if len(self.predictions) == 0:
            return np.nan
        p = self.chances(self.predictions, self.probabilities)
        return MEASURES[scoring](self.shares + slope * (p - self.shares), np.tile(self.shares, (len(p), 1)), p)

    def without(self, keys: Sequence[Any]) -> Snapshot:
        """Those that are not among the rows of these keys."""
        taught = set(keys)
        left = np.array([key not in taught for key in containers.row_keys(self.X)], dtype=bool)
        probabilities = None if self.probabilities is None else self.probabilities[left]
        X = containers.take_rows(self.X, np.flatnonzero(left))
        return replace(self, X=X, predictions=self.predictions[left], probabilities=probabilities)

    def judged(self, later: Snapshot, judge: Any, scoring: str) -> float:
        """How much better the predictions of a later model are than those kept here, by a third model's probabilities.

        The third knows more labels than either. A model cannot judge itself: it believes its own mistakes, and where
        two models differ by chance alone it always takes its own side.
        """
        n_rows = len(self.predictions)
        chance = answers_of(judge, self.X, n_rows)[1] if n_rows and later.model is not None else None
        if chance is None or self.probabilities is None:
            return np.nan
        now = answers_of(later.model, self.X, n_rows)[1]
        if now is None:
            return np.nan
        known = np.asarray(judge.classes_)
        sides = _aligned(self.probabilities, self.classes, known), _aligned(now, later.classes, known)
        return MEASURES[scoring](chance, *sides)


def answers_of(estimator: Any, X: Any, n_rows: int) -> tuple[NDArray[Any], Floats | None]:
    """Predictions, and the probabilities of all classes if predictions are the most probable ones."""
    predictions = _check_predictions(estimator.predict(X), n_rows)
    if task(estimator) == "regressor" or not hasattr(estimator, "predict_proba"):
        return predictions, None
    probabilities, classes = class_probabilities(estimator, X)
    chosen = (probabilities * (predictions[:, None] == classes)).sum(axis=1)
    # 1e-6: probabilities of float32 differ by less between two ways to compute them
    return predictions, None if np.any(chosen < probabilities.max(axis=1) - 1e-6) else probabilities


def _copy_of(estimator: Any) -> Any:
    try:
        return copy.deepcopy(estimator)
    except Exception:  # of what holds a lock, say: then nothing can be said of its trust in itself
        return None


def _change(before: Snapshot, now: Taught) -> tuple[str, float, float]:
    """How to measure what changed since a model of fewer labels, its gain, and the fraction of other predictions.

    The gain is NaN where the next model must judge it, the fraction for regressors.
    """
    n_rows = len(before.predictions)
    if n_rows == 0:  # nothing to compare: unknown, not nothing
        return "changes" if now.is_classifier else "movement", np.nan, np.nan
    predictions, chance = answers_of(now.estimator, before.X, n_rows)
    _check_same_kind(before.predictions, predictions)
    if not now.is_classifier:
        moved, spread = float(np.mean((predictions - before.predictions) ** 2)), float(np.var(now.y))
        return "movement", moved / spread if spread > 0 else float(moved > 0), np.nan
    changed = float(np.mean(predictions != before.predictions))
    if chance is not None and before.probabilities is not None and before.model is not None:
        return "probabilities", np.nan, changed  # which another model has to judge
    return "changes", changed, changed


@dataclass(frozen=True)
class Gains:
    """What labels brought so far; the attributes are those of `skactive.StoppingReport`."""

    gains: tuple[float, ...] = ()
    recent: float = np.nan
    n_recent: int = 0
    measure: str = "changes"
    changed: float = np.nan
    n_rows: int = 0
    whole_pool: bool = False

    def after(self, now: Taught, past: Sequence[Snapshot], left: Snapshot, slope: float, scoring: str) -> Gains:
        """With a batch more; ``past`` are models of fewer labels, ``left`` rows of the last one without a label now."""
        measure, gain, changed = _change(left, now)
        seen: dict[str, Any] = {"measure": measure, "changed": changed}
        seen |= {"n_rows": len(left.predictions), "whole_pool": left.is_all}
        first, last = past[0], past[-1]
        if measure != "probabilities":
            recent = _change(first.without(now.keys), now)[1]
            return Gains((*self.gains, gain), recent, now.n_labels - first.n_labels, **seen)
        if len(past) == 1:  # no batch before this one, whose gain its model could judge
            return Gains(self.gains, **seen)
        gain, recent = (
            slope * then.without(now.keys).judged(last, now.estimator, scoring) for then in (past[-2], first)
        )
        gain = _limited(gain, self.gains, len(now.counts), scoring)
        return Gains((*self.gains, gain), recent, last.n_labels - first.n_labels, **seen)


def _limited(gain: float, before: tuple[float, ...], n_classes: int, scoring: str) -> float:
    """A gain as far as those before it leave room: all of them are no more than what a guess leaves."""
    if scoring == "log_loss" or np.isnan(gain):
        return gain
    return float(min(gain, max(0.0, 1 - 1 / max(2, n_classes) - np.nansum(np.maximum(before, 0)))))


def _aligned(probabilities: Floats, classes: Any, classes_now: Any) -> Floats:
    return probabilities @ (np.asarray(classes)[:, np.newaxis] == np.asarray(classes_now)).astype(np.float64)


def _check_predictions(predictions: Any, n_rows: int) -> NDArray[Any]:
    predictions = as_array(predictions)
    if predictions.shape not in ((n_rows,), (n_rows, 1)):
        raise ValueError(
            f"`learner` must predict one target. Got predictions of shape {predictions.shape} for {n_rows} rows."
        )
    return predictions.reshape(n_rows)


def _check_same_kind(before: NDArray[Any], now: NDArray[Any]) -> None:
    then, kind = kind_of_labels(before), kind_of_labels(now)
    if then != kind:
        raise ValueError(
            f"`previous` must be a report on the same kind of labels. Its predictions were {then}, but now they are "
            f"{kind}. Omit `previous` to start again."
        )


@dataclass(frozen=True)
class Tested:
    """Labels of one batch, against what the model before it had said of them: one number a row."""

    spread: Floats  # square of the model's probabilities less the shares of the classes, summed over classes
    agreement: Floats  # product of the same with labels (1 or 0) less the shares, summed over classes
    confidence: Floats  # probability of the predicted label
    right: Floats
    named: Floats  # whether the label is the commonest of those that the model knew

    @classmethod
    def of(cls, then: Snapshot, X: Any, y: NDArray[Any]) -> Tested | None:
        """None without labels, or of a model that could not be copied."""
        if len(y) == 0 or then.model is None:
            return None
        predictions, probabilities = answers_of(then.model, X, len(y))
        p = then.chances(predictions, probabilities)
        said, true = p - then.shares, (y[:, np.newaxis] == then.classes) - then.shares
        sums = (said**2).sum(axis=1), (said * true).sum(axis=1)
        return cls(*sums, p.max(axis=1), (predictions == y) * 1.0, (y == then.commonest) * 1.0)


@dataclass(frozen=True)
class Trust:
    """The slope of labels against probabilities: 1 for a model that knows how good it is, 0 where they tell nothing.

    The attributes are described in `skactive.StoppingReport`.
    """

    slope: float = 1.0
    low: float = 0.0
    high: float = 1.0
    n_labels: int = 0
    confidence: float = np.nan
    right: float = np.nan
    guess: float = np.nan

    @classmethod
    def of(cls, tested: Sequence[Tested]) -> Trust:
        """From the last batches: least squares through the shares of the classes."""
        if not tested:
            return cls()
        spread, agreement, *shown = (np.concatenate(of) for of in zip(*(vars(t).values() for t in tested), strict=True))
        weight = float(spread.sum()) + _PRIOR
        slope = (float(agreement.sum()) + _PRIOR) / weight
        # an error that allows for unequal spread; a label of the prior has the spread of a coin
        error = float(np.sqrt(np.sum((agreement - slope * spread) ** 2) + _PRIOR * 0.5)) / weight
        low, middle, high = np.clip([slope - _SURE * error, slope, slope + _SURE * error], 0, 1).tolist()
        return cls(middle, low, high, len(spread), *(float(of.mean()) for of in shown))


_TINY = 1e-6  # least probability in a log loss: that of a leaf with one label is no certainty


def accuracy(chance: Floats, then: Floats, now: Floats) -> float:
    """Probability of the most probable label now, less that of what was the most probable one then."""
    rows = np.arange(len(chance))
    return float(np.mean(chance[rows, now.argmax(axis=1)] - chance[rows, then.argmax(axis=1)]))


def balanced_accuracy(chance: Floats, then: Floats, now: Floats) -> float:
    """Mean over classes of the gain in recall: each row counts for a class with its chance of being of it."""
    classes = np.arange(chance.shape[1])
    of_class = chance.sum(axis=0)
    gains = [chance[(now.argmax(axis=1) == c), c].sum() - chance[(then.argmax(axis=1) == c), c].sum() for c in classes]
    expected = of_class > 0
    return float(np.mean(np.array(gains)[expected] / of_class[expected]))


def log_loss(chance: Floats, then: Floats, now: Floats) -> float:
    """Fall of the log loss, in nats."""
    old, new = (np.log(np.clip(p, _TINY, 1)) for p in (then, now))
    return float(np.mean(np.sum(chance * (new - old), axis=1)))


def average_precision(chance: Floats, then: Floats, now: Floats) -> float:
    """Gain in average precision of each class against the others, mean over classes; of two, that of the rarer one."""
    classes = np.arange(chance.shape[1])
    if len(classes) == 2:
        classes = classes[[int(chance[:, 1].sum() <= chance[:, 0].sum())]]
    return float(np.mean([_precision(chance[:, c], now[:, c]) - _precision(chance[:, c], then[:, c]) for c in classes]))


def _precision(chance: Floats, ranking: Floats) -> float:
    """Average precision of a ranking of rows, each of which is of the class with some chance; ties come together."""
    _, place, counts = np.unique(-ranking, return_inverse=True, return_counts=True)
    found = np.bincount(place, weights=chance)
    precision = found.cumsum() / counts.cumsum()
    return float(found @ precision / found.sum()) if found.sum() > 0 else 0.0


MEASURES: dict[str, Callable[[Floats, Floats, Floats], float]] = {
    "accuracy": accuracy,
    "average_precision": average_precision,
    "balanced_accuracy": balanced_accuracy,
    "log_loss": log_loss,
}
"""Each takes the chances of all labels, and the probabilities then and now; all of shape (n_rows, n_classes)."""

_RARE = 0.2  # of three classes or more, one is rare with less than this part of what it would hold if all were alike
_RARE_OF_TWO = 0.3  # share of the rarer of two classes: below, a model that never names it is right in 70 % or more


def scoring_for(
    counts: Indices, scoring: StoppingMeasure | Auto, before: StoppingMeasure | None
) -> StoppingMeasure | None:
    """What "auto" is: average precision if a class is rare; None while there is one class, or none.

    Of more than two classes the first report decides. Of two, any report may find that one is rare: few labels may
    hide that, and queries then ask for the rarer class more often than it comes.
    """
    if scoring != "auto":
        return scoring
    if len(counts) < 2 or before not in (None, "accuracy") or (before is not None and len(counts) > 2):
        return before
    rare = _RARE_OF_TWO if len(counts) == 2 else _RARE / len(counts)
    return "average_precision" if counts.min() < rare * counts.sum() else "accuracy"


@dataclass(frozen=True)
class Known:
    """How accurate a model is by labels of a test or out-of-fold answers, and a guess; NaN of other losses."""

    is_told: bool = False  # whether the interval is narrow enough to count
    value: float = np.nan
    low: float = np.nan
    guess: float = np.nan  # accuracy of naming always the commonest class
    ends: tuple[float, float] = (np.nan, np.nan)  # of its interval; NaN where it is that of the labels taught
    commonest: Any = None  # to be told

    @classmethod
    def of(cls, risk: RiskEstimate | None, test: ActiveTester | None, model: Any, now: Snapshot) -> Known | None:
        """None without either, or of a loss without a bound, whose interval tells nothing."""
        guess = float(now.shares.max(initial=0)), (np.nan, np.nan), now.commonest
        if risk is None and test is not None and len(now.classes):
            risk, guess = test.accuracy(model), _named(test, model)
        largest = 1.0 if risk is None or risk.greater_is_better else risk.largest_loss
        if risk is None or not np.isfinite(largest):
            return None
        low, high = risk.interval()
        is_told = high - low <= _WIDEST * largest
        return cls(is_told, risk.value, low, *guess) if risk.greater_is_better else cls(is_told)


def _named(test: ActiveTester, model: Any) -> tuple[float, tuple[float, float], Any]:
    """Accuracy of naming always the commonest class of test labels, its interval, and the class."""
    errors = {c: test.risk(model, lambda _, X, y, c=c: y != c) for c in np.unique(test.labels_).tolist()}
    commonest = min(errors, key=lambda c: errors[c].value)
    low, high = errors[commonest].interval()
    return 1 - errors[commonest].value, (1 - high, 1 - low), commonest
