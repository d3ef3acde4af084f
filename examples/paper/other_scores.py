"""Entropy, standard deviation and variation ratio on Repeated-digits: power sampling against top-k for each."""

from __future__ import annotations

import sys
from typing import Any

import study

TITLE = "Other scores than BALD"
ALT = (
    "Learning curves for entropy, standard deviation and variation ratio: power sampling is above top-k and "
    "uniform for the first two, and level with top-k for the variation ratio."
)

SIZES: dict[str, dict[str, Any]] = {
    "smallest": {"n_trials": 2, "n_rounds": 1},
    "quick": {"n_trials": 3, "n_rounds": 4},
    "full": {"n_trials": 12, "n_rounds": 8},
}
N_INITIAL = 20
N_DRAWS = 40
SCORES = {"entropy": "entropy", "std_dev": "standard deviation", "variation_ratio": "variation ratio"}


def queries() -> dict[str, Any]:
    found = {"uniform": study.sampled("bald", sampler="uniform", n_draws=2)}  # its scores are not looked at
    for score in SCORES:
        found[f"{score} topk"] = study.sampled(score, "topk", n_draws=N_DRAWS)
        found[f"{score} power"] = study.sampled(score, "power", beta=1.0, n_draws=N_DRAWS)
    return found


def run(size: Any, places: study.Places) -> dict[str, Any]:
    X, y, splits = study.repeated_digits(size.n_trials)
    options = {"splits": splits, "n_initial": N_INITIAL, "n_rounds": size.n_rounds, "n_trials": size.n_trials}
    result = places.compare("other_scores", study.digits_net(), queries(), X, y, batch_size=10, **options)
    return {"means": study.means(result), "curves": study.curves(result)}


def claims(findings: dict[str, Any]) -> list[study.Claim]:
    means, last = findings["means"], max(int(n) for n in findings["curves"]["uniform"])
    setting = f"digits, four noisy copies, net, {N_INITIAL} to {last} labels, 10 a batch, mean accuracy"
    found = []
    for score, name in SCORES.items():
        power, topk = f"{score} power", f"{score} topk"
        found += [
            study.better(f"By {name}, power sampling is better than top-k", setting, means, power, topk),
            study.better(f"By {name}, power sampling is better than uniform", setting, means, power, "uniform"),
        ]
    return found


def draw(findings: dict[str, Any]) -> Any:
    """Curves, a panel for each score."""
    figure, axes = study.panels(len(SCORES), 3, 3.2, sharey=True)
    curves = findings["curves"]
    for ax, (score, name) in zip(axes.flat, SCORES.items(), strict=False):
        shown = {"topk": curves[f"{score} topk"], "power": curves[f"{score} power"], "uniform": curves["uniform"]}
        study.draw_curves(ax, shown, "accuracy" if ax is axes[0, 0] else "", topk="top-k")
        ax.set_title(name)
    study.legend_above(figure, axes[0, 0])
    return figure


if __name__ == "__main__":
    study.main(sys.modules[__name__])
