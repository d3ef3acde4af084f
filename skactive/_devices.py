"""What devices can do."""

from __future__ import annotations

import torch

_WITHOUT_FLOAT64 = ("mps",)


def best_float(device: torch.device) -> torch.dtype:
    """The floats of most digits that a device has."""
    return torch.float32 if device.type in _WITHOUT_FLOAT64 else torch.float64


def memory(device: torch.device) -> int:
    """Bytes that a device has for tensors; 0 if it does not say."""
    if device.type == "mps":
        return int(torch.mps.recommended_max_memory())
    if device.type in ("cuda", "xpu"):
        return int(torch.get_device_module(device).get_device_properties(device).total_memory)
    return 0
