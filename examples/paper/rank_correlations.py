"""How fast scores age, and for how long scores of the past are good enough.

Labels are bought one by one for the largest BALD score (MNIST, an MLP with dropout). Rows that are never bought are
scored after every few labels: how much of the order is left? Besides, a run goes on from scores that are not brought up
to date, from the first labels or from later ones.
"""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any

import numpy as np
import study
from lib.ageing import FrozenQuery, auroc, rank_correlation, score_history
from numpy.typing import NDArray
from sklearn.decomposition import PCA

from skactive import MCDropoutClassifier, StochasticBatchQuery
from skactive._utils.statistics import estimate
from skactive.plotting import _drawing as drawing

TITLE = "Scores age: rank correlations, AUROC and frozen scores"
ALT = (
    "Six panels: rank correlations of old scores with new ones fall within twenty labels for a model of 20 labels "
    "and slowly for one of 80, to nothing for the top ranks; so do AUROCs; and accuracy with scores frozen stays "
    "close to that with scores taken anew."
)

SIZES: dict[str, dict[str, Any]] = {
    "smallest": {"n_trials": 2, "n_pool": 200, "n_scored": 500, "later": 20, "n_after": 10},
    "quick": {"n_trials": 2, "n_pool": 500, "n_scored": 2_000, "later": 40, "n_after": 20},
    "full": {"n_trials": 10, "n_pool": 1_000, "n_scored": 4_000, "later": 60, "n_after": 40},
}
N_INITIAL, N_TEST, STRIDE = 20, 1_000, 5
PARTS = {"all": 1.0, "top 10 %": 0.1, "top 1 %": 0.01}

QUERY = StochasticBatchQuery("bald", sampler="topk", n_draws=50)
NET = MCDropoutClassifier((128, 128), dropout=0.3, lr=5e-3, batch_size=-1, max_epochs=40, device="cpu")


def images(places: study.Places) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """64 principal components: nets are fitted a thousand times."""
    X, y = study.mnist(places, "train")
    X, y = X[:10_000].reshape(min(len(X), 10_000), -1), y[:10_000]
    return PCA(64, random_state=0).fit_transform(X).astype(np.float32), y


def parts(y: NDArray[np.int64], size: Any, seed: int) -> SimpleNamespace:
    """Rows of a trial: pool, test, those that are only scored, and two first labels of each class."""
    order = np.random.default_rng(seed).permutation(len(y))
    pool, test, scored = np.split(order, np.cumsum([size.n_pool, N_TEST, size.n_scored]))[:3]
    first = np.concatenate([pool[y[pool] == label][:2] for label in range(10)])
    return SimpleNamespace(pool=pool, test=test, scored=scored, first=first)


def bought(result: Any, query: str) -> list[NDArray[np.int64]]:
    """Rows in the order in which they were bought, the first labels among them, of each trial."""
    trials = sorted({record.trial for record in result.rounds})
    of = {trial: [r.indices for r in result.rounds if r.trial == trial and r.query == query] for trial in trials}
    return [np.concatenate(of[trial]).astype(int) for trial in trials]


def experiment(places: study.Places, name: str, query: Any, data: Any, trials: Any, first: Any, **sizes: int) -> Any:
    splits = [(trial.pool, trial.test) for trial in trials]
    return places.compare(
        f"rank_correlations-{name}",
        NET,
        {"query": query},
        *data,
        splits=splits,
        initial=first,
        n_trials=len(trials),
        scoring="accuracy",
        **sizes,
    )


def ageing(data: Any, rows: NDArray[np.int64], order: NDArray[np.int64], size: Any, seed: int) -> dict[str, Any]:
    """Correlations and AUROC by labels bought since; at 0 of another model of the same labels."""
    fives = list(np.reshape(order[N_INITIAL:], (-1, STRIDE)))
    n_before = size.later // STRIDE
    batches = [order[:N_INITIAL], [], *fives[:n_before], [], *fives[n_before:]]
    history = score_history(NET, *data, batches, rows, n_draws=QUERY.n_draws, random_state=seed)
    found: dict[str, Any] = {}
    for start, name in ((0, "early"), (n_before + 1, "late")):
        for part, top in PARTS.items():
            found[f"{name}, {part}, correlation"] = rank_correlation(history, start, top=top)[1:]
            if top < 1:
                found[f"{name}, {part}, auroc"] = auroc(history, start, top=top)[1:]
    skipped = n_before  # the empty batch at the later start is a step of the early curves, too: leave it out there
    return {
        name: np.round(np.delete(values, skipped + 1) if name.startswith("early") else values, 4).tolist()
        for name, values in found.items()
    }


def run(size: Any, places: study.Places) -> dict[str, Any]:
    data = images(places)
    trials = [parts(data[1], size, seed) for seed in range(size.n_trials)]
    n_rounds = size.later + size.n_after
    first = [trial.first for trial in trials]
    anew = experiment(places, "anew", QUERY, data, trials, first, batch_size=1, n_rounds=n_rounds)
    orders = bought(anew, "query")
    found: dict[str, Any] = {"anew": by_labels(anew)}
    for name, n_labels in (("early", N_INITIAL), ("late", N_INITIAL + size.later)):
        query = FrozenQuery(n_labels, QUERY.n_draws)
        start = [order[:n_labels] for order in orders]
        frozen = experiment(
            places,
            f"frozen-{n_labels}",
            query,
            data,
            trials,
            start,
            batch_size=STRIDE,
            n_rounds=size.n_after // STRIDE,
        )
        found[f"frozen {name}"] = by_labels(frozen)
    aged = [
        ageing(data, trial.scored, order, size, seed)
        for seed, (trial, order) in enumerate(zip(trials, orders, strict=True))
    ]
    return {
        "later": size.later,
        "n_after": size.n_after,
        "n_scored": size.n_scored,
        "accuracy": found,
        "ageing": {name: [trial[name] for trial in aged] for name in aged[0]},
    }


def by_labels(result: Any) -> dict[str, list[float]]:
    """Accuracies of the trials, every few labels."""
    found: dict[str, list[float]] = {}
    for record in sorted(result.rounds, key=lambda record: (record.n_labelled, record.trial)):
        if (record.n_labelled - N_INITIAL) % STRIDE == 0:
            found.setdefault(str(record.n_labelled), []).append(round(record.scores["accuracy"], 4))
    return found


def _after(findings: dict[str, Any], name: str, n_labels: int) -> list[float]:
    """Values of the trials once so many labels have been bought."""
    return [trial[n_labels // STRIDE] for trial in findings["ageing"][name]]


def _mean_accuracy(findings: dict[str, Any], name: str, start: int, stop: int) -> list[float]:
    """Of each trial, over numbers of labels from start (left out) to stop."""
    of = findings["accuracy"][name]
    return np.mean([of[str(n)] for n in range(start + STRIDE, stop + 1, STRIDE)], axis=0).tolist()


def _below_zero(statement: str, setting: str, values: list[float]) -> study.Claim:
    found, below = estimate(values), np.negative(values)
    verdict, p = study.above(estimate(below)), study.p_value(below)
    return study.Claim(statement, setting, len(values), study.with_interval(found, 2, sign=True), verdict, p)


def claims(findings: dict[str, Any]) -> list[study.Claim]:
    n, later = findings["n_after"], N_INITIAL + findings["later"]
    short = max(STRIDE, n // 2 // STRIDE * STRIDE)
    ages = (
        f"MNIST (64 components), MLP with dropout, {N_INITIAL} first labels, then one by one; scores of "
        f"{findings['n_scored']:,} rows that are never bought"
    )
    frozen = f"the same; batches of 1, frozen scores are those of a model of so many labels; {N_TEST:,} test rows"
    all_rows, tenth, hundredth = (
        {k: _after(findings, f"early, {part}, correlation", k) for k in (0, STRIDE, short, n)} for part in PARTS
    )
    top = {k: _after(findings, "early, top 10 %, auroc", k) for k in (STRIDE, n)}
    early_late = {start: _after(findings, f"{start}, top 10 %, correlation", short) for start in ("early", "late")}
    spans = [
        ("early", N_INITIAL, N_INITIAL + short),
        ("early", N_INITIAL + short, N_INITIAL + n),
        ("late", later, later + n),
    ]
    accuracy = [
        {"frozen": _mean_accuracy(findings, f"frozen {name}", *span), "anew": _mean_accuracy(findings, "anew", *span)}
        for name, *span in spans
    ]

    def pair(a: str, x: list[float], b: str, y: list[float]) -> tuple[dict[str, list[float]], str, str]:
        return {a: x, b: y}, a, b

    five, last = f"after {STRIDE} labels", f"after {n}"
    return [
        study.better(
            "The rank correlation of all scores falls", ages, *pair(five, all_rows[STRIDE], last, all_rows[n])
        ),
        study.better(
            f"The rank correlation is lower in the top 10 % after {short} labels",
            ages,
            *pair("all", all_rows[short], "top 10 %", tenth[short]),
        ),
        study.better(
            f"The rank correlation is lower in the top 1 % after {short} labels",
            ages,
            *pair("all", all_rows[short], "top 1 %", hundredth[short]),
        ),
        study.better(
            f"In the top 10 % it falls more in {short} labels than between two models of the same (not in the paper)",
            ages,
            *pair("same labels", tenth[0], f"after {short}", tenth[short]),
        ),
        _below_zero(f"The rank correlation turns negative in the top 10 % (after {n} labels)", ages, tenth[n]),
        _below_zero(f"The rank correlation turns negative in the top 1 % (after {n} labels)", ages, hundredth[n]),
        study.better("The AUROC of the top 10 % falls", ages, *pair(five, top[STRIDE], last, top[n])),
        study.better(
            f"Scores of a model of {later} labels age less: correlation in the top 10 % after {short} labels",
            ages,
            *pair(f"from {later}", early_late["late"], f"from {N_INITIAL}", early_late["early"]),
        ),
        study.alike(
            f"Scores frozen at {N_INITIAL} labels serve for {short} more", frozen, accuracy[0], "frozen", "anew", 0.02
        ),
        study.better(
            f"Scores frozen at {N_INITIAL} labels serve no longer: up to {n} more",
            frozen,
            accuracy[1],
            "anew",
            "frozen",
        ),
        study.alike(f"Scores frozen at {later} labels serve for {n} more", frozen, accuracy[2], "frozen", "anew", 0.02),
    ]


def draw(findings: dict[str, Any]) -> Any:
    """Correlations, AUROC and accuracies."""
    figure, axes = study.panels(6, 3, 3.0)
    starts = {"early": N_INITIAL, "late": N_INITIAL + findings["later"]}
    for row, measure in zip(axes, ("correlation", "auroc"), strict=True):
        for ax, (start, n_labels) in zip(row, starts.items(), strict=False):
            _draw_ageing(ax, findings["ageing"], start, measure)
            ax.set_title(f"scores of a model\nof {n_labels} labels")
    accuracy = findings["accuracy"]
    for ax, start, n_labels in zip(axes[:, 2], starts, starts.values(), strict=True):
        for name, look in zip(("anew", f"frozen {start}"), drawing.styles(2), strict=True):
            inside = {
                int(n): v for n, v in accuracy[name].items() if n_labels <= int(n) <= n_labels + findings["n_after"]
            }
            label = "scored anew" if name == "anew" else f"frozen at {n_labels}"
            _band(ax, list(inside), np.transpose(list(inside.values())), label=label, **look)
        ax.set(xlabel="labels", ylabel="accuracy", title="scored anew for each\nlabel, or never again")
        ax.legend(loc="lower right")
    return figure


def _draw_ageing(ax: Any, ageing: dict[str, Any], start: str, measure: str) -> None:
    for part, look in zip(PARTS, drawing.styles(len(PARTS)), strict=True):
        values = ageing.get(f"{start}, {part}, {measure}")
        if values is not None:
            _band(ax, STRIDE * np.arange(len(values[0])), values, label=part, **look)
    correlation = measure == "correlation"
    ax.axhline(0 if correlation else 0.5, color="k", lw=0.8)
    ax.set(xlabel="labels bought since\n(0: another model)", ylabel="rank correlation" if correlation else "AUROC")
    ax.set_ylim((-0.5, 1.3) if correlation else (0.3, 1.2))
    ax.set_yticks([-0.5, 0, 0.5, 1] if correlation else [0.4, 0.6, 0.8, 1])  # the room above is the legend's
    ax.legend(loc="upper right")


def _band(ax: Any, x: Any, values: Any, **look: Any) -> None:
    """Mean of the trials, and its interval."""
    found = [estimate(column[~np.isnan(column)]) for column in np.array(values, dtype=float).T]
    drawing.draw_band(ax, np.asarray(x), *np.array([(f.mean, f.low, f.high) for f in found]).T, **look)


if __name__ == "__main__":
    study.main(sys.modules[__name__])
