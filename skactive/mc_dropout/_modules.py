"""Torch modules: the built-in net, modules of the user, and what a fit has to know of them."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from .._checks import NetError, NoDropoutError
from .._dropout import FixedDraws, TensorRows

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
    named = {name: dimensions[name] for name in _parameter_names(source) & dimensions.keys()}
    module = source(**{**named, **(params or {})})
    if not isinstance(module, nn.Module):
        raise ValueError(f"`module` must make a torch.nn.Module. Got {type(module).__name__} instead.")
    return module


def _parameter_names(function: Callable[..., Any]) -> set[str]:
    try:
        return set(inspect.signature(function).parameters)
    except ValueError:  # some built-in types have no signature
        return set()


def try_module(module: nn.Module, x: Tensor) -> Tensor:
    """Outputs (n_rows, n_columns) in evaluation mode; errors name the parameter."""
    try:
        with torch.no_grad():
            outputs = module.eval()(x.clone())
    except Exception as error:
        raise ValueError(
            f"`module` failed on float32 rows of shape {tuple(x.shape[1:])}. {type(error).__name__}: {error}"
        ) from error
    if not isinstance(outputs, Tensor):
        raise ValueError(f"`module` must return one tensor. Got {type(outputs).__name__} instead.")
    if outputs.ndim < 1 or len(outputs) != len(x):
        raise ValueError(
            f"`module` must return one output for each row of X. Got outputs of shape {tuple(outputs.shape)} for "
            f"{len(x)} rows."
        )
    return outputs.reshape(len(x), -1)


def has_dropout(module: nn.Module, x: Tensor) -> bool:
    """Whether anything is random in training. What cannot be held fixed is refused when draws are asked for."""
    draws = FixedDraws(module, 1, np.random.default_rng(0))
    draws.module.cpu()  # a copy
    try:
        with torch.no_grad():
            draws.learn(TensorRows(x))
    except NoDropoutError:
        return False
    except NetError:
        return True
    return True


def with_new_classes(module: nn.Module, x: Tensor, places: NDArray[Any], n_classes: int) -> nn.Module:
    """Give the last linear layer units for new classes; those of known classes, at ``places``, keep their weights."""
    n_before = len(places)
    if n_classes == n_before:
        return module
    with torch.no_grad():
        found = _last_linear(module, x)
        if found is not None and module.get_submodule(found).out_features == n_before:
            module = _with_more_units(module, found, places, n_classes)
    try:
        n_columns, cause = try_module(module, x).shape[1], None
    except ValueError as error:
        n_columns, cause = None, error
    if n_columns != n_classes:
        raise ValueError(
            f"`classes` grew from {n_before} to {n_classes}, but this `module` does not end in a torch.nn.Linear layer "
            "with one unit for each class, which could grow. Declare all labels with `classes` from the start, or set "
            "warm_start=False."
        ) from cause
    return module


def _last_linear(module: nn.Module, x: Tensor) -> str | None:
    """Name of the linear layer that runs last, if any runs; the module itself has the name ""."""
    last: list[str] = []

    def remember(name: str, *_: Any) -> None:
        last[:] = [name]

    layers = [(name, layer) for name, layer in module.named_modules() if isinstance(layer, nn.Linear)]
    hooks = [layer.register_forward_pre_hook(partial(remember, name)) for name, layer in layers]
    try:
        module(x)
    finally:
        for hook in hooks:
            hook.remove()
    return last[0] if last else None


def _with_more_units(module: nn.Module, name: str, rows: NDArray[Any], n_units: int) -> nn.Module:
    """Replace a linear layer by a larger one, whose ``rows`` are the old layer's units in their order."""
    old: Any = module.get_submodule(name)
    new = nn.Linear(
        old.in_features, n_units, bias=old.bias is not None, dtype=old.weight.dtype, device=old.weight.device
    )
    new.weight[rows] = old.weight
    if old.bias is not None:
        new.bias[rows] = old.bias
    if not name:
        return new
    parent, _, attribute = name.rpartition(".")
    setattr(module.get_submodule(parent), attribute, new)
    return module
