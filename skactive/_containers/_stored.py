"""Rows that were read once, for queries that look at a pool again: in memory if they are few, else in files."""

from __future__ import annotations

import shutil
import tempfile
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import joblib
import numpy as np
from numpy.typing import NDArray

Indices = NDArray[np.int64]
Where = int | Indices
"""The position of the first row of a block whose rows follow one another in the pool, or the positions of all."""

MOST_IN_MEMORY = 64 * 2**20
"""Bytes of rows up to which they stay in memory."""


class Stored:
    """A source of rows that are kept; the folder goes with it.

    Attributes
    ----------
    total : int or None
        Rows of the whole pool, of which some may be kept.
    n_bytes : int
        What the files take; 0 if there are none.
    """

    name = "stored pool"
    is_once = False
    reads_ahead = False  # files are mapped into memory, and read when their rows are

    def __init__(self, total: int | None = None) -> None:
        self.total = total
        self.n_bytes = 0
        self._in_memory = 0.0
        self._folder: Path | None = None
        self._blocks: list[tuple[Where, int, Any]] = []

    def add(self, where: Where, rows: Any, length: int, n_bytes: float) -> None:
        """Keep a block that is next in order."""
        self._blocks.append((where, length, rows))
        self._in_memory += n_bytes
        if self._folder is not None:
            self._blocks[-1] = self._written(len(self._blocks) - 1)
        elif self._in_memory > MOST_IN_MEMORY:
            self._folder = Path(tempfile.mkdtemp(prefix="skactive-"))
            weakref.finalize(self, shutil.rmtree, self._folder, ignore_errors=True)
            self._blocks = [self._written(i) for i in range(len(self._blocks))]

    def _written(self, i: int) -> tuple[Where, int, Path]:
        where, length, rows = self._blocks[i]
        file = Path(self._folder or "") / f"{i}.joblib"
        joblib.dump(rows, file)
        self.n_bytes += file.stat().st_size
        return where, length, file

    def n_rows(self) -> int | None:
        return self.total

    count = n_rows

    def read(self, wanted: Indices | None) -> Iterator[tuple[Where, Any]]:
        for where, length, rows in self._blocks:
            first, last = (where, where + length - 1) if isinstance(where, int) else (where[0], where[-1])
            if wanted is None or np.searchsorted(wanted, first) < np.searchsorted(wanted, last, side="right"):
                yield where, joblib.load(rows, mmap_mode="r") if isinstance(rows, Path) else rows
