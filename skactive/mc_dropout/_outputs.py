"""Outputs of a module: which probabilities they stand for, and the loss of each row."""

from __future__ import annotations

from typing import get_args

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from .._types import Output

OUTPUTS = get_args(Output)


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
