"""Experiments: whether a query beats random choice on some data, by how many labels, and how certain that is.

A call (`_experiment`) is checked, planned and done in runs (`_run`), whose rounds are in a file
(`_checkpoint`) and in what is returned (`_results`).
"""

from ._experiment import run_experiment
from ._results import ExperimentResult

__all__ = ["ExperimentResult", "run_experiment"]
