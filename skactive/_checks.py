"""Rules that several rooms share, with their errors and warnings.

A message names the parameter in backticks, the rule, what was got and, where there is one, the remedy. A rule of one
room alone stands in that room.
"""

from __future__ import annotations

import importlib
import math
import numbers
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import is_classifier, is_regressor
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted


def is_integer(value: Any) -> bool:
    return isinstance(value, numbers.Integral) and not isinstance(value, bool | np.bool_)


def is_number(value: Any) -> bool:
    return isinstance(value, numbers.Real) and not isinstance(value, bool | np.bool_)


class ParameterError(ValueError, TypeError):
    """A parameter that breaks its rule. As in scikit-learn, it is a ``ValueError`` and a ``TypeError``."""


@dataclass(frozen=True)
class Rule:
    """What a parameter must be: a test that takes any object, its wording, and what to do otherwise."""

    holds: Callable[[Any], bool]
    text: str
    remedy: str = ""

    def check(self, name: str, value: Any) -> Any:
        """The value, if it keeps the rule."""
        if not self.holds(value):
            remedy = f" {self.remedy}" if self.remedy else ""
            raise ParameterError(f"`{name}` must be {self.text}. Got {shown(value)} instead.{remedy}")
        return value

    def or_none(self) -> Rule:
        return Rule(lambda value: value is None or self.holds(value), f"None or {self.text}", self.remedy)

    def or_word(self, *words: str) -> Rule:
        """The same, where some words may stand in the place of such a value."""
        names = ", ".join(f'"{word}"' for word in words)
        holds = self.holds
        return Rule(lambda v: (isinstance(v, str) and v in words) or holds(v), f"{names} or {self.text}", self.remedy)


Rules = dict[str, Rule]


def check_parameters(rules: Rules, values: Mapping[str, Any]) -> None:
    """Check every value that has a rule, at the start of a public call.

    The rules of a class are its attribute ``rules``, and the values its ``get_params(deep=False)``.
    """
    for name, rule in rules.items():
        if name in values:
            rule.check(name, values[name])


def shown(value: Any) -> str:
    """A value in a message: an array by its shape, all else by a ``repr`` of a line."""
    if len(getattr(value, "shape", ())):
        return f"a {type(value).__name__} of shape {tuple(value.shape)}"
    if isinstance(value, type):
        return f"the class {value.__name__}"
    text = " ".join(repr(value).split())
    return text if len(text) <= 100 else f"{text[:97]}..."


def number(
    low: float = -math.inf, high: float = math.inf, *, ends: str = "[]", text: str = "", remedy: str = ""
) -> Rule:
    """A finite real number between two bounds, which ``ends`` takes in, "[" and "]", or leaves out, "(" and ")"."""

    def holds(value: Any) -> bool:
        above = value >= low if ends[0] == "[" else value > low
        return above and (value <= high if ends[1] == "]" else value < high)

    return Rule(lambda v: is_number(v) and math.isfinite(v) and holds(v), text or _span(low, high, ends), remedy)


def _span(low: float, high: float, ends: str) -> str:
    if high == math.inf:
        floor = f", {low:g} or larger" if ends[0] == "[" else f" larger than {low:g}"
        return "a finite number" + (floor if low > -math.inf else "")
    if ends == "[]":
        return f"a number from {low:g} to {high:g}"
    if ends == "()":
        return f"a number between {low:g} and {high:g}"
    return f"a number from {low:g} up to {high:g}, without " + (f"{low:g}" if ends[0] == "(" else f"{high:g}")


def integer(low: int = 1) -> Rule:
    return Rule(lambda value: is_integer(value) and value >= low, f"an integer, {low} or larger")


def one_of(names: Iterable[str]) -> Rule:
    names = sorted(names)
    return Rule(lambda value: isinstance(value, str) and value in names, f"one of {names}")


def name_or_callable(names: Iterable[str], *, what: str = "a callable") -> Rule:
    rule = one_of(names)
    return Rule(lambda value: callable(value) or rule.holds(value), f"{what} or {rule.text}")


FLAG = Rule(lambda value: isinstance(value, bool | np.bool_), "True or False")


BETA = number(0, text="a finite number, 0 (uniform) or larger", remedy='The limit of a large beta is sampler="topk".')


def check_k(k: Any, n_points: int, name: str = "k", of: str = "scores") -> int:
    """Check that k is an integer from 1 to ``n_points``."""
    if is_integer(k) and 1 <= k <= n_points:
        return int(k)
    if is_integer(k) and n_points == 0:
        raise ValueError(f"Cannot choose `{name}`={k} rows from 0 {of}.")
    raise ParameterError(
        f"`{name}` must be an integer from 1 to the number of {of}, {n_points}. Got {shown(k)} instead."
    )


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


def sum_tolerance(draws: Any) -> float:
    """How far from 1 the probabilities of a row may sum in the dtype of the draws."""
    bits = {"torch.bfloat16": 7, "torch.float16": 10, "float16": 10, ">f2": 10}.get(str(draws.dtype))
    return max(1e-4, draws.shape[-1] * 2.0**-bits) if bits else 1e-4


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


def check_n_instances(n_instances: Any, n_candidates: int, n_points: int) -> int:
    if n_points == 0:
        raise ValueError(f"`X_pool` is empty: there are 0 rows to choose n_instances={n_instances!r} from.")
    of = "rows of the pool" if n_candidates == n_points else f"candidates among the {n_points} rows of the pool"
    return check_k(n_instances, n_candidates, "n_instances", of)


def check_positive_integers(**parameters: Any) -> None:
    for name, value in parameters.items():
        if value is None:
            continue
        if not is_integer(value):
            raise TypeError(f"`{name}` must be a positive integer or None. Got {value!r} instead.")
        if value < 1:
            raise ValueError(f"`{name}` must be 1 or more, or None. Got {value} instead.")


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
    """Posterior draws of an estimator are not known, or do not exist.

    ``why`` is the first sentence, for a warning that goes on.
    """

    def __init__(self, estimator: Any, reason: str = "") -> None:
        self.why = f"{type(estimator).__name__} has no posterior draws" + (f" here ({reason})" if reason else "")
        super().__init__(
            f'{self.why}. Give the query posterior="bootstrap", or posterior=<an estimator to draw from instead>, such '
            "as RandomForestClassifier(); both need the training data, which a modAL learner passes on. Or register "
            "a source of draws with `sample_posterior.register`."
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


def check_same_functions(draws: Any, again: Any, what: str, *, within_spread: bool = False) -> None:
    """Check that two calls gave the same draws, but for rounding.

    Models may compute in fewer digits than their draws have, and round differently for another number of rows.
    ``within_spread``: a difference of a tenth of the spread of the draws is taken for that, as new draws differ by
    more, and NaN equals NaN: the score refuses it.
    """
    if tuple(draws.shape) == tuple(again.shape):
        before, now = _as_float64(draws), _as_float64(again)
        if _equal_but_for_rounding(before, now, _digits(draws), nan=within_spread):
            return
        if within_spread and np.sqrt(np.mean((now - before) ** 2)) <= 0.1 * np.sqrt(np.mean(np.var(before, axis=0))):
            return
    raise ValueError(
        f"`predict_draws` must return the same values for a row at every call, whichever rows are passed with it: "
        f"{what} gave other values. Draw parameters (or masks, or members) once, in `sample_posterior`, and only "
        "evaluate them after."
    )


def _digits(draws: Any) -> float:
    """The relative error that rounding may make in the type that draws were computed in."""
    of_half = {"torch.float16": 2.0**-6, "float16": 2.0**-6, "torch.bfloat16": 2.0**-3}.get(str(draws.dtype))
    if of_half:
        return of_half
    # On a GPU float32, too, may be multiplied with the 10 bits of TF32.
    return 2.0**-6 if hasattr(draws, "detach") and draws.is_cuda else 1e-4


def _equal_but_for_rounding(
    draws: NDArray[np.float64], again: NDArray[np.float64], digits: float, *, nan: bool
) -> bool:
    """Whether two arrays are the same; absolute errors go by the largest number, which is 1 for probabilities."""
    largest = 1.0 if draws.ndim == 3 else np.abs(draws[np.isfinite(draws)]).max(initial=0.0)
    return np.allclose(draws, again, rtol=digits, atol=0.1 * digits * largest, equal_nan=nan)


def _as_float64(draws: Any) -> NDArray[np.float64]:
    """Draws of any kind of float, bfloat16 among them, which numpy does not know."""
    return draws.detach().cpu().double().numpy() if hasattr(draws, "detach") else np.asarray(draws, dtype=np.float64)


def check_enough_draws(n_draws: int, name: Any, score: Any) -> None:
    """Check that a score that looks at how draws differ has two of them."""
    if n_draws < 2 and not getattr(score, "one_draw", True):
        raise ValueError(
            f"`score`={name!r} needs two draws or more, and there is {n_draws}: it would be 0 everywhere. Raise "
            '`n_draws`, use an ensemble of more members, or posterior="bootstrap".'
        )


def check_n_draws(n_draws: Any) -> int:
    if not is_integer(n_draws):
        raise TypeError(f"`n_draws` must be a positive integer or None. Got {n_draws!r} instead.")
    if n_draws < 1:
        raise ValueError(f"`n_draws` must be 1 or more. Got {n_draws} instead.")
    return int(n_draws)


def check_labels(y: Any) -> NDArray[Any]:
    """One label for each row, of a single axis."""
    y = np.asarray(y)
    if y.ndim != 1 and (y.ndim != 2 or y.shape[1] != 1):
        raise ValueError(
            f"`y_training` must have shape (n_labelled,). Got shape {y.shape} instead: models of several outputs are "
            "not supported. Fit one model for each target."
        )
    return y.ravel()


def check_one_output(probabilities: Any, estimator: Any) -> NDArray[Any]:
    if isinstance(probabilities, list):
        raise several_outputs_error(estimator)
    return np.asarray(probabilities)


def several_outputs_error(estimator: Any) -> ValueError:
    return ValueError(
        f"`estimator` must predict one target, and this {type(estimator).__name__} has several outputs. Fit one "
        "estimator for each target, or only one for the target whose labels you ask for."
    )


class NetError(ValueError):
    """A net that draws cannot be had of; worded in full where it is raised."""


class NoDropoutError(NetError):
    """A net with nothing random in training."""


def one_class_error(labels: NDArray[Any]) -> ValueError:
    return ValueError(
        f"`y` must hold two classes or more to train a classifier. Got one class, {labels[0]!r}. Declare labels that "
        "`y` still lacks with `classes`."
    )


def check_classes(y: NDArray[Any], declared: Any) -> NDArray[Any]:
    """All labels, sorted: the declared ones, or those in y if none are declared."""
    if declared is None:
        return np.unique(y)
    classes = np.unique(declared)
    unknown = np.setdiff1d(y, classes)
    if len(unknown):
        raise ValueError(f"`classes` must list every label in `y`. Got {classes}, which lacks {unknown}.")
    return classes


def weights_error(name: str, got: str) -> ValueError:
    return ValueError(f"`{name}` must be finite, never negative, and not all of the weights may be zero. Got {got}.")


class NoTrainingDataError(ValueError):
    """Draws need the data that the estimator was fitted to, and these are not given.

    ``why`` is the first sentence, for a warning that goes on.
    """

    def __init__(self, estimator: Any) -> None:
        self.why = f"{type(estimator).__name__} has no posterior draws without its training data"
        super().__init__(
            f"`X_training` and `y_training` must be given to draw from a {type(estimator).__name__}: its posterior "
            "depends on the data it was fitted to, and it does not keep them. A fitted modAL learner passes them on."
        )


def warn_wide_draws(estimator: Any, remedy: str) -> None:
    warn(
        f"The Laplace approximation around this {type(estimator).__name__} is too wide: its draws hardly predict the "
        "labels of the training data, because the likelihood is flat where probabilities are near 0 or 1. Use "
        f'{remedy} or posterior="bootstrap" in the query.',
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


def check_classifier(estimator: Any, method: str, name: str = "estimator") -> None:
    if task(estimator) == "regressor":
        raise TypeError(
            f"`{name}` must be a classifier for {method}. Got a {type(estimator).__name__}, a regressor. For a "
            'regressor there is StochasticBatchQuery("std_dev").'
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


def not_binary_error(value: Any) -> ValueError:
    return ValueError(
        f"`treatment` must be 0 or 1 in every row. Got {value!r}. Code other treatments as 0 and 1, two of them at a "
        "time, and leave rows without one out."
    )


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


def check_reference(reference: str | None, queries: Sequence[str]) -> str:
    if reference is None:
        return "uniform" if "uniform" in queries else queries[0]
    if reference not in queries:
        raise ValueError(f"`reference` must be one of {list(queries)}. Got {reference!r} instead.")
    return reference


def check_part(top: Any, bottom: Any) -> tuple[float, int]:
    """The fraction of the rows that is asked for, and 1 if it is the top, -1 if it is the bottom."""
    if top is not None and bottom is not None:
        raise ValueError(f"Only one of `top` and `bottom` may be given. Got top={top!r} and bottom={bottom!r}.")
    name, part, sign = ("top", top, 1) if bottom is None else ("bottom", bottom, -1)
    rule = number(0, 1, ends="(]", text="a fraction of the rows, above 0 and at most 1", remedy="0.01 is one per cent.")
    return float(rule.check(name, 1.0 if part is None else part)), sign
