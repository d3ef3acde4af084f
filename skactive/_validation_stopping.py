"""Errors of reports on whether to go on, in words."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ._validation import as_array, check_counts, is_number


def check_parameters(previous: Any, kind: type, tolerance: Any, patience: Any) -> None:
    if previous is not None and not isinstance(previous, kind):
        raise TypeError(f"`previous` must be the {kind.__name__} of the batch before. Got a {type(previous).__name__}.")
    if not is_number(tolerance) or not 0 <= tolerance < np.inf:
        raise ValueError(
            "`tolerance` must be the gain that makes a batch worth its price: 0.005 is half a point of accuracy. "
            f"Got {tolerance!r}."
        )
    check_counts(patience=patience)


def check_risk(risk: Any, target_risk: Any) -> None:
    if risk is not None and not hasattr(risk, "interval"):
        raise TypeError(f"`risk` must be a RiskEstimate, as those of skactive.risk. Got a {type(risk).__name__}.")
    if target_risk is None:
        return
    if not is_number(target_risk) or not np.isfinite(target_risk):
        raise ValueError(f"`target_risk` must be a number, the risk that is low enough. Got {target_risk!r}.")
    if risk is None:
        raise ValueError("`target_risk` is compared with `risk`, which is missing. Estimate it with skactive.risk.")


def other_rows_error() -> ValueError:
    return ValueError(
        "`previous` must be a report on rows like those of `X_pool`: of the same container and columns. Hand over the "
        "report of this pool's batch before, or None to begin anew."
    )


def check_predictions(predictions: Any, n_rows: int) -> NDArray[Any]:
    """Check that there is one prediction a row, and return them with one axis."""
    predictions = as_array(predictions)
    if predictions.shape not in ((n_rows,), (n_rows, 1)):
        raise ValueError(
            f"`learner` must predict one target, and for {n_rows} rows its predictions have shape {predictions.shape}. "
            "Report on each target with a model of its own."
        )
    return predictions.reshape(n_rows)
