"""The accuracy of a campaign's model, from the labels of its batches.

Rows that a query picks are not like the pool, so they are weighted by their probabilities, as in `skactive.risk`, and
compared with out-of-fold predictions. Labels that came with the table were not picked: they are used to fit, and to
estimate only if there is nothing else.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import stats

from ..risk import RiskEstimate, estimate_risk
from ._store import BatchRecord, Event, State

MOST_WEIGHT = 25.0  # of a row, relative to uniform choice: with more, intervals from a few hundred picks are too narrow
FEWEST = 20  # labels for an estimate
WIDEST = 0.5  # interval with which an accuracy is reported


@dataclass(frozen=True)
class Accuracy:
    """An accuracy, or of numbers the root mean squared error, with a 95 % interval.

    Attributes
    ----------
    value, low, high : float
    measure : {"accuracy", "root mean squared error"}
    n_labels : int
        Labels that the estimate uses.
    n_rows : int
        Rows that it is a mean over.
    weighted : bool
        True: of the rows without a label before ``first_batch``, by weighted picks. False: of rows like those that
        came with a label or were asked for with unknown probabilities, which may be unlike the others.
    n_skipped : int
        Skipped rows among the picks: the value is that of rows that can be labelled.
    n_uncounted : int
        Labels without known probabilities, which are not used: typical rows, batches with limits, the top of a ranking.
    first_batch : int
        Of the labels that are used.
    n_more : int
        About how many labels are missing until the interval of an accuracy is narrow enough to report; 0 if none.

    See Also
    --------
    campaign.Status : Holds it.
    risk.RiskEstimate : The estimate in it.
    """

    value: float
    low: float
    high: float
    measure: str
    n_labels: int
    n_rows: int
    weighted: bool
    n_skipped: int = 0
    n_uncounted: int = 0
    first_batch: int = 1
    n_more: int = 0

    def __str__(self) -> str:
        left_out = self._left_out()
        if self.n_more:
            counting = f"{self.n_labels} that count" if self.n_uncounted else f"{self.n_labels}"
            return f"too few labels to estimate accuracy ({counting}; about {self.n_more} more needed){left_out}"
        rows = "rows like those labelled"
        if self.weighted:
            when = "had no label at first" if self.first_batch == 1 else f"were left before batch {self.first_batch}"
            rows = f"the {self.n_rows:,} rows that {when}"
        show = _percent if self.measure == "accuracy" else "{:.3g}".format
        value, low, high = map(show, (self.value, self.low, self.high))
        return (
            f"{self.measure} {value} (95 % interval {low} to {high}) on {rows}, "
            f"from {self.n_labels} labels by out-of-fold predictions{left_out}"
        )

    def _left_out(self) -> str:
        text = ""
        if self.n_skipped:
            words = "row that was skipped is" if self.n_skipped == 1 else "rows that were skipped are"
            text += f"; the {self.n_skipped} {words} left out"
        if self.n_uncounted:
            text += f". Not counted: {self.n_uncounted} chosen as typical, under limits or as the top of a ranking"
        return text


def _percent(share: float) -> str:
    return f"{100 * min(max(share, 0.0), 1.0):.0f} %"


@dataclass(frozen=True)
class Picks:
    """Consecutive picks of known probability, from one pool."""

    rows: NDArray[np.int64]
    log_proba: NDArray[np.float64]
    n_pool: int
    # Sum over the picks of the least probability of a row, relative to uniform choice: with epsilon=0.1 a tenth each.
    n_sure: float
    first_batch: int
    n_uncounted: int = 0  # labels of rows in batches without usable probabilities


def picks_of(batches: Sequence[BatchRecord], events: Sequence[Event], state: State) -> Picks | None:
    """The longest run of labelled or skipped picks; None without any.

    A run ends before a pick without an answer, before a batch without usable probabilities, and before a batch from
    another pool than the last one left, as rows were added, withdrawn, or labelled unasked.
    """
    asked, fresh = _asked(events, set(state.came))
    runs: list[list[BatchRecord]] = []
    left = -1
    uncounted: set[int] = set()
    for batch in batches:
        picks = asked.get(batch.number, [])
        weight = batch.facts.get("largest_weight", 1.0)
        is_known = all(event.log_proba is not None for event in picks) and not batch.facts.get("limited")
        if not is_known or weight is None or weight > MOST_WEIGHT:
            left = -1
            uncounted.update(event.row for event in picks)
            continue
        if batch.facts["n_candidates"] != left or batch.number in fresh:
            runs.append([])
        runs[-1].append(batch)
        left = batch.facts["n_candidates"] - len(picks)
    longest = max((_answered(run, asked, state) for run in runs), key=lambda picks: len(picks.rows), default=None)
    if longest is None or len(longest.rows) == 0:
        return None
    others = uncounted.difference(longest.rows.tolist())
    return replace(longest, n_uncounted=sum(row in others for row in state.labels))


def _asked(events: Sequence[Event], known: set[int]) -> tuple[dict[int, list[Event]], set[int]]:
    """The picks of each batch; and the batches from another pool than the last one left, with its ``known`` rows."""
    asked: dict[int, list[Event]] = {}
    fresh: set[int] = set()
    disturbed = False
    for event in events:
        if event.kind == "ask" and event.batch is not None:
            if event.batch not in asked and disturbed:
                fresh.add(event.batch)
                disturbed = False
            asked.setdefault(event.batch, []).append(event)
            known.add(event.row)
        elif event.kind == "withdraw" or event.row not in known:
            disturbed = True
    return asked, fresh


def _answered(run: Sequence[BatchRecord], asked: dict[int, list[Event]], state: State) -> Picks:
    events = [event for batch in run for event in asked[batch.number]]
    answered = {*state.labels, *state.skipped}
    n = next((i for i, event in enumerate(events) if event.row not in answered), len(events))
    weight_of = {batch.number: batch.facts.get("largest_weight", 1.0) for batch in run}
    return Picks(
        np.array([event.row for event in events[:n]], dtype=np.int64),
        np.array([event.log_proba for event in events[:n]], dtype=np.float64),
        run[0].facts["n_candidates"],
        sum(1 / weight_of[event.batch] for event in events[:n] if event.batch is not None),
        run[0].number,
    )


def accuracy_of(
    judged: pd.DataFrame, y: Any, rows: Sequence[int], state: State, picks: Picks | None, kind: str
) -> Accuracy | None:
    """The accuracy from out-of-fold predictions ``judged`` of the labelled rows; ``rows`` are their positions."""
    if kind == "numbers":
        losses = (np.asarray(judged["guess"], dtype=np.float64) - np.asarray(y, dtype=np.float64)) ** 2
    else:
        losses = (judged["guess"].to_numpy() != np.asarray(y)).astype(np.float64)
    loss_of = dict(zip(rows, losses.tolist(), strict=True))
    if picks is not None and len(picks.rows) >= FEWEST:
        return _weighted(loss_of, picks, kind)
    if len(losses) < FEWEST:
        return None
    if kind == "classes":
        low, high = stats.binomtest(round(losses.sum()), len(losses)).proportion_ci(method="wilson")
    else:
        error = stats.sem(losses) * stats.t.ppf(0.975, len(losses) - 1)
        low, high = losses.mean() - error, losses.mean() + error
    return _shown(losses.mean(), low, high, kind, len(losses), state.n_rows, False)


def _weighted(loss_of: dict[int, float], picks: Picks, kind: str) -> Accuracy:
    skipped = np.array([row not in loss_of for row in picks.rows.tolist()])
    picked = np.array([loss_of.get(row, 0.0) for row in picks.rows.tolist()])
    largest = 1.0 if kind == "classes" else None
    risk = estimate_risk(picked, picks.log_proba, picks.n_pool, largest_loss=largest)
    if kind == "classes":  # errors in rows that no pick has met: the rule of three, over all batches
        risk = replace(risk, step=1 / picks.n_sure)
    # The share of rows that can be labelled: at least a half, so that noise in it cannot blow up the estimate.
    share = max(1 - estimate_risk(skipped.astype(np.float64), picks.log_proba, picks.n_pool).value, 0.5)
    low, high = (end / share for end in risk.interval())
    n_skipped = int(skipped.sum())
    return replace(
        _shown(risk.value / share, low, high, kind, len(picked) - n_skipped, picks.n_pool, True),
        n_skipped=n_skipped,
        n_uncounted=picks.n_uncounted,
        first_batch=picks.first_batch,
        n_more=_n_more(risk) if kind == "classes" else 0,
    )


def _n_more(risk: RiskEstimate) -> int:
    """About how many labels are missing until the interval is narrow enough, if they are like the present ones."""
    n = n_then = risk.n_labelled
    then = risk
    while np.subtract(*then.interval()[::-1]) > WIDEST and n_then < risk.n_pool:
        n_then = min(n_then + 10, risk.n_pool)
        error = risk.standard_error * math.sqrt(n / n_then)
        then = replace(risk, step=risk.step * n / n_then, standard_error=error, n_labelled=n_then)
    return n_then - n


def _shown(risk: float, low: float, high: float, kind: str, n_labels: int, n_rows: int, weighted: bool) -> Accuracy:
    """A risk as an accuracy, or as a root mean squared error."""
    if kind == "classes":
        value, low, high, measure = 1 - risk, 1 - high, 1 - low, "accuracy"
    else:
        value, low, high = (math.sqrt(max(0.0, end)) for end in (risk, low, high))
        measure = "root mean squared error"
    value = min(max(value, low), high)  # an unbiased estimate can lie beyond what is possible
    return Accuracy(float(value), float(low), float(high), measure, n_labels, n_rows, weighted)
