"""
How long do scores stay valid?
==============================

Taking the top of a ranking as a batch assumes that the second row is still informative once the first is labelled. But
a score is the value of one label for the current model, and every label changes the model. How fast do scores age, and
what does it cost not to update them?
"""

# %%
# Updated and frozen scores
# -------------------------
# One query scores the pool again for each label. The other, a function of our own, goes on buying by the scores of a
# model of the first twenty labels, as one batch of forty would. In each of five trials both start from the same labels.

import numpy as np
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA
from sklearn.linear_model import LogisticRegression

from skactive import LearningCurveDisplay, StochasticBatchQuery, run_experiment

X, y = load_digits(return_X_y=True)
X = PCA(16, random_state=0).fit_transform(X / 16)
rng = np.random.default_rng(0)
splits = [np.split(rng.permutation(len(X))[:900], [400]) for _ in range(5)]


def frozen(learner, X_pool, n_instances=1):
    known = {"X_training": learner.X_training[:20], "y_training": learner.y_training[:20]}
    first = clone(learner.estimator).fit(*known.values())
    return StochasticBatchQuery("bald", "topk", random_state=0).select(first, X_pool, n_instances, **known)


model = LogisticRegression(max_iter=300)
result = run_experiment(
    model,
    {"updated scores": StochasticBatchQuery("bald", "topk"), "frozen scores": frozen},
    X,
    y,
    splits=splits,
    n_initial=20,
    batch_size=1,
    n_rounds=40,
    n_trials=5,
    scoring="accuracy",
    random_state=0,
)

# %%
# The curves separate within ten labels: rows with high scores carry much the same information. A batch should be no
# larger than the number of labels for which such curves stay together.

import matplotlib.pyplot as plt

# Picture: Accuracy by the number of labels, from 20 to 60, with scores that are updated for each label and with frozen
# ones; the frozen ones fall behind.
LearningCurveDisplay.from_result(result)
plt.show()

# %%
# How much of the ranking is left
# -------------------------------
# The model scores the rows of the test set after every five labels. Two models of the same twenty labels, with other
# draws, come first: what is lost between them is noise, and later losses are due to age.

from scipy.stats import spearmanr

from skactive.query import score_pool

STEPS = [20, *range(20, 61, 5)]
kept = {"all rows": [], "top half": [], "top tenth": []}
for trial, (_, test) in enumerate(splits):
    bought = [r.indices for r in result.rounds if r.trial == trial and r.query == "updated scores"]
    bought = np.concatenate(bought).astype(int)
    histories = []
    for step, n in enumerate(STEPS):
        known = {"X_training": X[bought[:n]], "y_training": y[bought[:n]]}
        fitted = clone(model).fit(*known.values())
        histories.append(score_pool(fitted, X[test], "bald", random_state=step, **known)["bald"])
    for part, n in zip(kept, (len(test), len(test) // 2, len(test) // 10), strict=True):
        top = np.argsort(histories[0])[-n:]
        kept[part].append([spearmanr(histories[0][top], scores[top])[0] for scores in histories[1:]])

# %%
# Over all rows the order fades slowly, because most of it separates easy rows from the rest. Batches come from the top
# rows, and there noise alone takes half of the order, and little is left after five labels.

# Picture: Rank correlations of the first scores with later ones: those of all rows fall slowly, those of the top tenth
# to almost nothing within five labels.
figure, ax = plt.subplots(figsize=(6, 4), layout="constrained")
looks = (("#0072B2", "o-"), ("#D55E00", "s--"), ("#009E73", "D-."))
for (part, trials), (colour, look) in zip(kept.items(), looks, strict=True):
    ax.plot(np.array(STEPS[1:]) - 20, np.mean(trials, axis=0), look, color=colour, label=part)
ax.set(xlabel="labels bought since the scores were taken", ylabel="rank correlation, mean of five trials")
figure.legend(loc="outside upper center", ncols=3)
plt.show()

# %%
# What it costs
# -------------
# Curves of one trial share its first labels, so differences within trials tell more than the bands of the curves.

from skactive.plotting import PairedDifferenceDisplay

# Picture: Accuracy with frozen scores minus that with updated ones, by the number of labels, in a 95 % band: the
# line stays below zero.
PairedDifferenceDisplay.from_result(result, reference="updated scores")
plt.show()

loss = next(
    row["difference"] for row in result.summary(reference="updated scores").rows if row["query"] == "frozen scores"
)
print(
    f"Frozen scores instead of updated ones: {100 * loss.mean:+.1f} points of accuracy, "
    f"95 % interval {100 * loss.low:+.1f} to {100 * loss.high:+.1f}, {result.settings['n_trials']} paired trials."
)
