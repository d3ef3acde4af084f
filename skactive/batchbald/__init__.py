"""BatchBALD: a batch whose labels jointly say most about the model, each row chosen for what it adds to the others."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike
from torch import Tensor

from .._utils.randomness import check_rng
from .._utils.types import Posterior
from .._utils.validation import (
    Rule,
    Rules,
    as_array,
    check_draws_shape,
    check_joint_draws,
    check_k,
    integer,
    is_integer,
    warn,
)
from ..query import Batch, BatchQuery, Pool, Streams
from ..query._draws import PoolDraws, explained, joint_draws_of, options_of, why_filled_up
from ..samplers._feasibility import Allowance
from ..scores import bald
from ._greedy import ArrayDraws, BatchBALDResult, KeptDraws, choose_greedily
from ._outcomes import as_tensor

__all__ = ["BatchBALDQuery", "BatchBALDResult", "batchbald"]


def batchbald(draws: ArrayLike, k: int, rng: np.random.Generator, *, max_outcomes: int = 10_000) -> BatchBALDResult:
    r"""Choose k rows greedily by the joint mutual information of their labels and the model's parameters.

    Each row x is taken for the most of :math:`I(y_x; \theta \mid y_1 \ldots y_b) = \sum_g q_g (H[\sum_k W_{gk} p_k] -
    \sum_k W_{gk} H[p_k])`, over the outcomes g of the labels before it, of probability :math:`q_g`, that make draw k as
    probable as :math:`W_{gk}`. Their information, :math:`\log K - \sum_g q_g H[W_g]`, is the sum of these gains.

    All outcomes are enumerated while they are ``max_outcomes`` or fewer; those that leave only one draw possible count
    no more. From then on they are sampled at each step, in proportion to the information that they leave: gains of
    given rows stay unbiased and never add up to more than log n_draws. Those reported are of the rows that looked best,
    so slightly too large: by a few thousandths of a nat with 60 outcomes, less with more.

    The rows end that can be told to add something once the best gain is below its standard error, or the batch tells
    all but a millionth of log n_draws. The rest is filled up by power sampling of the BALD scores, with a warning.

    Time is about that of one BALD score of all rows, and k times some hundred outcomes for the rows that could be best.
    Memory is a few times max_outcomes * (n_draws + n_classes) float64; draws are not copied.

    Parameters
    ----------
    draws : array-like or torch.Tensor of shape (n_draws, n_points, n_classes)
        Probabilities, of any float dtype, from at least two draws; rows sum to 1. Draws must be functions: the same
        parameters for all points.
    k : int
        Number of rows.
    rng : numpy.random.Generator
        Breaks ties, samples outcomes, and fills up.
    max_outcomes : int, default=10_000
        Outcomes of the batch's labels that are considered, at least n_classes.

    Returns
    -------
    BatchBALDResult

    References
    ----------
    Kirsch, van Amersfoort and Gal (2019), BatchBALD: Efficient and Diverse Batch Acquisition for Deep Bayesian Active
    Learning, alg. 1 and eq. 8. Minoux (1978), Accelerated Greedy Algorithms for Maximizing Submodular Set Functions.

    Examples
    --------
    All draws are sure of the first two rows, and disagree on them alike: one carries the information of both.

    >>> import numpy as np
    >>> from skactive.batchbald import batchbald
    >>> twin = [[1.0, 0.0], [1.0, 0.0], [0.0, 1.0], [0.0, 1.0]]
    >>> other = [[0.9, 0.1], [0.1, 0.9], [0.9, 0.1], [0.1, 0.9]]
    >>> batch = batchbald(np.swapaxes([twin, twin, other], 0, 1), 2, np.random.default_rng(0))
    >>> 2 in batch.indices, batch.gains.round(3), round(batch.information, 3)
    (True, array([0.693, 0.368]), 1.061)
    """
    draws_KNC = check_draws_shape(draws, "batchbald", ("classifier",))
    check_joint_draws(draws_KNC.shape, "BatchBALD")
    k = check_k(k, draws_KNC.shape[1], of="points")
    _check_max_outcomes(max_outcomes, draws_KNC.shape[2])
    check_rng(rng)
    scores = as_array(bald(draws_KNC))
    candidates = ArrayDraws(draws_KNC, scores, scores.copy())
    result = choose_greedily(candidates, Allowance(len(scores), k), max_outcomes, rng)
    if result.n_informative < k:
        _warn(result, k, why_filled_up(all_agree=not scores.any(), exhausted=_is_exhausted(result)))
    return result


def _check_max_outcomes(max_outcomes: Any, n_classes: int) -> None:
    rule = f"an integer, n_classes={n_classes} or more, to hold the outcomes of one label"
    Rule(lambda value: is_integer(value) and value >= n_classes, rule).check("max_outcomes", max_outcomes)


def _is_exhausted(result: BatchBALDResult) -> bool:
    return result.information > 0.9 * result.ceiling  # little is left for any row to tell


def _warn(result: BatchBALDResult, k: int, why: str) -> None:
    warn(
        f"BatchBALD chose {result.n_informative} of the {k} rows by their gain; together they carry "
        f"{result.information:.4g} of at most log(n_draws) = {result.ceiling:.4g} nats. Any further gain of a row "
        f"that may be picked is within rounding of 0, so the other {k - result.n_informative} rows were drawn by power "
        f"sampling from the BALD scores. {why}"
    )


@dataclass(eq=False, repr=False)
class BatchBALDQuery(BatchQuery):
    """Choose the batch whose labels jointly say most about the model, by BatchBALD.

    Draws are streamed over the pool for BALD scores, which bound what a row can add to a batch; `batchbald.batchbald`
    chooses. Draws are kept for as many rows as fit 256 MiB, and drawn again for others when they could be the next.

    Parameters
    ----------
    n_draws : int, optional
        As in `StochasticBatchQuery`. No batch carries more than log n_draws nats.
    max_outcomes : int, default=10_000
        As in `batchbald.batchbald`.
    posterior, chunk_size, predict_batch_size, n_jobs, random_state, verbose
        As in `StochasticBatchQuery`.

    Attributes
    ----------
    scores_, indices_, rng_
        As in `query.BatchQuery`; scores are BALD, the information in each row by itself.
    gains_, gain_errors_, information_, ceiling_, n_informative_
        The ``gains``, ``standard_errors``, ``information``, ``ceiling`` and ``n_informative`` of a `BatchBALDResult`.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> from skactive import BatchBALDQuery
    >>> X, y = load_iris(return_X_y=True)
    >>> forest = RandomForestClassifier(random_state=0).fit(X[::10], y[::10])
    >>> rows = BatchBALDQuery(random_state=0).select(forest, X, n_instances=5)
    >>> sorted(y[rows].tolist())  # species of the batch
    [0, 1, 2, 2, 2]
    """

    rules: ClassVar[Rules] = BatchQuery.rules | {"max_outcomes": integer()}

    _: KW_ONLY
    n_draws: int | None = None
    max_outcomes: int = 10_000
    posterior: Posterior = "auto"
    chunk_size: int | None = None
    predict_batch_size: int | None = None
    n_jobs: int | None = None
    random_state: Any = None
    verbose: int = 0

    def choose(self, learner: Any, pool: Pool, k: int, rngs: Streams) -> Batch:
        """Score the candidates by BALD, and take rows greedily."""
        draws = joint_draws_of(pool, learner, rngs.draws, "BatchBALD", **options_of(self))
        _check_max_outcomes(self.max_outcomes, draws.shape[2])
        kept = KeptDraws(pool, draws, self.chunk_size)
        for rows, chunk in draws.chunks(pool, "scoring", chunk_size=self.chunk_size, verbose=self.verbose):
            with explained("Scoring", rows, draws.model):
                kept.add(rows, chunk)
        allowance = pool.allowance(k)
        pending = _draws_in_flight(pool, draws, self.chunk_size) if len(pool.pending) else []
        result = choose_greedily(kept, allowance, self.max_outcomes, rngs.batch, pending, verbose=bool(self.verbose))
        if result.n_informative < len(allowance.picks):
            all_agree, exhausted = not kept.scores.any(), bool(pending) or _is_exhausted(result)
            why = why_filled_up(all_agree=all_agree, exhausted=exhausted, limited=pool.limits is not None)
            _warn(result, len(allowance.picks), why)
        names = ("gains", "information", "ceiling", "n_informative")
        attributes = {f"{name}_": getattr(result, name) for name in names} | {"gain_errors_": result.standard_errors}
        return Batch(result.indices, kept.scores, attributes=attributes)


def _draws_in_flight(pool: Pool, draws: PoolDraws, chunk_size: int | None) -> list[Tensor]:
    found: list[Tensor] = []
    for rows, chunk in draws.chunks(pool.in_flight(), "rows in flight", chunk_size=chunk_size):
        with explained("Scoring", rows, draws.model):
            found += as_tensor(draws.of(chunk, rows.stop - rows.start)).unbind(1)
    return found
