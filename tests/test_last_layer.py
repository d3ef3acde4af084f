"""A Bayesian last layer: its weights have the law they should have, and the estimator scikit-learn's manners."""

import pickle
import tracemalloc
import warnings

import numpy as np
import pytest
import reference as ref
import torch
from reference import UnitNoise
from scipy import sparse
from scipy.special import softmax
from scipy.stats import spearmanr
from sklearn.base import BaseEstimator, clone
from sklearn.datasets import load_iris
from sklearn.exceptions import ConvergenceWarning, DataConversionWarning, NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks
from skorch import NeuralNetClassifier
from torch import nn

from skactive import BADGEQuery, MCDropoutClassifier, StochasticBatchQuery, last_layer
from skactive.last_layer import LastLayerClassifier
from skactive.posterior import _laplace, check_posterior
from skactive.scores import bald

# scikit-learn 1.6 gives scipy's minimiser an option that scipy 1.17 is about to drop.
pytestmark = pytest.mark.filterwarnings("ignore:scipy.optimize. The `disp` and `iprint` options:DeprecationWarning")

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


def head(net, **options):
    return LastLayerClassifier(net, random_state=0, **options)


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


def test_the_prior_does_not_depend_on_the_size_of_the_features():
    class Scaled(Columns):
        def embed(self, X):
            return 1000 * super().embed(X)

    one, other = (head(net).fit(X, y) for net in (Columns(), Scaled()))
    np.testing.assert_allclose(one.prior_precision_, (X**2).sum(axis=1).mean() / 10)
    np.testing.assert_allclose(other.prior_precision_, 1e6 * one.prior_precision_)
    # equal but for where the searches end
    np.testing.assert_allclose(other.predict_proba(X), one.predict_proba(X), atol=1e-3)
    assert head(Columns(), prior_precision=3).fit(X, y).prior_precision_ == 3


# A net and its head


def test_a_head_on_a_net_predicts_and_draws(net):
    fitted = head(net).fit(X, y)
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
    # Embeddings are float32, in blocks of another shape: ten times what was seen.
    np.testing.assert_allclose(np.concatenate(parts, axis=1), draws, rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(fitted.sample_posterior(20, rng())(X), draws)
    assert np.abs(fitted.sample_posterior(20, rng(1))(X) - draws).max() > 0.01
    assert fitted.sample_posterior(None, rng())(X[:2]).shape == (100, 2, 3)
    check_posterior(fitted, X[:10])


def test_predictions_are_the_mean_of_the_draws(net):
    fitted = head(net, n_draws=4000).fit(X, y)
    draws = fitted.sample_posterior(4000, rng())(X[::10])
    # the difference of two means of 4000 draws, 5 standard errors
    error = 5 * draws.std(axis=0) * np.sqrt(2 / 4000)
    assert (np.abs(draws.mean(axis=0) - fitted.predict_proba(X[::10])) <= error).all()


def test_predictions_do_not_depend_on_blocks(net, monkeypatch):
    fitted = head(net).fit(X, y)
    whole = fitted.predict_proba(X)
    monkeypatch.setattr(_laplace, "_BLOCK_ELEMENTS", 2000)
    np.testing.assert_allclose(fitted.predict_proba(X), whole, atol=1e-12)


def test_functions_stay_what_they_are_when_the_head_is_fitted_again(net):
    fitted = head(net).fit(X, y)
    functions = fitted.sample_posterior(5, rng())
    before = functions(X)
    fitted.fit(X[:120], y[:120])
    np.testing.assert_array_equal(functions(X), before)


def test_bald_is_higher_away_from_the_data(net):
    fitted = head(net).fit(X, y)
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


def test_clone_parameters_and_pickle(net):
    estimator = head(net, prior_precision=2.0, n_draws=7)
    assert clone(estimator).get_params(deep=False) | {"net": None} == estimator.get_params(deep=False) | {"net": None}
    estimator.set_params(net__max_epochs=2, n_draws=9)
    assert estimator.net.max_epochs == 2
    estimator.set_params(net__max_epochs=30).fit(X, y)
    twin = pickle.loads(pickle.dumps(estimator))
    np.testing.assert_array_equal(twin.predict_proba(X), estimator.predict_proba(X))
    np.testing.assert_array_equal(twin.sample_posterior(3, rng())(X), estimator.sample_posterior(3, rng())(X))


def test_the_seed_decides(net):
    one, same, other = (LastLayerClassifier(net, random_state=s).fit(X, y) for s in (0, 0, 1))
    np.testing.assert_array_equal(one.predict_proba(X), same.predict_proba(X))
    assert np.abs(one.predict_proba(X) - other.predict_proba(X)).max() > 1e-4


def test_labels_that_were_not_seen_are_unlikely_where_the_others_are(net):
    declared = ["setosa", "virginica", "versicolor", "a new one"]
    fitted = head(net, classes=declared).fit(X, y)
    assert fitted.classes_.tolist() == ["a new one", "setosa", "versicolor", "virginica"]
    assert fitted.predict_proba(X)[:, 0].max() < 0.5
    single = head(net, classes=["setosa", "versicolor"]).fit(X[codes == 1], y[codes == 1])
    assert single.predict_proba(X[codes == 1])[:, 0].min() > 0.5
    unfitted = MCDropoutClassifier((8,), max_epochs=2, random_state=0)
    assert len(head(unfitted, classes=declared).fit(X, y).classes_) == 4
    assert (
        len(
            head(
                unfitted.set_params(classes=declared),
            )
            .fit(X, y)
            .classes_
        )
        == 4
    )
    with pytest.raises(ValueError, match="`classes` must list every label"):
        head(net, classes=["a new one", "setosa"]).fit(X, y)


def test_a_head_serves_queries_also_in_a_pipeline(net):
    pipeline = make_pipeline(StandardScaler(), head(FrozenEstimator(net))).fit(X[::3], y[::3])
    query = StochasticBatchQuery(score="bald", random_state=0)
    assert len(set(query.select(pipeline, X, n_instances=5).tolist())) == 5
    assert (query.scores_ > 0).all()


def test_global_state_is_untouched(net, global_state_untouched):
    head(net).fit(X, y).sample_posterior(5, rng())(X)


# scikit-learn's checks


@parametrize_with_checks([LastLayerClassifier()])
@pytest.mark.filterwarnings("ignore")  # the checks feed in what deserves warnings
def test_every_check_of_scikit_learn_passes(estimator, check):
    check(estimator)


# Bad input


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"prior_precision": 0}, '`prior_precision` must be "scale" or a finite number larger than 0'),
        ({"prior_precision": np.inf}, "`prior_precision`"),
        ({"prior_precision": "auto"}, "`prior_precision`"),
        ({"n_draws": 0}, "`n_draws` must be an integer, 1 or larger"),
    ],
)
def test_parameters_out_of_range(options, message):
    with pytest.raises(ValueError, match=message):
        LastLayerClassifier(Columns(), **options).fit(X, y)


def test_bad_nets_and_labels(net):
    with pytest.raises(TypeError, match=r"`net` must be None or .*method `embed\(X\)`.* Got LogisticRegression\(\)"):
        LastLayerClassifier(LogisticRegression()).fit(X, y)
    with pytest.raises(ValueError, match="Got one class"):
        head(net).fit(X[codes == 1], y[codes == 1])
    with pytest.raises(ValueError, match="inconsistent"):
        head(net).fit(X, y[40:60])
    with pytest.raises(ValueError, match="Unknown label type"):
        head(net).fit(X, X[:, 0])
    with pytest.raises(NotFittedError):
        head(net).sample_posterior(3, rng())
    with pytest.raises(ValueError, match=r"finite features .* Got infinite or NaN"):
        head(Columns()).fit(np.where(X[0, 0] == X, np.inf, X), y)

    class Flat(Columns):
        def embed(self, X):
            return X[:, 0]

    with pytest.raises(ValueError, match=r"Got shape \(150,\)"):
        head(Flat()).fit(X, y)


@pytest.mark.parametrize("make", [lambda: None, Columns, lambda: MCDropoutClassifier((4,), max_epochs=1)])
def test_labels_are_looked_at_alike_with_and_without_a_net(make):
    with pytest.raises(ValueError, match="requires y to be passed, but the target y is None"):
        head(make()).fit(X, None)
    with pytest.raises(ValueError, match=r"`y` must hold the label of one row or more\. Got none"):
        head(make(), classes=["setosa", "virginica"]).fit(X[:0], [])
    with pytest.raises(ValueError, match=r"`y` must have shape \(n_labelled,\)\. Got shape \(150, 2\)"):
        head(make()).fit(X, np.column_stack([y, y]))
    with pytest.warns(DataConversionWarning, match="A column-vector y was passed"):
        fitted = head(make()).fit(X, y[:, np.newaxis])
    assert fitted.predict(X).shape == (150,)


def test_a_weak_prior_on_separable_features_is_warned_of():
    noise = rng(4)
    x, labels = 100 * noise.standard_normal((20, 30)), noise.integers(4, size=20)
    with pytest.warns(UserWarning, match="is too wide.*larger `prior_precision` or"):
        head(Columns(30), prior_precision=0.01).fit(x, labels)
    head(Columns(30)).fit(x, labels)


# Covariances


def random_rows(n, n_features, n_classes, seed=0):
    noise = rng(seed)
    return noise.standard_normal((n, n_features)), noise.integers(n_classes, size=n)


def covariance_of(fitted, n_rows):
    """Of the weights class by class, exactly: see `UnitNoise`. No law asks for more noise than this."""
    n_classes, n_features = fitted.coef_.shape[0], fitted.coef_.shape[1] + 1
    size = n_classes * (n_features + n_rows)
    draws = fitted._draw_weights(size, UnitNoise(size))[0].transpose(1, 0, 2).reshape(n_classes * n_features, size)
    draws -= np.column_stack([fitted.coef_, fitted.intercept_]).reshape(-1, 1)
    return draws @ draws.T


@pytest.mark.arithmetic
@pytest.mark.parametrize(("n", "n_features", "n_classes"), [(12, 4, 3), (4, 9, 3), (30, 3, 5), (6, 6, 2)])
def test_the_covariance_is_the_inverse_hessian(n, n_features, n_classes):
    rows, labels = random_rows(n, n_features, n_classes)
    fitted = head(None, prior_precision=0.7, classes=range(n_classes)).fit(rows, labels)
    logits = rows @ fitted.coef_.T + fitted.intercept_
    expected = ref.laplace_covariance(with_ones(rows) / np.sqrt(0.7), softmax(logits, axis=1)) / 0.7
    np.testing.assert_allclose(covariance_of(fitted, n), expected, atol=1e-10)


@pytest.mark.parametrize("max_joint", [2**24, 0])
def test_many_draws_have_the_moments_of_their_law(max_joint, monkeypatch):
    monkeypatch.setattr(last_layer, "_MAX_JOINT", max_joint)
    n_draws = 4000
    rows, labels = random_rows(25, 3, 4, seed=5)
    fitted = head(None, prior_precision=0.7).fit(rows, labels)
    weights = fitted._draw_weights(n_draws, rng(6))[0].transpose(1, 0, 2).reshape(16, n_draws)
    expected = covariance_of(fitted, 25)
    deviation = np.sqrt(np.diag(expected))
    mean = np.column_stack([fitted.coef_, fitted.intercept_]).ravel()
    # 5 standard errors: of a mean, and of a product of two normals, at most sqrt(2) times their deviations
    assert (np.abs(weights.mean(axis=1) - mean) <= 5 * deviation / np.sqrt(n_draws)).all()
    bound = 5 * np.sqrt(2 / n_draws) * np.outer(deviation, deviation)
    assert (np.abs(np.cov(weights) - expected) <= bound).all()


def clusters(n_classes=40, n_features=12, seed=7):
    """Rows of many classes around centres of their own: two labelled rows a class, and others."""
    noise = rng(seed)
    centres = noise.standard_normal((n_classes, n_features))
    labels = np.tile(np.arange(n_classes), 2)
    labelled = centres[labels] + 0.5 * noise.standard_normal((len(labels), n_features))
    scale = noise.uniform(0.2, 3, (200, 1))  # near and far
    return labelled, labels, scale * (centres[noise.integers(n_classes, size=200)] + noise.standard_normal((200, 1)))


def test_class_by_class_ranks_rows_as_the_joint_law_does(monkeypatch):
    labelled, labels, others = clusters()
    scores = []
    for max_joint in (2**24, 0):
        monkeypatch.setattr(last_layer, "_MAX_JOINT", max_joint)
        scores.append(bald(head(None).fit(labelled, labels).sample_posterior(1000, rng(8))(others)))
    assert spearmanr(*scores)[0] > 0.99


@pytest.mark.parametrize("max_joint", [2**24, 0])
@pytest.mark.parametrize("n_labelled", [3, 150])
def test_every_size_serves_all_that_a_head_does(max_joint, n_labelled, monkeypatch, global_state_untouched):
    monkeypatch.setattr(last_layer, "_MAX_JOINT", max_joint)
    rows = np.linspace(0, 149, n_labelled).astype(int)
    fitted = head(None).fit(X[rows], y[rows])
    draws = fitted.sample_posterior(20, rng())(X)
    np.testing.assert_array_equal(fitted.sample_posterior(20, rng())(X), draws)
    functions = pickle.loads(pickle.dumps(fitted)).sample_posterior(20, rng())
    parts = [functions(X[i : i + 7]) for i in range(0, 150, 7)]
    np.testing.assert_allclose(np.concatenate(parts, axis=1), draws, atol=1e-12)
    check_posterior(fitted, X[:10])
    assert fitted.score(X[rows], y[rows]) > 0.8


# What features are taken from


def test_without_a_net_rows_are_features():
    fitted, same = head(None).fit(X, y), head(Columns()).fit(X, y)
    np.testing.assert_array_equal(fitted.predict_proba(X), same.predict_proba(X))
    np.testing.assert_array_equal(fitted.embed(X), X)
    assert (fitted.net_, fitted.n_features_in_) == (None, 4)
    assert LastLayerClassifier().net is None
    badge = BADGEQuery(random_state=0).select(fitted, X, n_instances=5)
    np.testing.assert_array_equal(badge, BADGEQuery(random_state=0).select(same, X, n_instances=5))
    with pytest.raises(ValueError, match="3 features, but LastLayerClassifier is expecting 4"):
        fitted.predict(X[:, :3])


def torch_module():
    with torch.random.fork_rng():
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
    expected = head(None).fit(hidden_units(module, X), y)
    np.testing.assert_allclose(fitted.predict_proba(X), expected.predict_proba(hidden_units(module, X)), atol=1e-4)
    functions = fitted.sample_posterior(3, rng())
    before = functions(X)
    with torch.no_grad():
        module[0].weight.zero_()  # another training
    np.testing.assert_array_equal(functions(X), before)
    twin = pickle.loads(pickle.dumps(fitted))
    np.testing.assert_array_equal(twin.embed(X), fitted.embed(X))
    assert len(StochasticBatchQuery(random_state=0).select(fitted, X, n_instances=3)) == 3


def skorch_net():
    return NeuralNetClassifier(
        torch_module, criterion=nn.CrossEntropyLoss, max_epochs=2, train_split=None, batch_size=-1, verbose=0
    )


def test_skorch_nets_are_taken_fitted_or_not_and_in_pipelines():
    rows = X.astype(np.float32)
    net = skorch_net().fit(rows, codes)
    fitted = head(net).fit(rows, y)
    assert fitted.net_ is net
    np.testing.assert_allclose(fitted.embed(rows), hidden_units(net.module_, rows), atol=1e-6)
    frozen = clone(head(FrozenEstimator(net))).fit(rows, y)
    np.testing.assert_array_equal(frozen.embed(rows), fitted.embed(rows))
    unfitted = skorch_net()
    trained = head(unfitted).fit(rows, y)
    assert not unfitted.initialized_
    assert trained.net_.initialized_
    assert trained.classes_.tolist() == ["setosa", "versicolor", "virginica"]
    assert trained.score(rows, y) > 0.8
    pipeline = make_pipeline(StandardScaler(), skorch_net())
    assert head(pipeline).fit(rows, y).score(rows, y) > 0.8
    pipeline.fit(rows, codes)
    piped = head(pipeline).fit(rows, y)
    scaled = pipeline[0].transform(rows)
    np.testing.assert_allclose(piped.embed(rows), hidden_units(pipeline[-1].module_, scaled), atol=1e-6)


def test_the_hidden_layer_of_scikit_learns_net_is_taken():
    net = MLPClassifier((5,), max_iter=20, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        net.fit(X, y)
    expected = np.maximum(X @ net.coefs_[0] + net.intercepts_[0], 0)
    np.testing.assert_allclose(head(net).fit(X, y).embed(X), expected, atol=1e-12)


def test_memory_stays_within_the_result_and_some_blocks(monkeypatch):
    monkeypatch.setattr(_laplace, "_BLOCK_ELEMENTS", 2**16)
    pool = rng(10).standard_normal((20_000, 30)).astype(np.float32)
    fitted = head(None, n_draws=10).fit(pool[:60], np.arange(60) % 10)
    functions = fitted.sample_posterior(10, rng())
    for answer, n_results in ((fitted.predict_proba, 1), (functions, 10)):
        tracemalloc.start()
        answer(pool)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        # a block is 0.5 MiB; a copy of the pool in float64 would be 4.6
        assert peak < 8 * 20_000 * 10 * n_results + 3 * 2**20


# Bad input of these


def test_features_that_are_no_numbers_in_columns():
    with pytest.raises(ValueError, match="contains NaN"):
        head(None).fit(np.where(X[0, 0] == X, np.nan, X), y)
    with pytest.raises(ValueError, match="Expected 2D array"):
        head(None).fit(X[:, 0], y)
    with pytest.raises(ValueError, match="inconsistent"):
        head(None).fit(X, y[:100])
    with pytest.raises(TypeError, match=r"[Ss]parse"):
        head(None).fit(sparse.csr_array(X), y)
    fitted = head(None).fit(X, y)
    with pytest.raises(ValueError, match="contains NaN"):
        fitted.sample_posterior(3, rng())(np.full((2, 4), np.nan))
    with pytest.raises(ValueError, match="Got infinite or NaN"):
        head(torch_module()).fit(np.where(X[0, 0] == X, np.nan, X), y)
    failed = head(None)
    for answer in (failed.embed, failed.predict, failed.predict_proba):
        with pytest.raises(ValueError, match="inconsistent"):
            failed.fit(X, y[:100])
        with pytest.raises(NotFittedError):
            answer(X)


def test_nets_that_have_no_features_to_give():
    with pytest.raises(TypeError, match=r"`net` must be None or a skorch net.* Got the class Linear"):
        head(nn.Linear).fit(X, y)
    with pytest.raises(ValueError, match=r"a last torch.nn.Linear layer. Got shape \(150, 0\)"):
        head(nn.Sequential(nn.Flatten(), nn.Softmax(dim=1))).fit(X, y)
    with pytest.raises(TypeError, match="Got Pipeline"):
        head(make_pipeline(StandardScaler(), LogisticRegression())).fit(X, y)
    with pytest.raises(TypeError, match="Got 'a net' instead"):
        head("a net").fit(X, y)
    with pytest.raises(ValueError, match="forward pass of this Sequential failed"):
        head(torch_module()).fit(X[:, :3], y)
