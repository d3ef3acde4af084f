"""A Bayesian linear head on a frozen net, by the Laplace approximation of logistic regressions (`posterior._laplace`).

Letters: n rows, m rows to predict, U features, F features with a last one, 1, for the biases, C classes, K draws.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from functools import partial
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import Pipeline
from sklearn.utils import check_consistent_length
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data
from skorch import NeuralNet
from torch import nn

from ._utils.randomness import check_random_state
from ._utils.types import BaseEstimator, ClassifierMixin, Floats, Indices
from ._utils.validation import (
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
    plain_labels,
    warn_wide_draws,
)
from .posterior import _laplace as laplace
from .posterior._embeddings import embed_by
from .posterior._registry import DEFAULT_DRAWS
from .posterior._wrappers import Composed, LinearDraws

__all__ = ["LastLayerClassifier"]


_PRIOR_VARIANCE = 10  # of the sum of the features' terms of a logit, and of the bias
_MAX_JOINT = 2**24  # 128 MiB, some seconds: with more, there are classes enough to be drawn one by one


def _last_step(net: Any) -> Any:
    return _last_step(net.steps[-1][1]) if isinstance(net, Pipeline) else net


def _has_features(net: Any) -> bool:
    """Whether the net embeds rows itself, or the input of the layer that makes its outputs can be had."""
    last = _last_step(net.estimator if isinstance(net, FrozenEstimator) else net)
    has_method = hasattr(last, "embed") and not isinstance(last, type)
    return has_method or isinstance(last, NeuralNet | nn.Module | MLPClassifier)


@dataclass(eq=False, repr=False)
class LastLayerClassifier(ClassifierMixin, BaseEstimator):
    r"""Classify with a net whose last, linear layer alone is uncertain.

    :math:`p(y | x, W) = softmax(W h(x))_y`, with features :math:`h(x)` of a frozen net, a constant 1 among them, and
    independent normal priors of mean 0 for the weights W. A draw is one W from a Laplace approximation: a normal
    distribution at the most probable weights, with the inverse Hessian as its covariance.

    Parameters
    ----------
    net : estimator or torch.nn.Module, optional
        Source of the features (n_points, n_units). None: the rows of X are features. Otherwise an estimator with a
        method ``embed(X)``, such as `MCDropoutClassifier`; a skorch net, a fitted torch module or an
        ``MLPClassifier``, whose features are the input of its last linear layer; or a Pipeline that ends in one of
        these. A fitted net is used as it is (``clone`` keeps it as ``FrozenEstimator(net)``); any other is cloned and
        fitted to the same data at every ``fit``.
    prior_precision : float or "scale", default="scale"
        Inverse variance of a weight under the prior. "scale" is a tenth of the mean squared norm of the labelled rows'
        features, and a tenth for biases: a prior variance of the logits of 20, whatever the width of the net.
    classes : array-like, optional
        As in `MCDropoutClassifier`.
    n_draws : int, default=100
        Draws that a prediction averages over.
    random_state : int, RandomState, Generator or None, default=None
        Seeds the draws of predictions. It does not seed the net.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        Sorted labels.
    net_ : estimator, torch.nn.Module or None
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
    With many classes or features, classes are treated as uncorrelated: see the user guide on linear models.

    References
    ----------
    MacKay (1992), The Evidence Framework Applied to Classification Networks; Kristiadi, Hein and Hennig (2020), Being
    Bayesian, Even Just a Bit, Fixes Overconfidence in ReLU Networks, on why the last layer may be enough.

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

    rules: ClassVar[Rules] = {
        "net": Rule(
            _has_features,
            "a skorch net, a fitted torch module, an MLPClassifier, an estimator with a method `embed(X)`, or a "
            "Pipeline that ends in one of these",
        ).or_none(),
        "prior_precision": number(0, ends="()").or_word("scale"),
        "n_draws": integer(),
    }

    net: Any = None
    _: KW_ONLY
    prior_precision: float | Literal["scale"] = "scale"
    classes: ArrayLike | None = None
    n_draws: int = 100
    random_state: Any = None

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Fit the net, unless it is fitted, and the distribution of the last layer: see `MCDropoutClassifier.fit`."""
        check_parameters(self.rules, self.get_params(deep=False))
        twin = copy.copy(self)  # self changes only if all goes well
        rows, labels = twin._check_data(X, y)
        rng = check_random_state(self.random_state)
        net, classes = self._fitted_net(rows, labels)
        if len(classes) < 2:
            raise one_class_error(classes)
        features = rows if net is None else _features_of(net)(rows)
        check_consistent_length(features, labels)
        features_nF, codes_n = _with_constant(features), np.searchsorted(classes, labels)
        precision_F = self._precisions(features_nF)
        mean_CF = _most_probable(features_nF, codes_n, len(classes), precision_F)
        mode = mean_CF, np.zeros(len(classes))
        law = laplace.posterior(features_nF, mode, np.ones(len(codes_n)), 1 / precision_F, False, _MAX_JOINT)
        draws = law.draw(int(self.n_draws), rng)
        if laplace.are_too_wide(features_nF, codes_n, mode, draws):
            warn_wide_draws(self, "a larger `prior_precision`")
        self.__dict__ = vars(twin)
        self.net_, self.classes_, self.prior_precision_ = net, classes, float(precision_F[0])
        self.coef_, self.intercept_ = mean_CF[:, :-1], mean_CF[:, -1]
        self._law, self._weights_FCK = law, draws[0]
        if hasattr(net, "n_features_in_"):
            self.n_features_in_ = net.n_features_in_
        return self

    def embed(self, X: ArrayLike) -> NDArray[Any]:
        """Represent rows by the features (n_points, n_units) of the net; without a net, by themselves."""
        return self._embedder()(X)

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Predict the label of the largest mean probability: see `MCDropoutClassifier.predict`."""
        probabilities = self.predict_proba(X)
        return self.classes_[probabilities.argmax(axis=1)]

    def predict_proba(self, X: ArrayLike) -> Floats:
        """Average the probabilities of the model's own draws: see `MCDropoutClassifier.predict_proba`."""
        check_is_fitted(self, "coef_")
        features_mU = self.embed(X)
        mean_mC = np.empty((len(features_mU), len(self.classes_)))
        for block in laplace.blocks(len(features_mU), self._weights_FCK):
            mean_mC[block] = _probabilities(self._weights_FCK, features_mU[block]).mean(axis=0)
        return mean_mC

    def sample_posterior(self, n_draws: int | None, rng: Any) -> Callable[[Any], Floats]:
        """Draw functions, one matrix of last-layer weights each: see `sample_posterior`."""
        check_is_fitted(self, "coef_")
        n_draws = DEFAULT_DRAWS if n_draws is None else check_n_draws(n_draws)
        weights = self._law.draw(n_draws, check_random_state(rng))
        features = Composed(self._embedder(), after=_with_constant)
        return LinearDraws(features, after=lambda rows: laplace.predict_draws(rows, *weights), law=self._law)

    def _embedder(self) -> Callable[[Any], NDArray[Any]]:
        """Features of rows, by a function that stays the same if this head is fitted again."""
        check_is_fitted(self, "coef_")
        if self.net_ is not None:
            return _features_of(self.net_)
        return partial(validate_data, copy.copy(self), reset=False, dtype="numeric")

    def _precisions(self, features_nF: Floats) -> Floats:
        if not isinstance(self.prior_precision, str):
            return np.full(features_nF.shape[1], float(self.prior_precision))
        squares_F = (features_nF**2).mean(axis=0)
        # One precision for all weights, from the mean squared norm of the features.
        squares_F[:-1] = squares_F[:-1].sum() or 1.0
        return squares_F / _PRIOR_VARIANCE

    def _check_data(self, X: Any, y: Any) -> tuple[Any, NDArray[Any]]:
        """Rows and labels. Rows for a net may be of any kind, and are the net's to check."""
        if y is not None:  # which scikit-learn refuses in its own words
            y = plain_labels(y, "y")
            if len(one_axis(y, "y")) == 0:
                raise ValueError("`y` must hold at least one label. Got none: label some rows first.")
        if self.net is None:
            X, y = validate_data(self, X, y, dtype="numeric")
        else:
            y = validate_data(self, y=y)
        check_classification_targets(y)
        return X, y

    def _fitted_net(self, X: Any, y: NDArray[Any]) -> tuple[Any, NDArray[Any]]:
        """The net, and all labels: those seen, those declared, and those of a net that is fitted here."""
        classes = check_classes(y, self.classes)
        can_be_asked = hasattr(self.net, "predict") and not isinstance(self.net, Pipeline)
        if self.net is None or is_fitted(_last_step(self.net), (lambda: X[:1]) if can_be_asked else None):
            return self.net, classes
        net = clone(self.net)
        if isinstance(_last_step(net), NeuralNet):
            net.fit(X, np.searchsorted(classes, y))
            return net, classes
        if self.classes is not None and getattr(net, "classes", ()) is None:
            net.set_params(classes=self.classes)
        net.fit(X, y)
        return net, np.union1d(classes, getattr(net, "classes_", classes))


def _most_probable(features_nF: Floats, codes_n: Indices, n_classes: int, precision_F: Floats) -> Floats:
    """Weights (C, F) of a softmax regression with a normal prior."""
    rows_nF, is_wide = features_nF / np.sqrt(precision_F), features_nF.shape[1] > len(features_nF)
    # Weights are sums of rows: of fewer rows than features, it is enough to search in the space of the rows.
    axes_Fr, triangle_rn = np.linalg.qr(rows_nF.T) if is_wide else (None, rows_nF.T)
    # LogisticRegression knows the classes of its rows alone: one row of weight 0 for each declares them all.
    rows_nr = np.vstack([triangle_rn.T, np.zeros((n_classes, len(triangle_rn)))])
    weight_n = np.append(np.ones(len(codes_n)), np.zeros(n_classes))
    # Two classes get one logit w x: weights -w / 2 and w / 2, whose prior is that of a w of twice the variance.
    is_binary = n_classes == 2
    # At most n tol from the mode, in standard deviations of the prior: far below those of the posterior.
    search = LogisticRegression(C=2.0 if is_binary else 1.0, fit_intercept=False, tol=1e-7, max_iter=5000)
    found_Cr = search.fit(rows_nr, np.append(codes_n, np.arange(n_classes)), weight_n).coef_
    found_CF = found_Cr if axes_Fr is None else found_Cr @ axes_Fr.T
    return (np.vstack([-found_CF, found_CF]) / 2 if is_binary else found_CF) / np.sqrt(precision_F)


def _features_of(net: Any) -> Callable[[Any], NDArray[Any]]:
    return Composed(embed_by(net), after=_check_features)


def _check_features(features: Any) -> NDArray[Any]:
    features = np.asarray(features)
    is_finite = bool(np.isfinite(features).all())
    if features.ndim != 2 or features.shape[1] == 0 or not is_finite:
        raise ValueError(
            "`net` must embed rows as finite features of shape (n_points, n_units), by a method `embed(X)` or a linear "
            f"layer that makes its outputs. Got {'' if is_finite else 'infinite or NaN in '}shape {features.shape}."
        )
    return features


def _with_constant(features_mU: NDArray[Any]) -> Floats:
    return laplace.with_column(features_mU.astype(np.float64), 1.0)


def _probabilities(weights_FCK: Floats, features_mU: NDArray[Any]) -> Floats:
    return laplace.predict_draws(features_mU, weights_FCK[:-1], weights_FCK[-1])
