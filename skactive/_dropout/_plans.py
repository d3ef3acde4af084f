"""Quick ways to all draws of a block: by a tape, and by thinned networks where layers form a chain.

A plan serves blocks of one kind: the same shapes, types and devices of their tensors, and the same numbers and names.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from ._frozen import FrozenNet
from ._masks import Pass, plain_pass
from ._nested import parts_of
from ._sites import Sites
from ._tape import Step, Tape, chain_of, record, run_steps
from ._thinned import ThinnedNetworks, key_of, stages_of, thinnable

Plan = Callable[[Any], Tensor]
NewPass = Callable[[int], Pass]  # the pass of a draw over a block


def quick_plan(
    net: FrozenNet, batch: Any, n_rows: int, new_pass: NewPass, sites: Sites, thinned: dict[Any, ThinnedNetworks]
) -> tuple[Plan, Tensor] | None:
    """A plan that does not run the module, and draw 0 as the tape was written; None if there is no such plan."""
    tape = record(net.outputs, batch, _tensors_of(net.module), new_pass(0))
    if tape is None or not tape.drawn:
        return None
    steps = chain_of(tape)
    letters, rest = thinnable(steps, sites)
    if not letters:
        return lambda batch: _masked(tape, new_pass, _shared(tape, batch, n_rows), sites.noise.n_draws), tape.written
    networks = _networks(steps, letters, sites, thinned)
    entered = steps[0].takes
    return lambda batch: _finished(rest, new_pass, networks(_shared(tape, batch, n_rows)[entered])), tape.written


def _networks(steps: list[Step], letters: str, sites: Sites, thinned: dict[Any, ThinnedNetworks]) -> ThinnedNetworks:
    """The thinned networks of these layers, made once for blocks of all sizes."""
    key = key_of(steps, letters)
    if key not in thinned:
        are_images = len(steps[0].shape) > 2
        thinned[key] = ThinnedNetworks(stages_of(steps, letters), sites, are_images)
    return thinned[key]


def _shared(tape: Tape, batch: Any, n_rows: int) -> dict[int, Any]:
    """The values that all draws share: nothing is dropped in them, and statistics are those of training."""
    with plain_pass(n_rows):
        return tape.run_shared(batch)


def _masked(tape: Tape, new_pass: NewPass, shared: dict[int, Any], n_draws: int) -> Tensor:
    outputs = []
    for draw in range(n_draws):
        masks = new_pass(draw)
        with masks:
            outputs.append(tape.run_drawn(shared))
    return torch.stack(outputs)


def _finished(rest: list[Step], new_pass: NewPass, outputs: Tensor) -> Tensor:
    """Outputs of all draws, by the steps behind the last layer that could be thinned."""
    if not rest:
        return outputs
    finished = []
    for draw, h in enumerate(outputs):
        masks = new_pass(draw)
        masks.position = next((step.masks.start for step in rest if step.masks), 0)
        with masks:
            finished.append(run_steps(rest, h))
    return torch.stack(finished)


def _tensors_of(module: nn.Module) -> list[Tensor]:
    """Tensors that a module holds: parameters, buffers and plain attributes."""
    held = [value for part in module.modules() for value in vars(part).values() if isinstance(value, Tensor)]
    return [*module.parameters(), *module.buffers(), *held]


def kind_of(batch: Any) -> str | None:
    """The kind of a block, for which a plan holds; None for values other than tensors, names and numbers."""
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
