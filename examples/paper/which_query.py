"""Which query? Scores, samplers, coldness and distances on many tables, by families of models, against other methods.

Four parts: tables of classes in batches of ten, twenty and five, and tables of numbers. All queries buy from the same
first labels; a table is the unit: each of its numbers is the mean over trials, and intervals are over
tables.

The default is "margin, beta 4, apart" for a logistic regression and a net, "margin, beta 4" for a forest, "std_dev,
beta 4, apart" for a forest and a Gaussian process of numbers, and "std_dev, beta 4" for a net of numbers. It was
settled on 58 tables measured outside the project, none of which is here. Batches of ten were run earlier, for
accuracy alone.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from functools import partial
from typing import Any

import benchmark
import numpy as np
import study
from benchmark import OF_CLASSES, Arm, Part, n_tables_of, n_trials_of, over_models
from many_tables import NUMBERS, TABLES, columns, rows_of_numbers
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import mean_absolute_error, r2_score
from sklearn.pipeline import make_pipeline

from skactive import BADGEQuery, KCenterQuery, MCDropoutClassifier, MCDropoutRegressor
from skactive._utils.statistics import Estimate
from skactive.plotting import _drawing as drawing

TITLE = "Which query?"
ALT = (
    "Dot plots of differences to uniform: in accuracy the default is 1.6 to 1.7 points above for batches of 5, 10 and "
    "20, level with margins sampled otherwise; in log-likelihood it is above the top of the margin, and not told "
    "from uniform; in R2 it is 5 points above."
)

SIZES: dict[str, dict[str, Any]] = {
    "smallest": {"n_trials": 1, "n_rounds": 1, "tables": ["breast_cancer"], "numbers": [], "families": 1},
    "quick": {"n_trials": 1, "n_rounds": 3, "tables": TABLES[:10], "numbers": list(NUMBERS)[:3], "families": 3},
    "full": {"n_trials": 3, "n_rounds": 6, "tables": TABLES, "numbers": list(NUMBERS), "families": 3},
}


N_DRAWS = 40
KERNEL = ConstantKernel() * RBF(3.0, (0.1, 1e3)) + WhiteKernel(0.1, (1e-4, 10))
NET = {"lr": 5e-3, "batch_size": -1, "device": "cpu"}
CLASSIFIERS = {
    "forest": RandomForestClassifier(N_DRAWS),
    "logistic": LogisticRegression(C=1.0, max_iter=1000),
    "net": MCDropoutClassifier((64, 64), dropout=0.3, max_epochs=60, **NET),
}
REGRESSORS = {
    "forest": RandomForestRegressor(N_DRAWS),
    "gaussian process": GaussianProcessRegressor(KERNEL, normalize_y=True),
    "net": MCDropoutRegressor((64, 64), dropout=0.2, max_epochs=100, **NET),
}


FEW: dict[str, Any] = {
    "uniform": study.sampled("margin", beta=4, sampler="uniform"),
    "margin, beta 4": study.sampled("margin", beta=4),
    "margin, beta 4, apart": study.sampled("margin", beta=4, diversity=2.0),
    "margin, top-k": study.sampled("margin", beta=1, sampler="topk"),
    "BADGE": BADGEQuery(),
}
"""Queries of all parts with classes."""
MANY: dict[str, Any] = FEW | {
    **{f"BALD, beta {beta}": study.sampled("bald", beta=beta, n_draws=N_DRAWS) for beta in (1, 4, 16)},
    **{f"margin, beta {beta}": study.sampled("margin", beta=beta) for beta in (1, 16)},
    **{f"variation ratio, beta {beta}": study.sampled("variation_ratio", beta=beta) for beta in (4, 16)},
    "entropy, beta 4": study.sampled("entropy", beta=4),
    "margin, soft-rank": study.sampled("margin", beta=1, sampler="softrank"),
    "BALD, top-k": study.sampled("bald", beta=1, sampler="topk", n_draws=N_DRAWS),
    "entropy, top-k": study.sampled("entropy", beta=1, sampler="topk"),
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
    "uniform": study.sampled("std_dev", beta=4, sampler="uniform"),
    "std_dev, beta 4": study.sampled("std_dev", beta=4),
    "std_dev, beta 4, apart": study.sampled("std_dev", beta=4, diversity=2.0),
    "std_dev, top-k": study.sampled("std_dev", beta=1, sampler="topk"),
    "k-center": KCenterQuery(),
    "greedy distances": greedy_distances,
    "largest cluster": largest_cluster,
}
DEFAULTS = {"forest": "margin, beta 4", "logistic": "margin, beta 4, apart", "net": "margin, beta 4, apart"}


def explained(model: Any, X: Any, y: Any) -> float:
    """R2, -1 at least."""
    return max(-1.0, float(r2_score(y, model.predict(X))))


def minus_error(model: Any, X: Any, y: Any) -> float:
    return -float(mean_absolute_error(y, model.predict(X)))


def of_family(families: Mapping[str, Any], name: str, X: Any) -> Any:
    """A pipeline that takes numbers, texts and gaps, and ends in a model of this family."""
    return make_pipeline(columns(), families[name])


def run(size: Any, places: study.Places) -> dict[str, Any]:
    def part(queries: Mapping[str, Any], families: Mapping[str, Any], *numbers: int, **options: Any) -> Part:
        arms, names = {name: Arm(query) for name, query in queries.items()}, list(families)[: size.families]
        model = partial(of_family, families)
        options = {"tables": size.tables, "measures": OF_CLASSES, **options}
        return Part(arms=arms, models=names, model=model, n_trials=size.n_trials, sizes=numbers, **options)

    of_numbers = {"R2": explained, "minus absolute error": minus_error}
    parts = {
        "batches of 10": part(MANY, CLASSIFIERS, 20, 10, size.n_rounds),
        "batches of 20": part(FEW, CLASSIFIERS, 20, 20, size.n_rounds),
        "batches of 5": part(FEW, CLASSIFIERS, 10, 5, size.n_rounds + 2),
        "numbers": part(
            *(OF_NUMBERS, REGRESSORS, 20, 20, size.n_rounds),
            tables=size.numbers,
            measures=of_numbers,
            rows=rows_of_numbers,
        ),
    }
    return benchmark.run(parts, places, benchmark.over_acquisitions)


def with_default(of_models: Mapping[str, Any]) -> dict[str, Any]:
    """The same with what StochasticBatchQuery does if it is told nothing as "default"."""
    return {
        name: {table: {**values, "default": values[default_of(values, name)]} for table, values in found.items()}
        for name, found in of_models.items()
    }


def default_of(queries: Mapping[str, Any], family: str) -> str:
    if "std_dev, beta 4" in queries:
        return "std_dev, beta 4" if family == "net" else "std_dev, beta 4, apart"
    return DEFAULTS[family]


def minus(of_models: Mapping[str, Any], query: str, reference: str) -> Estimate:
    return benchmark.minus(with_default(of_models), query, reference)


def below_uniform(of_models: Mapping[str, Any]) -> list[str]:
    """Tables on which the default's mean is below uniform's."""
    ours, theirs = (over_models(with_default(of_models), query) for query in ("default", "uniform"))
    return [name for name, a, b in zip(next(iter(of_models.values())), ours, theirs, strict=True) if a < b]


def n_worse(of_models: Mapping[str, Any]) -> int:
    """Pairs of table and family in which the default is significantly worse than uniform."""
    values = [of for found in with_default(of_models).values() for of in found.values()]
    return benchmark.signs(np.subtract(of["default"], of["uniform"]) for of in values).count(-1)


def setting_of(part: str, of_models: Mapping[str, Any]) -> str:
    families = f"mean over {len(of_models)} families of models, trials each: {n_trials_of(of_models)}"
    return f"{part}, {n_tables_of(of_models)} tables, {families}"


OTHERS = {
    "batches of 10": ("uniform", "margin, top-k", "BALD, top-k", "entropy, top-k", "margin, beta 1", "BALD, beta 1"),
    "batches of 20": ("uniform", "margin, beta 4", "margin, top-k"),
    "batches of 5": ("uniform", "margin, beta 4", "margin, top-k"),
    "numbers": ("uniform", "std_dev, beta 4", "std_dev, top-k", "greedy distances", "largest cluster"),
}
"""What the default is compared with."""


def claims(findings: dict[str, Any]) -> list[study.Claim]:
    made = []
    for part, measure, of_models in each_measure(findings):
        setting, with_it = setting_of(part, of_models), with_default(of_models)
        names = ["default", *OTHERS[part], *(["BADGE"] if part != "numbers" else [])]
        values = {name: over_models(with_it, name) for name in names}
        for other in OTHERS[part]:
            statement = f"The default is better than {other} in {measure}"
            made.append(study.better(statement, setting, values, "default", other))
        if part != "numbers":
            statement = f"The default is as good as BADGE in {measure}"
            made.append(study.alike(statement, setting, values, "default", "BADGE", 0.005))
    for part, measures in findings.items():
        of_models = next(iter(measures.values()))
        worse, n_pairs = n_worse(of_models), sum(map(len, of_models.values()))
        text = f"worse in {worse} of {n_pairs} pairs of table and family (t, Holm, p < 0.05)"
        if n_trials_of(of_models) > 1:
            statement = "The default is nowhere significantly worse than uniform"
            verdict = "the opposite" if worse else "seen"
            made.append(study.Claim(statement, setting_of(part, of_models), n_trials_of(of_models), text, verdict))
    return made


def each_measure(findings: Mapping[str, Any]) -> list[tuple[str, str, Any]]:
    return [(part, measure, found) for part, of in findings.items() for measure, found in of.items()]


def guide(findings: dict[str, Any]) -> str:
    """The table of the page: the default against others by part and measure."""
    header = ["", "default minus uniform", "minus no diversity", "minus top-k", "minus BADGE"]
    lines = []
    for part, measure, of_models in each_measure(findings):
        score = "std_dev" if part == "numbers" else "margin"
        others = ["uniform", f"{score}, beta 4", f"{score}, top-k", *(["BADGE"] if part != "numbers" else [])]
        cells = [study.with_interval(minus(of_models, "default", other), 1, sign=True) for other in others]
        lines.append([f"{part}: {measure}", *cells, *[""] * (len(header) - 1 - len(cells))])
    n_classes, n_numbers = (n_tables_of(next(iter(findings[p].values()))) for p in ("batches of 20", "numbers"))
    text = (
        f"Points (of log-likelihood and absolute error: hundredths), the larger the better, mean over acquisitions and "
        f"three families of models, {n_classes} tables of classes and {n_numbers} of numbers, with 95 % intervals over "
        "tables. :ref:`All queries, and the verdicts <which_query>`."
    )
    return f"{benchmark.as_list(header, lines)}\n\n{text}"


def best_first(of_models: Mapping[str, Any]) -> list[str]:
    return sorted(benchmark.arms_of(of_models), key=lambda q: -float(np.mean(over_models(of_models, q))))


def tables(findings: dict[str, Any]) -> list[tuple[str, list[str], list[list[str]]]]:
    """All queries, best first, by part and measure: over the families, and in each family minus uniform."""
    made = []
    for part, measure, of_models in each_measure(findings):
        lines = [[q, *_cells(of_models, q)] for q in best_first(of_models)]
        below = ", ".join(below_uniform(of_models)) or "none"
        caption = (
            f"{part.capitalize()}, {measure}: points; intervals are over tables; default below uniform on: {below}"
        )
        made.append((caption, ["query", "mean", "minus uniform", *of_models], lines))
    return made


def _cells(of_models: Mapping[str, Any], query: str) -> list[str]:
    differences = [minus(part, query, "uniform") for part in (of_models, *({n: of} for n, of in of_models.items()))]
    cells = ["" if query == "uniform" else study.with_interval(value, 1, sign=True) for value in differences]
    return [f"{100 * np.mean(over_models(of_models, query)):.1f}", *cells]


SHOWN = [
    *((f"batches of {n}", measure) for n in (20, 5) for measure in ("accuracy", "log-likelihood")),
    *(("batches of 10", "accuracy"), ("numbers", "R2")),
]


def draw(findings: dict[str, Any]) -> Any:
    """Differences to uniform, mean over the families, a panel for each part and measure."""
    shown = [(part, measure) for part, measure in SHOWN if measure in findings.get(part, {})]
    figure, axes = study.panels(len(shown), 2, 2.9)
    apart, others = drawing.styles(2)
    for ax, (part, measure) in zip(axes.flat, shown, strict=False):
        of_models = findings[part][measure]
        queries = ["default", *(q for q in best_first(of_models) if q != "uniform")]
        found = {q: minus(of_models, q, "uniform") for q in queries}
        study.draw_intervals(ax, found, {q: apart if q == "default" else others for q in found})
        ax.set_title(f"{part}: {measure}")
        ax.tick_params(labelsize="small")
    figure.supxlabel("minus uniform's, points, with 95 % intervals over tables", fontsize="medium")
    return figure


if __name__ == "__main__":
    study.main(sys.modules[__name__])
