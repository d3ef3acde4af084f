"""Limits on the threads of the libraries that compute."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]


@contextmanager
def one_thread() -> Iterator[None]:
    """One thread for torch, and for the BLAS and OpenMP libraries behind numpy, scipy and scikit-learn."""
    with threadpool_limits(1), one_torch_thread():
        yield


@contextmanager
def one_torch_thread() -> Iterator[None]:
    """One thread for torch: small tensors are computed faster than a second thread is woken."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
