"""Batches that keep apart beside BADGE, whose seeding is the same law with equal weights, and beside a forest."""

from __future__ import annotations

import functools

import numpy as np
from arrays import last_layer
from common import bench
from sklearn.ensemble import RandomForestClassifier

from skactive.badge import badge
from skactive.samplers import repulsive
from skactive.samplers._distances import Leaves, PointSet, Residuals, Vectors
from skactive.samplers._law import draw_batch


def gradients(p: np.ndarray, h: np.ndarray, k: int, beta: float, diversity: float) -> object:
    scores = 1 - p.max(axis=1).astype(np.float64)
    points = PointSet(Residuals(p), Vectors(h, "points"))
    return draw_batch("power", scores, k, np.random.default_rng(0), beta=beta, points=points, diversity=diversity)


def embeddings(p: np.ndarray, h: np.ndarray, k: int, beta: float, diversity: float) -> object:
    return repulsive(1 - p.max(axis=1), h, k, np.random.default_rng(0), beta=beta, diversity=diversity)


for way in (embeddings, gradients):
    for beta, diversity in ((4, 1), (4, 2), (8, 4)):

        @bench(
            f"100 of 10,000 x 512 units that keep apart by {way.__name__}, beta {beta}, diversity {diversity}",
            {"BADGE": 0.5},
        )
        def beside_badge(way=way, beta=beta, diversity=diversity) -> dict:
            p, h = last_layer(10_000, 10, 512)
            return {
                "skactive": functools.partial(way, p, h, 100, beta, diversity),
                "BADGE": functools.partial(badge, p, h, 100, np.random.default_rng(0)),
            }


@bench("500 of 800,000 x 512 units that keep apart by embeddings, beta 4, diversity 2")
def many() -> dict:
    p, h = last_layer(800_000, 10, 512)
    return {
        "skactive": functools.partial(embeddings, p, h, 500, 4, 2),
        "BADGE": functools.partial(badge, p, h, 500, np.random.default_rng(0)),
    }


@bench(
    "100 of 1,000,000 that keep apart by the leaves of 100 trees, beta 4, diversity 2",
    {"the forest's predictions": 2.0},
)
def leaves() -> dict:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((1_000_000, 16), dtype=np.float32)
    y = (X[:, 0] + X[:, 1] * X[:, 2] > 0).astype(int)
    forest = RandomForestClassifier(100, random_state=0).fit(X[:200], y[:200])
    p = forest.predict_proba(X)
    points = PointSet(Leaves(forest.apply(X).astype(np.int16)))
    scores = 1 - np.abs(p[:, 0] - p[:, 1])
    draw = functools.partial(draw_batch, "power", scores, 100, rng, beta=4, points=points, diversity=2)
    return {
        "skactive": draw,
        "its log-probabilities": draw()[1].log_proba,
        "the forest's predictions": lambda: forest.predict_proba(X),
        "the forest's leaves": lambda: forest.apply(X),
    }
