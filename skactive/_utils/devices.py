"""What devices can do."""

from __future__ import annotations

import torch


def best_float(device: torch.device | str) -> torch.dtype:
    """The floats of most digits that a device has: float64, but float32 on Apple's GPUs ("mps"), which lack it."""
    return torch.float32 if torch.device(device).type == "mps" else torch.float64


def memory(device: torch.device) -> int:
    """Bytes that a device has for tensors; 0 if it does not say."""
    if device.type == "mps":
        return int(torch.mps.recommended_max_memory())
    if device.type in ("cuda", "xpu"):
        return int(torch.get_device_module(device).get_device_properties(device).total_memory)
    return 0
