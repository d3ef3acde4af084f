"""Functions drawn from Gaussian processes: their law, against the exact posterior, and that they are functions."""

from functools import partial

import numpy as np
import pytest
from scipy.special import expit
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.gaussian_process import GaussianProcessClassifier, GaussianProcessRegressor
from sklearn.gaussian_process.kernels import (
    RBF,
    ConstantKernel,
    DotProduct,
    ExpSineSquared,
    Matern,
    PairwiseKernel,
    RationalQuadratic,
    WhiteKernel,
)

from skactive import sample_posterior
from skactive._utils.validation import NoPosteriorError
from skactive.posterior import _gaussian_processes as gp
from skactive.posterior import noise_variance


class OtherRBF(RBF):
    """A subclass may be another function than its parent."""


# By the number of columns that they are for. `EXACT_LIMIT`: drawn by features; `OTHERS`: have none, or too many.
EXACT_LIMIT = {
    "RBF": (1, RBF(0.7)),
    "RBF, two length scales": (2, 2.0 * RBF([0.5, 2.0])),
    "Matern 1/2": (1, Matern(0.8, nu=0.5)),
    "Matern 3/2": (2, Matern([0.8, 1.5], nu=1.5)),
    "Matern infinity": (1, Matern(1.0, nu=np.inf)),
    "rational quadratic": (2, RationalQuadratic(0.8, alpha=0.6)),
    "periodic": (1, ExpSineSquared(0.9, periodicity=1.7)),
    "dot product": (2, DotProduct(0.6)),
    "cubic": (2, 0.3 * DotProduct(0.8) ** 3),
    "constant": (1, ConstantKernel(2.0)),
    "sum": (2, 0.5 * RBF(0.5) + 0.4 * DotProduct(0.5) + WhiteKernel(0.1) + ConstantKernel(0.3)),
    "product": (2, RBF(1.5) * DotProduct(1.0) * Matern(2.0, nu=1.5)),
    "power of a sum": (1, (0.7 * RBF(1.0) + DotProduct(0.3)) ** 2),
}
OTHERS = {
    "pairwise": (2, 1.5 * PairwiseKernel(gamma=0.5, metric="laplacian")),
    "subclass": (1, OtherRBF(0.8)),
    "Matern 0.3": (2, Matern(1.0, nu=0.3)),
    "odd power": (2, RationalQuadratic(1.0) ** 1.5),
    "periodic in a distance": (2, ExpSineSquared(1.0, 8.0)),
    "too many products": (20, RBF(3.0) * DotProduct(1.0)),
    "too many terms": (1, (RBF(1.0) + Matern(1.0) + RationalQuadratic(1.0)) ** 3),
}
KERNELS = EXACT_LIMIT | OTHERS


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


def assert_moments(draws, mean, sd, slack=1e-7):
    """5 sigma of the means and standard deviations of normal values."""
    assert (np.abs(draws.mean(0) - mean) <= 5 * sd / np.sqrt(len(draws)) + slack).all()
    assert (np.abs(draws.std(0) - sd) <= 5 * sd / np.sqrt(2 * len(draws)) + slack).all()


ONE_VALUE = [(name, None) for name in ("sum", "product", "periodic")]


@pytest.mark.parametrize(("name", "n_classes"), [*ONE_VALUE, ("RBF", 2), ("product", 3)])
def test_draws_are_the_same_functions_in_all_chunks(name, n_classes, monkeypatch, global_state_untouched):
    estimator, X_pool = classifier(name, n_classes) if n_classes else regressor(name)
    X = np.concatenate([X_pool, problem(X_pool.shape[1])[0], X_pool[:2]])  # training rows, and twins, are among them
    predict_draws = sample_posterior(estimator, 30, rng())
    draws = predict_draws(X)
    assert draws.shape[:2] == (30, len(X))
    if draws.ndim == 3:
        np.testing.assert_allclose(draws.sum(2), 1, rtol=0, atol=1e-12)
    # Where the training rows determine the rest, a variance of 0 is rounded, and its root is taken.
    assert_same = partial(np.testing.assert_allclose, rtol=0, atol=1e-6)
    assert_same(predict_draws(X), draws)
    assert_same(np.concatenate([predict_draws(X[i : i + 1]) for i in range(len(X))], axis=1), draws)
    assert_same(predict_draws(X[::-1])[:, ::-1], draws)
    assert_same(draws[:, -2:], draws[:, :2])
    monkeypatch.setattr(gp, "_BLOCK_ELEMENTS", 5000)  # blocks of rows do not show
    assert_same(predict_draws(X), draws)


def test_one_seed_gives_one_set_of_functions_that_no_later_fit_changes_and_another_seed_others():
    for estimator, X_pool in (regressor("RBF"), classifier("RBF")):
        predict_draws, *others = (sample_posterior(estimator, 5, rng(seed)) for seed in (1, 1, 2))
        draws, same, another = (predict(X_pool) for predict in (predict_draws, *others))
        np.testing.assert_array_equal(draws, same)
        assert (np.abs(draws - another).max(axis=(0, *range(2, draws.ndim))) > 1e-3).all()
        estimator.fit(X_pool, [0, 1, 0, 1, 1, 0, 0])
        np.testing.assert_array_equal(predict_draws(X_pool), draws)


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


@pytest.mark.parametrize("name", OTHERS)
def test_other_kernels_have_no_features_or_too_many(name):
    for estimator in (regressor(name)[0], classifier(name)[0]):
        with pytest.raises(NoPosteriorError, match=r"its kernel .* has no random features, or more than 32768"):
            sample_posterior(estimator, 3, rng())


@pytest.mark.arithmetic
@pytest.mark.parametrize("name", ["Matern 3/2", "rational quadratic", "periodic", "cubic", "product", "sum"])
def test_moments_of_regression_draws_are_the_posteriors(name):
    estimator, X_pool = regressor(name, alpha=np.geomspace(1e-3, 1, 9), normalize_y=name == "sum")
    X = np.concatenate([X_pool, estimator.X_train_])
    mean, covariance = function_moments(estimator, X)
    draws = sample_posterior(estimator, 2000, rng())(X)
    sd = np.sqrt(np.diag(covariance))
    assert_moments(draws, mean, sd)
    # 5 sigma of a covariance of normal variables, of variance (1 + rho^2)/K at most, and of 1024 random frequencies.
    tolerance = 5 * np.sqrt(2 / 2000 + 1 / 1024) * np.outer(sd, sd)[:7, :7]
    assert (np.abs(np.cov(draws[:, :7].T) - covariance[:7, :7]) <= tolerance).all()


def test_noise_variance_is_alpha_and_white_noise_in_units_of_the_labels():
    X, y, _ = problem(1)
    kernel = RBF(0.7) + 2.0 * WhiteKernel(0.3)
    scaled = GaussianProcessRegressor(kernel, alpha=0.05, optimizer=None, normalize_y=True).fit(X, 100 * y)
    assert noise_variance(scaled) == pytest.approx(0.65 * (100 * y).var())
    each = GaussianProcessRegressor(RBF(0.7), alpha=np.linspace(0.1, 0.3, 9), optimizer=None).fit(X, y)
    assert noise_variance(each) == pytest.approx(0.2)


@pytest.mark.parametrize("name", ["power of a sum", "periodic", "product"])
def test_binary_draws_have_the_mean_of_predict_proba(name):
    estimator, X_pool = classifier(name)
    draws = sample_posterior(estimator, 2000, rng())(X_pool)
    part = estimator.base_estimator_
    mean, variance = latent_moments(part, X_pool)
    assert_mean_of_draws(draws[:, :, 1], logistic_mean(mean, variance))
    # scikit-learn approximates the same integral, up to 4.4e-4.
    assert_mean_of_draws(draws, estimator.predict_proba(X_pool), slack=5e-4)


def test_one_vs_rest_draws_have_the_mean_of_quadrature():
    estimator, X_pool = classifier("product", n_classes=3)
    draws = sample_posterior(estimator, 2000, rng())(X_pool)
    # The latent functions of the classes are independent: the mean of normalised probabilities over 24^3 nodes.
    nodes, weights = np.polynomial.hermite_e.hermegauss(24)
    weights = np.einsum("i,j,k->ijk", weights, weights, weights) / weights.sum() ** 3
    columns = []
    for c, part in enumerate(estimator.base_estimator_.estimators_):
        mean, variance = latent_moments(part, X_pool)
        latent = mean + np.sqrt(variance) * nodes[:, np.newaxis]
        columns.append(np.expand_dims(expit(latent), [i for i in range(3) if i != c]))
    total = sum(columns)
    expected = np.stack([np.einsum("ijk,ijkb->b", weights, column / total) for column in columns], axis=1)
    assert_mean_of_draws(draws, expected, slack=1e-5)  # the nodes' own error
    # predict_proba averages before it normalises: it differs by up to 0.06 here, and has its columns in the same order.
    np.testing.assert_allclose(draws.mean(0), estimator.predict_proba(X_pool), rtol=0, atol=0.1)


def test_large_variances_leave_probabilities_that_sum_to_one():
    X, y, X_pool = problem(1)
    estimator = GaussianProcessClassifier(1e5 * RBF(0.3), optimizer=None).fit(X, np.digitize(y, [0.0, 0.5]))
    draws = sample_posterior(estimator, 200, rng())(10 * X_pool)
    np.testing.assert_allclose(draws.sum(2), 1, rtol=0, atol=1e-12)


def test_what_has_no_functions_is_refused():
    X, y, _ = problem(1, n=15)
    with pytest.raises(NotFittedError):
        sample_posterior(GaussianProcessClassifier(), 3, rng())
    several = GaussianProcessRegressor(RBF(), alpha=0.1, optimizer=None).fit(X, np.stack([y, -y], axis=1))
    with pytest.raises(ValueError, match="several outputs"):
        sample_posterior(several, 3, rng())
    noisy = GaussianProcessClassifier(RBF() + WhiteKernel(0.1), optimizer=None)
    with pytest.raises(NoPosteriorError, match="white noise in its kernel"):
        sample_posterior(noisy.fit(X, y > 0), 3, rng())
    estimator = GaussianProcessClassifier(RBF(), optimizer=None, multi_class="one_vs_one")
    with pytest.raises(ValueError, match='`multi_class` must be "one_vs_rest"'):
        sample_posterior(estimator.fit(X, np.digitize(y, [0.0, 0.5])), 3, rng())
    assert sample_posterior(estimator.fit(X, y > 0), 3, rng())(X).shape == (3, 15, 2)
