"""Scores of models whose weights have a normal law, without draws.

Letters: n rows, T target rows, C classes (one, for a binary model or a regressor).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

Floats = NDArray[np.float64]


class FallInVariance:
    r"""How much a row's label is expected to take from the variance of predictions at target rows, all by features.

    The mean over targets and classes of :math:`g_*^2 k(x, x_*)^2 / (k(x, x) + 1 / s)`, with k the covariance of the
    log-odds of a class, s = p (1 - p) what a label tells of them, and g the slope in m of the target's probability,
    moderated by its variance v: :math:`\sigma(m / \sqrt{1 + \pi v / 8})`. For a regressor k is the covariance of its
    values, 1 / s the variance of the noise, and g = 1: then it is exact (MacKay 1992; Schein and Ungar 2007).
    """

    def __init__(self, law: Any, covariance: Any, targets: Any) -> None:
        self._law, self._variances, self._with_targets = law, covariance.variances, covariance.with_targets(targets)
        shrinkage_CT = 1 / np.sqrt(1 + np.pi * covariance.variances(targets) / 8)
        slopes_CT = np.ones_like(shrinkage_CT)
        if law.log_odds is not None:
            slopes_CT = shrinkage_CT * _bernoulli_variance(shrinkage_CT * law.log_odds(targets).T)
        self._weights_CT = slopes_CT**2 / slopes_CT.size

    def __call__(self, rows: Any) -> Floats:
        pairs = zip(self._with_targets(rows), self._weights_CT, strict=True)
        pull_Cn = np.stack([covariance_nT**2 @ weights_T for covariance_nT, weights_T in pairs])
        s_Cn = self._information(rows)
        return (pull_Cn * s_Cn / (1 + s_Cn * self._variances(rows))).sum(axis=0)  # 1 / s may be infinite

    def _information(self, rows: Any) -> Any:
        """What a label tells of log-odds or values: a precision."""
        law = self._law
        return 1 / law.noise_variance if law.log_odds is None else _bernoulli_variance(law.log_odds(rows).T)


def _bernoulli_variance(log_odds: Floats) -> Floats:
    return expit(log_odds) * expit(-log_odds)
