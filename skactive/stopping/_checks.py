"""What a stopping report refuses or warns of, and in which words."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._checks import as_array, check_counts, is_number


def check_parameters(previous: Any, kind: type, tolerance: Any, patience: Any) -> None:
    if previous is not None and not isinstance(previous, kind):
        raise TypeError(f"`previous` must be the {kind.__name__} of the batch before. Got a {type(previous).__name__}.")
    if not is_number(tolerance) or not 0 <= tolerance <= 1:
        raise ValueError(
            "`tolerance` must be the gain that makes a hundred labels worth their price, from 0 to 1: 0.05 is five "
            f"points of accuracy. Got {tolerance!r}."
        )
    check_counts(patience=patience)


def check_risk(risk: Any, target_risk: Any) -> None:
    if risk is not None and not (hasattr(risk, "interval") and hasattr(risk, "greater_is_better")):
        raise TypeError(f"`risk` must be a RiskEstimate, as those of skactive.risk. Got a {type(risk).__name__}.")
    if target_risk is not None and not (is_number(target_risk) and np.isfinite(target_risk)):
        raise ValueError(f"`target_risk` must be a number, the risk that is good enough. Got {target_risk!r}.")


def check_training(X_training: Any, y_training: Any) -> None:
    if X_training is None or y_training is None:
        raise ValueError(
            "`X_training` and `y_training` must be given with an estimator by itself: a report goes by the labels "
            "that it was fitted to. Or report on a modAL learner, which brings its own."
        )


def check_more_labels(n_before: int, n_now: int) -> None:
    if n_now <= n_before:
        raise ValueError(
            f"`previous` must be a report of fewer labels than the model has now. Got one of {n_before} labels, and "
            f"there are {n_now}: report once after each batch, and begin without `previous` where training starts anew."
        )


def check_same_kind(before: NDArray[Any], now: NDArray[Any]) -> None:
    """Check that predictions can be compared."""
    kinds = ["numbers" if labels.dtype.kind in "iufb" else "text" for labels in (before, now)]
    if kinds[0] != kinds[1]:
        raise ValueError(
            f"`previous` must be a report on the same kind of labels. Its predictions were {kinds[0]}, and now they "
            f"are {kinds[1]}: begin anew, without `previous`."
        )


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
