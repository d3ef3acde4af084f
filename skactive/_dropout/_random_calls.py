"""Torch's random functions in a forward pass, and modes that answer them.

`RandomCalls` catches dropout wherever a net calls it: layers, functions, the functions below them, the dropout inside
of attention and recurrent layers, randomised leaky ReLUs. Its two kinds give the random numbers: in `_masks.Pass` they
are the same for all rows of a draw, in `_own_random.OwnRandom` new for each element, in training.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode

from ._inner import ANSWERS

ELEMENTWISE: set[Any] = {F.dropout, F.alpha_dropout}
CHANNELWISE: set[Any] = {F.dropout1d, F.dropout2d, F.dropout3d, F.feature_alpha_dropout}
DROPOUTS = ELEMENTWISE | CHANNELWISE
ALPHA: set[Any] = {F.alpha_dropout, F.feature_alpha_dropout}

# What a dropped unit of a self-normalising net is set to: -scale * alpha of SELU (Klambauer et al., 2017).
_ALPHA_DROPPED = -1.7580993408473766
_WITHOUT_ROWS = {F.dropout1d: 2, F.dropout3d: 4}  # as many axes are taken for a single row, whose channels come first
_BELOW: dict[Any, Any] = {  # functions below those, which modules may call directly
    torch.dropout: F.dropout,
    torch.alpha_dropout: F.alpha_dropout,
    torch.feature_dropout: F.dropout2d,
    torch.feature_alpha_dropout: F.feature_alpha_dropout,
    torch.dropout_: F.dropout,
    torch.alpha_dropout_: F.alpha_dropout,
    torch.feature_dropout_: F.dropout2d,
    torch.feature_alpha_dropout_: F.feature_alpha_dropout,
}
_SLOPES: set[Any] = {F.rrelu, torch.rrelu, torch.rrelu_}  # random in training only
_SLOPED = ("input", "lower", "upper", "training", "inplace")


class RandomCalls(TorchFunctionMode):
    """Answers dropout and its kin; thread-local, as all torch function modes are."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func in _BELOW:
            kwargs = {**kwargs, "inplace": True} if func.__name__.endswith("_") else kwargs
            func = _BELOW[func]
        if func in DROPOUTS:
            return self.dropout(func, *args, **kwargs)
        if func in ANSWERS:
            return ANSWERS[func](self, *args, **kwargs)
        if func in _SLOPES:
            return self._sloped(func, args, kwargs)
        return self.other(func, args, kwargs)

    @abstractmethod
    def other(self, func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
        """Answer any other function of torch."""

    @abstractmethod
    def rate(self, p: float, training: bool = True) -> float:
        """The rate to apply where a call asks for ``p``."""

    @abstractmethod
    def kept(self, x: Tensor, shape: tuple[int, ...], p: float, is_alpha: bool) -> Tensor | None:
        """Zeros and ones of x's type, to be multiplied with it, drawn in this shape; None to drop nothing."""

    @abstractmethod
    def slopes(self, x: Tensor) -> Tensor:
        """Numbers between 0 and 1, one for each of x."""

    def changes(self, asked: bool) -> bool:
        """Whether a call in place changes its input."""
        return asked

    def drop(self, x: Tensor, p: float) -> Tensor:
        """What is left of x at a rate above 0."""
        return self._left(x, tuple(x.shape), p, is_alpha=False)

    def drop_steps(self, x: Tensor, p: float, n_rows: Tensor) -> Tensor:
        """The same for packed sequences, (steps of all rows, units), which have ``n_rows`` left at each step."""
        return self.drop(x, p)

    def dropout(
        self,
        func: Any,
        input: Tensor,
        p: float = 0.5,
        training: bool = False,
        inplace: bool = False,
        train: bool = False,
    ) -> Tensor:
        """Answer a dropout function."""
        if self.rate(p, training or train) == 0:
            return input
        left = self._left(input, _noise_shape(func, input), p, func in ALPHA)
        return input.copy_(left) if self.changes(inplace) else left

    def _left(self, x: Tensor, shape: tuple[int, ...], p: float, is_alpha: bool) -> Tensor:
        kept = self.kept(x, shape, p, is_alpha)
        if kept is None:
            return x
        if not is_alpha:
            return x * (kept.div_(1 - p) if p < 1 else kept)
        if p == 1:
            return torch.zeros_like(x)
        scale = ((1 - p) * (1 + p * _ALPHA_DROPPED**2)) ** -0.5  # restores mean and variance
        return torch.where(kept > 0, x, _ALPHA_DROPPED) * scale - scale * p * _ALPHA_DROPPED

    def _sloped(self, func: Any, args: Any, kwargs: dict[str, Any]) -> Tensor:
        """A leaky ReLU whose slopes are drawn in training."""
        given = {"lower": 1 / 8, "upper": 1 / 3, **dict(zip(_SLOPED, args, strict=False)), **kwargs}
        if not given.get("training"):
            return func(*args, **kwargs)
        x, lower, upper = given["input"], given["lower"], given["upper"]
        slopes = self.slopes(x) * (upper - lower) + lower
        sloped = torch.where(x < 0, x * slopes.to(x.dtype), x)
        return x.copy_(sloped) if self.changes(given.get("inplace") is True or func is torch.rrelu_) else sloped


def _noise_shape(function: Any, x: Tensor) -> tuple[int, ...]:
    """The shape of the mask that a dropout function draws for x."""
    shape = tuple(x.shape)
    if function not in CHANNELWISE:
        return shape
    n_first = 1 if x.ndim == _WITHOUT_ROWS.get(function) else 2
    return shape[:n_first] + (1,) * (x.ndim - n_first)
