"""Scores of potential outcomes, (n_draws, n_points, 2): what a row's outcome is without and with the treatment."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from ._arithmetic import eps, tiny, variance_over_draws
from ._registry import register


@register("outcomes")
def mu(draws: Tensor, *, treatment: Any) -> Tensor:
    r"""Variance of the outcome that a label would show, :math:`Var_k\, \mu_k(x, t)`.

    Parameters
    ----------
    draws : ndarray or torch.Tensor of shape (n_draws, n_points, 2)
        Predicted outcomes without and with the treatment, of any float dtype.
    treatment : array-like of shape (n_points,)
        The treatment that each row has, 0 or 1.

    Returns
    -------
    ndarray or torch.Tensor of shape (n_points,), float64
        In the outcome's units squared.

    References
    ----------
    Jesson, Tigas, van Amersfoort, Kirsch, Shalit and Gal (2021), Causal-BALD: Deep Bayesian Active Learning of
    Outcomes to Infer Treatment-Effects from Observational Data.

    Examples
    --------
    >>> from skactive.scores import mu
    >>> mu([[[0.0, 1.0], [0.0, 1.0]], [[2.0, 1.0], [2.0, 1.0]]], treatment=[0, 1])
    array([1., 0.])
    """
    return _variance_under(treatment, draws)


@register("outcomes")
def mu_pi(draws: Tensor, *, treatment: Any, propensity: Any) -> Tensor:
    r"""`mu` times the probability of the other treatment, :math:`Var_k\, \mu_k(x, t) \, P(1 - t | x)`.

    So it prefers rows that have similar rows with the other treatment.

    Parameters
    ----------
    draws, treatment
        As for `mu`.
    propensity : array-like of shape (n_points,)
        Probability of treatment 1, above 0 and below 1.

    Examples
    --------
    >>> from skactive.scores import mu_pi
    >>> mu_pi([[[0.0, 1.0], [0.0, 1.0]], [[2.0, 1.0], [2.0, 3.0]]], treatment=[0, 1], propensity=[0.25, 0.25])
    array([0.25, 0.75])
    """
    return _variance_under(treatment, draws) * torch.where(treatment == 1, 1 - propensity, propensity)


@register("outcomes")
def mu_rho(draws: Tensor, *, treatment: Any) -> Tensor:
    r"""`mu` times `rho`: prefers an uncertain outcome where the other outcome is known and the effect is not.

    Parameters
    ----------
    draws, treatment
        As for `mu`.

    Examples
    --------
    >>> from skactive.scores import mu_rho
    >>> mu_rho([[[0.0, 1.0], [0.0, 1.0]], [[2.0, 2.0], [2.0, 2.0]]], treatment=[0, 1])
    array([1.    , 0.0625])
    """
    return _variance_under(treatment, draws) * _variance_ratio(treatment, draws)


@register("outcomes")
def rho(draws: Tensor, *, treatment: Any) -> Tensor:
    r"""Variance of the effect over that of the outcome that no label can show, :math:`tau / Var_k\, \mu_k(x, 1 - t)`.

    0/0 counts as 0, and no ratio exceeds 4.5e15, where the other outcome is known up to rounding.

    Parameters
    ----------
    draws, treatment
        As for `mu`.

    Examples
    --------
    >>> from skactive.scores import rho
    >>> rho([[[0.0, 1.0], [0.0, 1.0]], [[2.0, 2.0], [2.0, 2.0]]], treatment=[0, 1])
    array([1.  , 0.25])
    """
    return _variance_ratio(treatment, draws)


@register("outcomes")
def tau(draws: Tensor) -> Tensor:
    r"""Variance of the effect of the treatment, :math:`Var_k[\mu_k(x, 1) - \mu_k(x, 0)]`.

    Parameters and returned values are those of `mu`, without the treatment.

    Examples
    --------
    >>> from skactive.scores import tau
    >>> tau([[[0.0, 1.0], [0.0, 1.0]], [[2.0, 1.0], [2.0, 3.0]]])
    array([1., 0.])
    """
    return variance_over_draws(draws[:, 1] - draws[:, 0])


def _variance_under(treatment: Tensor, outcomes: Tensor) -> Tensor:
    return variance_over_draws(torch.where(treatment == 1, outcomes[:, 1], outcomes[:, 0]))


def _variance_ratio(treatment: Tensor, outcomes: Tensor) -> Tensor:
    effect = variance_over_draws(outcomes[:, 1] - outcomes[:, 0])
    # No ratio above 1 / eps, where the other outcome is known but for rounding; the tiny floor makes 0 / 0 a 0.
    other = torch.maximum(_variance_under(1 - treatment, outcomes), effect * eps(effect))
    return effect / other.clamp_min(tiny(effect))
