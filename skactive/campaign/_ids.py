"""Ids of rows: texts or whole numbers, no two alike; and where a row stands by its id."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ._errors import CampaignError, shown

EXACT = 2.0**53
"""Up to here a float holds every whole number."""


def plain_ids(keys: Any) -> list[Any]:
    """Ids as texts or whole numbers, no two of them alike, none missing."""
    series = pd.Series(keys)
    missing = np.flatnonzero(series.isna().to_numpy() | (series.astype(object) == "").to_numpy())
    if len(missing):
        raise CampaignError(
            f"`id` must be there in every row. Row {missing[0] + 1}{_and_others(missing)} has none: give it one, or "
            "drop it.",
            missing.tolist(),
        )
    twice = np.flatnonzero(series.duplicated().to_numpy())
    if len(twice):
        first = series.iloc[twice[0]]
        raise CampaignError(
            f"`id` must be different in every row. Got {_plain_id(first)!r} again in row {twice[0] + 1}"
            f"{_and_others(twice)}: drop the copies, or name another column.",
            twice.tolist(),
        )
    if series.dtype.kind == "f" and (series % 1 == 0).all() and (series.abs() < EXACT).all():  # beside a gap once
        series = series.astype(np.int64)
    ids = [_plain_id(value) for value in series.tolist()]
    if len({type(id) for id in ids}) > 1:
        examples = next(id for id in ids if isinstance(id, str)), next(id for id in ids if isinstance(id, int))
        raise CampaignError(f"`id` must hold texts or whole numbers, not both. Got {shown(examples)}: make all texts.")
    return ids


def _plain_id(value: Any) -> Any:
    if isinstance(value, str):
        return str(value)
    if isinstance(value, int | np.integer) and not isinstance(value, bool | np.bool_):
        return int(value)
    raise CampaignError(
        f"`id` must hold texts or whole numbers. Got {value!r}, of type {type(value).__name__}: `.astype(str)` makes "
        "texts of them."
    )


def _and_others(rows: NDArray[np.int64]) -> str:
    return "" if len(rows) == 1 else f" (and {len(rows) - 1} other{'s' if len(rows) > 2 else ''})"


def as_list(ids: Any) -> list[Any]:
    """Ids that a user names, each once."""
    if isinstance(ids, str | int):
        raise TypeError(f"`ids` must be a list of ids. Got {ids!r}: [{ids!r}] is a list of one.")
    return plain_ids(list(dict.fromkeys(ids)))


class Directory:
    """Where each row stands, by its id.

    Parameters
    ----------
    ids : list
        Of all rows, in the order of the campaign.
    gone : iterable of int
        Rows that are in the table no more.
    """

    def __init__(self, ids: list[Any], gone: Iterable[int]) -> None:
        self._ids, self._gone = ids, frozenset(gone)
        self._index = pd.Index(ids, dtype=object)

    def rows(self, ids: Sequence[Any]) -> list[int]:
        """Positions of rows by id; refuse ids that there are not."""
        ids = [int(id) if isinstance(id, float | np.floating) and id % 1 == 0 else id for id in ids]
        wrong = [i for i, id in enumerate(ids) if isinstance(id, bool | np.bool_)]  # which pandas takes for 0 and 1
        if wrong:
            raise CampaignError(f"{shown([ids[i] for i in wrong])} is no id: ids are texts or whole numbers.", wrong)
        where = self._index.get_indexer(pd.Index(ids, dtype=object)).tolist() if len(ids) else []
        strangers = [i for i, row in enumerate(where) if row < 0]
        if strangers:
            unknown = [ids[i] for i in strangers]
            what = "is no id" if len(unknown) == 1 else "are no ids"
            raise CampaignError(f"{shown(unknown)} {what} of the campaign.{self._hint(unknown)}", strangers)
        lost = [i for i, row in enumerate(where) if row in self._gone]
        if lost:
            raise CampaignError(
                f"{shown([ids[i] for i in lost])} {'is' if len(lost) == 1 else 'are'} gone from the table. Put "
                "the rows back to say something of them.",
                lost,
            )
        return where

    def _hint(self, unknown: list[Any]) -> str:
        """A word on ids of another type, or whose leading zeros a spreadsheet has taken away."""
        twin = next((other for id in unknown if (other := _in_other_type(id)) in self._index), None)
        if twin is not None:
            return f" There is {twin!r}: read ids in the type of the table."
        bare = str(unknown[0]).lstrip("0")
        like = next((id for id in self._ids if isinstance(id, str) and bare and id.lstrip("0") == bare), None)
        return "" if like is None else f" There is {like!r}: a spreadsheet may have taken the zeros away."


def _in_other_type(id: Any) -> Any:
    if isinstance(id, str):
        return int(id) if id.isdecimal() else None
    return str(id)
