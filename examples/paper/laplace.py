"""BALD of a logistic regression's Laplace draws: why it is hardly better than chance with few labels.

Draws scatter around the fitted model as far as the posterior is wide. With some twenty labels and a prior that is wide,
they scatter so far that every row is in doubt, and BALD measures how far a row lies from the origin. Here draws are
pulled towards the fitted model by the root of a temperature, from 1 (the posterior) to 0.01, for three widths of the
prior. Beside it: the margin of the model's own predictions, and chance.
"""

from __future__ import annotations

import functools
import sys
from typing import Any

import numpy as np
import study
from repulsion import FIRST_HALF, over_tables, rows
from scipy import stats
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from tabular import columns

from skactive import StochasticBatchQuery, sample_posterior
from skactive.scores import bald

TITLE = "BALD of Laplace draws, pulled together"
ALT = (
    "Dot plots for three priors of a logistic regression: the margin is above uniform with each; intervals of "
    "BALD at three temperatures are wider and mostly cross 0."
)

SIZES: dict[str, dict[str, Any]] = {
    "smallest": {"n_trials": 2, "n_rounds": 1, "tables": ["wine"], "priors": [1.0]},
    "quick": {"n_trials": 3, "n_rounds": 3, "tables": ["digits", "wine"], "priors": [1.0]},
    "full": {"n_trials": 5, "n_rounds": 6, "tables": FIRST_HALF, "priors": [0.1, 1.0, 10.0]},
}
TEMPERATURES = (1.0, 0.1, 0.01)


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
    return {"means": found, "widths": widths}


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
    ]


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
        ":ref:`The study <laplace>` has the numbers."
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
