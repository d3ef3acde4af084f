"""The same draws, scores and batches on a CUDA device as on the CPU: masks come from numpy on both."""

import copy

import numpy as np
import pytest
import torch
from torch import nn

from skactive import MCDropoutClassifier, MCDropoutRegressor, StochasticBatchQuery, sample_posterior, scores
from skactive._thinning import fixed_mask_draws

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]
DEVICE = "cuda"


@pytest.fixture(autouse=True)
def full_precision():
    """Convolutions of 10 bits (TF32, the default) would differ by 1e-3."""
    before = torch.backends.cudnn.allow_tf32
    torch.backends.cudnn.allow_tf32 = False
    yield
    torch.backends.cudnn.allow_tf32 = before


class Residual(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b, self.drop, self.last = nn.Linear(12, 16), nn.Linear(16, 16), nn.Dropout(0.5), nn.Linear(16, 3)

    def forward(self, x):
        h = self.a(x)
        return self.last(h + self.drop(torch.relu(self.b(h))))


class Sequences(nn.Module):
    def __init__(self):
        super().__init__()
        self.recur = nn.GRU(4, 8, num_layers=2, dropout=0.5, batch_first=True)
        self.attend, self.last = nn.MultiheadAttention(8, 2, dropout=0.5, batch_first=True), nn.Linear(8, 3)

    def forward(self, x):
        h = self.recur(x.unflatten(1, (3, 4)))[0]
        return self.last(self.attend(h, h, h)[0][:, 0])


def convolutional(drop):
    blocks = [nn.Conv2d(1, 6, 3), drop, nn.MaxPool2d(2), nn.ReLU(), nn.Conv2d(6, 8, 3), nn.BatchNorm2d(8), drop]
    return nn.Sequential(
        *blocks, nn.ReLU(), nn.Flatten(), nn.Linear(128, 16), nn.ReLU(), nn.Dropout(0.5), nn.Linear(16, 3)
    )


MODULES = {
    "thinned": lambda: nn.Sequential(
        *(nn.Linear(12, 64), nn.ReLU(), nn.Dropout(0.5), nn.Linear(64, 32), nn.BatchNorm1d(32), nn.Tanh()),
        *(nn.Dropout(0.3), nn.Linear(32, 3)),
    ),
    "thinned convolutions": lambda: convolutional(nn.Dropout2d(0.5)),
    "masked convolutions": lambda: convolutional(nn.Dropout(0.5)),
    "alpha": lambda: nn.Sequential(nn.Linear(12, 16), nn.SELU(), nn.AlphaDropout(0.4), nn.Linear(16, 3)),
    "residual": Residual,
    "inner dropout": Sequences,
}


def module_and_rows(name, n_rows=300):
    torch.manual_seed(0)
    shape = (1, 14, 14) if "convolutions" in name else (12,)
    return MODULES[name]().eval(), np.random.default_rng(1).standard_normal((n_rows, *shape), dtype=np.float32)


@pytest.mark.parametrize("name", MODULES)
def test_draws_on_the_gpu_are_those_of_the_cpu(name):
    module, X = module_and_rows(name)
    x = torch.from_numpy(X)
    on_cpu = fixed_mask_draws(module, 20, np.random.default_rng(0))(x)
    on_gpu = fixed_mask_draws(module.to(DEVICE), 20, np.random.default_rng(0))(x.to(DEVICE))
    assert on_gpu.device.type == DEVICE
    np.testing.assert_allclose(on_gpu.cpu(), on_cpu, rtol=0, atol=1e-4)


@pytest.mark.parametrize("name", ["bald", "entropy", "variation_ratio", "std_dev"])
def test_scores_on_the_gpu_are_those_of_the_cpu(name):
    module, X = module_and_rows("thinned")
    on_cpu = sample_posterior(module, 20, np.random.default_rng(0))(X)
    on_gpu = sample_posterior(copy.deepcopy(module).to(DEVICE), 20, np.random.default_rng(0))(X)
    ours = scores.SCORES[name](on_gpu)
    assert ours.device.type == DEVICE
    np.testing.assert_allclose(ours.cpu(), scores.SCORES[name](on_cpu), rtol=0, atol=1e-4)


@pytest.mark.parametrize("sampler", ["power", "topk"])
def test_a_query_takes_the_same_rows_on_both(sampler):
    module, X = module_and_rows("thinned", n_rows=5000)
    batches = [
        StochasticBatchQuery(sampler=sampler, n_draws=20, chunk_size=900, random_state=0).select(net, X, 10)
        for net in (module, copy.deepcopy(module).to(DEVICE))
    ]
    np.testing.assert_array_equal(*batches)


@pytest.mark.parametrize("kind", [MCDropoutClassifier, MCDropoutRegressor])
def test_estimators_train_and_answer_on_the_gpu(kind):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((200, 5))
    y = (X[:, 0] > 0).astype(int)
    net = kind(max_epochs=30, device=DEVICE, random_state=0).fit(X, y)
    assert next(net.net_.module_.parameters()).device.type == DEVICE
    assert net.score(X, y) > 0.5
    draws = net.sample_posterior(20, np.random.default_rng(0))(X)
    assert draws.device.type == DEVICE
    whole = fixed_mask_draws(copy.deepcopy(net.net_.module_).cpu(), 20, np.random.default_rng(0))
    on_cpu = net._answer(whole(torch.from_numpy(X.astype(np.float32))))
    np.testing.assert_allclose(draws.cpu(), on_cpu, rtol=0, atol=1e-4)
