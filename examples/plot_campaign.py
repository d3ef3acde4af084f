"""
A campaign: a table, labelled in batches
========================================

A campaign keeps what was asked and answered in one file. After each batch it estimates how good its model is, with an
interval, from the labels alone. This example labels penguins, whose species we know, to compare the estimate with the
truth.
"""

# %%
# Begin
# -----

import tempfile
from pathlib import Path

from skactive import Campaign, datasets

table, species = datasets.load_table("penguins")
table["penguin"] = [f"P{i:03d}" for i in range(len(table))]
truth = dict(zip(table["penguin"], species, strict=True))
table["species"] = None  # no label yet
path = Path(tempfile.mkdtemp()) / "penguins.db"
campaign = Campaign.start(path, table, target="species", id="penguin", model="logistic", random_state=0)

# %%
# Ask, label, look
# ----------------

n_labels, estimates, actual = [], [], []
for _ in range(4):
    batch = campaign.ask(20)
    campaign.tell({id: truth[id] for id in batch.index})  # a person would look at these
    status = campaign.status(report=False)
    if status.accuracy is not None:
        guesses = campaign.to_frame(guesses=True)["guess"].dropna()
        n_labels.append(status.n_labels)
        estimates.append((status.accuracy.low, status.accuracy.high))
        actual.append((guesses == guesses.index.map(truth)).mean())
print(campaign.status(accuracy=False, report=False))

# %%
import matplotlib.pyplot as plt
import numpy as np

low, high = np.array(estimates).T
figure, ax = plt.subplots(figsize=(6, 4), layout="constrained")
# Picture: The interval for the accuracy by the number of labels narrows, and holds the true accuracy of the guesses.
ax.fill_between(n_labels, low, high, color="#0072B2", alpha=0.2, lw=0, label="95 % interval of the campaign")
ax.plot(n_labels, actual, "s--", color="#D55E00", label="truth")
ax.set(xlabel="labels", ylabel="accuracy of guesses for unlabelled rows")
ax.legend(loc="lower right")
plt.show()

# %%
print(
    f"With {n_labels[-1]} of {len(table)} labels, {100 * actual[-1]:.0f} % of the guesses for the rest are right. "
    f"The campaign said {100 * low[-1]:.0f} % to {100 * high[-1]:.0f} %."
)
