"""Scores of a pool in descending order, and the laws that samplers make of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .._checks import BETA, float64_array, look_up
from .._types import Sampler
from ..samplers import SAMPLERS
from . import _drawing as drawing

Floats = NDArray[np.float64]


class ScoreDistributionDisplay:
    """The scores of a pool in descending order, and the law by which samplers draw the first row of a batch from them.

    Use `from_scores`; parameters are kept as attributes.

    Parameters
    ----------
    scores : array-like of shape (n_points,)
        In descending order.
    laws : dict of str to dict of float to ndarray of shape (n_points,)
        By sampler and coldness, the probability that the row at each place of the order is drawn first.
    score_name : str, default="score"

    Attributes
    ----------
    axes_ : ndarray of matplotlib.axes.Axes
        The scores, then a panel for each sampler.
    figure_ : matplotlib.figure.Figure
    score_line_ : matplotlib.lines.Line2D
    lines_ : dict of str to dict of float to matplotlib.lines.Line2D
    legend_ : matplotlib.legend.Legend

    See Also
    --------
    query.score_pool : The scores of a pool.
    samplers.power : One of the laws that it shows.

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
        samplers: Sequence[Sampler] = ("power", "softmax", "softrank"),
        betas: Sequence[float] = (0.5, 1, 4, 16),
        score_name: str = "score",
        ax: Any = None,
        **kwargs: Any,
    ) -> ScoreDistributionDisplay:
        """Plot scores, and the laws that samplers make of them.

        Parameters
        ----------
        scores : array-like of shape (n_points,)
            NaN, of rows without a score, are left out: ``scores_`` of a query can be passed as they are.
        samplers : sequence of str or callable, default=("power", "softmax", "softrank")
            Names in `skactive.samplers.SAMPLERS`, or samplers with a companion ``log_weights(scores, beta)``.
        betas : sequence of float, default=(0.5, 1, 4, 16)
            Coldnesses.
        score_name : str, default="score"
            Name and unit for the axis, such as "BALD (nats)".
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
            If a sampler is unknown, has no law or cannot use the scores, or ``betas`` are not numbers >= 0.
        """
        scores = float64_array("scores", scores)
        if scores.ndim != 1:
            raise ValueError(f"`scores` must have shape (n_points,). Got shape {scores.shape} instead.")
        descending = np.sort(scores[~np.isnan(scores)])[::-1]
        if not len(descending):
            raise ValueError("`scores` must hold at least one score that is not NaN. Got none.")
        betas = [BETA.check("beta", beta) for beta in drawing.listed("betas", betas, "numbers")]
        samplers = drawing.listed("samplers", samplers, "samplers")
        names = [_name(sampler) for sampler in samplers]
        if len(set(names)) < len(names):
            raise ValueError(f"`samplers` must have different names. Got {names}. Give functions names of their own.")
        laws = {
            name: {beta: _law(sampler, descending, beta) for beta in betas}
            for name, sampler in zip(names, samplers, strict=True)
        }
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


def _name(sampler: Any) -> str:
    return sampler if isinstance(sampler, str) else getattr(sampler, "__name__", type(sampler).__name__)


def _law(sampler: str | Callable[..., Any], scores: Floats, beta: float) -> Floats:
    """Probability of each row to be the first."""
    function = look_up("samplers", sampler, SAMPLERS)
    if not hasattr(function, "log_weights"):
        raise TypeError(
            "`samplers` must have a law, `log_weights(scores, beta)`, as those of skactive.samplers have. "
            f"Got {sampler!r} without one."
        )
    log_weights = function.log_weights(scores, beta)
    return np.exp(log_weights - np.logaddexp.reduce(log_weights))


def _draw_by_rank(ax: Any, ranks: NDArray[np.int64], values: Floats, **look: Any) -> Any:
    (line,) = ax.plot(ranks, values[ranks - 1], **look)
    ax.set(xscale="log")
    return line


def _draw_laws(
    ax: Any, ranks: NDArray[np.int64], name: str, laws: Mapping[float, Floats], kwargs: Mapping[str, Any]
) -> dict[float, Any]:
    """A line for each coldness, down to a thousandth of the uniform probability."""
    lines = {
        beta: _draw_by_rank(ax, ranks, law, **{**look, **kwargs}, label=f"β = {beta:g}")
        for look, (beta, law) in zip(drawing.shades(len(laws)), laws.items(), strict=True)
    }
    ax.axhline(1 / ranks[-1], color=drawing.GREY, linestyle=(0, (1, 4)), linewidth=1.2, label="uniform")
    ax.set(yscale="log", ylim=(1e-3 / ranks[-1], 2), ylabel="probability to be first", title=name)
    return lines
