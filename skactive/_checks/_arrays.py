"""What arrays of numbers must be: draws, scores, probabilities, positions."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ._numbers import as_array, float64_array, plain_array, real_array
from ._rules import shown


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


class ScoreError(ValueError):
    """A score that its sampler cannot take."""

    def __init__(self, name: str, rule: str, value: float, row: int, n_bad: int) -> None:
        super().__init__(f"`{name}` must {rule}. Got {value} in row {row}, and {n_bad} such rows in all.")
        self._parts = (name, rule, value, row, n_bad)

    def of_rows(self, rows: NDArray[np.int64] | None) -> ScoreError:
        """The same, where row i of the scores is row ``rows[i]`` of the pool."""
        name, rule, value, row, n_bad = self._parts
        return self if rows is None else ScoreError(name, rule, value, int(rows[row]), n_bad)


class PointError(ValueError):
    """A row of points that are not finite."""

    def __init__(self, rule: str, row: int, remedy: str) -> None:
        super().__init__(f"{rule}. Got infinity or NaN in row {row}. {remedy}")
        self._parts = (rule, row, remedy)

    def of_rows(self, rows: NDArray[np.int64] | None) -> PointError:
        """The same, where row i of the points is row ``rows[i]`` of the pool."""
        rule, row, remedy = self._parts
        return self if rows is None else PointError(rule, int(rows[row]), remedy)


def _score_error(name: str, scores: NDArray[np.float64], bad: NDArray[np.bool_], rule: str) -> ScoreError:
    row = int(np.flatnonzero(bad)[0])
    return ScoreError(name, rule, float(scores[row]), row, int(bad.sum()))


def check_draws_shape(draws: Any, score: str, tasks: tuple[str, ...]) -> Any:
    """Draws as an array or tensor of the number of axes that a score can take."""
    draws = real_array("draws", draws, objects=False)
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
            f"Got {f'shape {shape}' if hasattr(draws, 'shape') else f'a {type(draws).__name__}'} instead."
        )


def check_number_of_draws(draws: Any, n_draws: int | None, estimator: Any) -> None:
    """Check that a source gave as many draws as a query was told to use."""
    if n_draws is not None and draws.shape[0] != n_draws:
        raise ValueError(
            f"`n_draws`={n_draws} must be how many functions `sample_posterior` draws. That of this "
            f"{type(estimator).__name__} drew {draws.shape[0]}. Have it draw as many as it is asked for, or leave "
            "`n_draws` at None, which takes what it gives."
        )


def check_shape_of_draws(draws: Any, shape: tuple[int, ...]) -> None:
    """Check that draws of a chunk have the draws and classes of the first row."""
    if tuple(getattr(draws, "shape", ())) != shape:
        raise ValueError(
            "`predict_draws` must return as many draws, and classes, for all rows. Got shape "
            f"{tuple(getattr(draws, 'shape', ()))} for a chunk, and by the first row it should be {shape}."
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


def weights_error(name: str, got: str) -> ValueError:
    return ValueError(f"`{name}` must be finite, never negative, and not all of the weights may be zero. Got {got}.")


def check_sample_weight(weight: Any, n_rows: int, name: str = "sample_weight") -> NDArray[np.float64] | None:
    """Weights of rows as float64; None if there are none, or all are 1, which is the same."""
    if weight is None:
        return None
    weight = float64_array(name, weight)
    if weight.shape != (n_rows,):
        raise ValueError(
            f"`{name}` must have shape ({n_rows},), one weight for each training row. Got shape {weight.shape} instead."
        )
    bad = np.flatnonzero(~(np.isfinite(weight) & (weight >= 0)))
    if len(bad):
        raise weights_error(name, f"{weight[bad[0]]} in row {bad[0]}, and {len(bad)} such rows in all")
    if not weight.any():
        raise weights_error(name, f"0 in all of {n_rows} rows")
    return None if (weight == 1).all() else weight


def check_positions(name: str, rows: Any, n_points: int, *, at_least: int = 1) -> NDArray[np.int64]:
    """Distinct positions of rows, in the order given."""
    if hasattr(rows, "get_indexer"):  # a pandas Index
        raise TypeError(f"`{name}` must be positions of rows, and a pandas Index holds ids.")
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
