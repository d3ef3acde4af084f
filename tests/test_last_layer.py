"""A Bayesian last layer: its weights have the law they should have, and the estimator scikit-learn's manners."""

import pickle

import numpy as np
import pytest
import reference as ref
import torch
from reference import UnitNoise
from scipy.special import softmax
from sklearn.base import BaseEstimator, clone
from sklearn.datasets import load_iris
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import check_estimator
from skorch import NeuralNetClassifier
from torch import nn

from skactive import LastLayerClassifier, MCDropoutClassifier, last_layer
from skactive.posterior import _laplace, check_posterior

# scikit-learn 1.6 gives scipy's minimiser an option that scipy 1.17 is about to drop.
pytestmark = pytest.mark.filterwarnings("ignore:scipy.optimize. The `disp` and `iprint` options:DeprecationWarning")

X, codes = load_iris(return_X_y=True)
X = StandardScaler().fit_transform(X)
y = np.array(["virginica", "setosa", "versicolor"])[codes]


def rng(seed=0):
    return np.random.default_rng(seed)


class Columns(BaseEstimator):
    """A net that is fitted whatever one does: features are columns of X, times ``scale``."""

    def __init__(self, n_columns=4, scale=1):
        self.n_columns, self.scale = n_columns, scale

    def fit(self, X, y):
        return self

    def __sklearn_is_fitted__(self):
        return True

    def embed(self, X):
        return self.scale * np.asarray(X)[:, : self.n_columns]


@pytest.fixture(scope="module")
def net():
    return MCDropoutClassifier((16,), max_epochs=30, random_state=0).fit(X, y)


def head(net, **options):
    return LastLayerClassifier(net, random_state=0, **options)


def with_ones(X):
    return np.column_stack([X, np.ones(len(X))])


def test_laplace_means_are_the_most_probable_weights():
    fitted = head(Columns(), prior_precision=0.7).fit(X, y)
    reference = LogisticRegression(C=1 / 0.7, fit_intercept=False, tol=1e-10, max_iter=10_000).fit(with_ones(X), y)
    np.testing.assert_allclose(np.column_stack([fitted.coef_, fitted.intercept_]), reference.coef_, atol=1e-5)
    fitted = head(Columns(), prior_precision=0.7).fit(X, codes == 1)
    # The difference of the weights of two classes has twice the variance of each.
    difference = LogisticRegression(C=2 / 0.7, fit_intercept=False, tol=1e-10).fit(with_ones(X), codes == 1).coef_
    expected = np.vstack([-difference, difference]) / 2
    np.testing.assert_allclose(np.column_stack([fitted.coef_, fitted.intercept_]), expected, atol=1e-5)


@pytest.mark.arithmetic
@pytest.mark.parametrize(("n", "n_features", "n_classes"), [(12, 4, 3), (4, 9, 3), (30, 3, 5), (6, 6, 2)])
def test_the_covariance_is_the_inverse_hessian(n, n_features, n_classes):
    rows, labels = rng().standard_normal((n, n_features)), rng(1).integers(n_classes, size=n)
    fitted = head(None, prior_precision=0.7, classes=range(n_classes)).fit(rows, labels)
    size = n_classes * (n_features + 1 + n)  # no law asks for more noise than this: see `UnitNoise`
    draws = fitted._law.draw(size, UnitNoise(size))[0].transpose(1, 0, 2).reshape(-1, size)
    draws -= np.column_stack([fitted.coef_, fitted.intercept_]).reshape(-1, 1)
    logits = rows @ fitted.coef_.T + fitted.intercept_
    expected = ref.laplace_covariance(with_ones(rows) / np.sqrt(0.7), softmax(logits, axis=1)) / 0.7
    np.testing.assert_allclose(draws @ draws.T, expected, atol=1e-10)


def test_the_prior_does_not_depend_on_the_size_of_the_features():
    one, other = (head(net).fit(X, y) for net in (Columns(), Columns(scale=1000)))
    np.testing.assert_allclose(one.prior_precision_, (X**2).sum(axis=1).mean() / 10)
    np.testing.assert_allclose(other.prior_precision_, 1e6 * one.prior_precision_)
    # equal but for where the searches end
    np.testing.assert_allclose(other.predict_proba(X), one.predict_proba(X), atol=1e-3)
    assert head(Columns(), prior_precision=3).fit(X, y).prior_precision_ == 3


@pytest.mark.parametrize(("max_joint", "n_labelled"), [(2**24, 3), (0, 150)])
def test_every_size_serves_all_that_a_head_does(max_joint, n_labelled, monkeypatch, global_state_untouched):
    monkeypatch.setattr(last_layer, "_MAX_JOINT", max_joint)
    rows = np.linspace(0, 149, n_labelled).astype(int)
    fitted = head(None).fit(X[rows], y[rows])
    draws = fitted.sample_posterior(20, rng())(X)
    functions = pickle.loads(pickle.dumps(fitted)).sample_posterior(20, rng())
    parts = [functions(X[i : i + 7]) for i in range(0, 150, 7)]
    np.testing.assert_allclose(np.concatenate(parts, axis=1), draws, atol=1e-12)
    check_posterior(fitted, X[:10])
    assert fitted.score(X[rows], y[rows]) > 0.8


def test_a_head_on_a_net_predicts_and_draws(net):
    fitted = head(net, n_draws=4000).fit(X, y)
    assert (fitted.net_, fitted.n_features_in_) == (net, 4)
    assert fitted.score(X, y) > 0.9
    probabilities = fitted.predict_proba(X)
    np.testing.assert_array_equal(fitted.predict_proba(X), probabilities)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1, atol=1e-12)
    functions = fitted.sample_posterior(4000, rng())
    draws = functions(X)
    # the difference of two means of 4000 draws, 5 standard errors; tails of tiny probabilities are heavy
    assert (np.abs(draws.mean(axis=0) - probabilities) <= 5 * draws.std(axis=0) * np.sqrt(2 / 4000) + 1e-6).all()
    # Embeddings are float32, in blocks of another shape: ten times what was seen.
    np.testing.assert_allclose(functions(X[7:14]), draws[:, 7:14], rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(fitted.sample_posterior(4000, rng())(X), draws)
    assert np.abs(fitted.sample_posterior(4000, rng(1))(X[:9]) - draws[:, :9]).max() > 0.01
    assert fitted.sample_posterior(None, rng())(X[:2]).shape == (100, 2, 3)
    fitted.fit(X[:120], y[:120])  # which changes no function drawn before
    np.testing.assert_array_equal(functions(X), draws)


def test_a_net_that_is_not_fitted_is_trained_anew_at_every_fit():
    unfitted = MCDropoutClassifier((8,), max_epochs=3, random_state=0)
    fitted = head(unfitted).fit(X, y)
    first = fitted.net_
    assert not hasattr(unfitted, "net_")
    assert fitted.fit(X, y).net_ is not first
    np.testing.assert_array_equal(first.embed(X), fitted.net_.embed(X))


class Kept(BaseEstimator):
    """Keeps what it learns in ``net``, which says nothing to scikit-learn."""

    def fit(self, X, y):
        self.net = MCDropoutClassifier((8,), max_epochs=1).fit(X, y)
        return self

    def embed(self, X):
        return self.net.embed(X)

    predict = embed


def test_a_net_that_keeps_no_underscore_is_used_as_it_is_if_it_answers():
    fitted, new = Kept().fit(X, y), Kept()
    assert head(fitted).fit(X, y).net_ is fitted
    assert head(new).fit(X, y).net_ is not new


def test_a_frozen_net_survives_a_clone(net):
    twin = clone(head(FrozenEstimator(net)).fit(X, y))
    with pytest.raises(NotFittedError):
        twin.predict(X)
    np.testing.assert_array_equal(twin.fit(X, y).net_.embed(X), net.embed(X))


def test_a_pickle_answers_the_same_and_the_seed_decides(net, monkeypatch):
    one, other = (LastLayerClassifier(net, random_state=seed).fit(X, y) for seed in (0, 1))
    twin = pickle.loads(pickle.dumps(one))
    np.testing.assert_array_equal(twin.predict_proba(X), one.predict_proba(X))
    np.testing.assert_array_equal(twin.sample_posterior(3, rng())(X), one.sample_posterior(3, rng())(X))
    np.testing.assert_array_equal(head(net).fit(X, y).predict_proba(X), one.predict_proba(X))
    monkeypatch.setattr(_laplace, "_BLOCK_ELEMENTS", 2000)  # blocks of rows do not show
    np.testing.assert_allclose(twin.predict_proba(X), one.predict_proba(X), atol=1e-12)
    assert np.abs(one.predict_proba(X) - other.predict_proba(X)).max() > 1e-4


def test_labels_that_were_not_seen_are_unlikely_where_the_others_are(net):
    declared = ["setosa", "virginica", "versicolor", "a new one"]
    fitted = head(net, classes=declared).fit(X, y)
    assert fitted.classes_.tolist() == ["a new one", "setosa", "versicolor", "virginica"]
    assert fitted.predict_proba(X)[:, 0].max() < 0.5
    declaring = MCDropoutClassifier((8,), max_epochs=2, classes=declared, random_state=0)
    assert len(head(declaring).fit(X, y).classes_) == 4
    with pytest.raises(ValueError, match="`classes` must list every label"):
        head(net, classes=["a new one", "setosa"]).fit(X, y)


@pytest.mark.filterwarnings("ignore")  # the checks feed in what deserves warnings
def test_every_check_of_scikit_learn_passes():
    results = check_estimator(LastLayerClassifier(), on_skip=None, on_fail=None)
    assert len(results) > 30
    assert [result for result in results if result["status"] not in ("passed", "skipped")] == []


def test_without_a_net_rows_are_features():
    fitted, same = head(None).fit(X, y), head(Columns()).fit(X, y)
    np.testing.assert_array_equal(fitted.predict_proba(X), same.predict_proba(X))
    np.testing.assert_array_equal(fitted.embed(X), X)
    assert (fitted.net_, fitted.n_features_in_) == (None, 4)
    with pytest.raises(ValueError, match="3 features, but LastLayerClassifier is expecting 4"):
        fitted.predict(X[:, :3])
    with pytest.raises(ValueError, match="Got one class, 'setosa'"):
        fitted.fit(X[:, :3], np.full(150, "setosa"))
    np.testing.assert_array_equal(fitted.predict_proba(X), same.predict_proba(X))


def torch_module():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))


def hidden_units(module, X):
    with torch.no_grad():
        return module[:2](torch.as_tensor(X, dtype=torch.float32)).numpy()


def test_a_torch_module_gives_what_enters_its_last_linear_layer():
    module = torch_module()
    fitted = head(module).fit(X, y)
    assert fitted.net_ is module
    np.testing.assert_allclose(fitted.embed(X), hidden_units(module, X), atol=1e-6)
    functions = fitted.sample_posterior(3, rng())
    before = functions(X)
    with torch.no_grad():
        module[0].weight.zero_()  # another training
    np.testing.assert_array_equal(functions(X), before)


def test_skorch_nets_are_taken_fitted_or_not_and_in_pipelines():
    rows, options = X.astype(np.float32), {"max_epochs": 2, "train_split": None, "batch_size": -1, "verbose": 0}
    unfitted = NeuralNetClassifier(torch_module, criterion=nn.CrossEntropyLoss, **options)
    net = clone(unfitted).fit(rows, codes)
    fitted = head(net).fit(rows, y)
    assert fitted.net_ is net
    np.testing.assert_allclose(fitted.embed(rows), hidden_units(net.module_, rows), atol=1e-6)
    trained = head(unfitted).fit(rows, y)
    assert (unfitted.initialized_, trained.net_.initialized_) == (False, True)
    pipeline = make_pipeline(StandardScaler(), clone(unfitted))
    piped = head(pipeline.fit(rows, codes)).fit(rows, y)
    scaled = pipeline[0].transform(rows)
    np.testing.assert_allclose(piped.embed(rows), hidden_units(pipeline[-1].module_, scaled), atol=1e-6)


def test_nets_that_have_no_features_to_give():
    for net, error, message in (
        (make_pipeline(StandardScaler(), LogisticRegression()), TypeError, r"method `embed\(X\)`.* Got Pipeline"),
        (nn.Sequential(nn.Flatten(), nn.Softmax(dim=1)), ValueError, r"Got shape \(150, 0\)"),
        (Columns(scale=np.inf), ValueError, "finite features .* Got infinite or NaN"),
    ):
        with pytest.raises(error, match=message):
            head(net).fit(np.abs(X), y)


@pytest.mark.parametrize("make", [lambda: None, lambda: MCDropoutClassifier((4,), max_epochs=1)])
def test_labels_are_looked_at_alike_with_and_without_a_net(make):
    failed = head(make())
    for rows, labels, message in (
        (X, np.column_stack([y, y]), r"`y` must have shape \(n_labelled,\).* Got shape \(150, 2\)"),
        (X[codes == 1], y[codes == 1], "Got one class"),
        (X, X[:, 0], "Unknown label type"),
        (X, y[30:80], "inconsistent"),
    ):
        with pytest.raises(ValueError, match=message):
            failed.fit(rows, labels)
        with pytest.raises(NotFittedError):
            failed.predict(X)


def test_a_weak_prior_on_separable_features_is_warned_of():
    noise = rng(4)
    x, labels = 100 * noise.standard_normal((20, 30)), noise.integers(4, size=20)
    with pytest.warns(UserWarning, match="is too wide.*larger `prior_precision` or"):
        head(Columns(30), prior_precision=0.01).fit(x, labels)
    head(Columns(30)).fit(x, labels)
