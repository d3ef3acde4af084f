"""Draws and queries on a CUDA device, beside dropout left on, and beside the same on the CPU; no cases without one."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import torch
from common import bench
from fixed_masks import N_DRAWS, draws_of, whole_passes
from torch import Tensor, nn

from skactive import StochasticBatchQuery

Thunks = dict[str, Callable[[], object]]
DEVICE = "cuda"


def finished(work: Callable[[], Any]) -> Callable[[], Any]:
    """Work that is over when it returns."""

    def thunk() -> Any:
        with torch.no_grad():
            answer = work()
        torch.cuda.synchronize()
        return answer

    return thunk


def mlp(width: int) -> nn.Sequential:
    torch.manual_seed(0)
    hidden = [nn.Linear(64, width), nn.ReLU(), nn.Dropout(0.5), nn.Linear(width, width), nn.ReLU(), nn.Dropout(0.5)]
    return nn.Sequential(*hidden, nn.Linear(width, 10)).eval()


def images() -> nn.Sequential:
    torch.manual_seed(0)
    blocks = [nn.Conv2d(3, 64, 3, padding=1), nn.BatchNorm2d(64), nn.ReLU(), nn.MaxPool2d(2), nn.Dropout(0.3)]
    blocks += [nn.Conv2d(64, 128, 3, padding=1), nn.BatchNorm2d(128), nn.ReLU(), nn.MaxPool2d(2), nn.Dropout(0.3)]
    return nn.Sequential(*blocks, nn.Flatten(), nn.Linear(8192, 10)).eval()


def draws(make: Callable[[], nn.Module], shape: tuple[int, ...]) -> Thunks:
    module, x = make().to(DEVICE), torch.randn(shape, device=DEVICE)

    def left_on() -> None:
        for batch in x.split(256):
            torch.stack([module.train()(batch) for _ in range(N_DRAWS)])
        module.eval()

    def whole(passes: Callable[[Tensor], Tensor]) -> None:
        for batch in x.split(256):
            passes(batch)

    return {
        "skactive": finished(partial(draws_of(module), x)),
        "whole passes": finished(partial(whole, whole_passes(module, x[:1]))),
        "dropout left on": finished(left_on),
    }


def query() -> Thunks:
    on_cpu, on_gpu, pool = mlp(1024), mlp(1024).to(DEVICE), np.random.default_rng(0).standard_normal((50_000, 64))
    pool = pool.astype(np.float32)
    bald = StochasticBatchQuery(n_draws=N_DRAWS, random_state=0)
    return {
        "skactive": finished(partial(bald.select, on_gpu, pool, 100)),
        "on the CPU": partial(bald.select, on_cpu, pool, 100),
    }


if torch.cuda.is_available():
    bench("draws on the GPU, 64-128-128-10, 100,000 rows")(partial(draws, partial(mlp, 128), (100_000, 64)))
    bench("draws on the GPU, 64-1024-1024-10, 100,000 rows")(partial(draws, partial(mlp, 1024), (100_000, 64)))
    bench("draws on the GPU, two convolutions, 2,048 images of 32 x 32")(partial(draws, images, (2048, 3, 32, 32)))
    bench("BALD query on the GPU, 64-1024-1024-10, 50,000 rows", targets={"on the CPU": 10.0})(query)
