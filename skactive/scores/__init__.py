"""Scores: draws from the posterior in, one number per point out; larger means more informative.

The literature calls them acquisition functions. A score is a pure function of ``draws``: an array (n_draws, n_points,
n_classes) of probabilities, (n_draws, n_points) of predicted values for regression, or (n_draws, n_points, 2) of
potential outcomes. numpy in, numpy out; a torch tensor in, a tensor on its device out. Every kernel is written once, in
torch and in float64 (float32 on Apple's GPUs), for a block of points small enough to stay in the cache: no temporary is
as large as the draws.

Kernels see a block as (K, C, n), points last; those of scores of the mean over draws, as (C, n). Letters in names: K
draws, C classes, n points of a block, T targets. Formulas use natural logarithms and 0 log 0 = 0.

A row's score is the same to the last bit whatever stands beside it: sums over draws and classes are made of elementwise
operations, in one order. Only `epig` is made of matrix products, where that holds to rounding.
"""

from ._outcomes import mu, mu_pi, mu_rho, rho, tau
from ._predictions import bald, entropy, epig, gaussian_bald, margin, std_dev, variance, variation_ratio
from ._registry import SCORES

__all__ = [
    "SCORES",
    "bald",
    "entropy",
    "epig",
    "gaussian_bald",
    "margin",
    "mu",
    "mu_pi",
    "mu_rho",
    "rho",
    "std_dev",
    "tau",
    "variance",
    "variation_ratio",
]
