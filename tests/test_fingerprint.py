"""Fingerprints: equal for what gives equal results, in every process, and different for everything else."""

from __future__ import annotations

import functools
import importlib
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
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import make_scorer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler

from skactive import StochasticBatchQuery
from skactive._utils.fingerprint import digest

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
    assert digest(a) == digest(np.asfortranarray(a)) == digest(np.vstack([a, a])[:2])
    assert digest(np.arange(4.0)[::2][:1]) == digest(np.zeros(1))
    assert digest(frame()) == digest(frame().copy().iloc[:]) == digest(pd.concat([frame(), frame()]).iloc[:2])
    assert digest(sparse.csc_array(a)) == digest(sparse.csr_array(a))
    others = [a, a.astype(np.float32), a.T, a + 1, frame(), frame()[["s", "a", "c", "n"]], None, a.reshape(3, 2)]
    others += [sparse.csr_array(a), a.tolist(), ["a", "b"], np.array(["a", "b"]), frame().rename(columns={"a": "b"})]
    others += [frame().astype({"a": "float32"}), frame("qp"), frame(index=(1, 0))]
    others += [np.array([1, np.nan], dtype=object), np.array([1, "nan"], dtype=object), np.zeros((0, 3))]
    others += [torch.arange(3), torch.arange(3).to(torch.bfloat16), frame()["a"], frame()[["a"]]]
    assert len({digest(other) for other in others}) == len(others)


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


def own_metric(sign):
    return lambda y, predicted: sign * np.mean(y == predicted)


def net(seed):
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.BatchNorm1d(2))


def fitted(sign):
    return LogisticRegression().fit(X * sign, X[:, 0] > 0)


def long_array(sign):
    return Weighted(np.where(np.arange(5000) == 2500, sign, 0))


def with_static_method(sign):
    names = {"__name__": "users_own"}
    exec(
        f"class Query:\n    @staticmethod\n    def a(): return {sign}\n    @classmethod\n    def b(cls): return 1",
        names,
    )
    return names["Query"]


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
    "static method": with_static_method,
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
    assert digest(make(1)) == digest(make(1))
    assert digest(make(1)) != digest(make(2))


def test_numbers_of_numpy_are_those_of_python():
    assert digest(np.int64(3)) == digest(3) != digest(np.float64(3)) == digest(3.0)


def test_the_order_of_a_dict_is_no_difference():
    assert digest({"a": 1, 2: "b"}) == digest({2: "b", "a": 1}) != digest({"2": "b", "a": 1})


def test_random_states_and_what_clones_forget_make_no_difference():
    assert digest(LogisticRegression(random_state=0)) == digest(fitted(1).set_params(random_state=1))


def test_functions_and_objects_that_refer_to_themselves_are_described():
    even = "def even(n): return n == 0 or odd(n - 1)\ndef odd(n): return n != 0 and even(n - 1)\nquery = even"
    assert digest(from_source(even)) == digest(from_source(even))
    assert digest(from_source(even)) != digest(from_source(even.replace("n == 0 or", "n == 1 or")))
    loop = [1]
    loop.append(loop)
    again = [1]
    again.append(again)
    assert digest(loop) == digest(again) != digest([1, [1]])


LOCK = threading.Lock()


@pytest.mark.parametrize("value", [LOCK, closure(LOCK), {"f": closure(LOCK)}, {1: LOCK}, [LOCK], Weighted([LOCK])])
def test_what_cannot_be_pickled_is_refused(value):
    with pytest.raises(ValueError, match="cannot be compared with that of a later call"):
        digest(value)


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

    here = digest(users_module.things)
    assert digest(importlib.reload(users_module).things) == here
    code = "import users_module; from skactive._utils.fingerprint import digest; print(digest(users_module.things))"
    env = {**os.environ, "PYTHONPATH": f"{Path(__file__).parents[1]}:{tmp_path}", "PYTHONHASHSEED": "7"}
    there = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True)
    assert there.stdout.strip() == here
    del sys.modules["users_module"]


def test_code_that_moves_to_another_module_is_the_same(monkeypatch):
    moved = {"__name__": "elsewhere"}
    exec("def query(*_): return 1", moved)
    assert digest(moved["query"]) == digest(from_source("# a line\n\ndef query(*_): return 1"))


def test_code_of_installed_packages_is_known_by_name():
    assert digest([make_pipeline]) == digest([make_pipeline]) != digest([StandardScaler])
    assert digest(np.add) != digest(np.subtract)
    assert (
        digest(make_scorer(own_metric(1))) == digest(make_scorer(own_metric(1))) != digest(make_scorer(own_metric(2)))
    )


@pytest.mark.parametrize(("before", "now"), [(1, 1.0), (1, True), (0.0, False), ({1: "a"}, {"1": "a"})])
def test_values_that_python_calls_equal_and_a_model_does_not_are_different(before, now):
    assert digest({"max_features": before}) != digest({"max_features": now})


def test_the_order_of_indices_in_a_sparse_row_is_no_difference():
    ordered = sparse.csr_array(np.array([[1.0, 2.0, 0.0]]))
    other = sparse.csr_array((ordered.data[::-1].copy(), ordered.indices[::-1].copy(), ordered.indptr), shape=(1, 3))
    assert digest(ordered) == digest(other)
