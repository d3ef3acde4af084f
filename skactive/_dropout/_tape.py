"""A forward pass written down: the calls of torch's functions that it is made of, so that parts of it can be run again.

What does not depend on a mask is the same for all draws, and is computed once. A tape is written by running the net on
a block of rows under a mode of this thread alone: nothing in the process is patched, and no other thread notices. It
serves blocks of the same shape only, because it holds numbers of rows as constants.

There is no tape where a value leaves torch (control flow or shapes that depend on data), where a tensor comes from
outside of the pass and the module, or where a tensor is changed in place after drawn calls have taken it.
"""

from __future__ import annotations

import math
import weakref
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from ._masks import Pass
from ._nested import mapped, parts_of

FLATTEN = "flatten"

_LAYOUTS: set[Any] = {Tensor.flatten, Tensor.reshape, Tensor.view, torch.flatten, torch.reshape}
_SETTINGS = {"_set_grad_enabled"}  # no part of the computation
_HARMLESS = {  # calls that return no tensor, and nothing of the values of one
    *("__get__", "__len__", "__hash__", "__repr__", "__format__", "_is_view", "data_ptr", "dim", "element_size"),
    *("get_device", "is_complex", "is_contiguous", "is_floating_point", "is_inference", "is_signed", "is_same_size"),
    *("ndimension", "nelement", "numel", "size", "storage_offset", "stride", "is_pinned", "is_set_to", "type"),
    *("is_tensor", "result_type", "promote_types", "broadcast_shapes", "get_default_dtype"),
    *("is_grad_enabled", "is_autocast_enabled"),
    *("requires_grad_", "register_hook", "has_names", "_has_compatible_shallow_copy_type", "is_nested", "can_cast"),
}


_OF_ANY_SIZE = {  # calls whose outputs have a shape that depends on values, which no tape can know
    *("nonzero", "argwhere", "masked_select", "unique", "unique_consecutive", "_unique", "_unique2", "unique_dim"),
    *("_pack_padded_sequence", "bincount", "nested_tensor", "as_nested_tensor", "_nested_tensor_from_mask"),
}


class NotWrittenError(Exception):
    """The pass cannot be written down."""


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
    shape: tuple[int, ...] | None  # of the output, if that was one tensor
    masks: range  # positions of its random calls
    is_drawn: bool  # whether the outputs depend on a mask

    def run(self, values: dict[int, Any]) -> None:
        value = self.function(*_filled(self.args, values), **_filled(self.kwargs, values))
        for slot, part in zip(parts_of(self.outputs, Slot), parts_of(value), strict=True):
            values[slot.number] = part


@dataclass
class Tape:
    """A forward pass, its inputs and its output."""

    inputs: list[int]
    shapes: list[tuple[int, ...]]  # of the inputs
    calls: list[Call]
    output: int
    is_pure: bool  # whether the inputs stay unchanged
    taken: set[int]  # slots that drawn calls take from the others
    written: Tensor  # output of the pass as it was written
    shared: list[Call] = field(init=False)
    drawn: list[Call] = field(init=False)

    def __post_init__(self) -> None:
        self.shared = [call for call in self.calls if not call.is_drawn]
        self.drawn = [call for call in self.calls if call.is_drawn]
        self._last_use = _last_uses(self.shared, {*self.taken, self.output})
        self._last_use_drawn = _last_uses(self.drawn, {self.output})

    def run_shared(self, batch: Any) -> dict[int, Any]:
        """Values that all draws share."""
        tensors = list(parts_of(batch))
        values: dict[int, Any] = dict(zip(self.inputs, tensors if self.is_pure else _copies(tensors), strict=True))
        for call, dead in zip(self.shared, self._last_use, strict=True):
            call.run(values)
            for number in dead:
                values.pop(number, None)
        return values

    def run_drawn(self, shared: dict[int, Any]) -> Tensor:
        """The output of one draw; to be run in its pass."""
        values = dict(shared)
        for call, dead in zip(self.drawn, self._last_use_drawn, strict=True):
            call.run(values)
            for number in dead:
                values.pop(number, None)
        return values[self.output]


def record(forward: Callable[[Any], Any], batch: Any, constants: Iterable[Tensor], masks: Pass) -> Tape | None:
    """Write down ``forward(batch)`` as it runs under ``masks``; None if that is impossible."""
    tensors = _copies(list(parts_of(batch)))
    try:
        recorder = _Recorder(tensors, constants, masks)
        with masks, recorder:
            copies = iter(tensors)
            output = forward(mapped(batch, lambda _: next(copies)))
        return recorder.tape(output)
    except NotWrittenError:
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
        self._calls: list[Call] = []
        self._n_slots = 0
        self._input_tensors = inputs
        self._inputs = [self._new_slot(tensor) for tensor in inputs]
        self._versions = [_version(tensor) for tensor in inputs]

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        name = getattr(func, "__name__", "")
        if name in _SETTINGS:
            return func(*args, **kwargs)
        slots = self._slots_of((args, kwargs))
        if _is_of_any_size(name, args, kwargs):
            raise NotWrittenError
        first = self._masks.position
        held = [tensor for tensor in parts_of((args, kwargs)) if id(tensor) in self._constants]
        before = [(number, _version(tensor)) for number, tensor in slots.items()]
        of_held = [_version(tensor) for tensor in held]
        value = func(*args, **kwargs)
        masks = range(first, self._masks.position)
        has_tensors = any(True for _ in parts_of(value))
        changed = any(_version(slots[number]) != version for number, version in before)
        if _is_data(func) or [_version(tensor) for tensor in held] != of_held:
            raise NotWrittenError  # changes without a version, or of the module's tensors
        if not has_tensors and not changed:
            if name not in _HARMLESS and slots:
                raise NotWrittenError  # numbers that may decide the control flow
            return value
        is_drawn = bool(masks) or any(number in self._drawn for number in slots)
        if is_drawn:
            taken = {number: (tensor, v) for (number, v), tensor in zip(before, slots.values(), strict=True)}
            self._taken |= {n: t for n, t in taken.items() if n not in self._drawn and n not in self._taken}
        written_args, written_kwargs = self._written(args), self._written(kwargs)
        outputs = self._outputs(value, is_drawn)
        shape = tuple(value.shape) if isinstance(value, Tensor) else None
        self._calls.append(Call(func, written_args, written_kwargs, outputs, shape, masks, is_drawn))
        return value

    def tape(self, output: Any) -> Tape:
        number = self._slot(output)
        is_clean = all(_version(tensor) == version for tensor, version in self._taken.values())
        if number is None or not is_clean:
            raise NotWrittenError
        is_pure = [_version(tensor) for tensor in self._input_tensors] == self._versions
        shapes = [tuple(tensor.shape) for tensor in self._input_tensors]
        return Tape(self._inputs, shapes, self._calls, number, is_pure, set(self._taken), output)

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
                raise NotWrittenError
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


def _filled(value: Any, values: dict[int, Any]) -> Any:
    return mapped(value, lambda slot: values[slot.number], Slot)


def _slot_numbers(call: Call, *, with_outputs: bool) -> set[int]:
    parts = (call.args, call.kwargs, call.outputs if with_outputs else None)
    return {slot.number for slot in parts_of(parts, Slot)}


def _last_uses(calls: list[Call], kept: set[int]) -> list[list[int]]:
    """Slots that are not needed any more after each of the calls."""
    seen, dead = set(kept), []
    for call in reversed(calls):
        numbers = _slot_numbers(call, with_outputs=True)
        dead.append([number for number in numbers if number not in seen])
        seen |= numbers
    return dead[::-1]


def _copies(tensors: list[Tensor]) -> list[Tensor]:
    return [tensor.clone() for tensor in tensors]


def _version(tensor: Tensor) -> int:
    """How often a tensor was changed in place; inference mode does not count that."""
    if tensor.is_inference():
        raise NotWrittenError
    return tensor._version


def _is_data(func: Any) -> bool:
    """Whether it gets ``tensor.data``, whose changes do not count as changes of the tensor."""
    return getattr(getattr(func, "__self__", None), "__name__", "") == "data"


# Chains


@dataclass(frozen=True)
class Step:
    """A call of a chain, from one tensor to the next."""

    call: Call
    takes: int  # the slot of the tensor before it
    target: Any  # the function, or FLATTEN

    @property
    def masks(self) -> range:
        return self.call.masks

    @property
    def shape(self) -> tuple[int, ...]:
        return self.call.shape or ()

    def __call__(self, x: Tensor) -> Tensor:
        values = {self.takes: x}
        return self.call.function(*_filled(self.call.args, values), **_filled(self.call.kwargs, values))


def chain_of(tape: Tape) -> list[Step]:
    """Drawn calls as steps, if each takes only the tensor before it and the last gives the output; else none."""
    if len(tape.taken) != 1 or not tape.drawn:
        return []
    steps: list[Step] = []
    before, shape = next(iter(tape.taken)), _shape_of(tape, next(iter(tape.taken)))
    for call in tape.drawn:
        if _slot_numbers(call, with_outputs=False) != {before} or not isinstance(call.outputs, Slot):
            return []
        flat = shape is not None and _flattens(call.function, shape, call.shape or ())
        steps.append(Step(call, before, FLATTEN if flat else call.function))
        before, shape = call.outputs.number, call.shape
    return steps if before == tape.output else []


def run_steps(steps: list[Step], x: Tensor) -> Tensor:
    for step in steps:
        x = step(x)
    return x


def _shape_of(tape: Tape, number: int) -> tuple[int, ...] | None:
    inputs = dict(zip(tape.inputs, tape.shapes, strict=True))
    return next((call.shape for call in tape.shared if call.outputs == Slot(number)), inputs.get(number))


def _flattens(function: Any, before: tuple[int, ...], after: tuple[int, ...]) -> bool:
    """Whether the values of each row are laid out on one axis, whichever function does it."""
    return function in _LAYOUTS and len(before) > 2 and after == (before[0], math.prod(before[1:]))
