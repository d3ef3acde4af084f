"""What is checked at the boundary, and the errors and warnings that the package words.

Those of one topic are in `_validation_experiments`, `_validation_plots`, `_validation_batches` and `_validation_data`,
which stand on this module. A message names the parameter in backticks, the rule, what was got and, where there is one,
the remedy.
"""

from __future__ import annotations

import importlib
import numbers
import sys
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import is_classifier, is_regressor
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.utils.validation import check_is_fitted, validate_data


def check_random_state(random_state: Any) -> np.random.Generator:
    """Turn `random_state` (None, int, RandomState, Generator, SeedSequence) into a `numpy.random.Generator`."""
    if isinstance(random_state, np.random.RandomState):
        return np.random.default_rng(random_state.randint(2**31 - 1, size=4))
    try:
        return np.random.default_rng(random_state)
    except (TypeError, ValueError) as error:
        raise type(error)(
            f"`random_state` must be None, a non-negative integer, a numpy Generator or a RandomState. "
            f"Got {random_state!r} instead."
        ) from error


def spawn(rng: np.random.Generator, n: int) -> list[np.random.Generator]:
    """``n`` independent generators, whatever ``rng`` was made from."""
    return [np.random.default_rng(seed) for seed in rng.integers(2**63, size=(n, 4))]


def is_integer(value: Any) -> bool:
    return isinstance(value, numbers.Integral) and not isinstance(value, bool | np.bool_)


def is_number(value: Any) -> bool:
    return isinstance(value, numbers.Real) and not isinstance(value, bool | np.bool_)


def check_rng(rng: Any) -> None:
    if not isinstance(rng, np.random.Generator):
        raise TypeError(
            f"`rng` must be a numpy.random.Generator, as numpy.random.default_rng(seed) makes it. Got {rng!r} instead."
        )


def check_k(k: Any, n_points: int, name: str = "k", of: str = "scores") -> int:
    """Check that k is an integer from 1 to ``n_points``."""
    if not is_integer(k):
        raise TypeError(f"`{name}` must be an integer from 1 to the number of {of}, {n_points}. Got {k!r} instead.")
    if n_points == 0:
        raise ValueError(f"`{name}`={k} rows cannot be chosen: there are 0 {of}.")
    if not 1 <= k <= n_points:
        raise ValueError(f"`{name}` must be from 1 to the number of {of}, {n_points}. Got {k} instead.")
    return int(k)


def check_beta(beta: Any) -> float:
    if not is_number(beta):
        raise TypeError(f"`beta` must be a number, 0 or larger. Got {beta!r} instead.")
    if not 0 <= beta < float("inf"):
        raise ValueError(
            f"`beta` must be a finite number, 0 (uniform) or larger. Got {beta!r} instead. "
            'The limit of a large beta is sampler="topk".'
        )
    return float(beta)


def check_scores(
    scores: Any, name: str = "scores", *, minus_inf: bool = False, non_negative: bool = False
) -> NDArray[np.float64]:
    """One float64 a row, from an array-like or a tensor on any device; no copy of what is float64 already."""
    if hasattr(scores, "detach"):
        scores = scores.detach().cpu().double().numpy()
    scores = np.asarray(scores, dtype=np.float64)
    if scores.ndim != 1:
        raise ValueError(f"`{name}` must have shape (n_points,). Got shape {scores.shape} instead.")
    lowest, highest = scores.min(initial=0.0), scores.max(initial=0.0)  # NaN if any is
    if not highest < np.inf:
        raise _score_error(name, scores, ~(scores < np.inf), "be finite numbers")
    if not minus_inf and lowest == -np.inf:
        raise _score_error(name, scores, scores == -np.inf, "be finite numbers")
    if non_negative and lowest < 0:
        if lowest < -1e-9:
            rule = 'be 0 or larger under power sampling (sampler="softmax" or "softrank" take any number)'
            raise _score_error(name, scores, scores < -1e-9, rule)
        return np.maximum(scores, 0.0)
    return scores


class ScoreError(ValueError):
    """A score that its sampler cannot take."""

    def __init__(self, name: str, rule: str, value: float, row: int, n_bad: int) -> None:
        super().__init__(f"`{name}` must {rule}. Got {value} in row {row}, and {n_bad} such rows in all.")
        self._parts = (name, rule, value, row, n_bad)

    def of_rows(self, rows: NDArray[np.int64] | None) -> ScoreError:
        """The same, where row i of the scores is row ``rows[i]`` of the pool."""
        name, rule, value, row, n_bad = self._parts
        return self if rows is None else ScoreError(name, rule, value, int(rows[row]), n_bad)


def _score_error(name: str, scores: NDArray[np.float64], bad: NDArray[np.bool_], rule: str) -> ScoreError:
    row = int(np.flatnonzero(bad)[0])
    return ScoreError(name, rule, float(scores[row]), row, int(bad.sum()))


def warn_few_positive(n_positive: int, k: int) -> None:
    if n_positive < k:
        warn(
            f"Only {n_positive} rows have a positive score, and {k} were asked for: under power sampling the positive "
            f"ones come first and the other {k - n_positive} are chosen uniformly at random. BALD is 0 where all draws "
            "agree: a model that learned nothing from few labels, say, or is sure of everything.",
        )


def check_draws_shape(draws: Any, score: str, tasks: tuple[str, ...]) -> Any:
    """Draws as an array or tensor of the number of axes that a score can take."""
    if not hasattr(draws, "detach"):
        draws = np.asarray(draws)
    check_numbers("draws", draws)
    axes = {
        "classifier": "(n_draws, n_points, n_classes)",
        "regressor": "(n_draws, n_points)",
        "outcomes": "(n_draws, n_points, 2)",
    }
    two_outcomes = draws.ndim == 3 and draws.shape[2] == 2
    if draws.ndim not in [axes[task].count(",") + 1 for task in tasks] or (tasks == ("outcomes",) and not two_outcomes):
        wanted = " or ".join(axes[task] for task in tasks)
        others = {2: f' "{score}" scores class probabilities; for a regressor there are "std_dev" and "variance".'}
        remedy = others.get(draws.ndim, "") if tasks == ("classifier",) else ""
        raise ValueError(f"`draws` must have shape {wanted}. Got shape {tuple(draws.shape)} instead.{remedy}")
    if draws.shape[0] == 0 or (draws.shape[-1] == 0 and draws.ndim == 3):
        raise ValueError(f"`draws` must hold at least one draw and one class. Got shape {tuple(draws.shape)} instead.")
    return draws


def is_real(array: Any) -> bool:
    """Whether the type of an array's or a tensor's elements is one of real numbers."""
    if hasattr(array.dtype, "is_complex"):  # torch's
        return not array.dtype.is_complex
    return array.dtype.kind in "fiub"


def check_numbers(name: str, array: Any) -> None:
    """Check that an array or a tensor holds real numbers, not what can be taken for some."""
    if not is_real(array):
        raise TypeError(
            f"`{name}` must be an array of real numbers. Got dtype {array.dtype} instead. Convert it if it holds "
            "numbers, with .astype(float), say."
        )


def check_positive_by_point(name: str, value: Any, shape: Any) -> None:
    """Check a tensor of positive numbers of shape (), (n_points,) or (n_draws, n_points)."""
    n_draws, n_points = shape
    if tuple(value.shape) not in [(), (1,), (n_points,), (n_draws, n_points)]:
        raise ValueError(
            f"`{name}` must be a number, or have shape ({n_points},) or ({n_draws}, {n_points}) as the draws. "
            f"Got shape {tuple(value.shape)} instead."
        )
    if not bool(((value > 0) & (value < float("inf"))).all()):
        raise ValueError(f"`{name}` must be positive and finite. Got {value.min().item()} as the smallest.")


def check_target_draws(target_draws: Any, draws: Any) -> Any:
    """Draws at one target or more, as many draws and classes as those of the points."""
    if not hasattr(target_draws, "detach"):
        target_draws = np.asarray(target_draws)
    shape, wanted = tuple(target_draws.shape), (draws.shape[0], draws.shape[2])
    if len(shape) != 3 or (shape[0], shape[2]) != wanted or shape[1] == 0:
        raise ValueError(
            f"`target_draws` must have shape ({wanted[0]}, n_targets, {wanted[1]}), with one target or more: the same "
            f"draws and classes as `draws`. Got shape {shape} instead."
        )
    return target_draws


def check_target_weights(weights: Any, n_targets: int) -> None:
    """Check a tensor of weights of targets."""
    if tuple(weights.shape) != (n_targets,):
        raise ValueError(
            f"`target_weights` must have shape ({n_targets},), one weight a target. Got shape {tuple(weights.shape)}."
        )
    if not bool(((weights >= 0) & (weights < float("inf"))).all()) or not bool(weights.sum() > 0):
        raise weights_error("target_weights", str(weights.min().item()) + " as the smallest")


def sum_tolerance(draws: Any) -> float:
    """How far from 1 the probabilities of a row may sum in the dtype of the draws."""
    bits = {"torch.bfloat16": 7, "torch.float16": 10, "float16": 10, ">f2": 10}.get(str(draws.dtype))
    return max(1e-4, draws.shape[-1] * 2.0**-bits) if bits else 1e-4


def check_block(block: Any, first_point: int, tolerance: float | None) -> None:
    """Check that a float64 tensor holds probabilities (n_draws, n_classes, n), or predicted values (n_draws, ..., n).

    The latter have no tolerance, that is, sums over classes.
    """
    if tolerance is None:
        if not bool(block.isfinite().all()):
            where = (~block.isfinite()).nonzero()[0].tolist()
            raise ValueError(
                f"`draws` must be finite. "
                f"Got {block[tuple(where)].item()} in draw {where[0]} of point {first_point + where[-1]}."
            )
        return
    sums = block.sum(1)
    if bool(block.amin() >= 0) and bool((sums - 1).abs().amax() <= tolerance):
        return
    wrong = ~((block >= 0).all(1) & ((sums - 1).abs() <= tolerance))
    draw, point = wrong.nonzero()[0].tolist()
    raise ProbabilityError("draws", block[draw, :, point], f"draw {draw} of point {first_point + point}", tolerance)


class ProbabilityError(ValueError):
    """A row over the classes, a tensor, that holds no probabilities."""

    def __init__(self, name: str, row: Any, place: str, tolerance: float) -> None:
        rule = f"not negative, and summing to 1 over the classes (to within {tolerance:.1g})"
        got = f"{_shown(row.tolist())}, which sums to {row.sum().item():.6g}, in {place}"
        super().__init__(
            f"`{name}` must hold probabilities: {rule}. Got {got}. If these are logits, apply softmax; if they are "
            "log-probabilities, exp; a single column p of a binary model becomes (1 - p, p)."
        )
        self._parts = name, rule, got, bool((row >= 0).all())

    def of_model(self, estimator: Any) -> ValueError:
        """The same, where the row is what a model made."""
        name, rule, got, is_rounding = self._parts
        remedy = (
            "Models that compute in the dtype of their rows, such as GaussianNB, can miss the sum in float32: give "
            "`X_pool`, and the rows that it is fitted to, as float64."
            if is_rounding
            else "If these are logits, the model lacks a softmax."
        )
        return ValueError(
            f"`{name}` must hold probabilities: {rule}. This {type(estimator).__name__} gave {got}. {remedy}"
        )


def _shown(row: list[float]) -> str:
    """Five numbers of a row: what is negative or NaN first, then the largest, so that a wrong one is among them."""
    first = row if len(row) <= 5 else sorted(row, key=lambda p: (p >= 0, -p))[:5]
    return f"[{', '.join(f'{p:.4g}' for p in first)}]" + (f" and {len(row) - 5} more" if len(row) > 5 else "")


@contextmanager
def probabilities_of(estimator: Any) -> Iterator[None]:
    """Name the model where it is the model that gives no probabilities."""
    try:
        yield
    except ProbabilityError as error:
        raise error.of_model(estimator) from None


def warn(message: str, category: type[Warning] = UserWarning) -> None:
    warnings.warn(message, category, stacklevel=_stack_level())


def _stack_level() -> int:
    """The stack level, seen from the caller, of the first frame outside this package (and outside modAL)."""
    frame, level = sys._getframe(1), 1
    while frame is not None and frame.f_globals.get("__name__", "").split(".")[0] in {"skactive", "modAL"}:
        frame, level = frame.f_back, level + 1  # type: ignore[assignment]
    return level


def check_pool(X_pool: Any) -> None:
    """Refuse what has no rows to choose from: None, a text, a generator."""
    if isinstance(X_pool, str | bytes) or not (hasattr(X_pool, "shape") or hasattr(X_pool, "__len__")):
        raise TypeError(
            "`X_pool` must hold rows: an array, a DataFrame, a sparse array, a list. "
            f"Got a {type(X_pool).__name__} instead."
        )
    if isinstance(X_pool, Mapping) and not hasattr(X_pool, "shape"):
        raise TypeError(
            f"`X_pool` must hold rows, and a {type(X_pool).__name__} holds columns by name. Wrap it in "
            "skorch.helper.SliceDict for a skorch net, or in a pandas.DataFrame."
        )
    if any(kind.__module__.startswith("torch.utils.data") for kind in type(X_pool).__mro__):
        raise TypeError(
            f"`X_pool` must hold rows in one array, tensor or list. Got a {type(X_pool).__name__} of torch. Give what "
            "it reads its rows from, and let a step of a Pipeline, or the `dataset` of a skorch net, do the reading."
        )


def check_n_instances(n_instances: Any, n_candidates: int, n_points: int) -> int:
    if n_points == 0:
        raise ValueError(f"`X_pool` is empty: there are 0 rows to choose n_instances={n_instances!r} from.")
    of = "rows of the pool" if n_candidates == n_points else f"candidates among the {n_points} rows of the pool"
    return check_k(n_instances, n_candidates, "n_instances", of)


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


def check_positive_integers(**parameters: Any) -> None:
    for name, value in parameters.items():
        if value is None:
            continue
        if not is_integer(value):
            raise TypeError(f"`{name}` must be a positive integer or None. Got {value!r} instead.")
        if value < 1:
            raise ValueError(f"`{name}` must be 1 or more, or None. Got {value} instead.")


def check_overrides(query: type, overrides: Mapping[str, Any], parameters: Mapping[str, Any]) -> None:
    unknown = sorted(set(overrides) - set(parameters))
    if unknown:
        known = ", ".join([*parameters, "candidates", "X_training", "y_training"])
        raise TypeError(f"{query.__name__} takes no keyword `{unknown[0]}`. It takes: n_instances, {known}.")


def look_up(kind: str, value: Any, registry: Mapping[str, Any]) -> Any:
    """A registered function by its name, or a callable as it is."""
    if callable(value):
        return value
    names = ", ".join(repr(name) for name in sorted(registry))
    if not isinstance(value, str):
        raise TypeError(f"`{kind}` must be a callable or one of {names}. Got {value!r} instead.")
    if value not in registry:
        raise ValueError(f"`{kind}` must be a callable or one of {names}. Got {value!r} instead.")
    return registry[value]


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


def task(estimator: Any) -> str | None:
    """Return "classifier", "regressor", or None for what is neither by its tags."""
    if hasattr(estimator, "learner_list"):  # a modAL committee
        return "classifier" if hasattr(estimator, "predict_proba") else "regressor"
    try:
        if is_classifier(estimator):
            return "classifier"
        if is_regressor(estimator):
            return "regressor"
    except AttributeError:  # no scikit-learn tags: not one of its estimators
        pass
    return None


def is_fitted(estimator: Any) -> bool:
    if hasattr(estimator, "learner_list"):  # a modAL committee
        return all(is_fitted(learner.estimator) for learner in estimator.learner_list)
    if hasattr(estimator, "initialized_"):  # skorch
        return bool(estimator.initialized_)
    # A torch module, or an object with draws of its own and ways of its own
    if not hasattr(estimator, "fit") or not hasattr(estimator, "get_params"):
        return True
    try:
        check_is_fitted(estimator)
    except NotFittedError:
        return False
    # A Gaussian process may predict from its prior, says scikit-learn; to be asked for labels, it must have seen some.
    return any(name.endswith("_") and not name.startswith("__") for name in vars(estimator)) or _is_composed(estimator)


def _is_composed(estimator: Any) -> bool:
    return hasattr(estimator, "__sklearn_is_fitted__")


def not_fitted_error(estimator: Any) -> NotFittedError:
    return NotFittedError(
        f"This {type(estimator).__name__} is not fitted yet. Fit it to the labels you have, or choose the first batch "
        "at random, as a query does for a modAL learner that is not fitted."
    )


def warn_cold_start(estimator: Any) -> None:
    warn(
        f"{type(estimator).__name__} is not fitted yet, so there are no scores: the batch is uniform at random.",
    )


def no_columns_error(name: str, X: Any) -> ValueError:
    return ValueError(
        f"`{name}` is a column, and the rows are not a table with columns: they are a {type(X).__name__}. "
        "Give an array of two axes or a DataFrame."
    )


def check_column_position(name: str, position: int, n_columns: int) -> int:
    if not -n_columns <= position < n_columns:
        raise ValueError(
            f"`{name}` must be the position of a column, from 0 to {n_columns - 1}, or negative to count from the "
            f"end. Got {position}."
        )
    return int(position) % n_columns


def column_by_name_error(name: str, column: Any, X: Any) -> TypeError:
    return TypeError(
        f"`{name}` must be the position of a column, an integer, where rows have no names of columns: they are a "
        f"{type(X).__name__}. Got {column!r}. Names need a DataFrame."
    )


def check_column_name(name: str, column: Any, columns: list[Any]) -> int:
    """The position of a name that is there once."""
    positions = [i for i, known in enumerate(columns) if known == column]
    if len(positions) != 1:
        shown = ", ".join(map(repr, columns[:20])) + (", ..." if len(columns) > 20 else "")
        raise ValueError(
            f"`{name}` must be one of the columns {shown}, or a position. Got {column!r}, of which there are "
            f"{len(positions)}."
        )
    return positions[0]


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


@contextmanager
def failure_explained(doing: str) -> Iterator[None]:
    """Chain an error of the model or of a user's score under one sentence that says what was being done."""
    try:
        yield
    except (ValueError, TypeError) as error:
        kind = ValueError if isinstance(error, ValueError) else TypeError
        raise kind(f"{doing} failed: {error}") from error
    except Exception as error:
        raise RuntimeError(f"{doing} failed: {type(error).__name__}: {error}") from error


class NoPosteriorError(TypeError):
    """An estimator has no posterior draws of its own."""

    def __init__(self, estimator: Any, reason: str = "") -> None:
        self.why = f"{type(estimator).__name__} has no posterior draws " + (
            f"here: {reason}" if reason else "of its own"
        )
        super().__init__(
            f'{self.why}. Give the query posterior="bootstrap" (and the training data, which a modAL learner brings '
            "along) or posterior=<an estimator to draw from instead, such as RandomForestClassifier()>; or register a "
            "source with `sample_posterior.register`."
        )


def as_array(draws: Any) -> NDArray[Any]:
    """An array of a tensor on any device, or of what else can be one; bfloat16, which numpy lacks, as float32."""
    if not hasattr(draws, "detach"):
        return np.asarray(draws)
    draws = draws.detach().cpu()
    return (draws.float() if str(draws.dtype) == "torch.bfloat16" else draws).numpy()


def check_draws_of(draws: Any, n_points: int, n_classes: int | None = None, n_draws: int | None = None) -> None:
    """Check that ``predict_draws`` answered with draws first and points second."""
    shape = tuple(getattr(draws, "shape", ()))
    fits = len(shape) in (2, 3) and shape[1] == n_points
    fits = fits and (n_draws is None or shape[0] == n_draws)
    fits = fits and (len(shape) == 2 or n_classes is None or shape[2] == n_classes)
    if not fits:
        raise ValueError(
            f"`predict_draws` must return draws of shape (n_draws, n_points, n_classes), or (n_draws, n_points) for a "
            f"regressor: here n_draws={n_draws or 'any'}, n_points={n_points}, n_classes={n_classes or 'any'}. "
            f"Got shape {shape} instead."
        )


def check_same_functions(draws: Any, again: Any, what: str) -> None:
    """Check that two calls gave the same draws, but for rounding."""
    if tuple(draws.shape) != tuple(again.shape) or not _equal_but_for_rounding(draws, again):
        raise _no_functions_error(what)


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


def _equal_but_for_rounding(draws: Any, again: Any, *, nan: bool = False) -> bool:
    """Whether they are the same for the type that they were computed in; absolute errors go by the largest number."""
    digits = 1e-4
    if hasattr(draws, "detach") and draws.is_cuda:
        digits = 2.0**-6  # float32, too, may be multiplied with the 10 bits of TF32
    digits = {"torch.float16": 2.0**-6, "float16": 2.0**-6, "torch.bfloat16": 2.0**-3}.get(str(draws.dtype), digits)
    draws, again = _as_float64(draws), _as_float64(again)
    # Probabilities, or values in any unit
    largest = 1.0 if draws.ndim == 3 else np.abs(draws[np.isfinite(draws)]).max(initial=0.0)
    return np.allclose(draws, again, rtol=digits, atol=0.1 * digits * largest, equal_nan=nan)


def _as_float64(draws: Any) -> NDArray[np.float64]:
    """Draws of any kind of float, bfloat16 among them, which numpy does not know."""
    return draws.detach().cpu().double().numpy() if hasattr(draws, "detach") else np.asarray(draws, dtype=np.float64)


def _no_functions_error(what: str) -> ValueError:
    return ValueError(
        f"`predict_draws` must be the same functions at every call, whatever rows stand beside: {what} gave other "
        "values. Draw parameters (or masks, or members) once, in `sample_posterior`, and only evaluate them after."
    )


def check_draws_differ(draws: Any) -> None:
    if len(draws) < 2 or np.ptp(draws, axis=0).max() == 0:
        raise ValueError("`predict_draws` must return two draws or more that differ somewhere. These are all alike.")


def check_enough_draws(n_draws: int, name: Any, score: Any) -> None:
    """Check that a score that looks at how draws differ has two of them."""
    if n_draws < 2 and not getattr(score, "one_draw", True):
        raise ValueError(
            f"`score`={name!r} needs two draws or more, and there is {n_draws}: it would be 0 everywhere. Raise "
            '`n_draws`, use an ensemble of more members, or posterior="bootstrap".'
        )


def check_surrogate_classes(surrogate: Any, estimator: Any) -> None:
    theirs, ours = getattr(surrogate, "classes_", None), getattr(estimator, "classes_", None)
    if theirs is None or ours is None or set(np.ravel(theirs).tolist()) <= set(np.ravel(ours).tolist()):
        return
    raise ValueError(
        f"`posterior` was fitted to the classes {np.ravel(theirs).tolist()}, and the learner knows "
        f"{np.ravel(ours).tolist()}. Give `X_training` and `y_training` with the learner's labels."
    )


def check_n_draws(n_draws: Any) -> int:
    if not is_integer(n_draws):
        raise TypeError(f"`n_draws` must be a positive integer or None. Got {n_draws!r} instead.")
    if n_draws < 1:
        raise ValueError(f"`n_draws` must be 1 or more. Got {n_draws} instead.")
    return int(n_draws)


def check_features(estimator: Any, X: Any) -> Any:
    """X as the fitted estimator takes it: its number of columns, its feature names; missing values are its business."""
    return validate_data(estimator, X, accept_sparse="csr", reset=False, ensure_all_finite="allow-nan", dtype="numeric")


def check_labels(y: Any) -> NDArray[Any]:
    """One label a row, of a single axis."""
    return _check_axes(np.asarray(y)).ravel()


def labels_to_fit(estimator: Any, y: Any) -> NDArray[Any]:
    """One label a row, in the axes that the estimator is to be fitted with.

    They are those that the labels came with: a net that returns (n, 1) needs labels (n, 1), or its loss compares each
    output with every label. Classifiers, and what inherits its ``fit`` from scikit-learn or this package, take a single
    axis and get it; a second one would bring a warning, or predictions of another shape.
    """
    y = _check_axes(np.asarray(y))
    return y if _takes_a_column(estimator) else y.ravel()


def _check_axes(y: NDArray[Any]) -> NDArray[Any]:
    if y.ndim != 1 and (y.ndim != 2 or y.shape[1] != 1):
        raise ValueError(
            f"`y_training` must have shape (n_labelled,). Got shape {y.shape} instead: models of several outputs are "
            "not supported, fit one a target."
        )
    return y


def _takes_a_column(estimator: Any) -> bool:
    """Whether what is fitted in the end, behind pipelines, searches and transformers of y, may want labels (n, 1)."""
    if task(estimator) == "classifier":
        return False
    if getattr(estimator, "steps", None):
        return _takes_a_column(estimator.steps[-1][1])
    if hasattr(estimator, "get_params"):
        parts = estimator.get_params(deep=False)
        for inner, mark in (("regressor", "transformer"), ("estimator", "refit")):  # of a transformed y; of a search
            if mark in parts and parts.get(inner) is not None:
                return _takes_a_column(parts[inner])
    owners = [kind for kind in type(estimator).__mro__ if "fit" in vars(kind)]
    return not any(kind.__module__.partition(".")[0] in {"sklearn", "skactive"} for kind in owners)


def check_single_output(estimator: Any) -> None:
    """Refuse what predicts several targets at once: its predict_proba is a list, one array a target."""
    if getattr(estimator, "n_outputs_", 1) > 1:
        raise several_outputs_error(estimator)


def check_one_output(probabilities: Any, estimator: Any) -> NDArray[Any]:
    if isinstance(probabilities, list):
        raise several_outputs_error(estimator)
    return np.asarray(probabilities)


def several_outputs_error(estimator: Any) -> ValueError:
    return ValueError(
        f"`estimator` must predict one target, and this {type(estimator).__name__} has several outputs. Fit one "
        "estimator a target, or one on the target that the labels are bought for."
    )


def check_one_target(predictions: Any) -> Any:
    """Regression outputs (n_draws, n_points, 1) or (n_draws, n_points) without the last axis."""
    if predictions.ndim == 2:
        return predictions
    if predictions.ndim == 3 and predictions.shape[-1] == 1:
        return predictions[..., 0]
    raise ValueError(
        f"`estimator` must predict one target. Its draws have shape {tuple(predictions.shape)}: several outputs."
    )


def check_class_outputs(outputs: Any) -> None:
    if outputs.ndim != 3 or outputs.shape[-1] < 2:
        raise ValueError(
            "`estimator` is a torch module and must return one column a class. Got outputs of shape "
            f"{tuple(outputs.shape[1:])} for a batch. Wrap a binary or a regression net in skorch's "
            "NeuralNetBinaryClassifier or NeuralNetRegressor, or in MCDropoutClassifier or MCDropoutRegressor."
        )


def no_noise_variance_error(estimator: Any) -> ValueError:
    return ValueError(
        f"`score` asks for the variance of the noise on a label, and {type(estimator).__name__} has none. Give it an "
        "attribute `noise_variance_`, fix it with functools.partial(gaussian_bald, noise_variance=...), or use "
        'score="variance".'
    )


def search_without_refit_error(search: Any) -> ValueError:
    return ValueError(
        f"`estimator` is a {type(search).__name__} with refit={search.refit!r}, so it holds no fitted model to draw "
        "from. Set refit=True."
    )


def dask_frame_error() -> TypeError:
    return TypeError(
        "`X_pool` must not be a dask DataFrame, whose rows cannot be addressed by position. Give its "
        "`.to_dask_array(lengths=True)`, or `.compute()` it."
    )


class NetError(ValueError):
    """A net that draws cannot be had of; worded in full where it is raised."""


class NoDropoutError(NetError):
    """A net with nothing random in training."""


def inner_dropout_error(layers: str) -> NetError:
    return NetError(
        f"`estimator` has dropout inside of {layers}, where no mask can be held fixed for all rows. Set the layer's "
        "`dropout` to 0 to draw from the net's other dropout layers alone."
    )


def parameter_error(name: str, rule: str, value: Any) -> ValueError:
    return ValueError(f"`{name}` must be {rule}. Got {value!r} instead.")


def one_class_error(labels: NDArray[Any]) -> ValueError:
    return ValueError(
        f"`y` must hold two classes or more to train a classifier. Got one class, {labels[0]!r}. Labels that have not "
        "been seen yet can be declared with `classes`."
    )


def undeclared_labels_error(labels: NDArray[Any], classes: NDArray[Any]) -> ValueError:
    return ValueError(f"`classes` must list every label in `y`. Got {classes}, which lacks {labels}.")


def first_partial_fit_error() -> ValueError:
    return ValueError("`classes` must be passed on the first call to partial_fit: all labels that may ever come.")


def changed_classes_error(classes: NDArray[Any], before: NDArray[Any]) -> ValueError:
    return ValueError(f"`classes` must be the same at every call to partial_fit. Got {classes}, and {before} before.")


def weights_error(name: str, got: str) -> ValueError:
    return ValueError(f"`{name}` must be finite, never negative, and not all of the weights may be zero. Got {got}.")


def needs_module_error(shape: Any) -> ValueError:
    return ValueError(
        f"`X` must be 2-dimensional for the built-in net. Found rows of shape {tuple(shape)}. Give a net for such rows "
        "as `module`."
    )


def module_error(rule: str, got: str) -> ValueError:
    return ValueError(f"`module` must {rule}. Got {got} instead.")


def output_error(output: str, rule: str, remedy: str) -> ValueError:
    return ValueError(f"`output`={output!r} says that `module` returns {rule}, which its outputs are not. {remedy}")


def module_failed_error(shape: Any, error: Exception) -> ValueError:
    return ValueError(
        f"`module` could not answer float32 rows of shape {tuple(shape)}. {type(error).__name__}: {error}"
    )


def last_layer_error(n_before: int, n_now: int) -> ValueError:
    return ValueError(
        f"`classes` grew from {n_before} to {n_now}, but this `module` does not end in a torch.nn.Linear layer of one "
        "unit a class that could grow. Declare all labels with `classes` from the start, or set warm_start=False."
    )


def no_linear_layer_error() -> ValueError:
    return ValueError("`module` must run a torch.nn.Linear layer for its input to be an embedding. Got none that ran.")


def diverged_error() -> ValueError:
    return ValueError("Training diverged to weights that are not finite: lower `lr`, or scale the features.")


def device_error(device: Any, reason: str) -> ValueError:
    return ValueError(f'`device` must be "auto", "cpu" or a torch device of this machine. Got {device!r}: {reason}')


def warn_no_validation(n_rows: int) -> None:
    warn(
        f"`early_stopping` needs rows to validate on, and {n_rows} training rows leave none to spare: trained for "
        "`max_epochs` on all of them.",
    )


def check_kernel_input(estimator: Any, X: Any) -> Any:
    """X as a fitted Gaussian process takes it: finite numbers in columns, or whatever its kernel compares."""
    vectors = estimator.kernel is None or estimator.kernel.requires_vector_input
    return validate_data(estimator, X, reset=False, ensure_2d=bool(vectors), dtype="numeric" if vectors else None)


def one_vs_one_error(estimator: Any) -> ValueError:
    return ValueError(
        f'`multi_class` must be "one_vs_rest" to draw from a {type(estimator).__name__} of more than two classes. With '
        '"one_vs_one" it has no probabilities.'
    )


class NoTrainingDataError(ValueError):
    """Draws around a fit need the data that it was fitted to."""

    def __init__(self, estimator: Any) -> None:
        self.why = f"{type(estimator).__name__} has no posterior draws without its training data"
        super().__init__(
            f"`X_training` and `y_training` must be given to draw from a {type(estimator).__name__}: they are what its "
            "fit does not keep, and its uncertainty follows from. A query through a fitted modAL learner brings them."
        )


def unknown_labels_error(labels: NDArray[Any], classes: NDArray[Any]) -> ValueError:
    return ValueError(
        f"`y_training` must hold labels that the estimator was fitted to, {classes}. Got {labels} as well."
    )


def no_embed_error(net: Any) -> TypeError:
    return TypeError(
        "`net` must have a method `embed(X)` that returns features (n_points, n_units), or be a skorch net, a torch "
        f"module, an MLPClassifier or a Pipeline that ends in one. Got a {type(net).__name__} without one. None takes "
        "the rows of X for features."
    )


def net_class_error(net: type) -> TypeError:
    return TypeError(
        f"`net` must be a net, not a class of nets. Got the class {net.__name__}: make an instance, and fit it "
        "if it is a torch module, which is taken as it is."
    )


def no_tapped_layer_error() -> ValueError:
    return ValueError(
        "`net` must run a torch.nn.Linear layer, whose input is what its features are. Got a net in which none ran: "
        "give it a method `embed(X)`, or make the features yourself and leave `net` out."
    )


def embedding_error(features: NDArray[Any]) -> ValueError:
    got = f"shape {features.shape}" if features.ndim != 2 else "features that are infinite or NaN"
    return ValueError(f"`net` must embed rows as finite features of shape (n_points, n_units). Got {got}.")


def warn_last_layer(n_steps: int) -> None:
    warn(
        f"The search for the weights of the last layer has not converged after {n_steps} steps: scale the features of "
        "`net`, or raise `prior_precision`.",
        ConvergenceWarning,
    )


def warn_wide_draws(estimator: Any, remedy: str) -> None:
    warn(
        f"Draws from a Laplace approximation around this {type(estimator).__name__} hardly know the labels of its own "
        f"training data: its curvature says little where probabilities are nearly 0 and 1. Try {remedy} or "
        'posterior="bootstrap" in the query.',
    )


def check_cloneable(estimator: Any) -> None:
    """Check that an estimator can be fitted and made anew, as scikit-learn's ``clone`` does."""
    missing = [name for name in ("fit", "get_params", "set_params") if not hasattr(estimator, name)]
    if missing or isinstance(estimator, type):
        got = f"the class {estimator.__name__}" if isinstance(estimator, type) else f"a {type(estimator).__name__}"
        raise TypeError(
            f"`estimator` must be an estimator that scikit-learn can clone, with `fit` and `get_params`. Got {got}."
        )


def check_labels_of(n_rows: int, y: Any, suffix: str = "") -> NDArray[Any]:
    """Labels as an array, (n_rows,) or (n_rows, 1): one for each row, and none missing."""
    gaps = y.isna().to_numpy() if hasattr(y, "isna") else None
    y = np.asarray(y)
    if y.shape not in ((n_rows,), (n_rows, 1)):
        raise ValueError(
            f"`y{suffix}` must have shape ({n_rows},), one label for each row of `X{suffix}`. Got {y.shape} instead."
        )
    missing = _missing(y.ravel()) if gaps is None else np.ravel(gaps)
    if missing.any():
        row = int(np.flatnonzero(missing)[0])
        raise ValueError(
            f"`y{suffix}` must have a finite label for every row. Got {y.ravel()[row]!r} in row {row}, and "
            f"{int(missing.sum())} such rows in all. Leave those rows out."
        )
    return y


def _missing(y: NDArray[Any]) -> NDArray[np.bool_]:
    if y.dtype.kind == "f":
        return ~np.isfinite(y)
    if y.dtype.kind != "O":
        return np.zeros(len(y), dtype=bool)
    return np.array([value is None or bool(value != value) for value in y.tolist()], dtype=bool)


def check_positions(name: str, rows: Any, n_points: int) -> NDArray[np.int64]:
    """Distinct positions of rows, in the order given."""
    rows = np.asarray(rows)
    if rows.ndim != 1 or len(rows) == 0 or rows.dtype.kind not in "iu":
        raise ValueError(
            f"`{name}` must be positions of rows, one or more integers. "
            f"Got an array of shape {rows.shape} and dtype {rows.dtype} instead."
        )
    if rows.min() < 0 or rows.max() >= n_points or len(np.unique(rows)) < len(rows):
        raise ValueError(
            f"`{name}` must be distinct positions from 0 to {n_points - 1} (not index labels). Got {len(rows)} "
            f"positions from {rows.min()} to {rows.max()}, {len(np.unique(rows))} of them distinct."
        )
    return rows.astype(np.int64)


def check_one_of(first: str, first_value: Any, second: str, second_value: Any) -> None:
    if (first_value is None) == (second_value is None):
        got = "neither" if first_value is None else "both"
        raise ValueError(f"Either `{first}` or `{second}` must be given. Got {got}.")


def check_counts(**counts: Any) -> None:
    """Check integers that are 1 or more, where None is no answer."""
    for name, value in counts.items():
        if value is None:
            raise TypeError(f"`{name}` must be a positive integer. Got None.")
    check_positive_integers(**counts)


def import_optional(module: str, needed_by: str, package: str) -> Any:
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise ImportError(f"`{needed_by}` needs {package}: python -m pip install {package}") from error
