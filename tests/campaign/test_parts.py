"""Parts of a campaign: row hashes, labels, states, fits, and the accuracy."""

import json

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import FixedThresholdClassifier
from sklearn.naive_bayes import GaussianNB
from sklearn.tree import DecisionTreeClassifier

from skactive import Campaign, Limits, StochasticBatchQuery
from skactive.campaign import CampaignError
from skactive.campaign._accuracy import _Sample
from skactive.campaign._columns import readings_of
from skactive.campaign._labels import alike_in, converted, kind_of, plain_label, plain_labels, told_of_kind
from skactive.campaign._ledger import RULES, Event, Ledger, State
from skactive.campaign._models import fitted_preprocessing, folds_of, guesses_of, judged, named_model
from skactive.campaign._picks import Picks, picks_of
from skactive.campaign._store import cut
from skactive.campaign._table import row_hashes

VALUES = st.one_of(st.none(), st.integers(-9, 9), st.text(max_size=3), st.booleans())


def prepared(X, vectorizer="plain"):
    return fitted_preprocessing(X, readings_of(X), vectorizer, 0)


def hashes(columns):
    frame = pd.DataFrame(columns)
    return row_hashes(frame, readings_of(frame)).tolist()


@settings(max_examples=15)
@given(st.lists(st.tuples(VALUES, VALUES), min_size=1, max_size=6), st.randoms(use_true_random=False))
def test_a_hash_depends_on_the_row_alone_and_not_on_the_order_of_rows_and_columns(cells, random):
    frame = pd.DataFrame(cells, columns=["a", "b"], dtype=object)
    order = random.sample(range(len(cells)), len(cells))
    shuffled = frame[["b", "a"]].iloc[order].reset_index(drop=True)
    expected = hashes(frame)
    assert hashes(shuffled) == [expected[i] for i in order]


SAME = {
    "whole": (pd.Series([1, 2], dtype="int64"), pd.Series([1.0, 2.0])),
    "whole, objects": (pd.Series([1, None], dtype="Int64"), pd.Series([1, None], dtype=object)),
    "whole, Arrow": (pd.Series([1, None], dtype="Int64"), pd.Series([1, None], dtype="int64[pyarrow]")),
    "whole, category": (pd.Series([1, 2]), pd.Series([1, 2], dtype="category")),
    "long": (pd.Series([2**60, -(2**60), 1]), pd.Series([2**60, -(2**60), 1], dtype=object)),
    "booleans": (pd.Series([True, None], dtype="boolean"), pd.Series([True, None], dtype=object)),
    "booleans as numbers": (pd.Series([True, False]), pd.Series([1, 0])),
    "texts": (pd.Series(["a", None]), pd.Series(["a", None], dtype="category")),
    "sparse": (pd.Series([1.5, 0]), pd.Series([1.5, 0], dtype="Sparse[float64]")),
    "a sign": (pd.Series([0.0, 1]), pd.Series([-0.0, 1])),
    "times": tuple(pd.to_datetime(["2020-01-01", None]).as_unit(unit) for unit in ("s", "ns")),
}


def test_one_value_in_two_types_has_one_hash():
    assert [name for name, (one, other) in SAME.items() if hashes({"a": one}) != hashes({"a": other})] == []
    mixed = hashes({"a": pd.Series(["x", 1, 2.5, None], dtype=object)})
    assert mixed == [hashes({"a": [value]})[0] for value in ("x", 1.0, 2.5, None)]


def test_columns_long_numbers_and_elements_of_arrays_that_differ_have_hashes_that_differ():
    assert hashes({"a": ["x"], "b": ["y"]}) != hashes({"a": ["y"], "b": ["x"]})
    assert len({hashes({"a": [value]})[0] for value in (2**53 - 1, 2**53, 2**53 + 1)}) == 3
    assert len({hashes({"a": [value, "x"]})[0] for value in (None, "", 0, 1, "1", -1, 0.5, "é")}) == 8
    one, other = np.zeros(10_000), np.where(np.arange(10_000) == 5_000, 1.0, 0)
    assert hashes({"a": pd.Series([one])}) != hashes({"a": pd.Series([other])})


NUMBERS = st.one_of(st.integers(1 - 2**63, 2**63 - 1), st.floats(allow_infinity=False, allow_nan=False))


@given(st.one_of(st.booleans(), NUMBERS, st.text(st.characters(exclude_characters="\0"), min_size=1)))
def test_a_plain_label_of_numpy_and_pandas_is_that_of_python(label):
    expected = (label.strip() or None) if isinstance(label, str) else label
    assert plain_label(pd.Series([label], dtype=object).iloc[0], "a label") == expected
    assert str(plain_labels(pd.Series([1.0, np.nan, 0.0]), "y", range(3))) == "[1, None, 0]"  # whole beside a gap


def test_an_accent_is_one_letter_and_labels_that_only_look_alike_are_named():
    assert plain_label("cafe\u0301", "a label") == "café" == plain_label("café", "a label")
    found = alike_in(["Yes", "no", "yes ", 1, True, "n\u200bo", "\uff4eo"])
    assert found == [("Yes", "yes "), ("no", "n\u200bo"), ("no", "\uff4eo")]


def test_long_cells_are_cut_in_messages_and_values_of_parameters_are_not():
    long = "it's so " * 1000
    end = f"and 'short' of `path`={'p' * 200!r}, the user's"
    assert cut(f"{long!r} {end} {'n' * 90!r}.") == f"{repr(long)[:81]}...\" {end} '{'n' * 80}...'."
    assert len(str(CampaignError(f"Got {long!r}."))) < 100


def test_numbers_are_to_be_predicted_if_some_are_not_whole_or_there_are_many():
    classes = (["a", "b"], [True, False], list(range(10)) * 2, list(range(19)), [1.0, 2.0])
    assert {kind_of(labels) for labels in classes} == {"classes"}
    assert {kind_of(labels) for labels in ([0.5, 1], list(range(21)) * 9, [*range(11), *[0] * 9])} == {"numbers"}
    assert kind_of([None]) is None
    some = (["1", "2"], ["1.028", "980"], [1, 2, 3, 4, 5] * 4, [*range(5, 15)] * 2)
    assert [bool(told_of_kind(labels, "classes")) for labels in some] == [False, True, False, True]


def test_a_label_takes_the_type_of_the_others_or_is_refused():
    taken = [("1", {0, 1}, 1), (1.0, {"0", "1"}, "1"), ("True", {True, False}, True), (0, {True, False}, False)]
    taken += [("2.5", {1.5}, 2.5), ("a", set(), "a"), (2.0, {0, 1}, 2)]
    for label, known, expected in taken:
        got = converted(label, known, "classes")
        assert (got, type(got)) == (expected, type(expected)), label
    for label, known in (("a", {0, 1}), ("1_0", {0, 1}), ("inf", {0.5}), ("perhaps", {True}), (2, {True, False})):
        with pytest.raises(CampaignError, match="a label must be a"):
            converted(label, known, "classes")


def record(kind, *content):
    return json.dumps([kind, "2026-01-01T00:00:00+00:00", content]).encode()


def oracle(start, events, rule):
    """Labels that count, by the definition: one label an annotator, the last one; then the rule."""
    labels = {}
    for row, came in enumerate(start):
        votes = [] if came is None else [("", came)]
        for event in (one for one in events if one.row == row):
            if event.kind == "withdraw":
                votes = []
            if event.kind in ("skip", "tell", "undo"):
                votes = [vote for vote in votes if vote[0] != event.annotator]
            if event.kind == "tell" and ("", event.label) in votes:
                votes.remove(("", event.label))
            if event.kind == "tell":
                votes.append((event.annotator, event.label))
        said = [label for _, label in votes]
        counts = sorted((said.count(label) for label in set(said)), reverse=True)
        if said and rule == "latest":
            labels[row] = said[-1]
        if said and rule == "open" and len(set(said)) == 1:
            labels[row] = said[0]
        if said and rule == "majority" and (len(counts) == 1 or counts[0] > counts[1]):
            labels[row] = max(set(said), key=said.count)
    return labels


KINDS = st.sampled_from(["ask", "tell", "tell", "tell", "skip", "withdraw", "undo"])
ANNOTATORS = st.sampled_from(["", "x", "y"])
ANSWERS = st.dictionaries(st.integers(0, 3), st.sampled_from("abc"), min_size=1)
CAME = st.lists(st.sampled_from([None, "a", "b"]), min_size=4, max_size=4)


@given(CAME, st.lists(st.tuples(KINDS, ANNOTATORS, ANSWERS)), st.sampled_from(list(RULES)))
def test_every_row_is_in_one_place_and_has_the_label_of_the_rule(start, records, rule):
    ledger, events = Ledger(), []
    ledger.take(record("rows", [0, 1, 2, 3], "0" * 64, start))
    for kind, annotator, said in records:
        rows, labels = list(said), list(said.values())
        facts = [rows, [-0.5] * len(rows), {"n_candidates": 4}] if kind == "ask" else [annotator, rows, labels]
        ledger.take(record(kind, *facts))
        events += [Event(kind, row, label, annotator) for row, label in said.items()]
    state = State.of(ledger, len(start), rule)
    assert state.labels == oracle(start, events, rule)
    assert set(state.labels.values()) <= set(ledger.counts)
    assert sum(ledger.counts.values()) == sum(map(len, ledger.votes.values()))
    assert list(state.labels) == sorted(state.labels)
    free = set(np.flatnonzero(state.candidates()).tolist())
    others = set(state.labels) | set(state.out) | set(state.skipped) | set(state.disputed)
    assert free | others == set(range(4))
    assert not free & others
    assert not set(state.labels) & set(state.disputed)


@given(st.lists(st.sampled_from("aaab"), min_size=1, max_size=40), st.integers(0, 9))
def test_folds_try_each_row_once_and_fit_to_two_classes(labels, seed):
    y = np.array(labels)
    folds = folds_of(y, "classes", seed)
    counts = np.unique(y, return_counts=True)[1]
    if folds is None:
        assert len(counts) < 2 or counts.min() < 2 or len(y) < 5  # a fold may take all of one class
        return
    assert counts.min() >= 2
    assert sorted(np.concatenate([test for _, test in folds]).tolist()) == list(range(len(y)))
    for fit, test in folds:
        assert not set(fit) & set(test)
        assert len(set(y[fit])) == 2


def test_a_row_is_judged_by_a_model_that_was_not_taught_it():
    # Labels are noise: a model that had seen them would know them, one that has not is right half of the time.
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"x": rng.normal(size=400)})
    y = rng.choice(["a", "b"], 400)
    tree = DecisionTreeClassifier(random_state=0)
    found = judged(tree, tree.fit(X, y), X, y, X[:0], "classes", 0)
    assert abs(int((found.out_of_fold["guess"] == y).sum()) - 200) < 5 * np.sqrt(100)
    assert np.mean(np.array(found.own) == y) > 0.9  # of these the tree knows its rows


def test_a_row_is_judged_by_a_model_that_was_taught_none_of_its_group():
    rng = np.random.default_rng(0)
    groups = rng.integers(80, size=400)
    X, y = pd.DataFrame({"x": groups + 0.1 * rng.random(400)}), rng.choice(["a", "b"], 80)[groups]
    assert all(not {*groups[fit]} & {*groups[test]} for fit, test in folds_of(y, "classes", 0, groups))
    tree = DecisionTreeClassifier(random_state=0)
    right = [
        np.mean(judged(tree, tree.fit(X, y), X, y, X, "classes", 0, by).out_of_fold["guess"] == y)
        for by in (None, groups)
    ]
    # a group tells nothing of others: 80 coins, whose neighbours repel a little; rows of one group tell all
    assert right[0] > 0.95
    assert right[1] < 0.5 + 5 * np.sqrt(0.25 / 80)


def test_a_guess_is_what_a_model_with_its_own_threshold_predicts():
    X = pd.DataFrame({"x": np.linspace(-2, 2, 40)})
    model = FixedThresholdClassifier(LogisticRegression(), threshold=0.1).fit(X, X["x"] > 0)
    guesses, sure = guesses_of(model, X, "classes")
    assert guesses == model.predict(X).tolist()
    assert 0.1 < sure.min() < 0.5


@pytest.mark.filterwarnings("ignore:Found unknown categories")
@pytest.mark.parametrize("vectorizer", ["plain", "skrub"])
def test_preprocessing_sees_a_row_alone(vectorizer):
    pytest.importorskip("skrub", reason="the extra `tabular` is not installed") if vectorizer == "skrub" else None
    rng = np.random.default_rng(0)
    n = 40
    X = pd.DataFrame({"number": np.where(rng.random(n) < 0.2, np.nan, rng.normal(size=n)), "empty": [None] * n})
    X["city"], X["flag"] = rng.choice(["Bonn", "Köln", None], n), rng.choice([True, False, None], n)
    X["when"] = pd.date_range("2020-01-31", periods=n, tz="Europe/Berlin")
    X["day"], X["far"] = X["when"].dt.strftime("%d.%m.%Y"), np.datetime64("3020-01-01", "s") + np.arange(n)
    X["whole"] = pd.array(range(n), dtype="int64[pyarrow]")
    X["date"] = pd.array(X["when"].dt.date, dtype=pd.ArrowDtype(pa.date32()))
    fitted = prepared(X, vectorizer)
    alone = np.concatenate([np.asarray(fitted.transform(X.iloc[[i]])) for i in range(8)])
    whole = np.asarray(fitted.transform(X))
    assert np.isfinite(whole).all()
    np.testing.assert_allclose(alone, whole[:8], rtol=1e-6, atol=1e-6)
    stranger = pd.DataFrame({name: ["?"] for name in X.columns})
    assert np.isfinite(np.asarray(fitted.transform(stranger))).all()


@pytest.mark.parametrize(("name", "kind"), [("logistic", "numbers"), ("boosting", "classes"), ("net", "numbers")])
def test_models_by_name_give_draws_or_probabilities_to_the_default_query(name, kind):
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"x": rng.normal(size=60), "city": rng.choice(["a", "b"], 60)})
    y = X["x"].to_numpy() if kind == "numbers" else np.where(X["x"] > 0, "p", "n")
    model = named_model(name, prepared(X), kind).fit(X[:30], y[:30])
    assert len(StochasticBatchQuery(random_state=0).select(model, X, 5, X_training=X[:30], y_training=y[:30])) == 5


def threshold(x, rng):
    return np.where(x[:, 0] + 0.7 * rng.normal(size=len(x)) > 0, "a", "b")


def xor(x, rng):
    return np.where((x[:, 0] > 0) ^ (x[:, 1] > 0), "a", "b")


def rare(x, rng):
    return np.where(x[:, 0] + 0.5 * rng.normal(size=len(x)) > 1.5, "a", "b")


def campaign_with_labels(folder, seed, n_batches, label=threshold, model=None, skips=0.0):
    """A campaign on 500 rows of two columns, and all their labels; some rows on one side are skipped."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(500, 2))
    frame = pd.DataFrame({"id": range(500), "x": x[:, 0], "z": x[:, 1], "y": None})
    truth, is_clear = label(x, rng), rng.random(500) > skips * (1 + (x[:, 0] > 0))
    model = LogisticRegression() if model is None else model
    known = {"target": "y", "id": "id", "labels": ["a", "b"]}
    campaign = Campaign.start(folder / f"{seed}.db", frame, **known, model=model, random_state=seed)
    for _ in range(n_batches):
        ids = campaign.ask(20).index.to_numpy()
        campaign.tell({id: truth[id] for id in ids[is_clear[ids]].tolist()})
        campaign.skip(ids[~is_clear[ids]].tolist())
    return campaign, np.where(is_clear, truth, None)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("label", "model", "skips"),
    [
        (threshold, LogisticRegression(), 0.0),
        (xor, DecisionTreeClassifier(), 0.0),  # changes much with a fifth of the labels
        (rare, GaussianNB(), 0.0),
        (threshold, GaussianNB(), 0.4),  # most rows cannot be labelled, on one side twice as many
    ],
)
def test_intervals_of_a_campaign_hold_as_often_as_they_say(tmp_path, label, model, skips):
    hits, n_runs = [], 60
    for seed in range(n_runs):
        campaign, truth = campaign_with_labels(tmp_path, seed, 5, label, model, skips)
        found, frame = campaign.status(report=False).accuracy, campaign.to_frame(guesses=True)
        is_left, is_clear = frame["y"].isna().to_numpy(), truth != None  # noqa: E711
        guess = np.asarray(campaign.model().predict(frame[["x", "z"]]), dtype=object)
        right = [np.mean((guess == truth)[rows]) for rows in (is_left & is_clear, is_clear)]
        a = found.classes.loc["a"]
        n_left = np.sum(truth[is_left] == "a")
        hits.append(
            [
                found.low <= right[0] <= found.high,
                found.overall.low <= right[1] <= found.overall.high,
                a["left_low"] <= n_left <= a["left_high"],
                a["found_low"] <= a["labelled"] / (a["labelled"] + n_left) <= a["found_high"],
            ]
        )
    for n_hits in np.sum(hits, axis=0):  # fewer hits than that come in one of 1000 tests of a true 93 %
        assert n_hits >= stats.binom.ppf(0.001, n_runs, 0.93)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("n_labels", "rate", "liked", "spread"),
    [(40, 0.5, 0, 0), (40, 0.3, -1, 0), (100, 0.3, 0, 0), (40, 0.3, 1, 0), (100, 0.3, 0, 0.6)],
)
def test_accuracies_hold_whether_errors_are_in_rows_that_the_query_likes_or_not(n_labels, rate, liked, spread):
    hits, n_runs, everything = 0, 200, np.arange(500)
    for seed in range(n_runs):
        rng = np.random.default_rng(seed)
        score, weight = rng.random(500) ** 2 + 1e-3, np.exp(spread * rng.normal(size=500))
        right = (liked * score if liked else rng.random(500)).argsort().argsort() < 500 * (1 - rate)
        query = StochasticBatchQuery(epsilon=0.1, diversity=0, random_state=seed)
        rows, log_proba = rng.permutation(500)[:20], [-np.log(500 - everything[:20])]
        while len(rows) < n_labels:
            rest = np.setdiff1d(everything, rows)
            rows = np.append(rows, rest[query.select_scored(score[rest], 20)])
            log_proba.append(query.log_proba_)
        sure, left = np.where(everything[:n_labels] < 20, 1.0, 0.1), np.setdiff1d(everything, rows)
        picks = Picks(rows, np.concatenate(log_proba), everything, 500, sure, 1)
        sample = _Sample(picks, rows, weight / weight.mean(), np.zeros(n_labels, bool), None, 1.0)
        low, high = sample.accuracy(right[rows].astype(float), 0.0)[1:]
        hits += low <= np.average(right[left], weights=weight[left]) <= high
    assert hits >= stats.binom.ppf(0.001, n_runs, 0.93)


def picks_and_pool(campaign):
    picks = picks_of(campaign._store.batches(), campaign._store.events(), campaign._state())
    return len(picks.rows), picks.n_pool


def test_picks_end_with_the_last_answer_and_are_none_under_limits(tmp_path):
    campaign, _ = campaign_with_labels(tmp_path, 0, 2)
    limits = Limits(groups=np.arange(500) % 2, max_per_group=20)
    campaign.tell(dict.fromkeys(campaign.ask(30, limits=limits).index, "b"))
    assert picks_and_pool(campaign) == (40, 500)
    campaign, truth = campaign_with_labels(tmp_path, 1, 0)
    ids = campaign.ask(50).index.tolist()
    campaign.tell({id: truth[id] for id in ids[1:48:2]})
    assert picks_and_pool(campaign) == (48, 500)  # 24 of them open, and two behind these
    found = campaign.status(report=False).accuracy
    assert (found.n_labels, found.n_open, found.n_rows) == (24, 24, 476)
    assert "24 waiting among these, counted as wrong for the lower end and as right for the upper one" in str(found)
    campaign.tell({id: truth[id] for id in ids[:48:2]})
    closed = campaign.status(report=False).accuracy
    assert closed.high - closed.low < found.high - found.low


def test_picks_begin_anew_where_rows_come_in_from_elsewhere(tmp_path):
    campaign, _ = campaign_with_labels(tmp_path, 0, 1, label=lambda x, rng: np.full(500, "b"))  # uniform draws
    first, *others = (id for id in range(500) if id not in set(campaign.history()["id"]))
    campaign.tell({first: "b"}, unasked=True)
    batch = campaign.ask(30)
    campaign.tell(dict.fromkeys(batch.index, "b"))
    assert picks_and_pool(campaign) == (30, 479)
    campaign.withdraw(batch.index[:1])  # and another row comes for it: the pool is as large as before
    campaign.tell({next(id for id in others if id not in batch.index): "b"}, unasked=True)
    campaign.tell(dict.fromkeys(campaign.ask(40).index, "b"))
    assert picks_and_pool(campaign) == (40, 449)


def test_uniform_draws_count_rather_than_more_picks_after_rows_came_and_the_rows_are_named(tmp_path):
    campaign, truth = campaign_with_labels(tmp_path, 0, 2)
    frame = campaign.to_frame().reset_index()
    frame = pd.concat([frame, frame.assign(id=frame["id"] + 500, y=None)])
    campaign = Campaign.open(campaign.path, frame, model=LogisticRegression())
    campaign.tell({id: truth[id % 500] for id in campaign.ask(60).index})
    found = campaign.status(report=False).accuracy
    assert (found.n_labels, found.n_apart, found.first_batch, found.is_of_table) == (40, 60, 1, False)
    rows, said = f"{found.n_rows} rows", str(found)
    assert f"for the {rows} without a label that were there before batch 1, not for later ones" in said
    assert "of the model on these and the 100 labelled rows" in said
    assert "60 not counted: from batches before or after rows were added, withdrawn or labelled unasked" in said
    assert f"and what is left of these {rows}: 'b': 44" in said


def test_accuracy_after_a_typical_batch_says_what_counts_and_tells_a_value_once_the_interval_is_narrow(tmp_path):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"id": range(400), "a": rng.normal(size=400), "b": rng.normal(size=400), "y": None})
    truth = np.select([frame["a"] > 0.5, frame["b"] > 0], ["x", "y"], "z")
    given = {"target": "y", "id": "id", "model": LogisticRegression(), "random_state": 0}
    campaign = Campaign.start(tmp_path / "c.db", frame, first="typical", **given)
    campaign.tell({id: truth[id] for id in campaign.ask(10).index})
    for n_batches in (2, 6):
        for _ in range(n_batches):
            campaign.tell({id: truth[id] for id in campaign.ask(15).index})
        found = campaign.status(report=False).accuracy
        assert (found.n_uncounted, found.first_batch, found.n_overall) == (10, 2, 400)
        assert "10 not counted: chosen as typical, under limits or as the top of a ranking" in str(found)
        assert found.is_told == (found.high - found.low <= 0.5) == ("Too few labels for a point" not in str(found))
    assert "of the guesses for the 270 rows without a label, " in str(found)
    assert "From 120 labels" in str(found)


def grouped(folder, seed, n_groups=40, **columns):
    """A campaign on 400 rows in groups, whose labels are mostly those of their group, and the labels."""
    rng = np.random.default_rng(seed)
    of_row = np.arange(400) % n_groups
    x = rng.normal(size=n_groups)[of_row] + 0.1 * rng.normal(size=400)
    truth = np.where(x + rng.normal(size=n_groups)[of_row] > 0, "a", "b")
    frame = pd.DataFrame({"id": range(400), "x": x, "site": of_row, "w": 1.0 + of_row % 3, "y": None})
    given = {"target": "y", "id": "id", "model": LogisticRegression(), "random_state": seed, **columns}
    campaign = Campaign.start(folder / f"{seed}{'-'.join(columns)}.db", frame, **given)
    for _ in range(4):
        campaign.tell({id: truth[id] for id in campaign.ask(25).index})
    return campaign, frame, truth


def test_groups_and_weights_are_no_features_and_stay_in_the_table(tmp_path):
    campaign, frame, _ = grouped(tmp_path, 0, groups="site", weight="w")
    assert campaign.model().feature_names_in_.tolist() == ["x"]
    assert {"site", "w"} <= {*campaign.ask(2).columns} & {*campaign.to_frame(guesses=True).columns}
    found = Campaign.open(campaign.path, frame, model=LogisticRegression()).status(report=False).accuracy
    assert found.groups == "site"
    assert "Each row is judged by a model without labels of its 'site'" in str(found)


def test_errors_that_come_in_groups_widen_the_interval_and_few_groups_leave_none(tmp_path):
    widths = []
    for columns in ({}, {"groups": "site"}):
        found = grouped(tmp_path, 0, **columns)[0].status(report=False).accuracy
        widths.append(found.high - found.low)
    assert widths[1] > 1.2 * widths[0]  # ten rows a group, of which about 2.5 are labelled and err together
    few = grouped(tmp_path, 1, n_groups=8, groups="site")[0].status(report=False).accuracy
    assert (few.low, few.high) == (0, 1)
    assert "An interval needs labels of at least 10 groups" in str(few)


def test_the_accuracy_is_the_mean_with_the_weights(tmp_path):
    campaign, frame, truth = grouped(tmp_path, 0, weight="w")
    campaign.tell(dict(enumerate(truth)), unasked=True)  # all are known: nothing is estimated
    judged, found = campaign._judged(campaign._state()), campaign.status(report=False).accuracy
    right = (judged.out_of_fold["guess"] == truth).to_numpy()
    assert found.value == pytest.approx(np.average(right, weights=frame["w"]))
    assert found.low == pytest.approx(found.high)
    assert "out of fold on all 400 rows, which have a label" in str(found)


def test_weights_that_are_no_numbers_above_0_and_groups_that_miss_are_refused(tmp_path):
    frame = pd.DataFrame({"id": [*"abc"], "x": [1, 2, 3], "w": [1.0, 0.0, 2.0], "g": [1, None, 2], "y": None})
    for message, columns in (
        ("`weight` must be a number above 0 in every row. Got .*0.0.* for 'b'", {"weight": "w"}),
        ("`groups` must have a value in every row. 'b' has none in 'g'", {"groups": "g"}),
        ("`groups` must name a column of `frame` besides id and target. Got 'y'", {"groups": "y"}),
    ):
        with pytest.raises(CampaignError, match=message):
            Campaign.start(tmp_path / "c.db", frame, target="y", id="id", **columns)
    assert list(tmp_path.iterdir()) == []
