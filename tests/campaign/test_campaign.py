"""`Campaign`: what is asked, told, skipped and withdrawn, by ids, in one process and in many."""

import re
import sqlite3
import warnings
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skactive import BADGEQuery, Campaign, Limits, StochasticBatchQuery
from skactive.campaign import CampaignError, _models, _store

N = 120


def table(n=N, seed=0):
    """Rows whose label is known to `truth`; ids keep their zeros; two columns have gaps."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame({"customer": [f"{i:04d}" for i in range(n)], "age": rng.integers(18, 80, n).astype(float)})
    frame["plan"] = rng.choice(["basic", "plus", "pro"], n)
    frame.loc[::7, "age"] = np.nan
    frame.loc[::11, "plan"] = None
    return frame.assign(churn=None)


def truth(frame):
    says = np.where(frame["age"].fillna(0) + 20 * (frame["plan"] == "pro") > 50, "yes", "no")
    return dict(zip(frame["customer"], says.tolist(), strict=True))


def started(tmp_path, frame=None, **options):
    given = {"target": "churn", "id": "customer", "random_state": 0, "model": "logistic"} | options
    tmp_path.mkdir(exist_ok=True)
    return Campaign.start(tmp_path / "churn.db", table() if frame is None else frame, **given)


def opened(tmp_path, frame, **options):
    return Campaign.open(tmp_path / "churn.db", frame, **options)


SAYS = truth(table())


def told(campaign, batch):
    return campaign.tell({id: SAYS[id] for id in batch.index})


def counts(campaign):
    return campaign.status(accuracy=False, report=False)


def test_a_batch_has_rows_guesses_and_log_probabilities_and_no_row_comes_twice(tmp_path):
    query = StochasticBatchQuery("epig", epsilon=0.1)  # whose targets are rows of the table
    campaign, frame = started(tmp_path, query=query), table().set_index("customer")
    first = campaign.ask(20)
    assert first["guess"].isna().all()
    assert np.allclose(first["log_proba"], -np.log(N - np.arange(20)))  # uniform without replacement
    told(campaign, first)
    second = campaign.ask(8)
    assert second.index.name == "customer"
    expected = frame.loc[second.index].drop(columns="churn")
    pd.testing.assert_frame_equal(second[expected.columns], expected, check_dtype=False)
    assert set(second["guess"]) <= {"yes", "no"}
    assert second["guess_probability"].between(0.5, 1).all()
    assert (second["log_proba"] < 0).all()
    with pytest.warns(UserWarning, match="92 rows are left, fewer than the 100 asked for"):
        last = campaign.ask(100)
    assert sorted([*first.index, *second.index, *last.index]) == table()["customer"].tolist()
    with pytest.raises(CampaignError, match="No row is left to ask for"):
        campaign.ask(1)


class Watching(StochasticBatchQuery):
    seen = []  # noqa: RUF012

    def select(self, *args, pending=None, **more):
        self.seen.append(np.sort(pending).tolist())
        return super().select(*args, pending=pending, **more)


class Counting(StochasticBatchQuery):
    def select(self, *args, **more):
        self.n = 1
        return super().select(*args, **more)


def test_rows_that_are_out_count_as_pending_and_a_query_that_keeps_a_state_is_warned_of(tmp_path):
    campaign = started(tmp_path, query=Watching())
    told(campaign, campaign.ask(20))
    out, again = campaign.ask(5), campaign.ask(5)
    assert not set(out.index) & set(again.index)
    assert Watching.seen == [[], sorted(int(id) for id in out.index)]
    campaign = started(tmp_path / "counting", query=Counting())
    told(campaign, campaign.ask(20))
    with pytest.warns(UserWarning, match="`query` has stored n besides its parameters"):
        campaign.ask(5)


@pytest.mark.parametrize(
    "query",
    [None, StochasticBatchQuery(posterior="bootstrap", diversity=1, n_draws=3), BADGEQuery()],
    ids=["default", "bootstrap", "badge"],
)
def test_the_same_seed_asks_for_the_same_ids_in_one_process_and_in_many(tmp_path, query):
    frame = table().assign(since=pd.date_range("2020-01-01", periods=N, freq="D").astype(str))
    one, many = started(tmp_path, frame, query=query), started(tmp_path / "many", frame, query=query)
    shuffled = frame.sample(frac=1, random_state=1)[["since", "churn", "customer", "plan", "age"]]
    for _ in range(2):
        batch, again = one.ask(10), many.ask(10)
        assert batch.index.tolist() == again.index.tolist()
        told(one, batch)
        told(many, again)
        many = opened(tmp_path / "many", shuffled)  # another order of all


def test_every_seed_and_every_batch_draw_anew(tmp_path):
    campaign = started(tmp_path, query=StochasticBatchQuery(score=flat, epsilon=1.0, random_state=7))
    batch = campaign.ask(20)
    assert started(tmp_path / "other", random_state=1).ask(20).index.tolist() != batch.index.tolist()
    told(campaign, batch)
    first = campaign.ask(10)
    campaign.withdraw(first.index)  # the same candidates again
    assert campaign.ask(10).index.tolist() != first.index.tolist()


def flat(draws):
    return np.ones(draws.shape[1])


def test_a_model_needs_two_classes_and_a_call_of_ask_that_fails_leaves_no_trace(tmp_path):
    campaign = started(tmp_path, model=make_pipeline(StandardScaler(), LogisticRegression()), labels=["yes", "no"])
    batch = campaign.ask(20)
    campaign.tell(dict.fromkeys(batch.index[:3], "yes"))
    assert "Labels: yes: 3. With one class there is no model yet" in str(counts(campaign))
    with pytest.raises(CampaignError, match="There are 3 labels, all 'yes': tell some of another class"):
        campaign.model()
    assert campaign.ask(5)["guess"].isna().all()
    told(campaign, batch)
    before = (tmp_path / "churn.db").read_bytes()
    with pytest.raises(CampaignError, match="`model` could not be fitted to the 20 labels so far"):
        campaign.ask(5)  # texts and gaps are too much for it
    assert (tmp_path / "churn.db").read_bytes() == before


@pytest.mark.parametrize("told_before", [False, True], ids=["first batch", "later batch"])
def test_limits_hold_in_every_batch_and_take_columns_by_name(tmp_path, told_before):
    frame = table().assign(region=np.arange(N) % 6, price=np.arange(N) % 10 + 1.0)
    campaign = started(tmp_path, frame)
    if told_before:
        told(campaign, campaign.ask(20))
    batch = campaign.ask(8, limits=Limits(groups="region", max_per_group=2, costs="price", budget=30))
    assert batch["region"].value_counts().max() <= 2
    assert batch["price"].sum() <= 30
    assert batch["log_proba"].notna().all()
    free = [i for i in range(N) if f"{i:04d}" not in set(campaign.history()["id"])]
    batch = campaign.ask(4, limits=Limits(must=[free[7], free[3]]))  # positions of the campaign
    assert batch.index[:2].tolist() == [f"{free[7]:04d}", f"{free[3]:04d}"]
    assert batch["log_proba"].iloc[:2].tolist() == [0.0, 0.0]
    with pytest.raises(CampaignError, match=r"`limits\.groups` must be a column of the table"):
        campaign.ask(4, limits=Limits(groups="nope", max_per_group=1))


# --- telling --------------------------------------------------------------------------------------

FORMS = {
    "mapping": dict,
    "series": pd.Series,
    "frame": lambda labels: pd.DataFrame({"churn": list(labels.values()), "customer": list(labels)}),
    "indexed frame": lambda labels: pd.DataFrame({"churn": labels}).rename_axis("customer"),
}


@pytest.mark.parametrize("form", FORMS)
def test_labels_come_in_any_form_any_order_and_any_part_and_again(tmp_path, form):
    campaign, says = started(tmp_path), truth(table())
    ids = campaign.ask(20).index.tolist()
    late = {id: says[id] for id in reversed(ids[5:])} | {ids[0]: None}
    summary = campaign.tell(FORMS[form](late))
    assert (summary.n_labels, summary.n_open) == (15, 1)
    assert counts(campaign).out.index.tolist() == sorted(ids[:5])
    opened(tmp_path, None).tell(FORMS[form]({id: says[id] for id in ids[:5]}))  # without a table
    with pytest.raises(CampaignError, match="`frame` is needed for this"):
        opened(tmp_path, None).ask(1)
    assert campaign.to_frame()["churn"].dropna().to_dict() == {id: says[id] for id in sorted(ids)}
    before = len(campaign.history())
    summary = campaign.tell(FORMS[form](late))
    assert (summary.n_same, summary.n_labels, len(campaign.history())) == (15, 0, before)


def test_a_remark_is_kept_once_beside_its_answer_and_one_without_an_answer_is_named(tmp_path):
    campaign = started(tmp_path)
    ids = campaign.ask(3).index.tolist()
    frame = pd.DataFrame({"customer": ids, "churn": ["yes", None, None], "skip": ["", "x", ""]})
    for _ in range(2):  # a file that is told twice
        with pytest.warns(UserWarning, match=rf"remarks on '{ids[2]}' are not kept"):
            campaign.tell(frame.assign(remark=["torn", 2, "?"]), annotator="anna")
    history = opened(tmp_path, None).history().query("kind != 'ask'")
    assert dict(zip(history["id"], history["remark"], strict=True)) == {ids[0]: "torn", ids[1]: "2"}
    assert len(history) == 2
    campaign.tell(frame.assign(remark=["mended", "", ""]), annotator="anna")
    assert campaign.history()["remark"].iloc[-1] == "mended"


def test_corrections_replace_are_named_and_stay_in_the_history_and_a_closed_set_is_kept_to(tmp_path):
    for labels, rule in ((["moss", 1], "of one type"), (["moss", "moss"], r"two different ones or more\. Got 'moss'")):
        with pytest.raises(CampaignError, match=f"`labels` must be {rule}"):
            started(tmp_path, labels=labels)
    campaign = started(tmp_path, labels=np.array(["moss", "fern", "oak"]), first="uniform")
    ids = campaign.ask(8).index.tolist()
    with pytest.raises(
        CampaignError, match=rf"'{ids[0]}': .* one of 'fern', 'moss', 'oak'. Got 'Fern'. 'fern' is like"
    ):
        campaign.tell({ids[0]: "Fern"})
    campaign.tell(dict.fromkeys(ids, "fern"))
    summary = campaign.tell({ids[1]: "moss", ids[2]: "fern"})
    assert str(summary) == f"0 new labels, 1 corrected ({ids[1]}: 'fern' to 'moss'), 1 known already."
    assert summary.corrections == ((ids[1], "fern", "moss"),)
    assert campaign.to_frame().loc[ids[1], "churn"] == "moss"
    assert campaign.history().query(f"kind == 'tell' and id == '{ids[1]}'")["label"].tolist() == ["fern", "moss"]
    summary = campaign.tell(dict.fromkeys(ids, "oak"))
    assert str(summary).endswith("'fern' to 'oak' and 3 more).")
    assert [one[0] for one in summary.corrections] == ids


def test_skipped_and_labelled_rows_are_not_asked_for_until_they_are_withdrawn(tmp_path):
    campaign = started(tmp_path)
    ids = campaign.ask(10).index.tolist()
    campaign.skip(ids[:2])
    campaign.tell(pd.DataFrame({"customer": ids[2:4], "churn": [None, "yes"], "skip": ["x", ""]}))
    status = counts(campaign)
    assert (status.n_skipped, status.n_out, status.n_labels, status.n_left) == (3, 6, 1, N - 10)
    with pytest.warns(UserWarning, match="'no' is a label that no row had before"):
        campaign.tell({ids[4]: "no"})
    assert set(campaign.ask(N - 10).index).isdisjoint(ids)
    campaign.withdraw(ids[:4])
    assert set(campaign.ask(4).index) == set(ids[:4])
    campaign.withdraw(ids[:4])
    with pytest.raises(CampaignError, match="there is nothing to withdraw"):
        campaign.withdraw(ids[:1])


def test_by_default_the_model_is_the_mean_of_a_forest_and_a_logistic_regression_in_every_process(tmp_path):
    campaign = Campaign.start(tmp_path / "c.db", table(), target="churn", id="customer")
    said = _models.in_words(campaign._settings["model"], campaign.kind)
    assert said == "auto (mean of a forest and a logistic regression)"
    assert type(_models.named_model("auto", "passthrough", "numbers")[-1]).__name__ == "RandomForestRegressor"
    auto = _models.named_model("auto", _models.Columns(), "classes")
    numbers = table()[["customer", "age", "churn"]].assign(age=np.arange(N) % 70.0)
    campaign = started(tmp_path, numbers, model=auto)
    campaign.tell({id: "yes" if int(id) % 70 > 40 else "no" for id in campaign.ask(30).index})
    X, model = numbers[["age"]], campaign.model()
    members = [member.predict_proba(model[:-1].transform(X)) for member in model[-1].estimators_]
    np.testing.assert_allclose(model.predict_proba(X), np.mean(members, axis=0))
    parts = [type(part).__name__ for part in (model[-1].estimators_[0], model[-1].estimators_[1][-1])]
    assert parts == ["RandomForestClassifier", "LogisticRegression"]
    campaign.backup(tmp_path / "copy.db")
    elsewhere = Campaign.open(tmp_path / "copy.db", numbers.sample(frac=1, random_state=1), model=auto)
    assert campaign.ask(8).index.tolist() == elsewhere.ask(8).index.tolist()


def test_a_model_that_is_set_is_fitted_in_every_process_that_can_have_it(tmp_path):
    campaign = started(tmp_path)
    told(campaign, campaign.ask(30))
    other, third = (opened(tmp_path, table()) for _ in range(2))
    assert isinstance(other.model()[-1], LogisticRegression)
    campaign.set(model="boosting")
    for one in (campaign, other):
        assert isinstance(one.model()[-1], HistGradientBoostingClassifier)
    campaign.set(model=make_pipeline(_models.Columns(), StandardScaler(), LogisticRegression()))
    assert "Model: Pipeline." in str(campaign.status(report=False))
    with pytest.raises(CampaignError, match="`model` must be passed again"):
        third.model()
    campaign.set(model="logistic")
    assert isinstance(third.model()[-1], LogisticRegression)
    noisy = started(tmp_path / "noisy", task="regression", query=StochasticBatchQuery("gaussian_bald"))
    with pytest.raises(CampaignError, match="needs noise, which a forest does not estimate"):
        noisy.set(model="forest")


def test_a_file_of_a_way_to_begin_that_is_gone_goes_on_with_typical_rows(tmp_path):
    campaign = started(tmp_path, first="typical")
    campaign.backup(tmp_path / "old.db")
    old = Campaign.open(tmp_path / "old.db", table())
    old._store.note({"first": "kmeans++"})
    assert Campaign.open(tmp_path / "old.db", table()).ask(6).index.tolist() == campaign.ask(6).index.tolist()


def test_numbers_are_predicted_by_a_regressor(tmp_path):
    frame = table().assign(churn=np.nan)
    frame.loc[:19, "churn"] = np.linspace(0.1, 3, 20)
    campaign = started(tmp_path, frame, model="forest")
    assert (campaign.kind, counts(campaign).n_labels) == ("numbers", 20)
    batch = campaign.ask(10)
    assert batch["guess"].between(0, 3).all()
    campaign.tell(dict.fromkeys(batch.index, "1.5"))  # as a file has it
    accuracy = campaign.status(report=False).accuracy
    assert (accuracy.measure, accuracy.n_labels, accuracy.weighted) == ("root mean squared error", 30, False)
    assert 0 <= accuracy.low < accuracy.value < accuracy.high == np.inf
    assert re.match(r"root mean squared error \d.* \(95 %: at least \d.*\) of the guesses for the \d+", str(accuracy))
    assert "error 1,040 (95 %: at least 595)" in str(replace(accuracy, value=1040.3, low=595.2))
    assert "as if the rows with a label were like the others" in str(accuracy)
    assert "There is no upper end: a few large errors may not have been seen yet" in str(accuracy)
    assert campaign.recheck(40)["difference"].is_monotonic_decreasing


def test_labels_that_came_with_the_table_count_can_be_corrected_and_set_the_type_of_others(tmp_path):
    frame = table()
    frame.loc[:3, "churn"] = pd.Series([1, 0, 1, 0], dtype=object)
    campaign = started(tmp_path, frame)
    assert counts(campaign).by_label == {1: 2, 0: 2}  # those that came with the table
    ids = campaign.ask(3).index.tolist()
    assert campaign.tell({"0000": 0} | dict(zip(ids, ["1", 0.0, np.int64(1)], strict=True))).n_corrected == 1
    assert [campaign.to_frame().loc[id, "churn"] for id in ["0000", *ids]] == [0, 1, 0, 1]
    longer = pd.concat([frame, table(N + 2).iloc[N:].assign(churn=["1", None])])
    assert counts(opened(tmp_path, longer)).by_label == {1: 4, 0: 4}
    with pytest.raises(CampaignError, match=r"`target` must hold .* a label must be a number, as 0, 1 are\. Got 'yes'"):
        opened(tmp_path, pd.concat([longer, table(N + 3).iloc[N + 2 :].assign(churn="yes")]))


BAD_LABELS = {
    "`labels` must be of one type. Got 'yes', True": {"OUT": True},
    "True is not an id of the campaign": {True: "yes"},
    "There is '0119': read ids as texts with their zeros": {"119": "yes"},
    "'9999' is not an id of the campaign": {"9999": "yes"},
    "'0000' was not asked for. If the label or skip is right, ": {"0000": "yes"},
    "has two labels, 'yes' and 'no'": pd.DataFrame({"customer": ["OUT", "OUT"], "churn": ["yes", "no"]}),
    "a finite 64-bit number or a boolean. Got 1180591620717411303424": {"OUT": 2**70},
    "a finite 64-bit number or a boolean. Got inf": {"OUT": np.inf},
    "`labels` must be a mapping of ids to labels": ["yes", "no"],
    "a column or an index 'customer'": pd.DataFrame({"churn": ["yes"], "x": [1]}),
    "`labels` must have a column 'churn'": pd.DataFrame({"customer": ["OUT"]}),
    "a row has no id": pd.DataFrame({"customer": [None], "churn": ["yes"]}),
    "'yes', and a mark in the column `skip`": pd.DataFrame({"customer": ["OUT"], "churn": ["yes"], "skip": ["x"]}),
    "`skip` must hold an x for rows to skip": pd.DataFrame({"customer": ["OUT"], "churn": [None], "skip": ["perhaps"]}),
}


def test_bad_labels_are_refused_and_nothing_is_written(tmp_path):
    campaign = started(tmp_path, random_state=3)
    ids = campaign.ask(10).index.tolist()
    before = (tmp_path / "churn.db").read_bytes()
    for message, labels in BAD_LABELS.items():
        if isinstance(labels, dict):
            labels = {ids[1]: "yes"} | {ids[0] if id == "OUT" else id: label for id, label in labels.items()}
        elif isinstance(labels, pd.DataFrame):
            labels = labels.replace("OUT", ids[0])
        with pytest.raises((CampaignError, TypeError), match=re.escape(message)):
            campaign.tell(labels)
        assert (tmp_path / "churn.db").read_bytes() == before, message
    with pytest.raises(CampaignError) as caught:
        campaign.tell({ids[1]: "yes", "9999": "no", ids[2]: "no", 9: "no"})
    assert caught.value.entries == (1, 3)
    campaign.tell({"0000": "yes"}, unasked=True)
    assert campaign.to_frame().loc["0000", "churn"] == "yes"


def test_a_table_of_a_batch_with_its_ids_in_a_column_is_read_by_them(tmp_path):
    frame = table().set_index("customer").rename_axis(None)
    campaign = Campaign.start(tmp_path / "c.db", frame, target="churn", model="logistic", random_state=0)
    batch = campaign.ask(20)
    batch["churn"] = batch.index
    batch.to_csv(tmp_path / "b.csv", index_label="id")
    with pytest.warns(UserWarning, match="Most of these classes have one row. If labels are numbers"):
        campaign.tell(pd.read_csv(tmp_path / "b.csv", dtype=str))
    labels = campaign.to_frame()["churn"].dropna()
    assert labels.index.tolist() == labels.tolist() == sorted(batch.index)


@pytest.mark.parametrize(("rule", "label"), [("latest", "no"), ("majority", None)])
def test_the_rule_decides_whether_a_disputed_row_has_a_label(tmp_path, rule, label):
    campaign = started(tmp_path, rule=rule, labels=["yes", "no"])
    id, other = campaign.ask(2).index
    for said in ("yes", "no"):  # by the same two, before they gave names
        campaign.tell({id: said})
    campaign.tell({id: "yes", other: "yes"}, annotator="Ana")
    campaign.tell({id: "no"}, annotator="Ben")
    assert campaign.to_frame().loc[id, "churn"] == label
    assert counts(campaign).n_disputed == (label is None)
    assert id not in campaign.ask(N - 2).index  # disputed or not
    assert campaign.disagreements().index.tolist() == [id]
    campaign.skip([id, other], annotator="Ana")  # which takes her label, and nobody else's
    assert (counts(campaign).n_skipped, counts(campaign).by_label) == (1, {"no": 1})


# --- opening --------------------------------------------------------------------------------------


def test_rows_that_were_added_are_taken_up_once_with_their_labels(tmp_path, monkeypatch):
    campaign = started(tmp_path)
    told(campaign, campaign.ask(20))
    longer = pd.concat([table(N + 3).iloc[N:].assign(churn=["yes", None, None]), table()])
    add = _store.Store.replace_rows

    def after_another(self, *args):
        monkeypatch.setattr(_store.Store, "replace_rows", add)
        opened(tmp_path, longer)
        add(self, *args)

    monkeypatch.setattr(_store.Store, "replace_rows", after_another)  # another process takes the rows up meanwhile
    for _ in range(2):
        status = counts(opened(tmp_path, longer))
        assert (status.n_rows, status.n_labels, status.n_left) == (N + 3, 21, N - 20 + 2)


def test_rows_that_are_gone_or_changed_are_listed_and_taken_on_a_word(tmp_path):
    out = started(tmp_path).ask(3).index.tolist()
    other = table()
    other.loc[5, "age"] = 999
    other = other[other["customer"] != "0007"]
    said = "1 row is gone: '0007'; 1 row holds other values: '0005'. In '0005' the column 'age' was 20.0, and is 999.0"
    with pytest.raises(CampaignError, match=said):
        opened(tmp_path, other)
    with pytest.warns(UserWarning, match=f"{said}. The table is used"):
        campaign = opened(tmp_path, other, changes="take")
    rest = campaign.ask(N - 3 - ("0007" not in out))
    assert "0007" not in rest.index
    assert "0005" in {*rest.index, *out}
    reopened = opened(tmp_path, other)  # what was taken once is not refused again
    assert "0007" not in reopened.to_frame().index
    assert reopened.to_frame().loc["0005", "age"] == 999
    with pytest.raises(CampaignError, match="Missing from the table: '0007'"):
        reopened.tell({"0007": "yes"}, unasked=True)
    back = table().assign(age=other["age"].reindex(range(N), fill_value=1.0))
    with pytest.warns(UserWarning, match="1 row holds other values: '0007'"):
        assert counts(opened(tmp_path, back, changes="take")).n_rows == N


def test_labelled_rows_that_are_gone_teach_nothing(tmp_path):
    campaign = started(tmp_path)
    ids = campaign.ask(40).index.tolist()
    campaign.tell({id: SAYS[id] for id in ids})
    with pytest.warns(UserWarning, match="10 rows are gone"):
        campaign = opened(tmp_path, table()[~table()["customer"].isin(ids[:10])], changes="take")
    assert (counts(campaign).n_rows, counts(campaign).n_labels) == (N - 10, 30)
    assert campaign.recheck(40)["label"].to_dict() == {id: SAYS[id] for id in ids[10:]}


def test_a_model_and_a_query_of_the_users_own_are_handed_in_again_and_compared(tmp_path):
    def of_mine(C):
        return make_pipeline(StandardScaler(), LogisticRegression(C=C))

    numbers = table()[["customer", "age", "churn"]].fillna({"age": 0})
    before, model, query = numbers.copy(), of_mine(2.0), StochasticBatchQuery(score=flat)
    campaign = started(tmp_path, numbers, model=model, query=query)
    batch = campaign.ask(20)
    batch["age"] = -1
    told(campaign, batch)
    for given, message in (
        ({"model": of_mine(2.0)}, "`query` must be passed again"),
        ({"query": query}, "`model` must be passed again: the campaign was started with a Pipeline"),
        ({"query": query, "model": of_mine(1.0)}, "`model` must be the one .* with the same parameters"),
        ({"query": StochasticBatchQuery(score=flat, beta=2), "model": of_mine(2.0)}, "`query` must be the one"),
    ):
        with pytest.raises(CampaignError, match=message):
            opened(tmp_path, numbers, **given)
    assert len(opened(tmp_path, numbers, model=of_mine(2.0), query=query).ask(3)) == 3
    pd.testing.assert_frame_equal(numbers, before)
    assert not hasattr(model[-1], "coef_")


BAD_TABLES = {
    "`id` must be different in every row. Got '0002' again": lambda f: f.replace("0001", "0002"),
    "`id` must have a value in every row. Missing in 1": lambda f: f.replace("0001", None),
    "`id` must name a column of `frame`": lambda f: f.rename(columns={"customer": "c"}),
    "`target` must name a column of `frame`": lambda f: f.drop(columns="churn"),
    "`target` must have gaps: the rows to label. All 120": lambda f: f.assign(churn="yes"),
    "`frame` must have a column besides the id and the target": lambda f: f[["customer", "churn"]],
    "labels in `target` must be of one type. Got 'yes', 1": lambda f: f.assign(churn=["yes", 1, *[None] * (N - 2)]),
    "than those that batches add. Got 'guess': rename": lambda f: f.rename(columns={"age": "guess"}),
    "`frame` must have different column names": lambda f: f.rename(columns={"age": "plan"}),
    "`id` must hold texts or whole numbers. Got 0.5": lambda f: f.assign(customer=np.arange(N) + 0.5),
    "`id` must hold texts or whole numbers, not both": lambda f: f.assign(customer=[0, *f["customer"][1:]]),
}


def test_bad_tables_and_queries_that_could_never_choose_are_refused_and_no_file_is_made(tmp_path):
    for message, change in BAD_TABLES.items():
        with pytest.raises((CampaignError, TypeError), match=re.escape(message)):
            started(tmp_path, change(table()))
    for message, query in (
        ("`score`='variance' is not for a classifier", StochasticBatchQuery("variance")),
        ("`diversity` above 0 needs a sampler that weighs", StochasticBatchQuery(sampler="topk", diversity=1)),
    ):
        with pytest.raises(ValueError, match=message):
            started(tmp_path, query=query)
    with pytest.raises(CampaignError, match="'gaussian_bald' needs noise, which a forest does not estimate"):
        started(tmp_path, query=StochasticBatchQuery("gaussian_bald"), model="forest", task="regression")
    assert list(tmp_path.iterdir()) == []
    started(tmp_path)
    with pytest.raises(CampaignError, match=r"the ids of the campaign: '0000', .* Got none of them, but 0, "):
        opened(tmp_path, table().assign(customer=range(N)))


def test_status_says_what_is_labelled_out_and_left_and_whether_to_go_on(tmp_path, capsys):
    campaign = started(tmp_path)
    for k in (15, 30):
        told(campaign, campaign.ask(k))
    differ = campaign.status(report=False).accuracy.differ
    campaign.ask(5)
    status = campaign.status()
    assert opened(tmp_path, table()).status(report=False).accuracy.differ == differ > 0
    assert (status.n_rows, status.n_labels, status.n_out, status.n_left) == (N, 45, 5, 70)
    assert sum(status.by_label.values()) == 45
    assert list(status.report.labels) == [15, 45]
    assert status.report.n_pool == 75  # rows that are out have no label either
    assert status.accuracy.weighted
    assert status.accuracy.low <= status.accuracy.value <= status.accuracy.high
    assert "45 labelled, 5 waiting, 70 left; 3 batches so far." in str(status)
    with sqlite3.connect(campaign.path) as connection:
        dump = "\n".join(connection.iterdump())
    assert "basic" not in dump  # no rows of the table, and no code
    assert "pickle" not in dump
    assert capsys.readouterr().err == ""
    opened(tmp_path, table(), verbose=1).ask(3)
    assert "row/s" in capsys.readouterr().err


def test_once_all_rows_have_a_label_the_status_is_out_of_fold(tmp_path):
    frame = pd.DataFrame({"a": np.arange(40.0), "y": None})
    campaign = Campaign.start(tmp_path / "y.db", frame, target="y", model="logistic", random_state=0)
    campaign.tell({i: "b" if i < 20 else "c" for i in range(40)}, unasked=True)
    assert "out of fold on all 40 rows, which have a label" in str(campaign.status())


@pytest.mark.slow  # tests/stopping has coins that nobody stops with
def test_of_coins_no_status_says_stop_and_the_first_batches_say_that_a_class_is_rare(tmp_path):
    rng = np.random.default_rng(2)
    frame = pd.DataFrame({"customer": range(400), "x": rng.normal(size=400), "churn": None})
    coin, campaign = np.where(rng.random(400) < 0.2, "yes", "no"), started(tmp_path, frame)
    for k in range(11):  # more than reports look back on
        campaign.tell({id: coin[id] for id in campaign.ask(20 if k == 0 else 10).index})
    found, unseen = campaign.status(scoring="accuracy"), campaign.status(accuracy=False)
    assert unseen.report.scoring == "average_precision"
    assert unseen.accuracy is None
    assert unseen.report.known == found.report.known
    assert found.report.known.is_told == found.accuracy.is_told
    assert (found.report.verdict, unseen.report.verdict) == ("cannot be told", "cannot be told")
    assert "Labels alone have not helped: try other columns or another model." in str(found)
    assert "rows. Always guessing 'no' is right in" in str(found.accuracy)
    assert str(found).count("Always guessing") == 1


def test_recheck_lists_the_labels_that_were_turned_round_first(tmp_path):
    frame = table(200)
    campaign = started(tmp_path, frame)
    known = truth(frame)
    says = {id: known[id] for id in campaign.ask(150).index}
    turned = list(says)[:3]
    campaign.tell(says | {id: "no" if says[id] == "yes" else "yes" for id in turned})
    found = campaign.recheck(15)
    assert set(turned) <= set(found.index)
    assert found["label_probability"].is_monotonic_increasing
    assert found.columns[:2].tolist() == ["label", "guess"]


def test_picks_of_a_query_that_all_but_excludes_rows_say_nothing_of_accuracy(tmp_path):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"customer": range(400), "x": rng.normal(size=400), "churn": None})
    coin = rng.choice(["a", "b"], 400)
    for options in ({"sampler": "topk"}, {"sampler": "softrank", "beta": 16}):
        query = StochasticBatchQuery(**options)
        campaign = started(tmp_path / options["sampler"], frame, query=query, model=LogisticRegression())
        for k in (20, 60):
            campaign.tell({float(id): coin[id] for id in campaign.ask(k).index})  # as a spreadsheet has them
        found = campaign.status(report=False).accuracy
        assert found.n_labels == 20  # the uniform ones
        assert found.low < 0.5 < found.high


@pytest.mark.parametrize("task", ["classification", "regression"])
def test_guesses_are_those_of_the_model_for_rows_that_are_there_and_have_no_label(tmp_path, task):
    frame = table()
    frame["churn"] = pd.Series([*[0, 1, 2] * 10, *[None] * (N - 30)], dtype=object)
    started(tmp_path, frame, task=task)
    with pytest.warns(UserWarning, match="2 rows are gone"):
        left = opened(tmp_path, frame.drop(index=[3, 110]), changes="take")
    found = left.to_frame(guesses=True)
    assert len(found) == N - 2
    is_open = found["churn"].isna()
    assert found.loc[~is_open, ["guess", "guess_probability"]].isna().all(axis=None)
    model, rows = left.model(), frame.set_index("customer").drop(columns="churn").loc[found.index[is_open]]
    assert found.loc[is_open, "guess"].tolist() == model.predict(rows).tolist()
    assert found.loc[is_open, "guess_probability"].isna().all() == (task == "regression")
    pd.testing.assert_frame_equal(found.drop(columns=["guess", "guess_probability"]), left.to_frame())


class FromZero(LogisticRegression):
    """Takes 0, 1, ... as labels only, as XGBoost does, and gives a column of predictions, as CatBoost."""

    def fit(self, X, y):
        if y.tolist() != np.unique(y, return_inverse=True)[1].tolist():
            raise ValueError("Invalid classes")
        return super().fit(X, y)

    def predict(self, X):
        return super().predict(X)[:, np.newaxis]


class Copying(LogisticRegression):
    """Copies a list that it is given, as CatBoost does, so that scikit-learn does not clone it."""

    def __init__(self, columns=()):
        super().__init__()
        self.columns = columns.copy() if isinstance(columns, list) else columns


@pytest.mark.parametrize("last", [FromZero(), Copying(["age"])])
def test_models_that_take_numbers_as_labels_or_copy_lists_learn_and_guess_labels(tmp_path, last):
    frame = table()[["customer", "age", "churn"]].fillna({"age": 50})
    model = make_pipeline(StandardScaler(), last)
    campaign = started(tmp_path, frame, model=model)
    for _ in range(2):
        told(campaign, campaign.ask(20))
        campaign = opened(tmp_path, frame, model=model)
    assert set(campaign.ask(5)["guess"]) <= {"yes", "no"}
    assert campaign.status().accuracy.value > 0.7
    assert set(np.ravel(campaign.model().predict(frame[["age"]]))) <= {"yes", "no"}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "kind", "options"),
    [
        ("xgboost", "XGBClassifier", {"n_estimators": 20, "enable_categorical": True}),
        ("catboost", "CatBoostClassifier", {"iterations": 20, "cat_features": ["plan"], "allow_writing_files": False}),
        ("lightgbm", "LGBMClassifier", {"n_estimators": 20, "min_child_samples": 3, "verbose": -1}),
    ],
)
def test_boosting_of_other_libraries_takes_text_labels_and_categories_without_a_warning(tmp_path, name, kind, options):
    model = getattr(pytest.importorskip(name), kind)(**options)
    frame = table(300)[["customer", "age", "plan", "churn"]].fillna({"age": 50, "plan": "none"})
    frame["plan"] = frame["plan"].astype("category")
    campaign, says = started(tmp_path, frame, model=model), truth(frame)
    for _ in range(3):
        campaign.tell({id: says[id] for id in campaign.ask(20).index})
        campaign = opened(tmp_path, frame, model=model)
    guesses = campaign.to_frame(guesses=True)["guess"].dropna()
    assert (guesses == guesses.index.map(says)).mean() > 0.75  # 0.6 are of the commonest class


# --- labels in the table, sets of labels, rows beside the table ----------------------------------------


def test_labels_that_come_into_the_table_later_are_taken_and_those_against_the_campaign_are_named(tmp_path):
    campaign, frame = started(tmp_path), table()
    ids = campaign.ask(20).index.tolist()
    campaign.tell({id: SAYS[id] for id in ids})
    late = [id for id in frame["customer"] if id not in ids][:30]
    frame["churn"] = frame["customer"].map({id: SAYS[id] for id in [*ids[1:], *late]} | {ids[0]: "perhaps"})
    with pytest.warns(UserWarning, match="The table has") as said:
        campaign = opened(tmp_path, frame)
    lines = [str(one.message) for one in said]
    assert "has 30 labels new to the campaign, taken now" in lines[0]
    assert "1 label against the campaign, which keeps its own" in lines[1]
    assert f"'perhaps' for {ids[0]!r}." in lines[1]
    assert campaign.to_frame()["churn"].dropna().to_dict() == {id: SAYS[id] for id in [*ids, *late]}
    campaign.withdraw([ids[0], late[0]])  # now the label of the table counts for one, and stays away for the other
    with pytest.warns(UserWarning, match="The table has") as said:
        found = opened(tmp_path, frame).to_frame()["churn"]
    assert "1 label of withdrawn or skipped rows, ignored" in str(said[1].message)
    assert (found[ids[0]], found[late[0]]) == ("perhaps", None)


def test_a_rename_changes_no_order_and_holds_for_old_names_that_still_come(tmp_path):
    campaign, frame = started(tmp_path), table()
    ids = campaign.ask(4).index
    campaign.tell({ids[0]: "nein", ids[1]: "ja"}, annotator="a")
    campaign.tell({ids[0]: "ja"}, annotator="b")  # within the same second
    campaign.set(rename={"nein": "no"})
    assert campaign.to_frame()["churn"][ids[0]] == "ja"
    campaign.set(rename={"ja": "yes"}, closed=True)
    assert campaign.tell({ids[0]: "nein", ids[1]: "ja"}, annotator="a").n_same == 2
    with pytest.warns(UserWarning, match="1 label new to the campaign"):
        campaign = opened(tmp_path, frame.assign(churn=frame["customer"].map({ids[2]: "nein"})))
    assert counts(campaign).by_label == {"yes": 2, "no": 1}
    campaign.set(rename={"no": "nein"})  # back again
    assert campaign.tell({ids[2]: "no"}).n_same == 1


def test_labels_are_renamed_added_closed_and_opened_and_the_history_keeps_what_was_told(tmp_path):
    campaign, other, third = (started(tmp_path / name) for name in ("", "other", "third"))
    for one in (campaign, other, third):
        told(one, one.ask(20))
    yes = counts(campaign).by_label["yes"]
    campaign.set(rename={"yes": "ja"}, closed=True, add=["perhaps"])
    assert counts(campaign).by_label["ja"] == yes
    assert (campaign.history()["label"] == "yes").sum() == (campaign.history()["kind"] == "rename").sum() == yes
    batch = opened(tmp_path, table()).ask(10)
    with pytest.raises(CampaignError, match=r"must be one of 'ja', 'no', 'perhaps'\. Got 'yess'"):
        campaign.tell({batch.index[0]: "yess"})
    campaign.set(closed=False)
    with pytest.warns(UserWarning, match="'never' is a label that no row had before"):
        campaign.tell({batch.index[0]: "never"})
    other.set(closed=True)
    assert other.ask(10).index.tolist() == third.ask(10).index.tolist()
    for given in ({}, {"task": "regression", "closed": True}, {"rename": {"nope": "no"}}, {"add": ["x"]}):
        with pytest.raises(CampaignError, match=r"`set` takes either|`rename` must name|`add` is for a closed set"):
            campaign.set(**given)


def test_numbers_that_are_classes_can_be_renamed_to_words_and_old_files_still_hold(tmp_path):
    campaign = started(tmp_path)
    old = {id: i % 3 for i, id in enumerate(campaign.ask(12).index)}
    campaign.tell(old)
    for bad in ({0: "no", "0": "nein"}, {"5": "no"}):
        with pytest.raises(CampaignError, match="must name labels of 0, 1, 2, each once"):
            campaign.set(rename=bad)
    campaign.set(rename={"0": "no", 1: "yes"}, closed=True)
    assert (campaign.kind, counts(campaign).by_label) == ("classes", {"no": 4, "yes": 4, "2": 4})
    assert campaign.tell(old).n_same == campaign.tell({id: str(label) for id, label in old.items()}).n_same == 12
    assert opened(tmp_path, table()).ask(1)["guess"].isin(["no", "yes", "2"]).all()


def test_what_labels_are_can_be_changed_there_and_back(tmp_path):
    campaign = started(tmp_path)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        campaign.tell({id: str(i % 4) for i, id in enumerate(campaign.ask(12).index)})
    campaign.set(task="regression")
    assert (campaign.kind, counts(campaign).by_label) == ("numbers", {"least": 0.0, "mean": 1.5, "largest": 3.0})
    campaign.set(task="classification")
    assert (campaign.kind, counts(opened(tmp_path, table())).by_label) == ("classes", {0: 3, 1: 3, 2: 3, 3: 3})
    campaign.set(closed=True, add=np.array(["4"]))
    campaign.set(task="regression")
    campaign.tell(dict.fromkeys(campaign.history()["id"][:6], 1.5))  # numbers are not closed
    campaign.set(task="classification")
    assert set(counts(campaign).by_label) == {"0", "1", "1.5", "2", "3"}
    opened(tmp_path, table()).ask(1)


def test_guesses_for_rows_beside_the_table_are_those_that_the_table_has(tmp_path):
    campaign, frame = started(tmp_path), table()
    told(campaign, campaign.ask(20))
    expected = campaign.to_frame(guesses=True).query("guess.notna()")[["guess", "guess_probability"]]
    rows = frame[frame["customer"].isin(expected.index)].drop(columns="churn")
    pd.testing.assert_frame_equal(campaign.predict(rows.astype({"age": str, "plan": "category"})), expected)
    with pytest.raises(CampaignError, match=r"all columns that the model learns from\. It lacks 'age'"):
        campaign.predict(rows.drop(columns="age"))
    with pytest.raises(CampaignError, match=r"different column names\. Got 'age' more than once"):
        campaign.predict(pd.concat([rows, rows[["age"]]], axis=1))


def test_a_row_that_must_be_asked_for_and_cannot_is_named_by_its_id(tmp_path):
    campaign = started(tmp_path)
    id = campaign.ask(1).index[0]
    with pytest.raises(CampaignError, match=rf"`must` must name rows without a label.* Got {id!r}"):
        campaign.ask(3, limits=Limits(must=[int(id)]))
