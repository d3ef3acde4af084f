"""Which rows may be chosen: positions or a mask, in the order of the pool whatever the order they come in."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from skactive.query import Pool

RNG = np.random.default_rng(0)
VALUES = RNG.normal(size=(60, 3))
X = pd.DataFrame(VALUES, columns=list("abc"), index=np.arange(60) + 1000)
FREE = pd.Series(np.arange(60) % 3 == 0, index=X.index)


def rows(candidates):
    return Pool.of(X, candidates).rows.tolist()


def test_a_row_that_is_named_twice_is_one_candidate():
    assert rows([5, 3, 3]) == rows([3, 3, 5]) == [3, 5]


@pytest.mark.parametrize("dtype", ["bool", "boolean", "object"])
def test_a_boolean_series_goes_by_its_index(dtype):
    shuffled = FREE.sample(frac=1, random_state=0).astype(dtype)
    assert rows(FREE.astype(dtype)) == rows(shuffled) == np.flatnonzero(FREE).tolist()


def test_ids_are_no_positions_and_the_message_has_the_line_that_makes_some_of_them():
    with pytest.raises(TypeError, match=r"a pandas Index holds ids. Give `np.flatnonzero\(X_pool.index.isin\(ids\)\)`"):
        rows(X.index)
    ids = X.index[[40, 3]]
    assert rows(np.flatnonzero(X.index.isin(ids))) == [3, 40]


def test_positions_in_a_series_are_positions_whatever_its_index():
    assert rows(pd.Series([5, 2, 5], index=[7, 8, 9])) == [2, 5]
    assert rows(pd.Series([5, 2], dtype="Int64")) == [2, 5]


GAPS = FREE.astype("object")
GAPS.iloc[4] = pd.NA
ZEROS_AND_ONES = np.arange(60) % 2


@pytest.mark.parametrize(
    "given", [GAPS, GAPS.astype("boolean"), ZEROS_AND_ONES, np.ma.masked_array([1, 2], [0, 1]), [0.5], [-1], [60]]
)
def test_what_is_neither_positions_nor_a_mask_is_refused(given):
    for name in ("candidates", "pending"):
        with pytest.raises((ValueError, TypeError), match=f"`{name}` must"):
            Pool.of(X, **{name: given})
