"""What computes: the floats and the memory of devices, and limits on the threads of libraries."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

_LOCK = threading.Lock()
# Limits belong to the process: the last of several threads to leave restores what was before the first.
_BEFORE: list[int] = []  # the number of torch threads before, once for each limit in force
_LIMITS: list[threadpool_limits] = []  # the limits that the first call set, once for each call in force


def best_float(device: torch.device | str) -> torch.dtype:
    """The floats of most digits that a device has: float64, but float32 on Apple's GPUs ("mps"), which lack it."""
    return torch.float32 if torch.device(device).type == "mps" else torch.float64


def free_memory(device: torch.device) -> int:
    """Bytes that a device has left for tensors, also beside other programs; 0 if it does not say."""
    if device.type == "mps":
        return int(torch.mps.recommended_max_memory() - torch.mps.current_allocated_memory())
    module: Any = torch.get_device_module(device) if device.type in ("cuda", "xpu") else None
    if hasattr(module, "mem_get_info"):  # which torch.xpu has got since 2.6
        unused = module.memory_reserved(device) - module.memory_allocated(device)  # of what torch holds
        return int(module.mem_get_info(device)[0] + unused)
    return 0


class Lock:
    """A lock whose copies, in another process say, are new locks: what holds it can be pickled."""

    def __init__(self) -> None:
        self._lock = threading.RLock()

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(self, *error: object) -> None:
        self._lock.release()

    def __reduce__(self) -> tuple[type[Lock], tuple[()]]:
        return Lock, ()


@contextmanager
def one_thread() -> Iterator[None]:
    """One thread for torch, and for the BLAS and OpenMP libraries behind numpy, scipy and scikit-learn."""
    with _LOCK:
        _LIMITS.append(_LIMITS[0] if _LIMITS else threadpool_limits(1))
    try:
        with one_torch_thread():
            yield
    finally:
        with _LOCK:
            limits = _LIMITS.pop()
            if not _LIMITS:
                limits.restore_original_limits()


@contextmanager
def one_torch_thread() -> Iterator[None]:
    """One thread for torch: small tensors are computed faster than a second thread is woken."""
    with _LOCK:
        before = _BEFORE[0] if _BEFORE else torch.get_num_threads()
        _BEFORE.append(before)
        torch.set_num_threads(1)
    try:
        yield
    finally:
        with _LOCK:
            _BEFORE.pop()
            torch.set_num_threads(1 if _BEFORE else before)
