"""The file of a campaign: whole after a kill, one truth for many processes, refused if it is not ours."""

import itertools
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

from skactive import Campaign
from skactive.campaign import CampaignError, CampaignFileError

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
    tells = [reopened(tmp_path / "c.db").tell for _ in range(4)]
    threads = [threading.Thread(target=tell, args=({id: label},)) for tell, label in zip(tells, "abab", strict=True)]
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
            reopened(path).tell(dict.fromkeys(batch.index, "a"))
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
    with pytest.raises(CampaignError, match=r"is no file\. `Campaign\.start` begins a campaign"):
        reopened(path)
    started(path)
    with pytest.raises(CampaignError, match=r"exists\. Go on with it by `Campaign\.open`"):
        started(path)
    before, other = reopened(path), table().iloc[::-1]
    path.unlink()
    batch = Campaign.start(path, other, target="y", id="id", random_state=0).ask(3)
    for do in (before.ask, before.status, lambda: before.tell(dict.fromkeys(batch.index, "a"))):
        with pytest.raises(CampaignError, match="was begun anew since it was opened"):  # its rows are others
            do()
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA user_version = 1")
    with pytest.raises(CampaignError, match="in layout 1; this one reads layout 2"):
        reopened(path)
    path.write_text("id,y\n1,a\n" * 200)
    with pytest.raises(CampaignError, match="is not a campaign"):
        reopened(path)
    with pytest.raises(CampaignError, match="in a folder that exists"):
        started(tmp_path / "no" / "c.db")
