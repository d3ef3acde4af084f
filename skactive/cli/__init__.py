"""The command line: ``skactive``, or ``python -m skactive``. The bare command runs the demonstration."""

from __future__ import annotations

import errno
import os
import sys
import warnings
from collections.abc import Callable, Sequence
from typing import Any

from ._parser import in_shell, parse, top_parser

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
    arguments = list(sys.argv[1:] if arguments is None else arguments) or ["demo"]
    command = top_parser().parse_args(arguments[:1]).command
    return _run(command, parse(command, arguments[1:]))


def _run(command: str, options: Any) -> int:
    """Run a command; what goes wrong is one line on standard error."""

    def say(kind: str, said: Any) -> None:
        print(f"skactive {command}: {kind}: {in_shell(str(said), command, vars(options))}", file=sys.stderr)

    with warnings.catch_warnings():
        warnings.simplefilter("default")
        warnings.showwarning = lambda message, *_, **__: say("note", message)
        try:
            print(_function(command)(options))
        except BrokenPipeError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return 1
        except KeyboardInterrupt:
            say("error", "interrupted. What is not said to be written is not written.")
            return 1
        except ImportError as error:
            say("error", f'{error}: python -m pip install "skactive[tabular]"')
            return 1
        except (ValueError, TypeError, OSError) as error:
            say("error", error)
            return 1 if _is_of_environment(error) else 2
    return 0


def _function(command: str) -> Callable[[Any], str]:
    if command == "demo":  # which reads no tables, and so does not need what reads them
        from ._experiments import demo

        return demo
    from . import _commands

    return getattr(_commands, command)


def _is_of_environment(error: Exception) -> bool:
    from ..campaign import CampaignFileError

    on_disk = getattr(error.__cause__, "errno", None) in _DISK
    return on_disk or isinstance(error, CampaignFileError | OSError)
