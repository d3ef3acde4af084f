"""Dropout inside of attention and recurrent layers, under fixed masks."""

import math

import numpy as np
import pytest
import torch
from nets import Functions, draw, mask
from torch import nn
from torch.nn import functional as F
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from skactive import MCDropoutClassifier
from skactive._dropout import Pass
from skactive._dropout._dropout_calls import Sites


def rows(*shape, seed=0):
    return torch.from_numpy(np.random.default_rng(seed).standard_normal(shape, dtype=np.float32))


class Masked:
    """Runs a function under the masks of a draw, in which rows are ``n_rows``."""

    def __init__(self, n_draws=3):
        self.sites = Sites(n_draws, np.random.default_rng(0))

    def run(self, draw, one, function, n_rows):
        """``one`` is the function of a single row, by which it is known what dropout takes for one."""
        with torch.no_grad():
            with Pass(self.sites, draw, 1, learns=True):
                one()
            with Pass(self.sites, draw, n_rows):
                return function()

    def kept(self, position, draw):
        return self.sites.numbers(position, draw, torch.device("cpu"))

    @property
    def made(self):
        return [site.shape for site in self.sites.at]


def run(layer, *inputs, draw=0, rows_axis=0):
    """What a layer returns under the masks of a draw, and those masks."""
    masks, ones = Masked(), [x.narrow(rows_axis, 0, 1) if isinstance(x, torch.Tensor) else x for x in inputs]
    layer.train()
    n_rows = inputs[0].shape[rows_axis] if isinstance(inputs[0], torch.Tensor) else 1
    return masks.run(draw, lambda: layer(*ones), lambda: layer(*inputs), n_rows), masks


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
    masks = Masked()

    def attend(n):
        return layer.train()(query[:n], key[:n], value[:n], average_attn_weights=average)

    outputs, weights = masks.run(1, lambda: attend(1), lambda: attend(4), 4)
    with torch.no_grad():
        for i in range(4):
            slow, slow_weights = slow_attention(layer, query[i], key[i], value[i], masks.kept(0, 1)[0], 0.4)
            np.testing.assert_allclose(outputs[i], slow, atol=1e-6)
            np.testing.assert_allclose(weights[i], slow_weights.mean(0) if average else slow_weights, atol=1e-6)


def test_attention_without_dropout_is_that_of_torch_and_rows_may_come_second():
    torch.manual_seed(0)
    layer, x = nn.MultiheadAttention(6, 2).eval(), rows(5, 4, 6)
    (outputs, weights), masks = run(layer, x, x, x, rows_axis=1)
    assert not masks.made
    expected, expected_weights = layer(x, x, x)
    np.testing.assert_allclose(outputs, expected.detach(), atol=1e-6)
    np.testing.assert_allclose(weights, expected_weights.detach(), atol=1e-6)
    layer.dropout = 0.5
    (outputs, _), masks = run(layer, x, x, x, rows_axis=1)
    by_rows = [slow_attention(layer, *[x[:, i]] * 3, masks.kept(0, 0)[0], 0.5)[0].detach() for i in range(4)]
    np.testing.assert_allclose(outputs, torch.stack(by_rows, 1), atol=1e-6)


@pytest.mark.parametrize("grouped", [False, True])
def test_scaled_dot_product_attention_is_masked_after_its_softmax(grouped):
    q, k, v = rows(3, 4, 5, 2), rows(3, 2 if grouped else 4, 6, 2, seed=1), rows(3, 2 if grouped else 4, 6, 2, seed=2)
    bias = rows(5, 6, seed=3)
    options = {"enable_gqa": True} if grouped else {}
    masks = Masked(2)

    def attend(n):
        return F.scaled_dot_product_attention(q[:n], k[:n], v[:n], bias, dropout_p=0.3, **options)

    ours = masks.run(1, lambda: attend(1), lambda: attend(3), 3)
    k, v = (x.repeat_interleave(4 // x.shape[1], 1) for x in (k, v))
    weights = (q @ k.mT / math.sqrt(2) + bias).softmax(-1) * masks.kept(0, 1) / 0.7
    np.testing.assert_allclose(ours, weights @ v, atol=1e-6)
    with Pass(masks.sites, 1, 3):
        without = F.scaled_dot_product_attention(q, k, v, bias)
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
    rows_axis, h, states = 0 if layer.batch_first else 1, x, []
    (outputs, state), masks = run(layer, x, draw=2, rows_axis=rows_axis)
    with torch.no_grad():
        for i, single in enumerate(single_layers(layer, 4)):
            h = h if i == 0 else h * masks.kept(i - 1, 2) / 0.6
            h, after = single(h)
            states.append(after if isinstance(after, tuple) else (after,))
    np.testing.assert_allclose(outputs, h, atol=1e-6)
    for ours, parts in zip(state if isinstance(state, tuple) else (state,), zip(*states, strict=True), strict=True):
        np.testing.assert_allclose(ours, torch.cat(parts), atol=1e-6)
    assert masks.made == [(1, 5, h.shape[-1]) if rows_axis == 0 else (7, 1, h.shape[-1])] * 2


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
    functions = Functions(Encoder(layers()[name], traced), 4)
    x = rows(300, 12)
    x[5] = x[290]
    draws = functions(x)
    np.testing.assert_allclose(torch.cat([functions(part) for part in x.split(77)], 1), draws, atol=1e-5)
    np.testing.assert_allclose(draws[:, 5], draws[:, 290], atol=1e-5)
    assert draws.std(0).mean() > 1e-3
    np.testing.assert_allclose(draws, draw(Encoder(layers()[name], not traced), x, 4), atol=1e-5)


def test_the_mean_over_masks_of_attention_is_its_output_without_dropout():
    torch.manual_seed(0)
    layer, x = nn.MultiheadAttention(4, 2, dropout=0.5, batch_first=True), rows(1, 3, 4)

    class Attend(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = layer

        def forward(self, x):
            return self.layer(x, x, x)[0]

    draws = draw(Attend(), x, 500, batch_size=1)
    error = (draws.mean(0) - layer.eval()(x, x, x)[0].detach()).abs()
    assert bool((error < 5 * draws.std(0) / math.sqrt(500)).all())  # 5 standard errors


def test_a_net_whose_only_dropout_is_inside_a_recurrent_layer_can_be_drawn_from():
    X, y = rows(30, 12).numpy(), np.arange(30) % 3
    net = MCDropoutClassifier(module=Encoder(layers()["recurrent"]), max_epochs=2, random_state=0).fit(X, y)
    draws = net.sample_proba(X, 5)
    assert draws.std(axis=0).mean() > 1e-3


def slow_packed(layer, x, kept, p):
    """A recurrent net of two layers on sequences of one length."""
    first, second = single_layers(layer, 4)
    with torch.no_grad():
        return second(first(x)[0] * kept / (1 - p))[0]


def test_packed_sequences_of_one_length_are_drawn_as_unpacked_ones():
    class Packed(nn.Module):
        def __init__(self):
            super().__init__()
            torch.manual_seed(0)
            self.layer = nn.LSTM(4, 3, num_layers=2, dropout=0.4)

        def forward(self, x):
            packed = pack_padded_sequence(x.transpose(0, 1), torch.full((len(x),), x.shape[1]))
            return pad_packed_sequence(self.layer(packed)[0])[0].transpose(0, 1)

    x, functions = rows(6, 5, 4), Functions(Packed(), 3)
    draws = functions(x)
    for k in range(3):
        kept = mask(functions, 0, k).unsqueeze(1)  # (steps, 1, units)
        slow = slow_packed(functions.draws.module.layer, x.transpose(0, 1), kept, 0.4)
        np.testing.assert_allclose(draws[k], slow.transpose(0, 1), atol=1e-6)


@pytest.mark.parametrize("options", [{"add_bias_kv": True}, {"add_zero_attn": True}])
def test_attention_to_keys_of_its_own_without_anything_dropped_is_that_of_torch(options):
    torch.manual_seed(0)
    layer, x = nn.MultiheadAttention(6, 2, dropout=1e-9, batch_first=True, **options), rows(4, 3, 6)
    (outputs, weights), masks = run(layer, x, x, x)
    expected, expected_weights = layer.eval()(x, x, x)
    assert len(masks.made) == 1
    np.testing.assert_allclose(outputs, expected.detach(), atol=1e-6)
    np.testing.assert_allclose(weights, expected_weights.detach(), atol=1e-6)


@pytest.mark.filterwarnings("ignore:dropout option adds dropout")
def test_a_net_has_dropout_where_inner_dropout_drops_something():
    X, y = rows(30, 12).numpy(), np.arange(30) % 3
    for layer, drops in (
        (nn.LSTM(4, 4, batch_first=True), False),
        (nn.GRU(4, 4, dropout=0.5, batch_first=True), False),
    ):
        net = MCDropoutClassifier(module=Encoder(layer), max_epochs=1, random_state=0).fit(X, y)
        if drops:
            assert net.sample_proba(X, 8).std(axis=0).max() > 0
        else:
            with pytest.raises(ValueError, match="dropout layer with a rate above 0"):
                net.sample_proba(X, 8)
