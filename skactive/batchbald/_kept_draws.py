"""Draws of rows of a pool, by position: kept for as many rows as memory allows, drawn again for the others."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from .._checks import as_array, check_same_functions, failure_explained
from ..query import Pool, PoolDraws
from ..scores import bald

__all__ = ["KeptDraws", "as_tensor"]

_MAX_BYTES = 256 * 2**20
_MIN_ROWS = 16  # that may be asked for at once, however wide their draws

Indices = NDArray[np.int64]


class KeptDraws:
    """Candidates of a pool, their draws, and a number for each that says how much it is wanted.

    Attributes
    ----------
    scores : ndarray of shape (n_candidates,), float64
        BALD scores.
    bounds : ndarray of shape (n_candidates,), float64
        The same to begin with, and for others to lower. Rows of the lowest make room for draws that are asked for.
    shape : tuple of int
        (n_draws, n_candidates, n_classes), as if the draws were one array.
    """

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
        """Draw a chunk of the pool: these rows, next in order. BALD is their bound; draws are kept if there is room."""
        drawn = self._predict(chunk, rows.stop - rows.start)
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

    def _predict(self, X: Any, n_rows: int) -> Any:
        return self._draws.of(X, n_rows)

    def _draw_again(self, rows: Indices) -> Tensor:
        with failure_explained(f"Drawing predictions again for {len(rows)} rows"):
            parts = [
                as_tensor(self._predict(chunk, places.stop - places.start))
                for places, chunk in self._pool.only(rows).blocks(self._chunk_size)
            ]
        return torch.cat(parts, dim=1)

    def _check_last_row_alone(self, draws: Any) -> None:
        """A mask for each row of a batch, say, would go with the row's place in it, whatever the seed."""
        last = draws.shape[1] - 1
        alone = self._predict(self._pool.take(np.array([last])), 1)
        row = self._pool.positions(np.array([last]))[0]
        check_same_functions(draws[:, last:], alone, f"row {row} by itself")

    def _make_room(self, draws: Tensor) -> None:
        n_draws, n_rows, n_classes = self.shape
        bytes_per_row = n_draws * n_classes * draws.element_size()
        n_kept = min(n_rows, max(_MIN_ROWS, _MAX_BYTES // bytes_per_row))
        self._store = torch.empty((n_draws, n_kept, n_classes), dtype=draws.dtype, device=draws.device)
        self._row_at = np.empty(n_kept, dtype=np.int64)

    def _put(self, places: Indices, rows: Indices, draws: Tensor) -> None:
        self._row_at[places], self._place_of[rows] = rows, places
        self._store[:, self._on_device(places)] = draws.to(self._store)

    def _on_device(self, places: Indices) -> Tensor:
        return torch.from_numpy(places).to(self._store.device)


def as_tensor(draws: Any) -> Tensor:
    """A tensor as it is, but for its gradient; an array in a dtype that torch knows."""
    if isinstance(draws, Tensor):
        return draws.detach()
    draws = np.asarray(draws)
    dtype = np.float32 if draws.dtype == np.float32 else np.float64
    return torch.from_numpy(np.require(draws, dtype, ["C", "W"]))
