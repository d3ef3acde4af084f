"""Draws from a torch module with dropout, at the cost of what they keep.

Draw k is the module under one fixed mask (`_masks`). What precedes the first dropout is the same for all draws and
computed once (`_tracing`). Where the rest is a chain of layers, a dropped unit or channel needs no arithmetic: draw k
is a smaller network (`_thinned`).

Rows go through the module in micro-batches that all have the same shape, the last one padded with zeros. In float32
the last bits of a row's output depend on the shape of the batch around it, so this is what makes a row's draws
bit-equal for every chunking of the pool.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

import numpy as np
import torch
from torch import Tensor, nn

from . import _validation as validation
from ._masks import Masks
from ._thinned import thinned_draws
from ._tracing import split

MICRO_BATCH = 256
"""Rows in one forward pass. Large enough to keep two cores busy, small enough that one row is answered at once."""


def fixed_mask_draws(
    module: nn.Module,
    n_draws: int,
    rng: np.random.Generator,
    batch_size: int = MICRO_BATCH,
    forward: Callable[[nn.Module, Tensor], Tensor] | None = None,
) -> Callable[[Tensor], Tensor]:
    """Draw ``n_draws`` functions from a module with dropout.

    Parameters
    ----------
    module : torch.nn.Module
        Fitted module; a copy of it in evaluation mode is what runs, so its mode, statistics, gradients and later
        training are left alone.
    n_draws : int
    rng : numpy.random.Generator
        Source of the masks; the same masks on every device.
    batch_size : int
        Rows in one forward pass; with a multiple of 128, equal rows are equal to the last bit.
    forward : callable, optional
        ``forward(module, x)`` evaluates the module on a batch; by default ``module(x)``.

    Returns
    -------
    callable
        ``f(x)`` with ``x`` of shape (n_points, ...) returns a tensor of shape (n_draws, n_points, ...): the same
        functions at every call.
    """
    frozen, masks = _frozen(module), Masks(n_draws, rng)
    found: list[Callable[[Tensor], Tensor]] = []

    def draws(x: Tensor) -> Tensor:
        if not found:
            found.append(_find_draws(frozen, masks, forward, x))
        outputs = found[0](x)
        if not masks.made:
            raise validation.no_dropout_error()
        return outputs

    return partial(forward_rows, draws, batch_size=batch_size, axis=1)


def forward_rows(
    function: Callable[[Tensor], Tensor], x: Tensor, batch_size: int = MICRO_BATCH, axis: int = 0
) -> Tensor:
    """Apply ``function`` to micro-batches of exactly ``batch_size`` rows and join the results along ``axis``."""
    with torch.no_grad(), _two_threads_at_most():
        return join_rows((function(batch).narrow(axis, 0, n) for batch, n in _padded(x, batch_size)), len(x), axis)


def join_rows(parts: Iterator[Tensor], n_rows: int, axis: int) -> Tensor:
    """Join parts along ``axis`` as they come, in the memory layout that they have; they are never all there at once."""
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


@contextmanager
def _two_threads_at_most() -> Iterator[None]:
    """Keep last bits where more threads would change them.

    Two threads halve a micro-batch. More cut it anywhere, also within the vectors that instructions work on, and what
    is left of a vector is computed by other instructions: three threads gave equal rows unequal softmaxes.
    """
    n_threads = torch.get_num_threads()
    if n_threads <= 2:
        yield
        return
    torch.set_num_threads(2)
    try:
        yield
    finally:
        torch.set_num_threads(n_threads)


def _frozen(module: nn.Module) -> nn.Module:
    frozen = copy.deepcopy(module).eval()
    for parameter in frozen.parameters():
        parameter.grad = None
    return frozen.requires_grad_(False)


def _padded(x: Tensor, batch_size: int) -> Iterator[tuple[Tensor, int]]:
    """Batches of ``batch_size`` rows and how many of them are real; at least one batch."""
    for start in range(0, max(len(x), 1), batch_size):
        batch = x[start : start + batch_size]
        n = len(batch)
        if n < batch_size:
            batch = torch.cat([batch, batch.new_zeros((batch_size - n, *batch.shape[1:]))])
        yield batch, n


def _find_draws(
    module: nn.Module, masks: Masks, forward: Callable[[nn.Module, Tensor], Tensor] | None, x: Tensor
) -> Callable[[Tensor], Tensor]:
    """The quickest way to all draws of a micro-batch like this one."""
    parts = None if forward else split(module, masks, x)
    if parts is None:
        whole = partial(forward or nn.Module.__call__, module)
        return lambda x: masks.run_all(lambda: whole(x.clone()))  # a module may work in place
    thinned = thinned_draws(parts.chain, masks)
    if thinned is None:
        return lambda x: masks.run_all(parts.rest, *parts.shared(x.clone()))
    return lambda x: thinned(*parts.shared(x.clone()))
