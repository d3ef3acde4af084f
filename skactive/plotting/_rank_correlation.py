"""How much of a ranking is left while labels are bought."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .._checks import as_array, check_part, float64_array, look_up, real_array
from .._types import RankingMeasure
from ..diagnostics import MEASURES, moving_mean
from . import _drawing as drawing

_MEASURE_AXES = {
    "rank_correlation": ("rank correlation with the first scores", 0.0, (-1.0, 1.0)),
    "auroc": ("AUROC of having been there at first", 0.5, (0.0, 1.0)),
}


class RankCorrelationDisplay:
    """How much of a ranking is left as labels are bought: rank correlation, or AUROC, of scores with later ones.

    Use `from_scores`; parameters are kept as attributes.

    Parameters
    ----------
    bought : array-like of shape (n_steps,)
        Labels bought, or steps made, since the scores were computed.
    values : dict of str to array-like of shape (n_trials, n_steps)
        By the name of a part of the rows: "top 1 %".
    measure : {"rank_correlation", "auroc"}
    unit : str, default="labels bought"
        Unit of the horizontal axis.

    Attributes
    ----------
    ax_, figure_, lines_, bands_, legend_
        As in `LearningCurveDisplay`.
    nothing_left_ : matplotlib.lines.Line2D
        The value of a random order: 0, or 0.5 for the AUROC.

    See Also
    --------
    diagnostics.score_history : The scores that it takes.
    diagnostics.rank_correlation : The numbers.

    Examples
    --------
    >>> from skactive.plotting import RankCorrelationDisplay
    >>> scores = [[4, 3, 2, 1], [4, 2, 3, 1], [1, 2, 4, 3]]
    >>> display = RankCorrelationDisplay.from_scores(scores, top=[0.5, 1.0])
    >>> display.lines_["top 50 %"].get_ydata()
    array([ 1.,  1., -1.])
    """

    def __init__(
        self, *, bought: ArrayLike, values: Mapping[str, ArrayLike], measure: str, unit: str = "labels bought"
    ) -> None:
        self.bought = bought
        self.values = values
        self.measure = measure
        self.unit = unit

    @classmethod
    def from_scores(
        cls,
        scores: Any,
        *,
        n_labelled: ArrayLike | None = None,
        start: int = 0,
        measure: RankingMeasure = "rank_correlation",
        top: Sequence[float] = (0.01, 0.1, 0.5, 1.0),
        bottom: Sequence[float] = (),
        decimals: int | None = None,
        window: int = 1,
        ax: Any = None,
        **kwargs: Any,
    ) -> RankCorrelationDisplay:
        """Plot how scores at a step compare with later ones.

        Parameters
        ----------
        scores : array-like of shape (n_steps, n_points), or sequence of these
            As `score_history` makes them; one for each trial.
        n_labelled : array-like of shape (n_steps,), optional
            Number of labels at each step. By default the axis counts steps.
        start : int, default=0
            The step to compare with.
        measure : {"rank_correlation", "auroc"}, default="rank_correlation"
            See `skactive.diagnostics`.
        top, bottom : sequence of float
            Fractions of the rows, highest or lowest at ``start``, a curve for each: 0.01 is one in a hundred, 1.0 is
            all of them. A curve that is NaN everywhere, as the AUROC of all rows is, is left out.
        decimals : int, optional
            Round scores first.
        window : int, default=1
            Smooth curves over this number of steps, by `moving_mean`. Above 1, curves start below 1.
        ax : matplotlib.axes.Axes, optional
            By default those of a new figure.
        **kwargs
            For ``ax.plot``.

        Returns
        -------
        RankCorrelationDisplay

        Raises
        ------
        ValueError, TypeError
            If ``measure`` is unknown, or a parameter does not suit `rank_correlation`.
        """
        function = look_up("measure", measure, MEASURES)
        trials = _by_trial(scores)
        parts = [{"top": part} for part in drawing.listed("top", top, "fractions")]
        parts += [{"bottom": part} for part in drawing.listed("bottom", bottom, "fractions")]
        values = {
            _part_name(**part): np.array(
                [moving_mean(function(of, start, **part, decimals=decimals), window) for of in trials]
            )
            for part in parts
        }
        values = {name: of_part for name, of_part in values.items() if not np.isnan(of_part).all()}
        steps = np.arange(len(trials[0])) if n_labelled is None else _numbers_of_labels(n_labelled, len(trials[0]))
        unit = "steps" if n_labelled is None else "labels bought"
        return cls(bought=steps[start:] - steps[start], values=values, measure=measure, unit=unit).plot(ax, **kwargs)

    def plot(self, ax: Any = None, **kwargs: Any) -> RankCorrelationDisplay:
        """Draw the curves, and a line at the value of a random order.

        Parameters
        ----------
        ax, **kwargs
            As in `from_scores`.

        Returns
        -------
        RankCorrelationDisplay
            Itself.
        """
        canvas = drawing.Canvas(ax)
        (self.ax_,), self.figure_ = canvas.axes, canvas.figure
        ylabel, nothing_left, bounds = _MEASURE_AXES[self.measure]
        self.nothing_left_ = self.ax_.axhline(nothing_left, color=drawing.GREY, linewidth=1.2, label="no order left")
        curves = {part: (self.bought, values) for part, values in self.values.items()}
        self.lines_, self.bands_ = drawing.draw_curves(self.ax_, curves, kwargs, level=nothing_left, bounds=bounds)
        canvas.label(f"{self.unit} since the scores were taken", ylabel)
        drawing.set_whole_ticks(self.ax_.xaxis)
        handles = [*self.lines_.values(), self.nothing_left_]
        self.legend_ = canvas.legend(handles, drawing.describe_trials(self.values.values()))
        return self


def _by_trial(scores: Any) -> list[NDArray[np.float64]]:
    """Scores of each trial, (n_steps, n_points), from those of one or of several."""
    several = getattr(scores, "ndim", 0) == 3
    if isinstance(scores, list | tuple) and len(scores):
        several = getattr(scores[0], "ndim", 1) == 2 or (isinstance(scores[0], list) and np.ndim(scores[0][:1]) == 2)
    trials = [float64_array("scores", of) for of in (scores if several else [scores])]
    if not trials or any(of.ndim != 2 or of.shape[:1] != trials[0].shape[:1] for of in trials):
        raise ValueError(
            "`scores` must have shape (n_steps, n_points), or be a list of such arrays, one for each trial, of as many "
            f"steps. Got shapes {[of.shape for of in trials]}."
        )
    return trials


def _numbers_of_labels(n_labelled: ArrayLike, n_steps: int) -> NDArray[Any]:
    steps = as_array(real_array("n_labelled", n_labelled, booleans=False))
    if steps.shape != (n_steps,):
        got = len(steps) if steps.ndim == 1 else f"shape {steps.shape}"
        raise ValueError(f"`n_labelled` must have as many entries as `scores`, {n_steps}. Got {got}.")
    if not np.isfinite(steps).all():
        raise ValueError(f"`n_labelled` must be finite numbers. Got {steps.tolist()}.")
    return steps


def _part_name(top: float | None = None, bottom: float | None = None) -> str:
    part, sign = check_part(top, bottom)
    return "all" if part == 1 else f"{'top' if sign > 0 else 'bottom'} {100 * part:g} %"
