"""Linear models: random weights around a fit, or from the posterior that the model comes with.

Logistic regression gets a Laplace approximation, by the curvature at the training data, each row as often as it weighs.
An L1 penalty has no such approximation, since its corners have no curvature, and without any
penalty there is no prior. BayesianRidge and ARDRegression keep their posterior.

SGDClassifier has no source: it stops several posterior standard deviations from the mode, and draws around its fit
would miss the posterior altogether.

Letters: n labelled rows, m rows to predict, p features, C classes (one, for a binary model), K draws.
"""

from __future__ import annotations

import inspect
from functools import partial
from typing import Any

import numpy as np
import sklearn
from numpy.typing import NDArray
from scipy import sparse
from scipy.linalg import LinAlgError, eigh
from sklearn.linear_model import ARDRegression, BayesianRidge, LogisticRegression, LogisticRegressionCV
from sklearn.utils import check_consistent_length
from sklearn.utils.class_weight import compute_class_weight, compute_sample_weight
from sklearn.utils.validation import check_is_fitted, validate_data

from .._utils.types import Floats, Indices
from .._utils.validation import (
    NoPosteriorError,
    NoTrainingDataError,
    check_known_labels,
    check_labels,
    check_n_draws,
    check_sample_weight,
    warn_wide_draws,
)
from . import _laplace as laplace
from ._covariance import Covariance, NormalLaw, Weights
from ._registry import DEFAULT_DRAWS, PredictDraws, noise_variance, source
from ._wrappers import LinearDraws

_BALANCED_BY_WEIGHT = "sample_weight" in inspect.signature(compute_class_weight).parameters
_SIGMA_IS_WHOLE = tuple(int(part) for part in sklearn.__version__.split(".")[:2]) >= (1, 7)


@source.register(LogisticRegression | LogisticRegressionCV)
def _logistic_regression(
    estimator: Any,
    n_draws: int | None,
    rng: np.random.Generator,
    *,
    X_training: Any = None,
    y_training: Any = None,
    sample_weight: Any = None,
) -> PredictDraws:
    check_is_fitted(estimator)
    _check_scheme(estimator)
    variance = _prior_variance(estimator)
    n_draws = DEFAULT_DRAWS if n_draws is None else check_n_draws(n_draws)
    X_labelled, codes, weight = _labelled_rows(estimator, X_training, y_training, sample_weight)
    _check_size(estimator, *X_labelled.shape)
    coef = (estimator.coef_.toarray() if sparse.issparse(estimator.coef_) else estimator.coef_).astype(np.float64)
    mode = coef, np.broadcast_to(np.asarray(estimator.intercept_, dtype=np.float64), len(coef))
    try:
        prior_p = np.full(X_labelled.shape[1], variance)
        law = laplace.posterior(X_labelled, mode, weight, prior_p, estimator.fit_intercept)
        draws = law.draw(n_draws, rng)
    except LinAlgError as error:
        raise NoPosteriorError(estimator, "all its probabilities are exactly 0 or 1") from error
    if laplace.are_too_wide(X_labelled, codes, mode, draws):
        warn_wide_draws(estimator, "a smaller `C`, features of one scale,")
    return LinearDraws(partial(_check_rows, estimator), after=lambda rows: laplace.predict_draws(rows, *draws), law=law)


def _prior_variance(estimator: Any) -> float:
    """That of the coefficients, under the prior whose logarithm is the penalty."""
    if _is_penalised_by_l1(estimator):
        raise NoPosteriorError(estimator, "corners of an L1 penalty have no curvature")
    found = estimator.C_ if hasattr(estimator, "C_") else estimator.C  # the former by cross-validation
    strength = float(np.ravel(found)[0])
    if getattr(estimator, "penalty", "l2") is None or np.isinf(strength):
        raise NoPosteriorError(estimator, "without a penalty its weights have no prior")
    return strength


def _is_penalised_by_l1(estimator: Any) -> bool:
    penalty = getattr(estimator, "penalty", "elasticnet")
    if penalty in ("l1", "l2", None):
        return bool(penalty == "l1")
    ratio = getattr(estimator, "l1_ratio_", None)  # "elasticnet", or what the default is since scikit-learn 1.8
    ratios = np.ravel(getattr(estimator, "l1_ratio", 0) if ratio is None else ratio)
    return any(ratio is not None and ratio > 0 for ratio in ratios)


def _check_scheme(estimator: Any) -> None:
    """Refuse what is neither a binary model nor a softmax of three classes or more, and penalised intercepts."""
    scheme, n_classes = getattr(estimator, "multi_class", "auto"), len(estimator.classes_)  # until scikit-learn 1.7
    if (n_classes > 2 and scheme == "ovr") or (n_classes == 2 and scheme == "multinomial"):
        raise NoPosteriorError(estimator, "it is neither a binary model nor a softmax of three classes or more")
    if estimator.solver == "liblinear":
        raise NoPosteriorError(estimator, 'the solver "liblinear" penalises the intercept')


def _labelled_rows(estimator: Any, X_training: Any, y_training: Any, sample_weight: Any) -> tuple[Any, Indices, Floats]:
    """Labelled rows that count: features, positions of the labels in ``classes_``, weights."""
    if X_training is None or y_training is None:
        raise NoTrainingDataError(estimator)
    X, y = _check_rows(estimator, X_training), check_labels(y_training)
    check_consistent_length(X, y)
    check_known_labels(y, estimator.classes_)
    weight = _weights(getattr(estimator, "class_weight", None), y, check_sample_weight(sample_weight, len(y)))
    codes, counts = np.searchsorted(estimator.classes_, y), weight > 0
    return X[counts], codes[counts], weight[counts]


def _weights(class_weight: Any, y: NDArray[Any], sample_weight: Floats | None) -> Floats:
    """Weight of each row: its own times that of its class, which "balanced" has by weight where the fit does."""
    if sample_weight is None:
        return compute_sample_weight(class_weight, y)
    if not (isinstance(class_weight, str) and _BALANCED_BY_WEIGHT):
        return sample_weight * compute_sample_weight(class_weight, y)
    classes, codes = np.unique(y, return_inverse=True)
    return sample_weight * compute_class_weight(class_weight, classes=classes, y=y, sample_weight=sample_weight)[codes]


def _check_rows(estimator: Any, X: Any, accept_sparse: Any = "csr") -> Any:
    return validate_data(estimator, X, accept_sparse=accept_sparse, dtype=np.float64, reset=False)


def _check_size(estimator: Any, n_rows: int, n_features: int) -> None:
    n_elements = laplace.matrix_elements((n_rows, 1), n_features)
    if n_elements > laplace.MAX_ELEMENTS:
        reason = f"the covariance of a class at {n_rows} training rows would take {n_elements / 2**27:.1f} GiB"
        raise NoPosteriorError(estimator, reason)


@source.register(BayesianRidge | ARDRegression)
def _bayesian_regression(estimator: Any, n_draws: int | None, rng: np.random.Generator) -> PredictDraws:
    check_is_fitted(estimator)
    n_draws = DEFAULT_DRAWS if n_draws is None else check_n_draws(n_draws)
    coef_p, offset_p = (np.asarray(a, dtype=np.float64) for a in (estimator.coef_, estimator.X_offset_))
    kept_p, root_rr = _root_of_covariance(estimator)
    root_pr = np.zeros((len(kept_p), len(root_rr)))
    root_pr[kept_p] = root_rr
    # The posterior is of functions of the centred features, and the fit holds the mean of y for known.
    mean = float(estimator.intercept_) + offset_p @ coef_p

    def draw(n_draws: int, rng: np.random.Generator) -> Weights:
        weights_pK = coef_p[:, np.newaxis] + root_pr @ rng.standard_normal((len(root_rr), n_draws))
        return weights_pK[:, np.newaxis], np.full((1, n_draws), mean)

    law = NormalLaw(
        draw, lambda: Covariance((root_pr @ root_pr.T)[np.newaxis]), noise_variance=noise_variance(estimator)
    )
    weights = law.draw(n_draws, rng)
    return LinearDraws(
        lambda X: _check_rows(estimator, X, accept_sparse=False) - offset_p,
        after=lambda rows: laplace.linear(rows, *weights)[:, 0].T,
        law=law,
    )


def _root_of_covariance(estimator: Any) -> tuple[NDArray[np.bool_], Floats]:
    """Which features have weights at all, and the symmetric root of their covariance.

    With another root draws would depend on the signs of eigenvectors, in which LAPACKs differ.
    """
    sigma = np.asarray(estimator.sigma_, dtype=np.float64)
    if isinstance(estimator, ARDRegression):
        kept_p = estimator.lambda_ < estimator.threshold_lambda
    else:
        kept_p = np.ones(len(sigma), dtype=bool)
    if not len(sigma):  # ARD may drop all features, and eigh takes no empty matrix
        return kept_p, sigma
    variances, directions = eigh(sigma)
    if isinstance(estimator, BayesianRidge) and not _SIGMA_IS_WHOLE:
        # Until scikit-learn 1.7 `sigma_` leaves out what the training data say nothing about: the prior's variance.
        variances[variances < len(sigma) * np.finfo(float).eps * variances[-1]] = 1 / estimator.lambda_
    return kept_p, (directions * np.sqrt(np.maximum(variances, 0))) @ directions.T


@noise_variance.register(BayesianRidge | ARDRegression)
def _noise_variance(estimator: Any) -> float:
    check_is_fitted(estimator)
    return float(1 / estimator.alpha_)
