"""Errors of BatchBALD, BADGE and ACS-FW, in words."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ._validation import is_integer, task, warn


def check_max_outcomes(max_outcomes: Any, n_classes: int) -> int:
    """Check that the outcomes of one label, at least, can be told apart."""
    if not is_integer(max_outcomes):
        raise TypeError(f"`max_outcomes` must be an integer, n_classes={n_classes} or more. Got {max_outcomes!r}.")
    if max_outcomes < n_classes:
        raise ValueError(
            f"`max_outcomes` must be n_classes={n_classes} or more, to hold the outcomes of one label. Got "
            f"{max_outcomes}. A thousand and more tell apart what rows add to a batch."
        )
    return int(max_outcomes)


def warn_information_gone(n_found: int, k: int, information: float, ceiling: float) -> None:
    warn(
        f"BatchBALD found {n_found} rows that tell {information:.4g} nats, of the log(n_draws) = {ceiling:.4g} that so "
        f"many draws can tell, and {k} were asked for. What another row would add can't be told from 0, so the other "
        f"{k - n_found} are drawn by power sampling of the BALD scores. More draws (`n_draws`) tell more.",
    )


def check_probabilities(probabilities: Any) -> Any:
    """An array or tensor (n_points, n_classes); its rows are checked as they are read."""
    probabilities = _with_shape(probabilities, "probabilities")
    if len(probabilities.shape) != 2 or probabilities.shape[1] == 0:
        raise ValueError(
            "`probabilities` must have shape (n_points, n_classes): the mean over draws, or predict_proba. "
            f"Got shape {tuple(probabilities.shape)} instead."
        )
    return probabilities


def check_rows_of_probabilities(block: Any, first_point: int, tolerance: float) -> None:
    """Check a float64 tensor (n, n_classes)."""
    sums = block.sum(1)
    if bool(block.amin() >= 0) and bool((sums - 1).abs().amax() <= tolerance):
        return
    point = int((~((block >= 0).all(1) & ((sums - 1).abs() <= tolerance))).nonzero()[0, 0])
    row = block[point]
    shown = ", ".join(f"{p:.4g}" for p in row[:5].tolist()) + (", ..." if len(row) > 5 else "")
    raise ValueError(
        "`probabilities` must not be negative, and must sum to 1 over the classes "
        f"(to within {tolerance:.1g}). Got [{shown}], which sums to {row.sum().item():.6g}, in row "
        f"{first_point + point}. If these are logits, apply softmax; a single column p becomes (1 - p, p)."
    )


def check_embeddings(embeddings: Any, n_points: int) -> Any:
    """An array, memory map, tensor, sparse or dask array (n_points, n_units) of numbers."""
    embeddings = _with_shape(embeddings, "embeddings")
    if len(embeddings.shape) != 2 or embeddings.shape[1] == 0:
        raise ValueError(
            "`embeddings` must have shape (n_points, n_units): what enters the last linear layer, or features. Got "
            f"shape {tuple(embeddings.shape)} instead. Give BADGEQuery an `embedding`, a function of the rows."
        )
    if embeddings.shape[0] != n_points:
        raise ValueError(
            f"`embeddings` must have a row for each of the {n_points} rows of `probabilities`. "
            f"Got {embeddings.shape[0]} rows."
        )
    return embeddings


def _with_shape(array: Any, name: str) -> Any:
    """What rows can be taken from by position: the array of numbers that it is, or a copy."""
    if hasattr(array, "shape") and not hasattr(array, "iloc") and getattr(array.dtype, "kind", "f") in "fiub":
        return array
    try:
        return np.asarray(array, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise TypeError(
            f"`{name}` must be an array of numbers. Got a {type(array).__name__} of something else: {error}. Rows of "
            "text or of mixed types need a model that makes numbers of them: put the estimator behind its transformers "
            "in a Pipeline, or give BADGEQuery an `embedding`, a function of the rows."
        ) from error


def check_embedding_norms(squared_norms: NDArray[np.float64]) -> None:
    if not bool((squared_norms < 1e280).all()):
        row = int(np.flatnonzero(~(squared_norms < 1e280))[0])
        raise ValueError(
            "`embeddings` must be finite, and smaller than 1e140. Got a row with infinity, NaN or such a number: "
            f"row {row}. Fill gaps and scale the features."
        )


def check_embedding(embedding: Any) -> None:
    if not (isinstance(embedding, str) and embedding == "auto"):
        raise ValueError(
            '`embedding` must be "auto" or a function of the rows, embedding(X) or embedding(estimator, X). '
            f"Got {embedding!r} instead."
        )


def check_has_probabilities(estimator: Any) -> None:
    if not hasattr(estimator, "predict_proba") or task(estimator) == "regressor":
        raise TypeError(
            f"`estimator` must be a classifier with predict_proba for BADGE. Got a {type(estimator).__name__} without. "
            "CalibratedClassifierCV gives any classifier one."
        )


def no_last_layer_error() -> ValueError:
    return ValueError(
        '`embedding`="auto" is what enters the linear layer of a net that runs last, and no torch.nn.Linear layer ran '
        "in this one. Give a function of the rows as `embedding`, or the net a method `embed(X)`."
    )


def check_joint_draws(shape: Any, method: str) -> None:
    """Check the shape of draws whose differences are all that a method looks at."""
    if len(shape) != 3:
        raise ValueError(
            f"`estimator` must be a classifier for {method}: draws are (n_draws, n_points, n_classes) probabilities. "
            f"Got draws of shape {tuple(shape)}, those of a regressor."
        )
    if shape[0] < 2:
        raise ValueError(
            f"`n_draws` must be 2 or more for {method}, which looks at how draws differ. Got {shape[0]}. Raise it, use "
            'an ensemble of more members, or posterior="bootstrap".'
        )


def warn_residual_gone(n_found: int, k: int) -> None:
    warn(
        f"ACS-FW found {n_found} rows that say all that the draws tell of the pool, and {k} were asked for: the other "
        f"{k - n_found} are those of largest norm among the rest, and have weight 0. More draws (`n_draws`) tell more "
        "rows apart."
    )
