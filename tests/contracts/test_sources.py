"""Every classifier and regressor of scikit-learn in a query gives a valid batch."""

import warnings

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import make_classification, make_regression
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor
from sklearn.utils.discovery import all_estimators

from skactive import StochasticBatchQuery

X, y = make_classification(60, 5, n_informative=4, n_redundant=0, n_classes=3, n_clusters_per_class=1, random_state=0)
X = np.abs(X)  # some take no negative numbers
names = np.array(["c", "a", "b"])[y]
X_reg, t = make_regression(60, 5, noise=20.0, random_state=0)
X_reg, t = np.abs(X_reg), np.abs(t) + 1.0

# What a constructor asks for where it has no default.
CLASSIFIER = DecisionTreeClassifier(max_depth=3, random_state=0)
REGRESSOR = DecisionTreeRegressor(max_depth=3, random_state=0)
ARGUMENTS = {
    "StackingClassifier": {"estimators": [("a", CLASSIFIER), ("b", LogisticRegression())], "cv": 2},
    "VotingClassifier": {"estimators": [("a", CLASSIFIER), ("b", LogisticRegression())]},
    "StackingRegressor": {"estimators": [("a", REGRESSOR), ("b", Ridge())], "cv": 2},
    "VotingRegressor": {"estimators": [("a", REGRESSOR), ("b", Ridge())]},
    "GridSearchCV": {"param_grid": {"max_depth": [2]}, "cv": 2},
    "HalvingGridSearchCV": {"param_grid": {"max_depth": [2]}, "cv": 2},
    "RandomizedSearchCV": {"param_distributions": {"max_depth": [2, 3]}, "n_iter": 1, "cv": 2},
    "HalvingRandomSearchCV": {"param_distributions": {"max_depth": [2, 3]}, "cv": 2},
    "Pipeline": {"steps": [("tree", CLASSIFIER)]},
    "CalibratedClassifierCV": {"cv": 2},
    "RadiusNeighborsClassifier": {"radius": 10.0},
    "RadiusNeighborsRegressor": {"radius": 10.0},
    "CCA": {"n_components": 1},
    "PLSCanonical": {"n_components": 1},
    "RANSACRegressor": {"min_samples": 0.5, "max_trials": 5},
    "TheilSenRegressor": {"max_subpopulation": 50},
    "TunedThresholdClassifierCV": {"cv": 2, "thresholds": 5},
    "LassoCV": {"cv": 2},
    "ElasticNetCV": {"cv": 2},
    "IsotonicRegression": {"out_of_bounds": "clip"},  # NaN outside of what a member saw is refused as draws
}

ITERATIVE = {"LogisticRegressionCV", "MLPClassifier", "MLPRegressor", "ElasticNetCV", "LassoCV"}
BINARY = {"FixedThresholdClassifier", "TunedThresholdClassifierCV"}


def make(name, estimator_class, kind):
    inner = clone(CLASSIFIER if kind == "classifier" else REGRESSOR)
    parameters = set(estimator_class._get_param_names())
    wanted = {"n_estimators": 5, "random_state": 0, "estimator": inner}
    if "estimator" not in parameters:
        wanted["base_estimator"] = inner  # as some have it in scikit-learn 1.6
    if name in ITERATIVE or "HistGradient" in name:
        wanted["max_iter"] = 50
    return estimator_class(**{p: wanted[p] for p in parameters & set(wanted)}, **ARGUMENTS.get(name, {}))


def outcome(name, estimator_class, kind):
    """What a query on the fitted estimator came to, and what it said."""
    data, target = (X, names) if kind == "classifier" else (X_reg, t)
    target = y if name == "SelfTrainingClassifier" else target  # which takes no text
    target = target == "a" if name in BINARY else target
    data = data[:, :1] if name == "IsotonicRegression" else data
    estimator = make(name, estimator_class, kind)
    try:
        estimator.fit(data, target)
    except Exception as error:
        return "cannot be fitted to one target", str(error)
    query = StochasticBatchQuery("bald" if kind == "classifier" else "variance", n_draws=2, random_state=0)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            indices = query.select(estimator, data, 7, X_training=data, y_training=target)
        except (ValueError, TypeError, NotFittedError) as error:
            return "documented error", str(error)
    assert len(set(indices.tolist())) == 7
    assert np.isfinite(query.scores_).all()
    bootstrapped = any("refitted to resampled training data" in str(w.message) for w in caught)
    return ("bootstrapped" if bootstrapped else "draws of its own"), ""


@pytest.mark.filterwarnings("ignore")  # of tiny data: convergence, collinearity, classes with few members
@pytest.mark.parametrize("kind", ["classifier", "regressor"])
def test_every_estimator_gives_a_batch_or_cannot_be_fitted_to_one_target(kind):
    found = {name: outcome(name, made, kind) for name, made in all_estimators(type_filter=kind)}
    assert len(found) > 35
    refused = {name for name, (result, _) in found.items() if result == "cannot be fitted to one target"}
    assert refused == {name for name in found if name.startswith(("MultiO", "MultiT")) or name.endswith("Chain")}
    errors = {name: message for name, (result, message) in found.items() if result == "documented error"}
    assert errors == {}
    assert sum(result == "draws of its own" for result, _ in found.values()) > 5
