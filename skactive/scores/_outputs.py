"""Rows with several outputs: labels, targets, pixels, tokens. Each output is a point of its own, and is scored as ever.

Outputs stand behind the other axes of draws: (n_draws, n_points, n_classes, *outputs), or (n_draws, n_points, *outputs)
of numbers. They are folded into the points and back here, for every score, and a row's score is made of theirs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from .._utils.devices import best_float
from .._utils.types import Indices, Reduce
from .._utils.validation import AXES, DrawsError, as_array, check_scores, plain_array
from ._arithmetic import device_of, fold

_TILE_ELEMENTS = 2**20  # 8 MiB of float64, where rows, or the outputs of one that count, have to be copied


def score_outputs(score: Callable[..., Any], draws: Any, kind: str, side: Mapping[str, Any], mask: Any = None) -> Any:
    """Scores of all outputs, (n_points, *outputs), by a score of points; NaN where the mask is False."""
    n_axes, shape = AXES[kind], tuple(draws.shape)
    if "target_draws" in side:
        raise ValueError(
            '`draws` must be of one output for "epig", which does not say which outputs matter at which targets. Got '
            f'shape {shape}. Use "bald", or a model of one output.'
        )
    of_all = (shape[1], *shape[n_axes:])
    side = {name: _of_outputs(name, value, of_all) for name, value in side.items()}
    flat = draws.reshape(*shape[:n_axes], int(np.prod(of_all[1:])))
    counts = None if mask is None else check_mask(mask, of_all).reshape(shape[1], -1)
    device = device_of(draws)
    scores = torch.full((shape[1], flat.shape[-1]), torch.nan, dtype=best_float(device), device=device)
    step = max(1, _TILE_ELEMENTS * shape[1] // max(1, int(np.prod(shape))))
    for start in range(0, shape[1], step):
        rows = slice(start, start + step)
        points, found = _as_points(flat[:, rows], n_axes), scores[rows].view(-1)  # to be filled in
        of_rows = {name: value[rows].ravel() for name, value in side.items()}
        parts: list[Any] = [slice(None)]  # of one row a view
        if counts is not None:
            parts = np.array_split(np.flatnonzero(counts[rows]), max(1, int(np.prod(points.shape)) // _TILE_ELEMENTS))
        for part in parts:
            of_part = {name: value[part] for name, value in of_rows.items()}
            with _outputs_named(start, np.arange(len(found))[part], of_all):
                found[part] = torch.as_tensor(score(points[:, part], **of_part), dtype=scores.dtype, device=device)
    scores = scores.reshape(of_all)
    return scores if isinstance(draws, Tensor) else scores.numpy()


def reduce_outputs(scores: Any, reduce: Reduce, mask: Any = None) -> Any:
    """Scores of rows (n_points,) from those of their outputs (n_points, *outputs), where the mask is True."""
    if callable(reduce):
        values = as_array(scores)
        return check_scores(reduce(values.reshape(len(values), -1)), "reduce", minus_inf=True)
    of_rows = torch.as_tensor(scores, device=device_of(scores)).reshape(len(scores), -1)
    counts = torch.ones_like(of_rows, dtype=torch.bool)
    if mask is not None:
        counts = torch.as_tensor(check_mask(mask, tuple(scores.shape)), device=of_rows.device).reshape(of_rows.shape)
    if reduce == "max":
        reduced = torch.where(counts, of_rows, -torch.inf).amax(1)
    else:  # elements are added up, so that a row's score does not depend on the rows beside it
        reduced = fold(torch.where(counts, of_rows, 0.0).T)
    reduced = reduced / counts.sum(1) if reduce == "mean" else reduced
    return reduced if isinstance(scores, Tensor) else reduced.numpy()


def check_mask(mask: Any, shape: tuple[int, ...]) -> NDArray[np.bool_]:
    """The outputs that count, one or more in each row."""
    counts = as_array(plain_array("mask", mask))
    if counts.shape != shape or not np.isin(counts, (0, 1)).all():
        got = f"shape {counts.shape}" if counts.shape != shape else f"numbers up to {counts.max()}"
        raise ValueError(
            f"`mask` must have shape {shape}, True for each output of each row that counts. Got {got} instead."
        )
    counts = counts.astype(bool)
    empty = np.flatnonzero(~counts.reshape(len(counts), -1).any(axis=1))
    if len(empty):
        raise ValueError(
            f"`mask` must leave one output or more in each row. Got none in row {empty[0]}, and {len(empty)} such rows "
            "in all. Leave these rows out of the pool."
        )
    return counts


def _as_points(part: Any, n_axes: int) -> Any:
    """(n_draws, n_rows, n_classes, n_outputs) as (n_draws, n_rows * n_outputs, n_classes), or numbers likewise."""
    part = part.swapaxes(2, 3) if n_axes == AXES["classes"] else part
    return part.reshape(len(part), part.shape[1] * part.shape[2], *part.shape[3:])


def _of_outputs(name: str, value: Any, shape: tuple[int, ...]) -> NDArray[Any]:
    """What a score asks for, as one number for each output (n_points, n_outputs)."""
    values = as_array(plain_array(name, value))
    if values.shape not in ((), (1,), shape[1:], shape):
        raise ValueError(
            f"`{name}` must be a number, or have shape {shape[1:]} or {shape}, for each output. Got {values.shape}."
        )
    return np.broadcast_to(values, shape).reshape(shape[0], -1)


@contextmanager
def _outputs_named(first: int, which: Indices, shape: tuple[int, ...]) -> Iterator[None]:
    """Say which row a point was, and which of its outputs, where a score refuses the draws of a point."""
    try:
        yield
    except DrawsError as error:
        row, *output = np.unravel_index(which[error.number], shape)
        raise error.at(f"point {first + row}, output {tuple(map(int, output))}") from None
