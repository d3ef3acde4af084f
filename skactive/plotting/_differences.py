"""Differences within trials: how much better queries are than a reference."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from numpy.typing import ArrayLike

from .._checks import check_reference
from . import _drawing as drawing
from ._runs import Run, aligned, check_query_names, check_result, complete_runs

if TYPE_CHECKING:
    from ..experiment import ExperimentResult


class PairedDifferenceDisplay:
    """How much better each query is than a reference: differences within trials, their mean in a 95 % band.

    What all queries of a trial share (split, first labels, seeds) cancels in a difference, so these bands are narrower
    than those of the curves. A band that excludes 0 is a significant paired t-test (5 %) at that number of labels, not
    corrected for several tests. Use `from_result`; parameters are kept as attributes.

    Parameters
    ----------
    n_labelled : dict of str to array-like of shape (n_evaluations,)
        Number of labels at each evaluation, by query.
    differences : dict of str to array-like of shape (n_trials, n_evaluations)
        Score minus that of the reference with as many labels in the same trial, by query.
    reference : str
    score_name, order
        As in `LearningCurveDisplay`.

    Attributes
    ----------
    ax_, figure_, lines_, bands_, legend_
        As in `LearningCurveDisplay`.
    zero_line_ : matplotlib.lines.Line2D

    See Also
    --------
    LearningCurveDisplay : The scores themselves.
    ExperimentResult : Its ``summary`` has the numbers.

    Examples
    --------
    >>> from skactive.plotting import PairedDifferenceDisplay
    >>> display = PairedDifferenceDisplay(
    ...     n_labelled={"power": [20, 30]}, differences={"power": [[0.0, 0.1], [0.0, 0.3]]}, reference="uniform"
    ... )
    >>> display.plot().lines_["power"].get_ydata()
    array([0. , 0.2])
    """

    def __init__(
        self,
        *,
        n_labelled: Mapping[str, ArrayLike],
        differences: Mapping[str, ArrayLike],
        reference: str,
        score_name: str = "score",
        order: Sequence[str] | None = None,
    ) -> None:
        self.n_labelled = n_labelled
        self.differences = differences
        self.reference = reference
        self.score_name = score_name
        self.order = order

    @classmethod
    def from_result(
        cls,
        result: ExperimentResult,
        *,
        reference: str | None = None,
        scoring: str | None = None,
        queries: Sequence[str] | None = None,
        ax: Any = None,
        **kwargs: Any,
    ) -> PairedDifferenceDisplay:
        """Plot what `run_experiment` returned.

        Parameters
        ----------
        result : ExperimentResult
            Runs that failed, trials in which the reference failed, and numbers of labels that not every trial reached
            are left out (with ``batch_size="auto"``: as in `LearningCurveDisplay.from_result`).
        reference : str, optional
            By default "uniform" if there is such a query, else the first.
        scoring : str, optional
            Name of a score; by default the first.
        queries : sequence of str, optional
            Names of queries; by default all but the reference.
        ax : matplotlib.axes.Axes, optional
            By default those of a new figure.
        **kwargs
            For ``ax.plot``.

        Returns
        -------
        PairedDifferenceDisplay

        Raises
        ------
        ValueError, TypeError
            As `LearningCurveDisplay.from_result` does.
        """
        reference = check_reference(reference, check_result(result).queries)
        shown = [query for query in check_query_names(queries, result.queries) if query != reference]
        scoring, runs = complete_runs(result, scoring, [*shown, reference])
        curves = {query: aligned(_within_trials(runs[query], runs[reference])) for query in shown}
        return cls(
            n_labelled={query: n_labelled for query, (n_labelled, _) in curves.items()},
            differences={query: differences for query, (_, differences) in curves.items()},
            reference=reference,
            score_name=scoring,
            order=result.queries,
        ).plot(ax, **kwargs)

    def plot(self, ax: Any = None, **kwargs: Any) -> PairedDifferenceDisplay:
        """Draw the differences and a line at 0.

        Parameters
        ----------
        ax, **kwargs
            As in `from_result`.

        Returns
        -------
        PairedDifferenceDisplay
            Itself.
        """
        curves = drawing.checked_curves(self.n_labelled, self.differences, "differences")
        canvas = drawing.Canvas(ax)
        (self.ax_,), self.figure_ = canvas.axes, canvas.figure
        self.zero_line_ = self.ax_.axhline(0.0, color=drawing.GREY, linewidth=1.2, label=self.reference)
        self.lines_, self.bands_ = drawing.draw_curves(self.ax_, curves, kwargs, order=self.order, level=0.0)
        canvas.label(drawing.LABELS, f"{self.score_name} minus that of {self.reference}")
        drawing.set_whole_ticks(self.ax_.xaxis)
        handles = [*self.lines_.values(), self.zero_line_]
        self.legend_ = canvas.legend(handles, drawing.describe_trials(values for _, values in curves.values()))
        return self


def _within_trials(mine: dict[int, Run], theirs: dict[int, Run]) -> list[Run]:
    """Scores minus those of the reference, for each trial that both finished."""
    return [
        {n: score - theirs[trial][n] for n, score in run.items() if n in theirs[trial]}
        for trial, run in mine.items()
        if trial in theirs
    ]
