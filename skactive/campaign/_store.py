"""The file of a campaign, a chain of records to which others are only ever added, and the state that they make.

A seal holds a checksum of all records in their order, and is compared whenever the file is read: what is read is what
was written. A process that has a campaign open keeps what it has read, and reads only what came since.
"""

from __future__ import annotations

import hashlib
import hmac
import itertools
import json
import math
import os
import re
import secrets
import threading
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

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
    remedy="`Campaign.start` begins a new one.",
    after_damage="If it was copied while in use, copy it again by `Campaign.backup`, in the shell `skactive backup`; "
    "else go on from the last copy.",
)

_BLOCK = 65_536  # rows of a record: 1 MB of short ids, so that a long table is written piece by piece


class Event(NamedTuple):
    """What happened to a row."""

    kind: str  # "ask", "tell", "skip", "withdraw" or "rename"
    row: int  # its position in the campaign
    label: Any = None  # str, int, float, bool or None
    annotator: str = ""  # "" if none was named
    batch: int | None = None  # in which the row was asked for
    log_proba: float | None = None  # of the pick, given those before it
    time: str = ""  # ISO 8601, in the time zone of the writer
    number: int = 0  # events count up from 1; 0 is not written yet
    when: float | None = None  # when a label was given, in seconds since 1970; None is when it is told


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
            raise CampaignError(f"{copy._file} exists: a backup overwrites nothing. Give a new path.")
        Store(self.path).ledger()  # all of it is read and compared
        self._file.copy_to(copy.path)
        copy.ledger()

    def ledger(self) -> Ledger:
        """What is in the file now; it changes with the next reading."""
        self._check_thread()
        if not self.path.is_file():
            raise CampaignError(
                f"{self._file} is not there. Begin a campaign by `Campaign.start`, in the shell `skactive start`."
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
            (kind, row, label, annotator, batch, p, time)
            for kind, time, annotator, rows, labels, log_proba, batch in self.ledger().groups
            for row, label, p in zip(rows, labels or _NONE, log_proba or _NONE, strict=False)
        )
        return [Event(*one, number) for number, one in enumerate(happened, 1)]

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
            told = [(kind, [name, _rows(some), _labels(some), *_whens(some)]) for kind, name, some in groups]
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
            raise CampaignError(f"{self._file} was begun anew, replaced or damaged since it was opened. Open it again.")
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
            raise CampaignError("A Campaign is for the thread that opened it: open one per thread, of the same file.")


_NONE = itertools.repeat(None)


def _rows(events: Sequence[Event]) -> list[int]:
    return [event.row for event in events]


def _labels(events: Sequence[Event]) -> list[Any]:
    return [event.label for event in events if event.kind in ("tell", "rename")]


def _whens(events: Sequence[Event]) -> list[Any]:
    """A list of when labels were given, if any is known."""
    found = [event.when for event in events]
    return [] if set(found) == {None} else [found]


def _records_of(rows: Rows, first: int) -> Iterator[tuple[str, Any]]:
    """Records of the rows from ``first`` on."""
    for start in range(first, len(rows.ids), _BLOCK):
        part = slice(start, start + _BLOCK)
        yield "rows", [rows.ids[part].tolist(), _packed(rows.hashes[part]), rows.labels[part]]


def _packed(hashes: NDArray[np.uint64]) -> str:
    return hashes.astype("<u8").tobytes().hex()


def _unpacked(text: str, n: int) -> NDArray[np.uint64]:
    hashes = np.frombuffer(bytes.fromhex(text), dtype="<u8")
    _require(len(hashes) == n, "each row has a hash")
    return hashes


def index_of(ids: Sequence[Any]) -> pd.Index:
    """Plain ids as an Index: of texts, or of whole numbers."""
    return pd.Index(ids, dtype="str") if has_texts(ids) else pd.Index(ids)


def has_texts(ids: Any) -> bool:
    """True if ids are texts, False if they are whole numbers."""
    return len(ids) == 0 or isinstance(ids[0], str)


# --- what the records come to ------------------------------------------------------------------------


def _latest(votes: Mapping[str, Any]) -> Any:
    return next(reversed(list(votes.values())))


def _majority(votes: Mapping[str, Any]) -> Any:
    counts = Counter(votes.values()).most_common(2)
    return None if len(counts) > 1 and counts[0][1] == counts[1][1] else counts[0][0]


def _agreed(votes: Mapping[str, Any]) -> Any:
    return None if len(set(votes.values())) > 1 else _latest(votes)


RULES: dict[str, Callable[[Mapping[str, Any]], Any]] = {"latest": _latest, "majority": _majority, "open": _agreed}
"""Which of the last labels of annotators, in the order in which they were given, counts; None if none does."""


class Group(NamedTuple):
    """Events of one kind by one annotator at one time."""

    kind: str
    time: str
    annotator: str
    rows: list[int]
    labels: Sequence[Any] = ()  # of "tell" and "rename"
    log_proba: Sequence[float | None] = ()  # of "ask"
    batch: int | None = None


Vote = tuple[float, int, Any]


@dataclass
class Ledger:
    """What the records of a file come to. One more costs time by its own length, however many there were.

    A record that the package does not write is an error, of whatever type.
    """

    settings: dict[str, Any] = field(default_factory=dict)
    ids: list[pd.Index] = field(default_factory=list)
    hashes: list[NDArray[np.uint64]] = field(default_factory=list)
    n_rows: int = 0
    came: dict[int, Any] = field(default_factory=dict)  # labels that rows came with
    batches: list[BatchRecord] = field(default_factory=list)
    groups: list[Group] = field(default_factory=list)
    seen: int = 0  # number of the last event
    now: float = -math.inf  # seconds since 1970; clocks that go back do not count
    votes: dict[str, dict[int, Vote]] = field(default_factory=lambda: {"": {}})
    """The last label of each annotator, by row, with when it was given, and the number of its event."""
    counts: Counter[Any] = field(default_factory=Counter)  # how many votes there are for each label
    out: set[int] = field(default_factory=set)
    skipped: set[int] = field(default_factory=set)
    asked: dict[int, int] = field(default_factory=dict)  # the last batch of each row
    order: dict[int, None] = field(default_factory=dict)  # rows in the order of their first label
    withdrawn: dict[int, dict[str | None, Vote]] = field(default_factory=dict)
    """Votes of rows that nobody asked for since, with a label None under None for a skip."""

    def take(self, content: bytes) -> None:
        """Add a record."""
        kind, time, facts = json.loads(content.decode("ascii"), parse_float=_finite, parse_constant=_finite)
        moment = datetime.fromisoformat(time)
        _require(moment.isoformat(timespec="seconds") == time, "times are in seconds")
        self.now = max(self.now, moment.timestamp())
        getattr(self, f"_take_{kind}")(time, *facts)

    def rows(self) -> Rows:
        ids = self.ids[0].append(self.ids[1:])
        _require(ids.is_unique, "ids are different")
        return Rows(ids, np.concatenate(self.hashes), [self.came.get(row) for row in range(self.n_rows)])

    def vote(self, row: int, annotator: str) -> Any:
        """What an annotator says of a row; None if nothing."""
        return self.votes.get(annotator, {}).get(row, (None,))[-1]

    def votes_on(self, row: int) -> dict[str, Any]:
        """The labels of a row by annotators, in the order in which they were given."""
        found = sorted((*told[row], name) for name, told in self.votes.items() if row in told)
        return {name: label for *_, label, name in found}

    def has_vote(self, row: int) -> bool:
        return any(row in told for told in self.votes.values())

    def ever_said(self, rows: Collection[int]) -> set[tuple[int, Any]]:
        """These rows with each label that they came with, or that anybody said of them."""
        said = {(row, label) for row, label in self.came.items() if row in rows}
        for group in self.groups if rows else ():
            said.update(pair for pair in zip(group.rows, group.labels, strict=False) if pair[0] in rows)
        return said

    def _take_settings(self, time: str, settings: dict[str, Any]) -> None:
        self.settings |= settings

    def _take_rows(self, time: str, ids: list[Any], hashes: str, labels: list[Any]) -> None:
        _require(set(map(type, ids)) in ({int}, {str}), "ids are texts or whole numbers")
        _require(len(labels) == len(ids), "each row has a label or none")
        came = {row: label for row, label in enumerate(labels, self.n_rows) if label is not None}
        self.ids.append(index_of(ids))
        self.hashes.append(_unpacked(hashes, len(ids)))
        self.n_rows += len(ids)
        self.came |= came
        self._vote("", list(came), list(came.values()), itertools.repeat(-math.inf))  # before all that is told

    def _take_hashes(self, time: str, rows: list[int], hashes: str) -> None:
        self.hashes = [np.concatenate(self.hashes)]
        self.hashes[0][rows] = _unpacked(hashes, len(rows))

    def _take_ask(self, time: str, rows: list[int], log_proba: list[float | None], facts: dict[str, Any]) -> None:
        _require(type(facts["n_candidates"]) is int and len(log_proba) == len(rows), "batches have facts")
        _require(set(map(type, log_proba)) <= {int, float, type(None)}, "log-probabilities are numbers or none")
        self.batches.append(BatchRecord(len(self.batches) + 1, time, facts))
        self._happened(Group("ask", time, "", rows, (), log_proba, len(self.batches)))
        self.out.update(rows)
        self.asked.update(dict.fromkeys(rows, len(self.batches)))
        for row in rows:
            self.withdrawn.pop(row, None)

    def _take_tell(
        self, time: str, annotator: str, rows: list[int], labels: list[Any], whens: Sequence[float | None] = ()
    ) -> None:
        _require(set(map(type, whens)) <= {float, type(None)} and len(whens) in (0, len(rows)), "labels have times")
        # No label is from the future, whatever a clock said.
        given = (
            self.now if when is None else min(when, self.now) for when in whens or itertools.repeat(None, len(rows))
        )
        self._vote(annotator, rows, labels, given)
        self._happened(Group("tell", time, annotator, rows, labels))
        self.order.update(dict.fromkeys(rows))

    def _take_rename(self, time: str, annotator: str, rows: list[int], labels: list[Any]) -> None:
        whens, numbers = zip(*(self.votes[annotator][row][:2] for row in rows), strict=True)  # given when they were
        self._vote(annotator, rows, labels, whens, numbers)
        self._happened(Group("rename", time, annotator, rows, labels))

    def _take_skip(self, time: str, annotator: str, rows: list[int], labels: list[Any]) -> None:
        self._happened(Group("skip", time, annotator, rows))
        self._revoke(annotator, rows)
        self.skipped.update(row for row in rows if not self.has_vote(row))  # labels of other annotators stay

    def _take_withdraw(self, time: str, annotator: str, rows: list[int], labels: list[Any]) -> None:
        for row in self.skipped.intersection(rows):
            self.withdrawn.setdefault(row, {})[None] = self.now, 0, None
        self._happened(Group("withdraw", time, annotator, rows))
        for name in self.votes:
            for row, vote in self._revoke(name, rows).items():
                self.withdrawn.setdefault(row, {})[name] = vote
        for row in rows:
            self.order.pop(row, None)

    def _happened(self, group: Group) -> None:
        """Note events, after which no row is out or skipped."""
        rows = group.rows
        in_table = set(map(type, rows)) == {int} and min(rows) >= 0 and max(rows) < self.n_rows
        _require(in_table and type(group.annotator) is str, "events are of rows of the table")
        self.groups.append(group)
        self.seen += len(rows)
        self.out.difference_update(rows)
        self.skipped.difference_update(rows)

    def _vote(self, name: str, rows: list[int], labels: list[Any], whens: Iterable[float], numbers: Any = ()) -> None:
        _require(len(labels) == len(rows), "each row has a label")
        _require(set(map(type, labels)) <= {str, int, float, bool}, "labels are texts, numbers or booleans")
        self._revoke(name, rows)
        votes = zip(whens, numbers or itertools.count(self.seen + 1), labels, strict=False)
        self.votes.setdefault(name, {}).update(zip(rows, votes, strict=True))
        self.counts.update(labels)

    def _revoke(self, annotator: str, rows: list[int]) -> dict[int, Vote]:
        """What an annotator has said of rows, which counts no more."""
        told = self.votes.get(annotator, {})
        votes = {row: told.pop(row) for row in rows if row in told}
        for _, _, label in votes.values():
            self.counts[label] -= 1
            if not self.counts[label]:
                del self.counts[label]
        return votes


def _require(is_so: bool, rule: str) -> None:
    if not is_so:
        raise ValueError(rule)


def _finite(text: str) -> float:
    """A number of JSON; Python would read 1e999 and NaN as well."""
    number = float(text)
    _require(math.isfinite(number), "numbers are finite")
    return number


@dataclass(frozen=True)
class State:
    """The rows at one moment, by their positions."""

    n_rows: int
    seen: int  # number of the last event
    labels: dict[int, Any]  # those that count, in the order of the positions
    out: list[int]  # rows that wait for labels
    skipped: list[int]
    disputed: list[int]  # rows whose annotators disagree, so that no label counts
    given: dict[int, dict[str, Any]]  # the last label of each annotator, of rows that several have labelled
    asked: dict[int, int]  # rows that were ever asked for, with their last batch
    order: list[int]  # rows in the order of their first label, without those that came with one
    gone: frozenset[int]  # rows that are no longer in the table: they have no label, and are not asked for
    came: frozenset[int]  # rows that came with a label

    @classmethod
    def of(cls, ledger: Ledger, n_rows: int, rule: str, gone: Iterable[int] = ()) -> State:
        """The first ``n_rows`` rows, other processes may have added some; ``gone`` are no longer there."""
        gone = frozenset(gone)

        def there(rows: Iterable[int]) -> list[int]:
            return sorted(row for row in rows if row < n_rows and row not in gone)

        votes: dict[int, Vote] = {}
        several: set[int] = set()
        for told in ledger.votes.values():
            several |= votes.keys() & told.keys()
            votes |= told
        given = {row: ledger.votes_on(row) for row in there(several)}
        decided = {row: RULES[rule](found) for row, found in given.items()}
        labels = {row: decided[row] if row in decided else votes[row][-1] for row in there(votes)}
        return cls(
            n_rows=n_rows,
            seen=ledger.seen,
            labels={row: label for row, label in labels.items() if label is not None},
            out=there(ledger.out),
            skipped=there(ledger.skipped),
            disputed=[row for row, label in decided.items() if label is None],
            given=given,
            asked={row: ledger.asked[row] for row in there(ledger.asked)},
            order=[row for row in ledger.order if labels.get(row) is not None and row not in ledger.came],
            gone=gone,
            came=frozenset(there(ledger.came)),
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

    def candidates(self) -> NDArray[np.bool_]:
        """Which rows may be asked for."""
        free = np.ones(self.n_rows, dtype=bool)
        for rows in (list(self.labels), self.out, self.skipped, self.disputed, list(self.gone)):
            free[rows] = False
        return free
