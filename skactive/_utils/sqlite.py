"""SQLite files of our own: told from others by header and tables; whole transactions; errors in plain words."""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

Connection = sqlite3.Connection

# A rollback journal, not a write-ahead log: between writes the file can be copied, and network folders can hold it.
# EXTRA: a committed transaction survives a power cut (22 ms a transaction, where NORMAL took 14).
_DURABLE = ("PRAGMA journal_mode = DELETE", "PRAGMA synchronous = EXTRA")
_CAREFUL = ("PRAGMA trusted_schema = OFF", "PRAGMA cell_size_check = ON")

_STEPS = 100_000  # of SQLite between two looks of Python for Ctrl-C: some milliseconds

_DAMAGE = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_ERROR, sqlite3.SQLITE_TOOBIG, sqlite3.SQLITE_FORMAT}
_LOCKED = {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}


@dataclass(frozen=True)
class Kind:
    """What all files of one kind share."""

    parameter: str  # with the noun, the name in messages: "`checkpoint`='x.db' is not the checkpoint of an experiment"
    noun: str
    application: bytes  # four letters in the header of the file
    layout: int  # of the tables: a file of another one is refused
    tables: tuple[str, ...]  # statements that create them; a file with anything else in its schema is refused
    patience: float  # seconds to wait for other writers
    error: type[Exception] = ValueError  # for a wrong file
    file_error: type[Exception] = OSError  # for one that cannot be read or written now
    remedy: str = "Give a new path."  # what to do about a wrong file
    after_damage: str = "Go on from a copy of it."


@dataclass(frozen=True)
class SqliteFile:
    """A file of some kind, which may not exist yet. No connection stays open."""

    path: Path
    kind: Kind

    @contextmanager
    def writing(self, *, create: bool = False) -> Iterator[Connection]:
        """A transaction of the only writer; with ``create``, a file that is missing or empty gets its tables in it."""
        with self._errors_explained("written"), self._connected("rwc" if create else "rw") as connection:
            for setting in _DURABLE:
                connection.execute(setting)
            connection.execute("BEGIN IMMEDIATE")  # lock before reading what the new records depend on
            if create and not (_schema(connection) or _number(connection, "application_id")):
                self._create_tables(connection)
            self._check_kind(connection)
            yield connection
            connection.execute("COMMIT")

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """The file as it is at one moment."""
        # "rw", as a file whose writer was killed must be rolled back; SQLite opens write-protected files all the same.
        with self._errors_explained("read"), self._connected("rw") as connection:
            connection.execute("PRAGMA query_only = ON")
            connection.execute("BEGIN")
            self._check_kind(connection)
            yield connection

    def copy_to(self, path: Path) -> None:
        """Write the file as it is at one moment, whoever writes to it meanwhile, to a new or empty file."""
        copy = SqliteFile(path, self.kind)
        with self.reading() as connection, copy._errors_explained("written"), copy._connected("rwc") as new:
            connection.backup(new)

    def check_integrity(self, connection: Connection) -> None:
        """Refuse a file with damaged pages. Takes as long as reading the whole file."""
        (report,) = connection.execute("PRAGMA integrity_check(1)").fetchone()
        if report != "ok":
            raise self.damaged(report.splitlines()[-1])

    def damaged(self, what: str) -> Exception:
        return self.kind.error(f"{self} is damaged: {what}. {self.kind.after_damage} {self.kind.remedy}")

    def __str__(self) -> str:
        return f"{self.kind.parameter}={str(self.path)!r}"

    @contextmanager
    def _connected(self, mode: str) -> Iterator[Connection]:
        """A connection for one transaction; closing it rolls back what was not committed."""
        address = f"{self.path.absolute().as_uri()}?mode={mode}"
        new = sqlite3.connect(address, timeout=self.kind.patience, isolation_level=None, uri=True)
        with closing(new) as connection:
            connection.set_progress_handler(lambda: 0, _STEPS)
            for setting in _CAREFUL:
                connection.execute(setting)
            yield connection

    def _create_tables(self, connection: Connection) -> None:
        header = (
            f"PRAGMA application_id = {int.from_bytes(self.kind.application, 'big')}",
            f"PRAGMA user_version = {self.kind.layout}",
        )
        for statement in (*header, *self.kind.tables):
            connection.execute(statement)

    def _check_kind(self, connection: Connection) -> None:
        if _number(connection, "application_id") != int.from_bytes(self.kind.application, "big"):
            raise self._other_kind()
        if (layout := _number(connection, "user_version")) != self.kind.layout:
            raise self.kind.error(
                f"{self} was written by another version of skactive, in layout {layout}; this one reads layout "
                f"{self.kind.layout}. {self.kind.remedy}"
            )
        if _schema(connection) != sorted(self.kind.tables):  # views and triggers would run here
            raise self.damaged("its tables are not those of skactive")

    def _other_kind(self) -> Exception:
        return self.kind.error(
            f"{self} is not {self.kind.noun}, or its first bytes are damaged. Nothing in it was changed. "
            f"{self.kind.remedy}"
        )

    @contextmanager
    def _errors_explained(self, done: str) -> Iterator[None]:
        try:
            yield
        except UnicodeDecodeError as error:
            raise self.damaged(str(error)) from error
        except sqlite3.Error as error:
            code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF  # without the details in higher bits
            if code == sqlite3.SQLITE_NOTADB:
                raise self._other_kind() from error
            if code == sqlite3.SQLITE_INTERRUPT:  # Python's handler of signals has raised within `_STEPS`
                raise KeyboardInterrupt from error
            if code in _DAMAGE:
                raise self.damaged(str(error)) from error
            held = f" for {self.kind.patience:.0f} seconds, by another process" if code in _LOCKED else ""
            raise self.kind.file_error(
                f"{self} could not be {done}: {error}{held}. Nothing was changed; try again once the cause is gone."
            ) from error


def checksum(*parts: bytes) -> bytes:
    """Of each part with its length, so that no byte can move from one part to the next."""
    digest = hashlib.blake2b(digest_size=16)
    for part in parts:
        digest.update(b"%d:" % len(part) + part)
    return digest.digest()


def _number(connection: Connection, pragma: str) -> int:
    return connection.execute(f"PRAGMA {pragma}").fetchone()[0]


def _schema(connection: Connection) -> list[str]:
    return sorted(sql for (sql,) in connection.execute("SELECT sql FROM sqlite_master WHERE sql IS NOT NULL"))
