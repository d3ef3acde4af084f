"""Labels as users hand them over: every container, by the index of the rows, and none missing, wherever they enter."""

import math

import modAL.models
import numpy as np
import pandas as pd
import pytest
import torch
from modAL.models import ActiveLearner
from sklearn.datasets import load_digits
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from sklearn.linear_model import LogisticRegression

from skactive import MCDropoutClassifier, MCDropoutRegressor, StochasticBatchQuery, StoppingReport, run_experiment
from skactive._utils.validation import check_labels, check_labels_of, kind_of_labels, plain_labels
from skactive.last_layer import LastLayerClassifier
from skactive.posterior import bootstrap
from skactive.risk import ActiveTester

X, CODES = load_digits(n_class=3, return_X_y=True)
X, CODES = X[:120] / 16, CODES[:120]
NAMES = np.array(["ant", "bee", "cat"])[CODES]
IDS = np.arange(120)[::-1] * 7 + 100
FRAME = pd.DataFrame(X, index=IDS).add_prefix("pixel")


def strings_of_numpy(values):
    return np.array(list(values), dtype=np.dtypes.StringDType(na_object=np.nan))


TEXT = {
    "array": np.asarray,
    "objects": lambda v: np.array(v, dtype=object),
    "strings of numpy": strings_of_numpy,
    "list": list,
    "tuple": tuple,
    "Series": pd.Series,
    "Series of objects": lambda v: pd.Series(v, dtype=object),
    "Series of categories": lambda v: pd.Series(v, dtype="category"),
    "Arrow strings": lambda v: pd.array(list(v), dtype="str"),
    "nullable strings": lambda v: pd.array(list(v), dtype="string"),
    "categories": pd.Categorical,
    "Index": pd.Index,
    "frame": lambda v: pd.DataFrame({"label": v}),
}
NUMBERS = {
    "array": np.asarray,
    "objects": lambda v: np.array(v, dtype=object),
    "masked array without gaps": lambda v: np.ma.array(v, mask=False),
    "list": lambda v: v.tolist(),
    "tensor": lambda v: torch.tensor(v),
    "list of tensors": lambda v: list(torch.tensor(v)),
    "Series": pd.Series,
    "nullable integers": lambda v: pd.array(v, dtype="Int64"),
    "nullable Series": lambda v: pd.Series(v, dtype="Int64"),
    "integers of Arrow": lambda v: pd.array(v, dtype="int64[pyarrow]"),
    "categories": pd.Categorical,
    "Index": pd.Index,
}
CONTAINERS = [(name, wrap, NAMES) for name, wrap in TEXT.items()] + [(n, w, CODES) for n, w in NUMBERS.items()]
BY_NAME = {f"{name} of {kind_of_labels(values)}": (wrap, values) for name, wrap, values in CONTAINERS}


def flat(labels):
    return plain_labels(labels).ravel().tolist()


def forest():
    return RandomForestClassifier(3, random_state=0)


@pytest.fixture(params=BY_NAME)
def wrapped(request):
    """A function that makes labels of one container, and the values as an array."""
    return BY_NAME[request.param]


def test_labels_of_every_container_become_the_same_array(wrapped):
    wrap, values = wrapped
    found = plain_labels(wrap(values))
    assert type(found) is np.ndarray
    assert kind_of_labels(found) == kind_of_labels(values)
    np.testing.assert_array_equal(found.ravel(), values)


def test_an_experiment_takes_labels_of_every_container(wrapped):
    wrap, values = wrapped
    options = {"n_initial": 9, "n_rounds": 1, "batch_size": 4, "n_trials": 1, "random_state": 0}
    options |= {"X_test": X[80:], "queries": {"q": StochasticBatchQuery(sampler="uniform")}}
    results = [
        run_experiment(forest(), X=X[:80], y=y(values[:80]), y_test=y(values[80:]), **options)
        for y in (wrap, np.asarray)
    ]
    assert [(r.indices, r.scores) for r in results[0].rounds] == [(r.indices, r.scores) for r in results[1].rounds]


@pytest.mark.filterwarnings("ignore:A column-vector y")  # of scikit-learn, for a frame
def test_a_learner_takes_first_labels_and_more_of_every_container(wrapped):
    wrap, values = wrapped
    for begin, more in [(wrap, wrap), (wrap, np.asarray), (np.asarray, wrap), (wrap, list)]:
        learner = ActiveLearner(forest(), StochasticBatchQuery(random_state=0), X[:40], begin(values[:40]))
        learner.teach(X[40:43], more(values[40:43]))
        learner.teach(X[43:46], begin(values[43:46]))
        assert flat(learner.y_training) == values[:46].tolist()
        assert len(learner.query(X[46:], n_instances=2)[0]) == 2
        expected = forest().fit(learner.X_training, plain_labels(learner.y_training).ravel())
        np.testing.assert_array_equal(learner.predict(X), expected.predict(X))
    learner.fit(X, wrap(values))
    assert learner.score(X, values) > 0.95


def test_queries_and_reports_take_labels_of_every_container(wrapped):
    wrap, values = wrapped
    found = []
    for y in (wrap(values[:40]), values[:40]):
        model = LogisticRegression().fit(X[:40], values[:40])
        query = StochasticBatchQuery(random_state=0)
        rows = query.select(model, X[40:], 4, X_training=X[:40], y_training=y)
        report = StoppingReport.from_learner(model, X[40:], X_training=X[:40], y_training=y, random_state=0)
        found.append([*rows, report.best_score])
    assert found[0] == found[1]


def test_a_tester_takes_labels_of_every_container(wrapped):
    wrap, values = wrapped
    model = forest().fit(X[:40], values[:40])
    tester = ActiveTester(StochasticBatchQuery(epsilon=0.5, random_state=0), X[40:])
    tester.tell(wrap(values[40:][tester.ask(model, 12)]))
    np.testing.assert_array_equal(tester.labels_, values[40:][tester.indices_])
    assert tester.accuracy(model).n_labelled == 12


GAPS = {
    "nan": [1.0, math.nan, 2.0],
    "infinity": [1.0, math.inf, 2.0],
    "None": [1, None, 2],
    "NA among objects": np.array([1, pd.NA, 2], dtype=object),
    "NaT": np.array(["2026", "NaT", "2027"], dtype="datetime64[D]"),
    "NaT in a list": [pd.Timestamp("2026"), pd.NaT, pd.Timestamp("2027")],
    "NaN beside text": ["ant", math.nan, "bee"],
    "None beside text": ("ant", None, "bee"),
    "masked": np.ma.array([1, 2, 3], mask=[0, 1, 0]),
    "strings of numpy": strings_of_numpy(["ant", np.nan, "bee"]),
    "Arrow strings": pd.array(["ant", None, "bee"], dtype="str"),
    "nullable strings": pd.array(["ant", None, "bee"], dtype="string"),
    "nullable integers": pd.array([1, None, 2], dtype="Int64"),
    "nullable booleans": pd.array([True, None, False], dtype="boolean"),
    "categories": pd.Categorical(["ant", None, "bee"]),
    "Index": pd.Index(["ant", None, "bee"]),
    "days": pd.Series(pd.to_datetime(["2026", None, "2027"], format="%Y")),
    "frame": pd.DataFrame({"label": ["ant", None, "bee"]}),
    "tensor": torch.tensor([1.0, math.nan, 2.0]),
}
MISSING = r"must have a finite label for every row\. Got .* in row 1, and 1 such rows in all\. Leave those rows out"


@pytest.mark.parametrize("gap", GAPS)
def test_missing_labels_are_refused_by_name(gap):
    y = GAPS[gap]
    model = LogisticRegression().fit(X[:40], CODES[:40])
    learner = ActiveLearner(forest(), StochasticBatchQuery(), X[:40], CODES[:40])
    query = StochasticBatchQuery()
    for name, enter in {
        "y": lambda: run_experiment(forest(), {"q": query}, X[:3], y, n_initial=1, n_rounds=1),
        "y_test": lambda: run_experiment(
            forest(), {"q": query}, X, CODES, X_test=X[:3], y_test=y, n_initial=3, n_rounds=1
        ),
        "y_training": lambda: query.select(model, X, X_training=X[:3], y_training=y),
        "y_training` ": lambda: StoppingReport.from_learner(model, X, X_training=X[:3], y_training=y),
        "y_training`": lambda: bootstrap(model, X[:3], y, 2, np.random.default_rng(0)),
        "y`": lambda: learner.teach(X[:3], y),
        "y` must": lambda: learner.fit(X[:3], y),
        "y` must have": lambda: ActiveLearner(forest(), query, X[:3], y),
    }.items():
        with pytest.raises(ValueError, match=f"`{name.split('`')[0]}` {MISSING}"):
            enter()
    assert learner.X_training.shape == (40, 64)
    assert learner.y_training.shape == (40,)


@pytest.mark.parametrize("net", [MCDropoutClassifier, MCDropoutRegressor, LastLayerClassifier])
@pytest.mark.parametrize("gap", GAPS)
def test_missing_labels_are_refused_by_nets(net, gap):
    with pytest.raises(ValueError, match=f"`y` {MISSING}"):
        net().fit(X[:3], GAPS[gap])


@pytest.mark.parametrize("container", [*TEXT, *(f"{name} of numbers" for name in NUMBERS)])
def test_nets_take_labels_of_every_container(container):
    name = container.removesuffix(" of numbers")
    wrap, values = (TEXT[name], NAMES) if container in TEXT else (NUMBERS[name], CODES)
    if name == "frame":
        pytest.skip("scikit-learn warns of columns")
    net = MCDropoutClassifier((4,), max_epochs=1, random_state=0)
    np.testing.assert_array_equal(net.fit(X[:12], wrap(values[:12])).classes_, np.unique(values[:12]))


MIXED = {
    "list": ["ant", 1, "bee"],
    "objects": np.array([1, "ant", 2], dtype=object),
    "truth": [True, "yes", False],
    "Series": pd.Series([1, "ant", 2]),
}


@pytest.mark.parametrize("mixed", MIXED)
def test_text_beside_numbers_is_refused(mixed):
    with pytest.raises(ValueError, match=r"`y` must hold labels of one kind, all text or all numbers\. Got .* and '"):
        check_labels_of(3, MIXED[mixed])


def test_lists_of_labels_a_row_are_refused():
    with pytest.raises(ValueError, match=r"`y` must hold one label for each row"):
        check_labels_of(2, [[1, 2], [3]])
    with pytest.raises(ValueError, match="several outputs"):
        check_labels([[1, 2], [3, 4]])


# --- labels with an index ---------------------------------------------------------------------------


def shuffled(values):
    return values.sample(frac=1, random_state=0)


LABELS = pd.Series(NAMES, index=IDS)


def test_labels_in_another_order_are_put_into_that_of_their_rows_in_experiments():
    options = {"n_initial": 9, "n_rounds": 1, "batch_size": 4, "n_trials": 1, "random_state": 0}
    options |= {"X_test": FRAME[80:], "queries": {"q": StochasticBatchQuery()}}
    rounds = [
        run_experiment(forest(), X=FRAME[:80], y=y(LABELS[:80]), y_test=y(LABELS[80:]), **options).rounds
        for y in (shuffled, np.asarray)
    ]
    assert [(r.indices, r.scores) for r in rounds[0]] == [(r.indices, r.scores) for r in rounds[1]]


def test_labels_in_another_order_are_put_into_that_of_their_rows_in_learners():
    learner = ActiveLearner(forest(), StochasticBatchQuery(random_state=0), FRAME[:40], shuffled(LABELS[:40]))
    rows, batch = learner.query(FRAME[40:], n_instances=5)
    learner.teach(batch, LABELS[40:].iloc[np.sort(rows)])
    taught = [*range(40), *(40 + rows)]
    np.testing.assert_array_equal(learner.y_training, NAMES[taught])
    np.testing.assert_array_equal(
        learner.predict(FRAME), forest().fit(FRAME.iloc[taught], NAMES[taught]).predict(FRAME)
    )
    learner.fit(FRAME, shuffled(LABELS))
    np.testing.assert_array_equal(learner.y_training, NAMES)


def test_labels_in_another_order_are_put_into_that_of_their_rows_in_queries_and_reports():
    model = LogisticRegression().fit(FRAME[:40], NAMES[:40])
    found = []
    for y in (shuffled(LABELS[:40]), NAMES[:40]):
        given = {"X_training": FRAME[:40], "y_training": y}
        rows = StochasticBatchQuery(posterior="bootstrap", random_state=0).select(model, FRAME[40:], 4, **given)
        report = StoppingReport.from_learner(model, FRAME[40:], random_state=0, **given)
        found.append([*rows, report.best_score])
    assert found[0] == found[1]


def test_labels_with_an_index_of_their_own_are_refused():
    model = LogisticRegression().fit(FRAME[:40], NAMES[:40])
    learner = ActiveLearner(forest(), StochasticBatchQuery(), FRAME[:40], NAMES[:40])
    y = pd.Series(NAMES[:40])
    query = StochasticBatchQuery()
    for name, enter in [
        ("y", lambda: run_experiment(forest(), {"q": query}, FRAME[:40], y, n_initial=3, n_rounds=1)),
        ("y_training", lambda: query.select(model, FRAME, X_training=FRAME[:40], y_training=y)),
        ("y_training", lambda: StoppingReport.from_learner(model, FRAME, X_training=FRAME[:40], y_training=y)),
        ("y", lambda: learner.teach(FRAME[:40], y)),
        ("y", lambda: learner.fit(FRAME[:40], y)),
        ("y", lambda: ActiveLearner(forest(), query, FRAME[:40], y)),
    ]:
        with pytest.raises(ValueError, match=rf"`{name}` must have the index of its rows.*\.to_numpy\(\)"):
            enter()
    assert len(learner.X_training) == len(learner.y_training) == 40


def test_series_of_any_index_label_rows_without_one():
    learner = ActiveLearner(forest(), StochasticBatchQuery(), X[:40], LABELS[:40])
    learner.teach(X[40:43], pd.Series(NAMES[40:43]))
    learner.teach(X[43:45], pd.Series(NAMES[43:45], index=["a", "b"]))
    np.testing.assert_array_equal(learner.y_training, NAMES[:45])


def test_modal_resamples_labels_by_position_whatever_their_index():
    fitted = []
    for y in (NAMES[:40], pd.Series(NAMES[:40], index=np.arange(40)[::-1])):
        np.random.seed(0)  # noqa: NPY002 - the generator of modAL
        learner = ActiveLearner(forest(), StochasticBatchQuery(), X[:40], y, bootstrap_init=True)
        learner.teach(X[:40], y, bootstrap=True)
        learner.teach(X[:40], y, bootstrap=True, only_new=True)
        fitted.append(learner.predict_proba(X))
    np.testing.assert_array_equal(*fitted)


def test_labels_of_new_rows_alone_go_by_the_index_of_these():
    learner = ActiveLearner(forest(), StochasticBatchQuery(), FRAME[:40], LABELS[:40])
    learner.teach(FRAME[40:], shuffled(LABELS[40:]), only_new=True)
    np.testing.assert_array_equal(learner.predict(FRAME), forest().fit(FRAME[40:], NAMES[40:]).predict(FRAME))


# --- what a learner keeps -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "first", [NAMES[:40], NAMES[:40].tolist(), pd.Series(NAMES[:40])], ids=["array", "list", "Series"]
)
def test_labels_of_another_kind_leave_a_learner_as_it_was(first):
    learner = ActiveLearner(forest(), StochasticBatchQuery(), X[:40], first)
    for more in ([1, 2], pd.Series([1, 2]), np.array([1.0, 2.0])):
        with pytest.raises(ValueError, match=r"`y` must hold labels of one kind.*Got 'ant' .* and 1"):
            learner.teach(X[:2], more)
    assert learner.y_training is first
    assert learner.X_training.shape == (40, 64)


@pytest.mark.filterwarnings("ignore:A column-vector y")
def test_a_column_of_labels_stays_one_when_an_array_is_added():
    frame = pd.DataFrame({"label": NAMES[:40]})
    learner = ActiveLearner(
        RandomForestRegressor(3), StochasticBatchQuery(), X[:40], frame.replace({"ant": 0, "bee": 1, "cat": 2})
    )
    learner.teach(X[40:43], CODES[40:43])
    np.testing.assert_array_equal(learner.y_training, CODES[:43, np.newaxis])
    other = pd.DataFrame({"another name": CODES[43:45]})
    learner.teach(X[43:45], other)
    np.testing.assert_array_equal(learner.y_training, CODES[:45, np.newaxis])


def test_no_learner_of_a_committee_keeps_what_another_refuses():
    learners = [ActiveLearner(forest(), X_training=X[:40], y_training=y) for y in (CODES[:40], NAMES[:40])]
    committee = modAL.models.CommitteeRegressor(learners)
    with pytest.raises(ValueError, match="labels of one kind"):
        committee.teach(X[40:42], CODES[40:42])
    assert [len(learner.X_training) for learner in learners] == [40, 40]
    assert [len(learner.y_training) for learner in learners] == [40, 40]
