"""BALD of a logistic regression's Laplace draws: why it is hardly better than chance with few labels.

Draws scatter around the fitted model as far as the posterior is wide. With some twenty labels and a prior that is wide,
they scatter so far that every row is in doubt, and BALD measures how far a row lies from the origin. Here draws are
pulled towards the fitted model by the root of a temperature, from 1 (the posterior) to 0.01, for three widths of the
prior. Beside it: the margin of the model's own predictions, and chance.

On eight further tables, with C=1: information about predictions, not weights. EPIG asks what a label tells of a hundred
other rows, which are neither bought nor tested on: from 100 draws, and in closed form, without any.
"""

from __future__ import annotations

import functools
import sys
from typing import Any

import numpy as np
import study
from repulsion import FIRST_HALF, SECOND_HALF, over_tables, rows
from scipy import stats
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from tabular import columns

from skactive import StochasticBatchQuery, sample_posterior
from skactive.query import score_pool
from skactive.scores import bald

TITLE = "BALD of Laplace draws, pulled together"
ALT = (
    "Dot plots for three priors of a logistic regression: the margin is above uniform with each; intervals of "
    "BALD at three temperatures are wider and mostly cross 0."
)

SIZES: dict[str, dict[str, Any]] = {
    "smallest": {
        "n_trials": 2,
        "n_rounds": 1,
        "tables": ["wine"],
        "priors": [1.0],
        "n_further": 2,
        "further": ["breast_cancer"],
    },
    "quick": {
        "n_trials": 3,
        "n_rounds": 3,
        "tables": ["digits", "wine"],
        "priors": [1.0],
        "n_further": 3,
        "further": ["breast_cancer"],
    },
    "full": {
        "n_trials": 5,
        "n_rounds": 6,
        "tables": FIRST_HALF,
        "priors": [0.1, 1.0, 10.0],
        "n_further": 12,
        "further": SECOND_HALF,
    },
}
TEMPERATURES = (1.0, 0.1, 0.01)
N_DRAWS, N_TARGET = 100, 100
CLOSED = "EPIG in closed form"


def draws_at(temperature: float, learner: Any, X: Any) -> np.ndarray:
    """Draws (50, n, n_classes) whose logits differ from the model's by the root of the temperature of what they did."""
    model = getattr(learner, "estimator", learner)
    training = {"X_training": learner.X_training, "y_training": learner.y_training}
    draws = np.asarray(sample_posterior(model, 50, np.random.default_rng(0), **training)(X))
    own = np.log(np.maximum(model.predict_proba(X), 1e-300))
    logits = own + np.sqrt(temperature) * (np.log(np.maximum(draws, 1e-300)) - own)
    logits -= logits.max(axis=-1, keepdims=True)
    p = np.exp(logits)
    return p / p.sum(axis=-1, keepdims=True)


def bald_at(temperature: float, learner: Any, X: Any) -> np.ndarray:
    return np.asarray(bald(draws_at(temperature, learner, X)))


QUERIES: dict[str, Any] = {
    "uniform": StochasticBatchQuery("bald", sampler="uniform"),
    "margin": StochasticBatchQuery("margin", beta=4),
    **{f"BALD, T={t:g}": StochasticBatchQuery(functools.partial(bald_at, t), beta=4) for t in TEMPERATURES},
}


def model(prior: float) -> Any:
    return make_pipeline(columns(), LogisticRegression(C=prior, max_iter=1000))


def width(table: str, prior: float, places: study.Places) -> dict[str, float]:
    """With twenty labels: the mean confidence of the model and of its draws, and what BALD ranks rows by."""
    X, y = rows(table, places)
    n_labelled = max(20, len(np.unique(y)))
    first = np.random.default_rng(0).permutation(len(y))
    labelled, pool = first[:n_labelled], first[n_labelled:]
    fitted = model(prior).fit(X.iloc[labelled], y[labelled])
    learner = type("Learner", (), {"estimator": fitted, "X_training": X.iloc[labelled], "y_training": y[labelled]})()
    draws, own = draws_at(1.0, learner, X.iloc[pool]), fitted.predict_proba(X.iloc[pool])
    lengths = np.linalg.norm(fitted[0].transform(X.iloc[pool]), axis=1)
    score = np.asarray(bald(draws))
    return {
        "model": float(own.max(-1).mean()),
        "draws": float(draws.max(-1).mean()),
        "rank correlation with length": float(stats.spearmanr(score, lengths)[0]),
        "rank correlation with margin": float(stats.spearmanr(score, -np.diff(np.sort(own)[:, -2:])[:, 0])[0]),
    }


ARMS = ["margin", "BALD", "EPIG of draws", CLOSED]


def about_predictions(X_target: Any) -> dict[str, Any]:
    return {
        "uniform": StochasticBatchQuery("bald", sampler="uniform"),
        "margin": StochasticBatchQuery("margin", beta=4),
        "BALD": StochasticBatchQuery("bald", beta=4, n_draws=N_DRAWS),
        "EPIG of draws": StochasticBatchQuery("epig", beta=4, n_draws=N_DRAWS, X_target=X_target),
        CLOSED: StochasticBatchQuery("epig", beta=4, X_target=X_target),
    }


def apart(y: np.ndarray, n_trials: int) -> tuple[np.ndarray, list[tuple[np.ndarray, np.ndarray]]]:
    """Rows that EPIG is told of, and for each trial, without these, rows to buy and rows to test on."""
    others, told = train_test_split(np.arange(len(y)), test_size=N_TARGET, stratify=y, random_state=0)
    parts = (train_test_split(others, test_size=1 / 3, stratify=y[others], random_state=t) for t in range(n_trials))
    return told, [(pool, test) for pool, test in parts]


def lengths(X: Any, y: np.ndarray, told: np.ndarray, pool: np.ndarray) -> dict[str, float]:
    """Rank correlations of scores with the length of a row's features, by the first rows of a pool as labels."""
    labelled, rest = pool[: max(20, len(np.unique(y)))], X.iloc[pool[max(20, len(np.unique(y))) :]]
    fitted = model(1.0).fit(X.iloc[labelled], y[labelled])
    training = {"X_training": X.iloc[labelled], "y_training": y[labelled], "X_target": X.iloc[told]}
    columns = score_pool(fitted, rest, ["bald", "epig"], **training, random_state=0)
    length = np.linalg.norm(fitted[0].transform(rest), axis=1)
    return {name: float(stats.spearmanr(column, length)[0]) for name, column in columns.items()}


def predictions(size: Any, places: study.Places) -> dict[str, Any]:
    """Accuracy on the further tables, and what scores go with there."""
    found: dict[str, Any] = {"means": {}, "lengths": {}}
    for table in size.further:
        X, y = rows(table, places)
        told, splits = apart(y, size.n_further)
        result = places.compare(
            f"laplace-predictions-{table}",
            model(1.0),
            about_predictions(X.iloc[told]),
            X,
            y,
            splits=splits,
            n_initial=max(20, len(np.unique(y))),
            batch_size=10,
            n_rounds=size.n_rounds,
            n_trials=size.n_further,
        )
        found["means"][table] = study.means(result)
        found["lengths"][table] = lengths(X, y, told, splits[0][0])
    return found


def run(size: Any, places: study.Places) -> dict[str, Any]:
    found: dict[str, Any] = {}
    widths: dict[str, Any] = {}
    for prior in size.priors:
        found[f"C={prior:g}"] = {}
        widths[f"C={prior:g}"] = {table: width(table, prior, places) for table in size.tables}
        for table in size.tables:
            X, y = rows(table, places)
            result = places.compare(
                f"laplace-{table}-{prior:g}",
                model(prior),
                QUERIES,
                X,
                y,
                n_initial=max(20, len(np.unique(y))),
                batch_size=10 if len(y) >= 600 else 5,
                n_rounds=size.n_rounds,
                n_trials=size.n_trials,
                test_size=1 / 3,
            )
            found[f"C={prior:g}"][table] = study.means(result)
    return {"means": found, "widths": widths, "predictions": predictions(size, places)}


def claims(findings: dict[str, Any]) -> list[study.Claim]:
    made = []
    for prior, found in findings["means"].items():
        n_trials = len(next(iter(found.values()))["uniform"])
        setting = f"logistic regression, {prior}, {len(found)} tables, {n_trials} trials each"
        means = {arm: [float(np.mean(values[arm])) for values in found.values()] for arm in QUERIES}
        for arm in list(QUERIES)[2:]:
            made.append(study.better(f"{arm} is better than uniform", setting, means, arm, "uniform"))
        made.append(
            study.better("The margin is better than BALD of the posterior", setting, means, "margin", "BALD, T=1")
        )
    found = findings["predictions"]["means"]
    n_trials = len(next(iter(found.values()))["uniform"])
    setting = f"logistic regression, C=1, {len(found)} further tables, {n_trials} trials each"
    means = {arm: [float(np.mean(values[arm])) for values in found.values()] for arm in about_predictions(None)}
    for other in ("uniform", "BALD", "EPIG of draws", "margin"):
        made.append(study.better(f"EPIG in closed form is better than {other}", setting, means, CLOSED, other))
    return made


def tables(findings: dict[str, Any]) -> list[tuple[str, list[str], list[list[str]]]]:
    priors = list(findings["means"])
    lines = [
        [arm, *(study.with_interval(over_tables(findings["means"][prior], arm), 1) for prior in priors)]
        for arm in QUERIES
    ]
    names = list(next(iter(next(iter(findings["widths"].values())).values())))
    widths = [
        [name, *(f"{np.mean([of[name] for of in findings['widths'][prior].values()]):.2f}" for prior in priors)]
        for name in names
    ]
    return [
        ("Mean accuracy over acquisitions, points; the interval is over tables", ["query", *priors], lines),
        (
            "With the first labels: mean confidence (probability of the likeliest class) of the model and of a draw, "
            "and what BALD of the draws goes with: the length of a row's features, the model's margin",
            ["", *priors],
            widths,
        ),
        (
            "Further tables: mean accuracy over acquisitions minus uniform's, points; the interval of the last line is "
            "over tables. Beside it, with first labels of one trial, the rank correlation of scores with the length "
            "of a row's features",
            ["table", *ARMS, "BALD and length", "EPIG and length"],
            lines_by_table(findings["predictions"]),
        ),
    ]


def lines_by_table(found: dict[str, Any]) -> list[list[str]]:
    lines = []
    for table, values in found["means"].items():
        gains = [f"{100 * (np.mean(values[arm]) - np.mean(values['uniform'])):+.1f}" for arm in ARMS]
        lines.append([table, *gains, *(f"{found['lengths'][table][name]:.2f}" for name in ("bald", "epig"))])
    over = [study.with_interval(over_tables(found["means"], arm, "uniform"), 1, sign=True) for arm in ARMS]
    means = [f"{np.mean([of[name] for of in found['lengths'].values()]):.2f}" for name in ("bald", "epig")]
    return [*lines, ["all", *over, *means]]


def guide(findings: dict[str, Any]) -> str:
    """What the guide says."""
    means, widths = findings["means"], findings["widths"]
    number = len(next(iter(means.values())))
    lengths, margins = (
        [np.mean([of[name] for of in found.values()]) for found in widths.values()]
        for name in ("rank correlation with length", "rank correlation with margin")
    )
    over = {
        arm: "; ".join(
            f"{study.with_interval(over_tables(found, arm, 'uniform'), 1, sign=True)} with ``{prior}``"
            for prior, found in means.items()
        )
        for arm in ("margin", "BALD, T=1")
    }
    names = ", ".join(f"``{prior}``" for prior in means)
    return (
        "With few labels, draws of a logistic regression scatter so far that every row is in doubt, and BALD measures "
        f"how far a row lies from the origin. On {number} tables with 20 labels its rank correlation with the length "
        f"of a row's features was {lengths[0]:.2f}, {lengths[1]:.2f} and {lengths[2]:.2f} for {names}, and that with "
        f"the model's margin {min(margins):.2f} to {max(margins):.2f}. Mean accuracy minus uniform's, in points: BALD "
        f"{over['BALD, T=1']}; margin {over['margin']}. Draws pulled towards the fitted model, to a tenth or a "
        'hundredth of their variance, did no better that could be told. So take ``"margin"`` for linear models. '
        ":ref:`The study <laplace>` has the numbers.\n\n" + guide_to_predictions(findings["predictions"])
    )


def guide_to_predictions(found: dict[str, Any]) -> str:
    def over(arm: str, other: str) -> str:
        return study.with_interval(over_tables(found["means"], arm, other), 1, sign=True)

    of_bald, of_epig = (np.mean([of[name] for of in found["lengths"].values()]) for name in ("bald", "epig"))
    return (
        'Information about predictions, not about weights, is ``"epig"``, which needs no draws of these models: see '
        f":ref:`epig_without_draws`. On {len(found['means'])} further tables, ``C=1``, with a hundred rows as targets, "
        f"its rank correlation with the length of a row's features was {of_epig:.2f}, where that of BALD was "
        f"{of_bald:.2f}. Mean accuracy minus uniform's, in points: {over(CLOSED, 'uniform')}, of 100 draws "
        f"{over('EPIG of draws', 'uniform')}, BALD {over('BALD', 'uniform')}, margin {over('margin', 'uniform')}. "
        f"Without draws it is above BALD, {over(CLOSED, 'BALD')}, and level with the margin, {over(CLOSED, 'margin')}: "
        "take it where predictions matter for some rows."
    )


def draw(findings: dict[str, Any]) -> Any:
    """Differences to uniform over tables, a panel for each prior."""
    priors = list(findings["means"])
    figure, axes = study.panels(len(priors), 3, 2.2, sharey=True)
    for ax, prior in zip(axes.flat, priors, strict=False):
        arms = list(QUERIES)[1:]
        study.draw_intervals(ax, {arm: over_tables(findings["means"][prior], arm, "uniform") for arm in arms})
        ax.set_title(prior)
    figure.supxlabel("accuracy minus uniform's, points, with 95 % intervals", fontsize="medium")
    return figure


if __name__ == "__main__":
    study.main(sys.modules[__name__])
