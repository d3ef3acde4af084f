"""What each command does: files in, a campaign in between, files and a paragraph out."""

from __future__ import annotations

import argparse
import json
import os
import shlex
import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import pandas as pd

from .._types import Task
from ..campaign import Campaign, CampaignError, CampaignFileError
from ..campaign._labels import Answer, answers_of, plain_label
from ..campaign._models import guesses_of
from ..campaign._settings import ONE_IN_TEN
from ..campaign._status import for_a_campaign
from ..campaign._store import shown
from ..query import StochasticBatchQuery
from ._files import FileError, read_table, write_table, written_whole
from ._pools import about, in_words, opened, pool_to_start, say_notes, typed, warn_of_words, with_labels

FAILURES = (CampaignFileError, OSError)
"""Nobody's mistake: exit code 1."""


def start(options: argparse.Namespace) -> str:
    """Begin a campaign for a table in a file, or in several."""
    path = Path(options.campaign)
    frame, task = pool_to_start(options)
    if path.exists():
        if not options.force:
            raise FileError(f"{path} exists. `skactive status` shows it, --force begins anew, or name another file.")
        Campaign.open(path)  # only a campaign is overwritten
    final = Path(os.path.realpath(path))
    new = final.with_name(f".{final.name}.{os.getpid()}.start")  # takes the name once it is whole
    try:
        with about(in_words(options.pool)):
            _begin(new, frame, task, options)
        (os.replace if options.force else _link)(new, final)
    finally:
        new.unlink(missing_ok=True)
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
        f"{path} begins a campaign for the {status.n_rows:,} rows of {in_words(options.pool)}: {status.n_labels:,} "
        f"have a label in {options.target!r}{_counts(status.by_label)}, {status.n_left:,} are to be labelled. Labels "
        f"are {what}; "
        f"the model is {options.model!r}, the seed {campaign.random_state}.\n"
        f"Next: skactive ask {shlex.quote(str(path))} -n 20 -o week1.csv",
    )


def _begin(path: Path, frame: pd.DataFrame | list[str], task: Task, options: argparse.Namespace) -> None:
    """A campaign with the settings that options speak of."""
    labels = None if options.labels is None else [label.strip() for label in options.labels.split(",")]
    campaign = Campaign.start(
        path,
        frame,
        target=options.target,
        id=options.id,
        model=options.model,
        query=StochasticBatchQuery(
            options.score, options.sampler, options.beta, epsilon=ONE_IN_TEN, diversity=options.diversity
        ),
        task=task,
        labels=labels,
        rule=options.rule,
        first=options.first,
        random_state=options.seed,
    )
    if isinstance(frame, pd.DataFrame):
        campaign._store.note({"pool": os.path.abspath(options.pool[0])})
    else:
        warn_of_words(options.target, campaign._came.values())


def _link(new: Path, final: Path) -> None:
    """Give a file its name, unless another has it by now."""
    try:
        os.link(new, final)
    except FileExistsError:
        raise FileError(f"{final} exists by now: another process has made it. Name another file.") from None
    except OSError:  # a file system without links
        os.replace(new, final)


def ask(options: argparse.Namespace) -> str:
    """Choose rows and write them to a file."""
    campaign = opened(options, verbose=sys.stderr.isatty())
    output = None if options.output is None else Path(options.output)
    if options.again:
        batch = _out_again(campaign)
        if output is not None:
            with ExitStack() as files:
                _prepare(files, campaign, batch, output, options)
    else:
        batch = _asked(campaign, output, options)
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
    """A batch, in a file that is complete, under another name, before the rows are written down as out."""
    warnings.filterwarnings("ignore", "This batch is nearly random")  # whose remedy a campaign has at its start only
    with _Prepared() as prepared:

        def prepare(rows: pd.DataFrame) -> None:
            prepared.give_up()  # what was written of a batch that another process has overtaken
            if output is not None:
                _prepare(prepared.files, campaign, rows, output, options)

        return campaign._ask(options.n, _limits(campaign, options), before=prepare)


class _Prepared:
    """Files that take their names if all goes well, and are gone otherwise."""

    def __init__(self) -> None:
        self.files = ExitStack()

    def give_up(self) -> None:
        with suppress(_GivenUpError):
            self.files.__exit__(_GivenUpError, _GivenUpError(), None)
        self.files = ExitStack()

    def __enter__(self) -> _Prepared:
        return self

    def __exit__(self, *error: Any) -> None:
        self.files.__exit__(*error)


class _GivenUpError(Exception):
    pass


def _how_to_fill(output: Path, campaign: Campaign, path: str) -> str:
    tell = f"Next: skactive tell {shlex.quote(path)}"
    if output.suffix.lower() == ".html":
        return f"Open it in a browser; it saves a file of labels.\n{tell} {shlex.quote(output.stem + '_labelled.csv')}"
    if output.suffix.lower() == ".json":
        return (
            f"Import it in Label Studio, in a project with the labelling interface of {output.with_suffix('.xml')}; "
            f"export as JSON.\n{tell} export.json"
        )
    return (
        f"Fill in the column {campaign.target!r}, in any order and as far as you get; a mark x in `skip` is for rows "
        f"that nobody can label.\n{tell} {shlex.quote(str(output))}"
    )


def tell(options: argparse.Namespace) -> str:
    """Take the labels of a file."""
    campaign = Campaign.open(options.campaign)
    path = options.labels
    with about(path):
        answers = _answers(campaign, path, options.annotator or "")
        if all(answer.label is None and not answer.skipped for answer in answers):
            raise CampaignError(
                f"there is no label in the column {campaign.target!r} yet. Fill in some, and tell it again."
            )
        told = campaign._take(answers, options.unasked)
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
    """Note that nobody can label rows."""
    return _on_ids(options, Campaign.skip, "skipped")


def withdraw(options: argparse.Namespace) -> str:
    """Put rows back."""
    if options.all == bool(options.ids):
        raise CampaignError("`withdraw` takes ids, or --all for all rows that are out.")
    return _on_ids(options, Campaign.withdraw, "put back")


def _on_ids(options: argparse.Namespace, do: Callable[[Campaign, Sequence[Any]], None], done: str) -> str:
    """Do something with the rows that are named, or with all that are out."""
    campaign = Campaign.open(options.campaign)
    ids = typed(campaign, options.ids) or campaign.status().out.index.tolist()
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
        shown = found[
            [c for c in found.columns if c in ("label", "guess", "label_probability", "difference", "disputed")]
        ]
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

    if Path(options.output).suffix != ".html":
        raise FileError(f"--output must be a file .html. Got {options.output!r}.")
    campaign = opened(options, verbose=sys.stderr.isatty())
    with written_whole(options.output, force=options.force) as temporary:
        temporary.write_text(report_page(campaign), encoding="utf-8")
    return _answer(options, {"output": options.output}, f"{options.output} shows where the campaign stands.")


def simulate(options: argparse.Namespace) -> str:
    """Try queries on a table whose labels are known."""
    from ._simulate import simulated

    facts, text = simulated(options, *with_labels(options.labels, options.id, options.target, "auto"))
    return _answer(options, facts, text)


def export(options: argparse.Namespace) -> str:
    """Write the table with the labels so far."""
    campaign = opened(options)
    guesses = options.guesses
    frame = campaign.history() if options.history else campaign.to_frame(guesses=guesses).reset_index()
    if options.history:
        frame["time"] = [moment.isoformat() for moment in frame["time"]]  # which a workbook cannot hold with a zone
    write_table(frame, options.output, force=options.force)
    return _exported(options, campaign, len(frame))


def _exported(options: argparse.Namespace, campaign: Campaign, n: int) -> str:
    n_labels = campaign.status(accuracy=False, report=False).n_labels
    what = f"{n:,} events" if options.history else f"{n:,} rows, {n_labels:,} of them with a label"
    if options.guesses:
        what += f", and what the model says of the {n - n_labels:,} others in the columns guess and guess_probability"
    return _answer(options, {"output": options.output, "rows": n}, f"{options.output} holds {what}.")


COMMANDS: dict[str, Callable[[argparse.Namespace], str]] = {
    function.__name__: function
    for function in (start, ask, tell, skip, withdraw, recheck, status, report, simulate, export)
}


# --- files --------------------------------------------------------------------------------------------


def _answers(campaign: Campaign, path: str, annotator: str) -> list[Answer]:
    if Path(path).suffix == ".html":
        raise FileError(
            f"{path} is the page itself. Open it in a browser, label, save, and tell the file that it saves, "
            f"{Path(path).stem}_labelled.csv."
        )
    if Path(path).suffix == ".json":
        return _of_label_studio(campaign, path, annotator)
    as_text = [campaign.id or "id", "skip", *([campaign.target] if campaign.kind == "classes" else [])]
    frame = read_table(path, text=as_text)
    say_notes(frame)
    id = campaign.id or "id"
    for name in (id, campaign.target):
        if name not in frame.columns:
            raise CampaignError(
                f"there is no column {name!r}. The columns are {', '.join(map(str, frame.columns[:12]))}."
            )
    if len(frame) == 0:
        raise CampaignError("there are no rows. Fill in a file of `skactive ask`.")
    frame[id] = pd.Series(typed(campaign, frame[id]), dtype=object, index=frame.index)
    return answers_of(frame, id=id, target=campaign.target, annotator=annotator)


def _of_label_studio(campaign: Campaign, path: str, annotator: str) -> list[Answer]:
    from ._label_studio import answers

    try:
        exported = json.loads(Path(path).read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise FileError(f"{path} cannot be read: {error.strerror}.") from None
    except ValueError as error:
        raise FileError(f"{path} is no JSON: {error}. Export as JSON or JSON-MIN from Label Studio.") from None
    found = answers(exported, id=campaign.id or "id", target=campaign.target)
    ids = typed(campaign, [answer.id for answer in found])
    return [
        Answer(id, plain_label(one.label, f"the label of {id!r}"), annotator or one.annotator, one.skipped)
        for id, one in zip(ids, found, strict=True)
    ]


def _prepare(
    files: ExitStack, campaign: Campaign, batch: pd.DataFrame, output: Path, options: argparse.Namespace
) -> None:
    """Write a batch to a file that takes its name when ``files`` is left without an error."""
    guesses = None
    if not options.no_guess and batch["guess"].notna().any():
        guesses = list(zip(batch["guess"].tolist(), batch["guess_probability"].tolist(), strict=True))
    rows = batch.drop(columns=["guess", "guess_probability", "log_proba"])
    id, target = campaign.id or "id", campaign.target
    labels = campaign._settings["labels"] or sorted(set(campaign._state().labels.values()), key=str)
    kind: Any = "number" if campaign.kind == "numbers" else "classes"
    if output.suffix.lower() == ".html":
        from ._page import labelling_page

        page = labelling_page(
            rows,
            id=id,
            target=target,
            labels=None if kind == "number" else labels,
            closed=campaign._settings["labels"] is not None,
            kind=kind,
            guesses=guesses,
            title=output.stem,
            folder=output.absolute().parent,
        )
        files.enter_context(written_whole(output, force=options.force)).write_text(page, encoding="utf-8")
    elif output.suffix.lower() == ".json":
        from ._label_studio import label_config, tasks

        text = json.dumps(tasks(rows, id=id, target=target, guesses=guesses, kind=kind), allow_nan=False, indent=1)
        config = label_config(rows, id=id, target=target, labels=labels, kind=kind)
        files.enter_context(written_whole(output, force=options.force)).write_text(text, encoding="utf-8")
        interface = output.with_suffix(".xml")
        files.enter_context(written_whole(interface, force=options.force)).write_text(config, encoding="utf-8")
    else:
        frame = rows.copy()
        frame.insert(0, target, None)
        frame.insert(1, "skip", None)
        if guesses is not None:
            frame["guess"], frame["guess_probability"] = batch["guess"], batch["guess_probability"]
        temporary = files.enter_context(written_whole(output, force=options.force))
        write_table(frame.reset_index(names=id), temporary, force=True)


def _out_again(campaign: Campaign) -> pd.DataFrame:
    state = campaign._state()
    if not state.out:
        raise CampaignError("No rows are out. `skactive ask` without --again asks for some.")
    rows = campaign._table().take(state.out)
    batch = rows.copy()
    batch["guess"], batch["guess_probability"], batch["log_proba"] = None, float("nan"), float("nan")
    if campaign._can_fit(state):
        batch["guess"], batch["guess_probability"] = guesses_of(campaign._fitted(state), rows, campaign.kind)
    return batch


def _limits(campaign: Campaign, options: argparse.Namespace) -> Any:
    """The limits that options speak of; None without any."""
    given = (options.group_by, options.max_per_group, options.at_least, options.cost, options.budget, options.must)
    if all(value is None for value in given):
        return None
    from ..query import Limits

    at_least = None
    if options.at_least is not None:
        try:
            pairs = [pair.rpartition("=") for pair in options.at_least.split(",")]
            at_least = {name: int(n) for name, _, n in pairs}
        except ValueError:
            raise CampaignError(f"--at-least must be like north=2,south=1. Got {options.at_least!r}.") from None
    must = None
    if options.must is not None:
        ids = typed(campaign, options.must.split(","))
        must = campaign._rows_of(ids)
        free = campaign._state().candidates()
        taken = [id for id, row in zip(ids, must, strict=True) if not free[row]]
        if taken:
            raise CampaignError(
                f"--must names {shown(taken)}, which cannot be asked for: labelled, out or skipped. Leave out."
            )
    return Limits(
        groups=options.group_by,
        max_per_group=options.max_per_group,
        at_least=at_least,
        costs=options.cost,
        budget=options.budget,
        must=must,
    )


# --- words --------------------------------------------------------------------------------------------


def _answer(options: argparse.Namespace, facts: Mapping[str, Any], text: str) -> str:
    return json.dumps(facts, default=_plain) if options.json else text


def _plain(value: Any) -> Any:
    return value.item() if hasattr(value, "item") else list(value) if isinstance(value, tuple | set) else str(value)


def _counts(by_label: Mapping[Any, Any]) -> str:
    if not by_label:
        return ""
    shown = ", ".join(f"{label}: {value:g}" for label, value in list(by_label.items())[:6])
    return f" ({shown}{', ...' if len(by_label) > 6 else ''})"
