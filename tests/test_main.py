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


@pytest.mark.slow
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
