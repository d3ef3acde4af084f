"""What scores may ask for besides draws, by keyword: how each is checked, and which part of it a block of points gets.

A score asks by the name of a keyword-only parameter. What a query can give stands in `skactive.query`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from .._checks import not_binary_error, real_array, weights_error
from .._devices import best_float
from ._blocks import blocks, device_of

Part = Callable[[slice], Tensor]
Reader = Callable[[str, Any, Any], Part]  # (name, value, draws) -> part of a block


def _by_point(check: Callable[[str, Tensor, Any], None], *, booleans: bool = False) -> Reader:
    """Numbers with points on the last axis, cut into blocks along with the draws."""

    def read(name: str, value: Any, draws: Any) -> Part:
        tensor = _tensor(name, value, draws, booleans=booleans)
        check(name, tensor, draws.shape[:2])
        tensor = tensor.expand(*tensor.shape[:-1], draws.shape[1])
        return lambda points: tensor[..., points]

    return read


def _whole(prepare: Callable[[str, Any, Any], Tensor]) -> Reader:
    """Something that is not about the points, but the same for every block."""

    def read(name: str, value: Any, draws: Any) -> Part:
        tensor = prepare(name, value, draws)
        return lambda points: tensor

    return read


def _tensor(name: str, value: Any, draws: Any, *, booleans: bool) -> Tensor:
    """Real numbers in any array or tensor; one that torch cannot share, as it is read-only, say, is copied."""
    value = real_array(name, value, booleans=booleans)
    if not isinstance(value, Tensor):
        value = torch.from_numpy(np.require(value, np.float64, ["C_CONTIGUOUS", "WRITEABLE"]))
    device = device_of(draws)
    return value.to(device, best_float(device))


def _check_positive(name: str, value: Tensor, shape: Any) -> None:
    n_draws, n_points = shape
    if tuple(value.shape) not in [(), (1,), (n_points,), (n_draws, n_points)]:
        raise ValueError(
            f"`{name}` must be a number, or have shape ({n_points},) or ({n_draws}, {n_points}) as the draws. "
            f"Got shape {tuple(value.shape)} instead."
        )
    if not bool(((value > 0) & (value < float("inf"))).all()):
        raise ValueError(f"`{name}` must be positive and finite. Got {value.min().item()} as the smallest.")


def _check_binary(name: str, value: Tensor, shape: Any) -> None:
    _check_one_a_point(name, value, shape)
    if not bool(((value == 0) | (value == 1)).all()):
        raise not_binary_error(value[(value != 0) & (value != 1)][0].item())


def _check_propensity(name: str, value: Tensor, shape: Any) -> None:
    _check_one_a_point(name, value, shape)
    possible = (value > 0) & (value < 1)
    if not bool(possible.all()):
        raise ValueError(
            f"`{name}` must be above 0 and below 1: an effect can be known only where both treatments can happen. Got "
            f"{value[~possible][0].item()}. Leave such rows out, or give `propensity` a classifier "
            "that is less sure: calibrated, regularised, a forest of larger leaves."
        )


def _check_one_a_point(name: str, value: Tensor, shape: Any) -> None:
    if tuple(value.shape) != (shape[1],):
        raise ValueError(
            f"`{name}` must have shape ({shape[1]},), one number a point. Got shape {tuple(value.shape)} instead."
        )


def _target_draws(name: str, value: Any, draws: Any) -> Tensor:
    """Draws at targets as one block (K, C, T)."""
    value = real_array(name, value, objects=False)
    shape, wanted = tuple(value.shape), (draws.shape[0], draws.shape[2])
    if len(shape) != 3 or (shape[0], shape[2]) != wanted or shape[1] == 0:
        raise ValueError(
            f"`{name}` must have shape ({wanted[0]}, n_targets, {wanted[1]}), with one target or more: the same "
            f"draws and classes as `draws`. Got shape {shape} instead."
        )
    device = device_of(draws)
    return torch.cat([block for block, _ in blocks(value, name=name)], dim=2).to(device, best_float(device))


def _target_weights(name: str, value: Any, draws: Any) -> Tensor:
    """Weights (T,) that sum to 1."""
    weights_T = _tensor(name, value, draws, booleans=True)
    if weights_T.ndim != 1 or not len(weights_T):
        raise ValueError(f"`{name}` must have shape (n_targets,). Got shape {tuple(weights_T.shape)} instead.")
    if not bool(((weights_T >= 0) & (weights_T < float("inf"))).all()) or not bool(weights_T.sum() > 0):
        raise weights_error(name, str(weights_T.min().item()) + " as the smallest")
    if weights_T.sum().isinf():  # finite weights can have a sum that is not
        weights_T = weights_T / weights_T.max()
    return weights_T / weights_T.sum()


SIDE_INFORMATION: dict[str, Reader] = {
    "noise_variance": _by_point(_check_positive),
    "propensity": _by_point(_check_propensity),
    "target_draws": _whole(_target_draws),
    "target_weights": _whole(_target_weights),
    "treatment": _by_point(_check_binary, booleans=True),
}
"""Each keyword with a function ``(name, value, draws)`` that checks its value and returns ``part(points)``."""
