"""Limits on the threads of the libraries that compute."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

_LOCK = threading.Lock()
_BEFORE: list[int] = []
"""The number of torch threads before the first limit, once for each limit in force."""

_LIMITS: list[threadpool_limits] = []
"""The limits that the first call set, once for each call in force."""


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
    """One thread for torch, and for the BLAS and OpenMP libraries behind numpy, scipy and scikit-learn.

    The numbers belong to the process: the last of several threads to leave restores them.
    """
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
    """One thread for torch: small tensors are computed faster than a second thread is woken.

    The number belongs to the process: the last of several threads to leave restores it.
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
