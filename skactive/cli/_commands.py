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
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from .._utils.validation import warn
from ..campaign import Campaign, CampaignError, CampaignFileError
from ..campaign._labels import Answer, kind_of, plain_label, plain_labels
from ..campaign._status import for_a_campaign
from ..query import Limits, StochasticBatchQuery
from ._files import FileError, atomic_write, check_target
from ._tables import GAPS, packed, read_parquet_files, read_table, write_table

UNIFORM_PICKS = 0.1
"""One pick in ten is uniform, as by default in Python: accuracy can be estimated from these."""


# --- commands -------------------------------------------------------------------------------------


def start(options: argparse.Namespace) -> str:
    """Begin a campaign for a table in a file, or in several."""
    keep_inputs([options.campaign], {"the table": options.pool})
    path = Path(options.campaign)
    frame, task = labelled_table(options.pool, options.id, options.target, options.task)
    if path.exists() and options.force:
        Campaign.open(path)  # only a campaign is overwritten
    with atomic_write(path, force=options.force) as new, error_context(_in_words(options.pool)):
        new.unlink()
        _begin(new, frame, task, options)
    campaign = Campaign.open(path)
    status = campaign.status(accuracy=False, report=False)
    facts = {
        "campaign": str(path),
        "rows": status.n_rows,
        "labels": status.n_labels,
        "left": status.n_left,
        "kind": campaign.kind,
        "seed": campaign.random_state,
    }
    what = "numbers to predict" if campaign.kind == "numbers" else "classes"
    return _answer(
        options,
        facts,
        f"{path} begins a campaign for the {status.n_rows:,} rows of {_in_words(options.pool)}: {status.n_labels:,} "
        f"have a label in {options.target!r}{_counts(status.by_label)}, {status.n_left:,} are to be labelled. Labels "
        f"are {what}; the model is {options.model!r}, the seed {campaign.random_state}.\n"
        f"Next: skactive ask {shlex.quote(str(path))} -n 20 -o week1.csv",
    )


def _begin(path: Path, frame: pd.DataFrame, task: Any, options: argparse.Namespace) -> None:
    labels = None if options.labels is None else [label.strip() for label in options.labels.split(",")]
    query = StochasticBatchQuery(
        options.score, options.sampler, options.beta, epsilon=UNIFORM_PICKS, diversity=options.diversity
    )
    campaign = Campaign.start(
        path,
        frame,
        target=options.target,
        id=options.id,
        model=options.model,
        query=query,
        task=task,
        labels=labels,
        rule=options.rule,
        first=options.first,
        random_state=options.seed,
    )
    _note_pool(campaign, options.pool)


def ask(options: argparse.Namespace) -> str:
    """Choose rows and write them to a file."""
    campaign = opened(options, verbose=sys.stderr.isatty())
    output = None if options.output is None else Path(options.output)
    batch = _out_again(campaign) if options.again else _asked(campaign, output, options)
    if options.again and output is not None:
        _write_batch(campaign, batch, output, options)
    ids = batch.index.tolist()
    left = campaign.status(accuracy=False, report=False).n_left
    facts = {"ids": ids, "batch": batch.attrs.get("batch"), "output": options.output, "left": left}
    if output is None:
        listed = "\n".join(str(id) for id in ids)
        what = "This row is" if len(ids) == 1 else f"These {len(ids)} rows are"
        text = f"{listed}\n{what} out. Next: skactive tell {shlex.quote(options.campaign)} FILE"
    else:
        again = "once more the rows that are out" if options.again else f"{len(ids)} rows to label"
        text = f"{output} holds {again}; {left:,} are left. {_how_to_fill(output, campaign, options.campaign)}"
    return _answer(options, facts, text)


def _asked(campaign: Campaign, output: Path | None, options: argparse.Namespace) -> pd.DataFrame:
    """A batch; its rows are put back if they cannot be written."""
    warnings.filterwarnings("ignore", "This batch is nearly random")  # the remedy is an option of `start` only
    targets = [] if output is None else [output, *([output.with_suffix(".xml")] if _is(output, ".json") else [])]
    for target in targets:
        check_target(target, options.force)
    batch = campaign.ask(options.n, limits=_limits(campaign, options))
    if output is not None:
        try:
            _write_batch(campaign, batch, output, options)
        except BaseException:  # Ctrl-C as well
            campaign.withdraw(batch.index.tolist())
            raise
    return batch


def _out_again(campaign: Campaign) -> pd.DataFrame:
    out = campaign.status(accuracy=False, report=False).out.index
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
    with error_context(path):
        if _is(Path(path), ".json"):
            told = campaign._take(_of_label_studio(campaign, path, options.annotator), options.unasked)
        else:
            told = campaign.tell(_filled(campaign, path), annotator=options.annotator, unasked=options.unasked)
    status = campaign.status(accuracy=False, report=False)
    facts = {**vars(told), "labels": status.n_labels, "out": status.n_out, "left": status.n_left}
    name = shlex.quote(options.campaign)
    out = f" {status.n_out} rows are still out." if status.n_out else ""
    if status.n_disputed:
        out += f" {status.n_disputed} rows are disputed: no label counts while their annotators disagree."
    return _answer(
        options,
        facts,
        f"{path}: {told} The campaign has {status.n_labels:,} labels{_counts(status.by_label)}.{out}\n"
        f"Next: skactive ask {name} -n 20 -o next.csv, or skactive status {name}",
    )


def skip(options: argparse.Namespace) -> str:
    """Note that cannot be labelled rows."""
    return _on_ids(options, Campaign.skip, "skipped")


def withdraw(options: argparse.Namespace) -> str:
    """Put rows back."""
    if options.all == bool(options.ids):
        raise CampaignError("`withdraw` takes ids, or --all for all rows that are out.")
    return _on_ids(options, Campaign.withdraw, "put back")


def _on_ids(options: argparse.Namespace, do: Callable[[Campaign, Sequence[Any]], None], done: str) -> str:
    """Do something with the rows that are named, or with all that are out."""
    campaign = Campaign.open(options.campaign)
    ids = _typed(campaign, options.ids) or campaign.status().out.index.tolist()
    if not ids:
        raise CampaignError("No rows are out.")
    do(campaign, ids)
    status = campaign.status(accuracy=False, report=False)
    n = len(set(ids))
    return _answer(options, {"ids": ids, "left": status.n_left}, f"{n} row{'s' * (n != 1)} {done}. {status}")


def recheck(options: argparse.Namespace) -> str:
    """List labelled rows worth a second look."""
    campaign = opened(options)
    found = campaign.recheck(options.n)
    ids = found.index.tolist()
    if options.output is not None:
        file = found.rename(columns={"label": campaign.target}).rename_axis(campaign.id or "id")
        write_table(file.reset_index(), options.output, force=options.force)
        text = f"{options.output} holds the {len(ids)} labelled rows whose label surprises the model most."
        correct = (
            f"Correct what is wrong in its column {campaign.target!r}. Next: skactive tell "
            f"{shlex.quote(options.campaign)} {shlex.quote(options.output)}"
        )
    else:
        columns = ("label", "guess", "label_probability", "difference", "disputed")
        shown = found[[name for name in columns if name in found.columns]]
        text = f"{shown.to_string()}\nThe labels of these rows surprise models that did not see them most."
        correct = "Write them to a file to correct what is wrong: -o again.csv."
    return _answer(options, {"ids": ids}, f"{text}\n{correct}")


def status(options: argparse.Namespace) -> str:
    """Say where the campaign stands."""
    campaign = Campaign.open(options.campaign) if options.quick else opened(options, verbose=sys.stderr.isatty())
    found = campaign.status(tolerance=options.tolerance, patience=options.patience)
    report = found.report
    facts = {
        **{name: value for name, value in vars(found).items() if name.startswith("n_")},
        "by_label": {str(label): n for label, n in found.by_label.items()},
        "out": found.out.index.tolist(),
        "accuracy": None if found.accuracy is None else vars(found.accuracy),
        "verdict": None if report is None else report.verdict,
        "report": None if report is None else for_a_campaign(str(report)),
    }
    return _answer(options, facts, f"{found}\n{_next(options.campaign, found)}")


def _next(path: str, found: Any) -> str:
    path = shlex.quote(path)
    if found.n_left == 0 and found.n_out == 0:
        return f"No row is left. Next: skactive export {path} -o labels.csv"
    if found.report is not None and found.report.verdict == "stop":
        return f"Next: skactive export {path} -o labels.csv"
    if found.n_out:
        return f"Next: skactive tell {path} FILE, or skactive ask {path} -n 20 -o next.csv"
    return f"Next: skactive ask {path} -n 20 -o next.csv"


def report(options: argparse.Namespace) -> str:
    """Write a page about the campaign."""
    from ._report import report_page

    campaign = opened(options, verbose=sys.stderr.isatty())
    if not _is(Path(options.output), ".html"):
        raise FileError(f"--output must be a file .html. Got {options.output!r}.")
    with atomic_write(options.output, force=options.force) as temporary:
        temporary.write_text(report_page(campaign), encoding="utf-8")
    return _answer(options, {"output": options.output}, f"{options.output} shows where the campaign stands.")


def simulate(options: argparse.Namespace) -> str:
    """Try queries on a table whose labels are known."""
    from ._experiments import simulated

    keep_inputs(_output(options), {"the table": [options.labels]})
    facts, text = simulated(options, *labelled_table([options.labels], options.id, options.target, "auto"))
    return _answer(options, facts, text)


def export(options: argparse.Namespace) -> str:
    """Write the table with the labels so far."""
    campaign = opened(options)
    frame = campaign.history() if options.history else campaign.to_frame(guesses=options.guesses).reset_index()
    if options.history:
        frame["time"] = [moment.isoformat() for moment in frame["time"]]  # a workbook has no time zones
    write_table(frame, options.output, force=options.force)
    n, n_labels = len(frame), campaign.status(accuracy=False, report=False).n_labels
    what = f"{n:,} events" if options.history else f"{n:,} rows, {n_labels:,} of them with a label"
    if options.guesses:
        what += f", and what the model says of the {n - n_labels:,} others in the columns guess and guess_probability"
    return _answer(options, {"output": options.output, "rows": n}, f"{options.output} holds {what}.")


# --- tables of campaigns --------------------------------------------------------------------------


def opened(options: argparse.Namespace, verbose: bool = False) -> Campaign:
    """The campaign with its table."""
    bare = Campaign.open(options.campaign)
    known = bare._settings.get("pool") or []
    paths = options.pool or known
    keep_inputs(_output(options), {"the file of the campaign": [options.campaign], "the table": [*paths, *known]})
    if not paths:
        raise CampaignError(f"{options.campaign} was started in Python, and knows of no file: name it by --pool FILE.")
    if gone := [path for path in paths if not (os.path.exists(path) or glob.has_magic(path))]:
        raise FileError(f"{gone[0]} is not there any more: name the table by --pool FILE.")
    as_text = [name for name in (bare.id, bare.target if bare.kind == "classes" else None) if name is not None]
    frame = _with_columns(_pool(paths, as_text), _in_words(paths), bare.id, bare.target)
    if bare.id is not None:
        frame[bare.id] = _typed(bare, frame[bare.id])
    changes: Any = "take" if options.take_changes else "refuse"
    with error_context(_in_words(paths)):
        campaign = Campaign.open(options.campaign, frame, changes=changes, verbose=int(verbose))
    if options.pool:
        _note_pool(campaign, paths)
    return campaign


def _note_pool(campaign: Campaign, paths: Sequence[str]) -> None:
    """Let the file of the campaign know its table."""
    campaign._store.note({"pool": [os.path.abspath(path) for path in paths]})


def labelled_table(paths: list[str], id: str | None, target: str, task: str) -> tuple[pd.DataFrame, str]:
    """A table, and its task. Labels that are numbers to predict come as numbers, classes as texts, to the letter."""
    ids, where = [id] if id is not None else [], _in_words(paths)
    if task != "classification":
        frame = _with_columns(_pool(paths, ids), where, id, target)
        known = frame[target].dropna()
        are_numbers = pd.api.types.is_numeric_dtype(known) and not pd.api.types.is_bool_dtype(known)
        if task == "regression" or (are_numbers and kind_of(plain_labels(known, target, known.index)) == "numbers"):
            return frame, "regression"
    frame = _with_columns(_pool(paths, [*ids, target]), where, id, target)
    if words := sorted(set(GAPS).intersection(map(str, frame[target].dropna()))):
        warn(f"{words[0]!r} in {target!r} counts as a label. If it means that there is none, leave the cell empty.")
    return frame, "classification"


def _pool(paths: list[str], text: Iterable[str]) -> pd.DataFrame:
    """A table in a file, or in the Parquet files of a list, of folders, and of patterns."""
    files = [file for path in paths for file in _files_of(path)]
    if files == paths[:1]:
        return read_table(files[0], text=text)
    return read_parquet_files(sorted(files), text=text)


def _files_of(path: str) -> list[str]:
    """The files of a folder or of a pattern, or a file itself."""
    if os.path.isdir(path):
        found = glob.glob(os.path.join(glob.escape(path), "*.parquet"))
    elif os.path.exists(path) or not glob.has_magic(path):
        found = [path]
    else:
        found = glob.glob(path, recursive=True)
    if not found:
        raise FileError(f"{path}: there is no file of this pattern, or no file .parquet in this folder.")
    return found


def _with_columns(frame: pd.DataFrame, where: str, *names: str | None) -> pd.DataFrame:
    """The table, if it has the columns that it must have; what there is to note of it is said."""
    for note in frame.attrs["notes"]:
        warn(note)
    for name in names:
        if name is not None and name not in frame.columns:
            columns = ", ".join(map(str, frame.columns[:12])) + (", ..." if frame.shape[1] > 12 else "")
            raise FileError(f"{where} has no column {name!r}: add it. Its columns are {columns}.")
    return frame


def _typed(campaign: Campaign, ids: Iterable[Any]) -> list[Any]:
    """Ids of a file, which are texts, in the type of the campaign."""
    if len(campaign._ids) and isinstance(campaign._ids[0], int | np.integer):
        whole = re.compile("-?(0|[1-9][0-9]{0,17})")
        return [int(id) if isinstance(id, str) and whole.fullmatch(id) else id for id in ids]
    return list(ids)


def keep_inputs(outputs: Sequence[str], inputs: Mapping[str, Sequence[str]]) -> None:
    """Refuse an output that is an input of the command, by whatever name."""
    for output in filter(os.path.exists, outputs):
        for what, paths in inputs.items():
            files = [file for path in paths if os.path.exists(path) or glob.has_magic(path) for file in _files_of(path)]
            if any(os.path.samefile(output, file) for file in files if os.path.exists(file)):
                raise FileError(f"{output} is {what}: it is not overwritten, --force or not. Name another file.")


def _output(options: argparse.Namespace) -> list[str]:
    output = getattr(options, "output", None)
    return [] if output is None else [output]


# --- batches in files -----------------------------------------------------------------------------


def _filled(campaign: Campaign, path: str) -> pd.DataFrame:
    """A file of a batch that somebody has filled in."""
    if _is(Path(path), ".html"):
        raise FileError(
            f"{path} is the page itself. Open it in a browser, label, save, and tell the file that it saves, "
            f"{Path(path).stem}_labelled.csv."
        )
    id, target = campaign.id or "id", campaign.target
    as_text = [id, "skip", *([target] if campaign.kind == "classes" else [])]
    frame = _with_columns(read_table(path, text=as_text), path, id, target)
    if frame.reindex(columns=[target, "skip"]).isna().all(axis=None):
        raise CampaignError(f"there is no label in the column {target!r} yet. Fill in some, and tell it again.")
    frame[id] = pd.Series(_typed(campaign, frame[id]), dtype=object, index=frame.index)
    return frame


def _of_label_studio(campaign: Campaign, path: str, annotator: str | None) -> list[Answer]:
    from ._label_studio import answers

    try:
        exported = json.loads(Path(path).read_text(encoding="utf-8-sig"))
    except (OSError, ValueError) as error:
        raise FileError(f"{path} cannot be read: {error}. Export as JSON from Label Studio.") from None
    found = answers(exported, id=campaign.id or "id", target=campaign.target)
    if not found:
        raise CampaignError("there is no label in it yet. Label some, and export again.")
    ids = _typed(campaign, [answer.id for answer in found])
    return [
        Answer(id, plain_label(one.label, f"the label of {id!r}"), annotator or one.annotator, one.skipped)
        for id, one in zip(ids, found, strict=True)
    ]


def _write_batch(campaign: Campaign, batch: pd.DataFrame, output: Path, options: argparse.Namespace) -> None:
    """Write a batch: a table to fill in, a page, or tasks with their labelling interface."""
    guesses = None
    if not options.no_guess and batch["guess"].notna().any():
        guesses = list(zip(batch["guess"].tolist(), batch["guess_probability"].tolist(), strict=True))
    rows = batch.drop(columns=["guess", "guess_probability", "log_proba"])
    make = _page if _is(output, ".html") else _tasks if _is(output, ".json") else _to_fill_in
    with ExitStack() as files:  # all of them or none
        for path, content in make(campaign, rows, guesses, output).items():
            files.enter_context(atomic_write(path, force=options.force)).write_bytes(content)


def _page(campaign: Campaign, rows: pd.DataFrame, guesses: Any, output: Path) -> dict[Path, bytes]:
    from ._page import labelling_page

    page = labelling_page(
        rows,
        **_questions(campaign),
        closed=campaign._settings["labels"] is not None,
        guesses=guesses,
        title=output.stem,
        folder=output.absolute().parent,
    )
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
    return {output: packed(frame.reset_index(names=campaign.id or "id"), str(output))}


def _questions(campaign: Campaign) -> dict[str, Any]:
    """What is asked of each row: the names of id and target, the kind of labels, and those known."""
    names = {"id": campaign.id or "id", "target": campaign.target}
    if campaign.kind == "numbers":
        return {**names, "kind": "number", "labels": []}
    known = campaign.to_frame()[campaign.target].dropna().unique().tolist()
    return {**names, "kind": "classes", "labels": campaign._settings["labels"] or sorted(known, key=str)}


def _limits(campaign: Campaign, options: argparse.Namespace) -> Limits | None:
    given = (options.group_by, options.max_per_group, options.cost, options.budget, options.must)
    if all(value is None for value in given):
        return None
    must = None if options.must is None else campaign._rows_of(_typed(campaign, options.must.split(",")))
    return Limits(
        groups=options.group_by,
        max_per_group=options.max_per_group,
        costs=options.cost,
        budget=options.budget,
        must=must,
    )


# --- words --------------------------------------------------------------------------------------------


def _answer(options: argparse.Namespace, facts: Mapping[str, Any], text: str) -> str:
    return json.dumps(facts, default=_plain) if options.json else text


@contextmanager
def error_context(path: str) -> Iterator[None]:
    """Errors of a campaign name the file, and the row where one is at fault."""
    try:
        yield
    except CampaignFileError:
        raise
    except CampaignError as error:
        if "`path`" in str(error):
            raise
        places = ", ".join(str(entry + 1) for entry in error.entries[:5])
        more = f" and {len(error.entries) - 5} more" if len(error.entries) > 5 else ""
        where = f", row{'s' * (len(error.entries) > 1)} {places}{more}" if error.entries else ""
        raise CampaignError(f"{path}{where}: {error}", error.entries) from None


def _in_words(paths: Sequence[str]) -> str:
    return paths[0] if len(paths) == 1 else f"{len(paths)} files"


def _is(path: Path, suffix: str) -> bool:
    return path.suffix.lower() == suffix


def _plain(value: Any) -> Any:
    return value.item() if hasattr(value, "item") else list(value) if isinstance(value, tuple | set) else str(value)


def _counts(by_label: Mapping[Any, Any]) -> str:
    if not by_label:
        return ""
    shown = ", ".join(f"{label}: {value:g}" for label, value in list(by_label.items())[:6])
    return f" ({shown}{', ...' if len(by_label) > 6 else ''})"
