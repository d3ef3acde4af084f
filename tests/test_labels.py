"""Labels as users hand them over: every container, by the index of the rows, and none missing, wherever they enter."""

import math

import modAL.models
import numpy as np
import pandas as pd
import pytest
import torch
from modAL.models import ActiveLearner
from sklearn.datasets import load_digits
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression

from skactive import MCDropoutClassifier, StochasticBatchQuery, StoppingReport, run_experiment
from skactive._utils.validation import check_classes, check_labels, check_labels_of, kind_of_labels, plain_labels
from skactive.last_layer import LastLayerClassifier
from skactive.posterior import bootstrap
from skactive.risk import ActiveTester

X, CODES = load_digits(n_class=3, return_X_y=True)
X, CODES = X[:120] / 16, CODES[:120]
NAMES = np.array(["ant", "bee", "cat"])[CODES]
FRAME = pd.DataFrame(X, index=np.arange(120)[::-1] * 7 + 100).add_prefix("pixel")
LABELS = pd.Series(NAMES, index=FRAME.index)
ROUND = {"n_initial": 9, "n_rounds": 1, "batch_size": 4, "n_trials": 1, "random_state": 0}


def strings_of_numpy(values):
    return np.array(list(values), dtype=np.dtypes.StringDType(na_object=np.nan))


TEXT = {
    "array": np.asarray,
    "objects": lambda v: np.array(v, dtype=object),
    "strings of numpy": strings_of_numpy,
    "list": list,
    "Series of categories": lambda v: pd.Series(v, dtype="category"),
    "Arrow strings": lambda v: pd.array(list(v), dtype="str"),
    "nullable strings": lambda v: pd.array(list(v), dtype="string"),
    "frame": lambda v: pd.DataFrame({"label": v}),
}
NUMBERS = {
    "masked array without gaps": lambda v: np.ma.array(v, mask=False),
    "tensor": lambda v: torch.tensor(v),
    "list of tensors": lambda v: list(torch.tensor(v)),
    "nullable Series": lambda v: pd.Series(v, dtype="Int64"),
    "integers of Arrow": lambda v: pd.array(v, dtype="int64[pyarrow]"),
}
CONTAINERS = {f"{name} of text": (wrap, NAMES) for name, wrap in TEXT.items()}
CONTAINERS |= {f"{name} of numbers": (wrap, CODES) for name, wrap in NUMBERS.items()}
FEW = ["list of text", "Series of categories of text", "nullable strings of text", "tensor of numbers"]


def forest():
    return RandomForestClassifier(3, random_state=0)


def test_labels_of_every_container_become_the_same_array():
    for name, (wrap, values) in CONTAINERS.items():
        found = plain_labels(wrap(values))
        assert type(found) is np.ndarray, name
        assert kind_of_labels(found) == kind_of_labels(values), name
        np.testing.assert_array_equal(found.ravel(), values, err_msg=name)


@pytest.mark.parametrize("container", FEW)
def test_a_learner_takes_first_labels_and_more_of_every_container(container):
    wrap, values = CONTAINERS[container]
    for begin, more in [(wrap, np.asarray), (np.asarray, wrap), (wrap, list)]:
        learner = ActiveLearner(forest(), StochasticBatchQuery(random_state=0), X[:40], begin(values[:40]))
        learner.teach(X[40:43], more(values[40:43]))
        assert plain_labels(learner.y_training).tolist() == values[:43].tolist()
    learner.fit(X, wrap(values))
    assert learner.score(X, values) > 0.95


@pytest.mark.parametrize("container", FEW)
def test_experiments_queries_reports_testers_and_nets_take_labels_of_every_container(container):
    wrap, values = CONTAINERS[container]
    model, found = LogisticRegression().fit(X[:40], values[:40]), []
    for convert in (wrap, np.asarray):
        experiment = run_experiment(
            forest(), {"q": StochasticBatchQuery(sampler="uniform")}, X[:80], convert(values[:80]),
            X_test=X[80:], y_test=convert(values[80:]), **ROUND,
        )  # fmt: skip
        given = {"X_training": X[:40], "y_training": convert(values[:40])}
        rows = StochasticBatchQuery(random_state=0).select(model, X[40:], 4, **given)
        report = StoppingReport.from_learner(model, X[40:], random_state=0, **given)
        tester = ActiveTester(StochasticBatchQuery(epsilon=0.5, random_state=0), X[40:])
        tester.tell(convert(values[40:][tester.ask(model, 12)]))
        np.testing.assert_array_equal(tester.labels_, values[40:][tester.indices_])
        found.append(
            [*rows, report.commonest, report.fewest, experiment.rounds[-1].indices, tester.accuracy(model).value]
        )
    assert found[0] == found[1]
    net = MCDropoutClassifier((4,), max_epochs=1, random_state=0)
    np.testing.assert_array_equal(net.fit(X[:12], wrap(values[:12])).classes_, np.unique(values[:12]))


BESIDE_TEXT, NULLABLE = ["ant", math.nan, "bee"], pd.array([1, None, 2], dtype="Int64")
GAPS = [
    *(BESIDE_TEXT, NULLABLE, [1.0, math.inf, 2.0], [1, None, 2]),
    np.array([1, pd.NA, 2], dtype=object),
    [pd.Timestamp("2026"), pd.NaT, pd.Timestamp("2027")],
    np.ma.array([1, 2, 3], mask=[0, 1, 0]),
    strings_of_numpy(["ant", np.nan, "bee"]),
    pd.array(["ant", None, "bee"], dtype="str"),
    pd.Categorical(["ant", None, "bee"]),
    pd.Series(pd.to_datetime(["2026", None, "2027"], format="%Y")),
    pd.DataFrame({"label": ["ant", None, "bee"]}),
    torch.tensor([1.0, math.nan, 2.0]),
]
MISSING = r"must have a finite label for every row\. Got .* in row 1, and 1 such rows in all\. Leave those rows out"


def entries(X, y, n=3):
    """Where labels enter, by the name that they have there; and a learner that is to stay as it was."""
    model = LogisticRegression().fit(FRAME[:40], NAMES[:40])
    query, learner = StochasticBatchQuery(), ActiveLearner(forest(), StochasticBatchQuery(), FRAME[:40], NAMES[:40])
    given = {"X_training": X, "y_training": y}
    return learner, [
        ("y", lambda: run_experiment(forest(), {"q": query}, X, y, n_initial=n, n_rounds=1)),
        ("y_training", lambda: query.select(model, FRAME, **given)),
        ("y_training", lambda: StoppingReport.from_learner(model, FRAME, **given)),
        ("y", lambda: learner.teach(X, y)),
        ("y", lambda: learner.fit(X, y)),
        ("y", lambda: ActiveLearner(forest(), query, X, y)),
    ]


@pytest.mark.parametrize("y", GAPS, ids=lambda y: type(y).__name__)
def test_missing_labels_are_refused_in_every_container(y):
    with pytest.raises(ValueError, match=f"`y` {MISSING}"):
        plain_labels(y)


@pytest.mark.parametrize("y", [BESIDE_TEXT, NULLABLE], ids=["beside text", "nullable"])
def test_missing_labels_are_refused_by_name_wherever_they_enter(y):
    learner, ways = entries(FRAME[:3], y)
    ways += [
        ("y_training", lambda: bootstrap(forest().fit(X, CODES), X[:3], y, 2, np.random.default_rng(0))),
        ("y", lambda: MCDropoutClassifier().fit(X[:3], y)),
        ("y", lambda: LastLayerClassifier().fit(X[:3], y)),
        ("y_test", lambda: run_experiment(forest(), {"q": StochasticBatchQuery()}, X, CODES, X_test=X[:3], y_test=y,
                                          n_initial=3, n_rounds=1)),
    ]  # fmt: skip
    for name, enter in ways:
        with pytest.raises(ValueError, match=f"`{name}` {MISSING}"):
            enter()
    assert len(learner.X_training) == len(learner.y_training) == 40


def test_text_beside_numbers_and_several_labels_a_row_are_refused():
    for mixed in (["ant", 1, "bee"], [True, "yes", False], pd.Series([1, "a", 2])):
        with pytest.raises(ValueError, match="`y` must hold labels of one kind, all text or all numbers"):
            check_labels_of(3, mixed)
    with pytest.raises(ValueError, match=r"`y` must hold one label for each row"):
        check_labels_of(2, [[1, 2], [3]])
    with pytest.raises(ValueError, match="several outputs"):
        check_labels([[1, 2], [3, 4]])
    with pytest.raises(ValueError, match="`classes` must have a finite label"):
        check_classes(np.array([0.0, 1.0]), [0, 1, np.nan])


def shuffled(values):
    return values.sample(frac=1, random_state=0)


def test_labels_in_another_order_are_put_into_that_of_their_rows_in_experiments_queries_and_reports():
    model, found = LogisticRegression().fit(FRAME[:40], NAMES[:40]), []
    for convert in (shuffled, np.asarray):
        result = run_experiment(
            forest(), {"q": StochasticBatchQuery()}, FRAME[:80], convert(LABELS[:80]),
            X_test=FRAME[80:], y_test=convert(LABELS[80:]), **ROUND,
        )  # fmt: skip
        given = {"X_training": FRAME[:40], "y_training": convert(LABELS[:40])}
        rows = StochasticBatchQuery(posterior="bootstrap", n_draws=5, random_state=0).select(
            model, FRAME[40:], 4, **given
        )
        report = StoppingReport.from_learner(model, FRAME[40:], random_state=0, **given)
        found.append([*rows, report.commonest, report.fewest, *((r.indices, r.scores) for r in result.rounds)])
    assert found[0] == found[1]


def test_labels_in_another_order_are_put_into_that_of_their_rows_in_learners():
    learner = ActiveLearner(forest(), StochasticBatchQuery(random_state=0), FRAME[:40], shuffled(LABELS[:40]))
    rows, batch = learner.query(FRAME[40:], n_instances=5)
    learner.teach(batch, LABELS[40:].iloc[np.sort(rows)])
    taught = [*range(40), *(40 + rows)]
    np.testing.assert_array_equal(learner.y_training, NAMES[taught])
    expected = forest().fit(FRAME.iloc[taught], NAMES[taught]).predict(FRAME)
    np.testing.assert_array_equal(learner.predict(FRAME), expected)
    learner.teach(FRAME[40:], shuffled(LABELS[40:]), only_new=True)
    np.testing.assert_array_equal(learner.predict(FRAME), forest().fit(FRAME[40:], NAMES[40:]).predict(FRAME))
    learner.fit(FRAME, shuffled(LABELS))
    np.testing.assert_array_equal(learner.y_training, NAMES)


def test_labels_with_an_index_of_their_own_are_refused():
    learner, ways = entries(FRAME[:40], pd.Series(NAMES[:40]))
    for name, enter in ways:
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


@pytest.mark.parametrize("first", [NAMES[:40], pd.Series(NAMES[:40])], ids=["array", "Series"])
def test_labels_of_another_kind_leave_a_learner_as_it_was(first):
    learner = ActiveLearner(forest(), StochasticBatchQuery(), X[:40], first)
    with pytest.raises(ValueError, match=r"`y` must hold labels of one kind.*Got 'ant' .* and 1"):
        learner.teach(X[:2], [1, 2])
    assert learner.y_training is first
    assert learner.X_training.shape == (40, 64)


def test_no_learner_of_a_committee_keeps_what_another_refuses():
    learners = [ActiveLearner(forest(), X_training=X[:40], y_training=y) for y in (CODES[:40], NAMES[:40])]
    committee = modAL.models.CommitteeRegressor(learners)
    with pytest.raises(ValueError, match="labels of one kind"):
        committee.teach(X[40:42], CODES[40:42])
    assert [(len(learner.X_training), len(learner.y_training)) for learner in learners] == [(40, 40)] * 2
