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
from architectures import make as make_architecture
from nets import Net, sequential
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import load_diabetes, load_digits, load_iris
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import check_estimator
from skorch import NeuralNetClassifier, NeuralNetRegressor
from skorch.callbacks import Callback, EarlyStopping
from torch import nn

from skactive import MCDropoutClassifier, MCDropoutRegressor
from skactive._dropout import TrainingRandom
from skactive.mc_dropout._training import rows_to_hold_out

SEEDED = {"random_state": 0, "max_epochs": 5, "hidden_layer_sizes": (16,)}
# Weights of k and k copies of a row make different minibatches; scikit-learn excuses its own MLPs from these as well.
EXPECTED_FAILURES = {
    f"check_sample_weight_equivalence_on_{kind}_data": "minibatches and masks differ" for kind in ("dense", "sparse")
}


def iris(n_rows=150):
    X, y = load_iris(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(y))[:n_rows]
    return X[order], y[order]


X, y = iris()
small_classifier = partial(MCDropoutClassifier, **SEEDED)
small_regressor = partial(MCDropoutRegressor, **SEEDED)
BOTH = pytest.mark.parametrize("make", [small_classifier, small_regressor])


def weights(net):
    return torch.cat([p.detach().flatten() for p in net.net_.module_.parameters()]).numpy()


def net_of(n_features=4, n_outputs=3, last=(), batch_norm=False):
    middle = [nn.BatchNorm1d(8)] if batch_norm else []
    with torch.random.fork_rng():  # an instance made here has the same weights in every run
        torch.manual_seed(0)
        return sequential((n_features, 8), *middle, nn.ReLU, 0.5, (8, n_outputs), *last)


@BOTH
@pytest.mark.filterwarnings("ignore")  # the checks feed in what deserves warnings
@pytest.mark.slow
def test_every_check_of_scikit_learn_passes(make):
    # 30 epochs are enough for the checks on quality; with the default 200 they pass as well, in a minute
    net = make.func(max_epochs=30)
    results = check_estimator(net, expected_failed_checks=EXPECTED_FAILURES, on_skip=None, on_fail=None)
    assert [r["check_name"] for r in results if r["status"] == "failed"] == []
    assert Counter(result["status"] for result in results)["passed"] > 50


@pytest.mark.arithmetic
@pytest.mark.parametrize(
    ("make", "seed"), [(small_classifier, np.random.RandomState(3)), (small_regressor, np.random.default_rng(3))]
)
def test_equal_seeds_give_equal_bits_and_other_seeds_other_nets(make, seed):
    first = make(random_state=copy.deepcopy(seed), early_stopping=True).fit(X, y)
    torch.rand(3)  # what the global generator has done in between is of no account
    second = make(random_state=copy.deepcopy(seed), early_stopping=True).fit(X, y)
    np.testing.assert_array_equal(weights(first), weights(second))
    np.testing.assert_array_equal(first._predict_mean(X), second._predict_mean(X))
    assert np.abs(weights(make().fit(X, y)) - weights(first)).max() > 0.01


def test_fits_in_threads_are_those_of_one_thread_and_leave_the_number_of_threads(global_state_untouched):
    one_by_one = [small_classifier(random_state=seed).fit(X, y) for seed in range(3)]
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        at_once = joblib.Parallel(n_jobs=3, backend="threading")(
            joblib.delayed(small_classifier(random_state=seed).fit)(X, y) for seed in range(3)
        )
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)
    for first, second in zip(one_by_one, at_once, strict=True):
        np.testing.assert_array_equal(weights(first), weights(second))


def test_torch_settings_of_the_caller_do_not_matter():
    plain = small_classifier().fit(X, y)
    torch.set_default_dtype(torch.float64)
    try:
        with torch.no_grad():
            other = small_classifier().fit(X, y)
    finally:
        torch.set_default_dtype(torch.float32)
    assert other.sample_posterior(2, np.random.default_rng(0))(X).dtype == torch.float32
    np.testing.assert_allclose(other.predict_proba(X), plain.predict_proba(X), atol=0.2)


RANDOM = ["LSTM, packed sequences of one length", "multi-head attention, rows second", "randomised leaky ReLU", "lazy"]


@pytest.mark.parametrize("name", RANDOM)
def test_all_that_is_random_in_training_comes_from_the_random_state(name, global_state_untouched):
    module, X = make_architecture("MLP" if name == "lazy" else name)
    module = sequential(nn.LazyLinear(8), 0.5, nn.LazyLinear(3)) if name == "lazy" else module
    nets = [small_classifier(module=module, early_stopping=True, max_epochs=2) for _ in range(2)]
    X, y = X.repeat(4, *[1] * (X.ndim - 1)).numpy(), np.arange(20) % 3
    first, second = (net.fit(X, y).partial_fit(X, y) for net in nets)
    np.testing.assert_array_equal(weights(first), weights(second))
    np.testing.assert_array_equal(first.predict_proba(X), second.predict_proba(X))
    assert len(first.embed(X)) == 20
    assert first.sample_proba(X, 5).std(axis=0).mean() > 1e-3


def test_training_masks_differ_by_row_and_keep_the_mean_also_in_place():
    seen = []

    def remembered(m, x):
        kept = torch.ones(len(x), 1000)
        torch.dropout_(kept, 0.2, m.training)
        if m.training and len(x) > 1:  # a single row is looked at afterwards, to learn what is random
            seen.append(kept)
        return m.head(kept * x.mean())

    small_classifier(module=lambda: Net(remembered, head=(1000, 2)), max_epochs=3, batch_size=-1).fit(X, y % 2)
    kept = torch.cat(seen)
    assert set(kept.unique().tolist()) == {0.0, 1.25}
    # 450,000 numbers of mean 1 and standard deviation 0.5: five standard errors are 0.004
    assert abs(float(kept.mean()) - 1) < 0.004
    assert len(kept.unique(dim=0)) == len(kept)


@pytest.mark.parametrize("layer", [nn.AlphaDropout, nn.FeatureAlphaDropout, nn.Dropout1d])
def test_training_masks_of_other_dropout_layers_are_those_of_torch(layer):
    x = torch.full((4000, 5, 3), 0.7)
    with TrainingRandom(np.random.default_rng(0)):
        ours = layer(0.3).train()(x)
    torch.testing.assert_close(ours.unique(), layer(0.3).train()(x).unique())
    assert bool((ours[:, :, 0] == ours[:, :, 1]).all()) is (layer is not nn.AlphaDropout)
    # 20,000 or more independent masks: five standard errors of the share are 0.016
    assert abs(float((ours == ours.max()).double().mean()) - 0.7) < 0.02


@pytest.mark.parametrize(("make", "early_stopping"), [(small_classifier, True), (small_regressor, False)])
def test_copies_predict_the_same_bits(make, early_stopping, tmp_path):
    net = make(early_stopping=early_stopping).fit(X, y)
    joblib.dump(net, tmp_path / "net.joblib")
    copies = [pickle.loads(pickle.dumps(net)), joblib.load(tmp_path / "net.joblib"), copy.deepcopy(net)]
    for twin in [*copies, clone(net).fit(X, y)]:
        np.testing.assert_array_equal(twin.predict(X), net.predict(X))
        np.testing.assert_array_equal(twin._sample(X, 7), net._sample(X, 7))
    copies[0].partial_fit(X, y)
    np.testing.assert_array_equal(weights(copies[0]), weights(net.partial_fit(X, y)))


BASE = np.array([[0.5, -1.25, 2.0], [1.0, 0.0, -0.75], [3.5, 2.25, -2.0], [0.0, 4.0, 1.5]])
CONTAINERS = {
    "data frame": pd.DataFrame(BASE, columns=["a", "b", "c"], index=[7, 7, 3, 1]),
    "sparse": sparse.csr_matrix(BASE),
    "tensor": torch.tensor(BASE),
}


def test_the_same_numbers_get_the_same_answer_from_any_container():
    y = [0, 1, 0, 1]
    plain = small_classifier().fit(BASE, y)
    for name, rows in CONTAINERS.items():
        other = small_classifier().fit(rows, y)
        np.testing.assert_array_equal(weights(plain), weights(other), err_msg=name)
        np.testing.assert_array_equal(plain.predict_proba(BASE), other.predict_proba(rows), err_msg=name)


def test_columns_are_checked_also_of_embeddings_draws_and_warm_starts():
    X, y = load_iris(return_X_y=True, as_frame=True)
    net = small_classifier(warm_start=True).fit(X, y)
    for call in (net.embed, net.sample_posterior(2, np.random.default_rng(0)), partial(net.fit, y=y)):
        with pytest.raises(ValueError, match="feature names should match"):
            call(X.rename(columns=str.upper))


def test_images_go_to_a_module_and_only_there():
    X, y = load_digits(return_X_y=True)
    X, y = (X / 16).reshape(-1, 1, 8, 8)[:200], y[:200]

    def small_images(n_features_in, n_outputs, width):
        layers = nn.Conv2d(n_features_in, width, 3), nn.Dropout2d(0.3), nn.AdaptiveAvgPool2d(1), nn.Flatten
        return sequential(*layers, (width, n_outputs))

    net = small_classifier(module=small_images, module_params={"width": 6}).fit(X, y)
    assert (net.predict_proba(X).shape, net.embed(X).shape, net.n_features_in_) == ((200, 10), (200, 6), 1)
    with pytest.raises(ValueError, match=r"`X` must be 2-dimensional"):
        small_classifier().fit(X, y)


def test_labels_of_any_kind_come_back():
    expected = small_classifier().fit(X, y).predict(X)
    for names in (np.array([-1, 7, 30]), np.array(["a", "b", "c"], dtype=object)):  # sorted: class i is names[i]
        predicted = small_classifier().fit(X, names[y]).predict(X)
        np.testing.assert_array_equal(predicted, names[expected])
        assert predicted.dtype == names.dtype
    assert list(small_classifier().fit(X, pd.Series(names[y], dtype="string")).classes_) == ["a", "b", "c"]
    assert small_classifier().fit(X, y == 0).predict(X).dtype == bool


def test_declared_classes_get_columns_and_one_class_or_others_are_refused():
    known = y < 2
    net = small_classifier(classes=[3, 0, 1, 2], max_epochs=60).fit(X[known], y[known])
    np.testing.assert_array_equal(net.classes_, [0, 1, 2, 3])
    assert net.predict_proba(X).shape == (150, 4)
    assert set(net.predict(X[known])) == {0, 1}
    with pytest.raises(ValueError, match=r"`classes` must list every label.*lacks \[2\]"):
        small_classifier(classes=[0, 1]).fit(X, y)
    with pytest.raises(ValueError, match="one class"):
        small_classifier().fit(X, np.zeros(150))
    assert small_classifier(classes=[0, 1]).fit(X, np.zeros(150)).predict_proba(X).shape == (150, 2)


def test_warm_start_goes_on_with_the_classes_it_knows_and_a_cold_start_does_not():
    warm, cold = (small_classifier(warm_start=warm_start).fit(X, y) for warm_start in (True, False))
    first = warm.net_.history[-1]["train_loss"]
    np.testing.assert_array_equal(weights(cold), weights(cold.fit(X, y)))
    for _ in range(10):
        warm.fit(X, y)
    assert warm.net_.history[-1]["train_loss"] < 0.8 * first
    np.testing.assert_array_equal(warm.fit(X[y < 2], y[y < 2]).classes_, [0, 1, 2])


def test_a_fit_that_fails_leaves_the_net_as_it_was():
    net = small_classifier(warm_start=True).fit(X[y < 2], y[y < 2])
    before = net.predict_proba(X)
    for params, rows, labels, message in (
        ({}, X, y, "`classes` must list every label"),
        ({"classes": [0, 1, 2]}, X, y, r"`classes` must stay the same.*Got \[0 1 2\], but \[0 1\] before"),
        ({"warm_start": False, "classes": None}, X[:, :2], np.zeros(150), r"Got one class, 0\.0\."),
    ):
        with pytest.raises(ValueError, match=message):
            net.set_params(**params).fit(rows, labels)
        np.testing.assert_array_equal(net.predict_proba(X), before)
    for name in ("n_draws", "predict_batch_size"):
        with pytest.raises(ValueError, match=f"`{name}` must be an integer, 1 or larger. Got 0"):
            copy.copy(net).set_params(**{name: 0}).predict(X)


@BOTH
def test_partial_fit_trains_one_epoch_goes_on_with_the_history_and_learns(make):
    net = make(lr=1e-2, **{"classes": [0, 1, 2]} if make is small_classifier else {})
    for _ in range(40):
        net.partial_fit(X, y)
    assert net.net_.history[:, "epoch"] == list(range(1, 41))
    assert net.score(X, y) > 0.8
    assert make(early_stopping=True, max_epochs=3).fit(X, y).partial_fit(X[:1], y[:1]).n_iter_ == 4


def test_partial_fit_checks_classes():
    with pytest.raises(ValueError, match=r"`classes` must list all labels.*first call to partial_fit"):
        small_classifier().partial_fit(X, y)
    net = small_classifier().partial_fit(X[y < 2], y[y < 2], classes=[0, 1])
    with pytest.raises(ValueError, match="`classes` must stay the same"):
        net.partial_fit(X, y, classes=[0, 1, 2])


@BOTH
def test_rows_of_weight_zero_are_as_good_as_absent_and_only_proportions_count(make):
    keep = np.arange(150) % 3 > 0
    weighted = make().fit(X, y, sample_weight=keep.astype(float))
    np.testing.assert_array_equal(weights(weighted), weights(make().fit(X[keep], y[keep])))
    w = np.random.default_rng(0).uniform(1, 2, 150)
    first, second = (make().fit(X, y, sample_weight=scale * w) for scale in (1, 1024))
    np.testing.assert_array_equal(weights(first), weights(second))
    with pytest.raises(ValueError, match="`sample_weight` must"):
        make().fit(X, y, sample_weight=-w)


def test_a_row_of_weight_3_is_three_rows():
    X, y = iris(60)
    times = 1 + 2 * (y == 0)
    net = small_classifier(batch_size=-1, dropout=0.0, optimizer="sgd", lr=0.1)
    weighted, plain = clone(net).fit(X, y, sample_weight=times), clone(net).fit(X, y)
    copied = net.fit(np.repeat(X, times, axis=0), np.repeat(y, times))
    np.testing.assert_allclose(weights(weighted), weights(copied), rtol=0, atol=1e-5)
    assert np.abs(weights(weighted) - weights(plain)).max() > 1e-3


def test_class_weights_are_sample_weights():
    X, y = iris(100)
    names, by_count = np.array(["a", "b", "c"])[y], 1 / np.bincount(y)[y]
    given = {"a": 3, "c": 0.5, "not seen yet": 7}
    for class_weight, of_rows in ((given, np.array([3, 1, 0.5])[y]), ("balanced", by_count)):
        by_class = small_classifier(class_weight=class_weight).fit(X, names)
        by_row = small_classifier().fit(X, names, sample_weight=of_rows)
        np.testing.assert_allclose(weights(by_class), weights(by_row), rtol=0, atol=1e-5)


def test_targets_of_any_size_are_learned_alike():
    X, y = load_diabetes(return_X_y=True)
    plain = small_regressor().fit(X, y).predict(X)
    for factor in (2.0**60, 2.0**-60):  # the standardised targets are the same bits
        np.testing.assert_allclose(small_regressor().fit(X, y * factor).predict(X), plain * factor, rtol=1e-12)
    X, _ = iris()
    np.testing.assert_allclose(small_regressor().fit(X, np.full(150, 7.0)).predict(X), 7, atol=1)
    assert np.isfinite(small_regressor().fit(X, np.linspace(-1, 1, 150) * 1e200).predict(X)).all()


def test_targets_near_1e8_keep_their_digits():
    net = small_regressor(max_epochs=60, lr=2e-2).fit(X, y + 1e8)
    assert net.score(X, y + 1e8) > 0.7
    draws = net.sample_posterior(5, np.random.default_rng(0))(X)
    assert draws.dtype == torch.float64
    assert 0 < float(draws.std(0).max()) < 3


def test_a_regression_module_may_return_a_column_or_a_vector_and_no_two_columns():
    ends = (), (nn.Flatten(0),)
    column, vector = (small_regressor(module=net_of(n_outputs=1, last=last)).fit(X, y) for last in ends)
    assert column.sample_y(X, 3).shape == (3, 150)
    np.testing.assert_allclose(column.predict(X), vector.predict(X), rtol=1e-4)
    with pytest.raises(ValueError, match="`module` must return one number"):
        small_regressor(module=net_of(n_outputs=2)).fit(X, y)
    with pytest.raises(TypeError, match="`y` must be an array of real numbers"):
        small_regressor().fit(X, y.astype(str))


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
    strata = np.repeat([0, 1, 2, 3], [50, 20, 2, 1])
    held_out = rows_to_hold_out(strata, np.random.default_rng(0))
    assert held_out.sum() == round(0.2 * 73)
    assert (np.abs(np.bincount(strata[held_out], minlength=4) - [10, 4, 0.4, 0]) <= 1).all()
    assert np.bincount(strata[~held_out]).min() == 1
    with pytest.warns(UserWarning, match="30 training rows leave none to spare"):
        assert rows_to_hold_out(np.arange(30), np.random.default_rng(0)) is None  # each is its class's last row


@pytest.mark.parametrize(
    ("n_rows", "batch_size", "batch_norm", "early_stopping"),
    [(5, 1, False, False), (65, 64, True, False), (17, 16, True, True), (3, -1, True, False)],
)
@pytest.mark.filterwarnings("ignore:`early_stopping`")
def test_tiny_training_sets_train(n_rows, batch_size, batch_norm, early_stopping):
    y = np.arange(n_rows) % 3
    X = np.eye(3)[y] * 3 + 0.3 * np.random.default_rng(n_rows).normal(size=(n_rows, 3))
    module = net_of(n_features=3, batch_norm=batch_norm)
    net = small_classifier(module=module, batch_size=batch_size, early_stopping=early_stopping).fit(X, y)
    np.testing.assert_allclose(net.predict_proba(X) @ np.ones(3), 1, rtol=1e-12)


def test_logits_probabilities_and_log_probabilities_train_the_same_net():
    expected = small_classifier(module=net_of).fit(X, y).predict_proba(X)
    for output, last in (("probabilities", nn.Softmax(-1)), ("log_probabilities", nn.LogSoftmax(-1))):
        net = small_classifier(module=net_of, module_params={"last": (last,)}, output=output).fit(X, y)
        np.testing.assert_allclose(net.predict_proba(X), expected, atol=1e-5, err_msg=output)


@pytest.mark.parametrize(
    ("output", "last", "probability"),
    [
        ("logits", (), torch.sigmoid),
        ("probabilities", (nn.Sigmoid(), nn.Flatten(0)), torch.clone),
        ("log_probabilities", (nn.LogSigmoid(),), torch.exp),
    ],
)
def test_one_column_is_the_second_class(output, last, probability):
    labels, module = np.where(y == 0, "no", "yes"), net_of(n_outputs=1, last=last)
    net = small_classifier(module=module, output=output, lr=1e-2, max_epochs=30).fit(X, labels)
    assert net.score(X, labels) > 0.95
    module = copy.deepcopy(net.net_.module_)
    for layer in module.modules():
        layer.p = 0.0
    plain = small_classifier(module=module, output=output, lr=1e-12, max_epochs=1).fit(X, labels)
    answer = module(torch.tensor(X, dtype=torch.float32)).detach().flatten()
    np.testing.assert_allclose(plain.predict_proba(X)[:, 1], probability(answer), atol=1e-6)


@pytest.mark.parametrize(
    ("output", "last"), [("probabilities", ()), ("log_probabilities", (nn.Softmax(-1),)), ("logits", (nn.Softmax(-1),))]
)
def test_a_module_that_returns_something_else_than_declared_is_refused(output, last):
    with pytest.raises(ValueError, match=f"`output`='{output}' declares"):
        small_classifier(module=net_of(last=last), output=output).fit(X, y)


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"module": net_of(n_outputs=1)}, "`module` must return one column for each of the 3 classes"),
        ({"module": net_of(n_features=7)}, r"`module` failed on float32 rows of shape \(4,\)"),
        ({"module_params": {"n_outputs": 3}, "module": net_of()}, "`module_params` must be None"),
        ({"dropout": 1.0}, "`dropout` must.*Got"),
        ({"optimizer": "sgd", "lr": 1e20, "max_epochs": 20}, "diverged"),
    ],
)
def test_modules_and_parameters_that_do_not_do_are_refused_by_name(params, message):
    with pytest.raises(ValueError, match=message):
        small_classifier(**params).fit(X, y)


def test_an_instance_is_copied_and_trained_on_from_its_weights_but_for_frozen_layers():
    module = net_of()
    before = copy.deepcopy(module.state_dict())
    net = small_classifier(module=module, lr=1e-9, max_epochs=1).fit(X, y)
    for name, value in module.state_dict().items():
        assert torch.equal(value, before[name])
        torch.testing.assert_close(net.net_.module_.state_dict()[name], value)
    assert net.net_.module_ is not module
    assert module.training
    module[0].requires_grad_(False)
    net = small_classifier(module=module).fit(X, y)
    assert torch.equal(net.net_.module_[0].weight, module[0].weight)
    assert not torch.equal(net.net_.module_[-1].weight, module[-1].weight)


def test_classes_and_functions_are_called_with_the_dimensions_they_name():
    for module in (net_of, lambda: net_of(), lambda n_outputs: net_of(4, n_outputs)):
        assert small_classifier(module=module).fit(X, y).predict_proba(X).shape == (150, 3)
    net = small_classifier(module=net_of, module_params={"n_outputs": 3, "batch_norm": True}).fit(X, y)
    assert isinstance(net.net_.module_[1], nn.BatchNorm1d)


def test_the_net_inside_is_a_skorch_net():
    net = small_classifier(max_epochs=40, lr=1e-2).fit(X, np.array(["a", "b", "c"])[y]).net_
    assert isinstance(net, NeuralNetClassifier)
    assert not net.module_.training
    assert (net.predict(X.astype(np.float32)) == y).mean() > 0.9
    assert isinstance(small_regressor().fit(X, y).net_, NeuralNetRegressor)


def test_a_prediction_is_the_mean_of_the_models_own_draws():
    net = small_classifier(n_draws=7).fit(X, y)
    draws = net.sample_proba(X)
    assert (draws.shape, draws.dtype) == ((7, 150, 3), np.float32)
    np.testing.assert_allclose(draws.mean(0, dtype=float), net.predict_proba(X), atol=1e-6)
    np.testing.assert_array_equal(draws, net.sample_proba(X))
    # Several draws go through one product: two roundings of float32 numbers up to 1, ten times over.
    np.testing.assert_allclose(net.sample_proba(X, 9)[:7], draws, rtol=0, atol=2e-6)
    regressor = small_regressor(n_draws=7).fit(X, y)
    np.testing.assert_allclose(regressor.sample_y(X).mean(0), regressor.predict(X), rtol=1e-12)
    assert len(net.sample_posterior(None, np.random.default_rng(0))(X)[:, 0].unique(dim=0)) > 50


@pytest.mark.arithmetic
@BOTH
def test_posterior_draws_are_the_same_functions_for_every_chunking_and_outlive_another_fit(make):
    net, rows = make(hidden_layer_sizes=(100, 100), max_epochs=1).fit(X, y), np.tile(X, (3, 1))
    predict_draws = net.sample_posterior(6, np.random.default_rng(0))
    whole = predict_draws(rows)
    assert whole.dtype == (torch.float32 if make is small_classifier else torch.float64)
    assert whole.shape[:2] == (6, 450)
    for n in (7, 100, 256):
        parts = torch.cat([predict_draws(rows[i : i + n]) for i in range(0, 450, n)], dim=1)
        # Products of 100 float32: sums of rounding errors of 6e-8 each, at thirty times what was seen.
        np.testing.assert_allclose(parts, whole, rtol=1e-5, atol=1e-6)
    assert torch.equal(parts, whole)  # the same blocks
    np.testing.assert_allclose(whole[:, :150], whole[:, 150:300], rtol=1e-5, atol=1e-6)  # duplicates
    net.partial_fit(X, y).fit(X, y * 3)
    assert torch.equal(predict_draws(rows), whole)


@pytest.mark.parametrize("module", [nn.Linear(4, 3), None])
def test_a_net_without_dropout_predicts_but_cannot_be_drawn_from(module):
    net = small_classifier(module=module, dropout=0.0, max_epochs=60, lr=2e-2).fit(X, y)
    assert net.score(X, y) > 0.9
    logits = net.net_.module_(torch.tensor(X, dtype=torch.float32))
    np.testing.assert_allclose(net.predict_proba(X), logits.softmax(-1).detach(), atol=1e-6)
    for call in (net.sample_posterior(3, np.random.default_rng(0)), net.sample_proba):
        with pytest.raises(ValueError, match="dropout layer with a rate above 0"):
            call(X)


def test_an_embedding_is_what_enters_the_last_linear_layer():
    net = small_classifier().fit(X, y)
    expected = net.net_.module_[:2](torch.tensor(X, dtype=torch.float32)).detach()
    assert net.embed(X).dtype == np.float32
    np.testing.assert_allclose(net.embed(X), expected, atol=1e-6)
    without = sequential(nn.Unflatten(1, (1, 4)), 0.5, nn.Conv1d(1, 3, 3), nn.AvgPool1d(2), nn.Flatten)
    with pytest.raises(ValueError, match=r"no single one makes them"):
        small_classifier(module=without).fit(X, y).embed(X)


def test_optimizers_and_activations_learn():
    X, y = iris()
    X, adam = StandardScaler().fit_transform(X), partial(torch.optim.Adam, betas=(0.8, 0.99))
    for optimizer, activation, lr, n_epochs in [(adam, "silu", 0.03, 10), (torch.optim.LBFGS, nn.SELU, 0.3, 5)]:
        net = small_classifier(optimizer=optimizer, activation=activation, lr=lr, max_epochs=n_epochs, dropout=0.1)
        assert net.fit(X, y).score(X, y) > 0.9, optimizer


class CountEpochs(Callback):
    epochs = 0

    def on_epoch_end(self, net, **kwargs):
        self.epochs += 1


@pytest.mark.parametrize(
    ("make", "params", "fit_params"),
    [
        (small_classifier, {"class_weight": {0: 3.0}}, {"sample_weight": np.arange(1.0, 151.0)}),
        (small_classifier, {"optimizer": torch.optim.LBFGS, "lr": 0.1, "max_epochs": 2}, {}),
        (small_regressor, {"dropout": 0.2, "batch_size": -1, "optimizer": "sgd"}, {}),
    ],
    ids=["weighted", "several losses a step", "regressor"],
)
def test_a_callback_that_only_watches_sees_every_epoch_and_changes_nothing(make, params, fit_params):
    count = CountEpochs()
    watched, alone = (make(callbacks=callbacks, **params).fit(X, y, **fit_params) for callbacks in ([count], None))
    np.testing.assert_array_equal(weights(watched), weights(alone))
    assert count.epochs == len(watched.net_.history) == len(alone.net_.history) == alone.n_iter_
    losses = [net.net_.history[:, "train_loss"] for net in (watched, alone)]
    np.testing.assert_allclose(*losses, rtol=1e-12)
    stop = EarlyStopping(monitor="train_loss", threshold=1e9, threshold_mode="abs", patience=2)
    assert make(**params | {"callbacks": [stop], "max_epochs": 50}).fit(X, y).n_iter_ < 5


def test_an_interrupt_from_the_keyboard_is_not_swallowed():
    def interrupted(m, x):
        if m.training:
            raise KeyboardInterrupt
        return m.net(x)

    with pytest.raises(KeyboardInterrupt):
        small_classifier(module=Net(interrupted, net=net_of())).fit(X, y)
