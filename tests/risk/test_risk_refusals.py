"""What estimates of risk and their tester say to bad input."""

from __future__ import annotations

import math

import pytest
from sklearn.linear_model import RidgeClassifier
from small_models import LABELS, X_POOL, X_TRAIN, first_rows

from skactive import BADGEQuery, StochasticBatchQuery
from skactive.risk import ActiveTester, estimate_risk, lure_weights


@pytest.mark.parametrize(
    ("log_proba", "error", "message"),
    [
        (None, TypeError, "`log_proba` must be .*Got None"),
        ([], ValueError, r"`log_proba` must have shape"),
        ([[-1.0]], ValueError, r"`log_proba` must have shape .*\(1, 1\)"),
        ([-1.0, -math.inf], ValueError, r"-inf for pick 1, and 1 such .*epsilon"),
        ([-1.0, -800.0], ValueError, r"-800\.0 for pick 1.*epsilon"),
        ([0.5, -1.0], ValueError, r"`log_proba` must be natural logarithms .* Got 0\.5 for pick 0"),
        ([math.nan], ValueError, "nan for pick 0"),
    ],
)
def test_log_probabilities_that_give_no_weights_are_refused(log_proba, error, message):
    with pytest.raises(error, match=message):
        lure_weights(log_proba, 10)


@pytest.mark.parametrize(("n_pool", "error"), [(1, ValueError), (0, ValueError), (10.0, TypeError), (None, TypeError)])
def test_a_pool_smaller_than_the_picks_is_refused(n_pool, error):
    with pytest.raises(error, match="`n_pool` must be"):
        lure_weights([-1.0, -1.0], n_pool)


@pytest.mark.parametrize("losses", [[1.0], [[1.0, 2.0]], [1.0, math.nan], [math.inf, 0.0], [1.0, -0.5]])
def test_losses_that_do_not_fit_the_picks_are_refused(losses):
    with pytest.raises(ValueError, match="`losses` must be"):
        estimate_risk(losses, [-1.0, -1.0], 10)


def test_a_tester_needs_a_query_that_knows_its_probabilities(forest):
    for query in (BADGEQuery(embedding=lambda X: X), StochasticBatchQuery(sampler=first_rows)):
        with pytest.raises(TypeError, match=r"`query` must know the probability of its picks"):
            ActiveTester(query, X_POOL).ask(forest, 2)


def test_a_tester_is_told_the_labels_of_the_rows_it_asked_for(forest):
    tester = ActiveTester(StochasticBatchQuery(epsilon=0.1), X_POOL)
    with pytest.raises(ValueError, match="It was not called"):
        tester.tell(["oak"])
    with pytest.raises(ValueError, match="The tester has no labels yet"):
        tester.risk(forest)
    tester.ask(forest, 3)
    with pytest.raises(ValueError, match=r"labels of the 3 rows.*\(2,\)"):
        tester.tell(["oak", "elm"])
    tester.tell(["oak", "elm", "elm"])
    with pytest.raises(ValueError, match=r"`loss` must be a callable or one of 'absolute_error', .*'log_loss'"):
        tester.risk(forest, "accuracy")
    with pytest.raises(TypeError, match="RidgeClassifier has none"):
        tester.risk(RidgeClassifier().fit(X_TRAIN, LABELS))
