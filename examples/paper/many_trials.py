"""The order of the paper's Table 1, decided: repeated digits with as many trials as the spread of a pilot asks for.

With ten trials the intervals of differences are some points wide. The spread seen there says that a hundred trials tell
a point apart. The front page says what they found.
"""

from __future__ import annotations

import sys
from typing import Any

import benchmark
import numpy as np
import pandas as pd
import study
from repeated_digits import N_INITIAL, NAMES, QUERIES

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
MARGIN = "margin β=4"
SHOWN[MARGIN] = study.sampled("margin", beta=4.0)
SHOWN["margin topk"] = study.sampled("margin", "topk")
FEWER = [(query, reference) for query in ("power β=4", MARGIN) for reference in ("uniform", "topk")]
PART, COPIES = "batches of 10", "digits, four noisy copies"


def run(size: Any, places: study.Places) -> dict[str, Any]:
    part = benchmark.Part(
        arms={name: benchmark.Arm(query) for name, query in SHOWN.items()},
        tables=[COPIES],
        models=["net"],
        model=net,
        n_trials=size.n_trials,
        sizes=(N_INITIAL, 10, size.n_rounds),
        measures={"accuracy": benchmark.accuracy},
        rows=rows,
        splits=splits,
    )
    found = benchmark.run({PART: part}, places, benchmark.over_acquisitions)
    runs = by_query(benchmark.run({PART: part}, places, np.asarray))
    fewer = {f"{query} than {reference}": fewer_labels(runs[query], runs[reference]) for query, reference in FEWER}
    return {**found, "fewer": fewer}


def net(_: str, __: Any) -> Any:
    return study.digits_net()


def rows(_: str, __: study.Places) -> tuple[Any, np.ndarray]:
    X, y, _splits = study.repeated_digits(1)
    return pd.DataFrame(X), y.astype(str)


def splits(n_trials: int) -> list[tuple[np.ndarray, np.ndarray]]:
    return study.repeated_digits(n_trials)[2]


def by_query(findings: dict[str, Any]) -> dict[str, Any]:
    """A value for each trial."""
    return dict(findings[PART]["accuracy"]["net"][COPIES])


def fewer_labels(mine: Any, theirs: Any) -> list[float]:
    """How many fewer labels a query needs for the last accuracy of another, with a 95 % interval, from runs of both.

    By straight lines between the points of mean curves, as they are drawn. The interval is of a bootstrap of trials.
    """
    mine, theirs = np.array(mine), np.array(theirs)
    n_trials, labels = len(mine), N_INITIAL + 10 * np.arange(mine.shape[1])

    def fewer(sample: Any) -> float:
        curve = np.maximum.accumulate(mine[sample].mean(axis=0))
        return float(labels[-1] - np.interp(theirs[sample].mean(axis=0)[-1], curve, labels))

    rng = np.random.default_rng(0)
    found = [fewer(rng.integers(n_trials, size=n_trials)) for _ in range(10_000)]
    return [fewer(slice(None)), *(float(end) for end in np.quantile(found, [0.025, 0.975]))]


def claims(findings: dict[str, Any]) -> list[study.Claim]:
    means = by_query(findings)
    setting = f"{COPIES}, net, BALD, 10 a batch, mean accuracy"
    return [
        study.better("Power sampling is better than top-k", setting, means, "power", "topk"),
        study.better("Power sampling is better than uniform", setting, means, "power", "uniform"),
        study.better("Uniform is better than top-k", setting, means, "uniform", "topk"),
        study.better("A colder power (β = 4) is better still", setting, means, "power β=4", "power"),
        study.alike("Power sampling is as good as BADGE", setting, means, "power", "BADGE"),
        study.better("Power with β = 4 is better than BADGE", setting, means, "power β=4", "BADGE"),
        study.alike("Power is as good as softmax sampling", setting, means, "power", "softmax"),
        study.alike("Power is as good as soft-rank sampling", setting, means, "power", "softrank"),
        study.alike("The margin, β = 4, is as good as BALD, β = 4", setting, means, MARGIN, "power β=4"),
        study.better("The margin, β = 4, is better than uniform", setting, means, MARGIN, "uniform"),
        study.better("The margin, β = 4, is better than the top of BALD", setting, means, MARGIN, "topk"),
        study.better("The margin, β = 4, is better than its own top", setting, means, MARGIN, "margin topk"),
    ]


def tables(findings: dict[str, Any]) -> list[tuple[str, list[str], list[list[str]]]]:
    """Mean accuracies, best first."""
    found = {query: estimate(100 * value for value in values) for query, values in by_query(findings).items()}
    ranked = sorted(found, key=lambda query: -found[query].mean)
    rows = [[NAMES.get(query, query), study.with_interval(found[query], 1)] for query in ranked]
    return [("Mean accuracy over acquisitions, in percent", ["query", "accuracy"], rows)]


def draw(findings: dict[str, Any]) -> Any:
    """Mean differences to uniform."""
    figure, axes = study.panels(1, 1, 2.8)
    shown = [query for query in SHOWN if query != "uniform"]
    study.draw_differences(axes[0, 0], by_query(findings), shown, "uniform", **NAMES)
    axes[0, 0].set_xlabel("mean accuracy minus uniform's, points, with 95 % intervals")
    return figure


if __name__ == "__main__":
    study.main(sys.modules[__name__])
