"""README.md and the front page of the documentation: their numbers, links and pictures, and how wide their code is."""

from __future__ import annotations

import importlib
import json
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FRONT = [ROOT / "README.md", ROOT / "docs" / "index.rst"]
README, INDEX = (path.read_text(encoding="utf-8") for path in FRONT)
HOME = "https://github.com/skactive/skactive/blob/main/"
RAW = "https://raw.githubusercontent.com/skactive/skactive/main/"


def words(text: str) -> str:
    return re.sub(r"\s+", " ", text)


def findings(study: str) -> dict:
    return json.loads((ROOT / "docs" / "paper" / f"{study}.json").read_text(encoding="utf-8"))["findings"]


@pytest.mark.parametrize("page", [README, INDEX], ids=["README", "index"])
@pytest.mark.parametrize("query", ["power β=4", "margin β=4"])
def test_labels_saved_are_those_of_the_study(page, query):
    fewer, low, high = findings("many_trials")["fewer"][f"{query} than uniform"]
    assert f"{fewer:.0f} [{low:.0f}, {high:.0f}] fewer" in words(page)


def test_labels_saved_over_the_top_of_the_ranking_are_those_of_the_study():
    fewer, low, high = findings("many_trials")["fewer"]["power β=4 than topk"]
    assert f"{fewer:.0f} [{low:.0f}, {high:.0f}] fewer than the top" in words(README)


@pytest.mark.parametrize("page", [README, INDEX], ids=["README", "index"])
def test_points_gained_on_tables_are_those_of_the_study(page, monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "examples" / "paper"))
    study, means = importlib.import_module("which_query"), findings("which_query")["means"]
    found = study.minus(study.over_families(means, study.DEFAULT), study.over_families(means, "uniform"))
    assert f"default gains {found.mean:.1f} [{found.low:.1f}, {found.high:.1f}] points of accuracy" in words(page)
    assert f"On {len(means['forest'])} tables" in words(page)
    assert f"{len(study.QUERIES)} queries" in words(page)


@pytest.mark.parametrize("query", ["power β=4", "uniform", "topk"])
def test_the_picture_is_described_by_the_accuracies_that_it_shows(query):
    *_, (last, _, _) = findings("many_trials")["curves"][query].values()
    for page in (README, INDEX):
        assert re.search(rf"Line chart .*\b{100 * last:.0f}\b.* percent", words(page))


def test_links_and_pictures_of_the_readme_work_on_other_sites():
    targets = re.findall(r"\]\(([^)\s]+)\)|^\[[^\]]+\]: (\S+)$|src=\"([^\"]+)\"", README, re.MULTILINE)
    targets = [next(filter(None, found)) for found in targets]
    assert [target for target in targets if not target.startswith("https://")] == []
    ours = [target.removeprefix(HOME).removeprefix(RAW).split("#")[0] for target in targets if "skactive/sk" in target]
    assert len(ours) > 10
    assert [name for name in ours if not (ROOT / name).is_file()] == []


def test_references_of_the_readme_are_defined_and_used():
    prose = re.sub(r"^```.*?^```$", "", README, flags=re.MULTILINE | re.DOTALL)
    used = set(re.findall(r"\]\[([^\]]+)\]", prose))
    assert used == set(re.findall(r"^\[([^\]]+)\]: ", README, re.MULTILINE))


@pytest.mark.parametrize("page", FRONT, ids=lambda path: path.name)
def test_code_on_the_front_has_100_columns_at_most(page):
    text = page.read_text(encoding="utf-8")
    blocks = re.findall(r"^```\w*\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    code = [line for block in blocks for line in block.splitlines()]
    code += [line for line in text.splitlines() if line.startswith((">>>", "...", "   $"))]
    assert code
    assert [line for line in code if len(line) > 100] == []


@pytest.mark.parametrize("page", ["label_a_table", "modal_loop", "which_query", "experiments"])
def test_four_pages_are_reached_from_both(page):
    assert f"<user_guide/{page}>" in INDEX
    assert f"{HOME}docs/user_guide/{page}.rst" in README
