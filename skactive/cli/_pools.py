"""The table that a command names by ``--pool``: in one file, as people keep them, or in files of Parquet."""

from __future__ import annotations

import argparse
import glob
import os
import re
from collections.abc import Iterable
from typing import Any

import pandas as pd

from .._checks import warn
from .._types import Task
from ..campaign import Campaign, CampaignError, CampaignFileError
from ..campaign._labels import kind_of, plain_labels
from ._files import GAPS, FileError, read_table


def is_in_parts(paths: list[str]) -> bool:
    """Whether a table is read from files of Parquet, in parts: from several, a folder, a pattern, or a single one."""
    path = paths[0]
    is_pattern = glob.has_magic(path) and not os.path.exists(path)
    return len(paths) > 1 or is_pattern or os.path.isdir(path) or path.lower().endswith(".parquet")


def in_words(paths: list[str]) -> str:
    return paths[0] if len(paths) == 1 else f"{len(paths)} files"


def pool_to_start(options: argparse.Namespace) -> tuple[pd.DataFrame | list[str], Task]:
    """A table for a campaign to begin with, or where it stands in files; and its task."""
    if is_in_parts(options.pool):
        return options.pool, options.task
    return with_labels(_only(options.pool), options.id, options.target, options.task)


def _only(paths: list[str]) -> str:
    return paths[0]


def _pool(path: str, id: str | None, target: str, frame: pd.DataFrame | None = None) -> pd.DataFrame:
    if frame is None:
        frame = read_table(path, text=tuple(name for name in (id, target) if name is not None))
    say_notes(frame)
    for name, remedy in ((id, ""), (target, f" If there are no labels yet, add an empty column {target!r}.")):
        if name is not None and name not in frame.columns:
            raise FileError(
                f"{path} has no column {name!r}. Its columns are {', '.join(map(str, frame.columns[:12]))}.{remedy}"
            )
    warn_of_words(target, frame[target].dropna().tolist())
    return frame


def warn_of_words(target: str, labels: Iterable[Any]) -> None:
    """Say so if a label is a word for a gap."""
    words = sorted(set(GAPS).intersection(map(str, filter(None, labels))))
    if words:
        warn(f"{words[0]!r} in {target!r} counts as a label. If it means that there is none, leave the cell empty.")


def with_labels(path: str, id: str | None, target: str, task: Task) -> tuple[pd.DataFrame, Task]:
    """A table, and its task. Labels that are numbers to predict come as numbers, others as texts, as they stand."""
    if task != "classification":
        frame = read_table(path, text=() if id is None else (id,))
        known = frame[target].dropna() if target in frame.columns else pd.Series(dtype=object)
        are_numbers = pd.api.types.is_numeric_dtype(known) and not pd.api.types.is_bool_dtype(known)
        if task == "regression" or (are_numbers and kind_of(plain_labels(known, target, known.index)) == "numbers"):
            return _pool(path, id, target, frame), "regression"
    return _pool(path, id, target), "classification"


def say_notes(frame: pd.DataFrame) -> None:
    for note in frame.attrs.get("notes", ()):
        warn(note)


def opened(options: argparse.Namespace, verbose: bool = False) -> Campaign:
    """The campaign with its table."""
    bare = Campaign.open(options.campaign)
    known = bare._settings.get("pool")
    paths = options.pool or ([known] if isinstance(known, str) else known)
    if not paths:
        raise CampaignError(f"{options.campaign} was started in Python, and knows of no file: name it by --pool FILE.")
    gone = [path for path in paths if not (os.path.exists(path) or glob.has_magic(path))]
    if gone:
        raise FileError(f"{gone[0]} is not there any more: name the table by --pool FILE.")
    in_parts = is_in_parts(paths) and (isinstance(known, list) or not os.path.isfile(paths[0]) or len(paths) > 1)
    frame = paths if in_parts else _read(bare, paths)
    with about(in_words(paths)):
        campaign = Campaign.open(
            options.campaign, frame, changes="take" if options.take_changes else "refuse", verbose=int(verbose)
        )
    if options.pool:
        there = [os.path.abspath(path) for path in paths]
        campaign._store.note({"pool": there if in_parts else there[0]})
    return campaign


def _read(bare: Campaign, paths: list[str]) -> pd.DataFrame:
    """The table in a file, in memory, for a campaign."""
    path = _only(paths)
    numbers = read_table(path, text=[bare.id] if bare.id else ()) if bare.kind == "numbers" else None
    frame = _pool(path, bare.id, bare.target, numbers)
    if bare.id is not None and bare.id in frame.columns and not isinstance(bare._ids[0], str):
        frame[bare.id] = typed(bare, frame[bare.id])
    return frame


def typed(campaign: Campaign, ids: Any) -> list[Any]:
    """Ids of a file, which are texts, in the type of the campaign."""
    if not isinstance(campaign._ids[0], str):
        return [int(id) if isinstance(id, str) and re.fullmatch(r"-?(0|[1-9][0-9]{0,17})", id) else id for id in ids]
    return list(ids)


class about:  # noqa: N801 - reads as a phrase
    """Errors of a campaign name the file, and the row where one is at fault."""

    def __init__(self, path: str) -> None:
        self.path = path

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        if isinstance(error, CampaignError) and not isinstance(error, CampaignFileError) and "`path`" not in str(error):
            where = ""
            if error.entries:
                rows = ", ".join(str(entry + 1) for entry in error.entries[:5])
                more = f" and {len(error.entries) - 5} more" if len(error.entries) > 5 else ""
                where = f", row{'s' * (len(error.entries) > 1)} {rows}{more}"
            raise CampaignError(f"{self.path}{where}: {error}", error.entries) from None
