"""Batches that keep apart: which score, coldness, diversity and space, chosen on some tables and reported on others.

Every arm runs on the tables of the first half. For each model the best sampler alone, the best with distances between
embeddings and the best with distances between gradients go on to the second half, beside the methods they are compared
with. The mean over the tables is what counts, a table being the unit of its interval. Each table and model is an
experiment with a file of its own in OUT/rounds, so the study can be stopped at any time and goes on where it was.

The results have arms "β=auto", of a rule that set β and has been dropped since; a new run leaves them out.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import study
from many_tables import MODELS, N_DRAWS, model, rows

from skactive import BADGEQuery, BatchBALDQuery, KCenterQuery, StochasticBatchQuery
from skactive._utils.statistics import Estimate, estimate
from skactive.plotting import _drawing as drawing

TITLE = "Batches that keep apart"
ALT = (
    "Dot plots of accuracy minus BADGE's for a forest, a logistic regression and a net: batches that keep apart "
    "are level with BADGE or a little above; uniform is below."
)

FIRST_HALF = ["BEPS", "Chile", "credit_data", "digits", "hpc_data", "letter", "satellite", "spambase"]
SECOND_HALF = ["HMDA", "OJ", "attrition", "cells", "email", "leaf_id_flavia", "lending_club", "wa_churn"]
SIZES: dict[str, dict[str, Any]] = {
    "smallest": {
        "n_trials": [2, 2],
        "n_repeated": 2,
        "n_rounds": 1,
        "halves": [["wine"], ["breast_cancer"]],
        "models": ["logistic"],
        "batches": [5],
        "repeated": [5],
    },
    "quick": {
        "n_trials": [2, 2],
        "n_repeated": 2,
        "n_rounds": 2,
        "halves": [["digits"], ["breast_cancer"]],
        "models": MODELS,
        "batches": [10],
        "repeated": [10],
    },
    "full": {
        "n_trials": [2, 3],
        "n_repeated": 10,
        "n_rounds": 5,
        "halves": [FIRST_HALF, SECOND_HALF],
        "models": MODELS,
        "batches": [10],
        "repeated": [10, 40],
    },
}

SPACES = ("embeddings", "gradients")
ALONE = [
    *(("margin", beta, 0, "") for beta in (1, 4, 8)),
    ("bald", 4, 0, ""),
    ("entropy", 4, 0, ""),
    ("variation_ratio", 8, 0, ""),
]
APART = [
    *(("margin", beta, gamma, space) for beta in (4, 8) for gamma in (1, 2, 4) for space in SPACES),
    *(("margin", beta, 2, "embeddings") for beta in (0, 1)),
    ("bald", 4, 2, "embeddings"),
    ("variation_ratio", 8, 2, "embeddings"),
]
OTHERS = {
    "uniform": StochasticBatchQuery("bald", sampler="uniform"),
    "margin top-k": StochasticBatchQuery("margin", "topk"),
    "BADGE": BADGEQuery(),
}
K_CENTER = {"k-center": KCenterQuery()}
BATCHBALD = {"BatchBALD": BatchBALDQuery(n_draws=N_DRAWS, max_outcomes=500)}
"""For small batches: it takes longer than all others together."""
OF_DRAWS = {"margin of draws β=4": StochasticBatchQuery("margin", beta=4, n_draws=N_DRAWS)}


def name_of(arm: tuple[Any, ...]) -> str:
    score, beta, gamma, space = arm
    return f"{score} β={beta}" + (f" γ={gamma} {space}" if gamma else "")


def query(arm: tuple[Any, ...]) -> StochasticBatchQuery:
    score, beta, gamma, space = arm
    n_draws = N_DRAWS if score == "bald" else None
    return StochasticBatchQuery(score, beta=beta, diversity=gamma, space=space or "auto", n_draws=n_draws)


ARMS = {name_of(arm): query(arm) for arm in [*ALONE, *APART]}


def compared(
    places: study.Places, half: int, name: str, table: str, queries: dict[str, Any], batch: int, size: Any
) -> dict[str, list[float]]:
    """Mean accuracy over acquisitions of each trial, for one table and model."""
    X, y = rows(table, places)
    n_initial = max(20, len(np.unique(y)))
    most = (len(y) * 2 // 3 - n_initial) // batch
    result = places.compare(
        f"repulsion-{half + 1}-{table}-{name}-{batch}",
        model(name),
        queries,
        X,
        y,
        n_initial=n_initial,
        batch_size=batch,
        n_rounds=min(size.n_rounds if batch <= 10 else 4, most),
        n_trials=size.n_trials[half],
        test_size=1 / 3,
    )
    return study.means(result)


def best(found: Mapping[str, Mapping[str, Sequence[float]]], names: Sequence[str]) -> str:
    """The arm of the largest mean over tables."""
    return max(names, key=lambda arm: np.mean([np.mean(values[arm]) for values in found.values()]))


def chosen(found: Mapping[str, Any]) -> dict[str, str]:
    """The best arms of the first half, by what they are the best of."""
    return {
        "alone": best(found, [name_of(arm) for arm in ALONE]),
        "embeddings": best(found, [name_of(arm) for arm in APART if arm[3] == "embeddings"]),
        "gradients": best(found, [name_of(arm) for arm in APART if arm[3] == "gradients"]),
    }


def run(size: Any, places: study.Places) -> dict[str, Any]:
    first: dict[str, Any] = {}
    second: dict[str, Any] = {}
    picks: dict[str, Any] = {}
    for name in size.models:
        first[name] = {
            table: compared(places, 0, name, table, OTHERS | OF_DRAWS | ARMS, size.batches[0], size)
            for table in size.halves[0]
        }
        picks[name] = chosen(first[name])
    single = best({f"{m} {t}": v for m, of in first.items() for t, v in of.items()}, [name_of(arm) for arm in APART])
    for batch in size.batches:
        for name in size.models:
            kept = dict.fromkeys([*picks[name].values(), single])
            queries = OTHERS | K_CENTER | (BATCHBALD if batch <= 10 else {}) | {arm: ARMS[arm] for arm in kept}
            second[f"{name} {batch}"] = {
                table: compared(places, 1, name, table, queries, batch, size) for table in size.halves[1]
            }
    found = {"first": first, "chosen": picks, "single": single, "second": second}
    return found | {"repeated": on_repeated(places, picks["net"], single, size) if "net" in picks else {}}


def on_repeated(places: study.Places, picks: dict[str, str], single: str, size: Any) -> dict[str, Any]:
    """Four noisy copies of each digit, and a net: mean accuracy over acquisitions, by the size of batches."""
    n_trials = size.n_repeated
    X, y, splits = study.repeated_digits(n_trials)
    queries = OTHERS | {arm: ARMS[arm] for arm in dict.fromkeys([*picks.values(), single])}
    found = {}
    for batch in size.repeated:
        options = {"splits": splits, "n_trials": n_trials, "n_rounds": size.n_rounds if batch <= 10 else 4}
        name = f"repulsion-repeated-{batch}"
        result = places.compare(name, study.digits_net(), queries, X, y, n_initial=20, batch_size=batch, **options)
        found[str(batch)] = study.means(result)
    return found


def over_tables(found: Mapping[str, Any], arm: str, reference: str | None = None) -> Estimate:
    """Mean over tables, in points, of an arm or of its difference to another, with the interval over tables."""
    return estimate(
        100 * (np.mean(values[arm]) - (np.mean(values[reference]) if reference else 0)) for values in found.values()
    )


def over_trials(found: Mapping[str, Sequence[float]], arm: str, reference: str) -> Estimate:
    """Mean difference of paired trials, in points."""
    return estimate(100 * (a - b) for a, b in zip(found[arm], found[reference], strict=True))


def claims(findings: dict[str, Any]) -> list[study.Claim]:
    made = []
    for key, found in findings["second"].items():
        name, batch = key.split()
        picks = findings["chosen"][name]
        apart = picks["embeddings"]
        n_trials = len(next(iter(found.values()))["BADGE"])
        setting = f"{name}, {len(found)} tables, {n_trials} trials each, batches of {batch}"
        means = {arm: [float(np.mean(values[arm])) for values in found.values()] for arm in next(iter(found.values()))}
        for reference in ("BADGE", picks["alone"], "margin top-k", "uniform"):
            made.append(study.better(f"{apart} is better than {reference}", setting, means, apart, reference))
    for batch, means in findings["repeated"].items():
        apart = findings["chosen"]["net"]["embeddings"]
        setting = f"digits, four noisy copies, net, batches of {batch}"
        for reference in ("BADGE", findings["chosen"]["net"]["alone"], "uniform"):
            made.append(study.better(f"{apart} is better than {reference}", setting, means, apart, reference))
    return made


def tables(findings: dict[str, Any]) -> list[tuple[str, list[str], list[list[str]]]]:
    """All arms on the first half, by model; those that went on, beside the others, on the second half."""
    names = list(findings["first"])
    arms = list(next(iter(next(iter(findings["first"].values())).values())))
    first = [
        [arm, *(study.with_interval(over_tables(findings["first"][name], arm), 1) for name in names)] for arm in arms
    ]
    made = [
        (
            "Mean accuracy over acquisitions on the first half, points; the interval is over tables",
            ["arm", *names],
            first,
        )
    ]
    for key, found in findings["second"].items():
        lines = [
            [
                arm,
                study.with_interval(over_tables(found, arm), 1),
                *(
                    "" if arm == other else study.with_interval(over_tables(found, arm, other), 1, sign=True)
                    for other in ("BADGE", "uniform")
                ),
            ]
            for arm in next(iter(found.values()))
        ]
        name, batch = key.split()
        made.append(
            (f"The second half: {name}, batches of {batch}", ["arm", "accuracy", "minus BADGE", "minus uniform"], lines)
        )
    for batch, found in findings["repeated"].items():
        lines = [
            [
                arm,
                study.with_interval(estimate(100 * v for v in values), 1),
                *(
                    "" if arm == other else study.with_interval(over_trials(found, arm, other), 1, sign=True)
                    for other in ("BADGE", "uniform")
                ),
            ]
            for arm, values in found.items()
        ]
        caption = f"Four noisy copies of each digit, net, batches of {batch}; the interval is over trials"
        made.append((caption, ["arm", "accuracy", "minus BADGE", "minus uniform"], lines))
    return made


def guide(findings: dict[str, Any]) -> str:
    """What the guide says."""
    parts = []
    for key, found in findings["second"].items():
        name, batch = key.split()
        apart, alone = (findings["chosen"][name][of] for of in ("embeddings", "alone"))
        minus = "; ".join(
            f"minus {what} {study.with_interval(over_tables(found, apart, other), 1, sign=True)}"
            for what, other in (("BADGE", "BADGE"), (f"the sampler alone ({alone})", alone), ("uniform", "uniform"))
        )
        parts.append(f"* {name}, batches of {batch}, {apart}: {minus}.")
    for batch, found in findings["repeated"].items():
        apart, alone = (findings["chosen"]["net"][of] for of in ("embeddings", "alone"))
        minus = "; ".join(
            f"minus {what} {study.with_interval(over_trials(found, apart, other), 1, sign=True)}"
            for what, other in (("BADGE", "BADGE"), (f"the sampler alone ({alone})", alone), ("uniform", "uniform"))
        )
        parts.append(f"* four noisy copies of each digit, net, batches of {batch}, {apart}: {minus}.")
    n_first, n_second = (len(next(iter(findings[half].values()))) for half in ("first", "second"))
    head = (
        f"The arms were chosen on {n_first} tables, and are reported here on {n_second} others (mean accuracy over "
        "acquisitions, in points, with 95 % intervals over tables or, for digits, over trials):"
    )
    has_auto = any("auto" in arm for picks in findings["chosen"].values() for arm in picks.values())
    single = findings["single"]
    of_single = "; ".join(
        f"{key.split()[0]}: minus BADGE {study.with_interval(over_tables(found, single, 'BADGE'), 1, sign=True)}, "
        f"minus uniform {study.with_interval(over_tables(found, single, 'uniform'), 1, sign=True)}"
        for key, found in findings["second"].items()
    )
    tail = (
        f"If one setting has to do for all models, take the one that was best over all of them on the first tables, "
        f"{single}. On the others it had: {of_single}. :ref:`The study <repulsion>` has all arms."
        + (" (β=auto is a rule that has been :ref:`dropped <tried_and_dropped>` since.)" if has_auto else "")
    )
    return "\n\n".join([head, *parts, tail])


def draw(findings: dict[str, Any]) -> Any:
    """Differences to BADGE on the second half, a panel for each model and size of batch."""
    second = findings["second"]
    figure, axes = study.panels(len(second), 1, 1.9, sharex=True)
    apart, others = drawing.styles(2)
    for ax, (key, found) in zip(axes.flat, second.items(), strict=False):
        arms = [arm for arm in next(iter(found.values())) if arm != "BADGE"]
        rows = {arm: over_tables(found, arm, "BADGE") for arm in arms}
        study.draw_intervals(ax, rows, {arm: apart if "γ" in arm else others for arm in arms})
        name, batch = key.split()
        ax.set_title(f"{name}, batches of {batch}")
    axes.flat[len(second) - 1].set_xlabel("accuracy minus BADGE's, points, with 95 % intervals")
    return figure


if __name__ == "__main__":
    study.main(sys.modules[__name__])
