"""A forward pass recorded as calls of torch's functions, to compute once what all draws share.

There is none where a value leaves torch (control flow or shapes that depend on data), where a tensor comes from outside
of the pass and the module, or where a tensor is changed in place after drawn calls have taken it.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from ._dropout_calls import ANSWERED, Pass
from ._rows import copied, mapped, parts_of

_SETTINGS = {"_set_grad_enabled"}  # no part of the computation
_HARMLESS = {  # calls that return no tensor, and nothing of the values of one
    *("__get__", "__len__", "__hash__", "__repr__", "__format__", "_is_view", "data_ptr", "dim", "element_size"),
    *("get_device", "is_complex", "is_contiguous", "is_floating_point", "is_inference", "is_signed", "is_same_size"),
    *("ndimension", "nelement", "numel", "size", "storage_offset", "stride", "is_pinned", "is_set_to", "type"),
    *("is_tensor", "result_type", "promote_types", "broadcast_shapes", "get_default_dtype"),
    *("is_grad_enabled", "is_autocast_enabled"),
    *("requires_grad_", "register_hook", "has_names", "_has_compatible_shallow_copy_type", "is_nested", "can_cast"),
}
_OF_ANY_SIZE = {  # calls whose outputs have a shape that depends on values, which no recording can know
    *("nonzero", "argwhere", "masked_select", "unique", "unique_consecutive", "_unique", "_unique2", "unique_dim"),
    *("_pack_padded_sequence", "bincount", "nested_tensor", "as_nested_tensor", "_nested_tensor_from_mask"),
}
_NESTED = tuple, list, dict, slice
_NO_PASS = nullcontext()


class NotRecordedError(Exception):
    """The pass cannot be recorded."""


@dataclass(frozen=True)
class Slot:
    """Stands for a tensor that differs between passes."""

    number: int


@dataclass(frozen=True)
class Call:
    """A call of a torch function."""

    function: Any
    args: Any
    kwargs: Any
    outputs: Any  # as returned, with slots for tensors
    before: tuple[int, ...] | None  # shape of the first tensor that it takes, if that differs between passes
    shape: tuple[int, ...]  # of the output, if that was one tensor
    masks: range  # positions of its random calls

    def run(self, values: dict[int, Any]) -> None:
        """Make the call, and put its outputs among the values."""

        def filled(value: Any) -> Any:
            if isinstance(value, Slot):
                return values[value.number]
            return mapped(value, lambda slot: values[slot.number], Slot) if isinstance(value, _NESTED) else value

        kwargs = {name: filled(value) for name, value in self.kwargs.items()}
        value = self.function(*map(filled, self.args), **kwargs)
        for slot, part in zip(parts_of(self.outputs, Slot), parts_of(value), strict=True):
            values[slot.number] = part

    def __call__(self, x: Tensor) -> Tensor:
        """The output for the one tensor that it takes."""
        args, kwargs = (mapped(value, lambda _: x, Slot) for value in (self.args, self.kwargs))
        return self.function(*args, **kwargs)

    @property
    def taken(self) -> set[int]:
        return {slot.number for slot in parts_of((self.args, self.kwargs), Slot)}


@dataclass
class Recording:
    """A forward pass, its inputs and its output."""

    inputs: list[int]
    shared: list[Call]
    drawn: list[Call]  # those whose outputs depend on a mask
    output: int
    taken: set[int]  # slots that drawn calls take from the others
    written: Tensor  # the output of the pass that was recorded

    def __post_init__(self) -> None:
        self._dead = _last_uses(self.shared, {*self.taken, self.output})
        self._dead_drawn = _last_uses(self.drawn, {self.output})

    def run_shared(self, batch: Any, masks: Pass) -> dict[int, Any]:
        """Values that all draws share, by a plain pass."""
        return _run(self.shared, self._dead, dict(zip(self.inputs, parts_of(copied(batch)), strict=True)), masks)

    def run_drawn(self, values: dict[int, Any], masks: Pass, start: int = 0) -> Tensor:
        """The output of one draw, from one of the drawn calls on, by the pass of the draw."""
        return _run(self.drawn[start:], self._dead_drawn[start:], dict(values), masks)[self.output]

    def chain(self) -> list[Call]:
        """Drawn calls, if each takes only the tensor before it and the last gives the output; else none."""
        before = self.taken
        for call in self.drawn:
            if len(before) != 1 or call.taken != before or not isinstance(call.outputs, Slot):
                return []
            before = {call.outputs.number}
        return self.drawn if before == {self.output} else []


def _run(calls: list[Call], dead: list[list[int]], values: dict[int, Any], masks: Pass) -> dict[int, Any]:
    for call, numbers in zip(calls, dead, strict=True):
        with masks if call.function in ANSWERED else _NO_PASS:  # which would cost each call twice a mode's way
            call.run(values)
        for number in numbers:
            values.pop(number, None)
    return values


def _last_uses(calls: list[Call], kept: set[int]) -> list[list[int]]:
    """Slots that are not needed any more after each of the calls."""
    seen, dead = set(kept), []
    for call in reversed(calls):
        numbers = call.taken | {slot.number for slot in parts_of(call.outputs, Slot)}
        dead.append([number for number in numbers if number not in seen])
        seen |= numbers
    return dead[::-1]


def record(forward: Callable[[Any], Any], batch: Any, constants: Iterable[Tensor], masks: Pass) -> Recording | None:
    """Record ``forward(batch)`` as it runs under ``masks``; None if that is impossible."""
    batch = copied(batch)
    try:
        recorder = _Recorder(list(parts_of(batch)), constants, masks)
        with masks, recorder:
            output = forward(batch)
        return recorder.recording(output)
    except NotRecordedError:
        return None


class _Recorder(TorchFunctionMode):
    """Notes the calls of torch functions; to be entered after the pass that answers them."""

    def __init__(self, inputs: list[Tensor], constants: Iterable[Tensor], masks: Pass) -> None:
        super().__init__()
        self._masks = masks
        self._constants = {id(tensor): tensor for tensor in constants}
        # By the identity of a tensor, with a weak reference: a later tensor may get the same identity.
        self._slots: dict[int, tuple[weakref.ref[Tensor], int]] = {}
        self._drawn: set[int] = set()
        self._taken: dict[int, tuple[Tensor, int]] = {}  # and the version of the tensor
        self._calls: tuple[list[Call], list[Call]] = [], []  # shared and drawn
        self._n_slots = 0
        self._inputs = [self._new_slot(tensor) for tensor in inputs]

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        name = getattr(func, "__name__", "")
        if name in _SETTINGS:
            return func(*args, **kwargs)
        slots = self._slots_of((args, kwargs))
        if _is_of_any_size(name, args, kwargs):
            raise NotRecordedError
        first = self._masks.position
        held = [tensor for tensor in parts_of((args, kwargs)) if id(tensor) in self._constants]
        before = [(number, _version(tensor)) for number, tensor in slots.items()]
        of_held = [_version(tensor) for tensor in held]
        value = func(*args, **kwargs)
        masks = range(first, self._masks.position)
        has_tensors = any(True for _ in parts_of(value))
        changed = any(_version(slots[number]) != version for number, version in before)
        if _is_data(func) or [_version(tensor) for tensor in held] != of_held:
            raise NotRecordedError  # changes without a version, or of the module's tensors
        if not has_tensors and not changed:
            if name not in _HARMLESS and slots:
                raise NotRecordedError  # numbers that may decide the control flow
            return value
        is_drawn = bool(masks) or any(number in self._drawn for number in slots)
        if is_drawn:
            taken = {number: (tensor, v) for (number, v), tensor in zip(before, slots.values(), strict=True)}
            self._taken |= {n: t for n, t in taken.items() if n not in self._drawn and n not in self._taken}
        before_shape = next((tuple(tensor.shape) for tensor in slots.values()), None)
        written_args, written_kwargs = self._written(args), self._written(kwargs)
        outputs = self._outputs(value, is_drawn)
        shape = tuple(value.shape) if isinstance(value, Tensor) else ()
        self._calls[is_drawn].append(Call(func, written_args, written_kwargs, outputs, before_shape, shape, masks))
        return value

    def recording(self, output: Any) -> Recording:
        number = self._slot(output)
        is_clean = all(_version(tensor) == version for tensor, version in self._taken.values())
        if number is None or not is_clean:
            raise NotRecordedError
        return Recording(self._inputs, *self._calls, number, set(self._taken), output)

    def _new_slot(self, tensor: Tensor) -> int:
        self._slots[id(tensor)] = weakref.ref(tensor), self._n_slots
        self._n_slots += 1
        return self._n_slots - 1

    def _slot(self, tensor: Tensor) -> int | None:
        known, number = self._slots.get(id(tensor), (None, None))
        return number if known is not None and known() is tensor else None

    def _slots_of(self, value: Any) -> dict[int, Tensor]:
        """Slots of the tensors in a value, without constants."""
        found = {}
        for tensor in parts_of(value):
            number = self._slot(tensor)
            if number is not None:
                found[number] = tensor
            elif id(tensor) not in self._constants:
                raise NotRecordedError
        return found

    def _written(self, value: Any) -> Any:
        def slot(tensor: Tensor) -> Slot | Tensor:
            number = self._slot(tensor)
            return tensor if number is None else Slot(number)

        return mapped(value, slot)

    def _outputs(self, value: Any, is_drawn: bool) -> Any:
        def slot(tensor: Tensor) -> Slot:
            number = self._new_slot(tensor)
            if is_drawn:
                self._drawn.add(number)
            return Slot(number)

        return mapped(value, slot)


def _is_of_any_size(name: str, args: Any, kwargs: Any) -> bool:
    """Whether the shape of the output depends on values."""
    if name == "where":
        return len(args) + len(kwargs) == 1
    if name == "__getitem__":
        return any(index.dtype in (torch.bool, torch.uint8) for index in parts_of(args[1]))
    if name == "repeat_interleave":
        is_given = kwargs.get("output_size") is not None
        return not is_given and any(True for _ in parts_of((args[1:], kwargs.get("repeats"))))
    return name in _OF_ANY_SIZE


def _version(tensor: Tensor) -> int:
    """How often a tensor was changed in place; inference mode does not count that."""
    if tensor.is_inference():
        raise NotRecordedError
    return tensor._version


def _is_data(func: Any) -> bool:
    """Whether it gets ``tensor.data``, whose changes do not count as changes of the tensor."""
    return getattr(getattr(func, "__self__", None), "__name__", "") == "data"
