"""Displays, in scikit-learn's manner: what is shown is kept in attributes, and `plot` draws it.

A class method ``from_...`` computes what is shown and plots it. matplotlib is loaded by `plot`, and not before.

========================  ===================================================================
display                   question
========================  ===================================================================
LearningCurveDisplay      how good are models by the number of labels?
PairedDifferenceDisplay   is a query better than the reference, and how sure is that?
ScoreDistributionDisplay  which places of a ranking does a sampler buy from?
BatchDisplay              where in the pool is a batch?
RankCorrelationDisplay    for how long do scores hold?
========================  ===================================================================
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.decomposition import PCA

from .._checks import check_part, check_positions, check_reference, look_up
from ..diagnostics import MEASURES, moving_mean
from ..samplers import SAMPLERS
from . import _drawing as drawing
from ._checks import (
    check_any,
    check_any_common,
    check_by_point,
    check_complete,
    check_coordinates,
    check_lengths,
    check_query_names,
    check_result,
    check_round,
    check_scoring_of,
    no_law_to_show_error,
    projection_explained,
)

__all__ = [
    "BatchDisplay",
    "LearningCurveDisplay",
    "PairedDifferenceDisplay",
    "RankCorrelationDisplay",
    "ScoreDistributionDisplay",
]

Floats = NDArray[np.float64]

_LABELS = "labels bought, the first included"


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
        Queries of which each has its colour, shown or not: a query looks alike in all figures of the same order.

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
        result: Any,
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
            Runs that failed are left out, and so are numbers of labels that not every trial came to. Runs with
            ``batch_size="auto"``, which come to numbers of their own, are drawn by straight lines between evaluations.
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
            If the result has no such score or query, or no run of it that came to its end.
        """
        scoring, runs = _complete_runs(result, scoring, queries)
        aligned = {query: _aligned(of.values()) for query, of in runs.items()}
        return cls(
            n_labelled={query: n_labelled for query, (n_labelled, _) in aligned.items()},
            scores={query: scores for query, (_, scores) in aligned.items()},
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
        canvas = drawing.Canvas(ax)
        (self.ax_,), self.figure_ = canvas.axes, canvas.figure
        curves = {query: (self.n_labelled[query], scores) for query, scores in self.scores.items()}
        self.lines_, self.bands_ = drawing.draw_curves(self.ax_, curves, kwargs, order=self.order)
        canvas.label(_LABELS, f"{self.score_name} on test rows")
        drawing.set_whole_ticks(self.ax_.xaxis)
        self.legend_ = canvas.legend([*self.lines_.values()], drawing.describe_trials(self.scores.values()))
        return self


class PairedDifferenceDisplay:
    """How much better each query is than a reference: differences within trials, their mean in a 95 % band.

    What all queries of a trial share (split, first labels, seeds) falls out of a difference: bands are narrower than
    those of the curves, and what they say of better or worse is the paired t-test at each number of labels, taken by
    itself. Use `from_result`; parameters are kept as attributes.

    Parameters
    ----------
    n_labelled : dict of str to array-like of shape (n_evaluations,)
        Number of labels at each evaluation, by query.
    differences : dict of str to array-like of shape (n_trials, n_evaluations)
        Score less that of the reference with as many labels in the same trial, by query.
    reference : str
    score_name, order
        As in `LearningCurveDisplay`.

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
        result: Any,
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
            Runs that failed, and trials that the reference failed in, are left out, and so are numbers of labels that
            not every trial came to (with ``batch_size="auto"``: as in `LearningCurveDisplay.from_result`).
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
        scoring, runs = _complete_runs(result, scoring, [*shown, reference])
        aligned = {query: _aligned(_differences(runs[query], runs[reference])) for query in shown}
        return cls(
            n_labelled={query: n_labelled for query, (n_labelled, _) in aligned.items()},
            differences={query: differences for query, (_, differences) in aligned.items()},
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
        canvas = drawing.Canvas(ax)
        (self.ax_,), self.figure_ = canvas.axes, canvas.figure
        self.zero_line_ = self.ax_.axhline(0.0, color=drawing.GREY, linewidth=1.2, label=self.reference)
        curves = {query: (self.n_labelled[query], values) for query, values in self.differences.items()}
        self.lines_, self.bands_ = drawing.draw_curves(self.ax_, curves, kwargs, order=self.order, level=0.0)
        canvas.label(_LABELS, f"{self.score_name} minus that of {self.reference}")
        drawing.set_whole_ticks(self.ax_.xaxis)
        handles = [*self.lines_.values(), self.zero_line_]
        self.legend_ = canvas.legend(handles, drawing.describe_trials(self.differences.values()))
        return self


class ScoreDistributionDisplay:
    """The scores of a pool in descending order, and the law by which samplers draw the first row of a batch from them.

    Use `from_scores`; parameters are kept as attributes.

    Parameters
    ----------
    scores : array-like of shape (n_points,)
        In descending order.
    laws : dict of str to dict of float to ndarray of shape (n_points,)
        By sampler and coldness, the probability that the row of each place in the order is drawn first.
    score_name : str, default="score"

    Attributes
    ----------
    axes_ : ndarray of matplotlib.axes.Axes
        The scores, then a panel for each sampler.
    figure_ : matplotlib.figure.Figure
    score_line_ : matplotlib.lines.Line2D
    lines_ : dict of str to dict of float to matplotlib.lines.Line2D
    legend_ : matplotlib.legend.Legend

    Examples
    --------
    >>> from skactive.plotting import ScoreDistributionDisplay
    >>> display = ScoreDistributionDisplay.from_scores([0.1, 0.3, 0.6], samplers=["power"], betas=[1])
    >>> display.laws["power"][1].round(1)
    array([0.6, 0.3, 0.1])
    """

    def __init__(
        self, *, scores: ArrayLike, laws: Mapping[str, Mapping[float, Floats]], score_name: str = "score"
    ) -> None:
        self.scores = scores
        self.laws = laws
        self.score_name = score_name

    @classmethod
    def from_scores(
        cls,
        scores: ArrayLike,
        *,
        samplers: Sequence[str | Callable[..., Any]] = ("power", "softmax", "softrank"),
        betas: Sequence[float] = (0.5, 1, 4, 16),
        score_name: str = "score",
        ax: Any = None,
        **kwargs: Any,
    ) -> ScoreDistributionDisplay:
        """Plot scores, and the laws that samplers make of them.

        Parameters
        ----------
        scores : array-like of shape (n_points,)
            NaN, of rows that were not scored, are left out: ``scores_`` of a query can be given as they are.
        samplers : sequence of str or callable, default=("power", "softmax", "softrank")
            Names in `skactive.samplers.SAMPLERS`, or samplers with a companion ``log_weights(scores, beta)``.
        betas : sequence of float, default=(0.5, 1, 4, 16)
            Coldnesses.
        score_name : str, default="score"
            Name and unit for the axis: "BALD (nats)", say.
        ax : sequence of matplotlib.axes.Axes, optional
            One more than there are samplers. By default those of a new figure.
        **kwargs
            For ``ax.plot``.

        Returns
        -------
        ScoreDistributionDisplay

        Raises
        ------
        ValueError, TypeError
            If a sampler is unknown, has no law or cannot take the scores, or ``betas`` are not numbers >= 0.
        """
        scores = np.asarray(scores, dtype=np.float64)
        descending = np.sort(scores[~np.isnan(scores)])[::-1]
        check_any("scores", "score that is not NaN", descending)
        laws = {_name(s): {beta: _law(s, descending, beta) for beta in betas} for s in samplers}
        return cls(scores=descending, laws=laws, score_name=score_name).plot(ax, **kwargs)

    def plot(self, ax: Any = None, **kwargs: Any) -> ScoreDistributionDisplay:
        """Draw the scores and a panel of laws for each sampler; ranks and probabilities on logarithmic axes.

        Parameters
        ----------
        ax, **kwargs
            As in `from_scores`.

        Returns
        -------
        ScoreDistributionDisplay
            Itself.
        """
        canvas = drawing.Canvas(ax, 1 + len(self.laws), height=2.2, sharex=True)
        self.axes_, self.figure_ = canvas.axes, canvas.figure
        scores = np.asarray(self.scores)
        shown = np.unique(np.geomspace(1, len(scores), 500).round().astype(int))  # a line has no more detail
        self.score_line_ = _draw_by_rank(self.axes_[0], shown, scores, **{"color": "black", **kwargs})
        self.axes_[0].set(ylabel=self.score_name, title="scores")
        self.lines_ = {
            name: _draw_laws(panel, shown, name, laws, kwargs)
            for panel, (name, laws) in zip(self.axes_[1:], self.laws.items(), strict=True)
        }
        canvas.label("rank of the score, 1 = highest")
        self.legend_ = canvas.legend(self.axes_[-1].get_lines())
        return self


class BatchDisplay:
    """Where batches are: the pool, the labelled rows and the batch in two dimensions, a panel for each query.

    Use `from_batches` or `from_result`; parameters are kept as attributes.

    Parameters
    ----------
    coordinates : array-like of shape (n_points, 2)
        Where to draw each row.
    batches : dict of str to array-like of int
        Positions of the rows of a batch, by query.
    labelled : dict of str to array-like of int
        Positions of the rows labelled before, by query.
    scores : array-like of shape (n_points,), optional
        Shades of the rows; NaN are not drawn.
    axis_names : (str, str), default=("first coordinate", "second coordinate")
    score_name : str, default="score"

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

    def __init__(
        self,
        *,
        coordinates: ArrayLike,
        batches: Mapping[str, ArrayLike],
        labelled: Mapping[str, ArrayLike],
        scores: ArrayLike | None = None,
        axis_names: tuple[str, str] = ("first coordinate", "second coordinate"),
        score_name: str = "score",
    ) -> None:
        self.coordinates = coordinates
        self.batches = batches
        self.labelled = labelled
        self.scores = scores
        self.axis_names = axis_names
        self.score_name = score_name

    @classmethod
    def from_batches(
        cls,
        X: Any,
        batches: Mapping[str, ArrayLike],
        *,
        labelled: ArrayLike = (),
        scores: ArrayLike | None = None,
        coordinates: ArrayLike | None = None,
        axis_names: tuple[str, str] | None = None,
        score_name: str = "score",
        ax: Any = None,
        **kwargs: Any,
    ) -> BatchDisplay:
        """Plot batches that were chosen from the same pool.

        Parameters
        ----------
        X : array-like of shape (n_points, ...)
            The pool, and the labelled rows if they are to be shown. Rows are projected on their first two principal
            components, axes beyond the first flattened; scale them before if their units differ.
        batches : dict of str to array-like of int
            Positions in X, by query.
        labelled : array-like of int, default=()
            Positions in X of the rows labelled before.
        scores : array-like of shape (n_points,), optional
            Shades of the rows; NaN are not drawn.
        coordinates : array-like of shape (n_points, 2), optional
            Where to draw each row instead: two columns, or any embedding. X is not looked at then.
        axis_names : (str, str), optional
            Of the coordinates.
        score_name : str, default="score"
            Name and unit for the colour bar: "BALD (nats)", say.
        ax : Axes or sequence of matplotlib.axes.Axes, optional
            One for each query. By default those of a new figure.
        **kwargs
            For ``ax.scatter`` of the batch.

        Returns
        -------
        BatchDisplay

        Raises
        ------
        ValueError, TypeError
            If positions are not distinct rows of X, other arrays do not fit, or X cannot be projected.
        """
        check_any("batches", "batch", batches)
        coordinates, axis_names = _place(X, coordinates, axis_names)
        n_points = len(coordinates)
        return cls(
            coordinates=coordinates,
            batches={q: check_positions(f"batches[{q!r}]", b, n_points) for q, b in batches.items()},
            labelled={query: _positions("labelled", labelled, n_points) for query in batches},
            scores=None if scores is None else check_by_point("scores", scores, n_points),
            axis_names=axis_names,
            score_name=score_name,
        ).plot(ax, **kwargs)

    @classmethod
    def from_result(
        cls,
        result: Any,
        X: Any,
        *,
        round: int = 1,
        trial: int = 0,
        queries: Sequence[str] | None = None,
        coordinates: ArrayLike | None = None,
        axis_names: tuple[str, str] | None = None,
        ax: Any = None,
        **kwargs: Any,
    ) -> BatchDisplay:
        """Plot what each query of an experiment bought in a round.

        Parameters
        ----------
        result : ExperimentResult
        X : array-like of shape (n_points, ...)
            What `run_experiment` was given.
        round : int, default=1
            The batch, from 1 on; rows bought before it are shown as labelled.
        trial : int, default=0
        queries : sequence of str, optional
            Names of queries; by default all.
        coordinates, axis_names, ax, **kwargs
            As in `from_batches`.

        Returns
        -------
        BatchDisplay

        Raises
        ------
        ValueError, TypeError
            If a query of the result has no such round in this trial; or as `from_batches` does.
        """
        names = check_query_names(queries, check_result(result).queries)
        bought = {query: _bought(result, query, trial, round) for query in names}
        coordinates, axis_names = _place(X, coordinates, axis_names)
        return cls(
            coordinates=coordinates,
            batches={q: _positions("result", b[-1], len(coordinates)) for q, b in bought.items()},
            labelled={q: np.concatenate(b[:-1]) for q, b in bought.items()},
            axis_names=axis_names,
        ).plot(ax, **kwargs)

    def plot(self, ax: Any = None, **kwargs: Any) -> BatchDisplay:
        """Draw a panel for each query.

        Parameters
        ----------
        ax, **kwargs
            As in `from_batches`.

        Returns
        -------
        BatchDisplay
            Itself.
        """
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


class RankCorrelationDisplay:
    """How much of a ranking is left while labels are bought: rank correlation, or AUROC, of scores with later ones.

    Use `from_scores`; parameters are kept as attributes.

    Parameters
    ----------
    bought : array-like of shape (n_steps,)
        Labels bought since the scores were taken, or steps since then.
    values : dict of str to array-like of shape (n_trials, n_steps)
        By the name of a part of the rows: "top 1 %".
    measure : {"rank_correlation", "auroc"}
    unit : str, default="labels bought"
        Of what stands on the horizontal axis.

    Attributes
    ----------
    ax_, figure_, lines_, bands_, legend_
        As in `LearningCurveDisplay`.
    nothing_left_ : matplotlib.lines.Line2D
        Where nothing is left of the order: at 0, or at 0.5 for the AUROC.

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
        measure: str = "rank_correlation",
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
            Number of labels at each step. Without, steps are counted.
        start : int, default=0
            The step to compare with.
        measure : {"rank_correlation", "auroc"}, default="rank_correlation"
            See `skactive.diagnostics`.
        top, bottom : sequence of float
            Parts of the rows, highest or lowest at ``start``, each a curve: 0.01 is one in a hundred, 1.0 all of them.
            A curve without any number, as the AUROC of all rows is, is left out.
        decimals : int, optional
            Round scores first.
        window : int, default=1
            Smooth curves over so many steps, by `moving_mean`. Then they start below 1.
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
            If ``measure`` is unknown, or a parameter is not as `rank_correlation` wants it.
        """
        function = look_up("measure", measure, MEASURES)
        trials = [np.asarray(of, dtype=np.float64) for of in ([scores] if np.ndim(scores[0]) == 1 else scores)]
        parts = [{"top": part} for part in top] + [{"bottom": part} for part in bottom]
        values = {
            _part_name(**part): np.array(
                [moving_mean(function(of, start, **part, decimals=decimals), window) for of in trials]
            )
            for part in parts
        }
        values = {name: of_part for name, of_part in values.items() if not np.isnan(of_part).all()}
        steps = np.arange(len(trials[0])) if n_labelled is None else np.asarray(n_labelled)
        check_lengths(n_labelled=len(steps), scores=len(trials[0]))
        unit = "steps" if n_labelled is None else "labels bought"
        return cls(bought=steps[start:] - steps[start], values=values, measure=measure, unit=unit).plot(ax, **kwargs)

    def plot(self, ax: Any = None, **kwargs: Any) -> RankCorrelationDisplay:
        """Draw the curves, and a line where nothing is left of the order.

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


_POOL: dict[str, Any] = {"label": "pool", "s": 8, "linewidth": 0, "rasterized": True}
_LABELLED: dict[str, Any] = {"label": "labelled", "color": "black", "marker": "x", "s": 24, "linewidth": 1.1}
_BATCH: dict[str, Any] = {
    "label": "batch",
    "color": drawing.COLOURS[1],
    "marker": "o",
    "s": 30,
    "edgecolor": "white",
    "linewidth": 0.6,
}
_MEASURE_AXES = {
    "rank_correlation": ("rank correlation with the first scores", 0.0, (-1.0, 1.0)),
    "auroc": ("AUROC of having been there at first", 0.5, (0.0, 1.0)),
}

Run = dict[int, float]
"""Score by the number of labels: one query in one trial."""


def _complete_runs(
    result: Any, scoring: str | None, queries: Sequence[str] | None
) -> tuple[str, dict[str, dict[int, Run]]]:
    """The name of the score, and runs that came to their end by query and trial."""
    scoring = check_scoring_of(scoring, check_result(result).score_names)
    names = check_query_names(queries, result.queries)
    failed = {(failure.query, failure.trial) for failure in result.failures}
    runs: dict[str, dict[int, Run]] = {name: {} for name in names}
    for of in result.rounds:
        if of.query in runs and (of.query, of.trial) not in failed:
            runs[of.query].setdefault(of.trial, {})[of.n_labelled] = of.scores[scoring]
    check_complete(runs, names)
    return scoring, _interpolated(runs) if result.settings.get("batch_size") == "auto" else runs


def _interpolated(runs: dict[str, dict[int, Run]]) -> dict[str, dict[int, Run]]:
    """Runs whose batches have sizes of their own: at every number of labels of any of them that all of them span."""
    everything = [run for of in runs.values() for run in of.values()]
    first, last = max(map(min, everything)), min(map(max, everything))
    numbers = sorted({n for run in everything for n in run if first <= n <= last})
    return {
        query: {
            t: dict(zip(numbers, np.interp(numbers, [*run], [*run.values()]), strict=True)) for t, run in of.items()
        }
        for query, of in runs.items()
    }


def _differences(mine: dict[int, Run], theirs: dict[int, Run]) -> list[Run]:
    return [
        {n: score - theirs[trial][n] for n, score in run.items() if n in theirs[trial]}
        for trial, run in mine.items()
        if trial in theirs
    ]


def _aligned(runs: Iterable[Run]) -> tuple[NDArray[np.int64], Floats]:
    """Numbers of labels that all runs came to, and the scores there, of shape (n_trials, n_evaluations)."""
    runs = list(runs)
    common = sorted(set.intersection(*map(set, runs))) if runs else []
    check_any_common(common)
    return np.array(common), np.array([[run[n] for n in common] for run in runs])


def _name(sampler: Any) -> str:
    return sampler if isinstance(sampler, str) else getattr(sampler, "__name__", type(sampler).__name__)


def _law(sampler: str | Callable[..., Any], scores: Floats, beta: float) -> Floats:
    """Probability of each row to be the first."""
    function = look_up("samplers", sampler, SAMPLERS)
    if not hasattr(function, "log_weights"):
        raise no_law_to_show_error(sampler)
    log_weights = function.log_weights(scores, beta)
    return np.exp(log_weights - np.logaddexp.reduce(log_weights))


def _draw_by_rank(ax: Any, ranks: NDArray[np.int64], values: Floats, **look: Any) -> Any:
    (line,) = ax.plot(ranks, values[ranks - 1], **look)
    ax.set(xscale="log")
    return line


def _draw_laws(
    ax: Any, ranks: NDArray[np.int64], name: str, laws: Mapping[float, Floats], kwargs: Mapping[str, Any]
) -> dict[float, Any]:
    """A line for each coldness, down to a thousandth of what all rows would have if they were alike."""
    lines = {
        beta: _draw_by_rank(ax, ranks, law, **{"color": shade, **kwargs}, label=f"β = {beta:g}")
        for shade, (beta, law) in zip(drawing.shades(len(laws)), laws.items(), strict=True)
    }
    ax.axhline(1 / ranks[-1], color=drawing.GREY, linestyle=":", linewidth=1.2, label="uniform")
    ax.set(yscale="log", ylim=(1e-3 / ranks[-1], 2), ylabel="probability to be first", title=name)
    return lines


def _place(X: Any, coordinates: ArrayLike | None, axis_names: tuple[str, str] | None) -> tuple[Floats, tuple[str, str]]:
    """Where to draw the rows of X, and names of the axes."""
    if coordinates is not None:
        names = ("first coordinate", "second coordinate") if axis_names is None else axis_names
        return check_coordinates(coordinates), names
    with projection_explained():
        flat = X if getattr(X, "ndim", 2) == 2 else np.reshape(X, (len(X), -1))
        pca = PCA(2, random_state=0)
        projected = pca.fit_transform(flat)
    first, second = (
        f"PC {i} ({100 * part:.0f} % of variance)" for i, part in enumerate(pca.explained_variance_ratio_, 1)
    )
    return projected, axis_names or (first, second)


def _positions(name: str, rows: ArrayLike, n_points: int) -> NDArray[np.int64]:
    return check_positions(name, rows, n_points) if np.size(rows) else np.empty(0, dtype=np.int64)


def _bought(result: Any, query: str, trial: int, round_: int) -> list[NDArray[np.int64]]:
    """First labels and batches of a run, up to a round."""
    batches = {r.round: r.indices for r in result.rounds if (r.query, r.trial) == (query, trial)}
    check_round(round_, query, trial, len(batches))
    return [np.array(batches[i]) for i in range(round_ + 1)]


def _part_name(top: float | None = None, bottom: float | None = None) -> str:
    part, sign = check_part(top, bottom)
    return "all" if part == 1 else f"{'top' if sign > 0 else 'bottom'} {100 * part:g} %"
