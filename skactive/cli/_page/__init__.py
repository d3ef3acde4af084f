"""One HTML page by which a person labels the rows of a batch in a browser, and saves what ``skactive tell`` takes.

The page is a file: page.html with page.css, page.js and the rows as JSON inside. Nothing is fetched, and its policy
forbids to. All of it is ASCII, so that no encoding can spoil it. Rows become text nodes in the browser, never markup.
"""

from __future__ import annotations

import base64
import datetime
import hashlib
import html
import json
import os
import re
from collections.abc import Sequence
from importlib import resources
from pathlib import Path
from string import Template
from typing import Any, Literal
from urllib.parse import quote

import numpy as np
import pandas as pd

Cell = str | dict[str, str] | None

_IMAGE = re.compile(r"[^\x00-\x1f\x7f]{1,1000}\.(png|jpe?g|gif|webp|svg)", re.IGNORECASE)
_ADDRESS = re.compile(r"[a-z][a-z0-9+.-]+:|//", re.IGNORECASE)  # a drive has one letter: C:


def labelling_page(
    frame: pd.DataFrame,
    *,
    id: str,
    target: str,
    labels: Sequence[Any] = (),
    kind: Literal["classes", "number"] = "classes",
    closed: bool = False,
    guesses: Sequence[tuple[Any, float | None]] | None = None,
    title: str,
    folder: Path | None = None,
) -> str:
    """The text of an HTML page by which a person labels the rows of a table.

    The page shows one row at a time. A key or a click labels it and shows the next; rows can be skipped, and all of it
    can be undone. The browser keeps the labels over a reload, apart for each batch. *Save* downloads a CSV that is
    named like the page, week1_labelled.csv of week1.html, in UTF-8 and as RFC 4180 has it, with the columns ``id``,
    ``target`` and ``skip``: ids and labels as they were given, nothing in ``target`` for a row that is open, 1 in
    ``skip`` for a row that was skipped. Values that a spreadsheet takes for formulas stay as they are.

    Keys 1 to 9 are those of the first nine labels; a label that is a digit has its own digit as its key. Further labels
    are found by typing a part of them into a field.

    Parameters
    ----------
    frame : DataFrame of shape (n_rows, n_columns)
        What is shown of each row: text, numbers, booleans, dates, gaps, and the paths of images (.png, .jpg, .jpeg,
        .gif, .webp, .svg). An image is shown from its file, which has to be where the page is opened; web addresses
        are shown as text. The index holds the ids, each once.
    id, target : str
        Names of the columns with the ids and with the labels in the CSV.
    labels : sequence of str, int, float or bool
        The labels known, in the order of their buttons.
    kind : {"classes", "number"}, default="classes"
        "number": a number is typed for each row, and there are no ``labels``.
    closed : bool, default=False
        Whether other labels than ``labels`` are refused. Of booleans there are no others.
    guesses : sequence of (guess, probability), optional
        What a model says of each row. A missing probability (None, NaN) is not shown; a missing guess is none. Guesses
        are hidden until the person asks, at each row anew: a guess seen first biases the label towards the model, and
        such labels teach it nothing.
    title : str
        Heading of the page. Pages of the same rows with other titles do not share labels.
    folder : Path, optional
        Where the page will be. Absolute paths of images are then shown relative to it, so that the folder can be moved
        with its images; relative ones are taken as they are.

    Returns
    -------
    str
        The page, ASCII characters only.

    Raises
    ------
    ValueError
        If two of ``id``, ``target`` and "skip" are one name, or an id or a label could not be saved in a CSV.

    Examples
    --------
    >>> import pandas as pd
    >>> from skactive.cli._page import labelling_page
    >>> rows = pd.DataFrame({"message": ["Free money!", "See you at five"]}, index=["03", "17"])
    >>> page = labelling_page(rows, id="message_id", target="kind", labels=["spam", "no spam"], title="week1")
    >>> page.splitlines()[0], page.isascii()
    ('<!doctype html>', True)
    """
    if len({id, target, "skip"}) < 3:
        raise ValueError(f'The page saves columns {id!r}, {target!r} and "skip": they must have three names.')
    known = [label.item() if isinstance(label, np.generic) else label for label in labels]
    columns = [_cells(frame.iloc[:, j], folder) for j in range(frame.shape[1])]
    batch = {
        "title": title,
        "id": id,
        "target": target,
        "kind": kind,
        "open": not closed and not (known and all(isinstance(label, bool) for label in known)),
        "numeric": bool(known) and not any(isinstance(label, str | bool) for label in known),
        "labels": _saved_texts(known),
        "columns": [str(name) for name in frame.columns],
        "rows": [
            {"id": text, "cells": [column[i] for column in columns], "guess": _guess(*guess)}
            for i, (text, guess) in enumerate(
                zip(_saved_texts(frame.index.tolist()), guesses or [(None, None)] * len(frame), strict=True)
            )
        ],
    }
    batch["key"] = _key(batch)
    return _assembled(batch)


def _saved_texts(values: list[Any]) -> list[str]:
    """Ids or labels as the CSV will hold them."""
    texts = [str(value) for value in values]
    for text in texts:
        # UTF-8 has no half of a surrogate pair, tables of text have no NUL.
        if not text.strip() or re.search("[\0\ud800-\udfff]", text):
            raise ValueError(f"The page cannot save {text!r} as an id or a label. Rename it.")
    return texts


def _guess(guess: Any, probability: float | None) -> str | None:
    if pd.isna(guess):
        return None
    text = f"{guess:.6g}" if isinstance(guess, float | np.floating) else str(guess)
    return text if pd.isna(probability) else f"{text} ({probability:.0%})"


# --- cells: None for a gap, text, or an image with the text it came from ---------------------------


def _cells(column: pd.Series, folder: Path | None) -> list[Cell]:
    """The values of a column as they are shown, on a page that lies in ``folder``."""
    is_float = getattr(column.dtype, "kind", "") == "f"
    return [_cell(value, folder) for value in (column.to_numpy() if is_float else column.tolist())]


def _cell(value: Any, folder: Path | None) -> Cell:
    if isinstance(value, str | os.PathLike):
        text = os.fspath(value)
        src = _source(text, folder) if isinstance(text, str) else None
        return str(text) if src is None else {"src": src, "text": text}
    if pd.api.types.is_scalar(value) and pd.isna(value):
        return None
    if isinstance(value, float | np.floating):
        return _number(value)
    if isinstance(value, datetime.datetime):
        return str(value.date() if value.time() == datetime.time() and value.tzinfo is None else value)
    return str(value)


def _number(value: float | np.floating[Any]) -> str:
    """All digits of a number, and none that only binary fractions have: 0.1 of float32 is 0.1, and 3.0 is 3."""
    return format(float(str(value)), ".15g") if isinstance(value, np.floating) else format(value, ".15g")


def _source(text: str, folder: Path | None) -> str | None:
    """The address of an image file, relative to the page where that is possible; None for all else.

    Addresses with a scheme, and of other machines (``//machine/...``), are no files here.
    """
    path = text.replace("\\", "/") if os.name == "nt" else text
    if not _IMAGE.fullmatch(text) or _ADDRESS.match(path.replace("\\", "/")):
        return None
    try:
        if os.path.isabs(path):
            path = os.path.relpath(path, folder.absolute()) if folder else path
        encoded = quote(path.replace(os.sep, "/"))
    except ValueError:  # another drive than that of the page; half a surrogate pair
        return None
    return f"file://{encoded}" if os.path.isabs(path) else f"./{encoded}"


# --- the page -------------------------------------------------------------------------------------


def _json(value: Any) -> str:
    """JSON that can stand inside a script element, in ASCII: no tag can begin or end in it."""
    return json.dumps(value).replace("<", "\\u003c")


def _key(batch: dict[str, Any]) -> str:
    """Where the browser keeps the labels: made anew with other guesses or elsewhere, a page finds them again."""
    rows = [
        [row["id"], *(cell["text"] if isinstance(cell, dict) else cell for cell in row["cells"])]
        for row in batch["rows"]
    ]
    return "skactive-1-" + hashlib.sha256(_json(batch | {"rows": rows}).encode()).hexdigest()[:32]


def _told(batch: dict[str, Any]) -> str:
    """What to do, in a sentence."""
    verb = "Choose" if batch["labels"] else "Type"
    return f"{verb} <b><bdi>{html.escape(batch['target'])}</bdi></b> for each row, then save."


def _assembled(batch: dict[str, Any]) -> str:
    def part(name: str) -> str:
        return (resources.files(__name__) / name).read_text(encoding="utf-8")

    def digest(text: str) -> str:
        return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"

    style, script = part("page.css"), part("page.js")
    policy = (
        f"default-src 'none'; script-src {digest(script)}; style-src {digest(style)}; img-src 'self' file: data:; "
        "base-uri 'none'; form-action 'none'; require-trusted-types-for 'script'"
    )
    page = Template(part("page.html")).substitute(
        policy=policy,
        title=html.escape(batch["title"]),
        told=_told(batch),
        style=style,
        script=script,
        batch=_json(batch),
    )
    return page.encode("ascii", "xmlcharrefreplace").decode()
