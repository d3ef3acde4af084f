"""Linear models: draws have the law that they say they have, in both of the ways in which they are taken."""

import tracemalloc
import warnings

import numpy as np
import pytest
import sklearn
from reference import UnitNoise
from scipy import sparse
from scipy.optimize import approx_fprime
from scipy.special import expit, softmax
from sklearn.datasets import load_diabetes, load_iris
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import (
    ARDRegression,
    BayesianRidge,
    LogisticRegression,
    LogisticRegressionCV,
    SGDClassifier,
)
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skactive import StochasticBatchQuery, sample_posterior
from skactive._utils.validation import NoPosteriorError, NoTrainingDataError
from skactive.posterior import _laplace as laplace
from skactive.posterior import check_posterior, noise_variance
from skactive.scores import bald, std_dev

# scikit-learn 1.6 gives scipy's minimiser an option that scipy 1.17 is about to drop.
pytestmark = pytest.mark.filterwarnings("ignore:scipy.optimize. The `disp` and `iprint` options:DeprecationWarning")

OLD = tuple(int(part) for part in sklearn.__version__.split(".")[:2]) < (1, 8)  # has `multi_class`
CENTRES = tuple(int(part) for part in sklearn.__version__.split(".")[:2]) >= (1, 9)  # return_std=True centres X


def rng(seed=0):
    return np.random.default_rng(seed)


X_iris, codes = load_iris(return_X_y=True)
# Noise, so that no classes are separated; labels whose sorted order is not the order of the codes.
X = StandardScaler().fit_transform(X_iris + rng().normal(0, 0.7, X_iris.shape))
y = np.array(["virginica", "setosa", "versicolor"])[codes]
y_binary = np.where(codes == 1, "yes", "no")


def fit(estimator, X, y):
    """Options that newer versions are about to drop are tested all the same."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        return estimator.fit(X, y)


def draw(estimator, n_draws, X_training, y_training, seed=0):
    return sample_posterior(estimator, n_draws, rng(seed), X_training=X_training, y_training=y_training)


# The law of weights


def covariance_of_logits(way, X, D_nC, prior_p, intercept, X_new):
    """Of the logits at the new rows, without what is common to all classes, exactly."""
    (n, n_classes), n_features = D_nC.shape, X.shape[1]
    size = n_classes * (n_features + (n if way is laplace._dual_law else intercept))
    coef, b = way(X, D_nC, prior_p, intercept)(size, UnitNoise(size))
    logits = laplace.linear(X_new, coef, b)
    logits = logits - logits.mean(axis=1, keepdims=True) if n_classes > 1 else logits
    logits = logits.reshape(-1, size)
    return logits @ logits.T


def reference_covariance_of_logits(X, D_nC, prior_p, intercept, X_new):
    """By the pseudo-inverse of the Hessian, a loop over the rows."""
    n_classes = D_nC.shape[1]
    X1, new = (laplace.with_column(a, 1.0) if intercept else a for a in (X, X_new))
    precision = np.diag(np.tile(np.append(1 / prior_p, [0] * intercept), n_classes))
    for x, d in zip(X1, D_nC, strict=True):
        S = np.diag(d) - np.outer(d, d) / d.sum() if n_classes > 1 else d[:, np.newaxis]
        precision += np.kron(S, np.outer(x, x))
    features = np.kron(np.eye(n_classes), new)
    if n_classes > 1:
        features = np.kron(np.eye(n_classes) - 1 / n_classes, new)
    covariance = features @ np.linalg.pinv(precision, hermitian=True) @ features.T
    order = np.arange(len(features)).reshape(n_classes, -1).T.ravel()  # by row, then by class
    return covariance[np.ix_(order, order)]


@pytest.mark.parametrize("way", [laplace._primal_law, laplace._dual_law])
@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("n_classes", [1, 2, 4])
@pytest.mark.parametrize(("n", "n_features"), [(30, 5), (10, 40)])
def test_both_ways_have_the_inverse_hessian_as_covariance(way, intercept, n_classes, n, n_features):
    noise = rng(1)
    X, X_new = noise.standard_normal((n, n_features)), noise.standard_normal((3, n_features))
    D_nC = laplace.curvature(2 * noise.standard_normal((n, n_classes)), noise.uniform(0.5, 2, n))
    prior_p = noise.uniform(0.5, 20, n_features)
    expected = reference_covariance_of_logits(X, D_nC, prior_p, intercept, X_new)
    covariance = covariance_of_logits(way, X, D_nC, prior_p, intercept, X_new)
    np.testing.assert_allclose(covariance, expected, rtol=0, atol=1e-10 * np.abs(expected).max())
    sparse_covariance = covariance_of_logits(way, sparse.csr_array(X), D_nC, prior_p, intercept, X_new)
    np.testing.assert_allclose(sparse_covariance, covariance, rtol=0, atol=1e-10 * np.abs(expected).max())


@pytest.mark.parametrize("way", [laplace._primal_law, laplace._dual_law])
def test_a_binary_model_is_a_softmax_over_two_classes_of_half_the_prior_variance(way):
    noise = rng(2)
    X, X_new, prior_p = noise.standard_normal((20, 6)), noise.standard_normal((3, 6)), noise.uniform(1, 9, 6)
    logit_n1, weight_n = 2 * noise.standard_normal((20, 1)), noise.uniform(0.5, 2, 20)
    one = covariance_of_logits(way, X, laplace.curvature(logit_n1, weight_n), prior_p, True, X_new)
    two_logits = np.hstack([0 * logit_n1, logit_n1])
    two = covariance_of_logits(way, X, laplace.curvature(two_logits, weight_n), prior_p / 2, True, X_new)
    # with the common part gone, the second class has half the difference between the two
    np.testing.assert_allclose(4 * two[1::2, 1::2], one, rtol=1e-9)


by_class = laplace._law_by_class


@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize(("n", "n_features"), [(30, 5), (10, 40)])
def test_class_by_class_each_is_a_binary_model(intercept, n, n_features):
    noise, n_classes = rng(1), 4
    X, X_new = noise.standard_normal((n, n_features)), noise.standard_normal((3, n_features))
    logits, weight_n = 2 * noise.standard_normal((n, n_classes)), noise.uniform(0.5, 2, n)
    prior_p = noise.uniform(0.5, 20, n_features)
    D_nC = laplace.curvature(logits, weight_n)
    size = n_classes * (n_features + n)
    coef, b = by_class(X, D_nC, prior_p, intercept)(size, UnitNoise(size))
    draws_CmK = laplace.linear(X_new, coef, b).transpose(1, 0, 2)
    p_nC = softmax(logits, axis=1)
    own_nC = weight_n[:, np.newaxis] * p_nC * (1 - p_nC) * 4 / 3
    for c, d in np.ndindex(n_classes, n_classes):
        expected = reference_covariance_of_logits(X, own_nC[:, [c]], prior_p, intercept, X_new) * (c == d)
        np.testing.assert_allclose(draws_CmK[c] @ draws_CmK[d].T, expected, rtol=0, atol=1e-9)


@pytest.mark.arithmetic
@pytest.mark.parametrize(
    "logits", [rng(2).standard_normal((15, 2)), np.zeros((15, 5))], ids=["two classes", "all classes alike"]
)
def test_class_by_class_is_exact_in_what_probabilities_see(logits):
    X, X_new, D_nC = (
        rng(3).standard_normal((15, 4)),
        rng(4).standard_normal((3, 4)),
        laplace.curvature(logits, np.ones(15)),
    )
    found, expected = (
        covariance_of_logits(way, X, D_nC, np.ones(4), False, X_new) for way in (by_class, laplace._dual_law)
    )
    np.testing.assert_allclose(found, expected, atol=1e-10)


def test_laws_of_classes_that_are_not_kept_are_made_again(monkeypatch):
    X, D_nC = rng(3).standard_normal((15, 4)), laplace.curvature(rng(4).standard_normal((15, 5)), np.ones(15))
    kept = by_class(X, D_nC, np.ones(4), True)
    monkeypatch.setattr(laplace, "MAX_ELEMENTS", 16)
    again = by_class(X, D_nC, np.ones(4), True)
    for _ in range(2):
        for one, other in zip(kept(7, rng()), again(7, rng()), strict=True):
            np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("n_classes", [1, 3])
def test_the_hessian_is_the_second_derivative_of_the_loss(n_classes):
    noise = rng(3)
    X, weight_n = noise.standard_normal((15, 3)), noise.uniform(0.5, 2, 15)
    labels, w = noise.integers(max(n_classes, 2), size=15), noise.standard_normal(n_classes * 3)

    def gradient(w):
        logits = X @ w.reshape(n_classes, 3).T
        if n_classes == 1:
            return X.T @ (weight_n * (expit(logits[:, 0]) - labels))
        return ((weight_n[:, np.newaxis] * (softmax(logits, axis=1) - np.eye(3)[labels])).T @ X).ravel()

    D_nC = laplace.curvature(X @ w.reshape(n_classes, 3).T, weight_n)
    # central differences of step 1e-5 are off by about 1e-10 (rounding and the third derivative)
    numeric = (approx_fprime(w, gradient, 1e-5) - approx_fprime(w, gradient, -1e-5) * -1) / 2
    np.testing.assert_allclose(laplace.hessian(X, D_nC), numeric, atol=1e-8)
    np.testing.assert_allclose(laplace.hessian(sparse.csr_array(X), D_nC), laplace.hessian(X, D_nC), atol=1e-12)


@pytest.mark.parametrize("n_classes", [1, 3])
def test_saturated_probabilities_keep_their_curvature(n_classes):
    X, logits = np.ones((1, 1)), np.full((1, n_classes), -60.0)
    logits[0, 0] = 60.0 if n_classes == 1 else 0.0
    D_nC = laplace.curvature(logits, np.ones(1))
    curvature = laplace.hessian(X, D_nC)[0, 0]
    np.testing.assert_allclose(curvature, (n_classes - 1 or 1) * np.exp(-60.0), rtol=1e-12)


def test_variances_keep_their_digits_where_a_class_is_nearly_certain():
    D_nC = laplace.curvature(np.array([[40.0, 0.0, 0.0], [0.0, 0.0, 90.0]]), np.ones(2))
    np.testing.assert_allclose(laplace._variances(D_nC)[0, 0], 2 * np.exp(-40), rtol=1e-12)
    np.testing.assert_allclose(laplace._variances(D_nC)[1], [np.exp(-90), np.exp(-90), 2 * np.exp(-90)], rtol=1e-12)


# Logistic regression against quadrature and a grid


def laplace_posterior(estimator, X, n_classes, weight=1.0):
    """Mean and covariance of all weights, the intercepts last in each class; class by class."""
    X1 = np.column_stack([X, np.ones(len(X))]) if estimator.fit_intercept else X
    coef = np.column_stack([estimator.coef_, estimator.intercept_]) if estimator.fit_intercept else estimator.coef_
    p = expit(X1 @ coef.T) if n_classes == 2 else softmax(X1 @ coef.T, axis=1)
    precision = np.zeros((coef.size, coef.size))
    for x, q in zip(X1, p, strict=True):
        S = np.diag(q) - np.outer(q, q) if n_classes > 2 else np.diag(q * (1 - q))
        precision += weight * np.kron(S, np.outer(x, x))
    penalty = np.append(np.full(X.shape[1], 1 / estimator.C), [0.0] * bool(estimator.fit_intercept))
    return coef.ravel(), np.linalg.pinv(precision + np.diag(np.tile(penalty, len(coef))), hermitian=True)


def assert_mean(draws, expected):
    """Within 5 standard errors of the mean of independent draws; tiny probabilities, whose tails are heavy, to 1e-6."""
    error = 5 * draws.std(axis=0) / np.sqrt(len(draws))
    assert (np.abs(draws.mean(axis=0) - expected) <= error + 1e-6).all()


@pytest.mark.parametrize("fit_intercept", [False, True])
@pytest.mark.parametrize("n_features", [1, 4])
def test_binary_draws_average_to_the_quadrature_under_the_laplace_posterior(fit_intercept, n_features):
    estimator = LogisticRegression(C=0.7, fit_intercept=fit_intercept).fit(X[:, :n_features], y_binary)
    draws = draw(estimator, 4000, X[:, :n_features], y_binary)(3 * X[:20, :n_features])
    weights, covariance = laplace_posterior(estimator, X[:, :n_features], 2)
    new = np.column_stack([3 * X[:20, :n_features], np.ones(20)])[:, : len(weights)]
    nodes, masses = np.polynomial.hermite_e.hermegauss(60)
    logits = new @ weights + np.sqrt(np.einsum("ij,jk,ik->i", new, covariance, new)) * nodes[:, np.newaxis]
    yes = masses @ expit(logits) / masses.sum()
    assert estimator.classes_.tolist() == ["no", "yes"]
    assert_mean(draws, np.stack([1 - yes, yes], axis=1))
    if n_features == 4:  # the most probable weights are surer than their distribution, and rightly so
        assert np.abs(yes - estimator.predict_proba(3 * X[:20])[:, 1]).max() > 0.01


def test_multinomial_draws_average_to_the_quadrature_under_the_laplace_posterior():
    estimator = LogisticRegression(C=0.5).fit(X[:, :2], y)
    X_new = 2 * X[::15, :2]
    draws = draw(estimator, 4000, X[:, :2], y)(X_new)
    weights, covariance = laplace_posterior(estimator, X[:, :2], 3)
    nodes, masses = np.polynomial.hermite_e.hermegauss(40)
    grid = np.stack(np.meshgrid(nodes, nodes), axis=-1).reshape(-1, 2)
    masses = np.outer(masses, masses).ravel() / masses.sum() ** 2
    expected = []
    for x in np.column_stack([X_new, np.ones(len(X_new))]):
        features = np.kron([[1, 0, -1], [0, 1, -1]], x)  # logits of two classes, relative to the third
        root = np.linalg.cholesky(features @ covariance @ features.T)
        logits = np.column_stack([features @ weights + grid @ root.T, np.zeros(len(grid))])
        expected.append(masses @ softmax(logits, axis=1))
    assert_mean(draws, np.array(expected))


def test_with_many_rows_the_laplace_posterior_is_the_posterior_on_a_grid():
    noise = rng(5)
    x = noise.standard_normal((400, 1))
    labels = (noise.random(400) < expit(1.5 * x[:, 0] - 0.5)).astype(int)
    estimator = LogisticRegression(C=1.0, tol=1e-8).fit(x, labels)
    slope, intercept = np.meshgrid(np.linspace(0.3, 3, 200), np.linspace(-1.5, 0.8, 200))
    logits = slope[..., np.newaxis] * x[:, 0] + intercept[..., np.newaxis]
    log_posterior = (labels * logits - np.logaddexp(0, logits)).sum(axis=-1) - slope**2 / 2
    mass = np.exp(log_posterior - log_posterior.max())
    x_new = np.array([[-4.0], [-1.0], [0.3], [1.0], [4.0]])
    p = expit(slope[..., np.newaxis] * x_new[:, 0] + intercept[..., np.newaxis])
    mean = np.average(p, weights=mass, axis=(0, 1))
    deviation = np.sqrt(np.average((p - mean) ** 2, weights=mass, axis=(0, 1)))
    draws = draw(estimator, 4000, x, labels)(x_new)[:, :, 1]
    # The posterior is 0.1 wide in probability and skewed: its mean is off by O(1/n) = 0.0025 times a constant.
    np.testing.assert_allclose(draws.mean(axis=0), mean, atol=0.01)
    np.testing.assert_allclose(draws.std(axis=0), deviation, rtol=0.15)


# Logistic regression: what the fit was told


def same_draws(one, other, atol=1e-6):
    """The same noise through posteriors that are equal up to the tolerance of the fits (1e-9 or so)."""
    np.testing.assert_allclose(one, other, rtol=0, atol=atol)


TIGHT = {"tol": 1e-10, "max_iter": 10_000}


def test_classes_weigh_as_copies_of_their_rows_do():
    weighted = LogisticRegression(class_weight={"virginica": 2, "setosa": 1, "versicolor": 3}, **TIGHT).fit(X, y)
    copies = np.repeat(np.arange(150), [{"virginica": 2, "setosa": 1, "versicolor": 3}[label] for label in y])
    plain = LogisticRegression(**TIGHT).fit(X[copies], y[copies])
    same_draws(draw(weighted, 50, X, y)(X), draw(plain, 50, X[copies], y[copies])(X))
    unbalanced = np.arange(20, 150)
    balanced = LogisticRegression(class_weight="balanced", **TIGHT).fit(X[unbalanced], y[unbalanced])
    weights = {"virginica": 130 / 90, "setosa": 130 / 150, "versicolor": 130 / 150}
    explicit = LogisticRegression(class_weight=weights, **TIGHT).fit(X[unbalanced], y[unbalanced])
    same_draws(*(draw(e, 50, X[unbalanced], y[unbalanced])(X) for e in (balanced, explicit)))


def test_rows_of_weight_zero_do_not_count():
    estimator = LogisticRegression(class_weight={"no": 1, "yes": 0}, fit_intercept=False).fit(X, y_binary)
    moved = np.where((y_binary == "yes")[:, np.newaxis], 7.0, X)
    np.testing.assert_array_equal(draw(estimator, 50, moved, y_binary)(X), draw(estimator, 50, X, y_binary)(X))


def test_the_chosen_strength_of_a_cross_validation_is_the_prior():
    chosen = fit(LogisticRegressionCV(Cs=[0.03, 3.0], cv=3, **TIGHT), X, y)
    plain = LogisticRegression(C=float(np.ravel(chosen.C_)[0]), **TIGHT).fit(X, y)
    same_draws(draw(chosen, 50, X, y)(X), draw(plain, 50, X, y)(X))
    if not OLD:
        chosen = fit(LogisticRegressionCV(Cs=[0.03, 3.0], cv=3, use_legacy_attributes=False, **TIGHT), X, y)
        same_draws(draw(chosen, 50, X, y)(X), draw(plain, 50, X, y)(X))


@pytest.mark.skipif(not OLD, reason="scikit-learn has neither since 1.8")
@pytest.mark.parametrize(
    ("options", "labels"),
    [({"multi_class": "ovr"}, y), ({"multi_class": "multinomial"}, y_binary)],
)
def test_other_schemes_than_a_softmax_are_left_to_the_bootstrap(options, labels):
    with pytest.raises(NoPosteriorError, match="neither a binary model nor a softmax"):
        draw(fit(LogisticRegression(**options), X, labels), 5, X, labels)


@pytest.mark.parametrize(
    "estimator",
    [
        LogisticRegression(penalty="l1", solver="saga", max_iter=2000),
        LogisticRegression(penalty="elasticnet", l1_ratio=0.5, solver="saga", max_iter=2000),
        LogisticRegressionCV(
            Cs=[1.0], cv=3, penalty="elasticnet", l1_ratios=[0.5], solver="saga", max_iter=2000, tol=1e-3
        ),
        *([] if OLD else [LogisticRegression(l1_ratio=1.0, solver="saga", max_iter=2000)]),
    ],
)
def test_corners_of_an_l1_penalty_have_no_curvature(estimator):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        estimator = fit(estimator, X, y)
    with pytest.raises(NoPosteriorError):
        draw(estimator, 5, X, y)


def test_an_elastic_net_without_l1_is_an_l2_penalty():
    options = {"solver": "saga", "tol": 1e-8, "max_iter": 10_000, "random_state": 0}
    elastic = fit(LogisticRegression(penalty="elasticnet", l1_ratio=0, **options), X, y)
    l2 = fit(LogisticRegression(penalty="l2", **options), X, y)
    same_draws(draw(elastic, 50, X, y)(X), draw(l2, 50, X, y)(X))


# Logistic regression: what has no posterior


@pytest.mark.parametrize("options", [{"C": np.inf}, {"penalty": None}])
def test_without_a_penalty_there_is_no_prior(options):
    estimator = fit(LogisticRegression(**options), X, y)
    with pytest.raises(NoPosteriorError, match="no prior"):
        draw(estimator, 5, X, y)


def test_a_fit_that_is_sure_to_the_last_digit_is_left_to_the_bootstrap():
    estimator = LogisticRegression().fit(X, y_binary)
    estimator.coef_ = estimator.coef_ * 1e6
    with pytest.raises(NoPosteriorError, match="0 or 1"):
        draw(estimator, 5, X, y_binary)


def test_many_classes_are_drawn_class_by_class():
    noise = rng(14)
    labels = np.arange(1400) % 150
    x = noise.standard_normal((150, 110))[labels] + noise.standard_normal((1400, 110))
    estimator = LogisticRegression(C=0.01, tol=1e-3, max_iter=1000).fit(x, labels)
    assert laplace.matrix_elements((1400, 150), 110) > laplace.MAX_ELEMENTS
    draws = draw(estimator, 200, x, labels)(x[:300])
    assert (draws.mean(axis=0).argmax(axis=1) == labels[:300]).mean() > 0.9
    assert 0.001 < draws.std(axis=0).max() < 0.5


def test_a_covariance_beyond_memory_is_left_to_the_bootstrap(monkeypatch):
    monkeypatch.setattr(laplace, "MAX_ELEMENTS", 15)
    with pytest.raises(NoPosteriorError, match="GiB"):
        draw(LogisticRegression().fit(X, y), 5, X, y)


def test_draws_that_do_not_know_the_training_labels_are_warned_of():
    noise = rng(8)
    x = 100 * noise.standard_normal((30, 60))
    labels = noise.integers(5, size=30)
    estimator = LogisticRegression(C=1000.0, max_iter=10_000).fit(x, labels)
    with pytest.warns(UserWarning, match="is too wide"):
        draw(estimator, 50, x, labels)
    draw(LogisticRegression(C=0.1).fit(x / 100, labels), 50, x / 100, labels)
    draw(
        LogisticRegression(fit_intercept=False).fit(X[:, :1], y_binary), 50, X[:, :1], y_binary
    )  # knows next to nothing


# Logistic regression: manners


def test_training_data_are_asked_for_by_name():
    estimator = LogisticRegression().fit(X, y)
    with pytest.raises(ValueError, match="`X_training` and `y_training` must be given") as caught:
        sample_posterior(estimator, 5, rng())
    assert isinstance(caught.value, NoTrainingDataError)
    with pytest.raises(ValueError, match="`X_training` and `y_training`"):
        sample_posterior(estimator, 5, rng(), X_training=X)
    with pytest.raises(NotFittedError):
        sample_posterior(LogisticRegression(), 5, rng(), X_training=X, y_training=y)


def test_training_data_of_another_fit_are_refused():
    estimator = LogisticRegression().fit(X[codes < 2], y[codes < 2])
    with pytest.raises(ValueError, match="`y_training` must hold labels that the estimator was fitted to"):
        draw(estimator, 5, X, y)
    with pytest.raises(ValueError, match="features"):
        draw(estimator, 5, X[:, :2], y)
    with pytest.raises(ValueError, match="inconsistent"):
        draw(estimator, 5, X, y[:9])
    with pytest.raises(ValueError, match="NaN"):
        draw(estimator, 5, X[codes < 2], y[codes < 2])(np.full((2, 4), np.nan))


@pytest.mark.arithmetic
@pytest.mark.parametrize("n", [150, 12])
@pytest.mark.parametrize("labels", [y, y_binary], ids=["three classes", "two classes"])
def test_draws_are_probabilities_the_same_at_every_call_and_in_every_chunk(n, labels):
    rows = np.arange(0, 150, 150 // n)
    wide = np.hstack([X, X[:, ::-1] ** 2, np.sin(3 * X), X**3, np.cos(X)])  # 20 columns: more than 12 rows
    estimator = LogisticRegression(max_iter=1000).fit(wide[rows], labels[rows])
    functions = draw(estimator, 30, wide[rows], labels[rows])
    draws = functions(wide)
    assert draws.shape == (30, 150, len(estimator.classes_))
    np.testing.assert_allclose(draws.sum(axis=-1), 1, atol=1e-12)
    np.testing.assert_array_equal(functions(wide), draws)
    parts = [functions(wide[i : i + 7]) for i in range(0, 150, 7)]
    np.testing.assert_allclose(np.concatenate(parts, axis=1), draws, atol=1e-12)
    np.testing.assert_array_equal(draw(estimator, 30, wide[rows], labels[rows])(wide), draws)
    assert np.abs(draw(estimator, 30, wide[rows], labels[rows], seed=1)(wide) - draws).max() > 0.01
    sparse_functions = draw(estimator, 30, sparse.csr_matrix(wide[rows]), labels[rows])
    np.testing.assert_allclose(sparse_functions(sparse.csr_array(wide)), draws, atol=1e-9)
    check_posterior(estimator, wide[:10], n_draws=20, X_training=wide[rows], y_training=labels[rows])


def test_columns_are_in_the_order_of_classes():
    estimator = LogisticRegression().fit(X, y)
    draws = draw(estimator, 200, X, y)(X)
    right = np.searchsorted(estimator.classes_, y)
    assert (draws.mean(axis=0).argmax(axis=1) == right).mean() > 0.7
    assert draw(estimator, None, X, y)(X[:2]).shape == (100, 2, 3)


def test_without_an_intercept_nothing_is_known_at_the_origin():
    estimator = LogisticRegression(fit_intercept=False).fit(X, y)
    np.testing.assert_allclose(draw(estimator, 10, X, y)(np.zeros((1, 4))), 1 / 3, atol=1e-15)


def test_bags_of_words_take_memory_of_the_order_of_the_weights():
    noise, n_draws, n_features = rng(9), 20, 30_000
    words = sparse.random_array((60, n_features), density=0.002, format="csr", rng=noise)
    labels = np.arange(60) % 3
    estimator = LogisticRegression().fit(words, labels)
    tracemalloc.start()
    functions = draw(estimator, n_draws, words, labels)
    draws = functions(words)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert draws.shape == (n_draws, 60, 3)
    assert peak < 2 * 8 * n_draws * 3 * n_features  # the weights, and half as much again; a covariance would be 7 GiB


def test_bald_is_higher_where_the_data_do_not_reach():
    noise = rng(10)
    x = np.column_stack([noise.normal(0, 2, 200), noise.uniform(-1, 1, 200)])
    labels = (noise.random(200) < expit(2 * x[:, 0])).astype(int)
    estimator = LogisticRegression().fit(x, labels)
    boundary = np.column_stack([np.zeros(3), [0.0, 5.0, 20.0]])  # the same probability at all, by the data's law
    near, far, farther = bald(draw(estimator, 500, x, labels)(boundary))
    assert near < 0.02 < far < farther


@pytest.mark.parametrize("estimator", [LogisticRegression()])
def test_a_query_needs_no_bootstrap(estimator):
    pipeline = make_pipeline(StandardScaler(), estimator).fit(X[::3], y[::3])
    query = StochasticBatchQuery(score="bald", random_state=0)  # a warning would be an error here
    indices = query.select(pipeline, X, n_instances=5, X_training=X[::3], y_training=y[::3])
    assert len(indices) == 5
    functions = sample_posterior(pipeline, 100, rng(), X_training=X[::3], y_training=y[::3])
    assert np.corrcoef(query.scores_, bald(functions(X)))[0, 1] > 0.9


# Regression

X_diabetes, t = load_diabetes(return_X_y=True)
X_diabetes = X_diabetes / X_diabetes.std(axis=0) + 3.0  # the posterior is of centred features: it must show


def assert_law(draws, mean, std):
    """Means within 5 standard errors; standard deviations within 5 of theirs, 1/sqrt(2 K) of them."""
    assert (np.abs(draws.mean(axis=0) - mean) <= 5 * std / np.sqrt(len(draws)) + 1e-9).all()
    np.testing.assert_allclose(draws.std(axis=0), std, rtol=5 / np.sqrt(2 * len(draws)), atol=1e-9)


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("n", [300, 7], ids=["many rows", "fewer rows than columns"])
def test_bayesian_ridge_draws_have_the_closed_form_law(n, fit_intercept):
    estimator = BayesianRidge(fit_intercept=fit_intercept).fit(X_diabetes[:n], t[:n])
    draws = sample_posterior(estimator, 4000, rng())(X_diabetes[300:330])
    offset = X_diabetes[:n].mean(axis=0) * fit_intercept
    centred, new = X_diabetes[:n] - offset, X_diabetes[300:330] - offset
    covariance = np.linalg.inv(estimator.alpha_ * centred.T @ centred + estimator.lambda_ * np.eye(10))
    variance = np.einsum("ij,jk,ik->i", new, covariance, new)
    assert draws.shape == (4000, 30)
    assert_law(draws, estimator.predict(X_diabetes[300:330]), np.sqrt(variance))
    if CENTRES:
        _, std = estimator.predict(X_diabetes[300:330], return_std=True)
        np.testing.assert_allclose(variance, std**2 - 1 / estimator.alpha_, rtol=1e-4)
        assert_law(draws, estimator.predict(X_diabetes[300:330]), np.sqrt(std**2 - noise_variance(estimator)))


@pytest.mark.parametrize("n", [300, 7], ids=["many rows", "fewer rows than columns"])
def test_ard_draws_have_the_closed_form_law_without_the_features_that_were_dropped(n):
    useless = rng(11).standard_normal((442, 3))
    wide = np.hstack([X_diabetes, useless])
    estimator = ARDRegression(threshold_lambda=1.0).fit(wide[:n], t[:n])
    kept = estimator.lambda_ < 1.0
    assert 0 < kept.sum() < 13
    functions = sample_posterior(estimator, 4000, rng())
    new = wide[300:330] - wide[:n].mean(axis=0)
    variance = np.einsum("ij,jk,ik->i", new[:, kept], estimator.sigma_, new[:, kept])
    assert_law(functions(wide[300:330]), estimator.predict(wide[300:330]), np.sqrt(variance))
    moved = wide[300:330] + 100.0 * ~kept
    np.testing.assert_allclose(functions(moved), functions(wide[300:330]))
    assert noise_variance(estimator) == 1 / estimator.alpha_


def test_ard_without_any_feature_is_a_constant_function():
    estimator = ARDRegression(threshold_lambda=1e-12).fit(X_diabetes, t)
    draws = sample_posterior(estimator, 10, rng())(X_diabetes[:5])
    np.testing.assert_allclose(draws, np.tile(estimator.predict(X_diabetes[:5]), (10, 1)))


@pytest.mark.parametrize("estimator", [BayesianRidge(), ARDRegression()])
def test_regression_draws_are_the_same_at_every_call_and_in_every_chunk(estimator):
    functions = sample_posterior(estimator.fit(X_diabetes, t), 50, rng())
    draws = functions(X_diabetes)
    np.testing.assert_array_equal(functions(X_diabetes), draws)
    parts = [functions(X_diabetes[i : i + 100]) for i in range(0, 442, 100)]
    np.testing.assert_allclose(np.concatenate(parts, axis=1), draws, rtol=1e-12)
    assert np.abs(sample_posterior(estimator, 50, rng(1))(X_diabetes) - draws).max() > 1
    assert sample_posterior(estimator, None, rng())(X_diabetes[:2]).shape == (100, 2)
    with pytest.raises(TypeError, match="parse"):
        functions(sparse.csr_array(X_diabetes))


def test_large_targets_keep_their_digits():
    small, large = (sample_posterior(BayesianRidge().fit(X_diabetes, t + s), 50, rng())(X_diabetes) for s in (0, 1e9))
    np.testing.assert_allclose(std_dev(large), std_dev(small), rtol=1e-4)


def test_regression_draws_spread_where_the_data_do_not_reach():
    estimator = BayesianRidge().fit(X_diabetes, t)
    center = X_diabetes.mean(axis=0)
    spread = std_dev(sample_posterior(estimator, 200, rng())(np.stack([center, center + 2, center + 20])))
    assert spread[0] < spread[1] < spread[2]
    query = StochasticBatchQuery(score="gaussian_bald", random_state=0)
    assert len(query.select(estimator, X_diabetes, n_instances=5)) == 5


def test_stochastic_descent_is_left_to_the_bootstrap():
    estimator = SGDClassifier(loss="log_loss", random_state=0).fit(X, y)
    with pytest.raises(NoPosteriorError):
        draw(estimator, 5, X, y)


def test_global_state_is_untouched(global_state_untouched):
    draw(LogisticRegression().fit(X, y), 5, X, y)(X)
    sample_posterior(BayesianRidge().fit(X_diabetes, t), 5, rng())(X_diabetes)
