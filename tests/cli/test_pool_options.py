"""The commands over pools in several files: named, in a folder, by a pattern."""

import json
import os
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from skactive import Campaign
from skactive.cli import main

N = 80
PARTS = [f"pool/p{i}.parquet" for i in range(4)]
TABLE = pd.DataFrame({"id": [f"{i:02d}" for i in range(N)], "churn": pd.Series([None] * N, dtype=object)}).assign(
    age=np.random.default_rng(0).integers(18, 80, N), gap=pd.array([None, 1] * (N // 2))
)


@pytest.fixture(autouse=True)
def _in_a_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    os.mkdir("pool")
    for i, path in enumerate(PARTS):
        part = TABLE.iloc[20 * i : 20 * i + 20]
        part.to_parquet(path, index=False)
        part.to_csv(f"pool/p{i}.csv", index=False)
    TABLE.to_parquet("one.parquet", row_group_size=15)


@pytest.fixture
def run(capsys):
    def run(*words, code=0):
        assert main([*words]) == code
        return capsys.readouterr()

    return run


def start(*pool, db="c.db"):
    return ["start", db, "--pool", *pool, "--id", "id", "--target", "churn", "--model", "logistic", "--seed", "1"]


def test_a_pool_in_files_is_labelled_as_the_data_frame_is(run):
    of_frame = Campaign.start("frame.db", TABLE, target="churn", id="id", model="logistic", random_state=1)
    batch = of_frame.ask(20)
    for i, pool in enumerate((["pool"], ["pool/*.parquet"], PARTS[::-1], ["one.parquet"], ["pool/*.csv"])):
        out = run(*start(*pool, db=f"{i}.db")).out
        assert f"80 rows of {pool[0] if len(pool) == 1 else '4 files'}: 0 have" in out
        run("ask", f"{i}.db", "-n", "20", "-o", f"{i}.csv")
        assert pd.read_csv(f"{i}.csv", dtype=str)["id"].tolist() == batch.index.tolist(), pool
    labels = np.where(batch["age"] > 45, "yes", "no").tolist()
    of_frame.tell(dict(zip(batch.index, labels, strict=True)))
    pd.read_csv("2.csv", dtype=str).assign(churn=labels).to_csv("2.csv", index=False)
    assert "20 new labels" in run("tell", "2.db", "2.csv").out
    run("ask", "2.db", "-n", "12", "-o", "b.csv")
    assert pd.read_csv("b.csv", dtype=str)["id"].tolist() == of_frame.ask(12).index.tolist()
    run("report", "2.db", "-o", "page.html")
    run("export", "2.db", "-o", "all.parquet", "--guesses")
    written = pd.read_parquet("all.parquet")
    assert written["id"].tolist() == TABLE["id"].tolist()
    assert written["gap"].isna().sum() == N // 2
    written = written.set_index("id")
    assert written["churn"].dropna().to_dict() == of_frame.to_frame()["churn"].dropna().to_dict()
    assert written["guess"].dropna().to_dict() == of_frame.to_frame(guesses=True)["guess"].dropna().to_dict()


def test_no_file_of_a_pool_is_written_over(run):
    before = Path(PARTS[2]).read_bytes()
    for i, pool in enumerate((["pool"], ["pool/*.parquet"], PARTS)):
        run(*start(*pool, db=f"{i}.db"))
        assert "the table: it is not overwritten" in run("ask", f"{i}.db", "-o", PARTS[2], "--force", code=2).err
        assert Path(PARTS[2]).read_bytes() == before


def test_a_pool_that_has_moved_is_named_and_a_file_of_it_that_has_vanished_is_told(run):
    run(*start(*PARTS))
    shutil.move("pool", "moved")
    assert "is not there any more: name the table by --pool" in run("ask", "c.db", code=2).err
    run("ask", "c.db", "-n", "2", "--pool", "moved")
    run("ask", "c.db", "-n", "2")
    os.remove(PARTS[1].replace("pool", "moved"))
    assert "20 rows are gone: '20'" in run("ask", "c.db", "-n", "2", "-o", "a.csv", code=2).err
    assert not Path("a.csv").exists()
    assert json.loads(run("status", "c.db", "--quick", "--json").out)["n_out"] == 4


def test_what_is_no_pool_is_one_message_and_no_file(run):
    os.mkdir("empty")
    TABLE.head(3).to_parquet("twice.parquet")
    TABLE.head(3).assign(more=1).to_parquet("other.parquet")
    TABLE.head(3).assign(age=0.5).to_csv("typed.csv", index=False)
    for pool, message in [
        (["empty"], "empty: there is no file"),
        (["pool/*.pq"], "pool/*.pq: there is no file"),
        (["nowhere.parquet"], "No such file"),
        ([*PARTS, "other.parquet"], "its columns must be those of other.parquet"),
        (["pool/*.csv", "typed.csv"], "Field age has incompatible types: int64 vs double"),
        ([*PARTS, "twice.parquet"], "Got '00' again in row 81"),
    ]:
        error = run(*start(*pool), code=2).err
        assert message in error, pool
        assert error.count("\n") == 1
        assert not Path("c.db").exists()
