"""
Small tabular data with text columns and missing values
=======================================================

A scikit-learn pipeline handles a table with numbers, text and missing values; a random forest at its end gives the
posterior draws, one per tree. The pool stays a raw DataFrame with any index, and so does the batch.
"""

# %%
# A table
# -------
# These are simulated loan applications: will the loan be paid back? Some incomes and some homes are missing.

import numpy as np
import pandas as pd

rng = np.random.default_rng(0)
n = 1500
home = rng.choice(["owner", "rent", "parents", None], n, p=[0.4, 0.35, 0.15, 0.1])
job = rng.choice(["fixed", "freelance", "part-time"], n, p=[0.6, 0.25, 0.15])
income = rng.gamma(4, 30, n).round()
debt = rng.gamma(1, 400, n).round()
risk = 0.02 * (debt / 25 - income) + 1.2 * (job != "fixed") - 1.0 * (home == "owner") + rng.logistic(scale=0.4, size=n)
outcome = np.where(risk > -1.2, "bad", "good")
income[rng.random(n) < 0.1] = np.nan
table = pd.DataFrame({"home": home, "job": job, "income": income, "debt": debt}, index=rng.permutation(n) + 5000)
print(table.head(4))
print(pd.Series(outcome).value_counts(normalize=True).round(2).to_dict())

# %%
# The model
# ---------
# Nothing here is specific to active learning.

from sklearn.compose import make_column_transformer
from sklearn.ensemble import RandomForestClassifier
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

encode = make_column_transformer(
    (OneHotEncoder(handle_unknown="ignore"), ["home", "job"]),
    (SimpleImputer(add_indicator=True), ["income", "debt"]),
)
model = make_pipeline(encode, RandomForestClassifier(50, random_state=0))

# %%
# Sixty labels, in batches of ten
# -------------------------------
# The first twenty labels are a random sample.

from modAL.models import ActiveLearner
from sklearn.base import clone
from sklearn.metrics import balanced_accuracy_score

from skactive import StochasticBatchQuery

test = np.arange(n) >= 1000


def run(sampler, seed, n_rounds=6):
    query = StochasticBatchQuery("bald", sampler, random_state=seed)
    start = np.random.default_rng(seed).choice(1000, 20, replace=False)
    pool = np.setdiff1d(np.arange(1000), start)
    learner = ActiveLearner(clone(model), query, table.iloc[start], outcome[start])
    accuracies = []
    for _ in range(n_rounds):
        indices, batch = learner.query(table.iloc[pool], n_instances=10)
        learner.teach(batch, outcome[pool[indices]])
        pool = np.delete(pool, indices)
        accuracies.append(balanced_accuracy_score(outcome[test], learner.predict(table[test])))
    return accuracies


curves = {sampler: np.array([run(sampler, seed) for seed in range(4)]) for sampler in ("power", "topk", "uniform")}

# %%
# Paired runs
# -----------
# All three samplers start from the same four samples. Lines are means of the four runs, and bars are standard errors:
# with so few runs, small gaps mean nothing. Labels are noisy here and the pool holds no copies, so do not expect the
# differences of a redundant pool.

import matplotlib.pyplot as plt

figure, axes = plt.subplots(layout="constrained")
labels = 20 + 10 * np.arange(1, 7)
for shift, (sampler, runs) in enumerate(curves.items()):
    axes.errorbar(labels + shift - 1, runs.mean(0), runs.std(0, ddof=1) / 2, capsize=3, marker="o", label=sampler)
axes.set(xlabel="labels", ylabel="balanced accuracy on the other 500", title="Loans: text, numbers and gaps")
axes.legend()
plt.show()
