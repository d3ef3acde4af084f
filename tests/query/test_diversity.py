"""Batches that keep apart in the space of a model: which space it is, the law of the batch, and rows in flight."""

from __future__ import annotations

import copy
import itertools
import math
import pickle
import warnings
from collections import Counter

import dask.array as da
import numpy as np
import pandas as pd
import pytest
import reference
import torch
from modAL.models import ActiveLearner, Committee
from scipy import sparse, special
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.ensemble import (
    BaggingClassifier,
    ExtraTreesClassifier,
    GradientBoostingClassifier,
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.frozen import FrozenEstimator
from sklearn.gaussian_process import GaussianProcessClassifier
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MaxAbsScaler, StandardScaler
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor
from small_models import (
    LABELS,
    X_POOL,
    X_TRAIN,
    Y_TRAIN,
    contents,
    echo,
    first_law,
    first_rows,
    make_estimator,
    n_unreachable,
    skorch_net,
)
from torch import nn

from skactive import (
    ACSFWQuery,
    BADGEQuery,
    BatchBALDQuery,
    CausalBALDQuery,
    KCenterQuery,
    StochasticBatchQuery,
)
from skactive._utils.randomness import spawn
from skactive.posterior import bootstrap
from skactive.query import Pool
from skactive.query._draws import draws_of, points_of
from skactive.samplers import SAMPLERS

quietly = pytest.mark.filterwarnings("ignore:Only .* rows have a positive score and lie apart:UserWarning")
N = len(X_POOL)


def query(**parameters):
    return StochasticBatchQuery(**{"score": "entropy", "beta": 1.0, "random_state": 0, "diversity": 1.0, **parameters})


def by_first_column(learner, X):
    return np.abs(np.asarray(X)[:, 0]) + 0.1


# ------------------------------------------------------------------------------------------------------------- models


def net():
    return skorch_net(nn.Linear(4, 16), nn.ReLU(), nn.Dropout(0.5), nn.Linear(16, 3), max_epochs=2)


MAKE = {
    "forest": lambda: make_estimator("forest"),
    "extra trees": lambda: ExtraTreesClassifier(7, max_depth=3, random_state=0).fit(X_TRAIN, LABELS),
    "tree": lambda: DecisionTreeClassifier(max_depth=3, random_state=0).fit(X_TRAIN, LABELS),
    "regressor forest": lambda: RandomForestRegressor(6, max_depth=3, random_state=0).fit(X_TRAIN, Y_TRAIN),
    "bagging": lambda: BaggingClassifier(DecisionTreeClassifier(max_depth=3), 6, max_features=0.5, random_state=0).fit(
        X_TRAIN, LABELS
    ),
    "bagging of other models": lambda: BaggingClassifier(GaussianNB(), 4, random_state=0).fit(X_TRAIN, LABELS),
    "gradient boosting": lambda: GradientBoostingClassifier(n_estimators=4, max_depth=2, random_state=0).fit(
        X_TRAIN, LABELS
    ),
    "hist gradient boosting": lambda: HistGradientBoostingClassifier(max_iter=4, min_samples_leaf=5).fit(
        X_TRAIN, LABELS
    ),
    "hist gradient boosting of numbers": lambda: HistGradientBoostingRegressor(max_iter=4, min_samples_leaf=5).fit(
        X_TRAIN, Y_TRAIN
    ),
    "pipeline of a forest": lambda: make_estimator("pipeline"),
    "search": lambda: GridSearchCV(RandomForestClassifier(8, random_state=0), {"max_depth": [2]}, cv=2).fit(
        X_TRAIN, LABELS
    ),
    "frozen forest": lambda: FrozenEstimator(make_estimator("forest")),
    "scaled logistic regression": lambda: make_pipeline(StandardScaler(), LogisticRegression()).fit(X_TRAIN, LABELS),
    "search of a pipeline": lambda: GridSearchCV(
        make_pipeline(StandardScaler(), LogisticRegression()), {"logisticregression__C": [0.5]}, cv=2
    ).fit(X_TRAIN, LABELS),
    "linear regression": lambda: LinearRegression().fit(X_TRAIN, Y_TRAIN),
    "dropout net": lambda: make_estimator("net"),
    "skorch": net,
    "module": lambda: net().module_,
    "naive bayes": lambda: GaussianNB().fit(X_TRAIN, LABELS),
    "calibrated": lambda: CalibratedClassifierCV(GaussianNB(), cv=3).fit(X_TRAIN, LABELS),
    "gaussian process": lambda: GaussianProcessClassifier(random_state=0).fit(X_TRAIN, LABELS),
    "committee": lambda: Committee(
        [ActiveLearner(GaussianNB(), X_training=X_TRAIN[i::3], y_training=LABELS[i::3]) for i in range(3)]
    ),
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
    stages = model.staged_decision_function if hasattr(model, "classes_") else model.staged_predict
    sums = [np.asarray(stage).reshape(N, -1) for stage in stages(X_POOL)]
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
    elif kind == "tree":
        trees = [model.apply(X_POOL)]
    elif kind == "pipeline of a forest":
        trees = [tree.apply(model[0].transform(X_POOL)) for tree in model[-1].estimators_]
    else:
        inner = getattr(model, "best_estimator_", getattr(model, "estimator", None) if "frozen" in kind else model)
        trees = [tree.apply(X_POOL) for tree in inner.estimators_]
    return np.stack(trees, axis=1).tolist()


def features_of(kind, model):
    """What a model makes of the rows of the pool before its last layer."""
    if kind in ("skorch", "module"):
        return hidden((model.module_ if kind == "skorch" else model)[0], X_POOL.astype(float))
    if kind == "dropout net":
        return np.asarray(model.embed(X_POOL), dtype=float)
    if kind == "scaled logistic regression":
        return (X_POOL - X_TRAIN.mean(axis=0, dtype=float)) / X_TRAIN.std(axis=0, dtype=float)
    if kind == "search of a pipeline":
        return model.best_estimator_[0].transform(X_POOL).astype(float)
    if kind.startswith("hist"):
        return added_by_each_tree(model)
    return X_POOL.astype(float)


OF_LEAVES = ["forest", "extra trees", "tree", "regressor forest", "bagging", "gradient boosting"]
OF_LEAVES += ["pipeline of a forest", "search", "frozen forest"]
OF_FEATURES = ["scaled logistic regression", "search of a pipeline", "linear regression", "dropout net", "skorch"]
OF_FEATURES += ["module", "naive bayes", "hist gradient boosting", "hist gradient boosting of numbers"]
OF_DRAWS = ["calibrated", "gaussian process", "committee", "bagging of other models"]


def assert_distances_fit(points, expected):
    """In proportion, since the scale of a space does not matter."""
    everything = points[slice(None)]
    ours = everything.squared_distances(everything).cpu().numpy()
    assert expected.max() > 0
    np.testing.assert_allclose(ours / ours.max(), expected / expected.max(), rtol=1e-4, atol=1e-6)
    np.testing.assert_array_equal(np.diag(ours), 0)


# ------------------------------------------------------------------------------------------------------------- spaces


@pytest.mark.parametrize("chunk_size", [None, 7])
@pytest.mark.parametrize("kind", OF_LEAVES)
def test_rows_of_trees_are_as_far_as_the_share_of_trees_that_part_them(kind, chunk_size, models):
    expected = of_pairs(reference.leaf_distance, leaves_of(kind, models(kind)))
    points = points_of(Pool.of(X_POOL), models(kind), None, chunk_size=chunk_size)
    assert_distances_fit(points, expected)
    ours = points[slice(None)].squared_distances(points[slice(None)]).numpy()
    np.testing.assert_array_equal(ours == 0, expected == 0)


@pytest.mark.parametrize("space", ["auto", "embeddings"])
@pytest.mark.parametrize("kind", OF_FEATURES)
def test_rows_of_nets_and_linear_models_are_as_far_as_what_enters_the_last_layer(kind, space, models):
    expected = of_pairs(reference.squared_distance, features_of(kind, models(kind)))
    assert_distances_fit(points_of(Pool.of(X_POOL), models(kind), None, space=space), expected)


@pytest.mark.parametrize("chunk_size", [None, 7])
@pytest.mark.parametrize("kind", OF_DRAWS)
def test_rows_of_other_models_are_as_far_as_their_draws(kind, chunk_size, models):
    draws = draws_of(Pool.of(X_POOL), models(kind), np.random.default_rng(0), n_draws=None)
    assert draws.n_draws > 1
    of_rows = np.concatenate([np.asarray(draw, dtype=float) for draw in draws.predict(X_POOL)], axis=1)
    expected = of_pairs(reference.squared_distance, of_rows)
    assert_distances_fit(points_of(Pool.of(X_POOL), models(kind), draws, chunk_size=chunk_size), expected)


@pytest.mark.parametrize("kind", ["forest", "scaled logistic regression", "dropout net", "skorch"])
def test_draws_do_not_matter_where_a_model_has_a_space_of_its_own(kind, models):
    training = {"X_training": X_TRAIN, "y_training": LABELS}
    pool = Pool.of(X_POOL, **training)
    draws = draws_of(pool, models(kind), np.random.default_rng(0), n_draws=4)
    with_draws, without = (points_of(pool, models(kind), d)[slice(None)] for d in (draws, None))
    np.testing.assert_array_equal(with_draws.squared_distances(with_draws), without.squared_distances(without))


@pytest.mark.parametrize("kind", ["forest", "tree", "bagging", "gradient boosting", "pipeline of a forest", "search"])
def test_gradients_of_trees_have_shared_leaves_in_place_of_inner_products(kind, models):
    model = models(kind)
    a = np.array(reference.residuals(model.predict_proba(X_POOL)), dtype=float).tolist()
    points = list(zip(a, leaves_of(kind, model), strict=True))
    expected = of_pairs(reference.gradient_distance(reference.shared_leaves), points)
    assert_distances_fit(points_of(Pool.of(X_POOL), model, None, space="gradients", chunk_size=7), expected)


@pytest.mark.parametrize(
    "kind", ["scaled logistic regression", "dropout net", "skorch", "module", "naive bayes", "hist gradient boosting"]
)
def test_gradients_of_other_classifiers_are_those_of_badge(kind, models):
    model = models(kind)
    if kind == "module":
        p = special.softmax(copy.deepcopy(model).eval()(torch.from_numpy(X_POOL)).detach().double().numpy(), axis=1)
    else:
        p = model.predict_proba(X_POOL)
    vectors = np.array(reference.gradient_embeddings(p, features_of(kind, model)), dtype=float)
    expected = of_pairs(reference.squared_distance, vectors)
    assert_distances_fit(points_of(Pool.of(X_POOL), model, None, space="gradients"), expected)


def halved(estimator, X):
    return X[:, : estimator.n_features_in_ // 2]


FUNCTIONS = {
    "of the rows": lambda X: X[:, :2],
    "of the estimator and the rows": halved,
    "with a default, to a tensor": lambda X, n=2: torch.from_numpy(X[:, :n].copy()).requires_grad_(),
    "to a sparse array": lambda X: sparse.csr_array(X[:, :2]),
    "to a frame": lambda X: pd.DataFrame(X[:, :2]),
    "to lists": lambda X: X[:, :2].tolist(),
}


@pytest.mark.parametrize("kind", ["forest", "dropout net"])
@pytest.mark.parametrize("space", FUNCTIONS.values(), ids=FUNCTIONS)
def test_a_space_may_be_a_function_of_the_rows_or_of_the_estimator_and_the_rows(space, kind, models):
    expected = of_pairs(reference.squared_distance, X_POOL[:, :2].astype(float))
    assert_distances_fit(points_of(Pool.of(X_POOL), models(kind), None, space=space, chunk_size=7), expected)
    assert len(set(query(space=space).select(models(kind), X_POOL, 5).tolist())) == 5


def test_a_compiled_function_may_be_the_space(models):
    expected = of_pairs(reference.squared_distance, np.square(X_POOL.astype(float)))
    assert_distances_fit(points_of(Pool.of(X_POOL), models("forest"), None, space=np.square), expected)


def test_rows_in_flight_stand_behind_the_candidates(models):
    pool = Pool.of(X_POOL, candidates=np.arange(20, 5, -1), pending=[9, 3, 29])
    points = points_of(pool, models("linear regression"), None)
    order = [*(i for i in range(6, 21) if i != 9), 3, 9, 29]
    assert_distances_fit(points, of_pairs(reference.squared_distance, X_POOL[order].astype(float)))


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


@pytest.mark.parametrize("kind", ["forest", "hist gradient boosting"])
def test_models_that_take_rows_with_gaps_place_them(kind):
    gaps = X_POOL.copy()
    gaps[::3, 1] = np.nan
    training = X_TRAIN.copy()
    training[::4, 2] = np.nan
    model = clone(MAKE[kind]()).fit(training, LABELS)
    batch = query().select(model, gaps, 8)
    assert len(set(batch.tolist())) == 8


def test_members_of_a_bootstrap_are_the_space_of_a_model_without_one():
    model, training = GaussianNB().fit(X_TRAIN, LABELS), {"X_training": X_TRAIN, "y_training": LABELS}
    ours = query(score="bald", posterior="bootstrap", n_draws=6)
    batch = ours.select(model, X_POOL, 5, **training)
    draws_rng = spawn(np.random.default_rng(0), 2)[0]  # what the query drew its members from
    members = np.asarray(bootstrap(model, *training.values(), 6, draws_rng)(X_POOL), dtype=float)
    points = np.moveaxis(members, 1, 0).reshape(N, -1).tolist()
    rule = reference.Repulsion(ours.scores_, points, 1, 1)
    np.testing.assert_allclose(ours.log_proba_, rule.log_proba(batch.tolist()), rtol=0, atol=1e-9)


def test_draws_of_another_estimator_are_the_space_of_a_model_without_one():
    model, training = GaussianNB().fit(X_TRAIN, LABELS), {"X_training": X_TRAIN, "y_training": LABELS}
    ours = query(score="bald", posterior=RandomForestClassifier(5, max_depth=3, random_state=0))
    batch = ours.select(model, X_POOL, 5, **training)
    assert np.isfinite(ours.log_proba_).all()
    assert len(set(batch.tolist())) == 5


@pytest.mark.parametrize(("score", "n_draws"), [("bald", 8), ("entropy", None), (by_first_column, None)])
def test_a_gaussian_process_keeps_rows_apart_by_its_draws_whatever_the_score(score, n_draws, models):
    model = models("gaussian process")
    ours = query(score=score, n_draws=n_draws, diversity=2)
    draws_rng = spawn(np.random.default_rng(ours.random_state), 2)[0]
    draws = draws_of(Pool.of(X_POOL), model, draws_rng, n_draws=n_draws)
    batch = ours.select(model, X_POOL, 5)
    points = np.moveaxis(np.asarray(draws.predict(X_POOL), dtype=float), 1, 0).reshape(N, -1).tolist()
    rule = reference.Repulsion(ours.scores_, points, 1, 2)
    np.testing.assert_allclose(ours.log_proba_, rule.log_proba(batch.tolist()), rtol=0, atol=1e-7)


# ------------------------------------------------------------------------------------------------- the law of a query


def on_a_line(values, n_twins=0):
    """A model, rows on a line, a score that gives them these values, and points as the oracle takes them."""
    model, X, score = echo(values)
    return model, X, score, reference.exactly(X[:, :1])


def count(ours, model, X, k, n_trials=250, **given):
    return Counter(tuple(ours.select(model, X, k, **given).tolist()) for _ in range(n_trials))


def test_batches_of_a_query_follow_the_law():
    model, X, score, points = on_a_line([0.9, 0.2, 0.5, 0.4])
    ours = query(score=score, beta=2, diversity=1.5, epsilon=0.2)
    law = reference.repulsive_law([0.9, 0.2, 0.5, 0.4], points, 2, 2, 1.5, 0.2)
    reference.assert_counts_fit(count(ours, model, X, 2), law, 250)


def test_batches_of_a_query_follow_the_law_given_the_rows_in_flight():
    values = [0.9, 0.2, 0.5, 0.4, 0.6]
    model, X, score, points = on_a_line(values)
    ours = query(score=score, beta=1, diversity=1)
    law = reference.repulsive_law(
        [values[i] for i in (1, 3, 4)], [points[i] for i in (1, 3, 4)], 2, 1, 1, 0, points[:1]
    )
    counts = count(ours, model, X, 2, candidates=[0, 1, 3, 4], pending=[0])
    rows = {batch: tuple([1, 3, 4][i] for i in batch) for batch in law}
    reference.assert_counts_fit(counts, {rows[batch]: p for batch, p in law.items()}, 250)


SPACES = {
    "forest": (lambda kind, model: leaves_of(kind, model), reference.leaf_distance),
    "scaled logistic regression": (lambda kind, model: features_of(kind, model).tolist(), reference.squared_distance),
    "skorch": (lambda kind, model: features_of(kind, model).tolist(), reference.squared_distance),
}


@quietly
@pytest.mark.parametrize("sampler", ["power", "softmax", "softrank"])
@pytest.mark.parametrize(("epsilon", "pending"), [(0.0, []), (0.2, []), (0.0, [2, 11, 25]), (0.2, [2, 11, 25])])
@pytest.mark.parametrize("kind", SPACES)
def test_log_probabilities_of_a_query_are_those_of_the_law(kind, epsilon, pending, sampler, models):
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
    first = rule.next(())
    assert n_unreachable(ours) == sum(p == 0 for p in first.values())


@quietly
@pytest.mark.parametrize(
    ("parameters", "pending", "n_expected"),
    [
        ({}, [], 2),
        ({"beta": 0}, [], 0),
        ({"epsilon": 0.1}, [], 0),
        ({}, [1], 3),  # the twin of the row in flight as well
        ({"beta": 0}, [1], 1),
        ({"epsilon": 0.1}, [1], 0),
        ({}, [1, 2, 6], 0),  # no row has a weight: all are as probable
    ],
)
def test_rows_without_a_score_and_twins_of_rows_in_flight_are_counted_as_unreachable(parameters, pending, n_expected):
    model, X, score = echo([0.0, 0.6, 0.2, 0.0])
    X = X[[0, 1, 2, 3, 1, 2, 2]] if len(pending) == 3 else X[[0, 1, 2, 3, 1]]
    ours = query(score=score, **parameters)
    ours.select(model, X, 2, pending=pending)
    assert n_unreachable(ours) == n_expected


def test_where_all_rows_are_equal_a_query_says_so_once_and_goes_by_scores(models):
    ours = query()
    with pytest.warns(UserWarning, match="All points are equal.*scores alone decide") as caught:
        batch = ours.select(models("forest"), X_POOL[[3] * 6], 4)
    assert len(caught) == 1
    assert str(caught[0].filename) == __file__
    np.testing.assert_allclose(ours.log_proba_, -np.log([6, 5, 4, 3]), rtol=0, atol=1e-9)
    assert len(set(batch.tolist())) == 4


def test_fewer_places_than_rows_wanted_are_filled_up_with_one_warning(models):
    with pytest.warns(UserWarning, match="Only 2 rows .*lie apart.*the other 3 were") as caught:
        batch = query().select(models("scaled logistic regression"), X_POOL[[3, 7, 3, 7, 3, 3]], 5)
    assert len(caught) == 1
    assert len(set(batch.tolist())) == 5


def test_diversity_0_is_the_query_without_it(models):
    plain = StochasticBatchQuery("entropy", beta=1.0, random_state=0)
    expected = plain.select(models("forest"), X_POOL, 6)
    np.testing.assert_array_equal(query(diversity=0, space="gradients").select(models("forest"), X_POOL, 6), expected)


@pytest.mark.parametrize("sampler", sorted(set(SAMPLERS) - {"topk"}))
def test_every_sampler_that_weighs_rows_keeps_apart(sampler, models):
    twins = np.tile(np.arange(8), 3)
    batch = query(sampler=sampler).select(models("scaled logistic regression"), X_POOL[twins], 8)
    assert sorted(twins[batch]) == list(range(8))


# ---------------------------------------------------------------------------------------------- chunks and containers


CHUNKED = ["forest", "bagging", "hist gradient boosting", "scaled logistic regression", "dropout net", "skorch"]
CHUNKED += ["module", "naive bayes", "calibrated"]


@pytest.mark.parametrize("space", ["auto", "gradients"])
@pytest.mark.parametrize("kind", CHUNKED)
def test_a_batch_does_not_depend_on_the_chunks(kind, space, models):
    batches = [
        query(space=space, chunk_size=size, diversity=2).select(models(kind), X_POOL, 8, pending=[4, 20])
        for size in (None, 7, 1)
    ]
    np.testing.assert_array_equal(batches[1], batches[0])
    np.testing.assert_array_equal(batches[2], batches[0])


def pools(tmp_path):
    """The same rows, held in other ways."""
    np.save(tmp_path / "pool.npy", X_POOL)
    return {
        "float64": X_POOL.astype(np.float64),
        "Fortran order": np.asfortranarray(X_POOL),
        "list": X_POOL.tolist(),
        "frame": pd.DataFrame(X_POOL, index=[7] * N),
        "frame of float64": pd.DataFrame(X_POOL.astype(np.float64)),
        "memory map": np.load(tmp_path / "pool.npy", mmap_mode="r"),
        "dask": da.from_array(X_POOL, chunks=(11, 2)),
        "csr": sparse.csr_matrix(X_POOL),
        "csc": sparse.csc_array(X_POOL),
        "tensor": torch.from_numpy(X_POOL.copy()),
    }


def as_it_is(pool):
    return [pool.numpy().copy()] if hasattr(pool, "detach") else contents(pool)


DENSE = ["float64", "Fortran order", "list", "frame", "frame of float64", "memory map", "dask"]
HOLDS = [("forest", container) for container in [*DENSE, "csr", "csc"]]
HOLDS += [("bagging", container) for container in [*DENSE, "csr"]]
HOLDS += [("scaled logistic regression", container) for container in DENSE]
HOLDS += [
    (kind, container) for kind in ("dropout net", "skorch", "module") for container in ("tensor", "dask", "memory map")
]
HOLDS += [("dropout net", container) for container in DENSE]


@pytest.mark.filterwarnings("ignore:X has feature names:UserWarning")
@pytest.mark.parametrize("pending", [[], [28, 4, 15]], ids=["", "in flight"])
@pytest.mark.parametrize(("kind", "container"), HOLDS)
def test_a_batch_is_the_same_however_the_pool_is_held(kind, container, pending, models, tmp_path):
    expected = query(diversity=2).select(models(kind), X_POOL, 6, pending=pending)
    held = pools(tmp_path)[container]
    before = as_it_is(held)
    batch = query(diversity=2, chunk_size=8).select(models(kind), held, 6, pending=pending)
    np.testing.assert_array_equal(batch, expected)
    for now, was in zip(as_it_is(held), before, strict=True):
        np.testing.assert_array_equal(now, was)


def test_sparse_rows_of_a_linear_model_are_as_far_as_dense_ones():
    model = make_pipeline(MaxAbsScaler(), LogisticRegression()).fit(X_TRAIN.astype(float), LABELS)
    pool = np.where(np.abs(X_POOL) > 0.5, X_POOL, 0).astype(float)
    for space in ("auto", "gradients"):
        dense, thin = (
            query(space=space, chunk_size=9).select(model, held, 6, pending=[3])
            for held in (pool, sparse.csr_array(pool))
        )
        np.testing.assert_array_equal(thin, dense)


def test_texts_are_as_far_as_their_features():
    texts = [f"{word} {other} text" for word in ("red", "green", "blue", "grey") for other in "abcdefgh"]
    labels = np.arange(len(texts)) // 16
    model = make_pipeline(TfidfVectorizer(token_pattern=r"\w+"), LogisticRegression()).fit(texts, labels)
    ours = query(diversity=2, chunk_size=5)
    batch = ours.select(model, texts, 6, pending=[0])
    rows = list(range(1, len(texts)))
    points = reference.exactly(model[0].transform(texts).toarray())
    rule = reference.Repulsion(ours.scores_[rows], points[1:], 1, 2, pending=points[:1])
    np.testing.assert_allclose(ours.log_proba_, rule.log_proba([i - 1 for i in batch.tolist()]), rtol=0, atol=1e-9)


@pytest.mark.parametrize("kind", ["forest", "dropout net"])
def test_only_candidates_are_chosen_in_whatever_order_they_are_given(kind, models):
    candidates = np.arange(2, 28, 2)
    mask = np.isin(np.arange(N), candidates)
    ours = query(diversity=2)
    expected = ours.select(models(kind), X_POOL, 6, candidates=candidates)
    assert set(expected.tolist()) <= set(candidates.tolist())
    assert np.isnan(ours.scores_[~mask]).all()
    for given in (candidates[::-1], np.random.default_rng(0).permutation(candidates), mask, np.repeat(candidates, 2)):
        np.testing.assert_array_equal(query(diversity=2).select(models(kind), X_POOL, 6, candidates=given), expected)
    alone = query(diversity=2).select(models(kind), X_POOL[candidates], 6)
    np.testing.assert_array_equal(candidates[alone], expected)


def test_candidates_limit_what_is_looked_at_and_not_the_rows_in_flight(models):
    ours, rows = query(epsilon=0.1), [*range(4, 24, 2)]
    batch = ours.select(models("forest"), X_POOL, 5, pending=[0, 1, 2], candidates=[0, *rows])
    assert np.isfinite(ours.scores_).nonzero()[0].tolist() == rows
    leaves = leaves_of("forest", models("forest"))
    rule = reference.Repulsion(
        ours.scores_[rows], [leaves[i] for i in rows], 1, 1, 0.1, leaves[:3], reference.leaf_distance
    )
    expected = rule.log_proba([rows.index(i) for i in batch.tolist()])
    np.testing.assert_allclose(ours.log_proba_, expected, rtol=0, atol=1e-9)


# ----------------------------------------------------------------------------------------------------- rows in flight


@pytest.mark.parametrize("diversity", [0, 2])
def test_rows_in_flight_are_a_mask_or_positions_in_any_order(diversity, models):
    rows = [22, 3, 14, 3]
    mask = np.isin(np.arange(N), rows)
    frame = pd.DataFrame(X_POOL, index=np.arange(N) + 100)
    forest = models("forest")
    expected = query(diversity=diversity).select(forest, X_POOL, 8, pending=rows)
    assert not set(expected.tolist()) & set(rows)
    for pending in (np.array(rows), mask, mask.tolist(), sorted(rows), pd.Series(mask), pd.Series(rows)):
        np.testing.assert_array_equal(query(diversity=diversity).select(forest, X_POOL, 8, pending=pending), expected)
    shuffled = pd.Series(mask, index=frame.index).sample(frac=1, random_state=0)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="X has feature names")
        np.testing.assert_array_equal(query(diversity=diversity).select(forest, frame, 8, pending=shuffled), expected)


@pytest.mark.parametrize("pending", [[], np.zeros(N, dtype=bool), np.empty(0, dtype=np.int64), None])
def test_no_rows_in_flight_are_as_good_as_none_given(pending, models):
    expected = query(diversity=2).select(models("forest"), X_POOL, 6)
    np.testing.assert_array_equal(query(diversity=2).select(models("forest"), X_POOL, 6, pending=pending), expected)


def test_rows_in_flight_need_be_no_candidates(models):
    # Twins of a row in flight come last, also where that row itself might not be chosen.
    twins = np.array([0, 1, 2, 3, 0, 1, 2, 3])
    model = models("scaled logistic regression")
    for seed in range(5):
        batch = query(random_state=seed).select(model, X_POOL[twins], 3, candidates=[0, 1, 2, 3], pending=[6])
        assert sorted(batch.tolist()) == [0, 1, 3]


@pytest.mark.parametrize("kind", ["forest", "scaled logistic regression", "dropout net", "skorch"])
def test_batches_one_after_the_other_take_every_place_once(kind, models):
    model = models(kind)
    points = leaves_of(kind, model) if kind == "forest" else features_of(kind, model).tolist()
    places = [i for i, point in enumerate(points) if point not in points[:i]][:12]
    twins = np.tile(places, 3)
    in_flight = []
    for seed in range(3):
        batch = query(random_state=seed, sampler="softmax").select(model, X_POOL[twins], 4, pending=in_flight)
        in_flight = [*in_flight, *batch.tolist()]
    assert sorted(twins[in_flight]) == sorted(places)


QUERIES = {
    "power sampling": lambda: StochasticBatchQuery("bald", beta=1.0, random_state=0),
    "power sampling that keeps apart": lambda: StochasticBatchQuery("bald", beta=1.0, diversity=1, random_state=0),
    "top k": lambda: StochasticBatchQuery("bald", sampler="topk", random_state=0),
    "BADGE": lambda: BADGEQuery(random_state=0),
    "BatchBALD": lambda: BatchBALDQuery(random_state=0),
    "ACS-FW": lambda: ACSFWQuery(random_state=0),
    "k-center": lambda: KCenterQuery(random_state=0),
}


@pytest.mark.filterwarnings("ignore:.* of the .* rows:UserWarning")
@pytest.mark.parametrize("name", QUERIES)
def test_no_query_chooses_rows_in_flight(name, models):
    pending = np.arange(N) % 5 != 0
    batch = QUERIES[name]().select(models("dropout net"), X_POOL, 6, pending=pending)
    assert sorted(batch.tolist()) == [0, 5, 10, 15, 20, 25]


def test_causal_bald_does_not_choose_rows_in_flight():
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.normal(size=60), rng.integers(2, size=60)])
    forest = RandomForestRegressor(5, random_state=0).fit(X[:30], X[:30].sum(axis=1))
    pending = np.arange(30) % 5 != 0
    ours = CausalBALDQuery(treatment=1, random_state=0)
    given = {"X_training": X[:30], "y_training": X[:30].sum(axis=1)}
    batch = ours.select(forest, X[30:], 3, pending=pending, **given)
    assert set(batch.tolist()) <= {0, 5, 10, 15, 20, 25}


@pytest.mark.parametrize("name", QUERIES)
def test_a_pool_that_is_all_in_flight_is_refused(name, models):
    with pytest.raises(ValueError, match="Cannot choose `n_instances`=1 rows from 0 candidates"):
        QUERIES[name]().select(models("dropout net"), X_POOL, 1, pending=np.ones(N, dtype=bool))


@pytest.mark.parametrize("name", QUERIES)
def test_a_batch_larger_than_what_is_not_in_flight_is_refused(name, models):
    with pytest.raises(ValueError, match=r"`n_instances` must be .*, 4\. Got 5"):
        QUERIES[name]().select(models("dropout net"), X_POOL, 5, pending=np.arange(4, N))


@pytest.mark.parametrize(
    "pending",
    [np.ones(N - 1, dtype=bool), [-1], [N], [0.5], "abc", [[1]], pd.Index([1]), np.ma.masked_array([1, 2], [0, 1])],
)
def test_rows_in_flight_that_are_neither_positions_nor_a_mask_are_refused_by_name(pending, models):
    with pytest.raises((ValueError, TypeError), match=r"^`pending`"):
        query().select(models("forest"), X_POOL, 2, pending=pending)


def test_an_unfitted_model_gets_a_uniform_batch_without_the_rows_in_flight():
    pending = np.arange(N) % 5 != 0
    with pytest.warns(UserWarning, match="not fitted"):
        batch = query().select(RandomForestClassifier(), X_POOL, 6, pending=pending)
    assert sorted(batch.tolist()) == [0, 5, 10, 15, 20, 25]


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
    counts = Counter(tuple(ours.select(model, rows, 2, pending=[4, 1]).tolist()) for _ in range(250))
    reference.assert_counts_fit(counts, law, 250)


def test_badge_takes_twins_of_rows_in_flight_last():
    rows = X_POOL[[0, 1, 2, 0, 1, 3]].astype(float)
    model = LogisticRegression().fit(X_TRAIN.astype(float), LABELS)
    for seed in range(5):
        batch = BADGEQuery(random_state=seed).select(model, rows, 2, pending=[0, 1])
        assert sorted(batch.tolist()) == [2, 5]
    with pytest.warns(UserWarning, match="BADGE found 2 of the 3 rows"):
        BADGEQuery(random_state=0).select(model, rows, 3, pending=[0, 1])


@pytest.mark.parametrize("knows_training", [False, True])
def test_k_center_keeps_apart_from_rows_in_flight(knows_training, models):
    rows, pending = X_POOL.astype(float), [3, 17]
    given = {"X_training": X_TRAIN.astype(float), "y_training": Y_TRAIN} if knows_training else {}
    ours = KCenterQuery(random_state=0)
    batch = ours.select(models("linear regression"), rows, 5, pending=pending, **given)
    chosen = [*rows[pending], *(X_TRAIN.astype(float) if knows_training else ())]
    left = [i for i in range(N) if i not in pending]
    for pick in batch.tolist():
        far = {i: min(np.linalg.norm(rows[i] - other) for other in chosen) for i in left}
        assert far[pick] == max(far.values())
        left.remove(pick)
        chosen.append(rows[pick])


# -------------------------------------------------------------------------------------------------------------- modAL


def test_a_learner_of_modal_gives_diversity_and_rows_in_flight_to_a_single_call():
    strategy = StochasticBatchQuery("entropy", beta=1.0, random_state=0)
    learner = ActiveLearner(RandomForestClassifier(8, max_depth=3, random_state=0), strategy, X_TRAIN, LABELS)
    mask = np.isin(np.arange(N), [3, 14, 22])
    batch, rows = learner.query(X_POOL, n_instances=4, diversity=2, pending=mask)
    np.testing.assert_array_equal(rows, X_POOL[batch])
    assert not mask[batch].any()
    assert strategy.diversity == 0
    leaves = np.stack([tree.apply(X_POOL) for tree in learner.estimator.estimators_], axis=1).tolist()
    left = np.flatnonzero(~mask).tolist()
    rule = reference.Repulsion(
        strategy.scores_[left],
        [leaves[i] for i in left],
        1,
        2,
        pending=[leaves[i] for i in (3, 14, 22)],
        distance=reference.leaf_distance,
    )
    expected = rule.log_proba([left.index(i) for i in batch.tolist()])
    np.testing.assert_allclose(strategy.log_proba_, expected, rtol=0, atol=1e-9)
    learner.teach(X_POOL[batch], LABELS[batch])
    second, _ = learner.query(X_POOL, n_instances=4, pending=[*batch, 3, 14, 22], diversity=2)
    assert not set(second.tolist()) & {*batch.tolist(), 3, 14, 22}


def test_a_learner_without_data_gets_a_uniform_batch_apart_from_nothing():
    learner = ActiveLearner(RandomForestClassifier(), query())
    with pytest.warns(UserWarning, match="not fitted"):
        batch, _ = learner.query(X_POOL, n_instances=5, diversity=2, pending=[1, 2])
    assert not set(batch.tolist()) & {1, 2}


def test_a_query_can_be_cloned_and_set(models):
    ours = query(diversity=2, space=halved)
    assert {"diversity": 2, "space": halved}.items() <= ours.get_params().items()
    expected = ours.select(models("forest"), X_POOL, 6)
    np.testing.assert_array_equal(clone(ours).select(models("forest"), X_POOL, 6), expected)
    other = clone(ours).set_params(diversity=0, space="auto")
    assert {"diversity": 0, "space": "auto"}.items() <= other.get_params().items()
    assert StochasticBatchQuery("bald", beta=1.0).get_params()["diversity"] == 0
    assert StochasticBatchQuery("bald", beta=1.0).get_params()["space"] == "auto"


SAVED = [
    (kind, space) for kind in ("forest", "scaled logistic regression", "dropout net") for space in ("auto", "gradients")
]
SAVED += [("linear regression", "auto"), ("forest", halved), ("calibrated", "auto"), ("gaussian process", "auto")]


@pytest.mark.parametrize(("kind", "space"), SAVED)
def test_a_query_can_be_saved_with_the_law_of_its_last_batch(kind, space, models):
    ours = query(score=by_first_column, diversity=2, space=space)
    ours.select(models(kind), X_POOL, 5, pending=[3])
    restored = pickle.loads(pickle.dumps(ours))
    np.testing.assert_array_equal(restored.log_proba_, ours.log_proba_)
    assert n_unreachable(restored) == n_unreachable(ours)
    np.testing.assert_array_equal(restored.select(models(kind), X_POOL, 5), ours.select(models(kind), X_POOL, 5))


def test_the_same_seed_gives_the_same_batch_and_global_state_is_untouched(models, global_state_untouched):
    for kind in ("forest", "dropout net", "gaussian process"):
        first, again = (query(score="bald").select(models(kind), X_POOL, 6) for _ in range(2))
        np.testing.assert_array_equal(first, again)


# ---------------------------------------------------------------------------------------------------------- bad input


def with_a_gap(X):
    X = np.array(X, dtype=float)
    X[X[:, 0] == X_POOL[7, 0], 1] = np.nan
    return X


def with_infinity(X):
    return np.where(np.isnan(with_a_gap(X)), np.inf, X)


BAD_SPACES = {
    "fewer rows": lambda X: X[:1],
    "more rows": lambda X: np.concatenate([X, X]),
    "one axis": lambda X: X[:, 0],
    "three axes": lambda X: X[:, :, None],
    "one number": lambda X: 3.0,
    "no columns": lambda X: X[:, :0],
    "text": lambda X: np.full((len(X), 2), "a"),
    "nothing": lambda X: None,
    "complex numbers": lambda X: X + 1j,
    "a gap": with_a_gap,
    "infinity": with_infinity,
    "columns that depend on the chunk": lambda X: X[:, : max(1, 5 - len(X))],
    "columns of the chunk": lambda X: np.eye(len(X)),
}


@pytest.mark.parametrize("kind", ["forest", "dropout net"])
@pytest.mark.parametrize("space", BAD_SPACES.values(), ids=BAD_SPACES)
def test_a_space_that_gives_no_number_for_each_row_and_column_is_refused_by_name(space, kind, models):
    with pytest.raises((ValueError, TypeError), match="`space`"):
        query(space=space).select(models(kind), X_POOL, 3)


@pytest.mark.parametrize("space", [with_a_gap, with_infinity])
def test_a_space_that_is_not_finite_is_refused_with_the_row(space, models):
    with pytest.raises(ValueError, match=r"`space` must return finite numbers.*\brow 7\b"):
        query(space=space).select(models("forest"), X_POOL, 3)


def test_a_space_that_is_not_finite_is_refused_with_the_row_of_the_pool(models):
    with pytest.raises(ValueError, match=r"`space` must return finite numbers.*\brow 7\b"):
        query(space=with_a_gap).select(models("forest"), X_POOL, 3, candidates=np.arange(5, 20))


def test_rows_with_gaps_of_a_model_that_takes_them_are_refused_with_the_way_out():
    # Its space would be its features: the posterior gives one prediction, and it is neither a net nor made of trees.
    class Careless(GaussianNB):
        def predict_proba(self, X):
            return super().predict_proba(np.nan_to_num(X))

    model = Careless().fit(X_TRAIN, LABELS)
    gaps = X_POOL.copy()
    gaps[7, 1] = np.nan
    with pytest.raises(ValueError, match=r"finite.*\brow 7\b.*function of the rows.*`space`"):
        query().select(model, gaps, 3)
    assert len(query(space=np.nan_to_num).select(model, gaps, 3)) == 3


@pytest.mark.parametrize("space", ["leaves", None, 3, "Auto", b"auto"])
def test_a_space_that_is_neither_a_name_nor_a_function_is_refused(space, models):
    for diversity in (0, 1):
        with pytest.raises((ValueError, TypeError), match=r"^`space` must be a callable or one of \['auto'"):
            query(space=space, diversity=diversity).select(models("forest"), X_POOL, 2)


@pytest.mark.parametrize("diversity", [-1, -1e-9, math.nan, math.inf, "auto", None, True, [1.0]])
def test_a_diversity_that_is_no_number_from_0_on_is_refused(diversity, models):
    with pytest.raises((ValueError, TypeError), match=r"^`diversity` must be a number from 0 .* to 100\. Got"):
        query(diversity=diversity).select(models("forest"), X_POOL, 2)
    learner = ActiveLearner(RandomForestClassifier(3), StochasticBatchQuery("bald", beta=1.0), X_TRAIN, LABELS)
    with pytest.raises((ValueError, TypeError), match=r"^`diversity` must be a number from 0 .* to 100\. Got"):
        learner.query(X_POOL, diversity=diversity)


def test_top_k_leaves_distances_nothing_to_choose(models):
    for model in (models("forest"), RandomForestClassifier()):  # before any label is asked for
        with pytest.raises((ValueError, TypeError), match=r'^`diversity` above 0 needs .*Got `sampler`="topk"'):
            query(sampler="topk").select(model, X_POOL, 2)
    assert len(query(sampler="topk", diversity=0).select(models("forest"), X_POOL, 2)) == 2


def test_a_sampler_of_the_users_needs_log_weights_to_keep_apart(models):
    with pytest.raises(ValueError, match=r"`diversity` above 0 needs a sampler whose law is known.*'first_rows'"):
        query(sampler=first_rows).select(models("forest"), X_POOL, 2)


@pytest.mark.parametrize("kind", ["regressor forest", "linear regression", "hist gradient boosting of numbers"])
def test_a_regressor_has_no_gradients(kind, models):
    ours = query(score=by_first_column, space="gradients")
    with pytest.raises((ValueError, TypeError), match=r'must be a classifier for space="gradients".* a regressor'):
        ours.select(models(kind), X_POOL, 2)


def test_negative_scores_are_refused_with_the_row_of_the_pool():
    values = np.full(15, 0.5)
    values[11] = -0.25
    model, X, score = echo(values)
    with pytest.raises(ValueError, match=r"Got -0\.25 in row 11\b"):
        query(score=score).select(model, X, 3, candidates=np.arange(5, 15))


def test_rows_of_a_tuple_are_rows(models):
    pool = tuple(map(tuple, X_POOL.tolist()))
    model = LogisticRegression(max_iter=500).fit(X_POOL, np.arange(N) % 2)
    batches = [
        StochasticBatchQuery("margin", beta=1.0, diversity=1, random_state=0).select(model, X, 5)
        for X in (pool, X_POOL)
    ]
    np.testing.assert_array_equal(*batches)


@pytest.mark.parametrize("name", ["pending", "candidates"])
def test_a_mask_of_whole_numbers_is_refused(name, models):
    mask = (np.arange(N) < N - 5).astype(int)
    with pytest.raises(TypeError, match=rf"`{name}` must be a mask of booleans.*astype\(bool\)"):
        query().select(models("forest"), X_POOL, 2, **{name: mask})


def test_a_pickled_query_holds_the_probabilities_of_its_batch_and_no_points(models):
    pool = np.tile(X_POOL, (60, 1)) + np.random.default_rng(0).normal(size=(60 * N, X_POOL.shape[1])).astype(np.float32)
    asked = query(random_state=0, epsilon=0.1)
    asked.select(models("scaled logistic regression"), pool, 10)
    text = pickle.dumps(asked)
    assert len(text) < 3 * 8 * len(pool) + 5_000  # scores, and weights of the first pick
    np.testing.assert_allclose(pickle.loads(text).log_proba_, asked.log_proba_, rtol=1e-12)
    np.testing.assert_allclose(first_law(pickle.loads(text)), first_law(asked), rtol=1e-12)
