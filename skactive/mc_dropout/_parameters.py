"""What each parameter of a net must be."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch

from .._checks import FLAG, Rule, Rules, integer, is_number, name_or_callable, number, one_of
from ._modules import ACTIVATIONS
from ._outputs import OUTPUTS
from ._training import OPTIMIZERS

_COUNT = integer()


def _are_sizes(value: Any) -> bool:
    return _COUNT.holds(value) or (isinstance(value, Sequence | np.ndarray) and all(map(_COUNT.holds, value)))


RULES: Rules = {
    "hidden_layer_sizes": Rule(_are_sizes, "a sequence of integers, each 1 or larger"),
    "dropout": number(0, 1, ends="[)"),
    "activation": name_or_callable(ACTIVATIONS, what="a torch.nn.Module class"),
    "module": Rule(callable, "a torch.nn.Module class or instance, or a function that makes one").or_none(),
    "module_params": Rule(lambda value: isinstance(value, Mapping), "a dict of keyword arguments").or_none(),
    "lr": number(0, ends="()"),
    "optimizer": name_or_callable(OPTIMIZERS, what="a torch.optim.Optimizer class"),
    "weight_decay": number(0),
    "batch_size": Rule(
        lambda value: _COUNT.holds(value) or (is_number(value) and value == -1),
        "an integer, 1 or larger, or -1 for all rows",
    ),
    "max_epochs": _COUNT,
    "n_draws": _COUNT,
    "predict_batch_size": _COUNT,
    "callbacks": Rule(lambda value: isinstance(value, list | tuple), "a list of skorch callbacks").or_none(),
    "early_stopping": FLAG,
    "warm_start": FLAG,
}
"""Of the classifier and the regressor."""

CLASSIFIER_RULES: Rules = {
    **RULES,
    "class_weight": Rule(lambda value: isinstance(value, Mapping), "a dict from label to weight")
    .or_word("balanced")
    .or_none(),
    "output": one_of(OUTPUTS),
}


def resolve_device(device: Any) -> torch.device:
    """The device that a parameter `device` names, if this machine has it."""
    if isinstance(device, str) and device == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        resolved = torch.device(device)
    except (RuntimeError, TypeError) as error:
        raise _device_error(device, "no such device type.") from error
    if resolved.type == "cpu":
        return resolved
    if resolved.type == "meta":
        raise _device_error(device, "it holds no values.")
    module = getattr(torch, resolved.type, None)
    if module is None or not module.is_available():
        raise _device_error(device, f"there is no {resolved.type.upper()} device.")
    if resolved.index is not None and resolved.index >= module.device_count():
        raise _device_error(device, f"there are {module.device_count()}, counted from 0.")
    return resolved


def _device_error(device: Any, reason: str) -> ValueError:
    return ValueError(f'`device` must be "auto", "cpu" or a torch device of this machine. Got {device!r}: {reason}')
