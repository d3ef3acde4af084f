"""What an experiment measures of a model: scikit-learn's scorers, and functions of the user's own, by name."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Mapping
from typing import Any

from numpy.typing import NDArray
from sklearn.metrics import check_scoring

from ._checks import bad_scoring_explained, check_score_names, check_score_value, check_scoring_list


def name_scorers(scoring: Any, estimator: Any) -> dict[str, Any]:
    """Scorers by name, from a name, a callable, a list or a dict of them, or None for the estimator's own score."""
    if scoring is None:
        scoring = {"score": own_score}
    elif isinstance(scoring, str) or callable(scoring):
        scoring = {_name(scoring) or "score": scoring}
    elif not isinstance(scoring, Mapping):
        scoring = check_scoring_list(scoring, [_name(scorer) for scorer in scoring])
    check_score_names(scoring)
    with bad_scoring_explained():
        check_scoring(estimator, scoring=dict(scoring))
    return dict(scoring)


def evaluate(scorers: Mapping[str, Any], estimator: Any, X: Any, y: Any, rows: NDArray[Any]) -> dict[str, float]:
    """All scores of a fitted estimator; scikit-learn's scorers share its predictions."""
    bound = {name: functools.partial(f, rows=rows) if _asks_for_rows(f) else f for name, f in scorers.items()}
    scores = check_scoring(estimator, scoring=bound)(estimator, X, y)
    return {name: check_score_value(name, value) for name, value in scores.items()}


def own_score(estimator: Any, X: Any, y: Any) -> float:
    """The estimator's ``score``."""
    return estimator.score(X, y)


def _asks_for_rows(scorer: Any) -> bool:
    if isinstance(scorer, str):
        return False
    parameter = inspect.signature(scorer).parameters.get("rows")
    return parameter is not None and parameter.kind is parameter.KEYWORD_ONLY


def _name(scorer: Any) -> str | None:
    return scorer if isinstance(scorer, str) else getattr(scorer, "__name__", None)
