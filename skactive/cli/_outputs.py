"""No command writes over what it reads: the table, the file of the campaign, a file of labels."""

from __future__ import annotations

import argparse
import fnmatch
import glob
import os
from collections.abc import Iterator
from pathlib import Path

from ..campaign._store import Store
from ._files import FileError


def keep_inputs(command: str, options: argparse.Namespace) -> None:
    """Refuse an output that is an input of the command, by whatever name, or would become a part of its table."""
    outputs = list(_outputs(command, options))
    inputs = list(_inputs(command, options)) if outputs else []
    for output in outputs:
        for what, given in inputs:
            files = [given] if os.path.exists(given) else glob.glob(given, recursive=True)
            if os.path.exists(output) and any(os.path.samefile(output, file) for file in files):
                raise FileError(f"{output} is {what}: it is not overwritten, --force or not. Name another file.")
            if _would_belong(output, given):
                raise FileError(f"{output} would be a part of {what}, {given}. Name a file somewhere else.")


def _outputs(command: str, options: argparse.Namespace) -> Iterator[str]:
    output = options.campaign if command == "start" else getattr(options, "output", None)
    if output is not None:
        yield output
        if command == "ask" and Path(output).suffix.lower() == ".json":
            yield str(Path(output).with_suffix(".xml"))


def _inputs(command: str, options: argparse.Namespace) -> Iterator[tuple[str, str]]:
    """Files, folders and patterns that the command reads, and what they are."""
    known: str | list[str] = []
    if command == "simulate":
        yield "the table", options.labels
    elif command != "start":
        yield "the file of the campaign", options.campaign
        known = Store(options.campaign).settings().get("pool") or []
    for path in [*(getattr(options, "pool", None) or []), *([known] if isinstance(known, str) else known)]:
        if os.path.isdir(path):
            yield from (("a file of the table", str(file)) for file in Path(path).iterdir())
        yield "the table", path


def _would_belong(output: str, given: str) -> bool:
    """Whether a file that is not there yet would be read as one of a folder or of a pattern."""
    if os.path.isdir(given):
        return Path(output).suffix.lower() == ".parquet" and Path(output).resolve().parent == Path(given).resolve()
    there = os.path.join(os.path.realpath(os.path.dirname(given)), os.path.basename(given))
    return glob.has_magic(given) and not os.path.exists(given) and fnmatch.fnmatch(os.path.realpath(output), there)
