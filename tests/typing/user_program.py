"""A program of a user, as a type checker and Python see it: `mypy --strict` has nothing to say, and it runs."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from modAL.models import ActiveLearner
from numpy.typing import NDArray
from sklearn.datasets import load_iris
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression

import skactive
from skactive import Campaign, ExperimentResult, Limits, StochasticBatchQuery, StoppingReport, run_experiment
from skactive.campaign import Told
from skactive.query import score_pool
from skactive.risk import ActiveTester, RiskEstimate
from skactive.samplers import SAMPLERS, power
from skactive.scores import bald, epig

Floats = NDArray[np.float64]
Rows = NDArray[np.int64]


def disagreement(draws: NDArray[np.floating]) -> Floats:
    """A score of one's own."""
    return np.asarray(np.asarray(draws).var(axis=0).sum(axis=-1), dtype=np.float64)


def every_other(scores: Floats, k: int, rng: np.random.Generator, *, beta: float = 1.0) -> Rows:
    """A sampler of one's own."""
    return np.argsort(-scores)[::2][:k].astype(np.int64)


def scores_of_arrays_and_tensors(rng: np.random.Generator) -> None:
    draws = rng.dirichlet([1.0, 1.0, 1.0], (5, 20))
    of_lists: Floats = bald([[[1.0, 0.0]], [[0.0, 1.0]]])
    of_tensor: torch.Tensor = bald(torch.from_numpy(draws))
    of_targets: torch.Tensor = epig(torch.from_numpy(draws), target_draws=draws[:, :4])
    rows: Rows = power(of_tensor, 3, rng, beta=4)
    law: Floats = SAMPLERS["softrank"].log_weights(bald(draws), 2.0)
    assert (len(of_lists), len(of_targets.clone()), len(rows), len(law)) == (1, 20, 3, 20)


def queries() -> list[skactive.query.BatchQuery]:
    return [
        StochasticBatchQuery(disagreement, "power", beta=2, posterior="bootstrap", random_state=0),
        StochasticBatchQuery("entropy", every_other, posterior=RandomForestClassifier(10), random_state=0),
        StochasticBatchQuery("bald", power, diversity=1.0, space="embeddings", random_state=0),
        skactive.BADGEQuery("auto", random_state=0),
    ]


def loop(X: Floats, y: Rows) -> StoppingReport:
    """The loop of modAL, with a report."""
    query = StochasticBatchQuery("entropy", sampler="softmax", beta=8, random_state=0)
    learner: Any = ActiveLearner(RandomForestClassifier(random_state=0), query, X[::10], y[::10])
    rows, X_batch = learner.query(X, n_instances=4)
    learner.teach(X_batch, y[rows])
    batch: Rows = query.select(learner, X, n_instances=3, limits=Limits(groups=np.arange(len(X)) // 5, max_per_group=1))
    scores: Floats = query.scores_
    assert (len(scores), len(batch)) == (len(X), 3)
    return StoppingReport.from_learner(learner, X, None, scoring="accuracy")


def experiment(X: Floats, y: Rows) -> ExperimentResult:
    return run_experiment(
        LogisticRegression(max_iter=1000), {"badge": skactive.BADGEQuery(random_state=0)}, X, y,
        n_initial=6, n_rounds=2, batch_size=3, n_trials=2, scoring=["accuracy", "neg_log_loss"],
    )  # fmt: skip


def campaign(folder: Path, X: Floats, y: Rows) -> Told:
    frame = pd.DataFrame(X, columns=["a", "b", "c", "d"])
    frame["species"] = None
    begun = Campaign.start(
        folder / "iris.db", frame, target="species", model="logistic", task="classification", first="uniform",
        rule="majority", random_state=0,
    )  # fmt: skip
    batch = begun.ask(5, limits=Limits(costs=np.ones(len(X)), budget=4.0))
    told: Told = begun.tell({row: str(y[row]) for row in batch.index})
    status = Campaign.open(str(folder / "iris.db"), frame, changes="take").status()
    assert status.n_labels == told.n_labels
    return told


def rest(X: Floats, y: Rows) -> RiskEstimate:
    forest = RandomForestClassifier(20, random_state=0).fit(X[::5], y[::5])
    columns: dict[str, Floats] = score_pool(forest, X, ["bald", disagreement])
    assert list(columns) == ["bald", "disagreement"]
    tester = ActiveTester(StochasticBatchQuery("entropy", epsilon=0.5, random_state=0), X)
    tester.tell(y[tester.ask(forest, 10)])
    low, high = tester.risk(forest, "brier").interval(0.9, side="both")
    assert low <= high
    return tester.accuracy(forest)


def heads_and_nets(X: Floats, y: Rows) -> None:
    net = skactive.MCDropoutClassifier((8,), activation="gelu", optimizer="sgd", output="logits", max_epochs=2)
    proba: Floats = skactive.LastLayerClassifier(net, prior_precision="scale").fit(X, y).predict_proba(X)
    assert len(proba) == 150


def main() -> None:
    rng = np.random.default_rng(0)
    X, y = load_iris(return_X_y=True)
    forest = RandomForestClassifier(20, random_state=0).fit(X[::10], y[::10])
    scores_of_arrays_and_tensors(rng)
    for query in queries():
        assert len(query.select(forest, X, 3, X_training=X[::10], y_training=y[::10])) == 3
    print(loop(X, y).verdict, experiment(X, y).summary(), rest(X, y).value)
    with tempfile.TemporaryDirectory() as folder:
        print(campaign(Path(folder), X, y))
    heads_and_nets(X, y)
