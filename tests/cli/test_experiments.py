"""``skactive demo``, and the sentence that it shares with ``skactive simulate``."""

import re
from pathlib import Path

import matplotlib.image
import pytest

from skactive import ExperimentResult
from skactive.cli import _experiments, main
from skactive.experiment._results import Round


@pytest.fixture(autouse=True)
def _in_a_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


@pytest.mark.slow
def test_the_demonstration_says_what_it_does_and_ends_in_the_number_of_labels_saved(capsys):
    assert main(["demo", "--trials", "2", "-o", "a.png"]) == 0
    printed = capsys.readouterr()
    assert re.search(r"In each of 2 trials .* by skactive's default, from\W.* BALD,.* at random", printed.err)
    assert re.findall(r"^ *(default|top of BALD|uniform) ", printed.out, re.MULTILINE)[:3] == [
        "default",
        "top of BALD",
        "uniform",
    ]
    *_, picture, _, last = printed.out.splitlines()
    assert picture == "a.png shows the learning curves."
    assert re.match(r"The default query needed \d+ fewer of 130 labels than random choice", last)
    assert matplotlib.image.imread("a.png").std() > 0.05  # not an empty canvas


def test_what_cannot_be_done_is_refused_before_any_work(monkeypatch, capsys):
    assert main(["demo", "--trials", "0"]) == 2
    assert "--trials must be an integer" in capsys.readouterr().err
    monkeypatch.setattr(_experiments, "run_experiment", lambda *_, **__: pytest.fail("work"))

    Path("old.png").write_text("another picture")
    for output, message in [
        ("nowhere/x.png", "there is no folder nowhere"),
        ("x.doc", "--output must end in .png or .pdf or .svg"),
        ("old.png", "old.png exists. --force overwrites it"),
    ]:
        assert main(["demo", "--output", output]) == 2
        assert message in capsys.readouterr().err
    assert Path("old.png").read_text() == "another picture"


@pytest.mark.parametrize(
    ("n_trials", "told"),
    [(8, "it would have saved labels."), (6, "these trials cannot tell whether it saves any.")],
)
def test_the_sentence_of_simulate_is_the_verdict_on_labels_saved(n_trials, told):
    curves = {"uniform": (0.5, 0.6, 0.7), "default": (0.5, 0.75, 0.8), "top": (0.5, 0.6, 0.7), "BALD": (0.5, 0.6, 0.7)}
    rounds = [
        Round(t, name, r, 10 + 10 * r, (), {"accuracy": score + 0.01 * r * (t % 3)}, 0.5 if r else None, 0.1)
        for name, scores in curves.items()
        for t in range(n_trials)
        for r, score in enumerate(scores)
    ]
    result = ExperimentResult(tuple(rounds))
    sentence = _experiments._sentence(result.label_savings("uniform"), result.summary("uniform"), 30)
    assert sentence.endswith(f"{n_trials} paired trials): {told}")
