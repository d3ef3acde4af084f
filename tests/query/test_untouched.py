"""What a query never does: change its pool, its model, or global random state."""

from __future__ import annotations

import joblib
import numpy as np
import pytest
import torch
from modAL.models import ActiveLearner
from sklearn.ensemble import RandomForestClassifier
from sklearn.tree import DecisionTreeClassifier
from small_models import (
    LABELS,
    X_POOL,
    X_TRAIN,
    assert_same_state,
    batch_norm_net,
    contents,
    every_estimator,
    pools,
    state_of,
)
from torch import nn

from skactive import MCDropoutClassifier, StochasticBatchQuery


@pytest.mark.parametrize("container", pools())
@pytest.mark.parametrize("kind", ["forest", "net"])
@pytest.mark.filterwarnings("ignore:X does not have valid feature names:UserWarning")
@pytest.mark.filterwarnings("ignore:X has feature names:UserWarning")
def test_no_query_changes_its_pool(container, kind, estimators):
    if kind == "net" and container.startswith("cs"):
        pytest.skip("nets take dense rows")
    pool = pools()[container]
    before = contents(pool)
    mask = np.arange(30) % 2 == 0
    kept = mask.copy()
    indices = StochasticBatchQuery(sampler="softrank", random_state=0).select(
        estimators[kind], pool, 3, candidates=mask
    )
    assert mask[indices].all()
    np.testing.assert_array_equal(mask, kept)
    for was, is_now in zip(before, contents(pool), strict=True):
        np.testing.assert_array_equal(is_now, was)


@pytest.mark.parametrize("kind", ["forest", "pipeline"])
def test_no_query_changes_its_estimator(kind, estimators):
    before = joblib.hash(estimators[kind])
    StochasticBatchQuery(random_state=0).select(estimators[kind], X_POOL, 3)
    assert joblib.hash(estimators[kind]) == before


def batch_norm_module():
    return nn.Sequential(nn.Linear(4, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Dropout(0.5), nn.Linear(16, 3))


@pytest.mark.parametrize("mode", ["train", "eval", "mixed"])
@pytest.mark.parametrize("score", ["bald", "entropy"])
@pytest.mark.parametrize("kind", ["skorch", "net"])
def test_no_query_changes_a_module(kind, score, mode):
    if kind == "skorch":
        net = batch_norm_net()
        module = net.module_
    else:
        net = MCDropoutClassifier(module=batch_norm_module, max_epochs=2, random_state=0, device="cpu")
        module = net.fit(X_TRAIN, LABELS).net_.module_
    module.train(mode != "eval")
    if mode == "mixed":
        next(part for part in module.modules() if isinstance(part, nn.BatchNorm1d)).eval()
    parameters = list(module.parameters())
    for parameter in parameters:
        parameter.grad = None
    parameters[0].requires_grad_(False)
    parameters[-1].grad = torch.ones_like(parameters[-1])
    before = state_of(module)
    indices = StochasticBatchQuery(score=score, n_draws=5, chunk_size=7, random_state=0).select(net, X_POOL, 3)
    assert len(set(indices.tolist())) == 3
    assert_same_state(module, before)


@pytest.mark.parametrize("kind", ["skorch", "net"])
def test_a_module_is_left_in_its_mode_after_an_error_too(kind, estimators):
    net = estimators[kind]
    module = net.module_ if kind == "skorch" else net.net_.module_
    module.train()
    before = state_of(module)

    def failing(draws):
        raise RuntimeError("the user's own")

    with pytest.raises(RuntimeError, match="the user's own"):
        StochasticBatchQuery(score=failing, n_draws=5).select(net, X_POOL, 3)
    with pytest.raises((ValueError, RuntimeError)):
        StochasticBatchQuery(n_draws=5).select(net, np.zeros((9, 7), dtype=np.float32), 3)
    assert_same_state(module, before)


@every_estimator
@pytest.mark.parametrize("random_state", [None, 0])
@pytest.mark.parametrize("score", ["bald", "entropy"])
@pytest.mark.usefixtures("global_state_untouched")
def test_no_query_consumes_global_random_state(kind, random_state, score, estimators):
    query = StochasticBatchQuery(score=score, n_draws=10, random_state=random_state)
    indices = query.select(estimators[kind], X_POOL, 3)
    assert len(set(indices.tolist())) == 3


@pytest.mark.usefixtures("global_state_untouched")
@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("posterior", ["bootstrap", RandomForestClassifier(5)], ids=["bootstrap", "surrogate"])
def test_refits_consume_no_global_random_state_and_follow_the_seed_of_the_query(posterior):
    # The members' own random_state is None: left alone they would draw from numpy's global generator.
    tree = DecisionTreeClassifier(splitter="random", max_depth=3, random_state=0).fit(X_TRAIN, LABELS)
    tree.set_params(random_state=None)
    scores = []
    for _ in range(2):
        query = StochasticBatchQuery(posterior=posterior, n_draws=5, random_state=0)
        query.select(tree, X_POOL, 3, X_training=X_TRAIN, y_training=LABELS)
        scores.append(query.scores_)
    np.testing.assert_array_equal(*scores)


@pytest.mark.usefixtures("global_state_untouched")
def test_a_cold_start_consumes_no_global_random_state():
    learner = ActiveLearner(RandomForestClassifier(), StochasticBatchQuery())
    with pytest.warns(UserWarning, match=r"(?i)fit"):
        indices, _ = learner.query(X_POOL, n_instances=3)
    assert len(set(indices.tolist())) == 3
