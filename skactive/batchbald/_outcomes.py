"""Joint outcomes of the labels of a batch, and what they leave to be known: the arithmetic of BatchBALD.

An outcome g is one way in which the labels of a batch can come out: q_g is its weight (its probability, while all
outcomes are there) and W_gk the probability of draw k once it is seen. The information that the batch leaves to be had
is sum_g q_g H[W_g]. One more row x takes

    sum_g q_g I_g(x),    I_g(x) = H[sum_k W_gk p_k(.|x)] - sum_k W_gk H[p_k(.|x)],

of it: its gain. Every I_g(x) lies between 0 and H[W_g].

Outcomes that leave nothing are dropped, and of too many some are sampled in proportion to what they leave, q_g H[W_g]:
unbiased for every gain, and with the same total. Outcomes that are merged, their q added and their W averaged, can only
be worth more (the entropy is concave, the rest linear): a few hundred of them bound a gain from above.

Letters in names: G outcomes, H of one label more, M merged ones, K draws, C classes, n candidate rows.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from .._utils.devices import best_float

_COLUMNS = 2048  # classes times candidates in a block
_BLOCK_BYTES = 2**19  # of predictions for some outcomes and these columns: stays in the cache
_ROWS_AT_ONCE = 2**10  # outcomes whose labels are looked at
_NOTHING = 1e-13  # nats that an outcome leaves: rounding
_TINY = 1e-30  # stands for a probability of 0 under a logarithm, in float32, too


@dataclass(frozen=True)
class Outcomes:
    """Outcomes of a batch: how probable each makes the draws, how much it counts, and what it leaves to be known."""

    posteriors: Tensor  # W (n_outcomes, n_draws), float64; rows sum to 1
    weights: Tensor  # q (n_outcomes,)
    remaining: Tensor  # q_g H[W_g] (n_outcomes,), in nats
    exact: bool = True  # whether these are all outcomes that leave something

    @classmethod
    def of_no_labels(cls, n_draws: int, device: torch.device | str = "cpu") -> Outcomes:
        """The one outcome of an empty batch: all draws are as probable as before."""
        new = functools.partial(torch.full, dtype=best_float(device), device=device)
        return cls(new((1, n_draws), 1 / n_draws), new((1,), 1.0), new((1,), math.log(n_draws)))

    def __len__(self) -> int:
        return len(self.weights)

    @property
    def left(self) -> float:
        """Information that there is still to be had, in nats."""
        return float(self.remaining.sum())

    @property
    def weight(self) -> float:
        """Sum of the weights: the scale of sums over outcomes."""
        return float(self.weights.sum())

    def extended(self, draws_KC: Tensor, most: int, rng: np.random.Generator) -> Outcomes:
        """Outcomes of a batch of one more row with these draws; if they are more than ``most``, a sample of so many."""
        p_KC = _normalised(draws_KC.unsqueeze(1))[:, 0]
        n_classes = p_KC.shape[1]
        blocks = zip(self.posteriors.split(_ROWS_AT_ONCE), self.weights.split(_ROWS_AT_ONCE), strict=True)
        left_H = torch.cat([(_left_by_label(W_gK, p_KC) * q_g.unsqueeze(1)).flatten() for W_gK, q_g in blocks])
        chosen_H = left_H.nonzero()[:, 0]
        left_H, exact = left_H[chosen_H], self.exact
        growth_H = torch.ones_like(left_H)
        if len(chosen_H) > most:
            sample, new_left_H = _sample(left_H, most, rng)
            chosen_H, growth_H, left_H, exact = chosen_H[sample], new_left_H / left_H[sample], new_left_H, False
        outcome_H, label_H = chosen_H // n_classes, chosen_H % n_classes
        W_HK = self.posteriors[outcome_H].mul_(p_KC.T[label_H])
        m_H = W_HK.sum(1)
        return Outcomes(W_HK.div_(m_H.unsqueeze(1)), self.weights[outcome_H] * m_H * growth_H, left_H, exact)

    def merged(self, most: int) -> Outcomes:
        """At most ``most`` outcomes in place of these, like merged with like: their gains are upper bounds."""
        # Centres are spread evenly over the information that is left; an outcome goes to the one of the least
        # Kullback-Leibler divergence. A poor choice makes bounds loose, and never wrong.
        W_GK, q_G = self.posteriors, self.weights
        ticks = (torch.arange(most, dtype=q_G.dtype, device=q_G.device) + 0.5) * (self.left / most)
        centres_MK = W_GK[_inverse(self.remaining.cumsum(0), ticks).unique()]
        nearest_G = (W_GK.float() @ centres_MK.float().clamp_min(1e-6).log_().T).argmax(1)
        q_M = q_G.new_zeros(len(centres_MK)).index_add_(0, nearest_G, q_G)
        W_MK = torch.zeros_like(centres_MK).index_add_(0, nearest_G, W_GK * q_G.unsqueeze(1))
        W_MK, q_M = W_MK[q_M > 0] / q_M[q_M > 0].unsqueeze(1), q_M[q_M > 0]
        return Outcomes(W_MK, q_M, torch.special.entr(W_MK).sum(1) * q_M, self.exact)

    def gains(self, draws_KnC: Tensor, dtype: torch.dtype) -> Tensor:
        """Gains of candidates, shape (n,), float64, in arithmetic of this ``dtype`` or what the device has."""
        dtype = min(dtype, self.weights.dtype, key=lambda kind: kind.itemsize)
        W_GK, q_G, q_K = self.posteriors.to(dtype), self.weights.to(dtype), self.weights @ self.posteriors
        step = max(1, _COLUMNS // draws_KnC.shape[2])
        return torch.cat([_gains(W_GK, q_G, q_K, block_KnC) for block_KnC in draws_KnC.split(step, dim=1)])

    def standard_error(self, draws_KC: Tensor) -> float:
        """Monte Carlo standard error of a row's gain; 0 if these are all outcomes."""
        if self.exact:
            return 0.0
        # Sampled in proportion to what they leave, outcomes vary in the part of it that the row takes.
        p_KCn, entropy_Kn = _classes_first(draws_KC.unsqueeze(1), self.posteriors.dtype)
        entropy_G = torch.special.entr(self.posteriors @ p_KCn[..., 0]).sum(1)
        taken_G = self.weights * (entropy_G - (self.posteriors @ entropy_Kn)[:, 0])
        return float((taken_G - self.remaining * (taken_G.sum() / self.left)).norm())


def _left_by_label(W_GK: Tensor, p_KC: Tensor) -> Tensor:
    """What an outcome and then a label leave to be known, times the label's probability m: m H[W p / m], (G, C)."""
    m_GC = W_GK @ p_KC
    # -sum_k W p log(W p / m) without an array (G, K, C): log(W p) is a sum, and makes two products.
    log_GC = torch.special.xlogy(W_GK, W_GK) @ p_KC + W_GK @ torch.special.xlogy(p_KC, p_KC)
    left_GC = torch.special.xlogy(m_GC, m_GC) - log_GC
    return torch.where(left_GC > _NOTHING * m_GC, left_GC, 0.0)


def _gains(W_GK: Tensor, q_G: Tensor, q_K: Tensor, draws_KnC: Tensor) -> Tensor:
    """Gains of a block of candidates; sums over many outcomes are in float64, ``q_K`` is one of them."""
    p_KCn, entropy_Kn = _classes_first(draws_KnC, W_GK.dtype)
    columns_KN = p_KCn.flatten(1)
    minus_entropy_N = torch.zeros(columns_KN.shape[1], dtype=q_K.dtype, device=q_G.device)
    step = max(1, _BLOCK_BYTES // (columns_KN.shape[1] * columns_KN.element_size()))
    for W_gK, q_g in zip(W_GK.split(step), q_G.split(step), strict=True):
        m_gN = W_gK @ columns_KN
        minus_entropy_N += q_g @ m_gN.log().mul_(m_gN)
    expected_n = q_K @ entropy_Kn.to(q_K)
    return (-minus_entropy_N.view(p_KCn.shape[1:]).sum(0) - expected_n).clamp_min_(0)


def _normalised(draws_KnC: Tensor) -> Tensor:
    """Float64 rows that sum to 1, not only to the precision of float32 or float16: joint probabilities are products."""
    p_KnC = draws_KnC.to(best_float(draws_KnC.device))
    return p_KnC / p_KnC.sum(-1, keepdim=True)


def _classes_first(draws_KnC: Tensor, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """Probabilities (K, C, n), none of them 0, and their entropies (K, n)."""
    p_KCn = _normalised(draws_KnC).transpose(1, 2).to(dtype).contiguous().clamp_min_(_TINY)
    return p_KCn, -(p_KCn.log().mul_(p_KCn)).sum(1)


def _sample(weights: Tensor, n: int, rng: np.random.Generator) -> tuple[Tensor, Tensor]:
    """Choose n positions at random and give them weights whose expectations are the weights given.

    The largest keep their weights. The others share what is left equally, one from each stretch of as much of it, in
    their order (Fearnhead and Clifford, 2003).
    """
    large, n_large, share = torch.zeros_like(weights, dtype=torch.bool), -1, 0.0
    while n_large < int(large.sum()):
        n_large = int(large.sum())
        share = float(weights[~large].sum()) / (n - n_large)
        large = weights > share
    small = (~large).nonzero()[:, 0]
    # A random number for each stretch: with the same place in all of them, labels of one outcome being neighbours,
    # nearly all outcomes would get the same label.
    ticks = torch.from_numpy(np.arange(n - n_large) + rng.random(n - n_large)).to(weights)
    drawn = small[_inverse(weights[small].cumsum(0), ticks * share)]
    chosen = torch.cat([large.nonzero()[:, 0], drawn]).sort().values
    return chosen, weights[chosen].clamp_min(share)


def _inverse(cumulative: Tensor, values: Tensor) -> Tensor:
    """Where in the cumulative sums each value falls."""
    return torch.searchsorted(cumulative, values, right=True).clamp_max_(len(cumulative) - 1)


def as_tensor(draws: Any) -> Tensor:
    """A tensor as it is, but for its gradient; an array in a dtype that torch knows."""
    if isinstance(draws, Tensor):
        return draws.detach()
    draws = np.asarray(draws)
    dtype = np.float32 if draws.dtype == np.float32 else np.float64
    return torch.from_numpy(np.require(draws, dtype, ["C", "W"]))
