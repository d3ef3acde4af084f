"""Readers of the files in which sets of images are handed out: IDX, CIFAR's pickles, SVHN's MAT files.

A reader takes a folder and the name of a split and returns images (n, channels, height, width) and labels as they stand
in the files; `IMAGE_SETS` says of each set where its files lie, as torchvision or the authors' archives lay them, and
what they must hold.
"""

from __future__ import annotations

import gzip
import pickle
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ._checks import (
    check_cifar_batch,
    check_idx_header,
    check_idx_length,
    check_images,
    check_svhn,
    forbidden_in_pickle_error,
    no_file_error,
    unreadable_explained,
)

Arrays = tuple[NDArray[Any], NDArray[Any]]


@dataclass(frozen=True)
class ImageSet:
    """A public set of images."""

    read: Callable[[Path, str, str], Arrays]  # (folder, split, where to get it) -> images and labels
    shape: tuple[int, int, int]
    n_classes: int
    counts: Mapping[str, int]  # of images, by split
    source: str  # an expression of torchvision's that downloads the files


def read(image_set: ImageSet, folder: Path, split: str) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Images and labels of one split, checked against what the set must hold."""
    remedy = f"{image_set.source} downloads the files."
    images, labels = image_set.read(folder, split, remedy)
    check_images(images, labels, image_set, split, remedy)
    return np.require(images, requirements=["C", "W"]), labels.astype(np.int64)


def find_file(folder: Path, places: Sequence[str], names: Sequence[str], remedy: str) -> Path:
    """The first of several names that exists, in a folder or places below it."""
    for place in ("", *places):
        for name in names:
            if (folder / place / name).is_file():
                return folder / place / name
    raise no_file_error(folder, places, names, remedy)


# IDX: four bytes (0, 0, type, number of axes), the length of each axis as a big-endian 32-bit number, the values.


def read_idx(path: Path, n_axes: int, remedy: str) -> NDArray[np.uint8]:
    """An array of unsigned bytes from an IDX file, compressed by gzip or not."""
    with unreadable_explained("path", path, "a whole file, as it was downloaded", remedy):
        content = path.read_bytes()
        content = gzip.decompress(content) if content[:2] == b"\x1f\x8b" else content
    start = 4 + 4 * n_axes
    shape = check_idx_header(path, content[:start], n_axes, remedy)
    check_idx_length(path, len(content) - start, shape, remedy)
    return np.frombuffer(content, np.uint8, offset=start).reshape(shape).copy()


def read_idx_pair(folder: Path, places: Sequence[str], prefix: str, remedy: str) -> Arrays:
    """Images (n, 1, height, width) and labels of a pair of IDX files."""
    arrays = []
    for kind, n_axes in (("images", 3), ("labels", 1)):
        names = [f"{prefix}-{kind}{dash}idx{n_axes}-ubyte{ending}" for dash in "-." for ending in ("", ".gz")]
        arrays.append(read_idx(find_file(folder, places, names, remedy), n_axes, remedy))
    images, labels = arrays
    return images[:, None], labels


def _mnist_like(place: str) -> Callable[[Path, str, str], Arrays]:
    prefixes = {"train": "train", "test": "t10k"}
    return lambda folder, split, remedy: read_idx_pair(folder, ["raw", f"{place}/raw"], prefixes[split], remedy)


def _emnist(subset: str) -> Callable[[Path, str, str], Arrays]:
    def read_upright(folder: Path, split: str, remedy: str) -> Arrays:
        places = ["raw", "gzip", "EMNIST/raw", "EMNIST/raw/gzip"]
        images, labels = read_idx_pair(folder, places, f"emnist-{subset}-{split}", remedy)
        return images.transpose(0, 1, 3, 2), labels  # the files hold every image column by column

    return read_upright


# CIFAR-10: pickles of dicts, written by Python 2, of arrays (10000, 3072) and lists of labels.


class _Stored:
    """What numpy stored of an array or a dtype: arguments of a call and a state, as they stand in the file."""

    state: Any = None

    def __init__(self, *arguments: Any) -> None:
        self.arguments = arguments

    def __setstate__(self, state: Any) -> None:
        self.state = state


class _ArraysOnly(pickle.Unpickler):
    """An unpickler that calls nothing that a file names, not even numpy, whose dtypes take harmful states."""

    KNOWN = frozenset({("numpy.core.multiarray", "_reconstruct"), ("numpy", "ndarray"), ("numpy", "dtype")})

    def find_class(self, module: str, name: str) -> type:
        if (module, name) not in self.KNOWN:
            raise forbidden_in_pickle_error(module, name)
        return _Stored


def _array(value: Any) -> Any:
    """An array of numbers from what numpy stored of it; anything else as it is."""
    if not isinstance(value, _Stored):
        return value
    _, shape, dtype, by_column, content = value.state
    return np.frombuffer(content, dtype.arguments[0].decode()).reshape(shape, order="F" if by_column else "C")


def read_cifar_batch(path: Path, remedy: str) -> Arrays:
    """Images (n, 3, 32, 32) and labels of one of CIFAR-10's files."""
    with (
        unreadable_explained("path", path, "one of CIFAR-10's own files", remedy),
        path.open("rb") as file,
    ):
        content = _ArraysOnly(file, encoding="bytes").load()
        fields = {key: _array(value) for key, value in content.items()} if isinstance(content, dict) else content
    images, labels = check_cifar_batch(path, fields, remedy)
    return images.reshape(-1, 3, 32, 32), labels


def _cifar10(folder: Path, split: str, remedy: str) -> Arrays:
    names = [f"data_batch_{i}" for i in range(1, 6)] if split == "train" else ["test_batch"]
    files = [find_file(folder, ["cifar-10-batches-py"], [name], remedy) for name in names]
    images, labels = zip(*(read_cifar_batch(file, remedy) for file in files), strict=True)
    return np.concatenate(images), np.concatenate(labels)


# SVHN: MATLAB files with X (32, 32, 3, n) and y (n, 1), where 10 stands for the digit 0.


def _svhn(folder: Path, split: str, remedy: str) -> Arrays:
    from scipy.io import loadmat

    path = find_file(folder, ["SVHN"], [f"{split}_32x32.mat"], remedy)
    with unreadable_explained("path", path, "a MATLAB file, version 5", remedy):
        content = loadmat(path, variable_names=("X", "y"))
    images, labels = check_svhn(path, content, remedy)
    return images.transpose(3, 2, 0, 1), labels.ravel() % 10


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
