"""The scores by name, and how a kernel for one block becomes a score of all points.

A block is float64 with the axes (K, C, n), or (K, n) for a regression: K draws, C classes, n points. Points come last,
where reductions over few classes are fast.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Concatenate, Literal, ParamSpec, Protocol, overload

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from .._utils.devices import best_float
from .._utils.validation import (
    DrawsError,
    ProbabilityError,
    check_draws_shape,
    has_outputs,
    kind_of_draws,
    not_binary_error,
    real_array,
    sum_tolerance,
    weights_error,
)
from ._arithmetic import device_of, mean
from ._outputs import score_outputs

_BLOCK_ELEMENTS = 2**18  # 2 MiB of float64: stays in the cache
_NUMBERS_OF_MEANS = 2**15 - 1  # of a block: few enough for torch to leave them to one thread


Side = ParamSpec("Side")  # keywords of a score besides draws, and what tells of several outputs
_Kind = Literal["classes", "numbers"] | None
_Array = NDArray[Any] | Sequence[Any]


class Score(Protocol[Side]):
    """A tensor in, a tensor out; an array in, an array out."""

    @overload
    def __call__(
        self, draws: Tensor, kind: _Kind = None, mask: Any = None, *args: Side.args, **side: Side.kwargs
    ) -> Tensor: ...
    @overload
    def __call__(
        self, draws: _Array, kind: _Kind = None, mask: Any = None, *args: Side.args, **side: Side.kwargs
    ) -> NDArray[np.float64]: ...


SCORES: dict[str, Callable[..., Any]] = {}
"""Scores by name. A score may carry three attributes: ``one_draw`` (a single draw, ``predict_proba`` say, is enough),
``tasks`` (what it can score: draws of "classifier" and/or "regressor" models, or potential "outcomes") and ``of_law``
(what a query takes instead where draws come from a normal law of weights: ``of_law(law, covariance, targets)`` is a
function that returns scores of rows; targets and rows are features)."""


def register(
    *tasks: str, one_draw: bool = False, of_mean: bool = False, **also: Any
) -> Callable[[Callable[Concatenate[Tensor, Side], Tensor]], Score[Side]]:
    """Turn a kernel for one float64 block into a registered score.

    A kernel gets a block, or the mean over its draws if it is a function ``of_mean``, and returns a tensor (n_points,).
    The keyword-only parameters of a kernel are side information: `SIDE_INFORMATION` says how each is checked. ``also``
    are further attributes of the score. A score takes two keywords more, which tell of several outputs: ``kind`` is
    what draws are of, "classes" or "numbers", and ``mask`` which outputs count.
    """

    def decorate(kernel: Any) -> Any:
        signature = inspect.signature(kernel)

        @functools.wraps(kernel)
        def score(draws: Any, *, kind: Any = None, mask: Any = None, **given: Any) -> Any:
            signature.bind(draws, **given)  # a TypeError names what is missing, or unknown
            draws = check_draws_shape(draws, kernel.__name__, tasks, kind)
            kind = kind_of_draws(draws, kind)
            if mask is not None or has_outputs(draws, kind, tasks):
                return score_outputs(functools.partial(score, kind=kind), draws, kind, given, mask)
            side = {name: SIDE_INFORMATION[name](name, x, draws) for name, x in given.items() if x is not None}
            device = device_of(draws)
            scores_n = torch.empty(draws.shape[1], dtype=best_float(device), device=device)
            if of_mean and has_fast_mean(draws):
                score_means(kernel, draws, scores_n.numpy())  # no other thread may write to tensors of inference
            else:
                for block, points in blocks(draws, are_numbers=kind == "numbers" or "outcomes" in tasks):
                    # what has points on the last axis in part, and what is about targets whole
                    of_points = {name: x if name.startswith("target_") else x[..., points] for name, x in side.items()}
                    scores_n[points] = kernel(mean(block) if of_mean else block, **of_points)
            return scores_n if isinstance(draws, Tensor) else scores_n.numpy()

        score.__module__ = __package__  # where users, pickles and doctest find it
        vars(score).update(also, one_draw=one_draw, tasks=tasks)
        SCORES[kernel.__name__] = score
        return score

    return decorate


def blocks(draws: Any, *, are_numbers: bool = False, name: str = "draws") -> Iterator[tuple[Tensor, slice]]:
    """Checked blocks, each with the slice of its points, of probabilities, or of any finite numbers."""
    n_points = draws.shape[1]
    tolerance = None if are_numbers else sum_tolerance(draws)
    step = max(1, _BLOCK_ELEMENTS * n_points // max(1, int(np.prod(draws.shape))))
    for start in range(0, n_points, step):
        points = slice(start, min(start + step, n_points))
        block = _copied(draws[:, points])
        check_block(block, start, tolerance, name)
        yield block, points


def _copied(part: Any) -> Tensor:
    """Draws (K, n, C) as a block. The copy also takes read-only, byte-swapped and negatively strided arrays."""
    part = part.swapaxes(1, 2) if part.ndim == 3 else part
    if isinstance(part, Tensor):
        return torch.empty(part.shape, dtype=best_float(part.device), device=part.device).copy_(part)
    return torch.from_numpy(np.array(part, np.float64, order="C"))


def check_block(block: Any, first_point: int, tolerance: float | None, name: str = "draws") -> None:
    """Check that a block holds probabilities, summing to 1 to within ``tolerance``; finite numbers if that is None."""
    if tolerance is None:
        if not bool(block.isfinite().all()):
            where = (~block.isfinite()).nonzero()[0].tolist()
            got = f"`{name}` must be finite. Got {block[tuple(where)].item()}"
            raise DrawsError(f"{got} in draw {where[0]} of ", first_point + where[-1], ".", "point")
        return
    sums = block.sum(1)
    if bool(block.amin() >= 0) and bool((sums - 1).abs().amax() <= tolerance):
        return
    wrong = ~((block >= 0).all(1) & ((sums - 1).abs() <= tolerance))
    draw, point = wrong.nonzero()[0].tolist()
    raise ProbabilityError(name, block[draw, :, point], f"draw {draw} of ", first_point + point, tolerance)


# --- scores of the mean over draws in memory: numpy adds draws up faster than a float64 copy of them can be made


def has_fast_mean(draws: Any) -> bool:
    """Whether numpy can add up draws without a float64 copy. With a single class there is only the sum itself."""
    in_memory = not isinstance(draws, Tensor) or (draws.device.type == "cpu" and draws.layout == torch.strided)
    return in_memory and draws.shape[2] > 1 and draws.dtype.itemsize in (4, 8)  # bytes: not of half precision


def score_means(kernel: Callable[[Tensor], Tensor], draws: Any, scores_n: NDArray[Any]) -> None:
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

    n_threads = min(torch.get_num_threads(), array.size // 2**20)  # a thread for each million numbers at most
    if n_threads < 2:
        return fill(starts)
    with ThreadPoolExecutor(n_threads) as threads:
        each = -(-len(starts) // n_threads)
        for done in [threads.submit(fill, starts[i : i + each]) for i in range(0, len(starts), each)]:
            done.result()
    return None


def _checked_mean(part_KnC: Any, first_point: int, tolerance: float) -> Tensor:
    """The mean over draws (C, n) of probabilities, float64; rows are checked one by one where it leaves doubt."""
    strides = np.abs(part_KnC.strides)
    if min(part_KnC.strides) < 0 or strides[0] < strides[1:].max() or not part_KnC.dtype.isnative:
        part_KnC = np.array(part_KnC, np.float64, order="C")  # else numpy might add in another order
    with np.errstate(invalid="ignore", over="ignore"):
        sums_nC = np.add.reduce(part_KnC, axis=0, dtype=np.float64)
        lowest = part_KnC.min()
    mean_Cn = torch.from_numpy(sums_nC).T.contiguous().div_(len(part_KnC))
    off = (mean_Cn.sum(0) - 1).abs_().amax()
    # Doubt: a negative entry, a mean farther from the sum 1 than one bad row could take it, or a first block, where a
    # mistake in all rows may be hidden by the mean.
    if first_point == 0 or not (lowest >= 0 and bool(off <= tolerance / len(part_KnC))):
        check_block(_copied(part_KnC), first_point, tolerance)
    return mean_Cn


def _tensor(name: str, value: Any, draws: Any, *shapes: tuple[int, ...], booleans: bool = False) -> Tensor:
    """Real numbers in any array or tensor; one that torch cannot share, as it is read-only, say, is copied."""
    value = real_array(name, value, booleans=booleans)
    if shapes and tuple(value.shape) not in shapes:
        wanted = " or ".join(str(shape) for shape in shapes)
        raise ValueError(f"`{name}` must have shape {wanted}, as the draws. Got shape {tuple(value.shape)} instead.")
    if not isinstance(value, Tensor):
        value = torch.from_numpy(np.require(value, np.float64, ["C_CONTIGUOUS", "WRITEABLE"]))
    device = device_of(draws)
    return value.to(device, best_float(device))


def _noise_variance(name: str, value: Any, draws: Any) -> Tensor:
    n_draws, n_points = draws.shape[:2]
    variance = _tensor(name, value, draws, (), (1,), (n_points,), (n_draws, n_points))
    if not bool(((variance > 0) & (variance < float("inf"))).all()):
        raise ValueError(f"`{name}` must be positive and finite. Got {variance.min().item()} as the smallest.")
    return variance.expand(*variance.shape[:-1], n_points)


def _treatment(name: str, value: Any, draws: Any) -> Tensor:
    treatment_n = _tensor(name, value, draws, (draws.shape[1],), booleans=True)
    wrong = treatment_n[(treatment_n != 0) & (treatment_n != 1)]
    if len(wrong):
        raise not_binary_error(wrong[0].item())
    return treatment_n


def _propensity(name: str, value: Any, draws: Any) -> Tensor:
    propensity_n = _tensor(name, value, draws, (draws.shape[1],))
    impossible = propensity_n[~((propensity_n > 0) & (propensity_n < 1))]
    if len(impossible):
        raise ValueError(
            f"`{name}` must be above 0 and below 1: an effect can be seen only where both treatments can happen. Got "
            f"{impossible[0].item()}. Leave such rows out, or give `propensity` a classifier "
            "that is less sure: calibrated, regularised, a forest of larger leaves."
        )
    return propensity_n


def _target_draws(name: str, value: Any, draws: Any) -> Tensor:
    """Draws at targets as one block (K, C, T)."""
    value = real_array(name, value, objects=False)
    shape, wanted = tuple(value.shape), (draws.shape[0], draws.shape[2])
    if len(shape) != 3 or (shape[0], shape[2]) != wanted or shape[1] == 0:
        raise ValueError(
            f"`{name}` must have shape ({wanted[0]}, n_targets, {wanted[1]}), with one target or more: the same "
            f"draws and classes as `draws`. Got shape {shape} instead."
        )
    device = device_of(draws)
    return torch.cat([block for block, _ in blocks(value, name=name)], dim=2).to(device, best_float(device))


def _target_weights(name: str, value: Any, draws: Any) -> Tensor:
    """Weights (T,) that sum to 1."""
    weights_T = _tensor(name, value, draws, booleans=True)
    total = weights_T.sum()
    if not (bool((weights_T >= 0).all()) and 0 < total.item() < float("inf")):
        raise weights_error(name, f"{weights_T.tolist()[:5]}, which sum to {total.item()}")
    return weights_T / total


SIDE_INFORMATION: dict[str, Callable[[str, Any, Any], Tensor]] = {
    "noise_variance": _noise_variance,
    "propensity": _propensity,
    "target_draws": _target_draws,
    "target_weights": _target_weights,
    "treatment": _treatment,
}
"""Each keyword with a function ``(name, value, draws)`` that checks its value; of all but targets, points come last."""
