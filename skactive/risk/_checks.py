"""What estimates of a risk refuse or warn of, and in which words."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .._checks import ParameterError, float64_array, is_integer, is_number, kind_of_labels, plain_labels, warn

Weights = NDArray[np.float64]

_LEAST_LOG_PROBA = -690.0  # below it, weights come near the largest float64
_GAPS = (
    "Tell the labels that are there with `rows`, and the others later; a row that nobody can label gets a label of its "
    "own, which counts as an error."
)


def check_log_proba(log_proba: Any, n_pool: Any) -> Weights:
    """Check log-probabilities of picks, and that the pool has at least as many rows."""
    if log_proba is None:
        raise TypeError(
            "`log_proba` must be the log-probability of each pick, `query.log_proba_`. Got None: the law of a "
            "custom sampler is unknown."
        )
    log_proba = float64_array("log_proba", log_proba, booleans=False)
    if log_proba.ndim != 1 or len(log_proba) == 0:
        raise ValueError(
            "`log_proba` must have shape (n_labelled,), one number for each label in the order of purchase, "
            f"concatenated over rounds. Got shape {log_proba.shape} instead."
        )
    if not is_integer(n_pool):
        raise TypeError(f"`n_pool` must be an integer, the number of rows before the first pick. Got {n_pool!r}.")
    if n_pool < len(log_proba):
        raise ValueError(
            f"`n_pool` must be the number of rows before the first of {len(log_proba)} picks, and at least that. "
            f"Got {n_pool}."
        )
    _check_possible(log_proba)
    return log_proba


def check_first_log_proba(log_proba: Any) -> Weights:
    """Check log-probabilities of the first pick, of which some may be -inf."""
    log_proba = float64_array("first_log_proba", log_proba, booleans=False)
    if log_proba.ndim != 1 or not (log_proba > -np.inf).any():
        raise ValueError(
            "`first_log_proba` must have shape (n_pool,) and hold a probability above 0: `query.first_log_proba_`. Got "
            f"shape {log_proba.shape}."
        )
    if not (log_proba <= 1e-9).all():  # or NaN
        row = int(np.flatnonzero(~(log_proba <= 1e-9))[0])
        raise ValueError(
            f"`first_log_proba` must be natural logarithms of probabilities. Got {log_proba[row]} in row {row}."
        )
    total = float(np.exp(log_proba).sum())
    if abs(total - 1) > 1e-6:
        raise ValueError(
            "`first_log_proba` must be of all rows, so that the probabilities sum to 1: `query.first_log_proba_`. They "
            f"sum to {total:.3g}."
        )
    return log_proba


def _check_possible(log_proba: Weights) -> None:
    bad = ~((log_proba > _LEAST_LOG_PROBA) & (log_proba <= 1e-9))
    if not bad.any():
        return
    pick = int(np.flatnonzero(bad)[0])
    remedy = ""
    if log_proba[pick] <= _LEAST_LOG_PROBA:
        remedy = (
            " Rows with (almost) no chance of being picked make the estimate invalid for the whole pool: set "
            "epsilon=0.1 in the query, for example, so that a tenth of the picks are uniform."
        )
    raise ValueError(
        "`log_proba` must be natural logarithms of probabilities above 0. "
        f"Got {log_proba[pick]} for pick {pick}, and {int(bad.sum())} such picks in all.{remedy}"
    )


def check_losses(losses: ArrayLike, n_labelled: int) -> Weights:
    values = float64_array("losses", losses)
    if values.shape != (n_labelled,):
        raise ValueError(
            f"`losses` must be one number for each of the {n_labelled} labels, in the order of purchase. "
            f"Got shape {values.shape} instead."
        )
    if not np.isfinite(values).all():
        row = int(np.flatnonzero(~np.isfinite(values))[0])
        raise ValueError(f"`losses` must be finite. Got {values[row]} in row {row}.")
    return values


def check_labels(labels: Any, n_rows: int) -> NDArray[Any]:
    labels = plain_labels(labels, "labels", _GAPS)
    if labels.shape not in ((n_rows,), (n_rows, 1)):
        raise ValueError(
            f"`labels` must be the labels of the {n_rows} rows that were asked for, in that order. Got shape "
            f"{labels.shape}. Labels of part of them need `rows`."
        )
    return labels.ravel()


def warn_twins() -> None:
    warn(
        "With a `diversity` and `epsilon`=0, rows that are equal to one that was picked cannot be picked any more, and "
        "the estimate is not the risk on the whole pool. Set epsilon=0.1 in the query, for example."
    )


def warn_unreachable(n_unreachable: int, n_left: int) -> None:
    if n_unreachable:
        warn(
            f"{n_unreachable} of {n_left} rows could not be picked: their score, or their rank, gives them probability "
            "0, and the estimate is not the risk on the whole pool. Set epsilon=0.1 in the query, for example, so that "
            "a tenth of the picks are uniform."
        )


def check_kind(known: NDArray[Any], y: NDArray[Any]) -> None:
    """Check that labels are of the kind that a model knows: numbers never equal text."""
    if kind_of_labels(known) != kind_of_labels(y):
        raise ParameterError(
            f"`labels` must be of the kind that the model knows, such as {known.item(0)!r}. Got {y.item(0)!r}. Convert "
            "them first."
        )


def check_largest_loss(largest: Any, losses: Weights) -> float:
    if not is_number(largest) or not largest > 0:
        raise ParameterError(f"`largest_loss` must be a number above 0, or infinity. Got {largest!r}.")
    if losses.min() < 0 or losses.max() > largest:
        raise ValueError(
            f"`losses` must lie between 0 and `largest_loss`={largest}. Got {losses.min()} to {losses.max()}."
        )
    return float(largest)


def check_limits(limits: Any) -> None:
    is_pair = isinstance(limits, tuple) and len(limits) == 2 and all(is_number(end) for end in limits)
    if not (is_pair and limits[0] <= limits[1]):
        raise ParameterError(f"`limits` must be a tuple (low, high) of numbers, low <= high. Got {limits!r}.")
