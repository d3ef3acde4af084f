"""What every score and every sampler of the registries must keep. A new entry is tested here without a new test.

A score is given the draws it takes (class probabilities, regression means or potential outcomes) and whatever its
signature asks for by name.
"""

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
from sklearn.base import clone
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor

from skactive import StochasticBatchQuery
from skactive.samplers import SAMPLERS
from skactive.samplers._law import draw_batch
from skactive.scores import SCORES

N_DRAWS, N_POINTS, N_CLASSES = 6, 11, 4

every_score = pytest.mark.parametrize("name", sorted(SCORES))
every_sampler = pytest.mark.parametrize("name", sorted(SAMPLERS))


# -------------------------------------------------------------------------------------------------------------- scores


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


@every_score
def test_the_name_of_a_score_is_the_name_of_its_function(name):
    assert SCORES[name].__name__ == name


@pytest.mark.arithmetic
@every_score
def test_every_score_equals_its_slow_twin_in_the_reference(name):
    assert name in reference.SCORES, (
        f"write {name} as a loop from its formula into tests/reference.py, with an entry in its SCORES"
    )
    draws = draws_of_kind(kind_of(name))
    expected = reference.SCORES[name](draws, **asked_for(SCORES[name]))
    np.testing.assert_allclose(scored(name, draws), expected, rtol=1e-9, atol=1e-9)


@every_score
def test_a_keyword_that_a_score_does_not_know_is_a_type_error(name):
    with pytest.raises(TypeError, match="unexpected keyword argument 'weather'"):
        SCORES[name](draws_of_kind(kind_of(name)), **asked_for(SCORES[name]), weather=np.ones(N_POINTS))


@every_score
def test_a_score_is_pickled_and_cloned_by_its_public_name(name):
    score = SCORES[name]
    assert pickle.loads(pickle.dumps(score)) is score
    assert f"skactive.scores.{name}" == f"{score.__module__}.{score.__qualname__}"
    partial = functools.partial(score, **asked_for(score))
    copied = clone(StochasticBatchQuery(partial)).score
    assert (copied.func, copied.keywords.keys()) == (score, partial.keywords.keys())


@every_score
def test_scores_are_one_finite_float64_per_point(name):
    values = scored(name, draws_of_kind(kind_of(name)))
    assert isinstance(values, np.ndarray)
    assert values.dtype == np.float64
    assert values.shape == (N_POINTS,)
    assert np.isfinite(values).all()
    assert len(set(values.tolist())) > 1


@every_score
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_tensors_give_tensors_of_the_same_numbers(name, dtype):
    draws = torch.from_numpy(draws_of_kind(kind_of(name))).to(dtype)
    values = scored(name, draws)
    assert isinstance(values, torch.Tensor)
    assert values.dtype == torch.float64
    assert values.shape == (N_POINTS,)
    assert values.device == draws.device
    np.testing.assert_array_equal(values.numpy(), scored(name, draws.numpy()))


@every_score
def test_half_precision_is_taken(name):
    draws = draws_of_kind(kind_of(name)).astype(np.float16)
    exact = scored(name, draws.astype(np.float64) if kind_of(name) != "classes" else normalised(draws))
    for values in (scored(name, draws), scored(name, torch.from_numpy(draws)).numpy()):
        assert values.dtype == np.float64
        # Rows were renormalised for the comparison: float16 rounds probabilities by up to 2^-11 of themselves.
        np.testing.assert_allclose(values, exact, rtol=0.02, atol=0.02)
    rounded = torch.from_numpy(draws_of_kind(kind_of(name))).to(torch.bfloat16)
    assert scored(name, rounded).dtype == torch.float64
    assert torch.isfinite(scored(name, rounded)).all()


def normalised(draws):
    draws = draws.astype(np.float64)
    return draws / draws.sum(axis=-1, keepdims=True)


LAYOUTS = {
    "read-only": lambda a: _read_only(a.copy()),
    "Fortran order": np.asfortranarray,
    "every other of a larger array": lambda a: np.repeat(a, 2, axis=1)[:, ::2],
    "negative strides": lambda a: a[::-1, ::-1].copy()[::-1, ::-1],
    "points last": lambda a: np.moveaxis(np.ascontiguousarray(np.moveaxis(a, 1, -1)), -1, 1),
    "big-endian": lambda a: a.astype(a.dtype.newbyteorder(">")),
    "unaligned": lambda a: _unaligned(a),
}


def _read_only(array):
    array.flags.writeable = False
    return array


def _unaligned(array):
    buffer = np.zeros(array.nbytes + 1, dtype=np.uint8)[1:].view(array.dtype).reshape(array.shape)
    buffer[...] = array
    return buffer


@every_score
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_the_layout_of_draws_does_not_matter(name, layout, dtype):
    draws = draws_of_kind(kind_of(name)).astype(dtype)
    expected = scored(name, draws)
    values = scored(name, LAYOUTS[layout](draws))
    assert values.dtype == np.float64
    # float16 and float32 may be reduced in another order in another layout
    np.testing.assert_allclose(values, expected, rtol=0, atol=1e-12 if dtype == np.float64 else 1e-6)


@every_score
def test_tensors_of_any_strides_are_taken(name):
    draws = torch.from_numpy(draws_of_kind(kind_of(name)))
    expected = scored(name, draws)
    transposed = draws.transpose(0, 1).contiguous().transpose(0, 1)
    spaced = draws.repeat_interleave(2, dim=1)[:, ::2]
    for other in (transposed, spaced):
        np.testing.assert_allclose(scored(name, other), expected, rtol=0, atol=1e-12)


@every_score
def test_tensors_that_require_grad_are_scored_and_left_alone(name):
    draws = torch.from_numpy(draws_of_kind(kind_of(name))).requires_grad_()
    values = scored(name, draws)
    np.testing.assert_array_equal(values.detach().numpy(), scored(name, draws.detach().numpy()))
    assert draws.requires_grad
    assert draws.grad is None


@every_score
def test_scores_leave_their_draws_as_they_were(name):
    draws = draws_of_kind(kind_of(name))
    tensor = torch.from_numpy(draws.copy())
    before = draws.copy()
    scored(name, draws)
    scored(name, tensor)
    np.testing.assert_array_equal(draws, before)
    np.testing.assert_array_equal(tensor.numpy(), before)


@every_score
@pytest.mark.usefixtures("global_state_untouched")
def test_scores_consume_no_global_random_state(name):
    assert scored(name, draws_of_kind(kind_of(name))).shape == (N_POINTS,)


@every_score
def test_no_points_give_no_scores(name):
    draws = draws_of_kind(kind_of(name))[:, :0]
    values = scored(name, draws, rows=slice(0, 0))
    assert values.shape == (0,)
    assert values.dtype == np.float64
    tensor = scored(name, torch.from_numpy(draws), rows=slice(0, 0))
    assert tensor.shape == (0,)
    assert tensor.dtype == torch.float64


@every_score
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("size", [1, 2, 7])
def test_scores_are_equal_for_every_chunking_to_the_bit_but_for_epig(name, size, dtype):
    draws = draws_of_kind(kind_of(name)).astype(dtype)
    whole = scored(name, draws)
    chunks = [slice(start, min(start + size, N_POINTS)) for start in range(0, N_POINTS, size)]
    views = [scored(name, draws[:, rows], rows) for rows in chunks]
    copies = [scored(name, draws[:, rows].copy(), rows) for rows in chunks]
    # EPIG is made of matrix products, sums of n_draws for each of n_classes: see `rounding` in test_epig.py.
    atol = N_DRAWS * N_CLASSES * np.finfo(float).eps if name == "epig" else 0
    np.testing.assert_allclose(np.concatenate(views), whole, rtol=0, atol=atol)
    np.testing.assert_allclose(np.concatenate(copies), whole, rtol=0, atol=atol)


@pytest.mark.arithmetic
@every_score
def test_scores_do_not_depend_on_the_order_of_draws(name, rng):
    draws = draws_of_kind(kind_of(name))
    order = rng.permutation(N_DRAWS)
    np.testing.assert_allclose(scored(name, draws[order], order=order), scored(name, draws), rtol=1e-9, atol=1e-12)


@every_score
def test_scores_move_with_their_points(name, rng):
    draws = draws_of_kind(kind_of(name))
    rows = rng.permutation(N_POINTS)
    np.testing.assert_allclose(scored(name, draws[:, rows], rows), scored(name, draws)[rows], rtol=0, atol=1e-12)


@pytest.mark.arithmetic
@every_score
def test_scores_do_not_depend_on_the_order_of_classes(name, rng):
    if kind_of(name) != "classes":
        pytest.skip("no classes")
    draws = draws_of_kind("classes")
    shuffled = draws[..., rng.permutation(N_CLASSES)]
    np.testing.assert_allclose(scored(name, shuffled), scored(name, draws), rtol=0, atol=1e-12)


@every_score
@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_draws_that_are_not_finite_are_refused(name, value):
    draws = draws_of_kind(kind_of(name))
    draws[1, 2] = value
    for bad in (draws, torch.from_numpy(draws)):
        with pytest.raises(ValueError, match=r"(?i)nan|inf"):
            scored(name, bad)


@every_score
def test_probabilities_that_are_none_are_refused_with_what_was_seen(name):
    if kind_of(name) != "classes":
        pytest.skip("no probabilities")
    negative = draws_of_kind("classes")
    negative[1, 2] = [-0.25, 0.25, 0.5, 0.5]
    heavy = draws_of_kind("classes")
    heavy[1, 2] = [0.5, 0.5, 0.25, 0.25]
    logits = np.random.default_rng(3).normal(size=(N_DRAWS, N_POINTS, N_CLASSES)) + 5
    for draws, seen in ((negative, r"-0\.25"), (heavy, r"1\.5"), (logits, r"\d\.\d")):
        for bad in (draws, torch.from_numpy(draws), draws.astype(np.float16)):
            with pytest.raises(ValueError, match=seen):
                scored(name, bad)


@every_score
@pytest.mark.parametrize("shape", [(), (3,), (2, 3, 4, 5)])
def test_draws_of_another_number_of_axes_are_refused_with_their_shape(name, shape):
    with pytest.raises(ValueError, match=r"\(" + ", ".join(map(str, shape))):
        SCORES[name](np.full(shape, 0.25), **asked_for(SCORES[name]))


@every_score
def test_empty_axes_are_refused_with_the_shape(name):
    draws = draws_of_kind(kind_of(name))
    with pytest.raises(ValueError, match=r"\(0, 11"):
        SCORES[name](draws[:0], **asked_for(SCORES[name]))
    if draws.ndim == 3:
        with pytest.raises(ValueError, match=r"\(6, 11, 0\)"):
            SCORES[name](draws[..., :0], **asked_for(SCORES[name]))


# ------------------------------------------------------------------------------------------------------------ samplers

POSITIVE = np.array([0.125, 1.5, 0.5, 0.25, 1.0, 0.75, 0.375])


@every_sampler
def test_the_name_of_a_sampler_is_the_name_of_its_function(name):
    assert SAMPLERS[name].__name__ == name


@every_sampler
def test_a_sampler_is_pickled_by_its_public_name(name):
    sampler = SAMPLERS[name]
    assert pickle.loads(pickle.dumps(sampler)) is sampler
    assert f"skactive.samplers.{name}" == f"{sampler.__module__}.{sampler.__qualname__}"
    assert list(inspect.signature(sampler).parameters) == ["scores", "k", "rng", "beta"]


@every_sampler
def test_a_pickled_law_knows_its_probabilities(name, rng):
    law = draw_batch(name, POSITIVE, 3, rng, beta=2.0)[1]
    copied = pickle.loads(pickle.dumps(law))
    np.testing.assert_array_equal(copied.log_proba(), law.log_proba())
    np.testing.assert_array_equal(copied.first_log_proba(), law.first_log_proba())


@every_sampler
@pytest.mark.parametrize("n_rows", [1, 2, 50, 5000])
def test_batches_are_distinct_rows_as_int64(name, n_rows, rng):
    scores = rng.random(n_rows) + 0.01
    for k in {1, (n_rows + 1) // 2, n_rows}:
        batch = SAMPLERS[name](scores, k, rng)
        assert isinstance(batch, np.ndarray)
        assert batch.dtype == np.int64
        assert batch.shape == (k,)
        assert np.unique(batch).size == k
        assert batch.min() >= 0
        assert batch.max() < n_rows


@every_sampler
@pytest.mark.parametrize("n_rows", [7, 4000])
def test_a_batch_depends_on_scores_size_beta_and_generator_alone(name, n_rows):
    scores = np.random.default_rng(0).random(n_rows) + 0.01
    SAMPLERS[name](scores[::-1].copy(), 3, np.random.default_rng(5))  # nothing is kept between calls
    one, same, other = (SAMPLERS[name](scores, 5, np.random.default_rng(seed), beta=1.0) for seed in (1, 1, 2))
    np.testing.assert_array_equal(one, same)
    if name != "topk":
        assert one.tolist() != other.tolist()


@every_sampler
def test_the_default_of_beta_is_one(name):
    given, default = (SAMPLERS[name](POSITIVE, 5, np.random.default_rng(1), **kw) for kw in ({"beta": 1.0}, {}))
    np.testing.assert_array_equal(given, default)


@every_sampler
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_the_container_of_scores_does_not_matter(name, layout, dtype):
    scores = LAYOUTS[layout](POSITIVE.astype(dtype)[:, None])[:, 0]
    tensors = [torch.tensor(POSITIVE, dtype=d) for d in (torch.float16, torch.bfloat16, torch.float32, torch.float64)]
    tensors.append(torch.tensor(POSITIVE).repeat_interleave(2)[::2])
    tensors.append(torch.tensor(POSITIVE).requires_grad_())
    expected = SAMPLERS[name](POSITIVE, 7, np.random.default_rng(2))
    for other in (scores, *tensors):  # the numbers are exact in every one of these formats
        np.testing.assert_array_equal(SAMPLERS[name](other, 7, np.random.default_rng(2)), expected)


@every_sampler
def test_samplers_leave_their_scores_as_they_were(name, rng):
    for scores in (POSITIVE.copy(), np.zeros(7), np.array([0.5, -1e-12, 0.0, 1.0, 1.0, 2.0, 0.1])):
        before, tensor = scores.copy(), torch.from_numpy(scores.copy())
        batch = SAMPLERS[name](scores, 2, rng, beta=0) if not scores.any() else SAMPLERS[name](scores, 2, rng)
        SAMPLERS[name](tensor, 2, rng, beta=0)
        assert batch.shape == (2,)
        np.testing.assert_array_equal(scores, before)
        np.testing.assert_array_equal(tensor.numpy(), before)


@every_sampler
@pytest.mark.usefixtures("global_state_untouched")
def test_samplers_consume_no_global_random_state(name, rng):
    assert SAMPLERS[name](POSITIVE, 3, rng).shape == (3,)
    assert SAMPLERS[name](rng.random(5000), 3, rng).shape == (3,)


@every_sampler
def test_the_whole_pool_comes_as_a_permutation(name, rng):
    for n_rows in (1, 7, 3000):
        batch = SAMPLERS[name](rng.random(n_rows) + 0.01, n_rows, rng)
        np.testing.assert_array_equal(np.sort(batch), np.arange(n_rows))


@every_sampler
def test_equal_scores_give_every_ordered_pair_the_same_chance(name):
    # Exact binomial tails of 12 cells at 1e-6, as in the tests of the laws.
    rng = np.random.default_rng(3)
    counts = Counter(tuple(SAMPLERS[name](np.full(4, 0.5), 2, rng).tolist()) for _ in range(2000))
    reference.assert_counts_fit(counts, dict.fromkeys(itertools.permutations(range(4), 2), 1 / 12), 2000)


@every_sampler
def test_the_first_pick_follows_the_log_weights(name):
    if name == "topk":
        pytest.skip("a limit of laws: its picks are certain but for ties")
    for beta in (0, 1.0, 3.0):
        log_weights = np.asarray(SAMPLERS[name].log_weights(POSITIVE, beta))
        assert log_weights.shape == (7,)
        assert log_weights.dtype == np.float64
        rng = np.random.default_rng(4)
        counts = Counter(int(SAMPLERS[name](POSITIVE, 1, rng, beta=beta)[0]) for _ in range(1000))
        reference.assert_counts_fit(counts, dict(enumerate(special.softmax(log_weights))), 1000)


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
@pytest.mark.parametrize("beta", [0.0, 0.5, 3.0])
def test_the_law_of_a_sampler_is_its_slow_twin(name, beta):
    assert name in LAWS, f"write the weights of {name!r} into LAWS, from its formula"
    weights, expected = np.exp(SAMPLERS[name].log_weights(POSITIVE, beta)), LAWS[name](POSITIVE, beta)
    np.testing.assert_allclose(weights / weights.sum(), expected / expected.sum(), rtol=1e-12)


@every_sampler
def test_a_draw_is_the_batch_of_the_sampler_with_a_probability_for_each_pick(name):
    for n_rows, k in ((7, 7), (4000, 30)):
        scores = np.random.default_rng(5).random(n_rows) + 0.01
        batch, law = draw_batch(name, scores, k, np.random.default_rng(6), beta=2.0)
        np.testing.assert_array_equal(batch, SAMPLERS[name](scores, k, np.random.default_rng(6), beta=2.0))
        log_proba = np.asarray(law.log_proba())
        assert log_proba.shape == (k,)
        assert log_proba.dtype == np.float64
        assert (log_proba <= 1e-12).all()
        assert np.isfinite(log_proba).all()
        np.testing.assert_array_equal(law.log_proba(), log_proba)  # asked twice, answered alike


@every_sampler
@pytest.mark.parametrize("k", [0, -1, 8, 10**9])
def test_a_batch_size_outside_the_pool_is_refused_with_the_number_of_rows(name, k, rng):
    with pytest.raises(ValueError, match="`k`") as caught:
        SAMPLERS[name](POSITIVE, k, rng)
    assert "7" in str(caught.value)
    assert str(k) in str(caught.value)


@every_sampler
@pytest.mark.parametrize("k", [True, np.True_, 2.0, 2.5, "2", None, [2]])
def test_a_batch_size_that_is_no_integer_is_a_type_error(name, k, rng):
    with pytest.raises(TypeError, match="`k`"):
        SAMPLERS[name](POSITIVE, k, rng)


@every_sampler
@pytest.mark.parametrize("k", [np.int32(3), np.int64(3), np.uint8(3)])
def test_numpy_integers_are_batch_sizes(name, k, rng):
    assert SAMPLERS[name](POSITIVE, k, rng).shape == (3,)


@every_sampler
@pytest.mark.parametrize("k", [0, 1])
def test_an_empty_pool_is_refused(name, k, rng):
    # ntucllab/libact #14: the loop that runs one round too far.
    with pytest.raises(ValueError, match=r"(?i)0|empty"):
        SAMPLERS[name](np.array([]), k, rng)


@every_sampler
@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_scores_that_are_nan_or_infinite_are_refused_with_row_and_value(name, value, rng):
    scores = POSITIVE.copy()
    scores[5] = value
    for bad in (scores, scores.astype(np.float32), torch.from_numpy(scores)):
        with pytest.raises(ValueError, match=rf"(?is)(\b5\b.*{value})|({value}.*\b5\b)"):
            SAMPLERS[name](bad, 2, rng)


@every_sampler
@pytest.mark.parametrize("shape", [(), (7, 1), (1, 7)])
def test_scores_of_another_shape_are_refused(name, shape, rng):
    with pytest.raises(ValueError, match=r"\(" + ", ".join(map(str, shape))):
        SAMPLERS[name](np.full(shape, 0.5), 1, rng)


@every_sampler
@pytest.mark.parametrize("beta", [-1.0, -1e-9, -math.inf, math.nan])
def test_a_beta_below_zero_or_nan_is_refused(name, beta, rng):
    with pytest.raises(ValueError, match=rf"`beta`.*{beta}"):
        SAMPLERS[name](POSITIVE, 2, rng, beta=beta)


@every_sampler
@pytest.mark.parametrize("beta", ["1", None, True, np.True_, [1.0], 1j])
def test_a_beta_that_is_no_number_is_a_type_error(name, beta, rng):
    with pytest.raises(TypeError, match="`beta`"):
        SAMPLERS[name](POSITIVE, 2, rng, beta=beta)


@every_sampler
@pytest.mark.parametrize("beta", [0, 2, np.float32(0.5), np.int64(3), np.float64(1e300)])
def test_any_real_number_from_zero_up_is_a_beta(name, beta):
    batch = SAMPLERS[name](POSITIVE, 3, np.random.default_rng(7), beta=beta)
    np.testing.assert_array_equal(batch, SAMPLERS[name](POSITIVE, 3, np.random.default_rng(7), beta=float(beta)))


# --------------------------------------------------------------------------------------------------- both, in a query


@pytest.fixture(scope="module")
def forests():
    rng = np.random.default_rng(8)
    X = rng.normal(size=(60, 4))
    labels = np.array(["ash", "elm", "oak"])[
        np.clip(np.rint(X[:, 0] + 1 + rng.normal(scale=0.5, size=60)), 0, 2).astype(int)
    ]
    return {
        "classes": RandomForestClassifier(10, random_state=0).fit(X, labels),
        "means": RandomForestRegressor(10, random_state=0).fit(X, X[:, 0]),
    }


@every_score
def test_every_score_can_be_named_in_a_query(name, forests):
    if kind_of(name) not in forests or asked_for(SCORES[name]):
        pytest.skip("needs more than an estimator and a pool")
    X = np.random.default_rng(9).normal(size=(40, 4))
    query = StochasticBatchQuery(score=name, sampler="topk", random_state=0)
    indices = query.select(forests[kind_of(name)], X, 5)
    assert query.scores_.shape == (40,)
    np.testing.assert_array_equal(query.scores_[indices], np.sort(query.scores_)[::-1][:5])


@every_sampler
def test_every_sampler_can_be_named_in_a_query(name, forests):
    X = np.random.default_rng(9).normal(size=(40, 4))
    query = StochasticBatchQuery(score="entropy", sampler=name, random_state=0)
    indices = query.select(forests["classes"], X, 5)
    assert np.unique(indices).size == 5
    np.testing.assert_array_equal(query.indices_, indices)
    assert query.log_proba_.shape == (5,)
    assert (query.log_proba_ <= 1e-12).all()
