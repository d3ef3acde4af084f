"""The commands over one file: what they write, what they say, what they refuse."""

import datetime
import io
import itertools
import json
import os
import re
import shutil
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import openpyxl
import pandas as pd
import pytest

import skactive
from skactive.campaign import Campaign, CampaignError, _store
from skactive.cli import _COMMANDS, _in_shell, _parse, main
from skactive.cli._tables import read_table, write_table

N = 90
START = "start c.db --pool pool.csv --id id --target churn"


class Shell:
    """Commands in a folder, with what they write to the screen and say beside it."""

    def __init__(self, capsys):
        self.capsys = capsys

    def __call__(self, line, code=0):
        with warnings.catch_warnings():
            warnings.simplefilter("default")
            assert main(line if isinstance(line, list) else line.split()) == code, self.capsys.readouterr().err
        return self.capsys.readouterr()

    def start(self, more="", **columns):
        frame = pool(**columns)
        self(f"{START} --model logistic --seed 0 {more}")
        return frame

    def label(self, n=30, more=""):
        """A campaign with labels; the truth, and the ids that have one."""
        says = truth(self.start(more))
        self(f"ask c.db -n {n} -o a.csv")
        ids = filled("a.csv", says)
        self("tell c.db a.csv")
        return says, ids

    def counts(self):
        return json.loads(self("status c.db --quick --json").out)


@pytest.fixture
def shell(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return Shell(capsys)


def pool(**columns):
    rng = np.random.default_rng(0)
    plans = rng.choice(["basic", 'plus "pro", <b>extra', "zwölf\nzeilen"], N)
    frame = pd.DataFrame({"id": [f"{i:03d}" for i in range(N)], "age": rng.integers(18, 80, N), "plan": plans})
    frame = frame.assign(**{"churn": None, **columns})
    frame.to_csv("pool.csv", index=False)
    return frame


def truth(frame):
    return dict(zip(frame["id"], np.where(frame["age"] > 45, "yes", "no").tolist(), strict=True))


def filled(path, says, part=1.0):
    """Fill in a file of `ask`, in another order, as far as somebody got."""
    frame = pd.read_csv(path, dtype={"id": str}).sample(frac=1, random_state=0)
    done = frame["id"][: int(part * len(frame))].tolist()
    frame.assign(churn=frame["id"].map({id: says[id] for id in done})).to_csv(path, index=False)
    return done


def contents(folder="."):
    return {path.name: path.read_bytes() for path in Path(folder).iterdir() if path.is_file()}


@pytest.mark.slow
def test_rounds_with_labels_late_in_part_and_unsorted_and_a_report_without_a_network(shell):
    says = truth(shell.start())
    for week in range(2):
        shell(f"ask c.db -n 20 -o week{week}.csv")
        if week:  # last week's rest comes a week late
            filled(f"week{week - 1}.csv", says)
            shell(f"tell c.db week{week - 1}.csv")
        filled(f"week{week}.csv", says, 0.5)
        out = shell(f"tell c.db week{week}.csv").out
        assert f"The campaign has {20 * week + 10} labels" in out
        assert "10 rows still waiting" in out
    status = json.loads(shell("status c.db --json").out)
    assert (status["n_labels"], status["n_out"], status["n_left"]) == (30, 10, N - 40)
    assert "`previous`" not in status["report"]
    assert status["accuracy"]["value"] > 0.6
    shell("export c.db -o all.csv")
    exported = pd.read_csv("all.csv", dtype={"id": str}).set_index("id")["churn"].dropna()
    assert len(exported) == 30
    assert all(says[id] == label for id, label in exported.items())
    shell("ask c.db -n 20 -o week2.csv")
    for week in (1, 2):
        filled(f"week{week}.csv", says)
        shell(f"tell c.db week{week}.csv")
    of_report = "--scoring log_loss --tolerance 0.3 --patience 5"
    shell(f"report c.db {of_report} -o report.html")
    page = Path("report.html").read_text(encoding="utf-8")
    for part in (
        "bring less than 0.3 nats of log loss (`tolerance`)",
        "60 labelled, 0 waiting",
        "The last batch",
        "<svg",
        "&lt;b&gt;extra",
    ):
        assert part in page
    assert not re.search(r'(src|href)="(?!#)', page.split("<body>")[1].replace("xlink:href", ""))


def test_a_batch_goes_out_and_comes_back_in_every_format(shell):
    says = truth(shell.start("--labels yes,no"))
    for n, suffix in enumerate(("tsv", "xlsx", "parquet", "jsonl"), 1):
        out = shell(["ask", "c.db", "-n", "7", "-o", f"week #{n}.{suffix}"]).out
        assert f"week #{n}.{suffix} holds 7 rows to label; {N - 7 * n} are left." in out
        assert out.endswith(f"\nNext: skactive tell c.db 'week #{n}.{suffix}'\n")  # can be copied
        batch = read_table(f"week #{n}.{suffix}", text=("id", "churn", "skip"))
        assert batch.columns.tolist()[:3] == ["id", "churn", "skip"]
        write_table(batch.assign(churn=batch["id"].map(says)), f"week #{n}.{suffix}", force=True)
        assert "7 new labels" in shell(["tell", "c.db", f"week #{n}.{suffix}"]).out
    shell("ask c.db -n 3 -o week.html")
    assert "week.html is the page itself. Open it in a browser" in shell("tell c.db week.html", 2).err
    assert "labelling interface in tasks.xml" in shell("ask c.db -n 3 -o tasks.json").out
    assert len(json.loads(Path("tasks.json").read_text(encoding="utf-8"))) == 3
    assert "<View" in Path("tasks.xml").read_text(encoding="utf-8")


def test_rows_that_are_out_are_written_again_skipped_and_put_back(shell):
    _, labelled = shell.label(6)
    assert "takes ids, or --all" in shell(f"withdraw c.db {labelled[0]} --all", 2).err
    ids = shell("ask c.db -n 6").out.splitlines()[:6]
    assert "skactive ask c.db --again -o FILE writes the waiting rows once more" in shell("status c.db --quick").out
    shell("ask c.db --again -o out.csv")
    assert pd.read_csv("out.csv", dtype=str)["id"].tolist() == sorted(ids) == shell.counts()["out"]
    assert "1 row skipped" in shell(["skip", "c.db", ids[0]]).out
    assert "2 rows put back" in shell(["withdraw", "c.db", *ids[:2]]).out
    assert "4 rows put back" in shell("withdraw c.db --all").out
    counts = shell.counts()
    assert (counts["n_labels"], counts["n_out"], counts["n_left"]) == (6, 0, N - 6)
    assert shell("withdraw c.db --all", 2).err == "skactive withdraw: error: No rows wait for labels.\n"


def test_limits_are_options(shell):
    shell.start(region=[f"r{i % 5}" for i in range(N)], price=2.0)
    shell("ask c.db -n 8 --group-by region --max-per-group 2 --cost price --budget 16 --must 007 -o b.csv")
    batch = pd.read_csv("b.csv", dtype={"id": str})
    assert batch["id"][0] == "007"
    assert batch["region"].value_counts().max() == 2
    assert shell("ask c.db -n 8 --group-by region --max-per-group 1 -o b2.csv", 2).err.count("\n") == 1


def test_labels_that_are_numbers_are_seen_in_the_file_with_decimal_commas_too(shell):
    frame = pool(churn=[0.25 * i if i < 25 else None for i in range(N)])
    frame.to_csv("pool.csv", index=False, sep=";", decimal=",")
    assert "Labels are numbers to predict" in shell(f"{START} --seed 0").out
    ids = shell("ask c.db -n 2").out.splitlines()[:2]
    Path("a.csv").write_text(f"id;churn\n{ids[0]};3,5\n{ids[1]};1,25\n")
    shell("tell c.db a.csv")
    shell("export c.db -o out.csv")
    exported = pd.read_csv("out.csv", dtype={"id": str}, sep=";", decimal=",").set_index("id")["churn"]
    assert exported[ids].tolist() == [3.5, 1.25]
    shell("ask c.db -n 3 -o tasks.json")
    kinds = {r["type"] for task in json.loads(Path("tasks.json").read_text()) for r in task["predictions"][0]["result"]}
    assert kinds == {"textarea"}


def test_the_same_seed_writes_the_same_file_whatever_the_encoding_of_the_table(shell):
    text = pool().to_csv(index=False, sep=";")
    files = []
    for name, encoding in (("a", "cp1252"), ("b", "utf-16"), ("c", "utf-8-sig")):
        Path("pool.csv").write_text(text, encoding=encoding, newline="")
        shell(f"{START.replace('c.db', f'{name}.db')} --seed 5")
        shell(f"ask {name}.db -n 9 -o {name}.csv")
        files.append(Path(f"{name}.csv").read_bytes().decode(encoding))  # which is that of the table
    assert files[0] == files[1] == files[2]
    assert files[0].startswith("id;churn;skip;age;plan")
    assert "zwölf" in files[0]


def test_a_file_of_recheck_is_corrected_and_told(shell):
    target, frame = "label", pool().rename(columns={"churn": "label"})  # by which recheck calls a column of its own
    frame.to_csv("pool.csv", index=False)
    shell(f"start c.db --pool pool.csv --id id --target {target} --model logistic --seed 0")
    says = truth(frame)
    first, *ids = shell("ask c.db -n 30").out.splitlines()[:30]
    labels = ["no" if says[first] == "yes" else "yes", *(says[id] for id in ids)]
    pd.DataFrame({"id": [first, *ids], target: labels}).to_csv("a.csv", index=False)
    shell("tell c.db a.csv")
    assert first in json.loads(shell("recheck c.db -n 8 --json").out)["ids"]
    assert "Next: skactive tell c.db again.xlsx" in shell("recheck c.db -n 8 -o again.xlsx").out
    again = read_table("again.xlsx", text=("id", target))
    again.loc[again["id"] == first, target] = says[first]
    write_table(again, "again.xlsx", force=True)
    told = shell("tell c.db again.xlsx").out
    assert "0 new labels, 1 corrected" in told
    assert "7 known already" in told
    assert "pass --annotator NAME with each file, so that none replaces another's labels" in told
    assert shell.counts()["n_labels"] == 30


@pytest.mark.slow
def test_simulate_says_whether_labels_would_have_been_saved(shell):
    frame = pool()
    frame.assign(churn=frame["id"].map(truth(frame))).to_csv("full.csv", index=False)
    line = "simulate full.csv --id id --target churn --model logistic --trials 2 --rounds 1 -n 8 --initial 10"
    facts = json.loads(shell(f"{line} --json -o s.png").out)
    assert {row["query"] for row in facts["queries"]} == {"default", "top of the ranking", "uniform", "BALD, sampled"}
    assert {row["p_holm"] for row in facts["queries"] + facts["saved"]} == {None}  # two trials can tell nothing
    assert {row["verdict"] for row in facts["saved"]} == {"cannot be told"}
    assert "these trials cannot tell" in facts["sentence"]
    assert Path("s.png").stat().st_size > 10_000
    assert "full.csv has too few labels" in shell(f"{line} --initial 80", 2).err
    assert "--trials must be an integer" in shell(f"{line} --trials 0", 2).err
    pd.read_csv("full.csv", dtype=str)[["id", "churn"]].to_csv("full.csv")  # nothing to learn from
    assert "full.csv must have a column besides the id and the target" in shell(line, 2).err


def test_export_writes_guesses_beside_rows_without_a_label_and_the_history(shell):
    says, ids = shell.label()
    out = shell("export c.db -o all.xlsx --guesses").out
    assert "90 rows, 30 of them with a label, and the model's guesses for the 60 others" in out
    found = read_table("all.xlsx", text=("id", "churn", "guess")).set_index("id")
    assert found["churn"].dropna().to_dict() == {id: says[id] for id in ids}
    assert (found["guess"].isna() == found["churn"].notna()).all()
    assert (found["guess_probability"].isna() == found["churn"].notna()).all()
    frame = pd.read_csv("pool.csv", dtype={"id": str})
    model, others = skactive.Campaign.open("c.db", frame).model(), found.index[found["churn"].isna()]
    rows = frame.set_index("id").drop(columns="churn").loc[others]
    assert found.loc[others, "guess"].tolist() == model.predict(rows).tolist()
    sure = model.predict_proba(rows).max(axis=1)
    np.testing.assert_allclose(found.loc[others, "guess_probability"].astype(float), sure, rtol=1e-12)
    shell("export c.db --history -o h.xlsx")
    assert len(pd.read_excel("h.xlsx")) == 60
    assert "--labelled, --guesses and --history" in shell("export c.db --history --guesses -o both.csv", 2).err


PARTS = [f"pool/p{i}.parquet" for i in range(3)]


@pytest.fixture
def table(shell):
    frame = pool(gap=pd.array([None, 1] * (N // 2)))
    os.mkdir("pool")
    for i, path in enumerate(PARTS):
        part = frame.iloc[30 * i : 30 * i + 30]
        part.to_parquet(path, index=False)
        part.to_csv(f"pool/p{i}.csv", index=False)
    frame.to_parquet("one.parquet", row_group_size=15)
    return frame


def of(path, *files):
    return ["start", path, "--pool", *files, "--id", "id", "--target", "churn", "--model", "logistic", "--seed", "1"]


def test_a_pool_in_files_is_labelled_as_the_data_frame_is_and_none_is_written_over(shell, table):
    campaign = skactive.Campaign.start("frame.db", table, target="churn", id="id", model="logistic", random_state=1)
    ids, before = campaign.ask(20).index.tolist(), contents("pool")
    for i, files in enumerate((["pool"], ["pool/*.parquet"], ["one.parquet"], ["pool/*.csv"], PARTS[::-1])):
        out = shell(of(f"{i}.db", *files)).out
        assert f"90 rows of {files[0] if len(files) == 1 else '3 files'}: 0 have" in out
        one = files[0] if Path(files[0]).is_file() else "pool/p2.csv" if "csv" in files[0] else PARTS[2]
        assert "the table, which even --force does not overwrite" in shell(f"ask {i}.db -o {one} --force", 2).err
        shell(f"ask {i}.db -n 20 -o {i}.csv")
        assert pd.read_csv(f"{i}.csv", dtype=str)["id"].tolist() == ids, files
    assert contents("pool") == before
    for name in ("_old.parquet", ".old.parquet"):  # as Arrow, and Campaign.start, have it
        shutil.copy("pool/p0.parquet", f"pool/{name}")
    assert "90 rows of pool" in shell(of("again.db", "pool")).out
    assert "pool/p0.parquet, rows 1, 2, 3" in shell(of("c.db", *PARTS, "pool/_old.parquet"), 2).err
    says = truth(table)
    campaign.tell({id: says[id] for id in ids})
    filled("4.csv", says)
    shell("tell 4.db 4.csv")
    shell("export 4.db -o all.parquet --guesses")
    written, frame = pd.read_parquet("all.parquet").set_index("id"), campaign.to_frame(guesses=True)
    assert written.index.tolist() == frame.index.tolist()
    for column in ("churn", "guess", "gap"):
        assert written[column].dropna().to_dict() == frame[column].dropna().to_dict()


def test_a_pool_with_lists_goes_on_in_python_with_its_lists(shell):
    frame = pool(at=[[i, 0.5, -i] for i in range(N)], **{"churn 0": 1.0})  # no place of the labels
    frame.to_parquet("pool.parquet")
    shell(f"{START.replace('csv', 'parquet')} --seed 0")
    places = read_table("pool.parquet", text=["id", "churn"])
    for given in (frame, "pool.parquet", places, places.assign(at="seen")):
        campaign = skactive.Campaign.open("c.db", given)
        assert "at 2" in campaign.ask(9)
    campaign.tell({id: "ab"[int(id) > 45] for id in campaign._named_ids()}, unasked=True)
    assert campaign.predict(frame).equals(campaign.predict(places))
    frame.at[3, "at"] = [1.0]
    with pytest.raises(CampaignError, match=r"one length in 'at', as at the start \('\[1.0\]', row 3\)"):
        skactive.Campaign.open("c.db", frame)


def test_a_pool_that_has_moved_is_named_and_a_file_of_it_that_has_vanished_is_told(shell, table):
    shell(of("c.db", *PARTS))
    shutil.move("pool", "moved")
    assert "does not exist any more: pass the table by --pool" in shell("ask c.db", 2).err
    shell("ask c.db -n 2 --pool moved")
    os.remove("moved/p1.parquet")
    assert "30 rows are gone: '030'" in shell("ask c.db -n 2 -o a.csv", 2).err
    assert not Path("a.csv").exists()
    assert shell.counts()["n_out"] == 2


def test_a_backup_goes_on_with_the_table_beside_it_and_a_table_elsewhere_is_named_before_it_is_read(shell):
    shell.label(6)
    assert "c.db is the file of the campaign" in shell("backup c.db c.db --force", 2).err
    assert "copy.db is a complete copy of c.db. 90 rows: 6 labelled" in shell("backup c.db copy.db").out
    assert "copy.db exists" in shell("backup c.db copy.db", 2).err
    assert shell("ask copy.db -n 2").err == ""
    for folder in ("moved", "alone"):
        os.mkdir(folder)
        shell(f"backup copy.db {folder}/c.db")
    shutil.copy("pool.csv", "moved")
    assert shell("ask moved/c.db -n 2").err == ""
    assert "does not exist any more: pass the table by --pool" in shell("ask alone/c.db", 2).err
    assert shell("ask alone/c.db -n 2 --pool pool.csv").err == ""
    assert re.search(r"the table is read from '.*pool\.csv', as recorded in alone/", shell("status alone/c.db").err)


def test_a_bad_pool_is_refused_on_one_line_and_nothing_is_written(shell):
    for text, message in [
        ("id,age,churn\n1,3,\n1,4,\n", r"pool\.csv, row 3: the id must be different in every row\. Got '1' again"),
        ("name,age,churn\na,3,\n", r"pool\.csv has no column 'id'"),
        ("id,age,churn\n1,3,yes\n2,4,no\n", r"pool\.csv: the target must have gaps"),
        ("id,age,churn\n", r"pool\.csv: the table must have at least one row"),
    ]:
        Path("pool.csv").write_text(text)
        error = shell(START, 2).err
        assert re.fullmatch(rf"skactive start: error: {message}.*\n", error), (text, error)
        assert list(contents()) == ["pool.csv"]


def test_bad_answers_are_refused_on_one_line_and_nothing_is_written(shell):
    frame = shell.start("--labels yes,no")
    one, *others = shell("ask c.db -n 4").out.splitlines()[:4]
    free = (set(frame["id"]) - {one, *others}).pop()
    before = Path("c.db").read_bytes()
    for text, message in [
        (f"id,churn\n{one},yes\n999,no\n", r"a\.csv, row 3: '999' is not an id of the campaign"),
        (f"id,churn\n{free},yes\n", r"a\.csv, row 2: '\d+' was not asked for.* `skactive tell` accepts it .*--unasked"),
        (f"id,churn\n{one},yes\n{one},no\n", r"a\.csv, row 3: '\d+' has two labels, 'yes' and 'no'"),
        (f"id,churn\n{one},maybe\n", r"a\.csv, row 2: '\d+': a label must be one of 'no', 'yes'\. Got 'maybe'"),
        (f"id,churn\n{one},\n", r"a\.csv: the column 'churn' holds no labels yet"),
        ("id,churn\n,yes\n", r"a\.csv, row 2: a row has no id"),
    ]:
        Path("a.csv").write_text(text)
        error = shell("tell c.db a.csv", 2).err
        assert re.fullmatch(rf"skactive tell: error: {message}.*\n", error), (text, error)
        assert Path("c.db").read_bytes() == before


def test_a_word_for_a_gap_counts_as_a_label_and_is_pointed_at(shell):
    pool(churn=["NA", "yes", "no", *[None] * (N - 3)])
    assert "'NA' in 'churn' counts as a label" in shell(START).err


def test_a_pool_that_changed_is_listed_and_taken_with_a_word(shell):
    frame = shell.start()
    frame.loc[3, "age"] = 99
    frame.drop(index=4).to_csv("pool.csv", index=False)
    error = shell("ask c.db -n 3 -o a.csv", 2).err
    assert re.search(r"pool\.csv: .*1 row is gone: '004'; 1 row holds other values: '003'.*--take-changes", error)
    assert "3 rows to label; 86 are left" in shell("ask c.db -n 3 -o a.csv --take-changes").out


def test_an_output_that_exists_is_kept_and_no_row_goes_out(shell):
    shell.start()
    assert "A model needs labels of two classes" in shell("export c.db -o a.csv --guesses", 2).err
    assert "again.json: the suffix of a table must be" in shell("recheck c.db -o again.json", 2).err
    Path("a.csv").write_text("mine")
    assert "a.csv exists. --force overwrites it" in shell("ask c.db -n 3 -o a.csv", 2).err
    assert Path("a.csv").read_text() == "mine"
    for name, said in (("a.cvs", "suffix of a table must be"), ("a.json", "no classes .* by `--labels` at the start")):
        assert re.search(said, shell(f"ask c.db -n 3 -o {name}", 2).err)
    assert (shell.counts()["n_out"], shell.counts()["n_batches"]) == (0, 0)
    shell("ask c.db -n 3 -o a.csv --force")
    Campaign.open("c.db").tell({"001": "yes"}, unasked=True)
    assert "tell them by `skactive tell --unasked`, or" in shell("status c.db --quick").out


def test_no_command_writes_over_what_it_reads(shell):
    shell.start()
    Path("link.csv").symlink_to("pool.csv")
    Path("sub").mkdir()
    Path("moved.csv").write_bytes(Path("pool.csv").read_bytes())
    before = contents()
    for line, message in [
        ("ask c.db -o pool.csv", "pool.csv is the table"),
        ("export c.db -o link.csv", "link.csv is the table"),
        ("recheck c.db --pool moved.csv -o moved.csv", "moved.csv is the table"),
        ("export --history c.db --pool moved.csv -o sub/../pool.csv", "pool.csv is the table"),
        ("report c.db -o ./c.db", "c.db is the file of the campaign"),
        ("start pool.csv --pool pool.csv --id id --target churn", "pool.csv is the table"),
        ("simulate pool.csv --target churn -o pool.csv", "pool.csv is the table"),
    ]:
        for force in ("", " --force"):
            error = shell(line + force, 2).err
            assert re.fullmatch(rf"skactive \w+: error: .*{message}, which even --force does not over.*\n", error), line
            assert contents() == before


def test_a_batch_that_was_overtaken_leaves_one_file_with_the_rows_that_are_out(shell, monkeypatch):
    shell.start()
    add, calls = _store.Store.add_batch, itertools.count()

    def overtaken_once(self, *args):
        if next(calls) == 0:
            monkeypatch.setattr(_store.Store, "add_batch", add)
            assert main(["ask", "c.db", "-n", "3", "-o", "first.csv"]) == 0
            monkeypatch.setattr(_store.Store, "add_batch", overtaken_once)
        return add(self, *args)

    monkeypatch.setattr(_store.Store, "add_batch", overtaken_once)
    shell("ask c.db -n 3 -o second.csv")
    first, second = (set(pd.read_csv(name, dtype=str)["id"]) for name in ("first.csv", "second.csv"))
    assert not first & second
    assert set(shell.counts()["out"]) == first | second
    assert sorted(contents()) == ["c.db", "first.csv", "pool.csv", "second.csv"]


def test_start_overwrites_a_campaign_on_a_word_and_nothing_else_and_only_when_it_is_done(shell, monkeypatch):
    shell.start()
    start = skactive.Campaign.start
    assert "exists" in shell(START, 2).err
    shell(f"{START} --force")
    Path("notes.txt").write_text("mine")
    before = contents()
    shell(f"{START.replace('c.db', 'notes.txt')} --force", 2)
    shell(f"{START} --force --pool nowhere.csv", 2)
    with monkeypatch.context() as patched:
        patched.setattr("pathlib.Path.replace", interrupted)
        shell(f"{START} --force", 1)
    assert contents() == before

    def slower(*args, **given):
        Path("d.db").write_text("of another process")
        return start(*args, **given)

    monkeypatch.setattr(skactive.Campaign, "start", slower)
    assert "d.db exists" in shell(START.replace("c.db", "d.db"), 2).err
    assert contents() == before | {"d.db": b"of another process"}


def interrupted(*_):
    raise KeyboardInterrupt


def full(*_):
    raise OSError(28, "No space left on device")


@pytest.mark.parametrize(
    ("place", "fail", "said"),
    [
        ("pathlib.Path.write_bytes", full, "No space left"),
        ("skactive.campaign._store.Store.add_batch", interrupted, "interrupted"),
    ],
)
def test_a_full_disk_and_an_interrupt_end_with_one_and_no_row_is_out(shell, monkeypatch, place, fail, said):
    shell.start()
    monkeypatch.setattr(place, fail)
    assert said in shell("ask c.db -n 3 -o a.csv", 1).err
    assert not Path("a.csv").exists()
    assert shell.counts()["n_out"] == 0


def test_ids_of_a_file_are_not_read_as_other_numbers(shell):
    frame = pool(id=range(N))
    skactive.Campaign.start("c.db", frame, target="churn", id="id", model="logistic", random_state=0)
    assert "names no table: pass it by --pool" in shell("ask c.db -n 2", 2).err
    ids = shell("ask c.db --pool pool.csv -n 2").out.splitlines()[:2]
    Path("a.csv").write_text(f"id,churn\n00{ids[0]},yes\n")
    assert "is not an id of the campaign" in shell("tell c.db a.csv", 2).err
    Path("a.csv").write_text(f"id,churn\n{ids[0]},yes\n")
    assert "1 new label" in shell("tell c.db a.csv").out


def test_the_bare_command_lists_the_commands_without_loading_anything_heavy_and_each_has_an_example(capsys):
    code = "import sys; from skactive.cli import main\ntry: main([])\nexcept SystemExit: pass\n"
    code += "print([m for m in ('torch', 'pandas', 'sklearn', 'modAL') if m in sys.modules])"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert out.endswith("[]\n")
    for command in _COMMANDS:
        assert f"\n  {command} " in out
        with pytest.raises(SystemExit, match="0"):
            main([command, "--help"])
        usage, example = re.fullmatch(r"usage: (\S+ \S+).*\nexample: (.*)\n", capsys.readouterr().out, re.S).groups()
        assert usage == f"skactive {command}"
        assert _parse(command, example.split()[2:]).json is False


def test_options_that_there_are_not_end_with_two(capsys):
    for line in ("nope", "ask", "ask c.db -n auto", "ask c.db --nope"):
        with pytest.raises(SystemExit, match="2"):
            main(line.split())
        out, err = capsys.readouterr()
        assert (out, err.count("\n")) == ("", 1), line


def test_parameters_of_python_become_options():
    for line, said, words in [
        ("ask c.db", "`max_per_group` allows `n_instances`=5 rows.", "--max-per-group allows -n 5 rows."),
        ("ask c.db", "`limits.groups` must be a column of the table", "--group-by must be a column of the table"),
        ("ask c.db", "`frame`: no file\n matches x", "the table: no file matches x"),
        ("tell c.db a.csv", "by `tell(..., unasked=True)`, in the shell --unasked.", "by --unasked."),
        ("tell c.db a.csv", "`withdraw` it: a mark in `skip`.", "`skactive withdraw` it: a mark in `skip`."),
    ]:
        command, *arguments = line.split()
        assert _in_shell(said, command, vars(_parse(command, arguments))) == words


def test_start_lists_how_columns_are_read_and_report_has_it(shell):
    frame = pool(weight=[f"{i}.5 mg" if i != 5 else "heavy" for i in range(N)], code=[f"{i:03d}" for i in range(N)])
    frame.to_csv("pool.csv", index=False)
    out = shell(f"{START} --model logistic --seed 0").out
    for line in ("Read as number: age, weight (1 gap).", "Read as category: plan.", "Read as text: code."):
        assert f"\n{line}\n" in out
    assert "\nColumn 'weight', read as number like 1.5 mg: 1 value does not fit ('heavy', row '005') and" in out
    shell("report c.db -o r.html")
    assert "<td>heavy</td>" in Path("r.html").read_text(encoding="utf-8")


def test_numbers_keep_the_decimal_mark_of_the_pool_in_batches_returned_labels_and_exports(shell):
    frame = pool(share=[i + 0.5 for i in range(N)])
    frame.to_csv("pool.csv", index=False, sep=";", decimal=",")
    shell(f"{START} --task regression --model logistic --seed 0")
    shell("ask c.db -n 4 -o a.csv")
    batch = pd.read_csv("a.csv", dtype=str, sep=";")
    assert batch["share"].str.fullmatch("[0-9]+,5").all()
    batch.assign(churn=["1.028", "12.500", "980", "2.100"]).to_csv("a.csv", index=False, sep=";")
    assert "least: 980, mean: 4152, largest: 12500" in shell("tell c.db a.csv").out
    shell("ask c.db -n 2 -o b.csv")
    batch = pd.read_csv("b.csv", dtype=str, sep=";")
    batch.assign(churn=["1.028", "7.5"]).to_csv("b.csv", index=False, sep=";")
    error = shell("tell c.db b.csv", 2).err
    assert "b.csv, row 3: a label must be a number, with the decimal mark ',' of the table. Got '7.5'" in error
    batch.assign(churn=["1.028", "7,5"]).to_csv("b.csv", index=False, sep=";")
    assert "2 new labels" in shell("tell c.db b.csv").out
    shell("export c.db -o out.csv --guesses")
    assert pd.read_csv("out.csv", sep=";", decimal=",")["churn"].dropna().sum() == 4 * 4152 + 1035.5


@pytest.fixture
def gone():
    """A stream whose reader is gone."""
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "w") as stream:
        yield stream


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="a device of Linux")
def test_an_answer_that_cannot_be_shown_undoes_nothing(shell, monkeypatch, gone):
    shell.start(id=[f"{i}ä" for i in range(N)])
    ascii_only = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    with open("/dev/full", "w") as full:
        for n, (out, code) in enumerate(((ascii_only, 0), (gone, 0), (full, 1), (None, 0)), 1):
            with monkeypatch.context() as patch:
                patch.setattr(sys, "stdout", out)
                assert main(["ask", "c.db", "-n", "1"]) == code
            assert shell.counts()["n_out"] == n
    assert b"\\xe4\nThis row waits for labels." in ascii_only.buffer.getvalue()


def test_notes_that_nobody_hears_stop_no_command(shell, monkeypatch, gone):
    ids = shell.start()["id"]
    shell("ask c.db -n 2 -o a.csv")
    filled("a.csv", dict.fromkeys(ids, "yes"))
    for i, err in enumerate((gone, None)):
        with monkeypatch.context() as patch:
            patch.setattr(sys, "stderr", err)
            Path("b.csv").write_text(f"id,churn\n{ids[i]},new {i}\n")
            assert main(["tell", "c.db", "a.csv"]) == main(["tell", "c.db", "b.csv", "--unasked"]) == 0
            assert main(["tell", "c.db", "nope.csv"]) == 2
    shell.capsys.readouterr()
    assert shell.counts()["n_labels"] == 4


def test_a_report_without_rows_has_no_cell_and_no_id(shell):
    frame = pool(code=[f"{i * 7919}.5" if i != 5 else "heavy" for i in range(N)])
    shell(f"{START} --model logistic --seed 0")
    shell("ask c.db -n 20")
    assert "It holds rows of the table; --no-rows leaves them out." in shell("report c.db -o a.html").out
    assert "It holds no rows of the table." in shell("report c.db -o b.html --no-rows").out
    with_rows, without = (Path(name).read_text(encoding="utf-8") for name in ("a.html", "b.html"))
    cells = [*frame["code"], "zwölf"]
    assert any(cell in with_rows for cell in cells)
    assert [cell for cell in cells if cell in without] == []


def test_ids_without_their_zeros_are_put_back_where_one_row_fits_also_when_the_file_is_told_again(shell):
    says = truth(shell.start())
    shell("ask c.db -n 6 -o a.csv")
    batch = pd.read_csv("a.csv")  # as a spreadsheet reads it
    labels = [says[f"{id:03d}"] for id in batch["id"]]
    for ids, n, said in ((batch["id"], 5, "5 new labels"), (batch["id"].astype(float), 6, "1 new label, 5 known")):
        batch.assign(id=ids, churn=labels).head(n).to_csv("a.csv", index=False)
        told = shell("tell c.db a.csv")
        assert f"'{ids[0]}' as '{batch['id'][0]:03d}'. {n} in all." in told.err
        assert said in told.out
    shell("export c.db -o out.csv")
    exported = pd.read_csv("out.csv", dtype={"id": str}).set_index("id")["churn"].dropna()
    assert exported.to_dict() == {f"{id:03d}": says[f"{id:03d}"] for id in batch["id"]}


def test_ids_that_several_rows_fit_are_refused_and_a_file_with_its_zeros_is_read_to_the_letter(shell):
    pd.DataFrame({"id": ["7", "007", "08", "9", "0010", "01A"], "age": range(6), "churn": None}).to_csv(
        "pool.csv", index=False
    )
    shell(f"{START} --seed 0")
    shell("ask c.db -n 1 --must 007")
    Path("a.csv").write_text("id,churn\n7,no\n")  # which nobody asked for
    assert "'7' may mean '007', '7'" in shell("tell c.db a.csv --unasked", 2).err
    shell("ask c.db -n 5")
    for text, row in (("9,no\n7,no\n", 3), ("7.0,no\n9,no\n", 2), ("01A,no\n7,no\n", 3)):
        Path("a.csv").write_text(f"id,churn\n{text}")
        assert f"a.csv, row {row}: '7" in (error := shell("tell c.db a.csv", 2).err)
        assert "may mean '7', '007', if a spreadsheet cut zeros" in error
    for text in ("007,no\n77,no\n", "0010,no\n010,no\n"):
        Path("a.csv").write_text(f"id,churn\n{text}")
        assert "row 3: '" in (error := shell("tell c.db a.csv", 2).err)
        assert "is not an id of the campaign" in error
    Path("a.csv").write_text("id,churn\n007,no\n7,yes\n")
    assert "2 new labels" in shell("tell c.db a.csv").out


def test_numbers_whose_decimal_mark_nothing_tells_are_refused_and_an_option_tells(shell):
    pool(share=[i + 0.5 for i in range(N)]).to_csv("other.csv", index=False)
    pool(churn=["7.5", "1.25", *[None] * (N - 2)]).to_csv("pool.csv", index=False, sep=";")
    shell(f"{START} --model logistic --seed 0")  # its labels have another mark than most files with semicolons
    shell(f"{START.replace('c.db --pool pool', 'd.db --pool other')} --task regression --model logistic --seed 0")
    for name, sep, both in (("c.db", ",", "1.028 or 1028"), ("d.db", ";", "1028 or 1.028")):
        ids = shell(f"ask {name} -n 2").out.splitlines()[:2]
        Path("a.csv").write_text(f"id{sep}churn\n{ids[0]}{sep}1.028\n{ids[1]}{sep}980\n")
        assert f"a.csv: '1.028' may mean {both}: give the decimal mark" in shell(f"tell {name} a.csv", 2).err
    assert "least: 980, mean: 1004, largest: 1028" in shell("tell d.db a.csv --decimal ,").out


def test_labels_of_the_pool_sets_new_rows_and_what_else_is_in_a_file_by_the_shell(shell):
    says, ids = shell.label(30)
    frame = pd.read_csv("pool.csv", dtype={"id": str})
    frame["churn"] = frame["id"].map({id: says[id] for id in frame["id"] if id not in ids[:5]})
    new = pd.DataFrame({"id": ["new", "newer"], "age": [20, 30], "plan": "basic", "churn": ["no", None]})
    pd.concat([frame, new]).to_csv("pool.csv", index=False)
    said = shell("export c.db -o all.csv --labelled").err
    assert f"{N - 30} labels new to the campaign" in said
    assert "the table has 2 new rows, 1 of them with a label" in said
    assert len(pd.read_csv("all.csv")) == N + 1
    shell("withdraw c.db " + " ".join(ids[:9]))
    assert "and no others" in shell("set c.db --rename yes ja --close --add-label maybe").out
    assert "takes either --task" in shell("set c.db", 2).err
    assert "each label once" in shell("set c.db --rename ja a --rename ja b", 2).err
    new = frame.drop(columns="churn").head(3).assign(plan="new")
    Path("new.csv").write_text("A title;;\n" + new.to_csv(index=False, sep=";"))
    said = shell("predict c.db new.csv -o guessed.csv")
    assert ("3 rows" in said.out, "note: The model ignores categories that" in said.err) == (True, True)
    assert "its header is row 2" in said.err
    assert set(pd.read_csv("guessed.csv")["guess"]) <= {"ja", "no"}
    new.assign(guess="mine").to_csv("new.csv", index=False)
    assert "has a column 'guess'" in shell("predict c.db new.csv -o guessed.csv --force", 2).err
    new.drop(columns="age").to_csv("new.csv", index=False)
    assert "new.csv has no column 'age': add it" in shell("predict c.db new.csv", 2).err
    shell("ask c.db -n 4 -o b.csv")
    assert "Leave out -n, --must" in shell("ask c.db --again -n 3", 2).err
    batch = pd.read_csv("b.csv", dtype={"id": str}).assign(churn="no", comment=["odd", None, None, None])
    batch.to_csv("b.csv", index=False)
    assert shell("tell c.db b.csv").err.count("\n") == 1  # the comment
    batch.loc[1, "age"] = 99
    batch.drop(columns="comment").to_csv("b.csv", index=False)
    assert (
        f"cells that differ from the table are ignored, in the rows {batch['id'][1]!r}" in shell("tell c.db b.csv").err
    )


def test_a_slip_among_first_labels_does_not_make_classes_of_numbers(shell):
    shell.start()
    ids, labels = shell("ask c.db -n 20").out.splitlines()[:20], [*map(str, range(100, 119)), "ca. 98"]
    pd.DataFrame({"id": ids, "churn": labels}).to_csv("a.csv", index=False)
    assert re.search(r"a\.csv, row 21: .* by --task classification .* Got 'ca\. 98'", shell("tell c.db a.csv", 2).err)
    shell("set c.db --task classification")
    shell("tell c.db a.csv")
    assert "If labels are numbers, say so by" in shell("status c.db --quick").out
    assert "Got 'ca. 98': tell numbers for these rows first" in shell("set c.db --task regression", 2).err


def test_a_whole_number_that_pandas_wrote_as_a_float_is_the_label_that_is_known(shell):
    ids = shell.start()["id"]
    for n, labels in enumerate((["3.0", "4.0"], ["3", "5"], ["5.0", "4"], ["6", "6.0"])):
        pd.DataFrame({"id": ids[2 * n : 2 * n + 2], "churn": labels}).to_csv("a.csv", index=False)
        told = shell("tell c.db a.csv --unasked")
    assert "(3.0: 2, 4.0: 2, 5: 2, 6: 1, 6.0: 1)" in told.out
    assert "'6' and '6.0' look alike" in told.err


def test_batches_hold_all_digits_of_short_floats_and_numbers_beside_an_odd_cell(shell):
    values = np.random.default_rng(0).normal(size=N).astype(np.float32)
    pool(age=values).to_parquet("pool.parquet")
    write_table(pool(age=[*map(str, values[:-1]), "unknown"]), "pool.csv", force=True)
    for suffix, back in ((".parquet", ".csv"), (".csv", ".xlsx")):
        shell(f"{START.replace('.csv', suffix)} --seed 0 --force")
        shell(f"ask c.db -n {N} -o a{back}")
        batch = read_table(f"a{back}", text=["id", "churn"])
        write_table(batch.assign(churn="no"), f"b{back}")
        assert shell(f"tell c.db b{back}").err == ""
    assert pd.read_excel("a.xlsx")["age"].map(type).value_counts().to_dict() == {float: N - 1, str: 1}


def test_a_workbook_comes_back_with_its_dates_and_formats_and_an_error_in_it_is_said_when_it_is_news(shell):
    book = openpyxl.Workbook()
    book.active.append(["id", "when", "share", "churn"])
    days = [datetime.datetime(2024, 1, 1 + i % 28) for i in range(N - 1)]
    for i, day in enumerate(["soon", *days]):
        book.active.append([f"{i:03d}", day, "#N/A" if i == 5 else i / N])
        book.active.cell(i + 2, 3).number_format = "0 %"
    book.save("pool.xlsx")
    said = shell("start c.db --pool pool.xlsx --id id --target churn --seed 0").err
    assert "cells with an error are read as missing: 'C7' of 'Sheet'" in said
    assert shell(f"ask c.db -n {N} -o a.xlsx").err == ""
    sheet = openpyxl.load_workbook("a.xlsx")["table"]
    cells = {cells[0].value: cells for cells in sheet.iter_rows(min_row=2)}
    assert [cells["000"][3].value, cells["001"][3].value] == ["soon", days[0]]
    assert [cells["003"][4].value, cells["003"][4].number_format] == [3 / N, "0 %"]
    book.active.append(["new", days[0], 0.5])
    book.save("pool.xlsx")
    assert "'C7' of 'Sheet'" in shell("ask c.db -n 1").err
    assert "one of .csv, .tsv, .jsonl, .parquet, .xlsx, .html, .json;" in shell("ask c.db -n 1 -o a.xls", 2).err


@pytest.mark.parametrize("name", ["a.csv", "a.xlsx"])
def test_rows_above_a_header_are_not_lost(shell, name):
    ids = shell.start()["id"]
    rows = [["1", "no"], [ids[2], "yes"], ["id", "churn"], [ids[3], "no"]]  # a sheet that was sorted with its header
    write_table(pd.DataFrame(rows, columns=["A title", "B"]), name)
    assert "rows with ids ('001', '002') are above its header" in shell(f"tell c.db {name}", 2).err
    write_table(pd.DataFrame(rows[2:], columns=["A title", "B"]), name, force=True)
    assert "1 new label" in shell(f"tell c.db {name} --unasked").out


def test_ids_by_hand_are_put_back_too_and_a_row_that_is_not_out_is_skipped(shell):
    shell.start(age=[0.5, *range(N - 1)])
    shell("ask c.db -n 1 --must 007")
    assert "'7' as '007'" in shell("withdraw c.db 7").err
    assert "1 row skipped" in shell("skip c.db 008").out
