"""Linear models: random weights around a fit, or from the posterior that the model comes with.

Logistic regression gets a Laplace approximation, by the curvature at the training data, each row as often as it weighs.
An L1 penalty has no such approximation, since its corners have no curvature, and without any
penalty there is no prior. BayesianRidge and ARDRegression keep their posterior.
LinearDiscriminantAnalysis (solver "svd") is a conjugate model with an exact posterior.

SGDClassifier has no source here. With "log_loss" and L2 its objective is that of a logistic regression with
C = 1 / (alpha n_rows), but it stops where its steps have become small, on rows of which early stopping may have held
some out: with the default alpha that is several posterior standard deviations from the mode, and draws around it would
miss the posterior altogether. LogisticRegression as the ``posterior`` of a query does not.

Letters: n labelled rows, m rows to predict, p features, C classes (one, for a binary model), K draws.
"""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from typing import Any

import numpy as np
import sklearn
from numpy.typing import NDArray
from scipy import sparse
from scipy.linalg import LinAlgError, eigh, qr, solve_triangular
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.linear_model import ARDRegression, BayesianRidge, LogisticRegression, LogisticRegressionCV
from sklearn.utils import check_consistent_length
from sklearn.utils.class_weight import compute_class_weight, compute_sample_weight
from sklearn.utils.validation import check_is_fitted, validate_data

from .._checks import (
    NoPosteriorError,
    NoTrainingDataError,
    check_known_labels,
    check_labels,
    check_n_draws,
    check_sample_weight,
    warn_wide_draws,
)
from . import _laplace as laplace
from ._registry import DEFAULT_DRAWS, PredictDraws, noise_variance, source

Floats = NDArray[np.float64]

_BALANCED_BY_WEIGHT = "sample_weight" in inspect.signature(compute_class_weight).parameters
_SIGMA_IS_WHOLE = tuple(int(part) for part in sklearn.__version__.split(".")[:2]) >= (1, 7)


# Logistic regression


@dataclass(frozen=True)
class _Rows:
    """Labelled rows that count: features, positions of the labels in ``classes_``, weights."""

    X: Any
    codes: NDArray[np.int64]
    weight: Floats


@source(
    LogisticRegression,
    LogisticRegressionCV,
    draws="weights from a Laplace approximation around the fit",
    kind="approximate",
    cost="factorising the Hessian or, if smaller, the kernel of the labelled rows; of many classes, one by one",
)
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
    rows = _labelled_rows(estimator, X_training, y_training, sample_weight)
    _check_size(estimator, *rows.X.shape)
    coef = estimator.coef_.toarray() if sparse.issparse(estimator.coef_) else estimator.coef_
    coef = np.asarray(coef, dtype=np.float64)
    mode = coef, np.broadcast_to(np.asarray(estimator.intercept_, dtype=np.float64), len(coef))
    try:
        draws = _draw_weights(estimator, rows, mode, variance, n_draws, rng)
    except LinAlgError as error:
        raise NoPosteriorError(estimator, "all its probabilities are 0 or 1, to the last digit") from error
    if laplace.are_too_wide(rows.X, rows.codes, mode, draws):
        warn_wide_draws(estimator, "a smaller `C`, features of one scale,")
    return lambda X: laplace.predict_draws(_check_rows(estimator, X), *draws)


def _prior_variance(estimator: Any) -> float:
    """That of the coefficients, under the prior whose logarithm is the penalty."""
    if _is_penalised_by_l1(estimator):
        raise NoPosteriorError(estimator, "corners of an L1 penalty have no curvature")
    strength = float(
        np.ravel(estimator.C_ if hasattr(estimator, "C_") else estimator.C)[0]
    )  # the former by cross-validation
    if getattr(estimator, "penalty", "l2") is None or np.isinf(strength):
        raise NoPosteriorError(estimator, "without a penalty its weights have no prior")
    return strength


def _draw_weights(
    estimator: Any, rows: _Rows, mode: laplace.Weights, variance: float, n_draws: int, rng: np.random.Generator
) -> laplace.Weights:
    X, (coef, intercept) = rows.X, mode
    prior_p = np.full(X.shape[1], variance)
    if not (estimator.fit_intercept and estimator.solver == "liblinear"):
        return laplace.posterior(X, mode, rows.weight, prior_p, estimator.fit_intercept)(n_draws, rng)
    # liblinear penalises the intercept like a coefficient, of a feature with the value `intercept_scaling`
    scale = estimator.intercept_scaling
    mode = np.column_stack([coef, intercept / scale]), np.zeros(len(coef))
    X, prior_p = laplace.with_column(X, scale), np.append(prior_p, variance)
    coef_pCK, _ = laplace.posterior(X, mode, rows.weight, prior_p, False)(n_draws, rng)
    return coef_pCK[:-1], scale * coef_pCK[-1]


def _is_penalised_by_l1(estimator: Any) -> bool:
    penalty = getattr(estimator, "penalty", "elasticnet")
    if penalty in ("l1", "l2", None):
        return bool(penalty == "l1")
    ratio = getattr(estimator, "l1_ratio_", None)  # "elasticnet", or what the default is since scikit-learn 1.8
    ratios = np.ravel(getattr(estimator, "l1_ratio", 0) if ratio is None else ratio)
    return any(ratio is not None and ratio > 0 for ratio in ratios)


def _check_scheme(estimator: Any) -> None:
    """Before scikit-learn 1.8 a model may be one-vs-rest, or a softmax of two classes."""
    scheme, n_classes = getattr(estimator, "multi_class", "auto"), len(estimator.classes_)
    is_one_vs_rest = n_classes > 2 and (scheme == "ovr" or estimator.solver == "liblinear")
    if is_one_vs_rest or (n_classes == 2 and scheme == "multinomial"):
        raise NoPosteriorError(estimator, "it is neither a binary model nor a softmax of three classes or more")


def _labelled_rows(estimator: Any, X_training: Any, y_training: Any, sample_weight: Any = None) -> _Rows:
    if X_training is None or y_training is None:
        raise NoTrainingDataError(estimator)
    X, y = _check_rows(estimator, X_training), check_labels(y_training)
    check_consistent_length(X, y)
    check_known_labels(y, estimator.classes_)
    weight = _weights(getattr(estimator, "class_weight", None), y, check_sample_weight(sample_weight, len(y)))
    return _Rows(X[weight > 0], np.searchsorted(estimator.classes_, y)[weight > 0], weight[weight > 0])


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


# Regression


@source(
    BayesianRidge,
    ARDRegression,
    draws="weights from the posterior, given the precisions that the fit estimated",
    kind="exact",
    cost="an eigendecomposition of the covariance",
)
def _bayesian_regression(estimator: Any, n_draws: int | None, rng: np.random.Generator) -> PredictDraws:
    check_is_fitted(estimator)
    n_draws = DEFAULT_DRAWS if n_draws is None else check_n_draws(n_draws)
    kept_p, root_pp = _root_of_covariance(estimator)
    deviation_pK = np.zeros((len(kept_p), n_draws))
    deviation_pK[kept_p] = root_pp @ rng.standard_normal((len(root_pp), n_draws))
    coef_p, offset_p = (np.asarray(a, dtype=np.float64) for a in (estimator.coef_, estimator.X_offset_))
    intercept = float(estimator.intercept_)

    def predict_draws(X: Any) -> Floats:
        X = _check_rows(estimator, X, accept_sparse=False)
        # The posterior is of functions of the centred features, and the fit holds the mean of y for known.
        return (X @ coef_p + intercept) + ((X - offset_p) @ deviation_pK).T

    return predict_draws


def _root_of_covariance(estimator: Any) -> tuple[NDArray[np.bool_], Floats]:
    """Which features have weights at all, and the symmetric root of their covariance.

    Only one root is symmetric. With others, eigenvectors times roots of eigenvalues for example, draws would depend on
    the signs of eigenvectors and on the order of equal eigenvalues, in which LAPACKs differ.
    """
    sigma = np.asarray(estimator.sigma_, dtype=np.float64)
    if isinstance(estimator, ARDRegression):
        kept_p = estimator.lambda_ < estimator.threshold_lambda
    else:
        kept_p = np.ones(len(sigma), dtype=bool)
    if not len(sigma):
        return kept_p, sigma
    variances, directions = eigh(sigma)
    if isinstance(estimator, BayesianRidge) and not _SIGMA_IS_WHOLE:
        # Until scikit-learn 1.7 `sigma_` leaves out what the training data say nothing about: the prior's variance.
        variances[variances < len(sigma) * np.finfo(float).eps * variances[-1]] = 1 / estimator.lambda_
    return kept_p, (directions * np.sqrt(np.maximum(variances, 0))) @ directions.T


@noise_variance.register(BayesianRidge)
@noise_variance.register(ARDRegression)
def _noise_variance(estimator: Any) -> float:
    check_is_fitted(estimator)
    return float(1 / estimator.alpha_)


# Discriminant analysis


@source(
    LinearDiscriminantAnalysis,
    draws="means, covariance and class frequencies from the posterior of normal classes",
    kind="exact",
    cost="a triangular solve a draw",
)
def _discriminant_analysis(
    estimator: Any, n_draws: int | None, rng: np.random.Generator, *, X_training: Any = None, y_training: Any = None
) -> PredictDraws:
    """Draw from the posterior under Jeffreys' prior |Σ|^-(p+1)/2 (Geisser 1964): inverse Wishart and normal.

    Frequencies of classes that the estimator was not given are Dirichlet with the counts.
    """
    check_is_fitted(estimator)
    if estimator.solver != "svd":  # others regularise the covariance, or weight it by priors: no posterior mode
        raise NoPosteriorError(estimator)
    n_draws = DEFAULT_DRAWS if n_draws is None else check_n_draws(n_draws)
    rows = _labelled_rows(estimator, X_training, y_training)
    counts_C = np.bincount(rows.codes, minlength=len(estimator.classes_))
    factor_pp = _root_of_scatter(estimator, rows, counts_C)
    priors_C = None if estimator.priors is None else estimator.priors_
    parts = [_draw_discriminants(estimator.means_, factor_pp, counts_C, priors_C, rng) for _ in range(n_draws)]
    coef_pCK, intercept_CK = (np.stack(part, axis=-1) for part in zip(*parts, strict=True))
    return lambda X: laplace.predict_draws(_check_rows(estimator, X), coef_pCK, intercept_CK)


def _root_of_scatter(estimator: Any, rows: _Rows, counts_C: NDArray[np.int64]) -> Floats:
    """Upper triangular R with R' R = Σ_i (x_i - mean of its class) (x_i - mean of its class)'.

    Its diagonal is made positive: a QR decomposition leaves the signs of rows open, and draws would depend on them.
    """
    (n, n_features), n_classes = rows.X.shape, len(counts_C)
    if counts_C.min() == 0 or n < n_features + n_classes:
        reason = (
            f"a covariance of {n_features} features needs {n_features + n_classes} training rows, some of each class"
        )
        raise NoPosteriorError(estimator, f"{reason}, and there are {n}")
    centred = rows.X - estimator.means_[rows.codes]
    std_p = centred.std(axis=0)
    scaled = centred / np.where(std_p > 0, std_p, 1.0)
    if not np.linalg.svd(scaled / np.sqrt(n), compute_uv=False)[-1] > estimator.tol:  # by which the fit decides as well
        raise NoPosteriorError(estimator, "its features are collinear within the classes")
    factor_pp = qr(scaled, mode="economic")[1]
    return np.copysign(1.0, factor_pp.diagonal())[:, np.newaxis] * factor_pp * std_p


def _draw_discriminants(
    means_Cp: Floats,
    factor_pp: Floats,
    counts_C: NDArray[np.int64],
    priors_C: Floats | None,
    rng: np.random.Generator,
) -> tuple[Floats, Floats]:
    """Coefficients (p, C) and intercepts (C,) for one draw of all parameters.

    With a Wishart matrix A A' by Bartlett's decomposition, the precision is R⁻¹ A A' R⁻', and a mean's standardised
    distance from the origin is v = A' R⁻' mean + normal noise / √count, so that logits are x' R⁻¹ A v - |v|² / 2.
    """
    n_classes, n_features = means_Cp.shape
    A_pp = np.tril(rng.standard_normal((n_features, n_features)), -1)
    A_pp[np.diag_indices(n_features)] = np.sqrt(rng.chisquare(counts_C.sum() - n_classes - np.arange(n_features)))
    origin_p = means_Cp.mean(axis=0)
    v_pC = A_pp.T @ solve_triangular(factor_pp, (means_Cp - origin_p).T, trans="T")
    v_pC += rng.standard_normal(v_pC.shape) / np.sqrt(counts_C)
    coef_pC = solve_triangular(factor_pp, A_pp @ v_pC)
    priors_C = rng.dirichlet(counts_C) if priors_C is None else priors_C
    return coef_pC, np.log(priors_C) - (v_pC**2).sum(axis=0) / 2 - origin_p @ coef_pC
