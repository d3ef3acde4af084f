"""Random numbers for torch from generators of an estimator; the global one is neither read nor written."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from .._dropout._random_calls import RandomCalls


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
# Layers without random numbers: a net of these and dropout layers is random in its dropout layers alone.
_PLAIN_LAYERS: set[type[nn.Module]] = {
    *(nn.Sequential, nn.Flatten, nn.Unflatten, nn.Identity, nn.Linear, nn.Conv1d, nn.Conv2d),
    *(nn.MaxPool1d, nn.MaxPool2d),
    *(nn.AvgPool1d, nn.AvgPool2d, nn.AdaptiveAvgPool1d, nn.AdaptiveAvgPool2d, nn.BatchNorm1d, nn.BatchNorm2d),
    *(nn.LayerNorm, nn.ELU, nn.GELU, nn.LeakyReLU, nn.ReLU, nn.SELU, nn.Sigmoid, nn.SiLU, nn.Softplus, nn.Tanh),
    *(nn.Softmax, nn.LogSoftmax),
}


class OwnRandom(RandomCalls):
    """While it is active, torch draws new weights, dropout and noise from its generators, one for each device."""

    def __init__(self, rng: np.random.Generator) -> None:
        super().__init__()
        self._seed = int(rng.integers(2**63))
        self._generators: dict[torch.device, torch.Generator] = {}

    def other(self, func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
        """Give a generator to the other random functions, and run the rest."""
        if func is F.gumbel_softmax:
            return self._gumbel_softmax(*args, **kwargs)
        if func in _LIKE:
            func, args, kwargs = _LIKE[func], (torch.empty_like(*args, **kwargs),), {}
        if (func in _LIKE.values() or func in _TAKES_GENERATOR) and kwargs.get("generator") is None:
            kwargs = {**kwargs, "generator": self.on(_device_of(func, args, kwargs))}
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

    def kept(self, x: Tensor, shape: tuple[int, ...], p: float, is_alpha: bool) -> Tensor:
        return self._uniform(shape, x.device).ge_(p).to(x.dtype)

    def slopes(self, x: Tensor) -> Tensor:
        return self._uniform(x.shape, x.device)

    @contextmanager
    def forward(self, module: nn.Module) -> Iterator[Callable[[Tensor], Tensor]]:
        """The module's forward pass in training, with these random numbers.

        An active mode costs a tenth of the time of a small net's step, because torch gives it every call. Nets of
        common layers do without: their dropout layers alone are random, and get another ``forward`` meanwhile.
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

    def _uniform(self, shape: Any, device: torch.device) -> Tensor:
        return torch.rand(shape, generator=self.on(device), device=device)

    def _gumbel_softmax(
        self, logits: Tensor, tau: float = 1, hard: bool = False, eps: float = 1e-10, dim: int = -1
    ) -> Tensor:
        """Softmax of logits with Gumbel noise (Jang, Gu and Poole 2017); ``hard`` in the forward pass only."""
        noise = -torch.empty_like(logits).exponential_(generator=self.on(logits.device)).log()
        soft = ((logits + noise) / tau).softmax(dim)
        if not hard:
            return soft
        chosen = torch.zeros_like(logits).scatter_(dim, soft.argmax(dim, keepdim=True), 1.0)
        return chosen - soft.detach() + soft


def _device_of(func: Any, args: Any, kwargs: dict[str, Any]) -> torch.device:
    """The device of the numbers that a function draws."""
    if "device" in kwargs and kwargs["device"] is not None:
        return torch.device(kwargs["device"])
    tensors = [value for value in (*args, *kwargs.values()) if isinstance(value, Tensor)]
    return tensors[0].device if tensors else torch.get_default_device()
