"""``skactive demo`` and ``skactive simulate``: what queries save, on digits and on a table whose labels are known."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from .._utils.types import SamplerName
from ..campaign._columns import readings_of
from ..campaign._models import fitted_preprocessing, has_skrub, named_model
from ..datasets import make_repeated
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
        raise FileError(f"--output must be a file {', '.join(PICTURES)}. Got {options.output!r}.")
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

STRATEGIES: dict[str, tuple[SamplerName, float]] = {
    "power, beta=1": ("power", 1.0),
    "power, beta=4": ("power", 4.0),
    "softmax, beta=8": ("softmax", 8.0),
    "softrank, beta=1": ("softrank", 1.0),
    "topk": ("topk", 1.0),
    "uniform": ("uniform", 1.0),
}
N_INITIAL, N_TEST, N_DRAWS = 20, 500, 20
REPEATS, NOISE = 4, 0.1
"""Copies of each digit in the pool, and the standard deviation of their noise; features are in [0, 1]."""


def demo(options: argparse.Namespace) -> str:
    """Watch a loop buy labels in batches: the rows with the highest scores are often copies, which top-k wastes."""
    output = picture_of(options)
    result = compared(options)
    pictured = save_curves(result, output, force=options.force)
    if options.json:
        return result.to_json()
    return f"{result.summary(reference='topk')}{pictured}"


def compared(options: argparse.Namespace) -> ExperimentResult:
    """Every strategy in every trial."""
    from ..mc_dropout import MCDropoutClassifier

    X, y = repeated_digits(options.seed)
    net = MCDropoutClassifier(lr=3e-3, max_epochs=options.epochs, batch_size=-1)
    queries = {
        strategy: StochasticBatchQuery(options.score, sampler, beta, n_draws=N_DRAWS)
        for strategy, (sampler, beta) in STRATEGIES.items()
    }
    splits = [split_digits(y, options.seed + trial) for trial in range(options.trials)]
    sizes = {"n_initial": N_INITIAL, "batch_size": options.batch_size}
    return run(options, make_pipeline(StandardScaler(), net), queries, X, y, splits=splits, **sizes, verbose=1)


def run(options: argparse.Namespace, *experiment: Any, scoring: str = "accuracy", **more: Any) -> ExperimentResult:
    """An experiment with the options that both commands have."""
    return run_experiment(
        *experiment,
        n_rounds=options.rounds,
        n_trials=options.trials,
        scoring=scoring,
        random_state=options.seed,
        n_jobs=options.jobs,
        **more,
    )


def repeated_digits(seed: int) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """All digits as they are, then all their noisy copies."""
    X, y = load_digits(return_X_y=True)
    X = (X / 16).astype(np.float32)
    copies, labels = make_repeated(X, y, REPEATS, NOISE, np.random.default_rng(seed))
    return np.concatenate([X, copies]), np.concatenate([y, labels])


def split_digits(y: NDArray[np.int64], seed: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Rows to train on, noisy copies of some digits, and to test on, other digits without noise: no copy may leak."""
    n = len(y) // (REPEATS + 1)
    digits, test = train_test_split(np.arange(n), test_size=N_TEST, stratify=y[:n], random_state=seed)
    return np.concatenate([digits + n * copy for copy in range(1, REPEATS + 1)]), test


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
    """A paragraph, and facts; the picture is written on the way."""
    output = picture_of(options)
    frame = frame[frame[options.target].notna()].reset_index(drop=True)
    kind = kind or "classes"
    labels = frame[options.target]
    y = labels.to_numpy(dtype=float) if kind == "numbers" else labels.str.strip().to_numpy(dtype=str)
    X = frame.drop(columns=[name for name in (options.target, options.id) if name is not None])
    if not X.shape[1]:
        raise FileError(f"{options.labels} must have a column beside the id and the target, for a model to learn from.")
    needed = options.initial + options.rounds * options.n
    n_test = max(1, len(y) // 3)
    if len(y) - n_test < needed:
        raise FileError(
            f"{options.labels} must have more labels: a third of the {len(y)} is for testing, and --initial and "
            f"--rounds times -n take {needed} of the others. Lower these."
        )
    prepared = fitted_preprocessing(
        X, readings_of(X, frame.attrs.get("decimal")), "skrub" if has_skrub() else "plain", options.seed
    )
    learner, queries = named_model(options.model, prepared, kind), queries_for(kind, options.model)
    scoring = "accuracy" if kind == "classes" else "neg_root_mean_squared_error"
    sizes = {"test_size": n_test, "n_initial": options.initial, "batch_size": options.n}
    verbose = int(sys.stderr.isatty())
    result = run(options, learner, queries, X, y, scoring=scoring, **sizes, verbose=verbose)
    pictured = save_curves(result, output, force=options.force)
    summary, saved = result.summary(reference="uniform"), result.label_savings(reference="uniform")
    sentence = _sentence(saved, summary, options)
    facts = {"sentence": sentence, "queries": _records(summary), "saved": _records(saved)}
    return f"{summary}\n\n{saved}\n\n{sentence}{pictured}", facts


_TOLD = {"better": "it would have saved labels", "worse": "it would have cost labels"}


def _sentence(saved: Summary, summary: Summary, options: argparse.Namespace) -> str:
    """What both tables say of the default query."""
    row, scores = (next(row for row in of.rows if row["query"] == "default") for of in (saved, summary))
    found, n_labels = row["saved"], options.initial + options.rounds * options.n
    if np.isnan(found.low):
        return "Whether the default query would have saved labels cannot be told from these trials."
    told = _TOLD.get(row["verdict"], "whether it saves any cannot be told from these trials")
    if row["verdict"] not in _TOLD and (by := scores["verdict"].split(",")[0]) in _TOLD:
        told += f", though its scores were {by}"
    return (
        f"Against choosing rows at random, the default query needed {abs(found.mean):.0f} labels "
        f"{'fewer' if found.mean >= 0 else 'more'} of {n_labels} for the same result (saved: 95 % interval "
        f"{found.low:.0f} to {found.high:.0f}, {row['n_trials']} paired trials): {told}."
    )


def _records(summary: Summary) -> Any:
    """Rows with null for what is not finite, which JSON has not."""
    return json.loads(summary.to_frame().to_json(orient="records", double_precision=15))
