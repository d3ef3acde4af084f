"""Fixed-mask draws of torch modules."""

import math
from collections import Counter
from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from nets import Functions, draw, slow_draws
from scipy import stats
from torch import nn
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode

from skactive._dropout import BLOCK, InBlocks, Pass, TensorRows, _dropout_calls, _pruned_networks
from skactive._dropout._pruned_networks import prunable
from skactive._dropout._recording import record


def calls_left(module, x):
    """How many calls behind the first dropout are not pruned; None if all, or if they are no chain."""
    draws = Functions(module, 2).draws
    with torch.no_grad():
        draws.learn(TensorRows(x))
        held = [*draws.module.parameters(), *draws.module.buffers()]
        chain = record(draws.outputs, x, held, Pass(draws._sites, 0, len(x), in_place=False)).chain()
    letters = prunable(chain, draws._sites)
    return len(chain) - len(letters) if letters else None


def assert_near(ours, theirs):
    """Equal but for rounding: a hundred units in the last place of the largest number, ten times what was seen."""
    scale = float(theirs.detach().abs().max())
    np.testing.assert_allclose(ours.detach(), theirs.detach(), rtol=0, atol=100 * torch.finfo(theirs.dtype).eps * scale)


def randomise(module, rng):
    """Weights and batch statistics at random, from the generator given."""
    with torch.no_grad():
        for values in module.parameters():
            values.copy_(torch.from_numpy(rng.normal(0, 1 / math.sqrt(max(1, values[0].numel())), values.shape)))
        for m in module.modules():
            if isinstance(m, nn.modules.batchnorm._BatchNorm):
                m.running_mean.copy_(torch.from_numpy(rng.uniform(-1, 1, m.num_features)))
                m.running_var.copy_(torch.from_numpy(rng.uniform(0.5, 2, m.num_features)))
    return module.eval()


class Functional(nn.Module):
    """A net that calls dropout as a function, twice, and a layer of it two times."""

    def __init__(self):
        super().__init__()
        self.a, self.b, self.c = nn.Linear(5, 16), nn.Linear(16, 16), nn.Linear(16, 3)
        self.drop = nn.Dropout(0.4)

    def forward(self, x):
        x = F.dropout(torch.relu(self.a(x)), 0.3, self.training)
        return self.c(self.drop(torch.relu(self.b(self.drop(x)))))


LAYERS = {
    "Dropout": (nn.Dropout(0.5), (40,)),
    "Dropout on images": (nn.Dropout(0.5), (3, 4, 5)),
    "Dropout1d": (nn.Dropout1d(0.5), (8, 5)),
    "Dropout2d": (nn.Dropout2d(0.5), (8, 4, 5)),
    "Dropout3d": (nn.Dropout3d(0.5), (8, 2, 3, 4)),
    "AlphaDropout": (nn.AlphaDropout(0.5), (40,)),
    "FeatureAlphaDropout": (nn.FeatureAlphaDropout(0.5), (8, 4, 5)),
}
NETS = {
    "MLP": (nn.Sequential(nn.Linear(5, 64), nn.ReLU(), nn.Dropout(0.5), nn.Linear(64, 3)), (5,)),
    "wide MLP": (nn.Sequential(nn.Linear(3072, 700), nn.ReLU(), nn.Dropout(0.5), nn.Linear(700, 11)), (3072,)),
    "functional": (Functional(), (5,)),
    "batch norm": (
        nn.Sequential(nn.Linear(5, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Dropout(0.2), nn.Linear(8, 2)),
        (5,),
    ),
    "images": (
        nn.Sequential(
            nn.Conv2d(1, 8, 3), nn.Dropout2d(0.5), nn.ReLU(), nn.Flatten(), nn.Dropout(0.2), nn.Linear(288, 2)
        ),
        (1, 8, 8),
    ),
}


@pytest.mark.parametrize("name", LAYERS)
def test_one_mask_a_draw_is_shared_by_all_rows_and_differs_between_draws(name):
    layer, shape = LAYERS[name]
    x = torch.ones(9, *shape)
    draws = draw(layer, x)
    assert torch.equal(draws, draws[:, :1].expand_as(draws))
    assert len({tuple(d.flatten().tolist()) for d in draws[:, 0]}) == 6


@pytest.mark.parametrize("name", LAYERS)
def test_a_unit_or_channel_is_dropped_whole_and_the_values_are_those_of_torch(name):
    layer, shape = LAYERS[name]
    torch.manual_seed(0)
    x = torch.ones(400, *shape)
    ours, theirs = draw(layer, x[:1], n_draws=400)[:, 0], layer.train()(x)
    assert ours.unique().tolist() == pytest.approx(theirs.unique().tolist(), abs=1e-6)
    channels = ours.flatten(2) if ours.ndim > 2 else ours
    whole_channels = bool((channels == channels[..., :1]).all())
    assert whole_channels == (name not in {"Dropout", "Dropout on images", "AlphaDropout"})


def test_units_are_kept_at_the_rate_of_the_layer():
    kept = int((draw(nn.Dropout(0.3), torch.ones(1, 50), n_draws=400) > 0).sum())
    # exact binomial tail
    assert 1e-6 < stats.binom.cdf(kept, 20000, 0.7) < 1 - 1e-6


def test_a_layer_used_twice_and_functions_of_dropout_get_masks_of_their_own():
    class Twice(nn.Module):
        def __init__(self):
            super().__init__()
            self.drop = nn.Dropout(0.5)

        def forward(self, x):
            return torch.cat([self.drop(x), self.drop(x), F.dropout(x, 0.5)], 1)

    parts = draw(Twice(), torch.ones(1, 30))[:, 0].reshape(6, 3, 30)
    assert not torch.equal(parts[:, 0], parts[:, 1])
    assert not torch.equal(parts[:, 1], parts[:, 2])
    assert (parts == 0).any(dim=2).all()


class Hostile(nn.Module):
    """Answers by the number of rows beside a row and by its place among them, as no net should, but rounding does."""

    def __init__(self, size=1e-6):
        super().__init__()
        self.a, self.drop, self.b, self.size = nn.Linear(5, 16), nn.Dropout(0.5), nn.Linear(16, 3), size
        self.seen = []

    def forward(self, x):
        self.seen.append(len(x))
        place = torch.arange(len(x), device=x.device)[:, None] * torch.tensor([1.0, -2.0, 3.0])
        return self.b(self.drop(torch.relu(self.a(x)))) + self.size * (place + len(x) ** 1.5)


@pytest.mark.arithmetic
@pytest.mark.parametrize("n_rows", [1, 63, 64, 65, 300])
@pytest.mark.parametrize("n_blocks", [1, 2, 100])
def test_chunks_of_whole_blocks_give_the_same_bits_by_construction(n_rows, n_blocks):
    x = torch.from_numpy(np.random.default_rng(1).standard_normal((n_rows, 5), dtype=np.float32))
    functions = Functions(Hostile(), 3, batch_size=64)
    parts = [functions(part) for part in x.split(64 * n_blocks)]
    assert torch.equal(torch.cat(parts, dim=1), functions(x))


def test_no_row_is_invented_and_no_block_is_filled_up():
    module = Hostile()
    functions = Functions(module, 3, batch_size=64)
    functions.draws.module.seen = seen = []
    functions(torch.randn(130, 5))
    assert set(seen) == {1, 8, 64, 2}  # of one row and of eight it is learnt what is random


@pytest.mark.parametrize("name", NETS)
def test_rows_are_equal_to_rounding_for_every_chunking(name):
    module, shape = NETS[name]
    x = torch.from_numpy(np.random.default_rng(1).standard_normal((2 * BLOCK + 30, *shape), dtype=np.float32))
    x[7] = x[300]  # twins stay twins
    functions = Functions(module, 3)
    whole = functions(x)
    assert_near(whole[:, 7], whole[:, 300])
    for size in (37, BLOCK, 300):
        assert_near(torch.cat([functions(part) for part in x.split(size)], dim=1), whole)
    rows = [0, 7, 255, 256, 541]
    assert_near(torch.cat([functions(x[i : i + 1]) for i in rows], dim=1), whole[:, rows])


@pytest.mark.parametrize("name", NETS)
def test_the_module_and_the_global_generators_are_left_alone(name):
    module, shape = NETS[name]
    module.train()
    module[0].eval() if isinstance(module, nn.Sequential) else None
    x = torch.randn(5, *shape)
    module(x).sum().backward()
    before = {k: v.clone() for k, v in module.state_dict().items()}
    grads = [p.grad.clone() for p in module.parameters()]
    modes = [m.training for m in module.modules()]
    states = torch.get_rng_state(), np.random.get_state()[1].copy()  # noqa: NPY002
    draw(module, x)
    assert all(torch.equal(before[k], v) for k, v in module.state_dict().items())
    assert all(torch.equal(g, p.grad) and p.requires_grad for g, p in zip(grads, module.parameters(), strict=True))
    assert modes == [m.training for m in module.modules()]
    assert torch.equal(states[0], torch.get_rng_state())
    assert np.array_equal(states[1], np.random.get_state()[1])  # noqa: NPY002


def test_draws_stay_the_same_functions_when_the_module_is_trained_on():
    module = nn.Sequential(nn.Linear(2, 8), nn.Dropout(0.5), nn.Linear(8, 1))
    functions = Functions(module, 2)
    x = torch.ones(1, 2)
    before = functions(x)
    with torch.no_grad():
        module[0].weight.add_(1)
    assert torch.equal(functions(x), before)


def test_the_mean_over_draws_of_a_linear_net_is_its_output_without_dropout():
    torch.manual_seed(0)
    module = nn.Sequential(nn.Dropout(0.5), nn.Linear(20, 1)).eval()
    x = torch.randn(1, 20)
    draws = draw(module, x, n_draws=4000)
    error = draws.mean() - module(x)
    assert abs(float(error.detach())) < 5 * float(draws.std()) / math.sqrt(4000)  # 5 standard errors


def test_a_net_without_dropout_is_refused():
    for module in (nn.Linear(2, 2), nn.Sequential(nn.Linear(2, 2), nn.Dropout(0.0))):
        with pytest.raises(ValueError, match="dropout layer"):
            draw(module, torch.ones(1, 2))


def test_rows_of_another_shape_at_a_dropout_layer_are_refused():
    functions = Functions(nn.Dropout(0.5), 2)
    functions(torch.ones(3, 4))
    with pytest.raises(ValueError, match="one shape"):
        functions(torch.ones(3, 5))


class OutOfMemory(nn.Module):
    """Has room for three rows."""

    def __init__(self, error):
        super().__init__()
        self.drop, self.last, self.error = nn.Dropout(0.5), nn.Linear(4, 2), error

    def forward(self, x):
        if len(x) > 3:
            raise self.error
        return self.last(self.drop(x))


@pytest.mark.parametrize(
    "error", [MemoryError(), torch.OutOfMemoryError("CUDA out of memory."), RuntimeError("can't allocate memory: 1 GB")]
)
def test_where_memory_runs_out_blocks_are_halved_and_that_is_said_once(error):
    x, module = torch.randn(37, 4), OutOfMemory(error)
    functions = Functions(module, 3, batch_size=32)
    with pytest.warns(UserWarning, match="`predict_batch_size`") as warned:
        draws = functions(x)
    assert functions.blocks.batch_size == 2
    assert len(warned) == 1
    assert_near(draws, Functions(module, 3, batch_size=2)(x))
    functions(x)  # and is not said again


def test_a_row_that_has_no_room_is_an_error():
    def no_room(rows, block):
        raise MemoryError

    with pytest.warns(UserWarning, match="Memory ran out"), pytest.raises(MemoryError):
        InBlocks(5).joined(no_room, TensorRows(torch.randn(5, 4)))


# Chains of layers, pruned

CHAINS = {  # and how many of their calls are not part of a pruned network
    "MLP": (
        nn.Sequential(
            nn.Linear(6, 64),
            nn.ReLU(),
            nn.Dropout(0.5),
            nn.Linear(64, 32),
            nn.Tanh(),
            nn.Dropout(0.2),
            nn.Linear(32, 3),
        ),
        0,
    ),
    "dropout on the inputs": (
        nn.Sequential(nn.Dropout(0.3), nn.Linear(6, 16), nn.ReLU(inplace=True), nn.Linear(16, 3)),
        0,
    ),
    "dropout before the activation": (
        nn.Sequential(
            nn.Linear(6, 16),
            nn.Dropout(0.5),
            nn.ReLU(),
            nn.Linear(16, 9),
            nn.Dropout(0.5),
            nn.LeakyReLU(),
            nn.Linear(9, 3),
        ),
        0,
    ),
    "two dropouts in a row": (
        nn.Sequential(nn.Linear(6, 16), nn.Dropout(0.3), nn.Dropout(0.3), nn.Linear(16, 3, bias=False)),
        0,
    ),
    "nested, with a softmax": (
        nn.Sequential(
            nn.Sequential(nn.Linear(6, 16), nn.GELU()),
            nn.Dropout(0.0),
            nn.Dropout(0.4),
            nn.Sequential(nn.Linear(16, 3), nn.Softmax(-1)),
        ),
        1,
    ),
    "batch norm before the activation": (
        nn.Sequential(
            nn.Linear(6, 16),
            nn.Dropout(0.5),
            nn.Linear(16, 12),
            nn.BatchNorm1d(12),
            nn.ELU(),
            nn.Dropout(0.5),
            nn.Linear(12, 3),
        ),
        0,
    ),
    "batch norm after the activation": (
        nn.Sequential(
            nn.Linear(6, 16),
            nn.Dropout(0.5),
            nn.Linear(16, 12),
            nn.ELU(),
            nn.BatchNorm1d(12, affine=False),
            nn.Dropout(0.5),
            nn.Linear(12, 3),
        ),
        0,
    ),
    "everything dropped": (nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Dropout(1.0), nn.Linear(16, 3)), 0),
    "layer norm": (
        nn.Sequential(
            nn.Linear(6, 16), nn.Dropout(0.5), nn.Linear(16, 12), nn.LayerNorm(12), nn.Dropout(0.5), nn.Linear(12, 3)
        ),
        3,
    ),
    "dropout last": (
        nn.Sequential(
            nn.Linear(6, 16), nn.Dropout(0.5), nn.Linear(16, 12), nn.ReLU(), nn.Linear(12, 3), nn.Dropout(0.5)
        ),
        1,
    ),
    "alpha dropout": (nn.Sequential(nn.Linear(6, 16), nn.SELU(), nn.AlphaDropout(0.5), nn.Linear(16, 3)), None),
    "tanh of what was dropped": (nn.Sequential(nn.Linear(6, 16), nn.Dropout(0.5), nn.GELU(), nn.Linear(16, 3)), None),
}


class PaperNet(nn.Module):
    """Two blocks of convolution, dropout, pooling and ReLU in functions, as of Kirsch et al. (2023)."""

    def __init__(self, drop):
        super().__init__()
        self.a, self.b, self.drop = nn.Conv2d(1, 6, 3), nn.Conv2d(6, 8, 3, padding=1), drop
        self.c, self.d = nn.Linear(72, 16), nn.Linear(16, 3)

    def forward(self, x):
        x = F.relu(F.max_pool2d(self.drop(self.a(x)), 2))
        x = F.relu(F.max_pool2d(self.drop(self.b(x)), 2))
        x = F.relu(self.c(x.view(x.size(0), -1)))
        return F.log_softmax(self.d(F.dropout(x, 0.5, self.training)), dim=1)


CONVOLUTIONS = {
    "channels": (PaperNet(nn.Dropout2d(0.5)), (1, 14, 14), 1),
    "pixels": (PaperNet(nn.Dropout(0.5)), (1, 14, 14), None),
    "batch norm, strides and one draw without a channel": (
        nn.Sequential(
            nn.Dropout2d(0.2),
            nn.Conv2d(2, 4, 3, stride=2, padding="valid", bias=False),
            nn.BatchNorm2d(4),
            nn.SiLU(),
            nn.Dropout2d(0.9),
            nn.Conv2d(4, 5, 3, dilation=2),
            nn.ReLU(),
            nn.BatchNorm2d(5),
            nn.Dropout2d(0.5),
            nn.AdaptiveAvgPool2d(2),
            nn.Flatten(),
            nn.Dropout(0.5),
            nn.Linear(20, 3),
        ),
        (2, 14, 14),
        0,
    ),
    "sequences": (
        nn.Sequential(nn.Conv1d(2, 6, 3), nn.Dropout1d(0.5), nn.MaxPool1d(2), nn.Conv1d(6, 4, 3)),
        (2, 15),
        0,
    ),
    "volumes": (
        nn.Sequential(
            nn.Conv3d(1, 4, 2),
            nn.Dropout3d(0.5),
            nn.Conv3d(4, 4, 2),
            nn.AvgPool3d(2),
            nn.Flatten(),
            nn.Dropout(0.5),
            nn.Linear(4, 2),
        ),
        (1, 5, 4, 4),
        0,
    ),
    "groups": (nn.Sequential(nn.Conv2d(1, 4, 3), nn.Dropout2d(0.5), nn.Conv2d(4, 4, 3, groups=2)), (1, 6, 6), None),
}
ALL_CHAINS = {name: (module, (6,), left) for name, (module, left) in CHAINS.items()} | CONVOLUTIONS


@pytest.mark.arithmetic
@pytest.mark.parametrize("name", ALL_CHAINS)
def test_pruned_draws_equal_a_forward_pass_under_the_same_masks(name):
    module, shape, left = ALL_CHAINS[name]
    rng = np.random.default_rng(1)
    module, x = randomise(module, rng), torch.from_numpy(rng.standard_normal((300, *shape), dtype=np.float32))
    assert calls_left(module, x[:4]) == left
    np.testing.assert_allclose(draw(module, x, 7), slow_draws(module, x, 7), rtol=0, atol=1e-5)


@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_images_sequences_and_volumes_are_equal_for_every_chunking(name):
    module, shape, _ = CONVOLUTIONS[name]
    x = torch.from_numpy(np.random.default_rng(1).standard_normal((70, *shape), dtype=np.float32))
    functions = Functions(module.eval(), 3, batch_size=32)
    whole = functions(x)
    assert torch.equal(torch.cat([functions(part) for part in x.split(32)], dim=1), whole)
    assert_near(torch.cat([functions(part) for part in x.split(13)], dim=1), whole)
    assert_near(torch.cat([functions(x[i : i + 1]) for i in range(70)], dim=1), whole)


@pytest.mark.parametrize("n_together", [1, 700, 2**40])
def test_draws_are_the_same_functions_however_many_go_through_one_product(n_together, monkeypatch):
    monkeypatch.setattr(_pruned_networks, "_MAX_TOGETHER", n_together)
    module, x = CHAINS["batch norm after the activation"][0].eval(), torch.ones(20, 6)
    np.testing.assert_allclose(
        draw(module, x, 11, batch_size=20), slow_draws(module, x, 11, batch_size=20), rtol=0, atol=1e-5
    )


@pytest.mark.parametrize("n_bytes", [0, 8000])
def test_weights_too_large_to_keep_for_all_draws_are_cut_out_each_time(n_bytes, monkeypatch):
    module, x = CHAINS["MLP"][0], torch.ones(3, 6)
    monkeypatch.setattr(_pruned_networks, "_MAX_TOGETHER", 1)
    kept = draw(module, x)
    monkeypatch.setattr(_dropout_calls, "MAX_KEPT", n_bytes)
    assert torch.equal(draw(module, x), kept)


class Calls(TorchFunctionMode):
    """Counts the calls of torch's functions."""

    def __init__(self):
        super().__init__()
        self.of = Counter()

    def __torch_function__(self, func, types, args=(), kwargs=None):
        self.of[func] += 1
        return func(*args, **(kwargs or {}))


def count_calls(module, x, n_draws):
    functions = Functions(module, n_draws)
    functions(x)  # how to compute them is found out at the first call
    with Calls() as calls:
        functions(x)
    return calls.of


def test_a_pooling_layer_behind_dropout_of_channels_runs_once_for_all_draws():
    assert count_calls(CONVOLUTIONS["channels"][0].eval(), torch.ones(3, 1, 14, 14), 6)[F.max_pool2d] == 1 + 6


# Graphs of other kinds


class Residual(nn.Module):
    """Trunk and head with additions and concatenations; dropout between them."""

    def __init__(self, p=0.5, in_place=False):
        super().__init__()
        self.first, self.second, self.third = nn.Linear(6, 8), nn.Linear(8, 8), nn.Linear(8, 8)
        self.last, self.p, self.in_place = nn.Linear(16, 3), p, in_place

    def forward(self, x):
        trunk = torch.tanh(self.first(x))
        trunk = trunk + torch.relu(self.second(trunk))
        head = trunk
        if self.in_place:
            head += F.dropout(self.third(trunk), self.p, self.training)
        else:
            head = head + F.dropout(self.third(trunk), self.p, self.training)
        return self.last(torch.cat([head, trunk], dim=1))


class Backbone(nn.Module):
    """A residual trunk without dropout in front of a chain."""

    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(6, 8), nn.Linear(8, 8)
        self.head = nn.Sequential(nn.Dropout(0.5), nn.Linear(8, 16), nn.ReLU(), nn.Dropout(0.5), nn.Linear(16, 3))

    def forward(self, x):
        h = self.a(x)
        return self.head(h + self.b(h))


class ChangesInPlace(nn.Module):
    """What dropout has seen is changed afterwards."""

    def __init__(self):
        super().__init__()
        self.a, self.b, self.drop = nn.Linear(6, 8), nn.Linear(8, 3), nn.Dropout(0.5)

    def forward(self, x):
        h = self.a(x)
        dropped = self.drop(h)
        h.relu_()
        return self.b(dropped + h)


class ChangesItsInput(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.drop = nn.Linear(6, 3), nn.Dropout(0.5)

    def forward(self, x):
        return self.a(self.drop(x.mul_(2)))


class LooksAtTensors(nn.Module):
    """Goes another way if it is traced."""

    def __init__(self):
        super().__init__()
        self.a, self.drop = nn.Linear(6, 3), nn.Dropout(0.5)

    def forward(self, x):
        return self.a(self.drop(x * 2 if isinstance(x, torch.Tensor) else x))


class LooksAtData(LooksAtTensors):
    def forward(self, x):
        return self.a(self.drop(x if float(x.sum()) > 1e9 else -x))


class MeasuresFirst(nn.Module):
    """Takes the number of rows before the first dropout, and lays the rows out by it behind."""

    def __init__(self):
        super().__init__()
        self.a, self.drop, self.b = nn.Conv1d(2, 4, 2), nn.Dropout1d(0.5), nn.Linear(8, 3)

    def forward(self, x):
        n_rows = x.size(0)
        return self.b(self.drop(self.a(x.view(n_rows, 2, 3))).view(n_rows, -1))


class Inserts(nn.Module):
    """Learned tokens beside the rows, whose first axis is no row."""

    def __init__(self):
        super().__init__()
        self.token, self.a, self.drop = nn.Parameter(torch.ones(1, 1, 6)), nn.Linear(6, 3), nn.Dropout(0.5)

    def forward(self, x):
        h = torch.cat([self.token.expand(x.shape[0], -1, -1), x.unsqueeze(1)], dim=1)
        return self.a(self.drop(h)).flatten(1)


GRAPHS = {
    "residual": Residual(),
    "residual, added in place": Residual(in_place=True),
    "residual trunk": Backbone(),
    "changed in place": ChangesInPlace(),
    "input changed in place": ChangesItsInput(),
    "another way if traced": LooksAtTensors(),
    "control flow": LooksAtData(),
    "functions": Functional(),
    "tokens": Inserts(),
    "number of rows": MeasuresFirst(),
}


@pytest.mark.arithmetic
@pytest.mark.parametrize("name", GRAPHS)
def test_graphs_equal_a_forward_pass_under_the_same_masks(name):
    rng = np.random.default_rng(1)
    module = randomise(GRAPHS[name], rng)
    x = torch.from_numpy(rng.standard_normal((300, 5 if name == "functions" else 6), dtype=np.float32))
    before = x.clone()
    draws = draw(module, x, 5)
    assert torch.equal(x, before)
    np.testing.assert_allclose(draws, slow_draws(module, x, 5), rtol=0, atol=1e-5)
    functions = Functions(module, 5)
    assert_near(torch.cat([functions(part) for part in x.split(77)], dim=1), functions(x))


def test_what_depends_on_no_dropout_is_computed_once_for_all_draws():
    calls = count_calls(Residual().eval(), torch.ones(BLOCK, 6), 10)
    assert (calls[torch.tanh], calls[torch.relu], calls[torch.cat]) == (1, 1, 10)
    assert count_calls(Backbone().eval(), torch.ones(3, 6), 10)[F.linear] == 2


def test_a_chain_behind_a_trunk_of_another_kind_is_pruned():
    assert calls_left(Backbone(), torch.ones(3, 6)) == 0
    assert calls_left(MeasuresFirst(), torch.ones(3, 6)) == 0


def test_what_a_hook_on_a_layer_returns_counts():
    module = nn.Sequential(nn.Linear(6, 16), nn.Dropout(0.5), nn.Linear(16, 3))
    x = torch.randn(4, 6)
    plain = draw(module, x)
    module[2].register_forward_hook(lambda layer, inputs, outputs: 2 * outputs)
    assert_near(draw(module, x), 2 * plain)


def test_other_random_numbers_in_a_forward_pass_are_refused():
    class Noise(nn.Module):
        def forward(self, x):
            return F.dropout(x + torch.randn_like(x), 0.5)

    state = torch.get_rng_state()
    with pytest.raises(ValueError, match="randn_like"):
        draw(Noise(), torch.ones(1, 3))
    assert torch.equal(state, torch.get_rng_state())


def test_bernoulli_is_held_fixed_with_its_argument_by_name():
    class Named(nn.Module):
        def forward(self, x):
            return 2 * x * torch.bernoulli(input=torch.full_like(x, 0.5)) if self.training else x

    draws = draw(Named(), torch.ones(9, 40), n_draws=8)
    assert torch.equal(draws, draws[:, :1].expand_as(draws))
    assert set(draws.unique().tolist()) == {0.0, 2.0}


def test_the_functions_that_torch_has_below_its_layers_are_answered_too():
    class Below(nn.Module):
        def forward(self, x):
            return torch.feature_dropout(torch.dropout(x, 0.5, train=True), 0.5, True)

    draws = draw(Below(), torch.ones(9, 4, 5), n_draws=8)
    assert torch.equal(draws, draws[:, :1].expand_as(draws))
    assert set(draws.unique().tolist()) == {0.0, 4.0}


# A family of modules

ACTIVATIONS = [nn.ReLU, nn.LeakyReLU, nn.Tanh, nn.GELU, nn.SELU, nn.Sigmoid, nn.Identity, nn.Softplus]
RATES = st.sampled_from([0.0, 0.1, 0.3, 0.5, 0.8, 0.95])


class DropFunction(nn.Module):
    def __init__(self, p):
        super().__init__()
        self.p = p

    def forward(self, x):
        return F.dropout(x, self.p, self.training)


class Skip(nn.Module):
    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, x):
        return x + self.inner(x)


@st.composite
def blocks(draw_from, n_units, norm, dropouts):
    """Activation, batch norm and up to two dropouts in any order, one of them at a rate above 0."""
    layers = [draw_from(st.sampled_from(ACTIVATIONS))()]
    layers += [norm(n_units)] if draw_from(st.booleans()) else []
    for _ in range(draw_from(st.integers(0, 2))):
        layers.append(draw_from(st.sampled_from(dropouts))(draw_from(RATES)))
    return draw_from(st.permutations(layers))


@st.composite
def dense_nets(draw_from):
    widths = [4, *draw_from(st.lists(st.integers(1, 40), min_size=1, max_size=3))]
    layers = [nn.Dropout(draw_from(RATES))]
    for n_in, n_out in pairwise(widths):
        layers += [nn.Linear(n_in, n_out, bias=draw_from(st.booleans()))]
        layers += draw_from(blocks(n_out, nn.BatchNorm1d, [nn.Dropout, nn.AlphaDropout, DropFunction]))
        if draw_from(st.booleans()):
            layers += [
                Skip(nn.Sequential(nn.Linear(n_out, n_out), *draw_from(blocks(n_out, nn.BatchNorm1d, [nn.Dropout]))))
            ]
    layers += [nn.Dropout(0.5), nn.Linear(widths[-1], 3)]
    layers += draw_from(st.sampled_from([[], [nn.Softmax(1)], [nn.LogSoftmax(-1)]]))
    return nn.Sequential(*layers), (4,)


@st.composite
def convolutional_nets(draw_from):
    widths = [1, *draw_from(st.lists(st.integers(1, 7), min_size=1, max_size=2))]
    layers = []
    for n_in, n_out in pairwise(widths):
        layers += [nn.Conv2d(n_in, n_out, draw_from(st.integers(1, 3)), padding=draw_from(st.integers(0, 1)))]
        pool = draw_from(st.sampled_from([nn.MaxPool2d(2), nn.AvgPool2d(2), nn.AdaptiveMaxPool2d(4), nn.Identity()]))
        dropouts = [nn.Dropout2d, nn.Dropout2d, nn.Dropout, nn.FeatureAlphaDropout]
        layers += draw_from(st.permutations([pool, *draw_from(blocks(n_out, nn.BatchNorm2d, dropouts))]))
    layers += [
        nn.Dropout2d(draw_from(RATES)),
        nn.AdaptiveAvgPool2d(2),
        nn.Flatten(),
        *draw_from(st.sampled_from([[nn.Dropout(0.5)], []])),
    ]
    return nn.Sequential(*layers, nn.Linear(4 * widths[-1], 3), nn.Dropout(0.2)), (1, 10, 10)


@given(net=dense_nets() | convolutional_nets(), seed=st.integers(0, 2**32 - 1))
@settings(max_examples=25)
def test_any_net_is_drawn_as_in_a_forward_pass_under_the_same_masks(net, seed):
    module, shape = net
    rng = np.random.default_rng(seed)
    module = randomise(module, rng).double()  # in float64 equal means equal, not equal but for rounding
    x = torch.from_numpy(rng.standard_normal((20, *shape)))
    draws, plain = (function(module, x, 5, batch_size=16) for function in (draw, slow_draws))
    np.testing.assert_allclose(draws, plain, rtol=1e-9, atol=1e-9 * (1 + float(plain.abs().max())))


@given(net=dense_nets() | convolutional_nets(), seed=st.integers(0, 2**32 - 1), size=st.integers(20, 150))
@settings(max_examples=25)
def test_any_net_is_equal_for_every_chunking(net, seed, size):
    module, shape = net
    rng = np.random.default_rng(seed)
    module = randomise(module, rng)
    x = torch.from_numpy(rng.standard_normal((150, *shape), dtype=np.float32))
    functions = Functions(module, 3, batch_size=64)
    whole = functions(x)
    assert torch.equal(torch.cat([functions(part) for part in x.split(64)], dim=1), whole)
    assert_near(torch.cat([functions(part) for part in x.split(size)], dim=1), whole)
    assert_near(functions(x[size - 1 : size]), whole[:, size - 1 : size])


# Nets in which a draw could leave something behind for the next


class AddsInPlace(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b, self.c, self.drop = nn.Linear(6, 16), nn.Linear(16, 16), nn.Linear(16, 3), nn.Dropout(0.5)

    def forward(self, x):
        h = self.a(x)
        h += self.drop(torch.tanh(self.b(h)))
        return self.c(h)


class InInferenceMode(AddsInPlace):
    def forward(self, x):
        with torch.inference_mode():
            return super().forward(x)


class ByData(AddsInPlace):
    """Changes a tensor behind torch's back."""

    def forward(self, x):
        h = self.a(x)
        h.view_as(h).data.mul_(self.drop(torch.ones_like(h)))
        return self.c(self.drop(h))


class WritesBuffer(AddsInPlace):
    def __init__(self):
        super().__init__()
        self.register_buffer("most", torch.zeros(16))

    def forward(self, x):
        self.most[:] = 0
        torch.maximum(self.most, self.drop(torch.ones(16)), out=self.most)
        return self.c(self.a(x) * self.most)


class InputInPlace(AddsInPlace):
    """Goes on with what dropout changed in place."""

    def forward(self, x):
        h = self.a(x)
        y = torch.tanh(self.b(F.dropout(h, 0.5, self.training, inplace=True)))
        return self.c(y + h)


LEAVING = {kind.__name__: kind for kind in (AddsInPlace, InInferenceMode, ByData, WritesBuffer, InputInPlace)}


@pytest.mark.parametrize("n_rows", [1, 20])
@pytest.mark.parametrize("name", LEAVING)
def test_a_draw_leaves_nothing_behind_for_the_next(name, n_rows):
    torch.manual_seed(0)
    module, x = LEAVING[name]().eval(), torch.randn(n_rows, 6)
    functions = Functions(module, 8)
    functions(x[:1])
    assert_near(functions(x), functions.by_whole_passes(x))
    with torch.inference_mode():
        inside = Functions(module, 8)(x)
    assert_near(inside.clone(), functions.by_whole_passes(x))


class PoolsUnits(nn.Module):
    """Pools across units, or channels, which a mask of units does not commute with."""

    def __init__(self, kind):
        super().__init__()
        self.kind, self.drop, self.a, self.b = kind, nn.Dropout1d(0.1), nn.Linear(6, 6), nn.Conv1d(6, 6, 2)
        self.units, self.c = nn.Dropout(0.1), nn.Linear(6, 3)

    def forward(self, x):
        if self.kind == "units":
            return self.c(F.max_pool1d(self.units(self.a(x)), 3, 1, 1))
        h = self.drop(self.a(x).unsqueeze(2).expand(-1, -1, 2))
        return self.c(self.b(F.avg_pool2d(h, (3, 1), 1, (1, 0))).flatten(1))


@pytest.mark.parametrize("kind", ["units", "channels"])
@pytest.mark.parametrize("seed", range(4))
def test_pooling_across_units_is_not_pruned(kind, seed):
    torch.manual_seed(seed)
    module, x = PoolsUnits(kind).eval(), torch.randn(20, 6)
    assert_near(draw(module, x, 12, seed), slow_draws(module, x, 12, seed))


@pytest.mark.parametrize(
    ("fill", "mean", "spread"),
    [
        (lambda x: x.normal_(std=0.5), 0.0, 0.5),
        (lambda x: x.normal_(2.0, 0.5), 2.0, 0.5),
        (lambda x: x.uniform_(-1, 1), 0.0, 3**-0.5),
        (lambda x: x.uniform_(to=3.0), 1.5, 3 * 12**-0.5),
        (lambda x: x.uniform_(**{"from": -1.0}), 0.0, 3**-0.5),
        (lambda x: torch.rand([]), 0.5, 12**-0.5),
    ],
)
def test_numbers_that_a_layer_draws_follow_the_law_that_it_asks_for(fill, mean, spread):
    class Noisy(nn.Module):
        def forward(self, x):
            return x + fill(torch.empty_like(x)) if self.training else x

    state, n = torch.get_rng_state(), 4000
    draws = draw(Noisy(), torch.zeros(2, 1), n)[:, 0, 0]
    assert torch.equal(torch.get_rng_state(), state)
    assert abs(float(draws.mean()) - mean) < 5 * spread / math.sqrt(n)  # 5 standard errors
    assert abs(float(draws.std()) / spread - 1) < 5 * math.sqrt(2 / n)  # no law here has more kurtosis than the normal


# Parts of rows on one axis


class Folded(nn.Module):
    """Two tokens of a row, folded with the rows in some order before a path is left out for each token."""

    def __init__(self, order):
        super().__init__()
        self.order, self.a, self.b = order, nn.Linear(4, 8), nn.Linear(8, 3)
        self.seen = {}

    def forward(self, x):
        h = torch.relu(self.a(x.unflatten(1, (2, 4))))
        if self.order == "heads outside":  # tokens, then rows, then halves of the units
            h = h.unflatten(-1, (2, 4)).permute(1, 0, 2, 3)
        elif self.order == "tokens first":
            h = h.transpose(0, 1)
        folded = h.flatten(0, -2)
        if self.training:
            folded = folded * folded.new_empty(len(folded), 1).bernoulli_(0.9) / 0.9
        h = folded.view(h.shape)
        if self.order == "heads outside":
            h = h.permute(1, 0, 2, 3).flatten(2)
        elif self.order == "tokens first":
            h = h.transpose(0, 1)
        self.seen["last"] = h
        weights = torch.tensor([[1.0], [2.0]])
        return self.b((h * weights).sum(1))


@pytest.mark.parametrize("order", ["rows first", "tokens first"])
@pytest.mark.parametrize("seed", range(4))
def test_paths_of_folded_tokens_are_left_out_for_the_same_tokens_of_all_rows(order, seed):
    torch.manual_seed(seed)
    x, module = torch.randn(9, 8), Folded(order)
    functions = Functions(module, 30, seed)
    draws = functions(x)
    assert_near(torch.cat([functions(row) for row in x.split(1)], 1), draws)
    assert float(draws.std(0).min()) > 0


def test_tokens_folded_in_a_third_order_are_refused():
    torch.manual_seed(0)
    with pytest.raises(ValueError, match=r"neither row by row nor part by part.*`predict_batch_size`=1"):
        draw(Folded("heads outside"), torch.randn(9, 8))


def test_a_module_that_keeps_tensors_of_its_training_in_a_dict_is_copied():
    torch.manual_seed(0)
    module, x = Folded("rows first").train(), torch.randn(3, 8)
    module(x).sum().backward()
    assert module.seen["last"].grad_fn is not None
    assert draw(module, x).shape == (6, 3, 3)
