"""Pictures of characters with something wrong: a colour that is rare or tells the class, or characters that are hidden.

After Synbols (Lacoste et al., 2020): a character in one of many fonts, turned, scaled and moved, on a gradient. What is
random about the pictures is drawn first, and they are rendered afterwards: labels and groups are the same whatever the
fonts. Characters and shapes are stencils that Pillow turns and scales; numpy colours a block of pictures at a time.

Lengths and positions are parts of the side of a picture, colours lie between 0 and 1.
"""

from __future__ import annotations

import string
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .._checks import import_optional
from ._checks import no_complete_font_error, no_fonts_error, unreadable_explained

RED_OR_BLUE = np.array([[1.0, 0.0, 0.0], [0.0, 0.0, 1.0]])
SHAPES = ("disc", "square", "triangle")
BLOCK = 256  # pictures that are coloured at a time
# Of the files that come with matplotlib, those that hold letters where letters belong.
TEXT_FONTS = ("DejaVuS*.ttf", "STIXGeneral*.ttf", "cmb10.ttf", "cmmi10.ttf", "cmr10.ttf", "cmss10.ttf", "cmt?10.ttf")


class Pictures(NamedTuple):
    """What is random about n pictures."""

    character: NDArray[np.int64]  # (n,) positions in the characters
    group: NDArray[np.int64]  # (n,) 0 or 1
    place: NDArray[np.float64]  # (n, 4) of the character: angle, size, x and y of its centre
    shape: NDArray[np.int64]  # (n,) positions in SHAPES
    shape_place: NDArray[np.float64]  # (n, 4) the same of a shape in front of it, whose inscribed circle has that size
    colours: NDArray[np.float64]  # (n, 4, 3) of the character, the shape and both ends of the background
    slope: NDArray[np.float64]  # (n,) angle of the background's gradient
    font: NDArray[np.int64]  # (n,)


def _red_or_blue(pictures: Pictures) -> None:
    """Characters have the colour of their group, and a small shape lies anywhere."""
    pictures.colours[:, 0] = RED_OR_BLUE[pictures.group]
    pictures.shape_place[:, 1] = 0.25


def _visible_or_hidden(pictures: Pictures) -> None:
    """The second group lies behind shapes that contain any character of its size and place, however it is turned."""
    hidden = pictures.group == 1
    pictures.shape_place[hidden, 1] = np.sqrt(2) * pictures.place[hidden, 1]
    pictures.shape_place[:, 2:] = pictures.place[:, 2:]
    pictures.place[hidden, 1] = 0  # not drawn at all, so that no blurred edge can give it away


@dataclass(frozen=True)
class Setting:
    """A flaw of a data set: two groups, how often a class is of the second, and what that does to a picture."""

    characters: str
    groups: tuple[str, str]
    p: float
    law: Callable[[float, NDArray[np.int64]], Any]  # (p, character) -> probability of the second group
    flaw: Callable[[Pictures], None]


def _as_given(p: float, character: NDArray[np.int64]) -> float:
    return p


def _by_turns(p: float, character: NDArray[np.int64]) -> NDArray[np.float64]:
    return np.where(character % 2 == 0, p, 1 - p)


SETTINGS = {
    "minority": Setting("ad", ("red", "blue"), 0.1, _as_given, _red_or_blue),
    "missing": Setting(string.ascii_lowercase, ("visible", "hidden"), 0.1, _as_given, _visible_or_hidden),
    "spurious": Setting("ad", ("red", "blue"), 0.9, _by_turns, _red_or_blue),
}


def draw(setting: Setting, n: int, n_characters: int, n_fonts: int, p: float, rng: np.random.Generator) -> Pictures:
    """Draw what is random about n pictures; the fonts come last, so that all else is the same with other fonts."""
    character = rng.integers(n_characters, size=n)
    pictures = Pictures(
        character=character,
        group=(rng.random(n) < setting.law(p, character)).astype(np.int64),
        place=_draw_place(n, rng),
        shape=rng.integers(len(SHAPES), size=n),
        shape_place=np.column_stack([rng.uniform(0, 2 * np.pi, n), np.zeros(n), rng.random((n, 2))]),
        colours=_draw_colours(n, rng),
        slope=rng.uniform(0, 2 * np.pi, n),
        font=rng.integers(n_fonts, size=n),
    )
    setting.flaw(pictures)
    return pictures


def _draw_place(n: int, rng: np.random.Generator) -> NDArray[np.float64]:
    angle = 0.3 * rng.standard_normal(n)
    size = np.minimum(0.6 * np.exp(0.2 * rng.standard_normal(n)), 0.9)
    centre = 0.5 + 0.45 * (1 - size[:, None]) * rng.uniform(-1, 1, (n, 2))  # the box stays inside
    return np.column_stack([angle, size, centre])


def _draw_colours(n: int, rng: np.random.Generator) -> NDArray[np.float64]:
    """Dark characters on light backgrounds or the other way about; shapes of any colour."""
    low, high = np.array([[0.0, 0.4], [0.0, 1.0], [0.5, 1.0], [0.5, 1.0]]).T[..., None]
    colours = rng.uniform(low, high, (n, 4, 3))
    inverted = rng.random(n) < 0.5
    colours[inverted] = 1 - colours[inverted]
    return colours


def render(pictures: Pictures, stencils: Sequence[Sequence[Any]], side: int) -> NDArray[np.uint8]:
    """Render pictures, (n, 3, side, side), with stencils of every character in every font."""
    shapes = [shape_stencil(shape, side) for shape in SHAPES]
    images = np.empty((len(pictures.font), 3, side, side), np.uint8)
    for start in range(0, len(images), BLOCK):
        rows = slice(start, start + BLOCK)
        part = Pictures._make(values[rows] for values in pictures)
        characters = [stencils[font][character] for font, character in zip(part.font, part.character, strict=True)]
        images[rows] = _colour(
            part, _stamp(characters, part.place, side), _stamp([shapes[i] for i in part.shape], part.shape_place, side)
        )
    return images


def _colour(part: Pictures, character: NDArray[np.float32], shape: NDArray[np.float32]) -> NDArray[np.uint8]:
    """Lay the character over the background and the shape over both, where they cover a part of each pixel."""
    ink, cover, left, right = part.colours.astype(np.float32).transpose(1, 0, 2)[..., None, None]
    image = left + (right - left) * _gradient(part.slope, character.shape[-1])[:, None]
    image += (ink - image) * character[:, None]
    image += (cover - image) * shape[:, None]
    return (image * 255 + np.float32(0.5)).astype(np.uint8)


def _gradient(slope: NDArray[np.float64], side: int) -> NDArray[np.float32]:
    """From 0 to 1 along a direction, (n, side, side)."""
    across = np.linspace(-0.5, 0.5, side)
    x, y = np.cos(slope)[:, None] * across, np.sin(slope)[:, None] * across
    extent = np.abs(np.cos(slope)) + np.abs(np.sin(slope))
    return (0.5 + (x[:, None, :] + y[:, :, None]) / extent[:, None, None]).astype(np.float32)


def _stamp(stencils: Iterable[Any], places: NDArray[np.float64], side: int) -> NDArray[np.float32]:
    """Turn, scale and move each stencil: the part of every pixel that it covers, (n, side, side)."""
    covered = np.zeros((len(places), side, side), np.float32)
    for i, (stencil, (angle, size, x, y)) in enumerate(zip(stencils, places, strict=True)):
        if size > 0:
            covered[i] = _transform(stencil, angle, size, x * side, y * side, side)
    covered /= 255
    return covered


def _transform(stencil: Any, angle: float, size: float, x: float, y: float, side: int) -> Any:
    """A stencil on a canvas, its middle at (x, y) in pixels; stencils are `side` pixels for a size of 1."""
    from PIL import Image

    middle = stencil.width / 2
    cos, sin = np.cos(angle) / size, np.sin(angle) / size
    # Pillow asks where in the stencil a pixel of the canvas comes from.
    to_stencil = (cos, sin, middle - cos * x - sin * y, -sin, cos, middle + sin * x - cos * y)
    return stencil.transform((side, side), Image.Transform.AFFINE, to_stencil, Image.Resampling.BILINEAR)


def shape_stencil(shape: str, side: int) -> Any:
    """A shape whose inscribed circle has a diameter of `side` pixels, in a square of twice that and a rim."""
    from PIL import Image, ImageDraw

    fine = 4 * (side + 1)  # half of the square, drawn four times as large for smooth edges
    canvas = Image.new("L", (2 * fine, 2 * fine))
    draw = ImageDraw.Draw(canvas)
    if shape == "disc":
        draw.ellipse((fine - 2 * side, fine - 2 * side, fine + 2 * side, fine + 2 * side), fill=255)
    else:
        sides, radius = (4, 2 * side * 2**0.5) if shape == "square" else (3, 4 * side)
        draw.regular_polygon((fine, fine, radius), sides, fill=255)
    return canvas.resize((2 * (side + 1), 2 * (side + 1)), Image.Resampling.BOX)


def find_fonts(fonts: Any) -> list[Path]:
    """Font files: those given, those of a folder, or text fonts that come with matplotlib."""
    if fonts is None:
        matplotlib = import_optional("matplotlib", "fonts=None", "matplotlib")
        folder = Path(matplotlib.get_data_path(), "fonts", "ttf")
        return sorted(path for pattern in TEXT_FONTS for path in folder.glob(pattern))
    if not isinstance(fonts, str | Path):
        return [Path(font) for font in fonts]
    folder = Path(fonts).expanduser()
    found = sorted(path for path in folder.rglob("*") if path.suffix.lower() in {".otf", ".ttf"})
    if not found:
        raise no_fonts_error(folder)
    return found


def character_stencils(fonts: Sequence[Path], characters: Sequence[str], side: int) -> list[list[Any]]:
    """Stencils of all characters, for each font that has them all."""
    by_font = [_stencils_of(font, characters, side) for font in fonts]
    complete = [stencils for stencils in by_font if stencils]
    if not complete:
        raise no_complete_font_error(fonts, characters)
    return complete


def _stencils_of(path: Path, characters: Sequence[str], side: int) -> list[Any]:
    """A stencil for each character, or none at all if the font lacks one."""
    from PIL import ImageFont

    with unreadable_explained("fonts", path, "a font file that Pillow reads"):
        # The basic layout, because the other depends on libraries that some builds of Pillow lack.
        font = ImageFont.truetype(str(path), 2 * side, layout_engine=ImageFont.Layout.BASIC)
    drawn = [_ink(font, character, side) for character in characters]
    absent = _ink(font, "\uffff", side)  # no character: what a font draws for those it has not
    seen = [ink.tobytes() if ink else b"" for ink in [*drawn, absent]]
    lacks = b"" in seen[:-1] or len(set(seen)) < len(seen)
    return [] if lacks else [_fitted(ink, side) for ink in drawn]


def _ink(font: Any, character: str, side: int) -> Any:
    """A character cut out at its edges, or None if nothing was drawn."""
    from PIL import Image, ImageDraw

    left, top, right, bottom = font.getbbox(character)
    canvas = Image.new("L", (int(right - left) + 4 * side, int(bottom - top) + 4 * side))
    ImageDraw.Draw(canvas).text((2 * side - left, 2 * side - top), character, fill=255, font=font)
    edges = canvas.getbbox()
    return canvas.crop(edges) if edges else None


def _fitted(ink: Any, side: int) -> Any:
    """A square stencil with a rim, whose ink is `side` pixels at the longer of width and height."""
    from PIL import Image

    shrink = side / max(ink.size)
    size = [max(1, round(length * shrink)) for length in ink.size]
    canvas = Image.new("L", (side + 2, side + 2))
    canvas.paste(ink.resize(size, Image.Resampling.LANCZOS), tuple((side + 2 - length) // 2 for length in size))
    return canvas
