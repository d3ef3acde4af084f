"""What every score and every sampler of the registries must keep. A new entry is tested here without a new test."""

from __future__ import annotations

import functools
import inspect
import itertools
import math
import pickle
from collections import Counter

import numpy as np
import pytest
import reference
import torch
from scipy import special

from skactive.samplers import SAMPLERS
from skactive.scores import SCORES

N_DRAWS, N_POINTS, N_CLASSES = 6, 11, 4


def every(registry):
    """Make a rule of a name one test of all names, which lists those that break it."""

    def decorate(rule):
        def test():
            broken = []
            for name in sorted(registry):
                try:
                    rule(name)
                except (Exception, pytest.fail.Exception) as error:
                    broken.append(f"{name}: {type(error).__name__} {error}")
            assert not broken, "\n\n".join(broken)

        return test

    return decorate


every_score, every_sampler = every(SCORES), every(SAMPLERS)


def draws_of_kind(kind, n_points=N_POINTS, seed=0):
    rng = np.random.default_rng(seed)
    if kind == "classes":
        draws = reference.random_draws(rng, N_DRAWS, n_points, N_CLASSES)
        draws[:, : n_points // 4] = np.eye(N_CLASSES)[rng.integers(N_CLASSES, size=(N_DRAWS, n_points // 4))]
        return draws
    return rng.normal(size=(N_DRAWS, n_points) if kind == "means" else (N_DRAWS, n_points, 2))


def asked_for(score, n_points=N_POINTS, n_draws=N_DRAWS):
    """What the score's signature names, besides draws."""
    rng = np.random.default_rng(1)
    offers = {
        "noise_variance": rng.random(n_points) + 0.5,
        "treatment": rng.integers(2, size=n_points),
        "propensity": rng.uniform(0.1, 0.9, size=n_points),
        "target_draws": reference.random_draws(rng, n_draws, 5, N_CLASSES),
    }
    names = [p.name for p in inspect.signature(score).parameters.values() if p.kind is p.KEYWORD_ONLY]
    return {name: offers[name] for name in names if name in offers}


@functools.cache
def kind_of(name):
    """The first kind of draws that the score takes."""
    score = SCORES[name]
    for kind in ("classes", "means", "outcomes"):
        try:
            score(draws_of_kind(kind), **asked_for(score))
        except ValueError:
            continue
        return kind
    pytest.fail(f"{name} takes neither class probabilities nor regression means nor potential outcomes")


def scored(name, draws, rows=None, order=None):
    """Scores of some points, by draws in some order."""
    score = SCORES[name]
    extras = asked_for(score)
    for key, value in extras.items():
        if key == "target_draws":
            extras[key] = value if order is None else value[order]
        elif rows is not None:
            extras[key] = value[rows]
        if isinstance(draws, torch.Tensor):
            extras[key] = torch.from_numpy(np.ascontiguousarray(extras[key]))
    return score(draws, **extras)


@pytest.mark.arithmetic
@every_score
def test_every_score_equals_its_slow_twin_in_the_reference(name):
    assert name in reference.SCORES, "write it as a loop from its formula into tests/reference.py, and into its SCORES"
    draws = draws_of_kind(kind_of(name))
    expected = reference.SCORES[name](draws, **asked_for(SCORES[name]))
    np.testing.assert_allclose(scored(name, draws), expected, rtol=1e-9, atol=1e-9)


def test_scores_and_samplers_are_pickled_by_their_public_names():
    for module, registry in (("scores", SCORES), ("samplers", SAMPLERS)):
        for name, function in registry.items():
            assert pickle.loads(pickle.dumps(function)) is function
            assert f"skactive.{module}.{name}" == f"{function.__module__}.{function.__qualname__}"


@every_score
def test_a_score_without_what_it_asks_for_is_a_type_error(name):
    asked = asked_for(SCORES[name])
    for missing in asked:
        with pytest.raises(TypeError, match=f"missing .*'{missing}'"):
            SCORES[name](draws_of_kind(kind_of(name)), **asked | {missing: None})


@every_score
def test_tensors_give_tensors_of_the_same_numbers_in_float64(name):
    for dtype in (torch.float32, torch.float64):
        draws = torch.from_numpy(draws_of_kind(kind_of(name))).to(dtype).requires_grad_()
        values, expected = scored(name, draws), scored(name, draws.detach().numpy())
        assert (values.dtype, values.shape, expected.dtype) == (torch.float64, (N_POINTS,), np.float64)
        np.testing.assert_array_equal(values.detach().numpy(), expected)
        assert draws.grad is None


@every_score
def test_half_precision_is_taken(name):
    # float16 rounds probabilities by up to 2^-11 of themselves, bfloat16 by 2^-8.
    exact = torch.from_numpy(draws_of_kind(kind_of(name)))
    for dtype, tolerance in ((torch.float16, 0.02), (torch.bfloat16, 0.1)):
        values = scored(name, exact.to(dtype))
        np.testing.assert_allclose(values, scored(name, exact), rtol=tolerance, atol=tolerance)


LAYOUTS = {
    "Fortran order": np.asfortranarray,
    "every other of a larger array": lambda a: np.repeat(a, 2, axis=1)[:, ::2],
    "negative strides": lambda a: a[::-1, ::-1].copy()[::-1, ::-1],
    "points last": lambda a: np.moveaxis(np.ascontiguousarray(np.moveaxis(a, 1, -1)), -1, 1),
    "big-endian": lambda a: a.astype(a.dtype.newbyteorder(">")),
    "unaligned": lambda a: np.frombuffer(b"." + a.tobytes(), np.uint8)[1:].view(a.dtype).reshape(a.shape),
}


@every_score
def test_the_layout_of_draws_does_not_matter(name):
    for dtype, layout in itertools.product([np.float16, np.float32, np.float64], LAYOUTS):
        draws = draws_of_kind(kind_of(name)).astype(dtype)
        values = scored(name, LAYOUTS[layout](draws))
        np.testing.assert_array_equal(values, scored(name, draws), err_msg=f"{layout}, {dtype}")
    draws = torch.from_numpy(draws_of_kind(kind_of(name)))
    strided = draws.repeat_interleave(2, dim=1)[:, ::2]
    np.testing.assert_array_equal(scored(name, strided), scored(name, draws))


@pytest.mark.usefixtures("global_state_untouched")
@every_score
def test_scores_leave_their_draws_and_global_random_state_as_they_were(name):
    draws = draws_of_kind(kind_of(name))
    for held in (draws, torch.from_numpy(draws)):
        scored(name, held)
        np.testing.assert_array_equal(draws, draws_of_kind(kind_of(name)))


@every_score
def test_scores_are_equal_for_every_chunking_to_the_bit_but_for_epig(name):
    # EPIG is made of matrix products, sums of n_draws for each of n_classes: see `rounding` in test_epig.py.
    atol = N_DRAWS * N_CLASSES * np.finfo(float).eps if name == "epig" else 0
    for size, dtype in itertools.product([1, 2, 7], [np.float32, np.float64]):
        draws = draws_of_kind(kind_of(name)).astype(dtype)
        chunks = [slice(start, start + size) for start in range(0, N_POINTS, size)]
        for copied in (np.asarray, np.copy):
            values = np.concatenate([scored(name, copied(draws[:, rows]), rows) for rows in chunks])
            np.testing.assert_allclose(values, scored(name, draws), rtol=0, atol=atol)
    whole = scored(name, draws)
    with pytest.MonkeyPatch.context() as few:
        few.setattr("skactive.scores._registry._BLOCK_ELEMENTS", 2 * N_DRAWS * N_CLASSES)  # a few points a block
        np.testing.assert_allclose(scored(name, draws), whole, rtol=0, atol=atol)


@pytest.mark.arithmetic
@every_score
def test_scores_move_with_their_points_and_do_not_depend_on_the_order_of_draws_or_classes(name):
    draws, rng = draws_of_kind(kind_of(name)), np.random.default_rng(0)
    expected, order, rows = scored(name, draws), rng.permutation(N_DRAWS), rng.permutation(N_POINTS)
    np.testing.assert_allclose(scored(name, draws[order], order=order), expected, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(scored(name, draws[:, rows], rows), expected[rows], rtol=0, atol=1e-12)
    if kind_of(name) == "classes":
        shuffled = draws[..., rng.permutation(N_CLASSES)]
        np.testing.assert_allclose(scored(name, shuffled), expected, rtol=0, atol=1e-12)


@every_score
def test_draws_that_are_not_finite_or_no_probabilities_are_refused_with_what_was_seen(name):
    bad = [(math.nan, "(?i)nan"), (math.inf, "(?i)inf")]
    if kind_of(name) == "classes":
        logits = np.random.default_rng(3).normal(size=(N_DRAWS, N_POINTS, N_CLASSES)) + 5
        bad += [([-0.25, 0.25, 0.5, 0.5], r"-0\.25"), ([0.5, 0.5, 0.25, 0.25], r"1\.5"), (logits[1, 2], r"\d\.\d")]
    for value, seen in bad:
        draws = draws_of_kind(kind_of(name))
        draws[1, 2] = value
        for held in (draws, torch.from_numpy(draws), draws.astype(np.float16)):
            with pytest.raises(ValueError, match=seen):
                scored(name, held)


@every_score
def test_draws_of_other_or_empty_axes_are_refused_with_their_shape(name):
    draws = draws_of_kind(kind_of(name))
    wrong = [np.full(shape, 0.25) for shape in [(), (3,), (2, 3, 4, 0)]] + [draws[:0]]
    if "regressor" not in SCORES[name].tasks:
        wrong.append(np.full((4, 6), 0.5))
    for bad in [*wrong, draws[..., :0]] if draws.ndim == 3 else wrong:
        with pytest.raises(ValueError, match=r"\(" + ", ".join(map(str, bad.shape))):
            SCORES[name](bad, **asked_for(SCORES[name]))


POSITIVE = np.array([0.125, 1.5, 0.5, 0.25, 1.0, 0.75, 0.375])


@every_sampler
def test_a_batch_depends_on_scores_size_beta_and_generator_alone(name):
    for n_rows in (7, 4000):
        scores = np.random.default_rng(0).random(n_rows) + 0.01
        SAMPLERS[name](scores[::-1].copy(), 3, np.random.default_rng(5))  # nothing is kept between calls
        one, same, other = (
            SAMPLERS[name](scores, 5, np.random.default_rng(seed), **beta).tolist()
            for seed, beta in [(1, {"beta": 1.0}), (1, {}), (2, {})]  # 1 is the default
        )
        assert one == same
        assert name == "topk" or one != other


@every_sampler
def test_the_container_of_scores_does_not_matter(name):
    expected = SAMPLERS[name](POSITIVE, 7, np.random.default_rng(2)).tolist()
    others = [torch.tensor(POSITIVE, dtype=dtype) for dtype in (torch.float16, torch.bfloat16)]  # the numbers are exact
    others += [torch.tensor(POSITIVE).repeat_interleave(2)[::2], torch.tensor(POSITIVE).requires_grad_()]
    others += [layout(POSITIVE.astype(np.float32)[:, None])[:, 0] for layout in LAYOUTS.values()]
    for other in others:
        assert SAMPLERS[name](other, 7, np.random.default_rng(2)).tolist() == expected, other


@pytest.mark.usefixtures("global_state_untouched")
@every_sampler
def test_samplers_leave_their_scores_and_global_random_state_as_they_were(name):
    rng = np.random.default_rng(0)
    for scores in (np.array([0.5, -1e-12, 0.0, 1.0, 1.0, 2.0, 0.1]), rng.random(5000)):
        before = scores.copy()
        for held, beta in ((scores, 1), (torch.from_numpy(scores), 0)):
            SAMPLERS[name](held, 2, rng, beta=beta)
            np.testing.assert_array_equal(scores, before)


LAWS = {
    "power": lambda s, beta: s**beta,
    "softmax": lambda s, beta: np.exp(beta * s),
    "softrank": lambda s, beta: (1.0 + np.argsort(np.argsort(-s))) ** -beta,
    "topk": lambda s, beta: (s == s.max()).astype(float),
    "uniform": lambda s, beta: np.ones(len(s)),
}
"""Weights of the first pick, written from the paper, for scores that are all different."""


@pytest.mark.arithmetic
@every_sampler
def test_the_first_pick_follows_the_log_weights_which_are_those_of_the_slow_twin(name):
    assert name in LAWS, "write its weights into LAWS, from its formula"
    for beta in (0, 0.5, 3.0):
        log_weights, expected = SAMPLERS[name].log_weights(POSITIVE, beta), LAWS[name](POSITIVE, beta)
        assert (log_weights.shape, log_weights.dtype) == ((7,), np.float64)
        np.testing.assert_allclose(special.softmax(log_weights), expected / expected.sum(), rtol=1e-12)
        rng = np.random.default_rng(4)
        counts = Counter(int(SAMPLERS[name](POSITIVE, 1, rng, beta=beta)[0]) for _ in range(1000))
        reference.assert_counts_fit(counts, dict(enumerate(special.softmax(log_weights))), 1000)
