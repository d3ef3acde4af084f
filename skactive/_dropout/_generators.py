"""Generators that a net may draw from where no mode of torch answers: the first look refuses one that moves.

They are those of the process, those that the net holds, and those that functions of the user's own hold or name.
"""

from __future__ import annotations

import gc
import pickle
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from types import FunctionType
from typing import Any

import numpy as np
import torch

from .._utils.fingerprint import all_code, is_own
from .._utils.validation import NetError

_STATES: dict[type, tuple[Callable[[Any], Any], Callable[[Any, Any], Any]]] = {  # how it is read and set back
    np.random.Generator: (lambda own: own.bit_generator.state, lambda own, x: setattr(own.bit_generator, "state", x)),
    np.random.RandomState: (np.random.RandomState.get_state, np.random.RandomState.set_state),
    random.Random: (random.Random.getstate, random.Random.setstate),
    torch.Generator: (lambda own: own.get_state().numpy(), lambda own, x: own.set_state(torch.from_numpy(x))),
}


def generators_of(copies: dict[int, Any]) -> list[Any]:
    """Generators among all that a module holds, and those that its functions use: by a closure, a default or a name."""
    found, seen = [], set()
    left = [*copies.values()]
    for held in copies.values():  # functions are no part of a copy
        left += held.values() if isinstance(held, dict) else held if isinstance(held, list) else ()
    while left:
        value = left.pop()
        if id(value) in seen:
            continue
        seen.add(id(value))
        if type(value) in _STATES:
            found.append(value)
        left += _used(value)
    return found


def _used(value: Any) -> list[Any]:
    """What a function of the user's own uses, or a method; or what an object and its class hold, if that is theirs."""
    if isinstance(value, FunctionType):
        if not is_own(value.__module__):
            return []
        names = {name for code in all_code(value.__code__) for name in code.co_names}
        defaults = *(value.__defaults__ or ()), *(value.__kwdefaults__ or {}).values()
        return [*gc.get_referents(*value.__closure__ or ()), *defaults, *map(value.__globals__.get, names)]
    if isinstance(value, partial):
        return [value.func, *value.args, *value.keywords.values()]
    classes = [base for base in type(value).__mro__ if is_own(base.__module__)]
    held = [*getattr(value, "__dict__", {}).values()] if classes else []
    methods = [getattr(member, "__func__", member) for base in classes for member in vars(base).values()]
    return [getattr(value, "__self__", None), getattr(value, "__func__", None), *held, *methods]


@contextmanager
def no_other_randomness(name: str, own: list[Any]) -> Iterator[None]:
    """Refuse what draws random numbers that no pass has answered, and set the generators back."""
    of_torch = torch.default_generator, *torch.cuda.default_generators
    named: list[tuple[str, Any]] = [
        ("Python's random", vars(random)["_inst"]),
        ("NumPy's global generator", np.random.mtrand._rand),
        *(("torch's global generator", generator) for generator in of_torch),
        *(("a generator of its own", generator) for generator in own),
    ]
    before = [_STATES[type(generator)][0](generator) for _, generator in named]
    failure: NetError | None = None
    try:
        yield
    except NetError as error:
        failure = error
    moved = []
    for (label, generator), state in zip(named, before, strict=True):
        get, put = _STATES[type(generator)]
        if pickle.dumps(get(generator)) != pickle.dumps(state):
            put(generator, state)
            moved.append(label)
    if moved:
        raise NetError(
            "`estimator` must draw its random numbers by torch's functions in Python, which can be held fixed, and "
            f"this {name} draws some by {' and '.join(dict.fromkeys(moved))} (also by TorchScript or torch.ops). Draw "
            "them by torch.rand or bernoulli_, or give the class a method `sample_posterior(n_draws, rng)`."
        ) from failure
    if failure is not None:
        raise failure
