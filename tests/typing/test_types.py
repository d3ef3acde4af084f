"""What a user's type checker says: nothing of right code, and of a wrong line what is wrong with it."""

import re
import subprocess
import sys
from pathlib import Path
from typing import get_args

import pytest
import user_program

from skactive._utils import types
from skactive.campaign._campaign import TASKS
from skactive.campaign._first_batch import FIRST
from skactive.campaign._ledger import RULES
from skactive.campaign._models import MODELS
from skactive.causal import CausalBALDQuery
from skactive.datasets import TABLES
from skactive.mc_dropout._training import ACTIVATIONS, OPTIMIZERS
from skactive.query import StochasticBatchQuery
from skactive.risk import LOSSES
from skactive.samplers import SAMPLERS
from skactive.scores import SCORES
from skactive.stopping._evidence import MEASURES as STOPPING_MEASURES

HERE = Path(__file__).parent
SETTINGS_OF_A_USER = """
[mypy]
strict = True
mypy_path = {root}
[mypy-skactive.*]
follow_imports = silent
[mypy-sklearn.*,modAL.*,pandas.*,scipy.*,joblib.*,skorch.*,tqdm.*,matplotlib.*]
ignore_missing_imports = True
"""
"""An installed package is silent of itself; the libraries named last have no types."""


@pytest.mark.slow
def test_mypy_strict_reports_every_mistake_on_its_line_and_nothing_of_a_program_that_is_right(tmp_path):
    pytest.importorskip("mypy")
    (tmp_path / "mypy.ini").write_text(SETTINGS_OF_A_USER.format(root=HERE.parents[1]))
    options = ["--config-file", str(tmp_path / "mypy.ini"), "--cache-dir", str(tmp_path / "cache"), "--no-pretty"]
    command = [sys.executable, "-m", "mypy", *options, "user_program.py", "mistakes.py"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=HERE, check=False)
    assert done.stderr == ""
    errors = re.findall(r"^(\S+?):(\d+): error: .*\[([\w-]+)\]$", done.stdout, re.MULTILINE)
    assert len(errors) == done.stdout.count(": error: ")
    lines = (HERE / "mistakes.py").read_text(encoding="utf-8").splitlines()
    marked = {("mistakes.py", str(i), line.split("# mistake: ")[1]) for i, line in enumerate(lines, 1) if "# m" in line}
    assert len(marked) > 20
    assert set(errors) == marked


@pytest.mark.slow
def test_the_program_that_is_right_runs(capsys):
    user_program.main()
    assert "new labels" in capsys.readouterr().out


def scores_of(*tasks):
    return {name for name, score in SCORES.items() if set(tasks) & set(score.tasks)}


REGISTRIES = {
    types.PredictionScore: scores_of("classifier", "regressor"),
    types.OutcomeScore: scores_of("outcomes"),
    types.SamplerName: SAMPLERS,
    types.Activation: ACTIVATIONS,
    types.Optimizer: OPTIMIZERS,
    types.LossName: LOSSES,
    types.StoppingMeasure: STOPPING_MEASURES,
    types.ModelName: MODELS,
    types.Task: TASKS,
    types.DisputeRule: RULES,
    types.FirstRows: FIRST,
    types.TableName: TABLES,
}


def test_the_names_of_a_type_are_those_of_its_registry_and_scores_are_taken():
    for names, registry in REGISTRIES.items():
        assert sorted(get_args(names)) == sorted(registry), "skactive/_utils/types.py lists names for checkers"
    for name in [*get_args(types.PredictionScore), "auto"]:
        StochasticBatchQuery(name).check_parameters()
    for name in get_args(types.OutcomeScore):
        CausalBALDQuery(name, treatment=0).check_parameters()
