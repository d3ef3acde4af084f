"""The first labels: rows at random or typical ones, where there is no model to ask.

Twenty labels are chosen by the preprocessed columns alone, then thirty more are bought in batches of ten from the
margin. All ways share splits and seeds. Where all labels are of one class there is still no model: that class is
predicted, and the next batch is chosen as the first one was, as a campaign does.

What becomes the default was decided before the study was run. A way takes the place of "uniform" if its accuracy
after the first labels, mean over models, is better with p < 0.05 after Holm's correction for two ways (random effects
over tables), and none of its other numbers of that kind (balanced accuracy, and both after all labels) is worse by an
interval without 0. The second way, rows that lie apart (k-means++), did not pass, and was dropped.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import benchmark
import numpy as np
import study
from benchmark import Arm, Part
from many_tables import TABLES
from page import random_effects
from scipy import stats
from sklearn.frozen import FrozenEstimator

from skactive._utils.statistics import Estimate, estimate
from skactive.campaign._columns import readings_of
from skactive.campaign._first_batch import FIRST, typical_rows
from skactive.campaign._models import fitted_preprocessing, named_model
from skactive.plotting import _drawing as drawing

TITLE = "The first labels"
ALT = (
    "Four dot plots of accuracy minus uniform's on 29 tables, with 20 and 50 labels: typical rows gain most on "
    "tables of many classes, such as digits and soybean, and the mean over all tables is above 0."
)

SIZES: dict[str, dict[str, Any]] = {
    "smallest": {"n_trials": 2, "tables": ["breast_cancer", "wine", "digits"], "models": ["logistic"]},
    "quick": {"n_trials": 5, "tables": ["breast_cancer", "wine", "digits"], "models": ["forest", "logistic"]},
    "full": {"n_trials": 20, "tables": TABLES, "models": ["forest", "logistic"]},
}
N_FIRST, BATCH_SIZE, N_ROUNDS = 20, 10, 3
WAY, DROPPED = "typical", "kmeans++"
NUMBERS = [(f"{n} labels", score) for n in (N_FIRST, 50) for score in ("accuracy", "balanced accuracy")]


def random_rows(points: np.ndarray, k: int, rng: np.random.Generator) -> np.ndarray:
    return rng.permutation(len(points))[:k]


def campaign_model(name: str, X: Any) -> Any:
    """Columns are made of all rows of the pool, as in a campaign."""
    return named_model(name, FrozenEstimator(fitted_preprocessing(X, readings_of(X), "plain", 0)), "classes")


def classes_seen(model: Any, _: Any, __: Any) -> int:
    return len(model.classes_)


def classes_there(_: Any, __: Any, y: Any) -> int:
    return len(np.unique(y))


MEASURES = {
    "accuracy": benchmark.accuracy,
    "balanced accuracy": benchmark.balanced,
    "classes": classes_seen,
    "all classes": classes_there,
}


def run(size: Any, places: study.Places) -> dict[str, Any]:
    ways = {"uniform": random_rows, WAY: typical_rows}
    part = Part(
        arms={how: Arm(study.sampled(), first=first) for how, first in ways.items()},
        tables=size.tables,
        models=size.models,
        model=campaign_model,
        n_trials=size.n_trials,
        sizes=(N_FIRST, BATCH_SIZE, N_ROUNDS),
        measures=MEASURES,
    )
    first = benchmark.run({NUMBERS[0][0]: part}, places, lambda scores: scores[0])
    return first | benchmark.run({NUMBERS[-1][0]: part}, places, lambda scores: scores[-1])


def differences(
    findings: Mapping[str, Any], number: tuple[str, str], how: str = WAY, only: str | None = None
) -> dict[str, np.ndarray]:
    """Points of paired trials, by table, of a way minus uniform: mean over models."""
    found = findings[number[0]][number[1]]
    of_models = [of for name, of in found.items() if only in (None, name)]
    return {
        table: 100 * np.mean([np.subtract(of[table][how], of[table]["uniform"]) for of in of_models], axis=0)
        for table in of_models[0]
    }


def counts_of(findings: Mapping[str, Any], measure: str) -> dict[str, dict[str, list[int]]]:
    """Classes by table, way and trial, in the first labels or at all: no matter of the model."""
    return dict(next(iter(findings[NUMBERS[0][0]][measure].values())))


def share_seen(findings: Mapping[str, Any]) -> dict[str, list[float]]:
    """Classes among the first labels, of a hundred, by way of choosing: the mean of each table."""
    seen, there = (counts_of(findings, measure) for measure in ("classes", "all classes"))
    return {how: [100 * float(np.mean(np.divide(seen[t][how], there[t][how]))) for t in seen] for how in FIRST}


def over_tables(by_table: Mapping[str, np.ndarray]) -> tuple[Estimate, float | None]:
    """Mean of random effects with its interval, and the p-value of 0; no error is below a hundredth of a point."""
    means = [float(d.mean()) for d in by_table.values()]
    errors = [max(0.01, float(d.std(ddof=1) / math.sqrt(len(d)))) for d in by_table.values()]
    mean, low, high, _ = random_effects(means, errors)
    freedom = len(means) - 1
    error = (high - low) / 2 / stats.t.ppf(0.975, freedom)
    return Estimate(mean, low, high), float(2 * stats.t.sf(abs(mean) / error, freedom)) if error > 0 else None


def kinds(findings: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Tables of two classes and those of more, where there are two at least: a division made after the study."""
    n_classes = {table: max(of["uniform"]) for table, of in counts_of(findings, "all classes").items()}
    two = [table for table, n in n_classes.items() if n == 2]
    parts = {"two classes": two, "more classes": [table for table in n_classes if table not in two]}
    return {kind: only_tables(findings, names) for kind, names in parts.items() if len(names) > 1}


def only_tables(findings: Mapping[str, Any], names: Sequence[str]) -> dict[str, Any]:
    return {
        part: {m: {model: {t: of[t] for t in names} for model, of in found.items()} for m, found in measures.items()}
        for part, measures in findings.items()
    }


def models_of(findings: Mapping[str, Any]) -> list[str]:
    return list(findings[NUMBERS[0][0]]["accuracy"])


def default(findings: Mapping[str, Any]) -> str:
    """What the rule that was set before the study makes the default: its correction was for two ways."""
    (first, p), *others = (over_tables(differences(findings, number)) for number in NUMBERS)
    better = first.mean > 0 and p is not None and 2 * p < 0.05
    return WAY if better and all(value.high >= 0 for value, _ in others) else "uniform"


def in_words(number: tuple[str, str]) -> str:
    return f"{number[1]}, {number[0]}"


def claims(findings: dict[str, Any]) -> list[study.Claim]:
    seen, models = share_seen(findings), models_of(findings)
    n_trials = benchmark.n_trials_of(findings[NUMBERS[0][0]]["accuracy"])
    of_tables, first = f"{len(seen[WAY])} tables", f"{N_FIRST} first labels"
    setting = f"% of all classes; {of_tables}, {n_trials} trials each; {first}"
    made = [study.better(f"{WAY} sees more classes than uniform", setting, seen, WAY, "uniform", 1)]
    where = {None: f"mean of {' and '.join(models)}"} if len(models) > 1 else {}
    for number in NUMBERS:
        for name, of in (where | {name: name for name in models}).items():
            value, p = over_tables(differences(findings, number, only=name))
            statement, ours = f"{WAY} is better than uniform: {in_words(number)}", _shown(value)
            setting = f"{of_tables}, random effects; {first}, {of}"
            made.append(study.Claim(statement, setting, n_trials, f"{ours} points", study.above(value), p))
    return made


def guide(findings: dict[str, Any]) -> str:
    """The numbers of the page, and what they decide."""
    lines = [[f"{in_words(number)}, points", _cell(findings, number)] for number in NUMBERS]
    lines.append([f"classes seen in {N_FIRST} labels, %", _of_classes(findings)])
    n_trials = benchmark.n_trials_of(findings[NUMBERS[0][0]]["accuracy"])
    single = ", ".join(f"{n_single(findings, how)} with {how}" for how in FIRST)
    n_tables = len(counts_of(findings, "classes"))
    text = (
        f"Means over {n_tables} tables, {n_trials} trials each, and over {' and '.join(models_of(findings))}, with "
        f"95 % intervals (random effects; of classes, tables alike). Of {n_trials * n_tables} first batches those of "
        f"one class only, which make no model, were {single}. The rule set before the study chooses "
        f"**{default(findings)}**. :ref:`Each model and table <cold_start>`."
    )
    if all(DROPPED in of for of in counts_of(findings, "classes").values()):
        by_number = [f"{_cell(findings, number, DROPPED)} ({in_words(number)})" for number in NUMBERS]
        text += f" Tried, and dropped: {DROPPED}, minus uniform {'; '.join(by_number)}."
    afterwards = "; ".join(of_kind(kind, part, n_trials) for kind, part in kinds(findings).items())
    shown = benchmark.as_list(["minus uniform", WAY], lines)
    return "\n\n".join([shown, text, f"Looked at afterwards, which is no test: {afterwards}."])


def of_kind(kind: str, part: Mapping[str, Any], n_trials: int) -> str:
    n_tables = len(counts_of(part, "classes"))
    return (
        f"on the {n_tables} tables of {kind} typical differs from uniform by {_cell(part, NUMBERS[0])} points of "
        f"accuracy after {N_FIRST} labels and by {_cell(part, NUMBERS[2])} after 50, and {n_single(part, WAY)} of its "
        f"{n_trials * n_tables} first batches are of one class only ({n_single(part, 'uniform')} of uniform's)"
    )


def _shown(value: Estimate) -> str:
    return study.with_interval(value, 1, sign=True)


def _cell(findings: Mapping[str, Any], number: tuple[str, str], how: str = WAY) -> str:
    return _shown(over_tables(differences(findings, number, how))[0])


def _of_classes(findings: Mapping[str, Any]) -> str:
    return _shown(study.difference(share_seen(findings), WAY, "uniform"))


def n_single(findings: Mapping[str, Any], how: str) -> int:
    """Trials whose first labels are of one class."""
    return sum(of[how].count(1) for of in counts_of(findings, "classes").values())


def tables(findings: dict[str, Any]) -> list[tuple[str, list[str], list[list[str]]]]:
    """Better, alike and worse by model; and each table."""
    numbers = [in_words(number) for number in NUMBERS]
    by_kind = [
        [kind, str(len(counts_of(part, "classes"))), *(_cell(part, n) for n in NUMBERS), _of_classes(part)]
        for kind, part in kinds(findings).items()
    ]
    told = {
        name: [benchmark.signs(differences(findings, n, only=name).values()) for n in NUMBERS]
        for name in models_of(findings)
    }
    counts = [[name, *(" / ".join(str(of.count(s)) for s in (1, 0, -1)) for of in by)] for name, by in told.items()]
    header = ["table", "classes", *(f"seen, {how}" for how in FIRST)]
    header += ["one class only", f"uniform: {numbers[0]}", f"{WAY} − uniform"]
    caption = f"Each table: {numbers[0]}, mean of the models, points; intervals are over trials"
    return [
        (
            "Looked at afterwards: minus uniform by number of classes, points, random effects",
            ["tables of", "number", *numbers, "classes seen, %"],
            by_kind,
        ),
        ("Tables better / alike / worse than uniform (t-tests, Holm, p < 0.05)", ["model", *numbers], counts),
        (caption, header, of_each_table(findings)),
    ]


def of_each_table(findings: Mapping[str, Any]) -> list[list[str]]:
    there, gains = counts_of(findings, "all classes"), differences(findings, NUMBERS[0])
    levels = benchmark.over_models(findings[NUMBERS[0][0]]["accuracy"], "uniform")
    lines = []
    for (table, seen), level in zip(counts_of(findings, "classes").items(), levels, strict=True):
        single = " / ".join(str(seen[how].count(1)) for how in FIRST)
        means = [f"{np.mean(seen[how]):.1f}" for how in FIRST]
        name, n_classes = table.replace("_", " "), str(max(there[table]["uniform"]))
        lines.append([name, n_classes, *means, single, f"{100 * level:.1f}", _shown(estimate(gains[table]))])
    return lines


def draw(findings: dict[str, Any]) -> Any:
    """Differences to uniform by table, and over tables below; a panel for each number."""
    look, n_tables = drawing.styles(1)[0], len(counts_of(findings, "classes"))
    figure, axes = study.panels(len(NUMBERS), 4, 0.26 * n_tables + 1.4, sharey=True)
    for ax, number in zip(axes.flat, NUMBERS, strict=True):
        by_table = differences(findings, number)
        rows = {name.replace("_", " "): estimate(d) for name, d in by_table.items()}
        looks = {name: {**look, "capsize": 0, "markersize": 3.5, "linewidth": 1} for name in rows}
        rows["all tables"], looks["all tables"] = over_tables(by_table)[0], {**look, "markersize": 5, "linewidth": 2}
        study.draw_intervals(ax, rows, looks, label=WAY)
        ax.axhline(n_tables - 0.5, color="0.6", lw=0.8)
        ax.set(title=in_words(number).replace(", ", ",\n"))
    figure.supxlabel("minus uniform's, points, with 95 % intervals", fontsize="medium")
    study.legend_above(figure, axes[0, 0])
    return figure


if __name__ == "__main__":
    study.main(sys.modules[__name__])
