"""Copies, noise and tables are what they are said to be."""

from pathlib import Path

import numpy as np
import pytest

from skactive import datasets
from skactive.datasets import load_table, make_repeated


def test_repeats_are_whole_copies_one_after_the_other(rng):
    X, y = make_repeated(np.arange(6).reshape(3, 2), ["a", "b", "c"], 4, 0.0, rng)
    np.testing.assert_array_equal(X, np.tile(np.arange(6).reshape(3, 2), (4, 1)))
    assert y.tolist() == ["a", "b", "c"] * 4


@pytest.mark.parametrize(("dtype", "expected"), [(np.float32, np.float32), (np.uint8, np.float64)])
def test_noise_of_repeats_has_the_given_deviation_and_leaves_the_original_alone(dtype, expected, rng):
    n = 40_000
    original = np.zeros((n, 1), dtype)
    X, _ = make_repeated(original, np.zeros(n), 1, 0.1, rng)
    assert X.dtype == expected
    assert abs(X.std() - 0.1) < 5 * 0.1 / np.sqrt(2 * n)  # 5 standard errors of a normal's deviation
    assert abs(X.mean()) < 5 * 0.1 / np.sqrt(n)
    assert not original.any()


def test_tables_have_the_rows_and_columns_that_are_documented():
    X, y = load_table("penguins")
    assert X.shape == (344, 6)
    assert X.isna().any(axis=1).sum() == 11
    counts = dict(zip(*np.unique(y.astype(str), return_counts=True), strict=True))
    assert counts == {"Adelie": 152, "Chinstrap": 68, "Gentoo": 124}
    X, y = load_table("hpc")
    assert X.shape == (4331, 7)
    assert not X.isna().to_numpy().any()
    assert np.mean(y == "L") == pytest.approx(0.06, abs=0.001)


def test_the_licences_of_tables_lie_beside_them():
    data = Path(datasets.__file__).parent / "data"
    readme = (data / "README.md").read_text(encoding="utf-8")
    for part in [*(path.name for path in data.iterdir()), "CC0 1.0", "Copyright (c) 2023 modeldata authors"]:
        assert part == "README.md" or part in readme
