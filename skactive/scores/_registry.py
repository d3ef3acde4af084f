"""The scores by name, and how a kernel for one block becomes a score of all points."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from .._checks import check_draws_shape
from .._devices import best_float
from ._blocks import blocks, device_of, mean
from ._means import has_fast_mean, score_means
from ._side_information import SIDE_INFORMATION

if TYPE_CHECKING:
    from ._signatures import Register

SCORES: dict[str, Callable[..., Any]] = {}
"""Scores by name. A score may carry two attributes: ``one_draw`` (a single draw, ``predict_proba`` say, is enough) and
``tasks`` (what it can score: draws of "classifier" and/or "regressor" models, or potential "outcomes")."""


def register(*tasks: str, one_draw: bool = False, of_mean: bool = False) -> Register:
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
