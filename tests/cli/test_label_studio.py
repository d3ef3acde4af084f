"""Tasks for Label Studio and the answers in its exports: what comes back is what was said, or there is an error.

The files in label_studio/ are exports of the version in their names, recorded by round_trip.py there.
"""

from __future__ import annotations

import copy
import datetime
import itertools
import json
import math
import re
import xml.etree.ElementTree as ElementTree
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skactive.cli._label_studio import Answer, _key, answers, label_config, tasks

RECORDED = Path(__file__).parent / "label_studio"
ANN, BOB = "ann@example.org", "bob@example.org"
NAMES = {"id": "customer no.", "target": "churn?"}
SAID = {
    "classes": [
        Answer("03", "<5%", ANN, False),
        Answer("7", None, ANN, True),
        Answer("a b", "$5 or more", ANN, False),
        Answer("d", "True", ANN, False),
        Answer("e", "3", ANN, False),
        Answer("e", "ü", BOB, False),
        Answer("f", "$5 or more", ANN, False),
        Answer("g", " tab\tand\nline", ANN, False),
        Answer("h", "true", BOB, False),
        Answer("i", None, ANN, True),
        Answer("j", None, ANN, True),
    ],
    "numbers": [
        Answer("03", "3", ANN, False),
        Answer("7", "-2.5", ANN, False),
        Answer("a b", None, ANN, True),
        Answer("d", "-0.05", ANN, False),
    ],
}
ID, CONTROL = "skactive_id_c", "skactive_answer_t"
NOON = "2026-01-01T12:00:00.000000Z"
TEXT = st.text(st.characters(codec="utf-8"))
SHOWN = st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cn", "Co"]), min_size=1)  # XML has these all


def read(path: Path):
    return json.loads(path.read_text(encoding="utf-8"))


def recordings(form: str) -> list[Path]:
    return sorted(RECORDED.glob(f"*_{form}_[0-9]*.json"))


def by_user(exported: list[Answer], people: dict[str, str]) -> list[Answer]:
    return [answer._replace(annotator=people[answer.annotator]) for answer in exported]


def unordered(found: list[Answer]) -> list[Answer]:
    assert len(set(found)) == len(found)
    return sorted(found, key=repr)


# What Label Studio made of our tasks


@pytest.mark.parametrize("path", recordings("json_emails"), ids=lambda path: path.name)
def test_a_recorded_export_that_names_annotators_holds_what_was_said(path):
    assert unordered(answers(read(path), **NAMES)) == unordered(SAID[path.name.split("_")[0]])


@pytest.mark.parametrize("path", recordings("json"), ids=lambda path: path.name)
def test_a_recorded_export_holds_what_was_said_with_numbers_for_annotators(path):
    found = by_user(answers(read(path), **NAMES), {"1": ANN, "2": BOB})
    assert unordered(found) == unordered(SAID[path.name.split("_")[0]])


# Tasks


class Cells(HTMLParser):
    """The texts of a table in HTML, as a browser would show them."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.rows: list[list[str]] = []
        self.tags: set[str] = set()
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        if tag == "tr":
            self.rows.append([])
        if tag in ("th", "td"):
            self.rows[-1].append("")

    def handle_data(self, data):
        self.rows[-1][-1] += data


def test_data_are_values_of_json_under_names_of_variables():
    frame = pd.DataFrame(
        {
            "note": ["a", None],
            "n": pd.array([3, None], dtype="Int64"),
            "income (€)": [np.nan, np.inf],
            "active": [True, False],
            "flag": pd.array([True, None], dtype="boolean"),
            "since": pd.to_datetime(["2026-01-31", None]),
            "day": [datetime.date(2026, 1, 31), pd.NaT],
            "plan": pd.Categorical(["basic", None]),
            "mixed": [1, "x"],
            "a.b": [np.float32(0.5), np.int8(2)],
        },
        index=["03", "4"],
    )
    data = [task["data"] for task in tasks(frame, id="customer", target="churn")]
    kept = [{key: value for key, value in row.items() if key != "skactive_row"} for row in data]
    assert kept == [
        {
            "skactive_id_customer": "03",
            "note": "a",
            "n": 3,
            "income_x20__x28__x20AC__x29_": None,
            "active": True,
            "flag": True,
            "since": "2026-01-31T00:00:00",
            "day": "2026-01-31",
            "plan": "basic",
            "mixed": 1,
            "a_x2E_b": 0.5,
        },
        {
            "skactive_id_customer": "4",
            "note": "",
            "n": None,
            "income_x20__x28__x20AC__x29_": "inf",
            "active": False,
            "flag": None,
            "since": None,
            "day": None,
            "plan": "",
            "mixed": "x",
            "a_x2E_b": 2,
        },
    ]
    assert kept[0]["active"] is True
    json.dumps(data, allow_nan=False)


@given(TEXT, TEXT, st.one_of(TEXT, st.integers(-(2**62), 2**62)))
def test_any_text_is_shown_as_it_stands(name, value, row):
    frame = pd.DataFrame({name: [value]}, index=[row])
    data = tasks(frame, id="an id", target="t")[0]["data"]
    shown = Cells(data["skactive_row"])
    assert shown.rows == [["an id", str(row)], [name, value]]
    assert shown.tags == {"table", "tr", "th", "td"}
    assert data["skactive_id_an_x20_id"] == row


def decoded(key: str) -> str:
    """The name of which `_key` made a key."""
    return re.sub(r"_x([0-9A-F]*)_", lambda match: chr(int(match[1], 16)) if match[1] else "", key)


ODD = [
    "",
    "_x20_",
    "_x_",
    "__x41__",
    "skactive_",
    "skactive_row",
    "_skactive_",
    "id",
    "x",
    "a b",
    "$a",
    "é",
    "\U0001f600",
]


@given(st.one_of(TEXT, st.sampled_from(ODD), st.text("_x20AFskactive ")))
def test_keys_are_names_of_variables_from_which_the_names_come_back(name):
    key = _key(name)
    assert re.fullmatch(r"[A-Za-z0-9_]+", key)
    assert not key.startswith("skactive_")
    assert decoded(key) == name
    if re.fullmatch(r"[A-Za-z0-9]+", name):
        assert key == name


def test_inputs_stay_as_they_are():
    frame = pd.DataFrame({"a": [1.0, np.nan], "b": ["x.png", None]}, index=[1, 2])
    before = frame.copy(deep=True)
    tasks(frame, id="c", target="t", guesses=[("a", 0.5), (None, None)])
    label_config(frame, id="c", target="t", labels=["a", "b"])
    pd.testing.assert_frame_equal(frame, before)
    exported = read(RECORDED / "numbers_json_1.23.2.json")
    kept = copy.deepcopy(exported)
    answers(exported, **NAMES)
    assert exported == kept


# Guesses


def as_annotated(task: dict, number: int) -> dict:
    """The task as it is exported once somebody has agreed to the guess."""
    result = task["predictions"][0]["result"]
    one = {"id": number, "completed_by": 1, "updated_at": NOON, "was_cancelled": False, "result": result}
    return {"id": number, "data": task["data"], "annotations": [one]}


@pytest.mark.parametrize(
    ("guess", "text"),
    [("<5%", "<5%"), ("a & b", "a & b"), (True, "True"), (np.bool_(False), "False"), (3, "3"), (np.int64(3), "3")]
    + [(0.5, "0.5"), (np.str_("x"), "x"), ("03", "03")],
)
def test_a_guess_that_an_annotator_keeps_comes_back_as_text(guess, text):
    frame = pd.DataFrame({"a": [1]}, index=["03"])
    made = tasks(frame, id="c", target="t", guesses=[(guess, 0.75)])
    assert made[0]["predictions"][0]["score"] == 0.75
    sent = json.loads(json.dumps(made))
    assert answers([as_annotated(sent[0], 1)], id="c", target="t") == [Answer("03", text, "1", False)]


def test_a_guess_is_of_the_controls_in_the_labelling_interface():
    frame = pd.DataFrame({"a": [1]})
    for kind, guess, tag in (("classes", "yes", "Choices"), ("number", 2.5, "TextArea")):
        names = {"id": "c", "target": "is it?", "kind": kind}
        result = tasks(frame, guesses=[(guess, 1)], **names)[0]["predictions"][0]["result"][0]
        config = ElementTree.fromstring(label_config(frame, labels=["yes", "no"], **names))
        control = config.find(tag)
        assert (control.get("name"), control.get("toName")) == (result["from_name"], result["to_name"])
        assert config.find(f"*[@name='{result['to_name']}']").get("value") == "$skactive_row"
        assert result["type"] == tag.lower()


@pytest.mark.parametrize("kind", ["classes", "number"])
def test_rows_without_a_guess_have_no_prediction(kind):
    frame = pd.DataFrame({"a": range(6)})
    guesses = [(None, None), (None, 0.5), (math.nan, math.nan), (pd.NA, pd.NA), (1, None), (1, math.nan)]
    made = [task["predictions"] for task in tasks(frame, id="c", target="t", guesses=guesses, kind=kind)]
    assert made[:4] == [[]] * 4
    assert [set(predictions[0]) for predictions in made[4:]] == [{"model_version", "result"}] * 2  # without a score
    assert [task["predictions"] for task in tasks(frame, id="c", target="t")] == [[]] * 6


# The labelling interface


def variables_filled_in(value: str, data: dict) -> str:
    """What Label Studio's page shows of an attribute."""
    return re.sub(r"\$([A-Za-z0-9_\[\].{}]+)", lambda match: str(data.get(match[1], "")), value)


@given(st.lists(SHOWN.filter(str.strip), min_size=1, max_size=12, unique=True), SHOWN)
def test_every_label_is_shown_and_comes_back(labels, target):
    frame = pd.DataFrame({"a": [1]})
    view = ElementTree.fromstring(label_config(frame, id="c", target=target, labels=labels))
    choices = view.findall("Choices/Choice")
    shown = [variables_filled_in(choice.get("value"), {}) for choice in choices]
    given_back = [choice.get("alias") or value for choice, value in zip(choices, shown, strict=True)]
    assert given_back == labels
    assert [text.replace("\u200b", "") for text in shown] == [label.replace("\u200b", "") for label in labels]
    assert not {choice.get("alias") for choice in choices} & {"true", "false"}  # which the page takes for booleans
    assert [choice.get("hotkey") for choice in choices] == [*"1234567890", None, None][: len(labels)]
    heading = variables_filled_in(view.findall("Header")[-1].get("value"), {})
    assert heading.replace("\u200b", "") == target.replace("\u200b", "")


def test_columns_of_images_are_shown_as_images():
    frame = pd.DataFrame(
        {
            "photo": ["a/1.PNG", "b.jpg"],
            "web": ["https://example.org/x.jpeg?size=1", None],
            "local": ["/data/local-files/?d=x/1.webp", ""],
            "inline": ["data:image/png;base64,AAAA", "x.gif"],
            "page": ["https://example.org/", "https://example.org/x.png"],
            "text": ["a note on x.png\nand more", "y.png"],
            "number": [1.5, 2.5],
            "none": [None, None],
            "odd": ["http://[x.png", "//[.gif"],
        }
    )
    view = ElementTree.fromstring(label_config(frame, id="c", target="t", labels=["a"]))
    images = [image.get("value") for image in view.findall("Image")]
    assert images == ["$photo", "$web", "$local", "$inline", "$odd"]
    assert [header.get("value") for header in view.findall("Header")][:-1] == [image[1:] for image in images]
    for task in tasks(frame, id="c", target="t"):  # Label Studio refuses an image that is null
        assert all(isinstance(task["data"][image[1:]], str) for image in images)


def test_the_interface_of_one_batch_fits_the_tasks_of_another():
    first = pd.DataFrame({"a": ["x"], "b": ["x.png"]})
    then = pd.DataFrame({"a": ["long\n" * 100], "b": pd.Series([None], dtype=object)}, index=[7])
    view = ElementTree.fromstring(label_config(first, id="c", target="t", labels=["a"]))
    data = tasks(then, id="c", target="t")[0]["data"]
    bound = [tag.get("value")[1:] for tag in view.iter() if tag.get("name") and tag.get("value")]
    assert all(isinstance(data[key], str) for key in bound)
    assert ["a", "long\n" * 100] in Cells(data["skactive_row"]).rows


# Which answer counts


def annotation(number, label="yes", user=1, **more):
    result = [{"from_name": CONTROL, "to_name": "skactive_row", "type": "choices", "value": {"choices": [label]}}]
    one = {"id": number, "completed_by": user, "updated_at": NOON, "was_cancelled": False, "result": result}
    return {**one, **more}


def exported(*annotations, number=12, row="03", **more):
    return {"id": number, "data": {ID: row}, "annotations": list(annotations), **more}


def read_back(*exports):
    return answers(list(exports), id="c", target="t")


def test_the_last_answer_of_an_annotator_counts_in_whatever_order_they_come():
    several = [
        annotation(1, "first", created_at="2026-01-01T10:00:00Z", updated_at="2026-01-01T12:00:00.5+01:00"),
        annotation(2, "last", created_at="2026-01-01T09:00:00Z", updated_at="2026-01-01T11:00:01Z"),
        annotation(3, "new", created_at="2026-01-01T11:00:00Z", updated_at="2026-01-01T11:00:00Z"),
    ]
    for order in itertools.permutations(several):
        assert read_back(exported(*order)) == [Answer("03", "last", "1", False)]
        assert read_back(*[exported(one, number=place) for place, one in enumerate(order)]) == [
            Answer("03", "last", "1", False)  # the row was imported three times
        ]


def test_where_times_are_the_same_the_later_number_counts():
    for order in itertools.permutations([annotation(9, "first"), annotation(10, "last")]):
        assert read_back(exported(*order)) == [Answer("03", "last", "1", False)]


def test_a_skip_counts_like_an_answer():
    times = [{"updated_at": f"2026-01-01T00:00:0{second}Z"} for second in (1, 2)]
    answer, skip = annotation(1, **times[0]), annotation(2, was_cancelled=True, **times[1])
    assert read_back(exported(answer, skip)) == [Answer("03", None, "1", True)]
    answer, skip = annotation(1, **times[1]), annotation(2, was_cancelled=True, **times[0])
    assert read_back(exported(answer, skip)) == [Answer("03", "yes", "1", False)]


def test_annotators_answer_each_for_themselves():
    assert read_back(
        exported(annotation(1, "a"), annotation(2, "b", user={"id": 7, "email": ANN, "first_name": "A"}), row=3),
        exported(annotation(3, "a", user=7), row="3"),
    ) == [Answer(3, "a", "1", False), Answer(3, "b", ANN, False), Answer("3", "a", "7", False)]


def test_predictions_and_drafts_are_no_answers():
    guess = {"model_version": "x", "score": 0.5, "result": annotation(1)["result"]}
    draft = {"id": 4, "result": annotation(1)["result"]}
    assert read_back(exported(predictions=[guess], drafts=[draft])) == []


# What cannot be read


def with_result(*results, **more):
    return [exported({**annotation(1), "result": list(results), **more})]


BAD = {
    "no list": ({"a": 1}, "format JSON"),
    "no tasks": (["03,yes"], "no. 1 of the tasks"),
    "another project": ([{"id": 12, "data": {"text": "x"}, "annotations": []}], "task 12 .*'skactive_id_c'"),
    "a task without a number": ([{"data": {}, "annotations": []}], "no. 1 of the tasks"),
    "the short format": ([{"id": 12, ID: "03", CONTROL: "yes", "annotator": 1}], "task 12 .*'data'"),
    "another id": ([{"id": 12, "data": {"skactive_id_d": 1}, "annotations": []}], "task 12"),
    "an id that is none": ([exported(annotation(1), row=["03"])], "task 12"),
    "tasks that were not labelled yet": (tasks(pd.DataFrame({"a": [1]}), id="c", target="t"), "'annotations'"),
    "annotations that are numbers": ([{"id": 12, "data": {ID: 1}, "annotations": [1, 2]}], "task 12 .*JSON"),
    "another control": (with_result({"from_name": "mood", "value": {}}), "task 12 .*'mood'"),
    "a control beside ours": (with_result(*annotation(1)["result"], {"from_name": "mood"}), "task 12 .*'mood'"),
    "a region without control": (with_result("x"), "task 12"),
    "several choices": (with_result({"from_name": CONTROL, "value": {"choices": ["a", "b"]}}), "has 2: .'a', 'b'"),
    "several results": (with_result(*annotation(1)["result"] * 2), "task 12 .*has 2"),
    "nothing chosen": (with_result(), "task 12 .*has 0"),
    "no result": ([exported({"id": 1, "completed_by": 1, "updated_at": NOON, "was_cancelled": False})], "task 12"),
    "no choices": (with_result({"from_name": CONTROL, "value": {"choices": []}}), "has 0"),
    "an empty text": (with_result({"from_name": CONTROL, "value": {"text": [""]}}), "has 0"),
    "a rating, not a choice": (with_result({"from_name": CONTROL, "value": {"rating": 4}}), "task 12"),
    "a path of choices": (with_result({"from_name": CONTROL, "value": {"choices": [["a", "b"]]}}), "has 1: "),
    "a time that is none": ([exported(annotation(1, updated_at="yesterday"))], "task 12 .*'yesterday'"),
}


@pytest.mark.parametrize(("content", "message"), BAD.values(), ids=BAD)
def test_what_is_no_export_of_ours_is_one_line_that_names_the_task(content, message):
    with pytest.raises(ValueError, match=message) as caught:
        answers(content, id="c", target="t")
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 400


JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.sampled_from(["", "03", "yes", CONTROL])),
    lambda part: st.one_of(st.lists(part, max_size=3), st.dictionaries(st.sampled_from(["id", "choices", "x"]), part)),
    max_leaves=4,
)
ANYTHING = st.dictionaries(st.sampled_from(["id", "data", "annotations", ID, CONTROL]), JSON)
ANNOTATION = st.fixed_dictionaries(
    {},
    optional={
        "id": JSON,
        "completed_by": JSON,
        "was_cancelled": JSON,
        "updated_at": JSON,
        "result": st.one_of(JSON, st.lists(st.fixed_dictionaries({"from_name": st.just(CONTROL), "value": JSON}))),
    },
)
ALMOST = st.fixed_dictionaries(
    {"id": JSON, "data": st.fixed_dictionaries({ID: st.just("03")}), "annotations": st.lists(ANNOTATION, max_size=3)}
)


@given(st.one_of(JSON, st.lists(st.one_of(ANYTHING, ALMOST), max_size=3)))
def test_whatever_a_file_holds_there_are_answers_or_an_error_of_value(content):
    try:
        found = answers(content, id="c", target="t")
    except ValueError:
        return
    for answer in found:
        assert isinstance(answer.id, str | int)
        assert (answer.label is None) == answer.skipped
        assert isinstance(answer.annotator, str)


ONE = pd.DataFrame({"a": [1]}, index=["03"])


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ([], "no classes"),
        (None, "no classes"),
        (["a", ""], "label ''"),
        ([" "], "label ' '"),
        (["a\0"], "rename it"),
        (["\ud800"], "rename it"),
    ],
)
def test_labels_that_would_not_come_back_are_an_error(labels, message):
    with pytest.raises(ValueError, match=message):
        label_config(ONE, id="c", target="t", labels=labels)


@pytest.mark.parametrize("value", [{"text": ["-0.05"]}, {"text": "-0.05"}])
def test_a_number_comes_back_as_text(value):
    answer = annotation(1)
    answer["result"][0]["value"] = value
    assert read_back(exported(answer)) == [Answer("03", "-0.05", "1", False)]


@pytest.mark.parametrize(
    ("guess", "text"),
    [(3, "3"), (-0.05, "-0.05"), (np.float64(1e300), "1e+300"), (np.int8(-2), "-2"), (123456789, "123456789")]
    + [(-2.8972709523809517, "-2.89727")],
)
def test_a_guessed_number_that_an_annotator_keeps_comes_back_as_text(guess, text):
    made = tasks(ONE, id="c", target="t", guesses=[(guess, None)], kind="number")
    assert answers([as_annotated(made[0], 1)], id="c", target="t") == [Answer("03", text, "1", False)]


def test_a_number_needs_no_labels_and_is_typed_as_text():
    view = ElementTree.fromstring(label_config(ONE, id="c", target="t", labels=None, kind="number"))
    assert view.find("TextArea").get("name") == CONTROL
    assert view.find("Number") is None  # which takes a typed 0.05 for 5
