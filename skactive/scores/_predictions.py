"""Scores of predictions: class probabilities, or predicted values of a regression."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from scipy.special import expit
from torch import Tensor

from .._utils.types import Floats
from ._arithmetic import eps, fold, mean, tiny, variance_over_draws
from ._registry import register

_POINTS_OF_PRODUCT = 64  # columns of a product, for each class: enough for a fast one
_PRODUCT_ELEMENTS = 2**18  # 2 MiB of float64


@register("classifier")
def bald(draws: Tensor) -> Tensor:
    r"""Mutual information between a point's label and the model's parameters.

    :math:`\frac1K \sum_k KL(p_k \| \bar p)`, which is the entropy of the mean minus the mean entropy, in nats. Between
    0 and min(log n_classes, log n_draws); exactly 0 where all draws agree. It is the epistemic part of `entropy`, which
    more labels can reduce.

    Parameters
    ----------
    draws : ndarray or torch.Tensor of shape (n_draws, n_points, n_classes)
        Probabilities, of any float dtype; rows sum to 1.

    Returns
    -------
    ndarray or torch.Tensor of shape (n_points,), float64

    References
    ----------
    Houlsby et al. (2011), Bayesian Active Learning for Classification and Preference Learning, eq. 2.

    Examples
    --------
    >>> from skactive.scores import bald
    >>> bald([[[1.0, 0.0], [0.5, 0.5]], [[0.0, 1.0], [0.5, 0.5]]])
    array([0.69314718, 0.        ])
    """
    n_draws, n_classes, _ = draws.shape
    # Class by class, the mean of p log p less p log p of the mean: no term is negative, and one logarithm an element is
    # all it takes. The tiny floor turns 0 log 0 into 0; torch's xlogy does the same at six times the cost.
    gain_Cn = mean(_x_log_x(draws)) - _x_log_x(mean(draws))
    scores_n = fold(gain_Cn)
    # Where all draws agree, rounding of either sign is left; power sampling would choose such rows.
    return scores_n.masked_fill_(scores_n < n_draws * n_classes * eps(scores_n), 0.0)


class FallInVariance:
    r"""How much a row's label is expected to take from the variance of predictions at target rows, all by features.

    The mean over targets and classes of :math:`g_*^2 k(x, x_*)^2 / (k(x, x) + 1 / s)`, with k the covariance of the
    log-odds of a class, s = p (1 - p) what a label tells of them, and g the slope in m of the target's probability,
    moderated by its variance v: :math:`\sigma(m / \sqrt{1 + \pi v / 8})`. For a regressor k is the covariance of its
    values, 1 / s the variance of the noise, and g = 1: then it is exact (MacKay 1992; Schein and Ungar 2007).
    """

    def __init__(self, law: Any, covariance: Any, targets: Any) -> None:
        self._law, self._variances, self._with_targets = law, covariance.variances, covariance.with_targets(targets)
        shrinkage_CT = 1 / np.sqrt(1 + np.pi * covariance.variances(targets) / 8)
        slopes_CT = np.ones_like(shrinkage_CT)
        if law.log_odds is not None:
            slopes_CT = shrinkage_CT * _bernoulli_variance(shrinkage_CT * law.log_odds(targets).T)
        self._weights_CT = slopes_CT**2 / slopes_CT.size

    def __call__(self, rows: Any) -> Floats:
        pairs = zip(self._with_targets(rows), self._weights_CT, strict=True)
        pull_Cn = np.stack([covariance_nT**2 @ weights_T for covariance_nT, weights_T in pairs])
        law = self._law  # s is what a label tells of log-odds or values: a precision
        s_Cn = 1 / law.noise_variance if law.log_odds is None else _bernoulli_variance(law.log_odds(rows).T)
        return (pull_Cn * s_Cn / (1 + s_Cn * self._variances(rows))).sum(axis=0)  # 1 / s may be infinite


def _bernoulli_variance(log_odds: Floats) -> Floats:
    return expit(log_odds) * expit(-log_odds)


@register("classifier", of_law=FallInVariance)
def epig(draws: Tensor, *, target_draws: Any, target_weights: Any = None) -> Tensor:
    r"""Expected predictive information gain: what a point's label tells about the labels of target points.

    The mean over targets :math:`x_*` of the mutual information of the two labels, :math:`KL(\frac1K \sum_k p_k(y|x)
    p_k(y_*|x_*) \,\|\, \bar p(y|x)\, \bar p(y_*|x_*))`, in nats. Between 0 and `bald`, and no more than the mean `bald`
    of the targets; symmetric in a point and a target; exactly 0 where all draws agree. The difference to
    `bald` is what a label tells about the model where there is no target. Draws must be the same functions for points
    and targets.

    It uses matrix products, whose last bits depend on the processor and on the other points of the block: equal points
    have equal scores to rounding, about n_draws ε, and not to the last bit as with other scores.

    This is the score of draws. A query by "epig" needs none for logistic and Bayesian linear regressions and
    `LastLayerClassifier`, unless its ``n_draws`` or ``posterior`` ask for them: then a row's score is, in closed form,
    how much its label is expected to lower the variance of the predictions at the targets. Among regressors, only
    Bayesian linear ones have this score.

    Parameters
    ----------
    draws
        As for `bald`, as are returned values.
    target_draws : ndarray or torch.Tensor of shape (n_draws, n_targets, n_classes)
        The same functions at the points whose predictions matter. A query draws them at ``X_target``, by default at
        a thousand rows of the pool. Time is proportional to n_points n_targets n_classes²; a few hundred are enough.
    target_weights : array-like of shape (n_targets,), optional
        How much each target matters, for example its probability; not negative. Equal by default.

    References
    ----------
    Bickford Smith, Kirsch, Farquhar, Gal, Foster and Rainforth (2023), Prediction-Oriented Bayesian Active Learning,
    eq. 5.

    Examples
    --------
    >>> from skactive.scores import epig
    >>> draws = [[[1.0, 0.0], [0.5, 0.5]], [[0.0, 1.0], [0.5, 0.5]]]
    >>> epig(draws, target_draws=[[[1.0, 0.0]], [[0.0, 1.0]]])
    array([0.69314718, 0.        ])
    >>> epig(draws, target_draws=[[[0.5, 0.5]], [[0.5, 0.5]]])
    array([0., 0.])
    """
    n_draws, n_classes, n = draws.shape
    n_targets = target_draws.shape[2]
    weights_T = target_draws.new_full((n_targets,), 1 / n_targets) if target_weights is None else target_weights
    if tuple(weights_T.shape) != (n_targets,):
        raise ValueError(
            f"`target_weights` must have shape ({n_targets},), one weight a target. Got shape {tuple(weights_T.shape)}."
        )
    deviations_KCn, mean_Cn = _centred(draws)
    deviations_TCK, mean_TC = _centred(target_draws.permute(0, 2, 1))
    deviations_TCK = deviations_TCK.permute(1, 2, 0).contiguous()
    scores_n = torch.zeros_like(mean_Cn[0])
    # Points times targets in tiles, whose (C, C) tables of both labels stay in the cache.
    n_at_once = min(n, _POINTS_OF_PRODUCT)
    n_targets_at_once = max(1, _PRODUCT_ELEMENTS // (n_at_once * n_classes**2))
    for first in range(0, n, n_at_once):
        points = slice(first, min(first + n_at_once, n))
        deviations_KG, mean_G = deviations_KCn[..., points].reshape(n_draws, -1), mean_Cn[:, points].reshape(-1)
        for start in range(0, n_targets, n_targets_at_once):
            targets = slice(start, min(start + n_targets_at_once, n_targets))
            covariance_HG = deviations_TCK[targets].flatten(0, 1) @ deviations_KG / n_draws
            information_HG = _divergence(covariance_HG, mean_TC[targets].reshape(-1, 1) * mean_G)
            information_Tn = information_HG.view(targets.stop - targets.start, n_classes**2, -1).sum(1)
            scores_n[points] += weights_T[targets] @ information_Tn
    # What is left of rounding where all draws agree; power sampling would choose such rows.
    return scores_n.masked_fill_(scores_n < n_draws * n_classes * eps(scores_n), 0.0)


@register("classifier", one_draw=True, of_mean=True)
def entropy(draws: Tensor) -> Tensor:
    r"""Entropy of the predictive distribution, :math:`H[\bar p]`, in nats.

    Between 0 and log n_classes. One draw is enough: then it is the entropy of ``predict_proba``.

    Parameters and returned values are those of `bald`, but rows whose mean over draws sums to 1 may pass.

    References
    ----------
    Shannon (1948); Gal, Islam and Ghahramani (2017), Deep Bayesian Active Learning with Image Data, sec. 2.

    Examples
    --------
    >>> from skactive.scores import entropy
    >>> entropy([[[1.0, 0.0], [0.5, 0.5]]])
    array([0.        , 0.69314718])
    """
    return (0 - fold(_x_log_x(draws))).clamp_min_(0)


@register("classifier", one_draw=True, of_mean=True)
def margin(draws: Tensor) -> Tensor:
    r"""One minus the lead of the most probable class over the second.

    :math:`1 - (\bar p_{(1)} - \bar p_{(2)})`, between 0 and 1; with a single class the second counts as 0.

    Parameters and returned values are those of `entropy`.

    References
    ----------
    Scheffer, Decomain and Wrobel (2001), Active Hidden Markov Models for Information Extraction.

    Examples
    --------
    >>> from skactive.scores import margin
    >>> margin([[[1.0, 0.0, 0.0], [0.5, 0.3, 0.2]]])
    array([0. , 0.8])
    """
    first_n, label_n = draws.max(0)
    second_n = draws.scatter(0, label_n.unsqueeze(0), 0.0).amax(0)
    return (1 - (first_n - second_n)).clamp_min(0)


@register("classifier", one_draw=True, of_mean=True)
def variation_ratio(draws: Tensor) -> Tensor:
    r"""Probability that the most probable class is wrong, :math:`1 - \max_y \bar p(y)`: least confidence sampling.

    Between 0 and 1 - 1/n_classes. With two classes it ranks rows as `margin` and `entropy` do.

    Parameters and returned values are those of `entropy`.

    References
    ----------
    Freeman (1965); Kirsch et al. (2023), Stochastic Batch Acquisition, appendix B.1.

    Examples
    --------
    >>> from skactive.scores import variation_ratio
    >>> variation_ratio([[[1.0, 0.0], [0.4, 0.6]]])
    array([0. , 0.4])
    """
    return (1 - draws.amax(0)).clamp_min(0)


@register("classifier", "regressor")
def std_dev(draws: Tensor) -> Tensor:
    r"""Standard deviation over draws, summed over classes.

    :math:`\sum_y \sqrt{Var_k\, p_k(y)}` with the population variance (divisor n_draws). For regression draws it is the
    standard deviation of the predicted value, in the target's units.

    Parameters
    ----------
    draws : ndarray or torch.Tensor of shape (n_draws, n_points, n_classes) or (n_draws, n_points)
        Probabilities whose rows sum to 1, or predicted values; of any float dtype.

    References
    ----------
    Kampffmeyer, Salberg and Jenssen (2016); Kirsch et al. (2023), Stochastic Batch Acquisition, appendix B.1.

    Examples
    --------
    >>> from skactive.scores import std_dev
    >>> std_dev([[1e8, 5.0], [1e8 + 1, 5.0], [1e8 + 2, 5.0]])
    array([0.81649658, 0.        ])
    """
    deviations = variance_over_draws(draws).sqrt()
    return deviations if deviations.ndim == 1 else fold(deviations)


@register("regressor")
def variance(draws: Tensor) -> Tensor:
    r"""Variance of the predicted value over draws, :math:`Var_k \mu_k` with divisor n_draws.

    In the target's units squared. Parameters and returned values are those of `std_dev`, for predicted values.

    References
    ----------
    Burbidge, Rowland and King (2007), Active Learning for Regression Based on Query by Committee.

    Examples
    --------
    >>> from skactive.scores import variance
    >>> variance([[1.0, 5.0], [3.0, 5.0]])
    array([1., 0.])
    """
    return variance_over_draws(draws)


@register("regressor")
def gaussian_bald(draws: Tensor, *, noise_variance: Any) -> Tensor:
    r"""Mutual information between a point's label and the model, assuming that both are Gaussian.

    :math:`\frac12 \log(1 + Var_k \mu_k / \sigma^2)` in nats, with the population variance over draws. Where each draw
    has its own noise, :math:`\frac12 \log[(Var_k \mu_k + mean_k \sigma_k^2) / \exp(mean_k \log \sigma_k^2)]`. Not
    bounded by log n_draws.

    Parameters
    ----------
    draws : ndarray or torch.Tensor of shape (n_draws, n_points)
        Predicted means, of any float dtype.
    noise_variance : float or array-like of shape (n_points,) or (n_draws, n_points)
        Variance of the label noise, in the target's units squared; positive. A query takes it from the model.

    References
    ----------
    Houlsby et al. (2011), Bayesian Active Learning for Classification and Preference Learning, for Gaussian labels.

    Examples
    --------
    >>> from skactive.scores import gaussian_bald
    >>> gaussian_bald([[0.0, 5.0], [2.0, 5.0]], noise_variance=1.0)
    array([0.34657359, 0.        ])
    """
    variance_n = variance_over_draws(draws)
    if noise_variance.ndim < 2:
        return torch.log1p(variance_n / noise_variance) / 2
    mean_n, log_mean_n = mean(noise_variance), mean(noise_variance.log())
    return (((variance_n + mean_n).log() - log_mean_n) / 2).clamp_min(0)


def _x_log_x(x: Tensor) -> Tensor:
    return x.clamp_min(tiny(x)).log_().mul_(x)


def _centred(draws: Tensor) -> tuple[Tensor, Tensor]:
    """Draws less their mean, exactly 0 where all agree, and the mean."""
    shifted = draws - draws[0]
    offset = mean(shifted)
    return shifted - offset, draws[0] + offset


def _divergence(covariance: Tensor, independent: Tensor) -> Tensor:
    """Terms of KL(independent + covariance || independent), each of them 0 or above."""
    # With u = covariance / independent, a term is (1 + u) log(1 + u) - u times the probability: small information keeps
    # its digits. u is at least -1, where one label rules out the other; log1p needs a little more than that.
    u = (covariance / independent.clamp_min(tiny(independent))).clamp_min_(eps(independent) - 1)
    return torch.log1p(u).mul_(u + 1).sub_(u).mul_(independent)
