"""Nets on devices other than the host, seen from a machine without a GPU: see `devices`."""

import ast
import copy
import re
from pathlib import Path

import numpy as np
import pytest
import torch
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
from skactive._dropout._dropout_calls import Site, Sites
from skactive._utils import devices as _devices
from skactive.mc_dropout import _base, _training
from skactive.posterior import _nets
from skactive.posterior._embeddings import RepresentedNet

N_DRAWS, BATCH = 3, 4


class Shared(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b, self.drop, self.last = nn.Linear(12, 16), nn.Linear(16, 16), nn.Dropout(0.4), nn.Linear(16, 3)

    def forward(self, x):
        return self.last(self.drop(torch.relu(self.b(self.drop(torch.relu(self.a(x)))))))


class OverTokens(nn.Module):
    """Three tokens of four numbers through a layer, tokens or rows first, and a linear layer for the first token."""

    def __init__(self, layer, rows_first=True):
        super().__init__()
        self.layer, self.rows_first, self.last = layer, rows_first, nn.Linear(8, 3)
        self.embed = nn.Linear(4, 8)

    def forward(self, x):
        h = self.embed(x.unflatten(1, (3, 4)))
        h = h if self.rows_first else h.transpose(0, 1)
        h = self.layer(h, h, h)[0] if isinstance(self.layer, nn.MultiheadAttention) else self.layer(h)
        h = h[0] if isinstance(h, tuple) else h
        return self.last(h[:, 0] if self.rows_first else h[0])


class Attention(nn.Module):
    def forward(self, x):
        heads = x.unflatten(-1, (2, 4)).transpose(1, 2)
        p = 0.3 if self.training else 0.0
        return F.scaled_dot_product_attention(heads, heads, heads, dropout_p=p).transpose(1, 2).flatten(2)


class DropPath(nn.Module):
    """As in timm: rows skip a branch, by numbers that the layer draws itself."""

    def forward(self, x):
        if not self.training:
            return x
        return x * x.new_empty((len(x),) + (1,) * (x.ndim - 1)).bernoulli_(0.8) / 0.8


class DropPathNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b, self.drop, self.last = nn.Linear(12, 16), nn.Linear(16, 16), DropPath(), nn.Linear(16, 3)

    def forward(self, x):
        h = self.a(x)
        return self.last(h + self.drop(self.b(h)))


class Noisy(nn.Module):
    """A layer that asks for numbers of its own, on the default device and on the one of its rows."""

    def __init__(self):
        super().__init__()
        self.a, self.last = nn.Linear(12, 16), nn.Linear(16, 3)

    def forward(self, x):
        h = self.a(x)
        if self.training:
            h = h + 0.1 * torch.randn_like(h[:1]) + 0.1 * torch.rand(16, device=h.device)
        return self.last(h)


class UNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.down, self.inner = nn.Conv2d(1, 4, 3, padding=1), nn.Conv2d(4, 4, 3, padding=1)
        self.up, self.drop, self.last = nn.ConvTranspose2d(4, 4, 2, stride=2), nn.Dropout2d(0.5), nn.Linear(8, 3)

    def forward(self, x):
        h = torch.relu(self.down(x))
        g = self.up(self.drop(torch.relu(self.inner(F.max_pool2d(h, 2)))))
        return self.last(torch.cat([h, g], 1).mean((2, 3)))


class ViT(nn.Module):
    def __init__(self):
        super().__init__()
        self.patches, self.token = nn.Conv2d(1, 8, 4, stride=4), nn.Parameter(torch.zeros(1, 1, 8))
        self.place, self.drop = nn.Parameter(torch.zeros(1, 10, 8)), nn.Dropout(0.1)
        layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.1, batch_first=True, norm_first=True)
        self.encoder, self.last = nn.TransformerEncoder(layer, 1, enable_nested_tensor=False), nn.Linear(8, 3)

    def forward(self, x):
        h = self.patches(x).flatten(2).mT
        h = self.drop(torch.cat([self.token.expand(len(h), -1, -1), h], 1) + self.place)
        return self.last(self.encoder(h)[:, 0])


def mlp(*between):
    between = between or (nn.ReLU(),)
    return nn.Sequential(nn.Linear(12, 16), *between, nn.Dropout(0.5), nn.Linear(16, 3))


def convolutional(drop):
    blocks = [nn.Conv2d(1, 6, 3), drop, nn.MaxPool2d(2), nn.ReLU(), nn.Conv2d(6, 8, 3), nn.BatchNorm2d(8), nn.ReLU()]
    return nn.Sequential(*blocks, nn.Dropout2d(0.5), nn.Flatten(), nn.Linear(72, 3))


def encoder(rows_first):
    layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.2, batch_first=rows_first)
    return OverTokens(nn.TransformerEncoder(layer, 1, enable_nested_tensor=False), rows_first)


VECTORS = {
    "MLP": mlp,
    "batch norm": lambda: mlp(nn.BatchNorm1d(16), nn.ReLU()),
    "group norm": lambda: mlp(nn.GroupNorm(4, 16), nn.ReLU()),
    "alpha dropout": lambda: nn.Sequential(nn.Linear(12, 16), nn.SELU(), nn.AlphaDropout(0.4), nn.Linear(16, 3)),
    "residual": Residual,
    "shared layers": Shared,
    "attention, rows first": lambda: OverTokens(nn.MultiheadAttention(8, 2, dropout=0.5, batch_first=True)),
    "attention, tokens first": lambda: OverTokens(nn.MultiheadAttention(8, 2, dropout=0.5), False),
    "LSTM": lambda: OverTokens(nn.LSTM(8, 8, num_layers=2, dropout=0.5, batch_first=True)),
    "GRU, tokens first": lambda: OverTokens(nn.GRU(8, 8, num_layers=2, dropout=0.5), False),
    "encoder, rows first": lambda: encoder(True),
    "encoder, tokens first": lambda: encoder(False),
    "scaled dot products": lambda: OverTokens(Attention()),
    "paths": DropPathNet,
    "numbers of its own": Noisy,
}
IMAGES = {
    "thinned convolutions": lambda: convolutional(nn.Dropout2d(0.5)),
    "masked convolutions": lambda: convolutional(nn.Dropout(0.5)),
    "U-Net": UNet,
    "ViT": ViT,
}
NETS = VECTORS | IMAGES


def net_and_rows(name, n_rows=2 * BATCH, device=META):
    torch.manual_seed(0)
    shape = (1, 12, 12) if name in IMAGES else (12,)
    x = np.random.default_rng(0).standard_normal((n_rows, *shape), dtype=np.float32)
    return NETS[name]().eval().to(device), torch.from_numpy(x).to(device)


# The stand-in


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


@pytest.mark.parametrize("name", NETS)
def test_draws_are_what_they_are_on_the_host(name):
    """The device is watched, so what it saw must be what the host sees: the same functions, in the same number."""
    module, x = net_and_rows(name, device="cpu")
    with torch.no_grad(), Device(torch.device("cpu")):
        watched = Functions(module, N_DRAWS, batch_size=BATCH)(x)
    assert torch.equal(watched, Functions(module, N_DRAWS, batch_size=BATCH)(x))


def test_weights_that_are_not_kept_are_cut_out_again_without_a_wait(monkeypatch):
    monkeypatch.setattr(_dropout_calls, "MAX_KEPT", 1000)
    module, x = net_and_rows("MLP")
    with torch.no_grad(), Device() as device:
        functions = Functions(module, 20, batch_size=BATCH)
        functions(x)
        before = device.n_waits
        functions(x)
    (networks,) = functions.draws._pruned.values()
    assert len(networks._networks) < len(networks._blocks)
    assert device.n_waits == before


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


def test_masks_are_made_a_draw_at_a_time():
    """Twelve layers of twelve heads that look at 512 tokens: the masks of 100 draws would take 3.8 GB."""
    sites = Sites(100, np.random.default_rng(0))
    sites.at = [Site("dropout", (1, 12, 512, 512), 0.1)] * 12
    with Device() as device:
        for draw in (0, 1, 99):
            for position in range(12):
                sites.numbers(position, draw, META)
    one = 12 * 512 * 512
    assert device.largest == one  # booleans of one layer and draw, made on the host
    assert device.alive <= _dropout_calls.MAX_KEPT
    assert device.peak <= _dropout_calls.MAX_KEPT + one


def test_memory_of_draws_does_not_grow_with_their_number(monkeypatch):
    monkeypatch.setattr(_dropout_calls, "MAX_KEPT", 2**20)
    layer = nn.TransformerEncoderLayer(48, 12, 48, dropout=0.1, batch_first=True)
    module = nn.Sequential(layer, nn.Flatten(), nn.Linear(24576, 3))
    peaks = []
    for n_draws in (2, 5):
        with torch.no_grad(), Device() as device:
            Functions(module.to(META), n_draws, batch_size=1)(torch.ones(2, 512, 48, device=META))
        peaks.append(device.peak)
    assert peaks[1] < 1.05 * peaks[0]
    assert device.largest == 4 * 12 * 512 * 512  # weights of attention


def peak_memory(work):
    """MiB of the process above what was in use before; None where it is not told."""
    try:
        Path("/proc/self/clear_refs").write_text("5")
        before, _, after = (kib("VmRSS"), work(), kib("VmHWM"))
    except OSError:
        return None
    return (after - before) / 1024


def kib(key):
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith(key)).split()[1])


def test_masks_of_all_draws_are_never_in_the_memory_of_the_host(monkeypatch):
    monkeypatch.setattr(_dropout_calls, "MAX_KEPT", 2**20)
    n_draws, n_heads, n_tokens = 500, 8, 160  # 98 MiB of booleans, beside which a pass is small
    module, x = nn.TransformerEncoderLayer(8, n_heads, 8, dropout=0.1, batch_first=True), torch.ones(1, n_tokens, 8)
    module = nn.Sequential(module, nn.Flatten(), nn.Linear(8 * n_tokens, 3))
    with torch.no_grad():
        Functions(module, 2)(x)  # what is loaded at the first call is no memory of the next
        peak = peak_memory(lambda: Functions(module, n_draws)(x))
    if peak is None:
        pytest.skip("this system does not tell the peak of a process")
    assert peak < n_draws * n_heads * n_tokens**2 / 2**20 / 2  # half of what the booleans of all draws are


def test_a_pass_is_written_down_in_the_memory_that_it_takes():
    """What later calls of the net do not need is let go, as in a pass that nobody writes down."""
    layers = [layer for _ in range(30) for layer in (nn.Linear(64, 64), nn.Tanh())]
    module = nn.Sequential(nn.Dropout(0.5), nn.LayerNorm(64), *layers, nn.Linear(64, 3)).to(META)
    x = torch.ones(20_000, 64, device=META)
    with torch.no_grad(), Device() as device:
        Functions(module, 1, batch_size=20_000)(x)
    assert device.peak < 10 * x.nbytes


# What is made of draws


@pytest.mark.parametrize("name", ["bald", "entropy", "margin", "variation_ratio"])
def test_scores_of_classes_stay_on_the_device(name):
    draws = torch.ones(5, 40, 3, device=META)
    with Device() as device:
        assert scores.SCORES[name](draws).device == META
    assert device.n_waits <= 2  # whether all are probabilities


@pytest.mark.parametrize("name", ["variance", "std_dev"])
def test_scores_of_numbers_stay_on_the_device(name):
    with Device() as device:
        assert scores.SCORES[name](torch.ones(5, 40, device=META)).device == META
    assert device.n_waits <= 2


@pytest.mark.parametrize("output", ["logits", "probabilities", "log_probabilities"])
@pytest.mark.parametrize("n_columns", [1, 2, 4])
def test_losses_and_probabilities_are_made_on_the_device(output, n_columns):
    outputs, codes = torch.ones(6, n_columns, device=META), torch.ones(6, dtype=torch.int64, device=META)
    with Device(has_float64=False) as device:
        assert _training.CrossEntropy(output)(outputs, codes).device == META
        assert _training.probabilities(outputs, output).shape == (6, max(2, n_columns))
        assert _training.SquaredError()(outputs[:, 0], torch.ones(6, device=META)).shape == (6,)
    assert (device.n_waits, device.sent) == (0, 0)


@pytest.mark.parametrize("name", ["MLP", "masked convolutions", "encoder, tokens first", "paths"])
def test_embeddings_come_to_the_host_once_however_many_blocks(name):
    module, x = net_and_rows(name, 3 * BATCH)
    with Device() as device:
        tapped = RepresentedNet(_nets.TorchModule(module)).with_batch_size(BATCH)
        tapped(x)
        before = device.n_waits
        probabilities, embeddings = tapped(x)
    assert probabilities.shape == (len(x), 3)
    assert len(embeddings) == len(x)
    assert device.n_waits - before == 1


@pytest.mark.filterwarnings("ignore")  # a device without values tells the queries nothing
@pytest.mark.parametrize(
    ("query", "name"),
    [
        *((StochasticBatchQuery, name) for name in ("MLP", "encoder, rows first", "U-Net")),
        *((ACSFWQuery, "MLP"), (BatchBALDQuery, "MLP")),
    ],
)
def test_a_query_waits_for_the_device_three_times_a_chunk(query, name):
    """Twice to know whether all are probabilities, once for the scores; however many blocks a chunk is."""
    waits = []
    for n_chunks in (2, 4):
        module, x = net_and_rows(name, 2 * BATCH * n_chunks)
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


class DrawsOnTheHost(nn.Module):
    """Dropout on the device, and a coin that is tossed on the host, as layer drop does."""

    def __init__(self):
        super().__init__()
        self.a, self.drop, self.alpha, self.last = nn.Linear(12, 16), nn.Dropout(), nn.AlphaDropout(), nn.Linear(16, 3)

    def forward(self, x):
        h = torch.relu(self.a(x))
        if self.training:
            order = torch.randperm(16, device="cpu")
            h = (
                h * (1 + float(torch.rand((), device="cpu") < 0.5))
                + torch.randn_like(h)
                + order[0]
                + F.rrelu(h, training=True)
            )
            h = h + torch.empty_like(h).exponential_()
        return self.last(self.alpha(self.drop(h)))


@pytest.mark.parametrize("kind", [DrawsOnTheHost, Residual, lambda: encoder(True), lambda: NETS["LSTM"]()])
def test_training_draws_from_one_generator_a_device_without_a_wait(kind, generators_anywhere):
    module, x = kind().to(META).train(), torch.ones(8, 12, device=META)
    with Device(has_float64=False) as device:
        own = TrainingRandom(np.random.default_rng(0))
        for _ in range(2):
            with own:
                assert module(x).device == META
    places = {"meta", "cpu"} if kind is DrawsOnTheHost else {"meta"}
    assert {place.type for place in generators_anywhere} == set(device.seeds) == places
    assert set(generators_anywhere.values()) == {1}
    assert all(len(seeds) == 1 for seeds in device.seeds.values())
    assert len(set.union(*device.seeds.values())) == len(places)
    assert (device.n_waits, device.sent) == (0, 0)


def test_a_device_without_a_number_has_the_generator_of_the_current_one(monkeypatch, generators_anywhere):
    class Current:
        device = torch.device("cuda:1")

    monkeypatch.setattr(torch, "empty", lambda *args, device: Current)
    own = TrainingRandom(np.random.default_rng(0))
    assert own.on(torch.device("cuda")) is own.on(torch.device("cuda:1"))
    assert list(generators_anywhere) == [torch.device("cuda:1")]


@pytest.mark.parametrize("place", ["cpu", "cuda:1"])
def test_batches_of_skorch_draw_where_they_are_made(place, monkeypatch, generators_anywhere):
    monkeypatch.setattr(torch, "get_default_device", lambda: torch.device(place))
    _nets._generator()
    assert list(generators_anywhere) == [torch.device(place)]


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


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        *((MCDropoutClassifier, {}), (MCDropoutClassifier, {"early_stopping": True})),
        *((MCDropoutClassifier, {"class_weight": "balanced", "activation": "selu"}), (MCDropoutRegressor, {})),
        (MCDropoutRegressor, {"early_stopping": True, "optimizer": "sgd", "weight_decay": 0.1}),
    ],
)
def test_estimators_do_not_mind_the_default_device(kind, options, elsewhere):
    X, y = iris()
    options = {"max_epochs": 3, "hidden_layer_sizes": 8, "random_state": 0, "device": "cpu"} | options
    net = kind(**options).fit(X, y).partial_fit(X, y)
    answers = [net.predict(X), net.embed(X), net.sample_posterior(3, np.random.default_rng(0))(X).numpy()]
    torch.set_default_device(None)
    same = kind(**options).fit(X, y).partial_fit(X, y)
    usual = [same.predict(X), same.embed(X), same.sample_posterior(3, np.random.default_rng(0))(X).numpy()]
    for ours, theirs in zip(answers, usual, strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_warm_starts_and_modules_of_the_user_do_not_mind_the_default_device(elsewhere):
    X, y = iris()
    net = MCDropoutClassifier(module=Plain, max_epochs=2, warm_start=True, random_state=0, device="cpu")
    net.fit(X, y).fit(X[:100], y[:100])
    assert net.predict_proba(X).shape == (150, 3)
    assert net.sample_proba(X, 2).shape == (2, 150, 3)


class Plain(nn.Module):
    def __init__(self, n_features_in=4, n_outputs=3):
        super().__init__()
        self.a, self.b = nn.Linear(n_features_in, 8), nn.Linear(8, n_outputs)

    def forward(self, X):
        return self.b(F.dropout(torch.relu(self.a(X)), 0.5, self.training))


@pytest.fixture(params=["module", "skorch net", "skorch net with batches of its own"])
def net_built_before(request):
    torch.manual_seed(0)
    X, y = iris()
    if request.param == "module":
        return Plain().eval()
    own = {"iterator_valid__collate_fn": torch.utils.data.default_collate} if "batches" in request.param else {}
    return NeuralNetClassifier(Plain, criterion=nn.CrossEntropyLoss, max_epochs=1, verbose=0, **own).fit(X, y)


@pytest.mark.parametrize("query", [StochasticBatchQuery, BADGEQuery])
def test_queries_of_nets_do_not_mind_the_default_device(net_built_before, query):
    X, _ = iris()
    options = {"n_draws": 5} if query is StochasticBatchQuery else {}
    wanted = query(random_state=0, **options).select(net_built_before, X, 5)
    torch.set_default_device("meta")
    try:
        with Device():  # torch's own batches ask the default device for a number
            chosen = query(random_state=0, **options).select(net_built_before, X, 5)
    finally:
        torch.set_default_device(None)
    np.testing.assert_array_equal(chosen, wanted)


FACTORIES = {
    *("arange", "as_tensor", "empty", "empty_permuted", "eye", "full", "linspace", "ones", "rand", "randint", "randn"),
    *("randperm", "scalar_tensor", "tensor", "zeros"),
}
UNTOLD: set[str] = set()


@pytest.mark.parametrize("path", sorted(Path(skactive.__file__).parent.rglob("*.py")), ids=lambda path: path.name)
def test_every_new_tensor_is_told_where_to_lie(path):
    calls = [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call)]
    untold = []
    for call in calls:
        of_torch = isinstance(call.func, ast.Attribute) and getattr(call.func.value, "id", "") == "torch"
        if of_torch and call.func.attr in FACTORIES and not any(word.arg == "device" for word in call.keywords):
            untold.append(f"line {call.lineno}: torch.{call.func.attr}")
        if of_torch and call.func.attr == "Generator" and not call.args:
            untold.append(f"line {call.lineno}: torch.Generator")
        if isinstance(call.func, ast.Attribute) and call.func.attr == "new_tensor":
            untold.append(f"line {call.lineno}: new_tensor, which waits until the number is there")
    assert path.name in UNTOLD or not untold


# Devices by name


@pytest.mark.parametrize(
    "device",
    ["cuda:7", "mps", "mps:0", "nonsense", "xla", "xpu", "vulkan", "meta", "", "cpu:x", "hpu", -3, None, 1.5, []],
)
def test_a_device_that_is_not_there_is_named(device):
    if device in ("mps", "mps:0", "xpu") and getattr(torch, device[:3]).is_available():
        pytest.skip("it is there")
    X, y = iris()
    with pytest.raises(
        ValueError,
        match=re.escape(f'`device` must be "auto", "cpu" or a torch device of this machine. Got {device!r}: '),
    ):
        MCDropoutClassifier(max_epochs=1, device=device).fit(X, y)


@pytest.mark.parametrize("device", ["auto", "cpu", torch.device("cpu")])
def test_the_host_is_always_there(device):
    assert _base.resolve_device(device).type in ("cpu", "cuda")


def test_modules_spread_over_devices_are_drawn_from_as_they_are():
    module, x = net_and_rows("MLP", device="cpu")
    spread = nn.Sequential(nn.DataParallel(module, device_ids=[]))
    assert torch.equal(Functions(nn.DataParallel(module, device_ids=[]))(x), Functions(module)(x))
    assert torch.equal(Functions(spread)(x), Functions(module)(x))


# Shorter floats


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("name", ["MLP", "residual", "encoder, rows first", "thinned convolutions", "paths"])
def test_draws_of_modules_of_short_floats_are_near_those_of_long_ones(name, dtype):
    module, x = net_and_rows(name, device="cpu")
    draws = sample_posterior(copy.deepcopy(module).to(dtype), 5, np.random.default_rng(0))(x.numpy())
    assert draws.dtype == dtype
    wanted = sample_posterior(module, 5, np.random.default_rng(0))(x.numpy())
    np.testing.assert_allclose(draws.float(), wanted, rtol=0, atol=0.03)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("score", ["bald", "entropy"])
def test_modules_of_short_floats_can_be_queried(score, dtype):
    module, x = net_and_rows("MLP", 20, device="cpu")
    query = StochasticBatchQuery(score=score, n_draws=5, random_state=0)
    assert len(set(query.select(module.to(dtype), x.numpy(), 5))) == 5


def test_draws_and_training_under_autocast():
    module, x = net_and_rows("MLP", 20, device="cpu")
    X, y = iris()
    with torch.autocast("cpu", torch.bfloat16):
        query = StochasticBatchQuery(n_draws=5, random_state=0)
        assert len(set(query.select(module, x.numpy(), 5))) == 5
        net = MCDropoutClassifier(max_epochs=3, random_state=0, device="cpu").fit(X, y)
        assert net.sample_proba(X, 3).dtype == np.float32
        assert np.isfinite(net.predict_proba(X)).all()
        assert np.isfinite(net.embed(X)).all()
        values = MCDropoutRegressor(max_epochs=3, random_state=0, device="cpu").fit(X, y).predict(X)
        assert np.isfinite(values).all()


@pytest.mark.parametrize("kind", [MCDropoutClassifier, MCDropoutRegressor])
def test_a_loop_may_stand_in_inference_mode(kind):
    X, y = iris()
    options = {"max_epochs": 3, "hidden_layer_sizes": 8, "random_state": 0, "device": "cpu"}
    wanted = kind(**options).fit(X, y).partial_fit(X, y)
    with torch.inference_mode():
        net = kind(**options).fit(X, y).partial_fit(X, y)
        np.testing.assert_array_equal(net.predict(X), wanted.predict(X))
        score = "bald" if kind is MCDropoutClassifier else "variance"
        batch = StochasticBatchQuery(score, n_draws=5, random_state=0).select(net, X, 5)
    np.testing.assert_array_equal(batch, StochasticBatchQuery(score, n_draws=5, random_state=0).select(wanted, X, 5))
    np.testing.assert_array_equal(net.partial_fit(X, y).predict(X), wanted.partial_fit(X, y).predict(X))


@pytest.mark.parametrize("name", ["MLP", "residual", "encoder, rows first", "numbers of its own"])
def test_modules_are_drawn_from_in_inference_mode(name):
    module, x = net_and_rows(name, device="cpu")
    with torch.inference_mode():
        inside = sample_posterior(module, 3, np.random.default_rng(0))
        drawn = inside(x.numpy())
    outside = sample_posterior(module, 3, np.random.default_rng(0))
    np.testing.assert_array_equal(inside(x.numpy()), drawn)
    np.testing.assert_allclose(outside(x.numpy()), drawn, rtol=0, atol=1e-6)
