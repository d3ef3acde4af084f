"""Fixed-mask draws of a torch module: one dropout mask a draw, shared by every row.

A posterior draw of MC dropout (Gal and Ghahramani, 2016) is a *function*: one mask for the whole network, the same
for all rows. torch samples a mask a row instead, from the global generator. Here every call of a dropout function
during a forward pass is answered by a mask of our own, drawn once from the caller's ``rng``: `torch.nn` layers and
plain ``F.dropout`` calls alike, without touching the module.

A module that is a chain of layers is drawn from faster. What precedes its first dropout is the same for all draws and
computed once. Where the rest is dense, a dropped unit needs no arithmetic: draw k is a smaller dense network.

Rows go through the module in micro-batches that all have the same shape, the last one padded with zeros. In float32
the last bits of a row's output depend on the shape of the batch around it, so this is what makes a row's draws
bit-equal for every chunking of the pool.
"""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, fx, nn
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

# Layers and functions that treat each unit by itself, so that they do to some units what they do to all.
_UNITWISE_LAYERS = (
    *(nn.CELU, nn.ELU, nn.GELU, nn.Hardsigmoid, nn.Hardswish, nn.Hardtanh, nn.Identity, nn.LeakyReLU, nn.LogSigmoid),
    *(nn.Mish, nn.ReLU, nn.ReLU6, nn.SELU, nn.Sigmoid, nn.SiLU, nn.Softplus, nn.Softsign, nn.Tanh, nn.Tanhshrink),
)
_UNITWISE_FUNCTIONS: set[Any] = {
    *(torch.relu, torch.sigmoid, torch.tanh, torch.selu, F.celu, F.elu, F.gelu, F.hardswish, F.hardtanh, F.leaky_relu),
    *(F.logsigmoid, F.mish, F.relu, F.relu6, F.selu, F.sigmoid, F.silu, F.softplus, F.softsign, F.tanh),
}
_UNITWISE_METHODS = {"relu", "sigmoid", "tanh"}
_MAX_KEPT_BYTES = 64 * 2**20  # thinned weights of all draws that are worth keeping; larger ones are cut out each time


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
    if _has_inner_dropout(frozen):
        validation.warn_inner_dropout()
    masks = _Masks(n_draws, rng)

    chain = None if forward else _as_chain(frozen)
    if chain is None:
        all_draws = masks.of_function(functools.partial(forward or nn.Module.__call__, frozen))
        return functools.partial(forward_rows, all_draws, batch_size=batch_size, axis=1)
    return _chain_draws(chain, masks, batch_size)


def forward_rows(
    function: Callable[[Tensor], Tensor], x: Tensor, batch_size: int = MICRO_BATCH, axis: int = 0
) -> Tensor:
    """Apply ``function`` to micro-batches of exactly ``batch_size`` rows and join the results along ``axis``."""
    with torch.no_grad():
        parts = [function(batch).narrow(axis, 0, n) for batch, n in _padded(x, batch_size)]
    return parts[0] if len(parts) == 1 else torch.cat(parts, dim=axis)


def has_dropout(module: nn.Module) -> bool:
    """Whether the module has a dropout layer with a rate above zero."""
    layers = [m for m in module.modules() if isinstance(m, nn.modules.dropout._DropoutNd)]
    return any(layer.p > 0 for layer in layers)


def _has_inner_dropout(module: nn.Module) -> bool:
    """Whether an attention or a recurrent layer has dropout inside, which no function call shows."""
    inner = [m.dropout for m in module.modules() if isinstance(m, nn.MultiheadAttention | nn.RNNBase)]
    return any(p > 0 for p in inner)


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
        self.n_draws = n_draws
        self._entropy = rng.integers(2**63, size=4).tolist()
        self._kept: dict[int, Tensor] = {}  # position of the call -> (n_draws, 1, ...)
        self._draw = self._call = 0

    def of_function(self, function: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
        """The function under the masks of every draw: ``x -> (n_draws, n_rows, ...)``."""
        return lambda x: torch.stack([self._answer(function, x, k) for k in range(self.n_draws)])

    def _answer(self, function: Callable[[Tensor], Tensor], x: Tensor, draw: int) -> Tensor:
        self._draw, self._call = draw, 0
        with self:
            outputs = function(x)
        if self._call == 0:
            raise validation.no_dropout_error()
        return outputs

    def at(self, position: int, shape: tuple[int, ...], p: float) -> Tensor:
        """Which units each draw keeps at a dropout call, shape (n_draws, 1, ...)."""
        if position not in self._kept:
            rng = np.random.default_rng([*self._entropy, position])
            uniform = rng.random((self.n_draws, 1, *shape), dtype=np.float32)
            self._kept[position] = torch.from_numpy(uniform >= p)
        kept = self._kept[position]
        if kept.shape[2:] != shape:
            raise validation.changing_shape_error(tuple(kept.shape[2:]), tuple(shape))
        return kept

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func not in _ELEMENTWISE and func not in _CHANNELWISE:
            return func(*args, **kwargs)
        return self._dropout(func, *args, **kwargs)

    def _dropout(
        self, func: Any, input: Tensor, p: float = 0.5, training: bool = False, inplace: bool = False
    ) -> Tensor:
        if p == 0:
            return input
        shape = input.shape[1:2] + (1,) * (input.ndim - 2) if func in _CHANNELWISE else input.shape[1:]
        position, self._call = self._call, self._call + 1
        kept = self.at(position, tuple(shape), p)[self._draw].to(input.device)
        if func not in _ALPHA:
            return input * (kept / (1 - p) if p < 1 else kept).to(input.dtype)
        if p == 1:
            return torch.zeros_like(input)
        scale = ((1 - p) * (1 + p * _ALPHA_DROPPED**2)) ** -0.5
        shift = -scale * p * _ALPHA_DROPPED
        return torch.where(kept, input, input.new_tensor(_ALPHA_DROPPED)) * scale + shift


# Chains of layers


@dataclass(frozen=True)
class _Step:
    """One layer of a chain: how to apply it, and what it is as far as that matters here."""

    call: Callable[[Tensor], Tensor]
    layer: nn.Module | None = None
    dropout: float = 0.0  # the rate of elementwise dropout, 0 for everything else
    is_dropout: bool = False  # of any kind, at a rate above 0
    is_unitwise: bool = False


def _as_chain(module: nn.Module) -> list[_Step] | None:
    """The layers of a module that applies one after the other, each to the output of the one before; else None."""
    if any(m._forward_hooks or m._forward_pre_hooks for m in module.modules()):
        return None  # what a hook does would be lost
    try:
        graph = fx.symbolic_trace(module).graph
    except Exception:  # tracing runs the module's own code on stand-ins for tensors: anything may come of it
        return None
    first, *nodes, last = graph.nodes
    before = [first, *nodes]
    if first.op != "placeholder" or any(n.all_input_nodes != [b] for n, b in zip([*nodes, last], before, strict=True)):
        return None
    return [_as_step(node, module) for node in nodes]


def _as_step(node: fx.Node, module: nn.Module) -> _Step:
    target: Any = node.target
    layer = module.get_submodule(target) if node.op == "call_module" else None
    if layer is not None and node.args == tuple(node.all_input_nodes) and not node.kwargs:
        return _layer_step(layer)

    def call(x: Tensor) -> Tensor:
        args, kwargs = fx.map_arg((node.args, node.kwargs), lambda _: x)
        if layer is not None:
            return layer(*args, **kwargs)
        return getattr(args[0], target)(*args[1:], **kwargs) if node.op == "call_method" else target(*args, **kwargs)

    if target in _ELEMENTWISE | _CHANNELWISE:
        rate: Any = node.kwargs.get("p", node.args[1] if len(node.args) > 1 else 0.5)
        return _Step(call, dropout=rate if target is F.dropout else 0.0, is_dropout=rate > 0)
    if layer is not None:
        return _Step(call, is_dropout=has_dropout(layer))
    unitwise = target in (_UNITWISE_METHODS if node.op == "call_method" else _UNITWISE_FUNCTIONS)
    return _Step(call, is_unitwise=unitwise)


def _layer_step(layer: nn.Module) -> _Step:
    if isinstance(layer, nn.modules.dropout._DropoutNd):
        return _Step(layer, dropout=layer.p if type(layer) is nn.Dropout else 0.0, is_dropout=layer.p > 0)
    # Layers of torch's own are not looked into: a transformer's holds dropout.
    return _Step(layer, layer, is_dropout=has_dropout(layer), is_unitwise=type(layer) in _UNITWISE_LAYERS)


def _chain_draws(chain: list[_Step], masks: _Masks, batch_size: int) -> Callable[[Tensor], Tensor]:
    """Draws of a chain: the part before the first dropout once, the rest once a draw, thinned where it is dense."""
    n_before = next((i for i, step in enumerate(chain) if step.is_dropout), None)
    if n_before is None:
        raise validation.no_dropout_error()
    prefix = functools.partial(_apply, chain[:n_before])
    masked = masks.of_function(functools.partial(_apply, chain[n_before:]))
    dense = _as_dense(chain[n_before:])
    thinned = _ThinnedDraws(dense, masks) if dense else None

    def draws(x: Tensor) -> Tensor:
        with torch.no_grad():
            parts = []
            for batch, n in _padded(x, batch_size):
                shared = prefix(batch)
                answers = thinned(shared) if thinned and shared.ndim == 2 else masked(shared)
                parts.append(answers[:, :n])
        # (n_draws, n_classes, n_points) in memory: reductions over a last axis of few classes are slow.
        if parts[0].ndim == 3:
            return torch.cat([part.transpose(1, 2) for part in parts], dim=2).transpose(1, 2)
        return torch.cat(parts, dim=1)

    return draws


def _apply(steps: Sequence[_Step], x: Tensor) -> Tensor:
    for step in steps:
        x = step.call(x)
    return x


# Dense chains, thinned


@dataclass(frozen=True)
class _Dense:
    """A linear layer (batch norm folded in), what follows it unit by unit, and the dropout rates after that."""

    weight: Tensor
    bias: Tensor
    unitwise: list[_Step]
    dropouts: list[float]


@dataclass(frozen=True)
class _DenseChain:
    first_dropouts: list[float]
    layers: list[_Dense]
    last: _Step | None  # softmax or log-softmax over the outputs


def _as_dense(tail: list[_Step]) -> _DenseChain | None:
    """A tail of dropout, linear, [batch norm], unitwise layers, and so on, as dense layers; else None."""
    steps = list(tail)
    first = _take_dropouts(steps)
    layers = []
    while steps and type(steps[0].layer) is nn.Linear:
        weight, bias = _folded(steps)
        unitwise = [steps.pop(0) for _ in range(_count_leading(steps, lambda step: step.is_unitwise))]
        layers.append(_Dense(weight, bias, unitwise, _take_dropouts(steps)))
    last = steps.pop(0) if steps and _is_softmax(steps[0].layer) else None
    if steps or not layers or layers[-1].dropouts:
        return None
    return _DenseChain(first, layers, last)


def _take_dropouts(steps: list[_Step]) -> list[float]:
    """Remove the elementwise dropouts that the steps begin with, and return their rates."""
    n = _count_leading(steps, lambda step: step.dropout > 0 or (type(step.layer) is nn.Dropout))
    return [step.dropout for step in [steps.pop(0) for _ in range(n)] if step.dropout > 0]


def _count_leading(steps: list[_Step], holds: Callable[[_Step], bool]) -> int:
    return next((i for i, step in enumerate(steps) if not holds(step)), len(steps))


def _folded(steps: list[_Step]) -> tuple[Tensor, Tensor]:
    """Remove the linear layer that the steps begin with and a batch norm after it: their weight and bias as one."""
    linear: Any = steps.pop(0).layer
    weight: Tensor = linear.weight
    bias: Tensor = weight.new_zeros(len(weight)) if linear.bias is None else linear.bias
    norm: Any = steps[0].layer if steps else None
    if type(norm) is not nn.BatchNorm1d or norm.running_var is None:
        return weight, bias
    steps.pop(0)
    variance: Tensor = norm.running_var
    gain = (variance + norm.eps).rsqrt() * (1 if norm.weight is None else norm.weight)
    shift = 0 if norm.bias is None else norm.bias
    return weight * gain[:, None], (bias - torch.as_tensor(norm.running_mean)) * gain + shift


def _is_softmax(layer: nn.Module | None) -> bool:
    return isinstance(layer, nn.Softmax | nn.LogSoftmax) and layer.dim in (1, -1)


class _ThinnedDraws:
    """Each draw of a dense chain as a smaller dense network, without the units that it drops.

    Works on transposed activations (units, rows), in which the kept units of a layer are contiguous.
    """

    def __init__(self, dense: _DenseChain, masks: _Masks) -> None:
        self._dense = dense
        self._masks = masks
        self._kept: list[list[tuple[Tensor | None, float]]] = []  # by draw and layer, once the first rows have come
        self._networks: list[list[tuple[Tensor, Tensor]]] = []
        n_bytes = sum(layer.weight.numel() * layer.weight.element_size() for layer in dense.layers)
        self._worth_keeping = n_bytes * masks.n_draws <= _MAX_KEPT_BYTES

    def __call__(self, shared: Tensor) -> Tensor:
        units = shared.t().contiguous()
        if not self._kept:
            self._kept = self._kept_units(len(units), units.device)
            self._networks = [self._network(kept) for kept in self._kept] if self._worth_keeping else []
        outputs = torch.stack([self._evaluate(units, k) for k in range(self._masks.n_draws)]).transpose(1, 2)
        if self._dense.last is None:
            return outputs
        return self._dense.last.call(outputs.flatten(0, 1)).unflatten(0, outputs.shape[:2])

    def _evaluate(self, units: Tensor, draw: int) -> Tensor:
        network = self._networks[draw] if self._networks else self._network(self._kept[draw])
        first, _ = self._kept[draw][0]
        h = units if first is None else units.index_select(0, first)
        for (weight, bias), layer in zip(network, self._dense.layers, strict=True):
            h = _apply(layer.unitwise, torch.addmm(bias, weight, h))
        return h

    def _network(self, kept: list[tuple[Tensor | None, float]]) -> list[tuple[Tensor, Tensor]]:
        """Weights and biases of one draw: rows and columns of kept units, what is kept scaled up."""
        network = []
        for layer, (columns, scale), (rows, _) in zip(self._dense.layers, kept[:-1], kept[1:], strict=True):
            weight, bias = layer.weight, layer.bias
            if rows is not None:
                weight, bias = weight.index_select(0, rows), bias.index_select(0, rows)
            if columns is not None:
                weight = weight.index_select(1, columns)
            network.append((weight * scale, bias.unsqueeze(1)))
        return network

    def _kept_units(self, n_first: int, device: torch.device) -> list[list[tuple[Tensor | None, float]]]:
        """For each draw, the kept units (None for all) and their scale: before the first layer, and after each."""
        position, by_layer = 0, []
        widths = [n_first, *(layer.weight.shape[0] for layer in self._dense.layers)]
        rates = [self._dense.first_dropouts, *(layer.dropouts for layer in self._dense.layers)]
        for width, dropouts in zip(widths, rates, strict=True):
            mask = torch.ones(self._masks.n_draws, width, dtype=torch.bool)
            scale = 1.0
            for p in dropouts:
                mask &= self._masks.at(position, (width,), p)[:, 0]
                scale *= 1 / (1 - p) if p < 1 else 1.0
                position += 1
            by_layer.append((mask.to(device), scale) if dropouts else (None, 1.0))
        return [
            [(None if mask is None else mask[k].nonzero()[:, 0], scale) for mask, scale in by_layer]
            for k in range(self._masks.n_draws)
        ]
