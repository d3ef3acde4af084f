"""The file of a campaign: an SQLite database, to which events are only ever added. Beside it, no module here knows SQL.

Every change is one transaction, which waits for other writers, is on the disk when it returns, and leaves nothing
behind if it fails or its process is killed. A writer says up to which event it has read: if what it wants to write
rests on that, and another process has asked for rows meanwhile, it is told to look again.

The rows of the pool stand in blocks: their ids, a number that tells whether a row has changed, and the labels that they
came with. A block is never written again, but for the numbers.
"""

from __future__ import annotations

import json
import os
import re
import sqlite3
import zlib
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ._errors import CampaignError, CampaignFileError
from ._ids import Ids

LAYOUT = 1
"""Of the tables. A file of a later one is refused."""

_APPLICATION = int.from_bytes(b"skcm", "big")  # in the header: tells a campaign from any other SQLite file
_SETTINGS = ("PRAGMA journal_mode = DELETE", "PRAGMA synchronous = EXTRA")  # one file, whole after a power cut
_BLOCK = 65_536
_PATIENCE = 30.0

_CREATE = (
    f"PRAGMA application_id = {_APPLICATION}",
    f"PRAGMA user_version = {LAYOUT}",
    "CREATE TABLE settings (name TEXT PRIMARY KEY, value TEXT NOT NULL)",
    "CREATE TABLE blocks (number INTEGER PRIMARY KEY, n_rows INTEGER NOT NULL, ids BLOB NOT NULL, "
    "prints BLOB NOT NULL, labels BLOB NOT NULL)",
    "CREATE TABLE batches (number INTEGER PRIMARY KEY, time TEXT NOT NULL, facts TEXT NOT NULL, state BLOB)",
    "CREATE TABLE events (number INTEGER PRIMARY KEY, time TEXT NOT NULL, kind TEXT NOT NULL, row INTEGER NOT NULL, "
    "label TEXT, annotator TEXT NOT NULL, batch INTEGER, log_proba REAL)",
)
_ADD_EVENT = "INSERT INTO events (time, kind, row, label, annotator, batch, log_proba) VALUES (?, ?, ?, ?, ?, ?, ?)"
_EVENTS = (
    "SELECT number, time, kind, row, label, annotator, batch, log_proba FROM events WHERE number > ? ORDER BY number"
)

_OTHER_KIND = {sqlite3.SQLITE_NOTADB}
_DAMAGE = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_ERROR, sqlite3.SQLITE_TOOBIG, sqlite3.SQLITE_FORMAT}
_LOCKED = {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}


@dataclass(frozen=True)
class Event:
    """Something that happened to a row.

    Attributes
    ----------
    kind : {"ask", "tell", "skip", "withdraw"}
    row : int
        Its position in the campaign.
    label : str, int, float, bool or None
        What was told.
    annotator : str
        By whom; "" if nobody was named.
    batch : int or None
        In which batch the row was asked for.
    log_proba : float or None
        Of the pick, given those before it.
    number : int
        Events count up from 1; 0 is one that is not written yet.
    time : str
        ISO 8601, in the time zone of the writer.
    """

    kind: str
    row: int
    label: Any = None
    annotator: str = ""
    batch: int | None = None
    log_proba: float | None = None
    number: int = 0
    time: str = ""


@dataclass(frozen=True)
class BatchRecord:
    """A batch: when it was asked for, facts about it, and what the query knew afterwards."""

    number: int
    time: str
    facts: dict[str, Any]
    state: bytes | None


@dataclass(frozen=True)
class Rows:
    """Rows of a pool: ids, numbers that change with the row, and labels or None."""

    ids: Ids
    prints: NDArray[np.uint64]
    labels: list[Any]


class Overtaken(Exception):  # noqa: N818 - no error: the caller looks again
    """Another process has asked for rows since this one read the file."""


class Store:
    """A campaign on the disk.

    Parameters
    ----------
    path : str or path
    """

    def __init__(self, path: Any) -> None:
        self.path = Path(path).absolute()

    def create(self, settings: dict[str, Any], rows: Rows) -> None:
        """A new file; it is there as a whole, or not at all."""
        if not self.path.parent.is_dir():
            raise CampaignError(f"`path` must be a file in a folder that exists. Got {str(self.path)!r}.")
        if self.path.exists():
            raise CampaignError(
                f"`path`={str(self.path)!r} exists. Go on with it by `Campaign.open`, or give a new path."
            )
        new = Store(self.path.with_name(f".{self.path.name}.{os.getpid()}.new"))
        try:
            with new._writing("rwc") as connection:
                for statement in _CREATE:
                    connection.execute(statement)
                _put_settings(connection, settings)
                _put_rows(connection, rows)
            try:
                os.link(new.path, self.path)  # fails if another process was faster
            except FileExistsError:
                raise CampaignError(f"`path`={str(self.path)!r} exists by now: another process has made it.") from None
            except OSError:  # a file system without links
                os.replace(new.path, self.path)
        finally:
            new.path.unlink(missing_ok=True)
            new.path.with_name(f"{new.path.name}-journal").unlink(missing_ok=True)

    def settings(self) -> dict[str, Any]:
        """What the campaign was started with, and what was noted since."""
        with self._reading() as connection:
            return {name: json.loads(value) for name, value in connection.execute("SELECT name, value FROM settings")}

    def rows(self) -> Rows:
        """All rows, in the order in which they came."""
        labels: list[Any] = []
        prints = []
        with self._reading() as connection:

            def ids() -> Iterator[list[Any]]:
                for block in connection.execute("SELECT ids, prints, labels FROM blocks ORDER BY number"):
                    prints.append(np.frombuffer(zlib.decompress(block[1]), dtype="<u8"))
                    labels.extend(_unpacked(block[2]))
                    yield _unpacked(block[0])

            found = Ids.of_blocks(ids())
        return Rows(found, np.concatenate(prints), labels)

    def events(self, after: int = 0) -> list[Event]:
        """Events in the order in which they happened, those after a number."""
        with self._reading() as connection:
            return [
                Event(
                    kind, row, None if label is None else json.loads(label), annotator, batch, log_proba, number, time
                )
                for number, time, kind, row, label, annotator, batch, log_proba in connection.execute(_EVENTS, (after,))
            ]

    def batches(self) -> list[BatchRecord]:
        """All batches, without what the query knew."""
        with self._reading() as connection:
            found = connection.execute("SELECT number, time, facts FROM batches ORDER BY number")
            return [BatchRecord(number, time, json.loads(facts), None) for number, time, facts in found]

    def last_state(self) -> bytes | None:
        """What the query knew after the last batch that it chose."""
        with self._reading() as connection:
            found = connection.execute(
                "SELECT state FROM batches WHERE state IS NOT NULL ORDER BY number DESC LIMIT 1"
            ).fetchone()
            return None if found is None else found[0]

    def add_batch(
        self, number: int, facts: dict[str, Any], state: bytes | None, events: Sequence[Event], seen: int
    ) -> None:
        """Write a batch, which was chosen in view of the events up to ``seen``.

        Raises
        ------
        Overtaken
            If a batch of this number is there, or one of the rows has met another fate since.
        """
        with self._writing() as connection:
            (last,) = connection.execute("SELECT coalesce(max(number), 0) FROM batches").fetchone()
            since = {row for _, _, _, row, *_ in connection.execute(_EVENTS, (seen,))}
            if last + 1 != number or since.intersection(event.row for event in events):
                raise Overtaken
            now = _now()
            connection.execute(
                "INSERT INTO batches (number, time, facts, state) VALUES (?, ?, ?, ?)",
                (number, now, _text(facts), state),
            )
            _put_events(connection, events, now)

    def add_events(self, events: Sequence[Event], seen: int) -> None:
        """Write events that were decided on in view of those up to ``seen``.

        Raises
        ------
        Overtaken
            If anything happened since to one of their rows.
        """
        with self._writing() as connection:
            since = {row for _, _, _, row, *_ in connection.execute(_EVENTS, (seen,))}
            if since.intersection(event.row for event in events):
                raise Overtaken
            _put_events(connection, events, _now())

    def note(self, settings: dict[str, Any]) -> None:
        """Write down some settings, in place of those of the same names."""
        with self._writing() as connection:
            _put_settings(connection, settings)

    def add_rows(self, rows: Rows, n_before: int) -> None:
        """Rows behind those that are there, which were ``n_before``."""
        with self._writing() as connection:
            (n_now,) = connection.execute("SELECT coalesce(sum(n_rows), 0) FROM blocks").fetchone()
            if n_now != n_before:
                raise Overtaken
            _put_rows(connection, rows)

    def replace_prints(self, prints: NDArray[np.uint64]) -> None:
        """Take changed rows as they are now."""
        with self._writing() as connection:
            sizes = connection.execute("SELECT number, n_rows FROM blocks ORDER BY number").fetchall()
            if sum(size for _, size in sizes) != len(prints):
                raise Overtaken
            start = 0
            for number, size in sizes:
                packed = zlib.compress(prints[start : start + size].astype("<u8").tobytes(), 1)
                connection.execute("UPDATE blocks SET prints = ? WHERE number = ?", (packed, number))
                start += size

    @contextmanager
    def _writing(self, mode: str = "rw") -> Iterator[sqlite3.Connection]:
        """A transaction of the only writer. It ends on the disk, or with an error and the file as it was."""
        with self._errors_explained("written"), self._connected(mode) as connection:
            for setting in _SETTINGS:
                connection.execute(setting)
            connection.execute("BEGIN IMMEDIATE")
            if mode == "rw":
                self._check_kind(connection)
            yield connection
            connection.execute("COMMIT")

    @contextmanager
    def _reading(self) -> Iterator[sqlite3.Connection]:
        """The file as it is at one moment."""
        if not self.path.is_file():
            what = "a folder" if self.path.is_dir() else "no file"
            raise CampaignError(
                f"`path`={str(self.path)!r} is {what}. `Campaign.start` begins a campaign, in the shell `skactive "
                "start`."
            )
        with self._errors_explained("read"), self._connected("rw") as connection:
            connection.execute("BEGIN")
            self._check_kind(connection)
            yield connection

    @contextmanager
    def _connected(self, mode: str) -> Iterator[sqlite3.Connection]:
        address = f"{self.path.as_uri()}?mode={mode}"
        with closing(sqlite3.connect(address, timeout=_PATIENCE, isolation_level=None, uri=True)) as connection:
            yield connection

    def _check_kind(self, connection: sqlite3.Connection) -> None:
        (application,) = connection.execute("PRAGMA application_id").fetchone()
        (layout,) = connection.execute("PRAGMA user_version").fetchone()
        if application != _APPLICATION:
            raise CampaignError(f"`path`={str(self.path)!r} is no campaign. Nothing in it was changed.")
        if layout > LAYOUT:
            raise CampaignError(
                f"`path`={str(self.path)!r} was written by a later version of skactive, in layout {layout}; this one "
                f"knows layout {LAYOUT}. Update skactive. Nothing in it was changed."
            )

    @contextmanager
    def _errors_explained(self, done: str) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF  # without the details in higher bits
            name = f"`path`={str(self.path)!r}"
            if code in _LOCKED:
                raise CampaignFileError(
                    f"{name} could not be {done}: {_who_locks(self.path)} has locked it for {_PATIENCE:.0f} seconds. "
                    "Nothing was changed. Try again when it has ended."
                ) from error
            if code in _OTHER_KIND:
                raise CampaignError(f"{name} is no campaign. Nothing in it was changed.") from error
            if code in _DAMAGE:
                raise CampaignError(f"{name} is damaged: {error}. Go on from a copy of it.") from error
            raise CampaignFileError(
                f"{name} could not be {done}: {error}. Nothing was changed. Call again when the cause is gone."
            ) from error


def _put_settings(connection: sqlite3.Connection, settings: dict[str, Any]) -> None:
    connection.executemany(
        "INSERT OR REPLACE INTO settings (name, value) VALUES (?, ?)",
        [(name, _text(value)) for name, value in settings.items()],
    )


def _put_rows(connection: sqlite3.Connection, rows: Rows) -> None:
    for start in range(0, len(rows.ids), _BLOCK):
        part = slice(start, start + _BLOCK)
        prints = zlib.compress(rows.prints[part].astype("<u8").tobytes(), 1)
        ids, labels = rows.ids[part], rows.labels[part]
        connection.execute(
            "INSERT INTO blocks (n_rows, ids, prints, labels) VALUES (?, ?, ?, ?)",
            (len(ids), _packed(ids), prints, _packed(labels)),
        )


def _put_events(connection: sqlite3.Connection, events: Sequence[Event], now: str) -> None:
    connection.executemany(
        _ADD_EVENT,
        [
            (now, e.kind, e.row, None if e.label is None else _text(e.label), e.annotator, e.batch, e.log_proba)
            for e in events
        ],
    )


def _text(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), allow_nan=False)


def _packed(values: list[Any]) -> bytes:
    return zlib.compress(json.dumps(values, separators=(",", ":")).encode(), 1)


def _unpacked(content: bytes) -> list[Any]:
    return json.loads(zlib.decompress(content))


def _now() -> str:
    return datetime.now().astimezone().isoformat(timespec="seconds")


def _who_locks(path: Path) -> str:
    """The process that holds a lock on a file, as far as the system says so."""
    try:
        inode = path.stat().st_ino
        for line in Path("/proc/locks").read_text(encoding="ascii").splitlines():
            found = re.search(r" WRITE (\d+) [\da-f]+:[\da-f]+:(\d+) ", line)
            if found and int(found[2]) == inode and int(found[1]) != os.getpid():
                command = Path(f"/proc/{found[1]}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
                return f"process {found[1]} ({command.strip()[:80]})"
    except OSError:
        pass
    return "another process"
