"""Scores: draws from the posterior in, one number per point out; larger means more informative.

A score is a pure function of ``draws``: an array (n_draws, n_points, n_classes) of probabilities, (n_draws, n_points)
of predicted values for regression, or (n_draws, n_points, 2) of potential outcomes. numpy in, numpy out; a torch tensor
in, a tensor on its device out. Every kernel below is written once, in torch and in float64, for a block of points small
enough to stay in the cache; `_score` feeds it block after block, so that no temporary is as large as the draws. On
Apple's GPUs, which have no float64, scores are computed there in float32, and come as float32.

Kernels see a block as (K, C, n), points last, where reductions over few classes are fast; those of scores of the mean
over draws, as (C, n). Letters in names: K draws, C classes, n points of a block. Formulas use natural logarithms and
0 log 0 = 0.

A row's score is the same to the last bit whatever stands beside it: sums over draws and classes are made of elementwise
operations, in one order. Only `epig` is made of matrix products, where that holds to rounding.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import torch
from torch import Tensor

from .._checks import check_draws_shape, sum_tolerance
from .._devices import best_float
from ._checks import (
    check_block,
    check_positive_by_point,
    check_propensity_by_point,
    check_target_draws,
    check_target_weights,
    check_treatment_by_point,
)

__all__ = [
    "SCORES",
    "bald",
    "entropy",
    "epig",
    "gaussian_bald",
    "margin",
    "mu",
    "mu_pi",
    "mu_rho",
    "rho",
    "std_dev",
    "tau",
    "variance",
    "variation_ratio",
]

SCORES: dict[str, Callable[..., Any]] = {}
"""Scores by name. A score may carry two attributes: ``one_draw`` (a single draw, ``predict_proba`` say, is enough) and
``tasks`` (what it can score: draws of "classifier" and/or "regressor" models, or potential "outcomes")."""

_BLOCK_ELEMENTS = 2**18  # 2 MiB of float64
_POINTS_OF_PRODUCT = 64
_NUMBERS_OF_MEANS = 2**15 - 1  # of a block: few enough for torch to leave them to one thread


def _score(
    *tasks: str, one_draw: bool = False, of_mean: bool = False
) -> Callable[[Callable[..., Tensor]], Callable[..., Any]]:
    """Turn a kernel for one float64 block into a registered score; what is ``of_mean`` gets its mean over draws.

    What a kernel takes by keyword has its points on the last axis, and is cut into blocks along with the draws; but
    what is named target_... is about other points, and comes whole.
    """

    def register(kernel: Callable[..., Tensor]) -> Callable[..., Any]:
        @functools.wraps(kernel)
        def score(draws: Any, **asked_for: Any) -> Any:
            draws = check_draws_shape(draws, kernel.__name__, tasks)
            of_targets = {name: value for name, value in asked_for.items() if name.startswith("target_")}
            by_point = {name: _by_point(name, asked_for[name], draws) for name in asked_for.keys() - of_targets.keys()}
            whole = _whole(draws, **of_targets) if of_targets else {}
            device = _device(draws)
            scores_n = torch.empty(draws.shape[1], dtype=best_float(device), device=device)
            if of_mean and _has_fast_mean(draws):
                _score_means(kernel, draws, scores_n)
                return scores_n if isinstance(draws, Tensor) else scores_n.numpy()
            for block, points in _blocks(draws, outcomes="outcomes" in tasks):
                parts = {name: value[..., points] for name, value in by_point.items()}
                scores_n[points] = kernel(_mean(block) if of_mean else block, **parts, **whole)
            return scores_n if isinstance(draws, Tensor) else scores_n.numpy()

        score.one_draw, score.tasks = one_draw, tasks  # type: ignore[attr-defined]
        SCORES[kernel.__name__] = score
        return score

    return register


def _device(draws: Any) -> torch.device:
    return draws.device if isinstance(draws, Tensor) else torch.device("cpu")


_CHECKS = {
    "treatment": check_treatment_by_point,
    "propensity": check_propensity_by_point,
}


def _by_point(name: str, value: Any, draws: Any) -> Tensor:
    """A float64 tensor beside the draws, of shape (n_points,) or (n_draws, n_points)."""
    device = _device(draws)
    value = torch.as_tensor(value, dtype=best_float(device), device=device)
    _CHECKS.get(name, check_positive_by_point)(name, value, draws.shape[:2])
    return value.expand(*value.shape[:-1], draws.shape[1])


def _whole(draws: Any, *, target_draws: Any, target_weights: Any = None) -> dict[str, Tensor]:
    """Draws at targets as one block (K, C, T), and their weights, which sum to 1."""
    target_draws = check_target_draws(target_draws, draws)
    block_KCT = torch.cat([block for block, _ in _blocks(target_draws)], dim=2)
    device = _device(draws)
    n_targets = block_KCT.shape[2]
    weights_T = np.ones(n_targets) if target_weights is None else target_weights
    weights_T = torch.as_tensor(weights_T, dtype=best_float(device), device=device)
    check_target_weights(weights_T, n_targets)
    return {"target_draws": block_KCT.to(weights_T), "target_weights": weights_T / weights_T.sum()}


def _blocks(draws: Any, *, outcomes: bool = False) -> Iterator[tuple[Tensor, slice]]:
    """Float64 blocks (K, C, n), or (K, n), checked to hold what they should, and the points that they are of.

    Potential ``outcomes`` (K, 2, n) are any numbers, the others with classes sum to 1.
    """
    n_points = draws.shape[1]
    tolerance = None if outcomes or draws.ndim == 2 else sum_tolerance(draws)
    step = max(1, _BLOCK_ELEMENTS * n_points // max(1, int(np.prod(draws.shape))))
    for start in range(0, n_points, step):
        points = slice(start, min(start + step, n_points))
        part = draws[:, points]
        part = part.swapaxes(1, 2) if part.ndim == 3 else part
        # A copied block, never the whole, also does away with read-only, byte-swapped and negatively strided arrays.
        if isinstance(part, Tensor):
            block = torch.empty(part.shape, dtype=best_float(part.device), device=part.device).copy_(part)
        else:
            block = torch.from_numpy(np.array(part, np.float64, order="C"))
        check_block(block, start, tolerance)
        yield block, points


def _has_fast_mean(draws: Any) -> bool:
    """Whether numpy can add up draws without a float64 copy; a single class leaves it nothing but the sum itself."""
    in_memory = not isinstance(draws, Tensor) or (draws.device.type == "cpu" and draws.layout == torch.strided)
    return in_memory and draws.shape[2] > 1 and str(draws.dtype).removeprefix("torch.") in ("float32", "float64")


def _score_means(kernel: Callable[[Tensor], Tensor], draws: Any, scores_n: Tensor) -> None:
    """Fill in scores of the mean over draws in memory, in as many threads as torch may use."""
    array = draws.detach().numpy() if isinstance(draws, Tensor) else draws
    tolerance = sum_tolerance(draws)
    n_points, n_classes = array.shape[1:]
    step = max(1, _NUMBERS_OF_MEANS // n_classes)
    starts = range(0, n_points, step)

    def fill(starts: range) -> None:
        for start in starts:
            points = slice(start, min(start + step, n_points))
            scores_n[points] = kernel(_checked_mean(array[:, points], start, tolerance))

    n_threads = min(torch.get_num_threads(), array.size // 2**20)
    if n_threads < 2:
        return fill(starts)
    with ThreadPoolExecutor(n_threads) as threads:
        each = -(-len(starts) // n_threads)
        for done in [threads.submit(fill, starts[i : i + each]) for i in range(0, len(starts), each)]:
            done.result()
    return None


def _checked_mean(part_KnC: Any, first_point: int, tolerance: float) -> Tensor:
    """The mean over draws (C, n) of probabilities, float64.

    Rows are looked at one by one where it does not go without saying that each is in order: where an entry is negative,
    or a mean is farther from the sum 1 than a single row may take it; and in the first block, where a mistake that goes
    through all rows shows even if the mean hides it. Elsewhere, rows of one point may miss the sum in opposite ways.
    """
    strides = np.abs(part_KnC.strides)
    if min(part_KnC.strides) < 0 or strides[0] < strides[1:].max():
        part_KnC = np.array(part_KnC, np.float64, order="C")  # else numpy might add in another order
    with np.errstate(invalid="ignore", over="ignore"):
        sums_nC = np.add.reduce(part_KnC, axis=0, dtype=np.float64)
        lowest = part_KnC.min()
    mean_Cn = torch.from_numpy(sums_nC).T.contiguous().div_(len(part_KnC))
    off = (mean_Cn.sum(0) - 1).abs_().amax()
    if first_point == 0 or not (lowest >= 0 and bool(off <= tolerance / len(part_KnC))):
        block = torch.from_numpy(np.array(part_KnC.swapaxes(1, 2), np.float64, order="C"))
        check_block(block, first_point, tolerance)
    return mean_Cn


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
    return x.clamp_min(_tiny(x)).log_().mul_(x)


def _eps(x: Tensor) -> float:
    return torch.finfo(x.dtype).eps


def _tiny(x: Tensor) -> float:
    return torch.finfo(x.dtype).tiny


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
    return scores_n.masked_fill_(scores_n < n_draws * n_classes * _eps(scores_n), 0.0)


@_score("classifier", one_draw=True, of_mean=True)
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
        If ``draws`` has another number of axes, or rows that are not probabilities. (Only the mean over draws counts
        here: rows of one point that miss the sum 1 in opposite ways, so that their mean does not, may pass.)

    References
    ----------
    Shannon (1948); Gal, Islam and Ghahramani (2017), Deep Bayesian Active Learning with Image Data, sec. 2.

    Examples
    --------
    >>> from skactive.scores import entropy
    >>> entropy([[[1.0, 0.0], [0.5, 0.5]]])
    array([0.        , 0.69314718])
    """
    return (0 - _fold(_x_log_x(draws))).clamp_min_(0)


@_score("classifier")
def epig(draws: Tensor, *, target_draws: Tensor, target_weights: Tensor | None = None) -> Tensor:
    r"""Expected predictive information gain: what a label tells of the labels of target points.

    The mean over targets :math:`x_*` of the mutual information of the two labels, :math:`KL(\frac1K \sum_k p_k(y|x)
    p_k(y_*|x_*) \,\|\, \bar p(y|x)\, \bar p(y_*|x_*))`, in nats. Between 0 and `bald`, and no more than the mean `bald`
    of the targets; symmetric in a point and a target; exactly 0 where all draws agree. What `bald` counts beyond it
    is what a label tells of the model where no target is. Draws must be functions, the same for points and targets.

    This score alone is made of matrix products, whose last bits depend on the processor and on what stands beside a
    point: equal points have equal scores to rounding, about n_draws ε, and not to the last bit as with other scores.

    Parameters
    ----------
    draws : ndarray or torch.Tensor of shape (n_draws, n_points, n_classes)
        Probabilities, of any float dtype; rows sum to 1.
    target_draws : ndarray or torch.Tensor of shape (n_draws, n_targets, n_classes)
        The same functions at the points that predictions matter for. A query draws them at ``X_target``. Time is
        proportional to n_points n_targets n_classes²; some hundred targets tell enough.
    target_weights : array-like of shape (n_targets,), optional
        How much each target matters, their probability, say; not negative. All the same by default.

    Returns
    -------
    ndarray or torch.Tensor of shape (n_points,), float64

    Raises
    ------
    ValueError
        If draws have other numbers of axes, of draws or of classes, or rows that are not probabilities; or if weights
        are negative or all 0.

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
    deviations_KCn, mean_Cn = _centred(draws)
    deviations_TCK, mean_TC = _centred(target_draws.permute(0, 2, 1))
    deviations_TCK = deviations_TCK.permute(1, 2, 0).contiguous()
    scores_n = torch.zeros_like(mean_Cn[0])
    n_at_once = min(n, _POINTS_OF_PRODUCT)
    n_targets_at_once = max(1, _BLOCK_ELEMENTS // (n_at_once * n_classes**2))
    for first in range(0, n, n_at_once):
        points = slice(first, min(first + n_at_once, n))
        deviations_KG, mean_G = deviations_KCn[..., points].reshape(n_draws, -1), mean_Cn[:, points].reshape(-1)
        for start in range(0, n_targets, n_targets_at_once):
            targets = slice(start, min(start + n_targets_at_once, n_targets))
            covariance_HG = deviations_TCK[targets].flatten(0, 1) @ deviations_KG / n_draws
            information_HG = _divergence(covariance_HG, mean_TC[targets].reshape(-1, 1) * mean_G)
            information_Tn = information_HG.view(targets.stop - targets.start, n_classes**2, -1).sum(1)
            scores_n[points] += target_weights[targets] @ information_Tn  # type: ignore[index]
    return scores_n.masked_fill_(scores_n < n_draws * n_classes * _eps(scores_n), 0.0)


def _centred(draws: Tensor) -> tuple[Tensor, Tensor]:
    """Draws less their mean, exactly 0 where all agree, and the mean."""
    shifted = draws - draws[0]
    offset = _mean(shifted)
    return shifted - offset, draws[0] + offset


def _divergence(covariance: Tensor, independent: Tensor) -> Tensor:
    """Terms of KL(independent + covariance || independent), each of them 0 or above.

    With u = covariance / independent, a term is (1 + u) log(1 + u) - u times the probability: no difference of
    entropies is taken, so that small information keeps its digits.
    """
    u = (covariance / independent.clamp_min(_tiny(independent))).clamp_min_(_eps(independent) - 1)
    return torch.log1p(u).mul_(u + 1).sub_(u).mul_(independent)


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


@_score("classifier", one_draw=True, of_mean=True)
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
        If ``draws`` has another number of axes, or rows that are not probabilities. (Only the mean over draws counts
        here: rows of one point that miss the sum 1 in opposite ways, so that their mean does not, may pass.)

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


@_score("classifier", one_draw=True, of_mean=True)
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
        If ``draws`` has another number of axes, or rows that are not probabilities. (Only the mean over draws counts
        here: rows of one point that miss the sum 1 in opposite ways, so that their mean does not, may pass.)

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


# Scores of potential outcomes, (n_draws, n_points, 2): what a row's outcome would be without and with the treatment.


def _variance_under(treatment: Tensor, outcomes: Tensor) -> Tensor:
    return _variance(torch.where(treatment == 1, outcomes[:, 1], outcomes[:, 0]))


def _variance_of_effect(outcomes: Tensor) -> Tensor:
    return _variance(outcomes[:, 1] - outcomes[:, 0])


def _variance_ratio(treatment: Tensor, outcomes: Tensor) -> Tensor:
    effect = _variance_of_effect(outcomes)
    return effect / torch.maximum(_variance_under(1 - treatment, outcomes), effect * _eps(effect)).clamp_min(
        _tiny(effect)
    )


@_score("outcomes")
def mu(draws: Tensor, *, treatment: Tensor) -> Tensor:
    r"""Variance of the outcome that would be bought, :math:`Var_k\, \mu_k(x, t)`.

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

    Raises
    ------
    ValueError
        If ``draws`` has another shape or is not finite, or a treatment is neither 0 nor 1.

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


@_score("outcomes")
def mu_pi(draws: Tensor, *, treatment: Tensor, propensity: Tensor) -> Tensor:
    r"""`mu` times the probability of the other treatment, :math:`Var_k\, \mu_k(x, t) \, P(1 - t | x)`.

    So rows are preferred that have their like among those treated otherwise.

    Parameters
    ----------
    draws, treatment
        As for `mu`.
    propensity : array-like of shape (n_points,)
        Probability of treatment 1, above 0 and below 1.

    Returns
    -------
    ndarray or torch.Tensor of shape (n_points,), float64

    Raises
    ------
    ValueError
        As `mu` does, or if a propensity is not between 0 and 1.

    References
    ----------
    Jesson et al. (2021), Causal-BALD.

    Examples
    --------
    >>> from skactive.scores import mu_pi
    >>> mu_pi([[[0.0, 1.0], [0.0, 1.0]], [[2.0, 1.0], [2.0, 3.0]]], treatment=[0, 1], propensity=[0.25, 0.25])
    array([0.25, 0.75])
    """
    return _variance_under(treatment, draws) * torch.where(treatment == 1, 1 - propensity, propensity)


@_score("outcomes")
def mu_rho(draws: Tensor, *, treatment: Tensor) -> Tensor:
    r"""`mu` times `rho`: an uncertain outcome where the other one is known and the effect is not.

    Parameters
    ----------
    draws, treatment
        As for `mu`.

    Returns
    -------
    ndarray or torch.Tensor of shape (n_points,), float64

    Raises
    ------
    ValueError
        As `mu` does.

    References
    ----------
    Jesson et al. (2021), Causal-BALD.

    Examples
    --------
    >>> from skactive.scores import mu_rho
    >>> mu_rho([[[0.0, 1.0], [0.0, 1.0]], [[2.0, 2.0], [2.0, 2.0]]], treatment=[0, 1])
    array([1.    , 0.0625])
    """
    return _variance_under(treatment, draws) * _variance_ratio(treatment, draws)


@_score("outcomes")
def rho(draws: Tensor, *, treatment: Tensor) -> Tensor:
    r"""Variance of the effect over that of the outcome that cannot be bought, :math:`tau / Var_k\, \mu_k(x, 1 - t)`.

    0/0 counts as 0, and no ratio as more than 4.5e15, where the other outcome is known but for rounding.

    Parameters
    ----------
    draws, treatment
        As for `mu`.

    Returns
    -------
    ndarray or torch.Tensor of shape (n_points,), float64

    Raises
    ------
    ValueError
        As `mu` does.

    References
    ----------
    Jesson et al. (2021), Causal-BALD.

    Examples
    --------
    >>> from skactive.scores import rho
    >>> rho([[[0.0, 1.0], [0.0, 1.0]], [[2.0, 2.0], [2.0, 2.0]]], treatment=[0, 1])
    array([1.  , 0.25])
    """
    return _variance_ratio(treatment, draws)


@_score("outcomes")
def tau(draws: Tensor) -> Tensor:
    r"""Variance of the effect of the treatment, :math:`Var_k[\mu_k(x, 1) - \mu_k(x, 0)]`.

    Parameters
    ----------
    draws : ndarray or torch.Tensor of shape (n_draws, n_points, 2)
        Predicted outcomes without and with the treatment, of any float dtype.

    Returns
    -------
    ndarray or torch.Tensor of shape (n_points,), float64
        In the outcome's units squared.

    Raises
    ------
    ValueError
        If ``draws`` has another shape or is not finite.

    References
    ----------
    Jesson et al. (2021), Causal-BALD.

    Examples
    --------
    >>> from skactive.scores import tau
    >>> tau([[[0.0, 1.0], [0.0, 1.0]], [[2.0, 1.0], [2.0, 3.0]]])
    array([1., 0.])
    """
    return _variance_of_effect(draws)
