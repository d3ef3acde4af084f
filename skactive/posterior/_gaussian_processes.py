"""Gaussian processes: functions of their posterior, which have a value at every row.

A draw is a function of the prior plus what the data add to it (pathwise conditioning, Wilson et al. 2020, eq. 13):

    f(x) = prior(x) + k(x, X) (K + noise)^-1 (targets - prior(X) - a draw of the noise).

Each row's deviation from the mean is scaled to the variance that the fitted model knows for it, so that scores of
single rows are exact up to the number of draws, given the Laplace approximation of a classifier. Correlations of two
rows (for BatchBALD) are off by 0.3 at most: draws of the prior are made of random Fourier features (Rahimi and Recht
2007). These are known for RBF, Matern (nu of 1/2 or more), RationalQuadratic, ExpSineSquared of a single column,
DotProduct, constants, and sums, products and whole powers of these; other kernels have no draws.

White noise belongs to the labels and not to the function. Letters in names: K draws, C classes, n training rows,
b rows of a block, F features, D columns.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial, reduce
from typing import Any

import numpy as np
from scipy.linalg import cho_solve
from scipy.special import log_expit, softmax
from sklearn.gaussian_process import GaussianProcessClassifier, GaussianProcessRegressor
from sklearn.gaussian_process.kernels import (
    RBF,
    ConstantKernel,
    DotProduct,
    Exponentiation,
    ExpSineSquared,
    Matern,
    Product,
    RationalQuadratic,
    Sum,
    WhiteKernel,
)
from sklearn.utils import gen_batches
from sklearn.utils.validation import check_is_fitted, validate_data

from .._utils.types import Floats
from .._utils.validation import NoPosteriorError, check_n_draws, several_outputs_error
from ._registry import DEFAULT_DRAWS, PredictDraws, noise_variance, source

# A correlation of the prior is then off by 1/sqrt(1024) = 0.03 at most (standard deviation): a third of the 0.1 that
# the default of a hundred draws leave in it anyhow. Close to data, where little variance is left, it is off by more.
_N_FREQUENCIES = 1024
_MAX_FEATURES = 2**15  # 26 MB of weights for a hundred draws
_BLOCK_ELEMENTS = 2**21  # 16 MiB of float64 for the largest temporary


@source.register(GaussianProcessClassifier)
def _classifier(estimator: Any, n_draws: int | None, rng: np.random.Generator) -> PredictDraws:
    """Each class against the rest has a function; their probabilities are normalised as in ``predict_proba``."""
    check_is_fitted(estimator)
    n_classes = estimator.n_classes_
    if n_classes > 2 and estimator.multi_class == "one_vs_one":
        raise ValueError(
            '`multi_class` must be "one_vs_rest" to draw from: with "one_vs_one" there are no probabilities.'
        )
    n_draws = DEFAULT_DRAWS if n_draws is None else check_n_draws(n_draws)
    parts = [estimator.base_estimator_] if n_classes == 2 else estimator.base_estimator_.estimators_
    if any(_white_noise(part.kernel_, part.X_train_).any() for part in parts):
        raise NoPosteriorError(estimator, "white noise in its kernel is not a function of the rows")
    functions = [_draw_functions(estimator, _laplace_posterior(part), n_draws, rng) for part in parts]

    def predict_draws(X: Any) -> Floats:
        X = validate_data(estimator, X, reset=False)
        draws = np.empty((n_draws, len(X), n_classes))
        for rows in functions[0].blocks(len(X)):
            latent_CKb = np.stack([f(X[rows]) for f in functions])
            draws[:, rows] = _probabilities(latent_CKb)
        return draws

    return predict_draws


@source.register(GaussianProcessRegressor)
def _regressor(estimator: Any, n_draws: int | None, rng: np.random.Generator) -> PredictDraws:
    posterior = _regression_posterior(estimator)
    n_draws = DEFAULT_DRAWS if n_draws is None else check_n_draws(n_draws)
    function = _draw_functions(estimator, posterior, n_draws, rng)
    mean, scale = _target_units(estimator)

    def predict_draws(X: Any) -> Floats:
        X = validate_data(estimator, X, reset=False)
        draws = np.empty((n_draws, len(X)))
        for rows in function.blocks(len(X)):
            draws[:, rows] = mean + scale * function(X[rows])
        return draws

    return predict_draws


@noise_variance.register(GaussianProcessRegressor)
def _noise_variance(estimator: GaussianProcessRegressor) -> float:
    """Variance of a label around the function; where it differs between training rows, its mean."""
    check_is_fitted(estimator, "X_train_")
    _, scale = _target_units(estimator)
    return float(scale**2 * np.mean(_label_noise(estimator)))


@dataclass(frozen=True)
class _Posterior:
    """Gaussian posterior of a function, sufficient for its values at any rows."""

    kernel: Any  # of the function, without white noise
    X: Any  # training rows
    weights: Floats  # (n,): mean(x) = k(x, X) weights
    # From k(X, x) to what the prior at the training rows, and a standard normal there, take off f(x): two (n, b).
    gain: Callable[[Floats], tuple[Floats, Floats]]


def _laplace_posterior(part: Any) -> _Posterior:
    """Rasmussen and Williams (2006), algorithm 3.2: regression on pseudo-targets with noise of variance 1/W.

    Written with the well-conditioned B = I + W^1/2 K W^1/2 = L L^T, as W may be 0 and K singular.
    """
    root_n1 = part.W_sr_[:, np.newaxis]
    gain = partial(_gain, part.L_, root_n1, 1.0)
    return _Posterior(part.kernel_, part.X_train_, part.y_train_ - part.pi_, gain)


def _regression_posterior(estimator: Any) -> _Posterior:
    check_is_fitted(estimator, "X_train_")  # the regressor's tags say that it needs no fit: it predicts from the prior
    if estimator.y_train_.ndim > 1 and estimator.y_train_.shape[1] > 1:
        raise several_outputs_error(estimator, "its draws", "MultiOutputRegressor fits one to each target.")
    # The factor is bound now: the draws stay what they are if the estimator is refitted.
    gain = partial(_gain, estimator.L_, 1.0, np.sqrt(_label_noise(estimator))[:, np.newaxis])
    return _Posterior(_without_noise(estimator.kernel_), estimator.X_train_, np.ravel(estimator.alpha_), gain)


def _gain(factor: Floats, root_n1: Any, noise_n1: Any, kernel_nb: Floats) -> tuple[Floats, Floats]:
    solved_nb = cho_solve((factor, True), root_n1 * kernel_nb)
    return root_n1 * solved_nb, noise_n1 * solved_nb


def _target_units(estimator: Any) -> tuple[float, float]:
    """Mean and scale that ``normalize_y`` has taken off the labels."""
    return float(np.ravel(estimator._y_train_mean)[0]), float(np.ravel(estimator._y_train_std)[0])


def _label_noise(estimator: Any) -> Floats:
    """(n,): variance of the training labels around the function, in the regressor's inner units."""
    return estimator.alpha + _white_noise(estimator.kernel_, estimator.X_train_)


def _white_noise(kernel: Any, X: Any) -> Floats:
    """(n,): diagonal of the kernel's white noise, which is not part of the function."""
    return np.maximum(kernel.diag(X) - _without_noise(kernel).diag(X), 0)


def _without_noise(kernel: Any) -> Any:
    if isinstance(kernel, WhiteKernel):
        return ConstantKernel(0.0)
    if type(kernel) in (Sum, Product):
        return type(kernel)(_without_noise(kernel.k1), _without_noise(kernel.k2))
    if type(kernel) is Exponentiation:
        return Exponentiation(_without_noise(kernel.kernel), kernel.exponent)
    return kernel


def _probabilities(latent_CKb: Floats) -> Floats:
    """(K, b, C): the logistic function of the latent ones, normalised over classes."""
    # In logarithms: far from the data a kernel of large variance can put every class at exp(-800).
    if len(latent_CKb) == 1:
        latent_CKb = np.concatenate([-latent_CKb, latent_CKb])
    return np.moveaxis(softmax(log_expit(latent_CKb), axis=0), 0, 2)


@dataclass(frozen=True)
class _Functions:
    """K functions of a posterior, by weights on features of the prior and on the noise of the training rows."""

    posterior: _Posterior
    features: Callable[[Any], Floats]  # from b rows to (F, b)
    training_features: Floats  # (F, n)
    weights: Floats  # (K, F), on the features
    noise: Floats  # (K, n), in standard deviations of the noise

    def __call__(self, X: Any) -> Floats:
        """(K, b): mean plus deviation."""
        kernel_nb, prior_b = self.posterior.kernel(self.posterior.X, X), self.posterior.kernel.diag(X)
        gain_nb, noise_nb = self.posterior.gain(kernel_nb)
        updated_Fb = self.features(X) - self.training_features @ gain_nb
        deviation_Kb = self.weights @ updated_Fb - self.noise @ noise_nb
        variance_b = _sum_of_squares(updated_Fb) + _sum_of_squares(noise_nb)
        # Close to data few frequencies make up what is left of the variance, which could be off by a factor.
        known_b = np.maximum(prior_b - np.einsum("nb,nb->b", kernel_nb, gain_nb), 0)
        deviation_Kb *= np.sqrt(known_b / np.maximum(variance_b, np.finfo(float).tiny))
        return self.posterior.weights @ kernel_nb + deviation_Kb

    def blocks(self, n_rows: int) -> Iterator[slice]:
        n_draws, n_training = self.noise.shape
        return gen_batches(n_rows, max(1, _BLOCK_ELEMENTS // (len(self.training_features) + 2 * n_training + n_draws)))


def _draw_functions(estimator: Any, posterior: _Posterior, n_draws: int, rng: np.random.Generator) -> _Functions:
    try:
        features = _fourier_features(posterior.kernel, posterior.X, rng)
    except _NoFeaturesError as error:
        why = f"its kernel {posterior.kernel} has no random features, or more than {_MAX_FEATURES}"
        raise NoPosteriorError(estimator, why) from error
    training_Fn = features(posterior.X)
    weights_KF = rng.standard_normal((n_draws, len(training_Fn)))
    noise_Kn = rng.standard_normal((n_draws, training_Fn.shape[1]))
    return _Functions(posterior, features, training_Fn, weights_KF, noise_Kn)


def _sum_of_squares(array: Floats) -> Floats:
    return np.einsum("ij,ij->j", array, array)


class _NoFeaturesError(Exception):
    """No feature map is known for a kernel, or it has too many features."""


@dataclass(frozen=True)
class _Term:
    """A part of a kernel: a variance times stationary kernels times dot products."""

    variance: float = 1.0
    stationary: tuple[Any, ...] = ()
    dots: tuple[Any, ...] = ()

    def __mul__(self, other: _Term) -> _Term:
        return _Term(self.variance * other.variance, self.stationary + other.stationary, self.dots + other.dots)

    def n_features(self, n_columns: int) -> int:
        return (2 * _N_FREQUENCIES if self.stationary else 1) * (n_columns + 1) ** len(self.dots)

    def features(self, frequencies_MD: Floats | None, X: Any) -> Floats:
        """(n_features, b): each feature of one factor times each of the others."""
        features_Fb = np.full((1, len(X)), np.sqrt(self.variance))
        for dot in self.dots:
            dot_Db = np.vstack([np.full(len(X), dot.sigma_0), np.transpose(X)])
            features_Fb = _products(features_Fb, dot_Db)
        if frequencies_MD is None:
            return features_Fb
        phase_Mb = frequencies_MD @ np.transpose(X)
        waves_Fb = np.concatenate([np.cos(phase_Mb), np.sin(phase_Mb)]) / np.sqrt(len(phase_Mb))
        return _products(features_Fb, waves_Fb)


def _products(first_Fb: Floats, second_Gb: Floats) -> Floats:
    return (first_Fb[:, np.newaxis] * second_Gb).reshape(-1, second_Gb.shape[1])


def _fourier_features(kernel: Any, X_training: Any, rng: np.random.Generator) -> Callable[[Any], Floats]:
    """Features whose products are the kernel in expectation over their frequencies; on the diagonal, always."""
    n_columns = X_training.shape[1] if X_training.ndim > 1 else 0
    terms = [term for term in _terms(kernel, n_columns) if term.variance > 0]
    if sum(term.n_features(n_columns) for term in terms) > _MAX_FEATURES:
        raise _NoFeaturesError
    parts = [partial(term.features, _frequencies(term, n_columns, rng)) for term in terms]
    return lambda X: np.concatenate([np.empty((0, len(X))), *(part(X) for part in parts)])


def _terms(kernel: Any, n_columns: int) -> list[_Term]:
    """A kernel multiplied out. Types are compared exactly: a subclass may be another function."""
    kind = type(kernel)
    if kind is Sum:
        return _terms(kernel.k1, n_columns) + _terms(kernel.k2, n_columns)
    if kind is Product:
        return _multiply(_terms(kernel.k1, n_columns), _terms(kernel.k2, n_columns))
    if kind is Exponentiation and kernel.exponent in range(1, 9):
        return reduce(_multiply, [_terms(kernel.kernel, n_columns)] * int(kernel.exponent))
    if kind is ConstantKernel:
        return [_Term(variance=kernel.constant_value)]
    if kind is DotProduct:
        return [_Term(dots=(kernel,))]
    if _has_spectrum(kernel, n_columns):
        return [_Term(stationary=(kernel,))]
    raise _NoFeaturesError


def _has_spectrum(kernel: Any, n_columns: int) -> bool:
    if type(kernel) is ExpSineSquared:
        return n_columns == 1  # of several it takes the distance, and is no product over columns
    if type(kernel) is Matern:
        return kernel.nu >= 0.5  # below, frequencies get so high that phases are mere rounding
    return type(kernel) in _SPECTRA


def _multiply(first: list[_Term], second: list[_Term]) -> list[_Term]:
    if len(first) * len(second) > _MAX_FEATURES:
        raise _NoFeaturesError
    return [a * b for a in first for b in second]


def _frequencies(term: _Term, n_columns: int, rng: np.random.Generator) -> Floats | None:
    """(M, D) from the spectrum of a product of stationary kernels: sums of frequencies, one from each factor."""
    if not term.stationary:
        return None
    shape = (_N_FREQUENCIES, n_columns)
    return np.sum([_SPECTRA[type(kernel)](kernel, shape, rng) for kernel in term.stationary], axis=0)


def _rbf_spectrum(kernel: RBF, shape: tuple[int, int], rng: np.random.Generator) -> Floats:
    return rng.standard_normal(shape) / kernel.length_scale


def _matern_spectrum(kernel: Matern, shape: tuple[int, int], rng: np.random.Generator) -> Floats:
    """Student's t of 2 nu degrees of freedom (Rasmussen and Williams 2006, eq. 4.15)."""
    gaussian = rng.standard_normal(shape) / kernel.length_scale
    if np.isinf(kernel.nu):
        return gaussian
    return gaussian / np.sqrt(rng.gamma(kernel.nu, 1 / kernel.nu, (len(gaussian), 1)))


def _rational_quadratic_spectrum(kernel: RationalQuadratic, shape: tuple[int, int], rng: np.random.Generator) -> Floats:
    """A mixture of RBF kernels, whose inverse squared length scales have a gamma law (ibid., eq. 4.20)."""
    inverse_square = rng.gamma(kernel.alpha, 1 / kernel.alpha, (shape[0], 1))
    return rng.standard_normal(shape) * np.sqrt(inverse_square) / kernel.length_scale


def _periodic_spectrum(kernel: ExpSineSquared, shape: tuple[int, int], rng: np.random.Generator) -> Floats:
    """Multiples of the base frequency: the Fourier coefficients, of Bessel functions, are a Skellam law."""
    first, second = rng.poisson(0.5 / kernel.length_scale**2, (2, *shape))
    return 2 * np.pi / kernel.periodicity * (first - second)


_SPECTRA: dict[type, Callable[..., Floats]] = {
    RBF: _rbf_spectrum,
    Matern: _matern_spectrum,
    RationalQuadratic: _rational_quadratic_spectrum,
    ExpSineSquared: _periodic_spectrum,
}
