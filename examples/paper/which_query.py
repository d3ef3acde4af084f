"""Which query? Scores, samplers and coldness on many tables, by three families of models, against other methods.

Every query buys from the same first labels; a table is the unit: each of its numbers is the mean over trials, and
intervals are over tables. Each table and model is an experiment with a file of its own in OUT/rounds, so the study can
be stopped at any time and goes on where it was; more trials can be added to those that are there.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import study
from many_tables import MODELS, N_DRAWS, model, rows
from scipy.stats import ttest_1samp

from skactive import BADGEQuery, KCenterQuery, StochasticBatchQuery
from skactive._utils.statistics import Estimate, estimate, holm
from skactive.plotting import _drawing as drawing

TITLE = "Which query?"
ALT = (
    "Dot plots of accuracy minus uniform's for 16 queries and three families of models: sampled margins come "
    "first, about 1 point above for forests and nearly 2 for others; k-center and top-k of entropy and BALD come "
    "last."
)

AT_HAND = ["breast_cancer", "credit_data", "digits", "hpc_data", "letter", "satellite", "shuttle", "soybean"]
TABLES = [
    *AT_HAND,
    *("spambase", "vehicle", "Arrests", "BEPS", "Caravan", "Chile", "HMDA", "OJ", "SmokeBan", "Weekly", "attrition"),
    *("cells", "diamonds", "email", "headInjury", "leaf_id_flavia", "lending_club", "mlc_churn", "monica", "nassCDS"),
    "wa_churn",
]
SIZES: dict[str, dict[str, Any]] = {
    "smallest": {"n_trials": 1, "n_rounds": 1, "tables": ["breast_cancer", "wine"], "models": ["logistic"]},
    "quick": {"n_trials": 1, "n_rounds": 2, "tables": ["breast_cancer", "digits"], "models": MODELS},
    "full": {"n_trials": 3, "n_rounds": 6, "tables": TABLES, "models": MODELS},
}

BETAS = (1, 4, 16)
SAMPLED: dict[str, Any] = {
    **{f"BALD, beta {beta}": StochasticBatchQuery("bald", beta=beta, n_draws=N_DRAWS) for beta in BETAS},
    **{f"margin, beta {beta}": StochasticBatchQuery("margin", beta=beta) for beta in BETAS},
    **{f"variation ratio, beta {beta}": StochasticBatchQuery("variation_ratio", beta=beta) for beta in (4, 16)},
    "entropy, beta 4": StochasticBatchQuery("entropy", beta=4),
    "margin, soft-rank": StochasticBatchQuery("margin", "softrank", beta=1.0),
    "margin, beta 4, apart": StochasticBatchQuery("margin", beta=4, diversity=2),
}
OTHERS: dict[str, Any] = {
    "uniform": StochasticBatchQuery("bald", sampler="uniform"),
    "BALD, top-k": StochasticBatchQuery("bald", "topk", n_draws=N_DRAWS),
    "margin, top-k": StochasticBatchQuery("margin", "topk"),
    "entropy, top-k": StochasticBatchQuery("entropy", "topk"),
    "BADGE": BADGEQuery(),
    "k-center": KCenterQuery(),
}
QUERIES = SAMPLED | OTHERS
REFERENCES = ("uniform", "BADGE", "margin, top-k")


def compared(places: study.Places, table: str, name: str, size: Any) -> dict[str, list[float]]:
    """Mean accuracy over acquisitions of each trial, for one table and model."""
    X, y = rows(table, places)
    n_initial = max(20, len(np.unique(y)))
    options = {"n_initial": n_initial, "batch_size": 10, "n_rounds": size.n_rounds, "n_trials": size.n_trials}
    most = (len(y) * 2 // 3 - n_initial) // 10
    options["n_rounds"] = min(size.n_rounds, most)
    result = places.compare(f"which-{table}-{name}", model(name), QUERIES, X, y, test_size=1 / 3, **options)
    return study.means(result)


def run(size: Any, places: study.Places) -> dict[str, Any]:
    found: dict[str, Any] = {name: {} for name in size.models}
    for table in size.tables:
        for name in size.models:
            found[name][table] = compared(places, table, name, size)
    return {"means": found}


def by_table(found: Mapping[str, Any], query: str) -> list[float]:
    """Mean accuracy of each table, in points."""
    return [100 * float(np.mean(values[query])) for values in found.values()]


def over_families(means: Mapping[str, Any], query: str) -> list[float]:
    """Mean over families of each table, in points."""
    return [float(v) for v in np.mean([by_table(found, query) for found in means.values()], axis=0)]


def minus(values: Sequence[float], reference: Sequence[float]) -> Estimate:
    return estimate(a - b for a, b in zip(values, reference, strict=True))


DEFAULT = "margin, beta 4"
"""What StochasticBatchQuery does if it is told nothing."""


def worse_than_uniform(means: Mapping[str, Any], query: str) -> list[str]:
    """Pairs of table and family in which a query is significantly worse than uniform, after Holm over all pairs."""
    pairs = {
        f"{table} {name}": np.subtract(values[query], values["uniform"])
        for name, found in means.items()
        for table, values in found.items()
    }
    by_t = [float(ttest_1samp(d, 0).pvalue) if len(d) > 1 and np.ptp(d) > 0 else np.nan for d in pairs.values()]
    return [n for (n, d), p in zip(pairs.items(), holm(by_t), strict=True) if p < 0.05 and d.mean() < 0]


def claims(findings: dict[str, Any]) -> list[study.Claim]:
    means = findings["means"]
    n_tables = len(next(iter(means.values())))
    pooled = {query: [v / 100 for v in over_families(means, query)] for query in QUERIES}
    setting = f"{n_tables} tables, mean over {len(means)} families of models; batches of 10"
    made = [
        study.better(f"The default ({DEFAULT}) is better than {other}", setting, pooled, DEFAULT, other)
        for other in ("uniform", "BALD, top-k", "entropy, top-k", "margin, top-k", "margin, beta 1", "BALD, beta 1")
    ]
    for name, found in means.items():
        of_family = {query: [v / 100 for v in by_table(found, query)] for query in QUERIES}
        where = f"{n_tables} tables, {name}"
        for other in ("uniform", "margin, beta 1"):
            made.append(study.better(f"The default is better than {other}", where, of_family, DEFAULT, other))
        made.append(study.alike("The default is as good as BADGE", where, of_family, DEFAULT, "BADGE", 0.005))
    worse = worse_than_uniform(means, DEFAULT)
    text = f"worse in {len(worse)} of {n_tables * len(means)} pairs of table and family (t, Holm, p < 0.05)"
    statement = "The default is nowhere significantly worse than uniform"
    n_trials = len(next(iter(next(iter(means.values())).values()))[DEFAULT])
    made.append(study.Claim(statement, setting, n_trials, text, "the opposite" if worse else "seen"))
    made.append(study.better("Keeping apart adds to the default", setting, pooled, "margin, beta 4, apart", DEFAULT))
    return made


def guide(findings: dict[str, Any]) -> str:
    """The table of the page: the ten best over all families, and two that people would take otherwise."""
    means = findings["means"]
    ranked = sorted(QUERIES, key=lambda q: -float(np.mean(over_families(means, q))))
    kept = [*ranked[:8], *(q for q in ("BADGE", "BALD, beta 1", "BALD, top-k", "uniform") if q not in ranked[:8])]
    head = ["query", *(f"{name}" for name in means), "minus uniform", "minus BADGE"]
    lines = [".. list-table::", "   :header-rows: 1", ""]
    for row in [head, *([q, *_cells(means, q)] for q in kept)]:
        lines += [f"   {'*' if i == 0 else ' '} - {cell}".rstrip() for i, cell in enumerate(row)]
    n_trials = len(next(iter(next(iter(means.values())).values()))["uniform"])
    text = (
        f"Mean accuracy over acquisitions in points, {len(next(iter(means.values())))} tables, {n_trials} trials each, "
        "six batches of ten; differences are means over the families, with 95 % intervals over tables. "
        ":ref:`All queries, and the verdicts <which_query>`."
    )
    return "\n".join(lines) + "\n\n" + text


def _cells(means: Mapping[str, Any], query: str) -> list[str]:
    values = over_families(means, query)
    cells = [f"{np.mean(by_table(found, query)):.1f}" for found in means.values()]
    for other in ("uniform", "BADGE"):
        found = minus(values, over_families(means, other))
        cells.append("" if query == other else study.with_interval(found, 1, sign=True))
    return cells


def tables(findings: dict[str, Any]) -> list[tuple[str, list[str], list[list[str]]]]:
    """All queries, best first: over the families, and in each."""
    means = findings["means"]
    parts = {"mean of the families": {query: over_families(means, query) for query in QUERIES}}
    parts |= {name: {query: by_table(found, query) for query in QUERIES} for name, found in means.items()}
    made = []
    for name, values in parts.items():
        lines = [
            [
                query,
                f"{np.mean(values[query]):.1f}",
                *(
                    "" if query == other else study.with_interval(minus(values[query], values[other]), 1, sign=True)
                    for other in REFERENCES
                ),
            ]
            for query in sorted(QUERIES, key=lambda q: -float(np.mean(values[q])))
        ]
        caption = f"{name.capitalize()}: mean accuracy over acquisitions, points; intervals are over tables"
        made.append((caption, ["query", "accuracy", *(f"minus {other}" for other in REFERENCES)], lines))
    return made


def draw(findings: dict[str, Any]) -> Any:
    """Differences to uniform, a panel for each family."""
    means = findings["means"]
    figure, axes = study.panels(len(means), 3, 4.8, sharey=True)
    order = sorted((q for q in QUERIES if q != "uniform"), key=lambda q: -float(np.mean(over_families(means, q))))
    sampled, others = drawing.styles(2)
    for ax, (name, found) in zip(axes.flat, means.items(), strict=False):
        rows = {query: minus(by_table(found, query), by_table(found, "uniform")) for query in order}
        study.draw_intervals(ax, rows, {query: sampled if query in SAMPLED else others for query in order})
        ax.set_title(name)
    figure.supxlabel(
        "accuracy minus uniform's, points, with 95 % intervals (discs: sampled, squares: not)", fontsize="medium"
    )
    return figure


if __name__ == "__main__":
    study.main(sys.modules[__name__])
