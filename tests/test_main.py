"""``python -m skactive``: the table, the picture, and what stands in them."""

import re
import subprocess
import sys

import matplotlib.image
import numpy as np
import pytest

from skactive import __main__ as main
from skactive.datasets import make_repeated

SMALL = ["--trials", "2", "--rounds", "2", "--epochs", "20", "--draws", "5", "--repeats", "2"]


def options(*more):
    return main.parse_arguments([*SMALL, *more])


def test_the_command_prints_its_table_and_saves_a_picture(tmp_path):
    picture = tmp_path / "curves.png"
    command = [sys.executable, "-m", "skactive", *SMALL, "--score", "entropy", "--output", str(picture)]
    run = subprocess.run(command, capture_output=True, text=True, check=True)
    for strategy in main.STRATEGIES:
        assert re.search(rf"^{re.escape(strategy)} +0\.\d{{3}} ", run.stdout, re.MULTILINE)
    assert "12/12" in run.stderr  # the progress bar
    assert matplotlib.image.imread(picture).std() > 0.05  # not an empty canvas


def test_help_names_every_option():
    run = subprocess.run([sys.executable, "-m", "skactive", "--help"], capture_output=True, text=True, check=True)
    for option in ("--trials", "--rounds", "--score", "--output", "--batch-size", "--seed"):
        assert option in run.stdout


def test_a_score_that_does_not_exist_is_refused_with_the_names():
    command = [sys.executable, "-m", "skactive", "--score", "nope"]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    assert run.returncode == 2
    assert "bald" in run.stderr


def test_trials_are_paired_strategies_share_the_first_model_and_repeat_to_the_bit():
    first, second = (main.run_trial(strategy, 0, options()) for strategy in ("power, beta=1", "topk"))
    assert first.accuracies[0] == second.accuracies[0]
    np.testing.assert_array_equal(main.run_trial("topk", 0, options()).accuracies, second.accuracies)
    assert main.run_trial("topk", 1, options()).accuracies[0] != second.accuracies[0]


def test_no_copy_of_a_test_row_is_in_the_pool():
    X_labelled, _, X_pool, _, X_test, _ = main.split_repeated_digits(0, options("--noise", "0"))
    train = {row.tobytes() for row in np.concatenate([X_labelled, X_pool])}
    assert len(train) <= 1297  # rows of the training part, each there twice
    leaked = sum(row.tobytes() in train for row in X_test)
    assert leaked == 0


def test_the_interval_is_students():
    mean, half = main.mean_and_interval([1.0, 2.0, 3.0, 4.0])
    # t(0.975, 3) = 3.18245, standard error sqrt(5/3)/2
    assert mean == 2.5
    assert half == pytest.approx(3.18245 * np.sqrt(5 / 3) / 2, abs=1e-5)
    assert np.isnan(main.mean_and_interval([1.0])[1])


def test_repeated_rows_differ_by_noise_of_the_given_size_and_come_copy_after_copy():
    X = np.zeros((500, 4), dtype=np.float32)
    y = np.arange(500)
    repeated, labels = make_repeated(X, y, 3, 0.1, np.random.default_rng(0))
    assert repeated.dtype == np.float32
    np.testing.assert_array_equal(labels, np.tile(y, 3))
    # 6,000 deviations: the standard error of their standard deviation is 0.1 / sqrt(12000); 5 of them
    assert abs(repeated.std() - 0.1) < 5 * 0.1 / np.sqrt(12000)
    assert not X.any()
