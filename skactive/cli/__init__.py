"""The command line: ``skactive``, or ``python -m skactive``. The bare command runs the demonstration."""

from __future__ import annotations

import errno
import os
import sys
import warnings
from collections.abc import Sequence
from typing import Any

from ._parser import COMMANDS, in_shell, parse, top_parser

__all__ = ["main"]

_DISK = {errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EROFS}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command.

    Parameters
    ----------
    arguments : sequence of str, optional
        Those of the process by default.

    Returns
    -------
    int
        0 if it did what it was asked; 2 if what it was given was wrong, and nothing was written; 1 if something else
        failed: a disk, a lock, an interrupt.

    Raises
    ------
    SystemExit
        For options that there are not, with 2, and after ``--help``.

    See Also
    --------
    Campaign : The same in Python.
    """
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    first = arguments[0] if arguments else "demo"
    if first in ("-h", "--help", "--version") or (first not in COMMANDS and not first.startswith("-")):
        top_parser().parse_args(arguments)
    command, rest = (first, arguments[1:]) if first in COMMANDS else ("demo", arguments)
    if command == "demo":
        from . import _demo

        _demo.main(rest)
        return 0
    return _run(command, parse(command, rest))


def _run(command: str, options: Any) -> int:
    """Run a command of campaigns; what goes wrong is one line on standard error."""
    from . import _commands

    def in_words(said: Any) -> str:
        return in_shell(str(said), command, vars(options))

    with warnings.catch_warnings():
        warnings.simplefilter("default")
        warnings.showwarning = lambda message, *_, **__: _say(f"skactive {command}: note: {in_words(message)}")
        try:
            print(_commands.COMMANDS[command](options))
        except BrokenPipeError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return 1
        except KeyboardInterrupt:
            _say(f"skactive {command}: interrupted. What is not said to be written is not written.")
            return 1
        except _commands.FAILURES as error:
            _say(f"skactive {command}: error: {in_words(error)}")
            return 1
        except (ValueError, TypeError) as error:
            _say(f"skactive {command}: error: {in_words(error)}")
            return 1 if getattr(error.__cause__, "errno", None) in _DISK else 2
    return 0


def _say(text: str) -> None:
    print(text, file=sys.stderr)
