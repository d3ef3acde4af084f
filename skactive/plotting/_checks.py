"""What a plot refuses or warns of, and in which words."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._checks import is_integer


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


def no_law_to_show_error(sampler: Any) -> TypeError:
    return TypeError(
        "`samplers` must have a law, `log_weights(scores, beta)`, as those of skactive.samplers have. "
        f"Got {sampler!r} without one."
    )


def check_axes(ax: Any, n: int) -> NDArray[Any]:
    axes = np.ravel(np.asarray(ax, dtype=object))
    if len(axes) != n:
        raise ValueError(f"`ax` must be {n} axes, one for each panel. Got {len(axes)}. None makes a new figure.")
    return axes
