"""Scores: draws from the posterior in, one number per point out; larger means more informative.

A score is a pure function of ``draws``: an array (n_draws, n_points, n_classes) of probabilities, or (n_draws,
n_points) of predicted values for regression. numpy in, numpy out; a torch tensor in, a tensor on its device out. Every
kernel below is written once, in torch and in float64, for a block of points small enough to stay in the cache; `_score`
feeds it block after block, so that no temporary is as large as the draws.

Kernels see a block as (K, C, n), points last, where reductions over few classes are fast. Letters in names: K draws,
C classes, n points of a block. Formulas use natural logarithms and 0 log 0 = 0.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor

from . import _validation as validation

__all__ = ["SCORES", "bald", "entropy", "gaussian_bald", "margin", "std_dev", "variance", "variation_ratio"]

SCORES: dict[str, Callable[..., Any]] = {}
"""Scores by name. A score may carry two attributes: ``one_draw`` (a single draw, ``predict_proba`` say, is enough) and
``tasks`` (what it can score: draws of "classifier" and/or "regressor" models)."""

_BLOCK_ELEMENTS = 2**18  # 2 MiB of float64
_EPS = torch.finfo(torch.float64).eps
_TINY = torch.finfo(torch.float64).tiny


def _score(*tasks: str, one_draw: bool = False) -> Callable[[Callable[..., Tensor]], Callable[..., Any]]:
    """Turn a kernel for one float64 block into a registered score.

    What a kernel takes by keyword has its points on the last axis, and is cut into blocks along with the draws.
    """

    def register(kernel: Callable[..., Tensor]) -> Callable[..., Any]:
        @functools.wraps(kernel)
        def score(draws: Any, **by_point: Any) -> Any:
            draws = validation.check_draws_shape(draws, kernel.__name__, tasks)
            by_point = {name: _by_point(name, value, draws) for name, value in by_point.items()}
            device = draws.device if isinstance(draws, Tensor) else "cpu"
            scores_n = torch.empty(draws.shape[1], dtype=torch.float64, device=device)
            for block, points in _blocks(draws):
                scores_n[points] = kernel(block, **{name: value[..., points] for name, value in by_point.items()})
            return scores_n if isinstance(draws, Tensor) else scores_n.numpy()

        score.one_draw, score.tasks = one_draw, tasks  # type: ignore[attr-defined]
        SCORES[kernel.__name__] = score
        return score

    return register


def _by_point(name: str, value: Any, draws: Any) -> Tensor:
    """A float64 tensor beside the draws, of shape (n_points,) or (n_draws, n_points)."""
    device = draws.device if isinstance(draws, Tensor) else "cpu"
    value = torch.as_tensor(value, dtype=torch.float64, device=device)
    validation.check_positive_by_point(name, value, draws.shape[:2])
    return value.expand(*value.shape[:-1], draws.shape[1])


def _blocks(draws: Any) -> Iterator[tuple[Tensor, slice]]:
    """Float64 blocks (K, C, n), or (K, n), checked to hold what they should, and the points that they are of."""
    n_points = draws.shape[1]
    step = max(1, _BLOCK_ELEMENTS * n_points // max(1, int(np.prod(draws.shape))))
    for start in range(0, n_points, step):
        points = slice(start, min(start + step, n_points))
        part = draws[:, points]
        part = part.swapaxes(1, 2) if part.ndim == 3 else part
        # A copied block, never the whole, also does away with read-only, byte-swapped and negatively strided arrays.
        if isinstance(part, Tensor):
            block = torch.empty(part.shape, dtype=torch.float64, device=part.device).copy_(part)
        else:
            block = torch.from_numpy(np.array(part, np.float64, order="C"))
        validation.check_block(block, start, validation.sum_tolerance(draws))
        yield block, points


def _fold(x: Tensor) -> Tensor:
    """Sum over the first axis, halves onto halves.

    torch's own sums add in an order that depends on a point's place in the block, so that twins in two chunks would
    get scores that differ in the last bit, and top-k would depend on the chunk size. Here only elements are added.
    """
    if len(x) == 1:
        return x[0]
    half, odd = divmod(len(x), 2)
    folded = x[:half] + x[half : 2 * half]
    if odd:
        folded[0] += x[-1]
    while half > 1:
        half, odd = divmod(half, 2)
        if odd:
            folded[0] += folded[2 * half]
        folded[:half] += folded[half : 2 * half]
    return folded[0]


def _mean(draws: Tensor) -> Tensor:
    return _fold(draws) / len(draws)


def _x_log_x(x: Tensor) -> Tensor:
    return x.clamp_min(_TINY).log_().mul_(x)


def _variance(draws: Tensor) -> Tensor:
    """Population variance over draws: exactly 0 where all agree, and no digits lost to a large common offset."""
    shifted = draws - draws[0]
    return _mean((shifted - _mean(shifted)).square())


@_score("classifier")
def bald(draws: Tensor) -> Tensor:
    r"""Mutual information between a point's label and the model's parameters.

    :math:`\frac1K \sum_k KL(p_k \| \bar p)`, which is the entropy of the mean minus the mean entropy, in nats. Between
    0 and min(log n_classes, log n_draws); exactly 0 where all draws agree.

    Parameters
    ----------
    draws : ndarray or torch.Tensor of shape (n_draws, n_points, n_classes)
        Probabilities, of any float dtype; rows sum to 1.

    Returns
    -------
    ndarray or torch.Tensor of shape (n_points,), float64

    Raises
    ------
    ValueError
        If ``draws`` has another number of axes, or rows that are not probabilities.

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
    gain_Cn = _mean(_x_log_x(draws)) - _x_log_x(_mean(draws))
    scores_n = _fold(gain_Cn)
    # What is left of equal draws is rounding of either sign; power sampling would buy it.
    return scores_n.masked_fill_(scores_n < n_draws * n_classes * _EPS, 0.0)


@_score("classifier", one_draw=True)
def entropy(draws: Tensor) -> Tensor:
    r"""Entropy of the predictive distribution, :math:`H[\bar p]`, in nats.

    Between 0 and log n_classes. One draw is enough: it then is the entropy of ``predict_proba``.

    Parameters
    ----------
    draws : ndarray or torch.Tensor of shape (n_draws, n_points, n_classes)
        Probabilities, of any float dtype; rows sum to 1.

    Returns
    -------
    ndarray or torch.Tensor of shape (n_points,), float64

    Raises
    ------
    ValueError
        If ``draws`` has another number of axes, or rows that are not probabilities.

    References
    ----------
    Shannon (1948); Gal, Islam and Ghahramani (2017), Deep Bayesian Active Learning with Image Data, sec. 2.

    Examples
    --------
    >>> from skactive.scores import entropy
    >>> entropy([[[1.0, 0.0], [0.5, 0.5]]])
    array([0.        , 0.69314718])
    """
    return (0 - _fold(_x_log_x(_mean(draws)))).clamp_min_(0)


@_score("regressor")
def gaussian_bald(draws: Tensor, *, noise_variance: Tensor) -> Tensor:
    r"""Mutual information between a point's label and the model, if both are taken for Gaussian.

    :math:`\frac12 \log(1 + Var_k \mu_k / \sigma^2)` in nats, with the population variance over draws. Where each draw
    has a noise of its own, :math:`\frac12 \log[(Var_k \mu_k + mean_k \sigma_k^2) / \exp(mean_k \log \sigma_k^2)]`. Not
    bounded by log n_draws.

    Parameters
    ----------
    draws : ndarray or torch.Tensor of shape (n_draws, n_points)
        Predicted means, of any float dtype.
    noise_variance : float or array-like of shape (n_points,) or (n_draws, n_points)
        Variance of the noise on a label, in the target's units squared; positive. A query takes it from the model.

    Returns
    -------
    ndarray or torch.Tensor of shape (n_points,), float64

    Raises
    ------
    ValueError
        If ``draws`` has another number of axes or is not finite, or a variance is not positive.

    References
    ----------
    Houlsby et al. (2011), Bayesian Active Learning for Classification and Preference Learning, for Gaussian labels.

    Examples
    --------
    >>> from skactive.scores import gaussian_bald
    >>> gaussian_bald([[0.0, 5.0], [2.0, 5.0]], noise_variance=1.0)
    array([0.34657359, 0.        ])
    """
    variance_n = _variance(draws)
    if noise_variance.ndim < 2:
        return torch.log1p(variance_n / noise_variance) / 2
    mean_n, log_mean_n = _mean(noise_variance), _mean(noise_variance.log())
    return (((variance_n + mean_n).log() - log_mean_n) / 2).clamp_min(0)


@_score("classifier", one_draw=True)
def margin(draws: Tensor) -> Tensor:
    r"""One minus the lead of the most probable class over the second.

    :math:`1 - (\bar p_{(1)} - \bar p_{(2)})`, between 0 and 1; with a single class the second counts as 0.

    Parameters
    ----------
    draws : ndarray or torch.Tensor of shape (n_draws, n_points, n_classes)
        Probabilities, of any float dtype; rows sum to 1.

    Returns
    -------
    ndarray or torch.Tensor of shape (n_points,), float64

    Raises
    ------
    ValueError
        If ``draws`` has another number of axes, or rows that are not probabilities.

    References
    ----------
    Scheffer, Decomain and Wrobel (2001), Active Hidden Markov Models for Information Extraction.

    Examples
    --------
    >>> from skactive.scores import margin
    >>> margin([[[1.0, 0.0, 0.0], [0.5, 0.3, 0.2]]])
    array([0. , 0.8])
    """
    mean_Cn = _mean(draws)
    first_n, label_n = mean_Cn.max(0)
    second_n = mean_Cn.scatter(0, label_n.unsqueeze(0), 0.0).amax(0)
    return (1 - (first_n - second_n)).clamp_min(0)


@_score("classifier", "regressor")
def std_dev(draws: Tensor) -> Tensor:
    r"""Standard deviation over draws, summed over classes.

    :math:`\sum_y \sqrt{Var_k\, p_k(y)}` with the population variance (divisor n_draws). For regression draws it is the
    standard deviation of the predicted value, in the target's units.

    Parameters
    ----------
    draws : ndarray or torch.Tensor of shape (n_draws, n_points, n_classes) or (n_draws, n_points)
        Probabilities whose rows sum to 1, or predicted values; of any float dtype.

    Returns
    -------
    ndarray or torch.Tensor of shape (n_points,), float64

    Raises
    ------
    ValueError
        If ``draws`` has another number of axes, or rows that are not probabilities.

    References
    ----------
    Kampffmeyer, Salberg and Jenssen (2016); Kirsch et al. (2023), Stochastic Batch Acquisition, appendix B.1.

    Examples
    --------
    >>> from skactive.scores import std_dev
    >>> std_dev([[1e8, 5.0], [1e8 + 1, 5.0], [1e8 + 2, 5.0]])
    array([0.81649658, 0.        ])
    """
    deviations = _variance(draws).sqrt()
    return deviations if deviations.ndim == 1 else _fold(deviations)


@_score("regressor")
def variance(draws: Tensor) -> Tensor:
    r"""Variance of the predicted value over draws, :math:`Var_k \mu_k` with divisor n_draws.

    Parameters
    ----------
    draws : ndarray or torch.Tensor of shape (n_draws, n_points)
        Predicted values, of any float dtype.

    Returns
    -------
    ndarray or torch.Tensor of shape (n_points,), float64
        In the target's units squared.

    Raises
    ------
    ValueError
        If ``draws`` has another number of axes or is not finite.

    References
    ----------
    Burbidge, Rowland and King (2007), Active Learning for Regression Based on Query by Committee.

    Examples
    --------
    >>> from skactive.scores import variance
    >>> variance([[1.0, 5.0], [3.0, 5.0]])
    array([1., 0.])
    """
    return _variance(draws)


@_score("classifier", one_draw=True)
def variation_ratio(draws: Tensor) -> Tensor:
    r"""Probability that the most probable class is wrong (least confidence), :math:`1 - \max_y \bar p(y)`.

    Between 0 and 1 - 1/n_classes.

    Parameters
    ----------
    draws : ndarray or torch.Tensor of shape (n_draws, n_points, n_classes)
        Probabilities, of any float dtype; rows sum to 1.

    Returns
    -------
    ndarray or torch.Tensor of shape (n_points,), float64

    Raises
    ------
    ValueError
        If ``draws`` has another number of axes, or rows that are not probabilities.

    References
    ----------
    Freeman (1965); Kirsch et al. (2023), Stochastic Batch Acquisition, appendix B.1.

    Examples
    --------
    >>> from skactive.scores import variation_ratio
    >>> variation_ratio([[[1.0, 0.0], [0.4, 0.6]]])
    array([0. , 0.4])
    """
    return (1 - _mean(draws).amax(0)).clamp_min(0)
