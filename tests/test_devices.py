"""Nets on devices other than the host, seen from a machine without a GPU: see `devices`."""

import ast
import copy
import re
from pathlib import Path

import numpy as np
import pytest
import torch
from architectures import DropPath
from devices import META, Device, MixedDevicesError
from nets import Functions, Residual
from sklearn.datasets import load_iris
from skorch import NeuralNetClassifier
from torch import nn
from torch.nn import functional as F

import skactive
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
from skactive._dropout import TrainingRandom, _dropout_calls
from skactive._utils import devices as _devices
from skactive.mc_dropout import _training
from skactive.posterior import _nets
from skactive.posterior._embeddings import RepresentedNet

N_DRAWS, BATCH = 3, 4


def over_tokens(layer, rows_first=True):
    """Three tokens of four numbers through a layer, tokens or rows first, and a linear layer for the first token."""

    def forward(m, x):
        h = m.embed(x.unflatten(1, (3, 4)))
        h = h if rows_first else h.transpose(0, 1)
        h = m.layer(h, h, h) if isinstance(m.layer, nn.MultiheadAttention) else m.layer(h)
        h = h[0] if isinstance(h, tuple) else h
        return m.last(h[:, 0] if rows_first else h[0])

    return Net(forward, layer=layer, last=nn.Linear(8, 3), embed=nn.Linear(4, 8))


def noisy(m, x):
    """A layer that asks for numbers of its own, on the default device and on the one of its rows."""
    h = m.a(x)
    if m.training:
        h = h + 0.1 * torch.randn_like(h[:1]) + 0.1 * torch.rand(16, device=h.device)
    return m.last(h)


def u_net(m, x):
    h = torch.relu(m.down(x))
    g = m.up(m.drop(torch.relu(m.inner(F.max_pool2d(h, 2)))))
    return m.last(torch.cat([h, g], 1).mean((2, 3)))


def mlp(*between):
    return nn.Sequential(nn.Linear(12, 16), *between, nn.ReLU(), nn.Dropout(0.5), nn.Linear(16, 3))


def convolutional():
    first = nn.Conv2d(1, 6, 3), nn.Dropout2d(0.5), nn.MaxPool2d(2), nn.ReLU()
    second = nn.Conv2d(6, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Dropout2d(0.5)
    return nn.Sequential(*first, *second, nn.Flatten(), nn.Linear(72, 3))


def encoder():
    layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.2, batch_first=True)
    return over_tokens(nn.TransformerEncoder(layer, 1, enable_nested_tensor=False))


VECTORS = {
    "MLP": lambda: mlp(nn.BatchNorm1d(16)),
    "residual": Residual,
    "attention, tokens first": lambda: over_tokens(nn.MultiheadAttention(8, 2, dropout=0.5), False),
    "LSTM": lambda: over_tokens(nn.LSTM(8, 8, num_layers=2, dropout=0.5, batch_first=True)),
    "encoder": encoder,
    "paths": lambda: nn.Sequential(nn.Linear(12, 16), DropPath(0.2, "bernoulli_"), nn.Linear(16, 3)),
    "numbers of its own": lambda: Net(noisy, a=nn.Linear(12, 16), last=nn.Linear(16, 3)),
}
IMAGES = {
    "thinned convolutions": convolutional,
    "U-Net": lambda: Net(
        u_net,
        **{"down": nn.Conv2d(1, 4, 3, padding=1), "inner": nn.Conv2d(4, 4, 3, padding=1)},
        **{"up": nn.ConvTranspose2d(4, 4, 2, stride=2), "drop": nn.Dropout2d(0.5), "last": nn.Linear(8, 3)},
    ),
}
NETS = VECTORS | IMAGES


def net_and_rows(name, n_rows=2 * BATCH, device=META):
    torch.manual_seed(0)
    shape = (1, 12, 12) if name in IMAGES else (12,)
    x = np.random.default_rng(0).standard_normal((n_rows, *shape), dtype=np.float32)
    return NETS[name]().eval().to(device), torch.from_numpy(x).to(device)


def test_the_watched_device_counts_waits_and_refuses_what_lies_elsewhere():
    x, there = torch.ones(3, 4, device=META), torch.ones(3, 4)
    with Device() as device:
        assert bool((x > 0).any())
        assert float(x.sum()) == 1.0
        assert torch.equal(x, x)
        assert x.cpu().tolist() == there.tolist()
        assert x[x > 0].shape == (12,)
        assert device.n_waits == 5
        _ = x.to(META) + 1.0 + torch.tensor(2.0)
        assert (device.n_waits, device.sent) == (5, 0)
        there.to(META)
        assert device.sent == 1
        with pytest.raises(MixedDevicesError, match="different devices"):
            _ = x + there
    with Device(has_float64=False), pytest.raises(AssertionError, match="float64"):
        x.double()


# Draws


@pytest.mark.parametrize("name", NETS)
def test_draws_stay_on_the_device_and_never_wait_for_it_once_it_is_known(name):
    module, x = net_and_rows(name)
    with torch.no_grad(), Device(has_float64=False) as device:
        functions = Functions(module, N_DRAWS, batch_size=BATCH)
        assert functions(x).device == META
        before = device.n_waits, device.sent
        draws = functions(x)
    assert draws.shape == (N_DRAWS, len(x), 3)
    assert (device.n_waits, device.sent) == before


@pytest.mark.parametrize("of_device", [2**40, 2**15, 0])
def test_all_draws_go_through_one_product_where_the_device_has_memory(monkeypatch, of_device):
    monkeypatch.setattr(_devices, "memory", lambda device: of_device)
    module, x = net_and_rows("MLP")
    with torch.no_grad(), Device():
        functions = Functions(module, 20, batch_size=BATCH)
        functions(x)
    (networks,) = functions.draws._pruned.values()
    assert len(networks._networks) >= 1
    assert (len(networks._blocks) == 1) == (of_device != 2**15)  # 0: it does not say, and 64 MiB are enough


def test_memory_of_draws_does_not_grow_with_their_number(monkeypatch):
    monkeypatch.setattr(_dropout_calls, "MAX_KEPT", 2**18)
    layer = nn.TransformerEncoderLayer(48, 12, 48, dropout=0.1, batch_first=True)
    module = nn.Sequential(layer, nn.Flatten(), nn.Linear(48 * 256, 3))
    peaks = []
    for n_draws in (2, 5):
        with torch.no_grad(), Device() as device:
            Functions(module.to(META), n_draws, batch_size=1)(torch.ones(2, 256, 48, device=META))
        peaks.append(device.peak)
    assert peaks[1] < 1.05 * peaks[0]
    assert device.largest == 4 * 12 * 256 * 256  # weights of attention


def test_a_pass_is_written_down_in_the_memory_that_it_takes():
    """What later calls of the net do not need is let go, as in a pass that nobody writes down."""
    layers = [layer for _ in range(30) for layer in (nn.Linear(64, 64), nn.Tanh())]
    module = nn.Sequential(nn.Dropout(0.5), nn.LayerNorm(64), *layers, nn.Linear(64, 3)).to(META)
    x = torch.ones(20_000, 64, device=META)
    with torch.no_grad(), Device() as device:
        Functions(module, 1, batch_size=20_000)(x)
    assert device.peak < 10 * x.nbytes


# What is made of draws


def test_scores_losses_and_probabilities_are_made_on_the_device():
    draws = torch.ones(5, 40, 3, device=META)
    for name, given in (("bald", draws), ("entropy", draws), ("margin", draws), ("std_dev", draws[..., 0])):
        with Device() as device:
            assert scores.SCORES[name](given).device == META, name
        assert device.n_waits <= 2, name  # whether all are probabilities
    codes, target = torch.ones(6, dtype=torch.int64, device=META), torch.ones(6, device=META)
    for output, n_columns in (("logits", 4), ("probabilities", 2), ("log_probabilities", 1)):
        outputs = torch.ones(6, n_columns, device=META)
        with Device(has_float64=False) as device:
            assert _training.CrossEntropy(output)(outputs, codes).device == META
            assert _training.probabilities(outputs, output).shape == (6, max(2, n_columns))
            assert _training.SquaredError()(outputs[:, 0], target).shape == (6,)
        assert (device.n_waits, device.sent) == (0, 0), output


def test_embeddings_come_to_the_host_once_however_many_blocks():
    module, x = net_and_rows("MLP", 3 * BATCH)
    with Device() as device:
        tapped = RepresentedNet(_nets.TorchModule(module)).with_batch_size(BATCH)
        tapped(x)
        before = device.n_waits
        probabilities, embeddings = tapped(x)
    assert probabilities.shape == (len(x), 3)
    assert len(embeddings) == len(x)
    assert device.n_waits - before == 1


@pytest.mark.filterwarnings("ignore")  # a device without values tells the queries nothing
@pytest.mark.parametrize("query", [StochasticBatchQuery, ACSFWQuery, BatchBALDQuery])
def test_a_query_waits_for_the_device_three_times_a_chunk(query):
    """Twice to know whether all are probabilities, once for the scores; however many blocks a chunk is."""
    waits = []
    for n_chunks in (2, 4):
        module, x = net_and_rows("MLP", 2 * BATCH * n_chunks)
        options = {"n_draws": N_DRAWS, "chunk_size": 2 * BATCH, "predict_batch_size": BATCH, "random_state": 0}
        with Device() as device:
            query(**options).select(module, np.ones(x.shape, dtype=np.float32), 2)
        waits.append(device.n_waits)
    assert waits[1] - waits[0] <= 2 * 3


# Training


@pytest.fixture
def generators_anywhere(monkeypatch):
    """Generators for the meta device, which has none: of the host, in its name."""
    made, make = {}, torch.Generator

    def generator(device="cpu"):
        made[torch.device(device)] = made.get(torch.device(device), 0) + 1
        return make("cpu")

    monkeypatch.setattr(torch, "Generator", generator)
    return made


def draws_on_the_host(m, x):
    """Dropout on the device, and a coin that is tossed on the host, as layer drop does."""
    h = torch.relu(m.a(x))
    if m.training:
        order = torch.randperm(16, device="cpu")
        h = h * (1 + float(torch.rand((), device="cpu") < 0.5)) + torch.randn_like(h) + order[0]
        h = h + F.rrelu(h, training=True) + torch.empty_like(h).exponential_()
    return m.last(m.alpha(m.drop(h)))


@pytest.mark.parametrize("name", ["on the host, too", "encoder", "LSTM"])
def test_training_draws_from_one_generator_a_device_without_a_wait(name, generators_anywhere):
    parts = {"a": nn.Linear(12, 16), "drop": nn.Dropout(), "alpha": nn.AlphaDropout(), "last": nn.Linear(16, 3)}
    module = NETS.get(name, lambda: Net(draws_on_the_host, **parts))().to(META).train()
    x, own = torch.ones(8, 12, device=META), TrainingRandom(np.random.default_rng(0))
    with Device(has_float64=False) as device:
        for _ in range(2):
            with own:
                assert module(x).device == META
    places = {"meta"} if name in NETS else {"meta", "cpu"}
    assert {place.type for place in generators_anywhere} == set(device.seeds) == places
    assert set(generators_anywhere.values()) == {1}
    assert all(len(seeds) == 1 for seeds in device.seeds.values())
    assert len(set.union(*device.seeds.values())) == len(places)
    assert (device.n_waits, device.sent) == (0, 0)


# Another default device


@pytest.fixture
def elsewhere():
    """New tensors go to the meta device unless they are told where: what is not told is seen."""
    torch.set_default_device("meta")
    yield
    torch.set_default_device(None)


def iris():
    X, y = load_iris(return_X_y=True)
    return X.astype(np.float32), y


def plain_module(n_features_in=4, n_outputs=3):
    def forward(m, X):
        return m.b(F.dropout(torch.relu(m.a(X)), 0.5, m.training))

    return Net(forward, a=nn.Linear(n_features_in, 8), b=nn.Linear(8, n_outputs))


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        (MCDropoutClassifier, {"early_stopping": True, "class_weight": "balanced", "activation": "selu"}),
        (MCDropoutClassifier, {"module": plain_module, "warm_start": True}),
        (MCDropoutRegressor, {"early_stopping": True, "optimizer": "sgd", "weight_decay": 0.1}),
    ],
)
def test_estimators_do_not_mind_the_default_device(kind, options, elsewhere):
    X, y = iris()
    options = {"max_epochs": 3, "hidden_layer_sizes": 8, "random_state": 0, "device": "cpu"} | options

    def answers():
        net = kind(**options).fit(X, y).fit(X, y).partial_fit(X, y)
        return net.predict(X), net.embed(X), net.sample_posterior(3, np.random.default_rng(0))(X).numpy()

    found = answers()
    torch.set_default_device(None)
    for ours, theirs in zip(found, answers(), strict=True):
        np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize("query", [StochasticBatchQuery, BADGEQuery])
@pytest.mark.parametrize("own_batches", [False, True])
def test_queries_of_nets_do_not_mind_the_default_device(query, own_batches, request):
    torch.manual_seed(0)
    X, y = iris()
    own = {"iterator_valid__collate_fn": torch.utils.data.default_collate} if own_batches else {}
    fitted = NeuralNetClassifier(plain_module, criterion=nn.CrossEntropyLoss, max_epochs=1, verbose=0, **own).fit(X, y)
    net = fitted if own_batches else fitted.module_.eval()
    options = {"n_draws": 5} if query is StochasticBatchQuery else {}
    wanted = query(random_state=0, **options).select(net, X, 5)
    request.getfixturevalue("elsewhere")
    with Device():  # torch's own batches ask the default device for a number
        chosen = query(random_state=0, **options).select(net, X, 5)
    np.testing.assert_array_equal(chosen, wanted)


FACTORIES = {
    *("arange", "as_tensor", "empty", "empty_permuted", "eye", "full", "linspace", "ones", "rand", "randint", "randn"),
    *("randperm", "scalar_tensor", "tensor", "zeros"),
}


def test_every_new_tensor_is_told_where_to_lie():
    untold = []
    for path in sorted(Path(skactive.__file__).parent.rglob("*.py")):
        for call in (node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call)):
            name = call.func.attr if isinstance(call.func, ast.Attribute) else ""
            of_torch = name and getattr(call.func.value, "id", "") == "torch"
            is_told = any(word.arg == "device" for word in call.keywords)
            if (of_torch and name in FACTORIES and not is_told) or (of_torch and name == "Generator" and not call.args):
                untold.append(f"{path.name}, line {call.lineno}: torch.{name}")
            if name == "new_tensor":
                untold.append(f"{path.name}, line {call.lineno}: new_tensor, which waits until the number is there")
    assert untold == []


@pytest.mark.parametrize("device", ["cuda:7", "mps", "nonsense", "meta", "cpu:x", -3, None])
def test_a_device_that_is_not_there_is_named(device):
    if device == "mps" and torch.mps.is_available():
        pytest.skip("it is there")
    message = f'`device` must be "auto", "cpu" or a torch device of this machine. Got {device!r}: '
    with pytest.raises(ValueError, match=re.escape(message)):
        MCDropoutClassifier(max_epochs=1, device=device).fit(*iris())


# Shorter floats, and modes of the caller


@pytest.mark.parametrize(
    ("name", "dtype"), [("MLP", torch.float16), ("encoder", torch.bfloat16), ("thinned convolutions", torch.float16)]
)
def test_modules_of_short_floats_are_drawn_from_and_queried(name, dtype):
    module, x = net_and_rows(name, 20, device="cpu")
    short = copy.deepcopy(module).to(dtype)
    draws = sample_posterior(short, 5, np.random.default_rng(0))(x.numpy())
    assert draws.dtype == dtype
    wanted = sample_posterior(module, 5, np.random.default_rng(0))(x.numpy())
    np.testing.assert_allclose(draws.float(), wanted, rtol=0, atol=0.03)
    assert len(set(StochasticBatchQuery(n_draws=5, random_state=0).select(short, x.numpy(), 5))) == 5


@pytest.mark.parametrize("kind", [MCDropoutClassifier, MCDropoutRegressor])
def test_a_loop_may_stand_in_inference_mode(kind):
    X, y = iris()
    options = {"max_epochs": 3, "hidden_layer_sizes": 8, "random_state": 0, "device": "cpu"}
    query = StochasticBatchQuery("auto" if kind is MCDropoutClassifier else "variance", n_draws=5, random_state=0)
    wanted = kind(**options).fit(X, y).partial_fit(X, y)
    batch = copy.deepcopy(query).select(wanted, X, 5)
    with torch.inference_mode():
        net = kind(**options).fit(X, y).partial_fit(X, y)
        np.testing.assert_array_equal(net.predict(X), wanted.predict(X))
        np.testing.assert_array_equal(query.select(net, X, 5), batch)
    np.testing.assert_array_equal(net.partial_fit(X, y).predict(X), wanted.partial_fit(X, y).predict(X))
