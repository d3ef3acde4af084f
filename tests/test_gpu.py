"""The same draws, scores and batches on a CUDA device as on the CPU: masks are numbers by address on both."""

import copy
import subprocess
import sys

import numpy as np
import pytest
import torch
from architectures import TWO_LINEAR, make
from nets import Functions, Net, Residual, sequential
from torch import nn

from skactive import BADGEQuery, BatchBALDQuery, MCDropoutClassifier, MCDropoutRegressor, StochasticBatchQuery
from skactive._dropout import InBlocks, TensorRows

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")]
DEVICE = "cuda"


@pytest.fixture(autouse=True)
def full_precision():
    """Convolutions of 10 bits (TF32, the default) would differ by 1e-3."""
    before = torch.backends.cudnn.allow_tf32
    torch.backends.cudnn.allow_tf32 = False
    yield
    torch.backends.cudnn.allow_tf32 = before


def coin_on_the_host(m, x):
    h = torch.relu(m.a(x))
    if m.training:
        h = h * (2.0 if float(torch.rand((), device="cpu")) < 0.1 else 1.0)
        h = h + 0.01 * torch.randn_like(h)
    return m.b(m.drop(h))


MODULES = {
    "thinned": lambda: sequential((12, 64), nn.ReLU, 0.5, (64, 32), nn.BatchNorm1d(32), nn.Tanh, 0.3, (32, 3)),
    "thinned convolutions": lambda: sequential(
        *(nn.Conv2d(1, 6, 3), nn.Dropout2d(0.5), nn.MaxPool2d(2), nn.ReLU, nn.Conv2d(6, 8, 3), nn.BatchNorm2d(8)),
        *(nn.Dropout2d(0.5), nn.ReLU, nn.Flatten, (128, 16), nn.ReLU, 0.5, (16, 3)),
    ),
    "residual": Residual,
}
OTHERS = ["CNN, dropout of pixels", "GRU, rows first", "GRU, rows second", "multi-head attention, rows first"]
OTHERS += ["multi-head attention, rows second", "transformer encoder, rows second", "drop path by bernoulli_"]


def module_and_rows(name, n_rows=300):
    if name in OTHERS:
        module, x = make(name)
        return module, x[torch.arange(n_rows) % len(x)].numpy()
    torch.manual_seed(0)
    shape = (1, 14, 14) if "convolutions" in name else (12,)
    return MODULES[name]().eval(), np.random.default_rng(1).standard_normal((n_rows, *shape), dtype=np.float32)


@pytest.mark.parametrize("name", [*MODULES, *OTHERS])
def test_draws_on_the_gpu_are_those_of_the_cpu_and_do_not_wait_once_it_is_known(name):
    module, X = module_and_rows(name)
    x = torch.from_numpy(X)
    on_cpu = Functions(module, 20, batch_size=100)(x)
    functions, x = Functions(module.to(DEVICE), 20, batch_size=100), x.to(DEVICE)
    on_gpu = functions(x)
    assert on_gpu.device.type == DEVICE
    np.testing.assert_allclose(on_gpu.cpu(), on_cpu, rtol=0, atol=1e-4)
    # Kernels that add in any order are near enough for the quick way, which drop path has not.
    assert name == OTHERS[-1] or None not in functions.draws._plans.values()
    before = torch.cuda.get_sync_debug_mode()
    torch.cuda.set_sync_debug_mode("error")
    try:
        functions(x)
    finally:
        torch.cuda.set_sync_debug_mode(before)


def test_a_query_takes_the_same_rows_on_both_whatever_the_default_device():
    module, X = module_and_rows("thinned", n_rows=5000)
    on_gpu = copy.deepcopy(module).to(DEVICE)

    def chosen(net):
        return StochasticBatchQuery(n_draws=20, chunk_size=900, random_state=0).select(net, X, 10)

    batches = [chosen(module), chosen(on_gpu)]
    torch.set_default_device(DEVICE)
    try:
        batches += [chosen(module), chosen(on_gpu)]
    finally:
        torch.set_default_device(None)
    assert len(set(map(tuple, batches))) == 1
    for query in (BatchBALDQuery, BADGEQuery):
        assert len(set(query(random_state=0).select(on_gpu, X[:200], 5).tolist())) == 5


@pytest.mark.parametrize("kind", [MCDropoutClassifier, MCDropoutRegressor])
def test_estimators_train_and_answer_on_the_gpu(kind):
    X = np.random.default_rng(0).standard_normal((200, 5))
    y = (X[:, 0] > 0).astype(int)
    net = kind(max_epochs=30, device=DEVICE, random_state=0).fit(X, y)
    assert next(net.net_.module_.parameters()).device.type == DEVICE
    assert net.score(X, y) > 0.5
    draws = net.sample_posterior(20, np.random.default_rng(0))(X)
    assert draws.device.type == DEVICE
    whole = Functions(copy.deepcopy(net.net_.module_).cpu(), 20)
    on_cpu = net._answer(whole(torch.from_numpy(X.astype(np.float32))))
    np.testing.assert_allclose(draws.cpu(), on_cpu, rtol=0, atol=1e-4)


@pytest.mark.parametrize("name", ["coin", *OTHERS[1:5]])
@pytest.mark.parametrize("device", ["cuda", "cuda:1"])
def test_training_on_the_gpu_neither_reads_nor_moves_a_generator_of_torch(name, device):
    if device == "cuda:1" and torch.cuda.device_count() < 2:
        pytest.skip("needs two CUDA devices")
    module, X = (Net(coin_on_the_host, **TWO_LINEAR), make("MLP")[1]) if name == "coin" else make(name)
    X, y = X[torch.arange(60) % 5].numpy(), np.arange(60) % 3
    net = MCDropoutClassifier(module=module, max_epochs=3, device=device, random_state=0)
    before = torch.get_rng_state(), *torch.cuda.get_rng_state_all()
    first = net.fit(X, y).predict_proba(X)
    assert next(net.net_.module_.parameters()).device == torch.empty(0, device=device).device
    assert all(map(torch.equal, (torch.get_rng_state(), *torch.cuda.get_rng_state_all()), before))
    torch.rand(3, device=device)
    np.testing.assert_allclose(net.fit(X, y).predict_proba(X), first, rtol=0, atol=1e-3)


def test_blocks_are_halved_where_the_memory_of_the_gpu_runs_out():
    n_free = torch.cuda.mem_get_info()[0]
    x, blocks = torch.zeros(64, 1, device=DEVICE), InBlocks(64)

    def large(rows, block):
        held = torch.empty((len(block), n_free // 20), dtype=torch.uint8, device=DEVICE)
        return rows.take(block) + held[:, :1]

    with pytest.warns(UserWarning, match="Memory ran out for 64 rows"):
        outputs = blocks.joined(large, TensorRows(x))
    assert len(outputs) == 64
    assert blocks.batch_size <= 32


@pytest.mark.parametrize("before", ["torch.rand(1, device='cuda')", "pass"])
def test_generators_seeded_for_a_fit_are_as_before_afterwards(before):
    code = f"""import torch
from skactive._utils.randomness import seeded
def drawn(): return torch.rand(3, device="cuda")
torch.manual_seed(7); {before}
with seeded(3): drawn()
x = drawn(); torch.manual_seed(7); {before}
assert torch.equal(x, drawn())"""
    subprocess.run([sys.executable, "-c", code], check=True)
