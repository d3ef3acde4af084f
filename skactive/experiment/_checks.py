"""What an experiment refuses or warns of, and in which words."""

from __future__ import annotations

import inspect
import numbers
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._checks import BatchError, check_counts, is_integer, is_number, task, warn


def check_queries(queries: Any) -> Mapping[str, Any]:
    """Check that queries have names, and can be called as modAL calls them."""
    if not isinstance(queries, Mapping) or not queries or not all(isinstance(name, str) for name in queries):
        raise TypeError(f"`queries` must be a dict from names to queries, one or more. Got {queries!r} instead.")
    for name, query in queries.items():
        if isinstance(query, type) or not callable(query):
            raise TypeError(f"`queries`[{name!r}] must be a query or a callable. Got {query!r} instead.")
        _check_calling_convention(name, query)
    return queries


def _check_calling_convention(name: str, query: Any) -> None:
    try:
        signature = inspect.signature(query)
    except (TypeError, ValueError):  # some builtins have none
        return
    try:
        signature.bind("learner", "X_pool", n_instances=1)
    except TypeError as error:
        raise TypeError(
            f"`queries`[{name!r}] must take (learner, X_pool, n_instances=...), as modAL's strategies do: {error}. "
            f"Its signature is {signature}."
        ) from error


def uncopyable_query_error(name: str, error: Exception) -> TypeError:
    return TypeError(
        f"`queries`[{name!r}] cannot be copied, and each run has a copy of its own: {type(error).__name__}: {error}"
    )


def is_a_classifier(estimator: Any) -> bool:
    return task(estimator) == "classifier"


def check_test_set(X_test: Any, y_test: Any, test_size: Any, splits: Any) -> None:
    if (X_test is None) != (y_test is None):
        raise ValueError("`X_test` and `y_test` must be given together. Got one of them.")
    given = [n for n, v in (("X_test", X_test), ("test_size", test_size), ("splits", splits)) if v is not None]
    if len(given) > 1:
        raise ValueError(f"Only one of `X_test`, `test_size` and `splits` may say what is tested on. Got {given}.")


def check_test_size(test_size: Any, n_points: int) -> int:
    """Number of test rows, from a part or a number."""
    if not is_number(test_size):
        raise TypeError(f"`test_size` must be a number. Got {test_size!r} instead.")
    n_test = int(test_size) if is_integer(test_size) else int(np.ceil(test_size * n_points))
    if not 1 <= n_test < n_points or (not is_integer(test_size) and not 0 < test_size < 1):
        raise ValueError(
            f"`test_size` must be a part between 0 and 1 or a number of rows below {n_points}. "
            f"Got {test_size!r} instead."
        )
    return n_test


def as_list(name: str, values: Any) -> list[Any] | None:
    """Entries by trial, from any iterable."""
    try:
        return None if values is None else list(values)
    except TypeError as error:
        raise TypeError(f"`{name}` must be a sequence, one entry a trial. Got {values!r} instead.") from error


def check_by_trial(name: str, values: list[Any], n_trials: int) -> list[Any]:
    if len(values) != n_trials:
        raise ValueError(f"`{name}` must have one entry for each of the n_trials={n_trials}. Got {len(values)}.")
    return values


def check_start(start: NDArray[Any], train: NDArray[Any], trial: int) -> None:
    outside = np.setdiff1d(start, train)
    if len(outside):
        raise ValueError(
            f"`initial` must hold training rows of its trial only. Got {len(outside)} that are none in trial {trial}, "
            f"row {outside[0]} first."
        )


def check_split(train: NDArray[Any], test: NDArray[Any], trial: int) -> None:
    common = np.intersect1d(train, test)
    if len(common):
        raise ValueError(
            f"`splits` must have no row on both sides. Got {len(common)} of them in trial {trial}, row "
            f"{common[0]} first."
        )


def check_n_initial(n_initial: int, n_train: int, classes: NDArray[Any] | None) -> None:
    """Check that the first labels fit the training rows and, for stratified ones, the classes."""
    if n_initial > n_train:
        raise ValueError(f"`n_initial` must be at most the {n_train} rows that are not tested on. Got {n_initial}.")
    if classes is not None and n_initial < len(classes):
        raise ValueError(
            f"`n_initial` must be at least the number of classes, {len(classes)}, to start with a row of each. Got "
            f"{n_initial}. With stratify=False, or positions as `initial`, classes may be missing, if the estimator "
            "can do without."
        )


def check_word_or_count(batch_size: Any) -> int | str:
    if isinstance(batch_size, str):
        if batch_size != "auto":
            raise TypeError(f'`batch_size` must be a positive integer or "auto". Got {batch_size!r} instead.')
        return batch_size
    check_counts(batch_size=batch_size)
    return int(batch_size)


def check_suggest(queries: Mapping[str, Any]) -> None:
    """Check that queries say how large a batch should be."""
    silent = [name for name, query in queries.items() if not hasattr(query, "suggest_batch_size")]
    if silent:
        raise ValueError(
            '`batch_size`="auto" needs queries with a method suggest_batch_size(learner, X_pool), as '
            f"StochasticBatchQuery has. `queries`[{silent[0]!r}] has none: give `batch_size` a number."
        )


def check_suggestion(size: Any, n_pool: int, name: str) -> int:
    if not is_integer(size) or not 1 <= size <= n_pool:
        raise BatchError(
            f"`queries`[{name!r}].suggest_batch_size must return an integer from 1 to the {n_pool} rows of the pool. "
            f"Got {size!r}."
        )
    return int(size)


def check_batch_size(batch_size: int, n_pool: int) -> None:
    if batch_size > n_pool > 0:
        raise ValueError(
            f"`batch_size` must be at most the rows of the pool, {n_pool} after the test rows and the first labels are "
            f"taken. Got {batch_size}."
        )


def check_scoring_list(scoring: Any, names: list[str | None]) -> dict[str, Any]:
    if None in names or len(set(names)) < len(names):
        raise ValueError(
            f"`scoring` as a list must hold names, or functions with names, all different. Got {scoring!r}. "
            "A dict from names to scorers can hold any."
        )
    return dict(zip(names, scoring, strict=True))  # type: ignore[arg-type]


_COLUMNS = ("trial", "query", "round", "n_labelled", "indices", "query_seconds", "fit_seconds")


def check_score_names(scoring: Mapping[Any, Any]) -> None:
    wrong = [name for name in scoring if not isinstance(name, str) or name in _COLUMNS]
    if wrong or not scoring:
        raise ValueError(
            f"`scoring` must have one name or more, and none of {', '.join(_COLUMNS)}. Got {list(scoring)!r} instead."
        )


@contextmanager
def bad_scoring_explained() -> Iterator[None]:
    try:
        yield
    except (ValueError, TypeError) as error:
        raise ValueError(
            "`scoring` must be a name in sklearn.metrics.get_scorer_names(), a callable scorer(estimator, X, y), or a "
            f"list or dict of these. {error}"
        ) from error


def check_score_value(name: str, value: Any) -> float:
    if np.ndim(value) != 0 or not isinstance(value, numbers.Real | np.bool_):
        raise ValueError(f"`scoring`: {name!r} must return a number. Got {value!r} instead.")
    return float(value)


def warn_failed_runs(failures: Sequence[Any], n_runs: int) -> None:
    if failures:
        first = failures[0]
        warn(
            f"{len(failures)} of {n_runs} runs failed and are left out of summaries; `failures` of the result has "
            f"their errors. The first, query {first.query!r} in trial {first.trial}, round {first.round}: "
            f"{first.type}: {first.message}"
        )


def all_failed_error(failures: Sequence[Any]) -> RuntimeError:
    return RuntimeError(f"Every run failed. The first, query {failures[0].query!r}:\n{failures[0].traceback}")
