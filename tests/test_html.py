"""What notebooks show of results: well-formed tables with the texts and numbers of the text form, of bounded size."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree

import numpy as np
import pandas as pd
from hypothesis import given
from hypothesis import strategies as st
from sklearn.datasets import load_iris
from sklearn.linear_model import LogisticRegression

from skactive import Campaign, ExperimentResult, StochasticBatchQuery, run_experiment
from skactive._utils import html
from skactive.experiment._results import Failure
from skactive.risk import ActiveTester, RiskEstimate, estimate_risk

HOSTILE = "<b>\"a\" & 'b'</b> $x$ </td><script>alert(1)</script>"
CHARACTERS = st.characters(exclude_categories=["Cc", "Cs", "Cn", "Co"])  # XML has these all
TEXTS = st.text(CHARACTERS, max_size=80) | st.text("<>&;#/\"'ab", max_size=80)
X, y = load_iris(return_X_y=True)
TAGS = {"div", "p", "strong", "table", "caption", "tbody", "tfoot", "tr", "th", "td"}
MODEL = LogisticRegression(max_iter=1000)


class Card:
    """What a reader sees of a card, which is well-formed: lines, and of tables the title, rows and what is left out."""

    def __init__(self, content: str) -> None:
        self.tree = ElementTree.fromstring(content)
        self.lines = ["".join(p.itertext()) for p in self.tree.iter("p")]
        self.tables = [self.read(table) for table in self.tree.iter("table")]

    def read(self, table):
        rows = [[cell.text or "" for cell in row] for row in table.findall("thead/tr") + table.findall("tbody/tr")]
        return table.findtext("caption"), rows, table.findtext("tfoot/tr/td", "")


def card(result):
    return Card(result._repr_html_())


def words(text):
    return " ".join(text.split())


def numbers(text):
    return re.findall(r"[-+]?\d+(?:\.\d+)?(?:e[-+]\d+)?|nan|inf", text)


@given(st.lists(st.tuples(TEXTS, TEXTS), min_size=1, max_size=5), TEXTS.filter(bool), st.booleans())
def test_any_text_comes_back_as_it_was(rows, text, is_sentences):
    table = html.Table(rows, head=[text, text], title=text, is_sentences=is_sentences)
    read = Card(html.card(text, [table], note=text))
    assert read.tables == [(text, [[text, text], *map(list, rows)], "")]
    assert read.lines == [text, text]


def test_a_card_has_no_script_no_address_and_no_colours_and_says_how_many_rows_it_leaves_out():
    for n, said in ((20, ""), (12_345, "12,325 more of 12,345 rows")):
        read = Card(html.card("title", [html.Table([["a", "1"]] * n, title="table")], note="note"))
        assert (len(read.tables[0][1]), read.tables[0][2]) == (20, said)
    assert {element.tag for element in read.tree.iter()} <= TAGS
    assert read.tree.attrib == {"class": "tex2jax_ignore mathjax_ignore"}
    others = {text for element in read.tree.iterfind(".//*") for text in element.attrib.items()}
    assert others == {("style", "text-align:left"), ("style", "text-align:right")}


def test_summaries_show_the_cells_of_their_text_and_results_their_counts_and_their_summary():
    queries = {HOSTILE: StochasticBatchQuery("entropy"), "uniform": StochasticBatchQuery("entropy", "uniform")}
    sizes = {"n_initial": 6, "n_rounds": 2, "n_trials": 3, "batch_size": 5}
    scoring = ["accuracy", "neg_log_loss"]
    result = run_experiment(MODEL, queries, X, y, **sizes, scoring=scoring, random_state=0)
    for summary in (result.summary(), result.label_savings()):
        read = card(summary)
        blocks = [words(" ".join([title, *(" ".join(row) for row in rows)])) for title, rows, _ in read.tables]
        assert [*blocks, *map(words, read.lines)] == [words(block) for block in str(summary).split("\n\n")]
        assert any(HOSTILE in row for row in read.tables[0][1])
    read, summary = card(result), card(result.summary())
    assert read.lines == [repr(result), *summary.lines]
    assert read.tables == summary.tables
    failed = tuple(Failure(trial, query, 1, "E", HOSTILE, "") for query in queries for trial in range(3))
    for little in (ExperimentResult(()), ExperimentResult(result.rounds, failed)):
        assert card(little).lines[0] == repr(little)


def test_estimates_and_differences_show_the_numbers_of_their_texts():
    tester = ActiveTester(StochasticBatchQuery("entropy", epsilon=0.1, random_state=0), X)
    tester.tell(y[tester.ask(MODEL.fit(X[::5], y[::5]), 30)])
    models = [LogisticRegression(C=C, max_iter=1000).fit(X[::3], y[::3]) for C in (0.01, 1)]

    estimates = {
        "accuracy": RiskEstimate(0.875, 0.02, n_labelled=60, n_pool=1000, greater_is_better=True, largest_loss=1),
        "risk without a loss": estimate_risk([False] * 10, np.full(10, -np.log(100)), 100),
        "difference": tester.difference(*models),
    }
    for name, estimate in estimates.items():
        _, row = card(estimate).tables[0][1]
        assert numbers(" ".join(row)) == [n for n in numbers(str(estimate)) if n != "95"], name
        assert row[0] == name.split()[0]


def test_a_campaign_and_its_status_show_sentences_by_topic(tmp_path):
    frame = pd.DataFrame(X, columns=list("abcd")).assign(kind=None, name=[f"row {i}" for i in range(150)])
    path, labels = tmp_path / "<i>iris.db", ("setosa", HOSTILE, "virginica")
    campaign = Campaign.start(path, frame, target="kind", id="name", model="logistic", random_state=0)
    campaign.tell({name: labels[y[int(name.removeprefix("row "))]] for name in campaign.ask(45).index})
    campaign.ask(5)
    status = campaign.status()
    read, shown = card(status), card(campaign)
    assert "\n".join([*read.lines, *(cell for _, cell in read.tables[0][1])]) == str(status)
    assert [name for name, _ in read.tables[0][1]] == ["labels", "out", "model", "accuracy", "classes", "report"]
    assert shown.lines == read.lines
    assert shown.tables[0][1] == read.tables[0][1][:2]
    assert HOSTILE in shown.tables[0][1][0][1]
