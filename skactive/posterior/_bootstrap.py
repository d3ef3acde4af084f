"""The bootstrap: draws for any estimator, by clones refitted to resampled training data; and refits in general."""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping
from typing import Any

import joblib
import numpy as np
from numpy.typing import NDArray
from sklearn.base import is_classifier
from sklearn.frozen import FrozenEstimator
from sklearn.utils.validation import has_fit_parameter

from .. import _containers as chunks
from .._utils.randomness import check_rng, seeded_clone
from .._utils.validation import N_JOBS, check_cloneable, check_known_labels, check_n_draws, check_sample_weight, warn
from ._ensembles import member_probabilities
from ._registry import PredictDraws
from ._wrappers import labels_to_fit, part_to_fit, without_searches

BOOTSTRAP_DRAWS = 20

_MOST_COPIES = 20
"""Limit of the rows that a member is fitted to, as a multiple of the labelled rows, if rows are copied."""

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]
FitParams = Mapping[str, Any]
"""Keywords for ``fit``, weights of rows aside."""


def bootstrap(
    estimator: Any,
    X: Any,
    y: Any,
    n_draws: int | None,
    rng: np.random.Generator,
    *,
    n_jobs: int | None = None,
    sample_weight: Any = None,
    fit_params: FitParams | None = None,
) -> PredictDraws:
    """Draw functions by refitting clones of an estimator to resampled training data.

    Parameters
    ----------
    estimator : estimator
        Anything that scikit-learn can clone; a fitted search is represented by its best estimator. Members without
        ``predict_proba`` vote.
    X : array-like of shape (n_labelled, ...)
        Training data.
    y : array-like of shape (n_labelled,) or (n_labelled, 1)
        Labels. Classes are resampled one by one, so every member knows all of them.
    n_draws : int or None
        Number of members; None is 20.
    rng : numpy.random.Generator
    n_jobs : int, optional
        As in joblib.
    sample_weight : array-like of shape (n_labelled,), optional
        How many times each row counts, whether or not the estimator takes weights.
    fit_params : dict, optional
        Further keywords for ``fit``. Arrays with an entry for each row (not lists) are resampled with the rows.

    Returns
    -------
    predict_draws : callable
        As of `sample_posterior`; columns in the order of the estimator's ``classes_`` (sorted labels, if it has none).

    See Also
    --------
    sample_posterior : The model's own draws.
    posterior.check_posterior : Checks draws of your own.

    Notes
    -----
    As classes are resampled one by one, draws do not scatter with what is unknown of the frequencies of the classes:
    BALD of these draws ranks rows as that of other bootstraps does, but is smaller, and should not be read as nats.

    References
    ----------
    Efron (1979), Bootstrap Methods; Lakshminarayanan et al. (2017), on ensembles as draws.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.linear_model import LogisticRegression
    >>> from skactive.posterior import bootstrap
    >>> X, y = load_iris(return_X_y=True)
    >>> predict_draws = bootstrap(LogisticRegression(max_iter=500), X, y, 4, np.random.default_rng(0))
    >>> predict_draws(X).shape
    (4, 150, 3)
    """
    check_cloneable(estimator)
    check_rng(rng)
    N_JOBS.check("n_jobs", n_jobs)
    n_draws = BOOTSTRAP_DRAWS if n_draws is None else check_n_draws(n_draws)
    estimator = without_searches(estimator)
    _check_can_be_refitted(estimator)
    X, y = chunks.prepare_pool(X, "X"), labels_to_fit(estimator, y)
    if len(y) != chunks.count_rows(X) or not len(y):
        raise ValueError(f"`y` must have a label for each row of `X`, one or more. Got {len(y)} labels.")
    weight = check_sample_weight(sample_weight, len(y))
    classes = np.asarray(getattr(estimator, "classes_", np.unique(y))) if is_classifier(estimator) else None
    if classes is not None:
        check_known_labels(y, classes, "y")
    labels = y if is_classifier(estimator) else np.zeros(len(y))
    most = math.inf if _takes_counts(estimator) else _MOST_COPIES * len(y)
    rows_of = _rows_by_label(labels)
    resamples = [_resample(rows_of, len(y), weight, most, rng) for _ in range(n_draws)]
    clones = [seeded_clone(estimator, rng) for _ in range(n_draws)]
    members = joblib.Parallel(n_jobs=n_jobs)(
        joblib.delayed(_fitted)(member, X, y, *resample, fit_params or {})
        for member, resample in zip(clones, resamples, strict=True)
    )
    if classes is None:
        return functools.partial(_predictions, members)
    return functools.partial(_probabilities, members, classes)


def _predictions(members: list[Any], X: Any) -> NDArray[np.float64]:
    return np.stack([np.asarray(member.predict(X)).reshape(chunks.count_rows(X)) for member in members])


def _probabilities(members: list[Any], classes: NDArray[Any], X: Any) -> NDArray[np.float64]:
    return np.stack([member_probabilities(member, X, classes) for member in members])


def _fitted(member: Any, X: Any, y: NDArray[Any], counts: Indices, unit: Floats | None, fit_params: FitParams) -> Any:
    if _takes_counts(member):
        return member.fit(X, y, sample_weight=counts * (1.0 if unit is None else unit), **fit_params)
    rows = np.repeat(np.arange(len(y)), counts)
    weight = None if unit is None or weight_keyword(member) is None else unit[rows]
    keywords = {name: _of_rows(value, rows, len(y)) for name, value in fit_params.items()}
    return fit_with(member, chunks.take_rows(X, rows), y[rows], weight, keywords)


def _takes_counts(member: Any) -> bool:
    """Whether a fit takes how often each row was drawn as its weight, which saves copies and keeps all categories.

    Not if parts of the data are fitted separately: all rows of a fold or a mini-batch might have weight 0.
    """
    parameters = member.get_params(deep=False)
    by_parts = "cv" in parameters or "batch_size" in parameters or parameters.get("early_stopping") is True
    return has_fit_parameter(member, "sample_weight") and not by_parts


def _rows_by_label(labels: NDArray[Any]) -> list[Indices]:
    """The rows of each label, in order."""
    _, which, counts = np.unique(labels, return_inverse=True, return_counts=True)
    return np.split(np.argsort(which, kind="stable"), counts.cumsum()[:-1])


def _resample(
    rows_of: list[Indices], n_rows: int, weight: Floats | None, most: float, rng: np.random.Generator
) -> tuple[Indices, Floats | None]:
    """How often each row is drawn, label by label, and the weight of each of these draws, None for 1."""
    if weight is None:
        rows = np.concatenate([rng.choice(rows, len(rows)) for rows in rows_of])
        return np.bincount(rows, minlength=n_rows), None
    counts, unit = np.zeros(n_rows, dtype=np.int64), np.ones(n_rows)
    draws_per_weight = _draws_per_weight(weight, most)
    for rows in rows_of:
        total = weight[rows].sum()
        if total > 0:
            n = max(1, round(draws_per_weight * total))
            counts[rows], unit[rows] = rng.multinomial(n, weight[rows] / total), total / n
    return counts, unit


def _draws_per_weight(weight: Floats, most: float) -> float:
    """One, so that a row of weight 3 counts as three; more if weights are tiny, for at least one draw a row."""
    total = float(weight.sum())
    return min(max(1.0, np.count_nonzero(weight) / total), most / total)


# Refits


def fit_with(
    estimator: Any, X: Any, y: Any, sample_weight: NDArray[np.float64] | None, fit_params: FitParams | None
) -> Any:
    """Fit with keywords, and with weights if there are any and the estimator takes them."""
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
    """The keyword of ``fit`` for weights of rows, of an estimator that is fitted or not; None if there is none."""
    if has_fit_parameter(estimator, "sample_weight"):
        return "sample_weight"
    part = part_to_fit(estimator)
    keyword = None if part is None else weight_keyword(part)
    steps = getattr(estimator, "steps", None)
    return keyword if keyword is None or steps is None else f"{steps[-1][0]}__{keyword}"


def _of_rows(value: Any, rows: Indices, n_rows: int) -> Any:
    """The entries of a keyword of ``fit``, if it is an array with one for each row; lists may be evaluation sets."""
    shape: tuple[Any, ...] = getattr(value, "shape", ())
    return chunks.take_rows(value, rows) if len(shape) > 0 and shape[0] == n_rows else value


def _check_can_be_refitted(estimator: Any) -> None:
    """Refuse frozen models: all refits of one would be equal."""
    part = estimator
    while part is not None and not isinstance(part, FrozenEstimator):
        part = _what_is_refitted(part)
    if part is not None:
        inside = type(part.estimator).__name__
        raise ValueError(
            "`estimator` must be fitted anew, and it holds a FrozenEstimator, which stays as it is: all refits would "
            f"be this {inside}. Give the {inside} without FrozenEstimator."
        )


def _what_is_refitted(estimator: Any) -> Any:
    """The model that is refitted in a pipeline, search, calibration or bagging ensemble; else None."""
    if hasattr(estimator, "steps"):
        return part_to_fit(estimator)
    return getattr(estimator, "estimator", getattr(estimator, "regressor", None))
