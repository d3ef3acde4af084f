"""BADGE beside the same algorithm centre by centre, which is what the original does, and scikit-activeml.

"centre by centre" looks at every row for each new centre, with distances from the factors as the original repository
has them since its version of 2021. scikit-activeml, which forms the gradients, takes its turns where it is installed.
"""

from __future__ import annotations

import functools

import numpy as np
from arrays import last_layer
from common import bench

from skactive import BADGEQuery
from skactive.badge import badge

N_POINTS, N_CLASSES = 10_000, 10


def grouped(n_points: int, n_classes: int, n_units: int) -> tuple[np.ndarray, np.ndarray]:
    """The same where rows lie closely around fifty of them: nearly every proposal lies next to a centre."""
    p, h = last_layer(n_points, n_classes, n_units)
    group = np.arange(n_points) % 50
    noise = np.random.default_rng(1).standard_normal(h.shape, dtype=np.float32)
    return p[group], np.maximum(h[group] + 0.02 * noise, 0)


def centre_by_centre(p: np.ndarray, h: np.ndarray, k: int, rng: np.random.Generator) -> list[int]:
    a = -p
    a[np.arange(len(p)), p.argmax(1)] += 1
    squared_norms = (a**2).sum(-1) * (h**2).sum(-1)
    chosen = [int(squared_norms.argmax())]
    nearest = np.full(len(p), np.inf, dtype=np.float32)
    while len(chosen) < k:
        last = chosen[-1]
        distances = squared_norms + squared_norms[last] - 2 * (a @ a[last]) * (h @ h[last])
        np.minimum(nearest, np.maximum(distances, 0), out=nearest)
        nearest[chosen] = 0
        law = nearest.astype(np.float64)
        chosen.append(int(rng.choice(len(p), p=law / law.sum())))
    return chosen


def with_scikit_activeml(p: np.ndarray, h: np.ndarray, k: int) -> dict:
    try:
        from skactiveml.base import SkactivemlClassifier
        from skactiveml.pool import Badge
    except ImportError:
        return {}

    class Known(SkactivemlClassifier):
        def fit(self, X, y, sample_weight=None):
            self.classes_ = np.arange(p.shape[1])
            return self

        def predict_proba(self, X):
            return p

    model = Known(classes=list(range(p.shape[1]))).fit(None, None)
    unlabelled = np.full(len(p), np.nan)
    return {"scikit-activeml": lambda: Badge(random_state=0).query(h, unlabelled, model, fit_clf=False, batch_size=k)}


def ways(arrays, n_units: int, k: int) -> dict:
    p, h = arrays(N_POINTS, N_CLASSES, n_units)
    rng = np.random.default_rng(0)
    own = {
        "skactive": functools.partial(badge, p, h, k, rng),
        "centre by centre": functools.partial(centre_by_centre, p, h, k, rng),
    }
    slow = (n_units == 4096 and k > 10) or arrays is grouped  # minutes, and gigabytes
    return own if slow else own | with_scikit_activeml(p, h, k)


TARGETS = {
    (512, 100): {"scikit-activeml": 50.0},
    (512, 500): {"centre by centre": 8.0},
    (4096, 100): {"centre by centre": 3.0},
}
for n_units in (512, 4096):
    for k in (10, 100, 500):
        name = f"BADGE, {k} of 10,000, 10 classes x {n_units:,} units"
        bench(name, TARGETS.get((n_units, k)))(functools.partial(ways, last_layer, n_units, k))
for n_units in (512, 4096):
    name = f"BADGE, 500 of 10,000 in 50 groups, 10 classes x {n_units:,} units"
    bench(name)(functools.partial(ways, grouped, n_units, 500))


def ours_alone(n_points: int) -> dict:
    p, h = last_layer(n_points, 47, 512)
    return {"skactive": functools.partial(badge, p, h, 100, np.random.default_rng(0))}


for n_points in (50_000, 200_000, 800_000):
    bench(f"BADGE, 100 of {n_points:,}, 47 classes x 512 units")(functools.partial(ours_alone, n_points))


@bench("a query of 100 by BADGE, 20,000 digits with a net of 64-256-256-10, and its parts")
def query() -> dict:
    from sklearn.datasets import load_digits

    from skactive import MCDropoutClassifier

    X, y = load_digits(return_X_y=True)
    X = (X / 16).astype(np.float32)
    net = MCDropoutClassifier((256, 256), max_epochs=20, random_state=0).fit(X[:200], y[:200])
    pool = np.tile(X, (12, 1))[:20_000]
    p, h = net.predict_proba(pool), net.embed(pool)
    return {
        "skactive": functools.partial(BADGEQuery(random_state=0).select, net, pool, 100),
        "its predict_proba": functools.partial(net.predict_proba, pool),
        "its embed": functools.partial(net.embed, pool),
        "its choice of rows": functools.partial(badge, p, h, 100, np.random.default_rng(0)),
    }
