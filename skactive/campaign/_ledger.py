"""What the records of a campaign come to: a ledger, to which one more adds, and the state of the rows at a moment."""

from __future__ import annotations

import itertools
import json
import math
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray


class Event(NamedTuple):
    """What happened to a row."""

    kind: str  # "ask", "tell", "skip", "withdraw", "undo" or "rename"
    row: int  # its position in the campaign
    label: Any = None  # str, int, float, bool or None
    annotator: str = ""  # "" if none was named
    batch: int | None = None  # in which the row was asked for
    log_proba: float | None = None  # of the pick, given those before it
    time: str = ""  # ISO 8601, in the time zone of the writer
    number: int = 0  # events count up from 1; 0 is not written yet
    when: float | None = None  # when a label was given, in seconds since 1970; None is when it is told
    remark: str = ""  # beside a label or a skip


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


def _majority(votes: Mapping[str, Any]) -> Any:
    counts = Counter(votes.values()).most_common(2)
    return None if len(counts) > 1 and counts[0][1] == counts[1][1] else counts[0][0]


RULES: dict[str, Callable[[Mapping[str, Any]], Any]] = {
    "latest": lambda votes: [*votes.values()][-1],
    "majority": _majority,
    "open": lambda votes: None if len(set(votes.values())) > 1 else [*votes.values()][-1],
}
"""Which of the last labels of annotators, in the order in which they were given, counts; None if none does."""


class Group(NamedTuple):
    """Events of one kind by one annotator at one time."""

    kind: str
    time: str
    annotator: str
    rows: list[int]
    labels: Sequence[Any] = ()  # of "tell" and "rename"
    remarks: Sequence[str] = ()  # of "tell" and "skip", if there are any
    log_proba: Sequence[float | None] = ()  # of "ask"
    batch: int | None = None


DAY = 86_400.0  # seconds by which clocks may differ, time zones and all
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
    times: list[float] = field(default_factory=list)  # of records, in seconds since 1970
    now: float = -math.inf  # the latest of them, without those of clocks that were ahead
    votes: dict[str, dict[int, Vote]] = field(default_factory=lambda: {"": {}})
    """The last label of each annotator, by row, with when it was given, and the number of its event."""
    counts: Counter[Any] = field(default_factory=Counter)  # how many votes there are for each label
    out: set[int] = field(default_factory=set)
    skipped: set[int] = field(default_factory=set)
    passed: set[tuple[str, int]] = field(default_factory=set)  # by annotators who skipped last, also where others label
    asked: dict[int, int] = field(default_factory=dict)  # the last batch of each row
    order: dict[int, None] = field(default_factory=dict)  # rows in the order of their first label
    withdrawn: dict[int, dict[str | None, Vote]] = field(default_factory=dict)
    """Votes that were taken back, under None for a skip; ``...`` replaces a label once the row is asked for again."""
    remarks: dict[tuple[str, int], str] = field(default_factory=dict)  # the last of an annotator on a row

    def take(self, content: bytes) -> None:
        """Add a record."""
        kind, time, facts = json.loads(content.decode("ascii"), parse_float=_finite, parse_constant=_finite)
        moment = datetime.fromisoformat(time)
        _require(moment.isoformat(timespec="seconds") == time, "times are in seconds")
        self._look_at_clock(moment.timestamp())
        getattr(self, f"_take_{kind}")(time, *facts)

    def _look_at_clock(self, time: float) -> None:
        """Clocks that go back do not count, unless most records say that one was days ahead: no label is from then."""
        self.times.append(time)
        self.now = max(self.now, time)
        if self.now > time + DAY and 2 * sum(other > time + DAY for other in self.times) < len(self.times):
            self.now = time
            every: list[dict[Any, Vote]] = [*self.votes.values(), *self.withdrawn.values()]
            for votes in every:
                votes |= {key: (min(when, time), number, label) for key, (when, number, label) in votes.items()}

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
        self._happened(Group("ask", time, "", rows, log_proba=log_proba, batch=len(self.batches)))
        self.out.update(rows)
        self.asked.update(dict.fromkeys(rows, len(self.batches)))
        for row in self.withdrawn.keys() & set(rows):
            self.withdrawn[row] = {name: (*vote[:2], ...) for name, vote in self.withdrawn[row].items()}

    def _take_tell(
        self, time: str, annotator: str, rows: list[int], labels: list[Any], whens: Any = (), remarks: Any = ()
    ) -> None:
        _require(set(map(type, whens)) <= {float, type(None)} and len(whens) in (0, len(rows)), "labels have times")
        # No label is from the future, whatever a clock said.
        times = whens or itertools.repeat(None, len(rows))
        given = (self.now if when is None else min(when, self.now) for when in times)
        self._vote(annotator, rows, labels, given)
        if annotator:  # told again under a name, a label without one is that annotator's
            self._revoke("", [row for row, label in zip(rows, labels, strict=True) if self.vote(row, "") == label])
        self._happened(Group("tell", time, annotator, rows, labels, remarks))
        self.order.update(dict.fromkeys(rows))

    def _take_rename(self, time: str, annotator: str, rows: list[int], labels: list[Any]) -> None:
        whens, numbers = zip(*(self.votes[annotator][row][:2] for row in rows), strict=True)  # given when they were
        self._vote(annotator, rows, labels, whens, numbers)
        self._happened(Group("rename", time, annotator, rows, labels))

    def _take_skip(self, time: str, annotator: str, rows: list[int], labels: list[Any], *details: Any) -> None:
        self._happened(Group("skip", time, annotator, rows, (), *details[1:]))
        self._revoke(annotator, rows)
        self.passed.update((annotator, row) for row in rows)
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

    def _take_undo(self, time: str, annotator: str, rows: list[int], labels: list[Any]) -> None:
        """What one annotator has said is taken back; the rows that nobody else has labelled wait again."""
        self._happened(Group("undo", time, annotator, rows))
        self._revoke(annotator, rows)
        for row in (one for one in rows if not self.has_vote(one)):
            self.out.add(row)
            self.order.pop(row, None)

    def _happened(self, group: Group) -> None:
        """Note events, after which no row is out or skipped."""
        rows = group.rows
        in_table = set(map(type, rows)) == {int} and min(rows) >= 0 and max(rows) < self.n_rows
        _require(in_table and type(group.annotator) is str, "events are of rows of the table")
        _require(set(map(type, group.remarks)) <= {str} and len(group.remarks) in (0, len(rows)), "remarks are texts")
        self.groups.append(group)
        self.remarks |= {(group.annotator, row): one for row, one in zip(rows, group.remarks, strict=False) if one}
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
        told = self.votes.setdefault(annotator, {})
        self.passed.difference_update((annotator, row) for row in rows)
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

    def unlabelled(self) -> NDArray[np.int64]:
        """Rows that may be asked for, and those that are out."""
        return np.concatenate([np.flatnonzero(self.candidates()), np.array(self.out, dtype=np.int64)])
