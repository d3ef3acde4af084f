"""What the devices of tensors can do."""

from __future__ import annotations

import torch

__all__ = ["best_float"]


def best_float(device: torch.device | str) -> torch.dtype:
    """The most precise floating-point type of a device: float64, but float32 on Apple's GPUs ("mps"), which lack it."""
    return torch.float32 if torch.device(device).type == "mps" else torch.float64
