"""``skactive simulate``: which query would have saved labels, on a table whose labels are known."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from ..campaign._models import fitted_preprocessing, has_skrub, named_model, rows_to_look_at
from ..experiment import run_experiment
from ..query import StochasticBatchQuery
from ._demo import PICTURES, save_curves
from ._tables import FileError


def queries_for(kind: str, model: str) -> dict[str, Any]:
    """The default of campaigns, uniform choice, the top of the ranking, and sampling by disagreement."""
    queries = {
        "default": StochasticBatchQuery(epsilon=0.1),  # as campaigns have it
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


def simulated(options: argparse.Namespace, frame: pd.DataFrame, task: str) -> tuple[dict[str, Any], str]:
    """Facts and a paragraph; the picture is written on the way."""
    output = None if options.output is None else Path(options.output)
    if output is not None and output.suffix not in PICTURES:
        raise FileError(f"--output must be a file {', '.join(PICTURES)}. Got {options.output!r}.")
    frame = frame[frame[options.target].notna()].reset_index(drop=True)
    kind = "numbers" if task == "regression" else "classes"
    labels = frame[options.target]
    y = labels.to_numpy(dtype=float) if kind == "numbers" else labels.str.strip().to_numpy(dtype=str)
    X = frame.drop(columns=[name for name in (options.target, options.id) if name is not None])
    needed = options.initial + options.rounds * options.n
    n_test = max(1, len(y) // 3)
    if len(y) - n_test < needed:
        raise FileError(
            f"{options.labels} must have more labels: a third of the {len(y)} is for testing, and --initial and "
            f"--rounds times -n take {needed} of the others. Lower these."
        )
    prepared = fitted_preprocessing(X.iloc[rows_to_look_at(len(X))], "skrub" if has_skrub() else "plain", options.seed)
    result = run_experiment(
        named_model(options.model, prepared, kind),
        queries_for(kind, options.model),
        X,
        y,
        test_size=n_test,
        n_initial=options.initial,
        batch_size=options.n,
        n_rounds=options.rounds,
        n_trials=options.trials,
        scoring="accuracy" if kind == "classes" else "neg_root_mean_squared_error",
        random_state=options.seed,
        n_jobs=options.jobs,
        verbose=int(sys.stderr.isatty()),
    )
    pictured = "" if output is None else "\n" + save_curves(result, output, force=options.force)
    summary, saved = result.summary(reference="uniform"), result.label_savings(reference="uniform")
    sentence = _sentence(saved, options)
    facts = {
        "sentence": sentence,
        "queries": summary.to_frame().to_dict("records"),
        "saved": saved.to_frame().to_dict("records"),
        "picture": options.output,
    }
    return _without_nan(facts), f"{summary}\n\n{saved}\n\n{sentence}{pictured}"


def _sentence(saved: Any, options: argparse.Namespace) -> str:
    row = next(row for row in saved.rows if row["query"] == "default")
    found, n = row["saved"], row["n_trials"]
    if not n or np.isnan(found.low):
        return "How many labels the default query would have saved cannot be told: --trials 10 tells more."
    n_labels = options.initial + options.rounds * options.n
    told = (
        "it would have saved labels"
        if found.low > 0
        else "it would have cost labels"
        if found.high < 0
        else "whether it saves any cannot be told from these trials"
    )
    return (
        f"Against choosing rows at random, the default query needed {abs(found.mean):.0f} labels "
        f"{'fewer' if found.mean >= 0 else 'more'} of {n_labels} for the same result (saved: 95 % interval "
        f"{found.low:.0f} to {found.high:.0f}, {n} paired trials): {told}."
    )


def _without_nan(value: Any) -> Any:
    """JSON has no NaN."""
    if isinstance(value, dict):
        return {name: _without_nan(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_without_nan(item) for item in value]
    return None if isinstance(value, float) and not np.isfinite(value) else value
