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
    "objects": pd.Index(["a", 1, None, 2.5, (1,), "b"], dtype=object),
    "days of a zone": pd.date_range("2026-01-01", periods=N, tz="Europe/Zurich"),
    "pairs": pd.MultiIndex.from_arrays([[1, 1, 1, 2, 2, 2], list("abcabc")]),
    "a range": pd.RangeIndex(N),
}
FRAMES = {name: pd.DataFrame({"a": np.arange(N)}, index=index) for name, index in INDEXES.items()}


@pytest.mark.parametrize("index", INDEXES)
def test_a_series_with_the_index_of_the_rows_goes_by_it(index):
    X, values = FRAMES[index], pd.Series(VALUES, index=INDEXES[index])
    np.testing.assert_array_equal(aligned(values.iloc[ORDER], X, "y"), VALUES)
    np.testing.assert_array_equal(aligned(values.iloc[ORDER], X["a"], "y"), VALUES)
    np.testing.assert_array_equal(aligned(values.to_frame().iloc[ORDER], X, "y").to_numpy()[:, 0], VALUES)
    np.testing.assert_array_equal(aligned(values.iloc[[1, 3, 4]], X, "y", np.array([4, 1, 3])), [40, 10, 30])
    assert aligned(values, X, "y") is values


def test_what_has_no_index_or_rows_without_one_go_by_position():
    for values in (VALUES, VALUES.tolist(), pd.array(VALUES), pd.Categorical(VALUES), pd.Index(VALUES), None):
        assert aligned(values, FRAMES["numbers"], "y") is values
    series = pd.Series(VALUES, index=ORDER)
    for X in (np.ones((N, 2)), [[1]] * N, sparse.eye(N, format="csr")):
        assert aligned(series, X, "y") is series


OTHERS = {
    "that was reset": (pd.RangeIndex(N), INDEXES["numbers"]),
    "of texts for numbers": (INDEXES["numbers"].astype(str), INDEXES["numbers"]),
    "of days without their zone": (INDEXES["days of a zone"].tz_localize(None), INDEXES["days of a zone"]),
    "that repeats": (pd.Index([1, 1, 2, 3, 4, 5]), pd.Index([1, 2, 1, 3, 4, 5])),
}


@pytest.mark.parametrize("case", OTHERS)
def test_an_index_that_is_not_that_of_the_rows_is_refused_with_the_remedy(case):
    theirs, ours = OTHERS[case]
    with pytest.raises(ValueError, match=r"`y` must have the index of its rows.*Got \[.*rows have \[.*to_numpy"):
        aligned(pd.Series(VALUES, index=theirs), pd.DataFrame({"a": np.arange(N)}, index=ours), "y")
