"""Batches in files: what is written to be filled in, and what comes back."""

from __future__ import annotations

import argparse
import json
import re
import shlex
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from .._utils.validation import warn
from ..campaign import Campaign, CampaignError, Status
from ..campaign._columns import is_of_numbers, read
from ..campaign._labels import Answer, bare_number, plain_label
from ..campaign._store import shown
from ..campaign._table import RESERVED_IDS, row_hashes
from ..query import Limits
from ._cells import EXACT, Choices, plain_text
from ._files import FileError, atomic_write
from ._pools import asked_for, dialect_of, labels_of, table_of_files, typed
from ._tables import packed, without_doubles

LEADING_ZEROS = re.compile("^0+(?=[0-9]+$)")


def out_again(campaign: Campaign) -> pd.DataFrame:
    out = counted(campaign).out.index
    if len(out) == 0:
        raise CampaignError("No rows are out. `skactive ask` without --again asks for some.")
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
            f"Import it in Label Studio, in a project with the labelling interface of {output.with_suffix('.xml')}; "
            f"export as JSON.\n{tell} export.json"
        )
    return (
        f"Fill in the column {campaign.target!r}, in any order and as far as you get; a mark x in `skip` is for rows "
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
    given, id = {"dialect": asked_for(options), "like": dialect_of(campaign)}, campaign.id or "id"
    frame = table_of_files([path], (id, campaign.target), (id, campaign.target, "skip", *words(campaign)), **given)
    above = {LEADING_ZEROS.sub("", str(row[id])) for row in frame.attrs["above"] if row.get(id)}
    if lost := [one for one in campaign._ids if LEADING_ZEROS.sub("", str(one)) in above] if above else []:
        said = f"rows with ids, {shown(lost)}, are above its header. If it was sorted with the rows, move it up."
        raise FileError(f"{path}: {said}")
    return frame


def filled(campaign: Campaign, frame: pd.DataFrame) -> pd.DataFrame:
    """What somebody has filled in, with ids and labels in their types."""
    id, target = campaign.id or "id", campaign.target
    if frame.reindex(columns=[target, "skip"]).isna().all(axis=None):
        raise CampaignError(f"there is no label in the column {target!r} yet. Fill in some, and tell it again.")
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
            said = f"{id!r} may be {shown([*same])}, if a spreadsheet took zeros away. Write the id out, or use .xlsx."
            raise CampaignError(said, [entry])
        found[entry] = id if id in known or len(same) != 1 else next(iter(same))
    if changed := [f"{id!r} as {now!r}" for id, now in zip(ids, found, strict=True) if now is not id]:
        warn(f"ids are read as those asked for, {changed[0]}: spreadsheets change such ids. {len(changed)} in all.")
    return found


def warn_of_others(campaign: Campaign, frame: pd.DataFrame) -> None:
    """Name what else somebody has written into a file of a batch."""
    id, columns = campaign.id or "id", campaign._settings["columns"]
    rows = frame.set_index(id)
    for name in rows.columns.difference([campaign.target, *columns, *RESERVED_IDS], sort=False):
        if len(cells := rows[name].dropna()):
            warn(f"column {name!r} is none of the table: {len(cells)} cells are not kept, {shown(cells.tolist(), 1)}.")
    if set(columns) <= set(frame):
        now, before = row_hashes(rows[columns], campaign._readings), campaign._store.rows().hashes
        if others := rows.index[now != before[campaign._rows_of(rows.index.tolist())]].tolist():
            warn(f"cells are others than in the table, and are not taken, in rows of {shown(others)}.")


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
        raise CampaignError("there is no label in it yet. Label some, and export again.")
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
    from ._page import labelling_page

    closed, folder = campaign._settings["labels"] is not None, output.absolute().parent
    asked = questions(campaign)
    page = labelling_page(rows, **asked, closed=closed, guesses=guesses, title=output.stem, folder=folder)
    return {output: page.encode()}


def _tasks(campaign: Campaign, rows: pd.DataFrame, guesses: Any, output: Path) -> dict[Path, bytes]:
    from ._label_studio import label_config, tasks

    asked = questions(campaign)
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
    return Choices(campaign.target, questions(campaign)["labels"], campaign._settings["labels"] is not None)


def questions(campaign: Campaign) -> dict[str, Any]:
    """What is asked of each row: the names of id and target, the kind of labels, and those known."""
    names = {"id": campaign.id or "id", "target": campaign.target}
    if campaign.kind == "numbers":
        return {**names, "kind": "number", "labels": []}
    known = campaign.to_frame()[campaign.target].dropna().unique().tolist()
    return {**names, "kind": "classes", "labels": campaign._settings["labels"] or sorted(known, key=str)}


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
