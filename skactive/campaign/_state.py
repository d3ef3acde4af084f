"""The state of the rows of a campaign, from the labels they came with and all events since."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ._store import Event

Votes = Mapping[str, Any]
"""The last label of each annotator, in the order in which they were told."""


def _latest(votes: Votes) -> Any:
    return next(reversed(list(votes.values())))


def _majority(votes: Votes) -> Any:
    counts = Counter(votes.values()).most_common(2)
    return None if len(counts) > 1 and counts[0][1] == counts[1][1] else counts[0][0]


def _agreed(votes: Votes) -> Any:
    return None if len(set(votes.values())) > 1 else _latest(votes)


RULES: dict[str, Callable[[Votes], Any]] = {"latest": _latest, "majority": _majority, "open": _agreed}
"""Which label counts if annotators disagree; None if none does."""


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

    def disagreements(self) -> dict[int, dict[str, Any]]:
        """Rows with different labels of annotators."""
        return {row: votes for row, votes in self.given.items() if len(set(votes.values())) > 1}


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
