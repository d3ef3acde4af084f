"""``skactive demo``: the table, the picture, and what they hold."""

import re
import subprocess
import sys
from pathlib import Path

import matplotlib.image
import numpy as np
import pytest

from skactive import ExperimentResult
from skactive.cli import _experiments, _parse, main
from skactive.cli._experiments import STRATEGIES, save_curves
from skactive.datasets import make_repeated
from skactive.experiment._results import Round

SMALL = ["--trials", "2", "--rounds", "2", "--epochs", "20"]


@pytest.mark.slow
def test_the_command_prints_its_table_and_saves_a_picture(tmp_path):
    picture = tmp_path / "curves.png"
    command = [sys.executable, "-m", "skactive", "demo", *SMALL, "--score", "entropy", "--output", str(picture)]
    run = subprocess.run(command, capture_output=True, text=True, check=True)
    for strategy in STRATEGIES:
        assert re.search(rf"^ *{re.escape(strategy)} +2 +0\.\d{{3}} ", run.stdout, re.MULTILINE)
    assert "12/12" in run.stderr  # the progress bar
    assert matplotlib.image.imread(picture).std() > 0.05  # not an empty canvas


def test_help_names_every_option():
    run = subprocess.run(
        [sys.executable, "-m", "skactive", "demo", "--help"], capture_output=True, text=True, check=True
    )
    for option in ("--trials", "--rounds", "--score", "--output", "--batch-size", "--seed"):
        assert option in run.stdout


def test_a_score_that_does_not_exist_is_refused_with_the_names(capsys, tmp_path):
    assert main(["demo", "--score", "nope", "-o", str(tmp_path / "a.png")]) == 2
    err = capsys.readouterr().err
    assert re.fullmatch(r"skactive demo: error: .*--score must be .*'margin'.*\n", err)


@pytest.mark.parametrize(
    ("output", "message"),
    [
        ("nowhere/x.png", "there is no folder nowhere"),
        ("x.doc", "--output must be a file .png, .pdf, .svg"),
        ("folder.png", "folder.png is no regular file"),
        ("old.png", "old.png exists. --force overwrites it"),
    ],
)
def test_a_picture_that_cannot_be_made_is_refused_before_any_work(output, message, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    Path("folder.png").mkdir()
    Path("old.png").write_text("another picture")
    assert main(["demo", "--output", output]) == 2
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert message in err
    assert Path("old.png").read_text() == "another picture"


def result_of(n_trials):
    """A result made by hand: strategy s has the accuracy (s + t + r) / 20 in round r of trial t."""
    rounds = [
        Round(t, name, r, 20 + 10 * r, (), {"accuracy": (s + t + r) / 20}, 0.5 if r else None, 0.1)
        for s, name in enumerate(STRATEGIES)
        for t in range(n_trials)
        for r in range(3)
    ]
    return ExperimentResult(tuple(rounds), (), {"n_trials": n_trials})


def shown(monkeypatch, capsys, tmp_path, result, *more):
    monkeypatch.setattr(_experiments, "compared", lambda options: result)
    assert main(["demo", "--output", str(tmp_path / "a.png"), *more]) == 0
    return capsys.readouterr().out


def test_the_table_is_the_summary_of_the_result_and_names_the_trials(monkeypatch, capsys, tmp_path):
    result = result_of(3)
    out = shown(monkeypatch, capsys, tmp_path, result)
    assert out.startswith(f"{result.summary(reference='topk')}\n3 paired trials. --trials 8 tells more.\n")
    assert out.endswith("a.png shows the learning curves.\n")
    # t + r over t = 0, 1, 2 and r = 1, 2: 2.5 on average, with a deviation of 1 over t. 4.303 / sqrt(3) / 20 = 0.124.
    assert re.search(r"power, beta=1 +3 +0\.125 \[0\.001, 0\.249\] +-0\.200 \[-0\.200, -0\.200\]", out)


def test_the_picture_is_that_of_the_learning_curves_of_the_result(tmp_path):
    told = save_curves(result_of(3), tmp_path / "a.png", force=False)
    assert told == f"\n{tmp_path / 'a.png'} shows the learning curves."
    assert matplotlib.image.imread(tmp_path / "a.png").std() > 0.05  # not an empty canvas
    assert list(tmp_path.iterdir()) == [tmp_path / "a.png"]


def test_without_matplotlib_there_is_no_picture_and_the_sentence_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert 'pip install "skactive[plot]"' in save_curves(result_of(2), tmp_path / "a.png", force=False)
    assert not list(tmp_path.iterdir())


def test_json_is_the_whole_result_and_nothing_else(tmp_path, monkeypatch, capsys):
    result = result_of(2)
    assert ExperimentResult.from_json(shown(monkeypatch, capsys, tmp_path, result, "--json")) == result


def test_strategies_share_the_first_labels_and_the_first_model_of_a_trial():
    result = _experiments.compared(_parse("demo", [*SMALL, "--jobs", "1", "--rounds", "1"]))
    first = [r for r in result.rounds if r.round == 0]
    assert len(first) == 2 * len(STRATEGIES)
    assert len({(r.trial, r.indices, r.scores["accuracy"]) for r in first}) == 2


def test_no_copy_of_a_test_row_is_in_the_pool(monkeypatch):
    monkeypatch.setattr(_experiments, "NOISE", 0.0)
    X, y = _experiments.repeated_digits(0)
    for seed in range(2):
        train, test = _experiments.split_digits(y, seed)
        assert len(test) == 500
        assert len(train) == 4 * 1297
        pool = {row.tobytes() for row in X[train]}
        assert len(pool) <= 1297  # each is there four times
        assert sum(row.tobytes() in pool for row in X[test]) == 0


def test_repeated_rows_differ_by_noise_of_the_given_size_and_come_copy_after_copy():
    X = np.zeros((500, 4), dtype=np.float32)
    y = np.arange(500)
    repeated, labels = make_repeated(X, y, 3, 0.1, np.random.default_rng(0))
    assert repeated.dtype == np.float32
    np.testing.assert_array_equal(labels, np.tile(y, 3))
    # 6,000 deviations: the standard error of their standard deviation is 0.1 / sqrt(12000); 5 of them
    assert abs(repeated.std() - 0.1) < 5 * 0.1 / np.sqrt(12000)
    assert not X.any()
