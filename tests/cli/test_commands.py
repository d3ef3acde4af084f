"""The commands over one file: what they write, what they say, what they refuse."""

import itertools
import json
import re
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import skactive
from skactive.campaign import _store
from skactive.cli import _COMMANDS, main
from skactive.cli._tables import read_table, write_table

N = 90


@pytest.fixture(autouse=True)
def _in_a_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def pool(path="pool.csv", **columns):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "id": [f"{i:03d}" for i in range(N)],
            "age": rng.integers(18, 80, N),
            "plan": rng.choice(["basic", 'plus "pro", extra', "zwölf\nzeilen"], N),
            "churn": None,
        }
    )
    frame = pd.concat(
        [frame.drop(columns=[*columns.keys() & {*frame}]), pd.DataFrame(columns, index=frame.index)], axis=1
    )
    frame.to_csv(path, index=False)
    return frame


def truth(frame):
    return dict(zip(frame["id"], np.where(frame["age"] > 45, "yes", "no").tolist(), strict=True))


def run(capsys, line, code=0):
    """What a command writes to the screen, and says beside it."""
    words = line if isinstance(line, list) else line.split()
    with warnings.catch_warnings():
        warnings.simplefilter("default")
        assert main(words) == code
    return capsys.readouterr()


def started(capsys, more="", **columns):
    frame = pool(**columns)
    run(capsys, f"start c.db --pool pool.csv --id id --target churn --model logistic --seed 0 {more}")
    return frame


def filled(path, says, part=1.0):
    """Fill in a file of `ask`, in another order, as far as somebody got."""
    frame = pd.read_csv(path, dtype={"id": str}).astype({"churn": object})
    frame = frame.sample(frac=1, random_state=0)
    done = int(part * len(frame))
    frame.iloc[:done, frame.columns.get_loc("churn")] = [says[id] for id in frame["id"][:done]]
    frame.to_csv(path, index=False)
    return frame["id"][:done].tolist()


# --- five rounds ----------------------------------------------------------------------------------


def test_five_rounds_from_the_shell_with_labels_late_in_part_and_unsorted(capsys):
    frame = started(capsys)
    says = truth(frame)
    for week in range(5):
        run(capsys, f"ask c.db -n 10 -o week{week}.csv")
        if week:  # last week's rest comes a week late
            filled(f"week{week - 1}.csv", says)
            run(capsys, f"tell c.db week{week - 1}.csv")
        filled(f"week{week}.csv", says, 0.5)
        out = run(capsys, f"tell c.db week{week}.csv").out
        assert f"The campaign has {10 * week + 5} labels" in out
        assert "5 rows are still out" in out
    status = json.loads(run(capsys, "status c.db --json").out)
    assert (status["n_labels"], status["n_out"], status["n_left"]) == (45, 5, N - 50)
    assert "`previous`" not in status["report"]
    assert status["accuracy"]["value"] > 0.6
    run(capsys, "export c.db -o all.csv")
    labelled = pd.read_csv("all.csv", dtype={"id": str}).set_index("id")["churn"].dropna()
    assert len(labelled) == 45
    assert all(says[id] == label for id, label in labelled.items())


@pytest.mark.parametrize("suffix", ["csv", "tsv", "xlsx", "parquet", "jsonl"])
def test_a_batch_goes_out_and_comes_back_in_every_format(capsys, suffix):
    frame = started(capsys)
    out = run(capsys, f"ask c.db -n 7 -o week.{suffix}").out
    assert f"week.{suffix} holds 7 rows to label; {N - 7} are left." in out
    batch = read_table(f"week.{suffix}", text=("id", "churn", "skip"))
    assert batch.columns.tolist()[:3] == ["id", "churn", "skip"]
    assert batch["id"].str.fullmatch(r"\d{3}").all()
    batch["churn"] = [truth(frame)[id] for id in batch["id"]]
    write_table(batch, f"week.{suffix}", force=True)
    assert "7 new labels" in run(capsys, f"tell c.db week.{suffix}").out


def test_a_page_and_tasks_for_label_studio_are_written(capsys):
    started(capsys, "--labels yes,no")
    out = run(capsys, "ask c.db -n 3 -o week.html").out
    assert "Open it in a browser" in out
    page = Path("week.html").read_text(encoding="utf-8")
    assert "zwölf" in page or "plus" in page or "basic" in page
    out = run(capsys, "ask c.db -n 3 -o tasks.json").out
    assert "labelling interface of tasks.xml" in out
    tasks = json.loads(Path("tasks.json").read_text(encoding="utf-8"))
    assert len(tasks) == 3
    assert "<View" in Path("tasks.xml").read_text(encoding="utf-8")


def test_ask_without_a_file_lists_ids_and_again_writes_those_that_are_out(capsys):
    started(capsys)
    ids = run(capsys, "ask c.db -n 4").out.splitlines()[:4]
    run(capsys, "ask c.db --again -o out.csv")
    assert pd.read_csv("out.csv", dtype=str)["id"].tolist() == sorted(ids)
    assert json.loads(run(capsys, "status c.db --quick --json").out)["out"] == sorted(ids)


def test_skip_and_withdraw_take_ids(capsys):
    started(capsys)
    ids = run(capsys, "ask c.db -n 4").out.splitlines()[:4]
    assert "1 row skipped" in run(capsys, ["skip", "c.db", ids[0]]).out
    assert "2 rows put back" in run(capsys, ["withdraw", "c.db", *ids[:2]]).out
    assert json.loads(run(capsys, "status c.db --quick --json").out)["n_left"] == N - 2


def test_withdraw_all_puts_back_what_is_out_and_nothing_else(capsys):
    frame = started(capsys)
    run(capsys, "ask c.db -n 6 -o a.csv")
    filled("a.csv", truth(frame), 0.5)
    run(capsys, "tell c.db a.csv")
    assert "3 rows put back" in run(capsys, "withdraw c.db --all").out
    status = json.loads(run(capsys, "status c.db --quick --json").out)
    assert (status["n_labels"], status["n_out"], status["n_left"]) == (3, 0, N - 3)
    assert run(capsys, "withdraw c.db --all", 2).err == "skactive withdraw: error: No rows are out.\n"


@pytest.mark.parametrize("words", ["", "001 --all"])
def test_withdraw_takes_ids_or_all(capsys, words):
    started(capsys)
    assert "takes ids, or --all" in run(capsys, f"withdraw c.db {words}", 2).err


def test_no_batch_is_called_nearly_random_where_nothing_can_be_done_about_it(capsys):
    frame = started(capsys, "--beta 0.01")
    run(capsys, "ask c.db -n 20 -o a.csv")
    filled("a.csv", truth(frame))
    run(capsys, "tell c.db a.csv")
    with pytest.warns(UserWarning, match="nearly random"):
        skactive.Campaign.open("c.db", pd.read_csv("pool.csv", dtype={"id": str})).ask(5)
    assert run(capsys, "ask c.db -n 5").err == ""


def test_limits_are_options(capsys):
    started(capsys, region=[f"r{i % 5}" for i in range(N)], price=2.0)
    limits = "--group-by region --max-per-group 2 --cost price --budget 16 --must 007"
    run(capsys, f"ask c.db -n 8 {limits} -o b.csv")
    batch = pd.read_csv("b.csv", dtype={"id": str})
    assert batch["id"][0] == "007"
    assert batch["region"].value_counts().max() == 2
    assert run(capsys, "ask c.db -n 8 --group-by region --max-per-group 1 -o b2.csv", 2).err.count("\n") == 1


def test_numbers_as_labels_are_seen_in_the_file(capsys):
    started(capsys, churn=[0.5 * i if i < 25 else None for i in range(N)])
    assert (
        "Labels are numbers to predict"
        in run(capsys, "start d.db --pool pool.csv --id id --target churn --model forest --seed 0").out
    )
    run(capsys, "ask d.db -n 2 -o b.csv")
    batch = pd.read_csv("b.csv", dtype={"id": str})
    batch.assign(churn=[1.25, 2]).to_csv("b.csv", index=False)
    assert "2 new labels" in run(capsys, "tell d.db b.csv").out


def test_the_same_seed_writes_the_same_file(capsys):
    pool()
    contents = []
    for name in "ab":
        run(capsys, f"start {name}.db --pool pool.csv --id id --target churn --seed 5")
        run(capsys, f"ask {name}.db -n 9 -o {name}.csv")
        contents.append(Path(f"{name}.csv").read_bytes())
    assert contents[0] == contents[1]


def test_a_report_is_one_page_without_a_network(capsys):
    frame = started(capsys)
    for week in range(3):
        run(capsys, f"ask c.db -n 12 -o {week}.csv")
        filled(f"{week}.csv", truth(frame))
        run(capsys, f"tell c.db {week}.csv")
    run(capsys, "report c.db -o report.html")
    page = Path("report.html").read_text(encoding="utf-8")
    status = skactive.Campaign.open("c.db", pd.read_csv("pool.csv", dtype={"id": str})).status()
    for part in (status._repr_html_(), "The last batch", "<svg"):
        assert part in page
    assert not re.search(r'(src|href)="(?!#)', page.split("<body>")[1].replace("xlink:href", ""))
    assert "&quot;pro&quot;" in page or "zwölf" in page


def test_recheck_lists_labels(capsys):
    frame = started(capsys)
    run(capsys, "ask c.db -n 40 -o a.csv")
    says = truth(frame)
    ids = filled("a.csv", says)
    wrong = {ids[0]: "no" if says[ids[0]] == "yes" else "yes"}
    filled("a.csv", says | wrong)
    run(capsys, "tell c.db a.csv")
    assert ids[0] in json.loads(run(capsys, "recheck c.db -n 8 --json").out)["ids"]
    run(capsys, "recheck c.db -n 8 -o again.csv")
    assert len(pd.read_csv("again.csv")) == 8


@pytest.mark.parametrize("suffix", ["csv", "xlsx", "parquet", "jsonl"])
@pytest.mark.parametrize("target", ["churn", "label"])
def test_a_file_of_recheck_is_corrected_and_told(capsys, suffix, target):
    frame = pool().rename(columns={"churn": target, "plan": "label" if target == "churn" else "plan"})
    frame.to_csv("pool.csv", index=False)
    run(capsys, f"start c.db --pool pool.csv --id id --target {target} --model logistic --seed 0")
    says = truth(frame)
    ids = run(capsys, "ask c.db -n 30").out.splitlines()[:30]
    pd.DataFrame({"id": ids, target: [says[id] for id in ids]}).to_csv("a.csv", index=False)
    run(capsys, "tell c.db a.csv")
    out = run(capsys, f"recheck c.db -n 8 -o again.{suffix}").out
    assert f"Next: skactive tell c.db again.{suffix}" in out
    again = read_table(f"again.{suffix}", text=("id", target))
    again.loc[2, target] = "no" if again.loc[2, target] == "yes" else "yes"
    write_table(again, f"again.{suffix}", force=True)
    assert "0 new labels, 1 corrected" in (told := run(capsys, f"tell c.db again.{suffix}").out)
    assert "7 known already" in told
    assert json.loads(run(capsys, "status c.db --quick --json").out)["n_labels"] == 30


@pytest.mark.slow
def test_simulate_says_whether_labels_would_have_been_saved(capsys):
    frame = pool()
    frame.assign(churn=frame["id"].map(truth(frame))).to_csv("full.csv", index=False)
    line = "simulate full.csv --id id --target churn --model logistic --trials 2 --rounds 2 -n 8 --initial 10"
    out = run(capsys, f"{line} -o s.png").out
    assert "Against choosing rows at random, the default query needed" in out
    assert "s.png shows the learning curves" in out
    facts = json.loads(run(capsys, f"{line} --json").out)
    assert {row["query"] for row in facts["queries"]} == {"default", "top of the ranking", "uniform", "BALD, sampled"}
    assert run(capsys, f"{line} --initial 80", 2).err.startswith(
        "skactive simulate: error: full.csv must have more labels"
    )


# --- files as people have them --------------------------------------------------------------------


def rewritten(encoding="utf-8", separator=",", **columns):
    frame = pool(**columns)
    text = frame.to_csv(index=False, sep=separator)
    Path("pool.csv").write_text(text, encoding=encoding, newline="")
    return frame


@pytest.mark.parametrize(
    ("encoding", "separator"), [("utf-8-sig", ","), ("latin-1", ";"), ("utf-16", "\t"), ("utf-8", ";")]
)
def test_other_encodings_and_separators_hold_the_same_campaign(capsys, encoding, separator):
    frame = rewritten(encoding, separator)
    run(capsys, "start c.db --pool pool.csv --id id --target churn --seed 0")
    pool()  # the same table as UTF-8 with commas
    run(capsys, "ask c.db -n 9 -o a.csv")
    assert set(pd.read_csv("a.csv", dtype=str)["id"]) <= set(frame["id"])


def test_three_hundred_columns_are_no_trouble(capsys):
    rng = np.random.default_rng(0)
    started(capsys, **{f"c{i}": rng.normal(size=N) for i in range(300)})
    run(capsys, "ask c.db -n 5 -o a.csv")
    assert pd.read_csv("a.csv").shape[0] == 5


# --- bad input ------------------------------------------------------------------------------------


def csv(text):
    return lambda: Path("pool.csv").write_text(text)


BAD_POOLS = {
    "an id twice": (
        csv("id,age,churn\n1,3,\n1,4,\n"),
        r"pool\.csv, row 2: the id must be different in every row\. Got '1' again",
    ),
    "no id in a row": (csv("id,age,churn\n1,3,\n,4,\n"), r"pool\.csv, row 2: the id must be there in every row"),
    "no column of ids": (csv("name,age,churn\na,3,\n"), r"pool\.csv has no column 'id'"),
    "no target": (
        csv("id,age\n1,3\n"),
        r"pool\.csv has no column 'churn': add it\.",
    ),
    "a full target": (csv("id,age,churn\n1,3,yes\n2,4,no\n"), r"pool\.csv: the target must have gaps"),
    "an empty file": (csv(""), r"pool\.csv"),
    "a header only": (csv("id,age,churn\n"), r"pool\.csv: the table must have at least one row"),
    "a short line": (csv("id,age,churn\n1,3\n"), r"pool\.csv cannot be read: .*Expected 3 columns, got 2"),
    "no file": (lambda: None, r"pool\.csv"),
}


@pytest.mark.parametrize("bad", BAD_POOLS)
def test_a_bad_pool_is_refused_on_one_line_and_nothing_is_written(capsys, tmp_path, bad):
    make, message = BAD_POOLS[bad]
    make()
    err = run(capsys, "start c.db --pool pool.csv --id id --target churn", 2).err
    assert re.fullmatch(rf"skactive start: error: {message}.*\n", err)
    assert not (tmp_path / "c.db").exists()


@pytest.mark.parametrize("suffix", ["csv", "xlsx", "parquet", "jsonl"])
def test_export_writes_guesses_beside_rows_without_a_label(capsys, suffix):
    frame = started(capsys)
    run(capsys, "ask c.db -n 30 -o a.csv")
    ids = filled("a.csv", truth(frame))
    run(capsys, "tell c.db a.csv")
    out = run(capsys, f"export c.db -o all.{suffix} --guesses").out
    assert "90 rows, 30 of them with a label, and what the model says of the 60 others" in out
    found = read_table(f"all.{suffix}", text=("id", "churn", "guess")).set_index("id")
    assert found["churn"].dropna().to_dict() == {id: truth(frame)[id] for id in ids}
    assert (found["guess"].isna() == found["churn"].notna()).all()
    assert (found["guess_probability"].isna() == found["churn"].notna()).all()
    rows = frame.set_index("id").drop(columns="churn")
    campaign = skactive.Campaign.open("c.db", frame)
    model, others = campaign.model(), found.index[found["churn"].isna()]
    assert found.loc[others, "guess"].tolist() == model.predict(rows.loc[others]).tolist()
    sure = model.predict_proba(rows.loc[others]).max(axis=1)
    np.testing.assert_allclose(found.loc[others, "guess_probability"].astype(float), sure, rtol=1e-12)


def test_guesses_need_a_model_and_nothing_is_written_without(capsys):
    started(capsys)
    assert "A model needs labels of two classes" in run(capsys, "export c.db -o all.csv --guesses", 2).err
    assert not Path("all.csv").exists()


BAD_ANSWERS = {
    "an id that is not of the pool": ("id,churn\n{0},yes\n999,no\n", r"a\.csv, row 2: '999' is no id of the campaign"),
    "an id that was not asked for": ("id,churn\n{free},yes\n", r"a\.csv, row 1: '\d+' was not asked for"),
    "two labels": ("id,churn\n{0},yes\n{0},no\n", r"a\.csv, row 2: '\d+' has two labels, 'yes' and 'no'"),
    "a label that is none": (
        "id,churn\n{0},maybe\n",
        r"a\.csv, row 1: '\d+': a label must be one of 'no', 'yes'\. Got 'maybe'",
    ),
    "no column of ids": ("name,churn\nx,yes\n", r"a\.csv has no column 'id'"),
    "no column of labels": ("id,label\n{0},yes\n", r"a\.csv has no column 'churn'"),
    "no rows": ("id,churn\n", r"a\.csv: there is no label"),
    "no id in a row": ("id,churn\n,yes\n", r"a\.csv, row 1: a row has no id"),
    "nothing": ("", r"a\.csv"),
}


@pytest.mark.parametrize("bad", BAD_ANSWERS)
def test_bad_answers_are_refused_on_one_line_and_nothing_is_written(capsys, tmp_path, bad):
    frame = started(capsys, "--labels yes,no")
    ids = run(capsys, "ask c.db -n 4").out.splitlines()[:4]
    free = next(id for id in frame["id"] if id not in ids)
    text, message = BAD_ANSWERS[bad]
    Path("a.csv").write_text(text.format(*ids, free=free))
    before = (tmp_path / "c.db").read_bytes()
    assert re.fullmatch(rf"skactive tell: error: {message}.*\n", run(capsys, "tell c.db a.csv", 2).err)
    assert (tmp_path / "c.db").read_bytes() == before


def test_a_new_label_is_taken_with_a_word(capsys):
    frame = started(capsys)
    run(capsys, "ask c.db -n 6 -o a.csv")
    filled("a.csv", truth(frame))
    run(capsys, "tell c.db a.csv")
    ids = run(capsys, "ask c.db -n 1").out.splitlines()[:1]
    Path("b.csv").write_text(f"id,churn\n{ids[0]},Yes\n")
    assert "note: 'Yes' is a label that no row had before" in run(capsys, "tell c.db b.csv").err


def test_a_pool_that_changed_is_listed_and_taken_with_a_word(capsys):
    frame = started(capsys)
    frame.loc[3, "age"] = 99
    frame.drop(index=4).to_csv("pool.csv", index=False)
    err = run(capsys, "ask c.db -n 3 -o a.csv", 2).err
    assert re.fullmatch(
        r"skactive ask: error: .*pool\.csv: .*1 row is gone: '004'; 1 row holds other values: '003'.*\n",
        err,
    )


def test_an_output_that_exists_is_kept_and_no_row_goes_out(capsys):
    started(capsys)
    Path("a.csv").write_text("mine")
    assert "a.csv exists. --force overwrites it" in run(capsys, "ask c.db -n 3 -o a.csv", 2).err
    assert Path("a.csv").read_text() == "mine"
    assert json.loads(run(capsys, "status c.db --quick --json").out)["n_out"] == 0
    run(capsys, "ask c.db -n 3 -o a.csv --force")


OVER_INPUTS = {
    "the pool": ("{command} c.db {o} pool.csv", "pool.csv is the table"),
    "the pool by another name": ("{command} c.db {o} link.csv", "link.csv is the table"),
    "a pool that is named": ("{command} c.db --pool moved.csv {o} moved.csv", "moved.csv is the table"),
    "the pool of before": ("{command} c.db --pool moved.csv {o} sub/../pool.csv", "pool.csv is the table"),
    "the campaign": ("{command} c.db {o} ./c.db", "c.db is the file of the campaign"),
}


@pytest.mark.parametrize("force", ["", " --force"])
@pytest.mark.parametrize("command", ["ask", "export", "recheck", "report", "export --history"])
@pytest.mark.parametrize("over", OVER_INPUTS)
def test_no_command_writes_over_what_it_reads(capsys, tmp_path, over, command, force):
    started(capsys)
    Path("link.csv").symlink_to("pool.csv")
    Path("sub").mkdir()
    Path("moved.csv").write_bytes(Path("pool.csv").read_bytes())
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir() if path.is_file()}
    line, message = OVER_INPUTS[over]
    err = run(capsys, line.format(command=command, o="-o") + force, 2).err
    assert re.fullmatch(rf"skactive {command.split()[0]}: error: .*{message}: it is not overwritten, .*\n", err)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir() if path.is_file()} == before


@pytest.mark.parametrize("force", ["", " --force"])
def test_start_and_simulate_do_not_write_over_what_is_read(capsys, tmp_path, force):
    started(capsys)
    run(capsys, "start x.db --pool pool.csv --id id --target churn --model logistic")
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    for line in (
        "start pool.csv --pool pool.csv --id id --target churn",
        "simulate pool.csv --target churn -o pool.csv",
    ):
        assert "is the table: it is not overwritten" in run(capsys, line + force, 2).err
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_a_batch_that_was_overtaken_leaves_one_file_with_the_rows_that_are_out(capsys, monkeypatch, tmp_path):
    started(capsys)
    add, calls = _store.Store.add_batch, itertools.count()

    def overtaken_once(self, *args):
        if next(calls) == 0:
            monkeypatch.setattr(_store.Store, "add_batch", add)
            assert main(["ask", "c.db", "-n", "3", "-o", "first.csv"]) == 0
            monkeypatch.setattr(_store.Store, "add_batch", overtaken_once)
        return add(self, *args)

    monkeypatch.setattr(_store.Store, "add_batch", overtaken_once)
    run(capsys, "ask c.db -n 3 -o second.csv")
    first, second = (set(pd.read_csv(name, dtype=str)["id"]) for name in ("first.csv", "second.csv"))
    assert not first & second
    assert set(json.loads(run(capsys, "status c.db --quick --json").out)["out"]) == first | second
    assert sorted(path.name for path in tmp_path.iterdir()) == ["c.db", "first.csv", "pool.csv", "second.csv"]


def test_start_overwrites_a_campaign_only_on_a_word_and_nothing_else_ever(capsys):
    started(capsys)
    line = "start c.db --pool pool.csv --id id --target churn"
    assert "exists" in run(capsys, line, 2).err
    run(capsys, f"{line} --force")
    Path("notes.txt").write_text("mine")
    run(capsys, f"{line.replace('c.db', 'notes.txt')} --force", 2)
    assert Path("notes.txt").read_text() == "mine"
    run(capsys, f"{line} --force --pool nowhere.csv", 2)
    assert "90 rows" in run(capsys, "status c.db --quick").out


# --- the command itself ---------------------------------------------------------------------------


def test_help_lists_the_commands_without_loading_anything_heavy():
    code = "import sys; from skactive.cli import main\ntry: main(['--help'])\nexcept SystemExit: pass\n"
    code += "print([m for m in ('torch', 'pandas', 'sklearn', 'modAL') if m in sys.modules])"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert out.endswith("[]\n")
    for command in _COMMANDS:
        assert f"\n  {command} " in out


@pytest.mark.parametrize("command", [name for name in _COMMANDS if name != "demo"])
def test_every_command_has_help(capsys, command):
    with pytest.raises(SystemExit) as caught:
        main([command, "--help"])
    assert caught.value.code == 0
    assert f"usage: skactive {command}" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("nope", "argument COMMAND: invalid choice: 'nope'"),
        ("ask", "the following arguments are required: DB"),
        ("ask c.db -n auto", "argument -n: invalid int value"),
        ("start c.db --beta auto", "argument --beta: invalid float value"),
        ("ask c.db --nope", "unrecognized arguments: --nope"),
    ],
)
def test_options_that_there_are_not_end_with_two(capsys, line, message):
    with pytest.raises(SystemExit) as caught:
        main(line.split())
    assert caught.value.code == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert message in err
    assert err.count("\n") == 1


def test_a_batch_of_no_rows_is_refused(capsys):
    started(capsys)
    assert "-n must be" in run(capsys, "ask c.db -n 0", 2).err


def test_version_is_that_of_the_package(capsys):
    with pytest.raises(SystemExit) as caught:
        main(["--version"])
    assert caught.value.code == 0
    assert capsys.readouterr().out == f"skactive {skactive.__version__}\n"


def test_a_file_that_cannot_be_written_ends_with_one(capsys, monkeypatch):
    started(capsys)

    def full(self, *args):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("pathlib.Path.write_bytes", full)
    err = run(capsys, "ask c.db -n 3 -o a.csv", 1).err
    assert "No space left on device" in err
    assert json.loads(run(capsys, "status c.db --quick --json").out)["n_out"] == 0


def test_an_interrupt_ends_with_one_and_a_word(capsys, monkeypatch):
    started(capsys)

    def interrupted(self, *args):
        raise KeyboardInterrupt

    monkeypatch.setattr(_store.Store, "add_batch", interrupted)
    assert "interrupted" in run(capsys, "ask c.db -n 3 -o a.csv", 1).err
    assert not Path("a.csv").exists()


# --- found by people who tried ---------------------------------------------------------------------


def test_labels_with_a_decimal_comma_are_numbers(capsys):
    frame = pool(churn=[0.25 * i if i < 25 else None for i in range(N)])
    frame.to_csv("pool.csv", index=False, sep=";", decimal=",")
    line = "start c.db --pool pool.csv --id id --target churn --model forest --seed 0"
    assert "Labels are numbers to predict" in run(capsys, line).out
    ids = run(capsys, "ask c.db -n 2").out.splitlines()[:2]
    Path("a.csv").write_text(f"id;churn\n{ids[0]};3,5\n{ids[1]};1,25\n")
    run(capsys, "tell c.db a.csv")
    run(capsys, "export c.db -o out.csv")
    exported = pd.read_csv("out.csv", dtype={"id": str}).set_index("id")["churn"]
    assert exported[ids].tolist() == [3.5, 1.25]


def test_a_file_without_any_label_is_refused(capsys):
    started(capsys)
    run(capsys, "ask c.db -n 3 -o a.csv")
    assert "there is no label in the column 'churn' yet" in run(capsys, "tell c.db a.csv", 2).err
    run(capsys, "ask c.db -n 3 -o a.html")
    assert "a.html is the page itself. Open it in a browser" in run(capsys, "tell c.db a.html", 2).err


def test_the_history_is_a_table(capsys):
    frame = started(capsys)
    run(capsys, "ask c.db -n 3 -o a.csv")
    filled("a.csv", truth(frame))
    run(capsys, "tell c.db a.csv")
    run(capsys, "export c.db --history -o h.xlsx")
    assert len(pd.read_excel("h.xlsx")) == 6


def test_guesses_of_numbers_go_into_the_control_of_label_studio(capsys):
    started(capsys, churn=[0.25 * i if i < 25 else None for i in range(N)])
    run(capsys, "ask c.db -n 3 -o tasks.json")
    kinds = {r["type"] for task in json.loads(Path("tasks.json").read_text()) for r in task["predictions"][0]["result"]}
    assert kinds == {"textarea"}


def test_words_for_a_gap_in_the_target_are_pointed_at(capsys):
    pool(churn=["NA", "yes", "no", *[None] * (N - 3)])
    assert "'NA' in 'churn' counts as a label" in run(capsys, "start c.db --pool pool.csv --id id --target churn").err


def test_ids_of_a_file_are_not_read_as_other_numbers(capsys):
    frame = pool().assign(id=range(N))
    skactive.Campaign.start("c.db", frame, target="churn", id="id", model="logistic", random_state=0)
    frame.to_csv("pool.csv", index=False)
    ids = run(capsys, "ask c.db --pool pool.csv -n 2").out.splitlines()[:2]
    Path("a.csv").write_text(f"id,churn\n00{ids[0]},yes\n")
    assert "is no id of the campaign" in run(capsys, "tell c.db a.csv", 2).err
    Path("a.csv").write_text(f"id,churn\n{ids[0]},yes\n")
    assert "1 new label" in run(capsys, "tell c.db a.csv").out


def test_a_killed_start_leaves_the_old_campaign(capsys, monkeypatch):
    started(capsys)
    before = Path("c.db").read_bytes()

    def killed(*args):
        raise KeyboardInterrupt

    monkeypatch.setattr("pathlib.Path.replace", killed)
    run(capsys, "start c.db --pool pool.csv --id id --target churn --force", 1)
    assert Path("c.db").read_bytes() == before
    assert sorted(path.name for path in Path().iterdir()) == ["c.db", "pool.csv"]


def test_next_steps_can_be_copied_with_odd_names(capsys):
    pool()
    out = run(capsys, ["start", "my campaign #1.db", "--pool", "pool.csv", "--id", "id", "--target", "churn"]).out
    assert "Next: skactive ask 'my campaign #1.db' -n 20" in out
    run(capsys, ["ask", "my campaign #1.db", "-n", "2", "-o", "week 1.csv"])


def test_a_start_that_another_process_was_faster_than_leaves_its_file(capsys, monkeypatch):
    pool()
    read = skactive.Campaign.start

    def slower(*args, **given):
        Path("c.db").write_text("of another process")
        return read(*args, **given)

    monkeypatch.setattr(skactive.Campaign, "start", slower)
    assert "c.db exists" in run(capsys, "start c.db --pool pool.csv --id id --target churn", 2).err
    assert Path("c.db").read_text() == "of another process"
