"""What a query refuses or warns of, and in which words."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._checks import (
    _as_float64,
    _equal_but_for_rounding,
    _no_functions_error,
    as_array,
    is_integer,
    is_number,
    task,
    warn,
)


def check_max_candidates(max_candidates: int, k: int) -> None:
    if max_candidates < k:
        raise ValueError(f"`max_candidates` must be `n_instances` or more. Got {max_candidates} for n_instances={k}.")


def check_candidates(candidates: Any, n_points: int) -> NDArray[np.int64]:
    """Sorted distinct positions, from positions in any order or a mask."""
    given = np.asarray(candidates)
    if given.dtype == bool and given.shape != (n_points,):
        raise ValueError(
            f"`candidates` as a mask must have shape ({n_points},), as the pool. Got {given.shape} instead."
        )
    if given.dtype == bool:
        return np.flatnonzero(given)
    if given.ndim != 1 or (given.size and given.dtype.kind not in "iu"):
        raise TypeError(
            "`candidates` must be a boolean mask or positions of rows, a one-dimensional array of integers. "
            f"Got an array of shape {given.shape} and dtype {given.dtype} instead."
        )
    if given.size and not (given.min() >= 0 and given.max() < n_points):
        raise ValueError(
            f"`candidates` must be positions from 0 to {n_points - 1} (not index labels). "
            f"Got positions from {given.min()} to {given.max()}."
        )
    return np.unique(given).astype(np.int64)


def check_overrides(query: type, overrides: Mapping[str, Any], parameters: Mapping[str, Any]) -> None:
    unknown = sorted(set(overrides) - set(parameters))
    if unknown:
        known = ", ".join([*parameters, "candidates", "X_training", "y_training"])
        raise TypeError(f"{query.__name__} takes no keyword `{unknown[0]}`. It takes: n_instances, {known}.")


def check_named_once(scores: dict[str, Any], n: int) -> dict[str, Any]:
    """Check that the scores asked for, ``n`` of them, have names that tell them apart."""
    if not n:
        raise ValueError('`scores` must name at least one score. Got none. Give "bald", say.')
    if len(scores) < n:
        raise ValueError(
            f"`scores` must have different names. Got {n} scores with the names {list(scores)}. Give a dict of names."
        )
    return scores


def check_posterior(posterior: str) -> str:
    if posterior not in ("auto", "bootstrap"):
        raise ValueError(f'`posterior` must be "auto", "bootstrap" or an estimator. Got {posterior!r} instead.')
    return posterior


def check_task(estimator: Any, name: Any, score: Any, has_source: bool) -> None:
    """Check that the estimator is of a kind that can be drawn from, and the score one for its kind."""
    if getattr(score, "tasks", ()) == ("outcomes",):
        raise ValueError(
            f"`score`={name!r} is a score of potential outcomes. CausalBALDQuery(score={name!r}, treatment=...) knows "
            "which column is the treatment."
        )
    kind = task(estimator) or ("any" if has_source else None)
    if kind is None:
        raise TypeError(
            f"`estimator` must be a classifier or a regressor. Got a {type(estimator).__name__}, which is neither. "
            "Give a classifier or regressor fitted to the labels bought so far, or give your class a method "
            "`sample_posterior(n_draws, rng)`."
        )
    if kind in ("classifier", "regressor") and kind not in getattr(score, "tasks", (kind,)):
        fitting = '"std_dev", "variance" or "gaussian_bald"' if kind == "regressor" else '"bald" or "std_dev"'
        raise ValueError(
            f"`score`={name!r} is no score for a {kind}, and {type(estimator).__name__} is one. Use score={fitting}, a "
            f"callable that takes its draws, or a {'classifier' if kind == 'regressor' else 'regressor'}."
        )


def warn_cold_start(estimator: Any) -> None:
    warn(
        f"{type(estimator).__name__} is not fitted yet, so there are no scores: the batch is uniform at random.",
    )


def check_columns(estimator: Any, n_columns: int | None, n_axes: int = 2) -> None:
    fitted_on = getattr(estimator, "n_features_in_", None)
    if fitted_on is not None and n_columns is not None and n_columns != fitted_on:
        what = "columns" if n_axes == 2 else "channels (the second axis)"
        raise ValueError(
            f"`X_pool` has {n_columns} {what}, but {type(estimator).__name__} was fitted on {fitted_on}. "
            "Give the pool the shape of the training data."
        )


def check_training_pair(n_rows: int | None, n_labels: int | None) -> None:
    """Check the lengths of `X_training` and `y_training`, None for what was not given."""
    if (n_rows is None) != (n_labels is None):
        missing, rule = (
            ("y_training", f"`X_training`, a label for each of its {n_rows} rows")
            if n_labels is None
            else ("X_training", f"`y_training`, a row for each of its {n_labels} labels")
        )
        raise ValueError(f"`{missing}` must be given along with {rule}. Got None.")
    if n_rows != n_labels:
        raise ValueError(
            "`X_training` and `y_training` must be of one length, a label for each row. "
            f"Got {n_rows} rows and {n_labels} labels."
        )


def no_law_error(query: Any, name: str, is_asked: bool) -> AttributeError:
    """Say why a query has no probabilities: ``is_asked`` once it has made a batch."""
    reason = "no query yet" if not is_asked else "a sampler without a law"
    if is_asked and not hasattr(query, "sampler"):
        reason = "its batches have no sampling law; those of StochasticBatchQuery do"
    return AttributeError(f"{type(query).__name__} has no `{name}`: {reason}.")


def check_training_data(X: Any, y: Any) -> tuple[Any, Any]:
    if X is None or y is None:
        raise ValueError(
            "`posterior` needs the training data to refit on, and there is none at hand. Give `X_training` and "
            "`y_training`, or query through a modAL learner that was fitted."
        )
    return X, y


def no_draws_error(estimator: Any, query: Any, one_draw: bool) -> ValueError:
    name = type(estimator).__name__
    if one_draw:
        remedy = f"For this score predict_proba would do, and {name} has none: wrap it in CalibratedClassifierCV"
    elif hasattr(query, "score"):
        remedy = 'Or use a score that needs a single prediction ("entropy", "margin", "variation_ratio")'
    else:
        remedy = 'BADGEQuery and StochasticBatchQuery("entropy") need no draws'
    return ValueError(
        f'`posterior`="auto" found no draws: {name} gives none without the training data it was fitted to. Give '
        f"`X_training` and `y_training`, or posterior=<an estimator to draw from instead>. {remedy}."
    )


def warn_bootstrap(error: Any) -> None:
    why = getattr(error, "why", str(error))
    warn(
        f"{why}: it is refitted to resampled training data whenever they have changed. "
        'posterior="bootstrap" asks for that without this warning; posterior=<estimator> draws from another model, '
        "a random forest, say, fitted to the same data.",
    )


def certainty_error() -> ValueError:
    return ValueError(
        "`score` must be larger for more informative rows, and modAL's classifier_margin is smaller for them. "
        'Use score="margin", one minus it.'
    )


def check_target(X_target: Any, score: Any) -> Any:
    if X_target is None:
        raise ValueError(f"`X_target` must be given for score={score!r}, which asks for draws at the rows that matter.")
    return X_target


def check_target_rows(n_targets: int, n_columns: int | None, n_columns_of_pool: int | None) -> None:
    if n_targets == 0:
        raise ValueError("`X_target` must hold one row or more. Got 0 rows.")
    if n_columns != n_columns_of_pool:
        raise ValueError(
            f"`X_target` must have the columns of `X_pool`, {n_columns_of_pool}. Got {n_columns}: "
            "give it rows like those of the pool, without their labels."
        )


def check_score_output(scores: Any, n_points: int) -> Any:
    """One number a row, as a numpy array."""
    scores = as_array(scores)
    if scores.shape != (n_points,):
        raise ValueError(
            f"`score` must return one number a row, shape ({n_points},) for this chunk. Got shape {scores.shape}. "
            "(The draws of a net are a torch tensor; np.asarray(draws) makes them an array.)"
        )
    return scores


def check_batch(indices: Any, k: int, n_points: int) -> NDArray[np.int64]:
    """What a sampler of the user's own returned."""
    indices = np.asarray(indices)
    distinct = indices.ndim == 1 and len(np.unique(indices)) == len(indices) == k
    if not (distinct and indices.dtype.kind in "iu" and indices.min() >= 0 and indices.max() < n_points):
        raise ValueError(
            f"`sampler` must return {k} distinct positions from 0 to {n_points - 1}. Got {indices!r} instead."
        )
    return indices.astype(np.int64)


def check_functions(draws: Any, again: Any, row: int) -> None:
    """Check that draws of one row are the same in a second call, and beside another row.

    Models may compute in fewer digits than their draws have, and round otherwise for another number of rows. What is a
    tenth, or less, of the spread of the draws is taken for that: draws that are made anew differ by more than it.
    """
    if _equal_but_for_rounding(draws, again, nan=True):  # the score says that they are not finite
        return
    before, now = _as_float64(draws), _as_float64(again)
    if not np.sqrt(np.mean((now - before) ** 2)) <= 0.1 * np.sqrt(np.mean(np.var(before, axis=0))):
        raise _no_functions_error(f"row {row}, drawn a second time and beside another,")


def check_surrogate_classes(surrogate: Any, estimator: Any) -> None:
    theirs, ours = getattr(surrogate, "classes_", None), getattr(estimator, "classes_", None)
    if theirs is None or ours is None or set(np.ravel(theirs).tolist()) <= set(np.ravel(ours).tolist()):
        return
    raise ValueError(
        f"`posterior` was fitted to the classes {np.ravel(theirs).tolist()}, and the learner knows "
        f"{np.ravel(ours).tolist()}. Give `X_training` and `y_training` with the learner's labels."
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


def no_beta_error(sampler: Any) -> ValueError:
    name = getattr(sampler, "__name__", type(sampler).__name__)
    return ValueError(
        f'`beta`="auto" needs a sampler that has a coldness: "power", "softmax" or "softrank", or one of your own with '
        f"a function `log_weights(scores, beta)`. Got {name!r}, for which `beta` must be a number."
    )


def word_for_beta_error(beta: str) -> TypeError:
    return TypeError(f'`beta` must be a number, 0 or larger, or "auto". Got {beta!r} instead.')


def check_epsilon(epsilon: Any) -> float:
    if not is_number(epsilon):
        raise TypeError(f"`epsilon` must be a number from 0 to 1. Got {epsilon!r} instead.")
    if not 0 <= epsilon <= 1:
        raise ValueError(f"`epsilon` must be from 0 (the sampler alone) to 1 (uniform). Got {epsilon!r} instead.")
    return float(epsilon)
