"""One file, several experiments: the same one is joined, another one is refused, and rounds are never mixed."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest
from sklearn.datasets import load_iris
from sklearn.tree import DecisionTreeClassifier

from skactive import ExperimentResult, StochasticBatchQuery, run_experiment
from skactive.experiment import _experiment, checkpoint_to_json
from skactive.experiment._checkpoint import Checkpoint
from skactive.experiment._journal import Journal, Record

ROOT = Path(__file__).parents[2]
X, Y = load_iris(return_X_y=True)
QUERIES = {"power": StochasticBatchQuery("entropy", "softmax"), "uniform": StochasticBatchQuery("entropy", "uniform")}


def small(checkpoint, **changes):
    options = {"n_initial": 6, "batch_size": 4, "n_rounds": 2, "n_trials": 2, "checkpoint": checkpoint, **changes}
    return run_experiment(DecisionTreeClassifier(max_features=2), QUERIES, X, Y, **options)


def begun_meanwhile(monkeypatch, path, **changes):
    """Let another process begin the file after this one has found none there."""
    Real = _experiment.Checkpoint

    def opened(given):
        saved = Real(given)
        with monkeypatch.context() as undone:
            undone.setattr(_experiment, "Checkpoint", Real)
            small(path, **changes)
        return saved

    monkeypatch.setattr(_experiment, "Checkpoint", opened)


def test_who_comes_second_with_the_same_call_takes_over_the_seeds_of_the_first(tmp_path, monkeypatch):
    path = tmp_path / "run.sqlite"
    begun_meanwhile(monkeypatch, path)
    second = small(path)
    monkeypatch.undo()
    assert small(path) == second
    assert ExperimentResult.from_json(checkpoint_to_json(path)).rounds == second.rounds


@pytest.mark.parametrize(
    ("first", "second", "what"),
    [
        ({}, {"batch_size": 3}, "batch_size"),
        ({"random_state": 0}, {"random_state": 1}, r"random_state\[0\]"),
        ({}, {"random_state": 1}, r"random_state\[0\]"),
    ],
)
def test_who_comes_second_with_another_call_is_refused(first, second, what, tmp_path, monkeypatch):
    path = tmp_path / "run.sqlite"
    begun_meanwhile(monkeypatch, path, **first)
    with pytest.raises(ValueError, match=f"is of another experiment: its `{what}` was"):
        small(path, **second)


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
@pytest.mark.parametrize("number", range(4))
def test_processes_that_begin_one_file_at_the_same_moment_join_or_are_refused(number, tmp_path):
    same = race(tmp_path / "same", (4, 4))
    assert ExperimentResult.from_json(same[0]).rounds == ExperimentResult.from_json(same[1]).rounds
    assert small(tmp_path / "same").rounds == ExperimentResult.from_json(same[0]).rounds
    other = race(tmp_path / "other", (4, 3))
    (refused,) = [text for text in other if text.startswith("refused")]
    (finished,) = [ExperimentResult.from_json(text) for text in other if text != refused]
    assert "is of another experiment: its `batch_size` was" in refused
    assert ExperimentResult.from_json(checkpoint_to_json(tmp_path / "other")).rounds == finished.rounds


def edited(path, change):
    """Change the records of a file as lists, checksums included."""
    records = change(Journal.open(path)[1])
    path.unlink()
    Journal.open(path)[0].begin(lambda _: records)
    return path


@pytest.mark.parametrize(
    "change",
    [
        lambda records: records[1:],
        lambda records: [records[0], *records],
        lambda records: [records[0], records[2], *records[3:]],
    ],
    ids=["no settings", "settings twice", "rounds of an unknown query"],
)
def test_records_that_do_not_say_of_which_experiment_they_are_are_refused(change, tmp_path):
    small(path := tmp_path / "run.sqlite", random_state=0)
    with pytest.raises(ValueError, match=r"`checkpoint`.* has records that belong to another experiment"):
        small(edited(path, change), random_state=0)


def test_rounds_of_two_experiments_in_one_file_are_refused(tmp_path):
    small(one := tmp_path / "one.sqlite", random_state=0)
    small(two := tmp_path / "two.sqlite", random_state=1)
    others = Journal.open(two)[1]
    with pytest.raises(ValueError, match=r"`checkpoint`.* has records that belong to another experiment"):
        small(edited(one, lambda records: [*records, others[-1]]), random_state=0)


def test_rounds_found_twice_are_taken_once_and_refused_if_they_differ(tmp_path):
    first = small(path := tmp_path / "run.sqlite", random_state=0)
    edited(path, lambda records: [*records, records[3], records[4]])
    assert small(path, random_state=0) == first
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("SELECT count(*) FROM records").fetchone() == (3 + 12 + 2,)

    def with_another(records):
        content = {**records[-1].content, "scores": {"score": 0.5}}
        return [*records, Record(records[-1].part_of, content)]

    with pytest.raises(ValueError, match=r"`checkpoint`.* has two different records of round \d of query '\w+'"):
        small(edited(path, with_another), random_state=0)


def test_a_file_that_is_removed_and_begun_afresh_holds_only_what_is_its_own(tmp_path, monkeypatch):
    path, calls = tmp_path / "run.sqlite", []

    def begins_again(estimator, X, y):
        calls.append(1)
        if len(calls) == 3:
            path.unlink()
            small(path)
        return estimator.score(X, y)

    queries = {"power": QUERIES["power"]}
    with pytest.raises(ValueError, match=r"`checkpoint`.* was removed or replaced while an experiment wrote to it"):
        run_experiment(
            DecisionTreeClassifier(max_features=2),
            *(queries, X, Y),
            **{"n_initial": 6, "batch_size": 4, "n_rounds": 2, "n_trials": 2, "checkpoint": path},
            scoring={"score": begins_again},
        )
    assert Checkpoint(path).n_rounds == 12
    assert small(path).rounds == ExperimentResult.from_json(checkpoint_to_json(path)).rounds
