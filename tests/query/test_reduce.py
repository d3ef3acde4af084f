"""Batches of rows of several outputs: queries, learners, experiments and tests of models."""

from __future__ import annotations

import numpy as np
import pytest
from modAL.models import ActiveLearner
from sklearn.datasets import make_multilabel_classification
from sklearn.ensemble import RandomForestClassifier
from skorch import NeuralNetClassifier
from small_models import Echo
from torch import nn

from skactive import Limits, MCDropoutClassifier, StochasticBatchQuery, run_experiment
from skactive.query import score_pool
from skactive.risk import ActiveTester

X, LABELS = make_multilabel_classification(120, 6, n_classes=3, random_state=0)
FOREST = RandomForestClassifier(20, random_state=0).fit(X[:40], LABELS[:40])
IMAGES = np.random.default_rng(0).normal(size=(30, 1, 6, 6)).astype(np.float32)
PIXELS = (IMAGES[:, 0] > 0).astype(np.int64)


def segmenter():
    layers = nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(), nn.Dropout2d(0.2), nn.Conv2d(8, 2, 1)
    how = {"criterion": nn.CrossEntropyLoss, "max_epochs": 2, "train_split": None, "verbose": 0}
    return NeuralNetClassifier(nn.Sequential(*layers), **how)


class EchoOfThree(Echo):
    """Three outputs, the first columns."""

    def sample_posterior(self, n_draws, rng):
        def predict_draws(rows):
            p = np.asarray(rows)[:, :3]
            return np.stack([np.stack([1 - p, p], axis=1), np.stack([p, 1 - p], axis=1)])

        predict_draws.mask = lambda rows: np.asarray(rows)[:, 3:] > 0
        return predict_draws


def test_limits_rows_in_flight_and_diversity_work_as_for_scores_made_elsewhere():
    scores = score_pool(FOREST, X, "bald", reduce="max")["bald"]
    how = {"pending": [0, 1, 2], "limits": Limits(groups=np.arange(120) % 2, max_per_group=3)}
    rows = StochasticBatchQuery("bald", reduce="max", diversity=1, random_state=0).select(FOREST, X, 6, **how)
    elsewhere = StochasticBatchQuery(diversity=1, random_state=0)
    assert rows.tolist() == elsewhere.select_scored(scores, 6, estimator=FOREST, X_pool=X, **how).tolist()


def test_a_mask_comes_with_the_draws_or_is_a_function_of_rows():
    pool = np.array([[0.1, 0.5, 0.3, 1, 0, 0], [0.2, 0.5, 0.9, 0, 1, 1]])
    model = EchoOfThree().fit(pool)
    each = score_pool(model, pool, "bald", mask=lambda rows: np.ones((len(rows), 3)), reduce=lambda s: s[:, 0])["bald"]
    found = score_pool(model, pool, "bald", reduce="max")["bald"]
    assert found[0] == each[0]
    assert found[1] == score_pool(model, pool[1:], "bald", mask=lambda rows: [[0, 0, 1]])["bald"]
    with pytest.raises(ValueError, match=r"`mask` must leave one output.* row 1"):
        StochasticBatchQuery("bald", mask=lambda rows: rows[:, :3] < 0.2).select(model, pool, 1)


def test_a_mask_is_an_array_of_the_rows_of_the_pool_for_candidates_and_chunks_of_any_size():
    rows, mask = np.arange(5, 120, 2), np.random.default_rng(0).random((120, 3)) < 0.5
    mask[:, 1] |= ~mask.any(axis=1)
    each = [score_pool(FOREST, X, "bald", reduce=lambda s, j=j: s[:, j])["bald"] for j in range(3)]
    expected = np.where(mask, np.transpose(each), -np.inf).max(axis=1)
    how = {"reduce": "max", "mask": mask, "chunk_size": 7}
    np.testing.assert_array_equal(score_pool(FOREST, X, "bald", **how)["bald"], expected)
    np.testing.assert_array_equal(score_pool(FOREST, X, "bald", candidates=rows, **how)["bald"][rows], expected[rows])
    with pytest.raises(ValueError, match=r"`mask` .* 120 rows of the pool. Got 119"):
        StochasticBatchQuery("bald", mask=mask[1:]).select(FOREST, X, 1)


@pytest.mark.parametrize("kind", ["labels", "pixels"])
def test_a_learner_of_modal_asks_and_is_taught_several_labels_a_row(kind):
    net = MCDropoutClassifier((8,), max_epochs=5, random_state=0) if kind == "labels" else segmenter()
    pool, y = (X.astype(np.float32), LABELS) if kind == "labels" else (IMAGES, PIXELS)
    learner = ActiveLearner(net, StochasticBatchQuery("bald", random_state=0), X_training=pool[:9], y_training=y[:9])
    rows, batch = learner.query(pool[9:], n_instances=4)
    learner.teach(batch, y[9:][rows])
    np.testing.assert_array_equal(learner.y_training, np.concatenate([y[:9], y[9:][rows]]))


def test_an_experiment_takes_labels_of_any_shape_and_a_scorer_that_fits():
    def accuracy(model, rows, y):
        return float((model.predict(rows) == y).mean())

    listed = np.empty(30, dtype=object)
    listed[:] = list(PIXELS)
    queries = {"power": StochasticBatchQuery("bald"), "uniform": StochasticBatchQuery(sampler="uniform")}
    how = {"n_initial": 8, "batch_size": 4, "n_rounds": 1, "n_trials": 1, "random_state": 0, "scoring": accuracy}
    net = segmenter()
    tables = [run_experiment(net, queries, IMAGES, y, **how).to_frame() for y in (PIXELS, listed)]
    assert tables[0]["accuracy"].tolist() == tables[1]["accuracy"].tolist()
    listed[3] = PIXELS[3, :4]
    with pytest.raises(ValueError, match=r"`y` .*\(6, 6\) in row 0, and \(4, 6\) in row 3"):
        run_experiment(segmenter(), queries, IMAGES, listed, **how)


def test_a_tester_takes_a_loss_of_rows_and_no_loss_by_name():
    tester = ActiveTester(StochasticBatchQuery(sampler="uniform", random_state=0), X[40:])
    tester.tell(LABELS[40:][tester.ask(FOREST, 80)])
    found = tester.risk(FOREST, lambda model, rows, y: (model.predict(rows) != y).mean(axis=1), largest_loss=1)
    assert found.value == pytest.approx((FOREST.predict(X[40:]) != LABELS[40:]).mean())
    with pytest.raises(ValueError, match=r"several outputs.*give a function"):
        tester.risk(FOREST, "brier")
