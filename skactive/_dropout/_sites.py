"""The random calls of a net: the numbers that each takes for one row, and the axis of the rows.

A call belongs to its position in the pass, so that a layer used twice gets two masks. Its `Site` says which numbers it
takes for one row, as a pass over a single row shows. In a pass over n rows the axis that is n times as long is that of
the rows, wherever it stands; where none is longer (dropout of weights, for example), all rows share the numbers of one
row. A single row may have any shape: its calls get the same numbers every time.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from .._checks import NetError
from .._threads import Lock
from ._noise import Noise

_MAX_KEPT = 64 * 2**20  # booleans of masks that are kept for the next rows; further ones are made again

ROW_BY_ROW = "`predict_batch_size`=1 draws row by row, which is always right"


@dataclass(frozen=True)
class Site:
    """The random numbers that a call takes for a single row."""

    law: str  # "dropout", "uniform", "normal" or "bernoulli"
    shape: tuple[int, ...]
    p: float = 0.0  # probability of being dropped
    is_alpha: bool = False

    @property
    def is_of_units(self) -> bool:
        """Whether units (on the axis behind the rows) are dropped as a whole, and to zero."""
        shape = self.shape
        is_flat = len(shape) > 1 and shape[0] == 1 and all(length == 1 for length in shape[2:])
        return self.law == "dropout" and not self.is_alpha and is_flat


class Sites:
    """The random calls of a net's forward pass, and the masks of all draws there."""

    def __init__(self, noise: Noise) -> None:
        self.noise = noise
        self.at: list[Site] = []
        self.rows_inside: dict[int, bool] = {}  # by position: do the parts of a row lie side by side?
        self.of_draw: dict[int, list[Site]] = {}  # of draws whose random numbers lead to other calls
        self._kept: dict[tuple[int, int, torch.device, Site], Tensor] = {}
        self._n_kept = 0
        self._lock = Lock()

    def __getstate__(self) -> dict[str, Any]:
        """Without the masks that are kept: they are made again from their seeds."""
        return {**vars(self), "_kept": {}, "_n_kept": 0}

    def of(self, draw: int | None) -> list[Site]:
        """The calls of a draw."""
        return self.at if draw is None else self.of_draw.get(draw, self.at)

    def kept(self, position: int, draw: int, device: torch.device, site: Site | None = None) -> Tensor:
        """Mask of a draw at a dropout call, in the shape of one row."""
        site = self.at[position] if site is None else site
        key = position, draw, device, site
        kept = self._kept.get(key)
        if kept is None:
            kept = self.noise.kept(position, draw, site.shape, site.p, device)
            with self._lock:
                if self._n_kept + kept.numel() <= _MAX_KEPT:
                    self._kept[key] = kept
                    self._n_kept += kept.numel()
        return kept


class OtherCallsError(NetError):
    """A pass makes other random calls than the pass over a single row."""


class PartsError(NetError):
    """The order of the parts of rows at a call is not known yet."""


def axis_of_rows(one: tuple[int, ...], many: tuple[int, ...], n_rows: int) -> int | None:
    """The axis that is ``n_rows`` times as long for many rows as for one; None if the shapes are the same."""
    if one == many:
        return None
    axes = [axis for axis, lengths in enumerate(zip(one, many, strict=False)) if lengths[0] != lengths[1]]
    if len(one) != len(many) or len(axes) != 1 or many[axes[0]] != n_rows * one[axes[0]]:
        raise OtherCallsError(
            "`estimator` must give its dropout rows of one shape, so that one mask fits all of them. A single row had "
            f"the shape {one}, and {n_rows} rows had the shape {many}. Pad rows to one length. {ROW_BY_ROW}."
        )
    return axes[0]


def rows_in_parts(one: tuple[int, ...], many: tuple[int, ...], n_rows: int) -> bool:
    axis = axis_of_rows(one, many, n_rows)
    return axis is not None and one[axis] > 1


def folded_error() -> NetError:
    return NetError(
        "`estimator` folds parts of a row (tokens, windows) into one axis with the rows before its dropout, and the "
        f"given rows do not show in which order. {ROW_BY_ROW}."
    )
