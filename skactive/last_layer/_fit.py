"""Normal posteriors of the weights of a softmax regression, and the search for them.

`Laplace` is centred at the most probable weights, with a covariance by one of the `_laws`. `MeanField` is the law
without correlations that is closest to the posterior in KL divergence (mean-field variational inference).

Letters: n rows, F features (the constant that multiplies the biases among them), r of the rows or features, whichever
are fewer, C classes, K draws, S points at which an expectation is taken.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, get_args

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import log_softmax, ndtri
from sklearn.exceptions import ConvergenceWarning

from .._checks import warn
from .._types import Method
from . import _laws as laws

Floats = NDArray[np.float64]

METHODS = get_args(Method)
COVARIANCES = ("auto", *laws.LAWS)

_MAX_STEPS = 5000
_MAX_ROTATED = 1024
_TYPICAL_VARIANCE = 0.1  # of a label, in units of 1 / C
_NOISE_ELEMENTS = 2**21  # 16 MiB of float64
_N_NOISE = (8, 64)  # values of a logit: fewer where there are many rows, each of which has other noise


class Laplace:
    """Around the most probable weights, with the inverse Hessian of the negative log-posterior as covariance."""

    def __init__(self, features_nF: Floats, mode_CF: Floats, precision_F: Floats, covariance: str) -> None:
        self.mean_CF, self.covariance = mode_CF, covariance
        self._scale_F = 1 / np.sqrt(precision_F)
        self._law = laws.LAWS[covariance](features_nF * self._scale_F, features_nF @ mode_CF.T)

    def draw(self, n_draws: int, rng: np.random.Generator) -> Floats:
        """Weights (F, C, K)."""
        weights_FCK = self._law.draw(n_draws, rng)
        weights_FCK *= self._scale_F[:, np.newaxis, np.newaxis]
        weights_FCK += self.mean_CF.T[:, :, np.newaxis]
        return weights_FCK


class MeanField:
    """Independent normals that minimise the KL divergence to the posterior."""

    covariance = "diagonal"

    def __init__(self, features_nF: Floats, codes_n: Any, mode_CF: Floats, precision_F: Floats, rng: Any) -> None:
        self.mean_CF, self.std_CF = mean_field(features_nF, codes_n, mode_CF, precision_F, rng)

    def draw(self, n_draws: int, rng: np.random.Generator) -> Floats:
        """Weights (F, C, K)."""
        noise_FCK = rng.standard_normal((*self.mean_CF.T.shape, n_draws))
        return self.mean_CF.T[:, :, np.newaxis] + self.std_CF.T[:, :, np.newaxis] * noise_FCK


def most_probable(features_nF: Floats, codes_n: NDArray[np.int64], n_classes: int, precision_F: Floats) -> Floats:
    """Weights (C, F) of a softmax regression with a normal prior.

    The search uses axes along which the curvature is roughly the same, which halves the number of its steps.
    """
    scale_F = 1 / np.sqrt(precision_F)
    rotation = _rotation(features_nF * scale_F, n_classes)
    if rotation is None:
        return _search(features_nF * scale_F, codes_n, n_classes, np.ones(len(scale_F))) * scale_F
    unit_r, axes_Fr = rotation
    turned_nr = (features_nF * scale_F) @ (axes_Fr * unit_r)
    found_Cr = _search(turned_nr, codes_n, n_classes, unit_r**2)
    return (found_Cr * unit_r) @ axes_Fr.T * scale_F


def _rotation(X_nF: Floats, n_classes: int) -> tuple[Floats, Floats] | None:
    """Units (r,) and axes (F, r) of the search; None where it would cost more than it saves."""
    if min(X_nF.shape) > _MAX_ROTATED:
        return None
    squared_r, axes_Fr = laws.principal_axes(X_nF)
    return 1 / np.sqrt(1 + _TYPICAL_VARIANCE / n_classes * squared_r), axes_Fr


def _search(features_nF: Floats, codes_n: NDArray[np.int64], n_classes: int, precision_F: Floats) -> Floats:
    rows = np.arange(len(codes_n))

    def loss(weights: Floats) -> tuple[float, Floats]:
        weights_CF = weights.reshape(n_classes, -1)
        work_nC = features_nF @ weights_CF.T
        work_nC -= work_nC.max(axis=1, keepdims=True)
        own_n = work_nC[rows, codes_n]
        np.exp(work_nC, out=work_nC)
        sum_n = work_nC.sum(axis=1)
        value = (precision_F * weights_CF**2).sum() / 2 + (np.log(sum_n) - own_n).sum()
        work_nC /= sum_n[:, np.newaxis]
        work_nC[rows, codes_n] -= 1
        return value, (precision_F * weights_CF + work_nC.T @ features_nF).ravel()

    return _minimise(loss, np.zeros(n_classes * features_nF.shape[1])).reshape(n_classes, -1)


def mean_field(
    features_nF: Floats, codes_n: NDArray[np.int64], mode_CF: Floats, precision_F: Floats, rng: np.random.Generator
) -> tuple[Floats, Floats]:
    """Means and standard deviations (C, F) of independent normals that minimise `negative_elbo`.

    Steps are in units of the standard deviations of a Laplace approximation without correlations.
    """
    p_nC = np.exp(log_softmax(features_nF @ mode_CF.T, axis=1))
    unit_CF = 1 / np.sqrt((p_nC * (1 - p_nC)).T @ features_nF**2 + precision_F)
    noise_SnC = stratified_noise(p_nC.shape, rng)

    def loss(steps: Floats) -> tuple[float, Floats]:
        step_CF, log_factor_CF = steps.reshape(2, *mode_CF.shape)
        mean_CF, std_CF = mode_CF + unit_CF * step_CF, unit_CF * np.exp(log_factor_CF)
        value, by_mean, by_std = negative_elbo(mean_CF, std_CF, features_nF, codes_n, precision_F, noise_SnC)
        return value, np.concatenate([(by_mean * unit_CF).ravel(), (by_std * std_CF).ravel()])

    step_CF, log_factor_CF = _minimise(loss, np.zeros(2 * mode_CF.size)).reshape(2, *mode_CF.shape)
    return mode_CF + unit_CF * step_CF, unit_CF * np.exp(log_factor_CF)


def negative_elbo(
    mean_CF: Floats,
    std_CF: Floats,
    features_nF: Floats,
    codes_n: NDArray[np.int64],
    precision_F: Floats,
    noise_SnC: Floats,
) -> tuple[float, Floats, Floats]:
    """KL divergence to the prior minus the expected log-likelihood; and its gradients by means and deviations.

    The logits of a row are independent normals, so noise is drawn for them and not for the weights (local
    reparameterisation, Kingma, Salimans and Welling 2015). With fixed noise the bound is a deterministic function,
    which any optimiser can minimise.
    """
    center_nC = features_nF @ mean_CF.T
    spread_nC = np.sqrt(features_nF**2 @ (std_CF**2).T)
    log_p_SnC = log_softmax(center_nC + spread_nC * noise_SnC, axis=2)
    hot_nC = np.eye(len(mean_CF))[codes_n]
    relative_CF = precision_F * std_CF**2
    divergence = (precision_F * mean_CF**2 + relative_CF - 1 - np.log(relative_CF)).sum() / 2
    value = divergence - (log_p_SnC * hot_nC).sum() / len(noise_SnC)
    residual_SnC = np.exp(log_p_SnC) - hot_nC
    by_center_nC = residual_SnC.mean(axis=0)
    by_variance_nC = (residual_SnC * noise_SnC).mean(axis=0) / spread_nC  # its 1/2 cancels with a 2 below
    by_mean_CF = precision_F * mean_CF + by_center_nC.T @ features_nF
    return value, by_mean_CF, precision_F * std_CF - 1 / std_CF + std_CF * (by_variance_nC.T @ features_nF**2)


def stratified_noise(shape: tuple[int, ...], rng: np.random.Generator) -> Floats:
    """Standard normal noise (S, n, C); all logits get the same S quantiles, each in a random order."""
    n_points = int(np.clip(_NOISE_ELEMENTS // np.prod(shape), *_N_NOISE))
    quantiles_S = ndtri((np.arange(n_points) + 0.5) / n_points)
    quantiles_S /= quantiles_S.std()  # quantiles in the middle of their intervals have a variance below 1
    return rng.permuted(np.broadcast_to(quantiles_S[:, np.newaxis, np.newaxis], (n_points, *shape)), axis=0)


def _minimise(loss: Callable[[Floats], tuple[float, Floats]], start: Floats) -> Floats:
    options = {"maxiter": _MAX_STEPS, "maxfun": 2 * _MAX_STEPS, "ftol": 1e-13, "gtol": 1e-6, "maxcor": 20}
    found = minimize(loss, start, jac=True, method="L-BFGS-B", options=options)
    if found.nit >= _MAX_STEPS:
        warn(
            f"The search for the weights of the last layer has not converged after {_MAX_STEPS} steps. Scale the "
            "features of `net`, or raise `prior_precision`.",
            ConvergenceWarning,
        )
    return found.x
