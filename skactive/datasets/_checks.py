"""What a data set refuses or warns of, and in which words."""

from __future__ import annotations

import math
import pickle
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._checks import is_number


def check_key(name: str, value: Any, known: Iterable[str]) -> None:
    """Check that a value is one of some names."""
    known = sorted(known)
    if value not in known:
        raise ValueError(f"`{name}` must be one of {', '.join(map(repr, known))}. Got {value!r} instead.")


def check_probability(name: str, value: Any) -> float:
    if not is_number(value):
        raise TypeError(f"`{name}` must be a number from 0 to 1. Got {value!r} instead.")
    if not 0 <= value <= 1:
        raise ValueError(f"`{name}` must be a probability, from 0 to 1. Got {value!r} instead.")
    return float(value)


def check_characters(characters: Any) -> list[str]:
    """Check that characters are two or more, all different."""
    if isinstance(characters, bytes) or not all(isinstance(character, str) for character in characters):
        raise TypeError(f"`characters` must be a string or a list of strings. Got {characters!r} instead.")
    if len(characters) < 2 or len(set(characters)) < len(characters) or "" in list(characters):
        raise ValueError(f"`characters` must be two or more, all different. Got {characters!r} instead.")
    return list(characters)


def no_fonts_error(folder: Path) -> ValueError:
    got = "a folder without any" if folder.is_dir() else "no folder"
    return ValueError(
        f"`fonts` must be a folder that holds .ttf or .otf files, a list of such files, or None. Got {str(folder)!r}, "
        f"which is {got}."
    )


def no_complete_font_error(fonts: Sequence[Path], characters: Sequence[str]) -> ValueError:
    return ValueError(
        f"`fonts` must hold a font with every one of the `characters` {''.join(characters)!r}. None of the "
        f"{len(fonts)} has them all, each with a shape of its own."
    )


@contextmanager
def unreadable_explained(name: str, path: Any, rule: str, remedy: str = "") -> Iterator[None]:
    """Say which file was at fault and what it must be, whatever its reader raised."""
    try:
        yield
    except FileNotFoundError:  # says so, and names the file
        raise
    except Exception as error:
        problem = f"Reading it failed: {type(error).__name__}: {error}."
        raise ValueError(f"`{name}`: {str(path)!r} must be {rule}. {problem} {remedy}".rstrip()) from error


def check_folder(path: Any) -> Path:
    folder = Path(path).expanduser()
    if not folder.is_dir():
        raise FileNotFoundError(f"`path` must be a folder. Got {str(folder)!r}.")
    return folder


def no_file_error(folder: Path, places: Sequence[str], names: Sequence[str], remedy: str) -> FileNotFoundError:
    return FileNotFoundError(
        f"`path` must hold {' or '.join(names)}, itself or in {' or '.join(places)}. Got {str(folder)!r} without. "
        + remedy
    )


def _content_error(path: Any, rule: str, got: str, remedy: str) -> ValueError:
    return ValueError(f"`path`: {str(path)!r} must hold {rule}. Got {got}. {remedy}")


def check_idx_header(path: Path, header: bytes, n_axes: int, remedy: str) -> tuple[int, ...]:
    """The lengths of the axes that the header of an IDX file announces."""
    magic = bytes((0, 0, 8, n_axes))
    if header[:4] != magic or len(header) < 4 + 4 * n_axes:
        rule = f"unsigned bytes along {n_axes} axes in IDX format: the magic number {int.from_bytes(magic)} and lengths"
        raise _content_error(path, rule, f"the magic number {int.from_bytes(header[:4])}", remedy)
    return tuple(int.from_bytes(header[4 * i : 4 * i + 4]) for i in range(1, n_axes + 1))


def check_idx_length(path: Path, n_bytes: int, shape: tuple[int, ...], remedy: str) -> None:
    if n_bytes != math.prod(shape):
        rule = f"as many values as its header announces, {' x '.join(map(str, shape))}"
        raise _content_error(path, rule, f"{n_bytes}", f"Was it cut off? {remedy}")


def forbidden_in_pickle_error(module: str, name: str) -> pickle.UnpicklingError:
    return pickle.UnpicklingError(f"it asks for {module}.{name}, and arrays are all that is read from pickles")


def check_cifar_batch(path: Path, content: Any, remedy: str) -> tuple[NDArray[np.uint8], NDArray[Any]]:
    fields = content if isinstance(content, dict) else {}
    images, labels = np.asarray(fields.get(b"data")), np.asarray(fields.get(b"labels"))
    if images.dtype != np.uint8 or images.shape != (labels.size, 3072) or labels.dtype.kind != "i":
        got = f"data of {images.shape} and labels of {labels.shape}" if fields else f"a {type(content).__name__}"
        raise _content_error(path, "unsigned bytes `data` (n, 3072) and n whole numbers `labels`", got, remedy)
    return images, labels


def check_svhn(path: Path, content: Mapping[str, Any], remedy: str) -> tuple[NDArray[np.uint8], NDArray[Any]]:
    images, labels = (np.asarray(content.get(name, ())) for name in ("X", "y"))
    if images.dtype != np.uint8 or images.shape != (32, 32, 3, labels.size) or not np.isin(labels, range(1, 11)).all():
        got = f"X of {images.shape}, {images.dtype}, and y of {labels.shape}"
        raise _content_error(path, "unsigned bytes X (32, 32, 3, n) and n labels y from 1 to 10", got, remedy)
    return images, labels


def check_images(images: NDArray[Any], labels: NDArray[Any], image_set: Any, split: str, remedy: str) -> None:
    """Check one split of a public set of images against what it is known to hold."""
    n_images, shape, last = image_set.counts[split], image_set.shape, image_set.n_classes - 1
    found = ""
    if images.shape[1:] != shape:
        found = f"images of shape {images.shape[1:]}"
    elif len(images) != len(labels):
        found = f"{len(images)} images and {len(labels)} labels"
    elif not 0 <= labels.min(initial=0) <= labels.max(initial=0) <= last:
        found = f"labels from {labels.min()} to {labels.max()}"
    elif len(images) != n_images:
        found = f"{len(images)} images"
    if found:
        raise ValueError(
            f"`path` must hold the {split} split of the set, {n_images} images of shape {shape} with labels from 0 to "
            f"{last}. Got {found}. {remedy}"
        )


def check_image_folder(folder: Path, labels: Sequence[str], counts: Mapping[str, int] | None) -> None:
    """Check that a folder of folders holds images, and as many of each class as it should."""
    found = Counter(labels)
    if not found:
        raise ValueError(f"`path` must hold a folder for each class, with images. Got {str(folder)!r} without.")
    for label in sorted({*(counts or found), *found}):
        if counts is not None and found[label] != counts.get(label, 0):
            raise ValueError(
                f"`path` must hold a folder for each class of `counts` and no others, with as many images. "
                f"Got {found[label]} images in {str(folder / label)!r} instead of {counts.get(label, 0)}."
            )


def check_clinc150(path: Path, content: Any, split: str, remedy: str) -> list[tuple[str, str]]:
    """Check the pairs of one split: a sentence and one of 150 intents, or `oos` alone."""
    pairs = content.get(split) if isinstance(content, dict) else None
    if not pairs:
        known = f"the splits {', '.join(content)}" if isinstance(content, dict) else f"a {type(content).__name__}"
        raise _content_error(path, f"the split {split!r}", known, remedy)
    for row, pair in enumerate(pairs):
        if len(pair) != 2 or not all(isinstance(part, str) for part in pair):
            raise _content_error(path, "pairs of a sentence and an intent", f"{pair!r} in row {row} of {split}", remedy)
    intents = {intent for _, intent in pairs}
    n_expected = 1 if split.startswith("oos") else 150
    if len(intents) != n_expected:
        raise _content_error(path, f"{n_expected} intents in {split}", f"{len(intents)}", remedy)
    return pairs


def check_ihdp(path: Path, treatment: NDArray[np.float64], white: NDArray[np.float64], remedy: str) -> None:
    """Check that a table has the rows that it is known to have."""
    both = np.isin(treatment, (0, 1)) & np.isin(white, (0, 1))
    got = (len(treatment), int((treatment == 1).sum()), int(((treatment == 1) & (white == 1)).sum()))
    if not both.all() or got != (985, 377, 139):
        shown = f"{got[0]} rows, {got[1]} of them treated, {got[2]} of these of white mothers"
        raise _content_error(
            path, "the 985 rows of IHDP, 377 of them treated, 139 of these of white mothers", shown, remedy
        )
