"""What a campaign and files exchange: its table, batches that go out, and labels that come back."""

from __future__ import annotations

import argparse
import glob
import json
import os
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from .._utils.validation import warn
from ..campaign import Campaign, CampaignError, CampaignFileError, Status
from ..campaign._columns import GAPS, Reading, is_of_numbers, read, spelling_of
from ..campaign._labels import EXACT, Answer, bare_number, kind_of, plain_label
from ..campaign._store import shown
from ..campaign._table import RESERVED_IDS, files_of, row_hashes
from ..query import Limits
from ._cells import OPEN, Choices, Dialect, plain_text
from ._files import FileError, atomic_write
from ._tables import packed, place, read_table, without_doubles

LEADING_ZEROS = re.compile("^0+(?=[0-9]+$)")

# --- the table ---------------------------------------------------------------------------------------


def opened(options: argparse.Namespace, verbose: bool = False) -> Campaign:
    """The campaign with its table."""
    bare = Campaign.open(options.campaign, verbose=int(verbose))
    known = [os.path.normpath(bare.path.parent / path) for path in bare._settings.get("pool", [])]
    paths = options.pool or known
    output = getattr(options, "output", None)
    keep_inputs(output, {"the file of the campaign": [options.campaign], "the table": [*paths, *known]})
    if not paths:
        raise CampaignError(f"{options.campaign} was started in Python and names no table: pass it by --pool FILE.")
    if far := [path for path in known if not (options.pool or Path(path).is_relative_to(bare.path.parent))]:
        warn(f"the table is read from {', '.join(map(repr, far))}, as recorded in {options.campaign}.")
    if gone := [path for path in paths if not (os.path.exists(path) or glob.has_magic(path))]:
        raise FileError(f"{gone[0]} does not exist any more: pass the table by --pool FILE.")
    ours, marks = (bare.id, bare.target), marks_of(paths)
    frame = table_of_files(paths, ours, ours, quiet=True, like=dialect_of(bare))
    changes: Any = "take" if options.take_changes else "refuse"
    n_before, n_records = len(bare._ids), bare._store._n_records
    with error_context(in_words(paths), frame):
        given = frame.attrs["dialect"], dialect_of(bare)
        frame[bare.target], _ = labels_of(frame[bare.target], bare._settings["kind"], *given)
        if bare.id is not None:
            frame[bare.id] = typed(bare, frame[bare.id])
        campaign = bare._go_on(frame if bare.id else frame.reset_index(drop=True), None, None, changes)
    campaign._store.ledger()
    for note in frame.attrs["notes"] if campaign._store._n_records > n_records else ():  # said at the start, else
        warn(note)
    if n_new := len(campaign._ids) - n_before:
        n_labels = sum(row >= n_before for row in campaign._store.ledger().came)
        warn(f"the table has {count(n_new, 'new row')}, {n_labels} of them with a label.")
    if options.pool:
        campaign._store.note({"pool": beside(campaign.path, paths)})
    campaign._reread = lambda: None if marks_of(paths) == marks else opened(options)
    return campaign


def marks_of(paths: Sequence[str]) -> list[tuple[str, float, int]]:
    """The times and sizes of files, by which it is seen that one was written."""
    return [(file, os.path.getmtime(file), os.path.getsize(file)) for file in _present(paths)]


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
        warn(f"{words[0]!r} in {target!r} counts as a label. If it means a missing label, leave the cell empty.")
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
        ways = "correct it, or make all labels classes by --task classification of `skactive start` or `skactive set`"
        rule += "" if kind else f", as most are: {ways}"
        raise CampaignError(f"{rule}. Got {texts.iloc[odd[0]]!r}.", odd)
    if dialect.sep and not dialect.decimal and like.mark:
        others = read(texts, Reading("number", mark=like.mark, grouped=True))
        if len(unlike := texts[others.notna() & (others != found[-1])]):
            got = f"{unlike.iloc[0]!r} may mean {found[-1][unlike.index[0]]:g} or {others[unlike.index[0]]:g}"
            raise CampaignError(f"{got}: give the decimal mark of the file by --decimal.")
    return found[-1], "numbers"


def table_of_files(
    paths: Sequence[str], names: Sequence[Any], text: Sequence[Any], quiet: bool = False, **given: Any
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


def _present(paths: Sequence[str]) -> list[str]:
    """The files of a table that are there."""
    return [file for path in paths if os.path.exists(path) or glob.has_magic(path) for file in _files_of(path)]


def _files_of(path: str) -> list[str]:
    """The Parquet files of a folder, the files of a pattern, or a file itself."""
    if not os.path.isdir(path) and (os.path.exists(path) or not glob.has_magic(path)):
        return [path]
    if not (found := files_of(path)):
        raise FileError(f"{path}: no file matches this pattern, or this folder has no .parquet file.")
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
        if any(os.path.samefile(output, file) for file in _present(paths) if os.path.exists(file)):
            raise FileError(f"{output} is {what}, which even --force does not overwrite. Name another file.")


@contextmanager
def error_context(path: str, frame: pd.DataFrame | None = None) -> Iterator[None]:
    """Errors of a campaign name the file, and the row of its table where one is at fault."""
    try:
        yield
    except CampaignError as error:
        if isinstance(error, CampaignFileError) or "`path`" in str(error):
            raise
        if error.entries and frame is not None:
            file, rows = place(frame, error.entries)
            path = f"{file}, row{'s' * (len(rows) > 1)} {shown(rows)}"
        raise CampaignError(f"{path}: {error}", error.entries) from None


def in_words(paths: Sequence[str]) -> str:
    return paths[0] if len(paths) == 1 else f"{len(paths)} files"


def count(n: int, what: str) -> str:
    return f"{n:,} {what}{'s' * (n != 1)}"


# --- batches -----------------------------------------------------------------------------------------


def out_again(campaign: Campaign) -> pd.DataFrame:
    out = counted(campaign).out.index
    if len(out) == 0:
        raise CampaignError("No rows wait for labels. `skactive ask` without --again chooses some.")
    try:
        frame = campaign.to_frame(guesses=True)
    except CampaignError:  # there is no model yet
        frame = campaign.to_frame().assign(guess=None, guess_probability=np.nan)
    return frame.loc[out].drop(columns=campaign.target).assign(log_proba=np.nan)


def how_to_fill(output: Path, campaign: Campaign, path: str) -> str:
    tell = f"Next: skactive tell {shlex.quote(path)}"
    if has_suffix(output, ".html"):
        return f"Open it in a browser; it saves a file of labels.\n{tell} {shlex.quote(output.stem + '_labelled.csv')}"
    if has_suffix(output, ".json"):
        return (
            f"Import it into a Label Studio project with the labelling interface in {output.with_suffix('.xml')}; "
            f"later export as JSON.\n{tell} export.json"
        )
    return (
        f"Fill in the column {campaign.target!r}, in any order and as far as you get; put an x in `skip` for rows "
        f"that cannot be labelled.\n{tell} {shlex.quote(str(output))}"
    )


def returned(campaign: Campaign, options: argparse.Namespace) -> pd.DataFrame:
    """A file that somebody has filled in."""
    path = options.labels
    if has_suffix(path, ".html"):
        raise FileError(
            f"{path} is the page itself. Open it in a browser, label, save, and tell the file that it saves, "
            f"{Path(path).stem}_labelled.csv."
        )
    given: dict[str, Any] = {"dialect": asked_for(options), "like": dialect_of(campaign)}
    ours = id, _ = campaign.id or "id", campaign.target
    frame = table_of_files([path], ours, (*ours, "skip", "remark", *words(campaign)), **given)
    above = {LEADING_ZEROS.sub("", str(row[id])) for row in frame.attrs["above"] if row.get(id)}
    if lost := [one for one in campaign._ids if LEADING_ZEROS.sub("", str(one)) in above] if above else []:
        said = f"rows with ids ({shown(lost)}) are above its header. If it was sorted with them, move it to the top."
        raise FileError(f"{path}: {said}")
    return frame


def filled(campaign: Campaign, frame: pd.DataFrame) -> pd.DataFrame:
    """What somebody has filled in, with ids and labels in their types."""
    id, target = campaign.id or "id", campaign.target
    if frame.reindex(columns=[target, "skip"]).isna().all(axis=None):
        raise CampaignError(f"the column {target!r} holds no labels yet. Fill in some, and tell the file again.")
    frame[id] = pd.Series(put_back(campaign, typed(campaign, frame[id])), frame.index, dtype=object)
    given = frame.attrs["dialect"], dialect_of(campaign)
    frame[target], _ = labels_of(frame[target], campaign._settings["kind"], *given)
    return frame


def put_back(campaign: Campaign, ids: Sequence[Any]) -> list[Any]:
    """Ids that were asked for, where a spreadsheet took their zeros away or wrote 89 as "89.0"; it is said."""
    ledger, are_kept = campaign._store.ledger(), any(re.fullmatch("0[0-9]+", str(id)) for id in ids)
    fits: dict[str, list[Any]] = {}
    for id in campaign._ids.take(sorted({*ledger.asked}.union(*ledger.votes.values()))).tolist():
        fits.setdefault(LEADING_ZEROS.sub("", str(id)), []).append(id)
    found, known = list(ids), campaign._ids
    for entry, id in enumerate(ids):
        same = dict.fromkeys([*fits.get(bare_number(id) or "", []), *([id] if id in known else [])])
        if len(same) > 1 and not (are_kept and id in known):
            said = f"{id!r} may mean {shown([*same])}, if a spreadsheet cut zeros. Write the id in full, or use .xlsx."
            raise CampaignError(said, [entry])
        found[entry] = id if id in known or len(same) != 1 else next(iter(same))
    if changed := [f"{id!r} as {now!r}" for id, now in zip(ids, found, strict=True) if now is not id]:
        warn(f"ids that a spreadsheet changed are read as those asked for: {changed[0]}. {len(changed)} in all.")
    return found


def warn_of_others(campaign: Campaign, frame: pd.DataFrame) -> None:
    """Name what else somebody has written into a file of a batch."""
    id, columns = campaign.id or "id", campaign._settings["columns"]
    rows = frame.set_index(id)
    for name in rows.columns.difference([campaign.target, *columns, *RESERVED_IDS], sort=False):
        if len(cells := rows[name].dropna()):
            warn(f"column {name!r} is not in the table: {count(len(cells), 'cell')} ignored, {shown([*cells], 1)}.")
    if set(columns) <= set(frame):
        now, before = row_hashes(rows[columns], campaign._readings), campaign._store.rows().hashes
        if others := rows.index[now != before[campaign._rows_of(rows.index.tolist())]].tolist():
            warn(f"cells that differ from the table are ignored, in the rows {shown(others)}.")


def words(campaign: Campaign) -> list[str]:
    """Columns of texts, which are read to the letter in any file, as in the table."""
    return [name for name, one in campaign._readings.items() if one.kind in ("category", "text")]


def of_label_studio(campaign: Campaign, path: str, annotator: str | None) -> list[Answer]:
    from ._label_studio import answers

    try:
        exported = json.loads(Path(path).read_text(encoding="utf-8-sig"), object_pairs_hook=without_doubles)
    except (OSError, ValueError, RecursionError) as error:
        raise FileError(f"{path} cannot be read: {error}. Export as JSON from Label Studio.") from None
    found = answers(exported, id=campaign.id or "id", target=campaign.target)
    if not found:
        raise CampaignError("it holds no labels yet. Label some rows, and export again.")
    ids = typed(campaign, [answer.id for answer in found])
    return [
        one._replace(id=id, label=plain_label(one.label, f"the label of {id!r}"), annotator=annotator or one.annotator)
        for id, one in zip(ids, found, strict=True)
    ]


def write_batch(campaign: Campaign, batch: pd.DataFrame, output: Path, options: argparse.Namespace) -> None:
    """Write a batch: a table to fill in, a page, or tasks with their labelling interface."""
    guesses = None
    if not options.no_guess and batch["guess"].notna().any():
        guesses = list(zip(batch["guess"].tolist(), batch["guess_probability"].tolist(), strict=True))
    rows = batch.drop(columns=["guess", "guess_probability", "log_proba"])
    with ExitStack() as files:  # all of them or none
        for path, content in contents_of(campaign, rows, guesses, output).items():
            files.enter_context(atomic_write(path, force=options.force)).write_bytes(content)


def contents_of(campaign: Campaign, rows: pd.DataFrame, guesses: Any, output: Path) -> dict[Path, bytes]:
    make = _page if has_suffix(output, ".html") else _tasks if has_suffix(output, ".json") else _to_fill_in
    return make(campaign, rows, guesses, output)


def _page(campaign: Campaign, rows: pd.DataFrame, guesses: Any, output: Path) -> dict[Path, bytes]:
    from ..campaign._page import labelling_page

    closed, folder = campaign._settings["labels"] is not None, output.absolute().parent
    marks = dialect_of(campaign).sep or ",", dialect_of(campaign).mark or "."
    asked = {**campaign._questions(), "guesses": guesses, "title": output.stem, "marks": marks}
    return {output: labelling_page(rows, **asked, closed=closed, folder=folder).encode()}


def _tasks(campaign: Campaign, rows: pd.DataFrame, guesses: Any, output: Path) -> dict[Path, bytes]:
    from ._label_studio import label_config, tasks

    asked = campaign._questions()
    config = label_config(rows, **asked)
    del asked["labels"]
    made = json.dumps(tasks(rows, **asked, guesses=guesses), allow_nan=False, indent=1)
    return {output: made.encode(), output.with_suffix(".xml"): config.encode()}


def _to_fill_in(campaign: Campaign, rows: pd.DataFrame, guesses: Any, output: Path) -> dict[Path, bytes]:
    frame = rows.copy()
    frame.insert(0, campaign.target, None)
    frame.insert(1, "skip", None)
    if guesses is not None:
        frame["guess"], frame["guess_probability"] = zip(*guesses, strict=True)
    frame = with_numbers(campaign, frame.reset_index(names=campaign.id or "id"), output)
    return {output: packed(frame, str(output), dialect_of(campaign), choices_of(campaign), ".html", ".json")}


def with_numbers(campaign: Campaign, frame: pd.DataFrame, path: str | Path) -> pd.DataFrame:
    """For a workbook, which adds no texts: numbers and dates in columns that are texts for an odd cell alone."""
    plain = {name: one for name, one in campaign._readings.items() if f"{one}{one.form}" in ("number", "dateISO8601")}
    for name in frame.columns.intersection([*plain]) if has_suffix(path, ".xlsx") else ():
        cells, values = frame[name], read(frame[name], plain[name])
        if not (is_of_numbers(cells) or cells.dtype.kind == "M"):
            is_date = plain[name].kind == "date"
            is_whole = values.map(plain_text, na_action="ignore") == cells if is_date else values.abs() < EXACT
            frame = frame.assign(**{name: values.astype(object).where(is_whole, cells)})
    return frame


def choices_of(campaign: Campaign) -> Choices | None:
    """The labels that a workbook offers; None while it is not known that there are classes."""
    if campaign._settings["kind"] != "classes":
        return None
    return Choices(campaign.target, campaign._questions()["labels"], campaign._settings["labels"] is not None)


def limits_of(campaign: Campaign, options: argparse.Namespace) -> Limits | None:
    given = {
        "groups": options.group_by,
        "max_per_group": options.max_per_group,
        "costs": options.cost,
        "budget": options.budget,
        "must": None if options.must is None else campaign._rows_of(typed(campaign, options.must.split(","))),
    }
    return None if all(value is None for value in given.values()) else Limits(**given)


def counted(campaign: Campaign) -> Status:
    return campaign.status(accuracy=False, report=False)


def has_suffix(path: str | Path, suffix: str) -> bool:
    return Path(path).suffix.lower() == suffix
