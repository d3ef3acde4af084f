"""Small fitted models, a pool in every container, and what a query must leave as it was."""

from __future__ import annotations

import numpy as np
import torch
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.ensemble import RandomForestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from skorch import NeuralNetClassifier
from torch import nn

from skactive import MCDropoutClassifier


def table(n_rows=60, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_rows, 4)).astype(np.float32)
    y = np.clip(np.rint(X[:, 0] + 1 + rng.normal(scale=0.3, size=n_rows)), 0, 2).astype(np.int64)
    return X, y


X_TRAIN, Y_TRAIN = table()
LABELS = np.array(["ash", "elm", "oak"])[Y_TRAIN]
X_POOL, _ = table(30, seed=1)


def skorch_net(*layers, **params):
    """A fitted skorch net: deterministic weights, without a training step unless asked for."""
    torch.manual_seed(0)
    params = {"criterion": nn.CrossEntropyLoss, "max_epochs": 0, "train_split": None, "verbose": 0, **params}
    return NeuralNetClassifier(nn.Sequential(*layers), **params).fit(X_TRAIN, Y_TRAIN)


def batch_norm_net(**params):
    layers = nn.Linear(4, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Dropout(0.5), nn.Linear(16, 3)
    return skorch_net(*layers, max_epochs=1, **params)


def make_estimator(kind):
    if kind == "skorch":
        return batch_norm_net()
    forest = RandomForestClassifier(10, max_depth=4, random_state=0)
    return {
        "forest": forest,
        "pipeline": make_pipeline(StandardScaler(), forest),
        "net": MCDropoutClassifier((8,), max_epochs=5, n_draws=5, random_state=0, device="cpu"),
    }[kind].fit(X_TRAIN, LABELS)


class Echo(ClassifierMixin, BaseEstimator):
    """Its draws say of each row what the row says of itself: P(yes) is the first column."""

    def fit(self, X, y=None):
        self.classes_ = np.array(["no", "yes"])
        self.n_features_in_ = np.shape(X)[1]
        return self

    def predict_proba(self, X):
        yes = np.asarray(X, dtype=float)[:, 0]
        return np.stack([1 - yes, yes], axis=-1)

    def predict(self, X):
        return self.classes_[self.predict_proba(X).argmax(axis=1)]

    def sample_posterior(self, n_draws, rng):
        return lambda X: np.repeat(self.predict_proba(X)[None], n_draws or 3, axis=0)


def state_of(module):
    """All that a query must leave as it was: tensors, and what else there is."""
    tensors = {name: value.detach().clone() for name, value in module.state_dict().items()}
    grads = [None if p.grad is None else p.grad.clone() for p in module.parameters()]
    parts = [
        (part.training, len(part._forward_hooks), len(part._forward_pre_hooks), "forward" in vars(part))
        for part in module.modules()
    ]
    return [tensors, grads], [*parts, *((id(p), p.requires_grad) for p in module.parameters())]


def assert_same_state(module, before):
    tensors, others = state_of(module)
    torch.testing.assert_close(tensors, before[0], rtol=0, atol=0, equal_nan=True)
    assert others == before[1]


def first_rows(scores, k, rng, *, beta=1.0):
    return np.arange(k)


def first_law(query):
    """Log-probability that each candidate of the last batch had of being the first pick."""
    return query._batch.law.first_log_proba()


def n_unreachable(query):
    """How many candidates could not be the first pick."""
    return int(np.count_nonzero(first_law(query) == -np.inf))
