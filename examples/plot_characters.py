"""
Which score wastes labels on unreadable images?
===============================================

``make_characters`` makes images of characters with a known flaw: one colour is rare, colours correlate with classes, or
some characters are hidden. Hidden characters show how entropy differs from BALD (Bayesian active learning by
disagreement): such an image is as uncertain as possible, but its label teaches the model nothing.
"""

# %%
# Three flaws
# -----------
# The label is under each image, with the group if it is the second one.

import matplotlib.pyplot as plt
import numpy as np

from skactive.datasets import make_characters


def show(figure, setting, meaning):
    X, y, groups = make_characters(20, setting, np.random.default_rng(3), size=48)
    axes = figure.subplots(2, 10)
    figure.suptitle(f'"{setting}": {meaning}', fontsize=10)
    for ax, image, label, group in zip(axes.flat, X, y, groups, strict=True):
        ax.imshow(image.transpose(1, 2, 0))
        ax.set_xlabel(f"{label} {group if group in {'blue', 'hidden'} else ''}", fontsize=8)
        ax.set(xticks=[], yticks=[])


# Picture: Three rows of twenty images of coloured letters. In the first a few are blue, in the second nearly all a are
# blue and nearly all d are red, and in the third a few are hidden.
minority, spurious, missing = plt.figure(figsize=(7.5, 7), layout="constrained").subfigures(3, 1)
show(minority, "minority", "one in ten is blue")
show(spurious, "spurious", "nine in ten a are blue, nine in ten d are red")
show(missing, "missing", "one in ten cannot be known")
plt.show()

# %%
# Which images each score prefers
# -------------------------------
# A small convolutional net learns two letters from 800 images, a tenth of them hidden, and scores 2,000 more.

from torch import nn

from skactive import MCDropoutClassifier, sample_posterior
from skactive.scores import bald, entropy


def small_net():
    return nn.Sequential(
        *(nn.Conv2d(3, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Conv2d(16, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Flatten(), nn.Dropout(0.5), nn.Linear(256, 64), nn.ReLU(), nn.Dropout(0.5), nn.Linear(64, 2)),
    )


X, y, groups = make_characters(2800, "missing", np.random.default_rng(0), characters="ad", size=16)
X = X.astype(np.float32) / 255
X_pool, hidden = X[800:], groups[800:] == "hidden"

model = MCDropoutClassifier(module=small_net, max_epochs=30, lr=2e-3, random_state=0, device="cpu")
model.fit(X[:800], y[:800])
draws = sample_posterior(model, 100, np.random.default_rng(0))(X_pool)
accuracy = np.mean(model.predict(X_pool)[~hidden] == y[800:][~hidden])
print(f"accuracy where the character can be seen: {accuracy:.2f}")

# %%
# The 100 images with the highest entropy contain about three times as many hidden ones as a random choice would. BALD
# avoids them: all draws agree that the class is unknown, so there is no epistemic uncertainty.

# Picture: Histograms of entropy and of BALD, with hidden images on top of visible ones. Hidden images have the highest
# entropies, and a low BALD.
figure, axes = plt.subplots(1, 2, figsize=(7.5, 2.9), layout="constrained")
for ax, score in zip(axes, (entropy, bald), strict=True):
    scores = np.asarray(score(draws))
    best = np.argsort(scores)[-100:]
    bins = np.linspace(0, scores.max(), 40)
    ax.hist(
        [scores[~hidden], scores[hidden]], bins, stacked=True, label=["visible", "hidden"], color=["0.75", "#D55E00"]
    )
    ax.axvline(scores[best].min(), color="black", linewidth=0.8, linestyle="--")
    ax.set(title=f"{hidden[best].sum()} of the best 100 are hidden", xlabel=f"{score.__name__} (nats)", ylabel="images")
axes[0].legend()
plt.show()
