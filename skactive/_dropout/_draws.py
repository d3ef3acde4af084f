"""Draws from a torch module with dropout, at the cost of the units that they keep.

A copy of the module answers without anything random but its masks; checks find nets of which no draw is a function.
There are three ways to the draws, each the fallback of the one before: draws of a chain of layers are smaller networks
(`_pruned_networks`); in other nets the calls that depend on a mask are recorded and made again (`_recording`); where
nothing can be recorded, the module runs once a draw. The last way is right for every net that passes the checks.
"""

from __future__ import annotations

import copy
import dis
import inspect
import math
import pickle
import random
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy
from torch.overrides import TorchFunctionMode

from .._utils.devices import Lock
from .._utils.validation import NetError, NoDropoutError, check_n_draws
from ._dropout_calls import PROBES, ROW_BY_ROW, OtherCallsError, Pass, Site, Sites, folded_error, most_kept, plain_pass
from ._pruned_networks import PrunedNetworks, are_row_by_row, key_of, prunable
from ._recording import NotRecordedError, Recording, record
from ._rows import Rows, copied, differ, is_out_of_memory, parts_of, rows_of_outputs, spread

_MOST_PLANS = 8  # shapes of blocks that are remembered
_GOLDEN = 0.618034  # multiples of the golden ratio leave no part of a block out for long

Forward = Callable[[nn.Module, Any], Any]
Plan = Callable[[Any], Tensor]


class FrozenNet:
    """A copy of a module in evaluation mode, which answers without anything random.

    ``forward(module, batch)`` evaluates it on a batch; by default ``module(batch)``. Mode, statistics, gradients and
    later training of the module itself stay untouched.
    """

    def __init__(self, module: nn.Module, forward: Forward | None = None) -> None:
        self.name = type(module).__name__
        copies: dict[int, Any] = {}  # of all that the module holds
        self.module = _eval_copy(module, copies)
        self._generators = [value for value in copies.values() if isinstance(value, _OWN_GENERATORS)]
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
            "`estimator` must make the outputs of all rows by one layer, for its input to be their embedding, and this "
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
        beside_others, again = (answer(rows.take(block), n_rows) for _ in range(2))
        self.check_count(beside_others, n_rows)
        if not is_close(again, beside_others):
            raise NetError(
                f"`estimator` must return the same at every call under the same dropout masks, and this {self.name} "
                "does not: it draws random numbers outside of torch, or keeps state between calls."
            )
        if n_rows == 1:
            return
        alone = torch.cat([answer(rows.take([row]), 1) for row in block])
        if not is_close(beside_others, alone):
            raise rows_mixed_error(self.name)

    def check_one(self, answer: Callable[[Any, int], Tensor], rows: Rows, block: range, outputs: Tensor) -> None:
        """Check the answer for one row of a block against that for it alone, in another place from block to block."""
        if len(block) == 1:
            return
        place = int(len(block) * ((block.start + 1) * _GOLDEN % 1))
        if not is_close(outputs[place : place + 1], answer(rows.take([block[place]]), 1), outputs):
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
        f"`estimator` must compute each row by itself, and the outputs of this {name} for a row depend on the rest of "
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
    scale = _spread(expected if among is None else among)
    answer, expected = answer.detach().cpu().double(), expected.detach().cpu().double()
    differs = (answer != expected) & ~(answer.isnan() & expected.isnan())
    if not differs.any():
        return True
    errors, largest = (answer - expected)[differs].abs().max(), expected[differs].abs().max()
    # Half the digits of what outputs differ by, or 3 % if that is less, and three quarters of those of an offset: sums
    # in another order differ by less (by 4 eps of the largest in float32, 1 in bfloat16), noise and other rows by more.
    return bool(errors <= min(3 * eps**0.5, 0.03) * max(scale, 1e-3) + eps**0.75 * largest)


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


class FixedDraws(FrozenNet):
    """``n_draws`` functions from a module with dropout: each has one mask for all rows, the same on every device.

    `learn` comes before the first call. Several threads may call it at once.
    """

    def __init__(
        self, module: nn.Module, n_draws: int, rng: np.random.Generator, forward: Forward | None = None
    ) -> None:
        super().__init__(module, forward)
        self._originals = {id(part): part for part in _without_covers(module).modules()}
        self.n_draws = check_n_draws(n_draws)
        self._sites = Sites(self.n_draws, rng, self._generators)
        self._plans: dict[str | None, Plan | None] = {}  # by kind of block; None runs the module
        self._pruned: dict[Any, PrunedNetworks] = {}
        self._by_row: set[str | None] = set()  # kinds of blocks in which no row can depend on another
        self._is_checked, self._may_be_quick = False, True
        self._one: Any = None  # a batch of the first row
        self._lock = Lock()

    def __getstate__(self) -> dict[str, Any]:
        """The functions, without the quick ways to them, which are found again where they are called."""
        return {**vars(self), "_plans": {}, "_pruned": {}, "_originals": {}}

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
        if kind is None or kind not in self._by_row:
            self.check_one(lambda batch, n_rows: self._run(0, batch, n_rows), rows, block, outputs[0])
        return outputs

    def learn(self, rows: Rows) -> None:
        """Find out what is random, from the first row; raises if nothing is, or it cannot be held fixed."""
        with self._lock:
            if self._one is None:
                one = rows.take(range(1))
                with _no_other_randomness(self.name, self._generators):
                    self._plain_one = _learn_random_calls(self, one, self._sites, self._originals)
                self._one, self._originals = one, {}

    def rows_at_once(self, batch_size: int) -> int:
        """The batch size, halved until what the largest dropout gets for a block fits the memory to be kept free."""
        batch_size = rows_of_outputs(batch_size, self._plain_one, self.n_draws)
        of_row = 4 * max(math.prod(site.shape) for site in self._sites.at)  # bytes: floats, or wider ones
        while batch_size > 1 and batch_size * of_row > most_kept(_tensors_of(self.module)[0].device):
            batch_size = (batch_size + 1) // 2
        return batch_size

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
                self.check_rows(lambda batch, n_rows: self._run(0, batch, n_rows), rows, some)
                are_shown = self._check_parts(rows, some)
                break
            except RowsMixedError:
                if not self._sites.folded:
                    raise
        else:
            raise folded_error()
        self._is_checked = are_shown and differ(rows, some)

    def _check_parts(self, rows: Rows, some: list[int]) -> bool:
        """Check that the numbers of a row's parts go to this row; whether there was one whose answer shows it.

        Nets may treat parts alike, as where they take their mean: numbers of other rows show what was mixed up.
        """
        if not self._sites.folded:
            return True
        for row in some:
            alone = [self._run(probe, rows.take([row]), 1) for probe in PROBES]
            if alone[0].is_meta or not is_close(*alone):
                break
        else:
            return False
        n_rows = len(some)
        for bit in range((n_rows - 1).bit_length()):  # the numbers of any two places differ once
            which = [place >> bit & 1 for place in range(n_rows)]
            probed = Pass(self._sites, 0, n_rows, probes=[PROBES[i] for i in which])
            with probed:
                outputs = self.outputs(copied(rows.take([row] * n_rows)))
            if not is_close(outputs, torch.cat([alone[i] for i in which])):
                raise rows_mixed_error(self.name)
        return True

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
        if is_right and are_row_by_row([*recording.shared, *recording.drawn], self._sites):
            self._by_row.add(_kind_of(batch))
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


def _eval_copy(module: nn.Module, copies: dict[int, Any]) -> nn.Module:
    """A copy in evaluation mode, without gradients, that runs in Python where it can; ``copies`` as for `deepcopy`."""
    module = _without_covers(module)
    if any(is_lazy(tensor) for tensor in (*module.parameters(), *module.buffers())):
        raise NetError(
            f"`estimator` must have all its parameters, and this {type(module).__name__} has lazy layers that have "
            "seen no rows. Give it a batch of them once (`module(batch)`), and train it."
        )
    # `deepcopy` refuses tensors with a history, which old weight norm and kept activations leave in a module.
    held = [tensor for part in module.modules() for tensor in parts_of(vars(part)) if not tensor.is_leaf]
    copies |= {id(tensor): tensor.detach().clone() for tensor in held}
    twin: Any = copy.deepcopy(module, copies).eval()
    for part in twin.modules():
        part._compiled_call_impl = None
        for name, function in list(vars(part).items()):
            is_compiled = hasattr(function, "_torchdynamo_orig_callable")
            inner = inspect.unwrap(function, stop=inspect.ismethod) if is_compiled else None
            if inspect.ismethod(inner):  # functions are no part of a copy
                setattr(part, name, copy.deepcopy(inner, copies))
        for name, child in list(part.named_children()):
            inner = _without_covers(child)
            if inner is not child:
                setattr(part, name, inner)
    for parameter in twin.parameters():
        parameter.grad = None
        parameter.detach_()  # copies that TorchScript makes have a history
    return twin


def _without_covers(module: nn.Module) -> nn.Module:
    """The module inside of torch.compile and of wrappers that spread batches over devices."""
    while True:
        if isinstance(module, nn.DataParallel | nn.parallel.DistributedDataParallel):
            module = module.module
        elif hasattr(module, "_orig_mod"):
            module = module._orig_mod  # type: ignore[assignment]
        else:
            return module


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
                f"`estimator` must be a module that can be copied, and a function that it runs ({function}) holds on "
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


# What is random in training


_GENERATORS: dict[str, tuple[Callable[[], Any], Callable[[Any], Any]]] = {
    "Python's random": (random.getstate, random.setstate),
    "NumPy's global generator": (np.random.get_state, np.random.set_state),
    "torch's global generator": (torch.get_rng_state, torch.set_rng_state),
    "torch's generators on CUDA": (
        lambda: torch.cuda.get_rng_state_all() if torch.cuda.is_initialized() else [],
        torch.cuda.set_rng_state_all,
    ),
}


_OWN_GENERATORS = np.random.Generator, np.random.RandomState, random.Random, torch.Generator


def _states() -> dict[str, Any]:
    return {generator: get() for generator, (get, _) in _GENERATORS.items()}


def _written(state: Any) -> bytes:
    parts = state if isinstance(state, list) else [state]
    return pickle.dumps([part.numpy() if isinstance(part, Tensor) else part for part in parts])


def _written_own(own: list[Any]) -> bytes:
    return _written([part.get_state() if isinstance(part, torch.Generator) else part for part in own])


@contextmanager
def _no_other_randomness(name: str, own: list[Any]) -> Iterator[None]:
    """Refuse what draws random numbers that no pass has answered, and set the generators back but a copy's own."""
    before, of_own = _states(), _written_own(own)
    failure: NetError | None = None
    try:
        yield
    except NetError as error:
        failure = error
    moved = [generator for generator, state in _states().items() if _written(state) != _written(before[generator])]
    for generator in moved:
        _GENERATORS[generator][1](before[generator])
    moved += ["a generator of its own"] * (_written_own(own) != of_own)
    if moved:
        raise NetError(
            "`estimator` must draw its random numbers by torch's functions in Python, which can be held fixed, and "
            f"this {name} draws some by {' and '.join(moved)} (also by TorchScript or torch.ops). Draw them by "
            "torch.rand or bernoulli_, or give the class a method `sample_posterior(n_draws, rng)`."
        ) from failure
    if failure is not None:
        raise failure


def _learn_random_calls(net: FrozenNet, one: Any, sites: Sites, originals: dict[int, nn.Module]) -> Tensor:
    """Set the copy so that it differs from evaluation by its random calls alone, and find these; its plain outputs.

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
        is_same = _find_calls(net, one, sites, plain, _NoOriginals(originals, net.module))
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
