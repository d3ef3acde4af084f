"""The file formats of public sets of images: IDX, the pickles of CIFAR-10, the MATLAB files of SVHN.

A reader takes a file and returns what it holds, checked against what the format promises.
"""

from __future__ import annotations

import math
import pickle
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ._files import content_error, read_bytes, readable

Arrays = tuple[NDArray[Any], NDArray[Any]]

# IDX: four bytes (0, 0, type, number of axes), the length of each axis as a big-endian 32-bit number, the values.


def read_idx(path: Path, n_axes: int) -> NDArray[np.uint8]:
    """An array of unsigned bytes from an IDX file, compressed by gzip or not."""
    with readable("path", path, "a complete file, as it was downloaded"):
        content = read_bytes(path)
    start = 4 + 4 * n_axes
    header, n_bytes = content[:start], len(content) - start
    magic = bytes((0, 0, 8, n_axes))
    if header[:4] != magic or len(header) < start:
        rule = f"unsigned bytes along {n_axes} axes in IDX format: the magic number {int.from_bytes(magic)} and lengths"
        raise content_error(path, rule, f"the magic number {int.from_bytes(header[:4])}")
    shape = tuple(int.from_bytes(header[4 * i : 4 * i + 4]) for i in range(1, n_axes + 1))
    if n_bytes != math.prod(shape):
        rule = f"as many values as its header announces, {' x '.join(map(str, shape))}"
        raise content_error(path, rule, f"{n_bytes}; the download may be incomplete")
    return np.frombuffer(content, np.uint8, offset=start).reshape(shape).copy()


# CIFAR-10: pickles of dicts, written by Python 2, of arrays (10000, 3072) and lists of labels.


class _Stored:
    """What numpy stored of an array or a dtype: arguments of a call and a state, as they stand in the file."""

    state: Any = None

    def __init__(self, *arguments: Any) -> None:
        self.arguments = arguments

    def __setstate__(self, state: Any) -> None:
        self.state = state


class _ArraysOnly(pickle.Unpickler):
    """An unpickler that calls nothing that a file names, not even numpy, whose dtypes accept harmful states."""

    KNOWN = frozenset({("numpy.core.multiarray", "_reconstruct"), ("numpy", "ndarray"), ("numpy", "dtype")})

    def find_class(self, module: str, name: str) -> type:
        if (module, name) not in self.KNOWN:
            raise pickle.UnpicklingError(f"it calls {module}.{name}, and only arrays are read from pickles")
        return _Stored


def _array(value: Any) -> Any:
    """An array of numbers from what numpy stored of it; anything else as it is."""
    if not isinstance(value, _Stored):
        return value
    _, shape, dtype, by_column, content = value.state
    return np.frombuffer(content, dtype.arguments[0].decode()).reshape(shape, order="F" if by_column else "C")


def read_cifar_batch(path: Path) -> Arrays:
    """Images (n, 3, 32, 32) and labels of one of CIFAR-10's files."""
    with readable("path", path, "one of CIFAR-10's own files"), path.open("rb") as file:
        content = _ArraysOnly(file, encoding="bytes").load()
        fields = {key: _array(value) for key, value in content.items()} if isinstance(content, dict) else {}
    images, labels = np.asarray(fields.get(b"data")), np.asarray(fields.get(b"labels"))
    if images.dtype != np.uint8 or images.shape != (labels.size, 3072) or labels.dtype.kind != "i":
        got = f"data of {images.shape} and labels of {labels.shape}" if fields else f"a {type(content).__name__}"
        raise content_error(path, "unsigned bytes `data` (n, 3072) and n whole numbers `labels`", got)
    return images.reshape(-1, 3, 32, 32), labels


# SVHN: MATLAB files with X (32, 32, 3, n) and y (n, 1), where 10 stands for the digit 0.


def read_svhn(path: Path) -> Arrays:
    """Images (n, 3, 32, 32) and labels, 0 for the digit 0."""
    from scipy.io import loadmat

    with readable("path", path, "a MATLAB file, version 5"):
        content = loadmat(path, variable_names=("X", "y"))
    images, labels = (np.asarray(content.get(name, ())) for name in ("X", "y"))
    if images.dtype != np.uint8 or images.shape != (32, 32, 3, labels.size) or not np.isin(labels, range(1, 11)).all():
        got = f"X of {images.shape}, {images.dtype}, and y of {labels.shape}"
        raise content_error(path, "unsigned bytes X (32, 32, 3, n) and n labels y from 1 to 10", got)
    return images.transpose(3, 2, 0, 1), labels.ravel() % 10
