"""One HTML page by which a person labels the rows of a batch in a browser, and saves what ``skactive tell`` takes.

The page is a file: page.html with page.css, page.js and the rows as JSON inside. Nothing is fetched, and its policy
forbids to. All of it is ASCII, so that no encoding can spoil it. Rows become text nodes in the browser, never markup.
"""

from __future__ import annotations

import base64
import hashlib
import html
import json
import math
import os
from collections.abc import Iterable, Sequence
from importlib import resources
from pathlib import Path
from string import Template
from typing import Any

import numpy as np
import pandas as pd

from ..._checks import (
    FLAG,
    ParameterError,
    Rule,
    check_parameters,
    is_integer,
    is_number,
    mixed_labels_error,
    one_of,
    shown,
)
from ._cells import cells_of

_NAME = Rule(lambda value: isinstance(value, str) and bool(value.strip()) and _can_be_saved(value), "a name, as text")
_RULES = {
    "frame": Rule(lambda value: isinstance(value, pd.DataFrame) and len(value) > 0, "a DataFrame of one row or more"),
    "id": _NAME,
    "target": _NAME,
    "kind": one_of(["classes", "number"]),
    "closed": FLAG,
    "title": Rule(lambda value: isinstance(value, str) and bool(value.strip()), "text").or_none(),
    "folder": Rule(lambda value: isinstance(value, str | os.PathLike), "the path of a folder").or_none(),
}


def labelling_page(
    frame: pd.DataFrame,
    *,
    id: str,
    target: str,
    labels: Iterable[Any] | None = None,
    kind: str = "classes",
    closed: bool = False,
    guesses: Sequence[tuple[Any, float | None]] | None = None,
    title: str | None = None,
    folder: str | os.PathLike[str] | None = None,
) -> str:
    """The text of an HTML page by which a person labels the rows of a table.

    The page shows one row at a time. A key or a click labels it and shows the next; rows can be skipped, and all of it
    can be undone. The browser keeps the labels over a reload, apart for each batch. *Save* downloads a CSV that is
    named like the page, week1_labelled.csv of week1.html, in UTF-8 and as RFC 4180 has it, with the columns ``id``,
    ``target`` and ``skip``: ids and labels as they were given, nothing in ``target`` for a row that is open, 1 in
    ``skip`` for a row that was skipped. Read it as text: ``pd.read_csv(path, dtype=str, keep_default_na=False)``,
    or the id "03" becomes 3 and the label "NA" is lost. Values that a spreadsheet takes for formulas stay as they are.

    Keys 1 to 9 are those of the first nine labels; a label that is a digit has its own digit as its key. Further labels
    are found by typing a part of them into a field.

    Parameters
    ----------
    frame : DataFrame of shape (n_rows, n_columns)
        What is shown of each row: text, numbers, booleans, dates, gaps, and the paths of images (.png, .jpg, .jpeg,
        .gif, .webp, .svg). An image is shown from its file, which has to be where the page is opened; web addresses
        are shown as text. The index holds the ids, text or integers, each once.
    id, target : str
        Names of the columns with the ids and with the labels in the CSV.
    labels : iterable of str, int, float or bool, default=None
        The labels known, in the order of their buttons.
    kind : {"classes", "number"}, default="classes"
        "number": a number is typed for each row, and there are no ``labels``.
    closed : bool, default=False
        Whether other labels than ``labels`` are refused. Of booleans there are no others.
    guesses : sequence of (guess, probability), default=None
        What a model says of each row. A missing probability (None, NaN) is not shown; a missing guess is none. Guesses
        are hidden until the person asks, at each row anew: who sees a guess first tends to agree with it, and labels
        that repeat the model teach it nothing.
    title : str, default=None
        Heading of the page; "Label 20 rows" if None. Pages of the same rows with other titles, to label them a second
        time, do not know each other's labels.
    folder : str or path, default=None
        Where the page will lie. Absolute paths of images are then shown relative to it, so that the folder can be moved
        with its images; relative ones are taken as they are.

    Returns
    -------
    page : str
        The page, ASCII characters only.

    Raises
    ------
    ParameterError
        A parameter that breaks its rule: a ``ValueError`` and a ``TypeError``.
    ValueError
        Ids or labels that are missing, no text or number, or the same once written.

    Examples
    --------
    >>> import pandas as pd
    >>> from skactive.cli._page import labelling_page
    >>> rows = pd.DataFrame({"message": ["Free money!", "See you at five"]}, index=["03", "17"])
    >>> page = labelling_page(rows, id="message_id", target="kind", labels=["spam", "no spam"])
    >>> page.splitlines()[0], page.isascii()
    ('<!doctype html>', True)
    """
    check_parameters(_RULES, locals())
    if len({id, target, "skip"}) < 3:
        raise ValueError(
            f'`id`, `target` and "skip" must be three names, of columns of the CSV. Got {id!r}, {target!r}.'
        )
    known = _labels(labels, kind, closed)
    lies_in = None if folder is None else Path(folder)
    columns = [cells_of(frame.iloc[:, j], lies_in) for j in range(frame.shape[1])]
    guessed = _guesses(guesses, len(frame))
    batch = {
        "title": title or f"Label {len(frame)} {'row' if len(frame) == 1 else 'rows'}",
        "id": id,
        "target": target,
        "kind": kind,
        "open": not closed and not (known and all(isinstance(label, bool) for label in known)),
        "numeric": bool(known) and not any(isinstance(label, str | bool) for label in known),
        "labels": _distinct_texts(known, "labels"),
        "columns": [str(name) for name in frame.columns],
        "rows": [
            {"id": text, "cells": [column[i] for column in columns], "guess": guessed[i]}
            for i, text in enumerate(_distinct_texts(_ids(frame.index), "frame"))
        ],
    }
    batch["key"] = _key(batch)
    return _assembled(batch)


# --- ids, labels and guesses as text --------------------------------------------------------------


def _can_be_saved(text: str) -> bool:
    """Whether a table of text can hold it: half a surrogate pair is nothing in UTF-8, and NUL ends texts."""
    return not any(character == "\0" or "\ud800" <= character <= "\udfff" for character in text)


def _ids(index: pd.Index) -> list[Any]:
    for value in index:
        if not (isinstance(value, str) or is_integer(value)):
            raise ParameterError(f"The index of `frame` must hold ids, text or integers. Got {shown(value)} instead.")
    return list(index)


def _labels(labels: Iterable[Any] | None, kind: str, closed: bool) -> list[Any]:
    """The labels as Python's own text, numbers and booleans."""
    if isinstance(labels, str) or not (labels is None or isinstance(labels, Iterable)):
        raise ParameterError(f"`labels` must be a sequence of labels. Got {shown(labels)} instead.")
    known = [label.item() if isinstance(label, np.generic) else label for label in (() if labels is None else labels)]
    for label in known:
        if not (isinstance(label, str | bool | int) or (isinstance(label, float) and math.isfinite(label))):
            raise ParameterError(f"`labels` must hold text, finite numbers or booleans. Got {shown(label)} instead.")
    if kind == "number" and (known or closed):
        raise ValueError('`labels` and `closed` are for kind="classes". Got them with kind="number": leave them out.')
    if closed and not known:
        raise ValueError("`labels` must name the labels that can be chosen if `closed` is True. Got none.")
    if len({isinstance(label, str) for label in known}) == 2:
        of_each_kind = [next(label for label in known if isinstance(label, str) is text) for text in (True, False)]
        raise mixed_labels_error("labels", of_each_kind)
    return known


def _distinct_texts(values: list[Any], name: str) -> list[str]:
    """Ids or labels as the CSV will hold them."""
    of = "ids in its index" if name == "frame" else "labels"
    texts: dict[str, Any] = {}
    for value in values:
        text = str(value)
        if not text.strip() or not _can_be_saved(text):
            raise ValueError(f"`{name}` must have {of} that are more than spaces, without NUL. Got {value!r}.")
        if text in texts:
            raise ValueError(f"`{name}` must have {of} that differ as text. Got {texts[text]!r} and {value!r}.")
        texts[text] = value
    return list(texts)


def _guesses(guesses: Sequence[tuple[Any, float | None]] | None, n_rows: int) -> list[str | None]:
    if guesses is None:
        return [None] * n_rows
    if not isinstance(guesses, Sequence) or len(guesses) != n_rows:
        raise ParameterError(
            f"`guesses` must be a sequence of {n_rows} pairs, one a row. Got {shown(guesses)} instead."
        )
    return [_guess(pair) for pair in guesses]


def _guess(pair: Any) -> str | None:
    if not (isinstance(pair, Sequence) and len(pair) == 2 and not isinstance(pair, str)):
        raise ParameterError(f"`guesses` must hold pairs (guess, probability). Got {shown(pair)} instead.")
    guess, probability = (None if pd.api.types.is_scalar(value) and pd.isna(value) else value for value in pair)
    if probability is not None and not (is_number(probability) and 0 <= probability <= 1):
        raise ParameterError(f"Probabilities in `guesses` must be missing or 0 to 1. Got {shown(probability)} instead.")
    if guess is None:
        return None
    text = f"{guess:.6g}" if isinstance(guess, float | np.floating) else str(guess)
    return text if probability is None else f"{text} ({probability:.0%})"


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
