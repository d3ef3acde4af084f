"""Errors of diagnostics and displays, in words."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ._validation import check_positions, is_integer, is_number


def check_batches(batches: Any, n_points: int) -> list[NDArray[np.int64]]:
    """Positions of the first labels and of each batch, which may be empty."""
    batches = [np.asarray(batch) if len(batch) else np.empty(0, dtype=np.int64) for batch in batches]
    if not batches or not len(batches[0]):
        raise ValueError("`batches` must start with the positions of the first labels. Got none.")
    check_positions("batches", np.concatenate(batches), n_points)
    return [batch.astype(np.int64) for batch in batches]


def check_any_left(unlabelled: NDArray[np.bool_], step: int) -> NDArray[np.bool_]:
    if not unlabelled.any():
        raise ValueError(
            f"`rows` must hold a row that is not labelled. Got {len(unlabelled)} rows, all of them labelled at step "
            f"{step}: give rows to test on, or fewer batches."
        )
    return unlabelled


def check_history(scores: Any) -> NDArray[np.float64]:
    scores = np.asarray(scores, dtype=np.float64)
    if scores.ndim != 2 or not len(scores):
        raise ValueError(
            "`scores` must have shape (n_steps, n_points): a row of scores for each step, one or more. "
            f"Got shape {scores.shape} instead."
        )
    n_infinite = int(np.isinf(scores).sum())
    if n_infinite:
        raise ValueError(f"`scores` must be finite, or NaN where a row has none. Got {n_infinite} infinite ones.")
    return scores


def check_step(name: str, step: Any, n_steps: int) -> int:
    if not is_integer(step):
        raise TypeError(f"`{name}` must be the number of a step, 0 to {n_steps - 1}. Got {step!r} instead.")
    if not 0 <= step < n_steps:
        raise ValueError(f"`{name}` must be the number of a step, 0 to {n_steps - 1}. Got {step} instead.")
    return int(step)


def check_part(top: Any, bottom: Any) -> tuple[float, int]:
    """The part of the rows that is asked for, and 1 if it is the top, -1 if it is the bottom."""
    if top is not None and bottom is not None:
        raise ValueError(f"`top` or `bottom` may be given, not both. Got top={top!r} and bottom={bottom!r}.")
    name, part, sign = ("top", top, 1) if bottom is None else ("bottom", bottom, -1)
    part = 1.0 if part is None else part
    if not is_number(part):
        raise TypeError(f"`{name}` must be a part of the rows, above 0 and at most 1. Got {part!r} instead.")
    if not 0 < part <= 1:
        raise ValueError(
            f"`{name}` must be a part of the rows, above 0 and at most 1 (0.01 is one per cent). Got {part!r} instead."
        )
    return float(part), sign


def check_decimals(decimals: Any) -> None:
    if decimals is not None and not is_integer(decimals):
        raise TypeError(f"`decimals` must be an integer, or None for scores as they are. Got {decimals!r} instead.")


def check_pool_shrank(n_points: int, n_expected: int) -> None:
    if n_points != n_expected:
        raise ValueError(
            f"`X_pool` must be the last pool less the rows bought, {n_expected} rows in the same order. Got {n_points} "
            "rows. For another pool, clone the query."
        )


def check_result(result: Any) -> Any:
    if not (hasattr(result, "rounds") and hasattr(result, "score_names")):
        raise TypeError(
            f"`result` must be an ExperimentResult, as run_experiment returns. Got a {type(result).__name__} instead."
        )
    return result


def check_scoring_of(scoring: Any, names: Sequence[str]) -> str:
    """The name of a score of a result, by default its first."""
    if not names:
        raise ValueError("`result` must hold rounds. Got none.")
    if scoring is not None and scoring not in names:
        raise ValueError(f"`scoring` must be one of the scores of the result, {list(names)}. Got {scoring!r} instead.")
    return names[0] if scoring is None else scoring


def check_query_names(queries: Any, names: Sequence[str]) -> list[str]:
    """Names of queries of a result, by default all."""
    if queries is None:
        return list(names)
    chosen = [queries] if isinstance(queries, str) else list(queries)
    unknown = [query for query in chosen if query not in names]
    if unknown or not chosen:
        raise ValueError(f"`queries` must be of those of the result, {list(names)}. Got {queries!r} instead.")
    return chosen


def check_complete(runs: Mapping[str, Any], queries: Sequence[str]) -> None:
    missing = [query for query in queries if not runs.get(query)]
    if missing:
        raise ValueError(
            f"`result` must hold a run of each query that came to its end. Got none of {missing[0]!r}: see its "
            "`failures`, and leave the query out by `queries`."
        )


def check_round(round_: Any, query: str, trial: int, n_rounds: int) -> None:
    if not n_rounds:
        raise ValueError(f"`trial` must be one of those of the result. Got {trial!r}, which {query!r} has no round of.")
    if not is_integer(round_) or not 1 <= round_ < n_rounds:
        raise ValueError(
            f"`round` must be the number of a batch that {query!r} bought in trial {trial}, 1 to {n_rounds - 1}. "
            f"Got {round_!r} instead."
        )


def check_any_common(n_labelled: Sequence[int]) -> None:
    if not n_labelled:
        raise ValueError("`result` must hold trials with numbers of labels in common. Got none.")


def check_any(name: str, what: str, values: Any) -> None:
    if not len(values):
        raise ValueError(f"`{name}` must hold at least one {what}. Got none.")


def check_lengths(**lengths: int) -> None:
    """Check that two things have one entry for each of the same."""
    (name, n), (other, n_other) = lengths.items()
    if n != n_other:
        raise ValueError(f"`{name}` must have as many entries as `{other}`, {n_other}. Got {n}.")


def check_coordinates(coordinates: Any) -> NDArray[np.float64]:
    coordinates = np.asarray(coordinates, dtype=np.float64)
    if coordinates.ndim != 2 or coordinates.shape[1] != 2:
        raise ValueError(f"`coordinates` must have shape (n_points, 2). Got shape {coordinates.shape} instead.")
    return coordinates


def check_by_point(name: str, values: Any, n_points: int) -> NDArray[np.float64]:
    values = np.asarray(values, dtype=np.float64)
    if values.shape != (n_points,):
        raise ValueError(f"`{name}` must have shape ({n_points},), one for each row. Got shape {values.shape} instead.")
    return values


@contextmanager
def projection_explained() -> Iterator[None]:
    try:
        yield
    except (TypeError, ValueError) as error:
        raise ValueError(
            "`X` must be numbers without gaps to be projected to two dimensions. Give `coordinates` of shape "
            f"(n_points, 2) instead: two columns, say, or an embedding. ({error})"
        ) from error


def no_law_error(sampler: Any) -> TypeError:
    return TypeError(
        "`samplers` must have a law, `log_weights(scores, beta)`, as those of skactive.samplers have. "
        f"Got {sampler!r} without one."
    )


def check_axes(ax: Any, n: int) -> NDArray[Any]:
    axes = np.ravel(np.asarray(ax, dtype=object))
    if len(axes) != n:
        raise ValueError(f"`ax` must be {n} axes, one for each panel. Got {len(axes)}. None makes a new figure.")
    return axes
