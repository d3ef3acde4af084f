"""What BADGE refuses or warns of, and in which words."""

from __future__ import annotations

from typing import Any

from .._checks import real_array, warn
from ..query._embeddings import as_numbers


def check_probabilities(probabilities: Any) -> Any:
    """An array or tensor (n_points, n_classes); its rows are checked as they are read."""
    probabilities = real_array("probabilities", probabilities, objects=False)
    if len(probabilities.shape) != 2 or probabilities.shape[1] == 0:
        raise ValueError(
            "`probabilities` must have shape (n_points, n_classes): the mean over draws, or predict_proba. "
            f"Got shape {tuple(probabilities.shape)} instead."
        )
    return probabilities


def check_embeddings(embeddings: Any, n_points: int) -> Any:
    """An array, memory map, tensor, sparse or dask array (n_points, n_units) of numbers."""
    embeddings = as_numbers(embeddings)
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


def warn_gradients_gone(n_found: int, k: int, of: str = "") -> None:
    """Say that a batch was filled up; ``of`` says which gradients there were, if not all."""
    if of:
        why = f"no other gradient{of} differs from those chosen before it"
    else:
        why = "every other gradient is equal to that of one of these" if n_found else "all gradients are 0"
    advice = "" if n_found or of else " The model is sure of every row, or all embeddings are 0."
    warn(
        f"BADGE found {n_found} of the {k} rows: {why}. The other {k - n_found} rows were drawn uniformly at "
        f"random.{advice}"
    )
