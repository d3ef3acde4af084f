"""Arrays that several benchmarks work on."""

from __future__ import annotations

import numpy as np


def draws(n_points: int, n_draws: int = 20, n_classes: int = 10) -> np.ndarray:
    """Probabilities like those of MC dropout, float32: logits of a point, and noise a draw."""
    rng = np.random.default_rng(0)
    logits = rng.standard_normal((n_draws, n_points, n_classes), dtype=np.float32)
    logits += 2 * rng.standard_normal((n_points, n_classes), dtype=np.float32)
    np.exp(logits, out=logits)
    return logits / logits.sum(-1, keepdims=True)


def last_layer(n_points: int, n_classes: int, n_units: int) -> tuple[np.ndarray, np.ndarray]:
    """Probabilities, and what a ReLU leaves of normal numbers; float32."""
    rng = np.random.default_rng(0)
    h = rng.standard_normal((n_points, n_units), dtype=np.float32)
    p = np.exp(2 * rng.standard_normal((n_points, n_classes), dtype=np.float32))
    return p / p.sum(-1, keepdims=True), np.maximum(h, 0, out=h)
