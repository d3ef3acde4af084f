"""`Campaign`: what is asked, told, skipped and withdrawn, by ids, in one process and in many."""

import re
import sqlite3

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skactive import BADGEQuery, Campaign, Limits, StochasticBatchQuery
from skactive.campaign import CampaignError, _store

N = 120


def table(n=N, seed=0):
    """Rows whose label is known to `truth`; ids keep their zeros; two columns have gaps."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "customer": [f"{i:04d}" for i in range(n)],
            "age": rng.integers(18, 80, n).astype(float),
            "plan": rng.choice(["basic", "plus", "pro"], n),
            "since": pd.date_range("2020-01-01", periods=n, freq="D").astype(str),
        }
    )
    frame.loc[::7, "age"] = np.nan
    frame.loc[::11, "plan"] = None
    frame["churn"] = None
    return frame


def truth(frame):
    says = np.where(frame["age"].fillna(0) + 20 * (frame["plan"] == "pro") > 50, "yes", "no")
    return dict(zip(frame["customer"], says.tolist(), strict=True))


def started(tmp_path, frame=None, **options):
    frame = table() if frame is None else frame
    given = {"target": "churn", "id": "customer", "random_state": 0, "model": "logistic"} | options
    return Campaign.start(tmp_path / "churn.db", frame, **given)


def told(campaign, batch, frame=None):
    says = truth(table() if frame is None else frame)
    return campaign.tell({id: says[id] for id in batch.index})


def ids_after(campaign, n_batches, k=10, frame=None):
    """Ids of some batches, all told."""
    asked = []
    for _ in range(n_batches):
        batch = campaign.ask(k)
        told(campaign, batch, frame)
        asked.append(batch.index.tolist())
    return asked


# --- asking ---------------------------------------------------------------------------------------


def test_a_batch_has_the_rows_of_its_ids_a_guess_and_log_probabilities(tmp_path):
    campaign, frame = started(tmp_path), table().set_index("customer")
    first = campaign.ask(20)
    assert first["guess"].isna().all()
    assert np.allclose(first["log_proba"], -np.log(N - np.arange(20)))  # uniform without replacement
    told(campaign, first)
    second = campaign.ask(8)
    assert second.index.name == "customer"
    columns = ["age", "plan", "since"]
    pd.testing.assert_frame_equal(second[columns], frame.loc[second.index, columns], check_dtype=False)
    assert set(second["guess"]) <= {"yes", "no"}
    assert second["guess_probability"].between(0.5, 1).all()
    assert (second["log_proba"] < 0).all()


def test_no_row_is_asked_for_twice_until_the_pool_is_empty(tmp_path):
    campaign = started(tmp_path)
    asked = [id for ids in ids_after(campaign, 11) for id in ids]
    with pytest.warns(UserWarning, match="10 rows are left, fewer than the 50 asked for"):
        last = campaign.ask(50)
    assert sorted([*asked, *last.index]) == table()["customer"].tolist()
    with pytest.raises(CampaignError, match="No row is left to ask for"):
        campaign.ask(1)


def test_rows_that_are_out_are_not_asked_for_and_count_as_pending(tmp_path):
    class Watching(StochasticBatchQuery):
        seen = []  # noqa: RUF012

        def select(self, *args, pending=None, **more):
            self.seen.append(np.sort(pending).tolist())
            return super().select(*args, pending=pending, **more)

    campaign = started(tmp_path, query=Watching())
    told(campaign, campaign.ask(20))
    out = campaign.ask(5)
    again = campaign.ask(5)
    assert not set(out.index) & set(again.index)
    assert Watching.seen == [[], sorted(int(id) for id in out.index)]


@pytest.mark.parametrize("model", ["forest", "boosting", "net"])
def test_models_by_name_take_texts_dates_categories_and_gaps(tmp_path, model):
    campaign = started(tmp_path, model=model)
    ids_after(campaign, 2, 15)
    fitted, frame = campaign.model(), table()
    guesses = fitted.predict(frame[["age", "plan", "since"]])
    right = np.mean(guesses == np.array(list(truth(frame).values())))
    assert right > 0.6


@pytest.mark.parametrize(
    "query",
    [None, StochasticBatchQuery(posterior="bootstrap", diversity=1), BADGEQuery()],
    ids=["default", "bootstrap", "badge"],
)
def test_the_same_seed_asks_for_the_same_ids_in_one_process_and_in_many(tmp_path, query):
    options = {} if query is None else {"query": query}
    (tmp_path / "one").mkdir()
    in_one = ids_after(started(tmp_path / "one", **options), 4)
    started(tmp_path, **options)
    frame = table().sample(frac=1, random_state=1)[
        ["since", "churn", "customer", "plan", "age"]
    ]  # another order of all
    in_many = []
    for _ in range(4):
        in_many += ids_after(Campaign.open(tmp_path / "churn.db", frame), 1)
    assert in_one == in_many


def test_every_batch_is_drawn_with_a_seed_of_its_own(tmp_path):
    query = StochasticBatchQuery(score=flat, epsilon=1.0, random_state=7)
    campaign = started(tmp_path, query=query)
    told(campaign, campaign.ask(20))
    first = campaign.ask(10)
    campaign.withdraw(first.index)  # the same candidates again
    assert campaign.ask(10).index.tolist() != first.index.tolist()


def flat(draws):
    return np.ones(draws.shape[1])


def test_a_query_that_keeps_a_state_is_warned_of(tmp_path):
    class Counting(StochasticBatchQuery):
        n = 0

        def select(self, *args, **more):
            self.n += 1
            return super().select(*args, **more)

    campaign = started(tmp_path, query=Counting())
    told(campaign, campaign.ask(20))
    with pytest.warns(UserWarning, match="`query` has kept n beside its parameters"):
        campaign.ask(5)


@pytest.mark.parametrize("n", ["auto", 0, 2.5, None])
def test_a_batch_has_a_number_of_rows(tmp_path, n):
    with pytest.raises((TypeError, ValueError), match="`n` must be an integer"):
        started(tmp_path).ask(n)


def test_another_seed_asks_for_other_ids(tmp_path):
    (tmp_path / "other").mkdir()
    first = started(tmp_path).ask(20).index.tolist()
    assert started(tmp_path / "other", random_state=1).ask(20).index.tolist() != first


def test_a_call_of_ask_that_fails_leaves_no_trace(tmp_path):
    campaign = started(tmp_path, model=make_pipeline(StandardScaler(), LogisticRegression()))
    told(campaign, campaign.ask(20))
    before = (tmp_path / "churn.db").read_bytes()
    with pytest.raises(CampaignError, match="`model` could not be fitted to the 20 labels there are"):
        campaign.ask(5)  # texts and gaps are too much for it
    assert (tmp_path / "churn.db").read_bytes() == before


# --- telling --------------------------------------------------------------------------------------


def as_mapping(labels):
    return labels


def as_series(labels):
    return pd.Series(labels)


def as_frame(labels):
    return pd.DataFrame({"churn": list(labels.values()), "customer": list(labels)})


def as_indexed_frame(labels):
    return as_frame(labels).set_index("customer")


@pytest.mark.parametrize("form", [as_mapping, as_series, as_frame, as_indexed_frame])
def test_labels_come_in_any_form_any_order_and_any_part(tmp_path, form):
    campaign, says = started(tmp_path), truth(table())
    ids = campaign.ask(20).index.tolist()
    late = {id: says[id] for id in reversed(ids[5:])} | {ids[0]: None}
    summary = campaign.tell(form(late))
    assert (summary.n_labels, summary.n_open) == (15, 1)
    assert campaign.status(accuracy=False, report=False).out.index.tolist() == sorted(ids[:5])
    campaign.tell(form({id: says[id] for id in ids[:5]}))
    frame = campaign.to_frame()
    assert frame["churn"].dropna().to_dict() == {id: says[id] for id in sorted(ids)}


def test_telling_the_same_again_changes_nothing(tmp_path):
    campaign = started(tmp_path)
    batch = campaign.ask(20)
    told(campaign, batch)
    before = len(campaign.history())
    summary = told(campaign, batch)
    assert (summary.n_same, summary.n_labels, len(campaign.history())) == (20, 0, before)


def test_a_correction_replaces_and_stays_in_the_history(tmp_path):
    campaign = started(tmp_path)
    id = campaign.ask(1).index[0]
    campaign.tell({id: "yes"})
    with pytest.warns(UserWarning, match="'no' is a label that no row had before"):
        assert campaign.tell({id: "no"}).n_corrected == 1
    assert campaign.to_frame().loc[id, "churn"] == "no"
    assert campaign.history().query("kind == 'tell'")["label"].tolist() == ["yes", "no"]


def test_labels_that_came_with_the_table_count_and_can_be_corrected(tmp_path):
    frame = table()
    frame.loc[[3, 5], "churn"] = ["yes", "no"]
    campaign = started(tmp_path, frame)
    assert campaign.status(accuracy=False, report=False).by_label == {"yes": 1, "no": 1}
    assert not {"0003", "0005"} & set(campaign.ask(118).index)
    assert campaign.tell({"0003": "no"}).n_corrected == 1
    assert Campaign.open(tmp_path / "churn.db", frame).to_frame().loc["0003", "churn"] == "no"


def test_skipped_rows_are_neither_asked_for_nor_labelled_until_they_are_withdrawn(tmp_path):
    campaign = started(tmp_path)
    ids = campaign.ask(10).index.tolist()
    campaign.skip(ids[:2])
    campaign.tell(pd.DataFrame({"customer": ids[2:4], "churn": [None, "yes"], "skip": ["x", ""]}))
    status = campaign.status(accuracy=False, report=False)
    assert (status.n_skipped, status.n_out, status.n_labels, status.n_left) == (3, 6, 1, N - 10)
    assert set(campaign.ask(N - 10).index).isdisjoint(ids)
    campaign.withdraw(ids[:3])
    assert set(campaign.ask(3).index) == set(ids[:3])


def test_withdrawn_rows_are_as_if_they_had_never_been_asked_for(tmp_path):
    campaign = started(tmp_path)
    ids = campaign.ask(4).index.tolist()
    campaign.tell({ids[0]: "yes"})
    campaign.withdraw(ids)
    status = campaign.status(accuracy=False, report=False)
    assert (status.n_labels, status.n_out, status.n_left) == (0, 0, N)
    with pytest.raises(CampaignError, match="there is nothing to withdraw"):
        campaign.withdraw(ids[:1])


def test_numbers_are_predicted_by_a_regressor(tmp_path):
    frame = table().assign(churn=np.nan)
    frame.loc[:24, "churn"] = np.linspace(0.1, 3, 25)
    campaign = started(tmp_path, frame, model="forest")
    assert campaign.kind == "numbers"
    batch = campaign.ask(10)
    assert batch["guess"].between(0, 3).all()
    campaign.tell(dict.fromkeys(batch.index, "1.5"))  # as a file has it
    assert campaign.status(report=False).accuracy.measure == "root mean squared error"
    assert {"difference", "label", "guess"} <= set(campaign.recheck(3).columns)


def test_labels_of_a_file_are_taken_in_the_type_of_the_campaign(tmp_path):
    frame = table()
    frame.loc[:3, "churn"] = pd.Series([1, 0, 1, 0], dtype=object)
    campaign = started(tmp_path, frame)
    ids = campaign.ask(3).index.tolist()
    campaign.tell(dict(zip(ids, ["1", 0.0, np.int64(1)], strict=True)))
    assert [campaign.to_frame().loc[id, "churn"] for id in ids] == [1, 0, 1]
    with pytest.raises(CampaignError, match=r"a label must be a number, as 0, 1 are\. Got 'yes'"):
        campaign.tell({ids[0]: "yes"})


BAD_LABELS = {
    "labels of two types": ({"OUT": True}, "`labels` must be of one type. Got True, 'yes'"),
    "a truth value as an id": ({True: "yes"}, "True is no id of the campaign"),
    "the zeros lost": ({"119": "yes"}, "There is '0119': read ids as texts, with their zeros"),
    "a number beyond 64 bits": ({"OUT": 2**70}, "must be a text, a finite number of 64 bits or a boolean"),
    "no such id": ({"9999": "yes"}, "'9999' is no id of the campaign"),
    "the id as a number": ({7: "yes"}, "7 is no id of the campaign"),
    "not asked for": ({"0000": "yes"}, "'0000' was not asked for. If a label is right all the same"),
    "two labels": (pd.Series(["yes", "no"], index=["OUT", "OUT"]), "has two labels, 'yes' and 'no'"),
    "an infinite number": ({"OUT": np.inf}, "must be a text, a finite number of 64 bits or a boolean. Got inf"),
    "a list": ({"OUT": ["yes"]}, "must be a text, a finite number of 64 bits or a boolean. Got ['yes']"),
    "no ids": (["yes", "no"], "`labels` must be a mapping of ids to labels"),
    "no column of ids": (pd.DataFrame({"churn": ["yes"], "x": [1]}), "a column or an index 'customer'"),
    "no column of labels": (pd.DataFrame({"customer": ["OUT"]}), "`labels` must have a column 'churn'"),
    "an id is missing": (pd.DataFrame({"customer": [None], "churn": ["yes"]}), "a row has no id"),
    "a label and a mark to skip": (
        pd.DataFrame({"customer": ["OUT"], "churn": ["yes"], "skip": ["x"]}),
        "has a label, 'yes', and a mark in the column `skip`",
    ),
    "a mark that says nothing": (
        pd.DataFrame({"customer": ["OUT"], "churn": [None], "skip": ["perhaps"]}),
        "the column `skip` must hold x for rows to skip, else nothing. Got 'perhaps'",
    ),
}


@pytest.mark.parametrize("bad", BAD_LABELS)
def test_bad_labels_are_refused_and_nothing_is_written(tmp_path, bad):
    campaign = started(tmp_path, random_state=3)
    ids = campaign.ask(10).index.tolist()
    assert "0000" not in ids
    labels, message = BAD_LABELS[bad]
    if isinstance(labels, dict):
        labels = {ids[0] if id == "OUT" else id: label for id, label in labels.items()} | {ids[1]: "yes"}
    elif isinstance(labels, pd.Series):
        labels = labels.rename(index={"OUT": ids[0]})
    elif isinstance(labels, pd.DataFrame) and "customer" in labels:
        labels = labels.replace("OUT", ids[0])
    before = (tmp_path / "churn.db").read_bytes()
    with pytest.raises((CampaignError, TypeError), match=re.escape(message)) as caught:
        campaign.tell(labels)
    assert "\n" not in str(caught.value)
    assert (tmp_path / "churn.db").read_bytes() == before


def test_labels_that_were_not_asked_for_are_taken_with_a_word(tmp_path):
    campaign = started(tmp_path)
    campaign.tell({"0000": "yes"}, unasked=True)
    assert campaign.to_frame().loc["0000", "churn"] == "yes"


def test_a_closed_set_refuses_other_labels(tmp_path):
    campaign = started(tmp_path, labels=["yes", "no"])
    id = campaign.ask(1).index[0]
    with pytest.raises(CampaignError, match=rf"'{id}': a label must be one of 'no', 'yes'. Got 'Yes'"):
        campaign.tell({id: "Yes"})


# --- several annotators ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rule", "says", "label"),
    [
        ("latest", ["yes", "no"], "no"),
        ("majority", ["yes", "no"], None),
        ("majority", ["yes", "no", "yes"], "yes"),
        ("open", ["yes", "no", "yes"], None),
        ("open", ["yes", "yes"], "yes"),
    ],
)
def test_the_rule_decides_which_label_counts(tmp_path, rule, says, label):
    campaign = started(tmp_path, rule=rule, labels=["yes", "no"])
    id = campaign.ask(1).index[0]
    for name, one in zip("abc", says, strict=False):
        campaign.tell({id: one}, annotator=name)
    assert campaign.to_frame().loc[id, "churn"] == label
    status = campaign.status(accuracy=False, report=False)
    assert (status.n_labels, status.n_disputed) == (int(label is not None), int(label is None))
    assert id not in campaign.ask(N - 1).index  # disputed or not
    shown = campaign.disagreements()
    assert shown.index.tolist() == ([id] if len(set(says)) > 1 else [])


def test_an_annotator_has_one_label_a_row(tmp_path):
    campaign = started(tmp_path, rule="majority", labels=["yes", "no"])
    id = campaign.ask(1).index[0]
    for name, one in [("a", "yes"), ("b", "no"), ("a", "no")]:
        campaign.tell({id: one}, annotator=name)
    assert campaign.to_frame().loc[id, "churn"] == "no"


def test_recheck_lists_the_labels_that_were_turned_round_first(tmp_path):
    frame = table(400)
    campaign = started(tmp_path, frame, model="forest")
    batch = campaign.ask(200)
    says = {id: truth(frame)[id] for id in batch.index}
    turned = list(says)[:5]
    campaign.tell(says | {id: "no" if says[id] == "yes" else "yes" for id in turned})
    found = campaign.recheck(20)
    assert set(turned) <= set(found.index)
    assert found["label_probability"].is_monotonic_increasing


# --- opening --------------------------------------------------------------------------------------


def test_rows_that_were_added_are_taken_up_with_their_labels(tmp_path):
    campaign = started(tmp_path)
    told(campaign, campaign.ask(20))
    longer = pd.concat([table(N + 3).iloc[N:].assign(churn=["yes", None, None]), table()])
    longer = pd.concat([longer.iloc[:3], table()])
    campaign = Campaign.open(tmp_path / "churn.db", longer)
    status = campaign.status(accuracy=False, report=False)
    assert (status.n_rows, status.n_labels, status.n_left) == (N + 3, 21, N - 20 + 2)
    assert Campaign.open(tmp_path / "churn.db", longer).status(accuracy=False, report=False).n_rows == N + 3


def test_rows_that_are_gone_or_changed_are_listed_and_taken_on_a_word(tmp_path):
    campaign = started(tmp_path)
    out = campaign.ask(3).index.tolist()
    other = table()
    other.loc[5, "age"] = 999
    other = other[other["customer"] != "0007"]
    with pytest.raises(CampaignError, match="1 row is gone: '0007'; 1 row holds other values: '0005'"):
        Campaign.open(tmp_path / "churn.db", other)
    with pytest.warns(UserWarning, match="1 row is gone: '0007'; 1 row holds other values: '0005'. That is taken"):
        campaign = Campaign.open(tmp_path / "churn.db", other, changes="take")
    rest = campaign.ask(N - 3 - ("0007" not in out))
    assert "0007" not in rest.index
    assert "0005" in {*rest.index, *out}
    assert "0007" not in campaign.to_frame().index
    reopened = Campaign.open(tmp_path / "churn.db", other)  # what was taken once is not refused again
    assert reopened.to_frame().loc["0005", "age"] == 999
    with pytest.raises(CampaignError, match="Gone from the table: '0007'"):
        reopened.tell({"0007": "yes"}, unasked=True)
    back = table().assign(age=other["age"].reindex(range(N), fill_value=1.0))
    with pytest.warns(UserWarning, match="1 row holds other values: '0007'"):
        again = Campaign.open(tmp_path / "churn.db", back, changes="take")
    assert again.status(accuracy=False, report=False).n_rows == N


def test_labelled_rows_that_are_gone_teach_nothing(tmp_path):
    campaign = started(tmp_path)
    ids = campaign.ask(40).index.tolist()
    told(campaign, table().set_index("customer", drop=False).loc[ids])
    left = table()[~table()["customer"].isin(ids[:10])]
    with pytest.warns(UserWarning, match="10 rows are gone"):
        campaign = Campaign.open(tmp_path / "churn.db", left, changes="take")
    status = campaign.status()
    assert (status.n_rows, status.n_labels) == (N - 10, 30)
    X, y = campaign._training(list(campaign._state().labels), campaign._state())
    assert set(X.index) == set(ids[10:])
    assert [truth(table())[id] for id in X.index] == y.tolist()
    assert not set(campaign.recheck(40).index) & set(ids[:10])


def test_labels_of_added_rows_take_the_type_of_the_others(tmp_path):
    frame = table()
    frame.loc[:3, "churn"] = pd.Series([1, 0, 1, 0], dtype=object)
    started(tmp_path, frame)
    added = table(N + 2).iloc[N:].assign(churn=["1", "0"])
    campaign = Campaign.open(tmp_path / "churn.db", pd.concat([frame, added]))
    assert campaign.status(accuracy=False, report=False).by_label == {1: 3, 0: 3}


@pytest.mark.parametrize("told_before", [True, False], ids=["labels were told", "no label before"])
def test_labels_of_added_rows_are_of_one_type_with_those_that_were_told(tmp_path, told_before):
    campaign = started(tmp_path)
    if told_before:
        campaign.tell(dict(zip(campaign.ask(2).index, [1, 0], strict=True)))
    added = table(N + 2).iloc[N:]
    longer = pd.concat([table(), added.assign(churn=["1", "0"])])
    labels = Campaign.open(tmp_path / "churn.db", longer).status(accuracy=False, report=False).by_label
    assert labels == ({1: 2, 0: 2} if told_before else {"1": 1, "0": 1})
    mixed = pd.concat([longer, table(N + 4).iloc[N + 2 :].assign(churn=["yes", None])])
    if told_before:
        with pytest.raises(CampaignError, match=r"a label must be a number, as 0, 1 are\. Got 'yes'"):
            Campaign.open(tmp_path / "churn.db", mixed)


def test_labels_of_the_first_labelled_rows_that_are_added_are_of_one_type(tmp_path):
    started(tmp_path)
    added = table(N + 2).iloc[N:].assign(churn=["yes", 1])
    with pytest.raises(CampaignError, match="labels in `target` must be of one type"):
        Campaign.open(tmp_path / "churn.db", pd.concat([table(), added]))


def test_two_processes_that_open_a_longer_table_take_its_rows_once(tmp_path, monkeypatch):
    started(tmp_path)
    longer, add = pd.concat([table(), table(N + 3).iloc[N:]]), _store.Store.replace_rows

    def after_another(self, *args):
        monkeypatch.setattr(_store.Store, "replace_rows", add)
        Campaign.open(tmp_path / "churn.db", longer)
        add(self, *args)

    monkeypatch.setattr(_store.Store, "replace_rows", after_another)
    assert Campaign.open(tmp_path / "churn.db", longer).status(accuracy=False, report=False).n_rows == N + 3


def test_the_same_table_in_other_types_is_the_same(tmp_path):
    started(tmp_path)
    typed = table().assign(plan=lambda f: f["plan"].astype("category"), age=lambda f: f["age"].astype("Float64"))
    assert Campaign.open(tmp_path / "churn.db", typed).status(accuracy=False, report=False).n_rows == N


def test_without_a_table_one_can_tell_and_count_but_not_ask(tmp_path):
    batch = started(tmp_path).ask(10)
    campaign = Campaign.open(tmp_path / "churn.db")
    told(campaign, batch)
    assert campaign.status().n_labels == 10
    with pytest.raises(CampaignError, match="`frame` is needed for this"):
        campaign.ask(1)


def test_a_model_of_the_users_own_is_handed_in_again_and_compared(tmp_path):
    numbers = table()[["customer", "age", "churn"]].fillna({"age": 0})
    mine = make_pipeline(StandardScaler(), LogisticRegression(C=2.0))
    campaign = started(tmp_path, numbers, model=mine)
    told(campaign, campaign.ask(20))
    path = tmp_path / "churn.db"
    with pytest.raises(CampaignError, match="`model` must be handed in: the campaign was started with a Pipeline"):
        Campaign.open(path, numbers)
    with pytest.raises(CampaignError, match=r"`model` must be the one .* with the same parameters"):
        Campaign.open(path, numbers, model=make_pipeline(StandardScaler(), LogisticRegression()))
    assert (
        len(Campaign.open(path, numbers, model=make_pipeline(StandardScaler(), LogisticRegression(C=2.0))).ask(3)) == 3
    )


def test_a_query_with_parts_of_the_users_own_is_handed_in_again(tmp_path):
    started(tmp_path, query=StochasticBatchQuery(score=spread))
    with pytest.raises(CampaignError, match="`query` must be handed in"):
        Campaign.open(tmp_path / "churn.db", table())
    campaign = Campaign.open(tmp_path / "churn.db", table(), model="logistic", query=StochasticBatchQuery(score=spread))
    told(campaign, campaign.ask(20))
    assert len(campaign.ask(5)) == 5


def spread(draws):
    return draws.std(0).sum(-1)


def test_the_file_holds_no_rows_of_the_table_and_no_code(tmp_path):
    frame = table().assign(plan="a secret text")
    campaign = started(tmp_path, frame, model="logistic", query=StochasticBatchQuery())
    told(campaign, campaign.ask(20))
    campaign.ask(5)
    with sqlite3.connect(tmp_path / "churn.db") as connection:
        dump = "\n".join(connection.iterdump())
    assert "a secret text" not in dump
    assert "cloudpickle" not in dump
    assert campaign.path == tmp_path / "churn.db"


BAD_TABLES = {
    "an id twice": (
        lambda f: f.replace("0001", "0002"),
        "`id` must be different in every row. Got '0002' again in row 3",
    ),
    "an id is missing": (lambda f: f.replace("0001", None), "`id` must be there in every row. Row 2 has none"),
    "no column of ids": (lambda f: f.rename(columns={"customer": "c"}), "`id` must name a column of `frame`"),
    "no target": (lambda f: f.drop(columns="churn"), "`target` must name a column of `frame`"),
    "a full target": (lambda f: f.assign(churn="yes"), "`target` must have gaps: the rows to label. All 120"),
    "no row": (lambda f: f.iloc[:0], "`frame` must have at least one row"),
    "no other column": (lambda f: f[["customer", "churn"]], "`frame` must have a column beside the id and the target"),
    "labels of two types": (
        lambda f: f.assign(churn=["yes", 1, *[None] * (N - 2)]),
        "labels in `target` must be of one type. Got 'yes', 1",
    ),
    "a name of a batch": (
        lambda f: f.rename(columns={"age": "guess"}),
        "than those that batches add. Got 'guess'",
    ),
    "a column twice": (lambda f: f.rename(columns={"age": "plan"}), "`frame` must have different names of columns"),
    "ids that are floats": (lambda f: f.assign(customer=np.arange(N) + 0.5), "`id` must hold texts or whole numbers"),
    "ids of two types": (
        lambda f: f.assign(customer=pd.Series([0, *map(str, range(1, N))], dtype=object)),
        "`id` must hold texts or whole numbers, not both",
    ),
    "the name of a list": (lambda f: f.rename(columns={"customer": "label"}), "`id` must name a column"),
    "no frame": (lambda f: f.to_numpy(), "`frame` must be a DataFrame"),
}


@pytest.mark.parametrize("bad", BAD_TABLES)
def test_bad_tables_are_refused_and_no_file_is_made(tmp_path, bad):
    change, message = BAD_TABLES[bad]
    with pytest.raises((CampaignError, TypeError), match=re.escape(message)):
        started(tmp_path, change(table()))
    assert list(tmp_path.iterdir()) == []


def test_a_table_with_ids_of_another_type_says_so(tmp_path):
    started(tmp_path)
    frame = table().assign(customer=range(N))
    with pytest.raises(CampaignError, match=r"the ids of the campaign: '0000', .* Got none of them, but 0, "):
        Campaign.open(tmp_path / "churn.db", frame)


def test_ids_of_the_index_do_as_well(tmp_path):
    campaign = Campaign.start(tmp_path / "churn.db", table().set_index("customer"), target="churn", model="logistic")
    assert campaign.ask(3).index.isin(table()["customer"]).all()


# --- looking --------------------------------------------------------------------------------------


def test_status_says_what_is_labelled_out_and_left_and_whether_to_go_on(tmp_path):
    campaign = started(tmp_path)
    ids_after(campaign, 3, 15)
    campaign.ask(5)
    status = campaign.status()
    assert (status.n_rows, status.n_labels, status.n_out, status.n_left) == (N, 45, 5, 70)
    assert sum(status.by_label.values()) == 45
    assert status.report.labels[-1] == 45
    assert status.accuracy.weighted
    assert status.accuracy.low <= status.accuracy.value <= status.accuracy.high
    assert "45 labelled, 5 out, 70 left; 4 batches so far." in str(status)


def test_a_model_needs_two_classes(tmp_path):
    campaign = started(tmp_path)
    batch = campaign.ask(5)
    campaign.tell(dict.fromkeys(batch.index, "yes"))
    with pytest.raises(CampaignError, match=r"A model needs labels of two classes\. There are 5 labels"):
        campaign.model()
    assert campaign.ask(5)["guess"].isna().all()
    assert campaign.status().report is None


def test_the_table_and_the_model_stay_as_they_were(tmp_path):
    frame, model = table()[["customer", "age", "churn"]].fillna({"age": 0}), LogisticRegression()
    before = frame.copy(deep=True)
    campaign = started(tmp_path, frame, model=model)
    batch = campaign.ask(20)
    batch["age"] = -1
    told(campaign, batch)
    campaign.ask(5)
    pd.testing.assert_frame_equal(frame, before)
    assert not hasattr(model, "coef_")


def test_a_campaign_is_not_made_by_its_class():
    with pytest.raises(TypeError, match=r"Campaign\.start"):
        Campaign()


# --- limits ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("told_before", [False, True], ids=["first batch", "later batch"])
def test_limits_hold_in_every_batch_and_take_columns_by_name(tmp_path, told_before):
    frame = table().assign(region=np.arange(N) % 6, price=np.arange(N) % 10 + 1.0)
    campaign = started(tmp_path, frame)
    if told_before:
        told(campaign, campaign.ask(20))
    limits = Limits(groups="region", max_per_group=2, costs="price", budget=30)
    batch = campaign.ask(8, limits=limits)
    assert batch["region"].value_counts().max() <= 2
    assert batch["price"].sum() <= 30
    assert batch["log_proba"].notna().all()
    with pytest.raises(ValueError, match="12"):
        campaign.ask(13, limits=Limits(groups="region", max_per_group=2))


def test_rows_that_must_be_in_a_batch_are_positions_of_the_campaign(tmp_path):
    campaign = started(tmp_path)
    batch = campaign.ask(4, limits=Limits(must=[7, 3]))
    assert batch.index[:2].tolist() == ["0007", "0003"]
    assert batch["log_proba"].iloc[:2].tolist() == [0.0, 0.0]


def test_limits_by_a_column_that_there_is_not_are_refused(tmp_path):
    campaign = started(tmp_path)
    with pytest.raises(CampaignError, match=r"`limits\.groups` must be a column of the table"):
        campaign.ask(4, limits=Limits(groups="nope", max_per_group=1))
    with pytest.raises(TypeError, match=r"`limits` must be None or a skactive\.Limits"):
        campaign.ask(4, limits={"max_per_group": 1})


# --- found by people who tried ---------------------------------------------------------------------


def test_a_table_of_a_batch_with_its_ids_in_a_column_is_read_by_them(tmp_path):
    frame = table().set_index("customer").rename_axis(None)
    campaign = Campaign.start(tmp_path / "c.db", frame, target="churn", model="logistic", random_state=0)
    batch = campaign.ask(20)
    batch["churn"] = batch.index
    batch.to_csv(tmp_path / "b.csv", index_label="id")
    campaign.tell(pd.read_csv(tmp_path / "b.csv", dtype=str))
    labels = campaign.to_frame()["churn"].dropna()
    assert labels.index.tolist() == labels.tolist()
    with pytest.raises(CampaignError, match="must have a column or an index 'id'"):
        campaign.tell(pd.DataFrame({"churn": ["a", "b"]}))


def test_a_skip_takes_the_label_of_the_one_who_skips_and_of_nobody_else(tmp_path):
    campaign = started(tmp_path, labels=["yes", "no"])
    mine, ours = campaign.ask(2).index
    campaign.tell({mine: "yes", ours: "yes"}, annotator="Ana")
    campaign.tell({ours: "no"}, annotator="Ben")
    campaign.skip([mine, ours], annotator="Ana")
    status = campaign.status(accuracy=False, report=False)
    assert (status.n_labels, status.n_skipped, status.by_label) == (1, 1, {"no": 1})


@pytest.mark.parametrize(
    "query",
    [StochasticBatchQuery(sampler="topk"), StochasticBatchQuery(sampler="softrank", beta=16)],
    ids=["topk", "softrank"],
)
def test_picks_of_a_query_that_all_but_excludes_rows_say_nothing_of_accuracy(tmp_path, query):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"id": range(400), "x": rng.normal(size=400), "y": None})
    coin = rng.choice(["a", "b"], 400)
    campaign = Campaign.start(
        tmp_path / "c.db", frame, target="y", id="id", query=query, model="logistic", random_state=0
    )
    for k in (20, 60):
        campaign.tell({id: coin[id] for id in campaign.ask(k).index})
    found = campaign.status(report=False).accuracy
    assert found.n_labels == 20  # the uniform ones
    assert found.low < 0.5 < found.high


def test_a_query_that_could_never_choose_is_refused_at_the_start(tmp_path):
    with pytest.raises(ValueError, match="`score`='variance' is not for a classifier"):
        started(tmp_path, query=StochasticBatchQuery("variance"))
    with pytest.raises(ValueError, match="`diversity` above 0 needs a sampler that weighs rows"):
        started(tmp_path, query=StochasticBatchQuery(sampler="topk", diversity=1))
    assert list(tmp_path.iterdir()) == []


def test_dates_beyond_nanoseconds_and_columns_of_arrow_are_taken(tmp_path):
    arrow = pytest.importorskip("pyarrow", reason="the extra `tabular` is not installed")
    frame = table().assign(
        far=np.datetime64("3020-01-01", "s") + np.arange(N),
        day=pd.array(pd.date_range("2020-01-01", periods=N).date, dtype=pd.ArrowDtype(arrow.date32())),
        whole=pd.array(range(N), dtype="int64[pyarrow]"),
        words=pd.array(["a", None] * (N // 2), dtype="string[pyarrow]"),
    )
    campaign = started(tmp_path, frame)
    told(campaign, campaign.ask(30))
    assert len(campaign.ask(5)) == 5
    Campaign.open(tmp_path / "churn.db", frame.assign(whole=list(range(N)), words=["a", None] * (N // 2)))


def test_progress_is_shown_on_request_and_changes_nothing(tmp_path, capsys):
    ids_after(started(tmp_path), 1, 20)
    quiet = Campaign.open(tmp_path / "churn.db", table())
    assert quiet.ask(3) is not None
    assert capsys.readouterr().err == ""
    loud = Campaign.open(tmp_path / "churn.db", table(), verbose=1)
    loud.ask(3)
    assert "row/s" in capsys.readouterr().err


@pytest.mark.parametrize("task", ["classification", "regression"])
def test_guesses_are_those_of_the_model_for_rows_that_are_there_and_have_no_label(tmp_path, task):
    frame = table()
    frame["churn"] = pd.Series([*range(1, 31), *[None] * (N - 30)], dtype=object) if task == "regression" else None
    campaign = started(tmp_path, frame, task=task)
    if task == "classification":
        told(campaign, campaign.ask(30))
    with pytest.warns(UserWarning, match="2 rows are gone"):
        left = Campaign.open(tmp_path / "churn.db", frame.drop(index=[3, 110]), changes="take")
    found = left.to_frame(guesses=True)
    assert len(found) == N - 2
    is_open = found["churn"].isna()
    assert found.loc[~is_open, ["guess", "guess_probability"]].isna().all(axis=None)
    model, rows = left.model(), frame.set_index("customer").drop(columns="churn").loc[found.index[is_open]]
    assert found.loc[is_open, "guess"].tolist() == model.predict(rows).tolist()
    assert found.loc[is_open, "guess_probability"].isna().all() == (task == "regression")
    pd.testing.assert_frame_equal(found.drop(columns=["guess", "guess_probability"]), left.to_frame())


def test_a_correction_is_named(tmp_path):
    campaign = started(tmp_path, labels=["moss", "fern"], first="uniform")
    ids = campaign.ask(2).index.tolist()
    campaign.tell(dict.fromkeys(ids, "fern"))
    told = campaign.tell({ids[1]: "moss"})
    assert str(told) == f"0 new labels, 1 corrected ({ids[1]}: 'fern' to 'moss')."
    assert told.corrections == ((ids[1], "fern", "moss"),)


def test_a_long_list_of_corrections_is_cut_and_told_whole(tmp_path):
    campaign = started(tmp_path, labels=["moss", "Moss", "MOSS", "fern", "oak"], first="uniform")
    ids = campaign.ask(8).index.tolist()
    campaign.tell(dict.fromkeys(ids, "fern"))
    told = campaign.tell(dict.fromkeys(ids, "oak"))
    assert str(told).endswith("'fern' to 'oak' and 3 more).")
    assert [one[0] for one in told.corrections] == ids
