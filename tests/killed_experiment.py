"""An experiment whose process is killed again and again, for tests/experiment/test_checkpoint.py.

``python killed_experiment.py FOLDER N_KILLS SEED`` runs it undisturbed, and in processes that are killed at random
moments; it prints the results as JSON, and how many records were in the checkpoint at each kill.
"""

import json
import os
import signal
import sqlite3
import sys
import time
from contextlib import closing
from pathlib import Path

import numpy as np
from sklearn.datasets import load_iris
from sklearn.linear_model import LogisticRegression

from skactive import StochasticBatchQuery, run_experiment


class Learning:
    """A strategy with a memory: its generator goes on, and what it chose before sways what it chooses next."""

    def __init__(self):
        self.rng = np.random.default_rng(5)
        self.history = []

    def __call__(self, learner, X_pool, n_instances=1):
        self.history.append(float(learner.predict_proba(X_pool).max(axis=1).mean()))
        weights = 1e-3 + (1 - learner.predict_proba(X_pool).max(axis=1)) ** sum(self.history)
        return self.rng.choice(len(X_pool), n_instances, replace=False, p=weights / weights.sum())


def global_numpy(learner, X_pool, n_instances=1):
    return np.random.permutation(len(X_pool))[:n_instances]  # noqa: NPY002 - as users do


QUERIES = {"power": StochasticBatchQuery("entropy"), "learning": Learning(), "global": global_numpy}


def experiment(checkpoint=None, **more):
    X, y = load_iris(return_X_y=True)
    return run_experiment(
        LogisticRegression(solver="saga", max_iter=20, tol=0.1),  # its solver is random
        QUERIES,
        X,
        y,
        **{"n_initial": 6, "batch_size": 4, "n_rounds": 6, "n_trials": 2, "scoring": ["accuracy", "neg_log_loss"]},
        **{"random_state": 3, "checkpoint": checkpoint, **more},
    )


def in_a_process(function):
    """Start a process for a function, and return its id."""
    child = os.fork()
    if child == 0:
        function()
        os._exit(0)
    return child


def records_of(checkpoint):
    """Records in a checkpoint that another process may be writing; none that can be read yet is none."""
    try:
        with closing(sqlite3.connect(f"{checkpoint.absolute().as_uri()}?mode=ro", uri=True)) as connection:
            return connection.execute("SELECT count(*) FROM records").fetchone()[0]
    except sqlite3.OperationalError:  # no file, no table, or a write that was cut off
        return 0


def keep_records(checkpoint, n):
    """Leave the first records of a checkpoint, as if it had been interrupted after them."""
    with closing(sqlite3.connect(checkpoint, isolation_level=None)) as connection:
        connection.execute("DELETE FROM records WHERE rowid > ?", (n,))


def tear(checkpoint):
    """Be killed within a write, with a part of it on the disk."""
    connection = sqlite3.connect(checkpoint, isolation_level=None)
    connection.execute("PRAGMA cache_size = 1")  # pages are on the disk before the end of the transaction
    connection.execute("BEGIN IMMEDIATE")
    connection.execute("UPDATE records SET content = 'half'")
    for i in range(1000, 1100):
        connection.execute("INSERT INTO records VALUES (?, zeroblob(3000), x'')", (str(i),))
    os.kill(os.getpid(), signal.SIGKILL)


def main(folder, n_kills, seed):
    rng = np.random.default_rng(int(seed))
    start = time.perf_counter()
    undisturbed = experiment()
    seconds_a_round = (time.perf_counter() - start) / len(undisturbed.rounds)
    records_at_kill, resumed = [], []
    while len(records_at_kill) < int(n_kills) or not resumed:
        checkpoint = Path(folder) / f"run{len(resumed)}.sqlite"
        alive = True
        while alive:
            process = in_a_process(lambda: experiment(checkpoint))  # noqa: B023
            alive = wait_for_records(process, checkpoint, records_of(checkpoint) + rng.integers(6))
            time.sleep(rng.uniform(0, 2 * seconds_a_round))
            alive = alive and kill(process)
            records_at_kill += [records_of(checkpoint)] * alive
            if rng.random() < 0.3 and records_of(checkpoint):
                os.waitpid(in_a_process(lambda: tear(checkpoint)), 0)  # noqa: B023
        resumed.append(experiment(checkpoint).to_json())
    print(json.dumps({"undisturbed": undisturbed.to_json(), "resumed": resumed, "records_at_kill": records_at_kill}))


def wait_for_records(process, checkpoint, n):
    """Wait until a process has come some way; whether it is still there."""
    while records_of(checkpoint) < n:
        if os.waitpid(process, os.WNOHANG)[0]:
            return False
        time.sleep(0.001)
    return True


def kill(process):
    """Kill -9 a process; whether it was still there."""
    os.kill(process, signal.SIGKILL)
    return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]) == -signal.SIGKILL


if __name__ == "__main__":
    main(*sys.argv[1:])
