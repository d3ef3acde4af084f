"""Repeated-digits: who buys near-duplicates, and what that costs. A net with dropout, and a random forest.

BatchBALD buys 5 labels at once, all others 10, as in the paper.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import study
from sklearn.ensemble import RandomForestClassifier

from skactive import BADGEQuery, BatchBALDQuery
from skactive._utils.statistics import estimate

TITLE = "Repeated-digits: the paper's main figure and the accuracies of its Table 1"
ALT = (
    "Left: learning curves of a net and a forest on repeated digits; for the net top-k is lowest. Right: mean "
    "accuracy minus uniform's with intervals; for the net soft-rank, power with β = 4, BADGE and BatchBALD are "
    "surely above 0."
)

SIZES: dict[str, dict[str, Any]] = {
    "smallest": {"n_trials": 2, "n_rounds": 1, "models": ["net", "forest"]},
    "quick": {"n_trials": 3, "n_rounds": 4, "models": ["net", "forest"]},
    "full": {"n_trials": 10, "n_rounds": 8, "models": ["net", "forest"]},
}
N_INITIAL = 20
N_DRAWS = 40
EARLY = range(N_INITIAL + 10, 70, 10)

MODELS: dict[str, Any] = {"net": study.digits_net(), "forest": RandomForestClassifier(N_DRAWS)}
QUERIES: dict[str, Any] = {
    "uniform": study.sampled("bald", sampler="uniform", n_draws=2),  # its scores are not looked at
    "topk": study.sampled("bald", sampler="topk", n_draws=N_DRAWS),
    "power": study.sampled("bald", beta=1.0, n_draws=N_DRAWS),
    "power β=4": study.sampled("bald", beta=4.0, n_draws=N_DRAWS),
    "softmax": study.sampled("bald", sampler="softmax", beta=1.0, n_draws=N_DRAWS),
    "softrank": study.sampled("bald", sampler="softrank", beta=1.0, n_draws=N_DRAWS),
    "BADGE": BADGEQuery(),
    "BatchBALD": BatchBALDQuery(n_draws=N_DRAWS),
}
BATCH_SIZES = {"BatchBALD": 5}
NAMES = {"topk": "top-k", "power": "power β=1", "softmax": "softmax β=1", "softrank": "soft-rank β=1"}


def run(size: Any, places: study.Places) -> dict[str, Any]:
    X, y, splits = study.repeated_digits(size.n_trials)
    labels = [N_INITIAL + 10 * (i + 1) for i in range(size.n_rounds)]
    options = {"splits": splits, "n_initial": N_INITIAL, "n_trials": size.n_trials}
    found: dict[str, Any] = {}
    for model in size.models:
        found[model] = {"means": {}, "early": {}, "curves": {}}
        for batch_size in (10, 5):
            queries = {name: query for name, query in QUERIES.items() if BATCH_SIZES.get(name, 10) == batch_size}
            name = f"repeated_digits-{model}-{batch_size}"
            sizes = {"batch_size": batch_size, "n_rounds": 10 * size.n_rounds // batch_size}
            result = places.compare(name, MODELS[model], queries, X, y, **sizes, **options)
            found[model]["means"] |= study.means(result, at=labels)
            found[model]["early"] |= study.means(result, at=EARLY)
            found[model]["curves"] |= study.curves(result)
    return found


def claims(findings: dict[str, Any]) -> list[study.Claim]:
    return [claim for model, found in findings.items() for claim in _claims_of(model, found)]


def _claims_of(model: str, found: dict[str, Any]) -> list[study.Claim]:
    means, early = found["means"], found["early"]
    last = max(int(n) for n in found["curves"]["power"])
    setting = f"digits, four noisy copies, {model}, BALD, {N_INITIAL} to {last} labels, 10 a batch, mean accuracy"
    setting_5 = f"{setting}; BatchBALD 5 a batch"
    return [
        study.better("Power sampling is better than top-k", setting, means, "power", "topk"),
        study.better("Power sampling is better than uniform", setting, means, "power", "uniform"),
        study.better("Top-k starts worse than uniform", f"{setting} up to {EARLY[-1]}", early, "uniform", "topk"),
        study.better("Soft-rank sampling is better than top-k", setting, means, "softrank", "topk"),
        study.better("Power sampling is better than softmax sampling", setting, means, "power", "softmax"),
        study.better("A colder power (β = 4) is better still", setting, means, "power β=4", "power"),
        study.alike("Power sampling is as good as BatchBALD", setting_5, means, "power", "BatchBALD"),
        study.alike("Power sampling is as good as BADGE, or better", setting, means, "power", "BADGE"),
        table_1(setting_5, means),
    ]


def table_1(setting: str, means: Mapping[str, Sequence[float]]) -> study.Claim:
    """Seen if each of the paper's differences of several points has an interval on its side of zero."""
    shown = ", ".join(f"{query} {_percent(means[query])}" for query in ("topk", "power", "BatchBALD", "BADGE"))
    pairs = (("power", "topk"), ("BatchBALD", "topk"), ("BADGE", "topk"), ("power", "BADGE"))
    values = [np.subtract(means[better], means[worse]) for better, worse in pairs]
    differences = [estimate(of) for of in values]
    if all(d.low > 0 for d in differences):
        verdict = "seen"
    else:
        verdict = "not seen" if any(d.high <= 0 for d in differences) else "cannot be told"
    statement = "Mean accuracy (Table 1): top-k 80 %, power 90 %, BatchBALD 90 %, BADGE 86 %"
    return study.Claim(statement, setting, len(means["power"]), shown, verdict, study.p_value(*values))


def draw(findings: dict[str, Any]) -> Any:
    """Curves, and mean differences to uniform."""
    figure, axes = study.panels(2 * len(findings), 2, 3.4, width_ratios=[1.4, 1])
    shown = [query for query in QUERIES if query not in ("power β=4", "softmax")]
    for (left, right), (model, found) in zip(axes, findings.items(), strict=True):
        study.draw_curves(left, {query: found["curves"][query] for query in shown}, "accuracy", **NAMES)
        left.set_title(f"{model}: accuracy")
        left.legend(loc="lower right")
        study.draw_differences(right, found["means"], list(QUERIES)[1:], "uniform", **NAMES)
        right.set(title=f"{model}: mean minus uniform's", xlabel="points, with 95 % intervals")
    return figure


def tables(findings: dict[str, Any]) -> list[tuple[str, tuple[str, ...], list[tuple[str, ...]]]]:
    """Mean accuracies, as the paper's Table 1 has them for four of the queries."""
    rows = [
        (NAMES.get(query, query), *(_percent(found["means"][query]) for found in findings.values()))
        for query in QUERIES
    ]
    return [("Mean accuracy over acquisitions, in percent", ("query", *findings), rows)]


def _percent(values: Sequence[float]) -> str:
    return study.with_interval(estimate(100 * value for value in values), 1)


if __name__ == "__main__":
    study.main(sys.modules[__name__])
