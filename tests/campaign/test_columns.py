"""How columns are read: by nearly all their cells, decided once, and what a cell of another kind is."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from sklearn.dummy import DummyClassifier

from skactive import Campaign
from skactive.campaign import CampaignError
from skactive.campaign._columns import check_readings, described, read, readings_of
from skactive.campaign._ledger import Event
from skactive.campaign._store import Overtaken

TENTHS = [f"{v:.1f}" for v in np.arange(13.1, 23.1, 0.1)]
COMMAS, GERMAN, DAYS = ["13,20", "12,9", "980"] * 20, ["980", "12.500", "1.028"] * 20, ["05.01.2024", "31.12.2023"] * 20
CASES = {  # cells, the decimal mark of the table, kind, the last value, how many cells are odd
    "a word": ([*TENTHS, "unknown"], None, "number", None, 1),
    "a word in a third": ([*TENTHS, *["unknown"] * 50], None, "number", None, 50),
    "a mark for a gap": ([*TENTHS, "-"], None, "number", None, 0),
    "zeros in front": ([*TENTHS, "007"], None, "number", None, 1),
    "a typographic minus": ([*TENTHS, "−12.5"], None, "number", -12.5, 0),
    "a German number": ([*TENTHS, "1.234,50"], None, "number", None, 1),
    "a comma that may part thousands": ([*TENTHS, "12,573"], ".", "number", None, 1),
    "commas that do": ([*TENTHS, "1,234.5", "12,573"], None, "number", 12573.0, 0),
    "a unit for all": ([f"{cell} mg" for cell in TENTHS], None, "number", 23.1, 0),
    "per cent": ([f"{cell}%" for cell in TENTHS], None, "number", 23.1, 0),
    "a number beside per cent": ([*[f"{cell}%" for cell in TENTHS], 0.231], None, "number", None, 1),
    "units beside numbers": ([*map(float, TENTHS), "12 mg", "13 mg"], None, "number", None, 2),
    "money": ([f"${cell}" for cell in TENTHS], None, "number", 23.1, 0),
    "units that differ": (["12 mg", "3 g"] * 20, None, "category", "3 g", 0),
    "decimal commas": ([*COMMAS, "1.065,00"], None, "number", 1065.0, 0),
    "a point among commas": ([*COMMAS, "1.065"], ",", "number", None, 1),
    "thousands of a German table": (GERMAN, ",", "number", 1028.0, 0),
    "points of another": (GERMAN, None, "number", 1.028, 0),
    "commas of an unknown table": (["1,028", "12,500", "980"] * 20, None, "category", "980", 0),
    "codes": ([f"{i:05d}" for i in range(9990, 10090)], None, "text", "10089", 0),
    "telephones": ([f"+49301234{i}" for i in range(100, 110)], None, "category", "+49301234109", 0),
    "dates": ([*DAYS, "soon"], None, "date", None, 1),
    "short years": (["17.10.22", "31.12.23"] * 20, None, "date", pd.Timestamp(2023, 12, 31), 0),
    "days with hours": ([f"{day} 00:00" for day in DAYS], None, "date", pd.Timestamp(2023, 12, 31), 0),
    "first days of months": (
        [*["01/02/2021", "01/03/2021"] * 24, "12/31/2021"],
        None,
        "date",
        pd.Timestamp(2021, 12, 31),
        0,
    ),
    "thousands by a blank": (["63\u00a0147,773", "24'138,858"] * 20, None, "number", 24138.858, 0),
    "version": (["1.10.2", "1.9.13", "2.0.1"] * 20, None, "category", "2.0.1", 0),
    "infinity": ([0.5, 1.5, np.inf], None, "number", None, 1),
    "one value": (["a", None], None, "constant", None, 0),
    "nothing": ([None, None], None, "empty", None, 0),
}


@pytest.mark.parametrize(("cells", "decimal", "kind", "last", "odd"), CASES.values(), ids=CASES)
def test_nearly_all_cells_decide_and_a_cell_in_doubt_is_a_gap(cells, decimal, kind, last, odd):
    X = pd.DataFrame({"x": pd.Series(cells, dtype=object)})
    readings = readings_of(X, decimal)
    found, values = described(X, readings).loc["x"], read(X["x"], readings["x"])
    assert (found["kind"], found["odd"]) == (kind, odd)
    assert found["gaps"] == values.isna().sum()
    assert pd.isna(values.iloc[-1]) if last is None else values.iloc[-1] == last


@pytest.mark.parametrize("make", [np.array, "arrow"])
def test_lists_of_one_length_are_numbers_and_others_are_refused(tmp_path, make):
    lists = [[i / 8, -i / 8, 1.0] for i in range(40)]
    arrow = pd.Series(lists, dtype=pd.ArrowDtype(pa.list_(pa.float64())))
    frame = table().assign(x=arrow if make == "arrow" else pd.Series([make(one) for one in lists]))
    campaign = Campaign.start(tmp_path / "c.db", frame, target="y", id="id", random_state=0)
    assert campaign.columns()["read_as"]["x"] == "list of 3 numbers"
    campaign.tell({id: "high" if int(id[1:]) > 20 else "low" for id in campaign.ask(30).index})
    new = frame.tail(2).assign(x=pd.Series([[5.0, -5.0, 1.0], [1.0]], [38, 39]), high=[True, None])
    with pytest.warns(UserWarning, match=r"Column 'x', read as list of 3 numbers: 1 value does not fit \('\[1.0\]"):
        assert campaign.predict(new)["guess"]["r38"] == "high"
    Campaign.open(tmp_path / "c.db", frame).ask(1)
    ragged = frame.assign(x=[[1.0] * (i % 3 + 1) for i in range(40)])
    for bad, message in (
        (ragged, r"must have lists of numbers of one length .* Not so 'x' \('\[1.0, 1.0\]', row 'r1'\)"),
        (frame.assign(x=[["a"]] * 40), "must have lists of numbers of one length"),
        (frame.assign(**{"x 2": 1}), "must have no column 'x 2' beside the lists of 'x'"),
    ):
        with pytest.raises(CampaignError, match=message):
            Campaign.start(tmp_path / "d.db", bad, target="y", id="id")
    own = Campaign.start(tmp_path / "d.db", ragged, target="y", id="id", model=DummyClassifier())
    for one in (own, Campaign.open(own.path)):
        with pytest.raises(CampaignError, match="lists of numbers of one length for a model by name"):
            one.set(model="forest")


def table():
    x = np.arange(40) / 10 + 0.5
    return pd.DataFrame({"id": [f"r{i}" for i in range(40)], "x": x, "high": x > 2, "y": None})


def test_the_reading_of_the_start_stays_and_an_odd_cell_later_is_named(tmp_path):
    Campaign.start(tmp_path / "c.db", table(), target="y", id="id", random_state=0)
    new = pd.DataFrame({"id": ["new"], "x": ["unknown"], "high": ["?"]})
    later = pd.concat([table().astype({"x": str, "high": str}), new], ignore_index=True)
    with pytest.warns(UserWarning, match=r"Column 'x', read as number: 1 value does not fit \('unknown', row 'new'\)"):
        campaign = Campaign.open(tmp_path / "c.db", later)
    found = campaign.columns()
    assert found["kind"].tolist() == ["number", "number"]
    assert (found["gaps"].tolist(), found["odd"].tolist()) == ([1, 1], [1, 0])
    later.loc[2, "x"] = "12 mg"
    with (
        pytest.warns(UserWarning, match=r"Column 'x', read as number: 1 value does not fit \('12 mg', row 'r2'\)"),
        pytest.raises(CampaignError, match="1 row holds other values: 'r2'"),
    ):
        Campaign.open(tmp_path / "c.db", later)
    with pytest.raises(CampaignError, match="Column 'z' is complex"):
        Campaign.start(tmp_path / "d.db", table().assign(z=1j), target="y", id="id")


def test_the_first_labels_decide_what_labels_are_for_every_process_and_it_is_said(tmp_path):
    given = {"target": "y", "id": "id", "random_state": 0}
    campaign, other = (Campaign.start(tmp_path / "c.db", table(), **given), Campaign.open(tmp_path / "c.db", table()))
    ids = campaign.ask(20).index
    with pytest.warns(UserWarning, match='read as numbers to predict, .*`set` changes it by `task="classification"`'):
        campaign.tell({id: 10 * i for i, id in enumerate(ids)})
    assert campaign.kind == other.kind == Campaign.open(tmp_path / "c.db").kind == "numbers"
    assert other.ask(3)["guess"].between(0, 190).all()
    campaign = Campaign.start(tmp_path / "d.db", table(), **given)
    campaign.tell(dict.fromkeys(campaign.ask(4).index, "a"))
    assert campaign.kind == "classes"


def test_labels_are_written_with_what_they_decide_or_not_at_all(tmp_path):
    campaign = Campaign.start(tmp_path / "c.db", table(), target="y", id="id", random_state=0)
    rows = campaign._rows_of(campaign.ask(2).index)
    seen = campaign._store.ledger().seen
    Campaign.open(tmp_path / "c.db").tell({"r1": "a"}, unasked=True)
    with pytest.raises(Overtaken):
        campaign._store.add_events([Event("tell", rows[0], 1.5)], seen, {"kind": "numbers"})
    assert Campaign.open(tmp_path / "c.db").status(report=False).by_label == {"a": 1}
    assert campaign.kind == "classes"


def test_the_file_holds_kinds_and_units_and_nothing_of_a_row_and_no_column_of_groups_or_weights(tmp_path):
    frame = table().assign(note=[None] * 39 + ["7 Smith"], dose=[f"{i}.5 mg" for i in range(40)], site="s", w=2.5)
    frame.loc[3, "dose"] = "7 Jones"
    with pytest.warns(UserWarning, match="Column 'dose', read as number like 1.5 mg: 1 value"):
        campaign = Campaign.start(tmp_path / "c.db", frame, target="y", id="id", groups="site", weight="w")
    content = (tmp_path / "c.db").read_bytes()
    assert b"Smith" not in content
    assert b"Jones" not in content
    readings = campaign._settings["readings"]
    assert set(readings) == {"x", "high", "note", "dose"}
    others = {"mark": "", "after": "7 Smith", "form": "Smith", "grouped": 1}
    for name, wrong in (("kind", "no"), ("kind", "embedding"), *others.items()):
        with pytest.raises(ValueError, match="column 'dose' has no reading"):
            check_readings({**readings, "dose": {**readings["dose"], name: wrong}}, readings)
    with pytest.raises(ValueError, match="has a reading"):
        check_readings(readings, ["x"])
