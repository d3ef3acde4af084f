"""What queries and estimates of effects say to bad input."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LinearRegression, LogisticRegression, RidgeClassifier
from sklearn.tree import DecisionTreeClassifier
from small_models import X_POOL

from skactive import CausalBALDQuery, StochasticBatchQuery
from skactive.causal import estimate_effects, predict_effects, sqrt_pehe
from skactive.datasets import make_causal
from skactive.scores import SCORES

X_CAUSAL, Y_CAUSAL, _ = make_causal(60, np.random.default_rng(0))
OUTCOMES = RandomForestRegressor(10, random_state=0).fit(X_CAUSAL[:30], Y_CAUSAL[:30])
CAUSAL_POOL = X_CAUSAL[30:]


def causal_batch(pool=CAUSAL_POOL, model=OUTCOMES, **params):
    given = {name: params.pop(name) for name in ("X_training", "y_training") if name in params}
    return CausalBALDQuery(**{"treatment": 1, "random_state": 0, **params}).select(model, pool, 3, **given)


class DrawsOfClasses:
    """Draws that no tag announces as those of a classifier."""

    def sample_posterior(self, n_draws, rng):
        return lambda X: np.full((3, len(X), 4), 0.25)


def with_treatments(*values, dtype=float):
    """A pool with these in its treatment column, and what was there below."""
    pool = CAUSAL_POOL.astype(dtype)
    pool[: len(values), 1] = values
    return pool


@pytest.mark.parametrize(
    ("treatment", "error", "says"),
    [
        (None, ValueError, "Got None"),
        (2, ValueError, "from -2 to 1.*Got 2"),
        (-3, ValueError, "Got -3"),
        ("t", ValueError, "position.*Got 't'"),
        (1.0, ValueError, "Got 1.0"),
        (True, ValueError, "Got True"),
    ],
)
def test_a_treatment_that_is_no_column_is_refused(treatment, error, says):
    with pytest.raises(error, match=f"`treatment` must.*{says}"):
        causal_batch(treatment=treatment)
    if treatment is not None:
        with pytest.raises(error, match=f"`treatment` must.*{says}"):
            predict_effects(OUTCOMES, CAUSAL_POOL, treatment)
        with pytest.raises(error, match=f"`treatment` must.*{says}"):
            estimate_effects(OUTCOMES, CAUSAL_POOL, treatment)


def test_a_name_that_is_no_column_is_refused_with_the_columns():
    frame = pd.DataFrame(CAUSAL_POOL, columns=["age", "drug"])
    forest = RandomForestRegressor(5).fit(frame, Y_CAUSAL[30:])
    with pytest.raises(ValueError, match=r"`treatment` must be .* once among 'age', 'drug'\. Got 'dose'"):
        causal_batch(frame, forest, treatment="dose")
    twice = pd.DataFrame(CAUSAL_POOL, columns=["drug", "drug"])
    with pytest.raises(ValueError, match=r"once among 'drug', 'drug'\. Got 'drug'"):
        predict_effects(OUTCOMES, twice, "drug")


@pytest.mark.parametrize("pool", [["yes", "no", "no"], np.zeros(5), np.zeros((5, 2, 3))])
def test_rows_without_columns_have_no_treatment(pool):
    with pytest.raises(ValueError, match="`treatment` is a column, and the rows are not a table"):
        causal_batch(pool, DrawsOfClasses(), treatment=0)


@pytest.mark.parametrize(("value", "shown"), [(2, "2.0"), (-1, "-1.0"), (0.5, "0.5"), (math.nan, "nan")])
def test_treatments_other_than_0_and_1_are_refused_with_the_first(value, shown):
    with pytest.raises(ValueError, match=rf"`treatment` must be 0 or 1 in every row. Got .*{shown}"):
        causal_batch(with_treatments(0, 1, value))
    with pytest.raises(ValueError, match=rf"`treatment` must be 0 or 1 in every row. Got {shown}"):
        SCORES["mu"](np.zeros((2, 3, 2)), treatment=[0, 1, value])


def test_treatments_that_are_words_are_refused():
    with pytest.raises(ValueError, match=r"`treatment` must be 0 or 1 in every row. Got 'drug'"):
        causal_batch(with_treatments("drug", "placebo", dtype=object))


@pytest.mark.parametrize("value", [0, 1])
@pytest.mark.parametrize("training", [{}, {"X_training": True}])
def test_a_constant_treatment_is_refused(value, training):
    pool = with_treatments(*[value] * len(CAUSAL_POOL))
    given = {"X_training": pool[:5], "y_training": Y_CAUSAL[:5]} if training else {}
    with pytest.raises(ValueError, match=f"`treatment` is {value} in every row of the pool.*the right column"):
        causal_batch(pool, **given)


def test_a_classifier_of_outcomes_is_refused_with_what_to_do():
    forest = RandomForestClassifier(5, random_state=0).fit(X_CAUSAL, Y_CAUSAL > 0)
    for call in (lambda: causal_batch(model=forest), lambda: estimate_effects(forest, CAUSAL_POOL, 1)):
        with pytest.raises(TypeError, match=r"`estimator` must be a regressor .* fit a regressor to 0 and 1"):
            call()


def test_draws_of_classes_are_refused_for_effects():
    model = DrawsOfClasses()
    for call in (lambda: causal_batch(model=model), lambda: estimate_effects(model, CAUSAL_POOL, 1)):
        with pytest.raises(TypeError, match=r"`estimator` must predict one outcome.*\(3, 1, 4\)"):
            call()


@pytest.mark.parametrize("score", ["bald", "variance"])
def test_scores_of_anything_but_outcomes_are_refused(score):
    with pytest.raises(ValueError, match=rf"`score` must be a callable or one of \['mu', .*Got '{score}'"):
        causal_batch(score=score)


@pytest.mark.parametrize("score", ["mu_rho", "mu", "tau", "rho", "mu_pi"])
def test_scores_of_outcomes_are_refused_where_there_is_no_treatment(score, forest):
    for model, pool in ((OUTCOMES, CAUSAL_POOL), (forest, X_POOL)):
        with pytest.raises(
            ValueError, match=rf"`score`='{score}' .* CausalBALDQuery\(score='{score}', treatment=...\)"
        ):
            StochasticBatchQuery(score=score).select(model, pool, 2)


@pytest.mark.parametrize("shape", [(6, 9), (6, 9, 3), (6, 9, 1), (9,)])
def test_draws_that_are_not_two_outcomes_are_refused(shape):
    with pytest.raises(ValueError, match=r"`draws` must have shape \(n_draws, n_points, 2\). Got shape \("):
        SCORES["tau"](np.ones(shape))


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_an_outcome_that_is_not_finite_is_named_by_draw_and_point(bad):
    draws = np.zeros((6, 9, 2))
    draws[4, 7, 1] = bad
    with pytest.raises(ValueError, match=f"`draws` must be finite. Got {bad} in draw 4 of point 7"):
        SCORES["mu_rho"](draws, treatment=np.zeros(9))


@pytest.mark.parametrize("value", [0.0, 1.0, -0.5, 1.5, math.nan])
def test_a_propensity_of_0_or_1_is_refused(value):
    with pytest.raises(ValueError, match=rf"`propensity` must be above 0 and below 1.*Got {value}.*less sure"):
        SCORES["mu_pi"](np.zeros((2, 3, 2)), treatment=[0, 1, 1], propensity=[0.5, value, 0.5])


@pytest.mark.parametrize("name", ["treatment", "propensity"])
@pytest.mark.parametrize("value", [0.5, [0.5], [[0.5] * 3] * 2])
def test_a_treatment_or_propensity_that_is_not_one_a_point_is_refused(name, value):
    given = {"treatment": [0, 1, 1], "propensity": [0.5, 0.5, 0.5], name: value}
    with pytest.raises(ValueError, match=rf"`{name}` must have shape \(3,\)"):
        SCORES["mu_pi"](np.zeros((2, 3, 2)), **given)


def test_a_propensity_that_is_sure_is_refused_in_a_query():
    sure = DecisionTreeClassifier(random_state=0)
    with pytest.raises(ValueError, match=r"Scoring rows 0 to 29 failed: `propensity` must be above 0 and below 1"):
        causal_batch(score="mu_pi", propensity=sure)


def test_a_score_of_the_propensity_needs_a_classifier_for_it():
    with pytest.raises(ValueError, match="`propensity` must be given for score='mu_pi'"):
        causal_batch(score="mu_pi")
    for model in (LinearRegression(), RidgeClassifier(), 0.5):
        with pytest.raises(TypeError, match="`propensity` must be None or a classifier with predict_proba"):
            causal_batch(score="mu_pi", propensity=model)


def test_a_propensity_that_cannot_be_fitted_says_so():
    gaps = CAUSAL_POOL.copy()
    gaps[3, 0] = math.nan
    with pytest.raises(ValueError, match="Fitting LogisticRegression, the `propensity`, to the treatments failed"):
        causal_batch(gaps, score="mu_pi", propensity=LogisticRegression())
    untreated = CAUSAL_POOL[CAUSAL_POOL[:, 1] == 0]
    given = {"X_training": X_CAUSAL, "y_training": Y_CAUSAL}
    with pytest.raises(ValueError, match=r"`propensity` must be fitted to treatments 0 and 1.*Got the classes \[0\]"):
        causal_batch(untreated, score="mu_pi", propensity=RandomForestClassifier(5), **given)


def test_one_draw_of_outcomes_is_refused():
    with pytest.raises(ValueError, match="`score`='mu_rho' needs two draws or more"):
        causal_batch(n_draws=1)


@pytest.mark.parametrize(
    ("true_effects", "effects", "says"),
    [
        ([1.0], [1.0, 2.0], r"same shape.*\(1,\) and \(2,\)"),
        ([[1.0]], [[1.0]], "`true_effects` must be finite numbers"),
        ([], [], "`true_effects` must be finite numbers"),
        ([1.0, math.nan], [1.0, 2.0], "`true_effects` must be finite numbers"),
        ([1.0, 2.0], [math.inf, 2.0], "`effects` must be finite numbers"),
    ],
)
def test_effects_that_cannot_be_compared_are_refused(true_effects, effects, says):
    with pytest.raises(ValueError, match=says):
        sqrt_pehe(true_effects, effects)


@pytest.mark.parametrize(("level", "error"), [(0, ValueError), (1.0, ValueError), (95, ValueError), ("a", TypeError)])
def test_a_level_outside_0_and_1_is_refused(level, error):
    with pytest.raises(error, match="`level` must be"):
        estimate_effects(OUTCOMES, CAUSAL_POOL, 1, level=level)


def test_effects_need_a_model_that_predicts():
    with pytest.raises(TypeError, match="`estimator` must be a fitted model"):
        predict_effects(None, CAUSAL_POOL, 1)
    with pytest.raises(NotFittedError):
        estimate_effects(RandomForestRegressor(), CAUSAL_POOL, 1)


@pytest.mark.parametrize(("n", "rng", "error"), [(0, None, ValueError), (1.5, None, TypeError), (5, 0, TypeError)])
def test_synthetic_treatments_are_made_of_a_number_and_a_generator(n, rng, error):
    with pytest.raises(error, match=r"`n`|`rng`"):
        make_causal(n, np.random.default_rng(0) if rng is None else rng)


@pytest.mark.parametrize("container", ["frame", "array"])
def test_queries_of_effects_do_not_change_a_pool(container):
    pool = CAUSAL_POOL.copy()
    pool.flags.writeable = False
    pool = pd.DataFrame(pool, copy=True) if container == "frame" else pool
    before = np.array(pool)
    assert len(causal_batch(pool, RandomForestRegressor(5).fit(pool, Y_CAUSAL[30:]))) == 3
    np.testing.assert_array_equal(np.array(pool), before)
