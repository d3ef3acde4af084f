"""Public sets of small images: where torchvision or the authors' archives put their files, and what these hold."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._checks import one_of
from .._types import ImageSetName, ImageSplit
from ._files import check_folder, source_named
from ._image_formats import Arrays, read_cifar_batch, read_idx, read_svhn


def load_images(
    name: ImageSetName, path: str | PathLike[str], split: ImageSplit = "train"
) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Load a public set of small images from its files.

    ===================  ==========================================  ===============  =======
    ``name``             images (train, test)                        shape            classes
    ===================  ==========================================  ===============  =======
    ``cifar10``          50,000, 10,000                              (3, 32, 32)      10
    ``emnist_balanced``  112,800, 18,800                             (1, 28, 28)      47
    ``emnist_bymerge``   697,932, 116,323                            (1, 28, 28)      47
    ``fashion_mnist``    60,000, 10,000                              (1, 28, 28)      10
    ``mnist``            60,000, 10,000                              (1, 28, 28)      10
    ``svhn``             73,257, 26,032 (and ``extra``, 531,131)     (3, 32, 32)      10
    ===================  ==========================================  ===============  =======

    Parameters
    ----------
    name : str
        See the table.
    path : path
        The folder that the files are in, or the one given to ``torchvision.datasets`` as ``root``. IDX files may be
        compressed.
    split : {"train", "test", "extra"}

    Returns
    -------
    X : ndarray of shape (n, channels, height, width) and dtype uint8
        EMNIST, whose files hold images on their side, is turned upright.
    y : ndarray of shape (n,) and dtype int64
        From 0 to the number of classes − 1; in SVHN 0 is the digit 0.

    Raises
    ------
    FileNotFoundError
        If a file is missing; the error says which, and how to get it.
    ValueError
        If a file is damaged or does not hold this set: magic numbers, lengths, shapes, labels and the number of images
        are checked.

    See Also
    --------
    datasets.list_image_folder : Images in folders by class.
    datasets.make_characters : Images that need no file.

    Notes
    -----
    CIFAR-10 comes as pickles, which can run code when they are loaded. These are read by an unpickler that makes arrays
    and built-in values only. Of a file that announces more than the set holds, no more is unpacked than its header.

    References
    ----------
    LeCun, Bottou, Bengio and Haffner (1998), MNIST. Xiao, Rasul and Vollgraf (2017), Fashion-MNIST. Cohen, Afshar,
    Tapson and van Schaik (2017), EMNIST. Krizhevsky (2009), CIFAR-10. Netzer et al. (2011), SVHN.

    Examples
    --------
    >>> from skactive.datasets import load_images
    >>> X, y = load_images("mnist", "~/data", "test")  # doctest: +SKIP
    >>> X.shape  # doctest: +SKIP
    (10000, 1, 28, 28)
    """
    one_of(IMAGE_SETS).check("name", name)
    image_set = IMAGE_SETS[name]
    one_of(image_set.counts).check("split", split)
    folder = check_folder(path)
    with source_named(f"{image_set.source} downloads the files."):
        images, labels = image_set.read(folder, split, image_set.counts[split])
        _check_images(images, labels, image_set, split)
    return np.require(images, requirements=["C", "W"]), labels.astype(np.int64)


def _check_images(images: NDArray[Any], labels: NDArray[Any], image_set: ImageSet, split: str) -> None:
    """Check one split against what the set is known to hold."""
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
            f"{last}. Got {found}."
        )


Reader = Callable[[Path, str, int], Arrays]  # (folder, split, number of images) -> images and labels


@dataclass(frozen=True)
class ImageSet:
    """A public set of images."""

    read: Reader
    shape: tuple[int, int, int]
    n_classes: int
    counts: Mapping[str, int]  # of images, by split
    source: str  # a call of torchvision that downloads the files


def _find_file(folder: Path, places: Sequence[str], names: Sequence[str]) -> Path:
    """The first of several names that exists, in a folder or places below it."""
    for place in ("", *places):
        for name in names:
            if (folder / place / name).is_file():
                return folder / place / name
    raise FileNotFoundError(
        f"`path` must hold {' or '.join(names)}, itself or in {' or '.join(places)}. Got {str(folder)!r} without."
    )


def _read_idx_pair(folder: Path, places: Sequence[str], prefix: str, n_images: int) -> Arrays:
    """Images (n, 1, 28, 28) and labels of a pair of IDX files."""
    arrays = []
    for kind, n_axes, most in (("images", 3, 28 * 28 * n_images), ("labels", 1, n_images)):
        names = [f"{prefix}-{kind}{dash}idx{n_axes}-ubyte{ending}" for dash in "-." for ending in ("", ".gz")]
        arrays.append(read_idx(_find_file(folder, places, names), n_axes, most))
    images, labels = arrays
    return images[:, None], labels


def _mnist_like(place: str) -> Reader:
    prefixes = {"train": "train", "test": "t10k"}
    return lambda folder, split, n: _read_idx_pair(folder, ["raw", f"{place}/raw"], prefixes[split], n)


def _emnist(subset: str) -> Reader:
    def read_upright(folder: Path, split: str, n_images: int) -> Arrays:
        places = ["raw", "gzip", "EMNIST/raw", "EMNIST/raw/gzip"]
        images, labels = _read_idx_pair(folder, places, f"emnist-{subset}-{split}", n_images)
        return images.transpose(0, 1, 3, 2), labels  # the files hold every image column by column

    return read_upright


def _cifar10(folder: Path, split: str, _: int) -> Arrays:
    names = [f"data_batch_{i}" for i in range(1, 6)] if split == "train" else ["test_batch"]
    files = [_find_file(folder, ["cifar-10-batches-py"], [name]) for name in names]
    images, labels = zip(*(read_cifar_batch(file) for file in files), strict=True)
    return np.concatenate(images), np.concatenate(labels)


def _svhn(folder: Path, split: str, n_images: int) -> Arrays:
    return read_svhn(_find_file(folder, ["SVHN"], [f"{split}_32x32.mat"]), n_images)


IMAGE_SETS = {
    "cifar10": ImageSet(
        _cifar10,
        (3, 32, 32),
        10,
        {"train": 50_000, "test": 10_000},
        "torchvision.datasets.CIFAR10(path, download=True)",
    ),
    "emnist_balanced": ImageSet(
        _emnist("balanced"),
        (1, 28, 28),
        47,
        {"train": 112_800, "test": 18_800},
        'torchvision.datasets.EMNIST(path, "balanced", download=True)',
    ),
    "emnist_bymerge": ImageSet(
        _emnist("bymerge"),
        (1, 28, 28),
        47,
        {"train": 697_932, "test": 116_323},
        'torchvision.datasets.EMNIST(path, "bymerge", download=True)',
    ),
    "fashion_mnist": ImageSet(
        _mnist_like("FashionMNIST"),
        (1, 28, 28),
        10,
        {"train": 60_000, "test": 10_000},
        "torchvision.datasets.FashionMNIST(path, download=True)",
    ),
    "mnist": ImageSet(
        _mnist_like("MNIST"),
        (1, 28, 28),
        10,
        {"train": 60_000, "test": 10_000},
        "torchvision.datasets.MNIST(path, download=True)",
    ),
    "svhn": ImageSet(
        _svhn,
        (3, 32, 32),
        10,
        {"train": 73_257, "test": 26_032, "extra": 531_131},
        "torchvision.datasets.SVHN(path, split, download=True)",
    ),
}
