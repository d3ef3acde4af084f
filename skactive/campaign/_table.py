"""The table of a campaign: ids, labels, the columns of the model, and hashes of rows, which tell if they change."""

from __future__ import annotations

import glob
import os
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from .._utils.validation import import_optional, warn
from ._columns import Reading, is_of_numbers, numbers_in_lists, read, some_of
from ._labels import EXACT, plain_labels
from ._ledger import Rows, has_texts, index_of
from ._store import CampaignError, shown

Indices = NDArray[np.int64]
Hashes = NDArray[np.uint64]

RESERVED = ("guess", "guess_probability", "log_proba", "skip", "remark")  # of batches beside those of the table
RESERVED_IDS = (*RESERVED, "label", "label_probability", "difference", "disputed", "batch")  # of any list of rows

_MISSING = np.uint64(0x9E3779B97F4A7C15)  # the hash of a gap, whatever the column's type
MOST_COLUMNS, MOST_TRIED = 50, 200  # of a table, and values of each, that are looked through for a changed cell
_BLOCK = 65_536  # rows hashed at a time: a column of hashes for all columns of a long table would double its memory


@dataclass(frozen=True)
class Table:
    """A checked table, in the order in which the user gives it."""

    ids: pd.Index
    X: pd.DataFrame  # the columns of the model, indexed by id
    labels: list[Any]  # None where the target has a gap
    decimal: str | None  # the decimal mark of the file that the table was read from, if it shows one

    @classmethod
    def of(cls, frame: Any, *, id: str | None, target: str, columns: list[str] | None = None) -> Table:
        """Check a table, or read it from files; ``columns`` are those that a campaign has, None for all."""
        if _is_in_files(frame):
            if id is None:
                raise CampaignError("`id` must name a column of `frame`, as files have no index. Got None.")
            frame = _read_parquet(frame, id=id, target=target, columns=columns)
        elif hasattr(frame, "to_pandas"):  # as polars and pyarrow have it
            frame = frame.to_pandas()
        if not isinstance(frame, pd.DataFrame):
            kind = type(frame).__name__
            raise TypeError(f"`frame` must be a DataFrame, Parquet files, or an Arrow dataset. Got a {kind}.")
        if len(frame) == 0:
            raise CampaignError("`frame` must have at least one row. Got an empty table.")
        frame = _with_places(frame, columns or [])
        names = frame.columns.tolist()
        ours = _columns_of(names, id=id, target=target, columns=columns, index=frame.index.name)
        ids = plain_ids(frame[id] if id is not None and id in names else frame.index.to_series())
        X = frame[ours]
        X = X.set_axis(ids.rename(id if id is not None else frame.index.name or "id"), axis=0)
        return cls(ids, X, plain_labels(frame[target], "target", ids), frame.attrs.get("decimal"))


def rows_beside(frame: Any, columns: list[str], id: str | None) -> pd.DataFrame:
    """These columns of rows that need not be in the table, indexed by id if they have one."""
    frame = frame.to_pandas() if hasattr(frame, "to_pandas") else frame
    frame = _with_places(frame, columns)
    names = list(getattr(frame, "columns", ()))
    if gone := [name for name in columns if name not in names]:
        raise CampaignError(f"`frame` must have all columns that the model learns from. It lacks {shown(gone)}.")
    return (frame.set_index(id) if id in names else frame)[columns]


def _with_places(frame: Any, columns: list[str]) -> Any:
    """A table of different columns, with one for each place of its lists where ``columns`` has these."""
    names = list(getattr(frame, "columns", ()))
    if twice := [name for name, n in Counter(names).items() if n > 1]:
        raise CampaignError(f"`frame` must have different column names. Got {shown(twice)} more than once.")
    lacking = {*columns}.difference(names)
    for name in [name for name in names if f"{name} 0" in lacking and name not in columns]:
        places, odd = numbers_in_lists(frame[name])
        if odd:
            raise CampaignError(f"`frame` must have lists of numbers of one length in {name!r}, as at the start{odd}.")
        frame = frame.drop(columns=name).assign(**dict(places.items()))
    return frame


def check_by_row(X: pd.DataFrame, groups: str | None, weight: str | None) -> None:
    """Check the columns of groups and of weights, and that there are others, for a model to learn from."""
    for parameter, name in (("groups", groups), ("weight", weight)):
        if name is not None and name not in X.columns:
            raise CampaignError(f"`{parameter}` must name a column of `frame` besides id and target. Got {name!r}.")
    if not X.columns.difference([groups, weight]).size:
        raise CampaignError("`frame` must have a column besides these for a model to learn from.")
    if groups is not None and X[groups].isna().any():
        row = int(np.flatnonzero(X[groups].isna())[0])
        raise CampaignError(f"`groups` must have a value in every row. {X.index[row]!r} has none in {groups!r}.", [row])
    if weight is not None:
        given = pd.to_numeric(X[weight], errors="coerce").to_numpy(dtype=np.float64, na_value=np.nan)
        if len(bad := np.flatnonzero(~((given > 0) & (given < np.inf))).tolist()):
            got = f"{X[weight].iloc[bad[0]]!r} for {X.index[bad[0]]!r}"
            raise CampaignError(f"`weight` must be a number above 0 in every row. Got {got}.", bad)


def _columns_of(names: list[Any], *, id: str | None, target: str, columns: list[str] | None, index: Any) -> list[str]:
    """The columns of the model, of a table with columns and an index of these names."""
    if id is not None and id not in names and id != index:
        raise CampaignError(
            f"`id` must name a column of `frame`, or its index. Got {id!r}; its columns are {shown(names, 12)}."
        )
    if target not in names:
        raise CampaignError(
            f"`target` must name a column of `frame`: rows with a gap there are to be labelled. Got {target!r}; "
            f"its columns are {shown(names, 12)}. If there are no labels yet, add an empty column {target!r}."
        )
    ours = [name for name in names if name not in (id, target)] if columns is None else columns
    gone = [name for name in ours if name not in names]
    if gone:
        raise CampaignError(f"`frame` must have the columns of the start. It lacks {shown(gone)}: put them back.")
    if not ours:
        raise CampaignError("`frame` must have a column besides the id and the target for a model to learn from.")
    if id is None and index is None and "id" in names:
        raise CampaignError("`id` must be named, as `frame` has a column 'id'. Give id=\"id\", or name the index.")
    bad = [name for name in (*ours, target) if not isinstance(name, str) or name in RESERVED]
    bad += [name for name in (id, index) if name in RESERVED_IDS]
    if bad:
        raise CampaignError(
            f"`frame` must have texts as column names, other than those that batches add. Got {shown(bad)}: rename."
        )
    return ours


# --- files ----------------------------------------------------------------------------------------


def _is_in_files(frame: Any) -> bool:
    if isinstance(frame, list | tuple):
        return len(frame) > 0 and all(isinstance(path, str | os.PathLike) for path in frame)
    return isinstance(frame, str | os.PathLike) or hasattr(frame, "get_fragments")


def _read_parquet(frame: Any, *, id: str, target: str, columns: list[str] | None) -> pd.DataFrame:
    """The columns that are needed, of Parquet files or of a dataset of Arrow."""
    pa = import_optional("pyarrow", "frame", "pyarrow")
    try:
        dataset = frame if hasattr(frame, "get_fragments") else _dataset_of(frame)
        names = dataset.schema.names
        known = {id, target, *(names if columns is None else columns)}
        table = dataset.to_table(columns=[name for name in names if not known.isdisjoint([name, f"{name} 0"])])
    except (pa.ArrowException, OSError) as error:
        raise CampaignError(f"`frame` could not be read as Parquet: {' '.join(str(error).split())}.") from error
    # Each column leaves Arrow's memory as pandas takes it: else all would be in memory twice.
    return table.to_pandas(split_blocks=True, self_destruct=True)


def _dataset_of(frame: Any) -> Any:
    """Files as one dataset, with one type for each column."""
    import pyarrow as pa
    from pyarrow import dataset

    files = _files_at([frame] if isinstance(frame, str | os.PathLike) else frame)
    schemas = [dataset.dataset(file, format="parquet").schema.remove_metadata() for file in files]
    of_pandas = "__index_level_"  # its names of an index, which is no column
    names = [{name for name in schema.names if not name.startswith(of_pandas)} for schema in schemas]
    for file, others in zip(files, [ours ^ names[0] for ours in names], strict=True):
        if others:  # Arrow would fill a column that a file lacks with gaps
            raise CampaignError(
                f"`frame` must have one set of columns. {file} and {files[0]} differ in {shown([*others])}."
            )
    return dataset.dataset(files, schema=pa.unify_schemas(schemas, promote_options="permissive"))


def _files_at(paths: Sequence[Any]) -> list[str]:
    """The files that paths, folders and patterns name, sorted by name."""
    found: set[str] = set()
    for path in map(os.path.abspath, paths):
        files = [path] if os.path.isfile(path) else files_of(path)
        if not files:
            raise CampaignError(f"`frame` must name Parquet files, or a folder of them. There are none at {path}.")
        found.update(files)
    return sorted(found)


def files_of(path: str) -> list[str]:
    """The files of a pattern, or the Parquet files in a folder, without hidden names, as Arrow does it."""
    return glob.glob(f"{glob.escape(path)}/[!._]*.parquet" if os.path.isdir(path) else path, recursive=True)


# --- ids ------------------------------------------------------------------------------------------


def plain_ids(keys: Any) -> pd.Index:
    """Ids as texts or whole numbers, all different, none missing."""
    series = pd.Series(keys)
    missing = np.flatnonzero(series.isna().to_numpy(dtype=bool) | (series == "").to_numpy(dtype=bool, na_value=False))
    if len(missing):
        raise CampaignError(f"`id` must have a value in every row. Missing in {len(missing)}.", missing.tolist())
    twice = np.flatnonzero(series.duplicated().to_numpy())
    if len(twice):
        got = f"{_plain_id(series.iloc[twice[0]])!r} again"
        raise CampaignError(f"`id` must be different in every row. Got {got}: drop the duplicates.", twice.tolist())
    if series.dtype.kind == "f" and (series % 1 == 0).all() and (series.abs() < EXACT).all():  # beside a gap once
        series = series.astype(np.int64)
    if series.dtype in ("int64", "str"):
        return pd.Index(series)
    ids = [_plain_id(value) for value in series.tolist()]
    if len({type(id) for id in ids}) > 1:
        raise CampaignError(f"`id` must hold texts or whole numbers, not both. Got {shown(ids)}: make them all texts.")
    return index_of(ids)


def _plain_id(value: Any) -> Any:
    if isinstance(value, str):
        return str(value)
    if isinstance(value, int | np.integer) and not isinstance(value, bool | np.bool_):
        return int(value)
    raise CampaignError(
        f"`id` must hold texts or whole numbers. Got {value!r}, of type {type(value).__name__}: `.astype(str)` makes "
        "them texts."
    )


def listed_ids(ids: Any) -> list[Any]:
    """Ids that a user lists, each once."""
    if isinstance(ids, str | int):
        raise TypeError(f"`ids` must be a list of ids. Got {ids!r}: [{ids!r}] is a list of one.")
    return plain_ids(list(dict.fromkeys(ids))).tolist()


def rows_of(ids: pd.Index, wanted: Sequence[Any], gone: Collection[int]) -> list[int]:
    """Positions of rows by id; refuse unknown ids, and those of rows that are gone."""
    wanted = [int(id) if isinstance(id, float | np.floating) and id % 1 == 0 else id for id in wanted]
    where = _find(ids, wanted)
    unknown = np.flatnonzero(where < 0).tolist()
    if unknown:
        strangers = list(dict.fromkeys(wanted[i] for i in unknown))
        what = "is not an id" if len(strangers) == 1 else "are not ids"
        raise CampaignError(f"{shown(strangers)} {what} of the campaign.{_hint(ids, strangers)}", unknown)
    lost = [i for i, row in enumerate(where.tolist()) if row in gone]
    if lost:
        raise CampaignError(f"Missing from the table: {shown([wanted[i] for i in lost])}. Put them back first.", lost)
    return where.tolist()


def _find(ids: pd.Index, wanted: Sequence[Any]) -> Indices:
    """Positions, -1 for unknown ids. A text is never a whole number, and no boolean is 0 or 1."""
    kind = str if has_texts(ids) else int | np.integer
    alike = [i for i, id in enumerate(wanted) if isinstance(id, kind) and not isinstance(id, bool)]
    where = np.full(len(wanted), -1, dtype=np.int64)
    where[alike] = ids.get_indexer(index_of([wanted[i] for i in alike]))
    return where


def _hint(ids: pd.Index, unknown: list[Any]) -> str:
    """A known id that differs from an unknown one by its type, or by zeros that a spreadsheet has taken away."""
    bare = str(unknown[0]).lstrip("0")
    like = next((id for id in ids.tolist() if str(id).lstrip("0") == bare), None)
    return "" if like is None else f" There is {like!r}: read ids as texts with their zeros, or in their own type."


# --- hashes of rows -------------------------------------------------------------------------------


def row_hashes(X: pd.DataFrame, readings: Mapping[str, Reading]) -> Hashes:
    """A hash for each row: the same for the same values, in whatever types and order of columns and rows."""
    names = sorted(X.columns)
    blocks = (X.iloc[start : start + _BLOCK] for start in range(0, len(X), _BLOCK))
    hashed = (pd.DataFrame({name: _hashed_as(block[name], readings.get(name)) for name in names}) for block in blocks)
    return np.concatenate([pd.util.hash_pandas_object(one, index=False).to_numpy() for one in hashed])


def _hashed_as(column: pd.Series, reading: Reading | None) -> Hashes:
    """A hash for each value as it is read, so that one odd cell, by which all are texts, does not change the others."""
    if reading is None or reading.kind not in ("number", "date") or column.dtype.kind in "mM" or is_of_numbers(column):
        return _hashed(column)
    values = read(column, reading)
    is_read = values.abs() < EXACT if reading.kind == "number" else values.notna()
    return np.where(is_read, _hashed(values), _hashed(column))


def _hashed(column: pd.Series) -> Hashes:
    """A hash for each value: of numbers and booleans as floats, of times as microseconds, of all others as texts."""
    missing = column.isna().to_numpy(dtype=bool)
    if column.dtype.kind in "mM":
        moments = column.to_numpy(dtype=f"{column.dtype.kind}8[us]", na_value=None).astype(np.int64)
        return np.where(missing, _MISSING, pd.util.hash_array(moments))
    if pd.api.types.is_numeric_dtype(column) and not isinstance(column.dtype, pd.SparseDtype):
        values = column.to_numpy(dtype=np.float64, na_value=np.nan)
        if pd.api.types.is_float_dtype(column) or (missing | (np.abs(values) < EXACT)).all():
            return np.where(missing, _MISSING, pd.util.hash_array(values + 0.0))  # no -0.0
    objects = column.to_numpy(dtype=object)
    if pd.api.types.infer_dtype(objects, skipna=True) == "string":
        return np.where(missing, _MISSING, pd.util.hash_array(objects))
    is_number = np.array([_is_short_number(value) for value in objects], dtype=bool)
    # All digits of long numbers, several of which are one float; all elements of arrays: `str` would leave some out.
    texts = [str(value.tolist() if isinstance(value, np.ndarray) else value) for value in objects[~is_number]]
    hashed = pd.util.hash_array(np.where(is_number, objects, 0.0).astype(np.float64) + 0.0)
    hashed[~is_number] = pd.util.hash_array(np.array([*texts, None], dtype=object)[:-1])
    return np.where(missing, _MISSING, hashed)


def _is_short_number(value: Any) -> bool:
    """True for floats and booleans, and for whole numbers that a float holds exactly."""
    is_whole = isinstance(value, int | np.integer | np.bool_)
    return isinstance(value, float | np.floating) or (is_whole and abs(int(value)) < EXACT)


# --- a table that is given again ------------------------------------------------------------------


@dataclass(frozen=True)
class Match:
    """A table beside the rows of a campaign."""

    table: Table
    positions: Indices  # where in the table each row of the campaign is; -1 if it is gone
    gone: Indices  # rows of the campaign
    changed: Indices  # rows of the campaign
    new: Indices  # positions in the table
    hashes: Hashes  # of the table
    cell: str  # what changed in the first changed row, if that is one cell

    @classmethod
    def of(cls, rows: Rows, table: Table, readings: Mapping[str, Reading]) -> Match:
        where = np.arange(len(rows.ids)) if rows.ids.equals(table.ids) else rows.ids.get_indexer(table.ids)
        known = where >= 0
        if not known.any():
            raise CampaignError(
                f"`frame` must have the ids of the campaign: {shown(rows.ids[:6].tolist())}. Got none of them, but "
                f"{shown(table.ids[:6].tolist())}: read them as the campaign did, dtype={{id: str}} in pandas."
            )
        positions = np.full(len(rows.ids), -1, dtype=np.int64)
        positions[where[known]] = np.flatnonzero(known)
        hashes = row_hashes(table.X, readings)
        changed = np.flatnonzero((positions >= 0) & (hashes[positions] != rows.hashes))
        first = changed[:1].tolist()
        cell = "".join(_changed_cell(table.X, positions[i], rows.hashes[i], readings) for i in first)
        return cls(table, positions, np.flatnonzero(positions < 0), changed, np.flatnonzero(~known), hashes, cell)

    def check_changes(self, ids: pd.Index, taken: set[int], changes: str) -> None:
        """Refuse rows that are gone or changed, or warn of them; without those whose absence was accepted before."""
        gone = ids[[i for i in self.gone.tolist() if i not in taken]].tolist()
        changed = ids[self.changed].tolist()
        parts = [_count(gone, "is gone", "are gone"), _count(changed, "holds other values", "hold other values")]
        found = "; ".join(filter(None, parts)) + self.cell
        if found and changes == "refuse":
            raise CampaignError(
                f"`frame` must hold the rows of the campaign unchanged; it may hold more. {found}. Restore "
                'the old table, or go on with this one by `changes="take"`, in the shell --take-changes.'
            )
        if found:
            warn(f"{found}. The table is used as it is now.")

    def all_hashes(self, before: Hashes) -> Hashes:
        """Hashes of the rows of the campaign as they are now, the new ones behind."""
        now = before.copy()
        now[self.changed] = self.hashes[self.positions[self.changed]]
        return np.concatenate([now, self.hashes[self.new]])

    def rows(self, ids: pd.Index) -> pd.DataFrame:
        """Rows in the order of the campaign, ``ids``, the new ones behind; those that are gone hold any values."""
        positions = np.concatenate([self.positions, self.new])
        X = self.table.X
        if len(positions) == len(X) and (positions == np.arange(len(X))).all():
            return X
        return X.iloc[np.maximum(positions, 0)].set_axis(ids.rename(X.index.name), axis=0)


def _changed_cell(X: pd.DataFrame, at: int, before: np.uint64, readings: Mapping[str, Reading]) -> str:
    """The cell that makes a row another one, if it was a gap or what another row has there."""
    names = [name for name, one in readings.items() if one.kind not in ("embedding", "list")]
    for name in names if len(names) <= MOST_COLUMNS else ():
        cells = some_of(X[name])
        tried = [None, *cells[~cells.astype(str).duplicated()].iloc[:MOST_TRIED].tolist()]
        rows = X.iloc[[at] * len(tried)].assign(**{name: pd.array(tried, dtype=object)})
        for i in np.flatnonzero(row_hashes(rows, readings) == before).tolist():
            was, now = ("empty" if pd.isna(cell) else repr(cell) for cell in (tried[i], *X[name].iloc[[at]].tolist()))
            return f". In {X.index[at]!r} the column {name!r} was {was}, and is {now}"
    return ""


def _count(ids: list[Any], one: str, more: str) -> str:
    if not ids:
        return ""
    return f"{f'1 row {one}' if len(ids) == 1 else f'{len(ids):,} rows {more}'}: {shown(ids)}"
