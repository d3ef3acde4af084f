"""Labels of shape (n, 1): nets of one output are fitted with them as they came, wherever a model is fitted."""

import numpy as np
import pandas as pd
import pytest
import torch
from modAL.models import ActiveLearner
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.compose import TransformedTargetRegressor
from sklearn.ensemble import BaggingRegressor, RandomForestClassifier, RandomForestRegressor
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from skorch import NeuralNetRegressor
from torch import nn

from skactive import MCDropoutRegressor, StochasticBatchQuery, StoppingReport, run_experiment
from skactive._utils.validation import check_labels
from skactive.posterior import bootstrap
from skactive.posterior._wrappers import labels_to_fit
from skactive.risk import ActiveTester

X = np.random.default_rng(0).normal(size=(400, 4)).astype(np.float32)
Y = (X @ np.array([1, 2, -1, 0.5], np.float32))[:, np.newaxis]


class Column(nn.Module):
    """Returns (n, 1), or (n,)."""

    def __init__(self, flat=False):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(4, 32), nn.ReLU(), nn.Dropout(0.0), nn.Linear(32, 1))
        self.flat = flat

    def forward(self, x):
        out = self.layers(x)
        return out[:, 0] if self.flat else out


def net(**parameters):
    return NeuralNetRegressor(
        Column,
        max_epochs=60,
        lr=0.05,
        optimizer=torch.optim.Adam,
        batch_size=-1,
        train_split=None,
        verbose=0,
        **parameters,
    )


WRAPPED = {
    "alone": net(),
    "pipeline": make_pipeline(StandardScaler(), net()),
    "transformed target": TransformedTargetRegressor(net(), transformer=StandardScaler()),
    "search": GridSearchCV(net(), {"lr": [0.05]}, cv=2),
}
QUERY = StochasticBatchQuery("std_dev", posterior=RandomForestRegressor(5))


class Seeing(RegressorMixin, BaseEstimator):
    """Notes the shape of its labels."""

    def fit(self, X, y):
        self.shape_, self.mean_ = y.shape, np.mean(y, axis=0)
        return self

    def predict(self, X):
        return np.full((len(X), *self.shape_[1:]), self.mean_)


@pytest.mark.parametrize("name", WRAPPED)
def test_a_net_learns_from_a_column_of_labels_in_an_experiment_as_it_does_by_hand(name):
    result = run_experiment(
        WRAPPED[name], {"query": QUERY}, X, Y, n_initial=150, n_rounds=1, n_trials=1, random_state=0
    )  # fmt: skip
    assert result.to_frame()["score"].min() >= 0.99


def test_a_module_of_one_axis_learns_from_labels_of_one_axis():
    result = run_experiment(
        net(module__flat=True), {"query": QUERY}, X, Y[:, 0], n_initial=150, n_rounds=1, n_trials=1, random_state=0
    )
    assert result.to_frame()["score"].min() >= 0.99


def test_scorers_get_labels_of_the_shape_that_the_model_was_fitted_to():
    shapes = []

    def scorer(estimator, X, y):
        shapes.append((y.shape, np.shape(estimator.predict(X))))
        return -float(np.mean((estimator.predict(X) - y) ** 2))

    for estimator in (Seeing(), RandomForestRegressor(3)):
        run_experiment(
            estimator, {"q": QUERY}, X, Y, X_test=X[:50], y_test=Y[:50], n_initial=20, n_rounds=1, n_trials=1,
            scoring=scorer, random_state=0,
        )  # fmt: skip
    assert shapes == [((50, 1), (50, 1))] * 2 + [((50,), (50,))] * 2


@pytest.mark.parametrize("name", ["alone", "transformed target"])
def test_a_bootstrap_of_nets_has_draws_without_the_axis_and_members_that_learned(name):
    draws = bootstrap(WRAPPED[name], X[:150], Y[:150], 2, np.random.default_rng(0))(X)
    assert draws.shape == (2, 400)
    errors = np.mean((draws[:, 300:] - Y[300:, 0]) ** 2, axis=1)
    assert (1 - errors / Y[300:].var() >= 0.9).all()


def test_surrogates_reports_and_testers_take_columns():
    learner = ActiveLearner(net(), X_training=X[:100], y_training=Y[:100])
    query = StochasticBatchQuery("std_dev", posterior=RandomForestRegressor(5), random_state=0)
    assert len(query.select(learner, X[100:], 3)) == 3  # without scikit-learn's warning of a column
    forest = RandomForestRegressor(5)
    report = StoppingReport.from_learner(learner, X[100:], posterior=forest)
    learner.teach(X[100:110], Y[100:110])
    assert np.isfinite(StoppingReport.from_learner(learner, X[110:], report, posterior=forest).gains).all()
    tester = ActiveTester(StochasticBatchQuery("std_dev", posterior=RandomForestRegressor(5), epsilon=0.5), X[200:])
    tester.tell(Y[200:][tester.ask(learner.estimator, 30, X_training=X[:100], y_training=Y[:100])])
    assert tester.labels_.shape == (30,)
    assert tester.risk(learner.estimator, "squared_error").value < 0.1 * Y.var()


@pytest.mark.parametrize(
    ("estimator", "wants_column"),
    [
        (net(), True),
        (make_pipeline(StandardScaler(), net()), True),
        (make_pipeline(TransformedTargetRegressor(net())), True),
        (GridSearchCV(make_pipeline(net()), {}), True),
        (Seeing(), True),
        (LinearRegression(), False),
        (RandomForestRegressor(), False),
        (BaggingRegressor(net()), False),  # which flattens them itself, with a warning
        (TransformedTargetRegressor(), False),
        (TransformedTargetRegressor(RandomForestRegressor()), False),
        (MCDropoutRegressor(), False),
        (make_pipeline(StandardScaler(), RandomForestClassifier()), False),
        (type("Mine", (RandomForestRegressor,), {})(), False),
    ],
)
def test_what_takes_one_axis_gets_one_and_the_rest_gets_what_came(estimator, wants_column):
    assert labels_to_fit(estimator, Y).shape == ((400, 1) if wants_column else (400,))
    assert labels_to_fit(estimator, pd.DataFrame(Y)).shape == ((400, 1) if wants_column else (400,))
    assert labels_to_fit(estimator, Y[:, 0]).shape == (400,)
    assert check_labels(Y).shape == (400,)
    with pytest.raises(ValueError, match="several outputs"):
        labels_to_fit(estimator, np.repeat(Y, 2, axis=1))


@pytest.mark.parametrize("estimator", [RandomForestRegressor(5), LinearRegression()])
def test_estimators_of_one_axis_fit_and_score_a_column_as_they_do_one_axis_without_a_warning(estimator):
    results = [
        run_experiment(estimator, {"q": QUERY}, X, y, n_initial=30, n_rounds=2, n_trials=1, random_state=0).to_frame()
        for y in (Y, Y[:, 0])
    ]
    times = [name for name in results[0] if "seconds" in name]
    pd.testing.assert_frame_equal(*(frame.drop(columns=times) for frame in results))


def test_a_column_of_classes_is_one_axis_to_a_classifier():
    classes = (Y > 0).astype(int)
    result = run_experiment(
        RandomForestClassifier(5), {"q": StochasticBatchQuery()}, X, classes, n_initial=20, n_rounds=1, n_trials=1
    )
    assert result.to_frame()["score"].min() > 0.5


def test_two_columns_are_refused():
    with pytest.raises(ValueError, match="`y` must have shape"):
        run_experiment(net(), {"q": QUERY}, X, np.repeat(Y, 2, axis=1), n_initial=20, n_rounds=1)
    with pytest.raises(ValueError, match="several outputs"):
        bootstrap(net(), X, np.repeat(Y, 2, axis=1), 2, np.random.default_rng(0))
