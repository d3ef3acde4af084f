"""A table: every parameter of every public function, by every bad value of its kind.

Each is refused with a clear error, or stands in `ACCEPTED` with the reason why taking it is right. A public function
without a good call in `bad_values.CALLS` fails here as well.
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

MODULES = sorted({name.split(".")[0] for name in [*CALLS, *NOT_HERE]})


@functools.cache
def result_of(name):
    return bad_values.call(CALLS[name])


def public_functions():
    for module in MODULES:
        for name in import_module(f"skactive.{module}").__all__:
            value = getattr(import_module(f"skactive.{module}"), name)
            if callable(value):
                yield f"{module}.{name}", value


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


@pytest.mark.parametrize(
    ("name", "parameter"),
    [(name, p) for name, entry in CALLS.items() for p, (kind, _) in entry.parameters.items() if kind in ODD_KINDS],
)
def test_numbers_in_other_clothes_are_the_same_numbers_or_refused_by_name(name, parameter):
    for label, odd in ODD.items():
        value = odd(CALLS[name].parameters[parameter].good)
        outcome, text = bad_values.odd_outcome_of(CALLS[name], parameter, value, result_of(name))
        refused = outcome == "refused" and label in ODD_REFUSED
        assert outcome == "right" or refused, f"{parameter} as {label}: {outcome}, {text}"


def test_every_public_module_stands_in_the_table():
    public = [module.name for module in pkgutil.iter_modules(skactive.__path__) if not module.name.startswith("_")]
    assert public == MODULES


def test_every_public_function_stands_in_the_table():
    known = {name.split(",")[0] for name in CALLS}
    missing = [
        name
        for name, _ in public_functions()
        if name not in NOT_HERE and not any(entry == name or entry.startswith(f"{name}.") for entry in known)
    ]
    assert missing == [], "add them to CALLS in tests/contracts/bad_values.py; scores to OF_SCORES there"


@pytest.mark.parametrize("name", [name for name, value in public_functions() if inspect.isfunction(value)])
def test_every_parameter_of_a_public_function_stands_in_the_table(name):
    if name in NOT_HERE:
        return
    listed = {p for entry in CALLS if entry.split(",")[0] == name for p in CALLS[entry].parameters}
    function = dict(public_functions())[name]
    elsewhere = bad_values.TESTED_ELSEWHERE.get(name, set())
    passed_on = {"verbose", "X_training", "y_training", "X_target", "predict_batch_size", "posterior", "fonts"} | {
        "sample_weight",
        "fit_params",
    }
    left = set(inspect.signature(function).parameters) - listed - passed_on - elsewhere
    assert left == set(), f"add them to the entry of {name} in tests/contracts/bad_values.py"


# --- what the table cannot show -----------------------------------------------------------------------


def test_the_numbers_under_a_mask_are_not_drawn_from():
    scores = np.ma.masked_array([1.0, 1e9, 1.0], mask=[False, True, False])
    with pytest.raises(TypeError, match=r"`scores` must be an array of real numbers, without a mask\..*compressed"):
        bad_values.SAMPLERS["power"](scores, 1, np.random.default_rng(0))


@pytest.mark.parametrize("positions", [[1, 1], [-1], [1.9], ["1"], [True, False], [4], [0, 1, 2, 3, 0], [[1]]])
def test_log_proba_takes_distinct_positions_only(positions):
    with pytest.raises((TypeError, ValueError), match="`positions` must be"):
        bad_values.log_proba(np.log([1.0, 2.0, 3.0, 4.0]), positions)


def test_log_proba_of_no_picks_is_empty():
    assert bad_values.log_proba(np.log([1.0, 2.0]), []).shape == (0,)


def test_target_weights_whose_sum_is_infinite_are_refused():
    with pytest.raises(ValueError, match="`target_weights` must be finite"):
        bad_values.SCORES["epig"](bad_values.CLASSES, target_draws=bad_values.OTHERS, target_weights=np.full(6, 1e308))


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


def test_make_repeated_refuses_labels_of_another_length():
    with pytest.raises(ValueError, match=r"`X` and `y` must have a row and a label for each point"):
        bad_values.make_repeated(bad_values.X[:3], bad_values.Y, 2, 0.1, np.random.default_rng(0))
