"""Every picture of the project can be read: in its size, and with every common kind of colour vision."""

from __future__ import annotations

import importlib
import json
from pathlib import Path

import matplotlib
import matplotlib.pyplot as plt
import pytest
from pictures import PAGE, faults

matplotlib.use("agg")
ROOT = Path(__file__).parents[1]
STUDIES = ROOT / "examples" / "paper"
RESULTS = sorted((ROOT / "docs" / "paper").glob("*.json"))


@pytest.fixture(autouse=True)
def closed_figures():
    yield
    plt.close("all")


@pytest.mark.slow
@pytest.mark.parametrize("path", RESULTS, ids=lambda path: path.stem)
def test_the_figure_of_a_study_is_of_the_palette_and_can_be_read_on_the_page(path, monkeypatch):
    monkeypatch.syspath_prepend(str(STUDIES))
    study = importlib.import_module(path.stem)
    with matplotlib.rc_context(fname=ROOT / "docs" / "page.mplstyle"):
        figure = study.draw(json.loads(path.read_text(encoding="utf-8"))["findings"])
        assert figure.get_figwidth() == PAGE
        assert list(faults(figure)) == []


def test_the_figure_of_the_front_page_can_be_read_there(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "docs" / "images"))
    front = importlib.import_module("fewer_labels")
    with matplotlib.rc_context():
        found = json.loads(front.RESULTS.read_text(encoding="utf-8"))
        assert list(faults(front.draw(found), shown=460 / 96)) == []
