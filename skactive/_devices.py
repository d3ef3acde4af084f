"""What devices can do."""

from __future__ import annotations

import torch

_WITHOUT_FLOAT64 = ("mps",)


def best_float(device: torch.device) -> torch.dtype:
    """The floats of most digits that a device has."""
    return torch.float32 if device.type in _WITHOUT_FLOAT64 else torch.float64
