"""Every example runs to its end, draws figures that can be read and are told in words, and says nothing on stderr."""

import importlib.metadata
import importlib.util
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
EXAMPLES = sorted((ROOT / "examples").glob("plot_*.py"))

spec = importlib.util.spec_from_file_location("gallery", ROOT / "docs" / "gallery.py")
gallery = importlib.util.module_from_spec(spec)
spec.loader.exec_module(gallery)

RUN = """
import json, runpy, sys
sys.path.insert(0, sys.argv[2])
import matplotlib
matplotlib.use("Agg")
import matplotlib.pyplot as plt
from pictures import faults
figures = []
def show():
    figures.extend(list(faults(plt.figure(number))) for number in plt.get_fignums())
    plt.close("all")
plt.show = show
runpy.run_path(sys.argv[1])
print(json.dumps(figures))
"""


@pytest.mark.slow
@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_runs_without_a_warning_and_its_figures_can_be_read_and_are_told(path):
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-W", "error::UserWarning", "-c", RUN, str(path), str(ROOT / "tests")]
    run = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=300, check=False)
    assert run.returncode == 0, run.stderr
    assert run.stderr == ""
    *printed, figures = run.stdout.splitlines()
    found = json.loads(figures)
    assert found
    assert found == [[]] * len(gallery.told(path.read_text(encoding="utf-8")))
    if path.stem in gallery.FIRST:
        assert re.search(r"\d", printed[-1])  # an answer


def test_the_first_examples_compare_queries_in_paired_trials_with_the_displays_of_the_package():
    in_order = sorted(EXAMPLES, key=lambda path: gallery.place(path.name))
    assert [path.stem for path in in_order[: len(gallery.FIRST)]] == list(gallery.FIRST)
    for path in in_order[:3]:
        code = path.read_text(encoding="utf-8")
        assert "run_experiment(" in code
        assert "Display.from_result(result" in code


OTHER_MODELS = {  # programs of examples/other_models, and the package that each needs
    "gpytorch_process": "gpytorch",
    "hugging_face": "transformers",
    "laplace_torch": "laplace-torch",
    "torchbnn_layers": "torchbnn",
}
FOLDER = EXAMPLES[0].parent / "other_models"


@pytest.mark.slow
@pytest.mark.parametrize("name", OTHER_MODELS)
def test_draws_of_a_model_of_another_package_pass_the_check(name):
    if not [*importlib.metadata.distributions(name=OTHER_MODELS[name])]:
        pytest.skip(f"needs {OTHER_MODELS[name]}: the extras `test-bayes` and `test-hf` bring it")
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-W", "error::UserWarning", FOLDER / f"{name}.py"]
    run = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=300, check=False)
    assert run.returncode == 0, run.stderr
    accuracies = [float(number) for number in re.findall(r"labels: accuracy (\S+)", run.stdout)]
    assert all(accuracy > 0.5 for accuracy in accuracies)  # of ten classes: it has learned
    errors = [float(number) for number in re.findall(r"off by (\S+) g", run.stdout)]
    assert all(error < 600 for error in errors)  # the weights scatter by 800 g


def test_every_program_of_another_package_is_run_calls_the_check_and_is_in_the_guide():
    programs = {path.stem: path.read_text(encoding="utf-8") for path in FOLDER.glob("*.py")}
    assert programs.keys() == OTHER_MODELS.keys()
    guide = "".join(path.read_text(encoding="utf-8") for path in FOLDER.parents[1].glob("docs/user_guide/*.rst"))
    for name, program in programs.items():
        assert "check_posterior(" in program
        assert f"literalinclude:: ../../examples/other_models/{name}.py" in guide
