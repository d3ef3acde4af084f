"""Limits on the threads of the libraries that compute."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

_LOCK = threading.Lock()
_BEFORE: list[int] = []
"""The number of threads before anybody came, once for each who is there."""


@contextmanager
def one_thread() -> Iterator[None]:
    """One thread for torch, and for the BLAS and OpenMP libraries behind numpy, scipy and scikit-learn."""
    with threadpool_limits(1), one_torch_thread():
        yield


@contextmanager
def one_torch_thread() -> Iterator[None]:
    """One thread for torch: small tensors are computed faster than a second thread is woken.

    The number belongs to the process. Who comes last puts back what it was before the first came.
    """
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
