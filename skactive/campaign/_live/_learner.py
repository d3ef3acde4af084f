"""What goes on in the background while people label: batches are asked for, and the model is judged."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from typing import Any

from .._accuracy import Accuracy
from .._base import CampaignBase, until_written
from .._status import Status, disputes_of
from .._store import CampaignError, Overtaken, cut

MOST_DISPUTES = 5  # that are listed


class Learner(threading.Thread):
    """Asks for batches and judges the model, one after the other; each time it reads the file anew."""

    def __init__(self, campaign: CampaignBase, batch: int) -> None:
        super().__init__(daemon=True, name="skactive learner")
        self._campaign, self._batch = campaign, batch
        campaign._fits = dict(campaign._fits)  # kept from here on by this thread alone
        self._wanted: queue.SimpleQueue[int] = queue.SimpleQueue()
        self._due = self._seen = self._failed_at = -1
        self._accuracies: dict[int, Accuracy | None] = {}
        self.guesses: dict[int, tuple[Any, Any]] = {}
        self.panel: dict[str, Any] = {"version": 0, "curve": []}
        self.trouble = ""  # why there is no batch, or nothing new to say of the model

    def need(self, due: int | None, seen: int) -> None:
        """Ask for the batch that was due after an event, once; and anew where that failed and more happened since."""
        if due is not None and due != self._due and seen != self._failed_at:
            self._due, self._seen = due, seen
            self._wanted.put(due)

    def run(self) -> None:
        """Go on until the process ends."""
        self._try(self._judge)
        while True:
            due = self._wanted.get()
            if not self._try(self._ask, due):
                self._due, self._failed_at = -1, self._seen
            self._try(self._judge)

    def _try(self, do: Callable[..., None], *given: int) -> bool:
        """Whether something went well: a model can fail in any way, and labelling goes on."""
        try:
            do(*given)
        except Exception as error:
            said = error if isinstance(error, CampaignError) else f"{type(error).__name__}: {error}"
            self.trouble = cut(" ".join(str(said).split()))
            return False
        return True

    def _ask(self, due: int) -> None:
        """Choose a batch as if no event had come after ``due``, however long it takes."""
        self.trouble, then = "", self._campaign._twin(until=due)
        number = len(then._store.batches()) + 1
        try:
            batch = then._ask(self._batch, None)
        except Overtaken:  # the rows, or settings, are others by now
            now = self._campaign._twin()
            if len(now._store.batches()) >= number:  # it was asked for elsewhere
                return
            batch = until_written(lambda: now._ask(self._batch, None))
        guesses = zip(batch["guess"], batch["guess_probability"], strict=True)
        self.guesses |= dict(zip(then._rows_of(batch.index.tolist()), guesses, strict=True))

    def _judge(self) -> None:
        """Say how good the model is by the labels of now; then draw the curve, which takes longer."""
        now: Any = self._campaign._twin()
        now._store.until = now._store.ledger().seen  # one moment for all that follows
        panel = {**said_of(now.status()), "disputes": _disputes(now)}
        self._show(panel, self.panel["curve"])
        if self._wanted.empty():  # else people wait for rows
            curve = now._accuracies(self._accuracies)
            self._show(panel, [(n, one.value, one.low, one.high) for n, one in curve])

    def _show(self, panel: dict[str, Any], curve: list[Any]) -> None:
        self.panel = {**panel, "curve": curve, "version": self.panel["version"] + 1}


def said_of(status: Status) -> dict[str, Any]:
    """The accuracy beside the share of the commonest class, whether to go on, and sentences."""
    accuracy, report = status.accuracy, status.report
    head = "" if accuracy is None else f"{accuracy.measure.capitalize()} {accuracy._shown(accuracy)}"
    beside = ""
    if accuracy is not None and accuracy.classes is not None and accuracy.is_told:
        beside = f"Always {accuracy.commonest!r}: {accuracy.classes.loc[accuracy.commonest, 'share']:.0%}"
    lines = [cut(line) for topic, line in status._by_topic().items() if topic != "out"]
    return {"head": head, "beside": beside, "stop": report is not None and report.verdict == "stop", "lines": lines}


def _disputes(campaign: Any) -> list[str]:
    """Rows whose annotators disagree, and what each says."""
    found = disputes_of(campaign._state(), campaign._named_ids()).drop(columns="label")
    rows = [(id, row.dropna().items()) for id, row in found.head(MOST_DISPUTES).iterrows()]
    lines = [cut(f"{id}: " + ", ".join(f"{name} {label!r}" for name, label in said)) for id, said in rows]
    return lines + [f"and {len(found) - len(rows)} more"] * (len(found) > len(rows))
