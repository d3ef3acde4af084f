"""The same draws, scores and batches on a CUDA device as on the CPU: masks are numbers by address on both."""

import copy

import numpy as np
import pytest
import torch
from nets import Functions, Residual
from torch import nn

from skactive import (
    ACSFWQuery,
    BADGEQuery,
    BatchBALDQuery,
    MCDropoutClassifier,
    MCDropoutRegressor,
    StochasticBatchQuery,
    sample_posterior,
    scores,
)
from skactive._dropout import InBlocks, TensorRows

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


class Sequences(nn.Module):
    def __init__(self, rows_first=True):
        super().__init__()
        self.recur = nn.GRU(4, 8, num_layers=2, dropout=0.5, batch_first=rows_first)
        self.attend, self.last = nn.MultiheadAttention(8, 2, dropout=0.5, batch_first=rows_first), nn.Linear(8, 3)
        self.encode = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.2, batch_first=rows_first)
        self.rows_first = rows_first

    def forward(self, x):
        h = x.unflatten(1, (3, 4))
        h = self.recur(h if self.rows_first else h.transpose(0, 1))[0]
        h = self.encode(self.attend(h, h, h)[0])
        return self.last(h[:, 0] if self.rows_first else h[0])


class Paths(nn.Module):
    """A branch that rows skip, by numbers that the net draws itself; a coin on the host, as layer drop tosses it."""

    def __init__(self):
        super().__init__()
        self.a, self.b, self.last, self.drop = nn.Linear(12, 16), nn.Linear(16, 16), nn.Linear(16, 3), nn.Dropout(0.2)

    def forward(self, x):
        h, branch = self.a(x), self.b(self.a(x))
        if self.training:
            branch = branch * branch.new_empty((len(x), 1)).bernoulli_(0.8) / 0.8
        return self.last(self.drop(h + branch))


class CoinOnTheHost(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.drop, self.last = nn.Linear(5, 16), nn.Dropout(0.2), nn.Linear(16, 2)

    def forward(self, x):
        h = torch.relu(self.a(x))
        if self.training:
            order = torch.randperm(16, device="cpu").to(h.device)
            h = h[:, order] if float(torch.rand((), device="cpu")) < 0.1 else h
            h = h + 0.01 * torch.randn_like(h)
        return self.last(self.drop(h))


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
    "inner dropout, tokens first": lambda: Sequences(rows_first=False),
    "paths": Paths,
}


def module_and_rows(name, n_rows=300):
    torch.manual_seed(0)
    shape = (1, 14, 14) if "convolutions" in name else (12,)
    return MODULES[name]().eval(), np.random.default_rng(1).standard_normal((n_rows, *shape), dtype=np.float32)


@pytest.mark.parametrize("name", MODULES)
def test_draws_on_the_gpu_are_those_of_the_cpu(name):
    module, X = module_and_rows(name)
    x = torch.from_numpy(X)
    on_cpu = Functions(module, 20)(x)
    on_gpu = Functions(module.to(DEVICE), 20)(x.to(DEVICE))
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
    whole = Functions(copy.deepcopy(net.net_.module_).cpu(), 20)
    on_cpu = net._answer(whole(torch.from_numpy(X.astype(np.float32))))
    np.testing.assert_allclose(draws.cpu(), on_cpu, rtol=0, atol=1e-4)


@pytest.mark.parametrize("name", ["thinned", "masked convolutions", "inner dropout, tokens first", "paths"])
def test_draws_do_not_wait_for_the_gpu_once_it_is_known(name):
    module, X = module_and_rows(name)
    functions, x = Functions(module.to(DEVICE), 20, batch_size=100), torch.from_numpy(X).to(DEVICE)
    functions(x)
    before = torch.cuda.get_sync_debug_mode()
    torch.cuda.set_sync_debug_mode("error")
    try:
        functions(x)
    finally:
        torch.cuda.set_sync_debug_mode(before)


@pytest.mark.parametrize("name", ["thinned", "thinned convolutions", "residual"])
def test_the_quick_way_is_taken_on_the_gpu(name):
    """Kernels that add in any order give other bits at every call: near is near enough."""
    module, X = module_and_rows(name)
    functions = Functions(module.to(DEVICE), 5)
    functions(torch.from_numpy(X).to(DEVICE))
    assert all("_whole" not in repr(plan) for plan in functions.draws._plans.values())


@pytest.mark.parametrize("kind", [CoinOnTheHost, Sequences])
def test_training_on_the_gpu_neither_reads_nor_moves_a_generator_of_torch(kind):
    X, y = np.random.default_rng(0).standard_normal((60, 5 if kind is CoinOnTheHost else 12)), np.arange(60) % 2
    options = {"module": kind, "max_epochs": 3, "device": DEVICE, "random_state": 0}
    options |= {} if kind is CoinOnTheHost else {"classes": [0, 1, 2]}
    before = torch.get_rng_state(), torch.cuda.get_rng_state_all()
    first = MCDropoutClassifier(**options).fit(X, y).predict_proba(X)
    assert torch.equal(torch.get_rng_state(), before[0])
    assert all(map(torch.equal, torch.cuda.get_rng_state_all(), before[1]))
    torch.rand(3, device=DEVICE)
    np.testing.assert_allclose(MCDropoutClassifier(**options).fit(X, y).predict_proba(X), first, rtol=0, atol=1e-3)


@pytest.mark.parametrize("query", [BatchBALDQuery, BADGEQuery, ACSFWQuery])
def test_batches_are_chosen_on_the_gpu(query):
    module, X = module_and_rows("thinned", n_rows=200)
    batch = query(random_state=0).select(module.to(DEVICE), X, 5)
    assert len(set(batch.tolist())) == 5


def test_new_tensors_on_the_gpu_by_default_change_nothing():
    module, X = module_and_rows("thinned", n_rows=200)
    y = np.arange(200) % 3
    wanted = StochasticBatchQuery(n_draws=5, random_state=0).select(module, X, 5)
    net = MCDropoutClassifier(max_epochs=3, device="cpu", random_state=0).fit(X, y)
    torch.set_default_device(DEVICE)
    try:
        chosen = StochasticBatchQuery(n_draws=5, random_state=0).select(module, X, 5)
        again = MCDropoutClassifier(max_epochs=3, device="cpu", random_state=0).fit(X, y)
        on_gpu = MCDropoutClassifier(max_epochs=3, random_state=0).fit(X, y)
    finally:
        torch.set_default_device(None)
    np.testing.assert_array_equal(chosen, wanted)
    np.testing.assert_array_equal(again.predict_proba(X), net.predict_proba(X))
    assert next(on_gpu.net_.module_.parameters()).is_cuda


@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs two CUDA devices")
def test_seeds_go_to_the_device_in_use_not_to_the_current_one():
    X, y = np.random.default_rng(0).standard_normal((60, 12)), np.arange(60) % 3
    before = torch.cuda.get_rng_state_all()
    fits = [
        MCDropoutClassifier(module=Sequences, max_epochs=2, device="cuda:1", random_state=0).fit(X, y) for _ in range(2)
    ]
    assert all(map(torch.equal, torch.cuda.get_rng_state_all(), before))
    assert next(fits[0].net_.module_.parameters()).device == torch.device("cuda:1")
    np.testing.assert_allclose(*(net.predict_proba(X) for net in fits), rtol=0, atol=1e-3)


def test_a_device_number_that_is_not_there_is_named():
    n_devices = torch.cuda.device_count()
    with pytest.raises(ValueError, match=f"`device` must be .* Got 'cuda:{n_devices}'"):
        MCDropoutClassifier(device=f"cuda:{n_devices}").fit(np.eye(4), [0, 1, 0, 1])


def test_blocks_are_halved_where_the_memory_of_the_gpu_runs_out():
    n_free = torch.cuda.mem_get_info()[0]
    x = torch.zeros(64, 1, device=DEVICE)

    def large(rows, block):
        held = torch.empty((len(block), n_free // 20), dtype=torch.uint8, device=DEVICE)
        return rows.take(block) + held[:, :1]

    blocks = InBlocks(64)
    with pytest.warns(UserWarning, match="Memory ran out for 64 rows"):
        outputs = blocks.joined(large, TensorRows(x))
    assert len(outputs) == 64
    assert blocks.batch_size <= 32
