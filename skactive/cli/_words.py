"""What the package says, which is in words of Python, in words of the shell."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

PHRASES = {
    r"\S+, in the shell (--[a-z-]+)": r"\1",
    r"`Campaign\.start` begins a campaign, in the shell `skactive start`": "`skactive start` begins one",
    r"Go on with it by `Campaign\.open`, or give a new path": "Go on with it by the other commands, or name a new file",
    r"(and its file holds no code\. ).*": r"\1Go on with it in Python, by `Campaign.open`.",
    r"`path`=": "",
    r"(^|: )`frame`: ": r"\1",
    r"`frame` must be the table of the campaign": "the table must be that of the campaign",
    r": read them as the campaign did, dtype=\{id: str\} in pandas\.": ". Bring back the old table.",
    r"`\.astype\(str\)` makes": "make",
    r"`(id|target)` must name": r"--\1 must name",
    r"`labels` at the start": "--labels at the start",
    r"Give id=\"id\", or name the index": "Give --id id",
    r"`model` could not be fitted": "the model could not be fitted",
    r"\b(first|beta)=\"?([a-z0-9]+)\"?": r"--\1 \2",
}
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
}
"""What parameters are called, where they are not options of the same name."""

NO_OPTIONS = {"campaign", "ids", "id", "target", "query"}
COMMANDS = {"withdraw", "recheck", "ask"}


def in_shell(text: str, command: str, options: Mapping[str, Any]) -> str:
    """A message on one line, with options in the place of parameters."""
    text = " ".join(text.split())
    for pattern, words in PHRASES.items():
        text = re.sub(pattern, words, text)
    known = options.keys() - NO_OPTIONS - ({"labels"} if command in ("tell", "simulate") else set())

    def named(found: re.Match[str]) -> str:
        name, equals = found.groups()
        if name in COMMANDS:
            return f"`skactive {name}`"
        word = f"--{name.replace('_', '-')}" if name in known and len(name) > 1 else NAMES.get(name, found[0])
        return word if not equals or word == found[0] else f"{word} "

    return re.sub(r"`([a-z_.]+)`(=?)", named, text)
