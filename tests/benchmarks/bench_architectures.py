"""Time and values of draws for every net of `architectures`: one query of 20 draws of 300 rows, and the next one.

``python tests/benchmarks/bench_architectures.py OUT.json [BEFORE.json]`` writes medians of five in milliseconds and
digests of the draws; with a second file it prints the ratios of the times. The oracle of the values is one draw after
the other by whole passes of the module under the same masks; ``error`` is the largest difference from it, relative to
the largest value.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

sys.path.insert(0, str(Path(__file__).parents[1]))

from architectures import ALL, BATCH_SIZES, REFUSED, make, quiet
from nets import Functions
from torch import Tensor, nn

N_DRAWS, N_ROWS, N_TIMES = 20, 300, 5


class Chain(nn.Sequential):
    """A chain of linear or convolutional layers at the size of real nets."""


def _mlp(width: int) -> tuple[nn.Module, Tensor]:
    hidden = [nn.Linear(64, width), nn.ReLU(), nn.Dropout(0.5), nn.Linear(width, width), nn.ReLU(), nn.Dropout(0.5)]
    return Chain(*hidden, nn.Linear(width, 10)), torch.randn(N_ROWS, 64)


def _cnn(drop: type[nn.Module]) -> tuple[nn.Module, Tensor]:
    blocks = [nn.Conv2d(1, 32, 5), drop(0.5), nn.MaxPool2d(2), nn.ReLU()]
    blocks += [nn.Conv2d(32, 64, 5), drop(0.5), nn.MaxPool2d(2), nn.ReLU()]
    head = [nn.Flatten(), nn.Linear(1024, 128), nn.ReLU(), nn.Dropout(0.5), nn.Linear(128, 10)]
    return Chain(*blocks, *head), torch.randn(N_ROWS, 1, 28, 28)


LARGE: dict[str, Callable[[], tuple[nn.Module, Tensor]]] = {
    "chain 64-128-128-10": lambda: _mlp(128),
    "chain 64-1024-1024-10": lambda: _mlp(1024),
    "chain of convolutions, channels": lambda: _cnn(nn.Dropout2d),
    "convolutions, pixels": lambda: _cnn(nn.Dropout),
}


def net(name: str) -> tuple[nn.Module, Tensor]:
    """A net and rows that differ; integers are those of the small pool in turn."""
    if name in LARGE:
        torch.manual_seed(0)
        return LARGE[name]()
    module, x = make(name)
    x = x[torch.arange(N_ROWS if name not in BATCH_SIZES else 20) % len(x)]
    generator = torch.Generator().manual_seed(0)
    if x.is_floating_point():
        x = x + (0.3 * torch.randn(x.shape, generator=generator)).to(x.dtype)
    return module, x


def measured(name: str) -> dict[str, Any]:
    module, x = net(name)
    options = {"batch_size": BATCH_SIZES.get(name, 256)}
    first, again = [], []
    for _ in range(N_TIMES):
        functions = Functions(module, N_DRAWS, **options)
        first.append(timed(lambda functions=functions: functions(x)))
        again.append(timed(lambda functions=functions: functions(x)))
    draws, whole = functions(x), functions.by_whole_passes(x)
    return {
        "first": 1000 * statistics.median(first),
        "again": 1000 * statistics.median(again),
        "digest": hashlib.sha256(draws.double().numpy().tobytes()).hexdigest()[:16],
        "mean": float(draws.double().mean()),
        "error": float((draws - whole).abs().max() / whole.abs().max()),
    }


def timed(function: Callable[[], object]) -> float:
    start = time.process_time()
    function()
    return time.process_time() - start


def refusal(name: str) -> str:
    try:
        module, x = make(name)
        Functions(module, 2)(x)
    except ValueError as error:
        return str(error)
    return "not refused"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("before", type=Path, nargs="?")
    given = parser.parse_args()
    torch.set_num_threads(1)
    before = json.loads(given.before.read_text()) if given.before else {}
    results: dict[str, Any] = {}
    for name in [*LARGE, *ALL]:
        try:
            with quiet():
                results[name] = measured(name)
        except Exception as error:  # reported with the others
            results[name] = {"failed": f"{type(error).__name__}: {error}"}
        print(name, *line(results[name], before.get(name)), sep="  ", flush=True)
    for name in REFUSED:
        results[name] = {"refused": refusal(name)}
        print(name, results[name]["refused"][:80], sep="  ")
    given.out.write_text(json.dumps(results, indent=1))


def line(now: dict[str, Any], before: dict[str, Any] | None) -> list[str]:
    if "failed" in now:
        return [now["failed"]]
    numbers = [f"first {now['first']:.1f} ms", f"again {now['again']:.1f} ms", f"error {now['error']:.0e}"]
    if before and "first" in before:
        numbers += [f"{which} x {now[which] / before[which]:.2f}" for which in ("first", "again")]
        numbers.append("same bits" if now["digest"] == before["digest"] else "other values")
    return numbers


if __name__ == "__main__":
    main()
