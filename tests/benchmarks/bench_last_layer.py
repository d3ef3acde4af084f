"""Fit and query of a Bayesian last layer with 150 classes and 256 features.

Rows lie around a centre for each class, as those of a sentence encoder do. A query draws 20 functions and scores 2,000
rows by BALD.
"""

from __future__ import annotations

from functools import partial

import numpy as np
from common import bench

from skactive import LastLayerClassifier, StochasticBatchQuery

N_CLASSES, N_FEATURES = 150, 256


def data(n_labelled: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Labelled rows of length 1, their labels, and 2,000 rows of a pool."""
    rng = np.random.default_rng(0)
    labels = np.arange(n_labelled + 2_000) % N_CLASSES
    X = rng.standard_normal((N_CLASSES, N_FEATURES))[labels] + 1.5 * rng.standard_normal((len(labels), N_FEATURES))
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    return X[:n_labelled], labels[:n_labelled], X[n_labelled:]


@bench("the parts, 1,500 labels, 150 classes, 256 features")
def parts() -> dict:
    X, y, pool = data(1_500)
    head = LastLayerClassifier(random_state=0).fit(X, y)
    query = StochasticBatchQuery("bald", n_draws=20, random_state=0)
    return {
        "fit": partial(LastLayerClassifier(random_state=0).fit, X, y),
        "query": partial(query.select, head, pool, 10),
        "predict_proba, 100 draws": partial(head.predict_proba, pool),
    }


@bench("a query, 100,000 rows, 10 classes, 512 features, 20 draws")
def many_rows() -> dict:
    rng = np.random.default_rng(0)
    pool = rng.standard_normal((100_000, 512), dtype=np.float32)
    head = LastLayerClassifier(random_state=0).fit(pool[:300], np.arange(300) % 10)
    query = StochasticBatchQuery("bald", n_draws=20, random_state=0)
    query.select(head, pool[:100], 10)
    return {"skactive": partial(query.select, head, pool, 10)}
