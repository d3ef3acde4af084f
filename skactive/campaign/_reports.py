"""Whether to go on: the chain of stopping reports, made again from what happened."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from .._progress import progress
from .._random import check_random_state
from ..stopping import StoppingReport
from ._fits import has_enough
from ._state import State
from ._table import Pool

MOST_REPORTS = 8
"""Each is a fit. A verdict goes by the last ``patience`` labels, which as a rule are the last batch or two."""

MOST_ROWS = 20_000
"""Rows without a label that predictions are compared on; a report draws some of these."""

Fit = Callable[[Sequence[int]], tuple[Any, pd.DataFrame, NDArray[Any]]]
"""``fit(rows)`` is a model fitted to the labels of these rows, the rows and the labels."""


def moments_of(state: State) -> list[int]:
    """How many of the labels in ``state.order`` there were when a batch had come back, and how many there are now.

    A batch has come back once labels of a later one come in.
    """
    latest, moments = 0, [0]
    for n, row in enumerate(state.order):
        batch = state.asked.get(row, 0)
        if batch > latest:
            latest = batch
            moments.append(n)
    return sorted({*moments, len(state.order)})


def report_on(
    state: State, table: Pool, fit: Fit, kind: str, options: dict[str, Any], verbose: int
) -> StoppingReport | None:
    """The report of now, after those of the last batches; None if there were labels of one class until now."""
    left = np.flatnonzero(state.candidates())
    rng = check_random_state([options["random_state"], 4])
    if len(left) > MOST_ROWS:
        left = rng.choice(left, MOST_ROWS, replace=False)
    report = None
    moments = moments_of(state)[-MOST_REPORTS:]
    first = min((n for n in moments if _can_fit(state, n, kind)), default=len(state.order))
    looked_at = np.sort(np.concatenate([left, np.array(state.order[first:], dtype=np.int64)]))
    X = table.take(looked_at)
    for n in progress(moments, doing="stopping report", unit="fit", verbose=verbose):
        if not _can_fit(state, n, kind):
            continue
        model, X_training, y_training = fit(state.first_labelled(n))
        pool = np.sort(np.concatenate([left, np.array(state.order[n:], dtype=np.int64)]))
        report = StoppingReport.from_learner(
            model,
            X.iloc[np.searchsorted(looked_at, pool)],
            report,
            X_training=X_training,
            y_training=y_training,
            **options,
        )
    return report


def _can_fit(state: State, n: int, kind: str) -> bool:
    return has_enough([state.labels[row] for row in state.first_labelled(n)], kind)
