"""Errors of BatchBALD, BADGE and ACS-FW, and of batches that set their own size, in words."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from ._validation import ProbabilityError, check_numbers, is_integer, is_number, is_real, task, warn


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


def why_filled_up(
    *, all_agree: bool, exhausted: bool, few_rows: str = "", more_draws: str = "More draws tell more."
) -> str:
    """Say what there was too little of: disagreement, distinct rows, or draws if those are exhausted."""
    if all_agree:
        return "All draws agree on every row, as of a model that learned nothing yet, or that is sure of everything."
    return few_rows or (more_draws if exhausted else "No other row tells apart draws that these leave together.")


def more_draws(ensemble: Any | None) -> str:
    """Say how to have more draws: of an ensemble only by more members, where all of them are draws already."""
    if ensemble is None:
        return "More draws (`n_draws`) tell more."
    parameter = " (`n_estimators`)" if hasattr(ensemble, "n_estimators") else ""
    return f"All members of the {type(ensemble).__name__} are draws already: more of them{parameter} tell more."


def few_rows(n_distinct: int) -> str:
    return f"Only {n_distinct} of the rows to choose from are distinct."


def warn_information_gone(n_found: int, k: int, information: float, ceiling: float, why: str) -> None:
    warn(
        f"BatchBALD found {n_found} of the {k} rows asked for, which tell {information:.4g} nats of the log(n_draws) = "
        f"{ceiling:.4g} that so many draws can tell. What another row would add can't be told from 0: the rest of the "
        f"batch ({k - n_found}) is drawn by power sampling of the BALD scores. {why}"
    )


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


def check_embedding(embedding: Any) -> None:
    if not (isinstance(embedding, str) and embedding == "auto"):
        raise ValueError(
            '`embedding` must be "auto" or a function of the rows, embedding(X) or embedding(estimator, X). '
            f"Got {embedding!r} instead."
        )


def check_classifier(estimator: Any, method: str, name: str = "estimator") -> None:
    if task(estimator) == "regressor":
        raise TypeError(
            f"`{name}` must be a classifier for {method}. Got a {type(estimator).__name__}, a regressor. For a "
            'regressor there is StochasticBatchQuery("std_dev").'
        )


def check_has_probabilities(estimator: Any) -> None:
    if not hasattr(estimator, "predict_proba"):
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


def warn_residual_gone(n_found: int, k: int, why: str) -> None:
    warn(
        f"ACS-FW found {n_found} of the {k} rows asked for, which say all that the draws tell of the pool. The rest of "
        f"the batch ({k - n_found}) is of largest norm among the others, with weight 0. {why}"
    )


def warn_gradients_gone(n_found: int, k: int) -> None:
    why = "every other gradient is equal to that of one of these" if n_found else "all gradients are 0"
    advice = "" if n_found else " The model is sure of every row, or all embeddings are 0."
    warn(
        f"BADGE found {n_found} of the {k} rows asked for: {why}. The rest of the batch ({k - n_found}) is drawn "
        f"uniformly at random.{advice}"
    )


def check_batch_range(batch_range: Any) -> tuple[int, int]:
    """The smallest and the largest batch that may be suggested."""
    try:
        least, most = batch_range
    except (TypeError, ValueError):
        least = most = None
    if not (is_integer(least) and is_integer(most)):
        raise TypeError(
            "`batch_range` must be two integers, the smallest and the largest batch that may be suggested. Got "
            f"{batch_range!r} instead."
        )
    if not 1 <= least <= most:
        raise ValueError(f"`batch_range` must be two integers, 1 <= smallest <= largest. Got {batch_range!r} instead.")
    return int(least), int(most)


def check_hold(hold: Any) -> float:
    if not is_number(hold):
        raise TypeError(f"`hold` must be a number between 0 and 1. Got {hold!r} instead.")
    if not 0 < hold < 1:
        raise ValueError(
            f"`hold` must be between 0 and 1: the part of a ranking that must be left after a batch. Got {hold!r}. Try "
            "0.9; larger values make smaller batches."
        )
    return float(hold)


def suggester(query: Any, word: str) -> Any:
    """The method of a query that suggests batch sizes."""
    if word != "auto":
        raise TypeError(f'`n_instances` must be an integer or "auto". Got {word!r} instead.')
    if not hasattr(query, "suggest_batch_size"):
        raise ValueError(
            '`n_instances`="auto" needs a query that suggests batch sizes, as StochasticBatchQuery does. '
            f"{type(query).__name__} does not: give a number."
        )
    return query.suggest_batch_size


def unknown_training_data_error(learner: Any) -> ValueError:
    if hasattr(learner, "learner_list"):
        return ValueError(
            '`n_instances`="auto" and suggest_batch_size fit a model anew to some of the labels, which cannot be done '
            "with a Committee, whose members have labels of their own. Give `n_instances` a number."
        )
    return ValueError(
        '`X_training` and `y_training` must be known for a suggested batch size (`n_instances`="auto"): models are '
        "fitted to part of them. Got an estimator by itself. Give both, query through a modAL learner that was fitted, "
        "or give `n_instances` a number."
    )


@contextmanager
def refit_explained(estimator: Any, n_labels: int) -> Iterator[None]:
    """Say what a model was fitted for that failed, and what to do."""
    try:
        yield
    except Exception as error:
        kind = next((k for k in (ValueError, TypeError) if isinstance(error, k)), RuntimeError)
        raise kind(
            f"Fitting {type(estimator).__name__} anew to {n_labels} of the labels, for a suggested batch size "
            f'(`n_instances`="auto"), failed: {error}. Give `n_instances` a number until there are more labels.'
        ) from error
