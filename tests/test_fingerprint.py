"""Fingerprints: equal for what gives equal results, in every process, and different for everything else."""

from __future__ import annotations

import functools
import importlib
import json
import os
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from scipy import sparse
from sklearn.frozen import FrozenEstimator
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler

from skactive import StochasticBatchQuery
from skactive._fingerprint import describe, first_difference, hash_data

X = np.random.default_rng(0).normal(size=(60, 3))


# --- data -----------------------------------------------------------------------------------------


def frame(categories="pq", index=(0, 1)):
    columns = {
        "a": [1.0, np.nan],
        "s": ["x", None],
        "c": pd.Categorical(["p", "q"], list(categories)),
        "n": pd.array([1, None], "Int64"),
    }
    return pd.DataFrame(columns, index=list(index))


def test_data_are_told_apart_by_values_and_types_not_by_memory():
    a = np.arange(6.0).reshape(2, 3)
    assert hash_data(a) == hash_data(np.asfortranarray(a)) == hash_data(np.vstack([a, a])[:2])
    assert hash_data(np.arange(4.0)[::2][:1]) == hash_data(np.zeros(1))
    assert hash_data(frame()) == hash_data(frame().copy().iloc[:]) == hash_data(pd.concat([frame(), frame()]).iloc[:2])
    assert hash_data(sparse.csc_array(a)) == hash_data(sparse.csr_array(a))
    others = [a, a.astype(np.float32), a.T, a + 1, frame(), frame()[["s", "a", "c", "n"]], None, a.reshape(3, 2)]
    others += [sparse.csr_array(a), a.tolist(), ["a", "b"], np.array(["a", "b"]), frame().rename(columns={"a": "b"})]
    others += [frame().astype({"a": "float32"}), frame("qp"), frame(index=(1, 0)), np.ma.masked_array(a, a > 3)]
    others += [np.array([1, np.nan], dtype=object), np.array([1, "nan"], dtype=object), np.zeros((0, 3))]
    others += [torch.arange(3), torch.arange(3).to(torch.bfloat16), frame()["a"], frame()[["a"]]]
    assert len({hash_data(other) for other in others}) == len(others)


def test_an_object_that_is_there_three_times_is_three_equal_ones():
    row, day = [1.0, 2.0], pd.Timestamp("2020-01-01")
    assert hash_data([row] * 3) == hash_data([[1.0, 2.0] for _ in range(3)])
    copies = [pd.Timestamp("2020-01-01") for _ in range(3)]
    assert hash_data(np.array([day] * 3, dtype=object)) == hash_data(np.array(copies, dtype=object))
    assert describe([len, len, row, row]) == describe([len, len, [1.0, 2.0], [1.0, 2.0]])


# --- code and objects -----------------------------------------------------------------------------


class Weighted:
    """A query with arrays, and with a method."""

    def __init__(self, weights):
        self.weights = np.asarray(weights)

    def __call__(self, learner, X_pool, n_instances):
        return np.argsort(X_pool @ self.weights)[:n_instances]

    def other(self, learner, X_pool, n_instances):
        return np.arange(n_instances)


class Slotted:
    __slots__ = ("beta",)

    def __init__(self, beta):
        self.beta = beta


def closure(sign):
    return lambda learner, X_pool, n_instances: np.argsort(sign * X_pool[:, 0])[:n_instances]


def default(sign):
    def query(learner, X_pool, n_instances=1, sign=sign):
        return np.argsort(sign * X_pool[:, 0])[:n_instances]

    return query


def keyword_default(sign):
    def query(learner, X_pool, n_instances=1, *, sign=sign):
        return np.argsort(sign * X_pool[:, 0])[:n_instances]

    return query


def from_source(text):
    """The function `query` of a module of the user's own with this text."""
    names = {"__name__": "users_own"}
    exec(text, names)
    return names["query"]


def uses_a_global(sign):
    return from_source(f"SIGN = {sign}\ndef query(*_): return SIGN")


def uses_a_function(sign):
    return from_source(f"def inner(): return {sign}\ndef outer(): return inner()\ndef query(*_): return outer()")


def uses_a_class(sign):
    return from_source(f"class Own:\n    def f(self): return {sign}\ndef query(*_): return Own().f()")


def uses_a_constant_of_a_class(sign):
    return from_source(f"class Own:\n    sign = {sign}\ndef query(*_): return Own.sign")


def with_attribute(sign):
    query = closure(0)
    query.log_weights = closure(sign)
    return query


def own_class(sign):
    names = {"__name__": "users_own"}
    exec(f"class Query:\n    @property\n    def sign(self): return {sign}", names)
    return names["Query"]()


def net(seed):
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.BatchNorm1d(2))


def fitted(sign):
    return LogisticRegression().fit(X * sign, X[:, 0] > 0)


def long_array(sign):
    return Weighted(np.where(np.arange(5000) == 2500, sign, 0))


CHANGES = {
    "closure": closure,
    "default": default,
    "keyword default": keyword_default,
    "global": uses_a_global,
    "function that a function calls": uses_a_function,
    "class that a function uses": uses_a_class,
    "constant of a class": uses_a_constant_of_a_class,
    "attribute of a function": with_attribute,
    "code of a class": own_class,
    "closure of a score": lambda sign: StochasticBatchQuery(closure(sign)),
    "closure in a pipeline": lambda sign: make_pipeline(FunctionTransformer(closure(sign)), LogisticRegression()),
    "closure in a closure": lambda sign: closure(closure(sign)),
    "wrapped function": lambda sign: functools.lru_cache(closure(sign)),
    "array in an object": lambda sign: Weighted([sign, 0, 0]),
    "number in a long array": long_array,
    "object of a method": lambda sign: Weighted([sign]).other,
    "object of a built-in method": lambda sign: np.random.default_rng(sign + 1).permutation,
    "partial": lambda sign: functools.partial(default(0), sign=sign),
    "object in a partial": lambda sign: functools.partial(Weighted([sign]), n_instances=1),
    "slot": Slotted,
    "weights of a module": net,
    "what a frozen estimator learned": lambda sign: FrozenEstimator(fitted(sign)),
    "what an estimator in a closure learned": lambda sign: closure(fitted(sign)),
    "order of categories": lambda sign: frame("pq" if sign == 1 else "qp"),
    "key": lambda sign: {sign: 0},
    "item of a set": lambda sign: {"a", sign},
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_change_of_what_decides_results_is_seen(change):
    make = CHANGES[change]
    assert describe(make(1)) == describe(make(1))
    assert first_difference(describe(make(1)), describe(make(-1) if make is not net else make(2))) is not None
    assert json.loads(json.dumps(describe(make(1)))) == describe(make(1))


def test_a_difference_is_named_by_its_path():
    def path(before, now):
        return first_difference(describe(before), describe(now))

    assert path({"q": closure(1)}, {"q": closure(-1)}) == ("q.closure.sign", 1, -1)
    assert path({"q": uses_a_global(1)}, {"q": uses_a_global(2)}) == ("q.globals.SIGN", 1, 2)
    assert path({"q": keyword_default(1)}, {"q": keyword_default(2)}) == ("q.keyword_defaults.sign", 1, 2)
    assert path(Slotted(1), Slotted(2))[0] == "(state)[1].beta"

    def pipeline(**params):
        return make_pipeline(SimpleImputer(), StandardScaler(), LogisticRegression(**params))

    settings = {"estimator": pipeline(), "scoring": {"b": lambda x: x in {"p", "q"}}, "rows": (X, np.int64(3))}
    assert path(settings, {**settings}) is None
    assert path(settings, {**settings, "estimator": pipeline(C=2.0)}) == ("estimator.steps[2][1].C", 1.0, 2.0)
    assert path(settings, {**settings, "scoring": {"b": lambda x: x in {"p", "r"}}})[0] == "scoring.b.code"
    assert path(settings, {**settings, "more": 1})[0] == ""


def test_random_states_and_what_clones_forget_make_no_difference():
    assert describe(LogisticRegression(random_state=0)) == describe(fitted(1).set_params(random_state=1))


def test_functions_and_objects_that_refer_to_themselves_are_described():
    even = "def even(n): return n == 0 or odd(n - 1)\ndef odd(n): return n != 0 and even(n - 1)\nquery = even"
    assert describe(from_source(even)) == describe(from_source(even))
    assert describe(from_source(even)) != describe(from_source(even.replace("n == 0 or", "n == 1 or")))
    loop = [1]
    loop.append(loop)
    assert describe(loop) == [1, "builtins.list that this is part of"]
    deep = []
    for _ in range(5000):
        deep = [deep]
    describe(deep)


def test_of_what_cannot_be_pickled_the_type_the_repr_and_plain_attributes_are_seen():
    class Locked:
        def __init__(self, beta):
            self.beta, self.lock, self.array = beta, threading.Lock(), np.array([beta])

        def __reduce_ex__(self, protocol):
            raise TypeError("cannot pickle")

    assert describe(Locked(1)) == describe(Locked(1))
    assert first_difference(describe(Locked(1)), describe(Locked(2))) == ("beta", 1, 2)
    assert describe(closure(threading.Lock())) == describe(closure(threading.Lock()))


MODULE = """
import numpy as np
from functools import partial
WORDS, TABLE = {"a", "b", "c", "dd", "eee"}, {"k": np.arange(3)}
class Query:
    words = frozenset(WORDS)
    def __init__(self, rng): self.rng = rng
    def __call__(self, learner, X_pool, n_instances=1): return helper(n_instances) if "a" in {"a", "b", "c"} else Query
def helper(n): return TABLE["k"][:n]
things = [Query(np.random.default_rng(0)), partial(helper, n=3), helper, Query.__call__, WORDS]
"""


def test_the_same_code_is_equal_in_another_process_and_at_a_second_import(tmp_path, monkeypatch):
    (tmp_path / "users_module.py").write_text(MODULE)
    monkeypatch.syspath_prepend(tmp_path)
    import users_module

    here = describe(users_module.things)
    assert describe(importlib.reload(users_module).things) == here
    code = "import json, users_module; from skactive._fingerprint import describe; "
    code += "print(json.dumps(describe(users_module.things)))"
    env = {**os.environ, "PYTHONPATH": f"{Path(__file__).parents[2]}:{tmp_path}", "PYTHONHASHSEED": "7"}
    there = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True)
    assert json.loads(there.stdout) == here
    del sys.modules["users_module"]


def test_code_that_moves_to_another_module_is_the_same(monkeypatch):
    moved = {"__name__": "elsewhere"}
    exec("def query(*_): return 1", moved)
    assert describe(moved["query"]) == describe(from_source("# a line\n\ndef query(*_): return 1"))


def test_globals_of_installed_packages_are_not_looked_into():
    assert not any(name.startswith("globals") for name in describe(make_pipeline))


@pytest.mark.parametrize(("before", "now"), [(1, 1.0), (1, True), (0.0, False), ({1: "a"}, {"1": "a"})])
def test_values_that_python_calls_equal_and_a_model_does_not_are_different(before, now):
    assert first_difference(describe({"max_features": before}), describe({"max_features": now})) is not None


def test_the_order_of_indices_in_a_sparse_row_is_no_difference():
    ordered = sparse.csr_array(np.array([[1.0, 2.0, 0.0]]))
    other = sparse.csr_array((ordered.data[::-1].copy(), ordered.indices[::-1].copy(), ordered.indptr), shape=(1, 3))
    assert hash_data(ordered) == hash_data(other)
