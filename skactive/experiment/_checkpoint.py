"""An experiment on disk: what is run, then every finished round, in an SQLite file to which records are only added.

SQLite lets one process write at a time and rolls back what a killed process left unfinished. It finds damaged pages,
but not every changed byte in a page, so each record has a checksum. That of a round covers the settings and the query
that it belongs to: rounds of other settings, seeds or queries are never taken for those of this experiment.
"""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

from .. import __version__
from .._utils.fingerprint import digest
from .._utils.sqlite import Connection, Kind, SqliteFile, checksum
from .._utils.validation import warn
from ._results import Round

_KIND = Kind(
    parameter="`checkpoint`",
    noun="the checkpoint of an experiment",
    application=b"skac",
    layout=3,
    tables=("CREATE TABLE records (key TEXT PRIMARY KEY, content TEXT NOT NULL, checksum BLOB NOT NULL)",),
    patience=600.0,  # a write takes milliseconds, but many processes on a slow disk take turns
)
_ADD = "INSERT INTO records (key, content, checksum) VALUES (?, ?, ?)"
# as blobs, because damage can change the type of a value
_ONE = "SELECT CAST(content AS BLOB), CAST(checksum AS BLOB) FROM records WHERE key = ?"


@dataclass(frozen=True)
class Checkpoint:
    """The file of an experiment that has begun; worker processes hold copies of this object."""

    file: SqliteFile
    entropy: list[int]  # the seeds of the experiment
    experiment: str  # checksum of all settings, seeds included
    queries: Mapping[str, str]  # checksums of the queries
    owner: int  # id of the process that began

    @classmethod
    def begin(
        cls, path: Any, settings: dict[str, Any], queries: Mapping[str, Any], entropy: list[int], *, any_seed: bool
    ) -> Checkpoint:
        """Go on if these are the settings of the file, or start the file. Queries may be added or left out.

        With ``any_seed`` the seeds are those of the file, which another process may have begun a moment ago.
        """
        file = SqliteFile(Path(path).absolute(), _KIND)
        now: dict[str, Any] = {"settings": _digests(settings), "random_state": entropy, "versions": versions()}
        digests = _digests({f"queries[{name!r}]": query for name, query in queries.items()})
        with file.writing(create=True) as connection:
            file.check_integrity(connection)
            begun = _read(file, connection, ["settings"]) or _added(connection, ["settings"], now)
            entropy = begun["random_state"] if any_seed else entropy
            _check_same(file, begun["settings"], now["settings"])
            _check_same(file, {"random_state": begun["random_state"]}, {"random_state": entropy})
            for name, query in digests.items():
                before = _read(file, connection, ["query", name]) or _added(connection, ["query", name], query)
                _check_same(file, {name: before}, {name: query})
        before, now = begun["versions"], versions()
        changed = [f"{name} {before.get(name)} (now {now[name]})" for name in now if now[name] != before.get(name)]
        if changed:
            warn(f"{file} was written with {', '.join(changed)}: results may differ, in the last digits or by more.")
        experiment = digest([begun["settings"], entropy])
        return cls(file, entropy, experiment, dict(zip(queries, digests.values(), strict=True)), os.getpid())

    def rounds(self, query: str, trial: int) -> list[Round]:
        rounds: list[Round] = []
        with self.file.reading() as connection:
            while found := self._read_round(connection, trial, query, len(rounds)):
                rounds.append(found)
        return rounds

    def append(self, round_: Round) -> None:
        """Put a finished round on the disk, or compare it with the one that is there."""
        if self.owner not in (os.getpid(), os.getppid()):
            raise SystemExit(1)  # the process that this one works for was killed; its successor does the work now
        if not self.file.path.exists():
            raise self._removed_error()
        with self.file.writing() as connection:
            self._check_still_there(connection, round_.query)
            known = self._read_round(connection, round_.trial, round_.query, round_.round)
            if known is None:
                key = ["round", round_.trial, round_.query, round_.round]
                _added(connection, key, asdict(round_), self._part_of(round_.query))
            elif known != round_:
                raise ValueError(
                    f"{self.file} has another record of round {round_.round} of query {round_.query!r} in trial "
                    f"{round_.trial}: the query or the estimator did not repeat itself. Give a new path."
                )

    def _part_of(self, query: str) -> str:
        return self.experiment + self.queries[query]

    def _read_round(self, connection: Connection, trial: int, query: str, number: int) -> Round | None:
        found = _read(self.file, connection, ["round", trial, query, number], self._part_of(query))
        return None if found is None else Round.from_dict(found)

    def _check_still_there(self, connection: Connection, query: str) -> None:
        begun = _read(self.file, connection, ["settings"])
        experiment = begun and digest([begun["settings"], begun["random_state"]])
        known = _read(self.file, connection, ["query", f"queries[{query!r}]"])
        if (experiment, known) != (self.experiment, self.queries[query]):
            raise self._removed_error()

    def _removed_error(self) -> ValueError:
        return ValueError(
            f"{self.file} was removed or replaced while an experiment wrote to it. This file was not changed. Give a "
            "path that no other experiment uses."
        )


def versions() -> dict[str, str]:
    names = ("joblib", "modAL-python", "numpy", "scikit-learn", "scipy", "skorch", "torch")
    return {"python": platform.python_version(), "skactive": __version__} | {
        name: metadata.version(name) for name in names
    }


def _digests(values: Mapping[str, Any]) -> dict[str, str]:
    digests = {}
    for name, value in values.items():
        try:
            digests[name] = digest(value)
        except ValueError as error:
            raise ValueError(f"`{name}` cannot be used with `checkpoint`: {error}") from error
    return digests


def _added(connection: Connection, key: list[Any], content: Any, part_of: str = "") -> Any:
    name, text = json.dumps(key), json.dumps(content, separators=(",", ":"))
    connection.execute(_ADD, (name, text, checksum(part_of.encode(), name.encode(), text.encode())))
    return content


def _read(file: SqliteFile, connection: Connection, key: list[Any], part_of: str = "") -> Any:
    name = json.dumps(key)
    found = connection.execute(_ONE, (name,)).fetchone()
    if found is None:
        return None
    content, known = found
    if known != checksum(part_of.encode(), name.encode(), content):
        raise file.damaged(f"the checksum of record {name} is wrong")
    return json.loads(content)


def _check_same(file: SqliteFile, before: Mapping[str, Any], now: Mapping[str, Any]) -> None:
    for name in (*before, *now):
        if before.get(name) != now.get(name):
            raise ValueError(
                f"{file} belongs to another experiment: its `{name}` was different. Give a new path, or the former "
                "value. Functions and classes of your own count by their code and by what it uses."
            )
