"""
Where batches are
=================

What does a batch look like? This example chooses twenty rows of one pool in four ways: from the top of the ranking, by
two ways of sampling from the same scores, and without scores.
"""

# %%
# A pool of near-duplicates
# -------------------------
# The pool holds every digit four times, each with different noise.

import numpy as np
from sklearn.datasets import load_digits
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skactive import MCDropoutClassifier, StochasticBatchQuery
from skactive.datasets import make_repeated
from skactive.query import score_pool

X, y = load_digits(return_X_y=True)
n_digits = 400
X, y = make_repeated(X[:n_digits] / 16, y[:n_digits], repeats=4, noise_std=0.1, rng=np.random.default_rng(0))

labelled = np.arange(40)
net = MCDropoutClassifier(lr=3e-3, max_epochs=150, batch_size=-1, random_state=0)
model = make_pipeline(StandardScaler(), net).fit(X[labelled], y[labelled])

# %%
# Four batches
# ------------
# ``candidates`` are the rows that may be chosen. The positions returned refer to the whole of X.

pool = np.arange(len(labelled), len(X))
samplers = {"topk": 1, "power": 4, "softmax": 8, "uniform": 1}
batches = {}
for sampler, beta in samplers.items():
    query = StochasticBatchQuery("bald", sampler, beta, random_state=0)
    batches[sampler] = query.select(model, X, n_instances=20, candidates=pool)
    n_different, n_classes = len(set(batches[sampler] % n_digits)), len(set(y[batches[sampler]]))
    print(f"{sampler:8} 20 rows: {n_different} different digits, of {n_classes} classes")

# %%
# On the map
# ----------
# The map shows the first two principal components; rows with a larger BALD (Bayesian active learning by disagreement)
# are darker. The top of the ranking gathers where the draws disagree most, with copies of a digit side by side.
# Sampling spreads the batch over more places with high scores. Uniform sampling ignores the scores. Two dimensions hide
# a lot: neighbours on a map may well differ.

import matplotlib.pyplot as plt

from skactive.plotting import BatchDisplay

scores = score_pool(model, X, "bald", candidates=pool, random_state=0)["bald"]
# Picture: Four maps of the pool, shaded by BALD, with the rows of a batch: the top of the ranking gathers in a few
# places, power and softmax sampling spread over the dark ones, and uniform choice over all.
BatchDisplay.from_batches(X, batches, labelled=labelled, scores=scores, score_name="BALD (nats)")
plt.show()

# %%
# What sampling costs
# -------------------
# Sampling loses little score compared with uniform choice.

for sampler, batch in batches.items():
    print(f"{sampler:8} mean BALD {scores[batch].mean():.2f} nats")
