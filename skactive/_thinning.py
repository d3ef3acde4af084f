"""Fixed-mask draws of a torch module: one dropout mask a draw, shared by every row.

A posterior draw of MC dropout (Gal and Ghahramani, 2016) is a *function*: one mask for the whole network, the same
for all rows. torch samples a mask a row instead, from the global generator. Here every call of a dropout function
during a forward pass is answered by a mask of our own, drawn once from the caller's ``rng``: `torch.nn` layers and
plain ``F.dropout`` calls alike, without touching the module.

Rows go through the module in micro-batches that all have the same shape, the last one padded with zeros. In float32
the last bits of a row's output depend on the shape of the batch around it, so this is what makes a row's draws
bit-equal for every chunking of the pool.
"""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode

from . import _validation as validation

MICRO_BATCH = 256
"""Rows in one forward pass. Large enough to keep two cores busy, small enough that one row is answered at once."""

_ELEMENTWISE: set[Any] = {F.dropout, F.alpha_dropout}
_CHANNELWISE: set[Any] = {F.dropout1d, F.dropout2d, F.dropout3d, F.feature_alpha_dropout}
_ALPHA: set[Any] = {F.alpha_dropout, F.feature_alpha_dropout}
# What a dropped unit of a self-normalising net is set to: -scale * alpha of SELU (Klambauer et al., 2017).
_ALPHA_DROPPED = -1.7580993408473766


def fixed_mask_draws(
    module: nn.Module,
    n_draws: int,
    rng: np.random.Generator,
    batch_size: int = MICRO_BATCH,
    forward: Callable[[nn.Module, Tensor], Tensor] | None = None,
) -> Callable[[Tensor], Tensor]:
    """Draw ``n_draws`` functions from a module with dropout.

    Parameters
    ----------
    module : torch.nn.Module
        Fitted module; a copy of it in evaluation mode is what runs, so its mode, statistics, gradients and later
        training are left alone.
    n_draws : int
    rng : numpy.random.Generator
        Source of the masks; the same masks on every device.
    batch_size : int
        Rows in one forward pass.
    forward : callable, optional
        ``forward(module, x)`` evaluates the module on a batch; by default ``module(x)``.

    Returns
    -------
    callable
        ``f(x)`` with ``x`` of shape (n_points, ...) returns a tensor of shape (n_draws, n_points, ...): the same
        functions at every call.
    """
    frozen = _frozen(module)
    masks = _Masks(n_draws, rng)

    evaluate = functools.partial(forward or nn.Module.__call__, frozen)

    def all_draws(x: Tensor) -> Tensor:
        return torch.stack([masks.answer(evaluate, x, k) for k in range(n_draws)])

    return functools.partial(forward_rows, all_draws, batch_size=batch_size, axis=1)


def forward_rows(function: Callable[[Tensor], Tensor], x: Tensor, batch_size: int = MICRO_BATCH, axis: int = 0) -> Tensor:
    """Apply ``function`` to micro-batches of exactly ``batch_size`` rows and join the results along ``axis``."""
    with torch.no_grad():
        parts = [function(batch).narrow(axis, 0, n) for batch, n in _padded(x, batch_size)]
    return parts[0] if len(parts) == 1 else torch.cat(parts, dim=axis)


def has_dropout(module: nn.Module) -> bool:
    """Whether the module has a dropout layer with a rate above zero."""
    layers = [m for m in module.modules() if isinstance(m, nn.modules.dropout._DropoutNd)]
    return any(layer.p > 0 for layer in layers)


def _frozen(module: nn.Module) -> nn.Module:
    frozen = copy.deepcopy(module).eval()
    for parameter in frozen.parameters():
        parameter.grad = None
    return frozen.requires_grad_(False)


def _padded(x: Tensor, batch_size: int) -> Iterator[tuple[Tensor, int]]:
    """Batches of ``batch_size`` rows and how many of them are real; at least one batch."""
    for start in range(0, max(len(x), 1), batch_size):
        batch = x[start : start + batch_size]
        n = len(batch)
        if n < batch_size:
            batch = torch.cat([batch, batch.new_zeros((batch_size - n, *batch.shape[1:]))])
        yield batch, n


class _Masks(TorchFunctionMode):
    """Answers every dropout call of a forward pass with the mask of the current draw.

    A mask belongs to the position of the call in the forward pass, so that a layer used twice gets two masks.
    """

    def __init__(self, n_draws: int, rng: np.random.Generator) -> None:
        super().__init__()
        self._n_draws = n_draws
        self._entropy = rng.integers(2**63, size=4).tolist()
        self._kept: dict[int, Tensor] = {}  # position of the call -> (n_draws, 1, ...)
        self._draw = self._call = 0

    def answer(self, evaluate: Callable[[Tensor], Tensor], x: Tensor, draw: int) -> Tensor:
        self._draw, self._call = draw, 0
        with self:
            outputs = evaluate(x)
        if self._call == 0:
            raise validation.no_dropout_error()
        return outputs

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func not in _ELEMENTWISE and func not in _CHANNELWISE:
            return func(*args, **kwargs)
        return self._dropout(func, *args, **kwargs)

    def _dropout(self, func: Any, input: Tensor, p: float = 0.5, training: bool = False, inplace: bool = False) -> Tensor:
        if p == 0:
            return input
        shape = input.shape[1:2] + (1,) * (input.ndim - 2) if func in _CHANNELWISE else input.shape[1:]
        kept = self._mask(shape, p).to(input.device)
        if func not in _ALPHA:
            return input * (kept / (1 - p) if p < 1 else kept).to(input.dtype)
        if p == 1:
            return torch.zeros_like(input)
        scale = ((1 - p) * (1 + p * _ALPHA_DROPPED**2)) ** -0.5
        shift = -scale * p * _ALPHA_DROPPED
        return torch.where(kept, input, input.new_tensor(_ALPHA_DROPPED)) * scale + shift

    def _mask(self, shape: tuple[int, ...], p: float) -> Tensor:
        """Which units the current draw keeps at this call, shape (1, ...)."""
        position, self._call = self._call, self._call + 1
        if position not in self._kept:
            rng = np.random.default_rng([*self._entropy, position])
            uniform = rng.random((self._n_draws, 1, *shape), dtype=np.float32)
            self._kept[position] = torch.from_numpy(uniform >= p)
        kept = self._kept[position][self._draw]
        if kept.shape[1:] != shape:
            raise validation.changing_shape_error(tuple(kept.shape[1:]), tuple(shape))
        return kept
