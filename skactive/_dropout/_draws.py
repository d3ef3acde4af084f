"""Draws from a torch module with dropout, at the cost of what they keep.

Draw k is the module under fixed masks (`_masks`). What is the same for all draws is computed once (`_tape`). Where the
rest is a chain of layers, a dropped unit or channel needs no arithmetic: draw k is a smaller network (`_thinned`).

A module always sees the same blocks: rows cut at multiples of the block size, from the first row on. In floating point
the last bits of a row's output depend on the shape of the block around it and on the row's place in it, differently on
every processor; so whoever streams rows in chunks of whole blocks gets the same bits for every size of the chunks, by
construction. Nothing is padded: no module sees a row that is not there.
"""

from __future__ import annotations

import copy
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any, Protocol, Self

import numpy as np
import torch
from torch import Tensor, nn

from .._checks import NetError, NoDropoutError, warn
from ._masks import ROW_BY_ROW, OtherCallsError, PartsError, Pass, Site, Sites, folded_error, plain_pass
from ._noise import Noise
from ._tape import NotWrittenError, chain_of, mapped, parts_of, record, run_steps
from ._thinned import ThinnedNetworks, key_of, stages_of, thinnable

BLOCK = 256
"""Rows in one forward pass, where nothing else is said: enough to keep two cores busy, few enough for the cache."""

_MOST_PLANS = 8  # shapes of blocks that are remembered
CHECKED_ROWS = 8
"""Rows that are looked at, in all ways, before others are answered."""

_PROBED_ROWS = 8  # that are compared to find where the parts of rows lie

Forward = Callable[[nn.Module, Any], Any]
Plan = Callable[[Any], Tensor]


class Rows(Protocol):
    """Rows of a pool as a net is given them."""

    def __len__(self) -> int: ...

    def take(self, rows: range | list[int]) -> Any:
        """A batch of these rows, as the forward pass takes it: tensors, on their own or in tuples, lists or dicts."""


class TensorRows:
    """Rows of a tensor."""

    def __init__(self, x: Tensor) -> None:
        self.x = x

    def __len__(self) -> int:
        return len(self.x)

    def take(self, rows: range | list[int]) -> Tensor:
        # A copy begins where memory is aligned: products of matrices may be computed in another order elsewhere.
        return (self.x[rows.start : rows.stop] if isinstance(rows, range) else self.x[rows]).clone()


class FrozenNet:
    """A copy of a module in evaluation mode, which answers without anything random.

    Parameters
    ----------
    module : torch.nn.Module
        Its mode, statistics, gradients and later training are left alone: a copy is what runs.
    forward : callable, optional
        ``forward(module, batch)`` evaluates the module on a batch; by default ``module(batch)``.
    """

    def __init__(self, module: nn.Module, forward: Forward | None = None) -> None:
        self.name = type(module).__name__
        self.module = frozen(module)
        self._which: int | None = None  # of several tensors returned in training, which is what is returned else
        self._forward = forward or nn.Module.__call__

    def plain(self, batch: Any, n_rows: int) -> tuple[Tensor, Pass]:
        """What the net returns for a batch with dropout switched off, and the pass, which noted how it came about."""
        masks = plain_pass(n_rows)
        with masks:
            return self.outputs(_copied(batch)), masks

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
            f"{type(outputs).__name__}. Wrap it in a module whose forward pass returns the logits alone."
        )

    def all_outputs(self, batch: Any) -> Any:
        """What the module returns, or the logits of it."""
        try:
            outputs = self._forward(self.module, batch)
        except (NetError, NotWrittenError):
            raise
        except Exception as error:
            if is_out_of_memory(error):
                raise
            shapes = ", ".join(str(tuple(x.shape)) for x in parts_of(batch)) or type(batch).__name__
            remedy = (
                " Whole numbers stay whole, since they may be ids: convert the pool with .astype(numpy.float32) if the "
                "net takes numbers with a point."
                if "Long" in str(error) and "same dtype" in str(error)
                else ""
            )
            raise NetError(
                f"The forward pass of this {self.name} failed on a block of shape {shapes}: "
                f"{type(error).__name__}: {error}{remedy}"
            ) from error
        return getattr(outputs, "logits", outputs)

    def check_rows(self, answer: Callable[[Any, int], Tensor], rows: Rows, block: list[int]) -> None:
        """Check what is answered for some rows: one answer a row, the same again, and by the row itself."""
        n_rows = len(block)
        beside_others, again = (answer(rows.take(block), n_rows) for _ in range(2))
        if len(beside_others) != n_rows:
            raise NetError(
                f"`estimator` must return one output for each row: this {self.name} returned outputs of shape "
                f"{tuple(beside_others.shape)} for {n_rows} rows."
            )
        if not is_close(again, beside_others):
            raise NetError(
                f"`estimator` must answer alike at every call under the same dropout: this {self.name} draws random "
                "numbers that do not come from torch, or remembers its calls. A draw of it would be no function. Let "
                "it take its numbers from torch.rand or bernoulli_, and forget its calls."
            )
        beside_itself = answer(rows.take([block[0]] * n_rows), n_rows)
        if not is_close(beside_itself[:1], beside_others[:1]):
            raise NetError(
                f"`estimator` must answer each row by itself: what this {self.name} answers for a row changes with the "
                "rows beside it in a block. Batch norm without running statistics does that, attention across rows, "
                f"and a data set that scales rows by each other. {ROW_BY_ROW}, if the net is to see rows by themselves."
            )

    def find(self, answer: Tensor, outputs: Any) -> bool:
        """Whether an answer is among the outputs in training, which may be more than those of evaluation; and which."""
        if isinstance(outputs, Tensor):
            return is_close(outputs, answer)
        self._which = next((i for i, tensor in enumerate(parts_of(outputs)) if is_close(tensor, answer)), None)
        return self._which is not None


class FixedDraws(FrozenNet):
    """``n_draws`` functions from a module with dropout: one mask for all rows, for each of them.

    Parameters
    ----------
    module, forward
        As in `FrozenNet`.
    n_draws : int
    rng : numpy.random.Generator
        Source of the masks; the same masks on every device.

    Notes
    -----
    Everything that is learnt of the module is learnt under a lock, from real rows; after that the object is only read,
    so that several threads may use it at once.
    """

    def __init__(
        self, module: nn.Module, n_draws: int, rng: np.random.Generator, forward: Forward | None = None
    ) -> None:
        super().__init__(module, forward)
        self.n_draws = n_draws
        self._sites = Sites(Noise(n_draws, rng))
        self._mode: _Mode | None = None
        self._plans: dict[str, Plan] = {}
        self._thinned: dict[Any, ThinnedNetworks] = {}
        self._is_checked = self._is_in_place = False
        self._one: Any = None  # a batch of the first row
        self._lock = threading.RLock()

    def __call__(self, rows: Rows, block: range) -> Tensor:
        """Outputs of all draws for a block of the rows, (n_draws, n_rows, ...)."""
        batch = rows.take(block)
        key = _kind_of(batch)
        plan = None if key is None else self._plans.get(key)
        if plan is not None:
            return plan(batch)
        with self._lock:
            self._learn_mode(rows, block[:1])
            self._check_draws(rows, block)
            if key is None:
                return self._whole(batch, len(block))
            plan, outputs = self._new_plan(rows, block, batch)
            if len(self._plans) >= _MOST_PLANS:
                self._plans.pop(next(iter(self._plans)))
            self._plans[key] = plan
        return outputs

    def learn(self, rows: Rows) -> None:
        """Find out what is random, from the first row; raises if nothing is, or it cannot be held fixed."""
        with self._lock:
            self._learn_mode(rows, range(1))

    def _learn_mode(self, rows: Rows, first: range) -> None:
        if self._mode is None:
            self._one = rows.take(first)
            self._mode = _find_mode(self, self._one, self._sites)

    def _new_plan(self, rows: Rows, block: range, batch: Any) -> tuple[Plan, Tensor]:
        """The quickest way to all draws of batches like this one, and where it led."""
        n_rows = len(block)
        try:
            quick = self._quick_plan(batch, n_rows)
        except PartsError:
            self._find_parts(rows, block)
            quick = self._quick_plan(batch, n_rows)
        if quick is not None:
            plan, written = quick
            outputs = self._tried(plan, batch)
            # The first draw was written down; the last shows whether one draw leaves something behind for the next.
            if outputs is not None and is_close(outputs[0], written) and self._is_last(outputs[-1], batch, n_rows):
                return plan, outputs
        plan = partial(self._whole, n_rows=n_rows)
        return plan, plan(batch)

    def _is_last(self, outputs: Tensor, batch: Any, n_rows: int) -> bool:
        return is_close(outputs, self._run(self.n_draws - 1, batch, n_rows))

    @staticmethod
    def _tried(plan: Plan, batch: Any) -> Tensor | None:
        """Where a plan leads; None if it cannot be followed, as where a net takes gradients inside."""
        try:
            return plan(batch)
        except Exception as error:
            if is_out_of_memory(error):
                raise
            return None

    def _check_draws(self, rows: Rows, block: range) -> None:
        """Check a draw of some rows, once there are rows that differ; see whether dropout in place has to be so."""
        if self._is_checked:
            return
        some = spread(block)

        def answer(batch: Any, n_rows: int) -> Tensor:
            return self._run(0, batch, n_rows)

        try:
            self.check_rows(answer, rows, some)
        except PartsError:
            self._find_parts(rows, block)
            self.check_rows(answer, rows, some)
        self._is_in_place = self._is_in_place or any(
            not is_close(
                self._run(draw, rows.take(some), len(some), in_place=False), self._run(draw, rows.take(some), len(some))
            )
            for draw in {0, self.n_draws - 1}
        )
        self._is_checked = differ(rows, some)

    # One draw after the other

    def _run(self, draw: int, batch: Any, n_rows: int, *, in_place: bool = True) -> Tensor:
        try:
            return self._run_once(draw, batch, n_rows, in_place=in_place)
        except OtherCallsError:
            if draw in self._sites.of_draw:
                raise
        with self._lock:  # what the draw sees may decide which calls follow, as in layers that are left out
            calls: list[Site] = []
            self._sites.of_draw[draw] = calls
            try:
                with self._pass(draw, 1, learns=True):
                    self.outputs(_copied(self._one))
                return self._run_once(draw, batch, n_rows, in_place=in_place)
            except OtherCallsError:
                del self._sites.of_draw[draw]
                raise

    def _run_once(self, draw: int, batch: Any, n_rows: int, *, in_place: bool = True) -> Tensor:
        masks = self._pass(draw, n_rows, in_place=in_place)
        with masks:
            outputs = self.outputs(_copied(batch))  # a module may work in place
        if not masks.made_all_calls:
            raise OtherCallsError(
                "`estimator` must ask for the same random numbers in every forward pass, and a pass over "
                f"{n_rows} rows asked for fewer than one over a single row. {ROW_BY_ROW}."
            )
        return outputs

    def _pass(self, draw: int, n_rows: int, **options: Any) -> Pass:
        heeds = self._mode is None or self._mode.heeds_training
        return Pass(self._sites, draw, n_rows, heeds_training=heeds, **options)

    def _whole(self, batch: Any, n_rows: int) -> Tensor:
        return torch.stack([self._run(k, batch, n_rows) for k in range(self.n_draws)])

    # By a tape

    def _quick_plan(self, batch: Any, n_rows: int) -> tuple[Plan, Tensor] | None:
        """A plan that does not run the module, if there is one, and what draw 0 was when it was written down."""
        if self._is_in_place or any(m._forward_hooks or m._forward_pre_hooks for m in self.module.modules()):
            return None  # what is done beside would be lost
        new_pass = partial(self._pass, n_rows=n_rows, in_place=False)
        tape = record(self.outputs, batch, _tensors_of(self.module), new_pass(0))
        if tape is None or not tape.drawn:
            return None
        written = tape.written
        steps = chain_of(tape)
        letters, rest = thinnable(steps, self._sites)
        if not letters:
            return lambda batch: _masked(tape, new_pass, _shared(tape, batch, n_rows), self.n_draws), written
        networks = self._networks(steps, letters)
        entered = steps[0].takes
        return lambda batch: _finished(rest, new_pass, networks(_shared(tape, batch, n_rows)[entered])), written

    def _networks(self, steps: list[Any], letters: str) -> ThinnedNetworks:
        key = key_of(steps, letters)
        if key not in self._thinned:
            are_images = len(steps[0].shape) > 2
            self._thinned[key] = ThinnedNetworks(stages_of(steps, letters), self._sites, are_images)
        return self._thinned[key]

    # Where the parts of rows lie

    def _find_parts(self, rows: Rows, block: range) -> None:
        """Find out, at calls that see rows in parts on one axis, whether those of a row lie side by side.

        Of two rows the second is replaced by another: what changes is the second row's.
        """
        same = self._watched(rows.take([block[0], block[0]]))
        for other in [*block][1 : _PROBED_ROWS + 1]:
            for position, x in self._watched(rows.take([block[0], other])).items():
                is_one_piece = _second_row_is_one_piece(same[position], x, self._sites.at[position])
                if is_one_piece is not None:
                    self._sites.rows_inside.setdefault(position, is_one_piece)
            if same.keys() <= self._sites.rows_inside.keys():
                return
        raise folded_error()

    def _watched(self, batch: Any) -> dict[int, Tensor]:
        masks = self._pass(0, 2)
        masks.watched = {}
        with masks:
            self.outputs(_copied(batch))
        return masks.watched


def _shared(tape: Any, batch: Any, n_rows: int) -> dict[int, Any]:
    """What all draws have in common, in which nothing is dropped, and statistics are those of training."""
    with plain_pass(n_rows):
        return tape.run_shared(batch)


def _masked(tape: Any, new_pass: Callable[..., Pass], shared: dict[int, Any], n_draws: int) -> Tensor:
    outputs = []
    for draw in range(n_draws):
        masks = new_pass(draw)
        with masks:
            outputs.append(tape.run_drawn(shared))
    return torch.stack(outputs)


def _finished(rest: list[Any], new_pass: Callable[..., Pass], outputs: Tensor) -> Tensor:
    """What follows the last layer that could be thinned."""
    if not rest:
        return outputs
    finished = []
    for draw, h in enumerate(outputs):
        masks = new_pass(draw)
        masks.position = next((step.masks.start for step in rest if step.masks), 0)
        with masks:
            finished.append(run_steps(rest, h))
    return torch.stack(finished)


# Modes


class _Mode:
    """How the copy is set for draws: whether dropout counts only where it is asked for in training."""

    def __init__(self, heeds_training: bool) -> None:
        self.heeds_training = heeds_training


def _find_mode(net: FixedDraws, one: Any, sites: Sites) -> _Mode:
    """Set the copy so that all that is random in training is random, and nothing else is as in training.

    Layers may look at ``self.training`` to switch dropout of their own (of paths, of attention), so all parts are put
    in training mode, save those that normalise. With everything random switched off the net has to answer as in
    evaluation mode, be it beside other outputs. Where it does not, it does more in training than drop units; then the
    same dropout has to be found in evaluation mode.
    """
    net.module.eval()
    plain, _ = net.plain(one, 1)
    _check_answer(net, plain)
    _train_only(net.module, _parts_to_train(net.module))
    failure, in_training = "", None
    try:
        n_at_rate_zero, is_same = _learn(net, one, sites, plain)
    except NetError as error:
        if error.__cause__ is None:
            raise
        failure = f" ({error.__cause__!r})"  # of the module's own code, which in training may ask for labels, say
    else:
        if is_same and not sites.at:
            raise _no_dropout_error(net, n_at_rate_zero)
        if is_same:
            return _Mode(heeds_training=True)
        in_training = sites.at
    is_steady = in_training is not None and _is_steady(net, one, sites)
    net.module.eval()
    _learn(net, one, sites, plain, heeds_training=False)
    if not (is_steady and in_training and sorted(map(_law_of, in_training)) == sorted(map(_law_of, sites.at))):
        raise NetError(
            f"`estimator` must drop units in training and do nothing else beside: this {net.name} answers a row "
            f"otherwise in training than in evaluation, also with its dropout switched off{failure}. Let nothing but "
            "dropout and normalisation depend on `self.training` or on the calls before (let it forget its calls), and "
            "let random numbers come from torch.rand or bernoulli_; or give the class a method "
            "`sample_posterior(n_draws, rng)`."
        )
    return _Mode(heeds_training=False)


def _learn(net: FixedDraws, one: Any, sites: Sites, plain: Tensor, *, heeds_training: bool = True) -> tuple[int, bool]:
    """Find the random calls of a pass over a single row.

    Returns how often dropout had rate 0, and whether without anything random the answer is that of evaluation.
    """
    sites.at = []
    masks = Pass(sites, 0, 1, heeds_training=heeds_training, learns=True)
    raw: list[nn.Module] = []
    with _calling_parts(net.module) as calling:
        masks.on_raw_call = lambda: raw.append(calling[-1])
        with masks:
            net.all_outputs(_copied(one))
    modes = [(part, part.training) for part in raw]
    for part in raw:  # which draw numbers of their own: switched off as they are in evaluation
        part.training = False
    try:
        with plain_pass(1):
            is_same = net.find(plain, net.all_outputs(_copied(one)))
    finally:
        for part, mode in reversed(modes):
            part.training = mode
    return masks.n_at_rate_zero, is_same


def _is_steady(net: FixedDraws, one: Any, sites: Sites) -> bool:
    """Whether draw 0 is the same at every call in training, so that nothing is random there that was not seen."""

    def outputs() -> list[Tensor]:
        with Pass(sites, 0, 1):
            return list(parts_of(net.all_outputs(_copied(one))))

    first, *others = (outputs() for _ in range(4))
    return all(len(each) == len(first) and all(map(is_close, each, first)) for each in others)


def _law_of(site: Site) -> tuple[Any, ...]:
    return site.law, site.shape, site.p, site.is_alpha


def _parts_to_train(module: nn.Module) -> list[nn.Module]:
    """All that training mode switches to what a posterior is made of: not statistics of batches, nor of weights."""
    module.train()
    return [part for part in module.modules() if part.training and not _normalises(part)]


def _normalises(part: nn.Module) -> bool:
    names = {type(part).__name__, *(type(hook).__name__ for hook in part._forward_pre_hooks.values())}
    return isinstance(part, nn.modules.batchnorm._NormBase) or bool(names & {"_SpectralNorm", "SpectralNorm"})


def _train_only(module: nn.Module, parts: list[nn.Module]) -> None:
    for part in module.modules():
        part.training = False
    for part in parts:
        part.training = True


@contextmanager
def _calling_parts(module: nn.Module) -> Iterator[list[nn.Module]]:
    """A list that holds, at any time, the parts of a module whose forward passes are running."""
    calling: list[nn.Module] = [module]
    hooks = []
    for part in module.modules():
        hooks.append(part.register_forward_pre_hook(lambda part, _: calling.append(part)))
        hooks.append(part.register_forward_hook(lambda *_: (calling.pop(), None)[1]))  # what it returns counts
    try:
        yield calling
    finally:
        for hook in hooks:
            hook.remove()


def _check_answer(net: FrozenNet, outputs: Tensor) -> None:
    """Refuse what is no answer to a single row."""
    if outputs.ndim < 1 or len(outputs) != 1:
        raise NetError(
            f"`estimator` must return one output for each row: this {net.name} returned outputs of shape "
            f"{tuple(outputs.shape)} for a single row."
        )
    if outputs.device.type == "meta" or not bool(outputs.isnan().any()):
        return
    weights = [name for name, weight in net.module.named_parameters() if not bool(weight.isfinite().all())]
    remedy = (
        f"Its weights in {weights[0]!r} are not finite: it diverged in training, or was loaded wrongly. Train it anew."
        if weights
        else "Its weights are finite, so it is what it makes of this row: look at missing or very large values in it."
    )
    raise NetError(
        f"`estimator` must answer with numbers, and this {net.name} answers the first row with NaN. {remedy}"
    )


def _no_dropout_error(net: FixedDraws, n_at_rate_zero: int) -> NetError:
    has = f"{n_at_rate_zero} of rate 0" if n_at_rate_zero else "none"
    remedy = "Set a rate above 0" if n_at_rate_zero else "Add torch.nn.Dropout layers"
    return NoDropoutError(
        f"`estimator` must have a dropout layer with a rate above 0 to be drawn from, and this {net.name} has {has}: "
        f"all draws would be the same function and BALD 0 everywhere. {remedy}, or give the query "
        'posterior="bootstrap".'
    )


# Copies of modules


def frozen(module: nn.Module) -> nn.Module:
    """A copy in evaluation mode, without gradients, that runs in Python where a copy of it can."""
    module = _without_covers(module)
    if any(isinstance(part, torch.jit.ScriptModule) for part in module.modules()):
        raise TypeError(
            "`estimator` must be a module that runs in Python, for its dropout to be held fixed. "
            f"{type(module).__name__} was compiled by TorchScript: give the module that it was made from."
        )
    copied: Any = copy.deepcopy(module, _detached_copies(module)).eval()
    for part in copied.modules():
        part._compiled_call_impl = None
        for name, child in list(part.named_children()):
            inner = _without_covers(child)
            if inner is not child:
                setattr(part, name, inner)
    for parameter in copied.parameters():
        parameter.grad = None
    return copied.requires_grad_(False)


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
    """Copies of tensors that torch does not copy: those with a history, which old weight norm leaves in a module."""
    tensors = [value for part in module.modules() for value in vars(part).values() if isinstance(value, Tensor)]
    return {id(tensor): tensor.detach().clone() for tensor in tensors if not tensor.is_leaf}


def _tensors_of(module: nn.Module) -> list[Tensor]:
    """Tensors that a module holds, whatever as."""
    held = [value for part in module.modules() for value in vars(part).values() if isinstance(value, Tensor)]
    return [*module.parameters(), *module.buffers(), *held]


# Blocks


class BlockSize:
    """How many rows go through a net at once: fewer once memory ran out."""

    def __init__(self, n_rows: int) -> None:
        self.n_rows = n_rows
        self._is_said = False

    def halve(self, n_tried: int, error: Exception) -> None:
        """Go on with half as many, and say so the first time."""
        if n_tried == 1:
            raise error
        self.n_rows = min(self.n_rows, (n_tried + 1) // 2)
        if not self._is_said:
            self._is_said = True
            warn(
                f"Memory ran out for {n_tried} rows at once: they go through the net in smaller blocks, halved until "
                f"they fit. Set `predict_batch_size` below {n_tried} to have that from the start."
            )


class InBlocks:
    """A function of rows that go through a net so many at once.

    Attributes
    ----------
    batch_size : int
        Chunks of whole blocks of so many rows give the same bits as all rows.
    """

    def __init__(self, batch_size: int) -> None:
        self._size = BlockSize(batch_size)

    @property
    def batch_size(self) -> int:
        return self._size.n_rows

    def with_batch_size(self, n_rows: int) -> Self:
        """The same function, of so many rows at once."""
        twin = copy.copy(self)
        twin._size = BlockSize(n_rows)
        return twin


def forward_rows(function: Callable[[Rows, range], Tensor], rows: Rows, size: BlockSize, axis: int = 0) -> Tensor:
    """Apply ``function`` to one block of rows after the other and join the results along ``axis``."""
    with torch.no_grad():
        return join_rows(_parts(function, rows, size), len(rows), axis)


def _parts(function: Callable[[Rows, range], Tensor], rows: Rows, size: BlockSize) -> Iterator[Tensor]:
    start = 0
    while start < len(rows):
        block = range(start, min(start + size.n_rows, len(rows)))
        try:
            part = function(rows, block)
        except (MemoryError, RuntimeError) as error:
            if not is_out_of_memory(error):
                raise
            size.halve(len(block), error)
            continue
        yield part
        start = block.stop


def is_out_of_memory(error: Exception) -> bool:
    texts = ("out of memory", "can't allocate memory", "not enough memory")
    return isinstance(error, MemoryError) or any(text in str(error) for text in texts)


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


def row_by_row(embeddings: Tensor, n_rows: int) -> Tensor:
    """What entered a linear layer, (n_rows, n_units)."""
    if len(embeddings) != n_rows:
        raise NetError(
            "`estimator` must hand its last linear layer one row after the other, on the first axis, for its input to "
            f"be an embedding. Got shape {tuple(embeddings.shape)} for {n_rows} rows."
        )
    return embeddings.reshape(n_rows, -1)


# Batches


def _copied(batch: Any) -> Any:
    return mapped(batch, Tensor.clone)


def spread(block: range) -> list[int]:
    """A few rows of a block, its first among them."""
    return list(block[:: max(1, len(block) // CHECKED_ROWS)][:CHECKED_ROWS])


def differ(rows: Rows, some: list[int]) -> bool:
    """Whether not all of some rows are alike; rows that hold no tensors are taken to differ."""
    ours, firsts = (list(parts_of(rows.take(which))) for which in (some, [some[0]] * len(some)))
    is_known = len(some) > 1 and [x.shape for x in ours] == [x.shape for x in firsts]
    if not ours or (is_known and ours[0].device.type == "meta"):
        return len(some) > 1
    return len(some) > 1 and not (is_known and all(torch.equal(*pair) for pair in zip(ours, firsts, strict=True)))


def _kind_of(batch: Any) -> str | None:
    """What blocks have in common that one tape serves; None for what holds more than tensors, names and numbers."""
    parts: list[Any] = []

    def is_plain(value: Any) -> bool:
        if isinstance(value, Tensor):
            parts.append((tuple(value.shape), value.dtype, str(value.device)))
        elif isinstance(value, tuple | list):
            parts.append((type(value).__name__, len(value)))
            return all(map(is_plain, value))
        elif isinstance(value, Mapping):
            parts.append(list(value))
            return all(map(is_plain, value.values()))
        else:
            parts.append(value)
            return value is None or isinstance(value, bool | int | float | str)
        return True

    return str(parts) if is_plain(batch) and any(True for _ in parts_of(batch)) else None


def _second_row_is_one_piece(same: Tensor, other: Tensor, site: Site) -> bool | None:
    """Whether what changed with the second of two rows lies in the second half of an axis, or in every second place."""
    if same.shape != other.shape:
        return None
    axis = next(a for a, lengths in enumerate(zip(site.shape, same.shape, strict=True)) if lengths[0] != lengths[1])
    n_parts = site.shape[axis]
    scale = float(same.abs().max()) * torch.finfo(torch.float32).eps ** 0.5  # less is rounding, on some device
    changed = ((same - other).abs() > scale).movedim(axis, 0).flatten(1).any(1).cpu()
    in_second_half, in_every_second = bool(changed[:n_parts].any()), bool(changed[::2].any())
    if not bool(changed.any()) or in_second_half == in_every_second:
        return None
    return in_every_second


def is_close(answer: Tensor, expected: Tensor) -> bool:
    """Whether two ways to the same numbers led there, but for rounding."""
    if answer.shape != expected.shape:
        return False
    if answer.device.type == "meta":  # holds no values
        return True
    tolerance = 3 * torch.finfo(answer.dtype).eps ** 0.5 if answer.is_floating_point() else 0.0
    answer, expected = answer.detach().cpu().double(), expected.detach().cpu().double()
    scale = float(expected[expected.isfinite()].abs().max()) if bool(expected.isfinite().any()) else 0.0
    return torch.allclose(answer, expected, rtol=0, atol=tolerance * max(scale, 1e-3), equal_nan=True)
