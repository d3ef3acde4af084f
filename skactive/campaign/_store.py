"""The file of a campaign, a chain of records to which others are only ever added.

A seal holds a checksum of all records in their order, and is compared whenever the file is read: what is read is what
was written. A process that has a campaign open keeps what it has read, and reads only what came since.
"""

from __future__ import annotations

import hashlib
import hmac
import itertools
import json
import os
import re
import secrets
import threading
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._utils import sqlite
from ._ledger import BatchRecord, Event, Ledger, Rows


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
        super().__init__(cut(text))
        self.entries = tuple(entries)


class CampaignFileError(CampaignError):
    """The file of a campaign cannot be read or written now: it is locked, or the disk is full.

    See Also
    --------
    campaign.CampaignError : What is wrong with the input.
    """


def cut(text: str) -> str:
    """A message in which quoted cells, ids and names end after 80 characters; values of parameters are left whole."""
    return _LONG_QUOTE.sub(_shortened, text)


_LONG_QUOTE = re.compile(r"""(?<![\w=])((['"])(?:\\.|(?!\2)[^\\]){80})(?:\\.|(?!\2)[^\\])++\2(?!\w)""", re.DOTALL)


def _shortened(quoted: re.Match[str]) -> str:
    """Files are left whole: they are to be found."""
    is_file = os.path.isdir(os.path.dirname(quoted[0][1:-1]))
    return quoted[0] if is_file else f"{quoted[1]}...{quoted[2]}"


def shown(values: Sequence[object], most: int = 5) -> str:
    """The first of many values, for a message."""
    some = cut(", ".join(repr(value) for value in values[:most]))
    return some if len(values) <= most else f"{some} and {len(values) - most} more"


KIND = sqlite.Kind(
    parameter="`path`",
    noun="a campaign",
    application=b"skcm",
    layout=3,
    tables=(
        "CREATE TABLE records (number INTEGER PRIMARY KEY, content BLOB NOT NULL)",
        "CREATE TABLE seal (key BLOB NOT NULL, checksum BLOB NOT NULL)",
    ),
    patience=30.0,
    error=CampaignError,
    file_error=CampaignFileError,
    remedy="`Campaign.start`, in the shell `skactive start`, makes a new one.",
    after_damage="If it was copied while in use, copy it again by `Campaign.backup`, in the shell `skactive backup`; "
    "otherwise go on from the last copy.",
)

_BLOCK = 65_536  # rows of a record: 1 MB of short ids, so that a long table is written piece by piece


class Overtaken(Exception):  # noqa: N818 - no error: the caller looks again
    """Another process has changed these rows since this one read the file."""


class Store:
    """A campaign on the disk."""

    def __init__(self, path: Any) -> None:
        self.path = Path(path).absolute()
        self._file = sqlite.SqliteFile(self.path, KIND)
        self._thread = threading.get_ident()
        self._ledger = Ledger()
        self.until: int | None = None  # the number of the event after which nothing is read but to write
        self._n_records = 0  # in the ledger, with the seal that they had
        self._key = self._checksum = b""

    def create(self, settings: dict[str, Any], rows: Rows) -> None:
        """Make the file, in one transaction; a process killed within leaves an empty file, which may be begun anew."""
        self._check_folder()
        with self._file.writing(create=True) as connection:
            if connection.execute("SELECT 1 FROM seal").fetchone():
                raise CampaignError(f"{self._file} exists. Go on with it by `Campaign.open`, or give a new path.")
            self._key = self._checksum = secrets.token_bytes(8)
            connection.execute("INSERT INTO seal VALUES (?, ?)", (self._key, self._checksum))
            self._add(connection, [("settings", [settings]), *_records_of(rows, 0)])

    def backup(self, path: Any) -> None:
        """Write a copy of the file as it is at one moment, whole."""
        copy = Store(path)
        copy._check_folder()
        if copy.path.exists() and copy.path.stat().st_size:
            raise CampaignError(f"{copy._file} exists, and a backup overwrites nothing. Give a new path.")
        Store(self.path).ledger()  # all of it is read and compared
        self._file.copy_to(copy.path)
        copy.ledger()

    def ledger(self) -> Ledger:
        """What is in the file now; it changes with the next reading."""
        self._check_thread()
        if not self.path.is_file():
            raise CampaignError(
                f"{self._file} does not exist. Start a campaign by `Campaign.start`, in the shell `skactive start`."
            )
        with self._file.reading() as connection:
            if not self._n_records:
                self._file.check_integrity(connection)
            self._catch_up(connection, self.until or None)
        return self._ledger

    def secret(self, name: str) -> str:
        """A text that only a reader of the file can know, the same at all times, for each name."""
        self.ledger()
        return hmac.new(self._key, name.encode(), hashlib.sha256).hexdigest()[:32]

    def settings(self) -> dict[str, Any]:
        """The settings from the start, and what was noted since."""
        return self.ledger().settings

    def rows(self) -> Rows:
        """All rows, in the order in which they came."""
        ledger = self.ledger()
        with self.ours("its rows"):
            return ledger.rows()

    def events(self) -> list[Event]:
        """Events in the order in which they happened."""
        happened = (
            Event(kind, row, label, annotator, batch, p, time, remark=remark or "")
            for kind, time, annotator, rows, labels, remarks, log_proba, batch in self.ledger().groups
            for row, label, remark, p in zip(rows, labels or _NONE, remarks or _NONE, log_proba or _NONE, strict=False)
        )
        return [event._replace(number=number) for number, event in enumerate(happened, 1)]

    def batches(self) -> list[BatchRecord]:
        return self.ledger().batches

    def add_batch(
        self, number: int, facts: dict[str, Any], rows: list[int], log_proba: list[float | None], seen: int
    ) -> None:
        """Write a batch, chosen in view of events up to ``seen``; `Overtaken` if it exists, or its rows had others."""
        with self._writing(rows, seen) as connection:
            if len(self._ledger.batches) + 1 != number:
                raise Overtaken
            self._add(connection, [("ask", [rows, log_proba, facts])])

    def add_events(self, events: Sequence[Event], seen: int, decided: Mapping[str, Any] = MappingProxyType({})) -> None:
        """Write events that were decided on in view of those up to ``seen``, and settings that are decided with them.

        `Overtaken` as for a batch; where settings are decided, by events of any row.
        """
        turn: dict[int, Iterator[int]] = defaultdict(itertools.count)  # events of one row stay in their order
        events = sorted(events, key=lambda event: (next(turn[event.row]), event.kind, event.annotator))
        with self._writing(range(self._ledger.n_rows) if decided else _rows(events), seen) as connection:
            by_kind = itertools.groupby(events, key=lambda event: (event.kind, event.annotator))
            groups = [(kind, name, list(some)) for (kind, name), some in by_kind]
            told = [(kind, [name, _rows(some), _labels(some), *_details(some)]) for kind, name, some in groups]
            self._add(connection, [("settings", [dict(decided)])] * bool(decided) + told)

    def note(self, settings: dict[str, Any]) -> None:
        """Write some settings, replacing those of the same names."""
        with self._writing() as connection:
            self._add(connection, [("settings", [settings])])

    def replace_rows(self, rows: Rows, n_before: int, seen: int, decided: Mapping[str, Any]) -> None:
        """Write rows in place of the ``n_before`` first: new ones behind, that decide settings, or other hashes."""
        with self._writing((), seen) as connection:
            if self._ledger.n_rows != n_before:
                raise Overtaken
            changed = np.flatnonzero(rows.hashes[:n_before] != self._ledger.rows().hashes)
            hashes = _packed(rows.hashes[changed])
            new = [("hashes", [changed.tolist(), hashes]), *_records_of(rows, n_before)]
            self._add(connection, [*[("settings", [dict(decided)])] * bool(decided), *new])

    @contextmanager
    def ours(self, what: str) -> Iterator[None]:
        """What Python says of contents that the package has not written: the file is damaged."""
        try:
            yield
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError, RecursionError) as error:
            raise self._file.damaged(f"{what} cannot be: {type(error).__name__}, {error}") from error

    @contextmanager
    def _writing(self, rows: Iterable[int] = (), seen: int | None = None) -> Iterator[sqlite.Connection]:
        """A transaction; `Overtaken` if, after event ``seen``, a row had events or other settings were decided."""
        self._check_thread()
        with self._file.writing() as connection:
            n_groups, decided = len(self._ledger.groups), dict(self._ledger.settings)
            if seen not in (None, self._ledger.seen):
                raise Overtaken
            self._catch_up(connection)
            since = self._ledger.groups[n_groups:]
            is_other = seen is not None and self._ledger.settings != decided
            if is_other or not set(rows).isdisjoint(row for group in since for row in group.rows):
                raise Overtaken
            yield connection

    def _catch_up(self, connection: sqlite.Connection, until: int | None = None) -> None:
        """Read the records that came since, once the seal is seen to be theirs; those up to an event, if given."""
        seal = "SELECT CAST(key AS BLOB), CAST(checksum AS BLOB) FROM seal"
        since = "SELECT number, CAST(content AS BLOB) FROM records WHERE number > ? ORDER BY number"
        key, wanted = connection.execute(seal).fetchone() or (b"", b"")
        if not self._n_records:
            self._key = self._checksum = key
        found, now = list[tuple[bytes, bytes]](), self._checksum
        for number, content in connection.execute(since, (self._n_records,)):
            now = sqlite.checksum(now, content)
            found.append((content, now))
            if number != self._n_records + len(found):  # damage can lead a reader in circles
                now = b"in a circle"
                break
        if self._n_records and (key, now) != (self._key, wanted):
            raise CampaignError(f"{self._file} was restarted, replaced or damaged since it was opened. Open it again.")
        if now != wanted or not (found or self._n_records):
            raise self._file.damaged("its records are not those that were written")
        for content, checksum in found:
            if until is not None and self._ledger.seen >= until:
                break
            with self.ours(f"record {self._n_records + 1}"):
                self._ledger.take(content)
            self._n_records, self._checksum = self._n_records + 1, checksum

    def _add(self, connection: sqlite.Connection, records: Iterable[tuple[str, Any]]) -> None:
        """Write records behind those that were read, and seal them; they are read once they are on the disk."""
        now, time = self._checksum, datetime.now().astimezone().isoformat(timespec="seconds")
        for number, (kind, content) in enumerate(records, self._n_records + 1):
            written = json.dumps([kind, time, content], separators=(",", ":"), allow_nan=False).encode()
            connection.execute("INSERT INTO records VALUES (?, ?)", (number, written))
            now = sqlite.checksum(now, written)
        connection.execute("UPDATE seal SET checksum = ?", (now,))

    def _check_folder(self) -> None:
        if not self.path.parent.is_dir():
            raise CampaignError(f"`path` must be a file in a folder that exists. Got {str(self.path)!r}.")

    def _check_thread(self) -> None:
        if threading.get_ident() != self._thread:
            raise CampaignError("A Campaign is for the thread that opened it: open the same file once per thread.")


_NONE = itertools.repeat(None)


def _rows(events: Sequence[Event]) -> list[int]:
    return [event.row for event in events]


def _labels(events: Sequence[Event]) -> list[Any]:
    return [event.label for event in events if event.kind in ("tell", "rename")]


def _details(events: Sequence[Event]) -> list[Any]:
    """Lists of when labels were given, and of remarks, if there are any."""
    whens, remarks = [event.when for event in events], [event.remark for event in events]
    found = [[] if set(whens) == {None} else whens, remarks if any(remarks) else []]
    return found if found[1] else found[:1] if found[0] else []


def _records_of(rows: Rows, first: int) -> Iterator[tuple[str, Any]]:
    """Records of the rows from ``first`` on."""
    for start in range(first, len(rows.ids), _BLOCK):
        part = slice(start, start + _BLOCK)
        yield "rows", [rows.ids[part].tolist(), _packed(rows.hashes[part]), rows.labels[part]]


def _packed(hashes: NDArray[np.uint64]) -> str:
    return hashes.astype("<u8").tobytes().hex()
