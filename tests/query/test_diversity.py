"""Batches that keep apart in the space of a model: which space it is, the law of the batch, and rows in flight."""

from __future__ import annotations

import functools
import itertools
from collections import Counter

import dask.array as da
import numpy as np
import pandas as pd
import pyarrow.dataset
import pytest
import reference
from modAL.models import ActiveLearner, Committee
from scipy import sparse
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import TransformedTargetRegressor
from sklearn.ensemble import (
    BaggingClassifier,
    ExtraTreesRegressor,
    GradientBoostingClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
    RandomForestRegressor,
    VotingClassifier,
)
from sklearn.gaussian_process import GaussianProcessClassifier, GaussianProcessRegressor
from sklearn.linear_model import BayesianRidge, LinearRegression, LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor
from small_models import LABELS, X_POOL, X_TRAIN, Y_TRAIN, Echo, first_rows, make_estimator, n_unreachable, skorch_net
from torch import nn

from skactive import BADGEQuery, StochasticBatchQuery, blocks
from skactive._utils.randomness import spawn
from skactive.posterior import bootstrap
from skactive.query import Pool
from skactive.query._draws import Places, _arrays_by, draws_of
from skactive.risk import ActiveTester
from skactive.scores import margin

quietly = pytest.mark.filterwarnings("ignore:Only .* rows have a positive score and lie apart:UserWarning")
N = len(X_POOL)


def query(**parameters):
    return StochasticBatchQuery(**{"score": "entropy", "beta": 1.0, "random_state": 0, "diversity": 1.0, **parameters})


def points_of(pool, model, draws, space="auto", **sizes):
    places = Places(pool, model, draws, space, _arrays_by(model, draws, space))
    return places.points(alone=True, **sizes)


def by_first_column(learner, X):
    return np.abs(np.asarray(X)[:, 0]) + 0.1


# --- models


def net():
    return skorch_net(nn.Linear(4, 16), nn.ReLU(), nn.Dropout(0.5), nn.Linear(16, 3), max_epochs=2)


MAKE = {
    "forest": lambda: make_estimator("forest"),
    "bagging": lambda: BaggingClassifier(DecisionTreeClassifier(max_depth=3), 6, max_features=0.5, random_state=0).fit(
        X_TRAIN, LABELS
    ),
    "gradient boosting": lambda: GradientBoostingClassifier(n_estimators=4, max_depth=2, random_state=0).fit(
        X_TRAIN, LABELS
    ),
    "hist gradient boosting": lambda: HistGradientBoostingClassifier(max_iter=4, min_samples_leaf=5).fit(
        X_TRAIN, LABELS
    ),
    "pipeline of a forest": lambda: make_estimator("pipeline"),
    "scaled logistic regression": lambda: make_pipeline(StandardScaler(), LogisticRegression()).fit(X_TRAIN, LABELS),
    "linear regression": lambda: LinearRegression().fit(X_TRAIN, Y_TRAIN),
    "dropout net": lambda: make_estimator("net"),
    "skorch": net,
    "naive bayes": lambda: GaussianNB().fit(X_TRAIN, LABELS),
    "calibrated": lambda: CalibratedClassifierCV(GaussianNB(), cv=3).fit(X_TRAIN, LABELS),
    "gaussian process": lambda: GaussianProcessClassifier(random_state=0).fit(X_TRAIN, LABELS),
    "committee": lambda: Committee(
        [ActiveLearner(GaussianNB(), X_training=X_TRAIN[i::3], y_training=LABELS[i::3]) for i in range(3)]
    ),
    "logistic regression": lambda: LogisticRegression().fit(X_TRAIN, LABELS),
    "perceptron": lambda: MLPClassifier((6,), max_iter=20, tol=1.0, random_state=0).fit(X_TRAIN, LABELS),
    "mixture": lambda: VotingClassifier(
        [("f", make_estimator("pipeline")), ("l", MAKE["scaled logistic regression"]())], voting="soft"
    ).fit(X_TRAIN, LABELS),
    "Bayesian ridge": lambda: BayesianRidge().fit(X_TRAIN, Y_TRAIN),
    "regression forest": lambda: RandomForestRegressor(8, random_state=0).fit(X_TRAIN, Y_TRAIN),
    "process": lambda: GaussianProcessRegressor().fit(X_TRAIN, Y_TRAIN),
}


@pytest.fixture(scope="module")
def models():
    """Fitted models by kind, each fitted when it is asked for."""
    known = {}

    def fitted(kind):
        if kind not in known:
            known[kind] = MAKE[kind]()
        return known[kind]

    return fitted


def of_pairs(distance, points):
    """Distances of all pairs of points, one by one."""
    return np.array([[float(distance(a, b)) for b in points] for a in points])


def hidden(linear, x):
    """What a layer gives, in float64, unit by unit."""
    weights, bias = linear.weight.detach().double().numpy(), linear.bias.detach().double().numpy()
    return np.maximum(
        [[bias[i] + sum(w * v for w, v in zip(weights[i], row, strict=True)) for i in range(16)] for row in x], 0
    )


def added_by_each_tree(model):
    """What the trees of a boosting add to the decision, by the sums after each of them."""
    sums = [np.asarray(stage).reshape(N, -1) for stage in model.staged_decision_function(X_POOL)]
    return np.concatenate([sums[0], *(now - before for before, now in itertools.pairwise(sums))], axis=1)


def leaves_of(kind, model):
    """The leaf of each tree that a row of the pool falls into, asked of the trees one by one."""
    if kind == "bagging":
        trees = [
            tree.apply(X_POOL[:, columns])
            for tree, columns in zip(model.estimators_, model.estimators_features_, strict=True)
        ]
    elif kind == "gradient boosting":
        trees = [tree.apply(X_POOL) for tree in model.estimators_.ravel()]
    elif kind == "pipeline of a forest":
        trees = [tree.apply(model[0].transform(X_POOL)) for tree in model[-1].estimators_]
    else:
        trees = [tree.apply(X_POOL) for tree in model.estimators_]
    return np.stack(trees, axis=1).tolist()


def features_of(kind, model):
    """What a model makes of the rows of the pool before its last layer."""
    if kind == "skorch":
        return hidden(model.module_[0], X_POOL.astype(float))
    if kind == "dropout net":
        return np.asarray(model.embed(X_POOL), dtype=float)
    if kind == "scaled logistic regression":
        return (X_POOL - X_TRAIN.mean(axis=0, dtype=float)) / X_TRAIN.std(axis=0, dtype=float)
    if kind.startswith("hist"):
        return added_by_each_tree(model)
    return X_POOL.astype(float)


OF_LEAVES = ["forest", "bagging", "gradient boosting", "pipeline of a forest"]
OF_FEATURES = ["scaled logistic regression", "linear regression", "dropout net", "skorch"]
OF_FEATURES += ["naive bayes", "hist gradient boosting"]
OF_DRAWS = ["calibrated", "gaussian process", "committee"]


def assert_distances_fit(points, expected):
    """In proportion, since the scale of a space does not matter."""
    everything = points[slice(None)]
    ours = everything.squared_distances(everything).cpu().numpy()
    assert expected.max() > 0
    np.testing.assert_allclose(ours / ours.max(), expected / expected.max(), rtol=1e-4, atol=1e-6)
    np.testing.assert_array_equal(np.diag(ours), 0)


# --- spaces


@pytest.mark.parametrize("kind", OF_LEAVES)
def test_rows_of_trees_are_as_far_as_the_share_of_trees_that_part_them(kind, models):
    expected = of_pairs(reference.leaf_distance, leaves_of(kind, models(kind)))
    points = points_of(Pool.of(X_POOL), models(kind), None, chunk_size=7)
    assert_distances_fit(points, expected)
    ours = points[slice(None)].squared_distances(points[slice(None)]).numpy()
    np.testing.assert_array_equal(ours == 0, expected == 0)


@pytest.mark.parametrize("kind", OF_FEATURES)
def test_rows_of_nets_and_linear_models_are_as_far_as_what_enters_the_last_layer(kind, models):
    expected = of_pairs(reference.squared_distance, features_of(kind, models(kind)))
    assert_distances_fit(points_of(Pool.of(X_POOL), models(kind), None), expected)


@pytest.mark.parametrize("kind", OF_DRAWS)
def test_rows_of_other_models_are_as_far_as_their_draws(kind, models):
    draws = draws_of(Pool.of(X_POOL), models(kind), np.random.default_rng(0), n_draws=None)
    assert draws.n_draws > 1
    of_rows = np.concatenate([np.asarray(draw, dtype=float) for draw in draws.predict(X_POOL)], axis=1)
    expected = of_pairs(reference.squared_distance, of_rows)
    assert_distances_fit(points_of(Pool.of(X_POOL), models(kind), draws, chunk_size=7), expected)


@pytest.mark.parametrize("kind", ["forest", "bagging", "gradient boosting"])
def test_gradients_of_trees_have_shared_leaves_in_place_of_inner_products(kind, models):
    model = models(kind)
    a = np.array(reference.residuals(model.predict_proba(X_POOL)), dtype=float).tolist()
    points = list(zip(a, leaves_of(kind, model), strict=True))
    expected = of_pairs(reference.gradient_distance(reference.shared_leaves), points)
    assert_distances_fit(points_of(Pool.of(X_POOL), model, None, space="gradients", chunk_size=7), expected)


@pytest.mark.parametrize("kind", ["scaled logistic regression", "skorch", "naive bayes"])
def test_gradients_of_other_classifiers_are_those_of_badge(kind, models):
    model = models(kind)
    features = features_of(kind, model)
    vectors = np.array(reference.gradient_embeddings(model.predict_proba(X_POOL), features), dtype=float)
    expected = of_pairs(reference.squared_distance, vectors)
    assert_distances_fit(points_of(Pool.of(X_POOL), model, None, space="gradients"), expected)


def halved(estimator, X):
    return X[:, : estimator.n_features_in_ // 2]


def test_a_space_may_be_a_function_of_the_estimator_and_the_rows(models):
    expected = of_pairs(reference.squared_distance, X_POOL[:, :2].astype(float))
    assert_distances_fit(points_of(Pool.of(X_POOL), models("dropout net"), None, space=halved, chunk_size=7), expected)


def test_leaves_of_a_tree_of_more_nodes_than_16_bits_count_are_told_apart():
    # The first row, which falls into the first leaf, does not show how many leaves there are.
    rows = np.arange(40_000, dtype=np.float32)[:, None]
    tree = DecisionTreeRegressor(random_state=0).fit(rows, np.random.default_rng(0).normal(size=40_000))
    leaves = tree.apply(rows)
    assert leaves.max() > 2**16
    pairs = {int(leaf): row for row, leaf in enumerate(leaves)}
    one, other = next((row, pairs[leaf + 2**16]) for leaf, row in pairs.items() if row and leaf + 2**16 in pairs)
    for chunk_size in (None, 1):
        points = points_of(Pool.of(rows[[0, one, other]]), tree, None, chunk_size=chunk_size)[slice(None)]
        np.testing.assert_array_equal(points.squared_distances(points) > 0, ~np.eye(3, dtype=bool))


def test_members_of_a_bootstrap_are_the_space_of_a_model_without_one():
    model, training = GaussianNB().fit(X_TRAIN, LABELS), {"X_training": X_TRAIN, "y_training": LABELS}
    ours = query(score="bald", posterior="bootstrap", n_draws=6)
    batch = ours.select(model, X_POOL, 5, **training)
    draws_rng = spawn(np.random.default_rng(0), 2)[0]  # what the query drew its members from
    members = np.asarray(bootstrap(model, *training.values(), 6, draws_rng)(X_POOL), dtype=float)
    points = np.moveaxis(members, 1, 0).reshape(N, -1).tolist()
    rule = reference.Repulsion(ours.scores_, points, 1, 1)
    np.testing.assert_allclose(ours.log_proba_, rule.log_proba(batch.tolist()), rtol=0, atol=1e-9)


# --- the law of a query


def test_batches_of_a_query_follow_the_law_given_the_rows_in_flight():
    values, X = [0.9, 0.2, 0.5, 0.4, 0.6], np.stack([np.linspace(0.1, 0.9, 5), np.zeros(5)], axis=1)
    model, points = Echo().fit(X), reference.exactly(X[:, :1])
    ours = query(score=lambda learner, rows: np.interp(rows[:, 0], X[:, 0], values), beta=2, diversity=1.5, epsilon=0.2)
    left = (1, 3, 4)
    scores, places = ([of_rows[i] for i in left] for of_rows in (values, points))
    law = reference.repulsive_law(scores, places, 2, 2, 1.5, 0.2, points[:1])
    counts = Counter(tuple(ours.select(model, X, 2, candidates=[0, *left], pending=[0]).tolist()) for _ in range(150))
    reference.assert_counts_fit(counts, {tuple(left[i] for i in batch): p for batch, p in law.items()}, 150)


SPACES = {
    "forest": (lambda kind, model: leaves_of(kind, model), reference.leaf_distance),
    "scaled logistic regression": (lambda kind, model: features_of(kind, model).tolist(), reference.squared_distance),
    "skorch": (lambda kind, model: features_of(kind, model).tolist(), reference.squared_distance),
}


@quietly
@pytest.mark.parametrize(
    ("kind", "sampler", "epsilon", "pending"),
    [
        ("forest", "power", 0.2, [2, 11, 25]),
        ("forest", "softrank", 0.0, []),
        ("scaled logistic regression", "softmax", 0.0, [2, 11, 25]),
        ("skorch", "power", 0.2, []),
    ],
)
def test_log_probabilities_of_a_query_are_those_of_the_law(kind, sampler, epsilon, pending, models):
    places, distance = SPACES[kind]
    candidates = np.setdiff1d(np.arange(0, 28), [4, 5])
    ours = query(score=by_first_column, sampler=sampler, beta=2, diversity=1.5, epsilon=epsilon, chunk_size=8)
    batch = ours.select(models(kind), X_POOL, 5, candidates=candidates, pending=pending)
    rows = [i for i in candidates.tolist() if i not in pending]
    assert np.isfinite(ours.scores_).nonzero()[0].tolist() == rows
    scores = ours.scores_[rows]
    ranks = np.empty(len(rows), dtype=int)
    ranks[np.argsort(-scores)] = np.arange(1, len(rows) + 1)
    weights = {
        "power": reference.power_weights(scores, 2),
        "softmax": reference.softmax_weights(scores, 2),
        "softrank": reference.softrank_weights(ranks, 2),
    }[sampler]
    points = places(kind, models(kind))
    rule = reference.Repulsion(
        weights, [points[i] for i in rows], 1, 1.5, epsilon, [points[i] for i in pending], distance
    )
    expected = rule.log_proba([rows.index(i) for i in batch.tolist()])
    np.testing.assert_allclose(ours.log_proba_, expected, rtol=0, atol=1e-9 if kind == "forest" else 1e-5)
    assert n_unreachable(ours) == sum(p == 0 for p in rule.next(()).values())


# --- chunks and containers


@pytest.mark.parametrize(
    ("kind", "space"),
    [("bagging", "gradients"), ("dropout net", "auto"), ("skorch", "gradients"), ("calibrated", "auto")],
)
def test_a_batch_does_not_depend_on_the_chunks(kind, space, models):
    batches = [
        query(space=space, chunk_size=size, diversity=2).select(models(kind), X_POOL, 8, pending=[4, 20])
        for size in (None, 7, 1)
    ]
    np.testing.assert_array_equal(batches[1], batches[0])
    np.testing.assert_array_equal(batches[2], batches[0])


# --- the default

default = functools.partial(StochasticBatchQuery, random_state=0)
NUMBER_OF = dict.fromkeys(("scaled logistic regression", "perceptron", "dropout net", "skorch", "mixture"), 2.0)
NUMBER_OF |= dict.fromkeys(("logistic regression", "Bayesian ridge", "regression forest", "process"), 2.0)
NUMBER_OF |= dict.fromkeys(("forest", "hist gradient boosting", "naive bayes", "calibrated", "committee"), 0.0)


@pytest.mark.parametrize("kind", NUMBER_OF)
def test_auto_is_the_number_that_it_says_whatever_the_chunks_and_whoever_makes_the_scores(kind, models):
    named, model, query = default(diversity=NUMBER_OF[kind]), models(kind), default()
    expected = named.select(model, X_POOL, 8)
    np.testing.assert_array_equal(default(chunk_size=7).select(model, X_POOL, 8), expected)
    np.testing.assert_array_equal(query.select(model, X_POOL, 8), expected)
    np.testing.assert_array_equal(query.log_proba_, named.log_proba_)
    assert query.diversity_ == NUMBER_OF[kind]
    again = default().select_scored(query.scores_, 8, estimator=model, X_pool=X_POOL)
    assert kind == "process" or again.tolist() == expected.tolist()  # its draws are made for scores alone
    query.select_scored(query.scores_, 8)
    assert query.diversity_ == 0


HELD = {
    "dataset of Arrow": lambda rows: pyarrow.dataset.dataset(pyarrow.table(pd.DataFrame(rows))),
    "blocks that come once": lambda rows: blocks(part for part in np.array_split(rows, 4)),
    "dask": lambda rows: da.from_array(rows, chunks=(11, 2)),
    "dask of unknown lengths": lambda rows: da.from_array(rows, chunks=(11, 4))[da.ones(N, chunks=11) > 0],
    "sparse": lambda rows: sparse.csr_array(rows),
    "blocks of sparse rows": lambda rows: blocks([sparse.csr_array(part) for part in np.array_split(rows, 4)]),
}


@pytest.mark.filterwarnings("ignore:X has feature names")
@pytest.mark.parametrize("held", HELD)
@pytest.mark.parametrize(("too_many", "number"), [(0, 2), (1, 0)])
def test_a_container_decides_neither_batch_nor_room(held, too_many, number, models, monkeypatch):
    kind, n_numbers = ("dropout net", 8 * N) if "dask" in held else ("logistic regression", 4 * N)
    n_numbers = 1.5 * np.count_nonzero(X_POOL) if "sparse" in held else n_numbers
    monkeypatch.setattr("skactive.query._draws._MOST_AT_HAND", n_numbers - too_many)
    query, model = default(chunk_size=8), models(kind)
    found = query.select(model, HELD[held](X_POOL), 6)
    assert query.diversity_ == number
    np.testing.assert_array_equal(found, default(diversity=number).select(model, X_POOL, 6))


class Counted(nn.Linear):
    n_rows = 0

    def forward(self, x):
        Counted.n_rows += len(x)
        return super().forward(x)


class Counting(StandardScaler):
    n_rows = 0

    def transform(self, X):
        self.n_rows += len(X)
        return super().transform(X)


def test_a_net_is_asked_once_for_each_row():
    net, query = skorch_net(Counted(4, 8), nn.ReLU(), nn.Linear(8, 3)), default()
    Counted.n_rows = 0
    query.select(net, np.tile(X_POOL, (50, 1)), 5)
    assert query.diversity_ == 2
    assert Counted.n_rows < 1.05 * 50 * N  # a row of each block again, as a check


@pytest.mark.parametrize("posterior", ["auto", ExtraTreesRegressor(5, random_state=0)])
def test_a_forest_of_numbers_is_asked_once_and_keeps_apart_by_its_own_leaves(posterior):
    counted, query, alone = Counting(), *(default(score="std_dev", posterior=posterior, beta=1) for _ in "ab")
    trees = RandomForestRegressor(5, max_leaf_nodes=4, random_state=0)
    forest = TransformedTargetRegressor(trees, transformer=StandardScaler())
    model, rows = make_pipeline(counted, forest).fit(X_TRAIN, X_TRAIN.sum(1)), np.tile(X_POOL, (50, 1))
    counted.n_rows, training = 0, {"X_training": X_TRAIN, "y_training": X_TRAIN.sum(1)}
    batch = query.select(model, rows, 8, **training)
    assert query.diversity_ == 2
    assert counted.n_rows < 1.05 * 50 * N  # the first rows again, as a check
    np.testing.assert_array_equal(alone.select_scored(query.scores_, 8, estimator=model, X_pool=rows), batch)
    np.testing.assert_allclose(alone.log_proba_, query.log_proba_)


@pytest.mark.parametrize("epsilon", [0.0, 0.2])
def test_the_default_has_the_probabilities_of_its_law_and_is_0_for_a_risk(epsilon, models):
    model, pending, query = models("scaled logistic regression"), [3, 20], default(epsilon=epsilon)
    batch, rows = query.select(model, X_POOL, 6, pending=pending), np.setdiff1d(np.arange(N), pending)
    places, weights = features_of("scaled logistic regression", model), reference.power_weights(query.scores_[rows], 4)
    rule = reference.Repulsion(weights, places[rows].tolist(), 1, 2, epsilon, places[pending].tolist())
    expected = rule.log_proba([rows.tolist().index(i) for i in batch])
    np.testing.assert_allclose(query.log_proba_, expected, rtol=0, atol=1e-5)
    tester = ActiveTester(default(score="entropy", epsilon=epsilon), X_POOL)
    alone = default(score="entropy", epsilon=epsilon, diversity=0).select(model, X_POOL, 6)
    assert tester.ask(model, 6).tolist() == alone.tolist()
    assert (tester.query.diversity, tester.query.diversity_) == ("auto", 0)


ZERO = [{"sampler": "topk"}, {"sampler": "uniform"}, {"sampler": first_rows}, {"beta": 0}, {"score": "bald"}, {}]


@pytest.mark.parametrize("given", ZERO)
def test_it_is_0_without_weights_to_change_beside_draws_of_a_net_and_for_equal_rows(given, models):
    query, kind = default(**given), "dropout net" if "score" in given else "logistic regression"
    query.select(models(kind), X_POOL if given else np.ones((9, 4)), 3)
    assert query.diversity_ == 0


class Tempered(Pipeline):
    def predict_proba(self, X):
        return super().predict_proba(X) / 2 + 1 / 6


def test_probabilities_that_a_pipeline_of_the_users_own_changes_are_scored(models):
    model, query = Tempered(models("scaled logistic regression").steps), default()
    query.select(model, X_POOL, 3)
    np.testing.assert_allclose(query.scores_, margin(model.predict_proba(X_POOL)[None]))


# --- rows in flight


def test_badge_draws_every_row_by_its_distance_from_those_in_flight():
    rows = X_POOL[:6].astype(float)
    model = LogisticRegression().fit(X_TRAIN.astype(float), LABELS)
    vectors = reference.gradient_embeddings(model.predict_proba(rows), rows)
    law = {(): 1.0}
    for _ in range(2):
        law = {
            (*batch, i): p * float(step)
            for batch, p in law.items()
            for i, step in enumerate(reference.next_centre_law(vectors, [1, 4, *batch]))
            if step
        }
    ours = BADGEQuery(random_state=0)
    counts = Counter(tuple(ours.select(model, rows, 2, pending=[4, 1]).tolist()) for _ in range(150))
    reference.assert_counts_fit(counts, law, 150)


# --- modAL


def test_a_learner_of_modal_gives_diversity_and_rows_in_flight_to_a_single_call():
    strategy, pending = query(diversity=0.0), [3, 14, 22]
    learner = ActiveLearner(RandomForestClassifier(8, max_depth=3, random_state=0), strategy, X_TRAIN, LABELS)
    batch, _ = learner.query(X_POOL, n_instances=4, diversity=2, pending=pending)
    assert strategy.diversity == 0
    given = query(diversity=2)
    np.testing.assert_array_equal(batch, given.select(learner.estimator, X_POOL, 4, pending=pending))
    np.testing.assert_array_equal(strategy.log_proba_, given.log_proba_)


# --- bad input


@pytest.mark.parametrize("space", [lambda X: np.concatenate([X, X]), lambda X: np.eye(len(X))])
def test_a_space_of_more_rows_or_of_columns_of_the_chunk_is_refused(space, models):
    with pytest.raises(ValueError, match="`space`"):
        query(space=space, chunk_size=7).select(models("forest"), X_POOL, 3)


def test_a_space_that_is_not_finite_is_refused_with_the_row_of_the_pool(models):
    def gap(X):
        return np.where(X[:, :1] == X_POOL[7, 0], np.nan, X)

    with pytest.raises(ValueError, match=r"`space` must return finite numbers.*\brow 7\b"):
        query(space=gap).select(models("forest"), X_POOL, 3, candidates=np.arange(5, 20))


def test_top_k_leaves_distances_nothing_to_choose(models):
    with pytest.raises(ValueError, match=r'^`diversity` above 0 needs .*Got `sampler`="topk"'):
        query(sampler="topk").select(models("forest"), X_POOL, 2)
