"""Pictures of two letters with a flaw: a rare colour, a colour that goes with the class, or hidden letters.

After Synbols (Lacoste et al., 2020): a letter in one of the text fonts that come with matplotlib, turned, scaled and
moved, on a gradient. What is random about the pictures is drawn first, and they are rendered afterwards. Lengths and
positions are fractions of the side of a picture; colours lie between 0 and 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont

Floats = NDArray[np.float64]

LETTERS = np.array(["a", "d"])
GROUPS = {"minority": ("red", "blue"), "spurious": ("red", "blue"), "missing": ("visible", "hidden")}
SHAPES = ("disc", "square", "triangle")
# Of the fonts that come with matplotlib, those with letters at the code points of letters, which "Display" lacks.
FONTS = ("DejaVuS*.ttf", "STIXGeneral*.ttf", "cmb10.ttf", "cmmi10.ttf", "cmr10.ttf", "cmss10.ttf", "cmt?10.ttf")
RED_OR_BLUE = np.array([[1.0, 0.0, 0.0], [0.0, 0.0, 1.0]])


def make_characters(
    n: int, setting: str, rng: np.random.Generator, *, p: float, size: int
) -> tuple[NDArray[np.uint8], NDArray[np.str_], NDArray[np.str_]]:
    """Images (n, 3, size, size), letters and groups; p is the probability of the second group.

    "minority": blue with probability p; "spurious": an a blue with probability p, a d with 1 - p; "missing": behind a
    shape with probability p. The idea is that of Branchaud-Charron et al. (2021).
    """
    letter = rng.integers(2, size=n)
    group = (rng.random(n) < (np.where(letter == 0, p, 1 - p) if setting == "spurious" else p)).astype(np.int64)
    place = _draw_place(n, rng)
    shape = rng.integers(len(SHAPES), size=n)
    shape_place = np.column_stack([rng.uniform(0, 2 * np.pi, n), np.zeros(n), rng.random((n, 2))])
    colours = _draw_colours(n, rng)
    slope = rng.uniform(0, 2 * np.pi, n)
    stencils = letter_stencils(size)
    font = rng.integers(len(stencils), size=n)
    if setting == "missing":
        hidden = group == 1  # behind shapes that contain any letter of that size and place, however it is turned
        shape_place[hidden, 1] = np.sqrt(2) * place[hidden, 1]
        shape_place[:, 2:] = place[:, 2:]
        place[hidden, 1] = 0  # not drawn at all, so that no blurred edge can give it away
    else:
        colours[:, 0] = RED_OR_BLUE[group]
        shape_place[:, 1] = 0.25
    shapes = [shape_stencil(name, size) for name in SHAPES]
    letters = stamp([stencils[f][i] for f, i in zip(font, letter, strict=True)], place, size)
    covers = stamp([shapes[i] for i in shape], shape_place, size)
    return paint(colours, slope, letters, covers), LETTERS[letter], np.array(GROUPS[setting])[group]


def _draw_place(n: int, rng: np.random.Generator) -> Floats:
    """Angle, size, and x and y of the centre."""
    angle = 0.3 * rng.standard_normal(n)
    size = np.minimum(0.6 * np.exp(0.2 * rng.standard_normal(n)), 0.9)
    centre = 0.5 + 0.45 * (1 - size[:, None]) * rng.uniform(-1, 1, (n, 2))  # the box stays inside
    return np.column_stack([angle, size, centre])


def _draw_colours(n: int, rng: np.random.Generator) -> Floats:
    """Of the letter, the shape and both ends of the background: dark letters on light backgrounds or the reverse."""
    low, high = np.array([[0.0, 0.4], [0.0, 1.0], [0.5, 1.0], [0.5, 1.0]]).T[..., None]
    colours = rng.uniform(low, high, (n, 4, 3))
    inverted = rng.random(n) < 0.5
    colours[inverted] = 1 - colours[inverted]
    return colours


def paint(
    colours: Floats, slope: Floats, letters: NDArray[np.float32], covers: NDArray[np.float32]
) -> NDArray[np.uint8]:
    """Lay letters over the background and shapes over both, by the fraction of each pixel that they cover."""
    ink, cover, left, right = colours.astype(np.float32).transpose(1, 0, 2)[..., None, None]
    across = np.linspace(-0.5, 0.5, letters.shape[-1])
    x, y = np.cos(slope)[:, None] * across, np.sin(slope)[:, None] * across
    extent = np.abs(np.cos(slope)) + np.abs(np.sin(slope))
    gradient = (0.5 + (x[:, None, :] + y[:, :, None]) / extent[:, None, None]).astype(np.float32)
    image = left + (right - left) * gradient[:, None]
    image += (ink - image) * letters[:, None]
    image += (cover - image) * covers[:, None]
    return (image * 255 + np.float32(0.5)).astype(np.uint8)


def stamp(stencils: Sequence[Any], places: Floats, side: int) -> NDArray[np.float32]:
    """Turn, scale and move each stencil: the fraction of every pixel that it covers, (n, side, side)."""
    covered = np.zeros((len(places), side, side), np.float32)
    for i, (stencil, (angle, size, x, y)) in enumerate(zip(stencils, places * [1, 1, side, side], strict=True)):
        if size > 0:
            middle, cos, sin = stencil.width / 2, np.cos(angle) / size, np.sin(angle) / size
            # Pillow asks where in the stencil a pixel of the canvas comes from.
            to_stencil = (cos, sin, middle - cos * x - sin * y, -sin, cos, middle + sin * x - cos * y)
            covered[i] = stencil.transform((side, side), Image.Transform.AFFINE, to_stencil, Image.Resampling.BILINEAR)
    return covered / 255


def shape_stencil(shape: str, side: int) -> Any:
    """A shape whose inscribed circle has a diameter of `side` pixels, in a square of twice that and a rim."""
    fine = 4 * (side + 1)  # half of the square, drawn four times as large for smooth edges
    canvas = Image.new("L", (2 * fine, 2 * fine))
    draw = ImageDraw.Draw(canvas)
    if shape == "disc":
        draw.ellipse((fine - 2 * side, fine - 2 * side, fine + 2 * side, fine + 2 * side), fill=255)
    else:
        sides, radius = (4, 2 * side * 2**0.5) if shape == "square" else (3, 4 * side)
        draw.regular_polygon((fine, fine, radius), sides, fill=255)
    return canvas.resize((2 * (side + 1), 2 * (side + 1)), Image.Resampling.BOX)


def letter_stencils(side: int) -> list[list[Any]]:
    """Stencils of the letters by font."""
    folder = Path(matplotlib.get_data_path(), "fonts", "ttf")
    paths = sorted(path for pattern in FONTS for path in folder.glob(pattern) if "Display" not in path.name)
    # The basic layout, because the other depends on libraries that some builds of Pillow lack.
    fonts = [ImageFont.truetype(str(path), 2 * side, layout_engine=ImageFont.Layout.BASIC) for path in paths]
    return [[_letter(font, letter, side) for letter in LETTERS] for font in fonts]


def _letter(font: Any, letter: str, side: int) -> Any:
    """A square stencil with a rim, whose ink is `side` pixels at the longer of width and height."""
    left, top, right, bottom = font.getbbox(letter)
    canvas = Image.new("L", (int(right - left) + 4 * side, int(bottom - top) + 4 * side))
    ImageDraw.Draw(canvas).text((2 * side - left, 2 * side - top), letter, fill=255, font=font)
    ink = canvas.crop(canvas.getbbox())
    size = [max(1, round(length * side / max(ink.size))) for length in ink.size]
    stencil = Image.new("L", (side + 2, side + 2))
    stencil.paste(ink.resize(size, Image.Resampling.LANCZOS), tuple((side + 2 - length) // 2 for length in size))
    return stencil
