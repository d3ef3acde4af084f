"""What has become of the rows of a campaign, from the labels they came with and all events since."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
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
"""Which label counts where annotators disagree; None is none of them."""


@dataclass
class _Row:
    """What is known of a row that something has happened to."""

    votes: dict[str, Any] = field(default_factory=dict)
    out: bool = False
    skipped: bool = False
    batch: int | None = None  # the last one it was asked for in


@dataclass(frozen=True)
class State:
    """The rows at one moment.

    Attributes
    ----------
    n_rows : int
    seen : int
        Number of the last event.
    labels : dict of int to label
        The labels that count, by position, in the order of the positions.
    out : list of int
        Rows that were asked for and have no answer yet.
    skipped, disputed : list of int
        Rows that nobody can label, and rows whose annotators disagree, where the rule leaves them open.
    given : dict of int to dict
        The last label of each annotator, of all rows that something has happened to.
    asked : dict of int to int
        Rows that were ever asked for, with the batch that they were in last.
    order : list of int
        Rows in the order in which they got their first label, those that came with one left out.
    gone : frozenset of int
        Rows that are in the table no more: they have no label, and are not asked for.
    came : frozenset of int
        Rows that came with a label.
    """

    n_rows: int
    seen: int
    labels: dict[int, Any]
    out: list[int]
    skipped: list[int]
    disputed: list[int]
    given: dict[int, dict[str, Any]]
    asked: dict[int, int]
    order: list[int]
    gone: frozenset[int]
    came: frozenset[int]

    @classmethod
    def of(cls, start: Sequence[Any], events: Sequence[Event], rule: str, gone: Iterable[int] = ()) -> State:
        """Go through what happened; ``start`` are the labels that rows came with, ``gone`` rows that are no more."""
        gone = frozenset(gone)
        came = {row: label for row, label in enumerate(start) if label is not None and row not in gone}
        rows: dict[int, _Row] = {}
        order: dict[int, None] = {}
        seen = 0
        for event in events:
            seen = event.number
            if event.row >= len(start) or event.row in gone:
                continue  # the former of a row that another process has taken up, from a longer table
            if event.row not in rows:
                rows[event.row] = _Row({"": came[event.row]} if event.row in came else {})
            _happen(rows[event.row], event)
            if event.kind == "tell" and event.row not in came:
                order.setdefault(event.row)
            elif event.kind == "withdraw":
                order.pop(event.row, None)
        decided = {row: RULES[rule](known.votes) for row, known in rows.items() if known.votes}
        labels = {row: label for row, label in came.items() if row not in rows}
        labels |= {row: label for row, label in decided.items() if label is not None}
        return cls(
            n_rows=len(start),
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
        """Rows that had a label once ``n`` of those in ``order`` had: those that came with one, and these."""
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
        """Labels that somebody has told, whether they count or not."""
        return {*self.labels.values(), *(label for votes in self.given.values() for label in votes.values())}

    def candidates(self) -> NDArray[np.bool_]:
        """Which rows may be asked for."""
        free = np.ones(self.n_rows, dtype=bool)
        for rows in (list(self.labels), self.out, self.skipped, self.disputed, list(self.gone)):
            free[rows] = False
        return free

    def disagreements(self) -> dict[int, dict[str, Any]]:
        """Rows whose annotators do not say the same."""
        return {row: votes for row, votes in self.given.items() if len(set(votes.values())) > 1}


def _happen(row: _Row, event: Event) -> None:
    if event.kind == "ask":
        row.out, row.batch = True, event.batch
    elif event.kind == "tell":
        row.votes.pop(event.annotator, None)  # so that the last one told is the last
        row.votes[event.annotator] = event.label
        row.out = row.skipped = False
    elif event.kind == "skip":  # a label of somebody else stays
        row.votes.pop(event.annotator, None)
        row.out, row.skipped = False, not row.votes
    elif event.kind == "withdraw":
        row.out = row.skipped = False
        row.votes.clear()
