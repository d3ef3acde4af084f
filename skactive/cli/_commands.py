"""What each command does: files in, a campaign in between, files and a paragraph out."""

from __future__ import annotations

import argparse
import json
import shlex
import sys
import warnings
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from ..campaign import Campaign, CampaignError, Status
from ..campaign._base import TASKS
from ..campaign._columns import told_of_odd
from ..campaign._status import for_a_campaign
from ..query import StochasticBatchQuery
from . import _exchange as exchange
from . import _without_python
from ._exchange import count, counted, error_context, has_suffix, in_words, opened, typed
from ._files import FileError, atomic_write, check_target
from ._tables import check_output, write_table

MOST_NAMES = 12  # of columns, in one sentence
OF_A_BATCH = ("n", "group_by", "max_per_group", "cost", "budget", "must")  # options that say what is asked for

# --- commands -------------------------------------------------------------------------------------


def start(options: argparse.Namespace) -> str:
    """Begin a campaign for a table in a file, or in several."""
    exchange.keep_inputs(options.campaign, {"the table": options.pool})
    path = Path(options.campaign)
    frame, kind = exchange.labelled_table(options.pool, options, TASKS[options.task] or None)
    if path.exists() and options.force:
        Campaign.open(path)  # only a campaign is overwritten
    with atomic_write(path, force=options.force) as new, error_context(in_words(options.pool), frame):
        columns = _begin(new, frame, kind, options)
    campaign = Campaign.open(path)
    status, kind = counted(campaign), campaign._settings["kind"]
    what = {"numbers": "numbers to predict", None: "classes or numbers, decided by the first ones"}.get(kind, kind)
    labels = f" ({status._on_labels(6)})" if status.by_label else ""
    by_row = "".join(f"{name} by {vars(options)[name]!r}, " for name in ("groups", "weight") if vars(options)[name])
    text = (
        f"{path} is a new campaign for the {status.n_rows:,} rows of {in_words(options.pool)}: {status.n_labels:,} "
        f"have a label in {options.target!r}{labels}, {status.n_left:,} are to be labelled. "
        f"Labels are {what}; {by_row}the model is {options.model!r}, the seed {campaign.random_state}.\n"
        f"{_columns_in_words(columns)}\n"
        f"Next: skactive label {shlex.quote(str(path))}, or skactive ask {shlex.quote(str(path))} -n 20 -o week1.csv"
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
    campaign._store.note({"pool": exchange.beside(path, options.pool), "dialect": asdict(frame.attrs["dialect"])})
    return campaign.columns()


def ask(options: argparse.Namespace) -> str:
    """Choose rows and write them to a file."""
    if options.again and any(vars(options)[name] is not None for name in OF_A_BATCH):
        raise CampaignError("`again` writes all rows that wait for labels. Leave out `n`, `must` and other limits.")
    campaign = opened(options, verbose=_is_watched())
    output = None if options.output is None else Path(options.output)
    batch = exchange.out_again(campaign) if options.again else _asked(campaign, output, options)
    if options.again and output is not None:
        exchange.write_batch(campaign, batch, output, options)
    ids, status = batch.index.tolist(), counted(campaign)
    if output is None:
        listed = "\n".join(str(id) for id in ids)
        what = "This row waits" if len(ids) == 1 else f"These {len(ids)} rows wait"
        text = f"{listed}\n{what} for labels. Next: skactive tell {shlex.quote(options.campaign)} FILE"
    else:
        again = "the rows that wait for labels" if options.again else f"{len(ids)} rows to label"
        how = exchange.how_to_fill(output, campaign, options.campaign)
        text = f"{output} holds {again}; {status.n_left:,} are left. {how}"
    return _answer(options, text, status, ids=ids, batch=batch.attrs.get("batch"))


def _asked(campaign: Campaign, output: Path | None, options: argparse.Namespace) -> pd.DataFrame:
    """A batch; its rows are put back if they cannot be written."""
    if output is not None:  # what is wrong with any batch is told before there is one
        for path in exchange.contents_of(campaign, campaign._table().head(0), None, output):
            check_target(path, options.force)
    batch = campaign.ask(20 if options.n is None else options.n, limits=exchange.limits_of(campaign, options))
    if output is not None:
        try:
            exchange.write_batch(campaign, batch, output, options)
        except BaseException:  # Ctrl-C as well
            campaign.withdraw(batch.index.tolist())
            raise
    return batch


def tell(options: argparse.Namespace) -> str:
    """Take the labels of a file."""
    campaign = Campaign.open(options.campaign)
    path = options.labels
    frame = None if has_suffix(path, ".json") else exchange.returned(campaign, options)
    with error_context(path, frame):
        if frame is None:
            told = campaign._take(exchange.of_label_studio(campaign, path, options.annotator), options.unasked)
        else:
            frame = exchange.filled(campaign, frame)
            told = campaign.tell(frame, annotator=options.annotator, unasked=options.unasked)
            exchange.warn_of_others(campaign, frame)
    status, name = counted(campaign), shlex.quote(options.campaign)
    out = f" {count(status.n_out, 'row')} still waiting." if status.n_out else ""
    is_named = options.annotator is not None or has_suffix(path, ".json")  # which names annotators itself
    if told.n_corrected and not is_named:
        out += " If several people label, pass --annotator NAME with each file, so that none replaces another's labels."
    if status.n_disputed:
        out += f" {count(status.n_disputed, 'row')} disputed: no label counts while their annotators disagree."
    labels = f" ({status._on_labels(6)})" if status.by_label else ""
    text = (
        f"{path}: {told} The campaign has {count(status.n_labels, 'label')}{labels}.{out}\n"
        f"Next: skactive ask {name} -n 20 -o next.csv, or skactive status {name}"
    )
    return _answer(options, text, status, told=vars(told))


def skip(options: argparse.Namespace) -> str:
    """Note that rows cannot be labelled."""
    return _on_ids(options, Campaign.skip, "skipped")


def withdraw(options: argparse.Namespace) -> str:
    """Put rows back."""
    if options.all == bool(options.ids):
        raise CampaignError("`withdraw` takes ids, or --all for all rows that wait for labels.")
    return _on_ids(options, Campaign.withdraw, "put back")


def _on_ids(options: argparse.Namespace, do: Callable[[Campaign, Sequence[Any]], None], done: str) -> str:
    """Do something with the rows that are named, or with all that are out."""
    campaign = Campaign.open(options.campaign)
    ids = exchange.put_back(campaign, typed(campaign, options.ids)) or counted(campaign).out.index.tolist()
    if not ids:
        raise CampaignError("No rows wait for labels.")
    do(campaign, ids)
    status, n = counted(campaign), len(set(ids))
    return _answer(options, f"{count(n, 'row')} {done}. {status}", status, ids=ids)


def recheck(options: argparse.Namespace) -> str:
    """List labelled rows worth a second look."""
    campaign = opened(options)
    check_output(options.output, options.force)
    found = campaign.recheck(options.n)
    if options.output is not None:
        file = found.rename(columns={"label": campaign.target}).rename_axis(campaign.id or "id")
        given = exchange.dialect_of(campaign), exchange.choices_of(campaign)
        write_table(file.reset_index(), options.output, *given, force=options.force)
        text = (
            f"{options.output} holds the {len(found)} labelled rows whose labels surprise the model most.\n"
            f"Correct what is wrong in its column {campaign.target!r}. Next: skactive tell "
            f"{shlex.quote(options.campaign)} {shlex.quote(options.output)}"
        )
    else:
        columns = found.columns.intersection(["label", "guess", "label_probability", "difference", "disputed"])
        text = (
            f"{found[columns].to_string()}\nThese labels surprise the models trained without them most.\n"
            "To correct wrong ones, write them to a file: -o again.csv."
        )
    return _answer(options, text, ids=found.index.tolist())


def change(options: argparse.Namespace) -> str:
    """Change what labels are, which are allowed, or the model."""
    if options.open and options.close:
        raise CampaignError("`open` and `close` exclude each other: pass one of them.")
    renamed = dict(options.rename or ())
    if len(renamed) < len(options.rename or ()):
        raise CampaignError("`rename` must name each label once.")
    campaign = Campaign.open(options.campaign)
    closed = options.close if options.open or options.close else None
    campaign.set(
        task=options.task or "auto", closed=closed, add=options.add_label or (), rename=renamed, model=options.model
    )
    status, labels = counted(campaign), campaign._settings["labels"]
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
    again = f" (skactive ask {path} --again -o FILE writes the waiting rows once more)"
    tell, ask = f"skactive tell {path} FILE{again}", f"skactive ask {path} -n 20 -o next.csv"
    return f"Next: {', or '.join([tell] * (found.n_out > 0) + [ask] * (found.n_left > 0))}"


def report(options: argparse.Namespace) -> str:
    """Write a page about the campaign."""
    from ._report import report_page

    campaign = opened(options, verbose=_is_watched())
    if not has_suffix(options.output, ".html"):
        raise FileError(f"--output must end in .html. Got {options.output!r}.")
    with atomic_write(options.output, force=options.force) as temporary:
        page = report_page(campaign, with_rows=not options.no_rows, **_of_report(options))
        temporary.write_text(_without_python(page), encoding="utf-8")
    rows = "no rows of the table" if options.no_rows else "rows of the table; --no-rows leaves them out"
    return _answer(options, f"{options.output} is a report on the campaign. It holds {rows}.")


def simulate(options: argparse.Namespace) -> str:
    """Try queries on a table whose labels are known."""
    from ._experiments import simulated

    exchange.keep_inputs(options.output, {"the table": [options.labels]})
    text, facts = simulated(options, *exchange.labelled_table([options.labels], options, None))
    return _answer(options, text, **facts)


def export(options: argparse.Namespace) -> str:
    """Write the table with the labels so far."""
    if options.guesses + options.history + options.labelled > 1:
        raise CampaignError("`labelled`, `guesses` and `history` write different tables: pass one of them.")
    campaign = opened(options)
    check_output(options.output, options.force)
    frame = campaign.history() if options.history else campaign.to_frame(guesses=options.guesses).reset_index()
    frame = frame[frame[campaign.target].notna()] if options.labelled else frame
    if options.history:
        frame["time"] = [moment.isoformat() for moment in frame["time"]]  # a workbook has no time zones
    frame = exchange.with_numbers(campaign, frame, options.output)
    write_table(frame, options.output, exchange.dialect_of(campaign), force=options.force)
    status, n = counted(campaign), len(frame)
    what = f"{n:,} events" if options.history else f"{n:,} rows, {status.n_labels:,} of them with a label"
    what = f"the {n:,} rows with a label" if options.labelled else what
    if options.guesses:
        n_others = n - status.n_labels
        what += f", and the model's guesses for the {n_others:,} others in the columns guess and guess_probability"
    return _answer(options, f"{options.output} holds {what}.", status)


def predict(options: argparse.Namespace) -> str:
    """Write what the model guesses for rows of another file."""
    exchange.keep_inputs(options.output, {"the table of these rows": [options.rows]})
    campaign = opened(options, verbose=_is_watched())
    check_output(options.output, options.force)
    given: dict[str, Any] = {"dialect": exchange.asked_for(options), "like": exchange.dialect_of(campaign)}
    text = [campaign.id or "id", *exchange.words(campaign)]
    frame = exchange.table_of_files([options.rows], [*campaign._readings], text, **given)
    if options.output and (ours := [name for name in ("guess", "guess_probability") if name in frame]):
        raise FileError(f"{options.rows} has a column {ours[0]!r}, which predict writes: rename or remove it.")
    with error_context(options.rows):
        guesses = campaign.predict(frame)
    if options.output is None:
        return _answer(options, guesses.to_string(), **_finite(guesses.reset_index().to_dict("list")))
    frame = frame.assign(**guesses.set_axis(frame.index, axis=0))
    write_table(frame, options.output, exchange.dialect_of(campaign), force=options.force)
    return _answer(options, f"{options.output} holds {len(frame):,} rows, with columns guess and guess_probability.")


def backup(options: argparse.Namespace) -> str:
    """Copy the file of a campaign."""
    exchange.keep_inputs(options.copy, {"the file of the campaign": [options.campaign]})
    with atomic_write(options.copy, force=options.force) as new:
        Campaign.open(options.campaign).backup(new)
    status = counted(Campaign.open(options.copy))
    return _answer(options, f"{options.copy} is a complete copy of {options.campaign}. {status}", status)


# --- words --------------------------------------------------------------------------------------------


def _answer(options: argparse.Namespace, text: str, status: Status | None = None, **facts: Any) -> str:
    """The text, or as JSON the counts of a status and further facts."""
    counts = {name: n for name, n in vars(status).items() if name.startswith("n_")} if status else {}
    return json.dumps({**counts, **facts}, default=_plain) if options.json else text


def _is_watched() -> bool:
    """Whether somebody sees progress bars; a closed stream is None."""
    return sys.stderr is not None and sys.stderr.isatty()


def _finite(value: Any) -> Any:
    """With None for numbers that JSON does not know."""
    if isinstance(value, dict):
        return {str(key): _finite(one) for key, one in value.items()}
    if isinstance(value, list):
        return [_finite(one) for one in value]
    return None if isinstance(value, float) and not np.isfinite(value) else value


def _plain(value: Any) -> Any:
    return value.item() if hasattr(value, "item") else list(value) if isinstance(value, tuple | set) else str(value)
