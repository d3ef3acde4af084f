"""``skactive demo`` and ``skactive simulate``: what queries save, on digits and on a table whose labels are known."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression

from ..campaign._columns import readings_of
from ..campaign._models import fitted_preprocessing, has_skrub, named_model
from ..experiment import run_experiment
from ..query import StochasticBatchQuery
from ._files import FileError, atomic_write, check_target

if TYPE_CHECKING:
    from ..experiment import ExperimentResult
    from ..experiment._results import Summary

PICTURES = (".png", ".pdf", ".svg")


def picture_of(options: argparse.Namespace) -> Path | None:
    """Where the picture goes, if it can be made there."""
    if options.output is None:
        return None
    picture = Path(options.output)
    if picture.suffix.lower() not in PICTURES:
        raise FileError(f"--output must end in {' or '.join(PICTURES)}. Got {options.output!r}.")
    check_target(picture, options.force)
    return picture


def save_curves(result: ExperimentResult, output: Path | None, *, force: bool) -> str:
    """Draw the curves of all queries, and tell on a line what the file holds, or why there is none."""
    if output is None:
        return ""
    try:
        import matplotlib
    except ImportError:
        return "\nNo picture: matplotlib is not installed. Install it: python -m pip install matplotlib."
    from ..plotting import LearningCurveDisplay

    matplotlib.use("Agg")
    display = LearningCurveDisplay.from_result(result)
    with atomic_write(output, force=force) as temporary:
        display.figure_.savefig(temporary, dpi=150)
    return f"\n{output} shows the learning curves."


# --- demo -----------------------------------------------------------------------------------------

LOOP: dict[str, Any] = {"scoring": "accuracy", "test_size": 600, "n_initial": 30, "batch_size": 20, "n_rounds": 5}
"""That of README.md."""


def demo(options: argparse.Namespace) -> str:
    """Compare the default, the top of BALD's ranking and random choice on digits."""
    output = picture_of(options)
    print(
        f"1,797 images of digits, whose labels are hidden. In each of {options.trials} trials a logistic regression "
        "starts from 30 random labels and gets 5 batches of 20 more, chosen in three ways: by skactive's default, from "
        f"the top of BALD, and uniformly at random. It takes about {2 * options.trials} seconds on one core.",
        file=sys.stderr,
    )
    X, y = load_digits(return_X_y=True)
    queries = {
        "default": StochasticBatchQuery(),
        "top of BALD": StochasticBatchQuery("bald", "topk"),
        "uniform": StochasticBatchQuery(sampler="uniform"),
    }
    text, facts = compared(options, output, LogisticRegression(max_iter=1000), queries, X / 16, y, **LOOP)
    return json.dumps(facts) if options.json else text


def compared(
    options: argparse.Namespace, output: Path | None, model: Any, queries: Any, X: Any, y: Any, **settings: Any
) -> tuple[str, dict[str, Any]]:
    """An experiment with the options of both commands: a paragraph, and facts; the picture is written on the way."""
    verbose = int(sys.stderr.isatty())
    chosen = {"n_trials": options.trials, "n_jobs": options.jobs, "random_state": options.seed, "verbose": verbose}
    result = run_experiment(model, queries, X, y, **settings, **chosen)
    pictured = save_curves(result, output, force=options.force)
    summary, saved = result.summary(reference="uniform"), result.label_savings(reference="uniform")
    sentence = _sentence(saved, summary, settings["n_initial"] + settings["n_rounds"] * settings["batch_size"])
    facts = {"sentence": sentence, "queries": _records(summary), "saved": _records(saved)}
    return f"{summary}\n\n{saved}{pictured}\n\n{sentence}", facts


# --- simulate -------------------------------------------------------------------------------------


def queries_for(kind: str, model: str) -> dict[str, Any]:
    """The default of campaigns, uniform choice, the top of the ranking, and sampling by disagreement."""
    queries = {
        "default": StochasticBatchQuery(epsilon=0.1, diversity=0),  # as campaigns have it
        "top of the ranking": StochasticBatchQuery(sampler="topk"),
        "uniform": StochasticBatchQuery(sampler="uniform"),
    }
    if kind == "classes":
        queries["BALD, sampled"] = (
            StochasticBatchQuery("bald", posterior="bootstrap", n_draws=10)
            if model == "boosting"  # which has no draws of its own
            else StochasticBatchQuery("bald")
        )
    return queries


def simulated(options: argparse.Namespace, frame: pd.DataFrame, kind: str | None) -> tuple[str, dict[str, Any]]:
    """Try queries on a table whose labels are known."""
    output = picture_of(options)
    frame = frame[frame[options.target].notna()].reset_index(drop=True)
    kind = kind or "classes"
    labels = frame[options.target]
    y = labels.to_numpy(dtype=float) if kind == "numbers" else labels.str.strip().to_numpy(dtype=str)
    X = frame.drop(columns=[name for name in (options.target, options.id) if name is not None])
    if not X.shape[1]:
        raise FileError(f"{options.labels} must have a column besides the id and the target for a model to learn from.")
    needed = options.initial + options.rounds * options.n
    n_test = max(1, len(y) // 3)
    if len(y) - n_test < needed:
        raise FileError(
            f"{options.labels} has too few labels: a third of its {len(y)} is for testing, and --initial plus "
            f"--rounds times -n need {needed} of the others. Lower these."
        )
    readings, vectorizer = readings_of(X, frame.attrs.get("decimal")), "skrub" if has_skrub() else "plain"
    prepared = fitted_preprocessing(X, readings, vectorizer, options.seed)
    learner, queries = named_model(options.model, prepared, kind), queries_for(kind, options.model)
    scoring = "accuracy" if kind == "classes" else "neg_root_mean_squared_error"
    sizes = {"test_size": n_test, "n_initial": options.initial, "batch_size": options.n, "n_rounds": options.rounds}
    return compared(options, output, learner, queries, X, y, scoring=scoring, **sizes)


_TOLD = {"better": "it would have saved labels", "worse": "it would have cost labels"}


def _sentence(saved: Summary, summary: Summary, n_labels: int) -> str:
    """What both tables say of the default query."""
    row, scores = (next(row for row in of.rows if row["query"] == "default") for of in (saved, summary))
    found = row["saved"]
    if np.isnan(found.low):
        return "These trials cannot tell whether the default query would have saved labels."
    told = _TOLD.get(row["verdict"], "these trials cannot tell whether it saves any")
    if row["verdict"] not in _TOLD and (by := scores["verdict"].split(",")[0]) in _TOLD:
        told += f", though its scores were {by}"
    return (
        f"The default query needed {abs(found.mean):.0f} {'fewer' if found.mean >= 0 else 'more'} of {n_labels} labels "
        f"than random choice for the same result (labels saved: 95 % interval {found.low:.0f} to {found.high:.0f}, "
        f"{row['n_trials']} paired trials): {told}."
    )


def _records(summary: Summary) -> Any:
    """Rows with null for what is not finite, which JSON has not."""
    return json.loads(summary.to_frame().to_json(orient="records", double_precision=15))
