"""Tasks for Label Studio, and the answers in what it exports.

Label Studio puts a task's data into its page by the names of variables (``$age``), which hold only letters of ASCII,
digits and underscores. `_key` makes such a name of the name of any column, a different one of every name. What is ours
begins with ``skactive_``; no column's key does:

* ``skactive_id_<id>`` holds the row's id;
* ``skactive_row`` holds what is shown of the row: a small HTML table, which unlike Label Studio's own tag ``Table``
  keeps the order of the columns, has no pages, and shows booleans. It holds all columns, so tasks of any batch fit the
  labelling interface that was made for another;
* ``skactive_answer_<target>`` is the control that asks for the label: an answer to another question is noticed. Numbers
  are asked for as text: the tag ``Number`` reads every key on its own, so that 0.05 typed there is 5, and -2 is 2.

The columns also stand in the data as they are, for Label Studio's list of tasks to sort and filter by.
"""

from __future__ import annotations

import datetime
import html
import math
import re
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator, Sequence
from typing import Any, Literal, NamedTuple
from urllib.parse import urlsplit

import numpy as np
import pandas as pd

from .._checks import is_number
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
    guesses: Sequence[tuple[Any, float | None] | None] | None = None,
    model_version: str = "skactive",
    kind: Kind = "classes",
) -> list[dict[str, Any]]:
    """Rows of a table as tasks to import into Label Studio.

    The labelling interface that they fit is that of `label_config`, of the same ``kind``.

    Parameters
    ----------
    frame : pandas.DataFrame
        The rows, their ids as index: texts or whole numbers.
    id, target : str
        What the ids and the labels are called.
    guesses : sequence of (guess, probability) or None, optional
        A model's guess for each row, for Label Studio to show as a prediction. A gap, None or NaN, in place of the
        guess is no guess; a probability may be a gap, too. Numbers with a fraction are rounded to six digits.
    model_version : str, default="skactive"
        What Label Studio calls the model.
    kind : {"classes", "number"}, default="classes"
        Whether labels are classes or numbers, as in `label_config`.

    Returns
    -------
    list of dict
        One a row, of values that JSON has. A missing value is null; in a column of texts it is an empty text, for Label
        Studio takes no null where it is to show an image.

    Raises
    ------
    ValueError
        If ids are neither texts nor whole numbers or come twice, names of columns are the same as text, or a guess is
        not as described.
    """
    keys = _keys(frame)
    names = [id, *map(str, frame.columns)]
    if guesses is None:
        guesses = [None] * len(frame)
    if len(guesses) != len(frame):
        raise ValueError(f"`guesses` must have one entry a row, {len(frame)}. Got {len(guesses)}.")
    columns = [_values(frame.iloc[:, place]) for place in range(frame.shape[1])]
    ids = _ids(frame.index)
    made = []
    for row, guess in enumerate(guesses):
        values = [column[row] for column in columns]
        data = {
            _id_key(id): ids[row],
            **dict(zip(keys, values, strict=True)),
            ROW: _table(names, [ids[row], *values]),
        }
        predictions = []
        if guess is not None and not _is_gap(guess[0]):
            predictions.append(_prediction(*guess, target, model_version, kind, ids[row]))
        made.append({"data": data, "predictions": predictions})
    return made


def label_config(
    frame: pd.DataFrame, *, id: str, target: str, labels: Sequence[Any] | None, kind: Kind = "classes"
) -> str:
    """The labelling interface for such tasks, to paste into a project's settings.

    Parameters
    ----------
    frame : pandas.DataFrame
        Some of the rows. A column of paths or addresses of images is shown as images.
    id, target : str
        What the ids and the labels are called.
    labels : sequence or None
        The classes to choose from, in this order; no matter for numbers.
    kind : {"classes", "number"}, default="classes"
        Whether to choose from classes or to enter a number.

    Returns
    -------
    str
        XML.

    Raises
    ------
    ValueError
        If there are no labels, or labels that are the same as text, empty, or hold characters that XML has not.
    """
    view = ElementTree.Element("View")
    ElementTree.SubElement(
        view, "HyperText", name=ROW, value=f"${ROW}", valueType="text", inline="true", selectionEnabled="false"
    )
    for place, key in enumerate(_keys(frame)):
        if _is_image(frame.iloc[:, place]):
            ElementTree.SubElement(view, "Header", value=_literal(str(frame.columns[place])), size="5")
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
    """The answers in an export of Label Studio, in JSON or JSON_MIN, of any version.

    Drafts, predictions and tasks that nobody has annotated hold no answers. Where an annotator has answered for a row
    more than once, the answer changed last counts, and the others are not looked at. JSON_MIN leaves skips out.

    Parameters
    ----------
    exported : list of dict
        The content of the file.
    id, target : str
        What the ids and the labels are called, as in `tasks`.

    Returns
    -------
    list of Answer
        In the order of the file. Labels are texts; an annotator is an e-mail address if the export has it, else Label
        Studio's number of the user, and "" in exports of the first versions, which knew no users.

    Raises
    ------
    ValueError
        If something in it is no export of such tasks, or an annotation has no answer or several.
    """
    if not isinstance(exported, list) or not all(isinstance(task, dict) for task in exported):
        raise ValueError(
            "This is not an export of Label Studio that can be read: it must be a list of tasks. Export as JSON."
        )
    control = _control(target)
    last: dict[tuple[str | int, str], _Annotation] = {}
    for place, task in enumerate(exported, start=1):
        for annotation in _annotations(task, place, _id_key(id), control):
            whose = (annotation.id, annotation.annotator)
            if whose in last:
                annotation = _later(last.pop(whose), annotation, control)
            last[whose] = annotation
    kept = sorted(last.values(), key=lambda annotation: annotation.place)
    return [Answer(one.id, None if one.skipped else _label(one, control), one.annotator, one.skipped) for one in kept]


class _Annotation(NamedTuple):
    """What one annotator did with one task, at one time."""

    place: tuple[int, int]
    task: str
    id: str | int
    annotator: str
    skipped: bool
    when: tuple[float, int]
    results: list[Any]


def _annotations(task: dict[str, Any], place: int, id_key: str, control: str) -> Iterator[_Annotation]:
    """All of a task, in whichever format; drafts and predictions are none."""
    flat = id_key in task
    data = task if flat else task.get("data")
    name = f"task {task['id']}" if task.get("id") is not None else f"task without a number, no. {place} of the file"
    if not isinstance(data, dict) or id_key not in data:
        raise ValueError(
            f"Label Studio's {name} is none that this campaign asks: its data have no `{id_key}`. Export the project "
            "that holds the campaign's tasks, and take tasks of other origin out of it."
        )
    row = data[id_key]
    if not isinstance(row, str | int) or isinstance(row, bool):
        raise ValueError(
            f"`{id_key}` of Label Studio's {name} must be a text or a whole number. Got {row!r}: import the tasks as "
            "they were written, and export again."
        )
    if flat:
        if task.get("annotation_id", "") is None and control not in task:
            return  # nobody has annotated it
        kept: Any = [_unfolded(task, control)]
    else:
        kept = task.get("annotations", task.get("completions"))
    if not isinstance(kept, list) or not all(isinstance(one, dict) for one in kept):
        raise ValueError(
            f"Label Studio's {name} has no list of `annotations`, so the file is no export of labels: export the "
            "project as JSON."
        )
    for turn, one in enumerate(kept):
        results = one.get("result")
        yield _Annotation(
            place=(place, turn),
            task=name,
            id=row,
            annotator=_annotator(one.get("completed_by")),
            skipped=bool(one.get("was_cancelled") or one.get("skipped")),
            when=(_moment(one, name), one["id"] if isinstance(one.get("id"), int) else -1),
            results=results if isinstance(results, list) else [],
        )


def _unfolded(task: dict[str, Any], control: str) -> dict[str, Any]:
    """The annotation that JSON_MIN mixes with a task's data, in the form that JSON has."""
    found = []
    for name, value in task.items():
        if name.startswith(OURS + "answer_"):
            for one in value if isinstance(value, list) else [value]:
                found.append({"from_name": name, "value": one if isinstance(one, dict) else {"choices": [one]}})
    return {
        "id": task.get("annotation_id"),
        "completed_by": task.get("annotator"),
        "created_at": task.get("created_at"),
        "updated_at": task.get("updated_at"),
        "result": found,
    }


def _annotator(completed_by: Any) -> str:
    if isinstance(completed_by, dict):
        completed_by = completed_by.get("email") or completed_by.get("id")
    return "" if completed_by is None else str(completed_by)


def _moment(annotation: dict[str, Any], name: str) -> float:
    """When it was changed last, in seconds since 1970; long ago if that is not said."""
    time = annotation.get("updated_at") or annotation.get("created_at")
    if time is None:
        return -math.inf
    if isinstance(time, int | float):
        return float(time)
    try:
        moment = datetime.datetime.fromisoformat(time)
    except (TypeError, ValueError):
        raise ValueError(
            f"An annotation of Label Studio's {name} must have been changed at a time like 2026-01-31T12:00:00Z. Got "
            f"{time!r}: export the project again."
        ) from None
    return (moment if moment.tzinfo else moment.replace(tzinfo=datetime.UTC)).timestamp()


def _later(one: _Annotation, other: _Annotation, control: str) -> _Annotation:
    """Of two annotations of one row by one annotator, the one that was changed last."""
    if one.when != other.when:
        return max(one, other, key=lambda annotation: annotation.when)
    if one.skipped != other.skipped or (not one.skipped and _label(one, control) != _label(other, control)):
        raise ValueError(
            f"Two answers of one annotator for {one.id!r}, in Label Studio's {other.task}, differ, and nothing says "
            "which is the later: delete one of them there, and export again."
        )
    return one


def _label(annotation: _Annotation, control: str) -> str:
    """The one label, as text."""
    task = f"Label Studio's {annotation.task}"
    for result in annotation.results:
        name = result.get("from_name") if isinstance(result, dict) else None
        if name != control:
            raise ValueError(
                f"An annotation of {task} has a result of {name!r}, and the campaign reads those of {control!r} only: "
                "use the labelling interface made for it, delete the annotation's other results, and export again."
            )
    values = [value for result in annotation.results for value in _values_in(result.get("value"))]
    if len(values) != 1 or not isinstance(values[0], str | int | float):
        got = f"{len(values)} answers, {', '.join(map(repr, values[:5]))}" if values else "no answer"
        raise ValueError(
            f"An annotation of {task} must have one answer. Got {got}: choose one there, or skip the task, and export "
            "again."
        )
    return _text(values[0])


def _values_in(value: Any) -> list[Any]:
    """What was chosen or entered, by the ways of all controls that a label can come from."""
    if not isinstance(value, dict):
        return []
    found = next((value[name] for name in ("choices", "text", "number") if name in value), None)
    return [one for one in (found if isinstance(found, list) else [found]) if one is not None and one != ""]


def _prediction(
    label: Any, probability: float | None, target: str, model_version: str, kind: Kind, row: str | int
) -> dict[str, Any]:
    score = None if _is_gap(probability) else probability
    if score is not None and not (is_number(score) and 0 <= score <= 1):
        raise ValueError(f"A guess must have a probability from 0 to 1, or None. Got {probability!r} for {row!r}.")
    if kind == "number":
        if not (is_number(label) and math.isfinite(label)):
            raise ValueError(f"A guess must be a finite number. Got {label!r} for {row!r}.")
        plain = _value(label)
        rounded = float(f"{plain:.6g}") if isinstance(plain, float) else plain
        result = {"type": "textarea", "value": {"text": [_text(rounded)]}}
    else:
        result = {"type": "choices", "value": {"choices": [_text(label)]}}
    made = {"model_version": model_version, "result": [{"from_name": _control(target), "to_name": ROW, **result}]}
    return made if score is None else {**made, "score": float(score)}


def _is_gap(value: Any) -> bool:
    return pd.api.types.is_scalar(value) and pd.isna(value)


def _label_texts(labels: Sequence[Any] | None) -> list[str]:
    texts = [] if labels is None else [_text(label) for label in labels]
    if not texts:
        raise ValueError(
            "`labels` must hold the classes to choose from. Got none: name them at the start of the campaign."
        )
    bad = [text for text in texts if not text.strip() or NOT_IN_XML.search(text)]
    if bad:
        raise ValueError(
            f"`labels` must be texts that can be shown. Got {bad[0]!r}: rename it, Label Studio could not give it back."
        )
    twice = [text for text in texts if texts.count(text) > 1]
    if twice:
        raise ValueError(f"`labels` must differ as texts. Got {twice[0]!r} more than once: rename one of them.")
    return texts


def _ids(index: pd.Index) -> list[str | int]:
    ids: list[str | int] = []
    for value in index.tolist():
        if isinstance(value, bool | np.bool_) or not isinstance(value, str | int | np.integer):
            raise ValueError(
                f"The index of `frame` must hold texts or whole numbers. Got {value!r}: `.astype(str)` makes texts of "
                "them."
            )
        ids.append(str(value) if isinstance(value, str) else int(value))
    if not index.is_unique:
        raise ValueError(
            f"The index of `frame` must hold every id once. Got {index[index.duplicated()][0]!r} more than once."
        )
    return ids


def _keys(frame: pd.DataFrame) -> list[str]:
    """The columns' names in the data of tasks."""
    keys = [_key(str(name)) for name in frame.columns]
    twice = [str(name) for name, key in zip(frame.columns, keys, strict=True) if keys.count(key) > 1]
    if twice:
        raise ValueError(f"`frame` must have columns whose names differ as texts. Got {twice[0]!r} more than once.")
    return keys


def _key(name: str) -> str:
    """A name for a variable, of letters, digits and underscores; no two names have the same, and none is one of ours.

    What a variable's name may not hold is written ``_x20_``, by the number of the character; so is an underscore that
    such a piece would begin with, and the first letter of a name like ours. An empty name is ``_x_``.
    """
    if not name:
        return "_x_"
    key = NOT_IN_NAMES.sub(_by_number, name)
    return re.sub(f"^{OURS[0]}(?={OURS[1:]})", _by_number, key)


def _by_number(match: re.Match[str]) -> str:
    return f"_x{ord(match[0]):X}_"


def _id_key(id: str) -> str:
    return f"{OURS}id_{_key(id)}"


def _control(target: str) -> str:
    return f"{OURS}answer_{_key(target)}"


def _values(column: pd.Series) -> list[Any]:
    """A column in the types that JSON has."""
    gap = "" if _is_text(column) else None
    return [gap if missing else _value(value) for value, missing in zip(column, column.isna(), strict=True)]


def _value(value: Any) -> Any:
    if isinstance(value, np.generic) and value.dtype.kind not in "mM":  # of which `item` may make bare integers
        value = value.item()
    if isinstance(value, str):
        return str(value)
    if isinstance(value, bool | int) or (isinstance(value, float) and math.isfinite(value)):
        return value
    if isinstance(value, datetime.date | datetime.time):
        return value.isoformat()
    return str(value)


def _text(value: Any) -> str:
    """A label as text: "True", "3", "0.5"."""
    return str(_value(value))


def _is_text(column: pd.Series) -> bool:
    return column.dtype.kind == "O" and all(isinstance(value, str) for value in column.dropna())


def _is_image(column: pd.Series) -> bool:
    """Whether a column holds nothing but images, by the endings of paths and addresses."""
    present = [value for value in column.dropna() if value != ""]
    return bool(present) and _is_text(column) and all(map(_names_image, present))


def _names_image(value: str) -> bool:
    value = value.strip().lower()
    try:
        path = urlsplit(value).path
    except ValueError:  # no address after all
        path = ""
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
