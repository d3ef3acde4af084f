"""Every public function with a good call, and the bad values that each kind of parameter gets in its turn.

`CALLS` has an entry for each function: its parameters, each with a kind and a good value. A bad value takes the place
of one good value at a time, and `outcome_of` says what came of it.
"""

from __future__ import annotations

import re
import warnings
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import torch
from scipy import sparse
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from sklearn.exceptions import NotFittedError

import skactive
from skactive.acsfw import acs_fw
from skactive.badge import badge
from skactive.batchbald import batchbald
from skactive.causal import (
    estimate_effects,
    predict_effects,
    sqrt_pehe,
    sqrt_pehe_scorer,
)
from skactive.datasets import load_table, make_causal, make_repeated
from skactive.posterior import bootstrap, sample_posterior
from skactive.query import Pool, score_pool
from skactive.risk import ActiveTester, RiskEstimate, estimate_risk, lure_weights
from skactive.samplers import SAMPLERS, log_proba, repulsive
from skactive.scores import SCORES

# --- good values ----------------------------------------------------------------------------------

RNG = np.random.default_rng(0)
CLASSES, OTHERS = RNG.dirichlet(np.ones(3), size=(2, 4, 6))
VALUES, OUTCOMES = RNG.normal(size=(4, 6)), RNG.normal(size=(4, 6, 2))
SIX = np.array([0.3, 0.1, 0.4, 0.15, 0.9, 0.2])
TREATMENT = np.array([0, 1, 0, 1, 1, 0])
X = np.column_stack([RNG.normal(size=(40, 2)), np.arange(40) % 2])
Y = np.arange(40) % 3
FOREST = RandomForestClassifier(4, max_depth=3, random_state=0).fit(X, Y)
REGRESSOR = RandomForestRegressor(4, max_depth=3, random_state=0).fit(X, X[:, 0] + X[:, 2])


# --- kinds of parameters, and what each refuses ---------------------------------------------------


class P(NamedTuple):
    """A parameter: its kind, and a good value."""

    kind: str
    good: Any


def masked(values: Any) -> Any:
    return np.ma.masked_array(values, mask=np.arange(np.size(values)).reshape(np.shape(values)) == 0)


def with_first(values: Any, first: Any, dtype: Any = None) -> Any:
    changed = np.array(values, dtype=dtype)
    changed.flat[0] = first
    return changed


NO_NUMBERS = {
    "None": lambda a: None,
    "text": lambda a: "x",
    "an object": lambda a: object(),
    "a generator": lambda a: (x for x in (1.0, 2.0)),
    "a ragged list": lambda a: [[1.0], [1.0, 2.0]],
    "masked": masked,
    "a list with masked": lambda a: list(masked(a)),
    "a list of text": lambda a: np.asarray(a).astype(str).tolist(),
    "complex": lambda a: np.asarray(a).astype(complex),
    "dates": lambda a: np.asarray(a).astype(int).astype("M8[D]"),
    "objects with None": lambda a: with_first(a, None, object),
    "objects with NA": lambda a: with_first(a, pd.NA, object),
    "objects of lists": lambda a: with_first(np.zeros(np.shape(a)), [1.0], object) if np.ndim(a) else [[1.0]],
    "a huge integer": lambda a: with_first(a, 10**400, object),
    "sparse": lambda a: sparse.csr_array(np.atleast_2d(np.ravel(a))),
    "a scalar": lambda a: 0.5,
    "two axes more": lambda a: np.asarray(a)[None, None],
    "empty": lambda a: [],
    "one too few": lambda a: np.asarray(a)[..., :-1],
    "inf": lambda a: with_first(a, np.inf, float),
    "-inf": lambda a: with_first(a, -np.inf, float),
}
NAN = {"nan": lambda a: with_first(a, np.nan, float), "Float64 with NA": lambda a: frame(a, NA=True)}
BOOLEAN = {"booleans": lambda a: np.asarray(a) > np.mean(a)}


def frame(a: Any, *, NA: bool = False) -> Any:
    """Numbers as pandas would hold them, where it can."""
    a = with_first(a, pd.NA, object) if NA else np.asarray(a)
    if a.ndim == 1:
        return pd.Series(pd.array(list(a), dtype="Float64"))
    return pd.DataFrame(list(a)).astype("Float64") if a.ndim == 2 else a


ODD = {
    "a list": lambda a: np.asarray(a).tolist(),
    "a tensor": lambda a: torch.as_tensor(np.asarray(a)),
    "a tensor with grad": lambda a: torch.as_tensor(np.asarray(a, dtype=float)).requires_grad_(),
    "byte-swapped": lambda a: np.asarray(a).astype(np.asarray(a).dtype.newbyteorder()),
    "objects": lambda a: np.asarray(a).astype(object),
}
"""The same numbers in other clothes: all of them must give the result of the plain array."""


def fixed(*values: Any) -> dict[str, Any]:
    return {repr(value)[:40]: (lambda a, value=value: value) for value in values}


NO_NUMBER = fixed(None, "1", b"1", [1.0], (1.0,), {}, {1.0}, 1j, True, np.nan, np.inf, object, np.array([1.0, 2.0]))
NO_NUMBER |= {"a date": lambda a: np.datetime64("2020-01-01"), "a duration": lambda a: np.timedelta64(1, "D")}
NO_NUMBER |= {"NA": lambda a: pd.NA, "masked": lambda a: np.ma.masked, "1-d": lambda a: np.array([0.5])}
NO_INTEGER = NO_NUMBER | fixed(1.5, 2.0, -1, 0)
NO_INTEGER = {name: value for name, value in NO_INTEGER.items() if name != "1j"} | fixed(1j)
NO_POSITIONS = {
    name: bad
    for name, bad in NO_NUMBERS.items()
    if name not in {"inf", "-inf", "one too few", "empty", "a list with masked"}
}
NO_POSITIONS |= {
    "floats": lambda a: np.asarray(a, dtype=float),
    "mask": lambda a: np.isin(np.arange(len(a)), a),
    "negative": lambda a: with_first(a, -1),
    "out of range": lambda a: with_first(a, 10**6),
    "doubled": lambda a: with_first(a, np.asarray(a)[-1]),
    "a list with masked": lambda a: [np.ma.masked, *np.asarray(a)[1:].tolist()],
}
NO_NAME = fixed("no such", "", 5, None, ["x"], 1.5, object, b"power")

BAD: dict[str, dict[str, Any]] = {
    "numbers": NO_NUMBERS | NAN,
    "plain numbers": NO_NUMBERS | NAN | BOOLEAN,
    "log weights": {name: bad for name, bad in (NO_NUMBERS | NAN).items() if name not in {"-inf", "one too few"}},
    "scores": {name: bad for name, bad in (NO_NUMBERS | NAN).items() if name != "one too few"},
    "positions": NO_POSITIONS,
    "k": NO_INTEGER | fixed(7, 10**30),
    "count": NO_INTEGER,
    "level": NO_NUMBER | fixed(0, 1, -1, 2, 95, 0.0, 1.0),
    "number": NO_NUMBER,
    "number or none": {name: bad for name, bad in NO_NUMBER.items() if name != "None"},
    "part or none": {name: bad for name, bad in NO_NUMBER.items() if name != "None"} | fixed(-0.1, 1.1),
    "not negative": NO_NUMBER | fixed(-1, -1e-9, 10**400),
    "rng": fixed(None, 0, "x", np.random, np.random.RandomState),
    "rng or none": fixed(0, "x", np.random),
    "random_state": fixed(-1, 1.5, "x", [], {}, object),
    "n_draws": {name: bad for name, bad in NO_INTEGER.items() if name != "None"} | fixed(10**6),
    "count or none": {name: bad for name, bad in NO_INTEGER.items() if name != "None"},
    "n_jobs": fixed(0, 1.5, "x", [1], True, np.nan),
    "name": NO_NAME,
    "posterior": fixed(None, 5, "x", [], object),
    "estimator": fixed(None, 5, "x", [], object, RandomForestClassifier),
    "column": fixed(None, 3, -4, 1.5, "x", [1], True, np.nan, object),
    "rows": fixed(None, 5, "x", object, 1.5),
    "labels": {
        "None": lambda a: None,
        "a scalar": lambda a: 5,
        "one too few": lambda a: a[:-1],
        "two axes": lambda a: np.stack([a, a], 1),
        "empty": lambda a: [],
    },
}


# --- good calls -----------------------------------------------------------------------------------


class Entry(NamedTuple):
    """How a function is called: with ``parameters`` by name, but ``first`` ones by place."""

    function: Any
    parameters: dict[str, P]


RNG_P = P("rng", None)
DRAWS = {"classes": P("numbers", CLASSES), "means": P("numbers", VALUES), "outcomes": P("numbers", OUTCOMES)}
SIDE = {
    "noise_variance": P("plain numbers", np.full(6, 0.5)),
    "treatment": P("numbers", TREATMENT),
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
K, BETA = P("k", 2), P("not negative", 1.0)
OF_SOURCE = {"n_draws": P("n_draws", 4), "posterior": P("posterior", "auto"), "random_state": P("random_state", 0)}
ROWS = X[:6]


def scorer_of(effects: Any, treatment: Any) -> float:
    return sqrt_pehe_scorer(effects, treatment)(REGRESSOR, ROWS, None, rows=np.arange(6))


def interval(level: Any) -> Any:
    return RiskEstimate(0.5, 0.1, 10, 100).interval(level)


def select(**params: Any) -> Any:
    k, candidates = params.pop("n_instances", 2), params.pop("candidates", None)
    return skactive.StochasticBatchQuery(**{"random_state": 0, **params}).select(FOREST, ROWS, k, candidates=candidates)


def select_scored(**params: Any) -> Any:
    return skactive.StochasticBatchQuery(random_state=0).select_scored(**params)


def limited(**limits: Any) -> Any:
    query = skactive.StochasticBatchQuery("entropy", random_state=0)
    return query.select(FOREST, ROWS, 3, limits=skactive.Limits(**limits))


def user_score(returned: Any) -> Any:
    return score_pool(FOREST, ROWS, {"own": lambda draws: returned}, random_state=0)["own"]


def loss(losses: Any) -> Any:
    tester = ActiveTester(skactive.StochasticBatchQuery("entropy", random_state=0), ROWS)
    tester.tell(Y[:6][tester.ask(FOREST, 3)])
    return tester.risk(FOREST, lambda estimator, X, y: losses).value


def posterior_draws(**given: Any) -> Any:
    return sample_posterior(**given)(ROWS)


def bootstrapped(**given: Any) -> Any:
    return bootstrap(**given)(ROWS)


CALLS: dict[str, Entry] = {
    **{
        f"scores.{name}": Entry(SCORES[name], {"draws": DRAWS[kind], **{key: SIDE[key] for key in ASKED.get(name, ())}})
        for kind, names in OF_SCORES.items()
        for name in names
    },
    **{
        f"samplers.{name}": Entry(SAMPLERS[name], {"scores": P("scores", SIX), "k": K, "rng": RNG_P, "beta": BETA})
        for name in ("power", "softmax", "softrank", "topk", "uniform")
    },
    "samplers.repulsive": Entry(
        repulsive,
        {
            "scores": P("scores", SIX),
            "points": P("matrix", X[:6]),
            "k": K,
            "rng": RNG_P,
            "beta": BETA,
            "diversity": P("not negative", 2.0),
        },
    ),
    "samplers.log_proba": Entry(
        log_proba, {"values": P("log weights", SIX), "positions": P("positions", np.array([3, 2])), "beta": BETA}
    ),
    "batchbald.batchbald": Entry(
        batchbald, {"draws": DRAWS["classes"], "k": K, "rng": RNG_P, "max_outcomes": P("count", 100)}
    ),
    "badge.badge": Entry(
        badge,
        {"probabilities": P("numbers", CLASSES[0]), "embeddings": P("matrix", X[:6]), "k": K, "rng": RNG_P},
    ),
    "acsfw.acs_fw": Entry(acs_fw, {"draws": DRAWS["classes"], "k": K, "rng": P("rng or none", None)}),
    "risk.lure_weights": Entry(
        lure_weights, {"log_proba": P("chances", np.log([0.3, 0.4, 0.5])), "n_pool": P("count", 10)}
    ),
    "risk.estimate_risk": Entry(
        estimate_risk,
        {
            "losses": P("numbers", np.array([0.1, 0.5, 0.2])),
            "log_proba": P("plain numbers", np.log([0.3, 0.4, 0.5])),
            "n_pool": P("count", 10),
            "n_looks": P("count", 2),
        },
    ),
    "risk.RiskEstimate.interval": Entry(interval, {"level": P("level", 0.9)}),
    "risk.ActiveTester.risk": Entry(loss, {"losses": P("numbers", np.array([0.1, 0.5, 0.2]))}),
    "causal.sqrt_pehe": Entry(sqrt_pehe, {"true_effects": P("numbers", SIX), "effects": P("numbers", SIX + 1)}),
    "causal.sqrt_pehe_scorer": Entry(scorer_of, {"effects": P("effects", SIX), "treatment": P("column", 2)}),
    "causal.predict_effects": Entry(
        predict_effects, {"estimator": P("estimator", REGRESSOR), "X": P("rows", ROWS), "treatment": P("column", 2)}
    ),
    "causal.estimate_effects": Entry(
        lambda **given: estimate_effects(**given).mean,
        {
            "estimator": P("estimator", REGRESSOR),
            "X": P("rows", ROWS),
            "treatment": P("column", 2),
            "level": P("level", 0.9),
            "n_jobs": P("n_jobs", 1),
            "chunk_size": P("count or none", 3),
            **OF_SOURCE,
        },
    ),
    "query.score_pool": Entry(
        lambda **given: score_pool(**given).popitem()[1],
        {
            "estimator": P("estimator", FOREST),
            "X_pool": P("rows", ROWS),
            "scores": P("name", "bald"),
            "n_jobs": P("n_jobs", 1),
            "chunk_size": P("count or none", 3),
            "predict_batch_size": P("count or none", 3),
            "candidates": P("candidates", np.array([3, 1])),
            **OF_SOURCE,
        },
    ),
    "query.score_pool, a score of the user's": Entry(user_score, {"returned": P("returned", SIX)}),
    "query.StochasticBatchQuery": Entry(
        select,
        {
            "score": P("name", "bald"),
            "sampler": P("name", "power"),
            "beta": BETA,
            "epsilon": P("part or none", 0.1),
            "diversity": P("not negative", 2.0),
            "n_instances": P("k", 2),
            "candidates": P("candidates", np.array([3, 1, 2])),
            "chunk_size": P("count or none", 3),
            "n_jobs": P("n_jobs", 1),
            **OF_SOURCE,
        },
    ),
    "query.StochasticBatchQuery.select_scored": Entry(
        select_scored,
        {"scores": P("scores", SIX), "n_instances": P("k", 2)},
    ),
    "query.Limits": Entry(
        limited,
        {
            "groups": P("groups", np.array([0, 0, 1, 1, 2, 2])),
            "max_per_group": P("most of groups", 2),
            "at_least": P("least of groups", {1: 1}),
            "costs": P("numbers", np.array([0.5, 1.0, 0.25, 0.75, 1.5, 0.5])),
            "budget": P("budget", 2.5),
            "must": P("rows in order", np.array([3, 1])),
        },
    ),
    "query.Pool.of": Entry(
        lambda **given: len(Pool.of(**given)),
        {"X_pool": P("rows", ROWS), "candidates": P("candidates", np.array([3, 1]))},
    ),
    "posterior.sample_posterior": Entry(
        posterior_draws, {"estimator": P("estimator", FOREST), "n_draws": P("n_draws", 4), "rng": RNG_P}
    ),
    "posterior.bootstrap": Entry(
        bootstrapped,
        {
            "estimator": P("estimator", FOREST),
            "X": P("rows", X),
            "y": P("labels", Y),
            "n_draws": P("count or none", 3),
            "sample_weight": P("weights or none", np.arange(1.0, 41.0)),
            "rng": RNG_P,
            "n_jobs": P("n_jobs", 1),
        },
    ),
    "datasets.make_repeated": Entry(
        make_repeated,
        {
            "X": P("matrix of rows", ROWS),
            "y": P("labels", Y[:6]),
            "repeats": P("count", 2),
            "noise_std": P("not negative", 0.1),
            "rng": RNG_P,
        },
    ),
    "datasets.make_causal": Entry(make_causal, {"n": P("count", 5), "rng": RNG_P}),
    "datasets.load_table": Entry(lambda name: load_table(name)[1], {"name": P("name", "penguins")}),
}
BAD |= {
    "chances": {name: bad for name, bad in BAD["plain numbers"].items() if name != "one too few"},
    "matrix": {name: bad for name, bad in BAD["numbers"].items() if name not in {"one too few", "sparse"}},
    "matrix of rows": {
        name: bad for name, bad in BAD["numbers"].items() if name not in {"one too few", "two axes more"}
    },
    "effects": BAD["numbers"],
    "returned": {
        name: bad for name, bad in BAD["numbers"].items() if name not in {"nan", "inf", "-inf", "Float64 with NA"}
    }
    | {"Float64 with NA": lambda a: frame(a, NA=True)},
    "weights or none": {name: bad for name, bad in BAD["numbers"].items() if name != "None"},
    "candidates": {name: bad for name, bad in NO_POSITIONS.items() if name not in {"None", "doubled", "mask"}},
    "rows in order": {name: bad for name, bad in NO_POSITIONS.items() if name not in {"None", "mask"}},
    "groups": {
        name: NO_NUMBERS[name]
        for name in (
            *("None", "text", "an object", "a generator", "a ragged list", "masked", "objects with None"),
            *("objects with NA", "objects of lists", "a scalar", "empty", "two axes more", "one too few"),
        )
    }
    | NAN,
    "most of groups": fixed(0, -1, 1.5, "1", [1], (1,), True, np.nan, object, {0: -1}, {0: 1.5}, {0: None}, {9: 1}),
    "least of groups": fixed(1, "x", [1], True, object, {0: -1}, {0: 1.5}, {0: True}, {9: 1}, {0: 3}, {0: 10**30}),
    "budget": NO_NUMBER | fixed(-1, -1e-9, 10**400, 0, 1.0),
}


ODD_KINDS = {
    "numbers",
    "plain numbers",
    "log weights",
    "scores",
    "chances",
    "matrix",
    "effects",
    "returned",
    "matrix of rows",
}


# --- what comes of a value ------------------------------------------------------------------------

NAMED = re.compile(r"`[\w.]+(\[[^`]*\])?`|^Cannot choose `")
SKLEARN = re.compile(
    r"Input X contains|Found array with|Expected 2D array|estimator requires y|X has \d+ features|Reshape"
)


def call(entry: Entry, **changed: Any) -> Any:
    given = {name: parameter.good for name, parameter in entry.parameters.items()} | changed
    given |= {
        name: np.random.default_rng(0)
        for name, p in entry.parameters.items()
        if p.kind.startswith("rng") and name not in changed
    }
    return entry.function(**given)


def outcome_of(entry: Entry, parameter: str, value: Any) -> tuple[str, str]:
    """Say "clear", "sklearn" or "unclear" of an error; "silent" or "warned" if there was none. And what was said."""
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            result = call(entry, **{parameter: value})
    except (ValueError, TypeError, NotFittedError) as error:
        text = str(error)
        if names(text, parameter) or text.startswith("Cannot choose `k`"):
            return "clear", text
        return ("sklearn" if SKLEARN.search(text) else "unclear"), f"{type(error).__name__}: {text}"
    except Exception as error:
        return "unclear", f"{type(error).__name__}: {error}"
    if caught:
        return "warned", f"{caught[0].category.__name__}: {caught[0].message} -> {result!r}"[:300]
    return "silent", repr(result)[:200]


ALSO_CALLED = {
    "X": "X_pool|treatment",
    "betas": "beta",
    "draws": "noise_variance",
    "log_proba": "losses",
    "returned": "score",
    "learner": "estimator",
    "y": "y_training",
    "values": "positions",
    "scores": "score",
    "top": "bottom",
}
"""A second name by which an error may call a parameter."""


def names(text: str, parameter: str) -> bool:
    """Whether an error names the parameter in backticks."""
    wanted = "|".join([parameter, *filter(None, [ALSO_CALLED.get(parameter)])])
    return re.search(rf"`({wanted})(\[[^`]*\])?`", text) is not None


def odd_outcome_of(entry: Entry, parameter: str, value: Any, expected: Any) -> tuple[str, str]:
    """Say "right" if the result is the expected one, else "wrong", "refused" or "unclear"."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            result = call(entry, **{parameter: value})
    except Exception as error:
        return ("refused" if names(str(error), parameter) else "unclear"), f"{type(error).__name__}: {error}"
    return ("right" if same(result, expected) else "wrong"), repr(result)[:200]


def same(a: Any, b: Any) -> bool:
    a, b = (vars(x) if hasattr(x, "__dict__") and not hasattr(x, "shape") else x for x in (a, b))
    if isinstance(a, dict):
        return all(same(a[key], b[key]) for key in b)
    if isinstance(a, tuple | list) and not np.isscalar(b):
        return len(a) == len(b) and all(same(x, y) for x, y in zip(a, b, strict=True))
    a, b = (x.detach().numpy() if isinstance(x, torch.Tensor) else np.asarray(x) for x in (a, b))
    return bool(np.allclose(a, b, rtol=1e-6, equal_nan=True)) if b.dtype.kind in "fiub" else bool(np.array_equal(a, b))


# --- what is taken, and why -----------------------------------------------------------------------

ACCEPTED = {
    ("scores.epig", "target_weights", "None"): "the default: all targets weigh the same",
    ("scores.variance", "draws", "one too few"): "a row less is another pool",
    ("scores.gaussian_bald", "noise_variance", "a scalar"): "one variance for all rows",
    ("samplers.softmax", "scores", "-inf"): "a row of no mass, which is documented",
    ("samplers.softrank", "scores", "-inf"): "a row of no mass, which is documented",
    ("samplers.topk", "scores", "-inf"): "a row of no mass, which is documented",
    ("samplers.uniform", "scores", "-inf"): "a row of no mass, which is documented",
    ("query.score_pool, a score of the user's", "returned", "Float64 with NA"): "pandas makes it NaN: no score",
    ("datasets.make_repeated", "X", "nan"): "features may have gaps, and copies have them as well",
    ("datasets.make_repeated", "X", "inf"): "features are not looked at",
    ("datasets.make_repeated", "X", "-inf"): "features are not looked at",
    ("datasets.make_repeated", "y", "two axes"): "labels of several targets are repeated row by row",
    ("*", "random_state", "[]"): "numpy takes lists of integers, the empty one included, as seeds",
}
"""(function, parameter, bad value): why it is right to take it."""

ODD_REFUSED = {"objects"}
"""Clothes in which draws and probabilities, which are large, are refused."""

NOT_HERE = {
    *("cli.main", "experiment.run_experiment", "posterior.check_posterior", "posterior.noise_variance"),
    *("query.draws_of", "query.embeddings_of", "query.model_of", "query.score_rows"),
}
"""Functions without a line in the table: programs, a check for tests, and what gets an estimator or a checked pool."""

TESTED_ELSEWHERE = {"risk.estimate_risk": {"largest_loss", "largest_weight"}}
"""Parameters that need data of their own to be good: tests/risk."""


def accepted(name: str, parameter: str, label: str) -> bool:
    return (name, parameter, label) in ACCEPTED or ("*", parameter, label) in ACCEPTED
