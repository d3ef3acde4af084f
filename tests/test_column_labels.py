"""Labels of shape (n, 1): nets of one output are fitted with them as they came, wherever a model is fitted."""

import numpy as np
import pytest
import torch
from modAL.models import ActiveLearner
from sklearn.compose import TransformedTargetRegressor
from sklearn.ensemble import RandomForestRegressor
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from skorch import NeuralNetRegressor
from torch import nn

from skactive import StochasticBatchQuery, StoppingReport, run_experiment
from skactive.posterior import bootstrap
from skactive.risk import ActiveTester

X = np.random.default_rng(0).normal(size=(400, 4)).astype(np.float32)
Y = (X @ np.array([1, 2, -1, 0.5], np.float32))[:, np.newaxis]
QUERY = StochasticBatchQuery("std_dev", posterior=RandomForestRegressor(5))
ONE_TRIAL = {"n_rounds": 1, "n_trials": 1, "random_state": 0}


def net():
    """Returns (n, 1)."""
    options = {"max_epochs": 40, "lr": 0.05, "optimizer": torch.optim.Adam, "batch_size": -1}
    layers = nn.Linear(4, 32), nn.ReLU(), nn.Linear(32, 1)
    torch.manual_seed(0)
    return NeuralNetRegressor(nn.Sequential(*layers), train_split=None, verbose=0, **options)


@pytest.mark.parametrize(
    "model",
    [
        TransformedTargetRegressor(make_pipeline(StandardScaler(), net()), transformer=StandardScaler()),
        GridSearchCV(net(), {"lr": [0.05]}, cv=2),
    ],
    ids=["pipeline and transformed target", "search"],
)
def test_a_net_learns_from_the_labels_of_its_shape_in_an_experiment(model):
    result = run_experiment(model, {"query": QUERY}, X, Y, n_initial=150, **ONE_TRIAL)
    assert result.to_frame()["score"].min() >= 0.95


def test_a_bootstrap_of_nets_has_draws_without_the_axis_and_members_that_learned():
    draws = bootstrap(TransformedTargetRegressor(net()), X[:150], Y[:150], 2, np.random.default_rng(0))(X)
    assert draws.shape == (2, 400)
    errors = np.mean((draws[:, 300:] - Y[300:, 0]) ** 2, axis=1)
    assert (1 - errors / Y[300:].var() >= 0.8).all()


def test_surrogates_reports_and_testers_take_columns():
    forest = RandomForestRegressor(5)
    learner = ActiveLearner(net(), X_training=X[:100], y_training=Y[:100])
    query = StochasticBatchQuery("std_dev", posterior=forest, random_state=0)
    assert len(query.select(learner, X[100:], 3)) == 3  # without scikit-learn's warning of a column
    report = StoppingReport.from_learner(learner, X[100:])
    learner.teach(X[100:110], Y[100:110])
    assert np.isfinite(StoppingReport.from_learner(learner, X[110:], report).gains).all()
    tester = ActiveTester(StochasticBatchQuery("std_dev", posterior=forest, epsilon=0.5), X[200:])
    tester.tell(Y[200:][tester.ask(learner.estimator, 30, X_training=X[:100], y_training=Y[:100])])
    assert tester.labels_.shape == (30,)
    assert tester.risk(learner.estimator, "squared_error").value < 0.2 * Y.var()


def test_estimators_of_one_axis_fit_and_score_a_column_as_they_do_one_axis_without_a_warning():
    column, one_axis = (
        run_experiment(RandomForestRegressor(5), {"q": QUERY}, X, y, n_initial=30, **ONE_TRIAL).to_frame()
        for y in (Y, Y[:, 0])
    )
    assert column["score"].tolist() == one_axis["score"].tolist()
