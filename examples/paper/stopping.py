"""When to stop: what batches bring before and after a report says so, on tables whose labels are all known.

Each trial buys on when the report says stop, so that what would have been missed can be seen.
"""

from __future__ import annotations

import json
import sys
from typing import Any

import numpy as np
import study
import tabular
from scipy.stats import spearmanr
from sklearn.model_selection import train_test_split

from skactive import StochasticBatchQuery
from skactive._random import seeded_clone
from skactive._statistics import Estimate, estimate
from skactive.experiment._plan import choose_initial
from skactive.stopping import StoppingReport

TITLE = "When to stop"

TABLES = ["breast_cancer", "credit_data", "digits", "letter", "satellite", "spambase"]
MODELS = ["logistic", "net", "forest"]
SIZES: dict[str, dict[str, Any]] = {
    "smallest": {"n_trials": 2, "n_rounds": 4, "tables": ["breast_cancer"], "models": ["logistic"]},
    "quick": {"n_trials": 2, "n_rounds": 20, "tables": ["breast_cancer", "digits"], "models": ["logistic", "net"]},
    "full": {"n_trials": 5, "n_rounds": 30, "tables": TABLES, "models": MODELS},
}
TOLERANCE, PATIENCE = 0.05, 30  # a hundred labels, and labels
WINDOW = 5  # batches, over which real gains are averaged: the noise of one is larger than itself


def run(size: Any, places: study.Places) -> dict[str, Any]:
    places.rounds.mkdir(parents=True, exist_ok=True)
    found: dict[str, Any] = {}
    for model in size.models:
        for table in size.tables:
            trials = [kept_trial(places, table, model, trial, size.n_rounds) for trial in range(size.n_trials)]
            found[f"{table} {model}"] = trials
    return found


def kept_trial(places: study.Places, table: str, model: str, trial: int, n_rounds: int) -> dict[str, Any]:
    """One trial, from the disk if it has been run."""
    path = places.rounds / f"stopping-{table}-{model}-{trial}.json"
    if not path.exists():
        print(path.stem, flush=True)
        path.write_text(json.dumps(one_trial(places, table, model, trial, n_rounds)))
    return dict(json.loads(path.read_text()))


def one_trial(places: study.Places, table: str, model: str, trial: int, n_rounds: int) -> dict[str, Any]:
    """Labels, accuracy on the test rows, the gain that the model reckons with, and the verdict, after each batch."""
    X, y = tabular.rows(table, places)
    rng = np.random.default_rng(trial)
    train, test = train_test_split(np.arange(len(y)), test_size=1 / 3, stratify=y, random_state=trial)
    batch_size = 10 if len(y) >= 600 else 5
    labelled = choose_initial(train, y, max(2 * batch_size, len(np.unique(y))), rng)
    query = StochasticBatchQuery(beta=4.0, n_draws=tabular.N_DRAWS, random_state=trial)
    report, rounds = None, []
    for _ in range(n_rounds + 1):
        data = X.iloc[labelled], y[labelled]
        fitted = seeded_clone(tabular.model(model), rng).fit(*data)
        left = np.setdiff1d(train, labelled)
        given = {"X_training": data[0], "y_training": data[1]}
        report = StoppingReport.from_learner(
            fitted,
            X.iloc[left],
            report,
            tolerance=TOLERANCE,
            patience=PATIENCE,
            n_draws=20,
            random_state=trial,
            **given,
        )
        accuracy = float(np.mean(fitted.predict(X.iloc[test]) == y[test]))
        rounds.append((len(labelled), accuracy, report.gains[-1] if report.gains else None, report.verdict))
        labelled = np.concatenate([labelled, left[query.select(fitted, X.iloc[left], batch_size, **given)]])
    taught = seeded_clone(tabular.model(model), rng).fit(X.iloc[train], y[train])
    of_all = float(np.mean(taught.predict(X.iloc[test]) == y[test]))
    columns = dict(
        zip(("n_labelled", "accuracy", "gain", "verdict"), map(list, zip(*rounds, strict=True)), strict=True)
    )
    return {**columns, "with_all_labels": of_all}


def stop_of(trial: dict[str, Any]) -> int | None:
    """The round at which the report says stop for the first time."""
    return next((i for i, verdict in enumerate(trial["verdict"]) if verdict == "stop"), None)


def real_gains(found: dict[str, Any]) -> dict[str, Estimate]:
    """Points of accuracy that a hundred labels bring just before and after the stop: means over windows of batches."""
    parts: dict[str, list[float]] = {"before": [], "after": []}
    for trials in found.values():
        stops = [(trial, stop) for trial in trials if (stop := stop_of(trial)) is not None]
        for part, sign in (("before", -1), ("after", 1)):
            gains = [_window(trial["accuracy"], trial["n_labelled"], stop, sign) for trial, stop in stops]
            known = [gain for gain in gains if gain is not None]
            parts[part] += [float(np.mean(known))] if known else []
    return {part: estimate(100 * np.array(values)) for part, values in parts.items()}


def _window(accuracy: list[float], n_labelled: list[int], stop: int, sign: int) -> float | None:
    other = min(max(0, stop + sign * WINDOW), len(accuracy) - 1)
    n_labels = n_labelled[other] - n_labelled[stop]
    return 100 * (accuracy[other] - accuracy[stop]) / n_labels if n_labels else None


def correlations(found: dict[str, Any]) -> list[float]:
    """For each pair: the rank correlation of reckoned gains with real ones, both over windows of batches."""
    values = []
    for trials in found.values():
        reckoned = np.mean([trial["gain"][1:] for trial in trials], axis=0)
        real = np.mean([np.diff(trial["accuracy"]) for trial in trials], axis=0)
        starts = range(0, len(real) - WINDOW + 1, WINDOW)
        windows = [[float(np.mean(gains[i : i + WINDOW])) for i in starts] for gains in (reckoned, real)]
        if len(windows[0]) > 2 and np.ptp(windows[0]) > 0 and np.ptp(windows[1]) > 0:
            values.append(float(spearmanr(*windows).statistic))
    return values


def ratios(found: dict[str, Any]) -> list[float]:
    """For each pair: all that the model reckons batches have brought, in parts of what they have."""
    sums = [
        (sum(sum(t["gain"][1:]) for t in trials), sum(t["accuracy"][-1] - t["accuracy"][0] for t in trials))
        for trials in found.values()
    ]
    return [float(np.log(max(reckoned, 1e-9) / real)) for reckoned, real in sums if real > 0]


def claims(findings: dict[str, Any]) -> list[study.Claim]:
    found = findings
    n_trials, n_pairs = len(next(iter(found.values()))), len(found)
    stops = [stop_of(trial) for trials in found.values() for trial in trials]
    setting = (
        f"{n_pairs} pairs of table and model; BALD, power sampling with β = 4, batches of 10 (small tables: 5); "
        f"tolerance of {100 * TOLERANCE:g} points a hundred labels, over {PATIENCE} labels"
    )
    gains, limit = real_gains(found), 100 * TOLERANCE
    after, before = gains["after"], gains["before"]
    text = f"points a hundred; {sum(s is not None for s in stops)} of {len(stops)} runs stopped"
    told = "cannot be told"
    ratio, correlation = estimate(ratios(found)), estimate(correlations(found))
    times = Estimate(*(float(np.exp(value)) for value in (ratio.mean, ratio.low, ratio.high)))
    return [
        study.Claim(
            f"The labels of the {WINDOW} batches after “stop” gain less than the tolerance",
            setting,
            n_trials,
            f"{study.with_interval(after, 2, sign=True)} {text}",
            "seen" if after.high < limit else "the opposite" if after.low > limit else told,
        ),
        study.Claim(
            f"Those of the {WINDOW} batches before it gain more",
            setting,
            n_trials,
            f"{study.with_interval(before, 2, sign=True)} {text}",
            "seen" if before.low > limit else "the opposite" if before.high < limit else told,
        ),
        study.Claim(
            "Batches with larger estimated gains have larger real gains",
            f"{setting}; means over {WINDOW} batches",
            n_trials,
            f"rank correlation {study.with_interval(correlation, 2)}",
            "seen" if correlation.low > 0 else "the opposite" if correlation.high < 0 else told,
        ),
        study.Claim(
            "The estimated gains add up to the real gains",
            setting,
            n_trials,
            f"{study.with_interval(times, 2)} times as much (geometric mean over pairs)",
            "seen"
            if times.low > 0.8 and times.high < 1.25
            else "not seen"
            if times.low > 1 or times.high < 1
            else told,
        ),
    ]


def tables(findings: dict[str, Any]) -> list[tuple[str, list[str], list[list[str]]]]:
    """Where each pair stopped, and what was to come."""
    header = ["table and model", "stopped", "labels", "accuracy", "of the last round", "with all labels"]
    rows = []
    for name, trials in findings.items():
        at = [(trial, stop) for trial in trials if (stop := stop_of(trial)) is not None]
        columns = (
            [trial["n_labelled"][stop] for trial, stop in at],
            [100 * trial["accuracy"][stop] for trial, stop in at],
            [100 * trial["accuracy"][-1] for trial in trials],
            [100 * trial["with_all_labels"] for trial in trials],
        )
        means = [
            f"{np.mean(values):.{digits}f}" if values else "–"
            for values, digits in zip(columns, (0, 1, 1, 1), strict=True)
        ]
        rows.append([name.replace("_", " "), f"{len(at)} of {len(trials)}", *means])
    return [("Where reports said stop, means over trials", header, rows)]


def draw(findings: dict[str, Any]) -> Any:
    """Curves with the points where reports said stop, a panel for each table."""
    names = sorted({name.split()[0] for name in findings})
    figure, axes = study.panels(len(names), 3, 4, 3.1)
    for ax, table in zip(axes.flat, names, strict=False):
        for colour, model in zip(("C0", "C1", "C2"), MODELS, strict=True):
            _draw_curves(ax, findings.get(f"{table} {model}", []), colour, model)
        ax.set_title(table.replace("_", " "), fontsize=10)
        ax.set(xlabel="labels", ylabel="accuracy, %")
        ax.grid(alpha=0.3)
    axes[0, 0].legend(fontsize=8, title="dots: “stop”", title_fontsize=8)
    figure.set_layout_engine("constrained")
    return figure


def _draw_curves(ax: Any, trials: list[dict[str, Any]], colour: str, model: str) -> None:
    for i, trial in enumerate(trials):
        accuracy, stop = 100 * np.array(trial["accuracy"]), stop_of(trial)
        ax.plot(trial["n_labelled"], accuracy, color=colour, lw=0.8, alpha=0.6, label=None if i else model)
        if stop is not None:
            ax.plot(trial["n_labelled"][stop], accuracy[stop], "o", color=colour, ms=6, mec="k", zorder=3)


if __name__ == "__main__":
    study.main(sys.modules[__name__])
