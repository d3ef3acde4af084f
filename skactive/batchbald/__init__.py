"""BatchBALD: a batch whose labels together say most about the model.

Rows are taken greedily, each for what its label adds to those of the rows before it. What a row adds only shrinks as
the batch grows, so what it was worth some rows ago bounds what it is worth now; a few hundred merged outcomes of the
batch (see `_outcomes`) give a closer bound; and the gain itself is computed for the few rows whose bounds stand out.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from .._checks import (
    Rules,
    as_array,
    check_draws_shape,
    check_joint_draws,
    check_k,
    integer,
    why_filled_up,
)
from .._devices import best_float
from .._progress import progress
from .._random import check_rng
from .._types import Posterior
from ..query import Batch, BatchQuery, Pool, Streams
from ..query._draws import PoolDraws, explained, joint_draws_of, options_of, remedies
from ..samplers import gumbel_top_k
from ..samplers._allowance import Allowance
from ..samplers._law import Law
from ..samplers._limited import Order
from ..scores import bald
from ._checks import check_max_outcomes, warn_information_gone
from ._kept_draws import KeptDraws, as_tensor
from ._outcomes import Outcomes

__all__ = ["BatchBALDQuery", "BatchBALDResult", "batchbald"]

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]

_N_MERGED = 512  # outcomes that bound a gain
_ROWS_AT_ONCE = 1024
_DRAWS_AT_ONCE = 2**22  # numbers
_PRODUCTS_AT_ONCE = 2**20  # outcomes * classes * rows whose gains are computed before looking which bounds they beat
_ROUNDING = 1e-12  # of a gain, relative to the weight of all outcomes
_EXHAUSTED = 1e-6  # part of log n_draws that is left. Batches that go on for so long are better than such that stop at
# 0.01 or 0.1: what tells the last draws apart also tells a model, measured by its Fisher information, from others.


@dataclass(frozen=True)
class BatchBALDResult:
    """Rows chosen by BatchBALD, and the information in their labels.

    Attributes
    ----------
    indices : ndarray of shape (k,), int64
        Distinct rows, in the order they were chosen: every prefix is a smaller batch.
    gains : ndarray of shape (k,), float64
        Information that each row adds to those before it, in nats; 0 for rows that fill up the batch.
    standard_errors : ndarray of shape (k,), float64
        Monte Carlo standard error of each gain: 0 while all outcomes are enumerated, NaN for rows that fill up.
    ceiling : float
        log n_draws, the most that any batch can carry.
    n_informative : int
        Rows taken for their gain; the others fill up the batch.

    See Also
    --------
    batchbald.batchbald : Returns it.
    """

    indices: Indices
    gains: Floats
    standard_errors: Floats
    ceiling: float
    n_informative: int

    @property
    def information(self) -> float:
        """Joint mutual information of the batch's labels and the model, in nats: the sum of the gains."""
        return min(float(self.gains.sum()), self.ceiling)


def batchbald(draws: ArrayLike, k: int, rng: np.random.Generator, *, max_outcomes: int = 10_000) -> BatchBALDResult:
    r"""Choose k rows greedily by the joint mutual information of their labels and the model's parameters.

    Each row x is taken for the most of :math:`I(y_x; \theta \mid y_1 \ldots y_b) = \sum_g q_g (H[\sum_k W_{gk} p_k] -
    \sum_k W_{gk} H[p_k])`, over the outcomes g of the labels before it, of probability :math:`q_g`, that make draw k as
    probable as :math:`W_{gk}`. Their information, :math:`\log K - \sum_g q_g H[W_g]`, is the sum of these gains.

    All outcomes are enumerated while they are ``max_outcomes`` or fewer; those that leave only one draw possible count
    no more. From then on outcomes are sampled at each step, in proportion to the information that they leave: gains
    of given rows stay unbiased and never add up to more than log n_draws, and their errors shrink with what is left.
    The gains reported are those of the rows that looked best, so they are a little too large: by some thousandths of a
    nat with 60 outcomes, less with more.

    The rows end that can be told to add something once the best gain is below its standard error, or the batch tells
    all but a millionth of log n_draws. The rest is filled up by power sampling of the BALD scores, with a warning.

    Time is about that of one BALD score of all rows, and k times some hundred outcomes for the rows that could be best.
    Memory is that of the outcomes, a few times max_outcomes * (n_draws + n_classes) float64; draws are not copied.

    Parameters
    ----------
    draws : array-like or torch.Tensor of shape (n_draws, n_points, n_classes)
        Probabilities, of any float dtype, from two draws or more; rows sum to 1. Draws must be functions: the same
        parameters for all points.
    k : int
        Number of rows.
    rng : numpy.random.Generator
        Breaks ties, samples outcomes, and fills up.
    max_outcomes : int, default=10_000
        Outcomes of the batch's labels that are looked at, n_classes or more.

    Returns
    -------
    BatchBALDResult
        ``indices``, ``gains``, ``standard_errors``, ``information``, ``ceiling`` and ``n_informative``.

    Raises
    ------
    ValueError, TypeError
        If ``draws`` have another number of axes, one draw only, or rows that are not probabilities, k is not an integer
        from 1 to n_points, or ``max_outcomes`` not one from n_classes.

    See Also
    --------
    BatchBALDQuery : The same for an estimator and a pool.
    scores.bald : The information of each label by itself.

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
    max_outcomes = check_max_outcomes(max_outcomes, draws_KNC.shape[2])
    check_rng(rng)
    scores = as_array(bald(draws_KNC))
    result = _batch(_ArrayDraws(draws_KNC, scores, scores.copy()), k, max_outcomes, rng)
    if result.n_informative < k:
        _warn(result, 0, False, all_agree=not scores.any())
    return result


class BatchBALDQuery(BatchQuery):
    """Buy a batch of labels that together say most about the model, by BatchBALD.

    Draws from the posterior of the model are streamed over the pool for BALD scores, which bound what a row can add to
    a batch. `batchbald.batchbald` chooses; draws are kept for as many rows as fit 256 MiB, and drawn again for others
    when they could be the next.

    Parameters
    ----------
    n_draws : int, optional
        Posterior draws. By default all members of an ensemble (which cannot give more), 20 of a bootstrap, else 100.
        No batch carries more than log n_draws nats.
    max_outcomes : int, default=10_000
        Outcomes of the batch's labels that are looked at: all that there are, or a sample.
    posterior : {"auto", "bootstrap"} or estimator, default="auto"
        Where draws come from, as in `StochasticBatchQuery`.
    chunk_size : int, optional
        Rows drawn at once. By default what fits scikit-learn's ``working_memory``, 64 MiB at most.
    predict_batch_size : int, optional
        Rows that a net is asked for at once. By default its own batch size: that of a skorch net or of
        `MCDropoutClassifier`, 256 of a bare module. Fewer take less memory; when it runs out, the number is halved,
        with a warning. Models that are no nets do not look at it.
    max_candidates : int, optional
        Look at no more than this many rows, chosen uniformly at random.
    n_jobs : int, optional
        Members of a bootstrap fitted at once.
    random_state : None, int, numpy Generator or RandomState
        Seeds one stream, which goes on from call to call. Set it again, or clone the query, to start afresh.
    verbose : int, default=0
        Whether to show progress bars, over the pool and over the batch.

    Attributes
    ----------
    scores_ : ndarray of shape (n_points,), float64
        BALD scores, the information in each row by itself; NaN for rows that were not scored.
    indices_ : ndarray of shape (n_instances,), int64
        The last batch.
    gains_ : ndarray of shape (n_instances,), float64
        Information that each row of it adds to those before, in nats; 0 for rows that fill up the batch.
    gain_errors_ : ndarray of shape (n_instances,), float64
        Monte Carlo standard errors of these: 0 while all outcomes are enumerated, NaN for rows that fill up.
    information_ : float
        Information in the batch about the model, in nats: the sum of the gains.
    ceiling_ : float
        log n_draws, the most that any batch can carry.
    n_informative_ : int
        Rows taken for their gain; the others fill up the batch.
    n_features_in_ : int
        Columns of the last pool.

    See Also
    --------
    batchbald.batchbald : The same for arrays of draws.
    StochasticBatchQuery : Batches of any size at the cost of their scores.

    Notes
    -----
    Draws that are no functions of the rows, such as those of dropout with a mask a row, are refused: the information in
    several labels is then not defined.

    References
    ----------
    Kirsch, van Amersfoort and Gal (2019), BatchBALD: Efficient and Diverse Batch Acquisition for Deep Bayesian Active
    Learning.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> from skactive import BatchBALDQuery
    >>> X, y = load_iris(return_X_y=True)
    >>> forest = RandomForestClassifier(random_state=0).fit(X[::10], y[::10])
    >>> query = BatchBALDQuery(random_state=0)
    >>> query.select(forest, X, n_instances=3).shape, query.information_ < query.ceiling_
    ((3,), True)
    """

    rules: ClassVar[Rules] = BatchQuery.rules | {"max_outcomes": integer()}

    def __init__(
        self,
        *,
        n_draws: int | None = None,
        max_outcomes: int = 10_000,
        posterior: Posterior = "auto",
        chunk_size: int | None = None,
        predict_batch_size: int | None = None,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.n_draws = n_draws
        self.max_outcomes = max_outcomes
        self.posterior = posterior
        self.chunk_size = chunk_size
        self.predict_batch_size = predict_batch_size
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    def choose(self, learner: Any, pool: Pool, k: int, rngs: Streams) -> Batch:
        """Score the candidates by BALD, and take rows greedily."""
        draws = joint_draws_of(
            pool,
            learner,
            rngs.draws,
            "BatchBALD",
            **options_of(self),
        )
        max_outcomes = check_max_outcomes(self.max_outcomes, draws.shape[2])
        kept = KeptDraws(pool, draws, self.chunk_size)
        for rows, chunk in draws.chunks(pool, "scoring", chunk_size=self.chunk_size, verbose=self.verbose):
            with explained("Scoring", rows, draws.model):
                kept.add(rows, chunk)
        allowance = pool.allowance(k)
        n_must = 0 if allowance is None else len(allowance.must)
        pending = _draws_in_flight(pool, draws, self.chunk_size)
        result = _batch(kept, k, max_outcomes, rngs.batch, bool(self.verbose), allowance, pending)
        if n_must + result.n_informative < len(result.indices):
            _warn(
                result,
                n_must,
                allowance is not None,
                has_pending=bool(pending),
                all_agree=not kept.scores.any(),
                **remedies(pool, draws, k, self.posterior),
            )
        attributes = {
            "gains_": result.gains,
            "gain_errors_": result.standard_errors,
            "information_": result.information,
            "ceiling_": result.ceiling,
            "n_informative_": result.n_informative,
        }
        return Batch(result.indices, kept.scores, attributes=attributes)


def _draws_in_flight(pool: Pool, draws: PoolDraws, chunk_size: int | None) -> list[Tensor]:
    """Draws of each row in flight, (n_draws, n_classes)."""
    found: list[Tensor] = []
    if len(pool.pending) == 0:
        return found
    for rows, chunk in draws.chunks(pool.in_flight(), "rows in flight", chunk_size=chunk_size):
        with explained("Scoring", rows, draws.model):
            found += as_tensor(draws.of(chunk, rows.stop - rows.start)).unbind(1)
    return found


class _Candidates(Protocol):
    """Rows to choose from: their BALD scores, and bounds on what they add to the batch, lowered as it grows."""

    @property
    def scores(self) -> Floats: ...

    @property
    def bounds(self) -> Floats: ...

    @property
    def shape(self) -> tuple[int, ...]:
        """(n_draws, n_rows, n_classes)."""

    def take(self, rows: Indices) -> Tensor:
        """Draws of some rows, (n_draws, n_rows, n_classes)."""


@dataclass(frozen=True)
class _ArrayDraws:
    """Candidates whose draws are all there."""

    draws: Any
    scores: Floats
    bounds: Floats

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.draws.shape)

    def take(self, rows: Indices) -> Tensor:
        if isinstance(self.draws, Tensor):
            return as_tensor(self.draws[:, torch.from_numpy(rows).to(self.draws.device)])
        return as_tensor(self.draws[:, rows])


def _batch(
    candidates: _Candidates,
    k: int,
    max_outcomes: int,
    rng: np.random.Generator,
    verbose: bool = False,
    allowance: Allowance | None = None,
    pending: Sequence[Tensor] = (),
) -> BatchBALDResult:
    """Informative rows, and if they are fewer than k, rows by their scores; with an allowance, while it allows any.

    Gains are those beyond what is ``pending``, draws of rows whose labels are to come.
    """
    ceiling = math.log(candidates.shape[0])
    picks = itertools.islice(_informative_picks(candidates, max_outcomes, rng, allowance, pending), k)
    rows = []
    with progress(total=k, doing="choosing", unit="row", verbose=verbose) as bar:
        for row in picks:
            rows.append(row)
            bar.update()
        found = np.array(rows).reshape(-1, 3)
        indices, gains, errors = found[:, 0].astype(np.int64), found[:, 1], found[:, 2]
        others = _by_scores(candidates.scores, indices, k - len(found), rng, allowance)
        bar.update(len(others))
    gains, errors = np.pad(gains, (0, len(others))), np.pad(errors, (0, len(others)), constant_values=np.nan)
    n_informative = len(found) - (0 if allowance is None else len(allowance.must))
    return BatchBALDResult(np.concatenate([indices, others]), gains, errors, ceiling, n_informative)


def _by_scores(
    scores: Floats, taken: Indices, n: int, rng: np.random.Generator, allowance: Allowance | None
) -> Indices:
    """Rows that fill up a batch, in proportion to their scores."""
    with np.errstate(divide="ignore"):
        log_scores = np.log(scores)
    others: list[int] = []
    if allowance is None:
        left = np.setdiff1d(np.arange(len(scores)), taken)
        return left[gumbel_top_k(log_scores[left], n, rng)] if n else left[:0]
    order = Order(Law(log_scores, 1.0), allowance, rng)
    while (row := order.next()) is not None:
        allowance.take(row)
        others.append(row)
    return np.array(others, dtype=np.int64)


def _warn(
    result: BatchBALDResult,
    n_must: int,
    is_limited: bool,
    *,
    all_agree: bool,
    has_pending: bool = False,
    **remedies: str,
) -> None:
    n_found, k = result.n_informative, len(result.indices) - n_must
    exhausted = has_pending or result.information > 0.9 * result.ceiling  # rows in flight carry some of it
    # Where limits leave few rows, that says why.
    why = "" if is_limited and not all_agree else why_filled_up(all_agree=all_agree, exhausted=exhausted, **remedies)
    warn_information_gone(n_found, k, result.information, result.ceiling, why, is_limited=is_limited)


def _informative_picks(
    candidates: _Candidates,
    max_outcomes: int,
    rng: np.random.Generator,
    allowance: Allowance | None = None,
    pending: Sequence[Tensor] = (),
) -> Iterator[tuple[int, float, float]]:
    """Rows of the largest gain, one after the other, while these exceed rounding; their gains; standard errors.

    What is pending counts as labelled before the first. With an allowance, rows that have to be in the batch come
    first, whatever their gains, and others are taken from it.
    """
    bounds = candidates.bounds
    best = np.flatnonzero(bounds == bounds.max())
    outcomes = Outcomes.of_no_labels(candidates.shape[0], candidates.take(best[:1]).device)
    enough = _EXHAUSTED * outcomes.left
    for draws_KC in pending:
        outcomes = outcomes.extended(draws_KC, max_outcomes, rng)
    has_pending = len(pending) > 0
    if allowance is not None:
        for row in allowance.must.tolist():
            draws_KC = candidates.take(np.array([row]))[:, 0]
            more = outcomes.extended(draws_KC, max_outcomes, rng)
            yield row, outcomes.left - more.left, outcomes.standard_error(draws_KC)
            outcomes = more
        bounds[~allowance.allowed] = -np.inf
        if outcomes.left <= enough or bounds.max() == -np.inf:
            return
        has_pending = has_pending or len(allowance.must) > 0
        best = np.flatnonzero(bounds == bounds.max())
    if has_pending:
        if outcomes.left <= enough:
            return
        best = _best_rows(outcomes, candidates)
    while len(best):
        row = int(rng.choice(best))
        draws_KC = candidates.take(np.array([row]))[:, 0]
        error = outcomes.standard_error(draws_KC)
        more = outcomes.extended(draws_KC, max_outcomes, rng)
        gain = outcomes.left - more.left
        if gain <= max(error, _ROUNDING * outcomes.weight):
            return
        if allowance is not None:
            allowance.take(row)
        yield row, gain, error
        outcomes = more
        if outcomes.left <= enough:
            return
        bounds[row if allowance is None else ~allowance.allowed] = -np.inf
        bounds *= 1 + 4 * error / gain  # of bounds found with other samples of outcomes
        best = _best_rows(outcomes, candidates)


def _best_rows(outcomes: Outcomes, candidates: _Candidates) -> Indices:
    """The row of the largest gain, and those that tie with it; none if no gain exceeds rounding."""
    rows = _contenders(outcomes, candidates)
    if not len(rows):
        return rows
    parts = np.split(rows, range(_rows_at_once(candidates), len(rows), _rows_at_once(candidates)))
    gains = np.concatenate([_gains(outcomes, candidates, part, torch.float64) for part in parts])
    tie = _ROUNDING * outcomes.weight
    return rows[gains >= max(gains.max() - tie, tie)]


def _contenders(outcomes: Outcomes, candidates: _Candidates) -> Indices:
    """Rows whose gains in float32 are too close to the largest to tell which is larger.

    Bounds are lowered of all rows that might have been among them: to those from merged outcomes first, and of a few
    rows at a time, the most promising and their twins, to their gains.
    """
    scores, bounds = candidates.scores, candidates.bounds
    at_once = _rows_at_once(candidates)
    few = max(8, _PRODUCTS_AT_ONCE // (len(outcomes) * candidates.shape[2]))
    merged = outcomes.merged(_N_MERGED) if len(outcomes) > 2 * _N_MERGED else None
    slack = _rounding_of_bounds(candidates.shape) * outcomes.weight

    def lower(rows: Indices, of: Outcomes) -> None:
        bounds[rows] = np.minimum(bounds[rows], _gains(of, candidates, rows, torch.float32) + slack)

    bounded = np.full(len(bounds), merged is None)
    known = np.zeros(len(bounds), dtype=bool)
    least = _ROUNDING * outcomes.weight
    while len(rows := np.flatnonzero((bounds >= least) & ~known)):
        rows = _largest(bounds, rows, at_once)
        if merged is not None and not bounded[rows].all():
            lower(rows[~bounded[rows]], merged)
            bounded[rows] = True
        rows = rows[np.isin(scores[rows], scores[_largest(bounds, rows, few)])]
        lower(rows, outcomes)
        known[rows] = True
        least = max(least, bounds[rows].max() - 2 * slack)
    return np.flatnonzero(known & (bounds >= least))


def _rounding_of_bounds(shape: tuple[int, ...]) -> float:
    """How far gains in float32 may be off, relative to the weight of all outcomes.

    A label's probability m is a sum of n_draws products, off by n_draws eps / 2 of itself; some hundred outcomes are
    added up at once, in sums that are off by the root of that. Of m log m, m (|log m| + 1) times as much is off, and
    these add up to 1 + log n_classes over the labels.
    """
    n_draws, _, n_classes = shape
    return (n_draws + 64) * torch.finfo(torch.float32).eps / 2 * (1 + math.log(n_classes))


def _gains(outcomes: Outcomes, candidates: _Candidates, rows: Indices, dtype: torch.dtype) -> Floats:
    """Gains of rows, those of twins computed once."""
    draws_KnC = candidates.take(rows)
    if len(np.unique(candidates.scores[rows])) == len(rows):
        return outcomes.gains(draws_KnC, dtype).cpu().numpy()
    distinct_KmC, which = torch.unique(draws_KnC.to(best_float(draws_KnC.device)), dim=1, return_inverse=True)
    return outcomes.gains(distinct_KmC, dtype)[which].cpu().numpy()


def _rows_at_once(candidates: _Candidates) -> int:
    n_draws, _, n_classes = candidates.shape
    return int(np.clip(_DRAWS_AT_ONCE // (n_draws * n_classes), 16, _ROWS_AT_ONCE))


def _largest(values: Floats, rows: Indices, n: int) -> Indices:
    """The n of these rows that have the largest values, in any order."""
    return rows if len(rows) <= n else rows[np.argpartition(-values[rows], n - 1)[:n]]
