"""The state of queries on disk: data come back as they were, and anything else is refused, not pickled."""

from __future__ import annotations

import pickle

import numpy as np
import pandas as pd
import pytest
import torch
from scipy import sparse

from skactive._fingerprint import describe
from skactive._plain import NoPlainFormError, dumps, loads

TABLE = pd.DataFrame(
    {
        "a": [1.0, np.nan],
        "s": ["x", None],
        "c": pd.Categorical(["p", "q"], ["q", "p"], ordered=True),
        "n": pd.array([1, None], "Int64"),
        "o": pd.Series([{"a": 1}, (2, [3])], dtype=object),
        "b": [True, False],
        "t": pd.array(["u", None], "string"),
        "d": pd.to_datetime(["2020-01-01", None]),
    },
    index=["row", "other"],
)
DATA = [
    *[None, True, 3, 10**30, 1.5, float("nan"), -np.inf, 'é\n"', b"\x00\n", (1, [2, (3,)]), {1: "a", "b": {"c"}}],
    *[frozenset("ab"), np.float32(0.1), np.datetime64("2020"), np.array("x"), np.zeros((0, 3)), np.arange(6.0)[::2]],
    *[np.array([[1, "a"], [None, (2,)]], dtype=object), sparse.csr_matrix(np.eye(2)), sparse.csc_array(np.eye(2))],
    *[torch.arange(3), torch.ones(2, dtype=torch.bfloat16), TABLE["s"], pd.Series([1, 2], index=[5, 3], name="y")],
]


@pytest.mark.parametrize("value", DATA, ids=[f"{i}-{type(value).__name__}" for i, value in enumerate(DATA)])
def test_data_come_back_as_they_were(value):
    back = loads(dumps({"value": [value]}))["value"][0]
    assert type(back) is type(value)
    assert describe(back) == describe(value)


def test_a_table_comes_back_with_its_types_names_and_index():
    pd.testing.assert_frame_equal(loads(dumps(TABLE)), TABLE)
    twice = pd.DataFrame(np.arange(4).reshape(2, 2), columns=["x", "x"])
    pd.testing.assert_frame_equal(loads(dumps(twice)), twice)


@pytest.mark.parametrize("name", ["PCG64", "PCG64DXSM", "MT19937", "Philox", "SFC64"])
def test_generators_go_on_as_they_would_have(name):
    rng = np.random.Generator(getattr(np.random, name)([1, 2]))
    rng.integers(9, dtype=np.int32)  # leaves half of a number
    rng.spawn(2)
    back = loads(dumps(rng))
    assert back.integers(9, size=5, dtype=np.int32).tolist() == rng.integers(9, size=5, dtype=np.int32).tolist()
    assert back.spawn(1)[0].random() == rng.spawn(1)[0].random()
    old = np.random.RandomState(3)
    old.normal()  # leaves the second of a pair
    assert loads(dumps(old)).normal() == old.normal()


class Own:
    pass


MORE_THAN_DATA = [
    *[Own(), len, lambda: 0, np.array([Own()]), np.ma.masked_array([1], [True]), sparse.coo_matrix(np.eye(2))],
    *[torch.ones(1, requires_grad=True), pd.DataFrame({"p": pd.period_range("2020", periods=2)})],
    *[pd.DataFrame([[1]], columns=pd.MultiIndex.from_tuples([("a", "b")])), {"deep": [Own()]}],
]


@pytest.mark.parametrize("value", MORE_THAN_DATA, ids=[f"{i}" for i in range(len(MORE_THAN_DATA))])
def test_what_is_more_than_data_has_no_plain_form(value):
    with pytest.raises(NoPlainFormError):
        dumps(value)


def test_reading_makes_no_object_from_a_pickle():
    class Hostile:
        def __reduce__(self):
            return pytest.fail, ("a pickle was read",)

    for content in (pickle.dumps(Hostile()), b'{"npy":[0,500]}\n' + pickle.dumps(Hostile())):
        with pytest.raises(ValueError):
            loads(content)
