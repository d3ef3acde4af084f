"""Experiments: whether a query is better than random on some data, by how many labels, and how sure that is.

`run_experiment` makes a plan (`_plan`: splits, first labels, every seed), and does one run (`_run`) for each trial and
query: a loop of rounds, each of which chooses a batch, fits a new model to all labels so far, and scores it on the test
rows. The records of all rounds are an `ExperimentResult` (`_results`). A `_checkpoint` holds them on disk, so that an
experiment that was killed can go on.
"""

from __future__ import annotations

from ._experiment import run_experiment
from ._results import ExperimentResult

__all__ = ["ExperimentResult", "run_experiment"]
