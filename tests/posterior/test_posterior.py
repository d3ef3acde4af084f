"""Posterior draws: the same K functions at every call, from every source."""

import numpy as np
import pandas as pd
import pytest
import skorch
import torch
from scipy import sparse
from sklearn.cluster import KMeans
from sklearn.datasets import load_diabetes, load_iris
from sklearn.ensemble import ExtraTreesClassifier, ExtraTreesRegressor, RandomForestClassifier, RandomForestRegressor
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LinearRegression, LogisticRegression, RidgeClassifier
from sklearn.model_selection import GridSearchCV
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from torch import nn

from skactive import MCDropoutClassifier, StochasticBatchQuery, sample_posterior
from skactive.posterior import bootstrap

X, codes = load_iris(return_X_y=True)
y = np.array(["setosa", "versicolor", "virginica"])[codes]
X32 = X.astype(np.float32)


def rng(seed=0):
    return np.random.default_rng(seed)


def mlp(n_outputs, *last):
    return nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Dropout(0.5), nn.Linear(16, n_outputs), *last)


def skorch_net(kind, module, target, **options):
    torch.manual_seed(0)
    return kind(module, max_epochs=3, verbose=0, **options).fit(X32, target)


FOREST = RandomForestClassifier(12, random_state=0).fit(X, y)
SOURCES = {
    "forest": lambda: FOREST,
    "search": lambda: GridSearchCV(
        make_pipeline(StandardScaler(), FOREST), {"randomforestclassifier__max_depth": [2, 3]}, cv=2
    ).fit(X, y),
    "skorch, logits": lambda: skorch_net(skorch.NeuralNetClassifier, mlp(3), codes, criterion=nn.CrossEntropyLoss),
    "skorch, binary": lambda: skorch_net(skorch.NeuralNetBinaryClassifier, mlp(1), (codes == 1).astype(np.float32)),
    "torch, log-probabilities": lambda: mlp(3, nn.LogSoftmax(-1)),
}


@pytest.mark.parametrize("name", SOURCES)
def test_draws_are_probabilities_and_the_same_functions_at_every_call(name):
    estimator = SOURCES[name]()
    functions = sample_posterior(estimator, 5, rng(1))
    draws = np.asarray(functions(X))
    assert draws.shape == (5, 150, 2 if "binary" in name else 3)
    assert (draws >= 0).all()
    np.testing.assert_allclose(draws.sum(-1), 1, atol=1e-5)
    assert (draws.std(0).max(-1) > 0).any()
    parts = [np.asarray(functions(X[i : i + 7])) for i in range(0, 150, 7)]
    # Float32 in nets of 16 units, and one machine's order of sums: ten times what was seen.
    is_net = name not in ("forest", "search")
    np.testing.assert_allclose(np.concatenate(parts, axis=1), draws, rtol=0, atol=1e-6 * is_net)
    np.testing.assert_array_equal(np.asarray(sample_posterior(estimator, 5, rng(1))(X)), draws)
    assert len(sample_posterior(estimator, None, rng())(X[:3])) == (100 if is_net else 12)


def test_the_mean_of_all_trees_is_what_the_forest_predicts():
    X_reg, t = load_diabetes(return_X_y=True)
    for kind in (RandomForestRegressor, ExtraTreesRegressor):
        forest = kind(8, random_state=0).fit(X_reg, t)
        np.testing.assert_allclose(sample_posterior(forest, None, rng())(X_reg).mean(0), forest.predict(X_reg))
    for forest in (FOREST, ExtraTreesClassifier(12, random_state=0, bootstrap=True).fit(X, y)):
        draws = sample_posterior(forest, None, rng())(X)
        np.testing.assert_allclose(draws.mean(0), forest.predict_proba(X), rtol=0, atol=1e-12)


def test_fewer_draws_than_members_are_distinct_members_in_their_order():
    everyone = sample_posterior(FOREST, None, rng())(X)
    some = sample_posterior(FOREST, 5, rng(3))(X)
    which = [int(np.flatnonzero((everyone == one).all((1, 2)))[0]) for one in some]
    assert which == sorted(set(which))
    assert len(which) == 5
    with pytest.raises(ValueError, match=r"`n_draws`.*12.*13"):
        sample_posterior(FOREST, 13, rng())


def test_a_forest_takes_frames_sparse_rows_and_gaps_without_warnings():
    # trees know codes and no feature names: src-d/style-analyzer PR 88, scikit-learn 26140
    frame = pd.DataFrame(X, columns=list("abcd"))
    forest = RandomForestClassifier(7, random_state=0).fit(frame, y)
    draws = sample_posterior(forest, None, rng())(frame.set_index(np.repeat(3, 150)))
    np.testing.assert_array_equal(draws[0], forest.estimators_[0].predict_proba(X32))
    for convert in (sparse.csr_matrix, sparse.csc_array):
        functions = sample_posterior(FOREST, None, rng())
        np.testing.assert_array_equal(functions(convert(X)), functions(X))
    gaps = np.where(np.arange(600).reshape(150, 4) % 11 == 0, np.nan, X)
    forest = RandomForestClassifier(5, random_state=0).fit(gaps, y)
    np.testing.assert_allclose(sample_posterior(forest, None, rng())(gaps).mean(0), forest.predict_proba(gaps))


@pytest.mark.parametrize("estimator", [GaussianNB(), KMeans(2, n_init=1)])
def test_what_has_no_draws_is_a_type_error_that_names_the_ways_out(estimator):
    with pytest.raises(TypeError, match=f"{type(estimator).__name__}.*bootstrap"):
        sample_posterior(make_pipeline(StandardScaler(), estimator).fit(X, codes), 3, rng())


def test_what_is_not_fitted_or_kept_no_model_is_refused():
    with pytest.raises(NotFittedError):
        sample_posterior(make_pipeline(RandomForestClassifier()), 3, rng())
    search = GridSearchCV(RandomForestClassifier(3), {"max_depth": [1]}, cv=2, refit=False).fit(X, y)
    with pytest.raises(ValueError, match="refit=True"):  # which queries do not answer with a batch at random
        StochasticBatchQuery().select(search, X, 3)


def test_a_net_of_one_target_gives_one_value_a_row():
    net = skorch_net(skorch.NeuralNetRegressor, mlp(1), X32[:, 3:])
    assert sample_posterior(net, 7, rng())(X).shape == (7, 150)


@pytest.mark.parametrize("n_jobs", [None, pytest.param(2, marks=pytest.mark.slow)])
def test_bootstrap_members_differ_and_are_reproducible(n_jobs):
    model = GaussianNB().fit(X, y)
    draws = bootstrap(model, X, y, None, rng())(X)
    assert draws.shape == (20, 150, 3)
    assert draws.std(0).max() > 0.01
    np.testing.assert_array_equal(bootstrap(model, X, y, None, rng(), n_jobs=n_jobs)(X), draws)


fits = []


class Weighs(GaussianNB):
    """Writes down how many rows a fit got, and with which weights."""

    def fit(self, X, y, sample_weight=None):
        fits.append((len(X), None if sample_weight is None else sample_weight.sum()))
        return super().fit(X, y, sample_weight)


class ByParts(Weighs):
    def __init__(self, batch_size=2):
        super().__init__()
        self.batch_size = batch_size


def test_bootstrap_members_get_counts_as_weights_unless_they_are_fitted_by_parts():
    for model in (Weighs(), ByParts()):
        bootstrap(model, X, y, 2, rng())
    assert fits == [(150, 150)] * 2 + [(150, None)] * 2


def test_no_bootstrap_member_misses_a_class_that_has_a_row_to_give():
    labels = np.array(["rare", *["common"] * 149])
    members = bootstrap(LogisticRegression().fit(X, labels), X, labels, 10, rng())
    assert (members(X[:1])[:, 0, 1] > 0).all()


def test_bootstrap_members_without_probabilities_vote_and_regressors_give_values():
    draws = bootstrap(RidgeClassifier().fit(X, y), X, y, 6, rng())(X)
    assert set(np.unique(draws)) == {0.0, 1.0}
    np.testing.assert_array_equal(draws.sum(-1), 1)
    assert (draws.mean(0).argmax(-1) == codes).mean() > 0.7
    assert bootstrap(LinearRegression().fit(X, codes), X, codes, 4, rng())(X).shape == (4, 150)


def test_bootstrap_columns_are_those_of_the_estimator_also_for_classes_it_never_saw():
    names = ["never", "setosa", "versicolor", "virginica"]
    net = MCDropoutClassifier((8,), max_epochs=2, classes=names, random_state=0)
    assert bootstrap(net.fit(X, y), X, y, 2, rng())(X).shape == (2, 150, 4)


def test_bootstrap_refuses_labels_that_do_not_fit_the_rows():
    with pytest.raises(ValueError, match="`y` must have a label for each row"):
        bootstrap(RidgeClassifier(), X[:5], y[:9], 3, rng())
