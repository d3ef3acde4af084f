"""
What power, softmax and soft-rank sampling prefer
=================================================

Three samplers give each row a probability, from the same scores. How likely is each rank to be the first pick, and to
be in a batch of ten?
"""

# %%
# Typical scores
# --------------
# Most BALD scores are small, with a tail: the draws agree on many rows and disagree on a few.

import numpy as np

rng = np.random.default_rng(0)
scores = np.sort(rng.gamma(1.0, 0.12, size=100))[::-1]

# %%
# Probabilities of the first pick
# -------------------------------
# The method ``log_weights`` of a sampler returns the logarithms of its unnormalised probabilities. Those of power
# sampling are proportional to ``score ** beta``, so rows of score 0 are never picked while others are left. Softmax
# uses differences of scores, so its curve is flat where all scores are small. Soft-rank uses the order only.

import matplotlib.pyplot as plt

from skactive.plotting import ScoreDistributionDisplay

BETAS = (0.5, 1, 4, 16)

# Picture: The scores by rank, and the probability to be first by rank, for power, softmax and soft-rank sampling: the
# larger beta, the steeper; uniform choice is a level line.
ScoreDistributionDisplay.from_scores(scores, betas=BETAS)
plt.show()

# %%
# Probabilities of being in a batch
# ---------------------------------
# The rows of a batch are drawn one after the other, without replacement. With a large beta all three samplers take the
# top ten; with beta = 0 each row has a probability of ten in a hundred.

from skactive.samplers import power, softmax, softrank

ranks = np.arange(1, 101)
looks = list(zip(plt.colormaps["viridis"](np.linspace(0.8, 0, 4)), ("-", "--", "-.", ":"), strict=True))

# Picture: The share of batches of ten that hold a row, by its rank, for three samplers: nearly level with beta = 0.5;
# with beta = 16 a step from one to zero at rank ten for soft-rank, and smoother falls for power and softmax.
figure, axes = plt.subplots(1, 3, figsize=(7.5, 3.4), sharey=True, layout="constrained")
for ax, sampler in zip(axes, (power, softmax, softrank), strict=True):
    for beta, (color, dashes) in zip(BETAS, looks, strict=True):
        batches = [sampler(scores, 10, rng, beta=beta) for _ in range(3000)]
        share = np.bincount(np.concatenate(batches), minlength=100) / len(batches)
        ax.plot(ranks, share, label=f"beta = {beta}", color=color, linestyle=dashes)
    ax.axvline(10.5, color="grey", linewidth=0.8)
    ax.set(title=sampler.__name__, xlabel="rank of the score")
axes[0].set_ylabel("share of batches that hold the row")
axes[2].legend(title="grey: top ten", fontsize="small", title_fontsize="small")
plt.show()
