"""CausalBALD with power sampling: whose outcomes to buy to learn what a treatment does, and how cold to sample.

Each trial has data of its own: a new sample of the synthetic set, new outcomes of the IHDP. Errors on the IHDP, whose
effects are large in some trials and small in others, are in units of the standard deviation of the effects of a trial.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import study
from lib.files import make_ihdp
from sklearn.ensemble import RandomForestRegressor
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel

from skactive import CausalBALDQuery
from skactive._utils.statistics import Estimate, estimate
from skactive.causal import predict_effects, sqrt_pehe
from skactive.datasets import make_causal

TITLE = "Causal effects: CausalBALD with power sampling, and its coldness"
ALT = (
    "Two rows of panels, synthetic data and IHDP: mean error of effects by coldness, lowest between 1 and 4 on "
    "synthetic data, and error by labels, where power sampling falls fastest on synthetic data and all bands "
    "overlap on IHDP."
)

SIZES: dict[str, dict[str, Any]] = {
    "smallest": {"n_trials": 2, "n_rounds": 1, "betas": [0.1, 4.0, 16.0], "sets": ["synthetic"]},
    "quick": {"n_trials": 3, "n_rounds": 5, "betas": [0.1, 1.0, 4.0, 16.0], "sets": ["synthetic", "IHDP"]},
    "full": {
        "n_trials": 50,
        "n_rounds": 10,
        "betas": [0.1, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0],
        "sets": ["synthetic", "IHDP"],
    },
}
N_DRAWS = 50
N_TREES = 30
N_POOL, N_TEST = 300, 300  # of a trial of the synthetic set
MARGIN = 0.05

Data = tuple[np.ndarray, np.ndarray, np.ndarray]


@dataclass(frozen=True)
class Setting:
    """A set and the model of it: ``trial(places, rng)`` makes X, y and effects, shuffled, rows to test on last."""

    trial: Callable[[study.Places, np.random.Generator], Data]
    n_test: int
    estimator: Any
    n_draws: int
    n_initial: int
    unit: str
    described: str


def synthetic(places: study.Places, rng: np.random.Generator) -> Data:
    return make_causal(N_POOL + N_TEST, rng)


def ihdp(places: study.Places, rng: np.random.Generator) -> Data:
    X, y, effects = make_ihdp(places.file("ihdp/ihdp_covariates.csv.gz", "ihdp/ihdp.csv"), rng)
    order = rng.permutation(len(y))
    scale = effects.std()
    return X[order], y[order] / scale, effects[order] / scale


SETTINGS = {
    "synthetic": Setting(
        synthetic,
        N_TEST,
        GaussianProcessRegressor(ConstantKernel(10.0) * RBF([0.7, 1.0]) + WhiteKernel(1.0), optimizer=None),
        N_DRAWS,
        10,
        "√PEHE",
        f"a Gaussian process with a kernel that is given, pool of {N_POOL}",
    ),
    "IHDP": Setting(
        ihdp, 276, RandomForestRegressor(N_TREES), N_TREES, 100, "√PEHE / deviation of effects", "a forest, pool of 471"
    ),
}


def queries(betas: Sequence[float], n_draws: int) -> dict[str, Any]:
    found = {
        "uniform": CausalBALDQuery(sampler="uniform", n_draws=2, treatment=-1),  # its scores are not looked at
        "topk": CausalBALDQuery(sampler="topk", n_draws=n_draws, treatment=-1),
    }
    for beta in betas:
        found[_key(beta)] = CausalBALDQuery("mu_rho", "power", beta, n_draws=n_draws, treatment=-1)
    return found


def _key(beta: float) -> str:
    return f"power β={beta:g}"


def run(size: Any, places: study.Places) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name in size.sets:
        setting = SETTINGS[name]
        trials = [setting.trial(places, np.random.default_rng(trial)) for trial in range(size.n_trials)]
        X, y, effects = (np.concatenate(parts) for parts in zip(*trials, strict=True))
        result = places.compare(
            f"causal-{name}",
            setting.estimator,
            queries(size.betas, setting.n_draws),
            X,
            y,
            splits=_splits(len(trials[0][1]), setting.n_test, size.n_trials),
            n_initial=setting.n_initial,
            n_rounds=size.n_rounds,
            n_trials=size.n_trials,
            scoring={"minus sqrt PEHE": functools.partial(minus_sqrt_pehe, effects)},
        )
        found[name] = {"betas": size.betas, "means": study.means(result), "curves": study.curves(result)}
    return found


def minus_sqrt_pehe(effects: np.ndarray, model: Any, X: Any, y: Any, *, rows: np.ndarray) -> float:
    return -sqrt_pehe(effects[rows], predict_effects(model, X, treatment=-1))


def _splits(n_rows: int, n_test: int, n_trials: int) -> list[tuple[np.ndarray, np.ndarray]]:
    """Each trial has its own rows of those of all trials."""
    rows = np.arange(n_rows * n_trials).reshape(n_trials, n_rows)
    return [(of_trial[:-n_test], of_trial[-n_test:]) for of_trial in rows]


def claims(findings: dict[str, Any]) -> list[study.Claim]:
    return [claim for name, found in findings.items() for claim in _claims_of(name, found)]


def _claims_of(name: str, found: dict[str, Any]) -> list[study.Claim]:
    labels = [int(n) for n in found["curves"]["uniform"]]
    setting = (
        f"{name}, {SETTINGS[name].described}, μρBALD, {labels[0]} to {labels[-1]} labels, 10 a batch, mean "
        f"−{SETTINGS[name].unit}"
    )
    means, betas = found["means"], found["betas"]
    good = f"{setting}; β chosen by the other trials"
    warm, cold = _key(betas[0]), _key(betas[-1])
    return [
        study.near(f"At β = {betas[0]:g}, power sampling is near uniform", setting, means, warm, "uniform", MARGIN),
        with_a_good_beta("Power sampling with a good β is better than uniform", good, found, "uniform"),
        with_a_good_beta("Power sampling with a good β is better than top-k", good, found, "topk"),
        study.better(
            f"Power sampling is better at β = {betas[-1]:g} than at β = {betas[0]:g}", setting, means, cold, warm
        ),
    ]


def with_a_good_beta(statement: str, setting: str, found: dict[str, Any], reference: str) -> study.Claim:
    """Power sampling at the β that is best in all other trials, against another query."""
    values = np.array([found["means"][_key(beta)] for beta in found["betas"]])
    others = values.sum(axis=1, keepdims=True) - values
    chosen = others.argmax(axis=0)
    means = {
        "power": values[chosen, np.arange(values.shape[1])].tolist(),
        reference: found["means"][reference],
    }
    claim = study.better(statement, setting, means, "power", reference)
    betas = ", ".join(f"{found['betas'][i]:g}" for i in np.unique(chosen))
    return replace(claim, ours=f"β = {betas}: {claim.ours}")


def draw(findings: dict[str, Any]) -> Any:
    """Mean error by coldness between the lines of uniform and top-k, and curves."""
    figure, axes = study.panels(2 * len(findings), 2, 3.3)
    for (left, right), (name, found) in zip(axes, findings.items(), strict=True):
        _draw_means(left, name, found)
        best = max(found["betas"], key=lambda beta: np.mean(found["means"][_key(beta)]))
        shown = {"uniform": "uniform", "topk": "topk", "warm": _key(found["betas"][0]), "power": _key(best)}
        curves = {shown_as: _turned(found["curves"][query]) for shown_as, query in shown.items()}
        names = {"topk": "top-k", "warm": shown["warm"], "power": shown["power"]}
        looks = {**study.LOOKS, "warm": study.LOOKS["power β=4"]}
        study.draw_curves(right, curves, SETTINGS[name].unit, looks=looks, **names)
        right.set_title(f"{name}: by labels")
        right.legend()
    study.legend_above(figure, axes[0, 0])
    return figure


def _draw_means(ax: Any, name: str, found: dict[str, Any]) -> None:
    betas, means = found["betas"], found["means"]
    for query, label in (("uniform", "uniform"), ("topk", "top-k")):
        look = {key: study.LOOKS[query][key] for key in ("color", "linestyle")}
        ax.axhline(-estimate(means[query]).mean, label=label, **look)
    power = [_over_reference(means, _key(beta)) for beta in betas]
    middle = np.array([-estimate(means["uniform"]).mean - found.mean for found in power])
    half = [(found.high - found.low) / 2 for found in power]
    label = "power; bars: 95 % of the difference to uniform"
    ax.errorbar(betas, middle, yerr=np.nan_to_num(half), label=label, **study.LOOKS["power"])
    ax.set_xscale("log")
    ax.set_xticks(betas, [f"{beta:g}" for beta in betas])
    ax.minorticks_off()
    title = f"{name}: means over trials and acquisitions"
    ax.set(xlabel="coldness β", ylabel=SETTINGS[name].unit, title=title)


def _turned(points: Mapping[str, Sequence[float | None]]) -> dict[str, list[float]]:
    """Errors are drawn as they are, scores are minus that."""
    return {n: [np.nan if value is None else -value for value in values] for n, values in points.items()}


def _over_reference(means: Mapping[str, Sequence[float]], query: str) -> Estimate:
    """Bars are those of the paired difference to uniform: what trials have in common is no error of the comparison."""
    return study.difference(means, query, "uniform")


if __name__ == "__main__":
    study.main(sys.modules[__name__])
