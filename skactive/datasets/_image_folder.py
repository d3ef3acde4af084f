"""Images in a folder with a folder for each class: a list of the files, and the pixels of those you choose."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._checks import import_optional, integer
from ._files import check_folder, check_regular, readable

MIO_TCD: Mapping[str, int] = {
    "articulated_truck": 10_346,
    "background": 160_000,
    "bicycle": 2_284,
    "bus": 10_316,
    "car": 260_518,
    "motorcycle": 1_982,
    "non-motorized_vehicle": 1_751,
    "pedestrian": 6_262,
    "pickup_truck": 50_906,
    "single_unit_truck": 5_120,
    "work_van": 9_679,
}
"""Classes of the training part of MIO-TCD (Luo et al., 2018) and their numbers of images."""

_ENDINGS = {".bmp", ".jpeg", ".jpg", ".png"}

# By their content, whatever the name of the file says. Pillow knows others, and starts a program for some of them.
_FORMATS = ("BMP", "GIF", "JPEG", "JPEG2000", "PNG", "PPM", "TIFF", "WEBP")


def list_image_folder(
    path: str | PathLike[str], counts: Mapping[str, int] | None = None
) -> tuple[NDArray[np.str_], NDArray[np.str_]]:
    """List the images in a folder with a folder for each class, such as MIO-TCD.

    Parameters
    ----------
    path : path
        Folder of folders with ``.jpg``, ``.jpeg``, ``.png`` or ``.bmp`` files.
    counts : dict from str to int, optional
        Names of the classes and numbers of their images, to be checked; ``MIO_TCD`` has those of the folder
        ``MIO-TCD-Classification/train`` of its archive.

    Returns
    -------
    files : ndarray of shape (n,)
        Paths, for `read_images`.
    y : ndarray of shape (n,)
        Classes: the names of the folders.

    Raises
    ------
    FileNotFoundError
        If there is no such folder.
    ValueError
        If it holds no images, or not those of ``counts``.

    See Also
    --------
    datasets.read_images : Reads the files that it lists.

    References
    ----------
    Luo et al. (2018), MIO-TCD: A New Benchmark Dataset for Vehicle Classification and Localization.

    Examples
    --------
    All of MIO-TCD at 64 x 64 pixels takes 6.4 GB. Choose before reading:

    >>> import numpy as np
    >>> from skactive.datasets import MIO_TCD, list_image_folder, read_images
    >>> files, y = list_image_folder("MIO-TCD-Classification/train", MIO_TCD)  # doctest: +SKIP
    >>> rows = np.random.default_rng(0).choice(len(files), 20_000, replace=False)  # doctest: +SKIP
    >>> X, y = read_images(files[rows], 64), y[rows]  # doctest: +SKIP
    """
    folder = check_folder(path)
    pairs = [
        (str(path), place.name)
        for place in sorted(folder.iterdir())
        if place.is_dir()
        for path in sorted(Path(entry) for entry in os.scandir(place) if entry.is_file())  # pipes are left out
        if path.suffix.lower() in _ENDINGS
    ]
    _check_counts(folder, [label for _, label in pairs], counts)
    files, labels = zip(*pairs, strict=True)
    return np.array(files), np.array(labels)


def _check_counts(folder: Path, labels: Sequence[str], counts: Mapping[str, int] | None) -> None:
    """Check that a folder of folders holds images, and as many of each class as it should."""
    found = Counter(labels)
    if not found:
        raise ValueError(f"`path` must hold a folder with images for each class. Got {str(folder)!r} without any.")
    for label in sorted({*(counts or found), *found}):
        if counts is not None and found[label] != counts.get(label, 0):
            raise ValueError(
                f"`path` must hold the classes of `counts` and no others, with as many images. "
                f"Got {found[label]} images in {str(folder / label)!r} instead of {counts.get(label, 0)}."
            )


def read_images(files: Iterable[str | PathLike[str]], size: int) -> NDArray[np.uint8]:
    """Read image files and resize them.

    Parameters
    ----------
    files : iterable of paths
        Files with the content of a BMP, GIF (its first picture), JPEG, JPEG 2000, PNG, PPM, TIFF or WebP file. Pixels
        of 16 bits keep their upper 8.
    size : int
        Height and width in pixels; an image that is not square is stretched.

    Returns
    -------
    ndarray of shape (n, 3, size, size) and dtype uint8
        Red, green and blue.

    Raises
    ------
    FileNotFoundError, ValueError
        If a file is missing or is no such image, with its path; if its pixels are floats or of 32 bits, whose range is
        not known; if it has more pixels than ``PIL.Image.MAX_IMAGE_PIXELS``, after a JPEG file was reduced to what
        ``size`` needs.
    ImportError
        If Pillow is missing.

    See Also
    --------
    datasets.list_image_folder : Lists the files of a folder.

    Examples
    --------
    >>> from skactive.datasets import read_images
    >>> X = read_images(["left.jpg", "right.jpg"], 64)  # doctest: +SKIP
    """
    integer().check("size", size)
    Image = import_optional("PIL.Image", "read_images", "pillow")
    if isinstance(files, str | PathLike):
        raise TypeError(f"`files` must be a list of paths. Got one path, {str(files)!r}: put it in a list.")
    files = list(files)
    images = np.empty((len(files), 3, size, size), np.uint8)
    for pixels, path in zip(images, files, strict=True):
        with readable("files", path, f"an image in one of the formats {', '.join(_FORMATS)}"):
            check_regular(Path(path))
            with Image.open(path, formats=_FORMATS) as image:
                image.draft("RGB", (size, size))  # JPEG files can be decoded at 1/2, 1/4 or 1/8 size
                _check_pixels(image, Image.MAX_IMAGE_PIXELS)
                bytes_ = _with_bytes(image, Image)
                resized = bytes_.convert("RGB").resize((size, size), Image.Resampling.BILINEAR)
        pixels[:] = np.asarray(resized).transpose(2, 0, 1)
    return images


def _check_pixels(image: Any, most: int | None) -> None:
    """Refuse what takes too much memory before it is decoded, where Pillow warns or is silent."""
    if most is not None and image.width * image.height > most:
        raise ValueError(
            f"it has {image.width} x {image.height} pixels, more than PIL.Image.MAX_IMAGE_PIXELS, {most}; raise that "
            "if you trust the file"
        )


def _with_bytes(image: Any, Image: Any) -> Any:
    """The image with bytes as pixels; what Pillow decodes to wider numbers, it would clip to 255 later."""
    if image.mode[0] not in "IF":
        return image
    if not _has_16_bits(image):
        raise ValueError("its pixels are floats or integers of an unusual range; save it with 8 or 16 bits")
    return Image.fromarray((np.asarray(image) >> 8).astype(np.uint8))


def _has_16_bits(image: Any) -> bool:
    """Whether grey values are from 0, black, to 65535: Pillow decodes those of TIFF files as they are stored."""
    if image.format == "TIFF":
        tags = image.tag_v2
        bits, black_is_zero, unsigned = tags.get(258), tags.get(262) == 1, tags.get(339, (1,)) == (1,)
        return bits == (16,) and black_is_zero and unsigned
    return image.mode.startswith("I") and image.format in {"PNG", "PPM", "JPEG2000"}
