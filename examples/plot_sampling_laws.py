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

from skactive.samplers import power, softmax, softrank

BETAS = (0.5, 1, 4, 16)
ranks = np.arange(1, 101)
looks = list(zip(plt.colormaps["viridis"](np.linspace(0.8, 0, 4)), ("-", "--", "-.", ":"), strict=True))


def draw(probabilities, ylabel, **axes):
    """A panel for each sampler, and a line for each beta."""
    figure, panels = plt.subplots(1, 3, figsize=(7.5, 3.4), sharex=True, sharey=True, layout="constrained")
    for ax, sampler in zip(panels, (power, softmax, softrank), strict=True):
        for beta, (color, dashes) in zip(BETAS, looks, strict=True):
            ax.plot(ranks, probabilities(sampler, beta), label=f"beta = {beta}", color=color, linestyle=dashes)
        ax.axvline(10.5, color="grey", linewidth=0.8)
        ax.set(title=sampler.__name__, xlabel="rank of the score", **axes)
    panels[0].set_ylabel(ylabel)
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=4, fontsize="small")


def first_pick(sampler, beta):
    log_weights = sampler.log_weights(scores, beta)
    return np.exp(log_weights - np.logaddexp.reduce(log_weights))


# Picture: The probability to be first by rank, for power, softmax and soft-rank sampling: the larger beta, the steeper.
# A grey line marks the top ten.
draw(first_pick, "probability to be first", xscale="log", yscale="log", ylim=(1e-5, 2))
plt.show()

# %%
# Probabilities of being in a batch
# ---------------------------------
# The rows of a batch are drawn one after the other, without replacement. With a large beta all three samplers take the
# top ten; with beta = 0 each row has a probability of ten in a hundred.


def in_a_batch(sampler, beta):
    batches = [sampler(scores, 10, rng, beta=beta) for _ in range(3000)]
    return np.bincount(np.concatenate(batches), minlength=100) / len(batches)


# Picture: The share of batches of ten that hold a row, by its rank, for three samplers: nearly level with beta = 0.5;
# with beta = 16 a step from one to zero at rank ten for soft-rank, and smoother falls for power and softmax.
draw(in_a_batch, "share of batches that hold the row")
plt.show()
