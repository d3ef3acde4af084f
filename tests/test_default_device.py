"""Where numbers are computed: whatever torch's default device is, and on devices without float64."""

from __future__ import annotations

import inspect

import numpy as np
import pytest
import reference
import torch

from skactive._utils.devices import best_float
from skactive.acsfw import acs_fw
from skactive.badge import badge
from skactive.batchbald import batchbald
from skactive.scores import SCORES, _registry

N_DRAWS, N_POINTS, N_CLASSES = 6, 40, 3


def arguments_of(name):
    """Draws and what else a score asks for, as arrays."""
    rng = np.random.default_rng(0)
    score = SCORES[name]
    if "classifier" in score.tasks:
        draws = reference.random_draws(rng, N_DRAWS, N_POINTS, N_CLASSES)
    else:
        draws = rng.normal(size=(N_DRAWS, N_POINTS) if "regressor" in score.tasks else (N_DRAWS, N_POINTS, 2))
    offers = {
        "noise_variance": rng.random(N_POINTS) + 0.5,
        "treatment": rng.integers(2, size=N_POINTS),
        "propensity": rng.uniform(0.1, 0.9, size=N_POINTS),
        "target_draws": reference.random_draws(rng, N_DRAWS, 5, N_CLASSES),
    }
    return draws, {key: offers[key] for key in inspect.signature(score).parameters if key in offers}


def batches(draws, probabilities, embeddings):
    rngs = np.random.default_rng(0).spawn(3)
    return {
        "batchbald": batchbald(draws, 3, rngs[0], max_outcomes=20).indices,
        "acs_fw": acs_fw(draws, 3, rngs[1]).indices,
        "badge": badge(probabilities, embeddings, 3, rngs[2]),
    }


@pytest.mark.parametrize("kind", [np.asarray, torch.from_numpy], ids=["array", "tensor"])
def test_scores_and_batches_do_not_ask_for_the_default_device(kind):
    draws, rng = arguments_of("bald")[0], np.random.default_rng(1)
    given = [kind(draws), kind(draws.mean(0)), kind(rng.normal(size=(N_POINTS, 4)))]

    def computed():
        found = dict(batches(*given))
        for name, score in SCORES.items():
            draws, extras = arguments_of(name)
            found[name] = np.asarray(score(kind(draws), **{key: kind(value) for key, value in extras.items()}))
        return found

    expected = computed()
    with torch.device("meta"):
        found = computed()
    for name, values in found.items():
        np.testing.assert_array_equal(values, expected[name], err_msg=name)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_tensors_make_batches(dtype):
    draws, rng = torch.from_numpy(arguments_of("bald")[0]).to(dtype), np.random.default_rng(1)
    embeddings = torch.from_numpy(rng.normal(size=(N_POINTS, 4))).to(dtype)
    for indices in batches(draws, draws[0], embeddings).values():
        assert len(set(indices.tolist())) == 3


def test_scores_can_do_with_float32_where_there_is_no_more(monkeypatch):
    assert best_float("mps") == best_float(torch.device("mps", 0)) == torch.float32
    assert best_float("cpu") == best_float(torch.device("cuda", 1)) == torch.float64
    given = {name: arguments_of(name) for name in SCORES}
    expected = {name: SCORES[name](draws, **extras) for name, (draws, extras) in given.items()}
    monkeypatch.setattr(_registry, "best_float", lambda device: torch.float32)
    monkeypatch.setattr(_registry, "has_fast_mean", lambda draws: False)
    # Sums over draws and classes in float32; a ratio of variances loses what its divisor does.
    eps = torch.finfo(torch.float32).eps
    for name, (draws, extras) in given.items():
        found = SCORES[name](torch.from_numpy(draws), **{key: torch.from_numpy(v) for key, v in extras.items()})
        assert found.dtype == torch.float32, name
        atol = N_DRAWS * N_CLASSES * 4 * eps
        np.testing.assert_allclose(found, expected[name], rtol=64 * eps, atol=atol, err_msg=name)
