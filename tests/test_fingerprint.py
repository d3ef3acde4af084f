"""Fingerprints: equal for what gives equal results, in every process, and different for everything else."""

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


def frame(categories="pq", index=(0, 1)):
    columns = {"a": [1.0, np.nan], "s": ["x", None], "c": pd.Categorical(["p", "q"], list(categories))}
    return pd.DataFrame({**columns, "n": pd.array([1, None], "Int64")}, index=list(index))


def test_data_are_told_apart_by_values_and_types_not_by_memory():
    a = np.arange(6.0).reshape(2, 3)
    assert digest(a) == digest(np.asfortranarray(a)) == digest(np.vstack([a, a])[:2])
    assert digest(np.arange(4.0)[::2][:1]) == digest(np.zeros(1))
    assert digest(frame()) == digest(frame().copy().iloc[:]) == digest(pd.concat([frame(), frame()]).iloc[:2])
    ordered = sparse.csr_array(np.array([[1.0, 2.0, 0.0]]))
    other = sparse.csr_array((ordered.data[::-1].copy(), ordered.indices[::-1].copy(), ordered.indptr), shape=(1, 3))
    assert digest(ordered) == digest(other) == digest(sparse.csc_array(ordered))
    others = [a, a.astype(np.float32), a.T, a + 1, frame(), frame()[["s", "a", "c", "n"]], None, a.reshape(3, 2)]
    others += [sparse.csr_array(a), a.tolist(), ["a", "b"], np.array(["a", "b"]), frame().rename(columns={"a": "b"})]
    others += [frame().astype({"a": "float32"}), frame("qp"), frame(index=(1, 0))]
    others += [np.array([1, np.nan], dtype=object), np.array([1, "nan"], dtype=object), np.zeros((0, 3))]
    others += [torch.arange(3), torch.arange(3).to(torch.bfloat16), frame()["a"], frame()[["a"]]]
    assert len({digest(other) for other in others}) == len(others)


class Weighted:
    def __init__(self, weights):
        self.weights = np.asarray(weights)

    def __call__(self, learner, X_pool, n_instances):
        return np.argsort(X_pool @ self.weights)[:n_instances]

    def method(self):
        return self.weights


def closure(value):
    return lambda *_: value


def from_source(text):
    """What is called ``query`` in a module of the user's own with this text."""
    names = {"__name__": "users_own"}
    exec(text, names)
    return names["query"]


def fitted(sign):
    return LogisticRegression().fit(X * sign, X[:, 0] > 0)


SOURCES = {
    "default": "def query(x={}): return x",
    "keyword default": "def query(*, x={}): return x",
    "global": "x = {}\ndef query(*_): return x",
    "function that a function calls": "def a(): return {}\ndef b(): return a()\ndef query(*_): return b()",
    "class that a function uses": "class A:\n    def f(self): return {}\ndef query(*_): return A().f()",
    "constant of a class": "class A:\n    x = {}\ndef query(*_): return A.x",
    "attribute of a function": "def query(*_): return 1\nquery.x = {}",
    "property": "class A:\n    @property\n    def x(self): return {}\nquery = A()",
    "static method": "class query:\n    @staticmethod\n    def a(): return {}",
    "class method": "class query:\n    @classmethod\n    def a(cls): return {}",
    "slot": "class A:\n    __slots__ = ('x',)\nquery = A()\nquery.x = {}",
}
CHANGES = {
    **{name: lambda sign, text=text: from_source(text.format(sign)) for name, text in SOURCES.items()},
    "closure": closure,
    "closure of a score": lambda sign: StochasticBatchQuery(closure(sign)),
    "closure in a pipeline": lambda sign: make_pipeline(FunctionTransformer(closure(sign)), LogisticRegression()),
    "closure in a closure": lambda sign: closure(closure(sign)),
    "wrapped function": lambda sign: functools.lru_cache(closure(sign)),
    "number in a long array of an object": lambda sign: Weighted(np.where(np.arange(5000) == 2500, sign, 0)),
    "object of a method": lambda sign: Weighted([sign]).method,
    "object of a built-in method": lambda sign: np.random.default_rng(sign + 1).permutation,
    "partial": lambda sign: functools.partial(closure(0), sign=sign),
    "object in a partial": lambda sign: functools.partial(Weighted([sign]), n_instances=1),
    "parameters of a module": lambda sign: torch.nn.PReLU(init=sign),
    "what a frozen estimator learned": lambda sign: FrozenEstimator(fitted(sign)),
    "what an estimator in a closure learned": lambda sign: closure(fitted(sign)),
    "scorer": lambda sign: make_scorer(closure(sign)),
    "key": lambda sign: {sign: 0},
    "item of a set": lambda sign: {"a", sign},
}


def test_a_change_of_what_decides_results_is_seen():
    assert [name for name, make in CHANGES.items() if digest(make(1)) != digest(make(1))] == []
    assert [name for name, make in CHANGES.items() if digest(make(1)) == digest(make(2))] == []


def test_values_that_python_calls_equal_and_a_model_does_not_are_different():
    for before, now in ((1, 1.0), (1, True), (0.0, False), ({1: "a"}, {"1": "a"})):
        assert digest({"max_features": before}) != digest({"max_features": now}), (before, now)
    assert digest(np.int64(3)) == digest(3) != digest(np.float64(3)) == digest(3.0)
    assert digest({"a": 1, 2: "b"}) == digest({2: "b", "a": 1})  # in any order
    assert digest(LogisticRegression(random_state=0)) == digest(fitted(1).set_params(random_state=1))  # clones forget


def test_functions_and_objects_that_refer_to_themselves_are_described():
    even = "def even(n): return n == 0 or odd(n - 1)\ndef odd(n): return n != 0 and even(n - 1)\nquery = even"
    assert digest(from_source(even)) == digest(from_source(even))
    assert digest(from_source(even)) != digest(from_source(even.replace("n == 0 or", "n == 1 or")))
    loop, again = [1], [1]
    loop.append(loop)
    again.append(again)
    assert digest(loop) == digest(again) != digest([1, [1]])


def test_what_cannot_be_pickled_is_refused():
    lock = threading.Lock()
    for value in (lock, closure(lock), {"f": closure(lock)}, {1: lock}, [lock], Weighted([lock])):
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


def test_code_counts_wherever_it_is_written_and_that_of_installed_packages_by_name():
    moved = {"__name__": "elsewhere"}
    exec("def query(*_): return 1", moved)
    assert digest(moved["query"]) == digest(from_source("# a line\n\ndef query(*_): return 1"))
    of_package = "from {} import {} as score\ndef query(model, X): return score(X)"  # wrapped functions, with names
    names = (("skactive.scores", "bald"), ("skactive.scores", "entropy"), ("fnmatch", "_compile_pattern"))
    assert len({digest(from_source(of_package.format(*name))) for name in names}) == 3
    assert digest([make_pipeline]) == digest([make_pipeline]) != digest([StandardScaler])
    assert digest(np.add) != digest(np.subtract)


USERS = {
    "import in a function": "def query(*_):\n    import helpmod\n    return helpmod.pick()",
    "import in a method": "class query:\n    def f(self):\n        from helpmod import pick\n        return pick()",
    "module in a closure": "def outer():\n    import helpmod as h\n    return lambda: h.pick()\nquery = outer()",
    "module as a default": "import helpmod\ndef query(h=helpmod): return h.pick()",
    "relative import": "__package__ = 'own'\ndef query(*_):\n    from .helpmod import pick\n    return pick()",
    "import that fails": "import helpmod\ndef query(*_):\n    import no_such_module\n    return helpmod.pick()",
}


@pytest.mark.parametrize("name", USERS)
def test_modules_of_the_user_s_own_count_wherever_a_function_has_them_from(name, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "own").mkdir()
    found = []
    for i, value in enumerate((1, 1, 20)):
        for path in (tmp_path / "helpmod.py", tmp_path / "own" / "helpmod.py"):
            path.write_text(f"def pick(): return {value}\ndef other(): return {i}")
        importlib.invalidate_caches()
        found.append(digest(from_source(USERS[name])))
        for module in ("helpmod", "own", "own.helpmod"):
            sys.modules.pop(module, None)
    assert found[0] == found[1] != found[2]


def test_functions_of_a_program_that_is_installed_are_told_apart(monkeypatch):
    monkeypatch.setattr(sys.modules["__main__"], "__file__", "/site-packages/program/__main__.py", raising=False)
    programs = [from_source(f"__name__ = '__main__'\ndef query(): return {i}") for i in (0, 1)]
    assert digest(programs[0]) != digest(programs[1])
