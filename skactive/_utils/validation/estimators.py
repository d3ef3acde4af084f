"""What an estimator must be, whether it is fitted, what it lacks; and what labels must be."""

from __future__ import annotations

import numbers
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone, is_classifier, is_regressor
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from .arrays import as_array, plain_array
from .rules import ParameterError, integer, shown, warn


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


def is_fitted(estimator: Any, one_row: Callable[[], Any] | None = None) -> bool:
    """By what it keeps; where that says no, a model that does not say so itself is asked for a row, if there is one."""
    if is_committee(estimator):
        return all(is_fitted(member, one_row) for member in committee_members(estimator))
    if hasattr(estimator, "initialized_"):  # skorch
        return bool(estimator.initialized_)
    # A torch module, or an object with draws of its own and ways of its own
    if not hasattr(estimator, "fit") or not hasattr(estimator, "get_params"):
        return True
    is_composed = hasattr(estimator, "__sklearn_is_fitted__")
    try:
        check_is_fitted(estimator)
    except NotFittedError:
        return not is_composed and one_row is not None and _knows_more_than_a_new_one(estimator, one_row)
    # A Gaussian process may predict from its prior, says scikit-learn; to be asked for labels, it must have seen some.
    if isinstance(estimator, Pipeline):
        return is_fitted(estimator.steps[-1][1])
    return is_composed or any(name.endswith("_") and not name.startswith("__") for name in vars(estimator))


def _knows_more_than_a_new_one(estimator: Any, one_row: Callable[[], Any]) -> bool:
    """Whether a model predicts a row; one that fails as a clone does has learned nothing."""
    error = _failure(estimator, one_row)
    if error is None or isinstance(error, NotFittedError):
        return error is None
    if repr(error) != repr(_failure(clone(estimator), one_row)):
        raise error
    return False


def _failure(estimator: Any, one_row: Callable[[], Any]) -> Exception | None:
    """What a model fails with that is asked for a row; None if it answers, or cannot be asked."""
    ask: Any = getattr(estimator, "predict", None) or getattr(estimator, "predict_proba", lambda row: None)
    try:
        row = one_row()
    except ValueError:  # there is none, or none is left of rows that can be read once
        return None
    try:
        ask(row)
    except Exception as error:  # code that is not ours may raise anything
        return error
    return None


class UnfittedError(NotFittedError):
    """A model that is not fitted, or whose fit has failed; ``why`` is a sentence for a warning that goes on."""

    def __init__(self, why: str, remedy: str) -> None:
        self.why = why
        super().__init__(f"{why}. {remedy}")

    def __reduce__(self) -> Any:
        return type(self), (self.why, str(self).removeprefix(f"{self.why}. "))


def check_fitted(estimator: Any, one_row: Callable[[], Any]) -> None:
    if not is_fitted(estimator, one_row):
        raise UnfittedError(
            f"This {type(estimator).__name__} is not fitted yet",
            "Fit it to the labels you have, or choose the first batch at random, as a query does for a model that is "
            "not fitted.",
        )


@contextmanager
def whole_fit(estimator: Any, one_row: Callable[[], Any], y_training: Any = None) -> Iterator[None]:
    """Report a model that lacks a fitted attribute as not fitted, although it passes for fitted.

    A model that predicts a row lacks nothing: then it was a function of the user's that failed, or another model in it.
    """
    try:
        yield
    except Exception as error:
        is_whole = not (lack := _lack_of_fit(error)) or _failure(estimator, one_row) is None
        if is_whole and isinstance(error, UnfittedError):
            raise NotFittedError(str(error)) from error
        if is_whole or isinstance(error, UnfittedError):
            raise
        kind, one_class = type(estimator).__name__, _one_class(y_training)
        raise UnfittedError(
            f"The last fit of this {kind} failed: {lack}{one_class}",
            f"Fit it again, {'with labels of another class' if one_class else 'and see the error of that fit'}.",
        ) from error


def _lack_of_fit(error: BaseException | None) -> str:
    """What a fitted model would have, by an error or what caused it; empty if that was something else."""
    while error is not None:
        if isinstance(error, AttributeError) and hasattr(error.obj, "fit"):
            return f"it has no `{error.name}`"
        if isinstance(error, NotFittedError):
            return "it is fitted in part"
        error = error.__cause__
    return ""


def _one_class(y_training: Any) -> str:
    labels = [] if y_training is None else np.unique(np.asarray(y_training)).tolist()
    return f", and its labels are all {labels[0]!r}" if len(labels) == 1 else ""


class NoPosteriorError(TypeError):
    """Posterior draws of an estimator are not known, or do not exist; ``why`` is as in `UnfittedError`."""

    def __init__(self, estimator: Any, reason: str = "") -> None:
        self.why = f"{type(estimator).__name__} has no posterior draws" + (f" here ({reason})" if reason else "")
        super().__init__(
            f'{self.why}. Give the query posterior="bootstrap", or posterior=<an estimator to draw from instead>, such '
            "as RandomForestClassifier(); both need the training data, which a modAL learner passes on. Or register "
            "a source of draws with `sample_posterior.register`."
        )


def check_n_draws(n_draws: Any) -> int:
    return int(integer().check("n_draws", n_draws))


def class_outputs(probabilities: Any, estimator: Any) -> NDArray[Any]:
    """What ``predict_proba`` returned as (n_rows, n_classes), or (n_rows, n_classes, n_outputs) of several outputs.

    These may be a list with an array for each, or the probabilities of labels, columns of an indicator matrix.
    """
    if isinstance(probabilities, list) and probabilities and np.ndim(probabilities[0]) > 1:
        return stacked_outputs([np.asarray(plain_array("predict_proba", p)) for p in probabilities])
    probabilities = np.asarray(plain_array("predict_proba", probabilities))
    if probabilities.ndim > 2:
        return probabilities
    if are_labels(estimator):
        return np.stack([1 - probabilities, probabilities], axis=1)
    n_classes = len(getattr(estimator, "classes_", probabilities.T))
    if probabilities.ndim != 2 or probabilities.shape[1] != n_classes:
        raise ValueError(
            f"`predict_proba` of this {type(estimator).__name__} must return shape (n_rows, {n_classes}), a column for "
            f"each of its `classes_`. Got shape {probabilities.shape}, {probabilities.dtype}."
        )
    return probabilities


def stacked_outputs(outputs: Sequence[Any], axis: int = -1) -> NDArray[Any]:
    """Probabilities of each output, classes on one axis, with an axis of outputs behind it.

    Where one has fewer classes than others the rest are impossible: a class of probability 0 in all draws adds nothing
    to any score, as 0 log 0 and its variance are 0, and it is neither the first nor the second beside others.
    """
    n_classes = max(p.shape[axis] for p in outputs)
    widths = [[(0, 0)] * (p.ndim - 1) + [(0, n_classes - p.shape[axis])] for p in outputs]
    return np.stack([np.pad(p, width) for p, width in zip(outputs, widths, strict=True)], axis=-1)


def are_labels(estimator: Any) -> bool:
    """Whether columns of ``predict_proba`` are labels of which any number may hold, by what a fitted model carries."""
    model = estimator
    while isinstance(model, Pipeline) or hasattr(model, "best_estimator_"):
        model = model.best_estimator_ if hasattr(model, "best_estimator_") else model.steps[-1][1]
    is_net_of_labels = getattr(model, "out_activation_", "") == "logistic" and getattr(model, "n_outputs_", 1) > 1
    classes = getattr(model, "classes_", ())
    is_chain = any(map(np.ndim, classes)) and all(len(of_one) == 2 for of_one in classes)
    return bool(getattr(model, "multilabel_", False)) or is_net_of_labels or is_chain


def classes_of(estimator: Any) -> NDArray[Any]:
    """The labels that the columns of ``predict_proba`` stand for."""
    if not hasattr(estimator, "classes_"):
        raise ParameterError(
            "`estimator` must have `classes_`, the labels in the order of the columns of predict_proba, but this "
            f"{type(estimator).__name__} has none. Fit it, or set `self.classes_` in the `fit` of its class."
        )
    if any(map(np.ndim, estimator.classes_)):
        remedy = "Query a single member, or give a function as `loss`."
        raise several_outputs_error(estimator, "committees and losses of this package", remedy)
    return np.asarray(estimator.classes_)


def several_outputs_error(estimator: Any, what: str, remedy: str) -> ValueError:
    return ValueError(
        f"`estimator` must have one output per row for {what}, but this {type(estimator).__name__} has several outputs "
        f"(labels, targets, pixels or tokens). {remedy}"
    )


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
    """Draws need the data that the estimator was fitted to; ``why`` is as in `UnfittedError`."""

    def __init__(self, estimator: Any) -> None:
        self.why = f"{type(estimator).__name__} has no posterior draws without its training data"
        super().__init__(
            f"`X_training` and `y_training` must be given to draw from a {type(estimator).__name__}: its posterior "
            "depends on the data it was fitted to, which it does not store. A fitted modAL learner passes them on."
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


def check_classifier(estimator: Any, method: str, name: str = "estimator") -> None:
    if task(estimator) == "regressor":
        raise TypeError(
            f"`{name}` must be a classifier for {method}. Got a {type(estimator).__name__}, a regressor. For a "
            'regressor use StochasticBatchQuery("std_dev").'
        )


LEAVE_OUT = "Leave those rows out."


def plain_labels(y: Any, name: str = "y", remedy: str = LEAVE_OUT) -> NDArray[Any]:
    """Labels of any shape and container as an array of numpy, none of them missing, and all of one kind."""
    y = _stacked(y, name)
    if isinstance(y, list | tuple):
        y = [value.tolist() if hasattr(value, "detach") else value for value in y]
    given = _opened(y)
    missing = _missing(given) | _marked_as_missing(y, given)
    if missing.any():
        raise _gap_error(given, missing, name, remedy)
    if any(issubclass(of_value, list | np.ndarray) for of_value in _types(given)):
        raise ValueError(f"`{name}` must hold one label for each row. Got several for some rows.")
    kinds = {_kind_of_type(of_value) for of_value in _types(given)}
    if {"text", "numbers"} <= kinds:
        values = given.ravel().tolist()
        one_of_each = [next(v for v in values if _kind_of_type(type(v)) == kind) for kind in ("numbers", "text")]
        raise mixed_labels_error(name, one_of_each)
    if isinstance(y, list):
        return np.asarray(y)
    if given.dtype.kind == "O" and kinds == {"numbers"}:
        return np.array(given.tolist())
    return given.astype(object) if given.dtype.kind == "T" else np.asarray(given)


def kind_of_labels(y: NDArray[Any]) -> str:
    """What labels are: "numbers" (or booleans), "text", "bytes", "dates" or "objects"."""
    if y.dtype.kind in "OT":
        kinds = {_kind_of_type(of_value) for of_value in _types(y)}
        return kinds.pop() if len(kinds) == 1 else "objects"
    return {"U": "text", "S": "bytes", "M": "dates", "m": "dates", "V": "objects"}.get(y.dtype.kind, "numbers")


def mixed_labels_error(name: str, values: list[Any]) -> ParameterError:
    """The error for labels that are text and numbers; ``values`` are one of each."""
    shown = " and ".join(f"{value!r} ({type(value).__name__})" for value in values)
    return ParameterError(
        f"`{name}` must hold labels of one kind, all text or all numbers. Got {shown}. Convert one of them."
    )


def check_labels(y: Any, name: str = "y_training") -> NDArray[Any]:
    """One label for each row, of a single axis."""
    return one_axis(plain_labels(y, name), name)


def one_axis(y: NDArray[Any], name: str = "y_training") -> NDArray[Any]:
    """Labels that are an array already, of a single axis."""
    if y.ndim != 1 and (y.ndim != 2 or y.shape[1] != 1):
        raise ValueError(
            f"`{name}` must have shape (n_labelled,), one label per row. Got shape {y.shape}: several outputs. "
            "MCDropoutClassifier and MCDropoutRegressor learn several, MultiOutputClassifier fits a model to each."
        )
    return y.ravel()


def check_known_labels(y: NDArray[Any], classes: Any, name: str = "y_training") -> None:
    """Check that the labels are among those that an estimator was fitted to."""
    unknown = np.setdiff1d(y, classes)
    if len(unknown):
        raise ValueError(
            f"`{name}` must hold labels that the estimator was fitted to, {np.asarray(classes)}. Got {unknown} too."
        )


def one_class_error(labels: NDArray[Any]) -> ValueError:
    return ValueError(
        f"`y` must hold at least two classes to train a classifier. Got one class, {labels.tolist()[0]!r}. Declare "
        "labels that `y` still lacks with `classes`."
    )


def check_classes(y: NDArray[Any], declared: Any) -> NDArray[Any]:
    """All labels, sorted: the declared ones, or those in y if none are declared."""
    if declared is None:
        return np.unique(y)
    classes = np.unique(plain_labels(declared, "classes", "Leave it out."))
    unknown = np.setdiff1d(y, classes)
    if len(unknown):
        raise ValueError(f"`classes` must list every label in `y`. Got {classes}, which lacks {unknown}.")
    return classes


def check_labels_of(n_rows: int, y: Any, suffix: str = "") -> NDArray[Any]:
    """Labels as an array (n_rows, ...): one for each row, or one for each of its outputs, and none missing."""
    y = plain_labels(y, f"y{suffix}")
    if y.shape[:1] != (n_rows,):
        raise ValueError(
            f"`y{suffix}` must have shape ({n_rows}, ...), labels for each row of `X{suffix}`. Got {y.shape} instead."
        )
    return y


def _stacked(y: Any, name: str) -> Any:
    """One array, of an array of labels for each row: those of its pixels, say."""
    is_listed = isinstance(y, list | tuple) or (str(getattr(y, "dtype", "")) == "object" and y.ndim == 1)
    if not is_listed or not len(y) or not all(isinstance(of_row, np.ndarray) and of_row.ndim for of_row in y):
        return y
    shapes = [of_row.shape for of_row in y]
    others = [row for row, shape in enumerate(shapes) if shape != shapes[0]]
    if others:
        raise ValueError(
            f"`{name}` must have as many labels in every row. Got shape {shapes[0]} in row 0, and {shapes[others[0]]} "
            f"in row {others[0]}. Pad them, and mark by `mask` of a query the outputs that count."
        )
    return np.stack(list(y))


def _opened(y: Any) -> NDArray[Any]:
    """The values as an array, those of a list as objects: numpy would make text of a NaN beside text."""
    if hasattr(y, "toarray"):
        return np.asarray(y.toarray())
    return np.array(y, dtype=object) if isinstance(y, list) else as_array(y)


def _types(y: NDArray[Any]) -> set[type]:
    return set(map(type, y.ravel().tolist())) if y.dtype.kind in "OT" else set()


def _kind_of_type(of_value: type) -> str:
    if issubclass(of_value, str):
        return "text"
    return "numbers" if issubclass(of_value, numbers.Number | np.bool_) else "objects"


def _marked_as_missing(y: Any, given: NDArray[Any]) -> NDArray[np.bool_]:
    """What the container itself says is missing: a masked array of numpy, the containers of pandas."""
    if isinstance(y, np.ma.MaskedArray):
        return np.ma.getmaskarray(y)
    return np.asarray(y.isna(), dtype=bool) if hasattr(y, "isna") else np.zeros(given.shape, dtype=bool)


def _missing(y: NDArray[Any]) -> NDArray[np.bool_]:
    if y.dtype.kind in "fc":
        return ~np.isfinite(y)
    if y.dtype.kind in "mM":
        return np.isnat(y)
    if _types(y) <= {str, int, bool}:
        return np.zeros(y.shape, dtype=bool)
    return np.array([_is_gap(value) for value in y.ravel().tolist()], dtype=bool).reshape(y.shape)


def _is_gap(value: Any) -> bool:
    """Whether it is None, NaN, infinite, or the missing value of pandas or of numpy's masked arrays."""
    if value is None or value is np.ma.masked or type(value).__name__ in {"NAType", "NaTType"}:
        return True
    if isinstance(value, float | np.floating):
        return not np.isfinite(value)
    return bool(np.all(value != value))  # NaN and NaT of any other type


def _gap_error(y: NDArray[Any], missing: NDArray[np.bool_], name: str, remedy: str) -> ValueError:
    missing = np.atleast_1d(missing)
    rows = np.flatnonzero(missing.reshape(len(missing), -1).any(axis=1))
    value = y.ravel()[int(np.flatnonzero(missing)[0])]
    got = str(value) if _missing(np.atleast_1d(value)).any() else "a masked value"
    return ValueError(
        f"`{name}` must have a finite label for every row. Got {got} in row {rows[0]}, and {len(rows)} such rows "
        f"in all. {remedy}"
    )
