"""
Small tabular data with text columns and missing values
=======================================================

A scikit-learn pipeline handles a table with numbers, text and missing values, with a random forest at its end. The pool
stays a raw DataFrame with any index, and so does the batch.
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
# In each of eight paired trials the last 500 rows are for testing, and both queries start from the same twenty labels.

from skactive import StochasticBatchQuery, run_experiment

result = run_experiment(
    model,
    {"default": StochasticBatchQuery(), "uniform": StochasticBatchQuery(sampler="uniform")},
    table,
    outcome,
    splits=[(np.arange(1000), np.arange(1000, n))] * 8,
    n_initial=20,
    batch_size=10,
    n_rounds=4,
    n_trials=8,
    scoring="balanced_accuracy",
    random_state=0,
)

# %%
# Against uniform choice
# ----------------------
# Labels are noisy here, so the trials differ much from each other.

import matplotlib.pyplot as plt

from skactive.plotting import PairedDifferenceDisplay

# Picture: Balanced accuracy of the default minus that of uniform choice by the number of labels, mostly above zero,
# with a wide 95 % band.
PairedDifferenceDisplay.from_result(result, reference="uniform")
plt.show()

# %%
# With so few trials small gaps mean nothing. The interval of the mean over all acquisitions says how large a difference
# may be:

for row in result.summary(reference="uniform").rows:
    gain = row["difference"]
    if row["query"] != "uniform":
        print(
            f"{row['query']} minus uniform: {100 * gain.mean:+.1f} points of balanced accuracy, "
            f"95 % interval {100 * gain.low:+.1f} to {100 * gain.high:+.1f}, {row['n_trials']} paired trials."
        )
