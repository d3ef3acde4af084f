"""Scores against their formulas, in 50 digits, and against the numbers of reported cases."""

from __future__ import annotations

import itertools
import math

import hypothesis.extra.numpy as hnp
import numpy as np
import pytest
import reference
import torch
from hypothesis import given
from hypothesis import strategies as st

from skactive.scores import SCORES, bald, entropy, std_dev

NAMES = ["bald", "entropy", "variation_ratio", "std_dev", "margin"]
LN3 = math.log(3)
DTYPES = ["float16", "float32", "float64"]


def members(*points):
    """Draws from one list of members a point: the axes of the reported cases are (point, member, class)."""
    return np.array(points, dtype=float).transpose(1, 0, 2)


@st.composite
def class_draws(draw, max_draws=6, max_points=5, max_classes=6):
    """Draws with exact zeros, certain rows and repeated draws among them."""
    shape = (
        draw(st.integers(1, max_draws)),
        draw(st.integers(1, max_points)),
        draw(st.integers(1, max_classes)),
    )
    counts = draw(hnp.arrays(np.int64, shape, elements=st.sampled_from([0, 0, 1, 2, 3, 7, 1000, 10**9])))
    empty = counts.sum(axis=-1) == 0
    counts[empty, 0] = 1
    return counts / counts.sum(axis=-1, keepdims=True)


@pytest.mark.arithmetic
@pytest.mark.parametrize("name", NAMES)
@given(draws=class_draws())
def test_scores_equal_their_formulas_in_fifty_digits(name, draws):
    np.testing.assert_allclose(SCORES[name](draws), reference.SCORES[name](draws), rtol=0, atol=1e-9)


def test_scores_equal_their_formulas_on_dirichlet_draws_of_any_precision(rng):
    # The reference sees the cast values. 2e-6 allows elementwise work in float32 (one ulp of x log x is below 6e-8, a
    # sum over 10 classes stays below 1e-6); arithmetic or sums in float16 (ulp 5e-4) would miss it by far.
    for shape, dtype in itertools.product([(5, 2, 10), (2, 2, 60), (1, 4, 1)], ["bfloat16", *DTYPES]):
        draws = torch.from_numpy(reference.random_draws(rng, *shape)).to(getattr(torch, dtype))
        for name in NAMES:
            expected, atol = reference.SCORES[name](draws), 1e-9 if dtype == "float64" else 2e-6
            for held in [draws] if dtype == "bfloat16" else [draws, draws.numpy()]:
                np.testing.assert_allclose(SCORES[name](held), expected, 0, atol, err_msg=f"{name}, {shape}, {dtype}")


@pytest.mark.parametrize("n_draws", [2, 100])
def test_bald_keeps_small_disagreements(n_draws, rng):
    # Two draws differ by 1e-6 in two classes: BALD is (1e-6)² / (2 · 4) · (1/p + 1/q), some 1e-12, and the difference
    # of two entropies near 1 would leave three digits of it. Below K·C·eps the score may be 0.
    point = np.array([0.3, 0.2, 0.5])
    draws = np.stack([point + 1e-6 * sign * np.array([1, -1, 0]) for sign in (1, -1)]).reshape(2, 1, 3)
    draws = np.repeat(draws, n_draws // 2, axis=0)
    expected = reference.bald(draws)
    assert 1e-13 < expected[0] < 1e-10
    # The rounding of K·C terms, each below eps, may stay; where that is 0.01 of the score the score may even be 0.
    assert abs(bald(draws)[0] - expected[0]) <= max(n_draws * 3 * np.finfo(float).eps, 1e-3 * expected[0])


@given(draws=class_draws(), dtype=st.sampled_from(DTYPES))
def test_scores_keep_their_bounds(draws, dtype):
    draws = draws.astype(dtype)
    n_draws, _, n_classes = draws.shape
    eps = {"float16": 1e-2, "float32": 1e-6, "float64": 1e-9}[dtype]  # by which sums of rows may miss 1
    bounds = {
        "bald": np.minimum(math.log(n_draws), entropy(draws)),
        "entropy": math.log(n_classes),
        "variation_ratio": 1 - 1 / n_classes,
        "std_dev": math.inf,
        "margin": 1,
    }
    for name, bound in bounds.items():
        values = SCORES[name](draws)
        assert ((values >= 0) & (values <= bound + eps)).all(), name


def test_bald_and_std_dev_are_exactly_zero_where_all_draws_agree(rng):
    # A difference of entropies, and the KL form without a floor, leave ±2e-15 on about half of such rows; of a single
    # draw as well: Riashat/Active-Learning-Bayesian-Convolutional-Neural-Networks #3, the two entropies in two dtypes.
    for n_draws, n_classes, dtype in itertools.product([1, 2, 7, 100], [2, 3, 100], DTYPES):
        draws = np.repeat(reference.random_draws(rng, 1, 200, n_classes, dtype), n_draws, axis=0)
        draws[:, 0] = np.eye(n_classes)[0]
        for values in (bald(draws), std_dev(draws)):
            assert np.count_nonzero(values) == 0, (n_draws, n_classes, dtype)
            assert not np.signbit(values).any()


def test_four_scores_on_one_array():
    # damienlancry/DBAL #1; modAL modAL/dropout.py: ddof 1, a mean over classes, or counted votes give other numbers.
    draws = members(
        [[0.8, 0.1, 0.1], [0.2, 0.7, 0.1], [0.5, 0.2, 0.3], [0.1, 0.1, 0.8]],
        [[0.6, 0.3, 0.1], [0.5, 0.4, 0.1], [0.7, 0.2, 0.1], [0.6, 0.3, 0.1]],
        [[1 / 3, 1 / 3, 1 / 3]] * 4,
        [[0, 0, 1], [0, 0, 1], [0, 1, 0], [0, 0, 1]],
    )
    expected = {
        "bald": [0.3094304025464064, 0.012681126210295712, 0.0, 0.5623351446188083],
        "entropy": [1.0868142240234726, 0.8979457248567797, LN3, 0.5623351446188083],
        "variation_ratio": [0.6, 0.4, 2 / 3, 0.25],
        "std_dev": [0.808746216585728, 0.1414213562373095, 0.0, 0.8660254037844386],
        "margin": [1 - (0.4 - 0.325), 1 - (0.6 - 0.3), 1.0, 1 - (0.75 - 0.25)],
    }
    for name, values in expected.items():
        np.testing.assert_allclose(SCORES[name](draws), values, rtol=0, atol=1e-9, err_msg=name)
    assert np.argsort(-bald(draws)).tolist() == [3, 0, 1, 2]


def test_regression_std_dev_keeps_its_digits_for_large_targets():
    # scikit-learn/scikit-learn #23257, #3645, #17394: E[x²] − E[x]² loses all of them at 1e8.
    draws = np.array([[1.0, 2.0, 3.0], [5.0, 5.0, 5.0], [0.0, 10.0, 0.0], [1e8, 1e8 + 1, 1e8 + 2]]).T
    root = math.sqrt(2 / 3)
    np.testing.assert_allclose(std_dev(draws), [root, 0, 4.714045207910317, root], rtol=0, atol=1e-9)


@pytest.mark.parametrize("shape", [(), (5,), (4, 5)])
def test_gaussian_bald_equals_its_formula_for_one_noise_and_for_that_of_each_point_and_draw(shape, rng):
    draws, noise = rng.normal(size=(4, 5)), rng.uniform(0.1, 2, size=shape)
    expected = reference.SCORES["gaussian_bald"](draws, noise)
    np.testing.assert_allclose(SCORES["gaussian_bald"](draws, noise_variance=noise), expected, rtol=1e-12)


def test_rows_may_miss_the_sum_one_by_a_ten_thousandth_and_in_half_precision_by_the_number_of_classes_over_1024():
    for dtype, n_classes, allowed in [
        ("float64", 4, 1e-4),
        ("float32", 4, 1e-4),
        ("float16", 2, 2 / 1024),
        ("float16", 100, 100 / 1024),
    ]:
        draws = np.zeros((2, 3, n_classes), dtype=dtype)
        draws[..., 0] = 1
        for sign, column in ((1, 1), (-1, 0)):
            off = draws.copy()
            off[1, 2, column] += sign * 0.9 * allowed
            assert np.isfinite(bald(off)).all()
            off[1, 2, column] += sign * 0.3 * allowed
            with pytest.raises(ValueError, match=r"1\.[01]|0\.[89]"):
                bald(off)


def test_rounding_a_softmax_to_half_precision_is_not_an_error(rng):
    for n_classes, dtype in itertools.product([1, 2, 10, 1000], [torch.float16, torch.bfloat16]):
        draws = torch.from_numpy(rng.normal(scale=3, size=(20, 100, n_classes))).softmax(-1).to(dtype)
        assert torch.isfinite(entropy(draws)).all()


def test_a_wrong_row_is_named_wherever_it_stands_and_one_that_the_mean_hides_in_the_first_block(rng):
    good = reference.random_draws(rng, 20, 9_000, 10, np.float32)
    too_much, negative = good.copy(), good.copy()
    too_much[7, 8_000] *= 1.0002
    negative[3, 8_500, :2] += np.float32([-2, 2])
    in_turn = good * np.tile(np.float32([1.5, 0.5]), 10)[:, None, None]
    for draws, where in [(too_much, "draw 7 of point 8000"), (negative, "draw 3 of point 8500"), (in_turn, "point 0")]:
        with pytest.raises(ValueError, match=where):
            entropy(draws)


def test_side_information_that_is_impossible_for_one_point_is_refused():
    good = {"treatment": [0, 1, 1], "propensity": [0.5, 0.5, 0.5]}
    for name, others, keyword, value in [
        *[("gaussian_bald", {}, "noise_variance", value) for value in (0.0, math.inf, math.nan)],
        *[("mu_pi", good, "propensity", value) for value in (0.0, 1.0, math.nan)],
        ("mu_pi", good, "treatment", 2),
    ]:
        draws = np.arange(12.0).reshape((2, 3, 2) if name == "mu_pi" else (4, 3))
        with pytest.raises(ValueError, match=f"`{keyword}` must be"):
            SCORES[name](draws, **others | {keyword: np.array([others.get(keyword, [1])[0], value, 1 / 2])})


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_scores_of_tensors_stay_on_the_gpu(rng):
    dtypes = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
    for name, dtype in itertools.product([*NAMES, "epig"], dtypes):
        draws = torch.from_numpy(reference.random_draws(rng, 20, 30, 10)).to(dtype)
        ours, theirs = ({"target_draws": held[:, :3]} if name == "epig" else {} for held in (draws.cuda(), draws))
        values = SCORES[name](draws.cuda(), **ours)
        assert (values.device.type, values.dtype) == ("cuda", torch.float64)
        np.testing.assert_allclose(values.cpu(), reference.SCORES[name](draws, **theirs), rtol=0, atol=2e-6)


@pytest.mark.arithmetic
@pytest.mark.parametrize(
    ("name", "shape", "dtype"),
    [
        ("entropy", (1, 20_000, 2), np.float64),
        ("margin", (20, 5_000, 10), np.float32),
        ("variation_ratio", (33, 3_000, 3), np.float64),
        ("entropy", (33, 3_000, 3), np.float32),
    ],
)
def test_scores_of_the_mean_are_equal_to_the_bit_alone_in_any_place_and_for_any_number_of_threads(
    name, shape, dtype, rng
):
    draws = reference.random_draws(rng, *shape, dtype)
    threads = torch.get_num_threads()
    try:
        torch.set_num_threads(1)
        whole = SCORES[name](draws)
        torch.set_num_threads(3)
        for is_on in (False, True):
            with torch.inference_mode(is_on):
                np.testing.assert_array_equal(SCORES[name](np.concatenate([draws] * 20, axis=1)), np.tile(whole, 20))
    finally:
        torch.set_num_threads(threads)
    innermost, backwards = np.ascontiguousarray(draws.transpose(1, 2, 0)).transpose(2, 0, 1), draws[::-1].copy()[::-1]
    np.testing.assert_array_equal(SCORES[name](innermost), whole)
    np.testing.assert_array_equal(SCORES[name](backwards), whole)
    for i in rng.integers(shape[1], size=50):
        np.testing.assert_array_equal(SCORES[name](draws[:, i : i + 1]), whole[i])
    order = rng.permutation(shape[1])
    np.testing.assert_array_equal(SCORES[name](draws[:, order]), whole[order])
