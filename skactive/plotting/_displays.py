"""Scores of models by the number of labels, how much better queries are than a reference, and batches in the pool."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.decomposition import PCA

from .._utils.types import Floats, Indices
from .._utils.validation import check_positions, check_reference
from . import _drawing as drawing

if TYPE_CHECKING:
    from ..experiment import ExperimentResult

Run = dict[int, float]
"""Score by the number of labels: one query in one trial."""


@dataclass(kw_only=True, repr=False, eq=False)
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
    limits : tuple of float, default=(-inf, inf)
        Ends that no band exceeds; `from_result` sets 0 and 1 for accuracies.

    Attributes
    ----------
    ax_ : matplotlib.axes.Axes
    figure_ : matplotlib.figure.Figure
    lines_ : dict of str to matplotlib.lines.Line2D
    bands_ : dict of str to matplotlib.collections.PolyCollection or None
        Student's t intervals of the mean; None for a single trial.
    legend_ : matplotlib.legend.Legend

    Examples
    --------
    >>> from skactive import LearningCurveDisplay
    >>> display = LearningCurveDisplay(
    ...     n_labelled={"power": [20, 30]}, scores={"power": [[0.5, 0.7], [0.6, 0.7]]}, score_name="accuracy"
    ... )
    >>> display.plot().lines_["power"].get_ydata()
    array([0.55, 0.7 ])
    """

    n_labelled: Mapping[str, ArrayLike]
    scores: Mapping[str, ArrayLike]
    score_name: str = "score"
    order: Sequence[str] | None = None
    limits: tuple[float, float] = (-np.inf, np.inf)

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
        """Plot what `run_experiment` returned, and return the display.

        Parameters
        ----------
        result : ExperimentResult
            Runs that failed and numbers of labels that not every trial reached are left out.
        scoring : str, optional
            Name of a score; by default the first.
        queries : sequence of str, optional
            Names of queries; by default all.
        ax : matplotlib.axes.Axes, optional
            By default those of a new figure.
        **kwargs
            For ``ax.plot``.
        """
        scoring, runs = _finished_runs(result, scoring, queries)
        n_labelled, scores = _aligned({query: list(of.values()) for query, of in runs.items()})
        data: dict[str, Any] = {"n_labelled": n_labelled, "scores": scores, "limits": result.limits_of(scoring)}
        return cls(**data, score_name=scoring, order=result.queries).plot(ax, **kwargs)

    def plot(self, ax: Any = None, **kwargs: Any) -> LearningCurveDisplay:
        """Draw the curves, and return the display; ``ax`` and keywords as in `from_result`."""
        canvas = drawing.Canvas(ax)
        (self.ax_,), self.figure_ = canvas.axes, canvas.figure
        self.lines_, self.bands_ = drawing.draw_curves(
            self.ax_, self.n_labelled, self.scores, kwargs, order=self.order, limits=self.limits
        )
        canvas.label(drawing.LABELS, f"{self.score_name} on test rows")
        self.legend_ = canvas.legend([*self.lines_.values()], drawing.describe_trials(self.scores.values()))
        return self


@dataclass(kw_only=True, repr=False, eq=False)
class PairedDifferenceDisplay:
    """How much better each query is than a reference: differences within trials, their mean in a 95 % band.

    What all queries of a trial share cancels in a difference, so these bands are narrower than those of the curves. A
    band that excludes 0 is a significant paired t-test (5 %) at that number of labels, not corrected for several tests.
    Use `from_result`; parameters are kept as attributes.

    Parameters
    ----------
    n_labelled, score_name, order, limits
        As in `LearningCurveDisplay`.
    differences : dict of str to array-like of shape (n_trials, n_evaluations)
        Score minus that of the reference with as many labels in the same trial, by query.
    reference : str

    Attributes
    ----------
    ax_, figure_, lines_, bands_, legend_
        As in `LearningCurveDisplay`.
    zero_line_ : matplotlib.lines.Line2D

    Examples
    --------
    >>> from skactive.plotting import PairedDifferenceDisplay
    >>> display = PairedDifferenceDisplay(
    ...     n_labelled={"power": [20, 30]}, differences={"power": [[0.0, 0.1], [0.0, 0.3]]}, reference="uniform"
    ... )
    >>> display.plot().lines_["power"].get_ydata()
    array([0. , 0.2])
    """

    n_labelled: Mapping[str, ArrayLike]
    differences: Mapping[str, ArrayLike]
    reference: str
    score_name: str = "score"
    order: Sequence[str] | None = None
    limits: tuple[float, float] = (-np.inf, np.inf)

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
        """Plot what `run_experiment` returned, and return the display.

        Parameters
        ----------
        result, scoring, ax, **kwargs
            As in `LearningCurveDisplay.from_result`; trials in which the reference failed are left out as well.
        reference : str, optional
            By default "uniform" if there is such a query, else the first.
        queries : sequence of str, optional
            Names of queries; by default all but the reference.
        """
        reference = check_reference(reference, result.queries)
        shown = [query for query in check_query_names(queries, result.queries) if query != reference]
        scoring, runs = _finished_runs(result, scoring, [*shown, reference])
        n_labelled, differences = _aligned({query: _within_trials(runs[query], runs[reference]) for query in shown})
        data: dict[str, Any] = {"n_labelled": n_labelled, "differences": differences, "reference": reference}
        low, high = result.limits_of(scoring)
        data["limits"] = (low - high, high - low)
        return cls(**data, score_name=scoring, order=result.queries).plot(ax, **kwargs)

    def plot(self, ax: Any = None, **kwargs: Any) -> PairedDifferenceDisplay:
        """Draw the differences and a line at 0, and return the display; ``ax`` and keywords as in `from_result`."""
        canvas = drawing.Canvas(ax)
        (self.ax_,), self.figure_ = canvas.axes, canvas.figure
        self.zero_line_ = self.ax_.axhline(0.0, color=drawing.GREY, linewidth=1.2, label=self.reference)
        self.lines_, self.bands_ = drawing.draw_curves(
            self.ax_, self.n_labelled, self.differences, kwargs, order=self.order, level=0.0, limits=self.limits
        )
        canvas.label(drawing.LABELS, f"{self.score_name} minus that of {self.reference}")
        handles = [*self.lines_.values(), self.zero_line_]
        self.legend_ = canvas.legend(handles, drawing.describe_trials(self.differences.values()))
        return self


def check_query_names(queries: Any, names: Sequence[str]) -> list[str]:
    chosen = list(names) if queries is None else [queries] if isinstance(queries, str) else list(queries)
    unknown = [query for query in chosen if query not in names]
    if unknown or not chosen:
        raise ValueError(f"`queries` must be among those of the result, {list(names)}. Got {queries!r} instead.")
    return chosen


def _finished_runs(
    result: ExperimentResult, scoring: str | None, queries: Sequence[str] | None
) -> tuple[str, dict[str, dict[int, Run]]]:
    scoring = scoring or next(iter(result.score_names), "")
    if scoring not in result.score_names:
        raise ValueError(f"`scoring` must be one of the scores of the result, {result.score_names}. Got {scoring!r}.")
    failed = {(failure.query, failure.trial) for failure in result.failures}
    runs: dict[str, dict[int, Run]] = {name: {} for name in check_query_names(queries, result.queries)}
    for of in result.rounds:
        if of.query in runs and (of.query, of.trial) not in failed:
            runs[of.query].setdefault(of.trial, {})[of.n_labelled] = of.scores[scoring]
    for name, finished in runs.items():
        if not finished:
            raise ValueError(
                f"`result` must hold a finished run of each query. Got none of {name!r}: see its `failures`, and leave "
                "out the query by `queries`."
            )
    return scoring, runs


def _within_trials(mine: dict[int, Run], theirs: dict[int, Run]) -> list[Run]:
    return [
        {n: score - theirs[trial][n] for n, score in run.items() if n in theirs[trial]}
        for trial, run in mine.items()
        if trial in theirs
    ]


def _aligned(by_query: Mapping[str, Sequence[Run]]) -> tuple[dict[str, Indices], dict[str, Floats]]:
    """Numbers of labels at which all runs of a query were evaluated, and scores of shape (n_trials, n_evaluations)."""
    n_labelled, scores = {}, {}
    for query, runs in by_query.items():
        common = sorted(set.intersection(*map(set, runs))) if runs else []
        if not common:
            raise ValueError("`result` must hold trials with numbers of labels in common. Got none.")
        n_labelled[query], scores[query] = np.array(common), np.array([[run[n] for n in common] for run in runs])
    return n_labelled, scores


_POOL: dict[str, Any] = {"label": "pool", "s": 8, "linewidth": 0, "rasterized": True}
_LABELLED: dict[str, Any] = {"label": "labelled", "color": "black", "marker": "x", "s": 24, "linewidth": 1.1}
_BATCH: dict[str, Any] = {
    "label": "batch",
    "color": drawing.COLOURS[1],
    "s": 30,
    "edgecolor": "white",
    "linewidth": 0.6,
}


@dataclass(kw_only=True, repr=False, eq=False)
class BatchDisplay:
    """Where batches are: the pool, the labelled rows and the batch in two dimensions, a panel for each query.

    Use `from_batches`; parameters are kept as attributes.

    Parameters
    ----------
    coordinates : array-like of shape (n_points, 2)
        Where to draw each row.
    batches, labelled : dict of str to array-like of int
        Positions of the rows of a batch, and of those labelled before, by query.
    scores : array-like of shape (n_points,), optional
        Shades of the rows; NaN are not drawn.
    axis_names : (str, str), default=("first coordinate", "second coordinate")
    score_name : str, default="score"
        Name and unit for the colour bar, such as "BALD (nats)".

    Attributes
    ----------
    axes_ : ndarray of matplotlib.axes.Axes
        A panel for each query.
    figure_ : matplotlib.figure.Figure
    pools_, labelled_, batches_ : dict of str to matplotlib.collections.PathCollection
        Points, by query.
    legend_ : matplotlib.legend.Legend
    colorbar_ : matplotlib.colorbar.Colorbar or None

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from skactive.plotting import BatchDisplay
    >>> X, y = load_iris(return_X_y=True)
    >>> display = BatchDisplay.from_batches(X, {"first": [0, 1, 2], "spread": [10, 60, 110]}, labelled=[40, 80])
    >>> [ax.get_title() for ax in display.axes_]
    ['first', 'spread']
    """

    coordinates: ArrayLike
    batches: Mapping[str, ArrayLike]
    labelled: Mapping[str, ArrayLike]
    scores: ArrayLike | None = None
    axis_names: tuple[str, str] = ("first coordinate", "second coordinate")
    score_name: str = "score"

    @classmethod
    def from_batches(
        cls,
        X: Any,
        batches: Mapping[str, ArrayLike],
        *,
        labelled: ArrayLike = (),
        scores: ArrayLike | None = None,
        coordinates: ArrayLike | None = None,
        score_name: str = "score",
        ax: Any = None,
        **kwargs: Any,
    ) -> BatchDisplay:
        """Plot batches that were chosen from the same pool, and return the display.

        Parameters
        ----------
        X : array-like of shape (n_points, ...)
            The pool, and the labelled rows if they are to be shown. Rows, flattened, are projected on their first two
            principal components; scale columns first if their units differ.
        batches, scores, score_name
            As in the class.
        labelled : array-like of int, default=()
            Positions in X of the rows labelled before.
        coordinates : array-like of shape (n_points, 2), optional
            Where to draw each row instead: two columns, or any embedding. X is then ignored.
        ax : Axes or sequence of matplotlib.axes.Axes, optional
            One for each query. By default those of a new figure.
        **kwargs
            For ``ax.scatter`` of the batch.
        """
        if not batches:
            raise ValueError("`batches` must hold at least one batch, by name. Got none.")
        coordinates, axis_names = _place(X, coordinates)
        n_points = len(coordinates)
        return cls(
            coordinates=coordinates,
            batches={q: check_positions(f"batches[{q!r}]", b, n_points) for q, b in batches.items()},
            labelled={query: check_positions("labelled", labelled, n_points, at_least=0) for query in batches},
            scores=scores,
            axis_names=axis_names,
            score_name=score_name,
        ).plot(ax, **kwargs)

    def plot(self, ax: Any = None, **kwargs: Any) -> BatchDisplay:
        """Draw a panel for each query, and return the display; ``ax`` and keywords as in `from_batches`."""
        canvas = drawing.Canvas(ax, len(self.batches), height=2.6, sharex=True, sharey=True)
        self.axes_, self.figure_ = canvas.axes, canvas.figure
        look = {"color": "0.75"} if self.scores is None else {"c": self.scores, "cmap": drawing.colour_map()}
        self.pools_, self.labelled_, self.batches_ = {}, {}, {}
        for panel, (query, batch) in zip(self.axes_, self.batches.items(), strict=True):
            self.pools_[query] = self._draw(panel, slice(None), **_POOL, **look)
            self.labelled_[query] = self._draw(panel, self.labelled[query], **_LABELLED)
            self.batches_[query] = self._draw(panel, batch, **{**_BATCH, **kwargs})
            panel.set(title=query)
        canvas.label(*self.axis_names)
        handles = [drawn[query] for drawn in (self.pools_, self.labelled_, self.batches_)]
        self.colorbar_ = None
        if self.scores is not None:
            self.colorbar_ = self.figure_.colorbar(handles.pop(0), ax=list(self.axes_), label=self.score_name)
        self.legend_ = canvas.legend(handles)
        return self

    def _draw(self, ax: Any, rows: Any, **look: Any) -> Any:
        rows = rows if isinstance(rows, slice) else np.asarray(rows, dtype=np.int64)
        return ax.scatter(*np.asarray(self.coordinates)[rows].T, **look)


def _place(X: Any, coordinates: ArrayLike | None) -> tuple[Floats, tuple[str, str]]:
    if coordinates is not None:
        where = np.asarray(coordinates, dtype=np.float64)
        if where.ndim != 2 or where.shape[1] != 2:
            raise ValueError(f"`coordinates` must have shape (n_points, 2). Got shape {where.shape} instead.")
        return where, BatchDisplay.axis_names
    flat = X if getattr(X, "ndim", 2) == 2 else np.reshape(X, (len(X), -1))
    pca = PCA(2, random_state=0)
    projected = pca.fit_transform(flat)
    first, second = (f"PC {i + 1} ({100 * pca.explained_variance_ratio_[i]:.0f} % of variance)" for i in (0, 1))
    return projected, (first, second)
