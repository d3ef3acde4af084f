"""
Query batches in a modAL loop
=============================

This loop queries ten labels at a time. The ten rows with the highest BALD score (Bayesian active learning by
disagreement) are often near-duplicates. Sampling the batch from the same scores makes that less likely, at no extra
cost. A modAL ``ActiveLearner`` does both here, on a pool with four noisy copies of each digit.
"""

# %%
# A redundant pool
# ----------------
# Split first, then repeat. Otherwise copies of a test row would be in the pool.

import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from skactive.datasets import make_repeated

X, y = load_digits(return_X_y=True)
X, X_test, y, y_test = train_test_split(X / 16, y, test_size=500, stratify=y, random_state=0)
X, y = make_repeated(X, y, repeats=4, noise_std=0.1, rng=np.random.default_rng(0))
X_start, X_rest, y_start, y_rest = train_test_split(X, y, train_size=20, stratify=y, random_state=0)
print(f"{len(X_start)} labels to begin with, {len(X_rest)} rows in the pool, {len(X_test)} to test on")

# %%
# The loop
# --------
# In this loop only the query strategy and the net come from skactive. The net's dropout masks are draws from an
# approximate posterior, BALD measures the disagreement between the draws, and ``sampler`` determines how the scores
# become a batch.

from modAL.models import ActiveLearner
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skactive import MCDropoutClassifier, StochasticBatchQuery


def run(sampler, beta, n_rounds=6):
    learner = ActiveLearner(
        estimator=make_pipeline(
            StandardScaler(), MCDropoutClassifier(lr=3e-3, max_epochs=150, batch_size=-1, random_state=0)
        ),
        query_strategy=StochasticBatchQuery("bald", sampler, beta, n_draws=30, random_state=0),
        X_training=X_start,
        y_training=y_start,
    )
    X_pool, y_pool = X_rest, y_rest
    accuracies = [learner.score(X_test, y_test)]
    for _ in range(n_rounds):
        indices, X_batch = learner.query(X_pool, n_instances=10)
        learner.teach(X_batch, y_pool[indices])
        X_pool, y_pool = np.delete(X_pool, indices, axis=0), np.delete(y_pool, indices)
        accuracies.append(learner.score(X_test, y_test))
    return accuracies


curves = {
    "power, beta = 4": run("power", 4),
    "top-k": run("topk", 1),
    "uniform": run("uniform", 1),
}

# %%
# Learning curves
# ---------------
# Each curve is a single run, so it shows an impression, not a proof. ``python -m skactive`` compares strategies over
# several paired trials, with intervals.

import matplotlib.pyplot as plt

figure, axes = plt.subplots(layout="constrained")
for name, accuracies in curves.items():
    axes.plot(20 + 10 * np.arange(len(accuracies)), accuracies, marker="o", label=name)
axes.set(xlabel="labels", ylabel="test accuracy", title="Repeated-digits, batches of 10")
axes.legend()
plt.show()
