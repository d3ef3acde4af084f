"""A journal on disk: one checksummed JSON line a record, only ever added to.

A record is on the disk when `Journal.append` returns. A process may be killed at any moment: what it was writing is
then half a last line, which is cut off when the journal is read again. Damage anywhere else is an error. Several
processes may append at once; a lock that ends with its process keeps their lines apart.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from ._checks import check_checkpoint_path, damaged_checkpoint_error, not_a_checkpoint_error

_START, _MIDDLE, _END = b'{"checksum":"', b'","record":', b"}\n"


@dataclass(frozen=True)
class Journal:
    """A file of records, and the process that reads them; workers of that process hold copies of this object."""

    path: Path
    owner: int

    @classmethod
    def open(cls, path: Any) -> tuple[Journal, list[dict[str, Any]]]:
        """The journal at this path and the records in it; an empty one if there is none."""
        journal = cls(check_checkpoint_path(path), os.getpid())
        if not journal.path.exists():
            return journal, []
        with journal._locked() as file:
            return journal, _recover(file, journal.path)

    def append(self, record: dict[str, Any]) -> None:
        """Put a record on the disk."""
        if self.owner not in (os.getpid(), os.getppid()):
            raise SystemExit(1)  # the process that this one works for was killed; its successor does the work now
        with self._locked() as file:
            _cut_unfinished_line(file)
            file.write(encode(record))
            file.flush()
            os.fsync(file.fileno())

    @contextmanager
    def _locked(self) -> Iterator[IO[bytes]]:
        with open(self.path, "a+b") as file:
            _lock(file)
            yield file


def encode(record: dict[str, Any]) -> bytes:
    """A line: the record as JSON, in a JSON object with its checksum."""
    text = json.dumps(record, separators=(",", ":")).encode()
    return _START + _checksum(text) + _MIDDLE + text + _END


def decode(line: bytes) -> dict[str, Any] | None:
    """The record in a line; None if the line is damaged."""
    start, checksum, middle, text, end = _pieces(line)
    if (start, middle, end) != (_START, _MIDDLE, _END) or checksum != _checksum(text):
        return None
    record: dict[str, Any] = json.loads(text)
    return record


def _pieces(line: bytes) -> tuple[bytes, ...]:
    cuts = [0, len(_START), len(_START) + 32, len(_START) + 32 + len(_MIDDLE), len(line) - len(_END), len(line)]
    return tuple(line[a:b] for a, b in itertools.pairwise(cuts))


def _checksum(text: bytes) -> bytes:
    return hashlib.blake2b(text, digest_size=16).hexdigest().encode()


def _recover(file: IO[bytes], path: Path) -> list[dict[str, Any]]:
    """All records; the last line is cut off if it is damaged, as an interruption leaves it."""
    file.seek(0)
    start = file.read(len(_START))
    if start != _START[: len(start)]:
        raise not_a_checkpoint_error(path)
    file.seek(0)
    lines = file.readlines()
    records = [decode(line) for line in lines]
    if records and records[-1] is None:
        file.truncate(sum(map(len, lines[:-1])))
        records.pop()
    if None in records:
        raise damaged_checkpoint_error(path, records.index(None) + 1)
    return [record for record in records if record is not None]


def _cut_unfinished_line(file: IO[bytes]) -> None:
    """Another writer may have been killed within a line."""
    size = file.seek(0, os.SEEK_END)
    file.seek(max(0, size - 1))
    if file.read(1) not in (b"", b"\n"):
        file.seek(0)
        file.truncate(file.read().rfind(b"\n") + 1)


if sys.platform == "win32":
    import msvcrt

    def _lock(file: IO[bytes]) -> None:
        """Wait until no other process has the file; closing it, and the end of this process, gives it free."""
        file.seek(0)
        msvcrt.locking(file.fileno(), msvcrt.LK_LOCK, 1)

else:
    import fcntl

    def _lock(file: IO[bytes]) -> None:
        """Wait until no other process has the file; closing it, and the end of this process, gives it free."""
        fcntl.flock(file, fcntl.LOCK_EX)
