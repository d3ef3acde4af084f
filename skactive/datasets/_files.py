"""Files of the user: read, decompressed, and named in the error where they are not what they should be."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

MOST_BYTES = 2**26
"""Of a text or a pickle, unpacked: ten times what the largest of those described here holds, and more."""


def check_folder(path: Any) -> Path:
    folder = Path(path).expanduser()
    if not folder.is_dir():
        raise FileNotFoundError(f"`path` must be a folder. Got {str(folder)!r}.")
    return folder


def check_regular(path: Path) -> None:
    """Refuse pipes and devices, which may wait or go on forever; what is missing is left to be found missing."""
    if path.exists() and not path.is_file():
        raise ValueError("it is not a regular file")


@contextmanager
def opened(path: Path) -> Iterator[BinaryIO]:
    check_regular(path)
    with path.open("rb") as file:
        yield file


def read_start(path: Path, n_bytes: int) -> bytes:
    """The first bytes of a file, which may be compressed by gzip; no more than these are unpacked."""
    with opened(path) as file:
        packed = file.read(2) == b"\x1f\x8b"
        file.seek(0)
        return gzip.GzipFile(fileobj=file).read(n_bytes) if packed else file.read(n_bytes)


def read_bytes(path: Path) -> bytes:
    """Content of a file of reasonable size, which may be compressed by gzip."""
    content = read_start(path, MOST_BYTES + 1)
    if len(content) > MOST_BYTES:
        raise ValueError(f"it holds more than {MOST_BYTES >> 20} MiB, unpacked")
    return content


@contextmanager
def readable(name: str, path: Any, rule: str) -> Iterator[None]:
    """Name the file, and say what it must be, whatever its reader raises."""
    try:
        yield
    except FileNotFoundError:  # says so, and names the file
        raise
    except Exception as error:
        problem = f"Reading it failed: {type(error).__name__}: {error}."
        raise ValueError(f"`{name}`: {str(path)!r} must be {rule}. {problem}") from error


def content_error(path: Any, rule: str, got: str) -> ValueError:
    return ValueError(f"`path`: {str(path)!r} must hold {rule}. Got {got}.")


@contextmanager
def source_named(source: str) -> Iterator[None]:
    """Add to an error about a file where to get the right one."""
    try:
        yield
    except FileNotFoundError as error:
        raise FileNotFoundError(f"{str(error).rstrip('.')}. {source}") from error.__cause__
    except ValueError as error:
        raise ValueError(f"{error} {source}") from error.__cause__
