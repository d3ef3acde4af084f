"""Provisional: one door from scores to a batch over the samplers of today."""

import numpy as np

from .._checks import look_up
from ..samplers import SAMPLERS
from ..samplers._limited import draw_limited, draw_uniform
from ..samplers._mixture import draw_mixture
from ..samplers._repulsion import draw_apart


class _Law:
    def __init__(self, batch):
        self._b = batch

    def log_proba(self):
        return self._b.log_proba()

    def first_log_proba(self):
        logs = self._b.log_weights()
        s = np.logaddexp.reduce(logs)
        return logs - s if s > -np.inf else np.full(len(logs), -np.log(len(logs)))


def draw_batch(sampler, scores, k, rng, *, beta=1.0, epsilon=0.0, allowance=None, points=None, diversity=0.0):
    name = sampler
    sampler = look_up("sampler", sampler, SAMPLERS)
    if name == "uniform" and allowance is not None:
        b = draw_uniform(allowance, rng)
    elif points is not None:
        b = draw_apart(sampler, scores, points, k, rng, beta, diversity, epsilon, allowance=allowance)
    elif allowance is not None:
        b = draw_limited(sampler, scores, allowance, rng, beta, epsilon)
    elif epsilon > 0:
        b = draw_mixture(sampler, scores, k, rng, beta, epsilon)
    elif hasattr(sampler, "draw"):
        b = sampler.draw(scores, k, rng, beta=beta)
    else:
        indices = np.asarray(sampler(scores, k, rng, beta=beta))
        n_points = len(scores)
        distinct = indices.ndim == 1 and len(np.unique(indices)) == len(indices) == k
        if not (distinct and indices.dtype.kind in "iu" and indices.min() >= 0 and indices.max() < n_points):
            raise ValueError(
                f"`sampler` must return {k} distinct positions from 0 to {n_points - 1}. Got {indices!r} instead."
            )
        return indices.astype(np.int64), None
    return b.indices, (None if b.log_proba is None else _Law(b))
