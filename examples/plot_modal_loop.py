"""
Query batches in a modAL loop
=============================

This loop queries twenty labels at a time. The twenty rows with the highest BALD score (Bayesian active learning by
disagreement) are often near-duplicates. Sampling the batch from the same scores makes that less likely, at no extra
cost. The pool holds four noisy copies of each digit. How much does sampling gain there?
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
X, X_test, y, y_test = train_test_split(X / 16, y, train_size=700, stratify=y, random_state=0)
X, y = make_repeated(X, y, repeats=4, noise_std=0.1, rng=np.random.default_rng(0))
X_start, X_pool, y_start, y_pool = train_test_split(X, y, train_size=20, stratify=y, random_state=0)
print(f"{len(X_start)} labels to begin with, {len(X_pool)} rows in the pool, {len(X_test)} to test on")

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

net = MCDropoutClassifier((64, 64), dropout=0.3, lr=0.01, batch_size=-1, max_epochs=60, random_state=0)
model = make_pipeline(StandardScaler(), net)
power = StochasticBatchQuery("bald", sampler="power", beta=4, n_draws=30, random_state=0)

learner = ActiveLearner(model, power, X_start, y_start)
for _ in range(3):
    indices, X_batch = learner.query(X_pool, n_instances=20)
    learner.teach(X_batch, y_pool[indices])
    X_pool, y_pool = np.delete(X_pool, indices, axis=0), np.delete(y_pool, indices)
    print(f"{len(learner.y_training)} labels: accuracy {learner.score(X_test, y_test):.3f}")

# %%
# Paired trials
# -------------
# One run is an impression, not a proof. ``run_experiment`` runs such loops for several queries. In each of six trials
# all start from the same labels, and the test rows stay the same.

from skactive import LearningCurveDisplay, run_experiment

queries = {
    "power, β = 4": power,
    "top-k": StochasticBatchQuery("bald", sampler="topk", n_draws=30),
    "uniform": StochasticBatchQuery("bald", sampler="uniform"),
}
train, test = np.arange(len(X)), len(X) + np.arange(len(X_test))
result = run_experiment(
    model,
    queries,
    np.concatenate([X, X_test]),
    np.concatenate([y, y_test]),
    splits=[(train, test)] * 6,
    n_initial=20,
    batch_size=20,
    n_rounds=4,
    n_trials=6,
    scoring="accuracy",
    random_state=0,
)

import matplotlib.pyplot as plt

# Picture: Accuracy by the number of labels, from 20 to 100, in 95 % bands that overlap: sampled batches end highest.
LearningCurveDisplay.from_result(result)
plt.show()

# %%
# Differences within trials
# -------------------------
# All queries of a trial share its first labels, so their differences tell more than the bands of the curves. Where a
# band does not touch the line, the query is surely better or worse than top-k with that number of labels.

from skactive.plotting import PairedDifferenceDisplay

# Picture: Accuracy minus that of the top of the ranking by the number of labels, in 95 % bands: the line of sampled
# batches stays above the line at zero.
PairedDifferenceDisplay.from_result(result, reference="top-k")
plt.show()

# %%
# The mean over all acquisitions puts it in a sentence:

rows = {row["query"]: row["difference"] for row in result.summary(reference="top-k").rows}
gain = rows["power, β = 4"]
print(
    f"Sampling the batch instead of taking the top: {100 * gain.mean:+.1f} points of accuracy, "
    f"95 % interval {100 * gain.low:+.1f} to {100 * gain.high:+.1f}, {result.settings['n_trials']} paired trials."
)
