"""What is checked at the boundary, and every error and warning that the package words.

A message names the parameter in backticks, the rule, what was got and, where there is one, the remedy.
"""

from __future__ import annotations

import importlib
import inspect
import math
import numbers
import pickle
import sys
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
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


def _is_integer(value: Any) -> bool:
    return isinstance(value, numbers.Integral) and not isinstance(value, bool | np.bool_)


def _is_number(value: Any) -> bool:
    return isinstance(value, numbers.Real) and not isinstance(value, bool | np.bool_)


def check_rng(rng: Any) -> None:
    if not isinstance(rng, np.random.Generator):
        raise TypeError(
            f"`rng` must be a numpy.random.Generator, as numpy.random.default_rng(seed) makes it. Got {rng!r} instead."
        )


def check_k(k: Any, n_points: int, name: str = "k", of: str = "scores") -> int:
    """Check that k is an integer from 1 to ``n_points``."""
    if not _is_integer(k):
        raise TypeError(f"`{name}` must be an integer from 1 to the number of {of}, {n_points}. Got {k!r} instead.")
    if n_points == 0:
        raise ValueError(f"`{name}`={k} rows cannot be chosen: there are 0 {of}.")
    if not 1 <= k <= n_points:
        raise ValueError(f"`{name}` must be from 1 to the number of {of}, {n_points}. Got {k} instead.")
    return int(k)


def check_beta(beta: Any) -> float:
    if not _is_number(beta):
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
        _warn(
            f"Only {n_positive} rows have a positive score, and {k} were asked for: under power sampling the positive "
            f"ones come first and the other {k - n_positive} are chosen uniformly at random. BALD is 0 where all draws "
            "agree: a model that learned nothing from few labels, say, or is sure of everything.",
        )


def check_draws_shape(draws: Any, score: str, tasks: tuple[str, ...]) -> Any:
    """Draws as an array or tensor of the number of axes that a score can take."""
    if not hasattr(draws, "detach"):
        draws = np.asarray(draws)
    axes = {"classifier": "(n_draws, n_points, n_classes)", "regressor": "(n_draws, n_points)"}
    if draws.ndim not in [axes[task].count(",") + 1 for task in tasks]:
        wanted = " or ".join(axes[task] for task in tasks)
        others = {2: f' "{score}" scores class probabilities; for a regressor there are "std_dev" and "variance".'}
        remedy = others.get(draws.ndim, "") if tasks == ("classifier",) else ""
        raise ValueError(f"`draws` must have shape {wanted}. Got shape {tuple(draws.shape)} instead.{remedy}")
    if draws.shape[0] == 0 or (draws.shape[-1] == 0 and draws.ndim == 3):
        raise ValueError(f"`draws` must hold at least one draw and one class. Got shape {tuple(draws.shape)} instead.")
    return draws


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


def sum_tolerance(draws: Any) -> float:
    """How far from 1 the probabilities of a row may sum in the dtype of the draws."""
    bits = {"torch.bfloat16": 7, "torch.float16": 10, "float16": 10, ">f2": 10}.get(str(draws.dtype))
    return max(1e-4, draws.shape[-1] * 2.0**-bits) if bits else 1e-4


def check_block(block: Any, first_point: int, tolerance: float) -> None:
    """Check that a float64 tensor holds probabilities (n_draws, n_classes, n) or predicted values (n_draws, n)."""
    if block.ndim == 2:
        if not bool(block.isfinite().all()):
            draw, point = (~block.isfinite()).nonzero()[0].tolist()
            raise ValueError(
                f"`draws` must be finite. "
                f"Got {block[draw, point].item()} in draw {draw} of point {first_point + point}."
            )
        return
    sums = block.sum(1)
    if bool(block.amin() >= 0) and bool((sums - 1).abs().amax() <= tolerance):
        return
    wrong = ~((block >= 0).all(1) & ((sums - 1).abs() <= tolerance))
    draw, point = wrong.nonzero()[0].tolist()
    row = block[draw, :, point]
    shown = ", ".join(f"{p:.4g}" for p in row[:5].tolist()) + (", ..." if len(row) > 5 else "")
    raise ValueError(
        "`draws` must hold probabilities: not negative, and summing to 1 over the classes "
        f"(to within {tolerance:.1g}). Got [{shown}], which sums to {row.sum().item():.6g}, in draw {draw} of point "
        f"{first_point + point}. If these are logits, apply softmax; if they are log-probabilities, exp; a single "
        "column p of a binary model becomes (1 - p, p)."
    )


def _warn(message: str, category: type[Warning] = UserWarning) -> None:
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
        if not _is_integer(value):
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
    kind = _task(estimator) or ("any" if has_source else None)
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


def _task(estimator: Any) -> str | None:
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
        'at random: a modAL learner that is not fitted gets a uniform batch, and so does sampler="uniform".'
    )


def warn_cold_start(estimator: Any) -> None:
    _warn(
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


def check_training_data(X: Any, y: Any) -> tuple[Any, Any]:
    if X is None or y is None:
        raise ValueError(
            "`posterior` needs the training data to refit on, and there is none at hand. Give `X_training` and "
            "`y_training`, or query through a modAL learner that was fitted."
        )
    return X, y


def no_draws_error(estimator: Any, one_draw: bool) -> ValueError:
    name = type(estimator).__name__
    remedy = (
        f"For this score predict_proba would do, and {name} has none: wrap it in CalibratedClassifierCV"
        if one_draw
        else 'Or use a score that needs a single prediction ("entropy", "margin", "variation_ratio")'
    )
    return ValueError(
        f'`posterior`="auto" found no draws: {name} gives none without the training data it was fitted to. Give '
        f"`X_training` and `y_training`, or posterior=<an estimator to draw from instead>. {remedy}."
    )


def warn_bootstrap(error: Any) -> None:
    why = getattr(error, "why", str(error))
    _warn(
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


def check_score_output(scores: Any, n_points: int) -> Any:
    """One number a row, as a numpy array."""
    scores = scores.detach().cpu().numpy() if hasattr(scores, "detach") else np.asarray(scores)
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


@contextmanager
def net_failure_explained(X: Any) -> Iterator[None]:
    """Say which rows a net could not take where torch says which matrices do not fit."""
    try:
        yield
    except RuntimeError as error:
        if "out of memory" in str(error):
            raise
        shape = np.shape(X[:1])[1:]
        raise ValueError(f"`X_pool` has rows of shape {shape}, and the net cannot take them: {error}") from error


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
    return draws.detach().cpu().numpy() if hasattr(draws, "detach") else np.asarray(draws)


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
    if draws.shape != again.shape or not np.allclose(draws, again, rtol=1e-4, atol=1e-5):
        raise ValueError(
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
    if not _is_integer(n_draws):
        raise TypeError(f"`n_draws` must be a positive integer or None. Got {n_draws!r} instead.")
    if n_draws < 1:
        raise ValueError(f"`n_draws` must be 1 or more. Got {n_draws} instead.")
    return int(n_draws)


def check_features(estimator: Any, X: Any) -> Any:
    """X as the fitted estimator takes it: its number of columns, its feature names; missing values are its business."""
    return validate_data(estimator, X, accept_sparse="csr", reset=False, ensure_all_finite="allow-nan", dtype="numeric")


def check_labels(y: Any) -> NDArray[Any]:
    y = np.asarray(y)
    if y.ndim == 2 and y.shape[1] == 1:
        y = y.ravel()
    if y.ndim != 1:
        raise ValueError(
            f"`y_training` must have shape (n_labelled,). Got shape {y.shape} instead: models of several outputs are "
            "not supported, fit one a target."
        )
    return y


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


def no_dropout_error() -> ValueError:
    return ValueError(
        "`estimator` must have a dropout layer to be drawn from, and this net has none with a rate above 0: all "
        "draws would be the same function and BALD 0 everywhere. "
        'Add torch.nn.Dropout layers, or give the query posterior="bootstrap".'
    )


def inner_dropout_error(layers: str) -> ValueError:
    return ValueError(
        f"`estimator` has dropout inside of {layers}, where no mask can be held fixed for all rows. Set the layer's "
        "`dropout` to 0 to draw from the net's other dropout layers alone."
    )


def random_module_error(function: str) -> ValueError:
    return ValueError(
        f"`estimator` calls torch's {function} in its forward pass: numbers that differ from row to row and from call "
        "to call, so that a draw would be no function. Use torch.nn's dropout layers, whose masks can be held fixed, "
        "or give the function a `generator`."
    )


def changing_shape_error(before: tuple[int, ...], now: tuple[int, ...]) -> ValueError:
    return ValueError(
        "A fixed dropout mask needs rows of one shape at every call: a dropout layer saw rows of shape "
        f"{before} first and {now} now. Pad the rows to one length."
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
    _warn(
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
        f"`net` must have a method `embed(X)` that returns features (n_points, n_units). Got a {type(net).__name__} "
        "without one."
    )


def embedding_error(features: NDArray[Any]) -> ValueError:
    got = f"shape {features.shape}" if features.ndim != 2 else "features that are infinite or NaN"
    return ValueError(f"`net` must embed rows as finite features of shape (n_points, n_units). Got {got}.")


def warn_last_layer(n_steps: int) -> None:
    _warn(
        f"The search for the weights of the last layer has not converged after {n_steps} steps: scale the features of "
        "`net`, or raise `prior_precision`.",
        ConvergenceWarning,
    )


def warn_wide_draws(estimator: Any, remedy: str) -> None:
    _warn(
        f"Draws from a Laplace approximation around this {type(estimator).__name__} hardly know the labels of its own "
        f"training data: its curvature says little where probabilities are nearly 0 and 1. Try {remedy} or "
        'posterior="bootstrap" in the query.',
    )


# Experiments


def check_cloneable(estimator: Any) -> None:
    """Check that an estimator can be fitted and made anew, as scikit-learn's ``clone`` does."""
    missing = [name for name in ("fit", "get_params", "set_params") if not hasattr(estimator, name)]
    if missing or isinstance(estimator, type):
        got = f"the class {estimator.__name__}" if isinstance(estimator, type) else f"a {type(estimator).__name__}"
        raise TypeError(
            f"`estimator` must be an estimator that scikit-learn can clone, with `fit` and `get_params`. Got {got}."
        )


def check_queries(queries: Any) -> Mapping[str, Any]:
    """Check that queries have names, and can be called as modAL calls them."""
    if not isinstance(queries, Mapping) or not queries or not all(isinstance(name, str) for name in queries):
        raise TypeError(f"`queries` must be a dict from names to queries, one or more. Got {queries!r} instead.")
    for name, query in queries.items():
        if isinstance(query, type) or not callable(query):
            raise TypeError(f"`queries`[{name!r}] must be a query or a callable. Got {query!r} instead.")
        _check_calling_convention(name, query)
    return queries


def _check_calling_convention(name: str, query: Any) -> None:
    try:
        signature = inspect.signature(query)
    except (TypeError, ValueError):  # some builtins have none
        return
    try:
        signature.bind("learner", "X_pool", n_instances=1)
    except TypeError as error:
        raise TypeError(
            f"`queries`[{name!r}] must take (learner, X_pool, n_instances=...), as modAL's strategies do: {error}. "
            f"Its signature is {signature}."
        ) from error


def uncopyable_query_error(name: str, error: Exception) -> TypeError:
    return TypeError(
        f"`queries`[{name!r}] cannot be copied, and each run has a copy of its own: {type(error).__name__}: {error}"
    )


def check_labels_of(n_rows: int, y: Any, suffix: str = "") -> NDArray[Any]:
    """Labels as an array: one for each row, and none missing."""
    gaps = y.isna().to_numpy() if hasattr(y, "isna") else None
    y = np.asarray(y)
    if y.ndim == 2 and y.shape[1] == 1:
        y = y.ravel()
    if y.ndim != 1 or len(y) != n_rows:
        raise ValueError(
            f"`y{suffix}` must have shape ({n_rows},), one label for each row of `X{suffix}`. Got {y.shape} instead."
        )
    missing = _missing(y) if gaps is None else np.ravel(gaps)
    if missing.any():
        row = int(np.flatnonzero(missing)[0])
        raise ValueError(
            f"`y{suffix}` must have a finite label for every row. Got {y[row]!r} in row {row}, and "
            f"{int(missing.sum())} such rows in all. Leave those rows out."
        )
    return y


def _missing(y: NDArray[Any]) -> NDArray[np.bool_]:
    if y.dtype.kind == "f":
        return ~np.isfinite(y)
    if y.dtype.kind != "O":
        return np.zeros(len(y), dtype=bool)
    return np.array([value is None or bool(value != value) for value in y.tolist()], dtype=bool)


def is_a_classifier(estimator: Any) -> bool:
    return _task(estimator) == "classifier"


def check_test_set(X_test: Any, y_test: Any, test_size: Any, splits: Any) -> None:
    if (X_test is None) != (y_test is None):
        raise ValueError("`X_test` and `y_test` must be given together. Got one of them.")
    given = [n for n, v in (("X_test", X_test), ("test_size", test_size), ("splits", splits)) if v is not None]
    if len(given) > 1:
        raise ValueError(f"Only one of `X_test`, `test_size` and `splits` may say what is tested on. Got {given}.")


def check_test_size(test_size: Any, n_points: int) -> int:
    """Number of test rows, from a part or a number."""
    if not _is_number(test_size):
        raise TypeError(f"`test_size` must be a number. Got {test_size!r} instead.")
    n_test = int(test_size) if _is_integer(test_size) else int(np.ceil(test_size * n_points))
    if not 1 <= n_test < n_points or (not _is_integer(test_size) and not 0 < test_size < 1):
        raise ValueError(
            f"`test_size` must be a part between 0 and 1 or a number of rows below {n_points}. "
            f"Got {test_size!r} instead."
        )
    return n_test


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


def as_list(name: str, values: Any) -> list[Any] | None:
    """Entries by trial, from any iterable."""
    try:
        return None if values is None else list(values)
    except TypeError as error:
        raise TypeError(f"`{name}` must be a sequence, one entry a trial. Got {values!r} instead.") from error


def check_by_trial(name: str, values: list[Any], n_trials: int) -> list[Any]:
    if len(values) != n_trials:
        raise ValueError(f"`{name}` must have one entry for each of the n_trials={n_trials}. Got {len(values)}.")
    return values


def check_start(start: NDArray[Any], train: NDArray[Any], trial: int) -> None:
    outside = np.setdiff1d(start, train)
    if len(outside):
        raise ValueError(
            f"`initial` must hold training rows of its trial only. Got {len(outside)} that are none in trial {trial}, "
            f"row {outside[0]} first."
        )


def check_split(train: NDArray[Any], test: NDArray[Any], trial: int) -> None:
    common = np.intersect1d(train, test)
    if len(common):
        raise ValueError(
            f"`splits` must have no row on both sides. Got {len(common)} of them in trial {trial}, row "
            f"{common[0]} first."
        )


def check_one_of(first: str, first_value: Any, second: str, second_value: Any) -> None:
    if (first_value is None) == (second_value is None):
        got = "neither" if first_value is None else "both"
        raise ValueError(f"Either `{first}` or `{second}` must be given. Got {got}.")


def check_n_initial(n_initial: int, n_train: int, classes: NDArray[Any] | None) -> None:
    """Check that the first labels fit the training rows and, for stratified ones, the classes."""
    if n_initial > n_train:
        raise ValueError(f"`n_initial` must be at most the {n_train} rows that are not tested on. Got {n_initial}.")
    if classes is not None and n_initial < len(classes):
        raise ValueError(
            f"`n_initial` must be at least the number of classes, {len(classes)}, to start with a row of each. Got "
            f"{n_initial}. With stratify=False, or positions as `initial`, classes may be missing, if the estimator "
            "can do without."
        )


def check_counts(**counts: Any) -> None:
    """Check integers that are 1 or more, where None is no answer."""
    for name, value in counts.items():
        if value is None:
            raise TypeError(f"`{name}` must be a positive integer. Got None.")
    check_positive_integers(**counts)


def check_batch_size(batch_size: int, n_pool: int) -> None:
    if batch_size > n_pool > 0:
        raise ValueError(
            f"`batch_size` must be at most the rows of the pool, {n_pool} after the test rows and the first labels are "
            f"taken. Got {batch_size}."
        )


def check_scoring_list(scoring: Any, names: list[str | None]) -> dict[str, Any]:
    if None in names or len(set(names)) < len(names):
        raise ValueError(
            f"`scoring` as a list must hold names, or functions with names, all different. Got {scoring!r}. "
            "A dict from names to scorers can hold any."
        )
    return dict(zip(names, scoring, strict=True))  # type: ignore[arg-type]


_COLUMNS = ("trial", "query", "round", "n_labelled", "indices", "query_seconds", "fit_seconds")


def check_score_names(scoring: Mapping[Any, Any]) -> None:
    wrong = [name for name in scoring if not isinstance(name, str) or name in _COLUMNS]
    if wrong or not scoring:
        raise ValueError(
            f"`scoring` must have one name or more, and none of {', '.join(_COLUMNS)}. Got {list(scoring)!r} instead."
        )


@contextmanager
def bad_scoring_explained() -> Iterator[None]:
    try:
        yield
    except (ValueError, TypeError) as error:
        raise ValueError(
            "`scoring` must be a name in sklearn.metrics.get_scorer_names(), a callable scorer(estimator, X, y), or a "
            f"list or dict of these. {error}"
        ) from error


def check_score_value(name: str, value: Any) -> float:
    if np.ndim(value) != 0 or not isinstance(value, numbers.Real | np.bool_):
        raise ValueError(f"`scoring`: {name!r} must return a number. Got {value!r} instead.")
    return float(value)


class BatchError(ValueError):
    """A query returned what is no batch."""


def check_query_answer(answer: Any, k: int, n_pool: int, name: str) -> NDArray[np.int64]:
    """What a query of an experiment returned: bare positions, or a pair with positions first."""
    if isinstance(answer, tuple) and len(answer) == 2 and np.ndim(answer[0]) > 0:
        answer = answer[0]
    indices = np.atleast_1d(np.asarray(answer))
    n_distinct = len(np.unique(indices))
    got = None
    if indices.ndim != 1 or indices.dtype.kind not in "iu":
        got = f"an array of shape {indices.shape} and dtype {indices.dtype}"
    elif len(indices) != k:
        got = f"{len(indices)} positions"
    elif n_distinct < k:
        got = f"duplicates, only {n_distinct} distinct positions: {indices[:10]}"
    elif indices.min() < 0 or indices.max() >= n_pool:
        got = f"positions from {indices.min()} to {indices.max()}"
    if got:
        raise BatchError(
            f"`queries`[{name!r}] must return {k} distinct positions in the pool, from 0 to {n_pool - 1}. Got {got}."
        )
    return indices.astype(np.int64)


def warn_failed_runs(failures: Sequence[Any], n_runs: int) -> None:
    if failures:
        first = failures[0]
        _warn(
            f"{len(failures)} of {n_runs} runs failed and are left out of summaries; `failures` of the result has "
            f"their errors. The first, query {first.query!r} in trial {first.trial}, round {first.round}: "
            f"{first.type}: {first.message}"
        )


def all_failed_error(failures: Sequence[Any]) -> RuntimeError:
    return RuntimeError(f"Every run failed. The first, query {failures[0].query!r}:\n{failures[0].traceback}")


def check_checkpoint_path(path: Any) -> Path:
    path = Path(path).absolute()
    if not path.parent.is_dir():
        raise ValueError(f"`checkpoint` must be a file in a folder that exists. Got {str(path)!r}.")
    if path.is_dir():
        raise ValueError(f"`checkpoint` must be a file. Got the folder {str(path)!r}.")
    return path


def not_a_checkpoint_error(path: Path) -> ValueError:
    return ValueError(f"`checkpoint`={str(path)!r} is a file of another kind. Give a new path; nothing was changed.")


def damaged_checkpoint_error(path: Path, line: int) -> ValueError:
    return ValueError(
        f"`checkpoint`={str(path)!r} is damaged: the checksum of line {line} is wrong. Rounds after it cannot be "
        "relied on: cut the file off before that line to go on from there, or give a new path."
    )


def check_same_settings(path: Path, difference: tuple[str, Any, Any] | None) -> None:
    if difference:
        what, before, now = difference
        raise ValueError(
            f"`checkpoint`={str(path)!r} is of another experiment: its `{what}` was {before!r}, and is {now!r} now. "
            "Give a new path, or what it was."
        )


def warn_other_versions(path: Path, before: Mapping[str, str], now: Mapping[str, str]) -> None:
    changed = [f"{name} {before.get(name)} (now {now[name]})" for name in now if now[name] != before.get(name)]
    if changed:
        _warn(
            f"`checkpoint`={str(path)!r} was begun with {', '.join(changed)}: numbers may differ in the last "
            "digits or more."
        )


def check_reference(reference: str | None, queries: Sequence[str]) -> str:
    if reference is None:
        return "uniform" if "uniform" in queries else queries[0]
    if reference not in queries:
        raise ValueError(f"`reference` must be one of {list(queries)}. Got {reference!r} instead.")
    return reference


def import_pandas() -> Any:
    try:
        import pandas
    except ImportError as error:
        raise ImportError("`to_frame` needs pandas: python -m pip install pandas") from error
    return pandas


# Diagnostics and plots


def check_batches(batches: Any, n_points: int) -> list[NDArray[np.int64]]:
    """Positions of the first labels and of each batch, which may be empty."""
    batches = [np.asarray(batch) if len(batch) else np.empty(0, dtype=np.int64) for batch in batches]
    if not batches or not len(batches[0]):
        raise ValueError("`batches` must start with the positions of the first labels. Got none.")
    check_positions("batches", np.concatenate(batches), n_points)
    return [batch.astype(np.int64) for batch in batches]


def check_any_left(unlabelled: NDArray[np.bool_], step: int) -> NDArray[np.bool_]:
    if not unlabelled.any():
        raise ValueError(
            f"`rows` must hold a row that is not labelled. Got {len(unlabelled)} rows, all of them labelled at step "
            f"{step}: give rows to test on, or fewer batches."
        )
    return unlabelled


def check_history(scores: Any) -> NDArray[np.float64]:
    scores = np.asarray(scores, dtype=np.float64)
    if scores.ndim != 2 or not len(scores):
        raise ValueError(
            "`scores` must have shape (n_steps, n_points): a row of scores for each step, one or more. "
            f"Got shape {scores.shape} instead."
        )
    n_infinite = int(np.isinf(scores).sum())
    if n_infinite:
        raise ValueError(f"`scores` must be finite, or NaN where a row has none. Got {n_infinite} infinite ones.")
    return scores


def check_step(name: str, step: Any, n_steps: int) -> int:
    if not _is_integer(step):
        raise TypeError(f"`{name}` must be the number of a step, 0 to {n_steps - 1}. Got {step!r} instead.")
    if not 0 <= step < n_steps:
        raise ValueError(f"`{name}` must be the number of a step, 0 to {n_steps - 1}. Got {step} instead.")
    return int(step)


def check_part(top: Any, bottom: Any) -> tuple[float, int]:
    """The part of the rows that is asked for, and 1 if it is the top, -1 if it is the bottom."""
    if top is not None and bottom is not None:
        raise ValueError(f"`top` or `bottom` may be given, not both. Got top={top!r} and bottom={bottom!r}.")
    name, part, sign = ("top", top, 1) if bottom is None else ("bottom", bottom, -1)
    part = 1.0 if part is None else part
    if not _is_number(part):
        raise TypeError(f"`{name}` must be a part of the rows, above 0 and at most 1. Got {part!r} instead.")
    if not 0 < part <= 1:
        raise ValueError(
            f"`{name}` must be a part of the rows, above 0 and at most 1 (0.01 is one per cent). Got {part!r} instead."
        )
    return float(part), sign


def check_decimals(decimals: Any) -> None:
    if decimals is not None and not _is_integer(decimals):
        raise TypeError(f"`decimals` must be an integer, or None for scores as they are. Got {decimals!r} instead.")


def check_pool_shrank(n_points: int, n_expected: int) -> None:
    if n_points != n_expected:
        raise ValueError(
            f"`X_pool` must be the last pool less the rows bought, {n_expected} rows in the same order. Got {n_points} "
            "rows. For another pool, clone the query."
        )


def check_result(result: Any) -> Any:
    if not (hasattr(result, "rounds") and hasattr(result, "score_names")):
        raise TypeError(
            f"`result` must be an ExperimentResult, as run_experiment returns. Got a {type(result).__name__} instead."
        )
    return result


def check_scoring_of(scoring: Any, names: Sequence[str]) -> str:
    """The name of a score of a result, by default its first."""
    if not names:
        raise ValueError("`result` must hold rounds. Got none.")
    if scoring is not None and scoring not in names:
        raise ValueError(f"`scoring` must be one of the scores of the result, {list(names)}. Got {scoring!r} instead.")
    return names[0] if scoring is None else scoring


def check_query_names(queries: Any, names: Sequence[str]) -> list[str]:
    """Names of queries of a result, by default all."""
    if queries is None:
        return list(names)
    chosen = [queries] if isinstance(queries, str) else list(queries)
    unknown = [query for query in chosen if query not in names]
    if unknown or not chosen:
        raise ValueError(f"`queries` must be of those of the result, {list(names)}. Got {queries!r} instead.")
    return chosen


def check_complete(runs: Mapping[str, Any], queries: Sequence[str]) -> None:
    missing = [query for query in queries if not runs.get(query)]
    if missing:
        raise ValueError(
            f"`result` must hold a run of each query that came to its end. Got none of {missing[0]!r}: see its "
            "`failures`, and leave the query out by `queries`."
        )


def check_round(round_: Any, query: str, trial: int, n_rounds: int) -> None:
    if not n_rounds:
        raise ValueError(f"`trial` must be one of those of the result. Got {trial!r}, which {query!r} has no round of.")
    if not _is_integer(round_) or not 1 <= round_ < n_rounds:
        raise ValueError(
            f"`round` must be the number of a batch that {query!r} bought in trial {trial}, 1 to {n_rounds - 1}. "
            f"Got {round_!r} instead."
        )


def check_any_common(n_labelled: Sequence[int]) -> None:
    if not n_labelled:
        raise ValueError("`result` must hold trials with numbers of labels in common. Got none.")


def check_any(name: str, what: str, values: Any) -> None:
    if not len(values):
        raise ValueError(f"`{name}` must hold at least one {what}. Got none.")


def check_lengths(**lengths: int) -> None:
    """Check that two things have one entry for each of the same."""
    (name, n), (other, n_other) = lengths.items()
    if n != n_other:
        raise ValueError(f"`{name}` must have as many entries as `{other}`, {n_other}. Got {n}.")


def check_coordinates(coordinates: Any) -> NDArray[np.float64]:
    coordinates = np.asarray(coordinates, dtype=np.float64)
    if coordinates.ndim != 2 or coordinates.shape[1] != 2:
        raise ValueError(f"`coordinates` must have shape (n_points, 2). Got shape {coordinates.shape} instead.")
    return coordinates


def check_by_point(name: str, values: Any, n_points: int) -> NDArray[np.float64]:
    values = np.asarray(values, dtype=np.float64)
    if values.shape != (n_points,):
        raise ValueError(f"`{name}` must have shape ({n_points},), one for each row. Got shape {values.shape} instead.")
    return values


@contextmanager
def projection_explained() -> Iterator[None]:
    try:
        yield
    except (TypeError, ValueError) as error:
        raise ValueError(
            "`X` must be numbers without gaps to be projected to two dimensions. Give `coordinates` of shape "
            f"(n_points, 2) instead: two columns, say, or an embedding. ({error})"
        ) from error


def no_law_error(sampler: Any) -> TypeError:
    return TypeError(
        "`samplers` must have a law, `log_weights(scores, beta)`, as those of skactive.samplers have. "
        f"Got {sampler!r} without one."
    )


def check_axes(ax: Any, n: int) -> NDArray[Any]:
    axes = np.ravel(np.asarray(ax, dtype=object))
    if len(axes) != n:
        raise ValueError(f"`ax` must be {n} axes, one for each panel. Got {len(axes)}. None makes a new figure.")
    return axes


# BatchBALD


def check_max_outcomes(max_outcomes: Any, n_classes: int) -> int:
    """Check that the outcomes of one label, at least, can be told apart."""
    if not _is_integer(max_outcomes):
        raise TypeError(f"`max_outcomes` must be an integer, n_classes={n_classes} or more. Got {max_outcomes!r}.")
    if max_outcomes < n_classes:
        raise ValueError(
            f"`max_outcomes` must be n_classes={n_classes} or more, to hold the outcomes of one label. Got "
            f"{max_outcomes}. A thousand and more tell apart what rows add to a batch."
        )
    return int(max_outcomes)


def warn_information_gone(n_found: int, k: int, information: float, ceiling: float) -> None:
    _warn(
        f"BatchBALD found {n_found} rows that tell {information:.4g} nats, of the log(n_draws) = {ceiling:.4g} that so "
        f"many draws can tell, and {k} were asked for. What another row would add can't be told from 0, so the other "
        f"{k - n_found} are drawn by power sampling of the BALD scores. More draws (`n_draws`) tell more.",
    )


# BADGE and ACS-FW


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
    if not hasattr(estimator, "predict_proba") or _task(estimator) == "regressor":
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
    _warn(
        f"ACS-FW found {n_found} rows that say all that the draws tell of the pool, and {k} were asked for: the other "
        f"{k - n_found} are those of largest norm among the rest, and have weight 0. More draws (`n_draws`) tell more "
        "rows apart."
    )


# Data


def import_optional(module: str, needed_by: str, package: str) -> Any:
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise ImportError(f"`{needed_by}` needs {package}: python -m pip install {package}") from error


def check_key(name: str, value: Any, known: Iterable[str]) -> None:
    """Check that a value is one of some names."""
    known = sorted(known)
    if value not in known:
        raise ValueError(f"`{name}` must be one of {', '.join(map(repr, known))}. Got {value!r} instead.")


def check_probability(name: str, value: Any) -> float:
    if not _is_number(value):
        raise TypeError(f"`{name}` must be a number from 0 to 1. Got {value!r} instead.")
    if not 0 <= value <= 1:
        raise ValueError(f"`{name}` must be a probability, from 0 to 1. Got {value!r} instead.")
    return float(value)


def check_characters(characters: Any) -> list[str]:
    """Check that characters are two or more, all different."""
    if isinstance(characters, bytes) or not all(isinstance(character, str) for character in characters):
        raise TypeError(f"`characters` must be a string or a list of strings. Got {characters!r} instead.")
    if len(characters) < 2 or len(set(characters)) < len(characters) or "" in list(characters):
        raise ValueError(f"`characters` must be two or more, all different. Got {characters!r} instead.")
    return list(characters)


def no_fonts_error(folder: Path) -> ValueError:
    got = "a folder without any" if folder.is_dir() else "no folder"
    return ValueError(
        f"`fonts` must be a folder that holds .ttf or .otf files, a list of such files, or None. Got {str(folder)!r}, "
        f"which is {got}."
    )


def no_complete_font_error(fonts: Sequence[Path], characters: Sequence[str]) -> ValueError:
    return ValueError(
        f"`fonts` must hold a font with every one of the `characters` {''.join(characters)!r}. None of the "
        f"{len(fonts)} has them all, each with a shape of its own."
    )


@contextmanager
def unreadable_explained(name: str, path: Any, rule: str, remedy: str = "") -> Iterator[None]:
    """Say which file was at fault and what it must be, whatever its reader raised."""
    try:
        yield
    except FileNotFoundError:  # says so, and names the file
        raise
    except Exception as error:
        problem = f"Reading it failed: {type(error).__name__}: {error}."
        raise ValueError(f"`{name}`: {str(path)!r} must be {rule}. {problem} {remedy}".rstrip()) from error


def check_folder(path: Any) -> Path:
    folder = Path(path).expanduser()
    if not folder.is_dir():
        raise FileNotFoundError(f"`path` must be a folder. Got {str(folder)!r}.")
    return folder


def no_file_error(folder: Path, places: Sequence[str], names: Sequence[str], remedy: str) -> FileNotFoundError:
    return FileNotFoundError(
        f"`path` must hold {' or '.join(names)}, itself or in {' or '.join(places)}. Got {str(folder)!r} without. "
        + remedy
    )


def _content_error(path: Any, rule: str, got: str, remedy: str) -> ValueError:
    return ValueError(f"`path`: {str(path)!r} must hold {rule}. Got {got}. {remedy}")


def check_idx_header(path: Path, header: bytes, n_axes: int, remedy: str) -> tuple[int, ...]:
    """The lengths of the axes that the header of an IDX file announces."""
    magic = bytes((0, 0, 8, n_axes))
    if header[:4] != magic or len(header) < 4 + 4 * n_axes:
        rule = f"unsigned bytes along {n_axes} axes in IDX format: the magic number {int.from_bytes(magic)} and lengths"
        raise _content_error(path, rule, f"the magic number {int.from_bytes(header[:4])}", remedy)
    return tuple(int.from_bytes(header[4 * i : 4 * i + 4]) for i in range(1, n_axes + 1))


def check_idx_length(path: Path, n_bytes: int, shape: tuple[int, ...], remedy: str) -> None:
    if n_bytes != math.prod(shape):
        rule = f"as many values as its header announces, {' x '.join(map(str, shape))}"
        raise _content_error(path, rule, f"{n_bytes}", f"Was it cut off? {remedy}")


def forbidden_in_pickle_error(module: str, name: str) -> pickle.UnpicklingError:
    return pickle.UnpicklingError(f"it asks for {module}.{name}, and arrays are all that is read from pickles")


def check_cifar_batch(path: Path, content: Any, remedy: str) -> tuple[NDArray[np.uint8], NDArray[Any]]:
    fields = content if isinstance(content, dict) else {}
    images, labels = np.asarray(fields.get(b"data")), np.asarray(fields.get(b"labels"))
    if images.dtype != np.uint8 or images.shape != (labels.size, 3072) or labels.dtype.kind != "i":
        got = f"data of {images.shape} and labels of {labels.shape}" if fields else f"a {type(content).__name__}"
        raise _content_error(path, "unsigned bytes `data` (n, 3072) and n whole numbers `labels`", got, remedy)
    return images, labels


def check_svhn(path: Path, content: Mapping[str, Any], remedy: str) -> tuple[NDArray[np.uint8], NDArray[Any]]:
    images, labels = (np.asarray(content.get(name, ())) for name in ("X", "y"))
    if images.dtype != np.uint8 or images.shape != (32, 32, 3, labels.size) or not np.isin(labels, range(1, 11)).all():
        got = f"X of {images.shape}, {images.dtype}, and y of {labels.shape}"
        raise _content_error(path, "unsigned bytes X (32, 32, 3, n) and n labels y from 1 to 10", got, remedy)
    return images, labels


def check_images(images: NDArray[Any], labels: NDArray[Any], image_set: Any, split: str, remedy: str) -> None:
    """Check one split of a public set of images against what it is known to hold."""
    n_images, shape, last = image_set.counts[split], image_set.shape, image_set.n_classes - 1
    found = ""
    if images.shape[1:] != shape:
        found = f"images of shape {images.shape[1:]}"
    elif len(images) != len(labels):
        found = f"{len(images)} images and {len(labels)} labels"
    elif not 0 <= labels.min(initial=0) <= labels.max(initial=0) <= last:
        found = f"labels from {labels.min()} to {labels.max()}"
    elif len(images) != n_images:
        found = f"{len(images)} images"
    if found:
        raise ValueError(
            f"`path` must hold the {split} split of the set, {n_images} images of shape {shape} with labels from 0 to "
            f"{last}. Got {found}. {remedy}"
        )


def check_image_folder(folder: Path, labels: Sequence[str], counts: Mapping[str, int] | None) -> None:
    """Check that a folder of folders holds images, and as many of each class as it should."""
    found = Counter(labels)
    if not found:
        raise ValueError(f"`path` must hold a folder for each class, with images. Got {str(folder)!r} without.")
    for label in sorted({*(counts or found), *found}):
        if counts is not None and found[label] != counts.get(label, 0):
            raise ValueError(
                f"`path` must hold a folder for each class of `counts` and no others, with as many images. "
                f"Got {found[label]} images in {str(folder / label)!r} instead of {counts.get(label, 0)}."
            )


def check_clinc150(path: Path, content: Any, split: str, remedy: str) -> list[tuple[str, str]]:
    """Check the pairs of one split: a sentence and one of 150 intents, or `oos` alone."""
    pairs = content.get(split) if isinstance(content, dict) else None
    if not pairs:
        known = f"the splits {', '.join(content)}" if isinstance(content, dict) else f"a {type(content).__name__}"
        raise _content_error(path, f"the split {split!r}", known, remedy)
    for row, pair in enumerate(pairs):
        if len(pair) != 2 or not all(isinstance(part, str) for part in pair):
            raise _content_error(path, "pairs of a sentence and an intent", f"{pair!r} in row {row} of {split}", remedy)
    intents = {intent for _, intent in pairs}
    n_expected = 1 if split.startswith("oos") else 150
    if len(intents) != n_expected:
        raise _content_error(path, f"{n_expected} intents in {split}", f"{len(intents)}", remedy)
    return pairs
