"""Posterior draws: the same K functions at every call, from every source."""

import numpy as np
import pandas as pd
import pytest
import skorch
import torch
from scipy import sparse
from sklearn.cluster import KMeans
from sklearn.datasets import load_diabetes, load_iris
from sklearn.ensemble import (
    ExtraTreesClassifier,
    ExtraTreesRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LinearRegression, LogisticRegression, RidgeClassifier
from sklearn.model_selection import GridSearchCV
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from torch import nn

from skactive import MCDropoutClassifier, MCDropoutRegressor, sample_posterior
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
CLASSIFIERS = {
    "forest": lambda: FOREST,
    "extra trees": lambda: ExtraTreesClassifier(12, random_state=0, bootstrap=True).fit(X, y),
    "pipeline": lambda: make_pipeline(StandardScaler(), RandomForestClassifier(12, random_state=0)).fit(X, y),
    "pipeline of one step": lambda: make_pipeline(RandomForestClassifier(12, random_state=0)).fit(X, y),
    "search": lambda: GridSearchCV(
        make_pipeline(StandardScaler(), RandomForestClassifier(12, random_state=0)),
        {"randomforestclassifier__max_depth": [2, 3]},
        cv=2,
    ).fit(X, y),
}
NETS = {
    "our net": lambda: MCDropoutClassifier((16,), max_epochs=5, random_state=0).fit(X, y),
    "our net in a pipeline": lambda: make_pipeline(StandardScaler(), MCDropoutClassifier((16,), max_epochs=5)).fit(
        X, y
    ),
    "skorch, logits": lambda: skorch_net(skorch.NeuralNetClassifier, mlp(3), codes, criterion=nn.CrossEntropyLoss),
    "skorch, probabilities": lambda: skorch_net(skorch.NeuralNetClassifier, mlp(3, nn.Softmax(-1)), codes),
    "skorch, binary": lambda: skorch_net(skorch.NeuralNetBinaryClassifier, mlp(1), (codes == 1).astype(np.float32)),
    "torch, logits": lambda: mlp(3),
    "torch, probabilities": lambda: mlp(3, nn.Softmax(-1)),
    "torch, log-probabilities": lambda: mlp(3, nn.LogSoftmax(-1)),
}


@pytest.mark.parametrize("name", CLASSIFIERS)
def test_the_mean_of_all_members_is_predict_proba(name):
    estimator = CLASSIFIERS[name]()
    draws = sample_posterior(estimator, None, rng())(X)
    assert draws.shape == (12, 150, 3)
    np.testing.assert_allclose(draws.mean(0), estimator.predict_proba(X), rtol=0, atol=1e-12)


@pytest.mark.parametrize("name", [*CLASSIFIERS, *NETS])
def test_draws_are_probabilities_and_the_same_functions_at_every_call(name):
    estimator = (CLASSIFIERS | NETS)[name]()
    functions = sample_posterior(estimator, 5, rng(1))
    draws = np.asarray(functions(X))
    assert draws.shape == (5, 150, 2 if "binary" in name else 3)
    assert (draws >= 0).all()
    np.testing.assert_allclose(draws.sum(-1), 1, atol=1e-5)
    assert (draws.std(0).max(-1) > 0).any()
    parts = [np.asarray(functions(X[i : i + 7])) for i in range(0, 150, 7)]
    # Float32 in nets of 16 units, and one machine's order of sums: ten times what was seen.
    np.testing.assert_allclose(np.concatenate(parts, axis=1), draws, rtol=0, atol=1e-6 if name in NETS else 0)
    again = np.asarray(sample_posterior(estimator, 5, rng(1))(X))
    np.testing.assert_array_equal(again, draws)


@pytest.mark.parametrize("name", NETS)
def test_a_net_gives_100_draws_unless_told_otherwise(name):
    assert sample_posterior(NETS[name](), None, rng())(X[:3]).shape[0] == 100


def test_the_three_kinds_of_outputs_of_one_net_give_the_same_draws():
    module = mlp(3)
    draws = [
        sample_posterior(m, 4, rng())(X32)
        for m in (module, nn.Sequential(module, nn.Softmax(-1)), nn.Sequential(module, nn.LogSoftmax(-1)))
    ]
    np.testing.assert_allclose(draws[1], draws[0], atol=1e-6)
    np.testing.assert_allclose(draws[2], draws[0], atol=1e-6)


def test_a_skorch_net_gets_its_own_nonlinearity_once():
    net = NETS["skorch, logits"]()
    draws = sample_posterior(net, 2000, rng())(X32[:5])
    module = net.module_.train()
    torch.manual_seed(0)
    with torch.no_grad():
        theirs = torch.stack([module(torch.from_numpy(X32[:5])).softmax(-1) for _ in range(2000)])
    # two means over 2,000 draws, 5 standard errors of their difference
    error = 5 * (draws.std(0) ** 2 + theirs.std(0) ** 2).sqrt() / np.sqrt(2000)
    assert ((draws.mean(0) - theirs.mean(0)).abs() <= error).all()


def test_a_skorch_net_of_logits_under_a_loss_for_probabilities_is_refused_with_what_was_seen():
    from skactive.scores import bald

    net = skorch.NeuralNetClassifier(mlp(3), criterion=nn.NLLLoss).initialize()
    with pytest.raises(ValueError, match="softmax"):
        bald(sample_posterior(net, 3, rng())(X32))


REGRESSORS = {
    "forest": lambda X, t: RandomForestRegressor(8, random_state=0).fit(X, t),
    "extra trees": lambda X, t: ExtraTreesRegressor(8, random_state=0).fit(X, t),
    "pipeline": lambda X, t: make_pipeline(StandardScaler(), RandomForestRegressor(8, random_state=0)).fit(X, t),
}


@pytest.mark.parametrize("name", REGRESSORS)
def test_the_mean_over_the_members_of_a_regressor_is_its_prediction(name):
    X, t = load_diabetes(return_X_y=True)
    estimator = REGRESSORS[name](X, t)
    draws = sample_posterior(estimator, None, rng())(X)
    assert draws.shape == (8, len(X))
    np.testing.assert_allclose(draws.mean(0), estimator.predict(X))


def test_regression_nets_draw_one_value_a_row():
    t = X[:, 3:] * 10
    for net in (
        skorch_net(skorch.NeuralNetRegressor, mlp(1), t.astype(np.float32)),
        MCDropoutRegressor((16,), max_epochs=3, random_state=0).fit(X, t.ravel()),
    ):
        assert sample_posterior(net, 7, rng())(X).shape == (7, 150)


def test_fewer_draws_than_members_are_distinct_members_in_their_order():
    everyone = sample_posterior(FOREST, None, rng())(X)
    some = sample_posterior(FOREST, 5, rng(3))(X)
    which = [int(np.flatnonzero((everyone == one).all((1, 2)))[0]) for one in some]
    assert which == sorted(set(which))
    assert len(which) == 5


def test_more_draws_than_members_is_a_value_error_that_names_both():
    with pytest.raises(ValueError, match=r"`n_draws`.*12.*13"):
        sample_posterior(FOREST, 13, rng())


def test_a_forest_fitted_to_a_frame_with_text_labels_gives_one_draw_a_tree_without_warnings():
    # trees know codes and no feature names: src-d/style-analyzer PR 88, scikit-learn 26140
    frame = pd.DataFrame(X, columns=list("abcd"))
    forest = RandomForestClassifier(7, random_state=0).fit(frame, y)
    pool = frame.set_index(np.repeat(3, 150))
    draws = sample_posterior(forest, None, rng())(pool)
    np.testing.assert_allclose(draws.mean(0), forest.predict_proba(pool))
    np.testing.assert_array_equal(draws[0], forest.estimators_[0].predict_proba(X32))


@pytest.mark.parametrize("convert", [sparse.csr_matrix, sparse.csc_matrix, sparse.csr_array])
def test_sparse_rows_give_the_draws_of_dense_ones(convert):
    np.testing.assert_array_equal(
        sample_posterior(FOREST, None, rng())(convert(X)), sample_posterior(FOREST, None, rng())(X)
    )


def test_missing_values_are_the_forests_business():
    gaps = np.where(np.arange(600).reshape(150, 4) % 11 == 0, np.nan, X)
    forest = RandomForestClassifier(5, random_state=0).fit(gaps, y)
    np.testing.assert_allclose(sample_posterior(forest, None, rng())(gaps).mean(0), forest.predict_proba(gaps))


def test_an_object_with_the_method_is_asked_for_its_draws():
    class Constant:
        def sample_posterior(self, n_draws, rng):
            return lambda X: np.full((n_draws, len(X), 2), 0.5)

    assert sample_posterior(Constant(), 3, rng())(X).shape == (3, 150, 2)


def test_a_type_can_be_registered():
    class Mine:
        pass

    sample_posterior.register(Mine, lambda estimator, n_draws, rng: lambda X: np.ones((1, len(X), 1)))
    assert sample_posterior(Mine(), None, rng())(X).shape == (1, 150, 1)


@pytest.mark.parametrize("estimator", [GaussianNB(), KNeighborsClassifier(), KMeans(2, n_init=1)])
def test_what_has_no_draws_is_a_type_error_that_names_the_ways_out(estimator):
    with pytest.raises(TypeError, match="bootstrap") as caught:
        sample_posterior(estimator.fit(X, codes), 3, rng())
    assert type(estimator).__name__ in str(caught.value)
    with pytest.raises(TypeError, match=type(estimator).__name__):
        sample_posterior(make_pipeline(StandardScaler(), estimator).fit(X, codes), 3, rng())


def test_what_is_not_fitted_is_a_not_fitted_error():
    for estimator in (RandomForestClassifier(), make_pipeline(RandomForestClassifier())):
        with pytest.raises(NotFittedError):
            sample_posterior(estimator, 3, rng())


def test_several_outputs_are_refused():
    forest = RandomForestClassifier(3, random_state=0).fit(X, np.c_[codes > 0, codes > 1])
    with pytest.raises(ValueError, match="several outputs"):
        sample_posterior(forest, None, rng())
    net = skorch_net(skorch.NeuralNetRegressor, mlp(2), X32[:, :2])
    with pytest.raises(ValueError, match="several outputs"):
        sample_posterior(net, 3, rng())(X32)


def test_a_search_that_kept_no_model_is_refused():
    search = GridSearchCV(RandomForestClassifier(3), {"max_depth": [1]}, cv=2, refit=False).fit(X, y)
    with pytest.raises(ValueError, match="refit"):
        sample_posterior(search, None, rng())


# --- bootstrap


@pytest.mark.slow
def test_bootstrap_members_differ_and_are_reproducible():
    model = LogisticRegression(max_iter=500).fit(X, y)
    draws = bootstrap(model, X, y, None, rng())(X)
    assert draws.shape == (20, 150, 3)
    assert draws.std(0).max() > 0.01
    np.testing.assert_array_equal(bootstrap(model, X, y, None, rng(), n_jobs=2)(X), draws)


def test_no_bootstrap_member_misses_a_class_that_has_a_row_to_give():
    labels = np.array(["rare", *["common"] * 149])
    members = bootstrap(LogisticRegression(max_iter=500).fit(X, labels), X, labels, 30, rng())
    assert (members(X[:1])[:, 0, 1] > 0).all()


def test_members_without_probabilities_vote():
    draws = bootstrap(RidgeClassifier().fit(X, y), X, y, 6, rng())(X)
    assert set(np.unique(draws)) == {0.0, 1.0}
    np.testing.assert_array_equal(draws.sum(-1), 1)
    assert (draws.mean(0).argmax(-1) == codes).mean() > 0.7


def test_bootstrap_columns_are_those_of_the_estimator_also_for_classes_it_never_saw():
    net = MCDropoutClassifier(
        (8,), max_epochs=2, classes=["never", "setosa", "versicolor", "virginica"], random_state=0
    )
    draws = bootstrap(net.fit(X, y), X, y, 2, rng())(X)
    assert draws.shape == (2, 150, 4)


@pytest.mark.parametrize("wrap", [np.asarray, pd.DataFrame, lambda a: a.tolist(), sparse.csc_matrix])
def test_bootstrap_takes_every_container(wrap):
    model = RandomForestClassifier(5)
    expected = bootstrap(model.fit(X, y), X, y, 3, rng())(X)
    np.testing.assert_allclose(bootstrap(model.fit(wrap(X), y), wrap(X), y.tolist(), 3, rng())(wrap(X)), expected)


def test_bootstrap_of_a_regressor_draws_values():
    draws = bootstrap(LinearRegression().fit(X, codes), X, codes, 4, rng())(X)
    assert draws.shape == (4, 150)
    assert draws.std(0).max() > 0


def test_bootstrap_members_of_a_search_use_the_parameters_found():
    search = GridSearchCV(KNeighborsClassifier(), {"n_neighbors": [7]}, cv=2).fit(X, y)
    np.testing.assert_array_equal(
        bootstrap(search, X, y, 3, rng())(X), bootstrap(KNeighborsClassifier(7).fit(X, y), X, y, 3, rng())(X)
    )
