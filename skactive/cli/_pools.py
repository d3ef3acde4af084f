"""The table of a campaign in files: where it is, how it is written, and what its labels are."""

from __future__ import annotations

import argparse
import glob
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from .._utils.validation import warn
from ..campaign import Campaign, CampaignError, CampaignFileError
from ..campaign._columns import GAPS, Reading, read, spelling_of
from ..campaign._labels import kind_of
from ..campaign._store import Store, shown
from ..campaign._table import files_of
from ._cells import OPEN, Dialect
from ._files import FileError
from ._tables import place, read_table


def opened(options: argparse.Namespace, verbose: bool = False) -> Campaign:
    """The campaign with its table."""
    bare = Campaign.open(options.campaign, verbose=int(verbose))
    known = [os.path.normpath(bare.path.parent / path) for path in bare._settings.get("pool", [])]
    paths = options.pool or known
    output = getattr(options, "output", None)
    keep_inputs(output, {"the file of the campaign": [options.campaign], "the table": [*paths, *known]})
    if not paths:
        raise CampaignError(f"{options.campaign} was started in Python, and knows of no file: name it by --pool FILE.")
    if far := [path for path in known if not (options.pool or Path(path).is_relative_to(bare.path.parent))]:
        warn(f"the table is read from {', '.join(map(repr, far))}, as {options.campaign} says.")
    if gone := [path for path in paths if not (os.path.exists(path) or glob.has_magic(path))]:
        raise FileError(f"{gone[0]} is not there any more: name the table by --pool FILE.")
    ours = bare.id, bare.target
    frame = table_of_files(paths, ours, ours, quiet=True, like=dialect_of(bare))
    changes: Any = "take" if options.take_changes else "refuse"
    n_before = len(bare._ids)
    with error_context(in_words(paths), frame), _noted(frame, bare._store):
        given = frame.attrs["dialect"], dialect_of(bare)
        frame[bare.target], _ = labels_of(frame[bare.target], bare._settings["kind"], *given)
        if bare.id is not None:
            frame[bare.id] = typed(bare, frame[bare.id])
        campaign = bare._go_on(frame if bare.id else frame.reset_index(drop=True), None, None, changes)
    if n_new := len(campaign._ids) - n_before:
        n_labels = sum(row >= n_before for row in campaign._store.ledger().came)
        warn(f"{count(n_new, 'row')} came with the table, {n_labels} of them with a label.")
    if options.pool:
        campaign._store.note({"pool": beside(campaign.path, paths)})
    return campaign


@contextmanager
def _noted(frame: pd.DataFrame, store: Store) -> Iterator[None]:
    """Say what there is to note of a table, which was said at the start, if it is refused or has changed since."""
    store.ledger()
    n_before, is_known = store._n_records, False
    try:
        yield
        store.ledger()
        is_known = store._n_records == n_before
    finally:
        for note in () if is_known else frame.attrs["notes"]:
            warn(note)


def beside(campaign: Path, paths: Sequence[str]) -> list[str]:
    """Paths of a table as the file of a campaign holds them: those below its folder relative to that."""
    folder, whole = campaign.absolute().parent, [Path(os.path.abspath(path)) for path in paths]
    return [str(path.relative_to(folder) if path.is_relative_to(folder) else path) for path in whole]


def dialect_of(campaign: Campaign) -> Dialect:
    """How the table of a campaign was written at the start."""
    return Dialect(**campaign._settings.get("dialect", {}))


def asked_for(options: Any) -> Dialect:
    """What options say of how files are written."""
    sep = {"tab": "\t", "\\t": "\t"}.get(options.sep, options.sep)
    if sep is not None and (len(sep) != 1 or sep in '"\r\n'):
        raise FileError(f"--sep must be one character, or tab. Got {sep!r}.")
    return Dialect(sep, options.decimal, sheet=options.sheet)


def labelled_table(paths: list[str], options: Any, kind: str | None) -> tuple[pd.DataFrame, str | None]:
    """A table, and what its labels are, if they say so; classes come as texts, to the letter."""
    target = options.target
    frame = table_of_files(paths, (options.id, target), (options.id, target), dialect=asked_for(options))
    with error_context(in_words(paths), frame):
        frame[target], kind = labels_of(frame[target], kind, frame.attrs["dialect"])
    if kind != "numbers" and (words := sorted(set(GAPS).intersection(map(str, frame[target].dropna())))):
        warn(f"{words[0]!r} in {target!r} counts as a label. If it means that there is none, leave the cell empty.")
    return frame, kind


def labels_of(
    column: pd.Series, kind: str | None, dialect: Dialect, like: Dialect = OPEN
) -> tuple[pd.Series, str | None]:
    """Labels that come as texts, as numbers if these are to be predicted, as ``kind`` or else most of them say.

    Where a file does not show its decimal mark, they must not be others by that of ``like``.
    """
    if kind == "classes":
        return column, kind
    texts = column.map(str.strip, na_action="ignore").astype(object)
    texts = texts.where(~texts.isin([*GAPS, ""]))
    spelt = [spelling_of(texts.dropna(), dialect.mark)]
    spelt += [Reading("number", mark=dialect.decimal, grouped=True)] if dialect.decimal else []  # other columns show it
    found = [read(texts, one) for one in spelt]
    # Two in three, as slips must not make classes of numbers; they count as one number more.
    told = [numbers[texts.notna()] for numbers in found if numbers.count() >= texts.count() * 2 / 3]
    kinds = {kind_of(numbers.fillna(numbers.max() + 1).tolist()) for numbers in told}
    if kind is None and "numbers" not in kinds:
        return column, kind
    odd = np.flatnonzero(texts.notna() & found[-1].isna()).tolist()
    if odd:
        rule = f"a label must be a number, with the decimal mark {spelt[-1].mark!r} of the table"
        ways = "mend it, or say by --task classification of `skactive start` or `skactive set` that all are classes"
        rule += "" if kind else f", as most are: {ways}"
        raise CampaignError(f"{rule}. Got {texts.iloc[odd[0]]!r}.", odd)
    if dialect.sep and not dialect.decimal and like.mark:
        others = read(texts, Reading("number", mark=like.mark, grouped=True))
        if len(unlike := texts[others.notna() & (others != found[-1])]):
            got = f"{unlike.iloc[0]!r} may be {found[-1][unlike.index[0]]:g} or {others[unlike.index[0]]:g}"
            raise CampaignError(f"{got}: name the decimal mark of the file by --decimal.")
    return found[-1], "numbers"


def table_of_files(
    paths: Sequence[str], names: Sequence[Any], text: Sequence[Any], quiet: bool = False, **given: Dialect
) -> pd.DataFrame:
    """The table in all these files, if it has columns of these names; what there is to note of it is said."""
    files, names = sorted(file for path in paths for file in _files_of(path)), list(filter(None, names))
    frame = read_table(*files, text=text, names=names, **given)
    for note in () if quiet else frame.attrs["notes"]:
        warn(note)
    for name in names:
        if name not in frame.columns:
            raise FileError(f"{in_words(paths)} has no column {name!r}: add it. Its columns: {shown([*frame], 12)}.")
    return frame


def _files_of(path: str) -> list[str]:
    """The Parquet files of a folder, the files of a pattern, or a file itself."""
    if not os.path.isdir(path) and (os.path.exists(path) or not glob.has_magic(path)):
        return [path]
    if not (found := files_of(path)):
        raise FileError(f"{path}: there is no file of this pattern, or no file .parquet in this folder.")
    return found


def typed(campaign: Campaign, ids: Sequence[Any]) -> list[Any]:
    """Ids of a file, which are texts, in the type of the campaign."""
    if len(campaign._ids) and isinstance(campaign._ids[0], int | np.integer):
        whole = re.compile("-?(0|[1-9][0-9]{0,17})")
        return [int(id) if isinstance(id, str) and whole.fullmatch(id) else id for id in ids]
    return list(ids)


def keep_inputs(output: str | None, inputs: Mapping[str, Sequence[str]]) -> None:
    """Refuse an output that is an input of the command, by whatever name."""
    if output is None or not os.path.exists(output):
        return
    for what, paths in inputs.items():
        files = [file for path in paths if os.path.exists(path) or glob.has_magic(path) for file in _files_of(path)]
        if any(os.path.samefile(output, file) for file in files if os.path.exists(file)):
            raise FileError(f"{output} is {what}: it is not overwritten, --force or not. Name another file.")


@contextmanager
def error_context(path: str, frame: pd.DataFrame | None = None) -> Iterator[None]:
    """Errors of a campaign name the file, and the row of its table where one is at fault."""
    try:
        yield
    except CampaignError as error:
        if isinstance(error, CampaignFileError) or "`path`" in str(error):
            raise
        rows = [entry + 1 for entry in error.entries]
        if rows and frame is not None:
            path, rows = place(frame, error.entries)
        where = f", row{'s' * (len(rows) > 1)} {shown(rows)}" if rows else ""
        raise CampaignError(f"{path}{where}: {error}", error.entries) from None


def in_words(paths: Sequence[str]) -> str:
    return paths[0] if len(paths) == 1 else f"{len(paths)} files"


def count(n: int, what: str) -> str:
    return f"{n:,} {what}{'s' * (n != 1)}"
