"""The picks of a campaign that are a sample of its table: consecutive ones, of known probability, from one pool."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ._ledger import BatchRecord, Event, State

MOST_WEIGHT = 25.0  # of a row, relative to uniform choice: with more, intervals from a few hundred picks are too narrow


@dataclass(frozen=True)
class Picks:
    """Consecutive picks of known probability, from one pool, up to the last one with an answer."""

    rows: NDArray[np.int64]
    log_proba: NDArray[np.float64]
    pool: NDArray[np.int64]  # rows that could be picked first
    n_pool: int
    sure: NDArray[np.float64]  # least probability of a row, relative to uniform choice: with epsilon=0.1 a tenth
    first_batch: int
    n_uncounted: int = 0  # labels of rows in batches without usable probabilities
    n_apart: int = 0  # labels of rows in other runs
    are_drawn: bool = True


def picks_of(batches: Sequence[BatchRecord], events: Sequence[Event], state: State) -> Picks | None:
    """The run of picks with the most that are sure, as many as there were uniform draws among them; None without any.

    A run ends before a batch without usable probabilities, and before a batch from another pool than the last one left,
    as rows were added, withdrawn, or labelled unasked.
    """
    asked, fresh = _asked(events, set(state.came))
    runs: list[list[BatchRecord]] = []
    left = -1
    uncounted: set[int] = set()
    for batch in batches:
        picks = asked[batch.number]
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
    answered = {*state.labels, *state.skipped}
    rows = [{event.row for batch in run for event in asked[batch.number]} for run in runs]
    if answered.isdisjoint(set().union(*rows)):
        return None
    least: dict[int | None, float] = {
        one.number: 1 / one.facts.get("largest_weight", 1.0) for run in runs for one in run
    }
    sure = [sum(least[one.number] * len(answered & {e.row for e in asked[one.number]}) for one in run) for run in runs]
    best = _answered(runs[int(np.argmax(sure))], asked, least, events, state, answered)
    uncounted.difference_update(best.rows.tolist())
    apart = set().union(*rows).difference(best.rows.tolist(), uncounted)
    n_uncounted, n_apart = (len(some.intersection(state.labels)) for some in (uncounted, apart))
    return replace(best, n_uncounted=n_uncounted, n_apart=n_apart)


def _asked(events: Sequence[Event], known: set[int]) -> tuple[dict[int, list[Event]], set[int]]:
    """The picks of each batch; and the batches from another pool than the last one left, with its ``known`` rows."""
    asked: dict[int, list[Event]] = defaultdict(list)
    fresh: set[int] = set()
    disturbed = False
    for event in events:
        if event.kind == "ask" and event.batch is not None:
            if event.batch not in asked and disturbed:
                fresh.add(event.batch)
                disturbed = False
            asked[event.batch].append(event)
            known.add(event.row)
        elif event.kind == "withdraw" or event.row not in known:
            disturbed = True
    return asked, fresh


def _answered(
    run: Sequence[BatchRecord],
    asked: Mapping[int, list[Event]],
    least: Mapping[int | None, float],
    events: Sequence[Event],
    state: State,
    answered: set[int],
) -> Picks:
    picks = [event for batch in run for event in asked[batch.number]]
    n = 1 + max(i for i, event in enumerate(picks) if event.row in answered)
    n_pool = run[0].facts["n_candidates"]
    return Picks(
        np.array([event.row for event in picks[:n]], dtype=np.int64),
        np.array([event.log_proba for event in picks[:n]], dtype=np.float64),
        _pool_before(picks[0].number, events, state, n_pool),
        n_pool,
        np.array([least[event.batch] for event in picks[:n]]),
        run[0].number,
    )


def _pool_before(number: int, events: Sequence[Event], state: State, n_pool: int) -> NDArray[np.int64]:
    """The rows that could be asked for before an event; of a table that has grown since, the first ones."""
    free = np.ones(state.n_rows, dtype=bool)
    free[list(state.came)] = False
    for event in events:
        if event.number >= number:
            break
        if event.row < state.n_rows:
            free[event.row] = event.kind == "withdraw"
    there = free.copy()
    there[list(state.gone)] = False
    return np.flatnonzero(there if there.sum() >= n_pool else free)[:n_pool]


def as_if_drawn(state: State) -> Picks:
    """The labelled rows as uniform picks from the table, without the rows that cannot be labelled."""
    pool = np.setdiff1d(np.arange(state.n_rows), [*state.gone, *state.skipped])
    n = len(state.labels)
    return Picks(
        np.array(list(state.labels), dtype=np.int64),
        -np.log(len(pool) - np.arange(n)),
        pool,
        len(pool),
        np.ones(n),
        1,
        are_drawn=False,
    )
