"""
Regression: which measurements to make?
=======================================

A simulated experiment has four settings and a noisy outcome. The default query for regressors samples settings at which
the draws of the model differ most, and keeps the rows of a batch apart. How much better is the model than with settings
chosen at random?
"""

# %%
# An experiment
# -------------

from sklearn.datasets import make_friedman2
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, WhiteKernel
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

X, y = make_friedman2(900, noise=60, random_state=0)
process = GaussianProcessRegressor(RBF(2.0) + WhiteKernel(0.02), optimizer=None, normalize_y=True)
model = make_pipeline(StandardScaler(), process)

# %%
# Paired trials
# -------------

from skactive import LearningCurveDisplay, StochasticBatchQuery, run_experiment

queries = {"default": StochasticBatchQuery(), "uniform": StochasticBatchQuery(sampler="uniform")}
sizes = {"test_size": 300, "n_initial": 10, "batch_size": 10, "n_rounds": 6}
result = run_experiment(model, queries, X, y, scoring="r2", random_state=0, **sizes)

import matplotlib.pyplot as plt

# Picture: R2 by the number of measurements, from 10 to 70, in 95 % bands: the default is above random choice.
LearningCurveDisplay.from_result(result)
plt.show()

# %%
gain = next(row["difference"] for row in result.summary(reference="uniform").rows if row["query"] == "default")
print(
    f"The default explained {100 * gain.mean:.1f} points more of the variance than random choice "
    f"(95 % interval {100 * gain.low:.1f} to {100 * gain.high:.1f})."
)
