"""The first look at a net: which random calls a pass over one row makes, and that nothing else is random in it.

Where no mode of torch answers, a generator moves: one of the process, of the net, or of functions of the user's own.
"""

from __future__ import annotations

import dis
import gc
import pickle
import random
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from types import FunctionType
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from .._utils.fingerprint import all_code, is_own
from .._utils.validation import NetError, NoDropoutError
from ._dropout_calls import Pass, Sites, plain_pass
from ._frozen_net import FrozenNet
from ._rows import copied

_STATES: dict[type, tuple[Callable[[Any], Any], Callable[[Any, Any], Any]]] = {  # how it is read and set back
    np.random.Generator: (lambda own: own.bit_generator.state, lambda own, x: setattr(own.bit_generator, "state", x)),
    np.random.RandomState: (np.random.RandomState.get_state, np.random.RandomState.set_state),
    random.Random: (random.Random.getstate, random.Random.setstate),
    torch.Generator: (lambda own: own.get_state().numpy(), lambda own, x: own.set_state(torch.from_numpy(x))),
}


def learn_random_calls(net: FrozenNet, one: Any, sites: Sites, originals: dict[int, nn.Module]) -> Tensor:
    """Set the copy so that it differs from evaluation by its random calls alone, and find these; its plain outputs.

    Layers may look at ``self.training`` to switch their dropout on. So all parts are put in training mode, except those
    that normalise. With everything random switched off, the copy then has to return the same as in evaluation mode for
    a batch of ``one`` row; it may return other outputs beside.
    """
    net.module.eval()
    plain, masks = net.plain(one, 1)
    sites.reads_values = masks.reads_values
    net.check_count(plain, 1)
    if plain.device.type != "meta" and bool(plain.isnan().any()):
        raise NetError(
            f"`estimator` must return numbers, but this {net.name} returns NaN for the first row: its training "
            "diverged, or values of the row are missing or very large."
        )
    _train_all_but_norms(net.module)
    failure = ""
    try:
        is_same = _find_calls(net, one, sites, plain, _NoOriginals(originals, net.module))
    except NetError as error:
        if error.__cause__ is None:
            raise
        failure, is_same = f" ({error.__cause__!r})", False  # from the module, which may need labels in training
    if not is_same:
        raise NetError(
            "`estimator` must differ between training and evaluation only by its dropout, but the outputs of this "
            f"{net.name} also differ with dropout switched off{failure}. Let only dropout and normalisation depend on "
            "`self.training`, keep no state between calls, and draw random numbers by torch.rand or bernoulli_; or "
            "give the class a method `sample_posterior(n_draws, rng)`."
        )
    if not sites.at:
        raise NoDropoutError(
            f"`estimator` must have a dropout layer with a rate above 0 to be drawn from, but this {net.name} has "
            "none: all draws would be the same function and BALD 0 everywhere. Add torch.nn.Dropout layers or set "
            'their rates above 0, or give the query posterior="bootstrap".'
        )
    return plain


def _find_calls(net: FrozenNet, one: Any, sites: Sites, plain: Tensor, watch: _NoOriginals) -> bool:
    """Find the random calls of a pass over a row; whether outputs without anything random are those of evaluation."""
    sites.at = []
    masks = Pass(sites, 0, 1, learns=True)
    raw: list[nn.Module] = []
    with _calling_parts(net.module) as calling:
        masks.on_raw_call = lambda: raw.append(calling[-1])
        with masks, watch:
            net.all_outputs(copied(one))
    modes = [(part, part.training) for part in raw]
    for part in raw:  # parts that draw random numbers by themselves are switched off by evaluation mode
        part.training = False
    try:
        with plain_pass(1):
            return net.find(plain, net.all_outputs(copied(one)))
    finally:
        for part, mode in reversed(modes):
            part.training = mode


def _train_all_but_norms(module: nn.Module) -> None:
    """Training mode, in which normalisation goes on by the statistics of training, and keeps them."""
    module.train()
    for part in filter(_normalises, module.modules()):
        part.training = False


def _normalises(part: nn.Module) -> bool:
    names = {type(part).__name__, *(type(hook).__name__ for hook in part._forward_pre_hooks.values())}
    return isinstance(part, nn.modules.batchnorm._NormBase) or bool(names & {"_SpectralNorm", "SpectralNorm"})


@contextmanager
def _calling_parts(module: nn.Module) -> Iterator[list[nn.Module]]:
    """A list that holds, at any time, the parts of a module whose forward passes are running."""
    calling: list[nn.Module] = [module]
    parts = [part for part in module.modules() if not isinstance(part, torch.jit.ScriptModule)]  # which take no hooks
    hooks = [part.register_forward_pre_hook(lambda part, _: calling.append(part)) for part in parts]
    hooks += [part.register_forward_hook(lambda *_: (calling.pop(), None)[1]) for part in parts]
    try:
        yield calling
    finally:
        for hook in hooks:
            hook.remove()


# Generators


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
    held = [*(_attribute(value, "__dict__") or {}).values()] if classes else []
    methods = [_attribute(member, "__func__") or member for base in classes for member in vars(base).values()]
    return [_attribute(value, "__self__"), _attribute(value, "__func__"), *held, *methods]


def _attribute(value: Any, name: str) -> Any:
    """An attribute, by Python's own rule: a user's ``__getattr__`` may answer to all names, or fail."""
    with suppress(AttributeError):
        return object.__getattribute__(value, name)


@contextmanager
def no_other_randomness(name: str, own: Iterable[Any]) -> Iterator[None]:
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
            "`estimator` must draw its random numbers by torch's functions in Python, which can be held fixed, but "
            f"this {name} draws some by {' and '.join(dict.fromkeys(moved))} (also by TorchScript or torch.ops). Draw "
            "them by torch.rand or bernoulli_, or give the class a method `sample_posterior(n_draws, rng)`."
        ) from failure
    if failure is not None:
        raise failure


# Functions that hold on to the module


class _NoOriginals(TorchFunctionMode):
    """Refuses calls by functions that hold on to the module that was copied (patched forward passes, hooks).

    A copy takes functions along as they are, in whatever they lie: what they run shows what they hold.
    """

    def __init__(self, originals: dict[int, nn.Module], module: nn.Module) -> None:
        super().__init__()
        self._own = {id(part) for part in module.modules()}
        self._originals = originals.keys() - self._own

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        frame: Any = sys._getframe(1)
        function = ""
        while frame.f_code is not _find_calls.__code__:
            held = {id(value) for value in frame.f_locals.values()} | _globals_of(frame, self._originals)
            if held & self._originals:
                function = frame.f_code.co_qualname
            if held & self._own:
                break
            frame = frame.f_back
        if function:
            raise NetError(
                f"`estimator` must be a module that can be copied, but a function that it runs ({function}) holds on "
                "to the module itself or a part of it, so that a copy would run the original. Make it a method of the "
                "module's class, or a hook that uses its first argument alone."
            )
        return func(*args, **(kwargs or {}))


def _globals_of(frame: Any, wanted: set[int]) -> set[int]:
    """Which of the wanted objects the code of a frame takes by a global name."""
    found = {name: id(frame.f_globals.get(name)) for name in frame.f_code.co_names}
    if not set(found.values()) & wanted:
        return set()  # most of them: reading the code takes longer
    names = {step.argval for step in dis.get_instructions(frame.f_code) if step.opname == "LOAD_GLOBAL"}
    return {number for name, number in found.items() if name in names}
