"""One HTML page by which a person labels rows in a browser, and saves what ``skactive tell`` takes.

The page is a file: page.html with page.css, page.js and the rows as JSON inside. Nothing is fetched, and its policy
forbids to; with live.js it speaks to the server that it came from alone. All of it is ASCII, so that no encoding can
spoil it. Rows become text nodes in the browser, never markup.
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
    marks: tuple[str, str] = (",", "."),
    live: str | None = None,
) -> str:
    """An HTML page that shows one row at a time, and takes a label by a key or a click.

    *Save* downloads a CSV, week1_labelled.csv of week1.html, with the columns ``id``, ``target`` and ``skip`` (1 for a
    row that was skipped). ``closed`` refuses other labels than ``labels``. A guess is hidden until the person asks for
    it, at each row anew: one seen first biases the label towards the model. An image is shown from its file, by a path
    relative to ``folder`` where the page will be; web addresses are shown as text. ``marks`` part the fields of the
    CSV, and decimals. ``live`` is the name by which the page keeps answers for a server, which sends the rows.
    """
    if len({id, target, "skip"}) < 3:
        raise ValueError(f'The page saves columns {id!r}, {target!r} and "skip": they must have three names.')
    known = [label.item() if isinstance(label, np.generic) else label for label in labels]
    columns = [[cell(value, folder, marks[1]) for value in frame.iloc[:, j].array] for j in range(frame.shape[1])]
    batch = {
        "title": title,
        "id": id,
        "target": target,
        "kind": kind,
        "open": not closed and not (known and all(isinstance(label, bool) for label in known)),
        "numeric": bool(known) and not any(isinstance(label, str | bool) for label in known),
        "labels": _saved_texts(known),
        "marks": marks,
        "columns": [str(name) for name in frame.columns],
        "rows": [
            {"id": text, "cells": [column[i] for column in columns], "guess": guess_in_words(*guess, marks[1])}
            for i, (text, guess) in enumerate(
                zip(_saved_texts(frame.index.tolist()), guesses or [(None, None)] * len(frame), strict=True)
            )
        ],
    }
    batch["key"] = live or _key(batch)
    return _assembled(batch, live is not None)


def _saved_texts(values: list[Any]) -> list[str]:
    """Ids or labels as the CSV will hold them."""
    texts = [str(value) for value in values]
    for text in texts:
        # UTF-8 has no half of a surrogate pair, tables of text have no NUL.
        if not text.strip() or re.search("[\0\ud800-\udfff]", text):
            raise ValueError(f"The page cannot save {text!r} as an id or a label. Rename it.")
    return texts


def guess_in_words(guess: Any, probability: float | None, mark: str = ".") -> str | None:
    if pd.isna(guess):
        return None
    text = f"{guess:.6g}".replace(".", mark) if isinstance(guess, float | np.floating) else str(guess)
    return text if pd.isna(probability) else f"{text} ({probability:.0%})"


def cell(value: Any, folder: Path | None, mark: str = ".") -> Cell:
    """What is shown of a value: None for a gap, text, or an image with the text it came from."""
    if isinstance(value, str | os.PathLike):
        text = os.fspath(value)
        src = _source(text, folder) if isinstance(text, str) else None
        return str(text) if src is None else {"src": src, "text": text}
    if pd.api.types.is_scalar(value) and pd.isna(value):
        return None
    if isinstance(value, float | np.floating):
        return format(float(str(value)), ".15g").replace(".", mark)  # 0.1 of float32 is 0.1, and 3.0 is 3
    if isinstance(value, datetime.datetime):
        return str(value.date() if value.time() == datetime.time() and value.tzinfo is None else value)
    return str(value)


def _source(text: str, folder: Path | None) -> str | None:
    """The address of an image file, relative to the page if possible; None for all else, web addresses among them."""
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


def _assembled(batch: dict[str, Any], live: bool) -> str:
    def part(name: str) -> str:
        return (resources.files(__name__) / name).read_text(encoding="utf-8")

    def digest(text: str) -> str:
        return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"

    style, script = part("page.css"), f"{part('page.js')}{part('live.js') if live else ''}begin();\n"
    sources = "img-src 'self' data:; connect-src 'self'" if live else "img-src 'self' file: data:"
    policy = (
        f"default-src 'none'; script-src {digest(script)}; style-src {digest(style)}; {sources}; "
        "base-uri 'none'; form-action 'none'; require-trusted-types-for 'script'"
    )
    page = Template(part("page.html")).substitute(
        policy=policy,
        title=html.escape(batch["title"]),
        verb="Choose" if batch["labels"] else "Type",
        ending=". Each answer is saved at once." if live else ", then save.",
        target=html.escape(batch["target"]),
        style=style,
        script=script,
        batch=_json(batch),
    )
    return page.encode("ascii", "xmlcharrefreplace").decode()
