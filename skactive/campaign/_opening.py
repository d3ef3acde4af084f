"""A table that is given again: which of its rows the campaign knows, which are new, gone or changed."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._checks import import_optional, warn
from ._errors import CampaignError, shown
from ._ids import Ids
from ._store import Rows
from ._table import Given, Pool, Table

Indices = NDArray[np.int64]


def given_table(frame: Any, *, id: str | None, target: str, columns: list[str] | None = None) -> Given:
    """Check a table as a user gives it; ``columns`` are those that a campaign has, None for all."""
    if is_in_files(frame):
        import_optional("pyarrow", "frame", "pyarrow")
        from ._parquet import ParquetTable

        return ParquetTable.of(frame, id=id, target=target, columns=columns)
    return Table.of(frame, id=id, target=target, columns=columns)


def is_in_files(frame: Any) -> bool:
    """Whether a table is one that is read from files, in parts: paths, or a dataset of Arrow."""
    if isinstance(frame, str | os.PathLike):
        return True
    if isinstance(frame, list | tuple):
        return len(frame) > 0 and all(isinstance(path, str | os.PathLike) for path in frame)
    return hasattr(frame, "get_fragments")


@dataclass(frozen=True)
class Match:
    """A table beside the rows of a campaign.

    Attributes
    ----------
    table : Given
    positions : ndarray of shape (n_rows,), int64
        Where in the table each row of the campaign is; -1 if it is gone.
    gone, changed, new : ndarray of int64
        Rows of the campaign that are gone or hold other values, and positions in the table of rows that are new.
    prints : ndarray of shape (n_rows_of_table,), uint64
    """

    table: Given
    positions: Indices
    gone: Indices
    changed: Indices
    new: Indices
    prints: NDArray[np.uint64]

    @classmethod
    def of(cls, rows: Rows, table: Given) -> Match:
        where = np.arange(len(rows.ids)) if rows.ids.equals(table.ids) else rows.ids.find(table.ids)
        _check_kind_of_ids(rows.ids, table.ids, where)
        positions = np.full(len(rows.ids), -1, dtype=np.int64)
        known = where >= 0
        positions[where[known]] = np.flatnonzero(known)
        prints = table.prints()
        changed = np.flatnonzero((positions >= 0) & (prints[positions] != rows.prints))
        return cls(table, positions, np.flatnonzero(positions < 0), changed, np.flatnonzero(~known), prints)

    def refuse_changes(self, ids: Ids, taken: set[int]) -> None:
        """Refuse rows that are gone or changed, but for those whose absence was taken before."""
        found = self._changes(ids, taken)
        if found:
            raise CampaignError(
                f"`frame` must be the table of the campaign, to which rows may be added. {found}. Bring "
                'back the old table, or go on with this one by changes="take", in the shell --take-changes.'
            )

    def warn_of_changes(self, ids: Ids, taken: set[int]) -> None:
        """Say what is taken."""
        found = self._changes(ids, taken)
        if found:
            warn(f"{found}. That is taken as it is now.")

    def _changes(self, ids: Ids, taken: set[int]) -> str:
        gone = [ids[i] for i in self.gone.tolist() if i not in taken]
        changed = [ids[i] for i in self.changed.tolist()]
        found = [f"{_rows(gone, 'is', 'are')} gone: {shown(gone)}"] if gone else []
        found += [f"{_rows(changed, 'holds', 'hold')} other values: {shown(changed)}"] if changed else []
        return "; ".join(found)

    def prints_as_now(self, before: NDArray[np.uint64]) -> NDArray[np.uint64]:
        """Prints of the rows of the campaign, those that have changed as they are now."""
        now = before.copy()
        now[self.changed] = self.prints[self.positions[self.changed]]
        return now

    def rows(self, ids: Ids) -> Pool:
        """Rows in the order of the campaign, ``ids``, the new ones behind; nobody looks at those that are gone."""
        return self.table.in_order(np.concatenate([self.positions, self.new]), ids)


def _rows(ids: list[Any], one: str, more: str) -> str:
    return f"1 row {one}" if len(ids) == 1 else f"{len(ids):,} rows {more}"


def _check_kind_of_ids(before: Ids, now: Ids, where: Indices) -> None:
    if (where < 0).all() and before.is_text != now.is_text:
        kinds = {str: "texts", int: "whole numbers"}
        raise CampaignError(
            f"`frame` must have the ids of the campaign. Those are {kinds[type(before[0])]}, {before[0]!r} say, and "
            f"these are {kinds[type(now[0])]}, {now[0]!r}: read them as the campaign did, dtype={{id: str}} in pandas."
        )
