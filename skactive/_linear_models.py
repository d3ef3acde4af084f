"""Linear models: normal posteriors of their weights, and one of discriminant analysis.

Logistic regression gets a Laplace approximation around its fit, by the curvature at the learner's training data; sample
weights that the fit may have used are not known and count as 1. An L1 penalty has no curvature at its corners, and an
unpenalised fit to data that a hyperplane separates has no maximum to expand around: these have no posterior here, and
are left to the bootstrap. BayesianRidge and ARDRegression bring their posterior along. LinearDiscriminantAnalysis is
a conjugate model, its posterior exact.

SGDClassifier is left to the bootstrap. Its objective is that of a logistic regression with C = 1 / (alpha n_rows), but
where it stops is not the maximum: a step size away from it, after a number of epochs that early stopping, partial_fit
or averaging may have changed, on rows of which early stopping may have held some out. An expansion around that point
describes the curvature of the loss and not what the model does not know. LogisticRegression as a surrogate
(``posterior=``) does.

Letters: n training rows, p features, C classes, K draws.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import sklearn
from numpy.typing import NDArray
from scipy import sparse
from scipy.linalg import cholesky, solve_triangular
from scipy.special import log_expit
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.linear_model import ARDRegression, BayesianRidge, LogisticRegression, LogisticRegressionCV
from sklearn.utils import check_consistent_length
from sklearn.utils.class_weight import compute_sample_weight
from sklearn.utils.validation import check_is_fitted, validate_data

from . import _laplace as laplace
from . import _validation as validation
from ._dispatch import DEFAULT_DRAWS, PredictDraws, has_noise_variance, source

Floats = NDArray[np.float64]

_MAX_ELEMENTS = 2**28  # 2 GiB of float64


# Logistic regression


@source(
    LogisticRegression,
    LogisticRegressionCV,
    draws="weights from a Laplace approximation around the fit",
    kind="approximate",
    cost="factorising the Hessian, or the kernel of the labelled rows if these are fewer",
)
def _logistic_regression(
    estimator: Any, n_draws: int | None, rng: np.random.Generator, *, X_training: Any = None, y_training: Any = None
) -> PredictDraws:
    check_is_fitted(estimator)
    if _has_l1_penalty(estimator):
        raise validation.NoPosteriorError(estimator)
    n_draws = DEFAULT_DRAWS if n_draws is None else validation.check_n_draws(n_draws)
    X, codes_n, weight_n = _weighted_rows(estimator, X_training, y_training)
    if _is_multiclass_one_vs_rest(estimator):
        return _one_vs_rest(estimator, X, n_draws, rng)
    coef_Cp, intercept_C, prior = _parameters(estimator)
    weights = _draw_around(estimator, coef_Cp, intercept_C, prior, X, codes_n, weight_n, n_draws, rng)
    return lambda X: laplace.probabilities(laplace.linear(_check_rows(estimator, X), *weights))


def _one_vs_rest(estimator: Any, X: Any, n_draws: int, rng: np.random.Generator) -> PredictDraws:
    """A binary model for each class; their probabilities are normalised, as in ``predict_proba``."""
    if estimator.class_weight is not None:  # which means something else to each solver
        raise validation.NoPosteriorError(estimator)
    coef_Cp, intercept_C, prior_C = _parameters(estimator)
    ...
