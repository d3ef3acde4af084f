"""CausalBALD: scores as in the formulas, both outcomes by the same functions, the same batch in all containers."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import reference
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from sklearn.base import clone
from sklearn.ensemble import RandomForestRegressor
from sklearn.frozen import FrozenEstimator
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, WhiteKernel
from sklearn.linear_model import LinearRegression, LogisticRegression

from skactive import CausalBALDQuery, MCDropoutRegressor, blocks, sample_posterior, scores
from skactive._containers import set_column
from skactive.causal import estimate_effects, predict_effects, sqrt_pehe
from skactive.datasets import make_causal
from skactive.samplers._law import draw_batch

CAUSAL_SCORES = [name for name, score in scores.SCORES.items() if "outcomes" in score.tasks]
X, Y, EFFECTS = make_causal(400, np.random.default_rng(0))
N_LABELLED = 60
POOL = X[N_LABELLED:]
T = POOL[:, 1].astype(int)

MODELS = {
    "forest": RandomForestRegressor(20, random_state=0),
    "process": GaussianProcessRegressor(RBF([1.0, 1.0]) + WhiteKernel(1.0), optimizer=None, normalize_y=True),
    "net": MCDropoutRegressor((16,), max_epochs=5, batch_size=-1, n_draws=10, device="cpu", random_state=0),
}


@pytest.fixture(scope="module")
def models():
    return {name: clone(model).fit(X[:N_LABELLED], Y[:N_LABELLED]) for name, model in MODELS.items()}


def query(**parameters):
    return CausalBALDQuery(**{"treatment": 1, "random_state": 0, "n_draws": 10, **parameters})


# ------------------------------------------------------------------------------------------------------------- scores


def asked_for(name, treatment, propensity):
    given = {"tau": {}, "mu_pi": {"treatment": treatment, "propensity": propensity}}
    return given.get(name, {"treatment": treatment})


@pytest.mark.parametrize("name", CAUSAL_SCORES)
@settings(max_examples=25)
@given(data=st.data())
def test_scores_equal_their_formulas_in_exact_fractions(name, data):
    # Few values, so that variances are exactly 0 at times, and rounding is far from the cut at 4.5e15
    shape = (data.draw(st.integers(1, 9)), data.draw(st.integers(1, 6)), 2)
    draws = data.draw(hnp.arrays(np.float64, shape, elements=st.sampled_from([0.0, 0.1, 1.0, 1e4, -2.5])))
    treatment = data.draw(hnp.arrays(np.int64, shape[1], elements=st.integers(0, 1)))
    propensity = data.draw(hnp.arrays(np.float64, shape[1], elements=st.floats(0.01, 0.99)))
    found = scores.SCORES[name](draws, **asked_for(name, treatment, propensity))
    expected = reference.causal_score(name, draws, treatment, propensity)
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-12)


def test_an_offset_of_all_outcomes_costs_no_digits_and_tensors_stay_tensors():
    rng = np.random.default_rng(0)
    draws, treatment = rng.integers(-64, 64, size=(8, 50, 2)) / 64, rng.integers(2, size=50)  # sums with 2^27 are exact
    for name in ("mu", "tau", "rho", "mu_rho"):
        keywords = asked_for(name, treatment, None)
        moved = scores.SCORES[name](torch.from_numpy(draws + 2.0**27), **keywords)
        assert moved.dtype == torch.float64
        np.testing.assert_allclose(moved, scores.SCORES[name](draws, **keywords), rtol=1e-12)


# ------------------------------------------------------------------------------------------------------------ queries


def test_a_batch_is_the_sampler_on_the_score_of_both_outcomes(models):
    q = query(score="mu_rho", beta=2.0)
    indices = q.select(models["forest"], POOL, 20)
    draws_rng, batch_rng = (np.random.default_rng(s) for s in np.random.default_rng(0).integers(2**63, size=(2, 4)))
    predict_draws = sample_posterior(models["forest"], 10, draws_rng)
    outcomes = np.stack([predict_draws(np.column_stack([POOL[:, 0], np.full(len(POOL), t)])) for t in (0, 1)], axis=-1)
    expected = reference.causal_score("mu_rho", outcomes, T)
    np.testing.assert_allclose(q.scores_, expected, rtol=1e-9, atol=1e-12)
    batch, law = draw_batch("power", q.scores_, 20, batch_rng, beta=2.0)
    np.testing.assert_array_equal(indices, batch)
    np.testing.assert_array_equal(q.log_proba_, law.log_proba())


def test_a_treatment_of_categories_is_taken_by_name(models):
    def frame(a):
        return pd.DataFrame({"x": a[:, 0], "t": a[:, 1].astype(int)}).astype({"t": "category"})

    forest = clone(MODELS["forest"]).fit(frame(X[:N_LABELLED]), Y[:N_LABELLED])
    parameters = {"score": "mu_pi", "propensity": LogisticRegression()}
    found = query(treatment="t", **parameters).select(forest, frame(POOL), 20)
    np.testing.assert_array_equal(found, query(**parameters).select(models["forest"], POOL, 20))


def test_blocks_that_come_once_serve_a_query_that_looks_at_the_treatments_before(models):
    found = query().select(models["forest"], blocks(iter(np.array_split(POOL, 3))), 20)
    np.testing.assert_array_equal(found, query().select(models["forest"], POOL, 20))


def test_a_frozen_propensity_is_taken_as_it_is_also_by_a_clone(models):
    fitted = LogisticRegression().fit(X[:, :1], X[:, 1])
    q = query(score="mu_pi", propensity=FrozenEstimator(fitted))
    clone(q).select(models["forest"], POOL, 5)
    q.select(models["forest"], POOL, 5)
    weights = np.where(T == 1, *fitted.predict_proba(POOL[:, :1]).T)
    mu = query(score="mu")
    mu.select(models["forest"], POOL, 5)
    np.testing.assert_allclose(q.scores_, mu.scores_ * weights, rtol=1e-9)


# ------------------------------------------------------------------------------------------------------------ effects


def test_predicted_effects_are_differences_of_predictions():
    frame = pd.DataFrame(X, columns=["x", "t"])
    model = LinearRegression().fit(frame, Y)
    np.testing.assert_allclose(predict_effects(model, frame, "t"), np.full(len(X), model.coef_[1]), rtol=1e-9)


@pytest.mark.parametrize(("model", "chunk_size"), [("forest", 7), ("process", None), ("net", 50)])
def test_estimated_effects_are_mean_and_quantiles_over_draws(model, chunk_size, models):
    options = {"n_draws": 10, "random_state": 0, "level": 0.8, "chunk_size": chunk_size}
    found = estimate_effects(models[model], POOL, 1, **options)
    draws_rng = np.random.default_rng(np.random.default_rng(0).integers(2**63, size=(2, 4))[0])
    predict_draws = sample_posterior(models[model], 10, draws_rng)
    untreated, treated = (np.asarray(predict_draws(set_column(POOL, 1, value)), dtype=np.float64) for value in (0, 1))
    effects = treated - untreated
    expected = effects.mean(axis=0), *np.quantile(effects, [0.1, 0.9], axis=0)
    np.testing.assert_allclose([found.mean, found.low, found.high], expected, rtol=1e-5, atol=1e-6)


def test_the_error_of_effects_is_the_root_of_their_mean_squared_error():
    predicted = predict_effects(clone(MODELS["forest"]).fit(X, Y), X, 1)
    assert sqrt_pehe(EFFECTS, predicted) == pytest.approx(reference.sqrt_pehe(EFFECTS, predicted), rel=1e-12)


# --------------------------------------------------------------------------------------------------------------- data


def test_the_synthetic_set_has_the_moments_of_its_formulas():
    n = 100_000
    X, y, effects = make_causal(n, np.random.default_rng(1))
    x, t = X.T
    np.testing.assert_allclose(effects, 2 * x + 2 - 4 * np.sin(2 * x))
    # E[2x + 2 - 4 sin 2x] = 2; Var = 4 + 8 (1 - e^-8) - 32 e^-2. Bounds are five standard errors.
    spread = np.sqrt(4 + 8 * (1 - np.exp(-8)) - 32 * np.exp(-2))
    assert abs(effects.mean() - 2) < 5 * spread / np.sqrt(n)
    s = 2 * t - 1
    noise = y - (s * x + s - 2 * np.sin(2 * s * x) + 2 + x)
    assert abs(noise.mean()) < 5 / np.sqrt(n)
    assert abs(noise.std() - 1) < 5 / np.sqrt(2 * n)
    propensity = 1 / (1 + np.exp(-(0.75 * x + 0.5)))
    for part in (x < -1, x > 1):
        assert abs((t - propensity)[part].mean()) < 5 * 0.5 / np.sqrt(part.sum())
