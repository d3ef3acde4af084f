"""ACS-FW: a batch whose log-likelihood, reweighted, stands for that of the whole pool.

Letters: K draws, N points, n of them, C classes.
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor

from ._utils.randomness import check_rng
from ._utils.types import Floats, Indices, Posterior
from ._utils.validation import check_draws_shape, check_joint_draws, check_k, warn
from .query import Batch, BatchQuery, Pool, Streams
from .query._draws import PoolDraws, explained, joint_draws_of, options_of, why_filled_up
from .samplers._feasibility import Allowance
from .scores._arithmetic import fold, mean
from .scores._registry import blocks

__all__ = ["ACSFWQuery", "CoreSet", "acs_fw"]


_FLOOR = 1e-12  # of a probability inside the logarithm: ensembles give exact zeros
_CLOSE = 1e-6  # distance from the sum, relative to it, at which a combination counts as equal
_TIE = 1e-12  # difference of scores, relative to the length of the residual, that may be rounding
_MAX_IDLE = 50  # steps in a row that only change weights of rows already chosen


@dataclass(frozen=True)
class CoreSet:
    """Rows that stand for a pool.

    Attributes
    ----------
    indices : ndarray of shape (k,), int64
        Distinct rows in the order they were found: every prefix is the rows of a smaller core-set.
    weights : ndarray of shape (k,), float64
        How many rows like it each row stands for, 0 or larger; 0 for rows that fill up the batch.
    n_informative : int
        Rows found by Frank-Wolfe steps; the others fill up the batch.
    """

    indices: Indices
    weights: Floats
    n_informative: int


def acs_fw(draws: ArrayLike, k: int, rng: np.random.Generator | None = None) -> CoreSet:
    r"""Choose k rows whose weighted expected log-likelihoods sum up to nearly those of all rows.

    With :math:`L_n(\theta) = E_{y \sim \bar p_n}[\log p_n(y | \theta)] + H[\bar p_n]`, vectors
    :math:`v_n = K^{-1/2} (L_n(\theta_1), \ldots, L_n(\theta_K))` of length :math:`\sigma_n`, their sums :math:`v` and
    :math:`\sigma`, and :math:`v(w) = \sum_n w_n v_n`, Frank-Wolfe steps minimise :math:`|v - v(w)|^2` over
    :math:`\sum_n w_n \sigma_n = \sigma, w \ge 0`, from w = 0. The vertex is the row of the largest
    :math:`\langle v - v(w), v_n \rangle / \sigma_n`, the step that of an exact line search.

    Steps end with the k-th distinct row, once the residual is 1e-6 of v, or when 50 steps bring no new row: after a few
    times as many rows as there are draws. Then rows of the largest :math:`\sigma_n` fill up the batch, with a warning.

    A weight says how many times a row's vector is counted in place of the pool's; a short vector can have a weight of
    hundreds. Weights need not sum to the number of rows. For the batch to stand for the pool, train with the
    weights as ``sample_weight``. Probabilities are floored at 1e-12 inside the logarithm. Memory, and time a step, is
    n_points * n_draws float64.

    Parameters
    ----------
    draws, k
        As in `batchbald.batchbald`.
    rng : numpy.random.Generator, optional
        Breaks ties; without it the first row wins.

    Returns
    -------
    CoreSet

    References
    ----------
    Pinsler, Gordon, Nalisnick and Hernández-Lobato (2019), Bayesian Batch Active Learning as Sparse Subset
    Approximation, alg. 1 and eq. 5; with projections as in sec. 4.2.

    Examples
    --------
    >>> from skactive.acsfw import acs_fw
    >>> draws = [[[0.9, 0.1], [0.9, 0.1], [0.5, 0.5]], [[0.1, 0.9], [0.1, 0.9], [0.5, 0.5]]]
    >>> core = acs_fw(draws, 1)
    >>> core.indices, core.weights
    (array([0]), array([2.]))
    """
    draws_KNC = check_draws_shape(draws, "acs_fw", ("classifier",))
    check_joint_draws(draws_KNC.shape, "ACS-FW")
    k = check_k(k, draws_KNC.shape[1], of="points")
    if rng is not None:
        check_rng(rng)
    vectors_NK = _project(draws_KNC)
    core = _core_set(vectors_NK, Allowance(len(vectors_NK), k), rng)
    if core.n_informative < k:
        _warn_residual_gone(core.n_informative, k, why_filled_up(all_agree=not vectors_NK.any(), exhausted=True))
    return core


@dataclass(eq=False, repr=False)
class ACSFWQuery(BatchQuery):
    """Choose a batch that represents the whole pool, by `acsfw.acs_fw`; it keeps one number per draw and row.

    Parameters
    ----------
    n_draws : int, optional
        As in `StochasticBatchQuery`. Batches much larger than the number of draws are filled up by norm.
    posterior, chunk_size, predict_batch_size, n_jobs, random_state, verbose
        As in `StochasticBatchQuery`.

    Attributes
    ----------
    scores_, indices_, rng_
        As in `query.BatchQuery`; scores are norms of the rows' vectors.
    weights_, n_informative_
        The ``weights`` and ``n_informative`` of a `CoreSet`.

    Notes
    -----
    The batch stands for the pool only if the model is trained with ``weights_`` as ``sample_weight``, which neither
    modAL's ``teach`` nor `run_experiment` passes on. Given the draws, the batch is determined up to ties.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> from skactive import ACSFWQuery
    >>> X, y = load_iris(return_X_y=True)
    >>> forest = RandomForestClassifier(random_state=0).fit(X[::10], y[::10])
    >>> rows = ACSFWQuery(random_state=0).select(forest, X, n_instances=5)
    >>> sorted(y[rows].tolist())  # species of the batch
    [0, 1, 1, 1, 2]
    """

    keeps_parts: ClassVar[bool] = True

    _: KW_ONLY
    n_draws: int | None = None
    posterior: Posterior = "auto"
    chunk_size: int | None = None
    predict_batch_size: int | None = None
    n_jobs: int | None = None
    random_state: Any = None
    verbose: int = 0

    def choose(self, learner: Any, pool: Pool, k: int, rngs: Streams) -> Batch:
        """Keep the candidates as vectors, and take Frank-Wolfe steps among them."""
        draws = joint_draws_of(pool, learner, rngs.draws, "ACS-FW", **options_of(self))
        vectors_NK = self._vectors(pool, draws)
        pending_NK = self._vectors(pool.in_flight(), draws) if len(pool.pending) else vectors_NK[:0]
        allowance = pool.allowance(k)
        core = _core_set(vectors_NK, allowance, rngs.batch, pending_NK)
        if core.n_informative < len(allowance.picks):
            limited = pool.limits is not None
            why = why_filled_up(all_agree=not vectors_NK.any(), exhausted=True, limited=limited)
            _warn_residual_gone(core.n_informative, len(allowance.picks), why)
        attributes = {"weights_": core.weights, "n_informative_": core.n_informative}
        return Batch(core.indices, _norms(vectors_NK), attributes=attributes)

    def _vectors(self, pool: Pool, draws: PoolDraws) -> Floats:
        vectors_NK = np.empty((len(pool), draws.n_draws))
        for rows, chunk in draws.chunks(pool, "projecting", chunk_size=self.chunk_size, verbose=self.verbose):
            with explained("Projecting", rows, draws.model):
                vectors_NK[rows] = _project(draws.of(chunk, rows.stop - rows.start))
        return vectors_NK


def _project(draws: Any) -> Floats:
    """The vectors v_n of all points (N, K)."""
    draws = check_draws_shape(draws, "acs_fw", ("classifier",))
    vectors_NK = np.empty((draws.shape[1], draws.shape[0]))
    for block, points in blocks(draws):
        vectors_NK[points] = _project_block(block.detach()).cpu().numpy()
    return vectors_NK


def _project_block(block_KCn: Tensor) -> Tensor:
    """Vectors (n, K), as divergences: exactly 0 where all draws agree, and without cancellation elsewhere."""
    n_draws, n_classes, _ = block_KCn.shape
    mean_Cn = mean(block_KCn)
    log_ratios_KCn = block_KCn.clamp_min(_FLOOR).log_().sub_(mean_Cn.clamp_min(_FLOOR).log_())
    # Sums of n_draws * n_classes terms that are off by rounding alone count as 0: these draws agree.
    L_Kn = fold(log_ratios_KCn.mul_(mean_Cn).transpose(0, 1))
    return L_Kn.masked_fill_(L_Kn.abs() < n_draws * n_classes * torch.finfo(L_Kn.dtype).eps, 0.0).T / n_draws**0.5


def _norms(vectors_NK: Floats) -> Floats:
    return np.sqrt(np.einsum("nk,nk->n", vectors_NK, vectors_NK))


def _core_set(
    vectors_NK: Floats, allowance: Allowance, rng: np.random.Generator | None, pending_NK: Floats | None = None
) -> CoreSet:
    """Rows and weights; rows in flight stand for their part of the pool. Of tied rows the first of an order wins."""
    n = len(vectors_NK)
    if pending_NK is not None and len(pending_NK):
        vectors_NK = np.concatenate([vectors_NK, pending_NK])
    norms_N = _norms(vectors_NK)
    order = np.arange(len(norms_N))
    if rng is not None:
        order[:n] = rng.permutation(n)
    weights_N = _frank_wolfe(vectors_NK, norms_N, order, allowance)
    n_informative = len(allowance.picks)
    _take_by_norm(norms_N, order[:n], allowance)
    return CoreSet(allowance.batch, weights_N[allowance.batch], n_informative)


def _take_by_norm(norms_N: Floats, order: Indices, allowance: Allowance) -> None:
    left = order[allowance.allowed[order]]
    for row in left[np.argsort(-norms_N[left], kind="stable")].tolist():
        if not allowance.n_left:
            return
        if allowance.allows_row(row):
            allowance.take(row)


def _frank_wolfe(vectors_NK: Floats, norms_N: Floats, order: Indices, allowance: Allowance) -> Floats:
    """Weights of rows, which are taken as they are found: those in flight and those that must be in the batch first."""
    long_N = norms_N > 0
    target_K, total = vectors_NK.sum(axis=0), norms_N.sum()
    directions_NK = np.divide(vectors_NK, norms_N[:, np.newaxis], out=np.zeros_like(vectors_NK), where=long_N[:, None])
    forced = [row for row in (*range(allowance.n_rows, len(norms_N)), *allowance.must.tolist()) if long_N[row]]
    most = len(forced) + allowance.n_left
    reached_K = np.zeros_like(target_K)
    weights: dict[int, float] = {}
    idle = 0
    while len(weights) < most and idle < _MAX_IDLE:
        residual_K = target_K - reached_K
        length = float(np.linalg.norm(residual_K))
        if length <= _CLOSE * np.linalg.norm(target_K):
            break
        is_forced = len(weights) < len(forced)
        if is_forced:
            row = forced[len(weights)]
        else:
            among_N = long_N & np.pad(allowance.allowed, (0, len(long_N) - allowance.n_rows))
            if not among_N.any():
                break
            among_N[list(weights)] = True
            row = _vertex(directions_NK @ residual_K, order[among_N[order]], length)
        step_K = total * directions_NK[row] - reached_K
        # An exact line search: 1 is at the vertex, which is no less far along the residual than the target is, unless
        # some rows may not be gone to.
        size = min(float(step_K @ residual_K / (step_K @ step_K)), 1.0)
        if not (size > 0 or is_forced):
            break
        size = size if size > 0 else 0.0  # NaN of a step of no length, too
        if not is_forced and row not in weights:
            allowance.take(row)
        reached_K += size * step_K
        idle = idle + 1 if row in weights else 0
        weights = {found: (1 - size) * weight for found, weight in weights.items()}
        weights[row] = weights.get(row, 0.0) + size * total / norms_N[row]
    weights_N = np.zeros(len(norms_N))
    weights_N[list(weights)] = list(weights.values())
    return weights_N


def _vertex(values_N: Floats, among: Indices, length: float) -> int:
    """The first of some rows whose direction goes farthest along the residual."""
    # Twins count as tied, though products round by the position of a row: else both would end up in the batch.
    values = values_N[among]
    return int(among[np.argmax(values >= values.max() - _TIE * length)])


def _warn_residual_gone(n_found: int, k: int, why: str) -> None:
    warn(
        f"ACS-FW found {n_found} of the {k} rows: no other that may be picked comes nearer to the log-likelihood of "
        f"the pool under these draws. The other {k - n_found} rows have the largest norms and weight 0. {why}"
    )
