"""``skactive demo``: the table, the picture, and what stands in them."""

import re
import subprocess
import sys
from pathlib import Path

import matplotlib.image
import numpy as np
import pytest

from skactive import ExperimentResult
from skactive.cli import _demo as main
from skactive.cli._demo import save_curves
from skactive.datasets import make_repeated
from skactive.experiment._results import Round

SMALL = ["--trials", "2", "--rounds", "2", "--epochs", "20", "--draws", "5", "--repeats", "2"]


def options(*more):
    return main.parse_arguments([*SMALL, "--force", *more])


@pytest.mark.slow
def test_the_command_prints_its_table_and_saves_a_picture(tmp_path):
    picture = tmp_path / "curves.png"
    command = [sys.executable, "-m", "skactive", *SMALL, "--score", "entropy", "--output", str(picture)]
    run = subprocess.run(command, capture_output=True, text=True, check=True)
    for strategy in main.STRATEGIES:
        assert re.search(rf"^ *{re.escape(strategy)} +2 +0\.\d{{3}} ", run.stdout, re.MULTILINE)
    assert "12/12" in run.stderr  # the progress bar
    assert matplotlib.image.imread(picture).std() > 0.05  # not an empty canvas


def test_help_names_every_option():
    run = subprocess.run(
        [sys.executable, "-m", "skactive", "demo", "--help"], capture_output=True, text=True, check=True
    )
    for option in ("--trials", "--rounds", "--score", "--output", "--batch-size", "--seed"):
        assert option in run.stdout


def test_a_score_that_does_not_exist_is_refused_with_the_names():
    command = [sys.executable, "-m", "skactive", "--score", "nope"]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    assert run.returncode == 2
    assert "bald" in run.stderr


BAD = {
    "--initial 3": r"--initial must be 10 or more, one of each digit\. Got 3",
    "--initial 5188": r"at most the rows of the pool, 5188\. Got 5338",
    "--seed -1": r"--seed must be a number from 0 to \d+\. Got -1",
    "--seed 99999999999999999999": "--seed must be",
    "--jobs 0": r"--jobs must be from 1 to \d+, .*-1 for all\. Got 0",
    "--jobs 100000": "--jobs must be from 1 to",
    "--noise nan": r"--noise must be a number from 0 to 1000\. Got nan",
    "--noise inf": "--noise must be",
    "--noise=-1": "--noise must be",
    "--draws 0": "--draws must be",
    "--draws 1": "--draws must be 2 or more for --score bald",
    "--draws 1000000000": "--draws must be",
    "--rounds 0": "--rounds must be 1 or more",
    "--rounds 100000": r"at most the rows of the pool, 5188\. Got 1000020",
    "--batch-size 6000": "rows of the pool",
    "--repeats 1000000": "--repeats must be",
    "--epochs 1000000000": "--epochs must be",
    "--trials 1000000": "--trials must be",
    "--trials 1e3": "--trials: invalid int value",
    "--output nowhere/x.png": "--output must be a file .* in a folder that exists",
    "--output x.doc": "--output must be a file .png, .pdf, .svg",
    "--output folder.png": "--output must be a file. Got 'folder.png', which is none",
    "--output folder.png --force": "which is none",
    "--output old.png": "'old.png' exists. --force overwrites it, --output names another file",
}


@pytest.mark.parametrize("bad", BAD)
def test_bad_options_are_refused_on_one_line_before_any_work(bad, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    Path("folder.png").mkdir()
    Path("old.png").write_text("another picture")
    with pytest.raises(SystemExit) as caught:
        main.main(bad.split())
    assert caught.value.code == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert re.fullmatch(rf"skactive demo: error: .*{BAD[bad]}.*\n", err)
    assert Path("old.png").read_text() == "another picture"


def test_options_that_are_large_but_can_be_waited_for_are_taken(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main.parse_arguments(["--trials", "40"]).trials == 40
    assert main.parse_arguments(["--rounds", "516"]).rounds == 516
    assert main.parse_arguments(["--jobs", "-1", "--noise", "0"]).jobs == -1
    assert main.parse_arguments(["--draws", "1", "--score", "entropy"]).draws == 1
    assert main.parse_arguments([]).force is False


def test_force_allows_to_overwrite(tmp_path):
    (tmp_path / "old.png").write_text("another picture")
    assert options("--output", str(tmp_path / "old.png")).force


def result_of(n_trials):
    """A result made by hand: strategy s has the accuracy (s + t + r) / 20 in round r of trial t."""
    rounds = [
        Round(t, name, r, 20 + 10 * r, (), {"accuracy": (s + t + r) / 20}, 0.5 if r else None, 0.1)
        for s, name in enumerate(main.STRATEGIES)
        for t in range(n_trials)
        for r in range(3)
    ]
    return ExperimentResult(tuple(rounds), (), {"n_trials": n_trials})


def test_the_table_is_the_summary_of_the_result_and_names_the_trials():
    result = result_of(3)
    assert main.table_of(result) == f"{result.summary(reference='topk')}\n3 paired trials. --trials 8 tells more."
    # t + r over t = 0, 1, 2 and r = 1, 2: 2.5 on average, with a deviation of 1 over t. 4.303 / sqrt(3) / 20 = 0.124.
    numbers = r"power, beta=1 +3 +0\.125 \[0\.001, 0\.249\] +-0\.200 \[-0\.200, -0\.200\]"
    assert re.search(numbers, main.table_of(result))


def test_one_trial_has_no_interval_and_the_table_says_why():
    table = main.table_of(result_of(1))
    assert "nan" not in table
    assert re.search(r"power, beta=1 +1 +0\.075 +-0\.200", table)
    assert table.endswith("One trial has no intervals. --trials 8 tells more.")


def test_the_picture_is_that_of_the_learning_curves_of_the_result(tmp_path):
    told = save_curves(result_of(3), tmp_path / "a.png", force=False, title="digits")
    assert told == f"{tmp_path / 'a.png'} shows the learning curves."
    assert matplotlib.image.imread(tmp_path / "a.png").std() > 0.05  # not an empty canvas
    assert list(tmp_path.iterdir()) == [tmp_path / "a.png"]


def test_without_matplotlib_there_is_no_picture_and_the_sentence_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert 'pip install "skactive[plot]"' in save_curves(result_of(2), tmp_path / "a.png", force=False)
    assert not list(tmp_path.iterdir())


def test_json_is_the_whole_result_and_nothing_else_on_stdout(tmp_path, monkeypatch, capsys):
    result = result_of(2)
    monkeypatch.setattr(main, "run_all", lambda options: result)
    main.main(["--json", "--output", str(tmp_path / "a.png")])
    out, err = capsys.readouterr()
    assert ExperimentResult.from_json(out) == result
    assert "a.png shows the learning curves." in err


def test_help_names_a_next_step(capsys):
    with pytest.raises(SystemExit):
        main.main(["--help"])
    assert "README.md" in capsys.readouterr().out


def test_strategies_share_the_first_labels_and_the_first_model_of_a_trial():
    result = main.run_all(options("--jobs", "1", "--rounds", "1"))
    first = [r for r in result.rounds if r.round == 0]
    assert len(first) == 2 * len(main.STRATEGIES)
    assert len({(r.trial, r.indices, r.scores["accuracy"]) for r in first}) == 2


def test_no_copy_of_a_test_row_is_in_the_pool():
    without_noise = options("--noise", "0")
    X, y = main.repeated_digits(without_noise)
    for train, test in main.split_digits(y, without_noise):
        assert len(test) == 500
        assert len(train) == 2 * 1297
        pool = {row.tobytes() for row in X[train]}
        assert len(pool) <= 1297  # each is there twice
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
