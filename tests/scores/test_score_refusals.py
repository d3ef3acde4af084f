"""What functions of draws say to bad input."""

from __future__ import annotations

import functools
import math

import numpy as np
import pytest
import reference

from skactive.acsfw import acs_fw
from skactive.badge import badge
from skactive.batchbald import batchbald
from skactive.scores import SCORES, epig


@pytest.mark.parametrize("convert", [str, object, complex], ids=["text", "objects", "complex"])
@pytest.mark.parametrize("container", [np.asarray, np.ndarray.tolist], ids=["array", "list"])
def test_probabilities_that_are_no_real_numbers_are_refused(convert, container):
    draws = reference.random_draws(np.random.default_rng(0), 3, 9, 3).astype(convert)
    if convert is object and container is np.ndarray.tolist:
        draws[0, 0, 0] = None
    rng = np.random.default_rng(0)
    for score in ("bald", "entropy", "std_dev"):
        with pytest.raises(TypeError, match="`draws` must be an array of real numbers"):
            SCORES[score](container(draws))
    for function in (acs_fw, functools.partial(batchbald, rng=rng)):
        with pytest.raises(TypeError, match="`draws` must be an array of real numbers"):
            function(container(draws), 2)
    with pytest.raises(TypeError, match="`probabilities` must be an array of real numbers"):
        badge(container(draws[0]), np.ones((9, 2)), 2, rng)


@pytest.mark.parametrize("shape", [(3, 5, 4), (2, 5, 3), (3, 0, 4), (3, 5)])
def test_target_draws_of_other_axes_are_refused_with_their_shape(shape):
    with pytest.raises(ValueError, match=r"`target_draws` must have shape \(2, n_targets, 4\)"):
        epig(np.full((2, 6, 4), 0.25), target_draws=np.full(shape, 1 / shape[-1]))


@pytest.mark.parametrize(
    "weights", [[1.0], [1.0, -1.0, 1.0], [0.0, 0.0, 0.0], [1.0, math.nan, 1.0], [1.0, math.inf, 1.0]]
)
def test_target_weights_that_are_none_are_refused(weights):
    draws = np.full((2, 3, 4), 0.25)
    with pytest.raises(ValueError, match="`target_weights`"):
        epig(draws, target_draws=draws, target_weights=weights)
