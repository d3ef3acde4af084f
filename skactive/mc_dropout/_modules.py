"""Torch modules: the built-in net, modules of the user, what their outputs mean, and the loss of each row."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, get_args

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from .._utils.types import Output
from .._utils.validation import shown

OUTPUTS = get_args(Output)

ACTIVATIONS: dict[Any, type[nn.Module]] = {
    "elu": nn.ELU,
    "gelu": nn.GELU,
    "leaky_relu": nn.LeakyReLU,
    "relu": nn.ReLU,
    "selu": nn.SELU,
    "sigmoid": nn.Sigmoid,
    "silu": nn.SiLU,
    "tanh": nn.Tanh,
}


def mlp(n_features: int, hidden: int | Sequence[int], n_outputs: int, activation: Any, dropout: float) -> nn.Sequential:
    """The built-in net: linear, activation and dropout for each hidden layer, then a linear layer."""
    sizes = [n_features, *np.atleast_1d(hidden).astype(int).tolist()]
    activation = ACTIVATIONS.get(activation, activation)
    layers: list[nn.Module] = []
    for n_in, n_out in pairwise(sizes):
        layers += [nn.Linear(n_in, n_out), activation(), nn.Dropout(dropout)]
    return nn.Sequential(*layers, nn.Linear(sizes[-1], n_outputs))


def module_of_user(source: Any, params: Mapping[str, Any] | None, n_features_in: int, n_outputs: int) -> nn.Module:
    """A copy of a module, or what a class or function makes; it gets the dimensions that its signature names."""
    if isinstance(source, nn.Module):
        return copy.deepcopy(source).cpu()
    dimensions = {"n_features_in": n_features_in, "n_outputs": n_outputs}
    named = {name: dimensions[name] for name in inspect.signature(source).parameters if name in dimensions}
    module = source(**{**named, **(params or {})})
    if not isinstance(module, nn.Module):
        raise ValueError(f"`module` must make a torch.nn.Module. Got {type(module).__name__} instead.")
    return module


def try_module(module: nn.Module, x: Tensor) -> Tensor:
    """Outputs (n_rows, n_columns) in evaluation mode; errors name the parameter."""
    try:
        with torch.no_grad():
            outputs = module.eval()(x.clone())
    except Exception as error:
        raise ValueError(
            f"`module` failed on float32 rows of shape {tuple(x.shape[1:])}. {type(error).__name__}: {error}"
        ) from error
    if not isinstance(outputs, Tensor) or outputs.shape[:1] != x.shape[:1]:
        raise ValueError(
            f"`module` must return a tensor with one output for each row of X. Got {shown(outputs)} for {len(x)} rows."
        )
    return outputs.reshape(len(x), -1)


# Outputs


def probabilities(outputs: Tensor, output: str) -> Tensor:
    """Probabilities of all classes, on the last axis, from what a module returned."""
    outputs = _two_columns(outputs.unsqueeze(-1) if outputs.ndim == 1 else outputs, output)
    if output == "logits":
        return _softmax(outputs)
    return outputs.exp() if output == "log_probabilities" else outputs


def _two_columns(outputs: Tensor, output: str) -> Tensor:
    """Two columns for a binary net that returns one, that of the second class."""
    if outputs.shape[-1] > 1:
        return outputs
    if output == "logits":
        other = torch.zeros_like(outputs)
    elif output == "probabilities":
        other = 1 - outputs
    else:
        # log(1 - p) from log p; expm1 keeps its digits where p is near 0, and the clamp keeps it finite at p = 1
        other = torch.log(-torch.expm1(outputs.clamp(max=-1e-7)))
    return torch.cat([other, outputs], dim=-1)


def _softmax(outputs: Tensor) -> Tensor:
    # Over a short last axis torch is ten times slower than over the axis before it.
    return outputs.mT.softmax(-2).mT if outputs.shape[-1] <= 32 else outputs.softmax(-1)


class CrossEntropy(nn.Module):
    """-log p(y) of each row."""

    def __init__(self, output: str) -> None:
        super().__init__()
        self.output = output

    def forward(self, outputs: Tensor, codes: Tensor) -> Tensor:
        outputs = _two_columns(outputs.reshape(len(codes), -1), self.output)
        if self.output == "logits":
            return F.cross_entropy(outputs, codes, reduction="none")
        if self.output == "probabilities":
            outputs = torch.log(outputs + torch.finfo(outputs.dtype).eps)
        return F.nll_loss(outputs, codes, reduction="none")


class SquaredError(nn.Module):
    """Squared error of each row."""

    def forward(self, outputs: Tensor, target: Tensor) -> Tensor:
        return (outputs.reshape(len(target)) - target) ** 2


def check_declared(outputs: Tensor, output: str) -> None:
    """Check that a module returns what the parameter `output` declares."""
    if output == "logits":
        if outputs.shape[1] > 1 and _are_probabilities(outputs, 1e-6):
            raise ValueError(
                "`output`='logits' declares numbers of any sign and sum, and this `module` returns probabilities. "
                'Set `output`="probabilities".'
            )
    elif not _are_probabilities(outputs.exp() if output == "log_probabilities" else outputs, 1e-3):
        raise ValueError(
            f"`output`={output!r} declares the {output} of classes, and this `module` returns none. "
            f"Got {outputs[0].tolist()} for the first row."
        )


def _are_probabilities(outputs: Tensor, tolerance: float) -> bool:
    within = (outputs >= 0) & (outputs <= 1 + tolerance)
    return bool(within.all()) and (outputs.shape[1] == 1 or bool(((outputs.sum(1) - 1).abs() <= tolerance).all()))
