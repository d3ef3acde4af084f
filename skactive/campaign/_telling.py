"""What labels that come back mean for the rows of a campaign: which events they are, and what is refused."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ._errors import CampaignError, shown
from ._labels import Answer, check_one_type, converted
from ._state import State
from ._store import Event

MOST_SHOWN = 5
"""Corrections that a sentence names."""


@dataclass(frozen=True)
class Told:
    """What `Campaign.tell` has taken.

    Attributes
    ----------
    n_labels, n_corrected, n_same, n_skipped, n_open : int
        Rows that got their first label, another one, the one they had, a mark that nobody can label them, and rows
        that were given without a label, which stay as they were.
    new : tuple
        Labels that no row had before.
    corrections : tuple of (id, label, label)
        Which rows got another label: what they had, and what they have now.

    See Also
    --------
    Campaign : Its ``tell`` returns one.
    """

    n_labels: int
    n_corrected: int
    n_same: int
    n_skipped: int
    n_open: int
    new: tuple[Any, ...]
    corrections: tuple[tuple[Any, Any, Any], ...] = ()

    def __str__(self) -> str:
        parts = [f"{self.n_labels} new label{'s' * (self.n_labels != 1)}"]
        for n, what in (
            (self.n_corrected, "corrected"),
            (self.n_same, "known already"),
            (self.n_skipped, "skipped"),
            (self.n_open, "still open"),
        ):
            if n:
                parts.append(f"{n} {what}{self._corrected() if what == 'corrected' else ''}")
        return f"{', '.join(parts)}."

    def _corrected(self) -> str:
        """Some of the corrections, in brackets."""
        some = [f"{id}: {before!r} to {now!r}" for id, before, now in self.corrections[:MOST_SHOWN]]
        more = len(self.corrections) - len(some)
        return f" ({', '.join(some)}{f' and {more} more' if more else ''})"


@dataclass(frozen=True)
class Vocabulary:
    """Which labels there are.

    Attributes
    ----------
    kind : {"classes", "numbers"}
    closed : list or None
        All labels there are; None if others may come.
    known : set
        Those that rows have.
    """

    kind: str
    closed: Sequence[Any] | None
    known: set[Any]

    def label(self, label: Any) -> Any:
        """A label in the type of the others; refuse what is none."""
        label = converted(label, set(self.closed or ()) or self.known, self.kind)
        check_closed([label], self.closed, "a label")
        return label

    def labels(self, labels: Sequence[Any]) -> list[Any]:
        """Labels that come with rows, None for gaps, in the type of the others; of one type, if these are the first."""
        if not self.known:
            check_one_type(labels, "labels in `target`")
        return [None if label is None else self.label(label) for label in labels]


def check_closed(labels: Iterable[Any], closed: Iterable[Any] | None, what: str) -> None:
    """Check that labels are of a closed set, if it is one."""
    if closed is None:
        return
    known = set(closed)
    others = sorted({label for label in labels if label is not None and label not in known}, key=str)
    if others:
        raise CampaignError(f"{what} must be one of {shown(sorted(known, key=str), 12)}. Got {shown(others)}.")


def events_of(
    answers: Sequence[Answer],
    rows: Sequence[int],
    state: State,
    votes_of: Callable[[int], Mapping[str, Any]],
    words: Vocabulary,
    unasked: bool,
) -> tuple[list[Event], Told]:
    """The events that answers are, one for each row and annotator; ``rows`` are their positions.

    ``votes_of(row)`` are the labels of each annotator until now.
    """
    given = _checked(answers, rows, words)
    strangers = [row for row, _ in given if row not in state.asked and row not in state.labels]
    if strangers and not unasked:
        entries = [entry for entry, row in enumerate(rows) if row in set(strangers) and _says(answers[entry])]
        ids = [answers[entry].id for entry in entries]
        remedy = (
            "If the label is right all the same, tell it with unasked=True, in the shell --unasked."
            if any(answers[entry].label is not None for entry in entries)
            else "Ask for rows first; only those can be skipped."
        )
        raise CampaignError(f"{shown(ids)} {'was' if len(ids) == 1 else 'were'} not asked for. {remedy}", entries)
    events, counts, corrections = [], Counter[str](), []
    id_of = {row: answer.id for row, answer in zip(rows, answers, strict=True)}
    for (row, annotator), label in given.items():
        before = votes_of(row).get(annotator)
        if label is None:
            counts["skipped"] += 1
            if before is not None or row not in state.skipped:
                events.append(Event("skip", row, annotator=annotator))
        elif before == label and type(before) is type(label):
            counts["same"] += 1
        else:
            counts["corrected" if before is not None else "labels"] += 1
            if before is not None:
                corrections.append((id_of[row], before, label))
            events.append(Event("tell", row, label=label, annotator=annotator))
    is_open = words.kind == "classes" and words.closed is None and words.known
    new = {event.label for event in events if event.kind == "tell"} - words.known if is_open else set()
    return events, Told(
        n_labels=counts["labels"],
        n_corrected=counts["corrected"],
        n_same=counts["same"],
        n_skipped=counts["skipped"],
        n_open=sum(not _says(answer) for answer in answers),
        new=tuple(sorted(new, key=str)),
        corrections=tuple(corrections),
    )


def _says(answer: Answer) -> bool:
    return answer.label is not None or answer.skipped


def _checked(answers: Sequence[Answer], rows: Sequence[int], words: Vocabulary) -> dict[tuple[int, str], Any]:
    """The label of each row by each annotator, None for skipped ones; gaps are left out."""
    given: dict[tuple[int, str], Any] = {}
    if not words.known and words.closed is None and words.kind == "classes":
        check_one_type((answer.label for answer in answers), "`labels`")
    for entry, (row, answer) in enumerate(zip(rows, answers, strict=True)):
        if not _says(answer):
            continue
        label = None
        if not answer.skipped:
            try:
                label = words.label(answer.label)
            except CampaignError as error:
                raise CampaignError(f"{answer.id!r}: {error}", [entry]) from None
        first = given.setdefault((row, answer.annotator), label)
        if first != label:
            said = ["a mark to skip" if one is None else repr(one) for one in (first, label)]
            raise CampaignError(
                f"{answer.id!r} has two labels, {said[0]} and {said[1]}. Give the right one only.", [entry]
            )
    return given


def alike_in(labels: set[Any], known: set[Any]) -> tuple[str, str] | None:
    """Two of ``known`` that differ by nothing but capitals and spaces, the second of them of ``labels`` as well."""
    groups: dict[str, list[str]] = {}
    for label in known:
        if isinstance(label, str):
            groups.setdefault("".join(label.casefold().split()), []).append(label)
    pairs = [(a, b) for alike in groups.values() for b in alike if b in labels for a in alike if a != b]
    return min(pairs, key=lambda pair: (pair[0] in labels, pair), default=None)
