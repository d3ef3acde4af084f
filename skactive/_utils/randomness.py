"""Random generators: made from a ``random_state``, and the global ones, seeded for one call.

skorch nets and many strategies of users (``np.random.choice``) draw from the global generators of torch and numpy. In
an experiment they must draw the same numbers in every process and after every interruption. One thread at a time gets
them; estimators that are known to need none are fitted without.
"""

from __future__ import annotations

import functools
import inspect
import random
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import numpy as np
from sklearn.base import clone

_LENT = threading.RLock()


def seeded_for(estimator: Any, seed: int) -> AbstractContextManager[None]:
    """`seeded`, for a fit of this estimator; nothing if it takes every random number from its ``random_state``."""
    return nullcontext() if draws_by_itself(estimator) else seeded(seed)


def draws_by_itself(estimator: Any) -> bool:
    """Whether it is of scikit-learn or this package in all its parts, and no function of the user's is among them."""
    params = estimator.get_params().values()
    parts = [estimator, *(value for value in params if hasattr(value, "get_params"))]
    known = all(type(part).__module__.partition(".")[0] in {"sklearn", "skactive"} for part in parts)
    return known and not any(inspect.isroutine(value) or isinstance(value, functools.partial) for value in params)


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Start the global generators of Python, numpy and torch from ``seed``; they are as before afterwards."""
    import torch  # takes a second, and who asks for a generator alone does not need it

    devices = range(torch.cuda.device_count()) if torch.cuda.is_initialized() else []
    has_unused = torch.cuda.is_available() and not devices
    with _LENT, torch.random.fork_rng(devices):
        own_seed = torch.initial_seed()
        states = random.getstate(), np.random.get_state()  # noqa: NPY002
        try:
            random.seed(seed)
            np.random.seed(seed)  # noqa: NPY002
            torch.default_generator.manual_seed(seed)
            if torch.cuda.is_available():
                torch.cuda.manual_seed_all(seed)  # waits for CUDA to be in use
            yield
        finally:
            random.setstate(states[0])
            np.random.set_state(states[1])  # noqa: NPY002
            if has_unused:  # a generator of CUDA that nobody has used begins with the seed of the host's
                torch.cuda.manual_seed_all(own_seed)


def check_random_state(random_state: Any) -> np.random.Generator:
    """Turn `random_state` (None, int, RandomState, Generator, SeedSequence) into a `numpy.random.Generator`."""
    if isinstance(random_state, np.random.RandomState):
        return np.random.default_rng(random_state.randint(2**31 - 1, size=4))
    try:
        return np.random.default_rng(random_state)
    except (TypeError, ValueError) as error:
        raise type(error)(
            f"`random_state` must be None, a non-negative integer, a numpy Generator or a RandomState. "
            f"Got {random_state!r} instead."
        ) from error


def spawn(rng: np.random.Generator, n: int) -> list[np.random.Generator]:
    """``n`` independent generators, whatever ``rng`` was made from."""
    return [np.random.default_rng(seed) for seed in rng.integers(2**63, size=(n, 4))]


def seeded_clone(estimator: Any, rng: np.random.Generator) -> Any:
    """A clone in which every ``random_state``, those of its parts included, is a new seed."""
    twin = clone(estimator)
    names = sorted(name for name in twin.get_params() if name.split("__")[-1] == "random_state")
    twin.set_params(**{name: int(rng.integers(2**31 - 1)) for name in names})
    return twin  # a FrozenEstimator's set_params does not return it


def check_rng(rng: Any) -> None:
    if not isinstance(rng, np.random.Generator):
        raise TypeError(
            f"`rng` must be a numpy.random.Generator, as numpy.random.default_rng(seed) makes it. Got {rng!r} instead."
        )
