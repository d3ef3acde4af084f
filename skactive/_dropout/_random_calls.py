"""Torch's random functions in a forward pass, answered by a mode of this thread; nothing in the process is patched.

`RandomCalls` catches dropout wherever a net calls it, inside of attention and recurrent layers, too. Its two kinds give
the random numbers: those of a draw (`_dropout_calls.Pass`), and new ones in training (`TrainingRandom`).
"""

from __future__ import annotations

import inspect
import math
from abc import abstractmethod
from collections.abc import Callable
from functools import partial
from types import FunctionType
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode

CHANNELWISE: set[Any] = {F.dropout1d, F.dropout2d, F.dropout3d, F.feature_alpha_dropout}
DROPOUTS: set[Any] = {F.dropout, F.alpha_dropout, *CHANNELWISE}
ALPHA: set[Any] = {F.alpha_dropout, F.feature_alpha_dropout}

# What a dropped unit of a self-normalising net is set to: -scale * alpha of SELU (Klambauer et al., 2017).
_ALPHA_DROPPED = -1.7580993408473766
_WITHOUT_ROWS = {F.dropout1d: 2, F.dropout3d: 4}  # as many axes are taken for a single row, whose channels come first
_BELOW: dict[Any, Any] = {  # functions below those, which modules may call directly
    **dict.fromkeys((torch.dropout, torch.dropout_), F.dropout),
    **dict.fromkeys((torch.alpha_dropout, torch.alpha_dropout_), F.alpha_dropout),
    **dict.fromkeys((torch.feature_dropout, torch.feature_dropout_), F.dropout2d),
    **dict.fromkeys((torch.feature_alpha_dropout, torch.feature_alpha_dropout_), F.feature_alpha_dropout),
}
_SLOPES: set[Any] = {F.rrelu, torch.rrelu, torch.rrelu_}  # random in training only
_SLOPED = ("input", "lower", "upper", "training", "inplace")


class RandomCalls(TorchFunctionMode):
    """Answers dropout and its kin."""

    in_place = True  # whether dropout called with ``inplace=True`` changes its input

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func not in OF_ALL_PASSES:
            return self.other(func, args, kwargs)
        if func in _BELOW:
            kwargs = {**kwargs, "inplace": True} if func.__name__.endswith("_") else kwargs
            func = _BELOW[func]
        if func in DROPOUTS:
            return self._dropout(func, *args, **kwargs)
        if func in _WITH_DROPOUT_INSIDE:
            return _WITH_DROPOUT_INSIDE[func](self, *args, **kwargs)
        return self._sloped(func, args, kwargs)

    @abstractmethod
    def other(self, func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
        """Answer any other function of torch."""

    @abstractmethod
    def rate(self, p: float, training: bool = True) -> float:
        """The rate to apply where a call asks for ``p``."""

    @abstractmethod
    def kept(self, x: Tensor, shape: tuple[int, ...], p: float) -> Tensor:
        """Zeros and ones of x's type, to be multiplied with it, drawn in this shape."""

    def factors(self, x: Tensor, shape: tuple[int, ...], p: float) -> Tensor:
        """What dropout multiplies x by."""
        kept = self.kept(x, shape, p)
        return kept.div_(1 - p) if p < 1 else kept

    def drop(self, x: Tensor, p: float) -> Tensor:
        """What is left of x at a rate above 0."""
        return self._left(x, tuple(x.shape), p, is_alpha=False)

    def drop_steps(self, x: Tensor, p: float, n_rows: Tensor) -> Tensor:
        """The same for packed sequences, (steps of all rows, units), which have ``n_rows`` left at each step."""
        return self.drop(x, p)

    def _dropout(
        self,
        func: Any,
        input: Tensor,
        p: float = 0.5,
        training: bool = False,
        inplace: bool = False,
        train: bool = False,
    ) -> Tensor:
        if self.rate(p, training or train) == 0:
            return input
        left = self._left(input, _noise_shape(func, input), p, func in ALPHA)
        return input.copy_(left) if inplace and self.in_place else left

    def _left(self, x: Tensor, shape: tuple[int, ...], p: float, is_alpha: bool) -> Tensor:
        if not is_alpha:
            return x * self.factors(x, shape, p)
        kept = self.kept(x, shape, p)
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
        slopes = self.other(torch.rand_like, (x,), {}) * (upper - lower) + lower
        sloped = torch.where(x < 0, x * slopes, x)
        is_in_place = given.get("inplace") is True or func is torch.rrelu_
        return x.copy_(sloped) if is_in_place and self.in_place else sloped


def _noise_shape(function: Any, x: Tensor) -> tuple[int, ...]:
    """The shape of the mask that a dropout function draws for x."""
    shape = tuple(x.shape)
    if function not in CHANNELWISE:
        return shape
    n_first = 1 if x.ndim == _WITHOUT_ROWS.get(function) else 2
    return shape[:n_first] + (1,) * (x.ndim - n_first)


# Attention and recurrent layers, which drop weights, or values between two layers, out of sight


_MOST_WEIGHTS = 2**20  # of the rows that attend at once on the CPU: 4 MiB, of which the cache holds most
_MULTI_HEAD = inspect.signature(F.multi_head_attention_forward)


def _attention(
    mode: RandomCalls,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    note: Callable[[Tensor], None] | None = None,
    **options: Any,
) -> Tensor:
    """Torch's own, written out, a few rows at a time: weights of all rows would fill the memory."""
    dropout_p = mode.rate(dropout_p)
    if dropout_p == 0:
        return F.scaled_dot_product_attention(query, key, value, attn_mask, 0.0, is_causal, **options)
    scale, is_grouped = options.get("scale"), options.get("enable_gqa", False)
    query = query * (query.shape[-1] ** -0.5 if scale is None else scale)
    before = query.shape[:-2]
    if not is_grouped and key.shape[:-2] != before:
        before = torch.broadcast_shapes(before, key.shape[:-2])
    shape = (*before, query.shape[-2], key.shape[-2])
    kept = mode.factors(query.new_empty(()).expand(shape), shape, dropout_p)
    bias, sees_none = (None, None) if attn_mask is None else _bias(attn_mask, query, sees_none_gives_0=note is None)
    if is_causal:
        bias = query.new_full(shape[-2:], -math.inf).triu(1)
    n_rows = shape[0] if before else 1
    most = _MOST_WEIGHTS if query.device.type == "cpu" else 64 * _MOST_WEIGHTS  # fixed: so are the sums of a row
    size = max(1, most * n_rows // max(1, math.prod(shape)))
    given: tuple[Any, ...] = query, key, value, bias, kept
    attended = []
    for start in range(0, n_rows, size):
        of_rows = slice(start, start + size)
        q, k, v, b, own = (
            x[of_rows] if x is not None and x.ndim == len(shape) and len(x) == n_rows else x for x in given
        )
        if is_grouped:
            k, v = (x.repeat_interleave(q.shape[-3] // x.shape[-3], -3) for x in (k, v))
        scores = q @ k.mT
        weights = _softmax(scores if b is None else scores + b) * own
        if note is not None:
            note(weights)
        attended.append(weights @ v)
    joined = torch.cat(attended) if len(attended) > 1 else attended[0]
    return joined if sees_none is None else joined.masked_fill(sees_none, 0.0)


def _softmax(scores: Tensor) -> Tensor:
    if scores.shape[-1] >= 16 or scores.dtype.itemsize < 4:
        return scores.softmax(-1)
    weights = (scores - scores.amax(-1, keepdim=True)).exp()  # torch's own takes five times as long for so few keys
    return weights / weights.sum(-1, keepdim=True)


def _bias(mask: Tensor, like: Tensor, sees_none_gives_0: bool) -> tuple[Tensor, Tensor]:
    """What a mask adds to scores, and which queries are to give 0, since they see no key; else softmax gives NaN."""
    is_bool = mask.dtype == torch.bool
    bias = torch.zeros_like(mask, dtype=like.dtype).masked_fill(~mask, -math.inf) if is_bool else mask
    sees_none = bias.eq(-math.inf).all(-1, keepdim=True) & sees_none_gives_0
    return bias.masked_fill(sees_none, 0.0), sees_none


def _multi_head_attention(mode: RandomCalls, *args: Any, **kwargs: Any) -> tuple[Tensor, Tensor | None]:
    """Torch's own function, which calls this mode's attention in place of its own."""
    attend: Any = F.multi_head_attention_forward
    given = _MULTI_HEAD.bind(*args, **kwargs).arguments
    if mode.rate(given["dropout_p"], given.get("training", True)) == 0:
        return attend(**{**given, "dropout_p": 0.0})
    wants, averages = given.get("need_weights", True), given.get("average_attn_weights", True)
    noted: list[Tensor] = []

    def note(weights: Tensor) -> None:  # (n_rows, n_heads, n_queries, n_keys)
        noted.append(weights.mean(1) if averages else weights)

    named = {**vars(F), "scaled_dot_product_attention": partial(_attention, mode, note=note if wants else None)}
    attend = FunctionType(attend.__code__, named, argdefs=attend.__defaults__)
    if not wants:
        return attend(**given)
    # Torch calls that function only where it returns no weights, and trusts the hint of a causal mask there.
    outputs, _ = attend(**{**given, "need_weights": False, "is_causal": False})
    weights = torch.cat(noted)
    return outputs, weights if given["query"].ndim > 2 else weights.squeeze(0)


def _recurrent(function: Any, mode: RandomCalls, *args: Any) -> tuple[Tensor, ...]:
    # Packed sequences pass the number of rows at each step as the second argument, and no `batch_first`.
    is_packed = not isinstance(args[3], bool)
    x, *sizes = args[: 1 + is_packed]
    state, weights, has_biases, n_layers, p, training, bidirectional, *layout = args[1 + is_packed :]
    p = mode.rate(p, training) if n_layers > 1 else 0.0
    if p == 0:
        return function(x, *sizes, state, weights, has_biases, n_layers, 0.0, training, bidirectional, *layout)
    directions, n_weights = 1 + bidirectional, len(weights) // n_layers
    states = []
    for i in range(n_layers):
        if i > 0:
            x = mode.drop_steps(x, p, sizes[0]) if is_packed else mode.drop(x, p)
        own = slice(i * directions, (i + 1) * directions)
        before = state[own] if isinstance(state, Tensor) else tuple(part[own] for part in state)
        layer = weights[i * n_weights : (i + 1) * n_weights]
        x, *after = function(x, *sizes, before, layer, has_biases, 1, 0.0, training, bidirectional, *layout)
        states.append(after)
    return x, *(torch.cat(parts) for parts in zip(*states, strict=True))


_WITH_DROPOUT_INSIDE: dict[Any, Callable[..., Any]] = {
    F.scaled_dot_product_attention: _attention,
    F.multi_head_attention_forward: _multi_head_attention,
    **{function: partial(_recurrent, function) for function in (torch.gru, torch.lstm, torch.rnn_relu, torch.rnn_tanh)},
}
OF_ALL_PASSES: set[Any] = {*_BELOW, *DROPOUTS, *_SLOPES, *_WITH_DROPOUT_INSIDE}


# Training

_FUNCTIONS = ("bernoulli", "multinomial", "normal", "poisson", "rand", "randint", "randn", "randperm")
_IN_PLACE = ("bernoulli_", "cauchy_", "exponential_", "geometric_", "log_normal_", "normal_", "random_", "uniform_")
TAKES_GENERATOR: set[Any] = {
    *(getattr(torch, name) for name in _FUNCTIONS),
    *(getattr(Tensor, name) for name in ("bernoulli", "multinomial", *_IN_PLACE)),
    *(getattr(nn.init, name) for name in ("kaiming_uniform_", "normal_", "uniform_")),
}
_LIKE: dict[Any, Any] = {torch.rand_like: Tensor.uniform_, torch.randn_like: Tensor.normal_}


class TrainingRandom(RandomCalls):
    """While it is active, torch draws new weights, dropout and noise from its generators, one for each device."""

    def __init__(self, rng: np.random.Generator) -> None:
        super().__init__()
        self._seed = int(rng.integers(2**63))
        self._generators: dict[torch.device, torch.Generator] = {}

    def other(self, func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
        """Give a generator to the other random functions, and run the rest."""
        if func in _LIKE:
            func, args, kwargs = _LIKE[func], (torch.empty_like(*args, **kwargs),), {}
        if func in TAKES_GENERATOR and kwargs.get("generator") is None:
            kwargs = {**kwargs, "generator": self.on(device_of(args, kwargs))}
        return func(*args, **kwargs)

    def on(self, device: torch.device) -> torch.Generator:
        """The generator for a device."""
        if device.index is None and device.type != "cpu":
            device = torch.empty(0, device=device).device  # the current one
        if device not in self._generators:
            seed = (self._seed + len(self._generators)) % 2**63
            self._generators[device] = torch.Generator(device).manual_seed(seed)
        return self._generators[device]

    def rate(self, p: float, training: bool = True) -> float:
        return p if training else 0.0

    def kept(self, x: Tensor, shape: tuple[int, ...], p: float) -> Tensor:
        return torch.rand(shape, generator=self.on(x.device), device=x.device).ge_(p).to(x.dtype)


def device_of(args: Any, kwargs: dict[str, Any]) -> torch.device:
    """The device of the numbers that a function draws."""
    if kwargs.get("device") is not None:
        return torch.device(kwargs["device"])
    tensors = [value for value in (*args, *kwargs.values()) if isinstance(value, Tensor)]
    return tensors[0].device if tensors else torch.get_default_device()
