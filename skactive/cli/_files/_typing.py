"""Columns of texts that are numbers or truths, for formats without types."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from ._columns import GAPS, too_long

TRUE, FALSE = ["True", "true", "TRUE"], ["False", "false", "FALSE"]
NUMBER = re.compile(r"[+-]?([0-9]+[.,]?[0-9]*|[.,][0-9]+)(e[+-]?[0-9]+)?|[+-]?inf(inity)?", re.IGNORECASE)
WHOLE = "^-?[0-9]+$"
DECIMAL_COMMA = "^-?[0-9]*,?[0-9]+([eE][+-]?[0-9]+)?$"
CODE = r"^[+-]?0[0-9xX]|^\+[0-9]{7}"
CODE_STARTS = [f"{first}{second}".encode() for first in "0+" for second in "0123456789xX"] + [b"-0"]


def typed(column: Any, comma: bool, path: Path, name: str, notes: list[str]) -> Any:
    """A column of texts as numbers or truths, if each of them is one."""
    import pyarrow
    from pyarrow import compute

    if column.null_count == len(column):
        return pyarrow.nulls(len(column)) if len(column) else column
    head = column.slice(0, 1000).drop_null() if column.slice(0, 1000).null_count < 1000 else column.drop_null()
    head = head.slice(0, 100).to_pylist()
    if all(value in TRUE + FALSE + GAPS for value in head):
        truths = compute.is_in(column, pyarrow.array(TRUE))
        decided = compute.or_(truths, compute.is_in(column, pyarrow.array(FALSE)))
        known = compute.or_(decided, compute.is_in(column, pyarrow.array([*GAPS, None], pyarrow.string())))
        if compute.any(decided).as_py() and compute.all(known).as_py():
            return compute.if_else(decided, truths, pyarrow.scalar(None, pyarrow.bool_()))
    if all(NUMBER.fullmatch(value.strip()) or value.strip() in GAPS for value in head):
        numbers = _numbers(column)
        if numbers is None or (
            numbers.type == pyarrow.float64() and compute.any(compute.starts_with(column, "+")).as_py()
        ):
            texts = _plainly(column, comma, path, name, notes)
            numbers = _numbers(texts)
            if (
                numbers is None
                and compute.all(compute.match_substring_regex(texts, WHOLE)).as_py()
                and not _codes(texts)
            ):
                notes.append(too_long(path, name))
        return column if numbers is None else numbers
    return column


def _plainly(column: Any, comma: bool, path: Path, name: str, notes: list[str]) -> Any:
    """The same numbers as Arrow reads them: no spaces around, no plus, no words for a gap, a point as decimal mark."""
    import pyarrow
    from pyarrow import compute

    texts = compute.utf8_trim_whitespace(column)
    texts = compute.if_else(
        compute.is_in(texts, pyarrow.array([*GAPS, ""])), pyarrow.scalar(None, pyarrow.string()), texts
    )
    if not _codes(texts):
        texts = compute.replace_substring_regex(texts, r"^\+([0-9.,])", r"\1")
    with_comma = texts.filter(compute.match_substring(texts, ","))
    if comma and len(with_comma):
        if not compute.all(compute.match_substring_regex(texts, DECIMAL_COMMA)).as_py():
            return texts  # commas and points, which make no column of numbers
        if compute.all(compute.match_substring_regex(with_comma, "^-?[1-9][0-9]{0,2},[0-9]{3}$")).as_py():
            shown = with_comma[0].as_py()
            point = shown.replace(",", ".")
            notes.append(f"{path}: column {name!r}: {shown} is read as {point}, with a decimal comma.")
        texts = compute.replace_substring(texts, ",", ".")
    return texts


def _numbers(texts: Any) -> Any:
    """The numbers of these texts, if they are all numbers that keep what the text says; else None."""
    import pyarrow
    from pyarrow import compute

    if texts.null_count == len(texts) or _codes(texts):
        return None
    try:
        return texts.cast(pyarrow.int64())
    except pyarrow.ArrowInvalid:
        pass
    try:
        numbers = texts.cast(pyarrow.float64())
    except pyarrow.ArrowInvalid:
        return None
    spread = compute.min_max(numbers).as_py()
    if spread["max"] >= 2**63 or spread["min"] < -(2**63):
        if compute.all(compute.match_substring_regex(texts, WHOLE)).as_py():
            return None
        endless = texts.filter(compute.is_inf(numbers))
        spelled = compute.match_substring_regex(endless, "^-?inf(inity)?$", ignore_case=True)
        if not compute.all(spelled, min_count=0).as_py():
            return None
    return numbers if compute.any(compute.is_finite(numbers)).as_py() else None


def _codes(texts: Any) -> bool:
    """Whether one begins with a zero that a number would lose (0x1F is none either), or is a telephone number."""
    import pyarrow
    from pyarrow import compute

    starts = compute.binary_slice(texts.cast(pyarrow.binary()), 0, 2)
    some = texts.filter(compute.is_in(starts, pyarrow.array(CODE_STARTS, pyarrow.binary())))
    return len(some) > 0 and compute.any(compute.match_substring_regex(some, CODE)).as_py()
