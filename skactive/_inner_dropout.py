"""Attention and recurrent layers of torch, written out so that the dropout inside of them is a call like any other.

`torch.nn.MultiheadAttention`, `torch.nn.LSTM` and their kin hand their rate to one function of torch, which drops
attention weights, or what one recurrent layer passes on to the next, where nobody sees it. ``ANSWERS`` maps such a
function to one that does the same with ``dropout(x, p)``. Rows are the first axis of that ``x``.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from . import _validation as validation

Dropout = Callable[[Tensor, float], Tensor]

_MULTI_HEAD = inspect.signature(F.multi_head_attention_forward)


def has_inner_dropout(module: nn.Module) -> bool:
    """Whether an attention or a recurrent layer has dropout inside."""
    layers = [m for m in module.modules() if isinstance(m, nn.MultiheadAttention | nn.RNNBase)]
    return any(m.dropout > 0 and getattr(m, "num_layers", 2) > 1 for m in layers)


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
    if dropout_p == 0:
        return function(value, attn_mask, 0.0, *args, **options)
    unit = torch.eye(key.shape[-2], dtype=value.dtype, device=value.device).expand(*key.shape[:-1], -1)
    weights = function(unit, attn_mask, 0.0, *args, **options)  # attention to a unit matrix returns its weights
    if options.get("enable_gqa"):
        value = value.repeat_interleave(weights.shape[-3] // value.shape[-3], -3)
    return dropout(weights, dropout_p) @ value


def _multi_head_attention(dropout: Dropout, *args: Any, **kwargs: Any) -> tuple[Tensor, Tensor | None]:
    given = _MULTI_HEAD.bind(*args, **kwargs).arguments
    attend: Any = F.multi_head_attention_forward
    if given["dropout_p"] == 0:
        return attend(**given)
    if given["bias_k"] is not None or given["add_zero_attn"] or given.get("static_v") is not None:
        raise validation.inner_dropout_error("attention with keys or values of its own")
    asked = {"training": False, "need_weights": True, "average_attn_weights": False}
    _, weights = attend(**{**given, **asked})
    weights = dropout(weights, given["dropout_p"])  # (n_rows, n_heads, n_queries, n_keys)

    separate = given.get("use_separate_proj_weight", False)
    weight = given["v_proj_weight"] if separate else given["in_proj_weight"].chunk(3)[2]
    bias = None if given["in_proj_bias"] is None else given["in_proj_bias"].chunk(3)[2]
    values = F.linear(given["value"], weight, bias).unflatten(-1, (given["num_heads"], -1))
    attended = torch.einsum("nhqk,knhd->qnhd", weights, values).flatten(2)
    outputs = F.linear(attended, given["out_proj_weight"], given["out_proj_bias"])
    if not given.get("need_weights", True):
        return outputs, None
    return outputs, weights.mean(1) if given.get("average_attn_weights", True) else weights


def _recurrent(function: Any, dropout: Dropout, *args: Any) -> tuple[Tensor, ...]:
    if not isinstance(args[3], bool):  # packed sequences: data, batch sizes, state, weights, has_biases, n_layers, p
        if args[5] > 1 and args[6] > 0:
            raise validation.inner_dropout_error("recurrent layers on packed sequences")
        return function(*args)
    x, state, weights, has_biases, n_layers, p, _, bidirectional, batch_first = args
    rows_axis, directions, n_weights = int(not batch_first), 1 + bidirectional, len(weights) // n_layers
    states = []
    for i in range(n_layers):
        if i > 0 and p > 0:
            x = dropout(x.transpose(0, rows_axis), p).transpose(0, rows_axis)
        own = slice(i * directions, (i + 1) * directions)
        before = state[own] if isinstance(state, Tensor) else tuple(part[own] for part in state)
        layer = weights[i * n_weights : (i + 1) * n_weights]
        with torch.backends.cudnn.flags(enabled=False):  # it wants the weights of all layers in one piece
            x, *after = function(x, before, layer, has_biases, 1, 0.0, False, bidirectional, batch_first)
        states.append(after)
    return x, *(torch.cat(parts) for parts in zip(*states, strict=True))


ANSWERS: dict[Any, Callable[..., Any]] = {
    F.scaled_dot_product_attention: _attention,
    F.multi_head_attention_forward: _multi_head_attention,
    **{function: partial(_recurrent, function) for function in (torch.gru, torch.lstm, torch.rnn_relu, torch.rnn_tanh)},
}
