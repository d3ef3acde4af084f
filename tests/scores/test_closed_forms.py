"""The score "epig" without draws, of models whose weights have a normal law."""

import functools
import operator

import numpy as np
import pytest
import reference
from scipy import sparse
from scipy.special import expit, softmax
from scipy.stats import spearmanr
from sklearn.ensemble import RandomForestRegressor
from sklearn.feature_selection import SelectKBest
from sklearn.linear_model import ARDRegression, BayesianRidge, LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler

from skactive import LastLayerClassifier, MCDropoutClassifier, StochasticBatchQuery, sample_posterior
from skactive import scores as scores_of_draws
from skactive.posterior import _laplace as laplace
from skactive.query import score_pool


def table(n, n_features, n_classes, seed=0):
    """Rows of different length, and labels by a noisy linear rule."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, n_features)) * np.exp(rng.normal(0, 0.6, (n, 1)))
    logits = 3 * X @ rng.normal(size=(n_features, n_classes)) / n_features**0.5
    return X, (logits + rng.gumbel(size=(n, n_classes))).argmax(1)


def scores(model, X_pool, X_target, X=None, y=None, **options):
    training = {"X_training": X, "y_training": y}
    return score_pool(model, X_pool, "epig", X_target=X_target, random_state=0, **training, **options)["epig"]


def with_one(X):
    return np.hstack([X, np.ones((len(X), 1))])


def by_the_hessian(weights, prior_precision, X, X_pool, X_target):
    """The oracle, with the pseudo-inverse of the Hessian: nothing restrains what is common to all intercepts."""
    precision = np.kron(np.eye(len(weights)), np.diag(prior_precision))
    for x, p in zip(X, softmax(X @ weights.T, axis=1) if len(weights) > 1 else expit(X @ weights.T), strict=True):
        precision += np.kron(np.diag(p) - np.outer(p, p), np.outer(x, x))
    covariance = np.linalg.pinv(precision, hermitian=True)
    return reference.fall_in_variance(covariance, weights, X_pool, X_target)


@pytest.mark.arithmetic
@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("n_classes", [2, 4])
@pytest.mark.parametrize(("n", "n_features"), [(40, 5), (15, 30)])  # by the Hessian, by the kernel of the rows
def test_of_a_logistic_regression_it_is_the_formula(n, n_features, n_classes, intercept):
    X, y = table(n + 12, n_features, n_classes)
    X_pool, X_target, X, y = X[n:], X[n : n + 5] / 2, X[:n], y[:n]
    model = LogisticRegression(C=0.7, fit_intercept=intercept, tol=1e-8, max_iter=5000).fit(X, y)
    weights, prior = model.coef_, np.full(n_features, 1 / 0.7)
    rows = [X, X_pool, X_target]
    if intercept:
        weights, prior, rows = np.column_stack([weights, model.intercept_]), np.append(prior, 0), map(with_one, rows)
    expected = by_the_hessian(weights, prior, *rows)
    np.testing.assert_allclose(scores(model, X_pool, X_target, X, y), expected, rtol=1e-7)
    as_sparse = [sparse.csr_array(-part) for part in (X_pool, X_target, X)]
    behind_a_step = make_pipeline(FunctionTransformer(operator.neg, accept_sparse=True), model)
    np.testing.assert_allclose(scores(behind_a_step, *as_sparse, y), expected, rtol=1e-7)


@pytest.mark.arithmetic
@pytest.mark.parametrize(("n", "n_features"), [(40, 5), (15, 30)])
def test_of_a_last_layer_it_is_the_formula_and_two_logits_are_worth_one(n, n_features):
    X, y = table(n + 12, n_features, 3)
    head = LastLayerClassifier(prior_precision=0.8).fit(X[:n], y[:n])
    rows = [with_one(part) for part in (X[:n], X[n:], X[n : n + 5])]
    expected = by_the_hessian(np.column_stack([head.coef_, head.intercept_]), np.full(n_features + 1, 0.8), *rows)
    np.testing.assert_allclose(scores(head, X[n:], X[n : n + 5]), expected, rtol=1e-6)
    binary = LastLayerClassifier(prior_precision=0.8).fit(X[:n], y[:n] > 0)
    one_logit = LogisticRegression(C=2 / 0.8, fit_intercept=False, tol=1e-8).fit(rows[0], y[:n] > 0)
    expected = scores(one_logit, rows[1], rows[2], rows[0], y[:n] > 0)
    np.testing.assert_allclose(scores(binary, X[n:], X[n : n + 5]), expected, rtol=1e-4)  # two searches for a mode


@pytest.mark.arithmetic
@pytest.mark.parametrize(("n", "n_features"), [(40, 5), (15, 30)])
def test_classes_drawn_one_by_one_are_independent_in_the_formula(n, n_features):
    X = table(n + 12, n_features, 4)[0]
    D_nC = laplace.curvature(np.zeros((n, 4)), np.ones(n))
    law = laplace._law_by_class(X[:n], D_nC, np.full(n_features, 2.0), True)
    inverse = np.linalg.inv(with_one(X[:n]).T @ with_one(X[:n]) * 0.25 + np.diag([*[0.5] * n_features, 0]))
    expected = with_one(X[n:]) @ inverse @ with_one(X[n:]).T * (1 + 1 / 3)
    covariance = law.covariance()
    np.testing.assert_allclose(covariance.variances(X[n:]), np.tile(np.diag(expected), (4, 1)), rtol=1e-9)
    for found in covariance.with_targets(X[n:])(X[n:]):
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-9 * np.abs(expected).max())


@pytest.mark.parametrize("regressor", [BayesianRidge(), ARDRegression()])
def test_of_a_bayesian_regression_it_is_what_a_label_takes_from_the_variance(regressor):
    X = np.random.default_rng(0).normal(size=(60, 4)) + 5
    model = regressor.fit(X[:30], X[:30, 0] + np.random.default_rng(1).normal(size=30))
    kept = getattr(model, "lambda_", 1) < 1e4 if isinstance(model, ARDRegression) else np.ones(4, dtype=bool)
    rows = (X - model.X_offset_)[:, kept]
    precision = np.linalg.inv(model.sigma_)
    before = np.linalg.inv(precision)
    expected = [
        np.mean([t @ (before - np.linalg.inv(precision + model.alpha_ * np.outer(x, x))) @ t for t in rows[30:40]])
        for x in rows[30:]
    ]
    np.testing.assert_allclose(scores(model, X[30:], X[30:40]), expected, rtol=1e-6)


def test_it_ranks_as_epig_of_thousands_of_draws_and_not_by_length_as_bald_does():
    X, y = table(420, 60, 2)
    training, X_pool, X_target = {"X": X[:20], "y": y[:20]}, X[20:320], X[320:]
    model = LogisticRegression(max_iter=1000).fit(X[:20], y[:20])
    closed, few, many = (scores(model, X_pool, X_target, **training, n_draws=n) for n in (None, 100, 4000))
    bald = score_pool(model, X_pool, "bald", X_training=X[:20], y_training=y[:20], random_state=0)["bald"]
    length = np.linalg.norm(X_pool, axis=1)
    assert spearmanr(closed, many)[0] > 0.8 > 0.6 > spearmanr(few, many)[0]
    assert abs(spearmanr(closed, length)[0]) < 0.3
    assert spearmanr(bald, length)[0] > 0.9


def fitted(kind):
    X, y = table(700, 8, 3)
    if kind == "net":
        return LastLayerClassifier(MCDropoutClassifier((16,), max_epochs=5, random_state=0)).fit(X[:50], y[:50])
    estimator = BayesianRidge() if kind == "regressor" else LogisticRegression()
    return make_pipeline(StandardScaler(), SelectKBest(k=5), estimator).fit(X[:50], y[:50])


@pytest.mark.parametrize("kind", ["classifier", "net", "regressor"])
def test_scores_have_the_same_bits_for_every_chunk_size(kind):
    X, y = table(700, 8, 3)
    model, training = fitted(kind), {"X_training": X[:50], "y_training": y[:50]}
    for X_target in (X[:30], None):  # without, all rows are targets
        query = StochasticBatchQuery("epig", X_target=X_target)
        found = set()
        for size in (1, 300, None):
            batch = query.set_params(chunk_size=size, random_state=0).select(model, X, 5, **training)
            found.add((*batch.tolist(), query.scores_.tobytes()))
        assert len(found) == 1
        assert query.score_ == "epig"
    np.testing.assert_allclose(query.scores_, scores(model, X, X, X[:50], y[:50]), rtol=1e-9)


def test_draws_serve_where_they_are_asked_for_and_where_no_matrix_may_be_that_large(monkeypatch):
    X, y = table(60, 4, 3)
    training = {"X_training": X[:30], "y_training": y[:30]}
    model = LogisticRegression().fit(X[:30], y[:30])

    def of_draws(n_draws):
        rng = np.random.default_rng(np.random.default_rng(0).integers(2**63, size=(2, 4))[0])
        predict_draws = sample_posterior(model, n_draws, rng, **training)
        return scores_of_draws.epig(predict_draws(X), target_draws=predict_draws(X[:9]))

    options = {"X_target": X[:9], "random_state": 0}
    partial = functools.partial(scores_of_draws.epig, target_weights=np.ones(9))
    for score, n_draws in (("epig", 50), ({"epig": partial}, None)):
        found = score_pool(model, X, score, n_draws=n_draws, **training, **options)["epig"]
        np.testing.assert_allclose(found, of_draws(n_draws), rtol=0, atol=1e-12)
    monkeypatch.setattr(laplace, "MAX_ELEMENTS", 30)
    monkeypatch.setattr(laplace.posterior, "__defaults__", (30,))
    np.testing.assert_allclose(scores(model, X, X[:9], X[:30], y[:30]), of_draws(None), rtol=0, atol=1e-12)


def test_what_cannot_be_scored_is_refused_in_the_words_of_the_score_of_draws():
    X, y = table(60, 4, 3)
    for regressor, n_draws in ((BayesianRidge(), 50), (RandomForestRegressor(5), None)):
        with pytest.raises(ValueError, match="`score`='epig' is not a score for a regressor"):
            scores(regressor.fit(X, y), X, X[:9], n_draws=n_draws)
    model = LogisticRegression().fit(X, y)
    with pytest.raises(ValueError, match="`X_target` must have the columns of `X_pool`"):
        scores(model, X, X[:, :3], X, y)
    with pytest.raises(ValueError, match="Give `X_training` and `y_training`"):
        scores(model, X, X[:9])
