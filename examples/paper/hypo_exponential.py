"""Is the mean of exponential variables of different rates a Gumbel variable?

The paper takes Gumbel noise for what scores gain while a batch is bought, and sees in one simulation that the mean of
many exponential variables, with rates that are exponential themselves, fits a Gumbel distribution. Here rates are
drawn again and again: how well it fits depends on the few smallest of them, which make up most of the sum.

Why it fits at all: the largest of n exponential variables of one rate, whose law is Gumbel's for large n, is a sum of
exponential variables of rates 1, 2, ..., n (Rényi, 1953). The small ones among n random rates are spaced like that on
average. The study has such even rates beside the random ones.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import study
from numpy.typing import NDArray
from scipy import stats

from skactive.plotting import _drawing as drawing

TITLE = "Means of hypo-exponential samples, and Gumbel's law"
ALT = (
    "Left: quantiles of means of hypo-exponential samples follow Gumbel's line, except in the worst fit. Right: "
    "distances of the best fit of Gumbel, normal and log-normal laws; with even rates most Gumbel fits are left "
    "of the line that true Gumbel samples stay below."
)

SIZES: dict[str, dict[str, Any]] = {
    "smallest": {"n_trials": 3, "n_rates": 300, "n_samples": 300, "n_simulated": 40},
    "quick": {"n_trials": 20, "n_rates": 2_000, "n_samples": 2_000, "n_simulated": 200},
    "full": {"n_trials": 100, "n_rates": 5_000, "n_samples": 4_000, "n_simulated": 400},
}

LAWS: dict[str, Any] = {"Gumbel": stats.gumbel_r, "normal": stats.norm, "log-normal": stats.lognorm}
KINDS = {"random": "exponential rates", "even": "even rates"}
LEVELS = np.round(np.concatenate([[0.0005, 0.002], np.arange(0.01, 1, 0.01), [0.998, 0.9995]]), 4)


def rates(kind: str, n: int, rng: np.random.Generator) -> NDArray[np.float64]:
    """Rates from an exponential distribution of mean 2, or its quantiles, which are evenly spaced near 0."""
    return rng.exponential(2.0, n) if kind == "random" else 2 * -np.log1p(-np.arange(1, n + 1) / (n + 1))


def means(rates: NDArray[np.float64], n_samples: int, rng: np.random.Generator) -> NDArray[np.float64]:
    """Means of one exponential variable of each rate, n_samples times."""
    scales = 1 / rates
    return np.array([rng.standard_exponential(len(rates)) @ scales / len(rates) for _ in range(n_samples)])


def fit(values: NDArray[np.float64]) -> dict[str, tuple[float, float]]:
    """By law: Kolmogorov's distance of its best fit, and AIC a sample."""
    fitted = {name: law(*_parameters(name, values)) for name, law in LAWS.items()}
    distances = {name: stats.kstest(values, law.cdf).statistic for name, law in fitted.items()}
    return {
        name: (float(distances[name]), float(4 / len(values) - 2 * law.logpdf(values).mean()))
        for name, law in fitted.items()
    }


def _parameters(name: str, values: NDArray[np.float64]) -> tuple[float, ...]:
    """Of the largest likelihood, two each."""
    if name == "log-normal":
        logs = np.log(values)
        return logs.std(), 0.0, np.exp(logs.mean())
    return LAWS[name].fit(values)


def critical_distance(n_samples: int, n_simulated: int, rng: np.random.Generator) -> float:
    """What Kolmogorov's distance stays below in 95 of 100 sets of samples that do come from the Gumbel fitted."""
    simulated = [stats.gumbel_r.rvs(size=n_samples, random_state=rng) for _ in range(n_simulated)]
    distances = [
        stats.kstest(values, stats.gumbel_r(*stats.gumbel_r.fit(values)).cdf).statistic for values in simulated
    ]
    return float(np.quantile(distances, 0.95))


def run(size: Any, places: study.Places) -> dict[str, Any]:
    rng = np.random.default_rng(0)
    found: dict[str, Any] = {kind: [] for kind in KINDS}
    quantiles: dict[str, list[list[float]]] = {kind: [] for kind in KINDS}
    for kind in KINDS:
        for _ in range(size.n_trials):
            values = means(rates(kind, size.n_rates, rng), size.n_samples, rng)
            found[kind].append({name: [round(x, 5) for x in pair] for name, pair in fit(values).items()})
            standard = (values - values.mean()) / values.std()
            quantiles[kind].append(np.quantile(standard, LEVELS).round(3).tolist())
    order = np.argsort([trial["Gumbel"][0] for trial in found["random"]])
    shown = {"best": order[0], "median": order[len(order) // 2], "worst": order[-1]}
    return {
        "n_rates": size.n_rates,
        "n_samples": size.n_samples,
        "critical": round(critical_distance(size.n_samples, size.n_simulated, rng), 5),
        "fits": found,
        "quantiles": {name: quantiles["random"][i] for name, i in shown.items()},
    }


def _column(fits: list[dict[str, Any]], law: str, which: int) -> list[float]:
    return [trial[law][which] for trial in fits]


def _passes(statement: str, setting: str, findings: dict[str, Any], kind: str) -> study.Claim:
    """The claim that samples cannot be told from Gumbel's: true in nine of ten draws of the rates, at the least."""
    distances = np.array(_column(findings["fits"][kind], "Gumbel", 0))
    n = len(distances)
    passed = int((distances <= findings["critical"]).sum())
    interval = stats.binomtest(passed, n).proportion_ci()
    verdict = "seen" if interval.low > 0.5 and passed >= 0.9 * n else "not seen"
    if n < 5:
        verdict = "cannot be told"
    ours = f"{passed} of {n} within the distance that true Gumbel samples keep in 95 % ({findings['critical']:.4f}); "
    return study.Claim(statement, setting, n, f"{ours}median {np.median(distances):.4f}", verdict)


def claims(findings: dict[str, Any]) -> list[study.Claim]:
    n_rates, n_samples = findings["n_rates"], findings["n_samples"]
    setting = f"{n_samples:,} means of {n_rates:,} exponential variables, new rates in each trial"
    random = findings["fits"]["random"]
    minus_aic = {law: [-aic for aic in _column(random, law, 1)] for law in LAWS}
    closeness = {law: [-distance for distance in _column(random, law, 0)] for law in LAWS}
    return [
        study.better(
            "A Gumbel fits better than a normal distribution (minus AIC a sample)",
            setting,
            minus_aic,
            "Gumbel",
            "normal",
        ),
        study.better(
            "A Gumbel is closer than a normal distribution (minus Kolmogorov's distance)",
            setting,
            closeness,
            "Gumbel",
            "normal",
            4,
        ),
        study.better(
            "A Gumbel fits better than a log-normal distribution, too (not in the paper)",
            setting,
            minus_aic,
            "Gumbel",
            "log-normal",
        ),
        _passes("Samples cannot be distinguished from those of a Gumbel distribution", setting, findings, "random"),
        _passes(
            "With evenly spaced rates they cannot be distinguished (Rényi; not in the paper)",
            f"{setting}; rates the same",
            findings,
            "even",
        ),
    ]


def draw(findings: dict[str, Any]) -> Any:
    """Quantiles of three draws of the rates beside Gumbel's; distances of all."""
    figure, ((left, right),) = study.panels(2, 2, 4.0)
    gumbel = (stats.gumbel_r.ppf(LEVELS) - stats.gumbel_r.mean()) / stats.gumbel_r.std()
    looks = drawing.styles(len(findings["quantiles"]))
    for look, (name, values) in zip(looks, findings["quantiles"].items(), strict=True):
        left.plot(gumbel, values, lw=1, label=f"rates of the {name} fit", markevery=0.1, **look)
    left.plot(gumbel, stats.norm.ppf(LEVELS), color=drawing.GREY, ls=":", lw=2, label="normal distribution")
    left.axline((0, 0), slope=1, color="k", lw=0.8, label="Gumbel")
    left.set(xlabel="quantile of a Gumbel, standardised", ylabel="quantile of the means, standardised")
    left.legend()
    rows = [
        (f"{law}, {label}", _column(findings["fits"][kind], law, 0)) for kind, label in KINDS.items() for law in LAWS
    ]
    jitter = np.random.default_rng(0)
    for i, (_, distances) in enumerate(rows):
        heights = i + jitter.uniform(-0.25, 0.25, len(distances))
        look = {**looks[i % 3], "linestyle": "none", "markersize": 3}
        right.plot(distances, heights, alpha=0.5, **look)
        right.plot([np.median(distances)] * 2, [i - 0.35, i + 0.35], color="k", lw=1.5)
    right.axvline(
        findings["critical"], color=drawing.GREY, ls="--", label="95 % of true Gumbel samples\nare left of this"
    )
    right.set_yticks(range(len(rows)), [name.replace(", ", ",\n") for name, _ in rows])
    right.invert_yaxis()
    right.set(xscale="log", xlabel="Kolmogorov's distance of the best fit\n(bar: median)")
    right.legend(loc="lower center", bbox_to_anchor=(0.5, 1))
    return figure


if __name__ == "__main__":
    study.main(sys.modules[__name__])
