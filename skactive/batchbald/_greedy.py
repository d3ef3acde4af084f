"""Rows taken greedily by the information that their labels add, with few gains computed.

What a row adds only shrinks as the batch grows, so an old gain bounds that of now; a few hundred merged outcomes of the
batch give a closer bound; and the gain itself is computed for the rows of the largest bounds only (Minoux, 1978).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from .._utils.devices import best_float
from .._utils.types import Floats, Indices
from .._utils.validation import as_array, check_same_functions, failure_explained, progress
from ..query import Pool, PoolDraws
from ..samplers._feasibility import Allowance, Order, take_all
from ..samplers._plackett_luce import Law
from ..scores import bald
from ._outcomes import Outcomes, as_tensor

_N_MERGED = 512  # outcomes that bound a gain
_ROWS_AT_ONCE = 1024
_DRAWS_AT_ONCE = 2**22  # numbers
_PRODUCTS_AT_ONCE = 2**20  # outcomes * classes * rows whose gains are computed before looking which bounds they beat
_ROUNDING = 1e-12  # of a gain, relative to the weight of all outcomes
_EXHAUSTED = 1e-6  # part of log n_draws that is left: batches that stop at 0.01 or 0.1 of it are worse
_MAX_BYTES = 256 * 2**20  # of draws that are kept
_MIN_ROWS = 16  # that may be asked for at once, however wide their draws


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


@dataclass(frozen=True)
class ArrayDraws:
    """Candidates whose draws are all there: BALD scores, and bounds on what they add, lowered as a batch grows."""

    draws: Any
    scores: Floats
    bounds: Floats

    @property
    def shape(self) -> tuple[int, ...]:
        """(n_draws, n_rows, n_classes)."""
        return tuple(self.draws.shape)

    def take(self, rows: Indices) -> Tensor:
        """Draws of some rows, (n_draws, n_rows, n_classes)."""
        at = torch.from_numpy(rows).to(self.draws.device) if isinstance(self.draws, Tensor) else rows
        return as_tensor(self.draws[:, at])


class KeptDraws:
    """Candidates of a pool, with the draws of those that are wanted most: they have the highest bounds."""

    def __init__(self, pool: Pool, draws: PoolDraws, chunk_size: int | None) -> None:
        n_draws, _, n_classes = draws.shape
        self.shape = n_draws, len(pool), n_classes
        self.scores, self.bounds = np.empty((2, len(pool)))
        self._pool, self._draws = pool, draws
        self._chunk_size = pool.chunk_size(draws.n_values, chunk_size, draws.batch_size)
        self._place_of = np.full(len(pool), -1)  # in the store, of each row
        self._row_at = np.empty(0, dtype=np.int64)  # of each place
        self._store = torch.empty(0, device="cpu")

    def add(self, rows: slice, chunk: Any) -> None:
        """Draw a chunk of the pool: these rows, next in order. Draws are kept if there is room."""
        drawn = self._draws.of(chunk, rows.stop - rows.start)
        self.scores[rows] = self.bounds[rows] = as_array(bald(drawn))
        draws = as_tensor(drawn)
        if rows.start == 0:
            if not self._draws.checks_rows:
                self._check_last_row_alone(drawn)
            self._make_room(draws)
        new = np.arange(rows.start, min(rows.stop, len(self._row_at)))
        self._put(new, new, draws[:, : len(new)])

    def take(self, rows: Indices) -> Tensor:
        """Draws of these rows, (n_draws, n_rows, n_classes)."""
        missing = np.sort(rows[self._place_of[rows] < 0])
        if len(missing):
            wanted = self.bounds[self._row_at]
            wanted[self._place_of[np.setdiff1d(rows, missing)]] = np.inf
            places = np.argpartition(wanted, len(missing) - 1)[: len(missing)]
            self._place_of[self._row_at[places]] = -1
            self._put(places, missing, self._draw_again(missing))
        return self._store[:, self._on_device(self._place_of[rows])]

    def _draw_again(self, rows: Indices) -> Tensor:
        with failure_explained(f"Drawing predictions again for {len(rows)} rows"):
            blocks = self._pool.only(rows).blocks(self._chunk_size)
            return torch.cat([as_tensor(self._draws.of(chunk, at.stop - at.start)) for at, chunk in blocks], dim=1)

    def _check_last_row_alone(self, draws: Any) -> None:
        """A mask for each row of a batch, say, would go with the row's place in it, whatever the seed."""
        last = np.array([draws.shape[1] - 1])
        alone = self._draws.of(self._pool.take(last), 1)
        check_same_functions(draws[:, -1:], alone, f"row {self._pool.positions(last)[0]} by itself", "classes")

    def _make_room(self, draws: Tensor) -> None:
        n_draws, n_rows, n_classes = self.shape
        n_kept = min(n_rows, max(_MIN_ROWS, _MAX_BYTES // (n_draws * n_classes * draws.element_size())))
        self._store = draws.new_empty((n_draws, n_kept, n_classes))
        self._row_at = np.empty(n_kept, dtype=np.int64)

    def _put(self, places: Indices, rows: Indices, draws: Tensor) -> None:
        self._row_at[places], self._place_of[rows] = rows, places
        self._store[:, self._on_device(places)] = draws.to(self._store)

    def _on_device(self, places: Indices) -> Tensor:
        return torch.from_numpy(places).to(self._store.device)


Candidates = ArrayDraws | KeptDraws


def choose_greedily(
    candidates: Candidates,
    allowance: Allowance,
    max_outcomes: int,
    rng: np.random.Generator,
    pending: Sequence[Tensor] = (),
    *,
    verbose: bool = False,
) -> BatchBALDResult:
    """Informative rows, and once there are no more, rows in proportion to their scores, while any is allowed.

    Gains are those beyond what is ``pending``, draws of rows in flight. Rows that have to be in the batch come first.
    """
    n_rows = len(allowance.must) + allowance.n_left
    gains, errors = np.zeros(n_rows), np.full(n_rows, np.nan)
    with progress(total=n_rows, doing="choosing", unit="row", verbose=verbose) as bar:
        for i, told in enumerate(_informative_picks(candidates, allowance, max_outcomes, rng, pending)):
            gains[i], errors[i] = told
            bar.update()
        n_informative = len(allowance.picks)
        with np.errstate(divide="ignore"):
            take_all(Order(Law(np.log(candidates.scores), 1.0), allowance, rng), allowance)
        bar.update(len(allowance.picks) - n_informative)
    batch = allowance.batch  # may be shorter: a budget can be spent
    gains, errors = gains[: len(batch)], errors[: len(batch)]
    return BatchBALDResult(batch, gains, errors, math.log(candidates.shape[0]), n_informative)


def _informative_picks(
    candidates: Candidates, allowance: Allowance, max_outcomes: int, rng: np.random.Generator, pending: Sequence[Tensor]
) -> Iterator[tuple[float, float]]:
    """Take rows of the largest gain, one after the other, while these exceed rounding: their gains, standard errors."""
    bounds = candidates.bounds
    outcomes = Outcomes.of_no_labels(candidates.shape[0], candidates.take(np.array([bounds.argmax()])).device)
    enough = _EXHAUSTED * outcomes.left
    for draws_KC in pending:
        outcomes = outcomes.extended(draws_KC, max_outcomes, rng)
    for row in allowance.must:
        more, gain, error = _with_row(outcomes, candidates, row, max_outcomes, rng)
        yield gain, error
        outcomes = more
    bounds_are_gains = not len(pending) and not len(allowance.must)  # BALD scores are the gains of the first row
    while outcomes.left > enough and (allowed := allowance.allowed).any():
        bounds[~allowed] = -np.inf
        best = np.flatnonzero(bounds == bounds.max()) if bounds_are_gains else _best_rows(outcomes, candidates)
        if not len(best):
            return
        row = rng.choice(best)
        more, gain, error = _with_row(outcomes, candidates, row, max_outcomes, rng)
        if gain <= max(error, _ROUNDING * outcomes.weight):
            return
        allowance.take(int(row))
        yield gain, error
        outcomes, bounds_are_gains = more, False
        bounds *= 1 + 4 * error / gain  # of bounds found with other samples of outcomes: 4 standard errors


def _with_row(
    outcomes: Outcomes, candidates: Candidates, row: int, max_outcomes: int, rng: np.random.Generator
) -> tuple[Outcomes, float, float]:
    """Outcomes of a batch of one more row, its gain, and the standard error of that."""
    draws_KC = candidates.take(np.array([row]))[:, 0]
    more = outcomes.extended(draws_KC, max_outcomes, rng)
    return more, outcomes.left - more.left, outcomes.standard_error(draws_KC)


def _best_rows(outcomes: Outcomes, candidates: Candidates) -> Indices:
    """The row of the largest gain, and those that tie with it; none if no gain exceeds rounding."""
    rows = _contenders(outcomes, candidates)
    if not len(rows):
        return rows
    parts = np.split(rows, range(_rows_at_once(candidates), len(rows), _rows_at_once(candidates)))
    gains = np.concatenate([_gains(outcomes, candidates, part, torch.float64) for part in parts])
    tie = _ROUNDING * outcomes.weight
    return rows[gains >= max(gains.max() - tie, tie)]


def _contenders(outcomes: Outcomes, candidates: Candidates) -> Indices:
    """Rows whose gains in float32 are too close to the largest to tell which is larger.

    Bounds of others are lowered until none might be among them: first to those from merged outcomes, then, of the most
    promising rows and their twins, to their gains.
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
    """How far gains in float32 may be off, relative to the weight of all outcomes."""
    n_draws, _, n_classes = shape
    # A label's probability m is a sum of n_draws products, off by n_draws eps / 2 of itself; 64 stands for sums over
    # some hundred outcomes. Of m log m, m (|log m| + 1) times as much is off: 1 + log n_classes over the labels.
    return (n_draws + 64) * torch.finfo(torch.float32).eps / 2 * (1 + math.log(n_classes))


def _gains(outcomes: Outcomes, candidates: Candidates, rows: Indices, dtype: torch.dtype) -> Floats:
    """Gains of rows, those of twins computed once."""
    draws_KnC = candidates.take(rows)
    if len(np.unique(candidates.scores[rows])) == len(rows):
        return outcomes.gains(draws_KnC, dtype).cpu().numpy()
    distinct_KmC, which = torch.unique(draws_KnC.to(best_float(draws_KnC.device)), dim=1, return_inverse=True)
    return outcomes.gains(distinct_KmC, dtype)[which].cpu().numpy()


def _rows_at_once(candidates: Candidates) -> int:
    n_draws, _, n_classes = candidates.shape
    return int(np.clip(_DRAWS_AT_ONCE // (n_draws * n_classes), 16, _ROWS_AT_ONCE))


def _largest(values: Floats, rows: Indices, n: int) -> Indices:
    """The n of these rows that have the largest values, in any order."""
    return rows if len(rows) <= n else rows[np.argpartition(-values[rows], n - 1)[:n]]
