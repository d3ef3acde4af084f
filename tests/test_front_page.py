"""README.md and the front page of the documentation: their numbers, links and pictures, and how wide their code is."""

from __future__ import annotations

import importlib
import json
import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
README, INDEX = ((ROOT / name).read_text(encoding="utf-8") for name in ("README.md", "docs/index.rst"))
WORDS = [re.sub(r"\s+", " ", page) for page in (README, INDEX)]
HOME = "https://github.com/skactive/skactive/blob/main/"
RAW = "https://raw.githubusercontent.com/skactive/skactive/main/"


def findings(study: str) -> dict:
    return json.loads((ROOT / "docs" / "paper" / f"{study}.json").read_text(encoding="utf-8"))["findings"]


def test_labels_saved_are_those_of_the_study_and_the_picture_is_described_by_its_accuracies():
    found = findings("many_trials")

    def fewer(pair: str) -> str:
        return "{:.0f} [{:.0f}, {:.0f}] fewer".format(*found["fewer"][pair])

    assert f"{fewer('power β=4 than topk')} than the top" in WORDS[0]
    for page in WORDS:
        assert fewer("power β=4 than uniform") in page
        assert fewer("margin β=4 than uniform") in page
        for query in ("power β=4", "uniform", "topk"):
            *_, (last, _, _) = found["curves"][query].values()
            assert re.search(rf"Line chart .*\b{100 * last:.0f}\b.* percent", page), query


def test_points_gained_on_tables_are_those_of_the_study(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "examples" / "paper"))
    study, means = importlib.import_module("which_query"), findings("which_query")["batches of 10"]["accuracy"]
    found = study.minus(means, "default", "uniform")
    for page in WORDS:
        assert f"default gains {found.mean:.1f} [{found.low:.1f}, {found.high:.1f}] points of accuracy" in page
        assert f"On {len(means['forest'])} tables" in page
        assert f"{len(study.MANY)} queries" in page


def test_links_and_pictures_of_the_readme_work_on_other_sites():
    targets = re.findall(r"\]\(([^)\s]+)\)|^\[[^\]]+\]: (\S+)$|src=\"([^\"]+)\"", README, re.MULTILINE)
    targets = [next(filter(None, found)) for found in targets]
    assert [target for target in targets if not target.startswith("https://")] == []
    ours = [target.removeprefix(HOME).removeprefix(RAW).split("#")[0] for target in targets if "skactive/sk" in target]
    assert len(ours) > 10
    assert [name for name in ours if not (ROOT / name).is_file()] == []
