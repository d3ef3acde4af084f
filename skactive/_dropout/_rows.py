"""Rows of a pool in the blocks that go through a net, and tensors in nested values.

In floating point the last bits of an output depend on the shape of the block and the row's place in it. So a net always
sees the same blocks, cut at multiples of the block size from the first row on: rows streamed in chunks of whole blocks
get the same bits for every chunk size. Nothing is padded.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Protocol, Self

import torch
from torch import Tensor

from .._utils.validation import integer, warn

BLOCK = 256
"""Rows in one forward pass by default: enough to keep two cores busy, few enough for the cache."""

_BLOCK_BYTES = 32 * 2**20  # what a block's passes leave, and the draws made of it, stand side by side


class Rows(Protocol):
    """Rows of a pool, as batches for a net."""

    def __len__(self) -> int: ...

    def take(self, rows: range | list[int]) -> Any:
        """A batch of these rows for the forward pass: tensors, alone or in tuples, lists or dicts."""


class TensorRows:
    """Rows of a tensor."""

    def __init__(self, x: Tensor) -> None:
        self.x = x

    def __len__(self) -> int:
        return len(self.x)

    def take(self, rows: range | list[int]) -> Tensor:
        # Matrix products may be summed in another order at other addresses and for columns in another order: a copy
        # begins at an aligned address, row after row.
        x = self.x[rows.start : rows.stop] if isinstance(rows, range) else self.x[rows]
        return x.clone(memory_format=torch.contiguous_format)


class InBlocks:
    """Rows go through a net in blocks of ``batch_size``, which is halved when memory runs out."""

    _has_warned = False

    def __init__(self, batch_size: int) -> None:
        self.batch_size = int(integer().check("predict_batch_size", batch_size))

    def with_batch_size(self, n_rows: int) -> Self:
        """The same function, in blocks of this size."""
        twin = copy.copy(self)
        twin.batch_size, twin._has_warned = n_rows, False
        return twin

    def joined(self, function: Callable[[Rows, range], Tensor], rows: Rows, axis: int = 0) -> Tensor:
        """Apply ``function`` to one block of rows after the other and join the results along ``axis``."""
        if not len(rows):
            raise ValueError("`X` must have at least one row for a net. Got none.")
        with torch.no_grad():
            return _join(self._parts(function, rows), len(rows), axis)

    def _parts(self, function: Callable[[Rows, range], Tensor], rows: Rows) -> Iterator[Tensor]:
        start = 0
        while start < len(rows):
            block = range(start, min(start + self.batch_size, len(rows)))
            try:
                part = function(rows, block)
            except (MemoryError, RuntimeError) as error:
                if not is_out_of_memory(error) or len(block) == 1:
                    raise
                self._halve(len(block))
                continue
            yield part
            start = block.stop

    def _halve(self, n_tried: int) -> None:
        self.batch_size = min(self.batch_size, (n_tried + 1) // 2)
        if not self._has_warned:
            self._has_warned = True
            warn(
                f"Memory ran out for {n_tried} rows at once: the net now gets smaller blocks, halved until they fit. "
                f"Set `predict_batch_size` below {n_tried} to start with smaller ones."
            )


def is_out_of_memory(error: Exception) -> bool:
    texts = ("out of memory", "can't allocate memory", "not enough memory")
    return isinstance(error, MemoryError) or any(text in str(error) for text in texts)


def _join(parts: Iterator[Tensor], n_rows: int, axis: int) -> Tensor:
    """Join parts along ``axis`` as they come, in their memory layout; at no time are all of them in memory."""
    first = next(parts)
    start = first.shape[axis]
    if start == n_rows:
        return first
    shape = [*first.shape[:axis], n_rows, *first.shape[axis + 1 :]]
    order = sorted(range(first.ndim), key=first.stride, reverse=True)
    joined = torch.empty_permuted(shape, order, dtype=first.dtype, device=first.device)
    joined.narrow(axis, 0, start).copy_(first)
    for part in parts:
        joined.narrow(axis, start, part.shape[axis]).copy_(part)
        start += part.shape[axis]
    return joined


def rows_of_outputs(batch_size: int, outputs: Tensor, n_draws: int) -> int:
    """The batch size, halved until draws of a block fit 32 MiB where a row has ``outputs`` of several axes."""
    of_row = 8 * n_draws * outputs[0].numel() if outputs.ndim > 2 else 0
    while batch_size > 1 and batch_size * of_row > _BLOCK_BYTES:
        batch_size = (batch_size + 1) // 2
    return batch_size


def spread(block: range, n_rows: int = 4) -> list[int]:
    """A few rows of a block, its first among them."""
    return list(block[:: max(1, len(block) // n_rows)][:n_rows])


# Nested values, as arguments and outputs of modules are


def parts_of(value: Any, kind: type | tuple[type, ...] = Tensor) -> Iterator[Any]:
    """Tensors, or parts of another kind, in nested tuples, lists, dicts and slices, in order."""
    if isinstance(value, kind):
        yield value
    elif isinstance(value, slice):
        yield from parts_of((value.start, value.stop, value.step), kind)
    elif isinstance(value, tuple | list | Mapping):
        for part in value.values() if isinstance(value, Mapping) else value:
            yield from parts_of(part, kind)


def mapped(value: Any, function: Callable[[Any], Any], kind: type = Tensor) -> Any:
    """The value with each tensor, or part of another kind, replaced by the function of it."""
    if isinstance(value, kind):
        return function(value)
    if isinstance(value, tuple | list):
        parts = [mapped(part, function, kind) for part in value]
        return type(value)(*parts) if hasattr(value, "_fields") else tuple(parts) if isinstance(value, tuple) else parts
    if isinstance(value, Mapping):
        make: Any = type(value)
        return make({name: mapped(part, function, kind) for name, part in value.items()})
    if isinstance(value, slice):
        return slice(*mapped((value.start, value.stop, value.step), function, kind))
    return value


def copied(batch: Any) -> Any:
    """A copy for a module that may work in place."""
    return mapped(batch, Tensor.clone)
