"""When to stop: what batches bring before and after a report says so, on tables whose labels are all known.

Each trial buys on when the report says stop, so that what would have been missed can be seen.

The runs on six tables with three models (the first four claims, the figure and its table) are from before trust went by
the probabilities of all classes and "stop" asked for a model that is better than a guess. The others are from after it.
"""

from __future__ import annotations

import sys
from typing import Any

import benchmark
import many_tables
import numpy as np
import study
import tabular
from many_tables import PACKAGED, columns
from scipy.stats import spearmanr
from sklearn.datasets import make_classification
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import average_precision_score, balanced_accuracy_score
from sklearn.model_selection import train_test_split
from sklearn.naive_bayes import GaussianNB
from sklearn.tree import DecisionTreeClassifier

from skactive._utils.randomness import seeded_clone
from skactive._utils.statistics import estimate
from skactive.experiment._run import choose_initial
from skactive.plotting import _drawing as drawing
from skactive.stopping import StoppingReport

TITLE = "When to stop"
ALT = (
    "Mean learning curves of three models on six tables, with a mark where a report says stop: mostly where the "
    "steep part of the curve is over."
)

TABLES = ["breast_cancer", "credit_data", "digits", "letter", "satellite", "spambase"]
MODELS = ["logistic", "net", "forest"]
UNEVEN = ["Arrests", "Caravan", "HMDA", "SmokeBan", "attrition", "credit_data", "email", "headInjury", "lending_club"]
UNEVEN += ["mlc_churn", "wa_churn"]
SIZES: dict[str, dict[str, Any]] = {
    "smallest": {
        "n_trials": 2,
        "n_rounds": 4,
        "tables": ["breast_cancer"],
        "models": ["logistic"],
        "n_flipped": 2,
        "uneven": [],
    },
    "quick": {
        "n_trials": 2,
        "n_rounds": 20,
        "tables": ["breast_cancer", "digits"],
        "models": ["logistic", "net"],
        "n_flipped": 2,
        "uneven": ["credit_data"],
    },
    "full": {
        "n_trials": 2,
        "n_rounds": 30,
        "tables": TABLES,
        "models": MODELS,
        "n_flipped": 10,
        "uneven": UNEVEN,
    },
}
TOLERANCE, PATIENCE = 0.05, 30  # a hundred labels, and labels
VERDICTS = ("go on", "stop", "cannot be told", "too early")
FLIPS = (0.0, 0.25, 0.5)
WORKS_ALONE: dict[str, Any] = {
    "logistic": LogisticRegression,
    "naive Bayes": GaussianNB,
    "forest": lambda: RandomForestClassifier(30),
    "tree": lambda: DecisionTreeClassifier(min_samples_leaf=5),
}
RARE = {"logistic": LogisticRegression, "forest": lambda: RandomForestClassifier(50, min_samples_leaf=3)}
WINDOW = 5  # batches, over which real gains are averaged: the noise of one is larger than itself


def run(size: Any, places: study.Places) -> dict[str, Any]:
    of_tables = [(table, model, size.n_rounds) for model in size.models for table in size.tables]
    found = {f"{table} {model}": trials for (table, model, _), trials in each(places, one_trial, of_tables, size)}
    flipped = {
        f"{name} {flips:g}": [made_up(make, seed, size.n_rounds, flips) for seed in range(size.n_flipped)]
        for name, make in WORKS_ALONE.items()
        for flips in FLIPS
    }
    rare = {
        name: [made_up(make, seed, size.n_rounds + 10, 0, 0.03) for seed in range(max(2, size.n_flipped // 4))]
        for name, make in RARE.items()
    }
    uneven = {name: runs for (name,), runs in each(places, uneven_run, [(name,) for name in size.uneven], size)}
    return {"tables": found, "flipped": flipped, "rare": rare, "uneven": uneven}


def each(places: study.Places, function: Any, of: list[tuple[Any, ...]], size: Any) -> Any:
    """What these have, and all trials of it, which are kept; a trial takes some ten seconds."""
    calls = [(*one, trial) for one in of for trial in range(size.n_trials)]
    trials = benchmark.each(places, function, calls, 10)
    return [(one, trials[i * size.n_trials : (i + 1) * size.n_trials]) for i, one in enumerate(of)]


def made_up(make: Any, seed: int, n_rounds: int, flips: float, positives: float = 0.5) -> dict[str, Any]:
    """One trial on rows that are made up, with a part of the labels turned round, or few positives."""
    X, y = make_classification(
        6_000,
        10,
        n_informative=5,
        weights=[1 - positives],
        flip_y=0,
        class_sep=1.0 if flips else 0.8,
        random_state=seed,
    )
    rng = np.random.default_rng(seed)
    y = np.where(rng.random(len(y)) < flips, 1 - y, y)
    labelled = choose_initial(np.arange(3_000), y, 20 if positives == 0.5 else 40, rng)
    query, report, rounds = study.sampled("margin", beta=4, random_state=seed), None, []
    for _ in range(n_rounds + 1):
        model = seeded_clone(make(), rng).fit(X[labelled], y[labelled])
        left = np.setdiff1d(np.arange(3_000), labelled)
        given = {"X_training": X[labelled], "y_training": y[labelled], "random_state": seed}
        report = StoppingReport.from_learner(model, X[left], report, tolerance=TOLERANCE, patience=PATIENCE, **given)
        if positives == 0.5:
            value = float(model.score(X[3_000:], y[3_000:]))
        else:
            value = float(average_precision_score(y[3_000:], model.predict_proba(X[3_000:])[:, 1]))
        rounds.append((len(labelled), value, reckoned(report), report.verdict))
        labelled = np.concatenate([labelled, left[query.select(model, X[left], 10)]])
    return _columns(rounds)


MEASURED: dict[str, Any] = {
    "accuracy": lambda y, p: float(np.mean((p > 0.5) == y)),
    "balanced_accuracy": lambda y, p: float(balanced_accuracy_score(y, p > 0.5)),
    "average_precision": lambda y, p: float(average_precision_score(y, p)),
}
AT = range(60, 201, 20)  # labels, after which a hundred more are bought


def uneven_run(places: study.Places, table: str, seed: int) -> dict[str, Any]:
    """Verdicts by each measure after batches of 20, as a campaign asks for them, and the measures on held-out rows."""
    packaged = PACKAGED.get(table)
    X, labels = study.packaged_table(table, *packaged) if packaged else study.table(places, table)
    names, counts = np.unique(labels, return_counts=True)
    rng = np.random.default_rng(seed)
    rows = rng.permutation(len(labels))[:3_500]
    X, y = columns().fit_transform(X.iloc[rows]), labels[rows] == names[counts.argmin()]
    pool, test = np.split(np.arange(len(y)), [900])
    labelled = pool[: max(20, 1 + int(np.argmax(y)), 1 + int(np.argmin(y)))]  # of both classes
    reports: dict[str, Any] = dict.fromkeys(MEASURED)
    query, found = study.sampled(epsilon=0.1, random_state=seed), []
    while True:
        model = RandomForestClassifier(50, random_state=seed).fit(X[labelled], y[labelled])
        left = np.setdiff1d(pool, labelled)
        given = {"X_training": X[labelled], "y_training": y[labelled], "n_draws": 2, "random_state": seed}
        for name, before in reports.items():
            reports[name] = StoppingReport.from_learner(model, X[left], before, scoring=name, **given)
        chance = model.predict_proba(X[test])[:, 1]
        seen = {name: measure(y[test], chance) for name, measure in MEASURED.items()}
        said = {name: [report.verdict, reckoned(report), report.by_gains] for name, report in reports.items()}
        found.append({"rarer": int(min(y[labelled].sum(), (~y[labelled]).sum())), "seen": seen, "said": said})
        if len(found) > (AT[-1] + 80) // 20:
            return {"share": float(y.mean()), "rounds": found}
        labelled = np.concatenate([labelled, left[query.select(model, X[left], 20)]])


def reckoned(report: StoppingReport) -> float | None:
    """What a label brings by the report, or that it does not say."""
    return None if np.isnan(report.rate) else report.rate / 100


def _columns(rounds: list[tuple[Any, ...]]) -> dict[str, Any]:
    names = ("n_labelled", "accuracy", "gain", "verdict")
    return dict(zip(names, map(list, zip(*rounds, strict=True)), strict=True))


def one_trial(places: study.Places, table: str, model: str, n_rounds: int, trial: int) -> dict[str, Any]:
    """Labels, accuracy on the test rows, the gain that the model reckons with, and the verdict, after each batch."""
    X, y = many_tables.rows(table, places, most=3_000)
    rng = np.random.default_rng(trial)
    train, test = train_test_split(np.arange(len(y)), test_size=1 / 3, stratify=y, random_state=trial)
    batch_size = 10 if len(y) >= 600 else 5
    labelled = choose_initial(train, y, max(2 * batch_size, len(np.unique(y))), rng)
    query = study.sampled("bald", beta=4.0, n_draws=tabular.N_DRAWS, random_state=trial)
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
            random_state=trial,
            **given,
        )
        accuracy = float(np.mean(fitted.predict(X.iloc[test]) == y[test]))
        rounds.append((len(labelled), accuracy, reckoned(report), report.verdict))
        labelled = np.concatenate([labelled, left[query.select(fitted, X.iloc[left], batch_size, **given)]])
    taught = seeded_clone(tabular.model(model), rng).fit(X.iloc[train], y[train])
    of_all = float(np.mean(taught.predict(X.iloc[test]) == y[test]))
    return {**_columns(rounds), "with_all_labels": of_all}


def stop_of(trial: dict[str, Any]) -> int | None:
    """The round at which the report says stop for the first time."""
    return next((i for i, verdict in enumerate(trial["verdict"]) if verdict == "stop"), None)


def real_gains(found: dict[str, Any]) -> dict[str, np.ndarray]:
    """Points of accuracy that a hundred labels bring just before and after the stop: means over windows of batches.

    One value for each pair of table and model.
    """
    parts: dict[str, list[float]] = {"before": [], "after": []}
    for trials in found.values():
        stops = [(trial, stop) for trial in trials if (stop := stop_of(trial)) is not None]
        for part, sign in (("before", -1), ("after", 1)):
            gains = [_window(trial["accuracy"], trial["n_labelled"], stop, sign) for trial, stop in stops]
            known = [gain for gain in gains if gain is not None]
            parts[part] += [float(np.mean(known))] if known else []
    return {part: 100 * np.array(values) for part, values in parts.items()}


def _window(accuracy: list[float], n_labelled: list[int], stop: int, sign: int) -> float | None:
    other = min(max(0, stop + sign * WINDOW), len(accuracy) - 1)
    n_labels = n_labelled[other] - n_labelled[stop]
    return 100 * (accuracy[other] - accuracy[stop]) / n_labels if n_labels else None


def correlations(found: dict[str, Any]) -> list[float]:
    """For each pair: the rank correlation of reckoned gains with real ones, both over windows of batches."""
    values = []
    for trials in found.values():
        gains = np.array([trial["gain"][3:] for trial in trials], dtype=float)
        known = np.nan_to_num(gains).mean(axis=0)
        real = np.mean([np.diff(trial["accuracy"])[2:] for trial in trials], axis=0)
        starts = range(0, len(real) - WINDOW + 1, WINDOW)
        windows = [[float(np.mean(gains[i : i + WINDOW])) for i in starts] for gains in (known, real)]
        if len(windows[0]) > 2 and np.ptp(windows[0]) > 0 and np.ptp(windows[1]) > 0:
            values.append(float(spearmanr(*windows).statistic))
    return values


def too_much(trials: list[dict[str, Any]]) -> float:
    """Points of accuracy that reports reckon with beyond those that came, over all rounds that they speak of."""
    return float(np.mean([_reckoned_and_real(trial)[0] - _reckoned_and_real(trial)[1] for trial in trials]))


def _reckoned_and_real(trial: dict[str, Any]) -> tuple[float, float]:
    """Points of accuracy: what the rates of reports add up to, over the batches that they are of, and what came.

    The report of a round speaks of labels up to that of the round before.
    """
    known = [i for i, gain in enumerate(trial["gain"]) if gain is not None and np.isfinite(gain)]
    if not known:
        return 0.0, 0.0
    sizes = np.diff(trial["n_labelled"])
    by_report = sum(trial["gain"][i] * sizes[i - 2] for i in known)
    return 100 * by_report, 100 * (trial["accuracy"][known[-1] - 1] - trial["accuracy"][known[0] - 2])


def claims(findings: dict[str, Any]) -> list[study.Claim]:
    found = findings["tables"]
    n_trials, n_pairs = len(next(iter(found.values()))), len(found)
    stops = [stop_of(trial) for trials in found.values() for trial in trials]
    setting = (
        f"{n_pairs} pairs of table and model; BALD, power sampling with β = 4, batches of 10 (small tables: 5); "
        f"tolerance of {100 * TOLERANCE:g} points a hundred labels, over {PATIENCE} labels"
    )
    gains, limit = real_gains(found), 100 * TOLERANCE
    below, above, correlation = limit - gains["after"], gains["before"] - limit, np.array(correlations(found))
    text = f"points a hundred; {sum(s is not None for s in stops)} of {len(stops)} runs stopped"
    too_high = np.array([too_much(trials) for trials in found.values()])
    beyond = estimate(too_high)
    return [
        study.Claim(
            f"The labels of the {WINDOW} batches after “stop” gain less than the tolerance",
            setting,
            n_trials,
            f"{study.with_interval(estimate(gains['after']), 2, sign=True)} {text}",
            study.above(estimate(below)),
            study.p_value(below),
        ),
        study.Claim(
            f"The labels of the {WINDOW} batches before “stop” gain more",
            setting,
            n_trials,
            f"{study.with_interval(estimate(gains['before']), 2, sign=True)} {text}",
            study.above(estimate(above)),
            study.p_value(above),
        ),
        study.Claim(
            "Batches with larger estimated gains have larger real gains",
            f"{setting}; means over {WINDOW} batches",
            n_trials,
            f"rank correlation {study.with_interval(estimate(correlation), 2)}",
            study.above(estimate(correlation)),
            study.p_value(correlation),
        ),
        study.Claim(
            "Estimated and real gains of all batches differ by less than 3 points",
            setting,
            n_trials,
            f"estimated − real: {study.with_interval(beyond, 1, sign=True)} points",
            "seen"
            if max(abs(beyond.low), abs(beyond.high)) < 3
            else "not seen"
            if beyond.low > 3 or beyond.high < -3
            else "cannot be told",
            study.p_value(too_high + 3, too_high - 3),
        ),
        *_on_flipped(findings["flipped"]),
        *_on_rare(findings["rare"]),
        *_on_uneven(findings["uneven"]),
    ]


def _on_flipped(flipped: dict[str, Any]) -> list[study.Claim]:
    """Whether noise is taken for a gain."""
    n_trials, made = len(next(iter(flipped.values()))), []
    tosses = [verdict for name, of in flipped.items() if name.endswith(" 0.5") for t in of for verdict in t["verdict"]]
    n_on = tosses.count("go on")
    made.append(
        study.Claim(
            "On labels that are coin tosses no report says “go on”",
            "two classes, ten columns, four models",
            n_trials,
            f"{n_on} of {len(tosses)} reports say so",
            "not seen" if n_on else "seen",
        )
    )
    for flips in FLIPS:
        of = {name: trials for name, trials in flipped.items() if name.endswith(f" {flips:g}")}
        beyond = estimate([too_much(trials) for trials in of.values()])
        stopped = sum(stop_of(t) is not None for trials in of.values() for t in trials)
        setting = f"{100 * flips:g} % of labels turned round, four models"
        text = f"estimated − real: {study.with_interval(beyond, 1, sign=True)} points; {stopped} of "
        text += f"{sum(map(len, of.values()))} runs stopped"
        verdict = "seen" if abs(beyond.mean) < 3 else "not seen"
        made.append(
            study.Claim("Estimated gains are within 3 points of the real ones", setting, n_trials, text, verdict)
        )
    return made


def _on_rare(rare: dict[str, Any]) -> list[study.Claim]:
    """Whether reports stop where average precision still rises."""
    made = []
    for name, trials in rare.items():
        early = 0
        for trial in trials:
            stops = [
                i for i, verdict in enumerate(trial["verdict"]) if verdict == "stop" and i + 10 < len(trial["gain"])
            ]
            early += any(trial["accuracy"][i + 10] - trial["accuracy"][i] >= 0.05 for i in stops)
        text = f"{early} of {len(trials)} runs stop 100 labels before a gain of 5 points"
        setting = f"3 % positives, {name}, average precision"
        made.append(
            study.Claim(
                "No report says “stop” where much is to come",
                setting,
                len(trials),
                text,
                "not seen" if early else "seen",
            )
        )
    return made


def _said(uneven: dict[str, Any], by: str, verdict: str, doubted: bool = True) -> np.ndarray:
    """Points that the hundred labels after such a report brought, a row a report: of each of `MEASURED`.

    ``doubted``: by the verdict, with doubts about the model; otherwise by gains alone.
    """
    rounds = [of["rounds"][i : i + 6] for runs in uneven.values() for of in runs for i in range(2, 10)]
    chosen = [of for of in rounds if of[0]["said"][by][0 if doubted else 2] == verdict]
    gains = [[100 * (of[5]["seen"][name] - of[0]["seen"][name]) for name in MEASURED] for of in chosen]
    return np.array(gains).reshape(-1, len(MEASURED))


def _on_uneven(uneven: dict[str, Any]) -> list[study.Claim]:
    """What labels bring after a verdict where one of two classes is rarer: by accuracy, and by average precision."""
    if not uneven:
        return []
    setting = f"{len(uneven)} tables, 5 to 28 % of the rarer class, forest, reports at 60 to 200 labels"
    n_trials = len(next(iter(uneven.values())))
    by_accuracy = _said(uneven, "accuracy", "stop", doubted=False)
    on, other = (_said(uneven, "average_precision", verdict) for verdict in ("go on", "cannot be told"))
    rises = f"{np.mean(by_accuracy[:, 2] > 100 * TOLERANCE):.0%}" if len(by_accuracy) else "none"
    text = f"of {len(by_accuracy)} such reports {rises} are followed by 5 points of average precision in 100 labels"
    means = [float(part[:, 2].mean()) if len(part) else np.nan for part in (on, other)]
    ours = f"{means[0]:+.1f} points in {len(on)} reports, {means[1]:+.1f} after “cannot be told”"
    return [
        study.Claim(
            "“Stop” by accuracy leaves less than 5 points of average precision to come",
            setting,
            n_trials,
            text.replace(" %", "%").replace("%", " %"),
            "not seen" if len(by_accuracy) and np.mean(by_accuracy[:, 2] > 100 * TOLERANCE) > 0.1 else "seen",
        ),
        study.Claim(
            "After “go on” by average precision, 100 labels bring it more than the tolerance",
            setting,
            n_trials,
            ours,
            "seen" if means[0] > 100 * TOLERANCE else "not seen",
        ),
    ]


def _rows_of_uneven(uneven: dict[str, Any]) -> list[list[str]]:
    rows = []
    for name in MEASURED:
        for verdict in VERDICTS:
            counts = [len(_said(uneven, name, verdict, doubted)) for doubted in (False, True)]
            gains = _said(uneven, name, verdict)
            if sum(counts):
                shown = [f"{gain:+.1f}" for gain in gains.mean(axis=0)] if len(gains) else ["–"] * len(MEASURED)
                rows.append([name.replace("_", " "), verdict, *map(str, counts), *shown])
    return rows


def tables(findings: dict[str, Any]) -> list[tuple[str, list[str], list[list[str]]]]:
    """Where each pair stopped, and what was to come."""
    header = ["table and model", "stopped", "labels", "accuracy", "of the last round", "with all labels"]
    rows = []
    for name, trials in findings["tables"].items():
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
    flipped = []
    for name, trials in findings["flipped"].items():
        model, flips = name.rsplit(" ", 1)
        sums = np.mean([_reckoned_and_real(trial) for trial in trials], axis=0)
        verdicts = [verdict for trial in trials for verdict in trial["verdict"]]
        stopped = sum(stop_of(trial) is not None for trial in trials)
        parts = [f"{100 * verdicts.count(verdict) / len(verdicts):.0f} %" for verdict in VERDICTS]
        flipped.append(
            [model, f"{100 * float(flips):g} %", *(f"{v:+.1f}" for v in sums), f"{stopped} of {len(trials)}", *parts]
        )
    return [
        ("Where reports said stop, means over trials", header, rows),
        (
            "Labels turned round at random: gains in points over all batches, and parts of all reports",
            ["model", "turned round", "estimated", "real", "stopped", *VERDICTS],
            flipped,
        ),
        (
            "One of two classes is rare (5 to 28 %): verdicts by each measure, and what the next 100 labels bring",
            [
                "measure",
                "verdict",
                "reports, by gains alone",
                "reports",
                *(name.replace("_", " ") for name in MEASURED),
            ],
            _rows_of_uneven(findings["uneven"]),
        ),
    ]


def draw(findings: dict[str, Any]) -> Any:
    """Mean curves, and the points where reports said stop, a panel for each table."""
    found = findings["tables"]
    names = sorted({name.split()[0] for name in found})
    figure, axes = study.panels(len(names), 3, 2.7)
    for ax, table in zip(axes.flat, names, strict=False):
        for model, look in zip(MODELS, drawing.styles(len(MODELS)), strict=True):
            _draw_curves(ax, found.get(f"{table} {model}", []), model, look)
        ax.set(title=table.replace("_", " "), xlabel="labels", ylabel="accuracy, %")
    study.legend_above(figure, axes[0, 0], title="mean over trials; a mark: a report says “stop”")
    return figure


def _draw_curves(ax: Any, trials: list[dict[str, Any]], model: str, look: dict[str, Any]) -> None:
    if not trials:
        return
    labels = trials[0]["n_labelled"]
    mean = np.mean([100 * np.interp(labels, trial["n_labelled"], trial["accuracy"]) for trial in trials], axis=0)
    stops = [trial["n_labelled"][stop] for trial in trials if (stop := stop_of(trial)) is not None]
    ax.plot(labels, mean, label=model, lw=1.4, color=look["color"], ls=look["linestyle"])
    ax.plot(stops, np.interp(stops, labels, mean), look["marker"], color=look["color"], ms=7, mec="k", zorder=3)


if __name__ == "__main__":
    study.main(sys.modules[__name__])
