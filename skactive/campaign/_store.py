"""The file of a campaign, an SQLite database to which events are only ever added, and the state that they make.

A writer says up to which event it has read. If another process has changed the same rows since, it gets `Overtaken`,
and decides again. Rows are kept in blocks of ids, row hashes and labels, written anew if the table has changed.
"""

from __future__ import annotations

import json
import secrets
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from .._utils import sqlite


class CampaignError(ValueError):
    """A file, a table or labels that a campaign cannot take. Nothing was written.

    Attributes
    ----------
    entries : tuple of int
        Which entries of the input are wrong, counted from 0; empty if unknown.

    See Also
    --------
    campaign.CampaignFileError : A file that is locked, or a disk that is full.
    """

    def __init__(self, text: str, entries: Sequence[int] = ()) -> None:
        super().__init__(text)
        self.entries = tuple(entries)


class CampaignFileError(CampaignError):
    """The file of a campaign cannot be read or written now: it is locked, or the disk is full.

    See Also
    --------
    campaign.CampaignError : What is wrong with the input.
    """


def shown(values: Sequence[object], most: int = 5) -> str:
    """The first of many values, for a message."""
    some = ", ".join(repr(value) for value in values[:most])
    return some if len(values) <= most else f"{some} and {len(values) - most} more"


KIND = sqlite.Kind(
    parameter="`path`",
    noun="a campaign",
    application=b"skcm",
    layout=2,
    tables=(
        "CREATE TABLE settings (name TEXT PRIMARY KEY, value TEXT NOT NULL)",
        "CREATE TABLE blocks (number INTEGER PRIMARY KEY, n_rows INTEGER NOT NULL, ids BLOB NOT NULL, "
        "hashes BLOB NOT NULL, labels BLOB NOT NULL)",
        "CREATE TABLE batches (number INTEGER PRIMARY KEY, time TEXT NOT NULL, facts TEXT NOT NULL)",
        "CREATE TABLE events (number INTEGER PRIMARY KEY, time TEXT NOT NULL, kind TEXT NOT NULL, "
        "row INTEGER NOT NULL, label TEXT, annotator TEXT NOT NULL, batch INTEGER, log_proba REAL)",
    ),
    patience=30.0,
    error=CampaignError,
    file_error=CampaignFileError,
    remedy="`Campaign.start` begins a new one.",
)

_BLOCK = 65_536  # rows: 1 MB of short ids, so that a long table is packed piece by piece
_COLUMNS = "kind, row, label, annotator, batch, log_proba"  # of an event, in the order of `Event`


@dataclass(frozen=True)
class Event:
    """What happened to a row."""

    kind: str  # "ask", "tell", "skip" or "withdraw"
    row: int  # its position in the campaign
    label: Any = None  # str, int, float, bool or None
    annotator: str = ""  # "" if none was named
    batch: int | None = None  # in which the row was asked for
    log_proba: float | None = None  # of the pick, given those before it
    number: int = 0  # events count up from 1; 0 is not written yet
    time: str = ""  # ISO 8601, in the time zone of the writer


@dataclass(frozen=True)
class BatchRecord:
    """When a batch was asked for, and facts about it."""

    number: int
    time: str
    facts: dict[str, Any]  # "n_candidates", "limited", and of a query perhaps "largest_weight"


@dataclass(frozen=True)
class Rows:
    """Rows of a pool: ids, row hashes, and labels or None."""

    ids: pd.Index
    hashes: NDArray[np.uint64]
    labels: list[Any]


class Overtaken(Exception):  # noqa: N818 - no error: the caller looks again
    """Another process has changed these rows since this one read the file."""


class Store:
    """A campaign on the disk."""

    def __init__(self, path: Any) -> None:
        self.path = Path(path).absolute()
        self._file = sqlite.SqliteFile(self.path, KIND)
        self._key: Any = None  # of the campaign, once it was read

    def create(self, settings: dict[str, Any], rows: Rows) -> None:
        """Make the file, in one transaction; a process killed within leaves an empty file, which may be begun anew."""
        if not self.path.parent.is_dir():
            raise CampaignError(f"`path` must be a file in a folder that exists. Got {str(self.path)!r}.")
        with self._file.writing(create=True) as connection:
            if connection.execute("SELECT 1 FROM settings").fetchone():
                raise CampaignError(f"{self._file} exists. Go on with it by `Campaign.open`, or give a new path.")
            _put_settings(connection, {**settings, "key": secrets.token_hex(8)})
            _put_rows(connection, rows)

    def settings(self) -> dict[str, Any]:
        """The settings from the start, and what was noted since."""
        return {name: json.loads(value) for name, value in self._all("SELECT name, value FROM settings")}

    def rows(self) -> Rows:
        """All rows, in the order in which they came."""
        ids, hashes, labels = [], [], list[Any]()
        for block in self._all("SELECT ids, hashes, labels FROM blocks ORDER BY number"):
            ids.append(index_of(_unpacked(block[0])))
            hashes.append(np.frombuffer(zlib.decompress(block[1]), dtype="<u8"))
            labels.extend(_unpacked(block[2]))
        return Rows(ids[0].append(ids[1:]), np.concatenate(hashes), labels)

    def events(self) -> list[Event]:
        """Events in the order in which they happened."""
        found = self._all(f"SELECT {_COLUMNS}, number, time FROM events ORDER BY number")
        return [Event(kind, row, label and json.loads(label), *rest) for kind, row, label, *rest in found]

    def batches(self) -> list[BatchRecord]:
        found = self._all("SELECT number, time, facts FROM batches ORDER BY number")
        return [BatchRecord(number, time, json.loads(facts)) for number, time, facts in found]

    def add_batch(self, number: int, facts: dict[str, Any], events: Sequence[Event], seen: int) -> None:
        """Write a batch, chosen in view of events up to ``seen``; `Overtaken` if it exists, or its rows had others."""
        with self._file.writing() as connection:
            self._check_same(connection)
            (last,) = connection.execute("SELECT coalesce(max(number), 0) FROM batches").fetchone()
            if last + 1 != number:
                raise Overtaken
            now = _now()
            connection.execute("INSERT INTO batches VALUES (?, ?, ?)", (number, now, _text(facts)))
            _put_events(connection, events, seen, now)

    def add_events(self, events: Sequence[Event], seen: int) -> None:
        """Write events that were decided on in view of those up to ``seen``; `Overtaken` as for a batch."""
        with self._file.writing() as connection:
            self._check_same(connection)
            _put_events(connection, events, seen, _now())

    def note(self, settings: dict[str, Any]) -> None:
        """Write some settings, replacing those of the same names."""
        with self._file.writing() as connection:
            _put_settings(connection, settings)

    def replace_rows(self, rows: Rows, n_before: int) -> None:
        """Write rows in place of the ``n_before`` first of them: with new ones behind, or other hashes."""
        with self._file.writing() as connection:
            (n_now,) = connection.execute("SELECT coalesce(sum(n_rows), 0) FROM blocks").fetchone()
            if n_now != n_before:
                raise Overtaken
            connection.execute("DELETE FROM blocks")
            _put_rows(connection, rows)

    def _all(self, query: str) -> list[Any]:
        if not self.path.is_file():
            raise CampaignError(
                f"{self._file} is no file. `Campaign.start` begins a campaign, in the shell `skactive start`."
            )
        with self._file.reading() as connection:
            self._check_same(connection)
            return connection.execute(query).fetchall()

    def _check_same(self, connection: sqlite.Connection) -> None:
        """Refuse a campaign that was begun anew at the path since it was read: its rows are others."""
        key = connection.execute("SELECT value FROM settings WHERE name = 'key'").fetchone()
        self._key = self._key or key
        if key != self._key:
            raise CampaignError(f"{self._file} was begun anew since it was opened. Open it again.")


def index_of(ids: Sequence[Any]) -> pd.Index:
    """Plain ids as an Index: of texts, or of whole numbers."""
    return pd.Index(ids, dtype="str") if has_texts(ids) else pd.Index(ids)


def has_texts(ids: Any) -> bool:
    """True if ids are texts, False if they are whole numbers."""
    return len(ids) == 0 or isinstance(ids[0], str)


def _put_settings(connection: sqlite.Connection, settings: dict[str, Any]) -> None:
    pairs = [(name, _text(value)) for name, value in settings.items()]
    connection.executemany("INSERT OR REPLACE INTO settings (name, value) VALUES (?, ?)", pairs)


def _put_rows(connection: sqlite.Connection, rows: Rows) -> None:
    for start in range(0, len(rows.ids), _BLOCK):
        part = slice(start, start + _BLOCK)
        ids, labels = rows.ids[part].tolist(), rows.labels[part]
        connection.execute(
            "INSERT INTO blocks (n_rows, ids, hashes, labels) VALUES (?, ?, ?, ?)",
            (len(ids), _packed(ids), zlib.compress(rows.hashes[part].astype("<u8").tobytes(), 1), _packed(labels)),
        )


def _put_events(connection: sqlite.Connection, events: Sequence[Event], seen: int, now: str) -> None:
    since = {row for (row,) in connection.execute("SELECT row FROM events WHERE number > ?", (seen,))}
    if since.intersection(event.row for event in events):
        raise Overtaken
    connection.executemany(
        f"INSERT INTO events ({_COLUMNS}, time) VALUES (?, ?, ?, ?, ?, ?, ?)",
        [
            (e.kind, e.row, None if e.label is None else _text(e.label), e.annotator, e.batch, e.log_proba, now)
            for e in events
        ],
    )


def _text(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), allow_nan=False)


def _packed(values: list[Any]) -> bytes:
    return zlib.compress(_text(values).encode(), 1)


def _unpacked(content: bytes) -> list[Any]:
    return json.loads(zlib.decompress(content))


def _now() -> str:
    return datetime.now().astimezone().isoformat(timespec="seconds")


# --- the state of the rows ------------------------------------------------------------------------


def _latest(votes: Mapping[str, Any]) -> Any:
    return next(reversed(list(votes.values())))


def _majority(votes: Mapping[str, Any]) -> Any:
    counts = Counter(votes.values()).most_common(2)
    return None if len(counts) > 1 and counts[0][1] == counts[1][1] else counts[0][0]


def _agreed(votes: Mapping[str, Any]) -> Any:
    return None if len(set(votes.values())) > 1 else _latest(votes)


RULES: dict[str, Callable[[Mapping[str, Any]], Any]] = {"latest": _latest, "majority": _majority, "open": _agreed}
"""Which of the last labels of annotators, in the order in which they were told, counts; None if none does."""


@dataclass
class _Row:
    votes: dict[str, Any]
    out: bool = False
    skipped: bool = False
    batch: int | None = None  # the last one it was asked for in


@dataclass(frozen=True)
class State:
    """The rows at one moment, by their positions."""

    n_rows: int
    seen: int  # number of the last event
    labels: dict[int, Any]  # those that count, in the order of the positions
    out: list[int]  # rows that wait for labels
    skipped: list[int]
    disputed: list[int]  # rows whose annotators disagree, so that no label counts
    given: dict[int, dict[str, Any]]  # the last label of each annotator, of all rows with events
    asked: dict[int, int]  # rows that were ever asked for, with their last batch
    order: list[int]  # rows in the order of their first label, without those that came with one
    gone: frozenset[int]  # rows that are no longer in the table: they have no label, and are not asked for
    came: frozenset[int]  # rows that came with a label

    @classmethod
    def of(
        cls, n_rows: int, came: Mapping[int, Any], events: Sequence[Event], rule: str, gone: Iterable[int] = ()
    ) -> State:
        """Apply the events; ``came`` are labels by row, ``gone`` rows that are no longer there."""
        gone = frozenset(gone)
        came = {row: label for row, label in came.items() if row not in gone}
        rows: dict[int, _Row] = {}
        order: dict[int, None] = {}
        seen = 0
        for event in events:
            seen = event.number
            if event.row >= n_rows or event.row in gone:
                continue  # the former: a row that another process has added, from a longer table
            if event.row not in rows:
                rows[event.row] = _Row({"": came[event.row]} if event.row in came else {})
            _apply(event, rows[event.row])
            if event.kind == "tell" and event.row not in came:
                order.setdefault(event.row)
            elif event.kind == "withdraw":
                order.pop(event.row, None)
        decided = {row: RULES[rule](known.votes) for row, known in rows.items() if known.votes}
        labels = {row: label for row, label in came.items() if row not in rows}
        labels |= {row: label for row, label in decided.items() if label is not None}
        return cls(
            n_rows=n_rows,
            seen=seen,
            labels=dict(sorted(labels.items())),
            out=sorted(row for row, known in rows.items() if known.out),
            skipped=sorted(row for row, known in rows.items() if known.skipped),
            disputed=sorted(row for row, label in decided.items() if label is None),
            given={row: known.votes for row, known in sorted(rows.items())},
            asked={row: known.batch for row, known in rows.items() if known.batch is not None},
            order=[row for row in order if row in labels],
            gone=gone,
            came=frozenset(came),
        )

    def first_labelled(self, n: int) -> list[int]:
        """Rows that came with a label, and the first ``n`` of ``order``."""
        later = frozenset(self.order[n:])
        return [row for row in self.labels if row not in later]

    def when(self, labelled: Iterable[int]) -> State:
        """The same, when only these rows had a label yet."""
        known = set(labelled)
        return replace(
            self,
            labels={row: label for row, label in self.labels.items() if row in known},
            order=[row for row in self.order if row in known],
        )

    def all_labels(self) -> set[Any]:
        """All labels of annotators, whether they count or not."""
        return {*self.labels.values(), *(label for votes in self.given.values() for label in votes.values())}

    def candidates(self) -> NDArray[np.bool_]:
        """Which rows may be asked for."""
        free = np.ones(self.n_rows, dtype=bool)
        for rows in (list(self.labels), self.out, self.skipped, self.disputed, list(self.gone)):
            free[rows] = False
        return free


def labelled(labels: Sequence[Any]) -> dict[int, Any]:
    """Rows with a label, by their positions in a list that has None for the others."""
    return {row: label for row, label in enumerate(labels) if label is not None}


def _apply(event: Event, row: _Row) -> None:
    if event.kind == "ask":
        row.out, row.batch = True, event.batch
    elif event.kind == "tell":
        row.votes.pop(event.annotator, None)  # so that the last one told is the last
        row.votes[event.annotator] = event.label
        row.out = row.skipped = False
    elif event.kind == "skip":  # labels of other annotators stay
        row.votes.pop(event.annotator, None)
        row.out, row.skipped = False, not row.votes
    elif event.kind == "withdraw":
        row.out = row.skipped = False
        row.votes.clear()
