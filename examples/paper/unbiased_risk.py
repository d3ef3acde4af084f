"""How good a model is, from labels that a query chose: LURE against the mean over those labels, and against chance.

A model is fitted to few labels. Its error rate and log loss on the rest are known here, and estimated from purchases by
several queries, in rounds from a shrinking pool, many times over.
"""

from __future__ import annotations

import functools
import sys
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import study
from sklearn.datasets import load_digits
from sklearn.ensemble import RandomForestClassifier
from sklearn.model_selection import train_test_split

from skactive import StochasticBatchQuery
from skactive.plotting import _drawing as drawing
from skactive.query import score_pool
from skactive.risk import LOSSES, estimate_risk

TITLE = "Unbiased risk from chosen labels"
ALT = (
    "Estimates of a risk from rows that were chosen, two data sets and two losses: the plain mean over the rows "
    "bought lies above the pool's risk, dashed, and LURE's estimates lie around it."
)

SIZES: dict[str, dict[str, Any]] = {
    "smallest": {"n_trials": 20, "sets": ["digits"]},
    "quick": {"n_trials": 100, "sets": ["digits"]},
    "full": {"n_trials": 400, "sets": ["digits", "satellite"]},
}
MOST_ROWS, N_TRAIN, N_ROUNDS, BATCH_SIZE = 2_000, 120, 5, 20

# Score, sampler, beta, epsilon. The first two serve to test a model, the next two are what one buys training labels by.
QUERIES: dict[str, tuple[str, str, float, float]] = {
    "uniform": ("entropy", "uniform", 1.0, 0.0),
    "variation ratio, β=0.5": ("variation_ratio", "power", 0.5, 0.1),
    "BALD, β=1": ("bald", "power", 1.0, 0.1),
    "BALD, β=4": ("bald", "power", 4.0, 0.1),
    "BALD, β=1, ε=0": ("bald", "power", 1.0, 0.0),
}
NAMES = {"zero_one": "error rate", "log_loss": "log loss"}


def rows(name: str, places: study.Places) -> tuple[Any, Any]:
    X, y = load_digits(return_X_y=True) if name == "digits" else study.table(places, name)
    X, y = np.asarray(X, dtype=np.float64), np.asarray(y).astype(str)
    if len(y) > MOST_ROWS:
        X, _, y, _ = train_test_split(X, y, train_size=MOST_ROWS, stratify=y, random_state=0)
    return X, y


def purchases(scores: Any, sampler: str, beta: float, epsilon: float, rng: np.random.Generator) -> tuple[Any, Any]:
    """Rows bought over some rounds, and the log-probability of each, with scores that are kept."""
    query = StochasticBatchQuery("entropy", sampler, beta, epsilon=epsilon, random_state=rng)
    left = np.arange(len(scores))
    bought, log_proba = [], []
    for _ in range(N_ROUNDS):
        batch = query.select_scored(scores[left], BATCH_SIZE)
        bought.append(left[batch])
        log_proba.append(query.log_proba_)
        left = np.delete(left, batch)
    return np.concatenate(bought), np.concatenate(log_proba)


def estimates(buy: Callable[[], tuple[Any, Any]], losses: dict[str, Any], n_trials: int) -> dict[str, Any]:
    """By loss: the pool's, and over the trials the naive means, the estimates, and whether their intervals hold."""
    found: dict[str, Any] = {name: {"naive": [], "lure": [], "holds": []} for name in losses}
    for _ in range(n_trials):
        bought, log_proba = buy()
        for name, of_rows in losses.items():
            estimate = estimate_risk(of_rows[bought], log_proba, len(of_rows), largest_loss=of_rows.max())
            low, high = estimate.interval()
            found[name]["naive"].append(round(float(of_rows[bought].mean()), 5))
            found[name]["lure"].append(round(estimate.value, 5))
            found[name]["holds"].append(int(low <= of_rows.mean() <= high))
    return {name: {"risk": float(losses[name].mean()), **values} for name, values in found.items()}


def run(size: Any, places: study.Places) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name in size.sets:
        X, y = rows(name, places)
        X_train, X, y_train, y = train_test_split(X, y, train_size=N_TRAIN, stratify=y, random_state=0)
        model = RandomForestClassifier(20, min_samples_leaf=2, random_state=0).fit(X_train, y_train)
        losses = {loss: LOSSES[loss](model, X, y) for loss in NAMES}
        # A forest of twenty is sure of rows that it gets wrong: the log loss of probabilities not quite 0 and 1.
        losses["log_loss"] = -np.log(0.02 / len(model.classes_) + 0.98 * np.exp(-losses["log_loss"]))
        scores = score_pool(model, X, ["bald", "entropy", "variation_ratio"], random_state=0)
        for query, (score, *law) in QUERIES.items():
            buy = functools.partial(purchases, scores[score], *law, np.random.default_rng(1))
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of losses that are all equal
                found[f"{name}: {query}"] = estimates(buy, losses, size.n_trials)
    return found


def claims(findings: dict[str, Any]) -> list[study.Claim]:
    """Over all settings of one kind; each number is in the table."""
    n = len(next(iter(findings.values()))["zero_one"]["lure"])
    sure = {key: by_loss for key, by_loss in findings.items() if not key.endswith("ε=0")}
    told = f"forest, {N_ROUNDS} rounds of {BATCH_SIZE}; queries {', '.join(QUERIES)}; error rate and log loss"
    return [
        _bias("LURE's mean is the pool's risk", told, n, _all_z(sure, "lure"), wanted=False),
        _bias(
            "The mean over the chosen rows is not the pool's risk",
            told,
            n,
            _all_z({key: by_loss for key, by_loss in sure.items() if "uniform" not in key}, "naive"),
            wanted=True,
        ),
        _coverage("95 % intervals of the error rate hold it in 90 to 99 % of the cases", told, n, sure, "zero_one"),
        _coverage("95 % intervals of the log loss hold it in 90 to 99 % of the cases", told, n, sure, "log_loss"),
    ]


def _all_z(findings: dict[str, Any], kind: str) -> list[float]:
    """How many standard errors each mean over trials is away from the pool's risk."""
    found = []
    for by_loss in findings.values():
        for values in by_loss.values():
            of_trials = np.array(values[kind])
            error = of_trials.std(ddof=1) / np.sqrt(len(of_trials))
            found.append(float(abs(of_trials.mean() - values["risk"]) / error))
    return found


def _bias(statement: str, setting: str, n_trials: int, z: list[float], *, wanted: bool) -> study.Claim:
    """Within two standard errors is within chance: one setting of twenty is beyond, and none beyond 3.5."""
    beyond = sum(value > 2 for value in z)
    ours = f"{beyond} of {len(z)} settings are more than two standard errors off, the furthest {max(z):.1f}"
    by_chance = beyond <= max(1, round(0.1 * len(z))) and max(z) < 3.5
    seen = beyond == len(z) if wanted else by_chance
    return study.Claim(statement, setting, n_trials, ours, "seen" if seen else "not seen")


def _coverage(statement: str, setting: str, n_trials: int, findings: dict[str, Any], loss: str) -> study.Claim:
    covered = {key: float(np.mean(by_loss[loss]["holds"])) for key, by_loss in findings.items()}
    inside = sum(0.9 <= value <= 0.99 for value in covered.values())
    worst = min(covered, key=lambda key: covered[key])
    ours = f"{inside} of {len(covered)} settings; {min(covered.values()):.1%} ({worst}) to {max(covered.values()):.1%}"
    return study.Claim(statement, setting, n_trials, ours, "seen" if inside == len(covered) else "not seen")


def tables(findings: dict[str, Any]) -> list[Any]:
    header = ["data: query", "loss", "pool", "naive mean", "LURE", "spread of LURE", "coverage"]
    body = [
        [
            setting,
            NAMES[loss],
            f"{values['risk']:.3f}",
            f"{np.mean(values['naive']):.3f}",
            f"{np.mean(values['lure']):.3f}",
            f"{np.std(values['lure'], ddof=1):.3f}",
            f"{np.mean(values['holds']):.1%}",
        ]
        for setting, by_loss in findings.items()
        for loss, values in by_loss.items()
    ]
    return [("Estimates from 100 labels", header, body)]


def draw(findings: dict[str, Any]) -> Any:
    """Estimates of both kinds around the pool's risk."""
    sets = list(dict.fromkeys(setting.split(": ")[0] for setting in findings))
    figure, axes = study.panels(len(sets) * len(NAMES), len(NAMES), 2.8, sharey=True)
    for row, name in zip(axes, sets, strict=True):
        for ax, loss in zip(row, NAMES, strict=True):
            for i, query in enumerate(QUERIES):
                _draw_estimates(ax, i, findings[f"{name}: {query}"][loss])
            ax.axvline(findings[f"{name}: uniform"][loss]["risk"], color="k", lw=1, ls="--")
            ax.set_title(f"{name}: {NAMES[loss]}\n(right: how often LURE's interval holds it)")
            ax.set_yticks(range(len(QUERIES)), list(QUERIES))
            ax.set_ylim(len(QUERIES) - 0.5, -0.5)
            ax.grid(visible=False, axis="y")
    study.legend_above(figure, axes[0, 0])
    return figure


def _draw_estimates(ax: Any, row: int, values: dict[str, Any]) -> None:
    kinds = {"naive": "mean over the rows bought", "lure": "LURE; bars: middle 95 % of the trials"}
    for (kind, label), look, shift in zip(kinds.items(), drawing.styles(2)[::-1], (-0.17, 0.17), strict=True):
        low, high = np.percentile(values[kind], [2.5, 97.5])
        ax.plot([low, high], [row + shift] * 2, color=look["color"], lw=2, alpha=0.6)
        point = {"color": look["color"], "label": None if row else label}
        ax.plot(np.mean(values[kind]), row + shift, look["marker"], **point)
    beside = {"transform": ax.get_yaxis_transform(), "fontsize": "small", "va": "center"}
    ax.text(1.01, row + 0.17, f"{np.mean(values['holds']):.0%}", color=drawing.COLOURS[0], **beside)


if __name__ == "__main__":
    study.main(sys.modules[__name__])
