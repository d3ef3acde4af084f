"""Fits of a campaign's model: always anew, to the rows in the order of the table, by seeds of the campaign."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from .._random import check_random_state, seeded_clone, seeded_for
from ._errors import CampaignError

FOLDS = 5


def fitted(model: Any, X: pd.DataFrame, y: NDArray[Any], seed: int) -> Any:
    """A new model, fitted; the one given is not changed."""
    twin = seeded_clone(model, check_random_state([seed, 0]))
    try:
        with seeded_for(twin, seed):
            return twin.fit(X, y)
    except Exception as error:
        raise CampaignError(
            f"`model` could not be fitted to the {len(y)} labels there are. {type(error).__name__}: {error}"
        ) from error


def guesses_of(model: Any, X: pd.DataFrame, kind: str) -> tuple[list[Any], NDArray[np.float64]]:
    """What the model says of rows, and the probability that it gives to this; NaN if it gives none."""
    if kind == "numbers" or not hasattr(model, "predict_proba"):
        return np.asarray(model.predict(X)).tolist(), np.full(len(X), np.nan)
    probabilities = np.asarray(model.predict_proba(X), dtype=np.float64)
    best = probabilities.argmax(axis=1)
    return np.asarray(model.classes_)[best].tolist(), probabilities[np.arange(len(X)), best]


def guesses_beside(model: Any, X: pd.DataFrame, labels: pd.Series, kind: str) -> dict[str, pd.Series]:
    """Columns of what the model says of rows without a label, which are empty where there is one."""
    is_open = labels.isna().to_numpy(dtype=bool)
    guesses = pd.Series(None, index=X.index, dtype=float if kind == "numbers" else object)
    sure = pd.Series(np.nan, index=X.index)
    if is_open.any():
        guesses[is_open], sure[is_open] = guesses_of(model, X[is_open], kind)
    return {"guess": guesses, "guess_probability": sure}


def has_enough(labels: Sequence[Any], kind: str) -> bool:
    """Whether a model can be fitted at all: two labels, of two classes."""
    return len(labels) > 1 and (kind == "numbers" or len(set(labels)) > 1)


def folds_of(y: NDArray[Any], kind: str, seed: int) -> list[tuple[NDArray[np.int64], NDArray[np.int64]]] | None:
    """Rows to fit and rows to try, each row once; None if there are too few labels, or too few of a second class.

    The rows of each class are dealt out to the folds in turn, so that a class of two rows is in two of them.
    """
    n_folds, rng = min(FOLDS, len(y)), check_random_state([seed, 2])
    shuffled = rng.permutation(len(y))
    if kind == "classes":
        shuffled = shuffled[np.argsort(y[shuffled], kind="stable")]
    of_fold = np.empty(len(y), dtype=np.int64)
    of_fold[shuffled] = np.arange(len(y)) % max(n_folds, 1)
    folds = [(np.flatnonzero(of_fold != fold), np.flatnonzero(of_fold == fold)) for fold in range(n_folds)]
    return folds if len(folds) > 1 and all(has_enough(y[fit].tolist(), kind) for fit, _ in folds) else None


def cross_fitted(model: Any, X: pd.DataFrame, y: NDArray[Any], kind: str, seed: int) -> pd.DataFrame | None:
    """What models that have not seen a row say of it: guess, its probability, and that of the label.

    None if there are too few labels. Probabilities are NaN where the model gives none.
    """
    folds = folds_of(y, kind, seed)
    if folds is None:
        return None
    guesses, sure, of_label = np.empty(len(y), dtype=object), np.full(len(y), np.nan), np.full(len(y), np.nan)
    for fit, test in folds:
        one = fitted(model, X.iloc[fit], y[fit], seed)
        guesses[test], sure[test] = guesses_of(one, X.iloc[test], kind)
        if kind == "classes" and hasattr(one, "predict_proba"):
            of_label[test] = _of_labels(one, X.iloc[test], y[test])
    return pd.DataFrame(
        {"guess": guesses, "guess_probability": sure, "label_probability": of_label}, index=X.index
    ).infer_objects()


def _of_labels(model: Any, X: pd.DataFrame, y: NDArray[Any]) -> NDArray[np.float64]:
    """The probability that the model gives to each label; 0 to those of a class that it does not know."""
    probabilities = np.asarray(model.predict_proba(X), dtype=np.float64)
    known = {label: i for i, label in enumerate(np.asarray(model.classes_).tolist())}
    return np.array([probabilities[i, known[v]] if v in known else 0.0 for i, v in enumerate(y.tolist())])
