"""
For how long do scores hold?
============================

To take the top of a ranking as a batch is to believe that the second row would still be wanted after the label of the
first. But scores say what one label is worth to the model of today, and every label changes the model. How fast do
they age, and what does it cost not to ask again?
"""

# %%
# Buy labels one by one, and not
# ------------------------------
# One query scores the pool anew for each label. The other asks it once, for forty rows, and buys them in that order: a
# batch, watched from inside. In each of three trials both start from the same twenty labels.

import numpy as np
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA
from sklearn.linear_model import LogisticRegression

from skactive import LearningCurveDisplay, StochasticBatchQuery, run_experiment
from skactive.diagnostics import FrozenQuery, score_history

X, y = load_digits(return_X_y=True)
X = PCA(16, random_state=0).fit_transform(X / 16)
rng = np.random.default_rng(0)
splits = [np.split(rng.permutation(len(X))[:900], [400]) for _ in range(3)]

model = LogisticRegression(max_iter=300)
query = StochasticBatchQuery("bald", "topk")
result = run_experiment(
    model,
    {"scored anew for each label": query, "frozen scores": FrozenQuery(query, n_batches=40)},
    X,
    y,
    splits=splits,
    n_initial=20,
    batch_size=1,
    n_rounds=40,
    n_trials=3,
    scoring="accuracy",
    random_state=0,
)

# %%
# The curves part within ten labels: rows that score high together have much the same to teach. A batch should be no
# larger than the number of labels for which such curves stay together.

import matplotlib.pyplot as plt

LearningCurveDisplay.from_result(result)
plt.show()

# %%
# How much of the ranking is left
# -------------------------------
# The rows of the test set are scored after every five labels. In between are two empty batches: another model, with
# other draws, of the same labels. What is lost at such a step is noise; what is lost later is age.

histories = []
for trial, (_, test) in enumerate(splits):
    bought = [r.indices for r in result.rounds if r.trial == trial and r.query == "scored anew for each label"]
    fives = np.reshape(bought[1:], (-1, 5))
    batches = [bought[0], [], *fives[:4], [], *fives[4:]]
    histories.append(score_history(model, X, y, batches, rows=test, random_state=trial))
n_labelled = np.cumsum([len(batch) for batch in batches])
print(n_labelled)

# %%
# Over all rows the order fades slowly: most of it says which rows are easy. Among the top rows, and a batch is taken
# from no others, noise alone takes half of it, and little is left after five labels.

from skactive.plotting import RankCorrelationDisplay

RankCorrelationDisplay.from_scores(histories, n_labelled=n_labelled, top=[0.1, 0.5, 1.0])
plt.show()

# %%
# Early and late
# --------------
# Are rows that were the top still above the others? The AUROC is 1 if all of them are, 0.5 if they are no higher than
# any. The scores of a model of 20 labels (left) have aged after ten to fifteen more; those of a model of 40 labels
# (right) age less. So batches may grow as labels come in. Three trials are few, as the bands say, and the top 1 % of
# these rows are five.

figure, axes = plt.subplots(1, 2, figsize=(9, 4.2), sharey=True, layout="constrained")
for ax, start in zip(axes, (0, 5), strict=True):
    RankCorrelationDisplay.from_scores(
        histories, n_labelled=n_labelled, start=start, measure="auroc", top=[0.01, 0.1, 0.5], ax=ax
    )
    ax.set_title(f"scores of a model of {n_labelled[start]} labels")
plt.show()
