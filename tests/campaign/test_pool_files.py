"""Campaigns for tables in Parquet files: the same ids as from one DataFrame, and what is refused."""

import os
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.dataset
import pytest
from pyarrow import parquet

from skactive import Campaign
from skactive.campaign import CampaignError

N = 240


@pytest.fixture(autouse=True)
def _in_a_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def table():
    """Texts, dates, truths and numbers with gaps; whole numbers whose gaps are in the last rows only."""
    rng = np.random.default_rng(0)
    visits = [None if i >= N - 20 and i % 3 == 0 else int(v) for i, v in enumerate(rng.integers(0, 9, N))]
    columns = {
        "customer": [f"{i:03d}" for i in range(N)],
        "age": rng.integers(18, 80, N),
        "income": np.where(rng.random(N) < 0.1, np.nan, rng.normal(size=N)),
        "visits": pa.array(visits),
        "plan": [None if rng.random() < 0.1 else str(plan) for plan in rng.choice(["basic", "plus", "pro"], N)],
        "is_new": pa.array([None if i == N - 1 else bool(i % 2) for i in range(N)]),
        "since": pd.date_range("2020-01-01", periods=N, freq="D"),
        "size": pa.array(list("sml" * (N // 3))).dictionary_encode(),
        "churn": pa.nulls(N, pa.string()),
    }
    return pa.table(columns)


def written():
    """The table in a folder, in some files of two row groups each."""
    os.makedirs("pool", exist_ok=True)
    for i in range(4):
        parquet.write_table(table().slice(60 * i, 60), f"pool/p{i}.parquet", row_group_size=30)
    return "pool"


def started(frame, name="churn.db", id="customer"):
    return Campaign.start(name, frame, target="churn", id=id, model="logistic", random_state=0)


WAYS = {
    "folder": written,
    "files in another order": lambda: [f"{written()}/p{i}.parquet" for i in (3, 1, 0, 2)],
    "dataset": lambda: pyarrow.dataset.dataset(written()),
}


@pytest.mark.slow
def test_a_table_in_files_is_asked_for_the_rows_of_the_data_frame():
    frame = table().to_pandas()
    says = dict(zip(frame["customer"], np.where(frame["age"] > 50, "yes", "no").tolist(), strict=True))
    campaigns = {name: started(way(), f"{name}.db") for name, way in WAYS.items()}
    first = started(frame, "frame.db")
    told = {id: says[id] for id in first.ask(20).index[:15]}
    first.tell(told)
    expected = first.ask(10)
    for name, campaign in campaigns.items():
        campaign.ask(20)
        campaign.tell(told)
        again = Campaign.open(f"{name}.db", WAYS[name]())  # in another process
        pd.testing.assert_frame_equal(again.ask(10), expected, obj=name)
        pd.testing.assert_frame_equal(again.to_frame(), first.to_frame(), obj=name)
    assert Campaign.open("folder.db", frame).ask(10).index.isin(frame["customer"]).all()  # from files to a DataFrame


def test_files_of_several_writers_are_one_table():
    """Which have texts of another width, an index of pandas, or no value in a column."""
    written()
    table().slice(60, 60).to_pandas().assign(churn=None).sort_index(ascending=False).to_parquet("pool/p1.parquet")
    parquet.write_table(table().slice(120, 60).set_column(8, "churn", pa.array(["yes"] * 60)), "pool/p2.parquet")
    campaign = started("pool")
    assert campaign.to_frame()["churn"].dropna().tolist() == ["yes"] * 60
    assert campaign.to_frame().columns.tolist() == table().column_names[1:]
    assert campaign.to_frame().index.tolist()[60:120] == [f"{i:03d}" for i in range(119, 59, -1)]


def changed(**columns):
    """A second file whose columns are others."""
    table().slice(60, 60).to_pandas().assign(**columns).to_parquet(f"{written()}/p1.parquet")


REFUSED = {
    "There are none at .*pool": lambda: None,
    "p1.parquet and .*p0.parquet differ in 'more'": lambda: changed(more=1),
    "incompatible types: string vs int64": lambda: changed(plan=1),
    "Got '000' again": lambda: changed(customer=[f"{i:03d}" for i in range(60)]),
    "p1.parquet'": lambda: Path(written(), "p1.parquet").write_text("a,b"),
}


def test_files_that_are_no_table_are_refused_and_nothing_is_written():
    for message, make in REFUSED.items():
        make()
        with pytest.raises(CampaignError, match=message):
            started("pool")
    with pytest.raises(CampaignError, match="`id` must name a column"):
        started(written(), id=None)
    assert not os.path.exists("churn.db")
