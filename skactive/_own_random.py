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

_FUNCTIONS = ("bernoulli", "multinomial", "normal", "poisson", "rand", "randint", "randn", "randperm")
_IN_PLACE = ("bernoulli_", "cauchy_", "exponential_", "geometric_", "log_normal_", "normal_", "random_", "uniform_")
_TAKES_GENERATOR: set[Any] = {
    *(getattr(torch, name) for name in _FUNCTIONS),
    *(getattr(Tensor, name) for name in ("bernoulli", "multinomial", *_IN_PLACE)),
    *(getattr(nn.init, name) for name in ("kaiming_uniform_", "normal_", "uniform_")),
}
_LIKE: dict[Any, Any] = {torch.rand_like: Tensor.uniform_, torch.randn_like: Tensor.normal_}
# These draw inside torch, from the global generator only.
_OPAQUE: set[Any] = {
    F.gumbel_softmax,
    F.multi_head_attention_forward,
    F.rrelu,
    F.scaled_dot_product_attention,
    torch.alpha_dropout,
    torch.dropout,
    torch.feature_alpha_dropout,
    torch.feature_dropout,
    torch.gru,
    torch.lstm,
    torch.rnn_relu,
    torch.rnn_tanh,
}
_DROPOUTS = masks.ELEMENTWISE | masks.CHANNELWISE
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
    """While it is active, torch draws from a generator of ours: weights of new layers, dropout, noise."""

    def __init__(self, rng: np.random.Generator, device: torch.device = torch.device("cpu")) -> None:  # noqa: B008
        super().__init__()
        self.generator = torch.Generator(device).manual_seed(int(rng.integers(2**63)))
        self.n_dropouts = 0  # calls with a rate above 0

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func in _DROPOUTS:
            return self._dropout(func, *args, **kwargs)
        if func in _OPAQUE:
            with self._seeded():
                return func(*args, **kwargs)
        if func in _LIKE:
            func, args, kwargs = _LIKE[func], (torch.empty_like(*args, **kwargs),), {}
        if func in _LIKE.values() or func in _TAKES_GENERATOR:
            kwargs = {**kwargs, "generator": kwargs.get("generator") or self.generator}
        return func(*args, **kwargs)

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
            vars(layer)["forward"] = partial(self._dropout, _DROPOUT_LAYERS[type(layer)], p=layer.p, training=True)
        try:
            yield module
        finally:
            for layer in dropouts:
                del vars(layer)["forward"]

    def _call(self, module: nn.Module, x: Tensor) -> Tensor:
        with self:
            return module(x)

    def _dropout(self, func: Any, input: Tensor, p: float, training: bool, inplace: bool = False) -> Tensor:
        self.n_dropouts += p > 0
        if not training or p == 0:
            return input
        shape = (*input.shape[:2], *(1,) * (input.ndim - 2)) if func in masks.CHANNELWISE else input.shape
        kept = torch.rand(shape, generator=self.generator, device=input.device).ge_(p)
        if func in masks.ALPHA:
            return _alpha_dropout(input, kept.bool(), p)
        return input * (kept.div_(1 - p) if p < 1 else kept).to(input.dtype)

    @contextmanager
    def _seeded(self) -> Iterator[None]:
        """Torch's global generator, seeded by ours and put back afterwards."""
        device = self.generator.device
        seed = int(torch.randint(2**62, (), generator=self.generator, device=device))
        with torch.random.fork_rng([device] if device.type == "cuda" else []):
            torch.default_generator.manual_seed(seed)
            if device.type == "cuda":
                torch.cuda.manual_seed(seed)
            yield


def _alpha_dropout(input: Tensor, kept: Tensor, p: float) -> Tensor:
    """Dropped units go to SELU's lower limit, then mean and variance are restored (Klambauer et al., 2017)."""
    dropped = masks.ALPHA_DROPPED
    if p == 1:
        return torch.zeros_like(input)
    scale = ((1 - p) * (1 + p * dropped**2)) ** -0.5
    return torch.where(kept, input, input.new_tensor(dropped)) * scale - scale * p * dropped
