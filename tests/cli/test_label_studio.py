"""Tasks for Label Studio and the answers in its exports: what comes back is what was said, or there is an error."""

from __future__ import annotations

import copy
import datetime
import html
import itertools
import json
import math
import re
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skactive import Campaign
from skactive.cli import main
from skactive.cli._label_studio import Answer, _key, answers, label_config, tasks

RECORDED = Path(__file__).parent / "label_studio"  # exports of the version in their names, of tasks of ours
ANN, BOB = "ann@example.org", "bob@example.org"
NAMES = {"id": "customer no.", "target": "churn?"}
SAID = {
    "classes": [
        *(Answer(id, None, ANN, True) for id in ("7", "i", "j")),
        *(Answer(id, "$5 or more", ANN, False) for id in ("a b", "f")),
        Answer("03", "<5%", ANN, False),
        Answer("d", "True", ANN, False),
        Answer("e", "3", ANN, False),
        Answer("e", "ü", BOB, False),
        Answer("g", " tab\tand\nline", ANN, False),
        Answer("h", "true", BOB, False),
    ],
    "numbers": [
        *(Answer(id, text, ANN, False) for id, text in (("03", "3"), ("7", "-2.5"), ("d", "-0.05"))),
        Answer("a b", None, ANN, True),
    ],
}
ID, CONTROL = "skactive_id_c", "skactive_answer_t"
C = {"id": "c", "target": "t"}
NOON = "2026-01-01T12:00:00.000000Z"
TEXT = st.text(st.characters(codec="utf-8"))
SHOWN = st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cn", "Co"]), min_size=1)  # XML has these all
ONE = pd.DataFrame({"a": [1]}, index=["03"])


@pytest.mark.parametrize("path", sorted(RECORDED.glob("*.json")), ids=lambda path: path.name)
def test_a_recorded_export_holds_what_was_said_by_addresses_or_numbers_of_annotators(path):
    people = {ANN: ANN, BOB: BOB} if "emails" in path.name else {"1": ANN, "2": BOB}
    exported = json.loads(path.read_text(encoding="utf-8"))
    before = copy.deepcopy(exported)
    found = [answer._replace(annotator=people[answer.annotator], when=None) for answer in answers(exported, **NAMES)]
    assert sorted(found, key=repr) == sorted(SAID[path.name.split("_")[0]], key=repr)
    assert exported == before


def rows_of(table: str) -> list[list[str]]:
    """The texts of a table in HTML that holds no other tags, as a browser would show them."""
    assert set(re.findall("<([a-z]+)", table)) == {"table", "tr", "th", "td"}
    found = re.findall("<th[^>]*>([^<]*)</th><td>([^<]*)</td>", table)
    assert len(found) == table.count("<tr>")
    return [[html.unescape(text) for text in row] for row in found]


def test_data_are_values_of_json_under_names_of_variables():
    columns = {  # with the name of the variable, and the two values
        "note": (["a", None], "note", "a", ""),
        "n": (pd.array([3, None], dtype="Int64"), "n", 3, None),
        "income (€)": ([np.nan, np.inf], "income_x20__x28__x20AC__x29_", None, "inf"),
        "active": ([True, False], "active", True, False),
        "flag": (pd.array([True, None], dtype="boolean"), "flag", True, None),
        "since": (pd.to_datetime(["2026-01-31", None]), "since", "2026-01-31T00:00:00", None),
        "day": ([datetime.date(2026, 1, 31), pd.NaT], "day", "2026-01-31", None),
        "plan": (pd.Categorical(["basic", None]), "plan", "basic", ""),
        "mixed": ([1, "x"], "mixed", 1, "x"),
        "a.b": ([np.float32(0.5), np.int8(2)], "a_x2E_b", 0.5, 2.0),
    }
    frame = pd.DataFrame({name: values for name, (values, *_) in columns.items()}, index=["03", "4"])
    before = frame.copy(deep=True)
    made = tasks(frame, id="customer", target="churn", guesses=[("a", 0.5), (None, None)])
    pd.testing.assert_frame_equal(frame, before)
    sent = [task["data"] for task in json.loads(json.dumps(made, allow_nan=False))]
    for place, (id, data) in enumerate(zip(frame.index, sent, strict=True)):
        del data["skactive_row"]
        values = {key: both[place] for _, key, *both in columns.values()}
        assert json.dumps(data) == json.dumps({"skactive_id_customer": id, **values})


@settings(max_examples=30)
@given(TEXT, TEXT, st.one_of(TEXT, st.integers(-(2**62), 2**62)))
def test_any_text_is_shown_as_it_stands(name, value, row):
    data = tasks(pd.DataFrame({name: [value]}, index=[row]), id="an id", target="t")[0]["data"]
    assert rows_of(data["skactive_row"]) == [["an id", str(row)], [name, value]]
    assert data["skactive_id_an_x20_id"] == row


ODD = ["", "_x20_", "_x_", "__x41__", "skactive_", "skactive_row", "_skactive_", "id", "a b", "$a", "é", "\U0001f600"]


@given(st.one_of(TEXT, st.sampled_from(ODD), st.text("_x20AFskactive ")))
def test_keys_are_names_of_variables_from_which_the_names_come_back(name):
    key = _key(name)
    assert re.fullmatch(r"[A-Za-z0-9_]+", key)
    assert not key.startswith("skactive_")
    assert re.sub(r"_x([0-9A-F]*)_", lambda match: chr(int(match[1], 16)) if match[1] else "", key) == name
    if re.fullmatch(r"[A-Za-z0-9]+", name):
        assert key == name


@pytest.mark.parametrize("kind", ["classes", "number"])
def test_a_guess_that_an_annotator_keeps_comes_back_as_text(kind):
    guesses = {
        "classes": [("<5%", "<5%"), (np.bool_(False), "False"), (np.int64(3), "3"), (0.5, "0.5"), ("03", "03")],
        "number": [(3, "3"), (-0.05, "-0.05"), (np.float64(1e300), "1e+300"), (-2.8972709523809517, "-2.89727")],
    }[kind]
    for guess, text in guesses:
        (made,) = json.loads(json.dumps(tasks(ONE, **C, guesses=[(guess, 0.75)], kind=kind)))
        assert made["predictions"][0]["score"] == 0.75
        kept = annotation(1, result=made["predictions"][0]["result"])
        assert read_back({"id": 1, "data": made["data"], "annotations": [kept]}) == [Answer("03", text, "1", False)]


def test_rows_without_a_guess_have_no_prediction_and_guesses_without_a_probability_no_score():
    guesses = [(None, 0.5), (pd.NA, pd.NA), (1, math.nan)]
    made = [task["predictions"] for task in tasks(pd.DataFrame({"a": range(3)}), **C, guesses=guesses)]
    assert made[:2] == [[], []]
    assert made[2][0].keys() == {"model_version", "result"}


def test_a_guess_is_of_the_controls_in_the_labelling_interface():
    for kind, guess, tag in (("classes", "yes", "Choices"), ("number", 2.5, "TextArea")):
        names = {"id": "c", "target": "is it?", "kind": kind}
        result = tasks(ONE, guesses=[(guess, 1)], **names)[0]["predictions"][0]["result"][0]
        config = ElementTree.fromstring(label_config(ONE, labels=["yes", "no"], **names))
        control = config.find(tag)
        assert (control.get("name"), control.get("toName")) == (result["from_name"], result["to_name"])
        assert config.find(f"*[@name='{result['to_name']}']").get("value") == "$skactive_row"
        assert result["type"] == tag.lower()
        assert config.find("Number") is None  # which takes a typed 0.05 for 5


def variables_filled_in(value: str) -> str:
    """What Label Studio's page shows of an attribute where there are no such variables."""
    return re.sub(r"\$([A-Za-z0-9_\[\].{}]+)", "", value)


@given(st.lists(SHOWN.filter(str.strip), min_size=1, max_size=12, unique=True), SHOWN)
def test_every_label_is_shown_and_comes_back(labels, target):
    view = ElementTree.fromstring(label_config(ONE, id="c", target=target, labels=labels))
    choices = view.findall("Choices/Choice")
    shown = [variables_filled_in(choice.get("value")) for choice in choices]
    assert [choice.get("alias") or value for choice, value in zip(choices, shown, strict=True)] == labels
    assert [text.replace("\u200b", "") for text in shown] == [label.replace("\u200b", "") for label in labels]
    assert not {choice.get("alias") for choice in choices} & {"true", "false"}  # which the page takes for booleans
    assert [choice.get("hotkey") for choice in choices] == [*"1234567890", None, None][: len(labels)]
    heading = variables_filled_in(view.findall("Header")[-1].get("value"))
    assert heading.replace("\u200b", "") == target.replace("\u200b", "")


def test_columns_of_images_are_shown_as_images():
    images = {
        "photo": ["a/1.PNG", "b.jpg"],
        "web": ["https://example.org/x.jpeg?size=1", None],
        "local": ["/data/local-files/?d=x/1.webp", ""],
        "inline": ["data:image/png;base64,AAAA", "x.gif"],
    }
    others = {"page": ["https://example.org/", "x.png"], "text": ["a note on x.png\nand more", "y.png"]}
    frame = pd.DataFrame({**images, **others, "none": None})
    view = ElementTree.fromstring(label_config(frame, **C, labels=["a"]))
    assert [image.get("value") for image in view.findall("Image")] == [f"${name}" for name in images]
    assert [header.get("value") for header in view.findall("Header")] == [*images, "t"]
    for task in tasks(frame, **C):  # Label Studio refuses an image that is null
        assert all(isinstance(task["data"][name], str) for name in images)


def test_the_interface_of_one_batch_fits_the_tasks_of_another():
    first = pd.DataFrame({"a": ["x"], "b": ["x.png"]})
    then = pd.DataFrame({"a": ["long\n" * 100], "b": pd.Series([None], dtype=object)}, index=[7])
    view = ElementTree.fromstring(label_config(first, **C, labels=["a"]))
    data = tasks(then, **C)[0]["data"]
    bound = [tag.get("value")[1:] for tag in view.iter() if tag.get("name") and tag.get("value")]
    assert all(isinstance(data[key], str) for key in bound)
    assert ["a", "long\n" * 100] in rows_of(data["skactive_row"])


def test_labels_that_would_not_come_back_are_an_error():
    for labels, message in ((None, "no classes"), (["a", " "], "label ' '"), (["\0"], "rename it"), (["\ud800"], "it")):
        with pytest.raises(ValueError, match=message):
            label_config(ONE, **C, labels=labels)


def annotation(number, label="yes", user=1, **more):
    result = [{"from_name": CONTROL, "to_name": "skactive_row", "type": "choices", "value": {"choices": [label]}}]
    one = {"id": number, "completed_by": user, "updated_at": NOON, "was_cancelled": False, "result": result}
    return {**one, **more}


def exported(*annotations, number=12, row="03", **more):
    return {"id": number, "data": {ID: row}, "annotations": list(annotations), **more}


def read_back(*exports):
    return [answer._replace(when=None) for answer in answers(list(exports), **C)]


def test_the_last_answer_of_an_annotator_counts_in_whatever_order_they_come():
    several = [
        annotation(1, "first", created_at="2026-01-01T10:00:00Z", updated_at="2026-01-01T12:00:00.5+01:00"),
        annotation(9, "last but one", created_at="2026-01-01T09:00:00Z", updated_at="2026-01-01T11:00:01Z"),
        annotation(10, "last", updated_at="2026-01-01T11:00:01Z"),  # at the same time: the later number
    ]
    for order in itertools.permutations(several):
        assert read_back(exported(*order)) == [Answer("03", "last", "1", False)]
        assert answers([exported(*order)], **C)[0].when == 1_767_265_201  # 11:00:01 of New Year's day
        imported_thrice = [exported(one, number=place) for place, one in enumerate(order)]
        assert read_back(*imported_thrice) == [Answer("03", "last", "1", False)]


def test_of_annotators_the_latest_counts_and_what_was_withdrawn_stays_so(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    frame = pd.DataFrame({"c": ["03", "04"], "x": [1, 2], "t": None})
    campaign = Campaign.start("c.db", frame, target="t", id="c", labels=["yes", "no"])
    campaign.ask(2)
    both = annotation(1, "yes", updated_at="2026-02-01T00:00:00Z"), annotation(2, "no", user=2)  # of New Year's day
    export = json.dumps([exported(*both, row=row) for row in frame["c"]])
    for text, code, said in (
        (export, 0, "4 new labels. The campaign has 2 labels (yes: 2)"),
        (export, 0, "2 known already, 2 left out, as withdrawn or replaced since. The campaign has 1 label"),
        (export.replace('"03"', '"999"'), 2, "e.json: '999' is not an id of the campaign"),
        (export.replace('"data"', '"data": {}, "data"'), 2, "it has a duplicate key"),
        ("[" * 100_000, 2, "e.json cannot be read"),
    ):
        Path("e.json").write_text(text)
        assert main(["tell", "c.db", "e.json"]) == code
        assert said in "".join(capsys.readouterr())
        if campaign.to_frame()["t"].notna().all():
            campaign.withdraw(["03"])


def test_a_skip_counts_like_an_answer():
    for skipped_at, counts in (("2", Answer("03", None, "1", True)), ("0", Answer("03", "yes", "1", False))):
        skip = annotation(2, was_cancelled=True, updated_at=f"2026-01-01T1{skipped_at}:30:00Z")
        assert read_back(exported(annotation(1, updated_at="2026-01-01T11:00:00Z"), skip)) == [counts]


def test_annotators_answer_each_for_themselves_and_guesses_and_drafts_are_no_answers():
    result = annotation(1)["result"]
    assert read_back(
        exported(annotation(1, "a"), annotation(2, "b", user={"id": 7, "email": ANN, "first_name": "A"}), row=3),
        exported(annotation(3, "a", user=7), row="3"),
        exported(predictions=[{"model_version": "x", "result": result}], drafts=[{"id": 4, "result": result}]),
    ) == [Answer(3, "a", "1", False), Answer(3, "b", ANN, False), Answer("3", "a", "7", False)]


def with_result(*results):
    return [exported({**annotation(1), "result": list(results)})]


def valued(**value):
    return {"from_name": CONTROL, "value": value}


def test_what_is_no_export_of_ours_is_one_line_that_names_the_task():
    for content, message in [
        ({"a": 1}, "JSON export"),
        ([{"id": 12, "data": {"text": "x"}, "annotations": []}], "task 12 .*'skactive_id_c'"),
        ([{"id": 12, ID: "03", CONTROL: "yes", "annotator": 1}], "task 12 .*'data'"),  # the short format
        (tasks(ONE, **C), "'annotations'"),
        (with_result({"from_name": "mood", "value": {}}), "task 12 .*'mood'"),
        (with_result(valued(choices=["a", "b"])), "has 2: .'a', 'b'"),
        (with_result(), "task 12 .*has 0"),
        ([exported(annotation(1, updated_at="yesterday"))], "task 12 .*'yesterday'"),
    ]:
        with pytest.raises(ValueError, match=message):
            answers(content, **C)
