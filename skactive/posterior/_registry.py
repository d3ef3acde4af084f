"""The registry behind `sample_posterior`: which function draws from which estimator.

A source is a function ``(estimator, n_draws, rng) -> predict_draws`` registered for a type, with keyword-only
parameters ``X_training``, ``y_training`` and ``sample_weight`` for what it needs of the data of the fit. Wrappers need
no source: the model inside is drawn from (`_wrappers`).
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import singledispatch
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.ensemble import VotingClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.utils.validation import validate_data

from .. import _containers as containers
from .._utils.randomness import check_rng
from .._utils.validation import (
    NoPosteriorError,
    as_array,
    check_draws_of,
    check_is_model,
    check_n_draws,
    check_same_functions,
    class_outputs,
    classes_of,
    has_outputs,
    kind_of_draws,
    probabilities_of,
    real_array,
    several_outputs_error,
    shown,
    task,
    warn,
)
from ..scores import entropy
from ._wrappers import Composed, unwrap

PredictDraws = Callable[[Any], Any]

DEFAULT_DRAWS = 100
"""Draws from anything that is not an ensemble."""


@singledispatch
def source(
    estimator: Any,
    n_draws: int | None,
    rng: np.random.Generator,
    *,
    X_training: Any = None,
    y_training: Any = None,
    sample_weight: Any = None,
) -> PredictDraws:
    wrapped = unwrap(estimator)
    if wrapped is None:
        raise NoPosteriorError(estimator)
    training = {**wrapped.training_data(X_training, y_training), "sample_weight": sample_weight}
    predict_draws = sample_posterior(wrapped.estimator, n_draws, rng, **training)
    return Composed(predict_draws, before=wrapped.rows, after=wrapped.answers)


@singledispatch
def noise_variance(estimator: Any) -> Any:
    """Variance of the label noise, in the units of y squared.

    An attribute ``noise_variance_`` of the fitted estimator is enough. For a class that is not yours, register a
    function: ``@noise_variance.register(MyRegressor)``. A wrapper has that of the model inside, unless it transforms y.

    Parameters
    ----------
    estimator : object
        A fitted regressor.

    Returns
    -------
    float or array-like of shape (n_draws, n_points)

    See Also
    --------
    scores.gaussian_bald : The score that uses it.
    sample_posterior : The draws themselves.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from sklearn.linear_model import BayesianRidge
    >>> from skactive.posterior import noise_variance
    >>> model = BayesianRidge().fit(*load_diabetes(return_X_y=True))
    >>> round(noise_variance(model))
    2932
    """
    if hasattr(estimator, "noise_variance_"):
        return estimator.noise_variance_
    wrapped = unwrap(estimator)
    if wrapped is not None and wrapped.answers is None:
        return noise_variance(wrapped.estimator)
    raise ValueError(
        f"`score` needs the variance of the label noise, but {type(estimator).__name__} has none. Give it an "
        "attribute `noise_variance_`, fix it with functools.partial(gaussian_bald, noise_variance=...), or use "
        'score="variance".'
    )


def has_source(estimator: Any) -> bool:
    """Whether the estimator has a method ``sample_posterior``, or its class a source; not what a wrapper holds."""
    return hasattr(estimator, "sample_posterior") or source.dispatch(type(estimator)) is not source.dispatch(object)


def innermost(estimator: Any) -> Any:
    """The model inside all wrappers that draws are made from."""
    while not has_source(estimator) and (wrapped := unwrap(estimator)) is not None:
        estimator = wrapped.estimator
    return estimator


class WithPlaces(Composed):
    """Draws by a function that gives beside them, in the same pass, where rows lie: embeddings, or leaves."""

    def __call__(self, X: Any) -> Any:
        return self.function(X)[0]


def with_places(predict: Any, X: Any) -> tuple[Any, Any]:
    """Draws of rows, and where these lie if they come with it, else None."""
    if isinstance(predict, WithPlaces):
        return predict.function(X)
    if not isinstance(predict, Composed) or not isinstance(predict.function, Composed):
        return predict(X), None
    draws, places = with_places(predict.function, X if predict.before is None else predict.before(X))
    return draws if predict.after is None else predict.after(draws), places


def kind_from(predict_draws: Any, estimator: Any, draws: Any) -> str:
    """What draws are of: what ``predict_draws`` says by an attribute ``kind``, else the task of the estimator."""
    of_task = {"classifier": "classes", "regressor": "numbers"}.get(task(estimator) or "")
    return kind_of_draws(draws, getattr(predict_draws, "kind", None) or of_task)


def prediction_as_draw(estimator: Any) -> PredictDraws:
    """The predictive distribution of a classifier as a single draw, for scores that need no more."""
    members = estimator.estimators_ if isinstance(estimator, VotingClassifier) else ()
    frozen = [member for member in members if isinstance(member, FrozenEstimator)]
    known = [estimator.classes_, np.arange(len(estimator.classes_))] if frozen else []  # or their numbers
    if not all(any(np.array_equal(member.classes_, classes) for classes in known) for member in frozen):
        raise ValueError(
            f"`estimator` must have members that know all its classes, {estimator.classes_}, for a soft vote to "
            'average columns, and one was fitted to others before. Leave it out, or score draws, as "bald" does.'
        )
    return lambda X: class_outputs(estimator.predict_proba(X), estimator)[np.newaxis]


def class_probabilities(estimator: Any, X: Any) -> tuple[NDArray[np.float64], NDArray[Any]]:
    """What a classifier says of rows, (n_rows, n_classes), and the labels that the columns stand for."""
    draws = prediction_as_draw(estimator)(X)
    if has_outputs(draws, "classes"):
        raise several_outputs_error(estimator, "losses of this package", "Give a function with one number per row.")
    with probabilities_of(estimator):
        entropy(draws)  # a score refuses what is no probability
    return draws[0].astype(np.float64), classes_of(estimator)


def sample_posterior(
    estimator: Any,
    n_draws: int | None,
    rng: np.random.Generator,
    *,
    X_training: Any = None,
    y_training: Any = None,
    sample_weight: Any = None,
) -> PredictDraws:
    """Draw functions from the posterior of a fitted estimator.

    Parameters
    ----------
    estimator : object
        A fitted estimator with a method ``sample_posterior(n_draws, rng)``, such as `MCDropoutClassifier`; or of a
        registered type: forests, bagging, voting and calibrated ensembles, modAL's committees, Gaussian processes,
        logistic and Bayesian linear regressions, skorch nets and torch modules with dropout layers; or a wrapper around
        one of these, such as a Pipeline, a fitted search, a tuned threshold or a transformed target.
    n_draws : int or None
        Number of functions. None is all members of an ensemble, and 100 draws otherwise. Fewer than an ensemble has are
        distinct members, chosen at random.
    rng : numpy.random.Generator
    X_training, y_training : array-like, optional
        What the estimator was fitted to: needed by logistic regressions.
    sample_weight : array-like of shape (n_labelled,), optional
        Weights that these rows had in the fit, if any. Sources that need no training data find them in the model.

    Returns
    -------
    predict_draws : callable
        ``predict_draws(X)`` is an array or tensor (n_draws, n_points, n_classes) of probabilities with columns in the
        order of ``classes_``, or (n_draws, n_points) of predicted values for a regressor; with axes of several outputs
        behind these. They are the same functions at every call. Our nets' rows are equal to the bit, on the CPU,
        however X is cut into chunks. Draws of your own may have an attribute ``kind``, "classes" or "numbers", where
        the estimator is neither classifier nor regressor, and a function ``mask(X)``: which outputs of rows count.

    Raises
    ------
    NoPosteriorError
        A TypeError: the estimator has no posterior draws. `bootstrap` makes draws for any estimator.
    ValueError
        If ``n_draws`` exceeds the members of an ensemble; if training data are needed but missing; if a net has no
        dropout.

    See Also
    --------
    posterior.bootstrap : Draws by refitting, for any model.
    posterior.check_posterior : Checks draws of your own.
    query.draws_of : Draws for the rows of a pool.

    References
    ----------
    Gal and Ghahramani (2016), Dropout as a Bayesian Approximation; Kirsch et al. (2019), BatchBALD, on why one mask
    is needed for all rows.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> from skactive import sample_posterior
    >>> X, y = load_iris(return_X_y=True)
    >>> forest = RandomForestClassifier(10, random_state=0).fit(X, y)
    >>> predict_draws = sample_posterior(forest, 5, np.random.default_rng(0))
    >>> predict_draws(X).shape
    (5, 150, 3)
    """
    check_is_model(estimator)
    check_rng(rng)
    if hasattr(estimator, "sample_posterior"):
        n_draws = DEFAULT_DRAWS if n_draws is None else check_n_draws(n_draws)
        return _check_is_function(estimator.sample_posterior(n_draws, rng), estimator)
    function = source.dispatch(type(estimator))
    asked = inspect.signature(function).parameters
    training = {"X_training": X_training, "y_training": y_training, "sample_weight": sample_weight}
    if sample_weight is not None and "X_training" in asked and "sample_weight" not in asked:
        warn(
            f"The draws of this {type(estimator).__name__} ignore `sample_weight`: each training row counts once. "
            'posterior="bootstrap" uses the weights with any model.'
        )
    training = {name: value for name, value in training.items() if name in asked}
    return _check_is_function(function(estimator, n_draws, rng, **training), estimator)


sample_posterior.register = source.register  # type: ignore[attr-defined]


def check_features(estimator: Any, X: Any, dtype: Any = "numeric") -> Any:
    """Check the number of columns and the feature names as the fitted estimator does; it may take missing values."""
    finite = False if dtype is None else "allow-nan"
    return validate_data(estimator, X, accept_sparse="csr", reset=False, ensure_all_finite=finite, dtype=dtype)


def _check_is_function(predict_draws: Any, estimator: Any) -> Callable[[Any], Any]:
    if callable(predict_draws):
        return predict_draws
    raise TypeError(
        "`sample_posterior` must return a function predict_draws(X), which evaluates the draws for the rows that it is "
        f"given. That of this {type(estimator).__name__} returned {shown(predict_draws)}."
    )


def check_posterior(
    estimator: Any, X: Any, *, n_draws: int | None = None, X_training: Any = None, y_training: Any = None
) -> None:
    """Check that an estimator's draws are what `sample_posterior` promises; for the tests of a new source.

    Parameters
    ----------
    estimator : fitted estimator
    X : array-like of shape (n_points, ...)
        At least five rows, not all equal.
    n_draws, X_training, y_training
        As in `sample_posterior`.

    Raises
    ------
    ValueError, TypeError
        If there are no draws, if they have the wrong axes, are not probabilities or real numbers, change from call to
        call or with the rows passed along, or are all equal.

    See Also
    --------
    sample_posterior : Where draws of your own are registered.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> from skactive.posterior import check_posterior
    >>> X, y = load_iris(return_X_y=True)
    >>> check_posterior(RandomForestClassifier(10, random_state=0).fit(X, y), X)
    """
    training = {"X_training": X_training, "y_training": y_training}
    X = containers.prepare_pool(X)
    predict_draws = sample_posterior(estimator, n_draws, np.random.default_rng(0), **training)
    draws = predict_draws(X)
    check_draws_of(draws, containers.count_rows(X), n_draws=n_draws)
    draws, kind = real_array("draws", draws, objects=False), kind_from(predict_draws, estimator, draws)
    if kind == "classes":
        entropy(draws)  # a score refuses what is no probability
    if hasattr(estimator, "classes_") and not has_outputs(draws, kind):
        check_draws_of(draws, containers.count_rows(X), len(estimator.classes_))
    check_same_functions(draws, as_array(predict_draws(X)), "a second call", kind)
    one_by_one = [as_array(predict_draws(row)) for row in containers.iter_chunks(X, None, 1)]
    check_same_functions(draws, np.concatenate(one_by_one, axis=1), "rows given one by one", kind)
    if len(draws) < 2 or np.ptp(as_array(draws).astype(np.float64), axis=0).max() == 0:
        raise ValueError("`predict_draws` must return at least two draws that differ somewhere. These are all equal.")
