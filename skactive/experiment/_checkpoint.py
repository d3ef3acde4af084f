"""An experiment on disk: a journal of what is run, then of every finished round with what the query remembers."""

from __future__ import annotations

import base64
from dataclasses import asdict, dataclass, field
from typing import Any

from ..query._fingerprint import first_difference
from ._checks import check_same_settings, warn_other_versions
from ._journal import Journal
from ._results import Round


@dataclass
class Progress:
    """How far one run has come: its finished rounds, and the state of its query if that ever changed."""

    rounds: list[Round] = field(default_factory=list)
    memory: bytes | None = None


class Checkpoint:
    """The file of an experiment, read when made.

    Attributes
    ----------
    journal : Journal
    settings : dict or None
        What was run, if anything.
    versions : dict
        Versions it was begun with.
    queries : dict
        Descriptions of the queries that were run.
    """

    def __init__(self, path: Any) -> None:
        self.journal, records = Journal.open(path)
        self.settings: dict[str, Any] | None = None
        self.versions: dict[str, str] = {}
        self.queries: dict[str, Any] = {}
        self._progress: dict[tuple[str, int], Progress] = {}
        for record in records:
            self._read(**record)

    def _read(self, kind: str, **record: Any) -> None:
        if kind == "settings":
            self.settings, self.versions = record["settings"], record["versions"]
        elif kind == "query":
            self.queries[record["name"]] = record["description"]
        else:
            self._read_round(record.pop("memory"), Round.from_dict(record))

    def _read_round(self, memory: str | None, round_: Round) -> None:
        progress = self.progress_of(round_.query, round_.trial)
        if round_.round == len(progress.rounds):  # else written twice: by a worker that outlived its experiment
            progress.rounds.append(round_)
            progress.memory = progress.memory if memory is None else base64.b64decode(memory)

    def progress_of(self, query: str, trial: int) -> Progress:
        """How far a run has come."""
        return self._progress.setdefault((query, trial), Progress())

    def begin(self, settings: dict[str, Any], queries: dict[str, Any], versions: dict[str, str]) -> None:
        """Go on, if what is to be run is what was; else start. Queries may come and go, other settings not."""
        if self.settings is None:
            self.settings, self.versions = settings, versions
            self.journal.append({"kind": "settings", "settings": settings, "versions": versions})
        check_same_settings(self.journal.path, first_difference(self.settings, settings))
        warn_other_versions(self.journal.path, self.versions, versions)
        for name, description in queries.items():
            if name not in self.queries:
                self.journal.append({"kind": "query", "name": name, "description": description})
            difference = first_difference(self.queries.get(name, description), description, f"queries[{name!r}]")
            check_same_settings(self.journal.path, difference)


def save_round(journal: Journal, round_: Round, memory: bytes | None) -> None:
    """Put a finished round on the disk, with the state of its query if that has changed."""
    text = None if memory is None else base64.b64encode(memory).decode()
    journal.append({"kind": "round", **asdict(round_), "memory": text})
