"""Risk from chosen labels: exactly unbiased in fractions, and as sure as it says over simulated acquisitions."""

from __future__ import annotations

import itertools
import math
import warnings
from collections import Counter
from fractions import Fraction
from types import SimpleNamespace

import numpy as np
import pytest
import reference
from hypothesis import given
from hypothesis import strategies as st
from modAL.models import ActiveLearner
from scipy import stats
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from small_models import n_unreachable

from skactive import StochasticBatchQuery
from skactive.risk import LOSSES, ActiveTester, RiskEstimate, estimate_risk, lure_weights
from skactive.samplers import SAMPLERS, log_proba, power
from skactive.samplers._law import draw_batch

ALL_DIGITS, DIGITS = load_digits(return_X_y=True)
X_TRAIN, Y_TRAIN, POOL, LABELS = ALL_DIGITS[:100], DIGITS[:100], ALL_DIGITS[100:], DIGITS[100:]


@pytest.fixture(scope="module")
def model():
    return LogisticRegression(max_iter=1000).fit(X_TRAIN / 16, Y_TRAIN)


@pytest.fixture(scope="module")
def forest():
    return RandomForestClassifier(10, random_state=0).fit(X_TRAIN, Y_TRAIN)


# -------------------------------------------------------------------------------------------------------------- weights


@st.composite
def purchases(draw, max_pool=8):
    """Losses and probabilities of some picks, and the number of rows they were picked from."""
    n_pool = draw(st.integers(2, max_pool))
    n_labelled = draw(st.integers(1, n_pool))
    q = [Fraction(draw(st.integers(1, 99)), 100) for _ in range(n_labelled)]
    losses = [Fraction(draw(st.integers(0, 40)), 8) for _ in range(n_labelled)]
    return losses, q, n_pool


def floats(values):
    return np.array([float(value) for value in values])


@given(bought=purchases())
def test_weights_equal_their_formulas(bought):
    losses, q, n_pool = bought
    if len(losses) == n_pool:
        return  # the formula has 0/0 at m = N
    found = np.mean(lure_weights(np.log(floats(q)), n_pool) * floats(losses))
    assert found == pytest.approx(float(reference.lure(losses, q, n_pool)), rel=1e-9, abs=1e-9)


@given(bought=purchases())
def test_the_standard_error_equals_its_formula(bought):
    losses, q, n_pool = bought
    if not 1 < len(losses) < n_pool:
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of losses that are all equal
        found = estimate_risk(floats(losses), np.log(floats(q)), n_pool).standard_error
    assert found == pytest.approx(reference.lure_standard_error(losses, q, n_pool), rel=1e-9, abs=1e-9)


@pytest.mark.parametrize("k", [1, 2, 3, 4])
def test_estimates_are_unbiased_in_fractions_over_all_batches(k):
    # Two rounds of different weights, the second going by what was bought in the first; some rows all but impossible.
    losses = [Fraction(1), Fraction(5), Fraction(0), Fraction(2), Fraction(7)]
    first = reference.mixed_batches(
        [Fraction(1), Fraction(4), Fraction(0), Fraction(2), Fraction(1, 9)], min(k, 2), 0.25
    )
    expected = Fraction(0)
    for batch, probability in first.items():
        left = [i for i in range(5) if i not in batch]
        weights = [losses[i] + losses[batch[0]] for i in left]
        for more, p_more in reference.mixed_batches(weights, k - len(batch), 0.5).items():
            picks = [*batch, *(left[i] for i in more)]
            q = [*steps(first, batch), *steps(reference.mixed_batches(weights, k - len(batch), 0.5), more)]
            expected += probability * p_more * reference.lure([losses[i] for i in picks], q, 5)
    assert expected == Fraction(15, 5)


def steps(law, batch):
    """Probability of each pick of a batch given those before it."""
    marginals = [sum(p for b, p in law.items() if b[:m] == batch[:m]) for m in range(len(batch) + 1)]
    return [after / before for before, after in itertools.pairwise(marginals)]


@given(bought=purchases(max_pool=30))
def test_lure_weights_are_never_negative(bought):
    _, q, n_pool = bought
    assert (lure_weights(np.log(floats(q)), n_pool) >= 0).all()


def test_weights_of_uniform_picks_and_of_the_whole_pool_are_one(rng):
    uniform = -np.log(50.0 - np.arange(20))
    np.testing.assert_allclose(lure_weights(uniform, 50), 1, rtol=1e-12)
    np.testing.assert_array_equal(lure_weights(np.log(rng.uniform(0.1, 0.9, 50)), 50), 1)


def test_a_whole_pool_leaves_nothing_to_estimate(rng):
    losses = rng.random(50)
    estimate = estimate_risk(losses, np.log(rng.uniform(0.1, 0.9, 50)), 50)
    assert estimate.value == pytest.approx(losses.mean())
    assert estimate.standard_error == 0
    assert estimate.interval() == (estimate.value, estimate.value)


def test_uniform_picks_have_the_standard_error_of_a_sample_without_replacement(rng):
    losses = rng.exponential(size=100)
    estimate = estimate_risk(losses, -np.log(400.0 - np.arange(100)), 400)
    assert estimate.value == pytest.approx(losses.mean())
    # 15 % allows for the late picks' larger share, which the textbook formula has not.
    assert estimate.standard_error == pytest.approx(losses.std(ddof=1) / 10 * math.sqrt(1 - 100 / 400), rel=0.15)


def test_a_single_label_has_no_standard_error():
    estimate = estimate_risk([2.0], [-1.0], 10)
    assert math.isnan(estimate.standard_error)
    assert estimate.value > 0


def test_intervals_without_a_step_are_those_of_a_gamma_law():
    estimate = RiskEstimate(1.0, 0.5, n_labelled=11, n_pool=100)
    law = stats.gamma(4, scale=0.25)  # of mean 1 and standard deviation 0.5
    for level in (0.5, 0.95):
        assert estimate.interval(level) == pytest.approx(law.interval(level))
    assert str(estimate) == "1 ± 0.5 (95 % interval 0.272 to 2.19), from 11 labels, for a pool of 100 rows"


# ------------------------------------------------------------------------------------------------- mixture with uniform

SCORES = np.array([0.5, 0.0, 2.0, 0.25])


def law_of(sampler, beta):
    """Weights of SCORES, which have no ties; topk is a law so cold that lower ranks count for nothing."""
    ranks = [2, 4, 1, 3]
    return {
        "power": lambda: reference.power_weights(SCORES, beta),
        "softmax": lambda: reference.softmax_weights(SCORES, beta),
        "softrank": lambda: reference.softrank_weights(ranks, beta),
        "topk": lambda: [Fraction(1, 10 ** (60 * rank)) for rank in ranks],
        "uniform": lambda: [Fraction(1)] * 4,
    }[sampler]()


def mixed(scores, k, rng, *, sampler, beta, epsilon):
    indices, law = draw_batch(sampler, np.asarray(scores, dtype=float), k, rng, beta=beta, epsilon=epsilon)
    return SimpleNamespace(indices=indices, log_proba=law.log_proba)


@pytest.mark.parametrize(("sampler", "epsilon"), [*((name, 0.25) for name in SAMPLERS), ("power", 1.0)])
def test_mixed_batches_follow_their_law(sampler, epsilon):
    law = reference.mixed_batches(law_of(sampler, 2.0), 3, epsilon)
    law = {batch: p for batch, p in law.items() if p > Fraction(1, 10**30)}
    rng = np.random.default_rng(11)
    draws = [mixed(SCORES, 3, rng, sampler=sampler, beta=2.0, epsilon=epsilon) for _ in range(1500)]
    reference.assert_counts_fit(Counter(tuple(b.indices.tolist()) for b in draws), law, 1500)


@pytest.mark.parametrize("sampler", SAMPLERS)
@pytest.mark.parametrize("k", [1, 3, 4])
def test_mixed_batches_know_the_probability_of_each_pick(sampler, k, rng):
    law = reference.mixed_batches(law_of(sampler, 2.0), k, 0.25)
    for _ in range(20):
        batch = mixed(SCORES, k, rng, sampler=sampler, beta=2.0, epsilon=0.25)
        expected = np.log(floats(steps(law, tuple(batch.indices.tolist()))))
        np.testing.assert_allclose(batch.log_proba(), expected, rtol=0, atol=1e-12)


def test_tied_rows_of_a_mixture_share_their_ranks_at_random():
    rng = np.random.default_rng(12)
    counts = Counter(
        int(mixed(np.ones(4), 1, rng, sampler=name, beta=4.0, epsilon=0.1).indices[0])
        for name in ("softrank", "topk")
        for _ in range(500)
    )
    reference.assert_counts_fit(counts, dict.fromkeys(range(4), Fraction(1, 4)), 1000)


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_no_row_of_a_mixed_query_is_out_of_reach(sampler, forest):
    query = StochasticBatchQuery(sampler=sampler, epsilon=0.1, random_state=0)
    indices = query.select(forest, POOL, 30)
    assert np.unique(indices).size == 30
    assert n_unreachable(query) == 0
    least = math.log(0.1 / len(POOL))
    assert (query.log_proba_ >= least - 1e-9).all()
    assert (query.log_proba_ <= 0).all()


def test_rows_without_probability_are_counted(forest):
    query = StochasticBatchQuery(random_state=0)
    query.select(forest, POOL, 5)
    assert n_unreachable(query) == np.count_nonzero(query.scores_ == 0) > 0
    assert query.set_params(beta=0.0).select(forest, POOL, 5).size == 5
    assert n_unreachable(query) == 0
    query.set_params(sampler="topk").select(forest, POOL, 5)
    assert n_unreachable(query) == np.count_nonzero(query.scores_ < query.scores_.max())


def test_epsilon_does_not_depend_on_chunks_and_can_be_given_for_one_call(forest):
    batches = [
        StochasticBatchQuery(epsilon=0.2, chunk_size=size, random_state=0).select(forest, POOL, 20)
        for size in (100, None)
    ]
    np.testing.assert_array_equal(*batches)
    learner = ActiveLearner(forest, StochasticBatchQuery(random_state=0), X_training=X_TRAIN, y_training=Y_TRAIN)
    learner.query(POOL, n_instances=3, epsilon=1.0)
    np.testing.assert_allclose(learner.query_strategy.log_proba_, -np.log(len(POOL) - np.arange(3.0)))
    assert clone(learner.query_strategy).epsilon == 0


# --------------------------------------------------------------------------------------- simulated acquisitions


def acquisitions(losses, scores, *, n_rounds, batch_size, beta, epsilon, n_times, seed):
    """Estimates and naive means over purchases in rounds from a shrinking pool, its scores new in every round."""
    rng = np.random.default_rng(seed)
    estimates, naive = [], []
    for _ in range(n_times):
        left, picks, log_proba = np.arange(len(losses)), [], []
        for _ in range(n_rounds):
            now = scores[left] * rng.uniform(0.7, 1.3, size=len(left))
            batch = mixed(now, batch_size, rng, sampler="power", beta=beta, epsilon=epsilon)
            picks.append(left[batch.indices])
            log_proba.append(batch.log_proba())
            left = np.delete(left, batch.indices)
        bought = losses[np.concatenate(picks)]
        estimates.append(estimate_risk(bought, np.concatenate(log_proba), len(losses)))
        naive.append(bought.mean())
    return estimates, np.array(naive)


def pool_of_losses(kind):
    """Losses on 1,500 rows of a model whose probabilities are right, and its uncertainty of each row."""
    rng = np.random.default_rng(1)
    p = rng.uniform(0.5, 0.98, size=1500)
    wrong = rng.random(1500) > p
    entropy = -p * np.log(p) - (1 - p) * np.log(1 - p)
    return {
        "zero_one": (wrong.astype(float), entropy),
        "log_loss": (-np.log(np.where(wrong, 1 - p, p)), entropy),
    }[kind]


@pytest.mark.parametrize(("kind", "beta"), [("zero_one", 1.0), ("log_loss", 0.5)])
def test_estimates_agree_with_the_risk_of_the_pool_and_intervals_hold_it(kind, beta):
    losses, scores = pool_of_losses(kind)
    estimates, naive = acquisitions(
        losses, scores, n_rounds=5, batch_size=20, beta=beta, epsilon=0.1, n_times=300, seed=2
    )
    values = np.array([estimate.value for estimate in estimates])
    risk, error = losses.mean(), values.std(ddof=1) / math.sqrt(300)
    assert abs(values.mean() - risk) < 4 * error
    assert abs(naive.mean() - risk) > 5 * naive.std(ddof=1) / math.sqrt(300)
    covered = np.mean([low <= risk <= high for low, high in (estimate.interval() for estimate in estimates)])
    assert 0.9 <= covered <= 0.99
    # The standard error is that of the estimates: its mean square is known to a few percent here.
    said = math.sqrt(np.mean([estimate.standard_error**2 for estimate in estimates]))
    assert said == pytest.approx(values.std(ddof=1), rel=0.15)


def test_rows_picked_in_proportion_to_the_loss_need_fewer_labels():
    losses, _ = pool_of_losses("log_loss")
    risk = losses.mean()
    spread = {}
    for name, epsilon in (("uniform", 1.0), ("proportional", 0.1)):
        estimates, _ = acquisitions(
            losses, losses, n_rounds=2, batch_size=20, beta=1.0, epsilon=epsilon, n_times=100, seed=3
        )
        spread[name] = np.mean([(estimate.value - risk) ** 2 for estimate in estimates])
    assert spread["proportional"] < spread["uniform"] / 2


def test_weighted_training_finds_the_fit_of_the_whole_pool(rng):
    # The optimum of a weighted loss over picks tends to that over the pool; without weights it is another one.
    x = rng.uniform(-1, 1, size=4000)
    y = np.where(x > 0, 2 * x, 0) + rng.normal(scale=0.1, size=4000)  # a line does not fit: which rows matters
    batch = mixed(np.abs(x) * (x > 0), 800, rng, sampler="power", beta=1.0, epsilon=0.1)
    weights = lure_weights(batch.log_proba(), 4000)
    whole, weighted, plain = (
        np.polyfit(x[rows], y[rows], 1, w=w)[0]
        for rows, w in ((slice(None), None), (batch.indices, np.sqrt(weights)), (batch.indices, None))
    )
    assert abs(weighted - whole) < 0.1
    assert abs(plain - whole) > 0.3


# --------------------------------------------------------------------------------------------------------- ActiveTester


def the_estimate(of):
    return of.value, of.standard_error, of.n_labelled, of.n_pool


def a_tester(pool, **parameters):
    query = StochasticBatchQuery(**{"score": "variation_ratio", "epsilon": 0.1, "random_state": 0, **parameters})
    return ActiveTester(query, pool)


def test_a_tester_asks_for_each_row_once_and_estimates_the_pool(model):
    tester = a_tester(POOL / 16)
    for n_instances in (60, 40, 80):
        tester.tell(LABELS[tester.ask(model, n_instances)])
    assert np.unique(tester.indices_).size == 180
    np.testing.assert_array_equal(tester.labels_, LABELS[tester.indices_])
    accuracy, risk = tester.accuracy(model), tester.risk(model)
    truth = {"accuracy": model.score(POOL / 16, LABELS), "risk": log_loss(LABELS, model.predict_proba(POOL / 16))}
    # Five standard errors, as they were measured above to be right.
    assert abs(accuracy.value - truth["accuracy"]) < 5 * accuracy.standard_error < 0.2
    assert abs(risk.value - truth["risk"]) < 5 * risk.standard_error
    assert (accuracy.n_labelled, accuracy.n_pool) == (180, len(POOL))
    errors = tester.risk(model, "zero_one")
    assert accuracy.value == 1 - errors.value
    assert accuracy.standard_error == errors.standard_error


def test_a_tester_is_the_functions_on_what_the_query_says(model):
    tester = a_tester(POOL / 16)
    log_proba = []
    for _ in range(2):
        tester.tell(LABELS[tester.ask(model, 30)])
        log_proba.append(tester.query.log_proba_)
    wrong = model.predict(POOL[tester.indices_] / 16) != LABELS[tester.indices_]
    by_hand = estimate_risk(wrong, np.concatenate(log_proba), len(POOL))
    assert the_estimate(tester.risk(model, "zero_one")) == the_estimate(by_hand)


def test_a_tester_takes_any_loss_and_any_model(model, forest):
    tester = a_tester(POOL)
    tester.tell(LABELS[tester.ask(forest, 30)])

    def distance(estimator, X, y):
        return np.abs(estimator.predict(X) - y)

    regressor = RandomForestRegressor(5, random_state=0).fit(X_TRAIN, Y_TRAIN)
    for estimator in (model, regressor):
        assert tester.risk(estimator, distance).value > 0
    squared = tester.risk(regressor, "squared_error")
    weights = lure_weights(tester.log_proba_, len(POOL))
    residuals = regressor.predict(POOL[tester.indices_]) - tester.labels_
    assert squared.value == pytest.approx(np.mean(weights * residuals**2))


def test_log_loss_is_that_of_scikit_learn_and_unknown_labels_are_impossible(model):
    losses = LOSSES["log_loss"](model, POOL / 16, LABELS)
    assert losses.mean() == pytest.approx(log_loss(LABELS, model.predict_proba(POOL / 16)))
    assert LOSSES["log_loss"](model, POOL[:1] / 16, np.array([99])) == pytest.approx(-math.log(np.finfo(float).eps))


def test_rows_that_were_asked_for_are_not_asked_for_again(model):
    tester = a_tester(POOL[:12] / 16)
    first, second = tester.ask(model, 7), tester.ask(model, 5)
    assert np.unique([*first, *second]).size == 12
    np.testing.assert_array_equal(tester.open_, [*first, *second])
    assert tester.indices_.size == tester.log_proba_.size == 0
    with pytest.raises(ValueError, match="0 candidates"):
        tester.ask(model, 1)


def test_labels_told_in_parts_and_in_any_order_give_the_estimate_of_those_told_at_once(model, rng):
    at_once, in_parts = a_tester(POOL / 16), a_tester(POOL / 16)
    for k in (40, 30):
        at_once.tell(LABELS[at_once.ask(model, k)])
        in_parts.ask(model, k)
    for rows in np.split(rng.permutation(in_parts.open_), [3, 20, 21, 50]):
        in_parts.tell(LABELS[rows], rows=rows)
    for name in ("indices_", "labels_", "log_proba_"):
        np.testing.assert_array_equal(getattr(in_parts, name), getattr(at_once, name))
    assert in_parts.accuracy(model) == at_once.accuracy(model)
    assert in_parts.open_.size == 0


def test_an_estimate_is_that_of_the_first_picks_while_later_ones_are_open(model):
    # Every prefix of the order of asking is a purchase of its own, and estimates the whole pool.
    tester = a_tester(POOL / 16)
    rows = tester.ask(model, 40)
    log_proba = tester.query.log_proba_
    tester.ask(model, 10)
    tester.tell(LABELS[rows[:25]], rows=rows[:25])
    wrong = model.predict(POOL[rows[:25]] / 16) != LABELS[rows[:25]]
    by_hand = estimate_risk(wrong, log_proba[:25], len(POOL))
    assert the_estimate(tester.risk(model, "zero_one")) == the_estimate(by_hand)


def test_an_estimate_is_refused_while_a_pick_before_others_is_open(model):
    tester = a_tester(POOL / 16)
    rows = tester.ask(model, 10)
    late = rows[[2, 7]]
    tester.tell(LABELS[np.setdiff1d(rows, late)], rows=np.setdiff1d(rows, late))
    np.testing.assert_array_equal(tester.open_, late)
    np.testing.assert_array_equal(tester.labels_, LABELS[np.delete(rows, [2, 7])])
    for estimate in (tester.accuracy, tester.risk, lambda model: tester.log_proba_):
        with pytest.raises(ValueError, match=f"row {late[0]} was asked for before others.*2 rows are open"):
            estimate(model)
    tester.tell(LABELS[late])  # the one ask that is open, its rest
    assert tester.accuracy(model).n_labelled == 10


def test_labels_of_several_open_asks_say_which_rows_they_belong_to(model):
    tester = a_tester(POOL / 16)
    first, second = tester.ask(model, 5), tester.ask(model, 5)
    with pytest.raises(ValueError, match=r"`rows` must say which.*2 asks are open"):
        tester.tell(LABELS[first])
    tester.tell(LABELS[second], rows=second)
    tester.tell(LABELS[first])
    np.testing.assert_array_equal(tester.labels_, LABELS[[*first, *second]])


def test_rows_that_are_not_open_are_refused(model):
    tester = a_tester(POOL / 16)
    rows = tester.ask(model, 5)
    tester.tell(LABELS[rows[:2]], rows=rows[:2])
    other = np.setdiff1d(np.arange(20), rows)[:1]
    for wrong, message in [
        (rows[1:3], f"Got {rows[1]}, and 1 such"),
        (other, f"Got {other[0]}, and 1 such"),
        (rows[[2, 2]], "distinct positions"),
        ([len(POOL)], "distinct positions"),
    ]:
        with pytest.raises(ValueError, match=message):
            tester.tell(LABELS[:1].repeat(len(wrong)), rows=wrong)
    np.testing.assert_array_equal(tester.open_, rows[2:])


def a_frame(**names):
    return pytest.importorskip("pandas").DataFrame(POOL / 16, index=np.arange(len(POOL)) * 3 + 1000, **names)


def test_labels_with_an_index_go_by_that_of_the_pool():
    frame = a_frame()
    model = LogisticRegression(max_iter=1000).fit(frame[:100], LABELS[:100])
    labels = frame.assign(label=LABELS)["label"]
    expected, tester = a_tester(frame), a_tester(frame)
    expected.tell(LABELS[expected.ask(model, 30)])
    rows = tester.ask(model, 30)
    tester.tell(labels.iloc[np.sort(rows[:10])], rows=rows[:10])
    tester.tell(labels.iloc[rows[10:]].sample(frac=1, random_state=0))
    np.testing.assert_array_equal(tester.labels_, expected.labels_)
    rows = tester.ask(model, 5)
    for other in (labels.iloc[rows].reset_index(drop=True), labels.iloc[(rows + 1) % len(POOL)]):
        with pytest.raises(ValueError, match=r"`labels` must have the index of its rows.*to_numpy"):
            tester.tell(other)
    np.testing.assert_array_equal(tester.open_, rows)


def gaps():
    pd = pytest.importorskip("pandas")
    return {
        "nan": [1.0, math.nan, 2.0],
        "none": [1, None, 2],
        "NA": pd.array([1, None, 2], dtype="Int64"),
        "NaT": np.array(["2026", "NaT", "2026"], dtype="datetime64[D]"),
        "masked": np.ma.array([1, 2, 3], mask=[0, 1, 0]),
        "text": ["a", math.nan, "b"],
        "Arrow": pd.array(["a", None, "b"], dtype="str"),
        "category": pd.Categorical(["a", None, "b"]),
    }


@pytest.mark.parametrize("kind", ["nan", "none", "NA", "NaT", "masked", "text", "Arrow", "category"])
def test_missing_labels_are_refused_by_name_and_the_rows_stay_open(model, kind):
    tester = a_tester(POOL / 16)
    rows = tester.ask(model, 3)
    with pytest.raises(ValueError, match=r"`labels` must have a finite label for every row.*in row 1, and 1 such"):
        tester.tell(gaps()[kind])
    np.testing.assert_array_equal(tester.open_, rows)


def test_labels_of_a_kind_that_the_model_does_not_know_are_refused(model):
    tester = a_tester(POOL / 16)
    rows = tester.ask(model, 3)
    with pytest.raises(ValueError, match=r"`labels` must be of the kind that the model knows, such as 0\. Got '1'"):
        tester.tell(["1", "2", "3"])
    np.testing.assert_array_equal(tester.open_, rows)
    tester.tell(LABELS[rows].astype(float))
    other = LogisticRegression(max_iter=1000).fit(X_TRAIN, Y_TRAIN.astype(str))
    for loss in ("zero_one", "log_loss"):
        with pytest.raises(ValueError, match="`labels` must be of the kind that the model knows"):
            tester.risk(other, loss)


def test_a_regressor_has_no_accuracy_and_text_no_squared_error(model):
    tester = a_tester(POOL)
    forest = RandomForestClassifier(5, random_state=0).fit(X_TRAIN, Y_TRAIN.astype(str))
    tester.tell(LABELS[tester.ask(forest, 5)].astype(str))
    with pytest.raises(TypeError, match=r"`estimator` must be a classifier.*squared_error"):
        tester.accuracy(RandomForestRegressor(2).fit(X_TRAIN, Y_TRAIN))
    with pytest.raises(TypeError, match="`labels` must give numbers"):
        tester.risk(RandomForestRegressor(2).fit(X_TRAIN, Y_TRAIN), "squared_error")


def test_a_tester_says_when_rows_are_out_of_reach(forest):
    tester = a_tester(POOL, score="bald", epsilon=0.0)
    with pytest.warns(UserWarning, match=r"of 1697 rows could not be picked.*epsilon"):
        tester.ask(forest, 10)


def test_string_labels_and_frames_are_tested_too():
    pd = pytest.importorskip("pandas")
    names = np.array(["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"])
    frame = pd.DataFrame(ALL_DIGITS).add_prefix("pixel")
    forest = RandomForestClassifier(10, random_state=0).fit(frame[:100], names[Y_TRAIN])
    tester = a_tester(frame[100:])
    for _ in range(2):
        tester.tell(list(names[LABELS[tester.ask(forest, 40)]]))
    assert 0.4 < tester.accuracy(forest).value < 1
    assert tester.risk(forest).value > 0


def test_power_alone_serves_where_all_scores_are_positive(rng):
    scores = rng.random(300) + 0.01
    batch, log_weights = power(scores, 50, rng), power.log_weights(scores)
    assert not np.isneginf(log_weights).any()
    found = estimate_risk(scores[batch], log_proba(log_weights, batch), 300)
    assert found.value == pytest.approx(scores.mean(), rel=0.05)


@pytest.mark.parametrize("level", [0, 1, 95, "95 %"])
def test_the_level_of_an_interval_is_a_probability(level):
    with pytest.raises(ValueError, match="`level` must be a number between 0 and 1"):
        RiskEstimate(0.1, 0.01, n_labelled=10, n_pool=100).interval(level)
