"""Samplers: scores in, a batch of distinct rows out, most preferred first.

Each stochastic sampler perturbs one value a row with Gumbel noise of scale 1/beta and takes the k largest. That is
exactly a sample without replacement, in order, from weights ``exp(beta * value)`` (Gumbel-top-k, Kool et al., 2019; the
Plackett-Luce law), so the probability of every pick given those before it is known, and every prefix of a batch is a
batch. beta is the coldness: 0 is uniform over all rows, infinity takes the top k.

Rows of value -inf have no mass: they are taken, uniformly, only once nothing else is left. Ties are broken at random.

`repulsive` makes batches that keep apart: power weights, times a power of the distance from the nearest row chosen.

A sampler states its law once (`_law`, `_plackett_luce`); `_selection` has fast ways to draw from it. `_law.draw_batch`
makes batches that may be mixed with chance, within limits, or of rows that keep apart.
"""

from ._law import SAMPLERS, power, repulsive, softmax, softrank, topk, uniform
from ._plackett_luce import log_proba

__all__ = ["SAMPLERS", "log_proba", "power", "repulsive", "softmax", "softrank", "topk", "uniform"]
