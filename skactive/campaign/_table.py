"""The table of a campaign: a DataFrame with an id for each row and a column for the labels."""

from __future__ import annotations

import datetime
import hashlib
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ._errors import CampaignError, shown
from ._ids import EXACT, plain_ids
from ._labels import plain_labels

RESERVED = ("guess", "guess_probability", "log_proba", "skip")
"""Columns that batches have beside those of the table."""

RESERVED_IDS = (*RESERVED, "label", "label_probability", "difference", "disputed", "batch")
"""And those of lists of rows, beside the id."""

_MISSING = np.uint64(0x9E3779B97F4A7C15)


@dataclass(frozen=True)
class Table:
    """Rows with ids.

    Attributes
    ----------
    ids : list of str or int
    X : DataFrame
        What the model sees: all columns but those of the id and of the target, indexed by id.
    labels : list
        One for each row; None where the target has a gap.
    """

    ids: list[Any]
    X: pd.DataFrame
    labels: list[Any]

    @classmethod
    def of(cls, frame: Any, *, id: str | None, target: str, columns: list[str] | None = None) -> Table:
        """Check a table as a user gives it; ``columns`` are those that a campaign has, None for all.

        Rows may be ids of the index, with ``id`` as its name or None.
        """
        frame = _as_frame(frame)
        if frame.columns.has_duplicates:
            twice = frame.columns[frame.columns.duplicated()].unique().tolist()
            raise CampaignError(f"`frame` must have different names of columns. Got {shown(twice)} more than once.")
        if id is not None and id in frame.columns:
            keys = frame[id]
        elif id is None or id == frame.index.name:
            keys = frame.index.to_series()
        else:
            raise CampaignError(
                f"`id` must name a column of `frame`, or its index. Got {id!r}; its columns are "
                f"{shown(frame.columns.tolist(), 12)}."
            )
        if target not in frame.columns:
            raise CampaignError(
                f"`target` must name a column of `frame`: rows with a gap there are to be labelled. Got {target!r}; "
                f"its columns are {shown(frame.columns.tolist(), 12)}. Add it, empty if there are no labels yet."
            )
        if len(frame) == 0:
            raise CampaignError("`frame` must have at least one row. Got an empty table.")
        ids = plain_ids(keys)
        X = frame.drop(columns=[name for name in (id, target) if name is not None and name in frame.columns])
        if columns is not None:
            gone = [name for name in columns if name not in X.columns]
            if gone:
                raise CampaignError(
                    f"`frame` must have the columns that the campaign was started with. It lacks {shown(gone)}: put "
                    "them back, or start a new campaign."
                )
            X = X[columns]
        if X.shape[1] == 0:
            raise CampaignError("`frame` must have a column beside the id and the target, for a model to go by.")
        if id is None and frame.index.name is None and "id" in frame.columns:
            raise CampaignError("`id` must be named, as `frame` has a column 'id'. Give id=\"id\", or name the index.")
        complex_ = [name for name in X.columns if X[name].dtype.kind == "c"]
        if complex_:
            raise CampaignError(f"`frame` must not hold complex numbers. Got some in {shown(complex_)}: split them.")
        bad = [name for name in X.columns if not isinstance(name, str)]
        if bad:
            raise CampaignError(f"`frame` must have columns with texts as names. Got {shown(bad)}.")
        taken = [name for name in (*X.columns, target) if name in RESERVED]
        taken += [name for name in (id, frame.index.name) if name in RESERVED_IDS]
        if taken:
            raise CampaignError(
                f"`frame` must not have a column {taken[0]!r}, which is what batches call one of their own. Rename it."
            )
        X = X.set_axis(pd.Index(ids, name=id if id is not None else frame.index.name or "id"), axis=0)
        return cls(ids, X, plain_labels(frame[target], "target", ids))

    def in_order(self, positions: NDArray[np.int64]) -> Table:
        """The rows at these positions."""
        return Table([self.ids[i] for i in positions], self.X.iloc[positions], [self.labels[i] for i in positions])

    def prints(self) -> NDArray[np.uint64]:
        """A number for each row, which is another one once a value of it has changed."""
        total = np.zeros(len(self.X), dtype=np.uint64)
        names = pd.util.hash_array(np.array(self.X.columns, dtype=object))
        for name, key in zip(self.X.columns, names, strict=True):
            total += _mixed(_hashed(self.X[name]) ^ key)
        return total


def _as_frame(frame: Any) -> pd.DataFrame:
    if isinstance(frame, pd.DataFrame):
        return frame
    if hasattr(frame, "to_pandas"):  # polars, pyarrow
        return frame.to_pandas()
    raise TypeError(f"`frame` must be a DataFrame. Got a {type(frame).__name__}.")


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
