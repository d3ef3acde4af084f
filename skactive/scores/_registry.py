"""The scores by name, how a kernel for one block becomes a score of all points, and what scores may ask for.

A score asks for more than draws by the name of a keyword-only parameter. What a query can give is in `skactive.query`.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any, Concatenate, ParamSpec, Protocol, overload

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from .._checks import check_draws_shape, not_binary_error, real_array, weights_error
from .._devices import best_float
from ._blocks import blocks, device_of, has_fast_mean, mean, score_means

Part = Callable[[slice], Tensor]
Reader = Callable[[str, Any, Any], Part]  # (name, value, draws) -> part of a block
Side = ParamSpec("Side")  # keywords of a score besides draws


class Score(Protocol[Side]):
    """A tensor in, a tensor out; an array in, an array out."""

    @overload
    def __call__(self, draws: Tensor, *args: Side.args, **side: Side.kwargs) -> Tensor: ...
    @overload
    def __call__(
        self, draws: NDArray[Any] | Sequence[Any], *args: Side.args, **side: Side.kwargs
    ) -> NDArray[np.float64]: ...


SCORES: dict[str, Callable[..., Any]] = {}
"""Scores by name. A score may carry two attributes: ``one_draw`` (a single draw, ``predict_proba`` say, is enough) and
``tasks`` (what it can score: draws of "classifier" and/or "regressor" models, or potential "outcomes")."""


def register(
    *tasks: str, one_draw: bool = False, of_mean: bool = False
) -> Callable[[Callable[Concatenate[Tensor, Side], Tensor]], Score[Side]]:
    """Turn a kernel for one float64 block into a registered score.

    A kernel gets a block (n_draws, n_classes, n_points), or (n_draws, n_points) for a regression, and returns a tensor
    (n_points,). If it is a function ``of_mean``, it gets the mean over draws instead. A score of ``one_draw`` makes
    sense for a single one, so that a model's own ``predict_proba`` will do.

    The keyword-only parameters of a kernel are side information: `SIDE_INFORMATION` says how each is checked and cut.
    """

    def decorate(kernel: Any) -> Any:
        side_information = _side_information(kernel)

        @functools.wraps(kernel)
        def score(draws: Any, **given: Any) -> Any:
            draws = check_draws_shape(draws, kernel.__name__, tasks)
            side = side_information(given, draws)
            device = device_of(draws)
            scores_n = torch.empty(draws.shape[1], dtype=best_float(device), device=device)
            if of_mean and has_fast_mean(draws):
                score_means(kernel, draws, scores_n)
            else:
                for block, points in blocks(draws, outcomes="outcomes" in tasks):
                    of_block = kernel(mean(block) if of_mean else block, **side(points))
                    scores_n[points] = _one_a_point(of_block, block, kernel.__name__)
            return scores_n if isinstance(draws, Tensor) else scores_n.numpy()

        score.__module__ = __package__  # where users, pickles and doctest find it
        score.one_draw, score.tasks = one_draw, tasks  # type: ignore[attr-defined]
        SCORES[kernel.__name__] = score
        return score

    return decorate


def _one_a_point(of_block: Tensor, block: Tensor, name: str) -> Tensor:
    if of_block.shape != block.shape[-1:]:
        raise ValueError(
            f"`{name}` must return a number for each point of a block, shape {tuple(block.shape[-1:])}. Got shape "
            f"{tuple(of_block.shape)} for a block {tuple(block.shape)}: draws come first, points last."
        )
    return of_block


def _side_information(
    kernel: Callable[..., Tensor],
) -> Callable[[dict[str, Any], Any], Callable[[slice], dict[str, Tensor]]]:
    """A function that checks what is given by keyword, and returns the part of it that a block of points gets."""
    parameters = inspect.signature(kernel).parameters.values()
    asked = [p.name for p in parameters if p.kind is p.KEYWORD_ONLY and p.default is p.empty]
    readers = {p.name: SIDE_INFORMATION[p.name] for p in parameters if p.kind is p.KEYWORD_ONLY}

    def read(given: dict[str, Any], draws: Any) -> Callable[[slice], dict[str, Tensor]]:
        for unknown in given.keys() - readers.keys():
            raise TypeError(f"{kernel.__name__}() got an unexpected keyword argument {unknown!r}")
        for name in asked:
            if given.get(name) is None:
                raise TypeError(f"`{name}` must be given for {kernel.__name__}, as a keyword. Got none.")
        parts = {name: readers[name](name, value, draws) for name, value in given.items() if value is not None}
        return lambda points: {name: part(points) for name, part in parts.items()}

    return read


# --- side information: how each keyword is checked, and which part of it a block of points gets


def _by_point(check: Callable[[str, Tensor, Any], None], *, booleans: bool = False) -> Reader:
    """Numbers with points on the last axis, cut into blocks along with the draws."""

    def read(name: str, value: Any, draws: Any) -> Part:
        tensor = _tensor(name, value, draws, booleans=booleans)
        check(name, tensor, draws.shape[:2])
        tensor = tensor.expand(*tensor.shape[:-1], draws.shape[1])
        return lambda points: tensor[..., points]

    return read


def _whole(prepare: Callable[[str, Any, Any], Tensor]) -> Reader:
    """Something that is not about the points, but the same for every block."""

    def read(name: str, value: Any, draws: Any) -> Part:
        tensor = prepare(name, value, draws)
        return lambda points: tensor

    return read


def _tensor(name: str, value: Any, draws: Any, *, booleans: bool) -> Tensor:
    """Real numbers in any array or tensor; one that torch cannot share, as it is read-only, say, is copied."""
    value = real_array(name, value, booleans=booleans)
    if not isinstance(value, Tensor):
        value = torch.from_numpy(np.require(value, np.float64, ["C_CONTIGUOUS", "WRITEABLE"]))
    device = device_of(draws)
    return value.to(device, best_float(device))


def _check_positive(name: str, value: Tensor, shape: Any) -> None:
    n_draws, n_points = shape
    if tuple(value.shape) not in [(), (1,), (n_points,), (n_draws, n_points)]:
        raise ValueError(
            f"`{name}` must be a number, or have shape ({n_points},) or ({n_draws}, {n_points}) as the draws. "
            f"Got shape {tuple(value.shape)} instead."
        )
    if not bool(((value > 0) & (value < float("inf"))).all()):
        raise ValueError(f"`{name}` must be positive and finite. Got {value.min().item()} as the smallest.")


def _check_binary(name: str, value: Tensor, shape: Any) -> None:
    _check_one_a_point(name, value, shape)
    if not bool(((value == 0) | (value == 1)).all()):
        raise not_binary_error(value[(value != 0) & (value != 1)][0].item())


def _check_propensity(name: str, value: Tensor, shape: Any) -> None:
    _check_one_a_point(name, value, shape)
    possible = (value > 0) & (value < 1)
    if not bool(possible.all()):
        raise ValueError(
            f"`{name}` must be above 0 and below 1: an effect can be known only where both treatments can happen. Got "
            f"{value[~possible][0].item()}. Leave such rows out, or give `propensity` a classifier "
            "that is less sure: calibrated, regularised, a forest of larger leaves."
        )


def _check_one_a_point(name: str, value: Tensor, shape: Any) -> None:
    if tuple(value.shape) != (shape[1],):
        raise ValueError(
            f"`{name}` must have shape ({shape[1]},), one number a point. Got shape {tuple(value.shape)} instead."
        )


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
    if weights_T.ndim != 1 or not len(weights_T):
        raise ValueError(f"`{name}` must have shape (n_targets,). Got shape {tuple(weights_T.shape)} instead.")
    if not bool(((weights_T >= 0) & (weights_T < float("inf"))).all()) or not bool(weights_T.sum() > 0):
        raise weights_error(name, str(weights_T.min().item()) + " as the smallest")
    if weights_T.sum().isinf():  # finite weights can have a sum that is not
        weights_T = weights_T / weights_T.max()
    return weights_T / weights_T.sum()


SIDE_INFORMATION: dict[str, Reader] = {
    "noise_variance": _by_point(_check_positive),
    "propensity": _by_point(_check_propensity),
    "target_draws": _whole(_target_draws),
    "target_weights": _whole(_target_weights),
    "treatment": _by_point(_check_binary, booleans=True),
}
"""Each keyword with a function ``(name, value, draws)`` that checks its value and returns ``part(points)``."""
