"""Draws from a torch module with dropout, at the cost of the units that they keep.

There are three ways, each the fallback of the one before: draws of a chain of layers are smaller networks
(`_pruned_networks`); in other nets the calls that depend on a mask are recorded and made again (`_recording`); where
nothing can be recorded, the module runs once a draw. The last way is right for every net that passes the checks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from .._utils.devices import Lock
from ._dropout_calls import OtherCallsError, Pass, Site, Sites, folded_error, plain_pass
from ._eval_copy import Forward, FrozenNet, RowsMixedError, is_close, learn_random_calls
from ._pruned_networks import PrunedNetworks, key_of, prunable
from ._recording import Call, Recording, record
from ._rows import Rows, copied, differ, is_out_of_memory, spread

_MOST_PLANS = 8  # shapes of blocks that are remembered

Plan = Callable[[Any], Tensor]


class FixedDraws(FrozenNet):
    """``n_draws`` functions from a module with dropout: each has one mask for all rows, the same on every device.

    It learns what it needs of the module under a lock, from real rows. After that it is only read, so that several
    threads may use it at once.
    """

    def __init__(
        self, module: nn.Module, n_draws: int, rng: np.random.Generator, forward: Forward | None = None
    ) -> None:
        super().__init__(module, forward)
        self.n_draws = n_draws
        self._sites = Sites(n_draws, rng)
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
        outputs = None
        if kind is None or kind not in self._plans:
            with self._lock:
                self._learn(rows, block[:1])
                self._check_draws(rows, block)
                if kind is not None:
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
            self._learn(rows, range(1))

    def by_whole_passes(self, batch: Any, n_rows: int) -> Tensor:
        """Outputs of all draws, one pass of the module after the other."""
        return torch.stack([self._run(k, batch, n_rows) for k in range(self.n_draws)])

    def _learn(self, rows: Rows, first: range) -> None:
        if self._one is None:
            one = rows.take(first)
            learn_random_calls(self, one, self._sites)
            self._one = one

    def _check_draws(self, rows: Rows, block: range) -> None:
        """Check a draw of some rows, until rows that differ were checked."""
        if self._is_checked:
            return
        some = spread(block)
        try:
            self._check(0, rows, some)
        except RowsMixedError:
            if not self._sites.folded:
                raise
        if self._sites.folded:
            self._find_order(rows, some)
        self._is_checked = differ(rows, some)

    def _check(self, draw: int, rows: Rows, some: list[int]) -> None:
        self.check_rows(lambda batch, n_rows: self._run(draw, batch, n_rows), rows, some)

    def _find_order(self, rows: Rows, some: list[int]) -> None:
        """Find out in which order parts of rows lie on one axis: in the right one each row is answered by itself."""
        for self._sites.parts_first in (False, True):
            try:
                for probe in self._sites.probes():
                    self._check(probe, rows, some)
                return
            except RowsMixedError:
                continue
        raise folded_error()

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
        networks = self._networks(pruned, letters) if letters else None

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

    def _networks(self, calls: list[Call], letters: str) -> PrunedNetworks:
        """The pruned networks of these layers, made once for blocks of all sizes."""
        key = key_of(calls, letters)
        if key not in self._pruned:
            self._pruned[key] = PrunedNetworks(calls, letters, self._sites)
        return self._pruned[key]

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
