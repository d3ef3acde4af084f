"""Images in a folder of folders, one a class: which there are, and the pixels of those one wants."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._checks import import_optional
from ._checks import check_image_folder, unreadable_explained

ENDINGS = {".bmp", ".jpeg", ".jpg", ".png"}


def list_folder(folder: Path, counts: Mapping[str, int] | None) -> tuple[NDArray[Any], NDArray[np.str_]]:
    """Files and the names of the folders they lie in, in alphabetical order."""
    pairs = [
        (str(path), place.name)
        for place in sorted(folder.iterdir())
        if place.is_dir()
        for path in sorted(place.iterdir())
        if path.suffix.lower() in ENDINGS
    ]
    check_image_folder(folder, [label for _, label in pairs], counts)
    files, labels = zip(*pairs, strict=True)
    return np.array(files), np.array(labels)


def read_images(files: Iterable[Any], size: int) -> NDArray[np.uint8]:
    """Pixels of image files, (n, 3, size, size)."""
    Image = import_optional("PIL.Image", "read_images", "pillow")
    files = list(files)
    images = np.empty((len(files), 3, size, size), np.uint8)
    for pixels, path in zip(images, files, strict=True):
        with unreadable_explained("files", path, "an image that Pillow reads"), Image.open(path) as image:
            image.draft(
                "RGB", (size, size)
            )  # JPEG files can be decoded at a half, a quarter or an eighth of their size
            resized = image.convert("RGB").resize((size, size), Image.Resampling.BILINEAR)
        pixels[:] = np.asarray(resized).transpose(2, 0, 1)
    return images
