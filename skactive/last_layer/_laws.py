"""Normal laws around the most probable weights of a softmax regression: exact, class by class, or Kronecker-factored.

With features scaled to a standard normal prior, the negative log-posterior has the Hessian Σ_i S_i ⊗ x_i x_i' + 1 with
S_i = diag(p_i) - p_i p_i'. Its inverse is the covariance of a Laplace approximation (MacKay 1992).

* ``Exact`` draws from that: its factors have the smaller of C n² and (C F)² numbers.
* ``ByClass`` drops correlations between classes: a matrix of min(n, F)² numbers for each. With many classes these
  correlations are small, and scores agree with those of the exact law to some digits.
* ``Kronecker`` replaces the sum over rows by the Kronecker product A ⊗ G that is nearest to it, and adds the prior
  in the eigenvectors of both: C² + min(n, F)² numbers.

All roots are Cholesky factors or symmetric, so that draws do not depend on the signs of eigenvectors.

Letters: n rows, F features, r of these or of the rows, whichever are fewer, C classes, K draws.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_solve, cholesky, eigh, solve_triangular
from scipy.special import softmax

from ..posterior import _laplace as laplace

Floats = NDArray[np.float64]

MAX_EXACT = 2**24
MAX_BY_CLASS = 2**25
"""Numbers in the factorised matrices up to which "auto" takes a law: 128 and 256 MiB."""

_N_ALTERNATIONS = 10
_NO_CURVATURE = 1e-12


class Exact:
    """The inverse Hessian."""

    def __init__(self, X_nF: Floats, logits_nC: Floats) -> None:
        curvature_nC = laplace.curvature(logits_nC, np.ones(len(X_nF)))
        self._law = laplace.weight_law(X_nF, curvature_nC, np.ones(X_nF.shape[1]), intercept=False)

    def draw(self, n_draws: int, rng: np.random.Generator) -> Floats:
        """Deviations (F, C, K)."""
        return self._law(n_draws, rng)[0]


class ByClass:
    """Classes apart, each with the covariance (1 + Σ_i d_ic x_i x_i')⁻¹, where d_ic = p_ic (1 - p_ic) C / (C - 1).

    Probabilities depend on differences between classes alone. The factor C / (C - 1) makes the law of these exact for
    two classes, and for rows whose classes are all equally probable.
    """

    def __init__(self, X_nF: Floats, logits_nC: Floats) -> None:
        n_classes = logits_nC.shape[1]
        self._X_nF = X_nF
        self._roots_nC = np.sqrt(variances(logits_nC) * n_classes / (n_classes - 1))
        self._is_wide = X_nF.shape[1] > len(X_nF)
        self._factors = [self._factor(X_nF * root_n[:, np.newaxis]) for root_n in self._roots_nC.T]

    def _factor(self, scaled_nF: Floats) -> Floats:
        matrix = scaled_nF @ scaled_nF.T if self._is_wide else scaled_nF.T @ scaled_nF
        np.einsum("ii->i", matrix)[:] += 1
        return cholesky(matrix, lower=True, overwrite_a=True, check_finite=False)

    def draw(self, n_draws: int, rng: np.random.Generator) -> Floats:
        """Deviations (F, C, K)."""
        n_rows, n_features = self._X_nF.shape
        weights_FCK = rng.standard_normal((n_features, len(self._factors), n_draws))
        for c, factor in enumerate(self._factors):
            if self._is_wide:
                weights_FCK[:, c] -= self._step_back(c, weights_FCK[:, c], rng.standard_normal((n_rows, n_draws)))
            else:
                weights_FCK[:, c] = solve_triangular(factor, weights_FCK[:, c], lower=True, trans="T")
        return weights_FCK

    def _step_back(self, c: int, prior_FK: Floats, noise_nK: Floats) -> Floats:
        """From draws of the prior to draws of the posterior (Hoffman and Ribak 1991), as in `_laplace`."""
        scaled_nF = self._X_nF * self._roots_nC[:, [c]]
        return scaled_nF.T @ cho_solve((self._factors[c], True), scaled_nF @ prior_FK + noise_nK)


class Kronecker:
    """The covariance (A ⊗ G + 1)⁻¹, with A of the classes and G of the features."""

    def __init__(self, X_nF: Floats, logits_nC: Floats) -> None:
        p_nC = softmax(logits_nC, axis=1)
        weight_n, share_n = nearest_kronecker(X_nF, p_nC)
        class_C, self._axes_CC = eigh(softmax_curvature(p_nC, share_n))
        feature_r, self._axes_Fr = principal_axes(X_nF * np.sqrt(weight_n)[:, np.newaxis])
        self._shrink_rC = 1 / np.sqrt(1 + np.outer(feature_r, np.maximum(class_C, 0))) - 1

    def draw(self, n_draws: int, rng: np.random.Generator) -> Floats:
        """Deviations (F, C, K): of the prior, shrunk by a symmetric root of the covariance."""
        n_features, n_classes = len(self._axes_Fr), len(self._axes_CC)
        weights_FCK = rng.standard_normal((n_features, n_classes, n_draws))
        parts_rCK = self._axes_CC.T @ (self._axes_Fr.T @ weights_FCK.reshape(n_features, -1)).reshape(
            -1, n_classes, n_draws
        )
        parts_rCK *= self._shrink_rC[:, :, np.newaxis]
        change_rCK = self._axes_CC @ parts_rCK
        weights_FCK += (self._axes_Fr @ change_rCK.reshape(len(change_rCK), -1)).reshape(weights_FCK.shape)
        return weights_FCK


LAWS: dict[str, Callable[..., Any]] = {"exact": Exact, "by_class": ByClass, "kronecker": Kronecker}


def choose(shape: tuple[int, int], n_classes: int) -> str:
    """The most exact of the laws that stays small, for features of this shape."""
    if laplace.matrix_elements((shape[0], n_classes), shape[1]) <= MAX_EXACT:
        return "exact"
    return "by_class" if n_classes * min(shape) ** 2 <= MAX_BY_CLASS else "kronecker"


def variances(logits_nC: Floats) -> Floats:
    """Variances p (1 - p) of labels; near p = 1 the sum of the other probabilities keeps the digits of 1 - p."""
    p_nC = softmax(logits_nC, axis=1)
    rows, top = np.arange(len(p_nC)), p_nC.argmax(axis=1)
    rest_nC = 1 - p_nC
    others_nC = p_nC.copy()
    others_nC[rows, top] = 0
    rest_nC[rows, top] = others_nC.sum(axis=1)
    return p_nC * rest_nC


def softmax_curvature(p_nC: Floats, weight_n: Floats) -> Floats:
    """Σ_i w_i (diag(p_i) - p_i p_i'), of shape (C, C)."""
    weighted_nC = p_nC * weight_n[:, np.newaxis]
    return np.diag(weighted_nC.sum(axis=0)) - weighted_nC.T @ p_nC


def nearest_kronecker(X_nF: Floats, p_nC: Floats) -> tuple[Floats, Floats]:
    """Weights v and w of the rows for which (Σ_i w_i S_i) ⊗ (Σ_i v_i x_i x_i') is nearest to Σ_i S_i ⊗ x_i x_i'.

    In Frobenius norm: each factor is the best one for the other, in turns (Van Loan and Pitsianis 1993).
    """
    alike_nn = (X_nF @ X_nF.T) ** 2 if len(X_nF) < X_nF.shape[1] else None
    share_n = np.full(len(X_nF), 1 / len(X_nF))
    for _ in range(_N_ALTERNATIONS):
        class_CC = softmax_curvature(p_nC, share_n)
        weight_n = p_nC @ np.diag(class_CC) - ((p_nC @ class_CC) * p_nC).sum(axis=1)
        weight_n = np.maximum(weight_n, 0) / max((class_CC**2).sum(), np.finfo(float).tiny)
        product_n = alike_nn @ weight_n if alike_nn is not None else _products(X_nF, weight_n)
        share_n = product_n / max(weight_n @ product_n, np.finfo(float).tiny)
    return weight_n, share_n


def _products(X_nF: Floats, weight_n: Floats) -> Floats:
    """x_i' G x_i for G = Σ_j v_j x_j x_j'."""
    return ((X_nF @ ((X_nF * weight_n[:, np.newaxis]).T @ X_nF)) * X_nF).sum(axis=1)


def principal_axes(X_nF: Floats) -> tuple[Floats, Floats]:
    """Eigenvalues (r,) and eigenvectors (F, r) of X'X; of fewer rows than features, without those of eigenvalue 0."""
    if len(X_nF) >= X_nF.shape[1]:
        squared_r, axes_Fr = eigh(X_nF.T @ X_nF)
        return np.maximum(squared_r, 0), axes_Fr
    squared_n, mix_nn = eigh(X_nF @ X_nF.T)
    is_there = squared_n > _NO_CURVATURE * squared_n[-1]
    squared_r = squared_n[is_there]
    return squared_r, X_nF.T @ (mix_nn[:, is_there] / np.sqrt(squared_r))
