"""What the acquisition function says of the rest of the pool: its best tenth, its mean, and the noise of the draws."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._utils.validation import task
from ..posterior._registry import has_source, innermost
from ..query import model_of, score_pool
from ..scores import SCORES

BEST = 0.1
"""Fraction of the rows whose scores stand for the next batches."""


@dataclass(frozen=True)
class PoolScores:
    """Scores of the pool; the attributes are those of `skactive.StoppingReport`."""

    best_score: float = np.nan
    mean_score: float = np.nan
    floor: float = np.nan
    ceiling: float = np.nan

    @classmethod
    def of(cls, learner: Any, rows: Any, **source: Any) -> PoolScores:
        """Scores by all draws, and by every second one."""
        name = "std_dev" if task(model_of(learner)) == "regressor" else "bald"
        parts = {
            name: _OfDraws(SCORES[name], 0, 1),
            "even": _OfDraws(SCORES[name], 0, 2),
            "odd": _OfDraws(SCORES[name], 1, 2),
        }
        values, even, odd = score_pool(learner, rows, parts, **source).values()
        n_draws, *n_classes = parts[name].axes
        mean, best, floor = float(values.mean()), _best(values, values), np.nan
        if n_draws >= 4:
            n_draws //= 2
            best = np.concatenate([_best(even, odd), _best(odd, even)])
            floor = mean + 2 * best.std() / np.sqrt(len(best))
        return cls(
            best_score=float(best.mean()),
            mean_score=mean,
            floor=float(floor),
            ceiling=float(np.log(min(n_draws, *n_classes))) if n_classes else float("inf"),
        )


class _OfDraws:
    """A score of every ``step``-th draw, which records how many draws and classes there are."""

    one_draw = False

    def __init__(self, score: Callable[[Any], Any], first: int, step: int) -> None:
        self.score, self.first, self.step = score, first, step

    def __call__(self, draws: Any) -> Any:
        self.axes = [length for axis, length in enumerate(draws.shape) if axis != 1]
        return self.score(draws[self.first :: self.step])


def _best(chosen_by: NDArray[np.float64], values: NDArray[np.float64]) -> NDArray[np.float64]:
    n_best = max(1, round(BEST * len(values)))
    return values[np.argsort(-chosen_by, kind="stable")[:n_best]]


def has_draws(estimator: Any, posterior: Any) -> bool:
    """Whether the estimator has posterior draws, or ``posterior`` says where to take them from."""
    is_auto = isinstance(posterior, str) and posterior == "auto"
    return not is_auto or has_source(innermost(estimator))
