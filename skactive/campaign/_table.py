"""The table of a campaign: an id for each row, a column for the labels, and columns for a model.

A table comes as a DataFrame or stands in files, and is then the rows of a campaign, in its order. All others go by
`Given` and `Pool`, and do not ask where the rows are.
"""

from __future__ import annotations

import datetime
import hashlib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from ._errors import CampaignError, shown
from ._ids import EXACT, Ids, plain_ids
from ._labels import plain_labels

RESERVED = ("guess", "guess_probability", "log_proba", "skip")
"""Columns that batches have beside those of the table."""

RESERVED_IDS = (*RESERVED, "label", "label_probability", "difference", "disputed", "batch")
"""And those of lists of rows, beside the id."""

_MISSING = np.uint64(0x9E3779B97F4A7C15)


class Pool(Protocol):
    """The rows of a campaign, in its order, wherever they are. Of those that are gone nobody knows the values."""

    @property
    def columns(self) -> list[str]:
        """For a model to go by."""

    def take(self, rows: ArrayLike) -> pd.DataFrame:
        """Some rows, indexed by id."""

    def column(self, name: str) -> NDArray[Any]:
        """The values of a column, one for each row."""

    def aligned(self, values: Any, name: str) -> Any:
        """Values of a user, one for each row, in a form that a query puts in the order of the rows."""

    def pool(self) -> Any:
        """All rows as one query takes them."""

    def fields(self) -> list[Any] | None:
        """Names and types of the columns as Arrow has them; None of rows in memory."""

    def parts(self) -> Iterator[tuple[NDArray[np.int64], pd.DataFrame]]:
        """Positions and rows, indexed by id, some at a time: all rows, or all that are there."""


class Given(Protocol):
    """A table as a user gives it, checked, in an order of its own."""

    @property
    def ids(self) -> Ids: ...

    @property
    def labels(self) -> list[Any]:
        """One for each row; None where the target has a gap."""

    @property
    def columns(self) -> list[str]:
        """For a model to go by."""

    def prints(self) -> NDArray[np.uint64]:
        """A number for each row, which is another one once a value of it has changed."""

    def in_order(self, positions: NDArray[np.int64], ids: Ids) -> Pool:
        """The rows at these positions, of which -1 is none, as those of a campaign with these ids."""

    def settings(self) -> dict[str, Any]:
        """What a campaign that is begun with it writes down of it."""


@dataclass(frozen=True)
class InMemory:
    """The rows of a campaign as a DataFrame.

    Attributes
    ----------
    X : DataFrame
        What the model sees: all columns but those of the id and of the target, indexed by id.
    """

    X: pd.DataFrame

    @property
    def columns(self) -> list[str]:
        return self.X.columns.tolist()

    def take(self, rows: ArrayLike) -> pd.DataFrame:
        return self.X.iloc[np.asarray(rows, dtype=np.int64)]

    def column(self, name: str) -> NDArray[Any]:
        return self.X[name].to_numpy()

    def aligned(self, values: Any, name: str) -> Any:
        return values

    def pool(self) -> pd.DataFrame:
        return self.X

    def fields(self) -> None:
        return None

    def parts(self) -> Iterator[tuple[NDArray[np.int64], pd.DataFrame]]:
        yield np.arange(len(self.X)), self.X


@dataclass(frozen=True)
class Table:
    """Rows with ids, in memory.

    Attributes
    ----------
    ids : Ids
    X : DataFrame
        What the model sees: all columns but those of the id and of the target, indexed by id.
    labels : list
        One for each row; None where the target has a gap.
    """

    ids: Ids
    X: pd.DataFrame
    labels: list[Any]

    @classmethod
    def of(cls, frame: Any, *, id: str | None, target: str, columns: list[str] | None = None) -> Table:
        """Check a table as a user gives it; ``columns`` are those that a campaign has, None for all.

        Rows may be ids of the index, with ``id`` as its name or None.
        """
        frame = _as_frame(frame)
        names = frame.columns.tolist()
        ours = columns_of(names, id=id, target=target, columns=columns, index=frame.index.name)
        if len(frame) == 0:
            raise CampaignError(EMPTY)
        ids = plain_ids(frame[id] if id is not None and id in names else frame.index.to_series())
        X = frame[ours]
        complex_ = [name for name in X.columns if X[name].dtype.kind == "c"]
        if complex_:
            raise CampaignError(f"`frame` must not hold complex numbers. Got some in {shown(complex_)}: split them.")
        X = X.set_axis(pd.Index(ids, name=id if id is not None else frame.index.name or "id"), axis=0)
        return cls(Ids.of(ids), X, plain_labels(frame[target], "target", ids))

    @property
    def columns(self) -> list[str]:
        return self.X.columns.tolist()

    def settings(self) -> dict[str, Any]:
        return {}

    def in_order(self, positions: NDArray[np.int64], ids: Ids) -> InMemory:
        if len(positions) == len(self.X) and (positions == np.arange(len(positions))).all():
            return InMemory(self.X)
        X = self.X.iloc[np.maximum(positions, 0)]
        return InMemory(X.set_axis(pd.Index(list(ids), name=X.index.name)))

    def prints(self) -> NDArray[np.uint64]:
        return prints_of(self.X)


EMPTY = "`frame` must have at least one row. Got an empty table."


def columns_of(
    names: list[Any], *, id: str | None, target: str, columns: list[str] | None, index: Any = None
) -> list[str]:
    """Columns for a model to go by, of a table with columns and an index of these names."""
    twice = [name for name, n in Counter(names).items() if n > 1]
    if twice:
        raise CampaignError(f"`frame` must have different names of columns. Got {shown(twice)} more than once.")
    if id is not None and id not in names and id != index:
        raise CampaignError(
            f"`id` must name a column of `frame`, or its index. Got {id!r}; its columns are {shown(names, 12)}."
        )
    if target not in names:
        raise CampaignError(
            f"`target` must name a column of `frame`: rows with a gap there are to be labelled. Got {target!r}; "
            f"its columns are {shown(names, 12)}. If there are no labels yet, add an empty column {target!r}."
        )
    ours = [name for name in names if name not in (id, target)]
    gone = [name for name in columns or () if name not in ours]
    if gone:
        raise CampaignError(
            f"`frame` must have the columns that the campaign was started with. It lacks {shown(gone)}: put "
            "them back, or start a new campaign."
        )
    ours = ours if columns is None else columns
    if not ours:
        raise CampaignError("`frame` must have a column beside the id and the target, for a model to go by.")
    if id is None and index is None and "id" in names:
        raise CampaignError("`id` must be named, as `frame` has a column 'id'. Give id=\"id\", or name the index.")
    bad = [name for name in ours if not isinstance(name, str)]
    if bad:
        raise CampaignError(f"`frame` must have columns with texts as names. Got {shown(bad)}.")
    taken = [name for name in (*ours, target) if name in RESERVED]
    taken += [name for name in (id, index) if name in RESERVED_IDS]
    if taken:
        raise CampaignError(
            f"`frame` must not have a column {taken[0]!r}, which is what batches call one of their own. Rename it."
        )
    return ours


def prints_of(X: pd.DataFrame) -> NDArray[np.uint64]:
    """A number for each row, which is another one once a value of it has changed."""
    total = np.zeros(len(X), dtype=np.uint64)
    names = pd.util.hash_array(np.array(X.columns, dtype=object))
    for name, key in zip(X.columns, names, strict=True):
        total += _mixed(_hashed(X[name]) ^ key)
    return total


def _as_frame(frame: Any) -> pd.DataFrame:
    if isinstance(frame, pd.DataFrame):
        return frame
    if hasattr(frame, "to_pandas"):  # polars, pyarrow
        return frame.to_pandas()
    raise TypeError(
        f"`frame` must be a DataFrame, paths of Parquet files, or a dataset of Arrow. Got a {type(frame).__name__}."
    )


def _hashed(column: pd.Series) -> NDArray[np.uint64]:
    """A number for each value: the same however it is stored, and one of its own for a gap."""
    missing = column.isna().to_numpy(dtype=bool)
    if isinstance(column.dtype, np.dtype) and column.dtype.kind in "bf":
        return np.where(missing, _MISSING, _of_floats(column.to_numpy(dtype=np.float64)))
    if isinstance(column.dtype, np.dtype) and column.dtype.kind in "iu":
        whole = column.to_numpy()
        hashed = _of_floats(whole.astype(np.float64))
        large = np.abs(whole.astype(np.float64)) >= EXACT
        hashed[large] = _of_texts([str(value) for value in whole[large].tolist()])
        return hashed
    if isinstance(column.dtype, np.dtype) and column.dtype.kind in "mM":
        unit = f"{column.dtype.kind}8[us]"
        return np.where(missing, _MISSING, pd.util.hash_array(column.to_numpy().astype(unit).astype(np.int64)))
    values = column.astype(object).tolist()
    texts, numbers = [], np.full(len(values), np.nan)
    for i, (value, gap) in enumerate(zip(values, missing.tolist(), strict=True)):
        if gap:
            texts.append("")
        elif isinstance(value, bool | int | float | np.bool_ | np.integer | np.floating) and abs(float(value)) < EXACT:
            numbers[i] = float(value)
            texts.append("")
        else:
            texts.append(_text(value))
    hashed = np.where(np.isnan(numbers), _of_texts(texts), _of_floats(numbers))
    return np.where(missing, _MISSING, hashed)


def _of_floats(values: NDArray[np.float64]) -> NDArray[np.uint64]:
    return pd.util.hash_array(values + 0.0)  # no -0.0


def _of_texts(texts: list[str]) -> NDArray[np.uint64]:
    return pd.util.hash_array(np.array([*texts, None], dtype=object)[:-1])


def _text(value: Any) -> str:
    """All of a value: an array to its last element, a moment in UTC."""
    if isinstance(value, np.ndarray):
        return f"{value.dtype} {value.shape} {hashlib.sha256(np.ascontiguousarray(value).tobytes()).hexdigest()}"
    if isinstance(value, datetime.datetime):
        moment = pd.Timestamp(value)
        return str((moment if moment.tz is None else moment.tz_convert("UTC").tz_localize(None)).isoformat())
    return str(value)


def _mixed(x: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Scatter the bits (Steele, Lea and Flood, 2014, the finaliser of SplitMix)."""
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))
