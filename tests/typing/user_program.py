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
from skactive.scores import SCORES, bald, epig, gaussian_bald

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
    of_array: Floats = bald(draws)
    of_lists: Floats = bald([[[1.0, 0.0]], [[0.0, 1.0]]])
    of_tensor: torch.Tensor = bald(torch.from_numpy(draws))
    of_targets: torch.Tensor = epig(torch.from_numpy(draws), target_draws=draws[:, :4])
    of_values: Floats = gaussian_bald(draws[:, :, 0], noise_variance=0.5)
    rows: Rows = power(of_tensor, 3, rng, beta=4)
    law: Floats = SAMPLERS["softrank"].log_weights(of_array, 2.0)
    assert of_lists.shape == (1,)
    assert len(law) == len(of_targets.clone()) == len(of_values) == len(SCORES["entropy"](draws)) == 20
    assert len(rows) == 3
    assert of_array.shape == (20,)


def queries() -> dict[str, skactive.query.BatchQuery]:
    return {
        "auto": StochasticBatchQuery(random_state=0),
        "power": StochasticBatchQuery("bald", "power", beta=2, posterior="bootstrap", random_state=0),
        "own score": StochasticBatchQuery(disagreement, posterior=RandomForestClassifier(10), random_state=0),
        "own sampler": StochasticBatchQuery("entropy", every_other, random_state=0),
        "function": StochasticBatchQuery("bald", power, diversity=1.0, space="embeddings", random_state=0),
        "badge": skactive.BADGEQuery("auto", random_state=0),
    }


def loop(X: Floats, y: Rows) -> StoppingReport:
    """The loop of modAL, with a report."""
    query = StochasticBatchQuery("entropy", sampler="softmax", beta=8, random_state=0)
    learner: Any = ActiveLearner(RandomForestClassifier(random_state=0), query, X[::10], y[::10])
    report: StoppingReport | None = None
    for _ in range(2):
        rows, X_batch = learner.query(X, n_instances=4)
        learner.teach(X_batch, y[rows])
        report = StoppingReport.from_learner(learner, X, report, scoring="accuracy", posterior="auto")
        if report.verdict == "stop":
            break
    scores: Floats = query.scores_
    picked: Rows = query.indices_
    batch: Rows = query.select(learner, X, n_instances=3, limits=Limits(groups=np.arange(len(X)) // 5, max_per_group=1))
    assert (len(scores), len(picked), len(batch)) == (len(X), 4, 3)
    assert report is not None
    return report


def experiment(X: Floats, y: Rows) -> ExperimentResult:
    result = run_experiment(
        LogisticRegression(max_iter=1000), {"badge": skactive.BADGEQuery(random_state=0)}, X, y,
        n_initial=6, n_rounds=2, batch_size=3, n_trials=2, scoring=["accuracy", "neg_log_loss"],
    )  # fmt: skip
    names: list[str] = result.score_names
    assert names == ["accuracy", "neg_log_loss"]
    return result


def campaign(folder: Path, X: Floats, y: Rows) -> Told:
    frame = pd.DataFrame(X, columns=["a", "b", "c", "d"])
    frame["species"] = None
    begun = Campaign.start(
        folder / "iris.db", frame, target="species", model="logistic", task="classification", first="uniform",
        rule="majority", random_state=0,
    )  # fmt: skip
    batch = begun.ask(5, limits=Limits(costs=np.ones(len(X)), budget=4.0))
    told: Told = begun.tell({row: str(y[row]) for row in batch.index})
    text: str = "\n".join(Campaign.open(str(folder / "iris.db"), frame, changes="take").status().sentences())
    assert str(told.n_labels) in text
    return told


def rest(X: Floats, y: Rows) -> RiskEstimate:
    """Modules that are not imported by themselves."""
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
    head = skactive.LastLayerClassifier(net, prior_precision="scale")
    proba: Floats = head.fit(X, y).predict_proba(X)
    accuracy: float = net.fit(X, y).score(X, y)
    assert proba.shape == (150, 3)
    assert 0 <= accuracy <= 1


def main() -> None:
    rng = np.random.default_rng(0)
    iris: Any = load_iris()
    X: Floats = iris.data
    y: Rows = iris.target
    forest = RandomForestClassifier(20, random_state=0).fit(X[::10], y[::10])
    scores_of_arrays_and_tensors(rng)
    for query in queries().values():
        assert len(query.select(forest, X, 3, X_training=X[::10], y_training=y[::10])) == 3
    print(loop(X, y).verdict)
    print(experiment(X, y).summary())
    with tempfile.TemporaryDirectory() as folder:
        print(campaign(Path(folder), X, y))
    print(rest(X, y).value)
    heads_and_nets(X, y)


if __name__ == "__main__":
    main()
