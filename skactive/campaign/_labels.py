"""Labels as a campaign keeps them: texts, whole numbers, numbers and booleans, whatever they were given in."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from ._errors import CampaignError, shown
from ._ids import EXACT


class Answer(NamedTuple):
    """What somebody said of a row.

    Attributes
    ----------
    id : str or int
    label : str, int, float, bool or None
        None leaves the row open, unless ``skipped``.
    annotator : str
        "" for nobody in particular.
    skipped : bool
        That the row cannot be labelled.
    """

    id: Any
    label: Any = None
    annotator: str = ""
    skipped: bool = False


def plain_labels(values: Any, name: str, ids: Sequence[Any]) -> list[Any]:
    """Labels as plain values, None for gaps."""
    series = pd.Series(values)
    missing = series.isna().to_numpy(dtype=bool)
    labels = [
        None if gap else plain_label(value, f"`{name}` of row {key!r}")
        for value, gap, key in zip(series.astype(object).tolist(), missing.tolist(), ids, strict=True)
    ]
    found = [label for label in labels if label is not None]
    if found and all(isinstance(label, float) and label % 1 == 0 and abs(label) < EXACT for label in found):
        return [None if label is None else int(label) for label in labels]  # which became floats beside a gap
    return labels


def plain_label(value: Any, name: str) -> Any:
    """A label as a plain value; None if it is missing, as an empty text is."""
    if value is None or value is pd.NA or value is pd.NaT:
        return None
    if isinstance(value, str):
        return str(value).strip().strip("\0") or None  # spreadsheets leave spaces, and numpy drops what ends in \0
    if isinstance(value, bool | np.bool_):
        return bool(value)
    if isinstance(value, int | np.integer):
        if abs(int(value)) >= 2**63:
            raise CampaignError(f"{name} must fit 64 bits. Got {shown([int(value)])}: make it a text.")
        return int(value)
    if isinstance(value, float | np.floating):
        if math.isnan(value):
            return None
        if math.isinf(value):
            raise CampaignError(f"{name} must be a finite number, a text or a boolean. Got {value}.")
        return float(value)
    raise CampaignError(f"{name} must be a text, a number or a boolean. Got {value!r}, of type {type(value).__name__}.")


def kind_of(labels: Iterable[Any]) -> str:
    """Whether labels are "numbers" to be predicted or "classes"."""
    known = {label for label in labels if label is not None}
    if not known or any(isinstance(label, str | bool) for label in known):
        return "classes"
    if any(isinstance(label, float) and label % 1 for label in known):
        return "numbers"
    return "numbers" if len(known) > MOST_CLASSES else "classes"


MOST_CLASSES = 20
"""Whole numbers are classes, unless there are more different ones."""


def check_one_type(labels: Iterable[Any], name: str) -> None:
    """Check that labels are all texts, all booleans or all numbers."""
    examples: dict[str, Any] = {}
    for label in labels:
        if label is not None:
            examples.setdefault(_type_of(label), label)
    if len(examples) > 1:
        raise CampaignError(
            f"{name} must be of one type. Got {shown(list(examples.values()))}: make them all texts, say."
        )


def _type_of(label: Any) -> str:
    return "text" if isinstance(label, str) else "boolean" if isinstance(label, bool) else "number"


def converted(label: Any, known: Mapping[Any, Any] | set[Any], kind: str) -> Any:
    """A label in the type of those that are known, where it says the same: "1" for 1, as a file has it.

    Raises
    ------
    CampaignError
        If it cannot be one of these.
    """
    if kind == "numbers":
        number = _as_number(label)
        if number is None or not abs(number) < 1e300:
            raise CampaignError(f"a label must be a number, as the others are. Got {label!r}.")
        return float(number)
    types = {_type_of(one) for one in known}
    if not types or _type_of(label) in types:
        return _whole(label)
    wanted = next(iter(types))
    if wanted == "text":
        return str(_whole(label))
    if wanted == "boolean":
        text = str(_whole(label)).strip().lower()
        if text in ("true", "1"):
            return True
        if text in ("false", "0"):
            return False
    elif (number := _as_number(label)) is not None:
        return _whole(number)
    raise CampaignError(f"a label must be a {wanted}, as {shown(sorted(known, key=str), 3)} are. Got {label!r}.")


def _as_number(label: Any) -> float | int | None:
    """A number, or what a text says if it is one: as spreadsheets write them, not as Python does, with 1_000."""
    if isinstance(label, bool):
        return None
    if isinstance(label, int | float):
        return label
    text = label.strip()
    if re.fullmatch(r"[+-]?\d{1,18}", text):
        return int(text)
    number = float(text) if re.fullmatch(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", text) else math.nan
    return number if math.isfinite(number) else None


def _whole(label: Any) -> Any:
    """1.0 is the class 1."""
    return int(label) if isinstance(label, float) and label % 1 == 0 and abs(label) < EXACT else label


def answers_of(labels: Any, *, id: str | None, target: str, annotator: str = "") -> list[Answer]:
    """What `Campaign.tell` takes, as answers in its order."""
    if isinstance(labels, pd.DataFrame):
        return _of_frame(labels, id=id, target=target, annotator=annotator)
    if hasattr(labels, "to_pandas") and hasattr(labels, "columns"):
        return _of_frame(labels.to_pandas(), id=id, target=target, annotator=annotator)
    if isinstance(labels, pd.Series):
        pairs: list[Any] = list(zip(labels.index.tolist(), labels.astype(object).tolist(), strict=True))
    elif isinstance(labels, Mapping):
        pairs = list(labels.items())
    else:
        raise TypeError(
            "`labels` must be a mapping of ids to labels, a Series indexed by id, or a DataFrame with columns of ids "
            f"and labels. Got a {type(labels).__name__}: positions say nothing of which row a label belongs to."
        )
    return [Answer(key, plain_label(value, f"the label of {key!r}"), annotator) for key, value in pairs]


def _of_frame(frame: pd.DataFrame, *, id: str | None, target: str, annotator: str) -> list[Answer]:
    if id is not None and id in frame.columns:
        keys = frame[id].astype(object).tolist()
    elif id is None and "id" in frame.columns:
        keys = frame["id"].astype(object).tolist()
    elif (id is None and not _says_nothing(frame.index)) or (id is not None and frame.index.name == id):
        keys = frame.index.tolist()
    else:
        raise CampaignError(
            f"`labels` must have a column or an index {id or 'id'!r}, with the ids of the rows. Its columns are "
            f"{shown(frame.columns.tolist(), 12)}."
        )
    if target not in frame.columns:
        raise CampaignError(
            f"`labels` must have a column {target!r}, with the labels. Its columns are "
            f"{shown(frame.columns.tolist(), 12)}."
        )
    missing = [i for i, key in enumerate(keys) if key is None or key is pd.NA or key != key or key == ""]
    if missing:
        raise CampaignError("a row has no id, so that nobody knows whose label it is. Give it its id.", missing)
    skipped = _flags(frame["skip"]) if "skip" in frame.columns else [False] * len(frame)
    values = plain_labels(frame[target], target, keys)
    for i, (value, skip) in enumerate(zip(values, skipped, strict=True)):
        if skip and value is not None:
            raise CampaignError(
                f"{keys[i]!r} has a label, {value!r}, and a mark in the column `skip`. Take one of them away.", [i]
            )
    return [Answer(*one) for one in zip(keys, values, [annotator] * len(keys), skipped, strict=True)]


def _says_nothing(index: pd.Index) -> bool:
    """Whether it is what a table gets that was given none."""
    return isinstance(index, pd.RangeIndex) and index.name is None and index.start == 0 and index.step == 1


_NO = {"", "0", "false", "no", "n", "0.0"}
_YES = {"1", "true", "yes", "y", "x", "skip", "skipped", "1.0"}


def _flags(column: pd.Series) -> list[bool]:
    flags = []
    for i, (value, gap) in enumerate(zip(column.astype(object), column.isna(), strict=True)):
        text = "" if gap else str(value).strip().lower()
        if text not in _NO | _YES:
            raise CampaignError(f"the column `skip` must hold x for rows to skip, else nothing. Got {value!r}.", [i])
        flags.append(text in _YES)
    return flags
