"""Tasks for Label Studio, and the answers in what it exports.

Label Studio puts a task's data into its page by the names of variables (``$age``): letters of ASCII, digits and
underscores. `_key` makes one of the name of any column, a different one of every name. Three names are ours:

* ``skactive_id_<id>`` holds the row's id;
* ``skactive_row`` holds all that is shown of the row, as HTML: unlike the tag ``Table`` it keeps the order of columns,
  has no pages, and shows booleans; and tasks of any batch fit the interface that was made for another;
* ``skactive_answer_<target>`` is the control that asks for the label, so that answers to another question are noticed.
  Numbers are asked for as text: the tag ``Number`` reads every key on its own, so that 0.05 typed there is 5.
"""

from __future__ import annotations

import datetime
import html
import math
import re
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Literal

import numpy as np
import pandas as pd

from ..campaign._labels import Answer

Kind = Literal["classes", "number"]

OURS = "skactive_"
ROW = OURS + "row"
IMAGES = (".png", ".jpg", ".jpeg", ".gif", ".webp", ".bmp", ".svg", ".avif", ".ico", ".apng", ".tif", ".tiff")
HOTKEYS = "1234567890"
NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9_]|_(?=x[0-9A-F]*_)")
NOT_IN_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
VARIABLE = re.compile(r"\$(?=[A-Za-z0-9_\[\].{}])")
NO_VARIABLE = "$\u200b"
"""A dollar that Label Studio shows and does not read on from: a space of no width follows."""


def tasks(
    frame: pd.DataFrame,
    *,
    id: str,
    target: str,
    guesses: Sequence[tuple[Any, float | None]] | None = None,
    kind: Kind = "classes",
) -> list[dict[str, Any]]:
    """Rows of a table, their ids as index, as tasks for the interface of `label_config`; guesses are predictions."""
    keys, names = [_key(str(name)) for name in frame.columns], [id, *map(str, frame.columns)]
    columns = [_values(frame.iloc[:, place]) for place in range(frame.shape[1])]
    id_key, made = f"{OURS}id_{_key(id)}", []
    for row, (name, guess) in enumerate(zip(frame.index.tolist(), guesses or [(None, None)] * len(frame), strict=True)):
        values = [column[row] for column in columns]
        data = {id_key: name, **dict(zip(keys, values, strict=True)), ROW: _table(names, [name, *values])}
        predictions = [] if pd.isna(guess[0]) else [_prediction(*guess, target, kind)]
        made.append({"data": data, "predictions": predictions})
    return made


def label_config(
    frame: pd.DataFrame, *, id: str, target: str, labels: Sequence[Any] | None, kind: Kind = "classes"
) -> str:
    """The labelling interface for such tasks, in XML: columns of images are shown as images."""
    view = ElementTree.Element("View")
    ElementTree.SubElement(
        view, "HyperText", name=ROW, value=f"${ROW}", valueType="text", inline="true", selectionEnabled="false"
    )
    for place, name in enumerate(map(str, frame.columns)):
        if _is_image(frame.iloc[:, place]):
            key = _key(name)
            ElementTree.SubElement(view, "Header", value=_literal(name), size="5")
            ElementTree.SubElement(view, "Image", name=key, value=f"${key}")
    ElementTree.SubElement(view, "Header", value=_literal(target))
    asks = {"name": _control(target), "toName": ROW, "required": "true"}
    if kind == "number":
        ElementTree.SubElement(view, "TextArea", {**asks, "rows": "1", "maxSubmissions": "1", "editable": "true"})
    else:
        choices = ElementTree.SubElement(view, "Choices", {**asks, "choice": "single"})
        for place, text in enumerate(_label_texts(labels)):
            choice = {"value": _literal(text)}
            if choice["value"] != text:
                choice["alias"] = text  # which stands in the results, and is no name of a variable
            if place < len(HOTKEYS):
                choice["hotkey"] = HOTKEYS[place]
            ElementTree.SubElement(choices, "Choice", choice)
    ElementTree.indent(view)
    return ElementTree.tostring(view, encoding="unicode") + "\n"


def answers(exported: Any, *, id: str, target: str) -> list[Answer]:
    """The answers in an export of Label Studio, labels as texts; of an annotator's for a row, the one changed last."""
    if not isinstance(exported, list):
        raise ValueError("This is not a JSON export from Label Studio: it must be a list of tasks.")
    latest: dict[tuple[str | int, str], tuple[tuple[datetime.datetime, int], int, dict[str, Any]]] = {}
    for place, task in enumerate(exported, start=1):
        with _naming(task, place):
            row = task["data"][f"{OURS}id_{_key(id)}"]
            for one in task["annotations"]:
                changed = datetime.datetime.fromisoformat(one["updated_at"]), one["id"]
                whose = row, _annotator(one["completed_by"])
                if whose not in latest or latest[whose][0] < changed:
                    latest[whose] = changed, place, one
    found = []
    for (row, annotator), ((when, _), place, one) in latest.items():
        with _naming(exported[place - 1], place):
            skipped = bool(one["was_cancelled"])
            label = None if skipped else _label(one["result"], _control(target))
            found.append(Answer(row, label, annotator, skipped, when.timestamp()))
    return found


@contextmanager
def _naming(task: Any, place: int) -> Iterator[None]:
    """Whatever is missing in a task, under one sentence that says which task it is."""
    try:
        yield
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        name = f"task {task['id']}" if isinstance(task, dict) and "id" in task else f"no. {place} of the tasks"
        what = f"there is no {error}" if isinstance(error, KeyError) else error
        raise ValueError(
            f"Label Studio's {name} cannot be read: {what}. Export the project of the campaign as JSON, without "
            "tasks from elsewhere."
        ) from error


def _annotator(completed_by: Any) -> str:
    if isinstance(completed_by, dict):
        completed_by = completed_by["email"]
    return "" if completed_by is None else str(completed_by)


def _label(results: list[dict[str, Any]], control: str) -> str:
    """The one label, as text."""
    names = sorted({result["from_name"] for result in results} - {control})
    if names:
        raise ValueError(f"an annotation has a result for {names[0]!r}, but only those for {control!r} are read")
    values = [result["value"].get("choices", result["value"].get("text")) for result in results]
    texts = [text for value in values for text in ([value] if isinstance(value, str) else value) if text != ""]
    if len(texts) != 1 or not isinstance(texts[0], str):
        raise ValueError(f"an annotation must have one answer, but has {len(texts)}: {texts[:5]}")
    return texts[0]


def _prediction(label: Any, probability: float | None, target: str, kind: Kind) -> dict[str, Any]:
    if kind == "number":
        plain = _value(label)
        rounded = float(f"{plain:.6g}") if isinstance(plain, float) else plain  # to six digits
        result = {"type": "textarea", "value": {"text": [str(rounded)]}}
    else:
        result = {"type": "choices", "value": {"choices": [str(_value(label))]}}
    made = {"model_version": "skactive", "result": [{"from_name": _control(target), "to_name": ROW, **result}]}
    return made if probability is None or pd.isna(probability) else {**made, "score": float(probability)}


def _label_texts(labels: Sequence[Any] | None) -> list[str]:
    texts = [str(_value(label)) for label in labels or ()]
    if not texts:
        raise ValueError("There are no classes to choose from yet: name them by `labels` at the start of the campaign.")
    bad = [text for text in texts if not text.strip() or NOT_IN_XML.search(text)]
    if bad:
        raise ValueError(f"The label {bad[0]!r} would not come back unchanged from Label Studio: rename it.")
    return texts


def _key(name: str) -> str:
    """A name for a variable: other characters than letters, digits and underscores are written ``_x20_``, by number.

    So is an underscore that such a piece would begin with, and the first letter of a name like ours.
    """
    if not name:
        return "_x_"
    key = NOT_IN_NAMES.sub(_by_number, name)
    return re.sub(f"^{OURS[0]}(?={OURS[1:]})", _by_number, key)


def _by_number(match: re.Match[str]) -> str:
    return f"_x{ord(match[0]):X}_"


def _control(target: str) -> str:
    return f"{OURS}answer_{_key(target)}"


def _values(column: pd.Series) -> list[Any]:
    """A column in the types that JSON has; gaps in texts are empty, as Label Studio takes no null for an image."""
    gap = "" if _is_text(column) else None
    return [gap if missing else _value(value) for value, missing in zip(column, column.isna(), strict=True)]


def _value(value: Any) -> Any:
    if isinstance(value, np.generic) and value.dtype.kind not in "mM":  # of which `item` may make bare integers
        value = value.item()
    if isinstance(value, bool | int) or (isinstance(value, float) and math.isfinite(value)):
        return value
    if isinstance(value, datetime.date | datetime.time):
        return value.isoformat()
    return str(value)


def _is_text(column: pd.Series) -> bool:
    return column.dtype.kind == "O" and all(isinstance(value, str) for value in column.dropna())


def _is_image(column: pd.Series) -> bool:
    """Whether a column holds nothing but images, by the endings of paths and addresses."""
    present = [value for value in column.dropna() if value != ""]
    return bool(present) and _is_text(column) and all(map(_names_image, present))


def _names_image(value: str) -> bool:
    value = value.strip().lower()
    path = re.split("[?#]", value)[0]
    return "\n" not in value and (value.endswith(IMAGES) or path.endswith(IMAGES) or value.startswith("data:image/"))


def _table(names: list[str], values: list[Any]) -> str:
    """The row as a table in HTML."""
    rows = [
        f'<tr><th style="padding-right: 1em">{html.escape(name)}</th>'
        f"<td>{'' if value is None else html.escape(str(value))}</td></tr>"
        for name, value in zip(names, values, strict=True)
    ]
    style = "text-align: left; vertical-align: top; white-space: pre-wrap"
    return f'<table style="{style}">{"".join(rows)}</table>'


def _literal(text: str) -> str:
    """Text for an attribute of XML that Label Studio shows as it stands."""
    return VARIABLE.sub(NO_VARIABLE, NOT_IN_XML.sub("\ufffd", text))
