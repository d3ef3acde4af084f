"""A copy of a module that answers without anything random, and checks of its answers.

Checks find nets that are no function of a single row: what they answer depends on the rows beside, or on the call.
"""

from __future__ import annotations

import copy
import inspect
import io
import sys
import threading
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from .._utils.validation import NetError
from ._dropout_calls import ROW_BY_ROW, Pass, plain_pass
from ._recording import NotRecordedError
from ._rows import Rows, copied, is_out_of_memory, parts_of

_SHARED = (type(threading.Lock()), type(threading.RLock()), io.IOBase, ModuleType)  # which nothing can copy
_GOLDEN = 0.618034  # multiples of the golden ratio leave no part of a block out for long

Forward = Callable[[nn.Module, Any], Any]


class FrozenNet:
    """A copy of a module in evaluation mode, which answers without anything random.

    ``forward(module, batch)`` evaluates it on a batch; by default ``module(batch)``. Mode, statistics, gradients and
    later training of the module itself stay untouched. ``copies`` takes what was copied, as for `copy.deepcopy`.
    """

    def __init__(self, module: nn.Module, forward: Forward | None = None, copies: dict[int, Any] | None = None) -> None:
        self.name = type(module).__name__
        self.module = _eval_copy(module, {} if copies is None else copies)
        self._layer: range | None = None  # number of the layer that makes the outputs, as a range; empty if none does
        self._which: int | None = None  # which of several outputs in training is the output of evaluation
        self._forward = forward or nn.Module.__call__

    def plain(self, batch: Any, n_rows: int, tapped: range = range(0)) -> tuple[Tensor, Pass]:
        """Outputs for a batch with dropout switched off, and the pass, which holds what it noted of their making."""
        masks = plain_pass(n_rows)
        masks.tapped = tapped
        with masks:
            return self.outputs(copied(batch)), masks

    def tapped(self, rows: Rows, block: range) -> tuple[Tensor, Tensor]:
        """Plain outputs for a block, and what enters the layer that makes them, (n_rows, n_units); no units if none."""
        if self._layer is None:
            first, masks = self.plain(rows.take(block[:1]), 1, range(sys.maxsize))
            found = [i for i, entered in enumerate(masks.entering(first)) if entered is not None]
            self._layer = range(found[-1], found[-1] + 1) if found else range(0)
        outputs, masks = self.plain(rows.take(block), len(block), self._layer)
        if not self._layer:
            return outputs, outputs.new_empty((len(block), 0))
        for entered in masks.entering(outputs):
            if entered is not None:
                return outputs, entered
        raise NetError(
            "`estimator` must make the outputs of all rows by one layer, for its input to be their embedding, but this "
            f"{self.name} takes another for some rows. Give a function of the rows as `embedding`, or the net a method "
            "`embed(X)`."
        )

    def one_draw(self, rows: Rows, block: range) -> Tensor:
        """Plain outputs for a block of the rows as a single draw, (1, n_rows, ...)."""
        return self.plain(rows.take(block), len(block))[0].unsqueeze(0)

    def outputs(self, batch: Any) -> Tensor:
        """What the module returns: one tensor, or the logits of an output that names them."""
        outputs = self.all_outputs(batch)
        if isinstance(outputs, Tensor):
            return outputs
        if self._which is not None:
            return [*parts_of(outputs)][self._which]
        raise NetError(
            f"`estimator` must return one tensor, or an output with `logits`. This {self.name} returned a "
            f"{type(outputs).__name__}. Wrap it in a module whose forward pass returns the logits alone, or give the "
            "class a method `sample_posterior(n_draws, rng)`."
        )

    def all_outputs(self, batch: Any) -> Any:
        """What the module returns, or its logits."""
        try:
            outputs = self._forward(self.module, batch)
        except (NetError, NotRecordedError):
            raise
        except Exception as error:
            if is_out_of_memory(error):
                raise
            shapes = ", ".join(str(tuple(x.shape)) for x in parts_of(batch)) or type(batch).__name__
            remedy = " Convert the pool with .astype(numpy.float32)." if "same dtype" in str(error) else ""
            raise NetError(
                f"The forward pass of this {self.name} failed on a block of shape {shapes}: "
                f"{type(error).__name__}: {error}{remedy}"
            ) from error
        if isinstance(outputs, Mapping):
            return outputs.get("logits", outputs)
        return getattr(outputs, "logits", outputs)

    def check_rows(self, answer: Callable[[Any, int], Tensor], rows: Rows, block: list[int]) -> None:
        """Check the answers for some rows: one a row, the same at a second call, whatever rows are in the block."""
        n_rows = len(block)
        beside_others = answer(rows.take(block), n_rows)
        self.check_count(beside_others, n_rows)
        alone = torch.cat([answer(rows.take([row]), 1) for row in block])
        if is_close(beside_others, alone):
            return
        if not is_close(answer(rows.take(block), n_rows), beside_others):
            raise NetError(
                f"`estimator` must return the same at every call under the same dropout masks, but this {self.name} "
                "does not: it draws random numbers outside of torch, or keeps state between calls."
            )
        raise rows_mixed_error(self.name)

    def check_one(self, answer: Callable[[Any, int], Tensor], rows: Rows, block: range, outputs: Tensor) -> None:
        """Check the answer for one row of a block against that for it alone, in another place from block to block."""
        if len(block) == 1:
            return
        place = int(len(block) * ((block.start + 1) * _GOLDEN % 1))
        if not is_close(outputs[place : place + 1], answer(rows.take(block[place : place + 1]), 1), outputs):
            raise rows_mixed_error(self.name)

    def check_count(self, outputs: Tensor, n_rows: int) -> None:
        if outputs.shape[:1] != (n_rows,):
            raise NetError(
                f"`estimator` must return one output for each row: this {self.name} returned outputs of shape "
                f"{tuple(outputs.shape)} for {n_rows} rows."
            )

    def find(self, answer: Tensor, outputs: Any) -> bool:
        """Whether an answer is among the outputs in training, which may be several; remembers which it is."""
        if isinstance(outputs, Tensor):
            return is_close(outputs, answer)
        self._which = next((i for i, tensor in enumerate(parts_of(outputs)) if is_close(tensor, answer)), None)
        return self._which is not None


class RowsMixedError(NetError):
    """The answer for a row depends on its place, or on the rows beside it."""


def rows_mixed_error(name: str) -> RowsMixedError:
    return RowsMixedError(
        f"`estimator` must compute each row by itself, but the outputs of this {name} for a row depend on the rest of "
        "its block, as by attention across rows, or a data set that scales rows by each other. "
        f"{ROW_BY_ROW}, if the net is meant to see single rows."
    )


def is_close(answer: Tensor, expected: Tensor, among: Tensor | None = None) -> bool:
    """Whether two answers are equal but for rounding, at the scale of the expected one or of those it is ``among``."""
    if answer.shape != expected.shape:
        return False
    if answer.device.type == "meta":  # holds no values
        return True
    eps = torch.finfo(answer.dtype).eps if answer.is_floating_point() else 0.0
    among = expected if among is None else among
    ours, theirs = (x.detach().cpu().double().numpy() for x in (answer, expected))
    differs = (ours != theirs) & ~(np.isnan(ours) & np.isnan(theirs))
    if not differs.any():
        return True
    # Half the digits of what outputs differ by, or 3 % if that is less, and three quarters of those of an offset: sums
    # in another order differ by less (by 4 eps of the largest in float32, 1 in bfloat16), noise and other rows by more.
    ours, theirs = ours[differs], theirs[differs]
    excess = float(np.abs(ours - theirs).max()) - eps**0.75 * float(np.abs(theirs).max())
    return excess <= 0 or excess <= min(3 * eps**0.5, 0.03) * max(_spread(among), 1e-3)


def _spread(outputs: Tensor) -> float:
    """How far outputs lie from the largest of their row, or from the median of all rows, where one is all of a row.

    So a number that is added to all does not count, nor how far down the logit of a class that is masked was set.
    """
    x = outputs.detach().cpu().double()
    if x[:1].numel() > 1:
        x = (x - x.amax(-1, keepdim=True)).clamp(min=-10)  # a probability of at most 5e-5
    elif len(x) > 1:
        x = x - x.median()
    return float(x.nan_to_num(0, 0, 0).abs().max()) if x.numel() else 0.0


# Copies of modules


def _eval_copy(module: nn.Module, copies: dict[int, Any]) -> nn.Module:
    """A copy in evaluation mode, without gradients, that runs in Python where it can; ``copies`` as for `deepcopy`."""
    module = without_covers(module)
    if any(is_lazy(tensor) for tensor in (*module.parameters(), *module.buffers())):
        raise NetError(
            f"`estimator` must have all its parameters, but this {type(module).__name__} has lazy layers that have "
            "seen no rows. Give it a batch of them once (`module(batch)`), and train it."
        )
    if any(isinstance(part, torch.fx.GraphModule) and "train" in vars(part) for part in module.modules()):
        raise NetError(
            "`estimator` must be a module in Python, but torch.export has fixed the mode and the dropout of this "
            f"{type(module).__name__}. Give the module that it was exported from."
        )
    twin: Any = copy_of(module, copies).eval()
    for part in twin.modules():
        part._compiled_call_impl = None
        for name, function in list(vars(part).items()):
            is_compiled = hasattr(function, "_torchdynamo_orig_callable")
            inner = inspect.unwrap(function, stop=inspect.ismethod) if is_compiled else None
            if inspect.ismethod(inner):  # functions are no part of a copy
                setattr(part, name, copy.deepcopy(inner, copies))
        for name, child in list(part.named_children()):
            inner = without_covers(child)
            if inner is not child:
                setattr(part, name, inner)
    for parameter in twin.parameters():
        parameter.grad = None
        parameter.detach_()  # copies that TorchScript makes have a history
    return twin


def copy_of(module: nn.Module, copies: dict[int, Any]) -> nn.Module:
    """A copy, also where `deepcopy` refuses: without the history of tensors, and with the same locks and open files."""
    held = [tensor for part in module.modules() for tensor in parts_of(vars(part)) if not tensor.is_leaf]
    shared = [value for part in module.modules() for value in parts_of(vars(part), _SHARED)]
    copies |= {id(tensor): tensor.detach().clone() for tensor in held} | {id(value): value for value in shared}
    return copy.deepcopy(module, copies)


def without_covers(module: nn.Module) -> nn.Module:
    """The module inside of torch.compile and of wrappers that spread batches over devices."""
    while True:
        if isinstance(module, nn.DataParallel | nn.parallel.DistributedDataParallel):
            module = module.module
        elif hasattr(module, "_orig_mod"):
            module = module._orig_mod  # type: ignore[assignment]
        else:
            return module
