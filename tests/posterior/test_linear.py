"""Linear models: draws have the law that they say they have, in both of the ways in which they are taken."""

import warnings

import numpy as np
import pytest
import sklearn
from reference import UnitNoise
from scipy import sparse
from scipy.special import expit, softmax
from sklearn.datasets import load_diabetes, load_iris
from sklearn.linear_model import ARDRegression, BayesianRidge, LogisticRegression, LogisticRegressionCV, SGDClassifier
from sklearn.preprocessing import StandardScaler

from skactive import sample_posterior
from skactive._utils.validation import NoPosteriorError, NoTrainingDataError
from skactive.posterior import _laplace as laplace
from skactive.posterior import check_posterior, noise_variance
from skactive.scores import std_dev

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


def covariance_of_logits(way, X, D_nC, prior_p, intercept, X_new):
    """Of the logits at the new rows, without what is common to all classes, exactly."""
    (n, n_classes), n_features = D_nC.shape, X.shape[1]
    size = n_classes * (n_features + (n if way is laplace._dual_law else intercept))
    coef, b = way(X, D_nC, prior_p, intercept).draw(size, UnitNoise(size))
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


@pytest.mark.arithmetic
@pytest.mark.parametrize(
    ("way", "intercept", "n_classes", "n", "n_features"),
    [
        (laplace._primal_law, True, 4, 30, 5),
        (laplace._primal_law, True, 1, 10, 40),
        (laplace._primal_law, False, 2, 10, 40),
        (laplace._dual_law, True, 4, 10, 40),
        (laplace._dual_law, True, 1, 30, 5),
        (laplace._dual_law, False, 2, 30, 5),
    ],
)
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


@pytest.mark.parametrize(("intercept", "n", "n_features"), [(True, 30, 5), (False, 10, 40)])
def test_class_by_class_each_is_a_binary_model(intercept, n, n_features):
    noise, n_classes = rng(1), 4
    X, X_new = noise.standard_normal((n, n_features)), noise.standard_normal((3, n_features))
    logits, weight_n = 2 * noise.standard_normal((n, n_classes)), noise.uniform(0.5, 2, n)
    prior_p = noise.uniform(0.5, 20, n_features)
    D_nC = laplace.curvature(logits, weight_n)
    size = n_classes * (n_features + n)
    coef, b = laplace._law_by_class(X, D_nC, prior_p, intercept).draw(size, UnitNoise(size))
    draws_CmK = laplace.linear(X_new, coef, b).transpose(1, 0, 2)
    p_nC = softmax(logits, axis=1)
    own_nC = weight_n[:, np.newaxis] * p_nC * (1 - p_nC) * 4 / 3
    for c, d in np.ndindex(n_classes, n_classes):
        expected = reference_covariance_of_logits(X, own_nC[:, [c]], prior_p, intercept, X_new) * (c == d)
        np.testing.assert_allclose(draws_CmK[c] @ draws_CmK[d].T, expected, rtol=0, atol=1e-9)


def test_laws_of_classes_that_are_not_kept_are_made_again(monkeypatch):
    X, D_nC = rng(3).standard_normal((15, 4)), laplace.curvature(rng(4).standard_normal((15, 5)), np.ones(15))
    kept = laplace._law_by_class(X, D_nC, np.ones(4), True)
    monkeypatch.setattr(laplace, "MAX_ELEMENTS", 16)
    again = laplace._law_by_class(X, D_nC, np.ones(4), True)
    for _ in range(2):
        for one, other in zip(kept.draw(7, rng()), again.draw(7, rng()), strict=True):
            np.testing.assert_array_equal(one, other)


def test_curvature_keeps_its_digits_where_a_class_is_nearly_certain():
    binary = laplace.hessian(np.ones((1, 1)), laplace.curvature(np.full((1, 1), 60.0), np.ones(1)))
    np.testing.assert_allclose(binary, np.exp(-60.0), rtol=1e-12)
    D_nC = laplace.curvature(np.array([[40.0, 0.0, 0.0], [0.0, 0.0, 90.0]]), np.ones(2))
    first, second = (np.diag(laplace.hessian(np.ones((1, 1)), D_1C)) for D_1C in (D_nC[:1], D_nC[1:]))
    np.testing.assert_allclose(first[0], 2 * np.exp(-40), rtol=1e-12)
    np.testing.assert_allclose(second, [np.exp(-90), np.exp(-90), 2 * np.exp(-90)], rtol=1e-12)


def test_classes_are_drawn_one_by_one_where_a_joint_law_would_be_too_large():
    X, mode, prior_p = rng(3).standard_normal((15, 4)), (rng(4).standard_normal((5, 4)), np.arange(5.0)), np.ones(4)
    D_nC = laplace.curvature(laplace.linear(X, mode[0].T, mode[1]), np.ones(15))
    for max_joint, way in ((20**2, laplace._primal_law), (20**2 - 1, laplace._law_by_class)):
        coef, b = laplace.posterior(X, mode, np.ones(15), prior_p, True, max_joint).draw(7, rng())
        expected, expected_b = way(X, D_nC, prior_p, True).draw(7, rng())
        np.testing.assert_array_equal(coef, expected + mode[0].T[:, :, np.newaxis])
        np.testing.assert_array_equal(b, expected_b + mode[1][:, np.newaxis])
    assert laplace.matrix_elements((1400, 150), 110) > laplace.MAX_ELEMENTS


@pytest.mark.parametrize(("fit_intercept", "n_features"), [(False, 1), (True, 4)])
def test_binary_draws_average_to_the_quadrature_under_the_laplace_posterior(fit_intercept, n_features):
    estimator = LogisticRegression(C=0.7, fit_intercept=fit_intercept).fit(X[:, :n_features], y_binary)
    draws = draw(estimator, 4000, X[:, :n_features], y_binary)(3 * X[:20, :n_features])
    weights = np.append(estimator.coef_, estimator.intercept_)[: n_features + fit_intercept]
    rows = np.column_stack([X[:, :n_features], np.ones(150)])[:, : len(weights)]
    p = expit(rows @ weights)
    precision = rows.T @ (rows * (p * (1 - p))[:, np.newaxis]) + np.diag([1 / 0.7] * n_features + [0] * fit_intercept)
    covariance = np.linalg.inv(precision)
    new = np.column_stack([3 * X[:20, :n_features], np.ones(20)])[:, : len(weights)]
    nodes, masses = np.polynomial.hermite_e.hermegauss(60)
    logits = new @ weights + np.sqrt(np.einsum("ij,jk,ik->i", new, covariance, new)) * nodes[:, np.newaxis]
    yes = masses @ expit(logits) / masses.sum()
    # 5 standard errors of the mean of independent draws; tiny probabilities, whose tails are heavy, to 1e-6
    error = 5 * draws[:, :, 1].std(axis=0) / np.sqrt(4000)
    assert (np.abs(draws[:, :, 1].mean(axis=0) - yes) <= error + 1e-6).all()
    if n_features == 4:  # the most probable weights are surer than their distribution, and rightly so
        assert np.abs(yes - estimator.predict_proba(3 * X[:20])[:, 1]).max() > 0.01


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
    for options in ({}, {} if OLD else {"use_legacy_attributes": False}):
        chosen = fit(LogisticRegressionCV(Cs=[0.03, 3.0], cv=3, **options, **TIGHT), X, y)
        plain = LogisticRegression(C=float(np.ravel(chosen.C_)[0]), **TIGHT).fit(X, y)
        same_draws(draw(chosen, 50, X, y)(X), draw(plain, 50, X, y)(X))


@pytest.mark.skipif(not OLD, reason="scikit-learn has neither since 1.8")
def test_other_schemes_than_a_softmax_are_left_to_the_bootstrap():
    with pytest.raises(NoPosteriorError, match="neither a binary model nor a softmax"):
        draw(fit(LogisticRegression(multi_class="ovr"), X, y), 5, X, y)


def test_corners_of_an_l1_penalty_have_no_curvature():
    by_folds = LogisticRegressionCV(solver="saga", tol=1e-2, penalty="elasticnet", l1_ratios=[0.5], Cs=[1.0], cv=3)
    for estimator in (LogisticRegression(solver="saga", tol=1e-2, penalty="l1"), by_folds):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            fit(estimator, X, y)
        with pytest.raises(NoPosteriorError, match="L1"):
            draw(estimator, 5, X, y)
    smooth = LogisticRegression(solver="saga", tol=1e-2, penalty="elasticnet", l1_ratio=0)
    assert draw(fit(smooth, X, y), 5, X, y)(X).shape == (5, 150, 3)


def test_what_has_no_laplace_posterior_is_left_to_the_bootstrap(monkeypatch):
    sure = LogisticRegression().fit(X, y_binary)
    sure.coef_ = sure.coef_ * 1e6
    for estimator, message in (
        (LogisticRegression(C=np.inf), "no prior"),
        (LogisticRegression(solver="liblinear"), "penalises the intercept"),
        (SGDClassifier(loss="log_loss", random_state=0), "SGDClassifier"),
        (sure, "0 or 1"),
    ):
        model = estimator if estimator is sure else fit(estimator, X, y_binary)
        with pytest.raises(NoPosteriorError, match=message):
            draw(model, 5, X, y_binary)
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


def test_training_data_are_asked_for_by_name_and_are_those_of_the_fit():
    estimator = LogisticRegression().fit(X[codes < 2], y[codes < 2])
    with pytest.raises(NoTrainingDataError, match="`X_training` and `y_training` must be given"):
        sample_posterior(estimator, 5, rng(), X_training=X)
    with pytest.raises(ValueError, match="`y_training` must hold labels that the estimator was fitted to"):
        draw(estimator, 5, X, y)
    with pytest.raises(ValueError, match="inconsistent"):
        draw(estimator, 5, X, y[:9])


@pytest.mark.arithmetic
@pytest.mark.parametrize(("n", "labels"), [(150, y_binary), (12, y), (12, y_binary)], ids=["rows", "columns", "two"])
def test_draws_are_probabilities_the_same_at_every_call_and_in_every_chunk(n, labels):
    rows = np.arange(0, 150, 150 // n)
    wide = np.hstack([X, X[:, ::-1] ** 2, np.sin(3 * X), X**3, np.cos(X)])  # 20 columns: more than 12 rows
    estimator = LogisticRegression(max_iter=1000).fit(wide[rows], labels[rows])
    functions = draw(estimator, 30, wide[rows], labels[rows])
    draws = functions(wide)
    assert draws.shape == (30, 150, len(estimator.classes_))
    assert (estimator.classes_[draws.mean(axis=0).argmax(axis=1)] == labels).mean() > 0.7
    np.testing.assert_allclose(draws.sum(axis=-1), 1, atol=1e-12)
    np.testing.assert_array_equal(functions(wide), draws)
    parts = [functions(wide[i : i + 7]) for i in range(0, 150, 7)]
    np.testing.assert_allclose(np.concatenate(parts, axis=1), draws, atol=1e-12)
    np.testing.assert_array_equal(draw(estimator, 30, wide[rows], labels[rows])(wide), draws)
    assert np.abs(draw(estimator, 30, wide[rows], labels[rows], seed=1)(wide) - draws).max() > 0.01
    sparse_functions = draw(estimator, 30, sparse.csr_matrix(wide[rows]), labels[rows])
    np.testing.assert_allclose(sparse_functions(sparse.csr_array(wide)), draws, atol=1e-9)
    from_sparse_weights = draw(estimator.sparsify(), 30, wide[rows], labels[rows])(wide)
    np.testing.assert_allclose(from_sparse_weights, draws, atol=1e-12)
    check_posterior(estimator, wide[:10], n_draws=20, X_training=wide[rows], y_training=labels[rows])


X_diabetes, t = load_diabetes(return_X_y=True)
X_diabetes = X_diabetes / X_diabetes.std(axis=0) + 3.0  # the posterior is of centred features: it must show


def assert_law(draws, mean, std):
    """Means within 5 standard errors; standard deviations within 5 of theirs, 1/sqrt(2 K) of them."""
    assert (np.abs(draws.mean(axis=0) - mean) <= 5 * std / np.sqrt(len(draws)) + 1e-9).all()
    np.testing.assert_allclose(draws.std(axis=0), std, rtol=5 / np.sqrt(2 * len(draws)), atol=1e-9)


@pytest.mark.parametrize(("n", "fit_intercept"), [(300, False), (300, True), (7, True)])
def test_bayesian_ridge_draws_have_the_closed_form_law(n, fit_intercept, global_state_untouched):
    estimator = BayesianRidge(fit_intercept=fit_intercept).fit(X_diabetes[:n], t[:n])
    draws = sample_posterior(estimator, 4000, rng())(X_diabetes[300:330])
    offset = X_diabetes[:n].mean(axis=0) * fit_intercept
    centred, new = X_diabetes[:n] - offset, X_diabetes[300:330] - offset
    covariance = np.linalg.inv(estimator.alpha_ * centred.T @ centred + estimator.lambda_ * np.eye(10))
    variance = np.einsum("ij,jk,ik->i", new, covariance, new)
    assert_law(draws, estimator.predict(X_diabetes[300:330]), np.sqrt(variance))
    if CENTRES:
        _, std = estimator.predict(X_diabetes[300:330], return_std=True)
        np.testing.assert_allclose(variance, std**2 - 1 / estimator.alpha_, rtol=1e-4)
        assert_law(draws, estimator.predict(X_diabetes[300:330]), np.sqrt(std**2 - noise_variance(estimator)))


@pytest.mark.parametrize("n", [300, 7])
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


def test_large_targets_keep_their_digits():
    small, large = (sample_posterior(BayesianRidge().fit(X_diabetes, t + s), 50, rng())(X_diabetes) for s in (0, 1e9))
    np.testing.assert_allclose(std_dev(large), std_dev(small), rtol=1e-4)
