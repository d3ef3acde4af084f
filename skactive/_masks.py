"""Fixed dropout masks: one a draw, shared by every row.

A posterior draw of MC dropout (Gal and Ghahramani, 2016) is a *function*: one mask for the whole network, the same
for all rows. torch samples a mask a row instead, from the global generator. Here every call of a dropout function
during a forward pass is answered by a mask of our own, drawn once from the caller's ``rng``: `torch.nn` layers, plain
``F.dropout`` calls and the dropout inside of attention and recurrent layers alike, without touching the module.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode

from . import _validation as validation
from ._inner_dropout import ANSWERS

ELEMENTWISE: set[Any] = {F.dropout, F.alpha_dropout}
CHANNELWISE: set[Any] = {F.dropout1d, F.dropout2d, F.dropout3d, F.feature_alpha_dropout}
ALPHA: set[Any] = {F.alpha_dropout, F.feature_alpha_dropout}
# What a dropped unit of a self-normalising net is set to: -scale * alpha of SELU (Klambauer et al., 2017).
ALPHA_DROPPED = -1.7580993408473766

_BELOW: dict[Any, Any] = {  # what those functions call, for modules that call it themselves
    torch.dropout: F.dropout,
    torch.alpha_dropout: F.alpha_dropout,
    torch.feature_dropout: F.dropout2d,
    torch.feature_alpha_dropout: F.feature_alpha_dropout,
}
_RANDOM: set[Any] = {
    *(torch.bernoulli, torch.multinomial, torch.normal, torch.poisson, torch.rand, torch.rand_like, torch.randn),
    *(torch.randn_like, Tensor.bernoulli, Tensor.bernoulli_, Tensor.normal_, Tensor.uniform_, F.gumbel_softmax),
}


@dataclass
class Mask:
    """The masks of all draws at one dropout call."""

    kept: Tensor  # (n_draws, 1, ...), bool: one mask for all rows
    p: float
    is_alpha: bool

    @property
    def is_of_units(self) -> bool:
        """Whether units (on the axis behind the rows) are dropped as a whole, and to zero."""
        return not self.is_alpha and self.kept.ndim > 2 and self.kept[0].numel() == self.kept.shape[2]

    def apply(self, x: Tensor, draw: int) -> Tensor:
        factor = torch.empty_like(x[:1]).copy_(self.kept[draw])  # in the memory format of x: mixed ones are slow
        if not self.is_alpha:
            return x * (factor.div_(1 - self.p) if self.p < 1 else factor)
        if self.p == 1:
            return torch.zeros_like(x)
        scale = ((1 - self.p) * (1 + self.p * ALPHA_DROPPED**2)) ** -0.5
        shift = -scale * self.p * ALPHA_DROPPED
        return torch.where(factor > 0, x, ALPHA_DROPPED) * scale + shift


class Masks(TorchFunctionMode):
    """Answers every dropout call of a forward pass with the mask of one draw.

    A mask belongs to the position of the call in the forward pass, so that a layer used twice gets two masks.
    """

    def __init__(self, n_draws: int, rng: np.random.Generator) -> None:
        super().__init__()
        self.n_draws = n_draws
        self.made: dict[int, Mask] = {}  # by position of the call
        self.position = 0  # of the next call
        self._entropy = rng.integers(2**63, size=4).tolist()
        self._draw = 0

    def run(self, draw: int, function: Callable[..., Any], *inputs: Any, first: int = 0) -> Any:
        """What the function returns under the masks of a draw; its first dropout call has the position ``first``."""
        self._draw, self.position = draw, first
        with self:
            return function(*inputs)

    def run_all(self, function: Callable[..., Tensor], *inputs: Any, first: int = 0) -> Tensor:
        """The function under the masks of every draw, (n_draws, n_rows, ...)."""
        return torch.stack([self.run(k, function, *inputs, first=first) for k in range(self.n_draws)])

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        func = _BELOW.get(func, func)
        if func in ELEMENTWISE or func in CHANNELWISE:
            return self._dropout(func, *args, **kwargs)
        if func in ANSWERS:
            return ANSWERS[func](partial(self._dropout, F.dropout), *args, **kwargs)
        if func in _RANDOM and kwargs.get("generator") is None:
            raise validation.random_module_error(func.__name__)
        return func(*args, **kwargs)

    def _dropout(
        self,
        func: Any,
        input: Tensor,
        p: float = 0.5,
        training: bool = False,
        inplace: bool = False,
        train: bool = False,
    ) -> Tensor:
        if p == 0:
            return input
        shape = input.shape[1:2] + (1,) * (input.ndim - 2) if func in CHANNELWISE else input.shape[1:]
        position, self.position = self.position, self.position + 1
        return self._mask(position, tuple(shape), p, func in ALPHA, input.device).apply(input, self._draw)

    def _mask(self, position: int, shape: tuple[int, ...], p: float, is_alpha: bool, device: torch.device) -> Mask:
        if position not in self.made:
            rng = np.random.default_rng([*self._entropy, position])
            uniform = rng.random((self.n_draws, 1, *shape), dtype=np.float32)
            self.made[position] = Mask(torch.from_numpy(uniform >= p).to(device), p, is_alpha)
        mask = self.made[position]
        if mask.kept.shape[2:] != shape:
            raise validation.changing_shape_error(tuple(mask.kept.shape[2:]), shape)
        return mask
