"""Our column in benchmarks of other packages: ``python tests/benchmarks/peers.py SCRIPT [arguments of SCRIPT]``.

Such a script imports a module ``sk`` with one function for each kind of work; each gets the arrays that the other
packages get, and returns what is to be timed. This module is that ``sk``. It runs in the environment in which the other
packages are installed, with skactive on PYTHONPATH. A script runs each case in a process of its own by calling itself
again, and thus this module, which reads the script's path from the environment then.
"""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skactive import samplers, scores

Thunk = Callable[[], Any]

SCRIPT = "SKACTIVE_BENCHMARK_SCRIPT"


def bald(p: NDArray[np.float32]) -> Thunk:
    """``p`` has shape (n_points, n_draws, n_classes), here and below; a net's draws lie as (n_draws, n_classes, n)."""
    return functools.partial(scores.bald, _draws(p))


def entropy(p: NDArray[np.float32]) -> Thunk:
    return functools.partial(scores.entropy, _draws(p))


def acquire_power(p: NDArray[np.float32], k: int) -> Thunk:
    draws, rng = _draws(p), np.random.default_rng(0)
    return lambda: samplers.power(scores.bald(draws), k, rng)


def select(kind: str, s: NDArray[np.float32], k: int) -> Thunk:
    return functools.partial(samplers.SAMPLERS[kind], s, k, np.random.default_rng(0))


def batchbald(p: NDArray[np.float32], k: int, num_samples: int) -> Thunk:
    from skactive.batchbald import batchbald

    return functools.partial(batchbald, _draws(p), k, np.random.default_rng(0), max_outcomes=num_samples)


def badge(embeddings: NDArray[np.float32], p: NDArray[np.float32], k: int) -> Thunk:
    from skactive.badge import badge

    return functools.partial(badge, p, embeddings, k, np.random.default_rng(0))


def mc_dropout(module: Any, X: NDArray[np.float32], n_draws: int) -> Thunk:
    from skactive import sample_posterior

    return lambda: sample_posterior(module, n_draws, np.random.default_rng(0))(X)


def _draws(p: NDArray[np.float32]) -> NDArray[np.float32]:
    return np.ascontiguousarray(p.transpose(1, 2, 0)).transpose(0, 2, 1)


def main() -> None:
    if len(sys.argv) > 1 and sys.argv[1].endswith(".py"):
        os.environ[SCRIPT] = sys.argv.pop(1)
    script = os.environ[SCRIPT]
    sys.path.insert(0, str(Path(script).parent))
    sys.modules["sk"] = sys.modules[__name__]
    code = compile(Path(script).read_text(encoding="utf-8"), script, "exec")
    exec(code, {"__name__": "__main__", "__file__": script})  # runpy would put the script's own path into sys.argv


if __name__ == "__main__":
    main()
