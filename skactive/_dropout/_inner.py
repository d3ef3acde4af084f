"""Attention and recurrent layers of torch, written out so that the dropout inside of them is a call like any other.

`torch.nn.MultiheadAttention`, `torch.nn.LSTM` and their kin hand their rate to one function of torch, which drops
attention weights, or the values between two recurrent layers, out of sight. ``ANSWERS`` maps such a function to one
that computes the same, but takes the rate and the mask from the pass that runs.
"""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Callable
from functools import partial
from typing import Any, Protocol

import torch
from torch import Tensor
from torch.nn import functional as F

from .._checks import NetError


class Dropout(Protocol):
    """A pass that answers dropout."""

    def rate(self, p: float, training: bool = True) -> float:
        """The rate to apply where a call asks for ``p``."""

    def drop(self, x: Tensor, p: float) -> Tensor:
        """What is left of x at a rate above 0."""

    def drop_steps(self, x: Tensor, p: float, n_rows: Tensor) -> Tensor:
        """The same for packed sequences, of which ``n_rows`` are left at each step."""


_MULTI_HEAD = inspect.signature(F.multi_head_attention_forward)


def _attention(
    dropout: Dropout,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    *args: Any,
    **options: Any,
) -> Tensor:
    function: Any = partial(F.scaled_dot_product_attention, query, key)
    dropout_p = dropout.rate(dropout_p)
    if dropout_p == 0:
        return function(value, attn_mask, 0.0, *args, **options)
    unit = torch.eye(key.shape[-2], dtype=value.dtype, device=value.device).expand(*key.shape[:-1], -1)
    weights = function(unit, attn_mask, 0.0, *args, **options)  # attention to a unit matrix returns its weights
    if options.get("enable_gqa"):
        value = value.repeat_interleave(weights.shape[-3] // value.shape[-3], -3)
    return dropout.drop(weights, dropout_p) @ value


def _multi_head_attention(dropout: Dropout, *args: Any, **kwargs: Any) -> tuple[Tensor, Tensor | None]:
    given = _MULTI_HEAD.bind(*args, **kwargs).arguments
    attend: Any = F.multi_head_attention_forward
    p = dropout.rate(given["dropout_p"], given.get("training", True))
    if p == 0:
        return attend(**{**given, "dropout_p": 0.0})
    if given.get("static_k") is not None or given.get("static_v") is not None:
        raise NetError(
            "`estimator` has dropout inside of attention with given keys or values, where no mask can be held fixed "
            "for all rows. Set the layer's `dropout` to 0 to draw from the net's other dropout layers alone."
        )
    asked = {"training": False, "need_weights": True, "average_attn_weights": False}
    _, weights = attend(**{**given, **asked})
    weights = dropout.drop(weights, p)  # (n_rows, n_heads, n_queries, n_keys)

    separate = given.get("use_separate_proj_weight", False)
    weight = given["v_proj_weight"] if separate else given["in_proj_weight"].chunk(3)[2]
    bias = None if given["in_proj_bias"] is None else given["in_proj_bias"].chunk(3)[2]
    values = F.linear(given["value"], weight, bias)
    if given["bias_v"] is not None:
        values = torch.cat([values, given["bias_v"].expand(1, values.shape[1], -1)])
    if given["add_zero_attn"]:
        values = torch.cat([values, torch.zeros_like(values[:1])])
    values = values.unflatten(-1, (given["num_heads"], -1))
    attended = torch.einsum("nhqk,knhd->qnhd", weights, values).flatten(2)
    outputs = F.linear(attended, given["out_proj_weight"], given["out_proj_bias"])
    if not given.get("need_weights", True):
        return outputs, None
    return outputs, weights.mean(1) if given.get("average_attn_weights", True) else weights


def _recurrent(function: Any, dropout: Dropout, *args: Any) -> tuple[Tensor, ...]:
    # Packed sequences pass the number of rows at each step as the second argument, and no `batch_first`.
    is_packed = not isinstance(args[3], bool)
    x, *sizes = args[: 1 + is_packed]
    state, weights, has_biases, n_layers, p, training, bidirectional, *layout = args[1 + is_packed :]
    p = dropout.rate(p, training) if n_layers > 1 else 0.0
    if p == 0:
        return function(x, *sizes, state, weights, has_biases, n_layers, 0.0, training, bidirectional, *layout)
    directions, n_weights = 1 + bidirectional, len(weights) // n_layers
    states = []
    for i in range(n_layers):
        if i > 0:
            x = dropout.drop_steps(x, p, sizes[0]) if is_packed else dropout.drop(x, p)
        own = slice(i * directions, (i + 1) * directions)
        before = state[own] if isinstance(state, Tensor) else tuple(part[own] for part in state)
        layer = weights[i * n_weights : (i + 1) * n_weights]
        with _without_cudnn(x):  # it wants the weights of all layers in one piece
            x, *after = function(x, *sizes, before, layer, has_biases, 1, 0.0, training, bidirectional, *layout)
        states.append(after)
    return x, *(torch.cat(parts) for parts in zip(*states, strict=True))


def _without_cudnn(x: Tensor) -> Any:
    """A setting of the whole process, so only where it matters."""
    return torch.backends.cudnn.flags(enabled=False) if x.is_cuda else contextlib.nullcontext()


ANSWERS: dict[Any, Callable[..., Any]] = {
    F.scaled_dot_product_attention: _attention,
    F.multi_head_attention_forward: _multi_head_attention,
    **{function: partial(_recurrent, function) for function in (torch.gru, torch.lstm, torch.rnn_relu, torch.rnn_tanh)},
}
