"""Dropout inside of attention and recurrent layers, under fixed masks."""

import math

import numpy as np
import pytest
import torch
from nets import Net, assert_near, draw
from nets import normal_rows as rows
from torch import nn
from torch.nn import functional as F

from skactive import sample_posterior
from skactive._dropout import Pass, _dropout_calls, _random_calls
from skactive._dropout._dropout_calls import Sites


class Masked:
    """Runs a function of the number of rows under the masks of a draw."""

    def __init__(self):
        self.sites = Sites(3, np.random.default_rng(0))

    def run(self, draw, function, n_rows):
        with torch.no_grad():
            with Pass(self.sites, draw, 1, learns=True):  # a single row shows what dropout takes for one
                function(1)
            with Pass(self.sites, draw, n_rows):
                return function(n_rows)

    def kept(self, position, draw):
        return self.sites.numbers(position, draw, torch.device("cpu"))


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
        heads.append(torch.stack([sum(w * v for w, v in zip(row, v[:, units], strict=True)) for row in weights]))
        all_weights.append(weights)
    return torch.cat(heads, 1) @ layer.out_proj.weight.T + layer.out_proj.bias, torch.stack(all_weights)


@pytest.mark.parametrize(("other_sizes", "average"), [({}, True), ({"kdim": 5, "vdim": 3}, False)])
def test_attention_is_softmax_dropout_and_weighted_sum(other_sizes, average):
    torch.manual_seed(0)
    layer = nn.MultiheadAttention(6, 2, dropout=0.4, batch_first=True, **other_sizes).train()
    nn.init.normal_(layer.in_proj_bias)
    given = rows(4, 3, 6), rows(4, 5, other_sizes.get("kdim", 6)), rows(4, 5, other_sizes.get("vdim", 6))
    masks = Masked()
    outputs, weights = masks.run(1, lambda n: layer(*(x[:n] for x in given), average_attn_weights=average), 4)
    with torch.no_grad():
        for i in range(4):
            slow, slow_weights = slow_attention(layer, *(x[i] for x in given), masks.kept(0, 1)[0], 0.4)
            np.testing.assert_allclose(outputs[i], slow, atol=1e-6)
            np.testing.assert_allclose(weights[i], slow_weights.mean(0) if average else slow_weights, atol=1e-6)


def seen(n_rows, n_heads):
    """Keys that queries may see, more or fewer from row to row and head to head; the first query may see none."""
    mask = rows(n_rows, n_heads, 5, 6, seed=4) > 0
    mask[:, :, 0] = False
    return mask


ATTENTION = {  # options, and axes before the queries of all rows
    "added": ({"attn_mask": rows(5, 6, seed=4)}, (4,)),
    "of keys": ({"attn_mask": seen(1, 1)[0, 0, 1:2]}, (4,)),
    "of rows and heads": ({"attn_mask": seen(3, 4)}, (4,)),
    "of all rows": ({"attn_mask": seen(1, 4)}, (4,)),
    "causal, scaled": ({"is_causal": True, "scale": 0.3}, (4,)),
    "grouped": ({"enable_gqa": True, "attn_mask": seen(3, 1)}, (2,)),
    "without heads": ({}, ()),
}


@pytest.mark.parametrize("most", [1, 2**20])  # row by row, and all at once
@pytest.mark.parametrize("name", ATTENTION)
def test_scaled_dot_product_attention_is_masked_after_its_softmax(name, most, monkeypatch):
    monkeypatch.setattr(_random_calls, "_MOST_WEIGHTS", most)
    options, heads = ATTENTION[name]
    of_queries = heads and (4,)
    q, k, v = rows(3, *of_queries, 5, 2), rows(3, *heads, 6, 2, seed=2), rows(3, *heads, 6, 7, seed=3)
    masks, mask = Masked(), options.get("attn_mask")

    def attend(n):
        own = {"attn_mask": mask[:n]} if mask is not None and mask.ndim == 4 and len(mask) == 3 else {}
        return F.scaled_dot_product_attention(q[:n], k[:n], v[:n], dropout_p=0.3, **options | own)

    ours = masks.run(1, attend, 3)
    unit = torch.eye(6).expand(*k.shape[:-1], 6)  # whose attention is the weights
    weights = F.scaled_dot_product_attention(q, k, unit, **options) * masks.kept(0, 1) / 0.7
    v = v.repeat_interleave(4 // heads[0], 1) if heads else v
    np.testing.assert_allclose(ours, weights @ v, atol=1e-6)


@pytest.mark.parametrize("wants", [True, False])
def test_a_row_without_any_key_gives_what_torch_gives_in_training(wants):
    torch.manual_seed(0)
    layer, x, masks = nn.MultiheadAttention(4, 2, dropout=0.3, batch_first=True), rows(3, 5, 4), Masked()
    padded = torch.tensor([[False] * 5, [False, True] * 2 + [True], [True] * 5])
    ours, _ = masks.run(1, lambda n: layer(*(x[:n],) * 3, key_padding_mask=padded[:n], need_weights=wants), 3)
    theirs, _ = layer(x, x, x, key_padding_mask=padded, need_weights=wants)
    assert torch.equal(ours.isnan(), theirs.isnan())
    assert bool(ours[:2].isfinite().all())


def test_blocks_are_as_small_as_what_one_row_needs_asks_for(monkeypatch):
    monkeypatch.setattr(_dropout_calls, "MAX_KEPT", 4 * 2 * 6**2 * 40)  # bytes of the weights of 40 rows
    net = Net(
        lambda m, x: m.out(m.attend(x, x, x)[0].mean(1)), attend=lambda: nn.MultiheadAttention(4, 2, 0.3), out=(4, 3)
    )
    net.attend.batch_first, x = True, rows(300, 6, 4)
    predict = sample_posterior(net, 5, np.random.default_rng(0))
    draws = predict(x)
    assert predict.batch_size == 32
    assert_near(predict(x[:7]), draws[:, :7])


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


@pytest.mark.parametrize(
    ("kind", "options"),
    [(nn.LSTM, {}), (nn.LSTM, {"bidirectional": True}), (nn.GRU, {"batch_first": True}), (nn.RNN, {})],
)
def test_recurrent_layers_drop_what_one_passes_on_to_the_next(kind, options):
    torch.manual_seed(0)
    layer, x = kind(4, 3, num_layers=3, dropout=0.4, **options), rows(7, 5, 4)
    rows_axis, h, states = 0 if layer.batch_first else 1, x, []
    masks = Masked()
    outputs, state = masks.run(2, lambda n: layer.train()(x.narrow(rows_axis, 0, n)), x.shape[rows_axis])
    with torch.no_grad():
        for i, single in enumerate(single_layers(layer, 4)):
            h = h if i == 0 else h * masks.kept(i - 1, 2) / 0.6
            h, after = single(h)
            states.append(after if isinstance(after, tuple) else (after,))
    np.testing.assert_allclose(outputs, h, atol=1e-6)
    for ours, parts in zip(state if isinstance(state, tuple) else (state,), zip(*states, strict=True), strict=True):
        np.testing.assert_allclose(ours, torch.cat(parts), atol=1e-6)
    assert [site.shape for site in masks.sites.at] == [
        (1, 5, h.shape[-1]) if rows_axis == 0 else (7, 1, h.shape[-1])
    ] * 2


@pytest.mark.filterwarnings("ignore:dropout option adds dropout")
def test_a_net_has_dropout_where_inner_dropout_drops_something():
    for n_layers, p in ((1, 0.5), (2, 0.0), (2, 0.5)):  # one layer has none to pass anything on to
        module = Net(lambda m, x: m.layer(x)[0][:, -1], layer=nn.LSTM(4, 4, n_layers, dropout=p, batch_first=True))
        if (n_layers, p) == (2, 0.5):
            assert draw(module, rows(9, 3, 4)).std(0).max() > 0
        else:
            with pytest.raises(ValueError, match="dropout layer with a rate above 0"):
                draw(module, rows(9, 3, 4))
