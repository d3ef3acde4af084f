"""Draws of a net with dropout: ours, dropout left on (a mask a row, no function), and fixed masks at full width.

The full-width masks are what a careful user writes: one mask a draw and layer, made beforehand, in chunks of 2,048
rows. They hold for dense nets; of images they are our own draws without thinning and without anything shared.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from common import bench
from fixed_masks import N_DRAWS, draws_of, whole_passes
from torch import Tensor, nn

from skactive import MCDropoutClassifier, StochasticBatchQuery

CHUNK = 2048
Thunks = dict[str, Callable[[], object]]


def ways(module: nn.Module, x: Tensor, full_width: Callable[[Tensor], Tensor], chunk: int = CHUNK) -> Thunks:
    ours = draws_of(module)

    def left_on(batch: Tensor) -> Tensor:
        return torch.stack([module.train()(batch) for _ in range(N_DRAWS)])

    def in_chunks(draws: Callable[[Tensor], Tensor]) -> None:
        with torch.no_grad():
            for batch in x.split(chunk):
                draws(batch)

    return {
        "skactive": lambda: ours(x),
        "dropout left on": lambda: in_chunks(left_on),
        "full-width fixed masks": lambda: in_chunks(full_width),
    }


def mlp(width: int, n_rows: int) -> Thunks:
    torch.manual_seed(0)
    hidden = [nn.Linear(64, width), nn.ReLU(), nn.Dropout(0.5), nn.Linear(width, width), nn.ReLU(), nn.Dropout(0.5)]
    module = nn.Sequential(*hidden, nn.Linear(width, 10))
    masks = [(2.0 * (torch.rand(width) < 0.5), 2.0 * (torch.rand(width) < 0.5)) for _ in range(N_DRAWS)]
    first, second, last = module[0], module[3], module[6]

    def full_width(batch: Tensor) -> Tensor:
        return torch.stack([last(second(first(batch).relu() * u).relu() * v) for u, v in masks])

    return ways(module, torch.randn(n_rows, 64), full_width)


@bench(
    "draws, 64-256-256-10, p 0.5, 100,000 rows, 20 draws",
    targets={"dropout left on": 12.0, "full-width fixed masks": 2.0},
)
def draws_mlp() -> Thunks:
    return mlp(256, 100_000)


@bench("draws, 64-1024-1024-10, p 0.5, 20,000 rows, 20 draws", targets={"full-width fixed masks": 3.0})
def draws_wide() -> Thunks:
    return mlp(1024, 20_000)


@bench("draws, 64-32-32-10, p 0.5, 100,000 rows, 20 draws")
def draws_small() -> Thunks:
    return mlp(32, 100_000)


def paper_net(drop: type[nn.Module]) -> Thunks:
    """Two blocks of convolution, dropout, max-pooling and ReLU, then 128 units with dropout."""
    torch.manual_seed(0)
    blocks = [nn.Conv2d(1, 32, 5), drop(0.5), nn.MaxPool2d(2), nn.ReLU()]
    blocks += [nn.Conv2d(32, 64, 5), drop(0.5), nn.MaxPool2d(2), nn.ReLU()]
    module = nn.Sequential(*blocks, nn.Flatten(), nn.Linear(1024, 128), nn.ReLU(), nn.Dropout(0.5), nn.Linear(128, 10))
    x = torch.randn(512, 1, 28, 28)
    return ways(module, x, whole_passes(module, x[:1]), chunk=256)


@bench("draws, CNN of Kirsch et al., pixels dropped, 512 images of 28 x 28, 20 draws")
def draws_images() -> Thunks:
    return paper_net(nn.Dropout)


@bench("draws, the same CNN, channels dropped")
def draws_channels() -> Thunks:
    return paper_net(nn.Dropout2d)


@bench("query of 100 rows of 1,000,000 x 32, 20 draws: peak memory above the pool")
def query_memory() -> Thunks:
    rng = np.random.default_rng(0)
    pool = rng.standard_normal((1_000_000, 32), dtype=np.float32)
    net = MCDropoutClassifier(max_epochs=5, random_state=0).fit(pool[:300], (pool[:300, 0] > 0) + (pool[:300, 1] > 0))
    query = StochasticBatchQuery(n_draws=N_DRAWS, random_state=0)
    query.select(net, pool[:1000], 10)  # what is loaded at the first query is no memory of this one
    return {"skactive": lambda: query.select(net, pool, 100)}
