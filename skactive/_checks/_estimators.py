"""What an estimator must be: its kind, whether it is fitted, what it lacks."""

from __future__ import annotations

import numbers
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import is_classifier, is_regressor
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

from ._messages import warn
from ._rules import ParameterError, is_integer, shown


def is_committee(learner: Any) -> bool:
    """Whether it is one of modAL's committees, which hold several learners."""
    return hasattr(learner, "learner_list")


def committee_members(committee: Any) -> list[Any]:
    """The estimators of a committee's learners."""
    return [learner.estimator for learner in committee.learner_list]


def task(estimator: Any) -> str | None:
    """Return "classifier", "regressor", or None for what is neither by its tags."""
    if is_committee(estimator):
        return "classifier" if hasattr(estimator, "predict_proba") else "regressor"
    try:
        if is_classifier(estimator):
            return "classifier"
        if is_regressor(estimator):
            return "regressor"
    except AttributeError:  # no scikit-learn tags: not one of its estimators
        pass
    return None


def is_fitted(estimator: Any) -> bool:
    if is_committee(estimator):
        return all(is_fitted(member) for member in committee_members(estimator))
    if hasattr(estimator, "initialized_"):  # skorch
        return bool(estimator.initialized_)
    # A torch module, or an object with draws of its own and ways of its own
    if not hasattr(estimator, "fit") or not hasattr(estimator, "get_params"):
        return True
    try:
        check_is_fitted(estimator)
    except NotFittedError:
        return False
    # A Gaussian process may predict from its prior, says scikit-learn; to be asked for labels, it must have seen some.
    return any(name.endswith("_") and not name.startswith("__") for name in vars(estimator)) or _is_composed(estimator)


def _is_composed(estimator: Any) -> bool:
    return hasattr(estimator, "__sklearn_is_fitted__")


class UnfittedError(NotFittedError):
    """A model that is not fitted, or whose fit has failed.

    ``why`` is the first sentence, for a warning that goes on.
    """

    def __init__(self, why: str, remedy: str) -> None:
        self.why = why
        super().__init__(f"{why}. {remedy}")

    def __reduce__(self) -> Any:
        return type(self), (self.why, str(self).removeprefix(f"{self.why}. "))


def not_fitted_error(estimator: Any) -> UnfittedError:
    return UnfittedError(
        f"This {type(estimator).__name__} is not fitted yet",
        "Fit it to the labels you have, or choose the first batch at random, as a query does for a model that is not "
        "fitted.",
    )


@contextmanager
def whole_fit(estimator: Any, y_training: Any = None) -> Iterator[None]:
    """Say that a fit has failed where a model turns out to lack what it predicts with.

    Estimators whose ``fit`` failed on the way, at labels of one class alone, pass for fitted.
    """
    try:
        yield
    except Exception as error:
        if isinstance(error, UnfittedError) or not (lack := _lack_of_fit(error)):
            raise
        kind, one_class = type(estimator).__name__, _one_class(y_training)
        raise UnfittedError(
            f"The last fit of this {kind} failed: {lack}{one_class}",
            f"Fit it again, {'with labels of another class' if one_class else 'and see the error of that fit'}.",
        ) from error


def _lack_of_fit(error: BaseException | None) -> str:
    """What a fitted model would have, by an error or what caused it; empty if that was something else."""
    while error is not None:
        lacks = getattr(error, "name", None) if isinstance(error, AttributeError) else None
        if isinstance(lacks, str) and _is_left_by_fits(lacks) and hasattr(error.obj, "fit"):  # type: ignore[attr-defined]
            return f"it has no `{lacks}`"
        if isinstance(error, NotFittedError):
            return "it is fitted in part"
        error = error.__cause__
    return ""


def _is_left_by_fits(name: str) -> bool:
    return name.endswith("_") and not name.endswith("__")


def _one_class(y_training: Any) -> str:
    labels = [] if y_training is None else np.unique(np.asarray(y_training)).tolist()
    return f", and its labels are all {labels[0]!r}" if len(labels) == 1 else ""


class NoPosteriorError(TypeError):
    """Posterior draws of an estimator are not known, or do not exist.

    ``why`` is the first sentence, for a warning that goes on.
    """

    def __init__(self, estimator: Any, reason: str = "") -> None:
        self.why = f"{type(estimator).__name__} has no posterior draws" + (f" here ({reason})" if reason else "")
        super().__init__(
            f'{self.why}. Give the query posterior="bootstrap", or posterior=<an estimator to draw from instead>, such '
            "as RandomForestClassifier(); both need the training data, which a modAL learner passes on. Or register "
            "a source of draws with `sample_posterior.register`."
        )


def check_n_draws(n_draws: Any) -> int:
    if not is_integer(n_draws):
        raise TypeError(f"`n_draws` must be a positive integer or None. Got {n_draws!r} instead.")
    if n_draws < 1:
        raise ValueError(f"`n_draws` must be 1 or more. Got {n_draws} instead.")
    return int(n_draws)


def check_one_output(probabilities: Any, estimator: Any) -> NDArray[Any]:
    if isinstance(probabilities, list):
        raise several_outputs_error(estimator)
    return np.asarray(probabilities)


def several_outputs_error(estimator: Any) -> ValueError:
    return ValueError(
        f"`estimator` must predict one target, and this {type(estimator).__name__} has several outputs. Fit one "
        "estimator for each target, or only one for the target whose labels you ask for."
    )


def check_one_target(estimator: Any) -> None:
    """Refuse classifiers of several labels at once, by what they carry once they are fitted."""
    model = estimator
    while hasattr(model, "steps") or hasattr(model, "best_estimator_"):
        model = model.best_estimator_ if hasattr(model, "best_estimator_") else model.steps[-1][1]
    is_net_of_labels = getattr(model, "out_activation_", "") == "logistic" and getattr(model, "n_outputs_", 1) > 1
    if isinstance(getattr(model, "classes_", None), list) or getattr(model, "multilabel_", False) or is_net_of_labels:
        raise several_outputs_error(estimator)


class FewMembersError(ParameterError):
    """More draws than an ensemble has members."""

    def __init__(self, n_draws: int, n_members: int) -> None:
        super().__init__(
            f"`n_draws` must be an integer from 1 to the number of members of the ensemble, {n_members}. Got {n_draws} "
            "instead."
        )

    def __reduce__(self) -> Any:
        return ParameterError, self.args


class NetError(ValueError):
    """A net that draws cannot be had of; worded in full where it is raised."""


class NoDropoutError(NetError):
    """A net with nothing random in training."""


class NoTrainingDataError(ValueError):
    """Draws need the data that the estimator was fitted to, and these are not given.

    ``why`` is the first sentence, for a warning that goes on.
    """

    def __init__(self, estimator: Any) -> None:
        self.why = f"{type(estimator).__name__} has no posterior draws without its training data"
        super().__init__(
            f"`X_training` and `y_training` must be given to draw from a {type(estimator).__name__}: its posterior "
            "depends on the data it was fitted to, and it does not keep them. A fitted modAL learner passes them on."
        )


def warn_wide_draws(estimator: Any, remedy: str) -> None:
    warn(
        f"The Laplace approximation around this {type(estimator).__name__} is too wide: its draws hardly predict the "
        "labels of the training data, because the likelihood is flat where probabilities are near 0 or 1. Use "
        f'{remedy} or posterior="bootstrap" in the query.',
    )


def check_is_model(estimator: Any) -> None:
    """Refuse what can be no fitted model, whatever it may be registered as."""
    if estimator is None or isinstance(
        estimator, type | str | bytes | numbers.Number | list | tuple | dict | set | np.ndarray
    ):
        raise TypeError(f"`estimator` must be a fitted model or a modAL learner. Got {shown(estimator)} instead.")


def check_cloneable(estimator: Any) -> None:
    """Check that an estimator can be fitted and copied, as scikit-learn's ``clone`` does."""
    missing = [name for name in ("fit", "get_params", "set_params") if not hasattr(estimator, name)]
    if missing or isinstance(estimator, type):
        got = f"the class {estimator.__name__}" if isinstance(estimator, type) else f"a {type(estimator).__name__}"
        raise TypeError(
            f"`estimator` must be an estimator that scikit-learn can clone, with `fit` and `get_params`. Got {got}."
        )


def why_filled_up(
    *, all_agree: bool, exhausted: bool, few_rows: str = "", more_draws: str = "More draws can distinguish more rows."
) -> str:
    """Say what there was too little of: disagreement, distinct rows, or draws if those are exhausted."""
    if all_agree:
        return "All draws agree on every row, as of a model that learned nothing yet, or that is sure of everything."
    return few_rows or (
        more_draws if exhausted else "No remaining row separates draws that the chosen rows cannot separate."
    )


def more_draws(ensemble: Any | None) -> str:
    """Say how to have more draws: of an ensemble only by more members, where all of them are draws already."""
    if ensemble is None:
        return "Increase `n_draws`: more draws can distinguish more rows."
    parameter = " (`n_estimators`)" if hasattr(ensemble, "n_estimators") else ""
    return (
        f"All members of the {type(ensemble).__name__} are draws already: more members{parameter} can distinguish more "
        "rows."
    )


def few_rows(n_distinct: int) -> str:
    return f"Only {n_distinct} of the rows to choose from are distinct."


def check_classifier(estimator: Any, method: str, name: str = "estimator") -> None:
    if task(estimator) == "regressor":
        raise TypeError(
            f"`{name}` must be a classifier for {method}. Got a {type(estimator).__name__}, a regressor. For a "
            'regressor there is StochasticBatchQuery("std_dev").'
        )


class BatchError(ValueError):
    """A query returned what is no batch."""


def check_query_answer(answer: Any, k: int, n_pool: int, name: str) -> NDArray[np.int64]:
    """What a query of an experiment returned: bare positions, or a pair with positions first."""
    if isinstance(answer, tuple) and len(answer) == 2 and np.ndim(answer[0]) > 0:
        answer = answer[0]
    indices = np.atleast_1d(np.asarray(answer))
    n_distinct = len(np.unique(indices))
    got = None
    if indices.ndim != 1 or indices.dtype.kind not in "iu":
        got = f"an array of shape {indices.shape} and dtype {indices.dtype}"
    elif len(indices) != k:
        got = f"{len(indices)} positions"
    elif n_distinct < k:
        got = f"duplicates, only {n_distinct} distinct positions: {indices[:10]}"
    elif indices.min() < 0 or indices.max() >= n_pool:
        got = f"positions from {indices.min()} to {indices.max()}"
    if got:
        raise BatchError(
            f"`queries`[{name!r}] must return {k} distinct positions in the pool, from 0 to {n_pool - 1}. Got {got}."
        )
    return indices.astype(np.int64)
