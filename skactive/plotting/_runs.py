"""What the displays take from the result of an experiment: names of queries and scores, and the runs that finished."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Run = dict[int, float]
"""Score by the number of labels: one query in one trial."""


def check_result(result: Any) -> Any:
    if not (hasattr(result, "rounds") and hasattr(result, "score_names")):
        raise TypeError(
            f"`result` must be an ExperimentResult, as run_experiment returns. Got a {type(result).__name__} instead."
        )
    return result


def check_query_names(queries: Any, names: Sequence[str]) -> list[str]:
    """Names of queries of a result, by default all."""
    if queries is None:
        return list(names)
    chosen = [queries] if isinstance(queries, str) or not isinstance(queries, Iterable) else list(queries)
    unknown = [query for query in chosen if query not in names]
    if unknown or not chosen:
        raise ValueError(f"`queries` must be among those of the result, {list(names)}. Got {queries!r} instead.")
    return chosen


def complete_runs(
    result: Any, scoring: str | None, queries: Sequence[str] | None
) -> tuple[str, dict[str, dict[int, Run]]]:
    """The name of the score, and the runs that finished, by query and trial."""
    scoring = _check_scoring(scoring, check_result(result).score_names)
    names = check_query_names(queries, result.queries)
    failed = {(failure.query, failure.trial) for failure in result.failures}
    runs: dict[str, dict[int, Run]] = {name: {} for name in names}
    for of in result.rounds:
        if of.query in runs and (of.query, of.trial) not in failed:
            runs[of.query].setdefault(of.trial, {})[of.n_labelled] = of.scores[scoring]
    for name in names:
        if not runs[name]:
            raise ValueError(
                f"`result` must hold a finished run of each query. Got none of {name!r}: see its `failures`, and leave "
                "the query out by `queries`."
            )
    return scoring, _interpolated(runs) if result.settings.get("batch_size") == "auto" else runs


def _check_scoring(scoring: Any, names: Sequence[str]) -> str:
    """The name of a score of a result, by default its first."""
    if not names:
        raise ValueError("`result` must hold rounds. Got none.")
    if scoring is not None and scoring not in names:
        raise ValueError(f"`scoring` must be one of the scores of the result, {list(names)}. Got {scoring!r} instead.")
    return names[0] if scoring is None else scoring


def _interpolated(runs: dict[str, dict[int, Run]]) -> dict[str, dict[int, Run]]:
    """All runs at the same numbers of labels: those where any of them was evaluated, within the range of all."""
    everything = [run for of in runs.values() for run in of.values()]
    first, last = max(map(min, everything)), min(map(max, everything))
    numbers = sorted({n for run in everything for n in run if first <= n <= last})
    return {
        query: {
            t: dict(zip(numbers, np.interp(numbers, [*run], [*run.values()]), strict=True)) for t, run in of.items()
        }
        for query, of in runs.items()
    }


def aligned(runs: Iterable[Run]) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Numbers of labels at which all runs were evaluated, and scores of shape (n_trials, n_evaluations)."""
    runs = list(runs)
    common = sorted(set.intersection(*map(set, runs))) if runs else []
    if not common:
        raise ValueError("`result` must hold trials with numbers of labels in common. Got none.")
    return np.array(common), np.array([[run[n] for n in common] for run in runs])
