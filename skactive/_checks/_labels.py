"""What labels must be, and how those of any container become an array."""

from __future__ import annotations

import numbers
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ._arrays import as_array
from ._rules import ParameterError

LEAVE_OUT = "Leave those rows out."


def plain_labels(y: Any, name: str = "y", remedy: str = LEAVE_OUT) -> NDArray[Any]:
    """Labels of any shape and container as an array of numpy, none of them missing, and all of one kind.

    Containers are those of numpy (masked arrays and its own strings, too), pandas, Arrow and torch, and lists. Numbers
    among objects become an array of numbers; text stays what it is.
    """
    if isinstance(y, list | tuple):
        y = [value.tolist() if hasattr(value, "detach") else value for value in y]
    given = _opened(y)
    missing = _missing(given) | _marked_as_missing(y, given)
    if missing.any():
        raise _gap_error(given, missing, name, remedy)
    if any(issubclass(of_value, list | np.ndarray) for of_value in _types(given)):
        raise ValueError(f"`{name}` must hold one label for each row. Got several for some rows.")
    kinds = {_kind_of_type(of_value) for of_value in _types(given)}
    if {"text", "numbers"} <= kinds:
        raise mixed_labels_error(name, _first_of_each_kind(given))
    if isinstance(y, list):
        return np.asarray(y)
    if given.dtype.kind == "O" and kinds == {"numbers"}:
        return np.array(given.tolist())
    return given.astype(object) if given.dtype.kind == "T" else np.asarray(given)


def kind_of_labels(y: NDArray[Any]) -> str:
    """What labels are: "numbers" (or booleans), "text", "bytes", "dates" or "objects"."""
    if y.dtype.kind in "OT":
        kinds = {_kind_of_type(of_value) for of_value in _types(y)}
        return kinds.pop() if len(kinds) == 1 else "objects"
    return {"U": "text", "S": "bytes", "M": "dates", "m": "dates", "V": "objects"}.get(y.dtype.kind, "numbers")


def mixed_labels_error(name: str, values: list[Any]) -> ParameterError:
    """The error for labels that are text and numbers; ``values`` are one of each."""
    shown = " and ".join(f"{value!r} ({type(value).__name__})" for value in values)
    return ParameterError(
        f"`{name}` must hold labels of one kind, all text or all numbers. Got {shown}. Convert one of them."
    )


def check_labels(y: Any, name: str = "y_training") -> NDArray[Any]:
    """One label for each row, of a single axis."""
    return one_axis(plain_labels(y, name), name)


def one_axis(y: NDArray[Any], name: str = "y_training") -> NDArray[Any]:
    """Labels that are an array already, of a single axis."""
    if y.ndim != 1 and (y.ndim != 2 or y.shape[1] != 1):
        raise ValueError(
            f"`{name}` must have shape (n_labelled,). Got shape {y.shape} instead: models of several outputs are "
            "not supported. Fit one model for each target."
        )
    return y.ravel()


def check_known_labels(y: NDArray[Any], classes: Any, name: str = "y_training") -> None:
    """Check that the labels are among those that an estimator was fitted to."""
    unknown = np.setdiff1d(y, classes)
    if len(unknown):
        raise ValueError(
            f"`{name}` must hold labels that the estimator was fitted to, {np.asarray(classes)}. Got {unknown} as well."
        )


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
    y = plain_labels(y, f"y{suffix}")
    if y.shape not in ((n_rows,), (n_rows, 1)):
        raise ValueError(
            f"`y{suffix}` must have shape ({n_rows},), one label for each row of `X{suffix}`. Got {y.shape} instead."
        )
    return y


def _opened(y: Any) -> NDArray[Any]:
    """The values as an array, those of a list as objects: numpy would make text of a NaN beside text."""
    if hasattr(y, "toarray"):
        return np.asarray(y.toarray())
    return np.array(y, dtype=object) if isinstance(y, list) else as_array(y)


def _types(y: NDArray[Any]) -> set[type]:
    return set(map(type, y.ravel().tolist())) if y.dtype.kind in "OT" else set()


def _kind_of_type(of_value: type) -> str:
    if issubclass(of_value, str):
        return "text"
    return "numbers" if issubclass(of_value, numbers.Number | np.bool_) else "objects"


def _first_of_each_kind(y: NDArray[Any]) -> list[Any]:
    values = y.ravel().tolist()
    return [next(v for v in values if _kind_of_type(type(v)) == kind) for kind in ("numbers", "text")]


def _marked_as_missing(y: Any, given: NDArray[Any]) -> NDArray[np.bool_]:
    """What the container itself says is missing: a masked array of numpy, the containers of pandas."""
    if isinstance(y, np.ma.MaskedArray):
        return np.ma.getmaskarray(y)
    return np.asarray(y.isna(), dtype=bool) if hasattr(y, "isna") else np.zeros(given.shape, dtype=bool)


def _missing(y: NDArray[Any]) -> NDArray[np.bool_]:
    if y.dtype.kind in "fc":
        return ~np.isfinite(y)
    if y.dtype.kind in "mM":
        return np.isnat(y)
    if _types(y) <= {str, int, bool}:
        return np.zeros(y.shape, dtype=bool)
    return np.array([_is_gap(value) for value in y.ravel().tolist()], dtype=bool).reshape(y.shape)


def _is_gap(value: Any) -> bool:
    """Whether it is None, NaN, infinite, or the missing value of pandas or of numpy's masked arrays."""
    if value is None or value is np.ma.masked or type(value).__name__ in {"NAType", "NaTType"}:
        return True
    if isinstance(value, float | np.floating):
        return not np.isfinite(value)
    return bool(np.all(value != value))  # NaN and NaT of any other type


def _gap_error(y: NDArray[Any], missing: NDArray[np.bool_], name: str, remedy: str) -> ValueError:
    missing = np.atleast_1d(missing)
    rows = np.flatnonzero(missing.reshape(len(missing), -1).any(axis=1))
    value = y.ravel()[int(np.flatnonzero(missing)[0])]
    got = str(value) if _missing(np.atleast_1d(value)).any() else "a masked value"
    return ValueError(
        f"`{name}` must have a finite label for every row. Got {got} in row {rows[0]}, and {len(rows)} such rows "
        f"in all. {remedy}"
    )
