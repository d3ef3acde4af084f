"""Every array and number that public functions take, by every bad value of its kind: refused by name, or `ACCEPTED`."""

from __future__ import annotations

import functools
import re
from typing import NamedTuple

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor

from skactive import StochasticBatchQuery
from skactive.acsfw import acs_fw
from skactive.badge import badge
from skactive.batchbald import batchbald
from skactive.causal import estimate_effects, predict_effects, sqrt_pehe
from skactive.posterior import bootstrap
from skactive.query import Pool, score_pool
from skactive.risk import RiskEstimate, estimate_risk, lure_weights
from skactive.samplers import SAMPLERS, log_proba, repulsive
from skactive.scores import SCORES

RNG = np.random.default_rng(0)
CLASSES, OTHERS = RNG.dirichlet(np.ones(3), size=(2, 4, 6))
SIX = np.array([0.3, 0.1, 0.4, 0.15, 0.9, 0.2])
X = np.column_stack([RNG.normal(size=(40, 2)), np.arange(40) % 2])
ROWS = X[:6]
Y = np.arange(40) % 3
FOREST = RandomForestClassifier(4, max_depth=3, random_state=0).fit(X, Y)
REGRESSOR = RandomForestRegressor(4, max_depth=3, random_state=0).fit(X, X[:, 0] + X[:, 2])

# --- bad values, by the kind of a parameter


def masked(values):
    return np.ma.masked_array(values, mask=np.arange(np.size(values)).reshape(np.shape(values)) == 0)


def with_first(values, first, dtype=None):
    changed = np.array(values, dtype=dtype)
    changed.flat[0] = first
    return changed


NO_NUMBERS = {
    "None": lambda a: None,
    "a generator": lambda a: (x for x in (1.0, 2.0)),
    "a ragged list": lambda a: [[1.0], [1.0, 2.0]],
    "masked": masked,
    "a list of text": lambda a: np.asarray(a).astype(str).tolist(),
    "complex": lambda a: np.asarray(a).astype(complex),
    "dates": lambda a: np.asarray(a).astype(int).astype("M8[D]"),
    "a huge integer": lambda a: with_first(a, 10**400, object),
    "two axes more": lambda a: np.asarray(a)[None, None],
    "empty": lambda a: [],
    "nan": lambda a: with_first(a, np.nan, float),
    "inf": lambda a: with_first(a, np.inf, float),
}
NO_POSITIONS = {name: NO_NUMBERS[name] for name in ("a ragged list", "masked", "a list of text", "dates")} | {
    "floats": lambda a: np.asarray(a, dtype=float),
    "negative": lambda a: with_first(a, -1),
    "out of range": lambda a: with_first(a, 10**6),
}


def fixed(*values):
    return {repr(value)[:40]: (lambda a, value=value: value) for value in values}


NO_NUMBER = fixed(None, "1", [1.0], 1j, True, np.nan, np.inf, np.array([1.0, 2.0]), np.ma.masked, pd.NA)
NO_INTEGER = NO_NUMBER | fixed(1.5, 2.0, -1, 0)
BAD = {
    "numbers": NO_NUMBERS | {"one too few": lambda a: np.asarray(a)[..., :-1]},
    "scores": NO_NUMBERS,
    "positions": NO_POSITIONS,
    "k": NO_INTEGER | fixed(7, 10**30),
    "count": NO_INTEGER,
    "level": NO_NUMBER | fixed(0, 1, -1, 95),
    "not negative": NO_NUMBER | fixed(-1, -1e-9, 10**400),
    "diversity": NO_NUMBER | fixed(-1e-9, 100.5),
    "rng": fixed(None, 0, "x", np.random, np.random.RandomState),
    "rng or none": fixed(0, "x", np.random),
    "column": fixed(None, 3, -4, 1.5, "x", [1], True, np.nan),
    "rows": fixed(None, 5, "x", object),
    "estimator": fixed(None, 5, [], object, RandomForestClassifier),
}
CLOTHES = {
    "a list": lambda a: np.asarray(a).tolist(),
    "a tensor with grad": lambda a: torch.as_tensor(np.asarray(a, dtype=float)).requires_grad_(),
    "byte-swapped": lambda a: np.asarray(a).astype(np.asarray(a).dtype.newbyteorder()),
    "strided": lambda a: np.ascontiguousarray(np.asarray(a)[::-1])[::-1],
}

# --- good calls


class P(NamedTuple):
    """A parameter: its kind, and a good value."""

    kind: str
    good: object


DRAWS = {
    "classes": P("numbers", CLASSES),
    "means": P("numbers", RNG.normal(size=(4, 6))),
    "outcomes": P("numbers", RNG.normal(size=(4, 6, 2))),
}
SIDE = {
    "noise_variance": P("numbers", np.full(6, 0.5)),
    "treatment": P("numbers", np.array([0, 1, 0, 1, 1, 0])),
    "propensity": P("numbers", np.linspace(0.2, 0.8, 6)),
    "target_draws": P("numbers", OTHERS),
    "target_weights": P("numbers", np.array([1.0, 2, 3, 4, 5, 6])),
}
OF_SCORES = {
    "classes": ["bald", "entropy", "margin", "variation_ratio", "std_dev", "epig"],
    "means": ["variance", "gaussian_bald"],
    "outcomes": ["mu", "mu_pi", "mu_rho", "rho", "tau"],
}
ASKED = {
    "epig": ["target_draws", "target_weights"],
    "gaussian_bald": ["noise_variance"],
    "mu": ["treatment"],
    "mu_pi": ["treatment", "propensity"],
    "mu_rho": ["treatment"],
    "rho": ["treatment"],
}
K, BETA, APART, VALUES = P("k", 2), P("not negative", 1.0), P("diversity", 1.0), P("scores", SIX)
RNG_P = P("rng", None)
DRAWN = {"k": K, "rng": RNG_P, "beta": BETA}
LOSSES, LOGS = P("numbers", np.array([0.1, 0.5, 0.2])), P("numbers", np.log([0.3, 0.4, 0.5]))


def user_score(score):
    return score_pool(FOREST, ROWS, {"own": lambda draws: score}, random_state=0)["own"]


CALLS = {
    **{
        name: (SCORES[name], {"draws": DRAWS[kind], **{key: SIDE[key] for key in ASKED.get(name, ())}})
        for kind, names in OF_SCORES.items()
        for name in names
    },
    **{
        name: (SAMPLERS[name], {"scores": VALUES, **DRAWN})
        for name in ("power", "softmax", "softrank", "topk", "uniform")
    },
    "repulsive": (repulsive, {"scores": VALUES, "points": P("scores", ROWS), **DRAWN, "diversity": APART}),
    "log_proba": (log_proba, {"values": VALUES, "positions": P("positions", np.array([3, 2])), "beta": BETA}),
    "batchbald": (batchbald, {"draws": DRAWS["classes"], "k": K, "rng": RNG_P, "max_outcomes": P("count", 100)}),
    "badge": (
        badge,
        {"probabilities": P("numbers", CLASSES[0]), "embeddings": P("scores", ROWS), "k": K, "rng": RNG_P},
    ),
    "acs_fw": (acs_fw, {"draws": DRAWS["classes"], "k": K, "rng": P("rng or none", None)}),
    "lure_weights": (lure_weights, {"log_proba": P("scores", LOGS.good), "n_pool": P("count", 10)}),
    "estimate_risk": (estimate_risk, {"losses": LOSSES, "log_proba": LOGS, "n_pool": P("count", 10)}),
    "interval": (RiskEstimate(0.5, 0.1, 10, 100).interval, {"level": P("level", 0.9)}),
    "sqrt_pehe": (sqrt_pehe, {"true_effects": P("numbers", SIX), "effects": P("numbers", SIX + 1)}),
    "predict_effects": (
        functools.partial(predict_effects, REGRESSOR),
        {"X": P("rows", ROWS), "treatment": P("column", 2)},
    ),
    "estimate_effects": (
        lambda **given: estimate_effects(X=ROWS, treatment=2, random_state=0, **given).mean,
        {"estimator": P("estimator", REGRESSOR), "level": P("level", 0.9)},
    ),
    "score of the user's": (user_score, {"score": VALUES}),
    "select_scored": (
        lambda **given: StochasticBatchQuery(random_state=0).select_scored(**given),
        {"scores": VALUES, "n_instances": K},
    ),
    "Pool": (lambda **given: len(Pool.of(ROWS, **given)), {"candidates": P("positions", np.array([3, 1]))}),
    "bootstrap": (
        lambda **given: bootstrap(FOREST, X, Y, 3, **given)(ROWS),
        {"sample_weight": P("numbers", np.arange(1.0, 41.0)), "rng": RNG_P},
    ),
}
ACCEPTED = {
    ("epig", "target_weights", "None"),  # the default: all targets weigh the same
    ("bootstrap", "sample_weight", "None"),
    ("variance", "draws", "one too few"),  # a row less is another pool
    ("score of the user's", "score", "nan"),  # what samplers make of scores is theirs to say
    ("score of the user's", "score", "inf"),
}
ALSO_CALLED = {"X": "X_pool|treatment", "draws": "noise_variance", "log_proba": "losses", "values": "positions"}
"""A second name by which an error may call a parameter."""


def call(name, **changed):
    function, parameters = CALLS[name]
    given = {parameter: good for parameter, (_, good) in parameters.items()}
    rng = {parameter: np.random.default_rng(0) for parameter, (kind, _) in parameters.items() if kind == "rng"}
    return function(**{**given, **rng, **changed})


def said_of(name, parameter, value):
    """What an error says that does not name the parameter, or "taken" if there is none."""
    try:
        call(name, **{parameter: value})
    except (ValueError, TypeError) as error:
        wanted = f"{parameter}|{ALSO_CALLED.get(parameter, parameter)}"
        named = re.search(rf"[`']({wanted})\b|^Cannot choose `k`", str(error))
        return "" if named else f"{type(error).__name__}: {error}"
    return "taken"


def test_every_score_and_every_sampler_stands_in_the_table():
    assert {*SCORES, *SAMPLERS} <= CALLS.keys()


@pytest.mark.parametrize("name", CALLS)
def test_bad_values_of_every_parameter_are_refused_by_its_name(name):
    call(name)  # the good call is one
    outcomes = {
        (name, parameter, label): said_of(name, parameter, bad(good))
        for parameter, (kind, good) in CALLS[name][1].items()
        for label, bad in BAD[kind].items()
    }
    assert {key: said for key, said in outcomes.items() if said and key not in ACCEPTED} == {}


@pytest.mark.parametrize("name", CALLS)
def test_numbers_in_other_clothes_are_the_same_numbers(name):
    expected = call(name)
    for parameter, (kind, good) in CALLS[name][1].items():
        for label, dressed in CLOTHES.items() if kind in ("numbers", "scores") else ():
            assert_same(call(name, **{parameter: dressed(good)}), expected, f"{parameter} as {label}")


def assert_same(found, expected, message):
    if hasattr(expected, "__dict__") and not hasattr(expected, "shape"):
        for key, value in vars(expected).items():
            assert_same(getattr(found, key), value, message)
    elif expected is None:
        assert found is None, message
    else:
        found = found.detach().numpy() if isinstance(found, torch.Tensor) else found
        np.testing.assert_allclose(found, expected, rtol=1e-6, err_msg=message)


# --- what the table cannot show


def test_the_numbers_under_a_mask_are_not_drawn_from():
    scores = np.ma.masked_array([1.0, 1e9, 1.0], mask=[False, True, False])
    with pytest.raises(TypeError, match=r"`scores` must be an array of real numbers, without a mask\..*compressed"):
        SAMPLERS["power"](scores, 1, np.random.default_rng(0))


def test_a_score_that_writes_into_its_draws_changes_no_other_score():
    def greedy(draws):
        draws[:] = 1 / draws.shape[2]
        return draws[0, :, 0]

    given = {"n_draws": 4, "random_state": 0}
    alone = score_pool(FOREST, X, "bald", **given)["bald"]
    beside = score_pool(FOREST, X, {"greedy": greedy, "bald": "bald"}, **given)
    np.testing.assert_array_equal(beside["bald"], alone)
    assert alone.max() > 0
