"""A copy of a module that answers without anything random, and what its answers must be.

What a posterior needs of a module is checked here: one output a row, the same again, and by the row itself.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from .._checks import NetError
from ._masks import Pass, plain_pass
from ._nested import mapped, parts_of
from ._rows import Rows, is_out_of_memory
from ._sites import ROW_BY_ROW
from ._tape import NotWrittenError

Forward = Callable[[nn.Module, Any], Any]


class FrozenNet:
    """A copy of a module in evaluation mode, which answers without anything random.

    Parameters
    ----------
    module : torch.nn.Module
        A copy of it runs: its mode, statistics, gradients and later training stay untouched.
    forward : callable, optional
        ``forward(module, batch)`` evaluates the module on a batch; by default ``module(batch)``.
    """

    def __init__(self, module: nn.Module, forward: Forward | None = None) -> None:
        self.name = type(module).__name__
        self.module = _frozen(module)
        self._which: int | None = None  # which of several outputs in training is the output of evaluation
        self._forward = forward or nn.Module.__call__

    def plain(self, batch: Any, n_rows: int) -> tuple[Tensor, Pass]:
        """Outputs for a batch with dropout switched off, and the pass, which holds what it noted of their making."""
        masks = plain_pass(n_rows)
        with masks:
            return self.outputs(copied(batch)), masks

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
        except (NetError, NotWrittenError):
            raise
        except Exception as error:
            if is_out_of_memory(error):
                raise
            shapes = ", ".join(str(tuple(x.shape)) for x in parts_of(batch)) or type(batch).__name__
            remedy = (
                " Integers stay integers, because they may be ids: convert the pool with .astype(numpy.float32) if the "
                "net takes floats."
                if "Long" in str(error) and "same dtype" in str(error)
                else ""
            )
            raise NetError(
                f"The forward pass of this {self.name} failed on a block of shape {shapes}: "
                f"{type(error).__name__}: {error}{remedy}"
            ) from error
        return getattr(outputs, "logits", outputs)

    def check_rows(self, answer: Callable[[Any, int], Tensor], rows: Rows, block: list[int]) -> None:
        """Check the answers for some rows: one a row, the same at a second call, whatever rows are in the block."""
        n_rows = len(block)
        beside_others, again = (answer(rows.take(block), n_rows) for _ in range(2))
        if len(beside_others) != n_rows:
            raise NetError(
                f"`estimator` must return one output for each row: this {self.name} returned outputs of shape "
                f"{tuple(beside_others.shape)} for {n_rows} rows."
            )
        if not is_close(again, beside_others):
            raise NetError(
                f"`estimator` must return the same at every call under the same dropout masks, and this {self.name} "
                "does not: it draws random numbers outside of torch, or keeps state between calls. Draw them by "
                "torch.rand or bernoulli_, and keep no state."
            )
        beside_itself = answer(rows.take([block[0]] * n_rows), n_rows)
        if not is_close(beside_itself[:1], beside_others[:1]):
            raise NetError(
                f"`estimator` must compute each row by itself, and the outputs of this {self.name} for a row depend on "
                "the other rows of its block. Batch norm without running statistics does that, attention across rows, "
                f"or a data set that scales rows by each other. {ROW_BY_ROW}, if the net is meant to see single rows."
            )

    def find(self, answer: Tensor, outputs: Any) -> bool:
        """Whether an answer is among the outputs in training, which may be several; remembers which it is."""
        if isinstance(outputs, Tensor):
            return is_close(outputs, answer)
        self._which = next((i for i, tensor in enumerate(parts_of(outputs)) if is_close(tensor, answer)), None)
        return self._which is not None


def row_by_row(embeddings: Tensor, n_rows: int) -> Tensor:
    """The input of a linear layer as embeddings, (n_rows, n_units)."""
    if len(embeddings) != n_rows:
        raise NetError(
            "`estimator` must have rows on the first axis where its last linear layer runs, for the input of that "
            f"layer to be an embedding. Got shape {tuple(embeddings.shape)} for {n_rows} rows."
        )
    return embeddings.reshape(n_rows, -1)


def copied(batch: Any) -> Any:
    return mapped(batch, Tensor.clone)


def is_close(answer: Tensor, expected: Tensor) -> bool:
    """Whether two answers are equal but for rounding."""
    if answer.shape != expected.shape:
        return False
    if answer.device.type == "meta":  # holds no values
        return True
    # Half the digits: reordered sums differ by far less, random numbers and dependence on other rows by more.
    tolerance = 3 * torch.finfo(answer.dtype).eps ** 0.5 if answer.is_floating_point() else 0.0
    answer, expected = answer.detach().cpu().double(), expected.detach().cpu().double()
    scale = float(expected[expected.isfinite()].abs().max()) if bool(expected.isfinite().any()) else 0.0
    return torch.allclose(answer, expected, rtol=0, atol=tolerance * max(scale, 1e-3), equal_nan=True)


# Copies of modules


def _frozen(module: nn.Module) -> nn.Module:
    """A copy in evaluation mode, without gradients, that runs in Python where a copy of it can."""
    module = _without_covers(module)
    if any(isinstance(part, torch.jit.ScriptModule) for part in module.modules()):
        raise TypeError(
            "`estimator` must be a module that runs in Python, for its dropout to be held fixed. "
            f"{type(module).__name__} was compiled by TorchScript: give the module it was made from."
        )
    twin: Any = copy.deepcopy(module, _detached_copies(module)).eval()
    for part in twin.modules():
        part._compiled_call_impl = None
        for name, child in list(part.named_children()):
            inner = _without_covers(child)
            if inner is not child:
                setattr(part, name, inner)
    for parameter in twin.parameters():
        parameter.grad = None
    return twin.requires_grad_(False)


def _without_covers(module: nn.Module) -> nn.Module:
    """The module inside of torch.compile and of wrappers that spread batches over devices."""
    while True:
        if isinstance(module, nn.DataParallel | nn.parallel.DistributedDataParallel):
            module = module.module
        elif hasattr(module, "_orig_mod"):
            module = module._orig_mod  # type: ignore[assignment]
        else:
            return module


def _detached_copies(module: nn.Module) -> dict[int, Any]:
    """Copies of tensors that ``deepcopy`` refuses: those with a history, which old weight norm leaves in a module."""
    tensors = [value for part in module.modules() for value in vars(part).values() if isinstance(value, Tensor)]
    return {id(tensor): tensor.detach().clone() for tensor in tensors if not tensor.is_leaf}
