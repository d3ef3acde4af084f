"""Ensembles: every member is a draw, and the mean of the draws is the ensemble's prediction.

Members may predict encoded classes, lack some classes, and use some of the columns only: `member_probabilities` aligns
their columns with the ensemble's. The bootstrap makes an ensemble of any estimator.
"""

from __future__ import annotations

import copy
import math
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
from sklearn.frozen import FrozenEstimator
from sklearn.multiclass import OneVsRestClassifier
from sklearn.multioutput import MultiOutputClassifier, MultiOutputRegressor
from sklearn.utils.parallel import Parallel, delayed
from sklearn.utils.validation import check_is_fitted, has_fit_parameter

from .. import _containers as containers
from .. import _modal as modal
from .._utils.randomness import check_rng, seeded_clone
from .._utils.types import Floats, Indices
from .._utils.validation import (
    N_JOBS,
    FewMembersError,
    NoPosteriorError,
    as_array,
    check_cloneable,
    check_known_labels,
    check_n_draws,
    check_sample_weight,
    class_outputs,
    classes_of,
    committee_members,
    stacked_outputs,
)
from ._registry import PredictDraws, WithPlaces, check_features, has_source, innermost, sample_posterior, source
from ._wrappers import Composed, FitParams, fit_with, labels_to_fit, part_to_fit, weight_keyword, without_searches

FORESTS = (RandomForestClassifier, RandomForestRegressor, ExtraTreesClassifier, ExtraTreesRegressor)
"""Their draws are fixed functions by construction, so that checking this would only take time."""

_WEIGHTED_DRAWS = 100  # members in proportion to weights that are not whole numbers
_BOOTSTRAP_DRAWS = 20
_MOST_COPIES = 20  # most rows that a member is fitted to for each labelled row, if rows are copied


@source.register(RandomForestClassifier | RandomForestRegressor | ExtraTreesClassifier | ExtraTreesRegressor)
def _forest(estimator: Any, n_draws: int | None, rng: np.random.Generator) -> PredictDraws:
    check_is_fitted(estimator)
    trees = choose_members(estimator.estimators_, n_draws, rng)
    # Trees know the classes as 0, 1, ...: their columns already are those of the forest.
    if is_classifier(estimator):
        return lambda X: of_trees(estimator, trees, "predict_proba", X)
    return WithPlaces(partial(_values_and_leaves, estimator, trees))


def _values_and_leaves(forest: Any, trees: Sequence[Any], X: Any) -> tuple[Floats, Any]:
    """What trees predict, (n_trees, n_rows, ...), and the leaves of all of them; of some trees these are no place."""
    leaves, outputs = of_trees(forest, trees, "apply", X), slice(None) if forest.n_outputs_ > 1 else 0
    values = [tree.tree_.value[of_tree, outputs, 0] for tree, of_tree in zip(trees, leaves, strict=True)]
    return np.stack(values), leaves.T.astype(leaf_type(trees)) if len(trees) == len(forest.estimators_) else None


def leaf_type(models: Sequence[Any]) -> type[np.integer[Any]]:
    """The narrowest integers that hold the numbers of all nodes, if these are known."""
    trees = [tree for model in models for tree in np.ravel(getattr(model, "estimators_", model))]
    counts = [tree.tree_.node_count if hasattr(tree, "tree_") else np.inf for tree in trees]
    return np.int16 if max(counts, default=np.inf) < np.iinfo(np.int16).max else np.int32


def of_trees(forest: Any, trees: Sequence[Any], method: str, X: Any) -> NDArray[Any]:
    """Outputs of each tree, (n_trees, n_rows, ...).

    The forest's own methods read Python's warning filters, which another thread may be changing at that moment.
    """
    X = check_features(forest, X)
    # Trees were fitted to float32 without feature names, and warn if they get any.
    X = X.astype(np.float32) if sparse.issparse(X) else np.ascontiguousarray(X, dtype=np.float32)
    with joblib.parallel_config("threading"):
        answers = joblib.Parallel(n_jobs=forest.n_jobs)(joblib.delayed(getattr(t, method))(X) for t in trees)
    return np.stack([stacked_outputs(answer) if isinstance(answer, list) else answer for answer in answers])


@source.register(BaggingClassifier | BaggingRegressor)
def _bagging(estimator: Any, n_draws: int | None, rng: np.random.Generator) -> PredictDraws:
    check_is_fitted(estimator)
    pairs = list(zip(estimator.estimators_, estimator.estimators_features_, strict=True))
    members, answer = choose_members(pairs, n_draws, rng), _answer_of_members(estimator)

    def predict_draws(X: Any) -> Floats:
        X = check_features(estimator, X, dtype=None)  # as bagging does: members check values and dtypes
        return np.stack([answer(member, X[:, features]) for member, features in members])

    return predict_draws


@source.register(VotingClassifier | VotingRegressor)
def _voting(estimator: Any, n_draws: int | None, rng: np.random.Generator) -> PredictDraws:
    check_is_fitted(estimator)
    members, answer = _repeated_by_weight(estimator), _answer_of_members(estimator)
    chosen = choose_members(members, n_draws, rng)
    return lambda X: np.stack([answer(member, X) for member in chosen])


@source.register(MultiOutputClassifier | MultiOutputRegressor | OneVsRestClassifier)
def _of_outputs(
    estimator: Any,
    n_draws: int | None,
    rng: np.random.Generator,
    *,
    X_training: Any = None,
    y_training: Any = None,
    sample_weight: Any = None,
) -> PredictDraws:
    """Draws of the model of each output, side by side."""
    check_is_fitted(estimator)
    is_multiclass = isinstance(estimator, OneVsRestClassifier) and not estimator.multilabel_
    if is_multiclass or not all(has_source(innermost(member)) for member in estimator.estimators_):
        raise NoPosteriorError(estimator)
    labels = [None] * len(estimator.estimators_) if y_training is None else np.asarray(y_training).T
    functions = [
        sample_posterior(member, n_draws, rng, X_training=X_training, y_training=of_one, sample_weight=sample_weight)
        for member, of_one in zip(estimator.estimators_, labels, strict=True)
    ]
    if is_classifier(estimator):
        return lambda X: stacked_outputs([as_array(draws(X)) for draws in functions])
    return lambda X: np.stack([as_array(draws(X)) for draws in functions], axis=-1)


def _answer_of_members(ensemble: Any) -> Callable[[Any, Any], Any]:
    """What a member says of rows: its probabilities, vote or value."""
    if not is_classifier(ensemble):
        return lambda member, X: member.predict(X)
    answer = _votes if getattr(ensemble, "voting", "") == "hard" else member_probabilities
    return lambda member, X: answer(member, X, _classes_to_member(ensemble, member))


def _classes_to_member(ensemble: Any, member: Any) -> NDArray[Any]:
    """The classes of an ensemble as a member knows them: coded as 0, 1, ..., or the labels if it was fitted before."""
    codes = np.arange(len(ensemble.classes_))
    known = getattr(member, "classes_", codes)
    may_lack_some = isinstance(ensemble, BaggingClassifier)
    are_codes = np.isin(known, codes).all() if may_lack_some else np.array_equal(known, codes)
    if are_codes and frozen_part(member) is None:
        return codes
    others = np.setdiff1d(known, ensemble.classes_)
    if len(others):
        raise ValueError(
            f"`estimator` must have members that know only its classes, {ensemble.classes_}. This "
            f"{type(ensemble).__name__} has a {type(member).__name__} that was fitted to {others} as well. Fit the "
            "ensemble to labels of all classes that its members know."
        )
    return ensemble.classes_


def _repeated_by_weight(voting: Any) -> list[Any]:
    """Members as often as they weigh: exactly for whole numbers, to a hundredth of the sum for others."""
    if voting.weights is None:
        return list(voting.estimators_)
    weights = np.asarray(voting._weights_not_none, dtype=float)
    if (weights != weights.round()).any() or weights.sum() > _WEIGHTED_DRAWS:
        weights = np.diff(np.round(np.r_[0, weights.cumsum()] / weights.sum() * _WEIGHTED_DRAWS))
    return [member for member, weight in zip(voting.estimators_, weights, strict=True) for _ in range(int(weight))]


@source.register(CalibratedClassifierCV)
def _calibrated(estimator: Any, n_draws: int | None, rng: np.random.Generator) -> PredictDraws:
    check_is_fitted(estimator)
    members = estimator.calibrated_classifiers_
    # Calibrations of decision functions are none of probabilities, which draws are.
    is_of_draws = has_source(innermost(members[0].estimator)) and not hasattr(members[0].estimator, "decision_function")
    if len(members) == 1 and is_of_draws:
        predict_draws = sample_posterior(members[0].estimator, n_draws, rng)
        return Composed(predict_draws, after=partial(_calibrated_draws, members[0]))
    chosen = choose_members(members, n_draws, rng)
    return lambda X: np.stack([member.predict_proba(X) for member in chosen])


class _Given(ClassifierMixin, BaseEstimator):
    """A classifier whose predicted probabilities are its input."""

    def __init__(self, classes: NDArray[Any]) -> None:
        self.classes_ = classes

    def predict_proba(self, X: Any) -> Any:
        return X


def _calibrated_draws(member: Any, draws: Any) -> Floats:
    draws = as_array(draws)
    on_draws = copy.copy(member)
    on_draws.estimator = _Given(member.estimator.classes_)
    calibrated = on_draws.predict_proba(draws.reshape(-1, draws.shape[2]))
    return calibrated.reshape(*draws.shape[:2], -1)


def _committee(estimator: Any, n_draws: int | None, rng: np.random.Generator) -> PredictDraws:
    all_members = committee_members(estimator)
    members = choose_members(all_members, n_draws, rng)
    if not hasattr(estimator, "predict_proba"):
        return partial(_predictions, members)
    return partial(_probabilities, members, np.unique(np.concatenate([classes_of(member) for member in all_members])))


for _type in modal.committee_types():
    source.register(_type, _committee)


def choose_members(members: Sequence[Any], n_draws: int | None, rng: np.random.Generator) -> list[Any]:
    """All members, or ``n_draws`` distinct ones at random, in the ensemble's order."""
    if len(members) == 0:
        raise NotFittedError("The ensemble has no members yet. Fit it.")
    if n_draws is None:
        return list(members)
    if check_n_draws(n_draws) > len(members):
        raise FewMembersError(n_draws, len(members))
    return [members[i] for i in np.sort(rng.choice(len(members), n_draws, replace=False))]


def member_probabilities(member: Any, X: Any, classes: Any) -> Floats:
    """(n_points, n_classes, ...) in the order of ``classes``, a list if of several outputs; else votes."""
    if not hasattr(member, "predict_proba"):
        return _votes(member, X, classes)
    probabilities = class_outputs(member.predict_proba(X), member)
    if isinstance(classes, list):  # of which no member lacks any
        return probabilities
    if not hasattr(member, "classes_") and probabilities.shape[1] == len(classes):
        return probabilities  # of sorted labels, as all members have seen all of them
    if np.array_equal(classes_of(member), classes):
        return probabilities
    aligned = np.zeros((len(probabilities), len(classes)))
    aligned[:, np.searchsorted(classes, member.classes_)] = probabilities
    return aligned


def _votes(member: Any, X: Any, classes: Any) -> Floats:
    votes = np.asarray(member.predict(X))[:, np.newaxis]
    if isinstance(classes, list):
        return stacked_outputs([votes[..., i] == known for i, known in enumerate(classes)]).astype(np.float64)
    return (votes == classes).astype(np.float64)


def bootstrap(
    estimator: Any,
    X: Any,
    y: Any,
    n_draws: int | None,
    rng: np.random.Generator,
    *,
    n_jobs: int | None = None,
    sample_weight: Any = None,
    fit_params: FitParams | None = None,
) -> PredictDraws:
    """Draw functions by refitting clones of an estimator to resampled training data.

    Parameters
    ----------
    estimator : estimator
        Anything that scikit-learn can clone; for a fitted search, the best estimator. Members without ``predict_proba``
        vote.
    X : array-like of shape (n_labelled, ...)
        Training data.
    y : array-like of shape (n_labelled,) or (n_labelled, n_outputs)
        Labels. Classes are resampled one by one, so that every member knows all of them; BALD is smaller for this. Rows
        of several labels are resampled as they are, and a class that a resample lacks is added by one of its rows.
    n_draws : int or None
        Number of members; None is 20.
    rng : numpy.random.Generator
    n_jobs : int, optional
        As in joblib.
    sample_weight : array-like of shape (n_labelled,), optional
        How many times each row counts, whether or not the estimator takes weights.
    fit_params : dict, optional
        Further keywords for ``fit``. Arrays with an entry for each row (not lists) are resampled with the rows.

    Returns
    -------
    predict_draws : callable
        As of `sample_posterior`; columns in the order of the estimator's ``classes_`` (sorted labels, if it has none).

    References
    ----------
    Efron (1979), Bootstrap Methods; Lakshminarayanan et al. (2017), on ensembles as draws.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.linear_model import LogisticRegression
    >>> from skactive.posterior import bootstrap
    >>> X, y = load_iris(return_X_y=True)
    >>> predict_draws = bootstrap(LogisticRegression(max_iter=500), X, y, 4, np.random.default_rng(0))
    >>> predict_draws(X).shape
    (4, 150, 3)
    """
    check_cloneable(estimator)
    check_rng(rng)
    N_JOBS.check("n_jobs", n_jobs)
    n_draws = _BOOTSTRAP_DRAWS if n_draws is None else check_n_draws(n_draws)
    estimator = without_searches(estimator)
    _check_can_be_refitted(estimator)
    X, y = containers.prepare_pool(X, "X"), labels_to_fit(estimator, y)
    if len(y) != containers.count_rows(X) or not len(y):
        raise ValueError(f"`y` must have a label for each row of `X`, at least one. Got {len(y)} labels.")
    weight = check_sample_weight(sample_weight, len(y))
    classes, has_several = _classes_of_labels(estimator, y), y.ndim > 1
    most = math.inf if _takes_counts(estimator) else _MOST_COPIES * len(y)
    rows_of = _rows_by_label(np.zeros(len(y)) if classes is None or has_several else y)
    resamples = [_resample(rows_of, len(y), weight, most, rng) for _ in range(n_draws)]
    if classes is not None and has_several:
        _bring_back_classes([counts for counts, _ in resamples], y, rng)
    clones = [seeded_clone(estimator, rng) for _ in range(n_draws)]
    members = Parallel(n_jobs=n_jobs)(  # scikit-learn's, which takes its configuration along
        delayed(_fitted)(member, X, y, *resample, fit_params or {})
        for member, resample in zip(clones, resamples, strict=True)
    )
    if classes is None:
        return partial(_predictions, members)
    return partial(_probabilities, members, classes)


def _classes_of_labels(estimator: Any, y: NDArray[Any]) -> Any:
    """Classes of the labels, a list of several outputs; None for a regressor."""
    if not is_classifier(estimator):
        return None
    if y.ndim > 1:
        return [np.unique(of_output) for of_output in y.T] if y.ndim == 2 else []
    classes = np.asarray(getattr(estimator, "classes_", np.unique(y)))
    check_known_labels(y, classes, "y")
    return classes


def _bring_back_classes(resamples: list[Indices], y: NDArray[Any], rng: np.random.Generator) -> None:
    """Add a random row of each class of each output that a resample, given by counts of rows, has no row of."""
    rows_of_each = [rows for of_output in y.T for rows in _rows_by_label(of_output)] if y.ndim == 2 else []
    for counts in resamples:
        for rows in rows_of_each:
            if not counts[rows].any():
                counts[rng.choice(rows)] += 1


def _predictions(members: list[Any], X: Any) -> Floats:
    n_rows = containers.count_rows(X)
    of_members = [np.asarray(member.predict(X)) for member in members]
    return np.stack([values.reshape(n_rows) if values.size == n_rows else values for values in of_members])


def _probabilities(members: list[Any], classes: Any, X: Any) -> Floats:
    return np.stack([member_probabilities(member, X, classes) for member in members])


def _fitted(member: Any, X: Any, y: NDArray[Any], counts: Indices, unit: Floats | None, fit_params: FitParams) -> Any:
    if _takes_counts(member):
        return member.fit(X, y, sample_weight=counts * (1.0 if unit is None else unit), **fit_params)
    rows = np.repeat(np.arange(len(y)), counts)
    weight = None if unit is None or weight_keyword(member) is None else unit[rows]
    keywords = {name: _of_rows(value, rows, len(y)) for name, value in fit_params.items()}
    return fit_with(member, containers.take_rows(X, rows), y[rows], weight, keywords)


def _takes_counts(member: Any) -> bool:
    """Whether a fit takes how often each row was drawn as its weight, which saves copies and keeps all categories.

    Not if parts of the data are fitted separately: all rows of a fold or a mini-batch might have weight 0.
    """
    parameters = member.get_params(deep=False)
    by_parts = "cv" in parameters or "batch_size" in parameters or parameters.get("early_stopping") is True
    return has_fit_parameter(member, "sample_weight") and weight_keyword(member) is not None and not by_parts


def _rows_by_label(labels: NDArray[Any]) -> list[Indices]:
    _, which, counts = np.unique(labels, return_inverse=True, return_counts=True)
    return np.split(np.argsort(which, kind="stable"), counts.cumsum()[:-1])


def _resample(
    rows_of: list[Indices], n_rows: int, weight: Floats | None, most: float, rng: np.random.Generator
) -> tuple[Indices, Floats | None]:
    """How often each row is drawn, label by label, and the weight of each of these draws, None for 1."""
    if weight is None:
        rows = np.concatenate([rng.choice(rows, len(rows)) for rows in rows_of])
        return np.bincount(rows, minlength=n_rows), None
    counts, unit = np.zeros(n_rows, dtype=np.int64), np.ones(n_rows)
    # One, so that a row of weight 3 counts as three; more if weights are tiny, for at least one draw a row.
    draws_per_weight = min(max(1.0, np.count_nonzero(weight) / weight.sum()), most / weight.sum())
    for rows in rows_of:
        total = weight[rows].sum()
        if total > 0:
            n = max(1, round(draws_per_weight * total))
            counts[rows], unit[rows] = rng.multinomial(n, weight[rows] / total), total / n
    return counts, unit


def _of_rows(value: Any, rows: Indices, n_rows: int) -> Any:
    """The entries of a keyword of ``fit``, if it is an array with one for each row; lists may be evaluation sets."""
    shape: tuple[Any, ...] = getattr(value, "shape", ())
    return containers.take_rows(value, rows) if len(shape) > 0 and shape[0] == n_rows else value


def _check_can_be_refitted(estimator: Any) -> None:
    """Refuse frozen models: all refits of one would be equal."""
    frozen = frozen_part(estimator)
    if frozen is not None:
        name = type(frozen.estimator).__name__
        raise ValueError(
            "`estimator` must be refitted, but it holds a FrozenEstimator, which is never refitted: all copies would "
            f"be this {name}. Give the {name} without FrozenEstimator."
        )
    cv = getattr(estimator, "cv", None)
    if isinstance(cv, str) and cv == "prefit":
        raise ValueError(
            f'`estimator` must be refitted, but a {type(estimator).__name__} with cv="prefit" cannot be: a copy has '
            "members that are not fitted. Put each member into a FrozenEstimator, and leave `cv` at None."
        )


def frozen_part(estimator: Any) -> Any:
    """A FrozenEstimator that a model takes all it knows from, fitted or not; None if there is none."""
    if estimator is None or isinstance(estimator, FrozenEstimator):
        return estimator
    if isinstance(estimator, VotingClassifier | VotingRegressor):
        found = [frozen_part(member) for _, member in estimator.estimators if member != "drop"]
        return None if any(part is None for part in found) else found[0]
    inside = getattr(estimator, "estimator", getattr(estimator, "regressor", None))
    return frozen_part(part_to_fit(estimator) if hasattr(estimator, "steps") else inside)
