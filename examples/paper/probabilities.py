"""What bought labels do to probabilities, and what mends it.

A logistic regression with C = 1, the default, or C = 0.1, in six batches of twenty after twenty random labels. All arms
buy from the same first labels; a table is the unit. "Weights" refits with weights of picks, 1 / (rows left times
probability of the pick) and at most 5, over their mean: labels then stand for the pool that they were drawn from.
Columns are made of all rows of the pool. The results have the means of five trials.
"""

from __future__ import annotations

import sys
from functools import partial
from itertools import product
from typing import Any

import benchmark
import numpy as np
import study
from benchmark import OF_CLASSES, Arm, Part, over_models
from many_tables import TABLES, columns
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

from skactive._utils.statistics import estimate

TITLE = "Probabilities after active learning"
ALT = "Dot plots of four measures minus uniform's: most arms gain accuracy and lose calibration, weights lose most."

SIZES: dict[str, dict[str, Any]] = {
    "smallest": {"n_trials": 1, "n_rounds": 1, "tables": ["breast_cancer", "vehicle"]},
    "quick": {"n_trials": 1, "n_rounds": 3, "tables": TABLES[:8]},
    "full": {"n_trials": 3, "n_rounds": 6, "tables": TABLES},
}
STRENGTHS = {"C = 1": 1.0, "C = 0.1": 0.1}  # scikit-learn's default, and ten times its penalty
MARGIN = "margin, beta 4"
ARMS = {
    "uniform": Arm(study.sampled("margin", beta=4, sampler="uniform")),
    MARGIN: Arm(study.sampled("margin", beta=4)),
    "beta 4, diversity 2": Arm(study.sampled("margin", beta=4, diversity=2.0)),
    "beta 2, diversity 2": Arm(study.sampled("margin", beta=2, diversity=2.0)),
    "beta 4, epsilon 0.5": Arm(study.sampled("margin", beta=4, epsilon=0.5)),
    "beta 4, weights": Arm(study.sampled("margin", beta=4), is_weighted=True),
    "top-k": Arm(study.sampled("margin", beta=1, sampler="topk")),
}


def minus_calibration_error(model: Any, X: Any, y: Any) -> float:
    """Ten bins of the guesses' probabilities: how far their mean is from the share that is right, negative."""
    sure, is_right = model.predict_proba(X).max(axis=1), model.predict(X) == y
    gaps = np.bincount((10 * sure).astype(int).clip(max=9), weights=sure - is_right)
    return -float(np.abs(gaps).sum() / len(y))


def confidence(model: Any, X: Any, _: Any) -> float:
    """The mean probability of the guesses: above the accuracy the model is too sure."""
    return float(model.predict_proba(X).max(axis=1).mean())


MEASURES: dict[str, Any] = {**OF_CLASSES, "calibration": minus_calibration_error, "confidence": confidence}
SHOWN = list(MEASURES)[:4]


def logistic(C: float, _: str, X: Any) -> Any:
    return make_pipeline(FrozenEstimator(columns().fit(X)), LogisticRegression(C=C, max_iter=1000))


def run(size: Any, places: study.Places) -> dict[str, Any]:
    options = {"tables": size.tables, "n_trials": size.n_trials, "sizes": (20, 20, size.n_rounds)}
    parts = {
        name: Part(arms=ARMS, models=["logistic"], model=partial(logistic, C), measures=MEASURES, **options)
        for name, C in STRENGTHS.items()
    }
    return benchmark.run(parts, places, benchmark.over_acquisitions)


def by_arm(findings: dict[str, Any], name: str, measure: str) -> dict[str, list[float]]:
    """A mean for each table."""
    return {arm: over_models(findings[name][measure], arm) for arm in ARMS}


def claims(findings: dict[str, Any]) -> list[study.Claim]:
    made, setting = [], f"{n_tables_in(findings)} tables, logistic regression"
    for name in STRENGTHS:
        where = f"{setting}, {name}"
        for measure in ("log-likelihood", "calibration"):
            values = by_arm(findings, name, measure)
            made.append(study.better(f"Labels of the margin harm {measure}", where, values, "uniform", MARGIN))
        right, likely = (by_arm(findings, name, measure) for measure in ("accuracy", "log-likelihood"))
        for arm in list(ARMS)[2:6] if name == "C = 1" else []:
            made.append(study.better(f"Log-likelihood is mended by {arm}", where, likely, arm, MARGIN))
            made.append(study.alike(f"No accuracy is lost by {arm}", where, right, arm, MARGIN, 0.005))
    return made


def n_tables_in(findings: dict[str, Any]) -> int:
    return benchmark.n_tables_of(findings["C = 1"]["accuracy"])


def tables(findings: dict[str, Any]) -> list[tuple[str, list[str], list[list[str]]]]:
    """By penalty: values of uniform, and differences of the others to them, times 100."""
    head = ["labels bought by", *SHOWN, "too sure by"]
    numbers = f"{n_tables_in(findings)} tables"
    return [(f"{name}; {numbers}", head, [cells(findings, name, arm) for arm in ARMS]) for name in STRENGTHS]


def cells(findings: dict[str, Any], name: str, arm: str) -> list[str]:
    of, is_own = {measure: by_arm(findings, name, measure) for measure in MEASURES}, arm == "uniform"
    minus = [100 * np.subtract(of[m][arm], 0 if is_own else of[m]["uniform"]) for m in SHOWN]
    too_sure = 100 * np.mean(np.subtract(of["confidence"][arm], of["accuracy"][arm]))
    return [arm, *(study.with_interval(estimate(d), 1, sign=not is_own) for d in minus), f"{too_sure:+.1f}"]


def guide(findings: dict[str, Any]) -> str:
    return "\n\n".join(benchmark.as_list(header, lines, caption) for caption, header, lines in tables(findings))


def draw(findings: dict[str, Any]) -> Any:
    figure, axes = study.panels(2 * len(SHOWN), len(SHOWN), 2.3, sharey=True, sharex="col")
    for ax, (name, measure) in zip(axes.flat, product(STRENGTHS, SHOWN), strict=True):
        study.draw_differences(ax, by_arm(findings, name, measure), list(ARMS)[1:], "uniform")
        ax.set_title(f"{measure}\n{name}", fontsize="small")
    figure.supxlabel("minus uniform's, times 100, with 95 % intervals: right is better", fontsize="medium")
    return figure


if __name__ == "__main__":
    study.main(sys.modules[__name__])
