"""What goes on in the background while people label: batches are asked for, and the model is judged."""

from __future__ import annotations

import queue
import threading
from typing import Any

from .._base import CampaignBase, until_written
from .._status import Status, disputes_of
from .._store import CampaignError, Overtaken, cut

MOST_DISPUTES = 5  # that are listed


class Learner(threading.Thread):
    """Asks for batches and judges the model, one after the other; each time it reads the file anew."""

    def __init__(self, campaign: CampaignBase, batch: int) -> None:
        super().__init__(daemon=True, name="skactive learner")
        self._campaign, self._batch = campaign, batch
        self._wanted: queue.SimpleQueue[int | None] = queue.SimpleQueue()
        self._is_busy, self._failed_at = False, -1
        self._accuracies: dict[int, Any] = {}
        self._guesses: dict[int, tuple[Any, float]] = {}
        self.panel: dict[str, Any] = {"version": 0}
        self.trouble = ""  # why there is no batch, or nothing new to say of the model

    def guess_of(self, row: int) -> tuple[Any, Any]:
        return self._guesses.get(row, (None, None))

    def look(self) -> None:
        """Judge the model as it is."""
        self._wanted.put(None)

    def need(self, due: int | None, seen: int) -> None:
        """Ask for the batch that was due after an event, but not again where this failed and nothing happened since."""
        if due is not None and not self._is_busy and seen != self._failed_at:
            self._is_busy = True
            self._wanted.put(due)

    def run(self) -> None:
        while True:
            due = self._wanted.get()
            try:
                self.trouble = ""
                if due is not None:
                    self._ask(due)
                    self._is_busy = False
                self._judge()
            except Exception as error:  # a model can fail in any way; labelling goes on
                said = error if isinstance(error, CampaignError) else f"{type(error).__name__}: {error}"
                self.trouble = cut(" ".join(str(said).split()))
                if self._is_busy:
                    self._failed_at, self._is_busy = self._campaign._twin()._store.ledger().seen, False

    def _ask(self, due: int) -> None:
        """Choose a batch as if no event had come after ``due``, however long it takes."""
        then = self._campaign._twin(until=due)
        number = len(then._store.batches()) + 1
        try:
            batch = then._ask(self._batch, None)
        except Overtaken:  # the rows, or settings, are others by now
            now = self._campaign._twin()
            if len(now._store.batches()) >= number:  # it was asked for elsewhere
                return
            batch = until_written(lambda: now._ask(self._batch, None))
        guesses = zip(batch["guess"], batch["guess_probability"], strict=True)
        self._guesses |= dict(zip(then._rows_of(batch.index.tolist()), guesses, strict=True))

    def _judge(self) -> None:
        """Say how good the model is by the labels of now; then draw the curve, which takes longer."""
        now: Any = self._campaign._twin()
        now._store.until = now._store.ledger().seen  # one moment for all that follows
        status = now.status()
        panel = {**said_of(status), "disputes": _disputes(now), "curve": self.panel.get("curve", [])}
        self.panel = {**panel, "version": self.panel["version"] + 1}
        curve = [(n, one.value, one.low, one.high) for n, one in now._accuracies(self._accuracies)]
        self.panel = {**panel, "curve": curve, "version": self.panel["version"] + 1}


def said_of(status: Status) -> dict[str, Any]:
    """The accuracy beside the part of the commonest class, whether to go on, and sentences."""
    accuracy, report = status.accuracy, status.report
    found = {"head": "", "beside": "", "verdict": "" if report is None else report.verdict}
    if accuracy is not None:
        found["head"] = f"{accuracy.measure[0].upper()}{accuracy.measure[1:]} {accuracy._shown(accuracy)}"
        if accuracy.classes is not None and accuracy.is_told:
            share = accuracy.classes.loc[accuracy.commonest, "share"]
            found["beside"] = f"Always saying {accuracy.commonest!r}: {share:.0%}"
    return {**found, "lines": [cut(line) for topic, line in status._by_topic().items() if topic != "out"]}


def _disputes(campaign: Any) -> list[str]:
    """Rows whose annotators disagree, and what each says."""
    found = disputes_of(campaign._state(), campaign._named_ids()).drop(columns="label")
    listed = [
        f"{id}: " + ", ".join(f"{name} {label!r}" for name, label in row.dropna().items())
        for id, row in found.head(MOST_DISPUTES).iterrows()
    ]
    more = len(found) - len(listed)
    return [cut(line) for line in listed] + [f"and {more} more"] * (more > 0)
