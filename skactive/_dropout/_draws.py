"""Draws from a torch module with dropout, at the cost of the units that they keep.

Draw k is the module under fixed masks (`_masks`). What is the same for all draws is computed once (`_tape`). Where the
rest is a chain of layers, a dropped unit or channel needs no arithmetic: draw k is a smaller network (`_thinned`).
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from .._threads import Lock
from ._frozen import Forward, FrozenNet, copied, is_close
from ._masks import Pass
from ._modes import find_mode
from ._noise import Noise
from ._plans import Plan, kind_of, quick_plan
from ._rows import Rows, differ, is_out_of_memory, spread
from ._sites import ROW_BY_ROW, OtherCallsError, PartsError, Site, Sites, folded_error
from ._thinned import ThinnedNetworks

_MOST_PLANS = 8  # shapes of blocks that are remembered
_PROBED_ROWS = 8  # compared to find where the parts of rows lie


class FixedDraws(FrozenNet):
    """``n_draws`` functions from a module with dropout: each has one mask for all rows.

    Parameters
    ----------
    module, forward
        As in `FrozenNet`.
    n_draws : int
    rng : numpy.random.Generator
        Source of the masks; the same masks on every device.

    Notes
    -----
    The object learns what it needs of the module under a lock, from real rows. After that it is only read, so that
    several threads may use it at once.
    """

    def __init__(
        self, module: nn.Module, n_draws: int, rng: np.random.Generator, forward: Forward | None = None
    ) -> None:
        super().__init__(module, forward)
        self.n_draws = n_draws
        self._sites = Sites(Noise(n_draws, rng))
        self._heeds_training: bool | None = None  # whether dropout counts only where a call asks for it in training
        self._plans: dict[str, Plan] = {}
        self._thinned: dict[Any, ThinnedNetworks] = {}
        self._is_checked = self._is_in_place = False
        self._one: Any = None  # a batch of the first row
        self._lock = Lock()

    def __getstate__(self) -> dict[str, Any]:
        """The functions, without the quick ways to them, which are found again where they are called."""
        return {**vars(self), "_plans": {}, "_thinned": {}}

    def __call__(self, rows: Rows, block: range) -> Tensor:
        """Outputs of all draws for a block of the rows, (n_draws, n_rows, ...)."""
        batch = rows.take(block)
        key = kind_of(batch)
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
        if self._heeds_training is None:
            self._one = rows.take(first)
            self._heeds_training = find_mode(self, self._one, self._sites)

    def _new_plan(self, rows: Rows, block: range, batch: Any) -> tuple[Plan, Tensor]:
        """The quickest way to all draws of batches like this one, and the draws of this one."""
        n_rows = len(block)
        try:
            quick = self._quick_plan(batch, n_rows)
        except PartsError:
            self._find_parts(rows, block)
            quick = self._quick_plan(batch, n_rows)
        if quick is not None:
            plan, written = quick
            outputs = self._tried(plan, batch)
            # Draw 0 was checked as the tape was written; the last one shows whether a draw changes the next.
            if outputs is not None and is_close(outputs[0], written) and self._is_last(outputs[-1], batch, n_rows):
                return plan, outputs
        plan = partial(self._whole, n_rows=n_rows)
        return plan, plan(batch)

    def _is_last(self, outputs: Tensor, batch: Any, n_rows: int) -> bool:
        return is_close(outputs, self._run(self.n_draws - 1, batch, n_rows))

    @staticmethod
    def _tried(plan: Plan, batch: Any) -> Tensor | None:
        """The draws by a plan; None if it fails, as where a net takes gradients inside."""
        try:
            return plan(batch)
        except Exception as error:
            if is_out_of_memory(error):
                raise
            return None

    def _check_draws(self, rows: Rows, block: range) -> None:
        """Check a draw of some rows, until rows that differ were checked; learn whether dropout must act in place."""
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
        with self._lock:  # random numbers may decide which calls follow, as where layers are left out
            calls: list[Site] = []
            self._sites.of_draw[draw] = calls
            try:
                with self._pass(draw, 1, learns=True):
                    self.outputs(copied(self._one))
                return self._run_once(draw, batch, n_rows, in_place=in_place)
            except OtherCallsError:
                del self._sites.of_draw[draw]
                raise

    def _run_once(self, draw: int, batch: Any, n_rows: int, *, in_place: bool = True) -> Tensor:
        masks = self._pass(draw, n_rows, in_place=in_place)
        with masks:
            outputs = self.outputs(copied(batch))  # a module may work in place
        if not masks.made_all_calls:
            raise OtherCallsError(
                "`estimator` must make the same random calls in every forward pass, and a pass over "
                f"{n_rows} rows made fewer than a pass over a single row. {ROW_BY_ROW}."
            )
        return outputs

    def _pass(self, draw: int, n_rows: int, **options: Any) -> Pass:
        return Pass(self._sites, draw, n_rows, heeds_training=self._heeds_training is not False, **options)

    def _whole(self, batch: Any, n_rows: int) -> Tensor:
        return torch.stack([self._run(k, batch, n_rows) for k in range(self.n_draws)])

    def _quick_plan(self, batch: Any, n_rows: int) -> tuple[Plan, Tensor] | None:
        if self._is_in_place or any(m._forward_hooks or m._forward_pre_hooks for m in self.module.modules()):
            return None  # a tape would lose the side effects
        new_pass = partial(self._pass, n_rows=n_rows, in_place=False)
        return quick_plan(self, batch, n_rows, new_pass, self._sites, self._thinned)

    # Where the parts of rows lie

    def _find_parts(self, rows: Rows, block: range) -> None:
        """Find out, at calls that get rows in parts on one axis, whether the parts of a row lie side by side.

        Of two rows the second is replaced by another: the numbers that change belong to it.
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
            self.outputs(copied(batch))
        return masks.watched


def _second_row_is_one_piece(same: Tensor, other: Tensor, site: Site) -> bool | None:
    """Whether the numbers of the second of two rows, those that changed, are the second half of an axis.

    False if they are its every second place; None if both or neither may be.
    """
    if same.shape != other.shape:
        return None
    axis = next(a for a, lengths in enumerate(zip(site.shape, same.shape, strict=True)) if lengths[0] != lengths[1])
    n_parts = site.shape[axis]
    scale = float(same.abs().max()) * torch.finfo(torch.float32).eps ** 0.5  # smaller changes may be rounding
    changed = ((same - other).abs() > scale).movedim(axis, 0).flatten(1).any(1).cpu()
    in_first_half, at_even_places = bool(changed[:n_parts].any()), bool(changed[::2].any())
    if not bool(changed.any()) or in_first_half == at_even_places:
        return None
    return at_even_places
