"""What arrays must be: numbers, scores, draws, probabilities, positions.

numpy makes numbers of much that is none: the hidden entries of a masked array, text, dates, the real parts of complex
numbers, None. What a user's functions return, scores, losses and weights all pass `real_array`.
"""

from __future__ import annotations

import decimal
import numbers
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from .rules import one_of, shown

REAL = "be an array of real numbers"


def float64_array(name: str, values: Any, *, rule: str = REAL, booleans: bool = True) -> NDArray[np.float64]:
    """`real_array` as float64 on the host; no copy of what is that already."""
    array = real_array(name, values, rule=rule, booleans=booleans)
    if hasattr(array, "detach"):
        array = array.cpu().double().numpy()
    return np.asarray(array, dtype=np.float64)


def real_array(name: str, values: Any, *, rule: str = REAL, booleans: bool = True, objects: bool = True) -> Any:
    """Real numbers as the array or tensor that holds them, or as an array made of what does.

    True and False count as 1 and 0 where ``booleans`` may be meant; arrays of ``objects`` are taken if they are small.
    """
    array = plain_array(name, values, rule=rule, objects=objects)
    if not is_real(array) or (not booleans and str(array.dtype).removeprefix("torch.") == "bool"):
        got = shown(values) if array.ndim == 0 and array.dtype == object else f"dtype {array.dtype}"
        raise TypeError(
            f"`{name}` must {rule}. Got {got} instead. Leave out missing values, and convert the rest with "
            ".astype(float)."
        )
    return array


def numbers_in_place(name: str, values: Any) -> Any:
    """What rows of numbers can be taken from by position: the array, tensor, sparse or dask array itself, or a copy."""
    is_array = hasattr(values, "dtype") and not hasattr(values, "iloc") and not np.ma.isMaskedArray(values)
    return values if is_array and is_real(values) else float64_array(name, values)


def plain_array(name: str, values: Any, *, rule: str = "be an array", objects: bool = True) -> Any:
    """An array or a tensor without gradients, of anything; ``objects`` that are all numbers become float64."""
    if hasattr(values, "detach"):
        return values.detach()
    if _has_mask(values):
        raise TypeError(
            f"`{name}` must {rule}, without a mask. Got a masked array, whose hidden entries would count. Leave them "
            "out with .compressed(), or replace them with .filled(value)."
        )
    try:
        array = np.asarray(values)
        return array.astype(np.float64) if objects and array.dtype == object and _all_numbers(array) else array
    except (OverflowError, RuntimeError, TypeError, ValueError) as error:
        raise ValueError(
            f"`{name}` must {rule}, all rows of one length. Got a {type(values).__name__} that is not: {error}"
        ) from error


def is_real(array: Any) -> bool:
    if hasattr(array.dtype, "is_complex"):  # torch's
        return not array.dtype.is_complex
    return array.dtype.kind in "fiub"


def as_array(draws: Any) -> NDArray[Any]:
    """An array of a tensor on any device, or of what else can be one; bfloat16, which numpy lacks, as float32."""
    if not hasattr(draws, "detach"):
        return np.asarray(draws)
    draws = draws.detach().cpu()
    return (draws.float() if str(draws.dtype) == "torch.bfloat16" else draws).numpy()


def _has_mask(values: Any) -> bool:
    """Whether it is a masked array, or a list that holds one or an entry of one."""
    if not isinstance(values, list | tuple):
        return np.ma.isMaskedArray(values)
    return any(_has_mask(value) for value in values if isinstance(value, list | tuple | np.ma.MaskedArray))


def _all_numbers(array: NDArray[Any]) -> bool:
    kinds = {type(value) for value in array.ravel().tolist()}
    return np.timedelta64 not in kinds and all(
        issubclass(kind, numbers.Real | decimal.Decimal | np.bool_) for kind in kinds
    )


def check_scores(
    scores: Any, name: str = "scores", *, minus_inf: bool = False, non_negative: bool = False
) -> NDArray[np.float64]:
    """One float64 a row, from an array-like or a tensor on any device; no copy of what is float64 already."""
    scores = float64_array(name, scores)
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


def _score_error(name: str, scores: NDArray[np.float64], bad: NDArray[np.bool_], rule: str) -> ScoreError:
    row = int(np.flatnonzero(bad)[0])
    got = f"Got {float(scores[row])} in "
    return ScoreError(f"`{name}` must {rule}. {got}", row, f", and {bad.sum()} such rows in all.")


class PlacedError(ValueError):
    """What is wrong with a row, or a point, whose place among all may be named by who knows it."""

    def __init__(self, before: str, number: int, after: str, unit: str = "row") -> None:
        self.number, self._parts = number, (before, after)
        self.at(f"{unit} {number}")

    def at(self, place: str) -> Self:
        """The same, with another name of the place."""
        self.args = (place.join(self._parts),)
        return self

    def of_rows(self, rows: NDArray[np.int64] | None) -> Self:
        """The same, where row i of what was checked is row ``rows[i]`` of the pool."""
        self.number = self.number if rows is None else int(rows[self.number])
        return self.at(f"row {self.number}")

    def __reduce__(self) -> Any:
        return ValueError, self.args


class ScoreError(PlacedError):
    """A score that its sampler cannot take."""


class PointError(PlacedError):
    """A row of points that are not finite."""


class DrawsError(PlacedError):
    """Draws of a point that no score can take."""


AXES = {"classes": 3, "numbers": 2}
"""Axes of draws of each kind, before those of several outputs."""


def kind_of_draws(draws: Any, kind: Any = None) -> str:
    """What draws are of: what is said, else numbers if they have two axes, and classes if more."""
    return one_of(AXES).or_none().check("kind", kind) or ("numbers" if draws.ndim == 2 else "classes")


def has_outputs(draws: Any, kind: str, tasks: tuple[str, ...] = ()) -> bool:
    """Whether there are several outputs a row, on axes of their own."""
    return tasks != ("outcomes",) and len(draws.shape) > AXES[kind]


def check_draws_shape(draws: Any, score: str, tasks: tuple[str, ...], kind: Any = None) -> Any:
    """Draws as an array or tensor of the number of axes that a score can take."""
    draws = real_array("draws", draws, objects=False)
    axes = {
        "classifier": "(n_draws, n_points, n_classes)",
        "regressor": "(n_draws, n_points)",
        "outcomes": "(n_draws, n_points, 2)",
    }
    if tasks == ("outcomes",):
        fits = tuple(draws.shape[2:]) == (2,) and draws.ndim == 3
    else:
        of_kind = kind_of_draws(draws, kind)
        fits = {"classes": "classifier", "numbers": "regressor"}[of_kind] in tasks and draws.ndim >= AXES[of_kind]
    if not fits or not all(draws.shape[:1] + draws.shape[2:]):
        wanted = " or ".join(axes[task] for task in tasks)
        several = "regressor" in tasks and draws.ndim > 2
        remedy = ' Several targets per row, on the last axis, are kind="numbers".' if several else ""
        got = f'Got shape {tuple(draws.shape)} for "{score}", which needs one draw and one class at least.{remedy}'
        raise ValueError(f"`draws` must have shape {wanted}. {got}")
    return draws


def sum_tolerance(draws: Any) -> float:
    """How far from 1 the probabilities of a row may sum in the dtype of the draws."""
    bits = {"torch.bfloat16": 7, "torch.float16": 10, "float16": 10, ">f2": 10}.get(str(draws.dtype))
    return max(1e-4, draws.shape[-1] * 2.0**-bits) if bits else 1e-4


class ProbabilityError(DrawsError):
    """A point over the classes, an array or a tensor, that holds no probabilities."""

    def __init__(self, name: str, row: Any, within: str, point: int, tolerance: float) -> None:
        super().__init__(
            f"`{name}` must hold probabilities: not negative, and summing to 1 over the classes (to within "
            f"{tolerance:.1g}). Got a row that sums to {row.sum().item():.6g}, with numbers from "
            f"{row.min().item():.4g} to {row.max().item():.4g}, in {within}",
            point,
            ". If these are logits, apply softmax; if they are log-probabilities, exp; a single column p of a binary "
            "model becomes (1 - p, p); if they are rounded, give the model its rows as float64.",
            "point",
        )


@contextmanager
def probabilities_of(estimator: Any) -> Iterator[None]:
    """Name the model where it is the model that gives no probabilities."""
    try:
        yield
    except ProbabilityError as error:
        raise ValueError(f"This {type(estimator).__name__} gave no probabilities. {error}") from None


def check_draws_of(draws: Any, n_points: int, n_classes: int | None = None, n_draws: int | None = None) -> None:
    """Check that ``predict_draws`` answered with draws first and points second."""
    shape = tuple(getattr(draws, "shape", ()))
    fits = len(shape) >= 2 and shape[1] == n_points
    fits = fits and (n_draws is None or shape[0] == n_draws)
    fits = fits and (len(shape) == 2 or n_classes is None or shape[2] == n_classes)
    if not fits:
        raise ValueError(
            f"`predict_draws` must return draws of shape (n_draws, n_points, n_classes), or (n_draws, n_points) for a "
            f"regressor: here n_draws={n_draws or 'any'}, n_points={n_points}, n_classes={n_classes or 'any'}. "
            f"Got {f'shape {shape}' if hasattr(draws, 'shape') else f'a {type(draws).__name__}'} instead."
        )


def check_same_functions(draws: Any, again: Any, what: str, kind: str, *, within_spread: bool = False) -> None:
    """Check that two calls gave the same draws, but for rounding.

    Models may compute in fewer digits than their draws have, and round differently for another number of rows.
    ``within_spread``: a difference of a tenth of the spread of the draws is taken for that, as new draws differ by
    more, and NaN equals NaN: the score refuses it.
    """
    if tuple(draws.shape) == tuple(again.shape):
        before, now = float64_array("draws", draws), float64_array("draws", again)
        # Absolute errors go by the largest number, which is 1 for probabilities.
        largest = 1.0 if kind == "classes" else np.abs(before[np.isfinite(before)]).max(initial=0.0)
        # On a GPU float32, too, may be multiplied with the 10 bits of TF32.
        of_single = 2.0**-6 if hasattr(draws, "detach") and draws.is_cuda else 1e-4
        digits = {"torch.float16": 2.0**-6, "float16": 2.0**-6, "torch.bfloat16": 2.0**-3}
        rounding = digits.get(str(draws.dtype), of_single)
        if np.allclose(before, now, rtol=rounding, atol=0.1 * rounding * largest, equal_nan=within_spread):
            return
        if within_spread and np.sqrt(np.mean((now - before) ** 2)) <= 0.1 * np.sqrt(np.mean(np.var(before, axis=0))):
            return
    raise ValueError(
        f"`predict_draws` must return the same values for a row at every call, whichever rows are passed with it: "
        f"{what} gave other values. Draw parameters (or masks, or members) once, in `sample_posterior`, and only "
        "evaluate them after."
    )


def weights_error(name: str, got: str) -> ValueError:
    return ValueError(f"`{name}` must be finite, never negative, and not all of the weights may be zero. Got {got}.")


def check_sample_weight(weight: Any, n_rows: int, name: str = "sample_weight") -> NDArray[np.float64] | None:
    """Weights of rows as float64; None if there are none, or all are 1, which is the same."""
    if weight is None:
        return None
    weight = float64_array(name, weight)
    if weight.shape != (n_rows,):
        raise ValueError(
            f"`{name}` must have shape ({n_rows},), one weight for each row. Got shape {weight.shape} instead."
        )
    if not (np.isfinite(weight) & (weight >= 0)).all() or not weight.any():
        raise weights_error(name, f"numbers from {weight.min()} to {weight.max()}")
    return None if (weight == 1).all() else weight


def check_positions(name: str, rows: Any, n_points: int, *, at_least: int = 1) -> NDArray[np.int64]:
    """Distinct positions of rows, in the order given."""
    if hasattr(rows, "get_indexer"):  # a pandas Index
        raise TypeError(f"`{name}` must be positions of rows, but a pandas Index holds ids.")
    given, rows = rows, as_array(plain_array(name, rows))
    if rows.shape == (0,) and at_least == 0:
        return np.empty(0, dtype=np.int64)
    if rows.ndim != 1 or len(rows) == 0 or rows.dtype.kind not in "iu":
        got = f"an array of shape {rows.shape} and dtype {rows.dtype}" if rows.ndim else shown(given)
        raise ValueError(
            f"`{name}` must be positions of rows, {'one or more' if at_least else 'any number of'} integers. "
            f"Got {got} instead."
        )
    if rows.min() < 0 or rows.max() >= n_points or len(np.unique(rows)) < len(rows):
        raise ValueError(
            f"`{name}` must be distinct positions from 0 to {n_points - 1} (not index labels). Got {len(rows)} "
            f"positions from {rows.min()} to {rows.max()}, {len(np.unique(rows))} of them distinct."
        )
    return rows.astype(np.int64)


def check_joint_draws(shape: Any, method: str) -> None:
    if len(shape) > 3:
        raise ValueError(
            f"`draws` must have shape (n_draws, n_points, n_classes) for {method}. Got {tuple(shape)}: rows of several "
            "outputs (labels, pixels or tokens) are for StochasticBatchQuery, with a `reduce`."
        )
    if len(shape) != 3 or shape[0] < 2:
        raise ValueError(
            f"`n_draws` must be 2 or more for {method}, and `estimator` a classifier: it measures how draws of class "
            f"probabilities, shape (n_draws, n_points, n_classes), differ. Got draws of shape {tuple(shape)}."
        )


def not_binary_error(value: Any) -> ValueError:
    return ValueError(
        f"`treatment` must be 0 or 1 in every row. Got {value!r}. Code other treatments, and text, as numbers 0 and "
        "1, two of them at a time, and leave out rows without one."
    )
