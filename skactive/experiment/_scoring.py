"""The scores of a model in an experiment: scikit-learn's scorers and functions of the user, by name."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import check_scoring

from .._checks import is_number, shown

_COLUMNS = ("trial", "query", "round", "n_labelled", "indices", "query_seconds", "fit_seconds")


def name_scorers(scoring: Any, estimator: Any) -> dict[str, Any]:
    """Scorers by name, from a name, a callable, a list or a dict of them, or None for the estimator's own score."""
    if scoring is None:
        scoring = {"score": own_score}
    elif isinstance(scoring, str) or callable(scoring):
        scoring = {_name(scoring) or "score": scoring}
    elif isinstance(scoring, list | tuple):
        scoring = _by_name(scoring)
    elif not isinstance(scoring, Mapping):
        raise TypeError(f"`scoring` must be a name, a callable, or a list or dict of these. Got {shown(scoring)}.")
    wrong = [name for name in scoring if not isinstance(name, str) or name in _COLUMNS]
    if wrong or not scoring:
        raise ValueError(
            f"`scoring` must have one name or more, and none of {', '.join(_COLUMNS)}. Got {list(scoring)!r} instead."
        )
    _check_scorers(estimator, dict(scoring))
    return dict(scoring)


def evaluate(scorers: Mapping[str, Any], estimator: Any, X: Any, y: Any, rows: NDArray[Any]) -> dict[str, float]:
    """All scores of a fitted estimator; scikit-learn's scorers share its predictions."""
    bound = {name: functools.partial(f, rows=rows) if _asks_for_rows(f) else f for name, f in scorers.items()}
    scores = check_scoring(estimator, scoring=bound)(estimator, X, y)
    return {name: _checked_score(name, value) for name, value in scores.items()}


def own_score(estimator: Any, X: Any, y: Any) -> float:
    """The estimator's ``score``."""
    return estimator.score(X, y)


def _asks_for_rows(scorer: Any) -> bool:
    if isinstance(scorer, str):
        return False
    try:
        parameter = inspect.signature(scorer).parameters.get("rows")
    except (TypeError, ValueError):  # compiled functions without a signature
        return False
    return parameter is not None and parameter.kind is parameter.KEYWORD_ONLY


def _by_name(scorers: Any) -> dict[str, Any]:
    names = [_name(scorer) for scorer in scorers]
    if None in names or len(set(names)) < len(names):
        raise ValueError(
            f"`scoring` as a list must hold names, or functions with names, all different. Got {scorers!r}. "
            "Use a dict from names to scorers for any others."
        )
    return {str(name): scorer for name, scorer in zip(names, scorers, strict=True)}


def _check_scorers(estimator: Any, scorers: dict[str, Any]) -> None:
    try:
        check_scoring(estimator, scoring=scorers)
    except (ValueError, TypeError) as error:
        raise ValueError(
            "`scoring` must be a name in sklearn.metrics.get_scorer_names(), a callable scorer(estimator, X, y), or a "
            f"list or dict of these. {error}"
        ) from error


def _checked_score(name: str, value: Any) -> float:
    if np.ndim(value) != 0 or not (is_number(value) or isinstance(value, bool | np.bool_)):
        raise ValueError(f"`scoring`: {name!r} must return a number. Got {value!r} instead.")
    if not np.isfinite(value):
        raise ValueError(
            f"`scoring`: {name!r} must return a finite number, which means are taken of. Got {value!r}: perhaps the "
            "test rows lack a class, or are too few for it."
        )
    return float(value)


def _name(scorer: Any) -> str | None:
    return scorer if isinstance(scorer, str) else getattr(scorer, "__name__", None)
