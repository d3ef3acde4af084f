"""A Bayesian linear head on a frozen net.

The net turns rows into features, and only the weights of a last, linear layer are uncertain: a softmax regression with
a normal prior, whose posterior is approximated by a normal around the most probable weights (Laplace; the laws stand in
`_laws`) or by the best one without correlations (mean-field variational inference). The mathematics of the
first is that of the logistic regressions; it takes no library of its own, draws from a generator of ours, and is
factorised once a fit.

Letters: n rows, m rows to predict, F features (the constant that multiplies the biases among them), C classes, K draws,
S points at which an expectation is taken.
"""

from __future__ import annotations

import copy
import numbers
from collections.abc import Callable
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import minimize
from scipy.special import log_softmax, ndtri, softmax
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.frozen import FrozenEstimator
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import Pipeline
from sklearn.utils import check_consistent_length, gen_batches
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data
from skorch import NeuralNet
from torch import nn

from .._checks import (
    check_classes,
    check_labels,
    check_n_draws,
    is_fitted,
    one_class_error,
    parameter_error,
    warn_wide_draws,
)
from .._random import check_random_state
from ..posterior import _laplace as laplace
from ..posterior._embeddings import represent
from ..posterior._registry import DEFAULT_DRAWS, Through
from . import _laws as laws
from ._checks import embedding_error, net_class_error, no_embed_error, no_tapped_layer_error, warn_last_layer

__all__ = ["LastLayerClassifier"]

Floats = NDArray[np.float64]

_PRIOR_VARIANCE = 10  # of what the features add to a logit, and of what the bias adds
_MAX_STEPS = 5000
_MAX_ROWS_TO_CHECK = 1000
_MAX_ROTATED = 1024
_TYPICAL_VARIANCE = 0.1  # of a label, in units of 1 / C
_BLOCK_ELEMENTS = 2**21  # 16 MiB of float64
_N_NOISE = (8, 64)  # values of a logit: fewer where there are many rows, which have noise of their own


class LastLayerClassifier(ClassifierMixin, BaseEstimator):
    r"""Classify with a net of which only the last, linear layer is uncertain.

    :math:`p(y | x, W) = softmax(W h(x))_y`, with features :math:`h(x)` of a frozen net, a constant 1 among them, and
    independent normal priors of mean 0 for the weights W. A draw is one W.

    Parameters
    ----------
    net : estimator or torch.nn.Module, optional
        What makes features (n_points, n_units) of rows. None: the rows of X are features, those of a sentence encoder,
        say. Else anything with a method ``embed(X)``, such as `MCDropoutClassifier`; a skorch net, a torch module that
        is fitted, or an ``MLPClassifier``, whose features are what enters the linear layer that runs last; or a
        Pipeline that ends in one of these. A fitted net is used as it is. One that is not is cloned and fitted to the
        same data at every ``fit`` (a skorch net to the labels' codes). `clone` forgets fits, but of torch modules:
        ``FrozenEstimator(net)`` of scikit-learn keeps them.
    method : {"laplace", "mean_field"}, default="laplace"
        The normal distribution that stands for the posterior of W: around the most probable weights, with the inverse
        Hessian as its covariance; or the one closest to the posterior in KL divergence among those with independent
        weights, which are too sure where features are correlated.
    prior_precision : float or "scale", default="scale"
        Inverse variance of a weight under the prior. "scale" is a tenth of the mean squared norm of the labelled rows'
        features, and a tenth for biases: the logits then have a prior variance of 20, whatever the width of the net.
    covariance : {"auto", "exact", "by_class", "kronecker"}, default="auto"
        What method "laplace" keeps of the inverse Hessian. "exact": all of it. "by_class": what correlates the weights
        of a class, and nothing between classes. "kronecker": a matrix of classes times one of features, as near to the
        curvature as such a product can be. "auto" is "exact" up to 2^24 numbers (128 MiB), else "by_class" up to 2^25,
        else "kronecker"; Notes tell how many numbers it takes.
    classes : array-like, optional
        All labels, those not seen yet included: each gets a column.
    n_draws : int, default=100
        Draws that a prediction averages over.
    random_state : int, RandomState, Generator or None, default=None
        Seeds the draws of predictions and, for "mean_field", the points at which the loss is evaluated. The net has a
        ``random_state`` of its own.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        Sorted labels.
    net_ : estimator, torch.nn.Module or None
        The fitted net.
    covariance_ : str
        The covariance that was used; "diagonal" for method "mean_field".
    coef_, intercept_ : ndarray of shape (n_classes, n_units) and (n_classes,)
        Mean of the weights.
    prior_precision_ : float
        The precision that was used for weights of features.
    n_features_in_ : int
        Columns of X, if the net knows them.

    Notes
    -----
    With n labelled rows, F features, C classes and r, the smaller of n and F, the covariances keep and factorise

    ============ ======================== =========================
    covariance   numbers                  multiplications
    ============ ======================== =========================
    "exact"      the smaller of           C n³, or (C F)³
                 C n² and (C F)²
    "by_class"   C r²                     C n F r
    "kronecker"  C² + F r                 n F r + n C² + C³ + r³
    ============ ======================== =========================

    once at ``fit``. A draw costs as much as a few predictions, and C F numbers. On 256 to 384 features of CLINC-150,
    150 classes, scores by BALD have a rank correlation with those of the exact covariance of 1.000 by class and 0.97 to
    0.99 by the Kronecker product, whose scores are some 4 % (300 labels) to 10 % (1,500) lower.

    References
    ----------
    MacKay (1992), The Evidence Framework Applied to Classification Networks; Ritter, Botev and Barber (2018), A
    Scalable Laplace Approximation for Neural Networks; Van Loan and Pitsianis (1993), Approximation with Kronecker
    Products; Kristiadi, Hein and Hennig (2020), Being
    Bayesian, Even Just a Bit, Fixes Overconfidence in ReLU Networks, on why the last layer may be enough; Kingma,
    Salimans and Welling (2015), on noise in the logits rather than in the weights; Pinsler, Gordon, Nalisnick and
    Hernández-Lobato (2019), who compare batches on such heads.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from skactive import LastLayerClassifier, MCDropoutClassifier, StochasticBatchQuery
    >>> X, y = load_iris(return_X_y=True)
    >>> net = MCDropoutClassifier((16,), max_epochs=20, random_state=0)
    >>> head = LastLayerClassifier(net, random_state=0).fit(X[::3], y[::3])
    >>> head.predict_proba(X).shape
    (150, 3)
    >>> StochasticBatchQuery(score="bald", random_state=0).select(head, X, n_instances=3).shape
    (3,)

    Features that are there already need no net:

    >>> LastLayerClassifier(random_state=0).fit(X[::3], y[::3]).predict_proba(X).shape
    (150, 3)
    """

    def __init__(
        self,
        net: Any = None,
        *,
        method: str = "laplace",
        prior_precision: float | str = "scale",
        covariance: str = "auto",
        classes: ArrayLike | None = None,
        n_draws: int = 100,
        random_state: Any = None,
    ) -> None:
        self.net = net
        self.method = method
        self.prior_precision = prior_precision
        self.covariance = covariance
        self.classes = classes
        self.n_draws = n_draws
        self.random_state = random_state

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Fit the net, unless it is fitted, and the distribution of the last layer.

        Parameters
        ----------
        X : array-like of shape (n_rows, ...)
        y : array-like of shape (n_rows,)
            Labels of any type that sorts.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            If a parameter is out of its range, the features are not finite numbers in columns, or y holds one class and
            `classes` declares no other.
        TypeError
            If ``net`` has no features to give.
        """
        n_draws = self._check_parameters()
        y = check_labels(y)
        check_classification_targets(y)
        rng = check_random_state(self.random_state)
        net, classes = self._fitted_net(X, y)
        if len(classes) < 2:
            raise one_class_error(classes)
        features = validate_data(self, X, dtype="numeric") if net is None else _features(net)(X)
        features_nF, codes_n = laplace.with_column(features.astype(np.float64), 1.0), np.searchsorted(classes, y)
        check_consistent_length(features_nF, y)
        precision_F = self._precisions(features_nF)
        posterior = self._posterior_of(features_nF, codes_n, len(classes), precision_F, rng)
        weights_FCK = posterior.draw(n_draws, rng)
        _check_width(self, posterior, weights_FCK, features_nF, codes_n)
        self.net_, self.classes_, self.prior_precision_ = net, classes, float(precision_F[0])
        self.covariance_ = posterior.covariance
        self.coef_, self.intercept_ = posterior.mean_CF[:, :-1], posterior.mean_CF[:, -1]
        self._posterior, self._weights_FCK = posterior, weights_FCK
        if hasattr(net, "n_features_in_"):
            self.n_features_in_ = net.n_features_in_
        return self

    def embed(self, X: ArrayLike) -> NDArray[Any]:
        """Features of rows: what the net makes of them, or the rows themselves if there is no net.

        Parameters
        ----------
        X : array-like of shape (n_points, ...)

        Returns
        -------
        ndarray of shape (n_points, n_units)
        """
        return self._embedder()(X)

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Predict the label of the largest mean probability.

        Parameters
        ----------
        X : array-like of shape (n_points, ...)

        Returns
        -------
        ndarray of shape (n_points,)
        """
        probabilities = self.predict_proba(X)
        return self.classes_[probabilities.argmax(axis=1)]

    def predict_proba(self, X: ArrayLike) -> Floats:
        """Average the probabilities of the model's own ``n_draws`` functions: the same ones at every call.

        Parameters
        ----------
        X : array-like of shape (n_points, ...)

        Returns
        -------
        ndarray of shape (n_points, n_classes)
            Columns in the order of ``classes_``.
        """
        check_is_fitted(self, "coef_")
        return _by_blocks(self.embed(X), self._weights_FCK, lambda p_KmC: p_KmC.mean(axis=0, keepdims=True))[0]

    def sample_posterior(self, n_draws: int | None, rng: Any) -> Callable[[Any], Floats]:
        """Draw functions: one matrix of last-layer weights each.

        Parameters
        ----------
        n_draws : int or None
            Number of functions; None is 100.
        rng : numpy.random.Generator

        Returns
        -------
        predict_draws : callable
            ``predict_draws(X)`` is an array (n_draws, n_points, n_classes) of probabilities; every call evaluates the
            same functions.
        """
        check_is_fitted(self, "coef_")
        n_draws = DEFAULT_DRAWS if n_draws is None else check_n_draws(n_draws)
        weights_FCK = self._posterior.draw(n_draws, check_random_state(rng))
        return Through(self._embedder(), after=lambda features_mF: _by_blocks(features_mF, weights_FCK))

    def _embedder(self) -> Callable[[Any], NDArray[Any]]:
        """A function that stays what it is when the head is fitted again."""
        check_is_fitted(self, "coef_")
        if self.net_ is not None:
            return _features(self.net_)
        fitted = copy.copy(self)
        return lambda X: validate_data(fitted, X, reset=False, dtype="numeric")

    def _posterior_of(self, features_nF: Floats, codes_n: Any, n_classes: int, precision_F: Floats, rng: Any) -> Any:
        mode_CF = most_probable(features_nF, codes_n, n_classes, precision_F)
        if self.method == "mean_field":
            return _MeanField(features_nF, codes_n, mode_CF, precision_F, rng)
        name = self.covariance if self.covariance != "auto" else laws.choose(features_nF.shape, n_classes)
        return _Laplace(features_nF, mode_CF, precision_F, name)

    def _check_parameters(self) -> int:
        precision = self.prior_precision
        if not (isinstance(self.method, str) and self.method in _METHODS):
            raise parameter_error("method", f"one of {list(_METHODS)}", self.method)
        is_number = isinstance(precision, numbers.Real) and 0 < precision < np.inf
        if not (is_number or (isinstance(precision, str) and precision == "scale")):
            raise parameter_error("prior_precision", 'a finite number larger than 0, or "scale"', precision)
        if not (isinstance(self.covariance, str) and self.covariance in _COVARIANCES):
            raise parameter_error("covariance", f"one of {list(_COVARIANCES)}", self.covariance)
        if isinstance(self.net, type):
            raise net_class_error(self.net)
        if self.net is not None and not _has_features(self.net):
            raise no_embed_error(self.net)
        return check_n_draws(self.n_draws)

    def _precisions(self, features_nF: Floats) -> Floats:
        if not isinstance(self.prior_precision, str):
            return np.full(features_nF.shape[1], float(self.prior_precision))
        squares_F = (features_nF**2).mean(axis=0)
        squares_F[:-1] = squares_F[:-1].sum() or 1.0  # the mean squared norm, but of the constant, which is the last
        return squares_F / _PRIOR_VARIANCE

    def _fitted_net(self, X: Any, y: NDArray[Any]) -> tuple[Any, NDArray[Any]]:
        """The net, and all labels: those seen or declared, and those that a net fitted here knows of."""
        classes = check_classes(y, self.classes)
        if self.net is None or is_fitted(_last_step(self.net)):
            return self.net, classes
        net = clone(self.net)
        if isinstance(_last_step(net), NeuralNet):
            net.fit(X, np.searchsorted(classes, y))
            return net, classes
        if self.classes is not None and getattr(net, "classes", ()) is None:
            net.set_params(classes=self.classes)
        net.fit(X, y)
        return net, np.union1d(classes, getattr(net, "classes_", classes))


def _last_step(net: Any) -> Any:
    return _last_step(net.steps[-1][1]) if isinstance(net, Pipeline) else net


def _has_features(net: Any) -> bool:
    """Whether the net embeds rows itself, or is one whose last linear layer can be tapped."""
    if isinstance(net, FrozenEstimator):
        return _has_features(net.estimator)
    last = _last_step(net)
    return hasattr(last, "embed") or isinstance(last, NeuralNet | nn.Module | MLPClassifier)


def _features(net: Any) -> Callable[[Any], NDArray[Any]]:
    if hasattr(net, "embed"):
        return _OwnFeatures(net)
    return Through(represent(net), after=lambda represented: _checked(represented[1]))


class _OwnFeatures:
    """What a net's own method makes of rows."""

    def __init__(self, net: Any) -> None:
        self._net = net
        self.batch_size = getattr(net, "predict_batch_size", None)

    def __call__(self, X: Any) -> NDArray[Any]:
        return _checked(self._net.embed(X))


def _checked(features: Any) -> NDArray[Any]:
    features = np.asarray(features)
    if features.ndim == 2 and features.shape[1] == 0:
        raise no_tapped_layer_error()
    if features.ndim != 2 or not np.isfinite(features).all():
        raise embedding_error(features)
    return features


def _check_width(head: Any, posterior: Any, weights_FCK: Floats, features_nF: Floats, codes_n: Any) -> None:
    """At rows from first to last, as many as go into a block."""
    n_rows = min(_MAX_ROWS_TO_CHECK, _rows_of_block(weights_FCK), len(codes_n))
    rows = np.linspace(0, len(codes_n) - 1, n_rows).astype(int)
    mode_nC = softmax(features_nF[rows] @ posterior.mean_CF.T, axis=1)
    if laplace.are_too_wide(_probabilities(features_nF[rows, :-1], weights_FCK), mode_nC, codes_n[rows]):
        warn_wide_draws(head, 'a larger `prior_precision`, method="mean_field",')


def _by_blocks(
    features_mU: NDArray[Any], weights_FCK: Floats, reduce: Callable[[Floats], Floats] = lambda p_KmC: p_KmC
) -> Floats:
    """Probabilities, or what is made of their first axis, with no more than the result and a block in memory."""
    n_rows, (_, n_classes, _) = len(features_mU), weights_FCK.shape
    blocks = list(gen_batches(n_rows, _rows_of_block(weights_FCK)))
    n_values = len(reduce(np.empty((weights_FCK.shape[2], 0, n_classes))))
    result = np.empty((n_values, n_rows, n_classes))
    for block in blocks:
        result[:, block] = reduce(_probabilities(features_mU[block], weights_FCK))
    return result


def _rows_of_block(weights_FCK: Floats) -> int:
    return max(1, _BLOCK_ELEMENTS // max(weights_FCK[0].size, len(weights_FCK)))


def _probabilities(features_mU: NDArray[Any], weights_FCK: Floats) -> Floats:
    """Of shape (K, m, C); the last of the weights are biases."""
    features_mU = features_mU.astype(np.float64, copy=False)
    return laplace.probabilities(laplace.linear(features_mU, weights_FCK[:-1], weights_FCK[-1]))


class _Laplace:
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


class _MeanField:
    """Independent normals that minimise the KL divergence to the posterior."""

    covariance = "diagonal"

    def __init__(self, features_nF: Floats, codes_n: Any, mode_CF: Floats, precision_F: Floats, rng: Any) -> None:
        self.mean_CF, self.std_CF = mean_field(features_nF, codes_n, mode_CF, precision_F, rng)

    def draw(self, n_draws: int, rng: np.random.Generator) -> Floats:
        """Weights (F, C, K)."""
        noise_FCK = rng.standard_normal((*self.mean_CF.T.shape, n_draws))
        return self.mean_CF.T[:, :, np.newaxis] + self.std_CF.T[:, :, np.newaxis] * noise_FCK


_METHODS = ("laplace", "mean_field")
_COVARIANCES = ("auto", *laws.LAWS)


def most_probable(features_nF: Floats, codes_n: NDArray[np.int64], n_classes: int, precision_F: Floats) -> Floats:
    """Weights (C, F) of a softmax regression with a normal prior.

    The search goes along axes in which the curvature is roughly the same everywhere: it takes half the steps.
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

    The search goes by steps in units of what a Laplace approximation without correlations would give.
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

    A row's logits are independent normals themselves, so that noise is needed for these alone: local
    reparameterisation. With noise that is fixed, the bound is a function that any optimiser can minimise.
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
    by_variance_nC = (residual_SnC * noise_SnC).mean(axis=0) / spread_nC  # half of it, and twice the deviation below
    by_mean_CF = precision_F * mean_CF + by_center_nC.T @ features_nF
    return value, by_mean_CF, precision_F * std_CF - 1 / std_CF + std_CF * (by_variance_nC.T @ features_nF**2)


def stratified_noise(shape: tuple[int, ...], rng: np.random.Generator) -> Floats:
    """Standard normal noise (S, n, C); each logit's S values are the same quantiles, in an order of its own."""
    n_points = int(np.clip(_BLOCK_ELEMENTS // np.prod(shape), *_N_NOISE))
    quantiles_S = ndtri((np.arange(n_points) + 0.5) / n_points)
    quantiles_S /= quantiles_S.std()
    return rng.permuted(np.broadcast_to(quantiles_S[:, np.newaxis, np.newaxis], (n_points, *shape)), axis=0)


def _minimise(loss: Callable[[Floats], tuple[float, Floats]], start: Floats) -> Floats:
    options = {"maxiter": _MAX_STEPS, "maxfun": 2 * _MAX_STEPS, "ftol": 1e-13, "gtol": 1e-6, "maxcor": 20}
    found = minimize(loss, start, jac=True, method="L-BFGS-B", options=options)
    if found.nit >= _MAX_STEPS:
        warn_last_layer(_MAX_STEPS)
    return found.x
