"""StochasticBatchQuery: the same batch however the pool is held and cut, and nothing changed on the way."""

import numpy as np
import pandas as pd
import pytest
import torch
from modAL.uncertainty import classifier_entropy
from sklearn.datasets import load_digits
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from small_models import Echo

from skactive import (
    ACSFWQuery,
    BatchBALDQuery,
    MCDropoutClassifier,
    StochasticBatchQuery,
    blocks,
    sample_posterior,
    samplers,
    scores,
)
from skactive.query import score_pool
from skactive.samplers._law import draw_batch

X, y = load_digits(return_X_y=True)
X = (X / 16).astype(np.float32)
LABELLED, POOL = X[:100], X[100:700]
FOREST = RandomForestClassifier(25, random_state=0).fit(LABELLED, y[:100])


@pytest.fixture(scope="module")
def pipe():
    net = MCDropoutClassifier((32,), max_epochs=20, random_state=0)
    return make_pipeline(StandardScaler(), net).fit(LABELLED, y[:100])


def query(**parameters):
    return StochasticBatchQuery(**{"random_state": 0, "n_draws": 10, **parameters})


@pytest.mark.parametrize(
    ("score", "sampler"),
    [
        *(("bald", sampler) for sampler in samplers.SAMPLERS),
        ("entropy", "power"),
        ("margin", "topk"),
        ("std_dev", "power"),
    ],
)
def test_a_batch_is_the_sampler_on_the_score_of_the_draws(score, sampler):
    q = query(score=score, sampler=sampler, beta=2.0)
    indices = q.select(FOREST, POOL, 20)
    draws_rng, batch_rng = (np.random.default_rng(s) for s in np.random.default_rng(0).integers(2**63, size=(2, 4)))
    expected = scores.SCORES[score](sample_posterior(FOREST, 10, draws_rng)(POOL))
    np.testing.assert_array_equal(q.scores_, expected)
    batch, law = draw_batch(sampler, expected, 20, batch_rng, beta=2.0)
    np.testing.assert_array_equal(indices, batch)
    np.testing.assert_array_equal(q.log_proba_, law.log_proba())
    assert q.n_features_in_ == 64


@pytest.mark.parametrize("sampler", ["power", "softrank", "topk"])
def test_the_batch_is_the_same_for_every_chunk_size_also_with_twins_in_the_pool(sampler, pipe):
    pool = np.concatenate([POOL, POOL[:300]])
    batches = [query(sampler=sampler, chunk_size=size).select(pipe, pool, 40) for size in (7, 1000, None)]
    assert batches[0].tolist() == batches[1].tolist() == batches[2].tolist()


def test_log_proba_is_missing_before_a_query_and_for_samplers_without_a_law():
    assert not hasattr(query(), "log_proba_")
    q = query(sampler=lambda scores, k, rng, *, beta: np.arange(k))
    np.testing.assert_array_equal(q.select(FOREST, POOL, 3), [0, 1, 2])
    assert not hasattr(q, "log_proba_")


def test_only_candidates_are_scored_and_chosen():
    rows = np.array([4, 8, 15, 16, 23, 42, 599])
    alone = query()
    expected = rows[alone.select(FOREST, POOL[rows], 3)]
    for candidates in (np.isin(np.arange(600), rows), rows[::-1]):
        q = query()
        np.testing.assert_array_equal(q.select(FOREST, POOL, 3, candidates=candidates), expected)
        assert np.flatnonzero(~np.isnan(q.scores_)).tolist() == rows.tolist()
        np.testing.assert_array_equal(alone.log_proba_, q.log_proba_)


def test_a_score_of_the_users_own_sees_the_draws_and_the_targets():
    shapes = []

    def score(draws, *, target_draws):
        shapes.append((draws.shape[1], target_draws.shape))
        return draws[:, :, 0].mean(0)

    query(score=score, X_target=X[:9], chunk_size=250).select(FOREST, POOL, 3)
    assert shapes == [(250, (10, 9, 10)), (250, (10, 9, 10)), (100, (10, 9, 10))]
    shapes.clear()
    query(score=score).select(FOREST, POOL, 3, candidates=np.arange(200))
    assert shapes == [(200, (10, 200, 10))]  # all candidates, if they are fewer than a thousand


def test_without_targets_a_thousand_candidates_are_drawn_uniformly_whatever_holds_and_cuts_the_pool():
    pool, candidates, seen = np.linspace(0, 1, 3000)[:, np.newaxis], np.arange(500, 3000), []

    def score(draws, *, target_draws):
        seen.append(np.asarray(target_draws)[0, :, 1])
        return np.asarray(draws)[0, :, 1]

    for seed, size, held in [
        (0, None, pool),
        (0, 100, pd.DataFrame(pool)),
        (0, 999, blocks(lambda: np.array_split(pool, 7))),
        (1, None, pool),
    ]:
        select = query(score=score, chunk_size=size, random_state=seed).select
        select(Echo().fit(pool), held, 3, candidates=candidates)
    drawn, other = seen[0], seen.pop()
    assert all(np.array_equal(targets, drawn) for targets in seen)
    assert not np.array_equal(other, drawn)
    assert len(np.unique(drawn)) == 1000
    assert np.isin(drawn, pool[candidates]).all()
    error = (1000 * 0.25 * 1500 / 2499) ** 0.5  # of how many are in the first half, without replacement
    assert abs((drawn < np.median(pool[candidates])).sum() - 500) < 5 * error


def test_a_bad_score_is_named_with_its_row_in_the_pool():
    def score(draws):
        return np.where(np.arange(draws.shape[1]) == 3, np.nan, 1.0)

    with pytest.raises(ValueError, match=r"nan in row 8,"):
        query(score=score).select(FOREST, POOL, 3, candidates=np.arange(5, 100))
    with pytest.raises(ValueError, match=r"-1\.0 in row 5,"):
        query(score=lambda draws: np.full(draws.shape[1], -1.0)).select(FOREST, POOL, 3, candidates=[5, 6, 7])
    with pytest.raises(ValueError, match="one number per row"):
        query(score=lambda draws: draws[0]).select(FOREST, POOL, 3)


def test_what_a_sampler_of_the_users_own_returns_is_checked():
    for wrong in ([0, 0, 1], [0, 1], [0, 1, 600], [0.0, 1.0, 2.0]):
        with pytest.raises(ValueError, match="`sampler` must return 3 distinct"):
            query(sampler=lambda s, k, rng, *, beta, wrong=wrong: np.array(wrong)).select(FOREST, POOL, 3)


# --- where draws come from


def test_bald_of_a_model_without_draws_bootstraps_it_and_says_so():
    model = KNeighborsClassifier(3).fit(LABELLED, y[:100])
    training = {"X_training": LABELLED, "y_training": y[:100]}
    with pytest.warns(UserWarning, match="bootstrap"):
        first = query(score="bald", n_draws=3).select(model, POOL, 3, **training)
    again = query(score="bald", n_draws=3, posterior="bootstrap").select(model, POOL, 3, **training)
    np.testing.assert_array_equal(again, first)
    with pytest.raises(ValueError, match="`posterior`"):
        query(score="bald").select(model, POOL, 3)


def test_a_surrogate_is_fitted_to_the_training_data_and_left_as_it_was():
    model = RidgeClassifier().fit(LABELLED, y[:100])
    surrogate, training = RandomForestClassifier(15), {"X_training": LABELLED, "y_training": y[:100]}
    one, other = (query(posterior=surrogate, n_draws=None).select(model, POOL, 5, **training) for _ in range(2))
    np.testing.assert_array_equal(one, other)
    assert not hasattr(surrogate, "estimators_")
    with pytest.raises(ValueError, match="`X_training`"):
        query(posterior=surrogate).select(model, POOL, 5)


@pytest.mark.parametrize("score", ["auto", "bald"])
def test_the_default_score_of_a_regressor_is_std_dev(score):
    model = RandomForestRegressor(10, random_state=0).fit(LABELLED, X[:100, 20] * 3)
    q, named = (StochasticBatchQuery(name, random_state=0) for name in (score, "std_dev"))
    np.testing.assert_array_equal(q.select(model, POOL, 5), named.select(model, POOL, 5))
    assert (q.score, q.score_) == (score, "std_dev")
    np.testing.assert_array_equal(q.scores_, named.scores_)


def test_the_default_of_a_classifier_is_power_sampling_from_the_margin_with_beta_4():
    q, named = StochasticBatchQuery(random_state=0), StochasticBatchQuery("margin", "power", 4.0, random_state=0)
    np.testing.assert_array_equal(q.select(FOREST, POOL, 10), named.select(FOREST, POOL, 10))
    assert q.score_ == "margin"
    np.testing.assert_array_equal(q.scores_, scores.margin(FOREST.predict_proba(POOL)[None]))


def test_a_parameter_of_the_query_is_no_keyword_of_select_and_one_of_a_call():
    q = StochasticBatchQuery("margin", random_state=0)
    with pytest.raises(TypeError, match=r"`select` takes no keyword `beta`.*keywords of `query\(estimator, X_pool"):
        q.select(FOREST, POOL, 3, beta=2)
    assert len(q(FOREST, POOL, 3, beta=2)) == 3


# --- draws that are no functions


def hook(predict):
    """A model whose draws are ``predict(X, n_draws, rng)``."""

    class Hook:
        def sample_posterior(self, n_draws, rng):
            return lambda X: predict(np.asarray(X), n_draws, rng)

    return Hook()


def softmax(values):
    e = np.exp(values - values.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


WEIGHTS = np.random.default_rng(0).normal(size=(30, 64, 4))


def honest(X, n_draws, rng):
    return softmax(X.astype(float) @ WEIGHTS[:n_draws])


def made_anew(X, n_draws, rng):
    return softmax(rng.normal(size=(n_draws, len(X), 4)))


def standardised_in_the_batch(X, n_draws, rng):
    return honest((X - X.mean(0)) / (X.std(0) + 0.1), n_draws, rng)


def one_member_anew(X, n_draws, rng):
    draws = honest(X, n_draws, rng)
    draws[0] = made_anew(X, 1, rng)[0]
    return draws


def by_place(X, n_draws, rng):
    """Dropout left on: the mask of a row goes by the row's place in the batch."""
    yes = np.random.default_rng(0).uniform(0.2, 0.8, size=(len(X), n_draws)).T
    return np.stack([1 - yes, yes], axis=-1)


def of_the_first_row(X, n_draws, rng):
    return honest(X, n_draws, rng) * 0.5 + honest(X[:1], n_draws, rng) * 0.5


ALL_QUERIES = {
    "bald": query,
    "entropy": lambda: query(score="entropy"),
    "BatchBALD": lambda: BatchBALDQuery(n_draws=10, random_state=0),
    "ACS-FW": lambda: ACSFWQuery(n_draws=10, random_state=0),
}


@pytest.mark.parametrize(
    ("make", "predict"),
    [
        *((query, predict) for predict in (standardised_in_the_batch, one_member_anew, of_the_first_row)),
        *((make, predict) for make in ALL_QUERIES.values() for predict in (made_anew, by_place)),
    ],
)
def test_draws_that_are_no_functions_are_refused_by_every_query(make, predict):
    with pytest.raises(ValueError, match="`predict_draws` must return the same values"):
        make().select(hook(predict), POOL, 3, candidates=np.arange(3, 90))


@pytest.mark.parametrize("make", ALL_QUERIES.values(), ids=ALL_QUERIES)
def test_a_chunk_with_fewer_draws_than_the_first_row_is_refused(make):
    with pytest.raises(ValueError, match=r"`predict_draws` must return as many draws.* Got shape \(9, 600, 4\)"):
        make().select(hook(lambda X, n_draws, rng: honest(X, n_draws - (len(X) > 2), rng)), POOL, 3)


@pytest.mark.parametrize("make", ALL_QUERIES.values(), ids=ALL_QUERIES)
def test_draws_that_are_functions_pass(make):
    assert len(make().select(hook(honest), POOL, 3)) == 3
    assert make().select(hook(honest), POOL, 1, candidates=[5]).tolist() == [5]  # there is no other row


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_rounding_of_the_type_that_draws_have_is_no_other_function(dtype):
    """Half a unit in the last place of each number, in either direction: what another order of a sum may do."""
    eps = torch.finfo(dtype).eps

    def rounded(X, n_draws, rng):
        draws = torch.from_numpy(honest(X, n_draws, rng))
        return (draws * (1 + eps / 2 * (len(X) % 2 - 0.5))).to(dtype)

    def anew(X, n_draws, rng):
        return torch.from_numpy(made_anew(X, n_draws, rng)).to(dtype)

    assert len(query().select(hook(rounded), POOL, 3)) == 3
    with pytest.raises(ValueError, match="same values"):
        query().select(hook(anew), POOL, 3)


def test_bootstraps_are_not_drawn_twice_for_their_members_are_functions():
    calls = []

    class Counted(LogisticRegression):
        def predict_proba(self, X):
            calls.append(len(X))
            return super().predict_proba(X)

    model = Counted(max_iter=500).fit(LABELLED, y[:100])
    ours = {"posterior": "bootstrap", "n_draws": 2, "diversity": 0}
    query(**ours).select(model, POOL, 3, X_training=LABELLED, y_training=y[:100])
    assert calls == [1, 1, 600, 600]


# --- score_pool -----------------------------------------------------------------------------------


def test_score_pool_returns_the_scores_of_queries_by_name(pipe):
    columns = score_pool(pipe, POOL, ["bald", "entropy", "std_dev"], n_draws=10, random_state=0)
    assert list(columns) == ["bald", "entropy", "std_dev"]
    for name, column in columns.items():
        q = query(score=name)
        q.select(pipe, POOL, 5)
        np.testing.assert_array_equal(column, q.scores_)  # the same draws


@pytest.mark.parametrize("beside", [[], ["bald"]])
def test_scores_of_one_draw_are_those_of_predict_proba_whatever_stands_beside_them(beside):
    model = LogisticRegression(max_iter=500).fit(LABELLED, y[:100])
    training = {"X_training": LABELLED, "y_training": y[:100]}
    p = np.sort(model.predict_proba(POOL), axis=1)
    expected = 1 - (p[:, -1] - p[:, -2])
    columns = score_pool(model, POOL, ["margin", *beside], random_state=0, **training)
    np.testing.assert_allclose(columns["margin"], expected, rtol=1e-5, atol=1e-6)
    q = StochasticBatchQuery("margin", random_state=0)
    q.select(model, POOL, 5, **training)
    np.testing.assert_allclose(q.scores_, expected, rtol=1e-5, atol=1e-6)
    q.set_params(n_draws=20).select(model, POOL, 5, **training)
    assert np.abs(q.scores_ - expected).max() > 0.01  # the mean of draws that scatter


def test_all_scores_of_draws_share_one_pass_over_them():
    drawn = []

    class Counting(RandomForestClassifier):
        def sample_posterior(self, n_draws, rng):
            predict = sample_posterior(FOREST, n_draws, rng)
            return lambda X: drawn.append(len(X)) or predict(X)

    counting = Counting(25, random_state=0).fit(LABELLED, y[:100])
    score_pool(counting, POOL, ["bald", "entropy", "margin"], n_draws=25, chunk_size=200)
    assert drawn == [1, 2, 200, 200, 200]  # a row, to see what draws look like, twice; and each chunk once


def test_score_pool_takes_functions_of_draws_and_of_learners_under_names_of_ones_own():
    def spread(draws):
        return np.ptp(draws, axis=0).max(-1)

    columns = score_pool(FOREST, POOL, {"spread": spread, "modal": classifier_entropy, "b": "bald"})
    draws = sample_posterior(FOREST, None, np.random.default_rng(0))(POOL)
    np.testing.assert_array_equal(columns["spread"], spread(draws))
    np.testing.assert_array_equal(columns["modal"], classifier_entropy(FOREST, POOL))
    assert list(columns) == ["spread", "modal", "b"]
    assert list(score_pool(FOREST, POOL, spread)) == ["spread"]


def test_score_pool_says_what_is_wrong_with_scores():
    for asked, message in (
        (["bald", "bald"], "`scores` must be .*of different names"),
        ({}, "`scores` must be one or more"),
        ("variance", "not a score for a classifier"),
    ):
        with pytest.raises(ValueError, match=message):
            score_pool(FOREST, POOL, asked)


def test_the_concentration_of_a_batch_is_its_mean_score_over_the_pools():
    q = StochasticBatchQuery("margin", beta=8, random_state=0)
    rows = q.select(FOREST, POOL, 20, candidates=np.arange(300))
    assert q.concentration_ == pytest.approx(q.scores_[rows].mean() / q.scores_[:300].mean())
    assert q.concentration_ > 1.2
    q.set_params(score=lambda learner, X: -np.ones(len(X)), sampler="softmax").select(FOREST, POOL, 5)
    assert np.isnan(q.concentration_)
