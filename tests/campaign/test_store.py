"""The file of a campaign: whole after a kill, one truth for many processes, refused if it is not ours."""

import datetime
import itertools
import json
import multiprocessing
import os
import re
import resource
import signal
import sqlite3
import threading
import time
from contextlib import closing

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import RandomForestClassifier

import skactive
from skactive import Campaign
from skactive._utils.sqlite import checksum
from skactive.campaign import CampaignError, CampaignFileError
from skactive.campaign._labels import Answer
from skactive.campaign._ledger import Ledger
from skactive.campaign._store import Store

FORK = multiprocessing.get_context("fork")
N = 600


def table():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"id": [f"{i:04d}" for i in range(N)], "x": rng.normal(size=N), "y": None})
    frame.loc[:9, "y"] = ["a", "b"] * 5
    return frame


def started(path):
    return Campaign.start(path, table(), target="y", id="id", model="logistic", random_state=0)


def reopened(path):
    return Campaign.open(path, table())


def counts(campaign):
    return campaign.status(accuracy=False, report=False)


def check_whole(path):
    """The database is whole, no row was asked for twice, and none is lost."""
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    campaign = reopened(path)
    history, status = campaign.history(), counts(campaign)
    asked = history.loc[history["kind"] == "ask", "id"]
    assert asked.is_unique
    assert status.n_labels + status.n_out + status.n_left == N
    assert len(asked) == status.n_labels - 10 + status.n_out
    return status


def work(path, begun):
    """Ask and tell until somebody ends it."""
    campaign = reopened(path)
    while True:
        batch = campaign.ask(3)
        begun.set()
        campaign.tell(dict.fromkeys(batch.index, "a"))


@pytest.mark.parametrize("n", [4, pytest.param(50, marks=pytest.mark.slow)])
def test_killed_processes_leave_the_file_whole_lose_no_row_and_ask_for_none_twice(tmp_path, n):
    path, rng, progress = tmp_path / "c.db", np.random.default_rng(0), []
    started(path)
    for _ in range(n):
        begun = FORK.Event()
        process = FORK.Process(target=work, args=(path, begun))
        process.start()
        begun.wait(60)
        time.sleep(0.4 * rng.random())
        os.kill(process.pid, signal.SIGKILL)
        process.join()
        progress.append(check_whole(path).n_asked)
        if progress[-1] > N - 80:
            path.unlink()
            started(path)
    assert len(set(progress)) > n / 2
    assert [path.name for path in tmp_path.iterdir() if not path.name.endswith("-journal")] == ["c.db"]


def ask_at_once(path, barrier, results, n):
    campaign = reopened(path)
    for _ in range(n):
        barrier.wait(60)
        results.put(campaign.ask(4).index.tolist())


@pytest.mark.parametrize("n", [3, pytest.param(50, marks=pytest.mark.slow)])
def test_two_processes_that_ask_at_once_get_different_rows(tmp_path, n):
    started(tmp_path / "c.db")
    barrier, results = FORK.Barrier(2), FORK.Queue()
    processes = [FORK.Process(target=ask_at_once, args=(tmp_path / "c.db", barrier, results, n)) for _ in range(2)]
    for process in processes:
        process.start()
    ids = [id for _ in range(2 * n) for id in results.get(timeout=120)]
    for process in processes:
        process.join(60)
    assert len(set(ids)) == len(ids) == 8 * n
    check_whole(tmp_path / "c.db")


def test_threads_that_tell_of_one_row_leave_one_of_their_labels(tmp_path):
    id = started(tmp_path / "c.db").ask(1).index[0]
    threads = [threading.Thread(target=lambda x: reopened(tmp_path / "c.db").tell({id: x}), args=x) for x in "abab"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    told = reopened(tmp_path / "c.db").history().query("kind == 'tell'")["label"].tolist()
    assert 1 <= len(told) <= 4
    assert all(one != next_one for one, next_one in itertools.pairwise(told))  # each is a correction


def test_a_full_disk_leaves_the_file_as_it_was(tmp_path):
    path = tmp_path / "c.db"
    batch = started(path).ask(200)
    size = path.stat().st_size
    answer = FORK.Queue()

    def tell():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))
        try:
            reopened(path).tell(dict.fromkeys(batch.index, "a"), annotator="b" * 8192)  # more than a page
        except CampaignFileError as error:
            answer.put(str(error))

    process = FORK.Process(target=tell)
    process.start()
    message = answer.get(timeout=60)
    process.join()
    assert re.search(r"could not be written: .*\. Nothing was changed", message)
    assert check_whole(path).n_out == 200


def test_no_file_is_begun_anew_and_files_of_others_are_refused(tmp_path):
    path = tmp_path / "c.db"
    with pytest.raises(CampaignError, match=r"does not exist\. Start a campaign by `Campaign\.start`"):
        reopened(path)
    started(path)
    with pytest.raises(CampaignError, match=r"exists\. Go on with it by `Campaign\.open`"):
        started(path)
    before, other = reopened(path), table().iloc[::-1]
    path.unlink()
    batch = Campaign.start(path, other, target="y", id="id", random_state=0).ask(3)
    for do in (before.ask, before.status, lambda: before.tell(dict.fromkeys(batch.index, "a"))):
        with pytest.raises(
            CampaignError, match="was restarted, replaced or damaged since it was opened"
        ):  # its rows are others
            do()
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA user_version = 2")
    with pytest.raises(CampaignError, match="in layout 2; this one reads layout 3"):
        reopened(path)
    path.write_text("id,y\n1,a\n" * 200)
    with pytest.raises(CampaignError, match="is not a campaign"):
        reopened(path)
    with pytest.raises(CampaignError, match="in a folder that exists"):
        started(tmp_path / "no" / "c.db")


# --- damage, copies, and files of strangers -------------------------------------------------------


def begun(path):
    """A campaign with labels of two annotators, skips and rows that are out."""
    campaign = started(path)
    for annotator in ("ann", "bob", None):
        ids = campaign.ask(8).index
        campaign.tell(dict.fromkeys(ids[:5], "a"), annotator=annotator)
        campaign.skip(ids[5:6])
    return campaign


def outcome(path):
    """All that a campaign says, or the error."""
    try:
        campaign = Campaign.open(path)
    except CampaignError as error:
        return str(error)
    return campaign._settings, campaign.history().astype(str).to_numpy().tolist(), campaign.to_frame()["y"].to_dict()


def damaged(content, rng):
    """The same with a flipped bit, without its end, with zeros in it, or with one page in the place of another."""
    content, at, n = bytearray(content), rng.integers(len(content)), rng.choice([16, 512, 4096])
    to, of = 4096 * rng.integers(len(content) // 4096, size=2)
    kind = rng.choice(["flip", "cut", "zero", "swap"])
    if kind == "flip":
        content[at] ^= 1 << rng.integers(8)
    elif kind == "cut":
        del content[at:]
    elif kind == "zero":
        content[at : at + n] = bytes(len(content[at : at + n]))
    else:
        content[to : to + 4096] = content[of : of + 4096]
    return content


@pytest.mark.parametrize("n", [150, pytest.param(3000, marks=pytest.mark.slow)])
def test_a_damaged_file_gives_the_same_or_one_error_that_names_it_and_says_how_to_go_on(tmp_path, n):
    path, rng, found = tmp_path / "c.db", np.random.default_rng(0), []
    begun(path)
    whole, before = path.read_bytes(), outcome(path)
    for _ in range(n):
        path.write_bytes(damaged(whole, rng))
        found.append(outcome(path))
    errors = [one for one in found if one != before]
    assert len(errors) > n / 4
    assert all(str(path) in error and "`skactive start`, makes a new one" in error for error in errors)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.* is a label that no row had before")
def test_a_copy_made_during_writes_is_a_state_that_was_or_refused_and_a_backup_is_whole(tmp_path):
    path, copy, rng, found = tmp_path / "c.db", tmp_path / "copy.db", np.random.default_rng(0), []
    ids, campaign = table()["id"][10:210].tolist(), started(path)
    for i in range(20):
        campaign.tell(dict.fromkeys(ids, f"before {i}"), unasked=True)
        with path.open("rb") as file:
            head = file.read(4096 * rng.integers(1, 12))
            for j in range(rng.integers(1, 4)):
                campaign.tell(dict.fromkeys(ids, f"{i} {j}"), unasked=True)
            copy.write_bytes(head + file.read())
        found.append(outcome(copy))
    errors = [error for error in found if isinstance(error, str)]
    assert len(errors) > 2
    assert all("If it was copied while in use, copy it again by `Campaign.backup`" in error for error in errors)
    assert all(len({labels[id] for id in ids}) == 1 for _, _, labels in (one for one in found if one not in errors))
    campaign.backup(tmp_path / "backup.db")
    assert outcome(tmp_path / "backup.db") == outcome(path)
    with pytest.raises(CampaignError, match="a backup overwrites nothing"):
        campaign.backup(copy)


STRANGE = {
    "boo": [[]],
    "tell": [["", [-1], ["a"]], ["", [N], ["a"]], ["", [1, 2], ["a"]], ["", [True], ["a"]], [5, [1], ["a"]]],
    "tell ": [["", [1], [["a"]]], ["", [1], [float("nan")]], ["", [1], [None]]],
    "tell  ": [["", [1], ["a"], ["?"]], ["", [1], ["a"], [0.5, 0.5]]],
    "ask": [[[1], ["?"], {"n_candidates": 9}], [[1], [-1.0], 5], [[1], [], {"n_candidates": 9}]],
    "rows": [[["0001"], "0" * 16, [None]], [["new"], "0", [None]], [[1.5], "0" * 16, [None]]],
    "hashes": [[[N], "0" * 16]],
    "settings": [
        *([{name: value}] for name, value in {"rule": "no", "kind": 1, "gone": [-1], "pool": 5, "labels": 5}.items()),
        *([{"query": {"name": name, "params": {}}}] for name in ("eval", "Limits")),
        [{"query": {"name": "StochasticBatchQuery", "params": {"score": "__import__"}}}],
        [{"model": {"name": "os.system"}}],
        [{"readings": {}}],
        [{"dialect": {"sep": "no mark"}}],
    ],
}
RECORDS = [
    json.dumps([kind.strip(), "2026-01-01T00:00:00+00:00", one]) for kind, some in STRANGE.items() for one in some
]
RECORDS += ['["skip","yesterday",["",[1],[]]]', "[" * 100_000, "\xff", "{}"]
TABLES = [
    "CREATE TRIGGER t AFTER INSERT ON records BEGIN DELETE FROM records; END",
    "CREATE TABLE more (x)",
    "DROP TABLE seal; CREATE VIEW seal AS WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n FROM r) SELECT n FROM r",
]


def test_a_strangers_file_runs_nothing_and_is_refused_whatever_its_seal_says(tmp_path):
    path = tmp_path / "c.db"
    begun(path)
    whole = path.read_bytes()
    for content in (*RECORDS, *TABLES):
        path.write_bytes(whole)
        with closing(sqlite3.connect(path)) as connection:
            if content in TABLES:
                connection.executescript(content)
            else:
                (n,), (seal,) = connection.execute(
                    "SELECT max(number) FROM records UNION ALL SELECT checksum FROM seal"
                )
                connection.execute("INSERT INTO records VALUES (?, ?)", (n + 1, content.encode("latin-1")))
                connection.execute("UPDATE seal SET checksum = ?", (checksum(seal, content.encode("latin-1")),))
                connection.commit()
        with pytest.raises(CampaignError, match=r"c\.db' is damaged: .* makes a new one"):
            reopened(path)


def test_ctrl_c_ends_a_reading_of_the_file(tmp_path):
    started(tmp_path / "c.db")
    long = "WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r LIMIT 100000000) SELECT max(n) FROM r"
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # what runs in the background ignores Ctrl-C
    threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT)).start()
    try:
        with pytest.raises(KeyboardInterrupt), Store(tmp_path / "c.db")._file.reading() as connection:
            connection.execute(long).fetchone()
    finally:
        signal.signal(signal.SIGINT, before)


QUERIES = {
    "acsfw": skactive.ACSFWQuery(),
    "badge": skactive.BADGEQuery(),
    "batchbald": skactive.BatchBALDQuery(),
    "diversity": skactive.StochasticBatchQuery(diversity=2, epsilon=0.1),
    "kcenter": skactive.KCenterQuery(),
    "targets": skactive.StochasticBatchQuery("epig", X_target=[[0.5, 7_123_456.789]]),
}


@pytest.mark.filterwarnings("ignore")  # of models and queries that are too small to be good
@pytest.mark.parametrize("name", QUERIES)
def test_no_cell_of_a_row_is_in_the_file(tmp_path, name):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"id": range(60), "x": rng.normal(size=60), "z": 7_123_456.789 + rng.normal(size=60)})
    frame["y"] = None
    model = skactive.MCDropoutClassifier((8,), max_epochs=1) if name == "badge" else RandomForestClassifier(10)
    path = tmp_path / "c.db"
    campaign = Campaign.start(path, frame, target="y", id="id", model=model, query=QUERIES[name], random_state=0)
    for _ in range(3):
        ids = campaign.ask(6).index
        campaign.tell({id: "ab"[id % 2] for id in ids})
    content = path.read_bytes()
    numbers = frame[["x", "z"]].to_numpy()
    assert not [x for x in numbers.ravel() if str(x)[:8].encode() in content or x.tobytes() in content]
    assert b"71234" not in content


def test_a_campaign_is_for_one_thread_and_says_so(tmp_path):
    campaign, said = started(tmp_path / "c.db"), FORK.Queue()

    def ask():
        try:
            campaign.ask(3)
        except CampaignError as error:
            said.put(str(error))

    threading.Thread(target=ask).start()
    assert "open the same file once per thread" in said.get(timeout=60)
    assert len(campaign.ask(3)) == 3


def test_one_label_more_takes_no_time_in_proportion_to_those_that_were_told(tmp_path):
    n = 30_000
    frame = pd.DataFrame({"id": range(n), "x": 0.0, "y": None})
    campaign = Campaign.start(tmp_path / "c.db", frame, target="y", id="id", labels=["a", "b", "c", "d"])
    campaign.tell(dict.fromkeys(range(n - 1), "a"), unasked=True)
    campaign.tell({0: "b"})  # reads what it has written itself

    def seconds(do):
        start = time.process_time()
        do()
        return time.process_time() - start

    one = min(seconds(lambda label=label: campaign.tell({1: label})) for label in "bcd")
    assert one < seconds(lambda: Campaign.open(tmp_path / "c.db")) / 5  # 2 ms and 60 ms


def test_a_withdrawn_label_comes_back_when_its_row_was_asked_for_again_or_on_a_word_only(tmp_path):
    campaign = started(tmp_path / "c.db")
    ids = campaign.ask(4).index.tolist()
    every_week = dict.fromkeys(ids, "a")
    campaign.tell(every_week, annotator="ann")
    campaign.withdraw(ids[:2])
    campaign.set(rename={"a": "A"})
    said = str(campaign.tell(every_week, annotator="ann"))
    assert said == "0 new labels, 2 known already, 2 left out, as withdrawn or replaced since."
    assert counts(campaign).n_labels == 12
    assert campaign.tell({ids[0]: "b"}, annotator="ann").n_labels == 1  # a second thought
    assert campaign.tell(every_week, annotator="ann", unasked=True).n_labels == 1
    assert campaign.tell(every_week, annotator="ann").n_same == 4  # none is left out
    campaign.withdraw(ids[:1])
    assert ids[0] in campaign.ask(N - 13).index
    assert campaign.tell(every_week, annotator="ann").n_labels == 1


def test_the_latest_label_is_the_one_that_was_given_last_whatever_the_order_of_files(tmp_path):
    campaign = started(tmp_path / "c.db")
    now = time.time()
    for hours in itertools.permutations((1, 2, 3)):  # in this order three people are told; "b" was given last
        id = campaign.ask(1).index[0]
        for hour in hours:
            campaign._take([Answer(id, "aab"[hour - 1], f"{hour}", when=now - 3600 * (3 - hour))])
        assert campaign._take([Answer(id, "a", "3", when=now - 7200)]).n_left_out == 1  # said before by the same person
        assert Campaign.open(tmp_path / "c.db").to_frame().loc[id, "y"] == "b", hours
    campaign._take([Answer(id, "b", "a clock ahead", when=now + 1e9)])
    campaign.tell({id: "a"}, annotator="by hand")
    assert campaign.to_frame().loc[id, "y"] == "a"  # told now


def test_a_clock_that_was_ahead_once_counts_no_more_and_one_that_is_behind_changes_nothing():
    ledger = Ledger()
    ids = ["rows", [["a", "b", "c"], "00" * 24, [None] * 3]]
    records = [("2026", *ids), ("2026", "tell", ["", [0], ["x"]]), ("2136", "tell", ["", [1], ["x"]])]
    for year, now, kind, content in (
        *((year, year, *record) for year, *record in records),
        ("2027", "2027", "tell", ["", [2], ["x"]]),
        ("1970", "2027", "tell", ["", [0], ["y"]]),
        ("2028", "2028", "tell", ["", [0], ["z"], [1.7e9]]),
    ):
        ledger.take(json.dumps([kind, f"{year}-06-01T00:00:00+00:00", content]).encode())
        assert datetime.datetime.fromtimestamp(ledger.now, datetime.UTC).year == int(now)
    assert ledger.votes_on(1) == {"": "x"}
    whens = [ledger.votes[""][row][0] for row in (1, 2, 0)]
    assert whens[0] == whens[1] > whens[2] == 1.7e9  # the label from the future is as old as the next record


def test_withdrawn_answers_of_an_export_come_back_when_they_are_given_anew(tmp_path):
    campaign = started(tmp_path / "c.db")
    label, skip = campaign.ask(2).index
    export = [Answer(label, "a", "ann", when=1000.5), Answer(skip, None, "ann", True, when=1000.5)]
    campaign._take(export)
    campaign.withdraw([label, skip])
    assert campaign._take(export).n_left_out == 2
    assert {label, skip} <= {*campaign.ask(N - 10).index}
    assert campaign._take(export).n_left_out == 2  # asked for again, and the answers are those of before
    assert counts(campaign).n_skipped == 0
    assert campaign._take([Answer(label, "a", "ann", when=1001.5)]).n_labels == 1
    assert campaign._take([export[1]], unasked=True).n_skipped == 1
