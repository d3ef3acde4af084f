"""
Where do the draws of a model disagree?
=======================================

BALD (Bayesian active learning by disagreement) is large where a label would distinguish draws, that is, where epistemic
uncertainty is large. Where that is depends on the model. A Gaussian process is uncertain wherever there are no data. A
net and a linear model are uncertain along the class boundary, and more so far from the data. A forest is uncertain
where its trees put their axis-parallel splits in different places.
"""

# %%
# Two classes in four clusters
# ----------------------------

import numpy as np

rng = np.random.default_rng(0)
centers = np.array([[-2.0, -1.0], [-2.0, 1.0], [2.0, 1.0], [2.0, -1.0]])
labels = np.repeat([0, 1, 1, 0], 15)
X = np.repeat(centers, 15, axis=0) + rng.normal(scale=0.45, size=(60, 2))

# %%
# Four models
# -----------
# Each model has a different kind of draw: functions of a Gaussian process, dropout masks, weights from a Laplace
# approximation, trees. The training data are passed, too, because a logistic regression does not keep them.

from sklearn.ensemble import RandomForestClassifier
from sklearn.gaussian_process import GaussianProcessClassifier
from sklearn.gaussian_process.kernels import RBF
from sklearn.linear_model import LogisticRegression

from skactive import MCDropoutClassifier, sample_posterior
from skactive.scores import bald

models = {
    "Gaussian process": GaussianProcessClassifier(4.0 * RBF(1.0), optimizer=None),
    "net with dropout": MCDropoutClassifier((64, 64), dropout=0.2, lr=3e-3, batch_size=-1, random_state=0),
    "logistic regression": LogisticRegression(),
    "random forest": RandomForestClassifier(100, random_state=0),
}

# %%
# BALD over the plane
# -------------------

import matplotlib.pyplot as plt

x = np.linspace(-6, 6, 80)
plane = np.stack(np.meshgrid(x, x), axis=-1).reshape(-1, 2)
# Picture: BALD over the plane for four models, with the rows of two classes: large away from the data for a Gaussian
# process, along the boundary for a net and a logistic regression, in stripes for a forest.
figure, axes = plt.subplots(2, 2, figsize=(7.5, 6.4), sharex=True, sharey=True, layout="constrained")
for ax, (name, model) in zip(axes.flat, models.items(), strict=True):
    model.fit(X, labels)
    predict_draws = sample_posterior(model, 100, np.random.default_rng(0), X_training=X, y_training=labels)
    scores = np.asarray(bald(predict_draws(plane))).reshape(80, 80)
    image = ax.pcolormesh(x, x, scores, cmap="viridis", shading="nearest", vmin=0)
    for label, marker, color, edge in ((0, "o", "white", "black"), (1, "^", "black", "white")):
        ax.scatter(*X[labels == label].T, s=22, marker=marker, color=color, edgecolor=edge, linewidth=0.7)
    ax.set(title=name, aspect="equal")
    figure.colorbar(image, ax=ax, shrink=0.8, label="BALD (nats)")
plt.show()
