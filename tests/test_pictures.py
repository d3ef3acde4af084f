"""Every picture of the project can be read: in its size, and with every common kind of colour vision."""

from __future__ import annotations

import importlib
import json
from pathlib import Path

import matplotlib
import matplotlib.pyplot as plt
import pytest
from pictures import PAGE, faults

from skactive.plotting import _drawing as drawing

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


def test_the_figure_of_every_study_is_told_in_words(monkeypatch):
    monkeypatch.syspath_prepend(str(STUDIES))
    for path in RESULTS:
        study = importlib.import_module(path.stem)
        assert study.ALT != study.TITLE, path
        assert len(study.ALT.split()) >= 12, path
        assert study.ALT.endswith("."), path


def test_the_figure_of_the_front_page_can_be_read_there(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "docs" / "images"))
    front = importlib.import_module("fewer_labels")
    with matplotlib.rc_context():
        findings = json.loads(front.RESULTS.read_text(encoding="utf-8"))["findings"]
        assert list(faults(front.draw(findings), shown=460 / 96)) == []


def figure_of_lines(*looks, size=(6, 4), **text):
    figure, ax = plt.subplots(figsize=size, layout="constrained")
    for i, look in enumerate(looks):
        ax.plot([0, 1], [i, i + 1], label=f"line {i}", **look)
    ax.set_xlabel("labels", **text)
    return figure


def test_looks_of_the_palette_have_no_fault():
    assert list(faults(figure_of_lines(*drawing.styles(40)))) == []


def test_what_cannot_be_read_is_a_fault():
    first, second = drawing.styles(2)
    alike = {**first, "color": second["color"]}
    for figure, fault in [
        (figure_of_lines(first, {**second, "color": "red"}), "the colour [1. 0. 0.] is not of the palette"),
        (figure_of_lines(first, alike), "'line 0' and 'line 1' differ in colour only"),
        (figure_of_lines(first, fontsize=7), "'labels' has 7.0 points"),
        (with_text(figure_of_lines(first), 0.99, "beyond the edge"), "'beyond the edge' is cut"),
        (with_text(figure_of_lines(first), 0.5, "below", "above"), "'below' lies on 'above'"),
    ]:
        assert list(faults(figure)) == [fault]
    assert "'labels' has 5.0 points" in list(faults(figure_of_lines(first, size=(15, 4), fontsize=10)))
    figure = figure_of_lines(*({"color": "k", "linestyle": dash} for dash in ("-", "--")))
    figure.axes[0].plot([0, 0.5, 1], [1, 1, 1], ":", color="k", label="middle")
    figure.axes[0].legend(loc="center")
    assert list(faults(figure)) == ["the legend lies on 'middle'"]
    figure, ax = plt.subplots()
    ax.imshow([[0, 1]], cmap="jet")
    assert next(faults(figure)).startswith("the map 'jet' is none of")


def with_text(figure, x, *texts):
    for text in texts:
        figure.text(x, 0.5, text)
    return figure
