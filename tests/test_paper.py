"""The studies of the paper's claims run, and the page about them holds what their results say."""

from __future__ import annotations

import importlib
import json
import math
import os
import subprocess
import sys
from pathlib import Path

import pytest
import reference

from skactive import run_experiment

ROOT = Path(__file__).parents[1]
STUDIES = ROOT / "examples" / "paper"
RESULTS = ROOT / "docs" / "paper"


def run(*arguments: object) -> subprocess.CompletedProcess:
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    command = [sys.executable, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, env=environment, timeout=300, check=False)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["many_trials", "cold_start", "table_1", "hypo_exponential", "beta", "stopping"])
def test_a_study_of_the_smallest_size_writes_claims_and_a_figure(name, tmp_path):
    done = run(STUDIES / f"{name}.py", "--smallest", "--jobs", 2, "--out", tmp_path)
    assert done.returncode == 0, done.stderr
    record = json.loads((tmp_path / f"{name}.json").read_text(encoding="utf-8"))
    assert record["claims"]
    said = {claim["verdict"].split(";")[0] for claim in record["claims"]}
    assert said <= {"seen", "not seen", "the opposite", "cannot be told"}
    assert (tmp_path / f"{name}.png").stat().st_size > 5_000


@pytest.mark.slow
def test_an_interrupted_study_goes_on_with_the_cells_it_has(tmp_path):
    options = [STUDIES / "tabular.py", "--smallest", "--jobs", 1, "--out", tmp_path]
    assert "4 of 4 cells are to be run" in run(*options).stdout
    results = json.loads((tmp_path / "tabular.json").read_text(encoding="utf-8"))
    for cell in sorted(tmp_path.glob("rounds/**/output.pkl"))[::2]:
        cell.unlink()
    assert "2 of 4 cells are to be run" in run(*options).stdout
    assert json.loads((tmp_path / "tabular.json").read_text(encoding="utf-8"))["findings"] == results["findings"]


def test_the_loop_over_tables_gives_what_an_experiment_gives(monkeypatch):
    monkeypatch.syspath_prepend(str(STUDIES))
    benchmark, tables, tabular = map(importlib.import_module, ("benchmark", "many_tables", "tabular"))
    queries = {name: tabular.QUERIES[name] for name in ("power", "BADGE")}
    arms, measures = {name: benchmark.Arm(query) for name, query in queries.items()}, {"score": benchmark.accuracy}
    part = benchmark.Part(arms, ["wine"], ["logistic"], tabular.model, 1, (10, 5, 2), measures)
    options = {"n_initial": 10, "batch_size": 5, "n_rounds": 2, "n_trials": 1, "test_size": 1 / 3, "random_state": 0}
    rounds = run_experiment(tabular.model("logistic"), queries, *tables.rows("wine", None), **options).rounds
    said = {name: [of.scores["score"] for of in rounds if of.query == name] for name in queries}
    assert benchmark.cell(None, part, "logistic", "wine", 0) == {"score": said}


@pytest.mark.slow
def test_a_study_without_its_data_says_what_it_needs(tmp_path):
    done = run(STUDIES / "large_pools.py", "--smallest", "--out", tmp_path)
    assert done.returncode != 0
    assert "needs tabular/letter.csv.gz in the folder given by --data" in done.stderr
    assert "Traceback" not in done.stderr


def pages_in(folder: Path) -> list[Path]:
    return [*folder.glob("*.inc"), *folder.glob("*.rst")]


@pytest.mark.slow
def test_the_pages_of_claims_are_those_of_the_results(tmp_path):
    results = sorted(RESULTS.glob("*.json"))
    for path in results:
        (tmp_path / path.name).write_bytes(path.read_bytes())
    assert run(STUDIES, "--page", "--out", tmp_path).returncode == 0
    made = {path.name: path.read_text(encoding="utf-8") for path in pages_in(tmp_path)}
    assert made == {path.name: path.read_text(encoding="utf-8") for path in pages_in(RESULTS)}
    assert {path.stem for path in results} == {path.stem for path in RESULTS.glob("*.png")}


def test_files_of_results_have_the_settings_and_the_claims_of_their_studies(monkeypatch):
    monkeypatch.syspath_prepend(str(STUDIES))
    for path in sorted(RESULTS.glob("*.json")):
        study = importlib.import_module(path.stem)
        record = json.loads(path.read_text(encoding="utf-8"))
        settings = json.loads(json.dumps(study.SIZES[record["size"]]))
        said, now = ({**of, "n_trials": None} for of in (record["settings"], settings))  # more trials: the same study
        assert said == now, path.stem
        assert [vars(claim) for claim in study.claims(record["findings"])] == record["claims"], path.stem


@pytest.fixture
def page(monkeypatch):
    monkeypatch.syspath_prepend(str(STUDIES))
    return importlib.import_module("page")


def test_every_study_has_a_place_among_the_claims(page):
    placed = [name for names in page.PARTS.values() for name in names]
    assert sorted(placed) == sorted(path.stem for path in STUDIES.glob("*.py") if "\nSIZES" in path.read_text("utf-8"))


def test_the_table_of_claims_has_a_row_for_each(page):
    lines = (RESULTS / "claims.inc").read_text(encoding="utf-8").splitlines()
    n_claims = sum(len(json.loads(path.read_text(encoding="utf-8"))["claims"]) for path in RESULTS.glob("*.json"))
    assert sum(line.startswith("     - :ref:`") for line in lines) == n_claims


def test_verdicts_follow_p_values_that_are_corrected_for_all_claims_of_the_page_at_once(page):
    names = [name for names in page.PARTS.values() for name in names]
    before = [claim for name in names for claim in json.loads((RESULTS / f"{name}.json").read_bytes())["claims"]]
    after = [claim for record in page.read(RESULTS).values() for claim in record["claims"]]
    p_values = [math.nan if p is None else p for claim in before for p in (claim["p"], claim["second_p"])]
    corrected, n = reference.holm(p_values), sum(p == p for p in p_values)
    for raw, claim, *p in zip(before, after, corrected[::2], corrected[1::2], strict=True):
        for said, says, adjusted in zip(raw["verdict"].split("; "), claim["verdict"].split("; "), p, strict=False):
            assert says == (page.HINTS.get(said, said) if adjusted > 0.05 else said)
    assert 2 / 2**12 * (n - sum(p <= 0.05 for p in corrected)) > 0.05  # as the page says of 12 units
    assert f"this page together, {n}." in (ROOT / "docs" / "reproduction.rst").read_text("utf-8")


def test_random_effects_are_those_of_two_cases_known_by_hand(page):
    mean, low, high, spread = page.random_effects([1.0, 2.0, 3.0], [1.0, 1.0, 1.0])  # no more spread than the errors
    assert (mean, spread) == pytest.approx((2.0, 0.0))
    assert high - mean == pytest.approx(4.302653 / 3**0.5, rel=1e-6)  # Student's, two degrees of freedom
    *_, spread = page.random_effects([0.0, 10.0, 20.0], [1.0, 1.0, 1.0])
    assert spread**2 == pytest.approx(100 - 1)  # the variance seen less that of the errors
    assert low < mean < high
