"""Reader of CLINC-150: the authors' JSON files, or a table with the columns split, intent and text."""

from __future__ import annotations

import csv
import gzip
import io
import json
from pathlib import Path
from typing import Any

from ._checks import check_clinc150, unreadable_explained

REMEDY = "The file data/data_full.json of https://github.com/clinc/oos-eval is one."


def read_pairs(path: Path, split: str) -> list[tuple[str, str]]:
    """Pairs of a sentence and its intent."""
    with unreadable_explained("path", path, "JSON, or CSV with a name that says so", REMEDY):
        content = path.read_bytes()
        text = (gzip.decompress(content) if content[:2] == b"\x1f\x8b" else content).decode("utf-8")
        pairs = _from_table(text) if ".csv" in path.suffixes else json.loads(text)
    return check_clinc150(path, pairs, split, REMEDY)


def _from_table(text: str) -> dict[str, list[Any]]:
    """Pairs by split, as the JSON files hold them."""
    by_split: dict[str, list[Any]] = {}
    for row in csv.DictReader(io.StringIO(text, newline="")):
        by_split.setdefault(row["split"], []).append((row["text"], row["intent"]))
    return by_split
