"""Nets written short, and draws of modules, as tests ask for them."""

from typing import Any

import numpy as np
import torch
from torch import nn

from skactive._dropout import BLOCK, FixedDraws, InBlocks, TensorRows


def layer(part: Any) -> Any:
    """Pairs of numbers are linear layers, single ones rates of dropout; what makes a module is called."""
    if isinstance(part, tuple):
        return nn.Linear(*part)
    if isinstance(part, float):
        return nn.Dropout(part)
    return part() if callable(part) and not isinstance(part, nn.Module) else part


def sequential(*parts: Any) -> nn.Sequential:
    return nn.Sequential(*map(layer, parts))


class Net(nn.Module):
    """A module made of its parts, given as for `layer`, and of a function of (module, rows)."""

    def __init__(self, function: Any, **parts: Any) -> None:
        super().__init__()
        self.function = function
        for name, part in parts.items():
            setattr(self, name, layer(part))

    def forward(self, x: torch.Tensor) -> Any:
        return self.function(self, x)


class Residual(nn.Module):
    """A layer with dropout, added to what it was given."""

    def __init__(self):
        super().__init__()
        self.a, self.b, self.drop, self.last = nn.Linear(12, 16), nn.Linear(16, 16), nn.Dropout(0.5), nn.Linear(16, 3)

    def forward(self, x):
        h = self.a(x)
        return self.last(h + self.drop(torch.relu(self.b(h))))


class Functions:
    """``f(x)`` of shape (n_draws, n_rows, ...): the same functions at every call, in blocks from the first row on."""

    def __init__(self, module, n_draws=6, seed=0, batch_size=BLOCK, forward=None):
        self.draws = FixedDraws(module, n_draws, np.random.default_rng(seed), forward)
        self.blocks = InBlocks(batch_size)

    def __call__(self, x):
        return self.blocks.joined(self._learnt(x), TensorRows(x), axis=1)

    def _learnt(self, x):
        with torch.no_grad():
            self.draws.learn(TensorRows(x))
        return self.draws

    def by_whole_passes(self, x):
        """The same, by a forward pass of the whole module for each draw and block."""

        def draws(rows, block):
            self._learnt(x)(rows, block)  # what is random is learnt at the first call
            return self.draws.by_whole_passes(rows.take(block), len(block))

        return self.blocks.joined(draws, TensorRows(x), axis=1)


def normal_rows(*shape, seed=1):
    return torch.from_numpy(np.random.default_rng(seed).standard_normal(shape, dtype=np.float32))


def draw(module, x, n_draws=6, seed=0, **options):
    return Functions(module, n_draws, seed, **options)(x)


def slow_draws(module, x, n_draws=6, seed=0, **options):
    return Functions(module, n_draws, seed, **options).by_whole_passes(x)


def mask(functions, position, k):
    """What draw k keeps at a dropout call, in the shape of one row."""
    return functions.draws._sites.numbers(position, k, torch.device("cpu"))


def assert_near(ours, theirs):
    """Equal but for rounding: a hundred units in the last place of the largest number, ten times what was seen."""
    scale = float(theirs.detach().abs().max())
    torch.testing.assert_close(ours, theirs, rtol=0, atol=100 * torch.finfo(theirs.dtype).eps * scale)
