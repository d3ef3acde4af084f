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
# One query scores the pool again for each label. The other scores it once and queries forty rows in that order, as in a
# batch. In each of five trials both start from the same twenty labels.

import numpy as np
from skactive.diagnostics import FrozenQuery, score_history
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA
from sklearn.linear_model import LogisticRegression

from skactive import LearningCurveDisplay, StochasticBatchQuery, run_experiment

X, y = load_digits(return_X_y=True)
X = PCA(16, random_state=0).fit_transform(X / 16)
rng = np.random.default_rng(0)
splits = [np.split(rng.permutation(len(X))[:900], [400]) for _ in range(5)]

model = LogisticRegression(max_iter=300)
query = StochasticBatchQuery("bald", "topk")
result = run_experiment(
    model,
    {"updated scores": query, "frozen scores": FrozenQuery(query, n_batches=40)},
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
# The model scores the rows of the test set after every five labels. Two empty batches refit it to the same labels with
# other draws. The loss at such a step is noise; later losses are due to age.

histories = []
for trial, (_, test) in enumerate(splits):
    bought = [r.indices for r in result.rounds if r.trial == trial and r.query == "updated scores"]
    fives = np.reshape(bought[1:], (-1, 5))
    batches = [bought[0], [], *fives[:4], [], *fives[4:]]
    histories.append(score_history(model, X, y, batches, rows=test, random_state=trial))
n_labelled = np.cumsum([len(batch) for batch in batches])
print(n_labelled)

# %%
# Over all rows the order fades slowly, because most of it separates easy rows from the rest. Batches come from the top
# rows, and there noise alone takes half of the order, and little is left after five labels.

from skactive.plotting import RankCorrelationDisplay

# Picture: Rank correlations of the first scores with later ones: those of all rows fall slowly, those of the top tenth
# to almost nothing within five labels.
RankCorrelationDisplay.from_scores(histories, n_labelled=n_labelled, top=[0.1, 0.5, 1.0])
plt.show()

# %%
# Early and late
# --------------
# Do the former top rows still score above the others? The AUROC is 1 if all of them do, and 0.5 if they score no higher
# than other rows. The scores of a model of 20 labels (left) have aged after ten to fifteen more; those of a model of 40
# labels (right) age less. So batches may grow as labels come in. Five trials are few, as the bands show, and the top
# 1 % of these rows are five rows.

# Picture: AUROC of former top rows by the number of labels since, in wide bands: it falls for scores of a model of 20
# labels, and less for those of a model of 40.
figure, axes = plt.subplots(1, 2, figsize=(7.5, 4.4), sharey=True, layout="constrained")
for ax, start in zip(axes, (0, 5), strict=True):
    RankCorrelationDisplay.from_scores(
        histories, n_labelled=n_labelled, start=start, measure="auroc", top=[0.01, 0.1, 0.5], ax=ax
    )
    ax.set_title(f"scores of a model of {n_labelled[start]} labels")
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
    f"Frozen scores instead of updated ones: {100 * loss.mean:+.1f} points of accuracy over forty labels, "
    f"95 % interval {100 * loss.low:+.1f} to {100 * loss.high:+.1f}, {result.settings['n_trials']} paired trials."
)
