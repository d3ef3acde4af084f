"""How the columns of a table are read: decided once for each, when a campaign starts, and kept in its file.

Nearly all cells decide. A cell that they do not explain is a gap, never a guess: of another unit, say, or "12,573"
where nothing tells whether that is a decimal mark.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ._store import CampaignError

MOST_ROWS = 20_000  # of the table, at even distances, that decide
MOST_CATEGORIES = 40  # different texts; with more of them, a column is free text
NEARLY_ALL = 0.95  # cells that fit, so that a column is numbers or dates with some gaps or slips
DATES = ("ISO8601", "%d.%m.%Y", "%d.%m.%Y %H:%M", "%d.%m.%y", "%d/%m/%Y", "%m/%d/%Y")  # that which fits most
GAPS = ["NA", "N/A", "n/a", "#N/A", "<NA>", "NaN", "nan", "-nan", "NULL", "Null", "null", "None", "none"]

OTHER = {".": ",", ",": "."}
MARKS = str.maketrans({"−": "-", **dict.fromkeys("\u00a0\u202f\u2009’", "'")})  # that part thousands, or a unit
UNIT = r"(?:[^\W\d_]|[%‰°€$£¥])[^\s,;]{0,11}"  # "kg", "mg/dl", "patients"; no sentence
CELL = rf"([€$£¥]?)[ ']?([-+]?[0-9.,][0-9.,']*?(?:[eE][-+]?[0-9]+)?)[ ']?({UNIT})?"
CODES = r"0[0-9]+|\+[0-9]{7,}|[0-9]{17,}"  # with zeros in front, telephone numbers, more digits than a float has
KINDS = ("number", "date", "category", "text", "embedding", "list", "empty")
LISTS = (list, tuple, np.ndarray)


@dataclass(frozen=True)
class Reading:
    """How a column is read."""

    kind: str  # one of KINDS
    form: str = ""  # of dates that came as texts; "boolean" of numbers that are truths; the length of lists of numbers
    mark: str = "."  # the decimal mark of numbers that come as texts
    grouped: bool = False  # whether thousands are parted, by the other mark
    before: str = ""  # the unit of all numbers
    after: str = ""

    def __str__(self) -> str:
        if self.kind == "empty":
            return "empty, as at the start"
        if self.kind == "embedding":
            return f"list of {self.form} numbers"
        is_plain = not (self.before or self.after or self.mark == ",")
        return self.kind if is_plain else f"number like {self.before}1{self.mark}5 {self.after}".rstrip()


def check_readings(found: Mapping[str, Mapping[str, Any]], names: Collection[str]) -> None:
    """Check what a file says of these columns: kinds, marks and units, nothing of a row."""
    if found.keys() != set(names):
        raise ValueError("each column of the model has a reading")
    for name, one in found.items():
        reading = Reading(**one)
        is_length = re.fullmatch("[1-9][0-9]{0,4}", reading.form)
        is_form = is_length if reading.kind == "embedding" else reading.form in ("", "boolean", *DATES)
        is_known = reading.kind in KINDS and is_form and reading.mark in OTHER
        is_unit = re.fullmatch("[€$£¥]?", reading.before) and re.fullmatch(f"({UNIT})?", reading.after)
        if not (is_known and is_unit and type(reading.grouped) is bool):
            raise ValueError(f"column {name!r} has no reading {one}")


# --- deciding -------------------------------------------------------------------------------------


def readings_of(X: pd.DataFrame, decimal: str | None = None) -> dict[str, Reading]:
    """How each column is read; ``decimal`` is the decimal mark of the table where a column leaves it open."""
    return {name: _reading_of(X[name], decimal) for name in X.columns}


def check_lists(readings: Mapping[str, Reading], X: pd.DataFrame | None) -> None:
    """Refuse, for a model by name, lists that are not read as numbers, or whose numbers have names of other columns."""
    for name, reading in readings.items():
        places = {f"{name} {i}" for i in range(int(reading.form))} if reading.kind == "embedding" else set()
        if twice := sorted(places.intersection(readings)):
            raise CampaignError(f"`frame` must have no column {twice[0]!r} beside the lists of {name!r}: rename it.")
        if reading.kind == "list":
            odd = "" if X is None else numbers_in_lists(X[name])[1]
            raise CampaignError(
                f"`frame` must have lists of numbers of one length for a model by name. Not so {name!r}{odd}: give "
                "them one length, remove the column, or pass an estimator that accepts it."
            )


def numbers_in_lists(cells: pd.Series) -> tuple[pd.DataFrame, str]:
    """A column for each place, and what names the first list of another length than most, or not of numbers."""
    numbers = read(cells, _lists_of(cells))
    odd = cells[cells.notna() & numbers.isna().all(axis=1)]
    return numbers, f" ({str(odd.iloc[0])[:40]!r}, row {odd.index.tolist()[0]!r})" if len(odd) else ""


def some_of(rows: Any) -> Any:
    """The rows that decide."""
    return rows.take(np.unique(np.linspace(0, len(rows) - 1, min(len(rows), MOST_ROWS)).astype(np.int64)))


def _reading_of(column: pd.Series, decimal: str | None) -> Reading:
    column = _of_numpy(column)
    if column.isna().all():
        return Reading("empty")
    if pd.api.types.infer_dtype(column, skipna=True) == "complex":
        raise CampaignError(f"`frame` must have real numbers. Column {column.name!r} is complex: pass its two parts.")
    if pd.api.types.is_datetime64_any_dtype(column):
        return Reading("date")
    if is_of_numbers(column):
        form = "boolean" if pd.api.types.is_bool_dtype(column) else ""
        return Reading("number", form, mark=decimal or ".")  # of texts, which one odd cell later makes of them
    found = some_of(column.dropna())
    if isinstance(found.iloc[0], LISTS):
        lists = _lists_of(found)
        is_so = 0 < int(lists.form) < 100_000 and read(found, lists).notna().any(axis=1).mean() > NEARLY_ALL
        return lists if is_so else Reading("list")
    if isinstance(column.dtype, pd.CategoricalDtype):
        return _of_words(found)
    said = found[~_is_gap_word(found)]
    dates = [Reading("date", form=form) for form in DATES]
    date = max(dates, key=lambda reading: read(said, reading).notna().mean())  # a few days above 12 tell the month
    for reading in (date, _number_reading(said, decimal)):
        if reading is not None and _explains(reading, said):
            return reading
    return _of_words(found)


def _lists_of(cells: pd.Series) -> Reading:
    """Lists of numbers, of the length that most have."""
    lengths = Counter(len(cell) for cell in _of_numpy(cells) if isinstance(cell, LISTS)).most_common(1)
    return Reading("embedding", form=str(lengths[0][0]) if lengths else "0")


def _explains(reading: Reading, said: pd.Series) -> bool:
    """True if nearly all cells fit, or nearly all that differ: a third may be "unknown"."""
    fits = read(said, reading).notna()
    return any(some.mean() > NEARLY_ALL for some in (fits, fits[~said.astype(str).duplicated()]))


def _of_words(found: pd.Series) -> Reading:
    return Reading("category" if found.astype(str).nunique() <= MOST_CATEGORIES else "text")


def _number_reading(said: pd.Series, decimal: str | None) -> Reading | None:
    """The unit and the marks of most numbers that are texts; None for codes."""
    parts = _parts(said[_is_text(said)]).dropna(subset=["digits"])
    if parts.empty:
        return Reading("number")
    if parts["digits"].str.fullmatch(CODES).any() and not parts["digits"].str.contains("[.,]").any():
        return None
    units = parts[["before", "after"]].value_counts()
    is_bare = len(said) - len(parts) >= units.iloc[0]  # numbers that are no texts have no unit
    before, after = ("", "") if is_bare else units.index[0]
    if after and (parts["after"] == after).sum() < 2:  # a unit comes again, and a text of one row is not kept
        return None
    digits = parts["digits"][(parts["before"] == before) & (parts["after"] == after)]
    return replace(spelling_of(digits, decimal), before=before, after=after)


def spelling_of(digits: pd.Series, decimal: str | None) -> Reading:
    """The decimal mark that cells show, else that of the table; thousands are parted where that is beyond doubt."""
    fits = {(mark, grouped): digits.str.fullmatch(_pattern(mark, grouped)) for mark in OTHER for grouped in (0, 1)}
    marks = (decimal or ".", OTHER[decimal or "."])  # the first if votes are equal
    votes = {mark: int((fits[mark, 1] & ~fits[OTHER[mark], 1]).sum()) for mark in marks}
    mark = max(votes, key=lambda mark: votes[mark])
    beyond_doubt = fits[mark, 1] & ~fits[mark, 0] & ~fits[OTHER[mark], 0]
    is_open = not any(votes.values()) and decimal is not None
    return Reading("number", mark=mark, grouped=bool(is_open or beyond_doubt.any()))


def _pattern(mark: str, grouped: bool | int) -> str:
    mark, other = re.escape(mark), re.escape(OTHER[mark])
    # one number parts its thousands by one mark: in "63'147,773" the comma is the decimal mark
    parted = rf"|[1-9][0-9]{{0,2}}(?:(?:{other}[0-9]{{3}})+|(?:'[0-9]{{3}})+)" if grouped else ""
    return rf"[-+]?(?:(?:0|[1-9][0-9]*{parted})(?:{mark}[0-9]*)?|{mark}[0-9]+)(?:[eE][-+]?[0-9]+)?"


def _parts(texts: pd.Series) -> pd.DataFrame:
    """What stands before a number, its digits and marks, and what stands behind; gaps where there is no number."""
    found = texts.astype(object).str.translate(MARKS).str.strip().str.extract(f"^{CELL}$")
    return found.set_axis(["before", "digits", "after"], axis=1).fillna({"before": "", "after": ""})


# --- reading --------------------------------------------------------------------------------------


def read(column: pd.Series, reading: Reading) -> Any:
    """The values of a column, each by itself: floats, dates without a time zone, or texts; gaps for odd cells.

    Of lists a DataFrame, with a column for each place.
    """
    column = _of_numpy(column)
    if reading.kind == "embedding":
        n = int(reading.form)
        numbers = np.array([_numbers_in_list(cell, n) for cell in column]).reshape(len(column), n)
        return pd.DataFrame(numbers, column.index, [f"{column.name} {i}" for i in range(n)])
    if reading.kind == "number":
        return _numbers(column, reading).replace([np.inf, -np.inf], np.nan)
    if reading.kind == "date":
        is_typed = pd.api.types.is_datetime64_any_dtype(column)
        dates = column if is_typed else _dates(column, reading.form or DATES[0])
        return (dates if dates.dt.tz is None else dates.dt.tz_convert(None)).astype("datetime64[us]")
    if reading.kind == "empty":
        return pd.Series(np.nan, index=column.index)
    texts = column.astype(object).map(str, na_action="ignore").astype(object)
    return texts.where(texts.notna(), None)


def _numbers(column: pd.Series, reading: Reading) -> pd.Series:
    if pd.api.types.is_timedelta64_dtype(column):
        return column.dt.total_seconds()
    if reading.after in ("%", "‰"):  # 0.06 without its sign may be six percent
        column = column.astype(object).where(_is_text(column))
    if pd.api.types.is_numeric_dtype(column):
        return column.astype(np.float64)
    if reading.form == "boolean":
        return column.astype(str).str.lower().map({"true": 1.0, "false": 0.0})
    is_text, cells = _is_text(column), column.to_numpy(dtype=object)
    which, texts = pd.factorize(cells[is_text])  # each text is read once
    numbers = np.empty(len(cells))
    numbers[~is_text] = pd.to_numeric(pd.Series(cells[~is_text], dtype=object), errors="coerce").astype(np.float64)
    numbers[is_text] = _numbers_in(pd.Series(texts, dtype=object), reading)[which]
    return pd.Series(numbers, index=column.index)


def _numbers_in(texts: pd.Series, reading: Reading) -> NDArray[np.float64]:
    parts = _parts(texts)
    mark, digits = reading.mark, parts["digits"].fillna("")
    fits = digits.str.fullmatch(_pattern(mark, reading.grouped)) & ~digits.str.fullmatch(CODES)
    fits &= (parts["before"] == reading.before) & (parts["after"] == reading.after)
    plain = digits.where(fits).str.replace(rf"[{re.escape(OTHER[mark])}']", "", regex=True)
    return plain.str.replace(mark, ".", regex=False).to_numpy(dtype=np.float64)


def _numbers_in_list(cell: Any, n: int) -> NDArray[np.float64]:
    with suppress(TypeError, ValueError):
        numbers = np.asarray(cell, dtype=np.float64)
        if numbers.shape == (n,):
            return np.where(np.isfinite(numbers), numbers, np.nan)
    return np.full(n, np.nan)


def _dates(column: pd.Series, form: str) -> pd.Series:
    """Texts as dates, gaps if they are none; digits alone are a number."""
    which, cells = pd.factorize(column.astype(str), use_na_sentinel=False)
    texts = pd.Series(cells)
    marked = texts.where(texts.str.contains(r"\d[-/.:]\d", regex=True))
    return pd.to_datetime(marked, errors="coerce", utc=True, format=form).take(which).set_axis(column.index)


def _of_numpy(column: pd.Series) -> pd.Series:
    """A column of Arrow or a sparse one as objects."""
    return column.astype(object) if isinstance(column.dtype, pd.ArrowDtype | pd.SparseDtype) else column


def is_of_numbers(column: pd.Series) -> bool:
    if pd.api.types.is_numeric_dtype(column) or pd.api.types.is_timedelta64_dtype(column):
        return True
    objects = column.dtype == object or isinstance(column.dtype, pd.ArrowDtype | pd.SparseDtype)
    return objects and all(isinstance(v, bool | int | float | np.number | np.bool_) for v in column.dropna())


def _is_text(column: pd.Series) -> NDArray[np.bool_]:
    if isinstance(column.dtype, pd.StringDtype):
        return column.notna().to_numpy(dtype=bool)
    return np.array([isinstance(value, str) for value in column.astype(object)], dtype=bool)


def _is_gap_word(column: pd.Series) -> pd.Series:
    """True for words that mean a gap among numbers and dates, and for marks alone: "NA", "-", "?"."""
    means_gap = [isinstance(value, str) and (value in GAPS or not re.search(r"\w", value)) for value in column]
    return pd.Series(means_gap, index=column.index, dtype=bool)


# --- telling --------------------------------------------------------------------------------------


def described(X: pd.DataFrame, readings: Mapping[str, Reading]) -> pd.DataFrame:
    """What `Campaign.columns` returns."""
    found = [_described(X[name], reading) for name, reading in readings.items()]
    return pd.DataFrame(found, pd.Index([*readings], name="column"), dtype=object)  # whole numbers stay so


def _described(column: pd.Series, reading: Reading) -> dict[str, Any]:
    values, is_list = read(column, reading), reading.kind == "embedding"
    is_gap = values.isna().all(axis=1) if is_list else values.isna()
    unread = column[is_gap & column.notna()]
    odd = unread[~_is_gap_word(unread)]
    is_constant = reading.kind != "empty" and not is_list and values.nunique() == 1
    return {
        "kind": "constant" if is_constant else reading.kind,
        "read_as": str(reading),
        "gaps": int(is_gap.sum()),
        "odd": len(odd),
        "example": str(odd.iloc[0])[:40] if len(odd) else None,  # of a length that fits a line
        "row": odd.index.tolist()[0] if len(odd) else None,
    }


def told_of_odd(found: pd.DataFrame) -> list[str]:
    """A line for each column with cells that are none of its kind."""
    return [
        f"Column {name!r}, read as {one.read_as}: {'1 value does' if one.odd == 1 else f'{one.odd} values do'} not fit "
        f"({one.example!r}, row {one.row!r}) and count{'s as a gap' if one.odd == 1 else ' as gaps'}."
        for name, one in found[found["odd"] > 0].iterrows()
    ]
