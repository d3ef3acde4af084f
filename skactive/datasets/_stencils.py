"""Stencils of characters and shapes, which Pillow draws, turns and scales."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from .._checks import import_optional
from ._files import readable

SHAPES = ("disc", "square", "triangle")
# Of the fonts that come with matplotlib, those with letters at the code points of letters.
TEXT_FONTS = ("DejaVuS*.ttf", "STIXGeneral*.ttf", "cmb10.ttf", "cmmi10.ttf", "cmr10.ttf", "cmss10.ttf", "cmt?10.ttf")


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
    """Font files: those given, those in a folder, or text fonts that come with matplotlib."""
    if fonts is None:
        matplotlib = import_optional("matplotlib", "fonts=None", "matplotlib")
        folder = Path(matplotlib.get_data_path(), "fonts", "ttf")
        return sorted(path for pattern in TEXT_FONTS for path in folder.glob(pattern))
    if not isinstance(fonts, str | Path):
        return [Path(font) for font in fonts]
    folder = Path(fonts).expanduser()
    found = sorted(path for path in folder.rglob("*") if path.suffix.lower() in {".otf", ".ttf"})
    if not found:
        got = "a folder without any" if folder.is_dir() else "not a folder"
        raise ValueError(
            "`fonts` must be a folder with .ttf or .otf files, a list of such files, or None. "
            f"Got {str(folder)!r}, which is {got}."
        )
    return found


def character_stencils(fonts: Sequence[Path], characters: Sequence[str], side: int) -> list[list[Any]]:
    """Stencils of all characters, for each font that has them all."""
    by_font = [_stencils_of(font, characters, side) for font in fonts]
    complete = [stencils for stencils in by_font if stencils]
    if not complete:
        raise ValueError(
            f"`fonts` must hold a font with every one of the `characters` {''.join(characters)!r}. None of the "
            f"{len(fonts)} has a different shape for each of them."
        )
    return complete


def _stencils_of(path: Path, characters: Sequence[str], side: int) -> list[Any]:
    """A stencil for each character, or none at all if the font lacks one."""
    from PIL import ImageFont

    with readable("fonts", path, "a font file that Pillow reads"):
        # The basic layout, because the other depends on libraries that some builds of Pillow lack.
        font = ImageFont.truetype(str(path), 2 * side, layout_engine=ImageFont.Layout.BASIC)
    drawn = [_ink(font, character, side) for character in characters]
    absent = _ink(font, "\uffff", side)  # not a character: what a font draws for those it lacks
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


def transform(stencil: Any, angle: float, size: float, x: float, y: float, side: int) -> Any:
    """A stencil on a canvas, its middle at (x, y) in pixels; stencils are `side` pixels for a size of 1."""
    from PIL import Image

    middle = stencil.width / 2
    cos, sin = np.cos(angle) / size, np.sin(angle) / size
    # Pillow asks where in the stencil a pixel of the canvas comes from.
    to_stencil = (cos, sin, middle - cos * x - sin * y, -sin, cos, middle + sin * x - cos * y)
    return stencil.transform((side, side), Image.Transform.AFFINE, to_stencil, Image.Resampling.BILINEAR)
