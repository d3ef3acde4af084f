"""A journal on disk: records in an SQLite file, which are only ever added. No other module knows SQL.

A record is on the disk when `Journal.append` returns. SQLite lets one process write at a time, and takes back what a
killed process left unfinished. It finds damaged pages, but not every changed byte inside a page: so each record has a
checksum over its number and its content, and numbers count up from 1 without a gap. A file that fails any of these
checks is refused.

Each record says what it is part of. `Journal.begin` reads the file and adds to it in one step, while no other process
writes; `Journal.append` adds only to what was begun in this very file. So a file that was removed or replaced while a
process wrote to it gets no record that belongs to another.
"""

from __future__ import annotations

import hashlib
import json
import os
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

# The header of an SQLite file has room for two numbers of its application: they tell a checkpoint from any other
# SQLite file, and this layout of the table from later ones.
_APPLICATION = int.from_bytes(b"skac", "big")
_LAYOUT = 2

# A rollback journal, not a write-ahead log: between writes a checkpoint is one file that can be copied, and network
# folders can hold it, where a write-ahead log needs memory that all processes share. EXTRA waits until the disk has
# everything, the end of the rollback journal included: after a power cut as well as after a kill, a record that was
# written is there. That took 22 milliseconds a record where NORMAL, which a power cut can undo, took 14.
_SETTINGS = ("PRAGMA journal_mode = DELETE", "PRAGMA synchronous = EXTRA")

# Seconds to wait for other writers: each needs milliseconds, but many on a slow disk take turns. A lock ends with its
# process, so nobody waits for a dead one.
_PATIENCE = 600.0

_CREATE = (
    f"PRAGMA application_id = {_APPLICATION}",
    f"PRAGMA user_version = {_LAYOUT}",
    "CREATE TABLE records (number INTEGER PRIMARY KEY, part_of TEXT NOT NULL, content TEXT NOT NULL, memory BLOB, "
    "checksum BLOB NOT NULL)",
)
_WHAT_IT_IS = ("SELECT count(*) FROM sqlite_master", "PRAGMA application_id", "PRAGMA user_version")
_NEXT = "SELECT coalesce(max(number), 0) + 1 FROM records"
_IS_BEGUN = "SELECT EXISTS (SELECT 1 FROM records WHERE part_of = ?)"
_ADD = "INSERT INTO records (number, part_of, content, memory, checksum) VALUES (?, ?, ?, ?, ?)"
# As blobs, because damage can change the type of a value.
_COLUMNS = ", ".join(f"CAST({name} AS BLOB)" for name in ("part_of", "content", "memory", "checksum"))
_ALL = f"SELECT number, {_COLUMNS} FROM records ORDER BY number"

_OTHER_KIND = {sqlite3.SQLITE_NOTADB}
_DAMAGE = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_ERROR, sqlite3.SQLITE_TOOBIG, sqlite3.SQLITE_FORMAT}


@dataclass(frozen=True)
class Record:
    """Plain JSON, and bytes or None; ``part_of`` names what it belongs to."""

    part_of: str
    content: dict[str, Any]
    memory: bytes | None = None


@dataclass(frozen=True)
class Journal:
    """A file of records, and the process that reads them; workers of that process hold copies of this object."""

    path: Path
    owner: int

    @classmethod
    def open(cls, path: Any) -> tuple[Journal, list[Record]]:
        """The journal at this path and the records in it; an empty one if there is no file."""
        journal = cls(_checked_path(path), os.getpid())
        return journal, _read(journal.path) if journal.path.exists() else []

    def begin(self, what_to_add: Callable[[list[Record]], list[Record]]) -> list[Record]:
        """All records, with those that are added in view of them; no other process writes in between."""
        with self._writing("rwc") as connection:
            records = _records_of(connection, self.path)
            new = what_to_add(records)
            if new and _is_empty(connection, self.path):
                for statement in _CREATE:
                    connection.execute(statement)
            for record in new:
                _add(connection, record)
        return [*records, *new]

    def append(self, record: Record) -> None:
        """Put a record on the disk, part of something that was begun in this file."""
        if self.owner not in (os.getpid(), os.getppid()):
            raise SystemExit(1)  # the process that this one works for was killed; its successor does the work now
        if not self.path.exists():
            raise _removed_error(self.path)
        with self._writing("rw") as connection:
            if _is_empty(connection, self.path) or not connection.execute(_IS_BEGUN, (record.part_of,)).fetchone()[0]:
                raise _removed_error(self.path)
            _add(connection, record)

    @contextmanager
    def _writing(self, mode: str) -> Iterator[sqlite3.Connection]:
        """A transaction of the only writer. It ends on the disk, or with an error and the file as it was."""
        with _errors_explained(self.path, "written"), _connected(self.path, mode) as connection:
            for setting in _SETTINGS:
                connection.execute(setting)
            connection.execute("BEGIN IMMEDIATE")  # one writer at a time, from before it reads what is there
            yield connection
            connection.execute("COMMIT")


def _add(connection: sqlite3.Connection, record: Record) -> None:
    (number,) = connection.execute(_NEXT).fetchone()
    text = json.dumps(record.content, separators=(",", ":"))
    checksum = _checksum(number, record.part_of.encode(), text.encode(), record.memory)
    connection.execute(_ADD, (number, record.part_of, text, record.memory, checksum))


def _checked_path(path: Any) -> Path:
    path = Path(path).absolute()
    if not path.parent.is_dir():
        raise ValueError(f"`checkpoint` must be a file in a folder that exists. Got {str(path)!r}.")
    if path.is_dir():
        raise ValueError(f"`checkpoint` must be a file. Got the folder {str(path)!r}.")
    return path


@contextmanager
def _connected(path: Path, mode: str) -> Iterator[sqlite3.Connection]:
    """A connection for one transaction. Closing it takes back what was not committed. Only "rwc" makes a file."""
    address = f"{path.as_uri()}?mode={mode}"
    with closing(sqlite3.connect(address, timeout=_PATIENCE, isolation_level=None, uri=True)) as connection:
        yield connection


def _read(path: Path) -> list[Record]:
    """All records, of one moment."""
    with open(path, "rb") as file:
        if file.read(13) == b'{"checksum":"':
            raise ValueError(
                f"`checkpoint`={str(path)!r} is a checkpoint of JSON lines, from a skactive that is too old to go on "
                "from. Give a new path; the file was not changed."
            )
    with _errors_explained(path, "read"), _connected(path, "rw") as connection:
        connection.execute("BEGIN")
        return _records_of(connection, path)


def _records_of(connection: sqlite3.Connection, path: Path) -> list[Record]:
    if _is_empty(connection, path):
        return []
    (report,) = connection.execute("PRAGMA integrity_check(1)").fetchone()
    if report != "ok":
        raise _damaged_error(path, report.splitlines()[-1])
    rows = connection.execute(_ALL).fetchall()
    return [_checked_record(path, number, *row) for number, row in enumerate(rows, start=1)]


def _is_empty(connection: sqlite3.Connection, path: Path) -> bool:
    """Whether nothing was written yet. Refuse a file of another kind."""
    tables, application, layout = (connection.execute(query).fetchone()[0] for query in _WHAT_IT_IS)
    if not (tables or application or layout):
        return True
    if application != _APPLICATION:
        raise _other_kind_error(path)
    if layout != _LAYOUT:
        raise ValueError(
            f"`checkpoint`={str(path)!r} was written by another version of skactive, in layout {layout}; this one "
            f"reads layout {_LAYOUT}. Give a new path, or go on with that version."
        )
    return False


def _checked_record(path: Path, expected: int, number: Any, *parts: bytes | None) -> Record:
    part_of, content, memory, checksum = parts
    if number != expected or checksum != _checksum(number, part_of, content, memory):
        raise _damaged_error(
            path,
            f"the checksum of record {expected} is wrong",
            f"`DELETE FROM records WHERE number >= {expected}` in SQLite, to go on from the records before it, or ",
        )
    return Record((part_of or b"").decode(), json.loads(content or b""), memory)


def _checksum(number: int, *parts: bytes | None) -> bytes:
    """Of each part with its length, so that no byte can move from one part to the next."""
    digest = hashlib.blake2b(digest_size=16)
    for part in (str(number).encode(), *parts):
        digest.update(b"none;" if part is None else b"%d:" % len(part) + part)
    return digest.digest()


@contextmanager
def _errors_explained(path: Path, done: str) -> Iterator[None]:
    try:
        yield
    except (sqlite3.Error, UnicodeDecodeError) as error:  # the latter where SQLite's own message quotes damaged text
        code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF  # without the details in higher bits
        if code in _OTHER_KIND:
            raise _other_kind_error(path) from error
        if code in _DAMAGE:
            raise _damaged_error(path, str(error)) from error
        raise OSError(
            f"`checkpoint`={str(path)!r} could not be {done}: {error}. Its finished rounds are safe: call "
            "`run_experiment` again when the cause is gone."
        ) from error


def _other_kind_error(path: Path) -> ValueError:
    return ValueError(f"`checkpoint`={str(path)!r} is a file of another kind. Give a new path; nothing was changed.")


def _damaged_error(path: Path, what: str, remedy: str = "") -> ValueError:
    return ValueError(f"`checkpoint`={str(path)!r} is damaged: {what}. Use {remedy}a copy of the file or a new path.")


def _removed_error(path: Path) -> ValueError:
    return ValueError(
        f"`checkpoint`={str(path)!r} was removed or replaced while an experiment wrote to it. The experiment has "
        "ended, and this file was not changed. Call `run_experiment` again, with a path that no other experiment uses."
    )
