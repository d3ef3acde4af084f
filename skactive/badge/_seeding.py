"""k-means++ seeding of factored points: exact, and with few passes over them.

Each new centre is a point drawn with probability proportional to its squared distance from the nearest centre so far
(Arthur and Vassilvitskii, 2007). Points are outer products ``g = a ⊗ h``, known by their factors alone, with
``|g - g'|² = |a|²|h|² + |a'|²|h'|² - 2 (a·a')(h·h')``.

Distances only shrink as centres are added. So one may draw from weights that are out of date, which are bounds, and
accept a point with the ratio of its distance now to its weight: that has exactly the law wanted, and takes distances of
the few points proposed alone. The first weights follow from the norms. They are brought up to date, by one matrix
product with all centres that are new since, once rejections cost more than that. All arithmetic is in float64, in
blocks, whatever the factors are stored in.

Letters: N points, m of them, c centres; C and D lengths of the factors.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse
from torch import Tensor

from .._checks import sum_tolerance
from .._devices import best_float
from ._checks import check_finite, check_rows_of_probabilities

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]

_PROPOSALS = 64  # at once: enough to hide what a call costs, few enough that their mutual distances cost little
_BLOCK_ELEMENTS = 2**17  # 1 MiB of float64
_EPS = np.finfo(np.float64).eps


@dataclass(frozen=True)
class Points:
    """Some points: factors (m, C) and (m, D), and squared norms (m,)."""

    a: Tensor
    h: Tensor
    squared_norms: Tensor

    def joined(self, other: Points, rows: list[int]) -> Points:
        """These points, and some rows of other ones."""
        parts = zip((self.a, self.h, self.squared_norms), (other.a, other.h, other.squared_norms), strict=True)
        return Points(*(torch.cat([mine, theirs[rows]]) for mine, theirs in parts))

    def squared_distances(self, centres: Points) -> Tensor:
        """Squared distances (m, c). What rounding may have made of 0 is 0, so that equal points are no distance apart.

        A dot product of n numbers is off by n eps / 2 of the product of the norms at most (Higham, 2002, sec. 3.1).
        """
        sums = self.squared_norms[:, None] + centres.squared_norms
        distances = sums - 2 * (self.a @ centres.a.T) * (self.h @ centres.h.T)
        rounding = (self.a.shape[1] + self.h.shape[1] + 8) * torch.finfo(sums.dtype).eps
        return distances.masked_fill_(distances <= rounding * sums, 0.0)


class FactoredPoints:
    """All points: gradients of a last layer by predicted probabilities (N, C) and what enters the layer (N, D).

    ``a`` is the row of probabilities minus 1 at the most probable class, the first of these. Neither array is copied:
    arrays, memory maps, tensors on any device, sparse CSR and dask arrays are read a block or a few rows at a time.

    ``h`` and ``squared_norms`` are in a unit of length, ``scale``, which is 1 unless the squares of embeddings would be
    too small or too large for float64.
    """

    def __init__(self, probabilities: Any, embeddings: Any) -> None:
        self._probabilities, self._embeddings = probabilities, embeddings
        self.scale = 1.0
        self.squared_norms = self._measured()
        if not 1e-200 < self.squared_norms.max(initial=0.0) < 1e200:  # or NaN
            self.scale = self._power_of_two()
            self.squared_norms = self._measured()

    def _measured(self) -> Floats:
        squared_norms = np.empty(len(self))
        tolerance = sum_tolerance(self._probabilities)
        for rows in self.blocks():
            h = self._scaled(rows)
            p = _float64(self._probabilities[rows]).to(h)
            check_rows_of_probabilities(p, rows.start, tolerance)
            squares = _minus_one_at_largest(p).square_().sum(1) * h.square_().sum(1)
            squared_norms[rows] = squares.cpu()
        return squared_norms

    def _power_of_two(self) -> float:
        """Just below the largest absolute number: a unit in which nothing is rounded."""
        largest = float(np.finfo(np.float64).tiny)
        for rows in self.blocks():
            h = _float64(self._embeddings[rows])
            check_finite(h, rows.start)
            largest = max(largest, h.abs_().amax().item())
        return math.ldexp(0.5, math.frexp(largest)[1])

    def _scaled(self, rows: slice | Indices) -> Tensor:
        h = _float64(self._embeddings[rows])
        return h if self.scale == 1 else h.div_(self.scale)

    def __len__(self) -> int:
        return int(self._probabilities.shape[0])

    def __getitem__(self, rows: slice | Indices) -> Points:
        h = self._scaled(rows)
        p = _float64(self._probabilities[rows]).to(h)
        return Points(_minus_one_at_largest(p), h, torch.from_numpy(self.squared_norms[rows]).to(h))

    def blocks(self) -> Iterator[slice]:
        step = max(1, _BLOCK_ELEMENTS // (self._probabilities.shape[1] + self._embeddings.shape[1]))
        return (slice(start, min(start + step, len(self))) for start in range(0, len(self), step))


def seed(points: FactoredPoints, k: int, rng: np.random.Generator) -> Indices:
    """Choose up to k distinct points: one of largest norm, then by k-means++ while a point is in a place of its own."""
    norms = points.squared_norms
    if not norms.any():
        return np.empty(0, dtype=np.int64)
    centres = rng.choice(np.flatnonzero(norms >= norms.max() * (1 - 8 * _EPS)), 1)
    law = _StaleLaw(points, centres)
    while len(centres) < k and law.total > 0:
        centres = np.concatenate([centres, law.draw(k - len(centres), rng)])
    return centres


class _StaleLaw:
    """Weights that are no less than squared distances from the nearest centre, and the centres they do not know of."""

    def __init__(self, points: FactoredPoints, first: Indices) -> None:
        self._points = points
        self._unknown = points[first]
        norms_N = np.sqrt(points.squared_norms)
        self._weights_N = (norms_N + norms_N[first]) ** 2
        self._renew()

    @property
    def total(self) -> float:
        return float(self._cumulative_N[-1])

    def draw(self, n_wanted: int, rng: np.random.Generator) -> Indices:
        """Some new centres, perhaps none."""
        drawn = np.searchsorted(self._cumulative_N, rng.random(_PROPOSALS) * self.total, side="right")
        rows_m = np.minimum(drawn, len(self._points) - 1)  # rounding may reach the total
        proposed = self._points[rows_m]
        weights_m = self._weights_N[rows_m]
        now_m = np.minimum(weights_m, _nearest(proposed, self._unknown))
        accepted = _accept(rng.random(_PROPOSALS) * weights_m, now_m, proposed, n_wanted)
        work = len(self._unknown.a) + _PROPOSALS
        self._unknown = self._unknown.joined(proposed, accepted)
        self._wasted += work * (_PROPOSALS - len(accepted))
        if len(accepted) < n_wanted:
            self._update_if_worth_it(len(accepted), n_wanted - len(accepted))
        return rows_m[accepted]

    def _update_if_worth_it(self, n_accepted: int, n_left: int) -> None:
        """Compare, in products of a point and a centre, an update and what more rejections would take.

        What has been wasted bounds a forecast that is too rosy: in the end no more than twice the best is spent.
        """
        n_unknown = len(self._unknown.a)
        rejected = n_left * (_PROPOSALS / max(n_accepted, 1) - 1)
        ahead = rejected * (n_unknown + n_left / 2 + _PROPOSALS)
        if max(ahead, self._wasted) > len(self._points) * n_unknown:
            self._update()

    def _update(self) -> None:
        for rows in self._points.blocks():
            nearest = _nearest(self._points[rows], self._unknown)
            np.minimum(self._weights_N[rows], nearest, out=self._weights_N[rows])
        self._unknown = self._points[np.empty(0, dtype=np.int64)]
        self._renew()

    def _renew(self) -> None:
        self._cumulative_N = self._weights_N.cumsum()
        self._wasted = 0


def _accept(levels_m: Floats, now_m: Floats, proposed: Points, n_wanted: int) -> list[int]:
    """Proposals, in order, whose squared distance from the nearest centre, those just accepted included, is higher."""
    between_mm = proposed.squared_distances(proposed).cpu().numpy()
    accepted: list[int] = []
    for i, level in enumerate(levels_m):
        if level < now_m[i]:
            accepted.append(i)
            now_m = np.minimum(now_m, between_mm[i])
            if len(accepted) == n_wanted:
                break
    return accepted


def _nearest(points: Points, centres: Points) -> Floats:
    """Squared distance of each point from the nearest centre, infinite if there is none."""
    if len(centres.a) == 0:
        return np.full(len(points.a), np.inf)
    return points.squared_distances(centres).amin(1).cpu().numpy()


def _minus_one_at_largest(p: Tensor) -> Tensor:
    """In place: gradients of the cross-entropy by the logits, if the label is the most probable class."""
    rows = torch.arange(len(p), device=p.device)
    p[rows, p.argmax(1)] -= 1
    return p


def _float64(part: Any) -> Tensor:
    """A copy, as a tensor on the device where the part is, in float64 or what the device has."""
    if isinstance(part, Tensor):
        return part.detach().to(best_float(part.device), copy=True)
    part = part.toarray() if sparse.issparse(part) else part
    return torch.from_numpy(np.array(part, dtype=np.float64, order="C"))
