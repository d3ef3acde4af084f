"""Coldness on Repeated-digits: power, softmax and soft-rank sampling from nearly uniform to nearly top-k."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import study

from skactive._utils.statistics import Estimate, estimate
from skactive.plotting import _drawing as drawing

TITLE = "Coldness β, from uniform to top-k"
ALT = (
    "Left: mean accuracy minus uniform's by coldness; power is best at 2 to 4, softmax still rises at 16, and "
    "soft-rank falls below top-k. Right: learning curves of power sampling for four coldnesses between uniform "
    "and top-k; β = 4 is highest."
)

SIZES: dict[str, dict[str, Any]] = {
    "smallest": {"n_trials": 2, "n_rounds": 1, "betas": [0.1, 1.0, 16.0]},
    "quick": {"n_trials": 3, "n_rounds": 3, "betas": [0.1, 1.0, 4.0, 16.0]},
    "full": {"n_trials": 10, "n_rounds": 8, "betas": [0.1, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0]},
}
N_INITIAL = 20
N_DRAWS = 40
MARGIN = 0.02
SAMPLERS = {"power": "power", "softmax": "softmax", "softrank": "soft-rank"}


def queries(betas: list[float]) -> dict[str, Any]:
    found = {
        "uniform": study.sampled("bald", sampler="uniform", n_draws=2),  # its scores are not looked at
        "topk": study.sampled("bald", sampler="topk", n_draws=N_DRAWS),
    }
    for sampler in SAMPLERS:
        for beta in betas:
            found[_key(sampler, beta)] = study.sampled("bald", sampler, beta, n_draws=N_DRAWS)
    return found


def _key(sampler: str, beta: float) -> str:
    return f"{sampler} β={beta:g}"


def run(size: Any, places: study.Places) -> dict[str, Any]:
    X, y, splits = study.repeated_digits(size.n_trials)
    options = {"splits": splits, "n_initial": N_INITIAL, "n_rounds": size.n_rounds, "n_trials": size.n_trials}
    result = places.compare("beta", study.digits_net(), queries(size.betas), X, y, batch_size=10, **options)
    return {"betas": size.betas, "means": study.means(result), "curves": study.curves(result)}


def claims(findings: dict[str, Any]) -> list[study.Claim]:
    means, last = findings["means"], max(int(n) for n in findings["curves"]["uniform"])
    setting = f"digits, four noisy copies, net, BALD, {N_INITIAL} to {last} labels, 10 a batch, mean accuracy"
    first, coldest = findings["betas"][0], findings["betas"][-1]
    found = []
    for sampler, name in SAMPLERS.items():
        warm, cold = _key(sampler, first), _key(sampler, coldest)
        found += [
            study.near(f"At β = {first:g}, {name} is near uniform", setting, means, warm, "uniform", MARGIN),
            study.near(f"At β = {coldest:g}, {name} is near top-k", setting, means, cold, "topk", MARGIN),
            optimum_between(f"For {name}, the best β lies between", setting, findings, sampler),
        ]
    statement = f"At β = {coldest:g}, soft-rank has lost more than power: it depends on β the most"
    found.append(study.better(statement, setting, means, _key("power", coldest), _key("softrank", coldest)))
    return found


def optimum_between(statement: str, setting: str, findings: dict[str, Any], sampler: str) -> study.Claim:
    """The best β between, which is chosen by the other trials for each trial, against the smallest and the largest."""
    inner = findings["betas"][1:-1]
    accuracy = np.array([findings["means"][_key(sampler, beta)] for beta in findings["betas"]])
    chosen = [int(np.argmax(np.delete(accuracy[1:-1], t, axis=1).mean(axis=1))) for t in range(accuracy.shape[1])]
    best = accuracy[1:-1][chosen, np.arange(accuracy.shape[1])]
    gains = [best - accuracy[end] for end in (0, -1)]
    differences = [estimate(gain) for gain in gains]
    betas = ", ".join(f"{inner[i]:g}" for i in sorted(set(chosen)))
    over_warm, over_cold = (study.with_interval(d, sign=True) for d in differences)
    p = study.p_value(*gains)
    ours = f"β = {betas} − smallest β: {over_warm}; − largest: {over_cold}"
    return study.Claim(statement, f"{setting}; β chosen by the other trials", len(best), ours, _both(differences), p)


def _both(differences: list[Estimate]) -> str:
    if all(d.low > 0 for d in differences):
        return "seen"
    return "not seen" if any(d.high <= 0 for d in differences) else "cannot be told"


def draw(findings: dict[str, Any]) -> Any:
    """Mean accuracy by coldness, between uniform and top-k, and curves of power sampling."""
    figure, ((left, right),) = study.panels(2, 2, 3.6)
    _draw_means(left, findings)
    betas = [beta for beta in findings["betas"] if beta in (0.1, 1.0, 4.0, 16.0)]
    keys = {_key("power", beta): f"β = {beta:g}" for beta in betas}
    curves = {query: findings["curves"][query] for query in ("uniform", *keys, "topk")}
    looks = study.LOOKS | dict(zip(keys, study.shades(len(keys)), strict=True))
    study.draw_curves(right, curves, "accuracy", looks=looks, **keys, topk="top-k")
    right.set_title("power sampling")
    right.legend(loc="lower right")
    return figure


def _draw_means(ax: Any, findings: dict[str, Any]) -> None:
    betas, means = np.array(findings["betas"]), findings["means"]
    for sampler, name in {**SAMPLERS, "topk": "top-k"}.items():
        keys = ["topk" if sampler == "topk" else _key(sampler, beta) for beta in findings["betas"]]
        found = [study.difference(means, key, "uniform") for key in keys]
        ends = (100 * np.array([getattr(e, part) for e in found]) for part in ("mean", "low", "high"))
        drawing.draw_band(ax, betas, *ends, label=name, **study.LOOKS[sampler])
    ax.axhline(0, color=drawing.GREY, lw=1, label="uniform")
    ax.set_xscale("log")
    ax.set_xticks(betas, [f"{beta:g}" for beta in betas])
    ax.minorticks_off()
    ax.set(xlabel="coldness β", ylabel="points", title="mean accuracy minus uniform's")
    ax.legend(loc="upper left", ncols=2)
    ax.set_ylim(top=10)


if __name__ == "__main__":
    study.main(sys.modules[__name__])
