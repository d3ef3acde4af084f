"""Ids of rows: texts or whole numbers, no two alike; and where a row stands by its id."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ._errors import CampaignError, shown

EXACT = 2.0**53
"""Up to here a float holds every whole number."""

_BLOCK = 65_536
"""Ids that are texts of Python's own at one time, where all are gone through."""


def plain_ids(keys: Any, place: Callable[[int], str] | None = None) -> list[Any]:
    """Ids as texts or whole numbers, no two of them alike, none missing; ``place`` says in words where a row is."""
    series = pd.Series(keys)
    missing = np.flatnonzero(series.isna().to_numpy() | (series.astype(object) == "").to_numpy())
    if len(missing):
        where = f"row {missing[0] + 1}" if place is None else place(int(missing[0]))
        raise CampaignError(
            f"`id` must be there in every row. {where[0].upper()}{where[1:]}{_and_others(missing)} has none: give it "
            "one, or drop it.",
            missing.tolist() if place is None else (),
        )
    twice = np.flatnonzero(series.duplicated().to_numpy())
    if len(twice):
        raise _twice(_plain_id(series.iloc[twice[0]]), twice, place)
    if series.dtype.kind == "f" and (series % 1 == 0).all() and (series.abs() < EXACT).all():  # beside a gap once
        series = series.astype(np.int64)
    ids = [_plain_id(value) for value in series.tolist()]
    if len({type(id) for id in ids}) > 1:
        examples = next(id for id in ids if isinstance(id, str)), next(id for id in ids if isinstance(id, int))
        raise CampaignError(f"`id` must hold texts or whole numbers, not both. Got {shown(examples)}: make all texts.")
    return ids


def check_distinct(ids: Ids, place: Callable[[int], str]) -> None:
    """Check that no two ids are alike, of a table that was read in parts."""
    twice = ids.twins()
    if len(twice):
        raise _twice(ids[int(twice[0])], twice, place)


def _twice(id: Any, rows: NDArray[np.int64], place: Callable[[int], str] | None) -> CampaignError:
    where = f"row {rows[0] + 1}" if place is None else place(int(rows[0]))
    return CampaignError(
        f"`id` must be different in every row. Got {id!r} again in {where}{_and_others(rows)}: drop the copies, or "
        "name another column.",
        rows.tolist() if place is None else (),
    )


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


class Ids(Sequence[Any]):
    """Ids of all rows, as one run of bytes: a text of Python's own takes some seventy bytes, and there may be millions.

    Parameters
    ----------
    content : bytes
        The ids as texts, one behind the other, in UTF-8.
    ends : ndarray of shape (n_rows + 1,), int64
        Where each begins, and the last one ends.
    is_text : bool
        Whether they are texts; else whole numbers.
    """

    def __init__(self, content: bytes, ends: NDArray[np.int64], is_text: bool) -> None:
        self._content, self._ends, self.is_text = content, ends, is_text
        self._sorted: tuple[NDArray[np.uint64], NDArray[np.int64]] | None = None

    @classmethod
    def of(cls, ids: Iterable[Any]) -> Ids:
        return cls.of_blocks([list(ids)])

    @classmethod
    def of_blocks(cls, blocks: Iterable[list[Any]]) -> Ids:
        """Blocks of ids, one behind the other, of which one at a time is looked at."""
        content, lengths, is_text = bytearray(), [np.zeros(1, dtype=np.int64)], True
        for block in blocks:
            is_text = isinstance(block[0], str) if block else is_text
            texts = [str(id).encode("utf-8", "surrogatepass") for id in block]
            content += b"".join(texts)
            lengths.append(np.fromiter(map(len, texts), dtype=np.int64, count=len(texts)))
        return cls(bytes(content), np.cumsum(np.concatenate(lengths)), is_text)

    def __len__(self) -> int:
        return len(self._ends) - 1

    def __getitem__(self, place: Any) -> Any:
        if isinstance(place, slice):
            return self.at(np.arange(len(self))[place])
        return self.at(np.array([range(len(self))[place]]))[0]

    def __iter__(self) -> Iterator[Any]:
        for start in range(0, len(self), _BLOCK):
            yield from self[start : start + _BLOCK]

    def at(self, rows: NDArray[np.int64]) -> list[Any]:
        """The ids of some rows, as Python's own values."""
        texts = [one.decode("utf-8", "surrogatepass") for one in self._bytes_at(rows)]
        return texts if self.is_text else [int(text) for text in texts]

    def _bytes_at(self, rows: NDArray[np.int64]) -> list[bytes]:
        starts, stops = self._ends[rows].tolist(), self._ends[rows + 1].tolist()
        return [self._content[start:stop] for start, stop in zip(starts, stops, strict=True)]

    def then(self, others: Ids) -> Ids:
        """These, and others behind them."""
        if len(others) == 0:
            return self
        ends = np.concatenate([self._ends, others._ends[1:] + self._ends[-1]])
        return Ids(self._content + others._content, ends, self.is_text)

    def equals(self, others: Ids) -> bool:
        """Whether these are the same ids in the same order."""
        same_ends = self.is_text == others.is_text and np.array_equal(self._ends, others._ends)
        return same_ends and self._content == others._content

    def find(self, ids: Ids) -> NDArray[np.int64]:
        """Where among these each of some ids is; -1 if it is not there."""
        found = np.full(len(ids), -1, dtype=np.int64)
        if len(self) == 0 or self.is_text != ids.is_text:
            return found
        hashes, order = self._in_order_of_hashes()
        wanted = ids._hashes()
        places = np.searchsorted(hashes, wanted)
        left = np.arange(len(ids))
        while len(left):  # a second time only for two ids of one hash
            left = left[places[left] < len(hashes)]
            left = left[hashes[places[left]] == wanted[left]]
            rows = order[places[left]]
            pairs = zip(self._bytes_at(rows), ids._bytes_at(left), strict=True)
            same = np.fromiter((ours == theirs for ours, theirs in pairs), dtype=bool, count=len(left))
            found[left[same]] = rows[same]
            left = left[~same]
            places[left] += 1
        return found

    def twins(self) -> NDArray[np.int64]:
        """Rows whose id an earlier row has."""
        hashes, order = self._in_order_of_hashes()
        again = np.flatnonzero(hashes[1:] == hashes[:-1]) + 1
        near = np.unique(np.concatenate([order[again], order[again - 1]]))
        seen: set[bytes] = set()
        later = []
        for row, one in zip(near.tolist(), self._bytes_at(near), strict=True):
            if one in seen:
                later.append(row)
            seen.add(one)
        return np.array(later, dtype=np.int64)

    def _in_order_of_hashes(self) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
        if self._sorted is None:
            hashes = self._hashes()
            order = np.argsort(hashes, kind="stable")
            self._sorted = hashes[order], order
        return self._sorted

    def _hashes(self) -> NDArray[np.uint64]:
        hashes = np.empty(len(self), dtype=np.uint64)
        for start in range(0, len(self), _BLOCK):
            rows = np.arange(start, min(start + _BLOCK, len(self)))
            hashes[rows] = pd.util.hash_array(
                np.array([*self._bytes_at(rows), None], dtype=object)[:-1], categorize=False
            )
        return hashes


class Directory:
    """Where each row stands, by its id.

    Parameters
    ----------
    ids : Ids
        Of all rows, in the order of the campaign.
    gone : iterable of int
        Rows that are in the table no more.
    """

    def __init__(self, ids: Ids, gone: Iterable[int]) -> None:
        self._ids, self._gone = ids, frozenset(gone)

    def rows(self, ids: Sequence[Any]) -> list[int]:
        """Positions of rows by id; refuse ids that there are not."""
        ids = [int(id) if isinstance(id, float | np.floating) and id % 1 == 0 else id for id in ids]
        wrong = [i for i, id in enumerate(ids) if isinstance(id, bool | np.bool_)]  # which pandas takes for 0 and 1
        if wrong:
            raise CampaignError(f"{shown([ids[i] for i in wrong])} is no id: ids are texts or whole numbers.", wrong)
        where = self._where(ids)
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

    def _where(self, ids: Sequence[Any]) -> list[int]:
        """Positions, -1 for what is no id."""
        wanted = str if self._ids.is_text else int | np.integer
        alike = np.array([i for i, id in enumerate(ids) if isinstance(id, wanted)], dtype=np.int64)
        where = np.full(len(ids), -1, dtype=np.int64)
        where[alike] = self._ids.find(Ids.of(_plain_id(ids[i]) for i in alike.tolist()))
        return where.tolist()

    def _hint(self, unknown: list[Any]) -> str:
        """A word on ids of another type, or whose leading zeros a spreadsheet has taken away."""
        twin = next((other for id in unknown if self._where([other := _in_other_type(id)])[0] >= 0), None)
        if twin is not None:
            return f" There is {twin!r}: read ids in the type of the table."
        bare = str(unknown[0]).lstrip("0")
        like = next((id for id in self._ids if isinstance(id, str) and bare and id.lstrip("0") == bare), None)
        return "" if like is None else f" There is {like!r}: a spreadsheet may have taken the zeros away."


def _in_other_type(id: Any) -> Any:
    if isinstance(id, str):
        return int(id) if id.isdecimal() else None
    return str(id)
