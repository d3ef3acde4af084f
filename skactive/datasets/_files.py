"""Files of the user: read, decompressed, and named in the error where they are not what they should be."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any


def check_folder(path: Any) -> Path:
    folder = Path(path).expanduser()
    if not folder.is_dir():
        raise FileNotFoundError(f"`path` must be a folder. Got {str(folder)!r}.")
    return folder


def read_bytes(path: Path) -> bytes:
    """Content of a file, which may be compressed by gzip."""
    content = path.read_bytes()
    return gzip.decompress(content) if content[:2] == b"\x1f\x8b" else content


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
