"""An experiment on disk: a journal of what is run, then of every finished round with what the query remembers.

Each record says what it is part of: the first of its experiment, which is a checksum of all settings but the number of
rounds; others of a query in it, which is a checksum of that and of the query's description. So the rounds of other
settings, seeds or queries are never taken for those of this experiment.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from .._checks import shown, warn
from .._fingerprint import digest, first_difference
from ._journal import Journal, Record
from ._results import ExperimentResult, Round

_MAY_GROW = "n_rounds"  # a number of which no round depends


@dataclass
class Progress:
    """How far one run has come: its finished rounds, and the state of its query if that ever changed."""

    rounds: list[Round] = field(default_factory=list)
    memory: bytes | None = None
    part_of: str = ""

    def up_to(self, n_rounds: int | None) -> Progress:
        """Without rounds that are not asked for."""
        return self if n_rounds is None else Progress(self.rounds[: n_rounds + 1], self.memory, self.part_of)


class Checkpoint:
    """The file of an experiment, read when this object is made and when the experiment begins.

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
        self._read(records)

    def _read(self, records: list[Record]) -> None:
        self.settings: dict[str, Any] | None = None
        self.versions: dict[str, str] = {}
        self.queries: dict[str, Any] = {}
        self._progress: dict[tuple[str, int], Progress] = {}
        self._digests: dict[str | None, str] = {}
        for record in records:
            content = dict(record.content)
            kind = content.pop("kind")
            if (kind == "settings") != (self.settings is None):
                raise _mixed_error(self.journal.path)
            if kind == "settings":
                self.settings, self.versions = content["settings"], content["versions"]
            elif kind == "query":
                self.queries[content["name"]] = content["description"]
            if record.part_of != (self._part_of() if kind == "settings" else self._part_of(_query_of(content))):
                raise _mixed_error(self.journal.path)
            if kind == "round":
                self._read_round(Round.from_dict(content), record.memory)

    def _read_round(self, round_: Round, memory: bytes | None) -> None:
        progress = self.progress_of(round_.query, round_.trial)
        if round_.round == len(progress.rounds):
            progress.rounds.append(round_)
            progress.memory = progress.memory if memory is None else memory
        elif round_ not in progress.rounds[round_.round :][:1]:  # else found twice, by processes side by side
            raise ValueError(
                f"`checkpoint`={str(self.journal.path)!r} has two different records of round {round_.round} of query "
                f"{round_.query!r} in trial {round_.trial}: two processes wrote to it, and found different numbers "
                "from the same seed. Give a new path, and let one process at a time write to it."
            )

    def _part_of(self, query: str | None = None) -> str:
        """What a record of the experiment, or of one of its queries, is part of."""
        if query not in self.queries and query is not None:
            return digest([_without_growth(self.settings or {}), query, None])
        if query not in self._digests:  # neither settings nor the description of a query change once they are there
            settings = _without_growth(self.settings or {})
            self._digests[query] = digest(settings if query is None else [settings, query, self.queries[query]])
        return self._digests[query]

    def progress_of(self, query: str, trial: int) -> Progress:
        """How far a run has come."""
        if (query, trial) not in self._progress:
            self._progress[query, trial] = Progress(part_of=self._part_of(query))
        return self._progress[query, trial]

    @property
    def n_rounds(self) -> int:
        """How many finished rounds of all runs are in the file."""
        return sum(len(progress.rounds) for progress in self._progress.values())

    def begin(
        self, settings: dict[str, Any], queries: dict[str, Any], versions: dict[str, str], *, any_seed: bool
    ) -> list[int]:
        """Go on if these are the settings of the file, or start the file. Queries may be added or left out.

        Returns the seeds to go on with. With ``any_seed`` they are those of the file, which another process may have
        begun a moment ago.
        """

        def what_to_add(records: list[Record]) -> list[Record]:
            self._read(records)
            return self._new_records(settings, queries, versions, any_seed)

        return self.journal.begin(what_to_add)[0].content["settings"]["random_state"]

    def _new_records(
        self, settings: dict[str, Any], queries: dict[str, Any], versions: dict[str, str], any_seed: bool
    ) -> list[Record]:
        new = []
        if self.settings is None:
            self.settings, self.versions = settings, versions
            new.append(Record(self._part_of(), {"kind": "settings", "settings": settings, "versions": versions}))
        seed = {"random_state": self.settings["random_state"]} if any_seed else {}
        now = _without_growth({**settings, **seed})
        _check_same_settings(self.journal.path, first_difference(_without_growth(self.settings), now))
        _warn_other_versions(self.journal.path, self.versions, versions)
        for name, description in queries.items():
            if name not in self.queries:
                self.queries[name] = description
                content = {"kind": "query", "name": name, "description": description}
                new.append(Record(self._part_of(name), content))
            difference = first_difference(self.queries[name], description, f"queries[{name!r}]")
            _check_same_settings(self.journal.path, difference)
        return new

    def result(self) -> ExperimentResult:
        """All rounds in the file, in the order of a finished experiment."""
        names = list(self.queries)
        runs = sorted(self._progress, key=lambda run: (run[1], names.index(run[0])))
        rounds = tuple(round_ for run in runs for round_ in self._progress[run].rounds)
        settings = dict(self.settings or {})
        if settings.get(_MAY_GROW) is not None:
            settings[_MAY_GROW] = max([settings[_MAY_GROW], *(round_.round for round_ in rounds)])
        return ExperimentResult(rounds, (), {**settings, "queries": self.queries, "versions": self.versions})


def save_round(journal: Journal, part_of: str, round_: Round, memory: bytes | None) -> None:
    """Put a finished round on the disk, with the state of its query if that has changed."""
    journal.append(Record(part_of, {"kind": "round", **asdict(round_)}, memory))


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

    See Also
    --------
    run_experiment : Writes the checkpoint.
    ExperimentResult : Its ``from_json`` reads the text.
    """
    saved = Checkpoint(checkpoint)
    if saved.settings is None:
        raise ValueError(f"`checkpoint`={str(saved.journal.path)!r} must be the file of an experiment. Got none there.")
    return saved.result().to_json()


def _query_of(content: Mapping[str, Any]) -> str:
    return content["name"] if "name" in content else content["query"]


def _without_growth(settings: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in settings.items() if name != _MAY_GROW}


def _mixed_error(path: Path) -> ValueError:
    return ValueError(f"`checkpoint`={str(path)!r} has records that belong to another experiment. Give a new path.")


def _check_same_settings(path: Path, difference: tuple[str, Any, Any] | None) -> None:
    if difference:
        what, before, now = difference
        raise ValueError(
            f"`checkpoint`={str(path)!r} is of another experiment: its `{what}` was {shown(before)}, and is "
            f"{shown(now)} now. Give a new path, or the former value."
        )


def _warn_other_versions(path: Path, before: Mapping[str, str], now: Mapping[str, str]) -> None:
    changed = [f"{name} {before.get(name)} (now {now[name]})" for name in now if now[name] != before.get(name)]
    if changed:
        warn(
            f"`checkpoint`={str(path)!r} was begun with {', '.join(changed)}: numbers may differ in the last digits or "
            "more."
        )
