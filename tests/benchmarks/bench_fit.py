"""Fitting a 64-128-128-10 net to digits, and predicting with it.

All ways take the same number of Adam steps over the same rows. scikit-learn's net has no dropout, so it does less.
"""

from __future__ import annotations

import warnings
from functools import partial

import numpy as np
import torch
from common import bench
from fixed_masks import draws_of
from sklearn.datasets import load_digits
from sklearn.neural_network import MLPClassifier
from skorch import NeuralNetClassifier
from torch import nn

from skactive import MCDropoutClassifier

X, y = load_digits(return_X_y=True)
X = (X / 16).astype(np.float32)


def module():
    hidden = [nn.Linear(64, 128), nn.ReLU(), nn.Dropout(0.5), nn.Linear(128, 128), nn.ReLU(), nn.Dropout(0.5)]
    return nn.Sequential(*hidden, nn.Linear(128, 10))


def fit_ours(n_rows, epochs, batch_size, **params):
    net = MCDropoutClassifier(max_epochs=epochs, batch_size=batch_size, random_state=0, device="cpu", **params)
    return net.fit(X[:n_rows], y[:n_rows])


def fit_torch(n_rows, epochs, batch_size, **adam):
    net = module()
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-3, **adam)
    x, codes = torch.from_numpy(X[:n_rows]), torch.from_numpy(y[:n_rows])
    for _ in range(epochs):
        for rows in torch.randperm(n_rows).split(n_rows if batch_size == -1 else batch_size):
            optimizer.zero_grad()
            nn.functional.cross_entropy(net(x[rows]), codes[rows]).backward()
            optimizer.step()
    return net


def fit_skorch(n_rows, epochs, batch_size):
    net = NeuralNetClassifier(
        module,
        criterion=nn.CrossEntropyLoss,
        optimizer=torch.optim.Adam,
        lr=1e-3,
        max_epochs=epochs,
        batch_size=batch_size,
        train_split=None,
        iterator_train__shuffle=True,
        verbose=0,
    )
    return net.fit(X[:n_rows], y[:n_rows])


def fit_sklearn(n_rows, epochs, batch_size):
    batch_size = n_rows if batch_size == -1 else min(batch_size, n_rows)
    net = MLPClassifier((128, 128), batch_size=batch_size, max_iter=epochs, n_iter_no_change=epochs, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # has not converged
        return net.fit(X[:n_rows], y[:n_rows])


FITS = {
    "skactive": fit_ours,
    "torch loop, default Adam": fit_torch,
    "torch loop, fused Adam": partial(fit_torch, fused=True),
    "skorch": fit_skorch,
    "MLPClassifier of scikit-learn": fit_sklearn,
}


def fits(n_rows, epochs, batch_size):
    for warm_up in FITS.values():
        warm_up(20, 1, -1)  # torch loads some of itself late
    return {name: partial(fit, n_rows, epochs, batch_size) for name, fit in FITS.items()}


for n_rows, epochs, batch_size in [(20, 200, 64), (200, 200, 64), (500, 200, 64), (200, 200, -1)]:
    batches = "all rows at once" if batch_size == -1 else f"batches of {batch_size}"
    bench(
        f"refit, {n_rows} rows, {epochs} epochs, {batches}",
        targets={"torch loop, default Adam": 1.0, "torch loop, fused Adam": 0.5},
    )(partial(fits, n_rows, epochs, batch_size))


@bench("refit, 200 rows, 200 epochs, with what skorch's callbacks take")
def callbacks():
    from skorch.callbacks import Callback

    fit_ours(20, 1, 64)
    watched = partial(fit_ours, 200, 200, 64, callbacks=[Callback()])
    return {"skactive": partial(fit_ours, 200, 200, 64), "a callback that does nothing": watched}


def pool(n_points=100_000):
    return np.random.default_rng(0).standard_normal((n_points, 64), dtype=np.float32)


@bench("predict_proba, 20 fixed masks, 100,000 rows", targets={"the thinned passes alone": 1 / 1.2})
def predict():
    net, X_pool = fit_ours(200, 5, 64), pool()
    draws, x = draws_of(net.net_.module_), torch.from_numpy(X_pool)
    net.predict_proba(X_pool[:10])
    return {"skactive": partial(net.predict_proba, X_pool), "the thinned passes alone": partial(draws, x)}


@bench("predict_proba, one pass without dropout, 100,000 rows", targets={"predict_proba of skorch": 8.0})
def predict_once():
    net, other, X_pool = fit_ours(200, 5, 64, dropout=0.0), fit_skorch(200, 1, 64), pool()
    other.module_ = net.net_.module_
    x = torch.from_numpy(X_pool)

    @torch.no_grad()
    def forward():
        return other.module_(x).softmax(1)

    return {
        "skactive": partial(net.predict_proba, X_pool),
        "predict_proba of skorch": partial(other.predict_proba, X_pool),
        "the module at once": forward,
    }
