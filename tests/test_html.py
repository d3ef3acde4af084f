"""What notebooks show of results: well-formed tables with the texts and numbers of the text form, of bounded size."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from html.parser import HTMLParser

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.datasets import load_iris
from sklearn.linear_model import LogisticRegression

from skactive import Campaign, ExperimentResult, StochasticBatchQuery, StoppingReport, run_experiment
from skactive._utils import html as _html
from skactive.campaign import Status
from skactive.experiment._results import Failure, Round, Summary
from skactive.risk import ActiveTester, RiskEstimate, estimate_risk

HOSTILE = "<b>\"a\" & 'b'</b> $x$ </td><script>alert(1)</script>"
TEXTS = st.text(max_size=80) | st.text("<>&;#/\"'ab", max_size=80)
X, y = load_iris(return_X_y=True)


@dataclass
class Shown:
    """What a reader sees of a table."""

    title: str = ""
    rows: list[list[str]] = field(default_factory=list)  # the head among them
    left_out: str = ""


class Card(HTMLParser):
    """Reads a card, and fails where an element is not closed in its turn."""

    def __init__(self, content: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.lines: list[str] = []
        self.tables: list[Shown] = []
        self._open: list[str] = []
        self._text = ""
        self.feed(content)
        self.close()
        assert self._open == []

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        self.attributes += attributes
        self._open.append(tag)
        self._text = ""
        if tag == "table":
            self.tables.append(Shown())
        elif tag == "tr" and "tfoot" not in self._open:
            self.tables[-1].rows.append([])

    def handle_endtag(self, tag):
        assert self._open.pop() == tag
        if tag == "caption":
            self.tables[-1].title = self._text
        elif tag in {"td", "th"} and "tfoot" in self._open:
            self.tables[-1].left_out = self._text
        elif tag in {"td", "th"}:
            self.tables[-1].rows[-1].append(self._text)
        elif tag == "p":
            self.lines.append(self._text)

    def handle_data(self, data):
        self._text += data

    def handle_comment(self, data):
        pytest.fail(f"a comment: {data}")


def card(result):
    return Card(result._repr_html_())


def words(text):
    return " ".join(text.split())


def numbers(text):
    return re.findall(r"[-+]?\d+(?:\.\d+)?(?:e[-+]\d+)?|nan|inf", text)


def rounds(queries=3, trials=4, scores=("accuracy",), name="query {}".format):
    rng = np.random.default_rng(0)
    return tuple(
        Round(t, name(q), r, 10 + 5 * r, (r,), {s: float(rng.random()) for s in scores}, 0.1, 0.1)
        for t in range(trials)
        for q in range(queries)
        for r in range(3)
    )


def experiment():
    queries = {HOSTILE: StochasticBatchQuery("entropy"), "uniform": StochasticBatchQuery("entropy", "uniform")}
    return run_experiment(
        LogisticRegression(max_iter=1000),
        queries,
        X,
        y,
        n_initial=6,
        n_rounds=2,
        n_trials=3,
        batch_size=5,
        scoring=["accuracy", "neg_log_loss"],
        random_state=0,
    )


def stopping_report(**options):
    report = None
    for n in (30, 45, 60):
        taught = np.arange(0, 150, 150 // n)[:n]
        model = LogisticRegression(max_iter=1000).fit(X[taught], y[taught])
        left = np.setdiff1d(np.arange(150), taught)
        data = {"X_training": X[taught], "y_training": y[taught], "random_state": 0}
        report = StoppingReport.from_learner(model, X[left], report, **data, **options)
        options = {}
    return report


def campaign(tmp_path, labels=("setosa", HOSTILE, "virginica")):
    frame = pd.DataFrame(X, columns=list("abcd")).assign(kind=None, name=[f"row {i}" for i in range(150)])
    started = Campaign.start(tmp_path / "<i>iris.db", frame, target="kind", id="name", model="logistic", random_state=0)
    for _ in range(3):
        started.tell({name: labels[y[int(name.removeprefix("row "))]] for name in started.ask(15).index})
    started.ask(5)
    return started


# --- the helper -----------------------------------------------------------------------------------


@given(st.lists(st.tuples(TEXTS, TEXTS), min_size=1, max_size=5), TEXTS.filter(bool), st.booleans())
def test_any_text_comes_back_as_it_was(rows, text, is_sentences):
    table = _html.Table(rows, head=[text, text], title=text, is_sentences=is_sentences)
    read = Card(_html.card(text, [table], note=text))
    assert read.tables == [Shown(text, [[text, text], *map(list, rows)])]
    assert read.lines == [text, text]


def test_a_long_table_says_how_many_rows_it_leaves_out():
    for n, said in ((20, ""), (12_345, "12,325 more of 12,345 rows")):
        (table,) = Card(_html.card("", [_html.Table([["a", "1"]] * n)])).tables
        assert (len(table.rows), table.left_out) == (20, said)


def test_a_card_has_no_script_no_address_and_no_colours():
    read = Card(_html.card("title", [_html.Table([["a", "1"]], title="table")], note="note"))
    assert set(read.tags) <= {"div", "p", "strong", "table", "caption", "thead", "tbody", "tr", "th", "td"}
    assert {name for name, _ in read.attributes} <= {"class", "style"}
    assert not [
        style for name, style in read.attributes if name == "style" and re.search("color|url|background", style)
    ]
    assert ("class", "tex2jax_ignore mathjax_ignore") in read.attributes


# --- experiments ----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def result():
    return experiment()


@pytest.mark.parametrize("make", [ExperimentResult.summary, ExperimentResult.label_savings])
def test_a_summary_shows_the_cells_of_its_text(result, make):
    summary = make(result)
    read = card(summary)
    blocks = [words(" ".join([table.title, *(" ".join(row) for row in table.rows)])) for table in read.tables]
    assert [*blocks, *read.lines] == [words(block) for block in str(summary).split("\n\n")]
    assert any(HOSTILE in row for row in read.tables[0].rows)


def test_a_result_shows_its_counts_and_the_tables_of_its_summary(result):
    read, summary = card(result), card(result.summary())
    assert read.lines == [repr(result), *summary.lines]
    assert read.tables == summary.tables
    assert any("[" in cell and "]" in cell for cell in read.tables[0].rows[1])  # an interval


@pytest.mark.parametrize(
    "result",
    [
        ExperimentResult(()),
        ExperimentResult((), settings={"queries": ["a"]}),
        ExperimentResult(rounds(trials=1)),
        ExperimentResult(rounds(queries=1)),
        ExperimentResult(rounds(), tuple(Failure(t, "query 0", 1, "E", HOSTILE, "") for t in range(4))),
        ExperimentResult(rounds(), tuple(Failure(t, f"query {q}", 1, "E", "", "") for t in range(4) for q in range(3))),
    ],
    ids=["nothing", "no rounds", "one trial", "one query", "a query that failed", "all failed"],
)
def test_results_with_little_in_them_are_shown_too(result):
    assert card(result).lines[0] == repr(result)


def test_an_empty_summary_is_its_note():
    summary = Summary("labels saved", "uniform", [])
    assert card(summary).lines == [str(summary)]
    assert card(summary).tables == []


# --- risk -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "estimate",
    [
        RiskEstimate(0.125, 0.02, n_labelled=60, n_pool=1000),
        RiskEstimate(0.875, 0.02, n_labelled=60, n_pool=1000, greater_is_better=True),
        RiskEstimate(3.0, float("nan"), n_labelled=1, n_pool=1000),
        estimate_risk([0.0] * 10, np.full(10, -np.log(100)), 100),
    ],
    ids=["risk", "accuracy", "one label", "no loss"],
)
def test_an_estimate_shows_the_numbers_of_its_text(estimate):
    head, row = card(estimate).tables[0].rows
    assert numbers(" ".join(row)) == [n for n in numbers(str(estimate)) if n != "95"]
    assert row[0] == ("accuracy" if estimate.greater_is_better else "risk")
    assert head == ["", "estimate", "standard error", "95 % interval", "labels", "rows of the pool"]


@pytest.fixture(scope="module")
def tester():
    made = ActiveTester(StochasticBatchQuery("entropy", epsilon=0.1, random_state=0), X)
    made.tell(y[made.ask(LogisticRegression(max_iter=1000).fit(X[::5], y[::5]), 30)])
    return made


def test_a_difference_and_a_measure_show_the_numbers_of_their_texts(tester):
    models = [LogisticRegression(C=C, max_iter=1000).fit(X[::3], y[::3]) for C in (0.01, 1)]
    for estimate in (tester.difference(*models), tester.measure(models[0], "balanced_accuracy", random_state=0)):
        _, row = card(estimate).tables[0].rows
        assert numbers(" ".join(row)) == [n for n in numbers(str(estimate)) if n != "95"]


# --- stopping and campaigns -----------------------------------------------------------------------


@pytest.mark.parametrize(
    "options", [{}, {"risk": RiskEstimate(0.125, 0.02, n_labelled=60, n_pool=1000)}], ids=["plain", "with a risk"]
)
def test_a_report_shows_its_verdict_and_its_sentences_by_topic(options):
    report = stopping_report(**options)
    read = card(report)
    assert " ".join([*read.lines, *(cell for _, cell in read.tables[0].rows)]) == str(report)
    assert read.lines == [f"{report.labels[-1]} labels: {report.verdict}."]


def test_a_status_shows_its_sentences_by_topic(tmp_path):
    status = campaign(tmp_path).status()
    read = card(status)
    assert "\n".join([*read.lines, *(cell for _, cell in read.tables[0].rows)]) == str(status)
    assert [name for name, _ in read.tables[0].rows] == ["labels", "out", "accuracy", "report"]
    assert HOSTILE in read.tables[0].rows[0][1]


def test_counts_of_any_size_are_written_out():
    counts = {"no": 1_234_567, "yes": 999}
    status = Status(1_300_000, 1_235_566, 0, 0, 0, 64_434, 0, 0, counts, pd.DataFrame())
    assert str(status).endswith("Labels: no: 1,234,567, yes: 999.")
    assert card(status).tables[0].rows == [["labels", "Labels: no: 1,234,567, yes: 999."]]
    status = replace(status, by_label={"least": 2, "mean": 1 / 3, "largest": np.int64(5_000_000)})
    assert str(status).endswith("Labels: least: 2, mean: 0.333333, largest: 5,000,000.")


def test_a_campaign_shows_its_counts_and_its_labels(tmp_path):
    shown = campaign(tmp_path)
    status, read = shown.status(accuracy=False, report=False), card(shown)
    assert read.lines == card(status).lines
    assert HOSTILE in read.tables[0].rows[0][1]
