"""Rows that were asked for, and what was told of them."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._checks import check_positions, kind_of_labels, mixed_labels_error
from ._weights import Weights


@dataclass(frozen=True)
class Picks:
    """Rows that were asked for, in the order of asking, and what was told of them.

    A pick is a position in this order. ``asks`` says which call chose it; ``answers`` are picks with their labels.
    """

    rows: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    log_proba: Weights = field(default_factory=lambda: np.empty(0))
    asks: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    answers: tuple[tuple[NDArray[np.int64], NDArray[Any]], ...] = ()

    @property
    def is_told(self) -> NDArray[np.bool_]:
        is_told = np.zeros(len(self.rows), dtype=bool)
        for picks, _ in self.answers:
            is_told[picks] = True
        return is_told

    @property
    def labels(self) -> NDArray[Any]:
        order = np.argsort(np.concatenate([picks for picks, _ in self.answers]))
        return np.concatenate([labels for _, labels in self.answers])[order]

    @property
    def n_complete(self) -> int:
        """How many picks have labels, where these are the first ones."""
        is_told = self.is_told
        n_told = int(is_told.sum())
        gaps = self.rows[:n_told][~is_told[:n_told]]
        if len(gaps):
            raise ValueError(
                f"An estimate needs the labels of all rows in the order of asking, and row {gaps[0]} was asked for "
                f"before others that have one; {len(self.rows) - n_told} rows are open in all (`open_`). Tell their "
                "labels. Rows that nobody can label cannot be left out either: tell a label of its own for them, which "
                "counts as an error."
            )
        return n_told

    @property
    def n_asks_told(self) -> int:
        """How many batches there were up to the last pick that has a label."""
        return int(self.asks[self.is_told].max(initial=-1)) + 1

    def asked(self, rows: NDArray[np.int64], log_proba: Weights) -> Picks:
        number = self.asks.max(initial=-1) + 1
        return dataclasses.replace(
            self,
            rows=np.concatenate([self.rows, rows]),
            log_proba=np.concatenate([self.log_proba, log_proba]),
            asks=np.concatenate([self.asks, np.full(len(rows), number)]),
        )

    def told(self, picks: NDArray[np.int64], labels: NDArray[Any]) -> Picks:
        if self.answers and kind_of_labels(self.answers[0][1]) != kind_of_labels(labels):
            raise mixed_labels_error("labels", [self.answers[0][1].item(0), labels.item(0)])
        return dataclasses.replace(self, answers=(*self.answers, (picks, labels)))

    def open_picks(self, rows: Any, n_pool: int) -> NDArray[np.int64]:
        """Picks without a label: those of some rows, or of the one ask that is open."""
        picks = np.flatnonzero(~self.is_told)
        if len(picks) == 0:
            raise ValueError(
                "`labels` must be those of rows that `ask` chose, and `ask` was not called since the last ones."
            )
        if rows is not None:
            return picks[self._where_open(check_positions("rows", rows, n_pool), self.rows[picks])]
        asks = np.unique(self.asks[picks])
        if len(asks) > 1:
            raise ValueError(
                f"`rows` must say which rows these labels belong to, as the rows of {len(asks)} asks are open. Give "
                "what `ask` returned, or the part of it that has labels now."
            )
        return picks

    def _where_open(self, rows: NDArray[np.int64], open_rows: NDArray[np.int64]) -> NDArray[np.int64]:
        wrong = rows[~np.isin(rows, open_rows)]
        if len(wrong):
            why = "has a label" if wrong[0] in self.rows else "was not asked for"
            raise ValueError(
                f"`rows` must be positions in the pool that `ask` returned and that have no label yet. Got {wrong[0]}, "
                f"which {why}, and {len(wrong)} such rows in all."
            )
        order = np.argsort(open_rows)
        return order[np.searchsorted(open_rows, rows, sorter=order)]
