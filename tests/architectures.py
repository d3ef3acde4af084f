"""Draws of many architectures against a loop that leaves dropout on.

A net with dropout in training mode gives another answer at every pass. What it answers for one row over many passes
has a law; draws of the net, under masks that are held fixed, must have the same law, row by row. That is checked here
by the first two moments, for one small net of each kind.

``python tests/architectures.py`` writes the table of docs/user_guide/nets.rst, which takes ten minutes; with parts of
names as arguments it prints the lines of these architectures only.
"""

from __future__ import annotations

import contextlib
import csv
import math
import re
import sys
import warnings
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from nets import Functions, Net, sequential
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils import parametrizations, parametrize
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence
from torch.utils.checkpoint import checkpoint

TABLE = Path(__file__).parents[1] / "docs" / "user_guide" / "architectures.csv"
N_DRAWS = 1000
SIGMAS = 5.0

Factory = Callable[[], tuple[nn.Module, Tensor]]
Function = Callable[[Any, Tensor], Any]
Rows = Callable[[], Tensor]


table = partial(torch.randn, 5, 6)
sequences = partial(torch.randn, 5, 4, 8)
images = partial(torch.randn, 5, 2, 6, 6)
words = partial(torch.randint, 1, 20, (5, 6))
patches = partial(nn.Conv2d, 2, 8, 2, 2)


def mlp(drop: Any = 0.3) -> nn.Sequential:
    return sequential((6, 12), nn.ReLU, drop, (12, 3))


def head() -> nn.Sequential:
    return sequential(nn.ReLU, 0.3, (12, 3))


TWO_LINEAR: dict[str, Any] = {"a": (6, 12), "b": (12, 3), "drop": 0.3}
OF_SEQUENCES = TWO_LINEAR | {"a": (8, 12)}


def of(function: Function, rows: Rows, **parts: Any) -> Factory:
    return lambda: (Net(function, **parts), rows())


def chain(rows: Rows, *parts: Any) -> Factory:
    return lambda: (with_statistics(sequential(*parts)), rows())


def conv(n_in: int, n_out: int, size: int = 3, *, padded: bool = True, **options: Any) -> Callable[[], nn.Module]:
    return lambda: nn.Conv2d(n_in, n_out, size, padding=size // 2 if padded else 0, **options)


def learned(*shape: int) -> Callable[[], nn.Parameter]:
    return lambda: nn.Parameter(torch.randn(shape))


def functional(function: Function) -> Factory:
    """A net of two linear layers with a function of (module, units) between them."""
    return of(lambda m, x: m.b(function(m, torch.relu(m.a(x)))), table, **TWO_LINEAR)


def ignores_value(m: Any, h: Tensor) -> Tensor:
    F.dropout(h, 0.4, m.training, inplace=True)
    return h


def on_axis(x: Tensor, rows_first: bool) -> Tensor:
    return x if rows_first else x.transpose(0, 1)


def attention(rows_first: bool = True, **options: Any) -> Factory:
    def forward(m: Any, x: Tensor) -> Tensor:
        h = on_axis(x, rows_first)
        return m.out(on_axis(m.attend(h, h, h)[0], rows_first).mean(1))

    options |= {"dropout": 0.4, "batch_first": rows_first}
    return of(forward, sequences, attend=lambda: nn.MultiheadAttention(8, 2, **options), out=(8, 3))


def scaled_attention(n_key: int = 16, **options: Any) -> Factory:
    def forward(m: Any, x: Tensor) -> Tensor:
        q, k, v = (part(x).unflatten(-1, (-1, 4)).transpose(1, 2) for part in (m.q, m.k, m.v))
        h = F.scaled_dot_product_attention(q, k, v, dropout_p=0.3 if m.training else 0.0, **options)
        return m.out(h.transpose(1, 2).flatten(2)).mean(1)

    return of(forward, sequences, q=(8, 16), k=(8, n_key), v=(8, n_key), out=(16, 3))


def encoder(rows_first: bool = True, masks: bool = False, **options: Any) -> Factory:
    def forward(m: Any, x: Tensor) -> Tensor:
        h = m.drop(on_axis(m.embed(x), rows_first))
        mask = x == 1 if masks else None
        return m.out(on_axis(m.encode(h, src_key_padding_mask=mask), rows_first).mean(1))

    def encode() -> nn.Module:
        layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.2, batch_first=rows_first, **options)
        return nn.TransformerEncoder(layer, 1, enable_nested_tensor=False)

    def begun() -> Tensor:
        x = words()
        x[:, 0] = 2  # one word at least is none that is masked
        return x

    return of(forward, begun, encode=encode, embed=lambda: nn.Embedding(20, 8), drop=0.2, out=(8, 3))


def perceiver(m: Any, x: Tensor) -> Tensor:
    latents = m.drop(m.latents).expand(len(x), -1, -1)
    return m.out(m.attend(latents, x, x)[0]).mean(1)


def recurrent(kind: type[nn.RNNBase], rows_first: bool = True, packed: str = "", **options: Any) -> Factory:
    def forward(m: Any, x: Tensor) -> Tensor:
        h = on_axis(x, rows_first)
        if packed:
            n_steps = torch.full((len(x),), x.shape[1])
            lengths = n_steps if packed == "one length" else (x[..., 0] < 1).sum(1).clamp(1)
            h = pack_padded_sequence(h, lengths, batch_first=rows_first, enforce_sorted=False)
            h, _ = pad_packed_sequence(m.layer(h)[0], batch_first=rows_first, total_length=x.shape[1])
        else:
            h = m.layer(h)[0]
        return m.out(on_axis(h, rows_first).mean(1))

    options |= {"num_layers": 2, "dropout": 0.4, "batch_first": rows_first}
    n_units = options.get("proj_size", 6) * (2 if options.get("bidirectional") else 1)
    return of(forward, sequences, layer=lambda: kind(8, 6, **options), out=(n_units, 3))


def cells(m: Any, x: Tensor) -> Tensor:
    h = x.new_zeros(len(x), 6)
    for step in x.unbind(1):
        h = m.drop(m.cell(step, h))
    return m.out(h)


def locked(m: Any, x: Tensor) -> Tensor:
    """One mask for all steps, steps first, as AWD-LSTM does."""
    h = x.transpose(0, 1)
    if m.training:
        mask = h.data.new(1, h.size(1), h.size(2)).bernoulli_(0.6) / 0.6
        h = mask.expand_as(h) * h
    return m.out(m.layer(h)[0][-1])


def folded(row_major: bool) -> Factory:
    def forward(m: Any, x: Tensor) -> Tensor:
        h = m.a(x) if row_major else m.a(x).transpose(0, 1)
        h = m.drop(torch.relu(h.reshape(-1, 12))).reshape(*h.shape[:2], 12)
        return m.b(h if row_major else h.transpose(0, 1)).mean(1)

    return of(forward, sequences, **OF_SEQUENCES | {"drop": 0.4})


def windows(x: Tensor) -> Tensor:
    """(n_rows, height, width, units) as (n_rows * n_windows, 4, units)."""
    return x.unflatten(2, (-1, 2)).unflatten(1, (-1, 2)).transpose(2, 3).reshape(-1, 4, x.shape[-1])


def from_windows(x: Tensor, shape: torch.Size) -> Tensor:
    n, height, width, units = shape
    return x.reshape(n, height // 2, width // 2, 2, 2, units).transpose(2, 3).reshape(shape)


class DropPath(nn.Module):
    """Leaves a branch out for a row, in one of the ways in which libraries write it."""

    def __init__(self, p: float, way: str, of_batch: bool = False) -> None:
        super().__init__()
        self.p, self.way, self.of_batch = p, way, of_batch

    def forward(self, x: Tensor) -> Tensor:
        if not self.training:
            return x
        keep, shape = 1 - self.p, ((1,) if self.of_batch else (x.shape[0],)) + (1,) * (x.ndim - 1)
        if self.way == "bernoulli_":
            return x * x.new_empty(shape).bernoulli_(keep).div_(keep)
        if self.way == "rand":
            return x.div(keep) * (keep + torch.rand(shape, dtype=x.dtype, device=x.device)).floor_()
        if self.way == "bernoulli":
            return x * torch.bernoulli(torch.full(shape, keep)) / keep
        if self.way == "rand_like":
            return x * (torch.rand_like(x[:, :1].reshape(shape[0], -1)[:, :1]).reshape(shape) < keep) / keep
        return x / keep if torch.rand(1).item() < keep else torch.zeros_like(x)  # control flow


def stochastic_depth(way: str, **options: Any) -> Factory:
    def forward(m: Any, x: Tensor) -> Tensor:
        h = torch.relu(m.a(x))
        return m.c(h + m.path(torch.tanh(m.b(h))))

    return of(forward, table, path=lambda: DropPath(0.4, way, **options), a=(6, 12), b=(12, 12), c=(12, 3))


def layer_drop(m: Any, x: Tensor) -> Tensor:
    """Leaves out whole layers with the dropout in them by control flow, before another kind of dropout."""
    h = torch.tanh(m.a(x))
    for layer in (m.b, m.c):
        if m.training and torch.rand([]) < 0.3:
            continue
        h = h + layer(h)
    return m.out(m.last(h.unflatten(1, (3, 4))).flatten(1))


def swin(m: Any, x: Tensor) -> Tensor:
    """Windows of an image, each with attention of its own; branches are left out for rows."""
    h = m.embed(x).permute(0, 2, 3, 1)
    for shift in (0, 1):
        w = windows(torch.roll(m.norm(h), (-shift, -shift), (1, 2)))
        q, k, v = m.qkv(w).chunk(3, -1)
        attended = m.drop((q @ k.mT / math.sqrt(8)).softmax(-1)) @ v
        back = from_windows(m.drop(m.proj(attended)), h.shape)
        h = h + m.path(torch.roll(back, (shift, shift), (1, 2)))
        h = h + m.path(m.drop(F.gelu(m.mlp(h))))
    return m.out(h.mean((1, 2)))


def convnext(m: Any, x: Tensor) -> Tensor:
    h = m.stem(x)
    for _ in range(2):
        y = m.norm(m.depthwise(h).permute(0, 2, 3, 1))
        h = h + m.path((m.gamma * m.down(F.gelu(m.up(y)))).permute(0, 3, 1, 2))
    return m.out(h.mean((2, 3)))


def vit(m: Any, x: Tensor) -> Tensor:
    patches = m.embed(x).flatten(2).transpose(1, 2)
    h = torch.cat([m.token.expand(len(x), -1, -1), patches], 1) + m.places
    return m.out(m.encode(m.drop(h))[:, 0])


def mixer(m: Any, x: Tensor) -> Tensor:
    h = x + m.tokens(x.transpose(1, 2)).transpose(1, 2)
    return m.out(h + m.units(h)).mean(1)


def mixer_block(n: int) -> nn.Sequential:
    return sequential((n, 12), nn.GELU, 0.3, (12, n), 0.3)


def time_distributed(m: Any, x: Tensor) -> Tensor:
    """A convolutional net on each frame of a film, then a recurrent layer."""
    frames = m.cnn(x.flatten(0, 1)).flatten(1)
    return m.out(m.layer(frames.unflatten(0, (len(x), -1)))[0][:, -1])


class ResidualBlock(nn.Module):
    def __init__(self, norm: Callable[[], nn.Module]) -> None:
        super().__init__()
        self.a, self.b = nn.Conv2d(6, 6, 3, padding=1), nn.Conv2d(6, 6, 3, padding=1)
        self.norm_a, self.norm_b, self.drop = norm(), norm(), nn.Dropout2d(0.3)

    def forward(self, x: Tensor) -> Tensor:
        h = self.drop(torch.relu(self.norm_a(self.a(x))))
        return torch.relu(x + self.norm_b(self.b(h)))


def with_statistics(module: nn.Module) -> nn.Module:
    """Statistics of batch norm that are not 0 and 1, as after training."""
    for part in module.modules():
        if isinstance(part, nn.modules.batchnorm._NormBase) and part.running_mean is not None:
            part.running_mean.normal_(0, 0.3)
            part.running_var.uniform_(0.5, 2)
    return module


def resnet(norm: Callable[[], nn.Module]) -> Factory:
    blocks = [conv(2, 6, padded=False), lambda: ResidualBlock(norm), lambda: ResidualBlock(norm)]
    return chain(images, *blocks, lambda: nn.AdaptiveAvgPool2d(1), nn.Flatten, (6, 3))


def cnn(drop: nn.Module) -> Factory:
    first = conv(2, 6, padded=False), lambda: nn.BatchNorm2d(6), nn.ReLU, drop, nn.MaxPool2d(2)
    return chain(images, *first, lambda: nn.Conv2d(6, 4, 2), nn.ReLU, nn.Flatten, 0.3, (4, 3))


def own_batch_norm(m: Any, x: Tensor) -> Tensor:
    h = F.batch_norm(m.a(x), m.mean, m.variance, training=m.training and m.counts_batches)
    return m.b(m.drop(torch.relu(h)))


def u_net(m: Any, x: Tensor) -> Tensor:
    down = torch.relu(m.down(x))
    low = m.drop(torch.relu(m.low(F.max_pool2d(down, 2))))
    up = F.interpolate(low, scale_factor=2)
    return m.out(torch.cat([down, up], 1)).mean((2, 3))


def dense_net(m: Any, x: Tensor) -> Tensor:
    for layer in (m.a, m.b, m.c):
        x = torch.cat([x, m.drop(torch.relu(layer(x)))], 1)
    return m.out(x.mean((2, 3)))


def squeeze_excite(m: Any, x: Tensor) -> Tensor:
    h = torch.relu(m.a(x))
    weights = torch.sigmoid(m.up(m.drop(torch.relu(m.down(h.mean((2, 3)))))))
    return m.out((h * weights[..., None, None]).mean((2, 3)))


def experts(m: Any, x: Tensor) -> Tensor:
    """Each row by the expert that its first value points to, of which there are those that any row needs."""
    h = m.drop(torch.relu(m.a(x)))
    which = (x[:, 0] > 0).long()
    out = h.new_zeros(len(x), 3)
    for i in which.unique().tolist():
        rows = (which == i).nonzero().squeeze(1)
        out[rows] = m.experts[i](h[rows])
    return out


def dropout_in_experts(m: Any, x: Tensor) -> Tensor:
    h, out = torch.relu(m.a(x)), x.new_zeros(len(x), 3)
    for i in (0, 1):
        rows = ((x[:, 0] > 0) == i).nonzero().squeeze(1)
        out[rows] = m.experts[i](m.drop(h[rows]))
    return out


def looked_for(m: Any, x: Tensor) -> Tensor:
    """Only rows that begin above 0 pass through the second layer; how many these are is in no shape of the input."""
    h, rows = m.drop(torch.relu(m.a(x))), (x[:, 0] > 0).nonzero().squeeze(1)
    return h[:, :3].index_add(0, rows, m.b(h[rows]) + torch.ones(rows.shape[0], 3))


def dense_experts(m: Any, x: Tensor) -> Tensor:
    h = m.drop(torch.relu(m.a(x)))
    best = m.gate(h).softmax(-1).topk(1).values
    return best * torch.stack([expert(h) for expert in m.experts]).mean(0)


class DropWeights(nn.Module):
    def forward(self, weight: Tensor) -> Tensor:
        return F.dropout(weight, 0.4, self.training)


def parametrized(parametrization: nn.Module, *, drop: float = 0.3) -> Factory:
    def make() -> tuple[nn.Module, Tensor]:
        net = mlp(drop)
        parametrize.register_parametrization(net[0], "weight", parametrization)
        return net, table()

    return make


def normed(norm: Callable[[nn.Module], nn.Module]) -> Factory:
    def make() -> tuple[nn.Module, Tensor]:
        net = sequential(norm(nn.Linear(6, 12)), nn.ReLU, 0.3, norm(nn.Linear(12, 3)))
        net(table()).sum().backward()  # old weight norm leaves tensors with a history
        return net, table()

    return make


def causal(dilation: int) -> nn.Module:
    """A dilated causal convolution with weight norm, and dropout."""
    layer = nn.Conv1d(8, 8, 2, dilation=dilation, padding=dilation)
    return sequential(parametrizations.weight_norm(layer), nn.ReLU, 0.2)


def of_type(dtype: torch.dtype) -> Factory:
    return lambda: (mlp().to(dtype), table().to(dtype))


class Noisy(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x * torch.empty_like(x).bernoulli_(0.6) / 0.6

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        return grad


def dropout_mapped_over(m: Any, x: Tensor) -> Tensor:
    return torch.vmap(lambda row: m.b(m.drop(torch.relu(m.a(row)))), randomness="different")(x)


def mapped_over_nets(m: Any, x: Tensor) -> Tensor:
    """An ensemble by torch.vmap, whose members have masks of their own in training."""
    members = [dict(net.named_parameters()) for net in m.nets]
    stacked = {name: torch.stack([member[name] for member in members]) for name in members[0]}

    def answer(weights: dict[str, Tensor]) -> Tensor:
        return torch.func.functional_call(m.nets[0], weights, (x,))

    return torch.vmap(answer, randomness="different")(stacked).mean(0)


def gradient(m: Any, x: Tensor) -> Tensor:
    """The slope of a net at the row."""
    with torch.enable_grad():
        x = x.detach().requires_grad_()
        return torch.autograd.grad(m.net(x).square().sum(), x)[0]


def auxiliary(m: Any, x: Tensor) -> Any:
    h = F.dropout(torch.relu(m.a(x)), 0.4, m.training)
    other = m.drop(torch.sigmoid(h))
    return {"auxiliary": other, "main": m.b(other)} if m.training else m.b(other)


EXPERTS: dict[str, Any] = {
    "experts": lambda: nn.ModuleList([nn.Linear(12, 3), nn.Linear(12, 3)]),
    **{"gate": (12, 2), **TWO_LINEAR},
}
CHANNELS_LAST = {"memory_format": torch.channels_last}
ARCHITECTURES: dict[str, Factory] = {
    "MLP": chain(table, lambda: mlp()[:3], (12, 12), head),
    "dropout of inputs": chain(table, 0.3, mlp),
    "functional dropout": functional(lambda m, h: F.dropout(h, 0.4, m.training)),
    "dropout in place": chain(table, lambda: mlp(nn.Dropout(0.3, inplace=True))),
    "dropout in place, value ignored": functional(ignores_value),
    "dropout switched off by training=False": functional(lambda m, h: m.drop(F.dropout(h, 0.5, training=False))),
    "dropout always on": functional(lambda m, h: F.dropout(h, 0.5, training=True)),
    "dropout switched by its rate": functional(lambda m, h: m.drop(F.dropout(h, 0.5 if m.training else 0.0))),
    "dropout if self.training": functional(lambda m, h: m.drop(F.dropout(h, 0.5) if m.training else h)),
    "dropout of torch below its layers": functional(lambda m, h: torch.dropout(h, 0.4, m.training)),
    "Gaussian dropout": functional(lambda m, h: h * (1 + 0.5 * torch.randn_like(h)) if m.training else h),
    "Gaussian noise": functional(lambda m, h: h + torch.zeros_like(h).normal_(0.0, 0.3) if m.training else h),
    "randomised leaky ReLU": functional(lambda m, h: m.drop(F.rrelu(h - 0.3, 0.1, 0.9, m.training))),
    "randomised leaky ReLU, a layer": chain(table, (6, 12), lambda: nn.RReLU(0.1, 0.9), head),
    "one dropout layer used twice": functional(lambda m, h: m.drop(torch.tanh(m.drop(h)))),
    "two masks on the same units": functional(lambda m, h: m.drop(h) * m.drop(h).sigmoid()),
    "alpha dropout": chain(table, (6, 12), nn.SELU, lambda: nn.AlphaDropout(0.3), (12, 3)),
    "batch norm after dropout": chain(table, lambda: mlp()[:3], lambda: nn.BatchNorm1d(12), (12, 3)),
    "batch norm of its own": of(
        own_batch_norm,
        table,
        mean=lambda: torch.randn(12),
        variance=lambda: torch.rand(12) + 0.5,
        **{"counts_batches": True, **TWO_LINEAR},
    ),
    "dropout always on, beside a layer": functional(lambda m, h: m.drop(F.dropout(h, 0.4))),
    "CNN, batch norm, Dropout2d": cnn(nn.Dropout2d(0.3)),
    "CNN, dropout of pixels": cnn(nn.Dropout(0.3)),
    "CNN, feature alpha dropout": cnn(nn.FeatureAlphaDropout(0.3)),
    "CNN, group convolutions": chain(
        images, *(conv(2, 6, padded=False), nn.Dropout2d(0.3), conv(6, 6, padded=False, groups=3), nn.Flatten, (24, 3))
    ),
    "CNN, channels last": lambda: (cnn(nn.Dropout2d(0.3))()[0].to(**CHANNELS_LAST), images().to(**CHANNELS_LAST)),
    "1-d CNN, Dropout1d": chain(
        sequences, lambda: nn.Conv1d(4, 6, 3), nn.ReLU, lambda: nn.Dropout1d(0.4), nn.Flatten, (36, 3)
    ),
    "3-d CNN, Dropout3d": chain(
        lambda: torch.randn(4, 1, 3, 3, 3),
        *(lambda: nn.Conv3d(1, 4, 2), nn.ReLU, nn.Dropout3d(0.4), nn.Flatten, (32, 3)),
    ),
    "ResNet-like, batch norm": resnet(lambda: nn.BatchNorm2d(6)),
    "ResNet-like, group norm": resnet(lambda: nn.GroupNorm(2, 6)),
    "ResNet-like, instance norm with statistics": resnet(lambda: nn.InstanceNorm2d(6, track_running_stats=True)),
    "U-Net-like": of(u_net, images, down=conv(2, 4), low=conv(4, 4), drop=lambda: nn.Dropout2d(0.3), out=conv(8, 3, 1)),
    "DenseNet-like": of(dense_net, images, a=conv(2, 3), b=conv(5, 3), c=conv(8, 3), drop=0.3, out=(11, 3)),
    "squeeze and excite": of(squeeze_excite, images, a=conv(2, 8), down=(8, 4), up=(4, 8), drop=0.3, out=(8, 3)),
    "ConvNeXt-like, drop path": of(
        convnext,
        images,
        **{"stem": patches, "depthwise": conv(8, 8, groups=8), "up": (8, 16), "down": (16, 8)},
        **{"norm": lambda: nn.LayerNorm(8), "gamma": lambda: nn.Parameter(torch.ones(8))},
        **{"path": lambda: DropPath(0.3, "bernoulli_"), "out": (8, 3)},
    ),
    "ViT-like": of(
        vit,
        images,
        encode=lambda: nn.TransformerEncoderLayer(8, 2, 16, 0.1, "gelu", batch_first=True, norm_first=True),
        token=learned(1, 1, 8),
        **{"places": learned(1, 10, 8), "embed": patches, "drop": 0.2, "out": (8, 3)},
    ),
    "Swin-like, windows and drop path": of(
        swin,
        lambda: torch.randn(5, 2, 8, 8),
        **{"embed": patches, "norm": lambda: nn.LayerNorm(8), "qkv": (8, 24), "proj": (8, 8), "mlp": (8, 8)},
        **{"path": lambda: DropPath(0.2, "rand"), "drop": 0.1, "out": (8, 3)},
    ),
    "MLP mixer": of(mixer, sequences, tokens=lambda: mixer_block(4), units=lambda: mixer_block(8), out=(8, 3)),
    "CNN of each frame, then GRU": of(
        time_distributed,
        lambda: torch.randn(4, 3, 1, 6, 6),
        cnn=lambda: sequential(nn.Conv2d(1, 4, 3), nn.ReLU, nn.Dropout2d(0.4), nn.AvgPool2d(2)),
        layer=lambda: nn.GRU(16, 6, batch_first=True),
        out=(6, 3),
    ),
    "drop path by bernoulli_": stochastic_depth("bernoulli_"),
    "drop path by rand": stochastic_depth("rand"),
    "drop path by torch.bernoulli": stochastic_depth("bernoulli"),
    "drop path by rand_like": stochastic_depth("rand_like"),
    "drop path of whole batches": stochastic_depth("bernoulli_", of_batch=True),
    "drop path by control flow": stochastic_depth("if"),
    "layers left out by control flow": of(
        layer_drop,
        table,
        a=(6, 12),
        **{name: lambda: nn.Sequential(nn.Linear(12, 12), *head()[:2]) for name in "bc"},
        **{"last": lambda: nn.Dropout1d(0.3), "out": (12, 3)},
    ),
    "scaled dot product attention": scaled_attention(),
    "scaled dot product attention, causal": scaled_attention(is_causal=True),
    "scaled dot product attention, grouped queries": scaled_attention(8, enable_gqa=True),
    "multi-head attention, rows first": attention(),
    "multi-head attention, rows second": attention(rows_first=False),
    "multi-head attention, keys of its own": attention(add_bias_kv=True, add_zero_attn=True),
    "transformer encoder, rows first": encoder(),
    "transformer encoder, rows second": encoder(rows_first=False),
    "transformer encoder, norm first, padding mask": encoder(norm_first=True, masks=True),
    "transformer decoder": of(
        lambda m, x: m.out(m.decode(m.asked.expand(len(x), -1, -1), x)).flatten(1),
        sequences,
        decode=lambda: nn.TransformerDecoderLayer(8, 2, 16, dropout=0.2, batch_first=True),
        **{"asked": learned(1, 2, 8), "out": (8, 2)},
    ),
    "latents that attend to the row": of(
        perceiver,
        sequences,
        attend=lambda: nn.MultiheadAttention(8, 2, dropout=0.3, batch_first=True),
        **{"latents": learned(1, 3, 8), "drop": 0.3, "out": (8, 3)},
    ),
    "LSTM, rows first": recurrent(nn.LSTM),
    "LSTM, rows second": recurrent(nn.LSTM, rows_first=False),
    "LSTM, both directions": recurrent(nn.LSTM, bidirectional=True),
    "LSTM, projected": recurrent(nn.LSTM, proj_size=4),
    "LSTM, packed sequences of one length": recurrent(nn.LSTM, packed="one length"),
    "LSTM, packed sequences of several lengths": recurrent(nn.LSTM, packed="several lengths"),
    "GRU, rows first": recurrent(nn.GRU),
    "GRU, rows second": recurrent(nn.GRU, rows_first=False),
    "RNN, rows first": recurrent(nn.RNN),
    "GRU cells": of(cells, sequences, cell=lambda: nn.GRUCell(8, 6), drop=0.3, out=(6, 3)),
    "LSTM, one mask for all steps": of(locked, sequences, layer=lambda: nn.LSTM(8, 6), out=(6, 3)),
    "embedding bag": chain(words, lambda: nn.EmbeddingBag(20, 8), 0.3, (8, 3)),
    "tied weights": of(
        lambda m, x: F.linear(m.drop(m.embed(x)).mean(1), m.embed.weight),
        words,
        **{"embed": lambda: nn.Embedding(20, 8), "drop": 0.3},
    ),
    "tokens folded into rows, row by row": folded(row_major=True),
    "tokens folded into rows, token by token": folded(row_major=False),
    "dropout of weights": of(
        lambda m, x: m.b(torch.relu(F.linear(x, F.dropout(m.a.weight, 0.5, m.training), m.a.bias))), table, **TWO_LINEAR
    ),
    "dropout of learned places": of(
        lambda m, x: m.b(torch.relu(m.a(x + m.drop(m.places)))).mean(1),
        sequences,
        **OF_SEQUENCES | {"places": learned(4, 8)},
    ),
    "experts that rows are sent to": of(experts, table, **EXPERTS),
    "experts that rows are sent to, dropout in each, row by row": of(dropout_in_experts, table, **EXPERTS),
    "rows that are looked for": of(looked_for, table, **TWO_LINEAR),
    "experts that are all asked": of(dense_experts, table, **EXPERTS),
    "weight norm": normed(parametrizations.weight_norm),
    "weight norm, old": normed(nn.utils.weight_norm),
    "spectral norm": normed(parametrizations.spectral_norm),
    "spectral norm, old": normed(nn.utils.spectral_norm),
    "parametrised weights": parametrized(nn.Tanh()),
    "dropout in a parametrisation": parametrized(DropWeights()),
    "dropout layer as a parametrisation": parametrized(nn.Dropout(0.4), drop=0.0),
    "temporal convolutions, weight norm": chain(
        lambda: torch.randn(5, 32),
        *(lambda: nn.Unflatten(1, (8, 4)), lambda: causal(1), lambda: causal(2), nn.Flatten, (56, 3)),
    ),
    "compiled": lambda: (torch.compile(mlp(), backend="eager"), table()),
    "data parallel": lambda: (nn.DataParallel(mlp()), table()),
    "activation checkpoints": of(
        lambda m, x: m.out(checkpoint(m.body, x, use_reentrant=False)), table, body=lambda: mlp()[:3], out=(12, 3)
    ),
    "bfloat16": of_type(torch.bfloat16),
    "float16": of_type(torch.float16),
    "float64": of_type(torch.float64),
    "autograd function of its own": functional(lambda m, h: Noisy.apply(h) if m.training else h),
    "vmap": of(lambda m, x: m.b(m.drop(torch.vmap(lambda row: torch.relu(m.a(row)))(x))), table, **TWO_LINEAR),
    "vmap over dropout": of(dropout_mapped_over, table, **TWO_LINEAR),
    "gradients inside": of(gradient, table, net=mlp),
    "another head in training": of(auxiliary, table, **TWO_LINEAR),
}

BATCH_SIZES = {"experts that rows are sent to, dropout in each, row by row": 1}


class Remembers(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.drop, self.last, self.n_calls = nn.Dropout(0.3), nn.Linear(6, 3), 0

    def forward(self, x: Tensor) -> Tensor:
        self.n_calls += 1
        return self.last(self.drop(x)) * self.n_calls


def asks_for_labels(m: Any, x: Tensor) -> Tensor:
    if m.training:
        raise ValueError("In training give labels.")
    return m.b(m.drop(torch.relu(m.a(x))))


def to_the_longest(m: Any, x: Tensor) -> Tensor:
    """Sequences, cut where the longest of the rows ends."""
    longest = int((x[..., 0] < 1).sum(1).clamp(1).max())
    return m.b(m.drop(torch.relu(m.a(x[:, :longest])))).sum(1)


def noise_of_numpy(m: Any, h: Tensor) -> Tensor:
    return m.drop(h) + torch.from_numpy(np.random.standard_normal(12).astype("float32"))  # noqa: NPY002


REFUSED: dict[str, Factory] = {
    "experts that rows are sent to, dropout in each": of(dropout_in_experts, table, **EXPERTS),
    "sequences cut at the longest of a block": of(to_the_longest, sequences, **OF_SEQUENCES),
    "batch norm without statistics": chain(table, (6, 12), lambda: nn.BatchNorm1d(12, track_running_stats=False), head),
    "labels asked for in training": of(asks_for_labels, table, **TWO_LINEAR),
    "another function in training": functional(lambda m, h: F.dropout(h + 1.0, 0.5) if m.training else m.drop(h)),
    "noise in evaluation, too": functional(lambda m, h: m.drop(h) + 0.1 * torch.randn_like(h)),
    "noise by torch.normal": functional(
        lambda m, h: m.drop(h) + (torch.normal(0.0, 0.1, h.shape) if m.training else 0)
    ),
    "vmap over members of an ensemble": of(mapped_over_nets, table, nets=lambda: nn.ModuleList([mlp(), mlp()])),
    "noise by numpy": functional(noise_of_numpy),
    "calls that are remembered": lambda: (Remembers(), table()),
    "no dropout": chain(table, (6, 3)),
    "several outputs": of(lambda m, x: (m.b(m.drop(m.a(x))), x), table, **TWO_LINEAR),
}


def hugging_face(kind: str, **options: Any) -> Factory:
    sizes = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 16}
    text = {"vocab_size": 30, "max_position_embeddings": 16, "pad_token_id": 0}
    picture = {"image_size": 8, "patch_size": 2, "num_channels": 2}
    given: dict[str, dict[str, Any]] = {
        "Bert": sizes | text,
        "Roberta": sizes | text,
        "DistilBert": {"dim": 16, "n_layers": 2, "n_heads": 2, "hidden_dim": 16} | text,
        "GPT2": {"n_embd": 16, "n_layer": 2, "n_head": 2, "n_positions": 16, "vocab_size": 30}
        | {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2},
        "Deberta": sizes | text | {"relative_attention": True, "pos_att_type": ["c2p", "p2c"]},
        "DebertaV2": sizes | text | {"relative_attention": True, "pos_att_type": ["c2p", "p2c"]},
        "ViT": sizes | picture,
        "ConvNext": {"num_channels": 2, "patch_size": 2, "hidden_sizes": [4, 6, 8, 8], "depths": [1, 1, 1, 1]},
        "Swin": {"embed_dim": 8, "depths": [1, 1], "num_heads": [2, 2], "window_size": 2} | picture,
    }

    def make() -> tuple[nn.Module, Tensor]:
        import transformers

        config = getattr(transformers, f"{kind}Config")(num_labels=3, **given[kind], **options)
        is_picture = kind in ("ViT", "ConvNext", "Swin")
        task = "ImageClassification" if is_picture else "SequenceClassification"
        net = getattr(transformers, f"{kind}For{task}")(config)
        rows = torch.randn(4, 2, 32, 32) if kind == "ConvNext" else torch.randn(4, 2, 8, 8)
        for name, parameter in net.named_parameters():  # weights as small as at the start would leave little to see
            if parameter.ndim > 1:
                parameter.data.mul_(4)
            elif name.endswith("layer_scale_parameter"):
                parameter.data.fill_(1.0)
        return net, rows if is_picture else torch.randint(1, 30, (4, 6))

    return make


NO_HIDDEN = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.3}
HUGGING_FACE: dict[str, Factory] = {
    "BERT": hugging_face("Bert"),
    "BERT, attention dropout only": hugging_face("Bert", **NO_HIDDEN),
    "BERT, attention written out": hugging_face("Bert", attn_implementation="eager"),
    "DistilBERT": hugging_face("DistilBert"),
    "RoBERTa": hugging_face("Roberta"),
    "GPT-2": hugging_face("GPT2"),
    "DeBERTa": hugging_face("Deberta"),
    "DeBERTa v2": hugging_face("DebertaV2"),
    "ViT, attention dropout only": hugging_face("ViT", **NO_HIDDEN),
    "ConvNeXt, drop path": hugging_face("ConvNext", drop_path_rate=0.3),
    "Swin, drop path": hugging_face("Swin", drop_path_rate=0.3),
}
ALL = ARCHITECTURES | {f"{name} (transformers)": factory for name, factory in HUGGING_FACE.items()}


def make(name: str) -> tuple[nn.Module, Tensor]:
    """A net, and rows of which the fourth is the first again."""
    with torch.random.fork_rng(devices=[]), quiet():
        torch.manual_seed(0)
        module, x = (ALL | REFUSED)[name]()
        x[3] = x[0]
        return module.eval(), x


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Without what torch and transformers have to say of nets that are written in old ways."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


@dataclass
class Comparison:
    """Draws of a net beside passes with dropout left on."""

    z_mean: float  # the largest of any output
    z_variance: float
    ratio: float  # of the sums of variances, draws over passes
    low: float
    high: float


def draws_of(name: str, module: nn.Module, n_draws: int = N_DRAWS) -> Functions:
    return Functions(module, n_draws, seed=_seed(name), batch_size=BATCH_SIZES.get(name, 256))


def _seed(name: str) -> int:
    return zlib.crc32(name.encode())


@torch.no_grad()
def passes(name: str, module: nn.Module, x: Tensor, n_passes: int = N_DRAWS) -> Tensor:
    """Answers with dropout left on: in training mode, but for normalisation, whose statistics are no posterior."""
    module.train()
    for part in module.modules():
        hooks = [type(hook).__name__ for hook in part._forward_pre_hooks.values()]
        is_spectral = type(part).__name__ == "_SpectralNorm" or "SpectralNorm" in hooks
        if isinstance(part, nn.modules.batchnorm._NormBase) or is_spectral:
            part.eval()
        elif hasattr(part, "counts_batches"):
            part.counts_batches = False
    with torch.random.fork_rng(devices=[]), quiet():
        torch.manual_seed(_seed(name) + 1)
        answers = torch.stack([_first_output(module(x.clone())) for _ in range(n_passes)])
    module.eval()
    return answers


def _first_output(outputs: Any) -> Tensor:
    outputs = getattr(outputs, "logits", outputs)
    return outputs["main"] if isinstance(outputs, dict) else outputs


def compare(draws: Tensor, answers: Tensor) -> Comparison:
    """Differences of the first two moments, output by output, in standard errors; rounding is allowed for.

    If draws and passes have one law, the difference of draw k and pass k is as likely as its negative, also of squares
    about the mean of all. A sum of independent symmetric differences, over the root of the sum of their squares, lies
    beyond t on either side with a probability of at most 2 exp(-t^2 / 2) (Hoeffding): 7.5e-6 for t = 5.
    """
    rounding = torch.finfo(draws.dtype).eps / 2 * float(answers.abs().double().max())
    a, b = draws.double().flatten(1), answers.double().flatten(1)
    centre = (a.mean(0) + b.mean(0)) / 2
    squares_a, squares_b = (a - centre) ** 2, (b - centre) ** 2
    z_mean = _largest_z(a - b, rounding)
    z_variance = _largest_z(squares_a - squares_b, 2 * rounding * squares_b.mean(0).sqrt())
    (sum_a, error_a), (sum_b, error_b) = map(_sum_of_variances, (a, b))
    ratio = sum_a / sum_b if sum_b else math.nan
    half = 1.96 * ratio * math.hypot(error_a / sum_a, error_b / sum_b) if sum_a and sum_b else math.nan
    return Comparison(z_mean, z_variance, ratio, ratio - half, ratio + half)


def _largest_z(differences: Tensor, rounding: float | Tensor) -> float:
    sums, squares = differences.sum(0).abs(), (differences**2).sum(0)
    beyond = (sums - len(differences) * rounding).clamp(min=0)
    return float((beyond / squares.sqrt().clamp(min=1e-300)).max())


def _sum_of_variances(answers: Tensor) -> tuple[float, float]:
    """The variances of all outputs, summed, and the standard error of the sum: outputs need not be independent."""
    of_each = ((answers - answers.mean(0)) ** 2).sum(1)
    return float(of_each.mean()), float(of_each.std() / math.sqrt(len(of_each)))


def compared(name: str) -> Comparison:
    module, x = make(name)
    with quiet():
        draws = draws_of(name, module)(x)
    return compare(draws, passes(name, module, x))


HEADER = ("architecture", "largest z of means", "largest z of variances", "ratio of variances", "its 95 % interval")


def line(name: str) -> tuple[str, ...]:
    try:
        found = compared(name)
    except ValueError as error:
        return as_rst(name), f"refused: {as_rst(str(error))}", "", "", ""
    numbers = f"{found.z_mean:.1f}", f"{found.z_variance:.1f}", f"{found.ratio:.2f}"
    return as_rst(name), *numbers, f"{found.low:.2f} to {found.high:.2f}"


def as_rst(message: str) -> str:
    """A message as reStructuredText: names in code are literals, and a name that ends in _ is no reference."""
    return re.sub(r"(\w+)_(?=[\s.,;:)]|$)", r"\1\\_", re.sub("`([^`]+)`(=\\w+)?", r"``\1\2``", message))


def main(parts: list[str]) -> None:
    lines = []
    for name in [*ALL, *REFUSED]:
        if not parts or any(part in name for part in parts):
            lines.append(line(name))
            print("  ".join(lines[-1]), flush=True)
    if not parts:
        with TABLE.open("w", newline="", encoding="utf-8") as file:
            csv.writer(file, lineterminator="\n").writerows([HEADER, *lines])


if __name__ == "__main__":
    main(sys.argv[1:])
