"""Draws of many architectures: what they must be in law, and what is refused instead."""

import csv

import architectures
import pytest
import torch
from architectures import ALL, ARCHITECTURES, REFUSED, SIGMAS, compared, draws_of, make, quiet
from nets import Functions, Net, assert_near, mask, sequential
from torch.nn import functional as F

QUICK = {  # one of each kind; the others are as right or wrong, and take a second or more each
    *("dropout in place, value ignored", "dropout always on", "alpha dropout", "1-d CNN, Dropout1d"),
    *("drop path by rand", "dropout of weights", "GRU, rows second"),
    *("multi-head attention, rows second", "tokens folded into rows, token by token", "another head in training"),
}
NAMES = [name if name in QUICK else pytest.param(name, marks=pytest.mark.slow) for name in ALL]


@pytest.mark.parametrize("name", NAMES)
def test_draws_are_functions_of_a_row_with_the_moments_of_dropout_left_on(name):
    if name not in ARCHITECTURES:
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


def test_the_table_of_the_documentation_has_every_architecture_and_says_why_some_are_refused():
    with architectures.TABLE.open(encoding="utf-8") as file:
        lines = list(csv.reader(file))[1:]
    assert [line[0] for line in lines] == [architectures.as_rst(name) for name in [*ALL, *REFUSED]]
    assert not any("refused" in line[1] for line in lines[: len(ALL)])
    assert [tuple(line) for line in lines[len(ALL) :]] == [architectures.line(name) for name in REFUSED]


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
    module, x = Net(two_heads, main=(6, 3), other=sequential(0.9, (6, 3))).eval(), torch.randn(2, 6)
    functions = Functions(module, 5)
    draws = functions(x)
    kept = [site.p for site in functions.draws._sites.at]
    assert sorted(kept) == [0.5, 0.9]
    for k in range(5):
        torch.testing.assert_close(draws[k], module.main(x * mask(functions, kept.index(0.5), k) * 2).detach())
