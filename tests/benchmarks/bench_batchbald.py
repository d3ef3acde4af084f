"""BatchBALD beside the same greedy rule computed for every row, and beside the packaged programs where they are.

"row by row" enumerates the outcomes of the batch once and looks at each row in turn, with one matrix product a row.
batchbald_redux is also timed without the garbage collection that it runs before every chunk. scikit-activeml and baal
take gigabytes at 10,000 rows, so they take their turns at 1,000.
"""

from __future__ import annotations

import contextlib
import functools
import gc
import warnings
from unittest import mock

import numpy as np
import torch
from arrays import draws
from common import bench

from skactive import BatchBALDQuery, MCDropoutClassifier
from skactive.batchbald import batchbald

MAX_OUTCOMES = 10_000


def ours(p: np.ndarray, k: int) -> np.ndarray:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # 20 draws are told apart long before 100 rows
        return batchbald(p, k, np.random.default_rng(0), max_outcomes=MAX_OUTCOMES).indices


def row_by_row(p: np.ndarray, k: int) -> list[int]:
    """Greedy with all outcomes enumerated; k at most 5 for 10 classes."""
    members = torch.from_numpy(p)
    noise = torch.special.entr(members).sum(-1).mean(0)
    outcomes = torch.full((1, len(p)), 1 / len(p))  # of outcome and draw
    batch: list[int] = []
    while True:
        gains = torch.tensor([torch.special.entr(outcomes @ members[:, i]).sum() for i in range(p.shape[1])]) - noise
        gains[batch] = -torch.inf
        batch.append(int(gains.argmax()))
        if len(batch) == k:
            return batch
        outcomes = (outcomes[:, None] * members[:, batch[-1]].T).flatten(0, 1)


def redux(p: np.ndarray, k: int, *, collect: bool = True) -> dict:
    try:
        from batchbald_redux.batchbald import get_batchbald_batch
    except ImportError:
        return {}
    log_p = torch.from_numpy(np.ascontiguousarray(p.swapaxes(0, 1))).log()

    def thunk() -> object:
        with contextlib.nullcontext() if collect else mock.patch.object(gc, "collect"):
            return get_batchbald_batch(log_p, k, MAX_OUTCOMES)

    return {"batchbald_redux" if collect else "batchbald_redux, no garbage collection": thunk}


def scikit_activeml(p: np.ndarray, k: int) -> dict:
    try:
        from skactiveml.pool import batch_bald
    except ImportError:
        return {}
    return {"scikit-activeml": functools.partial(batch_bald, p, k, n_MC_samples=MAX_OUTCOMES, random_state=0)}


def baal(p: np.ndarray, k: int) -> dict:
    try:
        from baal.active.heuristics import BatchBALD
    except ImportError:
        return {}
    rows_classes_draws = np.ascontiguousarray(p.transpose(1, 2, 0))
    heuristic = BatchBALD(num_samples=k, num_draw=MAX_OUTCOMES // len(p))
    return {"baal": lambda: heuristic.get_ranks(rows_classes_draws)}


PEER = "batchbald_redux"
NO_GC = "batchbald_redux, no garbage collection"


@bench("(20, 1,000, 10), 10,000 outcomes, k = 5", targets={PEER: 30.0})
def thousand_5() -> dict:
    p = draws(1000)
    own = {"skactive": functools.partial(ours, p, 5), "row by row": functools.partial(row_by_row, p, 5)}
    return own | redux(p, 5) | scikit_activeml(p, 5) | baal(p, 5)


@bench("(20, 1,000, 10), 10,000 outcomes, k = 10", targets={PEER: 30.0})
def thousand_10() -> dict:
    p = draws(1000)
    return {"skactive": functools.partial(ours, p, 10)} | redux(p, 10)


@bench("(20, 10,000, 10), 10,000 outcomes, k = 5", targets={NO_GC: 10.0})
def ten_thousand_5() -> dict:
    p = draws(10_000)
    own = {"skactive": functools.partial(ours, p, 5), "row by row": functools.partial(row_by_row, p, 5)}
    return own | redux(p, 5, collect=False)


@bench("(20, 10,000, 10), 10,000 outcomes, k = 10", targets={NO_GC: 10.0})
def ten_thousand_10() -> dict:
    p = draws(10_000)
    return {"skactive": functools.partial(ours, p, 10)} | redux(p, 10, collect=False)


def alone(k: int, n_draws: int, n_points: int = 10_000, n_classes: int = 10) -> dict:
    return {"skactive": functools.partial(ours, draws(n_points, n_draws, n_classes), k)}


bench("(20, 10,000, 10), 10,000 outcomes, k = 100")(functools.partial(alone, 100, 20))
bench("(20, 10,000, 10), 10,000 outcomes, k = 500")(functools.partial(alone, 500, 20))
bench("(100, 10,000, 10), 10,000 outcomes, k = 100")(functools.partial(alone, 100, 100))
bench("(20, 800,000, 47), 10,000 outcomes, k = 5")(functools.partial(alone, 5, 20, 800_000, 47))


@bench("query of 10 rows of 100,000 x 32 with a 32-128-128-47 net, 20 draws, 10,000 outcomes")
def of_a_net() -> dict:
    rng = np.random.default_rng(0)
    pool = rng.standard_normal((100_000, 32), dtype=np.float32)
    labels = np.arange(47).repeat(20)
    net = MCDropoutClassifier(max_epochs=20, random_state=0).fit(pool[: len(labels)], labels)
    return {"skactive": functools.partial(BatchBALDQuery(n_draws=20, random_state=0).select, net, pool, 10)}
