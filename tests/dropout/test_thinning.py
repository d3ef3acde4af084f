"""Fixed-mask draws of torch modules."""

import logging
import math
import sys
import threading

import numpy as np
import pytest
import torch
from nets import Functions, Net, assert_near, draw, mask, normal_rows, sequential, slow_draws
from scipy import stats
from torch import nn
from torch.nn import functional as F

from skactive import MCDropoutClassifier
from skactive._dropout import InBlocks, Pass, TensorRows, _dropout_calls, _pruned_networks
from skactive._dropout._pruned_networks import is_row_by_row, prunable
from skactive._dropout._recording import record


def recorded(module, x):
    draws = Functions(module, 2).draws
    with torch.no_grad():
        draws.learn(TensorRows(x))
        held = [*draws.module.parameters(), *draws.module.buffers()]
        return record(draws.outputs, x, held, Pass(draws._sites, 0, len(x), in_place=False)), draws._sites


def calls_left(module, x):
    """How many calls behind the first dropout are not pruned; None if all, or if they are no chain."""
    recording, sites = recorded(module, x)
    chain = recording.chain()
    letters = prunable(chain, sites)
    return len(chain) - len(letters) if letters else None


def assert_as_whole_passes(module, x, n_draws=7, **options):
    np.testing.assert_allclose(
        draw(module, x, n_draws, **options), slow_draws(module, x, n_draws, **options), rtol=0, atol=1e-5
    )


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


LAYERS = {
    "Dropout": (nn.Dropout(0.5), (40,)),
    "Dropout1d": (nn.Dropout1d(0.5), (8, 5)),
    "Dropout2d": (nn.Dropout2d(0.5), (8, 4, 5)),
    "Dropout3d": (nn.Dropout3d(0.5), (8, 2, 3, 4)),
    "AlphaDropout": (nn.AlphaDropout(0.5), (40,)),
    "FeatureAlphaDropout": (nn.FeatureAlphaDropout(0.5), (8, 4, 5)),
}


@pytest.mark.parametrize("name", LAYERS)
def test_a_draw_has_one_mask_for_all_rows_with_the_values_of_torch(name):
    layer, shape = LAYERS[name]
    torch.manual_seed(0)
    draws = draw(layer, torch.ones(9, *shape), n_draws=400)
    assert torch.equal(draws, draws[:, :1].expand_as(draws))
    ours, theirs = draws[:, 0], layer.train()(torch.ones(400, *shape))
    assert len(ours[:6].unique(dim=0)) == 6
    assert ours.unique().tolist() == pytest.approx(theirs.unique().tolist(), abs=1e-6)
    channels = ours.flatten(2) if ours.ndim > 2 else ours
    assert bool((channels == channels[..., :1]).all()) == (name not in {"Dropout", "AlphaDropout"})


def test_units_are_kept_at_the_rate_of_the_layer():
    kept = int((draw(nn.Dropout(0.3), torch.ones(1, 50), n_draws=400) > 0).sum())
    # exact binomial tail
    assert 1e-6 < stats.binom.cdf(kept, 20000, 0.7) < 1 - 1e-6


def test_a_layer_used_twice_and_functions_of_dropout_get_masks_of_their_own():
    module = Net(lambda m, x: torch.cat([m.drop(x), m.drop(x), F.dropout(x, 0.5)], 1), drop=nn.Dropout(0.5))
    parts = draw(module, torch.ones(1, 30))[:, 0].reshape(6, 3, 30)
    assert not torch.equal(parts[:, 0], parts[:, 1])
    assert not torch.equal(parts[:, 1], parts[:, 2])
    assert (parts == 0).any(dim=2).all()


NOISE = {  # what is added to rows of zeros, and the same numbers from those of the plain law
    "normal_(std)": (lambda x: x.normal_(std=0.5), "normal", lambda z: 0.5 * z),
    "normal_(mean, std)": (lambda x: x.normal_(2.0, 0.5), "normal", lambda z: 2 + 0.5 * z),
    "uniform_(from, to)": (lambda x: x.uniform_(-1, 1), "uniform", lambda u: 2 * u - 1),
    "uniform_(from=)": (lambda x: x.uniform_(**{"from": -1.0}), "uniform", lambda u: 2 * u - 1),
    "rand_like": (torch.rand_like, "uniform", lambda u: u),
    "bernoulli(input=)": (lambda x: torch.bernoulli(input=torch.full_like(x, 0.3)), "uniform", lambda u: u < 0.3),
}
PLAIN = {"normal": torch.randn_like, "uniform": lambda x: torch.rand(x.shape)}


def noise_of(fill, n_draws):
    module = Net(lambda m, x: x + fill(torch.empty_like(x)) if m.training else x)
    return draw(module, torch.zeros(2, 3), n_draws)


def test_numbers_that_a_layer_draws_follow_the_law_that_it_asks_for(global_state_untouched):
    drawn = {law: noise_of(fill, 700) for law, fill in PLAIN.items()}
    for law, draws in drawn.items():
        assert torch.equal(draws[:, 0], draws[:, 1])
        exact = stats.norm.cdf if law == "normal" else stats.uniform.cdf
        assert stats.kstest(draws[:, 0].flatten().numpy(), exact).pvalue > 1e-4
    for name, (fill, law, of_plain) in NOISE.items():
        expected = of_plain(drawn[law][:20]).float()
        np.testing.assert_allclose(noise_of(fill, 20), expected, rtol=0, atol=1e-6, err_msg=name)


class Hostile(nn.Module):
    """Answers by the number of rows beside a row and by its place among them, as no net should, but rounding does."""

    def __init__(self):
        super().__init__()
        self.a, self.drop, self.b = nn.Linear(5, 16), nn.Dropout(0.5), nn.Linear(16, 3)

    def forward(self, x):
        place = torch.arange(len(x), device=x.device)[:, None] * torch.tensor([1.0, -2.0, 3.0])
        return self.b(self.drop(torch.relu(self.a(x)))) + 1e-6 * (place + len(x) ** 1.5)


@pytest.mark.arithmetic
@pytest.mark.parametrize(("n_rows", "n_blocks"), [(1, 1), (64, 2), (65, 1), (300, 1), (300, 2)])
def test_chunks_of_whole_blocks_give_the_same_bits_by_construction(n_rows, n_blocks):
    x, functions = normal_rows(n_rows, 5), Functions(Hostile(), 3, batch_size=64)
    parts = [functions(part) for part in x.split(64 * n_blocks)]
    assert torch.equal(torch.cat(parts, dim=1), functions(x))


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
    with pytest.raises(ValueError, match="at least one row"):
        InBlocks(5).joined(no_room, TensorRows(torch.randn(0, 4)))


def test_the_module_and_the_global_generators_are_left_alone(global_state_untouched):
    x = normal_rows(5, 5)
    with torch.random.fork_rng():
        module = sequential((5, 8), nn.BatchNorm1d(8), nn.ReLU, 0.2, (8, 2)).train()
        module[0].eval()
        module(x).sum().backward()
    before = {k: v.clone() for k, v in module.state_dict().items()}
    grads = [p.grad.clone() for p in module.parameters()]
    modes = [m.training for m in module.modules()]
    draw(module, x)
    assert all(torch.equal(before[k], v) for k, v in module.state_dict().items())
    assert all(torch.equal(g, p.grad) and p.requires_grad for g, p in zip(grads, module.parameters(), strict=True))
    assert modes == [m.training for m in module.modules()]


def paper_net(drop):
    """Two blocks of convolution, dropout, pooling and ReLU, as of Kirsch et al. (2023)."""
    convolutions = nn.Conv2d(1, 6, 3), nn.Conv2d(6, 8, 3, padding=1)
    layers = [layer for conv in convolutions for layer in (conv, drop, nn.MaxPool2d(2), nn.ReLU)]
    return sequential(*layers, nn.Flatten, (72, 16), nn.ReLU, 0.5, (16, 3), nn.LogSoftmax(1))


CHAINS = {  # with the shape of a row, and how many of their calls are not part of a pruned network
    "MLP": (sequential((6, 64), nn.ReLU, 0.5, (64, 32), nn.Tanh, 0.2, (32, 3)), (6,), 0),
    "dropout on the inputs": (sequential(0.3, (6, 16), nn.ReLU(inplace=True), (16, 3)), (6,), 0),
    "dropout before the activation": (sequential((6, 16), 0.5, nn.ReLU, (16, 9), 0.5, nn.LeakyReLU, (9, 3)), (6,), 0),
    "two dropouts in a row": (sequential((6, 16), 0.3, 0.3, nn.Linear(16, 3, bias=False)), (6,), 0),
    "nested, with a softmax": (sequential(sequential((6, 16), nn.GELU), 0.0, 0.4, (16, 3), nn.Softmax(-1)), (6,), 1),
    "batch norm first": (sequential((6, 16), 0.5, (16, 12), nn.BatchNorm1d(12), nn.ELU, 0.5, (12, 3)), (6,), 0),
    "batch norm last": (sequential((6, 9), 0.5, (9, 8), nn.ELU, nn.BatchNorm1d(8, affine=False), 0.5, (8, 3)), (6,), 0),
    "everything dropped": (sequential((6, 16), nn.ReLU, 1.0, (16, 3)), (6,), 0),
    "layer norm": (sequential((6, 16), 0.5, (16, 12), nn.LayerNorm(12), 0.5, (12, 3)), (6,), 3),
    "dropout last": (sequential((6, 16), 0.5, (16, 12), nn.ReLU, (12, 3), 0.5), (6,), 1),
    "alpha dropout": (sequential((6, 16), nn.SELU, nn.AlphaDropout(0.5), (16, 3)), (6,), None),
    "GELU of what was dropped": (sequential((6, 16), 0.5, nn.GELU, (16, 3)), (6,), None),
    "channels": (paper_net(nn.Dropout2d(0.5)), (1, 14, 14), 1),
    "pixels": (paper_net(nn.Dropout(0.5)), (1, 14, 14), None),
    "batch norm, strides and one draw without a channel": (
        sequential(
            *(nn.Dropout2d(0.2), nn.Conv2d(2, 4, 3, stride=2, padding="valid", bias=False), nn.BatchNorm2d(4)),
            *(nn.SiLU, nn.Dropout2d(0.9), nn.Conv2d(4, 5, 3, dilation=2), nn.ReLU, nn.BatchNorm2d(5)),
            *(nn.Dropout2d(0.5), nn.AdaptiveAvgPool2d(2), nn.Flatten, 0.5, (20, 3)),
        ),
        (2, 14, 14),
        0,
    ),
    "sequences": (sequential(nn.Conv1d(2, 6, 3), nn.Dropout1d(0.5), nn.MaxPool1d(2), nn.Conv1d(6, 4, 3)), (2, 15), 0),
    "volumes": (
        sequential(nn.Conv3d(1, 4, 2), nn.Dropout3d(0.5), nn.AvgPool3d(2), nn.Flatten, (4, 2)),
        (1, 3, 3, 3),
        0,
    ),
    "groups": (sequential(nn.Conv2d(1, 4, 3), nn.Dropout2d(0.5), nn.Conv2d(4, 4, 3, groups=2)), (1, 6, 6), None),
}


@pytest.mark.arithmetic
@pytest.mark.parametrize("name", CHAINS)
def test_pruned_draws_equal_a_forward_pass_under_the_same_masks(name):
    module, shape, left = CHAINS[name]
    rng = np.random.default_rng(1)
    module, x = randomise(module, rng), torch.from_numpy(rng.standard_normal((100, *shape), dtype=np.float32))
    assert calls_left(module, x[:4]) == left
    assert_as_whole_passes(module, x)


def test_a_draw_that_drops_a_whole_layer_between_others_that_do_not_is_the_bias():
    module = sequential((6, 4), nn.ReLU, 0.7, (4, 3))
    functions = Functions(module, 12)
    draws = functions(normal_rows(20, 6))
    is_empty = [not bool(mask(functions, 0, k).any()) for k in range(12)]
    assert any(is_empty)
    assert not is_empty[0]  # the first draw and the last are checked against passes of the module
    assert not is_empty[-1]
    assert None not in functions.draws._plans.values()
    for draw_of, empty in zip(draws, is_empty, strict=True):
        assert torch.equal(draw_of, module[-1].bias.detach().expand_as(draw_of)) == empty


@pytest.mark.parametrize("n_together", [1, 700])  # all draws at once: with the default
def test_draws_are_the_same_functions_however_many_go_through_one_product(n_together, monkeypatch):
    monkeypatch.setattr(_pruned_networks, "_MAX_TOGETHER", n_together)
    module = CHAINS["batch norm last"][0].eval()
    assert_as_whole_passes(module, torch.ones(20, 6), 11, batch_size=20)


def test_weights_too_large_to_keep_for_all_draws_are_cut_out_each_time(monkeypatch):
    module, x = CHAINS["MLP"][0], torch.ones(3, 6)
    monkeypatch.setattr(_pruned_networks, "_MAX_TOGETHER", 1)
    kept = draw(module, x)
    for n_bytes in (0, 8000):
        monkeypatch.setattr(_dropout_calls, "MAX_KEPT", n_bytes)
        assert torch.equal(draw(module, x), kept), n_bytes


def pools_units(m, x):
    """Pools across units, or channels, which a mask of units does not commute with."""
    if m.kind == "units":
        return m.c(F.max_pool1d(m.units(m.a(x)), 3, 1, 1))
    h = m.drop(m.a(x).unsqueeze(2).expand(-1, -1, 2))
    return m.c(m.b(F.avg_pool2d(h, (3, 1), 1, (1, 0))).flatten(1))


@pytest.mark.parametrize("kind", ["units", "channels"])
def test_pooling_across_units_is_not_pruned(kind):
    for seed in range(2):
        torch.manual_seed(seed)
        layers = {"a": nn.Linear(6, 6), "b": nn.Conv1d(6, 6, 2), "c": nn.Linear(6, 3)}
        module = Net(pools_units, kind=kind, drop=nn.Dropout1d(0.1), units=nn.Dropout(0.1), **layers)
        assert_as_whole_passes(module.eval(), torch.randn(20, 6), 12, seed=seed)


def residual(m, x):
    trunk = torch.tanh(m.a(x))
    trunk = trunk + torch.relu(m.b(trunk))
    return m.d(torch.cat([trunk + m.drop(m.b(trunk)), trunk], 1))


def added_in_place(m, x):
    h = m.a(x)
    h += m.drop(torch.tanh(m.b(h)))
    return m.c(h)


def changed_afterwards(m, x):
    h = m.a(x)
    dropped = m.drop(h)
    h.relu_()
    return m.c(dropped + h)


def tokens_beside_rows(m, x):
    h = torch.cat([m.token.expand(x.shape[0], -1, -1), x.unsqueeze(1)], dim=1)
    return m.a(m.drop(h)).flatten(1)


def number_of_rows(m, x):
    n_rows = x.size(0)
    return m.c(m.channels(m.conv(x.view(n_rows, 2, 3))).view(n_rows, -1))


def in_inference_mode(m, x):
    with torch.inference_mode():
        return added_in_place(m, x)


def behind_torchs_back(m, x):
    h = m.a(x)
    h.view_as(h).data.mul_(m.drop(torch.ones_like(h)))
    return m.c(m.drop(h))


def writes_a_buffer(m, x):
    m.most[:] = 0
    torch.maximum(m.most, m.drop(torch.ones(8)), out=m.most)
    return m.c(m.a(x) * m.most)


def goes_on_with_what_was_dropped_in_place(m, x):
    h = m.a(x)
    y = torch.tanh(m.b(F.dropout(h, 0.5, m.training, inplace=True)))
    return m.c(y + h)


GRAPHS = {
    function.__name__: function
    for function in (residual, added_in_place, changed_afterwards, tokens_beside_rows, number_of_rows)
    + (in_inference_mode, behind_torchs_back, writes_a_buffer, goes_on_with_what_was_dropped_in_place)
} | {
    "trunk before a chain": lambda m, x: m.head(m.a(x) + m.b(m.a(x))),
    "input changed in place": lambda m, x: m.c(m.a(m.drop(x.mul_(2)))),
    "control flow": lambda m, x: m.c(m.drop(m.a(x if float(x.sum()) > 1e9 else -x))),
}


def graph(name):
    torch.manual_seed(0)
    parts = {"a": (6, 8), "b": (8, 8), "c": (8, 3), "d": (16, 3), "drop": 0.5}
    parts |= {"conv": nn.Conv1d(2, 4, 2), "channels": nn.Dropout1d(0.5)}
    parts |= {"token": nn.Parameter(torch.ones(1, 1, 6)), "most": torch.zeros(8)}
    return Net(GRAPHS[name], head=sequential(0.5, (8, 16), nn.ReLU, 0.5, (16, 3)), **parts).eval()


@pytest.mark.arithmetic
@pytest.mark.parametrize("name", GRAPHS)
def test_graphs_equal_a_forward_pass_under_the_same_masks_and_leave_nothing_behind(name):
    module, x = graph(name), normal_rows(300, 6)
    before, functions = x.clone(), Functions(module, 8)
    one, draws = functions(x[:1]), functions(x)
    assert torch.equal(x, before)
    np.testing.assert_allclose(draws, functions.by_whole_passes(x), rtol=0, atol=1e-5)
    assert_near(one, draws[:, :1])
    assert_near(torch.cat([functions(part) for part in x.split(77)], dim=1), draws)
    with torch.inference_mode():
        inside = Functions(module, 8)(x)
    assert_near(inside.clone(), draws)


def test_weights_made_of_weights_are_known_to_leave_each_row_by_itself_and_weights_made_of_rows_are_not():
    for made, is_known in ((lambda m, x: m.a.weight * m.b.weight, True), (lambda m, x: x.relu(), False)):
        module = Net(lambda m, x, f=made: F.linear(m.drop(x), f(m, x)), a=(6, 6), b=(6, 6), drop=0.5).eval()
        assert is_row_by_row(*recorded(module, torch.randn(6, 6))) == is_known


def test_what_a_hook_on_a_layer_returns_counts():
    module, x = sequential((6, 16), 0.5, (16, 3)), torch.randn(4, 6)
    plain = draw(module, x)
    module[2].register_forward_hook(lambda layer, inputs, outputs: 2 * outputs)
    assert_near(draw(module, x), 2 * plain)


ACTIVATIONS = [nn.ReLU, nn.LeakyReLU, nn.Tanh, nn.GELU, nn.SELU, nn.Sigmoid, nn.Identity, nn.Softplus]


def any_net(rng):
    """Linear layers, between them up to four of an activation, batch norm and dropouts, beside a skip or not."""
    layers, n_in = [float(rng.choice([0.0, 0.3]))], 4
    for n_out in rng.integers(1, 40, rng.integers(1, 4)).tolist():
        between = [ACTIVATIONS[rng.integers(8)](), nn.BatchNorm1d(n_out), nn.AlphaDropout(0.3)]
        between += [nn.Dropout(p) for p in rng.choice([0.0, 0.1, 0.5, 0.8, 0.95], 2)]
        block = nn.Sequential(*rng.permutation(between)[: rng.integers(1, 5)].tolist())
        skips = Net(lambda m, x: x + m.inner(x), inner=block)
        layers, n_in = (
            [*layers, nn.Linear(n_in, n_out, bias=rng.random() < 0.5), skips if rng.random() < 0.3 else block],
            n_out,
        )
    return sequential(*layers, 0.5, (n_in, 3))


@pytest.mark.parametrize("seed", range(4))
def test_any_net_is_drawn_as_in_a_forward_pass_for_every_chunking(seed):
    for rng in np.random.default_rng(seed).spawn(5):
        module = randomise(any_net(rng), rng).double()  # in float64 equal means equal, not equal but for rounding
        x, size = torch.from_numpy(rng.standard_normal((100, 4))), int(rng.integers(20, 99))
        functions = Functions(module, 4, batch_size=64)
        whole, plain = functions(x), functions.by_whole_passes(x)
        np.testing.assert_allclose(whole, plain, rtol=1e-9, atol=1e-9 * (1 + float(plain.abs().max())))
        assert torch.equal(torch.cat([functions(part) for part in x.split(64)], dim=1), whole)
        assert_near(torch.cat([functions(part) for part in x.split(size)], dim=1), whole)
        assert_near(functions(x[size - 1 : size]), whole[:, size - 1 : size])


POOLS = {
    "mean": lambda h_pnc: h_pnc.mean(0),
    "max": lambda h_pnc: h_pnc.amax(0),
    "parts weighted": lambda h_pnc: torch.einsum("pnc,p->nc", h_pnc, torch.arange(1.0, 1 + len(h_pnc))),
}


@pytest.mark.parametrize("order", ["repeat", "repeat_interleave"])
@pytest.mark.parametrize("pool", POOLS)
@pytest.mark.parametrize("n_parts", [2, 3, 4, 5, 7, 8, 9])
def test_each_copy_of_a_row_gets_the_mask_of_its_part_in_whatever_order_copies_lie(n_parts, pool, order):
    def stacked(m, x):
        h = x.repeat(n_parts, 1) if order == "repeat" else x.repeat_interleave(n_parts, 0)
        h = m.b(m.drop(m.a(h).relu()))
        h = h.unflatten(0, (n_parts, -1)) if order == "repeat" else h.unflatten(0, (-1, n_parts)).transpose(0, 1)
        return POOLS[pool](h)

    torch.manual_seed(0)
    module = Net(stacked, a=(5, 16), b=(16, 3), drop=0.5).eval()
    x = normal_rows(2 * n_parts + 1, 5)
    functions = Functions(module, 3)
    for rows in (x, x[: 2 * n_parts], x[:n_parts]):  # also as many rows as parts, or a multiple
        draws = functions(rows)
        for k in range(3):
            kept = mask(functions, 0, k)  # (n_parts, 16)
            by_hand = POOLS[pool](torch.stack([module.b(module.a(rows).relu() * part * 2) for part in kept]))
            assert_near(draws[k], by_hand.detach())


def test_parts_that_answer_for_themselves_in_the_first_rows_only_are_refused_in_any_third_order():
    def tokens_first(m, x):  # tokens, then rows, then halves of the units
        h = m.embed(x).transpose(0, 1)
        h = m.drop(m.a(h.reshape(-1, 8)).relu()).view(h.shape)
        seen = (x > 0).float().T.unsqueeze(-1)
        return m.b((h * seen).sum(0) / seen.sum(0))

    torch.manual_seed(0)
    x = torch.randint(1, 30, (40, 8))
    x[:, :4] = 0  # all rows begin alike
    with pytest.raises(ValueError, match=r"neither row by row nor part by part.*`predict_batch_size`=1"):
        draw(Net(tokens_first, embed=lambda: nn.Embedding(30, 16), a=(8, 8), b=(16, 3), drop=0.5), x)


@pytest.mark.parametrize("other", [0, [threading.Lock()], logging.getLogger(), sys.__stderr__, math])
def test_a_module_that_keeps_tensors_of_its_training_locks_loggers_and_files_is_copied_and_trained(other):
    def keeps(m, x):
        m.seen["last"] = m.a(x)
        return m.drop(m.seen["last"])

    module, x = Net(keeps, a=(8, 3), drop=0.5, seen={}), torch.randn(3, 8)
    module.other = other
    module(x).sum().backward()
    assert module.seen["last"].grad_fn is not None
    assert draw(module, x).shape == (6, 3, 3)
    assert MCDropoutClassifier(module=module, max_epochs=1).fit(x, [0, 1, 2]).predict(x).shape == (3,)
    assert module.seen["last"].grad_fn is not None
