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
