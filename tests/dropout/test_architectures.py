"""Draws of many architectures: what they must be in law, and what is refused instead."""

import re

import architectures
import pytest
import torch
from architectures import ALL, HUGGING_FACE, REFUSED, SIGMAS, Net, compared, draws_of, make, quiet
from nets import Functions, mask
from torch import nn
from torch.nn import functional as F

QUICK = {  # one of each kind; the others are as right or wrong, and take a second or more each
    *("dropout in place, value ignored", "dropout always on", "Gaussian dropout", "alpha dropout"),
    *("1-d CNN, Dropout1d", "drop path by rand", "drop path by control flow", "dropout of weights"),
    *("multi-head attention, rows second", "GRU, rows second", "tokens folded into rows, token by token"),
    *("weight norm, old", "bfloat16", "another head in training", "data parallel", "compiled"),
}
OF_TRANSFORMERS = [f"{name} (transformers)" for name in HUGGING_FACE]
NAMES = [name if name in QUICK else pytest.param(name, marks=pytest.mark.slow) for name in ALL]


def assert_near(ours, theirs):
    """Equal but for rounding: a hundred units in the last place of the largest number."""
    scale = float(theirs.abs().max())
    torch.testing.assert_close(ours, theirs, rtol=0, atol=100 * torch.finfo(theirs.dtype).eps * scale)


@pytest.mark.parametrize("name", NAMES)
def test_draws_are_functions_of_a_row_with_the_moments_of_dropout_left_on(name):
    if name in OF_TRANSFORMERS:
        pytest.importorskip("transformers", reason="the extra `test-hf` brings transformers")
    module, x = make(name)
    functions = draws_of(name, module, n_draws=12)  # two coins at 0.3 fall alike in all: 2e-4
    with quiet():
        draws = functions(x)
        assert torch.equal(functions(x), draws)
        assert_near(draws[:, 3], draws[:, 0])
        assert_near(functions(x.flip(0)).flip(1), draws)
        assert_near(torch.cat([functions(part) for part in x.split(1)], 1), draws)
    assert float(draws.double().std(0).max()) > 0
    # 15 outputs go wrong by chance with a probability of at most 2e-4, in the normal limit 2e-5: see `compare`.
    found = compared(name)
    assert max(found.z_mean, found.z_variance) <= SIGMAS, found


MESSAGES = {
    "experts that rows are sent to, dropout in each": "`predict_batch_size`=1 draws row by row",
    "sequences cut at the longest of a block": "Pad rows to one length",
    "batch norm without statistics": "`track_running_stats=True`",
    "labels asked for in training": r"In training give labels.*`sample_posterior\(n_draws, rng\)`",
    "another function in training": "Let only dropout and normalisation depend on `self.training`",
    "noise in evaluation, too": "Draw random numbers in training only",
    "noise by torch.normal": "Draw them by torch.rand, torch.randn or bernoulli_",
    "vmap over members of an ensemble": 'Set randomness="same"',
    "noise by numpy": "draw random numbers by torch.rand or bernoulli_",
    "calls that are remembered": "keep no state between calls",
    "no dropout": "Add torch.nn.Dropout layers",
    "several outputs": "Wrap it in a module",
}


def test_what_cannot_be_held_fixed_is_refused_with_the_way_out():
    found = {}
    for name in REFUSED:
        module, x = make(name)
        try:
            found[name] = draws_of(name, module, n_draws=2)(x)
        except ValueError as error:
            found[name] = str(error)
    assert [name for name in REFUSED if not re.search(MESSAGES[name], str(found[name]))] == []


def test_sequences_cut_at_the_longest_of_a_block_are_drawn_row_by_row():
    module, x = make("sequences cut at the longest of a block")
    functions = Functions(module, 4, batch_size=1)
    draws = functions(x)
    assert_near(functions(x.flip(0)).flip(1), draws)
    assert float(draws.std(0).min()) > 0


def test_a_net_whose_shapes_depend_on_values_runs_again_for_other_values():
    module, x = make("rows that are looked for")
    other = x.clone()
    other[:, 0] = torch.tensor([1.0, 1.0, 1.0, -1.0, -1.0])
    functions = Functions(module, 3)
    functions(x)
    assert_near(functions(other), Functions(module, 3).by_whole_passes(other))


def test_statistics_of_a_batch_norm_in_what_all_draws_share_stay_as_they_were():
    module, x = make("batch norm of its own")
    functions = Functions(module, 3)
    functions(x)
    functions(x)
    assert torch.equal(functions.draws.module.mean, module.mean)


@pytest.mark.parametrize("first", [True, False])
def test_dropout_of_the_net_itself_counts_beside_another_head_in_training(first):
    def two_heads(m, x):
        main = m.main(F.dropout(x, 0.5, m.training))
        if not m.training:
            return main
        return (main, m.other(x)) if first else (m.other(x), main)

    torch.manual_seed(0)
    other = nn.Sequential(nn.Dropout(0.9), nn.Linear(6, 3))
    module, x = Net(two_heads, main=nn.Linear(6, 3), other=other).eval(), torch.randn(2, 6)
    functions = Functions(module, 5)
    draws = functions(x)
    kept = [site.p for site in functions.draws._sites.at]
    assert sorted(kept) == [0.5, 0.9]
    for k in range(5):
        torch.testing.assert_close(draws[k], module.main(x * mask(functions, kept.index(0.5), k) * 2).detach())


def test_layers_may_be_left_out_by_control_flow_a_draw_at_a_time():
    def coin(m, x):
        if m.training and torch.rand(1) < 0.5:
            x = F.dropout(x, 0.25, m.training)
        return m.last(x.unsqueeze(-1).expand(-1, -1, 2)).flatten(1)

    draws = draws_of("coin", Net(coin, last=nn.Dropout1d(0.5)).eval(), n_draws=64)(torch.ones(3, 8))
    assert torch.equal(draws, draws[:, :1].expand_as(draws))
    values = [set(draw.unique().tolist()) for draw in draws]
    assert {2.0} in [value - {0.0} for value in values]  # no first dropout
    assert any(max(value) > 2.5 for value in values)  # both


def test_the_comparison_tells_a_law_from_one_whose_spread_is_a_third_larger():
    rng = torch.Generator().manual_seed(0)
    a, b, c = (torch.randn(1000, 2, 3, generator=rng, dtype=torch.float64) for _ in range(3))
    same, wider, shifted = (architectures.compare(a, other) for other in (b, 1.33 * c, c + 0.3))
    assert max(same.z_mean, same.z_variance) < SIGMAS
    assert same.low < 1 < same.high
    assert wider.z_variance > SIGMAS
    assert shifted.z_mean > SIGMAS


def test_the_table_in_the_documentation_has_every_architecture():
    lines = architectures.TABLE.read_text(encoding="utf-8").splitlines()
    assert len(lines) == 1 + len(ALL) + len(REFUSED)
    for name, line in zip([*ALL, *REFUSED], lines[1:], strict=True):
        written = architectures.as_rst(name)
        assert line.startswith((f"{written},", f'"{written}",'))
        assert ("refused" in line) == (name in REFUSED)
