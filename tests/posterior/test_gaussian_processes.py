"""Functions drawn from Gaussian processes: their law, against the exact posterior, and that they are functions."""

from functools import partial

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from scipy.special import expit
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.gaussian_process import GaussianProcessClassifier, GaussianProcessRegressor
from sklearn.gaussian_process.kernels import (
    RBF,
    ConstantKernel,
    DotProduct,
    ExpSineSquared,
    GenericKernelMixin,
    Kernel,
    Matern,
    PairwiseKernel,
    RationalQuadratic,
    WhiteKernel,
)

from skactive import StochasticBatchQuery, sample_posterior
from skactive.posterior import _gaussian_processes as gp
from skactive.posterior import noise_variance
from skactive.scores import bald, entropy, std_dev


class ScaledRBF(RBF):
    """A subclass that is another function than its parent."""

    def __call__(self, X, Y=None, eval_gradient=False):
        return 4 * super().__call__(X, Y)

    def diag(self, X):
        return 4 * super().diag(X)


class LetterKernel(GenericKernelMixin, Kernel):
    """Compares texts by how often they use each letter."""

    def __init__(self, width=2.0):
        self.width = width

    def __call__(self, X, Y=None, eval_gradient=False):
        first, second = self._counts(X), self._counts(X if Y is None else Y)
        values = np.exp(-((first[:, None] - second) ** 2).sum(2) / 2 / self.width**2)
        return (values, np.empty((*values.shape, 0))) if eval_gradient else values

    def diag(self, X):
        return np.ones(len(X))

    def is_stationary(self):
        return False

    @staticmethod
    def _counts(texts):
        return np.array([[text.count(letter) for letter in "abc"] for text in texts], float)


# By the number of columns that they are for. `EXACT_LIMIT`: drawn by features; `FALLBACK`: by Nyström features.
EXACT_LIMIT = {
    "RBF": (1, RBF(0.7)),
    "RBF, two length scales": (2, 2.0 * RBF([0.5, 2.0])),
    "Matern 1/2": (1, Matern(0.8, nu=0.5)),
    "Matern 3/2": (2, Matern([0.8, 1.5], nu=1.5)),
    "Matern 5/2": (1, 0.5 * Matern(0.8, nu=2.5)),
    "Matern 0.8": (1, Matern(1.0, nu=0.8)),
    "Matern infinity": (1, Matern(1.0, nu=np.inf)),
    "rational quadratic": (2, RationalQuadratic(0.8, alpha=0.6)),
    "periodic": (1, ExpSineSquared(0.9, periodicity=1.7)),
    "dot product": (2, DotProduct(0.6)),
    "cubic": (2, 0.3 * DotProduct(0.8) ** 3),
    "constant": (1, ConstantKernel(2.0)),
    "sum": (2, 0.5 * RBF(0.5) + 0.4 * DotProduct(0.5) + WhiteKernel(0.1) + ConstantKernel(0.3)),
    "product": (2, RBF(1.5) * DotProduct(1.0) * Matern(2.0, nu=1.5)),
    "locally periodic": (1, RBF(3.0) * ExpSineSquared(1.0, periodicity=1.5)),
    "power of a sum": (1, (0.7 * RBF(1.0) + DotProduct(0.3)) ** 2),
}
FALLBACK = {
    "pairwise": (2, 1.5 * PairwiseKernel(gamma=0.5, metric="laplacian")),
    "pairwise and noise": (2, PairwiseKernel(gamma=0.3, metric="rbf") + WhiteKernel(0.2)),
    "subclass": (1, ScaledRBF(0.8)),
    "Matern 0.3": (2, Matern(1.0, nu=0.3)),
    "odd power": (2, RationalQuadratic(1.0) ** 1.5),
    "too many products": (20, RBF(3.0) * DotProduct(1.0)),
    "too many terms": (1, (RBF(1.0) + Matern(1.0) + RationalQuadratic(1.0)) ** 3),
}
KERNELS = EXACT_LIMIT | FALLBACK


def rng(seed=0):
    return np.random.default_rng(seed)


def problem(n_columns, n=9):
    """A few training rows in [-1, 1]^D and rows within and outside of it."""
    random = rng(5)
    X = random.uniform(-1, 1, (n, n_columns))
    return X, np.sin(3 * X.sum(1)) + 0.1 * random.standard_normal(n), random.uniform(-3, 3, (7, n_columns))


def regressor(name, alpha=0.01, **options):
    n_columns, kernel = KERNELS[name]
    X, y, X_pool = problem(n_columns)
    return GaussianProcessRegressor(clone(kernel), alpha=alpha, optimizer=None, **options).fit(X, y), X_pool


def classifier(name="RBF", n_classes=2):
    n_columns, kernel = KERNELS[name]
    X, y, X_pool = problem(n_columns, n=15)
    labels = np.array(["c", "a", "b"])[np.digitize(y, [0.0, 0.5][: n_classes - 1])]
    return GaussianProcessClassifier(4.0 * clone(kernel), optimizer=None).fit(X, labels), X_pool


def function_moments(estimator, X):
    """Mean and covariance of the function, from scikit-learn's own, which has the white noise on its diagonal."""
    mean, covariance = estimator.predict(X, return_cov=True)
    kernel = estimator.kernel_
    noise = np.diag(kernel(X)) - np.diag(kernel(X, X))
    return mean, covariance - np.diag(noise) * float(np.ravel(estimator._y_train_std)[0]) ** 2


def logistic_mean(mean, variance):
    """Of expit over a normal law: trapezoids, errors of 1e-12."""
    z = np.linspace(-9, 9, 4001)[:, np.newaxis]
    density = np.exp(-(z**2) / 2)
    return (density * expit(mean + np.sqrt(variance) * z)).sum(0) / density.sum()


def latent_moments(part, X):
    posterior = gp._laplace_posterior(part)
    kernel = posterior.kernel(posterior.X, X)
    variance = posterior.kernel.diag(X) - (kernel * posterior.gain(kernel)[0]).sum(0)
    return posterior.weights @ kernel, np.maximum(variance, 0)


def assert_mean_of_draws(values, expected, slack=0.0):
    """5 sigma of a mean over the first axis: one false alarm in 1.7 million values."""
    tolerance = 5 * values.std(0, ddof=1) / np.sqrt(len(values)) + slack
    assert (np.abs(values.mean(0) - expected) <= tolerance).all()


# --- they are functions


@pytest.mark.parametrize("name", KERNELS)
def test_regression_draws_are_the_same_functions_at_every_call_and_in_all_chunks(name):
    estimator, X_pool = regressor(name)
    # Training rows, and twins of pool rows, are among them.
    X = np.concatenate([X_pool, estimator.X_train_, X_pool[:2]])
    predict_draws = sample_posterior(estimator, 30, rng())
    draws = predict_draws(X)
    assert draws.shape == (30, len(X))
    # Where the training rows determine the rest, a variance of 0 is rounded, and its root is taken.
    assert_same = partial(np.testing.assert_allclose, rtol=0, atol=1e-9 if name in EXACT_LIMIT else 1e-6)
    assert_same(predict_draws(X), draws)
    assert_same(np.concatenate([predict_draws(X[i : i + 1]) for i in range(len(X))], axis=1), draws)
    assert_same(np.concatenate([predict_draws(X[:5]), predict_draws(X[5:])], axis=1), draws)
    assert_same(predict_draws(X[::-1])[:, ::-1], draws)
    assert_same(draws[:, -2:], draws[:, :2])


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("name", ["RBF", "sum", "pairwise"])
def test_classification_draws_are_the_same_functions_at_every_call_and_in_all_chunks(name, n_classes):
    estimator, X_pool = classifier(name, n_classes)
    X = np.concatenate([X_pool, X_pool[:2]])
    predict_draws = sample_posterior(estimator, 30, rng())
    draws = predict_draws(X)
    assert draws.shape == (30, len(X), n_classes)
    np.testing.assert_allclose(draws.sum(2), 1, rtol=0, atol=1e-12)
    by_row = np.concatenate([predict_draws(X[i : i + 1]) for i in range(len(X))], axis=1)
    np.testing.assert_allclose(by_row, draws, rtol=0, atol=1e-9)
    np.testing.assert_allclose(draws[:, -2:], draws[:, :2], rtol=0, atol=1e-9)


@pytest.mark.parametrize("name", ["RBF", "pairwise"])
def test_rows_are_worked_on_in_blocks_that_do_not_show(name, monkeypatch):
    estimator, X_pool = regressor(name)
    predict_draws = sample_posterior(estimator, 10, rng())
    whole = predict_draws(X_pool)
    monkeypatch.setattr(gp, "_BLOCK_ELEMENTS", 5000)
    np.testing.assert_allclose(predict_draws(X_pool), whole, rtol=0, atol=1e-9)


@pytest.mark.parametrize("name", ["RBF", "pairwise"])
def test_one_seed_gives_one_set_of_functions_and_another_seed_others(name):
    for estimator, X_pool in (regressor(name), classifier(name)):
        draws = [sample_posterior(estimator, 5, rng(seed))(X_pool) for seed in (1, 1, 2)]
        np.testing.assert_array_equal(draws[0], draws[1])
        assert (np.abs(draws[0] - draws[2]).max(axis=(0, *range(2, draws[0].ndim))) > 1e-3).all()


def test_a_hundred_functions_are_drawn_unless_told_otherwise():
    for estimator, X_pool in (regressor("RBF"), classifier("RBF")):
        assert len(sample_posterior(estimator, None, rng())(X_pool)) == 100


def test_draws_touch_no_global_state_and_leave_the_estimator_as_it_is(global_state_untouched):
    for estimator, X_pool in (regressor("pairwise"), classifier("RBF", 3)):
        before = estimator.kernel_.theta.tobytes(), sorted(vars(estimator))
        sample_posterior(estimator, 3, rng())(X_pool)
        assert before == (estimator.kernel_.theta.tobytes(), sorted(vars(estimator)))


def test_draws_stay_what_they_are_when_the_estimator_is_refitted():
    for estimator, X_pool in (regressor("RBF"), classifier("RBF", 3)):
        predict_draws = sample_posterior(estimator, 5, rng())
        before = predict_draws(X_pool)
        estimator.fit(X_pool, [0, 1, 0, 1, 1, 0, 0])
        np.testing.assert_array_equal(predict_draws(X_pool), before)


def test_dot_products_give_straight_lines_and_periodic_kernels_periodic_functions():
    estimator, _ = regressor("dot product")
    predict_draws = sample_posterior(estimator, 20, rng())
    a, b = rng(1).normal(size=(2, 4, 2))
    middle = (predict_draws(a) + predict_draws(b)) / 2
    np.testing.assert_allclose(predict_draws((a + b) / 2), middle, rtol=0, atol=1e-9)

    estimator, X_pool = regressor("periodic")
    predict_draws = sample_posterior(estimator, 20, rng())
    np.testing.assert_allclose(predict_draws(X_pool + 2 * 1.7), predict_draws(X_pool), rtol=0, atol=1e-9)


# --- of the right law


@pytest.mark.parametrize("name", EXACT_LIMIT)
def test_products_of_features_are_the_kernel(name):
    n_columns, kernel = EXACT_LIMIT[name]
    kernel = gp._without_noise(kernel)
    X = rng(3).uniform(-2, 2, (20, n_columns))
    exact = kernel(X, X)
    scale = np.sqrt(np.outer(np.diag(exact), np.diag(exact)))
    features = [gp._fourier_features(kernel, X, rng(seed))(X) for seed in range(16)]
    for one in features:
        np.testing.assert_allclose((one**2).sum(0), np.diag(exact), rtol=1e-9)
    # A product is a mean of 1024 cosines (times the scale), of variance 1 at most: 5 sigma of the mean of 16 of them.
    difference = np.mean([one.T @ one for one in features], axis=0) - exact
    assert (np.abs(difference) <= 5 * scale / np.sqrt(16 * 1024)).all()


@pytest.mark.parametrize("name", FALLBACK)
def test_other_kernels_have_no_features_or_too_many(name):
    n_columns, kernel = FALLBACK[name]
    with pytest.raises(gp._NoFeaturesError):
        gp._fourier_features(kernel, np.zeros((3, n_columns)), rng())


def test_a_periodic_kernel_of_distances_is_drawn_like_an_unknown_one():
    X, y, X_pool = problem(2)
    estimator = GaussianProcessRegressor(ExpSineSquared(1.0, 8.0), alpha=0.1, optimizer=None).fit(X, y)
    draws = sample_posterior(estimator, 2000, rng())(X_pool)
    assert_mean_of_draws(draws, estimator.predict(X_pool))
    with pytest.raises(gp._NoFeaturesError):
        gp._fourier_features(estimator.kernel_, X, rng())


@pytest.mark.parametrize(
    ("name", "normalize_y"), [*((name, False) for name in KERNELS), ("sum", True), ("pairwise and noise", True)]
)
def test_mean_and_variance_of_regression_draws_are_the_posteriors(name, normalize_y):
    estimator, X_pool = regressor(name, normalize_y=normalize_y)
    X = np.concatenate([X_pool, estimator.X_train_])
    mean, covariance = function_moments(estimator, X)
    n_draws = 2000
    draws = sample_posterior(estimator, n_draws, rng())(X)
    sd = np.sqrt(np.diag(covariance))
    # Values are exactly normal: 5 sigma of a mean and of a standard deviation.
    assert (np.abs(draws.mean(0) - mean) <= 5 * sd / np.sqrt(n_draws) + 1e-7).all()
    assert (np.abs(draws.std(0) - sd) <= 5 * sd / np.sqrt(2 * n_draws) + 1e-7).all()


@pytest.mark.arithmetic
@pytest.mark.parametrize("name", EXACT_LIMIT)
def test_covariances_of_regression_draws_are_the_posteriors(name):
    estimator, X_pool = regressor(name)
    _, covariance = function_moments(estimator, X_pool)
    n_draws = 2000
    draws = sample_posterior(estimator, n_draws, rng())(X_pool)
    sd = np.sqrt(np.diag(covariance))
    # 5 sigma of a covariance of normal variables, of variance (1 + rho^2)/K at most, and of 1024 random frequencies.
    tolerance = 5 * np.sqrt(2 / n_draws + 1 / 1024) * np.outer(sd, sd)
    assert (np.abs(np.cov(draws.T) - covariance) <= tolerance).all()


@pytest.mark.parametrize("name", FALLBACK)
def test_other_kernels_relate_rows_through_the_training_rows(name):
    estimator, X_pool = regressor(name)
    X, n_pool = np.concatenate([X_pool, estimator.X_train_]), len(X_pool)
    _, covariance = function_moments(estimator, X)
    kernel, Z = estimator.kernel_, estimator.X_train_
    # What the function at the training rows does not determine of other rows is independent from row to row.
    inverse = np.linalg.pinv(kernel(Z, Z), rcond=len(Z) * np.finfo(float).eps, hermitian=True)
    known = kernel(X_pool, Z) @ inverse @ kernel(Z, X_pool)
    rest = kernel(X_pool, X_pool) - known
    covariance[:n_pool, :n_pool] -= rest - np.diag(np.diag(rest))
    n_draws = 2000
    draws = sample_posterior(estimator, n_draws, rng())(X)
    sd = np.sqrt(np.maximum(np.diag(covariance), 0))
    tolerance = 5 * np.sqrt(2 / n_draws) * np.outer(sd, sd) + 1e-7  # 5 sigma of a covariance
    assert (np.abs(np.cov(draws.T) - covariance) <= tolerance).all()


@pytest.mark.parametrize("kernel", [DotProduct(0.5), DotProduct(0.5) ** 2 + WhiteKernel(2.0)])
def test_deviations_have_the_exact_covariance_where_features_are_exact(kernel):
    X, y, X_pool = problem(2, n=15)
    regression = GaussianProcessRegressor(kernel, alpha=0.1, optimizer=None).fit(X, y)
    part = GaussianProcessClassifier(3.0 * kernel, optimizer=None).fit(X, y > 0).base_estimator_
    for posterior, fitted in (
        (gp._regression_posterior(regression), regression),
        (gp._laplace_posterior(part), part),
    ):
        functions = gp._draw_functions(posterior, 1, rng())
        gain, noise = posterior.gain(fitted.kernel_(X, X_pool))
        updated = functions.features(X_pool) - functions.training_features @ gain
        expected = fitted.kernel_(X_pool, X_pool) - fitted.kernel_(X_pool, X) @ gain
        np.testing.assert_allclose(updated.T @ updated + noise.T @ noise, expected, rtol=0, atol=1e-9)


def test_draws_pass_through_labels_without_noise():
    X = np.linspace(-2, 2, 9)[:, np.newaxis]
    estimator = GaussianProcessRegressor(Matern(1.0, nu=2.5), alpha=1e-10, optimizer=None).fit(X, np.cos(X[:, 0]))
    draws = sample_posterior(estimator, 10, rng())(X)
    # The noise of a label has a standard deviation of 1e-5: 5 sigma.
    np.testing.assert_allclose(draws, np.tile(np.cos(X[:, 0]), (10, 1)), rtol=0, atol=5e-5)


def test_each_label_may_have_a_noise_of_its_own():
    alpha = np.geomspace(1e-3, 1, 9)
    estimator, X_pool = regressor("RBF", alpha=alpha)
    X = np.concatenate([X_pool, estimator.X_train_])
    mean, sd = estimator.predict(X, return_std=True)
    draws = sample_posterior(estimator, 2000, rng())(X)
    assert_mean_of_draws(draws, mean)
    assert (np.abs(draws.std(0) - sd) <= 5 * sd / np.sqrt(2 * 2000)).all()  # 5 sigma


def test_white_noise_is_not_part_of_the_function():
    noisy = GaussianProcessRegressor(RBF(0.7) + WhiteKernel(0.3), alpha=1e-10, optimizer=None)
    plain = GaussianProcessRegressor(RBF(0.7), alpha=0.3 + 1e-10, optimizer=None)
    X, y, X_pool = problem(1)
    draws = [sample_posterior(model.fit(X, y), 50, rng())(X_pool) for model in (noisy, plain)]
    np.testing.assert_allclose(draws[0], draws[1], rtol=0, atol=1e-9)


def test_noise_variance_is_alpha_and_white_noise_in_units_of_the_labels():
    X, y, _ = problem(1)
    kernel = RBF(0.7) + 2.0 * WhiteKernel(0.3)
    plain = GaussianProcessRegressor(kernel, alpha=0.05, optimizer=None).fit(X, y)
    assert noise_variance(plain) == pytest.approx(0.65)
    scaled = GaussianProcessRegressor(kernel, alpha=0.05, optimizer=None, normalize_y=True).fit(X, 100 * y)
    assert noise_variance(scaled) == pytest.approx(0.65 * (100 * y).var())
    each = GaussianProcessRegressor(RBF(0.7), alpha=np.linspace(0.1, 0.3, 9), optimizer=None).fit(X, y)
    assert noise_variance(each) == pytest.approx(0.2)


def test_fitted_hyperparameters_are_the_ones_drawn_from():
    X = rng(1).uniform(-3, 3, (40, 1))
    y = np.sin(X[:, 0]) + 0.2 * rng(2).standard_normal(40)
    estimator = GaussianProcessRegressor(RBF(3.0) + WhiteKernel(1.0)).fit(X, y)
    assert abs(noise_variance(estimator) - 0.04) < 5 * 0.04 * np.sqrt(2 / 40)  # 5 sigma of a variance
    draws = sample_posterior(estimator, 2000, rng())(X)
    mean, covariance = function_moments(estimator, X)
    sd = np.sqrt(np.diag(covariance))
    assert_mean_of_draws(draws, mean)
    assert (np.abs(draws.std(0) - sd) <= 5 * sd / np.sqrt(2 * 2000)).all()  # 5 sigma


def test_the_story_of_a_binary_classifier():
    """Latent function of a Laplace posterior and its scores, against quadrature."""
    X = np.array([[-2.0], [-1.0], [-0.5], [0.6], [1.2], [2.2]])
    X_pool = np.array([[-3.0], [-0.2], [0.0], [0.9], [6.0], [-0.2]])  # the last is a twin
    estimator = GaussianProcessClassifier(1.0 * RBF(1.0), optimizer=None).fit(X, [0, 0, 1, 0, 1, 1])
    mean, variance = latent_moments(estimator.base_estimator_, X_pool)
    np.testing.assert_allclose(mean[:5], [-0.266574, -0.073950, -0.035738, 0.192358, 0.000280], rtol=0, atol=1e-4)
    np.testing.assert_allclose(variance[:5], [0.928902, 0.670023, 0.676635, 0.660243, 1.0], rtol=0, atol=1e-4)

    draws = sample_posterior(estimator, 2000, rng())(X_pool)
    expected = [0.444521, 0.483892, 0.492222, 0.541895, 0.500058]
    np.testing.assert_allclose(draws[:, :5, 1].mean(0), expected, rtol=0, atol=4 * 0.5 / np.sqrt(2000))
    expected = [0.087591, 0.068014, 0.068614, 0.066846, 0.093709]
    np.testing.assert_allclose(bald(draws)[:5], expected, rtol=0, atol=0.03)
    expected = [0.686979, 0.692628, 0.693026, 0.689633, 0.693147]
    np.testing.assert_allclose(entropy(draws)[:5], expected, rtol=0, atol=0.01)
    np.testing.assert_allclose(draws[:, 1], draws[:, 5], rtol=0, atol=1e-12)
    assert bald(draws).argmax() == 4


@pytest.mark.parametrize("name", ["Matern 3/2", "sum", "product", "periodic", *FALLBACK])
def test_binary_draws_have_the_mean_of_predict_proba(name):
    estimator, X_pool = classifier(name)
    draws = sample_posterior(estimator, 2000, rng())(X_pool)
    part = estimator.base_estimator_
    mean, variance = latent_moments(part, X_pool)
    variance += np.diag(part.kernel_(X_pool)) - np.diag(part.kernel_(X_pool, X_pool))  # white noise
    assert_mean_of_draws(draws[:, :, 1], logistic_mean(mean, variance))
    # scikit-learn approximates the same integral, up to 4.4e-4.
    assert_mean_of_draws(draws, estimator.predict_proba(X_pool), slack=5e-4)


@pytest.mark.parametrize("white", [0.3, 1.0, 3.9, 4.1, 400.0])
def test_white_noise_of_a_classifier_is_averaged_over_in_every_draw(white):
    latent = np.linspace(-30, 30, 61)
    np.testing.assert_allclose(np.exp(gp._log_link(latent, white)), logistic_mean(latent, white), rtol=0, atol=1e-6)


@pytest.mark.parametrize("name", ["RBF", "sum", "pairwise"])
def test_one_vs_rest_draws_have_the_mean_of_quadrature(name):
    estimator, X_pool = classifier(name, n_classes=3)
    draws = sample_posterior(estimator, 2000, rng())(X_pool)
    # The latent functions of the classes are independent: the mean of normalised probabilities over 24^3 nodes.
    nodes, weights = np.polynomial.hermite_e.hermegauss(24)
    weights = np.einsum("i,j,k->ijk", weights, weights, weights) / weights.sum() ** 3
    columns = []
    for c, part in enumerate(estimator.base_estimator_.estimators_):
        mean, variance = latent_moments(part, X_pool)
        latent = mean + np.sqrt(variance) * nodes[:, np.newaxis]
        white = np.diag(part.kernel_(X_pool)) - np.diag(part.kernel_(X_pool, X_pool))
        values = np.stack([logistic_mean(row, white) for row in latent])
        columns.append(np.expand_dims(values, [i for i in range(3) if i != c]))
    total = sum(columns)
    expected = np.stack([np.einsum("ijk,ijkb->b", weights, column / total) for column in columns], axis=1)
    assert_mean_of_draws(draws, expected, slack=1e-5)  # the nodes' own error
    # predict_proba averages before it normalises: it differs by up to 0.06 here, and has its columns in the same order.
    np.testing.assert_allclose(draws.mean(0), estimator.predict_proba(X_pool), rtol=0, atol=0.1)


def test_functions_of_the_classes_are_independent():
    estimator, X_pool = classifier("RBF", n_classes=3)
    parts = estimator.base_estimator_.estimators_
    random = rng()
    functions = [gp._draw_functions(gp._laplace_posterior(part), 2000, random)(X_pool) for part in parts]
    for i, j in ((0, 1), (0, 2), (1, 2)):
        correlations = np.array([np.corrcoef(functions[i][:, b], functions[j][:, b])[0, 1] for b in range(7)])
        assert (np.abs(correlations) <= 5 / np.sqrt(2000)).all()  # 5 sigma


def test_large_variances_leave_probabilities_that_sum_to_one():
    X, y, X_pool = problem(1)
    estimator = GaussianProcessClassifier(1e5 * RBF(0.3), optimizer=None).fit(X, np.digitize(y, [0.0, 0.5]))
    draws = sample_posterior(estimator, 200, rng())(10 * X_pool)
    np.testing.assert_allclose(draws.sum(2), 1, rtol=0, atol=1e-12)


# --- the scores tell what the model cannot know


def test_regression_is_less_certain_in_a_gap():
    X = np.concatenate([np.linspace(-3, -1, 12), np.linspace(1, 3, 12)])[:, np.newaxis]
    estimator = GaussianProcessRegressor(RBF(0.5), alpha=0.01).fit(X, np.sin(3 * X[:, 0]))
    in_gap, in_data = std_dev(sample_posterior(estimator, None, rng())(np.array([[0.0], [2.0]])))
    assert in_gap > 3 * in_data


@pytest.mark.parametrize("name", ["RBF", "pairwise"])
def test_bald_of_a_classifier_is_higher_in_a_gap(name):
    kernel = 9.0 * {"RBF": RBF(0.7), "pairwise": PairwiseKernel(gamma=1.0, metric="rbf")}[name]
    X = np.concatenate([np.linspace(-3, -1, 15), np.linspace(1, 3, 15)])[:, np.newaxis]
    estimator = GaussianProcessClassifier(kernel, optimizer=None).fit(X, np.sin(5 * X[:, 0]) > 0)
    in_gap, in_data = bald(sample_posterior(estimator, None, rng())(np.array([[0.0], [2.1]])))
    assert in_gap > 2 * in_data


# --- what is given to them


def test_kernels_of_texts_can_be_drawn_from():
    texts = np.array(["aab", "abc", "cc", "bca", "b", "aaaa"])
    pool = np.array(["abcabc", "ccccc", "aab", "abcabc"])
    kernel = 2.0 * LetterKernel() + WhiteKernel(0.1)
    regression = GaussianProcessRegressor(kernel, optimizer=None).fit(texts, np.arange(6.0))
    draws = sample_posterior(regression, 2000, rng())(pool)
    mean, covariance = function_moments(regression, pool)
    assert_mean_of_draws(draws, mean)
    sd = np.sqrt(np.diag(covariance))
    assert (np.abs(draws.std(0) - sd) <= 5 * sd / np.sqrt(2 * 2000)).all()  # 5 sigma
    np.testing.assert_allclose(draws[:, 0], draws[:, 3], rtol=0, atol=1e-7)

    classification = GaussianProcessClassifier(kernel, optimizer=None).fit(texts, list("xyxyxz"))
    predict_draws = sample_posterior(classification, 7, rng())
    np.testing.assert_allclose(predict_draws(pool[1:2]), predict_draws(pool)[:, 1:2], rtol=0, atol=1e-7)


def test_a_row_has_one_value_whatever_holds_it():
    estimator, X_pool = regressor("pairwise")
    predict_draws = sample_posterior(estimator, 5, rng())
    X_pool = X_pool.astype(np.float32).astype(float)
    X_pool[0, 0] = 0.0
    negative = X_pool.copy()
    negative[0, 0] = -0.0
    for same in (X_pool.tolist(), np.asfortranarray(X_pool), negative):
        np.testing.assert_allclose(predict_draws(same), predict_draws(X_pool), rtol=0, atol=1e-7)


def test_frames_are_taken_as_the_estimator_takes_them():
    X, y, X_pool = problem(2)
    frame = pd.DataFrame(X, columns=["u", "v"])
    estimator = GaussianProcessRegressor(RBF(), alpha=0.1, optimizer=None).fit(frame, y)
    predict_draws = sample_posterior(estimator, 5, rng())
    assert predict_draws(pd.DataFrame(X_pool, columns=["u", "v"])).shape == (5, 7)
    with pytest.raises(ValueError, match="feature names"):
        predict_draws(pd.DataFrame(X_pool, columns=["u", "w"]))


def test_a_target_of_one_column_is_one_target():
    X, y, X_pool = problem(1)
    estimators = [
        GaussianProcessRegressor(RBF(), alpha=0.1, optimizer=None, normalize_y=True).fit(X, target)
        for target in (y, y[:, np.newaxis])
    ]
    draws = [sample_posterior(estimator, 5, rng())(X_pool) for estimator in estimators]
    np.testing.assert_allclose(draws[0], draws[1], rtol=0, atol=1e-12)


def test_repeated_training_rows_do_no_harm():
    X, y, X_pool = problem(2)
    for _, kernel in (EXACT_LIMIT["RBF, two length scales"], FALLBACK["pairwise"]):
        estimator = GaussianProcessRegressor(kernel, alpha=0.1, optimizer=None).fit(np.tile(X, (3, 1)), np.tile(y, 3))
        draws = sample_posterior(estimator, 2000, rng())(X_pool)
        mean, sd = estimator.predict(X_pool, return_std=True)
        assert_mean_of_draws(draws, mean)
        assert (np.abs(draws.std(0) - sd) <= 5 * sd / np.sqrt(2 * 2000)).all()  # 5 sigma


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda X: X[:, :1], "features"),
        (lambda X: np.where(X > 0, np.nan, X), "NaN"),
        (lambda X: X.astype(str), "numeric"),
        (lambda X: X[0], "2D"),
    ],
)
def test_rows_that_the_estimator_refuses_are_refused(spoil, message):
    for estimator, X_pool in (regressor("sum"), classifier("sum")):
        predict_draws = sample_posterior(estimator, 3, rng())
        with pytest.raises(ValueError, match=message):
            predict_draws(spoil(X_pool))


def test_sparse_rows_are_refused_as_by_the_estimator():
    estimator, X_pool = regressor("sum")
    with pytest.raises(TypeError, match="dense data is required"):
        sample_posterior(estimator, 3, rng())(sparse.csr_array(X_pool))


@pytest.mark.parametrize("estimator", [GaussianProcessRegressor(), GaussianProcessClassifier()])
def test_an_unfitted_process_is_not_drawn_from(estimator):
    with pytest.raises(NotFittedError):
        sample_posterior(estimator, 3, rng())


def test_several_targets_are_refused():
    X, y, _ = problem(1)
    estimator = GaussianProcessRegressor(RBF(), alpha=0.1, optimizer=None).fit(X, np.stack([y, -y], axis=1))
    with pytest.raises(ValueError, match="several outputs"):
        sample_posterior(estimator, 3, rng())


def test_one_vs_one_is_refused_with_the_remedy_unless_there_are_two_classes():
    X, y, X_pool = problem(1, n=15)
    estimator = GaussianProcessClassifier(RBF(), optimizer=None, multi_class="one_vs_one")
    with pytest.raises(ValueError, match='`multi_class` must be "one_vs_rest"'):
        sample_posterior(estimator.fit(X, np.digitize(y, [0.0, 0.5])), 3, rng())
    assert sample_posterior(estimator.fit(X, y > 0), 3, rng())(X_pool).shape == (3, 7, 2)


@pytest.mark.parametrize(("n_draws", "error"), [(0, ValueError), (2.5, TypeError)])
def test_the_number_of_draws_is_checked(n_draws, error):
    for estimator, _ in (regressor("RBF"), classifier("RBF")):
        with pytest.raises(error, match="`n_draws`"):
            sample_posterior(estimator, n_draws, rng())


def test_a_query_buys_the_same_rows_for_every_chunk_size():
    estimator, _ = classifier("RBF")
    X_pool = rng(8).uniform(-3, 3, (200, 1))
    queries = [StochasticBatchQuery("bald", random_state=0, chunk_size=size) for size in (7, 64, 200)]
    batches = [query.select(estimator, X_pool, 10) for query in queries]
    np.testing.assert_array_equal(batches[0], batches[1])
    np.testing.assert_array_equal(batches[0], batches[2])
