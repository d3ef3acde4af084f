"""What queries and estimates of effects say to bad input."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LinearRegression
from sklearn.tree import DecisionTreeClassifier

from skactive import CausalBALDQuery, StochasticBatchQuery
from skactive.causal import estimate_effects, predict_effects
from skactive.datasets import make_causal

X, Y, _ = make_causal(60, np.random.default_rng(0))
OUTCOMES = RandomForestRegressor(10, random_state=0).fit(X[:30], Y[:30])
POOL = X[30:]


def batch(pool=POOL, model=OUTCOMES, given=None, **params):
    return CausalBALDQuery(**{"treatment": 1, "random_state": 0, **params}).select(model, pool, 3, **(given or {}))


def test_a_treatment_that_is_no_column_is_refused():
    for treatment, says in [(2, "from -2 to 1.*Got 2"), ("t", "position.*Got 't'"), (True, "Got True")]:
        for call in (lambda name: batch(treatment=name), lambda name: predict_effects(OUTCOMES, POOL, name)):
            with pytest.raises(ValueError, match=f"`treatment` must.*{says}"):
                call(treatment)
    frame = pd.DataFrame(POOL, columns=["drug", "drug"])
    with pytest.raises(ValueError, match=r"once among 'drug', 'drug'\. Got 'drug'"):
        predict_effects(OUTCOMES, frame, "drug")


def treated(*values):
    """A pool with these in its treatment column, and what was there below."""
    pool = POOL.copy()
    pool[: len(values), 1] = values
    return pool


def test_treatments_other_than_0_and_1_are_refused():
    for value in (2, 0.5, math.nan):
        with pytest.raises(ValueError, match=rf"`treatment` must be 0 or 1 in every row. Got .*{value}"):
            batch(treated(value, 1, 0))
    for column, wrong in ([0, 1, None], "None"), ([0, 1, "high"], "'high'"), (["0", "1", "1"], "'0'"):
        frame = pd.DataFrame({"x": 0.0, "t": pd.Series(column, dtype=object)})
        with pytest.raises(ValueError, match=f"`treatment` must be 0 or 1 in every row. Got {wrong}"):
            batch(frame)
    text = pd.DataFrame({"x": 0.0, "t": pd.Categorical(["0", "1"])})  # 0 would be none of its categories
    with pytest.raises(ValueError, match=r"Got '0'\. Code other treatments, and text, as numbers 0 and 1"):
        predict_effects(OUTCOMES, text, "t")


def test_a_constant_treatment_is_refused_unless_the_labelled_rows_have_the_other():
    pool = treated(*np.ones(len(POOL)))
    for given in ({}, {"X_training": pool[:5], "y_training": Y[30:35]}):
        with pytest.raises(ValueError, match="`treatment` is 1 in every row of the pool"):
            batch(pool, given=given)
    assert len(batch(pool, given={"X_training": X, "y_training": Y})) == 3


def test_what_predicts_no_outcome_is_refused():
    forest = RandomForestClassifier(5, random_state=0).fit(X, Y > 0)
    for call in (batch, lambda model: estimate_effects(model, POOL, 1)):
        with pytest.raises(TypeError, match=r"`estimator` must be a regressor .* fit a regressor to 0 and 1"):
            call(model=forest)
    with pytest.raises(NotFittedError):
        estimate_effects(RandomForestRegressor(), POOL, 1)
    with pytest.raises(ValueError, match="`score`='mu_rho' needs at least two draws"):
        batch(n_draws=1)


def test_scores_of_outcomes_and_of_predictions_are_not_each_others():
    with pytest.raises(ValueError, match=r"`score` must be a callable or one of \['mu', .*Got 'bald'"):
        batch(score="bald")
    with pytest.raises(ValueError, match=r"`score`='mu_pi' .* CausalBALDQuery\(score='mu_pi', treatment=...\)"):
        StochasticBatchQuery(score="mu_pi").select(OUTCOMES, POOL, 2)


def test_a_propensity_that_cannot_be_fitted_or_is_sure_is_refused():
    with pytest.raises(ValueError, match="`propensity` must be given for score='mu_pi'"):
        batch(score="mu_pi")
    with pytest.raises(TypeError, match="`propensity` must be None or a classifier with predict_proba"):
        batch(score="mu_pi", propensity=LinearRegression())
    with pytest.raises(ValueError, match=r"rows 0 to 29 failed: `propensity` must be above 0 and below 1.*less sure"):
        batch(score="mu_pi", propensity=DecisionTreeClassifier(random_state=0))
    untreated, given = POOL[POOL[:, 1] == 0], {"X_training": X, "y_training": Y}
    with pytest.raises(ValueError, match=r"`propensity` must be fitted to both treatments.*Got the classes \[0\]"):
        batch(untreated, given=given, score="mu_pi", propensity=RandomForestClassifier(5))
