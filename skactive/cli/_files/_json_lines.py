"""Tables of one JSON object a line: .jsonl, also named .ndjson."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ._columns import column_of, plain_text, values_of
from ._encodings import as_utf8, encoded
from ._errors import FileError, file_error
from ._names import check_no_name_twice

if TYPE_CHECKING:
    import pandas


def read_lines(content: bytes, path: Path, text: set[str], notes: list[str]) -> dict[str, pandas.Series]:
    content = as_utf8(content, path, notes)
    rows: list[dict[str, Any]] = []
    lines: list[int] = []

    def pairs(given: list[tuple[str, Any]]) -> dict[str, Any]:
        made = dict(given)
        if len(made) < len(given):
            check_no_name_twice([name for name, _ in given], path, number)
        return made

    decoder = json.JSONDecoder(object_pairs_hook=pairs)
    for number, line in enumerate(content.split(b"\n"), 1):
        if not line.strip():
            continue
        try:
            row = decoder.decode(line.decode().strip(" \t\r"))
        except (json.JSONDecodeError, RecursionError) as error:
            where = f" at character {error.colno}" if isinstance(error, json.JSONDecodeError) else ""
            raise file_error(path, f"this is no JSON{where}. Each line must be one object.", number) from error
        except ValueError as error:
            raise error if isinstance(error, FileError) else file_error(path, f"{error}.", number) from error
        if not isinstance(row, dict):
            raise file_error(
                path, f"each line must be an object, {{...}}. Got {line[:40].decode(errors='replace')}.", number
            )
        for name, value in row.items():
            if isinstance(value, dict | list):
                trouble = f"{name!r} is nested, and a cell must be one value. Flatten it."
                raise file_error(path, trouble, number)
        rows.append(row)
        lines.append(number)
    names = list(dict.fromkeys(name for row in rows for name in row))
    if not names:
        raise file_error(path, "it holds no row with a value, and so no column. Each line must be an object, {...}.")
    if "" in names:
        raise file_error(
            path, "a column has an empty name. Name it.", lines[next(i for i, r in enumerate(rows) if "" in r)]
        )
    return {
        name: column_of([row.get(name) for row in rows], path, name, name in text, notes, lines, "line")
        for name in names
    }


def write_lines(frame: pandas.DataFrame, path: Path) -> bytes:
    def plain(value: Any) -> Any:
        return value if isinstance(value, str | int | float | None) else plain_text(value)

    columns = [map(plain, values_of(column, path)) for _, column in frame.items()]
    try:
        rows = zip(*columns, strict=True)
        made = [
            json.dumps(dict(zip(frame.columns, row, strict=True)), ensure_ascii=False, allow_nan=False) for row in rows
        ]
    except ValueError as error:
        raise file_error(path, "a number is infinite, which JSON cannot hold. Write .csv or .parquet.") from error
    return encoded("".join(f"{line}\n" for line in made), path)
