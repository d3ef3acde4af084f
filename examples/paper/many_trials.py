"""The order of the paper's Table 1, decided: repeated digits with as many trials as the spread of a pilot asks for.

With ten trials the intervals of differences are some points wide. The spread seen there says that a hundred trials tell
a point apart. The front page says what they found.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import study
from repeated_digits import N_INITIAL, NAMES, QUERIES

from skactive import ExperimentResult, StochasticBatchQuery
from skactive._utils.statistics import estimate

TITLE = "The order of Table 1"
ALT = (
    "Dot plot of mean accuracy minus uniform's over many trials: top-k is 3.5 points below; power, soft-rank and "
    "BADGE are about 2 above, power with β = 4 nearly 3, the margin about 3, and softmax with β = 1 touches 0."
)

SIZES: dict[str, dict[str, Any]] = {
    "smallest": {"n_trials": 2, "n_rounds": 1},
    "quick": {"n_trials": 6, "n_rounds": 8},
    "full": {"n_trials": 100, "n_rounds": 8},
}
SHOWN = {name: QUERIES[name] for name in ("topk", "uniform", "power", "power β=4", "softmax", "softrank", "BADGE")}
SHOWN["margin β=4"] = StochasticBatchQuery("margin", beta=4.0)
SHOWN["margin topk"] = StochasticBatchQuery("margin", "topk")
DEFAULT = "margin β=4"
"""What StochasticBatchQuery does if it is told nothing."""
FEWER = [(query, reference) for query in ("power β=4", DEFAULT) for reference in ("uniform", "topk")]


def run(size: Any, places: study.Places) -> dict[str, Any]:
    X, y, splits = study.repeated_digits(size.n_trials)
    options = {"splits": splits, "n_initial": N_INITIAL, "n_trials": size.n_trials, "batch_size": 10}
    net = study.digits_net()
    result = places.compare("many_trials", net, SHOWN, X, y, n_rounds=size.n_rounds, **options)
    fewer = {f"{query} than {reference}": fewer_labels(result, query, reference) for query, reference in FEWER}
    return {"means": study.means(result), "curves": study.curves(result), "fewer": fewer}


def fewer_labels(result: ExperimentResult, query: str, reference: str) -> list[float]:
    """How many fewer labels a query needs for the last accuracy of the reference, with a 95 % interval.

    By straight lines between the points of mean curves, as they are drawn. The interval is of a bootstrap of trials.
    """
    score = result.score_names[0]
    runs: dict[tuple[str, int], list[float]] = {}
    for record in result.rounds:
        runs.setdefault((record.query, record.trial), []).append(record.scores[score])
    labels = sorted({record.n_labelled for record in result.rounds})
    trials = sorted({record.trial for record in result.rounds})
    mine, theirs = (np.array([runs[name, trial] for trial in trials]) for name in (query, reference))

    def fewer(sample: Any) -> float:
        curve = np.maximum.accumulate(mine[sample].mean(axis=0))
        return float(labels[-1] - np.interp(theirs[sample].mean(axis=0)[-1], curve, labels))

    rng = np.random.default_rng(0)
    found = [fewer(rng.integers(len(trials), size=len(trials))) for _ in range(10_000)]
    return [fewer(slice(None)), *(float(end) for end in np.quantile(found, [0.025, 0.975]))]


def claims(findings: dict[str, Any]) -> list[study.Claim]:
    means = findings["means"]
    setting = "digits, four noisy copies, net, BALD, 10 a batch, mean accuracy"
    return [
        study.better("Power sampling is better than top-k", setting, means, "power", "topk"),
        study.better("Power sampling is better than uniform", setting, means, "power", "uniform"),
        study.better("Uniform is better than top-k", setting, means, "uniform", "topk"),
        study.better("A colder power (β = 4) is better still", setting, means, "power β=4", "power"),
        study.alike("Power sampling is as good as BADGE", setting, means, "power", "BADGE"),
        study.better("Power with β = 4 is better than BADGE", setting, means, "power β=4", "BADGE"),
        study.alike("Power is as good as softmax sampling", setting, means, "power", "softmax"),
        study.alike("Power is as good as soft-rank sampling", setting, means, "power", "softrank"),
        study.alike("The margin, β = 4, is as good as BALD, β = 4", setting, means, DEFAULT, "power β=4"),
        study.better("The default (margin, β = 4) is better than uniform", setting, means, DEFAULT, "uniform"),
        study.better("The default is better than the top of BALD", setting, means, DEFAULT, "topk"),
        study.better("The default is better than the top of its own ranking", setting, means, DEFAULT, "margin topk"),
    ]


def tables(findings: dict[str, Any]) -> list[tuple[str, list[str], list[list[str]]]]:
    """Mean accuracies, best first."""
    found = {query: estimate(100 * value for value in values) for query, values in findings["means"].items()}
    ranked = sorted(found, key=lambda query: -found[query].mean)
    rows = [[NAMES.get(query, query), study.with_interval(found[query], 1)] for query in ranked]
    return [("Mean accuracy over acquisitions, in percent", ["query", "accuracy"], rows)]


def draw(findings: dict[str, Any]) -> Any:
    """Mean differences to uniform."""
    figure, axes = study.panels(1, 1, 2.8)
    shown = [query for query in SHOWN if query != "uniform"]
    study.draw_differences(axes[0, 0], findings["means"], shown, "uniform", **NAMES)
    axes[0, 0].set_xlabel("mean accuracy minus uniform's, points, with 95 % intervals")
    return figure


if __name__ == "__main__":
    study.main(sys.modules[__name__])
