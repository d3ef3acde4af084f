"""Every example runs to its end, draws its figures, and says nothing on the error stream."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = sorted((Path(__file__).parent.parent / "examples").glob("plot_*.py"))

RUN = """
import runpy, sys
import matplotlib
matplotlib.use("Agg")
import matplotlib.pyplot as plt
figures = []
plt.show = lambda: (figures.extend(plt.get_fignums()), plt.close("all"))
runpy.run_path(sys.argv[1])
print("figures:", len(figures))
"""


@pytest.mark.slow
@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_runs_without_a_warning_and_shows_a_figure(path):
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-W", "error::UserWarning", "-c", RUN, str(path)]
    run = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=300, check=False)
    assert run.returncode == 0, run.stderr
    assert run.stderr == ""
    assert int(run.stdout.rsplit("figures:", 1)[1]) >= 1


def test_there_are_examples():
    assert {path.stem for path in EXAMPLES} >= {"plot_modal_loop", "plot_mixed_types_pipeline", "plot_sampling_laws"}
