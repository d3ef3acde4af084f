"""Who labels which row: what pages are handed, what they say, and when the next batch is due.

All that lasts is in the file of the campaign. Which rows a page holds is known while it is heard of; one that comes
back, after an hour or to another server, claims those that nobody has labelled since.
"""

from __future__ import annotations

import itertools
import time
from pathlib import Path
from typing import Any, NamedTuple

from .._base import CampaignBase, until_written
from .._labels import Answer, fraction_of, plain_label
from .._page import cell, guess_in_words, labelling_page
from .._store import CampaignError, CampaignFileError, Ledger, shown
from ._learner import Learner

SILENT = 30.0  # seconds without a word, after which rows of a page go to others
MOST_AHEAD = 10  # rows that a page is handed at once


class Given(NamedTuple):
    """An answer as a page sends it."""

    key: str  # made by the page: what comes twice is taken once
    row: int
    label: str | None  # None skips the row, and "" takes back what was said of it
    age: int  # milliseconds since the person gave it: clocks of browsers differ
    remark: str


class Message(NamedTuple):
    """What a page says: its answers, the rows without an answer that it holds, and how many more it wants."""

    page: str
    answers: list[Given]
    rows: list[int]
    more: int
    waits: bool  # it has no row to show, or those alone that its person has put off
    leaves: bool

    @classmethod
    def of(cls, said: dict[str, Any]) -> Message:
        """From JSON; an error of Python where it is no message."""
        given = [Given(str(k), int(i), x and str(x), int(age), str(r)) for k, i, x, age, r in said["answers"]]
        flags = bool(said["waits"]), bool(said["leaves"])
        return cls(str(said["page"]), given, [*map(int, said["rows"])], int(said["more"]), *flags)


class Page(NamedTuple):
    """A page that was heard of, and the rows that it holds."""

    annotator: str
    rows: list[int]
    heard: float


class Desk:
    """One thread hands out rows, takes answers, and says to the learner when a batch is due."""

    def __init__(self, campaign: CampaignBase, batch: int, overlap: int, learner: Learner) -> None:
        self._batch, self._overlap, self._learner = batch, overlap, learner
        self._pages: dict[str, Page] = {}
        self._notes: dict[str, str] = {}  # by the keys of answers that were taken
        self._take_table(campaign)
        self._tell_learner(campaign._store.ledger(), is_short=False)

    def _take_table(self, campaign: CampaignBase) -> None:
        """Show the table that a campaign has."""
        self._campaign, self._X, pool = campaign, campaign._table(), campaign._settings.get("pool")
        self._folder = (campaign.path.parent / pool[0]).parent.resolve() if pool else None
        self._columns = [self._X.iloc[:, j].array for j in range(self._X.shape[1])]
        self._gone = {*campaign._gone.tolist()}

    def exchange(self, annotator: str, message: Message) -> dict[str, Any]:
        """Take the answers of a page, and hand it rows."""
        if self._learner.campaign._X is not self._X:  # which was read anew
            self._take_table(self._learner.campaign._twin())
        self._campaign._store.ledger()  # trouble with the file is none of an answer: the page keeps them all
        answers, now = {one.key: self._reply(annotator, one) for one in message.answers}, time.monotonic()
        self._pages.pop(message.page, None)
        self._pages = {name: page for name, page in self._pages.items() if now - page.heard < SILENT}
        ledger = self._campaign._store.ledger()
        kept = [row for row in message.rows if self._is_wanted(row, annotator, ledger)]
        picks = dict.fromkeys(row for group in ledger.groups if group.kind == "ask" for row in group.rows)
        free = (row for row in picks if row not in kept and self._is_wanted(row, annotator, ledger))
        new = [*itertools.islice(free, min(max(message.more, 0), MOST_AHEAD))]
        if not message.leaves:
            self._pages[message.page] = Page(annotator, kept + new, now)
        self._tell_learner(ledger, is_short=message.waits and not new)
        gone = [row for row in message.rows if row not in kept]
        said = {"answers": answers, "rows": [*map(self._shown, new)], "gone": gone}
        return {**said, **self._said(ledger), "trouble": self._learner.trouble, "panel": self._learner.panel}

    def _tell_learner(self, ledger: Ledger, is_short: bool) -> None:
        """Ask for a batch where one is due, or where a page finds no row, as all are in other hands or put off."""
        due = due_in(ledger, self._batch, self._gone)
        self._learner.need(ledger.seen if due is None and is_short else due)

    # --- answers ----------------------------------------------------------------------------------

    def _reply(self, annotator: str, given: Given) -> dict[str, Any]:
        """Whether an answer is in the file, and what there is to say of it; ``again`` asks to send it once more."""
        if given.key not in self._notes:
            try:
                self._notes[given.key] = self._taken(annotator, given)
            except CampaignError as error:  # of the file where the disk is full, say
                return {"saved": False, "again": isinstance(error, CampaignFileError), "note": str(error)}
        return {"saved": True, "note": self._notes[given.key]}

    def _taken(self, annotator: str, given: Given) -> str:
        """Write an answer."""
        campaign, label = self._campaign, given.label
        if label == "":
            until_written(lambda: campaign._undo(given.row, annotator))
            return ""
        if label is not None and (label := plain_label(label, "the label")) is None:
            raise CampaignError("A label must not be empty.")
        if not campaign._settings["kind"]:  # the first label says whether there are numbers to predict
            label = fraction_of(label, campaign._settings.get("dialect", {}).get("decimal"))
        if not 0 <= given.row < len(campaign._ids):
            raise CampaignError(f"There is no row {given.row} in the table.")
        id = campaign._ids[given.row]
        id = id.item() if hasattr(id, "item") else id
        remark = plain_label(given.remark, "the remark") or ""
        answer = Answer(id, label, annotator, given.label is None, time.time() - max(given.age, 0) / 1000, remark)
        told = until_written(lambda: campaign._tell([answer], unasked=False))
        if told.n_left_out:
            return f"{id!r} was withdrawn or answered again in the meantime: your answer is ignored."
        new = f"{shown(told.new)} is a label that no row had before. If it is wrong, go back and give the right one."
        return new if told.new else ""

    # --- rows -------------------------------------------------------------------------------------

    def _is_wanted(self, row: int, annotator: str, ledger: Ledger) -> bool:
        """Whether a row waits for this annotator: one that is out, and with ``overlap`` one that too few have seen."""
        if row not in ledger.out and (self._overlap == 1 or row not in ledger.asked or row in ledger.skipped):
            return False
        given = {name for name, told in ledger.votes.items() if row in told}
        seen = given | {page.annotator for page in self._pages.values() if row in page.rows}
        is_there = row < len(self._campaign._ids) and row not in self._gone
        is_open = (row in ledger.out or bool(given)) and (annotator, row) not in ledger.passed  # nor withdrawn
        return is_there and is_open and annotator not in seen and len(seen) < self._overlap

    def _shown(self, row: int) -> dict[str, Any]:
        """A row for the page."""
        cells = [cell(column[row], self._folder) for column in self._columns]
        for j, one in enumerate(cells):
            if isinstance(one, dict):
                one["src"] = f"picture/{row}/{j}"
        guess = guess_in_words(*self._learner.guesses.get(row, (None, None)))
        return {"row": row, "id": str(self._campaign._ids[row]), "cells": cells, "guess": guess}

    def picture(self, row: int, column: int) -> Path | None:
        """The file of a picture that stands in a cell, if it lies below the folder of the table."""
        asked, n_rows = self._campaign._store.ledger().asked, len(self._campaign._ids)
        if self._folder is None or row not in asked or row >= n_rows or column >= len(self._columns):
            return None
        value = self._columns[column][row]
        if not isinstance(cell(value, self._folder), dict):
            return None
        file = (self._folder / value).resolve()  # links are followed before it is asked where the file is
        return file if file.is_relative_to(self._folder) and file.is_file() else None

    def page(self, annotator: str) -> str:
        """The page, which then asks for rows."""
        campaign, closed = self._campaign, self._campaign._settings["labels"] is not None
        title = f"{campaign.path.stem}{annotator and f': {annotator}'}"
        key = f"skactive-live-{campaign._store.secret(f'page {annotator}')}"
        return labelling_page(campaign._table().head(0), **campaign._questions(), closed=closed, title=title, live=key)

    def _said(self, ledger: Ledger) -> dict[str, Any]:
        """How far the last batch is, how many answers there are, and what labels."""
        last: list[int] = next((group.rows for group in reversed(ledger.groups) if group.kind == "ask"), [])
        given = sum(map(len, ledger.votes.values())) - len(ledger.came.keys() & ledger.votes.get("", {}).keys())
        counts = {"size": len(last), "done": len(last) - len(ledger.out.intersection(last)), "given": given}
        asked = self._campaign._questions()
        return {"counts": counts, "kind": asked["kind"], "names": [*map(str, asked["labels"])]}


def due_in(ledger: Ledger, batch: int, gone: set[int]) -> int | None:
    """The event after which less than half a batch was out, found in the file alone; None while more is."""
    if 2 * len(ledger.out - gone) >= batch:
        return None
    out, seen, since = set[int](), 0, 0
    for group in ledger.groups:
        before, rows = len(out), {*group.rows} - gone
        out = out | rows if group.kind == "ask" else out - rows
        seen += len(group.rows)
        if group.kind == "ask" or 2 * len(out) < batch <= 2 * before:
            since = seen
    return since
