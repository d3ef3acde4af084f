"""Nets on devices other than the host, seen from a machine without a GPU: see `devices`."""

import ast
import copy
import re
from pathlib import Path

import numpy as np
import pytest
import torch
from architectures import TWO_LINEAR, make
from devices import META, Device
from nets import Functions, Net, sequential
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
from skactive._dropout import TrainingRandom
from skactive.mc_dropout import _training

N_DRAWS, BATCH = 3, 4


NETS = ["MLP", "multi-head attention, rows second", "LSTM, rows first", "transformer encoder, rows first"]
NETS += ["drop path by bernoulli_", "Gaussian dropout", "CNN, batch norm, Dropout2d", "U-Net-like"]


def net_and_rows(name, n_rows=2 * BATCH, device=META):
    module, x = make(name)
    return module.to(device), x[torch.arange(n_rows) % len(x)].to(device)


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


@pytest.mark.filterwarnings("ignore")  # a device without values tells the queries nothing
@pytest.mark.parametrize("query", [StochasticBatchQuery, ACSFWQuery, BatchBALDQuery])
def test_a_query_waits_for_the_device_three_times_a_chunk(query):
    """Twice to know whether all are probabilities, once for the scores; however many blocks a chunk is."""
    waits = []
    for n_chunks in (2, 4):
        module, x = net_and_rows("MLP", 2 * BATCH * n_chunks)
        options = {"n_draws": N_DRAWS, "chunk_size": 2 * BATCH, "predict_batch_size": BATCH, "random_state": 0}
        with Device() as device:
            query(**options).select(module, np.ones(x.shape), 2)
        waits.append(device.n_waits)
    assert waits[1] - waits[0] <= 2 * 3


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
        order = torch.randperm(12, device="cpu")
        h = h * (1 + float(torch.rand((), device="cpu") < 0.5)) + torch.randn_like(h) + order[0]
        h = h + F.rrelu(h, training=True) + torch.empty_like(h).exponential_()
    return m.b(m.alpha(m.drop(h)))


@pytest.mark.parametrize("name", ["on the host, too", *NETS[2:4]])
def test_training_draws_from_one_generator_a_device_without_a_wait(name, generators_anywhere):
    if name in NETS:
        module, x = net_and_rows(name)
    else:
        x = torch.ones(8, 6, device=META)
        module = Net(draws_on_the_host, **TWO_LINEAR, alpha=nn.AlphaDropout).to(META)
    own = TrainingRandom(np.random.default_rng(0))
    module.train()
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
    return sequential((n_features_in, 8), nn.ReLU, 0.5, (8, n_outputs))


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


@pytest.mark.parametrize(
    ("name", "dtype"), [("MLP", torch.float16), (NETS[3], torch.bfloat16), (NETS[6], torch.float16)]
)
def test_modules_of_short_floats_are_drawn_from_and_queried(name, dtype):
    module, x = net_and_rows(name, 20, device="cpu")
    wanted = sample_posterior(module, 5, np.random.default_rng(0))(x.numpy())
    draws = sample_posterior(module.to(dtype), 5, np.random.default_rng(0))(x.numpy())
    assert draws.dtype == dtype
    np.testing.assert_allclose(draws.float(), wanted, rtol=0, atol=0.03)
    assert len(set(StochasticBatchQuery(n_draws=5, random_state=0).select(module, x.numpy(), 5))) == 5


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
