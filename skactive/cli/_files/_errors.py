"""What is said of a file in trouble: the error, its wording, and the library that is not there."""

from __future__ import annotations

import importlib
from typing import Any


class FileError(ValueError):
    """What is wrong with a file, in one line: the file, the line where it is known, the trouble, the remedy."""


def file_error(path: Any, trouble: str, line: int | None = None, *, unit: str = "line") -> FileError:
    return FileError(f"{path}{'' if line is None else f', {unit} {line}'}: {' '.join(trouble.split())}")


def needed(module: str, path: Any) -> Any:
    try:
        return importlib.import_module(module)
    except ImportError as error:
        name = module.partition(".")[0]
        trouble = f'{name} is needed for this file: python -m pip install "skactive[tabular]"'
        raise file_error(path, trouble) from error
