"""
Batches that keep apart
=======================

Near-duplicates have nearly the same score, so the best twenty rows may be one row twenty times. Sampling keeps them
apart by chance. This example keeps them apart on purpose, with ``diversity``, and shows how batches change.
"""

# %%
# Points in two dimensions
# ------------------------
# Two classes that meet along a curve, and a model that is unsure where they meet. Most of the pool lies in three dense
# clumps, as photographs of one scene would; two of them are where the model is unsure.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import make_moons
from sklearn.ensemble import RandomForestClassifier

from skactive import StochasticBatchQuery

rng = np.random.default_rng(1)
spread, _ = make_moons(200, noise=0.25, random_state=0)
clumps = [rng.normal(centre, 0.06, (150, 2)) for centre in ((0.5, 0.25), (-0.15, 0.1), (1.9, 0.9))]
pool = np.concatenate([spread, *clumps])
X, y = make_moons(60, noise=0.25, random_state=7)
forest = RandomForestClassifier(200, min_samples_leaf=3, random_state=0).fit(X, y)

# %%
# Four batches of twenty
# ----------------------
# The diversity is the power of the squared distance from the nearest row chosen so far; here the distance is the share
# of trees in which two rows fall into different leaves. With 0 the sampler is alone.

batches = {"top-k": StochasticBatchQuery("margin", "topk", random_state=0).select(forest, pool, 20)}
for diversity in (0, 1, 4):
    query = StochasticBatchQuery("margin", beta=4, diversity=diversity, random_state=0)
    batches[f"power, diversity {diversity}"] = query.select(forest, pool, 20)

# %%
# Where they lie
# --------------
# Shades show the score: the darker, the less sure the model. The top of the ranking buys one clump. Sampling alone
# follows the density of the pool. With a diversity the batch covers the boundary.

grid_x, grid_y = np.meshgrid(np.linspace(-1.6, 2.6, 120), np.linspace(-1.1, 1.6, 100))
p = forest.predict_proba(np.column_stack([grid_x.ravel(), grid_y.ravel()]))
margin = 1 - np.abs(p[:, 0] - p[:, 1]).reshape(grid_x.shape)
leaves = forest.apply(pool)


def mean_distance(batch):
    """Mean share of trees in which a row of the batch has no leaf in common with the row nearest to it."""
    apart = (leaves[batch][:, None] != leaves[batch][None]).mean(axis=2)
    np.fill_diagonal(apart, np.inf)
    return apart.min(axis=1).mean()


# Picture: Four maps of a pool with three dense clumps. The top twenty rows lie in one clump; sampled ones in two; with
# a growing diversity they spread along the boundary between the classes.
figure, axes = plt.subplots(2, 2, figsize=(7.5, 6), sharex=True, sharey=True, layout="constrained")
for ax, (name, batch) in zip(axes.flat, batches.items(), strict=True):
    shades = ax.contourf(grid_x, grid_y, margin, levels=10, cmap="Greys", alpha=0.7)
    ax.scatter(*pool.T, s=4, color="0.35", linewidths=0)
    ax.scatter(*pool[batch].T, s=60, facecolors="none", edgecolors="#D55E00", linewidths=1.8)
    ax.set_title(f"{name}:\nnearest other {mean_distance(batch):.2f} apart", fontsize=10)
figure.colorbar(shades, ax=axes, label="margin score")
plt.show()

# %%
# The price in score
# ------------------
# Keeping apart costs a little of the score. How much diversity pays is a matter of the pool:
# :doc:`/user_guide/diversity` has measurements.

p = forest.predict_proba(pool)
score = 1 - np.abs(p[:, 0] - p[:, 1])
for name, batch in batches.items():
    print(f"{name:20} mean score {score[batch].mean():.2f}, nearest other {mean_distance(batch):.2f} apart")
