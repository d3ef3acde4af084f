"""Notebooks, run for real by a kernel of Jupyter: what its cells show of results and of progress."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

nbformat = pytest.importorskip("nbformat", reason="the extra `test` brings nbclient")
nbclient = pytest.importorskip("nbclient", reason="the extra `test` brings it")
pytest.importorskip("ipykernel", reason="the extra `test` brings it")
pytest.importorskip("ipywidgets", reason="the extra `test` brings it")

ROOT = Path(__file__).parents[1]
WIDGET = "application/vnd.jupyter.widget-view+json"
WIDGET_STATES = "application/vnd.jupyter.widget-state+json"
EXPERIMENT = """
from sklearn.datasets import load_iris
from sklearn.linear_model import LogisticRegression
from skactive import StochasticBatchQuery, run_experiment
from skactive.risk import RiskEstimate
X, y = load_iris(return_X_y=True)
queries = {"power": StochasticBatchQuery("entropy", random_state=0)}
options = {"n_initial": 6, "n_rounds": 1, "n_trials": 2, "batch_size": 4, "random_state": 0}
result = run_experiment(LogisticRegression(max_iter=1000), queries, X, y, verbose=1, **options)
StochasticBatchQuery("entropy", random_state=0, verbose=1).select(LogisticRegression(max_iter=1000).fit(X, y), X, 3)
"""


@pytest.fixture
def outputs_of(tmp_path, monkeypatch):
    """A function that runs cells in a new kernel: what each of them puts out, and the widgets at the end."""
    for name in ("IPYTHONDIR", "JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR"):
        monkeypatch.setenv(name, str(tmp_path / name))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")])))

    def run(*cells):
        notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
        where = {"metadata": {"path": str(tmp_path)}}
        nbclient.NotebookClient(notebook, timeout=120, kernel_name="python3", resources=where).execute()
        widgets = notebook.metadata.get("widgets", {}).get(WIDGET_STATES, {}).get("state", {})
        return [cell.outputs for cell in notebook.cells], [widget["state"] for widget in widgets.values()]

    return run


@pytest.mark.slow
def test_bars_are_widgets_and_results_tables(outputs_of):
    cells = [EXPERIMENT, "result", "result.summary()", "RiskEstimate(0.125, 0.02, n_labelled=60, n_pool=1000)"]
    (shown, *results), widgets = outputs_of(*cells)
    assert [output.output_type for output in shown] == ["display_data", "display_data", "execute_result"]
    assert all(WIDGET in output.data for output in shown[:2])
    texts = [output.data["text/plain"] for output in shown[:2]]
    assert [text.partition(":")[0] for text in texts] == ["queries x trials", "scoring"]
    bars = [widget for widget in widgets if widget["_model_name"] == "FloatProgressModel"]
    assert [(bar["value"], bar["max"], bar["bar_style"]) for bar in bars] == [(2, 2, "success"), (150, 150, "success")]
    for (output,) in results:
        assert output.data["text/html"].startswith('<div class="tex2jax_ignore')
