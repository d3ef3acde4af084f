"""Sampling a batch from the scores of a pool: what the queries that score rows have in common."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from .._checks import (
    BETA,
    ParameterError,
    Rule,
    Rules,
    ScoreError,
    check_n_instances,
    check_scores,
    is_integer,
    look_up,
    name_or_callable,
    number,
    warn,
)
from .._random import beside
from ..samplers import SAMPLERS
from ..samplers._distances import PointSet
from ..samplers._law import check_has_law, draw_batch
from ._base import Streams
from ._batch import Batch
from ._coldness import measured_coldness
from ._draws import PoolDraws
from ._memory import Memory
from ._pool import Pool
from ._reference import Reference, some_candidates
from ._scoring import name_of

Values = NDArray[np.float64]
Indices = NDArray[np.int64]


@dataclass(frozen=True)
class RowScorer:
    """Scores of the candidates of a pool, and of others like it, by the same draws.

    Attributes
    ----------
    score : callable
        ``score(pool)`` are the scores.
    draws : PoolDraws or None
        What they are made of; None if no score needs any.
    """

    score: Callable[[Pool], Values]
    draws: PoolDraws | None = None

    def __call__(self, pool: Pool) -> Values:
        return self.score(pool)


@dataclass(frozen=True)
class Apart:
    """How rows of a batch keep apart.

    Attributes
    ----------
    diversity : float
        The power of squared distances, above 0.
    points : callable
        ``points(draws)`` are the candidates, and after them the rows in flight.
    """

    diversity: float
    points: Callable[[PoolDraws | None], PointSet]


NEARLY_RANDOM = 1.1
"""Mean score of a pick, over that of the pool, below which a batch is nearly uniform."""

_SOME_ROWS = 100_000
"""Rows of a large pool that show that a batch is far from random."""

_KEPT = 2  # keeps the random numbers of rows that are kept apart from those of batches, and of suggestions

BetaRule = Callable[..., float]
"""``rule(query, learner, pool, k, rngs, score_rows) -> beta``, as `measured_beta` is."""


def _is_range(value: Any) -> bool:
    is_pair = isinstance(value, list | tuple | np.ndarray) and len(value) == 2
    return is_pair and all(is_integer(size) for size in value) and 1 <= value[0] <= value[1]


RULES: Rules = {
    "sampler": name_or_callable(SAMPLERS),
    "beta": BETA.or_word("auto"),
    "epsilon": number(0, 1, text="a number from 0 (the sampler alone) to 1 (uniform)"),
    "batch_range": Rule(_is_range, "two integers, 1 <= smallest <= largest: the batches that may be suggested"),
    "hold": number(
        0,
        1,
        ends="()",
        text="a number between 0 and 1: the part of a ranking that must be left after a batch",
        remedy="Try 0.9; larger values make smaller batches.",
    ),
}
"""Rules of the parameters that decide on a batch once there are scores."""


class ScoringParameters(Protocol):
    """What a query that chooses by scores has."""

    score: Any
    sampler: Any
    beta: Any
    epsilon: float
    batch_range: Any
    hold: float
    memory_: Memory
    scores_: Values
    beta_: float

    def row_scorer(self, learner: Any, pool: Pool, rng: np.random.Generator) -> RowScorer:
        """Scores by draws that are made now."""


def check_coldness(beta: Any, sampler: Any) -> None:
    """Check that ``beta="auto"`` meets a sampler that has a coldness."""
    function = look_up("sampler", sampler, SAMPLERS)
    if beta == "auto" and not (hasattr(function, "log_weights") and getattr(function, "uses_beta", True)):
        raise ParameterError(
            '`beta`="auto" needs a sampler that has a coldness: "power", "softmax" or "softrank", or one of your own '
            f"with a function `log_weights(scores, beta)`. Got {name_of(sampler)!r}, for which `beta` must be a number."
        )


def check_keeps_apart(diversity: float, sampler: Any) -> None:
    """Check that a diversity meets a sampler whose weights it can be put on."""
    if diversity > 0 and look_up("sampler", sampler, SAMPLERS) is SAMPLERS["topk"]:
        raise ParameterError(
            '`diversity` above 0 needs a sampler that weighs rows. Got `sampler`="topk", which leaves distances '
            'nothing to choose: use "power" with a large `beta`, 16 say.'
        )


def choose_by_scores(
    query: Any,
    learner: Any,
    pool: Pool,
    k: int,
    rngs: Streams,
    *,
    rule: BetaRule | None = None,
    apart: Apart | None = None,
) -> Batch:
    """Score the candidates, measure beta if it is "auto", and draw a batch; the query keeps what comes of it.

    ``query`` has the ``ScoringParameters``; ``rule`` measures beta, by default as ``beta="auto"`` does; ``apart`` says
    how rows of the batch keep apart, if they do.

    See Also
    --------
    query.score_rows : Makes the scores.
    query.Batch : What it returns.
    """
    check_keeps_limits(query, pool)
    score_rows = query.row_scorer(learner, pool, rngs.draws)
    kept = kept_for_beta(query, pool, k, rngs.batch)
    scores = score_rows(pool)
    k = check_n_instances(k, len(scores), pool.n_points)  # which nobody may have known before
    return batch_by_scores(query, learner, pool, scores, k, rngs, score_rows, kept, rule=rule, apart=apart)


def batch_by_scores(
    query: Any,
    learner: Any,
    pool: Pool,
    scores: Values,
    k: int,
    rngs: Streams,
    score_rows: RowScorer,
    kept: Indices | None,
    *,
    rule: BetaRule | None = None,
    apart: Apart | None = None,
) -> Batch:
    """A batch from the scores of the candidates, whoever made them; ``kept`` are rows for the beta of the next one."""
    sampler = look_up("sampler", query.sampler, SAMPLERS)
    allowance = pool.allowance(k)
    is_allowed = None if allowance is None else allowance.allowed
    is_measured = isinstance(query.beta, str)
    beta = (rule or measured_beta)(query, learner, pool, k, rngs, score_rows) if is_measured else float(query.beta)
    try:
        scores = check_scores(scores, minus_inf=True)
        scores.flags.writeable = False  # log-probabilities may be asked of them later
        options: dict[str, Any] = {"beta": beta, "epsilon": query.epsilon, "allowance": allowance}
        if apart is not None:
            options |= {"points": apart.points(score_rows.draws), "diversity": apart.diversity}
        positions, law = draw_batch(sampler, scores, k, rngs.batch, **options)
    except ScoreError as error:
        raise error.of_rows(pool.rows) from None
    if not is_measured:
        _warn_if_nearly_random(sampler, scores, beta, k, is_allowed)
    reference = None if kept is None else Reference.not_chosen(pool, scores, positions, kept, name_of(query.score))
    query.memory_ = replace(query.memory_, reference=reference)
    if is_measured:
        query.memory_ = replace(query.memory_, betas=(*query.memory_.betas, beta))
        query.beta_ = beta
    return Batch(positions, scores, law)


def kept_for_beta(query: Any, pool: Pool, k: int, rng: np.random.Generator) -> Indices | None:
    """Candidates to keep with their scores, more than enough once a batch of k is gone; None where beta is a number.

    They are known before the pool is read, so that they can be kept on the way.
    """
    if not isinstance(query.beta, str):
        return None
    kept = some_candidates(pool, beside(rng, _KEPT), k)
    pool.announce(kept)
    return kept


def check_keeps_limits(query: Any, pool: Pool) -> None:
    """Check that a sampler has a law that limits can be put on."""
    if pool.limits is not None:
        check_has_law(look_up("sampler", query.sampler, SAMPLERS), "`limits`")


def measured_beta(
    query: ScoringParameters, learner: Any, pool: Pool, k: int, rngs: Streams, score_rows: RowScorer
) -> float:
    """The beta that the last scores deserve: how well they identify the rows that are the best now; 1 without any."""
    reference = query.memory_.reference
    if reference is None or not reference.fits(pool, name_of(query.score)):
        return 1.0
    old_values = look_up("sampler", query.sampler, SAMPLERS).log_weights(reference.scores, 1.0)
    return measured_coldness(old_values, score_rows(Pool(reference.X)))


def _warn_if_nearly_random(
    sampler: Any, scores: Values, beta: float, k: int, is_allowed: NDArray[np.bool_] | None = None
) -> None:
    """Say that the law of a pick hardly prefers rows of large scores, where another beta could."""
    if is_allowed is not None and not is_allowed.any():
        return  # every row has to be in the batch
    every = slice(None) if is_allowed is None else is_allowed
    all_scores, scores = scores, scores[every]
    mean = scores.mean()
    if not (hasattr(sampler, "log_weights") and getattr(sampler, "uses_beta", True) and beta > 0 and 0 < mean < np.inf):
        return
    if scores.max() < NEARLY_RANDOM * mean or 2 * k > len(scores):  # all alike, or most of them: no beta would help
        return
    if len(scores) > 2 * _SOME_ROWS:  # some rows show at less cost what is far from random
        some = scores[np.random.default_rng(0).integers(len(scores), size=_SOME_ROWS)]
        if some.max() > 0 and _preference(sampler.log_weights(some, beta), some) >= 2 * NEARLY_RANDOM:
            return
    times = _preference(sampler.log_weights(all_scores, beta)[every], scores)
    if times < NEARLY_RANDOM:
        warn(
            f"This batch is nearly random: a pick scores {times:.3g} times the mean of the "
            f"{'pool' if is_allowed is None else 'rows that `limits` leave'}. Raise `beta` "
            f'above {beta:g}, to {4 * beta:g} say, or set beta="auto".'
        )


def _preference(log_weights: Values, scores: Values) -> float:
    """The mean score of a pick, over that of the rows."""
    weights = np.exp(log_weights - log_weights.max())
    return float(weights @ scores / weights.sum() / scores.mean())
