"""Parts of a campaign: row hashes, ids, labels, states, fits, and the accuracy."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.linear_model import LogisticRegression

from skactive import Campaign, StochasticBatchQuery
from skactive.campaign import CampaignError
from skactive.campaign._accuracy import picks_of
from skactive.campaign._labels import converted, kind_of, plain_label, plain_labels
from skactive.campaign._models import MODELS, cross_fitted, fitted_preprocessing, folds_of, named_model
from skactive.campaign._store import RULES, Event, State, index_of, labelled
from skactive.campaign._table import row_hashes, rows_of

# --- row hashes -----------------------------------------------------------------------------------

VALUES = st.one_of(st.none(), st.integers(-9, 9), st.text(max_size=3), st.booleans())
CELLS = st.lists(st.lists(VALUES, min_size=2, max_size=2), min_size=1, max_size=6)


def hashes(columns):
    return row_hashes(pd.DataFrame(columns))


@given(CELLS, st.randoms(use_true_random=False))
def test_a_hash_depends_on_the_row_alone_and_not_on_the_order_of_rows_and_columns(cells, random):
    columns = {"a": [row[0] for row in cells], "b": [row[1] for row in cells]}
    frame = pd.DataFrame(columns, dtype=object)
    order = list(range(len(cells)))
    random.shuffle(order)
    straight = hashes({name: frame[name] for name in ("a", "b")})
    shuffled = hashes({name: frame[name].iloc[order].reset_index(drop=True) for name in ("b", "a")})
    assert shuffled.tolist() == straight[order].tolist()


@given(st.tuples(VALUES, VALUES))
def test_values_that_differ_have_hashes_that_differ(pair):
    a, b = (pd.Series([value, "x"], dtype=object) for value in pair)
    same = pair[0] == pair[1]  # True is 1, as it is in a column of both
    assert (hashes({"a": a})[0] == hashes({"a": b})[0]) == same


def test_swapped_values_of_two_columns_have_another_hash():
    assert hashes({"a": ["x"], "b": ["y"]})[0] != hashes({"a": ["y"], "b": ["x"]})[0]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (pd.Series([1, 2], dtype="int64"), pd.Series([1.0, 2.0])),
        (pd.Series([1, None], dtype="Int64"), pd.Series([1.0, np.nan])),
        (pd.Series([True, False]), pd.Series([True, False], dtype=object)),
        (pd.Series([True, None], dtype="boolean"), pd.Series([True, None], dtype=object)),
        (pd.Series(["a", None]), pd.Series(["a", None], dtype="category")),
        (pd.Series([1, 2]), pd.Series([1, 2], dtype="category")),
        (pd.Series([1, None], dtype="Int64"), pd.Series([1, None], dtype=object)),
        (pd.Series([1.5, 0]), pd.Series([1.5, 0], dtype="Sparse[float64]")),
        (pd.Series([True, False]), pd.Series([1, 0])),
        (pd.Series([2**60, -(2**60)]), pd.Series([2**60, -(2**60)], dtype=object)),
        (pd.Series([0.0, 1]), pd.Series([-0.0, 1])),
        (pd.to_datetime(["2020-01-01", None]).as_unit("s"), pd.to_datetime(["2020-01-01", None]).as_unit("ns")),
    ],
)
def test_one_value_in_two_types_has_one_hash(one, other):
    assert hashes({"a": one}).tolist() == hashes({"a": other}).tolist()


def test_texts_and_numbers_of_one_column_have_the_hashes_of_texts_and_of_numbers():
    mixed = hashes({"a": pd.Series(["x", 1, 2.5, None], dtype=object)})
    assert mixed[[0, 3]].tolist() == hashes({"a": ["x", None]}).tolist()
    assert mixed[[1, 2]].tolist() == hashes({"a": [1.0, 2.5]}).tolist()


def test_arrays_in_cells_have_hashes_of_all_their_elements():
    one, other = np.zeros(10_000), np.zeros(10_000)
    other[5_000] = 1
    assert hashes({"a": pd.Series([one])})[0] != hashes({"a": pd.Series([other])})[0]


def test_whole_numbers_that_no_float_can_tell_apart_have_two_hashes():
    one, other = (hashes({"a": [2**53 + i]})[0] for i in (0, 1))
    assert one != other


# --- ids ------------------------------------------------------------------------------------------

SOME_IDS = st.one_of(
    st.lists(st.text(min_size=1, max_size=4), unique=True, min_size=1, max_size=30),
    st.lists(st.integers(-(10**20), 10**20), unique=True, min_size=1, max_size=30),
)


@given(SOME_IDS, SOME_IDS)
def test_ids_are_found_where_a_list_has_them(ids, others):
    index = index_of(ids)
    assert index.tolist() == ids
    assert rows_of(index, ids[::-1], ()) == list(range(len(ids)))[::-1]
    unknown = [i for i, id in enumerate(others) if id not in ids]
    if unknown:
        with pytest.raises(CampaignError) as caught:
            rows_of(index, others, ())
        assert caught.value.entries == tuple(unknown)


# --- labels ---------------------------------------------------------------------------------------


@given(st.one_of(st.booleans(), st.integers(), st.floats(allow_infinity=False, allow_nan=False), st.text(min_size=1)))
def test_a_plain_label_of_numpy_and_pandas_is_that_of_python(label):
    boxed = pd.Series([label], dtype=object).iloc[0]
    expected = (label.strip() or None) if isinstance(label, str) else label
    assert plain_label(boxed, "a label") == expected
    assert plain_labels(pd.Series([label, None], dtype=object), "y", [0, 1])[1] is None


def test_whole_numbers_beside_a_gap_stay_whole():
    assert plain_labels(pd.Series([1.0, np.nan, 0.0]), "y", range(3)) == [1, None, 0]


@pytest.mark.parametrize(
    ("labels", "kind"),
    [
        ([], "classes"),
        (["a", "b"], "classes"),
        ([True, False], "classes"),
        ([0, 1, 2], "classes"),
        ([0.5, 1], "numbers"),
        (list(range(21)), "numbers"),
        (list(range(20)), "classes"),
    ],
)
def test_numbers_are_to_be_predicted_if_some_are_not_whole_or_there_are_more_than_twenty(labels, kind):
    assert kind_of(labels) == kind


@pytest.mark.parametrize(
    ("label", "known", "expected"),
    [
        ("1", {0, 1}, 1),
        (1, {"0", "1"}, "1"),
        (1.0, {"0", "1"}, "1"),
        ("True", {True, False}, True),
        (0, {True, False}, False),
        ("2.5", {1.5}, 2.5),
        ("a", set(), "a"),
        (2.0, {0, 1}, 2),
    ],
)
def test_a_label_takes_the_type_of_the_others(label, known, expected):
    got = converted(label, known, "classes")
    assert got == expected
    assert type(got) is type(expected)


@pytest.mark.parametrize(("label", "known"), [("a", {0, 1}), ("perhaps", {True}), (2, {True, False})])
def test_a_label_that_cannot_take_the_type_of_the_others_is_refused(label, known):
    with pytest.raises(CampaignError, match="a label must be a"):
        converted(label, known, "classes")


# --- what happened --------------------------------------------------------------------------------


def oracle(start, events, rule):
    """Labels that count, by the definition: one label an annotator, the last one; then the rule."""
    labels = {}
    for row, came in enumerate(start):
        votes = [] if came is None else [("", came)]
        for event in (one for one in events if one.row == row):
            if event.kind == "withdraw":
                votes = []
            if event.kind == "skip":
                votes = [vote for vote in votes if vote[0] != event.annotator]
            if event.kind == "tell":
                votes = [vote for vote in votes if vote[0] != event.annotator] + [(event.annotator, event.label)]
        said = [label for _, label in votes]
        counts = sorted((said.count(label) for label in set(said)), reverse=True)
        if said and rule == "latest":
            labels[row] = said[-1]
        if said and rule == "open" and len(set(said)) == 1:
            labels[row] = said[0]
        if said and rule == "majority" and (len(counts) == 1 or counts[0] > counts[1]):
            labels[row] = max(set(said), key=said.count)
    return labels


EVENTS = st.builds(
    Event,
    kind=st.sampled_from(["ask", "tell", "tell", "tell", "skip", "withdraw"]),
    row=st.integers(0, 3),
    label=st.sampled_from("abc"),
    annotator=st.sampled_from(["", "x", "y"]),
    batch=st.just(1),
)


@given(
    st.lists(st.sampled_from([None, "a", "b"]), min_size=4, max_size=4), st.lists(EVENTS), st.sampled_from(list(RULES))
)
def test_every_row_is_in_one_place_and_has_the_label_of_the_rule(start, events, rule):
    state = State.of(len(start), labelled(start), events, rule)
    assert state.labels == oracle(start, events, rule)
    assert list(state.labels) == sorted(state.labels)
    free = set(np.flatnonzero(state.candidates()).tolist())
    places = [free, set(state.labels) | set(state.out) | set(state.skipped) | set(state.disputed)]
    assert places[0] | places[1] == set(range(4))
    assert not places[0] & places[1]
    assert not set(state.labels) & set(state.disputed)


# --- fits -----------------------------------------------------------------------------------------


@given(st.lists(st.sampled_from("aaab"), min_size=1, max_size=40), st.integers(0, 9))
def test_folds_try_each_row_once_and_fit_to_two_classes(labels, seed):
    y = np.array(labels)
    folds = folds_of(y, "classes", seed)
    counts = np.unique(y, return_counts=True)[1]
    if len(counts) < 2 or counts.min() < 2:
        assert folds is None
        return
    if folds is None:
        assert len(y) < 5  # a fold may take all of one class
        return
    assert sorted(np.concatenate([test for _, test in folds]).tolist()) == list(range(len(y)))
    for fit, test in folds:
        assert not set(fit) & set(test)
        assert len(set(y[fit])) == 2


def test_a_row_is_judged_by_a_model_that_was_not_taught_it():
    # Labels are noise: a model that had seen them would know them, one that has not is right half of the time.
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"x": rng.normal(size=1000)})
    y = rng.choice(["a", "b"], 1000)
    judged = cross_fitted(named_model("forest", fitted_preprocessing(X, "plain", 0), "classes"), X, y, "classes", 0)
    right = int((judged["guess"] == y).sum())
    assert abs(right - 500) < 5 * np.sqrt(250)


@pytest.mark.parametrize("vectorizer", ["plain", "skrub"])
def test_preprocessing_sees_a_row_alone(vectorizer):
    pytest.importorskip("skrub", reason="the extra `tabular` is not installed") if vectorizer == "skrub" else None
    rng = np.random.default_rng(0)
    n = 80
    X = pd.DataFrame(
        {
            "number": np.where(rng.random(n) < 0.2, np.nan, rng.normal(size=n)),
            "city": rng.choice(["Bonn", "Köln", None], n),
            "day": pd.date_range("2020-01-31", periods=n).strftime("%d.%m.%Y"),
            "when": pd.date_range("2020-01-31", periods=n, tz="Europe/Berlin"),
            "flag": rng.choice([True, False, None], n),
            "empty": [None] * n,
        }
    )
    fitted = fitted_preprocessing(X, vectorizer, 0)
    whole = np.asarray(fitted.transform(X))
    alone = np.concatenate([np.asarray(fitted.transform(X.iloc[[i]])) for i in range(n)])
    assert np.isfinite(whole).all()
    np.testing.assert_allclose(alone, whole, rtol=1e-6, atol=1e-6)
    stranger = pd.DataFrame({name: ["?"] for name in X.columns})
    assert np.isfinite(np.asarray(fitted.transform(stranger))).all()


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("kind", ["classes", "numbers"])
def test_models_by_name_give_draws_or_probabilities_to_the_default_query(name, kind):
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"x": rng.normal(size=60), "city": rng.choice(["a", "b"], 60)})
    y = X["x"].to_numpy() if kind == "numbers" else np.where(X["x"] > 0, "p", "n")
    model = named_model(name, fitted_preprocessing(X, "plain", 0), kind).fit(X[:30], y[:30])
    query = StochasticBatchQuery(
        random_state=0, posterior="bootstrap" if (name, kind) == ("boosting", "numbers") else "auto"
    )
    assert len(query.select(model, X, 5, X_training=X[:30], y_training=y[:30])) == 5


# --- accuracy -------------------------------------------------------------------------------------


def campaign_with_labels(folder, seed, n_batches):
    """Rows whose label is a coin beside a threshold, and the accuracy of the last model on all of them."""
    rng = np.random.default_rng(seed)
    n = 500
    frame = pd.DataFrame({"id": range(n), "x": rng.normal(size=n), "z": rng.normal(size=n)})
    truth = np.where(frame["x"] + 0.7 * rng.normal(size=n) > 0, "a", "b")
    campaign = Campaign.start(
        folder / f"{seed}.db", frame.assign(y=None), target="y", id="id", model=LogisticRegression(), random_state=seed
    )
    for _ in range(n_batches):
        campaign.tell({id: truth[id] for id in campaign.ask(20).index})
    right = np.mean(campaign.model().predict(frame[["x", "z"]]) == truth)
    return campaign, right


@pytest.mark.slow
def test_intervals_of_accuracy_hold_as_often_as_they_say(tmp_path):
    hits, values = [], []
    for seed in range(60):
        campaign, right = campaign_with_labels(tmp_path, seed, 5)
        found = campaign.status(report=False).accuracy
        hits.append(found.low <= right <= found.high)
        values.append(found.value - right)
    assert np.mean(hits) >= 0.95 - 5 * np.sqrt(0.95 * 0.05 / 60)
    assert abs(np.mean(values)) < 5 * np.std(values) / np.sqrt(60) + 0.02  # models of four fifths are a bit worse


def test_picks_end_before_the_first_one_without_an_answer(tmp_path):
    campaign, _ = campaign_with_labels(tmp_path, 0, 2)
    ids = campaign.ask(10).index.tolist()
    campaign.tell(dict.fromkeys([ids[0], *ids[2:]], "a"))
    state = campaign._state()
    picks = picks_of(campaign._store.batches(), campaign._store.events(), state)
    assert (len(picks.rows), picks.n_pool) == (41, 500)


def test_picks_begin_anew_where_rows_come_in_from_elsewhere(tmp_path):
    campaign, _ = campaign_with_labels(tmp_path, 0, 1)
    unasked = next(id for id in range(500) if id not in set(campaign.history()["id"]))
    campaign.tell({unasked: "a"}, unasked=True)
    campaign.tell(dict.fromkeys(campaign.ask(30).index, "b"))
    picks = picks_of(campaign._store.batches(), campaign._store.events(), campaign._state())
    assert (len(picks.rows), picks.n_pool) == (30, 479)


def test_picks_under_limits_are_no_picks_of_the_whole_pool(tmp_path):
    from skactive import Limits

    campaign, _ = campaign_with_labels(tmp_path, 0, 2)
    limits = Limits(groups=np.arange(500) % 2, max_per_group=20)
    campaign.tell(dict.fromkeys(campaign.ask(30, limits=limits).index, "b"))
    picks = picks_of(campaign._store.batches(), campaign._store.events(), campaign._state())
    assert (len(picks.rows), picks.n_pool) == (40, 500)


@pytest.mark.parametrize("n_batches", [2, 8])
def test_accuracy_after_a_typical_batch_says_what_counts_and_is_named_once_the_interval_is_narrow(tmp_path, n_batches):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"id": range(400), "a": rng.normal(size=400), "b": rng.normal(size=400), "y": None})
    truth = np.select([frame["a"] > 0.5, frame["b"] > 0], ["x", "y"], "z")
    given = {"target": "y", "id": "id", "model": "logistic", "random_state": 0}
    campaign = Campaign.start(tmp_path / "c.db", frame, labels=["x", "y", "z"], **given)
    for k in (10, *[15] * n_batches):
        campaign.tell({id: truth[id] for id in campaign.ask(k).index})
    found = campaign.status(report=False).accuracy
    assert (found.n_rows, found.n_labels, found.n_uncounted, found.first_batch) == (390, 15 * n_batches, 10, 2)
    why = "Not counted: 10 chosen as typical, under limits or as the top of a ranking"
    assert why in str(found)
    assert (found.n_more > 0) == (found.high - found.low > 0.5) == (n_batches == 2)
    if found.n_more:
        assert str(found).startswith(
            f"too few labels to estimate accuracy (30 that count; about {found.n_more} more needed)"
        )
        assert "%" not in str(found)
    else:
        assert "on the 390 rows that were left before batch 2, from 120 labels" in str(found)
