"""Which query? Scores, samplers, coldness and distances on many tables, by families of models, against other methods.

Four parts: tables of classes in batches of ten, twenty and five, and tables of numbers. All queries buy from the same
first labels; a table is the unit: each of its numbers is the mean over trials, and intervals are over
tables. Each table and model is an experiment with a file of its own in OUT/rounds, so the study can be stopped at any
time and goes on where it was; more trials can be added to those that are there.

The default is "margin, beta 4, apart" for a logistic regression and a net, "margin, beta 4" for a forest, "std_dev,
beta 4, apart" for a forest and a Gaussian process of numbers, and "std_dev, beta 4" for a net of numbers. It was
settled on 58 tables measured outside the project, none of which is here. Batches of ten were run earlier, for
accuracy alone.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import study
from many_tables import MODELS, N_DRAWS, NUMBERS, REGRESSORS, TABLES, model, regressor, rows, rows_of_numbers
from scipy.stats import ttest_1samp
from sklearn.metrics import accuracy_score, balanced_accuracy_score, mean_absolute_error, r2_score

from skactive import BADGEQuery, KCenterQuery, StochasticBatchQuery
from skactive._utils.statistics import Estimate, estimate, holm
from skactive.plotting import _drawing as drawing

TITLE = "Which query?"
ALT = (
    "Dot plots of differences to uniform: in accuracy the default is 1.6 to 1.7 points above for batches of 5, 10 and "
    "20, level with margins sampled otherwise and BADGE; in log-likelihood it is above margins not kept apart, "
    "and not told from uniform; in R2 it is 5 points above."
)

SIZES: dict[str, dict[str, Any]] = {
    "smallest": {"n_trials": 1, "n_rounds": 1, "tables": ["breast_cancer"], "numbers": [], "families": 1},
    "quick": {"n_trials": 1, "n_rounds": 3, "tables": TABLES[:10], "numbers": list(NUMBERS)[:3], "families": 3},
    "full": {"n_trials": 3, "n_rounds": 6, "tables": TABLES, "numbers": list(NUMBERS), "families": 3},
}


def sampled(score: str, beta: float, **options: Any) -> StochasticBatchQuery:
    return StochasticBatchQuery(score, beta=beta, **{"diversity": 0.0, **options})


FEW: dict[str, Any] = {
    "uniform": sampled("margin", 4, sampler="uniform"),
    "margin, beta 4": sampled("margin", 4),
    "margin, beta 4, apart": sampled("margin", 4, diversity=2.0),
    "margin, top-k": sampled("margin", 1, sampler="topk"),
    "BADGE": BADGEQuery(),
}
"""Queries of all parts with classes."""
MANY: dict[str, Any] = FEW | {
    **{f"BALD, beta {beta}": sampled("bald", beta, n_draws=N_DRAWS) for beta in (1, 4, 16)},
    **{f"margin, beta {beta}": sampled("margin", beta) for beta in (1, 16)},
    **{f"variation ratio, beta {beta}": sampled("variation_ratio", beta) for beta in (4, 16)},
    "entropy, beta 4": sampled("entropy", 4),
    "margin, soft-rank": sampled("margin", 1, sampler="softrank"),
    "BALD, top-k": sampled("bald", 1, sampler="topk", n_draws=N_DRAWS),
    "entropy, top-k": sampled("entropy", 1, sampler="topk"),
    "k-center": KCenterQuery(),
}


# Two queries of distances that ask a regressor for its guesses alone


def columns_of(learner: Any, X: Any) -> np.ndarray:
    """Rows as the last step of the learner's pipeline gets them."""
    return np.asarray(learner.estimator[:-1].transform(X), dtype=float)


def distances(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    return np.sqrt(np.maximum((x**2).sum(1)[:, None] + (y**2).sum(1) - 2 * x @ y.T, 0))


def greedy_distances(learner: Any, X_pool: Any, n_instances: int = 1) -> np.ndarray:
    """iGS (Wu, Lin and Huang 2019): the row whose distance in columns times that in guesses is largest."""
    pool, known = columns_of(learner, X_pool), columns_of(learner, learner.X_training)
    guesses, labels = learner.predict(X_pool), np.asarray(learner.y_training)
    nearest = (distances(pool, known) * np.abs(guesses[:, None] - labels)).min(1)
    chosen: list[int] = []
    for _ in range(n_instances):
        row = int(nearest.argmax())
        chosen.append(row)
        nearest = np.minimum(nearest, distances(pool, pool[[row]])[:, 0] * np.abs(guesses - guesses[row]))
        nearest[chosen] = -1
    return np.array(chosen)


def largest_cluster(learner: Any, X_pool: Any, n_instances: int = 1) -> np.ndarray:
    """LCMD (Holzmüller et al. 2023) on columns: of the cluster of largest size, the most distant row.

    Centres are the labelled rows and those chosen so far; a size is the sum of squared distances from the centre.
    """
    pool, known = columns_of(learner, X_pool), columns_of(learner, learner.X_training)
    squared = distances(pool, known) ** 2
    centre, nearest = squared.argmin(1), squared.min(1)
    chosen: list[int] = []
    for i in range(n_instances):
        inside = centre == np.bincount(centre, weights=nearest).argmax()
        row = int(np.where(inside, nearest, -1).argmax())
        chosen.append(row)
        to_row = distances(pool, pool[[row]])[:, 0] ** 2
        moved = to_row < nearest
        centre[moved], nearest[moved] = len(known) + i, to_row[moved]
    return np.array(chosen)


OF_NUMBERS: dict[str, Any] = {
    "uniform": sampled("std_dev", 4, sampler="uniform"),
    "std_dev, beta 4": sampled("std_dev", 4),
    "std_dev, beta 4, apart": sampled("std_dev", 4, diversity=2.0),
    "std_dev, top-k": sampled("std_dev", 1, sampler="topk"),
    "k-center": KCenterQuery(),
    "greedy distances": greedy_distances,
    "largest cluster": largest_cluster,
}
PARTS = {"batches of 10": MANY, "batches of 20": FEW, "batches of 5": FEW, "numbers": OF_NUMBERS}
DEFAULTS = {"forest": "margin, beta 4", "logistic": "margin, beta 4, apart", "net": "margin, beta 4, apart"}


# What is measured, all the larger the better


def log_likelihood(model: Any, X: Any, y: Any) -> float:
    """Mean log of the probability of the right class, in nats; 0.001 at least, also of a class that no label is of."""
    p = np.asarray(model.predict_proba(X))
    columns = np.searchsorted(model.classes_, y).clip(max=p.shape[1] - 1)
    right = np.where(model.classes_[columns] == y, p[np.arange(len(p)), columns], 0.0)
    return float(np.log(right.clip(1e-3)).mean())


def accuracy(model: Any, X: Any, y: Any) -> float:
    return float(accuracy_score(y, model.predict(X)))


def balanced(model: Any, X: Any, y: Any) -> float:
    return float(balanced_accuracy_score(y, model.predict(X)))


def explained(model: Any, X: Any, y: Any) -> float:
    """R2, -1 at least."""
    return max(-1.0, float(r2_score(y, model.predict(X))))


def minus_error(model: Any, X: Any, y: Any) -> float:
    return -float(mean_absolute_error(y, model.predict(X)))


OF_CLASSES: dict[str, Callable[..., float]] = {
    "accuracy": accuracy,
    "balanced accuracy": balanced,
    "log-likelihood": log_likelihood,
}
OF_GUESSES: dict[str, Callable[..., float]] = {"R2": explained, "minus absolute error": minus_error}


def compared(places: study.Places, part: str, table: str, family: str, size: Any) -> dict[str, Any]:
    """By measure and query the mean over acquisitions of each trial, for one table and model."""
    is_of_numbers = part == "numbers"
    X, y = rows_of_numbers(table) if is_of_numbers else rows(table, places)
    batch = 20 if is_of_numbers else int(part.split()[-1])
    n_initial = 20 if is_of_numbers else max(10 if batch == 5 else 20, len(np.unique(y)))
    n_rounds = min(size.n_rounds + (2 if batch == 5 else 0), (len(y) * 2 // 3 - n_initial) // batch - 1)
    options = {"n_initial": n_initial, "batch_size": batch, "n_rounds": n_rounds, "n_trials": size.n_trials}
    options |= {"test_size": 1 / 3, "scoring": OF_GUESSES if is_of_numbers else OF_CLASSES}
    estimator = regressor(family) if is_of_numbers else model(family)
    name = f"which-{part.replace(' ', '-')}-{table}-{family}"
    result = places.compare(name, estimator, PARTS[part], X, y, **options)
    return {measure: study.means(result, measure) for measure in result.score_names}


def run(size: Any, places: study.Places) -> dict[str, Any]:
    found: dict[str, Any] = {part: {} for part in PARTS}
    for part, of_part in found.items():
        families = REGRESSORS if part == "numbers" else MODELS
        for family in families[: size.families]:
            for table in size.numbers if part == "numbers" else size.tables:
                for measure, values in compared(places, part, table, family, size).items():
                    of_part.setdefault(measure, {}).setdefault(family, {})[table] = values
    return {part: of_part for part, of_part in found.items() if of_part}


# What is read from the findings: of a part and a measure, by family, table and query, a value for each trial


def by_table(of_families: Mapping[str, Any], query: str) -> dict[str, list[float]]:
    """By family, the mean of each table in points; "default" is that of the family."""
    return {
        family: [
            100 * float(np.mean(values[default_of(values, family) if query == "default" else query]))
            for values in found.values()
        ]
        for family, found in of_families.items()
    }


def default_of(queries: Mapping[str, Any], family: str) -> str:
    """What StochasticBatchQuery does if it is told nothing."""
    if "std_dev, beta 4" in queries:
        return "std_dev, beta 4" if family == "net" else "std_dev, beta 4, apart"
    return DEFAULTS[family]


def over_families(of_families: Mapping[str, Any], query: str) -> list[float]:
    """Mean over families of each table, in points."""
    return [float(v) for v in np.mean(list(by_table(of_families, query).values()), axis=0)]


def minus(of_families: Mapping[str, Any], query: str, reference: str) -> Estimate:
    """Mean difference over tables, in points, with its interval."""
    pairs = zip(over_families(of_families, query), over_families(of_families, reference), strict=True)
    return estimate(a - b for a, b in pairs)


def below_uniform(of_families: Mapping[str, Any]) -> list[str]:
    """Tables on which the default's mean is below uniform's."""
    names = list(next(iter(of_families.values())))
    pairs = zip(names, over_families(of_families, "default"), over_families(of_families, "uniform"), strict=True)
    return [name for name, ours, theirs in pairs if ours < theirs]


def worse_than_uniform(of_families: Mapping[str, Any]) -> list[str]:
    """Pairs of table and family in which the default is significantly worse than uniform, after Holm over all pairs."""
    pairs = {
        f"{table} {family}": np.subtract(values[default_of(values, family)], values["uniform"])
        for family, found in of_families.items()
        for table, values in found.items()
    }
    by_t = [float(ttest_1samp(d, 0).pvalue) if len(d) > 1 and np.ptp(d) > 0 else np.nan for d in pairs.values()]
    return [n for (n, d), p in zip(pairs.items(), holm(by_t), strict=True) if p < 0.05 and d.mean() < 0]


def setting_of(part: str, of_families: Mapping[str, Any]) -> str:
    found = next(iter(of_families.values()))
    n_trials = len(next(iter(next(iter(found.values())).values())))
    return f"{part}, {len(found)} tables, mean over {len(of_families)} families of models, trials each: {n_trials}"


OTHERS = {
    "batches of 10": ("uniform", "margin, top-k", "BALD, top-k", "entropy, top-k", "margin, beta 1", "BALD, beta 1"),
    "batches of 20": ("uniform", "margin, beta 4", "margin, top-k"),
    "batches of 5": ("uniform", "margin, beta 4", "margin, top-k"),
    "numbers": ("uniform", "std_dev, beta 4", "std_dev, top-k", "greedy distances", "largest cluster"),
}
"""What the default is compared with."""


def claims(findings: dict[str, Any]) -> list[study.Claim]:
    made = []
    for part, measures in findings.items():
        for measure, of_families in measures.items():
            setting = setting_of(part, of_families)
            names = dict.fromkeys([*OTHERS[part], *(["BADGE"] if part != "numbers" else [])])
            values = {name: [v / 100 for v in over_families(of_families, name)] for name in ["default", *names]}
            for other in OTHERS[part]:
                statement = f"The default is better than {other} in {measure}"
                made.append(study.better(statement, setting, values, "default", other))
            if part != "numbers":
                statement = f"The default is as good as BADGE in {measure}"
                made.append(study.alike(statement, setting, values, "default", "BADGE", 0.005))
    for part, measures in findings.items():
        of_families = next(iter(measures.values()))
        worse, n_pairs = worse_than_uniform(of_families), sum(map(len, of_families.values()))
        text = f"worse in {len(worse)} of {n_pairs} pairs of table and family (t, Holm, p < 0.05)"
        n_trials = int(setting_of(part, of_families).rsplit(" ", 1)[1])
        if n_trials > 1:
            statement = "The default is nowhere significantly worse than uniform"
            verdict = "the opposite" if worse else "seen"
            made.append(study.Claim(statement, setting_of(part, of_families), n_trials, text, verdict))
    return made


def guide(findings: dict[str, Any]) -> str:
    """Two tables of the page: the default against others by part and measure, and all queries in batches of ten."""
    header = ["", "default minus uniform", "minus no diversity", "minus top-k", "minus BADGE"]
    lines = []
    for part, measures in findings.items():
        for measure, of_families in measures.items():
            names = ("std_dev, beta 4", "std_dev, top-k") if part == "numbers" else ("margin, beta 4", "margin, top-k")
            others = ["uniform", *names, *(["BADGE"] if part != "numbers" else [])]
            cells = [study.with_interval(minus(of_families, "default", other), 1, sign=True) for other in others]
            lines.append([f"{part}: {measure}", *cells, *[""] * (len(header) - 1 - len(cells))])
    n_classes, n_numbers = (
        len(next(iter(next(iter(findings[p].values())).values()))) for p in ("batches of 20", "numbers")
    )
    text = (
        f"Points (of log-likelihood and absolute error: hundredths), the larger the better, mean over acquisitions and "
        f"three families of models, {n_classes} tables of classes and {n_numbers} of numbers, with 95 % intervals over "
        "tables. :ref:`All queries, and the verdicts <which_query>`."
    )
    return f"{_as_table(header, lines)}\n\n{text}"


def _as_table(header: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    rst = [".. list-table::", "   :header-rows: 1", ""]
    for row in [header, *lines]:
        rst += [f"   {'*' if i == 0 else ' '} - {cell}".rstrip() for i, cell in enumerate(row)]
    return "\n".join(rst)


def tables(findings: dict[str, Any]) -> list[tuple[str, list[str], list[list[str]]]]:
    """All queries, best first, by part and measure: over the families, and in each family minus uniform."""
    made = []
    for part, measures in findings.items():
        for measure, of_families in measures.items():
            queries = list(next(iter(next(iter(of_families.values())).values())))
            order = sorted(queries, key=lambda q: -float(np.mean(over_families(of_families, q))))
            lines = [[q, *_cells(of_families, q)] for q in order]
            below = ", ".join(below_uniform(of_families)) or "none"
            caption = (
                f"{part.capitalize()}, {measure}: points; intervals are over tables; default below uniform on: {below}"
            )
            made.append((caption, ["query", "mean", "minus uniform", *of_families], lines))
    return made


def _cells(of_families: Mapping[str, Any], query: str) -> list[str]:
    cells = [f"{np.mean(over_families(of_families, query)):.1f}"]
    for part in (of_families, *({family: found} for family, found in of_families.items())):
        difference = minus(part, query, "uniform")
        cells.append("" if query == "uniform" else study.with_interval(difference, 1, sign=True))
    return cells


SHOWN = [
    ("batches of 20", "accuracy"),
    ("batches of 20", "log-likelihood"),
    ("batches of 5", "accuracy"),
    ("batches of 5", "log-likelihood"),
    ("batches of 10", "accuracy"),
    ("numbers", "R2"),
]


def draw(findings: dict[str, Any]) -> Any:
    """Differences to uniform, mean over the families, a panel for each part and measure."""
    shown = [(part, measure) for part, measure in SHOWN if measure in findings.get(part, {})]
    figure, axes = study.panels(len(shown), 2, 2.9)
    apart, others = drawing.styles(2)
    for ax, (part, measure) in zip(axes.flat, shown, strict=False):
        of_families = findings[part][measure]
        queries = [q for q in next(iter(next(iter(of_families.values())).values())) if q != "uniform"]
        order = sorted(queries, key=lambda q: -float(np.mean(over_families(of_families, q))))
        found = {"default": minus(of_families, "default", "uniform")}
        found |= {q: minus(of_families, q, "uniform") for q in order}
        study.draw_intervals(ax, found, {q: apart if q == "default" else others for q in found})
        ax.set_title(f"{part}: {measure}")
        ax.tick_params(labelsize="small")
    figure.supxlabel("minus uniform's, points, with 95 % intervals over tables", fontsize="medium")
    return figure


if __name__ == "__main__":
    study.main(sys.modules[__name__])
