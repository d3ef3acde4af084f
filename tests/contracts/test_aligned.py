"""Values that are given one a row: pandas objects go by index where the rows have one, all else by position."""

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

from skactive._containers import aligned

N = 6
ORDER = np.array([3, 0, 5, 1, 4, 2])
VALUES = np.arange(N) * 10
INDEXES = {
    "numbers": pd.Index([12, 7, 99, -3, 0, 5]),
    "decimals": pd.Index([0.5, 1.5, np.nan, 3.0, 4.0, 5.0]),
    "names": pd.Index(list("fbcade")),
    "objects": pd.Index(["a", 1, None, 2.5, (1,), "b"], dtype=object),
    "days": pd.date_range("2026-01-01", periods=N),
    "days of a zone": pd.date_range("2026-01-01", periods=N, tz="Europe/Zurich"),
    "pairs": pd.MultiIndex.from_arrays([[1, 1, 1, 2, 2, 2], list("abcabc")]),
    "categories": pd.CategoricalIndex(list("abcdef")),
    "a range": pd.RangeIndex(N),
}
ROWS = {
    "frame": lambda index: pd.DataFrame({"a": np.arange(N)}, index=index),
    "series": lambda index: pd.Series(list("uvwxyz"), index=index),
}


@pytest.mark.parametrize("rows", ROWS)
@pytest.mark.parametrize("index", INDEXES)
def test_a_series_with_the_index_of_the_rows_in_another_order_is_put_into_theirs(index, rows):
    X = ROWS[rows](INDEXES[index])
    values = pd.Series(VALUES, index=INDEXES[index])
    np.testing.assert_array_equal(aligned(values.iloc[ORDER], X, "y"), VALUES)
    np.testing.assert_array_equal(aligned(values.to_frame().iloc[ORDER], X, "y").to_numpy()[:, 0], VALUES)


@pytest.mark.parametrize("index", INDEXES)
def test_a_series_of_some_rows_is_put_into_the_order_of_these(index):
    X, positions = ROWS["frame"](INDEXES[index]), np.array([4, 1, 3])
    values = pd.Series(VALUES, index=INDEXES[index]).iloc[[1, 3, 4]]
    np.testing.assert_array_equal(aligned(values, X, "y", positions), [40, 10, 30])


@pytest.mark.parametrize("index", [*INDEXES.values(), pd.Index([1, 1, 2, 2, 1, 3])])
def test_a_series_with_the_index_of_the_rows_is_taken_as_it_is(index):
    values = pd.Series(VALUES, index=index)
    assert aligned(values, ROWS["frame"](index), "y") is values


@pytest.mark.parametrize(
    "values",
    [VALUES, VALUES.tolist(), pd.array(VALUES), pd.Categorical(VALUES), pd.Index(VALUES), None],
    ids=lambda values: type(values).__name__,
)  # fmt: skip
def test_what_has_no_index_goes_by_position(values):
    assert aligned(values, ROWS["frame"](INDEXES["numbers"]), "y") is values


@pytest.mark.parametrize("X", [np.ones((N, 2)), [[1]] * N, sparse.eye(N, format="csr")], ids=["array", "list", "csr"])
def test_a_series_goes_by_position_where_rows_have_no_index(X):
    values = pd.Series(VALUES, index=ORDER)
    assert aligned(values, X, "y") is values


OTHERS = {
    "of other numbers": (pd.Index([12, 7, 99, -3, 0, 6]), INDEXES["numbers"]),
    "that was reset": (pd.RangeIndex(N), INDEXES["numbers"]),
    "of texts for numbers": (INDEXES["numbers"].astype(str), INDEXES["numbers"]),
    "of pairs for single ones": (INDEXES["pairs"], INDEXES["a range"]),
    "of days without their zone": (INDEXES["days"], INDEXES["days of a zone"]),
    "that repeats": (pd.Index([1, 1, 2, 3, 4, 5]), pd.Index([1, 2, 1, 3, 4, 5])),
    "that repeats what the rows have once": (pd.Index([1, 1, 2, 3, 4, 5]), pd.RangeIndex(N)),
}


@pytest.mark.parametrize("case", OTHERS)
def test_an_index_that_is_not_that_of_the_rows_is_refused_with_the_remedy(case):
    theirs, ours = OTHERS[case]
    with pytest.raises(ValueError, match=r"`y` must have the index of its rows.*Got \[.*rows have \[.*to_numpy"):
        aligned(pd.Series(VALUES, index=theirs), ROWS["frame"](ours), "y")
