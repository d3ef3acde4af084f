"""One loop and one form of results: studies of many tables declare parts, of arms, tables, models and measures.

A cell is a trial of one table and one model. In it all arms have the same split, seeds and, unless they choose them,
first labels. Cells are kept in OUT/rounds, which must be empty after a change of the code: a study that was stopped
goes on where it was. Findings are, by part, measure, model, table and arm, a value for each trial: larger is better.

``python examples/paper/benchmark.py --quick --data FOLDER`` runs these studies, one after the other.
"""

from __future__ import annotations

import subprocess
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import many_tables
import numpy as np
import page
import study
from joblib import Memory, Parallel, delayed
from scipy.stats import ttest_1samp
from sklearn.dummy import DummyClassifier
from sklearn.metrics import accuracy_score, recall_score
from sklearn.pipeline import make_pipeline

from skactive import _modal as modal
from skactive._utils.devices import one_thread
from skactive._utils.randomness import check_random_state, seeded, seeded_clone
from skactive._utils.statistics import Estimate, estimate, holm
from skactive.experiment import _run as plan

STUDIES = ("which_query", "tabular", "many_trials", "probabilities", "cold_start", "model_choice")
MINUTES = {"smallest": 1, "quick": 22, "full": 360}
"""What all studies take on two cores."""
SECONDS = {"forest": 0.2, "logistic": 0.1, "net": 0.3, "gaussian process": 0.1}
"""Of a fit, a query and its scores, with a model."""
ENTROPY = check_random_state(0).integers(2**32, size=4).tolist()  # that of `run_experiment` with random_state=0


@dataclass(frozen=True)
class Arm:
    """What buys labels, and whether refits have weights of one over the probability of a pick.

    A function ``first(points, k, rng)`` chooses the first labels; else they are random, and each class has its share.
    """

    query: Any
    first: Any = None
    is_weighted: bool = False


def accuracy(model: Any, X: Any, y: Any) -> float:
    return float(accuracy_score(y, model.predict(X)))


def balanced(model: Any, X: Any, y: Any) -> float:
    # balanced_accuracy_score warns of predicted classes that no test row is of
    return float(recall_score(y, model.predict(X), labels=np.unique(y), average="macro"))


def log_likelihood(model: Any, X: Any, y: Any) -> float:
    """Mean log of the probability of the right class, in nats; 0.001 at least, also of a class that no label is of."""
    p = np.asarray(model.predict_proba(X))
    columns = np.searchsorted(model.classes_, y).clip(max=p.shape[1] - 1)
    right = np.where(model.classes_[columns] == y, p[np.arange(len(p)), columns], 0.0)
    return float(np.log(right.clip(1e-3)).mean())


OF_CLASSES = {"accuracy": accuracy, "balanced accuracy": balanced, "log-likelihood": log_likelihood}


@dataclass(frozen=True)
class Part:
    """Arms on tables with models; ``model`` makes one of this name for the rows of a pool."""

    arms: Mapping[str, Arm]
    tables: Sequence[str]
    models: Sequence[str]
    model: Callable[[str, Any], Any]
    n_trials: int
    sizes: tuple[int, ...]
    """First labels, labels of a batch, and batches."""
    measures: Mapping[str, Callable[..., float]]
    rows: Callable[[str, study.Places], tuple[Any, np.ndarray]] = many_tables.rows
    halved_below: int = 0
    """Tables of fewer rows have half as many first labels, and a batch."""
    splits: Callable[[int], Any] | None = None
    """Rows to buy and rows to test on, of so many trials; random thirds if None."""


# The loop


def cell(places: study.Places, part: Part, name: str, table: str, number: int) -> dict[str, dict[str, list[float]]]:
    """By measure and arm, the score after the first labels and after each batch."""
    X, y = part.rows(table, places)
    with one_thread():
        runs = {arm: list(scores_of(part, like, name, X, y, number)) for arm, like in part.arms.items()}
    return {m: {arm: [scores[m] for scores in run] for arm, run in runs.items()} for m in part.measures}


def scores_of(part: Part, arm: Arm, name: str, X: Any, y: np.ndarray, number: int) -> Iterator[dict[str, float]]:
    """Scores on the test rows after the first labels, and after each batch."""
    trial, n_first, batch = planned(part, y, number)
    model, test = part.model(name, X.iloc[trial.train]), (X.iloc[trial.test], y[trial.test])
    labelled = trial.initial
    if arm.first is not None:
        labelled = trial.train[by_columns(arm, model, X.iloc[trial.train], n_first, number)]
    weights, n_rounds = np.ones(len(labelled)), (len(trial.train) - len(labelled)) // batch - 1
    learner: Any = None
    for i in range(min(part.sizes[2], n_rounds) + 1):
        if i:
            left = np.setdiff1d(trial.train, labelled)
            picks, of_picks = bought(arm, learner, X.iloc[left], batch, plan.seed(ENTROPY, plan.QUERY, number, i))
            labelled, weights = np.append(labelled, left[picks]), np.append(weights, of_picks)
        learner = fitted(model, X.iloc[labelled], y[labelled], weights, plan.seed(ENTROPY, plan.MODEL, number, i))
        yield {measure: of(learner.estimator, *test) for measure, of in part.measures.items()}


def planned(part: Part, y: np.ndarray, number: int) -> tuple[plan.Trial, int, int]:
    """Split and first labels of a trial, how many an arm may choose at first, and how many in a batch."""
    share = 2 if len(y) < part.halved_below else 1
    n_first, batch = (n // share for n in part.sizes[:2])
    strata = y if y.dtype.kind == "U" else None  # texts are classes
    n_initial = n_first if strata is None else max(n_first, len(np.unique(y)))
    of_test = {"test_size": 1 / 3} if part.splits is None else {"splits": part.splits(number + 1)}
    trials = plan.plan_trials(len(y), strata, ENTROPY, number + 1, batch, n_initial=n_initial, **of_test)
    return trials[number], n_first, batch


def by_columns(arm: Arm, model: Any, X: Any, k: int, seed: int) -> np.ndarray:
    """Rows that the arm chooses without asking the model."""
    return np.asarray(arm.first(model[0].transform(X), k, np.random.default_rng(seed)))


def bought(arm: Arm, learner: Any, X: Any, k: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Positions of a batch, and weights of these rows in refits.

    Where all labels are of one class there is no model to ask: rows are chosen as the first ones were.
    """
    if arm.first is not None and len(learner.estimator.classes_) < 2:
        return by_columns(arm, learner.estimator, X, k, seed), np.ones(k)
    query = arm.query
    if hasattr(query, "get_params"):
        query = seeded_clone(query, np.random.default_rng(seed)).set_params(random_state=seed)
    with seeded(seed):
        picks = getattr(query, "select", query)(learner, X, n_instances=k)
    # At most 5: a few rows must not be the whole fit.
    weights = np.exp(-query.log_proba_) / (len(X) - np.arange(k)) if arm.is_weighted else np.ones(k)
    return picks, weights.clip(max=5)


def fitted(model: Any, X: Any, y: np.ndarray, weights: np.ndarray, seed: int) -> Any:
    """A learner of these rows; of a single class, one that names it."""
    make = seeded_clone(model, np.random.default_rng(seed))
    if len(np.unique(y)) < 2:
        make = make_pipeline(*(step for _, step in make.steps[:-1]), DummyClassifier())
    weighted = {} if (weights == 1).all() else {f"{make.steps[-1][0]}__sample_weight": weights / weights.mean()}
    with seeded(seed):
        return modal.fitted_learner(make, X, y, **weighted)


def run(parts: Mapping[str, Part], places: study.Places, read: Callable[[list[float]], float]) -> dict[str, Any]:
    """Findings of all parts; ``read`` makes a number of the scores of a run."""
    cells = [(p, *of) for p, part in parts.items() for of in product(part.models, part.tables, range(part.n_trials))]
    seconds = [len(parts[p].arms) * (parts[p].sizes[2] + 1) * SECONDS[model] for p, model, *_ in cells]
    kept = each(places, cell, [(parts[p], *of) for p, *of in cells], sum(seconds) / max(1, len(cells)))
    found = nested()
    for (p, model, table, _), scores in zip(cells, kept, strict=True):
        add(found[p], model, table, {m: {arm: read(run) for arm, run in of.items()} for m, of in scores.items()})
    return found


def add(found: dict[str, Any], model: str, table: str, scores: Mapping[str, Mapping[str, float]]) -> None:
    """One more trial to the findings of a part."""
    for measure, of_arms in scores.items():
        for arm, value in of_arms.items():
            found[measure][model][table].setdefault(arm, []).append(value)


def nested() -> dict[str, Any]:
    """A dict whose missing values are such dicts."""
    return defaultdict(nested)


def over_acquisitions(scores: list[float]) -> float:
    """The mean, the first labels left out."""
    return float(np.mean(scores[1:]))


def each(
    places: study.Places, function: Callable[..., Any], calls: Sequence[tuple[Any, ...]], seconds: float
) -> list[Any]:
    """What the function gives for each call, in this order; from OUT/rounds where it has been asked before.

    ``seconds`` are those of a call on one core, on the mean.
    """
    kept = Memory(places.rounds, verbose=0).cache(function, ignore=["places"])
    n_left = sum(not kept.check_call_in_cache(places, *call) for call in calls)
    minutes = n_left * seconds / 60 / places.jobs
    print(f"{n_left} of {len(calls)} cells are to be run: about {minutes:.0f} minutes", flush=True)
    return list(Parallel(places.jobs)(delayed(kept)(places, *call) for call in calls))


# What is read from the findings: of a part and a measure, by model, table and arm, a value for each trial


def over_models(of_models: Mapping[str, Any], arm: str) -> list[float]:
    """Mean over models and trials of each table."""
    by_model = [[float(np.mean(values[arm])) for values in found.values()] for found in of_models.values()]
    return [float(value) for value in np.mean(by_model, axis=0)]


def minus(of_models: Mapping[str, Any], arm: str, reference: str) -> Estimate:
    """Mean difference over tables, in points, with its interval."""
    pairs = zip(over_models(of_models, arm), over_models(of_models, reference), strict=True)
    return estimate(100 * (a - b) for a, b in pairs)


def arms_of(of_models: Mapping[str, Any]) -> list[str]:
    return list(next(iter(next(iter(of_models.values())).values())))


def n_tables_of(of_models: Mapping[str, Any]) -> int:
    return len(next(iter(of_models.values())))


def n_trials_of(of_models: Mapping[str, Any]) -> int:
    return len(next(iter(next(iter(next(iter(of_models.values())).values())).values())))


def signs(pairs: Iterable[Sequence[float]]) -> list[int]:
    """1 or -1 of differences that are told by a t-test over trials, after Holm over all of these, else 0."""
    pairs = [np.asarray(d) for d in pairs]
    by_t = [float(ttest_1samp(d, 0).pvalue) if len(d) > 1 and np.ptp(d) > 0 else np.nan for d in pairs]
    return [int(np.sign(d.mean())) * (p < 0.05) for d, p in zip(pairs, holm(by_t), strict=True)]


def as_list(header: Sequence[str], lines: Sequence[Sequence[str]], caption: str = "") -> str:
    """A table for a page of the guide."""
    return "\n".join(page.table(caption, header, lines)).strip()


def main(arguments: list[str]) -> int:
    """Run the studies with these options; how many failed."""
    size = study.parse("benchmark", "Studies of many tables", arguments).size
    print(f"{', '.join(STUDIES)}: about {MINUTES[size]} minutes on two cores", flush=True)
    folder = Path(__file__).parent
    commands = [[sys.executable, str(folder / f"{name}.py"), *arguments] for name in STUDIES]
    return sum(subprocess.run(command, check=False).returncode != 0 for command in commands)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
