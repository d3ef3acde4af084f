"""EPIG: what a point's label tells about the labels of target points."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from ._registry import eps, mean, register, tiny

_POINTS_OF_PRODUCT = 64  # columns of a product, for each class: enough for a fast one
_PRODUCT_ELEMENTS = 2**18  # 2 MiB of float64


@register("classifier")
def epig(draws: Tensor, *, target_draws: Any, target_weights: Any = None) -> Tensor:
    r"""Expected predictive information gain: what a point's label tells about the labels of target points.

    The mean over targets :math:`x_*` of the mutual information of the two labels, :math:`KL(\frac1K \sum_k p_k(y|x)
    p_k(y_*|x_*) \,\|\, \bar p(y|x)\, \bar p(y_*|x_*))`, in nats. Between 0 and `bald`, and no more than the mean `bald`
    of the targets; symmetric in a point and a target; exactly 0 where all draws agree. The difference to
    `bald` is what a label tells about the model where there is no target. Draws must be the same functions for points
    and targets.

    Made of matrix products, whose last bits depend on the processor and on the other points of the block: equal points
    have equal scores to rounding, about n_draws ε, and not to the last bit as with other scores.

    Parameters
    ----------
    draws : ndarray or torch.Tensor of shape (n_draws, n_points, n_classes)
        Probabilities, of any float dtype; rows sum to 1.
    target_draws : ndarray or torch.Tensor of shape (n_draws, n_targets, n_classes)
        The same functions at the points whose predictions matter. A query draws them at ``X_target``. Time is
        proportional to n_points n_targets n_classes²; some hundred targets are enough.
    target_weights : array-like of shape (n_targets,), optional
        How much each target matters, for example its probability; not negative. All the same by default.

    Returns
    -------
    ndarray or torch.Tensor of shape (n_points,), float64

    Raises
    ------
    ValueError
        If draws differ in their number or classes, or rows are no probabilities; or if weights are negative or all 0.

    See Also
    --------
    scores.bald : Information about the model as a whole.

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


def _centred(draws: Tensor) -> tuple[Tensor, Tensor]:
    """Draws less their mean, exactly 0 where all agree, and the mean."""
    shifted = draws - draws[0]
    offset = mean(shifted)
    return shifted - offset, draws[0] + offset


def _divergence(covariance: Tensor, independent: Tensor) -> Tensor:
    """Terms of KL(independent + covariance || independent), each of them 0 or above.

    With u = covariance / independent, a term is (1 + u) log(1 + u) - u times the probability: no difference of
    entropies is taken, so that small information keeps its digits.
    """
    # u is at least -1, where one label rules out the other; log1p needs a little more than that.
    u = (covariance / independent.clamp_min(tiny(independent))).clamp_min_(eps(independent) - 1)
    return torch.log1p(u).mul_(u + 1).sub_(u).mul_(independent)
