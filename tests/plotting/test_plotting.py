"""Displays: the numbers they show, and pictures in which everything can be read."""

from __future__ import annotations

import matplotlib as mpl

mpl.use("agg")

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pictures
import pytest
from matplotlib.colors import to_rgb
from scipy import sparse, stats
from sklearn.datasets import load_iris
from sklearn.decomposition import PCA
from sklearn.naive_bayes import GaussianNB

from skactive import ExperimentResult, StochasticBatchQuery, run_experiment
from skactive.experiment._results import Failure, Round
from skactive.plotting import BatchDisplay, LearningCurveDisplay, PairedDifferenceDisplay

X, Y = load_iris(return_X_y=True)
QUERIES = ["power, beta = 4", "topk", "uniform"]
N_LABELLED = [6, 10, 14, 18]


def result_of(runs, n_labelled=N_LABELLED, failures=(), queries=QUERIES):
    """A result whose scores are given: ``runs[query][trial]`` is a list of accuracies."""
    rounds = [
        Round(trial, query, k, n, (k,), {"accuracy": score, "error": 1 - score}, 0.1 if k else None, 0.1)
        for query, of_trials in runs.items()
        for trial, scores in enumerate(of_trials)
        for k, (n, score) in enumerate(zip(n_labelled, scores, strict=False))
    ]
    return ExperimentResult(tuple(rounds), tuple(failures), {"queries": dict.fromkeys(queries)})


def random_runs(rng, n_trials=5, queries=QUERIES):
    levels = np.linspace(0.5, 0.9, len(N_LABELLED))
    return {query: levels + rng.normal(scale=0.03, size=(n_trials, len(N_LABELLED))) for query in queries}


@pytest.fixture
def runs(rng):
    return random_runs(rng)


@pytest.fixture(scope="module")
def result():
    """A real one."""
    queries = {name: StochasticBatchQuery("entropy", name) for name in ("power", "uniform")}
    options = {"n_initial": 6, "n_rounds": 3, "batch_size": 4, "n_trials": 2, "random_state": 0}
    return run_experiment(GaussianNB(), queries, X, Y, **options)


@pytest.fixture(autouse=True)
def closed_figures():
    yield
    plt.close("all")


def band_at(band):
    """Lower and upper edge of a band, by x."""
    vertices = np.unique(band.get_paths()[0].vertices, axis=0)
    return {x: (vertices[vertices[:, 0] == x, 1].min(), vertices[vertices[:, 0] == x, 1].max()) for x in vertices[:, 0]}


def test_a_learning_curve_is_the_mean_over_trials_in_students_interval(runs):
    display = LearningCurveDisplay.from_result(result_of(runs))
    assert list(display.lines_) == QUERIES
    for query, scores in runs.items():
        line = display.lines_[query]
        np.testing.assert_array_equal(line.get_xdata(), N_LABELLED)
        np.testing.assert_allclose(line.get_ydata(), scores.mean(axis=0))
        low, high = stats.t.interval(0.95, 4, scores.mean(axis=0), stats.sem(scores, axis=0))
        edges = band_at(display.bands_[query])
        np.testing.assert_allclose([edges[n] for n in N_LABELLED], np.transpose([low, high]))
    assert display.ax_.get_xlabel() == "labels bought, the first included"
    assert display.ax_.get_ylabel() == "accuracy on test rows"
    assert display.legend_.get_title().get_text() == "mean over 5 trials, 95 % interval"
    one = LearningCurveDisplay.from_result(result_of({query: scores[:1] for query, scores in runs.items()}))
    assert set(one.bands_.values()) == {None}


def test_a_score_and_queries_can_be_chosen_and_a_query_looks_alike_in_every_figure_of_a_result(runs):
    result = result_of(runs)
    everything = LearningCurveDisplay.from_result(result).lines_
    some = LearningCurveDisplay.from_result(result, scoring="error", queries=["uniform", "topk"])
    assert list(some.lines_) == ["uniform", "topk"]
    np.testing.assert_allclose(some.lines_["topk"].get_ydata(), 1 - runs["topk"].mean(axis=0))
    assert some.ax_.get_ylabel() == "error on test rows"
    for lines in (some.lines_, PairedDifferenceDisplay.from_result(result, reference=QUERIES[0]).lines_):
        for query, line in lines.items():
            assert line.get_color() == everything[query].get_color()
            assert line.get_marker() == everything[query].get_marker()


def test_failed_runs_and_labels_that_not_all_trials_reached_are_left_out(runs):
    failures = [Failure(trial, query, 2, "ValueError", "no", "no") for trial, query in ((1, "topk"), (0, "uniform"))]
    runs["uniform"] = [list(scores) for scores in runs["uniform"]]
    runs["uniform"][3] = runs["uniform"][3][:2]
    result = result_of(runs, failures=failures)
    display = LearningCurveDisplay.from_result(result)
    np.testing.assert_allclose(display.lines_["topk"].get_ydata(), runs["topk"][[0, 2, 3, 4]].mean(axis=0))
    assert display.lines_["uniform"].get_xdata().tolist() == N_LABELLED[:2]
    assert display.legend_.get_title().get_text() == "mean over 4 to 5 trials, 95 % interval"
    display = PairedDifferenceDisplay.from_result(result, queries=["topk"])  # in trials that both finished
    differences = [runs["topk"][t][:2] - runs["uniform"][t][:2] for t in (2, 3, 4)]
    np.testing.assert_allclose(display.lines_["topk"].get_ydata(), np.mean(differences, axis=0), atol=1e-15)


def test_differences_are_taken_within_trials(runs):
    display = PairedDifferenceDisplay.from_result(result_of(runs))
    assert display.reference == "uniform"
    assert list(display.lines_) == QUERIES[:2]
    for query in QUERIES[:2]:
        differences = runs[query] - runs["uniform"]
        np.testing.assert_allclose(display.lines_[query].get_ydata(), differences.mean(axis=0), atol=1e-15)
        interval = stats.t.interval(0.95, 4, differences.mean(axis=0), stats.sem(differences, axis=0))
        edges = band_at(display.bands_[query])
        np.testing.assert_allclose([edges[n] for n in N_LABELLED], np.transpose(interval))
    assert set(display.zero_line_.get_ydata()) == {0.0}
    assert display.ax_.get_ylabel() == "accuracy minus that of uniform"


def offsets(points):
    return np.asarray(points.get_offsets())


def test_rows_of_a_batch_are_drawn_where_principal_components_or_the_user_put_them():
    batches, where = {"a": [3, 1, 100], "b": [7]}, PCA(2, random_state=0).fit_transform(X)
    display = BatchDisplay.from_batches(X, batches, labelled=[0, 50])
    for query, rows in batches.items():
        np.testing.assert_array_equal(offsets(display.pools_[query]), where)
        np.testing.assert_array_equal(offsets(display.labelled_[query]), where[[0, 50]])
        np.testing.assert_array_equal(offsets(display.batches_[query]), where[rows])
    assert [ax.get_title() for ax in display.axes_] == ["a", "b"]
    for pool in (X.reshape(150, 2, 2), sparse.csr_array(X), X.tolist()):
        projected = BatchDisplay.from_batches(pool, {"a": [0]}).coordinates
        np.testing.assert_allclose(np.abs(projected), np.abs(where), atol=1e-8)  # up to the sign
    words = pd.DataFrame({"name": ["x"] * 150})  # which cannot be projected
    display = BatchDisplay.from_batches(words, {"a": [4]}, coordinates=where)
    np.testing.assert_array_equal(offsets(display.batches_["a"]), where[[4]])


def test_scores_are_shades_of_the_pool():
    scores = np.linspace(0, 1, 150)
    scores[:10] = np.nan
    display = BatchDisplay.from_batches(X, {"a": [20]}, scores=scores, score_name="BALD (nats)")
    shades = np.ma.filled(display.pools_["a"].get_array(), np.nan)
    np.testing.assert_array_equal(shades, scores)
    assert display.colorbar_.ax.get_ylabel() == "BALD (nats)"


def test_batches_of_other_rows_and_none_at_all_are_refused():
    with pytest.raises(ValueError, match=r"`batches\['a'\]` must be distinct positions from 0 to 149"):
        BatchDisplay.from_batches(X, {"a": [150]})
    with pytest.raises(ValueError, match="`batches` must hold at least one batch"):
        BatchDisplay.from_batches(X, {})


def displays():
    """Each display with many long names."""
    rng = np.random.default_rng(0)
    runs = result_of(random_runs(rng, queries=[f"query {i}, beta = {i}" for i in range(7)]), queries=[])
    two = result_of(random_runs(rng), queries=QUERIES)
    batches = {name: rng.choice(150, 10, replace=False) for name in ("power", "softmax", "topk", "uniform", "BADGE")}
    three, scores = dict(list(batches.items())[:3]), rng.gamma(1.0, size=150)
    return {
        "curves": lambda: LearningCurveDisplay.from_result(runs),
        "differences": lambda: PairedDifferenceDisplay.from_result(two),
        "batches": lambda: BatchDisplay.from_batches(X, batches, labelled=[0, 60]),
        "shades": lambda: BatchDisplay.from_batches(X, three, labelled=[0], scores=scores),
    }


@pytest.mark.parametrize("name", ["curves", "differences", "batches", "shades"])
def test_every_display_can_be_read_in_a_figure_of_its_own_and_holds_the_colours_of_what_it_shows(name):
    display = displays()[name]()
    recorder = pictures.drawn(display.figure_)
    for panel in display.figure_.axes:
        assert panel.get_xlabel() or display.figure_.get_supxlabel()
        assert panel.get_ylabel() or display.figure_.get_supylabel()
    assert display.figure_.get_figwidth() == 6  # inches, in which a page shows it
    assert list(pictures.faults(display.figure_, recorder=recorder)) == []
    box = display.legend_.get_window_extent(recorder)
    assert not any(box.overlaps(panel.get_window_extent()) for panel in display.figure_.axes)
    pixels = np.asarray(recorder.buffer_rgba())[..., :3].reshape(-1, 3) / 255
    artists = [artist for kind in ("lines_", "batches_") for artist in getattr(display, kind, {}).values()]
    assert artists
    for artist in artists:
        colour = artist.get_color() if hasattr(artist, "get_color") else artist.get_facecolor()[0]
        assert (np.abs(pixels - to_rgb(colour)).max(axis=1) < 0.02).sum() > 20


def test_bad_input_of_curves_is_named(runs):
    display, result = LearningCurveDisplay, result_of(runs)
    with pytest.raises(ValueError, match=r"`scoring` must be one of.*\['accuracy', 'error'\].*Got 'f1'"):
        display.from_result(result, scoring="f1")
    with pytest.raises(ValueError, match=r"`queries` must be among those of the result.*Got \['badge'\]"):
        display.from_result(result, queries=["badge"])
    failures = [Failure(t, "topk", 1, "ValueError", "no", "no") for t in range(5)]
    with pytest.raises(ValueError, match=r"`result` must hold a finished run of each query.*Got none of 'topk'"):
        display.from_result(result_of(runs, failures=failures))
    with pytest.raises(ValueError, match=r"`reference` must be one of.*Got 'random'"):
        PairedDifferenceDisplay.from_result(result, reference="random")


def test_a_display_draws_on_the_axes_of_the_user_and_again_in_a_new_figure(runs):
    figure, axes = plt.subplots()
    display = LearningCurveDisplay.from_result(result_of(runs), ax=axes)
    assert display.figure_ is figure
    assert display.plot().figure_ is not figure
