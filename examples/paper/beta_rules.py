"""Other rules for a coldness that sets itself, beside the one that ``beta="auto"`` follows.

- moments: the spread of the change of log-scores between two rounds, among the tenth that was the best, taken for that
  of Gumbel noise;
- candidates: such that the next batch is drawn from an effective number of rows, four times its size;
- halves: the spread between log-scores by two halves of the draws, in the place of that between rounds.
"""

from __future__ import annotations

import math
import sys
from typing import Any

import numpy as np
import study
import tabular
from numpy.typing import NDArray
from scipy.optimize import brentq

from skactive import StochasticBatchQuery
from skactive import query as query_module
from skactive.plotting import _drawing as drawing
from skactive.query import Batch, Pool, Streams, choose_by_scores, draws_of
from skactive.scores import bald

TITLE = "Automatic beta: other rules"
ALT = (
    "Differences in accuracy to β = 1 for four rules that set β, on eight pairs of table and model, with "
    "intervals: the mean of the rule that the package uses, auto, is above 0 on seven of them."
)

SIZES: dict[str, dict[str, Any]] = {
    "smallest": {"n_trials": 2, "n_rounds": 2, "tables": ["breast_cancer"], "models": ["forest"]},
    "quick": {"n_trials": 2, "n_rounds": 5, "tables": ["digits"], "models": ["forest", "net"]},
    "full": {
        "n_trials": 8,
        "n_rounds": 10,
        "tables": ["digits", "letter", "satellite", "spambase"],
        "models": ["forest", "net"],
    },
}
BOUNDS = 0.1, 64.0
BEST = 0.1
TIMES = 4.0

Scores = NDArray[np.float64]


class MomentQuery(StochasticBatchQuery):
    """Coldness by the spread of changes."""

    def choose(self, learner: Any, pool: Pool, k: int, rngs: Streams) -> Batch:
        return choose_by_scores(self, learner, pool, k, rngs, rule=_by_moments)


class HalvesQuery(StochasticBatchQuery):
    """Coldness by the spread between two halves of the draws; each half has twice the variance of all."""

    def choose(self, learner: Any, pool: Pool, k: int, rngs: Streams) -> Batch:
        return choose_by_scores(self, learner, pool, k, rngs, rule=_by_halves)


class CandidatesQuery(StochasticBatchQuery):
    """Coldness by the effective number of rows, the inverse of the sum of squared probabilities."""

    def choose(self, learner: Any, pool: Pool, k: int, rngs: Streams) -> Batch:
        return choose_by_scores(self, learner, pool, k, rngs, rule=_by_candidates)


def _by_moments(query: Any, learner: Any, pool: Pool, k: int, rngs: Streams, score_rows: Any) -> float:
    reference = query.memory_.reference
    if reference is None:
        return 1.0
    return _of_gumbel(_best_changes(reference.scores, score_rows(Pool(reference.X))).std())


def _by_halves(query: Any, learner: Any, pool: Pool, k: int, rngs: Streams, score_rows: Any) -> float:
    reference = query.memory_.reference
    if reference is None:
        return 1.0
    draws = draws_of(pool, learner, rngs.draws)
    halves = {"even": lambda draws, chunk: bald(draws[::2]), "odd": lambda draws, chunk: bald(draws[1::2])}
    even, odd = query_module.score_rows(Pool(reference.X), draws, halves)
    return _of_gumbel(_best_changes(even, odd).std() / 2)


def _by_candidates(query: Any, learner: Any, pool: Pool, k: int, rngs: Streams, score_rows: Any) -> float:
    scores = score_rows(pool)
    values = np.log(scores[scores > 0])
    low, high = np.log(BOUNDS)
    if not len(values) or _excess(low, values, k) < 0:
        return BOUNDS[0]
    if _excess(high, values, k) > 0:
        return BOUNDS[1]
    return math.exp(brentq(_excess, low, high, (values, k)))


def _best_changes(before: Scores, now: Scores) -> Scores:
    """Changes of log-scores of the tenth that was the best."""
    best = np.argsort(-before, kind="stable")[: max(20, round(BEST * len(before)))]
    both = best[(before[best] > 0) & (now[best] > 0)]
    return np.log(now[both]) - np.log(before[both]) if len(both) > 1 else np.array([0.0, 1e9])


def _of_gumbel(spread: float) -> float:
    return float(np.clip(math.pi / math.sqrt(6) / max(spread, 1e-9), *BOUNDS))


def _excess(log_beta: float, values: Scores, k: int) -> float:
    weights = np.exp(math.exp(log_beta) * (values - values.max()))
    return float(np.log(weights.sum() ** 2 / (weights**2).sum()) - np.log(TIMES * k))


RIVALS: dict[str, Any] = {
    "moments": MomentQuery(beta="auto"),
    "candidates": CandidatesQuery(beta="auto"),
    "halves": HalvesQuery(beta="auto"),
}
QUERIES: dict[str, Any] = {
    "auto": StochasticBatchQuery("bald", beta="auto"),
    "beta 1": StochasticBatchQuery("bald", beta=1.0),
    **RIVALS,
}


def run(size: Any, places: study.Places) -> dict[str, Any]:
    places = study.Places(places.data, places.rounds / "beta_rules", places.jobs)
    found = {
        f"{table} {model}": study.means(tabular.experiment(places, table, model, QUERIES, size))
        for model in size.models
        for table in size.tables
    }
    return {"means": found}


def claims(findings: dict[str, Any]) -> list[study.Claim]:
    found = findings["means"]
    n_trials = len(next(iter(found.values()))["auto"])
    setting = f"{len(found)} pairs of table and model, {n_trials} trials each; power sampling from BALD"
    pooled = {query: [float(np.mean(values[query])) for values in found.values()] for query in QUERIES}
    return [
        study.better(f'beta = "auto" is better than the rule of {name}', setting, pooled, "auto", name, 4)
        for name in RIVALS
    ]


def tables(findings: dict[str, Any]) -> list[tuple[str, list[str], list[list[str]]]]:
    """Mean accuracy less that of beta = 1, by pair."""
    rules = ["auto", *RIVALS]
    rows = [
        [name.replace("_", " "), *(f"{100 * tabular.outcome(values, rule, 'beta 1')[0]:+.1f}" for rule in rules)]
        for name, values in findings["means"].items()
    ]
    return [("Points of mean accuracy above beta = 1", ["table and model", *rules], rows)]


def draw(findings: dict[str, Any]) -> Any:
    """Differences to beta = 1, a row for each pair."""
    found = findings["means"]
    figure, axes = study.panels(1, 1, 0.5 * len(found) + 1.2)
    rules = ["auto", *RIVALS]
    for j, (rule, look) in enumerate(zip(rules, drawing.styles(len(rules)), strict=True)):
        rows = {name.replace("_", " "): study.difference(values, rule, "beta 1") for name, values in found.items()}
        looks = dict.fromkeys(rows, look)
        study.draw_intervals(axes[0, 0], rows, looks, unit=100, shift=0.18 * (j - 1.5), label=rule)
    axes[0, 0].set_xlabel("mean accuracy minus that of β = 1, points, with 95 % intervals")
    study.legend_above(figure, axes[0, 0])
    return figure


if __name__ == "__main__":
    study.main(sys.modules[__name__])
