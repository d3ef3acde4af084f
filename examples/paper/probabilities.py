"""What bought labels do to probabilities, and what mends it.

A logistic regression with C = 1, the default, or C = 0.1, in six batches of twenty after twenty random labels. All arms
buy from the same first labels; a table is the unit. "Weights" refits with weights of picks, 1 / (rows left times
probability of the pick) and at most 5, over their mean: labels then stand for the pool that they were drawn from.
No query fits a model, so one loop here runs all arms; it goes on from the trials in OUT/rounds.
"""

from __future__ import annotations

import sys
from itertools import product
from typing import Any

import numpy as np
import page
import study
from joblib import Memory, Parallel, delayed
from many_tables import TABLES, rows
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from tabular import columns
from which_query import OF_CLASSES, sampled

from skactive._utils.statistics import estimate
from skactive.experiment._plan import plan_trials

TITLE = "Probabilities after active learning"
ALT = "Dot plots of four measures minus uniform's: most arms gain accuracy and lose calibration, weights lose most."

SIZES: dict[str, dict[str, Any]] = {
    "smallest": {"n_trials": 1, "n_rounds": 1, "tables": ["breast_cancer", "vehicle"]},
    "quick": {"n_trials": 1, "n_rounds": 3, "tables": TABLES[:8]},
    "full": {"n_trials": 3, "n_rounds": 6, "tables": TABLES},
}
BATCH = 20
STRENGTHS = {"C = 1": 1.0, "C = 0.1": 0.1}  # scikit-learn's default, and ten times its penalty
MARGIN, WEIGHTED = "margin, beta 4", "beta 4, weights"
ARMS = {
    "uniform": sampled("margin", 4, sampler="uniform"),
    MARGIN: sampled("margin", 4),
    "beta 4, diversity 2": sampled("margin", 4, diversity=2.0),
    "beta 2, diversity 2": sampled("margin", 2, diversity=2.0),
    "beta 4, epsilon 0.5": sampled("margin", 4, epsilon=0.5),
    WEIGHTED: sampled("margin", 4),
    "top-k": sampled("margin", 1, sampler="topk"),
}


def minus_calibration_error(model: Any, X: Any, y: Any) -> float:
    """Ten bins of the guesses' probabilities: how far their mean is from the share that is right, negative."""
    sure, is_right = model.predict_proba(X).max(axis=1), model.predict(X) == y
    gaps = np.bincount((10 * sure).astype(int).clip(max=9), weights=sure - is_right)
    return -float(np.abs(gaps).sum() / len(y))


MEASURES: dict[str, Any] = {
    **OF_CLASSES,
    "calibration": minus_calibration_error,
    "confidence": lambda model, X, y: model.predict_proba(X).max(axis=1).mean(),  # above the accuracy: too sure
}
SHOWN = list(MEASURES)[:4]


def trial(places: study.Places, table: str, C: float, seed: int, n_rounds: int) -> dict[str, list[float]]:
    """By arm the means over acquisitions, in the order of `MEASURES`."""
    X, y = rows(table, places)
    n_initial = max(BATCH, len(np.unique(y)))
    plan = plan_trials(len(y), y, [seed], 1, BATCH, test_size=1 / 3, n_initial=n_initial)[0]
    n_rounds = min(n_rounds, (len(plan.train) - n_initial) // BATCH - 1)
    x = columns().fit(X.iloc[plan.train]).transform(X)
    found = {}
    for arm, like in ARMS.items():
        query, learner = clone(like).set_params(random_state=seed), LogisticRegression(C=C, max_iter=1000)
        labelled, weights, scores = plan.initial, np.ones(n_initial), []
        learner.fit(x[labelled], y[labelled])
        for _ in range(n_rounds):
            left = np.setdiff1d(plan.train, labelled)
            picks = query.select(learner, x[left], n_instances=BATCH)
            labelled = np.append(labelled, left[picks])
            if arm == WEIGHTED:  # 5: a few rows must not be the whole fit
                weights = np.append(weights, np.exp(-query.log_proba_) / (len(left) - np.arange(BATCH))).clip(max=5)
            learner.fit(x[labelled], y[labelled], weights / weights.mean() if arm == WEIGHTED else None)
            scores.append([measure(learner, x[plan.test], y[plan.test]) for measure in MEASURES.values()])
        found[arm] = np.mean(scores, axis=0).tolist()
    return found


def run(size: Any, places: study.Places) -> dict[str, Any]:
    cached = delayed(Memory(places.rounds, verbose=0).cache(trial, ignore=["places"]))
    found: dict[str, Any] = {"tables": size.tables, "n_trials": size.n_trials}
    for name, C in STRENGTHS.items():
        pairs = [(table, seed) for seed in range(size.n_trials) for table in size.tables]
        trials = Parallel(places.jobs)(cached(places, table, C, seed, size.n_rounds) for table, seed in pairs)
        values = np.reshape([[*of.values()] for of in trials], (size.n_trials, len(size.tables), len(ARMS), -1))
        means = zip(MEASURES, values.mean(axis=0).T.tolist(), strict=True)
        found[name] = {measure: dict(zip(ARMS, of_arms, strict=True)) for measure, of_arms in means}
    return found


def claims(findings: dict[str, Any]) -> list[study.Claim]:
    made, setting = [], f"{len(findings['tables'])} tables, logistic regression"
    for name in STRENGTHS:
        found, where = findings[name], f"{setting}, {name}"
        for measure in ("log-likelihood", "calibration"):
            made.append(study.better(f"Labels of the margin harm {measure}", where, found[measure], "uniform", MARGIN))
        for arm in list(ARMS)[2:6] if name == "C = 1" else []:
            made.append(study.better(f"Log-likelihood is mended by {arm}", where, found["log-likelihood"], arm, MARGIN))
            made.append(study.alike(f"No accuracy is lost by {arm}", where, found["accuracy"], arm, MARGIN, 0.005))
    return made


def tables(findings: dict[str, Any]) -> list[tuple[str, list[str], list[list[str]]]]:
    """By penalty: values of uniform, and differences of the others to them, times 100."""
    numbers = f"{len(findings['tables'])} tables, {findings['n_trials']} trials each"
    head = ["labels bought by", *SHOWN, "too sure by"]
    return [(f"{name}; {numbers}", head, [cells(findings[name], arm) for arm in ARMS]) for name in STRENGTHS]


def cells(found: dict[str, Any], arm: str) -> list[str]:
    is_own = arm == "uniform"
    minus = [100 * np.subtract(found[m][arm], 0 if is_own else found[m]["uniform"]) for m in SHOWN]
    too_sure = 100 * np.mean(np.subtract(found["confidence"][arm], found["accuracy"][arm]))
    return [arm, *(study.with_interval(estimate(of), 1, sign=not is_own) for of in minus), f"{too_sure:+.1f}"]


def guide(findings: dict[str, Any]) -> str:
    return "\n\n".join("\n".join(page.table(*of)).strip() for of in tables(findings))


def draw(findings: dict[str, Any]) -> Any:
    figure, axes = study.panels(2 * len(SHOWN), len(SHOWN), 2.3, sharey=True, sharex="col")
    for ax, (name, measure) in zip(axes.flat, product(STRENGTHS, SHOWN), strict=True):
        study.draw_differences(ax, findings[name][measure], list(ARMS)[1:], "uniform")
        ax.set_title(f"{measure}\n{name}", fontsize="small")
    figure.supxlabel("minus uniform's, times 100, with 95 % intervals: right is better", fontsize="medium")
    return figure


if __name__ == "__main__":
    study.main(sys.modules[__name__])
