"""Draws of models of several outputs: labels, targets, pixels, tokens."""

from __future__ import annotations

import numpy as np
import pytest
import skorch
import torch
from sklearn.datasets import make_multilabel_classification
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from sklearn.linear_model import BayesianRidge, LogisticRegression, Ridge
from sklearn.multiclass import OneVsRestClassifier
from sklearn.multioutput import ClassifierChain, MultiOutputClassifier, MultiOutputRegressor, RegressorChain
from sklearn.neighbors import KNeighborsClassifier
from sklearn.neural_network import MLPClassifier
from torch import nn

from skactive import MCDropoutClassifier, MCDropoutRegressor, sample_posterior
from skactive.posterior import bootstrap, check_posterior
from skactive.posterior._embeddings import embed_by
from skactive.query import score_pool
from skactive.scores import SCORES

X, LABELS = make_multilabel_classification(80, 6, n_classes=3, random_state=0)
X = X.astype(np.float32)
UNEQUAL = np.stack([LABELS.sum(1) % 3, LABELS[:, 0] + 5], axis=1)  # of three classes and of two
TARGETS = np.stack([X[:, 0], 5 * X[:, 1]], axis=1)
IMAGES = np.random.default_rng(0).normal(size=(7, 1, 8, 8)).astype(np.float32)


def rng(seed=0):
    return np.random.default_rng(seed)


class UNet(nn.Module):
    """Two levels, dropout of numbers below and of channels above."""

    def __init__(self, n_classes=3):
        super().__init__()
        torch.manual_seed(0)
        self.top = nn.Sequential(nn.Conv2d(1, 4, 3, padding=1), nn.ReLU())
        self.below = nn.Sequential(nn.MaxPool2d(2), nn.Conv2d(4, 8, 3, padding=1), nn.ReLU(), nn.Dropout(0.3))
        self.up = nn.ConvTranspose2d(8, 4, 2, stride=2)
        self.out = nn.Sequential(nn.ReLU(), nn.Dropout2d(0.2), nn.Conv2d(8, n_classes, 1))

    def forward(self, x):
        top = self.top(x)
        return 5 * self.out(torch.cat([top, self.up(self.below(top))], 1))


class Tokens(nn.Module):
    """Logits of the tokens of a row, classes last."""

    def __init__(self, after=lambda logits: logits):
        super().__init__()
        torch.manual_seed(0)
        self.a, self.drop, self.b, self.after = nn.Linear(1, 8), nn.Dropout(0.3), nn.Linear(8, 4), after

    def forward(self, x):
        return self.after(self.b(self.drop(torch.relu(self.a(x.unsqueeze(-1))))))


class ClassesLast(nn.CrossEntropyLoss):
    def forward(self, logits, y):
        return super().forward(logits.transpose(1, 2), y)


def labels_net(n_outputs=3):
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Dropout(0.5), nn.Linear(16, n_outputs))


def skorch_net(kind, module, **params):
    return kind(module, max_epochs=0, train_split=None, verbose=0, **params).initialize()


CLASSIFIERS = [
    (MultiOutputClassifier(RandomForestClassifier(4, random_state=0)), UNEQUAL),
    (MultiOutputClassifier(KNeighborsClassifier()), UNEQUAL),  # takes weights, and its members do not
    (RandomForestClassifier(4, random_state=0), UNEQUAL),
    (ClassifierChain(LogisticRegression(), random_state=0), LABELS),
    (OneVsRestClassifier(LogisticRegression()), LABELS),
    (MLPClassifier((5,), max_iter=5, random_state=0), LABELS),
    (MCDropoutClassifier((8,), max_epochs=3, random_state=0), LABELS),
]


@pytest.mark.filterwarnings("ignore:.*refitted to resampled", "ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize(("model", "y"), CLASSIFIERS, ids=lambda value: type(value).__name__)
def test_every_kind_of_classifier_of_several_outputs_is_scored_output_by_output(model, y):
    model.fit(X, y)
    training = {"X_training": X, "y_training": y, "random_state": 0}
    drawn = score_pool(model, X, "bald", n_draws=4, **training)["bald"]
    assert drawn.max() > 0
    found, said = score_pool(model, X, "entropy", **training)["entropy"], model.predict_proba(X)
    of_each = said if isinstance(said, list) else [np.stack([1 - p, p], axis=1) for p in said.T]  # or of labels
    expected = np.mean([SCORES["entropy"](p[np.newaxis]) for p in of_each], axis=0)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-6)


def test_draws_of_a_model_for_each_output_are_those_of_each_side_by_side():
    model = MultiOutputClassifier(RandomForestClassifier(4, random_state=0)).fit(X, UNEQUAL)
    draws = sample_posterior(model, None, rng())(X)
    assert draws.shape == (4, 80, 3, 2)
    for output, forest in enumerate(model.estimators_):
        found = draws[:, :, : len(forest.classes_), output]
        np.testing.assert_array_equal(found, sample_posterior(forest, None, rng())(X))
    check_posterior(model, X[:20])


REGRESSORS = [MultiOutputRegressor(BayesianRidge()), RandomForestRegressor(4, random_state=0), RegressorChain(Ridge())]
REGRESSORS += [MCDropoutRegressor((8,), max_epochs=3), skorch_net(skorch.NeuralNetRegressor, labels_net(2))]


@pytest.mark.parametrize("model", REGRESSORS, ids=lambda model: type(model).__name__)
@pytest.mark.filterwarnings("ignore:.*refitted to resampled")
def test_the_score_of_a_row_of_several_targets_is_the_mean_deviation_of_these(model):
    model = model if hasattr(model, "module_") else model.fit(X, TARGETS)
    kept = []

    def by_hand(draws):  # of a user, who need not know of several targets: they are points
        kept.append(np.asarray(draws).reshape(4, 80, 2))
        return np.asarray(draws).std(axis=0)

    training = {"X_training": X, "y_training": TARGETS, "n_draws": 4, "random_state": 0}
    scores = score_pool(model, X, {"std_dev": "std_dev", "by hand": by_hand}, **training)
    np.testing.assert_allclose(scores["std_dev"], kept[0].std(axis=0).mean(axis=1), rtol=1e-5)
    np.testing.assert_allclose(scores["by hand"], scores["std_dev"], rtol=1e-5)
    largest = score_pool(model, X, "std_dev", reduce="max", **training)["std_dev"]
    np.testing.assert_allclose(largest, kept[0].std(axis=0).max(axis=1), rtol=1e-5)


def test_every_resample_of_rows_has_all_classes_of_all_outputs():
    y = np.zeros((30, 2), dtype=int)
    y[0, 0], y[1, 1] = 1, 1  # a resample lacks one of them with probability 0.6
    predict_draws = bootstrap(RandomForestClassifier(1), X[:30], y, 40, rng())
    assert predict_draws(X).shape == (40, 80, 2, 2)
    members = predict_draws.args[0]
    assert all([classes.tolist() for classes in member.classes_] == [[0, 1], [0, 1]] for member in members)


def by_brute_force(module, rows, n_passes, to_probabilities):
    """Probabilities by passes in training mode, of each row by itself: (n_passes, n_rows, n_classes, *outputs)."""
    module.train()
    with torch.no_grad():
        torch.manual_seed(1)
        passes = [torch.cat([to_probabilities(module(row)) for row in rows.split(1)]) for _ in range(n_passes)]
    module.eval()
    return torch.stack(passes).double().numpy()


@pytest.mark.parametrize("kind", ["labels", "pixels"])
def test_draws_have_the_mean_and_the_variance_of_passes_with_dropout(kind):
    if kind == "labels":
        rows, module = torch.from_numpy(X[:4]), labels_net()
        net = skorch_net(skorch.NeuralNetClassifier, module, criterion=nn.BCEWithLogitsLoss)
        expected = by_brute_force(net.module_, rows, 600, lambda z: torch.stack([1 - z.sigmoid(), z.sigmoid()], 1))
    else:
        rows, module = torch.from_numpy(IMAGES[:2, :, :4, :4].copy()), UNet()
        net = skorch_net(skorch.NeuralNetClassifier, module, criterion=nn.CrossEntropyLoss)
        expected = by_brute_force(net.module_, rows, 600, lambda z: z.softmax(1))
    draws = sample_posterior(net, 600, rng())(rows.numpy()).double().numpy()
    assert draws.shape == expected.shape
    # 5 sigma of the difference of two means and of two variances, of 600 each.
    of_both = [draws, expected]
    error = np.sqrt(sum(x.var(axis=0) for x in of_both) / 600)
    np.testing.assert_array_less(np.abs(draws.mean(axis=0) - expected.mean(axis=0)), 5 * error + 1e-9)
    squares = [(x - x.mean(axis=0)) ** 2 for x in of_both]
    error = np.sqrt(sum(square.var(axis=0) for square in squares) / 600)
    np.testing.assert_array_less(np.abs(squares[0].mean(axis=0) - squares[1].mean(axis=0)), 5 * error + 1e-9)


def test_classes_are_on_the_axis_that_the_net_tells_and_else_it_has_to_say_so():
    rows = X[:5]
    expected = sample_posterior(Tokens().eval(), 4, rng())(rows)
    assert tuple(expected.shape) == (4, 5, 4, 6)
    softmax = Tokens(lambda z: z.transpose(1, 2).softmax(1)).eval()
    told = Tokens(lambda z: z.transpose(1, 2)).eval()
    told.class_axis = 1
    named = Tokens(lambda z: {"loss": z.sum(), "logits": z}).eval()  # as the models of transformers return it
    turned = skorch_net(skorch.NeuralNetClassifier, Tokens(), criterion=ClassesLast)
    for module in (softmax, told, named, turned):
        torch.testing.assert_close(sample_posterior(module, 4, rng())(rows), expected)
    of_labels = [
        lambda z: z[..., 0].sigmoid(),
        lambda z: z[..., :1].sigmoid().squeeze(-1),
    ]  # in the same order, at last
    labels, squeezed = (sample_posterior(Tokens(after).eval(), 4, rng())(rows) for after in of_labels)
    assert labels.shape == (4, 5, 2, 6)
    torch.testing.assert_close(labels, squeezed)
    with pytest.raises(ValueError, match=r"attribute `class_axis`.*Got None from this Tokens.*\(1, 4, 6\)"):
        score_pool(Tokens(lambda z: z.transpose(1, 2)).eval(), rows, ["entropy"])
    with pytest.raises(ValueError, match=r"holds the classes.*\(1, 1, 8, 8\).*sigmoid"):
        score_pool(UNet(n_classes=1).eval(), IMAGES, ["entropy"])


def test_blocks_of_images_do_not_depend_on_chunks_and_keep_to_a_bound(monkeypatch):
    monkeypatch.setattr("skactive._dropout._rows._BLOCK_BYTES", 8 * 6 * 3 * 64 * 2)  # two images
    whole, in_chunks = (sample_posterior(UNet().eval(), 6, rng()) for _ in range(2))
    parts = [in_chunks(IMAGES[:2]), in_chunks(IMAGES[2:6]), in_chunks(IMAGES[6:])]  # queries take whole blocks
    torch.testing.assert_close(whole(IMAGES), torch.cat(parts, dim=1), rtol=0, atol=0)
    assert whole.batch_size == in_chunks.batch_size == 2


def test_the_embedding_of_a_row_of_several_outputs_is_the_mean_over_them():
    top = UNet().top
    net = nn.Sequential(top, nn.Dropout(0.1), nn.Conv2d(4, 2, 1)).eval()
    with torch.no_grad():
        np.testing.assert_allclose(embed_by(net)(IMAGES), top(torch.from_numpy(IMAGES)).mean((2, 3)), rtol=1e-5)
