"""Wrappers: the model inside, how its rows and labels are made, and how its outputs are converted back.

They are recognised by what they carry once fitted, whoever wrote them:

===================  ========================================================================================
``steps``            a pipeline; steps that resample, as imbalanced-learn has them, do nothing at prediction
``best_estimator_``  a search
``regressor_``       a transformed target, with its ``transformer_``
``estimator_``       one model that answers for the wrapper: a tuned threshold, features selected by recursion
===================  ========================================================================================

``FrozenEstimator`` is recognised by its type. An ensemble is no wrapper: its ``estimator_`` is the template of its
members, ``estimators_``.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn import get_config
from sklearn.base import MetaEstimatorMixin
from sklearn.compose import TransformedTargetRegressor
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.multioutput import ClassifierChain, MultiOutputClassifier, MultiOutputRegressor, RegressorChain
from sklearn.utils.metadata_routing import MetadataRouter, get_routing_for_object
from sklearn.utils.validation import check_is_fitted, has_fit_parameter

from .. import _containers as containers
from .._utils.validation import as_array, one_axis, plain_labels, task, warn
from ._covariance import NormalLaw

Function = Callable[[Any], Any]
FitParams = Mapping[str, Any]
"""Keywords for ``fit``, weights of rows aside."""

_ASKING_FOR_WEIGHTS = " under metadata routing, unless a part asks for them by `set_fit_request(sample_weight=True)`"
_KNOWN = ("imblearn", "skactive", "sklearn", "skorch")  # packages whose classes answer by their models
_OF_SEVERAL = MultiOutputClassifier, MultiOutputRegressor, ClassifierChain, RegressorChain  # even of a single output
_BLOCK = 256  # rows: their covariances with some hundred targets stay in the cache


@dataclass(frozen=True)
class Unwrapped:
    """The fitted model inside a wrapper, and how inputs and outputs are converted; None leaves them unchanged."""

    estimator: Any  # which may be a wrapper as well
    rows: Function | None = None  # from the wrapper's rows and labels to the model's
    labels: Function | None = None
    answers: Function | None = None  # from the model's draws or probabilities to the wrapper's

    def training_data(self, X: Any, y: Any) -> dict[str, Any]:
        """The training data of the model, as keywords of `sample_posterior`."""
        return {
            "X_training": X if X is None or self.rows is None else self.rows(X),
            "y_training": y if y is None or self.labels is None else self.labels(y),
        }


@dataclass(frozen=True)
class Composed:
    """A function of rows with steps before and after it; its batch size is that of the net inside, if any."""

    function: Function
    before: Function | None = None
    after: Function | None = None

    def __call__(self, X: Any) -> Any:
        answer = self.function(X if self.before is None else self.before(X))
        return answer if self.after is None else self.after(answer)

    @property
    def batch_size(self) -> int | None:
        return getattr(self.function, "batch_size", None)

    @property
    def kind(self) -> str | None:
        return getattr(self.function, "kind", None)

    @property
    def mask(self) -> Function | None:
        of_rows = getattr(self.function, "mask", None)
        return of_rows if of_rows is None or self.before is None else Composed(of_rows, before=self.before)

    def with_batch_size(self, n_rows: int) -> Composed:
        return replace(self, function=in_batches(self.function, n_rows))


@dataclass(frozen=True)
class LinearDraws(Composed):
    """Draws ``after(function(X))`` by random weights of features ``function(X)``, and the normal law of these."""

    law: NormalLaw | None = None


def linear_part(predict: Any) -> tuple[Function, NormalLaw] | None:
    """Features of rows, and the law of what is linear in them; None for draws that come from no such law."""
    if isinstance(predict, LinearDraws) and predict.law is not None:
        return predict.function, predict.law
    is_wrapped = isinstance(predict, Composed) and predict.after is None
    found = linear_part(predict.function) if is_wrapped else None
    return None if found is None else (Composed(found[0], before=predict.before), found[1])


@dataclass(frozen=True)
class InEqualBlocks:
    """Scores of rows, as one draw, by a function that sees the same blocks for every chunk size: equal to the bit."""

    function: Composed

    @property
    def batch_size(self) -> int:
        return self.function.batch_size or _BLOCK

    def __call__(self, X: Any) -> Any:
        parts = [self.function(block) for block in containers.iter_chunks(X, None, self.batch_size)]
        return np.concatenate(parts)[np.newaxis]


@dataclass(frozen=True)
class Steps:
    """Functions of rows, applied one after the other."""

    functions: list[Function]

    def __call__(self, X: Any) -> Any:
        return functools.reduce(lambda rows, function: function(rows), self.functions, X)


def bytes_on_the_way(estimator: Any, X: Any) -> float:
    """Largest number of bytes that a row takes between the steps of a model: a path may become an image."""
    most = 0.0
    while (found := unwrap(estimator)) is not None:
        for function in found.rows.functions if isinstance(found.rows, Steps) else [found.rows]:
            X = X if function is None else function(X)
            most = max(most, containers.bytes_per_row(X) or 0.0)
        estimator = found.estimator
    return most


def in_batches(function: Any, n_rows: int | None) -> Any:
    """The same function with ``n_rows`` rows in each forward pass, if it asks a net; others unchanged."""
    if n_rows is None or not hasattr(function, "with_batch_size"):
        return function
    return function.with_batch_size(n_rows)


def unwrap(estimator: Any) -> Unwrapped | None:
    """Remove one wrapper from a fitted model; None if there is none around a single model."""
    if _is_pipeline(estimator):
        return _last_step(estimator.steps)
    if isinstance(estimator, FrozenEstimator):
        return Unwrapped(estimator.estimator)
    is_meta = isinstance(estimator, MetaEstimatorMixin | TransformedTargetRegressor)
    if is_meta and type(estimator).__module__.startswith("sklearn."):  # others may keep what they learned elsewhere
        check_is_fitted(estimator)
    if hasattr(estimator, "best_estimator_"):
        return _of_same_classes(estimator, estimator.best_estimator_)
    if hasattr(estimator, "regressor_") and hasattr(estimator, "transformer_"):
        return _target_model(estimator.regressor_, estimator.transformer_)
    if _answers_by_one_model(estimator):
        return _of_same_classes(estimator, estimator.estimator_)
    if hasattr(estimator, "refit") and hasattr(estimator, "estimator"):
        kind = NotFittedError if estimator.refit else ValueError  # for which there is no first batch at random
        raise kind(f"This {type(estimator).__name__} holds no fitted model. Fit it, with refit=True.")
    return None


def _is_pipeline(estimator: Any) -> bool:
    """Whether it has steps like those of a Pipeline: pairs of a name and an estimator."""
    steps = getattr(estimator, "steps", None)
    return isinstance(steps, list) and bool(steps) and all(isinstance(step, tuple) and len(step) == 2 for step in steps)


def _last_step(steps: list[tuple[str, Any]]) -> Unwrapped | None:
    *before, (_, last) = steps
    if _is_skipped(last):
        return None
    # Step by step: a Pipeline of the transformers alone asks whether its last is fitted, which a stateless one
    # cannot answer, and has no `transform` where one of them resamples.
    transforms = [step.transform for _, step in before if not _is_skipped(step)]
    # Labelled rows are not resampled for draws that need them: copies of rows are no further evidence.
    return Unwrapped(last, rows=Steps(transforms) if transforms else None)


def _is_skipped(step: Any) -> bool:
    is_sampler = hasattr(step, "fit_resample") and not hasattr(step, "transform")
    return step is None or (isinstance(step, str) and step == "passthrough") or is_sampler


def _target_model(regressor: Any, transformer: Any) -> Unwrapped:
    def as_fitted(y: Any) -> NDArray[Any]:
        y = np.asarray(y)
        return transformer.transform(y.reshape(len(y), -1)).reshape(y.shape)

    def in_units_of_y(draws: Any) -> Any:
        draws = as_array(draws)
        n_targets = draws.shape[2] if draws.ndim > 2 else 1
        return transformer.inverse_transform(draws.reshape(-1, n_targets)).reshape(draws.shape)

    return Unwrapped(regressor, labels=as_fitted, answers=in_units_of_y)


def _answers_by_one_model(estimator: Any) -> bool:
    """Whether an ``estimator_`` was fitted to the rows given, and is what predicts."""
    is_template = hasattr(estimator, "estimators_")
    made_labels = hasattr(estimator, "transduction_")  # self-training, which fits to labels that it predicted
    return hasattr(estimator, "estimator_") and hasattr(estimator, "predict") and not (is_template or made_labels)


def _of_same_classes(wrapper: Any, model: Any) -> Unwrapped | None:
    """The model in a wrapper that may select features; None if labels or columns would have to be translated."""
    theirs, ours = getattr(wrapper, "classes_", None), getattr(model, "classes_", None)
    if theirs is not None and ours is not None and theirs is not ours and not np.array_equal(theirs, ours):
        return None
    return Unwrapped(model, wrapper.transform if hasattr(wrapper, "get_support") else None)


def is_of_user(estimator: Any, name: str) -> bool:
    """Whether the user wrote a method of an estimator, which need not answer as the model inside does."""
    # The class that defines it decides: a wrapped function says that it is of the module of what it wraps.
    owner = next((kind for kind in type(estimator).__mro__ if name in vars(kind)), None)
    is_known = owner is None or owner.__module__.partition(".")[0] in _KNOWN
    return name in getattr(estimator, "__dict__", ()) or not is_known


def without_searches(estimator: Any) -> Any:
    """The best estimator of a fitted search, so that refitting does not search again."""
    while hasattr(estimator, "best_estimator_"):
        estimator = estimator.best_estimator_
    return estimator


def labels_to_fit(estimator: Any, y: Any) -> NDArray[Any]:
    """Labels of each row, in the shape that the estimator, fitted or not, is to be fitted with.

    A net that returns (n, 1) needs labels (n, 1), or its loss compares each output with every label. Classifiers, and
    what inherits its ``fit`` from scikit-learn or this package, get a single axis. Several labels a row stay as they
    are.
    """
    y = plain_labels(y, "y_training")
    if y[:1].size > 1:
        return y
    flat = one_axis(y)
    return y if _may_want_a_column(estimator) else flat


def _may_want_a_column(estimator: Any) -> bool:
    """Whether what is fitted in the end, inside pipelines, searches and transformed targets, may want labels (n, 1)."""
    if isinstance(estimator, _OF_SEVERAL) or task(estimator) == "classifier":
        return isinstance(estimator, _OF_SEVERAL)
    part = part_to_fit(estimator)
    if part is not None:
        return _may_want_a_column(part)
    owners = [kind for kind in type(estimator).__mro__ if "fit" in vars(kind)]
    return not any(kind.__module__.partition(".")[0] in {"sklearn", "skactive"} for kind in owners)


def part_to_fit(estimator: Any) -> Any:
    """What a wrapper, fitted or not, hands its labels on to; None for others, as bagging, which flattens labels."""
    if _is_pipeline(estimator):
        return estimator.steps[-1][1]
    for part, beside in (("regressor", "transformer"), ("estimator", "refit")):
        if hasattr(estimator, part) and hasattr(estimator, beside):
            return getattr(estimator, part)
    return None


def fit_with(estimator: Any, X: Any, y: Any, sample_weight: Any, fit_params: FitParams | None) -> Any:
    """Fit with keywords, and with weights if there are any and the estimator takes them."""
    keywords = dict(fit_params or {})
    keyword = None if sample_weight is None else weight_keyword(estimator)
    if keyword is not None:
        keywords[keyword] = sample_weight
    elif sample_weight is not None:
        name, asking = type(estimator).__name__, "" if _routing(estimator) is None else _ASKING_FOR_WEIGHTS
        warn(
            f"`fit` of {name} takes no row weights{asking}: `sample_weight` is ignored there, and each row counts once."
        )
    return estimator.fit(X, y, **keywords)


def weight_keyword(estimator: Any) -> str | None:
    """The keyword of ``fit`` for weights of rows, of an estimator that is fitted or not; None if there is none."""
    routing = _routing(estimator)
    if routing is not None:
        return "sample_weight" if routing.consumes("fit", ["sample_weight"]) else None
    if isinstance(estimator, _OF_SEVERAL):  # which have it for models that have none
        return weight_keyword(estimator.estimator)
    if has_fit_parameter(estimator, "sample_weight"):
        return "sample_weight"
    part = part_to_fit(estimator)
    keyword = None if part is None else weight_keyword(part)
    steps = getattr(estimator, "steps", None)
    return keyword if keyword is None or steps is None else f"{steps[-1][0]}__{keyword}"


def _routing(estimator: Any) -> MetadataRouter | None:
    """What decides which parts of an estimator get weights; None where metadata routing of scikit-learn does not."""
    if not get_config()["enable_metadata_routing"]:
        return None
    try:
        routing = get_routing_for_object(estimator)
    except NotImplementedError:  # a meta-estimator that passes nothing on yet, and refuses weights
        routing = MetadataRouter(type(estimator).__name__)
    return routing if isinstance(routing, MetadataRouter) else None
