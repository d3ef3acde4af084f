"""What goes on in the background while people label: batches are asked for, and the model is judged."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable
from typing import Any

from .._accuracy import Accuracy, percent
from .._base import CampaignBase, until_written
from .._curve import curve_of
from .._status import Status, disputes_of, moments_of
from .._store import Overtaken, cut

MOST_DISPUTES = 5  # that are listed
AGAIN = 5.0  # seconds after which it is tried again to ask: a table may be mended by then
MOST_POINTS = 20  # of the curve
ANEW = 4  # of these that are found when this begins, of batches before: six fits each


class Learner(threading.Thread):
    """Asks for batches and judges the model, one after the other; each time it reads the file anew."""

    def __init__(self, campaign: CampaignBase, batch: int) -> None:
        super().__init__(daemon=True, name="skactive learner")
        self.campaign, self._batch = campaign, batch
        campaign._fits = dict(campaign._fits)  # kept from here on by this thread alone
        self._wanted: queue.SimpleQueue[int | None] = queue.SimpleQueue()
        self._due, self._judged, self._again = -1, -1, 0.0
        self.guesses: dict[int, tuple[Any, Any]] = {}
        self.panel: dict[str, Any] = {"version": 0}
        self._curve: list[tuple[int, Accuracy]] | None = None  # by numbers of labels
        self.trouble = ""  # why there is no batch, or nothing new to say of the model

    def need(self, due: int | None) -> None:
        """Ask for the batch that was due after an event, once; where that failed, again after some time."""
        if due is not None and due != self._due and time.monotonic() > self._again:
            self._due = due
            self._wanted.put(due)

    def stop(self) -> None:
        """End after what is under way."""
        self._wanted.put(None)

    def run(self) -> None:
        """Go on until `stop`, or the end of the process."""
        if self._wanted.empty():
            self.trouble = _tried(self._judge)
        while (due := self._wanted.get()) is not None:
            if trouble := _tried(self._ask, due):
                trouble = f"No new rows come, and answers are kept. {trouble}"
                self._due, self._again = -1, time.monotonic() + AGAIN
            self.trouble = trouble
            self.trouble = trouble or _tried(self._judge)

    def _ask(self, due: int) -> None:
        """Choose a batch as if no event had come after ``due``, however long it takes; of the table as it is now."""
        self.campaign = self.campaign._reread() or self.campaign
        then = self.campaign._twin(until=due)
        number = len(then._store.batches()) + 1
        try:
            batch = then._ask(self._batch, None)
        except Overtaken:  # the rows, or settings, are others by now
            now = self.campaign._twin()
            if len(now._store.batches()) >= number:  # it was asked for elsewhere
                return
            batch = until_written(lambda: now._ask(self._batch, None))
        guesses = zip(batch["guess"], batch["guess_probability"], strict=True)
        self.guesses |= dict(zip(then._rows_of(batch.index.tolist()), guesses, strict=True))

    def _judge(self) -> None:
        """Say how good the model is: its accuracy beside the share of the commonest class, and whether to go on."""
        now: Any = self.campaign._twin()
        if (seen := now._store.ledger().seen) == self._judged:
            return
        now._store.until = self._judged = seen  # one moment for all that follows
        status: Status = now.status()
        accuracy, topics, state = status.accuracy, status._by_topic(), now._state()
        stop = "You can stop. " if status.report is not None and status.report.verdict == "stop" else ""
        head = "It is too early to say how good the model is"
        if accuracy is not None:
            before = now._accuracies(state, moments_of(state)[-1 - ANEW : -1]) if self._curve is None else self._curve
            self._curve = [*before, *[(status.n_labels, accuracy)] * accuracy.is_told][-MOST_POINTS:]
            head = f"{accuracy.measure.capitalize()} {accuracy._shown(accuracy)}"
            if accuracy.classes is not None:
                share = accuracy.classes.loc[accuracy.commonest, "share"]
                head += f"; always guessing {accuracy.commonest!r} {percent(share)}"
        found = disputes_of(state, now._named_ids()).drop(columns="label").head(MOST_DISPUTES)
        disputes = [f"Disputed, {id}: {str(row.dropna().to_dict())[1:-1]}" for id, row in found.iterrows()]
        lines = [*(line for topic, line in topics.items() if topic != "out"), *disputes]
        said = {"head": stop + head, "lines": [*map(cut, lines)], "curve": curve_of(self._curve or [])}
        self.panel = {"version": self.panel["version"] + 1, **said}


def _tried(do: Callable[..., None], *given: int) -> str:
    """What went wrong, if anything did: a model can fail in any way, and labelling goes on."""
    try:
        do(*given)
    except Exception as error:
        said = error if isinstance(error, ValueError) else f"{type(error).__name__}: {error}"
        return cut(" ".join(str(said).split()))
    return ""
