"""README.md and the front page of the documentation: their numbers, links and pictures, and how wide their code is."""

from __future__ import annotations

import importlib
import json
import re
import textwrap
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
README, INDEX = ((ROOT / name).read_text(encoding="utf-8") for name in ("README.md", "docs/index.rst"))
WORDS = [re.sub(r"\s+", " ", page) for page in (README, INDEX)]
HOME = "https://github.com/skactive/skactive/blob/main/"
RAW = "https://raw.githubusercontent.com/skactive/skactive/main/"


def result(study: str) -> dict:
    return json.loads((ROOT / "docs" / "paper" / f"{study}.json").read_text(encoding="utf-8"))


def findings(study: str) -> dict:
    return result(study)["findings"]


def test_labels_saved_are_those_of_the_picture_which_is_described_by_its_accuracies():
    found = json.loads((ROOT / "docs" / "images" / "fewer_labels.json").read_text(encoding="utf-8"))
    low, high = found["gain"]["top of its own ranking"][1:]
    for page in WORDS:
        assert f"mean of {found['n_trials']} random" in page or f"over {found['n_trials']} random splits" in page
        assert "{:.0f} [{:.0f}, {:.0f}] fewer labels than random choice".format(*found["fewer"]["random"]) in page
        assert low < 0 < high
        assert re.search(r"here the top of its scores does as well", page, re.IGNORECASE)
        for query in ("default", "random", "top of BALD"):
            *_, (last, _, _) = found["curves"][query].values()
            assert re.search(rf"Line chart .*\b{100 * last:.0f}\b.* percent", page), query


def test_numbers_of_the_studies_are_those_of_the_studies(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "examples" / "paper"))
    study, means = importlib.import_module("which_query"), findings("which_query")["batches of 10"]["accuracy"]
    found, fewer = study.minus(means, "default", "uniform"), findings("many_trials")["fewer"]
    to_uniform, to_top = (fewer[f"power β=4 than {reference}"] for reference in ("uniform", "topk"))
    for page in WORDS:
        assert f"default gains {found.mean:.1f} [{found.low:.1f}, {found.high:.1f}] points of accuracy" in page
        assert f"On our own {len(means['forest'])} tables" in page
        assert f"{len(study.MANY)} queries compared" in page
        assert "needs {:.0f} [{:.0f}, {:.0f}] fewer of 100 labels than random choice".format(*to_uniform) in page
        assert "and {:.0f} [{:.0f}, {:.0f}] fewer than the top of the same ranking".format(*to_top) in page


def test_numbers_of_stopping_and_of_intervals_are_those_of_the_claims():
    after, before = (numbers_in(claim["ours"])[:3] for claim in result("stopping")["claims"][:2])
    all_settings = result("risk_intervals")["claims"][0]
    assert all_settings["ours"].startswith("in 150 of 150; worst 0.93")
    for page in WORDS:
        said = re.search(r'in 36 runs, 100 labels gained (.*) points after "stop", and (.*) before', page)
        assert numbers_in(said[1]) == pytest.approx(after, abs=0.051)  # rounded to one digit
        assert numbers_in(said[2]) == pytest.approx(before, abs=0.051)
        assert "at least 93 % of the cases" in page
        assert "150 settings" in page


def numbers_in(text: str) -> list[float]:
    return [float(number) for number in re.findall(r"\d+\.\d+", text)]


def test_both_pages_have_the_same_ten_lines_and_output():
    for block in re.findall(r"^```(?:python|text)\n(.*?)^```$", README, re.MULTILINE | re.DOTALL):
        assert textwrap.indent(block, "   ") in INDEX


def test_the_readme_has_the_length_and_the_words_of_a_front_page():
    assert len(README.split()) <= 900
    for page in WORDS:
        for word in ("active learning", "unlabelled", "query strategy", "acquisition function", "batch mode"):
            assert word in page.lower()
        for word in ("humans in the loop", "uncertainty sampling", "near-duplicates", "stopping criterion"):
            assert word in page.lower()


def test_links_and_pictures_of_the_readme_work_on_other_sites():
    targets = re.findall(r"\]\(([^)\s]+)\)|^\[[^\]]+\]: (\S+)$|src=\"([^\"]+)\"", README, re.MULTILINE)
    targets = [next(filter(None, found)) for found in targets]
    assert [target for target in targets if not target.startswith("https://")] == []
    ours = [target.removeprefix(HOME).removeprefix(RAW).split("#")[0] for target in targets if "skactive/sk" in target]
    assert len(ours) > 10
    assert [name for name in ours if not (ROOT / name).is_file()] == []
