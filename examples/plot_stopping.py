"""
When to stop
============

A report after each batch says what the last labels brought, and compares it with a gain that you find worth the price.
What would have come after it says "stop"?
"""

# %%
# A loop with a report after each batch
# -------------------------------------
# The loop goes on when the report says "stop", to see what would have been missed.

import numpy as np
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split

from skactive import StochasticBatchQuery, StoppingReport

X, y = load_digits(return_X_y=True)
X, X_test, y, y_test = train_test_split(X / 16, y, test_size=600, random_state=0)
query, labelled, report = StochasticBatchQuery(random_state=0), list(range(30)), None
n_labels, accuracies, verdicts = [], [], []
for _ in range(20):
    model = LogisticRegression(max_iter=1000).fit(X[labelled], y[labelled])
    pool = np.delete(X, labelled, axis=0)
    report = StoppingReport.from_learner(
        model, pool, report, X_training=X[labelled], y_training=y[labelled], tolerance=0.05, random_state=0
    )
    n_labels.append(len(labelled))
    accuracies.append(model.score(X_test, y_test))
    verdicts.append(report.verdict)
    labelled += query.select(model, X, n_instances=20, pending=labelled).tolist()
stop = verdicts.index("stop")

# %%
import matplotlib.pyplot as plt

figure, ax = plt.subplots(figsize=(6, 4), layout="constrained")
# Picture: Accuracy by the number of labels, with a mark where the report says stop: the curve is nearly flat after it.
ax.plot(n_labels, accuracies, "o-", color="#0072B2")
ax.axvline(n_labels[stop], color="#D55E00", ls="--", label='the report says "stop"')
ax.set(xlabel="labels", ylabel="accuracy on test rows")
ax.legend(loc="lower right")
plt.show()

# %%
before, after = accuracies[stop] - accuracies[0], accuracies[-1] - accuracies[stop]
print(
    f'The report says "stop" at {n_labels[stop]} labels. The last {n_labels[stop] - n_labels[0]} brought '
    f"{100 * before:.1f} points of accuracy, the next {n_labels[-1] - n_labels[stop]} would bring {100 * after:.1f}."
)
