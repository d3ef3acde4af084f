"""Scores of rows of several outputs: each output is a point of its own, and a row's score is made of theirs."""

from __future__ import annotations

import numpy as np
import pytest
import reference
import torch

from skactive.scores import SCORES, bald, epig, gaussian_bald, std_dev, variance
from skactive.scores._outputs import reduce_outputs

OF_CLASSES = ["bald", "entropy", "margin", "std_dev", "variation_ratio"]


def class_draws(n_draws=4, n_points=5, n_classes=3, *outputs):
    outputs = outputs or (2, 3)
    draws = reference.random_draws(np.random.default_rng(0), n_draws, n_points * int(np.prod(outputs)), n_classes)
    return np.moveaxis(draws.reshape(n_draws, n_points, *outputs, n_classes), -1, 2)


@pytest.mark.parametrize("name", OF_CLASSES)
def test_scores_equal_a_loop_over_outputs_in_blocks_of_any_size(monkeypatch, name):
    draws, score = class_draws(), SCORES[name]
    points = np.moveaxis(draws, 2, -1).reshape(4, 30, 3)  # a loop over these is the reference
    expected = reference.SCORES[name](points).reshape(5, 2, 3)
    for elements in (1, 200, 10**6):
        monkeypatch.setattr("skactive.scores._outputs._TILE_ELEMENTS", elements)
        for held in (draws, torch.from_numpy(np.ascontiguousarray(draws)), draws.tolist()):
            np.testing.assert_allclose(score(held), expected, rtol=0, atol=1e-12)
        chunks = np.concatenate([score(draws[:, :3]), score(draws[:, 3:])])
        np.testing.assert_array_equal(chunks, score(draws))


def test_scores_of_numbers_equal_a_loop_over_targets_and_are_told_by_their_kind():
    draws = np.random.default_rng(0).normal(size=(9, 6, 3))
    noise = np.array([0.5, 1.0, 2.0])
    for target in range(3):
        one = draws[..., target]
        np.testing.assert_array_equal(std_dev(draws, kind="numbers")[:, target], std_dev(one))
        np.testing.assert_array_equal(variance(draws, kind="numbers")[:, target], variance(one))
        found = gaussian_bald(draws, kind="numbers", noise_variance=noise)[:, target]
        np.testing.assert_array_equal(found, gaussian_bald(one, noise_variance=noise[target]))
    with pytest.raises(ValueError, match=r'\(9, 6, 3\).*kind="numbers"'):
        variance(draws)


@pytest.mark.parametrize("reduce", ["mean", "max", "sum"])
def test_a_row_is_scored_by_its_outputs_that_count_whatever_stands_beside_it(reduce):
    draws, rng = class_draws(), np.random.default_rng(1)
    mask = rng.random((5, 2, 3)) < 0.6
    draws[:, :, :, 0, 0], mask[:, 0, 0], mask[:, 1, 2] = 7.0, False, True  # what does not count may be anything
    scores = bald(draws, mask=mask)
    assert np.isnan(scores[~mask]).all()
    by_hand = [getattr(np, reduce)(bald(draws[:, [i]], mask=mask[[i]])[0][mask[i]]) for i in range(5)]
    found = reduce_outputs(scores, reduce, mask)
    np.testing.assert_allclose(found, by_hand, rtol=1e-14)
    one_by_one = [reduce_outputs(scores[[i]], reduce, mask[[i]])[0] for i in range(5)]
    np.testing.assert_array_equal(one_by_one, found)
    own = getattr(np, f"nan{reduce}")
    np.testing.assert_allclose(reduce_outputs(scores, lambda s: own(s, axis=1)), found, rtol=1e-14)


def test_bad_outputs_masks_and_scores_that_take_one_output_are_refused_with_their_place():
    draws = class_draws()
    wrong = draws.copy()
    wrong[3, 2, :, 1, 2] = [0.5, 0.5, 0.5]
    with pytest.raises(ValueError, match=r"sums to 1\.5.*in draw \d of point 2, output \(1, 2\)"):
        bald(wrong)
    with pytest.raises(ValueError, match=r"nan in draw 1 of point 5, output \(2,\)"):
        std_dev(np.where(np.arange(2 * 6 * 3).reshape(2, 6, 3) == 35, np.nan, 0.0), kind="numbers")
    for mask, words in [
        (np.ones((5, 2), bool), r"`mask` must have shape \(5, 2, 3\).*Got shape \(5, 2\)"),
        (np.arange(5)[:, None, None] != np.full((5, 2, 3), 3), "Got none in row 3, and 1 such row"),
    ]:
        with pytest.raises(ValueError, match=words):
            bald(draws, mask=mask)
    with pytest.raises(ValueError, match=r'one output for "epig".*Use "bald"'):
        epig(draws, target_draws=draws[..., 0, 0])
