"""Fits with weights and keywords: which keyword of ``fit`` takes weights of rows, and what a resample makes of both."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn import get_config
from sklearn.frozen import FrozenEstimator
from sklearn.utils.validation import has_fit_parameter

from .. import _containers as chunks
from .._checks import warn
from ._unwrap import part_to_fit, without_searches

FitParams = Mapping[str, Any]
"""Keywords for ``fit``, weights of rows aside."""


def fit_with(
    estimator: Any, X: Any, y: Any, sample_weight: NDArray[np.float64] | None, fit_params: FitParams | None
) -> Any:
    """The estimator, fitted with weights, unless there are none or it takes none, and with keywords."""
    keywords = dict(fit_params or {})
    if sample_weight is not None:
        keyword = weight_keyword(estimator)
        if keyword is None:
            warn(
                f"`fit` of {type(estimator).__name__} takes no weights of rows: `sample_weight` is left out of it, and "
                "each row counts once."
            )
        else:
            keywords[keyword] = sample_weight
    return estimator.fit(X, y, **keywords)


def weight_keyword(estimator: Any) -> str | None:
    """The keyword of ``fit`` by which an estimator, fitted or not, takes weights of rows; None if it takes none."""
    if has_fit_parameter(estimator, "sample_weight"):
        return "sample_weight"
    if get_config()["enable_metadata_routing"]:
        is_router = hasattr(estimator, "get_metadata_routing")
        return "sample_weight" if is_router and _routes_weights(estimator) else None
    part = part_to_fit(estimator)
    if part is not None:
        keyword = weight_keyword(part)
        steps = getattr(estimator, "steps", None)
        return keyword if keyword is None or steps is None else f"{steps[-1][0]}__{keyword}"
    return "sample_weight" if _hands_on_to_members(estimator) else None


def _routes_weights(estimator: Any) -> bool:
    return bool(estimator.get_metadata_routing().consumes("fit", ["sample_weight"]))


def _hands_on_to_members(estimator: Any) -> bool:
    """Whether it is a voting or stacking ensemble, all of whose members take weights."""
    members = getattr(estimator, "estimators", None)
    if not isinstance(members, list) or not members or not hasattr(estimator, "fit"):
        return False
    kinds = {parameter.kind for parameter in inspect.signature(estimator.fit).parameters.values()}
    final = getattr(estimator, "final_estimator", None)
    parts = [*(part for _, part in members if part != "drop"), *([] if final is None else [final])]
    return inspect.Parameter.VAR_KEYWORD in kinds and all(weight_keyword(part) == "sample_weight" for part in parts)


def of_rows(fit_params: FitParams | None, rows: NDArray[np.int64], n_rows: int) -> dict[str, Any]:
    """Keywords for a fit to some of the rows: arrays with an entry for each of all rows are reduced to theirs.

    As in scikit-learn's own refits; but lists are never taken for such: they are sets for evaluation, names of columns.
    """
    return {
        name: chunks.take_rows(value, rows) if _is_one_a_row(value, n_rows) else value
        for name, value in (fit_params or {}).items()
    }


def _is_one_a_row(value: Any, n_rows: int) -> bool:
    shape: tuple[Any, ...] = getattr(value, "shape", ())
    return len(shape) > 0 and shape[0] == n_rows


def check_can_be_refitted(estimator: Any) -> None:
    """Refuse what is fitted once for all: refits of it would all be equal."""
    part = without_searches(estimator)
    while part is not None and not isinstance(part, FrozenEstimator):
        part = _what_is_refitted(part)
    if part is not None:
        inside = type(part.estimator).__name__
        raise ValueError(
            f"`estimator` must be fitted anew, to resampled or fewer labels, and this {type(estimator).__name__} holds "
            f"a FrozenEstimator, which stays as it is: all refits would be this {inside}. Give the {inside} without "
            "FrozenEstimator."
        )


def _what_is_refitted(estimator: Any) -> Any:
    """The part that answers in a pipeline, a search, a calibration, an ensemble of copies; None of other estimators."""
    if hasattr(estimator, "steps"):
        return part_to_fit(estimator)
    return next((getattr(estimator, name) for name in ("estimator", "regressor") if hasattr(estimator, name)), None)
