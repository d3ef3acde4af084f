"""Tables of Parquet: .parquet."""

from __future__ import annotations

import io
from pathlib import Path
from typing import TYPE_CHECKING

from ._columns import column_of, series_of, values_of
from ._errors import file_error
from ._names import check_no_name_twice

if TYPE_CHECKING:
    import pandas


def read_parquet(content: bytes, path: Path, text: set[str], notes: list[str]) -> dict[str, pandas.Series]:
    import pyarrow
    from pyarrow import parquet, types

    try:
        table = parquet.ParquetFile(pyarrow.BufferReader(content)).read()
    except (pyarrow.ArrowException, OSError) as error:
        raise file_error(path, "this is no Parquet file, or a damaged or cut one. Copy or write it again.") from error
    made = {}
    check_no_name_twice(table.column_names, path)
    for name, column in zip(table.column_names, table.columns, strict=True):
        kind = column.type.value_type if types.is_dictionary(column.type) else column.type
        if name.startswith("__index_level_"):
            notes.append(f"{path}: the index that pandas wrote without a name was left out.")
            continue
        if not name:
            raise file_error(path, "a column has an empty name. Name it.")
        if types.is_nested(kind):
            raise file_error(path, f"column {name!r} is nested ({kind}), and a cell must be one value. Flatten it.")
        known = (types.is_temporal, types.is_string, types.is_large_string, types.is_null, types.is_boolean)
        if not any(check(kind) for check in (*known, types.is_integer, types.is_floating, types.is_decimal)):
            raise file_error(path, f"column {name!r} holds values of the kind {kind}. Write it as texts or numbers.")
        if name in text and not (types.is_string(kind) or types.is_large_string(kind)):
            values = column.to_pylist()
            made[name] = column_of(values, path, name, True, notes, range(1, len(values) + 1), "row")
        else:
            made[name] = series_of(column, path, name, notes)
    if not made:
        raise file_error(path, "it has no column.")
    return made


def write_parquet(frame: pandas.DataFrame, path: Path) -> bytes:
    import pyarrow
    from pyarrow import parquet

    for name, column in frame.items():
        kinds = {type(value) for value in values_of(column, path)} - {type(None)} if column.dtype == object else set()
        if len(kinds) > 1:
            some = ", ".join(sorted(kind.__name__ for kind in kinds))
            raise file_error(path, f"column {name!r} holds values of several kinds ({some}). Make them all texts.")
    target = io.BytesIO()
    try:
        parquet.write_table(pyarrow.Table.from_pandas(frame, preserve_index=False), target)
    except (pyarrow.ArrowException, UnicodeEncodeError, OverflowError) as error:
        raise file_error(path, f"Parquet cannot hold the table: {error}") from error
    return target.getvalue()
