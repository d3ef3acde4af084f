"""Pictures of characters with a flaw: a rare colour, a colour that goes with the class, or hidden characters.

After Synbols (Lacoste et al., 2020): a character in one of many fonts, turned, scaled and moved, on a gradient. What is
random about the pictures is drawn first, and they are rendered afterwards, so labels and groups do not depend on the
fonts. Characters and shapes are stencils that Pillow turns and scales; numpy colours a block of pictures at a time.

Lengths and positions are fractions of the side of a picture; colours lie between 0 and 1.
"""

from __future__ import annotations

import string
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from os import PathLike
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .._checks import integer, number, one_of
from .._random import check_rng
from .._types import SettingName
from ._stencils import SHAPES, character_stencils, find_fonts, shape_stencil, transform

RED_OR_BLUE = np.array([[1.0, 0.0, 0.0], [0.0, 0.0, 1.0]])
BLOCK = 256  # pictures that are coloured at a time


def make_characters(
    n: int,
    setting: SettingName,
    rng: np.random.Generator,
    *,
    p: float | None = None,
    size: int = 32,
    characters: str | Sequence[str] | None = None,
    fonts: str | PathLike[str] | Sequence[str | PathLike[str]] | None = None,
) -> tuple[NDArray[np.uint8], NDArray[np.str_], NDArray[np.str_]]:
    """Draw images of characters with a flaw, for questions of fairness and noise.

    Each image shows a character in one of many fonts, turned, scaled and moved at random, before a gradient.

    ==============  ==========================================================  =====================  ============
    ``setting``     flaw                                                        groups                 ``p``
    ==============  ==========================================================  =====================  ============
    ``"minority"``  one colour is rare: P(blue) = p                             red, blue              0.1
    ``"spurious"``  colours go with classes: P(blue) = p for the first, third,  red, blue              0.9
                    ... of the characters and 1 − p for the others
    ``"missing"``   labels cannot be known: P(hidden) = p; a hidden character   visible, hidden        0.1
                    lies behind a shape that contains all of it
    ==============  ==========================================================  =====================  ============

    Use ``p=0.5`` for a test set with fair colours. In the first two settings each image has a small shape at a random
    place, which may cover part of the character.

    Parameters
    ----------
    n : int
        Number of images.
    setting : {"minority", "missing", "spurious"}
    rng : numpy.random.Generator
    p : float, optional
        Probability of the second group, see the table.
    size : int
        Height and width in pixels.
    characters : str or sequence of str, optional
        The classes, equally likely: "ad" by default, and the 26 small letters for "missing".
    fonts : path or sequence of paths, optional
        A folder with ``.ttf`` and ``.otf`` files, or such files. Fonts that lack one of the characters are left out. By
        default the text fonts that come with matplotlib, about twenty: DejaVu, STIX, Computer Modern.

    Returns
    -------
    X : ndarray of shape (n, 3, size, size) and dtype uint8
        Red, green and blue.
    y : ndarray of shape (n,)
        The characters.
    groups : ndarray of shape (n,)
        The group of each image; fairness compares the accuracies of groups.

    Raises
    ------
    ValueError, TypeError
        If a parameter is not as described, or no font has all characters.
    ImportError
        If Pillow is missing, or matplotlib for the default fonts.

    See Also
    --------
    datasets.make_repeated : Pools with near-duplicates.
    datasets.load_images : Real images.

    Notes
    -----
    Labels and groups do not depend on fonts or size; pixels also depend on the versions of the fonts and of Pillow. The
    sizes, angles and colours follow Synbols in kind and not in detail, and there are fewer fonts: accuracies found with
    one do not carry over to the other.

    References
    ----------
    Lacoste et al. (2020), Synbols: Probing Learning Algorithms with Synthetic Datasets.
    Branchaud-Charron, Atighehchian, Rodríguez, Abuhamad and Lacoste (2021), Can Active Learning Preemptively Mitigate
    Fairness Issues?

    Examples
    --------
    >>> import numpy as np
    >>> from skactive.datasets import make_characters
    >>> X, y, groups = make_characters(6, "minority", np.random.default_rng(0), p=0.5, size=16)
    >>> X.shape, y.tolist(), groups.tolist()
    ((6, 3, 16, 16), ['d', 'd', 'd', 'a', 'a', 'a'], ['blue', 'red', 'red', 'red', 'red', 'red'])
    """
    integer().check("n", n)
    integer().check("size", size)
    one_of(SETTINGS).check("setting", setting)
    number(0, 1).or_none().check("p", p)
    check_rng(rng)
    flaw = SETTINGS[setting]
    letters = _check_characters(flaw.characters if characters is None else characters)
    stencils = character_stencils(find_fonts(fonts), letters, size)
    pictures = draw(flaw, n, len(letters), len(stencils), flaw.p if p is None else p, rng)
    images = render(pictures, stencils, size)
    return images, np.array(letters)[pictures.character], np.array(flaw.groups)[pictures.group]


def _check_characters(characters: Any) -> list[str]:
    is_listed = isinstance(characters, Iterable) and not isinstance(characters, bytes)
    if not is_listed or not all(isinstance(character, str) for character in characters):
        raise TypeError(f"`characters` must be a string or a list of strings. Got {characters!r} instead.")
    if len(characters) < 2 or len(set(characters)) < len(characters) or "" in list(characters):
        raise ValueError(f"`characters` must be two or more, all different. Got {characters!r} instead.")
    return list(characters)


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
    """A flaw of a data set: two groups, how often a class is in the second, and how a picture shows that."""

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
    """Dark characters on light backgrounds or the reverse; shapes of any colour."""
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
    """Lay the character over the background and the shape over both, by the fraction of each pixel that they cover."""
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
    """Turn, scale and move each stencil: the fraction of every pixel that it covers, (n, side, side)."""
    covered = np.zeros((len(places), side, side), np.float32)
    for i, (stencil, (angle, size, x, y)) in enumerate(zip(stencils, places, strict=True)):
        if size > 0:
            covered[i] = transform(stencil, angle, size, x * side, y * side, side)
    covered /= 255
    return covered
