"""The file of a campaign: whole after a kill, one truth for many processes, refused if it is not ours."""

import itertools
import multiprocessing
import os
import re
import resource
import shutil
import signal
import sqlite3
import threading
import time
from contextlib import closing
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from skactive import Campaign
from skactive.campaign import CampaignError, CampaignFileError, _store

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


def check_whole(path):
    """The database is whole, no row was asked for twice, and none is lost."""
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    campaign = reopened(path)
    history = campaign.history()
    asked = history.loc[history["kind"] == "ask", "id"]
    assert asked.is_unique
    status = campaign.status(accuracy=False, report=False)
    assert status.n_labels + status.n_out + status.n_left == N
    assert len(asked) == status.n_labels - 10 + status.n_out
    return campaign


def work(path, begun):
    """Ask and tell until somebody ends it."""
    campaign = reopened(path)
    while True:
        batch = campaign.ask(3)
        begun.set()
        campaign.tell(dict.fromkeys(batch.index, "a"))


def kills(path, n):
    rng = np.random.default_rng(0)
    progress = []
    for _ in range(n):
        begun = FORK.Event()
        process = FORK.Process(target=work, args=(path, begun))
        process.start()
        begun.wait(60)
        time.sleep(0.4 * rng.random())
        os.kill(process.pid, signal.SIGKILL)
        process.join()
        progress.append(check_whole(path).status(accuracy=False, report=False).n_asked)
        if progress[-1] > N - 80:
            path.unlink()
            started(path)
    return progress


def test_a_killed_process_leaves_the_file_whole(tmp_path):
    started(tmp_path / "c.db")
    assert len(set(kills(tmp_path / "c.db", 5))) == 5
    assert [path.name for path in tmp_path.iterdir() if not path.name.endswith("-journal")] == ["c.db"]


@pytest.mark.slow
def test_fifty_kills_lose_no_row_and_ask_for_none_twice(tmp_path):
    started(tmp_path / "c.db")
    assert len(kills(tmp_path / "c.db", 50)) == 50


def ask_at_once(path, barrier, results, n):
    campaign = reopened(path)
    for _ in range(n):
        barrier.wait(60)
        results.put(campaign.ask(4).index.tolist())


def both(path, n):
    barrier, results = FORK.Barrier(2), FORK.Queue()
    processes = [FORK.Process(target=ask_at_once, args=(path, barrier, results, n)) for _ in range(2)]
    for process in processes:
        process.start()
    batches = [results.get(timeout=120) for _ in range(2 * n)]
    for process in processes:
        process.join(60)
    ids = [id for batch in batches for id in batch]
    assert len(set(ids)) == len(ids) == 8 * n
    check_whole(path)


def test_two_processes_that_ask_at_once_get_different_rows(tmp_path):
    started(tmp_path / "c.db")
    both(tmp_path / "c.db", 5)


@pytest.mark.slow
def test_two_processes_that_ask_at_once_fifty_times_get_different_rows(tmp_path):
    started(tmp_path / "c.db")
    both(tmp_path / "c.db", 50)


def test_threads_that_tell_of_one_row_leave_one_of_their_labels(tmp_path):
    id = started(tmp_path / "c.db").ask(1).index[0]
    campaigns = [reopened(tmp_path / "c.db") for _ in range(4)]
    threads = [
        threading.Thread(target=one.tell, args=({id: label},)) for one, label in zip(campaigns, "abab", strict=True)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    told = reopened(tmp_path / "c.db").history().query("kind == 'tell'")["label"].tolist()
    assert 1 <= len(told) <= 4
    assert all(one != next_one for one, next_one in itertools.pairwise(told))  # each is a correction


def test_a_locked_file_is_waited_for_and_then_an_error(tmp_path, monkeypatch):
    started(tmp_path / "c.db")
    monkeypatch.setattr(_store, "KIND", replace(_store.KIND, patience=0.3))
    campaign = reopened(tmp_path / "c.db")
    ready, done = FORK.Event(), FORK.Event()

    def hold():
        with closing(sqlite3.connect(tmp_path / "c.db", isolation_level=None)) as connection:
            connection.execute("BEGIN EXCLUSIVE")
            ready.set()
            done.wait(30)

    process = FORK.Process(target=hold)
    process.start()
    ready.wait(30)
    with pytest.raises(CampaignFileError, match=r"could not be read: .* for 0 seconds, by another process"):
        campaign.ask(1)
    done.set()
    process.join()
    assert len(campaign.ask(1)) == 1


def test_a_full_disk_leaves_the_file_as_it_was(tmp_path):
    path = tmp_path / "c.db"
    batch = started(path).ask(200)
    before = path.read_bytes()
    answer = FORK.Queue()

    def tell():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (len(before), len(before)))
        try:
            reopened(path).tell(dict.fromkeys(batch.index, "a"))
        except CampaignFileError as error:
            answer.put(str(error))

    process = FORK.Process(target=tell)
    process.start()
    message = answer.get(timeout=60)
    process.join()
    assert re.search(r"could not be written: .*\. Nothing was changed", message)
    assert check_whole(path).status(accuracy=False, report=False).n_out == 200


def test_an_existing_file_is_not_begun_anew(tmp_path):
    started(tmp_path / "c.db")
    with pytest.raises(CampaignError, match=r"exists\. Go on with it by `Campaign\.open`"):
        started(tmp_path / "c.db")


def altered(path, *statements):
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        for statement in statements:
            connection.execute(statement)


WRONG = {
    "no file": (lambda path: path.unlink(), "is no file. `Campaign.start` begins a campaign"),
    "a folder": (lambda path: (path.unlink(), path.mkdir()), "is no file"),
    "a text": (lambda path: path.write_text("id,y\n1,a\n" * 200), "is not a campaign"),
    "another database": (lambda path: altered(path, "PRAGMA application_id = 7"), "is not a campaign"),
    "another version": (
        lambda path: altered(path, "PRAGMA user_version = 1"),
        "by another version of skactive, in layout 1; this one reads layout 2",
    ),
    "damaged": (lambda path: altered(path, "DROP TABLE events"), "is damaged"),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_a_file_that_is_no_campaign_of_this_version_is_refused(tmp_path, wrong):
    path = tmp_path / "c.db"
    started(path)
    change, message = WRONG[wrong]
    change(path)
    with pytest.raises(CampaignError, match=re.escape(message)):
        reopened(path).status(accuracy=False, report=False)


def test_a_copy_of_the_file_goes_on_as_the_file_does(tmp_path):
    first = started(tmp_path / "c.db")
    first.tell(dict.fromkeys(first.ask(10).index, "a"))
    shutil.copy(tmp_path / "c.db", tmp_path / "copy.db")
    assert reopened(tmp_path / "copy.db").ask(5).index.tolist() == reopened(tmp_path / "c.db").ask(5).index.tolist()


def test_a_folder_that_does_not_exist_is_refused(tmp_path):
    with pytest.raises(CampaignError, match="in a folder that exists"):
        started(tmp_path / "no" / "c.db")
