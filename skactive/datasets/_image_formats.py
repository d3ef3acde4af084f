"""The file formats of public sets of images: IDX, the pickles of CIFAR-10, the MATLAB files of SVHN.

A reader takes a file and returns what it holds, checked against what the format promises.
"""

from __future__ import annotations

import io
import math
import pickle
import pickletools
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ._files import content_error, opened, read_bytes, read_start, readable
from ._mat_files import Matrix, matrices

Arrays = tuple[NDArray[Any], NDArray[Any]]

# IDX: four bytes (0, 0, type, number of axes), the length of each axis as a big-endian 32-bit number, the values.


def read_idx(path: Path, n_axes: int, most: int) -> NDArray[np.uint8]:
    """An array of unsigned bytes, at most so many, from an IDX file, compressed by gzip or not."""
    start, rule = 4 + 4 * n_axes, "a complete file, as it was downloaded"
    with readable("path", path, rule):
        header = read_start(path, start)
    shape = _idx_shape(path, header, n_axes, most)
    end = start + math.prod(shape)
    with readable("path", path, rule):
        content = read_start(path, end + 1)
    if len(content) != end:
        rule = f"as many values as its header announces, {' x '.join(map(str, shape))}"
        got = "more" if len(content) > end else f"{len(content) - start}; the download may be incomplete"
        raise content_error(path, rule, got)
    return np.frombuffer(content, np.uint8, offset=start).reshape(shape).copy()


def _idx_shape(path: Path, header: bytes, n_axes: int, most: int) -> tuple[int, ...]:
    """The shape that a header announces."""
    magic = bytes((0, 0, 8, n_axes))
    if header[:4] != magic or len(header) < 4 + 4 * n_axes:
        rule = f"unsigned bytes along {n_axes} axes in IDX format: the magic number {int.from_bytes(magic)} and lengths"
        raise content_error(path, rule, f"the magic number {int.from_bytes(header[:4])}")
    shape = tuple(int.from_bytes(header[4 * i : 4 * i + 4]) for i in range(1, n_axes + 1))
    if math.prod(shape) > most:
        raise content_error(path, f"{most} values or fewer", f"a header that announces {' x '.join(map(str, shape))}")
    return shape


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


_NO_TUPLES = frozenset(
    {"BINSTRING", "BINUNICODE", "DICT", "EMPTY_DICT", "EMPTY_LIST", "GLOBAL", "LIST", "REDUCE", "SHORT_BINSTRING"}
    | {"STRING", "UNICODE"}
)


def _load_pickle(content: bytes) -> Any:
    """What a pickle of Python 2 holds, unless it is made to take much more memory or time than its size accounts for.

    A tuple that holds another twice, and so on, takes forever to hash: what may be one is not used again.
    """
    before, reusable = "", set[Any]()
    for opcode, argument, _ in pickletools.genops(content):  # which checks the length that a string announces
        if opcode.proto > 2 or opcode.name == "DUP":
            raise pickle.UnpicklingError(f"it uses {opcode.name}, which Python 2 does not")
        if opcode.name in {"PUT", "BINPUT", "LONG_BINPUT"}:
            if int(argument or 0) > len(content):
                raise pickle.UnpicklingError(f"it announces {argument} values to be used again")
            reusable.discard(argument)
            reusable |= {argument} if before in _NO_TUPLES else set()
        elif opcode.name in {"GET", "BINGET", "LONG_BINGET"} and argument not in reusable:
            raise pickle.UnpicklingError(f"it uses value {argument} again, and only lists, texts and arrays may be")
        before = opcode.name
    return _ArraysOnly(io.BytesIO(content), encoding="bytes").load()


def _labels_of(value: Any) -> NDArray[Any]:
    """Labels from a flat list of integers; lists in lists can be small in a file and huge as an array."""
    if isinstance(value, np.ndarray) and value.dtype.kind == "i":
        return value.ravel()
    flat = isinstance(value, list) and all(type(label) is int for label in value)
    return np.array(value if flat else (), dtype=np.int64)


def read_cifar_batch(path: Path) -> Arrays:
    """Images (n, 3, 32, 32) and labels of one of CIFAR-10's files."""
    with readable("path", path, "one of CIFAR-10's own files"):
        content = _load_pickle(read_bytes(path))
        fields = {key: _array(value) for key, value in content.items()} if isinstance(content, dict) else {}
        data, labels = fields.get(b"data"), _labels_of(fields.get(b"labels"))
        images = data if isinstance(data, np.ndarray) else np.empty(())
    if images.dtype != np.uint8 or images.shape != (labels.size, 3072):
        got = f"data of {images.shape} and labels of {labels.shape}" if fields else f"a {type(content).__name__}"
        raise content_error(path, "unsigned bytes `data` (n, 3072) and n whole numbers `labels`", got)
    return images.reshape(-1, 3, 32, 32), labels


# SVHN: MATLAB files with X (32, 32, 3, n) and y (n, 1), where 10 stands for the digit 0.


def read_svhn(path: Path, most: int) -> Arrays:
    """Images (n, 3, 32, 32), at most so many, and labels, 0 for the digit 0."""
    with readable("path", path, "a MATLAB file, version 5"), opened(path) as file:
        found = matrices(file)
        arrays = [found[name].values() for name in ("X", "y")] if _is_svhn(found, most) else []
    if not arrays or not np.isin(arrays[1], range(1, 11)).all():
        rule = f"unsigned bytes X (32, 32, 3, n), n at most {most}, and n labels y from 1 to 10"
        got = (f"{name} of {found[name]}" if name in found else f"no numbers {name}" for name in ("X", "y"))
        raise content_error(path, rule, " and ".join(got))
    images, labels = arrays
    return images.transpose(3, 2, 0, 1), labels.ravel() % 10


def _is_svhn(found: dict[str, Matrix], most: int) -> bool:
    """Whether headers announce images and as many labels, so that it makes sense to read them."""
    if not {"X", "y"} <= found.keys():
        return False
    X, n_labels = found["X"], math.prod(found["y"].shape)
    return X.dtype == np.uint8 and X.shape == (32, 32, 3, n_labels) and n_labels <= most
