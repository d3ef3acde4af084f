"""Random numbers for torch from a generator of ours: torch's global one is neither read nor written."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode

from . import _masks as masks
from ._inner_dropout import ANSWERS

_FUNCTIONS = ("bernoulli", "multinomial", "normal", "poisson", "rand", "randint", "randn", "randperm")
_IN_PLACE = ("bernoulli_", "cauchy_", "exponential_", "geometric_", "log_normal_", "normal_", "random_", "uniform_")
_TAKES_GENERATOR: set[Any] = {
    *(getattr(torch, name) for name in _FUNCTIONS),
    *(getattr(Tensor, name) for name in ("bernoulli", "multinomial", *_IN_PLACE)),
    *(getattr(nn.init, name) for name in ("kaiming_uniform_", "normal_", "uniform_")),
}
_LIKE: dict[Any, Any] = {torch.rand_like: Tensor.uniform_, torch.randn_like: Tensor.normal_}
_DROPOUT_LAYERS: dict[type[nn.Module], Any] = {
    nn.AlphaDropout: F.alpha_dropout,
    nn.Dropout: F.dropout,
    nn.Dropout1d: F.dropout1d,
    nn.Dropout2d: F.dropout2d,
    nn.Dropout3d: F.dropout3d,
    nn.FeatureAlphaDropout: F.feature_alpha_dropout,
}
# What else a net may be made of, if nothing but its dropout layers is to be random.
_PLAIN_LAYERS: set[type[nn.Module]] = {
    *(
        nn.Sequential,
        nn.Flatten,
        nn.Unflatten,
        nn.Identity,
        nn.Linear,
        nn.Conv1d,
        nn.Conv2d,
        nn.MaxPool1d,
        nn.MaxPool2d,
    ),
    *(nn.AvgPool1d, nn.AvgPool2d, nn.AdaptiveAvgPool1d, nn.AdaptiveAvgPool2d, nn.BatchNorm1d, nn.BatchNorm2d),
    *(nn.LayerNorm, nn.ELU, nn.GELU, nn.LeakyReLU, nn.ReLU, nn.SELU, nn.Sigmoid, nn.SiLU, nn.Softplus, nn.Tanh),
    *(nn.Softmax, nn.LogSoftmax),
}


class OwnRandom(TorchFunctionMode):
    """While it is active, torch draws from generators of ours, one for each device: new weights, dropout, noise."""

    def __init__(self, rng: np.random.Generator) -> None:
        super().__init__()
        self._seed = int(rng.integers(2**63))
        self._generators: dict[torch.device, torch.Generator] = {}

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        func = masks.BELOW.get(func, func)
        if func in masks.DROPOUTS:
            return self._dropout(func, *args, **kwargs)
        if func in ANSWERS:
            return ANSWERS[func](self, *args, **kwargs)
        if func in _WRITTEN_OUT:
            return _WRITTEN_OUT[func](self, *args, **kwargs)
        if func in _LIKE:
            func, args, kwargs = _LIKE[func], (torch.empty_like(*args, **kwargs),), {}
        if (func in _LIKE.values() or func in _TAKES_GENERATOR) and kwargs.get("generator") is None:
            kwargs = {**kwargs, "generator": self.on(_device_of(func, args, kwargs))}
        return func(*args, **kwargs)

    def on(self, device: torch.device) -> torch.Generator:
        """Our generator on a device."""
        if device.index is None and device.type != "cpu":
            device = torch.empty(0, device=device).device  # the current one, whose numbers they are
        if device not in self._generators:
            seed = (self._seed + len(self._generators)) % 2**63
            self._generators[device] = torch.Generator(device).manual_seed(seed)
        return self._generators[device]

    def rate(self, p: float, training: bool = True) -> float:
        """The rate of dropout inside of attention and recurrent layers."""
        return p if training else 0.0

    def drop(self, x: Tensor, p: float) -> Tensor:
        return self._dropout(F.dropout, x, p, training=True)

    @contextmanager
    def forward(self, module: nn.Module) -> Iterator[Callable[[Tensor], Tensor]]:
        """The module's forward pass in training, with our random numbers.

        Torch hands every call to an active mode, a tenth of the time that a step of a small net takes. Nets of common
        layers do without: their dropout layers are random, and get a forward pass of ours meanwhile.
        """
        dropouts: list[Any] = [layer for layer in module.modules() if type(layer) in _DROPOUT_LAYERS]
        if not {type(layer) for layer in module.modules()} <= _PLAIN_LAYERS | _DROPOUT_LAYERS.keys():
            yield partial(self._call, module)
            return
        for layer in dropouts:
            vars(layer)["forward"] = partial(
                self._dropout, _DROPOUT_LAYERS[type(layer)], p=layer.p, training=True, inplace=layer.inplace
            )
        try:
            yield module
        finally:
            for layer in dropouts:
                del vars(layer)["forward"]

    def _call(self, module: nn.Module, x: Tensor) -> Tensor:
        with self:
            return module(x)

    def _dropout(
        self,
        func: Any,
        input: Tensor,
        p: float = 0.5,
        training: bool = False,
        inplace: bool = False,
        train: bool = False,
    ) -> Tensor:
        if not (training or train) or p == 0:
            return input
        kept = self.uniform(masks.noise_shape(func, input), input.device).ge_(p)
        if func in masks.ALPHA:
            dropped = _alpha_dropout(input, kept.bool(), p)
        else:
            dropped = input * (kept.div_(1 - p) if p < 1 else kept).to(input.dtype)
        return input.copy_(dropped) if inplace else dropped

    def uniform(self, shape: Any, device: torch.device) -> Tensor:
        return torch.rand(shape, generator=self.on(device), device=device)


def _device_of(func: Any, args: Any, kwargs: dict[str, Any]) -> torch.device:
    """Where the numbers that a function draws are going to be."""
    if "device" in kwargs and kwargs["device"] is not None:
        return torch.device(kwargs["device"])
    tensors = [value for value in (*args, *kwargs.values()) if isinstance(value, Tensor)]
    return tensors[0].device if tensors else torch.get_default_device()


def _rrelu(
    own: OwnRandom,
    input: Tensor,
    lower: float = 1 / 8,
    upper: float = 1 / 3,
    training: bool = False,
    inplace: bool = False,
) -> Tensor:
    slope = own.uniform(input.shape, input.device) * (upper - lower) + lower if training else (lower + upper) / 2
    answer = torch.where(input >= 0, input, input * slope)
    return input.copy_(answer) if inplace else answer


def _gumbel_softmax(
    own: OwnRandom, logits: Tensor, tau: float = 1, hard: bool = False, eps: float = 1e-10, dim: int = -1
) -> Tensor:
    """Softmax of logits with Gumbel noise (Jang, Gu and Poole 2017); ``hard`` in the forward pass only."""
    noise = -torch.empty_like(logits).exponential_(generator=own.on(logits.device)).log()
    soft = ((logits + noise) / tau).softmax(dim)
    if not hard:
        return soft
    chosen = torch.zeros_like(logits).scatter_(dim, soft.argmax(dim, keepdim=True), 1.0)
    return chosen - soft.detach() + soft


_WRITTEN_OUT: dict[Any, Any] = {F.rrelu: _rrelu, torch.rrelu: _rrelu, F.gumbel_softmax: _gumbel_softmax}


def _alpha_dropout(input: Tensor, kept: Tensor, p: float) -> Tensor:
    """Dropped units go to SELU's lower limit, then mean and variance are restored (Klambauer et al., 2017)."""
    dropped = masks.ALPHA_DROPPED
    if p == 1:
        return torch.zeros_like(input)
    scale = ((1 - p) * (1 + p * dropped**2)) ** -0.5
    return torch.where(kept, input, dropped) * scale - scale * p * dropped
