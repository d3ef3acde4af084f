"""Labelling in browsers while the model learns: what the server answers, to whom, and what is in the file then."""

from __future__ import annotations

import http.client
import json
import os
import re
import signal
import subprocess
import sys
import time
import uuid
from urllib.parse import urlsplit

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression

from skactive.campaign import Accuracy, Campaign, CampaignError
from skactive.campaign._curve import curve_of
from skactive.campaign._live import _learner
from skactive.campaign._live._desk import Desk, Message, due_in
from skactive.campaign._live._learner import Learner
from skactive.cli import _parse, main
from skactive.cli._exchange import opened
from skactive.datasets import load_table

N = 120
X = np.random.default_rng(0).normal(size=(N, 2))
TRUTH = np.where(X[:, 0] > 0, "a", "b").tolist()


def table(**columns):
    return pd.DataFrame({"id": [f"r{i:03d}" for i in range(N)], "x": X[:, 0], "z": X[:, 1], **columns, "y": None})


def begun(folder, frame=None, **options):
    given = {"model": "logistic", "labels": ["a", "b"], "random_state": 0, **options}
    return Campaign.start(folder / "y.db", table() if frame is None else frame, target="y", id="id", **given)


@pytest.fixture
def serve():
    """Serves campaigns, and ends that."""
    all_served = []

    def serve(campaign, *given, **options):
        all_served.append(campaign.serve(*given, **options))
        return all_served[-1]

    yield serve
    for served in all_served:
        served.stop()


def asked(address, path="", body=None, method=None, **headers):
    """The status, the body and the headers of an answer."""
    url = urlsplit(address)
    line = http.client.HTTPConnection(url.hostname, url.port, timeout=20)
    given = {"Content-Type": "application/json", "Origin": f"http://{url.netloc}"} if body is not None else {}
    given |= {name.replace("_", "-"): value for name, value in headers.items()}
    content = None if body is None else json.dumps(body)
    line.request(method or ("POST" if body is not None else "GET"), url.path + path, content, given)
    found = line.getresponse()
    answer = found.status, found.read(), found.headers
    line.close()
    return answer


def message(page="p", answers=(), rows=(), more=0, waits=False, leaves=False):
    said = {"page": page, "answers": list(answers), "rows": list(rows)}
    return {**said, "more": more, "waits": waits, "leaves": leaves}


def given(row, label="", key=None, age=0, remark=""):
    return [key or uuid.uuid4().hex, row, TRUTH[row] if label == "" else label, age, remark]


def say(address, **said):
    status, body, _ = asked(address, "exchange", message(**said))
    assert status == 200, body
    return json.loads(body)


def rows_of(address, n, page="p", rows=()):
    """Rows that a page is handed beside those that it has, as soon as there are some."""
    deadline = time.monotonic() + 30
    while not (new := say(address, page=page, more=n, waits=True, rows=rows)["rows"]) and time.monotonic() < deadline:
        time.sleep(0.02)
    return [row["row"] for row in new]


def told(path):
    history = Campaign.open(path).history()
    return history[history["kind"] == "tell"]


def address_of(served):
    return next(iter(served.addresses.values()))


def test_an_answer_that_is_called_saved_is_in_the_file_and_one_sent_again_is_there_once(serve, tmp_path):
    campaign = begun(tmp_path)
    served = serve(campaign)
    address = address_of(served)
    first, second = rows_of(address, 2)
    one, two = given(first, remark="torn"), given(second, None, remark=" ")
    reply = say(address, answers=[one, two, one])
    assert [answer["saved"] for answer in reply["answers"].values()] == [True, True]
    assert told(campaign.path)[["id", "label", "remark"]].values.tolist() == [[f"r{first:03d}", TRUTH[first], "torn"]]
    say(address, answers=[one, two])
    served.stop()
    again = serve(campaign)
    assert address_of(again) == address  # open pages go on
    say(address, answers=[two, one])  # of a page that was not told
    kinds = Campaign.open(campaign.path).history()["kind"].value_counts()
    assert (kinds["tell"], kinds["skip"]) == (1, 1)
    say(address, answers=[given(first, remark="torn, on the left")])
    assert told(campaign.path)["remark"].tolist() == ["torn", "torn, on the left"]


def test_no_two_pages_hold_a_row_until_one_leaves_and_with_overlap_two_annotators_see_each(serve, tmp_path):
    served = serve(begun(tmp_path), ["anna", "ben"], batch=6, overlap=2)
    anna, ben = served.addresses.values()
    here, there = rows_of(anna, 3, "1"), rows_of(anna, 3, "2")
    assert len({*here, *there}) == 6
    assert rows_of(ben, 6, "3") == [*here, *there]  # in the order of the picks
    assert [row["row"] for row in say(anna, page="1", leaves=True)["rows"]] == []
    assert rows_of(anna, 3, "2") == here
    row = here[0]
    say(anna, answers=[given(row, "a")])
    assert say(ben, page="3", rows=[row])["gone"] == []
    say(ben, page="3", answers=[given(row, "b")])
    assert told(tmp_path / "y.db")["annotator"].tolist() == ["anna", "ben"]
    assert say(ben, page="4", rows=[row])["gone"] == [row]


def test_an_answer_that_is_taken_back_waits_in_its_batch_for_the_same_page_and_others_keep_theirs(serve, tmp_path):
    campaign = begun(tmp_path)
    anna, ben = serve(campaign, ["anna", "ben"], batch=6, overlap=2).addresses.values()
    row, other = rows_of(anna, 2, "1")
    say(ben, page="2", answers=[given(row, "b"), given(other, None)])
    back = [[*given(one)[:2], "", 0, ""] for one in (row, other)]
    assert say(anna, page="1", answers=[given(row, None)], rows=[row])["gone"] == [row]  # though ben alone has a label
    assert say(anna, page="1", answers=[given(row, "a"), back[0]], rows=[row])["gone"] == []
    say(ben, page="2", answers=[back[1]])
    ledger = campaign._store.ledger()
    assert (ledger.votes_on(row), ledger.skipped, {row, other} & ledger.out) == ({"ben": "b"}, set(), {other})


def test_strangers_other_hosts_other_sites_and_forms_are_told_nothing(serve, tmp_path):
    address = address_of(serve(begun(tmp_path), host="LocalHost"))  # of which browsers say "localhost"
    host = urlsplit(address).netloc
    other = address.replace(urlsplit(address).path, "/0123456789abcdef0123456789abcdef/")
    hidden = [
        asked(other),
        asked(address, Host=f"evil.example:{host.split(':')[1]}"),
        asked(address, Origin="http://evil.example"),
        asked(address, Sec_Fetch_Site="cross-site"),
        asked(address, "exchange", message(), Origin="http://evil.example"),
        asked(address, "exchange", message(), Origin="null"),
        asked(address, "exchange", message(), Content_Type="text/plain"),
        asked(address, "exchange", {"page": 1}),
        asked(address, "exchange", message(more=float("inf"))),
        asked(address, "exchange", message(answers=[given(0, age=float("nan"))])),
        asked(address, "picture/0/0"),
        asked(address, "../../etc/passwd"),
    ]
    assert [(status, body) for status, body, _ in hidden if status < 400 or body] == []
    status, page, headers = asked(address)
    assert (status, headers["Content-Security-Policy"]) == (200, "frame-ancestors 'none'")
    assert b"connect-src 'self'" in page
    assert b"r000" not in page
    assert {headers[name] for name in ("Cache-Control", "Referrer-Policy")} == {"no-store", "no-referrer"}


def test_a_batch_is_the_one_that_the_labels_at_the_threshold_ask_for_however_late_it_is_chosen(tmp_path):
    one = begun(tmp_path)
    learner = Learner(one._twin(), 10)  # which does not run yet
    desk = Desk(one._twin(), 10, 1, learner)
    learner._ask(due_in(one._store.ledger(), 10, set()))
    rows = [row["row"] for row in desk.exchange("", Message.of(message(more=10)))["rows"]]
    desk.exchange("", Message.of(message(answers=map(given, rows))))
    due = due_in(one._store.ledger(), 10, set())
    assert due == 16  # ten picks and six answers: four rows are out, which is less than half
    assert learner._wanted.get() == 0
    assert learner._wanted.get() == due
    learner._ask(due)
    (tmp_path / "python").mkdir()
    other = begun(tmp_path / "python")
    assert other.ask(10).index.tolist() == [f"r{row:03d}" for row in rows]
    other.tell({f"r{row:03d}": TRUTH[row] for row in rows[:6]})
    wanted = other.ask(10).index.tolist()
    history = Campaign.open(one.path).history()
    assert history["id"][(history["kind"] == "ask") & (history["batch"] == 2)].tolist() == wanted


def test_a_batch_that_was_asked_for_elsewhere_in_the_meantime_is_not_asked_for_twice(tmp_path):
    campaign = begun(tmp_path)
    campaign.ask(10)
    campaign.tell({f"r{row:03d}": TRUTH[row] for row in campaign._state().out[:6]})
    due = due_in(campaign._store.ledger(), 10, set())
    campaign.ask(10)
    Learner(campaign._twin(), 10)._ask(due)
    assert Campaign.open(campaign.path).status(accuracy=False, report=False).n_batches == 2


def test_rows_withdrawn_meanwhile_leave_the_page_and_answers_from_before_are_left_out(serve, tmp_path):
    campaign = begun(tmp_path)
    address = address_of(serve(campaign))
    row, other = rows_of(address, 2)
    campaign.tell({f"r{row:03d}": "a"})
    campaign.withdraw([f"r{row:03d}"])
    assert say(address, rows=[row, other])["gone"] == [row]
    (reply,) = say(address, answers=[given(row, "a", age=100_000)])["answers"].values()
    assert "is ignored" in reply["note"]
    for label, said in (
        ("no label", "must be one of"),
        ("\ud800", "half of a surrogate"),
        ("a\0b", "neither NUL"),
        (" ", "empty"),
    ):
        (reply,) = say(address, answers=[given(other, label)])["answers"].values()
        assert (reply["saved"], said in reply["note"]) == (False, True)
    path, answer = campaign.path, given(other)
    path.rename(tmp_path / "away")
    begun(tmp_path)  # another campaign in its place
    assert asked(address, "exchange", message(answers=[answer]))[0] == 503  # the page keeps the answer
    (tmp_path / "away").replace(path)
    assert say(address, answers=[answer])["answers"][answer[0]]["saved"]


def test_a_small_batch_is_asked_for_when_less_than_half_of_the_last_is_left(tmp_path):
    campaign = begun(tmp_path)
    learner = Learner(campaign._twin(), 4)
    desk = Desk(campaign._twin(), 4, 1, learner)
    learner._ask(learner._wanted.get())
    rows = [row["row"] for row in desk.exchange("", Message.of(message(more=4)))["rows"]]
    desk.exchange("", Message.of(message(answers=map(given, rows[:2]), rows=rows[2:], more=2)))
    assert learner._wanted.empty()
    desk.exchange("", Message.of(message(answers=[given(rows[2])], rows=rows[3:], more=3)))
    assert learner._wanted.get() == 7


def test_the_curve_has_the_last_accuracy_of_each_number_of_labels_in_their_order():
    some = ((30, 0), (30, 0.8), (20, 1))
    found = [(n, Accuracy(v, v - 0.1, 1, "accuracy", n, 9, (v, 0, 1), 9, True)) for n, v in some]
    svg, words = curve_of(found)
    assert re.findall(r"(\d+) labels, (\d+)", words) == [("20", "100"), ("30", "80")]
    assert 'polyline points="0.0000,1.0000 1.0000,0.8000"' in svg


def test_answers_are_counted_without_labels_of_the_table_also_when_these_were_withdrawn_or_told_again(tmp_path):
    campaign = begun(tmp_path, table().assign(y=["a", "b", *[None] * (N - 2)]))
    desk = Desk(campaign._twin(), 4, 1, Learner(campaign._twin(), 4))
    campaign.withdraw(["r000"])
    campaign.tell({"r001": "b"}, annotator="anna", unasked=True)
    assert desk.exchange("", Message.of(message()))["counts"]["given"] == 1


def test_a_table_that_was_changed_is_said_when_rows_are_due_and_followed_once_it_is_right(serve, tmp_path, monkeypatch):
    monkeypatch.setattr(_learner, "AGAIN", 0.1)
    pool, db = tmp_path / "pool.csv", str(tmp_path / "y.db")
    table().to_csv(pool, index=False)
    assert main(["start", db, "--pool", str(pool), "--id", "id", "--target", "y", "--labels", "a,b"]) == 0
    address = address_of(serve(opened(_parse("label", [db])), batch=4))
    rows = rows_of(address, 4)
    table().assign(x=0.5).to_csv(pool, index=False)
    reply = {"trouble": ""}
    while not reply["trouble"]:
        reply = say(address, answers=[given(row) for row in rows])
    assert "120 rows hold other values" in reply["trouble"]
    assert all(answer["saved"] for answer in reply["answers"].values())
    whole = pd.concat([table(), table().head(1).assign(id="new")])
    whole.to_csv(pool, index=False)
    assert rows_of(address, 1)
    assert say(address)["trouble"] == ""
    assert Campaign.open(db).status(accuracy=False, report=False).n_rows == N + 1


def test_a_row_that_is_put_off_does_not_keep_others_away(serve, tmp_path):
    address = address_of(serve(begun(tmp_path), batch=4))
    rows = rows_of(address, 4)
    assert rows_of(address, 2, rows=rows)


class Broken(LogisticRegression):
    def fit(self, X, y):
        raise ArithmeticError("out of order")


def test_a_model_that_fails_is_said_and_labelling_goes_on(serve, tmp_path):
    campaign = begun(tmp_path, model=Broken())
    address = address_of(serve(campaign, batch=4))
    rows = rows_of(address, 4)
    say(address, answers=[given(row, "ab"[i % 2]) for i, row in enumerate(rows[:3])])
    deadline = time.monotonic() + 30
    while "out of order" not in (reply := say(address, rows=rows[3:]))["trouble"] and time.monotonic() < deadline:
        time.sleep(0.02)
    assert "`model` could not be fitted" in reply["trouble"]
    (reply,) = say(address, answers=[given(rows[3])])["answers"].values()
    assert reply["saved"]


def test_pictures_are_those_that_stand_in_cells_of_rows_asked_for_below_the_folder_of_the_table(serve, tmp_path):
    inside, outside = tmp_path / "table", tmp_path / "secret.png"
    inside.mkdir()
    outside.write_bytes(b"secret")
    (inside / "a.png").write_bytes(b"picture")
    (inside / "link.png").symlink_to(outside)
    cells = ["a.png", "../secret.png", "link.png", str(outside), str(inside / "a.png"), "gone.png"]
    frame = table(picture=[cells[i % len(cells)] for i in range(N)])
    campaign = begun(tmp_path, frame)
    campaign._store.note({"pool": ["table/pool.csv"]})
    address = address_of(serve(Campaign.open(campaign.path, frame), batch=30))
    asked_for = rows_of(address, 10)
    out = campaign._state().out
    for row in range(N):
        status, body, headers = asked(address, f"picture/{row}/2")
        is_there = row in out and row % len(cells) in (0, 4)
        assert (status, body) == ((200, b"picture") if is_there else (404, b"")), row
    assert headers["Content-Security-Policy"] == "default-src 'none'; sandbox"
    assert asked(address, f"picture/{asked_for[0]}/0")[0] == 404  # no picture, but a number


def test_a_second_server_and_a_port_that_is_taken_are_refused(serve, tmp_path):
    campaign = begun(tmp_path)
    port = urlsplit(address_of(serve(campaign))).port
    with pytest.raises(CampaignError, match="open for labelling already"):
        campaign.serve()
    (tmp_path / "other").mkdir()
    other = begun(tmp_path / "other")
    for where, said in (
        ({"port": port}, f"`port` free.* {port}: Address already in use"),
        ({"port": 65536}, "from 0 to 65535"),
        ({"host": "0.0.0.0"}, "one address of this machine.*stands for all"),
    ):
        with pytest.raises(ValueError, match=said):
            other.serve(**where)


@pytest.mark.parametrize("said", ["3.5", "3,5"])
def test_the_first_answer_that_is_a_fraction_makes_labels_numbers(serve, tmp_path, said):
    campaign = begun(tmp_path, labels=None)
    campaign._store.note({"dialect": {"decimal": ","}})
    address = address_of(serve(campaign))
    (row,) = rows_of(address, 1)
    with pytest.warns(UserWarning, match="numbers to predict"):
        reply = say(address, answers=[given(row, said)])
    assert (reply["kind"], told(campaign.path)["label"].tolist()) == ("number", [3.5])


def run(*command):
    """A process, and the address that it serves."""
    env = {**os.environ, "OMP_NUM_THREADS": "1", "BROWSER": "true"}
    streams = {"stderr": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    process = subprocess.Popen([sys.executable, "-m", "skactive", *command], env=env, **streams)
    while not (line := process.stderr.readline()).startswith("http"):
        assert line
    return process, line.strip()


@pytest.mark.slow
def test_the_demonstration_hides_the_species_and_says_how_many_labels_are_right():
    species = load_table("penguins")[1].tolist()
    process, address = run("demo", "label")
    right, wrong = rows_of(address, 2)
    other = next(name for name in species if name != species[wrong])
    say(address, answers=[given(right, species[right]), given(wrong, other)])
    process.send_signal(signal.SIGINT)
    assert process.communicate(timeout=60)[0].startswith("1 of your 2 labels agree with the truth. To go on: skactive ")


@pytest.mark.slow
def test_every_answer_called_saved_outlives_kills(tmp_path):
    table().to_csv(tmp_path / "pool.csv", index=False)
    db, pool = str(tmp_path / "y.db"), str(tmp_path / "pool.csv")
    start = ["start", db, "--pool", pool, "--id", "id", "--target", "y", "--labels", "a,b", "--open"]
    saved, waiting, killer = {}, [], np.random.default_rng(0)
    for command in [start, *[["label", db, "--no-browser", "--batch", "100"]] * 4]:
        process, address = run(*command)
        end = time.monotonic() + killer.uniform(0.2, 1.5)
        while time.monotonic() < end:
            reply = say(address, answers=waiting, more=1)
            saved |= {row: label for key, row, label, *_ in waiting if reply["answers"][key]["saved"]}
            waiting = [given(row["row"]) for row in reply["rows"]]
        process.send_signal(signal.SIGKILL)
        process.communicate()
    found = told(db)
    assert saved.items() <= {(int(id[1:]), label) for id, label in zip(found["id"], found["label"], strict=True)}
    assert found["id"].is_unique
    assert len(saved) > 5
