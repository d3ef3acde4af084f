"""From scores to a batch and its law: by a sampler alone, mixed with chance, within limits, or with rows kept apart."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from .._checks import ScoreError, check_scores, look_up, warn
from ._distances import PointSet
from ._feasibility import Allowance
from ._limited import LimitedLaw
from ._plackett_luce import BatchLaw, Law, RankLaw, minus_log
from ._repulsion import draw_apart
from ._samplers import SAMPLERS
from ._selection import Indices, Scores

__all__ = ["check_has_law", "draw_batch"]

_AS_TOP_K = 1e12  # a beta so cold that the next rank comes first with probability exp(-1e12 / n_points)


def draw_batch(
    sampler: str | Callable[..., Any],
    scores: Scores,
    k: int,
    rng: np.random.Generator,
    *,
    beta: float = 1.0,
    epsilon: float = 0.0,
    allowance: Allowance | None = None,
    points: PointSet | None = None,
    diversity: float = 0.0,
) -> tuple[Indices, BatchLaw | None]:
    """Draw k rows, and say how probable they were.

    Parameters
    ----------
    sampler : str or callable
        A name of `SAMPLERS`, or a function of the user's own. One without ``log_weights(scores, beta)`` has no law,
        which ``epsilon``, ``allowance`` and ``points`` need.
    scores : ndarray of shape (n_points,), float64
        Kept for the law; copied if it can be written into.
    k : int
        Number of rows. Where there is an allowance, that says how many.
    rng : numpy.random.Generator
    beta : float, default=1.0
    epsilon : float, default=0.0
        Probability with which a pick is uniform among the rows left.
    allowance : Allowance, optional
        Which rows may be picked. What is drawn is taken from it; rows that have to be in the batch come first.
    points : PointSet, optional
        Places of the rows, which keep apart by their squared distances to the power ``diversity``. Points beyond those
        that have scores count as chosen from the start.
    diversity : float, default=0.0

    Returns
    -------
    positions : ndarray of shape (k,), int64
        Distinct rows, most preferred first; fewer only where the allowance has a budget.
    law : BatchLaw or None
        None for a sampler of the user's own that is drawn from as it is.
    """
    draw: Any = look_up("sampler", sampler, SAMPLERS)
    scores = _kept(scores)
    keeps_apart = points is not None and diversity > 0
    if not keeps_apart and allowance is None and epsilon == 0:
        if hasattr(draw, "law"):
            return draw.law(scores, beta).batch(k, rng)
        return _checked(draw(scores, k, rng, beta=beta), k, len(scores)), None
    if keeps_apart or epsilon > 0:
        wanted_by = "`diversity` above 0" if keeps_apart else "`epsilon` above 0"
        law = _without_ties(law_of_rows(draw, scores, beta, rng, wanted_by), rng)
    else:
        law = law_of_rows(draw, scores, beta, rng, "`limits`")
    among = Allowance(len(scores), k) if allowance is None else allowance
    if points is not None and keeps_apart:
        return draw_apart(law, points, among, rng, diversity, epsilon)
    batch = LimitedLaw(law, among, epsilon).draw(rng)
    if epsilon == 0 and law.beta > 0:
        _warn_few_with_weight(law.scores[among.picks])
    return batch


def law_of_rows(sampler: Any, scores: Scores, beta: float, rng: np.random.Generator, wanted_by: str) -> Law:
    """The sampler's law as one value for each row; tied rows share their ranks at random."""
    if hasattr(sampler, "law"):
        return sampler.law(scores, beta).by_row(rng)
    check_has_law(sampler, wanted_by)
    order = rng.permutation(len(scores))  # a function of the user's own may break ties by the place of a row
    log_weights = np.empty(len(scores))
    try:
        log_weights[order] = sampler.log_weights(scores[order], beta)
    except ScoreError as error:
        raise error.of_rows(order) from None
    return Law(check_scores(log_weights, "log_weights", minus_inf=True), 1.0)


def _without_ties(law: Law, rng: np.random.Generator) -> Law:
    """The same law with weights that are numbers: at beta = inf, tied rows get their places in the order now."""
    return law if law.beta < math.inf else RankLaw(law.scores, _AS_TOP_K, minus_log).by_row(rng)


def check_has_law(sampler: Any, wanted_by: str) -> None:
    """Check that the law of a sampler, of the package or of the user's own, is known."""
    if not hasattr(sampler, "log_weights"):
        name = getattr(sampler, "__name__", type(sampler).__name__)
        raise ValueError(
            f"{wanted_by} needs a sampler whose law is known, and {name!r} has no `log_weights`. Use one of "
            "skactive.samplers, or give your sampler that function."
        )


def _kept(scores: Any) -> Scores:
    """Scores that cannot change before probabilities are asked for: a copy, unless they are a read-only array."""
    checked = check_scores(scores, minus_inf=True)
    return checked if isinstance(scores, np.ndarray) and not scores.flags.writeable else checked.copy()


def _checked(positions: Any, k: int, n_points: int) -> Indices:
    """What a sampler of the user's own returned."""
    positions = np.asarray(positions)
    distinct = positions.ndim == 1 and len(np.unique(positions)) == len(positions) == k
    if not (distinct and positions.dtype.kind in "iu" and positions.min() >= 0 and positions.max() < n_points):
        raise ValueError(
            f"`sampler` must return {k} distinct positions from 0 to {n_points - 1}. Got {positions!r} instead."
        )
    return positions.astype(np.int64)


def _warn_few_with_weight(values: Scores) -> None:
    n_picks, n_without = len(values), int(np.count_nonzero(values == -np.inf))
    if n_without:
        warn(
            f"Only {n_picks - n_without} of {n_picks} rows could be drawn by their scores: no other row that the "
            f"limits leave has a positive one, or a weight. The other {n_without} were drawn uniformly at random."
        )
