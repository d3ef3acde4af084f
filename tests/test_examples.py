"""Every example runs to its end, draws its figures, and says nothing on the error stream."""

import importlib.util
import os
import re
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


OTHER_MODELS = {  # programs of examples/other_models, by what they import
    "gpytorch_process": "gpytorch",
    "hugging_face": "transformers",
    "laplace_torch": "laplace",
    "torchbnn_layers": "torchbnn",
}
FOLDER = EXAMPLES[0].parent / "other_models"


@pytest.mark.slow
@pytest.mark.parametrize("name", OTHER_MODELS)
def test_draws_of_a_model_of_another_package_pass_the_check(name):
    if importlib.util.find_spec(OTHER_MODELS[name]) is None:
        pytest.skip(f"needs {OTHER_MODELS[name]}: the extras `test-bayes` and `test-hf` bring it")
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-W", "error::UserWarning", FOLDER / f"{name}.py"]
    run = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=300, check=False)
    assert run.returncode == 0, run.stderr
    accuracies = [float(number) for number in re.findall(r"labels: accuracy (\S+)", run.stdout)]
    assert all(accuracy > 0.5 for accuracy in accuracies)  # of ten classes: it has learned
    errors = [float(number) for number in re.findall(r"off by (\S+) g", run.stdout)]
    assert all(error < 600 for error in errors)  # the weights scatter by 800 g
    if name == "gpytorch_process":
        # 2,000 draws: a deviation is off by 1.6 %, and the features of the prior by 2 %.
        off, ratio = re.search(r"draws: (\S+) standard errors off; deviations: (\S+) of", run.stdout).groups()
        assert float(off) < 2
        assert 0.9 < float(ratio) < 1.1


def test_every_program_of_another_package_is_run_calls_the_check_and_is_in_the_guide():
    programs = {path.stem: path.read_text(encoding="utf-8") for path in FOLDER.glob("*.py")}
    assert programs.keys() == OTHER_MODELS.keys()
    guide = "".join(path.read_text(encoding="utf-8") for path in FOLDER.parents[1].glob("docs/user_guide/*.rst"))
    for name, program in programs.items():
        assert "check_posterior(" in program
        assert f"literalinclude:: ../../examples/other_models/{name}.py" in guide
