"""``skactive demo``: the table, the picture, and what they hold."""

import re
from argparse import Namespace
from pathlib import Path

import matplotlib.image
import pytest

from skactive import ExperimentResult
from skactive.cli import _experiments, main
from skactive.cli._experiments import STRATEGIES
from skactive.experiment._results import Round


@pytest.fixture(autouse=True)
def _in_a_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def test_strategies_share_the_first_labels_and_the_first_model_of_a_trial(monkeypatch, capsys):
    monkeypatch.setattr(_experiments, "N_DRAWS", 4)
    monkeypatch.setattr(_experiments, "REPEATS", 1)
    some = {name: STRATEGIES[name] for name in ("power, beta=1", "topk")}
    monkeypatch.setattr(_experiments, "STRATEGIES", some)
    options = ["--trials", "2", "--rounds", "1", "--epochs", "5", "--jobs", "1", "--json"]
    assert main(["demo", *options, "-o", "a.png"]) == 0
    rounds = ExperimentResult.from_json(capsys.readouterr().out).rounds
    assert {r.query for r in rounds} == {*some}
    first = [(r.trial, r.indices, r.scores["accuracy"]) for r in rounds if r.round == 0]
    assert (len(first), len({*first})) == (4, 2)
    assert matplotlib.image.imread("a.png").std() > 0.05  # not an empty canvas


def test_what_cannot_be_done_is_refused_before_any_work(monkeypatch, capsys):
    assert main(["demo", "--score", "nope"]) == 2
    assert re.fullmatch(r"skactive demo: error: .*--score must be .*'margin'.*\n", capsys.readouterr().err)
    monkeypatch.setattr(_experiments, "run_experiment", lambda *_, **__: pytest.fail("work"))

    Path("old.png").write_text("another picture")
    for output, message in [
        ("nowhere/x.png", "there is no folder nowhere"),
        ("x.doc", "--output must be a file .png, .pdf, .svg"),
        ("old.png", "old.png exists. --force overwrites it"),
    ]:
        assert main(["demo", "--output", output]) == 2
        assert message in capsys.readouterr().err
    assert Path("old.png").read_text() == "another picture"


def test_the_table_is_the_summary_of_the_result_and_says_how_many_trials_can_tell(monkeypatch, capsys):
    rounds = [  # strategy s has the accuracy (s + t + r) / 20 in round r of trial t
        Round(t, name, r, 20 + 10 * r, (), {"accuracy": (s + t + r) / 20}, 0.5 if r else None, 0.1)
        for s, name in enumerate(STRATEGIES)
        for t in range(3)
        for r in range(3)
    ]
    result = ExperimentResult(tuple(rounds), (), {"n_trials": 3})
    monkeypatch.setattr(_experiments, "compared", lambda options: result)
    assert main(["demo", "--output", "a.png"]) == 0
    out = capsys.readouterr().out
    assert out.startswith(f"{result.summary(reference='topk')}\na.png")
    assert "p and verdicts take 8 trials or more (comparisons: 5)" in out
    assert out.endswith("a.png shows the learning curves.\n")
    assert [path.name for path in Path().iterdir()] == ["a.png"]
    # t + r over t = 0, 1, 2 and r = 1, 2: 2.5 on average, with a deviation of 1 over t. 4.303 / sqrt(3) / 20 = 0.124.
    assert re.search(r"power, beta=1 +3 +0\.125 \[0\.001, 0\.249\] +-0\.200 \[-0\.200, -0\.200\]", out)


@pytest.mark.parametrize(
    ("n_trials", "told"),
    [(8, "it would have saved labels."), (6, "whether it saves any cannot be told from these trials.")],
)
def test_the_sentence_of_simulate_is_the_verdict_on_labels_saved(n_trials, told):
    curves = {"uniform": (0.5, 0.6, 0.7), "default": (0.5, 0.75, 0.8), "top": (0.5, 0.6, 0.7), "BALD": (0.5, 0.6, 0.7)}
    rounds = [
        Round(t, name, r, 10 + 10 * r, (), {"accuracy": score + 0.01 * r * (t % 3)}, 0.5 if r else None, 0.1)
        for name, scores in curves.items()
        for t in range(n_trials)
        for r, score in enumerate(scores)
    ]
    result, options = ExperimentResult(tuple(rounds)), Namespace(initial=10, rounds=2, n=10)
    sentence = _experiments._sentence(result.label_savings("uniform"), result.summary("uniform"), options)
    assert sentence.endswith(f"{n_trials} paired trials): {told}")
