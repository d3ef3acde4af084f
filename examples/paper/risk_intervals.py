"""How often intervals of a risk hold it: error rates, log losses and losses without a bound, queries hot and cold.

Every setting is a pool whose risk is known, a query's law, and a number of labels; rows are drawn many times over. The
intervals of `skactive.risk` stand beside Student's. Log losses are bounded by the least probability that a model gives
a label; log-normal losses have no bound, so that their intervals have no upper end.
"""

from __future__ import annotations

import math
import sys
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import study
from scipy import stats
from scipy.special import log_softmax
from sklearn.datasets import load_digits
from sklearn.ensemble import RandomForestClassifier
from sklearn.model_selection import train_test_split

from skactive import StochasticBatchQuery
from skactive.plotting import _drawing as drawing
from skactive.query import score_pool
from skactive.risk import estimate_risk
from skactive.risk._parts import largest_of
from skactive.samplers import power

TITLE = "How often intervals of a risk hold it"
ALT = (
    "Scatter plot of how often two kinds of interval hold the risk: Student's as seldom as 27 % of the time, the "
    "mid-p gamma interval at least 93 %."
)

SIZES: dict[str, dict[str, Any]] = {
    "smallest": {"n_trials": 20, "sets": ["digits"], "n_labelled": [50]},
    "quick": {"n_trials": 100, "sets": ["digits"], "n_labelled": [50, 100]},
    "full": {"n_trials": 300, "sets": ["digits", "satellite"], "n_labelled": [50, 100, 200]},
}
N_ROWS = 1_500
LAWS = [(0, 0.1), (0.5, 0.1), (1, 0.1), (4, 0.1), (4, 0.02)]
"""beta and epsilon; beta = 0 is uniform."""


def pools(sets: list[str], places: study.Places) -> Iterator[tuple[str, Any, Any, float]]:
    """Name, scores, losses, and the most that one can be."""
    for name in sets:
        X, y = load_digits(return_X_y=True) if name == "digits" else study.table(places, name)
        X, y = np.asarray(X, dtype=float), np.asarray(y).astype(str)
        X_train, X_pool, y_train, y_pool = train_test_split(
            X, y, train_size=120, test_size=min(N_ROWS, len(y) - 120), stratify=y, random_state=0
        )
        model = RandomForestClassifier(20, min_samples_leaf=2, random_state=0).fit(X_train, y_train)
        scores = score_pool(model, X_pool, "variation_ratio", random_state=0)["variation_ratio"]
        least = 0.02 / len(model.classes_)
        p = 0.98 * model.predict_proba(X_pool) + least
        log_loss = -np.log((p * (y_pool[:, None] == model.classes_)).sum(axis=1))
        yield f"{name}, error rate", scores, (model.predict(X_pool) != y_pool).astype(float), 1.0
        yield f"{name}, log loss", scores, log_loss, -float(np.log(least))
    rng = np.random.default_rng(5)
    for rate in (0.01, 0.03, 0.2):
        for spread in (0.7, 2.0):
            scores = np.exp(spread * rng.standard_normal(N_ROWS))
            p = np.clip(rate * scores / scores.mean(), 0, 0.95)
            wrong = (rng.random(N_ROWS) < p * rate / p.mean()).astype(float)
            yield f"made, {rate:.0%} errors, scores' log-sd {spread:g}", scores, wrong, 1.0
    scores = np.exp(rng.standard_normal(N_ROWS))
    yield "made, log-normal losses", scores, scores * np.exp(0.5 * rng.standard_normal(N_ROWS)), math.inf


def repeated(
    scores: Any, losses: Any, largest: float, law: Any, n_labelled: int, n_trials: int
) -> dict[str, dict[str, float | None]]:
    """In what part of the repetitions each interval holds the risk, or lies below it, and its mean width if any."""
    (beta, epsilon), truth, rng = law, losses.mean(), np.random.default_rng(1)
    held: dict[str, list[int]] = {"gamma": [], "student": []}
    width: dict[str, list[float]] = {"gamma": [], "student": []}
    too_low: dict[str, list[int]] = {"gamma": [], "student": []}
    query = StochasticBatchQuery("variation_ratio", "power", beta, epsilon=epsilon, random_state=rng)
    log_first = np.logaddexp(  # of a mixture: each row's probability to be the first pick
        np.log1p(-epsilon) + log_softmax(power.log_weights(scores, beta)), np.log(epsilon / len(scores))
    )
    most = largest_of(log_first, n_labelled)
    for _ in range(n_trials):
        bought = query.select_scored(scores, n_labelled)
        found = estimate_risk(losses[bought], query.log_proba_, len(losses), largest_loss=largest, largest_weight=most)
        half = stats.t.isf(0.025, n_labelled - 1) * found.standard_error
        ends = {"gamma": found.interval(), "student": (found.value - half, found.value + half)}
        for name, (low, high) in ends.items():
            held[name].append(int(low <= truth <= high))
            too_low[name].append(int(high < truth))
            width[name].append(high - low)
    return {
        name: {
            "held": float(np.mean(held[name])),
            "too_low": float(np.mean(too_low[name])),
            "width": float(np.mean(width[name])) if np.isfinite(width[name]).all() else None,
        }
        for name in held
    }


def run(size: Any, places: study.Places) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, scores, losses, largest in pools(size.sets, places):
        for law in LAWS:
            for n_labelled in size.n_labelled:
                key = f"{name}; beta {law[0]:g}, epsilon {law[1]:g}, {n_labelled} labels"
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")  # of batches that are nearly random, which some are to be
                    found[key] = repeated(scores, losses, largest, law, n_labelled, size.n_trials)
    return {"settings": found, "n_trials": size.n_trials}


def summary(findings: dict[str, Any]) -> dict[str, Any]:
    """What the page and the guide say of all settings whose losses have a bound, and of those without."""
    of = {key: setting for key, setting in findings["settings"].items() if setting["gamma"]["width"] is not None}
    no_bound = [setting["gamma"]["held"] for setting in findings["settings"].values() if setting not in of.values()]
    made: dict[str, Any] = {"n": len(of), "no bound": {"n": len(no_bound), "worst": min(no_bound)}}
    for name in ("gamma", "student"):
        held = np.array([setting[name]["held"] for setting in of.values()])
        made[name] = {"good": int((held >= 0.93).sum()), "worst": float(held.min()), "mean": float(held.mean())}
    ratio = np.array([setting["gamma"]["width"] / setting["student"]["width"] for setting in of.values()])
    is_right = np.array([0.94 <= setting["student"]["held"] <= 0.97 for setting in of.values()])
    is_uniform = np.array(["beta 0," in key for key in of])
    is_mild = np.array(["beta 0.5," in key for key in of])
    made["width"] = {"uniform": float(np.median(ratio[is_uniform])), "all": float(np.median(ratio))}
    made["width"] |= {"beta 0.5": float(np.median(ratio[is_mild])), "right": [float(r) for r in ratio[is_right]]}
    return made


def claims(findings: dict[str, Any]) -> list[study.Claim]:
    found, n = summary(findings), findings["n_trials"]
    gamma, student, right, no_bound = found["gamma"], found["student"], found["width"]["right"], found["no bound"]
    return [
        study.Claim(
            "95 % intervals hold the risk in 93 % of the cases or more, in nearly all settings with a bound",
            f"{found['n']} settings, {n} repetitions each",
            n,
            f"in {gamma['good']} of {found['n']}; worst {gamma['worst']:.3f} (Student's: {student['good']}, "
            f"{student['worst']:.3f})",
            "seen" if gamma["good"] >= 0.965 * found["n"] and gamma["worst"] >= 0.9 else "not seen",
        ),
        study.Claim(
            "Of losses without a bound, lower ends lie below the risk in 93 % of the cases or more",
            f"{no_bound['n']} settings, {n} repetitions each",
            n,
            f"worst {no_bound['worst']:.3f}; there are no upper ends",
            "seen" if no_bound["worst"] >= 0.93 else "not seen",
        ),
        study.Claim(
            "95 % intervals are no wider than 1.15 times Student's where that one is right",
            f"{len(right)} settings in which Student's holds it in 94 to 97 % of the repetitions",
            n,
            f"in {sum(r <= 1.15 for r in right)} of {len(right)}; median {np.median(right):.2f}, largest "
            f"{max(right):.2f}",
            "seen" if max(right) <= 1.15 else "not seen",
        ),
    ]


def tables(findings: dict[str, Any]) -> list[tuple[str, list[str], list[list[str]]]]:
    """All settings."""
    lines = [
        [
            key,
            *(f"{of[name]['held']:.3f}" for name in ("student", "gamma")),
            *(f"{of[name]['too_low']:.3f}" for name in ("student", "gamma")),
            f"{of['gamma']['width'] / of['student']['width']:.2f}" if of["gamma"]["width"] is not None else "no end",
        ]
        for key, of in findings["settings"].items()
    ]
    header = ["setting", "Student's holds", "ours holds", "Student's too low", "ours too low", "width, times Student's"]
    return [("Parts of the repetitions in which an interval holds the risk, or lies wholly below it", header, lines)]


def guide(findings: dict[str, Any]) -> str:
    """What the guide says."""
    found, n = summary(findings), findings["n_trials"]
    gamma, student, width = found["gamma"], found["student"], found["width"]
    no_bound = f"{100 * found['no bound']['worst']:.0f} %"
    share = {name: f"{100 * found[name]['worst']:.0f} %" for name in ("gamma", "student")}
    return (
        f"In {found['n']} simulated settings with a bound (error rates of 1 to 25 %, log losses; uniform picks to "
        f"``beta=4``; ``epsilon`` 0.1 and 0.02; 50 to 200 labels; {n} repetitions each) 95 % intervals held the true "
        f"value in 93 % of the repetitions or more in {gamma['good']} settings, and in {share['gamma']} at worst. "
        f"Student's intervals did so in {student['good']} settings, and in {share['student']} at worst. Log-normal "
        f"losses have no bound and their intervals no upper end; lower ends held in {no_bound} at worst. The price is "
        f"width: {width['uniform']:.2f} times Student's for uniform picks, {width['beta 0.5']:.2f} times for "
        f"``beta=0.5``, {width['all']:.1f} times in the median of all settings. An interval that is wide says that "
        "these labels cannot tell. Picks that are closer to uniform can: take ``epsilon=0.5``. "
        ":ref:`The study <risk_intervals>` has all settings."
    )


def draw(findings: dict[str, Any]) -> Any:
    """Coverage of Student's interval and of ours, a point for each setting."""
    figure, axes = study.panels(1, 1, 4.4)
    ax = axes[0, 0]
    of = {key: setting for key, setting in findings["settings"].items() if setting["gamma"]["width"] is not None}
    for beta, look in zip((0, 0.5, 1, 4), drawing.styles(4), strict=True):
        chosen = [setting for key, setting in of.items() if f"beta {beta:g}," in key]
        x, y = ([setting[name]["held"] for setting in chosen] for name in ("student", "gamma"))
        ax.plot(x, y, **{**look, "linestyle": "none"}, alpha=0.7, label=f"β = {beta:g}" if beta else "uniform")
    ax.axhline(0.95, color="k", lw=0.8)
    ax.axvline(0.95, color="k", lw=0.8)
    low = min(0.8, *(setting["student"]["held"] for setting in of.values()))
    ax.set(xlabel="share of trials in which Student's interval holds the risk", xlim=(low - 0.03, 1.01))
    ax.set(ylabel="share in which the mid-p gamma interval holds it")
    ax.set_ylim(min(0.85, *(setting["gamma"]["held"] for setting in of.values())) - 0.01, 1.01)
    ax.legend(loc="lower left")
    return figure


if __name__ == "__main__":
    study.main(sys.modules[__name__])
