"""CLINC-150, from the authors' JSON files or a table with the columns split, intent and text."""

from __future__ import annotations

import csv
import io
import json
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._types import ClincSplit
from ._files import content_error, read_bytes, readable, source_named

_SOURCE = "The file data/data_full.json of https://github.com/clinc/oos-eval is one."


def load_clinc150(
    path: str | PathLike[str], split: ClincSplit = "train"
) -> tuple[NDArray[np.object_], NDArray[np.str_]]:
    """Load CLINC-150: questions to an assistant, and which of 150 intents they have.

    Parameters
    ----------
    path : path
        One of the authors' JSON files, such as ``data_full.json``, or a table (``.csv``, ``.csv.gz``) with columns
        ``split``, ``intent`` and ``text``.
    split : {"train", "val", "test", "oos_train", "oos_val", "oos_test"}
        Those with ``oos`` hold out-of-scope questions, all of the class "oos".

    Returns
    -------
    X : ndarray of shape (n,) and dtype object
        Sentences.
    y : ndarray of shape (n,)
        Intents.

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    ValueError
        If it has none of these forms, or a split does not have 150 intents.

    See Also
    --------
    datasets.load_table : Small tables that come with the package.

    References
    ----------
    Larson et al. (2019), An Evaluation Dataset for Intent Classification and Out-of-Scope Prediction. The data are
    licensed CC BY 3.0.

    Examples
    --------
    >>> from skactive.datasets import load_clinc150
    >>> X, y = load_clinc150("data_full.json", "test")  # doctest: +SKIP
    >>> X.shape  # doctest: +SKIP
    (4500,)
    """
    with source_named(_SOURCE):
        pairs = _read_pairs(Path(path).expanduser(), split)
    texts = np.empty(len(pairs), dtype=object)
    texts[:] = [text for text, _ in pairs]
    return texts, np.array([intent for _, intent in pairs])


def _read_pairs(path: Path, split: str) -> list[list[str]]:
    """Pairs of a sentence and its intent."""
    with readable("path", path, "JSON, or CSV with a name that says so"):
        text = read_bytes(path).decode("utf-8")
        content = _from_table(text) if ".csv" in path.suffixes else json.loads(text)
    pairs = content.get(split) if isinstance(content, dict) else None
    if not pairs or not isinstance(pairs, list):
        found = f"the splits {', '.join(content)}" if isinstance(content, dict) else f"a {type(content).__name__}"
        found = f"a {type(pairs).__name__}" if pairs else found
        raise content_error(path, f"the split {split!r}", found)
    for row, pair in enumerate(pairs):
        if not isinstance(pair, list) or len(pair) != 2 or not all(isinstance(part, str) for part in pair):
            raise content_error(path, "pairs of a sentence and an intent", f"{pair!r} in row {row} of {split}")
    n_intents, n_expected = len({intent for _, intent in pairs}), 1 if split.startswith("oos") else 150
    if n_intents != n_expected:
        raise content_error(path, f"{n_expected} intents in {split}", f"{n_intents}")
    return pairs


def _from_table(text: str) -> dict[str, list[Any]]:
    """Pairs by split, as the JSON files hold them."""
    by_split: dict[str, list[Any]] = {}
    for row in csv.DictReader(io.StringIO(text, newline="")):
        by_split.setdefault(row["split"], []).append([row["text"], row["intent"]])
    return by_split
