"""Batches in two dimensions, among the pool that they were chosen from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.decomposition import PCA

from .._utils.validation import check_positions
from . import _drawing as drawing

Floats = NDArray[np.float64]

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
            raise ValueError("`batches` must hold one batch or more, by name. Got none.")
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
