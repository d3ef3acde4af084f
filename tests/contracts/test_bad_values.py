"""A table: every parameter of every public function, by every bad value of its kind.

Each is refused with a clear error, or stands in `ACCEPTED` with the reason why taking it is right.
"""

from __future__ import annotations

import functools
import inspect
import pkgutil
from importlib import import_module

import bad_values
import numpy as np
import pytest
from bad_values import BAD, CALLS, NOT_HERE, ODD, ODD_KINDS, ODD_REFUSED

import skactive
from skactive.samplers._law import draw_batch


@functools.cache
def result_of(name):
    return bad_values.call(CALLS[name])


@pytest.mark.parametrize("name", CALLS)
def test_bad_values_of_every_parameter_are_refused_by_its_name_or_accepted_for_a_reason(name):
    result_of(name)  # the good call is one
    wrong = []
    for parameter, (kind, good) in CALLS[name].parameters.items():
        for label, bad in BAD[kind].items():
            outcome, text = bad_values.outcome_of(CALLS[name], parameter, bad(good))
            if outcome == "silent" and bad_values.accepted(name, parameter, label):
                continue
            if outcome not in ("clear", "sklearn"):
                wrong.append(f"{parameter}={label}: {outcome}, {text}")
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("name", CALLS)
def test_numbers_in_other_clothes_are_the_same_numbers_or_refused_by_name(name):
    for parameter, (kind, good) in CALLS[name].parameters.items():
        for label, odd in ODD.items() if kind in ODD_KINDS else ():
            outcome, text = bad_values.odd_outcome_of(CALLS[name], parameter, odd(good), result_of(name))
            refused = outcome == "refused" and label in ODD_REFUSED
            assert outcome == "right" or refused, f"{parameter} as {label}: {outcome}, {text}"


def test_every_parameter_of_every_public_function_stands_in_the_table():
    modules = [module.name for module in pkgutil.iter_modules(skactive.__path__) if not module.name.startswith("_")]
    passed_on = {"verbose", "X_training", "y_training", "X_target", "predict_batch_size", "posterior", "fonts"}
    passed_on |= {"sample_weight", "fit_params"}
    missing = {}
    for module in map(import_module, [f"skactive.{name}" for name in modules]):
        for name in module.__all__:
            function, full = getattr(module, name), f"{module.__name__.removeprefix('skactive.')}.{name}"
            if inspect.isfunction(function) and full not in NOT_HERE:
                listed = {p for entry in CALLS if entry.split(",")[0] == full for p in CALLS[entry].parameters}
                known = listed | passed_on | bad_values.TESTED_ELSEWHERE.get(full, set())
                missing[full] = set(inspect.signature(function).parameters) - known or not listed
    left = {name: parameters for name, parameters in missing.items() if parameters}
    assert left == {}, "add them to CALLS in tests/contracts/bad_values.py; scores to OF_SCORES there"


# --- what the table cannot show -----------------------------------------------------------------------


def test_the_numbers_under_a_mask_are_not_drawn_from():
    scores = np.ma.masked_array([1.0, 1e9, 1.0], mask=[False, True, False])
    with pytest.raises(TypeError, match=r"`scores` must be an array of real numbers, without a mask\..*compressed"):
        bad_values.SAMPLERS["power"](scores, 1, np.random.default_rng(0))


def test_a_score_that_writes_into_its_draws_changes_no_other_score():
    def greedy(draws):
        draws[:] = 1 / draws.shape[2]
        return draws[0, :, 0]

    given = {"n_draws": 4, "random_state": 0}
    alone = bad_values.score_pool(bad_values.FOREST, bad_values.X, "bald", **given)["bald"]
    beside = bad_values.score_pool(bad_values.FOREST, bad_values.X, {"greedy": greedy, "bald": "bald"}, **given)
    np.testing.assert_array_equal(beside["bald"], alone)
    assert alone.max() > 0


def test_a_batch_keeps_its_probabilities_when_a_series_of_scores_changes():
    import pandas as pd

    scores = pd.Series(bad_values.SIX.copy())
    law = draw_batch("softmax", scores, 3, np.random.default_rng(0))[1]
    before = law.log_proba()
    scores.iloc[:] = 0.0
    np.testing.assert_array_equal(law.log_proba(), before)
