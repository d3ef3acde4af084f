"""A Gaussian process of GPyTorch: draws that are functions, by Matheron's rule.

Run with ``python examples/other_models/gpytorch_process.py``. It needs gpytorch.
"""

import gpytorch
import numpy as np
import torch
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skactive import StochasticBatchQuery, sample_posterior
from skactive.datasets import load_table
from skactive.posterior import check_posterior


class Process(gpytorch.models.ExactGP):
    def __init__(self, x, t, likelihood):
        super().__init__(x, t, likelihood)
        self.mean_module = gpytorch.means.ConstantMean()
        self.covar_module = gpytorch.kernels.ScaleKernel(gpytorch.kernels.RBFKernel(ard_num_dims=x.shape[1]))

    def forward(self, x):
        return gpytorch.distributions.MultivariateNormal(self.mean_module(x), self.covar_module(x))


class GPyTorchRegressor(RegressorMixin, BaseEstimator):
    def __init__(self, n_steps=50, n_features=2048):
        self.n_steps = n_steps
        self.n_features = n_features

    def fit(self, X, y):
        y = np.asarray(y, dtype=float)
        self.mean_, self.scale_ = y.mean(), y.std()
        x, t = torch.as_tensor(np.asarray(X)), torch.as_tensor((y - self.mean_) / self.scale_)
        process = Process(x, t, gpytorch.likelihoods.GaussianLikelihood()).double()
        marginal = gpytorch.mlls.ExactMarginalLogLikelihood(process.likelihood, process)
        optimizer = torch.optim.Adam(process.parameters(), lr=0.1)
        for _ in range(self.n_steps):
            optimizer.zero_grad()
            (-marginal(process(x), t)).backward()
            optimizer.step()
        self.process_, self.x_, self.t_ = process.eval(), x, t
        self.noise_variance_ = process.likelihood.noise.item() * self.scale_**2  # for the score "gaussian_bald"
        return self

    def predict(self, X, return_std=False):
        with torch.no_grad():
            f = self.process_(torch.as_tensor(np.asarray(X)))
        mean = self.mean_ + self.scale_ * f.mean.numpy()
        return (mean, self.scale_ * f.stddev.numpy()) if return_std else mean

    @torch.no_grad()
    def sample_posterior(self, n_draws, rng):
        # A function of the prior, by random Fourier features of the RBF kernel, ...
        process, x = self.process_, self.x_
        scale = process.covar_module.outputscale
        length = process.covar_module.base_kernel.lengthscale
        frequencies = torch.as_tensor(rng.standard_normal((self.n_features, x.shape[1]))) / length
        phases = torch.as_tensor(rng.uniform(0, 2 * np.pi, self.n_features))
        weights = torch.as_tensor(rng.standard_normal((self.n_features, n_draws)))

        def prior(x):
            return (2 * scale / self.n_features).sqrt() * torch.cos(x @ frequencies.T + phases) @ weights

        # ... plus what the labels add to it: k(x, X) (K + noise)^-1 (y - prior(X) - a draw of the noise).
        noise = process.likelihood.noise
        drawn = prior(x) + noise.sqrt() * torch.as_tensor(rng.standard_normal((len(x), n_draws)))
        mean = process.mean_module.constant
        covariance = process.covar_module(x).to_dense() + noise * torch.eye(len(x))
        update = torch.linalg.solve(covariance, (self.t_ - mean)[:, None] - drawn)

        @torch.no_grad()
        def predict_draws(X):
            x_new = torch.as_tensor(np.asarray(X))
            f = mean + prior(x_new) + process.covar_module(x_new, x).to_dense() @ update
            return self.mean_ + self.scale_ * f.T

        return predict_draws


frame, _ = load_table("penguins")
frame = frame.dropna()
X, y = frame[["bill_length_mm", "bill_depth_mm", "flipper_length_mm"]].to_numpy(float), frame["body_mass_g"].to_numpy()
order = np.random.default_rng(0).permutation(len(X))
pool, test = order[:233], order[233:]
labelled = pool[:20]
query = StochasticBatchQuery("gaussian_bald", random_state=0)
for _ in range(4):
    model = make_pipeline(StandardScaler(), GPyTorchRegressor()).fit(X[labelled], y[labelled])
    error = np.sqrt(np.mean((model.predict(X[test]) - y[test]) ** 2))
    print(f"{len(labelled)} labels: off by {error:.0f} g")
    rest = np.setdiff1d(pool, labelled)
    labelled = np.append(labelled, rest[query.select(model, X[rest], 10)])

check_posterior(model, X[test])
draws = sample_posterior(model, 2000, np.random.default_rng(0))(X[test])
mean, std = model[-1].predict(model[:-1].transform(X[test]), return_std=True)
off = ((draws.mean(0).numpy() - mean) / (std / np.sqrt(2000))).std()
ratio = (draws.std(0).numpy() / std).mean()
print(f"means of the draws: {off:.1f} standard errors off; deviations: {ratio:.2f} of the model's")
