"""The dropout nets as scikit-learn estimators: what they promise beyond `check_estimator`, and that they pass it."""

from __future__ import annotations

import copy
import pickle
from collections import Counter
from functools import partial

import joblib
import numpy as np
import pandas as pd
import pytest
import torch
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import load_diabetes, load_digits, load_iris
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import check_estimator
from skorch import NeuralNetClassifier, NeuralNetRegressor
from skorch.callbacks import Callback, EarlyStopping
from small_models import LABELS, X_POOL, X_TRAIN
from torch import nn
from torch.nn import functional as F

from skactive import MCDropoutClassifier, MCDropoutRegressor

SEEDED = {"random_state": 0, "max_epochs": 5, "hidden_layer_sizes": (16,)}
# Weights of k and k copies of a row make different minibatches; scikit-learn excuses its own MLPs from these as well.
EXPECTED_FAILURES = {
    "check_sample_weight_equivalence_on_dense_data": "minibatches and dropout masks differ",
    "check_sample_weight_equivalence_on_sparse_data": "minibatches and dropout masks differ",
}


def iris(n_rows=150):
    X, y = load_iris(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(y))[:n_rows]
    return X[order], y[order]


def small_classifier(**params):
    return MCDropoutClassifier(**{**SEEDED, **params})


def small_regressor(**params):
    return MCDropoutRegressor(**{**SEEDED, **params})


def weights(net):
    return torch.cat([p.detach().flatten() for p in net.net_.module_.parameters()]).numpy()


def net_of(n_features=4, n_outputs=3, last=(), batch_norm=False):
    middle = [nn.BatchNorm1d(8)] if batch_norm else []
    with torch.random.fork_rng():  # an instance made here has the same weights in every run
        torch.manual_seed(0)
        return nn.Sequential(
            nn.Linear(n_features, 8), *middle, nn.ReLU(), nn.Dropout(0.5), nn.Linear(8, n_outputs), *last
        )


class Flatten1(nn.Module):
    def forward(self, x):
        return x.flatten()


class SmallImages(nn.Module):
    """A net for images of any size, with the dimensions under the names that are filled in."""

    def __init__(self, n_features_in, n_outputs, width=4):
        super().__init__()
        self.features = nn.Sequential(nn.Conv2d(n_features_in, width, 3), nn.Dropout2d(0.3), nn.ReLU())
        self.head = nn.Linear(width, n_outputs)

    def forward(self, x):
        return self.head(F.dropout(self.features(x).mean((2, 3)), 0.5, self.training))


# scikit-learn's checks


@pytest.mark.parametrize("make", [MCDropoutClassifier, MCDropoutRegressor])
@pytest.mark.filterwarnings("ignore")  # the checks feed in what deserves warnings
@pytest.mark.slow
def test_every_check_of_scikit_learn_passes(make):
    # 30 epochs are enough for the checks on quality; with the default 200 they pass as well, in a minute
    results = check_estimator(make(max_epochs=30), expected_failed_checks=EXPECTED_FAILURES, on_skip=None, on_fail=None)
    statuses = Counter(result["status"] for result in results)
    print(make.__name__, dict(statuses))
    assert [r["check_name"] for r in results if r["status"] == "failed"] == []
    assert {r["check_name"] for r in results if r["status"] == "skipped"} <= {"check_array_api_input"}
    assert statuses["passed"] > 50


# Randomness


@pytest.mark.parametrize("make", [small_classifier, small_regressor])
def test_global_random_state_is_untouched(make, global_state_untouched):
    X, y = iris()
    net = make(early_stopping=True).fit(X, y)
    net.partial_fit(X, y)
    net.predict(X)
    net.embed(X)
    net.sample_posterior(3, np.random.default_rng(0))(X)


@pytest.mark.arithmetic
@pytest.mark.parametrize("make", [small_classifier, small_regressor])
@pytest.mark.parametrize("seed", [3, np.random.RandomState(3), np.random.default_rng(3)])
def test_equal_seeds_give_equal_bits(make, seed):
    X, y = iris()
    first = make(random_state=copy.deepcopy(seed), early_stopping=True).fit(X, y)
    torch.rand(3)  # what the global generator has done in between is of no account
    second = make(random_state=copy.deepcopy(seed), early_stopping=True).fit(X, y)
    np.testing.assert_array_equal(weights(first), weights(second))
    np.testing.assert_array_equal(first._predict_mean(X), second._predict_mean(X))


def test_fits_in_threads_are_those_of_one_thread(global_state_untouched):
    X, y = iris()
    one_by_one = [small_classifier(random_state=seed).fit(X, y) for seed in range(6)]
    at_once = joblib.Parallel(n_jobs=3, backend="threading")(
        joblib.delayed(small_classifier(random_state=seed).fit)(X, y) for seed in range(6)
    )
    for first, second in zip(one_by_one, at_once, strict=True):
        np.testing.assert_array_equal(weights(first), weights(second))


def test_torch_settings_of_the_caller_do_not_matter():
    X, y = iris()
    plain = small_classifier().fit(X, y)
    torch.set_default_dtype(torch.float64)
    try:
        with torch.no_grad():
            other = small_classifier().fit(X, y)
    finally:
        torch.set_default_dtype(torch.float32)
    assert other.sample_posterior(2, np.random.default_rng(0))(X).dtype == torch.float32
    np.testing.assert_allclose(other.predict_proba(X).sum(1), plain.predict_proba(X).sum(1))


def test_other_seeds_give_other_nets():
    X, y = iris()
    first, second = (small_classifier(random_state=seed).fit(X, y) for seed in (0, 1))
    assert np.abs(weights(first) - weights(second)).max() > 0.01


@pytest.mark.parametrize(
    "layer",
    [
        lambda: nn.LSTM(4, 5, num_layers=2, dropout=0.5, batch_first=True),
        lambda: nn.GRU(4, 5, num_layers=2, dropout=0.5, batch_first=True),
        lambda: nn.TransformerEncoderLayer(4, 2, dim_feedforward=8, batch_first=True),
        lambda: nn.RReLU(),
    ],
)
def test_layers_with_inner_randomness_are_reproducible_and_leave_global_state_alone(layer, global_state_untouched):
    class Sequences(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = layer()
            self.head = nn.LazyLinear(3)
            self.scale = nn.Parameter(torch.randn(3))

        def forward(self, x):
            out = self.layer(x)
            out = out[0] if isinstance(out, tuple) else out
            noise = 0.1 * torch.randn_like(x) if self.training else 0.0
            return self.head(F.dropout(out[:, -1], 0.5, self.training) + 0 * (x + noise).mean()) * self.scale

    X, y = iris()
    X = np.stack([X, X**2], axis=1)
    first, second = (small_classifier(module=Sequences, max_epochs=2).fit(X, y) for _ in range(2))
    np.testing.assert_array_equal(weights(first), weights(second))


def test_training_masks_differ_by_row_and_keep_the_mean():
    seen = []

    class Remember(nn.Module):
        def __init__(self):
            super().__init__()
            self.head = nn.Linear(1000, 2)

        def forward(self, x):
            kept = F.dropout(torch.ones(len(x), 1000), 0.2, self.training)
            if self.training and len(x) > 1:  # a single row is looked at afterwards, to learn what is random
                seen.append(kept)
            return self.head(kept * x.mean())

    X, y = iris()
    small_classifier(module=Remember, max_epochs=3, batch_size=-1).fit(X, y % 2)
    kept = torch.cat(seen)
    assert set(kept.unique().tolist()) == {0.0, 1.25}
    # 450,000 numbers of mean 1 and standard deviation 0.5: five standard errors are 0.004
    assert abs(float(kept.mean()) - 1) < 0.004
    assert len(kept.unique(dim=0)) == len(kept)


@pytest.mark.parametrize("layer", [nn.AlphaDropout, nn.FeatureAlphaDropout, nn.Dropout1d])
def test_training_masks_of_other_dropout_layers_are_those_of_torch(layer):
    from skactive._dropout import TrainingRandom

    x = torch.full((4000, 5, 3), 0.7)
    with TrainingRandom(np.random.default_rng(0)):
        ours = layer(0.3).train()(x)
    theirs = layer(0.3).train()(x)
    torch.testing.assert_close(ours.unique(), theirs.unique())
    one_mask_a_channel = layer is not nn.AlphaDropout
    assert bool((ours[:, :, 0] == ours[:, :, 1]).all()) is one_mask_a_channel
    # 20,000 or more independent masks: five standard errors of the share are 0.016
    assert abs(float((ours == ours.max()).double().mean()) - 0.7) < 0.02


def test_a_random_layer_of_torch_draws_from_our_generator(global_state_untouched):
    net = net_of()
    net[1] = nn.RReLU(0.1, 0.9)
    first, second = (small_classifier(module=net).fit(*iris()) for _ in range(2))
    np.testing.assert_array_equal(weights(first), weights(second))


def test_thread_count_is_as_before():
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        small_classifier().fit(*iris())
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)


# Copies


@pytest.mark.parametrize("make", [small_classifier, small_regressor])
@pytest.mark.parametrize("early_stopping", [False, True])
def test_copies_predict_the_same_bits(make, early_stopping, tmp_path):
    X, y = iris()
    net = make(early_stopping=early_stopping).fit(X, y)
    joblib.dump(net, tmp_path / "net.joblib")
    copies = [pickle.loads(pickle.dumps(net)), joblib.load(tmp_path / "net.joblib"), copy.deepcopy(net)]
    for twin in [*copies, clone(net).fit(X, y)]:
        np.testing.assert_array_equal(twin.predict(X), net.predict(X))
        np.testing.assert_array_equal(twin._sample(X, 7), net._sample(X, 7))
    copies[0].partial_fit(X, y)
    net.partial_fit(X, y)
    np.testing.assert_array_equal(weights(copies[0]), weights(net))


def test_a_pickle_holds_the_weights_once():
    X, y = iris()
    net = small_classifier(hidden_layer_sizes=(1000,), optimizer="sgd", max_epochs=1, weight_decay=0.1).fit(X, y)
    n_bytes = 4 * len(weights(net))
    assert len(pickle.dumps(net)) < 2.5 * n_bytes  # weights and momentum


# Rows


BASE = np.array([[0.5, -1.25, 2.0], [1.0, 0.0, -0.75], [3.5, 2.25, -2.0], [0.0, 4.0, 1.5]])
CONTAINERS = {
    "float32": BASE.astype(np.float32),
    "float16": BASE.astype(np.float16),
    "object": BASE.astype(object),
    "fortran": np.asfortranarray(BASE),
    "strided": np.repeat(BASE, 2, axis=0)[::2],
    "negative stride": BASE[::-1].copy()[::-1],
    "list": BASE.tolist(),
    "big endian": BASE.astype(">f8"),
    "data frame": pd.DataFrame(BASE, columns=["a", "b", "c"], index=[7, 7, 3, 1]),
    "sparse": sparse.csr_matrix(BASE),
    "sparse array": sparse.coo_array(BASE),
    "tensor": torch.tensor(BASE),
}


@pytest.mark.parametrize("container", CONTAINERS)
def test_the_same_numbers_get_the_same_answer_from_any_container(container):
    y = [0, 1, 0, 1]
    plain = small_classifier().fit(BASE, y)
    other = small_classifier().fit(CONTAINERS[container], y)
    np.testing.assert_array_equal(weights(plain), weights(other))
    np.testing.assert_array_equal(plain.predict_proba(BASE), other.predict_proba(CONTAINERS[container]))


def test_whole_numbers_are_numbers():
    X = np.array([[1, -2, 3], [0, 4, 5]])
    net = small_classifier().fit(X, [0, 1])
    np.testing.assert_array_equal(net.predict_proba(X), net.predict_proba(X.astype(float)))


def test_text_is_refused():
    with pytest.raises(ValueError, match="could not convert"):
        small_classifier().fit(np.array([["1.0", "x", "2"], ["1", "2", "3"]], dtype=object), [0, 1])


@pytest.mark.parametrize("bad", [np.nan, np.inf, 1e300])
def test_what_is_not_finite_in_float32_is_refused(bad):
    X, y = iris()
    net = small_classifier().fit(X, y)
    X[3, 1] = bad
    for call in (lambda: net.predict(X), lambda: clone(net).fit(X, y)):
        with pytest.raises(ValueError, match=r"NaN|infinity"):
            call()
    with pytest.raises(ValueError, match=r"NaN|infinity"):
        small_regressor().fit(iris()[0], np.where(np.arange(150) == 3, bad if bad != 1e300 else np.inf, 0.0))


def test_a_read_only_memory_map_is_read_and_nothing_else(tmp_path):
    X, y = iris()
    pool = np.memmap(tmp_path / "pool", dtype=np.float32, mode="w+", shape=X.shape)
    pool[:] = X
    pool.flush()
    pool = np.memmap(tmp_path / "pool", dtype=np.float32, mode="r", shape=X.shape)
    net = small_classifier().fit(pool, y)
    np.testing.assert_array_equal(net.predict_proba(pool), net.predict_proba(np.array(pool)))


def test_a_module_that_works_in_place_leaves_the_rows_alone():
    X, y = iris()
    X = np.ascontiguousarray(X - 3, dtype=np.float32)
    before = X.copy()
    net = small_classifier(module=nn.Sequential(nn.ReLU(inplace=True), net_of()), max_epochs=2).fit(X, y)
    net.predict(X)
    np.testing.assert_array_equal(X, before)


def test_columns_are_checked_by_number_and_name():
    X, y = load_iris(return_X_y=True, as_frame=True)
    named, bare = small_classifier().fit(X, y), small_classifier().fit(X.to_numpy(), y)
    for method in ("predict", "embed", "sample_proba"):
        with pytest.raises(ValueError, match="feature names should match"):
            getattr(named, method)(X.rename(columns=str.upper))
        with pytest.raises(ValueError, match="3 features"):
            getattr(bare, method)(X.to_numpy()[:, :3])
    with pytest.raises(ValueError, match="3 features"):
        bare.sample_posterior(2, np.random.default_rng(0))(X.to_numpy()[:, :3])


def test_images_go_to_a_module_and_only_there():
    X, y = load_digits(return_X_y=True)
    X = (X / 16).reshape(-1, 1, 8, 8)[:200]
    y = y[:200]
    net = small_classifier(module=SmallImages, module_params={"width": 6}).fit(X, y)
    assert net.predict_proba(X).shape == (200, 10)
    assert net.embed(X).shape == (200, 6)
    assert net.n_features_in_ == 1
    with pytest.raises(ValueError, match=r"`X` must be 2-dimensional.*`module`"):
        small_classifier().fit(X, y)


# Labels


@pytest.mark.parametrize(
    "names",
    [np.array(["setosa", "versicolor", "virginica"]), np.array([30, -1, 7]), np.array(["b", "a", "c"], dtype=object)],
)
def test_labels_of_any_kind_come_back(names):
    X, y = iris()
    net = small_classifier().fit(X, names[y])
    np.testing.assert_array_equal(net.classes_, np.unique(names))
    order = np.argsort(names)  # class i of the plain net is the label names[i]
    assert set(net.predict(X)) <= set(names)
    assert net.predict(X).dtype == names.dtype
    assert len(order) == net.predict_proba(X).shape[1]


def test_truth_values_are_labels():
    X, y = iris()
    net = small_classifier(max_epochs=200).fit(X, y == 0)
    assert net.predict(X).dtype == bool
    assert net.score(X, y == 0) > 0.95


def test_text_in_a_data_frame_column_is_a_label():
    X, y = iris()
    labels = pd.Series(np.array(["x", "y", "z"])[y], dtype="string")
    assert list(small_classifier().fit(X, labels).classes_) == ["x", "y", "z"]


def test_declared_classes_get_columns():
    X, y = iris()
    known = y < 2
    net = small_classifier(classes=[3, 0, 1, 2], max_epochs=60).fit(X[known], y[known])
    np.testing.assert_array_equal(net.classes_, [0, 1, 2, 3])
    assert net.predict_proba(X).shape == (150, 4)
    assert set(net.predict(X[known])) == {0, 1}


def test_a_label_that_was_not_declared_is_refused():
    X, y = iris()
    with pytest.raises(ValueError, match=r"`classes` must list every label.*lacks \[2\]"):
        small_classifier(classes=[0, 1]).fit(X, y)


def test_one_class_is_refused_unless_others_are_declared():
    X, _ = iris()
    with pytest.raises(ValueError, match="one class"):
        small_classifier().fit(X, np.zeros(150))
    assert small_classifier(classes=[0, 1]).fit(X, np.zeros(150)).predict_proba(X).shape == (150, 2)


@pytest.mark.parametrize("make", [small_classifier, small_regressor])
def test_several_targets_are_refused(make):
    X, y = iris()
    with pytest.raises(ValueError, match="y should be a 1d array"):
        make().fit(X, np.column_stack([y, y]))


# Going on from the weights


def test_warm_start_goes_on_and_a_cold_start_does_not():
    X, y = iris()
    warm, cold = (small_classifier(warm_start=warm_start).fit(X, y) for warm_start in (True, False))
    first = warm.net_.history[-1]["batches"][-1]["train_loss"]
    np.testing.assert_array_equal(weights(cold), weights(cold.fit(X, y)))
    for _ in range(10):
        warm.fit(X, y)
    assert warm.net_.history[-1]["batches"][-1]["train_loss"] < 0.8 * first


def test_a_new_class_under_warm_start_is_refused_and_the_net_stays_fitted():
    X, y = iris()
    net = small_classifier(warm_start=True).fit(X[y < 2], y[y < 2])
    before = net.predict_proba(X)
    with pytest.raises(ValueError, match="`classes` must list every label"):
        net.fit(X, y)
    np.testing.assert_array_equal(net.predict_proba(X), before)


def test_known_classes_that_are_missing_now_keep_their_columns():
    X, y = iris()
    net = small_classifier(warm_start=True).fit(X, y)
    net.fit(X[y < 2], y[y < 2])
    np.testing.assert_array_equal(net.classes_, [0, 1, 2])


def test_warm_start_needs_the_same_columns():
    X, y = iris()
    net = small_classifier(warm_start=True).fit(X, y)
    with pytest.raises(ValueError, match="3 features"):
        net.fit(X[:, :3], y)


def test_partial_fit_trains_one_epoch_and_learns():
    X, y = iris()
    net = small_classifier(lr=1e-2)
    for i in range(60):
        net.partial_fit(X, y, classes=[0, 1, 2] if i == 0 else None)
    assert net.n_iter_ == 60
    assert net.score(X, y) > 0.9
    regressor = small_regressor(lr=1e-2)
    for _ in range(60):
        regressor.partial_fit(X, y * 100.0)
    assert regressor.score(X, y * 100.0) > 0.8


def test_partial_fit_follows_fit_also_with_early_stopping():
    X, y = iris()
    net = small_classifier(early_stopping=True, max_epochs=3).fit(X, y)
    assert net.partial_fit(X[:1], y[:1]).n_iter_ == 4


def test_partial_fit_checks_classes():
    X, y = iris()
    with pytest.raises(ValueError, match=r"`classes` must list all labels.*first call to partial_fit"):
        small_classifier().partial_fit(X, y)
    net = small_classifier().partial_fit(X[y < 2], y[y < 2], classes=[0, 1])
    with pytest.raises(ValueError, match=r"`classes` must list every label.*lacks \[2\]"):
        net.partial_fit(X, y)
    with pytest.raises(ValueError, match="`classes` must be the same"):
        net.partial_fit(X, y, classes=[0, 1, 2])
    assert small_classifier(classes=[0, 1, 2]).partial_fit(X[:1], y[:1]).predict_proba(X).shape == (150, 3)


# Weights of rows and classes


@pytest.mark.parametrize("make", [small_classifier, small_regressor])
def test_rows_of_weight_zero_are_as_good_as_absent(make):
    X, y = iris()
    keep = np.arange(150) % 3 > 0
    weighted = make().fit(X, y, sample_weight=keep.astype(float))
    np.testing.assert_array_equal(weights(weighted), weights(make().fit(X[keep], y[keep])))


def test_only_the_proportions_of_sample_weights_count():
    X, y = iris()
    w = np.random.default_rng(0).uniform(1, 2, 150)
    first, second = (small_classifier().fit(X, y, sample_weight=scale * w) for scale in (1, 1024))
    np.testing.assert_array_equal(weights(first), weights(second))


def test_class_weights_are_sample_weights():
    X, y = iris()
    y = np.array(["a", "b", "c"])[y]
    by_class = small_classifier(class_weight={"a": 3, "c": 0.5, "not seen yet": 7}).fit(X, y)
    by_row = small_classifier().fit(X, y, sample_weight=np.select([y == "a", y == "c"], [3, 0.5], 1))
    np.testing.assert_array_equal(weights(by_class), weights(by_row))


def test_balanced_class_weights_help_the_rare_class():
    rng = np.random.default_rng(0)
    y = (np.arange(400) >= 380).astype(int)
    X = rng.normal(size=(400, 2)) + y[:, None]
    recall = [
        (small_classifier(class_weight=class_weight, max_epochs=30).fit(X, y).predict(X)[y == 1] == 1).mean()
        for class_weight in (None, "balanced")
    ]
    assert recall[0] < 0.5 < recall[1]


@pytest.mark.parametrize(
    "bad", [np.full(150, -1.0), np.full(150, np.nan), np.zeros(150), np.ones(149), np.ones((150, 2))]
)
def test_bad_sample_weights_are_refused(bad):
    with pytest.raises(ValueError, match="`sample_weight` must"):
        small_classifier().fit(*iris(), sample_weight=bad)


# Regression


def test_targets_of_any_size_are_learned_alike():
    X, y = load_diabetes(return_X_y=True)
    y = y.astype(np.float64)
    plain = small_regressor().fit(X, y).predict(X)
    # powers of two: the standardised targets are the same bits
    np.testing.assert_allclose(small_regressor().fit(X, y * 2.0**60).predict(X), plain * 2.0**60, rtol=1e-12)
    np.testing.assert_allclose(small_regressor().fit(X, y * 2.0**-60).predict(X), plain * 2.0**-60, rtol=1e-12)


def test_targets_near_1e8_keep_their_digits():
    X, y = iris()
    net = small_regressor(max_epochs=150, lr=1e-2).fit(X, y + 1e8)
    assert net.score(X, y + 1e8) > 0.8
    draws = net.sample_posterior(5, np.random.default_rng(0))(X)
    assert draws.dtype == torch.float64
    assert 0 < float(draws.std(0).max()) < 3


def test_constant_and_enormous_targets_are_predicted():
    X, _ = iris()
    np.testing.assert_allclose(small_regressor().fit(X, np.full(150, 7.0)).predict(X), 7, atol=1)
    huge = small_regressor().fit(X, np.linspace(-1, 1, 150) * 1e200)
    assert np.isfinite(huge.predict(X)).all()


def test_a_regression_module_may_return_a_column_or_a_vector():
    X, y = iris()
    column, vector = (small_regressor(module=net_of(n_outputs=1, last=last)).fit(X, y) for last in [(), (Flatten1(),)])
    assert column.predict(X).shape == (150,)
    assert column.sample_y(X, 3).shape == (3, 150)
    np.testing.assert_allclose(column.predict(X), vector.predict(X), rtol=1e-4)


def test_a_regression_module_with_two_columns_is_refused():
    with pytest.raises(ValueError, match="`module` must return one number"):
        small_regressor(module=net_of(n_outputs=2)).fit(*iris())


# Early stopping and small training sets


def test_early_stopping_stops_and_keeps_the_best_weights():
    X, y = load_digits(return_X_y=True)
    X, y = X[:150] / 16, y[:150]
    net = MCDropoutClassifier(early_stopping=True, lr=2e-2, max_epochs=500, random_state=0).fit(X, y)
    losses = [epoch["valid_loss"] for epoch in net.net_.history]
    assert net.n_iter_ == len(losses) < 500
    assert np.argmin(losses) == len(losses) - 21  # 20 epochs without improvement
    shorter = MCDropoutClassifier(early_stopping=True, lr=2e-2, max_epochs=int(np.argmin(losses)) + 1, random_state=0)
    np.testing.assert_array_equal(weights(net), weights(shorter.fit(X, y)))


def test_validation_rows_are_a_share_of_each_class_and_never_its_last_row():
    from skactive.mc_dropout._training import rows_to_hold_out

    strata = np.repeat([0, 1, 2, 3], [50, 20, 2, 1])
    held_out = rows_to_hold_out(strata, np.random.default_rng(0))
    assert held_out.sum() == round(0.2 * 73)
    assert (np.abs(np.bincount(strata[held_out], minlength=4) - [10, 4, 0.4, 0]) <= 1).all()
    assert np.bincount(strata[~held_out]).min() == 1
    with pytest.warns(UserWarning, match="30 training rows leave none to spare"):
        assert rows_to_hold_out(np.arange(30), np.random.default_rng(0)) is None  # each is its class's last row


@pytest.mark.parametrize("n_rows", [3, 9])
def test_early_stopping_without_rows_to_spare_warns_once(n_rows):
    X, y = np.eye(3)[np.arange(n_rows) % 3], np.arange(n_rows) % 3
    with pytest.warns(UserWarning, match="`early_stopping` needs validation rows") as caught:
        net = small_classifier(early_stopping=True).fit(X, y)
    assert len(caught) == 1
    assert caught[0].filename == __file__
    assert net.n_iter_ == 5


def test_early_stopping_survives_classes_with_one_member():
    X, y = iris()
    y = y.copy()
    y[:4] = [10, 11, 12, 13]
    assert len(small_classifier(early_stopping=True).fit(X, y).classes_) == 7


@pytest.mark.parametrize("early_stopping", [False, True])
@pytest.mark.parametrize(
    ("n_rows", "batch_size", "batch_norm"),
    [(3, 64, False), (4, 64, False), (6, 2, False), (65, 64, True), (17, 16, True), (5, 1, False), (3, -1, True)],
)
@pytest.mark.filterwarnings("ignore:`early_stopping`")
def test_tiny_training_sets_train(n_rows, batch_size, batch_norm, early_stopping):
    y = np.arange(n_rows) % 3
    X = np.eye(3)[y] * 3 + 0.3 * np.random.default_rng(n_rows).normal(size=(n_rows, 3))
    module = net_of(n_features=3, batch_norm=batch_norm)
    net = small_classifier(module=module, batch_size=batch_size, early_stopping=early_stopping).fit(X, y)
    proba = net.predict_proba(X)
    assert proba.shape == (n_rows, 3)
    np.testing.assert_allclose(proba.sum(1), 1, rtol=1e-12)


def test_batch_norm_cannot_train_on_one_row():
    X, y = iris()
    net = small_classifier(module=net_of(batch_norm=True)).fit(X, y)
    with pytest.raises(ValueError, match="more than 1 value per channel"):
        net.partial_fit(X[:1], y[:1])


# What modules return


def test_logits_probabilities_and_log_probabilities_train_the_same_net():
    X, y = iris()
    ends = {"logits": (), "probabilities": (nn.Softmax(-1),), "log_probabilities": (nn.LogSoftmax(-1),)}
    nets = {
        output: small_classifier(module=net_of, module_params={"last": last}, output=output).fit(X, y)
        for output, last in ends.items()
    }
    proba = nets["logits"].predict_proba(X)
    for output in ("probabilities", "log_probabilities"):
        np.testing.assert_allclose(nets[output].predict_proba(X), proba, atol=1e-5)


@pytest.mark.parametrize(
    ("output", "last"),
    [("logits", ()), ("probabilities", (nn.Sigmoid(),)), ("log_probabilities", (nn.LogSigmoid(),))],
)
@pytest.mark.parametrize("flat", [(), (Flatten1(),)])
def test_one_column_is_the_second_class(output, last, flat):
    X, y = iris()
    labels = np.where(y == 0, "no", "yes")
    net = small_classifier(module=net_of(n_outputs=1, last=(*last, *flat)), output=output, lr=1e-2, max_epochs=40)
    net.fit(X, labels)
    proba = net.predict_proba(X)
    assert proba.shape == (150, 2)
    assert net.score(X, labels) > 0.95
    module = copy.deepcopy(net.net_.module_)
    for layer in module.modules():
        layer.p = 0.0
    plain = small_classifier(module=module, output=output, lr=1e-12, max_epochs=1).fit(X, labels)
    answer = module(torch.tensor(X, dtype=torch.float32)).detach().flatten()
    p1 = {"logits": torch.sigmoid, "probabilities": torch.clone, "log_probabilities": torch.exp}[output](answer)
    np.testing.assert_allclose(plain.predict_proba(X)[:, 1], p1, atol=1e-6)


@pytest.mark.parametrize(
    ("output", "last"),
    [
        ("probabilities", ()),
        ("log_probabilities", ()),
        ("log_probabilities", (nn.Softmax(-1),)),
        ("probabilities", (nn.LogSoftmax(-1),)),
        ("logits", (nn.Softmax(-1),)),
    ],
)
def test_a_module_that_returns_something_else_than_declared_is_refused(output, last):
    with pytest.raises(ValueError, match=f"`output`='{output}' declares"):
        small_classifier(module=net_of(last=last), output=output).fit(*iris())


@pytest.mark.parametrize("n_outputs", [1, 2, 4])
def test_a_module_needs_one_column_a_class(n_outputs):
    with pytest.raises(ValueError, match=r"`module` must return one column for each of the 3 classes.*Got"):
        small_classifier(module=net_of(n_outputs=n_outputs)).fit(*iris())


# Modules


def test_an_instance_is_copied_and_trained_on_from_its_weights():
    X, y = iris()
    module = net_of()
    before = copy.deepcopy(module.state_dict())
    net = small_classifier(module=module, lr=1e-9, max_epochs=1).fit(X, y)
    for name, value in module.state_dict().items():
        assert torch.equal(value, before[name])
        torch.testing.assert_close(net.net_.module_.state_dict()[name], value)
    assert net.net_.module_ is not module
    assert module.training


def test_frozen_layers_stay_as_they_are():
    module = net_of()
    module[0].requires_grad_(False)
    net = small_classifier(module=module).fit(*iris())
    assert torch.equal(net.net_.module_[0].weight, module[0].weight)
    assert not torch.equal(net.net_.module_[-1].weight, module[-1].weight)


@pytest.mark.parametrize("module", [net_of, lambda: net_of(), lambda n_outputs: net_of(4, n_outputs), SmallImages])
def test_classes_and_functions_are_called_with_the_dimensions_they_name(module):
    X, y = iris()
    X = X.reshape(-1, 4, 1, 1) * np.ones((3, 3)) if module is SmallImages else X
    assert small_classifier(module=module).fit(X, y).predict_proba(X).shape == (150, 3)


def test_module_params_win_over_dimensions():
    net = small_classifier(module=net_of, module_params={"n_outputs": 3, "batch_norm": True}).fit(*iris())
    assert isinstance(net.net_.module_[1], nn.BatchNorm1d)


def test_a_module_that_fails_is_named():
    with pytest.raises(ValueError, match=r"`module` failed on float32 rows of shape \(4,\)") as caught:
        small_classifier(module=net_of(n_features=7)).fit(*iris())
    assert isinstance(caught.value.__cause__, RuntimeError)


def test_what_makes_no_module_is_refused():
    with pytest.raises(ValueError, match="`module` must make"):
        small_classifier(module=lambda: 3).fit(*iris())


def test_the_net_inside_is_a_skorch_net():
    X, y = iris()
    net = small_classifier(max_epochs=60, lr=1e-2).fit(X, np.array(["a", "b", "c"])[y])
    assert isinstance(net.net_, NeuralNetClassifier)
    assert not net.net_.module_.training
    assert (net.net_.predict(X.astype(np.float32)) == y).mean() > 0.9
    np.testing.assert_allclose(net.net_.predict_proba(X.astype(np.float32)).sum(1), 1, rtol=1e-5)
    assert isinstance(small_regressor().fit(X, y).net_, NeuralNetRegressor)


# Draws


def test_a_prediction_is_the_mean_of_the_models_own_draws():
    X, y = iris()
    net = small_classifier(n_draws=7).fit(X, y)
    draws = net.sample_proba(X)
    assert draws.shape == (7, 150, 3)
    assert draws.dtype == np.float32
    np.testing.assert_allclose(draws.mean(0, dtype=float), net.predict_proba(X), atol=1e-6)
    np.testing.assert_array_equal(draws, net.sample_proba(X))
    # Several draws go through one product: two roundings of float32 numbers up to 1, ten times over.
    np.testing.assert_allclose(net.sample_proba(X, 9)[:7], draws, rtol=0, atol=2e-6)
    regressor = small_regressor(n_draws=7).fit(X, y)
    np.testing.assert_allclose(regressor.sample_y(X).mean(0), regressor.predict(X), rtol=1e-12)


@pytest.mark.arithmetic
@pytest.mark.parametrize("make", [small_classifier, small_regressor])
def test_posterior_draws_are_the_same_functions_for_every_chunking(make):
    X, y = iris()
    net = make(hidden_layer_sizes=(300, 300), max_epochs=1).fit(X, y)
    predict_draws = net.sample_posterior(6, np.random.default_rng(0))
    whole = predict_draws(np.tile(X, (3, 1)))
    assert whole.dtype == (torch.float32 if make is small_classifier else torch.float64)
    assert whole.shape[:2] == (6, 450)
    for n in (1, 7, 100, 256):
        parts = [predict_draws(np.tile(X, (3, 1))[i : i + n]) for i in range(0, 450, n)]
        # Products of 300 float32: sums of rounding errors of 6e-8 each, at ten times what was seen.
        np.testing.assert_allclose(torch.cat(parts, dim=1), whole, rtol=1e-5, atol=1e-6)
    parts = [predict_draws(np.tile(X, (3, 1))[i : i + 256]) for i in range(0, 450, 256)]
    assert torch.equal(torch.cat(parts, dim=1), whole)  # the same blocks
    np.testing.assert_allclose(whole[:, :150], whole[:, 150:300], rtol=1e-5, atol=1e-6)  # duplicates


def test_posterior_draws_differ_and_default_to_100():
    X, y = iris()
    net = small_classifier(hidden_layer_sizes=(64, 64)).fit(X, y)
    draws = net.sample_posterior(None, np.random.default_rng(0))(X)
    assert draws.shape == (100, 150, 3)
    assert len(draws[:, 0].unique(dim=0)) == 100
    np.testing.assert_allclose(draws.sum(-1), 1, atol=1e-6)
    # means of 100 and of 20 draws of one net: within five standard errors of the smaller
    spread = 5 * draws.std(0).numpy() / np.sqrt(20)
    assert (np.abs(draws.mean(0).numpy() - net.predict_proba(X)) < spread + 1e-6).all()


@pytest.mark.parametrize("make", [small_classifier, small_regressor])
def test_drawn_functions_outlive_another_fit(make):
    X, y = iris()
    net = make().fit(X, y)
    predict_draws = net.sample_posterior(3, np.random.default_rng(0))
    before = predict_draws(X)
    net.partial_fit(X, y)
    net.fit(X, y * 3)
    assert torch.equal(predict_draws(X), before)


@pytest.mark.parametrize("module", [nn.Linear(4, 3), lambda: net_of()[:2].append(nn.Linear(8, 3)), None])
def test_a_net_without_dropout_predicts_but_cannot_be_drawn_from(module):
    X, y = iris()
    net = small_classifier(module=module, dropout=0.0, max_epochs=100, lr=1e-2).fit(X, y)
    assert net.score(X, y) > 0.9
    logits = net.net_.module_(torch.tensor(X, dtype=torch.float32))
    np.testing.assert_allclose(net.predict_proba(X), logits.softmax(-1).detach(), atol=1e-6)
    for call in (net.sample_posterior(3, np.random.default_rng(0)), net.sample_proba):
        with pytest.raises(ValueError, match="dropout layer with a rate above 0"):
            call(X)


def test_querying_leaves_the_net_as_it_was():
    X, y = iris()
    net = small_classifier(module=net_of(batch_norm=True)).fit(X, y)
    before = copy.deepcopy(net.net_.module_.state_dict())
    net.predict(X)
    net.embed(X)
    net.sample_posterior(3, np.random.default_rng(0))(X)
    assert all(torch.equal(value, before[name]) for name, value in net.net_.module_.state_dict().items())
    assert all(p.requires_grad for p in net.net_.module_.parameters())
    assert all(not layer._forward_pre_hooks for layer in net.net_.module_.modules())


def test_an_embedding_is_what_enters_the_last_linear_layer():
    X, y = iris()
    net = small_classifier().fit(X, y)
    expected = net.net_.module_[:2](torch.tensor(X, dtype=torch.float32)).detach()
    assert net.embed(X).dtype == np.float32
    np.testing.assert_allclose(net.embed(X), expected, atol=1e-6)


def test_a_net_without_linear_layers_has_no_embedding():
    X, y = iris()
    net = small_classifier(
        module=nn.Sequential(nn.Unflatten(1, (4, 1)), nn.Dropout(), nn.Conv1d(4, 3, 1), nn.Flatten())
    )
    with pytest.raises(ValueError, match=r"no such layer ran"):
        net.fit(X, y).embed(X)


@pytest.mark.parametrize("method", ["predict", "predict_proba", "embed", "sample_proba"])
def test_an_unfitted_net_says_so(method):
    with pytest.raises(NotFittedError):
        getattr(small_classifier(), method)(iris()[0])
    with pytest.raises(NotFittedError):
        small_classifier().sample_posterior(3, np.random.default_rng(0))


# Parameters


@pytest.mark.parametrize(
    ("name", "bad"),
    [
        ("hidden_layer_sizes", (0,)),
        ("hidden_layer_sizes", "ab"),
        ("dropout", 1.0),
        ("dropout", "0.5"),
        ("activation", "rectified"),
        ("module", 3),
        ("module_params", [1]),
        ("lr", 0),
        ("lr", np.nan),
        ("optimizer", "adams"),
        ("weight_decay", -1),
        ("batch_size", 0),
        ("max_epochs", 2.5),
        ("early_stopping", "yes"),
        ("n_draws", True),
        ("warm_start", 2),
        ("device", "gpu"),
        ("device", 3.5),
        ("class_weight", "equal"),
        ("output", "scores"),
        ("predict_batch_size", -1),
        ("callbacks", EarlyStopping()),
        ("random_state", "x"),
    ],
)
def test_a_bad_parameter_is_named_with_the_rule_and_what_was_got(name, bad):
    with pytest.raises((ValueError, TypeError), match=f"`{name}` must.*Got"):
        small_classifier(**{name: bad}).fit(*iris())


def test_an_instance_takes_no_module_params():
    with pytest.raises(ValueError, match="`module_params` must be None"):
        small_classifier(module=net_of(), module_params={"n_outputs": 3}).fit(*iris())


@pytest.mark.skipif(torch.cuda.is_available(), reason="has a CUDA device")
def test_cuda_without_a_device_is_an_error():
    with pytest.raises(ValueError, match=r"`device` must be.*CUDA"):
        small_classifier(device="cuda").fit(*iris())
    assert small_classifier(device="auto").fit(*iris()).net_.device == "cpu"


@pytest.mark.parametrize(
    ("optimizer", "activation"),
    [
        ("adam", "relu"),
        ("adamw", "tanh"),
        ("sgd", "gelu"),
        (torch.optim.RMSprop, nn.SELU),
        (torch.optim.LBFGS, "elu"),
        (partial(torch.optim.Adam, betas=(0.8, 0.99)), "silu"),
    ],
)
def test_optimizers_and_activations_learn(optimizer, activation):
    X, y = iris()
    lr = {"sgd": 0.05, torch.optim.LBFGS: 0.3}.get(optimizer, 0.01)
    net = small_classifier(
        optimizer=optimizer,
        activation=activation,
        lr=lr,
        max_epochs=5 if optimizer is torch.optim.LBFGS else 30,
        dropout=0.1,
    )
    assert net.fit(StandardScaler().fit_transform(X), y).score(StandardScaler().fit_transform(X), y) > 0.9


def test_weight_decay_shrinks_weights():
    X, y = iris()
    plain, decayed = (small_classifier(weight_decay=w, max_epochs=40).fit(X, y) for w in (0.0, 1.0))
    assert np.linalg.norm(weights(decayed)) < 0.7 * np.linalg.norm(weights(plain))


def test_a_learning_rate_that_diverges_is_an_error():
    with pytest.raises(ValueError, match="diverged"):
        small_regressor(optimizer="sgd", lr=1e20, max_epochs=20).fit(*iris())


def test_hidden_layers_may_be_one_number_or_none():
    X, y = iris()
    assert len(small_classifier(hidden_layer_sizes=7).fit(X, y).net_.module_) == 4
    assert len(small_classifier(hidden_layer_sizes=()).fit(X, y).net_.module_) == 1


# Output and callbacks


@pytest.mark.parametrize("early_stopping", [False, True])
def test_nothing_is_printed_unless_asked(early_stopping, capfd):
    X, y = iris()
    small_classifier(early_stopping=early_stopping, max_epochs=30, lr=0.1).fit(X, y).predict(X)
    assert capfd.readouterr() == ("", "")
    small_classifier(early_stopping=early_stopping, verbose=1).fit(X, y)
    assert "train_loss" in capfd.readouterr().out


class CountEpochs(Callback):
    def __init__(self):
        self.epochs = 0

    def on_epoch_end(self, net, **kwargs):
        self.epochs += 1


def test_callbacks_see_every_epoch_and_may_stop_the_training():
    X, y = iris()
    count = CountEpochs()
    net = small_classifier(callbacks=[count], max_epochs=6).fit(X, y)
    assert count.epochs == 6
    assert "train_loss" in net.net_.history[-1]
    stop = EarlyStopping(monitor="train_loss", threshold=1e9, threshold_mode="abs", patience=2)
    assert small_classifier(callbacks=[stop], max_epochs=50).fit(X, y).n_iter_ < 5


@pytest.mark.parametrize(
    ("make", "params", "fit_params"),
    [
        (small_classifier, {}, {}),
        (small_classifier, {"batch_size": -1, "optimizer": "sgd"}, {}),
        (small_classifier, {"class_weight": {0: 3.0}}, {"sample_weight": np.arange(1.0, 151.0)}),
        (small_classifier, {"module": net_of(), "batch_size": 1}, {}),
        (small_classifier, {"module": net_of(), "optimizer": torch.optim.LBFGS, "lr": 0.1, "max_epochs": 2}, {}),
        (small_regressor, {"dropout": 0.2}, {}),
    ],
    ids=["default", "all rows at once", "weighted", "row by row", "several losses a step", "regressor"],
)
def test_a_callback_that_only_watches_changes_nothing(make, params, fit_params):
    X, y = iris()
    watched = make(callbacks=[CountEpochs()], **params).fit(X, y, **fit_params)
    alone = make(**params).fit(X, y, **fit_params)
    np.testing.assert_array_equal(weights(watched), weights(alone))
    assert len(watched.net_.history) == len(alone.net_.history) == alone.n_iter_
    for seen, kept in zip(watched.net_.history, alone.net_.history, strict=True):
        assert seen["batches"] == kept["batches"]
        assert seen["train_loss"] == pytest.approx(kept["train_loss"], rel=1e-12)
        assert {key: seen[key] for key in ("epoch", "train_batch_count")} == {
            key: kept[key] for key in ("epoch", "train_batch_count")
        }


def test_losses_are_recorded_also_where_an_optimizer_does_not_return_them():
    class Silent(torch.optim.SGD):
        def step(self, closure=None):
            super().step(closure)

    net = small_classifier(optimizer=Silent, lr=0.1, max_epochs=20).fit(*iris())
    losses = net.net_.history[:, "train_loss"]
    assert losses[-1] < losses[0]
    assert len(losses) == 20


def test_partial_fit_goes_on_with_the_history():
    X, y = iris()
    net = small_classifier(max_epochs=2).fit(X, y).partial_fit(X, y)
    assert net.net_.history[:, "epoch"] == [1, 2, 3]


def test_an_interrupt_from_the_keyboard_is_not_swallowed():
    class Interrupted(nn.Module):
        def __init__(self):
            super().__init__()
            self.net = net_of()

        def forward(self, x):
            if self.training:
                raise KeyboardInterrupt
            return self.net(x)

    with pytest.raises(KeyboardInterrupt):
        small_classifier(module=Interrupted).fit(*iris())


# Quality


def test_digits_are_learned_in_a_pipeline():
    X, y = load_digits(return_X_y=True)
    net = make_pipeline(StandardScaler(), MCDropoutClassifier(max_epochs=30, random_state=0))
    assert net.fit(X[:1000], y[:1000]).score(X[1000:], y[1000:]) > 0.9


class Packed(nn.Module):
    """A recurrent net of two layers on packed sequences."""

    def __init__(self):
        super().__init__()
        self.layer, self.last = nn.LSTM(2, 4, num_layers=2, dropout=0.5, batch_first=True), nn.Linear(4, 3)

    def forward(self, x):
        lengths = torch.full((len(x),), 2, device="cpu")
        packed = nn.utils.rnn.pack_padded_sequence(x.unflatten(1, (2, 2)), lengths, batch_first=True)
        return self.last(nn.utils.rnn.pad_packed_sequence(self.layer(packed)[0], batch_first=True)[0][:, -1])


class BelowInPlace(nn.Module):
    """Dropout and slopes by the functions that change what they are given, of which nothing is returned."""

    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(4, 16), nn.Linear(16, 3)

    def forward(self, x):
        h = self.a(x)
        torch.rrelu_(h, 0.1, 0.9, self.training)
        torch.dropout_(h, 0.5, self.training)
        return self.b(h)


@pytest.mark.parametrize("module", [Packed, BelowInPlace])
def test_all_that_is_random_in_training_comes_from_the_random_state(module):
    X, y = iris()
    state = torch.get_rng_state()
    fits = [MCDropoutClassifier(module=module, max_epochs=2, random_state=0).fit(X, y) for _ in range(2)]
    assert torch.equal(torch.get_rng_state(), state)
    ours, theirs = (fit.net_.module_.state_dict() for fit in fits)
    assert all(torch.equal(ours[name], theirs[name]) for name in ours)
    assert fits[0].sample_proba(X, 5).std(axis=0).mean() > 1e-3


def test_dropout_in_place_drops_in_training_what_goes_on():
    seen = []

    class Watched(BelowInPlace):
        def forward(self, x):
            h = torch.ones(len(x), 16)
            torch.dropout_(h, 0.5, self.training)
            seen.append(h.unique().tolist())
            return super().forward(x)

    X, y = iris()
    MCDropoutClassifier(module=Watched, max_epochs=1, random_state=0).fit(X, y)
    assert [0.0, 2.0] in seen


@pytest.mark.usefixtures("global_state_untouched")
def test_fitting_a_net_consumes_no_global_random_state():
    net = MCDropoutClassifier((8,), max_epochs=2, random_state=0, device="cpu").fit(X_TRAIN, LABELS)
    assert net.predict_proba(X_POOL).shape == (30, 3)
