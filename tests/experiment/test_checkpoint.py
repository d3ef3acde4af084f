"""Checkpoints: what was finished survives a kill, what was damaged is no result, and no two experiments mix."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from contextlib import closing
from pathlib import Path

import killed_experiment
import numpy as np
import pytest
from killed_experiment import experiment, keep_records, records_of
from sklearn.tree import DecisionTreeClassifier

from skactive import ExperimentResult, StochasticBatchQuery, run_experiment
from skactive.experiment import _experiment

ROOT = Path(__file__).parents[2]


def numbers(result):
    """Everything that must be equal; seconds are what they were."""
    result = ExperimentResult.from_json(result) if isinstance(result, str) else result
    return [(r.trial, r.query, r.round, r.n_labelled, r.indices, r.scores) for r in result.rounds]


X = np.random.default_rng(0).normal(size=(60, 3))
Y = np.where(X[:, 0] + X[:, 1] > 0, "yes", "no")


class CountingTree(DecisionTreeClassifier):
    """Fits are counted, and fail or are interrupted while the environment says so."""

    n_fits = 0

    def fit(self, X, y):
        type(self).n_fits += 1
        if "BROKEN" in os.environ and len(y) > 9:
            raise KeyboardInterrupt if os.environ["BROKEN"] == "interrupted" else ArithmeticError("broken")
        return super().fit(X, y)


QUERIES = {"power": StochasticBatchQuery("entropy", "softmax"), "mine": killed_experiment.global_numpy}


def small(checkpoint, **changes):
    """Three rounds of two trials; `changes` of arguments."""
    CountingTree.n_fits = 0
    arguments = {"estimator": CountingTree(max_features=2), "queries": QUERIES, "X": X, "y": Y, "random_state": 0}
    arguments |= {"n_initial": 5, "batch_size": 4, "n_rounds": 2, "n_trials": 2, "checkpoint": checkpoint}
    return run_experiment(**{**arguments, **changes})


@pytest.mark.slow
def test_kill_9_at_any_moment_and_a_new_start_give_the_result_of_an_undisturbed_run(tmp_path):
    command = [sys.executable, killed_experiment.__file__, str(tmp_path), "22", "0"]
    found = json.loads(subprocess.check_output(command, text=True, env={**os.environ, "PYTHONPATH": str(ROOT)}))
    assert len(found["records_at_kill"]) >= 22
    assert len(set(found["records_at_kill"])) > 5  # kills were all over the run, not at its start alone
    for resumed in found["resumed"]:
        assert numbers(resumed) == numbers(found["undisturbed"])


@pytest.mark.slow
def test_kill_9_of_a_run_in_several_processes_and_a_new_start_in_one_give_the_same(tmp_path):
    path = tmp_path / "run.sqlite"
    code = f"from killed_experiment import experiment; experiment({str(path)!r}, n_jobs=2)"
    env = {**os.environ, "PYTHONPATH": f"{ROOT}:{ROOT / 'tests'}", "PYTHONHASHSEED": "1"}
    process = subprocess.Popen([sys.executable, "-c", code], env=env, start_new_session=True)
    while process.poll() is None and records_of(path) <= 20:
        time.sleep(0.01)
    os.killpg(process.pid, signal.SIGKILL)  # with its workers
    assert process.wait() == -signal.SIGKILL
    assert numbers(experiment(path)) == numbers(experiment())


@pytest.mark.parametrize("n_records", [1, 9, 15])
def test_an_experiment_goes_on_from_any_record(n_records, tmp_path):
    path = tmp_path / "run.sqlite"
    first = small(path)
    keep_records(path, n_records)
    resumed = small(path)
    assert resumed == first  # whatever time it took
    n_rounds = max(0, n_records - 3)
    assert [r.fit_seconds for r in resumed.rounds[:n_rounds]] == [r.fit_seconds for r in first.rounds[:n_rounds]]
    # 12 rounds in all; where a run goes on, its last model is fitted once more
    assert CountingTree.n_fits == 12 - n_rounds + (n_rounds % 3 > 0)


def test_queries_and_trials_can_be_added_and_the_rest_stands(tmp_path):
    path = tmp_path / "run.sqlite"
    first, more = small(path), {"uniform": StochasticBatchQuery("entropy", "uniform")}
    second = small(path, queries={**QUERIES, **more}, n_trials=3)
    assert CountingTree.n_fits == 3 * (3 * 3) - 12
    assert [r for r in second.rounds if r.query != "uniform" and r.trial < 2] == list(first.rounds)
    assert small(path, queries=more).queries == ["uniform"]
    assert CountingTree.n_fits == 0


OTHER = {"n_initial": 6, "test_size": 0.3, "batch_size": 3, "stratify": False, "random_state": 1}


def test_a_checkpoint_of_another_experiment_is_refused_with_what_differs(tmp_path):
    path = tmp_path / "run.sqlite"
    small(path)
    before = path.read_bytes()
    for name, changes in [
        ("X", {"X": X + 1e-9}),
        ("y", {"y": np.where(Y == "yes", "Yes", Y)}),
        ("estimator", {"estimator": CountingTree(max_features=1)}),
        ("queries['power']", {"queries": {"power": StochasticBatchQuery("entropy", "softmax", beta=2)}}),
        ("queries['mine']", {"queries": {"mine": lambda learner, X_pool, n_instances: np.arange(n_instances)}}),
        ("scoring", {"scoring": ["accuracy"]}),
        ("budget", {"budget": 8, "n_rounds": None}),
        ("X_test", {"X_test": X, "y_test": Y}),
        *[(name, {name: value}) for name, value in OTHER.items()],
    ]:
        with pytest.raises(ValueError, match=rf"another experiment: its `{re.escape(name)}` was different"):
            small(path, **changes)
        assert path.read_bytes() == before


def test_an_experiment_without_a_seed_goes_on_with_the_seeds_of_its_checkpoint(tmp_path):
    path = tmp_path / "run.sqlite"
    first = small(path, random_state=None)
    assert small(path, random_state=None) == first
    assert numbers(small(None, random_state=None)) != numbers(first)


@pytest.mark.parametrize("removed", [True, False])
def test_a_checkpoint_that_was_removed_or_replaced_by_that_of_another_experiment_gets_no_record(removed, tmp_path):
    path, elsewhere = tmp_path / "run.sqlite", tmp_path / "elsewhere.sqlite"

    def replaces(learner, X_pool, n_instances):
        if path.exists():
            shutil.move(path, tmp_path / "away") if removed else shutil.copy(elsewhere, path)
        return np.arange(n_instances)

    small(elsewhere, queries={"replaces": replaces}, random_state=1, n_trials=1)
    with pytest.raises(ValueError, match=r"`checkpoint`.* was removed or replaced while an experiment wrote to it"):
        small(path, queries={"replaces": replaces}, n_trials=1)
    assert not path.exists() if removed else path.read_bytes() == elsewhere.read_bytes()


@pytest.mark.parametrize("broken", ["fails", "interrupted"])
def test_the_same_call_goes_on_after_a_failure_or_an_interruption(broken, tmp_path, monkeypatch):
    path = tmp_path / "run.sqlite"
    monkeypatch.setenv("BROKEN", broken)
    with pytest.raises((RuntimeError, KeyboardInterrupt), match="Every run failed" if broken == "fails" else None):
        small(path)
    monkeypatch.delenv("BROKEN")
    assert numbers(small(path)) == numbers(small(None))


def test_more_rounds_go_on_and_fewer_show_what_is_there(tmp_path):
    path = tmp_path / "run.sqlite"
    first = small(path, n_rounds=1)
    assert small(path, n_rounds=3).rounds == small(None, n_rounds=3).rounds
    assert small(path, n_rounds=1) == first
    assert CountingTree.n_fits == 0


class Remembers:
    """A strategy with a state."""

    def __init__(self):
        self.rng = np.random.default_rng(5)

    def __call__(self, learner, X_pool, n_instances):
        os.environ["ASKED"] += f" {len(X_pool)}"  # where no checksum looks
        return self.rng.choice(len(X_pool), n_instances, replace=False)


class RemembersScores(Remembers):
    """A score that changes from call to call."""

    def __call__(self, draws):
        if draws.shape[1] > 2:  # not a row that is drawn to look at its shape
            os.environ["ASKED"] += f" {draws.shape[1]}"
        return self.rng.random(draws.shape[1])


@pytest.mark.parametrize(
    ("query", "calls"),
    [
        (StochasticBatchQuery(RemembersScores(), "softmax", posterior="bootstrap", n_draws=2), "32"),  # a clone a batch
        (Remembers(), "40 36 32"),
    ],
    ids=["of this package", "object"],
)
def test_a_killed_run_goes_on_after_its_last_round_or_begins_anew_if_the_query_may_have_a_state(
    query, calls, tmp_path, monkeypatch
):
    path = tmp_path / "run.sqlite"
    options = {"queries": {"query": query}, "n_rounds": 3, "n_trials": 1}
    monkeypatch.setenv("ASKED", "")
    first = small(path, **options)
    keep_records(path, 2 + 3)
    monkeypatch.setenv("ASKED", "")
    assert small(path, **options) == first
    assert os.environ["ASKED"].split() == calls.split()


def test_a_strategy_that_chooses_otherwise_when_its_run_begins_anew_is_refused(tmp_path, monkeypatch):
    path = tmp_path / "run.sqlite"

    def fickle(learner, X_pool, n_instances):
        return np.arange(n_instances) + int(os.environ["FICKLE"])

    options = {"queries": {"fickle": fickle}, "n_trials": 1}
    monkeypatch.setenv("FICKLE", "0")
    small(path, **options)
    keep_records(path, 4)
    monkeypatch.setenv("FICKLE", "1")
    with pytest.raises(ValueError, match=r"has another record of round 1 of query 'fickle' in trial 0"):
        small(path, **options)


def test_what_cannot_be_compared_is_refused_before_anything_runs(tmp_path):
    lock = threading.Lock()
    queries = {"locks": lambda learner, X_pool, n_instances: lock and np.arange(n_instances)}
    with pytest.raises((TypeError, ValueError), match=r"`queries`?\['locks'\]"):
        small(tmp_path / "run.sqlite", queries=queries)
    with pytest.raises(ValueError, match=r"`scoring` cannot be used with `checkpoint`: .*lock"):
        small(tmp_path / "run.sqlite", scoring={"locks": lambda e, X, y: lock and 1.0})
    assert not (tmp_path / "run.sqlite").exists()


def begun_meanwhile(monkeypatch, path, **changes):
    """Let another process begin the file just before the next call does."""
    Real = _experiment.Checkpoint

    class Late:
        @staticmethod
        def begin(*args, **options):
            with monkeypatch.context() as undone:
                undone.setattr(_experiment, "Checkpoint", Real)
                small(path, **changes)
            return Real.begin(*args, **options)

    monkeypatch.setattr(_experiment, "Checkpoint", Late)


def test_who_comes_second_takes_over_the_seeds_of_the_first_or_is_refused(tmp_path, monkeypatch):
    path = tmp_path / "run.sqlite"
    # a class that counts would not be the same in the next call
    options = {"estimator": DecisionTreeClassifier(max_features=2), "random_state": None, "n_rounds": 1}
    begun_meanwhile(monkeypatch, path, **options)
    second = small(path, **options)
    monkeypatch.undo()
    assert small(path, **options) == second
    assert n_records(path) == 3 + 8
    begun_meanwhile(monkeypatch, other := tmp_path / "other.sqlite", **options)
    for changes in ({"batch_size": 3}, {"random_state": 1}):
        with pytest.raises(ValueError, match=f"to another experiment: its `{next(iter(changes))}` was different"):
            small(other, **{**options, **changes})


def execute(path, *statements):
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        return [connection.execute(statement).fetchone() for statement in statements]


def n_records(path):
    return execute(path, "SELECT count(*) FROM records")[0][0]


LAST = "WHERE rowid = (SELECT max(rowid) FROM records)"


def test_a_changed_record_is_refused_and_the_file_left_alone(tmp_path):
    small(path := tmp_path / "run.sqlite", n_trials=1)
    whole = path.read_bytes()
    for statement in (
        f"UPDATE records SET content = replace(content, '0.', '1.') {LAST}",
        f"UPDATE records SET content = x'00' {LAST}",
        f"UPDATE records SET checksum = x'' {LAST}",
        "UPDATE records SET content = replace(content, '3', '4') WHERE rowid = 1",
        "UPDATE records SET content = replace(content, '3', '4') WHERE rowid = 2",
    ):
        path.write_bytes(whole)
        execute(path, statement)
        before = path.read_bytes()
        with pytest.raises(ValueError, match=r"`checkpoint`.* is damaged: the checksum of record"):
            small(path, n_rounds=3, n_trials=1)
        assert path.read_bytes() == before, statement


def test_no_changed_byte_is_taken_for_another_result(tmp_path):
    first = small(path := tmp_path / "run.sqlite", n_trials=1)
    whole, refused = path.read_bytes(), 0
    rng = np.random.default_rng(0)
    for position in rng.choice([i for i in range(len(whole)) if whole[i]], 30, replace=False):
        byte = bytes([whole[position] ^ 1 << rng.integers(8)])
        path.write_bytes(whole[:position] + byte + whole[position + 1 :])
        try:
            assert small(path, n_trials=1) == first
        except ValueError:
            refused += 1
    assert refused > 10


def test_rounds_of_another_experiment_in_a_file_are_refused(tmp_path):
    small(path := tmp_path / "one.sqlite")
    small(other := tmp_path / "two.sqlite", random_state=1)
    missing = "SELECT * FROM other.records WHERE key NOT IN (SELECT key FROM records)"
    execute(path, f"ATTACH '{other}' AS other", f"DELETE FROM records {LAST}", f"INSERT INTO records {missing}")
    with pytest.raises(ValueError, match=r"`checkpoint`.* is damaged: the checksum of record"):
        small(path)


def test_a_round_that_is_lost_is_run_again(tmp_path):
    first = small(path := tmp_path / "run.sqlite")
    execute(path, "DELETE FROM records WHERE rowid = 4")
    assert small(path) == first
    assert n_records(path) == 3 + 12
