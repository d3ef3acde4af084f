"""What draws say of the effect of a treatment, and how far from the truth such estimates are."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator

from .. import _containers as containers
from .._utils.randomness import check_random_state, spawn
from .._utils.types import Posterior
from .._utils.validation import (
    as_array,
    check_is_model,
    check_n_instances,
    check_parameters,
    float64_array,
    number,
    several_outputs_error,
    shown,
    task,
)
from ..query import Pool, PoolDraws, draws_of, model_of
from ..query._base import RULES
from ..query._draws import explained
from ..query._pool import check_fits, pool_for

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class EffectEstimate:
    """What is believed of the effect of a treatment on each of some rows.

    Attributes
    ----------
    mean, low, high : ndarray of shape (n_points,), float64
        Mean over draws, and the quantiles that the interval ends in, in the outcome's units. The interval is one of
        the expected effect on rows like this; what happens to a single one has the noise of two outcomes on top.

    See Also
    --------
    causal.estimate_effects : Returns it.
    """

    mean: Floats
    low: Floats
    high: Floats


def _potential_outcomes(predict_draws: Callable[[Any], Any], X: Any, position: int) -> Any:
    """Draws (n_draws, n_points, 2) of the outcomes without and with a treatment, by the same functions."""
    untreated, treated = (predict_draws(containers.set_column(X, position, value)) for value in (0, 1))
    stack = torch.stack if isinstance(treated, torch.Tensor) else np.stack
    return stack([untreated, treated], -1)


def outcome_draws_of(pool: Pool, learner: Any, rng: np.random.Generator, position: int, **options: Any) -> PoolDraws:
    """Draws of both outcomes of a row, whatever treatment it has, from a regressor of the outcome."""
    model = model_of(learner)
    if task(model) == "classifier":
        raise TypeError(
            "`estimator` must be a regressor of the outcome on covariates and treatment. Got a "
            f"{type(model).__name__}. For a yes/no outcome, fit a regressor to 0 and 1."
        )
    draws = draws_of(pool, learner, rng, **options)
    if len(draws.shape) != 2:  # of a net, say, that no tag announces as a classifier
        raise TypeError(f"`estimator` must predict one outcome. Got draws of shape {tuple(draws.shape)}.")
    return replace(
        draws,
        predict=functools.partial(_potential_outcomes, draws.predict, position=position),
        shape=(*draws.shape, 2),
        n_beside=draws.n_beside + (pool.n_columns or 0),  # the rows are copied, to set the treatment
    )


def predict_effects(estimator: Any, X: Any, treatment: int | str) -> Floats:
    """Effects by the predictions of a fitted regressor: with the treatment less without it.

    Parameters
    ----------
    estimator : fitted regressor
        Its ``predict`` is all that is needed.
    X : array-like of shape (n_points, n_features)
    treatment : int or str
        Position of the column of X that the treatment is in, or its name in a DataFrame.

    Returns
    -------
    ndarray of shape (n_points,), float64
        In the outcome's units.

    See Also
    --------
    causal.estimate_effects : With intervals, from draws.
    causal.sqrt_pehe : The error of such estimates.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.linear_model import LinearRegression
    >>> from skactive.causal import predict_effects
    >>> model = LinearRegression().fit([[0.0, 0], [1.0, 0], [0.0, 1]], [1.0, 2.0, 4.0])
    >>> predict_effects(model, np.array([[0.0, 1], [5.0, 0]]), treatment=1).round(9)
    array([3., 3.])
    """
    check_is_model(estimator)
    X = containers.prepare_pool(X, "X")
    position = containers.column_position(X, treatment, "treatment")
    untreated, treated = (
        float64_array("estimator", estimator.predict(containers.set_column(X, position, value)), rule="predict numbers")
        for value in (0, 1)
    )
    effects = treated - untreated
    if effects.size != containers.count_rows(X):
        raise several_outputs_error(estimator)
    return effects.ravel()


def estimate_effects(
    estimator: Any,
    X: Any,
    treatment: int | str,
    *,
    level: float = 0.95,
    n_draws: int | None = None,
    posterior: Posterior = "auto",
    X_training: Any = None,
    y_training: Any = None,
    sample_weight: ArrayLike | None = None,
    fit_params: Mapping[str, Any] | None = None,
    chunk_size: int | None = None,
    n_jobs: int | None = None,
    random_state: Any = None,
    verbose: int = 0,
) -> EffectEstimate:
    """What draws from a regressor's posterior say of the effect of a treatment on each row.

    Parameters
    ----------
    estimator : fitted regressor, or modAL learner
    X : array-like of shape (n_points, n_features)
    treatment : int or str
        As in `predict_effects`.
    level : float, default=0.95
        Of the interval, which has as many draws below as above it.
    n_draws, posterior, chunk_size, n_jobs, random_state, verbose
        As in `StochasticBatchQuery`.
    X_training, y_training : array-like, optional
        What the estimator was fitted to; needed where draws come from refitting. A learner brings its own.
    sample_weight, fit_params : optional
        Weights of the training rows in the fit, and further keywords for refits, as `StochasticBatchQuery.select` takes
        them.

    Returns
    -------
    EffectEstimate
        ``mean``, ``low`` and ``high``, each of shape (n_points,).

    Raises
    ------
    ValueError, TypeError
        If there is no such column, the estimator is a classifier, or it has no draws.
    sklearn.exceptions.NotFittedError
        If the estimator is not fitted.

    See Also
    --------
    causal.predict_effects : The estimate alone, from predictions.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.ensemble import RandomForestRegressor
    >>> from skactive.causal import estimate_effects, sqrt_pehe
    >>> from skactive.datasets import make_causal
    >>> X, y, effects = make_causal(500, np.random.default_rng(0))
    >>> found = estimate_effects(RandomForestRegressor(random_state=0).fit(X, y), X, treatment=-1)
    >>> bool((found.low <= found.mean).all()), bool(sqrt_pehe(effects, found.mean) < effects.std())
    (True, True)
    """
    check_parameters(
        RULES | {"level": number(0, 1, ends="()", remedy="Try 0.95.")},
        {
            "level": level,
            "n_draws": n_draws,
            "posterior": posterior,
            "chunk_size": chunk_size,
            "n_jobs": n_jobs,
            "random_state": random_state,
            "verbose": verbose,
        },
    )
    X = containers.prepare_pool(X, "X")
    given = {"X_training": X_training, "y_training": y_training}
    model, pool = pool_for(estimator, X, **given, sample_weight=sample_weight, fit_params=fit_params)
    check_n_instances(1, len(pool), pool.n_points)
    check_fits(model, pool)
    position = containers.column_position(pool.X, treatment, "treatment")
    rng = spawn(check_random_state(random_state), 2)[0]
    draws = outcome_draws_of(pool, estimator, rng, position, n_draws=n_draws, posterior=posterior, n_jobs=n_jobs)
    columns = np.empty((3, len(pool)))
    ends = [(1 - level) / 2, (1 + level) / 2]
    for rows, chunk in draws.chunks(pool, "estimating", chunk_size=chunk_size, verbose=verbose):
        with explained("Estimating", rows, draws.model):
            outcomes = as_array(draws.of(chunk, rows.stop - rows.start)).astype(np.float64)
            if not np.isfinite(outcomes).all():
                raise ValueError("the draws hold numbers that are not finite.")
        effects = outcomes[..., 1] - outcomes[..., 0]
        columns[:, rows] = effects.mean(axis=0), *np.quantile(effects, ends, axis=0)
    return EffectEstimate(*columns)


def sqrt_pehe(true_effects: ArrayLike, effects: ArrayLike) -> float:
    r"""Error of estimated effects, :math:`\sqrt{\frac1N \sum_i (\hat\tau_i - \tau_i)^2}`, in the outcome's units.

    PEHE is the precision in estimation of heterogeneous effects. It takes true effects, which simulations know alone.

    Parameters
    ----------
    true_effects, effects : array-like of shape (n_points,)

    Returns
    -------
    float

    Raises
    ------
    ValueError
        If shapes differ, there are no points, or an effect is not finite.

    See Also
    --------
    causal.sqrt_pehe_scorer : The same as a scorer for experiments.
    causal.predict_effects : The estimates.

    References
    ----------
    Hill (2011), Bayesian Nonparametric Modeling for Causal Inference, sec. 4.

    Examples
    --------
    >>> from skactive.causal import sqrt_pehe
    >>> sqrt_pehe([1.0, 2.0], [4.0, -1.0])
    3.0
    """
    true_effects, effects = _finite("true_effects", true_effects), _finite("effects", effects)
    if true_effects.shape != effects.shape:
        raise ValueError(
            f"`true_effects` and `effects` must have the same shape. Got {true_effects.shape} and {effects.shape}."
        )
    return float(np.sqrt(np.mean((effects - true_effects) ** 2)))


def sqrt_pehe_scorer(effects: ArrayLike, treatment: int | str) -> Callable[..., float]:
    """Minus `sqrt_pehe` of the effects that a model predicts, as a scorer for `run_experiment`: larger is better.

    Parameters
    ----------
    effects : array-like of shape (n_points,)
        True effect on each row of the X (or ``X_test``) that the experiment is given.
    treatment : int or str
        As in `predict_effects`.

    Returns
    -------
    callable
        ``scorer(estimator, X, y, *, rows)``.

    See Also
    --------
    causal.sqrt_pehe : The error itself.
    run_experiment : Takes it as ``scoring``.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.ensemble import RandomForestRegressor
    >>> from skactive import CausalBALDQuery, run_experiment
    >>> from skactive.causal import sqrt_pehe_scorer
    >>> from skactive.datasets import make_causal
    >>> X, y, effects = make_causal(300, np.random.default_rng(0))
    >>> queries = {sampler: CausalBALDQuery(sampler=sampler, treatment=-1) for sampler in ("power", "uniform")}
    >>> options = {"n_initial": 20, "n_rounds": 1, "n_trials": 2, "random_state": 0}
    >>> scoring = {"minus sqrt PEHE": sqrt_pehe_scorer(effects, treatment=-1)}
    >>> run_experiment(RandomForestRegressor(20), queries, X, y, scoring=scoring, **options).score_names
    ['minus sqrt PEHE']
    """
    return functools.partial(_minus_sqrt_pehe, effects=_finite("effects", effects), treatment=treatment)


def _minus_sqrt_pehe(
    estimator: BaseEstimator, X: Any, y: Any, *, rows: NDArray[np.int64], effects: Floats, treatment: int | str
) -> float:
    if len(effects) <= max(rows):
        raise ValueError(f"`effects` must have an effect for each row of X. Got {len(effects)}.")
    return -sqrt_pehe(effects[rows], predict_effects(estimator, X, treatment))


def _finite(name: str, effects: Any) -> Floats:
    effects = float64_array(name, effects)
    if effects.ndim != 1 or not len(effects) or not np.isfinite(effects).all():
        raise ValueError(f"`{name}` must be finite numbers, of shape (n_points,). Got {shown(effects)}.")
    return effects
