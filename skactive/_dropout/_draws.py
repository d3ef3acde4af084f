"""Draws from a torch module with dropout, at the cost of the units that they keep.

A copy of the module answers without anything random but its masks; checks find nets of which no draw is a function.
There are three ways to the draws, each the fallback of the one before: draws of a chain of layers are smaller networks
(`_pruned_networks`); in other nets the calls that depend on a mask are recorded and made again (`_recording`); where
nothing can be recorded, the module runs once a draw. The last way is right for every net that passes the checks.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from .._utils.devices import Lock
from .._utils.validation import check_n_draws
from ._dropout_calls import PROBES, OtherCallsError, Pass, Site, Sites, folded_error, most_kept, plain_pass
from ._first_look import generators_of, learn_random_calls, no_other_randomness
from ._frozen_net import Forward, FrozenNet, RowsMixedError, is_close, rows_mixed_error, without_covers
from ._pruned_networks import PrunedNetworks, is_row_by_row, key_of, prunable
from ._recording import Recording, record
from ._rows import Rows, copied, is_out_of_memory, rows_of_outputs, spread

_MOST_PLANS = 8  # shapes of blocks that are remembered

Plan = Callable[[Any], Tensor]


class FixedDraws(FrozenNet):
    """``n_draws`` functions from a module with dropout: each has one mask for all rows, the same on every device.

    `learn` comes before the first call. Several threads may call it at once.
    """

    def __init__(
        self, module: nn.Module, n_draws: int, rng: np.random.Generator, forward: Forward | None = None
    ) -> None:
        copies: dict[int, Any] = {}
        super().__init__(module, forward, copies)
        self._originals = {id(part): part for part in without_covers(module).modules()}
        self.n_draws = check_n_draws(n_draws)
        self._sites = Sites(self.n_draws, rng, generators_of(copies))
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
                with no_other_randomness(self.name, self._sites.generators):
                    self._plain_one = learn_random_calls(self, one, self._sites, self._originals)
                self._one, self._originals = one, {}

    def rows_at_once(self, batch_size: int) -> int:
        """The batch size, halved until what the largest dropout gets for a block fits the memory to be kept free."""
        batch_size = rows_of_outputs(batch_size, self._plain_one, self.n_draws)
        of_row = 4 * max(math.prod(site.shape) for site in self._sites.at)  # bytes: floats, or wider ones
        while batch_size > 1 and batch_size * of_row > most_kept(self._plain_one.device):
            batch_size = (batch_size + 1) // 2
        return batch_size

    def by_whole_passes(self, batch: Any, n_rows: int) -> Tensor:
        """Outputs of all draws, one pass of the module after the other."""
        return torch.stack([self._run(k, batch, n_rows) for k in range(self.n_draws)])

    def _check_draws(self, rows: Rows, block: range) -> None:
        """Check a draw of some rows, until it is known to which the numbers of parts of rows go."""
        if self._is_checked:
            return
        some = spread(block, 32) if self._sites.reads_values else spread(block)
        # Parts of rows may lie on one axis in either order: in the right one each row is answered by itself.
        known = self._sites.parts_first  # in which other threads may be drawing now
        for self._sites.parts_first in (known, not known):
            try:
                self.check_rows(lambda batch, n_rows: self._run(0, batch, n_rows), rows, some)
                self._is_checked = self._check_parts(rows, some)
                return
            except RowsMixedError:
                if not self._sites.folded:
                    raise
        raise folded_error()

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
        # In place, dropout would change what draws share. Where a net counts on that, a draw as written differs.
        recording = record(self.outputs, batch, _tensors_of(self.module), Pass(self._sites, 0, n_rows, in_place=False))
        if recording is None or not recording.drawn or not is_close(recording.written, self._run(0, batch, n_rows)):
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
        if is_right and is_row_by_row(recording, self._sites):
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
            shared = recording.run_shared(batch, plain_pass(n_rows))  # nothing is dropped in what all draws share
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
            outputs.append(recording.run_drawn(own, masks, start))
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
