"""Seconds to fit a 64-128-128-10 net to digits: ours, plain skorch, scikit-learn's MLPClassifier and a bare torch loop.

All take the same number of Adam steps on the same rows. scikit-learn's net has no dropout, so it does less. Run
`python tests/benchmarks/bench_fit.py`; only ratios of columns mean something on a busy machine, and they are medians
of interleaved runs on one thread.
"""

from __future__ import annotations

import statistics
import time
import warnings

import numpy as np
import torch
from sklearn.datasets import load_digits
from sklearn.neural_network import MLPClassifier
from skorch import NeuralNetClassifier
from torch import nn

from skactive import MCDropoutClassifier

CASES = [(100, 150, -1), (200, 200, 64), (1000, 20, 64)]  # rows, epochs, rows in a batch
RUNS = 5


def module():
    hidden = [nn.Linear(64, 128), nn.ReLU(), nn.Dropout(0.5), nn.Linear(128, 128), nn.ReLU(), nn.Dropout(0.5)]
    return nn.Sequential(*hidden, nn.Linear(128, 10))


def fit_ours(X, y, epochs, batch_size):
    net = MCDropoutClassifier(max_epochs=epochs, batch_size=batch_size, random_state=0)
    return net.fit(X, y).predict


def fit_skorch(X, y, epochs, batch_size):
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
    return net.fit(X, y).predict


def fit_sklearn(X, y, epochs, batch_size):
    batch_size = len(X) if batch_size == -1 else batch_size
    net = MLPClassifier((128, 128), batch_size=batch_size, max_iter=epochs, n_iter_no_change=epochs, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # has not converged
        return net.fit(X, y).predict


def fit_torch(X, y, epochs, batch_size):
    net = module()
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-3)
    x, codes = torch.from_numpy(X), torch.from_numpy(y)
    for _ in range(epochs):
        for rows in torch.randperm(len(x)).split(len(x) if batch_size == -1 else batch_size):
            optimizer.zero_grad()
            nn.functional.cross_entropy(net(x[rows]), codes[rows]).backward()
            optimizer.step()
    return lambda X: net.eval()(torch.from_numpy(X)).argmax(1).numpy()


FITS = {"ours": fit_ours, "skorch": fit_skorch, "scikit-learn": fit_sklearn, "torch loop": fit_torch}


def measure(n_rows, epochs, batch_size):
    """Median seconds and accuracy on the rows left out, of each way to fit."""
    X, y = load_digits(return_X_y=True)
    X = (X / 16).astype(np.float32)
    seconds, accuracy = {name: [] for name in FITS}, {}
    for _ in range(RUNS):
        for name, fit in FITS.items():
            start = time.perf_counter()
            predict = fit(X[:n_rows], y[:n_rows], epochs, batch_size)
            seconds[name].append(time.perf_counter() - start)
            accuracy[name] = float(np.mean(predict(X[n_rows:]) == y[n_rows:]))
    return {name: statistics.median(times) for name, times in seconds.items()}, accuracy


def main():
    torch.set_num_threads(1)
    for warm_up in FITS.values():
        warm_up(np.zeros((20, 64), dtype=np.float32), np.arange(20) % 10, 1, -1)
    print(f"{'rows':>5} {'epochs':>6} {'batch':>5}   " + "".join(f"{name:>14}" for name in FITS) + "   (times ours)")
    for case in CASES:
        seconds, accuracy = measure(*case)
        head = "{:5d} {:6d} {:5d}".format(*case)
        print(f"{head}  s" + "".join(f"{value:14.2f}" for value in seconds.values()))
        print(f"{'':18}  ×" + "".join(f"{value / seconds['ours']:14.2f}" for value in seconds.values()))
        print(f"{'':11}accuracy" + "".join(f"{value:14.3f}" for value in accuracy.values()))


if __name__ == "__main__":
    main()
