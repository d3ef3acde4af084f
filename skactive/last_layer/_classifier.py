"""A Bayesian linear head on a frozen net.

The net turns rows into features, and only the weights of a last, linear layer are uncertain: a softmax regression with
a normal prior. `_features` asks the net, `_fit` approximates the posterior of the weights by a normal distribution, and
`_probabilities` evaluates draws from it.

Letters: n rows, m rows to predict, F features (the constant that multiplies the biases among them), C classes, K draws.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import softmax
from sklearn.base import clone
from sklearn.utils import check_consistent_length
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data
from skorch import NeuralNet

from .._bases import BaseEstimator, ClassifierMixin
from .._checks import (
    Rule,
    Rules,
    check_classes,
    check_n_draws,
    check_parameters,
    integer,
    is_fitted,
    number,
    one_axis,
    one_class_error,
    one_of,
    plain_labels,
    warn_wide_draws,
)
from .._random import check_random_state
from .._types import Covariance, Method
from ..posterior import _laplace as laplace
from ..posterior._registry import DEFAULT_DRAWS
from ..posterior._unwrap import Through
from . import _laws as laws
from ._features import features_of, has_features, last_step
from ._fit import COVARIANCES, METHODS, Laplace, MeanField, most_probable
from ._probabilities import by_blocks, probabilities, rows_of_block

__all__ = ["LastLayerClassifier"]

Floats = NDArray[np.float64]

_PRIOR_VARIANCE = 10  # of the sum of the features' terms of a logit, and of the bias
_MAX_ROWS_TO_CHECK = 1000


class LastLayerClassifier(ClassifierMixin, BaseEstimator):
    r"""Classify with a net of which only the last, linear layer is uncertain.

    :math:`p(y | x, W) = softmax(W h(x))_y`, with features :math:`h(x)` of a frozen net, a constant 1 among them, and
    independent normal priors of mean 0 for the weights W. A draw is one W.

    Parameters
    ----------
    net : estimator or torch.nn.Module, optional
        Source of the features (n_points, n_units). None: the rows of X are features, from a sentence encoder, for
        example. Otherwise an estimator with a method ``embed(X)``, such as `MCDropoutClassifier`; a skorch net, a
        fitted torch module or an ``MLPClassifier``, whose features are the input of its last linear layer; or a
        Pipeline that ends in one of these. A fitted net is used as it is. Any other is cloned and fitted to the same
        data at every ``fit`` (a skorch net to the positions of the labels in ``classes_``). ``clone`` forgets fits,
        except those of torch modules; scikit-learn's ``FrozenEstimator(net)`` keeps them.
    method : {"laplace", "mean_field"}, default="laplace"
        The normal distribution that approximates the posterior of W. "laplace" is centred at the most probable weights,
        with the inverse Hessian as its covariance. "mean_field" is the closest one in KL divergence among those with
        independent weights; it is overconfident where features are correlated.
    prior_precision : float or "scale", default="scale"
        Inverse variance of a weight under the prior. "scale" is a tenth of the mean squared norm of the labelled rows'
        features, and a tenth for biases: the logits then have a prior variance of 20, whatever the width of the net.
    covariance : {"auto", "exact", "by_class", "kronecker"}, default="auto"
        The part of the inverse Hessian that method "laplace" keeps. "exact": all of it. "by_class": correlations within
        each class, and none between classes. "kronecker": the Kronecker product of a matrix of classes and one of
        features that is nearest to the curvature. "auto" is "exact" up to 2^24 numbers (128 MiB), else "by_class" up to
        2^25, else "kronecker"; see Notes for the numbers of each.
    classes : array-like, optional
        All labels, those not seen yet included: each gets a column.
    n_draws : int, default=100
        Draws that a prediction averages over.
    random_state : int, RandomState, Generator or None, default=None
        Seeds the draws of predictions and, for "mean_field", the points at which the loss is evaluated. It does not
        seed the net.

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

    See Also
    --------
    MCDropoutClassifier : A net whose draws are dropout masks.
    sample_posterior : Draws from this or any other model.

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

    Precomputed features need no net:

    >>> LastLayerClassifier(random_state=0).fit(X[::3], y[::3]).predict_proba(X).shape
    (150, 3)
    """

    rules: ClassVar[Rules] = {
        "net": Rule(
            has_features,
            "a skorch net, a fitted torch module, an MLPClassifier, an estimator with a method `embed(X)`, or a "
            "Pipeline that ends in one of these",
        ).or_none(),
        "method": one_of(METHODS),
        "prior_precision": number(0, ends="()").or_word("scale"),
        "covariance": one_of(COVARIANCES),
        "n_draws": integer(),
    }

    def __init__(
        self,
        net: Any = None,
        *,
        method: Method = "laplace",
        prior_precision: float | Literal["scale"] = "scale",
        covariance: Covariance = "auto",
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
            If a parameter is out of its range, the features are not finite numbers in columns, y is missing or empty,
            or y holds one class and ``classes`` declares no other.
        TypeError
            If ``net`` gives no features.
        """
        check_parameters(self.rules, self.get_params(deep=False))
        rows, labels = self._check_data(X, y)
        rng = check_random_state(self.random_state)
        net, classes = self._fitted_net(rows, labels)
        if len(classes) < 2:
            raise one_class_error(classes)
        features = rows if net is None else features_of(net)(rows)
        features_nF, codes_n = laplace.with_column(features.astype(np.float64), 1.0), np.searchsorted(classes, labels)
        check_consistent_length(features_nF, labels)
        precision_F = self._precisions(features_nF)
        posterior = self._posterior_of(features_nF, codes_n, len(classes), precision_F, rng)
        weights_FCK = posterior.draw(int(self.n_draws), rng)
        _check_width(self, posterior, weights_FCK, features_nF, codes_n)
        self.net_, self.classes_, self.prior_precision_ = net, classes, float(precision_F[0])
        self.covariance_ = posterior.covariance
        self.coef_, self.intercept_ = posterior.mean_CF[:, :-1], posterior.mean_CF[:, -1]
        self._posterior, self._weights_FCK = posterior, weights_FCK
        if hasattr(net, "n_features_in_"):
            self.n_features_in_ = net.n_features_in_
        return self

    def embed(self, X: ArrayLike) -> NDArray[Any]:
        """Represent rows by the features of the net; without a net, by themselves.

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
        return by_blocks(self.embed(X), self._weights_FCK, lambda p_KmC: p_KmC.mean(axis=0, keepdims=True))[0]

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
        return Through(self._embedder(), after=lambda features_mF: by_blocks(features_mF, weights_FCK))

    def _embedder(self) -> Callable[[Any], NDArray[Any]]:
        """Features of rows, by a function that stays the same if this head is fitted again."""
        check_is_fitted(self, "coef_")
        if self.net_ is not None:
            return features_of(self.net_)
        fitted = copy.copy(self)
        return lambda X: validate_data(fitted, X, reset=False, dtype="numeric")

    def _posterior_of(self, features_nF: Floats, codes_n: Any, n_classes: int, precision_F: Floats, rng: Any) -> Any:
        mode_CF = most_probable(features_nF, codes_n, n_classes, precision_F)
        if self.method == "mean_field":
            return MeanField(features_nF, codes_n, mode_CF, precision_F, rng)
        name = self.covariance if self.covariance != "auto" else laws.choose(features_nF.shape, n_classes)
        return Laplace(features_nF, mode_CF, precision_F, name)

    def _precisions(self, features_nF: Floats) -> Floats:
        if not isinstance(self.prior_precision, str):
            return np.full(features_nF.shape[1], float(self.prior_precision))
        squares_F = (features_nF**2).mean(axis=0)
        # One precision for all weights, from the mean squared norm of the features; the constant comes last.
        squares_F[:-1] = squares_F[:-1].sum() or 1.0
        return squares_F / _PRIOR_VARIANCE

    def _check_data(self, X: Any, y: Any) -> tuple[Any, NDArray[Any]]:
        """Rows and labels. Rows for a net may be of any kind, and are the net's to check."""
        if y is not None:  # which scikit-learn refuses in its own words
            y = plain_labels(y, "y")
            if len(one_axis(y, "y")) == 0:
                raise ValueError("`y` must hold the label of one row or more. Got none: label some rows first.")
        if self.net is None:
            X, y = validate_data(self, X, y, dtype="numeric")
        else:
            y = validate_data(self, y=y)
        check_classification_targets(y)
        return X, y

    def _fitted_net(self, X: Any, y: NDArray[Any]) -> tuple[Any, NDArray[Any]]:
        """The net, and all labels: those seen, those declared, and those of a net that is fitted here."""
        classes = check_classes(y, self.classes)
        if self.net is None or is_fitted(last_step(self.net)):
            return self.net, classes
        net = clone(self.net)
        if isinstance(last_step(net), NeuralNet):
            net.fit(X, np.searchsorted(classes, y))
            return net, classes
        if self.classes is not None and getattr(net, "classes", ()) is None:
            net.set_params(classes=self.classes)
        net.fit(X, y)
        return net, np.union1d(classes, getattr(net, "classes_", classes))


def _check_width(head: Any, posterior: Any, weights_FCK: Floats, features_nF: Floats, codes_n: Any) -> None:
    """Warn where draws misclassify training rows; looks at a block of rows, spread over all of them."""
    n_rows = min(_MAX_ROWS_TO_CHECK, rows_of_block(weights_FCK), len(codes_n))
    rows = np.linspace(0, len(codes_n) - 1, n_rows).astype(int)
    mode_nC = softmax(features_nF[rows] @ posterior.mean_CF.T, axis=1)
    if laplace.are_too_wide(probabilities(features_nF[rows, :-1], weights_FCK), mode_nC, codes_n[rows]):
        warn_wide_draws(head, 'a larger `prior_precision`, method="mean_field",')
