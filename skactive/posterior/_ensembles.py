"""Ensembles: every member is a draw, and the mean of the draws is the ensemble's prediction.

Members may predict encoded classes, lack some classes, and use some of the columns only: `member_probabilities` aligns
their columns with the ensemble's.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import joblib
import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.base import BaseEstimator, ClassifierMixin, is_classifier
from sklearn.calibration import CalibratedClassifierCV
from sklearn.ensemble import (
    BaggingClassifier,
    BaggingRegressor,
    ExtraTreesClassifier,
    ExtraTreesRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
    VotingClassifier,
    VotingRegressor,
)
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

from .. import _modal as modal
from .._utils.validation import (
    FewMembersError,
    as_array,
    check_n_draws,
    check_one_output,
    committee_members,
    several_outputs_error,
)
from ._registry import PredictDraws, check_features, has_source, innermost, sample_posterior, source
from ._wrappers import Composed

FORESTS = (RandomForestClassifier, RandomForestRegressor, ExtraTreesClassifier, ExtraTreesRegressor)
"""Their draws are fixed functions by construction, so that checking this would only take time."""

_WEIGHTED_DRAWS = 100  # members in proportion to weights that are not whole numbers


@source(*FORESTS, draws="a tree", kind="exact", cost="none")
def _forest(estimator: Any, n_draws: int | None, rng: np.random.Generator) -> PredictDraws:
    check_is_fitted(estimator)
    if getattr(estimator, "n_outputs_", 1) > 1:
        raise several_outputs_error(estimator)
    trees = choose_members(estimator.estimators_, n_draws, rng)
    # Trees know the classes as 0, 1, ...: their columns already are those of the forest.
    method = "predict_proba" if is_classifier(estimator) else "predict"
    return lambda X: of_trees(estimator, trees, method, X)


def of_trees(forest: Any, trees: Sequence[Any], method: str, X: Any) -> NDArray[Any]:
    """Outputs of each tree, (n_trees, n_rows, ...).

    The forest's own methods read Python's warning filters, which another thread may be changing at that moment.
    """
    X = _plain_float32(check_features(forest, X))
    with joblib.parallel_config("threading"):
        return np.stack(joblib.Parallel(n_jobs=forest.n_jobs)(joblib.delayed(getattr(t, method))(X) for t in trees))


def _plain_float32(X: Any) -> Any:
    """Trees were fitted to float32 without feature names, and warn if they get any."""
    return X.astype(np.float32) if sparse.issparse(X) else np.ascontiguousarray(X, dtype=np.float32)


@source(BaggingClassifier, BaggingRegressor, draws="a member", kind="exact", cost="none")
def _bagging(estimator: Any, n_draws: int | None, rng: np.random.Generator) -> PredictDraws:
    check_is_fitted(estimator)
    pairs = list(zip(estimator.estimators_, estimator.estimators_features_, strict=True))
    members, answer = choose_members(pairs, n_draws, rng), _answer_of_members(estimator)

    def predict_draws(X: Any) -> NDArray[np.float64]:
        X = check_features(estimator, X, dtype=None)  # as bagging does: members check values and dtypes
        return np.stack([answer(member, X[:, features]) for member, features in members])

    return predict_draws


@source(VotingClassifier, VotingRegressor, draws="a member; its vote, if voting is hard", kind="exact", cost="none")
def _voting(estimator: Any, n_draws: int | None, rng: np.random.Generator) -> PredictDraws:
    check_is_fitted(estimator)
    members, answer = _repeated_by_weight(estimator), _answer_of_members(estimator)
    chosen = choose_members(members, n_draws, rng)
    return lambda X: np.stack([answer(member, X) for member in chosen])


def _answer_of_members(ensemble: Any) -> Callable[[Any, Any], Any]:
    """What a member, fitted to labels coded as 0, 1, ..., says of rows: its probabilities, vote or value."""
    if not is_classifier(ensemble):
        return lambda member, X: member.predict(X)
    answer = _votes if getattr(ensemble, "voting", "soft") == "hard" else member_probabilities
    return partial(answer, classes=np.arange(len(ensemble.classes_)))


def _repeated_by_weight(voting: Any) -> list[Any]:
    """Members as often as they weigh: exactly for whole numbers, to a hundredth of the sum for others."""
    if voting.weights is None:
        return list(voting.estimators_)
    weights = np.asarray(voting._weights_not_none, dtype=float)
    if (weights != weights.round()).any() or weights.sum() > _WEIGHTED_DRAWS:
        weights = np.diff(np.round(np.r_[0, weights.cumsum()] / weights.sum() * _WEIGHTED_DRAWS))
    return [member for member, weight in zip(voting.estimators_, weights, strict=True) for _ in range(int(weight))]


@source(
    CalibratedClassifierCV,
    draws="a calibrated member; if there is one alone, a draw from it, calibrated",
    kind="exact",
    cost="none",
)
def _calibrated(estimator: Any, n_draws: int | None, rng: np.random.Generator) -> PredictDraws:
    check_is_fitted(estimator)
    members = estimator.calibrated_classifiers_
    if len(members) == 1 and _can_calibrate_draws(members[0]):
        predict_draws = sample_posterior(members[0].estimator, n_draws, rng)
        return Composed(predict_draws, after=partial(_calibrated_draws, members[0]))
    chosen = choose_members(members, n_draws, rng)
    return lambda X: np.stack([member.predict_proba(X) for member in chosen])


def _can_calibrate_draws(member: Any) -> bool:
    """Whether the calibration is one of probabilities, which draws are, and not of values of a decision function."""
    return has_source(innermost(member.estimator)) and not hasattr(member.estimator, "decision_function")


class _Given(ClassifierMixin, BaseEstimator):
    """A classifier whose predicted probabilities are its input."""

    def __init__(self, classes: NDArray[Any]) -> None:
        self.classes_ = classes

    def predict_proba(self, X: Any) -> Any:
        return X


def _calibrated_draws(member: Any, draws: Any) -> NDArray[np.float64]:
    draws = as_array(draws)
    on_draws = copy.copy(member)
    on_draws.estimator = _Given(member.estimator.classes_)
    calibrated = on_draws.predict_proba(draws.reshape(-1, draws.shape[2]))
    return calibrated.reshape(*draws.shape[:2], -1)


def _committee(estimator: Any, n_draws: int | None, rng: np.random.Generator) -> PredictDraws:
    all_members = committee_members(estimator)
    members = choose_members(all_members, n_draws, rng)
    for member in members:
        check_is_fitted(member)
    if not hasattr(estimator, "predict_proba"):
        return lambda X: np.stack([np.asarray(member.predict(X)).reshape(-1) for member in members])
    classes = np.unique(np.concatenate([member.classes_ for member in all_members]))
    return lambda X: np.stack([member_probabilities(member, X, classes) for member in members])


if committee_types := modal.committee_types():
    source(*committee_types, draws="a learner", kind="exact", cost="none")(_committee)


def choose_members(members: Sequence[Any], n_draws: int | None, rng: np.random.Generator) -> list[Any]:
    """All members, or ``n_draws`` distinct ones at random, in the ensemble's order."""
    if len(members) == 0:
        raise NotFittedError("The ensemble has no members yet. Fit it.")
    if n_draws is None:
        return list(members)
    if check_n_draws(n_draws) > len(members):
        raise FewMembersError(n_draws, len(members))
    return [members[i] for i in np.sort(rng.choice(len(members), n_draws, replace=False))]


def member_probabilities(member: Any, X: Any, classes: NDArray[Any]) -> NDArray[np.float64]:
    """(n_points, n_classes) in the order of ``classes``; votes where there is no predict_proba."""
    if not hasattr(member, "predict_proba"):
        return _votes(member, X, classes)
    probabilities = check_one_output(member.predict_proba(X), member)
    if not hasattr(member, "classes_") and probabilities.shape[1] == len(classes):
        return probabilities  # of sorted labels, as all members have seen all of them
    if np.array_equal(member.classes_, classes):
        return probabilities
    aligned = np.zeros((len(probabilities), len(classes)))
    aligned[:, np.searchsorted(classes, member.classes_)] = probabilities
    return aligned


def _votes(member: Any, X: Any, classes: NDArray[Any]) -> NDArray[np.float64]:
    return (np.asarray(member.predict(X))[:, np.newaxis] == classes).astype(np.float64)
