"""A Laplace approximation by laplace-torch: a source of draws that is registered for a class of another package.

Run with ``python examples/other_models/laplace_torch.py``. It needs laplace-torch.
"""

import numpy as np
import torch
from laplace import Laplace
from laplace.lllaplace import LLLaplace
from sklearn.datasets import load_digits
from torch import nn

from skactive import StochasticBatchQuery, sample_posterior
from skactive.posterior import check_posterior


@sample_posterior.register(LLLaplace)
def draws_of_a_last_layer(model, n_draws, rng):
    generator = torch.Generator(model.mean.device).manual_seed(int(rng.integers(2**63)))
    sampled = model.sample(100 if n_draws is None else n_draws, generator=generator)
    n_classes, n_units = model.model.last_layer.weight.shape
    weights = sampled[:, : n_classes * n_units].reshape(-1, n_classes, n_units)
    biases = sampled[:, None, n_classes * n_units :]

    @torch.no_grad()
    def predict_draws(X):
        x = torch.as_tensor(np.asarray(X), dtype=weights.dtype, device=weights.device)
        _, units = model.model.forward_with_features(x)
        return (torch.einsum("nu,kcu->knc", units, weights) + biases).softmax(-1)

    return predict_draws


def fit(X, y):
    """A net, and the Laplace approximation of its last layer under the same prior."""
    torch.manual_seed(0)
    x, t = torch.from_numpy(X), torch.from_numpy(y)
    net = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
    optimizer = torch.optim.Adam(net.parameters(), lr=0.01, weight_decay=1 / len(X))
    for _ in range(200):
        optimizer.zero_grad()
        nn.functional.cross_entropy(net(x), t).backward()
        optimizer.step()
    model = Laplace(net, "classification", subset_of_weights="last_layer", prior_precision=1.0)
    model.fit(torch.utils.data.DataLoader(torch.utils.data.TensorDataset(x, t), batch_size=64))
    return model


X, y = load_digits(return_X_y=True)
X = (X / 16).astype(np.float32)
X_pool, y_pool, X_test, y_test = X[:1200], y[:1200], X[1200:], y[1200:]
labelled = np.arange(50)
query = StochasticBatchQuery("bald", beta=16.0, random_state=0)
for _ in range(4):
    model = fit(X_pool[labelled], y_pool[labelled])
    p = model(torch.from_numpy(X_test), link_approx="probit").numpy()
    print(f"{len(labelled)} labels: accuracy {np.mean(p.argmax(axis=1) == y_test):.2f}")
    rest = np.setdiff1d(np.arange(len(X_pool)), labelled)
    labelled = np.append(labelled, query.select(model, X_pool, 20, candidates=rest))

check_posterior(model, X_pool[:20])
draws = sample_posterior(model, 200, np.random.default_rng(0))(X_test)
print(f"mean of the draws: accuracy {np.mean(draws.mean(0).argmax(-1).numpy() == y_test):.2f}")
