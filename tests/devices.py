"""A device without a GPU: torch's meta device, watched as a GPU would have to be.

Tensors on it have shapes and no values. `Device` lets the operations on them through and notes how often the host would
wait for a value and how often it would send one. It refuses what a real device would refuse: operands in different
places, and, if it is said to have none, float64. Where the host asks for a value it is told 1, or True.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

META = torch.device("meta")
aten = torch.ops.aten

COPIES = {aten._to_copy.default, aten.copy_.default}
INDEXED = {aten.index.Tensor, aten.index_put.default, aten.index_put_.default}
WITHOUT_SCALARS = {aten.cat.default, aten.stack.default, aten.mm.default, aten.addmm.default, aten.index_select.default}


class Device(TorchDispatchMode):
    """Watches the device, while it is active."""

    def __init__(self, *, has_float64: bool = True) -> None:
        super().__init__()
        self.device, self.has_float64 = META, has_float64
        self.waits: Counter[str] = Counter()  # of the host for the device, by operation
        self.sent = 0  # how often the host sent numbers to the device, and waited until they were there
        self.seeds: dict[str, set[int]] = {}  # of the generators that numbers came from, by type of their device

    @property
    def n_waits(self) -> int:
        return self.waits.total()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        tensors = [value for value in tree_leaves((args, kwargs)) if isinstance(value, Tensor)]
        self._check_one_device(func, tensors)
        generator = kwargs.get("generator")
        kwargs = {name: None if name == "generator" else value for name, value in kwargs.items()}  # which it lacks
        value = self._answer(func, args, kwargs, tensors)
        made = [x for x in tree_leaves(value) if isinstance(x, Tensor)]
        if generator is not None:
            self.seeds.setdefault((made or tensors)[0].device.type, set()).add(generator.initial_seed())
        self._check_floats(func, made)
        return value

    def _check_one_device(self, func: Any, tensors: list[Tensor]) -> None:
        if func in COPIES:
            return
        if func in INDEXED:  # indices may come from the host
            tensors, indices = tensors[:1], tensors[1:]
            self.sent += sum(
                not self._is_here(index) and index.ndim > 0 for index in indices if self._is_here(tensors[0])
            )
        places = {x.device for x in tensors if func in WITHOUT_SCALARS or x.ndim > 0 or x.device.type != "cpu"}
        if len(places) > 1:
            where = ", ".join(f"{tuple(x.shape)} on {x.device}" for x in tensors)
            raise AssertionError(f"{func} takes operands from different devices: {where}")

    def _check_floats(self, func: Any, made: Iterable[Tensor]) -> None:
        floats = {x.dtype for x in made if self._is_here(x)}
        if not self.has_float64 and floats & {torch.float64, torch.complex128}:
            raise AssertionError(f"{func} makes float64, which the device does not have")

    def _is_here(self, x: Tensor) -> bool:
        return x.device == self.device

    def _answer(self, func: Any, args: Any, kwargs: Any, tensors: list[Tensor]) -> Any:
        is_here = bool(tensors) and self._is_here(tensors[0])
        if func in COPIES:
            return self._copied(func, args, kwargs)
        if not is_here:
            return func(*args, **kwargs)
        if func in INDEXED:
            return self._indexed(func, args, kwargs)
        name = func._schema.name.removeprefix("aten::")
        asked = _ASKED.get(name)
        if asked is None or (name == "repeat_interleave" and kwargs.get("output_size") is not None):
            return func(*args, **kwargs)
        self.waits[name] += 1
        return asked(*args, **kwargs)

    def _copied(self, func: Any, args: Any, kwargs: Any) -> Any:
        if func is aten.copy_.default:
            into, source = args[:2]
        else:
            source = args[0]
            into = torch.empty(source.shape, dtype=kwargs.get("dtype"), device=kwargs.get("device") or source.device)
        comes, stays = self._is_here(source), self._is_here(into)
        if stays and not comes and source.ndim > 0 and source.itemsize > into.itemsize:
            raise AssertionError(f"{source.dtype} is sent to become {into.dtype}: cast it on the host")
        if stays and not comes and not kwargs.get("non_blocking", False) and args[2:] != (True,):
            self.sent += 1
        if comes and not stays:
            self.waits["copy to the host"] += 1
            return into.fill_(1)
        return func(*args, **kwargs)

    def _indexed(self, func: Any, args: Any, kwargs: Any) -> Any:
        x, indices, *rest = args
        if not any(index is not None and index.dtype == torch.bool for index in indices):
            return func(*args, **kwargs)
        if rest and rest[0].numel() == 1:  # is filled in, whatever the number of places
            return x
        self.waits["index by booleans"] += 1
        places: list[Tensor | None] = []
        for index in indices:
            if index is None or index.dtype != torch.bool:
                places.append(index)
            else:
                places += [_nonzero(index)[:, 0]] * index.ndim
        return func(x, places, *rest, **kwargs)


def _scalar(x: Tensor) -> bool | int | float:
    if x.dtype == torch.bool:
        return True
    return 1.0 if x.is_floating_point() else 1


def _nonzero(x: Tensor) -> Tensor:
    return torch.empty((x.numel(), x.ndim), dtype=torch.int64, device=x.device)


def _unique(x: Tensor, *args: Any, **kwargs: Any) -> tuple[Tensor, Tensor, Tensor]:
    flat, places = x.flatten(), torch.empty(x.shape, dtype=torch.int64, device=x.device)
    return flat.clone(), places, places.flatten()


_ASKED: dict[str, Any] = {
    "_local_scalar_dense": _scalar,
    "equal": lambda *_: True,
    "allclose": lambda *_, **__: True,
    "nonzero": _nonzero,
    "masked_select": lambda x, mask: x.flatten().clone(),
    "_unique2": _unique,
    "repeat_interleave": lambda x, *_, **__: torch.empty(x.shape, dtype=torch.int64, device=x.device),
    "bincount": lambda x, *_, **__: torch.empty(math.prod(x.shape), dtype=torch.int64, device=x.device),
}
