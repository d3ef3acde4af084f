"""Dropout inside of attention and recurrent layers, under fixed masks."""

import math

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.nn.utils.rnn import pack_sequence

from skactive import MCDropoutClassifier
from skactive._inner_dropout import has_inner_dropout
from skactive._masks import Masks
from skactive._thinning import fixed_mask_draws


def rows(*shape, seed=0):
    return torch.from_numpy(np.random.default_rng(seed).standard_normal(shape, dtype=np.float32))


def run(layer, *inputs, draw=0):
    """What a layer returns under the masks of a draw, and those masks."""
    masks = Masks(3, np.random.default_rng(0))
    with torch.no_grad():
        return masks.run(draw, layer.eval(), *inputs), masks.made


def attend(weights, values):
    return torch.stack([sum(w * v for w, v in zip(row, values, strict=True)) for row in weights])


def slow_attention(layer, query, key, value, kept, p):
    """Multi-head attention of one row, head by head: softmax, dropout, weighted sum."""
    size = layer.embed_dim // layer.num_heads
    if layer.in_proj_weight is None:
        parts = (layer.q_proj_weight, layer.k_proj_weight, layer.v_proj_weight)
    else:
        parts = layer.in_proj_weight.chunk(3)
    biases = layer.in_proj_bias.chunk(3)
    q, k, v = (x @ w.T + b for x, w, b in zip((query, key, value), parts, biases, strict=True))
    heads, all_weights = [], []
    for head in range(layer.num_heads):
        units = slice(head * size, (head + 1) * size)
        weights = (q[:, units] @ k[:, units].T / math.sqrt(size)).softmax(1) * kept[head] / (1 - p)
        heads.append(attend(weights, v[:, units]))
        all_weights.append(weights)
    return torch.cat(heads, 1) @ layer.out_proj.weight.T + layer.out_proj.bias, torch.stack(all_weights)


@pytest.mark.parametrize("other_sizes", [{}, {"kdim": 5, "vdim": 3}])
@pytest.mark.parametrize("average", [True, False])
def test_attention_is_softmax_dropout_and_weighted_sum(other_sizes, average):
    torch.manual_seed(0)
    layer = nn.MultiheadAttention(6, 2, dropout=0.4, batch_first=True, **other_sizes)
    nn.init.normal_(layer.in_proj_bias)
    query, key, value = rows(4, 3, 6), rows(4, 5, other_sizes.get("kdim", 6)), rows(4, 5, other_sizes.get("vdim", 6))
    with torch.no_grad():
        masks = Masks(3, np.random.default_rng(0))
        outputs, weights = masks.run(1, lambda: layer.eval()(query, key, value, average_attn_weights=average))
        for i in range(4):
            slow, slow_weights = slow_attention(layer, query[i], key[i], value[i], masks.made[0].kept[1, 0], 0.4)
            np.testing.assert_allclose(outputs[i], slow, atol=1e-6)
            np.testing.assert_allclose(weights[i], slow_weights.mean(0) if average else slow_weights, atol=1e-6)


def test_attention_without_dropout_is_that_of_torch_and_rows_may_come_second():
    torch.manual_seed(0)
    layer, x = nn.MultiheadAttention(6, 2).eval(), rows(5, 4, 6)
    (outputs, weights), made = run(layer, x, x, x)
    assert not made
    expected, expected_weights = layer(x, x, x)
    np.testing.assert_allclose(outputs, expected.detach(), atol=1e-6)
    np.testing.assert_allclose(weights, expected_weights.detach(), atol=1e-6)
    layer.dropout = 0.5
    (outputs, _), made = run(layer, x, x, x)
    by_rows = [slow_attention(layer, *[x[:, i]] * 3, made[0].kept[0, 0], 0.5)[0].detach() for i in range(4)]
    np.testing.assert_allclose(outputs, torch.stack(by_rows, 1), atol=1e-6)


@pytest.mark.parametrize("grouped", [False, True])
def test_scaled_dot_product_attention_is_masked_after_its_softmax(grouped):
    q, k, v = rows(3, 4, 5, 2), rows(3, 2 if grouped else 4, 6, 2, seed=1), rows(3, 2 if grouped else 4, 6, 2, seed=2)
    bias = rows(5, 6, seed=3)
    options = {"enable_gqa": True} if grouped else {}
    masks = Masks(2, np.random.default_rng(0))
    ours = masks.run(1, lambda: F.scaled_dot_product_attention(q, k, v, bias, dropout_p=0.3, **options))
    k, v = (x.repeat_interleave(4 // x.shape[1], 1) for x in (k, v))
    weights = (q @ k.mT / math.sqrt(2) + bias).softmax(-1) * masks.made[0].kept[1] / 0.7
    np.testing.assert_allclose(ours, weights @ v, atol=1e-6)
    without = masks.run(1, lambda: F.scaled_dot_product_attention(q, k, v, bias))
    assert torch.equal(without, F.scaled_dot_product_attention(q, k, v, bias))


def single_layers(layer, n_inputs):
    """The layers of a recurrent net as nets of one layer."""
    directions, singles = 1 + layer.bidirectional, []
    for i in range(layer.num_layers):
        options = {"batch_first": layer.batch_first, "bidirectional": layer.bidirectional}
        single = type(layer)(n_inputs if i == 0 else directions * layer.hidden_size, layer.hidden_size, **options)
        own = {name: values for name, values in layer.state_dict().items() if f"_l{i}" in name}
        single.load_state_dict({name.replace(f"_l{i}", "_l0"): values for name, values in own.items()})
        singles.append(single.eval())
    return singles


@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU, nn.RNN])
@pytest.mark.parametrize("options", [{}, {"batch_first": True}, {"bidirectional": True}])
def test_recurrent_layers_drop_what_one_passes_on_to_the_next(kind, options):
    torch.manual_seed(0)
    layer = kind(4, 3, num_layers=3, dropout=0.4, **options)
    x = rows(7, 5, 4)
    (outputs, state), made = run(layer, x, draw=2)
    rows_axis, h, states = 0 if layer.batch_first else 1, x, []
    with torch.no_grad():
        for i, single in enumerate(single_layers(layer, 4)):
            h = h if i == 0 else h * made[i - 1].kept[2].transpose(0, rows_axis) / 0.6
            h, after = single(h)
            states.append(after if isinstance(after, tuple) else (after,))
    np.testing.assert_allclose(outputs, h, atol=1e-6)
    for ours, parts in zip(state if isinstance(state, tuple) else (state,), zip(*states, strict=True), strict=True):
        np.testing.assert_allclose(ours, torch.cat(parts), atol=1e-6)
    assert [tuple(mask.kept.shape) for mask in made.values()] == [(3, 1, 5 if rows_axis == 0 else 7, h.shape[-1])] * 2


class Encoder(nn.Module):
    """A transformer's layer or a recurrent one over rows that are sequences."""

    def __init__(self, layer, traced=True):
        super().__init__()
        torch.manual_seed(0)
        self.layer, self.last, self.traced = layer, nn.Linear(4, 3), traced

    def forward(self, x):
        h = x.unflatten(1, (3, 4)) if self.traced else x.reshape(len(x), 3, 4)
        h = self.layer(h)
        return self.last((h[0] if isinstance(h, tuple) else h)[:, -1])


def layers():
    torch.manual_seed(0)
    transformer = nn.TransformerEncoderLayer(4, 2, 8, dropout=0.0, batch_first=True)
    transformer.self_attn.dropout = 0.5
    return {
        "attention": transformer,
        "whole transformer": nn.TransformerEncoder(
            nn.TransformerEncoderLayer(4, 2, 8, dropout=0.3, batch_first=True), 2
        ),
        "recurrent": nn.LSTM(4, 4, num_layers=2, dropout=0.5, batch_first=True),
    }


@pytest.mark.filterwarnings("ignore:enable_nested_tensor")
@pytest.mark.parametrize("traced", [True, False])
@pytest.mark.parametrize("name", ["attention", "whole transformer", "recurrent"])
def test_draws_of_nets_with_inner_dropout_are_functions(name, traced):
    functions = fixed_mask_draws(Encoder(layers()[name], traced), 4, np.random.default_rng(0))
    x = rows(300, 12)
    x[5] = x[290]
    draws = functions(x)
    assert torch.equal(torch.cat([functions(part) for part in x.split(77)], 1), draws)
    assert torch.equal(draws[:, 5], draws[:, 290])
    assert draws.std(0).mean() > 1e-3
    other = fixed_mask_draws(Encoder(layers()[name], not traced), 4, np.random.default_rng(0))(x)
    np.testing.assert_allclose(draws, other, atol=1e-6)


def test_the_mean_over_masks_of_attention_is_its_output_without_dropout():
    torch.manual_seed(0)
    layer, x = nn.MultiheadAttention(4, 2, dropout=0.5, batch_first=True), rows(1, 3, 4)

    class Attend(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = layer

        def forward(self, x):
            return self.layer(x, x, x)[0]

    draws = fixed_mask_draws(Attend(), 500, np.random.default_rng(0), batch_size=1)(x)
    error = (draws.mean(0) - layer.eval()(x, x, x)[0].detach()).abs()
    assert bool((error < 5 * draws.std(0) / math.sqrt(500)).all())  # 5 standard errors


def test_a_net_whose_only_dropout_is_inside_a_recurrent_layer_can_be_drawn_from():
    X, y = rows(30, 12).numpy(), np.arange(30) % 3
    net = MCDropoutClassifier(module=Encoder(layers()["recurrent"]), max_epochs=2, random_state=0).fit(X, y)
    draws = net.sample_proba(X, 5)
    assert draws.std(axis=0).mean() > 1e-3


def test_dropout_that_cannot_be_caught_is_refused():
    lstm = nn.LSTM(4, 4, num_layers=2, dropout=0.5)
    packed = pack_sequence([rows(3, 4), rows(2, 4)])
    with pytest.raises(ValueError, match="packed"):
        run(lstm, packed)
    layer, x = nn.MultiheadAttention(4, 2, dropout=0.5, add_bias_kv=True), rows(3, 2, 4)
    with pytest.raises(ValueError, match="attention with"):
        run(layer, x, x, x)
    lstm.dropout = layer.dropout = 0.0
    assert not run(lstm, packed)[1]
    assert not run(layer, x, x, x)[1]


def test_inner_dropout_counts_where_it_drops_something():
    assert has_inner_dropout(layers()["recurrent"])
    assert has_inner_dropout(nn.Sequential(layers()["attention"]))
    assert not has_inner_dropout(nn.LSTM(4, 4, num_layers=2))
    with pytest.warns(UserWarning, match="num_layers"):
        assert not has_inner_dropout(nn.GRU(4, 4, dropout=0.5))
