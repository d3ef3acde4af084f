"""What labels must be."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray


def check_labels(y: Any) -> NDArray[Any]:
    """One label for each row, of a single axis."""
    y = np.asarray(y)
    if y.ndim != 1 and (y.ndim != 2 or y.shape[1] != 1):
        raise ValueError(
            f"`y_training` must have shape (n_labelled,). Got shape {y.shape} instead: models of several outputs are "
            "not supported. Fit one model for each target."
        )
    return y.ravel()


def one_class_error(labels: NDArray[Any]) -> ValueError:
    return ValueError(
        f"`y` must hold two classes or more to train a classifier. Got one class, {labels[0]!r}. Declare labels that "
        "`y` still lacks with `classes`."
    )


def check_classes(y: NDArray[Any], declared: Any) -> NDArray[Any]:
    """All labels, sorted: the declared ones, or those in y if none are declared."""
    if declared is None:
        return np.unique(y)
    classes = np.unique(declared)
    unknown = np.setdiff1d(y, classes)
    if len(unknown):
        raise ValueError(f"`classes` must list every label in `y`. Got {classes}, which lacks {unknown}.")
    return classes


def check_labels_of(n_rows: int, y: Any, suffix: str = "") -> NDArray[Any]:
    """Labels as an array, (n_rows,) or (n_rows, 1): one for each row, and none missing."""
    gaps = y.isna().to_numpy() if hasattr(y, "isna") else None
    y = np.asarray(y)
    if y.shape not in ((n_rows,), (n_rows, 1)):
        raise ValueError(
            f"`y{suffix}` must have shape ({n_rows},), one label for each row of `X{suffix}`. Got {y.shape} instead."
        )
    missing = _missing(y.ravel()) if gaps is None else np.ravel(gaps)
    if missing.any():
        row = int(np.flatnonzero(missing)[0])
        raise ValueError(
            f"`y{suffix}` must have a finite label for every row. Got {y.ravel()[row]!r} in row {row}, and "
            f"{int(missing.sum())} such rows in all. Leave those rows out."
        )
    return y


def _missing(y: NDArray[Any]) -> NDArray[np.bool_]:
    if y.dtype.kind == "f":
        return ~np.isfinite(y)
    if y.dtype.kind != "O":
        return np.zeros(len(y), dtype=bool)
    return np.array([value is None or bool(value != value) for value in y.tolist()], dtype=bool)
