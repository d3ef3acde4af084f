"""What each command does: files in, a campaign in between, files and a paragraph out."""

from __future__ import annotations

import argparse
import glob
import json
import os
import re
import shlex
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from .._utils.validation import warn
from ..campaign import Campaign, CampaignError, CampaignFileError, Status
from ..campaign._base import TASKS
from ..campaign._columns import GAPS, Reading, is_of_numbers, read, spelling_of, told_of_odd
from ..campaign._labels import Answer, bare_number, kind_of, plain_label
from ..campaign._status import for_a_campaign
from ..campaign._store import shown
from ..campaign._table import RESERVED_IDS, files_of, row_hashes
from ..query import Limits, StochasticBatchQuery
from ._files import FileError, atomic_write, check_target
from ._tables import EXACT, OPEN, Choices, Dialect, packed, place, read_table, without_doubles, write_table

MOST_NAMES = 12  # of columns, in one sentence
LEADING_ZEROS = re.compile("^0+(?=[0-9]+$)")
OF_A_BATCH = ("n", "group_by", "max_per_group", "cost", "budget", "must")  # options that say what is asked for

# --- commands -------------------------------------------------------------------------------------


def start(options: argparse.Namespace) -> str:
    """Begin a campaign for a table in a file, or in several."""
    keep_inputs(options.campaign, {"the table": options.pool})
    path = Path(options.campaign)
    frame, kind = labelled_table(options.pool, options, TASKS[options.task] or None)
    if path.exists() and options.force:
        Campaign.open(path)  # only a campaign is overwritten
    with atomic_write(path, force=options.force) as new, error_context(_in_words(options.pool), frame):
        columns = _begin(new, frame, kind, options)
    campaign = Campaign.open(path)
    status, kind = _counted(campaign), campaign._settings["kind"]
    what = {"numbers": "numbers to predict", None: "classes or numbers, as the first ones will say"}.get(kind, kind)
    by_row = "".join(f"{name} by {vars(options)[name]!r}, " for name in ("groups", "weight") if vars(options)[name])
    text = (
        f"{path} begins a campaign for the {status.n_rows:,} rows of {_in_words(options.pool)}: {status.n_labels:,} "
        f"have a label in {options.target!r}{_by_label(status)}, {status.n_left:,} are to be labelled. "
        f"Labels are {what}; {by_row}the model is {options.model!r}, the seed {campaign.random_state}.\n"
        f"{_columns_in_words(columns)}\n"
        f"Next: skactive ask {shlex.quote(str(path))} -n 20 -o week1.csv"
    )
    listed = columns.reset_index().to_dict("records")
    return _answer(options, text, status, kind=kind, seed=campaign.random_state, columns=listed)


def _columns_in_words(columns: pd.DataFrame) -> str:
    """A line for each kind of columns, and one for each column with odd cells."""
    gaps = [f"{name:.80} ({n} gap{'s' * (n > 1)})" if n else f"{name:.80}" for name, n in columns["gaps"].items()]
    lines = []
    for kind, names in pd.Series(gaps, index=columns.index).groupby(columns["kind"], sort=False):
        more = f" and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else ""
        lines.append(f"Read as {kind}: {', '.join(names[:MOST_NAMES])}{more}.")
    return "\n".join([*lines, *told_of_odd(columns)])


def _begin(path: Path, frame: pd.DataFrame, kind: str | None, options: argparse.Namespace) -> pd.DataFrame:
    """Start a campaign, and say how columns are read."""
    warnings.filterwarnings("ignore", "Column '")  # the answer has these lines
    labels = None if options.labels is None else [label.strip() for label in options.labels.split(",")]
    # One pick in ten is uniform, as by default in Python: accuracy can be estimated from these.
    query = StochasticBatchQuery(options.score, options.sampler, options.beta, epsilon=0.1, diversity=options.diversity)
    same = {name: getattr(options, name) for name in ("target", "id", "model", "rule", "first", "groups", "weight")}
    task: Any = next(task for task, its_kind in TASKS.items() if its_kind == (kind or ""))
    campaign = Campaign.start(path, frame, query=query, task=task, labels=labels, random_state=options.seed, **same)
    campaign._store.note({"pool": _beside(path, options.pool), "dialect": asdict(frame.attrs["dialect"])})
    return campaign.columns()


def ask(options: argparse.Namespace) -> str:
    """Choose rows and write them to a file."""
    if options.again and any(vars(options)[name] is not None for name in OF_A_BATCH):
        raise CampaignError("`again` writes all rows that are out. Leave out `n`, `must` and other limits.")
    campaign = opened(options, verbose=_is_watched())
    output = None if options.output is None else Path(options.output)
    batch = _out_again(campaign) if options.again else _asked(campaign, output, options)
    if options.again and output is not None:
        _write_batch(campaign, batch, output, options)
    ids, status = batch.index.tolist(), _counted(campaign)
    if output is None:
        listed = "\n".join(str(id) for id in ids)
        what = "This row is" if len(ids) == 1 else f"These {len(ids)} rows are"
        text = f"{listed}\n{what} out. Next: skactive tell {shlex.quote(options.campaign)} FILE"
    else:
        again = "once more the rows that are out" if options.again else f"{len(ids)} rows to label"
        how = _how_to_fill(output, campaign, options.campaign)
        text = f"{output} holds {again}; {status.n_left:,} are left. {how}"
    return _answer(options, text, status, ids=ids, batch=batch.attrs.get("batch"))


def _asked(campaign: Campaign, output: Path | None, options: argparse.Namespace) -> pd.DataFrame:
    """A batch; its rows are put back if they cannot be written."""
    if output is not None:  # what is wrong with any batch is told before there is one
        for path in _contents(campaign, campaign._table().head(0), None, output):
            check_target(path, options.force)
    batch = campaign.ask(20 if options.n is None else options.n, limits=_limits(campaign, options))
    if output is not None:
        try:
            _write_batch(campaign, batch, output, options)
        except BaseException:  # Ctrl-C as well
            campaign.withdraw(batch.index.tolist())
            raise
    return batch


def _out_again(campaign: Campaign) -> pd.DataFrame:
    out = _counted(campaign).out.index
    if len(out) == 0:
        raise CampaignError("No rows are out. `skactive ask` without --again asks for some.")
    try:
        frame = campaign.to_frame(guesses=True)
    except CampaignError:  # there is no model yet
        frame = campaign.to_frame().assign(guess=None, guess_probability=np.nan)
    return frame.loc[out].drop(columns=campaign.target).assign(log_proba=np.nan)


def _how_to_fill(output: Path, campaign: Campaign, path: str) -> str:
    tell = f"Next: skactive tell {shlex.quote(path)}"
    if _is(output, ".html"):
        return f"Open it in a browser; it saves a file of labels.\n{tell} {shlex.quote(output.stem + '_labelled.csv')}"
    if _is(output, ".json"):
        return (
            f"Import it in Label Studio, in a project with the labelling interface of {output.with_suffix('.xml')}; "
            f"export as JSON.\n{tell} export.json"
        )
    return (
        f"Fill in the column {campaign.target!r}, in any order and as far as you get; a mark x in `skip` is for rows "
        f"that cannot be labelled.\n{tell} {shlex.quote(str(output))}"
    )


def tell(options: argparse.Namespace) -> str:
    """Take the labels of a file."""
    campaign = Campaign.open(options.campaign)
    path = options.labels
    frame = None if _is(path, ".json") else _returned(campaign, options)
    with error_context(path, frame):
        if frame is None:
            told = campaign._take(_of_label_studio(campaign, path, options.annotator), options.unasked)
        else:
            frame = _filled(campaign, frame)
            told = campaign.tell(frame, annotator=options.annotator, unasked=options.unasked)
            _warn_of_others(campaign, frame)
    status, name = _counted(campaign), shlex.quote(options.campaign)
    out = f" {_count(status.n_out, 'row')} still out." if status.n_out else ""
    if told.n_corrected and options.annotator is None and not _is(path, ".json"):  # which names annotators itself
        out += " Where several people label, tell the file of each by --annotator NAME: then none replaces another's."
    if status.n_disputed:
        out += f" {_count(status.n_disputed, 'row')} disputed: no label counts while their annotators disagree."
    text = (
        f"{path}: {told} The campaign has {_count(status.n_labels, 'label')}{_by_label(status)}.{out}\n"
        f"Next: skactive ask {name} -n 20 -o next.csv, or skactive status {name}"
    )
    return _answer(options, text, status, told=vars(told))


def skip(options: argparse.Namespace) -> str:
    """Note that rows cannot be labelled."""
    return _on_ids(options, Campaign.skip, "skipped")


def withdraw(options: argparse.Namespace) -> str:
    """Put rows back."""
    if options.all == bool(options.ids):
        raise CampaignError("`withdraw` takes ids, or --all for all rows that are out.")
    return _on_ids(options, Campaign.withdraw, "put back")


def _on_ids(options: argparse.Namespace, do: Callable[[Campaign, Sequence[Any]], None], done: str) -> str:
    """Do something with the rows that are named, or with all that are out."""
    campaign = Campaign.open(options.campaign)
    ids = _put_back(campaign, _typed(campaign, options.ids)) or _counted(campaign).out.index.tolist()
    if not ids:
        raise CampaignError("No rows are out.")
    do(campaign, ids)
    status, n = _counted(campaign), len(set(ids))
    return _answer(options, f"{_count(n, 'row')} {done}. {status}", status, ids=ids)


def recheck(options: argparse.Namespace) -> str:
    """List labelled rows worth a second look."""
    campaign = opened(options)
    found = campaign.recheck(options.n)
    if options.output is not None:
        file = found.rename(columns={"label": campaign.target}).rename_axis(campaign.id or "id")
        given = _dialect(campaign), _choices(campaign)
        write_table(file.reset_index(), options.output, *given, force=options.force)
        text = (
            f"{options.output} holds the {len(found)} labelled rows whose label surprises the model most.\n"
            f"Correct what is wrong in its column {campaign.target!r}. Next: skactive tell "
            f"{shlex.quote(options.campaign)} {shlex.quote(options.output)}"
        )
    else:
        columns = found.columns.intersection(["label", "guess", "label_probability", "difference", "disputed"])
        text = (
            f"{found[columns].to_string()}\nThe labels of these rows surprise models that did not see them most.\n"
            "Write them to a file to correct what is wrong: -o again.csv."
        )
    return _answer(options, text, ids=found.index.tolist())


def change(options: argparse.Namespace) -> str:
    """Change what labels are, which are allowed, or the model."""
    if options.open and options.close:
        raise CampaignError("`open` and `close` are two ways: take one.")
    campaign = Campaign.open(options.campaign)
    closed = options.close if options.open or options.close else None
    campaign.set(
        task=options.task or "auto",
        closed=closed,
        add=options.add_label or (),
        rename=dict(options.rename or ()),
        model=options.model,
    )
    status, labels = _counted(campaign), campaign._settings["labels"]
    allowed = f", {', '.join(map(str, labels))} and no others" if labels else ""
    return _answer(
        options, f"Labels are {campaign.kind}{allowed}.\n{status}", status, kind=campaign.kind, labels=labels
    )


def status(options: argparse.Namespace) -> str:
    """Say where the campaign stands."""
    campaign = Campaign.open(options.campaign) if options.quick else opened(options, verbose=_is_watched())
    found = campaign.status(**_of_report(options))
    report = found.report
    return _answer(
        options,
        f"{found}\n{_next(options.campaign, found)}",
        found,
        by_label={str(label): n for label, n in found.by_label.items()},
        out=found.out.index.tolist(),
        model=found.model or None,
        accuracy=None if found.accuracy is None else _finite(found.accuracy.to_dict()),
        verdict=None if report is None else report.verdict,
        report=None if report is None else for_a_campaign(str(report)),
    )


def _of_report(options: argparse.Namespace) -> dict[str, Any]:
    return {"scoring": options.scoring, "tolerance": options.tolerance, "patience": options.patience}


def _next(path: str, found: Status) -> str:
    path, is_done = shlex.quote(path), found.n_left == found.n_out == 0
    if is_done or (found.report is not None and found.report.verdict == "stop"):
        return f"{'No row is left. ' * is_done}Next: skactive export {path} -o labels.csv"
    if found.report is not None and found.report.labels_alone_fail:
        return f"Next: skactive recheck {path}, or skactive start with other columns or another --model"
    tell, ask = f"skactive tell {path} FILE", f"skactive ask {path} -n 20 -o next.csv"
    return f"Next: {', or '.join([tell] * (found.n_out > 0) + [ask] * (found.n_left > 0))}"


def report(options: argparse.Namespace) -> str:
    """Write a page about the campaign."""
    from ._report import report_page

    campaign = opened(options, verbose=_is_watched())
    if not _is(options.output, ".html"):
        raise FileError(f"--output must be a file .html. Got {options.output!r}.")
    with atomic_write(options.output, force=options.force) as temporary:
        page = report_page(campaign, with_rows=not options.no_rows, **_of_report(options))
        temporary.write_text(page, encoding="utf-8")
    rows = "no row of the table" if options.no_rows else "rows of the table, which --no-rows leaves out"
    return _answer(options, f"{options.output} shows where the campaign stands. It holds {rows}.")


def simulate(options: argparse.Namespace) -> str:
    """Try queries on a table whose labels are known."""
    from ._experiments import simulated

    keep_inputs(options.output, {"the table": [options.labels]})
    text, facts = simulated(options, *labelled_table([options.labels], options, None))
    return _answer(options, text, **facts)


def export(options: argparse.Namespace) -> str:
    """Write the table with the labels so far."""
    if options.guesses + options.history + options.labelled > 1:
        raise CampaignError("`labelled`, `guesses` and `history` write other tables: one file for each.")
    campaign = opened(options)
    frame = campaign.history() if options.history else campaign.to_frame(guesses=options.guesses).reset_index()
    frame = frame[frame[campaign.target].notna()] if options.labelled else frame
    if options.history:
        frame["time"] = [moment.isoformat() for moment in frame["time"]]  # a workbook has no time zones
    write_table(_with_numbers(campaign, frame, options.output), options.output, _dialect(campaign), force=options.force)
    status, n = _counted(campaign), len(frame)
    what = f"{n:,} events" if options.history else f"{n:,} rows, {status.n_labels:,} of them with a label"
    what = f"the {n:,} rows with a label" if options.labelled else what
    if options.guesses:
        n_others = n - status.n_labels
        what += f", and what the model says of the {n_others:,} others in the columns guess and guess_probability"
    return _answer(options, f"{options.output} holds {what}.", status)


def predict(options: argparse.Namespace) -> str:
    """Write what the model guesses for rows of another file."""
    keep_inputs(options.output, {"the table of these rows": [options.rows]})
    campaign = opened(options, verbose=_is_watched())
    frame = _table([options.rows], None, None, campaign.id or "id", *_words(campaign), like=_dialect(campaign))
    with error_context(options.rows):
        guesses = campaign.predict(frame)
    if options.output is None:
        return _answer(options, guesses.to_string(), **_finite(guesses.reset_index().to_dict("list")))
    frame = frame.assign(**guesses.set_axis(frame.index, axis=0))
    write_table(frame, options.output, _dialect(campaign), force=options.force)
    return _answer(options, f"{options.output} holds {len(frame):,} rows, with columns guess and guess_probability.")


def backup(options: argparse.Namespace) -> str:
    """Copy the file of a campaign."""
    keep_inputs(options.copy, {"the file of the campaign": [options.campaign]})
    with atomic_write(options.copy, force=options.force) as new:
        Campaign.open(options.campaign).backup(new)
    status = _counted(Campaign.open(options.copy))
    return _answer(options, f"{options.copy} is a whole copy of {options.campaign}. {status}", status)


# --- tables of campaigns --------------------------------------------------------------------------


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
    frame = _table(paths, bare.id, bare.target, like=_dialect(bare))
    changes: Any = "take" if options.take_changes else "refuse"
    n_before = len(bare._ids)
    with error_context(_in_words(paths), frame):
        given = frame.attrs["dialect"], _dialect(bare)
        frame[bare.target], _ = labels_of(frame[bare.target], bare._settings["kind"], *given)
        if bare.id is not None:
            frame[bare.id] = _typed(bare, frame[bare.id])
        campaign = bare._go_on(frame if bare.id else frame.reset_index(drop=True), None, None, changes)
    if n_new := len(campaign._ids) - n_before:
        n_labels = sum(row >= n_before for row in campaign._store.ledger().came)
        warn(f"{_count(n_new, 'row')} came with the table, {n_labels} of them with a label.")
    if options.pool:
        campaign._store.note({"pool": _beside(campaign.path, paths)})
    return campaign


def _beside(campaign: Path, paths: Sequence[str]) -> list[str]:
    """Paths of a table as the file of a campaign holds them: those below its folder relative to that."""
    folder, whole = campaign.absolute().parent, [Path(os.path.abspath(path)) for path in paths]
    return [str(path.relative_to(folder) if path.is_relative_to(folder) else path) for path in whole]


def _dialect(campaign: Campaign) -> Dialect:
    """How the table of a campaign was written at the start."""
    return Dialect(**campaign._settings.get("dialect", {}))


def _asked_for(options: Any) -> Dialect:
    """What options say of how files are written."""
    sep = {"tab": "\t", "\\t": "\t"}.get(options.sep, options.sep)
    if sep is not None and (len(sep) != 1 or sep in '"\r\n'):
        raise FileError(f"--sep must be one character, or tab. Got {sep!r}.")
    return Dialect(sep, options.decimal, sheet=options.sheet)


def labelled_table(paths: list[str], options: Any, kind: str | None) -> tuple[pd.DataFrame, str | None]:
    """A table, and what its labels are, if they say so; classes come as texts, to the letter."""
    target = options.target
    frame = _table(paths, options.id, target, dialect=_asked_for(options))
    with error_context(_in_words(paths), frame):
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


def _table(paths: Sequence[str], id: str | None, target: str | None, *text: str, **given: Dialect) -> pd.DataFrame:
    """The table in all these files, if it has ids and labels, as texts; what there is to note of it is said."""
    names = [name for name in (id, target) if name is not None]
    files = sorted(file for path in paths for file in _files_of(path))
    frame = read_table(*files, text=[*names, *text], names=names, **given)
    for note in frame.attrs["notes"]:
        warn(note)
    for name in names:
        if name not in frame.columns:
            raise FileError(f"{_in_words(paths)} has no column {name!r}: add it. Its columns: {shown([*frame], 12)}.")
    return frame


def _files_of(path: str) -> list[str]:
    """The Parquet files of a folder, the files of a pattern, or a file itself."""
    if not os.path.isdir(path) and (os.path.exists(path) or not glob.has_magic(path)):
        return [path]
    if not (found := files_of(path)):
        raise FileError(f"{path}: there is no file of this pattern, or no file .parquet in this folder.")
    return found


def _typed(campaign: Campaign, ids: Sequence[Any]) -> list[Any]:
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


# --- batches in files -----------------------------------------------------------------------------


def _returned(campaign: Campaign, options: argparse.Namespace) -> pd.DataFrame:
    """A file that somebody has filled in."""
    path = options.labels
    if _is(path, ".html"):
        raise FileError(
            f"{path} is the page itself. Open it in a browser, label, save, and tell the file that it saves, "
            f"{Path(path).stem}_labelled.csv."
        )
    given, id = {"dialect": _asked_for(options), "like": _dialect(campaign)}, campaign.id or "id"
    frame = _table([path], id, campaign.target, "skip", *_words(campaign), **given)
    above = {LEADING_ZEROS.sub("", str(row[id])) for row in frame.attrs["above"] if row.get(id)}
    if lost := [one for one in campaign._ids if LEADING_ZEROS.sub("", str(one)) in above] if above else []:
        said = f"rows with ids, {shown(lost)}, are above its header. If it was sorted with the rows, move it up."
        raise FileError(f"{path}: {said}")
    return frame


def _filled(campaign: Campaign, frame: pd.DataFrame) -> pd.DataFrame:
    """What somebody has filled in, with ids and labels in their types."""
    id, target = campaign.id or "id", campaign.target
    if frame.reindex(columns=[target, "skip"]).isna().all(axis=None):
        raise CampaignError(f"there is no label in the column {target!r} yet. Fill in some, and tell it again.")
    frame[id] = pd.Series(_put_back(campaign, _typed(campaign, frame[id])), frame.index, dtype=object)
    given = frame.attrs["dialect"], _dialect(campaign)
    frame[target], _ = labels_of(frame[target], campaign._settings["kind"], *given)
    return frame


def _put_back(campaign: Campaign, ids: Sequence[Any]) -> list[Any]:
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


def _warn_of_others(campaign: Campaign, frame: pd.DataFrame) -> None:
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


def _words(campaign: Campaign) -> list[str]:
    """Columns of texts, which are read to the letter in any file, as in the table."""
    return [name for name, one in campaign._readings.items() if one.kind in ("category", "text")]


def _of_label_studio(campaign: Campaign, path: str, annotator: str | None) -> list[Answer]:
    from ._label_studio import answers

    try:
        exported = json.loads(Path(path).read_text(encoding="utf-8-sig"), object_pairs_hook=without_doubles)
    except (OSError, ValueError, RecursionError) as error:
        raise FileError(f"{path} cannot be read: {error}. Export as JSON from Label Studio.") from None
    found = answers(exported, id=campaign.id or "id", target=campaign.target)
    if not found:
        raise CampaignError("there is no label in it yet. Label some, and export again.")
    ids = _typed(campaign, [answer.id for answer in found])
    return [
        one._replace(id=id, label=plain_label(one.label, f"the label of {id!r}"), annotator=annotator or one.annotator)
        for id, one in zip(ids, found, strict=True)
    ]


def _write_batch(campaign: Campaign, batch: pd.DataFrame, output: Path, options: argparse.Namespace) -> None:
    """Write a batch: a table to fill in, a page, or tasks with their labelling interface."""
    guesses = None
    if not options.no_guess and batch["guess"].notna().any():
        guesses = list(zip(batch["guess"].tolist(), batch["guess_probability"].tolist(), strict=True))
    rows = batch.drop(columns=["guess", "guess_probability", "log_proba"])
    with ExitStack() as files:  # all of them or none
        for path, content in _contents(campaign, rows, guesses, output).items():
            files.enter_context(atomic_write(path, force=options.force)).write_bytes(content)


def _contents(campaign: Campaign, rows: pd.DataFrame, guesses: Any, output: Path) -> dict[Path, bytes]:
    make = _page if _is(output, ".html") else _tasks if _is(output, ".json") else _to_fill_in
    return make(campaign, rows, guesses, output)


def _page(campaign: Campaign, rows: pd.DataFrame, guesses: Any, output: Path) -> dict[Path, bytes]:
    from ..campaign._page import labelling_page

    closed, folder = campaign._settings["labels"] is not None, output.absolute().parent
    asked = _questions(campaign)
    page = labelling_page(rows, **asked, closed=closed, guesses=guesses, title=output.stem, folder=folder)
    return {output: page.encode()}


def _tasks(campaign: Campaign, rows: pd.DataFrame, guesses: Any, output: Path) -> dict[Path, bytes]:
    from ._label_studio import label_config, tasks

    asked = _questions(campaign)
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
    frame = _with_numbers(campaign, frame.reset_index(names=campaign.id or "id"), output)
    return {output: packed(frame, str(output), _dialect(campaign), _choices(campaign))}


def _with_numbers(campaign: Campaign, frame: pd.DataFrame, path: str | Path) -> pd.DataFrame:
    """For a workbook, which does not add texts: numbers in columns that are texts for an odd cell alone."""
    plain = {name: one for name, one in campaign._readings.items() if str(one) == "number" and not one.form}
    for name in frame.columns.intersection([*plain]) if _is(path, ".xlsx") else ():
        numbers = read(frame[name], plain[name])
        if not is_of_numbers(frame[name]):
            frame = frame.assign(**{name: numbers.astype(object).where(numbers.abs() < EXACT, frame[name])})
    return frame


def _choices(campaign: Campaign) -> Choices | None:
    """The labels that a workbook offers; None while it is not known that there are classes."""
    if campaign._settings["kind"] != "classes":
        return None
    return Choices(campaign.target, _questions(campaign)["labels"], campaign._settings["labels"] is not None)


def _questions(campaign: Campaign) -> dict[str, Any]:
    """What is asked of each row: the names of id and target, the kind of labels, and those known."""
    names = {"id": campaign.id or "id", "target": campaign.target}
    if campaign.kind == "numbers":
        return {**names, "kind": "number", "labels": []}
    known = campaign.to_frame()[campaign.target].dropna().unique().tolist()
    return {**names, "kind": "classes", "labels": campaign._settings["labels"] or sorted(known, key=str)}


def _limits(campaign: Campaign, options: argparse.Namespace) -> Limits | None:
    given = {
        "groups": options.group_by,
        "max_per_group": options.max_per_group,
        "costs": options.cost,
        "budget": options.budget,
        "must": None if options.must is None else campaign._rows_of(_typed(campaign, options.must.split(","))),
    }
    return None if all(value is None for value in given.values()) else Limits(**given)


# --- words --------------------------------------------------------------------------------------------


def _answer(options: argparse.Namespace, text: str, status: Status | None = None, **facts: Any) -> str:
    """The text, or as JSON the counts of a status and further facts."""
    counts = {name: n for name, n in vars(status).items() if name.startswith("n_")} if status else {}
    return json.dumps({**counts, **facts}, default=_plain) if options.json else text


def _is_watched() -> bool:
    """Whether somebody sees progress bars; a closed stream is None."""
    return sys.stderr is not None and sys.stderr.isatty()


def _counted(campaign: Campaign) -> Status:
    return campaign.status(accuracy=False, report=False)


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


def _in_words(paths: Sequence[str]) -> str:
    return paths[0] if len(paths) == 1 else f"{len(paths)} files"


def _count(n: int, what: str) -> str:
    return f"{n:,} {what}{'s' * (n != 1)}"


def _is(path: str | Path, suffix: str) -> bool:
    return Path(path).suffix.lower() == suffix


def _finite(value: Any) -> Any:
    """With None for numbers that JSON does not know."""
    if isinstance(value, dict):
        return {str(key): _finite(one) for key, one in value.items()}
    if isinstance(value, list):
        return [_finite(one) for one in value]
    return None if isinstance(value, float) and not np.isfinite(value) else value


def _plain(value: Any) -> Any:
    return value.item() if hasattr(value, "item") else list(value) if isinstance(value, tuple | set) else str(value)


def _by_label(status: Status) -> str:
    counts = [f"{label!s:.80}: {value:g}" for label, value in status.by_label.items()]
    return f" ({', '.join(counts[:6])}{', ...' if len(counts) > 6 else ''})" if counts else ""
