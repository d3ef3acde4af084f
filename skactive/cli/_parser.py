"""The commands and their options, without anything heavy: ``--help`` is there at once."""

from __future__ import annotations

import argparse
import re
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

from .. import __version__

COMMANDS = {
    "demo": "watch sampled batches against the top of the ranking; what the bare command runs",
    "start": "begin a campaign for a table with ids and a column with gaps",
    "ask": "choose the rows to label next, and write them to a file to fill in",
    "tell": "take the labels of a file, filled in as far as it is",
    "skip": "note that some rows cannot be labelled",
    "withdraw": "put rows back that are out, skipped or wrongly labelled",
    "recheck": "list labelled rows that are most worth a second look",
    "status": "say what is labelled, what is out, how good the model is, and whether to go on",
    "report": "write a page about the campaign",
    "simulate": "try on a table with all its labels which query would have saved some",
    "export": "write the table with the labels so far",
}


class Parser(argparse.ArgumentParser):
    """Says on one line what is wrong."""

    def error(self, message: str) -> NoReturn:
        """End the process without the usage, which ``--help`` prints."""
        self.exit(2, f"{self.prog}: error: {message}\n")


class _Help(argparse.ArgumentDefaultsHelpFormatter):
    """Says what an option is if it is not given, where that is a value."""

    def _get_help_string(self, action: argparse.Action) -> str | None:
        has_value = action.default not in (None, False) and action.option_strings
        return super()._get_help_string(action) if has_value else action.help


def top_parser() -> Parser:
    """What ``skactive --help`` shows."""
    lines = "\n".join(f"  {name:9} {what}" for name, what in COMMANDS.items())
    parser = Parser(
        prog="skactive",
        usage="skactive COMMAND ...",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        description=f"Labels for a table, bought in batches.\n\ncommands:\n{lines}",
        epilog="A campaign, in four lines:\n"
        "  skactive start churn.db --pool pool.csv --id customer --target churn\n"
        "  skactive ask churn.db -n 20 -o week1.csv      (fill in the column churn)\n"
        "  skactive tell churn.db week1.csv\n"
        "  skactive status churn.db\n\n"
        "`skactive COMMAND --help` shows the options of each.",
    )
    parser.add_argument("--version", action="version", version=f"skactive {__version__}")
    parser.add_argument("command", choices=COMMANDS, metavar="COMMAND")
    return parser


def parse(command: str, arguments: Sequence[str]) -> argparse.Namespace:
    """The options of one command."""
    parser = Parser(
        prog=f"skactive {command}",
        description=f"{COMMANDS[command][0].upper()}{COMMANDS[command][1:]}.",
        formatter_class=_Help,
    )
    _OPTIONS[command](parser)
    parser.add_argument("--json", action="store_true", help="print the answer as JSON")
    return parser.parse_args(arguments)


def _demo(parser: Parser) -> None:
    parser.add_argument("--trials", type=int, default=3, help="paired trials: split, first labels, weights")
    parser.add_argument("--rounds", type=int, default=15, help="batches bought in a trial")
    parser.add_argument("--batch-size", type=int, default=10, help="labels bought in a batch")
    parser.add_argument("--score", default="bald", help="what makes a row worth a label")
    parser.add_argument("--epochs", type=int, default=150, help="full-batch training steps of a refit")
    parser.add_argument("--jobs", type=int, default=-1, help="processes, of one thread each; -1: all")
    parser.add_argument("--seed", type=int, default=0, help="seed of everything")
    _output(parser, "where the picture goes", default="learning_curves.png")


def _campaign(parser: Parser, *, pool: bool = True) -> None:
    parser.add_argument("campaign", metavar="DB", help="the file of the campaign")
    if pool:
        parser.add_argument("--pool", metavar="FILE", nargs="+", default=None, help="the table, if it has moved")
        parser.add_argument(
            "--take-changes", action="store_true", help="go on where rows of the table are gone or hold other values"
        )


def _output(parser: Parser, help: str, *, required: bool = False, default: str | None = None) -> None:
    parser.add_argument("-o", "--output", metavar="FILE", required=required, default=default, help=help)
    parser.add_argument("--force", action="store_true", help="overwrite the output if it exists")


def _model(parser: Parser) -> None:
    parser.add_argument(
        "--model", default="forest", choices=["forest", "logistic", "boosting", "net"], help="what learns"
    )


def _start(parser: Parser) -> None:
    _campaign(parser, pool=False)
    parser.add_argument(
        "--pool",
        metavar="FILE",
        nargs="+",
        required=True,
        help="the table: csv, tsv, jsonl or xlsx; or parquet: files, a folder, or a pattern in quotes",
    )
    parser.add_argument("--id", metavar="COLUMN", required=True, help="the column with an id for each row")
    parser.add_argument("--target", metavar="COLUMN", required=True, help="the column of labels, with gaps")
    _model(parser)
    parser.add_argument(
        "--task", default="auto", choices=["auto", "classification", "regression"], help="what labels are"
    )
    parser.add_argument("--labels", metavar="A,B", default=None, help="all labels there are; others are refused")
    parser.add_argument("--score", default="auto", help="what makes a row worth a label")
    parser.add_argument(
        "--sampler",
        default="power",
        choices=["power", "softmax", "softrank", "topk", "uniform"],
        help="how scores choose",
    )
    parser.add_argument("--beta", type=float, default=4.0, help="coldness of the sampler")
    parser.add_argument("--diversity", type=float, default=0.0, help="how rows of a batch keep apart; 1 or 2 is usual")
    parser.add_argument(
        "--rule", default="latest", choices=["latest", "majority", "open"], help="what counts if annotators disagree"
    )
    parser.add_argument(
        "--first",
        default="auto",
        choices=["auto", "uniform", "kmeans++", "typical"],
        help="how rows are chosen without a model",
    )
    parser.add_argument("--seed", type=int, default=None, help="the same seed asks for the same ids (default: drawn)")
    parser.add_argument("--force", action="store_true", help="begin anew where the file of a campaign exists")


def _ask(parser: Parser) -> None:
    _campaign(parser)
    parser.add_argument("-n", type=int, default=20, help="rows to ask for")
    _output(parser, "csv, tsv, xlsx, parquet or jsonl to fill in; html to label in a browser; json for Label Studio")
    parser.add_argument("--no-guess", action="store_true", help="leave out what the model says of the rows")
    parser.add_argument("--again", action="store_true", help="write the rows that are out once more, and ask for none")
    parser.add_argument("--group-by", metavar="COLUMN", help="the column of groups that the next option counts")
    parser.add_argument("--max-per-group", type=int, metavar="N", help="at most so many rows of a group")
    parser.add_argument("--cost", metavar="COLUMN", help="the column of what a label of each row costs")
    parser.add_argument("--budget", type=float, help="what the batch may cost")
    parser.add_argument("--must", metavar="ID,ID", help="rows that are in the batch")


def _tell(parser: Parser) -> None:
    _campaign(parser, pool=False)
    parser.add_argument("labels", metavar="FILE", help="a file of `ask` filled in, or an export of Label Studio")
    parser.add_argument("--annotator", metavar="NAME", help="who says so")
    parser.add_argument("--unasked", action="store_true", help="take labels of rows that were not asked for")


def _skip(parser: Parser) -> None:
    _campaign(parser, pool=False)
    parser.add_argument("ids", metavar="ID", nargs="+")


def _withdraw(parser: Parser) -> None:
    _campaign(parser, pool=False)
    parser.add_argument("ids", metavar="ID", nargs="*")
    parser.add_argument("--all", action="store_true", help="all rows that are out, and no ids")


def _recheck(parser: Parser) -> None:
    _campaign(parser)
    parser.add_argument("-n", type=int, default=20, help="rows to list")
    _output(parser, "a table of them, to correct and tell (default: the screen)")


def _status(parser: Parser) -> None:
    _campaign(parser)
    parser.add_argument("--tolerance", type=float, default=0.05, help="gain for 100 labels that is worth their price")
    parser.add_argument("--patience", type=int, default=30, help="labels over which the gain is looked at")
    parser.add_argument("--quick", action="store_true", help="count only: fit no model, read no table")


def _report(parser: Parser) -> None:
    _campaign(parser)
    _output(parser, "the page, html", required=True)


def _simulate(parser: Parser) -> None:
    parser.add_argument("labels", metavar="FILE", help="a table whose target is full; rows with gaps are left out")
    parser.add_argument("--target", metavar="COLUMN", required=True, help="the column of labels")
    parser.add_argument("--id", metavar="COLUMN", default=None, help="the column of ids, which a model must not see")
    _model(parser)
    parser.add_argument("--trials", type=int, default=5, help="paired trials: split and first labels")
    parser.add_argument("--rounds", type=int, default=8, help="batches bought in a trial")
    parser.add_argument("-n", type=int, default=20, help="labels bought in a batch")
    parser.add_argument("--initial", type=int, default=20, help="labels to begin with, at random")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--seed", type=int, default=0, help="seed of everything")
    _output(parser, "the picture: png, pdf or svg (default: none)")


def _export(parser: Parser) -> None:
    _campaign(parser)
    _output(parser, "csv, tsv, xlsx, parquet or jsonl", required=True)
    what = parser.add_mutually_exclusive_group()
    what.add_argument(
        "--guesses",
        action="store_true",
        help="beside rows without a label, what the model says, and how probable that is to it",
    )
    what.add_argument("--history", action="store_true", help="write all that happened instead, one line an event")


_OPTIONS: dict[str, Any] = {
    "demo": _demo,
    "start": _start,
    "ask": _ask,
    "tell": _tell,
    "skip": _skip,
    "withdraw": _withdraw,
    "recheck": _recheck,
    "status": _status,
    "report": _report,
    "simulate": _simulate,
    "export": _export,
}


# --- messages of the package, with options in the place of parameters ---------------------------------

NAMES = {
    "frame": "the table",
    "path": "the file",
    "id": "the id",
    "target": "the target",
    "ids": "ids",
    "query": "the query",
    "labels": "labels",
    "model": "the model",
    "limits": "limits",
    "limits.groups": "--group-by",
    "limits.costs": "--cost",
    "groups": "--group-by",
    "costs": "--cost",
    "n_instances": "-n",
    "n": "-n",
    "random_state": "--seed",
    "withdraw": "`skactive withdraw`",
    "recheck": "`skactive recheck`",
    "ask": "`skactive ask`",
}
"""What parameters and methods are called, where they are not options of the same name."""

NO_OPTIONS = {"campaign", "ids", "id", "target", "query"}


def in_shell(text: str, command: str, options: Mapping[str, Any]) -> str:
    """A message on one line, with options in the place of parameters."""
    known = options.keys() - NO_OPTIONS - ({"labels"} if command in ("tell", "simulate") else set())

    def named(found: re.Match[str]) -> str:
        name, equals = found.groups()
        word = f"--{name.replace('_', '-')}" if name in known and len(name) > 1 else NAMES.get(name, found[0])
        return word if not equals or word == found[0] else f"{word} "

    return re.sub(r"`([a-z_.]+)`(=?)", named, " ".join(text.split()))
