r"""CausalBALD: which outcomes to observe, to learn what a treatment does and to whom.

Each row of a pool has covariates and a treatment, 0 or 1, that was given already; its outcome costs money. A regressor
of the outcome on both is asked twice for each row, with the treatment set to 0 and to 1: draws of two potential
outcomes, by the same functions, whose difference is the row's effect. Scores of these draws (`skactive.scores`: mu,
tau, rho, mu_rho, mu_pi) prefer rows whose outcome is uncertain and whose like were treated otherwise.

An effect found so is causal if covariates hold all that treatment and outcome have in common, which data cannot show.
"""

from __future__ import annotations

import functools
import numbers
from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any, ClassVar

import numpy as np
import pandas as pd
import torch
from numpy.typing import ArrayLike

from . import _containers as containers
from ._utils.randomness import check_random_state, seeded_clone, spawn
from ._utils.types import CausalScore, Floats, Indices, Posterior, Sampler
from ._utils.validation import (
    Rule,
    Rules,
    as_array,
    check_is_model,
    check_n_instances,
    check_parameters,
    failure_explained,
    float64_array,
    is_integer,
    look_up,
    name_or_callable,
    not_binary_error,
    number,
    several_outputs_error,
    shown,
    task,
)
from .query import Pool, PoolDraws, ScoringQuery, draws_of, model_of, score_rows
from .query._base import RULES
from .query._draws import explained, options_of
from .query._pool import check_fits, pool_for
from .query._scoring import Source, check_enough_draws, name_of, ready_scores
from .scores import SCORES

__all__ = ["CausalBALDQuery", "EffectEstimate", "estimate_effects", "predict_effects", "sqrt_pehe"]


_OUTCOME_SCORES = [name for name, score in SCORES.items() if "outcomes" in getattr(score, "tasks", ())]
_MOST_ROWS = 20_000  # that a propensity is fitted to: enough, and as many of a large pool as are copied


@dataclass(eq=False, repr=False)
class CausalBALDQuery(ScoringQuery):
    """Choose the rows whose outcomes say most about the effect of a treatment, by sampling from CausalBALD scores.

    Draws from the posterior of a regressor are streamed over the pool, twice: with the treatment set to 0 and to 1. A
    score of both outcomes and of the treatment that the row has gives one number per row, from which a batch is sampled
    as in `StochasticBatchQuery`.

    Parameters
    ----------
    score : str or callable, default="mu_rho"
        "mu_rho", "mu", "tau", "rho" or "mu_pi" (see `skactive.scores`), or ``score(draws) -> (n_points,)`` of draws of
        shape (n_draws, n_points, 2). A callable may ask for ``treatment`` and ``propensity`` by keyword-only
        parameters.
    sampler, beta
        As in `StochasticBatchQuery`.
    treatment : int or str
        The column of X that holds the treatment, 0 or 1 in every row: its position, or its name in a DataFrame.
    propensity : classifier, optional
        For scores that ask for the propensity, "mu_pi": fitted, at each query, to the treatments of the pool (20,000
        rows of it at most) without that column. ``sklearn.frozen.FrozenEstimator`` keeps one that is fitted already.
    n_draws, posterior, chunk_size, predict_batch_size, epsilon, n_jobs, random_state, verbose
        As in `StochasticBatchQuery`.

    Attributes
    ----------
    scores_, indices_, log_proba_, concentration_, rng_, n_features_in_
        As in `StochasticBatchQuery`.

    See Also
    --------
    causal.estimate_effects : What the labels say about the effects.
    causal.sqrt_pehe : Compares such queries where the effects are known.
    scores.mu_rho : The default score.

    References
    ----------
    Jesson, Tigas, van Amersfoort, Kirsch, Shalit and Gal (2021), Causal-BALD: Deep Bayesian Active Learning of
    Outcomes to Infer Treatment-Effects from Observational Data. Kirsch et al. (2023), Stochastic Batch Acquisition,
    sec. 6, for power sampling and its beta.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.ensemble import RandomForestRegressor
    >>> from skactive import CausalBALDQuery
    >>> from skactive.datasets import make_causal
    >>> X, y, effects = make_causal(200, np.random.default_rng(0))
    >>> forest = RandomForestRegressor(random_state=0).fit(X[:50], y[:50])
    >>> query = CausalBALDQuery(treatment=-1, beta=2.0, random_state=0)
    >>> query.select(forest, X[50:], n_instances=3).shape
    (3,)
    """

    rules: ClassVar[Rules] = ScoringQuery.rules | {
        "score": name_or_callable(_OUTCOME_SCORES),
        "treatment": Rule(lambda v: isinstance(v, str) or is_integer(v), "the position of a column, or its name"),
        "propensity": Rule(
            lambda value: value is None or hasattr(value, "predict_proba"),
            "None or a classifier with predict_proba",
            "CalibratedClassifierCV adds it to any classifier.",
        ),
    }

    score: CausalScore = "mu_rho"
    sampler: Sampler = "power"
    beta: float = 1.0
    _: KW_ONLY
    treatment: int | str | None = None
    propensity: Any = None
    n_draws: int | None = None
    posterior: Posterior = "auto"
    chunk_size: int | None = None
    predict_batch_size: int | None = None
    epsilon: float = 0.0
    n_jobs: int | None = None
    random_state: Any = None
    verbose: int = 0

    def reads_once(self, pool: Pool) -> bool:
        """Whether the pool can be read again: its treatments are looked at before its rows are scored."""
        return not containers.is_read_once(pool.X)

    def score_candidates(self, learner: Any, pool: Pool, rng: np.random.Generator) -> tuple[Floats, None]:
        """Scores of both outcomes of the candidates; no points, as rows do not keep apart."""
        name, score = name_of(self.score), look_up("score", self.score, SCORES)
        position = _checked_column(pool, self.treatment)
        draws = _outcome_draws(pool, learner, rng, position, **options_of(self))
        check_enough_draws(draws.n_draws, name, score)
        sources: dict[str, Source] = {
            "treatment": lambda name: functools.partial(_treatments, position=position),
            "propensity": lambda name: _fitted_propensity(self.propensity, name, pool, position, rng),
        }
        ready = ready_scores({name: score}, learner, sources)
        return score_rows(pool, draws, ready, chunk_size=self.chunk_size, verbose=self.verbose)[0], None


def _fitted_propensity(
    propensity: Any, name: str, pool: Pool, position: int, rng: np.random.Generator
) -> Callable[[Any], Floats]:
    if propensity is None:
        raise ValueError(f"`propensity` must be given for score={name!r}: a classifier such as LogisticRegression().")
    rows = rng.choice(pool.n_points, min(pool.n_points, _MOST_ROWS), replace=False)
    X = containers.take_rows(pool.X, np.sort(rows))
    classifier = seeded_clone(propensity, rng)
    with failure_explained(f"Fitting {type(classifier).__name__}, the `propensity`, to the treatments"):
        classifier.fit(containers.drop_column(X, position), _treatments(X, position))
    if list(classifier.classes_) != [0, 1]:
        raise ValueError(
            f"`propensity` must be fitted to both treatments, 0 and 1. Got the classes {classifier.classes_}. "
            "Where the pool has one treatment left, give a FrozenEstimator around a classifier fitted to all rows."
        )
    return lambda X: classifier.predict_proba(containers.drop_column(X, position))[:, 1]


def _checked_column(pool: Pool, treatment: Any) -> int:
    """Position of the treatment; each row of the pool has one, and not all, training rows counted, have the same."""
    position = containers.column_position(pool.X, treatment, "treatment")
    values: set[int] = set()
    for _, chunk in Pool(pool.X).chunks(1, "reading treatments"):
        values |= set(np.unique(_treatments(chunk, position)).tolist())
    if len(values) < 2 and pool.X_training is not None:
        labelled = containers.in_columns_of(pool.X, pool.X_training, "X_training")
        values |= set(np.unique(_treatments(labelled, position)).tolist())
    if len(values) < 2:
        raise ValueError(
            f"`treatment` is {min(values)} in every row of the pool and of the known training data: a "
            "constant column says nothing about an effect. Is it the right column? If only the labelled rows have the "
            "other treatment, give them as `X_training`."
        )
    return position


def _treatments(X: Any, position: int) -> Indices:
    """The column of the treatment, zeros and ones of whatever type of numbers, as integers."""
    treatments = containers.take_column(X, position)
    for value in pd.unique(treatments).tolist():
        if not (isinstance(value, numbers.Number | np.bool_) and value in (0, 1)):
            raise not_binary_error(value)
    return treatments.astype(np.int64)


def _untreated_and_treated(X: Any, position: int) -> tuple[Any, Any]:
    """Copies of rows without and with the treatment. Text is refused: a model may know "1.0", and no "1"."""
    text = [value for value in containers.take_column(X, position).tolist() if isinstance(value, str)]
    if text:
        raise not_binary_error(text[0])
    return containers.set_column(X, position, 0), containers.set_column(X, position, 1)


def _potential_outcomes(predict_draws: Callable[[Any], Any], X: Any, position: int) -> Any:
    """Draws (n_draws, n_points, 2) of the outcomes without and with a treatment, by the same functions."""
    untreated, treated = map(predict_draws, _untreated_and_treated(X, position))
    stack = torch.stack if isinstance(treated, torch.Tensor) else np.stack
    return stack([untreated, treated], -1)


def _outcome_draws(pool: Pool, learner: Any, rng: np.random.Generator, position: int, **options: Any) -> PoolDraws:
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


@dataclass(frozen=True)
class EffectEstimate:
    """Posterior mean and interval of the effect of a treatment on each row.

    Attributes
    ----------
    mean, low, high : ndarray of shape (n_points,), float64
        Mean over draws, and the quantiles at the ends of the interval, in the outcome's units: of the expected effect
        on rows like this, without the noise of outcomes.
    """

    mean: Floats
    low: Floats
    high: Floats


def predict_effects(estimator: Any, X: Any, treatment: int | str) -> Floats:
    """Effects by the predictions of a fitted regressor: with the treatment minus without it.

    Parameters
    ----------
    estimator : fitted regressor
        Only its ``predict`` is needed.
    X : array-like of shape (n_points, n_features)
    treatment : int or str
        Position of the treatment column of X, or its name in a DataFrame.

    Returns
    -------
    ndarray of shape (n_points,), float64

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
        float64_array("estimator", estimator.predict(rows), rule="predict numbers")
        for rows in _untreated_and_treated(X, position)
    )
    effects = treated - untreated
    if effects.size != containers.count_rows(X):
        raise several_outputs_error(estimator, "effects of a treatment", "Fit one for the outcome that matters.")
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
    """Estimate the effect of a treatment on each row from posterior draws of a regressor.

    Parameters
    ----------
    estimator : fitted regressor, or modAL learner
    X : array-like of shape (n_points, n_features)
    treatment : int or str
        As in `predict_effects`.
    level : float, default=0.95
        Level of the interval, which has as many draws below as above it.
    n_draws, posterior, chunk_size, n_jobs, random_state, verbose
        As in `StochasticBatchQuery`.
    X_training, y_training, sample_weight, fit_params : optional
        What the estimator was fitted to, and how, where draws come from refitting: as in `StochasticBatchQuery.select`.

    Returns
    -------
    EffectEstimate

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
    check_parameters(RULES | {"level": number(0, 1, ends="()", remedy="Try 0.95.")}, locals())
    X = containers.prepare_pool(X, "X")
    given = {"X_training": X_training, "y_training": y_training}
    model, pool = pool_for(estimator, X, **given, sample_weight=sample_weight, fit_params=fit_params)
    check_n_instances(1, len(pool), pool.n_points)
    check_fits(model, pool)
    position = containers.column_position(pool.X, treatment, "treatment")
    rng = spawn(check_random_state(random_state), 2)[0]
    draws = _outcome_draws(pool, estimator, rng, position, n_draws=n_draws, posterior=posterior, n_jobs=n_jobs)
    columns = np.empty((3, len(pool)))
    for rows, chunk in draws.chunks(pool, "estimating", chunk_size=chunk_size, verbose=verbose):
        with explained("Estimating", rows, draws.model):
            outcomes = as_array(draws.of(chunk, rows.stop - rows.start)).astype(np.float64)
            if not np.isfinite(outcomes).all():
                raise ValueError("the draws hold numbers that are not finite.")
        effects = outcomes[..., 1] - outcomes[..., 0]
        columns[:, rows] = effects.mean(axis=0), *np.quantile(effects, [(1 - level) / 2, (1 + level) / 2], axis=0)
    return EffectEstimate(*columns)


def sqrt_pehe(true_effects: ArrayLike, effects: ArrayLike) -> float:
    r"""Error of estimated effects, :math:`\sqrt{\frac1N \sum_i (\hat\tau_i - \tau_i)^2}`, in the outcome's units.

    PEHE is the precision in estimation of heterogeneous effects. It needs true effects, which only simulations know.

    Parameters
    ----------
    true_effects, effects : array-like of shape (n_points,)

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


def _finite(name: str, effects: Any) -> Floats:
    effects = float64_array(name, effects)
    if effects.ndim != 1 or not len(effects) or not np.isfinite(effects).all():
        raise ValueError(f"`{name}` must be finite numbers, of shape (n_points,). Got {shown(effects)}.")
    return effects
