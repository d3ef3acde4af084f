"""Arrays of numbers in MATLAB files of version 5, as MathWorks' "MAT-File Format" describes them.

`scipy.io.loadmat` reads all that such a file may hold, and can end the process where a byte of it is damaged. This
reads less, checks every length before it asks for memory, and unpacks no more than the header of an array announces.
"""

from __future__ import annotations

import math
import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

_MATRIX, _COMPRESSED = 14, 15
_TYPES = {1: "i1", 2: "u1", 3: "i2", 4: "u2", 5: "i4", 6: "u4", 7: "f4", 9: "f8", 12: "i8", 13: "u8"}  # in the file
_CLASSES = {6: "f8", 7: "f4", 8: "i1", 9: "u1", 10: "i2", 11: "u2", 12: "i4", 13: "u4", 14: "i8", 15: "u8"}
_COMPLEX = 0x800  # a flag beside the class
_MOST_HEADER = 256  # bytes of the lengths, or of the name
_MOST_ELEMENTS = 100
_BLOCK = 2**20


class Stream:
    """The bytes of an element, in order, unpacked on the way where they are compressed."""

    def __init__(self, file: BinaryIO, start: int, n_bytes: int, packed: bool) -> None:
        self.file, self.start, self.end = file, start, start + n_bytes
        self.unpacker = zlib.decompressobj() if packed else None

    def read(self, n_bytes: int) -> bytearray:
        """The next bytes, all of them."""
        content = bytearray()
        while len(content) < n_bytes:
            part = self._part(min(n_bytes - len(content), _BLOCK))
            if part is None:
                raise EOFError("an element ends early")
            content += part
        return content

    def check_end(self) -> None:
        """Unpack to the end, where the checksum of what was compressed is; nothing but padding may be left."""
        left = 0
        while self.unpacker and not self.unpacker.eof:
            part = self._part(8)
            left += len(part or b"")
            if part is None or left > 8:
                raise EOFError("a compressed element is longer or shorter than its header announces")

    def _part(self, n_bytes: int) -> bytes | None:
        """Some of the next bytes, possibly none, or None at the end."""
        if self.unpacker is None:
            return self._stored(n_bytes) or None
        if self.unpacker.eof:
            return None
        packed = self.unpacker.unconsumed_tail or self._stored(_BLOCK)
        part = self.unpacker.decompress(packed, n_bytes)
        return part if part or packed else None

    def _stored(self, n_bytes: int) -> bytes:
        self.file.seek(self.start)
        content = self.file.read(min(n_bytes, self.end - self.start))
        self.start += len(content)
        return content


@dataclass(frozen=True)
class Matrix:
    """An array in a file whose header has been read. It is there as long as the file is open."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    order: str
    stream: Stream

    def __str__(self) -> str:
        return f"{self.shape}, {self.dtype}"

    def values(self) -> NDArray[Any]:
        """The array. To be called once."""
        kind, n_bytes, content = _read_tag(self.stream, self.order)
        stored = np.dtype(self.order + _TYPES[kind])
        if n_bytes != math.prod(self.shape) * stored.itemsize:
            raise ValueError(f"an array of shape {self.shape} cannot have {n_bytes} bytes")
        content = content or self.stream.read(n_bytes)
        self.stream.check_end()
        values = np.frombuffer(content, stored, math.prod(self.shape)).astype(self.dtype, copy=False)
        return values.reshape(self.shape, order="F")


def matrices(file: BinaryIO) -> dict[str, Matrix]:
    """Arrays of real numbers in an open file by their names; all else that it holds is left out."""
    header = file.read(128)
    order = {b"IM": "<", b"MI": ">"}.get(header[126:])
    if order is None or struct.unpack(f"{order}H", header[124:126]) != (0x100,):
        raise ValueError("it does not begin as one")
    found = (_read_header(stream, order) for stream in islice(_elements(file, order), _MOST_ELEMENTS))
    return dict(pair for pair in found if pair)


def _elements(file: BinaryIO, order: str) -> Iterator[Stream]:
    """The matrices of a file, each as its bytes from its flags on."""
    size, start = file.seek(0, 2), 128
    while start < size:
        file.seek(start)
        kind, n_bytes = struct.unpack(f"{order}II", file.read(8))
        if kind not in {_MATRIX, _COMPRESSED} or start + 8 + n_bytes > size:
            raise ValueError(f"an element of type {kind} with {n_bytes} bytes cannot be at byte {start} of {size}")
        stream = Stream(file, start + 8, n_bytes, kind == _COMPRESSED)
        if kind == _MATRIX or struct.unpack(f"{order}I", stream.read(8)[:4]) == (_MATRIX,):
            yield stream
        start += 8 + n_bytes


def _read_header(stream: Stream, order: str) -> tuple[str, Matrix] | None:
    """The name and the header of a matrix, if it holds real numbers."""
    flags = struct.unpack(f"{order}I", _read_small(stream, order)[:4])[0]
    if flags & 0xFF not in _CLASSES or flags & _COMPLEX:
        return None
    lengths = _read_small(stream, order)
    shape = struct.unpack(f"{order}{len(lengths) // 4}i", lengths)
    if min(shape, default=0) < 0:
        raise ValueError(f"an array cannot have the shape {shape}")
    name = _read_small(stream, order).decode("latin-1")
    return name, Matrix(shape, np.dtype(_CLASSES[flags & 0xFF]), order, stream)


def _read_small(stream: Stream, order: str) -> bytearray:
    """One of the parts of a header, padded to multiples of eight bytes."""
    _, n_bytes, content = _read_tag(stream, order)
    if n_bytes > _MOST_HEADER:
        raise ValueError(f"a part of a header cannot have {n_bytes} bytes")
    return content or stream.read(n_bytes + -n_bytes % 8)[:n_bytes]


def _read_tag(stream: Stream, order: str) -> tuple[int, int, bytearray]:
    """Type and number of bytes of the next part, and these bytes if they are in the tag itself, four or fewer."""
    tag = stream.read(8)
    kind, n_bytes = struct.unpack(f"{order}II", tag)
    if kind < 2**16:
        return kind, n_bytes, bytearray()
    kind, n_bytes = kind & 0xFFFF, kind >> 16
    if n_bytes > 4:
        raise ValueError(f"a tag cannot hold {n_bytes} bytes")
    return kind, n_bytes, tag[4 : 4 + n_bytes]
