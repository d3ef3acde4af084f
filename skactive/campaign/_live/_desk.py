"""Who labels which row: what pages are handed, what they say, and when the next batch is due.

All that lasts is in the file of the campaign. Which rows a page holds is known while it is heard of;
a page that comes back, after an hour or to another server, claims those that nobody else has labelled since.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from .._base import CampaignBase, until_written
from .._labels import Answer, fraction_of, plain_label
from .._page import cell, guess_in_words
from .._store import CampaignError, CampaignFileError, Ledger, shown

SILENT = 30.0  # seconds without a word, after which rows of a page go to others
MOST_AHEAD = 10  # rows that a page is handed at once


class Given(NamedTuple):
    """An answer as a page sends it."""

    key: str  # made by the page: what comes twice is taken once
    row: int
    label: str | None  # None skips the row
    age: float  # seconds since the person gave it: clocks of browsers differ


class Message(NamedTuple):
    """What a page says: its answers, the rows without an answer that it holds, and how many more it wants."""

    page: str
    answers: list[Given]
    rows: list[int]
    more: int
    leaves: bool = False


@dataclass
class _Page:
    annotator: str
    rows: list[int] = field(default_factory=list)
    heard: float = 0.0


class Desk:
    """One thread hands out rows and takes answers. ``guess_of`` says what the model says of a row, if it did."""

    def __init__(
        self,
        campaign: CampaignBase,
        batch: int,
        overlap: int,
        folder: Path | None = None,
        guess_of: Callable[[int], Any] = lambda row: (None, None),
    ) -> None:
        self.campaign, self.batch, self.overlap, self.folder = campaign, batch, overlap, folder
        self._guess_of = guess_of
        self._pages: dict[str, _Page] = {}
        self._replies: dict[str, dict[str, Any]] = {}  # by the keys of answers

    def exchange(self, annotator: str, message: Message) -> dict[str, Any]:
        """Take the answers of a page, and hand it rows."""
        now = time.monotonic()
        self._pages = {name: page for name, page in self._pages.items() if now - page.heard < SILENT}
        answers = {given.key: self._reply(annotator, given) for given in message.answers}
        page = self._pages[message.page] = _Page(annotator, heard=now)
        ledger = self.campaign._store.ledger()
        page.rows = [row for row in message.rows if self._is_wanted(row, annotator, ledger)]
        free = (row for row in self._picks(ledger) if row not in page.rows and self._is_wanted(row, annotator, ledger))
        new = [*itertools.islice(free, min(max(message.more, 0), MOST_AHEAD))]
        gone = [row for row in message.rows if row not in page.rows]
        page.rows += new
        if message.leaves:
            del self._pages[message.page]
        is_short = message.more > 0 and not new
        return {"answers": answers, "rows": [*map(self._shown, new)], "gone": gone, "short": is_short, **self._counts()}

    def due(self, is_short: bool = False) -> int | None:
        """The event after which less than half a batch was out, found in the file alone; None while more is.

        Also now, where a page finds no row, as all that are out are in other hands or put off.
        """
        ledger, gone = self.campaign._store.ledger(), {*self.campaign._gone.tolist()}
        if 2 * len(ledger.out - gone) >= self.batch:
            return ledger.seen if is_short else None
        out, seen, since = set[int](), 0, 0
        for group in ledger.groups:
            before, rows = len(out), {*group.rows} - gone
            out = out | rows if group.kind == "ask" else out - rows
            seen += len(group.rows)
            if group.kind == "ask" or 2 * len(out) < self.batch <= 2 * before:
                since = seen
        return since

    # --- answers ----------------------------------------------------------------------------------

    def _reply(self, annotator: str, given: Given) -> dict[str, Any]:
        """Whether an answer is in the file, and what there is to say of it; ``again`` asks to send it once more."""
        if given.key not in self._replies:
            try:
                reply = {"saved": True, "note": self._taken(annotator, given)}
            except CampaignFileError as error:  # a full disk, say
                return {"saved": False, "again": True, "note": str(error)}
            except CampaignError as error:
                reply = {"saved": False, "note": str(error)}
            self._replies[given.key] = reply
        return self._replies[given.key]

    def _taken(self, annotator: str, given: Given) -> str:
        campaign = self.campaign
        id = self._id(given.row)
        if not self._is_known(given.row):
            raise CampaignError(f"{id!r} was not asked for.")
        label = None if given.label is None else plain_label(given.label, "the label")
        if given.label is not None and label is None:
            raise CampaignError("a label must have a letter or a digit. Got an empty one.")
        if not campaign._settings["kind"]:  # the first label says whether there are numbers to predict
            label = fraction_of(label)
        when = time.time() - max(given.age, 0.0)
        answer = Answer(id, label, annotator, given.label is None, when)
        told = until_written(lambda: campaign._tell([answer], unasked=False))
        if told.n_left_out:
            return f"{id!r} was withdrawn or answered anew in the meantime: your answer is left out."
        if told.new:
            return (
                f"{shown(told.new)} is a label that no row had before. If it is a slip, go back and give the right one."
            )
        return ""

    def _is_known(self, row: int) -> bool:
        ledger = self.campaign._store.ledger()
        return row in ledger.asked or ledger.has_vote(row)

    def _id(self, row: int) -> Any:
        if not 0 <= row < len(self.campaign._ids):
            raise CampaignError(f"There is no row {row} in the table.")
        return self.campaign._ids[[row]].tolist()[0]

    # --- rows -------------------------------------------------------------------------------------

    def _picks(self, ledger: Ledger) -> dict[int, None]:
        """Rows that were asked for, in the order of the picks."""
        return dict.fromkeys(row for group in ledger.groups if group.kind == "ask" for row in group.rows)

    def _is_wanted(self, row: int, annotator: str, ledger: Ledger) -> bool:
        """Whether a row waits for an answer of this annotator: not while it is with as many others as shall see it."""
        if not (row in ledger.out or (self.overlap > 1 and row in ledger.asked and row not in ledger.skipped)):
            return False
        if row >= len(self.campaign._ids) or row in self.campaign._gone:
            return False
        given = {name for name, told in ledger.votes.items() if row in told}
        seen = given | {page.annotator for page in self._pages.values() if row in page.rows}
        return (row in ledger.out or bool(given)) and annotator not in seen and len(seen) < self.overlap

    def _shown(self, row: int) -> dict[str, Any]:
        values = (self.campaign._table().iloc[:, j].array[row] for j in range(self.campaign._table().shape[1]))
        cells = [cell(value, self.folder) for value in values]
        for j, one in enumerate(cells):
            if isinstance(one, dict):
                one["src"] = f"picture/{row}/{j}"
        return {"row": row, "id": str(self._id(row)), "cells": cells, "guess": guess_in_words(*self._guess_of(row))}

    def picture(self, row: int, column: int) -> Path | None:
        """The file of a picture that stands in a cell, if it lies below the folder of the table."""
        X = self.campaign._table()
        if self.folder is None or not (self._is_known(row) and 0 <= row < len(X) and 0 <= column < X.shape[1]):
            return None
        value, folder = X.iloc[:, column].array[row], self.folder.resolve()
        if not isinstance(cell(value, self.folder), dict):
            return None
        file = (folder / value).resolve()  # links are followed before it is asked where the file is
        return file if file.is_relative_to(folder) and file.is_file() else None

    def _counts(self) -> dict[str, Any]:
        """How far the last batch is, what labels there are, and how many answers."""
        ledger = self.campaign._store.ledger()
        last: list[int] = next((group.rows for group in reversed(ledger.groups) if group.kind == "ask"), [])
        return {
            "size": len(last),
            "done": len(last) - len(ledger.out.intersection(last)),
            "given": sum(map(len, ledger.votes.values())) - len(ledger.came),
            "kind": self.campaign.kind,
            "labels": [str(label) for label in self.labels()],
        }

    def labels(self) -> list[Any]:
        """The classes that a person may choose from."""
        if self.campaign.kind == "numbers":
            return []
        return self.campaign._settings["labels"] or sorted(self.campaign._store.ledger().counts, key=str)
