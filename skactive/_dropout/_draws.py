"""Draws from a torch module with dropout, at the cost of the units that they keep.

A copy of the module answers without anything random but its masks; checks find nets of which no draw is a function.
There are three ways to the draws, each the fallback of the one before: draws of a chain of layers are smaller networks
(`_pruned_networks`); in other nets the calls that depend on a mask are recorded and made again (`_recording`); where
nothing can be recorded, the module runs once a draw. The last way is right for every net that passes the checks.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from .._utils.devices import Lock
from .._utils.validation import NetError, NoDropoutError, check_n_draws
from ._dropout_calls import ROW_BY_ROW, OtherCallsError, Pass, Site, Sites, folded_error, plain_pass
from ._pruned_networks import PrunedNetworks, key_of, prunable
from ._recording import NotRecordedError, Recording, record
from ._rows import Rows, copied, differ, is_out_of_memory, parts_of, spread

_MOST_PLANS = 8  # shapes of blocks that are remembered

Forward = Callable[[nn.Module, Any], Any]
Plan = Callable[[Any], Tensor]


class FrozenNet:
    """A copy of a module in evaluation mode, which answers without anything random.

    ``forward(module, batch)`` evaluates it on a batch; by default ``module(batch)``. Mode, statistics, gradients and
    later training of the module itself stay untouched.
    """

    def __init__(self, module: nn.Module, forward: Forward | None = None) -> None:
        self.name = type(module).__name__
        self.module = _eval_copy(module)
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
        return getattr(outputs, "logits", outputs)

    def check_rows(self, answer: Callable[[Any, int], Tensor], rows: Rows, block: list[int]) -> None:
        """Check the answers for some rows: one a row, the same at a second call, whatever rows are in the block."""
        n_rows, first, last = len(block), block[:1], block[-1:]
        beside_others, again = (answer(rows.take(block), n_rows) for _ in range(2))
        self.check_count(beside_others, n_rows)
        if not is_close(again, beside_others):
            raise NetError(
                f"`estimator` must return the same at every call under the same dropout masks, and this {self.name} "
                "does not: it draws random numbers outside of torch, or keeps state between calls."
            )
        if n_rows == 1:
            return
        alone = answer(rows.take(first), 1)
        # In every place of the block, and at both ends beside other rows.
        in_all_places = answer(rows.take(first * n_rows), n_rows)
        if not (
            is_close(in_all_places, alone.expand_as(in_all_places))
            and is_close(beside_others[:1], alone)
            and is_close(beside_others[-1:], answer(rows.take(last), 1))
        ):
            raise RowsMixedError(
                f"`estimator` must compute each row by itself, and the outputs of this {self.name} for a row depend on "
                "the rest of its block, as by attention across rows, or a data set that scales rows by each other. "
                f"{ROW_BY_ROW}, if the net is meant to see single rows."
            )

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


def row_by_row(embeddings: Tensor, n_rows: int) -> Tensor:
    """The input of a linear layer as embeddings, (n_rows, n_units)."""
    if len(embeddings) != n_rows:
        raise NetError(
            "`estimator` must have rows on the first axis where its last linear layer runs, for the input of that "
            f"layer to be an embedding. Got shape {tuple(embeddings.shape)} for {n_rows} rows."
        )
    return embeddings.reshape(n_rows, -1)


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


class FixedDraws(FrozenNet):
    """``n_draws`` functions from a module with dropout: each has one mask for all rows, the same on every device.

    `learn` comes before the first call. Several threads may call it at once.
    """

    def __init__(
        self, module: nn.Module, n_draws: int, rng: np.random.Generator, forward: Forward | None = None
    ) -> None:
        super().__init__(module, forward)
        self.n_draws = check_n_draws(n_draws)
        self._sites = Sites(self.n_draws, rng)
        self._plans: dict[str | None, Plan | None] = {}  # by kind of block; None runs the module
        self._pruned: dict[Any, PrunedNetworks] = {}
        self._is_checked, self._may_be_quick = False, True
        self._one: Any = None  # a batch of the first row
        self._lock = Lock()

    def __getstate__(self) -> dict[str, Any]:
        """The functions, without the quick ways to them, which are found again where they are called."""
        return {**vars(self), "_plans": {}, "_pruned": {}}

    def __call__(self, rows: Rows, block: range) -> Tensor:
        """Outputs of all draws for a block of the rows, (n_draws, n_rows, ...)."""
        batch, n_rows = rows.take(block), len(block)
        kind = _kind_of(batch)
        outputs, is_new = None, kind is None or kind not in self._plans
        if is_new or (n_rows > 1 and not self._is_checked):
            with self._lock:
                self._check_draws(rows, block)
                if is_new and kind is not None:
                    if len(self._plans) >= _MOST_PLANS:
                        self._plans.pop(next(iter(self._plans)))
                    self._plans[kind], outputs = self._plan(batch, n_rows) if self._may_be_quick else (None, None)
        if outputs is None:
            plan = self._plans.get(kind)
            outputs = self.by_whole_passes(batch, n_rows) if plan is None else plan(batch)
        return outputs

    def learn(self, rows: Rows) -> None:
        """Find out what is random, from the first row; raises if nothing is, or it cannot be held fixed."""
        with self._lock:
            if self._one is None:
                one = rows.take(range(1))
                _learn_random_calls(self, one, self._sites)
                self._one = one

    def by_whole_passes(self, batch: Any, n_rows: int) -> Tensor:
        """Outputs of all draws, one pass of the module after the other."""
        return torch.stack([self._run(k, batch, n_rows) for k in range(self.n_draws)])

    def _check_draws(self, rows: Rows, block: range) -> None:
        """Check a draw of some rows, until rows that differ were checked."""
        if self._is_checked:
            return
        some = spread(block)
        # Parts of rows may lie on one axis in either order: in the right one each row is answered by itself.
        known = self._sites.parts_first  # in which other threads may be drawing now
        for self._sites.parts_first in (known, not known):
            try:
                self._check(0, rows, some)
                for probe in self._sites.probes():
                    self._check(probe, rows, some)
                break
            except RowsMixedError:
                if not self._sites.folded:
                    raise
        else:
            raise folded_error()
        self._is_checked = differ(rows, some)

    def _check(self, draw: int, rows: Rows, some: list[int]) -> None:
        self.check_rows(lambda batch, n_rows: self._run(draw, batch, n_rows), rows, some)

    # One draw after the other

    def _run(self, draw: int, batch: Any, n_rows: int) -> Tensor:
        try:
            return self._run_once(draw, batch, n_rows)
        except OtherCallsError:
            if draw in self._sites.of_draw:
                raise
        with self._lock:  # random numbers may decide which calls follow, as where layers are left out
            calls: list[Site] = []
            self._sites.of_draw[draw] = calls
            try:
                with Pass(self._sites, draw, 1, learns=True):
                    self.outputs(copied(self._one))
                return self._run_once(draw, batch, n_rows)
            except OtherCallsError:
                del self._sites.of_draw[draw]
                raise

    def _run_once(self, draw: int, batch: Any, n_rows: int) -> Tensor:
        masks = Pass(self._sites, draw, n_rows)
        with masks:
            outputs = self.outputs(copied(batch))  # a module may work in place
        masks.check_made_all_calls()
        return outputs

    # Quick ways

    def _plan(self, batch: Any, n_rows: int) -> tuple[Plan | None, Tensor | None]:
        """The quickest way to all draws of blocks of one kind, and the draws of this one; None is whole passes."""
        # In place, dropout would change what draws share. Where a net counts on that, the last draw differs below.
        recording = record(self.outputs, batch, _tensors_of(self.module), Pass(self._sites, 0, n_rows, in_place=False))
        if recording is None or not recording.drawn:
            return None, None
        plan = self._plan_of(recording, n_rows)
        try:
            draws = plan(batch)
        except Exception as error:  # as where a net takes gradients inside
            if is_out_of_memory(error):
                raise
            return None, None
        last = self.n_draws - 1  # shows whether a draw changes the next
        is_right = is_close(draws[0], recording.written) and is_close(draws[-1], self._run(last, batch, n_rows))
        self._may_be_quick = is_right
        return (plan, draws) if is_right else (None, None)

    def _plan_of(self, recording: Recording, n_rows: int) -> Plan:
        chain = recording.chain()
        letters = prunable(chain, self._sites)
        pruned = chain[: len(letters)]
        key = key_of(pruned, letters)
        if letters and key not in self._pruned:  # made once for blocks of all sizes
            self._pruned[key] = PrunedNetworks(pruned, letters, self._sites)
        networks = self._pruned.get(key)

        def plan(batch: Any) -> Tensor:
            with plain_pass(n_rows):  # nothing is dropped in what all draws share
                shared = recording.run_shared(batch)
            if networks is None:
                return self._finished(recording, 0, [shared] * self.n_draws, n_rows)
            (entering,) = recording.taken
            draws = networks(shared[entering])
            if len(pruned) == len(chain):
                return draws
            return self._finished(recording, len(pruned), ({pruned[-1].outputs.number: draw} for draw in draws), n_rows)

        return plan

    def _finished(self, recording: Recording, start: int, values: Iterable[dict[int, Any]], n_rows: int) -> Tensor:
        """Outputs of all draws, by the drawn calls from one on, for the values that each draw has by then."""
        position = next((call.masks.start for call in recording.drawn[start:] if call.masks), 0)
        outputs = []
        for draw, own in enumerate(values):
            masks = Pass(self._sites, draw, n_rows, in_place=False)
            masks.position = position
            with masks:
                outputs.append(recording.run_drawn(own, start))
        return torch.stack(outputs)


def _tensors_of(module: nn.Module) -> list[Tensor]:
    """Tensors that a module holds: parameters, buffers and plain attributes."""
    held = [value for part in module.modules() for value in vars(part).values() if isinstance(value, Tensor)]
    return [*module.parameters(), *module.buffers(), *held]


def _kind_of(batch: Any) -> str | None:
    """The kind of a block, for which a plan holds; None for values other than tensors, names and numbers."""
    if isinstance(batch, Tensor):
        return str((tuple(batch.shape), batch.dtype, batch.device))
    if isinstance(batch, tuple | list | Mapping):
        values = [*batch.items()] if isinstance(batch, Mapping) else batch
        kinds = [_kind_of(value) for value in values]
        return None if None in kinds else f"{type(batch).__name__}{kinds}"
    return repr(batch) if batch is None or isinstance(batch, bool | int | float | str) else None


# Copies of modules


def _eval_copy(module: nn.Module) -> nn.Module:
    """A copy in evaluation mode, without gradients, that runs in Python where it can."""
    module = _without_covers(module)
    # `deepcopy` refuses tensors with a history, which old weight norm and kept activations leave in a module.
    held = [tensor for part in module.modules() for tensor in parts_of(vars(part)) if not tensor.is_leaf]
    twin: Any = copy.deepcopy(module, {id(tensor): tensor.detach().clone() for tensor in held}).eval()
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


# What is random in training


def _learn_random_calls(net: FrozenNet, one: Any, sites: Sites) -> None:
    """Set the copy so that it differs from evaluation by its random calls alone, and find these.

    Layers may look at ``self.training`` to switch their dropout on. So all parts are put in training mode, except those
    that normalise. With everything random switched off, the copy then has to return the same as in evaluation mode for
    a batch of ``one`` row; it may return other outputs beside.
    """
    net.module.eval()
    plain, _ = net.plain(one, 1)
    net.check_count(plain, 1)
    if plain.device.type != "meta" and bool(plain.isnan().any()):
        raise NetError(
            f"`estimator` must return numbers, and this {net.name} returns NaN for the first row: its training "
            "diverged, or values of the row are missing or very large."
        )
    _train_all_but_norms(net.module)
    failure = ""
    try:
        is_same = _find_calls(net, one, sites, plain)
    except NetError as error:
        if error.__cause__ is None:
            raise
        failure, is_same = f" ({error.__cause__!r})", False  # from the module, which may need labels in training
    if not is_same:
        raise NetError(
            "`estimator` must differ between training and evaluation by its dropout alone, and the outputs of this "
            f"{net.name} differ with dropout switched off, too{failure}. Let only dropout and normalisation depend on "
            "`self.training`, keep no state between calls, and draw random numbers by torch.rand or bernoulli_; or "
            "give the class a method `sample_posterior(n_draws, rng)`."
        )
    if not sites.at:
        raise NoDropoutError(
            f"`estimator` must have a dropout layer with a rate above 0 to be drawn from, and this {net.name} has "
            "none: all draws would be the same function and BALD 0 everywhere. Add torch.nn.Dropout layers or set "
            'their rates above 0, or give the query posterior="bootstrap".'
        )


def _find_calls(net: FrozenNet, one: Any, sites: Sites, plain: Tensor) -> bool:
    """Find the random calls of a pass over a row; whether outputs without anything random are those of evaluation."""
    sites.at = []
    masks = Pass(sites, 0, 1, learns=True)
    raw: list[nn.Module] = []
    with _calling_parts(net.module) as calling:
        masks.on_raw_call = lambda: raw.append(calling[-1])
        with masks:
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
    hooks = [part.register_forward_pre_hook(lambda part, _: calling.append(part)) for part in module.modules()]
    hooks += [part.register_forward_hook(lambda *_: (calling.pop(), None)[1]) for part in module.modules()]
    try:
        yield calling
    finally:
        for hook in hooks:
            hook.remove()
