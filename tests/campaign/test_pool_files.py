"""Campaigns for tables in Parquet files: the same ids as from one DataFrame, and what is refused."""

import os
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.dataset
import pytest
from pyarrow import parquet
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from skactive import Campaign
from skactive.campaign import CampaignError

N, IN_A_FILE = 240, 60


@pytest.fixture(autouse=True)
def _in_a_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def table():
    """Texts, dates, truths and numbers with gaps; whole numbers whose gaps are in the last rows only."""
    rng = np.random.default_rng(0)
    visits = pa.array([None if i >= N - 20 and i % 3 == 0 else int(v) for i, v in enumerate(rng.integers(0, 9, N))])
    columns = {
        "customer": [f"{i:03d}" for i in range(N)],
        "age": rng.integers(18, 80, N),
        "income": np.where(rng.random(N) < 0.1, np.nan, rng.normal(size=N)),
        "visits": visits,
        "plan": [None if rng.random() < 0.1 else str(plan) for plan in rng.choice(["basic", "plus", "pro"], N)],
        "is_new": pa.array([None if i == N - 1 else bool(i % 2) for i in range(N)]),
        "since": pd.date_range("2020-01-01", periods=N, freq="D"),
        "size": pa.array(list("sml" * (N // 3))).dictionary_encode(),
        "churn": pa.nulls(N, pa.string()),
    }
    return pa.table(columns)


def truth(frame):
    says = np.where(frame["age"] + 20 * (frame["plan"] == "plus") > 50, "yes", "no")
    return dict(zip(frame["customer"], says.tolist(), strict=True))


def written(folder="pool", rows=None):
    """The table in some files of two row groups each."""
    os.makedirs(folder, exist_ok=True)
    whole = table() if rows is None else rows
    for i, start in enumerate(range(0, len(whole), IN_A_FILE)):
        parquet.write_table(whole.slice(start, IN_A_FILE), f"{folder}/p{i}.parquet", row_group_size=IN_A_FILE // 2)
    return folder


def own_model():
    columns = make_column_transformer(
        (OneHotEncoder(handle_unknown="ignore"), ["plan"]),
        (make_pipeline(SimpleImputer(), StandardScaler()), make_column_selector(dtype_include="number")),
    )
    return make_pipeline(columns, LogisticRegression())


def started(frame, name="churn.db", **options):
    given = {"target": "churn", "id": "customer", "random_state": 0, "model": "logistic"} | options
    return Campaign.start(name, frame, **given)


def rounds(frame, name, model, n=4):
    """Batches, each of which another process asks for; five rows of the first stay out."""
    campaign, says, batches = started(frame, name, model=model), truth(table().to_pandas()), []
    for i in range(n):
        batches.append(campaign.ask(15))
        told = batches[-1].index[: 10 if i == 0 else 15]
        campaign.tell({id: says[id] for id in told})
        campaign = Campaign.open(name, frame, model=None if isinstance(model, str) else model)
    return batches, campaign


WAYS = {
    "one file": lambda: parquet.write_table(table(), "one.parquet", row_group_size=50) or "one.parquet",
    "folder": written,
    "pattern": lambda: f"{written()}/*.parquet",
    "files in another order": lambda: [f"{written()}/p{i}.parquet" for i in (3, 1, 0, 2)],
    "dataset": lambda: pyarrow.dataset.dataset(written()),
}


@pytest.mark.parametrize(
    ("way", "model"),
    [*((way, own_model()) for way in WAYS), ("pattern", "forest")],
    ids=[*WAYS, "pattern, a model by name"],
)
def test_a_table_in_files_is_asked_for_the_rows_of_the_data_frame(way, model):
    expected, of_frame = rounds(table().to_pandas(), "frame.db", model)
    batches, campaign = rounds(WAYS[way](), "files.db", model)
    for found, batch in zip(batches, expected, strict=True):
        pd.testing.assert_frame_equal(found, batch)
    pd.testing.assert_frame_equal(campaign.to_frame(), of_frame.to_frame())
    pd.testing.assert_frame_equal(campaign.recheck(5), of_frame.recheck(5))
    found, status = campaign.status(patience=10), of_frame.status(patience=10)
    assert (str(found.report), found.accuracy, found.counts()) == (
        str(status.report),
        status.accuracy,
        status.counts(),
    )


def test_a_campaign_goes_on_from_files_to_a_data_frame_and_back():
    started(written()).ask(5)
    Campaign.open("churn.db", table().to_pandas()).ask(5)
    assert Campaign.open("churn.db", "pool").status(accuracy=False, report=False).n_out == 10


def test_new_files_in_between_are_taken_up_behind_the_rows_that_were_there():
    whole = table()
    written(rows=whole.slice(0, 180))
    campaign = started("pool")
    ids = campaign.ask(20).index
    os.rename("pool/p1.parquet", "pool/p10.parquet")  # stays where it is
    parquet.write_table(whole.slice(180, 60), "pool/p05.parquet")  # is read after p0
    of_frame = started(whole.slice(0, 180).to_pandas(), "frame.db")
    assert of_frame.ask(20).index.tolist() == ids.tolist()
    of_frame = Campaign.open("frame.db", whole.to_pandas())
    campaign = Campaign.open("churn.db", "pool")
    assert campaign.status(accuracy=False, report=False).n_rows == N
    for one in (campaign, of_frame):
        one.tell({id: truth(whole.to_pandas())[id] for id in ids})
    assert campaign.ask(20).index.tolist() == of_frame.ask(20).index.tolist()
    assert sorted(campaign.to_frame().index) == sorted(of_frame.to_frame().index)


def test_files_of_several_writers_are_one_table():
    """Which have texts of another width, an index of pandas, or no value in a column."""
    written()
    table().slice(60, 60).to_pandas().assign(churn=None).sort_index(ascending=False).to_parquet("pool/p1.parquet")
    parquet.write_table(table().slice(120, 60).set_column(8, "churn", pa.array(["yes"] * 60)), "pool/p2.parquet")
    campaign = started("pool")
    assert campaign.status(accuracy=False, report=False).by_label == {"yes": 60}
    assert campaign.to_frame().columns.tolist() == table().column_names[1:]
    assert campaign.to_frame().index.tolist()[60:120] == [f"{i:03d}" for i in range(119, 59, -1)]


def test_a_file_that_is_gone_is_rows_that_are_gone():
    started(written())
    os.remove("pool/p2.parquet")
    with pytest.raises(CampaignError, match=r"60 rows are gone: '120', .* changes=\"take\""):
        Campaign.open("churn.db", "pool")
    with pytest.warns(UserWarning, match="60 rows are gone"):
        campaign = Campaign.open("churn.db", "pool", changes="take")
    assert campaign.status(accuracy=False, report=False).n_left == N - 60
    assert not {*campaign.ask(100).index} & {f"{i:03d}" for i in range(120, 180)}
    assert len(campaign.to_frame()) == N - 60


def test_a_value_that_has_changed_is_told():
    started(written())
    frame = table().slice(60, 60).to_pandas()
    frame.loc[3, "plan"] = "other"
    frame.to_parquet("pool/p1.parquet")
    with pytest.raises(CampaignError, match="1 row holds other values: '063'"):
        Campaign.open("churn.db", "pool")


def changed(**columns):
    """A second file whose columns are others."""
    frame = table().slice(60, 60).to_pandas().assign(**columns)
    frame.to_parquet(f"{written()}/p1.parquet")


REFUSED = {
    "p1.parquet and .*p0.parquet differ in 'more'": lambda: changed(more=1),
    "incompatible types: string vs int64": lambda: changed(plan=1),
    "Got '000' again in row 61": lambda: changed(customer=[f"{i:03d}" for i in range(60)]),
    "Row 65 has none": lambda: changed(customer=[*"abcd", None, *map(str, range(55))]),
    "There are none at .*pool": lambda: os.mkdir("pool"),
    "Parquet files, or a folder of them": lambda: None,
    "p1.parquet'": lambda: Path(written(), "p1.parquet").write_text("a,b"),
    "at least one row": lambda: (
        written(rows=table().slice(0, 0)) and parquet.write_table(table().slice(0, 0), "pool/a.parquet")
    ),
}


@pytest.mark.parametrize("message", REFUSED)
def test_files_that_are_no_table_are_refused_and_nothing_is_written(message):
    REFUSED[message]()
    with pytest.raises(CampaignError, match=message):
        started("pool")
    assert not os.path.exists("churn.db")


def test_other_refusals_name_the_remedy():
    written()
    with pytest.raises(CampaignError, match=r"There are none at .*pool/\*\.pq"):
        started("pool/*.pq")
    with pytest.raises(CampaignError, match="`id` must name a column"):
        started("pool", id=None)
