"""Draws of a chain of layers as smaller networks, without the units and channels that they drop.

A chain is read as a line of letters, one for each call, and a grammar says how far it can be pruned: dropout, then
layers with weights, each followed by functions of single units, and dropout before the next. ReLU and pooling commute
with setting units to zero and scaling them up, so dropout may stand before them as well.

Activations of dense layers lie as (draws, units, rows): the kept units of a draw are contiguous, and a few draws go
through one product where that pays.
"""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Callable, Container, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from ._dropout_calls import Sites, most_kept
from ._random_calls import ALPHA, DROPOUTS
from ._recording import Call, Recording, Slot
from ._rows import parts_of

_MAX_TOGETHER = 2**17  # activations of the widest layer (512 KiB) in draws that go through one product on the CPU
_ROWS = 256  # rows of a usual block

# Functions and methods that act on each unit alone, ...
_UNITWISE: set[Any] = {
    *(F.celu, F.elu, F.gelu, F.hardsigmoid, F.hardswish, F.hardtanh, F.logsigmoid, F.mish, F.relu6, F.selu, F.sigmoid),
    *(F.silu, F.softplus, F.softsign, F.tanh, F.tanhshrink),
    *(torch.celu, torch.celu_, torch.selu, torch.selu_, torch.sigmoid, torch.sigmoid_, torch.tanh, torch.tanh_),
    *(Tensor.sigmoid, Tensor.sigmoid_, Tensor.tanh, Tensor.tanh_),
}
# ... that also keep zeros and positive factors, ...
_HOMOGENEOUS: set[Any] = {F.leaky_relu, F.relu, torch.relu, torch.relu_, Tensor.relu, Tensor.relu_}
# ... and that keep zeros and positive factors of channels.
_POOLS: dict[Any, int] = {  # and how many axes they pool
    **dict.fromkeys((F.adaptive_avg_pool1d, F.adaptive_max_pool1d, F.avg_pool1d, F.max_pool1d), 1),
    **dict.fromkeys((F.adaptive_avg_pool2d, F.adaptive_max_pool2d, F.avg_pool2d, F.max_pool2d), 2),
    **dict.fromkeys((F.adaptive_avg_pool3d, F.adaptive_max_pool3d, F.avg_pool3d, F.max_pool3d), 3),
}
_LAYOUTS: set[Any] = {Tensor.flatten, Tensor.reshape, Tensor.view, torch.flatten, torch.reshape}
_CONVOLUTIONS: set[Any] = {F.conv1d, F.conv2d, F.conv3d}
_CONVOLUTION = ("input", "weight", "bias", "stride", "padding", "dilation", "groups")
_LINEAR = ("input", "weight", "bias")
_NORM = ("input", "running_mean", "running_var", "weight", "bias", "training", "momentum", "eps")

# D dropout of units, U unitwise, H homogeneous, P pooling, B batch norm, L linear, C convolution, F flattening; and A,
# which cannot be pruned: dropout under one mask for all rows, embeddings
_GRAMMAR = re.compile("D[DHP]*(?:(?:[LC][UHPB]*|F[HP]*)(?:D[DHP]*)?)*[LC][UHPB]*")
_STAGE = re.compile("[DLCF][^LCF]*")


def prunable(chain: list[Call], sites: Sites) -> str:
    """The letters of the first calls of a chain, those that can be pruned; none at worst."""
    match = _GRAMMAR.match("".join(_letter(call, sites) for call in chain))
    return match.group() if match else ""


def is_row_by_row(recording: Recording, sites: Sites) -> bool:
    """Whether all calls that rows enter are known to treat each by itself."""
    of_rows = set(recording.inputs)
    for call in chain(recording.shared, recording.drawn):
        if call.masks or call.taken & of_rows:
            if _letter(call, sites, of_rows) == "-":
                return False
            of_rows.update(slot.number for slot in parts_of(call.outputs, Slot))
    return True


def _letter(call: Call, sites: Sites, of_rows: Container[int] = range(sys.maxsize)) -> str:
    """The letter of a call, given which values differ between rows."""
    function, n_axes = call.function, len(call.shape)
    if function in DROPOUTS:
        if not call.masks:
            return "H"
        site = sites.at[call.masks.start]
        return "D" if site.is_of_units and function not in ALPHA else "A" if site.shape[0] == 1 else "-"
    if call.masks:
        return "-"
    if function is F.linear and n_axes == 2:
        return "L" if _has_constant_weight(call, _LINEAR, of_rows) else "-"
    if function is F.embedding or (function is F.embedding_bag and len(call.before or ()) == 2):
        return "A" if _has_constant_weight(call, _LINEAR, of_rows) else "-"
    if function in _CONVOLUTIONS and _has_constant_weight(call, _CONVOLUTION, of_rows):
        given = _given(call, _CONVOLUTION)
        return "C" if given["weight"].ndim == n_axes and given.get("groups", 1) == 1 else "-"
    if function in _POOLS:
        return "P" if n_axes == _POOLS[function] + 2 else "-"  # else channels are pooled
    if function is F.batch_norm:
        return "B" if _given(call, _NORM).get("running_var") is not None else "-"  # passes keep to the statistics
    if function in _LAYOUTS:
        before = call.before or ()
        return "F" if len(before) > 2 and call.shape == (before[0], math.prod(before[1:])) else "-"
    return "U" if function in _UNITWISE else "H" if function in _HOMOGENEOUS else "-"


def _given(call: Call, names: tuple[str, ...]) -> dict[str, Any]:
    """The arguments of a call by name."""
    return {**dict(zip(names, call.args, strict=False)), **call.kwargs}


def _has_constant_weight(call: Call, names: tuple[str, ...], of_rows: Container[int]) -> bool:
    """Whether the input is a value of the pass, and the weight is the same for all rows."""
    given = _given(call, names)
    weight = given["weight"]
    return isinstance(given["input"], Slot) and not (isinstance(weight, Slot) and weight.number in of_rows)


# Stages: a layer, the functions of its units, and the dropout after them


@dataclass(frozen=True)
class _Gate:
    """Dropout of the units that enter, or of those laid out on one axis."""

    dropouts: list[int]  # positions of the masks
    calls: list[Callable[[Tensor], Tensor]]
    n_flat: int | None  # units of a row after flattening

    def prepare(self, h: Tensor) -> Tensor:
        """Values that all draws share: (units, rows), or (rows, channels, ...)."""
        h = h if self.n_flat is None else h.flatten(1)
        if self.calls:
            h = h.clone()  # the calls may work in place
        for call in self.calls:
            h = call(h)
        return h.t().contiguous() if h.ndim == 2 else h

    def cut(self, before: Tensor | None, kept: Tensor | None, factor: float) -> list[Tensor]:
        """Positions of the kept units among those that were kept before."""
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
            rows = _positions(kept).to(self.weight.device)
            tensors = [tensor.index_select(0, rows) for tensor in tensors]
        if before is not None:
            tensors[0] = tensors[0].index_select(1, _positions(before).to(self.weight.device)) * factor
        if self.weight.ndim == 4:
            tensors[0] = tensors[0].to(memory_format=torch.channels_last)  # faster on the CPU, and activations follow
        return tensors

    def __call__(self, h: Tensor, weight: Tensor, bias: Tensor, *norms: Tensor) -> Tensor:
        h = torch.baddbmm(bias, weight, h) if self.convolve is None else self.convolve(h, weight[0], bias[0])
        values = iter(norms)
        for call in self.calls:
            h = h * next(values) + next(values) if call is None else call(h)
        return h


def key_of(calls: list[Call], letters: str) -> tuple[Any, ...]:
    """A key of the layers and positions of dropout, the same for any number of rows."""
    weights = [id(tensor) for call in calls for tensor in parts_of((call.args, call.kwargs))]
    return letters, *weights, *(call.masks for call in calls)


def _stage(calls: list[Call], letters: str) -> _Gate | _Layer:
    dropouts = [
        position for letter, call in zip(letters, calls, strict=True) if letter == "D" for position in call.masks
    ]
    # Dropout of the letter H drops nothing.
    pairs = [pair for pair in zip(letters, calls, strict=True) if pair[1].function not in DROPOUTS]
    if letters[0] in "LC":
        return _layer(pairs, dropouts)
    n_flat = calls[0].shape[1] if letters[0] == "F" else None
    return _Gate(dropouts, [call for letter, call in pairs if letter != "F"], n_flat)


def _layer(pairs: list[tuple[str, Call]], dropouts: list[int]) -> _Layer:
    (letter, first), *pairs = pairs
    given = _given(first, _LINEAR if letter == "L" else _CONVOLUTION)
    weight, bias = given["weight"], given.get("bias")
    bias = weight.new_zeros(len(weight)) if bias is None else bias
    if pairs and pairs[0][0] == "B":
        gain, shift = _gain_and_shift(pairs.pop(0)[1])
        weight, bias = weight * _upright(gain, weight.ndim), bias * gain + shift
    # Behind the axis of the units: the rows in dense layers, the positions within a row in convolutions.
    n_axes = weight.ndim - (letter == "C")
    norms = [_upright(v, n_axes) for mark, call in pairs if mark == "B" for v in _gain_and_shift(call)]
    calls: list[Callable[[Tensor], Tensor] | None] = [None if mark == "B" else call for mark, call in pairs]
    if letter == "L":
        return _Layer(dropouts, calls, weight, _upright(bias, 2), norms, None)
    options = {name: given[name] for name in ("stride", "padding", "dilation") if name in given}
    return _Layer(dropouts, calls, weight, bias, norms, partial(first.function, **options))


def _gain_and_shift(call: Call) -> tuple[Tensor, Tensor]:
    """A batch norm in evaluation mode as ``x * gain + shift``."""
    given = _given(call, _NORM)
    gain = (given["running_var"] + given.get("eps", 1e-5)).rsqrt()
    gain = gain if given.get("weight") is None else gain * given["weight"]
    shift = 0 if given.get("bias") is None else given["bias"]
    return gain, shift - given["running_mean"] * gain


def _upright(values: Tensor, n_axes: int) -> Tensor:
    """Values of units, with units on the first of ``n_axes`` axes."""
    return values.reshape(-1, *(1,) * (n_axes - 1))


def _positions(kept: Tensor) -> Tensor:
    return kept.nonzero()[:, 0]


# Networks


class PrunedNetworks:
    """Every draw as a network without the units that it drops, from the input of the first call to the last output.

    It serves any number of rows. Weights of the first draws are cut out once and kept, up to a bound of memory.
    """

    def __init__(self, calls: list[Call], letters: str, sites: Sites) -> None:
        stages = [_stage(calls[m.start() : m.end()], m.group()) for m in _STAGE.finditer(letters)]
        self._gate: Any = stages[0]
        self._stages: list[Any] = stages
        self._n_draws = sites.n_draws
        self._kept = list(_kept_units(stages, sites))
        self._device = next(stage for stage in stages if isinstance(stage, _Layer)).weight.device
        most = most_kept(self._device)
        are_images = len(calls[0].shape) > 2  # one convolution is large enough to keep the cores busy
        together = 1 if are_images else self._n_together(most)
        self._blocks = [range(i, min(i + together, self._n_draws)) for i in range(0, self._n_draws, together)]
        first = self._network(self._blocks[0])
        n_kept = most // _n_bytes(first)
        self._networks = [first, *map(self._network, self._blocks[1:n_kept])][:n_kept]

    def __call__(self, x: Tensor) -> Tensor:
        """Outputs (n_draws, n_rows, ...) for the values that enter the chain."""
        h = self._gate.prepare(x)
        cut_now = map(self._network, self._blocks[len(self._networks) :])
        outputs = [self._evaluate(h, network) for network in chain(self._networks, cut_now)]
        is_dense = self._stages[-1].convolve is None
        return torch.cat(outputs).mT if is_dense else torch.stack(outputs)

    def _evaluate(self, h: Tensor, network: list[list[Tensor]]) -> Tensor:
        h = self._gate.select(h, *network[0])
        for stage, tensors in zip(self._stages[1:], network[1:], strict=True):
            h = stage(h, *tensors)
        return h

    def _n_together(self, most: int) -> int:
        """How many draws go through one product: on the CPU, as long as their activations fit the cache."""
        # Of the time of one draw at a time, with 256 rows, this took 0.4 with 32 units, 0.67 with 128, 1 from 512 on.
        if self._device.type != "cpu":  # a launch costs more than its work
            one = 2 * _n_bytes(self._network(range(1)))  # twice: other draws keep more units
            return min(self._n_draws, max(1, most // one))
        widest = max(int(kept.sum(1).max()) for _, kept, _ in self._kept if kept is not None)
        return max(1, _MAX_TOGETHER // (widest * _ROWS))

    def _network(self, draws: range) -> list[list[Tensor]]:
        """Tensors of each stage, stacked over a few draws."""
        network = []
        for stage, (before, kept, owed) in zip(self._stages, self._kept, strict=True):
            of = [[None if units is None else units[k] for units in (before, kept)] for k in draws]
            cuts = [stage.cut(*units, owed[k]) for k, units in zip(draws, of, strict=True)]
            network.append([_stacked(tensors).to(self._device) for tensors in zip(*cuts, strict=True)])
        return network


def _n_bytes(network: list[list[Tensor]]) -> int:
    return sum(tensor.nbytes for tensors in network for tensor in tensors)


def _kept_units(
    stages: list[_Gate | _Layer], sites: Sites
) -> Iterator[tuple[Tensor | None, Tensor | None, list[float]]]:
    """For each stage, the inputs and outputs that each draw keeps, and the factor by which inputs are still to grow.

    Kept units are booleans (n_draws, n_units) on the host, where the sizes of weights follow from them; None keeps
    all. A draw that drops a whole layer keeps it, at a factor of 0, so that no weight is empty.
    """
    kept: Tensor | None = None
    factors = ones = torch.ones(sites.n_draws, dtype=torch.float64, device="cpu")
    for stage in stages:
        before, owed = kept, factors
        if isinstance(stage, _Layer):
            kept, factors = None, ones
        elif before is not None and stage.n_flat is not None:
            before = kept = before.repeat_interleave(stage.n_flat // before.shape[1], 1)
        for position in stage.dropouts:
            own, p = sites.units(position), sites.at[position].p
            kept = own if kept is None else kept & own
            factors = factors / (1 - p) if p < 1 else factors
        if kept is not None:
            empty = ~kept.any(1)
            everything = before if isinstance(stage, _Gate) and before is not None else torch.ones_like(kept)
            kept = torch.where(empty[:, None], everything, kept)
            factors = factors * ~empty
        yield before, kept, owed.tolist()


def _stacked(tensors: Sequence[Tensor]) -> Tensor:
    """Tensors along a new first axis, the smaller ones filled up with zeros."""
    if len(tensors) == 1:
        return tensors[0][None]
    sizes = [max(lengths) for lengths in zip(*(tensor.shape for tensor in tensors), strict=True)]
    stacked = tensors[0].new_zeros((len(tensors), *sizes))
    for slot, tensor in zip(stacked, tensors, strict=True):
        slot[tuple(map(slice, tensor.shape))] = tensor
    return stacked
