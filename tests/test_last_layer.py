"""A Bayesian last layer: its weights have the law they should have, and the estimator scikit-learn's manners."""

import pickle

import numpy as np
import pytest
from scipy.optimize import approx_fprime, minimize
from scipy.special import expit, log_expit, softmax
from sklearn.base import BaseEstimator, clone
from sklearn.datasets import load_iris
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skactive import MCDropoutClassifier, StochasticBatchQuery
from skactive import _last_layer as last_layer
from skactive._last_layer import LastLayerClassifier
from skactive.posterior import check_posterior
from skactive.scores import bald

# scikit-learn 1.6 gives scipy's minimiser an option that scipy 1.17 is about to drop.
pytestmark = pytest.mark.filterwarnings("ignore:scipy.optimize. The `disp` and `iprint` options:DeprecationWarning")

METHODS = ["laplace", "mean_field"]
X, codes = load_iris(return_X_y=True)
X = StandardScaler().fit_transform(X)
y = np.array(["virginica", "setosa", "versicolor"])[codes]


def rng(seed=0):
    return np.random.default_rng(seed)


class Columns(BaseEstimator):
    """A net that is fitted whatever one does: features are columns of X."""

    def __init__(self, n_columns=4):
        self.n_columns = n_columns

    def fit(self, X, y):
        return self

    def __sklearn_is_fitted__(self):
        return True

    def embed(self, X):
        return np.asarray(X)[:, : self.n_columns]


@pytest.fixture(scope="module")
def net():
    return MCDropoutClassifier((16,), max_epochs=30, random_state=0).fit(X, y)


def head(net, method="laplace", **options):
    return LastLayerClassifier(net, method=method, random_state=0, **options)


# The law of the weights


def with_ones(X):
    return np.column_stack([X, np.ones(len(X))])


def test_laplace_means_are_the_most_probable_weights():
    fitted = head(Columns(), prior_precision=0.7).fit(X, y)
    reference = LogisticRegression(C=1 / 0.7, fit_intercept=False, tol=1e-10, max_iter=10_000).fit(with_ones(X), y)
    np.testing.assert_allclose(np.column_stack([fitted.coef_, fitted.intercept_]), reference.coef_, atol=1e-5)
    assert fitted.classes_.tolist() == ["setosa", "versicolor", "virginica"]


def test_laplace_draws_average_to_the_quadrature_under_the_laplace_posterior():
    fitted = head(Columns(2), prior_precision=0.7).fit(X, y)
    X_new = 3 * X[::10]
    draws = fitted.sample_posterior(4000, rng())(X_new)
    features, weights = with_ones(X[:, :2]), np.column_stack([fitted.coef_, fitted.intercept_])
    precision = 0.7 * np.eye(9)
    for x, p in zip(features, softmax(features @ weights.T, axis=1), strict=True):
        precision += np.kron(np.diag(p) - np.outer(p, p), np.outer(x, x))
    covariance = np.linalg.inv(precision)
    nodes, masses = np.polynomial.hermite_e.hermegauss(40)
    grid = np.stack(np.meshgrid(nodes, nodes), axis=-1).reshape(-1, 2)
    masses = np.outer(masses, masses).ravel() / masses.sum() ** 2
    for x, mean, deviation in zip(with_ones(X_new[:, :2]), draws.mean(axis=0), draws.std(axis=0), strict=True):
        contrast = np.kron([[1, 0, -1], [0, 1, -1]], x)  # logits relative to the third class
        root = np.linalg.cholesky(contrast @ covariance @ contrast.T)
        logits = np.column_stack([contrast @ weights.ravel() + grid @ root.T, np.zeros(len(grid))])
        # 5 standard errors of the mean of 4000 draws; tiny probabilities, whose tails are heavy, to 1e-6
        assert (np.abs(mean - masses @ softmax(logits, axis=1)) <= 5 * deviation / np.sqrt(4000) + 1e-6).all()


def test_the_bound_has_the_gradient_that_is_claimed():
    noise = rng(1)
    features, labels = with_ones(noise.standard_normal((12, 3))), noise.integers(3, size=12)
    mean, std, points = noise.standard_normal((3, 4)), noise.uniform(0.3, 1, (3, 4)), noise.standard_normal((8, 12, 3))

    def bound(parameters):
        return last_layer.negative_elbo(*parameters.reshape(2, 3, 4), features, labels, np.full(4, 0.7), points)[0]

    _, by_mean, by_std = last_layer.negative_elbo(mean, std, features, labels, np.full(4, 0.7), points)
    at = np.concatenate([mean.ravel(), std.ravel()])
    # central differences of step 1e-5: errors of 1e-9 or so
    numeric = (approx_fprime(at, bound, 1e-5) + approx_fprime(at, bound, -1e-5)) / 2
    np.testing.assert_allclose(np.concatenate([by_mean.ravel(), by_std.ravel()]), numeric, atol=1e-6)


def test_the_mean_field_is_the_best_one_by_quadrature():
    noise = rng(2)
    x = noise.standard_normal((40, 1))
    labels = (noise.random(40) < expit(2 * x[:, 0] + 1)).astype(int)
    fitted = head(Columns(1), "mean_field", prior_precision=1.0).fit(x, labels)
    features, sign = with_ones(x), 2 * labels - 1
    nodes, masses = np.polynomial.hermite_e.hermegauss(80)

    def divergence(parameters):
        """Of means and log deviations of the difference between two classes' weights, in equal shares of both."""
        mean, variance = parameters[:2], np.exp(2 * parameters[2:])
        logits = features @ mean + np.sqrt(features**2 @ variance) * nodes[:, np.newaxis]
        expected = masses @ log_expit(sign * logits) / masses.sum()
        return (mean**2 / 4 + variance / 2 - 1 - np.log(variance / 2)).sum() - expected.sum()

    best = minimize(divergence, np.zeros(4), tol=1e-10).x
    difference = np.append(fitted.coef_[1] - fitted.coef_[0], fitted.intercept_[1] - fitted.intercept_[0])
    deviation = np.sqrt((fitted._posterior.std_CF**2).sum(axis=0))
    # 64 stratified points a logit: the expectation has an error of about 1/64, spread over 40 rows
    np.testing.assert_allclose(difference, best[:2], atol=0.01)
    np.testing.assert_allclose(deviation, np.exp(best[2:]), rtol=0.01)


def test_draws_of_the_mean_field_have_its_moments():
    fitted = head(Columns(2), "mean_field").fit(X, y)
    posterior = fitted._posterior
    weights = posterior.draw(4000, rng()).transpose(2, 1, 0)
    # 5 standard errors: 1/sqrt(K) of a mean, 1/sqrt(2 K) of a standard deviation, 1/sqrt(K) of a correlation
    assert (np.abs(weights.mean(axis=0) - posterior.mean_CF) <= 5 * posterior.std_CF / np.sqrt(4000)).all()
    np.testing.assert_allclose(weights.std(axis=0), posterior.std_CF, rtol=5 / np.sqrt(8000))
    correlation = np.corrcoef(weights.reshape(4000, -1).T) - np.eye(9)
    assert np.abs(correlation).max() < 5 / np.sqrt(4000)


def test_without_correlations_the_posterior_is_narrower_than_with_them():
    noise = rng(3)
    shared = noise.standard_normal((60, 1))
    x = shared + 0.1 * noise.standard_normal((60, 4))  # four features that tell the same
    labels = (noise.random(60) < expit(shared[:, 0])).astype(int)
    apart = np.array([[1.0, -1.0, 1.0, -1.0]])  # where they differ
    full, factorised = (
        bald(head(Columns(), method, prior_precision=0.1).fit(x, labels).sample_posterior(500, rng())(apart))
        for method in METHODS
    )
    assert full > 2 * factorised


def test_stratified_noise_has_the_moments_of_a_normal():
    noise = last_layer.stratified_noise((5, 3), rng())
    assert noise.shape == (64, 5, 3)
    np.testing.assert_allclose(noise.mean(axis=0), 0, atol=1e-12)
    np.testing.assert_allclose(noise.var(axis=0), 1, rtol=1e-12)
    assert np.abs(np.corrcoef(noise.reshape(64, -1).T) - np.eye(15)).max() < 5 / np.sqrt(64)  # in orders of their own
    assert len(last_layer.stratified_noise((10**6, 2), rng())) == 8


@pytest.mark.parametrize("method", METHODS)
def test_the_prior_does_not_depend_on_the_size_of_the_features(method):
    class Scaled(Columns):
        def embed(self, X):
            return 1000 * super().embed(X)

    one, other = (head(net, method).fit(X, y) for net in (Columns(), Scaled()))
    np.testing.assert_allclose(one.prior_precision_, (X**2).sum(axis=1).mean() / 10)
    np.testing.assert_allclose(other.prior_precision_, 1e6 * one.prior_precision_)
    # equal but for where the searches end
    np.testing.assert_allclose(other.predict_proba(X), one.predict_proba(X), atol=1e-3)
    assert head(Columns(), method, prior_precision=3).fit(X, y).prior_precision_ == 3


# A net and its head


@pytest.mark.parametrize("method", METHODS)
def test_a_head_on_a_net_predicts_and_draws(net, method):
    fitted = head(net, method).fit(X, y)
    assert fitted.net_ is net
    assert fitted.n_features_in_ == 4
    assert fitted.score(X, y) > 0.9
    probabilities = fitted.predict_proba(X)
    np.testing.assert_array_equal(fitted.predict_proba(X), probabilities)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1, atol=1e-12)
    np.testing.assert_array_equal(fitted.predict(X), fitted.classes_[probabilities.argmax(axis=1)])
    functions = fitted.sample_posterior(20, rng())
    draws = functions(X)
    assert draws.shape == (20, 150, 3)
    np.testing.assert_array_equal(functions(X), draws)
    parts = [functions(X[i : i + 7]) for i in range(0, 150, 7)]
    np.testing.assert_allclose(np.concatenate(parts, axis=1), draws, atol=1e-12)
    np.testing.assert_array_equal(fitted.sample_posterior(20, rng())(X), draws)
    assert np.abs(fitted.sample_posterior(20, rng(1))(X) - draws).max() > 0.01
    assert fitted.sample_posterior(None, rng())(X[:2]).shape == (100, 2, 3)
    check_posterior(fitted, X[:10])


@pytest.mark.parametrize("method", METHODS)
def test_predictions_are_the_mean_of_the_draws(net, method):
    fitted = head(net, method, n_draws=4000).fit(X, y)
    draws = fitted.sample_posterior(4000, rng())(X[::10])
    # the difference of two means of 4000 draws, 5 standard errors
    error = 5 * draws.std(axis=0) * np.sqrt(2 / 4000)
    assert (np.abs(draws.mean(axis=0) - fitted.predict_proba(X[::10])) <= error).all()


def test_predictions_do_not_depend_on_blocks(net, monkeypatch):
    fitted = head(net).fit(X, y)
    whole = fitted.predict_proba(X)
    monkeypatch.setattr(last_layer, "_BLOCK_ELEMENTS", 2000)
    np.testing.assert_allclose(fitted.predict_proba(X), whole, atol=1e-12)


@pytest.mark.parametrize("method", METHODS)
def test_functions_stay_what_they_are_when_the_head_is_fitted_again(net, method):
    fitted = head(net, method).fit(X, y)
    functions = fitted.sample_posterior(5, rng())
    before = functions(X)
    fitted.fit(X[:120], y[:120])
    np.testing.assert_array_equal(functions(X), before)


@pytest.mark.parametrize("method", METHODS)
def test_bald_is_higher_away_from_the_data(net, method):
    fitted = head(net, method).fit(X, y)
    boundary = X[codes > 0].mean(axis=0)  # between two classes that touch, and farther and farther to the side
    sideways = np.array([0.0, 1.0, 0.0, 0.0])
    scores = bald(fitted.sample_posterior(500, rng())(boundary + np.outer([0.0, 3.0, 6.0, 12.0], sideways)))
    assert scores[0] < scores[1:].min()


def test_a_net_that_is_not_fitted_is_trained_anew_at_every_fit():
    unfitted = MCDropoutClassifier((8,), max_epochs=3, random_state=0)
    fitted = head(unfitted).fit(X, y)
    first = fitted.net_
    assert not hasattr(unfitted, "net_")
    assert fitted.fit(X, y).net_ is not first
    np.testing.assert_array_equal(first.embed(X), fitted.net_.embed(X))


def test_a_frozen_net_survives_a_clone(net):
    twin = clone(head(FrozenEstimator(net)).fit(X, y))
    with pytest.raises(NotFittedError):
        twin.predict(X)
    np.testing.assert_array_equal(twin.fit(X, y).net_.embed(X), net.embed(X))


@pytest.mark.parametrize("method", METHODS)
def test_clone_parameters_and_pickle(net, method):
    estimator = head(net, method, prior_precision=2.0, n_draws=7)
    assert clone(estimator).get_params(deep=False) | {"net": None} == estimator.get_params(deep=False) | {"net": None}
    estimator.set_params(net__max_epochs=2, n_draws=9)
    assert estimator.net.max_epochs == 2
    estimator.set_params(net__max_epochs=30).fit(X, y)
    twin = pickle.loads(pickle.dumps(estimator))
    np.testing.assert_array_equal(twin.predict_proba(X), estimator.predict_proba(X))
    np.testing.assert_array_equal(twin.sample_posterior(3, rng())(X), estimator.sample_posterior(3, rng())(X))


@pytest.mark.parametrize("method", METHODS)
def test_the_seed_decides(net, method):
    one, same, other = (LastLayerClassifier(net, method=method, random_state=s).fit(X, y) for s in (0, 0, 1))
    np.testing.assert_array_equal(one.predict_proba(X), same.predict_proba(X))
    assert np.abs(one.predict_proba(X) - other.predict_proba(X)).max() > 1e-4


@pytest.mark.parametrize("method", METHODS)
def test_labels_that_were_not_seen_are_unlikely_where_the_others_are(net, method):
    declared = ["setosa", "virginica", "versicolor", "a new one"]
    fitted = head(net, method, classes=declared).fit(X, y)
    assert fitted.classes_.tolist() == ["a new one", "setosa", "versicolor", "virginica"]
    assert fitted.predict_proba(X)[:, 0].max() < 0.5
    single = head(net, method, classes=["setosa", "versicolor"]).fit(X[codes == 1], y[codes == 1])
    assert single.predict_proba(X[codes == 1])[:, 0].min() > 0.5
    unfitted = MCDropoutClassifier((8,), max_epochs=2, random_state=0)
    assert len(head(unfitted, method, classes=declared).fit(X, y).classes_) == 4
    assert len(head(unfitted.set_params(classes=declared), method).fit(X, y).classes_) == 4
    with pytest.raises(ValueError, match="`classes` must list every label"):
        head(net, method, classes=["a new one", "setosa"]).fit(X, y)


@pytest.mark.parametrize("method", METHODS)
def test_a_head_serves_queries_also_in_a_pipeline(net, method):
    pipeline = make_pipeline(StandardScaler(), head(FrozenEstimator(net), method)).fit(X[::3], y[::3])
    query = StochasticBatchQuery(score="bald", random_state=0)
    assert len(set(query.select(pipeline, X, n_instances=5).tolist())) == 5
    assert (query.scores_ > 0).all()


def test_global_state_is_untouched(net, global_state_untouched):
    for method in METHODS:
        head(net, method).fit(X, y).sample_posterior(5, rng())(X)


# Bad input


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"method": "laplce"}, r"`method` must be one of \['laplace', 'mean_field'\]. Got 'laplce' instead"),
        ({"method": None}, "`method`"),
        ({"prior_precision": 0}, "`prior_precision` must be a finite number larger than 0"),
        ({"prior_precision": np.inf}, "`prior_precision`"),
        ({"prior_precision": "auto"}, "`prior_precision`"),
        ({"n_draws": 0}, "`n_draws` must be 1 or more"),
    ],
)
def test_parameters_out_of_range(options, message):
    with pytest.raises(ValueError, match=message):
        LastLayerClassifier(Columns(), **options).fit(X, y)


def test_bad_nets_and_labels(net):
    with pytest.raises(TypeError, match=r"`net` must have a method `embed\(X\)`.*LogisticRegression"):
        LastLayerClassifier(LogisticRegression()).fit(X, y)
    with pytest.raises(ValueError, match="Got one class"):
        head(net).fit(X[codes == 1], y[codes == 1])
    with pytest.raises(ValueError, match="inconsistent"):
        head(net).fit(X, y[40:60])
    with pytest.raises(ValueError, match="Unknown label type"):
        head(net).fit(X, X[:, 0])
    with pytest.raises(NotFittedError):
        head(net).sample_posterior(3, rng())
    with pytest.raises(ValueError, match=r"finite features .* Got features that are infinite"):
        head(Columns()).fit(np.where(X[0, 0] == X, np.inf, X), y)

    class Flat(Columns):
        def embed(self, X):
            return X[:, 0]

    with pytest.raises(ValueError, match=r"Got shape \(150,\)"):
        head(Flat()).fit(X, y)


def test_a_search_that_is_cut_short_is_said(net, monkeypatch):
    monkeypatch.setattr(last_layer, "_MAX_STEPS", 2)
    with pytest.warns(ConvergenceWarning, match="has not converged after 2 steps"):
        head(net).fit(X, y)


def test_a_weak_prior_on_separable_features_is_warned_of():
    noise = rng(4)
    x, labels = 100 * noise.standard_normal((20, 30)), noise.integers(4, size=20)
    with pytest.warns(UserWarning, match='hardly know the labels.*method="mean_field"'):
        head(Columns(30), prior_precision=0.01).fit(x, labels)
    head(Columns(30)).fit(x, labels)
    head(Columns(30), "mean_field", prior_precision=0.01).fit(x, labels)
