"""The model of a campaign: a forest, a linear model, the mean of the two, or a choice among these by their folds.

The same random labels for all: 20, 60 and 120, two splits a table of at most 1,000 rows. The mean is that of
probabilities (of predicted numbers). A choice is the mean below 60 labels, then the best out of fold, of two or of all.

The rule, set before any result, for the first tables ("to decide"): the mean, if its log loss over all sizes is below
the forest's by an interval without 0, and its accuracy not below by one (of numbers: if its R2 is above by one); else
the forest. A choice, if accuracy or log loss at 60 and 120 labels is better than the mean's so, the other not worse.
It chose the mean; for numbers the forest. Claims are about the other tables, asked once. Floors: 0.001; of R2, -1.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any

import benchmark
import numpy as np
import study
from many_tables import LISTS, as_numbers
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from sklearn.linear_model import BayesianRidge, LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skactive.campaign._models import folds_of, has_enough
from skactive.plotting import _drawing as drawing

TITLE = "The model of a campaign"
ALT = "The mean minus the forest, the linear model and their average: above 0 in most cells, not for R2 at 20 labels."
_SIZES = (("smallest", 1, 3), ("quick", 1, 8), ("full", 2, 100))
SIZES = {name: {"n_trials": n_trials, "n_tables": n_tables} for name, n_trials, n_tables in _SIZES}
SCORES = {"classes": ("accuracy", "log loss"), "numbers": ("R2",)}
N_TREES, N_LABELS, ENOUGH, FLOOR = 50, (20, 60, 120), 60, 1e-3
TWO = ("forest", "linear")
CHOICES = {f"best of {n} by {by}": (n, by) for by in ("accuracy", "log loss", "R2") for n in ("two", "three")}


def run(size: Any, places: study.Places) -> dict[str, Any]:
    """A part is a list, a kind and a number of labels."""
    calls = [
        (name, kind, table, number)
        for name, lists in LISTS.items()
        for kind, listed in lists.items()
        for table in list(listed)[: size.n_tables]
        for number in range(size.n_trials)
    ]
    found = benchmark.nested()
    for (name, kind, table, _), trials in zip(calls, benchmark.each(places, trial, calls, 2), strict=True):
        for n, of_arms in trials.items():
            benchmark.add(found[f"{name}, {kind}, {n} labels"], "campaign", table, of_arms)
    return found


def trial(places: study.Places, name: str, kind: str, table: str, seed: int) -> dict[str, Any]:
    """By number of labels, measure and arm."""
    X, y = as_numbers(name, kind, table, places)
    test, pool = np.split(np.random.default_rng([seed, 1]).permutation(len(y)), [len(y) // 3])
    sizes = [n for n in N_LABELS if n <= len(pool) and has_enough(y[pool[:n]].tolist(), kind)]
    found = {str(n): scores_of_arms(X, y, pool[:n], test, seed, kind) for n in sizes}
    return {n: {m: {arm: of[arm][m] for arm in of} for m in SCORES[kind]} for n, of in found.items()}


def scores_of_arms(X: Any, y: Any, labelled: Any, test: Any, seed: int, kind: str) -> dict[str, Any]:
    found = {arm: scores(y[test], answer) for arm, answer in answers_of(X, y, labelled, test, seed, kind).items()}
    folds = folds_of(y[labelled], kind, seed) if len(labelled) >= ENOUGH else None
    parts = [answers_of(X, y, labelled[fit], labelled[held], seed, kind) for fit, held in folds or ()]
    truth = y[labelled[np.concatenate([held for _, held in folds])]] if folds else None
    judged = {arm: scores(truth, np.concatenate([of[arm] for of in parts])) for arm in found if folds}
    for arm, (n, by) in CHOICES.items():
        if by in SCORES[kind]:
            among = TWO if n == "two" else ("mean", *TWO)
            found[arm] = found[max(among, key=lambda one: judged[one][by]) if folds else "mean"]
    return found


def answers_of(X: Any, y: Any, fit: Any, test: Any, seed: int, kind: str) -> dict[str, np.ndarray]:
    """What the forest, the linear model and their mean say of test rows: probabilities of all classes, or numbers."""
    forest, linear = RandomForestRegressor(N_TREES, min_samples_leaf=2, random_state=seed), BayesianRidge()
    if kind == "classes":
        forest, linear = RandomForestClassifier(N_TREES, random_state=seed), LogisticRegression(max_iter=1000)
    found = {}
    for name, estimator in zip(TWO, (forest, linear), strict=True):
        model = make_pipeline(StandardScaler(), estimator).fit(X[fit], y[fit])  # a scale is nothing to a forest
        found[name] = model.predict(X[test])
        if kind == "classes":
            found[name] = np.zeros((len(test), y.max() + 1))
            found[name][:, model.classes_] = model.predict_proba(X[test])
    return {**found, "mean": (found["forest"] + found["linear"]) / 2}


def scores(y: np.ndarray, answer: np.ndarray) -> dict[str, float]:
    """The larger the better, in hundredths: log loss with its sign turned."""
    if answer.ndim == 1:
        return {"R2": 100 * max(-1.0, 1 - float(((y - answer) ** 2).mean() / y.var()))}
    of_label = np.clip(answer[np.arange(len(y)), y], FLOOR, 1)
    return {"accuracy": 100 * float((answer.argmax(1) == y).mean()), "log loss": 100 * float(np.log(of_label).mean())}


def by_arm(findings: Mapping[str, Any], part: str, score: str, sizes: Sequence[int]) -> dict[str, list[float]]:
    """Of each table the mean over trials and these numbers of labels; "either" is the average of the two models."""
    by_table = benchmark.nested()
    for n in sizes:
        for table, of_arms in findings.get(f"{part}, {n} labels", {score: {"campaign": {}}})[score]["campaign"].items():
            for arm, values in of_arms.items():
                by_table[table].setdefault(arm, []).extend(values)
    arms = next(iter(by_table.values()))
    values = {arm: [float(np.mean(of[arm])) for of in by_table.values()] for arm in arms}
    return {**values, "either": np.mean([values[one] for one in TWO], axis=0).tolist()}


def differences(kind: str) -> list[tuple[str, str, str]]:
    """Score, arm and reference of all that is told: choices by the score that they are for."""
    return [(s, "mean", other) for s in SCORES[kind] for other in (*TWO, "either")] + [
        (s, arm, "mean") for s in SCORES[kind] for arm, (_, by) in CHOICES.items() if by in SCORES[kind]
    ]


def claims(findings: dict[str, Any]) -> list[study.Claim]:
    made = []
    for kind in SCORES:
        for score, arm, other in differences(kind):
            sizes = N_LABELS if arm == "mean" else N_LABELS[1:]
            setting = f"tables of {kind}, hundredths; {' and '.join(map(str, sizes))} labels"
            values = by_arm(findings, f"reported, {kind}", score, sizes)
            made.append(study.better(f"{arm} is better than {other}: {score}", setting, values, arm, other, 1))
    return made


def tables(findings: dict[str, Any]) -> list[tuple[str, list[str], list[list[str]]]]:
    """Every difference by number of labels, on the tables to decide and those reported on."""
    parts, lines = ((20,), (60,), (120,), N_LABELS, N_LABELS[1:]), []
    for name, kind in product(LISTS, SCORES):
        for score, arm, other in differences(kind):
            values = [by_arm(findings, f"{name}, {kind}", score, of) for of in parts]
            shown = [study.with_interval(study.difference(of, arm, other), 1, sign=True) for of in values]
            lines.append([f"{len(values[3][arm])} {name}", score, f"{arm} − {other}", *shown])
    header = ["tables", "score", "difference", "20 labels", "60", "120", "all three", "60 and 120"]
    return [("Hundredths of accuracy, of a nat, and of R2: plus is better", header, lines)]


def draw(findings: dict[str, Any]) -> Any:
    """What the mean gains, by number of labels; a panel for each score, on the tables reported on."""
    figure, axes = study.panels(3, 3, 2.4, sharey=True)
    for ax, (kind, score) in zip(axes.flat, [(k, s) for k, of in SCORES.items() for s in of], strict=True):
        for shift, look, n in zip((-0.2, 0, 0.2), drawing.styles(3), N_LABELS, strict=True):
            values = by_arm(findings, f"reported, {kind}", score, (n,))
            gains = {f"mean − {other}": study.difference(values, "mean", other) for other in (*TWO, "either")}
            study.draw_intervals(ax, gains, dict.fromkeys(gains, look), shift=shift, label=f"{n} labels")
        ax.set(title=f"{score}, hundredths")
    study.legend_above(figure, axes[0, 0])
    return figure


if __name__ == "__main__":
    study.main(sys.modules[__name__])
