"""
How good is my model, without a test set?
=========================================

Rows that a query picked are harder than most, so the accuracy on them is too low. But the probability of each pick is
known, and weights made of it correct the estimate. This example compares it with the truth while labels come in.
"""

# %%
# A model to test
# ---------------

from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression

X, y = load_digits(return_X_y=True)
model = LogisticRegression(max_iter=1000).fit(X[:150] / 16, y[:150])
X_pool, y_pool = X[150:] / 16, y[150:]
truth = model.score(X_pool, y_pool)

# %%
# Labels, 25 at a time
# --------------------
# The query prefers rows on which the model is probably wrong. With ``epsilon`` a third of the picks is uniform, so that
# every row can be picked.

import numpy as np

from skactive import StochasticBatchQuery
from skactive.risk import ActiveTester

query = StochasticBatchQuery("variation_ratio", beta=0.5, epsilon=1 / 3, diversity=0, random_state=0)
tester = ActiveTester(query, X_pool)
n_labels, estimates, plain, picked = [], [], [], []
for _ in range(8):
    rows = tester.ask(model, 25)
    tester.tell(y_pool[rows])
    picked += rows.tolist()
    accuracy = tester.accuracy(model)
    n_labels.append(len(picked))
    estimates.append((accuracy.value, *accuracy.interval()))
    plain.append(model.score(X_pool[picked], y_pool[picked]))

# %%
import matplotlib.pyplot as plt

values, low, high = np.array(estimates).T
figure, ax = plt.subplots(figsize=(6, 4), layout="constrained")
# Picture: The estimate by the number of labels, in a 95 % band that narrows around the true accuracy; the accuracy on
# the labelled rows alone stays below it.
ax.fill_between(n_labels, low, high, color="#0072B2", alpha=0.2, lw=0)
ax.plot(n_labels, values, "o-", color="#0072B2", label="estimate, 95 % interval")
ax.plot(n_labels, plain, "s--", color="#D55E00", label="accuracy on the labelled rows")
ax.axhline(truth, color="black", ls=":", label="truth")
ax.set(xlabel="labels", ylabel="accuracy of the model")
figure.legend(loc="outside upper center", ncols=3)
plt.show()

# %%
print(
    f"From {n_labels[-1]} labels: {values[-1]:.3f} (95 % interval {low[-1]:.3f} to {high[-1]:.3f}). The truth is "
    f"{truth:.3f}, and the accuracy on the labelled rows {plain[-1]:.3f}."
)
