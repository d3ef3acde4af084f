"""Draws of a chain of layers as smaller networks, without the units and channels that they drop.

A chain is read as a line of letters, one a step, and a grammar says how far it can be thinned: dropout, then layers
with weights, each with what treats its units one by one, and dropout before the next. ReLU and pooling commute with
setting units to zero and scaling them up, so dropout may stand before them as well. What follows the last such layer
runs as it is, under the masks.

Activations of dense layers lie as (draws, units, rows): the kept units of a draw are contiguous, and a few draws go
through one product where that pays.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ._masks import CHANNELWISE, ELEMENTWISE, Masks
from ._tracing import FLATTEN, Step, run_steps

_MAX_KEPT_BYTES = 64 * 2**20  # of thinned weights; those of further draws are cut out each time, at half the speed
_MAX_TOGETHER = 2**17  # activations of the widest layer (512 KiB) in draws that go through one product on the CPU

# Layers, functions and methods that do to some units what they do to all, ...
_UNITWISE: set[Any] = {
    *(nn.CELU, nn.ELU, nn.GELU, nn.Hardsigmoid, nn.Hardswish, nn.Hardtanh, nn.LogSigmoid, nn.Mish, nn.ReLU6, nn.SELU),
    *(nn.Sigmoid, nn.SiLU, nn.Softplus, nn.Softsign, nn.Tanh, nn.Tanhshrink),
    *(torch.sigmoid, torch.tanh, torch.selu, F.celu, F.elu, F.gelu, F.hardswish, F.hardtanh, F.logsigmoid, F.mish),
    *(F.relu6, F.selu, F.sigmoid, F.silu, F.softplus, F.softsign, F.tanh, "sigmoid", "tanh"),
}
# ... that keep zeros and positive factors, too, ...
_HOMOGENEOUS: set[Any] = {nn.Identity, nn.LeakyReLU, nn.ReLU, torch.relu, F.leaky_relu, F.relu, "relu"}
# ... and that keep those of channels.
_POOLS: set[Any] = {
    *(nn.AdaptiveAvgPool1d, nn.AdaptiveAvgPool2d, nn.AdaptiveAvgPool3d, nn.AvgPool1d, nn.AvgPool2d, nn.AvgPool3d),
    *(nn.AdaptiveMaxPool1d, nn.AdaptiveMaxPool2d, nn.AdaptiveMaxPool3d, nn.MaxPool1d, nn.MaxPool2d, nn.MaxPool3d),
    *(F.adaptive_avg_pool1d, F.adaptive_avg_pool2d, F.adaptive_avg_pool3d, F.avg_pool1d, F.avg_pool2d, F.avg_pool3d),
    *(F.adaptive_max_pool1d, F.adaptive_max_pool2d, F.adaptive_max_pool3d, F.max_pool1d, F.max_pool2d, F.max_pool3d),
}
_CONVOLUTIONS: dict[Any, Any] = {nn.Conv1d: F.conv1d, nn.Conv2d: F.conv2d, nn.Conv3d: F.conv3d}
_NORMS: set[Any] = {nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d}

# D dropout of units, U unitwise, H homogeneous, P pooling, B batch norm, L linear, C convolution, F flattening
_FAMILIES: dict[str, set[Any]] = {"U": _UNITWISE, "H": _HOMOGENEOUS, "P": _POOLS, "F": {FLATTEN}}
_GRAMMAR = re.compile("D[DHP]*(?:(?:[LC][UHPB]*|F[HP]*)(?:D[DHP]*)?)*[LC][UHPB]*")
_STAGE = re.compile("[DLCF][^LCF]*")


def thinned_draws(steps: list[Step], masks: Masks) -> Callable[[Tensor], Tensor] | None:
    """``f(x)`` of shape (n_draws, n_rows, ...) for the values that enter a chain; None if nothing can be thinned."""
    match = _GRAMMAR.match("".join(_letter(step, masks) for step in steps))
    if match is None:
        return None
    stages = [_stage(steps[m.start() : m.end()], m.group()) for m in _STAGE.finditer(match.group())]
    return _ThinnedDraws(stages, steps[match.end() :], masks)


def _letter(step: Step, masks: Masks) -> str:
    layer: Any = step.target
    kind = type(layer) if isinstance(layer, nn.Module) else layer
    if isinstance(layer, nn.modules.dropout._DropoutNd) or kind in ELEMENTWISE | CHANNELWISE:
        made = [masks.made[position] for position in step.masks]
        return "H" if not made else "D" if made[0].is_of_units else "-"
    if kind is nn.Linear and len(step.shape) == 2:
        return "L"
    if kind in _CONVOLUTIONS and layer.groups == 1 and layer.padding_mode == "zeros":
        return "C"
    if kind in _NORMS and layer.running_var is not None:
        return "B"
    return next((letter for letter, family in _FAMILIES.items() if kind in family), "-")


# Stages: a layer, what treats its units one by one, and the dropout after that


@dataclass(frozen=True)
class _Gate:
    """Dropout of the units that come in, or that have been laid out flat."""

    dropouts: list[int]  # positions of the masks
    calls: list[Callable[[Tensor], Tensor]]
    n_flat: int | None  # units of a row that is laid out flat

    def prepare(self, h: Tensor) -> Tensor:
        """What is the same for all draws: (units, rows), or (rows, channels, ...)."""
        h = h if self.n_flat is None else h.flatten(1)
        for call in self.calls:
            h = call(h)
        return h.t().contiguous() if h.ndim == 2 else h

    def cut(self, before: Tensor | None, kept: Tensor | None, factor: float) -> list[Tensor]:
        """Where the kept units are among those that were kept before."""
        if kept is None or not self.dropouts:
            return []
        return [_positions(kept if before is None else kept[before])]

    def select(self, h: Tensor, index: Tensor | None = None) -> Tensor:
        """The kept units of a few draws: (draws, units, rows), or of one draw: (rows, channels, ...)."""
        n_draws = 1 if index is None else len(index)
        if index is not None:
            h = h.index_select(0 if h.ndim == 2 else 1, index.flatten())
        return h.unflatten(0, (n_draws, -1)) if h.ndim == 2 else h

    def __call__(self, h: Tensor, *index: Tensor) -> Tensor:
        return self.select(self.prepare(h), *index)


@dataclass(frozen=True)
class _Layer:
    """A linear layer or a convolution, batch norm folded in."""

    dropouts: list[int]  # positions of the masks
    calls: list[Callable[[Tensor], Tensor] | None]  # None is the next batch norm
    weight: Tensor
    bias: Tensor
    norms: list[Tensor]  # gain and shift in turn
    convolve: Callable[..., Tensor] | None

    def cut(self, before: Tensor | None, kept: Tensor | None, factor: float) -> list[Tensor]:
        """The rows of kept units; the columns of those kept before, scaled up."""
        tensors = [self.weight, self.bias, *self.norms]
        if kept is not None:
            rows = _positions(kept)
            tensors = [tensor.index_select(0, rows) for tensor in tensors]
        if before is not None:
            tensors[0] = tensors[0].index_select(1, _positions(before)) * factor
        if self.weight.ndim == 4:
            tensors[0] = tensors[0].to(memory_format=torch.channels_last)  # as it was
        return tensors

    def __call__(self, h: Tensor, weight: Tensor, bias: Tensor, *norms: Tensor) -> Tensor:
        h = torch.baddbmm(bias, weight, h) if self.convolve is None else self.convolve(h, weight[0], bias[0])
        values = iter(norms)
        for call in self.calls:
            h = h * next(values) + next(values) if call is None else call(h)
        return h


def _stage(steps: list[Step], letters: str) -> _Gate | _Layer:
    pairs = list(zip(letters, steps, strict=True))
    dropouts = [position for letter, step in pairs if letter == "D" for position in step.masks]
    if letters[0] in "LC":
        return _layer([pair for pair in pairs if pair[0] != "D"], dropouts)
    calls = [step.call for letter, step in pairs if letter in "HP"]
    return _Gate(dropouts, calls, n_flat=steps[0].shape[1] if letters[0] == "F" else None)


def _layer(pairs: list[tuple[str, Step]], dropouts: list[int]) -> _Layer:
    (letter, first), *pairs = pairs
    layer: Any = first.target
    weight, bias = layer.weight, layer.weight.new_zeros(len(layer.weight)) if layer.bias is None else layer.bias
    if pairs and pairs[0][0] == "B":
        gain, shift = _gain_and_shift(pairs.pop(0)[1].target)
        weight, bias = weight * _upright(gain, weight.ndim), bias * gain + shift
    # Behind the axis of the units: the rows in dense layers, the positions within a row in convolutions.
    n_axes = weight.ndim - (letter == "C")
    norms = [_upright(v, n_axes) for mark, step in pairs if mark == "B" for v in _gain_and_shift(step.target)]
    calls = [None if mark == "B" else step.call for mark, step in pairs]
    if letter == "L":
        return _Layer(dropouts, calls, weight, _upright(bias, 2), norms, None)
    options = {name: getattr(layer, name) for name in ("stride", "padding", "dilation")}
    return _Layer(dropouts, calls, weight, bias, norms, partial(_CONVOLUTIONS[type(layer)], **options))


def _gain_and_shift(norm: Any) -> tuple[Tensor, Tensor]:
    """A batch norm in evaluation mode as ``x * gain + shift``."""
    gain = (norm.running_var + norm.eps).rsqrt()
    gain = gain if norm.weight is None else gain * norm.weight
    return gain, (0 if norm.bias is None else norm.bias) - norm.running_mean * gain


def _upright(values: Tensor, n_axes: int) -> Tensor:
    """Values of units, with units on the first of ``n_axes`` axes."""
    return values.reshape(-1, *(1,) * (n_axes - 1))


def _positions(kept: Tensor) -> Tensor:
    return kept.nonzero()[:, 0]


# Networks


class _ThinnedDraws:
    """Every draw as a network without the units that it drops."""

    def __init__(self, stages: list[_Gate | _Layer], rest: list[Step], masks: Masks) -> None:
        self._gate: Any = stages[0]
        self._stages: list[Any] = stages
        self._rest = rest
        self._masks = masks
        self._kept = list(_kept_units(stages, masks))
        self._blocks: list[range] = []  # draws that go through one product
        self._networks: list[list[list[Tensor]]] = []  # of the first blocks

    def __call__(self, x: Tensor) -> Tensor:
        h = self._gate.prepare(x)
        if not self._blocks:
            self._cut_networks(h)
        cut_now = map(self._network, self._blocks[len(self._networks) :])
        outputs = [self._evaluate(h, network) for network in chain(self._networks, cut_now)]
        is_dense = self._stages[-1].convolve is None
        return self._finish(torch.cat(outputs).mT if is_dense else torch.stack(outputs))

    def _evaluate(self, h: Tensor, network: list[list[Tensor]]) -> Tensor:
        h = self._gate.select(h, *network[0])
        for stage, tensors in zip(self._stages[1:], network[1:], strict=True):
            h = stage(h, *tensors)
        return h

    def _finish(self, outputs: Tensor) -> Tensor:
        """What follows the last layer that could be thinned."""
        if not self._rest:
            return outputs
        first = self._rest[0].masks.start
        return torch.stack([self._masks.run(k, run_steps, self._rest, h, first=first) for k, h in enumerate(outputs)])

    def _cut_networks(self, h: Tensor) -> None:
        n_draws, together = self._masks.n_draws, self._n_together(h)
        self._blocks = [range(start, min(start + together, n_draws)) for start in range(0, n_draws, together)]
        first = self._network(self._blocks[0])
        n_kept = _MAX_KEPT_BYTES // sum(tensor.nbytes for tensors in first for tensor in tensors)
        self._networks = [first, *map(self._network, self._blocks[1:n_kept])][:n_kept]

    def _n_together(self, h: Tensor) -> int:
        """How many draws go through one product: on the CPU, as long as their activations fit the cache.

        Against one by one, 256 rows, this measured 2.5 times as fast with 32 units, 1.5 with 128, 1.2 with 256, and
        the same from 512 on; all 20 draws together would lose again from 128 on.
        """
        if h.ndim > 2:
            return 1  # a convolution of as many rows is large enough
        if h.is_cuda:
            return self._masks.n_draws
        widest = max(int(kept.sum(1).max()) for _, kept, _ in self._kept if kept is not None)
        return max(1, _MAX_TOGETHER // (widest * h.shape[1]))

    def _network(self, draws: range) -> list[list[Tensor]]:
        """What each stage computes with, stacked over a few draws."""
        network = []
        for stage, (before, kept, owed) in zip(self._stages, self._kept, strict=True):
            cuts = [stage.cut(_of_draw(before, k), _of_draw(kept, k), owed[k]) for k in draws]
            network.append([_stacked(tensors) for tensors in zip(*cuts, strict=True)])
        return network


def _kept_units(
    stages: list[_Gate | _Layer], masks: Masks
) -> Iterator[tuple[Tensor | None, Tensor | None, list[float]]]:
    """For each stage, what each draw keeps of its inputs and its outputs, and the factor that the inputs are owed.

    What is kept has the shape (n_draws, n_units), None is all. A draw that drops a whole layer keeps it, at a factor
    of 0.
    """
    kept: Tensor | None = None
    factors = ones = torch.ones(masks.n_draws, dtype=torch.float64)
    for stage in stages:
        before, owed = kept, factors
        if isinstance(stage, _Layer):
            kept, factors = None, ones
        elif before is not None and stage.n_flat is not None:
            before = kept = before.repeat_interleave(stage.n_flat // before.shape[1], 1)
        for mask in [masks.made[position] for position in stage.dropouts]:
            own = mask.kept.flatten(1)
            kept = own if kept is None else kept & own
            factors = factors / (1 - mask.p) if mask.p < 1 else factors
        if kept is not None:
            empty = ~kept.any(1)
            everything = before if isinstance(stage, _Gate) and before is not None else torch.ones_like(kept)
            kept = torch.where(empty[:, None], everything, kept)
            factors = factors * ~empty.cpu()
        yield before, kept, owed.tolist()


def _of_draw(masks: Tensor | None, draw: int) -> Tensor | None:
    return None if masks is None else masks[draw]


def _stacked(tensors: Sequence[Tensor]) -> Tensor:
    """Tensors along a new first axis, the smaller ones filled up with zeros."""
    if len(tensors) == 1:
        return tensors[0][None]
    sizes = [max(lengths) for lengths in zip(*(tensor.shape for tensor in tensors), strict=True)]
    stacked = tensors[0].new_zeros((len(tensors), *sizes))
    for slot, tensor in zip(stacked, tensors, strict=True):
        slot[tuple(map(slice, tensor.shape))] = tensor
    return stacked
