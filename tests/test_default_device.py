"""Where numbers are computed: whatever torch's default device is, and on devices without float64."""

from __future__ import annotations

import functools
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
    asked = [p.name for p in inspect.signature(score).parameters.values() if p.kind is p.KEYWORD_ONLY]
    return draws, {key: offers[key] for key in asked if key in offers}


def batches(draws, probabilities, embeddings):
    rng = functools.partial(np.random.default_rng, 0)
    return {
        "batchbald": batchbald(draws, 3, rng(), max_outcomes=20).indices,
        "acs_fw": acs_fw(draws, 3, rng()).indices,
        "badge": badge(probabilities, embeddings, 3, rng()),
    }


@pytest.fixture
def default_device():
    yield torch.set_default_device
    torch.set_default_device(None)


@pytest.mark.parametrize("kind", [np.asarray, torch.from_numpy], ids=["array", "tensor"])
@pytest.mark.parametrize("name", sorted(SCORES))
def test_scores_do_not_ask_for_the_default_device(name, kind, default_device):
    draws, extras = arguments_of(name)
    extras = {key: kind(value) for key, value in extras.items()}
    expected = np.asarray(SCORES[name](kind(draws), **extras))
    default_device("meta")
    found = SCORES[name](kind(draws), **extras)
    np.testing.assert_array_equal(np.asarray(found), expected)


@pytest.mark.parametrize("kind", [np.asarray, torch.from_numpy], ids=["array", "tensor"])
def test_batches_do_not_ask_for_the_default_device(kind, default_device):
    draws, rng = arguments_of("bald")[0], np.random.default_rng(1)
    given = [kind(draws), kind(draws.mean(0)), kind(rng.normal(size=(N_POINTS, 4)))]
    expected = batches(*given)
    default_device("meta")
    for name, indices in batches(*given).items():
        np.testing.assert_array_equal(indices, expected[name])


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_tensors_make_batches(dtype):
    draws, rng = torch.from_numpy(arguments_of("bald")[0]).to(dtype), np.random.default_rng(1)
    embeddings = torch.from_numpy(rng.normal(size=(N_POINTS, 4))).to(dtype)
    for indices in batches(draws, draws[0], embeddings).values():
        assert len(set(indices.tolist())) == 3


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("name", sorted(SCORES))
def test_half_precision_tensors_are_scored(name, dtype):
    draws, extras = arguments_of(name)
    extras = {key: torch.from_numpy(value) for key, value in extras.items()}
    if "target_draws" in extras:
        extras["target_draws"] = extras["target_draws"].to(dtype)
    found = SCORES[name](torch.from_numpy(draws).to(dtype), **extras)
    assert found.dtype == torch.float64
    assert found.isfinite().all()


def test_apples_gpus_have_no_float64():
    assert best_float("mps") == best_float(torch.device("mps", 0)) == torch.float32
    assert best_float("cpu") == best_float(torch.device("cuda", 1)) == best_float("meta") == torch.float64


@pytest.mark.parametrize("name", sorted(SCORES))
def test_scores_can_do_with_float32_where_there_is_no_more(name, monkeypatch):
    draws, extras = arguments_of(name)
    expected = SCORES[name](draws, **extras)
    monkeypatch.setattr(_registry, "best_float", lambda device: torch.float32)
    monkeypatch.setattr(_registry, "has_fast_mean", lambda draws: False)
    found = SCORES[name](torch.from_numpy(draws), **{key: torch.from_numpy(v) for key, v in extras.items()})
    assert found.dtype == torch.float32
    # Sums over draws and classes in float32; a ratio of variances loses what its divisor does.
    eps = torch.finfo(torch.float32).eps
    np.testing.assert_allclose(found, expected, rtol=64 * eps, atol=N_DRAWS * N_CLASSES * 4 * eps)
