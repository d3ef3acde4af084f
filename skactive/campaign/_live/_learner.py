"""What goes on in the background while people label: batches are asked for, and the model is judged."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from typing import Any

from .._accuracy import percent
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
        self._wanted: queue.SimpleQueue[int | None] = queue.SimpleQueue()
        self._due = self._seen = self._failed_at = -1
        self.guesses: dict[int, tuple[Any, Any]] = {}
        self.panel: dict[str, Any] = {"version": 0}
        self._curve: list[str] = []  # since this began
        self.trouble = ""  # why there is no batch, or nothing new to say of the model

    def need(self, due: int | None, seen: int) -> None:
        """Ask for the batch that was due after an event, once; and anew where that failed and more happened since."""
        if due is not None and due != self._due and seen != self._failed_at:
            self._due, self._seen = due, seen
            self._wanted.put(due)

    def stop(self) -> None:
        """End after what is under way."""
        self._wanted.put(None)

    def run(self) -> None:
        """Go on until `stop`, or the end of the process."""
        if self._wanted.empty():
            self._try(self._judge)
        while (due := self._wanted.get()) is not None:
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
        """Say how good the model is: its accuracy beside the share of the commonest class, and whether to go on."""
        now: Any = self._campaign._twin()
        now._store.until = now._store.ledger().seen  # one moment for all that follows
        status: Status = now.status()
        accuracy, topics = status.accuracy, status._by_topic()
        stop = "You can stop. " if status.report is not None and status.report.verdict == "stop" else ""
        head = "Too few labels to say how good the model is"
        if accuracy is not None:
            self._curve.append(f"{status.n_labels} labels {accuracy._shown(accuracy).partition(' (')[0]}")
            head = f"{accuracy.measure.capitalize()} {accuracy._shown(accuracy)}"
            if accuracy.classes is not None:
                share = accuracy.classes.loc[accuracy.commonest, "share"]
                head += f"; always guessing {accuracy.commonest!r} {percent(share)}"
        curve = [f"So far: {', '.join(self._curve)}."] if len(self._curve) > 1 else []
        found = disputes_of(now._state(), now._named_ids()).drop(columns="label")
        disputes = [f"Disputed, {id}: {row.dropna().to_dict()}" for id, row in found.head(MOST_DISPUTES).iterrows()]
        lines = [*curve, *(line for topic, line in topics.items() if topic != "out"), *disputes]
        self.panel = {"version": self.panel["version"] + 1, "head": stop + head, "lines": [*map(cut, lines)]}
