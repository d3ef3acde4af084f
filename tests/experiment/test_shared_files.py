"""One file, several experiments: the same one is joined, another one is refused, and rounds are never mixed."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import load_iris
from sklearn.tree import DecisionTreeClassifier

from skactive import ExperimentResult, StochasticBatchQuery, run_experiment
from skactive.experiment import _experiment

ROOT = Path(__file__).parents[2]
X, Y = load_iris(return_X_y=True)
QUERIES = {"power": StochasticBatchQuery("entropy", "softmax"), "uniform": StochasticBatchQuery("entropy", "uniform")}


def small(checkpoint, **changes):
    options = {"n_initial": 6, "batch_size": 4, "n_rounds": 1, "n_trials": 2, "checkpoint": checkpoint, **changes}
    return run_experiment(DecisionTreeClassifier(max_features=2), QUERIES, X, Y, **options)


def begun_meanwhile(monkeypatch, path, **changes):
    """Let another process begin the file just before this one does."""
    Real = _experiment.Checkpoint

    class Late:
        @staticmethod
        def begin(*args, **options):
            with monkeypatch.context() as undone:
                undone.setattr(_experiment, "Checkpoint", Real)
                small(path, **changes)
            return Real.begin(*args, **options)

    monkeypatch.setattr(_experiment, "Checkpoint", Late)


def test_who_comes_second_with_the_same_call_takes_over_the_seeds_of_the_first(tmp_path, monkeypatch):
    path = tmp_path / "run.sqlite"
    begun_meanwhile(monkeypatch, path)
    second = small(path)
    monkeypatch.undo()
    assert small(path) == second
    assert n_records(path) == 3 + 8


def test_who_comes_second_with_another_call_is_refused(tmp_path, monkeypatch):
    path = tmp_path / "run.sqlite"
    begun_meanwhile(monkeypatch, path)
    for changes in ({"batch_size": 3}, {"random_state": 1}):
        with pytest.raises(ValueError, match=f"is of another experiment: its `{next(iter(changes))}` was not the same"):
            small(path, **changes)


RACER = """
import sys, time, warnings
sys.path.insert(0, sys.argv[3])
from test_shared_files import small
print("ready", flush=True)
sys.stdin.readline()
try:
    print(small(sys.argv[1], batch_size=int(sys.argv[2])).to_json())
except ValueError as error:
    print(f"refused: {error}")
"""


def race(path, sizes):
    """What processes print that begin one file at the same moment."""
    command = [sys.executable, "-c", RACER, str(path)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True, "cwd": ROOT}
    racers = [subprocess.Popen([*command, str(size), str(Path(__file__).parent)], **pipes) for size in sizes]
    for racer in racers:
        assert racer.stdout.readline() == "ready\n"
    for racer in racers:
        racer.stdin.write("go\n")
        racer.stdin.flush()
    return [racer.communicate()[0] for racer in racers]


@pytest.mark.slow
def test_processes_that_begin_one_file_at_the_same_moment_join_or_are_refused(tmp_path):
    same = race(tmp_path / "same", (4, 4))
    assert ExperimentResult.from_json(same[0]).rounds == ExperimentResult.from_json(same[1]).rounds
    assert small(tmp_path / "same").rounds == ExperimentResult.from_json(same[0]).rounds
    other = race(tmp_path / "other", (4, 3))
    (refused,) = [text for text in other if text.startswith("refused")]
    (finished,) = [ExperimentResult.from_json(text) for text in other if text != refused]
    assert "is of another experiment: its `batch_size` was" in refused
    assert n_records(tmp_path / "other") == 3 + len(finished.rounds)


def changed(path, statement):
    """The file after a statement of SQL."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute(statement)
    return path


def n_records(path):
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute("SELECT count(*) FROM records").fetchone()[0]


LAST = "WHERE rowid = (SELECT max(rowid) FROM records)"


def test_a_changed_record_is_refused_and_the_file_left_alone(tmp_path):
    small(path := tmp_path / "run.sqlite", random_state=0, n_trials=1)
    whole = path.read_bytes()
    for statement in (
        f"UPDATE records SET content = replace(content, '0.', '1.') {LAST}",
        f"UPDATE records SET content = x'00' {LAST}",
        f"UPDATE records SET checksum = x'' {LAST}",
        "UPDATE records SET content = replace(content, '3', '4') WHERE rowid = 1",
        "UPDATE records SET content = replace(content, '3', '4') WHERE rowid = 2",
    ):
        path.write_bytes(whole)
        before = changed(path, statement).read_bytes()
        with pytest.raises(ValueError, match=r"`checkpoint`.* is damaged: the checksum of record"):
            small(path, random_state=0, n_rounds=2, n_trials=1)
        assert path.read_bytes() == before, statement


def test_no_changed_byte_is_taken_for_another_result(tmp_path):
    first = small(path := tmp_path / "run.sqlite", random_state=0, n_trials=1)
    whole, refused = path.read_bytes(), 0
    rng = np.random.default_rng(0)
    for position in rng.choice([i for i in range(len(whole)) if whole[i]], 30, replace=False):
        byte = bytes([whole[position] ^ 1 << rng.integers(8)])
        path.write_bytes(whole[:position] + byte + whole[position + 1 :])
        try:
            assert small(path, random_state=0, n_trials=1) == first
        except ValueError:
            refused += 1
    assert refused > 10


def test_rounds_of_another_experiment_in_a_file_are_refused(tmp_path):
    small(path := tmp_path / "one.sqlite", random_state=0)
    small(other := tmp_path / "two.sqlite", random_state=1)
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("ATTACH ? AS other", (str(other),))
        connection.execute(f"DELETE FROM records {LAST}")
        connection.execute("INSERT INTO records SELECT * FROM other.records WHERE key NOT IN (SELECT key FROM records)")
    with pytest.raises(ValueError, match=r"`checkpoint`.* is damaged: the checksum of record"):
        small(path, random_state=0)


def test_a_round_that_is_lost_is_run_again(tmp_path):
    first = small(path := tmp_path / "run.sqlite", random_state=0)
    changed(path, "DELETE FROM records WHERE rowid = 4")
    assert small(path, random_state=0) == first
    assert n_records(path) == 3 + 8
