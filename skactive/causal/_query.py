"""Which outcomes to observe next."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from .. import _containers as containers
from .._utils.randomness import seeded_clone
from .._utils.types import CausalScore, Posterior, Sampler
from .._utils.validation import (
    ParameterError,
    Rule,
    Rules,
    failure_explained,
    look_up,
    name_or_callable,
    not_binary_error,
)
from ..query import Pool, PoolDraws, ScoringQuery, score_rows
from ..query._draws import options_of
from ..query._scoring import Source, check_enough_draws, name_of, ready_scores
from ..scores import SCORES
from ._effects import outcome_draws_of

Floats = NDArray[np.float64]

_OUTCOME_SCORES = [name for name, score in SCORES.items() if "outcomes" in getattr(score, "tasks", ())]
_MOST_ROWS = 20_000
"""Rows that a propensity is fitted to: enough, and as much of a pool that does not fit memory as is copied."""


class CausalBALDQuery(ScoringQuery):
    """Choose the rows whose outcomes say most about the effect of a treatment, by sampling from CausalBALD scores.

    Draws from the posterior of a regressor are streamed over the pool, twice: with the treatment set to 0 and to 1. A
    score of both outcomes and of the treatment that the row has gives one number a row, from which a batch is sampled
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
    causal.sqrt_pehe_scorer : Compares such queries where the effects are known.
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
        "propensity": Rule(
            lambda value: value is None or hasattr(value, "predict_proba"),
            "None or a classifier with predict_proba",
            "CalibratedClassifierCV gives any classifier one.",
        ),
    }

    def __init__(
        self,
        score: CausalScore = "mu_rho",
        sampler: Sampler = "power",
        beta: float = 1.0,
        *,
        treatment: int | str | None = None,
        propensity: Any = None,
        n_draws: int | None = None,
        posterior: Posterior = "auto",
        chunk_size: int | None = None,
        predict_batch_size: int | None = None,
        epsilon: float = 0.0,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.score = score
        self.sampler = sampler
        self.beta = beta
        self.treatment = treatment
        self.propensity = propensity
        self.n_draws = n_draws
        self.posterior = posterior
        self.chunk_size = chunk_size
        self.predict_batch_size = predict_batch_size
        self.epsilon = epsilon
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    def check_parameters(self) -> None:
        """Check all parameters, those included that the next call will not use."""
        super().check_parameters()
        if self.treatment is None:
            raise ParameterError(
                "`treatment` must name the column of X that holds the treatment, 0 or 1, by its position or, in a "
                "DataFrame, by its name. Got None."
            )

    def score_candidates(self, learner: Any, pool: Pool, rng: np.random.Generator) -> tuple[Floats, PoolDraws]:
        """Scores of both outcomes of the candidates, and the draws that they are made of."""
        name, score = name_of(self.score), look_up("score", self.score, SCORES)
        position = _checked_column(pool, self.treatment)
        draws = outcome_draws_of(pool, learner, rng, position, **options_of(self))
        check_enough_draws(draws.n_draws, name, score)
        sources: dict[str, Source] = {
            "treatment": lambda name: functools.partial(_treatments, position=position),
            "propensity": lambda name: _fitted_propensity(self.propensity, name, pool, position, rng),
        }
        ready = ready_scores({name: score}, learner, sources)
        return score_rows(pool, draws, ready, chunk_size=self.chunk_size, verbose=self.verbose)[0], draws


def _fitted_propensity(
    propensity: Any, name: str, pool: Pool, position: int, rng: np.random.Generator
) -> Callable[[Any], Floats]:
    """The probability of treatment 1 as a function of rows, by a classifier fitted to the pool."""
    if propensity is None:
        raise ValueError(f"`propensity` must be given for score={name!r}: a classifier, LogisticRegression() say.")
    rows = rng.choice(pool.n_points, min(pool.n_points, _MOST_ROWS), replace=False)
    X = containers.take_rows(pool.X, np.sort(rows))
    classifier = seeded_clone(propensity, rng)
    with failure_explained(f"Fitting {type(classifier).__name__}, the `propensity`, to the treatments"):
        classifier.fit(containers.drop_column(X, position), _treatments(X, position))
    if list(classifier.classes_) != [0, 1]:
        raise ValueError(
            f"`propensity` must be fitted to treatments 0 and 1, both of them. Got the classes {classifier.classes_}. "
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
        values |= set(np.unique(_treatments(pool.X_training, position)).tolist())
    if len(values) < 2:
        raise ValueError(
            f"`treatment` is {min(values)} in every row of the pool and of what is known of the training data: a "
            "constant column says nothing about an effect. Is it the right column? If only the labelled rows have the "
            "other treatment, give them as `X_training`."
        )
    return position


def _treatments(X: Any, position: int) -> NDArray[np.int64]:
    """The column of the treatment, zeros and ones of whatever type, as integers."""
    treatments = containers.take_column(X, position)
    try:
        numbers = treatments.astype(np.float64)
    except (TypeError, ValueError):
        raise not_binary_error(treatments[0]) from None
    bad = np.flatnonzero((numbers != 0) & (numbers != 1))
    if bad.size:
        raise not_binary_error(treatments[bad[0]])
    return numbers.astype(np.int64)
