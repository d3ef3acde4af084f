"""Automatic batch sizes, against fixed ones: of ten labels, and of as many as make no more rounds.

All have the same trials, models and number of labels in the end, and are compared by their mean over labels, which
favours no size by itself.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import study
import tabular

from skactive import StochasticBatchQuery
from skactive._statistics import mean_over_labels
from skactive.plotting import _drawing as drawing

TITLE = "Automatic batch sizes"
ALT = (
    "Left, a row for each of eight pairs of table and model: mean accuracy of automatic batch sizes minus that of "
    "ten a batch and of equal batches in as many rounds, nearly all intervals across 0. Right: batches of "
    "automatic sizes grow with the number of labels."
)

SIZES: dict[str, dict[str, Any]] = {
    "smallest": {"n_trials": 2, "budget": 40, "tables": ["digits"], "models": ["forest"]},
    "quick": {"n_trials": 3, "budget": 120, "tables": ["digits"], "models": ["forest", "net"]},
    "full": {
        "n_trials": 10,
        "budget": 300,
        "tables": ["digits", "letter", "satellite", "spambase"],
        "models": ["forest", "net"],
    },
}
N_INITIAL, SMALL = 30, 10
POINTS = 31
QUERY = StochasticBatchQuery("bald", beta=1.0, n_draws=tabular.N_DRAWS)
AUTO, TENS, EQUAL = "auto", "10 a batch", "as many rounds"


def run(size: Any, places: study.Places) -> dict[str, Any]:
    found: dict[str, Any] = {"means": {}, "curves": {}, "rounds": {}, "sizes": {}}
    for model_name in size.models:
        for table in size.tables:
            name = f"{table} {model_name}"
            auto = experiment(places, table, model_name, size, "auto")
            n_rounds = sum(r.round > 0 for r in auto.rounds) / size.n_trials
            equal = max(1, round(size.budget / n_rounds))
            results = {
                AUTO: auto,
                TENS: experiment(places, table, model_name, size, SMALL),
                EQUAL: experiment(places, table, model_name, size, equal),
            }
            found["means"][name] = {query: means(result) for query, result in results.items()}
            found["curves"][name] = {query: curve(result) for query, result in results.items()}
            found["rounds"][name] = {
                query: sum(r.round > 0 for r in result.rounds) / size.n_trials for query, result in results.items()
            }
            found["sizes"][name] = [len(r.indices) for r in auto.rounds if r.round and r.trial == 0]
    return found


def experiment(places: study.Places, table: str, model_name: str, size: Any, batch_size: int | str) -> Any:
    X, y = tabular.rows(table, places)
    return places.compare(
        f"batch_auto-{table}-{model_name}-{batch_size}",
        tabular.model(model_name),
        {"power": QUERY},
        X,
        y,
        n_initial=N_INITIAL,
        batch_size=batch_size,
        budget=size.budget,
        n_trials=size.n_trials,
        test_size=1 / 3,
    )


def trials(result: Any) -> list[tuple[list[int], list[float]]]:
    """Numbers of labels and accuracies of each trial."""
    by: dict[int, tuple[list[int], list[float]]] = {}
    for record in result.rounds:
        n_labelled, scores = by.setdefault(record.trial, ([], []))
        n_labelled.append(record.n_labelled)
        scores.append(record.scores["score"])
    return [by[trial] for trial in sorted(by)]


def means(result: Any) -> list[float]:
    return [mean_over_labels(n, scores, n[0], n[-1]) for n, scores in trials(result)]


def curve(result: Any) -> dict[str, list[float]]:
    """Mean accuracy over trials, by straight lines between evaluations."""
    of = trials(result)
    grid = np.linspace(of[0][0][0], of[0][0][-1], POINTS)
    accuracy = np.mean([np.interp(grid, n, scores) for n, scores in of], axis=0)
    return {"labels": grid.tolist(), "accuracy": accuracy.tolist()}


def claims(findings: dict[str, Any]) -> list[study.Claim]:
    found = findings["means"]
    n_trials = len(next(iter(found.values()))[AUTO])
    pooled = {query: [float(np.mean(values[query])) for values in found.values()] for query in (AUTO, TENS, EQUAL)}
    setting = f"{len(found)} pairs of table and model, {n_trials} trials each; mean accuracy over labels"
    return [
        study.alike("Automatic batch sizes are as good as ten per batch", setting, pooled, AUTO, TENS, 0.005),
        fewer_rounds(findings["rounds"], n_trials),
        study.better(
            "Automatic batch sizes are better than equal batches in as many rounds", setting, pooled, AUTO, EQUAL, 4
        ),
    ]


def fewer_rounds(rounds: dict[str, dict[str, float]], n_trials: int) -> study.Claim:
    listed = ", ".join(f"{name} {of[AUTO]:.1f}" for name, of in rounds.items())
    tens = next(iter(rounds.values()))[TENS]
    mean = np.mean([of[AUTO] for of in rounds.values()])
    return study.Claim(
        "Automatic batch sizes need fewer rounds than ten per batch",
        f"{len(rounds)} pairs of table and model, as many labels",
        n_trials,
        f"rounds: {mean:.1f} against {tens:.0f} ({listed})",
        "seen" if max(of[AUTO] for of in rounds.values()) < tens else "not seen",
    )


def draw(findings: dict[str, Any]) -> Any:
    """Differences to fixed sizes, a row for each table and model; and the sizes of the first trial, by labels."""
    figure, ((left, right),) = study.panels(2, 2, 3.8, sharey=True, width_ratios=[1.2, 1])
    for j, (rival, label) in enumerate({TENS: "minus ten a batch", EQUAL: "minus equal sizes, as many rounds"}.items()):
        means = {name.replace("_", " "): values for name, values in findings["means"].items()}
        rows = {name: study.difference(values, AUTO, rival) for name, values in means.items()}
        looks = dict.fromkeys(rows, drawing.styles(2)[j])
        study.draw_intervals(left, rows, looks, unit=100, shift=0.3 * (j - 0.5), label=label)
    left.set(xlabel="mean accuracy of automatic sizes, points,\nwith 95 % intervals")
    for i, (name, sizes) in enumerate(findings["sizes"].items()):
        bought = np.cumsum([findings["curves"][name][AUTO]["labels"][0], *sizes])
        right.plot(bought, np.full(len(bought), i), "|", color=drawing.COLOURS[0], ms=11)
    right.set(xlabel="labels (a mark: a model is fitted;\nfirst trial, automatic sizes)")
    study.legend_above(figure, left)
    return figure


if __name__ == "__main__":
    study.main(sys.modules[__name__])
