"""Which function draws from which estimator: the registry behind `sample_posterior`.

A source is a function ``(estimator, n_draws, rng) -> predict_draws`` registered for a type. One that needs the data the
estimator was fitted to has two keyword-only parameters more, ``X_training`` and ``y_training``.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import singledispatch
from typing import Any

import numpy as np

from .._checks import NoPosteriorError
from .._random import check_rng
from ._checks import no_noise_variance_error

PredictDraws = Callable[[Any], Any]

DEFAULT_DRAWS = 100
"""Draws of anything that is not an ensemble."""


@dataclass(frozen=True)
class Source:
    """A line of the table of sources in the documentation."""

    types: tuple[type, ...]
    draws: str
    kind: str
    cost: str
    module: str


SOURCES: list[Source] = []


@singledispatch
def _draw(estimator: Any, n_draws: int | None, rng: np.random.Generator) -> PredictDraws:
    raise NoPosteriorError(estimator)


def source(
    *types: type, draws: str, kind: str, cost: str
) -> Callable[[Callable[..., PredictDraws]], Callable[..., Any]]:
    """Register a source of this package for some types, with its line in the table.

    ``draws`` says what a draw is, ``kind`` whether the draws are exact, approximate or a wrapper's, ``cost`` what they
    take beyond one prediction a draw.
    """

    def register(function: Callable[..., PredictDraws]) -> Callable[..., Any]:
        for type_ in types:
            _draw.register(type_, function)
        SOURCES.append(Source(types, draws, kind, cost, function.__module__))
        return function

    return register


@singledispatch
def noise_variance(estimator: Any) -> Any:
    """Variance of the noise on a label, in the units of y squared, as the model has it (an attribute will do)."""
    if hasattr(estimator, "noise_variance_"):
        return estimator.noise_variance_
    raise no_noise_variance_error(estimator)


def has_noise_variance(*types: type) -> Callable[[Callable[[Any], Any]], Callable[[Any], Any]]:
    """Register how some types tell the variance of their noise."""

    def register(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
        for type_ in types:
            noise_variance.register(type_, function)
        return function

    return register


@dataclass(frozen=True)
class Through:
    """Functions of rows as they come out of a wrapper's steps; what is said of batches is said by the net inside."""

    inside: Callable[[Any], Any]
    before: Callable[[Any], Any] | None = None
    after: Callable[[Any], Any] | None = None

    def __call__(self, X: Any) -> Any:
        answer = self.inside(X if self.before is None else self.before(X))
        return answer if self.after is None else self.after(answer)

    @property
    def batch_size(self) -> int | None:
        return getattr(self.inside, "batch_size", None)

    def with_batch_size(self, n_rows: int) -> Through:
        return replace(self, inside=in_batches(self.inside, n_rows))


def in_batches(predict_draws: Any, n_rows: int | None) -> Any:
    """The same functions, asked for so many rows at once where a net answers; others are as they are."""
    if n_rows is None or not hasattr(predict_draws, "with_batch_size"):
        return predict_draws
    return predict_draws.with_batch_size(n_rows)


def has_source(estimator: Any) -> bool:
    """Whether the estimator has the method, or its type a registration. One inside a wrapper may still have none."""
    return hasattr(estimator, "sample_posterior") or _draw.dispatch(type(estimator)) is not _draw.dispatch(object)


def members(estimator: Any) -> Any:
    """All that an ensemble can be drawn from, or None for what is no ensemble with draws."""
    if not has_source(estimator):
        return None
    names = ("estimators_", "calibrated_classifiers_", "learner_list")
    return next((getattr(estimator, name) for name in names if hasattr(estimator, name)), None)


def sample_posterior(
    estimator: Any, n_draws: int | None, rng: np.random.Generator, *, X_training: Any = None, y_training: Any = None
) -> PredictDraws:
    """Draw functions from what a fitted estimator believes.

    Parameters
    ----------
    estimator : object
        A fitted estimator with a method ``sample_posterior(n_draws, rng)``, such as `MCDropoutClassifier`,
        `MCDropoutRegressor` and `LastLayerClassifier`; or one of a registered type: forests, bagging, voting and
        calibrated ensembles, modAL's committees, Gaussian processes, logistic and Bayesian linear regressions, linear
        discriminant analysis, skorch nets and torch modules with dropout layers; or a Pipeline, a search or another
        wrapper around one.
    n_draws : int or None
        Number of functions. None is all members of an ensemble and 100 draws of everything else. Fewer than an ensemble
        has are distinct members, chosen at random.
    rng : numpy.random.Generator
    X_training, y_training : array-like, optional
        What the estimator was fitted to: needed by logistic regressions and linear discriminant analysis.

    Returns
    -------
    predict_draws : callable
        ``predict_draws(X)`` is an array or tensor (n_draws, n_points, n_classes) of probabilities with columns in the
        order of ``classes_``, or (n_draws, n_points) of predicted values for a regressor; the same functions at every
        call. Our nets' rows are equal to the bit, on the CPU, however X is cut into chunks.

    Raises
    ------
    NoPosteriorError
        A TypeError: the estimator has no draws of its own; `bootstrap` gives any estimator some.
    NoTrainingDataError
        A ValueError: the draws need the training data, and they are not given.
    ValueError
        If ``n_draws`` is more than an ensemble has members, a net has no dropout, or the estimator has several outputs.
    sklearn.exceptions.NotFittedError

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
    check_rng(rng)
    if hasattr(estimator, "sample_posterior"):
        return estimator.sample_posterior(DEFAULT_DRAWS if n_draws is None else n_draws, rng)
    function = _draw.dispatch(type(estimator))
    if "X_training" in inspect.signature(function).parameters:
        return function(estimator, n_draws, rng, X_training=X_training, y_training=y_training)
    return function(estimator, n_draws, rng)


sample_posterior.register = _draw.register  # type: ignore[attr-defined]
