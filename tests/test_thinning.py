"""Fixed-mask draws of torch modules."""

import math

import numpy as np
import pytest
import torch
from scipy import stats
from torch import nn
from torch.nn import functional as F

from skactive import _thinning
from skactive._thinning import MICRO_BATCH, fixed_mask_draws, forward_rows, has_dropout


def draw(module, x, n_draws=6, seed=0):
    return fixed_mask_draws(module, n_draws, np.random.default_rng(seed))(x)


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


@pytest.mark.parametrize("name", NETS)
def test_rows_are_equal_to_the_bit_for_every_chunking(name):
    module, shape = NETS[name]
    x = torch.from_numpy(np.random.default_rng(1).standard_normal((2 * MICRO_BATCH + 30, *shape), dtype=np.float32))
    x[7] = x[300]  # twins must stay twins
    functions = fixed_mask_draws(module, 3, np.random.default_rng(0))
    whole = functions(x)
    assert torch.equal(whole[:, 7], whole[:, 300])
    for size in (37, MICRO_BATCH, 300):
        assert torch.equal(torch.cat([functions(part) for part in x.split(size)], dim=1), whole)
    assert torch.equal(
        torch.cat([functions(x[i : i + 1]) for i in (0, 7, 255, 256, 541)], dim=1), whole[:, [0, 7, 255, 256, 541]]
    )


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
    functions = fixed_mask_draws(module, 2, np.random.default_rng(0))
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
        assert not has_dropout(module)
        with pytest.raises(ValueError, match="dropout layer"):
            draw(module, torch.ones(1, 2))


def test_rows_of_another_shape_at_a_dropout_layer_are_refused():
    functions = fixed_mask_draws(nn.Dropout(0.5), 2, np.random.default_rng(0))
    functions(torch.ones(3, 4))
    with pytest.raises(ValueError, match="one shape"):
        functions(torch.ones(3, 5))


def test_forward_rows_pads_every_batch_to_one_shape_and_returns_the_real_rows():
    seen = []

    def double(batch):
        seen.append(tuple(batch.shape))
        return 2 * batch

    x = torch.arange(14.0).reshape(7, 2)
    assert torch.equal(forward_rows(double, x, batch_size=3), 2 * x)
    assert seen == [(3, 2)] * 3


CHAINS = {
    "MLP": nn.Sequential(
        nn.Linear(6, 64), nn.ReLU(), nn.Dropout(0.5), nn.Linear(64, 32), nn.Tanh(), nn.Dropout(0.2), nn.Linear(32, 3)
    ),
    "dropout on the inputs": nn.Sequential(nn.Dropout(0.3), nn.Linear(6, 16), nn.ReLU(inplace=True), nn.Linear(16, 3)),
    "two dropouts in a row": nn.Sequential(
        nn.Linear(6, 16), nn.Dropout(0.3), nn.Dropout(0.3), nn.Linear(16, 3, bias=False)
    ),
    "nested": nn.Sequential(
        nn.Sequential(nn.Linear(6, 16), nn.GELU()),
        nn.Dropout(0.0),
        nn.Dropout(0.4),
        nn.Sequential(nn.Linear(16, 3), nn.Softmax(-1)),
    ),
    "batch norm": nn.Sequential(
        nn.Linear(6, 16),
        nn.Dropout(0.5),
        nn.Linear(16, 12),
        nn.BatchNorm1d(12),
        nn.ELU(),
        nn.Dropout(0.5),
        nn.Linear(12, 3),
    ),
    "everything dropped": nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Dropout(1.0), nn.Linear(16, 3)),
    "log-softmax": nn.Sequential(nn.Linear(6, 16), nn.Dropout(0.5), nn.Linear(16, 3), nn.LogSoftmax(1)),
}
NOT_DENSE = {
    "layer norm": nn.Sequential(
        nn.Linear(6, 16), nn.Dropout(0.5), nn.Linear(16, 12), nn.LayerNorm(12), nn.Dropout(0.5), nn.Linear(12, 3)
    ),
    "alpha dropout": nn.Sequential(nn.Linear(6, 16), nn.SELU(), nn.AlphaDropout(0.5), nn.Linear(16, 3)),
    "dropout last": nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 3), nn.Dropout(0.5)),
    "functions": Functional,
}


def plain_draws(module, x, n_draws, seed):
    """Fixed masks in a forward pass of the whole module, one draw after the other."""
    whole = fixed_mask_draws(module, n_draws, np.random.default_rng(seed), forward=lambda m, batch: m(batch))
    return whole(x)


@pytest.mark.parametrize("name", CHAINS | NOT_DENSE)
def test_thinned_draws_equal_a_forward_pass_under_the_same_masks(name):
    torch.manual_seed(0)
    module = (CHAINS | NOT_DENSE)[name]
    module = (Functional() if module is Functional else module).eval()
    for m in module.modules():
        if isinstance(m, nn.BatchNorm1d):
            m.running_mean.uniform_(-1, 1)
            m.running_var.uniform_(0.5, 2)
            nn.init.uniform_(m.weight, 0.5, 2)
    x = torch.randn(300, 5 if name == "functions" else 6)
    np.testing.assert_allclose(draw(module, x, 7, seed=3), plain_draws(module, x, 7, seed=3), rtol=0, atol=3e-6)


@pytest.mark.parametrize("name", CHAINS)
def test_dense_chains_are_recognised(name):
    chain = _thinning._as_chain(CHAINS[name].eval())
    first = next(i for i, step in enumerate(chain) if step.is_dropout)
    assert _thinning._as_dense(chain[first:]) is not None


@pytest.mark.parametrize("name", ["layer norm", "alpha dropout", "dropout last"])
def test_chains_with_other_layers_behind_a_dropout_are_not_thinned(name):
    chain = _thinning._as_chain(NOT_DENSE[name].eval())
    first = next(i for i, step in enumerate(chain) if step.is_dropout)
    assert _thinning._as_dense(chain[first:]) is None


def test_weights_too_large_to_keep_for_all_draws_are_cut_out_each_time(monkeypatch):
    module, x = CHAINS["MLP"], torch.ones(3, 6)
    kept = draw(module, x)
    monkeypatch.setattr("skactive._thinning._MAX_KEPT_BYTES", 0)
    assert torch.equal(draw(module, x), kept)


def test_a_hook_on_a_layer_is_still_called():
    calls = []
    module = nn.Sequential(nn.Linear(6, 16), nn.Dropout(0.5), nn.Linear(16, 3))
    module[2].register_forward_hook(lambda *_: calls.append(1))
    draw(module, torch.ones(1, 6), n_draws=4)
    assert len(calls) == 4


class Encoder(nn.Module):
    """A transformer layer, which holds dropout of its own, behind shapes that can be traced or not."""

    def __init__(self, traced):
        super().__init__()
        torch.manual_seed(0)
        self.layer = nn.TransformerEncoderLayer(12, 2, 16, dropout=0.4, batch_first=True)
        self.layer.self_attn.dropout = 0.0
        self.last = nn.Linear(12, 3)
        self.traced = traced

    def forward(self, x):
        h = x.unsqueeze(1) if self.traced else x.reshape(len(x), 1, 12)
        return self.last(self.layer(h)[:, 0])


def test_dropout_inside_a_layer_of_torchs_own_is_drawn_whether_or_not_the_module_can_be_traced():
    x = torch.randn(20, 12, generator=torch.Generator().manual_seed(1))
    draws = [draw(Encoder(traced), x) for traced in (True, False)]
    np.testing.assert_allclose(draws[0], draws[1], atol=1e-6)
    assert draws[0].std(0).mean() > 0.05


def test_dropout_inside_of_attention_is_left_off_with_a_warning():
    module = Encoder(True)
    module.layer.self_attn.dropout = 0.4
    with pytest.warns(UserWarning, match="attention"):
        draw(module, torch.ones(1, 12))
    with pytest.warns(UserWarning, match="attention"), pytest.raises(ValueError, match="recurrent"):
        draw(nn.LSTM(4, 4, num_layers=2, dropout=0.5), torch.ones(1, 4))


def test_a_layer_that_takes_the_same_rows_several_times_is_called_with_all_of_them():
    class SelfAttention(nn.Module):
        def __init__(self):
            super().__init__()
            self.attend, self.drop, self.last = (
                nn.MultiheadAttention(6, 1, batch_first=True),
                nn.Dropout(0.3),
                nn.Linear(6, 3),
            )

        def forward(self, x):
            h = x[:, None]
            return self.last(self.drop(self.attend(h, h, h)[0][:, 0]))

    module, x = SelfAttention(), torch.randn(9, 6)
    np.testing.assert_allclose(draw(module, x), plain_draws(module, x, 6, seed=0), atol=1e-6)
