"""Learning curves: scores of models by the number of labels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from numpy.typing import ArrayLike

from . import _drawing as drawing
from ._runs import aligned, complete_runs

if TYPE_CHECKING:
    from ..experiment import ExperimentResult


class LearningCurveDisplay:
    """Scores of models by the number of labels: a line for each query, the mean over trials, in a 95 % band.

    Use `from_result`; parameters are kept as attributes.

    Parameters
    ----------
    n_labelled : dict of str to array-like of shape (n_evaluations,)
        Number of labels at each evaluation, by query.
    scores : dict of str to array-like of shape (n_trials, n_evaluations)
        Scores of each trial, by query; NaN are left out.
    score_name : str, default="score"
    order : sequence of str, optional
        All queries, shown or not, in the order of their colours: a query looks alike in all figures of the same order.

    Attributes
    ----------
    ax_ : matplotlib.axes.Axes
    figure_ : matplotlib.figure.Figure
    lines_ : dict of str to matplotlib.lines.Line2D
    bands_ : dict of str to matplotlib.collections.PolyCollection or None
        Student's t intervals of the mean; None for a single trial.
    legend_ : matplotlib.legend.Legend

    See Also
    --------
    plotting.PairedDifferenceDisplay : Which query is better.
    run_experiment : Makes the result.

    Examples
    --------
    >>> from skactive import LearningCurveDisplay
    >>> display = LearningCurveDisplay(
    ...     n_labelled={"power": [20, 30]}, scores={"power": [[0.5, 0.7], [0.6, 0.7]]}, score_name="accuracy"
    ... )
    >>> display.plot().lines_["power"].get_ydata()
    array([0.55, 0.7 ])
    """

    def __init__(
        self,
        *,
        n_labelled: Mapping[str, ArrayLike],
        scores: Mapping[str, ArrayLike],
        score_name: str = "score",
        order: Sequence[str] | None = None,
    ) -> None:
        self.n_labelled = n_labelled
        self.scores = scores
        self.score_name = score_name
        self.order = order

    @classmethod
    def from_result(
        cls,
        result: ExperimentResult,
        *,
        scoring: str | None = None,
        queries: Sequence[str] | None = None,
        ax: Any = None,
        **kwargs: Any,
    ) -> LearningCurveDisplay:
        """Plot what `run_experiment` returned.

        Parameters
        ----------
        result : ExperimentResult
            Runs that failed and numbers of labels that not every trial reached are left out. With
            ``batch_size="auto"`` numbers differ between runs: scores are interpolated linearly between evaluations.
        scoring : str, optional
            Name of a score; by default the first.
        queries : sequence of str, optional
            Names of queries; by default all.
        ax : matplotlib.axes.Axes, optional
            By default those of a new figure.
        **kwargs
            For ``ax.plot``.

        Returns
        -------
        LearningCurveDisplay

        Raises
        ------
        ValueError, TypeError
            If the result has no such score or query, or no finished run of it.
        """
        scoring, runs = complete_runs(result, scoring, queries)
        curves = {query: aligned(of.values()) for query, of in runs.items()}
        return cls(
            n_labelled={query: n_labelled for query, (n_labelled, _) in curves.items()},
            scores={query: scores for query, (_, scores) in curves.items()},
            score_name=scoring,
            order=result.queries,
        ).plot(ax, **kwargs)

    def plot(self, ax: Any = None, **kwargs: Any) -> LearningCurveDisplay:
        """Draw the curves.

        Parameters
        ----------
        ax, **kwargs
            As in `from_result`.

        Returns
        -------
        LearningCurveDisplay
            Itself.
        """
        curves = drawing.checked_curves(self.n_labelled, self.scores, "scores")
        canvas = drawing.Canvas(ax)
        (self.ax_,), self.figure_ = canvas.axes, canvas.figure
        self.lines_, self.bands_ = drawing.draw_curves(self.ax_, curves, kwargs, order=self.order)
        canvas.label(drawing.LABELS, f"{self.score_name} on test rows")
        drawing.set_whole_ticks(self.ax_.xaxis)
        self.legend_ = canvas.legend(
            [*self.lines_.values()], drawing.describe_trials(values for _, values in curves.values())
        )
        return self
