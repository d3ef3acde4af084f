"""The commands over pools in Parquet files: several, a folder, a pattern."""

import json
import os
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from skactive import Campaign
from skactive.cli import main
from skactive.cli._tables import write_table

N = 80
PARTS = [f"pool/p{i}.parquet" for i in range(4)]


@pytest.fixture(autouse=True)
def _in_a_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    os.mkdir("pool")
    for i, path in enumerate(PARTS):
        table().iloc[20 * i : 20 * i + 20].to_parquet(path, index=False)


def table():
    rng = np.random.default_rng(0)
    columns = {"id": [f"{i:02d}" for i in range(N)], "age": rng.integers(18, 80, N), "churn": pd.Series([None] * N)}
    return pd.DataFrame(columns).assign(plan=rng.choice(["basic", "plus"], N), gap=pd.array([None, 1] * (N // 2)))


def run(capsys, *words, code=0):
    assert main([*words]) == code
    return capsys.readouterr()


def start(capsys, *pool, db="c.db", code=0):
    more = ("--id", "id", "--target", "churn", "--model", "logistic", "--seed", "1")
    return run(capsys, "start", db, "--pool", *pool, *more, code=code)


def label(capsys, path, db="c.db"):
    frame = pd.read_csv(path, dtype={"id": str})
    frame["churn"] = np.where(frame["age"] > 45, "yes", "no")
    write_table(frame, path, force=True)
    return run(capsys, "tell", db, path).out


@pytest.mark.parametrize("pool", [["pool"], ["pool/*.parquet"], PARTS[::-1], ["one.parquet"], ["pool/*.csv"]])
def test_a_pool_in_files_is_labelled_as_the_data_frame_is(capsys, pool):
    table().to_parquet("one.parquet", row_group_size=15)
    for i in range(4):
        table().iloc[20 * i : 20 * i + 20].to_csv(f"pool/p{i}.csv", index=False)
    of_frame = Campaign.start("frame.db", table(), target="churn", id="id", model="logistic", random_state=1)
    assert f"80 rows of {pool[0] if len(pool) == 1 else '4 files'}: 0 have" in start(capsys, *pool).out
    for path in ("a.csv", "b.csv"):
        ids = of_frame.ask(12).index
        run(capsys, "ask", "c.db", "-n", "12", "-o", path)
        assert pd.read_csv(path, dtype=str)["id"].tolist() == ids.tolist()
        assert "12 new labels" in label(capsys, path)
        ages = table().set_index("id")["age"]
        of_frame.tell({id: "yes" if ages[id] > 45 else "no" for id in ids})
    assert json.loads(run(capsys, "status", "c.db", "--json").out)["n_labels"] == 24
    run(capsys, "report", "c.db", "-o", "page.html")
    for path in ("all.parquet", "all.csv"):
        assert "80 rows, 24 of them" in run(capsys, "export", "c.db", "-o", path).out
    written = pd.read_parquet("all.parquet")
    assert written["id"].tolist() == table()["id"].tolist()
    assert written.set_index("id")["churn"].dropna().to_dict() == of_frame.to_frame()["churn"].dropna().to_dict()
    assert written["gap"].isna().sum() == N // 2
    assert pd.read_csv("all.csv", dtype={"id": str})["churn"].tolist() == written["churn"].tolist()


@pytest.mark.parametrize("pool", [["pool"], ["pool/*.parquet"], PARTS])
@pytest.mark.parametrize("command", ["ask", "export"])
def test_no_file_of_a_pool_is_written_over(capsys, pool, command):
    start(capsys, *pool)
    before = Path(PARTS[2]).read_bytes()
    assert "the table: it is not overwritten" in run(capsys, command, "c.db", "-o", PARTS[2], "--force", code=2).err
    assert Path(PARTS[2]).read_bytes() == before
    run(capsys, command, "c.db", "-o", "pool/labels.csv")


def test_guesses_of_a_pool_in_files_are_written_in_parts(capsys):
    start(capsys, "pool")
    run(capsys, "ask", "c.db", "-n", "20", "-o", "a.csv")
    label(capsys, "a.csv")
    for path in ("all.parquet", "all.jsonl"):
        run(capsys, "export", "c.db", "-o", path, "--guesses")
    found = pd.read_parquet("all.parquet").set_index("id")
    assert (found["guess"].isna() == found["churn"].notna()).all()
    other = pd.read_json("all.jsonl", lines=True, dtype={"id": str}).set_index("id")
    assert found["guess"].dropna().to_dict() == other["guess"].dropna().to_dict()
    rows = table().set_index("id").drop(columns="churn")[found["churn"].isna().to_numpy()]
    model = Campaign.open("c.db", "pool").model()
    assert found["guess"].dropna().tolist() == model.predict(rows).tolist()


def test_a_pool_in_files_that_has_moved_is_named(capsys):
    start(capsys, *PARTS)
    shutil.move("pool", "moved")
    assert "is not there any more: name the table by --pool" in run(capsys, "ask", "c.db", code=2).err
    run(capsys, "ask", "c.db", "-n", "2", "--pool", "moved")
    run(capsys, "ask", "c.db", "-n", "2")


def test_a_file_that_has_vanished_is_told_and_nothing_is_asked(capsys):
    start(capsys, "pool")
    os.remove(PARTS[1])
    assert "20 rows are gone: '20'" in run(capsys, "ask", "c.db", "-n", "2", "-o", "a.csv", code=2).err
    assert not Path("a.csv").exists()
    assert json.loads(run(capsys, "status", "c.db", "--quick", "--json").out)["n_out"] == 0


@pytest.mark.parametrize(
    ("pool", "message"),
    [
        (["empty"], "empty: there is no file"),
        (["pool/*.pq"], "pool/*.pq: there is no file"),
        (["nowhere.parquet"], "No such file"),
        ([*PARTS, "other.parquet"], "its columns must be those of other.parquet"),
        ([*PARTS, "pool.csv"], "cannot be read: Unable to merge: Field id has incompatible types"),
        ([*PARTS, "twice.parquet"], "Got '00' again in row 81"),
    ],
)
def test_what_is_no_pool_is_one_message_and_no_file(capsys, pool, message):
    os.mkdir("empty")
    table().to_csv("pool.csv")
    table().head(3).to_parquet("twice.parquet")
    table().head(3).assign(more=1).to_parquet("other.parquet")
    error = start(capsys, *pool, code=2).err
    assert message in error
    assert error.count("\n") == 1
    assert not Path("c.db").exists()
