"""A Bayesian linear head on a frozen net.

The net turns rows into features, and only the weights of a last, linear layer are uncertain: a softmax regression with
a normal prior, whose posterior is approximated by a normal with a full covariance (Laplace) or by the best one without
correlations (mean-field variational inference). The mathematics of the first is that of the logistic regressions; it
takes no library of its own, draws from a generator of ours, and costs a factorisation.

Letters: n rows, m rows to predict, F features (the constant that multiplies the biases among them), C classes, K draws,
S points at which an expectation is taken.
"""

from __future__ import annotations

import numbers
from collections.abc import Callable
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import minimize
from scipy.special import log_softmax, ndtri, softmax
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.utils import check_consistent_length, gen_batches
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted

from . import _laplace as laplace
from . import _validation as validation
from ._dispatch import DEFAULT_DRAWS

__all__ = ["LastLayerClassifier"]

Floats = NDArray[np.float64]

_PRIOR_VARIANCE = 10  # of what the features add to a logit, and of what the bias adds
_MAX_STEPS = 5000
_MAX_ROWS_TO_CHECK = 1000
_BLOCK_ELEMENTS = 2**21  # 16 MiB of float64
_N_NOISE = (8, 64)  # values of a logit: fewer where there are many rows, which have noise of their own


class LastLayerClassifier(ClassifierMixin, BaseEstimator):
    r"""Classify with a net of which only the last, linear layer is uncertain.

    :math:`p(y | x, W) = softmax(W h(x))_y`, with features :math:`h(x)` of a frozen net, a constant 1 among them, and
    independent normal priors of mean 0 for the weights W. A draw is one W.

    Parameters
    ----------
    net : estimator
        Anything with a method ``embed(X)`` that returns features (n_points, n_units), such as `MCDropoutClassifier`. A
        fitted net is used as it is. One that is not is cloned and fitted to the same data at every ``fit``. (`clone`
        forgets fits: ``FrozenEstimator(net)`` of scikit-learn keeps them.)
    method : {"laplace", "mean_field"}, default="laplace"
        The normal distribution that stands for the posterior of W: around the most probable weights, with the inverse
        Hessian as its covariance; or the one closest to the posterior in KL divergence among those with independent
        weights, which are too sure where features are correlated.
    prior_precision : float or "scale", default="scale"
        Inverse variance of a weight under the prior. "scale" is a tenth of the mean squared norm of the labelled rows'
        features, and a tenth for biases: the logits then have a prior variance of 20, whatever the width of the net.
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
    net_ : estimator
        The fitted net.
    coef_, intercept_ : ndarray of shape (n_classes, n_units) and (n_classes,)
        Mean of the weights.
    prior_precision_ : float
        The precision that was used for weights of features.
    n_features_in_ : int
        Columns of X, if the net knows them.

    References
    ----------
    MacKay (1992), The Evidence Framework Applied to Classification Networks; Kristiadi, Hein and Hennig (2020), Being
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
    """

    def __init__(
        self,
        net: Any,
        *,
        method: str = "laplace",
        prior_precision: float | str = "scale",
        classes: ArrayLike | None = None,
        n_draws: int = 100,
        random_state: Any = None,
    ) -> None:
        self.net = net
        self.method = method
        self.prior_precision = prior_precision
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
            If a parameter is out of its range, or y holds one class and `classes` declares no other.
        TypeError
            If ``net`` has no method ``embed``.
        """
        n_draws = self._check_parameters()
        y = validation.check_labels(y)
        check_classification_targets(y)
        rng = validation.check_random_state(self.random_state)
        net, classes = self._fitted_net(X, y)
        if len(classes) < 2:
            raise validation.one_class_error(classes)
        features_nF, codes_n = _embed(net, X), np.searchsorted(classes, y)
        check_consistent_length(features_nF, y)
        precision_F = self._precisions(features_nF)
        posterior = _METHODS[self.method](features_nF, codes_n, len(classes), precision_F, rng)
        weights_FCK = posterior.draw(n_draws, rng)
        _check_width(self, posterior, weights_FCK, features_nF[:_MAX_ROWS_TO_CHECK], codes_n[:_MAX_ROWS_TO_CHECK])
        self.net_, self.classes_, self.prior_precision_ = net, classes, float(precision_F[0])
        self.coef_, self.intercept_ = posterior.mean_CF[:, :-1], posterior.mean_CF[:, -1]
        self._posterior, self._weights_FCK = posterior, weights_FCK
        if hasattr(net, "n_features_in_"):
            self.n_features_in_ = net.n_features_in_
        return self

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
        check_is_fitted(self)
        features_mF, weights_FCK = _embed(self.net_, X), self._weights_FCK
        size = max(1, _BLOCK_ELEMENTS // weights_FCK[0].size)
        blocks = gen_batches(len(features_mF), size)
        means = [_probabilities(features_mF[block], weights_FCK).mean(axis=0) for block in blocks]
        return np.concatenate(means) if means else np.empty((0, len(self.classes_)))

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
        check_is_fitted(self)
        n_draws = DEFAULT_DRAWS if n_draws is None else validation.check_n_draws(n_draws)
        net, weights_FCK = self.net_, self._posterior.draw(n_draws, validation.check_random_state(rng))
        return lambda X: _probabilities(_embed(net, X), weights_FCK)

    def _check_parameters(self) -> int:
        precision = self.prior_precision
        if not (isinstance(self.method, str) and self.method in _METHODS):
            raise validation.parameter_error("method", f"one of {sorted(_METHODS)}", self.method)
        is_number = isinstance(precision, numbers.Real) and 0 < precision < np.inf
        if not (is_number or (isinstance(precision, str) and precision == "scale")):
            raise validation.parameter_error("prior_precision", 'a finite number larger than 0, or "scale"', precision)
        if not hasattr(self.net, "embed"):
            raise validation.no_embed_error(self.net)
        return validation.check_n_draws(self.n_draws)

    def _precisions(self, features_nF: Floats) -> Floats:
        if not isinstance(self.prior_precision, str):
            return np.full(features_nF.shape[1], float(self.prior_precision))
        squares_F = (features_nF**2).mean(axis=0)
        squares_F[:-1] = squares_F[:-1].sum() or 1.0  # the mean squared norm, but of the constant, which is the last
        return squares_F / _PRIOR_VARIANCE

    def _fitted_net(self, X: Any, y: NDArray[Any]) -> tuple[Any, NDArray[Any]]:
        """The net, and all labels: those seen or declared, and those that a net fitted here knows of."""
        seen = np.unique(y)
        classes = seen if self.classes is None else np.unique(self.classes)
        unknown = np.setdiff1d(seen, classes)
        if len(unknown):
            raise validation.undeclared_labels_error(unknown, classes)
        if validation.is_fitted(self.net):
            return self.net, classes
        net = clone(self.net)
        if self.classes is not None and getattr(net, "classes", ()) is None:
            net.set_params(classes=self.classes)
        net.fit(X, y)
        return net, np.union1d(classes, getattr(net, "classes_", classes))


def _embed(net: Any, X: Any) -> Floats:
    """What the net makes of the rows, and the constant."""
    features = np.asarray(net.embed(X), dtype=np.float64)
    if features.ndim != 2 or not np.isfinite(features).all():
        raise validation.embedding_error(features)
    return laplace.with_column(features, 1.0)


def _check_width(head: Any, posterior: Any, weights_FCK: Floats, features_nF: Floats, codes_n: Any) -> None:
    mode_nC = softmax(features_nF @ posterior.mean_CF.T, axis=1)
    if laplace.are_too_wide(_probabilities(features_nF, weights_FCK), mode_nC, codes_n):
        validation.warn_wide_draws(head, 'a larger `prior_precision`, method="mean_field",')


def _probabilities(features_mF: Floats, weights_FCK: Floats) -> Floats:
    return laplace.probabilities(laplace.linear(features_mF, weights_FCK, np.zeros(weights_FCK.shape[1:])))


class _Laplace:
    """Around the most probable weights, with the inverse Hessian of the negative log-posterior as covariance."""

    def __init__(self, features_nF: Floats, codes_n: Any, n_classes: int, precision_F: Floats, rng: Any) -> None:
        self.mean_CF = most_probable(features_nF, codes_n, n_classes, precision_F)
        self._features_nF = features_nF
        self._curvature_nC = laplace.curvature(features_nF @ self.mean_CF.T, np.ones(len(features_nF)))
        self._prior_F = 1 / precision_F

    def draw(self, n_draws: int, rng: np.random.Generator) -> Floats:
        """Weights (F, C, K)."""
        deviations_FCK, _ = laplace.draw_weights(
            self._features_nF, self._curvature_nC, self._prior_F, False, n_draws, rng
        )
        return self.mean_CF.T[:, :, np.newaxis] + deviations_FCK


class _MeanField:
    """Independent normals that minimise the KL divergence to the posterior."""

    def __init__(self, features_nF: Floats, codes_n: Any, n_classes: int, precision_F: Floats, rng: Any) -> None:
        mode_CF = most_probable(features_nF, codes_n, n_classes, precision_F)
        self.mean_CF, self.std_CF = mean_field(features_nF, codes_n, mode_CF, precision_F, rng)

    def draw(self, n_draws: int, rng: np.random.Generator) -> Floats:
        """Weights (F, C, K)."""
        noise_FCK = rng.standard_normal((*self.mean_CF.T.shape, n_draws))
        return self.mean_CF.T[:, :, np.newaxis] + self.std_CF.T[:, :, np.newaxis] * noise_FCK


_METHODS: dict[str, Callable[..., Any]] = {"laplace": _Laplace, "mean_field": _MeanField}


def most_probable(features_nF: Floats, codes_n: NDArray[np.int64], n_classes: int, precision_F: Floats) -> Floats:
    """Weights (C, F) of a softmax regression with a normal prior."""
    hot_nC = np.eye(n_classes)[codes_n]

    def loss(weights: Floats) -> tuple[float, Floats]:
        weights_CF = weights.reshape(n_classes, -1)
        log_p_nC = log_softmax(features_nF @ weights_CF.T, axis=1)
        value = (precision_F * weights_CF**2).sum() / 2 - (hot_nC * log_p_nC).sum()
        return value, (precision_F * weights_CF + (np.exp(log_p_nC) - hot_nC).T @ features_nF).ravel()

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
        validation.warn_last_layer(_MAX_STEPS)
    return found.x
