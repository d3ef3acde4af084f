"""The first labels: rows at random or typical ones, where there is no model to ask.

Twenty labels are chosen by the preprocessed columns alone, then thirty more are bought in batches of ten by the default
query. All ways share splits and seeds. Where all labels are of one class there is still no model: that class is
predicted, and the next batch is chosen as the first one was, as a campaign does.

What becomes the default was decided before the study was run. A way takes the place of "uniform" if its accuracy
after the first labels, mean over models, is better with p < 0.05 after Holm's correction for two ways (random effects
over tables), and none of its other numbers of that kind (balanced accuracy, and both after all labels) is worse by an
interval without 0. The second way, rows that lie apart (k-means++), did not pass, and was dropped. Trials are kept in
OUT/rounds.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import study
from many_tables import rows
from page import random_effects
from scipy import stats
from sklearn.dummy import DummyClassifier
from sklearn.metrics import accuracy_score, balanced_accuracy_score
from sklearn.model_selection import train_test_split
from which_query import TABLES

from skactive import StochasticBatchQuery
from skactive._utils.randomness import seeded_clone, spawn
from skactive._utils.statistics import Estimate, estimate, holm
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
N_FIRST, N_ALL, BATCH_SIZE = 20, 50, 10

WAYS, DROPPED = ["typical"], "kmeans++"
SCORES = {"accuracy": accuracy_score, "balanced accuracy": balanced_accuracy_score}
NUMBERS = [f"{score}, {n} labels" for n in (N_FIRST, N_ALL) for score in SCORES]
FIRST_NUMBER = NUMBERS[0]


def run(size: Any, places: study.Places) -> dict[str, Any]:
    places.rounds.mkdir(parents=True, exist_ok=True)
    return {
        table: turned([kept_trial(places, table, i, size.models) for i in range(size.n_trials)])
        for table in size.tables
    }


def turned(trials: Sequence[Any]) -> Any:
    """Trials of one form as that form with a list of values, one a trial, in the place of each value."""
    if isinstance(trials[0], dict):
        return {key: turned([trial[key] for trial in trials]) for key in trials[0]}
    return list(trials)


def kept_trial(places: study.Places, table: str, number: int, models: Sequence[str]) -> dict[str, Any]:
    """One trial, from the disk if it has been run."""
    path = places.rounds / f"cold_start-{table}-{number}.json"
    if not path.exists():
        print(path.stem, flush=True)
        path.write_text(json.dumps(one_trial(*rows(table, places), number, models)))
    return dict(json.loads(path.read_text()))


def one_trial(X: Any, y: np.ndarray, number: int, models: Sequence[str]) -> dict[str, Any]:
    """By way of choosing: classes among the first labels, and the numbers of each model; and how many classes are."""
    strata = y if np.unique(y, return_counts=True)[1].min() > 1 else None
    train, test = train_test_split(np.arange(len(y)), test_size=1 / 3, stratify=strata, random_state=number)
    prepared = fitted_preprocessing(X.iloc[train], readings_of(X.iloc[train]), "plain", number)
    data = (*(prepared.transform(X.iloc[part]) for part in (train, test)), y[train], y[test])
    found: dict[str, Any] = {"all classes": len(np.unique(y[train]))}
    for how in FIRST:
        seeds = np.random.default_rng(number), np.random.default_rng([number, 1])
        first = rows_by(how, data[0], N_FIRST, seeds[0])
        runs = {name: scores_of_run(data, first, how, name, *spawn(seeds[1], 2)) for name in models}
        found[how] = {"classes": len(np.unique(y[train][first])), **runs}
    return found


def rows_by(how: str, points: np.ndarray, k: int, rng: np.random.Generator) -> np.ndarray:
    return typical_rows(points, k, rng) if how == "typical" else rng.permutation(len(points))[:k]


def scores_of_run(
    data: tuple[np.ndarray, ...],
    first: np.ndarray,
    how: str,
    name: str,
    of_models: np.random.Generator,
    of_batches: np.random.Generator,
) -> dict[str, float]:
    """Scores on the test rows after the first labels and after all."""
    X, X_test, y, y_test = data
    labelled, found, query = first, {}, StochasticBatchQuery(random_state=of_batches)
    while True:
        is_model = len(np.unique(y[labelled])) > 1
        make = named_model(name, "passthrough", "classes") if is_model else DummyClassifier()
        model = seeded_clone(make, of_models).fit(X[labelled], y[labelled])
        if len(labelled) in (N_FIRST, N_ALL):
            answers = model.predict(X_test)
            found |= {f"{n}, {len(labelled)} labels": score(y_test, answers) for n, score in SCORES.items()}
        if len(labelled) >= N_ALL:
            return found
        left = np.setdiff1d(np.arange(len(y)), labelled)
        if is_model:
            batch = query.select(model, X[left], BATCH_SIZE)
        else:
            batch = rows_by(how, X[left], BATCH_SIZE, of_batches)
        labelled = np.concatenate([labelled, left[batch]])


def differences(findings: Mapping[str, Any], how: str, number: str, models: Sequence[str]) -> dict[str, np.ndarray]:
    """Points of paired trials, by table, of a way minus uniform: mean over models."""
    return {
        table: 100
        * np.mean([np.subtract(of[how][name][number], of["uniform"][name][number]) for name in models], axis=0)
        for table, of in findings.items()
    }


def classes_seen(findings: Mapping[str, Any]) -> dict[str, list[float]]:
    """Classes among the first labels, of a hundred, by way of choosing: the mean of each table."""
    return {
        how: [100 * float(np.mean(np.divide(of[how]["classes"], of["all classes"]))) for of in findings.values()]
        for how in FIRST
    }


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
    of = {"two classes": [2], "more classes": range(3, 1_000)}
    parts = {kind: {t: v for t, v in findings.items() if max(v["all classes"]) in n} for kind, n in of.items()}
    return {kind: part for kind, part in parts.items() if len(part) > 1}


def models_of(findings: Mapping[str, Any]) -> list[str]:
    return [name for name in next(iter(findings.values()))["uniform"] if name != "classes"]


def n_trials_of(findings: Mapping[str, Any]) -> int:
    return len(next(iter(findings.values()))["all classes"])


def default(findings: Mapping[str, Any]) -> str:
    """What the rule that was set before the study makes the default."""
    models, passed = models_of(findings), {}
    found = {(how, n): over_tables(differences(findings, how, n, models)) for how in WAYS for n in NUMBERS}
    of_first = [found[how, FIRST_NUMBER] for how in WAYS]
    for how, p in zip(WAYS, holm([np.nan if p is None else p for _, p in of_first]), strict=True):
        value = found[how, FIRST_NUMBER][0]
        worse = any(found[how, number][0].high < 0 for number in NUMBERS)
        if value.mean > 0 and p < 0.05 and not worse:
            passed[how] = value.mean
    return max(passed, key=passed.__getitem__) if passed else "uniform"


def of_table(differences_of: np.ndarray) -> float:
    """The p-value of one table; no difference in any trial is none."""
    return float(stats.ttest_1samp(differences_of, 0).pvalue) if np.ptp(differences_of) > 0 else np.nan


def standings(by_table: Mapping[str, np.ndarray]) -> tuple[int, int, int]:
    """Tables on which a way is better, alike and worse: t-tests over trials, p < 0.05 after Holm over the tables."""
    corrected = holm([of_table(d) for d in by_table.values()])
    signs = [float(np.sign(d.mean())) * (p < 0.05) for d, p in zip(by_table.values(), corrected, strict=True)]
    return signs.count(1), signs.count(0), signs.count(-1)


def claims(findings: dict[str, Any]) -> list[study.Claim]:
    models, n_trials = models_of(findings), n_trials_of(findings)
    made = []
    for how in WAYS:
        setting = f"{len(findings)} tables, random effects; {N_FIRST} first labels"
        seen = f"% of all classes; {len(findings)} tables, {n_trials} trials each; {N_FIRST} first labels"
        statement = f"{how} sees more classes than uniform"
        made.append(study.better(statement, seen, classes_seen(findings), how, "uniform", 1))
        for number in NUMBERS:
            for names in (models, *([name] for name in models if len(models) > 1)):
                where = f"{setting}, {'mean of ' if len(names) > 1 else ''}{' and '.join(names)}"
                statement = f"{how} is better than uniform: {number}"
                made.append(_claim(statement, where, n_trials, differences(findings, how, number, names)))
    return made


def _claim(statement: str, setting: str, n_trials: int, by_table: Mapping[str, np.ndarray]) -> study.Claim:
    value, p = over_tables(by_table)
    ours = f"{study.with_interval(value, 1, sign=True)} points"
    return study.Claim(statement, setting, n_trials, ours, study.above(value), p)


def guide(findings: dict[str, Any]) -> str:
    """The numbers of the page, and what they decide."""
    models, n_trials = models_of(findings), n_trials_of(findings)
    head = ["minus uniform", *WAYS]
    lines = [[f"{n}, points", *(_cell(differences(findings, how, n, models)) for how in WAYS)] for n in NUMBERS]
    lines.append([f"classes seen in {N_FIRST} labels, %", *(_of_classes(findings, how) for how in WAYS)])
    shown = [".. list-table::", "   :header-rows: 1", ""]
    for row in [head, *lines]:
        shown += [f"   {'*' if i == 0 else ' '} - {cell}" for i, cell in enumerate(row)]
    single = ", ".join(f"{n_single(findings, how)} with {how}" for how in FIRST)
    text = (
        f"Means over {len(findings)} tables, {n_trials} trials each, and over {' and '.join(models)}, with 95 % "
        f"intervals (random effects; of classes, tables alike). Of {n_trials * len(findings)} first batches those of "
        f"one class only, which make no model, were {single}. The rule set before the study chooses "
        f"**{default(findings)}**. "
        ":ref:`Each model and table <cold_start>`."
    )
    if all(DROPPED in of for of in findings.values()):
        by_number = [f"{_cell(differences(findings, DROPPED, n, models))} ({n})" for n in NUMBERS]
        text += f" Tried, and dropped: {DROPPED}, minus uniform {'; '.join(by_number)}."
    afterwards = "; ".join(
        f"on the {len(part)} tables of {kind} typical differs from uniform by "
        f"{_cell(differences(part, 'typical', FIRST_NUMBER, models))} points of accuracy after {N_FIRST} labels and by "
        f"{_cell(differences(part, 'typical', NUMBERS[2], models))} after {N_ALL}, and "
        f"{n_single(part, 'typical')} of its {n_trials * len(part)} first batches are of one class only "
        f"({n_single(part, 'uniform')} of uniform's)"
        for kind, part in kinds(findings).items()
    )
    return "\n\n".join(["\n".join(shown), text, f"Looked at afterwards, which is no test: {afterwards}."])


def _cell(by_table: Mapping[str, np.ndarray]) -> str:
    return study.with_interval(over_tables(by_table)[0], 1, sign=True)


def _of_classes(findings: Mapping[str, Any], how: str) -> str:
    return study.with_interval(study.difference(classes_seen(findings), how, "uniform"), 1, sign=True)


def n_single(findings: Mapping[str, Any], how: str) -> int:
    """Trials whose first labels are of one class."""
    return sum(of[how]["classes"].count(1) for of in findings.values())


def tables(findings: dict[str, Any]) -> list[tuple[str, list[str], list[list[str]]]]:
    """Better, alike and worse by model; and each table."""
    models = models_of(findings)
    counts = [
        [how, name, *(" / ".join(map(str, standings(differences(findings, how, n, [name])))) for n in NUMBERS)]
        for how in WAYS
        for name in models
    ]
    header = ["table", "classes", *(f"seen, {how}" for how in FIRST)]
    header += ["one class only", f"uniform: {FIRST_NUMBER}", *(f"{how} − uniform" for how in WAYS)]
    lines = []
    for table, of in findings.items():
        seen = [f"{np.mean(of[how]['classes']):.1f}" for how in FIRST]
        single = " / ".join(str(n_single({table: of}, how)) for how in FIRST)
        level = 100 * np.mean([of["uniform"][name][FIRST_NUMBER] for name in models])
        by_way = [differences({table: of}, how, FIRST_NUMBER, models)[table] for how in WAYS]
        cells = [study.with_interval(estimate(d), 1, sign=True) for d in by_way]
        lines.append([table.replace("_", " "), str(max(of["all classes"])), *seen, single, f"{level:.1f}", *cells])
    by_kind = [
        [
            *(kind, str(len(part)), how),
            *(_cell(differences(part, how, n, models)) for n in NUMBERS),
            _of_classes(part, how),
        ]
        for kind, part in kinds(findings).items()
        for how in WAYS
    ]
    return [
        (
            "Looked at afterwards: minus uniform by number of classes, points, random effects",
            ["tables of", "number", "way", *NUMBERS, "classes seen, %"],
            by_kind,
        ),
        ("Tables better / alike / worse than uniform (t-tests, Holm, p < 0.05)", ["way", "model", *NUMBERS], counts),
        (f"Each table: {FIRST_NUMBER}, mean of the models, points; intervals are over trials", header, lines),
    ]


def draw(findings: dict[str, Any]) -> Any:
    """Differences to uniform by table, and over tables below; a panel for each number."""
    models = models_of(findings)
    names = [name.replace("_", " ") for name in findings]
    figure, axes = study.panels(len(NUMBERS), 4, 0.26 * len(names) + 1.4, sharey=True)
    for ax, number in zip(axes.flat, NUMBERS, strict=True):
        for shift, look, how in zip((0.0,), drawing.styles(1), WAYS, strict=True):
            by_table = differences(findings, how, number, models)
            rows = {name: estimate(d) for name, d in zip(names, by_table.values(), strict=True)}
            rows["all tables"] = over_tables(by_table)[0]
            looks = {name: {**look, "capsize": 0, "markersize": 3.5, "linewidth": 1} for name in rows}
            looks["all tables"] = {**look, "markersize": 5, "linewidth": 2}
            study.draw_intervals(ax, rows, looks, shift=shift, label=how)
        ax.axhline(len(names) - 0.5, color="0.6", lw=0.8)
        ax.set(title=number.replace(", ", ",\n"))
    figure.supxlabel("minus uniform's, points, with 95 % intervals", fontsize="medium")
    study.legend_above(figure, axes[0, 0])
    return figure


if __name__ == "__main__":
    study.main(sys.modules[__name__])
