"""The command line: ``skactive``, or ``python -m skactive``. The bare command prints the help.

Commands and options are declared here without heavy imports, so that ``--help`` is fast.
"""

from __future__ import annotations

import argparse
import errno
import functools
import importlib
import os
import re
import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, NoReturn

from .. import __version__

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command.

    Parameters
    ----------
    arguments : sequence of str, optional
        By default those of the process.

    Returns
    -------
    int
        0 for success; 2 if the input was wrong and nothing was written; 1 for other failures, such as a full disk, a
        locked file or Ctrl-C.

    Raises
    ------
    SystemExit
        With 2 for unknown options, and with 0 after ``--help``.

    See Also
    --------
    Campaign : The same in Python.
    """
    arguments = list(sys.argv[1:] if arguments is None else arguments) or ["--help"]
    command = _top_parser().parse_args(arguments[:1]).command
    return _run(command, _parse(command, arguments[1:]))


def _run(command: str, options: Any) -> int:
    """Run a command; what goes wrong is one line on standard error."""

    @functools.cache  # a warning of a model comes with each of its fits
    def say(kind: str, said: str) -> None:
        with suppress(OSError):  # nobody listens
            _print(f"skactive {command}: {kind}: {_in_shell(said, command, vars(options))}", sys.stderr)

    with warnings.catch_warnings():
        warnings.simplefilter("default")
        warnings.showwarning = lambda message, *_, **__: say("note", str(message))
        try:
            answer = _function("demo_label" if getattr(options, "what", None) else command)(options)
        except KeyboardInterrupt:
            said = "interrupted. Only files that were reported as written are complete."
            _print(f"skactive {command}: error: {said}", sys.stderr)  # `say` could import what was half imported
            return 1
        except ImportError as error:
            package = (error.name or "").partition(".")[0]
            say("error", f"{error}{package and f': python -m pip install {package}'}")
            return 1
        except (ValueError, TypeError, OSError, RuntimeError) as error:
            say("error", str(error).partition("\nTraceback")[0])  # of a run of an experiment
            return 1 if _is_of_environment(error) else 2
    try:
        _print(_without_python(answer), sys.stdout)
    except BrokenPipeError:  # of a reader that has read enough
        return 0
    except OSError as error:
        say("error", f"the command succeeded, but its output cannot be printed: {error.strerror}")
        return 1
    return main(["label", options.campaign]) if command == "start" and options.open else 0


def _print(text: str, stream: Any) -> None:
    """Print a text; a console that lacks some of its characters gets their numbers."""
    encoding = getattr(stream, "encoding", None) or "utf-8"
    try:
        print(text.encode(encoding, "backslashreplace").decode(encoding), file=stream, flush=True)
    except OSError:  # which Python would meet again at its end
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
        raise


def _function(command: str) -> Callable[[Any], str]:
    # The demonstration reads no tables, and so does not need what reads them.
    home = {"demo": "._experiments", **dict.fromkeys(("label", "demo_label"), "._label")}.get(command, "._commands")
    module = importlib.import_module(home, __name__)
    return getattr(module, "change" if command == "set" else command)  # `set` is Python's


def _is_of_environment(error: Exception) -> bool:
    from ..campaign import CampaignFileError

    on_disk = getattr(error.__cause__, "errno", None) in {errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EROFS}
    return on_disk or isinstance(error, CampaignFileError | OSError)


# --- commands and options -----------------------------------------------------------------------------

_COMMANDS = {
    "demo": "show in half a minute how many labels active learning saves on digits; or label penguins",
    "start": "start a campaign for a table with row ids and a column of labels to complete",
    "label": "label rows in a browser while the model learns and chooses the next ones",
    "ask": "choose the rows to label next, and write them to a file to fill in",
    "tell": "record labels from a file that was filled in, completely or in part",
    "skip": "mark rows that cannot be labelled",
    "withdraw": "put rows back into the pool: waiting for labels, skipped or labelled wrongly",
    "recheck": "list the labelled rows whose labels are most worth a second look",
    "set": "change which labels are allowed, rename labels, or change the task or the model",
    "status": "show what is labelled, how good the model is, and whether to go on",
    "report": "write an HTML report on the campaign",
    "simulate": "find out which query strategy would have saved labels on a labelled table",
    "export": "write the table with the labels so far",
    "predict": "predict the labels of rows in another file",
    "backup": "copy a campaign file safely while others use it",
}

_EXAMPLES = {
    "demo": "demo label",
    "start": "start churn.db --pool pool.csv --id customer --target churn",
    "label": "label churn.db --annotator anna ben --overlap 2",
    "ask": "ask churn.db -n 20 -o week1.csv",
    "tell": "tell churn.db week1.csv",
    "skip": "skip churn.db 0017 0203",
    "withdraw": "withdraw churn.db 0017",
    "recheck": "recheck churn.db -n 20 -o again.csv",
    "set": "set churn.db --rename nein no --close --add-label maybe",
    "status": "status churn.db --scoring balanced_accuracy",
    "report": "report churn.db -o report.html",
    "simulate": "simulate labelled.csv --id customer --target churn -o curves.png",
    "export": "export churn.db -o labels.csv --labelled",
    "predict": "predict churn.db new.csv -o guessed.csv",
    "backup": "backup churn.db monday.db",
}

_Option = dict[str, Any]
"""What `argparse` needs to know of an option besides its name."""


def _number(default: Any, help: str, type: Callable[[str], Any] = int) -> _Option:
    return {"default": default, "help": help, "type": type}


def _text(default: str | None, help: str, metavar: str | tuple[str, str] | None = None, **more: Any) -> _Option:
    return {"default": default, "help": help, "metavar": metavar, **more}


def _one_of(choices: str, help: str) -> _Option:
    """One of some words, by default the first."""
    return {"choices": choices.split(), "default": choices.split()[0], "help": help}


def _flag(help: str) -> _Option:
    return {"action": "store_true", "help": help}


def _output(help: str, default: str | None = None, required: bool = False) -> dict[str, _Option]:
    return {
        "-o --output": _text(default, help, "FILE", required=required),
        "--force": _flag("overwrite the output if it exists"),
    }


_DIALECT = {
    "--sep": _text(None, "separator of a text file, such as ; or tab (default: detected)", "MARK"),
    "--decimal": _text(None, "decimal mark of a text file, . or , (default: detected)", "MARK", choices=[".", ","]),
    "--sheet": _text(None, "the sheet of a workbook (default: the first with the table)", "NAME"),
}
_DB = {"campaign": {"metavar": "DB", "help": "the campaign file"}}
_CAMPAIGN = {
    **_DB,
    "--pool": _text(None, "the table, if it has moved", "FILE", nargs="+"),
    "--take-changes": _flag("go on although rows of the table are missing or have changed"),
}
_OF_REPORT = {
    "--scoring": _one_of(
        "auto accuracy balanced_accuracy average_precision log_loss", "the measure that more labels should improve"
    ),
    "--tolerance": _number(0.05, "smallest gain per 100 labels that is worth their cost", float),
    "--patience": _number(30, "number of labels over which the gain is measured"),
}
_OF_TRIALS = {
    "--trials": _number(8, "paired trials, each with its own split and first labels; fewer than 8 give no verdict"),
    "--jobs": _number(1, "number of processes"),
    "--seed": _number(0, "random seed"),
}
_MODEL = {"--model": _one_of("auto forest logistic boosting net", "the model")}

_OPTIONS: dict[str, dict[str, _Option]] = {
    "demo": {
        "what": {"nargs": "?", "choices": ["label"], "help": "label penguins, whose species are hidden, in a browser"},
        **_OF_TRIALS,
        **_output("the picture: png, pdf or svg", "learning_curves.png"),
    },
    "start": {
        **_DB,
        "--pool": _text(
            None,
            "the table: csv, tsv, jsonl, xlsx or parquet; or several files, a folder (parquet) or a pattern in quotes",
            "FILE",
            nargs="+",
            required=True,
        ),
        "--id": _text(None, "the column of row ids", "COLUMN", required=True),
        "--target": _text(None, "the column of labels; rows with a gap are to be labelled", "COLUMN", required=True),
        **_DIALECT,
        **_MODEL,
        "--task": _one_of("auto classification regression", "the kind of labels"),
        "--labels": _text(None, "all allowed labels; others are refused", "A,B"),
        "--score": _text("auto", "acquisition score"),
        "--sampler": _one_of("power softmax softrank topk uniform", "how a batch is sampled from the scores"),
        "--beta": _number(
            4.0, "coldness of the sampler: 0 is uniform, large values take the top of the ranking", float
        ),
        "--diversity": _number(0.0, "how strongly rows of a batch repel each other; 1 or 2 is usual", float),
        "--groups": _text(None, "the column of groups, such as patients (not a feature)", "COLUMN"),
        "--weight": _text(None, "the column of weights, such as survey weights (not a feature)", "COLUMN"),
        "--rule": _one_of("latest majority open", "which label counts if annotators disagree"),
        "--first": _one_of("uniform typical", "how rows are chosen before there is a model"),
        "--seed": _number(None, "random seed: the same one asks for the same ids (default: drawn)"),
        "--force": _flag("overwrite the campaign file if it exists"),
        "--open": _flag("label in a browser at once, as with `skactive label`"),
    },
    "label": {
        **_CAMPAIGN,
        "--annotator": _text(None, "who labels; each of several annotators gets an address", "NAME", nargs="+"),
        "--batch": _number(20, "rows per batch; the next one is chosen when less than half are left"),
        "--overlap": _number(1, "number of annotators who label each row"),
        "--port": _number(None, "port of the page (default: one of the campaign's own)"),
        "--host": _text(None, "an address of this machine on a network that you trust (default: this machine only)"),
        "--no-browser": _flag("print the address without opening a browser"),
    },
    "ask": {
        **_CAMPAIGN,
        "-n": _number(None, "number of rows (default: 20)"),
        **_output("csv, tsv, xlsx, parquet or jsonl to fill in; html to label in a browser; json for Label Studio"),
        "--no-guess": _flag("leave out the model's guesses"),
        "--again": _flag("write the rows that wait for labels again, and choose no new ones"),
        "--group-by": _text(None, "the column of groups for --max-per-group", "COLUMN"),
        "--max-per-group": _number(None, "the most rows of one group in the batch"),
        "--cost": _text(None, "the column with the cost of labelling each row", "COLUMN"),
        "--budget": _number(None, "the most that the batch may cost", float),
        "--must": _text(None, "rows that must be in the batch", "ID,ID"),
    },
    "tell": {
        **_DB,
        "labels": {"metavar": "FILE", "help": "a filled-in file from `ask`, or an export from Label Studio"},
        "--annotator": _text(None, "name of the annotator", "NAME"),
        "--unasked": _flag("accept labels of rows that were not asked for"),
        **_DIALECT,
    },
    "skip": {**_DB, "ids": {"metavar": "ID", "nargs": "+"}},
    "withdraw": {
        **_DB,
        "ids": {"metavar": "ID", "nargs": "*"},
        "--all": _flag("all rows that wait for labels, instead of ids"),
    },
    "recheck": {
        **_CAMPAIGN,
        "-n": _number(20, "number of rows to list"),
        **_output("a table of these rows to correct and tell (default: print them)"),
    },
    "set": {
        **_DB,
        "--add-label": _text(None, "labels to add to a closed set of allowed labels", "LABEL", nargs="+"),
        "--rename": _text(None, "rename a label", ("OLD", "NEW"), nargs=2, action="append"),
        "--close": _flag("refuse labels other than the existing and the added ones"),
        "--open": _flag("accept any label"),
        "--task": _text(
            None, "the kind of labels, including those already there", choices=["classification", "regression"]
        ),
        "--model": {**_MODEL["--model"], "default": None},
    },
    "status": {
        **_CAMPAIGN,
        **_OF_REPORT,
        "--quick": _flag("only count, without fitting a model or reading the table"),
    },
    "report": {
        **_CAMPAIGN,
        **_OF_REPORT,
        **_output("the page, html", required=True),
        "--no-rows": _flag("leave out the last batch and examples of odd cells"),
    },
    "simulate": {
        "labels": {"metavar": "FILE", "help": "a labelled table; rows without a label are left out"},
        "--target": _text(None, "the column of labels", "COLUMN", required=True),
        "--id": _text(None, "the column of row ids (not a feature)", "COLUMN"),
        **_DIALECT,
        **_MODEL,
        **_OF_TRIALS,
        "--rounds": _number(8, "batches per trial"),
        "-n": _number(20, "labels per batch"),
        "--initial": _number(20, "labels at the start, drawn at random"),
        **_output("the picture: png, pdf or svg (default: none)"),
    },
    "export": {
        **_CAMPAIGN,
        **_output("csv, tsv, xlsx, parquet or jsonl", required=True),
        "--labelled": _flag("write only the rows with a label"),
        "--guesses": _flag("add the model's guess and its probability to rows without a label"),
        "--history": _flag("write the history of the campaign instead, one line per event"),
    },
    "predict": {
        **_CAMPAIGN,
        "rows": {"metavar": "FILE", "help": "a table with the columns of the pool; ids and labels are not needed"},
        **_DIALECT,
        **_output("the same table with the guesses (default: print them)"),
    },
    "backup": {
        **_DB,
        "copy": {"metavar": "COPY", "help": "the file to write"},
        "--force": _flag("overwrite the copy if it exists"),
    },
}


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        """Say on one line what is wrong, without the usage, which ``--help`` prints."""
        self.exit(2, f"{self.prog}: error: {message}\n")


def _top_parser() -> _Parser:
    lines = "\n".join(f"  {name:9} {what}" for name, what in _COMMANDS.items())
    parser = _Parser(
        prog="skactive",
        usage="skactive COMMAND ...",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        description="Active learning for tables: choose the rows to label next, collect the labels, and see how good\n"
        f"the model is and whether to go on. New here? Try: skactive demo\n\ncommands:\n{lines}",
        epilog="A campaign in four commands:\n"
        "  skactive start churn.db --pool pool.csv --id customer --target churn\n"
        "  skactive ask churn.db -n 20 -o week1.csv      (fill in the column churn)\n"
        "  skactive tell churn.db week1.csv\n"
        "  skactive status churn.db\n\n"
        "`skactive COMMAND --help` shows the options of a command.",
    )
    parser.add_argument("--version", action="version", version=f"skactive {__version__}")
    parser.add_argument("command", choices=_COMMANDS, metavar="COMMAND")
    return parser


def _parse(command: str, arguments: Sequence[str]) -> argparse.Namespace:
    """The options of one command."""
    what = _COMMANDS[command]
    said, example = f"{what[0].upper()}{what[1:]}.", f"example: skactive {_EXAMPLES[command]}"
    as_written = argparse.RawDescriptionHelpFormatter
    parser = _Parser(prog=f"skactive {command}", description=said, epilog=example, formatter_class=as_written)
    for names, option in {**_OPTIONS[command], "--json": _flag("print the answer as JSON")}.items():
        default = "" if option.get("default") is None else " (default: %(default)s)"
        parser.add_argument(*names.split(), **{**option, "help": option.get("help", "") + default})
    return parser.parse_args(arguments)


# --- messages of the package, with options in the place of parameters ---------------------------------

_NAMES = {
    **{name: f"the {name}" for name in ("id", "model", "query", "target")},
    **{name: name for name in ("ids", "labels", "limits")},
    **{name: f"`skactive {name}`" for name in ("ask", "recheck", "set", "tell", "withdraw")},
    **dict.fromkeys(("groups", "limits.groups"), "--group-by"),
    **dict.fromkeys(("costs", "limits.costs"), "--cost"),
    **dict.fromkeys(("n", "n_instances", "batch_size"), "-n"),
    **{f"n_{name}": f"--{name}" for name in ("initial", "jobs", "rounds", "trials")},
    "add": "--add-label",
    "closed": "--close",
    "frame": "the table",
    "path": "the file",
    "random_state": "--seed",
}
"""Names of parameters and methods in the shell, where they are not options of the same name."""

_NO_OPTIONS = {"campaign", "ids", "id", "target", "query"}


def _without_python(text: str) -> str:
    """Of "`tell(..., unasked=True)`, in the shell --unasked" only what is said in the shell."""
    return re.sub("`[^`]+`, in the shell ", "", text)


def _in_shell(text: str, command: str, options: Mapping[str, Any]) -> str:
    """A message on one line, with options in the place of parameters."""
    known = options.keys() - _NO_OPTIONS - ({"labels"} if command in ("tell", "simulate") else set())

    def named(found: re.Match[str]) -> str:
        name, equals = found.groups()
        word = f"--{name.replace('_', '-')}" if name in known and len(name) > 1 else _NAMES.get(name, found[0])
        return word if not equals or word == found[0] else f"{word} "

    from ..campaign._store import cut

    text = _without_python(cut(" ".join(text.split()))).replace("`labels` at the", "`--labels` at the")
    text = re.sub("^Found unknown categories .*", "The model ignores categories that no row of the table has.", text)
    return re.sub(r"`([a-z_.]+)`(=?)", named, text)
