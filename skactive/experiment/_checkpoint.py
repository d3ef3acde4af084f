"""An experiment on disk: a journal of what is run, then of every finished round with what the query remembers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from .._checks import warn
from ..query._fingerprint import first_difference
from ._journal import Journal, Record
from ._results import ExperimentResult, Round


@dataclass
class Progress:
    """How far one run has come: its finished rounds, and the state of its query if that ever changed."""

    rounds: list[Round] = field(default_factory=list)
    memory: bytes | None = None


class Checkpoint:
    """The file of an experiment, read when this object is made.

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
            self._read(record)

    def _read(self, record: Record) -> None:
        content = dict(record.content)
        kind = content.pop("kind")
        if kind == "settings":
            self.settings, self.versions = content["settings"], content["versions"]
        elif self.settings is None:
            raise ValueError(
                f"`checkpoint`={str(self.journal.path)!r} does not say of which experiment its rounds are: the file "
                "was removed while an experiment wrote to it. Give a new path."
            )
        elif kind == "query":
            self.queries[content["name"]] = content["description"]
        else:
            self._read_round(Round.from_dict(content), record.memory)

    def _read_round(self, round_: Round, memory: bytes | None) -> None:
        progress = self.progress_of(round_.query, round_.trial)
        if round_.round == len(progress.rounds):  # else written twice: by a worker that outlived its experiment
            progress.rounds.append(round_)
            progress.memory = progress.memory if memory is None else memory

    def progress_of(self, query: str, trial: int) -> Progress:
        """How far a run has come."""
        return self._progress.setdefault((query, trial), Progress())

    def begin(self, settings: dict[str, Any], queries: dict[str, Any], versions: dict[str, str]) -> None:
        """Go on if these are the settings of the file, or start the file. Queries may be added or left out."""
        if self.settings is None:
            self.settings, self.versions = settings, versions
            self.journal.append({"kind": "settings", "settings": settings, "versions": versions})
        _check_same_settings(self.journal.path, first_difference(self.settings, settings))
        _warn_other_versions(self.journal.path, self.versions, versions)
        for name, description in queries.items():
            if name not in self.queries:
                self.journal.append({"kind": "query", "name": name, "description": description})
            difference = first_difference(self.queries.get(name, description), description, f"queries[{name!r}]")
            _check_same_settings(self.journal.path, difference)

    def result(self) -> ExperimentResult:
        """All rounds in the file, in the order of a finished experiment."""
        names = list(self.queries)
        runs = sorted(self._progress, key=lambda run: (run[1], names.index(run[0])))
        rounds = tuple(round_ for run in runs for round_ in self._progress[run].rounds)
        return ExperimentResult(
            rounds, (), {**(self.settings or {}), "queries": self.queries, "versions": self.versions}
        )


def save_round(journal: Journal, round_: Round, memory: bytes | None) -> None:
    """Put a finished round on the disk, with the state of its query if that has changed."""
    journal.append({"kind": "round", **asdict(round_)}, memory)


def checkpoint_to_json(checkpoint: Any) -> str:
    """Return the rounds in a checkpoint, of a finished experiment or of one that still runs, as JSON.

    The text is that of `ExperimentResult.to_json`, so `ExperimentResult.from_json` reads it. What the queries remember
    is left out.

    Parameters
    ----------
    checkpoint : path
        File that `run_experiment` writes. It is only read, and may be written to at the same time.

    Returns
    -------
    str
        Runs that have not come to their end have the rounds they have. `ExperimentResult.to_frame` shows them as they
        are; summaries would take them for finished ones.

    Raises
    ------
    ValueError
        If there is no checkpoint at this path, or if it is damaged.
    """
    saved = Checkpoint(checkpoint)
    if saved.settings is None:
        raise ValueError(f"`checkpoint`={str(saved.journal.path)!r} must be the file of an experiment. Got none there.")
    return saved.result().to_json()


def _check_same_settings(path: Path, difference: tuple[str, Any, Any] | None) -> None:
    if difference:
        what, before, now = difference
        raise ValueError(
            f"`checkpoint`={str(path)!r} is of another experiment: its `{what}` was {before!r}, and is {now!r} now. "
            "Give a new path, or the former value."
        )


def _warn_other_versions(path: Path, before: Mapping[str, str], now: Mapping[str, str]) -> None:
    changed = [f"{name} {before.get(name)} (now {now[name]})" for name in now if now[name] != before.get(name)]
    if changed:
        warn(
            f"`checkpoint`={str(path)!r} was begun with {', '.join(changed)}: numbers may differ in the last digits or "
            "more."
        )
