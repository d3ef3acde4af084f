"""Errors of estimates of risk from chosen labels, in words."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ._validation import as_array, is_integer, is_number, warn

_LEAST_LOG_PROBA = -690.0  # where weights come near the largest float64


def check_epsilon(epsilon: Any) -> float:
    if not is_number(epsilon):
        raise TypeError(f"`epsilon` must be a number from 0 to 1. Got {epsilon!r} instead.")
    if not 0 <= epsilon <= 1:
        raise ValueError(f"`epsilon` must be from 0 (the sampler alone) to 1 (uniform). Got {epsilon!r} instead.")
    return float(epsilon)


def check_has_law(sampler: Any) -> None:
    if not hasattr(sampler, "log_weights"):
        name = getattr(sampler, "__name__", type(sampler).__name__)
        raise ValueError(
            f"`epsilon` above 0 needs a sampler whose law is known, and {name!r} has no `log_weights`. Use one of "
            "skactive.samplers, or give your sampler that function."
        )


def check_log_proba(log_proba: Any, n_pool: Any) -> NDArray[np.float64]:
    """Check log-probabilities of picks that may be turned into weights, and that the pool has so many rows."""
    if log_proba is None:
        raise TypeError(
            "`log_proba` must be the log-probability of each pick, `query.log_proba_`. Got None: a sampler of your own "
            "has none unless it knows its law."
        )
    log_proba = np.asarray(as_array(log_proba), dtype=np.float64)
    if log_proba.ndim != 1 or len(log_proba) == 0:
        raise ValueError(
            f"`log_proba` must have shape (n_labelled,), one number for each label in the order they were bought, "
            f"those of several rounds one after the other. Got shape {log_proba.shape} instead."
        )
    _check_n_pool(n_pool, len(log_proba))
    _check_possible(log_proba)
    return log_proba


def _check_n_pool(n_pool: Any, n_labelled: int) -> None:
    if not is_integer(n_pool):
        raise TypeError(f"`n_pool` must be an integer, the number of rows before the first pick. Got {n_pool!r}.")
    if n_pool < n_labelled:
        raise ValueError(
            f"`n_pool` must be the number of rows before the first of the {n_labelled} picks, so {n_labelled} or more. "
            f"Got {n_pool}."
        )


def _check_possible(log_proba: NDArray[np.float64]) -> None:
    bad = ~((log_proba > _LEAST_LOG_PROBA) & (log_proba <= 1e-9))
    if not bad.any():
        return
    pick = int(np.flatnonzero(bad)[0])
    rule = "`log_proba` must be natural logarithms of probabilities above 0."
    got = f"Got {log_proba[pick]} for pick {pick}, and {int(bad.sum())} such picks in all."
    if log_proba[pick] <= _LEAST_LOG_PROBA:
        raise ValueError(
            f"{rule} {got} Where rows (all but) cannot be picked, picks say nothing of the risk of the whole pool: "
            "give the query epsilon=0.1, say, which picks a tenth of the rows uniformly."
        )
    raise ValueError(f"{rule} {got}")


def check_losses(losses: ArrayLike, n_labelled: int, name: str = "losses") -> NDArray[np.float64]:
    values = np.asarray(as_array(losses), dtype=np.float64)
    if values.shape != (n_labelled,):
        raise ValueError(
            f"`{name}` must be one number for each of the {n_labelled} labels that were bought, in the same order. "
            f"Got shape {values.shape} instead."
        )
    if not np.isfinite(values).all():
        row = int(np.flatnonzero(~np.isfinite(values))[0])
        raise ValueError(f"`{name}` must be finite. Got {values[row]} in row {row}.")
    return values


def check_tested_query(query: Any) -> None:
    """Check that a query chooses from the whole pool."""
    if not hasattr(query, "select"):
        raise TypeError(
            f"`query` must be a query with probabilities, a StochasticBatchQuery say. Got a {type(query).__name__}."
        )
    if getattr(query, "max_candidates", None) is not None:
        raise ValueError(
            f"`query` must be able to pick any row of the pool, and max_candidates={query.max_candidates} leaves rows "
            "out. Set it to None."
        )


def no_law_error(query: Any) -> TypeError:
    return TypeError(
        f"`query` must know the probability of its picks, and this {type(query).__name__} has no `log_proba_`: its "
        "method, or its sampler, has no known law. Use a StochasticBatchQuery with a sampler of skactive.samplers."
    )


def warn_unreachable(n_unreachable: int, n_left: int) -> None:
    if n_unreachable:
        warn(
            f"{n_unreachable} of {n_left} rows could not be picked: their score, or their place in the ranking, gives "
            "them probability 0. What is estimated is then not the risk over the pool. Give the query epsilon=0.1, "
            "say, which picks a tenth of the rows uniformly.",
        )


def warn_equal_losses(n_labelled: int) -> None:
    warn(
        f"All {n_labelled} losses are equal, so there is no spread to tell an error from: the standard error of "
        f"{0.0} is too small. Buy more labels, or use a loss with more than two values, log_loss say.",
    )


def check_labels_told(y: Any, n_asked: int | None) -> NDArray[Any]:
    if n_asked is None:
        raise ValueError("`y` are labels of rows that `ask` chose, and nothing has been asked since the last labels.")
    y = np.asarray(y)
    if y.shape == (n_asked, 1):
        y = y.ravel()
    if y.shape != (n_asked,):
        raise ValueError(
            f"`y` must hold the labels of the {n_asked} rows that `ask` chose, in that order. Got shape {y.shape}."
        )
    return y


def no_labels_error() -> ValueError:
    return ValueError("No label has been told yet: `ask` for rows, and `tell` their labels.")


def no_probabilities_error(estimator: Any) -> TypeError:
    return TypeError(
        f"`loss`='log_loss' needs predict_proba, and {type(estimator).__name__} has none. Use loss=\"zero_one\"."
    )
