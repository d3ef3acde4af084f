"""What a model was fitted to, by its rows, labels, weights and keywords: as given, else as a learner keeps them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from .. import _containers as containers
from .. import _modal as modal
from .._checks import ParameterError, UnfittedError, check_sample_weight, shown, warn
from ..posterior._bootstrap import weight_keyword


def training_of(
    learner: Any,
    *,
    X_training: Any = None,
    y_training: Any = None,
    sample_weight: Any = None,
    fit_params: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Attributes of a `Pool` that say what the model of a learner was fitted to, checked.

    Weights and keywords that a learner was fitted with go with its own training data alone.
    """
    model, X, y = modal.unwrap(learner, X_training, y_training)
    X = None if X is None else containers.prepare_pool(X, "X_training")
    _check_fit_params(fit_params, model)
    kept = modal.fit_keywords(learner) if X_training is None and y_training is None else {}
    keyword = weight_keyword(model) if kept else None
    of_learner = _weights_kept(kept.pop(keyword, None), X, model) if keyword else None
    if sample_weight is None:
        sample_weight = of_learner
    elif X is None:
        raise ValueError(
            "`sample_weight` must be given along with `X_training` and `y_training`, the rows that it weights. Got it "
            "alone."
        )
    else:
        sample_weight = containers.aligned(sample_weight, X, "sample_weight")
    return {
        "X_training": X,
        "y_training": y,
        "sample_weight": None if X is None else check_sample_weight(sample_weight, containers.count_rows(X)),
        "fit_params": kept if fit_params is None else fit_params,
        "surrogate_params": fit_params,
    }


def has_nothing_to_tell(learner: Any, y_training: Any) -> bool:
    """Whether the last fit of a learner failed, and its labels are all of one class, as at a cold start."""
    return bool(modal.fit_failure(learner)) and y_training is not None and len(np.unique(np.asarray(y_training))) == 1


def check_last_fit(learner: Any, y_training: Any) -> None:
    """Say what the last fit of a learner failed with, if there is nothing before it to go by."""
    if has_nothing_to_tell(learner, y_training):
        kind, label = type(modal.unwrap(learner)[0]).__name__, np.unique(np.asarray(y_training)).tolist()[0]
        raise UnfittedError(
            f"The last fit of this {kind} failed ({modal.fit_failure(learner).rstrip('.')}), and its labels are all "
            f"{label!r}",
            "Teach labels of another class.",
        )


def _weights_kept(sample_weight: Any, X_training: Any, model: Any) -> Any:
    """Weights of the last fit of a learner, unless that was to its new rows alone."""
    if sample_weight is None or X_training is None or len(sample_weight) == containers.count_rows(X_training):
        return sample_weight
    warn(
        f"The learner holds {containers.count_rows(X_training)} training rows, and its {type(model).__name__} was last "
        f"fitted with {len(sample_weight)} weights: draws that need the training data count each row once. Give "
        "`sample_weight`, a weight for each row."
    )
    return None


def _check_fit_params(fit_params: Any, model: Any) -> None:
    if fit_params is None:
        return
    if not isinstance(fit_params, Mapping) or not all(isinstance(name, str) for name in fit_params):
        raise ParameterError(
            f"`fit_params` must be None or a dict from keywords of `fit` to their values. Got {shown(fit_params)} "
            "instead."
        )
    keyword = weight_keyword(model)
    for name in ("sample_weight", keyword):
        if name in fit_params:
            raise ParameterError(
                f"`fit_params` must not hold weights of rows. Got {name!r} among them. Give them as `sample_weight`."
            )
