"""Bayesian layers of torchbnn in a skorch net: a class of one's own with the method ``sample_posterior``.

Run with ``python examples/other_models/torchbnn_layers.py``. It needs torchbnn.
"""

import copy

import numpy as np
import torch
import torchbnn
from modAL.models import ActiveLearner
from sklearn.datasets import load_digits
from skorch import NeuralNetClassifier
from torch import nn

from skactive import StochasticBatchQuery
from skactive.posterior import check_posterior


def make_net():
    prior = {"prior_mu": 0, "prior_sigma": 0.2}
    return nn.Sequential(
        torchbnn.BayesLinear(**prior, in_features=64, out_features=64),
        nn.ReLU(),
        torchbnn.BayesLinear(**prior, in_features=64, out_features=10),
    )


class BayesNet(NeuralNetClassifier):
    def get_loss(self, y_pred, y_true, X=None, training=False):
        loss = super().get_loss(y_pred, y_true, X=X, training=training)
        kl = torchbnn.BKLLoss(reduction="sum")(self.module_)
        # A tenth of its weight: with so few labels, all of it keeps the weights at the prior.
        return loss + 0.1 * kl.sum() / self.n_labels_

    def fit(self, X, y, **fit_params):
        self.n_labels_ = len(y)
        return super().fit(X, y, **fit_params)

    def sample_posterior(self, n_draws, rng):
        # A layer with numbers in `weight_eps` and `bias_eps` takes these in place of new ones.
        generator = torch.Generator().manual_seed(int(rng.integers(2**63)))
        module = copy.deepcopy(self.module_).eval()  # a later fit does not change these draws
        layers = [layer for layer in module.modules() if isinstance(layer, torchbnn.BayesLinear)]
        noise = [
            [
                (
                    torch.randn(layer.weight_mu.shape, generator=generator),
                    torch.randn(layer.bias_mu.shape, generator=generator),
                )
                for layer in layers
            ]
            for _ in range(n_draws)
        ]

        @torch.no_grad()
        def predict_draws(X):
            x, draws = torch.as_tensor(np.asarray(X), device=self.device), []
            for draw in noise:
                for layer, (weight, bias) in zip(layers, draw, strict=True):
                    layer.weight_eps, layer.bias_eps = weight.to(x.device), bias.to(x.device)
                draws.append(module(x).softmax(-1))
            return torch.stack(draws)

        return predict_draws

    def predict_proba(self, X):
        return self.sample_posterior(50, np.random.default_rng(0))(X).mean(0).cpu().numpy()


X, y = load_digits(return_X_y=True)
X = (X / 16).astype(np.float32)
X_pool, y_pool, X_test, y_test = X[100:1200], y[100:1200], X[1200:], y[1200:]
torch.manual_seed(0)  # torchbnn draws from torch's global generator in training
net = BayesNet(
    make_net,
    criterion=nn.CrossEntropyLoss,
    optimizer=torch.optim.Adam,
    lr=0.01,
    max_epochs=80,
    batch_size=16,
    train_split=None,
    verbose=0,
)
query = StochasticBatchQuery("bald", random_state=0)
learner = ActiveLearner(net, query, X_training=X[:100], y_training=y[:100])
for _ in range(2):
    print(f"{len(learner.y_training)} labels: accuracy {learner.score(X_test, y_test):.2f}")
    rows, batch = learner.query(X_pool, n_instances=30)
    learner.teach(batch, y_pool[rows])
    X_pool, y_pool = np.delete(X_pool, rows, axis=0), np.delete(y_pool, rows)
print(f"{len(learner.y_training)} labels: accuracy {learner.score(X_test, y_test):.2f}")

check_posterior(learner.estimator, X_pool[:20])
