"""What the displays share: colours, curves with bands, panels, legends. matplotlib is imported when something is drawn.

Colours are those of Okabe and Ito (2008), which can be distinguished with every common kind of colour vision, without
the yellow, which is hard to see on white. Curves also differ in their markers and dashes. Axes that the user passes are
drawn on and labelled; a new figure is laid out as well: legends are outside the data, and panels share their labels.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import cycle, islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._utils import statistics
from .._utils.statistics import Ends
from .._utils.types import Floats
from .._utils.validation import import_optional

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#000000")
GREY = "0.45"
LABELS = "labels bought, the first included"
_MARKERS = "osD^vP*X"
_DASHES: tuple[Any, ...] = ("-", "--", "-.", ":", (0, (7, 1.5, 1, 1.5, 1, 1.5)))
_N_MARKERS = 10
_WIDTH = 6.0  # inches: 600 pixels of a screen


def styles(n: int) -> list[dict[str, Any]]:
    """Looks of n curves: any 35 differ in colour and dashes, and any 40 in marker and dashes, without their colours."""
    looks = zip(cycle(COLOURS), cycle(_MARKERS), cycle(_DASHES), strict=False)
    return [{"color": colour, "marker": marker, "linestyle": dash} for colour, marker, dash in islice(looks, n)]


def colour_map() -> Any:
    """From a light blue, which can be seen on white, to a dark one."""
    from matplotlib.colors import LinearSegmentedColormap

    return LinearSegmentedColormap.from_list("shades of blue", ["#CCE3F0", COLOURS[0], "#001B2B"])


class Canvas:
    """The axes to draw on: those given, or those of a new figure, which is then laid out here."""

    def __init__(self, ax: Any, n: int = 1, *, height: float = 4.3, **shared: Any) -> None:
        self.ours = ax is None
        self.axes = _new_axes(n, height, shared) if self.ours else _given_axes(ax, n)
        self.figure = self.axes[0].figure

    def label(self, xlabel: str, ylabel: str) -> None:
        """Name the axes of all panels; a figure of ours gets each name once, and tick labels at its edges only."""
        if not self.ours or len(self.axes) == 1:
            for ax in self.axes:
                ax.set(xlabel=xlabel, ylabel=ylabel)
            return
        self.figure.supxlabel(xlabel, fontsize="medium")
        self.figure.supylabel(ylabel, fontsize="medium")
        n_columns = self.axes[0].get_subplotspec().get_gridspec().ncols
        for i, ax in enumerate(self.axes):
            ax.tick_params(axis="x", labelbottom=i + n_columns >= len(self.axes))
            ax.tick_params(axis="y", labelleft=i % n_columns == 0)

    def legend(self, handles: Sequence[Any], title: str | None = None) -> Any:
        """Draw the legend above all panels if the figure is ours, else in the last axes."""
        look: dict[str, Any] = {"handles": handles, "title": title, "title_fontsize": "small", "fontsize": "small"}
        look["handlelength"] = 2.8  # long enough for the dashes to be told apart
        if self.ours:
            return self.figure.legend(**look, loc="outside upper center", ncols=_columns(handles), frameon=False)
        return self.axes[-1].legend(**look, loc="best", framealpha=0.95)


def _given_axes(ax: Any, n: int) -> NDArray[Any]:
    axes = np.ravel(np.asarray(ax, dtype=object))
    if len(axes) != n:
        raise ValueError(f"`ax` must be {n} axes, one for each panel. Got {len(axes)}. None makes a new figure.")
    return axes


def _new_axes(n: int, height: float, shared: Mapping[str, Any]) -> NDArray[Any]:
    """Panels in rows of three, or of two where that leaves no gap."""
    n_columns = n if n < 4 else 2 if n == 4 else 3
    n_rows = -(-n // n_columns)
    size = (_WIDTH, height * n_rows)
    plt = import_optional("matplotlib.pyplot", "plot", "matplotlib")
    _, axes = plt.subplots(n_rows, n_columns, figsize=size, layout="constrained", squeeze=False, **shared)
    for spare in axes.flat[n:]:
        spare.remove()
    return axes.flat[:n]


def _columns(handles: Sequence[Any]) -> int:
    """Columns of a legend of a figure of ours: as few rows as fit, of equal length."""
    longest = max((len(handle.get_label()) for handle in handles), default=0)
    room = max(1, int(_WIDTH / (0.65 + 0.07 * longest)))  # a line and its gaps, a letter
    n_rows = -(-len(handles) // room)
    return -(-len(handles) // n_rows) if n_rows else 1


def draw_curves(
    ax: Any,
    x: Mapping[str, Any],
    values: Mapping[str, Any],
    kwargs: Mapping[str, Any],
    *,
    order: Sequence[str] | None = None,
    level: float | None = None,
    limits: Ends = (-np.inf, np.inf),
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Lines and bands by name, from x and values of shape (n_trials, len(x)).

    A name looks alike in all figures of the same ``order``, whichever of its names they show.
    Bands of few trials can be far wider than all lines together. So axes show at most three times the range of the
    lines, and the level that they are compared with. Ticks are whole numbers of labels.
    """
    from matplotlib.ticker import MaxNLocator

    names = list(dict.fromkeys([*(order or ()), *values]))
    looks = {name: {**look, "label": name, **kwargs} for name, look in zip(names, styles(len(names)), strict=True)}
    drawn = {
        name: _draw_curve(ax, np.asarray(x[name]), np.asarray(of_name, dtype=float), limits, **looks[name])
        for name, of_name in values.items()
    }
    lines, bands = ({name: pair[i] for name, pair in drawn.items()} for i in (0, 1))
    _limit_to(ax, np.concatenate([np.empty(0), *(line.get_ydata() for line in lines.values())]), level)
    ax.xaxis.set_major_locator(MaxNLocator(nbins=9, integer=True, steps=[1, 2, 5, 10]))
    return lines, bands


def _draw_curve(ax: Any, x: NDArray[Any], by_trial: NDArray[Any], limits: Ends, **look: Any) -> tuple[Any, Any]:
    """Mean over trials as a line, and Student's 95 % interval as a band."""
    estimates = [statistics.estimate(column[~np.isnan(column)], limits) for column in by_trial.T]
    return draw_band(ax, x, *np.array([(e.mean, e.low, e.high) for e in estimates]).reshape(-1, 3).T, **look)


def draw_band(ax: Any, x: NDArray[Any], mean: Any, low: Any, high: Any, **look: Any) -> tuple[Any, Any]:
    look = {"markevery": max(1, len(x) // _N_MARKERS), "markersize": 4, "linewidth": 1.6, **look}
    (line,) = ax.plot(x, mean, **look)
    if np.isnan(low).all():
        return line, None
    colour = line.get_color()  # the edge separates bands that overlap
    return line, ax.fill_between(x, low, high, facecolor=(colour, 0.12), edgecolor=(colour, 0.4), linewidth=0.6)


def _limit_to(ax: Any, values: Floats, level: float | None) -> None:
    values = values[~np.isnan(values)]
    extent = np.ptp(values) if len(values) else 0.0
    if extent == 0:
        return
    levels = [] if level is None else [level - 0.1 * extent, level + 0.1 * extent]
    low, high = ax.get_ylim()
    ax.set_ylim(max(low, min([values.min() - extent, *levels])), min(high, max([values.max() + extent, *levels])))


def describe_trials(by_trial: Iterable[Any]) -> str:
    n_trials = [len(values) for values in by_trial]
    fewest, most = min(n_trials, default=1), max(n_trials, default=1)
    if most == 1:
        return "one trial"
    return f"mean over {most if fewest == most else f'{fewest} to {most}'} trials, 95 % interval"
