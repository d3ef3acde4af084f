"""A softmax regression on the features of a net, with independent normals as the posterior of its weights.

Letters: n rows, F features (the constant that multiplies the biases among them), C classes, K draws, S points at which
an expectation is taken.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import log_softmax, ndtri, softmax
from sklearn.base import BaseEstimator, ClassifierMixin, clone

Floats = NDArray[np.float64]

PRIOR_VARIANCE = 10  # of the sum of the features' terms of a logit, and of the bias


class MeanFieldClassifier(ClassifierMixin, BaseEstimator):
    """The net is fitted anew; the law of the last layer is the closest one in KL divergence without correlations."""

    def __init__(self, net: Any, *, n_draws: int = 100, random_state: int | None = None) -> None:
        self.net = net
        self.n_draws = n_draws
        self.random_state = random_state

    def fit(self, X: Any, y: Any) -> MeanFieldClassifier:
        rng = np.random.default_rng(self.random_state)
        self.net_ = clone(self.net).fit(X, y)
        self.classes_ = self.net_.classes_
        features_nF = self._features(X)
        precision_F = prior_precision(features_nF)
        codes_n = np.searchsorted(self.classes_, y)
        mode_CF = most_probable(features_nF, codes_n, len(self.classes_), precision_F)
        self.mean_CF_, self.std_CF_ = mean_field(features_nF, codes_n, mode_CF, precision_F, rng)
        self.predict_draws_ = self.sample_posterior(self.n_draws, rng)
        return self

    def embed(self, X: Any) -> NDArray[Any]:
        return self.net_.embed(X)

    def predict_proba(self, X: Any) -> Floats:
        return self.predict_draws_(X).mean(axis=0)

    def predict(self, X: Any) -> NDArray[Any]:
        return self.classes_[self.predict_proba(X).argmax(axis=1)]

    def sample_posterior(self, n_draws: int | None, rng: np.random.Generator) -> Callable[[Any], Floats]:
        """Functions that give probabilities (K, n, C), one for each draw of the weights."""
        noise_FCK = rng.standard_normal((*self.mean_CF_.T.shape, n_draws or 100))
        weights_KFC = self.mean_CF_.T + self.std_CF_.T * noise_FCK.transpose(2, 0, 1)
        return lambda X: softmax(self._features(X) @ weights_KFC, axis=2)

    def _features(self, X: Any) -> Floats:
        return np.column_stack([self.embed(X).astype(np.float64), np.ones(len(X))])


def prior_precision(features_nF: Floats) -> Floats:
    """One for all weights, from the mean squared norm of the features, and one for the biases."""
    squares_F = (features_nF**2).mean(axis=0)
    squares_F[:-1] = squares_F[:-1].sum()
    return squares_F / PRIOR_VARIANCE


def most_probable(features_nF: Floats, codes_n: NDArray[np.int64], n_classes: int, precision_F: Floats) -> Floats:
    """Weights (C, F) of a softmax regression with a normal prior."""
    scale_F = 1 / np.sqrt(precision_F)  # steps in units of the prior
    X_nF, hot_nC = features_nF * scale_F, np.eye(n_classes)[codes_n]

    def loss(weights: Floats) -> tuple[float, Floats]:
        weights_CF = weights.reshape(n_classes, -1)
        log_p_nC = log_softmax(X_nF @ weights_CF.T, axis=1)
        value = (weights_CF**2).sum() / 2 - (log_p_nC * hot_nC).sum()
        return value, (weights_CF + (np.exp(log_p_nC) - hot_nC).T @ X_nF).ravel()

    return _minimise(loss, np.zeros(n_classes * len(scale_F))).reshape(n_classes, -1) * scale_F


def mean_field(
    features_nF: Floats, codes_n: NDArray[np.int64], mode_CF: Floats, precision_F: Floats, rng: np.random.Generator
) -> tuple[Floats, Floats]:
    """Means and standard deviations (C, F) of independent normals that minimise `negative_elbo`.

    Steps are in units of the standard deviations of a Laplace approximation without correlations.
    """
    p_nC = softmax(features_nF @ mode_CF.T, axis=1)
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

    The logits of a row are independent normals, so noise is drawn for them and not for the weights (Kingma, Salimans
    and Welling, 2015). With fixed noise the bound is a deterministic function, which any optimiser can minimise.
    """
    center_nC = features_nF @ mean_CF.T
    spread_nC = np.sqrt(features_nF**2 @ (std_CF**2).T)
    log_p_SnC = log_softmax(center_nC + spread_nC * noise_SnC, axis=2)
    hot_nC = np.eye(len(mean_CF))[codes_n]
    relative_CF = precision_F * std_CF**2
    divergence = (precision_F * mean_CF**2 + relative_CF - 1 - np.log(relative_CF)).sum() / 2
    value = divergence - (log_p_SnC * hot_nC).sum() / len(noise_SnC)
    residual_SnC = np.exp(log_p_SnC) - hot_nC
    by_variance_nC = (residual_SnC * noise_SnC).mean(axis=0) / spread_nC  # its 1/2 cancels with a 2 below
    by_mean_CF = precision_F * mean_CF + residual_SnC.mean(axis=0).T @ features_nF
    return value, by_mean_CF, precision_F * std_CF - 1 / std_CF + std_CF * (by_variance_nC.T @ features_nF**2)


def stratified_noise(shape: tuple[int, ...], rng: np.random.Generator) -> Floats:
    """Standard normal noise (S, n, C); all logits get the same S quantiles, each in a random order."""
    n_points = int(np.clip(2**21 // np.prod(shape), 8, 64))  # fewer where there are many rows, each with other noise
    quantiles_S = ndtri((np.arange(n_points) + 0.5) / n_points)
    quantiles_S /= quantiles_S.std()  # quantiles in the middle of their intervals have a variance below 1
    return rng.permuted(np.broadcast_to(quantiles_S[:, np.newaxis, np.newaxis], (n_points, *shape)), axis=0)


def _minimise(loss: Callable[[Floats], tuple[float, Floats]], start: Floats) -> Floats:
    options = {"maxiter": 5000, "maxfun": 10_000, "ftol": 1e-13, "gtol": 1e-6, "maxcor": 20}
    return minimize(loss, start, jac=True, method="L-BFGS-B", options=options).x
