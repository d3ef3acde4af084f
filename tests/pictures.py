"""What must hold of every picture that the project ships, asked of the figure that is drawn."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np
from matplotlib import colormaps
from matplotlib.backends.backend_agg import RendererAgg
from matplotlib.colors import to_rgb
from matplotlib.legend import Legend
from matplotlib.transforms import Bbox

from skactive.plotting import _drawing as drawing

PAGE = 7.5  # inches: at 96 pixels an inch the width at which a page shows a picture
SMALLEST_TEXT = 8.0  # points, at that width
MAPS = {"viridis", "Greys", drawing.colour_map().name, "orange to blue"}
PALETTE = np.array([to_rgb(colour) for colour in drawing.COLOURS])
SAFE = np.concatenate([PALETTE, colormaps["viridis"](np.linspace(0, 1, 256))[:, :3]])  # and grey


class Recorder(RendererAgg):
    """A renderer that remembers the texts it drew, how large they are in points, and where."""

    def __init__(self, figure: Any) -> None:
        super().__init__(*figure.bbox.size, figure.dpi)
        self.texts: list[tuple[str, Any]] = []
        self.sizes: list[tuple[str, float]] = []

    def draw_text(self, gc, x, y, s, prop, angle, ismath=False, mtext=None):
        box = self._box(x, y, s, prop, angle, ismath) if mtext is None else mtext.get_window_extent(self)
        self.texts.append((s, box))
        self.sizes.append((s, prop.get_size_in_points()))
        super().draw_text(gc, x, y, s, prop, angle, ismath, mtext)

    def _box(self, x, y, s, prop, angle, ismath):
        """Of one of several lines, level or upright."""
        width, height, descent = self.get_text_width_height_descent(s, prop, ismath)
        y = self.height - y
        if angle:
            return Bbox.from_bounds(x - height + descent, y, height, width)
        return Bbox.from_bounds(x, y - descent, width, height)


def drawn(figure: Any) -> Recorder:
    recorder = Recorder(figure)
    figure.draw(recorder)
    return recorder


def faults(figure: Any, shown: float = PAGE, recorder: Recorder | None = None) -> Iterator[str]:
    """What is wrong with a figure that a page shows at this width in inches, or at its own if that is less."""
    recorder = recorder or drawn(figure)
    yield from _texts(figure, recorder, shown)
    yield from _colours(figure)
    for ax in figure.axes:
        yield from _lines(ax, recorder)


def _texts(figure: Any, recorder: Recorder, shown: float) -> Iterator[str]:
    scale = min(1.0, shown / figure.get_figwidth())
    width, height = figure.bbox.size
    for text, size in dict.fromkeys(recorder.sizes):
        if size * scale < SMALLEST_TEXT:
            yield f"{text!r} has {size * scale:.1f} points"
    for text, box in recorder.texts:
        if min(box.x0, box.y0, width - box.x1, height - box.y1) < 1:  # pixel, for another font or resolution
            yield f"{text!r} is cut"
    for (a, box_a), (b, box_b) in itertools.combinations(recorder.texts, 2):
        if box_a.shrunk(0.9, 0.9).overlaps(box_b.shrunk(0.9, 0.9)):
            yield f"{a!r} lies on {b!r}"


def _colours(figure: Any) -> Iterator[str]:
    for ax in figure.axes:
        for artist in (*ax.collections, *ax.images):
            mapped = artist.get_array() is not None and np.ndim(artist.get_array()) < 3
            if mapped and artist.get_cmap().name not in MAPS:
                yield f"the map {artist.get_cmap().name!r} is none of {sorted(MAPS)}"
        used = [line.get_color() for line in ax.lines]
        used += [patch.get_facecolor() for patch in ax.patches]
        plain = [artist for artist in ax.collections if artist.get_array() is None]
        used += [colour for artist in plain for colour in (*artist.get_facecolor(), *artist.get_edgecolor())]
        for colour in {to_rgb(colour) for colour in used}:
            if np.ptp(colour) > 0.02 and np.abs(SAFE - colour).max(axis=1).min() > 0.02:
                yield f"the colour {np.round(colour, 2)} is not of the palette"


def _lines(ax: Any, recorder: Recorder) -> Iterator[str]:
    named = [line for line in ax.lines if not str(line.get_label()).startswith("_")]
    looks = [(str(line._dash_pattern), line.get_marker()) for line in named]
    for (a, look), (b, other) in itertools.combinations(zip(named, looks, strict=True), 2):
        if look == other:
            yield f"{a.get_label()!r} and {b.get_label()!r} differ in colour only"
    for legend in (child for child in ax.get_children() if isinstance(child, Legend)):
        box = legend.get_window_extent(recorder)
        for line in named:
            xy = np.column_stack([line.get_xdata(orig=False), line.get_ydata(orig=False)])
            if len(xy) > 2 and any(box.contains(*pixel) for pixel in line.get_transform().transform(xy)):
                yield f"the legend lies on {line.get_label()!r}"
