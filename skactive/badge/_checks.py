"""What BADGE refuses or warns of, and in which words."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._checks import ProbabilityError, check_numbers, is_real, warn


def check_probabilities(probabilities: Any) -> Any:
    """An array or tensor (n_points, n_classes); its rows are checked as they are read."""
    if not hasattr(probabilities, "dtype"):
        probabilities = np.asarray(probabilities)
    check_numbers("probabilities", probabilities)
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
    raise ProbabilityError("probabilities", block[point], f"row {first_point + point}", tolerance)


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
    if hasattr(array, "shape") and not hasattr(array, "iloc") and is_real(array):
        return array
    try:
        array = np.asarray(array)
        if array.dtype.kind not in "fiubO":  # text and complex numbers can be cast as well
            raise TypeError(f"dtype {array.dtype}")
        return array.astype(np.float64)
    except (TypeError, ValueError) as error:
        raise TypeError(
            f"`{name}` must be an array of numbers. Got a {type(array).__name__} of something else: {error}. Rows of "
            "text or of mixed types need a model that makes numbers of them: put the estimator behind its transformers "
            "in a Pipeline, or give BADGEQuery an `embedding`, a function of the rows."
        ) from error


def not_finite_error(embeddings: Any, first_point: int) -> ValueError:
    """Of a tensor (n, n_units) that holds what is not finite."""
    row = first_point + int((~embeddings.isfinite()).nonzero()[0, 0])
    return ValueError(
        f"`embeddings` must be finite. Got infinity or NaN in row {row}. Fill gaps; or, if the model takes rows with "
        "gaps, give BADGEQuery an `embedding`, a function of the rows that returns numbers without."
    )


def no_last_layer_error() -> ValueError:
    return ValueError(
        '`embedding`="auto" is what enters the linear layer of a net that runs last, and no torch.nn.Linear layer ran '
        "in this one. Give a function of the rows as `embedding`, or the net a method `embed(X)`."
    )


def warn_gradients_gone(n_found: int, k: int) -> None:
    why = "every other gradient is equal to that of one of these" if n_found else "all gradients are 0"
    advice = "" if n_found else " The model is sure of every row, or all embeddings are 0."
    warn(
        f"BADGE found {n_found} of the {k} rows asked for: {why}. The rest of the batch ({k - n_found}) is drawn "
        f"uniformly at random.{advice}"
    )
