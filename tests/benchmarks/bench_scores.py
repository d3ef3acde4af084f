"""Scores of draws, beside the three lines of torch that most people would write, and numpy's.

Where baal or scikit-activeml are installed they take their turns, too, each with the layout of draws that it likes.
"""

from __future__ import annotations

import functools

import numpy as np
import torch
from arrays import draws
from common import bench

from skactive import scores


def bald_in_torch(p: torch.Tensor) -> torch.Tensor:
    return torch.special.entr(p.mean(0)).sum(-1) - torch.special.entr(p).sum(-1).mean(0)


def bald_in_numpy(p: np.ndarray) -> np.ndarray:
    mean = p.mean(0)
    with np.errstate(divide="ignore", invalid="ignore"):
        return -(mean * np.log(mean)).sum(-1) + (p * np.log(p)).sum(-1).mean(0)


def peers(p: np.ndarray) -> dict:
    """Other packages' BALD of the same draws, if they are there."""
    ways = {}
    try:
        from baal.active.heuristics import BALD

        rows_classes_draws = np.ascontiguousarray(p.transpose(1, 2, 0))
        ways["baal"] = functools.partial(BALD().compute_score, rows_classes_draws)
    except ImportError:
        pass
    try:
        from skactiveml.pool._query_by_committee import average_kl_divergence

        ways["scikit-activeml"] = functools.partial(average_kl_divergence, p)
    except ImportError:
        pass
    return ways


def bald_of(n_points: int) -> dict:
    p = draws(n_points)
    ways = {"skactive": functools.partial(scores.bald, p), "three lines of torch, float32": None}
    ways["three lines of torch, float32"] = functools.partial(bald_in_torch, torch.from_numpy(p))
    ways["numpy, float32"] = functools.partial(bald_in_numpy, p)
    return ways | peers(p) if n_points < 1_000_000 else ways  # some of these need many times the memory of the draws


TARGETS = {"baal": 2.0, "scikit-activeml": 2.0, "three lines of torch, float32": 1.0}
bench("BALD of (20, 10,000, 10)", TARGETS)(functools.partial(bald_of, 10_000))
bench("BALD of (20, 200,000, 10)", TARGETS)(functools.partial(bald_of, 200_000))
bench("BALD of (20, 1,000,000, 10)", TARGETS)(functools.partial(bald_of, 1_000_000))


@bench("all scores of (20, 200,000, 10)")
def other_scores() -> dict:
    p = draws(200_000)
    names = ["bald", "entropy", "margin", "std_dev", "variation_ratio"]
    return {name: functools.partial(scores.SCORES[name], p) for name in names}
